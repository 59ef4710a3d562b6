"""The page of one to many runs: how they learned, what they are worth, and how they play.

One run is shown in detail, several of one game side by side. A run's files are not trusted: invalid parts are replaced
by a sentence with the reason. See docs/reports.md.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from msgspec import convert

from baselines.exact import MAX_SOLVER_CELLS, Solution, solve
from learners.checkpoint import CONFIG, COST, METRICS, RunPolicy, build_config
from learners.pool import NAME as POOL
from ttt_envs.agents.policy import VALUE_TOLERANCE, Policy
from ttt_envs.agents.specs import make_policy
from ttt_envs.core.checks import truncate
from ttt_envs.envs.config import SELF
from ttt_envs.game.boards import STONES, coordinate
from ttt_envs.game.game import Game
from ttt_envs.game.phantom import AnyGame, PhantomGame, game_from_dict, visible
from ttt_envs.game.rules import Outcome
from ttt_eval.curve_summaries import Group, varied_labels
from ttt_eval.curves import Curve, read_curves
from ttt_eval.exact.critics import critic_error
from ttt_eval.exact.dynamic_programming import OutcomeProbabilities, has_regret, match_outcome
from ttt_eval.exact.estimate import affordable
from ttt_eval.exact.policy_cache import cached
from ttt_eval.exact.strength import Strength, differences_within, first_choice, strength, worst_positions
from ttt_eval.matches.match import SampleGame, sample_game
from ttt_eval.matches.score import Score
from ttt_eval.metrics import LOSS_LABELS, LOSSES, RATES, metric
from ttt_eval.reports import formats, page, parts, plots
from ttt_eval.reports.curves import MAX_GROUPS, Row, curve_parts, curves_figure, rates, thin_out
from ttt_eval.reports.results import Spot
from ttt_eval.run_files import REPORT, RUN_FILES, RunDirectory
from ttt_eval.sweep import to_command_line

MAX_RUNS = MAX_GROUPS
"""Maximum number of runs on a page: of curves that can be told apart."""
OPPONENTS = ("random", "optimal")
"""Policies that every run meets, besides the other runs."""
MAX_BOARDS = 5
"""Maximum number of marks whose first move is shown."""
MAX_RATES = 30
"""Maximum number of marks between which results are counted: more would leave too few games between two."""
MAX_CELLS_BY_MOVE = 36
"""Maximum number of cells for showing a sample game move by move; on larger boards its stones are numbered."""
MAX_VALUE_LENGTH = 60
"""Maximum length of the value of a setting, in characters."""
SEATS = {"first": 0, "second": 1}
"""The setting ``seat`` of runs that learn in one seat."""
SEAT_NAMES = ("moving first", "moving second")
QUICK_OPPONENTS = ("random", "win-or-block", "optimal")
"""Opponents of a run that play its sample game; others may be slow, or arbitrary."""
OUTCOMES = ("won", "drawn", "lost")
COUNTS = ("wins", "draws", "losses")
LIMIT = str(MAX_SOLVER_CELLS)


@dataclasses.dataclass(frozen=True)
class RunResult:
    """A run, and its exact strength. Parts of its files are read when they are used."""

    path: Path
    strength: Strength | None = None
    """None if it is not computed: the page then shows the command for it"""
    name: str = ""
    """on a page of several runs"""
    back: str = ""
    """path of an overview, relative to the run; "" for none"""

    @cached_property
    def directory(self) -> RunDirectory:
        """Its files."""
        return RunDirectory(self.path)

    @cached_property
    def config(self) -> Mapping[str, Any]:
        """Its ``config.json``.

        Raises:
            ValueError: no run, or a damaged file.
        """
        return self.directory.read_config()

    @cached_property
    def game(self) -> AnyGame:
        """The game of the training."""
        return game_from_dict(self.config["game"])

    @cached_property
    def policy(self) -> tuple[RunPolicy | None, str]:
        """The policy that it learned, or why there is none."""
        return page.or_why(lambda: RunPolicy(self.game, str(self.path)))

    @cached_property
    def metrics(self) -> tuple[Sequence[Row] | None, str]:
        """Its logged numbers, or why there are none."""
        return page.or_why(self.directory.read_metrics)

    @cached_property
    def phases(self) -> tuple[Mapping[str, Row] | None, str]:
        """Its cost by phase, or why it is unknown."""
        return page.or_why(self.directory.read_cost)

    @cached_property
    def curve(self) -> tuple[Curve, str]:
        """Its learning curve, and why it is empty."""
        curves, why = page.or_why(lambda: read_curves([self.path]))
        return curves[0] if curves else Curve(str(self.path), {}, []), why

    @property
    def games(self) -> str:
        """Number of games played in training."""
        rows = self.metrics[0]
        return formats.whole_number(rows[-1]["games"] if rows else self.config.get("games", 0))

    @property
    def cost(self) -> tuple[str, str, str] | None:
        """CPU seconds, peak memory and wall time of the training; None if unknown."""
        phase = (self.phases[0] or {}).get("training")
        if phase is None:
            return None
        cpu = phase["cpu_user_s"] + phase["cpu_system_s"]
        return f"{cpu:,.1f} s", formats.mebibytes(phase["peak_rss_bytes"]), f"{phase['wall_s']:,.1f} s"

    @property
    def opponent(self) -> str:
        """The opponent of the training."""
        return str(self.config.get("opponent", SELF))

    @property
    def seat(self) -> int | None:
        """The seat of the training; None for both."""
        return SEATS.get(str(self.config.get("seat")))

    @property
    def settings(self) -> Mapping[str, Any]:
        """The settings of the learner."""
        return self.config["settings"] if isinstance(self.config["settings"], dict) else {}

    @property
    def notes(self) -> list[str]:
        """Sentences about parts that are damaged or missing."""
        problems = (self.policy[1], self.curve[1], self.phases[1])
        unfinished = [f"{note}." for note in self.curve[0].notes if "unfinished" in note]
        return [*(f"Left out of {self.name}: {problem}." for problem in problems if problem), *unfinished]

    def command(self, name: str, *more: str) -> str:
        """Return a command of ``evaluate.py`` for the run."""
        options = formats.game_options(self.game)
        return shlex.join(["python", "evaluate.py", name, self.directory.policy, *more, *options])

    def strength_cells(self, opponents: Sequence[str] = ()) -> tuple[str, ...]:
        """Return the table cells of :data:`~ttt_eval.metrics.LOSSES`, and of the scores against opponents."""
        if (exact := self.strength) is None:
            return ("not computed",) * (len(LOSSES) + len(opponents))
        losses = (formats.number(exact.measures[name]) if name in exact.measures else "not solved" for name in LOSSES)
        return *losses, *(formats.share(exact.results[opponent].score) for opponent in opponents)

    def cost_cells(self) -> tuple[str, str, str]:
        """Return the table cells of :attr:`cost`."""
        return self.cost or ("not known",) * 3


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
    runs: Sequence[RunResult]
    opponents: Sequence[str]
    outcomes: Mapping[tuple[int, int], OutcomeProbabilities]
    """of the first run against the second one, the mean over both seats"""
    folder: Path
    """folder of the page"""
    command: str
    """the command that writes the page"""
    matches: Sequence[PlayedMatch] = ()

    @property
    def best(self) -> list[RunResult]:
        """The runs, least exploitable first; those of unknown strength at the end."""
        return sorted(self.runs, key=lambda run: float("inf") if run.strength is None else run.strength.exploitability)


def write_run_page(run: Path, strength: Strength | None, back: str = "") -> Path:
    """Write ``report.html`` of a run beside its other files.

    Args:
        run: the run directory.
        strength: its exact strength; None if not computed: the page then shows the command for it.
        back: the relative path, from ``run``, of an overview to link to; "" for none.

    Returns:
        The page's path.

    Raises:
        ValueError: no run, or one whose ``config.json`` is damaged. Other damaged parts are left out of the page.
    """
    return page.write_report(run / REPORT, run_report(RunResult(run, strength, back=back)))


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
    game, names = read_common_game(paths), [path.resolve().name for path in paths]
    names = names if len(set(names)) == len(names) else list(map(str, paths))
    runs = [RunResult(path, name=name) for path, name in zip(paths, names, strict=True)]
    known = {i: p for i, run in enumerate(runs) if (p := run.policy[0]) and p.pure and affordable(game, p)}
    total, done = len(known) * (len(known) + 1) // 2, itertools.count(1)
    for i, policy in known.items():
        runs[i] = dataclasses.replace(runs[i], strength=strength(game, policy, opponents))
        progress(next(done), total)
    players, outcomes = {i: cached(policy, game) for i, policy in known.items()}, {}
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


# ---------------------------------------------------------------------------------------------------------------------
# One run


def run_report(run: RunResult) -> page.Report:
    """Return the page of a run."""
    learner, (phases, no_cost) = run.config["learner"], run.phases
    tiles = [] if run.strength is None else parts.measure_tiles(run.strength.measures)
    tiles.append(page.Tile("games", run.games, "played in training"))
    if run.cost is not None:
        tiles.append(page.Tile("training", run.cost[0], f"of CPU, {run.cost[1]} at most"))
    why = f"Left out: {no_cost}." if no_cost else f"Not known: there is no {COST}."
    sections: dict[str, page.Parts] = {
        "": [page.Text(f"{learner} learned {run.game} {_describe_training(run)}."), *_strength(run)],
        "Learning curves": _learning(run),
        **_play(run),
        "Cost": [parts.phases_table("phases", phases) if phases else page.left_out(why)],
        "Settings": _settings(run),
    }
    return page.Report(f"{learner}, {run.game}", _verdict(run.strength), tiles, sections, page.encode_url(run.back))


def _verdict(exact: Strength | None) -> str:
    if exact is None or exact.perfect:
        return page.words("perfect") if exact else ""
    gain = f"a best response gains {formats.number(exact.exploitability)} a game more than against perfect play"
    regret = "" if exact.regret is None else f". In self-play an average move loses {formats.number(exact.regret)}"
    return f"It does not play perfectly: {gain}{regret}"


def _describe_training(run: RunResult) -> str:
    """Describe the opponent of a run's training."""
    if (teacher := run.settings.get("teacher")) is not None:
        return f"from games of its teacher {teacher}"
    if run.opponent == SELF:
        return "from games against itself"
    if run.opponent.partition(":")[0] == POOL:
        return f"from games against its own earlier copies ({run.opponent})"
    return f"from games against {run.opponent}" + ("" if run.seat is None else f", {SEAT_NAMES[run.seat]}")


