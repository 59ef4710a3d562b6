"""One simulation of a search that a judge guides: it says how likely moves are, and what positions are worth.

Down the tree the moves are chosen by one of two rules, to a move that was never made:

- *PUCT* (Silver et al., "A general reinforcement learning algorithm that masters chess, shogi, and Go through
  self-play", 2018): the largest ``q + c * p * sqrt(1 + N) / (1 + n)``, p what the judge thinks likely, N the
  simulations of all moves and n those of the move;
- *Gumbel* (Danihelka et al., "Policy improvement by planning with Gumbel", 2022, section 5): the largest
  ``p' - n / (1 + N)``, where ``p' = softmax(log p + (visit_scale + max n) * value_scale * q)``. At the root the moves
  are considered by sequential halving: of those made as often as is wanted now, the one with the largest
  ``g + log p + (visit_scale + max n) * value_scale * q``, g the Gumbel noise.

A move that was never made has for q the mean of what the judge thinks of the position and of its moves' values, as they
are likely (appendix D there).

A move that does not end the game leads to an afterstate, where chance has its turn (Antonoglou et al., "Planning in
stochastic environments with a learned model", 2022): the judge judges both turns, and the move is worth ``(1 - p)`` of
one and ``p`` of the other, p the skip chance. So no chance is drawn, and no luck is in a value. A simulation goes on in
the turn that has fewest of its share of visits. Whoever can win with one stone does, and where no turn can be skipped
who must stop a stone that wins does; what is certain is passed on as such, as in :mod:`baselines.mcts.simulation`.
"""

from __future__ import annotations

import math

import numpy as np

from baselines.endgame import Probe, result_of
from baselines.mcts.simulation import BACK, settle, winning
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
    Counts,
    Floats,
    Trees,
    is_known,
    visits_of,
)
from ttt_envs.compiling import Cells, Integers, Parameters, Reals, compiled, inlined, unlocked, wide
from ttt_envs.rules import DRAW, NOT_OVER, is_legal, place, skip_chance_of

LEAST = -50.0
"""the smallest logarithm of how likely a move is that may be made: a judge that thinks it impossible may be wrong"""


@inlined
def _sign(node: int, either: int) -> float:
    """1 where the mover at a node is the maker of the move that led there, else -1."""
    return 1.0 if node % either == 1 else -1.0


@inlined
def _worth(node: int, turns: Counts, sums: Reals) -> float:
    """Of a position that was visited, to the maker of the move that led there."""
    worth: float = sums[node, KNOWN] if is_known(node, turns) else sums[node, SUM] / turns[node, VISITS]
    return worth


@inlined
def _complete(
    node: int,
    either: int,
    moves: Counts,
    rates: Reals,
    turns: Counts,
    logits: Floats,
    judged: Reals,
    q: Reals,
    visits: Integers,
    made: Integers,
) -> tuple[int, int]:
    """The moves at a node by their cells, with what is thought of the position for the value of those never made.

    Args:
        q, visits, made: float64[cells], int64[cells] twice, written: values to the mover, simulations, and rows in
            ``moves``, 0 for none.

    Returns:
        (simulations of all moves, of the move that has most).
    """
    total, most, likely, mean = wide(0), wide(0), 0.0, 0.0
    for cell in range(len(q)):
        visits[cell] = 0
        made[cell] = 0
    move = wide(turns[node, FIRST])
    while move > 0:
        cell = moves[move, CELL]
        made[cell] = move
        visits[cell] = visits_of(move, turns, either, True)
        total += visits[cell]
        most = max(most, visits[cell])
        p = math.exp(logits[node, cell])
        likely += p
        mean += p * rates[move, MEAN]
        move = wide(moves[move, NEXT])
    thought = _sign(node, either) * judged[node]
    if total > 0:
        thought = (thought + total * mean / likely) / (1 + total)
    for cell in range(len(q)):
        q[cell] = rates[made[cell], MEAN] if made[cell] > 0 else thought
    return total, most


@inlined
def _improve(logits: Floats, q: Reals, scale: float, out: Reals) -> None:
    """``out`` float64[cells]: ``softmax(logits + scale * q)``."""
    largest = -np.inf
    for cell in range(len(q)):
        out[cell] = logits[cell] + scale * q[cell]
        largest = max(largest, out[cell])
    total = 0.0
    for cell in range(len(q)):
        out[cell] = math.exp(out[cell] - largest)
        total += out[cell]
    for cell in range(len(q)):
        out[cell] /= total


