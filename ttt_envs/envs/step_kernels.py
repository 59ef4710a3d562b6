"""The kernels of :mod:`ttt_envs.envs.lockstep`: one step of B simultaneous games.

On boards that fit into bits the vectorised step is branch-free, except where the opponent moves again after a skip.
Games differ, so data-dependent branches are mispredicted, and each misprediction costs as much as a move. Loops without
branches are compiled to vector instructions, eight games at once.
So every game computes everything (own move, reply, lines, results and rewards) and masks out inapplicable results.

The numbers of all games are one array, of which :class:`Games` names the rows. Up to ``MAX_CELLS_IN_BITS`` cells, the
stones are two of these numbers, as bits; larger boards keep cells int8[B, rows * columns] and are stepped one by one.
Phantom games keep cells int8[B, 2, rows * columns], the stones and which of them are found, see
:mod:`ttt_envs.game.attempts`. The number of dimensions of ``cells``, one to three, selects the case by type: numba
compiles only the branches taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ttt_envs.core.jit import (
    BoolArray,
    Float64Array,
    Int8Array,
    Int64Array,
    UInt64Array,
    compiled,
    compiled_nogil_small,
    inlined,
    int8,
    int64,
)
from ttt_envs.core.random import splitmix64, uniform
from ttt_envs.game.attempts import FOUND, attempt, is_unknown
from ttt_envs.game.bits import count_bits, nth_bit
from ttt_envs.game.lines import has_line
from ttt_envs.game.parameters import Parameters, has_gravity, pack_parameters, unpack_parameters, with_skip_chance
from ttt_envs.game.phantom import AnyGame, PhantomGame, visible
from ttt_envs.game.rules import (
    NOT_OVER,
    STREAM_CONTEXT,
    STREAM_OPPONENT,
    STREAM_SEAT,
    STREAM_SKIP,
    STREAM_SYMMETRY,
    Outcome,
    is_legal,
    landing_cell,
    legal_bits,
    mover_after,
    next_mover,
    nth_legal_cell,
    outcome_of_move,
    play,
)

FORFEIT, TRUNCATED = int(Outcome.PLAYER_0_FORFEITED), int(Outcome.TRUNCATED)  # FORFEIT + the loser
LOSE, PENALIZE, RAISE = range(3)  # consequences of an illegal action
FIRST_SEAT, SECOND_SEAT, RANDOM_SEAT, ALTERNATE_SEAT, BOTH_SEATS = range(5)  # the caller's seat
MOVE, MOVE_OR_RESET, FINISH, RESET, OBSERVE = range(5)  # what `step` does
REPLY_NONE, REPLY_RANDOM, REPLY_POLICY = range(3)  # replies: none (self-play), uniformly random, by a policy's own code


class Settings(NamedTuple):
    """Settings shared by all games and steps of a batch."""

    num_games: int
    seats: int
    """the caller's seat, as above"""
    illegal_action: int
    """consequence of an illegal action, as above"""
    replies: int
    """replies of the opponent, as above"""
    parameters: Parameters
    """of the game with the highest skip chance; ``Games.skip_chance`` has those of episodes"""
    size: int
    """number of cells"""
    num_actions: int
    """number of cells, or with gravity of columns"""
    column: int
    """the cells of the first column as bits"""
    permutations: Int64Array
    """int64[S * cells]: symmetries of the board, one after another; each episode is seen under one of them"""
    skip_chances: Float64Array
    """float64[K]: each episode has one of them"""
    mask_start: int
    """number of words from the planes to the masks"""
    abrupt: bool
    """in phantom games, whether a failed attempt ends the turn"""


def pack_settings(
    games: Sequence[AnyGame], count: int, seats: int, illegal_action: int, replies: int, permutations: Int64Array
) -> Int64Array:
    """Return :class:`Settings` as one array: each argument costs the caller of a kernel as much as a move.

    ``games`` differ in their skip chances only; ``permutations`` are int64[S, rows * columns].
    """
    numbers = np.array([count, seats, illegal_action, replies])
    most = max(games, key=lambda game: game.skip_chance)
    skip_chances = np.array([game.skip_chance for game in games])
    abrupt = isinstance(most, PhantomGame) and most.kind == "abrupt"
    more = np.array([len(games), num_plane_words(count, most.cells), abrupt])
    parameters = pack_parameters(visible(most).parameters)
    return np.concatenate([numbers, parameters, more, permutations.ravel(), skip_chances.view(np.int64)])