def _strength(run: RunResult) -> page.Parts:
    """Return exact results by opponent, each followed by those of both seats."""
    if run.strength is None:
        match = page.left_out(page.words("a match estimates"), run.command("match", "win-or-block"))
        return [page.left_out(page.words("no strength"), run.command("exploitability")), match]
    names = [f"{name}, as it learned" if seat == run.seat else name for seat, name in enumerate(SEAT_NAMES)]
    sentences, rows = [], list[tuple[str, Sequence[float]]]()
    for opponent, result in run.strength.results.items():
        win, draw, loss = map(formats.percent, result)
        sentences.append(f"{opponent} it wins {win}, draws {draw} and loses {loss}")
        rows += [(opponent, result), *zip(names, run.strength.seats[opponent], strict=True)]
    table = parts.results_table("strength", rows, [row for row in range(len(rows)) if row % 3])
    return [page.Text(f"Against {'; against '.join(sentences)}."), table] if rows else []


def _learning(run: RunResult) -> page.Parts:
    """Return the measurements, mark by mark."""
    rows, why = run.metrics
    if not rows:
        nothing = f"Nothing was logged: there is no line in {METRICS}"
        return [page.left_out(f"The curves are left out: {why}." if why else f"{nothing}.")]
    measured = thin_out([row for row in rows if "exploitability" in row])
    names = [name for name in (*LOSSES, *RATES) if measured and name in measured[0]]
    lines = [(row["games"], *(row.get(name) for name in names)) for row in measured]
    table = parts.table("measured", lines, head=("games", *(metric(name).label for name in names)))
    figures, (boards, why) = list(_curves(run, rows, measured)), page.or_why(lambda: _first_moves(run))
    return [
        figures or None,
        table if measured else page.left_out(page.words("no measurements")),
        page.left_out(f"The boards during training are left out: {why}.") if why else None,
        page.Boards(boards, "Its first move during training") if boards else None,
    ]


