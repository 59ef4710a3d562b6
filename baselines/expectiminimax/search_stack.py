"""The search stack: the path from the root to the current position, the complete state of an interruptible search.

Chance nodes, where the next turn may be skipped, and decision nodes, where a player moves, alternate. A pair shares a
row, indexed by the plies left: the chance node, the bounds on both turns after it, and the decision node of the turn
being searched. The root is a single decision node.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from baselines.expectiminimax.lines import Board
from ttt_envs.core.jit import Int64Array, UInt64Array
from ttt_envs.core.records import Records, records
from ttt_envs.game.game import Game

OTHER, OWN = range(2)
"""turns after a chance node: the other player's, and the same player's after a skip"""
PROBE, TURN, SKIPPED, DONE = range(4)
"""stages of a chance node: probe one move of the same player's turn; search the other player's turn; search the same
player's turn"""
BEGIN_ROOT, BEGIN_CHANCE, DECIDE, TRY, TAKE_BACK, END_TURN = range(6)
"""next step of a search, see ``search.run_search``"""


class Chance:
    """A chance node: a position after a move. Its value and bounds are for its maker, the player who made the move."""

    maker: int
    stage: int
    beyond: int
    """1 or -1 if a turn's value is above, or below, its window, which decides the node; else 0"""
    changed: int
    """whether a turn was searched"""
    symmetry: int
    """the symmetry that maps the board to its key"""
    alpha: float
    beta: float
    """the value matters only between these"""
    key: np.uint64
    """random key for a narrow search"""


class Turn:
    """A turn after a chance node: bounds on its value for the maker."""

    low: float
    high: float
    move: int
    """a good move, -1 for none"""


class Decision:
    """A decision node: the turn being searched. Values are for the mover."""

    mover: int
    count: int
    """number of moves to try"""
    index: int
    """index of the move being tried"""
    chosen: int
    """the best cell so far"""
    best: float
    """its value"""
    alpha: float
    beta: float
    ceiling: float
    """upper bound on the value of all moves"""
    key: np.uint64


class State:
    """Progress of a search."""

    row: int
    """index of the position being searched"""
    depth: int
    """plies left at the node"""
    step: int
    """next step"""
    empty: int
    """number of empty cells"""
    nodes: int
    """number of positions visited"""
    limit: int
    """number of nodes after which to stop"""
    stored: int
    """number of entries in the table"""
    full: int
    """number of entries at which to stop"""


class Path(NamedTuple):
    """The current position and the nodes that lead to it, indexed by plies left: D is the depth + 1."""

    board: Board
    weight: Int64Array
    """int64[cells]: scratch for ordering moves"""
    moves: Int64Array
    """int64[D, cells]: the moves to try"""
    chances: Records
    """`Chance`[D]"""
    turns: Records
    """`Turn`[D, 2]"""
    decisions: Records
    """`Decision`[D]"""
    keys: UInt64Array
    """uint64[D, 2 * words]: the canonical board"""
    states: Records
    """`State`[1]"""

    @classmethod
    def empty(cls, game: Game, num_lines: int, words: int) -> Path:
        """Return a path of depth 0: see :meth:`to`."""
        return cls(
            Board(np.zeros(game.cells, np.int8), np.zeros((2, num_lines), np.uint32), _tally(0, game)),
            np.zeros(game.cells, np.int64),
            **_rows(0, game, words),
            states=records(State, (1,)),
        )

    def to(self, depth: int, game: Game) -> Path:
        """Return a path with capacity for a search to this depth, and the same state."""
        board = self.board._replace(tally=_tally(depth, game))
        return self._replace(board=board, **_rows(depth, game, self.keys.shape[1] // 2))


def _tally(depth: int, game: Game) -> Int64Array:
    return np.zeros((depth + 1, 2, 2, game.win_length + 2), np.int64)


def _rows(depth: int, game: Game, words: int) -> dict[str, Any]:
    return {
        "moves": np.zeros((depth + 1, game.cells), np.int64),
        "chances": records(Chance, (depth + 1,)),
        "turns": records(Turn, (depth + 1, 2)),
        "decisions": records(Decision, (depth + 1,)),
        "keys": np.zeros((depth + 1, 2 * words), np.uint64),
    }
