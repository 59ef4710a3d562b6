"""The expectiminimax policy and its analysis of positions."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np

from baselines.exact.tablebase import Tablebase
from baselines.expectiminimax.leaves import LeafSearch
from baselines.expectiminimax.lines import Heuristic
from baselines.expectiminimax.search import (
    DEFAULT_TABLE_BYTES,
    Search,
    check_settings,
    turn_key,
    write_moves,
)
from ttt_envs.agents.policy import (
    ALL_VARIANTS,
    VALUE_TOLERANCE,
    Policy,
    Values,
    best_shares,
    need_rng,
)
from ttt_envs.agents.specs import Named, make_values
from ttt_envs.core.checks import Refusal, check_properties, check_range
from ttt_envs.core.jit import Float64Array, Int64Array, UInt64Array
from ttt_envs.core.random import draw_keys
from ttt_envs.game.boards import Boards
from ttt_envs.game.game import Game, Position
from ttt_envs.game.rules import NOT_OVER, put_stone, winner


class Analysis(NamedTuple):
    """Search results for one position, in the search's own scores, which are not expected results:
    see the module.
    """

    value: float
    """value for player_0"""
    move_values: Float64Array
    """float64[rows * columns], value of every move for player_0; NaN where illegal"""
    variation: tuple[int, ...]
    """the principal variation: best moves of both players, the first of equals, without skips"""
    nodes: int
    """number of positions visited: stones put or tried in the search"""


MAX_TABLE_MIB = 1 << 16
"""Maximum size of the table in MiB."""


@dataclass(frozen=True)
class Expectiminimax(Named):
    """Plays the best move of a search to ``depth``; moves within 1e-9 of the best have equal
    shares.

    It has no ``values``, because search scores are not expected results; :meth:`analyse` returns
    them.

    Raises:
        ValueError: a setting is out of range, or the leaf policy has no values, or comes with a
            width or a database.
    """

    name: ClassVar[str] = "expectiminimax"
    variants = ALL_VARIANTS
    refusals: ClassVar = {"hidden": "it reads the whole board, to search the moves of both players"}

    game: Game
    depth: int = 3
    """number of plies to look ahead"""
    width: int | None = None
    """number of random moves at every decision node below the root; none for all moves"""
    heuristic: Heuristic = "count"
    """quantity compared at the horizon"""
    leaf: str | Policy | None = None
    """a policy whose values replace the heuristic: for the mover, -1 loss to 1 win; not with a
    width or database
    """
    endgame: str | None = None
    """a folder built by evaluate.py database build, whose positions are looked up instead of
    searched. With skips every win then counts 1, as in the database; without, sooner wins count
    more"""
    table: int = DEFAULT_TABLE_BYTES >> 20
    """maximum size of the transposition table in MiB, 0 for none; results do not depend on it"""
    pure: bool = field(init=False)
    """whether the policy draws no random moves"""

    def __post_init__(self) -> None:
        check_settings(self.depth, self.width, self.heuristic)
        check_range(
            "table", self.table, 0, MAX_TABLE_MIB, "is no size of a table", " MiB, 0 for none"
        )
        object.__setattr__(self, "pure", self._num_drawn_moves is None)
        if self.leaf is not None and (self.width is not None or self.endgame is not None):
            raise Refusal(
                f"{self}: a leaf policy values all positions at the horizon, choose no width or "
                "endgame"
            )
        check_properties(self, "_database")
        # a search is, with a leaf policy that is, unless it draws moves
        for name in ("symmetric", "colour_blind"):
            is_so = self.pure and (self._leaf is None or getattr(self._leaf, name))
            object.__setattr__(self, name, is_so)

    @property
    def _num_drawn_moves(self) -> int | None:
        """Number of moves drawn at a node, None if all are tried; nodes below the root have at
        least one stone.
        """
        return None if self.width is None or self.width >= self.game.cells - 1 else self.width

    @cached_property
    def _leaf(self) -> Values | None:
        return None if self.leaf is None else make_values("leaf", self.leaf, self.game)

    @cached_property
    def _database(self) -> Tablebase | None:
        return None if self.endgame is None else Tablebase(self.endgame, self.game)

    @property
    def tie(self) -> float:
        """Tolerance within which moves count as equally good."""
        return VALUE_TOLERANCE if self._database is None else self._database.solution.tie

    def probabilities(self, boards: Boards, rng: np.random.Generator | None = None) -> Float64Array:
        """Return float64[B, rows * columns]; with ``width``, draws one 64-bit number per position
        from ``rng``.
        """
        return best_shares(self.scores(boards, rng), self.tie)

    def scores(self, boards: Boards, rng: np.random.Generator | None = None) -> Float64Array:
        """Return the search scores, float64[B, rows * columns], for the mover, NaN where illegal.

        The best moves have exact values; the score of another move may be an upper bound below the
        best.
        """
        return self._search(boards, self._random_keys(boards, rng), self.depth, every_move=False)[0]

    def analyse(self, position: Position, rng: np.random.Generator | None = None) -> Analysis:
        """Return the search results for a position, in the search's own scores, for player_0.

        Args:
            position: one that is not over.
            rng: for a search that draws moves.

        Raises:
            ValueError: the position is over, or ``rng`` is missing where it is needed.
        """
        if winner(self.game, position.cells) is not None:
            raise Refusal(
                "the game is over in this position: analyse only positions of unfinished games"
            )
        boards = Boards.from_positions([position])
        sign = 1 - 2 * int(position.mover)
        random_keys = self._random_keys(boards, rng)
        (values,), (nodes,) = self._search(boards, random_keys, self.depth, every_move=True)
        return Analysis(
            value=float(sign * np.nanmax(values)) + 0.0,  # no -0.0
            move_values=sign * values + 0.0,
            variation=self.variation(position, random_keys[0], values),
            nodes=int(nodes),
        )

    def _random_keys(self, boards: Boards, rng: np.random.Generator | None) -> UInt64Array:
        count = len(boards.mover)
        if self._num_drawn_moves is None:
            return np.zeros(count, np.uint64)
        return draw_keys(need_rng(self, rng), count)

    def _search(
        self, boards: Boards, random_keys: UInt64Array, depth: int, every_move: bool
    ) -> tuple[Float64Array, Int64Array]:
        """Return values of the moves, float64[B, cells] for the mover, and the positions visited,
        int64[B].
        """
        values = np.empty(boards.cells.shape)
        nodes = np.empty(len(random_keys), np.int64)
        layers = np.zeros_like(nodes)
        if self._database is not None:
            layers = self._database.probe_layers(boards)
        for layer in np.unique(layers):
            rows = np.flatnonzero(layers == layer)
            search = self.search(boards.take(rows), random_keys[rows], every_move=every_move)
            search.run(depth)
            values[rows] = search.move_values
            nodes[rows] = search.nodes
        return values, nodes

    def search(
        self,
        boards: Boards,
        random_keys: UInt64Array,
        *,
        every_move: bool,
        max_mib: int = MAX_TABLE_MIB,
    ) -> Search | LeafSearch:
        """Return a search with these settings, not yet started.

        Args:
            boards: positions that are not over; with a database, of equal numbers of stones, or all
                below its layers.
            random_keys: uint64[B], random keys of a narrow search.
            every_move: whether to compute the value of every move.
            max_mib: upper limit in MiB on the size of the table, in addition to the policy's own.
        """
        if self._leaf is not None:
            return LeafSearch(self.game, boards, self._leaf)
        probe = None
        if self._database is not None:
            probe = self._database.probe(int(self._database.probe_layers(boards)[0]))
        return Search(
            self.game,
            boards,
            heuristic=self.heuristic,
            width=self._num_drawn_moves,
            memory=min(self.table, max_mib) << 20,
            every_move=every_move,
            by_result=self.endgame is not None and self.game.skip_chance > 0,
            margin=self.tie,
            random_keys=random_keys,
            probe=probe,
        )

    def variation(
        self, position: Position, key: np.uint64, values: Float64Array
    ) -> tuple[int, ...]:
        """Return the principal variation from a position with ``values`` of its moves for the
        mover.
        """
        cells = position.cells.copy()
        mover = position.mover
        moves = list[int]()
        while True:
            cell = int(np.argmax(values >= np.nanmax(values) - self.tie))
            moves.append(cell)
            outcome = put_stone(self.game, cells, mover, cell)
            if outcome != NOT_OVER or len(moves) == self.depth:
                return tuple(moves)
            mover = 1 - mover
            key = np.uint64(turn_key(key, cell, mover))
            board = Boards.from_positions([Position(cells, mover)])
            depth = self.depth - len(moves)
            (values,), _ = self._search(board, np.array([key]), depth, every_move=not self.pure)
            width = self._num_drawn_moves
            if width is not None:  # restrict to the moves drawn here, as in the search
                choices = np.empty(self.game.cells, np.int64)
                count = write_moves(width, key, cells, choices, self.game.parameters)
                values[np.setdiff1d(np.arange(self.game.cells), choices[:count])] = np.nan
