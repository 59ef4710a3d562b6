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
from typing import Any, NamedTuple

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
from ttt_envs.core.work import QUERY_SIZE
from ttt_envs.game.bits import count_bits
from ttt_envs.game.boards import Boards, distinct_boards, to_text
from ttt_envs.game.game import Game
from ttt_envs.game.lines import completing_bits
from ttt_envs.game.parameters import Parameters, line_sign
from ttt_envs.game.phantom import KINDS, AnyGame, PhantomGame, visible
from ttt_envs.game.rules import legal_bits
from ttt_envs.game.symmetry import inverse, symmetries

LINE, FULL = -1, -2
"""Children of moves that end the game."""
STONE, AGAIN, OVER = 0, 64, 128
"""Added to the cell of an action: it puts a stone; it finds one, and the mover goes on; it finds
one, and does not.
"""
OFF_POLICY, ON_POLICY = 1, 2
"""Marks of nodes: reached only after a move that the policies never make; reached by the policies.
"""
MAX_CELLS, MAX_PHANTOM_CELLS = 31, 9
"""Maximum numbers of cells: both players' stones are parts of one key of 64 bits; with hidden ones,
ten cells lead to millions of boards."""
KEPT_BYTES = 1 << 29
"""Size of the edges of a traversal in bytes beyond which those of further nodes are dropped, and
made again.
"""
NO_EDGES = (np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros(0, np.uint8), np.zeros(0))
TOLERANCE = 1e-6
"""Maximum difference of a sum of probabilities from 1."""

Players = tuple[Policy | None, Policy | None]
"""Players by seat; None for a best responder, who may make any move. Two best responders play
perfectly.
"""


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
        masked: whether a probability of an illegal move is refused; else games end by it.
        query_size: maximum number of positions per query of a policy; no result depends on it.

    Attributes:
        layers: those of a walk that keeps them.

    Raises:
        ValueError: ``query_size`` is not positive.
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
        masked: bool = True,
        query_size: int = QUERY_SIZE,
    ) -> None:
        check_cells(game)
        check_range(
            "chunk", query_size, 1, problem="leaves nothing to ask", hint=" positions at once"
        )
        self.game, self.players, self.complete, self.query_size = (
            game,
            players,
            complete,
            query_size,
        )
        self.starts, self.roles, self.masked = starts, roles, masked
        self.layers: list[Layer] = []
        self.kind = 1 + KINDS.index(game.kind) if isinstance(game, PhantomGame) else 0
        self.shift = 21 if self.kind else 32
        self.parameters = visible(game).parameters
        if merge is None:
            merge = self.kind == 0 and all(
                player.symmetric for player in players if player is not None
            )
        self.merge = merge
        self.stones = np.int64(1) << inverse(symmetries(game, "all" if merge else "none")).T.copy()

    def walk(self, *, keep: bool = False) -> Iterator[tuple[Layer, Layer, Nodes]]:
        """Yield nodes with their edges in order, with their layer and the next one.

        Args:
            keep: whether to keep the layers and their nodes, the edges up to ``KEPT_BYTES``.

        Raises:
            ValueError: a policy that does not play by the rules.
        """
        num_bytes, layer = 0, Layer(0)
        layer.rows(np.zeros((1, 1), np.uint64))
        layer.reach[0, list(self.starts)] = ON_POLICY
        while layer.index.size:
            following = Layer(layer.depth + 1)
            if keep:
                self.layers.append(layer)
            for mover in (0, 1):
                rows = layer.reach[: layer.index.size, mover].nonzero()[0].astype(np.int32)
                for start in range(0, len(rows), self.query_size):
                    nodes = self._expand(
                        layer, following, mover, rows[start : start + self.query_size]
                    )
                    yield layer, following, nodes
                    if keep:
                        num_bytes += sum(array.nbytes for array in nodes[1:])
                        layer.nodes.append(
                            nodes
                            if num_bytes <= KEPT_BYTES
                            else Nodes(mover, nodes.rows, *NO_EDGES)
                        )
            layer.pack()
            layer = following

    def with_edges(self, layer: Layer, following: Layer, nodes: Nodes) -> Nodes:
        """Return nodes with their edges, made again if they were dropped."""
        has_edges = len(nodes.ends) == len(nodes.rows)
        return nodes if has_edges else self._expand(layer, following, nodes.mover, nodes.rows)

    def boards(self, layer: Layer, nodes: Nodes) -> Boards:
        """Return the positions as the policy sees them: in a phantom game the mover's views."""
        boards = Boards(
            np.empty((len(nodes.rows), self.game.cells), np.int8),
            np.empty(len(nodes.rows), np.int8),
        )
        keys = layer.index.keys[nodes.rows, 0]
        _write_boards(
            keys,
            nodes.mover,
            self.shift,
            self.kind > 0,
            self.roles,
            self.game.skip_chance > 0,
            *boards,
        )
        return boards

    def _expand(self, layer: Layer, following: Layer, mover: int, rows: Int32Array) -> Nodes:
        """Ask the mover about nodes; number the boards after their moves, and mark the nodes that
        these lead to.
        """
        game, policy = self.game, self.players[mover]
        width = game.columns if game.gravity else game.cells
        limit = len(rows) * (width if self.kind else min(width, game.cells - layer.depth))
        ends, child, action = (
            np.empty(len(rows), np.int32),
            np.empty(limit, np.int32),
            np.empty(limit, np.uint8),
        )
        nodes = Nodes(mover, rows, ends, child, action, np.empty(0 if policy is None else limit))
        p, boards = np.empty((0, game.cells)), None
        if policy is not None:
            boards = self.boards(layer, nodes)
            p = self._query(policy, boards)
        marks, keys = layer.reach[rows, mover], np.empty((limit, 1), np.uint64)
        follow = (marks == ON_POLICY) & self.complete[mover]
        images = np.zeros(self.stones.shape[1], np.int64)
        arrays = (
            layer.index.keys[rows, 0],
            p,
            follow,
            self.masked,
            self.kind,
            self.shift,
            self.parameters,
        )
        num_edges, num_keys = _write_edges(*arrays, self.stones, images, nodes, keys)
        if num_edges < 0:
            assert boards is not None
            row = -1 - num_edges
            raise Refusal(
                f"{policy} gave no distribution over legal moves in "
                f"{to_text(boards.position(row), visible(game))!r}: "
                f"{np.array2string(p[row], precision=4)} must be 0 on occupied cells, nowhere "
                "negative, and sum to 1"
            )
        edges: list[Any] = [array[:num_edges].copy() for array in nodes[3:]]
        nodes = Nodes(mover, rows, nodes.ends, *edges)
        numbers = following.rows(keys[:num_keys])  # before `reach`, which it may replace
        _link(nodes, numbers, marks, game.skip_chance, following.reach)
        return nodes

    def _query(self, policy: Policy, boards: Boards) -> Float64Array:
        """Return a policy's probabilities; views, which several nodes share, are asked about
        once.
        """
        if self.kind == 0:
            return query_policy(policy, boards)
        views, view = distinct_boards(boards)
        return query_policy(policy, views)[view]


