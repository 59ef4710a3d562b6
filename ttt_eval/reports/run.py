"""``report.html`` of a run: a single file that needs no server and fetches nothing.

A run's files are not trusted: invalid parts are replaced by a sentence with the reason. See docs/reports.md.
"""

from __future__ import annotations

import dataclasses
import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from markupsafe import Markup

from baselines.exact import MAX_SOLVER_CELLS, Solution, solve
from learners.checkpoint import CONFIG, COST, METRICS, RunPolicy, build_config
from learners.pool import NAME as POOL
from ttt_envs.agents.policy import VALUE_TOLERANCE, Policy
from ttt_envs.agents.specs import make_policy
from ttt_envs.core.jit import Float64Array
from ttt_envs.envs.config import SELF
from ttt_envs.game.boards import STONES, coordinate
from ttt_envs.game.game import Game
from ttt_envs.game.phantom import AnyGame, PhantomGame, visible
from ttt_envs.game.rules import Outcome
from ttt_eval.exact.critics import critic_error
from ttt_eval.exact.dynamic_programming import has_regret
from ttt_eval.exact.estimate import affordable
from ttt_eval.exact.strength import Mistake, Strength, first_choice, worst_positions
from ttt_eval.matches.sample_game import SampleGame, sample_game
from ttt_eval.metrics import LOSSES, RATES, metric
from ttt_eval.reports.boards import cells_hold_text, draw_board, draw_choice, first_move_map, heat_map, open_position
from ttt_eval.reports.curves import (
    Row,
    column_line,
    embed_curves,
    exact_rows,
    phase_row,
    rates,
    result_row,
    series,
    thin_out,
)
from ttt_eval.reports.formats import game_options, measure_tile, mebibytes, number, share, signed, whole_number
from ttt_eval.reports.html import Content, encode_url, or_why, write_page
from ttt_eval.reports.plots import RESULTS, SERIES, STYLES, Line
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
OWN_VALUES = "its own value of each move, -1 a loss to +1 a win"
EXACT_VALUES = "the value of each move if both then play perfectly"
COUNTS = ("wins", "draws", "losses")


class Run(NamedTuple):
    """A run and its settings."""

    directory: RunDirectory
    config: Mapping[str, Any]
    game: AnyGame

    def command(self, name: str, *more: str) -> str:
        """Return a command of ``evaluate.py`` for the run."""
        return shlex.join(["python", "evaluate.py", name, self.directory.policy, *more, *game_options(self.game)])


def write_report(run: Path, strength: Strength | None, *, back: str | None = None) -> Path:
    """Write ``report.html`` of a run beside its other files.

    Args:
        run: the run directory.
        strength: its exact strength; None if not computed: the page then shows the command for it.
        back: the relative path, from ``run``, of an overview to link to.

    Returns:
        The page's path.

    Raises:
        ValueError: no run, or one whose ``config.json`` is damaged. Other damaged parts are left out of the page.
    """
    directory = RunDirectory(run)
    config = directory.read_config()
    one = Run(directory, config, directory.read_game())
    rows, no_rows = or_why(directory.read_metrics)
    cost, no_cost = or_why(directory.read_cost)
    content: dict[str, object] = {
        "title": f"{config['learner']}, {one.game}",
        "learner": config["learner"],
        "game": one.game,
        "training": _describe_training(config),
        "strength": strength,
        "tiles": _tiles(config, rows or [], cost or {}, strength),
        "results": () if strength is None else _results(strength, config),
        "learning": _learning(one, rows, no_rows),
        "cost": {"missing": f"Left out: {no_cost}."} if cost is None else _cost(cost),
        "settings": _settings(one),
        "exploitability_command": one.command("exploitability"),
        "puzzles_command": one.command("puzzles"),
        "match_command": one.command("match", "win-or-block"),
        "max_cells": MAX_SOLVER_CELLS,
        "solvable": has_regret(one.game),
        "hidden": isinstance(one.game, PhantomGame),
        **_play(one),
    }
    if back is not None:
        content["back"] = encode_url(back)
    return write_page(directory.report, "run.html", content)


def _describe_training(config: Mapping[str, Any]) -> str:
    """Describe the opponent of a run's training."""
    opponent, settings = str(config.get("opponent", SELF)), config["settings"]
    teacher = settings.get("teacher") if isinstance(settings, dict) else None
    if teacher is not None:
        return f"from games of its teacher {teacher}"
    if opponent == SELF:
        return "from games against itself"
    if opponent.partition(":")[0] == POOL:
        return f"from games against its own earlier copies ({opponent})"
    seat = SEATS.get(str(config.get("seat")))
    return f"from games against {opponent}" + ("" if seat is None else f", {SEAT_NAMES[seat]}")


