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

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np

from ttt_envs.core.jit import (
    BoolArray,
    Float64Array,
    Int8Array,
    Int64Array,
    UInt64Array,
    inlined,
    int8,
    int64,
    kernel,
)
from ttt_envs.core.random import splitmix64, uniform
from ttt_envs.game.attempts import FOUND, VISIBLE, attempt, is_unknown
from ttt_envs.game.bits import count_bits, nth_bit
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
int32 = cast(Callable[[Any], int], np.int32)
"""for which more processors have vector instructions from and to float than for int64"""
FORFEIT, TRUNCATED = int(Outcome.PLAYER_0_FORFEITED), int(Outcome.TRUNCATED)  # FORFEIT + the loser
LOSE, PENALIZE, RAISE = range(3)  # consequences of an illegal action
FIRST, SECOND, RANDOM_SEAT, ALTERNATE, BOTH, NOBODY = range(
    6
)  # the caller's seat, see `Settings.seats`
REPLY_NONE, REPLY_RANDOM, REPLY_POLICY = range(
    3
)  # replies: none (self-play), uniformly random, by a policy's own code
MOVE, MOVE_OR_RESET, FINISH, RESET, OBSERVE = range(5)  # what a step does

Block: TypeAlias = Any
"""a record of ``BLOCK``"""


class Settings(NamedTuple):
    """Settings shared by all games and steps of a batch."""

    num_games: int
    reach: int
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
    observes: int
    """1 where steps write observations, else 0"""
    parameters: Parameters
    """of the game with the highest skip chance; ``skip_chance`` of a block has those of episodes"""


def _record(names: Sequence[str]) -> np.dtype[Any]:
    """Return a record of integers, but a skip chance is a float."""
    return np.dtype(
        (np.record, [(name, np.float64 if name == "skip_chance" else np.int64) for name in names])
    )


COLUMNS = (
    "mover", "seat", "outcome", "is_over", "stones", "episode", "symmetry", "num_illegal", "stage",
    "num_steps",
)  # fmt: skip
"""Columns of integers that are a game's state. ``is_over``: the end was shown. ``stage``: of the
schedule of opponents. ``num_steps``: steps since seeding, counted if there is a schedule."""
SCRATCH = ("begins", "winner", "first", "second", "illegal", "cell")
"""Further columns. ``begins``: the last step began the game. ``first``, ``second``: the players'
stones as bits. ``illegal``: the last action was illegal. ``cell``: of the action."""
BLOCK = np.dtype(
    (
        np.record,
        [("settings", _record(Settings._fields[:-1])), ("rules", _record(Parameters._fields[:-1]))]
        + [(name, np.int64, LANES) for name in (*COLUMNS, *SCRATCH)]
        + [
            ("key", np.uint64, LANES),
            ("episode_key", np.uint64, LANES),
            ("skip_chance", np.float64, LANES),
        ]
        + [
            ("views", np.int64, 2 * LANES),
            ("legal", np.int64, 2 * LANES),
            ("words", np.uint64, 2 * LANES),
        ],
    )
)
"""A block of games, with the settings, because each argument costs the caller of a kernel as much
as a move. ``key``: of the seed. ``episode_key``: ``splitmix64(key, episode)``. ``views``: the
viewers' stones, then the others'. ``legal``: the legal actions as bits; half is unused, so that
loops over both are compiled once. ``words``: scratch."""


@inlined
def read_settings(blocks: Block, lines: Int64Array | None) -> Settings:
    """Return the settings as numbers that no store can change; ``lines`` are
    ``Parameters.lines``.
    """
    s, rules = blocks[0].settings, blocks[0].rules
    parameters = Parameters(
        rules.rows, rules.columns, rules.win_length, rules.skip_chance, rules.variants,
        rules.row_starts, rules.falling_starts, rules.rising_starts, lines,
    )  # fmt: skip
    return Settings(
        s.num_games,
        s.reach,
        s.num_actions,
        s.seats,
        s.illegal_action,
        s.replies,
        s.hidden,
        s.observes,
        parameters,
    )


