"""Advantage estimators: what each estimates, with which bias and variance."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from studies.frame import Claim, Figure, Panel, Report, Results, Row, Series, Study
from ttt_envs.game.game import Game
from ttt_eval.audit import Auditor, AuditSettings
from ttt_eval.result_store import Unit
from ttt_eval.statistics import Interval, holds_for_all, is_above

SCHULMAN = "Schulman et al. (2016)"
SOURCE = (
    f"{SCHULMAN}, High-Dimensional Continuous Control Using Generalized Advantage Estimation "
    "(https://arxiv.org/abs/1506.02438); rlevo issue 343 (https://github.com/anthonytorlucci/rlevo/issues/343), after "
    "Doering et al. (2026), An Approximate Ascent Approach To Prove Convergence of PPO "
    "(https://arxiv.org/abs/2602.03386); verl issue 7244 (https://github.com/verl-project/verl/issues/7244); Pardo et "
    "al. (2018), Time Limits in Reinforcement Learning (https://arxiv.org/abs/1712.00378); Precup, Sutton and Singh "
    "(2000), Eligibility Traces for Off-Policy Policy Evaluation; Espeholt et al. (2018), IMPALA "
    "(https://arxiv.org/abs/1802.01561); Kool et al. (2019), Buy 4 REINFORCE Samples, Get a Baseline for Free!; "
    "Ahmadian et al. (2024), Back to Basics (https://arxiv.org/abs/2402.14740); Liu et al. (2025), Understanding "
    "R1-Zero-Like Training (https://arxiv.org/abs/2503.20783)"
)
GAE_ENDS = "rlevo issue 343, after Doering et al. (2026)"
PER_TURN = "verl issue 7244"
V_TRACE = "Espeholt et al. (2018), section 4.1"
LAMBDAS = (0.0, 0.25, 0.5, 0.75, 0.9, 0.95, 1.0)
STEPS = (1, 2, 3, 4)
FAMILY = [*(f"gae:lam={lam:g}" for lam in LAMBDAS), *(f"n-step:n={n}" for n in STEPS)]
BASELINES = ["monte-carlo", "return-minus-value", "td-lambda", "gae-finite", "v-trace", "importance-sampling"]
GROUPS = ["rloo", "grpo", "grpo:scale=false", "per-turn", "per-turn:leave_one_out=true", "per-turn-return"]
WHOLE, WHOLE_RHO = "v-trace:max_rho=1000,max_c=1000", "v-trace:max_rho=1000"
"""V-trace without truncation, and of the second weight alone: no ratio is as large."""
OFF_POLICY = ["importance-sampling", WHOLE, WHOLE_RHO, "v-trace", "gae:lam=0", "gae:lam=1"]
BOOTSTRAP = ["gae", "gae:bootstrap=false", "gae-finite", "gae:lam=1", "gae:lam=1,bootstrap=false"]
LEARNED = "learned:1000"
FEW = "learned:100"
"""Critic of the enumerated episodes: of so few episodes that it is wrong."""
SMALL = (2, 3, 2)
"""Rows, columns and win length of the board whose episodes are enumerated."""
LATE = "oxo/xo./x.. o"
"""Position of 3 x 3 from which groups of three episodes are enumerated."""
EARLIER = "ox./.../x.. o"
"""Position of 3 x 3 from which episodes of another policy are enumerated."""
TARGET = "optimal:epsilon=0.5"
"""Policy that is audited off policy, from episodes of random play."""
BOARDS = ((3, 3, 3), (3, 4, 3), (4, 4, 4))
SKIPS = (0.0, 0.25, 0.5)
SAMPLED, QUICK = 20_000, 1_000
"""Numbers of sampled episodes."""
GROUP_SIZE = 8
MAIN = ("3 x 3, skip 0.25", "exact")
"""Game and critic of the table."""
MAIN_SKIP = "skip 0.25"
SHOWN = ("gae:lam=0", "gae:lam=0.5", "gae:lam=0.95", "gae:lam=1", "gae-finite", *BOOTSTRAP)
"""Estimators of the table for other games."""
UNBIASED = 1e-18
"""Maximum squared length of an enumerated bias that is rounding."""
EQUAL = 1e-9
"""Maximum distance of the cosine of parallel vectors from 1."""

Audits = Mapping[tuple[str, str], Mapping[str, Mapping[str, Any]]]
"""By (game, critic), then by estimator: ``Audit.to_dict()``."""


class Estimators(Study):
    """Random play against random play, moving first; the estimated gradient is that of uniform softmax play. All
    episodes of 2 x 3, two to win, are enumerated: these numbers are exact. Those of larger boards are from
    20,000 episodes, with 95% intervals. Values are exact, or learned: the mean returns of other episodes
    (1,000, or 100 on 2 x 3), by position. Errors are those of advantages (for monte-carlo and td-lambda: of
    returns), and those of the policy gradient of one episode, as sums of squares over all logits; result.json
    has those of all games and estimators. Sampled biases and variances of advantages are those of
    positions and actions that occurred twice or more, on 4 x 4 the early ones. Sampled groups have 8 episodes;
    enumerated ones two, or three from a position with three cells left, whose results include draws. Off policy,
    random play makes the episodes and perfect play with a random move half of the time is audited; positions
    count as often as random play visits them.
    """

    title = "Advantage estimators against exact advantages"
    source = SOURCE
    left_out = "19 of 20 sampled episodes, the boards 3 x 4 and 4 x 4, and the skip chances 0 and .5 of 3 x 3"

    def units(self, quick: bool) -> list[Unit]:
        """Return a unit for each game, critic and kind of episodes."""
        units = []
        for board in BOARDS[: 1 if quick else None]:
            for skip in SKIPS if board[:2] == (3, 3) and not quick else (0.25,):
                for critic in ("exact", LEARNED):
                    names = [*FAMILY, *BASELINES, *(GROUPS if critic == "exact" else [])]
                    units.append(_unit(board, skip, critic, names, QUICK if quick else SAMPLED))
        for skip in SKIPS:
            for critic in ("exact", FEW):
                units.append(_unit(SMALL, skip, critic, [*FAMILY, *BASELINES], None))
                units.append(_unit(SMALL, skip, critic, BOOTSTRAP, None, max_steps=2))
        units += [_unit(SMALL, skip, "exact", GROUPS, None, group_size=2) for skip in SKIPS[:2]]
        units.append(_unit((3, 3, 3), 0.25, "exact", GROUPS, None, group_size=3, position=LATE))
        for critic in ("exact", FEW):
            for board, place in ((SMALL, {}), ((3, 3, 3), {"position": EARLIER})):
                units.append(_unit(board, 0.25, critic, OFF_POLICY, None, policy=TARGET, behaviour="random", **place))
        return units

    def measure(self, unit: Unit) -> list[dict[str, Any]]:
        """Audit the estimators of a unit: a policy that moves first, against random play."""
        rows, columns, win_length = unit["board"]
        settings = AuditSettings(
            critic=unit["critic"],
            episodes=unit["episodes"],
            group_size=unit.get("group_size", GROUP_SIZE),
            max_steps=unit.get("max_steps"),
            position=unit.get("position", ""),
            behaviour=unit.get("behaviour"),
        )
        game = Game(rows, columns, win_length, unit["skip"])
        auditor = Auditor(game, unit.get("policy", "random"), "random", settings)
        return [auditor.audit(name).to_dict() for name in unit["estimators"]]

    def analyse(self, results: Results) -> Report:
        """Report biases and variances, and verdicts on the claims."""
        special = {"max_steps": "truncated after 2 decisions", "group_size": "groups", "behaviour": "off policy"}
        sampled = _select(results, lambda unit: unit["episodes"] is not None)
        exact = _select(results, lambda unit: unit["episodes"] is None and not special.keys() & unit.keys())
        kinds = {name: _select(results, lambda unit: name in unit) for name in special}  # noqa: B023
        truncated, groups, off_policy = kinds.values()
        rows = []
        for name, part in (("sampled", sampled), ("enumerated", exact), *kinds.items()):
            words = f", {special[name]}" if name in special else ""
            for (game, critic), audits in part.items():
                for estimator, audit in audits.items():
                    shown = estimator in SHOWN and game.endswith(MAIN_SKIP)
                    if name in ("group_size", "behaviour") or game == MAIN[0] or shown:
                        errors = {kind: _errors(audit[kind]) for kind in ("advantage", "gradient")}
                        rows.append(Row(f"{game}{words}, {critic} values: {estimator}", None, errors))
        claims = [
            *_claims_on_lambda(sampled, exact),
            *_claims_on_ends(exact, truncated),
            *_claims_on_groups(groups),
            *_claims_off_policy(off_policy),
        ]
        return Report(rows, claims, _figures(sampled, claims), ours="bias^2; variance; mean squared error")


def _unit(
    board: Sequence[int], skip: float, critic: str, names: Sequence[str], episodes: int | None, **settings: Any
) -> Unit:
    unit = {"board": list(board), "skip": skip, "critic": critic, "estimators": list(names), "episodes": episodes}
    return {**unit, **settings}


def _select(results: Results, condition: Callable[[Unit], bool]) -> Audits:
    """Return the audits of the units for which a condition holds."""
    audits = {}
    for unit, values in results:
        if condition(unit):
            rows, columns, _ = unit["board"]
            place = f" from {unit['position']!r}" if "position" in unit else ""
            game = f"{rows} x {columns}{place}, skip {unit['skip']:g}"
            critic = "exact" if unit["critic"] == "exact" else "learned"
            audits[game, critic] = {audit["name"]: audit for audit in values}
    return audits


def _errors(measured: Mapping[str, Any]) -> dict[str, Interval]:
    names = {"bias_squared": "bias^2", "variance": "variance", "mse": "mse"}
    return {label: _interval(measured[name]) for name, label in names.items()}


def _interval(ends: Mapping[str, Any]) -> Interval:
    """Return an interval from JSON; infinite where it is null."""
    low, high = ends["low"], ends["high"]
    return Interval(ends["mean"], float("-inf") if low is None else low, float("inf") if high is None else high)


# ---------------------------------------------------------------------------------------------------------------------
# Claims


def _means(part: Audits, critic: str, *names: str, measure: str = "bias_squared") -> list[float]:
    """Return the squared biases, or another measure, of gradients: of all games with a critic, by estimator."""
    audits = [found for (_, each), found in part.items() if each == critic]
    return [float(found[name]["gradient"][measure]["mean"]) for found in audits for name in names]


def _is_smallest(audits: Mapping[str, Mapping[str, Any]], kind: str) -> bool | None:
    """Return whether lambda = 0 has the smallest variance; None if intervals overlap."""
    first = _interval(audits["gae:lam=0"][kind]["variance"])
    others = [_interval(audits[name][kind]["variance"]) for name in FAMILY[1:] if name != "n-step:n=1"]  # the same
    ahead = (Interval(one.mean - first.mean, one.low - first.high, one.high - first.low) for one in others)
    return holds_for_all(is_above([difference]) for difference in ahead)


def _claims_on_lambda(sampled: Audits, exact: Audits) -> list[Claim]:
    parts = [found for part in (sampled, exact) for (_, critic), found in part.items() if critic == "exact"]
    smallest = holds_for_all(_is_smallest(found, kind) for found in parts for kind in ("advantage", "gradient"))
    main = {name: _interval(sampled[MAIN][name]["gradient"]["variance"]) for name in ("gae:lam=0", "gae:lam=1")}
    names = [f"gae:lam={lam:g}" for lam in LAMBDAS]
    flat = _means(exact, "learned", *names)
    biases = [flat[start : start + len(names)] for start in range(0, len(flat), len(names))]
    falls = all(row[0] > UNBIASED and all(a >= b for a, b in itertools.pairwise(row)) for row in biases)
    unbiased = [
        ("GAE with lambda = 1 and exact values is unbiased", _means(exact, "exact", "gae:lam=1")),
        ("with lambda = 1 the gradient is unbiased whatever the values are", _means(exact, "learned", "gae:lam=1")),
        ("with exact values every lambda is unbiased", _means(exact, "exact", *FAMILY)),
    ]
    section = f"{SCHULMAN}, section 3"
    return [
        *(
            Claim(f"{section}: {words}", max(values) <= UNBIASED, {"squared bias, at most": max(values)})
            for words, values in unbiased
        ),
        Claim(
            f"{section}: with exact values, lambda = 0 has the smallest variance",
            smallest,
            {"games": len(parts), f"variance of gradients, {MAIN[0]}": main},
        ),
        Claim(
            f"{section}: with inexact values lambda < 1 is biased, and the less so the larger lambda is",
            falls,
            {f"squared bias by lambda, game {index + 1}": row for index, row in enumerate(biases)},
        ),
    ]


def _claims_on_ends(exact: Audits, truncated: Audits) -> list[Claim]:
    kept, cut = _means(truncated, "exact", "gae", "gae:lam=1"), _means(truncated, "exact", "gae:lam=1,bootstrap=false")
    usual, finite = (
        [
            *_means(exact, "learned", "gae:lam=0.95" if name == "gae" else name),
            *_means(truncated, "learned", name),
        ]
        for name in ("gae", "gae-finite")
    )
    finite_exact = [*_means(exact, "exact", "gae-finite"), *_means(truncated, "exact", "gae-finite")]
    pardo = "Pardo et al. (2018), Time Limits in Reinforcement Learning"
    return [
        Claim(
            f"{pardo}: a truncation without bootstrapping biases",
            min(cut) > UNBIASED,
            {"squared bias at lambda = 1, at least": min(cut), "with bootstrapping at most": max(kept)},
        ),
        Claim(
            f"{GAE_ENDS}: the weights of GAE leave a bias at episode ends even if the bootstrap is correct",
            max(kept) > UNBIASED,
            {"squared bias with exact values and lambda 0.95 or 1, at most": max(kept)},
        ),
        Claim(
            f"{GAE_ENDS}: weights normalised over the existing k-step estimates remove this bias",
            max(finite_exact) <= UNBIASED,
            {"their squared bias with exact values, up to": max(finite_exact)},
        ),
        Claim(
            f"{GAE_ENDS}: with learned values, normalised weights have less bias than those of GAE",
            all(new < old for old, new in zip(usual, finite, strict=True)),
            {"squared biases of GAE (0.95)": usual, "of normalised weights": finite},
        ),
    ]


def _claims_on_groups(groups: Audits) -> list[Claim]:
    def evidence(*names: str) -> dict[str, Any]:
        return {
            name: {
                "squared bias": _means(groups, "exact", name),
                "1 - cosine": [max(0.0, 1 - found[name]["cosine"]["mean"]) for found in groups.values()],
            }
            for name in names
        }

    turns, fixed = "per-turn:leave_one_out=true", "per-turn-return"
    return [
        Claim(
            f"{PER_TURN}: rewards that are normalised by turn and then summed give a biased gradient, because the "
            f"number of subtracted means depends on when the episode ends",
            min(_means(groups, "exact", turns)) > UNBIASED,
            evidence(turns, "per-turn"),
        ),
        Claim(
            f"{PER_TURN}: a baseline that does not depend on when the episode ends is unbiased",
            max(_means(groups, "exact", fixed)) <= UNBIASED,
            evidence(fixed),
        ),
        Claim(
            "Kool et al. (2019), Ahmadian et al. (2024): RLOO is unbiased",
            max(_means(groups, "exact", "rloo")) <= UNBIASED,
            evidence("rloo"),
        ),
        Claim(
            "Liu et al. (2025), Understanding R1-Zero-Like Training: advantages that are divided by the standard "
            "deviation of the group give a biased gradient",
            any(1 - found["grpo"]["cosine"]["mean"] > EQUAL for found in groups.values()),
            evidence("grpo", "grpo:scale=false"),
        ),
    ]


def _claims_off_policy(part: Audits) -> list[Claim]:
    critics = ("exact", "learned")
    sampling, whole_rho, returns, clipped = (
        {f"{critic} values": _means(part, critic, *names) for critic in critics}
        for names in (("importance-sampling", WHOLE), (WHOLE_RHO,), ("gae:lam=1",), ("v-trace",))
    )
    variances = {
        name: [value for critic in critics for value in _means(part, critic, name, measure="variance")]
        for name in ("v-trace", WHOLE, "importance-sampling")
    }
    exact = "exact values"
    return [
        Claim(
            "Precup, Sutton and Singh (2000), section 3: importance sampling per decision is unbiased",
            all(max(values) <= UNBIASED for values in sampling.values()),
            {"squared bias, of V-trace without truncation too": sampling, "of returns without weights": returns},
        ),
        Claim(
            f"{V_TRACE}: with truncated ratios of temporal-difference errors, V-trace estimates the values of another "
            f"policy",
            min(clipped[exact]) > UNBIASED,
            {"squared bias with exact values": clipped[exact]},
        ),
        Claim(
            f"{V_TRACE}: the truncated ratios of what follows them do not change what is estimated",
            max(whole_rho[exact]) <= UNBIASED,
            {"squared bias": whole_rho},
        ),
        Claim(
            f"{V_TRACE}: truncation reduces the variance",
            all(a < b for a, b in zip(variances["v-trace"], variances[WHOLE], strict=True)),
            {"variances of gradients": variances},
        ),
    ]


def _figures(sampled: Audits, claims: Sequence[Claim]) -> dict[str, Figure]:
    bars = "Squared bias and variance of the gradient of one episode; bars are 95% intervals."
    verdicts = {claim.words.partition(": ")[2]: claim.holds for claim in claims[2:5]}
    variances = {name: _interval(audit["gradient"]["variance"]) for name, audit in sampled[MAIN].items()}
    ordered = sorted(variances, key=lambda name: variances[name].mean)
    steps = {
        f"n-step:n={n}": {
            f"{critic} values": _errors(sampled[MAIN[0], critic][f"n-step:n={n}"]["gradient"])
            for critic in ("exact", "learned")
        }
        for n in (STEPS[0], STEPS[-1])
    }
    series = Series("", range(len(ordered)), [variances[name] for name in ordered], "o")
    label = "variance of the gradient of one episode"
    return {
        "estimators-lambda": Figure(
            "How do bias and variance of GAE depend on lambda?",
            bars,
            _panels(sampled, "gae:lam=", LAMBDAS, "lambda"),
            verdicts,
        ),
        "estimators-n": Figure(
            "How do bias and variance of n-step estimates depend on n?",
            bars,
            _panels(sampled, "n-step:n=", STEPS, "n"),
            steps,
        ),
        "estimators-all": Figure(
            "Which estimator has the least variance on 3 x 3 with a skip chance of .25?",
            "Variance of the gradient of one episode, with exact values; bars are 95% intervals.",
            [Panel([series], label, places=ordered, limits=(0, None))],
            {name: variances[name].mean for name in (*ordered[:2], ordered[-1])},
        ),
    }


def _panels(sampled: Audits, prefix: str, parameters: Sequence[float], label: str) -> list[Panel]:
    """Return panels of bias and variance of gradients by a parameter of the estimator."""
    games = [game for game, critic in sampled if critic == "exact"]
    panels = []
    for measure in ("bias_squared", "variance"):
        for critic in ("exact", "learned"):
            series = []
            for index, game in enumerate(games):
                audits = [sampled[game, critic][f"{prefix}{parameter:g}"]["gradient"] for parameter in parameters]
                values = [_interval(audit[measure]) for audit in audits]
                series.append(Series(game, parameters, values, (".-", ".--")[index // 3], index % 3))
            panels.append(Panel(series, label, measure.replace("_", " "), f"{critic} values"))
    return panels
