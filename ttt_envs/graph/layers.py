"""Positions and moves that two players reach, in layers by the number of stones; the policies are
asked on the way.

A *board* is a pair of bit sets, and in a phantom game the set of stones that have been found too; a
*node* is a board with a player to move. Layer n has the boards after n stones, in a phantom game
after n attempts. An edge is a move: to a line, to a full board, or to a board of the next layer,
where the mover goes on with a chance that depends on the move alone: the skip chance after a stone;
after a found stone 1 in a classic game, and 0 in an abrupt one. So both kinds of games have the
same edges.

Boards are numbered in the order of discovery, which does not depend on the number of positions per
query: so all sums are identical. If both policies are symmetric, one board stands for its symmetry
class: probability and value are equal within a class, and a best responder may play symmetric moves
in symmetric positions.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ttt_envs.agents.policy import Policy
from ttt_envs.core.checks import Refusal, check_range
from ttt_envs.core.hash_index import KeyIndex, extend_rows
from ttt_envs.core.jit import (
    BoolArray,
    Float64Array,
    Int8Array,
    Int32Array,
    Int64Array,
    UInt8Array,
    UInt64Array,
    inlined,
    int64,
    kernel,
)
from ttt_envs.core.records import chunks, concatenate
from ttt_envs.core.work import DEFAULT_WORK, Work
from ttt_envs.game.bits import all_bits, count_bits
from ttt_envs.game.boards import Boards, distinct_boards, to_text
from ttt_envs.game.game import Game
from ttt_envs.game.lines import completing_bits
from ttt_envs.game.parameters import Parameters, line_sign
from ttt_envs.game.phantom import KINDS, AnyGame, PhantomGame, visible
from ttt_envs.game.rules import legal_bits
from ttt_envs.game.symmetry import inverse, symmetries
from ttt_envs.graph.estimate import KEPT_BYTES, Monitor, check_traversable

LINE, FULL = -1, -2
"""Children of moves that end the game."""
STONE, AGAIN, OVER = 0, 64, 128
"""Added to the cell of an action: it puts a stone; it finds one, and the mover goes on; it finds
one, and does not.
"""
OFF_POLICY, ON_POLICY = 1, 2
"""Marks of nodes: reached only after a move that the policies never make; reached by the policies.
"""
TOLERANCE = 1e-6
"""Maximum difference of a sum of probabilities from 1."""

Players = tuple[Policy | None, Policy | None]
"""Players by seat; None for a best responder, who may make any move. Two best responders play
perfectly.
"""


class EdgeRules(NamedTuple):
    """What the edges of all nodes of a traversal follow."""

    parameters: Parameters
    """of the game with visible stones"""
    kind: int
    """0 for visible stones, 1 for a classic and 2 for an abrupt phantom game"""
    shift: int
    """first bit of player_1's stones in the key of a board"""
    masked: bool
    """whether probabilities of illegal moves are refused"""
    stones: Int64Array
    """int64[cells, S]: a stone of each cell under each symmetry"""


@lru_cache(maxsize=16)
def edge_rules(game: AnyGame, merge: bool, masked: bool) -> EdgeRules:
    """Return the rules of edges in a game.

    Args:
        game: the game.
        merge: whether a board stands for its symmetry class.
        masked: whether probabilities of illegal moves are refused.
    """
    images = symmetries(game, "all" if merge else "none")
    stones = np.int64(1) << inverse(images).T.copy()
    stones.flags.writeable = False
    kind = 1 + KINDS.index(game.kind) if isinstance(game, PhantomGame) else 0
    return EdgeRules(visible(game).parameters, kind, 21 if kind else 32, masked, stones)


