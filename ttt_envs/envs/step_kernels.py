"""The kernels of :mod:`ttt_envs.envs.lockstep`: one step of B simultaneous games.

On boards that fit into bits the vectorised step is branch-free, except where the opponent moves again after a skip.
Games differ, so data-dependent branches are mispredicted, and each misprediction costs as much as a move. Loops without
branches are compiled to vector instructions, eight games at once.
So every game computes everything (own move, reply, lines, results and rewards) and masks out inapplicable results.

The numbers of a game are a column of one array int64[``ROWS``, :func:`stride`]. Up to ``MAX_CELLS_IN_BITS`` cells, the
stones are two of these numbers, as bits; larger boards keep cells int8[B, rows * columns] and are stepped one by one.
The number of dimensions of ``cells``, two or one, selects the case by type: numba compiles only the branches taken.
"""

from __future__ import annotations

import numpy as np

from ttt_envs.core.jit import (
    BoolArray,
    Float64Array,
    Int8Array,
    Int64Array,
    Parameters,
    UInt64Array,
    compiled,
    inlined,
    int8,
    int64,
)
from ttt_envs.core.random import splitmix64, uniform
from ttt_envs.game.bits import count_bits, line_in, nth_bit
from ttt_envs.game.rules import (
    NOT_OVER,
    STREAM_OPPONENT,
    STREAM_SEAT,
    STREAM_SKIP,
    STREAM_SYMMETRY,
    from_kernel_args,
    is_legal,
    legal_bits,
    mover_after,
    next_mover,
    nth_empty_cell,
    outcome_of_move,
    play,
    skip_chance_of,
)

FORFEIT, TRUNCATED = 3, 5  # outcomes in addition to those of the rules: FORFEIT + the loser, TRUNCATED
LOSE, PENALIZE, RAISE = range(3)  # consequences of an illegal action
FIRST_SEAT, SECOND_SEAT, RANDOM_SEAT, ALTERNATE_SEAT, BOTH_SEATS = range(5)  # the caller's seat
RESET_NONE, RESET_FINISHED, RESET_GIVEN = range(3)  # games that a step resets
REPLY_NONE, REPLY_RANDOM, REPLY_POLICY = range(3)  # replies: none (self-play), uniformly random, by a policy's own code

# The rows; every step returns the first ``INFO_ROWS``, the last two are the bits of uint64.
MOVER, SEAT, OUTCOME, WINNER, DONE, RESET, STONES, EPISODE, SYMMETRY, NUM_ILLEGAL, FIRST, SECOND = range(12)
OWN, OTHER, FREE = range(12, 15)  # scratch
KEY, EPISODE_KEY = range(15, 17)
INFO_ROWS, ROWS = 4, 17

# Settings in one int64 array: number of games, the settings above, and the game.
COUNT, SEATS, ILLEGAL_ACTION, REPLIES, GAME = range(5)