@inlined
def _considered(
    wanted: int,
    either: int,
    moves: Counts,
    rates: Reals,
    turns: Counts,
    logits: Floats,
    noise: Reals,
    visit_scale: float,
    value_scale: float,
    made: Integers,
) -> int:
    """The best of the root's moves that were made ``wanted`` times; -1 where there is none.

    Moves never made have the same value, which makes none of them better than another.
    """
    most_made = wide(0)
    for cell in range(len(made)):
        made[cell] = 0
    move = wide(turns[0, FIRST])
    while move > 0:
        made[moves[move, CELL]] = move
        most_made = max(most_made, visits_of(move, turns, either, True))
        move = wide(moves[move, NEXT])
    scale = (visit_scale + most_made) * value_scale
    best, most = -1, -np.inf
    for cell in range(len(made)):
        move = made[cell]
        score = noise[cell] + logits[0, cell]
        visits = wide(0)
        if move > 0:
            visits = visits_of(move, turns, either, True)
            score += scale * rates[move, MEAN]
        if visits == wanted and score > most:
            best, most = cell, score
    return best


@inlined
def _most_improving(logits: Floats, q: Reals, visits: Integers, scale: float, total: int, scratch: Reals) -> int:
    """The cell by which visits come nearest to the improved policy."""
    _improve(logits, q, scale, scratch)
    best, most = -1, -np.inf
    for cell in range(len(q)):
        score = scratch[cell] - visits[cell] / (1.0 + total)
        if logits[cell] > -np.inf and score > most:
            best, most = cell, score
    return best


@inlined
def _most_promising(logits: Floats, q: Reals, visits: Integers, c: float, total: int) -> int:
    """The cell that PUCT chooses."""
    width = c * math.sqrt(1.0 + total)  # the first simulation judged the position: so the first move is the likeliest
    best, most = -1, -np.inf
    for cell in range(len(q)):
        score = q[cell] + width * math.exp(logits[cell]) / (1.0 + visits[cell])
        if logits[cell] > -np.inf and score > most:
            best, most = cell, score
    return best


@inlined
def _turn_after(move: int, either: int, turns: Counts, skip: float) -> int:
    """The turn that a simulation goes on in: one that is not known, and has least of its share of visits."""
    first = move * either
    if either == 1 or is_known(first + 1, turns):
        return first
    if is_known(first, turns):
        return first + 1
    return first + wide(skip * turns[first, VISITS] > (1.0 - skip) * turns[first + 1, VISITS])


@inlined
def pressing(board: Cells, mover: int, parameters: Parameters, out: Cells) -> int:
    """How many cells the mover had better choose from, 0 for all: 1 into ``out`` int8[cells] for these."""
    count = winning(board, mover, parameters, out)
    if count == 0 and skip_chance_of(parameters) == 0:  # what does not stop the other player loses
        count = winning(board, 1 - mover, parameters, out)
    return count


@compiled
def pressing_rows(cells: Cells, mover: Cells, parameters: Parameters, out: Cells) -> None:
    """The same of B positions: 1 into ``out`` int8[B, cells] for these cells, rows of 0 where all will do."""
    for b in range(len(cells)):
        pressing(cells[b], wide(mover[b]), parameters, out[b])


@inlined
def _meet(
    node: int,
    either: int,
    board: Cells,
    mover: int,
    turns: Counts,
    sums: Reals,
    parameters: Parameters,
    urgent: Cells,
) -> bool:
    """A position after a move is met for the first time: whether a judge has to judge it, or it is won or lost now."""
    if winning(board, mover, parameters, urgent) > 0:
        known = 1.0
    elif skip_chance_of(parameters) > 0:
        return True
    else:
        turns[node, URGENT] = winning(board, 1 - mover, parameters, urgent)
        if turns[node, URGENT] <= 1:
            return True
        known = -1.0  # one of two stones that win can be stopped
    turns[node, LIMIT] = 1
    sums[node, KNOWN] = _sign(node, either) * known
    return False


@inlined
def _admit(
    node: int,
    either: int,
    board: Cells,
    mover: int,
    said: Floats,
    value: float,
    turns: Counts,
    sums: Reals,
    logits: Floats,
    judged: Reals,
    parameters: Parameters,
    urgent: Cells,
) -> None:
    """Keep what the judge has said of a position, of the moves alone that may be sensible."""
    pressed = (node == 0 or turns[node, URGENT] > 0) and pressing(board, mover, parameters, urgent) > 0
    largest = -np.inf
    for cell in range(len(board)):
        if is_legal(board, cell, parameters) and (not pressed or urgent[cell] == 1):
            largest = max(largest, said[cell])
    total = 0.0
    count = 0
    for cell in range(len(board)):
        if is_legal(board, cell, parameters) and (not pressed or urgent[cell] == 1):
            logits[node, cell] = max(LEAST, said[cell] - largest)
            total += math.exp(logits[node, cell])
            count += 1
        else:
            logits[node, cell] = -np.inf
    shift = math.log(total)
    for cell in range(len(board)):
        logits[node, cell] -= shift
    turns[node, LIMIT] = turns[node, OPEN] = count
    turns[node, VISITS] = 1
    judged[node] = sums[node, SUM] = _sign(node, either) * value


