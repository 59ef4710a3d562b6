"""Batched searches by the Gumbel rule: policy improvement over a network with few simulations."""

from __future__ import annotations

import functools
import math

import numpy as np

from baselines.mcts.search import MCTSSearch, check_settings
from baselines.mcts.select import GUMBEL, SelectionParams, scan_children
from baselines.mcts.tree import SearchBatch, is_solved, tree_view
from ttt_envs.agents.policy import Evaluator, best_shares
from ttt_envs.core.jit import Float64Array, Int64Array, compiled_nogil, int64
from ttt_envs.core.threads import Threads
from ttt_envs.game.boards import Boards
from ttt_envs.game.game import Game


class GumbelSearch(MCTSSearch):
    """A complete search of B positions, see :mod:`baselines.mcts`: sequential halving of the root's moves.

    It is deterministic, a function of the positions, the evaluator and the noise.

    Args:
        game: the game.
        boards: positions that are not over.
        evaluator: gives priors and values.
        simulations: number of simulations for each position.
        max_num_considered_actions: maximum number of root moves considered.
        noise: float64[B, cells], Gumbel(0, 1); None for none, which considers the moves with the largest priors.
        maxvisit_init: visit offset for the weight of values, added to the visits of the most visited move.
        value_scale: weight of values, -1 loss to 1 win, for each of these visits. With 0.1, values converge to the
            exact ones with more simulations for any evaluator; larger values, as in alpha-zero, suit few simulations
            and a strong evaluator, and explore less of the moves it rates as poor.
        threads: as of :class:`MCTSSearch`.

    Attributes:
        improved: float64[B, cells]: the improved policy, the training target.
        scores: float64[B, cells], of the moves left at the end of the search, -inf of others; the largest is chosen.
        improved_values: float64[B]: the root's value for its mover under the improved policy.

    Raises:
        ValueError: a number is out of range.
    """

    def __init__(
        self,
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
    ) -> None:
        check_gumbel(simulations, max_num_considered_actions, maxvisit_init, value_scale)
        no_keys = np.zeros(len(boards.mover), np.uint64)
        super().__init__(game, boards, no_keys, leaf=evaluator, room=simulations, threads=threads)
        self._evaluate_roots()
        priors = self._trees.priors[:, 0]
        root_logits = np.log(priors, out=np.full(priors.shape, -np.inf), where=priors > 0, dtype=np.float64)
        if noise is not None:
            root_logits += noise
        moves = np.minimum(np.isfinite(root_logits).sum(axis=1), max_num_considered_actions)
        if max_num_considered_actions < game.cells:
            least = np.partition(root_logits, -max_num_considered_actions, axis=1)[:, -max_num_considered_actions]
            root_logits[root_logits < least[:, None]] = -np.inf
        schedule = considered_visits_table(min(max_num_considered_actions, game.cells), simulations)
        self._params = self._params._replace(
            rule=int(GUMBEL), root_logits=root_logits, maxvisit_init=maxvisit_init, value_scale=value_scale
        )
        self._run_guided(schedule[moves].T)
        self.simulations = simulations
        self.improved, self.scores = np.empty(root_logits.shape), np.empty(root_logits.shape)
        self.improved_values = np.empty(len(root_logits))
        for rows, batch in self._batches:
            params = self._params._replace(root_logits=root_logits[rows])
            _read_results(batch, params, self.improved[rows], self.scores[rows], self.improved_values[rows])

    def run(self, simulations: int) -> None:
        """Raise ValueError: the schedule depends on the total number of simulations, so a search cannot be extended."""
        raise ValueError("a search by the Gumbel rule has all its simulations from the start: make another of more")

    def probabilities(self, temperature: float = 0.0) -> Float64Array:
        """Return float64[B, rows * columns]: the chosen move, with equal shares for ties; or the sharpened policy.

        With a temperature, shares are proportional to ``improved ** (1 / temperature)``.
        """
        if temperature == 0:
            return best_shares(np.where(np.isfinite(self.scores), self.scores, np.nan))
        shares = (self.improved / self.improved.max(axis=1, keepdims=True)) ** (1 / temperature)
        return np.asarray(shares / shares.sum(axis=1, keepdims=True))


