"""One simulation of a search guided by a network: priors for moves, and values for positions.

Selection descends to an unvisited move by one of two rules:

- *PUCT* (Silver et al., "A general reinforcement learning algorithm that masters chess, shogi, and Go through
  self-play", 2018): the largest ``q + c * p * sqrt(1 + N) / (1 + n)``, p the prior, N the simulations of all moves and
  n those of the move;
- *Gumbel* (Danihelka et al., "Policy improvement by planning with Gumbel", 2022, section 5): the largest
  ``p' - n / (1 + N)``, where ``p' = softmax(log p + (maxvisit_init + max n) * value_scale * q)``. At the root, moves
  are
  considered by sequential halving: among those with the scheduled number of visits, the one with the largest
  ``g + log p + (maxvisit_init + max n) * value_scale * q``, g the Gumbel noise.

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
    Float32Array,
    Int32Array,
    Tree,
    Workspace,
    is_solved,
    visits_of,
)
from baselines.mcts.uct import ask, look_up, settle, winning_moves
from baselines.retrograde.layers import Probe
from ttt_envs.core.jit import (
    Float64Array,
    Int8Array,
    Int64Array,
    Parameters,
    compiled_at_once,
    compiled_nogil,
    inlined,
    int64,
)
from ttt_envs.game.rules import DRAW, NOT_OVER, is_legal, place, skip_chance_of

MIN_LOG_PRIOR = -50.0
"""Minimum log prior of a legal move, relative to the largest: the network may wrongly consider a move impossible."""


class SelectionParams(NamedTuple):
    """Parameters of action selection, in B trees."""

    root_logits: Float64Array
    """float64[B, cells], Gumbel: noise plus log priors of the root's moves, -inf for moves that are not considered;
    float64[B, 0]: PUCT"""
    c: float
    """exploration weight of PUCT"""
    maxvisit_init: float
    """visit offset of the Gumbel rule"""
    value_scale: float


class SearchBatch(NamedTuple):
    """B trees, with the state of their current simulation."""

    cells: Int8Array
    """int8[B, rows * columns], the positions"""
    stones: Int64Array
    """int64[B], their numbers of stones"""
    counts: Int64Array
    """int64[B], rows of ``trees.moves`` in use; every simulation needs room for one more"""
    trees: Tree
    parameters: Parameters
    paths: Int64Array
    """int64[B, cells + 1]: the nodes that a simulation visits"""
    depths: Int64Array
    """int64[B]: index of the last of them; -1 for no simulation"""
    probe: Probe
    """positions with this number of stones are solved, see :class:`baselines.retrograde.layers.Probe`"""
    scratch: Workspace


@inlined
def _sign(node: int, turns_per_move: int) -> float:
    """Return 1 if the mover at a node made the move that led there, else -1."""
    return 1.0 if node % turns_per_move == 1 else -1.0


@inlined
def _node_value(node: int, turns: Int32Array, sums: Float64Array) -> float:
    """Return the value of a visited position for the player who made the move that led there."""
    worth: float = sums[node, KNOWN] if is_solved(node, turns) else sums[node, SUM] / turns[node, VISITS]
    return worth


@inlined
def _scan_children(
    node: int,
    turns_per_move: int,
    moves: Int32Array,
    rates: Float64Array,
    turns: Int32Array,
    priors: Float32Array,
    raw_values: Float64Array,
    scratch: Workspace,
) -> tuple[int, int, int, float, float]:
    """Collect the moves made at a node, the last one first, and the value of unvisited moves.

    Written into ``scratch``, move by move: ``q`` values for the mover, ``p`` priors, ``visits`` simulations, and
    ``made`` rows in ``moves``.

    Returns:
        (number of these moves, their simulations in total, maximum simulations of a move, their total prior, and the
        mixed value, which is the value of unvisited moves).
    """
    _, _, visits, made, q, p = scratch
    count, total, most, likely, mean = int64(0), int64(0), int64(0), 0.0, 0.0
    move = int64(turns[node, FIRST])
    while move > 0:
        q[count], p[count] = rates[move, MEAN], priors[node, moves[move, CELL]]
        visits[count], made[count] = visits_of(move, turns, turns_per_move, True), move
        total += visits[count]
        most = max(most, visits[count])
        likely += p[count]
        mean += p[count] * q[count]
        count += 1
        move = int64(moves[move, NEXT])
    mixed_value = _sign(node, turns_per_move) * raw_values[node]
    if total > 0:
        mixed_value = (mixed_value + total * mean / likely) / (1 + total)
    return count, total, most, likely, mixed_value


@inlined
def _select_root_gumbel(
    considered_visit: int,
    turns_per_move: int,
    moves: Int32Array,
    rates: Float64Array,
    turns: Int32Array,
    root_logits: Float64Array,
    maxvisit_init: float,
    value_scale: float,
    never: Int8Array,
) -> tuple[int, int]:
    """Return the best of the root's moves with ``considered_visit`` visits, (cell, row in ``moves``); -1 if there is
    none.

    Unvisited moves all have the same value, so only noise and priors rank them.
    """
    best, at, most = int64(-1), int64(0), -np.inf
    most_made = int64(0)
    move = int64(turns[0, FIRST])
    while move > 0:
        most_made = max(most_made, visits_of(move, turns, turns_per_move, True))
        move = int64(moves[move, NEXT])
    scale = (maxvisit_init + most_made) * value_scale
    if considered_visit == 0:
        for cell in range(len(never)):
            never[cell] = 1
        move = int64(turns[0, FIRST])
        while move > 0:
            never[moves[move, CELL]] = 0
            move = int64(moves[move, NEXT])
        for cell in range(len(never)):
            if never[cell] == 1 and root_logits[cell] > most:
                best, most = cell, root_logits[cell]
        return best, at
    move = int64(turns[0, FIRST])
    while move > 0:
        if visits_of(move, turns, turns_per_move, True) == considered_visit:
            cell = int64(moves[move, CELL])
            score = root_logits[cell] + scale * rates[move, MEAN]
            if score > most or (score == most and cell < best):
                best, at, most = cell, move, score
        move = int64(moves[move, NEXT])
    return best, at


@inlined
def _argmax(
    cell: int, most: float, count: int, moves: Int32Array, made: Int64Array, scores: Float64Array
) -> tuple[int, int]:
    """Return the move of the highest score, (cell, row in ``moves``, 0 if unvisited); ties go to the first cell.

    ``most`` is the score of the unvisited ``cell``; ``scores`` are those of visited moves.
    """
    best = int64(0)
    for row in range(count):
        score = scores[row]
        if score > most or (score == most and moves[made[row], CELL] < cell):
            cell, best, most = int64(moves[made[row], CELL]), made[row], score
    return cell, best


@inlined
def _select_improved_policy(
    node: int,
    count: int,
    moves: Int32Array,
    turns: Int32Array,
    priors: Float32Array,
    scratch: Workspace,
    scale: float,
    total: int,
    likely: float,
    mixed_value: float,
) -> tuple[int, int]:
    """Return the move that brings visits closest to the improved policy, (cell, row in ``moves``, 0 if unvisited).

    Unvisited moves share one value, so the likeliest of them is the best. The output of :func:`_scan_children` is
    overwritten.
    """
    _, _, visits, made, q, p = scratch
    cell, most, highest = int64(turns[node, LIKELIEST]), -np.inf, -np.inf
    if cell >= 0:
        highest = mixed_value
    for row in range(count):
        highest = max(highest, q[row])
    weights = 0.0
    if cell >= 0:
        weight = math.exp(scale * (mixed_value - highest))
        prior = float(priors[node, cell])
        weights = max(prior, 1.0 - likely) * weight
        most = (1 + total) * prior * weight
    for row in range(count):
        p[row] *= math.exp(scale * (q[row] - highest))
        weights += p[row]
    for row in range(count):
        p[row] = (1 + total) * p[row] - visits[row] * weights
    return _argmax(cell, most, count, moves, made, p)


@inlined
def _select_puct(
    node: int,
    count: int,
    moves: Int32Array,
    turns: Int32Array,
    priors: Float32Array,
    scratch: Workspace,
    c: float,
    total: int,
    mixed_value: float,
) -> tuple[int, int]:
    """Return the move selected by PUCT, see :func:`_select_improved_policy`."""
    _, _, visits, made, q, p = scratch
    width = c * math.sqrt(1.0 + total)  # 1: the evaluation is a visit, so the first move is the likeliest
    cell, most = int64(turns[node, LIKELIEST]), -np.inf
    if cell >= 0:
        most = mixed_value + width * priors[node, cell]
    for row in range(count):
        p[row] = q[row] + width * p[row] / (1.0 + visits[row])
    return _argmax(cell, most, count, moves, made, p)


@inlined
def _select(
    node: int,
    turns_per_move: int,
    by_gumbel: bool,
    rule: SelectionParams,
    moves: Int32Array,
    rates: Float64Array,
    turns: Int32Array,
    priors: Float32Array,
    raw_values: Float64Array,
    scratch: Workspace,
) -> tuple[int, int]:
    """Return the move selected at a node, (cell, row in ``moves``, 0 if unvisited)."""
    count, total, most, likely, mixed_value = _scan_children(
        node, turns_per_move, moves, rates, turns, priors, raw_values, scratch
    )
    if not by_gumbel:
        return _select_puct(node, count, moves, turns, priors, scratch, rule.c, total, mixed_value)
    scale = (rule.maxvisit_init + most) * rule.value_scale
    return _select_improved_policy(node, count, moves, turns, priors, scratch, scale, total, likely, mixed_value)


@inlined
def _turn_after(move: int, turns_per_move: int, turns: Int32Array, skip: float) -> int:
    """Return the turn in which a simulation continues: an unsolved one with the smallest share of its visits."""
    first = move * turns_per_move
    if turns_per_move == 1 or is_solved(first + 1, turns):
        return first
    if is_solved(first, turns):
        return first + 1
    return first + int64(skip * turns[first, VISITS] > (1.0 - skip) * turns[first + 1, VISITS])


@inlined
def forced_moves(board: Int8Array, mover: int, parameters: Parameters, out: Int8Array) -> int:
    """Mark the mover's forced moves with 1 in ``out`` int8[cells]; return their number, 0 if all moves are open."""
    count = winning_moves(board, mover, parameters, out)
    if count == 0 and skip_chance_of(parameters) == 0:  # a move that does not block loses
        count = winning_moves(board, 1 - mover, parameters, out)
    return count