def check_cells(game: AnyGame) -> None:
    """Raise MemoryError if a board has too many cells for exact results."""
    limit = MAX_CELLS if isinstance(game, Game) else MAX_PHANTOM_CELLS
    if game.cells > limit:
        raise MemoryError(
            f"{game} has {game.cells} cells, too many for exact results: choose a board of up to "
            f"{limit}, or sample "
            f"results with evaluate.py match"
        )


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
    return Boards(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))


def query_policy(policy: Policy, boards: Boards) -> Float64Array:
    """Return the probabilities of a policy, float64[B, cells].

    Raises:
        ValueError: it gave another shape.
    """
    answer = np.ascontiguousarray(policy.probabilities(boards), np.float64)
    if answer.shape != boards.cells.shape:
        raise Refusal(
            f"{policy} gave probabilities of shape {list(answer.shape)} for {len(boards.mover)} "
            "positions: "
            f"they must be {list(boards.cells.shape)}, one for each cell"
        )
    return answer


# --------------------------------------------------------------------------------------------------
# Kernels


@inlined
def stay_chance(action: int, skip: float) -> float:
    """Return the chance that the mover goes on after a move."""
    return skip if action < AGAIN else 1.0 if action < OVER else 0.0


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
    ones = (int64(1) << shift) - 1
    for b in range(len(keys)):
        key = int64(keys[b])
        first, second = key & ones, key >> shift & ones
        if views:
            revealed = key >> (2 * shift)
            first, second = (first, second & revealed) if mover == 0 else (first & revealed, second)
        swapped = roles and (first == 0 if skips else count_bits(first) == count_bits(second))
        if swapped:
            first, second = second, first
        for cell in range(cells.shape[1]):
            cells[b, cell] = (first >> cell & 1) + 2 * (second >> cell & 1)
        movers[b] = 1 - mover if swapped else mover


