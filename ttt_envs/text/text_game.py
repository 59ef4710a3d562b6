"""A game in text: prompts for the player to move, answers parsed into moves, remarks on what has
happened.

Skips and the opponent's moves are those of ``ttt/MNK-v0`` with the same seed: the same moves give
the same game.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Literal, NamedTuple, get_args

import numpy as np

from ttt_envs.agents.policy import Forfeit, Policy
from ttt_envs.agents.specs import make_policy
from ttt_envs.core.checks import Refusal, TypeRefusal, check_choice, check_range
from ttt_envs.core.random import draw_key, splitmix64, uniform
from ttt_envs.envs.config import SELF as SELF
from ttt_envs.envs.config import environment, takes
from ttt_envs.game.boards import Boards, check_opening
from ttt_envs.game.game import Game, Position
from ttt_envs.game.phantom import AnyGame
from ttt_envs.game.rules import (
    ILLEGAL,
    NOT_OVER,
    STREAM_OPPONENT,
    Outcome,
    mover_after,
    nth_legal_cell,
    place,
)
from ttt_envs.text.answers import Problem, parse_answer
from ttt_envs.text.presentations import Presentation, make_presentation

Illegal = Literal["ask", "lose", "random"]
By = Literal["answer", "random", "opponent"]
MAX_ASKS = 3
"""Default number of further questions in one turn after answers that are no legal moves."""

_OWN_RESULTS = {1: "You have won.", 0: "The game is a draw.", -1: "You have lost."}


class Turn(NamedTuple):
    """One turn of a game."""

    position: Position
    """before the move"""
    action: int
    """the cell, -1 if the mover has forfeited the game, or its answer was refused"""
    next_position: Position
    """after the move and the chance event; the mover of a finished game is the player who moved
    last
    """
    outcome: Outcome
    """of the game: NOT_OVER, or how it ended"""
    by: By
    """the origin of the move: an answer, a random move in its place, or the opponent"""
    problems: tuple[Problem, ...] = ()
    """reasons why answers of this turn were no legal moves"""

    @property
    def skip(self) -> bool:
        """Whether the turn of the other player was skipped after this one."""
        return self.outcome == NOT_OVER and self.next_position.mover == self.position.mover


Reward = Callable[[Sequence[Turn], int], float]
"""reward of the turns since the previous answer, of both players, for the player of a seat"""


def result_reward(turns: Sequence[Turn], seat: int) -> float:
    """Return the result after the turns: 1 if the player of the seat has won, -1 if it has lost,
    else 0.
    """
    return 1.0 - turns[-1].outcome.result_index(seat) if turns else 0.0


@dataclass(frozen=True, kw_only=True)
class TextOptions:
    """Options of text games.

    Args:
        opponent: a spec string such as 'optimal', a policy, or 'self': the caller answers for both
            players.
        presentation: see ttt_envs.text.make_presentation; 'shuffled' permutes by seed + episode.
        illegal: what follows an answer that is no legal move: 'ask' again, up to max_asks times in
            one turn, after which the game is lost; 'lose' the game; or a 'random' legal move.
        max_asks: number of further questions in one turn, with 'ask'.
        show_legal: whether prompts list the legal moves.
    """

    opponent: str | Policy = "random"
    presentation: str | Presentation = "grid"
    illegal: Illegal = "ask"
    max_asks: int = MAX_ASKS
    show_legal: bool = True


@dataclass(frozen=True)
class TextGameConfig(TextOptions):
    """One text game.

    Args:
        game: the game.
        seat: the caller's seat, 0 moves first; of no effect with 'self'.
        seed: of skips, of the opponent, and of random moves, as in reset(seed=seed) of ttt/MNK-v0.
        episode: number of the game under that seed: 0, or the number of calls of reset() since
            then.
        start: position in which the game begins; the empty board by default.
    """

    game: Game
    _: KW_ONLY
    seat: int = 0
    seed: int = 0
    episode: int = 0
    start: Position | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.game, AnyGame):
            raise TypeRefusal(
                f"{self.game!r} is no game: write for example TextGame(Game(), opponent='random')"
            )
        check_choice("illegal", self.illegal, get_args(Illegal))
        check_choice("seat", self.seat, (0, 1))
        for name in ("max_asks", "seed", "episode"):
            check_range(name, getattr(self, name), 0, problem="is below 0")
        if self.start is not None:
            check_opening(self.game, self.start, "start")


@environment(TextGameConfig)
class TextGame:
    """One game between the caller, who answers prompts in one seat, and an opponent; or of a caller
    with both seats.

    Attributes:
        turns: list of :class:`Turn`, in order.
        outcome: NOT_OVER, or how the game ended.
        problems: reasons why answers of the current turn were no legal moves.

    Raises:
        TypeError, ValueError: an argument is invalid, or the start position is over or does not fit
            the game.
    """

    @takes(TextGameConfig)
    def __init__(self, config: TextGameConfig) -> None:
        self.config = config
        self.game = config.game
        self.opponent = (
            None if config.opponent == SELF else make_policy(config.opponent, config.game)
        )
        self.seats = (0, 1) if self.opponent is None else (config.seat,)
        self.presentation = make_presentation(
            config.presentation, config.game, config.seed + config.episode
        )
        self.turns: list[Turn] = []
        self.outcome = Outcome.NOT_OVER
        self.problems: tuple[Problem, ...] = ()
        self._position = config.start or Position(np.zeros(config.game.cells, np.int8), 0)
        self._episode_key = np.uint64(
            splitmix64(draw_key(np.random.default_rng(config.seed)), config.episode)
        )
        self._remarks: tuple[list[str], list[str]] = ([], [])
        self._has_answered = [False, False]
        self._reply()

    @property
    def over(self) -> bool:
        """Whether the game has ended; it may end before the first answer, by an opponent who moves
        first.
        """
        return self.outcome != NOT_OVER

    @property
    def position(self) -> Position:
        """The current position, copied: what is tried on it changes no game. Of a finished game
        with the last mover.
        """
        return Position(self._position.cells.copy(), self._position.mover)

    @property
    def mover(self) -> int:
        """The player to move, who is always one of ``seats`` while the game is in progress."""
        return int(self.position.mover)

    def legal_moves(self) -> list[str]:
        """Return the names of the legal moves; none when the game is over."""
        return [] if self.over else self.presentation.legal_names(self.position)

    def result(self, seat: int) -> int:
        """Return the result for the player of a seat: 1 win, 0 draw or not over, -1 loss; a forfeit
        is a loss.
        """
        return 1 - self.outcome.result_index(seat)

    def prompt(self, seat: int | None = None, rules: bool | None = None) -> str:
        """Return what a player reads: rules, remarks on what has happened since its last answer,
        position, question.

        Args:
            seat: the player; by default the player to move, or after the end the caller's first
                seat.
            rules: whether the rules come first; by default until the player's first answer. A model
                that sees each prompt without the earlier ones needs them always.
        """
        if seat is None:
            seat = self.seats[0] if self.over else self.mover
        if rules is None:
            rules = not self._has_answered[seat]
        parts = []
        if rules:
            parts.append(self.presentation.rules)
        if self._remarks[seat]:
            parts.append("\n".join(self._remarks[seat]))
        parts.append(self.presentation.describe(self.position, seat))
        if self.over:
            parts.append(f"The game is over. {_OWN_RESULTS[self.result(seat)]}")
        elif seat == self.mover:
            parts.append(self.presentation.question(self.position, self.config.show_legal))
        return "\n\n".join(parts)

    def step(self, answer: object) -> Problem | None:
        """Make the move that an answer of the player to move names, and let the opponent reply.

        Args:
            answer: as of :func:`ttt_envs.text.parse_answer`.

        Returns:
            None, or the problem of an answer that is no legal move, with the consequence chosen by
            ``illegal``; after a refused prompt there is no further question.

        Raises:
            RuntimeError: the game is over.
        """
        if self.over:
            raise RuntimeError("the game is over: make a new TextGame")
        seat = self.mover
        move = parse_answer(answer, self.presentation, self.position)
        self._has_answered[seat] = True
        self._remarks[seat].clear()
        if isinstance(move, Problem):
            self._refuse(move)
        else:
            self._move(move, "answer")
        self._reply()
        return move if isinstance(move, Problem) else None

    def _refuse(self, problem: Problem) -> None:
        """Draw the consequence of an answer that is no legal move."""
        seat = self.mover
        self.problems = (*self.problems, problem)
        chances = self.config.max_asks + 1 - len(self.problems)
        if self.config.illegal == "random":
            u = uniform(
                self._episode_key, STREAM_OPPONENT, int(np.count_nonzero(self.position.cells))
            )
            action = int(nth_legal_cell(self.position.cells, u, self.game.parameters))
            name = self.presentation.move_name(action)
            self._remarks[seat].append(f"{problem.message} A random move was made for you: {name}.")
            self._move(action, "random")
        elif self.config.illegal == "lose" or chances <= 0 or problem.kind == "refused":
            self._remarks[seat].append(f"{problem.message} This loses the game.")
            self._remarks[1 - seat].append("The other player has lost by an illegal move.")
            self._forfeit("answer")
        else:
            times = "once more" if chances == 1 else f"up to {chances} times more"
            self._remarks[seat].append(f"{problem.message} You may answer {times} in this turn.")

    def _move(self, action: int, origin: By) -> None:
        """Make a move, and draw the chance event that follows.

        Raises:
            ValueError: an illegal move, which only an opponent's own code can choose.
        """
        mover = self.mover
        cells = self.position.cells
        game = self.game
        stones = int(np.count_nonzero(cells))
        outcome = Outcome(int(place(cells, mover, action, stones, game.parameters)))
        if outcome == ILLEGAL:
            raise Refusal(
                f"the opponent {self.opponent} moved to an illegal cell: choose another, or "
                "correct it"
            )
        next_mover = mover
        if outcome == NOT_OVER:
            next_mover = int(mover_after(mover, self._episode_key, stones, game.skip_chance))
        self._end_turn(action, Position(cells, next_mover), outcome, origin)
        self._remarks[1 - mover].append(
            f"The other player chose {self.presentation.move_name(action)}."
        )
        if self.turns[-1].skip:
            self._remarks[mover].append("The other player's turn was skipped: you move again.")
            self._remarks[1 - mover].append("Your turn was skipped.")

    def _forfeit(self, origin: By) -> None:
        """End the game as a loss of the player to move."""
        outcome = (Outcome.PLAYER_0_FORFEITED, Outcome.PLAYER_1_FORFEITED)[self.mover]
        self._end_turn(-1, self.position, outcome, origin)

    def _end_turn(self, action: int, next_position: Position, outcome: Outcome, origin: By) -> None:
        self.turns.append(
            Turn(self.position, action, next_position, outcome, origin, self.problems)
        )
        self._position = next_position
        self.outcome = outcome
        self.problems = ()

    def _reply(self) -> None:
        """Let the opponent move until the caller's turn or the end."""
        while self.opponent is not None and self.mover not in self.seats and not self.over:
            boards = Boards.from_positions([self.position])
            keys = np.array([self._episode_key])
            plies = boards.num_stones
            try:
                [action] = self.opponent.act_in_games(
                    boards, np.array([self.config.episode]), keys, plies
                )
                self._move(int(action), "opponent")
            except Forfeit:
                self._remarks[self.seats[0]].append("The other player has given up.")
                self._forfeit("opponent")
