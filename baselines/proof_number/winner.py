"""Proves the winner of a game from the empty board."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from baselines.proof_number.bitsets import Board, make_board
from baselines.proof_number.search import Search, run, search_from
from baselines.proof_number.table import NO_TABLE, grow
from baselines.proof_number.threats import NO, UNKNOWN, YES
from ttt_envs.core.records import Records
from ttt_envs.game.game import Game
from ttt_envs.game.phantom import check_variants
from ttt_envs.game.rules import DRAW

MAX_PROOF_CELLS = 64
SLICE = 1 << 14
"""Number of positions between two checks of the clock, of interrupts and of the size of the table."""


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
    search = search_from(board := make_board(game))
    decide(search, board, NO_TABLE, nodes, memory, progress)
    state = search.states[0]
    return Proof(
        game,
        winner={YES: 0, NO: DRAW, UNKNOWN: None}[int(state.result)],
        nodes=int(state.nodes),
        seconds=time.perf_counter() - started,
        move=int(state.move) if state.result == YES else None,
    )


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


def decide(
    search: Search,
    board: Board,
    table: Records,
    nodes: int | None,
    memory: int,
    progress: Callable[[int], None] | None = None,
) -> Records:
    """Continue a search until it is decided, or ``nodes`` positions have been visited.

    Args:
        search: its state holds the result.
        board: of the game.
        table: of positions with the same player as attacker and the same player to move at the root.
        nodes: None for no limit.
        memory: maximum size of the table in bytes.
        progress: called with the number of positions visited, a few times a second.

    Returns:
        The table, which may have grown.
    """
    state = search.states[0]
    while state.result == UNKNOWN and (nodes is None or state.nodes < nodes):
        table, state.stored = grow(table, int(state.stored), SLICE, memory)
        stop = int(state.nodes) + SLICE
        run(search, table, board, stop if nodes is None else min(stop, nodes))
        if progress is not None:
            progress(int(state.nodes))
    return table