def num_plane_words(count: int, size: int) -> int:
    """Return the number of 64-bit words of the planes of ``count`` games on ``size`` cells."""
    return (2 * count * size + 7) // 8


def block_settings(packed: Int64Array, first: int, count: int, num_actions: int) -> Int64Array:
    """Return the settings for ``count`` of the games, of which ``first``, a multiple of 64, is the first.

    A call of :func:`step` for them gets arrays that begin at this game. The masks of the other games lie between the
    planes and the masks of these.
    """
    block = packed.copy()
    size = int(packed[4] * packed[5])
    block[0], block[13] = count, packed[13] - 2 * first * size // 8 + first * num_actions // 8
    return block


class Games(NamedTuple):
    """The state of B games: columns [:func:`stride`], of which the first B entries are in use."""

    mover: Int64Array
    seat: Int64Array
    """the caller's"""
    outcome: Int64Array
    winner: Int64Array
    """-1 for none"""
    is_over: Int64Array
    """1 where the end of the game was shown, else 0"""
    begins: Int64Array
    """1 where the last step began the game, else 0"""
    stones: Int64Array
    """number of stones"""
    episode: Int64Array
    """number of the episode since seeding"""
    symmetry: Int64Array
    """index of the symmetry under which the caller sees the board"""
    num_illegal: Int64Array
    """number of illegal actions"""
    first: Int64Array
    """the stones of player_0 as bits"""
    second: Int64Array
    """the stones of player_1 as bits"""
    key: UInt64Array
    """the key of the seed"""
    episode_key: UInt64Array
    """``splitmix64(key, episode)``"""
    skip_chance: Float64Array
    """of the episode"""
    scratch: Int64Array
    """int64[3, stride]"""


KEY, SKIP_CHANCE, SCRATCH, ROWS = 12, 14, 15, 18  # rows of the columns from `key`, of the next two, and all
INFO_ROWS = 4  # every step returns the columns up to `winner`


