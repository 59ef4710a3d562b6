"""Results of a model: the score of its games without luck, regret by ply, illegal answers,
blunders, exact strength.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from msgspec import UNSET, Struct, UnsetType, field
from numpy.typing import NDArray

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
from ttt_eval.exact.strength import PolicyChoice, strength
from ttt_eval.language_models.asking import Answer, Interview, Sampling
from ttt_eval.language_models.credit import turn_credits
from ttt_eval.matches.luck import OFF, make_correction
from ttt_eval.matches.results import ChosenMoves, PlayedResult
from ttt_eval.matches.score import Forfeits, Score, StoredScore
from ttt_eval.store.result_store import Data
from ttt_eval.store.results import Spec, to_json

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


class MoveCounts(Struct):
    """Numbers of moves and of answers."""

    moves: int
    """moves that the model named"""
    regret: float | None
    """mean loss of value by a move; None where the game is not solved"""
    blunders: int | None
    """moves that lose value"""
    answers: int
    illegal: int
    illegal_share: float
    problems: dict[str, int]
    """number of illegal answers by kind"""


class Blunder(ChosenMoves, kw_only=True):
    """A position in which the model loses value."""

    times: int | None = 1
    """number of moves there"""


class ExactResult(Struct, kw_only=True):
    """Exact strength of a model that answers a question always alike."""

    exploitability: float
    regret: float | UnsetType = UNSET
    mean_loss: float | UnsetType = UNSET
    gains: dict[str, float] | UnsetType = UNSET
    """of a best response, by its seat"""
    results: dict[str, dict[str, float]]
    """shares of wins, draws and losses by opponent"""


class ModelGames(StoredScore, kw_only=True):
    """Results of the games of a model."""

    moves: MoveCounts
    blunders: list[Blunder]

    def to_dict(self) -> Data:
        """Return JSON-ready data, with what follows from the pairs of games."""
        return {**to_json(self), **self.played.to_dict()}


class ModelPositions(Struct, kw_only=True):
    """Results of the moves of a model in all positions."""

    positions: int
    """number of positions"""
    without_move: int
    """number of those in which it names no legal move"""
    moves: MoveCounts
    blunders: list[Blunder]
    exact: ExactResult | None = None


class TokenUsage(Struct):
    """Numbers of answers and of their tokens."""

    answers: int
    prompt_tokens: int
    completion_tokens: int
    truncated: int


class LanguageModelResult(PlayedResult, tag="language-model", kw_only=True):
    """A language model as a player."""

    model: Spec
    temperature: float
    max_tokens: int
    fields: Data = field(default_factory=dict)
    """further fields of requests"""
    opponent: Spec
    presentation: str
    illegal: str
    games: ModelGames | None
    positions: ModelPositions | None
    usage: TokenUsage
    """of all answers"""
    new: TokenUsage | UnsetType = UNSET
    """of the answers requested by the last call"""
    endpoint: str | UnsetType | None = UNSET
    answers: str | UnsetType | None = UNSET
    """file of the answers"""

    def to_dict(self) -> Data:
        """Return the content of the file, JSON-ready; docs/files.md documents the keys."""
        games = None if self.games is None else self.games.to_dict()
        return {**super().to_dict(), "games": games}


def evaluate_model(
    interview: Interview,
    settings: TextGameConfig,
    *,
    games: int,
    positions: bool,
    luck_correction: str = OFF,
) -> LanguageModelResult | None:
    """Return the result of a model.

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
    game = settings.game
    sampling = interview.sampling
    # of all games, whose seeds differ
    form = make_presentation(settings.presentation, game, settings.seed)
    settings = replace(settings, presentation=form)
    boards = reachable_positions(game) if positions else Boards.start(game, 0)
    texts = make_games(settings, games)
    arguments = {**vars(settings), "opponent": SELF}
    answers = [
        TextGame(**arguments | {"start": boards.position(row)}) for row in range(len(boards.mover))
    ]
    interview.hold(texts)
    interview.hold(answers, single=True)
    if interview.missing:
        return None
    of_positions = None
    if positions:
        turns = [text.turns[0] for text in answers]
        of_positions = describe_positions(game, boards, turns, sampling.deterministic)
    return LanguageModelResult(
        game=game,
        model=sampling.model,
        temperature=sampling.temperature,
        max_tokens=sampling.max_tokens,
        fields=dict(sampling.fields),
        opponent=str(settings.opponent),
        presentation=str(settings.presentation),
        illegal=str(settings.illegal),
        seed=settings.seed,
        luck_correction=luck_correction,
        games=describe_games(settings, texts, luck_correction) if games else None,
        positions=of_positions,
        usage=count_tokens(interview.answers[key] for key in interview.requests),
        new=count_tokens(interview.answers[key] for key in interview.new),
    )


