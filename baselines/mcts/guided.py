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
from typing import NamedTuple

import numpy as np

from baselines.endgame import Probe
from baselines.mcts.simulation import ask, look_up, settle, winning
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
from ttt_envs.compiling import Cells, Integers, Parameters, Reals, compiled_at_once, compiled_nogil, inlined, wide
from ttt_envs.rules import DRAW, NOT_OVER, is_legal, place, skip_chance_of

LEAST = -50.0
"""the smallest logarithm of how likely a move is that may be made: a judge that thinks it impossible may be wrong"""


class Rule(NamedTuple):
    """How moves are chosen, in B trees."""

    lean: Reals
    """float64[B, cells], Gumbel: noise and the logarithms of how likely the root's moves are, -inf for moves not to be
    considered; float64[B, 0]: PUCT"""
    c: float
    """weight of exploration, of PUCT"""
    visit_scale: float
    """of the Gumbel rule"""
    value_scale: float


class Forest(NamedTuple):
    """B trees, and what goes with them."""

    cells: Cells
    """int8[B, rows * columns], the positions"""
    stones: Integers
    """int64[B], on them"""
    counts: Integers
    """int64[B], rows of ``trees.moves`` in use; there must be room for one more in every simulation"""
    trees: Trees
    parameters: Parameters
    paths: Integers
    """int64[B, cells + 1]: the nodes that a simulation visits"""
    depths: Integers
    """int64[B]: the place of the last of them; -1 where no simulation is made"""
    probe: Probe
    """positions with so many stones are known, see :class:`baselines.endgame.Probe`"""
    scratch: Scratch


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
    """The moves made at a node, the last one first, and what is thought of those never made.

    Into ``scratch``, move by move: ``q`` values to the mover, ``p`` how likely they are, ``visits`` simulations, and
    ``made`` rows in ``moves``.

    Returns:
        (how many these are, simulations of all, of the one that has most, how likely all are together, and the value of
        moves never made).
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
    """The best of the root's moves that were made ``wanted`` times, (cell, row in ``moves``); -1 where there is none.

    Moves never made have the same value, which makes none of them better than another.
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
    """The move of the highest score, (cell, row in ``moves``, 0 for one never made), of equals the first on the board.

    ``most`` is the score of ``cell``, which was never made; ``scores`` are those of the moves that were.
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
    """The move by which visits come nearest to the improved policy, (cell, row in ``moves``, 0 for one never made).

    Moves never made have one value: so the likeliest of them is the best. What :func:`_look` left is written over.
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
    """The move that PUCT chooses, see :func:`_most_improving`."""
    _, _, visits, made, q, p = scratch
    width = c * math.sqrt(1.0 + total)  # the first simulation judged the position: so the first move is the likeliest
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
    """The move that is followed at a node, (cell, row in ``moves``, 0 for one never made)."""
    count, total, most, likely, thought = _look(node, either, moves, rates, turns, priors, judged, scratch)
    if not by_gumbel:
        return _most_promising(node, count, moves, turns, priors, scratch, rule.c, total, thought)
    scale = (rule.visit_scale + most) * rule.value_scale
    return _most_improving(node, count, moves, turns, priors, scratch, scale, total, likely, thought)


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


@compiled_at_once
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
    foreseen: bool,
) -> bool:
    """A position after a move is met for the first time: whether a judge has to judge it, or it is won or lost now.

    ``foreseen``: the move was chosen among those that leave the mover no stone that wins.
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
    priors: Floats,
    judged: Reals,
    parameters: Parameters,
    urgent: Cells,
) -> None:
    """Keep what the judge has said of a position, of the moves alone that may be sensible."""
    pressed = node == 0 and pressing(board, mover, parameters, urgent) > 0
    turns[node, VISITS] = 1
    judged[node] = sums[node, SUM] = _sign(node, either) * value
    if turns[node, URGENT] > 0:  # a stone to stop
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
        if priors[node, cell] > most:  # as rounded, by which the next ones are found
            likeliest, most = cell, float(priors[node, cell])
    turns[node, LIMIT] = turns[node, OPEN] = count
    turns[node, LIKELIEST] = likeliest


@inlined
def _next_likeliest(node: int, cell: int, priors: Floats) -> int:
    """After a cell, which was the likeliest of those never chosen, the next one; of equals the first; -1 for none.

    All that come before it in this order were chosen before.
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
    if outcome == NOT_OVER and stones + 1 == probe.stones:
        look_up(move, either, board, moves, turns, sums, parameters, probe)
        return asked
    for turn in range(either):
        after = move * either + turn
        if outcome != NOT_OVER:  # chance has no part in a result: either turn has it
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
    """The way down of one simulation in tree ``b``: the stones stay on its board.

    Args:
        b: the tree.
        wanted: how often the root's move that is made now was made before; -1: the root is judged, where it was not
            yet, and no more.
        rule: how moves are chosen.
        forest: the trees.
        leaves, movers: int8[A, cells] and int8[A], written: positions to be judged, behind ``asked`` that are there.
        asked: how many these are.

    Returns:
        How many there are now, 2 more at most.
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
            if cell < 0:  # no move of the root was made so often
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
    """The way back of what :func:`go_down` has begun in tree ``b``.

    Args:
        b: the tree.
        forest: the trees.
        movers: as :func:`go_down` has them.
        said: float32[A, cells], of the positions to be judged: logarithms of how likely moves are, up to a constant.
        values: float64[A], of these to their movers.
        answered: how many of the judgements trees before this have taken.

    Returns:
        ``answered`` and those that this one has taken.
    """
    depth = forest.depths[b]
    if depth < 0:
        return answered
    either = 2 if skip_chance_of(forest.parameters) > 0 else 1
    board, path, trees = forest.cells[b], forest.paths[b], forest.trees
    moves, rates, turns, sums = trees.moves[b], trees.rates[b], trees.turns[b], trees.sums[b]
    node = path[depth]
    if turns[node, VISITS] > 0:  # nothing new
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
    """The way down of one simulation in all trees, ``wanted`` int64[B]: how many positions are to be judged now.

    They are written to ``leaves`` int8[2 * B, cells] and ``movers`` int8[2 * B], tree by tree.
    """
    asked = wide(0)
    for b in range(len(wanted)):
        asked = go_down(b, wanted[b], rule, forest, leaves, movers, asked)
    return asked


@compiled_nogil
def ascend(forest: Forest, movers: Cells, said: Floats, values: Reals) -> None:
    """The way back in all trees, by what was said of these positions: see :func:`go_back`."""
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
    """What searches by the Gumbel rule have found; what is not told here is as :func:`descend` has it.

    Args:
        improved: float64[B, cells], written: the improved policy, softmax(log p + scale * q).
        scores: float64[B, cells], written: ``g + log p + scale * q`` of the moves made most often, and of those whose
            values are certain; -inf of others, and of moves that are certainly worse than another.
        values: float64[B], written: what the root is worth to its mover by the improved policy, or for certain.
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
