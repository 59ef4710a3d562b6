"""Batched searches that can be extended by any number of simulations."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from baselines.exact.tablebase import Probe, Tablebase, empty_probe
from baselines.mcts.select import PUCT, SelectionParams
from baselines.mcts.simulate import backup_all, backup_uct_all, run_uct, simulate_all, simulate_uct
from baselines.mcts.tree import SavedSubtree, SearchBatch, Tree, Workspace, copy_tree, find_node, read_roots
from ttt_envs.agents.policy import Evaluator, Values
from ttt_envs.core.jit import BoolArray, Float64Array, Int64Array, UInt64Array
from ttt_envs.core.threads import Threads, count_threads, map_threads, split_rows
from ttt_envs.game.boards import Boards
from ttt_envs.game.game import Game

CHUNK_SIZE = 1_024
"""Maximum number of simulations per call of an evaluator with its own simulation kernel."""
UCT_CHUNK_SIZE = 1 << 14
"""Maximum number of simulations per call of the kernel of UCT, some hundredths of a second."""
MIN_BLOCK_SIMULATIONS = 256
"""Minimum number of simulations for each thread: with fewer, starting the thread takes longer."""
BLOCKS_PER_THREAD = 4
"""Number of blocks of trees for each thread, so that no thread waits long for the last one."""
_NO_LOGITS, _NO_VALUES = np.zeros((0, 0), np.float32), np.zeros(0)


@runtime_checkable
class FusedEvaluator(Evaluator, Protocol):
    """An evaluator with its own kernel that runs the simulations of a search."""

    def run_simulations(self, considered_visit: Int64Array, params: SelectionParams, batch: SearchBatch) -> None:
        """Run simulations in B trees, one tree after another.

        A search with several threads calls it in all of them, each time for other trees.
        The resulting trees are bit-identical to those of a search that calls :meth:`evaluate` on the reached positions.

        Args:
            considered_visit: int64[S, B], for each simulation the argument of :func:`baselines.mcts.simulate`.
            params: parameters of action selection.
            batch: the trees, written.
        """
        ...


class MCTSSearch:
    """Trees of B positions that can be extended by any number of simulations.

    >>> boards = Boards.start(Game())
    >>> search = MCTSSearch(Game(), boards, np.zeros(1, np.uint64))
    >>> search.run(100)
    >>> search.run(200)  # the same as 300 at once
    >>> int(search.visits.sum())
    300

    Args:
        game: the game.
        boards: positions that are not over.
        keys: uint64[B], keys of the simulations' random numbers.
        c: exploration weight.
        leaf: a policy that evaluates the leaves of all trees in one call; None for random play to the end. A policy
            with priors (:class:`~ttt_envs.agents.policy.Evaluator`) guides the search: see :mod:`baselines.mcts`.
        decisive: see the module.
        subtrees: for each position a tree to continue, if the position is in it; see :meth:`subtree`.
        endgame: a database, whose positions count as solved.
        room: number of simulations for which memory is allocated at once; trees grow as needed.
        threads: number of threads for the simulations, see :mod:`ttt_envs.core.threads`; results do not depend on it.
            It has no effect with a ``leaf`` that is not a :class:`FusedEvaluator`, because such a leaf evaluates all
            trees in one call.

    Attributes:
        simulations: number of simulations of each position in this search.
        counts: int64[B]: number of moves in the trees, plus 1 for the root.
    """

    def __init__(
        self,
        game: Game,
        boards: Boards,
        keys: UInt64Array,
        *,
        c: float = 1.4,
        leaf: Values | None = None,
        decisive: bool = True,
        subtrees: Sequence[SavedSubtree | None] | None = None,
        endgame: Tablebase | None = None,
        room: int = 0,
        threads: Threads = 1,
    ) -> None:
        check_settings(c=c)
        self._threads = count_threads(threads)
        self.game = game
        self.simulations = 0
        self._boards, self._keys, self._leaf = boards, keys, leaf
        # to check None for the methods of a protocol takes as long as 20 simulations
        self._guide = leaf if leaf is not None and isinstance(leaf, Evaluator) else None
        count = len(boards.mover)
        self._params = SelectionParams(int(PUCT), float(c), np.zeros((count, 0)), 0.0, 0.0)
        self._decisive = decisive
        self._turns_per_move = 2 if game.skip_chance > 0 else 1
        self._cells = boards.cells.copy()
        self._stones = np.count_nonzero(boards.cells, axis=1)
        self.counts = np.ones(count, np.int64)
        found = [(b, saved) for b, saved in enumerate(subtrees or ()) if saved is not None]
        most = max([1 + room, *(saved.tree.edges.shape[1] for _, saved in found)])
        self._trees = Tree.empty(count, most, self._turns_per_move, 0 if self._guide is None else game.cells)
        for b, saved in found:
            self._reuse_subtree(b, saved)
        self._trees.edges["player"][:, 0] = 1 - boards.mover
        self._paths, self._depths = np.zeros((count, game.cells + 1), np.int64), np.zeros(count, np.int64)
        leaves = count * (1 if self._guide is None else 2)  # guided, both turns after a move are evaluated
        self._leaves = Boards(np.zeros((leaves, game.cells), np.int8), np.zeros(leaves, np.int8))
        self._scratch = Workspace.empty(game.cells)
        self._groups = _probe_groups(boards, endgame)
        self._batches: list[tuple[slice, SearchBatch]] = []
        self._make_batches()

    def _make_batches(self) -> None:
        """Slice the arrays for the trees that reach the database at the same number of stones."""
        self._batches = []
        for rows, probe in self._groups:
            batch = SearchBatch(
                self._cells,
                self._stones,
                self.counts,
                self._trees,
                self.game.parameters,
                self._paths,
                self._depths,
                probe,
                self._scratch,
            )
            self._batches.append((rows, batch if len(self._groups) == 1 else batch.of_rows(rows, self._scratch)))

    def run(self, simulations: int) -> None:
        """Add simulations to every tree.

        Raises:
            ValueError: fewer than 1.
        """
        check_settings(simulations=simulations)
        self._make_room(simulations)
        if self._guide is not None:
            self._evaluate_roots()
            for done in range(0, simulations, CHUNK_SIZE):
                self._run_guided(np.zeros((min(CHUNK_SIZE, simulations - done), len(self.counts)), np.int64))
        else:
            for rows, batch in self._batches:
                self._run_uct(batch, self._keys[rows], self.simulations, self.simulations + simulations)
        self.simulations += simulations

    def _run_uct(self, batch: SearchBatch, keys: UInt64Array, first: int, last: int) -> None:
        """Run the simulations ``first`` to ``last`` - 1 in some of the trees."""
        if self._leaf is None:

            def run_block(trees: slice, batch: SearchBatch) -> None:
                for start in range(first, last, UCT_CHUNK_SIZE):
                    stop = min(last, start + UCT_CHUNK_SIZE)
                    run_uct(batch, self._params.c, self._decisive, keys[trees], start, stop)

            self._for_trees(run_block, batch, last - first, UCT_CHUNK_SIZE)
            return
        cells, movers = self._leaves
        for simulation in range(first, last):
            count = int(simulate_uct(batch, self._params.c, self._decisive, keys, simulation, cells, movers))
            values = _NO_VALUES
            if count:
                values = np.asarray(self._leaf.values(Boards(cells[:count], movers[:count])), np.float64)
            backup_uct_all(batch, self._decisive, movers, values)

    def _for_trees(
        self, run_block: Callable[[slice, SearchBatch], None], batch: SearchBatch, simulations: int, chunk: int
    ) -> None:
        """Call ``run_block`` with blocks of the trees of a batch, in threads where that pays.

        Args:
            run_block: runs the simulations of a block, given its trees and views of them.
            batch: the trees.
            simulations: number of simulations of each tree.
            chunk: maximum number of simulations of a block, unless it is one tree.
        """
        count = len(batch.cells)
        threads = min(self._threads, count, max(1, count * simulations // MIN_BLOCK_SIMULATIONS))
        size = max(1, chunk // simulations)
        if threads > 1:
            size = min(size, -(-count // (BLOCKS_PER_THREAD * threads)))
        if size >= count:
            run_block(slice(0, count), batch)
            return
        scratch = [self._scratch, *(Workspace.empty(self.game.cells) for _ in range(1, threads))]
        map_threads(
            lambda worker, trees: run_block(trees, batch.of_rows(trees, scratch[worker])),
            split_rows(count, size),
            threads,
        )

    def add_root_noise(self, shares: Float64Array, weight: float) -> None:
        """Mix noise into the root priors.

        Args:
            shares: float64[B, cells], the noise, rows that sum to 1.
            weight: 0 to below 1.
        """
        self._evaluate_roots()
        priors = self._trees.priors[:, 0]
        priors[...] = np.where(priors > 0, (1 - weight) * priors + weight * shares, 0)
        self._trees.nodes["next_prior"][:, 0] = np.argmax(priors, axis=1)

    def _evaluate_roots(self) -> None:
        """Evaluate the roots that have not been evaluated."""
        self._run_guided(np.full((1, len(self.counts)), -1))

    def _run_guided(self, considered_visit: Int64Array) -> None:
        """Run guided simulations in all trees, see :func:`simulate`: ``considered_visit`` int64[S, B]."""
        assert self._guide is not None
        cells, movers = self._leaves
        for rows, batch in self._batches:
            params = self._params._replace(root_logits=self._params.root_logits[rows])
            visits = np.ascontiguousarray(considered_visit[:, rows])
            if isinstance(self._guide, FusedEvaluator):
                self._run_fused(self._guide, visits, params, batch)
                continue
            for visit in visits:
                count = int(simulate_all(visit, params, batch, cells, movers))
                prior_logits, values = _NO_LOGITS, _NO_VALUES
                if count:
                    prior_logits, values = self._guide.evaluate(Boards(cells[:count], movers[:count]))
                # fixed array types, so that the kernel is compiled once
                prior_logits = np.ascontiguousarray(prior_logits, np.float32)
                backup_all(batch, movers, prior_logits, np.ascontiguousarray(values, np.float64))

    def _run_fused(
        self, guide: FusedEvaluator, considered_visit: Int64Array, params: SelectionParams, batch: SearchBatch
    ) -> None:
        """Run the simulations of a batch by the guide's own kernel."""
        if self._threads == 1:
            guide.run_simulations(considered_visit, params, batch)
            return

        def run_block(trees: slice, batch: SearchBatch) -> None:
            of_trees = params._replace(root_logits=params.root_logits[trees])
            guide.run_simulations(np.ascontiguousarray(considered_visit[:, trees]), of_trees, batch)

        self._for_trees(run_block, batch, len(considered_visit), 1 << 30)  # the evaluator limits the time of a call

    def _make_room(self, simulations: int) -> None:
        """Ensure capacity: every simulation adds at most one edge; a search in small steps grows by half at a time."""
        room = self._trees.edges.shape[1]
        needed = int(self.counts.max(initial=1)) + simulations
        if needed > room:
            needed = max(needed, room + room // 2 if self.simulations else 0)
            self._trees = self._trees.resized(needed)
            self._make_batches()

    def _edges_of(self, row: int, node: int) -> list[int]:
        """Return the edges of a node of tree ``row``, the last one first."""
        found, next_sibling = [], self._trees.edges["next_sibling"][row]
        edge = int(self._trees.nodes["first_child"][row, node])
        while edge > 0:
            found.append(edge)
            edge = int(next_sibling[edge])
        return found

    def subtree(self, row: int, cell: int) -> SavedSubtree | None:
        """Return the subtree of a move in position ``row``, copied; None if the move was never tried."""
        trees = self._trees
        edge = next((edge for edge in self._edges_of(row, 0) if trees.edges["cell"][row, edge] == cell), None)
        if edge is None:
            return None
        new = Tree.empty(1, int(self.counts[row]), self._turns_per_move, trees.priors.shape[2])
        count = copy_tree(edge, -1, trees, row, new, 0, self._turns_per_move)
        cells = self._boards.cells[row].copy()
        cells[cell] = self._boards.mover[row] + 1
        return SavedSubtree(cells, new.resized(count))

    def _reuse_subtree(self, row: int, saved: SavedSubtree) -> None:
        """Copy the subtree of position ``row`` from a saved tree, if it contains the position."""
        tree, mover = saved.tree, int(self._boards.mover[row])
        node = int(find_node(saved.cells, self._cells[row], mover, tree, self._turns_per_move))
        # a position solved by a database has no subtree
        if node >= 0 and not (tree.nodes["first_child"][0, node] == 0 and tree.nodes["num_legal"][0, node] > 0):
            edge, turn = divmod(node, self._turns_per_move)
            self.counts[row] = copy_tree(edge, turn, tree, 0, self._trees, row, self._turns_per_move)
            if turn == 1:  # edge 0 is a move of the player not to move
                for value in ("value_sum", "solved_value"):
                    self._trees.nodes[value][row, 0] *= -1
                self._trees.raw_values[row, :1] *= -1

    @property
    def visits(self) -> Int64Array:
        """int64[B, rows * columns]: number of visits of each move, including those of a continued tree."""
        return self.root_moves[0]

    @property
    def action_values(self) -> Float64Array:
        """float64[B, rows * columns]: mean result of each move for the mover, NaN for untried moves."""
        return self.root_moves[1]

    @property
    def solved(self) -> BoolArray:
        """bool[B, rows * columns]: whether the value of a move is solved."""
        return self.root_moves[2]

    @property
    def root_moves(self) -> tuple[Int64Array, Float64Array, BoolArray]:
        """``visits``, ``action_values`` and ``solved`` together."""
        shape = self._cells.shape
        found = np.zeros(shape, np.int64), np.full(shape, np.nan), np.zeros(shape, np.bool_)
        read_roots(self._trees, self._turns_per_move, *found)
        return found

    def probabilities(self, temperature: float = 0.0) -> Float64Array:
        """Return float64[B, rows * columns]: the most visited move, with equal shares for ties; needs a simulation.

        With a temperature, shares are ``visits ** (1 / temperature)``, normalised. Moves proved to be worse than
        another have share 0, and so have all others beside a proved win, however many visits they had before.
        """
        visits, values, solved = self.root_moves
        if temperature == 0 and self.simulations and not solved.any():  # the same with fewer operations
            best = visits == visits.max(axis=1, keepdims=True)
            return np.asarray(best / best.sum(axis=1, keepdims=True))
        tried = visits > 0
        lower_bound = np.where(solved, values, np.where(tried, -1.0, -np.inf)).max(axis=1, keepdims=True)
        uncertain = (tried & ~solved).any(axis=1, keepdims=True)
        worse = np.where(solved, (values < lower_bound) | ((values == -1) & uncertain), lower_bound == 1)
        shares = np.where(worse, 0, visits).astype(np.float64)
        shares /= shares.max(axis=1, keepdims=True)
        shares = (shares == 1).astype(np.float64) if temperature == 0 else shares ** (1 / temperature)
        return np.asarray(shares / shares.sum(axis=1, keepdims=True))

    @property
    def values(self) -> Float64Array:
        """float64[B], for the mover: value of the move that :meth:`probabilities` chooses."""
        return np.asarray((self.probabilities() * np.nan_to_num(self.action_values)).sum(axis=1))

    @property
    def root_values(self) -> Float64Array:
        """float64[B], for the mover: mean result of all simulations, or the solved value; needs a simulation."""
        root = self._trees.nodes[:, 0]
        solved = (root["num_legal"] > 0) & (root["num_unsolved"] == 0)
        return -np.where(solved, root["solved_value"], root["value_sum"] / root["visits"])

    def variation(self, row: int) -> tuple[tuple[int, int], ...]:
        """Return the principal variation from position ``row``: the most visited moves (mover, cell) and turns."""
        visits = self._trees.nodes["visits"][row].reshape(-1, self._turns_per_move)
        found = []
        node = 0
        while edges := self._edges_of(row, node):
            best = edges[int(np.argmax(visits[edges].sum(axis=1)))]
            record = self._trees.edges[row, best]
            found.append((int(record["player"]), int(record["cell"])))
            node = best * self._turns_per_move + int(np.argmax(visits[best]))
        return tuple(found)


def _probe_groups(boards: Boards, endgame: Tablebase | None) -> list[tuple[slice, Probe]]:
    """Return consecutive rows that reach the database at the same number of stones, and the probe of each group."""
    if endgame is None:
        return [(slice(0, len(boards.mover)), empty_probe())] if len(boards.mover) else []
    layers = endgame.probe_layers(boards)
    edges = [0, *(np.flatnonzero(np.diff(layers)) + 1).tolist(), len(layers)]
    return [
        (slice(start, stop), endgame.probe(int(layers[start]), of_moves=True))
        for start, stop in itertools.pairwise(edges)
        if start < stop
    ]


def check_settings(simulations: int = 1, c: float = 1.0, temperature: float = 0.0) -> None:
    """Raise ValueError for search settings that are out of range."""
    if simulations < 1:
        raise ValueError(f"simulations={simulations} tries no move: choose 1 or more")
    if not 0 <= c < math.inf:
        raise ValueError(f"c={c:g} is no weight of exploration: choose 0 (none) or more, such as 1.4")
    if not 0 <= temperature < math.inf:
        raise ValueError(
            f"temperature={temperature:g} is no temperature: choose 0 (the most visited move) or more, such as 1"
        )