def _first_moves(run: RunResult) -> list[page.Board]:
    """Return the first move at some marks, if the run has stored it."""
    marks = [mark for mark in run.directory.read_choices(run.game) if mark.choices]
    games = {row["games"] for row in thin_out([{"games": mark.games} for mark in marks], MAX_BOARDS)}
    chosen = [(f"{mark.games:,} games", mark.choices[0]) for mark in marks if mark.games in games]
    return [parts.choice_board(run.game, one.position, one.probabilities, title=title) for title, one in chosen]


def _curves(run: RunResult, rows: Sequence[Row], measured: Sequence[Row]) -> Iterator[page.Figure]:
    """Yield curves of exact measurements, of results during exploration, and of the loss."""
    exact = [row for row in measured if all(name in row for name in RATES)]
    if _has_range(measured):
        lines = _lines(measured, dict(zip(LOSSES, LOSSES, strict=True)))
        yield curves_figure(lines, "games", "value lost", page.words("exact losses"), distances=True)
    if _has_range(exact):
        caption = page.words("exact rates", opponent=run.opponent)
        lines = _lines(exact, dict(zip(RATES, OUTCOMES, strict=True)), plots.RESULTS)
        yield curves_figure(lines, "games", "share of games", caption, distances=False)
    if _has_range(rows) and all(name in row for row in rows for name in COUNTS):
        labels = ("won by o", "drawn", "won by x") if run.opponent == SELF else OUTCOMES
        columns, marks = zip(labels, plots.RESULTS, COUNTS, strict=True), thin_out(rows, MAX_RATES)
        lines = [plots.Line(label, *rates(marks, name), colour) for label, colour, name in columns]
        yield curves_figure(lines, "games", "share of games", page.words("explored rates"), distances=False)
    losses = [row for row in rows if "iterations" in row and "loss" in row]
    if len(losses) > 1:
        lines = _lines(losses, {"loss": "loss", "held_out_loss": "held out loss"}, x="iterations")
        yield curves_figure(lines, "steps of the optimizer", "loss", page.words("net loss"), distances=True)