@inlined
def _pass_back(
    depth: int,
    board: Cells,
    moves: Counts,
    rates: Reals,
    turns: Counts,
    sums: Reals,
    path: Integers,
    parameters: Parameters,
) -> None:
    """Count a visit along a path, take the stones back, and weigh what is known and thought anew.

    A position is worth the mean of what the judge thought of it and of its moves, each as often as it was made.
    """
    skip = skip_chance_of(parameters)
    either = 2 if skip > 0 else 1
    for place_in_path in range(depth, 0, -1):
        move = path[place_in_path] // either
        above = path[place_in_path - 1]
        board[moves[move, CELL]] = 0
        first = move * either
        last = first + either - 1
        worth = _worth(first, turns, sums)
        if either == 2:
            worth += skip * (_worth(last, turns, sums) - worth)
        count = visits_of(move, turns, either, True)
        added = count * worth - (count - 1) * rates[move, MEAN]
        rates[move, MEAN] = worth
        sums[above, SUM] += _sign(above, either) * added
        turns[above, VISITS] += 1
        if moves[move, SETTLED] == 0 and is_known(first, turns) and is_known(last, turns):
            moves[move, SETTLED] = 1
            settle(above, wide(moves[move, MAKER]), worth, either, moves, rates, turns, sums)


@inlined
def _make(
    move: int,
    cell: int,
    node: int,
    either: int,
    board: Cells,
    mover: int,
    stones: int,
    moves: Counts,
    turns: Counts,
    sums: Reals,
    parameters: Parameters,
    probe: Probe,
    urgent: Cells,
    leaves: Cells,
    movers: Cells,
    asked: int,
) -> int:
    """Make a move for the first time; returns ``asked`` and the positions behind it that a judge has to judge."""
    moves[move, MAKER] = mover
    moves[move, CELL] = cell
    moves[move, NEXT] = turns[node, FIRST]
    turns[node, FIRST] = move
    turns[node, TRIED] += 1
    outcome = place(board, mover, cell, stones, parameters)
    for turn in range(either):
        after = move * either + turn
        if outcome != NOT_OVER:  # chance has no part in a result: either turn has it
            turns[after, LIMIT] = 1
            sums[after, KNOWN] = 0.0 if outcome == DRAW else 1.0
        elif stones + 1 == probe.stones:
            turns[after, LIMIT] = 1
            sums[after, KNOWN] = result_of(board, mover, turn == 1, probe, parameters)
        else:
            whose = mover if turn == 1 else 1 - mover
            if _meet(after, either, board, whose, turns, sums, parameters, urgent):
                leaves[asked, :] = board
                movers[asked] = whose
                asked += 1
    return asked


