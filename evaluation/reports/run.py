"""``report.html`` of a run, and of several: a single file that needs no server and fetches nothing.

A run's files are not trusted: invalid parts are replaced by a sentence with the reason. See docs/reports.md.
"""

from __future__ import annotations

import dataclasses
import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from baselines.retrograde.solver import MAX_CELLS, Solution, solve
from evaluation.cost import read_cost
from evaluation.exact.dynamic_programming import Outcome
from evaluation.exact.estimate import affordable
from evaluation.exact.strength import Mistake, SampleGame, Strength, first_choice, sample_game, worst_positions
from evaluation.policy_snapshots import read_choices
from evaluation.reports.html import (
    Html,
    board_html,
    details,
    element,
    encoded,
    format_probability,
    has_room,
    heat_map,
    number,
    percent,
    section,
    share,
    signed,
    table,
    tiles,
    write_page,
)
from evaluation.reports.plots import DRAW as DRAWN_COLOUR
from evaluation.reports.plots import LOSS, SERIES, STYLES, WIN, Line
from evaluation.reports.run_parts import (
    Row,
    boards_of,
    choice_figure,
    game_of,
    game_options,
    left_out,
    line_of,
    loses,
    or_why,
    picture,
    rates,
    results_table,
    series,
    thin_out,
    when_measured,
    whole_number,
)
from evaluation.run_files import REPORT as REPORT
from evaluation.run_files import RUN_FILES, read_metrics
from learners.checkpoint import (
    CONFIG,
    COST,
    METRICS,
    build_config,
    load_policy,
    policy_name,
    read_config,
)
from learners.pool import NAME as POOL
from ttt_envs.agents.policy import Policy
from ttt_envs.agents.specs import make_policy
from ttt_envs.envs.lockstep import SELF
from ttt_envs.game.boards import STONES, coordinate
from ttt_envs.game.rules import DRAW, Game

BOARDS = 5
"""Number of marks whose first move is shown."""
RATES = 30
"""Maximum number of marks between which results are counted: more would leave too few games between two."""
SHOWN_MOVES = 36
"""Maximum number of cells for showing a sample game move by move; on larger boards its stones are numbered."""
PLAYMATES = ("random", "win-or-block", "optimal")
"""Opponents of a run that play its sample game; others may be slow, or arbitrary."""


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
    config = read_config(run)
    game = game_of(run, config)
    rows, no_rows = or_why(lambda: read_metrics(run))
    cost, no_cost = or_why(lambda: read_cost(run))
    policy, no_policy = or_why(lambda: load_policy(game, str(run)))
    exact = policy is not None and policy.pure and affordable(game, policy)
    solution = solve(game) if exact and game.cells <= MAX_CELLS else None
    sections = [
        *_headline(run, config, game, rows or [], cost or {}, strength),
        _learning(run, config, game, rows, no_rows),
    ]
    if policy is None:
        sections.append(section("How it plays", left_out(f"The boards are left out: {no_policy}.")))
    else:
        sections += [
            _first_move(game, policy, solution),
            _sample(config, game, policy, solution),
            _worst_section(run, game, policy, solution),
        ]
    sections += [_cost_section(cost, no_cost), _settings(run, config, game)]
    title = f"{config['learner']}, {game}"
    return write_page(run / REPORT, title, sections, None if back is None else (encoded(back), "all runs"))


def _opponent_name(config: Mapping[str, Any]) -> str:
    """Describe the opponent of a run's training."""
    opponent, settings = str(config.get("opponent", SELF)), config["settings"]
    teacher = settings.get("teacher") if isinstance(settings, dict) else None
    if teacher is not None:
        return f"from games of its teacher {teacher}"
    if opponent == SELF:
        return "from games against itself"
    if opponent.partition(":")[0] == POOL:
        return f"from games against its own earlier copies ({opponent})"
    seat = {"first": ", moving first", "second": ", moving second"}.get(str(config.get("seat")), "")
    return f"from games against {opponent}{seat}"