class Nodes(NamedTuple):
    """B nodes of a layer with the same player to move, and their K edges."""

    mover: int
    rows: Int32Array
    """int32[B]: boards of the layer"""
    ends: Int32Array
    """int32[B]: end of each node's edges; empty if they are dropped"""
    child: Int32Array
    """int32[K]: board of the next layer, ``LINE`` or ``FULL``"""
    action: UInt8Array
    """uint8[K]: cell of the move, plus ``STONE``, ``AGAIN`` or ``OVER``"""
    share: Float64Array
    """float64[K]: probability of the move; empty for a best responder"""

    @property
    def num_bytes(self) -> int:
        """Size of the arrays in bytes."""
        edges = self.child.nbytes + self.action.nbytes + self.share.nbytes
        return self.rows.nbytes + self.ends.nbytes + edges

    @property
    def has_edges(self) -> bool:
        """Whether the edges were not dropped."""
        return len(self.ends) == len(self.rows)

    def without_edges(self) -> Nodes:
        """Return the nodes alone."""
        no_ends = np.zeros(0, np.int32)
        no_actions = np.zeros(0, np.uint8)
        return Nodes(self.mover, self.rows, no_ends, no_ends, no_actions, np.zeros(0))

    @property
    def places(self) -> tuple[Int64Array, Int64Array]:
        """Row of the node and cell of each edge, int64[K] each."""
        row = np.repeat(np.arange(len(self.rows)), np.diff(self.ends, prepend=0))
        return row, (self.action & 63).astype(np.int64)

    def probabilities(self, cells: int) -> Float64Array:
        """Return the policy's probabilities, float64[B, cells]."""
        p = np.zeros((len(self.rows), cells))
        p[self.places] = self.share
        return p


class Layer:
    """The boards that are reached after the same number of attempts.

    Attributes:
        depth: number of attempts: in a game with visible stones the number of stones.
        index: the boards by their keys.
        reach: int8[capacity, 2]: marks of the nodes, by the player to move; 0 if not reached.
        nodes: the nodes, in order.
        mass: float64[capacity, 2]: probability of each node, written by the forward pass.
    """

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self.index = KeyIndex(1)
        self.reach: Int8Array = np.zeros((0, 2), np.int8)
        self.nodes: list[Nodes] = []
        self.mass: Float64Array = np.zeros((0, 2))

    def rows(self, keys: UInt64Array) -> Int64Array:
        """Return int64[B]: the boards with keys uint64[B, 1], adding unknown ones."""
        rows = self.index.rows(keys)
        if len(self.reach) < len(self.index.keys):
            self.reach = extend_rows(self.reach, len(self.index.keys))
        return rows

    def pack(self) -> None:
        """Free the memory that only more boards need."""
        self.index.pack()
        self.reach = self.reach[: self.index.size].copy()


