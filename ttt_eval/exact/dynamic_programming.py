"""Exact results of policies, by dynamic programming over the nodes that games reach; nothing is
sampled.

Probabilities flow forward and values back over the layers of :mod:`ttt_envs.graph`. A policy is
asked only about positions that games reach, in a phantom game about views, by which it plays; best
responders there remember everything.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeGuard

import numpy as np

from baselines.exact import MAX_SOLVER_CELLS, solve
from baselines.exact.layers import is_layered, start_value
from ttt_envs.agents.policy import Policy
from ttt_envs.agents.specs import make_pure
from ttt_envs.core.checks import check_choice
from ttt_envs.core.jit import Float64Array, Int64Array
from ttt_envs.core.work import DEFAULT_WORK, Work
from ttt_envs.game.boards import Boards
from ttt_envs.game.game import Game
from ttt_envs.game.phantom import AnyGame, PhantomGame
from ttt_envs.graph.estimate import KEPT_BYTES_PER_BOARD, watch
from ttt_envs.graph.layers import Traversal
from ttt_envs.graph.passes import DRAW, WIN_0, WIN_1, backward, forward
from ttt_eval.exact.phantom_best_response import best_response as search_best_response
from ttt_eval.exact.results import Exploitation as Exploitation
from ttt_eval.exact.results import OutcomeProbabilities as OutcomeProbabilities
from ttt_eval.exact.results import in_seats


class RegretRow(NamedTuple):
    """Loss of a policy in self-play by its moves on boards with a given number of stones."""

    stones: int
    moves: float
    """expected number of such moves: the probability that a game lasts so long"""
    loss: float
    """expected loss of value by these moves"""


class Visit(NamedTuple):
    """Positions that games reach, all with the same mover and number of stones."""

    stones: int
    boards: Boards
    probabilities: Float64Array
    """float64[B, cells]: the mover's policy"""
    mass: Float64Array
    """float64[B]: probability that a game reaches the position, or its symmetry class"""


def visits(
    game: AnyGame,
    first: Policy,
    second: Policy,
    *,
    merge: bool | None = False,
    work: Work = DEFAULT_WORK,
) -> Iterator[Visit]:
    """Yield the positions that games between two policies reach.

    Args:
        game: the game.
        first, second: the policies.
        merge: whether a board stands for its symmetry class; None if both policies are symmetric.
        work: see :class:`Work`.
    """
    traversal = Traversal(game, (first, second), merge=merge, query_size=work.chunk)
    for layer, nodes, mass in watch(work, game, forward(traversal)):
        yield Visit(
            layer.depth, traversal.boards(layer, nodes), nodes.probabilities(game.cells), mass
        )


def outcome(
    game: AnyGame, first: str | Policy, second: str | Policy, *, work: Work = DEFAULT_WORK
) -> OutcomeProbabilities:
    """Return the exact result of ``first``, who is player_0, against ``second``.

    Args:
        game: the game.
        first, second: spec strings or pure policies.
        work: see :class:`Work`.

    Raises:
        ValueError: a policy that is unknown, is not pure, or does not play by the rules.
        MemoryError: too many cells or positions.
    """
    players = make_pure(first, game), make_pure(second, game)
    results = np.zeros(4)
    for _ in watch(work, game, forward(Traversal(game, players, query_size=work.chunk), results)):
        pass
    return OutcomeProbabilities(float(results[WIN_0]), float(results[DRAW]), float(results[WIN_1]))


def match_outcome(
    game: AnyGame, a: str | Policy, b: str | Policy, *, work: Work = DEFAULT_WORK
) -> OutcomeProbabilities:
    """Return the exact result of a against b, the mean over both seats; see :func:`outcome`."""
    players = make_pure(a, game), make_pure(b, game)
    as_first = outcome(game, *players, work=work.part(0, 2))
    return as_first.mean(outcome(game, *players[::-1], work=work.part(1, 2)).reversed())


def perfect_value(game: Game, *, work: Work = DEFAULT_WORK) -> float:
    """Return the value of perfect play by both, for player_0.

    Only positions that two players reach who never miss a win are visited; with gravity, all that
    stones can fall into, layer by layer (:func:`baselines.exact.layers.start_value`).

    Raises:
        MemoryError: too many cells or positions.
    """
    if game.gravity and is_layered(game):
        return start_value(game, work=work)
    wins = _start_values(Traversal(game, (None, None)), work)[0]
    return float(wins[0] - wins[1]) + 0.0  # 0.0 in place of -0.0


def best_response(
    game: AnyGame, policy: str | Policy, seat: int, *, work: Work = DEFAULT_WORK
) -> OutcomeProbabilities:
    """Return the exact result of a best responder to ``policy``, from the responder's view.

    The responder chooses uniformly among moves of equal value: they may differ in wins and losses,
    not in ``value``.

    Args:
        game: the game.
        policy: a spec string or a pure policy, in the other seat.
        seat: the responder's: 0 moves first, 1 second.
        work: see :class:`Work`.

    Raises:
        ValueError: another seat; a policy that is unknown, is not pure, or does not play by the
            rules.
        MemoryError: too many cells or positions.
    """
    check_choice("seat", seat, (0, 1))
    return _best_responses(game, make_pure(policy, game), (seat,), work)[0]