def estimate_usage(
    sampling: Sampling, settings: TextGameConfig, games: int, positions: bool
) -> dict[str, int]:
    """Return how many ``prompts`` an evaluation without stored and without illegal answers has,
    about how many ``prompt_tokens``, and at most how many ``completion_tokens``.

    The players of a pair of games place a stone on each cell at most, so that the model moves as
    often in a pair as a board has cells, with skips on average.
    """
    boards = Boards.start(settings.game)
    prompts = games // 2 * settings.game.cells
    if positions:
        boards = reachable_positions(settings.game)
        prompts += len(boards.mover)
    prompt = present(settings.game, boards.position(0), settings.presentation, seed=settings.seed)
    tokens = prompts * len(prompt.encode()) // BYTES_PER_TOKEN
    return {
        "prompts": prompts,
        "prompt_tokens": tokens,
        "completion_tokens": prompts * sampling.max_tokens,
    }


def count_tokens(answers: Iterable[Answer]) -> TokenUsage:
    """Return sums over answers."""
    rows = [(1, *numbers) for _, *numbers in answers]
    return TokenUsage(*np.array(rows, np.int64).reshape(-1, 4).sum(axis=0).tolist())


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
    # of a larger board positions are not even counted
    boards = all_positions(game) if sum(boards_by_stones(game)) <= 2 * MAX_POSITIONS else None
    if boards is None or len(boards.mover) > MAX_POSITIONS:
        raise Refusal(
            f"{game} has too many positions for a question about each, more than "
            f"{MAX_POSITIONS:,}: take a smaller board"
        )
    return boards


# --------------------------------------------------------------------------------------------------
# Turns


def named_cells(turns: Sequence[Turn]) -> Int64Array:
    """Return the cells that the model named, int64[N], -1 where its last answer is no legal
    move.
    """
    return np.array([turn.action if turn.by == "answer" else -1 for turn in turns], np.int64)


def describe_turns(game: Game, turns: Sequence[Turn]) -> tuple[MoveCounts, list[Blunder]]:
    """Return the numbers of moves of turns, and the blunders; losses of value are known where the
    game is solved.
    """
    actions = named_cells(turns)
    rows = np.flatnonzero(actions >= 0)
    kinds = Counter(problem.kind for turn in turns for problem in turn.problems)
    illegal = kinds.total()
    answers = len(rows) + illegal
    counts = MoveCounts(
        moves=len(rows),
        regret=None,
        blunders=None,
        answers=answers,
        illegal=illegal,
        illegal_share=illegal / max(1, answers),
        problems=dict(sorted(kinds.items())),
    )
    if game.cells > MAX_SOLVER_CELLS:
        return counts, []
    boards = Boards.from_positions([turn.position for turn in turns]).take(rows)
    values = solve(game).action_values(boards)
    losses = played_losses(values, actions[rows])
    counts.regret = float(losses.mean()) if len(rows) else None
    counts.blunders = int((losses > VALUE_TOLERANCE).sum())
    return counts, describe_blunders(game, boards, actions[rows], values)


