"""One simulation: select down to an unvisited node, evaluate it, and back up the result."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from baselines.endgame import Probe, result_of
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
    Counts,
    Scratch,
    Trees,
    is_known,
)
from ttt_envs.jit import (
    Cells,
    Integers,
    Keys,
    Parameters,
    Reals,
    compiled_nogil,
    compiled_nogil_bounded,
    inlined,
    wide,
)
from ttt_envs.rules import (
    DRAW,
    NOT_OVER,
    OPPONENT,
    is_legal,
    mover_after,
    pick,
    place,
    skip_chance_of,
    splitmix64,
    uniform,
    winning_cells,
)


@compiled_nogil
def winning(board: Cells, player: int, parameters: Parameters, out: Cells) -> int:
    """Write :func:`rules.winning_cells`, and return their number."""
    winning_cells(board, player, parameters, out)
    count = 0
    for cell in range(len(board)):
        count += out[cell]
    return count


@compiled_nogil
def _untried(
    node: int,
    board: Cells,
    mover: int,
    stones: int,
    luck: np.uint64,
    moves: Counts,
    turns: Counts,
    urgent: Cells,
    closed: Cells,
    parameters: Parameters,
    decisive: bool,
) -> int:
    """Draw an untried cell at a node, forced ones first; ``urgent`` and ``closed`` are scratch."""
    size = len(board)
    if turns[node, LIMIT] == 0:
        limit = size - stones
        pressing = 0
        if decisive:
            pressing = min(1, winning(board, mover, parameters, urgent))
            if pressing > 0:
                limit = 1
            else:
                pressing = winning(board, 1 - mover, parameters, urgent)
                if pressing > 0 and skip_chance_of(parameters) == 0:  # a move that does not block loses
                    limit = pressing
        turns[node, LIMIT] = turns[node, OPEN] = limit
        turns[node, URGENT] = pressing
    elif turns[node, TRIED] < turns[node, URGENT]:
        winning(board, 1 - mover, parameters, urgent)
    pressed = turns[node, TRIED] < turns[node, URGENT]
    for cell in range(size):
        closed[cell] = not is_legal(board, cell, parameters) or (pressed and urgent[cell] == 0)
    move = wide(turns[node, FIRST])
    while move > 0:
        closed[moves[move, CELL]] = 1
        move = wide(moves[move, NEXT])
    return pick(closed, uniform(luck, OPPONENT, stones))


@inlined
def _most_promising(node: int, moves: Counts, rates: Reals, turns: Counts, c: float) -> int:
    """Return the move with the largest upper confidence bound; ties go to the one tried last."""
    width = 0.0 if is_known(node, turns) else c * math.sqrt(math.log(turns[node, VISITS]))
    best = 0
    most = -np.inf
    move = wide(turns[node, FIRST])
    while move > 0:
        bound = rates[move, MEAN] + width * rates[move, WIDTH]
        if bound > most:
            most = bound
            best = move
        move = wide(moves[move, NEXT])
    return best


@inlined
def _descend(
    luck: np.uint64,
    board: Cells,
    stones: int,
    count: int,
    moves: Counts,
    rates: Reals,
    turns: Counts,
    sums: Reals,
    path: Integers,
    urgent: Cells,
    closed: Cells,
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
    either = 2 if skip_chance_of(parameters) > 0 else 1
    mover = 1 - wide(moves[0, MAKER])
    node = wide(0)
    depth = 0
    path[0] = 0
    while True:
        if turns[node, LIMIT] == 0 or turns[node, TRIED] < turns[node, LIMIT]:
            cell = _untried(node, board, mover, stones, luck, moves, turns, urgent, closed, parameters, decisive)
            move = count
            count += 1
            moves[move, MAKER] = mover
            moves[move, CELL] = cell
            moves[move, NEXT] = turns[node, FIRST]
            turns[node, FIRST] = move
            turns[node, TRIED] += 1
            outcome = place(board, mover, cell, stones, parameters)
            if outcome != NOT_OVER:  # results do not depend on chance: both turns have the same
                for turn in range(either):
                    turns[move * either + turn, LIMIT] = 1
                    sums[move * either + turn, KNOWN] = 0.0 if outcome == DRAW else 1.0
        else:
            move = _most_promising(node, moves, rates, turns, c)
            board[moves[move, CELL]] = mover + 1
        after = mover_after(mover, luck, stones, parameters)
        node = move * either + wide(after == mover)
        mover = after
        stones += 1
        depth += 1
        path[depth] = node
        if turns[node, VISITS] == 0 or is_known(node, turns):
            return depth, mover, stones, count


@compiled_nogil
def _play_out(
    board: Cells, mover: int, stones: int, luck: np.uint64, parameters: Parameters, probe: Probe, scratch: Scratch
) -> float:
    """Return the result for player_0 of random play to the end, or to a position in the database."""
    cells, empty = scratch.closed, scratch.visits
    left = 0
    for cell in range(len(board)):
        cells[cell] = board[cell]
        empty[left] = cell
        left += wide(is_legal(board, cell, parameters))
    while True:
        chosen = int(uniform(luck, OPPONENT, stones) * left)
        cell = empty[chosen]
        left -= 1
        empty[chosen] = empty[left]
        outcome = place(cells, mover, cell, stones, parameters)
        if outcome != NOT_OVER:
            return 0.0 if outcome == DRAW else 1.0 - 2.0 * outcome
        mover = mover_after(mover, luck, stones, parameters)
        stones += 1
        if stones == probe.stones:
            return (1.0 - 2.0 * mover) * result_of(cells, mover, True, probe, parameters)


@inlined
def _pass_back(
    value: float,
    depth: int,
    board: Cells,
    moves: Counts,
    rates: Reals,
    turns: Counts,
    sums: Reals,
    path: Integers,
    parameters: Parameters,
    decisive: bool,
) -> None:
    """Back up a visit along a path: remove the stones, and propagate solved values.

    Args:
        value: of the last node for player_0; ignored if that node is solved.
        depth: index of the last node in the path.
    """
    skip = skip_chance_of(parameters)
    either = 2 if skip > 0 else 1
    for place_in_path in range(depth, -1, -1):
        node = path[place_in_path]
        move = node // either
        sign = 1.0 - 2.0 * moves[move, MAKER]
        turns[node, VISITS] += 1
        if is_known(node, turns):
            sums[node, SUM] = sums[node, KNOWN] * turns[node, VISITS]
            value = sign * sums[node, KNOWN]
        else:
            sums[node, SUM] += sign * value
        if place_in_path == 0:
            break
        board[moves[move, CELL]] = 0
        first = move * either
        last = first + either - 1
        if decisive and moves[move, SETTLED] == 0 and is_known(first, turns) and is_known(last, turns):
            known = sums[first, KNOWN] + skip * (sums[last, KNOWN] - sums[first, KNOWN])
            moves[move, SETTLED] = 1
            rates[move, MEAN] = known
            settle(path[place_in_path - 1], wide(moves[move, MAKER]), known, either, moves, rates, turns, sums)
        visits = turns[first, VISITS]
        total = sums[first, SUM]
        if either == 2:
            visits += turns[last, VISITS]
            total += sums[last, SUM]
        rates[move, WIDTH] = 1.0 / math.sqrt(visits)
        if moves[move, SETTLED] == 1:
            value = sign * rates[move, MEAN]
        else:
            rates[move, MEAN] = total / visits


@inlined
def settle(
    node: int, mover: int, known: float, either: int, moves: Counts, rates: Reals, turns: Counts, sums: Reals
) -> None:
    """Update a node after one of its moves, by ``mover``, has been solved; this may solve the node."""
    if known == 1.0:
        turns[node, OPEN] = 0
        turns[node, LIMIT] = turns[node, TRIED]
    else:
        turns[node, OPEN] -= 1
    if turns[node, OPEN] == 0:
        best = known
        move = wide(turns[node, FIRST])
        while move > 0 and known < 1.0:
            best = max(best, rates[move, MEAN])
            move = wide(moves[move, NEXT])
        sums[node, KNOWN] = best if moves[node // either, MAKER] == mover else -best


@compiled_nogil
def look_up(
    move: int,
    either: int,
    board: Cells,
    moves: Counts,
    turns: Counts,
    sums: Reals,
    parameters: Parameters,
    probe: Probe,
) -> None:
    """Mark the positions after a move as solved by the database."""
    for turn in range(either):
        node = move * either + turn
        turns[node, LIMIT] = 1
        sums[node, KNOWN] = result_of(board, wide(moves[move, MAKER]), turn == 1, probe, parameters)


@inlined
def ask(board: Cells, mover: int, leaves: Cells, movers: Cells, row: int) -> None:
    """Append a position to those that need an evaluation."""
    for cell in range(len(board)):
        leaves[row, cell] = board[cell]
    movers[row] = mover


# ---------------------------------------------------------------------------------------------------------------------
# Batches


WHOLE, DOWN, BACK = range(3)
"""parts of a simulation for :func:`simulate`"""


def _count_steps(part: int, simulations: int, done: int, keys: Keys, cells: Cells, *rest: Any) -> int:
    """Return a bound on cell reads, reached by simulations that are played to the end."""
    return simulations * int(cells.size * cells.shape[1])


@compiled_nogil_bounded(_count_steps)
def simulate(
    part: int,
    simulations: int,
    done: int,
    keys: Keys,
    cells: Cells,
    stones: Integers,
    counts: Integers,
    trees: Trees,
    parameters: Parameters,
    c: float,
    decisive: bool,
    paths: Integers,
    depths: Integers,
    leaves: Cells,
    movers: Cells,
    probe: Probe,
    scratch: Scratch,
    values: Reals,
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
        probe: positions with this number of stones are solved, see :class:`baselines.endgame.Probe`.
        scratch: workspace.
        values: float64[A], values of these positions for their movers.

    Returns:
        The number of positions evaluated externally.
    """
    judged, last = 0, wide(probe.stones)
    either = 2 if skip_chance_of(parameters) > 0 else 1
    for b in range(len(cells)):
        board, moves, rates, turns, sums = cells[b], trees.moves[b], trees.rates[b], trees.turns[b], trees.sums[b]
        path, depth, count = paths[b], depths[b], counts[b]
        mover, placed = wide(0), wide(0)
        for simulation in range(done, done + simulations):
            luck = splitmix64(keys[b], simulation)
            if part != BACK:
                depth, mover, placed, count = _descend(
                    luck,
                    board,
                    stones[b],
                    count,
                    moves,
                    rates,
                    turns,
                    sums,
                    path,
                    scratch.urgent,
                    scratch.closed,
                    parameters,
                    c,
                    decisive,
                )
                if placed == last and not is_known(path[depth], turns):
                    look_up(path[depth] // either, either, board, moves, turns, sums, parameters, probe)
            value = 0.0
            if not is_known(path[depth], turns):
                if part == WHOLE:
                    value = _play_out(board, mover, placed, luck, parameters, probe, scratch)
                elif part == DOWN:
                    ask(board, mover, leaves, movers, judged)
                    judged += 1
                else:
                    value = values[judged] if movers[judged] == 0 else -values[judged]
                    judged += 1
            if part != DOWN:
                _pass_back(value, depth, board, moves, rates, turns, sums, path, parameters, decisive)
        depths[b], counts[b] = depth, count
    return judged