def _has_range(rows: Sequence[Row]) -> bool:
    """Return whether rows are of different numbers of games."""
    return len({row["games"] for row in rows}) > 1


def _lines(
    rows: Sequence[Row], labels: Mapping[str, str], colours: Sequence[str] = plots.SERIES, x: str = "games"
) -> list[plots.Line]:
    """Return the curves of the columns that all rows have, with their labels."""
    names, at = [name for name in labels if all(name in row for row in rows)], [row[x] for row in rows]
    columns = zip(names, colours, strict=False)
    return [plots.Line(labels[name], at, [row[name] for row in rows], colour) for name, colour in columns]


def _play(run: RunResult) -> dict[str, page.Parts]:
    """Return the first move, a game, the worst positions, and the error of values."""
    game, (policy, why) = run.game, run.policy
    if policy is None:
        return {"How it plays": [page.left_out(f"The boards are left out: {why}.")]}
    exact = policy.pure and affordable(game, policy)
    solution = solve(visible(game)) if exact and has_regret(game) else None
    first_move = _first_move(game, policy, solution)
    if isinstance(game, PhantomGame):
        return {"The first move": first_move, "A sample game": [page.left_out(page.words("hidden"))]}
    return {
        "The first move": first_move,
        "A sample game": _sample(run, game, policy, solution),
        "Worst positions": _worst(run, game, policy, solution),
        "Error of its values": _critic(run, game, policy.learner) if exact else [],
    }


