"""The page of one to many runs: how they learned, what they are worth, and how they play.

One run is shown in detail, several of one game side by side. See docs/reports.md.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from baselines.exact import MAX_SOLVER_CELLS, Solution, solve
from learners import CONFIG
from learners.checkpoint import COST, METRICS, RunPolicy, build_config, is_recorded
from ttt_envs.agents.policy import VALUE_TOLERANCE, Policy
from ttt_envs.agents.specs import make_policy
from ttt_envs.core.checks import Refusal, truncate
from ttt_envs.envs.config import SELF
from ttt_envs.game.boards import STONES, Boards, coordinate
from ttt_envs.game.game import Game, Position
from ttt_envs.game.phantom import AnyGame, PhantomGame, visible
from ttt_envs.game.rules import Outcome
from ttt_envs.graph.estimate import affordable, strength_seconds
from ttt_eval.exact.dynamic_programming import (
    OutcomeProbabilities,
    has_regret,
    match_outcome,
    played_losses,
)
from ttt_eval.exact.policy_cache import cached
from ttt_eval.exact.results import in_seats
from ttt_eval.exact.strength import (
    Strength,
    first_choice,
    strength,
    worst_positions,
)
from ttt_eval.matches.games import PlayedGame, Ply
from ttt_eval.matches.match import play_pairs
from ttt_eval.matches.results import compare_moves
from ttt_eval.reports import formats, page, parts, plots
from ttt_eval.reports.page import (
    BoardFigure,
    BoardRow,
    Cell,
    Part,
    Parts,
    PlotFigure,
    Report,
    Text,
    Tile,
    left_out,
)
from ttt_eval.runs.curves import (
    SEATS,
    Curve,
    Group,
    group_curves,
    list_runs,
    log_spaced,
    read_curves,
    varied_labels,
)
from ttt_eval.runs.run_files import REPORT, RunDirectory, first_move_names
from ttt_eval.store.cost import COST_KEYS, cpu_seconds
from ttt_eval.store.metrics import COUNTS, LOSS_LABELS, LOSSES, RATES
from ttt_eval.store.result_store import Data, no_progress

Row = Mapping[str, float]
MAX_RUNS = parts.MAX_GROUPS
"""Maximum number of runs on a page: of curves that can be told apart."""
OPPONENTS = ("random", "optimal")
"""Policies that every run meets on a page of several runs, besides the other runs."""
MAX_MARKS = 200
"""Maximum number of marks in a plot."""
MAX_RATES = 30
"""Maximum number of marks between which results are counted: more would leave too few games between
two.
"""
MAX_BOARDS = 5
"""Maximum number of marks whose first move is shown."""
MAX_PLIES = 36
"""Maximum number of moves of a sample game that are shown, the last ones."""
SEAT_NAMES = ("moving first", "moving second")
QUICK_OPPONENTS = ("random", "win-or-block", "optimal")
"""Opponents of a run that play its sample game; others may be slow, or arbitrary."""
OUTCOMES = ("won", "drawn", "lost")
UNKNOWN = "not known"
SHARES = "share of games"
X_LABELS = {"games": "games", "iterations": "steps of the optimizer"}


class RunResult(NamedTuple):
    """A run, finished or not, and its exact strength."""

    directory: RunDirectory
    config: Data
    """its ``config.json``"""
    game: AnyGame
    policy: RunPolicy | None
    """the policy that it learned; None before the first checkpoint"""
    rows: Sequence[Row]
    """its logged numbers"""
    strength: Strength | None = None
    """None if it is not computed: the page then shows the command for it"""
    name: str = ""
    """on a page of several runs"""

    @property
    def is_recorded(self) -> bool:
        """Whether it is a recorded curve, which has neither settings nor a policy."""
        return is_recorded(self.directory.path, self.config)

    @property
    def measures(self) -> Mapping[str, float]:
        """Exact measures: of its policy, or else its last ones during training, if there are
        any.
        """
        if self.strength is not None:
            return self.strength.measures
        return next((row for row in reversed(self.rows) if "exploitability" in row), {})

    @property
    def games(self) -> str:
        """Number of games played in training."""
        return f"{self.rows[-1]['games'] if self.rows else 0:,.0f}"

    @property
    def cost(self) -> tuple[str, str]:
        """CPU seconds and peak memory of the training."""
        phase = self.directory.read_cost().get("training")
        if phase is None:
            seconds = self.rows[-1].get("cpu_s") if self.rows else None
            return UNKNOWN if seconds is None else f"{seconds:,.1f} s", UNKNOWN
        return f"{cpu_seconds(phase):,.1f} s", formats.mebibytes(phase["peak_rss_bytes"])

    @property
    def opponent(self) -> str:
        """The opponent of the training."""
        return str(self.config.get("opponent", SELF))

    @property
    def seat(self) -> int | None:
        """The seat of the training; None for both."""
        return SEATS.get(self.config.get("seat", ""))

    def command(self, name: str, *words: str) -> str:
        """Return a command of ``evaluate.py`` for the run."""
        return formats.command(
            "evaluate.py", name, self.directory.policy, *words, *formats.game_options(self.game)
        )


def read_run(path: Path, strength: Strength | None = None, name: str = "") -> RunResult:
    """Read a run, see :class:`RunResult`.

    Raises:
        ValueError: no run, or a damaged file.
    """
    directory = RunDirectory(path)
    config = directory.read_config()
    game = directory.read_game()
    policy = RunPolicy(game, str(path)) if directory.checkpoint.is_file() else None
    return RunResult(directory, config, game, policy, directory.read_metrics(), strength, name)


class RunsResult(NamedTuple):
    """Runs of one game, compared."""

    game: AnyGame
    runs: Sequence[RunResult]
    outcomes: Mapping[tuple[int, int], OutcomeProbabilities]
    """of the first run against the second one, the mean over both seats"""
    folder: Path
    """folder of the page"""


def write_run_page(run: Path, strength: Strength | None) -> Path:
    """Write ``report.html`` of a run beside its other files, and return its path.

    Args:
        run: the run directory.
        strength: its exact strength; None if not computed: the page then shows the command for it.

    Raises:
        ValueError: no run, or one with a damaged file.
    """
    return page.write_report(run / REPORT, run_report(read_run(run, strength)))


def read_runs(
    out: Path,
    paths: Sequence[Path],
    progress: Callable[[int, int], None] = no_progress,
) -> RunsResult:
    """Read runs, and compute the exact strength and results against each other of up to
    ``MAX_RUNS``.

    Args:
        out: path of the page; links to the runs are relative to it.
        paths: run directories of one game, or folders of them; unfinished runs play as their last
            checkpoint does.
        progress: called with the number of exact results computed, and of all.

    Raises:
        ValueError: as :func:`read_common_game`, and other damaged files.
    """
    game = read_common_game(paths)
    paths = list_runs(paths)
    names = [path.resolve().name for path in paths]
    names = names if len(set(names)) == len(names) else list(map(str, paths))
    runs = [read_run(path, name=name) for path, name in zip(paths, names, strict=True)]
    pure = {
        i: run.policy
        for i, run in enumerate(runs if len(runs) <= MAX_RUNS else ())
        if run.policy and run.policy.pure and affordable(game, run.policy)
    }
    total = len(pure) * (len(pure) + 1) // 2
    counter = itertools.count(1)
    for i, policy in pure.items():
        runs[i] = runs[i]._replace(strength=strength(game, policy, OPPONENTS))
        progress(next(counter), total)
    players = {i: cached(policy, game) for i, policy in pure.items()}
    outcomes = {}
    for i, j in itertools.combinations(players, 2):
        outcomes[i, j] = match_outcome(game, players[i], players[j])
        outcomes[j, i] = outcomes[i, j].reversed()
        progress(next(counter), total)
    return RunsResult(game, runs, outcomes, out.parent)


def read_common_game(paths: Sequence[Path]) -> AnyGame:
    """Return the game of runs that are to be compared.

    Raises:
        ValueError: no run, a folder without a run, one whose ``config.json`` is damaged, or runs of
            different games.
    """
    games = {path: RunDirectory(path).read_game() for path in list_runs(paths)}
    if len(set(games.values())) > 1:
        names = "; ".join(f"{path}: {game}" for path, game in games.items())
        raise Refusal(
            f"runs of different games cannot be compared ({names}): name runs of one game"
        )
    return next(iter(games.values()))


# --------------------------------------------------------------------------------------------------
# One run


def run_report(run: RunResult) -> Report:
    """Return the page of a run."""
    learner = run.config["learner"]
    phases = run.directory.read_cost()
    cpu, memory = run.cost
    tiles = [] if run.strength is None else parts.measure_tiles(run.strength.measures)
    tiles.append(Tile("games", run.games, "played in training"))
    tiles.append(Tile("training", cpu, "" if cpu == UNKNOWN else f"of CPU, {memory} at most"))
    costs = [(name, *(phase[key] for key in COST_KEYS)) for name, phase in phases.items()]
    sections: dict[str, Parts] = {
        "": [Text(f"{learner} learned {run.game} {_describe_training(run)}."), *_strength(run)],
        "Learning curves": _learning(run),
        **_play(run),
        "Cost": [
            parts.table("phases", costs) if costs else left_out(f"Not known: there is no {COST}.")
        ],
        "Settings": _settings(run),
    }
    return Report(f"{learner}, {run.game}", _verdict(run.strength), tiles, sections)


def _verdict(exact: Strength | None) -> str:
    if exact is None:
        return ""
    if exact.perfect:
        return page.words("perfect")
    verdict = page.words("imperfect", gain=formats.number(exact.exploitability))
    if exact.regret is None:
        return verdict
    return f"{verdict}. In self-play an average move loses {formats.number(exact.regret)}"


def _describe_training(run: RunResult) -> str:
    """Describe the opponent of a run's training."""
    teacher = run.config["settings"].get("teacher")
    seat = "" if run.seat is None else f", {SEAT_NAMES[run.seat]}"
    return (
        f"from games of its teacher {teacher}"
        if teacher
        else f"from games against {run.opponent}{seat}"
    )


