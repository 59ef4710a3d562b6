"""One simulation: select down to an unvisited node, evaluate it, and back up the result."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from baselines.mcts.tree import (
    CELL,
    FIRST,
    KNOWN,
    LIMIT,
    MAKER,
    MEAN,
    NEXT,
    OPEN,
    SETTLED,
    SUM,
    TRIED,
    URGENT,
    VISITS,
    WIDTH,
    Int32Array,
    Tree,
    Workspace,
    is_solved,
)
from baselines.retrograde.layers import Probe
from baselines.retrograde.tablebase import result_for_last_player
from ttt_envs.core.jit import (
    Float64Array,
    Int8Array,
    Int64Array,
    Parameters,
    UInt64Array,
    compiled_nogil,
    compiled_nogil_bounded,
    inlined,
    int64,
)
from ttt_envs.core.random import splitmix64, uniform
from ttt_envs.game.rules import (
    DRAW,
    NOT_OVER,
    STREAM_OPPONENT,
    is_legal,
    mover_after,
    nth_empty_cell,
    place,
    skip_chance_of,
    winning_cells,
)


@compiled_nogil
def winning_moves(board: Int8Array, player: int, parameters: Parameters, out: Int8Array) -> int:
    """Write :func:`rules.winning_cells`, and return their number."""
    winning_cells(board, player, parameters, out)
    count = 0
    for cell in range(len(board)):
        count += out[cell]
    return count


@compiled_nogil
def _untried(
    node: int,
    board: Int8Array,
    mover: int,
    stones: int,
    luck: np.uint64,
    moves: Int32Array,
    turns: Int32Array,
    forced_mask: Int8Array,
    closed: Int8Array,
    parameters: Parameters,
    decisive: bool,
) -> int:
    """Draw an untried cell at a node, forced ones first; ``forced_mask`` and ``closed`` are scratch."""
    size = len(board)
    if turns[node, LIMIT] == 0:
        limit = size - stones
        pressing = 0
        if decisive:
            pressing = min(1, winning_moves(board, mover, parameters, forced_mask))
            if pressing > 0:
                limit = 1
            else:
                pressing = winning_moves(board, 1 - mover, parameters, forced_mask)
                if pressing > 0 and skip_chance_of(parameters) == 0:  # a move that does not block loses
                    limit = pressing
        turns[node, LIMIT] = turns[node, OPEN] = limit
        turns[node, URGENT] = pressing
    elif turns[node, TRIED] < turns[node, URGENT]:
        winning_moves(board, 1 - mover, parameters, forced_mask)
    pressed = turns[node, TRIED] < turns[node, URGENT]
    for cell in range(size):
        closed[cell] = not is_legal(board, cell, parameters) or (pressed and forced_mask[cell] == 0)
    move = int64(turns[node, FIRST])
    while move > 0:
        closed[moves[move, CELL]] = 1
        move = int64(moves[move, NEXT])
    return nth_empty_cell(closed, uniform(luck, STREAM_OPPONENT, stones))


@inlined
def _select_uct(node: int, moves: Int32Array, rates: Float64Array, turns: Int32Array, c: float) -> int:
    """Return the move with the largest upper confidence bound; ties go to the one tried last."""
    width = 0.0 if is_solved(node, turns) else c * math.sqrt(math.log(turns[node, VISITS]))
    best = 0
    most = -np.inf
    move = int64(turns[node, FIRST])
    while move > 0:
        bound = rates[move, MEAN] + width * rates[move, WIDTH]
        if bound > most:
            most = bound
            best = move
        move = int64(moves[move, NEXT])
    return best


@inlined
def _select(
    luck: np.uint64,
    board: Int8Array,
    stones: int,
    count: int,
    moves: Int32Array,
    rates: Float64Array,
    turns: Int32Array,
    sums: Float64Array,
    path: Int64Array,
    forced_mask: Int8Array,
    closed: Int8Array,
    parameters: Parameters,
    c: float,
    decisive: bool,
) -> tuple[int, int, int, int]:
    """Descend a tree to a solved or unvisited node, putting the stones on the board.

    Args:
        luck: key of the simulation's random numbers.
        board: int8[cells], the root; then the node.
        stones: on the board.
        count: rows of ``moves`` in use.
        path: int64[cells + 1], written: the nodes visited.

    Returns:
        (the node's index in the path, its mover, its stones, rows in use).
    """
    turns_per_move = 2 if skip_chance_of(parameters) > 0 else 1
    mover = 1 - int64(moves[0, MAKER])
    node = int64(0)
    depth = 0
    path[0] = 0
    while True:
        if turns[node, LIMIT] == 0 or turns[node, TRIED] < turns[node, LIMIT]:
            cell = _untried(node, board, mover, stones, luck, moves, turns, forced_mask, closed, parameters, decisive)
            move = count
            count += 1
            moves[move, MAKER] = mover
            moves[move, CELL] = cell
            moves[move, NEXT] = turns[node, FIRST]
            turns[node, FIRST] = move
            turns[node, TRIED] += 1
            outcome = place(board, mover, cell, stones, parameters)
            if outcome != NOT_OVER:  # results do not depend on chance: both turns have the same
                for turn in range(turns_per_move):
                    turns[move * turns_per_move + turn, LIMIT] = 1
                    sums[move * turns_per_move + turn, KNOWN] = 0.0 if outcome == DRAW else 1.0
        else:
            move = _select_uct(node, moves, rates, turns, c)
            board[moves[move, CELL]] = mover + 1
        after = mover_after(mover, luck, stones, parameters)
        node = move * turns_per_move + int64(after == mover)
        mover = after
        stones += 1
        depth += 1
        path[depth] = node
        if turns[node, VISITS] == 0 or is_solved(node, turns):
            return depth, mover, stones, count


@compiled_nogil
def _rollout(
    board: Int8Array, mover: int, stones: int, luck: np.uint64, parameters: Parameters, probe: Probe, scratch: Workspace
) -> float:
    """Return the result for player_0 of random play to the end, or to a position in the database."""
    cells, empty = scratch.closed, scratch.visits
    left = 0
    for cell in range(len(board)):
        cells[cell] = board[cell]
        empty[left] = cell
        left += int64(is_legal(board, cell, parameters))
    while True:
        chosen = int(uniform(luck, STREAM_OPPONENT, stones) * left)
        cell = empty[chosen]
        left -= 1
        empty[chosen] = empty[left]
        outcome = place(cells, mover, cell, stones, parameters)
        if outcome != NOT_OVER:
            return 0.0 if outcome == DRAW else 1.0 - 2.0 * outcome
        mover = mover_after(mover, luck, stones, parameters)
        stones += 1
        if stones == probe.stones:
            return (1.0 - 2.0 * mover) * result_for_last_player(cells, mover, True, probe, parameters)


@inlined
def _backup(
    value: float,
    depth: int,
    board: Int8Array,
    moves: Int32Array,
    rates: Float64Array,
    turns: Int32Array,
    sums: Float64Array,
    path: Int64Array,
    parameters: Parameters,
    decisive: bool,
) -> None:
    """Back up a visit along a path: remove the stones, and propagate solved values.

    Args:
        value: of the last node for player_0; ignored if that node is solved.
        depth: index of the last node in the path.
    """
    skip = skip_chance_of(parameters)
    turns_per_move = 2 if skip > 0 else 1
    for place_in_path in range(depth, -1, -1):
        node = path[place_in_path]
        move = node // turns_per_move
        sign = 1.0 - 2.0 * moves[move, MAKER]
        turns[node, VISITS] += 1
        if is_solved(node, turns):
            sums[node, SUM] = sums[node, KNOWN] * turns[node, VISITS]
            value = sign * sums[node, KNOWN]
        else:
            sums[node, SUM] += sign * value
        if place_in_path == 0:
            break
        board[moves[move, CELL]] = 0
        first = move * turns_per_move
        last = first + turns_per_move - 1
        if decisive and moves[move, SETTLED] == 0 and is_solved(first, turns) and is_solved(last, turns):
            known = sums[first, KNOWN] + skip * (sums[last, KNOWN] - sums[first, KNOWN])
            moves[move, SETTLED] = 1
            rates[move, MEAN] = known
            settle(path[place_in_path - 1], int64(moves[move, MAKER]), known, turns_per_move, moves, rates, turns, sums)
        visits = turns[first, VISITS]
        total = sums[first, SUM]
        if turns_per_move == 2:
            visits += turns[last, VISITS]
            total += sums[last, SUM]
        rates[move, WIDTH] = 1.0 / math.sqrt(visits)
        if moves[move, SETTLED] == 1:
            value = sign * rates[move, MEAN]
        else:
            rates[move, MEAN] = total / visits


@inlined
def settle(
    node: int,
    mover: int,
    known: float,
    turns_per_move: int,
    moves: Int32Array,
    rates: Float64Array,
    turns: Int32Array,
    sums: Float64Array,
) -> None:
    """Update a node after one of its moves, by ``mover``, has been solved; this may solve the node."""
    if known == 1.0:
        turns[node, OPEN] = 0
        turns[node, LIMIT] = turns[node, TRIED]
    else:
        turns[node, OPEN] -= 1
    if turns[node, OPEN] == 0:
        best = known
        move = int64(turns[node, FIRST])
        while move > 0 and known < 1.0:
            best = max(best, rates[move, MEAN])
            move = int64(moves[move, NEXT])
        sums[node, KNOWN] = best if moves[node // turns_per_move, MAKER] == mover else -best


@compiled_nogil
def look_up(
    move: int,
    turns_per_move: int,
    board: Int8Array,
    moves: Int32Array,
    turns: Int32Array,
    sums: Float64Array,
    parameters: Parameters,
    probe: Probe,
) -> None:
    """Mark the positions after a move as solved by the database."""
    for turn in range(turns_per_move):
        node = move * turns_per_move + turn
        turns[node, LIMIT] = 1
        sums[node, KNOWN] = result_for_last_player(board, int64(moves[move, MAKER]), turn == 1, probe, parameters)


@inlined
def ask(board: Int8Array, mover: int, leaves: Int8Array, movers: Int8Array, row: int) -> None:
    """Append a position to those that need an evaluation."""
    for cell in range(len(board)):
        leaves[row, cell] = board[cell]
    movers[row] = mover


# ---------------------------------------------------------------------------------------------------------------------
# Batches


WHOLE, DOWN, BACK = range(3)
"""parts of a simulation for :func:`simulate`"""


def _count_steps(part: int, simulations: int, done: int, keys: UInt64Array, cells: Int8Array, *rest: Any) -> int:
    """Return a bound on cell reads, reached by simulations that are played to the end."""
    return simulations * int(cells.size * cells.shape[1])


@compiled_nogil_bounded(_count_steps)
def simulate(
    part: int,
    simulations: int,
    done: int,
    keys: UInt64Array,
    cells: Int8Array,
    stones: Int64Array,
    counts: Int64Array,
    trees: Tree,
    parameters: Parameters,
    c: float,
    decisive: bool,
    paths: Int64Array,
    depths: Int64Array,
    leaves: Int8Array,
    movers: Int8Array,
    probe: Probe,
    scratch: Workspace,
    values: Float64Array,
) -> int:
    """Run simulations in one tree after another.

    Args:
        part: ``WHOLE`` with random play to the end; or for external evaluation first ``DOWN``, which leaves the stones
            on the boards, and then ``BACK``.
        simulations: number per position; 1 if only a part is run.
        done: number of earlier simulations.
        keys: uint64[B].
        cells: int8[B, rows * columns], the positions.
        stones: int64[B], their numbers of stones.
        counts: int64[B], rows of ``trees.moves`` in use; there must be room for ``simulations`` more.
        paths, depths: int64[B, cells + 1] and int64[B]: state between ``DOWN`` and ``BACK``.
        leaves, movers: int8[B, cells] and int8[B]: the positions to evaluate, in the order of the trees.
        probe: positions with this number of stones are solved, see :class:`baselines.retrograde.layers.Probe`.
        scratch: workspace.
        values: float64[A], values of these positions for their movers.

    Returns:
        The number of positions evaluated externally.
    """
    raw_values, last = 0, int64(probe.stones)
    turns_per_move = 2 if skip_chance_of(parameters) > 0 else 1
    for b in range(len(cells)):
        board, moves, rates, turns, sums = cells[b], trees.moves[b], trees.rates[b], trees.turns[b], trees.sums[b]
        path, depth, count = paths[b], depths[b], counts[b]
        mover, placed = int64(0), int64(0)
        for simulation in range(done, done + simulations):
            luck = splitmix64(keys[b], simulation)
            if part != BACK:
                depth, mover, placed, count = _select(
                    luck,
                    board,
                    stones[b],
                    count,
                    moves,
                    rates,
                    turns,
                    sums,
                    path,
                    scratch.forced_mask,
                    scratch.closed,
                    parameters,
                    c,
                    decisive,
                )
                if placed == last and not is_solved(path[depth], turns):
                    look_up(path[depth] // turns_per_move, turns_per_move, board, moves, turns, sums, parameters, probe)
            value = 0.0
            if not is_solved(path[depth], turns):
                if part == WHOLE:
                    value = _rollout(board, mover, placed, luck, parameters, probe, scratch)
                elif part == DOWN:
                    ask(board, mover, leaves, movers, raw_values)
                    raw_values += 1
                else:
                    value = values[raw_values] if movers[raw_values] == 0 else -values[raw_values]
                    raw_values += 1
            if part != DOWN:
                _backup(value, depth, board, moves, rates, turns, sums, path, parameters, decisive)
        depths[b], counts[b] = depth, count
    return raw_values
