"""Likely causes of what a check of a search measures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isnan, nan

import numpy as np

from ttt_envs.core.jit import Float64Array, Int64Array
from ttt_eval.checks.tables import TIE

GROUPS = ("1 other", "1 same", "2 other", "2 same", "3 other", "3 same")
"""Groups of positions below a root, by their depth and whether their mover is the root's."""
DEPTHS = np.repeat([1, 2, 3], 2)
"""Depths of the groups."""
SAME = np.tile([False, True], 3)
"""Whether the mover of a group is the root's."""
RIGHT_SIGNS = np.where(SAME, 1, -1)
"""Signs of the response of the root's value to values planted in a group."""
DEPTH_SIGNS = np.where(DEPTHS % 2, -1, 1)
"""Signs that alternate with depth."""

FIXED_VIEW = "values have a fixed player's view: right for one player, wrong for the other"
OTHER_ROOT = "the root's value has the other player's view"
NO_LEAVES = "leaf values do not reach the root"
NO_CALLS = (
    "the evaluator was never called: check a search with rollouts or an evaluation of its own with "
    "evaluator=None (--evaluator none)"
)
OTHER_BOARD = (
    "the evaluator is asked about another board: turned, mirrored, or with exchanged rows and "
    "columns, or players' stones"
)
BY_DEPTH = "the sign alternates with depth, not with the mover"
OFF_BY_ONE = "a leaf's parent is evaluated in its place, one ply off"
OTHER_PLAYER = "leaf values are taken for the other player"
INVERTED = "the sign alternates with depth, and is inverted"
NEXT_PLAYER = "moves have the value of the next player to move, one ply off"
OTHER_SIZE = (
    "results are backed up with another size: a discount, another scale, other turns or chance"
)
NO_PRIORS = (
    "priors are not used, or those of another position or move; a search without priors: use "
    "priors=False (--no-priors)"
)
MAX_MISTAKEN_SHARE = 0.1
"""Maximum loss of moves in the eyes of a wrong search that explains them, as a share of the true
one.
"""
# Results are 1, 0 and -1. The errors of right searches are at most 0.05, with chance 0.10
# (MAX_RESULT_ERROR in search.py); a draw that counts as a win has an error of 1, less what right
# results of other simulations take back.
MIN_DRAW_ERROR = 0.3
"""Minimum mean error of a draw that counts as a win or a loss."""
MIN_WIN_ERROR = 0.7
MAX_WIN_ERROR = 1.3
"""Minimum and maximum mean error of a win that counts as a draw."""
MAX_DRAWN_SIZE = 1 - MIN_WIN_ERROR
"""Maximum mean size of its value: results with both signs have a mean of 0 too."""
MIN_OTHER_RESULT_ERROR = 1.5
"""Minimum mean error of a win that counts as a loss, or the other way round."""
MIN_SIGN_ERROR = 0.35
"""Minimum mean error of results with the wrong sign."""
MIN_WRONG_ERROR = 0.4
MAX_RIGHT_ERROR = 0.1
"""Errors for the two players, of values with a fixed player's view: the same, and that of right
ones.
"""
MIN_WRONG_SHARE = 1.05
MAX_RIGHT_SHARE = 0.5
"""Losses of moves for the two players, of a selection with a fixed player's view, as shares of the
loss of random moves: worse than those, and MAX_UNTOLD_SHARE in search.py.
"""
MIN_MISSING_SHARE = 0.2
"""Minimum share of simulations without a visit of the root: right searches lack one or two."""
MAX_VISIT_EXCESS = 0.1
"""Maximum share of visits more or less than that of random moves. These have 0.02 in 500 visits; 8
right searches with the exploration constant 5 have at least 0.29.
"""
MAX_OWN_WEIGHT = -0.05
"""Maximum weight of the root's own evaluation that counts as a wrong sign: right ones have 0 or
more.
"""
MIN_SPREAD = 0.4
"""Minimum difference of values between seeds by which outcomes of chance are mixed. In 30 calls of
right searches it was at most 0.26, with other planted errors 0.33, with mixed outcomes at least
0.52.
"""
MIN_ROOT_ERROR = 0.5
"""Minimum error of results by which the root's value, too, is the other player's."""

SIGN_PATTERNS: Mapping[str, Int64Array] = {
    "": RIGHT_SIGNS,
    "the sign is never flipped": np.ones_like(DEPTHS),
    BY_DEPTH: DEPTH_SIGNS,
    OTHER_PLAYER: -RIGHT_SIGNS,
    NEXT_PLAYER: np.where(DEPTHS == 1, 1, -RIGHT_SIGNS),
    INVERTED: -DEPTH_SIGNS,
    "the sign flips where the same player moves again, not where the turn passes": (
        DEPTH_SIGNS * RIGHT_SIGNS
    ),
}
"""Signs of responses, by the cause of wrong ones; "" are the right signs."""


