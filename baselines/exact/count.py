"""Counts of the boards, positions and games that can be reached from the empty board."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ttt_envs.core.jit import Int8Array, Int64Array, compiled_at_once, compiled_nogil_small_allocating, inlined, int64
from ttt_envs.game.bits import count_bits
from ttt_envs.game.game import Game
from ttt_envs.game.parameters import Parameters
from ttt_envs.game.rules import NOT_OVER, is_legal, terminal_outcome_inline
from ttt_envs.graph.numbering import Layer, Numbering, carry, expand, find_entry, find_set, move_set

MAX_CELLS_OF_GAMES = 16
"""Maximum number of cells for which games are counted."""
MAX_COUNTED_CELLS = 21
"""Maximum number of cells for which boards are counted."""
NUM_TOTALS = 6
"""Number of sums of :func:`_count_layer`."""
WON, DRAWN = 4, 16
"""codes of :func:`reachable_boards`: WON << m, player m has won; DRAWN, the board is full without one"""
BY_FIRST, BY_SECOND = 1, 2
"""bits of a board that player_0, or player_1, can have made with the last stone"""


States = NDArray[Any]
"""int8 or int64[N]: how the positions of a layer were reached, see :func:`_count_layer`"""


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
    """sequences of moves from the empty board to an end; None with skips, where play does not alternate, and above 16
    cells"""

    @property
    def boards(self) -> int:
        """All boards, over or not."""
        return self.boards_not_over + self.boards_over


def can_count(game: Game) -> bool:
    """Return whether :func:`count_positions` counts a game that can be solved."""
    return game.cells <= MAX_COUNTED_CELLS


def count_positions(game: Game) -> Counts:
    """Count the reachable boards, by any rules up to 21 cells; and up to 16 cells without skips the games.

    One forward pass over the numbering: a board is reachable if one with a stone less is, on which the player of this
    stone may move. Each set of taken cells stands for its symmetric sets.

    Raises:
        ValueError: the board is larger.
    """
    if not can_count(game):
        raise ValueError(f"the positions of {game} are not counted: choose a board of up to {MAX_COUNTED_CELLS} cells")
    numbering, skips = Numbering(game), game.skip_chance > 0
    # player_0 moves first and is never skipped, as if player_1 had made the empty board
    states = np.array([BY_SECOND], np.int8) if skips else np.ones(1, np.int64)
    totals: Int64Array = np.zeros((game.cells + 1, NUM_TOTALS), np.int64)
    totals[0] = 1, 0, 0, 0, 1, 0
    for stones in range(1, game.cells + 1):
        before, layer = numbering.layer(stones - 1), numbering.layer(stones)
        later = np.zeros(layer.size, states.dtype)
        _count_layer(before, layer, game.cells, not skips, skips and stones > 1, states, later, totals[stones])
        states = later
    going, first, second, drawn, classes, games = totals.sum(axis=0).tolist()
    return Counts(
        positions_not_over=2 * going - 1 if skips else going,  # the empty board has one mover
        boards_not_over=going,
        boards_over=first + second + drawn,
        won_by_player_0=second if game.misere else first,
        won_by_player_1=first if game.misere else second,
        drawn=drawn,
        by_stones=tuple(totals[:, :4].sum(axis=1).tolist()),
        classes=classes,
        games=None if skips or game.cells > MAX_CELLS_OF_GAMES else games,
    )


@compiled_nogil_small_allocating
def _count_layer(
    before: Layer,
    layer: Layer,
    cells: int,
    alternates: bool,
    skips: bool,
    states: States,
    later: States,
    totals: Int64Array,
) -> None:
    """Find the reachable positions of a layer from those of the layer before, and add up boards.

    Args:
        before, layer: the layers.
        cells: number of cells.
        alternates: whether play alternates. Then a state is the number of games that lead to a position; else it is
            bits, ``BY_FIRST`` and ``BY_SECOND``: the player who can have put the last stone.
        skips: whether the last player may move again.
        states: of the layer before.
        later: written, of zeros.
        totals: int64[NUM_TOTALS]: boards in progress, with a line of player_0, of player_1, full; classes; games.
    """
    stones = layer.stones
    row, row_before = max(1, (1 << stones) >> 5), max(1, (1 << (stones - 1)) >> 5)
    half, full = (stones + 1) // 2, (int64(1) << stones) - 1
    mask, num_symmetries = (int64(1) << half) - 1, len(layer.tables.low_images)
    bits, low, high = (
        np.empty(stones, np.int64),
        np.empty(1 << half, np.int32),
        np.empty(1 << (stones - half), np.int32),
    )
    found, fixing = np.empty(1 << stones, states.dtype), np.empty(num_symmetries, np.int64)
    maker = BY_FIRST if stones % 2 == 1 else BY_SECOND
    for i in range(len(layer.sets)):
        taken = layer.sets[i]
        found[:] = 0
        for k in range(stones):
            stone = expand(int64(1) << k, taken)
            j, symmetry = find_set(taken ^ stone, before)
            if j < 0:  # with gravity, another stone lies on it
                continue
            carry(taken, before.sets[j], symmetry, layer.tables, bits, low, high)
            for own in range(1 << stones):
                if own >> k & 1 == 0 or (alternates and count_bits(own) != half):
                    continue
                other, rest = full ^ own, own ^ (1 << k)
                entry = find_entry(j * row_before, int64(low[other & mask] | high[other >> half]), before.words)
                if entry >= 0 and alternates:
                    found[own] += states[entry]
                elif entry >= 0:
                    found[own] |= states[entry] >> 1 | (states[entry] & 1) << 1
                if skips:
                    entry = find_entry(j * row_before, int64(low[rest & mask] | high[rest >> half]), before.words)
                    if entry >= 0:
                        found[own] |= states[entry]
        num_fixing = 0
        for symmetry in range(num_symmetries):
            if move_set(taken, symmetry, layer.tables) == taken:
                fixing[num_fixing] = symmetry
                num_fixing += 1
        weight = num_symmetries // num_fixing
        for first in range(1 << stones):  # the stones of player_0
            by_first, by_second = int64(found[first]), int64(found[full ^ first])
            if alternates:
                by_first, by_second = (by_first, int64(0)) if maker == BY_FIRST else (int64(0), by_second)
            elif by_first & BY_FIRST:
                by_second = int64(0)  # the same board, made by the other player
            else:
                by_first, by_second = int64(0), by_second & BY_SECOND
            if by_first | by_second == 0:
                continue
            last = first if by_first else full ^ first
            entry = find_entry(i * row, last, layer.words)
            totals[(1 if by_first else 2) if entry < 0 else 3 if stones == cells else 0] += weight
            totals[4] += _is_least(first, taken, fixing[:num_fixing], layer)
            if alternates and (entry < 0 or stones == cells):
                totals[5] += weight * (by_first + by_second)
            if entry >= 0:
                later[entry] = found[last]
                if not alternates and found[full ^ last]:
                    later[find_entry(i * row, full ^ last, layer.words)] = found[full ^ last]


@inlined
def _is_least(pattern: int, taken: int, fixing: Int64Array, layer: Layer) -> int:
    """Return 1 if none of the symmetries that fix a set leads a pattern to a smaller one, else 0."""
    stones = expand(pattern, taken)
    for symmetry in fixing[1:]:
        if move_set(stones, symmetry, layer.tables) < stones:
            return 0
    return 1


def reachable_boards(game: Game) -> NDArray[np.uint8]:
    """Return the status of every board, by its base-3 key: uint8[3**cells], 0 for unreachable boards.

    Bit m is set if player m may be the mover; a finished board has ``WON << winner`` or ``DRAWN``.
    """
    statuses = np.zeros(3**game.cells, np.uint8)
    _mark_reachable(np.zeros(game.cells, np.int8), game.parameters, statuses)
    return statuses


@compiled_at_once
def _mark_reachable(cells: Int8Array, parameters: Parameters, made: NDArray[np.uint8]) -> None:
    """Visit every reachable board, lowest key first, and mark its successors.

    Args:
        cells: int8[cells], the empty board, written.
        parameters: ``Game.parameters``.
        made: uint8[3**cells] of zeros: bit m is set if player m may have made the board, until it is visited; then it
            holds the code of :func:`reachable_boards`.
    """
    made[0] = BY_SECOND
    for board in range(len(made)):
        if board > 0:
            cell = 0
            while cells[cell] == 2:
                cells[cell] = 0
                cell += 1
            cells[cell] += 1
        if made[board] == 0:
            continue
        outcome = terminal_outcome_inline(cells, parameters)
        if outcome != NOT_OVER:
            made[board] = WON << outcome
            continue
        movers = 0
        for mover in range(2):
            moves_on = parameters.skip_chance > 0 and board > 0 and made[board] >> mover & 1
            if not moves_on and not made[board] >> (1 - mover) & 1:
                continue
            movers |= 1 << mover
            step = mover + 1
            for cell in range(len(cells)):
                if is_legal(cells, cell, parameters):
                    made[board + step] |= 1 << mover
                step *= 3
        made[board] = movers
