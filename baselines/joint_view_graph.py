"""All joint views of a small phantom game with their successors, for exact evaluation of policies over views.

The rules are in :mod:`ttt_envs.game.phantom`. A policy over views is a table with a row for each view of each player.
The graph is built once; an evaluation then is one pass over its arrays, backward for values and forward for
probabilities of visits. Nothing is sampled.

A view occurs at most once in a game. So the policy gradient theorem (Sutton et al., 2000, Theorem 1) holds with views
as states: what a move of a view is worth is the mean over the joint views with this view, weighed by their visits.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from baselines.position_graph import GraphEvaluation
from baselines.softmax_table import PositionIndex
from ttt_envs.core.jit import BoolArray, Float64Array, Int8Array, Int32Array, Int64Array, compiled_at_once
from ttt_envs.game.boards import Boards, from_keys, keys
from ttt_envs.game.phantom import FOUND, MAX_CELLS_BASE_5, JointViews, attempt_rows, check_phantom
from ttt_envs.game.rules import DRAW, NOT_OVER, Game

MAX_EMPTY = 9
"""Maximum number of empty cells at the start: ten of them lead to several millions of joint views."""
CACHED_GRAPHS = 2
"""Maximum number of graphs that :func:`joint_view_graph` keeps."""
BLOCK = 1024
"""Number of joint views whose results are added one by one; sums of blocks keep rounding small."""
KNOWN, PLACED, TRIED, FINAL = range(4)
"""Kinds of attempts: on a cell known to be taken (illegal), a stone, a failed attempt, a stone that ends the game."""


class Edges(NamedTuple):
    """The attempts of N joint views, arrays [N, cells]."""

    kind: Int8Array
    """int8: KNOWN, PLACED, TRIED or FINAL"""
    result: Int8Array
    """int8: the mover's result of final stones, 1, 0 or -1; else 0"""
    following: Int32Array
    """int32: the next joint view: after a stone the other player's turn, after a failed attempt the mover's in a
    classic game, the other player's in an abrupt one;
    -1 if there is none"""
    again: Int32Array
    """int32: the next joint view after a stone if the other player's turn is skipped; -1 if there is none"""


class JointViewValues(NamedTuple):
    """Exact evaluation of a table over views."""

    values: Float64Array
    """float64[N]: expected result for the mover"""
    action_values: Float64Array
    """float64[N, cells]: expected result for the mover after each attempt, 0 for cells known to be taken"""