@compiled_nogil
def _read_results(
    batch: SearchBatch, params: SelectionParams, improved: Float64Array, scores: Float64Array, values: Float64Array
) -> None:
    """Read the results of finished searches.

    Args:
        batch: the trees.
        params: parameters of action selection.
        improved: float64[B, cells], written: the improved policy, softmax(log p + scale * q).
        scores: float64[B, cells], written: ``g + log p + scale * q`` of the moves with most visits and of solved moves;
            -inf for others, and for moves proved to be worse than another.
        values: float64[B], written: the root's value for its mover under the improved policy, or the solved value.
    """
    root_logits = params.root_logits
    _, _, visits, edges, q, p = batch.scratch
    size = root_logits.shape[1]
    for b in range(len(root_logits)):
        tree = tree_view(b, batch)
        count, _, most, _, mixed_value = scan_children(0, tree, batch.scratch)
        scale = (params.maxvisit_init + most) * params.value_scale
        left = -count
        for cell in range(size):
            left += int64(tree.priors[0, cell] > 0)
        highest, best_solved = mixed_value if left > 0 else -np.inf, -np.inf
        for i in range(count):
            highest = max(highest, q[i])
            if tree.edges.is_solved[edges[i]] == 1:
                best_solved = max(best_solved, q[i])
        weight = math.exp(scale * (mixed_value - highest)) if left > 0 else 0.0
        for cell in range(size):
            improved[b, cell] = tree.priors[0, cell] * weight
            scores[b, cell] = root_logits[b, cell] + scale * mixed_value if most == 0 else -np.inf
        value = 0.0
        for i in range(count):
            cell = tree.edges.cell[edges[i]]
            solved = tree.edges.is_solved[edges[i]] == 1
            improved[b, cell] = p[i] * math.exp(scale * (q[i] - highest))
            value += improved[b, cell] * (q[i] - mixed_value)
            if (visits[i] == most or solved) and not (solved and q[i] < best_solved):
                scores[b, cell] = root_logits[b, cell] + scale * q[i]
        total = 0.0
        for cell in range(size):
            total += improved[b, cell]
        for cell in range(size):
            improved[b, cell] /= total
        values[b] = -tree.nodes.solved_value[0] if is_solved(0, tree.nodes) else mixed_value + value / total


@functools.cache
def considered_visits_table(max_num_considered_actions: int, simulations: int) -> Int64Array:
    """Return by sequential halving (Karnin, Koren and Somekh, 2013) the earlier visits of each simulation's move.

    With m moves considered, each phase gives every move the same number of simulations and keeps the better half.

    Returns:
        int64[considered + 1, simulations], a row for each m up to ``max_num_considered_actions``.
    """
    out = np.zeros((max_num_considered_actions + 1, simulations), np.int64)
    out[:2] = np.arange(simulations)
    for m in range(2, max_num_considered_actions + 1):
        phases = math.ceil(math.log2(m))
        left, done = m, 0
        visits: list[int] = []
        while len(visits) < simulations:
            for _ in range(max(1, simulations // (phases * left))):
                visits += [done] * left
                done += 1
            left = max(2, left // 2)
        out[m] = visits[:simulations]
    return out


def check_gumbel(simulations: int, max_num_considered_actions: int, maxvisit_init: float, value_scale: float) -> None:
    """Raise ValueError for search settings that are out of range."""
    check_settings(simulations=simulations)
    if max_num_considered_actions < 2:
        raise ValueError(
            f"max_num_considered_actions={max_num_considered_actions} leaves no choice: choose 2 moves or more"
        )
    for name, scale in (("maxvisit_init", maxvisit_init), ("value_scale", value_scale)):
        if not 0 <= scale < math.inf:
            raise ValueError(f"{name}={scale:g} is no weight of values: choose 0 or more")