def _first_move(game: AnyGame, policy: Policy, solution: Solution | None) -> page.Parts:
    """Return the move probabilities on the empty board, the policy's values, and the exact values.

    Numbers that are alike for all moves are a sentence instead of a board.
    """
    choice = first_choice(game, policy, solution=solution)
    boards, sentences = list[page.Board](), list[str]()
    if np.ptp(choice.probabilities) <= VALUE_TOLERANCE:
        probability = formats.share(float(choice.probabilities[0]))
        sentences.append(f"It plays every first move with the same probability, {probability}.")
    else:
        boards.append(parts.first_move_board(game, choice.probabilities))
    for values, key, verb in (
        (choice.own, "own values", "It values every first move at"),
        (choice.exact, "exact values", "Every first move has the exact value"),
    ):
        if values is not None and np.nanmax(values) - np.nanmin(values) <= VALUE_TOLERANCE:
            sentences.append(f"{verb} {formats.signed(float(values[0]))}.")
        elif values is not None:
            title, about = page.words(key).split(": ")
            boards.append(parts.map_board(game, title, about, values))
    if boards:
        boards[0] = boards[0]._replace(ways=parts.open_position(game, choice.position))
    limited = choice.exact is None and not isinstance(game, PhantomGame)
    return [
        page.Text(page.words("first move" if game.columns <= page.MAX_COLUMNS else "first move, pointed at")),
        page.Boards(boards) if boards else None,
        page.Text(" ".join(sentences)) if sentences else None,
        page.left_out(page.words("no exact values", limit=LIMIT)) if limited else None,
    ]


def _sample(run: RunResult, game: Game, policy: Policy, solution: Solution | None) -> page.Parts:
    """Return a game, move by move: the same one for a seed."""
    players, names, seat, seed = (policy, policy), "It plays itself", run.seat or 0, run.config.get("seed", 0)
    if run.opponent in QUICK_OPPONENTS and (run.opponent != "optimal" or solution is not None):
        other = make_policy(run.opponent, game)
        players = (policy, other) if seat == 0 else (other, policy)
        names = f"It has {STONES[seat + 1]} and plays {run.opponent}, who has {STONES[2 - seat]}"
    seed = seed if isinstance(seed, int) and seed >= 0 else 0
    played = sample_game(game, *players, seed, solution=solution)
    losses = [ply.loss for ply in played.plies if ply.loss is not None]
    end = "the game is drawn" if played.outcome == Outcome.DRAW else f"{STONES[played.outcome.winner + 1]} wins"
    loss = f" Moves lose {formats.number(sum(losses))} in all; 0 is a best move." if losses else ""
    text = page.Text(f"{names}; after {len(played.plies)} moves {end}.{loss}")
    if game.cells <= MAX_CELLS_BY_MOVE:
        return [text, page.Boards(list(_plies(game, played, end)))]
    order = {ply.action: count for count, ply in enumerate(played.plies, 1)}
    skips = ", ".join(str(count) for count, ply in enumerate(played.plies, 1) if ply.skips)
    lines = [page.words("numbered"), f"A turn was skipped after {skips}." if skips else ""]
    board = page.Board(game, played.last.cells, lines, f"At the end {end}.", last=played.plies[-1].action, order=order)
    return [text, page.Boards([board])]


def _plies(game: Game, played: SampleGame, end: str) -> Iterator[page.Board]:
    """Yield a board after each move."""
    moves = [(ply.action, ply.skips) for ply in played.plies]
    after = [*(ply.position for ply in played.plies[1:]), played.last]
    for count, (ply, position) in enumerate(zip(played.plies, after, strict=True), 1):
        cells, mover, cell = ply.position.cells.copy(), ply.position.mover, coordinate(ply.action, game)
        cells[ply.action] = mover + 1
        skip = f"{STONES[2 - mover]}'s turn is skipped" if ply.skips else ""
        lines = (f"{count}. {STONES[mover + 1]} {cell}", skip, end if count == len(moves) else "")
        cost = "" if ply.loss is None else f"loses {formats.number(max(0.0, ply.loss))}"
        board = page.Board(game, cells, lines, f"Marked is the move to {cell}.", last=ply.action, cost=cost)
        yield board._replace(ways=parts.open_position(game, position, moves[:count]))


