"""The page of a run: a single file that needs no server and fetches nothing.

A run's files are not trusted: invalid parts are replaced by a sentence with the reason. See docs/reports.md.
"""

from __future__ import annotations

import dataclasses
import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from baselines.exact import MAX_SOLVER_CELLS, Solution, solve
from learners.checkpoint import CONFIG, COST, METRICS, RunPolicy, build_config
from learners.pool import NAME as POOL
from ttt_envs.agents.policy import VALUE_TOLERANCE, Policy
from ttt_envs.agents.specs import make_policy
from ttt_envs.envs.config import SELF
from ttt_envs.game.boards import STONES, coordinate
from ttt_envs.game.game import Game
from ttt_envs.game.phantom import AnyGame, PhantomGame, visible
from ttt_envs.game.rules import Outcome
from ttt_eval.exact.critics import critic_error
from ttt_eval.exact.dynamic_programming import has_regret
from ttt_eval.exact.estimate import affordable
from ttt_eval.exact.strength import Strength, first_choice, worst_positions
from ttt_eval.matches.sample_game import SampleGame, sample_game
from ttt_eval.metrics import LOSSES, RATES, metric
from ttt_eval.reports import formats, page, parts, plots
from ttt_eval.reports.curves import Row, curves_figure, rates, thin_out
from ttt_eval.run_files import REPORT, RUN_FILES, RunDirectory

MAX_BOARDS = 5
"""Maximum number of marks whose first move is shown."""
MAX_RATES = 30
"""Maximum number of marks between which results are counted: more would leave too few games between two."""
MAX_CELLS_BY_MOVE = 36
"""Maximum number of cells for showing a sample game move by move; on larger boards its stones are numbered."""
SEATS = {"first": 0, "second": 1}
"""The setting ``seat`` of runs that learn in one seat."""
SEAT_NAMES = ("moving first", "moving second")
QUICK_OPPONENTS = ("random", "win-or-block", "optimal")
"""Opponents of a run that play its sample game; others may be slow, or arbitrary."""
OUTCOMES = ("won", "drawn", "lost")
COUNTS = ("wins", "draws", "losses")
LIMIT = f"up to {MAX_SOLVER_CELLS} cells, if they are quickly computed."
HIDDEN = "Left out: stones are hidden, so that a position does not tell how good a move is."


class RunResult(NamedTuple):
    """A run, and its exact strength."""

    directory: RunDirectory
    config: Mapping[str, Any]
    game: AnyGame
    strength: Strength | None
    """None if it is not computed: the page then shows the command for it"""
    back: str = ""
    """path of an overview, relative to the run; "" for none"""

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

    def command(self, name: str, *more: str) -> str:
        """Return a command of ``evaluate.py`` for the run."""
        options = formats.game_options(self.game)
        return shlex.join(["python", "evaluate.py", name, self.directory.policy, *more, *options])


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
    directory = RunDirectory(run)
    result = RunResult(directory, directory.read_config(), directory.read_game(), strength, back)
    return page.write_report(run / REPORT, run_report(result))


def run_report(run: RunResult) -> page.Report:
    """Return the page of a run."""
    learner, (rows, no_rows), (phases, no_cost) = (
        run.config["learner"], page.or_why(run.directory.read_metrics), page.or_why(run.directory.read_cost),
    )  # fmt: skip
    tiles = [] if run.strength is None else parts.measure_tiles(run.strength.measures)
    games = rows[-1]["games"] if rows else run.config.get("games", 0)
    tiles.append(page.Tile("games", formats.whole_number(games), "played in training"))
    if phases and (phase := phases.get("training")) is not None:
        cpu, memory = phase["cpu_user_s"] + phase["cpu_system_s"], formats.mebibytes(phase["peak_rss_bytes"])
        tiles.append(page.Tile("training", f"{cpu:,.1f} s", f"of CPU, {memory} at most"))
    learned = page.Text(f"{learner} learned {run.game} {_describe_training(run)}.")
    if no_rows or not rows:
        why = f"The curves are left out: {no_rows}" if no_rows else f"Nothing was logged: there is no line in {METRICS}"
        learning: page.Parts = [page.left_out(f"{why}.")]
    else:
        learning = _learning(run, rows)
    why = f"Left out: {no_cost}." if no_cost else f"Not known: there is no {COST}."
    cost = parts.phases_table("By phase, as the operating system counts it", phases) if phases else page.left_out(why)
    sections: dict[str, page.Parts] = {
        "": [learned, *_strength(run)],
        "Learning curves": learning,
        **_play(run),
        "Cost": [cost],
        "Settings": _settings(run),
    }
    return page.Report(f"{learner}, {run.game}", _verdict(run.strength), tiles, sections, page.encode_url(run.back))


