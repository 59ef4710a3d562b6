"""The page of several runs side by side: curves, exact results against each other, first moves, differences, costs.

Runs' files are not trusted: damaged parts are left out, and a sentence says why.
"""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from baselines.exact import solve
from learners.checkpoint import RunPolicy
from ttt_envs.agents.policy import VALUE_TOLERANCE, Policy
from ttt_envs.core.checks import truncate
from ttt_envs.game.phantom import AnyGame
from ttt_eval.curve_summaries import varied_labels
from ttt_eval.curves import Curve, read_curves
from ttt_eval.exact.dynamic_programming import OutcomeProbabilities, has_regret, match_outcome
from ttt_eval.exact.estimate import affordable
from ttt_eval.exact.policy_cache import cached
from ttt_eval.exact.strength import Strength, differences_within, first_choice, strength
from ttt_eval.metrics import LOSS_LABELS
from ttt_eval.reports.boards import draw_choice
from ttt_eval.reports.curves import MAX_GROUPS, Row, embed_exploitability
from ttt_eval.reports.formats import join_names, number, share, whole_number
from ttt_eval.reports.html import Content, Shaded, link_to, macro, or_why, section, write_page
from ttt_eval.reports.overview import cost_cells, strength_cells
from ttt_eval.reports.result_reader import Record, differences
from ttt_eval.run_files import RunDirectory

MAX_RUNS = MAX_GROUPS
"""Maximum number of runs on a page: of curves that can be told apart."""
OPPONENTS = ("random", "optimal")
"""Policies that every run meets, besides the other runs."""
MAX_VALUE_LENGTH = 60
"""Maximum length of the value of a setting, in characters."""


class ShownRun(NamedTuple):
    """A run on the page."""

    name: str
    path: Path
    curve: Curve
    policy: Policy | None
    """None if its files hold none"""
    strength: Strength | None
    """None if it is not computed"""
    costs: Mapping[str, Row]


def write_side_by_side(
    page: Path, runs: Sequence[Path], progress: Callable[[int, int], None] = lambda done, total: None
) -> Path:
    """Write a page that shows runs side by side.

    Args:
        page: path of the page; links to the runs are relative to it.
        runs: two or more run directories of the same game; unfinished ones play as their last checkpoint does.
        progress: called with the number of exact results computed, and of all.

    Returns:
        The page's path.

    Raises:
        OSError: a page that cannot be written.
        ValueError: as :func:`read_common_game`. Other damaged parts are left out of the page.
    """
    game = read_common_game(runs)
    policies = [or_why(partial(RunPolicy, game, str(path))) for path in runs]
    exact = [policy is not None and policy.pure and affordable(game, policy) for policy, _ in policies]
    total, done = exact.count(True) + exact.count(True) * (exact.count(True) - 1) // 2, 0

    def count_one() -> None:
        nonlocal done
        done += 1
        progress(done, total)

    found, notes = [], []
    for path, name, (policy, why), known in zip(runs, _names(runs), policies, exact, strict=True):
        curves, no_curve = or_why(partial(read_curves, [path]))
        curve = curves[0] if curves else Curve(str(path), {}, [])
        costs, no_costs = or_why(RunDirectory(path).read_cost)
        exactly = None
        if policy is not None and known:
            exactly = strength(game, policy, OPPONENTS)
            count_one()
        found.append(ShownRun(name, path, curve, policy, exactly, costs or {}))
        notes += [f"Left out of {name}: {problem}." for problem in (why, no_curve, no_costs) if problem]
        notes += [f"{note}." for note in curve.notes if "unfinished" in note]
    content = {
        "title": f"{len(runs)} runs side by side",
        "game": str(game),
        "notes": notes,
        "answer": section(partial(_answer, found, page.parent)),
        "settings": section(partial(_settings, found)),
        "learning": embed_exploitability([(one.name, one.curve) for one in found]),
        "matrix": section(partial(_matrix, game, found, count_one)),
        "first_moves": section(partial(_first_moves, game, found)),
        "differences": section(partial(_differences, game, found)),
        "pair": [one.name for one in _best_two(found)],
        "cost": section(partial(_cost, found)),
        "command": shlex.join(["python", "evaluate.py", "compare", *map(str, runs), "--out", str(page)]),
    }
    return write_page(page, "side_by_side.html", content)


def read_common_game(runs: Sequence[Path]) -> AnyGame:
    """Return the game of runs that are to be compared.

    Raises:
        ValueError: fewer than two runs or too many, no run, one whose ``config.json`` is damaged, or runs of different
            games.
    """
    if not 2 <= len(runs) <= MAX_RUNS:
        given = "1 is" if len(runs) == 1 else f"{len(runs)} are"
        raise ValueError(
            f"compare needs two or more runs, up to {MAX_RUNS}, and {given} given: write evaluate.py compare RUN RUN..."
        )
    games = {path: RunDirectory(path).read_game() for path in runs}
    if len(set(games.values())) > 1:
        shown = "; ".join(f"{path}: {game}" for path, game in games.items())
        raise ValueError(f"runs of different games cannot be compared ({shown}): name runs of one game")
    return games[runs[0]]


def _names(runs: Sequence[Path]) -> list[str]:
    """Return the names of the runs' folders, or their paths if names are equal."""
    names = [path.resolve().name for path in runs]
    return names if len(set(names)) == len(names) else [str(path) for path in runs]


