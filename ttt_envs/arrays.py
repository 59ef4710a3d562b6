"""A whole game as arrays: every position as its mover sees it, and what each action leads to.

A step is then one gather, in NumPy, JAX or torch and on any device; the arrays are also the
transition model that planners and courses ask for::

    arrays = game_arrays(Game(3, 3, 3, skip_chance=0.25))
    observation = arrays.observations[state]  # of all games of a batch
    reward = arrays.rewards[state, action]
    state = arrays.next[state, action, skipped]
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ttt_envs.agents.policy import Policy
from ttt_envs.core.checks import Refusal, TypeRefusal, check_choice
from ttt_envs.core.hash_index import KeyIndex, extend_rows
from ttt_envs.core.jit import (
    BoolArray,
    Float64Array,
    Int8Array,
    Int32Array,
    Int64Array,
    UInt64Array,
)
from ttt_envs.core.work import DEFAULT_WORK, Work
from ttt_envs.game.actions import num_actions, sum_by_action
from ttt_envs.game.boards import Boards
from ttt_envs.game.game import Game
from ttt_envs.game.parameters import line_sign
from ttt_envs.graph.layers import LINE, Traversal, query_policy, to_keys

__all__ = ["DecisionProcess", "GameArrays", "against", "game_arrays"]

RESULTS = np.array([1.0, 0.0, -1.0])
"""How a decision process ends, for the learner: final states in this order."""
ToyTable = dict[int, dict[int, list[tuple[float, int, float, bool]]]]
"""``P`` of Gymnasium's toy-text environments: ``P[state][action]`` lists (probability, next state,
reward, whether the game is over)"""


class GameArrays(NamedTuple):
    """All S positions of a game that are not over, and row S, *over*, with A actions.

    An action that ends the game leads to the row *over*, and every action of that row to row 0, the
    empty board or an opening: with one gather finished games begin again. An illegal action
    ends the game and loses, as in the environments. ``numpy.savez(path, **arrays._asdict())``
    writes a file, and ``GameArrays(**numpy.load(path))`` reads it.
    """

    observations: Int8Array
    """int8[S + 1, 2 * cells]: the mover's stones, then the other player's, the environments'
    observation ``"flat"``; zeros in the row *over*"""
    legal: BoolArray
    """bool[S + 1, A]; all true in the row *over*"""
    next: Int32Array
    """int32[S + 1, A, 2]: the next position, as its mover sees it: of the other player ([..., 0])
    with probability 1 - skip_chance, else of the mover, who has another turn ([..., 1]); without
    skips both are the other player's"""
    rewards: Int8Array
    """int8[S + 1, A], of the mover: 1 for a win, -1 for a loss, also by an illegal action"""
    layers: Int64Array
    """int64[cells + 1]: the first position with 0, 1, ... stones; the last is S"""
    over: int
    """S, the row *over*"""
    skip_chance: float
    """probability of another turn after a move that does not end the game"""

    def boards(self, seat: int) -> Boards:
        """Return the S positions, without the row *over*, with the player ``seat``, 0 or 1, to
        move.
        """
        own, other = np.split(self.observations[:-1], 2, axis=1)
        cells = (1 + seat) * own + (2 - seat) * other
        return Boards(cells, np.full(len(cells), seat, np.int8))

    def policy_table(self, policy: Policy, seat: int) -> Float64Array:
        """Return a pure policy's probabilities of actions, float64[S, A], as the player ``seat``.
        The row *over* has none: the table has the shape of ``legal[:-1]``.

        Raises:
            ValueError: it is not pure.
        """
        if not policy.pure:
            raise Refusal(f"{policy} is not pure: its moves are no function of the position")
        shares = query_policy(policy, self.boards(seat))
        return sum_by_action(shares, self.legal.shape[1])


