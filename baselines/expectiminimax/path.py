"""The path from the root to the position being looked at: all that a search knows, so that it can stop at any node.

Chance nodes, where the turn after a move may be skipped, and decision nodes, where a player moves, alternate. A pair
has a row by the plies left: the chance node, what is known of either turn after it, and of one of these turns the
decision node that is being searched. The root is a decision node alone.
"""

from __future__ import annotations

import typing
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from baselines.expectiminimax.windows import Board
from ttt_envs.compiling import Integers, Keys
from ttt_envs.rules import Game

Records = NDArray[Any]
"""rows with the fields of a class below"""

OTHER, OWN = range(2)
"""turns after a chance node: the other player's, and the maker's own after a skip"""
PROBE, TURN, SKIPPED, DONE = range(4)
"""stages of a chance node: one move of the maker's own turn is probed; the other player's turn is searched; the maker's
own is"""
BEGIN_ROOT, BEGIN_CHANCE, DECIDE, TRY, TAKE_BACK, END_TURN = range(6)
"""what a search does next, see ``search.go_on``"""


class Chance:
    """A chance node: a position that its maker has just made. Its value and bounds are the maker's."""

    maker: int
    stage: int
    beyond: int
    """1 or -1 where a turn was worth more, or less, than its window, and decides the node; else 0"""
    changed: int
    """whether a turn was searched"""
    image: int
    """the symmetry that leads to the board's key"""
    alpha: float
    beta: float
    """the node is worth knowing between these"""
    luck: np.uint64
    """what a narrow search draws with"""


class Turn:
    """A turn that may follow a chance node: bounds on its value to the maker."""

    low: float
    high: float
    move: int
    """a good one, -1 for none"""


class Decision:
    """A decision node: the turn that is being searched. Values are the mover's."""

    mover: int
    count: int
    """moves to try"""
    index: int
    """the move being tried"""
    chosen: int
    """the best cell so far"""
    best: float
    """what it is worth"""
    alpha: float
    beta: float
    ceiling: float
    """no move is worth more"""
    luck: np.uint64


class State:
    """Where a search is."""

    row: int
    """the position being searched"""
    depth: int
    """plies left at the node"""
    step: int
    """what is done next"""
    empty: int
    """cells"""
    nodes: int
    """looked at"""
    limit: int
    """nodes after which it stops"""
    stored: int
    """entries in the table"""
    full: int
    """entries at which it stops"""


class Path(NamedTuple):
    """The position being looked at, and the nodes that led there by plies left: D is the depth + 1."""

    board: Board
    weight: Integers
    """int64[cells]: scratch for ordering moves"""
    moves: Integers
    """int64[D, cells]: the moves tried"""
    chances: Records
    """`Chance`[D]"""
    turns: Records
    """`Turn`[D, 2]"""
    decisions: Records
    """`Decision`[D]"""
    keys: Keys
    """uint64[D, 2 * words]: the least image"""
    states: Records
    """`State`[1]"""

    @classmethod
    def of(cls, game: Game, windows: int, words: int) -> Path:
        """At no depth: see :meth:`to`."""
        return cls(
            Board(np.zeros(game.cells, np.int8), np.zeros((2, windows), np.uint32), _tally(0, game)),
            np.zeros(game.cells, np.int64),
            **_rows(0, game, words),
            states=_records(State, (1,)),
        )

    def to(self, depth: int, game: Game) -> Path:
        """With room for the nodes of a search to this depth, the state the same."""
        board = self.board._replace(tally=_tally(depth, game))
        return self._replace(board=board, **_rows(depth, game, self.keys.shape[1] // 2))


def _tally(depth: int, game: Game) -> Integers:
    return np.zeros((depth + 1, 2, 2, game.win_length + 2), np.int64)


def _rows(depth: int, game: Game, words: int) -> dict[str, Any]:
    return {
        "moves": np.zeros((depth + 1, game.cells), np.int64),
        "chances": _records(Chance, (depth + 1,)),
        "turns": _records(Turn, (depth + 1, 2)),
        "decisions": _records(Decision, (depth + 1,)),
        "keys": np.zeros((depth + 1, 2 * words), np.uint64),
    }


def _records(kind: type, shape: tuple[int, ...]) -> Records:
    """Zeros with the fields that a class declares, for kernels and for plain Python alike."""
    return np.zeros(shape, _fields(kind))


@cache
def _fields(kind: type) -> np.dtype[Any]:
    numbers = {int: np.int64, float: np.float64, np.uint64: np.uint64}
    fields = [(name, numbers[number]) for name, number in typing.get_type_hints(kind).items()]
    return np.dtype((np.record, np.dtype(fields, align=True)))