@dataclass
class Facts:
    """Numbers that a check of a search measured; NaN where it did not."""

    num_errors: int = 0
    """number of calls that raised"""
    num_illegal_visits: int = 0
    """number of answers with visits of illegal moves"""
    impossible_turns: bool = False
    """whether a step was refused because of its turn"""
    errors: Mapping[str, float] = field(default_factory=dict)
    """mean of value - truth, by the result"""
    leaf_error: float = nan
    """largest mean absolute error of values after few simulations, by the result"""
    draw_error: float = nan
    """mean absolute error of values of draws"""
    largest_error: float = nan
    """that of values by result; NaN without values"""
    errors_by_parity: Sequence[tuple[float, float]] = ((nan, nan),)
    """mean absolute errors of values for even and odd numbers of stones, of wins and of losses"""
    late_share_by_parity: tuple[float, float] = nan, nan
    """mean loss as a share of that of a random move, for even and odd numbers of stones"""
    spread: float = nan
    """largest difference of values between seeds"""
    alternating_share: float = nan
    """loss of moves in a game whose turns alternate, as a share of the true one"""
    depth_share: float = nan
    """the same where the signs of values alternate"""
    root_view_share: float = nan
    """loss of moves for who helps both players to win for the root's, as a share of the true one"""
    value_range: float = nan
    """largest value - smallest, of wins, draws and losses"""
    visit_excess: float = nan
    """median of the largest share of visits more or less than that of random moves, near the end"""
    told_share: float = 0.0
    """mean loss with true values, as a share of that of random moves"""
    win_size: float = nan
    """mean absolute value of won positions"""
    missing_share: float = nan
    """median share of simulations without a visit of the root, near the end or anywhere"""
    own_weight: float = nan
    """smallest weight of the root's own evaluation in its value"""
    sign_pattern: str = ""
    """cause of wrong signs"""


def _one_sided(*pairs: tuple[float, float], low: float, high: float) -> bool:
    """Return whether the errors of one player are above ``low``, of the other below ``high``; not
    if no pair is complete.
    """
    players = np.array([pair for pair in pairs if not np.isnan(pair).any()] or [(nan, nan)])
    return bool(players.min(axis=0).max() > low and players.max(axis=0).min() < high)


