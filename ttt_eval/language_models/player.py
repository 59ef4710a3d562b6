"""A language model as a player: games against an opponent, turns in single positions, and the policy of all answers.

Each turn is a conversation of its own, which begins with the rules and the position. So a turn is a function of the
position alone for a model without temperature, and games, positions and exact results are of one and the same player.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from baselines.softmax_table import PositionIndex, SoftmaxTable
from ttt_envs.agents.policy import Policy
from ttt_envs.core.jit import Int64Array
from ttt_envs.game.boards import MAX_CELLS_BASE_3, Boards
from ttt_envs.game.game import Game
from ttt_envs.graph.layers import all_positions
from ttt_envs.text import Presentation, TextGame, make_presentation, present
from ttt_envs.text.text_game import SELF, Illegal
from ttt_eval.exact.estimate import boards_by_stones
from ttt_eval.language_models.asking import Answers, Ask, Question, Sampling

MAX_POSITIONS = 200_000
"""Maximum number of positions that a model is asked about."""
CERTAIN = 1e3
"""Logit beside which a move of logit 0 has the probability exp(-1000), which is 0 in float64."""
MAX_QUOTED_LENGTH = 4_000
"""Maximum number of characters of an illegal answer that are shown to the model again: the last ones."""


@dataclass(frozen=True)
class TextSettings:
    """The game as a model sees it.

    Raises:
        ValueError: a presentation that the game does not have, or another consequence of illegal answers.
    """

    game: Game
    presentation: str = "grid"
    illegal: Illegal = "ask"
    """what follows an illegal answer, as in :class:`ttt_envs.text.TextGame`"""
    seed: int = 0
    """of the presentation ``"shuffled"``, and of games"""

    def __post_init__(self) -> None:
        self.make_conversations("random", 1)

    def make_presentation(self) -> Presentation:
        """Return the presentation, the same in all games."""
        return make_presentation(self.presentation, self.game, self.seed)

    def make_conversations(self, opponent: str | Policy, games: int) -> list[Conversation]:
        """Return games against an opponent.

        Games 2 i and 2 i + 1 are pair i: both have the skips and the opponent's random numbers of the seed
        ``seed + i``, as ``ttt/MNK-v0`` has them, and the model moves first in the former.
        """
        shared: dict[str, Any] = {
            "opponent": opponent,
            "presentation": self.make_presentation(),
            "illegal": self.illegal,
        }
        return [
            Conversation(TextGame(self.game, seat=number % 2, seed=self.seed + number // 2, **shared), number)
            for number in range(games)
        ]

    def make_turns(self, boards: Boards) -> list[Conversation]:
        """Return conversations of one turn in each position."""
        shared: dict[str, Any] = {"opponent": SELF, "presentation": self.make_presentation(), "illegal": self.illegal}
        positions = map(boards.position, range(len(boards.mover)))
        return [Conversation(TextGame(self.game, start=position, **shared), 0, 1) for position in positions]


@dataclass
class Conversation:
    """A game that a model plays, with the messages of the current turn."""

    text: TextGame
    sample: int
    """number of its questions' samples"""
    max_turns: int | None = None
    """number of turns after which it ends; None for a whole game"""
    messages: tuple[dict[str, str], ...] = ()

    @property
    def over(self) -> bool:
        """Whether there is nothing to ask any more."""
        return self.text.over or len(self.text.turns) == self.max_turns

    def question(self) -> Question:
        """Return the question of the current turn, with its earlier answers that were no legal moves."""
        if not self.messages:
            prompt = present(self.text.game, self.text.position, self.text.presentation)
            self.messages = ({"role": "user", "content": prompt},)
        return Question(self.messages, self.sample)

    def answer(self, text: str) -> None:
        """Take the answer to the current question."""
        turns, problem = len(self.text.turns), self.text.step(text)
        if problem is None or len(self.text.turns) > turns:
            self.messages = ()
        else:
            quoted = {"role": "assistant", "content": text[-MAX_QUOTED_LENGTH:]}
            self.messages += (quoted, {"role": "user", "content": f"{problem.message} Answer with a legal move."})


@dataclass
class Interview:
    """Holds conversations: looks up the answers to their questions, and asks for those that are missing."""

    sampling: Sampling
    answers: Answers
    ask: Ask | None = None
    """None asks nobody: conversations whose answers are missing end early"""
    progress: Callable[[int, int], object] = lambda done, total: None
    """called with the number of answers used, and of those known to be needed"""
    used: set[str] = field(default_factory=set)
    """ids of the questions of the conversations that have an answer"""
    new: set[str] = field(default_factory=set)
    """ids of the questions that were asked now"""
    missing: dict[str, Question] = field(default_factory=dict)
    """questions without an answer, by id"""

    def hold(self, conversations: Iterable[Conversation]) -> list[TextGame]:
        """Hold conversations to their end, or to a missing answer, and return their games.

        Conversations go on in rounds: all questions of a round that have no answer yet are asked together.

        Raises:
            ValueError: a request has failed for good, or an answer cannot be stored.
        """
        active = everyone = list(conversations)
        while active := [each for each in active if not each.over]:
            questions = [each.question() for each in active]
            names = list(map(self.sampling.key, questions))
            missing = {key: each for key, each in zip(names, questions, strict=True) if key not in self.answers}
            for key, answer in self.ask(missing) if self.ask is not None else ():
                self.answers.add(key, answer)
                self.new.add(key)
                self.progress(len(self.used | self.new), len(self.used | self.new | missing.keys()))
            self.missing |= {key: question for key, question in missing.items() if key not in self.answers}
            answered = [(key, each) for key, each in zip(names, active, strict=True) if key in self.answers]
            self.used |= {key for key, _ in answered}
            for key, each in answered:
                each.answer(self.answers[key].text)
            active = [each for _, each in answered]
        return [each.text for each in everyone]


def reachable_positions(game: Game) -> Boards:
    """Return all positions with a move, also those that only skips reach.

    Raises:
        ValueError: more than :data:`MAX_POSITIONS`.
    """
    if game.cells < MAX_CELLS_BASE_3 and sum(boards_by_stones(game)) <= 2 * MAX_POSITIONS:
        boards = all_positions(game)
        if len(boards.mover) <= MAX_POSITIONS:
            return boards
    raise ValueError(
        f"{game} has too many positions for a question about each, more than {MAX_POSITIONS:,}: take a smaller board"
    )


def answered_policy(game: Game, boards: Boards, actions: Int64Array) -> SoftmaxTable:
    """Return the policy of answers in all positions: the moves that were named, a random one where none was.

    Args:
        game: the game.
        boards: the positions.
        actions: int64[N]: the cell that was named in each, or -1.
    """
    logits = np.zeros(boards.cells.shape)
    named = np.flatnonzero(actions >= 0)
    logits[named, actions[named]] = CERTAIN
    return SoftmaxTable(PositionIndex(game, boards), logits)