def _strength(run: RunResult) -> Parts:
    """Return exact results by opponent, each followed by those of both seats."""
    if run.strength is None:
        return missing_strength(run)
    names = [
        f"{name}, as it learned" if seat == run.seat else name
        for seat, name in enumerate(SEAT_NAMES)
    ]
    rows: list[tuple[object, ...]] = []
    for opponent, result in run.strength.results.items():
        seats = [(opponent, result), *zip(names, run.strength.seats[opponent], strict=True)]
        rows += [(name, *shares, shares) for name, shares in seats]
    return (
        [parts.table("strength", rows, [row for row in range(len(rows)) if row % 3])]
        if rows
        else []
    )


def missing_strength(run: RunResult) -> list[Text]:
    """Return whether the strength of a run can be computed, and the commands that compute it and
    estimate it; nothing before the first checkpoint.
    """
    if run.policy is None:
        return []
    seconds = strength_seconds(run.game, run.policy)
    words = page.words("no strength", seconds=f"{seconds:,.0f}")
    parts = [left_out(words, run.command("exploitability"))]
    if math.isinf(seconds):
        parts = [left_out(page.words("impossible strength"))]
    if isinstance(run.game, Game):
        match = run.command("match", "win-or-block")
        parts.append(left_out(page.words("a match estimates"), match))
    return parts