def _headline(
    run: Path,
    config: Mapping[str, Any],
    game: Game,
    rows: Sequence[Row],
    cost: Mapping[str, Row],
    strength: Strength | None,
) -> list[Html]:
    """Show the strength in words and numbers."""
    games = rows[-1]["games"] if rows else config.get("games", 0)
    learned = f"{config['learner']} learned {game} {_opponent_name(config)}"
    shown = [("games", whole_number(games), "played to learn from")]
    training = cost.get("training")
    if training is not None:
        seconds = training["cpu_user_s"] + training["cpu_system_s"]
        shown.append(
            ("training", f"{seconds:,.1f} s", f"of CPU, {training['peak_rss_bytes'] / 2**20:,.0f} MiB at most")
        )
    if strength is None:
        sentence = "How good it is has not been computed: exact answers would take long here, or cannot be had."
        return [
            element("p", f"{learned}.", class_="lead"),
            tiles(shown),
            left_out(sentence, _command("exploitability", run, game)),
            left_out("A match says it with an interval:", _command("match", run, game, "win-or-block")),
        ]
    regret = ""
    if strength.regret is not None:
        regret = f" Playing itself, it gives away {number(strength.regret)} by an average move."
    good = (
        "It plays perfectly: nobody, knowing all that it does, gets more out of it than perfect play allows."
        if strength.perfect
        else f"It does not play perfectly: whoever knows it gets {number(strength.exploitability)} a game more than "
        f"perfect play allows.{regret}"
    )
    against = "; ".join(
        f"against {opponent} it wins {percent(one.win)}, draws {percent(one.draw)} and loses {percent(one.loss)}"
        for opponent, one in strength.results.items()
    )
    shown = [
        ("exploitability", number(strength.exploitability), "0 is perfect, 1 is lost always"),
        *([] if strength.regret is None else [("regret", number(strength.regret), "lost by an average move")]),
        *shown,
    ]
    return [
        element("p", f"{learned}. {good}", class_="lead"),
        *([element("p", f"{against[0].upper()}{against[1:]}.")] if against else []),
        tiles(shown),
        *([_results(strength, config)] if strength.seats else []),
    ]


def _results(strength: Strength, config: Mapping[str, Any]) -> Html:
    """Show exact results by opponent and seat."""
    rows: list[tuple[object, Outcome]] = []
    within = []
    own_seat = {"first": 0, "second": 1}.get(str(config.get("seat")))
    for opponent, seats in strength.seats.items():
        rows.append((opponent, strength.results[opponent]))
        for seat, (name, one) in enumerate(zip(("moving first", "moving second"), seats, strict=True)):
            within.append(len(rows))
            rows.append((f"{name}, as it learned" if seat == own_seat else name, one))
    caption = "Exact results, by dynamic programming: nothing is sampled. Bold rows are the mean of both seats."
    return results_table(caption, "against", rows, within)


def _learning(run: Path, config: Mapping[str, Any], game: Game, rows: Sequence[Row] | None, why: str) -> Html:
    """Show the measurements, mark by mark."""
    title = "How it learned"
    if rows is None:
        return section(title, left_out(f"The curves are left out: {why}."))
    if not rows:
        return section(title, left_out(f"Nothing was logged: there is no line in {METRICS}."))
    shown = _pictures(config, rows)
    measured = when_measured(rows)
    parts = [element("div", *shown, class_="curves")] if shown else []
    if not measured:
        parts.append(left_out("It was not measured exactly while it learned: train.py --exact-every N does that."))
    else:
        names = [name for name in ("exploitability", "regret", *_EXACT) if name in measured[0]]
        lines = [
            (whole_number(row["games"]), *(share(row[name]) if name in row else "" for name in names))
            for row in measured
        ]
        head = ("games", *(name.removeprefix("exact_") for name in names))
        parts.append(details("The exact points as a table", table("Measured while it learned", head, lines)))
    return section(title, *parts, *_on_the_way(run, game))


