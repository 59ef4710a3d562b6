"""Advantage estimators: what each estimates, with which bias and variance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from studies.frame import (
    Claim,
    Panel,
    ResultRow,
    Results,
    Series,
    Study,
    StudyFigure,
    StudyReport,
    read_data,
)
from ttt_envs.game.game import Game
from ttt_eval.audit import Auditor, AuditSettings
from ttt_eval.audit.errors import ROUNDING
from ttt_eval.store.result_store import Unit

EXACT = "exact"
LEARNED = "learned:100"
"""Critics: exact values, and mean returns of so few other episodes that they are wrong."""
LAMBDAS = (0.0, 0.25, 0.5, 0.75, 0.9, 0.95, 1.0)
GAE = [f"gae:lam={lam:g}" for lam in LAMBDAS]
SMALL = (2, 3, 2)
LARGER = (3, 3, 3)
"""Rows, columns and win lengths."""
LATE = "oxo/xo./x.. o"
EARLIER = "ox./.../x.. o"
"""Positions of the larger board from which groups of three episodes, and episodes of another
policy, are enumerated.
"""
TARGET = "optimal:epsilon=0.5"
"""Policy that is audited off policy, from episodes of random play."""
SKIPS = (0.0, 0.25, 0.5)
WHOLE = "whole episodes"
TRUNCATED = "truncated after 2 decisions"
GROUPS = "groups"
OFF_POLICY = "off policy"
"""Kinds of episodes."""
ESTIMATORS: Mapping[str, Sequence[str]] = {
    WHOLE: [*GAE, "n-step:n=2", "n-step:n=3", "monte-carlo", "return-minus-value", "td-lambda",
            "gae-finite"],
    TRUNCATED: ["gae", "gae:bootstrap=false", "gae-finite", "gae:lam=1",
                "gae:lam=1,bootstrap=false"],
    GROUPS: ["rloo", "grpo", "grpo:scale=false", "per-turn", "per-turn:leave_one_out=true",
             "per-turn-return"],
    # no ratio is as large as 1000: V-trace without truncation, and of the second weight alone
    OFF_POLICY: [
        "importance-sampling", "v-trace:max_rho=1000,max_c=1000", "v-trace:max_rho=1000", "v-trace",
        *GAE[::6],
    ],
}  # fmt: skip
EQUAL = 1e-9
"""Maximum distance of the cosine of parallel vectors from 1."""
ERRORS = {"bias_squared": "bias^2", "variance": "variance", "mse": "mean squared error"}


class Estimators(Study):
    """Random play against random play, moving first; the estimated gradient is that of uniform
    softmax play. All episodes are enumerated, so all numbers are exact: those of 2 x 3, two to win,
    and from two positions of 3 x 3. Values are exact, or learned: the mean returns of 100 other
    episodes, by position. Numbers are errors of the policy gradient of one episode, as sums of
    squares over all logits; result.json also has those of advantages. Groups have two episodes, or
    three from a position with three cells left, whose results include draws. Off policy, random
    play makes the episodes and perfect play with a random move half of the time is audited;
    positions count as often as random play visits them. `evaluate.py audit` measures an estimator
    on any game, from sampled episodes too. Sources: Schulman et al. (2016), High-Dimensional
    Continuous Control Using Generalized Advantage Estimation (https://arxiv.org/abs/1506.02438);
    rlevo issue 343 (https://github.com/anthonytorlucci/rlevo/issues/343), after Doering et al.
    (2026), An Approximate Ascent Approach To Prove Convergence of PPO
    (https://arxiv.org/abs/2602.03386); verl issue 7244
    (https://github.com/verl-project/verl/issues/7244); Pardo et al. (2018), Time Limits in
    Reinforcement Learning (https://arxiv.org/abs/1712.00378); Precup, Sutton and Singh (2000),
    Eligibility Traces for Off-Policy Policy Evaluation; Espeholt et al. (2018), IMPALA
    (https://arxiv.org/abs/1802.01561); Kool et al. (2019), Buy 4 REINFORCE Samples, Get a Baseline
    for Free!; Ahmadian et al. (2024), Back to Basics (https://arxiv.org/abs/2402.14740); Liu et al.
    (2025), Understanding R1-Zero-Like Training (https://arxiv.org/abs/2503.20783).
    """

    title = "Advantage estimators against exact advantages"
    source = "Schulman et al. (2016) on GAE, Espeholt et al. (2018) on V-trace, and others"
    left_out = "all skip chances but .25, and the positions of 3 x 3"

    def units(self, quick: bool) -> list[Unit]:
        """Return a unit for each kind of episodes, game and critic."""
        places: list[tuple[str, tuple[int, ...], float, str]] = [
            *((kind, SMALL, skip, "") for skip in SKIPS for kind in (WHOLE, TRUNCATED)),
            *((GROUPS, SMALL, skip, "") for skip in SKIPS[:2]),
            (GROUPS, LARGER, SKIPS[1], LATE),
            (OFF_POLICY, SMALL, SKIPS[1], ""),
            (OFF_POLICY, LARGER, SKIPS[1], EARLIER),
        ]
        units: list[Unit] = []
        for kind, board, skip, position in places:
            if quick and (board != SMALL or skip != SKIPS[1]):
                continue
            place = {"kind": kind, "board": list(board), "skip": skip, "position": position}
            units.append({**place, "critic": EXACT})
            if kind != GROUPS:
                units.append({**place, "critic": LEARNED})
        return units

    def measure(self, unit: Unit) -> dict[str, object]:
        """Audit the estimators of a unit: a policy that moves first, against random play."""
        kind = unit["kind"]
        settings = AuditSettings(
            critic=unit["critic"],
            episodes=None,
            group_size=3 if unit["position"] else 2,
            max_steps=2 if kind == TRUNCATED else None,
            position=unit["position"],
            behaviour="random" if kind == OFF_POLICY else None,
        )
        rows, columns, win_length = unit["board"]
        game = Game(rows, columns, win_length, unit["skip"])
        auditor = Auditor(game, TARGET if kind == OFF_POLICY else "random", "random", settings)
        return {name: auditor.audit(name).to_dict() for name in ESTIMATORS[kind]}

    def analyse(self, results: Results) -> StudyReport:
        """Report biases and variances, and verdicts on the claims."""
        rows = []
        for unit, audits in results:
            rows_on_board, columns, _ = unit["board"]
            place = f"{rows_on_board} x {columns}"
            if unit["position"]:
                place += f" from {unit['position']}"
            values = "exact" if unit["critic"] == EXACT else "learned"
            label = f"{place}, skip {unit['skip']:g}, {unit['kind']}, {values} values"
            for estimator, audit in audits.items():
                errors = {name: audit["gradient"][key]["mean"] for key, name in ERRORS.items()}
                rows.append(ResultRow(f"{label}: {estimator}", None, errors))
        data = read_data("estimators")
        claims = []
        for claim in data["bias"]:
            biases = [bias for row in _numbers(results, claim, "bias_squared") for bias in row]
            holds = min(biases) > ROUNDING if claim["biased"] else max(biases) <= ROUNDING
            numbers = {"squared bias": [min(biases), max(biases)]}
            claims.append(Claim(claim["words"], holds, numbers))
        for claim in data["less"]:
            games = _numbers(results, claim, claim["measure"])
            columns_of_estimators = zip(*games, strict=True)
            numbers = dict(zip(claim["estimators"], map(list, columns_of_estimators), strict=True))
            holds = all(row[0] < min(row[1:]) for row in games)
            claims.append(Claim(claim["words"], holds, numbers))
        angles = [
            max(0.0, 1 - result["grpo"]["cosine"]["mean"])
            for unit, result in results
            if unit["kind"] == GROUPS
        ]
        words = (
            "advantages that are divided by the standard deviation of the group give a biased "
            "gradient"
        )
        claims.append(
            Claim(f"Liu et al. (2025): {words}", max(angles) > EQUAL, {"1 - cosine": angles})
        )
        return StudyReport(rows, claims, {"estimators-lambda": _figure(results)}, "of gradients")


def _numbers(results: Results, claim: Mapping[str, Any], measure: str) -> list[list[float]]:
    """Return a measure of the gradients of a claim's estimators, in all games of its kind with its
    critic.
    """
    kind = claim["kind"], claim["critic"]
    games = [audits for unit, audits in results if (unit["kind"], unit["critic"]) == kind]
    return [
        [float(game[name]["gradient"][measure]["mean"]) for name in claim["estimators"]]
        for game in games
    ]


def _figure(results: Results) -> StudyFigure:
    """Return the bias and variance of GAE by lambda, on the board of 2 x 3 with skips."""
    own = [(unit, audits) for unit, audits in results if unit["skip"] == SKIPS[1]]
    panels = []
    for critic, values in ((EXACT, "exact values"), (LEARNED, "learned values")):
        claim = {"kind": WHOLE, "critic": critic, "estimators": GAE}
        series = [
            Series(ERRORS[key], LAMBDAS, _numbers(own, claim, key)[0], "o-", index)
            for index, key in enumerate(("bias_squared", "variance"))
        ]
        panels.append(
            Panel(
                series,
                "lambda",
                "of the gradient of one episode",
                values,
                scales=("linear", "symlog"),
            )
        )
    question = "How do bias and variance of GAE depend on lambda?"
    return StudyFigure(question, "The board is 2 x 3, two to win, the skip chance .25.", panels)
