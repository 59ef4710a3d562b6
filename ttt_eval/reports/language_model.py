"""The page of a language model: its games, its exact strength, its illegal answers, and its blunders."""

from __future__ import annotations

import json
from functools import partial

from ttt_envs.game.boards import from_text
from ttt_envs.game.phantom import AnyGame
from ttt_eval.reports.formats import format_ends, game_options, number, percent, share
from ttt_eval.reports.html import Content, macro, section
from ttt_eval.reports.result_reader import MAX_SEED, Record, position_figure, reproduction

RESULT_SETTINGS = (
    "game", "endpoint", "model", "temperature", "max_tokens", "fields", "presentation", "illegal", "max_asks",
    "show_legal", "seed", "opponent", "luck_correction", "provenance",
)  # fmt: skip
_MAX_BLUNDERS = 20
_SHARES = ("win", "draw", "loss")


def language_model_page(data: Record) -> Content:
    """Return the content of the page.

    Raises:
        ValueError: the model or the game are missing.
    """
    model, presentation, game = data.text("model"), data.text("presentation"), data.game()
    has_games, has_positions = (data.get(name) is not None for name in ("games", "positions"))
    return {
        "title": f"{model}, {game}",
        "model": model,
        "presentation": presentation,
        "answer": section(partial(_answer, data, model)),
        "games": section(partial(_games, data)) if has_games else None,
        "positions": section(partial(_positions, data)) if has_positions else None,
        "cost": section(partial(_cost, data)),
        "again": section(partial(_reproduction, data)),
    }


def _answer(data: Record, model: str) -> Content:
    tiles, parts = [], []
    if data.get("positions") is not None and data.record("positions").get("exact") is not None:
        exact = data.record("positions").record("exact")
        tiles += [(f"{label}, exactly", value, note) for label, value, note in exact.measure_tiles()]
        gain = number(exact.number("exploitability", -1e-6, 1 + 1e-6))
        parts.append(f"a best response gains {gain} a game more than against perfect play")
    if data.get("games") is not None:
        games = data.record("games")
        score, opponent = games.interval("score", -0.5, 1.5), data.text("opponent")
        tiles.append((f"score against {opponent}", share(score.mean), f"95%: {format_ends(score)}"))
        tiles.append(("games", f"{games.count('games'):,}", "in pairs, with the seats swapped"))
        tiles += games.correction_tiles()
        parts.append(f"it scores {share(score.mean)} against {opponent}")
    for name in ("games", "positions"):
        if data.get(name) is not None:
            moves = data.record(name).record("moves")
            tiles.append((f"illegal answers, {name}", percent(moves.number("illegal_share", 0, 1)), ""))
            tiles += [(f"{label}, {name}", value, note) for label, value, note in moves.measure_tiles()]
    if not parts:
        raise ValueError("there are neither games nor exact results")
    return {
        "verdict": f"{model}: {'; '.join(parts)}",
        "tiles": tiles,
        "forfeits": data.record("games").forfeits("the model", "the opponent") if data.get("games") else "",
    }


def _games(data: Record) -> Content:
    games, game = data.record("games"), data.game()
    results = []
    seats = [games.counts(name, 3) for name in ("first", "second")]
    for name, counts in zip(("all", "moving first", "moving second"), (seats[0] + seats[1], *seats), strict=True):
        shares = counts / max(1, int(counts.sum()))
        results.append((name, *(f"{int(count):,}" for count in counts), share(float(shares @ [1, 0.5, 0]))))
    return {"results": results, **_moves(game, games)}


def _positions(data: Record) -> Content:
    positions, game = data.record("positions"), data.game()
    rows = []
    if positions.get("exact") is not None:
        results = positions.record("exact").record("results")
        for opponent in list(results)[:10]:
            one = results.record(opponent)
            names = Record(name=opponent)
            shares = [min(1.0, max(0.0, one.number(name, -1e-6, 1 + 1e-6))) for name in _SHARES]
            rows.append((names.text("name"), *map(share, shares), macro("bar", shares)))
    return {
        "asked": f"{positions.count('positions'):,}",
        "without_move": f"{positions.count('without_move'):,}",
        "results": rows,
        **_moves(game, positions),
    }


def _moves(game: AnyGame, part: Record) -> Content:
    """Return the tables of moves, and boards of blunders."""
    moves = part.record("moves")
    rows = []
    for one in moves.records("by_stones", game.cells):
        regret = one.measure("regret")
        blunders = one.optional("blunders", Record.count)
        rows.append(
            (
                str(one.count("stones", game.cells)),
                f"{one.count('moves'):,}",
                "" if regret is None else number(regret),
                "" if blunders is None else f"{blunders:,}",
                f"{one.count('answers'):,}",
                percent(one.number("illegal_share", 0, 1)),
            )
        )
    problems = moves.record("problems")
    kinds = [f"{Record(name=kind).text('name')} {problems.count(kind):,}" for kind in list(problems)[:10]]
    boards = [_blunder(game, one) for one in part.records("blunders", _MAX_BLUNDERS)]
    return {"rows": rows, "kinds": ", ".join(kinds), "boards": boards}


def _blunder(game: AnyGame, one: Record) -> object:
    mover = "first" if from_text(one.text("position"), game).mover == 0 else "second"
    times = one.optional("times", Record.count)
    title = f"the {mover} player to move" + ("" if times is None else f", {times:,} times")
    loss, likely = one.number("loss", 0, 2), one.optional("likely", partial(Record.number, low=0, high=1 + 1e-6))
    return position_figure(game, one, "moves", loss, likely, title)


def _cost(data: Record) -> Content:
    rows = []
    for key, name in (("usage", "all answers used"), ("new", "requested by the last call")):
        one = data.record(key)
        counts = (f"{one.count(field):,}" for field in ("answers", "prompt_tokens", "completion_tokens", "truncated"))
        rows.append((name, *counts))
    return {"rows": rows}


def _reproduction(data: Record) -> Content:
    where = ["--endpoint", data.spec("endpoint")] if data.get("endpoint") else ["--answers", "answers.jsonl"]
    words = ["evaluate.py", "llm", *where, "--model", data.spec("model")]
    words += [*game_options(data.game()), "--presentation", data.spec("presentation")]
    if data.get("games") is not None:
        words += ["--games", str(data.record("games").count("games")), "--opponent", data.spec("opponent")]
        words += data.correction_options()
    words += ["--positions", "all"] if data.get("positions") is not None else []
    words += ["--illegal", data.spec("illegal"), "--max-asks", str(data.count("max_asks"))]
    words += [] if data.get("show_legal") is True else ["--hide-legal"]
    words += ["--temperature", f"{data.number('temperature', 0):g}", "--fields", json.dumps(data.record("fields"))]
    words += ["--max-tokens", str(data.count("max_tokens")), "--seed", str(data.count("seed", MAX_SEED))]
    return reproduction(data, words, RESULT_SETTINGS)