def _on_the_way(run: Path, game: Game) -> list[Html]:
    """Show the first move at some marks, if the run has stored it."""
    marks, why = or_why(lambda: read_choices(run, game))
    if marks is None:
        return [left_out(f"The boards on the way are left out: {why}.")]
    shown = {row["games"] for row in thin_out([{"games": mark.games} for mark in marks], BOARDS)}
    figures = [
        choice_figure(game, one.position, one.probabilities, title=f"{whole_number(mark.games)} games")
        for mark in marks
        if mark.games in shown
        for one in mark.choices[:1]
    ]
    return [element("h3", "Its first move on the way"), boards_of(figures)] if figures else []


_EXACT = ("exact_win", "exact_draw", "exact_loss")
_EXPLAINED = (
    "Exact, of what it would play in earnest: how much one who knows it gains a game (exploitability) and what an "
    "average move of its own gives away (regret). Both axes are logarithmic, that of values down to 0.001."
)


def _pictures(config: Mapping[str, Any], rows: Sequence[Row]) -> list[Html]:
    """Return curves of the exact measurements, and of results during exploration."""
    found: list[tuple[str, list[Line], str, str, bool]] = []
    measured = when_measured(rows)
    if len({row["games"] for row in measured}) > 1:
        names = [name for name in ("exploitability", "regret") if all(name in row for row in measured)]
        lines = [line_of(measured, name, name, index) for index, name in enumerate(names)]
        found.append((_EXPLAINED, lines, "games", "value lost", True))
    exact = [row for row in measured if all(name in row for name in _EXACT)]
    results = ("won", "drawn", "lost")
    colours = (WIN, DRAWN_COLOUR, LOSS)
    if len({row["games"] for row in exact}) > 1:
        lines = [
            Line(word, *series(exact, name), colour, style)
            for word, name, colour, style in zip(results, _EXACT, colours, STYLES, strict=False)
        ]
        words = f"Exact results in earnest against {config.get('opponent')}, of the seat that it learned in."
        found.append((words, lines, "games", "share of games", False))
    counted = ("wins", "draws", "losses")
    if len(rows) > 1 and all(name in row for row in rows for name in counted) and rows[-1]["games"] > rows[0]["games"]:
        marks = thin_out(rows, RATES)
        who = ("won by o", "drawn", "won by x") if config.get("opponent") == SELF else results
        lines = [
            Line(word, *rates(marks, name), colour, style)
            for word, name, colour, style in zip(who, counted, colours, STYLES, strict=False)
        ]
        words = "What happened while it explored: results of the games between two marks, its random moves included."
        found.append((words, lines, "games", "share of games", False))
    losses = [row for row in rows if "iterations" in row and "loss" in row]
    if len(losses) > 1:
        names = [name for name in ("loss", "held_out_loss") if all(name in row for row in losses)]
        lines = [
            Line(name.replace("_", " "), [row["iterations"] for row in losses], [row[name] for row in losses],
                 SERIES[index], STYLES[index])
            for index, name in enumerate(names)
        ]  # fmt: skip
        words = "The net's error, as it learns: on what it is taught, and on what it is not shown."
        found.append((words, lines, "steps of the optimizer", "loss", True))
    return [picture(f"curve{index}", *one) for index, one in enumerate(found)]