def stride(count: int) -> int:
    """Return the length of a row for ``count`` games: an odd number of cache lines.

    With a power of two, all numbers of a game would fall into the same set of the 8-way cache.
    """
    return ((count + 7) // 8 | 1) * 8


def name_columns(rows: Int64Array, count: int) -> Games:
    """Return the columns of ``count`` games in ``rows`` int64[``ROWS``, stride]."""
    keys = rows.view(np.uint64)
    skip_chance = rows[SKIP_CHANCE, :count].view(np.float64)
    columns: list[Any] = [*rows[:KEY, :count], *keys[KEY:SKIP_CHANCE, :count], skip_chance, rows[SCRATCH:, :count]]
    return Games(*columns)


@inlined
def _columns(rows: Int64Array) -> Games:
    """Do :func:`name_columns`, with the unused entries."""
    keys = rows.view(np.uint64)
    return Games(
        rows[0],
        rows[1],
        rows[2],
        rows[3],
        rows[4],
        rows[5],
        rows[6],
        rows[7],
        rows[8],
        rows[9],
        rows[10],
        rows[11],
        keys[12],
        keys[13],
        rows[SKIP_CHANCE].view(np.float64),
        rows[SCRATCH:],
    )


@inlined
def _unpack_settings(packed: Int64Array, lines: Int64Array | None) -> Settings:
    """Return the settings from :func:`pack_settings`, in kernels."""
    parameters = unpack_parameters(packed[4:12], lines)
    rows, columns = parameters.rows, parameters.columns
    size = rows * columns
    num_actions = columns if has_gravity(parameters) else size
    column = int64(0)
    for row in range(rows):
        column |= int64(1) << row * columns
    end = len(packed) - packed[12]
    skip_chances = packed[end:].view(np.float64)
    return Settings(
        packed[0],
        packed[1],
        packed[2],
        packed[3],
        parameters,
        size,
        num_actions,
        column,
        packed[15:end],
        skip_chances,
        packed[13],
        packed[14] != 0,
    )


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
def _reset(settings: Settings, cells: Int8Array, games: Games) -> None:
    """Begin the next episode where ``begins`` is 1: empty the board, set its seat, symmetry and skip chance."""
    count, begins = settings.num_games, games.begins
    mover, stones, first, second = games.mover, games.stones, games.first, games.second
    for b in range(count):  # several loops: with many arrays per loop the compiler vectorises less
        keep = begins[b] - 1  # all ones, or 0 where a game begins
        player, placed, of_first, of_second = mover[b] & keep, stones[b] & keep, first[b] & keep, second[b] & keep
        mover[b], stones[b], first[b], second[b] = player, placed, of_first, of_second
    is_over, num_illegal, outcome = games.is_over, games.num_illegal, games.outcome
    for b in range(count):
        keep = begins[b] - 1
        ended, illegal, result = is_over[b] & keep, num_illegal[b] & keep, outcome[b] | ~keep  # NOT_OVER is -1
        is_over[b], num_illegal[b], outcome[b] = ended, illegal, result
    episode, keys, episode_key = games.episode, games.key, games.episode_key
    for b in range(count):
        number = episode[b] + begins[b]
        following, current = splitmix64(keys[b], number), episode_key[b]
        episode[b] = number
        episode_key[b] = following if begins[b] else current
    seats, seat = settings.seats, games.seat
    if seats == RANDOM_SEAT:
        for b in range(count):
            random_seat = int64(uniform(episode_key[b], STREAM_SEAT, 0) * 2)
            seat[b] = random_seat if begins[b] else seat[b]
    elif seats == ALTERNATE_SEAT:
        for b in range(count):
            seat[b] = episode[b] % 2 if begins[b] else seat[b]
    else:
        for b in range(count):
            seat[b] = seats % 2 if begins[b] else seat[b]  # in self-play the first seat begins
    num_symmetries, symmetry = len(settings.permutations) // settings.size, games.symmetry
    if num_symmetries > 1:
        for b in range(count):
            random_symmetry = int64(uniform(episode_key[b], STREAM_SYMMETRY, 0) * num_symmetries)
            symmetry[b] = random_symmetry if begins[b] else symmetry[b]
    num_skip_chances, skip_chance = len(settings.skip_chances), games.skip_chance
    if num_skip_chances > 1:
        for b in range(count):
            drawn = settings.skip_chances[int64(uniform(episode_key[b], STREAM_CONTEXT, 0) * num_skip_chances)]
            skip_chance[b] = drawn if begins[b] else skip_chance[b]
    if cells.ndim == 2:
        for b in range(count):
            if begins[b]:
                for cell in range(cells.shape[1]):
                    cells[b, cell] = 0
    if cells.ndim == 3:
        for b in range(count):
            if begins[b]:
                for cell in range(cells.shape[2]):
                    cells[b, 0, cell] = 0
                    cells[b, 1, cell] = 0


@inlined
def _draw_skips(settings: Settings, games: Games, out: Int64Array) -> None:
    """Write into ``out`` 1 where the other player moves after the next stone, 0 where that turn is skipped."""
    stones, episode_key, skip_chance = games.stones, games.episode_key, games.skip_chance
    for b in range(settings.num_games):
        out[b] = 1
    if len(settings.skip_chances) > 1:
        for b in range(settings.num_games):
            parameters = with_skip_chance(settings.parameters, skip_chance[b])
            out[b] = next_mover(0, uniform(episode_key[b], STREAM_SKIP, stones[b]), parameters)
    elif settings.parameters.skip_chance > 0:
        for b in range(settings.num_games):
            out[b] = next_mover(0, uniform(episode_key[b], STREAM_SKIP, stones[b]), settings.parameters)


@inlined
def _episode_parameters(b: int, games: Games, settings: Settings) -> Parameters:
    """Return the parameters of game ``b``; where all are the same, loops are compiled for them."""
    if len(settings.skip_chances) > 1:
        return with_skip_chance(settings.parameters, games.skip_chance[b])
    return settings.parameters


@inlined
def _mover_after(b: int, games: Games, settings: Settings) -> int:
    """Return what :func:`_draw_skips` writes for game ``b``."""
    return mover_after(int64(0), games.episode_key[b], games.stones[b], _episode_parameters(b, games, settings))


@inlined
def _put(b: int, bit: int, moves: int, turn: int, parameters: Parameters, games: Games) -> None:
    """Put the mover's stone on the empty cell ``bit`` where ``moves`` is 1: ``rules.play`` of game ``b`` in bits."""
    # All reads come before the writes and none is conditional: otherwise the loop is not vectorised.
    player, before, placed = games.mover[b], games.outcome[b], games.stones[b]
    of_first, of_second = games.first[b], games.second[b]
    own = of_first ^ ((of_first ^ of_second) & -player) | bit
    result = outcome_of_move(has_line(own, parameters), player, placed + 1, parameters)
    put = bit & -moves
    games.first[b] = of_first | put & (player - 1)
    games.second[b] = of_second | put & -player
    games.stones[b] = placed + moves
    games.outcome[b] = before ^ ((before ^ result) & -moves)
    games.mover[b] = player ^ (moves & turn & int64(result == NOT_OVER))


@inlined
def _play_in_cells(b: int, cell: int, cells: Int8Array, games: Games, settings: Settings) -> None:
    """Apply ``rules.play`` in game ``b`` on a board without bits."""
    stones = games.stones[b]
    parameters = _episode_parameters(b, games, settings)
    outcome, mover = play(cells[b], games.mover[b], cell, stones, games.episode_key[b], parameters)
    games.outcome[b], games.mover[b], games.stones[b] = outcome, mover, stones + 1


@inlined
def _attempt_in(b: int, cell: int, cells: Int8Array, games: Games, settings: Settings) -> None:
    """Apply ``phantom.attempt`` in game ``b`` on a cell that its mover does not know to be taken."""
    mover, stones, key = games.mover[b], games.stones[b], games.episode_key[b]
    parameters = _episode_parameters(b, games, settings)
    outcome, after = attempt(cells[b, 0], cells[b, 1], mover, cell, stones, key, settings.abrupt, parameters)
    games.mover[b] = after
    if outcome != FOUND:
        games.outcome[b], games.stones[b] = outcome, stones + 1


@inlined
def _num_known(b: int, cells: Int8Array, games: Games) -> int:
    """Return the number of cells that the mover of a phantom game knows to be taken: it grows with its attempts."""
    count = int64(0)
    for cell in range(cells.shape[2]):
        count += int64(not is_unknown(cells[b, 0], cells[b, 1], games.mover[b], cell))
    return int64(count)


@inlined
def _nth_unknown_cell(b: int, u: float, cells: Int8Array, games: Games) -> int:
    """Return ``rules.nth_empty_cell`` of the mover's view in a phantom game."""
    mover = games.mover[b]
    unknown = int64(0)
    for cell in range(cells.shape[2]):
        unknown += int64(is_unknown(cells[b, 0], cells[b, 1], mover, cell))
    skip = int(u * unknown)
    for cell in range(cells.shape[2]):
        if is_unknown(cells[b, 0], cells[b, 1], mover, cell):
            if skip == 0:
                return cell
            skip -= 1
    return -1


@inlined
def _is_legal_in(b: int, cell: int, cells: Int8Array, games: Games, parameters: Parameters) -> bool:
    """Like ``rules.is_legal``, in game ``b``."""
    if cells.ndim == 3:
        return is_unknown(cells[b, 0], cells[b, 1], games.mover[b], cell)
    if cells.ndim == 2:
        return is_legal(cells[b], cell, parameters)
    return legal_bits(games.first[b], games.second[b], parameters) >> cell & 1 != 0


@inlined
def _is_legal_action(b: int, cell: int, cells: Int8Array, games: Games, parameters: Parameters) -> bool:
    """Return whether the caller may act on ``cell``, with gravity the top of a column, in game ``b``."""
    if has_gravity(parameters):
        if cells.ndim == 2:
            return bool(cells[b, cell] == 0)
        return bool((games.first[b] | games.second[b]) >> cell & 1 == 0)
    return _is_legal_in(b, cell, cells, games, parameters)


@inlined
def _bit_of_action(b: int, cell: int, games: Games, settings: Settings, parameters: Parameters) -> tuple[int, int]:
    """Return the cell of an action as a bit, and 1 if it is legal, else 0; see :func:`_is_legal_action`."""
    legal = legal_bits(games.first[b], games.second[b], parameters)
    bit = int64(1) << cell
    if has_gravity(parameters):
        bit = legal & settings.column << cell
        return bit, int64(bit != 0)
    return bit, legal >> cell & 1


@inlined
def _cell_of_action(b: int, cell: int, cells: Int8Array, parameters: Parameters) -> int:
    """Return the cell of an action, -1 if it is illegal; see :func:`_is_legal_action`."""
    if has_gravity(parameters):
        return landing_cell(cells[b], cell, parameters)
    return cell if is_legal(cells[b], cell, parameters) else int64(-1)


@inlined
def _count_illegal(b: int, loses: int, size: int, games: Games, rewards: Float64Array) -> None:
    """Reward an illegal action of the mover of game ``b``, and end the game if it loses, or after ``size`` of them."""
    mover, outcome, num_illegal = games.mover, games.outcome, games.num_illegal
    rewards[b] = loses - 1.0
    num_illegal[b] += 1
    truncated = TRUNCATED if num_illegal[b] >= size else NOT_OVER
    outcome[b] = FORFEIT + mover[b] if loses else truncated


@inlined
def _move(settings: Settings, cells: Int8Array, games: Games, actions: Int64Array, rewards: Float64Array) -> None:
    """Make the caller's moves in games in progress that have not just begun."""
    count, parameters, permutations = settings.num_games, settings.parameters, settings.permutations
    mover, seat, outcome, begins = games.mover, games.seat, games.outcome, games.begins
    num_illegal = games.num_illegal
    turn, cell_of = games.scratch[0], games.scratch[1]
    size = settings.size
    loses = int64(settings.illegal_action == LOSE)
    if len(permutations) > size:
        for b in range(count):
            cell_of[b] = permutations[games.symmetry[b] * size + actions[b]]
    else:
        for b in range(count):
            cell_of[b] = actions[b]
    if settings.seats == BOTH_SEATS:
        for b in range(count):
            seat[b] = mover[b] if (outcome[b] == NOT_OVER) & (begins[b] == 0) else seat[b]
    if cells.ndim == 2:
        for b in range(count):
            rewards[b] = 0.0
            if outcome[b] == NOT_OVER and begins[b] == 0:
                cell = _cell_of_action(b, cell_of[b], cells, parameters)
                if cell < 0:
                    _count_illegal(b, loses, size, games, rewards)
                else:
                    _play_in_cells(b, cell, cells, games, settings)
        return
    if cells.ndim == 3:
        for b in range(count):
            rewards[b] = 0.0
            if outcome[b] == NOT_OVER and begins[b] == 0:
                if _is_legal_in(b, cell_of[b], cells, games, parameters):
                    _attempt_in(b, cell_of[b], cells, games, settings)
                else:
                    _count_illegal(b, loses, size, games, rewards)
        return
    _draw_skips(settings, games, turn)
    any_illegal = int64(0)
    for b in range(count):
        playing = int64(outcome[b] == NOT_OVER) & (begins[b] ^ 1)
        bit, legal = _bit_of_action(b, cell_of[b], games, settings, parameters)
        moves = playing & legal
        _put(b, bit, moves, turn[b], parameters, games)
        rewards[b] = float(moves - playing)
        any_illegal += playing ^ moves
    if any_illegal > 0:  # rare, and then for all games
        for b in range(count):
            illegal = int64(rewards[b] < 0)
            num_illegal[b] += illegal
            truncated = TRUNCATED if num_illegal[b] >= size else NOT_OVER
            result = FORFEIT + mover[b] if loses else truncated
            outcome[b] = result if illegal else outcome[b]
            rewards[b] *= 1 - loses


@inlined
def _reply(b: int, turn: int, parameters: Parameters, games: Games) -> None:
    """Make a uniformly random move where the opponent is to move, with the random number of ``act_in_episodes``."""
    moves = int64(games.outcome[b] == NOT_OVER) & int64(games.mover[b] != games.seat[b])
    legal = legal_bits(games.first[b], games.second[b], parameters)
    u = uniform(games.episode_key[b], STREAM_OPPONENT, games.stones[b])
    _put(b, int64(1) << nth_bit(legal, int64(u * count_bits(legal))), moves, turn, parameters, games)


@inlined
def _reply_at_random(settings: Settings, cells: Int8Array, games: Games) -> None:
    """Make the replies of a uniformly random opponent, until it is to move in no game."""
    parameters, mover, seat, outcome = settings.parameters, games.mover, games.seat, games.outcome
    stones, episode_key, turn = games.stones, games.episode_key, games.scratch[0]
    if cells.ndim == 2:
        for b in range(settings.num_games):
            while outcome[b] == NOT_OVER and mover[b] != seat[b]:
                cell = nth_legal_cell(cells[b], uniform(episode_key[b], STREAM_OPPONENT, stones[b]), parameters)
                _play_in_cells(b, cell, cells, games, settings)
        return
    if cells.ndim == 3:
        for b in range(settings.num_games):
            while outcome[b] == NOT_OVER and mover[b] != seat[b]:
                u = uniform(episode_key[b], STREAM_OPPONENT, _num_known(b, cells, games))
                _attempt_in(b, _nth_unknown_cell(b, u, cells, games), cells, games, settings)
        return
    _draw_skips(settings, games, turn)
    for b in range(settings.num_games):
        _reply(b, turn[b], parameters, games)
    if parameters.skip_chance > 0:  # few games, those with a skipped turn: the opponent moves again
        for b in range(settings.num_games):
            while outcome[b] == NOT_OVER and mover[b] != seat[b]:
                _reply(b, _mover_after(b, games, settings), parameters, games)


@inlined
def _won_by(outcome: int) -> tuple[int, int]:
    """Return for each player 1 if this outcome is a win, else 0."""
    first_won = int64(outcome == 0) | int64(outcome == FORFEIT + 1)
    second_won = int64(outcome == 1) | int64(outcome == FORFEIT)
    return first_won, second_won


@inlined
def _finish_step(settings: Settings, games: Games, rewards: Float64Array, flags: BoolArray) -> int:
    """Write rewards and flags of games that have ended, mark them as over, and return their number."""
    seat, outcome, is_over, begins = games.seat, games.outcome, games.is_over, games.begins
    terminated, truncated = flags[0], flags[1]
    num_ended = int64(0)
    for b in range(settings.num_games):
        first_won, second_won = _won_by(outcome[b])
        ended = int64(outcome[b] != NOT_OVER) & (begins[b] ^ 1)
        is_over[b] = ended
        num_ended += ended
        rewards[b] += float(ended * (first_won - second_won) * (1 - 2 * seat[b]))
    for b in range(settings.num_games):  # separate loops for bytes: loops of mixed widths are not vectorised
        truncated[b] = is_over[b] & int64(outcome[b] == TRUNCATED) != 0
    for b in range(settings.num_games):
        terminated[b] = is_over[b] & int64(outcome[b] != TRUNCATED) != 0
    return num_ended


@inlined
def _legal_actions(first: int, second: int, settings: Settings, parameters: Parameters) -> int:
    """Return the legal actions as bits: cells, or with gravity the columns that are not full."""
    if has_gravity(parameters):
        return ~(first | second) & ((int64(1) << settings.num_actions) - 1)
    return legal_bits(first, second, parameters)


@inlined
def _write_observations(
    settings: Settings, cells: Int8Array, games: Games, words: UInt64Array, observations: UInt64Array
) -> None:
    """Write the winners and, with a byte per cell, the viewer's stones, the other's stones and the legal actions."""
    count, parameters, permutations = settings.num_games, settings.parameters, settings.permutations
    viewer, outcome = games.mover if settings.seats == BOTH_SEATS else games.seat, games.outcome
    first, second, winner, symmetry = games.first, games.second, games.winner, games.symmetry
    for b in range(count):
        first_won, second_won = _won_by(outcome[b])
        winner[b] = first_won + 2 * second_won - 1
    size, num_actions = settings.size, settings.num_actions
    num_words, mask_start = (2 * count * size + 7) // 8, settings.mask_start  # of the planes; of the masks
    planes, mask = observations[:num_words], observations[mask_start : mask_start + (count * num_actions + 7) // 8]
    if cells.ndim == 2:
        stones_seen, legal = planes.view(np.int8), mask.view(np.int8)
        start = 0
        for b in range(count):
            mine = int8(viewer[b] + 1)
            theirs = int8(2 - viewer[b])
            ended = outcome[b] != NOT_OVER
            places = permutations[symmetry[b] * size :]
            for cell in range(size):
                stone = cells[b, places[cell]]
                stones_seen[2 * start + cell] = stone == mine
                stones_seen[2 * start + size + cell] = stone == theirs
            for action in range(num_actions):
                legal[b * num_actions + action] = _is_legal_action(b, places[action], cells, games, parameters) | ended
            start += size
        return
    if cells.ndim == 3:
        stones_seen, legal = planes.view(np.int8), mask.view(np.int8)
        start = 0
        for b in range(count):
            player = viewer[b]
            ended = outcome[b] != NOT_OVER
            places = permutations[symmetry[b] * size :]
            for cell in range(size):
                place = places[cell]
                stone = cells[b, 0, place]
                stones_seen[2 * start + cell] = stone == player + 1
                stones_seen[2 * start + size + cell] = stone == 2 - player and cells[b, 1, place] != 0
                legal[start + cell] = is_unknown(cells[b, 0], cells[b, 1], player, place) | ended
            start += size
        return
    own, other, free = games.scratch[0], games.scratch[1], games.scratch[2]
    for b in range(count):
        of_first, of_second, ended = first[b], second[b], int64(outcome[b] != NOT_OVER)
        swap = (of_first ^ of_second) & -viewer[b]
        own[b] = of_first ^ swap
        other[b] = of_second ^ swap
        free[b] = _legal_actions(of_first & ~-ended, of_second & ~-ended, settings, parameters)  # all after the end
    if len(permutations) > size:
        for b in range(count):
            mine, theirs, open_cells = own[b], other[b], free[b]
            own[b], other[b], free[b] = 0, 0, 0
            places = permutations[symmetry[b] * size :]
            for cell in range(size):
                own[b] |= (mine >> places[cell] & 1) << cell
                other[b] |= (theirs >> places[cell] & 1) << cell
            for action in range(num_actions):
                free[b] |= (open_cells >> places[action] & 1) << action
    _pack_bits(count, games.scratch[:2], size, words)
    _bits_to_bytes(words, planes)
    _pack_bits(count, games.scratch[2:], num_actions, words)
    _bits_to_bytes(words, mask)


@inlined
def _first_invalid(settings: Settings, cells: Int8Array, games: Games, actions: Int64Array, resets: int) -> int:
    """Return the first game whose action is out of range or, where illegal actions are errors, is illegal; else -1.

    With ``resets`` 1, games that are over begin anew, so that their actions are not played.
    """
    count, size, num_actions, outcome = settings.num_games, settings.size, settings.num_actions, games.outcome
    least, most = int64(0), int64(0)
    for b in range(count):
        action = actions[b]
        least = action if action < least else least
        most = action if action > most else most
    if least < 0 or most >= num_actions:
        for b in range(count):
            if actions[b] < 0 or actions[b] >= num_actions:
                return b
    if settings.illegal_action == RAISE:
        for b in range(count):
            cell = settings.permutations[games.symmetry[b] * size + actions[b]]
            moves = outcome[b] == NOT_OVER and not games.is_over[b] & resets
            if moves and not _is_legal_action(b, cell, cells, games, settings.parameters):
                return b
    return -1


# ---------------------------------------------------------------------------------------------------------------------
# Kernels called from Python. Their arguments are `pack_settings`; the cells int8[B, rows * columns], or int8[0] where
# the stones are bits; and the rows of `Games`.


@compiled_nogil_small
def step(
    packed: Int64Array,
    cells: Int8Array,
    rows: Int64Array,
    words: UInt64Array,
    actions: Int64Array,
    mode: int,
    observations: UInt64Array | None,
    rewards: Float64Array,
    flags: BoolArray,
    lines: Int64Array | None,
) -> int:
    """Make the caller's moves and, where the opponent needs no Python code, its replies and the outputs.

    All modes are one kernel, because separate ones would each take as long to compile.

    Args:
        packed, cells, rows: see above.
        words: uint64, scratch: a bit for each byte of the planes.
        actions: int64[B]; in the mode ``RESET`` int64[R], the games to reset.
        mode: ``MOVE``; ``MOVE_OR_RESET``, which resets games that are over instead of moving; ``RESET``, in which no
            game moves except for openings by a uniformly random opponent; ``FINISH``, after replies by ``act``, writes
            the outputs only; ``OBSERVE`` writes the observations only, as ``RESET`` does.
        observations: see ``StepOutput``. Empty: none is written; None: nor is the code for them compiled.
        rewards, flags: float64[B], bool[2, B]: see ``StepOutput``.
        lines: ``Parameters.lines``.

    Returns:
        The number of games that have ended; or -1 - b for the first game b with an invalid action, and then nothing
        has changed.
    """
    settings, games = _unpack_settings(packed, lines), _columns(rows)
    begins_or_moves = mode != FINISH and mode != OBSERVE
    makes_moves = begins_or_moves and mode != RESET
    if makes_moves:
        resets = int64(mode == MOVE_OR_RESET)
        invalid = _first_invalid(settings, cells, games, actions, resets)
        if invalid >= 0:
            return -1 - invalid
        for b in range(settings.num_games):
            games.begins[b] = games.is_over[b] & resets
    elif mode == RESET:
        games.begins[:] = 0
        for i in range(len(actions)):
            games.begins[actions[i]] = 1
    if begins_or_moves:
        _reset(settings, cells, games)
        if makes_moves:
            _move(settings, cells, games, actions, rewards)
        if settings.replies == REPLY_POLICY:
            return 0
        if settings.replies == REPLY_RANDOM:
            _reply_at_random(settings, cells, games)
    if observations is not None and len(observations) > 0:
        _write_observations(settings, cells, games, words, observations)
    if makes_moves or mode == FINISH:
        return _finish_step(settings, games, rewards, flags)
    return 0


@compiled
def games_to_reply(count: int, rows: Int64Array, out: Int64Array) -> int:
    """Write the games in which the opponent is to move into ``out`` int64[B] and return their number."""
    games = _columns(rows)
    found = 0
    for b in range(count):
        out[found] = b
        found += int64(games.outcome[b] == NOT_OVER) & int64(games.mover[b] != games.seat[b])
    return found


@compiled
def read_boards(which: Int64Array, cells: Int8Array, rows: Int64Array, out: Int8Array, movers: Int8Array) -> None:
    """Copy the boards and movers of the games ``which`` int64[R] into int8[R, rows * columns] and int8[R].

    In phantom games the boards are the movers' views.
    """
    games = _columns(rows)
    for i in range(len(which)):
        b = which[i]
        movers[i] = games.mover[b]
        for cell in range(out.shape[1]):
            if cells.ndim == 3:
                seen = cells[b, 0, cell] == movers[i] + 1 or cells[b, 1, cell] != 0
                out[i, cell] = cells[b, 0, cell] if seen else 0
            elif cells.ndim == 2:
                out[i, cell] = cells[b, cell]
            else:
                out[i, cell] = (games.first[b] >> cell & 1) | (games.second[b] >> cell & 1) << 1


@compiled
def write_boards(which: Int64Array, boards: Int8Array, cells: Int8Array, rows: Int64Array) -> None:
    """Set the boards int8[R, rows * columns] of the games ``which``, and their numbers of stones; none is found."""
    games = _columns(rows)
    for i in range(len(which)):
        b = which[i]
        games.first[b], games.second[b], games.stones[b] = 0, 0, 0
        for cell in range(boards.shape[1]):
            stone = int64(boards[i, cell])
            games.stones[b] += stone != 0
            if cells.ndim == 3:
                cells[b, 0, cell], cells[b, 1, cell] = boards[i, cell], 0
            elif cells.ndim == 2:
                cells[b, cell] = boards[i, cell]
            else:
                games.first[b] |= int64(stone == 1) << cell
                games.second[b] |= int64(stone == 2) << cell


@compiled
def play_replies(
    which: Int64Array,
    actions: Int64Array,
    packed: Int64Array,
    cells: Int8Array,
    rows: Int64Array,
    lines: Int64Array | None,
) -> int:
    """Make the opponent's moves ``actions`` int64[R], cells also with gravity, in the games ``which``.

    Returns:
        -1; or the index of the first action that is not an empty cell, and then no game has moved.
    """
    settings, games = _unpack_settings(packed, lines), _columns(rows)
    parameters = settings.parameters
    for i in range(len(which)):
        b, cell = which[i], actions[i]
        if cell < 0 or cell >= settings.size or not _is_legal_in(b, cell, cells, games, parameters):
            return i
    for i in range(len(which)):
        b = which[i]
        if cells.ndim == 3:
            _attempt_in(b, actions[i], cells, games, settings)
        elif cells.ndim == 2:
            _play_in_cells(b, actions[i], cells, games, settings)
        else:
            turn = _mover_after(b, games, settings)
            _put(b, int64(1) << actions[i], int64(1), turn, parameters, games)
    return -1


@compiled
def update_episode_keys(count: int, rows: Int64Array) -> None:
    """Recompute ``splitmix64(key, episode)`` after keys or episode numbers have changed."""
    games = _columns(rows)
    for b in range(count):
        games.episode_key[b] = splitmix64(games.key[b], games.episode[b])
