"""One simulation of a search guided by a network: priors for moves, and values for positions.

Selection descends to an unvisited move by one of two rules:

- *PUCT* (Silver et al., "A general reinforcement learning algorithm that masters chess, shogi, and Go through
  self-play", 2018): the largest ``q + c * p * sqrt(1 + N) / (1 + n)``, p the prior, N the simulations of all moves and
  n those of the move;
- *Gumbel* (Danihelka et al., "Policy improvement by planning with Gumbel", 2022, section 5): the largest
  ``p' - n / (1 + N)``, where ``p' = softmax(log p + (visit_scale + max n) * value_scale * q)``. At the root, moves are
  considered by sequential halving: among those with the scheduled number of visits, the one with the largest
  ``g + log p + (visit_scale + max n) * value_scale * q``, g the Gumbel noise.

The q of an unvisited move is the mixed value: the mean of the position's raw value and its moves' values weighted by
their priors (appendix D there).

A move that does not end the game leads to an afterstate, a chance node (Antonoglou et al., "Planning in stochastic
environments with a learned model", 2022): both turns are evaluated, and the move's value is ``(1 - p)`` of one and
``p`` of the other, p the skip chance. Chance is averaged, never sampled, so values have no chance noise. A simulation
continues in the turn with the smallest share of its visits. A player with a winning stone plays it and, if turns are
never skipped, a player who must block a winning stone does; solved values are propagated as in
:mod:`baselines.mcts.uct`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from baselines.endgame import Probe
from baselines.mcts.tree import (
    CELL,
    FIRST,
    KNOWN,
    LIKELIEST,
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
    Scratch,
    Trees,
    is_known,
    visits_of,
)
from baselines.mcts.uct import ask, look_up, settle, winning
from ttt_envs.jit import Cells, Integers, Parameters, Reals, compiled_at_once, compiled_nogil, inlined, wide
from ttt_envs.rules import DRAW, NOT_OVER, is_legal, place, skip_chance_of

LEAST = -50.0
"""Minimum log prior of a legal move, relative to the largest: the network may wrongly consider a move impossible."""


class Rule(NamedTuple):
    """Parameters of action selection, in B trees."""

    lean: Reals
    """float64[B, cells], Gumbel: noise plus log priors of the root's moves, -inf for moves that are not considered;
    float64[B, 0]: PUCT"""
    c: float
    """exploration weight of PUCT"""
    visit_scale: float
    """visit offset of the Gumbel rule"""
    value_scale: float


class Forest(NamedTuple):
    """B trees, with the state of their current simulation."""

    cells: Cells
    """int8[B, rows * columns], the positions"""
    stones: Integers
    """int64[B], their numbers of stones"""
    counts: Integers
    """int64[B], rows of ``trees.moves`` in use; every simulation needs room for one more"""
    trees: Trees
    parameters: Parameters
    paths: Integers
    """int64[B, cells + 1]: the nodes that a simulation visits"""
    depths: Integers
    """int64[B]: index of the last of them; -1 for no simulation"""
    probe: Probe
    """positions with this number of stones are solved, see :class:`baselines.endgame.Probe`"""
    scratch: Scratch


@inlined
def _sign(node: int, either: int) -> float:
    """Return 1 if the mover at a node made the move that led there, else -1."""
    return 1.0 if node % either == 1 else -1.0


@inlined
def _worth(node: int, turns: Counts, sums: Reals) -> float:
    """Return the value of a visited position for the player who made the move that led there."""
    worth: float = sums[node, KNOWN] if is_known(node, turns) else sums[node, SUM] / turns[node, VISITS]
    return worth


@inlined
def _look(
    node: int,
    either: int,
    moves: Counts,
    rates: Reals,
    turns: Counts,
    priors: Floats,
    judged: Reals,
    scratch: Scratch,
) -> tuple[int, int, int, float, float]:
    """Collect the moves made at a node, the last one first, and the value of unvisited moves.

    Written into ``scratch``, move by move: ``q`` values for the mover, ``p`` priors, ``visits`` simulations, and
    ``made`` rows in ``moves``.

    Returns:
        (number of these moves, their simulations in total, maximum simulations of a move, their total prior, and the
        mixed value, which is the value of unvisited moves).
    """
    _, _, visits, made, q, p = scratch
    count, total, most, likely, mean = wide(0), wide(0), wide(0), 0.0, 0.0
    move = wide(turns[node, FIRST])
    while move > 0:
        q[count], p[count] = rates[move, MEAN], priors[node, moves[move, CELL]]
        visits[count], made[count] = visits_of(move, turns, either, True), move
        total += visits[count]
        most = max(most, visits[count])
        likely += p[count]
        mean += p[count] * q[count]
        count += 1
        move = wide(moves[move, NEXT])
    thought = _sign(node, either) * judged[node]
    if total > 0:
        thought = (thought + total * mean / likely) / (1 + total)
    return count, total, most, likely, thought


@inlined
def _considered(
    wanted: int,
    either: int,
    moves: Counts,
    rates: Reals,
    turns: Counts,
    lean: Reals,
    visit_scale: float,
    value_scale: float,
    never: Cells,
) -> tuple[int, int]:
    """Return the best of the root's moves with ``wanted`` visits, (cell, row in ``moves``); -1 if there is none.

    Unvisited moves all have the same value, so only noise and priors rank them.
    """
    best, at, most = wide(-1), wide(0), -np.inf
    most_made = wide(0)
    move = wide(turns[0, FIRST])
    while move > 0:
        most_made = max(most_made, visits_of(move, turns, either, True))
        move = wide(moves[move, NEXT])
    scale = (visit_scale + most_made) * value_scale
    if wanted == 0:
        for cell in range(len(never)):
            never[cell] = 1
        move = wide(turns[0, FIRST])
        while move > 0:
            never[moves[move, CELL]] = 0
            move = wide(moves[move, NEXT])
        for cell in range(len(never)):
            if never[cell] == 1 and lean[cell] > most:
                best, most = cell, lean[cell]
        return best, at
    move = wide(turns[0, FIRST])
    while move > 0:
        if visits_of(move, turns, either, True) == wanted:
            cell = wide(moves[move, CELL])
            score = lean[cell] + scale * rates[move, MEAN]
            if score > most or (score == most and cell < best):
                best, at, most = cell, move, score
        move = wide(moves[move, NEXT])
    return best, at


@inlined
def _highest(cell: int, most: float, count: int, moves: Counts, made: Integers, scores: Reals) -> tuple[int, int]:
    """Return the move of the highest score, (cell, row in ``moves``, 0 if unvisited); ties go to the first cell.

    ``most`` is the score of the unvisited ``cell``; ``scores`` are those of visited moves.
    """
    best = wide(0)
    for row in range(count):
        score = scores[row]
        if score > most or (score == most and moves[made[row], CELL] < cell):
            cell, best, most = wide(moves[made[row], CELL]), made[row], score
    return cell, best


@inlined
def _most_improving(
    node: int,
    count: int,
    moves: Counts,
    turns: Counts,
    priors: Floats,
    scratch: Scratch,
    scale: float,
    total: int,
    likely: float,
    thought: float,
) -> tuple[int, int]:
    """Return the move that brings visits closest to the improved policy, (cell, row in ``moves``, 0 if unvisited).

    Unvisited moves share one value, so the likeliest of them is the best. The output of :func:`_look` is overwritten.
    """
    _, _, visits, made, q, p = scratch
    cell, most, highest = wide(turns[node, LIKELIEST]), -np.inf, -np.inf
    if cell >= 0:
        highest = thought
    for row in range(count):
        highest = max(highest, q[row])
    weights = 0.0
    if cell >= 0:
        weight = math.exp(scale * (thought - highest))
        prior = float(priors[node, cell])
        weights = max(prior, 1.0 - likely) * weight
        most = (1 + total) * prior * weight
    for row in range(count):
        p[row] *= math.exp(scale * (q[row] - highest))
        weights += p[row]
    for row in range(count):
        p[row] = (1 + total) * p[row] - visits[row] * weights
    return _highest(cell, most, count, moves, made, p)


@inlined
def _most_promising(
    node: int,
    count: int,
    moves: Counts,
    turns: Counts,
    priors: Floats,
    scratch: Scratch,
    c: float,
    total: int,
    thought: float,
) -> tuple[int, int]:
    """Return the move selected by PUCT, see :func:`_most_improving`."""
    _, _, visits, made, q, p = scratch
    width = c * math.sqrt(1.0 + total)  # 1: the evaluation is a visit, so the first move is the likeliest
    cell, most = wide(turns[node, LIKELIEST]), -np.inf
    if cell >= 0:
        most = thought + width * priors[node, cell]
    for row in range(count):
        p[row] = q[row] + width * p[row] / (1.0 + visits[row])
    return _highest(cell, most, count, moves, made, p)


@inlined
def _choose(
    node: int,
    either: int,
    by_gumbel: bool,
    rule: Rule,
    moves: Counts,
    rates: Reals,
    turns: Counts,
    priors: Floats,
    judged: Reals,
    scratch: Scratch,
) -> tuple[int, int]:
    """Return the move selected at a node, (cell, row in ``moves``, 0 if unvisited)."""
    count, total, most, likely, thought = _look(node, either, moves, rates, turns, priors, judged, scratch)
    if not by_gumbel:
        return _most_promising(node, count, moves, turns, priors, scratch, rule.c, total, thought)
    scale = (rule.visit_scale + most) * rule.value_scale
    return _most_improving(node, count, moves, turns, priors, scratch, scale, total, likely, thought)


@inlined
def _turn_after(move: int, either: int, turns: Counts, skip: float) -> int:
    """Return the turn in which a simulation continues: an unsolved one with the smallest share of its visits."""
    first = move * either
    if either == 1 or is_known(first + 1, turns):
        return first
    if is_known(first, turns):
        return first + 1
    return first + wide(skip * turns[first, VISITS] > (1.0 - skip) * turns[first + 1, VISITS])


@inlined
def pressing(board: Cells, mover: int, parameters: Parameters, out: Cells) -> int:
    """Mark the mover's forced moves with 1 in ``out`` int8[cells]; return their number, 0 if all moves are open."""
    count = winning(board, mover, parameters, out)
    if count == 0 and skip_chance_of(parameters) == 0:  # a move that does not block loses
        count = winning(board, 1 - mover, parameters, out)
    return count