def stride(count: int) -> int:
    """Return the length of a row for ``count`` games: an odd number of cache lines.

    With a power of two, all numbers of a game would fall into the same set of the 8-way cache.
    """
    return ((count + 7) // 8 | 1) * 8


_SPREAD = np.uint64(0x8040201008040201)  # byte i has bit i
_ONES = np.uint64(0x0101010101010101)
_SEVENS = np.uint64(0x7F7F7F7F7F7F7F7F)


# ---------------------------------------------------------------------------------------------------------------------
# Bits


@inlined
def _pack_bits(count: int, numbers: Int64Array, size: int, words: UInt64Array) -> None:
    """Append the lowest ``size`` bits of each number of int64[F, B] to a bit stream ``words``, game by game."""
    word, filled, at = np.uint64(0), 0, 0
    for b in range(count):
        for i in range(numbers.shape[0]):
            bits = np.uint64(numbers[i, b])
            word |= bits << np.uint64(filled)
            filled += size
            if filled >= 64:  # depends on the board size, not on the games: well predicted
                words[at] = word
                at += 1
                filled -= 64
                word = (bits >> np.uint64(1)) >> np.uint64(size - filled - 1)  # two shifts: a shift by 64 is undefined
    words[at] = word


@inlined
def _bits_to_bytes(packed: UInt64Array, out: UInt64Array) -> None:
    """Write a byte, 0 or 1, for each bit of a stream."""
    bytes_of = packed.view(np.uint8)
    for i in range(len(out)):
        some = (np.uint64(bytes_of[i]) * _ONES) & _SPREAD
        out[i] = ((some + _SEVENS) >> np.uint64(7)) & _ONES


# ---------------------------------------------------------------------------------------------------------------------
# The parts of a step


@inlined
def _reset(count: int, cells: Int8Array, rows: Int64Array, images: int, seats: int) -> None:
    """Begin the next episode where ``RESET`` is 1: empty the board, set the episode's seat and symmetry."""
    mover, seat, outcome, over, begun = rows[MOVER], rows[SEAT], rows[OUTCOME], rows[DONE], rows[RESET]
    stones, episode, illegals, first, second = rows[STONES], rows[EPISODE], rows[NUM_ILLEGAL], rows[FIRST], rows[SECOND]
    key, luck = rows[KEY], rows[EPISODE_KEY]
    for b in range(count):  # several loops: with many arrays per loop the compiler vectorises less
        keep = begun[b] - 1  # all ones, or 0 where a game begins
        whose, placed, of_first, of_second = mover[b] & keep, stones[b] & keep, first[b] & keep, second[b] & keep
        mover[b], stones[b], first[b], second[b] = whose, placed, of_first, of_second
    for b in range(count):
        keep = begun[b] - 1
        ended, refused, result = over[b] & keep, illegals[b] & keep, outcome[b] | ~keep  # NOT_OVER is -1
        over[b], illegals[b], outcome[b] = ended, refused, result
    for b in range(count):
        number = episode[b] + begun[b]
        drawn = int64(splitmix64(np.uint64(key[b]), number))
        kept = luck[b]
        episode[b] = number
        luck[b] = drawn if begun[b] else kept
    if seats == RANDOM_SEAT:
        for b in range(count):
            drawn_seat = int(uniform(np.uint64(luck[b]), STREAM_SEAT, 0) * 2)
            seat[b] = drawn_seat if begun[b] else seat[b]
    elif seats == ALTERNATE_SEAT:
        for b in range(count):
            seat[b] = episode[b] % 2 if begun[b] else seat[b]
    else:
        for b in range(count):
            seat[b] = seats % 2 if begun[b] else seat[b]  # in self-play the first seat begins
    if images > 1:
        image = rows[SYMMETRY]
        for b in range(count):
            drawn_image = int(uniform(np.uint64(luck[b]), STREAM_SYMMETRY, 0) * images)
            image[b] = drawn_image if begun[b] else image[b]
    if cells.ndim == 2:
        for b in range(count):
            if begun[b]:
                for cell in range(cells.shape[1]):
                    cells[b, cell] = 0


@inlined
def _draw_skips(count: int, rows: Int64Array, luck: Int64Array, parameters: Parameters, out: Int64Array) -> None:
    """Write into ``out`` 1 where the other player moves after the next stone, 0 where that turn is skipped."""
    stones = rows[STONES]
    for b in range(count):
        out[b] = 1
    if skip_chance_of(parameters) > 0:
        for b in range(count):
            out[b] = next_mover(0, uniform(np.uint64(luck[b]), STREAM_SKIP, stones[b]), parameters)


@inlined
def _put(
    b: int,
    bit: int,
    moves: int,
    turn: int,
    parameters: Parameters,
    first: Int64Array,
    second: Int64Array,
    mover: Int64Array,
    stones: Int64Array,
    outcome: Int64Array,
) -> None:
    """Put the mover's stone on the empty cell ``bit`` where ``moves`` is 1: ``rules.play`` of game ``b`` in bits."""
    # All reads come before the writes and none is conditional: otherwise the loop is not vectorised.
    player, before, placed = mover[b], outcome[b], stones[b]
    of_first, of_second = first[b], second[b]
    own = of_first ^ ((of_first ^ of_second) & -player) | bit
    result = outcome_of_move(line_in(own, parameters), player, placed + 1, parameters)
    put = bit & -moves
    first[b] = of_first | put & (player - 1)
    second[b] = of_second | put & -player
    stones[b] = placed + moves
    outcome[b] = before ^ ((before ^ result) & -moves)
    mover[b] = player ^ (moves & turn & int64(result == NOT_OVER))


@inlined
def _is_legal_in(b: int, cell: int, cells: Int8Array, rows: Int64Array, parameters: Parameters) -> bool:
    """Like ``rules.is_legal``, in game ``b``."""
    if cells.ndim == 2:
        return is_legal(cells[b], cell, parameters)
    return legal_bits(rows[FIRST, b], rows[SECOND, b], parameters) >> cell & 1 != 0


@inlined
def _move(
    cells: Int8Array,
    rows: Int64Array,
    luck: Int64Array,
    actions: Int64Array,
    permutations: Int64Array,
    seats: int,
    illegal_action: int,
    parameters: Parameters,
    rewards: Float64Array,
) -> None:
    """Make the caller's moves in games in progress that have not just begun."""
    mover, seat, outcome, begun, stones = rows[MOVER], rows[SEAT], rows[OUTCOME], rows[RESET], rows[STONES]
    image, illegals, first, second = rows[SYMMETRY], rows[NUM_ILLEGAL], rows[FIRST], rows[SECOND]
    turn, cell_of = rows[OWN], rows[OTHER]  # scratch until _show
    count = len(actions)
    size = permutations.shape[1]
    loses = int64(illegal_action == LOSE)
    if len(permutations) > 1:
        for b in range(count):
            cell_of[b] = permutations[image[b], actions[b]]
    else:
        for b in range(count):
            cell_of[b] = actions[b]
    if seats == BOTH_SEATS:
        for b in range(count):
            seat[b] = mover[b] if (outcome[b] == NOT_OVER) & (begun[b] == 0) else seat[b]
    if cells.ndim == 2:
        for b in range(count):
            rewards[b] = 0.0
            if outcome[b] == NOT_OVER and begun[b] == 0:
                if not is_legal(cells[b], cell_of[b], parameters):
                    rewards[b] = loses - 1.0
                    illegals[b] += 1
                    truncated = TRUNCATED if illegals[b] >= size else NOT_OVER
                    outcome[b] = FORFEIT + mover[b] if loses else truncated
                else:
                    drawn = np.uint64(luck[b])
                    outcome[b], mover[b] = play(cells[b], mover[b], cell_of[b], stones[b], drawn, parameters)
                    stones[b] += 1
        return
    _draw_skips(count, rows, luck, parameters, turn)
    refused = int64(0)
    for b in range(count):
        playing = int64(outcome[b] == NOT_OVER) & (begun[b] ^ 1)
        moves = playing & legal_bits(first[b], second[b], parameters) >> cell_of[b]
        _put(b, int64(1) << cell_of[b], moves, turn[b], parameters, first, second, mover, stones, outcome)
        rewards[b] = float(moves - playing)
        refused += playing ^ moves
    if refused > 0:  # rare, and then for all games
        for b in range(count):
            bad = int64(rewards[b] < 0)
            illegals[b] += bad
            truncated = TRUNCATED if illegals[b] >= size else NOT_OVER
            worth = FORFEIT + mover[b] if loses else truncated
            outcome[b] = worth if bad else outcome[b]
            rewards[b] *= 1 - loses


@inlined
def _reply(
    b: int,
    turn: int,
    parameters: Parameters,
    first: Int64Array,
    second: Int64Array,
    mover: Int64Array,
    seat: Int64Array,
    stones: Int64Array,
    outcome: Int64Array,
    luck: Int64Array,
) -> None:
    """Make a uniformly random move where the opponent is to move, with the random number of ``act_in_episodes``."""
    games_to_reply = int64(outcome[b] == NOT_OVER) & int64(mover[b] != seat[b])
    legal = legal_bits(first[b], second[b], parameters)
    cell = nth_bit(legal, int(uniform(np.uint64(luck[b]), STREAM_OPPONENT, stones[b]) * count_bits(legal)))
    _put(b, int64(1) << cell, games_to_reply, turn, parameters, first, second, mover, stones, outcome)


@inlined
def _reply_at_random(count: int, cells: Int8Array, rows: Int64Array, luck: Int64Array, parameters: Parameters) -> None:
    """Make the replies of a uniformly random opponent, until it is to move in no game."""
    mover, seat, outcome, stones = rows[MOVER], rows[SEAT], rows[OUTCOME], rows[STONES]
    first, second, turn = rows[FIRST], rows[SECOND], rows[OWN]
    if cells.ndim == 2:
        for b in range(count):
            while outcome[b] == NOT_OVER and mover[b] != seat[b]:
                cell = nth_empty_cell(cells[b], uniform(np.uint64(luck[b]), STREAM_OPPONENT, stones[b]))
                outcome[b], mover[b] = play(cells[b], mover[b], cell, stones[b], np.uint64(luck[b]), parameters)
                stones[b] += 1
        return
    _draw_skips(count, rows, luck, parameters, turn)
    for b in range(count):
        _reply(b, turn[b], parameters, first, second, mover, seat, stones, outcome, luck)
    if skip_chance_of(parameters) > 0:  # few games, those with a skipped turn: the opponent moves again
        for b in range(count):
            while outcome[b] == NOT_OVER and mover[b] != seat[b]:
                again = mover_after(int64(0), np.uint64(luck[b]), stones[b], parameters)
                _reply(b, again, parameters, first, second, mover, seat, stones, outcome, luck)


@inlined
def _won_by(outcome: int) -> tuple[int, int]:
    """Return for each player 1 if this outcome is a win, else 0."""
    first_won = int64(outcome == 0) | int64(outcome == FORFEIT + 1)
    second_won = int64(outcome == 1) | int64(outcome == FORFEIT)
    return first_won, second_won


@inlined
def _finish_step(rows: Int64Array, rewards: Float64Array, terminated: BoolArray, truncated: BoolArray) -> int:
    """Write rewards and flags of games that have ended, mark them as over, and return their number."""
    seat, outcome, over, begun = rows[SEAT], rows[OUTCOME], rows[DONE], rows[RESET]
    count = len(rewards)
    ended = int64(0)
    for b in range(count):
        first_won, second_won = _won_by(outcome[b])
        ends = int64(outcome[b] != NOT_OVER) & (begun[b] ^ 1)
        over[b] = ends
        ended += ends
        rewards[b] += float(ends * (first_won - second_won) * (1 - 2 * seat[b]))
    for b in range(count):  # separate loops for bytes: loops of mixed widths are not vectorised
        truncated[b] = over[b] & int64(outcome[b] == TRUNCATED) != 0
    for b in range(count):
        terminated[b] = over[b] & int64(outcome[b] != TRUNCATED) != 0
    return ended


@inlined
def _write_observations(
    count: int,
    cells: Int8Array,
    rows: Int64Array,
    permutations: Int64Array,
    seats: int,
    words: UInt64Array,
    parameters: Parameters,
    planes: UInt64Array,
    mask: UInt64Array,
) -> None:
    """Write the winners and, with a byte per cell, the viewer's stones, the other's stones and the legal actions."""
    viewer, outcome = rows[MOVER] if seats == BOTH_SEATS else rows[SEAT], rows[OUTCOME]
    image, first, second, own, other, free = (
        rows[SYMMETRY],
        rows[FIRST],
        rows[SECOND],
        rows[OWN],
        rows[OTHER],
        rows[FREE],
    )
    winner = rows[WINNER]
    for b in range(count):
        first_won, second_won = _won_by(outcome[b])
        winner[b] = first_won + 2 * second_won - 1
    size = permutations.shape[1]
    if cells.ndim == 2:
        stones_seen, legal = planes.view(np.int8), mask.view(np.int8)
        start = 0
        for b in range(count):
            mine = int8(viewer[b] + 1)
            theirs = int8(2 - viewer[b])
            ended = outcome[b] != NOT_OVER
            places = permutations[image[b]]
            for cell in range(size):
                stone = cells[b, places[cell]]
                stones_seen[2 * start + cell] = stone == mine
                stones_seen[2 * start + size + cell] = stone == theirs
                legal[start + cell] = is_legal(cells[b], places[cell], parameters) | ended
            start += size
        return
    for b in range(count):
        of_first, of_second, ended = first[b], second[b], int64(outcome[b] != NOT_OVER)
        swap = (of_first ^ of_second) & -viewer[b]
        own[b] = of_first ^ swap
        other[b] = of_second ^ swap
        free[b] = legal_bits(of_first & ~-ended, of_second & ~-ended, parameters)  # all cells after the end
    if len(permutations) > 1:
        for b in range(count):
            mine, theirs, open_cells = own[b], other[b], free[b]
            own[b], other[b], free[b] = 0, 0, 0
            places = permutations[image[b]]
            for cell in range(size):
                own[b] |= (mine >> places[cell] & 1) << cell
                other[b] |= (theirs >> places[cell] & 1) << cell
                free[b] |= (open_cells >> places[cell] & 1) << cell
    _pack_bits(count, rows[OWN : OTHER + 1], size, words)
    _bits_to_bytes(words, planes)
    _pack_bits(count, rows[FREE : FREE + 1], size, words)
    _bits_to_bytes(words, mask)


# ---------------------------------------------------------------------------------------------------------------------
# Kernels called from Python


@compiled
def step(
    settings: Int64Array,
    cells: Int8Array,
    rows: Int64Array,
    words: UInt64Array,
    permutations: Int64Array,
    actions: Int64Array,
    resets: int,
    planes: UInt64Array,
    mask: UInt64Array,
    rewards: Float64Array,
    terminated: BoolArray,
    truncated: BoolArray,
) -> int:
    """Make the caller's moves and, where the opponent needs no Python code, its replies and the outputs.

    Resetting is a case of this kernel, because a separate kernel would take as long to compile again.

    Args:
        settings: int64[11], as named above.
        cells: int8[B, rows * columns], or int8[0] where the stones are bits.
        rows: int64[``ROWS``, stride(B)].
        words: uint64, scratch: a bit for each byte of ``planes``.
        permutations: int64[S, rows * columns].
        actions: int64[B]; with ``RESET_GIVEN`` int64[R], the games to reset.
        resets: ``RESET_NONE``; ``RESET_FINISHED``, which resets instead of moving; or ``RESET_GIVEN``: no game moves
            except for openings by a uniformly random opponent, and rewards and flags are not written.
        planes: uint64; the first B * 2 * cells bytes become the planes. Empty: no observation is written.
        mask: uint64, B * cells bytes.
        rewards, terminated, truncated: [B], see ``StepOutput``.

    Returns:
        The number of games that have ended; or -1 - b for the first game b with an invalid action, and then nothing
        has changed.
    """
    count, seats, illegal_action = settings[COUNT], settings[SEATS], settings[ILLEGAL_ACTION]
    replies, parameters = settings[REPLIES], from_kernel_args(settings[GAME:])
    outcome, over, begun, image = rows[OUTCOME], rows[DONE], rows[RESET], rows[SYMMETRY]
    size = permutations.shape[1]
    if resets == RESET_GIVEN:
        begun[:] = 0
        for i in range(len(actions)):
            begun[actions[i]] = 1
    else:
        least, most = int64(0), int64(0)
        for b in range(count):
            least = min(least, actions[b])
            most = max(most, actions[b])
        if least < 0 or most >= size:
            for b in range(count):
                if actions[b] < 0 or actions[b] >= size:
                    return -1 - b
        if illegal_action == RAISE:
            for b in range(count):
                cell = permutations[image[b], actions[b]]
                if outcome[b] == NOT_OVER and not _is_legal_in(b, cell, cells, rows, parameters):
                    return -1 - b
        for b in range(count):
            begun[b] = over[b] & resets
    _reset(count, cells, rows, len(permutations), seats)
    if resets != RESET_GIVEN:
        _move(cells, rows, rows[EPISODE_KEY], actions, permutations, seats, illegal_action, parameters, rewards)
    if replies == REPLY_POLICY:
        return 0
    if replies == REPLY_RANDOM:
        _reply_at_random(count, cells, rows, rows[EPISODE_KEY], parameters)
    if len(planes) > 0:
        _write_observations(count, cells, rows, permutations, seats, words, parameters, planes, mask)
    if resets == RESET_GIVEN:
        return 0
    return _finish_step(rows, rewards, terminated, truncated)


@compiled
def finish_step(
    settings: Int64Array,
    cells: Int8Array,
    rows: Int64Array,
    words: UInt64Array,
    permutations: Int64Array,
    planes: UInt64Array,
    mask: UInt64Array,
    rewards: Float64Array,
    terminated: BoolArray,
    truncated: BoolArray,
) -> int:
    """Finish :func:`step` after replies by ``act``."""
    parameters = from_kernel_args(settings[GAME:])
    _write_observations(settings[COUNT], cells, rows, permutations, settings[SEATS], words, parameters, planes, mask)
    return _finish_step(rows, rewards, terminated, truncated)


@compiled
def write_observations(
    settings: Int64Array,
    cells: Int8Array,
    rows: Int64Array,
    words: UInt64Array,
    permutations: Int64Array,
    planes: UInt64Array,
    mask: UInt64Array,
) -> None:
    """Write planes and mask, see :func:`step`."""
    parameters = from_kernel_args(settings[GAME:])
    _write_observations(settings[COUNT], cells, rows, permutations, settings[SEATS], words, parameters, planes, mask)


@compiled
def games_to_reply(count: int, rows: Int64Array, out: Int64Array) -> int:
    """Write the games in which the opponent is to move into ``out`` int64[B] and return their number."""
    mover, seat, outcome = rows[MOVER], rows[SEAT], rows[OUTCOME]
    found = 0
    for b in range(count):
        out[found] = b
        found += int64(outcome[b] == NOT_OVER) & int64(mover[b] != seat[b])
    return found


@compiled
def read_boards(which: Int64Array, cells: Int8Array, rows: Int64Array, out: Int8Array, movers: Int8Array) -> None:
    """Copy the boards and movers of the games ``which`` int64[R] into int8[R, rows * columns] and int8[R]."""
    mover, first, second = rows[MOVER], rows[FIRST], rows[SECOND]
    for i in range(len(which)):
        b = which[i]
        movers[i] = mover[b]
        for cell in range(out.shape[1]):
            if cells.ndim == 2:
                out[i, cell] = cells[b, cell]
            else:
                out[i, cell] = (first[b] >> cell & 1) | (second[b] >> cell & 1) << 1


@compiled
def write_boards(which: Int64Array, boards: Int8Array, cells: Int8Array, rows: Int64Array) -> None:
    """Set the boards int8[R, rows * columns] of the games ``which``, and their numbers of stones."""
    first, second, stones = rows[FIRST], rows[SECOND], rows[STONES]
    for i in range(len(which)):
        b = which[i]
        first[b], second[b], stones[b] = 0, 0, 0
        for cell in range(boards.shape[1]):
            stone = int64(boards[i, cell])
            stones[b] += stone != 0
            if cells.ndim == 2:
                cells[b, cell] = boards[i, cell]
            else:
                first[b] |= int64(stone == 1) << cell
                second[b] |= int64(stone == 2) << cell


@compiled
def play_replies(
    which: Int64Array, actions: Int64Array, settings: Int64Array, cells: Int8Array, rows: Int64Array
) -> int:
    """Make the opponent's moves ``actions`` int64[R] in the games ``which``.

    Returns:
        -1; or the index of the first action that is not an empty cell, and then no game has moved.
    """
    parameters = from_kernel_args(settings[GAME:])
    size, luck = parameters[0] * parameters[1], rows[EPISODE_KEY]
    mover, outcome, stones = rows[MOVER], rows[OUTCOME], rows[STONES]
    first, second = rows[FIRST], rows[SECOND]
    for i in range(len(which)):
        b, cell = which[i], actions[i]
        if cell < 0 or cell >= size or not _is_legal_in(b, cell, cells, rows, parameters):
            return i
    for i in range(len(which)):
        b = which[i]
        if cells.ndim == 2:
            outcome[b], mover[b] = play(cells[b], mover[b], actions[i], stones[b], np.uint64(luck[b]), parameters)
            stones[b] += 1
        else:
            turn = mover_after(int64(0), np.uint64(luck[b]), stones[b], parameters)
            _put(b, int64(1) << actions[i], int64(1), turn, parameters, first, second, mover, stones, outcome)
    return -1


@compiled
def update_episode_keys(count: int, rows: Int64Array) -> None:
    """Recompute ``splitmix64(key, episode)`` after keys or episode numbers have changed."""
    keys, luck, episode = rows[KEY], rows[EPISODE_KEY], rows[EPISODE]
    for b in range(count):
        luck[b] = int64(splitmix64(np.uint64(keys[b]), episode[b]))
