"""The page of a language model: its games, its exact strength, its illegal answers, and its
blunders.
"""

from __future__ import annotations

import json

from ttt_envs.game.phantom import AnyGame
from ttt_eval.language_models.results import (
    ExactResult,
    LanguageModelResult,
    ModelGames,
    ModelPositions,
)
from ttt_eval.reports import formats, page, parts
from ttt_eval.reports.page import BoardRow, Part, Parts, Report, Text, Tile

USAGE = ("answers", "prompt_tokens", "completion_tokens", "truncated")
"""Fields of the usage of a language model."""
COUNTS = ("moves", "regret", "blunders", "answers", "illegal_share")
"""Fields of its moves."""
OPTIONS = ("model", "endpoint", "answers", "presentation", "illegal", "temperature", "max_tokens")
"""Fields that its commands have as options."""


def language_model_report(result: LanguageModelResult) -> Report:
    """Return the page of a language model."""
    games = result.games
    positions = result.positions
    exact = None if positions is None else positions.exact
    introduction = Text(f"It reads the game in the presentation {result.presentation}.")
    sections: dict[str, Parts] = {"": [introduction]}
    if games is not None:
        forfeits = parts.forfeits(games.played, "the model", "the opponent")
        sections[""] = [introduction, forfeits]
        sections["Games"] = _games_parts(result.game, games)
    if positions is not None:
        sections["All positions"] = _positions_parts(result.game, positions)
    usage = [getattr(result.usage, key) for key in USAGE]
    sections["Cost"] = [parts.table("usage", [usage])]
    sections["Reproduction"] = _reproduction(result)
    title = f"{result.model}, {result.game}"
    return Report(title, _describe(result, exact), _tiles(result, exact), sections)


def _describe(result: LanguageModelResult, exact: ExactResult | None) -> str:
    """Return the exact strength and the score, as far as they are known, or else the mean loss of a
    move.
    """
    verdicts = []
    if exact is not None:
        gain = formats.number(exact.exploitability)
        verdicts.append(page.words("gain", gain=gain))
    if result.games is not None:
        score = formats.number(result.games.played.rate("score").mean)
        verdicts.append(f"it scores {score} against {result.opponent}")
    if not verdicts and result.positions is not None:
        regret = result.positions.moves.regret
        verdicts.append("no exact strength" if regret is None else f"a move loses {regret:.4f}")
    return f"{result.model}: {'; '.join(verdicts)}"


def _tiles(result: LanguageModelResult, exact: ExactResult | None) -> list[Tile]:
    """Return the headline numbers: exact losses, the score, and the shares of illegal answers."""
    tiles: list[Tile] = []
    if exact is not None:
        regret = exact.regret if isinstance(exact.regret, float) else None
        tiles += parts.measure_tiles({"exploitability": exact.exploitability}, ", exactly")
        tiles += parts.measure_tiles({"regret": regret}, " in self-play, exactly")
    if result.games is not None:
        score = result.games.played
        name = f"score against {result.opponent}"
        tiles += parts.score_tiles(name, score.rate("score"), score, result.luck_correction)
        tiles.append(_illegal_tile("games", result.games))
    if result.positions is not None:
        tiles.append(_illegal_tile("positions", result.positions))
    return tiles


def _illegal_tile(name: str, part: ModelGames | ModelPositions) -> Tile:
    return Tile(f"illegal answers, {name}", formats.percent(part.moves.illegal_share))


def _games_parts(game: AnyGame, games: ModelGames) -> Parts:
    names = ("all", "moving first", "moving second")
    table = parts.seats_table("games of the model", games.played, names)
    return [table, *_moves(game, "in games", games)]


def _positions_parts(game: AnyGame, positions: ModelPositions) -> Parts:
    outcomes = {} if positions.exact is None else positions.exact.results
    rows = []
    for opponent, outcome in outcomes.items():
        shares = [outcome[part] for part in ("win", "draw", "loss")]
        rows.append((opponent, *shares, shares))
    count = positions.positions
    silent = positions.without_move
    return [
        Text(page.words("answered", positions=count, silent=silent)),
        parts.table("results of the model", rows) if rows else None,
        *_moves(game, "in all positions", positions),
    ]


def _moves(game: AnyGame, place: str, part: ModelGames | ModelPositions) -> list[Part | None]:
    """Return the table of moves, and boards of blunders."""
    kinds = ", ".join(f"{kind} {count:,}" for kind, count in part.moves.problems.items())
    boards = []
    for blunder in part.blunders:
        times = "once" if blunder.times in (None, 1) else f"{blunder.times:,} times"
        title = f"{blunder.position[-1]} to move, {times}"
        boards.append(parts.spot_board(game, blunder, title))
    counts = [getattr(part.moves, key) for key in COUNTS]
    return [
        parts.table("moves", [counts], where=place),
        Text(f"Illegal answers by kind: {kinds}.") if kinds else None,
        Text(page.words("costliest positions" if boards else "no losing moves")),
        BoardRow(boards) if boards else None,
    ]


def _reproduction(result: LanguageModelResult) -> Parts:
    data = result.to_dict()
    options = {key: data.get(key) for key in OPTIONS}
    options["fields"] = json.dumps(result.fields)
    if result.games is not None:
        options |= {"games": result.games.played.games, "opponent": result.opponent}
    if result.positions is not None:
        options["positions"] = "all"
    return parts.reproduction(result, "evaluate.py", "llm", **options)