@compiled_at_once
def forced_moves_of_rows(cells: Int8Array, mover: Int8Array, parameters: Parameters, out: Int8Array) -> None:
    """Mark the forced moves of B positions with 1 in ``out`` int8[B, cells]; rows of 0 if all moves are open."""
    for b in range(len(cells)):
        forced_moves(cells[b], int64(mover[b]), parameters, out[b])


@inlined
def _init_child(
    node: int,
    turns_per_move: int,
    board: Int8Array,
    mover: int,
    turns: Int32Array,
    sums: Float64Array,
    parameters: Parameters,
    forced_mask: Int8Array,
    foreseen: bool,
) -> bool:
    """Initialise a position after a new move: return whether it needs an evaluation, or mark it as solved.

    ``foreseen``: the move was chosen among those that leave the mover no winning stone.
    """
    if not foreseen and winning_moves(board, mover, parameters, forced_mask) > 0:
        known = 1.0
    elif skip_chance_of(parameters) > 0:
        return True
    else:
        turns[node, URGENT] = winning_moves(board, 1 - mover, parameters, forced_mask)
        if turns[node, URGENT] <= 1:
            for cell in range(len(board)):
                if forced_mask[cell] == 1:
                    turns[node, LIKELIEST] = cell
            return True
        known = -1.0  # only one of two winning stones can be blocked
    turns[node, LIMIT] = 1
    sums[node, KNOWN] = _sign(node, turns_per_move) * known
    return False