class Traversal:
    """All nodes that two players reach.

    Args:
        game: the game.
        players: the players. Against a colour-blind policy of player_1 a responder may serve both
            seats, see ``roles``.
        complete: whether all legal moves are followed where the policies come, by seat: of a policy
            also those of probability 0, of a best responder also those beside a win.
        merge: whether a board stands for its symmetry class; by default if all policies are
            symmetric.
        roles: whether stones belong to the responder, player_0 here, and to a colour-blind policy,
            player_1 here.
        starts: possible first movers; with ``roles`` both, to serve both seats at once.
        openings: unfinished positions with equally many stones in a game with visible ones, in
            the place of the empty board and ``starts``. Symmetry classes are not merged.
        masked: whether a probability of an illegal move is refused; else games end by it. A row of
            zeros then is an illegal move, too.
        work: its positions per query of a policy, memory and progress, see :class:`Work`; no result
            depends on it.
        passes: number of passes over the layers, of which each is an equal part of the progress.
        row_bytes: bytes that the caller keeps of each board, where layers are kept.

    Attributes:
        layers: those of a walk that keeps them.
        monitor: of memory and progress.
        skip: the skip chance.

    Raises:
        ValueError: ``work.chunk`` is not positive.
        MemoryError: a board of too many cells.
    """

    def __init__(
        self,
        game: AnyGame,
        players: Players,
        *,
        complete: tuple[bool, bool] = (False, False),
        merge: bool | None = None,
        roles: bool = False,
        starts: tuple[int, ...] = (0,),
        openings: Boards | None = None,
        masked: bool = True,
        work: Work = DEFAULT_WORK,
        passes: int = 1,
        row_bytes: float = 0.0,
    ) -> None:
        check_traversable(game)
        check_range(
            "chunk", work.chunk, 1, problem="leaves nothing to ask", hint=" positions at once"
        )
        self.game = game
        self.players = players
        self.complete = complete
        self.starts = starts
        self.openings = openings
        self.roles = roles
        self.skip = game.skip_chance
        if merge is None:
            merge = (
                openings is None
                and isinstance(game, Game)
                and all(player.symmetric for player in players if player is not None)
            )
        self.merge = merge
        self.rules = edge_rules(game, merge, masked)
        self.layers: list[Layer] = []
        self.monitor = Monitor(game, work, passes, row_bytes)
        self._query_size = work.chunk
        self._misere = visible(game).misere

    def line_winner(self, mover: int) -> int:
        """Return the player who wins by a line of the mover."""
        return 1 - mover if self._misere else mover

    def make_layers(self) -> None:
        """Walk all layers and keep them, for backward passes."""
        for _ in self.walk(keep=True):
            pass

    def walk(self, *, keep: bool = False) -> Iterator[tuple[Layer, Layer, Nodes]]:
        """Yield nodes with their edges in order, with their layer and the next one.

        Args:
            keep: whether to keep the layers and their nodes, the edges up to ``KEPT_BYTES``.

        Raises:
            ValueError: a policy that does not play by the rules; openings with unequally many
                stones.
            MemoryError: the layers will not fit into memory.
        """
        num_bytes = 0
        cells, movers = self.openings or Boards.start(self.game)
        stones = np.count_nonzero(cells, axis=1)
        if np.ptp(stones):
            raise Refusal("openings must have equally many stones")
        layer = Layer(int(stones[0]))
        numbers = layer.rows(to_keys(cells)[:, None])
        layer.reach[numbers, movers if self.openings else self.starts] = ON_POLICY
        sizes = [1] * layer.depth
        while layer.index.size:
            sizes.append(layer.index.size)
            self.monitor.check_memory(sizes, keep=keep)
            next_layer = Layer(layer.depth + 1)
            if keep:
                self.layers.append(layer)
            for mover, rows in self._queries(layer):
                nodes = self._expand(layer, next_layer, mover, rows)
                yield layer, next_layer, nodes
                self.monitor.report(layer.depth)
                if keep:
                    num_bytes += nodes.num_bytes
                    layer.nodes.append(nodes if num_bytes <= KEPT_BYTES else nodes.without_edges())
            layer.pack()
            layer = next_layer
        self.monitor.end_pass()

    def walk_back(self) -> Iterator[tuple[Layer, Layer, Nodes]]:
        """Yield kept nodes with their edges from the last to the first, with their layer and the
        next one.
        """
        next_layer = Layer(len(self.layers))
        for layer in reversed(self.layers):
            for nodes in reversed(layer.nodes):
                yield layer, next_layer, self.with_edges(layer, next_layer, nodes)
                self.monitor.report(layer.depth, backward=True)
            next_layer.pack()
            next_layer = layer
        self.monitor.end_pass()

    def with_edges(self, layer: Layer, next_layer: Layer, nodes: Nodes) -> Nodes:
        """Return nodes with their edges, made again if they were dropped."""
        if nodes.has_edges:
            return nodes
        return self._expand(layer, next_layer, nodes.mover, nodes.rows)

    def boards(self, layer: Layer, nodes: Nodes) -> Boards:
        """Return the positions as the policy sees them: in a phantom game the mover's views."""
        count = len(nodes.rows)
        boards = Boards(np.empty((count, self.game.cells), np.int8), np.empty(count, np.int8))
        keys = layer.index.keys[nodes.rows, 0]
        _write_boards(
            keys,
            nodes.mover,
            self.rules.shift,
            self.rules.kind > 0,
            self.roles,
            self.skip > 0,
            *boards,
        )
        return boards

    def _queries(self, layer: Layer) -> Iterator[tuple[int, Int32Array]]:
        """Yield the movers and rows of the nodes of a layer, up to ``work.chunk`` at a time."""
        for mover in (0, 1):
            rows = layer.reach[: layer.index.size, mover].nonzero()[0].astype(np.int32)
            for part in chunks(rows, self._query_size):
                yield mover, part

    def _expand(self, layer: Layer, next_layer: Layer, mover: int, rows: Int32Array) -> Nodes:
        """Ask the mover about nodes; number the boards after their moves, and mark the nodes that
        these lead to.
        """
        policy = self.players[mover]
        size = len(rows) * self._max_moves(layer.depth)
        nodes = Nodes(
            mover,
            rows,
            np.empty(len(rows), np.int32),
            np.empty(size, np.int32),
            np.empty(size, np.uint8),
            np.empty(0 if policy is None else size),
        )
        p = np.empty((0, self.game.cells))
        if policy is not None:
            p = self._query(policy, self.boards(layer, nodes))
        marks = layer.reach[rows, mover]
        keys = np.empty((size, 1), np.uint64)
        follow = (marks == ON_POLICY) & self.complete[mover]
        images = np.zeros(self.rules.stones.shape[1], np.int64)
        num_edges, num_keys = _write_edges(
            layer.index.keys[rows, 0], p, follow, self.rules, images, nodes, keys
        )
        if num_edges < 0:
            raise _no_distribution(policy, self.game, self.boards(layer, nodes), p, -1 - num_edges)
        nodes = nodes._replace(
            child=nodes.child[:num_edges].copy(),
            action=nodes.action[:num_edges].copy(),
            share=nodes.share[:num_edges].copy(),
        )
        numbers = next_layer.rows(keys[:num_keys])  # before `reach`, which it may replace
        _link(nodes, numbers, marks, self.skip, next_layer.reach)
        return nodes

    def _max_moves(self, depth: int) -> int:
        """Return the maximum number of moves of a node in the layer ``depth``."""
        width = self.game.columns if self.game.gravity else self.game.cells
        return width if self.rules.kind else min(width, self.game.cells - depth)

    def _query(self, policy: Policy, boards: Boards) -> Float64Array:
        """Return a policy's probabilities; views, which several nodes share, are asked about
        once.
        """
        if self.rules.kind == 0:
            return query_policy(policy, boards)
        views, view = distinct_boards(boards)
        return query_policy(policy, views)[view]


