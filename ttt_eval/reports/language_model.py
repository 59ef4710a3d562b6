"""The page of a language model: its games, its exact strength, its illegal answers, and its
blunders.
"""

from __future__ import annotations

import json

from ttt_envs.core.checks import Refusal
from ttt_envs.game.phantom import AnyGame
from ttt_eval.matches.score import Score
from ttt_eval.reports import formats, page, parts
from ttt_eval.reports.page import Boards, Part, Parts, Report, Text, Tile
from ttt_eval.reports.results import LanguageModelResult, ModelPart

USAGE = ("answers", "prompt_tokens", "completion_tokens", "truncated")
"""Keys of the usage of a language model."""
COUNTS = ("moves", "regret", "blunders", "answers", "illegal_share")
"""Keys of its moves."""
OPTIONS = ("model", "endpoint", "answers", "presentation", "illegal", "temperature", "max_tokens")
"""Keys of options that its commands have."""


def language_model_report(result: LanguageModelResult) -> Report:
    """Return the page of a language model.

    Raises:
        ValueError: neither games nor exact results.
    """
    model, game, games, positions, verdicts = (
        result.model,
        result.game,
        result.games,
        result.positions,
        list[str](),
    )
    tiles, counts = list[Tile](), list[Tile]()
    first: list[Part | None] = [
        Text(f"It reads the game in the presentation {result.raw['presentation']}.")
    ]
    sections: dict[str, Parts] = {"": first}
    exact = positions and positions.exact
    if exact:
        tiles += parts.measure_tiles({"exploitability": exact["exploitability"]}, ", exactly")
        tiles += parts.measure_tiles({"regret": exact.get("regret")}, " in self-play, exactly")
        verdicts.append(page.words("gain", gain=formats.number(max(0.0, exact["exploitability"]))))
    if games is not None and games.score is not None:
        score = Score.from_record(result.raw["games"])
        tiles += parts.score_tiles(
            f"score against {result.opponent}", games.score, score, result.luck_correction
        )
        verdicts.append(f"it scores {formats.number(games.score.mean)} against {result.opponent}")
        first.append(parts.forfeits(score, "the model", "the opponent"))
        table = parts.seats_table(
            "games of the model", score, ("all", "moving first", "moving second")
        )
        sections["Games"] = [table, *_moves(game, "in games", games)]
        counts.append(_illegal_tile("games", games))
    if positions is not None:
        outcomes = exact["results"] if exact else {}
        shares = {
            name: [outcome[part] for part in ("win", "draw", "loss")]
            for name, outcome in outcomes.items()
        }
        rows = [(name, *of, of) for name, of in shares.items()]
        sections["All positions"] = [
            Text(
                page.words("answered", positions=positions.positions, silent=positions.without_move)
            ),
            parts.table("results of the model", rows) if rows else None,
            *_moves(game, "in all positions", positions),
        ]
        counts.append(_illegal_tile("positions", positions))
    if not verdicts:
        raise Refusal("there are neither games nor exact results")
    sections["Cost"] = [parts.table("usage", [[result.usage[key] for key in USAGE]])]
    sections["Reproduction"] = _reproduction(result)
    return Report(
        f"{model}, {game}", f"{model}: {'; '.join(verdicts)}", [*tiles, *counts], sections
    )


def _illegal_tile(name: str, part: ModelPart) -> Tile:
    return Tile(f"illegal answers, {name}", formats.percent(part.moves["illegal_share"]))


def _moves(game: AnyGame, where: str, part: ModelPart) -> Parts:
    """Return the table of moves, and boards of blunders."""
    kinds = ", ".join(f"{kind} {count:,}" for kind, count in part.moves["problems"].items())
    boards = []
    for spot in part.blunders:
        times = "once" if spot.times in (None, 1) else f"{spot.times:,} times"
        title = f"{spot.position[-1]} to move, {times}"
        boards.append(parts.spot_board(game, spot, spot.moves, spot.loss, title))
    return [
        parts.table("moves", [[part.moves[key] for key in COUNTS]], where=where),
        Text(f"Illegal answers by kind: {kinds}.") if kinds else None,
        Text(page.words("costliest positions" if boards else "no losing moves")),
        Boards(boards) if boards else None,
    ]


def _reproduction(result: LanguageModelResult) -> Parts:
    raw = result.raw
    options = {key: raw.get(key) for key in OPTIONS} | {"fields": json.dumps(raw["fields"])}
    if result.games is not None:
        options |= {"games": raw["games"]["games"], "opponent": result.opponent}
    if result.positions is not None:
        options["positions"] = "all"
    return parts.reproduction(result, "evaluate.py", "llm", **options)
