"""Batched searches by the Gumbel rule: policy improvement over a network with few simulations."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np

from baselines.mcts.search import MCTSSearch, check_settings
from baselines.mcts.select import SelectionParams, scan_children
from baselines.mcts.tree import Tree, is_solved
from ttt_envs.agents.policy import Evaluator, best_shares, normalise
from ttt_envs.core.checks import TypeRefusal, check_range
from ttt_envs.core.jit import Float64Array, int64, kernel
from ttt_envs.core.work import Threads
from ttt_envs.game.boards import Boards
from ttt_envs.game.game import Game


@dataclass(frozen=True)
class GumbelResult:
    """The results of :func:`gumbel_search`."""

    search: MCTSSearch
    """the trees; they cannot be extended, because the schedule depends on the total number of
    simulations
    """
    improved: Float64Array
    """float64[B, cells]: the improved policy, the training target"""
    scores: Float64Array
    """float64[B, cells], of the moves left at the end of the search, -inf of others; the largest is
    chosen
    """
    improved_values: Float64Array
    """float64[B]: the root's value for its mover under the improved policy"""

    def probabilities(self, temperature: float = 0.0) -> Float64Array:
        """Return float64[B, rows * columns]: the chosen move, with equal shares for ties; or the
        sharpened policy.

        With a temperature, shares are proportional to ``improved ** (1 / temperature)``.
        """
        if temperature == 0:
            return best_shares(np.where(np.isfinite(self.scores), self.scores, np.nan))
        return normalise(
            (self.improved / self.improved.max(axis=1, keepdims=True)) ** (1 / temperature)
        )

    @property
    def values(self) -> Float64Array:
        """float64[B], for the mover: value of the chosen move."""
        return np.asarray(
            (self.probabilities() * np.nan_to_num(self.search.action_values)).sum(axis=1)
        )


def gumbel_search(
    game: Game,
    boards: Boards,
    evaluator: Evaluator,
    *,
    simulations: int = 32,
    max_num_considered_actions: int = 16,
    noise: Float64Array | None = None,
    maxvisit_init: float = 50.0,
    value_scale: float = 0.1,
    threads: Threads = 1,
) -> GumbelResult:
    """Search B positions, see :mod:`baselines.mcts`: sequential halving of the root's moves.

    It is deterministic, a function of the positions, the evaluator and the noise.

    Args:
        game: the game.
        boards: positions that are not over.
        evaluator: gives priors and values.
        simulations: number of simulations for each position.
        max_num_considered_actions: maximum number of root moves considered.
        noise: float64[B, cells], Gumbel(0, 1); None for none, which considers the moves with the
            largest priors.
        maxvisit_init: visit offset for the weight of values, added to the visits of the most
            visited move.
        value_scale: weight of values, -1 loss to 1 win, for each of these visits. With 0.1, values
            converge to the exact ones with more simulations for any evaluator; larger values, as in
            alpha-zero, suit few simulations and a strong evaluator, and explore less of the moves
            it rates as poor.
        threads: as of :class:`MCTSSearch`.

    Raises:
        TypeError: the evaluator gives no priors.
        ValueError: a number is out of range.
    """
    if not isinstance(evaluator, Evaluator):
        raise TypeRefusal(
            f"{evaluator!r} gives no priors: choose an Evaluator, whose evaluate(boards) returns "
            "logits too"
        )
    check_gumbel(simulations, max_num_considered_actions, maxvisit_init, value_scale)
    no_keys = np.zeros(len(boards.mover), np.uint64)
    search = MCTSSearch(game, boards, no_keys, leaf=evaluator, room=simulations, threads=threads)
    params = SelectionParams(
        0.0, np.zeros(boards.cells.shape), float(maxvisit_init), float(value_scale)
    )
    search.simulate(np.full((1, len(boards.mover)), -1), params)  # evaluates the roots
    priors = search.tree.priors[:, 0]
    root_logits = np.log(
        priors, out=np.full(priors.shape, -np.inf), where=priors > 0, dtype=np.float64
    )
    if noise is not None:
        root_logits += noise
    num_considered = min(max_num_considered_actions, game.cells)
    moves = np.minimum(np.isfinite(root_logits).sum(axis=1), num_considered)
    if num_considered < game.cells:
        threshold = np.partition(root_logits, -num_considered, axis=1)[:, -num_considered]
        root_logits[root_logits < threshold[:, None]] = -np.inf
    schedule = np.array(
        [considered_visits(m, simulations) for m in range(int(moves.max(initial=0)) + 1)], np.int64
    )
    params = params._replace(root_logits=root_logits)
    search.simulate(np.ascontiguousarray(schedule[moves].T), params)
    search.simulations = simulations
    policies = np.empty((2, *priors.shape))
    values = np.empty(len(priors))
    _read_results(search.tree, params, root_logits, policies, values)
    return GumbelResult(search, policies[0], policies[1], values)