def to_keys(cells: Int8Array) -> UInt64Array:
    """Return the keys uint64[B] of boards int8[B, cells] with visible stones."""
    bits = np.uint64(1) << np.arange(cells.shape[1], dtype=np.uint64)
    return np.asarray((cells == 1) @ bits | ((cells == 2) @ bits) << np.uint64(32))


def all_positions(game: AnyGame) -> Boards:
    """Return all positions that are not over and that games can reach, in the order of stones.

    Raises:
        MemoryError: a board of too many cells.
    """
    traversal = Traversal(game, (None, None), complete=(True, True), merge=False)
    parts = [traversal.boards(layer, nodes) for layer, _, nodes in traversal.walk()]
    return concatenate(parts)


def _no_distribution(
    policy: object, game: AnyGame, boards: Boards, p: Float64Array, row: int
) -> Refusal:
    return Refusal(
        f"{policy} gave no distribution over legal moves in "
        f"{to_text(boards.position(row), visible(game))!r}: "
        f"{np.array2string(p[row], precision=4)} must be 0 on occupied cells, nowhere negative, "
        "and sum to 1"
    )


def check_distributions(policy: object, game: Game, boards: Boards, p: Float64Array) -> None:
    """Raise ValueError unless the answers float64[B, cells] of a policy are distributions over
    legal moves; the message names the first position in which one is not.
    """
    total = np.where((p == 0) | ((p > 0) & boards.legal(game)), p, np.nan).sum(axis=1)
    for row in np.flatnonzero(~(abs(total - 1) <= TOLERANCE))[:1]:
        raise _no_distribution(policy, game, boards, p, int(row))


