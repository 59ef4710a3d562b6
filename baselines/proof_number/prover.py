"""Proves the winner of a game from the empty board, and the results of all moves in a position within a game."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from baselines.proof_number.search import ProofSearch
from baselines.proof_number.threats import NO, UNKNOWN, YES
from ttt_envs.core.jit import Int8Array
from ttt_envs.game.boards import check_opening
from ttt_envs.game.game import Game, Position
from ttt_envs.game.phantom import check_variants
from ttt_envs.game.rules import DRAW, NOT_OVER, check_cells, legal, place

# Results for the player who moves, and codes for occupied cells and for moves that are not proved
WIN, TIED, LOSS = 1, 0, -1
TAKEN = 2
UNDECIDED = 3
MAX_PROOF_CELLS = 64


class Proof(NamedTuple):
    """The winner of a game without skips."""

    game: Game
    winner: int | None
    """0 if player_0 wins with best play, ``DRAW`` if neither player can, None if undecided within the nodes allowed"""
    nodes: int
    """number of positions visited"""
    seconds: float
    """elapsed time, including the compilation at a first call"""
    move: int | None
    """a winning first move, if player_0 wins"""


def prove(
    game: Game,
    *,
    nodes: int | None = None,
    memory: int = 1 << 30,
    progress: Callable[[int], None] | None = None,
) -> Proof:
    """Prove the winner of a game without skips under best play by both players.

    Args:
        game: a game without skips on at most 64 cells.
        nodes: number of positions after which to stop undecided; None for no limit.
        memory: maximum size of the table in bytes. It starts small; 0 for no table.
        progress: called with the number of positions visited, a few times a second.

    Raises:
        ValueError: turns may be skipped, more than 64 cells, ``nodes`` below 1, or ``memory`` below 0.
    """
    check_provable(game)
    if nodes is not None and nodes < 1:
        raise ValueError(f"nodes={nodes} visits no position: choose at least 1")
    if memory < 0:
        raise ValueError(f"memory={memory} is negative: choose the bytes of the table, or 0 for no table")
    started = time.perf_counter()
    verdict, num_nodes, move = ProofSearch(game, memory).decide(([], []), 0, nodes, progress)
    winner = {YES: 0, NO: DRAW, UNKNOWN: None}[verdict]
    return Proof(game, winner, num_nodes, time.perf_counter() - started, move if verdict == YES else None)


def check_provable(game: Game) -> None:
    """Raise ValueError for a game with skips, with other rules than the standard ones, or on more than 64 cells."""
    check_variants(
        "a proof of the winner",
        game,
        reasons="pairings, threats and strategy stealing hold for lines and moves of the standard rules",
        instead="evaluate.py solve",
    )
    if game.skip_chance > 0:
        raise ValueError(
            f"skip_chance={game.skip_chance:g} leaves nothing to prove, because with skips either player may win: "
            f"choose skip_chance=0, or get the exact values with evaluate.py solve"
        )
    if game.cells > MAX_PROOF_CELLS:
        raise ValueError(
            f"a board of {game.rows} x {game.columns} has {game.cells} cells: choose one of at most {MAX_PROOF_CELLS}"
        )


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

    def results(self, position: Position) -> Int8Array | None:
        """Return int8[rows * columns]: for each move ``WIN``, ``TIED`` or ``LOSS`` for the mover, else ``TAKEN``.

        Returns None if ``nodes`` are not enough.

        Raises:
            ValueError: the position is over or unreachable.
        """
        results = self._prove_moves(position, shares=False)
        return None if (results == UNDECIDED).any() else results

    def partial_results(self, position: Position) -> Int8Array:
        """Return the same with ``UNDECIDED`` for moves that are not proved.

        Every move gets an equal share of the nodes that are left.

        Raises:
            ValueError: as for :meth:`results`.
        """
        return self._prove_moves(position, shares=True)

    def _prove_moves(self, position: Position, *, shares: bool) -> Int8Array:
        """Do :meth:`partial_results`; without ``shares`` the first move that is not proved ends the work."""
        check_cells(self.game, position.cells)
        check_opening(self.game, position, "a position to be proved")
        searches = [ProofSearch(self.game, self.memory) for _ in range(2)]
        moves, remaining = np.flatnonzero(legal(self.game, position.cells)).tolist(), self.nodes
        out = np.full(self.game.cells, TAKEN, np.int8)
        out[moves] = UNDECIDED
        for number, cell in enumerate(moves):
            share = remaining // (len(moves) - number) if shares else remaining
            if share > 0:
                out[cell], used = self._prove_move(position, cell, share, searches)
                remaining -= used
            if out[cell] == UNDECIDED and not shares:
                break
        return out

    def _prove_move(self, position: Position, cell: int, nodes: int, searches: list[ProofSearch]) -> tuple[int, int]:
        """Return a move's result and the number of positions visited.

        Of the two searches, the mover is the attacker in one, and the other player in the other.
        """
        mover, cells = position.mover, position.cells.copy()
        outcome = place(cells, mover, cell, int(np.count_nonzero(cells)), self.game.parameters)
        if outcome != NOT_OVER:
            return TIED if outcome == DRAW else WIN, 0
        stones, total = [np.flatnonzero(cells == player + 1).tolist() for player in (mover, 1 - mover)], 0
        # The other player is to move now, so in the mover's own question the attacker is not on move
        for attacker, result in ((0, WIN), (1, LOSS)):
            pair = stones[attacker], stones[1 - attacker]
            verdict, visited, _ = searches[attacker].decide(pair, 1 - attacker, nodes - total)
            total += visited
            if verdict == UNKNOWN or total >= nodes:
                return UNDECIDED, total
            if verdict == YES:
                return result, total
        return TIED, total