@inlined
def _expand(
    node: int,
    turns_per_move: int,
    board: Int8Array,
    mover: int,
    prior_logits: Float32Array,
    value: float,
    turns: Int32Array,
    sums: Float64Array,
    priors: Float32Array,
    raw_values: Float64Array,
    parameters: Parameters,
    forced_mask: Int8Array,
) -> None:
    """Expand a node: store the evaluation of a position, with priors of sensible moves only."""
    pressed = node == 0 and forced_moves(board, mover, parameters, forced_mask) > 0
    turns[node, VISITS] = 1
    raw_values[node] = sums[node, SUM] = _sign(node, turns_per_move) * value
    if turns[node, URGENT] > 0:  # a forced block
        turns[node, LIMIT] = turns[node, OPEN] = 1
        priors[node, turns[node, LIKELIEST]] = 1.0
        return
    largest, total, count = -np.inf, 0.0, int64(0)
    for cell in range(len(board)):
        if is_legal(board, cell, parameters) and (not pressed or forced_mask[cell] == 1):
            count += 1
            largest = max(largest, prior_logits[cell])
    for cell in range(len(board)):
        if is_legal(board, cell, parameters) and (not pressed or forced_mask[cell] == 1):
            p = math.exp(max(MIN_LOG_PRIOR, prior_logits[cell] - largest))
            priors[node, cell] = p
            total += p
    likeliest, most = int64(-1), 0.0
    for cell in range(len(board)):
        priors[node, cell] /= total
        if priors[node, cell] > most:  # as rounded, because _next_likeliest compares rounded priors
            likeliest, most = cell, float(priors[node, cell])
    turns[node, LIMIT] = turns[node, OPEN] = count
    turns[node, LIKELIEST] = likeliest


