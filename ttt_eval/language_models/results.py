"""Results of a model: the score of its games without luck, regret by ply, illegal answers,
blunders, exact strength.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from baselines.exact import MAX_SOLVER_CELLS, solve
from ttt_envs.agents.policy import VALUE_TOLERANCE
from ttt_envs.agents.softmax_table import PositionIndex, SoftmaxTable
from ttt_envs.agents.specs import make_policy
from ttt_envs.core.checks import Refusal
from ttt_envs.core.jit import Float64Array, Int64Array
from ttt_envs.game.boards import Boards, to_text
from ttt_envs.game.game import Game
from ttt_envs.graph.estimate import boards_by_stones
from ttt_envs.graph.layers import all_positions
from ttt_envs.text import SELF, TextGame, Turn, make_presentation, present
from ttt_envs.text.text_game import TextGameConfig
from ttt_eval.exact.dynamic_programming import played_losses
from ttt_eval.exact.strength import Choice, strength
from ttt_eval.language_models.asking import Answer, Interview, Sampling
from ttt_eval.language_models.credit import turn_credits
from ttt_eval.matches.luck import OFF, make_correction
from ttt_eval.matches.score import Forfeits, Score

MAX_POSITIONS = 200_000
"""Maximum number of positions that a model is asked about."""
MAX_BLUNDERS = 6
"""Maximum number of positions that are listed as blunders."""
EXACT_OPPONENTS = ("random", "win-or-block", "optimal")
"""Opponents of exact results."""
BYTES_PER_TOKEN = 4
"""of the estimate of prompts"""
CERTAIN = 1e3
"""Logit beside which a move of logit 0 has the probability exp(-1000), which is 0 in float64."""


def evaluate_model(
    interview: Interview,
    settings: TextGameConfig,
    *,
    games: int,
    positions: bool,
    luck_correction: str = OFF,
) -> dict[str, Any] | None:
    """Return the JSON-ready result of a model; docs/language-models.md documents the keys.

    Args:
        interview: has or asks for the answers.
        settings: of the games, with their opponent, and of the positions.
        games: number of games, even; 0 for none.
        positions: whether the model is asked about all reachable positions.
        luck_correction: value function of :func:`ttt_eval.matches.luck.make_correction`.

    Returns:
        None if answers are missing: ``interview.missing`` has their requests.

    Raises:
        ValueError: too many positions, or a request that has failed for good.
    """
    game, sampling = settings.game, interview.sampling
    form = make_presentation(
        settings.presentation, game, settings.seed
    )  # of all games, whose seeds differ
    settings = replace(settings, presentation=form)
    boards = reachable_positions(game) if positions else Boards.start(game, 0)
    texts = make_games(settings, games)
    alone = vars(settings) | {"opponent": SELF}
    answers = [
        TextGame(**alone | {"start": boards.position(row)}) for row in range(len(boards.mover))
    ]
    interview.hold(texts)
    interview.hold(answers, single=True)
    if interview.missing:
        return None
    turns = [text.turns[0] for text in answers]
    return {
        **{"format": 1, "kind": "language-model", "game": game.to_dict()},
        **{
            name: getattr(sampling, name)
            for name in ("model", "temperature", "max_tokens", "fields")
        },
        **{name: str(getattr(settings, name)) for name in ("opponent", "presentation", "illegal")},
        "seed": settings.seed,
        "luck_correction": luck_correction,
        "games": describe_games(settings, texts, luck_correction) if games else None,
        "positions": describe_positions(game, boards, turns, sampling.deterministic)
        if positions
        else None,
        "usage": count_tokens(interview.answers[key] for key in interview.requests),
        "new": count_tokens(interview.answers[key] for key in interview.new),
    }


def estimate_usage(
    sampling: Sampling, settings: TextGameConfig, games: int, positions: bool
) -> dict[str, int]:
    """Return how many ``prompts`` an evaluation without stored and without illegal answers has,
    about how many ``prompt_tokens``, and at most how many ``completion_tokens``.

    The players of a pair of games place a stone on each cell at most, so that the model moves as
    often in a pair as a board has cells, with skips on average.
    """
    boards = reachable_positions(settings.game) if positions else Boards.start(settings.game)
    prompts = games // 2 * settings.game.cells + positions * len(boards.mover)
    prompt = present(settings.game, boards.position(0), settings.presentation, seed=settings.seed)
    tokens = prompts * len(prompt.encode()) // BYTES_PER_TOKEN
    return {
        "prompts": prompts,
        "prompt_tokens": tokens,
        "completion_tokens": prompts * sampling.max_tokens,
    }


def count_tokens(answers: Iterable[Answer]) -> dict[str, int]:
    """Return JSON-ready sums over answers."""
    rows = np.array([answer[1:] for answer in answers], np.int64).reshape(-1, 3)
    return {
        "answers": len(rows),
        **dict(zip(Answer._fields[1:], rows.sum(axis=0).tolist(), strict=True)),
    }


# --------------------------------------------------------------------------------------------------
# What a model is asked


def make_games(settings: TextGameConfig, games: int) -> list[TextGame]:
    """Return games against the opponent of the settings.

    Games 2 i and 2 i + 1 are pair i: both have the skips and the opponent's random numbers of the
    seed ``settings.seed + i``, as ``ttt/MNK-v0`` has them, and the model moves first in the former.
    """
    seats = [{"seat": number % 2, "seed": settings.seed + number // 2} for number in range(games)]
    return [TextGame(**vars(settings) | seat) for seat in seats]


def reachable_positions(game: Game) -> Boards:
    """Return all positions with a move, also those that only skips reach.

    Raises:
        ValueError: more than :data:`MAX_POSITIONS`.
    """
    few = sum(boards_by_stones(game)) <= 2 * MAX_POSITIONS  # else they are not even counted
    if few and len((boards := all_positions(game)).mover) <= MAX_POSITIONS:
        return boards
    raise Refusal(
        f"{game} has too many positions for a question about each, more than {MAX_POSITIONS:,}: "
        "take a smaller board"
    )


# --------------------------------------------------------------------------------------------------
# Turns


def named_cells(turns: Sequence[Turn]) -> Int64Array:
    """Return the cells that the model named, int64[N], -1 where its last answer is no legal
    move.
    """
    return np.array([turn.action if turn.by == "answer" else -1 for turn in turns], np.int64)


def describe_turns(game: Game, turns: Sequence[Turn]) -> dict[str, Any]:
    """Return JSON-ready ``moves`` and ``blunders`` of turns; losses of value are known where the
    game is solved.
    """
    actions = named_cells(turns)
    named, illegal = np.flatnonzero(actions >= 0), sum(len(turn.problems) for turn in turns)
    regret, losing, blunders, answers = None, None, list[dict[str, Any]](), len(named) + illegal
    if game.cells <= MAX_SOLVER_CELLS:
        boards = Boards.from_positions([turn.position for turn in turns]).take(named)
        values = solve(game).action_values(boards)
        loss = played_losses(values, actions[named])
        regret, losing = (
            float(loss.mean()) if len(named) else None,
            int((loss > VALUE_TOLERANCE).sum()),
        )
        blunders = describe_blunders(game, boards, actions[named], values)
    kinds = Counter(problem.kind for turn in turns for problem in turn.problems)
    moves: dict[str, Any] = {
        "moves": len(named),
        "regret": regret,
        "blunders": losing,
        "answers": answers,
    }
    moves |= {
        "illegal": illegal,
        "illegal_share": illegal / max(1, answers),
        "problems": dict(sorted(kinds.items())),
    }
    return {"moves": moves, "blunders": blunders}


def describe_blunders(
    game: Game, boards: Boards, actions: Int64Array, values: Float64Array
) -> list[dict[str, Any]]:
    """Return the positions with the highest total loss of value, JSON-ready, the worst first.

    Args:
        game: the game.
        boards: the N positions of moves.
        actions: int64[N]: the moves.
        values: float64[N, cells]: exact values of the moves in the positions, NaN where illegal.
    """
    rows = defaultdict[str, list[int]](list)
    for row in range(len(actions)):
        rows[to_text(boards.position(row), game)].append(row)
    blunders = []
    for same in rows.values():
        shares = np.bincount(actions[same], minlength=game.cells) / len(same)
        choice = Choice(boards.position(same[0]), shares, None, values[same[0]])
        if (choice.loss or 0.0) > VALUE_TOLERANCE:
            blunders.append({**choice.to_dict(game), "times": len(same)})
    return sorted(blunders, key=lambda blunder: -blunder["loss"] * blunder["times"])[:MAX_BLUNDERS]


# --------------------------------------------------------------------------------------------------
# Games


def describe_games(
    settings: TextGameConfig, texts: Sequence[TextGame], luck_correction: str
) -> dict[str, Any]:
    """Return JSON-ready results of pairs of games: the score, without luck if ``luck_correction``
    says so, and moves.

    The luck is that of :mod:`ttt_eval.matches.luck`: of skips, and of the opponent's draws where
    they are known.
    """
    game, correction = settings.game, make_correction(luck_correction, settings.game)
    results = (
        np.array([text.outcome.result_index(text.seats[0]) for text in texts]).reshape(-1, 2).T
    )
    ends = [text.turns[-1] for text in texts if text.turns[-1].action < 0]
    lost = sum(turn.by == "answer" for turn in ends)
    first = next(
        (turn.problems[-1].message if turn.problems else "it has given up" for turn in ends), ""
    )
    luck = None
    if correction is not None:
        expected = correction.expected_values(make_policy(settings.opponent, game))
        credits = [turn_credits(text.turns, text.seats[0], correction, expected) for text in texts]
        luck = (
            np.array([sum(credit.luck for credit in of_game) for of_game in credits])
            .reshape(-1, 2)
            .T
        )
    score = Score.from_games(results, luck, forfeits=Forfeits(lost, len(ends) - lost, first))
    turns = [turn for text in texts for turn in text.turns if turn.position.mover == text.seats[0]]
    return {**score.to_record(), **score.to_dict(), **describe_turns(game, turns)}


# --------------------------------------------------------------------------------------------------
# Positions


def describe_positions(
    game: Game, boards: Boards, turns: Sequence[Turn], pure: bool
) -> dict[str, Any]:
    """Return JSON-ready results of a model's turns in the reachable positions.

    Exact strength is included if the model is ``pure``: it answers a question always alike, so that
    it is a policy, which makes a random move where it names none.
    """
    actions, exact = named_cells(turns), None
    if pure:
        logits, named = np.zeros(boards.cells.shape), np.flatnonzero(actions >= 0)
        logits[named, actions[named]] = CERTAIN
        measured = strength(
            game, SoftmaxTable(PositionIndex(game, boards), logits), EXACT_OPPONENTS
        )
        gains = dict(zip(("first", "second"), measured.gains or (), strict=True))
        results = {opponent: result._asdict() for opponent, result in measured.results.items()}
        exact = {**measured.measures, "gains": gains, "results": results}
    head = {"positions": len(turns), "without_move": int((actions < 0).sum())}
    return {**head, **describe_turns(game, turns), "exact": exact}