def game_arrays(
    game: Game, work: Work = DEFAULT_WORK, openings: Boards | None = None
) -> GameArrays:
    """Return a game with visible stones as arrays, by any rules.

    Args:
        game: the game.
        work: maximum memory, and progress.
        openings: unfinished positions with equally many stones, with which games begin; by default
            the empty board. The first rows are theirs, one for each distinct one.

    Raises:
        ValueError: openings have unequally many stones.
        TypeError: a phantom game, in which a player does not see the position.
        MemoryError: a board of too many cells, or one whose arrays will not fit into memory,
            estimated from its first layers.
    """
    if not isinstance(game, Game):
        raise TypeRefusal(f"{game} has hidden stones: arrays show a position whole")
    width = num_actions(game)
    traversal = Traversal(
        game,
        (None, None),
        complete=(True, True),
        merge=False,
        openings=openings,
        work=work,
        row_bytes=64 * width,
    )
    index = KeyIndex(1)
    index.rows(to_keys((openings or Boards.start(game)).own_first())[:, None])
    parts: list[tuple[NDArray[Any], ...]] = []
    for layer, next_layer, nodes in traversal.walk():
        places, cells = nodes.places
        rows = index.rows(own_first_keys(layer.index.keys[nodes.rows], nodes.mover))
        goes_on = nodes.child >= 0
        next_keys = next_layer.index.keys[nodes.child[goes_on]]
        next_rows = np.full((len(goes_on), 2), -1, np.int32)
        other = 1 - nodes.mover
        movers = (other, nodes.mover if game.skip_chance else other)
        for turn, mover in enumerate(movers):
            next_rows[goes_on, turn] = index.rows(own_first_keys(next_keys, mover))
        wins = (nodes.child == LINE) * np.int8(line_sign(game.parameters))
        parts.append((rows[places], cells % width, wins, next_rows))
    over = index.size
    edge_rows, edge_actions, edge_wins, edge_next = map(np.concatenate, zip(*parts, strict=True))
    legal = np.zeros((over + 1, width), np.bool_)
    legal[edge_rows, edge_actions] = True
    legal[over] = True
    rewards = legal - np.int8(1)
    next_rows = np.full((*legal.shape, 2), over, np.int32)
    next_rows[over] = 0
    rewards[edge_rows, edge_actions] = edge_wins
    next_rows[edge_rows, edge_actions] = np.where(edge_next < 0, over, edge_next)
    octets = extend_rows(index.keys[:over], len(legal)).astype("<u8").view(np.uint8)
    bits = np.unpackbits(octets, bitorder="little").reshape(-1, 2, 32)[..., : game.cells]
    observations = bits.reshape(len(legal), -1).view(np.int8)
    layers = np.searchsorted(observations[:over].sum(1), np.arange(game.cells + 1))
    return GameArrays(observations, legal, next_rows, rewards, layers, over, game.skip_chance)


def own_first_keys(keys: UInt64Array, mover: int) -> UInt64Array:
    """Return the keys of boards, uint64[B, 1], in the mover's view."""
    return keys if mover == 0 else keys << np.uint64(32) | keys >> np.uint64(32)


# --------------------------------------------------------------------------------------------------
# Against a fixed opponent the game is a Markov decision process


class DecisionProcess(NamedTuple):
    """The positions in which the learner is to move, and six states more; A actions.

    The last six states are the ends of a game: three of games that were over before the learner's
    first move, by its win, a draw and its loss, from which every action leads to one of the last
    three, the same three results. These are final: every action stays there.
    """

    transitions: Sequence[Any]
    """A sparse matrices, ``scipy.sparse.csr_array`` float64[N, N]: row the state, column the next
    one; rows sum to 1"""
    rewards: Float64Array
    """float64[N, A]: expected reward of an action"""
    start: Float64Array
    """float64[N]: probability of each state at the beginning of a game"""
    rows: Int64Array
    """int64[N - 6]: the row of each position in the arrays of the game"""

    @property
    def final(self) -> int:
        """The first of the three final states."""
        return len(self.start) - 3

    def table(self) -> ToyTable:
        """Return the process as Gymnasium's toy-text environments have it in ``P``."""
        results = np.append(np.zeros(self.final), RESULTS)
        table: ToyTable = {state: {} for state in range(len(results))}
        for action, matrix in enumerate(self.transitions):
            next_states = matrix.indices
            rewards = results[next_states]
            rewards[matrix.indptr[self.final] :] = 0.0  # a final state stays itself
            columns = (matrix.data, next_states, rewards, next_states >= self.final)
            outcomes = list(zip(*(column.tolist() for column in columns), strict=True))
            for state, (begin, end) in enumerate(itertools.pairwise(matrix.indptr.tolist())):
                table[state][action] = outcomes[begin:end]
        return table