class JointViewGraph:
    """All N joint views that can be reached, ordered by number of stones and found stones, and the attempts in them.

    Args:
        game: the game, with hidden stones.
        start: the state in which all games begin, one row; by default an empty board.

    Attributes:
        views: the V distinct views of the players to move; ``views.boards`` lists them.
        legal: bool[V, cells]: the legal attempts.
        view: int64[N]: the mover's view in each joint view.
        mover: int8[N]: the player to move.
        edges: the attempts.

    Raises:
        ValueError: the stones are not hidden, or a start of several rows.
        MemoryError: more than ``MAX_EMPTY`` empty cells at the start, or a board too large for keys.
    """

    def __init__(self, game: Game, start: JointViews | None = None) -> None:
        check_phantom(game)
        self.game = game
        first = JointViews.start(game) if start is None else start
        if first.cells.shape != (1, game.cells):
            raise ValueError(f"a graph begins with one joint view of {game.cells} cells, not {first.cells.shape}")
        check_listed(game, int(np.count_nonzero(first.cells == 0)))
        layers, edges, size = [first], [], 0
        while len(layers[-1].mover):
            size += len(layers[-1].mover)
            found = _attempts(game, layers[-1], size)
            edges.append(found.edges)
            layers.append(found.following)
        self.edges = Edges(*(np.concatenate(arrays) for arrays in zip(*edges, strict=True)))
        cells, found_stones, mover = (np.concatenate(arrays) for arrays in zip(*layers, strict=True))
        joint = JointViews(cells, found_stones, mover)
        self.mover: Int8Array = mover
        self.cells: Int8Array = cells
        self.found: Int8Array = found_stones
        seen = joint.views()
        view_keys, view = np.unique(keys(seen.cells) * np.uint64(2) + mover.astype(np.uint64), return_inverse=True)
        boards = Boards(from_keys(view_keys // np.uint64(2), game), (view_keys % np.uint64(2)).astype(np.int8))
        self.views = PositionIndex(game, boards)
        self.view: Int64Array = view.astype(np.int64).reshape(-1)
        self.legal: BoolArray = boards.cells == 0

    def __len__(self) -> int:
        return len(self.mover)

    @property
    def joint_views(self) -> JointViews:
        """The N joint views."""
        return JointViews(self.cells, self.found, self.mover)

    def uniform(self) -> Float64Array:
        """Return float64[V, cells]: equal probabilities of all legal attempts."""
        return np.asarray(self.legal / self.legal.sum(axis=1, keepdims=True), np.float64)

    # By default the policies of the functions below have a row for each view, float64[V, cells]: both players'
    # probabilities, 0 for illegal attempts. With ``rows`` int64[N] they have any number of rows, and these are the rows
    # of the joint views: so a policy may distinguish more than views.

    def evaluate(
        self, policy: Float64Array, costs: Float64Array | None = None, rows: Int64Array | None = None
    ) -> JointViewValues:
        """Return exact values by backward induction.

        Args:
            policy: probabilities, see above.
            costs: like the policy: what each attempt costs its player and pays to the other; None for nothing.
            rows: see above.
        """
        size, cells = self.edges.kind.shape
        out = JointViewValues(np.zeros(size), np.zeros((size, cells)))
        paid = np.zeros((0, cells)) if costs is None else costs
        _back_up(self.edges, self.mover, self._rows(rows), policy, paid, self.game.skip_chance, *out)
        return out

    def occupancy(self, policy: Float64Array, rows: Int64Array | None = None) -> Float64Array:
        """Return float64[N]: the probability that a game visits each joint view."""
        visits = np.zeros(len(self))
        visits[0] = 1.0
        _pass_on(self.edges, self._rows(rows), policy, self.game.skip_chance, visits)
        return visits

    def results(
        self, policy: Float64Array, occupancy: Float64Array, rows: Int64Array | None = None
    ) -> tuple[float, float, float]:
        """Return the probabilities that player_0 wins, of a draw, and that player_1 wins."""
        found = np.zeros((3, len(self) // BLOCK + 1))
        _add_results(self.edges, self.mover, self._rows(rows), policy, occupancy, found)
        loss, draw, win = (float(sums.sum()) for sums in found)
        return win, draw, loss

    def _rows(self, rows: Int64Array | None) -> Int64Array:
        return self.view if rows is None else rows

    def sum_by_view(self, weights: Float64Array) -> Float64Array:
        """Return float64[V]: the sums of numbers float64[N] of joint views over those of each view."""
        return np.asarray(np.bincount(self.view, weights, len(self.legal)), np.float64)

    def view_values(self, exact: JointViewValues, occupancy: Float64Array) -> JointViewValues:
        """Return the mover's expected results given its view, float64[V] and float64[V, cells]; 0 in unvisited views.

        Args:
            exact: values of a policy.
            occupancy: float64[N], of the same policy.
        """
        visits = self.sum_by_view(occupancy)
        divisor = np.where(visits > 0, visits, 1.0)
        values = self.sum_by_view(occupancy * exact.values) / divisor
        action_values = np.zeros(self.legal.shape)
        _add_by_view(self.view, occupancy, exact.action_values, action_values)
        return JointViewValues(values, action_values / divisor[:, None])


class ViewGraph:
    """A phantom game as :class:`~baselines.position_graph.PositionGraph` presents a game: views in place of positions.

    Numbers of a view are means over its joint views, weighed by their visits with the policy that is evaluated.

    Args:
        game: the game, with hidden stones.

    Attributes:
        index: the V views; ``index.boards`` lists them.
        legal: bool[V, cells]: the legal attempts.

    Raises:
        ValueError, MemoryError: as :class:`JointViewGraph`.
    """

    def __init__(self, game: Game) -> None:
        self.game = game
        self.index = joint_view_graph(game).views
        self.legal: BoolArray = joint_view_graph(game).legal
        self._last: tuple[Float64Array, Float64Array] | None = None

    def evaluate(
        self, policy: Float64Array, costs: Float64Array | None = None, responder: int | None = None
    ) -> GraphEvaluation:
        """Return exact values, 0 in views that are not visited.

        Args:
            policy: float64[V, cells]: both players' probabilities, 0 for illegal attempts; not to be changed later.
            costs: float64[V, cells]: what each attempt costs its player and pays to the other; None for nothing.
            responder: None.

        Raises:
            ValueError: a responder: a best policy over views cannot be found backward, view by view.
        """
        if responder is not None:
            raise ValueError("best policies over views cannot be found by dynamic programming")
        graph = joint_view_graph(self.game)
        found = graph.view_values(graph.evaluate(policy, costs), self._visits(policy))
        return GraphEvaluation(policy, found.action_values, found.values)

    def occupancy(self, policy: Float64Array) -> Float64Array:
        """Return float64[V]: the probability that a game visits each view."""
        return joint_view_graph(self.game).sum_by_view(self._visits(policy))

    def results(self, policy: Float64Array, occupancy: Float64Array) -> tuple[float, float, float]:
        """Return the probabilities that player_0 wins, of a draw, and that player_1 wins."""
        return joint_view_graph(self.game).results(policy, self._visits(policy))

    def _visits(self, policy: Float64Array) -> Float64Array:
        """Return float64[N]: the visits of joint views, cached for the last policy."""
        if self._last is None or self._last[0] is not policy:
            self._last = policy, joint_view_graph(self.game).occupancy(policy)
        return self._last[1]


def check_listed(game: Game, empty: int | None = None) -> None:
    """Raise MemoryError if a game has too many joint views to list, from a start with so many empty cells."""
    if game.cells > MAX_CELLS_BASE_5 or (game.cells if empty is None else empty) > MAX_EMPTY:
        raise MemoryError(
            f"{game} has too many joint views to list: choose a board or a start with up to {MAX_EMPTY} empty "
            f"cells, such as 3x3 or 2x4"
        )


@lru_cache(CACHED_GRAPHS)
def joint_view_graph(game: Game) -> JointViewGraph:
    """Return the graph of all games from an empty board; the last ones are kept.

    Raises:
        ValueError, MemoryError: as :class:`JointViewGraph`.
    """
    return JointViewGraph(game)


class _Attempts(NamedTuple):
    edges: Edges
    following: JointViews


def _attempts(game: Game, layer: JointViews, stop: int) -> _Attempts:
    """Return the attempts of a layer, and the next layer, whose first joint view has the number ``stop``."""
    rows, cell = np.nonzero(layer.views().cells == 0)
    cells, found, mover = layer.take(rows)
    before, stones = mover.copy(), np.count_nonzero(cells, axis=1)
    outcome = np.empty(len(rows), np.int8)
    # the skip drawn here is ignored: both turns are followed
    no_key = np.zeros(len(rows), np.uint64)
    attempt_rows(cells, found, mover, stones, no_key, cell, game.hidden == "abrupt", game.visible.parameters, outcome)
    edges = Edges(
        np.full(layer.cells.shape, KNOWN, np.int8),
        np.zeros(layer.cells.shape, np.int8),
        np.full(layer.cells.shape, -1, np.int32),
        np.full(layer.cells.shape, -1, np.int32),
    )
    placed, tried = outcome == NOT_OVER, outcome == FOUND
    edges.kind[rows, cell] = np.where(placed, PLACED, np.where(tried, TRIED, FINAL))
    winner = np.where(outcome == before, 1, np.where(outcome == DRAW, 0, -1))
    edges.result[rows, cell] = np.where(placed | tried, 0, winner)
    mover[placed] = 1 - before[placed]
    goes_on = placed | tried
    next_keys = JointViews(cells[goes_on], found[goes_on], mover[goes_on]).keys()
    skipped = placed if game.skip_chance > 0 else np.zeros_like(placed)
    again_keys = JointViews(cells[skipped], found[skipped], before[skipped]).keys()
    distinct, number = np.unique(np.concatenate([next_keys, again_keys]), return_inverse=True)
    numbers: Int32Array = (stop + number.reshape(-1)).astype(np.int32)
    edges.following[rows[goes_on], cell[goes_on]] = numbers[: len(next_keys)]
    edges.again[rows[skipped], cell[skipped]] = numbers[len(next_keys) :]
    return _Attempts(edges, JointViews.from_keys(distinct, game))


@compiled_at_once
def _back_up(
    edges: Edges,
    mover: Int8Array,
    view: Int64Array,
    policy: Float64Array,
    costs: Float64Array,
    skip: float,
    values: Float64Array,
    action_values: Float64Array,
) -> None:
    """Write the values of all joint views, the last first, because each leads to later ones only."""
    kind, result, following, again = edges
    for s in range(len(mover) - 1, -1, -1):
        total = 0.0
        for cell in range(kind.shape[1]):
            if kind[s, cell] == KNOWN:
                continue
            if kind[s, cell] == FINAL:
                value = 1.0 * result[s, cell]
            else:
                after = following[s, cell]
                value = values[after] if mover[after] == mover[s] else -values[after]
                if again[s, cell] >= 0:
                    value = (1.0 - skip) * value + skip * values[again[s, cell]]
            if len(costs) > 0:
                value -= costs[view[s], cell]
            action_values[s, cell] = value
            total += policy[view[s], cell] * value
        values[s] = total


@compiled_at_once
def _pass_on(edges: Edges, view: Int64Array, policy: Float64Array, skip: float, visits: Float64Array) -> None:
    """Write the visits of all joint views from those of the first."""
    kind, _, following, again = edges
    for s in range(len(view)):
        if visits[s] == 0.0:
            continue
        for cell in range(kind.shape[1]):
            if kind[s, cell] == PLACED or kind[s, cell] == TRIED:
                mass = visits[s] * policy[view[s], cell]
                if again[s, cell] >= 0:
                    visits[again[s, cell]] += skip * mass
                    mass *= 1.0 - skip
                visits[following[s, cell]] += mass


@compiled_at_once
def _add_results(
    edges: Edges, mover: Int8Array, view: Int64Array, policy: Float64Array, visits: Float64Array, found: Float64Array
) -> None:
    """Add the probabilities of player_0's results -1, 0 and 1 to float64[3, blocks]."""
    kind, result, _, _ = edges
    for s in range(len(view)):
        if visits[s] == 0.0:
            continue
        for cell in range(kind.shape[1]):
            if kind[s, cell] == FINAL:
                signed = result[s, cell] if mover[s] == 0 else -result[s, cell]
                found[1 + signed, s // BLOCK] += visits[s] * policy[view[s], cell]


@compiled_at_once
def _add_by_view(view: Int64Array, weights: Float64Array, numbers: Float64Array, out: Float64Array) -> None:
    """Add weighted rows of float64[N, cells] to the rows of their views, float64[V, cells]."""
    for s in range(len(view)):
        for cell in range(out.shape[1]):
            out[view[s], cell] += weights[s] * numbers[s, cell]
