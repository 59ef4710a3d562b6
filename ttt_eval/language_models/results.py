"""Results of a model: the score of its games without luck, regret by ply, illegal answers,
blunders, exact strength.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from msgspec import UNSET, Struct, UnsetType, field
from numpy.typing import NDArray

from baselines.exact import MAX_SOLVER_CELLS, solve
from ttt_envs.agents.policy import VALUE_TOLERANCE, Policy, normalise
from ttt_envs.agents.softmax_table import PositionIndex
from ttt_envs.agents.specs import make_policy
from ttt_envs.core.checks import Refusal
from ttt_envs.core.hash_index import distinct_rows
from ttt_envs.core.jit import Float64Array, Int64Array
from ttt_envs.game.boards import Boards, position_words, to_text
from ttt_envs.game.game import Game
from ttt_envs.graph.estimate import boards_by_stones
from ttt_envs.graph.layers import all_positions
from ttt_envs.text import SELF, TextGame, Turn, make_presentation, present
from ttt_envs.text.text_game import TextGameConfig
from ttt_eval.exact.dynamic_programming import played_losses
from ttt_eval.exact.strength import PolicyChoice, strength
from ttt_eval.language_models.asking import Answer, Interview
from ttt_eval.language_models.credit import turn_credits
from ttt_eval.matches.luck import OFF, make_correction
from ttt_eval.matches.results import ChosenMoves, PlayedResult
from ttt_eval.matches.score import Forfeits, Score, StoredScore
from ttt_eval.store.metrics import Losses
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


class ExactResult(Losses, kw_only=True):
    """Exact strength of a model that answers a question always alike."""

    without_move: str = "moves at random"
    """what happens where it names no legal move"""
    exploitability: float  # it is always known
    gains: dict[str, float] | UnsetType = UNSET
    """of a best response, by its seat"""
    results: dict[str, dict[str, float]]
    """shares of wins, draws and losses by opponent"""


class ModelGames(StoredScore, kw_only=True):
    """Results of the games of a model."""

    scores: list[float] | UnsetType = UNSET
    """of each pair, by seed, without luck where it is corrected"""
    different: int | UnsetType = UNSET
    """number of games that differ in a move or a skip"""
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
    answers: dict[str, int | str] | UnsetType = UNSET
    """by position: the cell that it names, or the kind of its last illegal answer"""
    moves: MoveCounts
    blunders: list[Blunder]
    exact: ExactResult | None = None


class TokenUsage(Struct):
    """Numbers of answers and of their tokens."""

    answers: int
    prompt_tokens: int
    completion_tokens: int
    truncated: int
    refused: int = 0
    """number of those prompts that the endpoint or the model refused"""
    refusal: str = ""
    """one of the reasons"""


class LanguageModelResult(PlayedResult, tag="language-model", kw_only=True):
    """A language model as a player."""

    model: Spec
    temperature: float
    max_tokens: int
    fields: Data = field(default_factory=dict)
    """further fields of requests"""
    opponent: Spec
    presentation: str
    tag: str | None = None
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
        ValueError: too many positions, a request that has failed for good, or no answered prompt.
    """
    game = settings.game
    sampling = interview.sampling
    boards, texts, answers = _hold_all(interview, settings, games, positions)
    if interview.missing:
        return None
    usage = count_tokens(interview.answers[key] for key in interview.requests)
    if 0 < usage.answers == usage.refused:
        raise Refusal(
            f"no prompt was answered ({usage.refusal}): correct --model or --fields, or name a new "
            "--tag if the endpoint has changed"
        )
    return LanguageModelResult(
        **{**vars(sampling), "seed": settings.seed},
        game=game,
        opponent=str(settings.opponent),
        presentation=str(settings.presentation),
        illegal=str(settings.illegal),
        luck_correction=luck_correction,
        games=describe_games(settings, texts, luck_correction) if games else None,
        positions=describe_positions(settings, boards, answers, sampling.deterministic)
        if positions
        else None,
        usage=usage,
        new=count_tokens(interview.answers[key] for key in interview.new),
    )


