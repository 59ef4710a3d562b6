"""One step of B simultaneous games, by :func:`step`, whose parts are two kernels: stones in bits,
and cell by cell.

Games lie in blocks of ``LANES``. A block is a record whose fields are columns of 64 numbers:
kernels name what they read, a block stays in the first-level cache, and the compiler sees that
columns never overlap. Up to 63 cells, stones are bits, and loops over lanes have no data-dependent
branches, except where the opponent moves again after a skip: games differ, so branches are
mispredicted, which costs as much as a move, while loops without branches become vector
instructions. So every game computes everything and masks out what does not apply. Larger boards and
phantom games are played cell by cell on ``boards`` int8[B, 2, cells]: the stones, and 1 for a stone
that the other player has found. Both kernels share what does not concern stones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated, Final, NamedTuple, Protocol, cast

import numpy as np

from ttt_envs.core.jit import (
    Int8Array,
    Int64Array,
    UInt64Array,
    inlined,
    int8,
    int64,
    kernel,
    pasted,
)
from ttt_envs.core.random import splitmix64, uniform
from ttt_envs.core.records import Records, record_dtype
from ttt_envs.envs.game_batch import pack_result
from ttt_envs.game.attempts import FOUND, VISIBLE, attempt, is_unknown
from ttt_envs.game.bits import all_bits, count_bits, nth_bit, where
from ttt_envs.game.lines import has_line
from ttt_envs.game.parameters import Parameters, has_gravity
from ttt_envs.game.rules import (
    ILLEGAL,
    NOT_OVER,
    STREAM_OPPONENT,
    STREAM_SEAT,
    STREAM_SKIP,
    STREAM_SYMMETRY,
    Outcome,
    landing_cell,
    legal_bits,
    next_mover,
    nth_legal_cell,
    outcome_of_move,
)

LANES = 64
int32 = cast(Callable[[float], int], np.int32)
"""for which more processors have vector instructions from and to float than for int64"""
FORFEIT: Final = int(Outcome.PLAYER_0_FORFEITED)
"""the outcome after an illegal action that loses is ``FORFEIT`` plus its player"""
TRUNCATED: Final = int(Outcome.TRUNCATED)
# consequences of an illegal action
LOSE, PENALIZE, RAISE = range(3)
# the caller's seat, see `Settings.seats`
FIRST, SECOND, RANDOM_SEAT, ALTERNATE, BOTH, NOBODY = range(6)
# replies: none (self-play), uniformly random, by a policy's own code
REPLY_NONE, REPLY_RANDOM, REPLY_POLICY = range(3)
# what a step does
MOVE, MOVE_OR_RESET, FINISH, RESET, OBSERVE = range(5)


class Settings(NamedTuple):
    """Settings shared by all games and steps of a batch."""

    num_games: int
    action_cells: int
    """cells, as bits, that action 0 may fill"""
    num_actions: int
    """number of cells, or with gravity of columns"""
    seats: int
    """the caller's seat; with ``BOTH`` the mover's; with ``NOBODY`` the first, and planes hide no
    stones
    """
    illegal_action: int
    """consequence of an illegal action, as above"""
    replies: int
    """replies of the opponent, as above"""
    hidden: int
    """``VISIBLE``, ``CLASSIC`` or ``ABRUPT`` of ``game.attempts``"""
    num_symmetries: int
    """number of symmetries under which episodes are seen"""
    mask_start: int
    """first of the numbers of the mask in the memory of an output, as the next three; see
    ``game_batch.output_layout``
    """
    info_start: int
    rewards_start: int
    flags_start: int
    views_start: int
    parameters: Parameters
    """of the game with the highest skip chance; ``skip_chance`` of a block has those of episodes"""


def _record(names: Iterable[str]) -> np.dtype[np.void]:
    """Return a record of integers, but a skip chance is a float."""
    return np.dtype(
        (np.record, [(name, np.float64 if name == "skip_chance" else np.int64) for name in names])
    )


SETTINGS = tuple(name for name in Settings._fields if name != "parameters")
RULES = tuple(name for name in Parameters._fields if name != "lines")
IntColumn = Annotated[Records[int], np.int64, LANES]
"""an integer of each game of a block"""
FloatColumn = Annotated[Records[float], np.float64, LANES]
KeyColumn = Annotated[Records[np.uint64], np.uint64, LANES]


class Block(Protocol):
    """A block of games, with the settings, because each argument costs the caller of a kernel as
    much as a move: a record of ``BLOCK``.
    """

    settings: Annotated[Settings, _record(SETTINGS)]
    """without ``parameters``"""
    rules: Annotated[Parameters, _record(RULES)]
    """without ``lines``"""

    mover: IntColumn
    seat: IntColumn
    outcome: IntColumn
    is_over: IntColumn
    """1 where the end was shown"""
    stones: IntColumn
    episode: IntColumn
    symmetry: IntColumn
    num_illegal: IntColumn
    stage: IntColumn
    """of the schedule of opponents"""
    num_steps: IntColumn
    """steps since seeding, counted if there is a schedule"""
    skip_chance: FloatColumn
    key: KeyColumn
    """of the seed"""
    episode_key: KeyColumn
    """``splitmix64(key, episode)``"""

    begins: IntColumn
    """1 where the last step began the game, as the next ones scratch"""
    winner: IntColumn
    first: IntColumn
    """the stones of player_0 as bits"""
    second: IntColumn
    illegal: IntColumn
    """1 where the last action was illegal"""
    cell: IntColumn
    """of the action"""
    own: IntColumn
    """the stones of the planes' first player as bits"""
    other: IntColumn
    stone_bits: Annotated[Int64Array, np.int64, 2 * LANES]
    """[2 * LANES]: the numbers whose bits are the bytes of ``planes``"""
    legal: Annotated[Int64Array, np.int64, 2 * LANES]
    """[2 * LANES]: the legal actions as bits; half is unused, so that loops over both are compiled
    once
    """
    words: Annotated[UInt64Array, np.uint64, 2 * LANES]


