"""Counts of the boards, positions and games that can be reached from the empty board."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from baselines.retrograde.layers import set_tables
from ttt_envs.core.jit import (
    BoolArray,
    Int8Array,
    Int64Array,
    Parameters,
    UInt64Array,
    compiled_at_once_allocating,
    inlined,
    int64,
)
from ttt_envs.game.rules import NOT_OVER, Game, is_legal, skip_chance_of, terminal_outcome_inline
from ttt_envs.game.symmetry import permutation_cycles, symmetries

MAX_CELLS_OF_GAMES = 16
"""Maximum number of cells for which games are counted."""
WON, DRAWN = 4, 16
"""codes of :func:`reachable_boards`: WON << m, player m has won; DRAWN, the board is full without one"""


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


# ---------------------------------------------------------------------------------------------------------------------
# Board by board


def reachable_boards(game: Game) -> NDArray[np.uint8]:
    """Return the status of every board, by its key: uint8[3**cells], 0 for unreachable boards.

    Bit m is set if player m may be the mover; a finished board has ``WON << winner`` or ``DRAWN``.
    """
    found = np.zeros(3**game.cells, np.uint8)
    _mark_reachable(np.zeros(game.cells, np.int8), found, np.zeros(0, np.uint64), game.parameters)
    return found


@inlined
def next_board(cells: Int8Array) -> None:
    """Advance to the board with the next key, in place; there must be one."""
    cell = 0
    while cells[cell] == 2:
        cells[cell] = 0
        cell += 1
    cells[cell] += 1


@compiled_at_once_allocating
def _mark_reachable(cells: Int8Array, made: NDArray[np.uint8], paths: UInt64Array, parameters: Parameters) -> int:
    """Visit every reachable board, lowest key first, and mark its successors.

    Args:
        cells: int8[cells], the empty board, written.
        made: uint8[3**cells] of zeros: bit m is set if player m may have made the board, until it is visited; then it
            holds the code of :func:`reachable_boards`.
        paths: uint64[3**cells] of zeros: number of ways to reach a board; empty if not needed.
        parameters: ``Game.parameters``.

    Returns:
        The number of games, if ``paths`` is given.
    """
    games = np.uint64(0)
    made[0] = 2  # as if player_1 had made the empty board: player_0 moves, and the first turn is never skipped
    if len(paths):
        paths[0] = 1
    for board in range(len(made)):
        if board > 0:
            next_board(cells)
        if made[board] == 0:
            continue
        outcome = terminal_outcome_inline(cells, parameters)
        if outcome != NOT_OVER:
            if len(paths):
                games += paths[board]
            made[board] = WON << outcome
            continue
        movers = 0
        for mover in range(2):
            moves_on = skip_chance_of(parameters) > 0 and board > 0 and made[board] >> mover & 1
            if not moves_on and not made[board] >> (1 - mover) & 1:
                continue
            movers |= 1 << mover
            step = mover + 1
            for cell in range(len(cells)):
                if is_legal(cells, cell, parameters):
                    made[board + step] |= 1 << mover
                    if len(paths):
                        paths[board + step] += paths[board]
                step *= 3
        made[board] = movers
    return int64(games)


# ---------------------------------------------------------------------------------------------------------------------
# By sets of stones


class _Sets(NamedTuple):
    """All sets of cells, bool or int64[2**cells] each."""

    sizes: Int64Array
    is_open: BoolArray
    """without a line"""
    is_won: BoolArray
    """with a line that one stone has just completed"""


def count_positions(game: Game) -> Counts:
    """Count the reachable boards, up to 21 cells within seconds; and up to 16 cells without skips the games.

    The boards of variants are visited one by one, up to 16 cells. A board of the standard game is reachable if neither
    player has a line, in any order of its stones; or if exactly one player has a line, and had none before the last
    stone. Without skips the number of stones determines the last player.

    Raises:
        ValueError: the board of a variant has more than 16 cells.
    """
    if game.variants:
        return _count_one_by_one(game)
    cells, skips = game.cells, game.skip_chance > 0
    sets = _list_sets(game)
    subsets = _count_subsets(sets, cells)
    open_pairs, won_pairs = (_count_pairs(kind, sets.sizes, subsets) for kind in (sets.is_open, sets.is_won))
    o, x = np.indices((cells + 1, cells + 1))  # stones of player_0, who moves first, and of player_1
    has_moved = (o > 0) | (x == 0)
    going = np.where(has_moved & (skips | (o == x) | (o == x + 1)), open_pairs, 0)
    won = np.where(has_moved & (skips | (o == x + 1)), won_pairs, 0)
    lost = np.where(has_moved & (skips | (o == x)), won_pairs.T, 0)
    total, drawn = going + won + lost, int(going[o + x == cells].sum())
    not_over = int(going.sum()) - drawn
    fixed = sum(_count_fixed(game, symmetry, sets, int(total.sum())) for symmetry in symmetries(game))
    return Counts(
        positions_not_over=2 * not_over - 1 if skips else not_over,  # the empty board has one mover
        boards_not_over=not_over,
        boards_over=int(won.sum() + lost.sum()) + drawn,
        won_by_player_0=int(won.sum()),
        won_by_player_1=int(lost.sum()),
        drawn=drawn,
        by_stones=tuple(int(total[o + x == stones].sum()) for stones in range(cells + 1)),
        classes=fixed // len(symmetries(game)),  # Burnside's lemma
        games=None if skips or cells > MAX_CELLS_OF_GAMES else _count_games(game),
    )


def can_count(game: Game) -> bool:
    """Return whether :func:`count_positions` counts a game that can be solved."""
    return not game.variants or game.cells <= MAX_CELLS_OF_GAMES


def _count_one_by_one(game: Game) -> Counts:
    """Do :func:`count_positions` for any rules."""
    if not can_count(game):
        raise ValueError(
            f"the positions of {game} are counted one by one: choose a board of up to {MAX_CELLS_OF_GAMES} cells"
        )
    kinds, paths = np.zeros(3**game.cells, np.uint8), np.zeros(0 if game.skip_chance > 0 else 3**game.cells, np.uint64)
    games = int(_mark_reachable(np.zeros(game.cells, np.int8), kinds, paths, game.parameters))
    by_kind = np.bincount(kinds, minlength=DRAWN + 1)
    reachable = np.flatnonzero(kinds)
    stones, rest = np.zeros(len(reachable), np.int64), reachable.copy()
    for _ in range(game.cells):
        stones += rest % 3 != 0
        rest //= 3
    images = symmetries(game)
    fixed = sum(int(np.count_nonzero(kinds[_fixed_boards(symmetry)])) for symmetry in images)
    not_over = int(by_kind[1:WON].sum())
    return Counts(
        positions_not_over=not_over + int(by_kind[3]),
        boards_not_over=not_over,
        boards_over=len(reachable) - not_over,
        won_by_player_0=int(by_kind[WON]),
        won_by_player_1=int(by_kind[WON << 1]),
        drawn=int(by_kind[DRAWN]),
        by_stones=tuple(np.bincount(stones, minlength=game.cells + 1).tolist()),
        classes=fixed // len(images),  # Burnside's lemma
        games=games if len(paths) else None,
    )


def _fixed_boards(symmetry: Int64Array) -> Int64Array:
    """Return the keys of all boards that a symmetry leaves unchanged."""
    boards = np.zeros(1, np.int64)
    for cycle in permutation_cycles(symmetry):
        step = sum(3**cell for cell in cycle)
        boards = np.concatenate([boards, boards + step, boards + 2 * step])
    return boards


def _count_games(game: Game) -> int:
    made, paths = np.zeros(3**game.cells, np.uint8), np.zeros(3**game.cells, np.uint64)
    return int(_mark_reachable(np.zeros(game.cells, np.int8), made, paths, game.parameters))


def _list_sets(game: Game) -> _Sets:
    ranks, classes = set_tables(game)
    sets = np.arange(1 << game.cells)
    sizes = np.empty(len(sets), np.int64)
    sizes[ranks.sets] = np.repeat(np.arange(game.cells + 1), np.diff(ranks.starts))
    is_open = classes.places >= 0
    is_won = np.zeros(len(sets), np.bool_)
    for cell in range(game.cells):
        is_won |= is_open[sets & ~(1 << cell)] & ~is_open
    return _Sets(sizes, is_open, is_won)


def _count_subsets(sets: _Sets, cells: int) -> NDArray[np.int32]:
    """Return int32[cells + 1, 2**cells]: number of subsets without a line, by size and set, summed cell by cell."""
    found = np.zeros((cells + 1, 1 << cells), np.int32)
    found[sets.sizes[sets.is_open], np.flatnonzero(sets.is_open)] = 1
    for cell in range(cells):
        halves = found.reshape(cells + 1, -1, 2, 1 << cell)
        halves[:, :, 1] += halves[:, :, 0]
    return found


def _count_pairs(kind: BoolArray, sizes: Int64Array, subsets: NDArray[np.int32]) -> Int64Array:
    """Return int64[size of a set of the kind, size of a disjoint set without a line]: the number of pairs."""
    found = np.empty((len(subsets), len(subsets)), np.int64)
    for size in range(len(subsets)):
        left = len(kind) - 1 - np.flatnonzero(kind & (sizes == size))
        found[size] = subsets[:, left].sum(axis=1, dtype=np.int64)
    return found


def _count_fixed(game: Game, symmetry: Int64Array, sets: _Sets, total: int) -> int:
    """Return the number of reachable boards that a symmetry leaves unchanged; the identity leaves all of ``total``."""
    cycles = [sum(1 << cell for cell in cycle) for cycle in permutation_cycles(symmetry)]
    if len(cycles) == game.cells:
        return total
    colours = np.arange(3 ** len(cycles))
    first, second = np.zeros_like(colours), np.zeros_like(colours)
    for cycle in cycles:
        first |= np.where(colours % 3 == 1, cycle, 0)
        second |= np.where(colours % 3 == 2, cycle, 0)
        colours //= 3
    sizes, is_open, is_won = sets
    ahead = sizes[first] - sizes[second]
    skips = game.skip_chance > 0
    has_moved = (sizes[first] > 0) | (sizes[second] == 0)
    going = is_open[first] & is_open[second] & (skips | (ahead == 0) | (ahead == 1))
    won = is_won[first] & is_open[second] & (skips | (ahead == 1))
    lost = is_open[first] & is_won[second] & (skips | (ahead == 0))
    return int(np.count_nonzero(has_moved & (going | won | lost)))
