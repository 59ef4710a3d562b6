"""Batched searches that can be extended by any number of simulations."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from baselines.mcts.puct import SearchBatch, SelectionParams, backup_all, simulate_all
from baselines.mcts.tree import (
    CELL,
    FIRST,
    KNOWN,
    LIKELIEST,
    LIMIT,
    MAKER,
    NEXT,
    OPEN,
    SUM,
    VISITS,
    SavedSubtree,
    Tree,
    Workspace,
    copy_tree,
    node_of,
    read_roots,
)
from baselines.mcts.uct import BACK, DOWN, WHOLE, simulate
from baselines.retrograde.layers import Probe
from baselines.retrograde.tablebase import Tablebase, empty_probe
from ttt_envs.agents.policy import Evaluator, FusedEvaluator, Values
from ttt_envs.core.jit import BoolArray, Float64Array, Int8Array, Int64Array, UInt64Array
from ttt_envs.game.boards import Boards
from ttt_envs.game.rules import Game

CHUNK_SIZE = 1_024
"""Maximum number of simulations per call of an evaluator with its own simulation kernel."""
_NOTHING_SAID = np.zeros((0, 0), np.float32), np.zeros(0)


class _Part(NamedTuple):
    """Some of the trees: slices of the arrays of :func:`simulate`."""

    rows: slice
    cells: Int8Array
    stones: Int64Array
    counts: Int64Array
    trees: Tree
    paths: Int64Array
    depths: Int64Array
    leaves: Int8Array
    movers: Int8Array
    probe: Probe


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
            with priors (:class:`~ttt_envs.agents.policy.Evaluator`) guides the search: see :mod:`baselines.mcts.puct`.
        decisive: see the module.
        kept: for each position a tree to continue, if the position is in it; see :meth:`keep`.
        endgame: a database, whose positions count as solved.
        room: number of simulations to allocate for at the start; the trees grow as needed.

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
        kept: Sequence[SavedSubtree | None] | None = None,
        endgame: Tablebase | None = None,
        room: int = 0,
    ) -> None:
        check_settings(c=c)
        self.game = game
        self.simulations = 0
        self._boards, self._keys, self._leaf = boards, keys, leaf
        self._settings = (game.parameters, float(c), decisive)
        self._either = 2 if game.skip_chance > 0 else 1
        self._guide = leaf if isinstance(leaf, Evaluator) else None
        self._scales = (0.0, 0.0)
        """scales of the Gumbel rule: see :class:`~baselines.mcts.gumbel.GumbelSearch`"""
        self._cells = boards.cells.copy()
        self._stones = np.count_nonzero(boards.cells, axis=1)
        count = len(boards.mover)
        self.counts = np.ones(count, np.int64)
        guided = 0 if self._guide is None else game.cells
        found = [(b, tree) for b, tree in enumerate(kept or ()) if tree is not None]
        self._trees = Tree.empty(
            count, max([1 + room, *(tree.trees.moves.shape[1] for _, tree in found)]), self._either, guided
        )
        for b, tree in found:
            self._graft(b, tree)
        self._trees.moves[:, 0, MAKER] = 1 - boards.mover
        paths, depths = np.zeros((count, game.cells + 1), np.int64), np.zeros(count, np.int64)
        # consecutive rows that reach the database at the same number of stones
        layers = np.zeros(count, np.int64) if endgame is None else endgame.probe_layers(boards)
        edges = [0, *(np.flatnonzero(np.diff(layers)) + 1).tolist(), count]
        self._stretches = [
            (slice(start, stop), empty_probe() if endgame is None else endgame.probe(int(layers[start])))
            for start, stop in itertools.pairwise(edges)
            if start < stop
        ]
        most = count if self._guide is None else 2 * count  # both turns after a move are evaluated
        self._scratch = Workspace.of(game.cells)
        self._parted: tuple[Tree | None, list[_Part]] = (None, [])
        self._between = (paths, depths, np.zeros((most, game.cells), np.int8), np.zeros(most, np.int8))

    def run(self, simulations: int) -> None:
        """Add simulations to every tree.

        Raises:
            ValueError: fewer than 1.
        """
        check_settings(simulations=simulations)
        self._make_room(simulations)
        if self._guide is not None:
            self._judge_roots()
            noise = np.zeros((len(self.counts), 0))
            for done in range(0, simulations, CHUNK_SIZE):
                considered_visit = np.zeros((min(CHUNK_SIZE, simulations - done), len(self.counts)), np.int64)
                self._everywhere(considered_visit, noise)
            self.simulations += simulations
            return
        for part in self._parts():
            self._run(part, simulations)
        self.simulations += simulations

    def _parts(self) -> list[_Part]:
        """Return slices of the trees that reach the database at the same number of stones."""
        if self._parted[0] is not self._trees:
            paths, depths, leaves, movers = self._between
            made = [
                _Part(
                    rows, self._cells[rows], self._stones[rows], self.counts[rows], self._trees.of(rows),
                    paths[rows], depths[rows], leaves, movers, probe,
                )
                for rows, probe in self._stretches
            ]  # fmt: skip
            self._parted = self._trees, made
        return self._parted[1]

    def _run(self, part: _Part, simulations: int) -> None:
        """Add simulations to some of the trees."""
        rows, cells, stones, counts, trees, paths, depths, leaves, movers, probe = part
        boards, between = (self._keys[rows], cells, stones, counts), (paths, depths, leaves, movers)
        fixed = (*boards, trees, *self._settings, *between, probe, self._scratch)
        unjudged = np.zeros(0)
        if self._leaf is None:
            simulate(WHOLE, simulations, self.simulations, *fixed, unjudged)
            return
        for done in range(self.simulations, self.simulations + simulations):
            asked = int(simulate(DOWN, 1, done, *fixed, unjudged))
            values = unjudged
            if asked:
                values = np.asarray(self._leaf.values(Boards(leaves[:asked], movers[:asked])), np.float64)
            simulate(BACK, 1, done, *fixed, values)

    def add_root_noise(self, shares: Float64Array, weight: float) -> None:
        """Mix noise into the root priors.

        Args:
            shares: float64[B, cells], the noise, rows that sum to 1.
            weight: 0 to below 1.
        """
        self._judge_roots()
        priors = self._trees.priors[:, 0]
        priors[...] = np.where(priors > 0, (1 - weight) * priors + weight * shares, 0)
        self._trees.turns[:, 0, LIKELIEST] = np.argmax(priors, axis=1)

    def _judge_roots(self) -> None:
        """Evaluate the roots that have not been evaluated."""
        self._everywhere(np.full((1, len(self.counts)), -1), np.zeros((len(self.counts), 0)))

    def _everywhere(self, considered_visit: Int64Array, root_logits: Float64Array) -> None:
        """Run guided simulations in all trees, ``considered_visit`` int64[S, B]: see :mod:`baselines.mcts.puct`."""
        assert self._guide is not None
        parameters, c, _ = self._settings
        for rows, cells, stones, counts, trees, paths, depths, leaves, movers, probe in self._parts():
            rule = SelectionParams(root_logits[rows], c, *self._scales)
            forest = SearchBatch(cells, stones, counts, trees, parameters, paths, depths, probe, self._scratch)
            mine = np.ascontiguousarray(considered_visit[:, rows])
            if isinstance(self._guide, FusedEvaluator):
                self._guide.run_simulations(mine, rule, forest)
                continue
            for now in mine:
                asked = int(simulate_all(now, rule, forest, leaves, movers))
                prior_logits, values = (
                    self._guide.judge(Boards(leaves[:asked], movers[:asked])) if asked else _NOTHING_SAID
                )
                # fixed array types, so that the kernel is compiled once
                prior_logits, values = (
                    np.ascontiguousarray(prior_logits, np.float32),
                    np.ascontiguousarray(values, np.float64),
                )
                backup_all(forest, movers, prior_logits, values)

    def _make_room(self, simulations: int) -> None:
        """Ensure capacity: every simulation adds at most one move; a search in small steps grows by half at a time."""
        room = self._trees.moves.shape[1]
        needed = int(self.counts.max(initial=1)) + simulations
        if needed > room:
            needed = max(needed, room + room // 2 if self.simulations else 0)
            self._trees = self._trees.resized(needed)

    def keep(self, row: int, cell: int) -> SavedSubtree | None:
        """Return the subtree of a move in position ``row``, copied; None if the move was never tried."""
        trees = self._trees
        move = int(trees.turns[row, 0, FIRST])
        while move > 0 and trees.moves[row, move, CELL] != cell:
            move = int(trees.moves[row, move, NEXT])
        if move == 0:
            return None
        new = Tree.empty(1, int(self.counts[row]), self._either, trees.priors.shape[2])
        count = copy_tree(move, -1, trees, row, new, 0, self._either)
        cells = self._boards.cells[row].copy()
        cells[cell] = self._boards.mover[row] + 1
        return SavedSubtree(cells, new.resized(count))

    def _graft(self, row: int, kept: SavedSubtree) -> None:
        """Copy the subtree of position ``row`` from a kept tree, if it contains the position."""
        trees, mover = kept.trees, int(self._boards.mover[row])
        node = int(node_of(kept.cells, self._cells[row], mover, trees.moves[0], trees.turns[0], self._either))
        # a position solved by a database has no subtree
        if node >= 0 and not (trees.turns[0, node, FIRST] == 0 and trees.turns[0, node, LIMIT] > 0):
            move, turn = divmod(node, self._either)
            self.counts[row] = copy_tree(move, turn, trees, 0, self._trees, row, self._either)
            if turn == 1:  # row 0 is a move of the player not to move
                self._trees.sums[row, 0] *= -1
                self._trees.raw_values[row, :1] *= -1

    @property
    def visits(self) -> Int64Array:
        """int64[B, rows * columns]: number of visits of each move, including those of a kept tree."""
        return self._of_moves[0]

    @property
    def action_values(self) -> Float64Array:
        """float64[B, rows * columns]: mean result of each move for the mover, NaN for untried moves."""
        return self._of_moves[1]

    @property
    def solved(self) -> BoolArray:
        """bool[B, rows * columns]: whether the value of a move is solved."""
        return self._of_moves[2]

    @property
    def _of_moves(self) -> tuple[Int64Array, Float64Array, BoolArray]:
        shape = self._cells.shape
        found = np.zeros(shape, np.int64), np.full(shape, np.nan), np.zeros(shape, np.bool_)
        read_roots(self._trees, self._either, *found)
        return found

    def probabilities(self, temperature: float = 0.0) -> Float64Array:
        """Return float64[B, rows * columns]: the most visited move, with equal shares for ties; needs a simulation.

        With a temperature, shares are ``visits ** (1 / temperature)``, normalised. Moves proved to be worse than
        another have share 0, and so have all others beside a proved win, however many visits they had before.
        """
        visits, values, solved = self._of_moves
        tried = visits > 0
        worth_at_least = np.where(solved, values, np.where(tried, -1.0, -np.inf)).max(axis=1, keepdims=True)
        uncertain = (tried & ~solved).any(axis=1, keepdims=True)
        worse = np.where(solved, (values < worth_at_least) | ((values == -1) & uncertain), worth_at_least == 1)
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
        known = (self._trees.turns[:, 0, LIMIT] > 0) & (self._trees.turns[:, 0, OPEN] == 0)
        mean = self._trees.sums[:, 0, SUM] / self._trees.turns[:, 0, VISITS]
        return -np.where(known, self._trees.sums[:, 0, KNOWN], mean)

    def variation(self, row: int) -> tuple[tuple[int, int], ...]:
        """Return the principal variation from position ``row``: the most visited moves (mover, cell) and turns."""
        moves, turns = self._trees.moves[row], self._trees.turns[row]
        found = []
        node = 0
        while turns[node, FIRST] > 0:
            tried = []
            move = int(turns[node, FIRST])
            while move > 0:
                tried.append(move)
                move = int(moves[move, NEXT])
            after = turns[:, VISITS].reshape(-1, self._either)[tried]
            best = int(np.argmax(after.sum(axis=1)))
            found.append((int(moves[tried[best], MAKER]), int(moves[tried[best], CELL])))
            node = tried[best] * self._either + int(np.argmax(after[best]))
        return tuple(found)


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
