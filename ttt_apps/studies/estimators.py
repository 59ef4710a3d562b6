"""Advantage estimators: what each estimates, with which bias and variance."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ttt_envs.game.game import Game
from ttt_eval.audit import Auditor, AuditSettings
from ttt_eval.reports.plots import draw_label_legend, plot_intervals
from ttt_eval.result_store import Unit
from ttt_eval.statistics import Interval, holds_for_all, is_above
from ttt_eval.study import Caption, Claim, Report, Row, Study, choose

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
COLOURS = ("#0072B2", "#D55E00", "#009E73")
UNBIASED = 1e-18
"""Maximum squared length of an enumerated bias that is rounding."""
EQUAL = 1e-9
"""Maximum distance of the cosine of parallel vectors from 1."""

Results = Mapping[tuple[str, str], Mapping[str, Mapping[str, Any]]]
"""By (game, critic), then by estimator: ``Audit.to_dict()``."""


def units(quick: bool) -> list[Unit]:
    """Return a unit for each game, critic and kind of episodes."""
    found = []
    for rows, columns, win_length in BOARDS[: 1 if quick else None]:
        for skip in SKIPS if (rows, columns) == (3, 3) and not quick else (0.25,):
            for critic in ("exact", LEARNED):
                names = [*FAMILY, *BASELINES, *(GROUPS if critic == "exact" else [])]
                found.append(_unit((rows, columns, win_length), skip, critic, names, QUICK if quick else SAMPLED))
    for skip in SKIPS:
        for critic in ("exact", FEW):
            found.append(_unit(SMALL, skip, critic, [*FAMILY, *BASELINES], None))
            found.append(_unit(SMALL, skip, critic, BOOTSTRAP, None, max_steps=2))
    found += [_unit(SMALL, skip, "exact", GROUPS, None, group_size=2) for skip in SKIPS[:2]]
    found.append(_unit((3, 3, 3), 0.25, "exact", GROUPS, None, group_size=3, position=LATE))
    for critic in ("exact", FEW):
        for board, more in ((SMALL, {}), ((3, 3, 3), {"position": EARLIER})):
            found.append(_unit(board, 0.25, critic, OFF_POLICY, None, policy=TARGET, behaviour="random", **more))
    return found


def _unit(
    board: tuple[int, int, int], skip: float, critic: str, names: Sequence[str], episodes: int | None, **more: Any
) -> Unit:
    return {
        "board": list(board),
        "skip": skip,
        "critic": critic,
        "estimators": list(names),
        "episodes": episodes,
        **more,
    }


def measure(unit: Unit) -> list[dict[str, Any]]:
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


def analyse(results: Sequence[tuple[Unit, Any]]) -> Report:
    """Report biases and variances, and verdicts on the claims."""
    sampled = _select(results, lambda unit: unit["episodes"] is not None)
    special = ("max_steps", "group_size", "behaviour")
    exact = _select(results, lambda unit: unit["episodes"] is None and not any(name in unit for name in special))
    truncated = _select(results, lambda unit: "max_steps" in unit)
    groups = _select(results, lambda unit: "group_size" in unit)
    off_policy = _select(results, lambda unit: "behaviour" in unit)
    parts = (
        ("", sampled),
        ("", exact),
        (", truncated after 2 decisions", truncated),
        (", groups", groups),
        (", off policy", off_policy),
    )
    rows = [
        _row(f"{game}{words}, {critic} values: {name}", one)
        for words, part in parts
        for (game, critic), found in part.items()
        for name, one in found.items()
        if part is groups or part is off_policy or game == MAIN[0] or (name in SHOWN and game.endswith(MAIN_SKIP))
    ]
    claims = [
        *_claims_on_lambda(sampled, exact),
        *_claims_on_ends(exact, truncated),
        *_claims_on_groups(groups),
        *_claims_off_policy(off_policy),
    ]
    pictures = {
        "estimators-lambda": _draw_by_parameter(sampled, "gae:lam=", LAMBDAS, "lambda"),
        "estimators-n": _draw_by_parameter(sampled, "n-step:n=", STEPS, "n"),
        "estimators-all": _draw_all(sampled[MAIN]),
    }
    data = [{**unit, "audits": found} for unit, found in results]
    return Report(rows, claims, pictures, ours="bias^2; variance; mean squared error", data=data)


def _select(results: Sequence[tuple[Unit, Any]], wanted: Callable[[Unit], bool]) -> Results:
    found = {}
    for unit, audits in results:
        if wanted(unit):
            rows, columns, _ = unit["board"]
            place = f" from {unit['position']!r}" if "position" in unit else ""
            game = f"{rows} x {columns}{place}, skip {unit['skip']:g}"
            found[game, "learned" if unit["critic"] != "exact" else "exact"] = {one["name"]: one for one in audits}
    return found


def _interval(one: Mapping[str, Any]) -> Interval:
    """Return an interval from JSON; infinite where it is null."""
    low, high = one["low"], one["high"]
    return Interval(one["mean"], float("-inf") if low is None else low, float("inf") if high is None else high)


def _number(one: Interval) -> str:
    return f"{one.mean:.3g}" if one.low == one.high else f"{one.mean:.3g} ({one.low:.3g} to {one.high:.3g})"


def _row(name: str, audit: Mapping[str, Any]) -> Row:
    """Return the errors of the advantages, and those of the gradients."""
    texts = [
        "; ".join(_number(_interval(audit[kind][each])) for each in ("bias_squared", "variance", "mse"))
        for kind in ("advantage", "gradient")
    ]
    return Row(name, "", f"advantages {texts[0]}. Gradients {texts[1]}", "")


# ---------------------------------------------------------------------------------------------------------------------
# Claims


def _bias(audit: Mapping[str, Any]) -> float:
    """Return the squared length of the bias of an enumerated gradient."""
    return float(audit["gradient"]["bias_squared"]["mean"])


def _all_unbiased(part: Results, critic: str, names: Iterable[str]) -> tuple[bool, float]:
    biases = [_bias(found[name]) for (_, each), found in part.items() if each == critic for name in names]
    return max(biases) <= UNBIASED, max(biases)


def _is_smallest(found: Mapping[str, Mapping[str, Any]], kind: str) -> bool | None:
    """Return whether lambda = 0 has the smallest variance; None if intervals overlap."""
    first = _interval(found["gae:lam=0"][kind]["variance"])
    verdicts = []
    for name in FAMILY[1:]:
        if name != "n-step:n=1":  # which is the same
            other = _interval(found[name][kind]["variance"])
            verdicts.append(
                is_above([Interval(other.mean - first.mean, other.low - first.high, other.high - first.low)])
            )
    return holds_for_all(verdicts)


def _claims_on_lambda(sampled: Results, exact: Results) -> list[Claim]:
    one, largest = _all_unbiased(exact, "exact", ["gae:lam=1"])
    wrong, largest_wrong = _all_unbiased(exact, "learned", ["gae:lam=1"])
    every, largest_every = _all_unbiased(exact, "exact", FAMILY)
    parts = [found for part in (sampled, exact) for (_, critic), found in part.items() if critic == "exact"]
    smallest = holds_for_all(_is_smallest(found, kind) for found in parts for kind in ("advantage", "gradient"))
    main = sampled[MAIN]
    low, high = (_number(_interval(main[name]["gradient"]["variance"])) for name in ("gae:lam=0", "gae:lam=1"))
    biases = [
        [_bias(found[f"gae:lam={lam:g}"]) for lam in LAMBDAS]
        for (_, critic), found in exact.items()
        if critic == "learned"
    ]
    return [
        Claim(
            f"{SCHULMAN}, section 3: GAE with lambda = 1 and exact values is unbiased",
            one,
            f"all episodes of 2 x 3 at three skip chances: the squared bias is at most {largest:.1g}",
        ),
        Claim(
            f"{SCHULMAN}, section 3: with lambda = 1 the gradient is unbiased whatever the values are",
            wrong,
            f"with values from 100 episodes the squared bias is at most {largest_wrong:.1g}",
        ),
        Claim(
            f"{SCHULMAN}, section 3: with exact values every lambda is unbiased",
            every,
            f"the squared bias is at most {largest_every:.1g}, n-step estimates included",
        ),
        Claim(
            f"{SCHULMAN}, section 3: with exact values, lambda = 0 has the smallest variance",
            smallest,
            f"among GAE and n-step estimates, in {len(parts)} games, of advantages and of gradients; gradients on "
            f"3 x 3, skip .25: {low} at 0, {high} at 1",
        ),
        Claim(
            f"{SCHULMAN}, section 3: with inexact values lambda < 1 is biased, and the less so the larger lambda is",
            all(row[0] > UNBIASED and all(a >= b for a, b in itertools.pairwise(row)) for row in biases),
            "squared bias of gradients at lambda 0, 0.5, 0.95: "
            + "; ".join(", ".join(f"{row[LAMBDAS.index(lam)]:.2g}" for lam in (0.0, 0.5, 0.95)) for row in biases),
        ),
    ]


def _claims_on_ends(exact: Results, truncated: Results) -> list[Claim]:
    kept, largest = _all_unbiased(truncated, "exact", ["gae", "gae:lam=1"])
    cut = [_bias(found["gae:lam=1,bootstrap=false"]) for (_, critic), found in truncated.items() if critic == "exact"]
    parts = [*exact.items(), *truncated.items()]
    learned = [
        (_bias(found["gae:lam=0.95" if "gae:lam=0.95" in found else "gae"]), _bias(found["gae-finite"]))
        for (_, critic), found in parts
        if critic == "learned"
    ]
    finite = [_bias(found["gae-finite"]) for (_, critic), found in parts if critic == "exact"]
    return [
        Claim(
            "Pardo et al. (2018), Time Limits in Reinforcement Learning: a truncation without bootstrapping biases",
            min(cut) > UNBIASED,
            f"the squared bias is {min(cut):.2g} or more at lambda = 1; with bootstrapping at most {largest:.1g}",
        ),
        Claim(
            f"{GAE_ENDS}: the weights of GAE leave a bias at episode ends even if the bootstrap is correct",
            not kept,
            f"with exact values and lambda 0.95 or 1 the squared bias is at most {largest:.1g}: every k-step estimate "
            f"is unbiased, so no choice of fixed weights matters",
        ),
        Claim(
            f"{GAE_ENDS}: weights normalised over the existing k-step estimates remove this bias",
            max(finite) <= UNBIASED,
            f"with exact values their squared bias is up to {max(finite):.2g}: they depend on how long the episode "
            f"turns out to be",
        ),
        Claim(
            f"{GAE_ENDS}: with learned values, normalised weights have less bias than those of GAE",
            all(new < old for old, new in learned),
            "squared bias of GAE (0.95) and of normalised weights: "
            + "; ".join(f"{old:.2g}, {new:.2g}" for old, new in learned),
        ),
    ]


def _claims_on_groups(groups: Results) -> list[Claim]:
    def biases(name: str) -> list[float]:
        return [_bias(found[name]) for found in groups.values()]

    def evidence(name: str) -> str:
        cosines = [found[name]["cosine"]["mean"] for found in groups.values()]
        shown = ", ".join(f"{bias:.2g}" for bias in biases(name))
        return (
            f"{name}: squared bias {shown}, cosine 1 - {', 1 - '.join(f'{max(0.0, 1 - one):.2g}' for one in cosines)}"
        )

    turns, fixed = "per-turn:leave_one_out=true", "per-turn-return"
    return [
        Claim(
            f"{PER_TURN}: rewards that are normalised by turn and then summed give a biased gradient, because the "
            f"number of subtracted means depends on when the episode ends",
            min(biases(turns)) > UNBIASED,
            f"all groups of episodes: pairs of 2 x 3, and three from a late position. {evidence(turns)}; "
            f"{evidence('per-turn')}",
        ),
        Claim(
            f"{PER_TURN}: a baseline that does not depend on when the episode ends is unbiased",
            max(biases(fixed)) <= UNBIASED,
            evidence(fixed),
        ),
        Claim(
            "Kool et al. (2019), Ahmadian et al. (2024): RLOO is unbiased",
            max(biases("rloo")) <= UNBIASED,
            evidence("rloo"),
        ),
        Claim(
            "Liu et al. (2025), Understanding R1-Zero-Like Training: advantages that are divided by the standard "
            "deviation of the group give a biased gradient",
            any(1 - found["grpo"]["cosine"]["mean"] > EQUAL for found in groups.values()),
            f"{evidence('grpo')}. The division turns the gradient where groups can have several standard deviations; "
            f"in pairs of 2 x 3, where nothing is drawn, all but 0 are equal. Without the division the direction is "
            f"exact, and the mean, which includes the episode itself, shortens the gradient. "
            f"{evidence('grpo:scale=false')}",
        ),
    ]


def _claims_off_policy(part: Results) -> list[Claim]:
    def biases(name: str, critic: str) -> list[float]:
        return [_bias(found[name]) for (_, each), found in part.items() if each == critic]

    def variances(name: str) -> list[float]:
        return [found[name]["gradient"]["variance"]["mean"] for found in part.values()]

    def numbers(found: Iterable[float]) -> str:
        return ", ".join(f"{one:.2g}" for one in found)

    unbiased, largest = _all_unbiased(part, "exact", ["importance-sampling", WHOLE])
    learned, largest_learned = _all_unbiased(part, "learned", ["importance-sampling", WHOLE])
    whole_rho, largest_rho = _all_unbiased(part, "exact", [WHOLE_RHO])
    clipped, sampling, whole = variances("v-trace"), variances("importance-sampling"), variances(WHOLE)
    return [
        Claim(
            "Precup, Sutton and Singh (2000), section 3: importance sampling per decision is unbiased",
            unbiased and learned,
            f"so is V-trace without truncation. With exact values the squared bias is at most {largest:.1g}, with "
            f"learned ones {largest_learned:.1g}; of returns without weights {numbers(biases('gae:lam=1', 'exact'))}",
        ),
        Claim(
            f"{V_TRACE}: with truncated ratios of temporal-difference errors, V-trace estimates the values of another "
            f"policy",
            min(biases("v-trace", "exact")) > UNBIASED,
            f"with exact values the squared bias is {numbers(biases('v-trace', 'exact'))}",
        ),
        Claim(
            f"{V_TRACE}: the truncated ratios of what follows them do not change what is estimated",
            whole_rho,
            f"with exact values the squared bias is at most {largest_rho:.1g}. With learned values it is "
            f"{numbers(biases(WHOLE_RHO, 'learned'))}: they bootstrap, as lambda < 1 does",
        ),
        Claim(
            f"{V_TRACE}: truncation reduces the variance",
            all(a < b for a, b in zip(clipped, whole, strict=True)),
            f"of gradients {numbers(clipped)}; without truncation {numbers(whole)}; of importance sampling "
            f"{numbers(sampling)}",
        ),
    ]


# ---------------------------------------------------------------------------------------------------------------------
# Pictures


def _draw_by_parameter(sampled: Results, prefix: str, parameters: Sequence[float], label: str) -> Callable[[Any], None]:
    """Return a picture of bias and variance of gradients by a parameter of the estimator."""
    games = [game for game, critic in sampled if critic == "exact"]

    def draw(figure: Any) -> None:
        panels = figure.subplots(2, 2, sharex=True)
        for column, critic in enumerate(("exact", "learned")):
            for index, game in enumerate(games):
                found = sampled[game, critic]
                audits = [found[f"{prefix}{parameter:g}"]["gradient"] for parameter in parameters]
                for row, what in enumerate(("bias_squared", "variance")):
                    plot_intervals(
                        panels[row][column], parameters, [_interval(one[what]) for one in audits],
                        color=COLOURS[index % 3], ls=("-", "--")[index // 3], lw=1.2, marker=".", capsize=2, label=game,
                    )  # fmt: skip
            panels[0][column].set_title(f"{critic} values", fontsize="medium")
            panels[1][column].set_xlabel(label)
        panels[0][0].set_ylabel("squared bias")
        panels[1][0].set_ylabel("variance")
        draw_label_legend(figure, panels[0][0], 3)

    return draw


def _draw_all(found: Mapping[str, Mapping[str, Any]]) -> Callable[[Any], None]:
    """Return a picture of the variance of gradients, by estimator."""
    ordered = sorted(found, key=lambda name: found[name]["gradient"]["variance"]["mean"])

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        values = [_interval(found[name]["gradient"]["variance"]) for name in ordered]
        plot_intervals(axes, range(len(ordered)), values, across=True, fmt="o", ms=4, color=COLOURS[0], capsize=2)
        axes.set_yticks(range(len(ordered)), ordered, fontsize="x-small")
        axes.set(xlabel="variance of the gradient of one episode", xlim=(0, None))

    return draw


def _answer_lambda(report: Report) -> str:
    def holds(words: str) -> bool | None:
        return report.claim(f"Schulman et al. (2016), section 3: {words}").holds

    unbiased = choose(holds("with exact values every"), "no lambda has a bias", "some lambda has a bias", "")
    smallest = choose(holds("with exact values, lambda = 0"), "0 has", "0 does not have", "")
    added = choose(holds("with inexact values"), "shrinks", "does not always shrink", "")
    return (
        f"With exact values {unbiased}, and lambda = {smallest} the smallest variance. The bias that learned values "
        f"add {added} as lambda grows."
    )


def _gradients(report: Report, what: str) -> dict[str, tuple[str, str]]:
    """Return squared bias and variance of gradients by estimator, as the rows that begin with ``what`` have them."""
    found = {}
    for row in report.find_rows(what):
        bias, variance, _ = (part.partition(" (")[0] for part in row.ours.partition("Gradients ")[2].split("; "))
        found[row.what.removeprefix(what)] = bias, variance
    return found


def _answer_n(report: Report) -> str:
    exact, learned = (
        list(_gradients(report, f"{MAIN[0]}, {values} values: n-step:n=").values()) for values in ("exact", "learned")
    )
    return (
        f"On {MAIN[0]}, with exact values the variance from n = 1 on is {', '.join(one for _, one in exact)}. With "
        f"learned values it is {', '.join(one for _, one in learned)}, and the squared bias "
        f"{', '.join(one for one, _ in learned)}."
    )


def _answer_all(report: Report) -> str:
    variances = {name: float(one) for name, (_, one) in _gradients(report, f"{MAIN[0]}, exact values: ").items()}
    least, most = min(variances.values()), max(variances, key=lambda name: variances[name])
    names = " and ".join(name for name, one in variances.items() if one == least)
    return f"{names} with {least:g}; the largest, of {most}, is {variances[most]:g}."


STUDY = Study(
    title="Advantage estimators against exact advantages",
    source=SOURCE,
    about=(
        "Random play against random play, moving first; the estimated gradient is that of uniform softmax play. All "
        "episodes of 2 x 3, two to win, are enumerated: these numbers are exact. Those of larger boards are from "
        f"{SAMPLED:,} episodes, with 95% intervals. Values are exact, or learned: the mean returns of other episodes "
        "(1,000, or 100 on 2 x 3), by position. Errors are those of advantages (for monte-carlo and td-lambda: of "
        "returns), and those of the policy gradient of one episode, as sums of squares over all logits; result.json "
        "has those of all games and estimators. Sampled biases and variances of advantages are those of "
        "positions and actions that occurred twice or more, on 4 x 4 the early ones. Sampled groups have 8 episodes; "
        "enumerated ones two, or three from a position with three cells left, whose results include draws. Off policy, "
        "random play makes the episodes and perfect play with a random move half of the time is audited; positions "
        "count as often as random play visits them."
    ),
    units=units,
    measure=measure,
    analyse=analyse,
    left_out="19 of 20 sampled episodes, the boards 3 x 4 and 4 x 4, and the skip chances 0 and .5 of 3 x 3",
    captions={
        "estimators-lambda": Caption(
            "How do bias and variance of GAE depend on lambda?",
            _answer_lambda,
            "Squared bias and variance of the gradient of one episode; bars are 95% intervals.",
        ),
        "estimators-n": Caption(
            "How do bias and variance of n-step estimates depend on n?",
            _answer_n,
            "Squared bias and variance of the gradient of one episode; bars are 95% intervals.",
        ),
        "estimators-all": Caption(
            "Which estimator has the least variance on 3 x 3 with a skip chance of .25?",
            _answer_all,
            "Variance of the gradient of one episode, with exact values; bars are 95% intervals.",
        ),
    },
)