def describe_blunders(
    game: Game, boards: Boards, actions: Int64Array, values: Float64Array
) -> list[Blunder]:
    """Return the positions with the highest total loss of value, the worst first.

    Args:
        game: the game.
        boards: the N positions of moves.
        actions: int64[N]: the moves.
        values: float64[N, cells]: exact values of the moves in the positions, NaN where illegal.
    """
    rows: defaultdict[str, list[int]] = defaultdict(list)
    for row in range(len(actions)):
        rows[to_text(boards.position(row), game)].append(row)
    blunders: list[tuple[float, Blunder]] = []
    for equal_rows in rows.values():
        count = len(equal_rows)
        shares = np.bincount(actions[equal_rows], minlength=game.cells) / count
        choice = PolicyChoice(boards.position(equal_rows[0]), shares, None, values[equal_rows[0]])
        loss = choice.loss or 0.0
        if loss > VALUE_TOLERANCE:
            blunders.append((loss * count, Blunder(**choice.to_dict(game), times=count)))
    blunders.sort(key=lambda entry: -entry[0])
    return [blunder for _, blunder in blunders[:MAX_BLUNDERS]]


# --------------------------------------------------------------------------------------------------
# Games


def describe_games(
    settings: TextGameConfig, texts: Sequence[TextGame], luck_correction: str
) -> ModelGames:
    """Return the results of pairs of games: the score, without luck if ``luck_correction`` says so,
    and moves.

    The luck is that of :mod:`ttt_eval.matches.luck`: of skips, and of the opponent's draws where
    they are known.
    """
    game = settings.game
    results = [text.outcome.result_index(text.seats[0]) for text in texts]
    luck = None
    correction = make_correction(luck_correction, game)
    if correction is not None:
        expected = correction.expected_values(make_policy(settings.opponent, game))
        credits = [turn_credits(text.turns, text.seats[0], correction, expected) for text in texts]
        luck = _by_pairs([sum(credit.luck for credit in turns) for turns in credits])
    score = Score.from_games(_by_pairs(results), luck, forfeits=_count_forfeits(texts))
    own = [turn for text in texts for turn in text.turns if turn.position.mover == text.seats[0]]
    moves, blunders = describe_turns(game, own)
    return ModelGames(**score.to_record(), moves=moves, blunders=blunders)


def _by_pairs(values: Sequence[float]) -> NDArray[Any]:
    """Return values of games as an array of shape [2, P], a column for each pair."""
    return np.array(values).reshape(-1, 2).T


def _count_forfeits(texts: Sequence[TextGame]) -> Forfeits:
    """Return the games that the model and its opponent forfeited."""
    ends = [text.turns[-1] for text in texts if text.turns[-1].action < 0]
    if not ends:
        return Forfeits()
    num_lost = sum(turn.by == "answer" for turn in ends)
    problems = ends[0].problems
    reason = problems[-1].message if problems else "it has given up"
    return Forfeits(num_lost, len(ends) - num_lost, reason)


# --------------------------------------------------------------------------------------------------
# Positions


def describe_positions(
    game: Game, boards: Boards, turns: Sequence[Turn], pure: bool
) -> ModelPositions:
    """Return the results of a model's turns in the reachable positions.

    Exact strength is included if the model is ``pure``: it answers a question always alike, so that
    it is a policy, which makes a random move where it names none.
    """
    actions = named_cells(turns)
    moves, blunders = describe_turns(game, turns)
    return ModelPositions(
        positions=len(turns),
        without_move=int((actions < 0).sum()),
        moves=moves,
        blunders=blunders,
        exact=_exact_result(game, boards, actions) if pure else None,
    )


def _exact_result(game: Game, boards: Boards, actions: Int64Array) -> ExactResult:
    """Return the exact strength of the policy with these moves, -1 for a random one."""
    rows = np.flatnonzero(actions >= 0)
    logits = np.zeros(boards.cells.shape)
    logits[rows, actions[rows]] = CERTAIN
    policy = SoftmaxTable(PositionIndex(game, boards), logits)
    exact = strength(game, policy, EXACT_OPPONENTS)
    gains = dict(zip(("first", "second"), exact.gains or (), strict=True))
    results = {opponent: result._asdict() for opponent, result in exact.results.items()}
    return ExactResult(**exact.measures, gains=gains, results=results)