def _tiles(
    config: Mapping[str, Any], rows: Sequence[Row], cost: Mapping[str, Row], strength: Strength | None
) -> list[tuple[str, str, str]]:
    """Return the headline numbers."""
    tiles = []
    if strength is not None:
        tiles += [measure_tile(name, value) for name, value in strength.measures.items()]
    tiles.append(("games", whole_number(rows[-1]["games"] if rows else config.get("games", 0)), "played in training"))
    if (phase := cost.get("training")) is not None:
        seconds, memory = phase["cpu_user_s"] + phase["cpu_system_s"], mebibytes(phase["peak_rss_bytes"])
        tiles.append(("training", f"{seconds:,.1f} s", f"of CPU, {memory} at most"))
    return tiles


def _results(strength: Strength, config: Mapping[str, Any]) -> list[tuple[object, ...]]:
    """Return exact results by opponent, each followed by those of both seats."""
    rows = []
    own_seat = SEATS.get(str(config.get("seat")))
    for opponent, seats in strength.seats.items():
        rows.append(result_row(opponent, strength.results[opponent]))
        for seat, name in enumerate(SEAT_NAMES):
            rows.append(result_row(f"{name}, as it learned" if seat == own_seat else name, seats[seat]))
    return rows


# ---------------------------------------------------------------------------------------------------------------------
# How it learned


def _learning(run: Run, rows: Sequence[Row] | None, why: str) -> Content:
    """Return the measurements, mark by mark."""
    if rows is None:
        return {"missing": f"The curves are left out: {why}."}
    if not rows:
        return {"missing": f"Nothing was logged: there is no line in {METRICS}."}
    measured = exact_rows(rows)
    names = [name for name in (*LOSSES, *RATES) if measured and name in measured[0]]
    lines = [
        (whole_number(row["games"]), *(share(row[name]) if name in row else "" for name in names)) for row in measured
    ]
    boards, no_boards = or_why(lambda: _first_moves(run))
    return {
        "curves": _curves(run.config, rows, measured),
        "head": ("games", *(metric(name).label for name in names)),
        "rows": lines,
        "boards": boards,
        "no_boards": no_boards,
    }


def _first_moves(run: Run) -> list[Markup]:
    """Return the first move at some marks, if the run has stored it."""
    marks = run.directory.read_choices(run.game)
    shown = {row["games"] for row in thin_out([{"games": mark.games} for mark in marks], MAX_BOARDS)}
    return [
        draw_choice(run.game, one.position, one.probabilities, title=f"{whole_number(mark.games)} games")
        for mark in marks
        if mark.games in shown
        for one in mark.choices[:1]
    ]


def _curves(config: Mapping[str, Any], rows: Sequence[Row], measured: Sequence[Row]) -> list[tuple[Markup, str]]:
    """Return curves with their captions: of exact measurements, of results during exploration, and of the loss."""
    found: list[tuple[Markup, str]] = []

    def add(words: str, lines: Sequence[Line], x_label: str, y_label: str, distances: bool) -> None:
        found.append((embed_curves(f"curve{len(found)}", lines, x_label, y_label, distances), words))

    if _has_range(measured):
        names = [name for name in LOSSES if all(name in row for row in measured)]
        lines = [column_line(measured, name, name, index) for index, name in enumerate(names)]
        words = (
            "Exact, without exploration: the gain of a best response per game (exploitability) and the loss of an "
            "average move in self-play (regret). Both axes are logarithmic, that of values down to 0.001."
        )
        add(words, lines, "games", "value lost", True)
    results = ("won", "drawn", "lost")
    exact = [row for row in measured if all(name in row for name in RATES)]
    if _has_range(exact):
        lines = _result_lines(results, RATES, lambda name: series(exact, name))
        words = f"Exact results without exploration against {config.get('opponent')}, in the seat that it learned in."
        add(words, lines, "games", "share of games", False)
    if _has_range(rows) and all(name in row for row in rows for name in COUNTS):
        marks = thin_out(rows, MAX_RATES)
        names_of_results = ("won by o", "drawn", "won by x") if config.get("opponent") == SELF else results
        lines = _result_lines(names_of_results, COUNTS, lambda name: rates(marks, name))
        words = "Results with exploration: of the games between two marks, random moves included."
        add(words, lines, "games", "share of games", False)
    losses = [row for row in rows if "iterations" in row and "loss" in row]
    if len(losses) > 1:
        steps = [row["iterations"] for row in losses]
        names = [name for name in ("loss", "held_out_loss") if all(name in row for row in losses)]
        lines = [
            Line(name.replace("_", " "), steps, [row[name] for row in losses], SERIES[index], STYLES[index])
            for index, name in enumerate(names)
        ]
        words = "The net's loss during training: on training examples, and on held-out ones."
        add(words, lines, "steps of the optimizer", "loss", True)
    return found