@compiled_at_once
def pressing_rows(cells: Cells, mover: Cells, parameters: Parameters, out: Cells) -> None:
    """Mark the forced moves of B positions with 1 in ``out`` int8[B, cells]; rows of 0 if all moves are open."""
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
    foreseen: bool,
) -> bool:
    """Initialise a position after a new move: return whether it needs an evaluation, or mark it as solved.

    ``foreseen``: the move was chosen among those that leave the mover no winning stone.
    """
    if not foreseen and winning(board, mover, parameters, urgent) > 0:
        known = 1.0
    elif skip_chance_of(parameters) > 0:
        return True
    else:
        turns[node, URGENT] = winning(board, 1 - mover, parameters, urgent)
        if turns[node, URGENT] <= 1:
            for cell in range(len(board)):
                if urgent[cell] == 1:
                    turns[node, LIKELIEST] = cell
            return True
        known = -1.0  # only one of two winning stones can be blocked
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
    priors: Floats,
    judged: Reals,
    parameters: Parameters,
    urgent: Cells,
) -> None:
    """Expand a node: store the evaluation of a position, with priors of sensible moves only."""
    pressed = node == 0 and pressing(board, mover, parameters, urgent) > 0
    turns[node, VISITS] = 1
    judged[node] = sums[node, SUM] = _sign(node, either) * value
    if turns[node, URGENT] > 0:  # a forced block
        turns[node, LIMIT] = turns[node, OPEN] = 1
        priors[node, turns[node, LIKELIEST]] = 1.0
        return
    largest, total, count = -np.inf, 0.0, wide(0)
    for cell in range(len(board)):
        if is_legal(board, cell, parameters) and (not pressed or urgent[cell] == 1):
            count += 1
            largest = max(largest, said[cell])
    for cell in range(len(board)):
        if is_legal(board, cell, parameters) and (not pressed or urgent[cell] == 1):
            p = math.exp(max(LEAST, said[cell] - largest))
            priors[node, cell] = p
            total += p
    likeliest, most = wide(-1), 0.0
    for cell in range(len(board)):
        priors[node, cell] /= total
        if priors[node, cell] > most:  # as rounded, because _next_likeliest compares rounded priors
            likeliest, most = cell, float(priors[node, cell])
    turns[node, LIMIT] = turns[node, OPEN] = count
    turns[node, LIKELIEST] = likeliest