BLOCK = record_dtype(Block)
"""the record of which :class:`Block` describes the fields"""


@inlined
def read_settings(blocks: Records[Block], lines: Int64Array | None) -> Settings:
    """Return the settings as numbers that no store can change; ``lines`` are
    ``Parameters.lines``.
    """
    s = blocks[0].settings
    rules = blocks[0].rules
    parameters = Parameters(
        rules.rows,
        rules.columns,
        rules.win_length,
        rules.skip_chance,
        rules.variants,
        rules.row_starts,
        rules.falling_starts,
        rules.rising_starts,
        lines,
    )
    return Settings(
        s.num_games,
        s.action_cells,
        s.num_actions,
        s.seats,
        s.illegal_action,
        s.replies,
        s.hidden,
        s.num_symmetries,
        s.mask_start,
        s.info_start,
        s.rewards_start,
        s.flags_start,
        s.views_start,
        parameters,
    )


class Outputs(NamedTuple):
    """What a step writes, as parts of one array; ``game_batch.Output`` names the same parts."""

    planes: UInt64Array
    """the bytes of int8[B, 2, cells]"""
    mask: UInt64Array
    """the bytes of int8[B, actions]"""
    mover: UInt64Array
    """and the next three: the bytes of int64[B]"""
    seat: UInt64Array
    outcome: UInt64Array
    winner: UInt64Array
    """-1 for none"""
    rewards: UInt64Array
    """the bytes of float64[B]"""
    terminated: Int8Array
    """the bytes of bool[B], as the next"""
    truncated: Int8Array
    views: UInt64Array
    """the bytes of int8[B, 2, cells, 2]; empty unless the caller plays alone"""