def _verdict(exact: Strength | None) -> str:
    if exact is None or exact.perfect:
        return "It plays perfectly: even a best response gains no more than against perfect play" if exact else ""
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
        missing = "Its strength has not been computed: exact evaluation takes long here, or is impossible."
        match = page.left_out("A match estimates it with an interval:", run.command("match", "win-or-block"))
        return [page.left_out(missing, run.command("exploitability")), match]
    sentences, rows = [], list[tuple[str, Sequence[float]]]()
    names = [f"{name}, as it learned" if seat == run.seat else name for seat, name in enumerate(SEAT_NAMES)]
    for opponent, seats in run.strength.seats.items():
        result = run.strength.results[opponent]
        win, draw, loss = map(formats.percent, result)
        sentences.append(f"{opponent} it wins {win}, draws {draw} and loses {loss}")
        rows += [(opponent, result), *zip(names, seats, strict=True)]
    if not rows:
        return []
    caption = "Exact results, by dynamic programming: nothing is sampled. Bold rows are the mean of both seats."
    table = parts.results_table(caption, "against", rows, [row for row in range(len(rows)) if row % 3])
    return [page.Text(f"Against {'; against '.join(sentences)}."), table]


# ---------------------------------------------------------------------------------------------------------------------
# How it learned


def _learning(run: RunResult, rows: Sequence[Row]) -> page.Parts:
    """Return the measurements, mark by mark."""
    measured = thin_out([row for row in rows if "exploitability" in row])
    names = [name for name in (*LOSSES, *RATES) if measured and name in measured[0]]
    lines = [
        (formats.whole_number(row["games"]), *(formats.share(row[name]) if name in row else "" for name in names))
        for row in measured
    ]
    folded, head = "The exact measurements as a table", ("games", *(metric(name).label for name in names))
    missing = "There are no exact measurements during training: train.py --exact-every N makes them."
    figures, boards, why = list(_curves(run, rows, measured)), *page.or_why(lambda: _first_moves(run))
    return [
        page.Figures(figures) if figures else None,
        page.Table("Measured during training", head, lines, folded=folded) if measured else page.left_out(missing),
        page.left_out(f"The boards during training are left out: {why}.") if why else None,
        page.Boards(boards, "Its first move during training") if boards else None,
    ]


def _first_moves(run: RunResult) -> list[page.Board]:
    """Return the first move at some marks, if the run has stored it."""
    marks = run.directory.read_choices(run.game)
    games = {row["games"] for row in thin_out([{"games": mark.games} for mark in marks], MAX_BOARDS)}
    chosen = [(mark.games, mark.choices[0]) for mark in marks if mark.games in games and mark.choices]
    return [
        parts.choice_board(run.game, one.position, one.probabilities, title=f"{num:,} games") for num, one in chosen
    ]


def _curves(run: RunResult, rows: Sequence[Row], measured: Sequence[Row]) -> Iterator[page.Figure]:
    """Yield curves of exact measurements, of results during exploration, and of the loss."""
    exact = [row for row in measured if all(name in row for name in RATES)]
    if _has_range(measured):
        caption = "Exact, without exploration. Both axes are logarithmic, that of values down to 0.001."
        names = [name for name in LOSSES if all(name in row for row in measured)]
        yield curves_figure(
            _lines(measured, names, names, plots.SERIES), "games", "value lost", caption, distances=True
        )
    if _has_range(exact):
        caption = f"Exact results without exploration against {run.opponent}, in the seat that it learned in."
        lines = _lines(exact, RATES, OUTCOMES, plots.RESULTS)
        yield curves_figure(lines, "games", "share of games", caption, distances=False)
    if _has_range(rows) and all(name in row for row in rows for name in COUNTS):
        caption = "Results with exploration: of the games between two marks, random moves included."
        labels = ("won by o", "drawn", "won by x") if run.opponent == SELF else OUTCOMES
        columns, marks = zip(labels, plots.RESULTS, plots.STYLES, COUNTS, strict=False), thin_out(rows, MAX_RATES)
        lines = [plots.Line(label, *rates(marks, name), colour, style) for label, colour, style, name in columns]
        yield curves_figure(lines, "games", "share of games", caption, distances=False)
    losses = [row for row in rows if "iterations" in row and "loss" in row]
    if len(losses) > 1:
        names = [name for name in ("loss", "held_out_loss") if all(name in row for row in losses)]
        lines = _lines(losses, names, [name.replace("_", " ") for name in names], plots.SERIES, "iterations")
        caption = "The net's loss during training: on training examples, and on held-out ones."
        yield curves_figure(lines, "steps of the optimizer", "loss", caption, distances=True)


def _has_range(rows: Sequence[Row]) -> bool:
    """Return whether rows are of different numbers of games."""
    return len({row["games"] for row in rows}) > 1


def _lines(
    rows: Sequence[Row], names: Sequence[str], labels: Sequence[str], colours: Sequence[str], x: str = "games"
) -> list[plots.Line]:
    """Return the curves of columns, with their labels."""
    columns, at = zip(names, labels, colours, plots.STYLES, strict=False), [row[x] for row in rows]
    return [plots.Line(label, at, [row[name] for row in rows], ink, style) for name, label, ink, style in columns]


# ---------------------------------------------------------------------------------------------------------------------
# How it plays