def _learning(run: RunResult) -> Parts:
    """Return the curves, and the first move at some marks."""
    if not run.rows:
        return [left_out(f"Nothing was logged: there is no line in {METRICS}.")]
    measurements = thin_out([row for row in run.rows if "exploitability" in row])
    moves = first_move_names(run.game)
    marks = thin_out([row for row in run.rows if all(name in row for name in moves)], MAX_BOARDS)
    start = Position(np.zeros(run.game.cells, np.int8), 0)

    boards = [
        parts.choice_board(
            run.game,
            start,
            np.array([row[name] for name in moves]),
            title=f"{row['games']:,.0f} games",
        )
        for row in marks
    ]
    return [
        list(_curves(run, measurements)) or None,
        None if measurements else left_out(page.words("no measurements")),
        BoardRow(boards, "Its first move during training") if boards else None,
    ]


def _curves(run: RunResult, measurements: Sequence[Row]) -> Iterator[PlotFigure]:
    """Yield curves of exact measurements, of results during exploration, and of the loss, as far as
    they are known.
    """
    counts: list[Row] = []
    if all(name in row for row in run.rows for name in COUNTS):
        counts = rates(thin_out(run.rows, MAX_RATES))
    losses = [row for row in run.rows if "iterations" in row]
    results = ("won by o", "drawn", "won by x") if run.opponent == SELF else OUTCOMES
    exact_rates = page.words("exact rates", opponent=run.opponent)
    loss_lines = dict(zip(LOSSES, LOSS_LABELS, strict=True))
    rate_lines = dict(zip(RATES, OUTCOMES, strict=True))
    count_lines = dict(zip(COUNTS, results, strict=True))
    net_lines = {"loss": "loss", "held_out_loss": "held out loss"}
    figures = [
        _figure(measurements, "games", loss_lines, "value lost", page.words("exact losses")),
        _figure(measurements, "games", rate_lines, SHARES, exact_rates),
        _figure(counts, "games", count_lines, SHARES, page.words("explored rates")),
        _figure(losses, "iterations", net_lines, "loss", page.words("net loss")),
    ]
    yield from filter(None, figures)