def _first_move(game: Game, policy: Policy, solution: Solution | None) -> Html:
    """Show the move probabilities on the empty board, the policy's values, and the exact values."""
    choice = first_choice(game, policy, solution=solution)
    largest = float(choice.probabilities.max())
    about = "the probability of each first move"
    if has_room(game):
        largest = 1.0
    else:  # else many moves share the probability, and no colour would be visible
        about += f", {format_probability(largest)} the darkest"
    maps = [heat_map(game, "What it plays", about, choice.probabilities, format_probability, largest)]
    if choice.own is not None:
        about = "what it takes each move to be worth, -1 a loss to +1 a win"
        maps.append(heat_map(game, "What it expects", about, choice.own, signed))
    if choice.exact is not None:
        maps.append(
            heat_map(game, "Exact values", "what each move is worth if both then play perfectly", choice.exact, signed)
        )
    missing = (
        left_out(f"What first moves are worth exactly is known up to {MAX_CELLS} cells, where it is quickly computed.")
        if choice.exact is None
        else None
    )
    scale = element("p", element("span", "-1"), element("i", aria_hidden="true"), element("span", "+1"), class_="scale")
    room = "" if has_room(game) else " Point at a cell to read its number."
    words = f"The board is empty, and o is to move.{room}"
    return section("The first move", element("p", words), element("div", *maps, class_="boards maps"), scale, missing)


def _sample(config: Mapping[str, Any], game: Game, policy: Policy, solution: Solution | None) -> Html:
    """Show a game, move by move."""
    opponent, seat = str(config.get("opponent")), 1 if config.get("seat") == "second" else 0
    players, who = (policy, policy), "It plays itself"
    if opponent in PLAYMATES and (opponent != "optimal" or solution is not None):
        other = make_policy(opponent, game)
        players = (policy, other) if seat == 0 else (other, policy)
        who = f"It has {STONES[seat + 1]} and plays {opponent}, who has {STONES[2 - seat]}"
    seed = config.get("seed", 0)
    played = sample_game(game, *players, seed if isinstance(seed, int) and seed >= 0 else 0, solution=solution)
    end = "the game is drawn" if played.winner == DRAW else f"{STONES[played.winner + 1]} wins"
    losses = [ply.loss for ply in played.plies if ply.loss is not None]
    cost = f" Moves give away {number(sum(losses))} in all; 0 is a best move." if losses else ""
    words = f"{who}; after {len(played.plies)} moves {end}.{cost}"
    if game.cells > SHOWN_MOVES:
        numbers = {ply.action: count for count, ply in enumerate(played.plies, 1)}
        last = board_html(
            game, played.last.cells, numbers=numbers, last=played.plies[-1].action, words=f"At the end {end}."
        )
        skipped = [str(count) for count, ply in enumerate(played.plies, 1) if ply.skips]
        more = f" A turn was skipped after {', '.join(skipped)}." if skipped else ""
        caption = element("figcaption", f"Stones are numbered in the order of the moves.{more}")
        box = element("div", last, class_="wide", tabindex=0, role="region", aria_label="The board at the end")
        return section("A game", element("p", words), element("figure", box, caption))
    return section("A game", element("p", words), element("ol", *_plies(game, played), class_="boards"))


def _plies(game: Game, played: SampleGame) -> list[Html]:
    """Show a board after each move."""
    shown = []
    for count, ply in enumerate(played.plies, 1):
        cells = ply.position.cells.copy()
        cells[ply.action] = ply.position.mover + 1
        stone, where = STONES[ply.position.mover + 1], coordinate(ply.action, game)
        after: list[object] = [element("strong", f"{count}. {stone}"), f" {where}"]
        if ply.loss is not None:
            after.append(element("br"))
            worst = ply.loss > 1e-9
            after.append(element("span", f"gives away {number(ply.loss)}", class_="cost") if worst else "gives away 0")
        if ply.skips:
            after += [element("br"), f"{STONES[2 - ply.position.mover]}'s turn is skipped"]
        if count == len(played.plies):
            end = "a draw" if played.winner == DRAW else f"{STONES[played.winner + 1]} wins"
            after += [element("br"), element("strong", end)]
        picture = board_html(game, cells, last=ply.action, words=f"Marked is the move to {where}.")
        shown.append(element("li", element("figure", picture, element("figcaption", *after))))
    return shown