@inlined
def _next_likeliest(node: int, cell: int, priors: Float32Array) -> int:
    """Return the likeliest unvisited cell after ``cell``, the previous one; ties go to the first; -1 for none.

    All cells before it in this order have been selected before.
    """
    bound = priors[node, cell]
    likeliest, most = int64(-1), 0.0
    for other in range(priors.shape[1]):
        p = priors[node, other]
        if p > most and (p < bound or (p == bound and other > cell)):
            likeliest, most = other, float(p)
    return likeliest


@inlined
def _backup(
    depth: int,
    board: Int8Array,
    moves: Int32Array,
    rates: Float64Array,
    turns: Int32Array,
    sums: Float64Array,
    path: Int64Array,
    parameters: Parameters,
) -> None:
    """Back up a visit along a path: remove the stones, and update values and solved values.

    A node's value is the visit-weighted mean of its raw value and its moves' values.
    """
    skip = skip_chance_of(parameters)
    turns_per_move = 2 if skip > 0 else 1
    for place_in_path in range(depth, 0, -1):
        move = path[place_in_path] // turns_per_move
        above = path[place_in_path - 1]
        board[moves[move, CELL]] = 0
        first = move * turns_per_move
        last = first + turns_per_move - 1
        worth = _node_value(first, turns, sums)
        if turns_per_move == 2:
            worth += skip * (_node_value(last, turns, sums) - worth)
        count = visits_of(move, turns, turns_per_move, True)
        added = count * worth - (count - 1) * rates[move, MEAN]
        rates[move, MEAN] = worth
        sums[above, SUM] += _sign(above, turns_per_move) * added
        turns[above, VISITS] += 1
        if moves[move, SETTLED] == 0 and is_solved(first, turns) and is_solved(last, turns):
            moves[move, SETTLED] = 1
            settle(above, int64(moves[move, MAKER]), worth, turns_per_move, moves, rates, turns, sums)