@inlined
def _next_likeliest(node: int, cell: int, priors: Floats) -> int:
    """Return the likeliest unvisited cell after ``cell``, the previous one; ties go to the first; -1 for none.

    All cells before it in this order have been selected before.
    """
    bound = priors[node, cell]
    likeliest, most = wide(-1), 0.0
    for other in range(priors.shape[1]):
        p = priors[node, other]
        if p > most and (p < bound or (p == bound and other > cell)):
            likeliest, most = other, float(p)
    return likeliest


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
    """Back up a visit along a path: remove the stones, and update values and solved values.

    A node's value is the visit-weighted mean of its raw value and its moves' values.
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
    """Add a move to the tree; return ``asked`` plus the number of new positions to evaluate."""
    moves[move, MAKER] = mover
    moves[move, CELL] = cell
    moves[move, NEXT] = turns[node, FIRST]
    turns[node, FIRST] = move
    turns[node, TRIED] += 1
    outcome = place(board, mover, cell, stones, parameters)
    if outcome == NOT_OVER and stones + 1 == probe.stones:
        look_up(move, either, board, moves, turns, sums, parameters, probe)
        return asked
    for turn in range(either):
        after = move * either + turn
        if outcome != NOT_OVER:  # results do not depend on chance: both turns have the same
            turns[after, LIMIT] = 1
            sums[after, KNOWN] = 0.0 if outcome == DRAW else 1.0
            continue
        whose = mover if turn == 1 else 1 - mover
        if _meet(after, either, board, whose, turns, sums, parameters, urgent, either == 1 and node > 0):
            ask(board, whose, leaves, movers, asked)
            asked += 1
    return asked


@inlined
def go_down(b: int, wanted: int, rule: Rule, forest: Forest, leaves: Cells, movers: Cells, asked: int) -> int:
    """Select and expand for one simulation in tree ``b``; the stones stay on its board.

    Args:
        b: the tree.
        wanted: number of earlier visits of the root's move to make now; -1: only evaluate the root, if it has not been.
        rule: parameters of action selection.
        forest: the trees.
        leaves, movers: int8[A, cells] and int8[A], written: positions to evaluate, after the first ``asked``.
        asked: number of positions so far.

    Returns:
        The new number of positions, at most 2 more.
    """
    skip = skip_chance_of(forest.parameters)
    either = 2 if skip > 0 else 1
    by_gumbel = rule.lean.shape[1] > 0
    board, path, trees, scratch = forest.cells[b], forest.paths[b], forest.trees, forest.scratch
    moves, rates, turns, sums = trees.moves[b], trees.rates[b], trees.turns[b], trees.sums[b]
    priors, judged = trees.priors[b], trees.judged[b]
    mover = 1 - wide(moves[0, MAKER])
    node, depth, placed = wide(0), wide(0), forest.stones[b]
    path[0] = 0
    forest.depths[b] = -1
    if turns[0, VISITS] == 0:
        forest.depths[b] = 0
        ask(board, mover, leaves, movers, asked)
        return asked + 1
    if wanted < 0 or is_known(0, turns):
        return asked
    while True:
        if node == 0 and by_gumbel:
            cell, move = _considered(
                wanted, either, moves, rates, turns, rule.lean[b], rule.visit_scale, rule.value_scale, scratch.closed
            )
            if cell < 0:  # no move of the root has this number of visits
                return asked
        else:
            cell, move = _choose(node, either, by_gumbel, rule, moves, rates, turns, priors, judged, scratch)
        depth += 1
        if move == 0:
            move = forest.counts[b]
            forest.counts[b] += 1
            turns[node, LIKELIEST] = _next_likeliest(node, cell, priors)
            path[depth] = move * either
            forest.depths[b] = depth
            return _make(
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
                forest.parameters,
                forest.probe,
                scratch.urgent,
                leaves,
                movers,
                asked,
            )
        board[cell] = mover + 1
        placed += 1
        node = _turn_after(move, either, turns, skip)
        path[depth] = node
        if is_known(node, turns):
            forest.depths[b] = depth
            return asked
        mover = mover if node % either == 1 else 1 - mover


@inlined
def go_back(b: int, forest: Forest, movers: Cells, said: Floats, values: Reals, answered: int) -> int:
    """Finish the simulation of :func:`go_down` in tree ``b``: expand and back up.

    Args:
        b: the tree.
        forest: the trees.
        movers: as for :func:`go_down`.
        said: float32[A, cells], prior logits of the positions to evaluate, up to a constant.
        values: float64[A], values of these positions for their movers.
        answered: number of evaluations consumed by earlier trees.

    Returns:
        ``answered`` plus the number consumed by this tree.
    """
    depth = forest.depths[b]
    if depth < 0:
        return answered
    either = 2 if skip_chance_of(forest.parameters) > 0 else 1
    board, path, trees = forest.cells[b], forest.paths[b], forest.trees
    moves, rates, turns, sums = trees.moves[b], trees.rates[b], trees.turns[b], trees.sums[b]
    node = path[depth]
    if turns[node, VISITS] > 0:  # no new node
        turns[node, VISITS] += 1
    else:
        for turn in range(either if node > 0 else 1):
            if is_known(node + turn, turns):
                turns[node + turn, VISITS] = 1
            else:
                _admit(
                    node + turn,
                    either,
                    board,
                    wide(movers[answered]),
                    said[answered],
                    values[answered],
                    turns,
                    sums,
                    trees.priors[b],
                    trees.judged[b],
                    forest.parameters,
                    forest.scratch.urgent,
                )
                answered += 1
    _pass_back(depth, board, moves, rates, turns, sums, path, forest.parameters)
    return answered


@compiled_nogil
def descend(wanted: Integers, rule: Rule, forest: Forest, leaves: Cells, movers: Cells) -> int:
    """Run :func:`go_down` in all trees, ``wanted`` int64[B]; return the number of positions to evaluate.

    They are written to ``leaves`` int8[2 * B, cells] and ``movers`` int8[2 * B], tree by tree.
    """
    asked = wide(0)
    for b in range(len(wanted)):
        asked = go_down(b, wanted[b], rule, forest, leaves, movers, asked)
    return asked


@compiled_nogil
def ascend(forest: Forest, movers: Cells, said: Floats, values: Reals) -> None:
    """Run :func:`go_back` in all trees with the evaluations of these positions."""
    answered = wide(0)
    for b in range(len(forest.cells)):
        answered = go_back(b, forest, movers, said, values, answered)


@compiled_nogil
def read_guided(
    either: int,
    trees: Trees,
    lean: Reals,
    visit_scale: float,
    value_scale: float,
    improved: Reals,
    scores: Reals,
    values: Reals,
    scratch: Scratch,
) -> None:
    """Read the results of searches by the Gumbel rule; other arguments are as for :func:`descend`.

    Args:
        improved: float64[B, cells], written: the improved policy, softmax(log p + scale * q).
        scores: float64[B, cells], written: ``g + log p + scale * q`` of the moves with most visits and of solved moves;
            -inf for others, and for moves proved to be worse than another.
        values: float64[B], written: the root's value for its mover under the improved policy, or the solved value.
    """
    _, _, visits, made, q, p = scratch
    size = lean.shape[1]
    for b in range(len(lean)):
        moves, turns, priors = trees.moves[b], trees.turns[b], trees.priors[b]
        count, _, most, _, thought = _look(0, either, moves, trees.rates[b], turns, priors, trees.judged[b], scratch)
        scale = (visit_scale + most) * value_scale
        left = -count
        for cell in range(size):
            left += wide(priors[0, cell] > 0)
        highest, certain = thought if left > 0 else -np.inf, -np.inf
        for row in range(count):
            highest = max(highest, q[row])
            if moves[made[row], SETTLED] == 1:
                certain = max(certain, q[row])
        weight = math.exp(scale * (thought - highest)) if left > 0 else 0.0
        for cell in range(size):
            improved[b, cell] = priors[0, cell] * weight
            scores[b, cell] = lean[b, cell] + scale * thought if most == 0 else -np.inf
        value = 0.0
        for row in range(count):
            cell = moves[made[row], CELL]
            settled = moves[made[row], SETTLED] == 1
            improved[b, cell] = p[row] * math.exp(scale * (q[row] - highest))
            value += improved[b, cell] * (q[row] - thought)
            if (visits[row] == most or settled) and not (settled and q[row] < certain):
                scores[b, cell] = lean[b, cell] + scale * q[row]
        total = 0.0
        for cell in range(size):
            total += improved[b, cell]
        for cell in range(size):
            improved[b, cell] /= total
        values[b] = -trees.sums[b, 0, KNOWN] if is_known(0, turns) else thought + value / total
