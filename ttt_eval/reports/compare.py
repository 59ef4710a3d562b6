"""The page of runs of one game: curves, exact results against each other, matches, first moves, differences, costs.

Runs' files are not trusted: damaged parts are left out, and a sentence says why.
"""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from msgspec import convert

from baselines.exact import solve
from learners.checkpoint import RunPolicy
from ttt_envs.agents.policy import VALUE_TOLERANCE
from ttt_envs.core.checks import truncate
from ttt_envs.game.phantom import AnyGame, visible
from ttt_eval.curve_summaries import Group, varied_labels
from ttt_eval.curves import Curve, read_curves
from ttt_eval.exact.dynamic_programming import OutcomeProbabilities, has_regret, match_outcome
from ttt_eval.exact.estimate import affordable
from ttt_eval.exact.policy_cache import cached
from ttt_eval.exact.strength import Strength, differences_within, first_choice, strength
from ttt_eval.matches.score import Score
from ttt_eval.metrics import LOSS_LABELS, LOSSES
from ttt_eval.reports import formats, page, parts
from ttt_eval.reports.curves import MAX_GROUPS, Row, curve_parts
from ttt_eval.reports.results import Spot
from ttt_eval.run_files import RunDirectory

MAX_RUNS = MAX_GROUPS
"""Maximum number of runs on a page: of curves that can be told apart."""
OPPONENTS = ("random", "optimal")
"""Policies that every run meets, besides the other runs."""
MAX_VALUE_LENGTH = 60
"""Maximum length of the value of a setting, in characters."""
MISSING = "Left out: exact results take long here. This command estimates them:"


class ComparedRun(NamedTuple):
    """A run on the page."""

    name: str
    path: Path
    curve: Curve
    policy: RunPolicy | None
    """None if its files hold none"""
    strength: Strength | None
    """None if it is not computed"""
    cost: Row | None
    """of its training; None if unknown"""
    notes: Sequence[str]


class PlayedMatch(NamedTuple):
    """A match between two runs, and its exact result."""

    a: str
    b: str
    score: Score
    exact: OutcomeProbabilities | None
    """of a, the mean over both seats; None if not computed"""


class RunsResult(NamedTuple):
    """Runs of one game, compared."""

    game: AnyGame
    runs: Sequence[ComparedRun]
    opponents: Sequence[str]
    outcomes: Mapping[tuple[int, int], OutcomeProbabilities]
    """of the first run against the second one, the mean over both seats"""
    folder: Path
    """folder of the page"""
    command: str
    """the command that writes the page"""
    matches: Sequence[PlayedMatch] = ()

    @property
    def best(self) -> list[ComparedRun]:
        """The runs, least exploitable first; those of unknown strength at the end."""
        return sorted(self.runs, key=lambda run: float("inf") if run.strength is None else run.strength.exploitability)