def against(
    arrays: GameArrays, opponent: Policy | Float64Array, seat: int, starts: int = 1
) -> DecisionProcess:
    """Return the decision process of a player against a pure opponent.

    Args:
        arrays: the game.
        opponent: a policy of the same game, or its probabilities of actions, float64[S, A].
        seat: the learner's, 0 or 1. In seat 1 the opponent's first moves decide the start.
        starts: number of first rows with which games begin, equally often: the number of distinct
            openings, or 1 for the first row alone.

    Returns:
        The process of the positions that the learner can reach.

    Raises:
        ValueError: the opponent is not pure, or ``seat`` is no seat.
    """
    check_choice("seat", seat, (0, 1))
    if isinstance(opponent, Policy):
        opponent = arrays.policy_table(opponent, 1 - seat)
    table: Float64Array = opponent
    reply = to_matrix(arrays, table, -1, 0)
    replies = reply
    skipped = to_matrix(arrays, table, -1, 1)
    for _ in arrays.layers:  # the opponent's turns that follow each other
        replies = reply + skipped @ replies
    transitions = []
    for action in range(table.shape[1]):
        moves = np.tile(np.eye(table.shape[1])[action], (len(table), 1))
        switched = to_matrix(arrays, moves, 1, 0)
        transitions.append(switched @ replies + to_matrix(arrays, moves, 1, 1))
    start = np.repeat([1 / starts, 0.0], [starts, len(table) + 6 - starts])
    if seat == 1:
        start = start @ replies
    start[-6:] = np.roll(start[-6:], 3)
    reached = start > 0
    all_moves = sum(transitions)
    for _ in arrays.layers:
        reached |= reached @ all_moves > 0
    reached[-6:] = True
    rewards = np.stack([matrix[:, [-3, -2, -1]] @ RESULTS for matrix in transitions], axis=1)
    rewards[-3:] = 0
    return DecisionProcess(
        [matrix[reached][:, reached] for matrix in transitions],
        rewards[reached],
        start[reached],
        reached[:-6].nonzero()[0],
    )


def to_matrix(arrays: GameArrays, moves: Float64Array, sign: int, turn: int) -> Any:
    """Return what moves lead to, as a sparse matrix float64[S + 6, S + 6] over the positions, ends
    before the learner's first move, and final states.

    Args:
        arrays: the game.
        moves: float64[S, A]: probability of each action.
        sign: 1 if the learner makes them, -1 if the opponent does.
        turn: who is next, an index of ``arrays.next``; each matrix has the probability of its turn.
            Ends have turn 0.
    """
    from scipy import sparse

    row, action = np.nonzero(moves)
    column = arrays.next[row, action, turn]
    is_end = column == arrays.over
    column[is_end] += 4 - sign * arrays.rewards[row, action][is_end]
    chances = [1 - arrays.skip_chance, arrays.skip_chance]
    weights = moves[row, action] * np.where(is_end, turn == 0, chances[turn])
    ends = arrays.over + np.arange(6)
    row = np.append(row, ends)
    column = np.append(column, np.tile(ends[3:], 2))
    weights = np.append(weights, np.full(6, turn == 0))
    matrix = sparse.csr_array((weights, (row, column)), (len(moves) + 6,) * 2)
    matrix.eliminate_zeros()
    return matrix
