"""B games side by side between the caller and an opponent: what the single and the vector environment share.

The two environments only present what this does, so that game i of a batch and the single environment cannot differ.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from ttt_envs import stepping
from ttt_envs.bits import LARGEST_IN_BITS
from ttt_envs.boards import Boards, check_opening, from_text
from ttt_envs.compiling import Cells, Flags, Integers, Keys, Reals
from ttt_envs.policy import ActsInGames, PlaysUniformly, Policy, act_in_episodes
from ttt_envs.rules import (
    NOT_OVER,
    ChanceOutcome,
    Game,
    Position,
    action_index,
    chance_outcomes,
    occupied,
    packed,
)
from ttt_envs.specs import make_policy
from ttt_envs.stepping import BOTH_SEATS, BY_ACT, GAMES_OVER, NO_GAME, NOBODY, THESE_GAMES, UNIFORM
from ttt_envs.symmetry import symmetries

SeatChoice = Literal["first", "second", "random", "alternate"]
IllegalAction = Literal["lose", "penalize", "raise"]
Symmetry = Literal["none", "random"]

SELF = "self"
"""the opponent's name when the caller moves for both"""
OUTCOMES = (
    "player_0 won",
    "player_1 won",
    "draw",
    "player_0 lost by an illegal action",
    "player_1 lost by an illegal action",
    "truncated after too many illegal actions",
)
WINNERS = (0, 1, -1, 1, 0, -1, -1)
"""of each outcome the player who has won, -1 for nobody; the last is that of ``NOT_OVER``, -1"""
_SEATS = get_args(SeatChoice)


def check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    """Raise ValueError unless ``value`` is one of the choices."""
    if value not in choices:
        raise ValueError(f"{name}={value!r} is not known: choose {', '.join(map(repr, choices))}")


def beginning(game: Game, options: Mapping[str, Any] | None, both: bool) -> tuple[Position | None, int | None]:
    """The position and the caller's seat that the options of a reset ask for, None where they do not.

    Args:
        game: what is played.
        options: ``position``, a text, and ``seat``, 0 or 1; both may be missing.
        both: whether the caller moves for both players.

    Raises:
        TypeError, ValueError: another option, a position that is over or that no game leads to, a seat that is none.
    """
    if not options:
        return None, None
    for name in options:
        if name not in ("position", "seat"):
            raise ValueError(f"options[{name!r}] is not known: choose 'position' or 'seat'")
    seat = options.get("seat")
    if seat is not None:
        if isinstance(seat, bool) or not isinstance(seat, (int, np.integer)) or seat not in (0, 1):
            raise ValueError(f"options['seat']={seat!r} is no seat: choose 0 (first, o) or 1 (second, x)")
        if both:
            raise ValueError("options['seat'] makes no sense with opponent='self': you move for both")
        seat = int(seat)
    text = options.get("position")
    if text is None:
        return None, seat
    if not isinstance(text, str):
        raise TypeError(f"options['position']={text!r} is no text: write rows and mover, as in 'x.o/.../..o x'")
    position = from_text(text, game)
    check_opening(game, position, f"options['position']={text!r}")
    return position, seat


def check_restored(cloned: Game, game: Game, has_luck: bool, seed: object) -> None:
    """Raise ValueError unless a cloned state fits the game and somebody says how chance goes on."""
    if cloned != game:
        raise ValueError(f"a state of the game {cloned} cannot be restored in the game {game}: make that game first")
    if not has_luck and seed is None:
        raise ValueError(
            "this state was cloned without its generator: restore_state(state, seed=...) says how chance goes on, "
            "or clone_state(include_rng=True) keeps the generator"
        )