def _has_range(rows: Sequence[Row]) -> bool:
    """Return whether rows are of different numbers of games."""
    return len({row["games"] for row in rows}) > 1


def _result_lines(
    labels: Sequence[str], names: Sequence[str], points: Callable[[str], tuple[list[float], list[float]]]
) -> list[Line]:
    """Return curves of wins, draws and losses."""
    return [
        Line(label, *points(name), colour, style)
        for label, name, colour, style in zip(labels, names, RESULTS, STYLES, strict=False)
    ]


# ---------------------------------------------------------------------------------------------------------------------
# How it plays


def _play(run: Run) -> Content:
    """Return the first move, a game, and the worst positions."""
    game = run.game
    policy, no_policy = or_why(lambda: RunPolicy(game, str(run.directory)))
    if policy is None:
        return {"no_policy": no_policy}
    exact = policy.pure and affordable(game, policy)
    solution, worst = None, None
    if exact and has_regret(game):
        solution = solve(game)
        worst = [
            [_draw_mistake(game, one) for one in found]
            for found in (worst_positions(game, policy), worst_positions(game, policy, "random"))
        ]
    return {
        "no_policy": "",
        "first_move": _first_move(game, policy, solution),
        "sample": _sample(run, policy, solution) if isinstance(game, Game) else None,
        "worst": worst,
        "critic": _critic(run, policy.learner) if exact and isinstance(game, Game) else None,
    }


def _critic(run: Run, policy: Policy) -> Content | None:
    """Return the error of the policy's own values, beside the exact values of its play; None if it has no values."""
    if policy.values is None or (policy.action_values is None and policy.actor is None):
        return None
    actor = policy.actor or policy
    opponent = str(run.config.get("opponent", SELF))
    against = opponent if opponent in QUICK_OPPONENTS else None
    seat = None if opponent == SELF else SEATS.get(str(run.config.get("seat")))
    discount = _discount(run.config, self_play=against is None)
    found, why = or_why(lambda: critic_error(visible(run.game), actor, against, policy, seat=seat, discount=discount))
    if found is None:
        return {"missing": f"Left out: {why}."}
    return {
        "play": "its play" if actor is policy else "its actor, which samples moves,",
        "opponent": against or "itself",
        "seat": "" if seat is None else f" {SEAT_NAMES[seat]},",
        "discount": "without discount" if discount == 1 else f"with the discount {discount:g}",
        "rmse": found.root_mean_square,
        "bias": found.bias,
        "rows": [
            (row.stones, number(row.visits), number(row.bias), number(row.root_mean_square))
            for row in found.by_stones()
        ],
        "worst": [
            (row.position, number(row.visits), signed(row.predicted), signed(row.exact))
            for row in found.worst(MAX_BOARDS)
        ],
    }


def _discount(config: Mapping[str, Any], *, self_play: bool) -> float:
    """Return the discount of a run per own decision; 1 if its training discounts the moves of both players."""
    settings = config["settings"] if isinstance(config["settings"], dict) else {}
    gamma = settings.get("gamma")
    if not isinstance(gamma, int | float) or (self_play and settings.get("backup") != "agent"):
        return 1.0
    return float(gamma)


