"""Are values right? Value heads, critics and evaluation functions against exact values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ttt_envs.agents.policy import Policy
from ttt_envs.agents.specs import make_pure
from ttt_envs.core.jit import BoolArray, Float64Array
from ttt_envs.game.actions import sum_by_action
from ttt_envs.game.game import Game
from ttt_eval.checks.causes import FIXED_VIEW
from ttt_eval.checks.check import VALUE_NOTE, Check
from ttt_eval.checks.session import Checker, Notes, mean_of, open_check
from ttt_eval.checks.tables import LATE_FREE, MIN_WON_VALUE, TIE, GameTable, Turns, mean_by
from ttt_eval.exact.critics import explained_variance

OPTIMAL = "optimal"
MIN_POSITIONS = 5
"""Fewer positions are no evidence."""
MIN_CORRELATION = 0.5
"""Minimum correlation of values with exact values, for each player."""
MAX_SCALE_ERROR = 0.5
"""Maximum distance from 1 of the slope of values in exact values near the end."""
MAX_DRAW_BIAS = 0.3
"""Maximum mean value of draws near the end."""
MAX_ASYMMETRY = 0.3
"""Maximum mean difference of the values of two symmetric positions."""


def check_values(
    values: Callable[..., Any] | Policy,
    game: Turns = "plain",
    policy: str | Policy = OPTIMAL,
    *,
    board: str | Game = "3x3",
    seed: int = 0,
    limit_s: float | None = 60.0,
) -> Check:
    """Check values of positions against the exact values of a policy.

    Args:
        values: ``values(board)``, which returns the expected result for the player to move, from
            -1 (loss) to 1 (win); for ``board`` see :func:`ttt_eval.checks.agent.check_agent`. Or an
            object with ``values(boards)``, such as a learner.
        game, board: as of :func:`ttt_eval.checks.search.check_search`.
        policy: whose values are right: ``"optimal"`` for best play, or a pure policy, which plays
            both sides.
        seed: of the choice of positions.
        limit_s: maximum s of a call; None for no limit.

    Raises:
        TypeError: ``values`` is no function.
        ValueError: an option is unknown, or the policy is unknown or not pure.
    """
    method = getattr(values, "values", None)
    function: Any = method or values
    is_policy = method is not None
    with open_check(
        _ValueCheck, function, game, board, seed=seed, batch=is_policy, limit_s=limit_s
    ) as check:
        return check.run(_exact_values(check.table, policy))


def _exact_values(table: GameTable, policy: str | Policy) -> Float64Array:
    """Return the values of a policy that plays both sides, float64[N + 1]."""
    if policy == OPTIMAL:
        return table.values
    own = make_pure(policy, table.game)
    positions = np.flatnonzero(~table.ended)
    shares = np.zeros(table.legal.shape)
    shares[positions] = sum_by_action(
        own.probabilities(table.to_boards(positions)), table.num_actions
    )
    values: Float64Array = table.solve(mean_by(shares), mean_by(shares))[0][0]
    return values


def explain(errors: Float64Array, truth: Float64Array, weights: Float64Array) -> tuple[float, str]:
    """Return the share of the variance of exact values that values explain, and in words also their
    bias.

    Args:
        errors, truth, weights: float64[P], of P positions.
    """
    weights = weights / weights.sum()
    share = explained_variance(errors, truth, weights)
    return share, f"explained variance {share:.3f}, bias {weights @ errors:+.3f}"


class _ValueCheck(Checker):
    """The rows of a check of values."""

    def run(self, exact: Float64Array) -> Check:
        """Measure all rows.

        Args:
            exact: float64[N + 1], the right values.
        """
        self.exact = exact
        sections = [self.ask_all, self.check_signs, self.check_late, self.check_errors]
        return self.report("values", sections)

    def answer(self, positions: Sequence[int], board: Any, *_: object) -> Any:
        """Return legal moves and values."""
        argument = self.table.to_boards(positions) if self.batch else board
        return self.table.legal[positions], self.function(argument)

    def ask_all(self) -> None:
        """Ask for the values of positions, and of a random symmetric image of each."""
        table = self.table
        positions = self.choose_classes(~table.ended)
        symmetries = table.symmetries
        first = min(1, len(symmetries) - 1)  # the identity only where there is no other
        cells = symmetries[self.rng.integers(first, len(symmetries), len(positions))]
        images = [*map(table.find, np.take_along_axis(table.boards[positions], cells, axis=1))]
        self.values = self.ask("values", positions).values
        # other boards than 3 x 3 have random first positions, maybe without their images
        image_positions = np.where(np.less(images, 0), positions, images).tolist()
        self.image_values = self.ask("images", image_positions).values
        self.chosen = positions
        self.truth = self.exact[positions]
        self.errors = np.abs(self.values - self.truth)
        self.notes = Notes(positions, VALUE_NOTE, (self.values, self.truth))

    def check_signs(self) -> None:
        """Correlation with the truth, with an even and with an odd number of stones."""
        odd = self.table.odd[self.chosen]
        self.correlations = []
        for name, part in {"even": ~odd, "odd": odd}.items():
            correlation = self._correlate(part)
            self.correlations.append(correlation)
            text = f"correlation {correlation:.2f} with the truth where the number of stones is "
            self.judge(
                f"sign, {name}",
                text + name,
                correlation,
                MIN_CORRELATION,
                badness=self.errors * part,
                minimum=True,
            )

    def _correlate(self, mask: BoolArray) -> float:
        """Return a correlation; NaN without evidence, 0 if all values are equal."""
        mask = mask & np.isfinite(self.values)
        values = self.values[mask]
        truth = self.truth[mask]
        if mask.sum() < MIN_POSITIONS or np.ptp(truth) < TIE:
            return float("nan")
        return 0.0 if np.ptp(values) < TIE else float(np.corrcoef(values, truth)[0, 1])

    def check_late(self) -> None:
        """Scale, and values of draws, near the end."""
        late = self.table.num_free[self.chosen] <= LATE_FREE
        decided = late & (np.abs(self.truth) > MIN_WON_VALUE)
        draws = late & (np.abs(self.truth) < TIE)
        slope = mean_of(self.values[decided] / self.truth[decided])
        self.judge(
            "scale",
            f"{slope:.2f} times the truth near the end",
            abs(slope - 1),
            MAX_SCALE_ERROR,
            badness=self.errors * decided,
            rule="0.50 to 1.50",
        )
        self.draw_bias = mean_of(self.values[draws])
        self.judge(
            "draws",
            f"mean value {self.draw_bias:+.2f} of draws near the end",
            abs(self.draw_bias),
            MAX_DRAW_BIAS,
            badness=self.errors * draws,
        )

    def check_errors(self) -> None:
        """Symmetry, and the error by the number of free cells."""
        difference = np.abs(self.values - self.image_values)
        mean = mean_of(difference)
        self.judge(
            "symmetry",
            f"mean difference {mean:.2f} of symmetric positions",
            mean,
            MAX_ASYMMETRY,
            badness=difference,
        )
        error = mean_of(self.errors)
        size = mean_of(np.abs(self.truth))
        self.judge(
            "error",
            f"mean absolute error {error:.2f}; of the value 0 {size:.2f}",
            error,
            size,
            badness=self.errors,
        )
        finite = np.isfinite(self.errors)
        if finite.any():
            errors = np.where(finite, self.values - self.truth, 0)
            _, text = explain(errors, self.truth, finite)
            self.remark("critic", text)
        free = self.table.num_free[self.chosen]
        by_free = [f"{number} {mean_of(self.errors[free == number]):.2f}" for number in set(free)]
        self.remark("by free cells", f"mean absolute error: {', '.join(by_free)}")

    def patterns(self, failed: set[str]) -> dict[str, bool]:
        """Return whether causes explain the failed rows, the likeliest first."""
        low, high = sorted(self.correlations)
        return {
            "values have the other player's view": high < -0.2,
            FIXED_VIEW: low < -0.2 and high > 0.2,
            "values do not depend on the result: not trained, or of other positions": (
                max(-low, high) < 0.2
            ),
            "draws count as wins": self.draw_bias > MAX_DRAW_BIAS,
            "draws count as losses": self.draw_bias < -MAX_DRAW_BIAS,
            "values have another scale: a discount, or another range": "scale" in failed,
            "values change with the symmetric image": "symmetry" in failed,
        }
