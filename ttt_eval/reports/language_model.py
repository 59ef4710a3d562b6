"""The page of a language model: its games, its exact strength, its illegal answers, and its
blunders.
"""

from __future__ import annotations

import json

from msgspec.structs import astuple

from ttt_envs.game.phantom import AnyGame
from ttt_eval.language_models.results import (
    ExactResult,
    LanguageModelResult,
    ModelGames,
    ModelPositions,
)
from ttt_eval.reports import formats, page, parts
from ttt_eval.reports.page import BoardRow, Part, Parts, Report, Text, Tile

COUNTS = ("moves", "regret", "blunders", "answers", "illegal_share")
"""Fields of its moves."""
OPTIONS = (
    "model",
    "endpoint",
    "answers",
    "presentation",
    "tag",
    "illegal",
    "temperature",
    "max_tokens",
)
"""Fields that its commands have as options."""


def language_model_report(result: LanguageModelResult) -> Report:
    """Return the page of a language model."""
    games = result.games
    positions = result.positions
    exact = None if positions is None else positions.exact
    introduction: list[Part | None] = [
        Text(f"It reads the game in the presentation {result.presentation}.")
    ]
    sections: dict[str, Parts] = {"": introduction}
    if games is not None:
        introduction.append(parts.forfeits(games.played, "the model", "the opponent"))
        sections["Games"] = _games_parts(result.game, games)
    if positions is not None:
        sections["All positions"] = _positions_parts(result.game, positions)
    usage = result.usage
    *counts, _ = astuple(usage)
    sections["Cost"] = [parts.table("usage", [counts])]
    sections["Reproduction"] = _reproduction(result)
    tiles = _tiles(result, exact)
    verdict = f"{tiles[0].name} {tiles[0].value} ({tiles[0].note})"
    if exact is not None:
        verdict = page.words("gain", gain=formats.number(exact.exploitability))
    return Report(f"{result.model}, {result.game}", f"{result.model}: {verdict}", tiles, sections)


def _tiles(result: LanguageModelResult, exact: ExactResult | None) -> list[Tile]:
    """Return the headline numbers: exact losses, the score, the shares of illegal answers and of
    positions without a move, and refused prompts.
    """
    tiles: list[Tile] = []
    if exact is not None:
        tiles += parts.measure_tiles({"exploitability": exact.exploitability}, ", exactly")
        tiles += parts.measure_tiles({"regret": exact.regret}, " in self-play, exactly")
    if result.games is not None:
        score = result.games.played
        name = f"score against {result.opponent}"
        kind = "raw" if score.corrected is None else "luck-corrected"
        rate = score.rate("score")
        tiles += parts.score_tiles(f"{kind} {name}", rate, score, result.luck_correction)
        if score.corrected is not None:
            raw = score.raw.rate("score")
            tiles.append(parts.interval_tile(f"raw {name}", raw, formats.number))
        different = result.games.different
        if isinstance(different, int) and different < score.games:
            note = f"of {score.games:,}: the interval takes all as independent"
            tiles.append(Tile("different games", f"{different:,}", note))
    for place in ("games", "positions"):
        part = getattr(result, place)
        if part is not None:
            share = formats.percent(part.moves.illegal_share)
            tiles.append(Tile(f"illegal answers, {place}", share, "of answers"))
    if result.positions is not None:
        share = formats.percent(result.positions.without_move / result.positions.positions)
        consequence = "" if exact is None else f" (each {exact.without_move})"
        tiles.append(Tile("without a move", share, f"of positions{consequence}"))
    usage = result.usage
    if usage.refused:
        note = f"of {usage.answers:,}: {usage.refusal}"
        tiles.append(Tile("prompts refused", f"{usage.refused:,}", note))
    return tiles


def _games_parts(game: AnyGame, games: ModelGames) -> Parts:
    names = ("all", "moving first", "moving second")
    table = parts.seats_table("games of the model", games.played, names)
    return [table, *_moves(game, "in games", games)]


def _positions_parts(game: AnyGame, positions: ModelPositions) -> Parts:
    exact = positions.exact
    consequence = ""
    rows: list[tuple[object, ...]] = []
    if exact is not None:
        consequence = f": there the policy {exact.without_move}"
        for name, outcome in exact.results.items():
            shares = [*outcome.values()]
            rows.append((name, *shares, shares))
    count = positions.positions
    silent = positions.without_move
    return [
        Text(page.words("answered", positions=count, silent=silent, consequence=consequence)),
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