def patterns(facts: Facts, failed: set[str]) -> dict[str, bool]:
    """Return whether causes explain the failed rows, from the most specific to the least."""
    draw_value = facts.errors.get("draws", nan)
    signs_are_wrong = facts.largest_error > MIN_SIGN_ERROR
    moves_are_one_sided = _one_sided(
        facts.late_share_by_parity, low=MIN_WRONG_SHARE, high=MAX_RIGHT_SHARE
    )
    moves_are_worst = min(facts.late_share_by_parity) > MIN_WRONG_SHARE
    win_error, loss_error = (abs(facts.errors.get(name, nan)) for name in ("wins", "losses"))
    are_draws_alone = not max(win_error, loss_error) > MIN_DRAW_ERROR
    all_are_wrong = min(win_error, loss_error) > MAX_WIN_ERROR
    errors = [error for error in facts.errors.values() if not isnan(error)] or [nan]
    is_constant = "results" in failed and facts.value_range < TIE
    # visits are a whole multiple of the simulations
    are_multiples = facts.missing_share < 0 and float(facts.missing_share).is_integer()
    of_the_tree = {
        "the search does not end: it does not see finished games, or waits": "time" in failed,
        "every simulation counts as several visits, such as by a virtual loss that is kept": (
            "visits" in failed and are_multiples and "rules" not in failed
        ),
        "the tree of another position is kept between calls": (
            "visits" in failed
            and not facts.missing_share > MIN_MISSING_SHARE
            and ("near the end" not in failed or "rules" in failed)
            and (signs_are_wrong or not moves_are_worst)
        ),
        "second turns are ignored, or taken where there are none": facts.impossible_turns,
        "illegal moves are made: occupied cells are not masked, or finished games go on: a node is "
        "expanded past the end, or a rollout changes its board": "steps" in failed,
        "occupied cells are searched: moves are not masked": facts.num_illegal_visits > 0,
        "the search raises an error, such as after a win that it does not see": (
            facts.num_errors > 0
        ),
        "the value is the same on all boards": is_constant,
        "finished positions are evaluated as if they were not": "ends" in failed,
        OTHER_BOARD: "elsewhere" in failed,
        "outcomes of chance are mixed: one stands for all visits of a move, or they share a node": (
            facts.spread > MIN_SPREAD
        ),
        "the update leaves out the last move of a simulation, to a leaf or to the end": (
            "rules" in failed
            and facts.num_errors + facts.num_illegal_visits == 0
            and 0 <= facts.missing_share < MIN_MISSING_SHARE
        ),
    }
    of_values_and_moves = {
        "results of finished games are not backed up, or only to the parent": (
            facts.missing_share > MIN_MISSING_SHARE
            and bool(failed & {"rules", "results", "near the end", "visits"})
        ),
        "turns are assumed to alternate: the search is right only where they do": (
            facts.alternating_share < MAX_MISTAKEN_SHARE
            and not facts.largest_error > MIN_OTHER_RESULT_ERROR
            and not max(win_error, loss_error) < MAX_RIGHT_ERROR
        ),
        BY_DEPTH: facts.depth_share < MAX_MISTAKEN_SHARE,
        "draws count as wins": are_draws_alone and draw_value > MIN_DRAW_ERROR,
        "draws count as losses": are_draws_alone and draw_value < -MIN_DRAW_ERROR,
        "draws count as wins or losses": are_draws_alone and facts.draw_error > MIN_DRAW_ERROR,
        "second turns are never searched": "second turns" in failed,
        FIXED_VIEW: (
            _one_sided(*facts.errors_by_parity, low=MIN_WRONG_ERROR, high=MAX_RIGHT_ERROR)
            or (signs_are_wrong and moves_are_one_sided)
        ),
        "selection has a fixed player's view: right for one player, wrong for the other": (
            not signs_are_wrong and moves_are_one_sided
        ),
        "all values are too low by the same, such as by a virtual loss that is kept": (
            max(errors) < -MIN_DRAW_ERROR and np.ptp(errors) < MAX_RIGHT_ERROR
        ),
        "wins and losses count as draws": (
            MIN_WIN_ERROR < -facts.errors.get("wins", nan) < MAX_WIN_ERROR
            and facts.win_size < MAX_DRAWN_SIZE
            and not is_constant
        ),
        "moves are random, or selection ignores values: all moves have nearly the same visits": (
            facts.visit_excess < MAX_VISIT_EXCESS and (is_constant or not signs_are_wrong)
        ),
        OTHER_ROOT: all_are_wrong and "near the end" not in failed,
        "results of finished games have the wrong sign, or moves the value of the next player to "
        "move": all_are_wrong and moves_are_worst,
        "results have the wrong sign: it is never flipped, or at the wrong turns": (
            loss_error > MAX_WIN_ERROR > win_error
        ),
        "results are backed up with the wrong sign: never flipped, flipped at every ply or for the "
        "wrong player, or at the root alone; an evaluator at the leaves tells which": (
            signs_are_wrong
        ),
        "values of leaves, or results of rollouts, have another scale or zero, as (v + 1) / 2, "
        "max(0, v), or draws as wins": (
            "leaves" in failed
            and not failed & {"results", "rollouts"}
            and facts.leaf_error < MIN_OTHER_RESULT_ERROR
        ),
        "rollout results are taken for the other player, or with a sign that misses a turn, or "
        "rollouts are no random play": "rollouts" in failed,
        OTHER_SIZE: "results" in failed,
        NO_PRIORS: failed <= {"priors", "inner priors"},
        "selection: it prefers what is good for the other player, or plays what it visits least": (
            max(facts.told_share, *facts.late_share_by_parity) > 1
        ),
        "values are never negated, or draws count as losses: results are counted from the root's "
        "view at all nodes": (
            "traps" in failed and facts.root_view_share < MAX_MISTAKEN_SHARE and not signs_are_wrong
        ),
        "selection: moves are wrong, but no returned value is, such as without exploration, or "
        "without a tree below the root": not failed & {"results", "signs", "visits", "leaves"},
    }
    # a sign by the facts is proved, whatever else speaks for it, and comes before other values
    signs = {facts.sign_pattern: True} if facts.sign_pattern else {}
    others = {cause: fits for cause, fits in of_values_and_moves.items() if cause not in signs}
    return of_the_tree | signs | others


def sign_cause(votes: Float64Array, facts: Facts) -> str:
    """Return the cause of wrong signs, "" if they are right.

    Args:
        votes: float64[2, G], the signs of responses below roots with an even and with an odd number
            of stones; 0 where they are not clear.
        facts: what was measured so far.
    """
    if (votes * RIGHT_SIGNS >= 0).all():
        return ""
    is_inverted = facts.largest_error > MIN_ROOT_ERROR
    if facts.own_weight < MAX_OWN_WEIGHT and not is_inverted:
        return OFF_BY_ONE
    even, odd = votes
    if np.count_nonzero(even * odd) >= 2 and (even * odd <= 0).all():
        return FIXED_VIEW
    cause = max(SIGN_PATTERNS, key=lambda name: (votes @ SIGN_PATTERNS[name]).sum())
    if cause in (OTHER_PLAYER, INVERTED) and facts.told_share > 1:
        return NEXT_PLAYER
    if cause == OTHER_PLAYER and is_inverted:
        return OTHER_ROOT
    return cause or "some values have the wrong sign"
