"""The page of a language model: its games, its exact strength, its illegal answers, and its blunders."""

from __future__ import annotations

import json
from collections.abc import Sequence

from ttt_envs.game.phantom import AnyGame
from ttt_eval.reports import formats, page, parts
from ttt_eval.reports.results import LanguageModelResult, MoveCounts, Spot

COUNTS = ("answers", "prompt_tokens", "completion_tokens", "truncated")
"""Keys of the usage of a language model."""


def language_model_report(result: LanguageModelResult) -> page.Report:
    """Return the page of a language model.

    Raises:
        ValueError: neither games nor exact results.
    """
    model, game, games, positions = result.model, result.game, result.games, result.positions
    exact = None if positions is None else positions.exact
    tiles, verdicts, counts = list[page.Tile](), list[str](), list[page.Tile]()
    first: list[page.Part | None] = [page.Text(f"It reads the game in the presentation {result.presentation}.")]
    sections: dict[str, page.Parts] = {"": first}
    if exact is not None:
        tiles += parts.measure_tiles({"exploitability": exact.exploitability, "regret": exact.regret}, ", exactly")
        gain = formats.number(max(0.0, exact.exploitability or 0.0))
        verdicts.append(f"a best response gains {gain} a game more than against perfect play")
    if games is not None:
        score, played, against = games.score.interval, games.match.played, result.opponent
        share = formats.share(score.mean)
        tiles.append(page.Tile(f"score against {against}", share, f"95%: {formats.format_ends(score)}"))
        tiles.append(page.Tile("games", f"{games.games:,}", page.words("pairs")))
        tiles += parts.luck_tiles(games.match, result.luck_correction)
        verdicts.append(f"it scores {share} against {against}")
        first.append(parts.forfeits(played, "the model", "the opponent"))
        table = parts.seats_table("games of the model", played, ("all", "moving first", "moving second"))
        sections["Games"] = [table, *_moves(game, "in games", games.moves, games.blunders)]
        counts += _count_tiles("games", games.moves)
    if positions is not None:
        answered = f"It has answered in {positions.positions:,} reachable positions."
        silent = f"In {positions.without_move:,} of them no answer was a legal move: there the policy moves at random."
        rows = [
            (opponent, [min(1.0, max(0.0, outcome[part])) for part in ("win", "draw", "loss")])
            for opponent, outcome in ({} if exact is None else exact.results).items()
        ]
        sections["All positions"] = [
            page.Text(f"{answered} {silent}"),
            parts.results_table("results of the model", rows) if rows else None,
            *_moves(game, "in all positions", positions.moves, positions.blunders),
        ]
        counts += _count_tiles("positions", positions.moves)
    if not verdicts:
        raise ValueError("there are neither games nor exact results")
    used = (("all answers used", result.usage), ("requested by the last call", result.new))
    usage = [(name, *(numbers[key] for key in COUNTS)) for name, numbers in used]
    sections |= {"Cost": [parts.table("usage", usage)], "Reproduction": _reproduction(result)}
    return page.Report(f"{model}, {game}", f"{model}: {'; '.join(verdicts)}", [*tiles, *counts], sections)


def _count_tiles(name: str, moves: MoveCounts) -> list[page.Tile]:
    illegal = page.Tile(f"illegal answers, {name}", formats.percent(moves.illegal_share))
    return [illegal, *parts.measure_tiles({"regret": moves.regret}, f", {name}")]


def _moves(game: AnyGame, where: str, moves: MoveCounts, blunders: Sequence[Spot]) -> page.Parts:
    """Return the table of moves, and boards of blunders."""
    rows = [
        (one.stones, one.moves, one.regret and max(0.0, one.regret), one.blunders, one.answers, one.illegal_share)
        for one in moves.by_stones
    ]
    kinds = ", ".join(f"{kind} {count:,}" for kind, count in moves.problems.items())
    boards = []
    for spot in blunders:
        times = "" if spot.times is None else f", {spot.times:,} times"
        title = f"the {('first', 'second')[spot.place(game).mover]} player to move{times}"
        boards.append(parts.spot_board(game, spot, spot.moves, spot.loss, title, spot.likely))
    about = f"Blunders: {len(boards)}. {page.words('colours')}"
    return [
        parts.table("moves", rows, where=where),
        page.Text(f"Illegal answers by kind: {kinds}.") if kinds else None,
        page.Text(about if boards else page.words("no blunders")),
        page.Boards(boards) if boards else None,
    ]


def _reproduction(result: LanguageModelResult) -> page.Parts:
    games: list[str | float] = []
    if result.games is not None:
        games = ["--games", result.games.games, "--opponent", result.opponent]
    flags = [*(["--positions", "all"] if result.positions else []), *([] if result.show_legal else ["--hide-legal"])]
    where = ["--endpoint", result.endpoint] if result.endpoint else ["--answers", "answers.jsonl"]
    return parts.reproduction(result, [
        "evaluate.py", "llm", *where, "--model", result.model,
        "--presentation", result.presentation, *games, *flags, "--illegal", result.illegal,
        "--max-asks", result.max_asks, "--temperature", result.temperature, "--fields", json.dumps(result.fields),
        "--max-tokens", result.max_tokens,
        *parts.match_options(result),
    ])  # fmt: skip