def _figure(
    rows: Sequence[Row], x: str, labels: Mapping[str, str], y_label: str, caption: str
) -> PlotFigure | None:
    """Return the curves of columns that all rows have; None if there are none, or no second mark.

    Args:
        rows: the measurements.
        x: column of the x axis.
        labels: by column of a curve.
        y_label: of the y axis.
        caption: of the figure.
    """
    colours = plots.RESULTS if y_label == SHARES else plots.SERIES
    marks = [row[x] for row in rows]
    lines = [
        plots.PlotLine(label, marks, [row[name] for row in rows], colour)
        for (name, label), colour in zip(labels.items(), colours, strict=False)
        if all(name in row for row in rows)
    ]
    if not lines or not marks or marks[0] >= marks[-1]:
        return None
    return parts.curves_figure(lines, X_LABELS[x], y_label, caption, distances=y_label != SHARES)


def rates(rows: Sequence[Row]) -> list[Row]:
    """Return the shares of :data:`COUNTS` among the games since the previous mark, where there were
    any.
    """
    start: Row = {"games": 0, **dict.fromkeys(COUNTS, 0)}
    shares: list[Row] = []
    for before, row in itertools.pairwise([start, *rows]):
        games = row["games"] - before["games"]
        if games > 0:
            numbers = {name: (row[name] - before[name]) / games for name in COUNTS}
            shares.append({"games": row["games"], **numbers})
    return shares


def thin_out(rows: Sequence[Row], max_rows: int = MAX_MARKS) -> list[Row]:
    """Return at most ``max_rows`` rows including the first and the last, evenly spaced on the log
    axis of games.
    """
    return [rows[index] for index in log_spaced(np.array([row["games"] for row in rows]), max_rows)]


