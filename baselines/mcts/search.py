"""Batched searches that can be extended by any number of simulations."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

from baselines.exact.tablebase import Probe, Tablebase
from baselines.mcts.random_games import play_random_game
from baselines.mcts.select import SelectionParams
from baselines.mcts.simulate import backup, backup_all, simulate, simulate_all
from baselines.mcts.tree import Tree, children_of, copy_subtree, find_node
from ttt_envs.agents.policy import Evaluator, Values, normalise
from ttt_envs.core.checks import TypeRefusal, check_range
from ttt_envs.core.jit import BoolArray, Float64Array, Int64Array, UInt64Array, int64, kernel
from ttt_envs.core.work import Threads, count_threads, map_threads
from ttt_envs.game.boards import Boards
from ttt_envs.game.game import Game

CHUNK_SIZE = 4_096
"""Maximum number of simulations per call of a kernel, a fraction of a second, so that other threads
and Ctrl-C can run between calls."""
MIN_BLOCK_SIMULATIONS = 256
"""Minimum number of simulations for each thread: with fewer, starting the thread takes longer."""
BLOCKS_PER_THREAD = 4
"""Number of blocks of trees for each thread, so that no thread waits long for the last one."""


@runtime_checkable
class FusedEvaluator(Protocol):
    """An evaluator with its own kernel that runs the simulations of a search.

    If it is an :class:`~ttt_envs.agents.policy.Evaluator`, the trees are bit-identical to those of
    a search that calls its ``evaluate`` on the reached positions. Else moves have equal priors.
    """

    def run_simulations(
        self, considered_visit: Int64Array, params: SelectionParams, tree: Tree
    ) -> None:
        """Run simulations in B trees, one tree after another.

        A search with several threads calls it in all of them, each time for other trees.

        Args:
            considered_visit: int64[S, B], for each simulation the argument of
                :func:`baselines.mcts.simulate`.
            params: parameters of action selection.
            tree: the trees, written.
        """


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
        keys: uint64[B], keys of the random numbers.
        c: exploration weight.
        leaf: a policy that evaluates the leaves of all trees in one call; None for random play to
            the end. Moves have equal priors, except with an
            :class:`~ttt_envs.agents.policy.Evaluator`: see :mod:`baselines.mcts`.
        decisive: see the module.
        trees: for each position one tree to continue, of the mover's previous position in the game;
            a tree that does not contain the position is ignored. See :meth:`Tree.rows`.
        endgame: a database, whose positions count as solved.
        room: number of simulations for which memory is allocated at once; trees grow as needed.
        threads: number of threads for the simulations, see :mod:`ttt_envs.core.work`; results do
            not depend on it. It has no effect with a ``leaf`` that is not a
            :class:`FusedEvaluator`, because such a leaf evaluates all trees in one call.

    Raises:
        TypeError: the leaf evaluates nothing.

    Attributes:
        simulations: number of simulations of each position in this search.
        tree: the trees.
    """

    def __init__(
        self,
        game: Game,
        boards: Boards,
        keys: UInt64Array,
        *,
        c: float = 1.4,
        leaf: Values | Evaluator | FusedEvaluator | None = None,
        decisive: bool = True,
        trees: Sequence[Tree | None] = (),
        endgame: Tablebase | None = None,
        room: int = 0,
        threads: Threads = 1,
    ) -> None:
        check_settings(c=c)
        self.game = game
        self.simulations = 0
        self._leaf = leaf
        self._params = SelectionParams(float(c))
        self._threads = count_threads(threads)
        self._run_fused: Callable[[Int64Array, SelectionParams, Tree], None] | None = None
        has_priors = leaf is not None and isinstance(leaf, Evaluator)
        # to look for the methods of a protocol takes as long as 20 simulations
        if leaf is None:
            self._run_fused = _run_random_games
        elif isinstance(leaf, FusedEvaluator):
            self._run_fused = leaf.run_simulations
        elif not has_priors and getattr(leaf, "values", None) is None:
            raise TypeRefusal(f"{leaf!r} evaluates nothing: it needs evaluate, or else values")
        earlier_trees = [(row, tree) for row, tree in enumerate(trees) if tree is not None]
        self.tree = Tree.empty(
            game,
            boards,
            keys,
            room=max([1 + room, *(int(tree.counts[0]) for _, tree in earlier_trees)]),
            # both turns after a move are evaluated
            leaves=2 * len(boards.mover) if self._run_fused is None else 2,
            has_priors=has_priors,
            decisive=decisive,
        )
        for row, tree in earlier_trees:
            node = find_node(tree, boards.cells[row], int(boards.mover[row]))
            if node > 0 and tree.nodes["first_child"][0, node] > 0:
                copy_subtree(node, tree, self.tree, row)
        self._groups = _probe_groups(boards, endgame)

    def run(self, simulations: int) -> None:
        """Add simulations to every tree; none to solved positions.

        Raises:
            ValueError: fewer than 1.
        """
        check_settings(simulations=simulations)
        room = self.tree.edges.shape[1]
        num_edges = int(self.tree.counts.max(initial=1)) + simulations
        if num_edges > room:
            # every simulation adds at most one edge; a search in small steps grows by half at a
            # time
            growth = room // 2 if self.simulations else 0
            self.tree = self.tree.resized(max(num_edges, room + growth))
        for start in range(-1, simulations, CHUNK_SIZE):
            shape = min(CHUNK_SIZE, simulations - start), len(self.tree.counts)
            considered_visit = np.zeros(shape, np.int64)
            considered_visit[0] = min(start, 0)  # at first -1, for the roots
            self.simulate(considered_visit, self._params)
        self.simulations += simulations

    def add_root_noise(self, shares: Float64Array, weight: float) -> None:
        """Mix noise into the root priors, before the first simulation.

        Args:
            shares: float64[B, cells], the noise, rows that sum to 1.
            weight: 0 to below 1.
        """
        self.simulate(np.full((1, len(shares)), -1), self._params)
        priors = self.tree.priors[:, 0]
        priors[...] = np.where(priors > 0, (1 - weight) * priors + weight * shares, 0)
        self.tree.nodes["next_cell"][:, 0] = np.argmax(priors, axis=1)

    def simulate(self, considered_visit: Int64Array, params: SelectionParams) -> None:
        """Run simulations, for which there is room, in all trees by a rule of selection.

        Args:
            considered_visit: int64[S, B], for each simulation the argument of
                :func:`baselines.mcts.simulate`.
            params: parameters of action selection.
        """
        simulations, count = considered_visit.shape
        threads = 1
        blocks = self._groups
        run_trees = self._run_fused or self._run_batched
        if self._run_fused is not None:
            threads = min(self._threads, count, count * simulations // MIN_BLOCK_SIMULATIONS)
            threads = max(1, threads)
            parts = 1 if threads == 1 else BLOCKS_PER_THREAD * threads
            size = max(1, min(-(-count // parts), CHUNK_SIZE // simulations))
            blocks = [
                (slice(start, min(start + size, rows.stop)), probe)
                for rows, probe in self._groups
                for start in range(rows.start, rows.stop, size)
            ]

        def run_block(block: tuple[slice, Probe | None]) -> None:
            rows, probe = block
            tree = self.tree._replace(probe=probe).rows(rows)
            run_trees(np.ascontiguousarray(considered_visit[:, rows]), params.rows(rows), tree)

        map_threads(run_block, blocks, threads)

    def _run_batched(
        self, considered_visit: Int64Array, params: SelectionParams, tree: Tree
    ) -> None:
        """Run simulations one by one, each in all trees, with one evaluation of their leaves."""
        leaf: Any = self._leaf
        scratch = tree.scratch
        for visits in considered_visit:
            count = simulate_all(visits, params, tree)
            if count > 0:
                leaves = Boards(scratch.leaves[:count], scratch.movers[:count])
                if tree.priors.shape[2] > 0:
                    scratch.prior_logits[:count], scratch.values[:count] = leaf.evaluate(leaves)
                else:
                    scratch.values[:count] = leaf.values(leaves)
            backup_all(tree)

    @property
    def visits(self) -> Int64Array:
        """int64[B, rows * columns]: number of visits of each move, including those of a continued
        tree.
        """
        return self.root_moves[0]

    @property
    def action_values(self) -> Float64Array:
        """float64[B, rows * columns]: mean result of each move for the mover, NaN for untried
        moves.
        """
        return self.root_moves[1]

    @property
    def solved(self) -> BoolArray:
        """bool[B, rows * columns]: whether the value of a move is solved."""
        return self.root_moves[2]

    @property
    def root_moves(self) -> tuple[Int64Array, Float64Array, BoolArray]:
        """``visits``, ``action_values`` and ``solved`` together."""
        shape = self.tree.cells.shape
        moves = np.zeros(shape, np.int64), np.full(shape, np.nan), np.zeros(shape, np.bool_)
        _read_roots(self.tree, *moves)
        return moves

    def probabilities(self, temperature: float = 0.0) -> Float64Array:
        """Return float64[B, rows * columns]: the most visited move, with equal shares for ties;
        needs a simulation.

        With a temperature, shares are ``visits ** (1 / temperature)``, normalised. Moves proved to
        be worse than another have share 0, and so have all others beside a proved win, however many
        visits they had before.
        """
        visits, values, is_solved = self.root_moves
        shares = visits.astype(np.float64)
        if is_solved.any():
            bounds = np.where(visits > 0, -1.0, -np.inf)
            bounds = np.where(is_solved, values, bounds)
            max_bound = bounds.max(axis=1, keepdims=True)
            is_open = ((visits > 0) & ~is_solved).any(axis=1, keepdims=True)
            is_worse = (values < max_bound) | ((values == -1) & is_open)
            shares[np.where(is_solved, is_worse, max_bound == 1)] = 0
        shares /= shares.max(axis=1, keepdims=True)
        if temperature == 0:
            shares = (shares == 1).astype(np.float64)
        else:
            shares = shares ** (1 / temperature)
        return normalise(shares)

    @property
    def values(self) -> Float64Array:
        """float64[B], for the mover: value of the move that :meth:`probabilities` chooses."""
        return np.asarray((self.probabilities() * np.nan_to_num(self.action_values)).sum(axis=1))

    @property
    def root_values(self) -> Float64Array:
        """float64[B], for the mover: mean result of all simulations, or the solved value; needs a
        simulation.
        """
        root: Any = self.tree.nodes[:, 0]
        means = root["value_sum"] / root["visits"]
        return np.asarray(-np.where(self.root_solved, root["solved_value"], means))

    @property
    def root_solved(self) -> BoolArray:
        """bool[B]: whether the root is solved."""
        root = self.tree.nodes[:, 0]
        return np.asarray((root["num_legal"] > 0) & (root["num_unsolved"] == 0))

    def variation(self, row: int) -> tuple[tuple[int, int], ...]:
        """Return the principal variation from position ``row``: the most visited moves (mover,
        cell) and turns.
        """
        edges = self.tree.edges[row]
        nodes = self.tree.nodes[row]
        turns = self.tree.turns_per_move
        node = 0
        variation = list[tuple[int, int]]()
        while True:
            children = children_of(self.tree, row, node)
            if not children:
                return tuple(variation)
            best = children[int(np.argmax(edges["visits"][children]))]
            variation.append((int(edges["player"][best]), int(edges["cell"][best])))
            turn_visits = nodes["visits"][best * turns : (best + 1) * turns]
            node = best * turns + int(np.argmax(turn_visits))


def _run_random_games(considered_visit: Int64Array, params: SelectionParams, tree: Tree) -> None:
    """Run simulations whose leaves are evaluated by random games: see :class:`FusedEvaluator`."""
    cells = np.zeros(tree.cells.shape[1], np.int64)
    _simulate_random_games(considered_visit, params, tree, cells)


@kernel(interpreted=False, nogil=True)
def _simulate_random_games(
    considered_visit: Int64Array, params: SelectionParams, tree: Tree, cells: Int64Array
) -> None:
    """Run simulations ``considered_visit`` int64[S, B] in one tree after another; ``cells``
    int64[cells] is scratch.
    """
    for b in range(len(tree.cells)):
        for simulation in range(len(considered_visit)):
            count = simulate(b, considered_visit[simulation, b], params, tree, int64(0))
            for leaf in range(count):
                tree.scratch.values[leaf] = play_random_game(b, leaf, tree, cells)
            backup(b, tree, int64(0))


@kernel(interpreted=False)
def _read_roots(tree: Tree, visits: Int64Array, q: Float64Array, solved: BoolArray) -> None:
    """Read all root moves: visits int64[B, cells], values float64[B, cells], solved or not bool[B,
    cells].
    """
    for b in range(len(visits)):
        edge = int64(tree.nodes[b][0].first_child)
        while edge > 0:
            move = tree.edges[b][edge]
            visits[b, move.cell] = move.visits
            q[b, move.cell] = move.q
            solved[b, move.cell] = move.is_solved == 1
            edge = int64(move.next_sibling)


def _probe_groups(boards: Boards, endgame: Tablebase | None) -> list[tuple[slice, Probe | None]]:
    """Return consecutive rows that reach the database at the same number of stones, and the probe
    of each group.
    """
    if endgame is None:
        return [(slice(0, len(boards.mover)), None)] if len(boards.mover) else []
    layers = endgame.probe_layers(boards)
    edges = [0, *(np.flatnonzero(np.diff(layers)) + 1).tolist(), len(layers)]
    return [
        (slice(start, stop), endgame.probe(int(layers[start]), of_moves=True))
        for start, stop in itertools.pairwise(edges)
        if start < stop
    ]


def check_settings(simulations: int = 1, c: float = 1.0, temperature: float = 0.0) -> None:
    """Raise ValueError for search settings that are out of range."""
    check_range("simulations", simulations, 1, problem="tries no move")
    check_range("c", c, 0, problem="is no weight of exploration", hint=", such as 1.4")
    check_range(
        "temperature",
        temperature,
        0,
        problem="is no temperature",
        hint=", 0 for the most visited move",
    )