@inlined
def split_outputs(memory: UInt64Array, start: int, n: int, s: Settings) -> Outputs:
    """Return the parts of the memory of ``game_batch.Output`` for ``n`` games from ``start``, a
    multiple of ``LANES``, on.

    Loops over such a part need no test for negative indices, so that they are vectorised.
    """
    count = s.num_games
    size = s.parameters.rows * s.parameters.columns
    planes = start * size // 4
    mask = s.mask_start + start * s.num_actions // 8
    info = memory[s.info_start + start :]
    rewards = memory[s.rewards_start + start :]
    flags = memory[s.flags_start :].view(np.int8)[start:]
    views = s.views_start + start * size // 2
    return Outputs(
        memory[planes : planes + (2 * n * size + 7) // 8],
        memory[mask : mask + (n * s.num_actions + 7) // 8],
        info[:n],
        info[count : count + n],
        info[2 * count : 2 * count + n],
        info[3 * count : 3 * count + n],
        rewards[:n],
        flags[:n],
        flags[count : count + n],
        memory[views : views + (n * size + 1) // 2],
    )


# --------------------------------------------------------------------------------------------------
# What both kernels do


@inlined
def mark_begins(blocks: Records[Block], rows: Int64Array) -> None:
    """Set ``begins`` of the games ``rows``, and of no others."""
    for i in range(len(blocks)):
        blocks[i].begins[:] = 0
    for row in rows:
        blocks[row // LANES].begins[row % LANES] = 1


@inlined
def mark_resets(g: Block, n: int, mode: int) -> None:
    """Set ``begins`` of the games that are over, where the mode resets them."""
    for b in range(n):
        g.begins[b] = g.is_over[b] & int64(mode == MOVE_OR_RESET)


@inlined
def begin_episodes(g: Block, n: int, s: Settings, boards: Int8Array | None, start: int) -> None:
    """Begin the next episode where ``begins`` is 1 in the games from ``start`` on: empty the board,
    set its seat and symmetry.
    """
    num_begun = 0
    for b in range(n):  # listed first, because they are few
        g.cell[num_begun] = b
        num_begun += g.begins[b]
    for i in range(num_begun):
        b = g.cell[i]
        g.mover[b] = g.stones[b] = g.first[b] = g.second[b] = g.is_over[b] = g.num_illegal[b] = 0
        if boards is not None:
            boards[start + b] = 0
        g.outcome[b] = NOT_OVER
        g.episode[b] += 1
        g.episode_key[b] = splitmix64(g.key[b], g.episode[b])
        g.seat[b] = int64(s.seats == SECOND)
        if s.seats == RANDOM_SEAT:
            g.seat[b] = int64(uniform(g.episode_key[b], STREAM_SEAT, 0) * 2)
        elif s.seats == ALTERNATE:
            g.seat[b] = g.episode[b] % 2
        if s.num_symmetries > 1:
            g.symmetry[b] = int64(uniform(g.episode_key[b], STREAM_SYMMETRY, 0) * s.num_symmetries)


@inlined
def read_actions(g: Block, n: int, actions: Int64Array, permutations: Int64Array | None) -> None:
    """Write the actions on the board itself."""
    if permutations is not None and len(permutations) > 1:
        for b in range(n):
            g.cell[b] = permutations[g.symmetry[b], actions[b]]
    else:
        for b in range(n):
            g.cell[b] = actions[b]


@inlined
def plays(g: Block, b: int) -> int:
    """Return 1 where the caller moves, else 0."""
    return int64(g.outcome[b] == NOT_OVER) & int64(g.begins[b] == 0)


@inlined
def awaits_reply(g: Block, b: int) -> int:
    """Return 1 where the opponent moves, else 0."""
    return int64(g.outcome[b] == NOT_OVER) & int64(g.mover[b] != g.seat[b])


@inlined
def count_illegal(g: Block, n: int, s: Settings) -> None:
    """Count illegal actions, and end games that they lose or truncate; rare."""
    for b in range(n):
        g.num_illegal[b] += g.illegal[b]
        if g.illegal[b] and s.illegal_action == LOSE:
            g.outcome[b] = FORFEIT + g.mover[b]
        elif g.illegal[b] and g.num_illegal[b] >= s.parameters.rows * s.parameters.columns:
            g.outcome[b] = TRUNCATED


@inlined
def write_info(g: Block, n: int, out: Outputs) -> None:
    """Write mover, seat, outcome and winner."""
    for b in range(n):
        outcome = g.outcome[b]
        first_won = int64(outcome == 0) | int64(outcome == FORFEIT + 1)
        second_won = int64(outcome == 1) | int64(outcome == FORFEIT)
        g.winner[b] = first_won + 2 * second_won - 1
    # separate loops, because the compiler checks few arrays of one loop for overlaps
    for b in range(n):
        out.mover[b] = g.mover[b]
    for b in range(n):
        out.seat[b] = g.seat[b]
    for b in range(n):
        out.outcome[b] = g.outcome[b]
    for b in range(n):
        out.winner[b] = g.winner[b]


@inlined
def finish(g: Block, n: int, s: Settings, out: Outputs) -> int:
    """Write rewards and flags of games that have ended, mark them as over, and return their
    number.
    """
    num_ended = 0
    penalty = int64(s.illegal_action == PENALIZE)
    for b in range(n):
        has_ended = int64(g.outcome[b] != NOT_OVER) & (g.begins[b] ^ 1)
        g.is_over[b] = has_ended
        num_ended += has_ended
        result = int64(g.winner[b] == g.seat[b]) - int64(g.winner[b] == 1 - g.seat[b])
        reward = np.float64(int32(has_ended * result - g.illegal[b] * penalty))
        out.rewards[b] = reward.view(np.uint64)
    for b in range(n):  # separate loops for bytes: loops of mixed widths are not vectorised
        out.terminated[b] = g.is_over[b] & int64(g.outcome[b] != TRUNCATED)
    for b in range(n):
        out.truncated[b] = g.is_over[b] & int64(g.outcome[b] == TRUNCATED)
    return num_ended


@inlined
def write_views(n: int, s: Settings, out: Outputs) -> None:
    """Write the planes as both players see them, where the caller plays alone."""
    if s.seats != NOBODY:
        return
    size = s.parameters.rows * s.parameters.columns
    for b in range(n):
        first = out.planes.view(np.int8)[2 * b * size :]
        second = first[size:]
        view = out.views.view(np.int8)[4 * b * size :]
        other_view = view[2 * size :]
        for cell in range(size):
            view[2 * cell] = first[cell]
            view[2 * cell + 1] = second[cell]
        for cell in range(size):
            other_view[2 * cell] = second[cell]
            other_view[2 * cell + 1] = first[cell]


# --------------------------------------------------------------------------------------------------
# Stones as bits: boards up to 63 cells


@inlined
def put_bit(g: Block, b: int, bit: int, moves: int, s: Settings) -> None:
    """Put the mover's stone on the empty cell ``bit`` where ``moves`` is 1, and set the next
    mover.
    """
    rules = s.parameters
    player = g.mover[b]
    first = g.first[b]
    second = g.second[b]
    own = where(player, second, first) | bit
    outcome = outcome_of_move(has_line(own, rules), player, g.stones[b] + 1, rules)
    other_moves = int64(1)
    if rules.skip_chance > 0:  # no random number is needed else
        u = uniform(g.episode_key[b], STREAM_SKIP, g.stones[b])
        other_moves = next_mover(0, u, g.skip_chance[b])
    stone = where(moves, bit, 0)
    g.first[b] = first | where(player, 0, stone)
    g.second[b] = second | where(player, stone, 0)
    g.stones[b] += moves
    g.outcome[b] = where(moves, outcome, g.outcome[b])
    g.mover[b] = player ^ (moves & other_moves & int64(outcome == NOT_OVER))


@inlined
def bit_of_action(g: Block, b: int, action: int, s: Settings) -> int:
    """Return the cell that an action fills as a bit, 0 if it is illegal."""
    return legal_bits(g.first[b], g.second[b], s.parameters) & (s.action_cells << action)


@inlined
def move_bits(g: Block, n: int, s: Settings) -> None:
    """Make the caller's moves."""
    any_illegal = 0
    is_self_play = int64(s.seats == BOTH)
    for b in range(n):
        is_playing = plays(g, b)
        g.seat[b] = where(is_playing & is_self_play, g.mover[b], g.seat[b])
        bit = bit_of_action(g, b, g.cell[b], s)
        moves = is_playing & int64(bit != 0)
        put_bit(g, b, bit, moves, s)
        g.illegal[b] = is_playing ^ moves
        any_illegal += g.illegal[b]
    if any_illegal > 0:
        count_illegal(g, n, s)


@inlined
def reply_bit(g: Block, b: int, s: Settings) -> None:
    """Make a uniformly random move where the opponent is to move."""
    moves = awaits_reply(g, b)
    legal = legal_bits(g.first[b], g.second[b], s.parameters)
    u = uniform(g.episode_key[b], STREAM_OPPONENT, g.stones[b])
    rank = int64(int32(u * int32(count_bits(legal))))
    size = s.parameters.rows * s.parameters.columns
    put_bit(g, b, int64(1) << nth_bit(legal, rank, size), moves, s)


@inlined
def reply_bits(g: Block, n: int, s: Settings) -> None:
    """Make uniformly random replies."""
    for b in range(n):
        reply_bit(g, b, s)
    if s.parameters.skip_chance > 0:
        for b in range(n):  # few games, those with a skipped turn: the opponent moves again
            while awaits_reply(g, b):
                reply_bit(g, b, s)


_SPREAD = np.uint64(0x8040201008040201)  # byte i has bit i
_ONES = np.uint64(0x0101010101010101)
_SEVENS = np.uint64(0x7F7F7F7F7F7F7F7F)


@inlined
def write_bytes(
    numbers: Int64Array, count: int, size: int, words: UInt64Array, out: UInt64Array
) -> None:
    """Write a byte, 0 or 1, for each of the lowest ``size`` bits of ``count`` numbers; ``words`` is
    scratch.
    """
    word = np.uint64(0)
    num_filled = 0
    index = 0
    for i in range(count):
        bits = np.uint64(numbers[i])
        word |= bits << np.uint64(num_filled)
        num_filled += size
        if num_filled >= 64:  # depends on the board size, not on the games: well predicted
            words[index] = word
            index += 1
            num_filled -= 64
            # in two shifts, because a shift by 64 is undefined
            word = (bits >> np.uint64(1)) >> np.uint64(size - num_filled - 1)
    words[index] = word
    octets = words.view(np.int8)
    for i in range(len(out)):
        spread = (np.uint64(np.uint8(octets[i])) * _ONES) & _SPREAD
        out[i] = ((spread + _SEVENS) >> np.uint64(7)) & _ONES


@inlined
def read_bits(g: Block, n: int, s: Settings) -> None:
    """Set the stones of the player of a game's planes, the other's and the legal actions as
    bits.
    """
    is_self_play = int64(s.seats == BOTH)
    for b in range(n):
        player = where(is_self_play, g.mover[b], g.seat[b])
        g.own[b] = where(player, g.second[b], g.first[b])
        end_bits = -int64(g.outcome[b] != NOT_OVER)  # after the end all actions are legal
        g.legal[b] = (~(g.first[b] | g.second[b]) | end_bits) & all_bits(s.num_actions)
    for b in range(n):
        g.other[b] = g.first[b] ^ g.second[b] ^ g.own[b]


@inlined
def permute_bits(g: Block, n: int, permutations: Int64Array) -> None:
    """Show the bits of :func:`read_bits` under each episode's symmetry."""
    for b in range(n):
        own = g.own[b]
        other = g.other[b]
        legal = int64(g.legal[b])
        g.own[b] = g.other[b] = g.legal[b] = 0
        for cell in range(permutations.shape[1]):
            board_cell = int64(permutations[g.symmetry[b], cell])
            g.own[b] |= (own >> board_cell & 1) << cell
            g.other[b] |= (other >> board_cell & 1) << cell
            # with gravity, columns are cells of the first row
            g.legal[b] |= (legal >> board_cell & 1) << cell


@inlined
def write_bits(g: Block, n: int, s: Settings, out: Outputs) -> None:
    """Write a byte for each bit of :func:`read_bits`."""
    size = s.parameters.rows * s.parameters.columns
    count = 2 * n
    if 2 * size < 64:  # both players' stones are one number
        for b in range(n):
            g.stone_bits[b] = g.own[b] | g.other[b] << size
        size = 2 * size
        count = n
    else:
        for b in range(n):
            g.stone_bits[2 * b] = g.own[b]
            g.stone_bits[2 * b + 1] = g.other[b]
    write_bytes(g.stone_bits, count, size, g.words, out.planes)
    write_bytes(g.legal, n, s.num_actions, g.words, out.mask)


# --------------------------------------------------------------------------------------------------
# Stones cell by cell: all rules, all sizes


@inlined
def knows_stone(board: Int8Array, player: int, cell: int, s: Settings) -> bool:
    """Return whether a player sees a stone on a cell."""
    if s.hidden != VISIBLE:
        return not is_unknown(board[0], board[1], player, cell)
    return bool(board[0, cell] != 0)


@inlined
def cell_of(board: Int8Array, player: int, action: int, s: Settings) -> int:
    """Return the cell of an action, -1 if it is illegal."""
    if has_gravity(s.parameters):
        return landing_cell(board[0], action, s.parameters)
    return -1 if knows_stone(board, player, action, s) else action


@inlined
def put_cell(g: Block, b: int, cell: int, board: Int8Array, s: Settings) -> bool:
    """Put the mover's stone on a cell, or find a hidden stone there; return whether it was
    legal.
    """
    outcome, next_player = attempt(
        board[0],
        board[1],
        g.mover[b],
        cell,
        g.stones[b],
        g.episode_key[b],
        s.hidden,
        s.parameters,
        g.skip_chance[b],
    )
    if outcome == ILLEGAL:
        return False
    g.mover[b] = next_player
    g.stones[b] += int64(outcome != FOUND)
    g.outcome[b] = NOT_OVER if outcome == FOUND else outcome
    return True


@inlined
def move_cells(g: Block, n: int, s: Settings, boards: Int8Array) -> None:
    """Make the caller's moves."""
    for b in range(n):
        g.illegal[b] = 0
        if plays(g, b):
            g.seat[b] = g.mover[b] if s.seats == BOTH else g.seat[b]
            cell = cell_of(boards[b], g.mover[b], g.cell[b], s)
            g.illegal[b] = int64(cell < 0)
            if cell >= 0:
                g.cell[b] = cell
                put_cell(g, b, cell, boards[b], s)
    count_illegal(g, n, s)


@inlined
def nth_unknown_cell(board: Int8Array, player: int, key: np.uint64) -> int:
    """Return a uniformly random cell that a player may attempt; the draw has the number of cells
    known to be taken.
    """
    size = board.shape[1]
    num_unknown = 0
    for cell in range(size):
        num_unknown += int64(is_unknown(board[0], board[1], player, cell))
    rank = int64(uniform(key, STREAM_OPPONENT, size - num_unknown) * num_unknown)
    for cell in range(size):
        rank -= int64(is_unknown(board[0], board[1], player, cell))
        if rank < 0:
            return cell
    return -1


@inlined
def reply_cells(g: Block, n: int, s: Settings, boards: Int8Array) -> None:
    """Make uniformly random replies."""
    for b in range(n):
        while awaits_reply(g, b):
            if s.hidden != VISIBLE:
                cell = nth_unknown_cell(boards[b], g.mover[b], g.episode_key[b])
            else:
                u = uniform(g.episode_key[b], STREAM_OPPONENT, g.stones[b])
                cell = nth_legal_cell(boards[b, 0], u, s.parameters)
            put_cell(g, b, cell, boards[b], s)


@inlined
def plane_player(g: Block, b: int, s: Settings) -> int:
    """Return the player of a game's planes."""
    return g.mover[b] if s.seats == BOTH else g.seat[b]


@inlined
def write_planes(g: Block, b: int, stones: Int8Array, s: Settings, planes: Int8Array) -> None:
    """Write the planes of visible stones that are seen as they are: loops without indices of cells
    are vectorised.
    """
    own = int8(plane_player(g, b, s) + 1)
    other_plane = planes[len(stones) :]
    for cell in range(len(stones)):
        planes[cell] = stones[cell] == own
    for cell in range(len(stones)):
        other_plane[cell] = stones[cell] == 3 - own


@inlined
def write_mask(g: Block, b: int, stones: Int8Array, s: Settings, mask: Int8Array) -> None:
    """Write the mask of visible stones that are seen as they are."""
    is_over = int8(g.outcome[b] != NOT_OVER)
    for cell in range(s.num_actions):  # with gravity, columns are cells of the first row
        mask[cell] = is_over | int8(stones[cell] == 0)


@inlined
def write_stone(g: Block, s: Settings, stones: Int8Array, out: Outputs) -> None:
    """Write the last stone of the only game, which goes on, into the observation before it."""
    size = len(stones)
    cell = g.cell[0]
    player = int64(stones[cell]) - 1
    views = out.views.view(np.int8)
    out.planes.view(np.int8)[player * size + cell] = 1
    views[2 * (player * size + cell)] = 1
    views[2 * ((1 - player) * size + cell) + 1] = 1
    action = cell % s.num_actions
    out.mask.view(np.int8)[action] = stones[action] == 0


@inlined
def observe_cells(
    g: Block,
    n: int,
    s: Settings,
    permutations: Int64Array,
    boards: Int8Array,
    planes: Int8Array,
    mask: Int8Array,
) -> None:
    """Write with a byte per cell the stones of the planes' player, the other's stones that it sees
    and the mover's legal actions.
    """
    size = permutations.shape[1]
    hides = int8(s.hidden != VISIBLE and s.seats != NOBODY)
    for b in range(n):
        board = boards[b]
        game_planes = planes[2 * b * size :]
        game_mask = mask[b * s.num_actions :]
        if s.hidden == VISIBLE and len(permutations) == 1:  # the common case
            write_planes(g, b, board[0], s, game_planes)
            write_mask(g, b, board[0], s, game_mask)
            continue
        permutation = permutations[g.symmetry[b]]
        own = int8(plane_player(g, b, s) + 1)
        is_over = int8(g.outcome[b] != NOT_OVER)
        for cell in range(size):
            board_cell = permutation[cell]
            stone = board[0, board_cell]
            game_planes[cell] = int8(stone == own)
            is_seen = board[1, board_cell] | (1 - hides)
            game_planes[size + cell] = int8(stone == 3 - own) & is_seen
        for action in range(s.num_actions):  # with gravity, columns are cells of the first row
            is_known = knows_stone(board, g.mover[b], permutation[action], s)
            game_mask[action] = is_over | int8(not is_known)


# --------------------------------------------------------------------------------------------------
# Steps. Where stones are bits, ``boards`` is None, and numba leaves out the branches of cells;
# ``permutations`` likewise where nobody sees the games.


@inlined
def first_invalid(
    blocks: Records[Block],
    permutations: Int64Array | None,
    boards: Int8Array | None,
    actions: Int64Array,
    mode: int,
    s: Settings,
) -> int:
    """Return the first game with an action out of range or, where those are errors, an illegal one;
    -1 for none.
    """
    num_invalid = 0  # counted first, because a loop that returns is not vectorised
    for b in range(len(actions)):
        num_invalid += int64(actions[b] < 0) | int64(actions[b] >= s.num_actions)
    if num_invalid > 0:
        for b in range(len(actions)):
            if actions[b] < 0 or actions[b] >= s.num_actions:
                return b
    if s.illegal_action != RAISE:
        return -1
    for b in range(len(actions)):
        g = blocks[b // LANES]
        lane = b % LANES
        is_ignored = g.outcome[lane] != NOT_OVER or (mode == MOVE_OR_RESET and g.is_over[lane] != 0)
        action = actions[b]
        if permutations is not None:
            action = int64(permutations[g.symmetry[lane], action])
        if boards is None:
            is_legal = bit_of_action(g, lane, action, s) != 0
        else:
            is_legal = cell_of(boards[b], g.mover[lane], action, s) >= 0
        if not (is_legal or is_ignored):
            return b
    return -1


@pasted
def make_moves(g: Block, n: int, s: Settings, boards: Int8Array | None, start: int) -> None:
    """Make the caller's moves in the games from ``start`` on."""
    if boards is not None:
        move_cells(g, n, s, boards[start:])
    else:
        move_bits(g, n, s)


@pasted
def observe(
    g: Block,
    n: int,
    s: Settings,
    permutations: Int64Array,
    boards: Int8Array | None,
    start: int,
    out: Outputs,
) -> None:
    """Write the observations of the games from ``start`` on."""
    if boards is not None:
        planes = out.planes.view(np.int8)
        mask = out.mask.view(np.int8)
        observe_cells(g, n, s, permutations, boards[start:], planes, mask)
    else:
        read_bits(g, n, s)
        if len(permutations) > 1:
            permute_bits(g, n, permutations)
        write_bits(g, n, s, out)
    write_views(n, s, out)


@kernel
def step(
    memory: Int64Array,
    permutations: Int64Array | None,
    lines: Int64Array | None,
    boards: Int8Array | None,
    actions: Int64Array,
    mode: int,
    outputs: UInt64Array,
) -> int:
    """Make the caller's moves and, where the opponent needs no Python code, its replies and the
    outputs.

    Args:
        memory: of ``BLOCK`` [ceil(B / 64)], as integers, which take a fifth of a microsecond less
            per call.
        permutations: int64[S, cells]: the symmetries under which episodes are seen; None where
            nobody sees them, and then nothing is observed.
        lines: ``Parameters.lines``.
        boards: int8[B, 2, cells], or None where stones are bits.
        actions: int64[B]; in the mode ``RESET`` int64[R], the games to reset.
        mode: ``MOVE``; ``MOVE_OR_RESET``, which resets games that are over instead; ``RESET``;
            ``FINISH``, after replies by policies, writes the outputs only; ``OBSERVE`` writes the
            observations only.
        outputs: see :class:`Outputs`.

    Returns:
        The number of games that have ended; or -1 - b for the first game b with an invalid action,
        and then nothing has changed.
    """
    blocks: Records[Block] = memory.view(BLOCK)
    s = read_settings(blocks, lines)
    moves = mode <= MOVE_OR_RESET
    begins = moves or mode == RESET
    if moves:
        invalid = first_invalid(blocks, permutations, boards, actions, mode, s)
        if invalid >= 0:
            return -1 - invalid
    if mode == RESET:
        mark_begins(blocks, actions)
    num_ended = 0
    for i in range(len(blocks)):
        g = blocks[i]
        start = i * LANES
        n = min(s.num_games - start, LANES)
        if moves:
            mark_resets(g, n, mode)
        if begins:
            begin_episodes(g, n, s, boards, start)
        if moves:
            read_actions(g, n, actions[start:], permutations)
            make_moves(g, n, s, boards, start)
        if begins and s.replies == REPLY_RANDOM:
            if boards is not None:
                reply_cells(g, n, s, boards[start:])
            else:
                reply_bits(g, n, s)
        if begins and s.replies == REPLY_POLICY:
            continue
        out = split_outputs(outputs, start, n, s)
        write_info(g, n, out)
        if permutations is not None:
            observe(g, n, s, permutations, boards, start, out)
        if mode != RESET and mode != OBSERVE:
            num_ended += finish(g, n, s, out)
    return num_ended


@inlined
def _move_one(
    memory: Int64Array, boards: Int8Array | None, outputs: UInt64Array, action: int
) -> int:
    """Do :func:`step_one`, or with ``boards`` :func:`step_one_in_cells`."""
    blocks: Records[Block] = memory.view(BLOCK)
    s = read_settings(blocks, None)
    g = blocks[0]
    g.cell[0] = action
    g.begins[0] = 0
    out = split_outputs(outputs, 0, 1, s)
    make_moves(g, 1, s, boards, 0)
    write_info(g, 1, out)
    if boards is None:
        read_bits(g, 1, s)
        write_bits(g, 1, s, out)
        write_views(1, s, out)
    elif g.outcome[0] == NOT_OVER:
        write_stone(g, s, boards[0, 0], out)
    else:
        write_planes(g, 0, boards[0, 0], s, out.planes.view(np.int8))
        write_mask(g, 0, boards[0, 0], s, out.mask.view(np.int8))
        write_views(1, s, out)
    return pack_result(g.mover[0], g.outcome[0])


@kernel
def step_one(memory: Int64Array, outputs: UInt64Array, action: int) -> int:
    """Do :func:`step` in one game in progress with stones as bits, which is seen as it is, with
    runs as lines and without replies.

    Rewards and flags are not written. Fewer arguments and no modes: these take most of the time of
    one move.

    Returns:
        See ``game_batch.unpack_result``.
    """
    return _move_one(memory, None, outputs, action)


@kernel
def step_one_in_cells(
    memory: Int64Array, boards: Int8Array, outputs: UInt64Array, action: int
) -> int:
    """Do :func:`step_one` with stones cell by cell, where the caller plays alone; a game that goes
    on writes one stone.
    """
    return _move_one(memory, boards, outputs, action)


# --------------------------------------------------------------------------------------------------
# Policies that reply, and positions. ``boards`` is empty where stones are bits.


@kernel
def games_to_reply(memory: Int64Array, out: Int64Array) -> int:
    """Write the games in which the opponent is to move into ``out`` int64[B] and return their
    number.
    """
    blocks: Records[Block] = memory.view(BLOCK)
    num_waiting = 0
    for b in range(len(out)):
        if awaits_reply(blocks[b // LANES], b % LANES):
            out[num_waiting] = b
            num_waiting += 1
    return num_waiting


@kernel
def play_replies(
    rows: Int64Array,
    cells: Int64Array,
    memory: Int64Array,
    lines: Int64Array | None,
    boards: Int8Array,
) -> int:
    """Play ``cells`` int64[R] in the games ``rows``; return the index of the first that is illegal,
    -1 for none.
    """
    blocks: Records[Block] = memory.view(BLOCK)
    s = read_settings(blocks, lines)
    for i in range(len(rows)):
        g = blocks[rows[i] // LANES]
        b = rows[i] % LANES
        cell = cells[i]
        if cell < 0 or cell >= s.parameters.rows * s.parameters.columns:
            return i
        if len(boards) > 0:
            if not put_cell(g, b, cell, boards[rows[i]], s):
                return i
        else:
            bit = legal_bits(g.first[b], g.second[b], s.parameters) & (int64(1) << cell)
            if bit == 0:
                return i
            put_bit(g, b, bit, int64(1), s)
    return -1


@kernel
def read_boards(
    rows: Int64Array,
    memory: Int64Array,
    boards: Int8Array,
    views: bool,
    cells: Int8Array,
    movers: Int8Array,
) -> None:
    """Copy positions of the games ``rows`` int64[R], or with ``views`` what the movers see: int8[R,
    cells], int8[R].
    """
    blocks: Records[Block] = memory.view(BLOCK)
    s = read_settings(blocks, None)
    for i in range(len(rows)):
        g = blocks[rows[i] // LANES]
        b = rows[i] % LANES
        movers[i] = g.mover[b]
        for cell in range(cells.shape[1]):
            if len(boards) > 0:
                board = boards[rows[i]]
                is_seen = not views or knows_stone(board, g.mover[b], cell, s)
                cells[i, cell] = board[0, cell] if is_seen else 0
            else:
                cells[i, cell] = (g.first[b] >> cell & 1) | (g.second[b] >> cell & 1) << 1


@kernel
def write_boards(
    rows: Int64Array, cells: Int8Array, movers: Int8Array, memory: Int64Array, boards: Int8Array
) -> None:
    """Set the positions int8[R, cells], int8[R] of the games ``rows``; no stone is found."""
    blocks: Records[Block] = memory.view(BLOCK)
    for i in range(len(rows)):
        g = blocks[rows[i] // LANES]
        b = rows[i] % LANES
        g.mover[b] = movers[i]
        g.first[b] = g.second[b] = g.stones[b] = 0
        for cell in range(cells.shape[1]):
            g.stones[b] += cells[i, cell] != 0
            if len(boards) > 0:
                boards[rows[i], 0, cell] = cells[i, cell]
                boards[rows[i], 1, cell] = 0
            else:
                g.first[b] |= int64(cells[i, cell] == 1) << cell
                g.second[b] |= int64(cells[i, cell] == 2) << cell