@kernel(interpreted=False, nogil=True)
def _read_results(
    tree: Tree,
    params: SelectionParams,
    root_logits: Float64Array,
    policies: Float64Array,
    values: Float64Array,
) -> None:
    """Read the results of finished searches.

    Args:
        tree: the trees.
        params, root_logits: parameters of action selection.
        policies: float64[2, B, cells], written: the improved policy, softmax(log p + scale * q);
            and ``g + log p + scale * q`` of the moves with most visits and of solved moves, -inf
            for others, and for moves proved to be worse than another.
        values: float64[B], written: the root's value for its mover under the improved policy, or
            the solved value.
    """
    improved = policies[0]
    scores = policies[1]
    for b in range(len(root_logits)):
        edges = tree.edges[b]
        root = tree.nodes[b][0]
        priors = tree.priors[b, 0]
        most_visits, max_q, mixed_q, _ = scan_children(b, 0, tree)
        scale = (params.maxvisit_init + most_visits) * params.value_scale
        best_solved = -np.inf
        num_unvisited = int64(root.num_legal)
        value = 0.0
        total = 0.0
        edge = int64(root.first_child)
        while edge > 0:
            num_unvisited -= 1
            if edges[edge].is_solved == 1:
                best_solved = max(best_solved, edges[edge].q)
            edge = int64(edges[edge].next_sibling)
        if num_unvisited > 0:
            max_q = max(max_q, mixed_q)
        for cell in range(len(priors)):
            improved[b, cell] = priors[cell] * math.exp(scale * min(0.0, mixed_q - max_q))
            scores[b, cell] = -np.inf
            if most_visits == 0:
                scores[b, cell] = root_logits[b, cell] + scale * mixed_q
        edge = int64(root.first_child)
        while edge > 0:
            move = edges[edge]
            cell = int64(move.cell)
            improved[b, cell] = move.p * math.exp(scale * (move.q - max_q))
            value += improved[b, cell] * (move.q - mixed_q)
            if move.is_solved == 1:
                is_candidate = move.q >= best_solved
            else:
                is_candidate = move.visits == most_visits
            if is_candidate:
                scores[b, cell] = root_logits[b, cell] + scale * move.q
            edge = int64(move.next_sibling)
        for cell in range(len(priors)):
            total += improved[b, cell]
        for cell in range(len(priors)):
            improved[b, cell] /= total
        values[b] = -root.solved_value if is_solved(0, tree.nodes[b]) else mixed_q + value / total


@functools.cache
def considered_visits(num_considered: int, simulations: int) -> tuple[int, ...]:
    """Return by sequential halving (Karnin, Koren and Somekh, 2013) the earlier visits of each
    simulation's move.

    Each phase gives every move considered the same number of simulations and keeps the better half.
    """
    if num_considered < 2:
        return tuple(range(simulations))
    phases = math.ceil(math.log2(num_considered))
    num_left = num_considered
    num_visits = 0
    visits: list[int] = []
    while len(visits) < simulations:
        for _ in range(max(1, simulations // (phases * num_left))):
            visits += [num_visits] * num_left
            num_visits += 1
        num_left = max(2, num_left // 2)
    return tuple(visits[:simulations])


def check_gumbel(
    simulations: int, max_num_considered_actions: int, maxvisit_init: float, value_scale: float
) -> None:
    """Raise ValueError for search settings that are out of range."""
    check_settings(simulations=simulations)
    check_range("max_num_considered_actions", max_num_considered_actions, 2, problem="is no choice")
    check_range("maxvisit_init", maxvisit_init, 0, problem="is no weight of values")
    check_range("value_scale", value_scale, 0, problem="is no weight of values")