def _rank_runs(runs: Sequence[ShownRun]) -> list[tuple[ShownRun, Strength]]:
    """Return the runs of known strength, least exploitability first."""
    known = [(one, one.strength) for one in runs if one.strength is not None]
    return sorted(known, key=lambda pair: pair[1].exploitability)


def _best_two(runs: Sequence[ShownRun]) -> list[ShownRun]:
    """Return the two least exploitable runs; the first two if their strength is not known."""
    return [one for one, _ in _rank_runs(runs)][:2] if len(_rank_runs(runs)) > 1 else list(runs[:2])


def _answer(runs: Sequence[ShownRun], folder: Path) -> Content:
    ranked = _rank_runs(runs)
    verdict = "The runs are not measured exactly: that takes long here"
    if ranked:
        best = ranked[0][1]
        bound = best.exploitability + VALUE_TOLERANCE
        level = [one.name for one, exact in ranked if exact.exploitability <= bound]
        after = [exact.exploitability for _, exact in ranked if exact.exploitability > bound]
        value = "perfect play" if best.perfect else f"exploitability {number(best.exploitability)}"
        verdict = f"{join_names(level)} {'is' if len(level) == 1 else 'are'} least exploitable: {value}"
        verdict += f"; next is {number(after[0])}" if after else ""
    rows = []
    for one in runs:
        report = RunDirectory(one.path).report
        name = macro("link", link_to(report, folder), one.name) if report.is_file() else one.name
        games = one.curve.rows[-1]["games"] if one.curve.rows else None
        rows.append((name, *strength_cells(one.strength, OPPONENTS), whole_number(games)))
    head = [*LOSS_LABELS, *(f"score against {opponent}" for opponent in OPPONENTS)]
    return {"verdict": verdict, "rows": rows, "head": head}


def _settings(runs: Sequence[ShownRun]) -> Content:
    """Return the settings in which the runs differ."""
    names = list(dict.fromkeys(name for one in runs for name in one.curve.labels))
    names = [name for name in names if len({one.curve.labels.get(name) for one in runs}) > 1]
    varied_first = [name for name in varied_labels([one.curve for one in runs]) if name in names]
    names = list(dict.fromkeys([*(name for name in ("learner", "seed") if name in names), *varied_first, *names]))
    rows = [
        (name.replace("_", " "), *(_format_value(one.curve.labels.get(name, "")) for one in runs)) for name in names
    ]
    return {"rows": rows, "head": [one.name for one in runs]}


def _format_value(value: object) -> str:
    return truncate("" if value is None else str(value), MAX_VALUE_LENGTH)


def _matrix(game: AnyGame, runs: Sequence[ShownRun], count_one: Callable[[], None]) -> Content:
    """Return the exact results of the runs against each other."""
    known = [(one, cached(one.policy, game)) for one in runs if one.strength is not None and one.policy is not None]
    if len(known) < 2:
        match = shlex.join(["python", "evaluate.py", "tournament", *(f"run:{one.path}" for one in runs)])
        return {"missing": f"Left out: exact results take long here. {match} estimates them."}
    results: dict[tuple[int, int], OutcomeProbabilities] = {}
    for (i, (_, a)), (j, (_, b)) in itertools.combinations(enumerate(known), 2):
        results[i, j] = match_outcome(game, a, b)
        results[j, i] = results[i, j].reversed()
        count_one()
    rows = [(f"{i + 1} {one.name}", *_cells(results, i, len(known))) for i, (one, _) in enumerate(known)]
    return {"rows": rows, "head": [str(i + 1) for i in range(len(known))]}


def _cells(results: Mapping[tuple[int, int], OutcomeProbabilities], i: int, count: int) -> Iterator[object]:
    """Yield the cells of a row of the matrix."""
    for j in range(count):
        if i == j:
            yield ""
            continue
        result = results[i, j]
        parts = " / ".join(f"{part:.2f}" for part in result)
        yield Shaded(macro("with_ends", share(result.score), parts), 2 * result.score - 1)


def _first_moves(game: AnyGame, runs: Sequence[ShownRun]) -> Content:
    solution = solve(game) if has_regret(game) and any(one.strength is not None for one in runs) else None
    boards = []
    for one in runs:
        if one.policy is not None:
            choice = first_choice(game, one.policy, solution=solution)
            best = choice.best.tolist()
            boards.append(draw_choice(game, choice.position, choice.probabilities, best, title=one.name))
    return {"boards": boards} if boards else {"missing": "No run holds a policy."}


def _differences(game: AnyGame, runs: Sequence[ShownRun]) -> Content:
    """Return the positions in which the two best runs differ most."""
    a, b = _best_two(runs)
    if a.policy is None or b.policy is None:
        return {"missing": "Left out: a run holds no policy."}
    found = differences_within(game, a.policy, b.policy)
    return differences(game, None if found is None else list(map(Record, found)), a.name, b.name)


def _cost(runs: Sequence[ShownRun]) -> Content:
    rows = []
    for one in runs:
        phase = one.costs.get("training")
        wall = "not known" if phase is None else f"{phase['wall_s']:,.1f} s"
        rows.append((one.name, *cost_cells(phase), wall))
    return {"rows": rows}