def _first_move(game: AnyGame, policy: Policy, solution: Solution | None) -> Content:
    """Return the move probabilities on the empty board, the policy's values, and the exact values.

    Numbers that are alike for all moves are a sentence instead of a map.
    """
    choice = first_choice(game, policy, solution=solution)
    maps, alike = [], []
    if _are_alike(choice.probabilities):
        alike.append(f"It plays every first move with the same probability, {share(float(choice.probabilities[0]))}.")
    else:
        maps.append(first_move_map(game, choice.probabilities))
    for values, title, words, sentence in (
        (choice.own, "Its own values", OWN_VALUES, "It values every first move at"),
        (choice.exact, "Exact values", EXACT_VALUES, "Every first move has the exact value"),
    ):
        if values is not None and _are_alike(values):
            alike.append(f"{sentence} {signed(float(values[0]))}.")
        elif values is not None:
            maps.append(heat_map(game, title, words, values, signed))
    return {
        "maps": maps,
        "alike": alike,
        "ways": open_position(game, choice.position),
        "exact": choice.exact is not None,
        "with_text": cells_hold_text(game),
    }


def _are_alike(values: Float64Array) -> bool:
    return bool(np.nanmax(values) - np.nanmin(values) <= VALUE_TOLERANCE)


def _sample(run: Run, policy: Policy, solution: Solution | None) -> Content:
    """Return a game, move by move."""
    game, config = visible(run.game), run.config
    opponent, seat = str(config.get("opponent")), 1 if config.get("seat") == "second" else 0
    players, who = (policy, policy), "It plays itself"
    if opponent in QUICK_OPPONENTS and (opponent != "optimal" or solution is not None):
        other = make_policy(opponent, game)
        players = (policy, other) if seat == 0 else (other, policy)
        who = f"It has {STONES[seat + 1]} and plays {opponent}, who has {STONES[2 - seat]}"
    seed = config.get("seed", 0)
    played = sample_game(game, *players, seed if isinstance(seed, int) and seed >= 0 else 0, solution=solution)
    losses = [ply.loss for ply in played.plies if ply.loss is not None]
    winner = "" if played.outcome == Outcome.DRAW else STONES[played.outcome.winner + 1]
    content = {"who": who, "moves": len(played.plies), "winner": winner, "loss": sum(losses) if losses else None}
    if game.cells <= MAX_CELLS_BY_MOVE:
        return {**content, "plies": _plies(game, played)}
    numbers = {ply.action: count for count, ply in enumerate(played.plies, 1)}
    words = f"At the end {f'{winner} wins' if winner else 'the game is drawn'}."
    last = draw_board(game, played.last.cells, numbers=numbers, last=played.plies[-1].action, words=words)
    skips = [str(count) for count, ply in enumerate(played.plies, 1) if ply.skips]
    return {**content, "plies": (), "last": last, "skips": ", ".join(skips)}


def _plies(game: Game, played: SampleGame) -> list[Content]:
    """Return a board after each move."""
    plies: list[Content] = []
    ends = [ply.position for ply in played.plies[1:]] + [played.last]
    moves = [(ply.action, ply.skips) for ply in played.plies]
    for count, (ply, after) in enumerate(zip(played.plies, ends, strict=True), 1):
        cells = ply.position.cells.copy()
        cells[ply.action] = ply.position.mover + 1
        cell = coordinate(ply.action, game)
        plies.append(
            {
                "board": draw_board(game, cells, last=ply.action, words=f"Marked is the move to {cell}."),
                "stone": STONES[ply.position.mover + 1],
                "cell": cell,
                "loss": ply.loss,
                "skipped": STONES[2 - ply.position.mover] if ply.skips else "",
                "ways": open_position(game, after, moves[:count]),
            }
        )
    return plies


def _draw_mistake(game: Game, one: Mistake) -> Markup:
    choice = one.choice
    return draw_choice(game, choice.position, choice.probabilities, choice.best.tolist(), one.loss, one.likely)


# ---------------------------------------------------------------------------------------------------------------------
# Costs and settings


def _cost(phases: Mapping[str, Row]) -> Content:
    if not phases:
        return {"missing": f"Not known: there is no {COST}."}
    return {"rows": [phase_row(name, phase) for name, phase in phases.items()]}


def _settings(run: Run) -> Content:
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
    return {
        "commands": "\n".join(commands),
        "config_file": CONFIG,
        "config": json.dumps(run.config, indent=2),
        "files": [name for name in RUN_FILES if name != REPORT and (run.directory.path / name).is_file()],
    }


def _reproduce_command(run: Run) -> str | None:
    """Return the command that repeats the training; None if the settings fit no learner here."""
    config = run.config
    try:
        settings = build_config(config["learner"], config["settings"])
        usual = build_config(config["learner"], {})
    except (ValueError, TypeError):
        return None
    options = ["--learner", str(config["learner"]), *game_options(run.game)]
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
