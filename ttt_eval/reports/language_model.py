"""The page of a language model: its games, its exact strength, its illegal answers, and its blunders."""

from __future__ import annotations

import json
from collections.abc import Sequence

from ttt_envs.game.phantom import AnyGame
from ttt_eval.reports import formats, page, parts
from ttt_eval.reports.results import LanguageModelResult, MoveCounts, Spot


def language_model_report(result: LanguageModelResult) -> page.Report:
    """Return the page of a language model.

    Raises:
        ValueError: neither games nor exact results.
    """
    model, game, games, positions = result.model, result.game, result.games, result.positions
    tiles, verdicts = list[page.Tile](), list[str]()
    first: list[page.Part | None] = [
        page.Text(f"It reads the game in the presentation {result.presentation}."),
    ]
    sections: dict[str, list[page.Part | None]] = {"": first}
    exact = None if positions is None else positions.exact
    if exact is not None:
        tiles += parts.measure_tiles({"exploitability": exact.exploitability, "regret": exact.regret}, ", exactly")
        gain = formats.number(max(0.0, exact.exploitability or 0.0))
        verdicts.append(f"a best response gains {gain} a game more than against perfect play")
    if games is not None:
        score, played, seats = games.score.interval, games.match.played, ("moving first", "moving second")
        ends = f"95%: {formats.format_ends(score)}"
        tiles.append(page.Tile(f"score against {result.opponent}", formats.share(score.mean), ends))
        tiles.append(page.Tile("games", f"{games.games:,}", "in pairs, with the seats swapped"))
        tiles += parts.luck_tiles(games.match, result.luck_correction)
        verdicts.append(f"it scores {formats.share(score.mean)} against {result.opponent}")
        first.append(parts.forfeits(played, "the model", "the opponent"))
        table = parts.seats_table("Results of the model by seat", "seat", played, seats)
        sections["Games"] = [table, *_moves(game, games.moves, games.blunders)]
    if positions is not None:
        answered = f"{positions.positions:,} reachable positions"
        silent = f"In {positions.without_move:,} of them no answer was a legal move: there the policy moves at random."
        rows = [
            (opponent, [min(1.0, max(0.0, outcome[part])) for part in ("win", "draw", "loss")])
            for opponent, outcome in ({} if exact is None else exact.results).items()
        ]
        caption = "Exact results of the model, the mean of both seats"
        sections["All positions"] = [
            page.Text(f"It has answered in {answered}. {silent}"),
            parts.results_table(caption, "against", rows) if rows else None,
            *_moves(game, positions.moves, positions.blunders),
        ]
    if not verdicts:
        raise ValueError("there are neither games nor exact results")
    for name, part in (("games", games), ("positions", positions)):
        if part is not None:
            tiles.append(page.Tile(f"illegal answers, {name}", formats.percent(part.moves.illegal_share)))
            tiles += parts.measure_tiles({"regret": part.moves.regret}, f", {name}")
    columns = ("answers", "prompt_tokens", "completion_tokens", "truncated")
    usage = [
        (name, *(f"{counts[column]:,.0f}" for column in columns))
        for name, counts in (("all answers used", result.usage), ("requested by the last call", result.new))
    ]
    head = ("", "answers", "tokens of prompts", "tokens of answers", "cut off")
    sections["Cost"] = [page.Table("Answers and tokens", head, usage)]
    sections["Reproduction"] = list(_reproduction(result))
    return page.Report(f"{model}, {game}", f"{model}: {'; '.join(verdicts)}", tiles, sections)


def _moves(game: AnyGame, moves: MoveCounts, blunders: Sequence[Spot]) -> page.Parts:
    """Return the table of moves, and boards of blunders."""
    rows = []
    for one in moves.by_stones:
        regret = "" if one.regret is None else formats.number(max(0.0, one.regret))
        wrong, illegal = "" if one.blunders is None else f"{one.blunders:,}", formats.percent(one.illegal_share)
        rows.append((str(one.stones), f"{one.moves:,}", regret, wrong, f"{one.answers:,}", illegal))
    head = ("stones", "moves", "regret of a move", "blunders", "answers", "illegal answers")
    kinds = ", ".join(f"{kind} {count:,}" for kind, count in moves.problems.items())
    boards = []
    for spot in blunders:
        times = "" if spot.times is None else f", {spot.times:,} times"
        title = f"the {('first', 'second')[spot.place(game).mover]} player to move{times}"
        boards.append(parts.spot_board(game, spot, spot.moves, spot.loss, title, spot.likely))
    return [
        page.Table("Moves by the number of stones on the board", head, rows),
        page.Text(f"Illegal answers by kind: {kinds}.") if kinds else None,
        page.Text(f"Blunders: {len(boards) or 'no move is known to lose value'}. {parts.COLOURS if boards else ''}"),
        page.Boards(boards) if boards else None,
    ]


def _reproduction(result: LanguageModelResult) -> page.Parts:
    games: list[str | float] = (
        ["--games", result.games.games, "--opponent", result.opponent] if result.games is not None else []
    )
    flags = [*(["--positions", "all"] if result.positions else []), *([] if result.show_legal else ["--hide-legal"])]
    where = ["--endpoint", result.endpoint] if result.endpoint else ["--answers", "answers.jsonl"]
    return parts.reproduction(result, [
        "evaluate.py", "llm", *where, "--model", result.model,
        "--presentation", result.presentation, *games, *flags, "--illegal", result.illegal,
        "--max-asks", result.max_asks, "--temperature", result.temperature, "--fields", json.dumps(result.fields),
        "--max-tokens", result.max_tokens,
        *parts.match_options(result),
    ])  # fmt: skip
