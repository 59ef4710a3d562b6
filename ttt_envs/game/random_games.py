"""Complete random games, millions per second, for statistics of the rules and the skips."""

from __future__ import annotations

import numpy as np

from ttt_envs.core.jit import Int64Array, Parameters, compiled_nogil, compiled_nogil_allocating, int64
from ttt_envs.core.random import draw_key, splitmix64, uniform
from ttt_envs.core.threads import Threads, count_threads, map_threads
from ttt_envs.game.bits import NUM_STANDARD, line_in
from ttt_envs.game.rules import (
    DRAW,
    NOT_OVER,
    STREAM_OPPONENT,
    STREAM_SKIP,
    Game,
    next_mover,
    nth_legal_cell,
    outcome_of_move,
    play,
    skip_chance_of,
)

NUM_LANES = 64
"""Number of simultaneous games."""
BLOCK_MOVES = 1 << 20
"""Maximum number of moves per call of the kernel, a few hundredths of a second."""
_SMALL = 16  # maximum number of cells whose order fits into one integer, four bits per cell


def random_results(game: Game, games: int, seed: int, *, threads: Threads = 1) -> tuple[int, int, int]:
    """Play random games and return (player_0's wins, player_1's wins, draws); compiled.

    Args:
        game: the game.
        games: number of games.
        seed: seed of all random numbers.
        threads: number of threads, see :mod:`ttt_envs.core.threads`; the result does not depend on it.

    Raises:
        ValueError: a negative number of games, or an invalid number of threads.
    """
    if games < 0:
        raise ValueError(f"games={games} is negative: choose 0 or more")
    key = draw_key(np.random.default_rng(seed))

    def play_block(_: int, block: slice) -> Int64Array:
        results = np.zeros(3, np.int64)
        random_games(block.start, block.stop, key, game.parameters, results)
        return results

    size = BLOCK_MOVES // game.cells
    blocks = (slice(start, min(start + size, games)) for start in range(0, games, size))
    num_threads = min(count_threads(threads), max(1, -(-games // size)))
    results = sum(map_threads(play_block, blocks, num_threads), start=np.zeros(3, np.int64))
    return int(results[0]), int(results[1]), int(results[2])


@compiled_nogil
def random_games(first: int, last: int, key: np.uint64, parameters: Parameters, results: Int64Array) -> int:
    """Play uniformly random games.

    Args:
        first, last: the games ``first`` to ``last`` - 1 are played.
        key: uint64; game ``i`` is episode ``i``.
        parameters: ``Game.parameters``.
        results: int64[3], to which player_0's wins, player_1's wins and draws are added.

    Returns:
        The number of moves played.
    """
    if len(parameters) != NUM_STANDARD:
        return _by_legal_cells(first, last, key, parameters, results)
    if parameters[0] * parameters[1] <= _SMALL:
        return _side_by_side(first, last, key, parameters, results)
    return _one_by_one(first, last, key, parameters, results)


@compiled_nogil_allocating
def _side_by_side(first_game: int, last_game: int, key: np.uint64, parameters: Parameters, results: Int64Array) -> int:
    """Do :func:`random_games` on a small board: ``NUM_LANES`` games at once, without data-dependent branches.

    Lane l plays the games ``first_game`` + l, + l + ``NUM_LANES`` and so on; games from ``last_game`` on are played
    and not counted.
    """
    size = parameters[0] * parameters[1]
    rows = np.zeros((8, NUM_LANES), np.int64)
    first, second, mover, stones = rows[0], rows[1], rows[2], rows[3]
    number, cell_of, turn, over = rows[4], rows[5], rows[6], rows[7]
    empty, episode_keys = np.zeros(NUM_LANES, np.uint64), np.zeros(NUM_LANES, np.uint64)
    all_empty = np.uint64(0)  # the empty cells, four bits each; the last one replaces the chosen one
    for cell in range(size):
        all_empty |= np.uint64(cell) << np.uint64(4 * cell)
    for b in range(NUM_LANES):
        empty[b] = all_empty
        number[b] = first_game + b
        episode_keys[b] = splitmix64(key, number[b])
    one, four, fifteen = np.uint64(1), np.uint64(4), np.uint64(15)
    moves, finished = 0, 0
    while finished < last_game - first_game:
        for b in range(NUM_LANES):
            left = size - stones[b]
            cells = empty[b]
            at = np.uint64(int(uniform(episode_keys[b], STREAM_OPPONENT, stones[b]) * left)) * four
            last = cells >> (np.uint64(left) - one) * four & fifteen
            cell_of[b] = int64(cells >> at & fifteen)
            empty[b] = cells & ~(fifteen << at) | last << at
        for b in range(NUM_LANES):
            turn[b] = 1
        if skip_chance_of(parameters) > 0:
            for b in range(NUM_LANES):
                turn[b] = next_mover(0, uniform(episode_keys[b], STREAM_SKIP, stones[b]), parameters)
        for b in range(NUM_LANES):
            player, of_first, of_second, placed = mover[b], first[b], second[b], stones[b] + 1
            bit = int64(1) << cell_of[b]
            own = of_first ^ ((of_first ^ of_second) & -player) | bit
            result = outcome_of_move(line_in(own, parameters), player, placed, parameters)
            first[b] = of_first | bit & (player - 1)
            second[b] = of_second | bit & -player
            stones[b] = placed
            over[b] = result
            mover[b] = player ^ (turn[b] & int64(result == NOT_OVER))
        first_won, second_won, drawn = 0, 0, 0
        for b in range(NUM_LANES):
            counts = int64(number[b] < last_game)
            moves += counts
            first_won += counts & int64(over[b] == 0)
            second_won += counts & int64(over[b] == 1)
            drawn += counts & int64(over[b] == DRAW)
        results[0] += first_won
        results[1] += second_won
        results[DRAW] += drawn
        finished += first_won + second_won + drawn
        for b in range(NUM_LANES):
            ended = int64(over[b] != NOT_OVER)
            following, current = number[b] + ended * NUM_LANES, episode_keys[b]
            fresh = splitmix64(key, following)
            number[b] = following
            episode_keys[b] = fresh if ended else current
        for b in range(NUM_LANES):
            keep, cells = -int64(over[b] == NOT_OVER), empty[b]
            whose, placed, of_first, of_second = mover[b] & keep, stones[b] & keep, first[b] & keep, second[b] & keep
            mover[b], stones[b], first[b], second[b] = whose, placed, of_first, of_second
            empty[b] = cells if keep else all_empty
    return moves


@compiled_nogil_allocating
def _one_by_one(first_game: int, last_game: int, key: np.uint64, parameters: Parameters, results: Int64Array) -> int:
    """Do :func:`random_games` on a board of any size."""
    size = parameters[0] * parameters[1]
    cells = np.zeros(size, np.int8)
    empty = np.empty(size, np.int64)
    moves = 0
    for game in range(first_game, last_game):
        episode_key = splitmix64(key, game)
        cells[:] = 0
        for cell in range(size):
            empty[cell] = cell
        mover = 0
        outcome = NOT_OVER
        stones = 0
        while outcome == NOT_OVER:
            left = size - stones
            chosen = int(uniform(episode_key, STREAM_OPPONENT, stones) * left)
            cell = empty[chosen]
            empty[chosen] = empty[left - 1]
            outcome, mover = play(cells, mover, cell, stones, episode_key, parameters)
            stones += 1
        moves += stones
        results[outcome] += 1
    return moves


@compiled_nogil_allocating
def _by_legal_cells(
    first_game: int, last_game: int, key: np.uint64, parameters: Parameters, results: Int64Array
) -> int:
    """Do :func:`random_games` where not every empty cell is legal, or lines are unusual."""
    cells = np.zeros(parameters[0] * parameters[1], np.int8)
    moves = 0
    for game in range(first_game, last_game):
        episode_key = splitmix64(key, game)
        cells[:] = 0
        mover = 0
        outcome = NOT_OVER
        stones = 0
        while outcome == NOT_OVER:
            cell = nth_legal_cell(cells, uniform(episode_key, STREAM_OPPONENT, stones), parameters)
            outcome, mover = play(cells, mover, cell, stones, episode_key, parameters)
            stones += 1
        moves += stones
        results[outcome] += 1
    return moves