class Shown(NamedTuple):
    """What a step shows."""

    planes: Cells
    """int8[B, 2, cells]: own stones, then the opponent's"""
    mask: Cells
    """int8[B, cells]: legal actions; all ones in a finished game, because an empty mask would make masked distributions
    uniform over illegal actions"""
    rewards: Reals
    """float64[B], to ``Lockstep.seat``"""
    terminated: Flags
    """bool[B]"""
    truncated: Flags
    """bool[B]"""
    words: tuple[Keys, Keys]
    """the memory of planes and mask as uint64, for kernels write eight bytes at once"""

    @classmethod
    def empty(cls, count: int, cells: int) -> Shown:
        """Fresh arrays to write into."""
        planes, mask = np.empty((count * 2 * cells + 7) // 8, np.uint64), np.empty((count * cells + 7) // 8, np.uint64)
        return cls(
            np.ndarray((count, 2, cells), np.int8, planes),
            np.ndarray((count, cells), np.int8, mask),
            np.empty(count),
            np.empty(count, np.bool_),
            np.empty(count, np.bool_),
            (planes, mask),
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return _shown, tuple(self[:5])  # planes and mask share the memory of their words: in copies, too


def _shown(*arrays: np.ndarray[Any, Any]) -> Shown:
    """These arrays in fresh memory."""
    out = Shown.empty(*arrays[1].shape)
    for name, array in zip(Shown._fields, arrays, strict=False):
        getattr(out, name)[...] = array
    return out


class Lockstep:
    """The state of B games and what happens to all of them at once.

    Attributes:
        mover, seat: int64[B]: who is to move, and the caller's seat; with ``opponent="self"`` the seat that moved last.
        outcome: int64[B]: ``NOT_OVER``, a winner, ``DRAW``, ``FORFEIT`` + the loser, or ``TRUNCATED``.
        stones: int64[B]: on the boards.
        keys, episode, luck: uint64[B], int64[B], uint64[B]: the seeds' keys, the number of the episode since, and
            ``splitmix64(key, episode)``, from which all chance of the episode comes.
        symmetry: int64[B]: which of ``permutations`` int64[S, cells] the caller sees the board through.
        illegal: int64[B]: illegal actions so far.
    """

    def __init__(
        self,
        game: Game,
        count: int,
        opponent: str | Policy,
        seat: SeatChoice,
        illegal_action: IllegalAction,
        symmetry: Symmetry,
    ) -> None:
        check_choice("seat", seat, _SEATS)
        check_choice("illegal_action", illegal_action, get_args(IllegalAction))
        check_choice("symmetry", symmetry, get_args(Symmetry))
        self.game = game
        self.opponent = None if opponent == SELF else make_policy(opponent, game)
        self.permutations = symmetries(game, "all" if symmetry == "random" else "none")
        if self.opponent is None:
            self._replies = NOBODY
        else:
            uniform = isinstance(self.opponent, PlaysUniformly) and self.opponent.plays_uniformly
            self._replies = UNIFORM if uniform else BY_ACT
        playing: Policy | ActsInGames | None = self.opponent
        self._in_games = playing if isinstance(playing, ActsInGames) else None
        seats = BOTH_SEATS if self.opponent is None else _SEATS.index(seat)
        self._settings = np.concatenate(
            [np.array([count, seats, get_args(IllegalAction).index(illegal_action), self._replies]), packed(game)]
        )
        # Few arrays, because every array costs a kernel's caller as much as a move on a small board.
        self._rows = np.zeros((stepping.ROWS, stepping.stride(count)), np.int64)
        self._cells = np.zeros(0 if game.cells <= LARGEST_IN_BITS else (count, game.cells), np.int8)
        self._words = np.empty(count * 2 * game.cells // 64 + 1, np.uint64)
        self._waiting = np.empty(count, np.int64)
        self._count = count
        flags = np.empty(0, np.bool_)
        self._unseen = (np.empty(0, np.uint64), np.empty(0, np.uint64), np.empty(0), flags, flags)
        self._name_rows()
        self.outcome[:] = NOT_OVER
        self._rows[stepping.OVER] = 1
        self.episode[:] = -1

    def _name_rows(self) -> None:
        """Make the views of the arrays: a copy of a view is none, so copies make them anew."""
        count = self._count
        rows = self._rows[:, :count]
        self.mover, self.seat, self.outcome = rows[stepping.MOVER], rows[stepping.SEAT_OF], rows[stepping.OUTCOME]
        self.stones, self.episode = rows[stepping.STONES], rows[stepping.EPISODE]
        self.symmetry, self.illegal = rows[stepping.IMAGE], rows[stepping.ILLEGALS]
        chance = self._rows.view(np.uint64)[:, :count]
        self.keys, self.luck = chance[stepping.KEY], chance[stepping.LUCK]
        self.numbers = rows[: stepping.OVER + 1, 0]  # what told() tells and whether it is over, without a copy
        self._fixed = (self._settings, self._cells, self._rows, self._words, self.permutations)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._name_rows()

    @property
    def over(self) -> Flags:
        """bool[B], fresh: the end of the game has been shown, and the game must begin anew."""
        over: Flags = self._rows[stepping.OVER, : self._count] != 0
        return over

    def end(self, rows: Flags) -> None:
        """Where ``rows`` bool[B] is true the game must begin anew, whoever has won."""
        self._rows[stepping.OVER, : self._count][rows] = 1

    def boards(self, rows: Integers | None = None) -> Boards:
        """The positions of the games ``rows`` int64[R], of all by default, in fresh arrays."""
        if rows is None:
            rows = np.arange(len(self.mover))
        out = Boards(np.empty((len(rows), self.game.cells), np.int8), np.empty(len(rows), np.int8))
        stepping.read(rows, self._cells, self._rows, *out)
        return out

    def seed(self, rows: Integers, keys: Keys) -> None:
        """Give the games ``rows`` the 64-bit keys of their seeds; their next episode is number 0."""
        self.keys[rows] = keys
        self.episode[rows] = -1

    def begin(
        self, rows: Integers, position: Position | None = None, seat: int | None = None, out: Shown | None = None
    ) -> None:
        """Begin the next episode in the games ``rows``, the opponent's opening moves included.

        Args:
            rows: int64[R].
            position: where they begin, if not with an empty board.
            seat: the caller's, if not as the environment was made.
            out: whose ``planes`` and ``mask`` are written, of all games.
        """
        unseen = self._unseen
        shown = unseen if out is None else (*out.words, *unseen[2:])
        _call_step(*self._fixed, rows, THESE_GAMES, *shown)
        placed = position is not None or seat is not None
        if placed:
            cells, mover = position or Position(np.zeros(self.game.cells, np.int8), 0)
            stepping.write(rows, np.tile(cells, (len(rows), 1)), self._cells, self._rows)
            self.mover[rows] = mover
            self.outcome[rows] = NOT_OVER
            if seat is not None:
                self.seat[rows] = seat
        if self._replies == BY_ACT or (placed and self.opponent is not None):
            self._reply()
        if out is not None and (placed or self._replies == BY_ACT):
            self.observe(out)

    def step(self, actions: Integers, begin_over: bool, out: Shown) -> int:
        """Move in every game, let the opponent reply, and show how the games stand.

        Args:
            actions: int64[B], cells of the board as the caller sees it. It is ignored where a game begins, and where
                the opponent won before the caller's first move.
            begin_over: whether games that are over begin anew in place of a move (reward 0); else they stay over.
            out: written into.

        Returns:
            How many games have ended.

        Raises:
            ValueError: an action that is no cell, or an illegal one with ``illegal_action="raise"``; then no game has
                changed.
        """
        shown = (*out.words, out.rewards, out.terminated, out.truncated)
        status: int = _call_step(*self._fixed, actions, GAMES_OVER if begin_over else NO_GAME, *shown)
        if status < 0:
            self._refuse(-1 - status, int(actions[-1 - status]))
        if self._replies == BY_ACT:
            self._reply()
            status = _call_settle(*self._fixed, *shown)
        return status

    def _reply(self) -> None:
        """Let an opponent with an ``act`` of its own move wherever it is to move, until nowhere."""
        assert self.opponent is not None
        while True:
            rows = self._waiting[: stepping.waiting(self._count, self._rows, self._waiting)]
            if not len(rows):
                return
            boards = self.boards(rows)
            luck, stones = self.luck[rows], self.stones[rows]
            if self._in_games is not None:
                actions = self._in_games.act_in_games(boards, self.episode[rows], luck, stones)
            else:
                actions = act_in_episodes(self.opponent, boards, luck, stones)
            refused = stepping.play_replies(rows, actions, self._settings, self._cells, self._rows)
            if refused >= 0:
                raise ValueError(f"the opponent {self.opponent} moved to a cell that is not empty: it is at fault")

    def observe(self, out: Shown) -> None:
        """Write ``planes`` and ``mask``."""
        _call_show(*self._fixed, *out.words)

    def shown(self) -> Shown:
        """``planes`` and ``mask`` in fresh arrays; the rest is not written."""
        out = Shown.empty(len(self.mover), self.game.cells)
        self.observe(out)
        return out

    def seen(self, row: int, cells: Cells) -> Cells:
        """A board int8[rows * columns] as the caller of game ``row`` sees it."""
        return np.asarray(cells[self.permutations[self.symmetry[row]]])

    def told(self) -> Integers:
        """int64[4, B], fresh: mover, seat, outcome and winner (-1 for nobody) of each game."""
        return self._rows[: stepping.TOLD, : self._count].copy()

    def words(self, row: int) -> str | None:
        """How game ``row`` has ended, None while it goes on."""
        return None if self.outcome[row] == NOT_OVER else OUTCOMES[self.outcome[row]]

    def position(self, row: int) -> Position:
        """The position of game ``row``."""
        return self.boards(np.array([row])).position(0)

    def chance_outcomes(self, row: int, action: object) -> list[ChanceOutcome]:
        """What the caller's move may lead to in game ``row``, the opponent's reply not included."""
        cell = self.permutations[self.symmetry[row], action_index(self.game, action)]
        return chance_outcomes(self.game, self.position(row), int(cell))

    _SMALL = ("mover", "seat", "outcome")  # int8 in what is stored
    _WHOLE = ("stones", "symmetry", "illegal")
    _LUCK = ("luck", "keys", "episode")

    def clone(self, include_rng: bool) -> dict[str, Any]:
        """Copies of the arrays, with ``cells`` int8[B, rows * columns]; without ``include_rng`` of none that tells the
        future.
        """
        names = self._WHOLE + (self._LUCK if include_rng else ())
        return {
            "game": self.game,
            "cells": self.boards().cells,
            "over": self.over,
            **{name: getattr(self, name).astype(np.int8) for name in self._SMALL},
            **{name: getattr(self, name).copy() for name in names},
        }

    def restore(self, state: dict[str, Any], keys: Keys | None) -> None:
        """Take back what :meth:`clone` gave, and with ``keys`` go on with other luck.

        Raises:
            ValueError: arrays of another board or number of games, or neither the state's own luck nor keys.
        """
        check_restored(state["game"], self.game, "luck" in state, keys)
        count = len(self.mover)
        if len(state["cells"]) != count:
            raise ValueError(f"a state of {len(state['cells'])} games does not fit {count}")
        for name in self._SMALL + self._WHOLE + (self._LUCK if "luck" in state else ()):
            getattr(self, name)[...] = state[name]
        self._rows[stepping.OVER, :count] = state["over"]
        cells = np.empty((count, self.game.cells), np.int8)
        cells[...] = state["cells"]
        stepping.write(np.arange(count), cells, self._cells, self._rows)
        if keys is not None:
            self.seed(np.arange(count), keys)
            self.episode += 1
            stepping.luck_of(count, self._rows)

    def _refuse(self, row: int, action: int) -> None:
        try:
            action_index(self.game, action)
        except ValueError as problem:
            message = str(problem)
        else:
            message = occupied(self.game, self.seen(row, self.position(row).cells), action)
        raise ValueError(f"game {row}: {message}" if len(self.mover) > 1 else message)


# mypy cannot count arguments behind two starred tuples
_call_step: Callable[..., int] = stepping.step
_call_settle: Callable[..., int] = stepping.settle
_call_show: Callable[..., None] = stepping.show
