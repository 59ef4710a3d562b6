"""Counts of the boards, positions and games that can be reached from the empty board."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ttt_envs.core.checks import Refusal
from ttt_envs.core.jit import Int8Array, Int64Array, inlined, int64, kernel
from ttt_envs.game.bits import all_bits, count_bits
from ttt_envs.game.game import Game
from ttt_envs.game.parameters import Parameters
from ttt_envs.game.rules import NOT_OVER, is_legal, terminal_outcome
from ttt_envs.graph.numbering import (
    CarryTables,
    NumberedLayer,
    Numbering,
    Values,
    carry,
    carry_pattern,
    empty_carry_tables,
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
ONGOING, LINE_OF_FIRST, LINE_OF_SECOND, FULL, CLASSES, GAMES = range(6)
"""columns of totals: boards in progress, with a line of player_0, of player_1, full without one;
classes of boards; games that have ended
"""


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
            f"the positions of {game} are not counted: choose a board of up to "
            f"{MAX_COUNTED_CELLS} cells"
        )
    numbering = Numbering(game)
    has_skips = game.skip_chance > 0
    # player_0 moves first and is never skipped, as if player_1 had made the empty board
    states = np.array([BY_SECOND], np.int8) if has_skips else np.ones(1, np.int64)
    totals: Int64Array = np.zeros((game.cells + 1, 6), np.int64)
    totals[0, [ONGOING, CLASSES]] = 1
    for stones in range(1, game.cells + 1):
        layer = numbering.layer(stones)
        next_states = np.zeros(layer.size, states.dtype)
        previous_layer = numbering.layer(stones - 1)
        is_full = stones == game.cells
        _count_layer(previous_layer, layer, is_full, states, next_states, totals[stones])
        states = next_states
    ongoing, first, second, drawn, classes, games = totals.sum(axis=0).tolist()
    is_counted = not has_skips and game.cells <= MAX_CELLS_OF_GAMES
    return Counts(
        positions_not_over=2 * ongoing - 1 if has_skips else ongoing,  # the empty board has 1 mover
        boards_not_over=ongoing,
        boards_over=first + second + drawn,
        won_by_player_0=second if game.misere else first,
        won_by_player_1=first if game.misere else second,
        drawn=drawn,
        by_stones=tuple(totals[:, : FULL + 1].sum(axis=1).tolist()),
        classes=classes,
        games=games if is_counted else None,
    )


@inlined
def _exchange_makers(makers: int) -> int:
    """Return the bits of both players exchanged."""
    return makers >> 1 | (makers & 1) << 1


@inlined
def _add_stone(
    stones: int,
    k: int,
    alternates: bool,
    start: int,
    words: Int64Array,
    carried: CarryTables,
    states: Values,
    out: Values,
) -> None:
    """Add what leads to the patterns of a set by its stone ``k``: the games where play alternates,
    else the players who can have put the stone.

    Args:
        stones: number of stones of the set.
        k: the stone.
        alternates: whether the players alternate, without skips.
        start, words: of the set without the stone, in the layer before.
        carried: the tables that carry patterns there.
        states: of the layer before, as of :func:`_count_layer`.
        out: [2**stones], by the pattern of the owner of the stone, written.
    """
    full = all_bits(stones)
    for own in range(1 << stones):
        if own >> k & 1 == 0:
            continue
        if alternates and count_bits(own) != (stones + 1) // 2:
            continue
        entry = find_entry(start, carry_pattern(full ^ own, stones, carried), words)
        if entry >= 0 and alternates:
            out[own] += states[entry]
        elif entry >= 0:
            out[own] |= _exchange_makers(states[entry])
        if stones > 1 and not alternates:
            entry = find_entry(start, carry_pattern(own ^ (1 << k), stones, carried), words)
            if entry >= 0:
                out[own] |= states[entry]


@inlined
def _column(entry: int, is_full: bool, by_first: bool) -> int:
    """Return the column of totals of a board; ``entry`` is -1 if it has a line, and ``by_first``
    whether player_0 has put the last stone.
    """
    if entry < 0:
        return LINE_OF_FIRST if by_first else LINE_OF_SECOND
    return FULL if is_full else ONGOING


@kernel(nogil=True, allocates=True)
def _count_layer(
    previous_layer: NumberedLayer,
    layer: NumberedLayer,
    is_full: bool,
    states: Values,
    next_states: Values,
    totals: Int64Array,
) -> None:
    """Find the reachable positions of a layer from those of the layer before, and add up boards.

    Args:
        previous_layer, layer: the layers.
        is_full: whether the board is full.
        states: of the layer before. Without skips, int64: the number of games that lead to a
            position. With skips, int8: bits ``BY_FIRST`` and ``BY_SECOND``, the player who can have
            put the last stone.
        next_states: of the layer, written, of zeros.
        totals: int64[6], by ``ONGOING`` to ``GAMES``.
    """
    stones = layer.stones
    tables = layer.tables
    alternates = states.itemsize == 8
    num_symmetries = len(tables.low_images)
    carried = empty_carry_tables(stones)
    set_states = np.empty(1 << stones, states.dtype)
    for i in range(len(layer.sets)):
        cell_set = layer.sets[i]
        set_states[:] = 0
        for k in range(stones):
            j, symmetry = find_set(cell_set ^ expand(int64(1) << k, cell_set), previous_layer)
            if j < 0:  # with gravity, another stone lies on it
                continue
            carry(cell_set, previous_layer.sets[j], symmetry, tables, carried)
            start = j * words_per_set(stones - 1)
            words = previous_layer.words
            _add_stone(stones, k, alternates, start, words, carried, states, set_states)
        num_fixing = 0  # symmetries that map the set to itself
        for symmetry in range(num_symmetries):
            num_fixing += move_set(cell_set, symmetry, tables) == cell_set
        weight = num_symmetries // num_fixing
        num_fixed = 0  # boards of the set, by each symmetry that maps it to itself
        for own in range(1 << stones):  # of player_0
            other = all_bits(stones) ^ own
            entry = find_entry(i * words_per_set(stones), own, layer.words)
            if entry >= 0:
                next_states[entry] = set_states[own]
            by_first = stones % 2 == 1 if alternates else set_states[own] & BY_FIRST != 0
            reached = set_states[own] if by_first else set_states[other]
            if not alternates:
                reached &= BY_FIRST if by_first else BY_SECOND
            if not reached:
                continue
            column = _column(entry, is_full, by_first)
            totals[column] += weight
            if column != ONGOING:
                totals[GAMES] += weight * int64(reached)
            board = expand(own, cell_set)
            for symmetry in range(num_symmetries):
                if move_set(cell_set, symmetry, tables) == cell_set:
                    num_fixed += move_set(board, symmetry, tables) == board
        totals[CLASSES] += num_fixed // num_fixing  # Burnside's lemma


def reachable_boards(game: Game) -> NDArray[np.uint8]:
    """Return the status of every board, by its base-3 key: uint8[3**cells], 0 for unreachable
    boards.

    Bit m is set if player m may be the mover; a finished board has ``WON << winner`` or ``DRAWN``.
    """
    statuses = np.zeros(3**game.cells, np.uint8)
    _mark_reachable(np.zeros(game.cells, np.int8), game.parameters, statuses)
    return statuses


@inlined
def _mark_successors(
    board: int, cells: Int8Array, parameters: Parameters, statuses: NDArray[np.uint8]
) -> None:
    """Mark the boards to which a move of a possible mover leads, as made by this player."""
    for mover in range(2):
        step = mover + 1
        for cell in range(len(cells)):
            if statuses[board] >> mover & 1 and is_legal(cells, cell, parameters):
                statuses[board + step] |= 1 << mover
            step *= 3


@kernel(interpreted=False)
def _mark_reachable(cells: Int8Array, parameters: Parameters, statuses: NDArray[np.uint8]) -> None:
    """Visit every reachable board, lowest key first, and mark its successors.

    Args:
        cells: int8[cells], the empty board, written.
        parameters: ``Game.parameters``.
        statuses: uint8[3**cells] of zeros: bit m is set if player m may have made the board, until
            it is visited; then it holds the code of :func:`reachable_boards`.
    """
    statuses[0] = BY_SECOND
    for board in range(len(statuses)):
        makers = statuses[board]
        if makers == 0:
            continue
        digits = board
        for cell in range(len(cells)):
            cells[cell] = digits % 3
            digits //= 3
        outcome = terminal_outcome(cells, parameters)
        if outcome != NOT_OVER:
            statuses[board] = WON << outcome
            continue
        statuses[board] = _exchange_makers(makers)
        if parameters.skip_chance > 0 and board > 0:
            statuses[board] |= makers
        _mark_successors(board, cells, parameters, statuses)
