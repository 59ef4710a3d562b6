"""Results of all moves in a position within a game."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from baselines.proof_number.bitsets import Board, make_board
from baselines.proof_number.search import search_from
from baselines.proof_number.table import NO_TABLE
from baselines.proof_number.threats import UNKNOWN, YES
from baselines.proof_number.winner import check_provable, decide
from ttt_envs.core.jit import Int8Array
from ttt_envs.core.records import Records
from ttt_envs.game.boards import check_opening
from ttt_envs.game.game import Game, Position
from ttt_envs.game.rules import DRAW, NOT_OVER, check_cells, legal, place

# Results for the player who moves, and codes for occupied cells and for moves that are not proved
WIN, TIED, LOSS = 1, 0, -1
TAKEN = 2
UNDECIDED = 3


@dataclass(frozen=True)
class Prover:
    """Proves the result of every move of a position under best play by both players.

    Whether a position is proved within ``nodes`` depends on the position only: no table outlives a call.

    Raises:
        ValueError: the game has skips, or more than 64 cells.
    """

    game: Game
    nodes: int = 100_000
    """maximum number of positions visited before a position is given up"""
    memory: int = 1 << 28
    """maximum size of each of two tables in bytes"""

    def __post_init__(self) -> None:
        check_provable(self.game)

    @cached_property
    def _board(self) -> Board:
        return make_board(self.game)

    def results(self, position: Position) -> Int8Array | None:
        """Return int8[rows * columns]: for each move ``WIN``, ``TIED`` or ``LOSS`` for the mover, else ``TAKEN``.

        Returns None if ``nodes`` are not enough.

        Raises:
            ValueError: the position is over or unreachable.
        """
        out = np.full(self.game.cells, TAKEN, np.int8)
        attempt = _Attempt(self, position)
        left = self.nodes
        for cell in attempt.moves:
            result, left = attempt.prove_move(cell, left)
            if result == UNDECIDED:
                return None
            out[cell] = result
        return out

    def partial_results(self, position: Position) -> Int8Array:
        """Return the same with ``UNDECIDED`` for moves that are not proved.

        Every move gets an equal share of the nodes that are left.

        Raises:
            ValueError: as for :meth:`results`.
        """
        out = np.full(self.game.cells, TAKEN, np.int8)
        attempt = _Attempt(self, position)
        left = self.nodes
        for number, cell in enumerate(attempt.moves):
            share = left // (len(attempt.moves) - number)
            out[cell], unused = attempt.prove_move(cell, share) if share else (UNDECIDED, 0)
            left -= share - max(unused, 0)
        return out


class _Attempt:
    """The proofs of the moves of one position, which share two tables.

    Raises:
        ValueError: the position is over or unreachable.
    """

    def __init__(self, prover: Prover, position: Position) -> None:
        check_cells(prover.game, position.cells)
        check_opening(prover.game, position, "a position to be proved")
        self._prover = prover
        self._position = position
        self.moves: list[int] = np.flatnonzero(legal(prover.game, position.cells)).tolist()
        self._tables: list[Records] = [NO_TABLE, NO_TABLE]  # with the mover as attacker, and with the other player
        self._entries = [0, 0]

    def prove_move(self, cell: int, nodes: int) -> tuple[int, int]:
        """Return a move's result, ``UNDECIDED`` if ``nodes`` are not enough, and the number of nodes left."""
        game, mover, cells = self._prover.game, self._position.mover, self._position.cells.copy()
        outcome = place(cells, mover, cell, int(np.count_nonzero(cells)), game.parameters)
        if outcome != NOT_OVER:
            return TIED if outcome == DRAW else WIN, nodes
        sets = [sum(1 << int(i) for i in np.flatnonzero(cells == player + 1)) for player in (mover, 1 - mover)]
        # The other player is to move now, so in the mover's own question the attacker is not on move
        for attacker, if_so in ((0, WIN), (1, LOSS)):
            board = self._prover._board
            search = search_from(board, sets[attacker], sets[1 - attacker], 1 - attacker)
            state = search.states[0]
            state.stored = self._entries[attacker]
            self._tables[attacker] = decide(search, board, self._tables[attacker], nodes, self._prover.memory)
            self._entries[attacker] = int(state.stored)
            nodes -= int(state.nodes)
            if state.result == UNKNOWN or nodes < 1:
                return UNDECIDED, nodes
            if state.result == YES:
                return if_so, nodes
        return TIED, nodes