class Outputs(NamedTuple):
    """What a step writes, as parts of one array; ``engine.Output`` names the same parts."""

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
    rewards: Float64Array
    terminated: BoolArray
    truncated: BoolArray


@inlined
def split_outputs(memory: UInt64Array, start: int, n: int, s: Settings) -> Outputs:
    """Return the parts of the memory of ``engine.Output`` for ``n`` games from ``start``, a
    multiple of ``LANES``, on.

    Loops over such a part need no test for negative indices, so that they are vectorised.
    """
    count, size = s.num_games, s.parameters.rows * s.parameters.columns
    masks = (2 * count * size + 7) // 8 * s.observes
    numbers = masks + (count * s.num_actions + 7) // 8 * s.observes
    planes, mask = start * size // 4, masks + start * s.num_actions // 8
    info, flags = memory[numbers + start :], memory[numbers + 5 * count :].view(np.bool_)[start:]
    return Outputs(
        memory[planes : planes + (2 * n * size + 7) // 8],
        memory[mask : mask + (n * s.num_actions + 7) // 8],
        info[:n],
        info[count : count + n],
        info[2 * count : 2 * count + n],
        info[3 * count : 3 * count + n],
        info[4 * count : 4 * count + n].view(np.float64),
        flags[:n],
        flags[count : count + n],
    )


# --------------------------------------------------------------------------------------------------
# What both kernels do


@inlined
def mark_begins(blocks: Block, rows: Int64Array) -> None:
    """Set ``begins`` of the games ``rows``, and of no others."""
    for i in range(len(blocks)):
        blocks[i].begins[:] = 0
    for row in rows:
        blocks[row // LANES].begins[row % LANES] = 1


@inlined
def begin_episodes(g: Block, n: int, s: Settings, num_symmetries: int) -> None:
    """Begin the next episode where ``begins`` is 1: empty the board, set its seat and symmetry."""
    num_begun = int64(0)
    for b in range(n):  # listed first, because they are few
        g.cell[num_begun] = b
        num_begun += g.begins[b]
    for i in range(num_begun):
        b = g.cell[i]
        g.mover[b] = g.stones[b] = g.first[b] = g.second[b] = g.is_over[b] = g.num_illegal[b] = 0
        g.outcome[b] = NOT_OVER
        g.episode[b] += 1
        g.episode_key[b] = splitmix64(g.key[b], g.episode[b])
        g.seat[b] = int64(s.seats == SECOND)
        if s.seats == RANDOM_SEAT:
            g.seat[b] = int64(uniform(g.episode_key[b], STREAM_SEAT, 0) * 2)
        elif s.seats == ALTERNATE:
            g.seat[b] = g.episode[b] % 2
        if num_symmetries > 1:
            g.symmetry[b] = int64(uniform(g.episode_key[b], STREAM_SYMMETRY, 0) * num_symmetries)


@inlined
def read_actions(g: Block, n: int, actions: Int64Array, permutations: Int64Array) -> None:
    """Write the actions on the board itself."""
    if len(permutations) > 1:
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
        truncated = (
            TRUNCATED if g.num_illegal[b] >= s.parameters.rows * s.parameters.columns else NOT_OVER
        )
        outcome = FORFEIT + g.mover[b] if s.illegal_action == LOSE else truncated
        g.outcome[b] = outcome if g.illegal[b] else g.outcome[b]


@inlined
def write_info(g: Block, n: int, out: Outputs) -> None:
    """Write mover, seat, outcome and winner."""
    for b in range(n):
        outcome = g.outcome[b]
        first_won = int64(outcome == 0) | int64(outcome == FORFEIT + 1)
        second_won = int64(outcome == 1) | int64(outcome == FORFEIT)
        g.winner[b] = first_won + 2 * second_won - 1
    for b in range(
        n
    ):  # separate loops, because the compiler checks few arrays of one loop for overlaps
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
    num_ended, penalty = int64(0), int64(s.illegal_action == PENALIZE)
    for b in range(n):
        ended = int64(g.outcome[b] != NOT_OVER) & (g.begins[b] ^ 1)
        g.is_over[b] = ended
        num_ended += ended
        result = int64(g.winner[b] == g.seat[b]) - int64(g.winner[b] == 1 - g.seat[b])
        out.rewards[b] = float(int32(ended * result - g.illegal[b] * penalty))
    for b in range(n):  # separate loops for bytes: loops of mixed widths are not vectorised
        out.terminated[b] = g.is_over[b] & int64(g.outcome[b] != TRUNCATED) != 0
    for b in range(n):
        out.truncated[b] = g.is_over[b] & int64(g.outcome[b] == TRUNCATED) != 0
    return num_ended


# --------------------------------------------------------------------------------------------------
# Stones as bits: boards up to 63 cells


@inlined
def put_bit(g: Block, b: int, bit: int, moves: int, s: Settings) -> None:
    """Put the mover's stone on the empty cell ``bit`` where ``moves`` is 1, and set the next
    mover.
    """
    rules = s.parameters
    player, first, second = g.mover[b], g.first[b], g.second[b]
    own = first ^ ((first ^ second) & -player) | bit
    outcome = outcome_of_move(has_line(own, rules), player, g.stones[b] + 1, rules)
    other_moves = int64(1)
    if rules.skip_chance > 0:  # no random number is needed else
        u = uniform(g.episode_key[b], STREAM_SKIP, g.stones[b])
        other_moves = next_mover(0, u, g.skip_chance[b])
    stone = bit & -moves
    g.first[b] = first | stone & (player - 1)
    g.second[b] = second | stone & -player
    g.stones[b] += moves
    g.outcome[b] ^= (g.outcome[b] ^ outcome) & -moves
    g.mover[b] = player ^ (moves & other_moves & int64(outcome == NOT_OVER))


@inlined
def is_tic_tac_toe(rules: Parameters) -> bool:
    """Return whether the game is that of 3 x 3 cells, for which loops are compiled a second
    time.
    """
    return rules.rows == 3 and rules.columns == 3 and rules.win_length == 3 and rules.variants == 0


@inlined
def tic_tac_toe_settings(s: Settings) -> Settings:
    """Return the same settings where :func:`is_tic_tac_toe`, with numbers that the compiler knows.

    Shifts by known numbers are faster: a search for lines takes little more than half of the time.
    """
    rules = s.parameters
    constant_rules = Parameters(
        3,
        3,
        3,
        rules.skip_chance,
        0,
        rules.row_starts,
        rules.falling_starts,
        rules.rising_starts,
        rules.lines,
    )
    return Settings(
        s.num_games,
        1,
        9,
        s.seats,
        s.illegal_action,
        s.replies,
        s.hidden,
        s.observes,
        constant_rules,
    )


@inlined
def move_bits(g: Block, n: int, s: Settings) -> None:
    """Make the caller's moves."""
    any_illegal, is_self_play = int64(0), int64(s.seats == BOTH)
    for b in range(n):
        is_playing = plays(g, b)
        g.seat[b] ^= (g.seat[b] ^ g.mover[b]) & -(is_playing & is_self_play)
        bit = legal_bits(g.first[b], g.second[b], s.parameters) & (s.reach << g.cell[b])
        moves = is_playing & int64(bit != 0)
        put_bit(g, b, bit, moves, s)
        g.illegal[b] = is_playing ^ moves
        any_illegal += g.illegal[b]
    if any_illegal > 0:
        count_illegal(g, n, s)


@inlined
def reply_bit(g: Block, b: int, s: Settings) -> None:
    """Make a uniformly random move where the opponent is to move."""
    moves, legal = awaits_reply(g, b), legal_bits(g.first[b], g.second[b], s.parameters)
    u = uniform(g.episode_key[b], STREAM_OPPONENT, g.stones[b])
    rank, size = (
        int64(int32(u * int32(count_bits(legal)))),
        s.parameters.rows * s.parameters.columns,
    )
    put_bit(g, b, int64(1) << nth_bit(legal, rank, size), moves, s)


@inlined
def reply_bits(g: Block, n: int, s: Settings) -> None:
    """Make uniformly random replies."""
    for b in range(n):
        reply_bit(g, b, s)
    if (
        s.parameters.skip_chance > 0
    ):  # few games, those with a skipped turn: the opponent moves again
        for b in range(n):
            while awaits_reply(g, b):
                reply_bit(g, b, s)


_SPREAD = np.uint64(0x8040201008040201)  # byte i has bit i
_ONES = np.uint64(0x0101010101010101)
_SEVENS = np.uint64(0x7F7F7F7F7F7F7F7F)


@inlined
def write_bytes(
    numbers: Int64Array, count: int, parts: int, size: int, words: UInt64Array, out: UInt64Array
) -> None:
    """Write a byte, 0 or 1, for each of the lowest ``size`` bits of ``count`` numbers; ``words`` is
    scratch.

    With two ``parts``, every number is followed by that at ``LANES`` further.
    """
    word, num_filled, index = np.uint64(0), 0, 0
    for i in range(count * parts):
        bits = np.uint64(numbers[(i >> (parts - 1)) + LANES * (i & (parts - 1))])
        word |= bits << np.uint64(num_filled)
        num_filled += size
        if num_filled >= 64:  # depends on the board size, not on the games: well predicted
            words[index] = word
            index += 1
            num_filled -= 64
            word = (bits >> np.uint64(1)) >> np.uint64(
                size - num_filled - 1
            )  # a shift by 64 is undefined
    words[index] = word
    packed = words.view(np.uint8)
    for i in range(len(out)):
        spread = (np.uint64(packed[i]) * _ONES) & _SPREAD
        out[i] = ((spread + _SEVENS) >> np.uint64(7)) & _ONES


@inlined
def read_views(g: Block, n: int, s: Settings) -> None:
    """Write the viewer's stones, the other's and the legal actions as bits."""
    is_self_play = int64(s.seats == BOTH)
    for b in range(n):
        viewer = g.seat[b] ^ ((g.seat[b] ^ g.mover[b]) & -is_self_play)
        g.views[b] = g.first[b] ^ ((g.first[b] ^ g.second[b]) & -viewer)
        ended = -int64(g.outcome[b] != NOT_OVER)  # after the end all actions are legal
        g.legal[b] = (~(g.first[b] | g.second[b]) | ended) & ((int64(1) << s.num_actions) - 1)
    others = g.views[LANES:]
    for b in range(n):
        others[b] = g.first[b] ^ g.second[b] ^ g.views[b]


@inlined
def permute_views(g: Block, n: int, permutations: Int64Array) -> None:
    """Show the bits of :func:`read_views` under each episode's symmetry."""
    for b in range(n):
        own, other, legal = g.views[b], g.views[LANES + b], g.legal[b]
        g.views[b], g.views[LANES + b], g.legal[b] = 0, 0, 0
        for cell in range(permutations.shape[1]):
            board_cell = permutations[g.symmetry[b], cell]
            g.views[b] |= (own >> board_cell & 1) << cell
            g.views[LANES + b] |= (other >> board_cell & 1) << cell
            g.legal[b] |= (
                legal >> board_cell & 1
            ) << cell  # with gravity, columns are cells of the first row


@inlined
def write_views(g: Block, n: int, s: Settings, out: Outputs) -> None:
    """Write a byte for each bit of :func:`read_views`."""
    size, parts = s.parameters.rows * s.parameters.columns, int64(2)
    if 2 * size < 64:  # both players' stones are one number
        others, parts = g.views[LANES:], int64(1)
        for b in range(n):
            g.views[b] |= others[b] << size
    write_bytes(g.views, n, parts, 2 * size // parts, g.words, out.planes)
    write_bytes(g.legal, n, int64(1), s.num_actions, g.words, out.mask)


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
                put_cell(g, b, cell, boards[b], s)
    count_illegal(g, n, s)


@inlined
def nth_unknown_cell(board: Int8Array, player: int, key: np.uint64) -> int:
    """Return a uniformly random cell that a player may attempt; the draw has the number of cells
    known to be taken.
    """
    size, num_known, cell = board.shape[1], int64(0), int64(-1)
    for place_on_board in range(size):
        num_known += int64(not is_unknown(board[0], board[1], player, place_on_board))
    rest = int64(uniform(key, STREAM_OPPONENT, num_known) * (size - num_known))
    while rest >= 0:
        cell += 1
        rest -= int64(is_unknown(board[0], board[1], player, cell))
    return cell


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
def observe_cells(
    g: Block,
    n: int,
    s: Settings,
    permutations: Int64Array,
    boards: Int8Array,
    planes: Int8Array,
    mask: Int8Array,
) -> None:
    """Write with a byte per cell the viewer's stones, the other's stones that it sees and the
    mover's legal actions.
    """
    size, index, hides = permutations.shape[1], 0, int8(s.hidden != VISIBLE and s.seats != NOBODY)
    for b in range(n):
        board, permutation = boards[b], permutations[g.symmetry[b]]
        own = int8((g.mover[b] if s.seats == BOTH else g.seat[b]) + 1)
        ended = int8(g.outcome[b] != NOT_OVER)
        for cell in range(size):
            board_cell = permutation[cell]
            stone, is_found = board[0, board_cell], board[1, board_cell]
            planes[2 * b * size + cell] = int8(stone == own)
            planes[(2 * b + 1) * size + cell] = int8(stone == 3 - own) & (is_found | (1 - hides))
        for action in range(s.num_actions):  # with gravity, columns are cells of the first row
            mask[index] = ended | int8(not knows_stone(board, g.mover[b], permutation[action], s))
            index += 1


# --------------------------------------------------------------------------------------------------
# Steps. Where stones are bits, ``boards`` is None, and numba leaves out the branches of cells.


@inlined
def first_invalid(
    blocks: Block,
    permutations: Int64Array,
    boards: Int8Array | None,
    actions: Int64Array,
    mode: int,
    s: Settings,
) -> int:
    """Return the first game with an action out of range or, where those are errors, an illegal one;
    -1 for none.
    """
    num_invalid = int64(0)  # counted first, because a loop that returns is not vectorised
    for b in range(len(actions)):
        num_invalid += int64(actions[b] < 0) | int64(actions[b] >= s.num_actions)
    for b in range(len(actions) if num_invalid > 0 else 0):
        if actions[b] < 0 or actions[b] >= s.num_actions:
            return b
    for b in range(len(actions) if s.illegal_action == RAISE else 0):
        g, lane = blocks[b // LANES], b % LANES
        is_ignored = g.outcome[lane] != NOT_OVER or (mode == MOVE_OR_RESET and g.is_over[lane] != 0)
        action = permutations[g.symmetry[lane], actions[b]]
        if boards is None:
            is_legal = (
                legal_bits(g.first[lane], g.second[lane], s.parameters) & (s.reach << action) != 0
            )
        else:
            is_legal = cell_of(boards[b], g.mover[lane], action, s) >= 0
        if not (is_legal or is_ignored):
            return b
    return -1


@kernel
def step(
    memory: Int64Array,
    permutations: Int64Array,
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
        permutations: int64[S, cells]: the symmetries under which episodes are seen.
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
    blocks = memory.view(BLOCK)
    s = read_settings(blocks, lines)
    acts = mode <= MOVE_OR_RESET
    begins = acts or mode == RESET
    if acts:
        invalid = first_invalid(blocks, permutations, boards, actions, mode, s)
        if invalid >= 0:
            return -1 - invalid
    if mode == RESET:
        mark_begins(blocks, actions)
    num_ended = int64(0)
    for i in range(len(blocks)):
        g, start = blocks[i], i * LANES
        n = min(s.num_games - start, LANES)
        if acts:
            for b in range(n):
                g.begins[b] = g.is_over[b] & int64(mode == MOVE_OR_RESET)
        if begins:
            begin_episodes(g, n, s, len(permutations))
            if boards is not None:
                for b in range(n):
                    if g.begins[b]:
                        boards[start + b] = 0
        if acts:
            read_actions(g, n, actions[start:], permutations)
            if boards is None:
                if is_tic_tac_toe(s.parameters):
                    move_bits(g, n, tic_tac_toe_settings(s))
                else:
                    move_bits(g, n, s)
            else:
                move_cells(g, n, s, boards[start:])
        if begins and s.replies == REPLY_RANDOM:
            if boards is None:
                if is_tic_tac_toe(s.parameters):
                    reply_bits(g, n, tic_tac_toe_settings(s))
                else:
                    reply_bits(g, n, s)
            else:
                reply_cells(g, n, s, boards[start:])
        if begins and s.replies == REPLY_POLICY:
            continue
        out = split_outputs(outputs, start, n, s)
        write_info(g, n, out)
        if s.observes:
            if boards is None:
                read_views(g, n, s)
                if len(permutations) > 1:
                    permute_views(g, n, permutations)
                write_views(g, n, s, out)
            else:
                observe_cells(
                    g,
                    n,
                    s,
                    permutations,
                    boards[start:],
                    out.planes.view(np.int8),
                    out.mask.view(np.int8),
                )
        if mode != RESET and mode != OBSERVE:
            num_ended += finish(g, n, s, out)
    return num_ended


@kernel
def step_one(memory: Int64Array, outputs: UInt64Array, action: int) -> int:
    """Do :func:`step` in one game in progress that is seen as it is, with runs as lines and without
    replies.

    Rewards and flags are not written. Fewer arguments and no modes: these take most of the time of
    one move.

    Returns:
        Twice the (outcome + 1), plus the next mover.
    """
    blocks = memory.view(BLOCK)
    s, g = read_settings(blocks, None), blocks[0]
    g.cell[0], g.begins[0], out = action, 0, split_outputs(outputs, 0, 1, s)
    move_bits(g, 1, s)
    write_info(g, 1, out)
    read_views(g, 1, s)
    write_views(g, 1, s, out)
    return int64(2 * (g.outcome[0] + 1) + g.mover[0])


# --------------------------------------------------------------------------------------------------
# Policies that reply, and positions. ``boards`` is empty where stones are bits.


@kernel
def games_to_reply(memory: Int64Array, out: Int64Array) -> int:
    """Write the games in which the opponent is to move into ``out`` int64[B] and return their
    number.
    """
    blocks = memory.view(BLOCK)
    num_waiting = int64(0)
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
    blocks = memory.view(BLOCK)
    s = read_settings(blocks, lines)
    for i in range(len(rows)):
        g, b, cell = blocks[rows[i] // LANES], rows[i] % LANES, cells[i]
        if cell < 0 or cell >= s.parameters.rows * s.parameters.columns:
            return i
        if len(boards) > 0:
            if not put_cell(g, b, cell, boards[rows[i]], s):
                return i
        else:
            bit = legal_bits(g.first[b], g.second[b], s.parameters) & int64(1) << cell
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
    blocks = memory.view(BLOCK)
    s = read_settings(blocks, None)
    for i in range(len(rows)):
        g, b = blocks[rows[i] // LANES], rows[i] % LANES
        movers[i] = g.mover[b]
        for cell in range(cells.shape[1]):
            if len(boards) > 0:
                board = boards[rows[i]]
                cells[i, cell] = (
                    board[0, cell] if not views or knows_stone(board, g.mover[b], cell, s) else 0
                )
            else:
                cells[i, cell] = (g.first[b] >> cell & 1) | (g.second[b] >> cell & 1) << 1


@kernel
def write_boards(
    rows: Int64Array, cells: Int8Array, movers: Int8Array, memory: Int64Array, boards: Int8Array
) -> None:
    """Set the positions int8[R, cells], int8[R] of the games ``rows``; no stone is found."""
    blocks = memory.view(BLOCK)
    for i in range(len(rows)):
        g, b = blocks[rows[i] // LANES], rows[i] % LANES
        g.mover[b], g.first[b], g.second[b], g.stones[b] = movers[i], 0, 0, 0
        for cell in range(cells.shape[1]):
            g.stones[b] += cells[i, cell] != 0
            if len(boards) > 0:
                boards[rows[i], 0, cell], boards[rows[i], 1, cell] = cells[i, cell], 0
            else:
                g.first[b] |= int64(cells[i, cell] == 1) << cell
                g.second[b] |= int64(cells[i, cell] == 2) << cell
