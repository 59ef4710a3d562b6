"""Counts of the boards, positions and games that can be reached from the empty board."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ttt_envs.core.checks import Refusal
from ttt_envs.core.jit import Int8Array, Int64Array, int64, kernel
from ttt_envs.game.bits import count_bits
from ttt_envs.game.game import Game
from ttt_envs.game.parameters import Parameters
from ttt_envs.game.rules import NOT_OVER, is_legal, terminal_outcome
from ttt_envs.graph.numbering import (
    Layer,
    Numbering,
    Values,
    carry,
    expand,
    find_entry,
    find_set,
    move_set,
    words_per_set,
)

MAX_CELLS_OF_GAMES = 16
"""Maximum number of cells for which games are counted."""
MAX_COUNTED_CELLS = 21
"""Maximum number of cells for which boards are counted."""
WON, DRAWN = 4, 16
"""codes of :func:`reachable_boards`: WON << m, player m has won; DRAWN, the board is full without
one
"""
BY_FIRST, BY_SECOND = 1, 2
"""bits of a board that player_0, or player_1, can have made with the last stone"""


class Counts(NamedTuple):
    """Numbers of boards, positions and games reachable from the empty board."""

    positions_not_over: int
    """pairs of cells and mover of games in progress"""
    boards_not_over: int
    boards_over: int
    won_by_player_0: int
    """boards that are over because player_0 has a line, or in misère player_1"""
    won_by_player_1: int
    drawn: int
    by_stones: tuple[int, ...]
    """boards with 0, 1, ... stones, over or not"""
    classes: int
    """number of boards up to the symmetries of the board"""
    games: int | None
    """sequences of moves from the empty board to an end; None with skips, where play does not
    alternate, and above 16 cells"""

    @property
    def boards(self) -> int:
        """All boards, over or not."""
        return self.boards_not_over + self.boards_over


def count_positions(game: Game) -> Counts:
    """Count the reachable boards, by any rules up to 21 cells; and up to 16 cells without skips the
    games.

    One forward pass over the numbering: a board is reachable if one with a stone less is, on which
    the player of this stone may move. Each set of taken cells stands for its symmetric sets.

    Raises:
        ValueError: the board is larger.
    """
    if game.cells > MAX_COUNTED_CELLS:
        raise Refusal(
            f"the positions of {game} are not counted: choose a board of up to {MAX_COUNTED_CELLS} "
            "cells"
        )
    numbering, skips = Numbering(game), game.skip_chance > 0
    # player_0 moves first and is never skipped, as if player_1 had made the empty board
    states = np.array([BY_SECOND], np.int8) if skips else np.ones(1, np.int64)
    totals: Int64Array = np.zeros((game.cells + 1, 6), np.int64)
    totals[0] = 1, 0, 0, 0, 1, 0
    for stones in range(1, game.cells + 1):
        before, layer = numbering.layer(stones - 1), numbering.layer(stones)
        later = np.zeros(layer.size, states.dtype)
        _count_layer(before, layer, stones == game.cells, states, later, totals[stones])
        states = later
    going, first, second, drawn, classes, games = totals.sum(axis=0).tolist()
    positions = 2 * going - 1 if skips else going  # the empty board has one mover
    by_lines = (second, first) if game.misere else (first, second)
    by_stones = tuple(totals[:, :4].sum(axis=1).tolist())
    is_counted = not skips and game.cells <= MAX_CELLS_OF_GAMES
    over = first + second + drawn
    return Counts(
        positions, going, over, *by_lines, drawn, by_stones, classes, games if is_counted else None
    )


@kernel(nogil=True, allocates=True)
def _count_layer(
    before: Layer, layer: Layer, is_full: bool, states: Values, later: Values, totals: Int64Array
) -> None:
    """Find the reachable positions of a layer from those of the layer before, and add up boards.

    Args:
        before, layer: the layers.
        is_full: whether the board is full.
        states: of the layer before. Without skips, int64: the number of games that lead to a
            position. With skips, int8: bits ``BY_FIRST`` and ``BY_SECOND``, the player who can have
            put the last stone.
        later: of the layer, written, of zeros.
        totals: int64[6]: boards in progress, with a line of player_0, of player_1, full; classes;
            games.
    """
    stones, tables, alternates = layer.stones, layer.tables, states.itemsize == 8
    row, row_before = words_per_set(stones), words_per_set(stones - 1)
    half, full = (stones + 1) // 2, (int64(1) << stones) - 1
    mask, num_symmetries = (int64(1) << half) - 1, len(tables.low_images)
    bits, low = np.empty(stones, np.int64), np.empty(1 << half, np.int32)
    high, made = np.empty(1 << (stones - half), np.int32), np.empty(1 << stones, states.dtype)
    for i in range(len(layer.sets)):
        taken, same = layer.sets[i], 0
        made[:] = 0
        for k in range(stones):
            j, symmetry = find_set(taken ^ expand(int64(1) << k, taken), before)
            if j < 0:  # with gravity, another stone lies on it
                continue
            carry(taken, before.sets[j], symmetry, tables, bits, low, high)
            for own in range(1 << stones):
                if own >> k & 1 == 0 or (alternates and count_bits(own) != half):
                    continue
                other, rest = full ^ own, own ^ (1 << k)
                entry = find_entry(
                    j * row_before, int64(low[other & mask] | high[other >> half]), before.words
                )
                if entry >= 0:
                    state = states[entry]
                    made[own] = (
                        made[own] + state
                        if alternates
                        else made[own] | state >> 1 | (state & 1) << 1
                    )
                if stones > 1 and not alternates:
                    entry = find_entry(
                        j * row_before, int64(low[rest & mask] | high[rest >> half]), before.words
                    )
                    made[own] |= states[entry] if entry >= 0 else 0
        num_fixing = 0  # symmetries that map the set to itself
        for symmetry in range(num_symmetries):
            num_fixing += move_set(taken, symmetry, tables) == taken
        weight = num_symmetries // num_fixing
        for own in range(1 << stones):  # of player_0
            entry, last = (
                find_entry(i * row, own, layer.words),
                own if stones % 2 == 1 else full ^ own,
            )
            if entry >= 0:
                later[entry] = made[own]
            if not alternates:
                last = own if made[own] & BY_FIRST else full ^ own
            reached = (
                made[last] if alternates else made[last] & (BY_FIRST if last == own else BY_SECOND)
            )
            if reached:
                totals[(1 if last == own else 2) if entry < 0 else 3 if is_full else 0] += weight
                totals[5] += weight * int64(reached) if entry < 0 or is_full else 0
                board = expand(own, taken)
                for symmetry in range(num_symmetries):
                    fixed = move_set(board, symmetry, tables) == board
                    same += fixed and move_set(taken, symmetry, tables) == taken
        totals[4] += same // num_fixing  # Burnside's lemma


def reachable_boards(game: Game) -> NDArray[np.uint8]:
    """Return the status of every board, by its base-3 key: uint8[3**cells], 0 for unreachable
    boards.

    Bit m is set if player m may be the mover; a finished board has ``WON << winner`` or ``DRAWN``.
    """
    statuses = np.zeros(3**game.cells, np.uint8)
    _mark_reachable(np.zeros(game.cells, np.int8), game.parameters, statuses)
    return statuses


@kernel(interpreted=False)
def _mark_reachable(cells: Int8Array, parameters: Parameters, made: NDArray[np.uint8]) -> None:
    """Visit every reachable board, lowest key first, and mark its successors.

    Args:
        cells: int8[cells], the empty board, written.
        parameters: ``Game.parameters``.
        made: uint8[3**cells] of zeros: bit m is set if player m may have made the board, until it
            is visited; then it holds the code of :func:`reachable_boards`.
    """
    made[0] = BY_SECOND
    for board in range(len(made)):
        makers, rest = made[board], board
        if makers == 0:
            continue
        for cell in range(len(cells)):
            cells[cell] = rest % 3
            rest //= 3
        outcome = terminal_outcome(cells, parameters)
        again = makers if parameters.skip_chance > 0 and board > 0 else 0
        made[board] = (
            makers >> 1 | (makers & 1) << 1 | again if outcome == NOT_OVER else WON << outcome
        )
        for mover in range(2):
            step = mover + 1
            for cell in range(len(cells)):
                if (
                    outcome == NOT_OVER
                    and made[board] >> mover & 1
                    and is_legal(cells, cell, parameters)
                ):
                    made[board + step] |= 1 << mover
                step *= 3