def _worst_section(run: Path, game: Game, policy: Policy, solution: Solution | None) -> Html:
    """Show the positions with the largest losses."""
    title = "Where it loses most"
    if solution is None:
        return section(
            title,
            left_out(
                f"Left out: what moves lose is known up to {MAX_CELLS} cells, and where it is quickly computed.",
                _command("exploitability", run, game) if game.cells <= MAX_CELLS else "",
            ),
        )
    own, any_ = worst_positions(game, policy), worst_positions(game, policy, "random")
    words = (
        "Blue cells are its moves with their probabilities, framed ones are the best moves. Positions are ordered by "
        "what they cost an average game: the loss of value times the probability of coming there. Of positions that "
        "are the same but for turning or mirroring the board, one is shown."
    )
    return section(
        title,
        element("p", words) if own or any_ else None,
        element("h3", "Playing itself"),
        _mistakes(game, own) if own else element("p", "It gives nothing away."),
        element("h3", "Against a player who moves at random, and so leads it anywhere"),
        _mistakes(game, any_)
        if any_
        else element("p", "It gives nothing away in any position that an opponent can lead it to."),
    )


def _mistakes(game: Game, found: Sequence[Mistake]) -> Html:
    return boards_of([_mistake(game, one) for one in found])


def _mistake(game: Game, one: Mistake) -> Html:
    choice = one.choice
    return choice_figure(game, choice.position, choice.probabilities, choice.best.tolist(), loses(one.loss, one.likely))


def _cost_section(phases: Mapping[str, Row] | None, why: str) -> Html:
    title = "What it cost"
    if phases is None:
        return section(title, left_out(f"Left out: {why}."))
    if not phases:
        return section(title, left_out(f"Not known: there is no {COST}."))
    rows = [
        (
            name,
            f"{phase['cpu_user_s']:,.2f} s",
            f"{phase['cpu_system_s']:,.2f} s",
            f"{phase['wall_s']:,.2f} s",
            f"{phase['peak_rss_bytes'] / 2**20:,.0f} MiB",
        )
        for name, phase in phases.items()
    ]
    head = ("phase", "CPU, user", "CPU, system", "wall", "peak memory so far")
    return section(title, table("By phase, as the operating system counts it", head, rows))


def _settings(run: Path, config: Mapping[str, Any], game: Game) -> Html:
    """Show the settings, the files, and the commands that reproduce the run."""
    kept = [name for name in RUN_FILES if name != REPORT and (run / name).is_file()]
    again = _reproduce_command(run, config, game)
    commands = [
        *([] if again is None else ["# once more from the start", again]),
        "# on from its last checkpoint, or to more games by --games N",
        shlex.join(["python", "train.py", "--resume", str(run)]),
        "# how good it is",
        _command("exploitability", run, game),
        _command("match", run, game, "win-or-block"),
    ]
    return section(
        "Settings",
        details("The same again, and on from here", element("pre", element("code", "\n".join(commands)))),
        details(f"All settings, as {CONFIG} has them", element("pre", element("code", json.dumps(config, indent=2)))),
        element("p", f"Files of the run, beside this page: {', '.join(kept)}."),
    )


def _command(name: str, run: Path, game: Game, *more: str) -> str:
    """Return a command of ``evaluate.py`` for the run."""
    return shlex.join(["python", "evaluate.py", name, policy_name(run), *more, *game_options(game)])


def _reproduce_command(run: Path, config: Mapping[str, Any], game: Game) -> str | None:
    """Return the command that repeats the training; None if the settings fit no learner here."""
    try:
        settings = build_config(config["learner"], config["settings"])
        usual = build_config(config["learner"], {})
    except (ValueError, TypeError):
        return None
    options = ["--learner", str(config["learner"]), *game_options(game)]
    for name in ("opponent", "seat", "games", "batch", "seed", "log_every", "exact_every"):
        if config.get(name) is not None and not (name == "opponent" and _has_teacher(config)):
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
    return shlex.join(["python", "train.py", *options, "--out", f"{run}-again"])


def _has_teacher(config: Mapping[str, Any]) -> bool:
    return "teacher" in config["settings"]
