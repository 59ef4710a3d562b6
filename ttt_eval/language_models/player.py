"""A language model as a player: the turn of a position, games against an opponent, and the policy on all positions.

Each turn is a conversation of its own, which begins with the rules and the position. So a turn is a function of the
position alone for a model without temperature, and games, positions and exact results are of one and the same player.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, get_args

import numpy as np

from baselines.softmax_table import PositionIndex, SoftmaxTable
from ttt_envs.agents.policy import Policy
from ttt_envs.core.checks import check_choice
from ttt_envs.core.jit import Int64Array
from ttt_envs.game.boards import MAX_CELLS_BASE_3, Boards
from ttt_envs.game.game import Game, Position
from ttt_envs.graph.layers import all_positions
from ttt_envs.text import Presentation, Problem, TextGame, make_presentation, parse_answer, present
from ttt_envs.text.text_game import Illegal
from ttt_eval.exact.estimate import boards_by_stones
from ttt_eval.language_models.asking import Answers, Ask, Question, Result, Sampling, Task

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
        self.make_presentation()

    def make_presentation(self) -> Presentation:
        """Return the presentation, the same in all games."""
        return make_presentation(self.presentation, self.game, self.seed)


@dataclass
class Interview:
    """Runs tasks: looks up the answers to their questions, and asks for those that are missing."""

    sampling: Sampling
    answers: Answers
    ask: Ask | None = None
    """None asks nobody: tasks whose answers are missing end without a result"""
    progress: Callable[[int, int], object] = lambda done, total: None
    """called with the number of answers used, and of those known to be needed"""
    used: set[str] = field(default_factory=set)
    """ids of the questions of the tasks that have an answer"""
    new: set[str] = field(default_factory=set)
    """ids of the questions that were asked now"""
    missing: dict[str, Question] = field(default_factory=dict)
    """questions without an answer, by id"""

    def run(self, tasks: Iterable[Task[Result]]) -> dict[int, Result]:
        """Return the results of tasks by their number.

        Raises:
            ValueError: a request has failed for good, or an answer cannot be stored.
        """
        results: dict[int, Result] = {}
        active: list[tuple[int, Task[Result], Any]] = [(number, task, None) for number, task in enumerate(tasks)]
        while active:
            waiting: list[tuple[str, int, Task[Result]]] = []
            missing: dict[str, Question] = {}
            for number, task, text in active:
                try:
                    question = task.send(text)
                except StopIteration as end:
                    results[number] = end.value
                else:
                    key = self.sampling.key(question)
                    waiting.append((key, number, task))
                    missing |= {} if key in self.answers else {key: question}
            for key, answer in self.ask(missing) if self.ask is not None else ():
                self.answers.add(key, answer)
                self.new.add(key)
                self.progress(len(self.used | self.new), len(self.used | self.new | missing.keys()))
            self.missing |= {key: question for key, question in missing.items() if key not in self.answers}
            answered = [row for row in waiting if row[0] in self.answers]
            self.used |= {key for key, *_ in answered}
            active = [(number, task, self.answers[key].text) for key, number, task in answered]
        return results


class ModelTurn(NamedTuple):
    """The answers in a position."""

    position: Position
    action: int
    """the cell that was named, -1 if the last answer is no legal move"""
    problems: tuple[Problem, ...]
    """of the answers that are no legal moves"""
    answers: tuple[str, ...] = ()


def turn_task(settings: TextSettings, presentation: Presentation, position: Position, sample: int) -> Task[ModelTurn]:
    """Ask for the move in a position, again after illegal answers if the settings say so."""
    prompt = present(settings.game, position, presentation, show_legal=settings.show_legal)
    messages = [{"role": "user", "content": prompt}]
    answers: list[str] = []
    problems: list[Problem] = []
    for _ in range(1 + settings.max_asks * (settings.illegal == "ask")):
        answers.append((yield Question(tuple(messages), sample)))
        move = parse_answer(answers[-1], presentation, position)
        if not isinstance(move, Problem):
            return ModelTurn(position, move, tuple(problems), tuple(answers))
        problems.append(move)
        messages.append({"role": "assistant", "content": answers[-1][-MAX_QUOTED_LENGTH:]})
        messages.append({"role": "user", "content": f"{move.message} Answer with a legal move."})
    return ModelTurn(position, -1, tuple(problems), tuple(answers))


def game_tasks(settings: TextSettings, opponent: str | Policy, games: int) -> Iterator[Task[TextGame]]:
    """Yield tasks that play a game each against an opponent.

    Games 2 i and 2 i + 1 are pair i: both have the skips and the opponent's random numbers of the seed
    ``settings.seed + i``, as ``ttt/MNK-v0`` has them, and the model moves first in the former.
    """
    presentation = settings.make_presentation()

    def play(number: int) -> Task[TextGame]:
        text = TextGame(
            settings.game, opponent=opponent, seat=number % 2, presentation=presentation, illegal=settings.illegal,
            max_asks=settings.max_asks, show_legal=settings.show_legal, seed=settings.seed + number // 2,
        )  # fmt: skip
        while not text.over:
            turn = yield from turn_task(settings, presentation, text.position, number)
            for answer in turn.answers:
                text.step(answer)
        return text

    return map(play, range(games))


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


def position_tasks(settings: TextSettings, boards: Boards) -> Iterator[Task[ModelTurn]]:
    """Yield the tasks of positions: one turn in each."""
    presentation = settings.make_presentation()
    return (turn_task(settings, presentation, boards.position(row), 0) for row in range(len(boards.mover)))


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