def query_policy(policy: Policy, boards: Boards, *rng: np.random.Generator | None) -> Float64Array:
    """Return the probabilities of a policy, float64[B, cells]; one that is not pure needs a
    generator.

    Raises:
        ValueError: it gave another shape.
    """
    answer = np.ascontiguousarray(policy.probabilities(boards, *rng), np.float64)
    if answer.shape != boards.cells.shape:
        raise Refusal(
            f"{policy} gave probabilities of shape {list(answer.shape)} for {len(boards.mover)} "
            f"positions: they must be {list(boards.cells.shape)}, one for each cell"
        )
    return answer


# --------------------------------------------------------------------------------------------------
# Kernels


@inlined
def stay_chance(action: int, skip: float) -> float:
    """Return the chance that the mover goes on after a move."""
    if action < AGAIN:
        return skip
    return 1.0 if action < OVER else 0.0


@kernel(nogil=True)
def _write_boards(
    keys: UInt64Array,
    mover: int,
    shift: int,
    views: bool,
    roles: bool,
    skips: bool,
    cells: Int8Array,
    movers: Int8Array,
) -> None:
    """Write positions into int8[B, cells] and int8[B], with ``views`` without the stones that the
    mover does not know.

    By roles, the policy is player_1 wherever games can reach the position so, and else player_0.
    """
    ones = all_bits(shift)
    for b in range(len(keys)):
        key = int64(keys[b])
        first = key & ones
        second = key >> shift & ones
        if views:
            revealed = key >> (2 * shift)
            if mover == 0:
                second &= revealed
            else:
                first &= revealed
        has_roles_swapped = roles and (
            first == 0 if skips else count_bits(first) == count_bits(second)
        )
        if has_roles_swapped:
            first, second = second, first
        for cell in range(cells.shape[1]):
            cells[b, cell] = (first >> cell & 1) + 2 * (second >> cell & 1)
        movers[b] = 1 - mover if has_roles_swapped else mover


@inlined
def _sum_of_distribution(p: Float64Array, legal: int, masked: bool) -> float:
    """Return the sum of float64[cells], -1 unless they are probabilities, with ``masked`` of legal
    moves only; without, zeros are an illegal move of probability 1.
    """
    total = 0.0
    is_valid = True
    for cell in range(len(p)):
        total += p[cell]
        is_playable = not masked or p[cell] == 0 or legal >> cell & 1 != 0
        is_valid = is_valid and p[cell] >= 0 and is_playable
    if not masked and total == 0.0:
        total = 1.0
    return total if is_valid and abs(total - 1.0) <= TOLERANCE else -1.0


@inlined
def _legal_moves(first: int, second: int, view: int, rules: EdgeRules) -> int:
    """Return the moves that the rules allow, as bits; ``view`` has the stones that the mover of a
    phantom game knows.
    """
    if rules.kind == 0:
        return legal_bits(first, second, rules.parameters)
    return ((int64(1) << len(rules.stones)) - 1) & ~view


@inlined
def _write_images(key: int, first: int, second: int, rules: EdgeRules, images: Int64Array) -> None:
    """Write the keys of a board under all symmetries into ``images`` int64[S]."""
    images[:] = 0
    images[0] = key
    if len(images) == 1:
        return
    for cell in range(len(rules.stones)):
        if (first | second) >> cell & 1:
            offset = rules.shift * (second >> cell & 1)
            for s in range(1, len(images)):
                images[s] |= rules.stones[cell, s] << offset