def read_runs(
    out: Path,
    paths: Sequence[Path],
    opponents: Sequence[str] = OPPONENTS,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> RunsResult:
    """Read runs, and compute their exact strength and results against each other.

    Args:
        out: path of the page; links to the runs are relative to it.
        paths: run directories of one game; unfinished runs play as their last checkpoint does.
        opponents: spec strings of policies that every run meets.
        progress: called with the number of exact results computed, and of all.

    Raises:
        ValueError: as :func:`read_common_game`. Other damaged parts are left out.
    """
    game = read_common_game(paths)
    policies = [page.or_why(partial(RunPolicy, game, str(path))) for path in paths]
    exact = [policy is not None and policy.pure and affordable(game, policy) for policy, _ in policies]
    total, done = exact.count(True) + exact.count(True) * (exact.count(True) - 1) // 2, itertools.count(1)
    names = [path.resolve().name for path in paths]
    names = names if len(set(names)) == len(names) else list(map(str, paths))
    runs = []
    for path, name, (policy, why), known in zip(paths, names, policies, exact, strict=True):
        curves, no_curve = page.or_why(partial(read_curves, [path]))
        curve = curves[0] if curves else Curve(str(path), {}, [])
        costs, no_costs = page.or_why(RunDirectory(path).read_cost)
        notes = [f"Left out of {name}: {problem}." for problem in (why, no_curve, no_costs) if problem]
        notes += [f"{note}." for note in curve.notes if "unfinished" in note]
        measured = strength(game, policy, opponents) if policy is not None and known else None
        runs.append(ComparedRun(name, path, curve, policy, measured, (costs or {}).get("training"), notes))
        if measured is not None:
            progress(next(done), total)
    players = {i: cached(run.policy, game) for i, run in enumerate(runs) if run.strength is not None and run.policy}
    outcomes = {}
    for i, j in itertools.combinations(players, 2):
        outcomes[i, j] = match_outcome(game, players[i], players[j])
        outcomes[j, i] = outcomes[i, j].reversed()
        progress(next(done), total)
    command = shlex.join(["python", "evaluate.py", "compare", *map(str, paths), "--out", str(out)])
    return RunsResult(game, runs, opponents, outcomes, out.parent, command)


def read_common_game(runs: Sequence[Path]) -> AnyGame:
    """Return the game of runs that are to be compared.

    Raises:
        ValueError: no run or too many, a folder without a run, one whose ``config.json`` is damaged, or runs of
            different games.
    """
    if not 1 <= len(runs) <= MAX_RUNS:
        raise ValueError(
            f"{len(runs)} runs are given, and compare shows 1 to {MAX_RUNS}: write evaluate.py compare RUN RUN..."
        )
    games = {path: RunDirectory(path).read_game() for path in runs}
    if len(set(games.values())) > 1:
        listed = "; ".join(f"{path}: {game}" for path, game in games.items())
        raise ValueError(f"runs of different games cannot be compared ({listed}): name runs of one game")
    return games[runs[0]]


def strength_cells(exact: Strength | None, opponents: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the table cells of :data:`~ttt_eval.metrics.LOSSES`, and of the scores against opponents."""
    if exact is None:
        return ("not computed",) * (len(LOSSES) + len(opponents))
    losses = (formats.number(exact.measures[name]) if name in exact.measures else "not solved" for name in LOSSES)
    return *losses, *(formats.share(exact.results[opponent].score) for opponent in opponents)


def cost_cells(phase: Row | None) -> tuple[str, str, str]:
    """Return the table cells of CPU seconds, peak memory and wall time."""
    if phase is None:
        return ("not known",) * 3
    cpu = phase["cpu_user_s"] + phase["cpu_system_s"]
    return f"{cpu:,.1f} s", formats.mebibytes(phase["peak_rss_bytes"]), f"{phase['wall_s']:,.1f} s"


def runs_report(result: RunsResult) -> page.Report:
    """Return the page of runs."""
    game, runs, several = result.game, result.runs, len(result.runs) > 1
    rows = list[page.Row]()
    for run in runs:
        name = page.Cell(links=[(run.name, page.link_to(RunDirectory(run.path).report, result.folder))])
        games = formats.whole_number(run.curve.rows[-1]["games"] if run.curve.rows else run.curve.labels.get("games"))
        rows.append((name, *strength_cells(run.strength, result.opponents), games, *cost_cells(run.cost)))
    scores = (f"score against {opponent}" for opponent in result.opponents)
    head = ("run", *LOSS_LABELS, *scores, "games", "CPU of training", "peak memory", "wall time")
    known = [(run.name, run.strength.results) for run in runs if run.strength is not None]
    exact = [
        parts.results_table(f"Against {one}, the mean of both seats", "run", [(name, by[one]) for name, by in known])
        for one in result.opponents
    ]
    solution = solve(visible(game)) if known and has_regret(game) else None
    boards = []
    for run in runs:
        if run.policy is not None:
            choice = first_choice(game, run.policy, solution=solution)
            boards.append(parts.choice_board(game, *choice[:2], choice.best.tolist(), title=run.name))
    about = f"The game is {game}. Everything but matches is exact, by dynamic programming: nothing is sampled."
    best = formats.join_names([run.name for run in result.best[:2]])
    sections: dict[str, page.Parts] = {
        "": [
            page.Text(about),
            *(page.left_out(note) for run in runs for note in run.notes),
            page.Table("Strength at the end, and cost of training without measurements", head, rows),
        ],
        "Exact results": exact if known else [],
        "Learning curves": curve_parts([Group(run.name, {}, [run.curve]) for run in runs]),
        "Against each other": [_matrix(result)] if several else [],
        "Matches": [_matches(result.matches)] if result.matches else [],
        "First moves": [page.Text(f"The board is empty, and o is to move. {parts.COLOURS}"), page.Boards(boards)]
        if boards
        else [page.left_out("No run holds a policy.")],
        f"Largest differences of {best}": _differences(result) if several else [],
        "Settings": [_settings(runs), page.Text("The command that writes this page:", [result.command])],
    }
    return page.Report(f"{len(runs)} runs side by side" if several else runs[0].name, _verdict(result), [], sections)


def _verdict(result: RunsResult) -> str:
    ranked = [(run.name, run.strength) for run in result.best if run.strength is not None]
    if not ranked:
        return "The runs are not measured exactly: that takes long here"
    best = ranked[0][1]
    bound = best.exploitability + VALUE_TOLERANCE
    level = [name for name, exact in ranked if exact.exploitability <= bound]
    after = [exact.exploitability for _, exact in ranked if exact.exploitability > bound]
    value = "perfect play" if best.perfect else f"exploitability {formats.number(best.exploitability)}"
    next_value = f"; next is {formats.number(after[0])}" if after else ""
    return f"{formats.join_names(level)} {'is' if len(level) == 1 else 'are'} least exploitable: {value}{next_value}"


def _matrix(result: RunsResult) -> page.Part:
    """Return the exact results of the runs against each other."""
    if not result.outcomes:
        runs = [f"run:{run.path}" for run in result.runs]
        return page.left_out(MISSING, shlex.join(["python", "evaluate.py", "tournament", *runs]))
    cells = {
        pair: parts.score_cell(one.score, formats.share(one.score), " / ".join(f"{part:.2f}" for part in one))
        for pair, one in result.outcomes.items()
    }
    names = {i: result.runs[i].name for i in dict.fromkeys(i for i, _ in result.outcomes)}
    return parts.cross_table("Exact scores, the mean of both seats; below them win / draw / loss.", names, cells)


def _matches(matches: Sequence[PlayedMatch]) -> page.Part:
    rows = []
    for match in matches:
        rate, exact = match.score.rate("score"), "not computed"
        if match.exact is not None:
            inside = "inside" if rate.low <= match.exact.score <= rate.high else "outside"
            exact = f"{match.exact.score:.4f}, {inside}"
        counts = " / ".join(f"{int(count):,}" for count in match.score.table.sum(axis=0))
        ends = f"{rate.low:.4f} to {rate.high:.4f}"
        rows.append((f"{match.a} against {match.b}", f"{match.score.games:,}", counts, f"{rate.mean:.4f}", ends, exact))
    caption = "The score of the first named. A 95% interval misses the exact score in one match of twenty."
    return page.Table(caption, ("match", "games", "won / drawn / lost", "score", "95% interval", "exact score"), rows)


def _differences(result: RunsResult) -> page.Parts:
    """Return the positions in which the two best runs differ most."""
    a, b = result.best[:2]
    if a.policy is None or b.policy is None:
        return [page.left_out("Left out: a run holds no policy.")]
    found = differences_within(result.game, a.policy, b.policy)
    spots = None if found is None else convert(found, list[Spot], str_keys=True)
    return parts.differences(result.game, spots, a.name, b.name)


def _settings(runs: Sequence[ComparedRun]) -> page.Part | None:
    """Return the settings in which the runs differ."""
    labels = [run.curve.labels for run in runs]
    varied = ["learner", "seed", *varied_labels([run.curve for run in runs]), *(name for one in labels for name in one)]
    names = [name for name in dict.fromkeys(varied) if len({one.get(name) for one in labels}) > 1]
    rows = [(name.replace("_", " "), *(_format_value(one.get(name)) for one in labels)) for name in names]
    if not rows:
        return page.Text("The runs have the same settings.") if len(runs) > 1 else None
    return page.Table("Settings in which the runs differ", ("setting", *(run.name for run in runs)), rows)


def _format_value(value: object) -> str:
    return truncate("" if value is None else str(value), MAX_VALUE_LENGTH)