@unlocked
def guide(
    part: int,
    wanted: Integers,
    noise: Reals,
    c: float,
    visit_scale: float,
    value_scale: float,
    cells: Cells,
    stones: Integers,
    counts: Integers,
    trees: Trees,
    parameters: Parameters,
    paths: Integers,
    depths: Integers,
    leaves: Cells,
    movers: Cells,
    probe: Probe,
    said: Floats,
    values: Reals,
) -> int:
    """One simulation in one tree after another, the way down or the way back.

    Args:
        part: ``DOWN``, after which the stones stay on the boards; or ``BACK``.
        wanted: int64[B]: how often the root's move that is made now was made before; -1: the root is judged, where it
            was not yet, and no more.
        noise: float64[B, cells] of the Gumbel rule, -inf for moves not to be considered; float64[B, 0]: PUCT.
        c: of PUCT.
        visit_scale, value_scale: of the Gumbel rule.
        cells: int8[B, rows * columns], the positions.
        stones: int64[B], on them.
        counts: int64[B], rows of ``trees.moves`` in use; there must be room for one more.
        paths, depths: int64[B, cells + 1] and int64[B]: what the way down leaves to the way back.
        leaves, movers: int8[2 * B, cells] and int8[2 * B]: the positions to be judged, in the order of the trees.
        probe: positions with so many stones are known, see :class:`baselines.endgame.Probe`.
        said: float32[A, cells], of these: logarithms of how likely moves are, up to a constant.
        values: float64[A], of these to their movers.

    Returns:
        How many positions are, or were, judged.
    """
    size = cells.shape[1]
    urgent = np.zeros(size, np.int8)
    visits, made = np.zeros(size, np.int64), np.zeros(size, np.int64)
    q, scratch = np.zeros(size), np.zeros(size)
    skip = skip_chance_of(parameters)
    either = 2 if skip > 0 else 1
    asked = 0
    for b in range(len(cells)):
        board, path = cells[b], paths[b]
        moves, rates, turns, sums = trees.moves[b], trees.rates[b], trees.turns[b], trees.sums[b]
        logits, judged = trees.logits[b], trees.judged[b]
        if part == BACK:
            if depths[b] < 0:
                continue
            node = path[depths[b]]
            if turns[node, VISITS] > 0:  # nothing new
                turns[node, VISITS] += 1
            else:
                for turn in range(either if node > 0 else 1):
                    if is_known(node + turn, turns):
                        turns[node + turn, VISITS] = 1
                    else:
                        mover = wide(movers[asked])
                        _admit(
                            node + turn,
                            either,
                            board,
                            mover,
                            said[asked],
                            values[asked],
                            turns,
                            sums,
                            logits,
                            judged,
                            parameters,
                            urgent,
                        )
                        asked += 1
            _pass_back(depths[b], board, moves, rates, turns, sums, path, parameters)
            continue
        mover = 1 - wide(moves[0, MAKER])
        node, depth, placed = wide(0), wide(0), stones[b]
        path[0] = 0
        depths[b] = -1
        if turns[0, VISITS] == 0:
            depths[b] = 0
            leaves[asked, :] = board
            movers[asked] = mover
            asked += 1
            continue
        if wanted[b] < 0 or is_known(0, turns):
            continue
        while True:
            if node == 0 and noise.shape[1] > 0:
                cell = _considered(
                    wanted[b], either, moves, rates, turns, logits, noise[b], visit_scale, value_scale, made
                )
            else:
                total, most = _complete(node, either, moves, rates, turns, logits, judged, q, visits, made)
                if noise.shape[1] == 0:
                    cell = _most_promising(logits[node], q, visits, c, total)
                else:
                    scale = (visit_scale + most) * value_scale
                    cell = _most_improving(logits[node], q, visits, scale, total, scratch)
            if cell < 0:  # no move of the root was made so often
                break
            move = made[cell]
            depth += 1
            if move == 0:
                move = counts[b]
                counts[b] += 1
                asked = _make(
                    move,
                    cell,
                    node,
                    either,
                    board,
                    mover,
                    placed,
                    moves,
                    turns,
                    sums,
                    parameters,
                    probe,
                    urgent,
                    leaves,
                    movers,
                    asked,
                )
                path[depth] = move * either
                depths[b] = depth
                break
            board[cell] = mover + 1
            placed += 1
            node = _turn_after(move, either, turns, skip)
            path[depth] = node
            if is_known(node, turns):
                depths[b] = depth
                break
            mover = mover if node % either == 1 else 1 - mover
    return asked


@compiled
def read_guided(
    either: int,
    trees: Trees,
    noise: Reals,
    visit_scale: float,
    value_scale: float,
    improved: Reals,
    scores: Reals,
    values: Reals,
) -> None:
    """What searches by the Gumbel rule have found.

    Args:
        improved: float64[B, cells], written: the improved policy, softmax(log p + scale * q).
        scores: float64[B, cells], written: ``g + log p + scale * q`` of the moves made most often, and of those whose
            values are certain; -inf of others, and of moves that are certainly worse than another.
        values: float64[B], written: what the root is worth to its mover by the improved policy, or for certain.
    """
    size = noise.shape[1]
    visits, made, q = np.zeros(size, np.int64), np.zeros(size, np.int64), np.zeros(size)
    for b in range(len(noise)):
        logits = trees.logits[b, 0]
        _, most = _complete(
            0, either, trees.moves[b], trees.rates[b], trees.turns[b], trees.logits[b], trees.judged[b], q, visits, made
        )
        scale = (visit_scale + most) * value_scale
        _improve(logits, q, scale, improved[b])
        values[b] = 0.0
        certain = -np.inf
        for cell in range(size):
            values[b] += improved[b, cell] * q[cell]
            if made[cell] > 0 and trees.moves[b, made[cell], SETTLED] == 1:
                certain = max(certain, q[cell])
        if is_known(0, trees.turns[b]):
            values[b] = -trees.sums[b, 0, KNOWN]
        for cell in range(size):
            settled = made[cell] > 0 and trees.moves[b, made[cell], SETTLED] == 1
            worse = settled and q[cell] < certain
            scores[b, cell] = -np.inf
            if logits[cell] > -np.inf and noise[b, cell] > -np.inf and (visits[cell] == most or settled) and not worse:
                scores[b, cell] = noise[b, cell] + logits[cell] + scale * q[cell]
