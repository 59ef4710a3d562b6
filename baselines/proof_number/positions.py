"""Results of all moves in a position within a game."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from baselines.proof_number.bitsets import Board, board_of
from baselines.proof_number.search import search_from
from baselines.proof_number.table import NO_TABLE
from baselines.proof_number.threats import UNKNOWN, YES
from baselines.proof_number.winner import check_provable, decide
from ttt_envs.core.jit import Int8Array
from ttt_envs.core.records import Records
from ttt_envs.game.boards import check_opening
from ttt_envs.game.rules import DRAW, NOT_OVER, Game, Position, check_cells, legal, place

# Results for the player who moves, and the code for occupied cells
WIN, TIED, LOSS = 1, 0, -1
TAKEN = 2


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
        return board_of(self.game)

    def results(self, position: Position) -> Int8Array | None:
        """Return int8[rows * columns]: for each move ``WIN``, ``TIED`` or ``LOSS`` for the mover, else ``TAKEN``.

        Returns None if ``nodes`` are not enough.

        Raises:
            ValueError: the position is over or unreachable.
        """
        game, mover = self.game, position.mover
        check_cells(game, position.cells)
        check_opening(game, position, "a position to be proved")
        out = np.full(game.cells, TAKEN, np.int8)
        stones = int(np.count_nonzero(position.cells))
        tables: list[Records] = [NO_TABLE, NO_TABLE]  # with the mover as attacker, and with the other player
        entries, left = [0, 0], self.nodes
        for cell in np.flatnonzero(legal(game, position.cells)):
            cells = position.cells.copy()
            outcome = place(cells, mover, int(cell), stones, game.parameters)
            if outcome != NOT_OVER:
                out[cell] = TIED if outcome == DRAW else WIN
                continue
            sets = [sum(1 << int(i) for i in np.flatnonzero(cells == player + 1)) for player in (mover, 1 - mover)]
            result = TIED
            # The other player is to move now, so in the mover's own question the attacker is not on move
            for attacker, if_so in ((0, WIN), (1, LOSS)):
                search = search_from(self._board, sets[attacker], sets[1 - attacker], 1 - attacker)
                state = search.states[0]
                state.stored = entries[attacker]
                tables[attacker] = decide(search, self._board, tables[attacker], left, self.memory)
                entries[attacker] = int(state.stored)
                left -= int(state.nodes)
                if state.result == UNKNOWN or left < 1:
                    return None
                if state.result == YES:
                    result = if_so
                    break
            out[cell] = result
        return out