def _worst(run: RunResult, game: Game, policy: Policy, solution: Solution | None) -> page.Parts:
    """Return the positions in which it loses most."""
    if solution is None:
        commands = [run.command("exploitability")] if has_regret(game) else []
        return [page.left_out(page.words("no losses", limit=LIMIT), *commands)]
    own, against_random = (
        [
            parts.choice_board(game, *one.choice[:2], one.choice.best.tolist(), one.loss, one.likely)
            for one in worst_positions(game, policy, opponent)
        ]
        for opponent in (None, "random")
    )
    nothing = page.Text(page.words("loses nothing"))
    return [
        page.Text(page.words("worst positions")) if own or against_random else None,
        page.Boards(own, "In self-play") if own else page.Text("It loses nothing in self-play."),
        page.Boards(against_random, page.words("against random")) if against_random else nothing,
        page.left_out(page.words("puzzles"), run.command("puzzles")) if own else None,
    ]


def _critic(run: RunResult, game: Game, policy: Policy) -> page.Parts:
    """Return the error of the policy's own values, beside the exact values of its play; nothing if it has no values."""
    if policy.values is None or (policy.action_values is None and policy.actor is None):
        return []
    against = run.opponent if run.opponent in QUICK_OPPONENTS else None
    seat, actor = None if run.opponent == SELF else run.seat, policy.actor or policy
    gamma, by_ply = run.settings.get("gamma"), against is None and run.settings.get("backup") != "agent"
    discount = float(gamma) if isinstance(gamma, int | float) and not by_ply else 1.0
    error, why = page.or_why(lambda: critic_error(game, actor, against, policy, seat=seat, discount=discount))
    if error is None:
        return [page.left_out(f"Left out: {why}.")]
    play = "its play" if actor is policy else "its actor, which samples moves,"
    how = "without discount" if discount == 1 else f"with the discount {discount:g}"
    beside = f"{play} against {against or 'itself'},{'' if seat is None else f' {SEAT_NAMES[seat]},'} {how}"
    total = f"root mean square error {formats.number(error.root_mean_square)}, mean error {formats.number(error.bias)}"
    weight = "weighted by the expected visits of a position"
    about = page.Text(f"Its own values beside the exact values of {beside}, {weight}: {total}.")
    by_stones = parts.table("error by stones", error.by_stones())
    return [about, by_stones, parts.table("error by position", error.worst(MAX_BOARDS))]


def _settings(run: RunResult) -> page.Parts:
    """Return the settings, the files, and the commands that reproduce the run."""
    again = _reproduce_command(run)
    commands = [
        *([] if again is None else ["# repeat the training", again]),
        "# continue from the last checkpoint, or to more games by --games N",
        shlex.join(["python", "train.py", "--resume", str(run.path)]),
        "# measure the strength",
        run.command("exploitability"),
        run.command("match", "win-or-block"),
    ]
    files = [name for name in RUN_FILES if name != REPORT and (run.path / name).is_file()]
    return [
        page.Text("", commands, folded=page.words("commands of the run")),
        page.Text("", json.dumps(run.config, indent=2), folded=f"All settings, as {CONFIG} has them"),
        page.Text(f"Files of the run, beside this page: {', '.join(files)}."),
    ]


def _reproduce_command(run: RunResult) -> str | None:
    """Return the command that repeats the training; None if the settings fit no learner here."""
    config, learner = run.config, run.config["learner"]
    try:
        settings, usual = build_config(learner, config["settings"]), build_config(learner, {})
    except (ValueError, TypeError):
        return None
    names = ("opponent", "seat", "games", "batch", "seed", "log_every", "exact_every")
    row = {name.replace("_", "-"): config[name] for name in names if config.get(name) is not None}
    if "teacher" in config["settings"]:
        row.pop("opponent", None)
    for field in dataclasses.fields(settings):
        value, option = getattr(settings, field.name), field.name.replace("_", "-")
        if value != getattr(usual, field.name):
            row |= {f"no-{option}": True} if value is False else {option: value}
    words = ["train.py", "--learner", str(learner), *formats.game_options(run.game), *to_command_line(row)]
    return shlex.join(["python", *words, "--out", f"{run.path}-again"])