@inlined
def _sum_of_distribution(p: Float64Array, legal: int, masked: bool) -> float:
    """Return the sum of float64[cells], -1 unless they are probabilities, with ``masked`` of legal
    moves only.
    """
    total, sound = 0.0, True
    for cell in range(len(p)):
        total += p[cell]
        sound = sound and p[cell] >= 0 and (not masked or p[cell] == 0 or legal >> cell & 1 != 0)
    return total if sound and abs(total - 1.0) <= TOLERANCE else -1.0


@kernel(nogil=True)
def _write_edges(
    boards: UInt64Array,
    p: Float64Array,
    follow: BoolArray,
    masked: bool,
    kind: int,
    shift: int,
    parameters: Parameters,
    stones: Int64Array,
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
        masked: whether probabilities of illegal moves are refused.
        kind, shift: 0 for visible stones, 1 for a classic and 2 for an abrupt game; the first bit
            of player_1's stones.
        parameters: of the game with visible stones.
        stones: int64[cells, S]: a stone of each cell under each symmetry.
        images: int64[S], scratch.
        nodes, keys: written.

    Returns:
        The numbers of edges and keys; (-1 - b, 0) if row b of ``p`` is no distribution.
    """
    mover, _, ends, child, action, share = nodes
    cells, size, is_policy, made, num_keys = (
        len(stones),
        len(images),
        len(p) > 0,
        int64(0),
        int64(0),
    )
    ones, every = (int64(1) << shift) - 1, (int64(1) << cells) - 1
    for b in range(len(boards)):
        key = int64(boards[b])
        first, second, revealed = (
            key & ones,
            key >> shift & ones,
            key >> (2 * shift) if kind > 0 else int64(0),
        )
        own, other = (first, second) if mover == 0 else (second, first)
        legal = (
            legal_bits(first, second, parameters)
            if kind == 0
            else every & ~(own | other & revealed)
        )
        total = _sum_of_distribution(p[b], legal, masked) if is_policy else 1.0
        if total < 0:
            return -1 - b, int64(0)
        lines = completing_bits(own, parameters) & legal & ~other
        last = count_bits(first | second) == cells - 1
        for s in range(size):
            images[s] = key if s == 0 else 0
        if size > 1:
            for cell in range(cells):
                if (first | second) >> cell & 1:
                    at = shift * (second >> cell & 1)
                    for s in range(1, size):
                        images[s] |= stones[cell, s] << at
        wins = lines if not is_policy and not follow[b] and line_sign(parameters) > 0 else int64(0)
        moves = wins if wins != 0 else legal
        for cell in range(cells):
            chance = p[b, cell] if is_policy else 1.0
            if moves >> cell & 1 == 0 or not (chance > 0 or follow[b]):
                continue
            if is_policy:
                share[made] = chance / total
            action[made] = cell
            if lines >> cell & 1:
                child[made] = LINE
            elif other >> cell & 1:
                action[made] = cell + (AGAIN if kind == 1 else OVER)
                child[made] = 0
                keys[num_keys, 0] = key | (int64(1) << cell) << (2 * shift)
                num_keys += 1
            elif last:
                child[made] = FULL
            else:
                child[made] = 0
                least = images[0] | stones[cell, 0] << (shift * mover)
                for s in range(1, size):
                    image = images[s] | stones[cell, s] << (shift * mover)
                    least = image if image < least else least
                keys[num_keys, 0] = least
                num_keys += 1
            made += 1
        ends[b] = made
    return made, num_keys


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
    k, i = int64(0), int64(0)
    for b in range(len(ends)):
        while k < ends[b]:
            if child[k] == 0:
                at = numbers[i]
                child[k] = at
                i += 1
                mark = marks[b] if len(share) == 0 or share[k] > 0 else OFF_POLICY
                stay = stay_chance(action[k], skip)
                if stay < 1 and reach[at, 1 - mover] < mark:
                    reach[at, 1 - mover] = mark
                if stay > 0 and reach[at, mover] < mark:
                    reach[at, mover] = mark
            k += 1
