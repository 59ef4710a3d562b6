"""A language model as a player: games against an opponent, and turns in single positions, held as conversations.

Each turn is a conversation of its own, which begins with the rules and the position. So a turn is a function of the
position alone for a model without temperature, and games, positions and exact results are of one and the same player.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ttt_envs.game.boards import MAX_CELLS_BASE_3, Boards
from ttt_envs.game.game import Game
from ttt_envs.graph.layers import all_positions
from ttt_envs.text import SELF, TextGame, make_presentation, present
from ttt_envs.text.text_game import TextGameConfig
from ttt_eval.exact.estimate import boards_by_stones
from ttt_eval.language_models.asking import Answers, Ask, Sampling

MAX_POSITIONS = 200_000
"""Maximum number of positions that a model is asked about."""
MAX_QUOTED_LENGTH = 4_000
"""Maximum number of characters of an illegal answer that are shown to the model again: the last ones."""


def make_games(settings: TextGameConfig, games: int) -> list[TextGame]:
    """Return games against the opponent of the settings, all in the presentation of their seed.

    Games 2 i and 2 i + 1 are pair i: both have the skips and the opponent's random numbers of the seed
    ``settings.seed + i``, as ``ttt/MNK-v0`` has them, and the model moves first in the former.
    """
    shared, seed = _shared(settings), settings.seed
    return [TextGame(**shared | {"seat": number % 2, "seed": seed + number // 2}) for number in range(games)]


def make_turns(settings: TextGameConfig, boards: Boards) -> list[TextGame]:
    """Return a game that begins in each position."""
    shared, rows = _shared(settings) | {"opponent": SELF}, range(len(boards.mover))
    return [TextGame(**shared | {"start": boards.position(row)}) for row in rows]


def _shared(settings: TextGameConfig) -> dict[str, Any]:
    return vars(settings) | {"presentation": make_presentation(settings.presentation, settings.game, settings.seed)}


@dataclass
class Conversation:
    """A game that a model plays."""

    text: TextGame
    sample: int
    """number of the sample of its requests"""
    refused: tuple[str, ...] = ()
    """answers of the current turn, which were no legal moves"""

    def messages(self) -> list[dict[str, str]]:
        """Return the messages of the current turn: the prompt, and each refused answer with the reason."""
        text = self.text
        messages = [{"role": "user", "content": present(text.game, text.position, text.presentation)}]
        for answer, problem in zip(self.refused, text.problems, strict=True):
            messages.append({"role": "assistant", "content": answer[-MAX_QUOTED_LENGTH:]})
            messages.append({"role": "user", "content": f"{problem.message} Answer with a legal move."})
        return messages

    def answer(self, text: str) -> None:
        """Take the answer to the messages."""
        self.text.step(text)
        self.refused = (*self.refused, text) if self.text.problems else ()


@dataclass
class Interview:
    """Holds conversations: looks up the answers to their requests, and asks for those that are missing."""

    sampling: Sampling
    answers: Answers
    ask: Ask | None = None
    """None asks nobody: conversations whose answers are missing end early"""
    progress: Callable[[int, int], object] = lambda done, total: None
    """called with the number of requests answered now, and of those known to be needed"""
    used: set[str] = field(default_factory=set)
    """ids of the requests of the conversations that have an answer"""
    new: set[str] = field(default_factory=set)
    """ids of the requests that were answered now"""
    missing: dict[str, dict[str, Any]] = field(default_factory=dict)
    """requests without an answer, by id"""

    def hold(self, texts: Sequence[TextGame], *, single: bool = False) -> None:
        """Play games to their end, or to a missing answer.

        All requests of a round that have no answer yet are sent together.

        Args:
            texts: the games, each of which has samples of its own number.
            single: whether a game ends after one turn; then all have the same sample.

        Raises:
            ValueError: a request has failed for good, or an answer cannot be stored.
        """
        active = [Conversation(text, 0 if single else number) for number, text in enumerate(texts)]
        while active := [each for each in active if not each.text.over and not (single and each.text.turns)]:
            requests = [self.sampling.request(each.messages(), each.sample) for each in active]
            missing = {key: body for key, body in requests if key not in self.answers}
            for key, answer in self.ask(missing) if self.ask is not None else ():
                self.answers.add(key, answer)
                self.new.add(key)
                self.progress(len(self.new), len(self.new | missing.keys()))
            self.missing |= {key: body for key, body in missing.items() if key not in self.answers}
            answered = [(key, each) for (key, _), each in zip(requests, active, strict=True) if key in self.answers]
            for key, each in answered:
                self.used.add(key)
                each.answer(self.answers[key].text)
            active = [each for _, each in answered]


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
