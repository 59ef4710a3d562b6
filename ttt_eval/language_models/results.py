"""Results of a model: the score of its games without luck, regret by ply, illegal answers, blunders, exact strength."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from baselines.exact import MAX_SOLVER_CELLS, solve
from ttt_envs.agents.policy import VALUE_TOLERANCE, Policy
from ttt_envs.core.jit import BoolArray, Int64Array
from ttt_envs.game.boards import Boards, to_text
from ttt_envs.game.game import Game
from ttt_envs.text import TextGame, Turn
from ttt_eval.exact.strength import strength
from ttt_eval.language_models.asking import Answer, Sampling
from ttt_eval.language_models.player import Interview, TextSettings, answered_policy, reachable_positions
from ttt_eval.matches.account import account_moves
from ttt_eval.matches.luck import OFF, LuckCorrection, PositionValues, make_correction
from ttt_eval.matches.score import CorrectedPairs, Forfeits, Score

KIND, FORMAT = "language-model", 1
MAX_BLUNDERS = 6
"""Maximum number of positions that are listed as blunders."""
EXACT_OPPONENTS = ("random", "win-or-block", "optimal")
"""Opponents of exact results."""
BYTES_PER_TOKEN = 4
"""of the estimate of prompts"""


def evaluate_model(
    interview: Interview,
    settings: TextSettings,
    *,
    opponent: Policy,
    games: int,
    positions: bool,
    luck_correction: str = OFF,
) -> dict[str, Any] | None:
    """Return the JSON-ready result of a model; docs/language-models.md documents the keys.

    Args:
        interview: has or asks for the answers.
        settings: of the game as the model sees it.
        opponent: of the games.
        games: number of games, even; 0 for none.
        positions: whether the model is asked about all reachable positions.
        luck_correction: value function of :func:`ttt_eval.matches.luck.make_correction`.

    Returns:
        None if answers are missing: ``interview.missing`` has their questions.

    Raises:
        ValueError: too many positions, or a request that has failed for good.
    """
    game, sampling = settings.game, interview.sampling
    boards = reachable_positions(game) if positions else None
    texts = interview.hold(settings.make_conversations(opponent, games))
    answers = [] if boards is None else interview.hold(settings.make_turns(boards))
    if interview.missing:
        return None
    turns = [text.turns[0] for text in answers]
    return {
        "format": FORMAT,
        "kind": KIND,
        "game": game.to_dict(),
        **{name: getattr(sampling, name) for name in ("model", "temperature", "max_tokens", "fields")},
        **{name: getattr(settings, name) for name in ("presentation", "illegal", "seed")},
        "opponent": str(opponent),
        "luck_correction": luck_correction,
        "games": describe_games(game, texts, opponent, luck_correction) if texts else None,
        "positions": None if boards is None else describe_positions(game, boards, turns, sampling.deterministic),
        "usage": count_tokens(interview.answers[key] for key in interview.used),
        "new": count_tokens(interview.answers[key] for key in interview.new),
    }


def estimate_usage(sampling: Sampling, settings: TextSettings, games: int, positions: bool) -> dict[str, int]:
    """Return how many ``prompts`` an evaluation without stored and without illegal answers has, about how many
    ``prompt_tokens``, and at most how many ``completion_tokens``.

    The players of a pair of games place a stone on each cell at most, so that the model moves as often in a pair as a
    board has cells, with skips on average.
    """
    boards = reachable_positions(settings.game) if positions else Boards.start(settings.game)
    prompts = games // 2 * settings.game.cells + positions * len(boards.mover)
    question = settings.make_turns(Boards.start(settings.game))[0].question()
    tokens = prompts * len(question.messages[0]["content"].encode()) // BYTES_PER_TOKEN
    return {"prompts": prompts, "prompt_tokens": tokens, "completion_tokens": prompts * sampling.max_tokens}


def count_tokens(answers: Iterable[Answer]) -> dict[str, int]:
    """Return JSON-ready sums over answers."""
    rows = np.array([answer[1:] for answer in answers], np.int64).reshape(-1, 3)
    names = ("prompt_tokens", "completion_tokens", "truncated")
    return {"answers": len(rows), **dict(zip(names, rows.sum(axis=0).tolist(), strict=True))}


# ---------------------------------------------------------------------------------------------------------------------
# Turns


def named_cells(turns: Sequence[Turn]) -> Int64Array:
    """Return the cells that the model named, int64[N], -1 where its last answer is no legal move."""
    return np.array([turn.action if turn.by == "answer" else -1 for turn in turns], np.int64)


def describe_turns(game: Game, turns: Sequence[Turn]) -> dict[str, Any]:
    """Return JSON-ready ``moves`` and ``blunders`` of turns; losses of value are known where the game is solved."""
    boards = Boards.from_positions([turn.position for turn in turns])
    stones, actions = np.count_nonzero(boards.cells, axis=1), named_cells(turns)
    named, illegal = actions >= 0, np.array([len(turn.problems) for turn in turns])
    losses, solved = np.zeros(boards.cells.shape), game.cells <= MAX_SOLVER_CELLS
    if solved:
        values = solve(game).action_values(boards)
        losses = np.nanmax(values, axis=1, keepdims=True) - values
    loss = np.where(named, losses[np.arange(len(turns)), actions], 0.0)

    def count(rows: BoolArray) -> dict[str, Any]:
        moves, failed = int((rows & named).sum()), int(illegal[rows].sum())
        return {
            "moves": moves,
            "regret": float(loss[rows].sum() / moves) if moves and solved else None,
            "blunders": int((loss[rows] > VALUE_TOLERANCE).sum()) if solved else None,
            "answers": moves + failed,
            "illegal": failed,
            "illegal_share": failed / max(1, moves + failed),
        }

    problems = Counter(problem.kind for turn in turns for problem in turn.problems)
    by_stones = [{"stones": number, **count(stones == number)} for number in np.unique(stones).tolist()]
    texts, costs, blunders = [to_text(turn.position, game) for turn in turns], Counter[str](), []
    for text, cost in zip(texts, loss.tolist(), strict=True):
        costs[text] += cost
    for text, cost in costs.most_common(MAX_BLUNDERS):
        if cost > VALUE_TOLERANCE:
            rows = [row for row, other in enumerate(texts) if other == text and named[row]]
            moves = {str(cell): times / len(rows) for cell, times in sorted(Counter(actions[rows].tolist()).items())}
            best = np.flatnonzero(losses[rows[0]] <= VALUE_TOLERANCE).tolist()
            facts = {"moves": moves, "best": best, "loss": cost / len(rows), "times": len(rows)}
            blunders.append({"position": text, **facts})
    total = {**count(np.ones(len(turns), bool)), "problems": dict(sorted(problems.items())), "by_stones": by_stones}
    return {"moves": total, "blunders": blunders}


# ---------------------------------------------------------------------------------------------------------------------
# Games


def describe_games(game: Game, texts: Sequence[TextGame], opponent: Policy, luck_correction: str) -> dict[str, Any]:
    """Return JSON-ready results of pairs of games: the score, without luck if ``luck_correction`` says so, and moves.

    The luck is that of :mod:`ttt_eval.matches.luck`: of skips, and of the opponent's draws where they are known.
    """
    correction = make_correction(luck_correction, game)
    expected = None if correction is None else correction.expected_values(opponent)
    places = np.array([text.outcome.result_index(number % 2) for number, text in enumerate(texts)])
    results, lengths = np.zeros((3, 3), np.int64), np.zeros((2, 3, game.cells + 1), np.int64)
    np.add.at(results, (places[::2], places[1::2]), 1)
    stones = [np.count_nonzero(text.position.cells) for text in texts]
    np.add.at(lengths, (np.arange(len(texts)) % 2, places, stones), 1)
    ends = [text.turns[-1] for text in texts if text.turns[-1].action < 0]
    lost = [turn for turn in ends if turn.by == "answer"]
    first = next((turn.problems[-1].message if turn.problems else "it has given up" for turn in ends), "")
    corrected = None
    if correction is not None:
        luck = [game_luck(text, number % 2, correction, expected) for number, text in enumerate(texts)]
        corrected = CorrectedPairs.from_scores((2 - places - luck).reshape(-1, 2).mean(axis=1) / 2)
    score = Score(results, lengths, Forfeits(len(lost), len(ends) - len(lost), first), corrected)
    turns = [turn for number, text in enumerate(texts) for turn in text.turns if turn.position.mover == number % 2]
    return {
        **score.to_dict(),
        "pairs": results.tolist(),
        "corrected": None if corrected is None else corrected.to_list(),
        **describe_turns(game, turns),
    }


def game_luck(text: TextGame, seat: int, correction: LuckCorrection, known: PositionValues | None) -> float:
    """Return the luck in a game for the player of a seat.

    Args:
        text: the game.
        seat: the seat.
        correction: the value function.
        known: the draws of the opponent, if they are known: then their luck counts too.
    """
    turns = [turn for turn in text.turns if turn.action >= 0]
    if not turns:
        return 0.0
    moves = account_moves([(turn.position, turn.action, turn.skip) for turn in turns], correction)[1]
    luck = sum(move.luck for move in moves)
    drawn = [move for turn, move in zip(turns, moves, strict=True) if turn.by == "opponent"]
    if drawn and known is not None:
        boards = Boards.from_positions([move.position for move in drawn])
        luck += sum(move.change for move in drawn) + (correction.values(boards) - known.values(boards)).sum()
    return float(luck) * (1 - 2 * seat)


# ---------------------------------------------------------------------------------------------------------------------
# Positions


def describe_positions(game: Game, boards: Boards, turns: Sequence[Turn], pure: bool) -> dict[str, Any]:
    """Return JSON-ready results of a model's turns in the reachable positions.

    Exact strength is included if the model is ``pure``: it answers a question always alike, so that it is a policy.
    """
    actions, exact = named_cells(turns), None
    if pure:
        measured = strength(game, answered_policy(game, boards, actions), EXACT_OPPONENTS)
        exact = {
            **measured.measures,
            "gains": dict(zip(("first", "second"), measured.gains or (), strict=True)),
            "results": {opponent: result._asdict() for opponent, result in measured.results.items()},
        }
    head = {"positions": len(turns), "without_move": int((actions < 0).sum())}
    return {**head, **describe_turns(game, turns), "exact": exact}