def _play(run: RunResult) -> dict[str, Parts]:
    """Return the first move, a game, and the worst positions."""
    game = run.game
    policy = run.policy
    if policy is None:
        return {"How it plays": [left_out("There is no checkpoint yet.")]}
    exact = policy.pure and affordable(game, policy)
    solution = solve(visible(game)) if exact and has_regret(game) else None
    first_move = _first_move(game, policy, solution)
    if isinstance(game, PhantomGame):
        return {"The first move": first_move, "A sample game": [left_out(page.words("hidden"))]}
    return {
        "The first move": first_move,
        "A sample game": _sample(run, game, policy, solution),
        "Worst positions": _worst(run, game, policy, solution),
    }


def _first_move(game: AnyGame, policy: Policy, solution: Solution | None) -> Parts:
    """Return the move probabilities on the empty board, the policy's values, and the exact
    values.
    """
    choice = first_choice(game, policy, solution=solution)
    chances = parts.map_board(
        game, "move probabilities", choice.probabilities, formats.format_probability
    )
    boards = [chances._replace(explore=formats.explorer_command(game, choice.position))]
    for values, key in ((choice.own, "own values"), (choice.exact, "exact values")):
        if values is not None:
            boards.append(parts.map_board(game, key, values))
    return [Text(page.words("first move")), BoardRow(boards)]


def _sample(run: RunResult, game: Game, policy: Policy, solution: Solution | None) -> Parts:
    """Return a game, move by move: the same one for a seed."""
    players = (policy, policy)
    names = "It plays itself"
    seat = run.seat or 0
    if run.opponent in QUICK_OPPONENTS and (run.opponent != "optimal" or solution is not None):
        other = make_policy(run.opponent, game)
        players = in_seats(policy, other, seat)
        names = f"It has {STONES[seat + 1]} and plays {run.opponent}, who has {STONES[2 - seat]}"
    games: list[PlayedGame] = []
    play_pairs(game, *players, 1, seed=run.config.get("seed", 0), log=games.extend)
    plies = list(games[0].positions())
    last = games[0].end()
    losses: list[float] = []
    if solution is not None:
        values = solution.action_values(
            Boards.from_positions([position for position, _, _ in plies])
        )
        losses = played_losses(values, np.array([action for _, action, _ in plies])).tolist()
    end = (
        "the game is drawn" if games[0].result == Outcome.DRAW else f"{STONES[last.mover + 1]} wins"
    )
    loss = f" Moves lose {formats.number(sum(losses))} in all; 0 is a best move." if losses else ""
    text = Text(f"{names}; after {len(plies)} moves {end}.{loss}")
    return [text, BoardRow(list(_plies(game, plies, losses, last, end))[-MAX_PLIES:])]


def _plies(
    game: Game, plies: Sequence[Ply], losses: Sequence[float], last: Position, end: str
) -> Iterator[BoardFigure]:
    """Yield a board after each move."""
    for count, (position, action, skips) in enumerate(plies, 1):
        cell = coordinate(action, game)
        is_last = count == len(plies)
        next_position = last if is_last else plies[count].position
        skip = f"{STONES[2 - position.mover]}'s turn is skipped" if skips else ""
        lines = (f"{count}. {STONES[position.mover + 1]} {cell}", skip, end if is_last else "")
        cost = f"loses {formats.number(losses[count - 1])}" if losses else ""
        yield BoardFigure(
            game,
            next_position.cells,
            lines,
            f"Marked is the move to {cell}.",
            last=action,
            cost=cost,
            explore="" if is_last else formats.explorer_command(game, next_position),
        )


