"""A language model as a player: the turn of a position, games against an opponent, and the policy on all positions.

Each turn is a conversation of its own, which begins with the rules and the position. So a turn is a function of the
position alone for a model without temperature, and games, positions and exact results are of one and the same player.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple, get_args

import numpy as np

from ttt_envs.agents.policy import Policy
from ttt_envs.agents.specs import make_policy
from ttt_envs.core.checks import check_choice
from ttt_envs.core.hash_index import find_sorted
from ttt_envs.core.jit import Float64Array, Int64Array
from ttt_envs.game.boards import MAX_CELLS_BASE_3, Boards, position_keys, to_text
from ttt_envs.game.game import Game, Position
from ttt_envs.graph.layers import all_positions
from ttt_envs.text import Presentation, Problem, TextGame, make_presentation, parse_answer, present
from ttt_envs.text.text_game import Illegal
from ttt_eval.exact.estimate import boards_by_stones
from ttt_eval.language_models.endpoint import Message, Question
from ttt_eval.language_models.scheduler import Task

MAX_POSITIONS = 200_000
"""Maximum number of positions that a model is asked about."""
MAX_QUOTED_LENGTH = 4_000
"""Maximum number of characters of an illegal answer that are shown to the model again: the last ones."""


@dataclass(frozen=True)
class TextSettings:
    """The game as a model sees it.

    Raises:
        ValueError: an invalid number of questions, or a presentation that the game does not have.
    """

    game: Game
    presentation: str = "grid"
    illegal: Illegal = "ask"
    """what follows an illegal answer, as in :class:`ttt_envs.text.TextGame`"""
    max_asks: int = 3
    """number of further questions in one turn, with ``"ask"``"""
    show_legal: bool = True
    """whether prompts list the legal moves"""
    seed: int = 0
    """of the presentation ``"shuffled"``, and of games"""

    def __post_init__(self) -> None:
        check_choice("illegal", self.illegal, get_args(Illegal))
        if not 0 <= self.max_asks <= 100:
            raise ValueError(f"max_asks={self.max_asks} is no number of questions: choose from 0 to 100")
        self.make_presentation()

    def make_presentation(self) -> Presentation:
        """Return the presentation, the same in all games."""
        return make_presentation(self.presentation, self.game, self.seed)


class ModelTurn(NamedTuple):
    """The answers of one turn."""

    answers: tuple[str, ...]
    action: int
    """the cell of the last answer, -1 if it is no legal move"""
    problems: tuple[Problem, ...]
    """of the answers that are no legal moves"""


def turn_task(settings: TextSettings, presentation: Presentation, position: Position, sample: int) -> Task[ModelTurn]:
    """Ask for the move in a position, again after illegal answers if the settings say so."""
    prompt = present(settings.game, position, presentation, show_legal=settings.show_legal)
    messages: list[Message] = [{"role": "user", "content": prompt}]
    answers: list[str] = []
    problems: list[Problem] = []
    for _ in range(1 + settings.max_asks * (settings.illegal == "ask")):
        answer = yield Question(tuple(messages), sample)
        answers.append(answer)
        found = parse_answer(answer, presentation, position)
        if not isinstance(found, Problem):
            return ModelTurn(tuple(answers), found, tuple(problems))
        problems.append(found)
        messages.append({"role": "assistant", "content": answer[-MAX_QUOTED_LENGTH:]})
        messages.append({"role": "user", "content": f"{found.message} Answer with a legal move."})
    return ModelTurn(tuple(answers), -1, tuple(problems))


# ---------------------------------------------------------------------------------------------------------------------
# Games


def play_game(settings: TextSettings, presentation: Presentation, opponent: Policy, number: int) -> Task[TextGame]:
    """Play a game; return it when it is over.

    Games 2 i and 2 i + 1 are pair i: both have the skips and the opponent's random numbers of the seed
    ``settings.seed + i``, as ``ttt/MNK-v0`` has them, and the model moves first in the former.
    """
    pair, seat = divmod(number, 2)
    text = TextGame(
        settings.game,
        opponent=opponent,
        seat=seat,
        presentation=presentation,
        illegal=settings.illegal,
        max_asks=settings.max_asks,
        show_legal=settings.show_legal,
        seed=settings.seed + pair,
    )
    while not text.over:
        turn = yield from turn_task(settings, presentation, text.position, number)
        for answer in turn.answers:
            text.step(answer)
    return text


def game_tasks(settings: TextSettings, opponent: str | Policy, games: int) -> Iterator[Task[TextGame]]:
    """Yield the tasks of games against an opponent, see :func:`play_game`."""
    presentation, policy = settings.make_presentation(), make_policy(opponent, settings.game)
    return (play_game(settings, presentation, policy, number) for number in range(games))


# ---------------------------------------------------------------------------------------------------------------------
# Positions


def reachable_positions(game: Game) -> Boards:
    """Return all positions that are not over and that some players can reach, in order of stones.

    Raises:
        ValueError: more than :data:`MAX_POSITIONS`.
    """
    if sum(boards_by_stones(game)) > 2 * MAX_POSITIONS or game.cells >= MAX_CELLS_BASE_3:
        raise ValueError(
            f"{game} has too many positions for a question about each, more than {MAX_POSITIONS:,}: take a smaller "
            f"board"
        )
    boards = all_positions(game)
    if len(boards.mover) > MAX_POSITIONS:
        raise ValueError(f"{game} has {len(boards.mover):,} positions, and at most {MAX_POSITIONS:,} are asked about")
    return boards


def position_tasks(settings: TextSettings, boards: Boards) -> Iterator[Task[ModelTurn]]:
    """Yield the tasks of positions: one turn in each."""
    presentation = settings.make_presentation()
    return (turn_task(settings, presentation, boards.position(row), 0) for row in range(len(boards.mover)))


class AnsweredPolicy(Policy):
    """The policy of answers to all positions: the named moves; a random legal move where there is none.

    Args:
        game: the game.
        name: shown in messages.
        boards: the positions.
        turns: by row of ``boards``, the answers.
    """

    def __init__(self, game: Game, name: str, boards: Boards, turns: Mapping[int, ModelTurn]) -> None:
        self._game, self._name = game, name
        rows = np.array(sorted(turns), np.int64)
        found = position_keys(boards.take(rows))
        order = np.argsort(found)
        self._keys = found[order]
        self._actions: Int64Array = np.array([turns[row].action for row in rows.tolist()], np.int64)[order]

    def probabilities(self, boards: Boards, rng: np.random.Generator | None = None) -> Float64Array:
        """Return float64[B, cells]: the named moves, uniform where there is none.

        Raises:
            ValueError: a position without an answer.
        """
        rows = find_sorted(self._keys, position_keys(boards))
        missing = np.flatnonzero(rows < 0)
        if len(missing):
            position = to_text(boards.position(int(missing[0])), self._game)
            raise ValueError(f"{self._name} has not been asked about {position!r}")
        actions = self._actions[rows]
        legal = boards.legal(self._game).astype(np.float64)
        shares: Float64Array = legal / legal.sum(axis=1, keepdims=True)
        named = np.flatnonzero(actions >= 0)
        shares[named] = 0.0
        shares[named, actions[named]] = 1.0
        return shares

    def __str__(self) -> str:
        return self._name