@inlined
def _add_child(
    move: int,
    cell: int,
    node: int,
    turns_per_move: int,
    board: Int8Array,
    mover: int,
    stones: int,
    moves: Int32Array,
    turns: Int32Array,
    sums: Float64Array,
    parameters: Parameters,
    probe: Probe,
    forced_mask: Int8Array,
    leaves: Int8Array,
    movers: Int8Array,
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
        look_up(move, turns_per_move, board, moves, turns, sums, parameters, probe)
        return asked
    for turn in range(turns_per_move):
        after = move * turns_per_move + turn
        if outcome != NOT_OVER:  # results do not depend on chance: both turns have the same
            turns[after, LIMIT] = 1
            sums[after, KNOWN] = 0.0 if outcome == DRAW else 1.0
            continue
        whose = mover if turn == 1 else 1 - mover
        if _init_child(
            after, turns_per_move, board, whose, turns, sums, parameters, forced_mask, turns_per_move == 1 and node > 0
        ):
            ask(board, whose, leaves, movers, asked)
            asked += 1
    return asked


@inlined
def simulate(
    b: int,
    considered_visit: int,
    rule: SelectionParams,
    forest: SearchBatch,
    leaves: Int8Array,
    movers: Int8Array,
    asked: int,
) -> int:
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
    turns_per_move = 2 if skip > 0 else 1
    by_gumbel = rule.root_logits.shape[1] > 0
    board, path, trees, scratch = forest.cells[b], forest.paths[b], forest.trees, forest.scratch
    moves, rates, turns, sums = trees.moves[b], trees.rates[b], trees.turns[b], trees.sums[b]
    priors, raw_values = trees.priors[b], trees.raw_values[b]
    mover = 1 - int64(moves[0, MAKER])
    node, depth, placed = int64(0), int64(0), forest.stones[b]
    path[0] = 0
    forest.depths[b] = -1
    if turns[0, VISITS] == 0:
        forest.depths[b] = 0
        ask(board, mover, leaves, movers, asked)
        return asked + 1
    if considered_visit < 0 or is_solved(0, turns):
        return asked
    while True:
        if node == 0 and by_gumbel:
            cell, move = _select_root_gumbel(
                considered_visit,
                turns_per_move,
                moves,
                rates,
                turns,
                rule.root_logits[b],
                rule.maxvisit_init,
                rule.value_scale,
                scratch.closed,
            )
            if cell < 0:  # no move of the root has this number of visits
                return asked
        else:
            cell, move = _select(
                node, turns_per_move, by_gumbel, rule, moves, rates, turns, priors, raw_values, scratch
            )
        depth += 1
        if move == 0:
            move = forest.counts[b]
            forest.counts[b] += 1
            turns[node, LIKELIEST] = _next_likeliest(node, cell, priors)
            path[depth] = move * turns_per_move
            forest.depths[b] = depth
            return _add_child(
                move,
                cell,
                node,
                turns_per_move,
                board,
                mover,
                placed,
                moves,
                turns,
                sums,
                forest.parameters,
                forest.probe,
                scratch.forced_mask,
                leaves,
                movers,
                asked,
            )
        board[cell] = mover + 1
        placed += 1
        node = _turn_after(move, turns_per_move, turns, skip)
        path[depth] = node
        if is_solved(node, turns):
            forest.depths[b] = depth
            return asked
        mover = mover if node % turns_per_move == 1 else 1 - mover


@inlined
def backup(
    b: int, forest: SearchBatch, movers: Int8Array, prior_logits: Float32Array, values: Float64Array, answered: int
) -> int:
    """Finish the simulation of :func:`simulate` in tree ``b``: expand and back up.

    Args:
        b: the tree.
        forest: the trees.
        movers: as for :func:`simulate`.
        said: float32[A, cells], prior logits of the positions to evaluate, up to a constant.
        values: float64[A], values of these positions for their movers.
        answered: number of evaluations consumed by earlier trees.

    Returns:
        ``answered`` plus the number consumed by this tree.
    """
    depth = forest.depths[b]
    if depth < 0:
        return answered
    turns_per_move = 2 if skip_chance_of(forest.parameters) > 0 else 1
    board, path, trees = forest.cells[b], forest.paths[b], forest.trees
    moves, rates, turns, sums = trees.moves[b], trees.rates[b], trees.turns[b], trees.sums[b]
    node = path[depth]
    if turns[node, VISITS] > 0:  # no new node
        turns[node, VISITS] += 1
    else:
        for turn in range(turns_per_move if node > 0 else 1):
            if is_solved(node + turn, turns):
                turns[node + turn, VISITS] = 1
            else:
                _expand(
                    node + turn,
                    turns_per_move,
                    board,
                    int64(movers[answered]),
                    prior_logits[answered],
                    values[answered],
                    turns,
                    sums,
                    trees.priors[b],
                    trees.raw_values[b],
                    forest.parameters,
                    forest.scratch.forced_mask,
                )
                answered += 1
    _backup(depth, board, moves, rates, turns, sums, path, forest.parameters)
    return answered


@compiled_nogil
def simulate_all(
    considered_visit: Int64Array, rule: SelectionParams, forest: SearchBatch, leaves: Int8Array, movers: Int8Array
) -> int:
    """Run :func:`simulate` in all trees, ``considered_visit`` int64[B]; return the number of positions to evaluate.

    They are written to ``leaves`` int8[2 * B, cells] and ``movers`` int8[2 * B], tree by tree.
    """
    asked = int64(0)
    for b in range(len(considered_visit)):
        asked = simulate(b, considered_visit[b], rule, forest, leaves, movers, asked)
    return asked


@compiled_nogil
def backup_all(forest: SearchBatch, movers: Int8Array, prior_logits: Float32Array, values: Float64Array) -> None:
    """Run :func:`backup` in all trees with the evaluations of these positions."""
    answered = int64(0)
    for b in range(len(forest.cells)):
        answered = backup(b, forest, movers, prior_logits, values, answered)


@compiled_nogil
def read_guided(
    turns_per_move: int,
    trees: Tree,
    root_logits: Float64Array,
    maxvisit_init: float,
    value_scale: float,
    improved: Float64Array,
    scores: Float64Array,
    values: Float64Array,
    scratch: Workspace,
) -> None:
    """Read the results of searches by the Gumbel rule; other arguments are as for :func:`simulate_all`.

    Args:
        improved: float64[B, cells], written: the improved policy, softmax(log p + scale * q).
        scores: float64[B, cells], written: ``g + log p + scale * q`` of the moves with most visits and of solved moves;
            -inf for others, and for moves proved to be worse than another.
        values: float64[B], written: the root's value for its mover under the improved policy, or the solved value.
    """
    _, _, visits, made, q, p = scratch
    size = root_logits.shape[1]
    for b in range(len(root_logits)):
        moves, turns, priors = trees.moves[b], trees.turns[b], trees.priors[b]
        count, _, most, _, mixed_value = _scan_children(
            0, turns_per_move, moves, trees.rates[b], turns, priors, trees.raw_values[b], scratch
        )
        scale = (maxvisit_init + most) * value_scale
        left = -count
        for cell in range(size):
            left += int64(priors[0, cell] > 0)
        highest, certain = mixed_value if left > 0 else -np.inf, -np.inf
        for row in range(count):
            highest = max(highest, q[row])
            if moves[made[row], SETTLED] == 1:
                certain = max(certain, q[row])
        weight = math.exp(scale * (mixed_value - highest)) if left > 0 else 0.0
        for cell in range(size):
            improved[b, cell] = priors[0, cell] * weight
            scores[b, cell] = root_logits[b, cell] + scale * mixed_value if most == 0 else -np.inf
        value = 0.0
        for row in range(count):
            cell = moves[made[row], CELL]
            solved = moves[made[row], SETTLED] == 1
            improved[b, cell] = p[row] * math.exp(scale * (q[row] - highest))
            value += improved[b, cell] * (q[row] - mixed_value)
            if (visits[row] == most or solved) and not (solved and q[row] < certain):
                scores[b, cell] = root_logits[b, cell] + scale * q[row]
        total = 0.0
        for cell in range(size):
            total += improved[b, cell]
        for cell in range(size):
            improved[b, cell] /= total
        values[b] = -trees.sums[b, 0, KNOWN] if is_solved(0, turns) else mixed_value + value / total