# ---------------------------------------------------------------------------------------------------------------------
# Several runs


def runs_report(result: RunsResult) -> page.Report:
    """Return the page of runs: of one in detail, of several side by side."""
    game, runs = result.game, result.runs
    if len(runs) == 1:
        return run_report(runs[0])
    rows = list[page.Row]()
    for run in runs:
        name = page.Cell(links=[(run.name, page.link_to(run.directory.report, result.folder))])
        rows.append((name, *run.strength_cells(result.opponents), run.games, *run.cost_cells()))
    scores = (f"score against {opponent}" for opponent in result.opponents)
    head = ("run", *LOSS_LABELS, *scores, "games", "CPU of training", "peak memory", "wall time")
    known = [(run.name, run.strength.results) for run in runs if run.strength is not None]
    exact = [
        parts.results_table("results of runs", [(name, by[one]) for name, by in known], opponent=one)
        for one in result.opponents
    ]
    solution = solve(visible(game)) if known and has_regret(game) else None
    choices = [(run.name, first_choice(game, run.policy[0], solution=solution)) for run in runs if run.policy[0]]
    boards = [parts.choice_board(game, *one[:2], one.best.tolist(), title=name) for name, one in choices]
    first_moves: page.Parts = [page.Text(page.words("first moves")), page.Boards(boards)]
    best = formats.join_names([run.name for run in result.best[:2]])
    sections: dict[str, page.Parts] = {
        "": [
            page.Text(page.words("runs", game=str(game))),
            *(page.left_out(note) for run in runs for note in run.notes),
            parts.table("runs", rows, head=head),
        ],
        "Exact results": exact if known else [],
        "Learning curves": curve_parts([Group(run.name, {}, [run.curve[0]]) for run in runs]),
        "Against each other": [_matrix(result)],
        "Matches": [_matches(result.matches)] if result.matches else [],
        "First moves": first_moves if boards else [page.left_out("No run holds a policy.")],
        f"Largest differences of {best}": _differences(result),
        "Settings": [_varied_settings(runs), page.Text(page.words("command of the page"), [result.command])],
    }
    return page.Report(f"{len(runs)} runs side by side", _describe_best(result), [], sections)


def _describe_best(result: RunsResult) -> str:
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
        return page.left_out(page.words("no matrix"), shlex.join(["python", "evaluate.py", "match", *runs]))
    cells = {
        pair: (one.score, formats.share(one.score), " / ".join(f"{part:.2f}" for part in one))
        for pair, one in result.outcomes.items()
    }
    names = {i: result.runs[i].name for i in dict.fromkeys(i for i, _ in result.outcomes)}
    return parts.cross_table("matrix of runs", names, cells)


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
    return parts.table("matches", rows)


def _differences(result: RunsResult) -> page.Parts:
    """Return the positions in which the two best runs differ most."""
    a, b = result.best[:2]
    if a.policy[0] is None or b.policy[0] is None:
        return [page.left_out("Left out: a run holds no policy.")]
    found = differences_within(result.game, a.policy[0], b.policy[0])
    spots = None if found is None else convert(found, list[Spot], str_keys=True)
    return parts.differences(result.game, spots, a.name, b.name)


def _varied_settings(runs: Sequence[RunResult]) -> page.Part:
    """Return the settings in which the runs differ."""
    curves = [run.curve[0] for run in runs]
    names = dict.fromkeys(["learner", "seed", *varied_labels(curves), *(name for one in curves for name in one.labels)])
    rows = []
    for name in names:
        values = [one.labels.get(name) for one in curves]
        if len(set(values)) > 1:
            texts = ("" if value is None else truncate(value, MAX_VALUE_LENGTH) for value in values)
            rows.append((name.replace("_", " "), *texts))
    table = parts.table("varied settings", rows, head=("setting", *(run.name for run in runs)))
    return table if rows else page.Text("The runs have the same settings.")