def _play(run: RunResult) -> dict[str, page.Parts]:
    """Return the first move, a game, the worst positions, and the error of values."""
    game = run.game
    policy, why = page.or_why(lambda: RunPolicy(game, str(run.directory)))
    if policy is None:
        return {"How it plays": [page.left_out(f"The boards are left out: {why}.")]}
    exact = policy.pure and affordable(game, policy)
    solution = solve(visible(game)) if exact and has_regret(game) else None
    sections = {"The first move": _first_move(game, policy, solution)}
    if isinstance(game, PhantomGame):
        return {**sections, "A sample game": [page.left_out(HIDDEN)]}
    return {
        **sections,
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
    for values, title, about, verb in (
        (choice.own, "Its own values", "of each move, -1 a loss to +1 a win", "It values every first move at"),
        (choice.exact, "Exact values", "if both then play perfectly", "Every first move has the exact value"),
    ):
        if values is not None and np.nanmax(values) - np.nanmin(values) <= VALUE_TOLERANCE:
            sentences.append(f"{verb} {formats.signed(float(values[0]))}.")
        elif values is not None:
            boards.append(parts.map_board(game, title, about, values))
    if boards:
        boards[0] = boards[0]._replace(ways=parts.open_position(game, choice.position))
    pointer = "" if game.columns <= page.MAX_COLUMNS else " Point at a cell to read its number."
    limited = choice.exact is None and not isinstance(game, PhantomGame)
    return [
        page.Text(f"The board is empty, and o is to move.{pointer} Blue cells are good for it, orange ones bad."),
        page.Boards(boards) if boards else None,
        page.Text(" ".join(sentences)) if sentences else None,
        page.left_out(f"Exact values of first moves are shown {LIMIT}") if limited else None,
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
    lines = ["Stones are numbered in the order of the moves.", f"A turn was skipped after {skips}." if skips else ""]
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
        return [page.left_out(f"Left out: losses of moves are shown {LIMIT}", *commands)]
    own, against_random = (
        [
            parts.choice_board(game, *one.choice[:2], one.choice.best.tolist(), one.loss, one.likely)
            for one in worst_positions(game, policy, opponent)
        ]
        for opponent in (None, "random")
    )
    about = "The first cost an average game most: loss of value times probability. Symmetric positions are shown once."
    reaching = "Against random play, which reaches every position"
    nothing = "It loses nothing in any position that an opponent can reach."
    return [
        page.Text(f"{parts.COLOURS} {about}") if own or against_random else None,
        page.Boards(own, "In self-play") if own else page.Text("It loses nothing in self-play."),
        page.Boards(against_random, reaching) if against_random else page.Text(nothing),
        page.left_out("The same as puzzles, also in the explorer:", run.command("puzzles")) if own else None,
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
    by_stones = [(str(row.stones), *map(formats.number, row[1:])) for row in error.by_stones()]
    worst = [
        (row.position, formats.number(row.visits), formats.signed(row.predicted), formats.signed(row.exact))
        for row in error.worst(MAX_BOARDS)
    ]
    head = ("stones", "visits per game", "mean error", "root mean square error")
    worst_head = ("position", "visits per game", "its value", "exact value")
    weight = "weighted by the expected visits of a position"
    return [
        page.Text(f"Its own values beside the exact values of {beside}, {weight}: {total}."),
        page.Table("Error by the number of stones", head, by_stones),
        page.Table("Positions with the largest share in the error", worst_head, worst),
    ]


# ---------------------------------------------------------------------------------------------------------------------
# Settings


def _settings(run: RunResult) -> page.Parts:
    """Return the settings, the files, and the commands that reproduce the run."""
    again = _reproduce_command(run)
    commands = [
        *([] if again is None else ["# repeat the training", again]),
        "# continue from the last checkpoint, or to more games by --games N",
        shlex.join(["python", "train.py", "--resume", str(run.directory)]),
        "# measure the strength",
        run.command("exploitability"),
        run.command("match", "win-or-block"),
    ]
    files = [name for name in RUN_FILES if name != REPORT and (run.directory.path / name).is_file()]
    return [
        page.Text("", commands, folded="Commands that repeat and continue the training"),
        page.Text("", json.dumps(run.config, indent=2), folded=f"All settings, as {CONFIG} has them"),
        page.Text(f"Files of the run, beside this page: {', '.join(files)}."),
    ]


def _reproduce_command(run: RunResult) -> str | None:
    """Return the command that repeats the training; None if the settings fit no learner here."""
    config = run.config
    try:
        settings = build_config(config["learner"], config["settings"])
        usual = build_config(config["learner"], {})
    except (ValueError, TypeError):
        return None
    options = ["--learner", str(config["learner"]), *formats.game_options(run.game)]
    for name in ("opponent", "seat", "games", "batch", "seed", "log_every", "exact_every"):
        if config.get(name) is not None and not (name == "opponent" and "teacher" in config["settings"]):
            options += [f"--{name.replace('_', '-')}", str(config[name])]
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        option = field.name.replace("_", "-")
        if value == getattr(usual, field.name):
            continue
        if isinstance(value, bool):
            options.append(f"--{option}" if value else f"--no-{option}")
        else:
            options += [f"--{option}", *map(str, value if isinstance(value, list | tuple) else [value])]
    return shlex.join(["python", "train.py", *options, "--out", f"{run.directory}-again"])