def exploitation(game: AnyGame, policy: str | Policy, *, work: Work = DEFAULT_WORK) -> Exploitation:
    """Return the results of best responders to a policy in both seats; see
    :func:`best_response`.
    """
    pure = make_pure(policy, game)  # reject an impure policy before the game is solved
    value = solve(game).value if has_regret(game) else None
    first, second = _best_responses(game, pure, (0, 1), work)
    return Exploitation(first, second, value)


def exploitability(game: AnyGame, policy: str | Policy, *, work: Work = DEFAULT_WORK) -> float:
    """Return NashConv / 2 of a policy that plays both seats (Lanctot et al., 2017): 0 only for
    perfect play, skips or not.

    It is (best response value as first + as second) / 2; see :func:`best_response`.
    """
    first, second = _best_responses(game, make_pure(policy, game), (0, 1), work)
    return Exploitation(first, second, None).exploitability


def _best_responses(
    game: AnyGame, policy: Policy, seats: tuple[int, ...], work: Work
) -> list[OutcomeProbabilities]:
    """Return the best responder's results, by its seats."""
    if isinstance(game, PhantomGame):
        return [search_best_response(game, policy, seat) for seat in seats]
    if policy.colour_blind:  # one traversal serves both seats
        values = _start_values(
            Traversal(game, (None, policy), roles=True, starts=seats, query_size=work.chunk), work
        )
        return [_result(values[seat, 0], values[seat, 1]) for seat in seats]
    results = []
    for index, seat in enumerate(seats):
        players = in_seats(None, policy, seat)
        values = _start_values(
            Traversal(game, players, query_size=work.chunk), work.part(index, len(seats))
        )
        results.append(_result(values[0, seat], values[0, 1 - seat]))
    return results


def _result(win: float, loss: float) -> OutcomeProbabilities:
    return OutcomeProbabilities(float(win), max(0.0, float(1 - win - loss)), float(loss))


def _start_values(traversal: Traversal, work: Work) -> Float64Array:
    """Return the chances that player_0 and player_1 win on the empty board, float64[2, 2] by the
    player to move.
    """
    keep_layers(traversal, work.part(0, 2))
    *_, (_, _, values, _) = watch(work.part(1, 2), traversal.game, backward(traversal))
    return np.asarray(values[0])


def keep_layers(traversal: Traversal, work: Work) -> None:
    """Walk all layers of a traversal, which keeps them for a backward pass."""
    deque(
        watch(work, traversal.game, traversal.walk(keep=True), kept=KEPT_BYTES_PER_BOARD), maxlen=0
    )


def regret(game: Game, policy: str | Policy, *, work: Work = DEFAULT_WORK) -> float:
    """Return the mean loss of value per move: E[sum of losses] / E[number of moves] in self-play.

    Raises:
        ValueError: as :func:`outcome`; a board too large to solve.
    """
    return mean_loss(regret_table(game, policy, work=work))


def has_regret(game: AnyGame) -> TypeGuard[Game]:
    """Return whether the values of all positions can be had, of which regret is a loss: not where
    stones are hidden.
    """
    return game.cells <= MAX_SOLVER_CELLS and isinstance(game, Game)


def mean_loss(rows: Sequence[RegretRow]) -> float:
    """Return the :func:`regret` of a :func:`regret_table`."""
    return sum(row.loss for row in rows) / sum(row.moves for row in rows)


def regret_table(game: Game, policy: str | Policy, *, work: Work = DEFAULT_WORK) -> list[RegretRow]:
    """Return :func:`regret` by the number of stones on the board, up to the longest game."""
    pure = make_pure(policy, game)
    solution = solve(game)
    moves, lost = np.zeros((2, game.cells))
    for stones, boards, probabilities, mass in visits(game, pure, pure, merge=None, work=work):
        moves[stones] += mass.sum()
        lost[stones] += mass @ expected_losses(solution.action_values(boards), probabilities)
    return [
        RegretRow(stones, *row)
        for stones, row in enumerate(np.stack([moves, lost], 1).tolist())
        if row[0] > 0
    ]


def played_losses(action_values: Float64Array, actions: Int64Array) -> Float64Array:
    """Return the loss of value by a played move, float64[B]; action values are NaN where
    illegal.
    """
    return np.asarray(
        np.nanmax(action_values, axis=1) - action_values[np.arange(len(actions)), actions]
    )


def expected_losses(action_values: Float64Array, probabilities: Float64Array) -> Float64Array:
    """Return the expected loss of value by a move, float64[B]; action values are NaN where
    illegal.
    """
    values, expected = np.nan_to_num(action_values), np.zeros(len(probabilities))
    for cell in range(values.shape[1]):
        expected += probabilities[:, cell] * values[:, cell]
    return np.asarray(
        np.maximum(np.fmax.reduce(action_values, axis=1, initial=-np.inf) - expected, 0.0)
    )