def _hold_all(
    interview: Interview, settings: TextGameConfig, games: int, positions: bool
) -> tuple[Boards, list[TextGame], list[TextGame]]:
    """Hold all conversations; return the positions that the model is asked about, the games, and a
    game from each position.
    """
    game = settings.game
    # of all games, whose seeds differ
    form = make_presentation(settings.presentation, game, settings.seed)
    settings = replace(settings, presentation=form)
    boards = reachable_positions(game) if positions else Boards.start(game, 0)
    texts = make_games(settings, games)
    answers = [
        TextGame(**vars(settings) | {"opponent": SELF, "start": boards.position(row)})
        for row in range(len(boards.mover))
    ]
    interview.hold(texts)
    interview.hold(answers, single=True)
    return boards, texts, answers


def estimate_usage(
    interview: Interview, settings: TextGameConfig, games: int, positions: bool
) -> dict[str, int]:
    """Return how many ``prompts`` an evaluation requests beside the stored answers of an interview
    that asks nobody, about how many ``prompt_tokens``, and at most how many ``completion_tokens``.

    Further illegal answers are not counted. The players of a game place a stone on each empty cell
    at most, in turns, with skips on average. Without temperature the positions contain the prompts
    of games.
    """
    _, texts, answers = _hold_all(interview, settings, games, positions)
    sampling = interview.sampling
    prompts = sum(not text.turns for text in answers)
    if not (positions and sampling.deterministic):
        empty = [np.sum(text.position.cells == 0) for text in texts if not text.over]
        prompts += sum((int(cells) + 1) // 2 for cells in empty)
    start = Boards.start(settings.game).position(0)
    prompt = present(settings.game, start, settings.presentation, seed=settings.seed)
    tokens = prompts * len(prompt.encode()) // BYTES_PER_TOKEN
    return {
        "prompts": prompts,
        "prompt_tokens": tokens,
        "completion_tokens": prompts * sampling.max_tokens,
    }


def count_tokens(answers: Iterable[Answer]) -> TokenUsage:
    """Return sums over answers."""
    counted = list(answers)
    refusals = [answer.refusal for answer in counted if answer.refusal]
    return TokenUsage(
        answers=len(counted),
        prompt_tokens=sum(answer.prompt_tokens for answer in counted),
        completion_tokens=sum(answer.completion_tokens for answer in counted),
        truncated=sum(answer.truncated for answer in counted),
        refused=len(refusals),
        refusal=min(refusals, default=""),
    )


# --------------------------------------------------------------------------------------------------
# What a model is asked


def make_games(settings: TextGameConfig, games: int) -> list[TextGame]:
    """Return games against the opponent of the settings.

    Games 2 i and 2 i + 1 are pair i: both have the skips and the opponent's random numbers of the
    seed ``settings.seed + i``, as ``ttt/MNK-v0`` has them, and the model moves first in the former.
    """
    return [
        TextGame(**vars(settings) | {"seat": number % 2, "seed": settings.seed + number // 2})
        for number in range(games)
    ]


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
    """Return the numbers of moves of turns, and the positions with the highest total loss of value,
    the worst first; losses are known where the game is solved.
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
    first, number = distinct_rows(position_words(boards))
    totals = np.bincount(number, losses, minlength=len(first))
    blunders = []
    for position in np.lexsort([first, -totals])[:MAX_BLUNDERS]:
        if totals[position] > VALUE_TOLERANCE:
            moves = np.bincount(actions[rows][number == position], minlength=game.cells)
            row = first[position]
            times = int(moves.sum())
            choice = PolicyChoice(boards.position(row), moves / times, None, values[row])
            blunders.append(Blunder(**choice.to_dict(game), times=times))
    return counts, blunders


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
    results = _by_pairs([text.outcome.result_index(text.seats[0]) for text in texts])
    luck = None
    correction = make_correction(luck_correction, game)
    if correction is not None:
        expected = correction.expected_values(make_policy(settings.opponent, game))
        credits = [turn_credits(text.turns, text.seats[0], correction, expected) for text in texts]
        luck = _by_pairs([sum(credit.luck for credit in turns) for turns in credits])
    score = Score.from_games(results, luck, forfeits=_count_forfeits(texts))
    half_points = results if luck is None else results + luck
    scores = (1 - half_points.mean(axis=0) / 2).tolist()
    own = [turn for text in texts for turn in text.turns if turn.position.mover == text.seats[0]]
    moves, blunders = describe_turns(game, own)
    courses = {
        (*text.seats, *((turn.position.mover, turn.action) for turn in text.turns))
        for text in texts
    }
    return ModelGames(
        **score.to_record(),
        scores=scores,
        different=len(courses),
        moves=moves,
        blunders=blunders,
    )


def _by_pairs(values: Sequence[float]) -> NDArray[Any]:
    """Return values of games as an array of shape [2, P], a column for each pair."""
    return np.array(values).reshape(-1, 2).T


def _count_forfeits(texts: Sequence[TextGame]) -> Forfeits:
    """Return the games that the model and its opponent forfeited."""
    ends = [text.turns[-1] for text in texts if text.turns[-1].action < 0]
    num_lost = sum(turn.by == "answer" for turn in ends)
    reasons = [turn.problems[-1].message if turn.problems else "it has given up" for turn in ends]
    return Forfeits(num_lost, len(ends) - num_lost, *reasons[:1])


# --------------------------------------------------------------------------------------------------
# Positions


def describe_positions(
    settings: TextGameConfig, boards: Boards, texts: Sequence[TextGame], pure: bool
) -> ModelPositions:
    """Return the results of a model's first turns in the reachable positions.

    Exact strength is included if the model is ``pure``: it answers a question always alike, so that
    it is a policy, which where it names no move loses, or makes a random one.
    """
    game = settings.game
    turns = [text.turns[0] for text in texts]
    actions = named_cells(turns)
    moves, blunders = describe_turns(game, turns)
    return ModelPositions(
        positions=len(turns),
        without_move=len(turns) - moves.moves,
        answers={
            to_text(turn.position, game): action if action >= 0 else turn.problems[-1].kind
            for turn, action in zip(turns, actions.tolist(), strict=True)
        },
        moves=moves,
        blunders=blunders,
        exact=_exact_result(settings, boards, actions) if pure else None,
    )


@dataclass(frozen=True)
class AnsweredMoves(Policy):
    """Plays by a table."""

    index: PositionIndex
    """of all positions that games can reach"""
    shares: Float64Array
    """float64[N, cells]: probabilities of moves; zeros lose the game"""

    def probabilities(self, boards: Boards, rng: np.random.Generator | None = None) -> Float64Array:
        """Return float64[B, cells]."""
        return self.shares[self.index.find(boards)]


def _exact_result(settings: TextGameConfig, boards: Boards, actions: Int64Array) -> ExactResult:
    """Return the exact strength of the policy with these moves, -1 where it loses, or makes a
    random one.
    """
    game = settings.game
    is_random = settings.illegal == "random"
    shares = np.eye(game.cells + 1)[actions, :-1]
    if is_random:
        shares = normalise(np.where(actions[:, None] < 0, boards.legal(game), shares))
    policy = AnsweredMoves(PositionIndex(game, boards), shares)
    exact = strength(game, policy, EXACT_OPPONENTS, masked=is_random)
    gains = dict(zip(("first", "second"), exact.gains or (), strict=True))
    results = {opponent: result._asdict() for opponent, result in exact.results.items()}
    return ExactResult(
        **exact.measures,
        gains=gains,
        results=results,
        without_move="moves at random" if is_random else "loses",
    )
