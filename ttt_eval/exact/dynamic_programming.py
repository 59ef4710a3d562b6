"""Exact results of policies: one function for each measure of :class:`Measurement`.

Several measures of one policy are methods of one :class:`Measurement`, which makes it once.
"""

from __future__ import annotations

import numpy as np

from baselines.exact.layers import is_layered, start_value
from ttt_envs.agents.policy import Policy
from ttt_envs.core.jit import Float64Array, Int64Array
from ttt_envs.core.work import DEFAULT_WORK, Work
from ttt_envs.game.game import Game
from ttt_envs.game.phantom import AnyGame
from ttt_envs.graph.layers import Traversal
from ttt_eval.exact.measurement import Measurement, RegretRow, start_chances
from ttt_eval.exact.measurement import expected_losses as expected_losses
from ttt_eval.exact.measurement import has_mean_loss as has_mean_loss
from ttt_eval.exact.measurement import has_regret as has_regret
from ttt_eval.exact.measurement import mean_regret as mean_regret
from ttt_eval.exact.policy_evaluation import evaluate_policy as evaluate_policy
from ttt_eval.exact.results import Exploitation as Exploitation
from ttt_eval.exact.results import OutcomeProbabilities as OutcomeProbabilities


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
    return Measurement(game, first, work).outcome(second, seat=0)


def match_outcome(
    game: AnyGame, a: str | Policy, b: str | Policy, *, work: Work = DEFAULT_WORK
) -> OutcomeProbabilities:
    """Return the exact result of a against b, the mean over both seats; see :func:`outcome`."""
    as_first, as_second = Measurement(game, a, work).outcomes(b)
    return as_first.mean(as_second)


def result_lines(game: Game, policy: str | Policy) -> str:
    """Return :func:`match_outcome` against ``random`` and ``optimal``, and :func:`exploitability`,
    a line each.
    """
    lines = [
        f"against {opponent}: {match_outcome(game, policy, opponent).text}"
        for opponent in ("random", "optimal")
    ]
    return "\n".join([*lines, f"exploitability: {exploitability(game, policy):.4f}"])


def perfect_value(game: Game, *, work: Work = DEFAULT_WORK) -> float:
    """Return the value of perfect play by both, for player_0.

    Only positions that two players reach who never miss a win are visited; with gravity, all that
    stones can fall into, layer by layer (:func:`baselines.exact.layers.start_value`).

    Raises:
        MemoryError: too many cells or positions.
    """
    if game.gravity and is_layered(game):
        return start_value(game, work=work)
    wins = start_chances(Traversal(game, (None, None), work=work, passes=2))[0]
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
    return Measurement(game, policy, work).best_response(seat)


def exploitation(game: AnyGame, policy: str | Policy, *, work: Work = DEFAULT_WORK) -> Exploitation:
    """Return the results of best responders to a policy in both seats; see
    :func:`best_response`.
    """
    return Measurement(game, policy, work).exploitation()


def exploitability(game: AnyGame, policy: str | Policy, *, work: Work = DEFAULT_WORK) -> float:
    """Return NashConv / 2 of a policy that plays both seats (Lanctot et al., 2017): 0 only for
    perfect play, skips or not.

    It is (best response value as first + as second) / 2; see :func:`best_response`.
    """
    return Measurement(game, policy, work).exploitability()


def regret(game: Game, policy: str | Policy, *, work: Work = DEFAULT_WORK) -> float:
    """Return the mean loss of value per move: E[sum of losses] / E[number of moves] in self-play.

    Raises:
        ValueError: as :func:`outcome`; a board too large to solve.
    """
    return Measurement(game, policy, work).regret()


def regret_table(game: Game, policy: str | Policy, *, work: Work = DEFAULT_WORK) -> list[RegretRow]:
    """Return :func:`regret` by the number of stones on the board, up to the longest game."""
    return Measurement(game, policy, work).regret_table()


def mean_loss(game: Game, policy: str | Policy, *, work: Work = DEFAULT_WORK) -> float:
    """Return the mean loss of value by a move, over one position of each symmetry class in which
    moves differ in value, whether play comes there or not.

    Of a policy that is not symmetric, the other positions of a class are not asked.

    Raises:
        ValueError: as :func:`outcome`; a board too large to solve.
    """
    return Measurement(game, policy, work).mean_loss()


def played_losses(action_values: Float64Array, actions: Int64Array) -> Float64Array:
    """Return the loss of value by a played move, float64[B]; action values are NaN where
    illegal.
    """
    best = np.nanmax(action_values, axis=1)
    return np.asarray(best - action_values[np.arange(len(actions)), actions])