def _worst(run: RunResult, game: Game, policy: Policy, solution: Solution | None) -> Parts:
    """Return the positions in which it loses most."""
    if solution is None:
        commands = [run.command("exploitability")] if has_regret(game) else []
        return [left_out(page.words("no losses", limit=MAX_SOLVER_CELLS), *commands)]
    content: list[Part | None] = [Text(page.words("worst positions"))]
    for opponent, key in ((None, "in self-play"), ("random", "against random")):
        mistakes = worst_positions(game, policy, opponent)
        boards = [
            parts.choice_board(
                game,
                choice.position,
                choice.probabilities,
                choice.best.tolist(),
                loss,
                likely,
            )
            for choice, loss, likely, _ in mistakes
        ]
        nothing = Text(f"{page.words(key)}, it loses nothing.")
        content.append(BoardRow(boards, page.words(key)) if boards else nothing)
    return [*content, left_out(page.words("puzzles"), run.command("puzzles"))]


def _settings(run: RunResult) -> Parts:
    """Return the settings, and the commands that reproduce the run."""
    commands = [
        "# repeat the training",
        _reproduce_command(run),
        "# continue from the last checkpoint, or to more games by --games N",
        f"python {run.directory.resume_command}",
        "# measure the strength",
        run.command("exploitability"),
        run.command("match", "win-or-block"),
    ]
    return [
        Text("", commands, folded=page.words("commands of the run")),
        Text("", json.dumps(run.config, indent=2), folded=f"All settings, as {CONFIG} has them"),
    ]


def _reproduce_command(run: RunResult) -> str:
    """Return the command that repeats the training."""
    config = run.config
    learner = run.config["learner"]
    names = ("opponent", "seat", "games", "batch", "seed", "log_every", "exact_every")
    row = {name: config.get(name) for name in names}
    if "teacher" in config["settings"]:
        row.pop("opponent", None)
    settings = build_config(learner, config["settings"])
    openings = config.get("openings", "")  # earlier runs have none
    if openings or settings.self_play_openings:
        row["openings"] = openings
    defaults = [
        dataclasses.asdict(build_config(learner, default)) for default in ({}, settings.self_play)
    ]
    for name, value in dataclasses.asdict(settings).items():
        # which of the defaults the command has depends on the opponent
        if all(value == default[name] for default in defaults):
            continue
        if value is False:
            row[f"no_{name}"] = True
        else:
            row[name] = "None" if value is None else value
    words = ["train.py", "--learner", learner, *formats.game_options(run.game)]
    return formats.command(*words, **row, out=f"{run.directory}-again")


# --------------------------------------------------------------------------------------------------
# Several runs


def runs_report(result: RunsResult) -> Report:
    """Return the page of runs: of one in detail, of several side by side; settings with seeds are
    compared.

    Raises:
        ValueError: more runs than readers can tell apart, and not of fewer settings.
    """
    runs = result.runs
    if len(runs) == 1 and not runs[0].is_recorded:
        return run_report(runs[0])
    curves = read_curves([run.directory.path for run in runs])
    from ttt_eval.reports.groups import describe_groups, groups_parts, measure_groups

    groups = group_curves(curves)
    measures = measure_groups(groups) if 1 < len(groups) < len(runs) else []
    if not measures:
        groups = [Group(run.name, {}, [curve]) for run, curve in zip(runs, curves, strict=True)]
    ranking = sorted(runs, key=lambda run: run.measures.get("exploitability", math.inf))
    sections: dict[str, Parts] = {
        "": [Text(page.words("runs", game=result.game))],
        "Settings over seeds": groups_parts(measures) if measures else [],
        "Learning curves": parts.curve_parts(groups),
        **(_side_by_side(result, ranking) if len(runs) <= MAX_RUNS else {}),
        "Settings": [_varied_settings([run.name for run in runs], curves)],
    }
    title = "1 recorded curve" if len(runs) == 1 else f"{len(runs)} runs side by side"
    verdict = describe_groups(measures[0]) if measures else _best_of_runs(ranking)
    return Report(title, verdict, [], sections)