@inlined
def _smallest_key(images: Int64Array, stone: Int64Array, offset: int) -> int:
    """Return the key of the class of a board with one more stone, given it under all symmetries."""
    smallest = images[0] | stone[0] << offset
    for s in range(1, len(images)):
        smallest = min(smallest, images[s] | stone[s] << offset)
    return int64(smallest)


@kernel(nogil=True)
def _write_edges(
    boards: UInt64Array,
    p: Float64Array,
    follow: BoolArray,
    rules: EdgeRules,
    images: Int64Array,
    nodes: Nodes,
    keys: UInt64Array,
) -> tuple[int, int]:
    """Write the edges of nodes, and ``keys`` uint64[K, 1] of the boards that they lead to;
    ``child`` is 0 for these.

    Args:
        boards: uint64[B]: keys of the boards.
        p: float64[B, cells]: the policy; empty for a best responder.
        follow: bool[B]: whether all legal moves are edges.
        rules: of the traversal.
        images: int64[S], scratch.
        nodes, keys: written.

    Returns:
        The numbers of edges and keys; (-1 - b, 0) if row b of ``p`` is no distribution.
    """
    mover, _, ends, child, action, share = nodes
    shift = rules.shift
    ones = all_bits(shift)
    is_policy = len(p) > 0
    takes_wins = not is_policy and line_sign(rules.parameters) > 0
    num_edges = 0
    num_keys = 0
    for b in range(len(boards)):
        key = int64(boards[b])
        first = key & ones
        second = key >> shift & ones
        own = first if mover == 0 else second
        other = second if mover == 0 else first
        revealed = key >> (2 * shift) if rules.kind > 0 else int64(0)
        legal = _legal_moves(first, second, own | other & revealed, rules)
        total = _sum_of_distribution(p[b], legal, rules.masked) if is_policy else 1.0
        if total < 0:
            return -1 - b, int64(0)
        _write_images(key, first, second, rules, images)
        is_last = count_bits(first | second) == len(rules.stones) - 1
        lines = completing_bits(own, rules.parameters) & legal & ~other
        moves = lines if takes_wins and not follow[b] and lines != 0 else legal
        for cell in range(len(rules.stones)):
            chance = p[b, cell] if is_policy else 1.0
            if moves >> cell & 1 == 0 or not (chance > 0 or follow[b]):
                continue
            if is_policy:
                share[num_edges] = chance / total
            action[num_edges] = cell
            child[num_edges] = 0
            if lines >> cell & 1:
                child[num_edges] = LINE
            elif other >> cell & 1:
                action[num_edges] = cell + (AGAIN if rules.kind == 1 else OVER)
                keys[num_keys, 0] = key | (int64(1) << cell) << (2 * shift)
                num_keys += 1
            elif is_last:
                child[num_edges] = FULL
            else:
                keys[num_keys, 0] = _smallest_key(images, rules.stones[cell], shift * mover)
                num_keys += 1
            num_edges += 1
        ends[b] = num_edges
    return num_edges, num_keys


@kernel(nogil=True)
def _link(
    nodes: Nodes, numbers: Int64Array, marks: Int8Array, skip: float, reach: Int8Array
) -> None:
    """Write the numbers of the boards that edges lead to, and mark the nodes that they reach.

    Args:
        nodes: with ``child`` 0 for boards of the next layer, in the order of ``numbers``.
        numbers: int64[K]: the boards.
        marks: int8[B], of the nodes.
        skip: the skip chance.
        reach: int8[size, 2], of the next layer, written.
    """
    mover, _, ends, child, action, share = nodes
    k = 0
    i = 0
    for b in range(len(ends)):
        while k < ends[b]:
            if child[k] == 0:
                row = numbers[i]
                child[k] = row
                i += 1
                mark = marks[b] if len(share) == 0 or share[k] > 0 else OFF_POLICY
                stay = stay_chance(action[k], skip)
                if stay < 1 and reach[row, 1 - mover] < mark:
                    reach[row, 1 - mover] = mark
                if stay > 0 and reach[row, mover] < mark:
                    reach[row, mover] = mark
            k += 1