def _best_of_runs(ranking: Sequence[RunResult]) -> str:
    """Name the best of these runs by exploitability, which says nothing of other seeds."""
    losses = {run.name: run.measures["exploitability"] for run in ranking if run.measures}
    if not losses:
        return page.words("unmeasured")
    best_loss, *other_losses = losses.values()
    values = [f"exploitability {formats.number(loss)}" for loss in losses.values()]
    num_undecided = sum(loss <= best_loss + VALUE_TOLERANCE for loss in other_losses)
    return formats.describe_best(list(losses), values, num_undecided, f"these {len(losses)} runs")


def _side_by_side(result: RunsResult, ranking: Sequence[RunResult]) -> dict[str, Parts]:
    """Return the sections that have a part for each run."""
    game = result.game
    runs = result.runs
    head = (
        "run",
        *LOSS_LABELS,
        *map("score against {}".format, OPPONENTS),
        "games",
        "CPU of training",
        "peak memory",
    )
    policies = [(run.name, run.policy) for run in runs if run.policy]
    solution = (
        solve(visible(game)) if any(run.strength for run in runs) and has_regret(game) else None
    )
    choices = [(name, first_choice(game, policy, solution=solution)) for name, policy in policies]
    boards = [
        parts.choice_board(
            game, choice.position, choice.probabilities, choice.best.tolist(), title=name
        )
        for name, choice in choices
    ]
    best = [(run.name, run.policy) for run in ranking if run.policy][:2]
    sections: dict[str, Parts] = {
        "The runs": [parts.table("runs", [_run_row(run, result) for run in runs], head=head)],
        "Against each other": [_matrix(result)],
        "First moves": [Text(page.words("first moves")), BoardRow(boards)] if boards else [],
    }
    if len(best) == 2:
        (a, policy), (b, other) = best
        spots = compare_moves(game, policy, other)
        sections[f"Largest differences of {a} and {b}"] = parts.differences(game, spots, a, b)
    return sections


def _run_row(run: RunResult, result: RunsResult) -> page.Row:
    """Return the strength and the cost of a run."""
    measures = run.measures
    missing = "no policy" if run.is_recorded else "not computed"
    unknown = "not solved" if measures else missing
    numbers: list[str | Cell] = [
        formats.number(measures[name]) if name in measures else unknown for name in LOSSES
    ]
    results = run.strength.results.values() if run.strength else ()
    numbers += [Cell(*_describe_result(outcome)) for outcome in results] or [missing] * len(
        OPPONENTS
    )
    name = Cell(links=[(run.name, page.link_to(run.directory.report, result.folder))])
    return [name, *numbers, run.games, *run.cost]


def _matrix(result: RunsResult) -> Part:
    """Return the exact results of the runs against each other."""
    if not result.outcomes:
        runs = [f"run:{run.directory}" for run in result.runs if not run.is_recorded]
        if len(runs) < 2:
            return left_out(page.words("no policies"))
        return left_out(page.words("no matrix"), formats.command("evaluate.py", "match", *runs))
    names = {i: run.name for i, run in enumerate(result.runs) if run.strength}
    cells = {
        pair: (outcome.score, *_describe_result(outcome))
        for pair, outcome in result.outcomes.items()
    }
    return parts.cross_table("matrix of runs", names, cells)


def _describe_result(result: OutcomeProbabilities) -> tuple[str, str]:
    """Return the score, and the shares of wins, draws and losses."""
    return formats.number(result.score), " / ".join(f"{share:.2f}" for share in result)


def _varied_settings(runs: Sequence[str], curves: Sequence[Curve]) -> Part:
    """Return the settings in which the runs differ, the seed among them."""
    rows = [
        (name.replace("_", " "), *(truncate(curve.labels.get(name, "")) for curve in curves))
        for name in dict.fromkeys(["learner", "seed", *varied_labels(curves), "games"])
        if len({curve.labels.get(name) for curve in curves}) > 1
    ]
    table = parts.table("varied settings", rows, head=("setting", *runs))
    return table if rows else Text("The runs have the same settings.")
