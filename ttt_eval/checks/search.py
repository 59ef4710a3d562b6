"""Is a search right? A check against planted and exact values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import nan
from typing import Any, ClassVar

import numpy as np

from ttt_envs.agents.policy import normalise
from ttt_envs.core.checks import check_choice, check_range
from ttt_envs.core.jit import BoolArray, Float64Array
from ttt_envs.game.actions import action_to_cell
from ttt_envs.game.game import Game
from ttt_eval.checks.causes import (
    DEPTH_SIGNS,
    DEPTHS,
    GROUPS,
    NO_CALLS,
    NO_LEAVES,
    RIGHT_SIGNS,
    SAME,
    patterns,
    sign_cause,
)
from ttt_eval.checks.check import VALUE_NOTE, Check, CheckRow, no_error
from ttt_eval.checks.session import (
    Checker,
    Notes,
    SearchAnswers,
    finite,
    mean_of,
    median_of,
    open_check,
)
from ttt_eval.checks.tables import LATE_FREE, MIN_WON_VALUE, TIE, Turns

Search = Callable[..., Any]
"""``search(game, board, evaluator, simulations, seed)``: see :func:`check_search`."""

NUM_POSITIONS = 30
"""Number of positions in which moves are asked for."""
NUM_RESULTS = 6
"""Number of positions of each result."""
NUM_ROOTS = 4
"""Number of roots with an even number of stones, and with an odd one."""
ROOT_FREE = 8
"""Largest number of free cells of roots."""
MIN_RANDOM_VALUE = 0.5
"""Smallest size of values of random play of which few rollouts see the sign."""
NUM_REPEATED = 3
"""Number of roots that are searched again with the same seed, and with another one."""
SIGN_SIMULATIONS = 100
"""Number of simulations after which the root's value responds to planted values."""
OWN_SIMULATIONS = 10
"""Number of simulations after which the root's own evaluation, counted once, still weighs a tenth:
twice the size of MAX_OWN_WEIGHT in causes.py.
"""
PLANT = 1e-4
"""Size of planted differences: so small that a search visits the same positions."""
GENERIC = 0.2
"""Size of the values to which differences are added: without ties, which a plant would break."""
MIN_RESPONSE = 0.004
"""Smaller responses are no evidence. Where no play leads, right searches have 0; with turned or
mirrored boards for the evaluator it was at least 0.02 in all games.
"""

MAX_RESULT_ERROR = {"plain": 0.05, "turns": 0.05, "skip": 0.10}
"""Maximum mean error of values by the result."""
MAX_LATE_LOSS = 0.07
"""Maximum mean loss of moves near the end."""
MAX_UNTOLD_SHARE = 0.5
"""Maximum mean loss without knowledge, as a share of that of random moves."""
MAX_TOLD_SHARE = 0.45
"""Maximum mean loss with true values, as a share of that of random moves."""
NUM_ENDS = 5
"""Number of positions above finished ones: of those with a win at once, and of sure draws."""
MAX_END_RESPONSE = 0.02
"""Maximum response to values planted at finished positions, which differ by 1."""
LEAF_SIMULATIONS = 8
"""Number of simulations of which most evaluate a leaf."""
LEAF_SHARE = 1 - 1 / LEAF_SIMULATIONS
"""Least share of a right value after so many, of a search that divides by one more."""
MAX_LEAF_ERROR = {True: 0.05, False: 0.2}
"""Maximum mean error of values after so many, by the result, with the evaluator of the check or
not, where an evaluation of its own is not exact. All of 240 right searches had 0.00: PUCT, Gumbel,
UCT with rollouts and with leaf values, constants from 0.5 to 5, with and without a solver. In
"turns" PUCT with values from 0 to 1 had 0.28, UCT 0.33, and with draws of rollouts as wins 0.56.
"""
NUM_PRIOR_ROOTS = 12
"""Number of roots at which a good move is given a large prior."""
LARGE_PRIOR = 0.8
"""That prior: larger than all others together."""
PRIOR_SIMULATIONS = 30
"""Number of simulations with it: so few that priors count more than values, which are 0."""
MIN_PRIOR_GAIN = 0.04
"""Minimum gain in the share of visits of a move with a large prior, beyond that of any other."""
NUM_INNER_ROOTS = 6
"""Number of roots below which a reply is given a tiny and a dominant prior."""
MIN_INNER_ROOTS = 4
"""Number of those with a clear response from which priors below the root are judged."""
TINY_PRIOR = 1e-3
"""Prior of a move that is hardly searched; the move has it at the root too, so that it is a reply.
"""
DOMINANT_PRIOR = 0.9
"""Prior of the same reply, with which most simulations go through it."""
INNER_SIMULATIONS = 24
"""Number of simulations with these: few, so that most stay near depth 2."""
INNER_SCALE = 0.25
"""Size of the generic values there, as a share of the usual one: so small that priors decide."""
MIN_INNER_RESPONSE = 0.15
"""Smallest response at depth 2 of which shares are clear; it is less where replies are forced."""
MIN_INNER_GAIN = 0.12
"""Minimum gain in the share of the response at depth 2 below a move with a large prior, in place of
a tiny one: half of the least of right searches, 0.22. With ignored priors, those of the parent or
of the root alone it was 0.00 in all games, with priors by place among legal moves at most 0.07.
"""
ROLLOUT_SIMULATIONS = 8
"""Number of simulations with rollouts: so few that a tree hardly prefers good moves, and values are
those of random play.
"""
MIN_ROLLOUT_SLOPE = 0.6
"""Minimum slope of values in the mean result of random play; 1 is expected. None of 300 right
searches failed, so that less is rarer than 1% (one-sided 95%).
"""
ROLLOUT_RATES = (
    "on 3 x 3 at most 2.1% of other common errors pass, and at most 1% of right searches fail"
)
"""Ends the verdict on a right search with rollouts; see docs/how-to/check-search.md."""
MAX_MISSING_SHARE = 0.5
"""Maximum median share of simulations without a visit of the root: a search may stop when no other
move can have more visits, which takes half of them.
"""
MIN_SOLVED_SHARE = 0.7
"""Share of exact values near the end from which a search solves positions."""
RESULTS = {"wins": 1, "draws": 0, "losses": -1}
"""Signs of values, by the result."""
NOISE_SHARE = 0.05
"""Share of visits that differ between seeds from which noise is reported."""


def check_search(
    search: Search,
    game: Turns = "turns",
    evaluator: str | None = "owned",
    simulations: tuple[int, int] = (50, 500),
    seed: int = 0,
    *,
    board: str | Game = "3x3",
    batch: bool = False,
    priors: bool = True,
    limit_s: float | None = 60.0,
) -> Check:
    """Check a tree search in positions whose values are exact or planted.

    ``search(game, board, evaluator, simulations, seed)`` returns ``(visits, value)``: numbers for
    all moves, of which the largest is played (or the move itself), and the value of the root or of
    the chosen move, for the player to move (or None). ``visits`` alone is valid too.

    - ``game`` is a :class:`~ttt_eval.checks.tables.GameTable`: ``game.step(board, action, again)``
      returns the next board, the mover's reward, and whether the game is over; ``game.again[i,
      action]`` is the probability of another turn, with ``i = game.index(board)``.
    - ``board`` is a tuple of numbers by cell: 1 a stone of the player to move, -1 of the other, 0
      empty.
    - ``evaluator`` is a :class:`~ttt_eval.checks.tables.PlantedEvaluator`: ``evaluator(board)``
      returns priors and the value for the player to move; None if the search plays rollouts.

    Whatever the search raises or prints is part of the result. The global generators of ``random``,
    ``numpy.random`` and torch are seeded for every call, and restored in the end.

    Args:
        search: the search.
        game: ``"turns"``, where stones on some cells give another turn; ``"plain"``, where turns
            alternate; ``"skip"``, where chance gives another turn.
        evaluator: ``"owned"`` for a search that evaluates leaves with the evaluator of the check;
            None for rollouts or an evaluation of its own.
        simulations: a small and a large number of simulations.
        seed: of positions, planted values and the search.
        board: ``"3x3"``, ``"4x4"``, ``"connect-four"`` (4 x 5), or a game of at most 31 cells, see
            :class:`~ttt_eval.checks.tables.GameTable`.
        batch: whether the search takes int8[B, cells] boards, and returns visits [B, A] and values
            [B]. ``game.index``, ``game.step`` and the evaluator take one board each; for the arrays
            of ``game`` and of the evaluator ``[game.index(board) for board in boards]`` has the
            rows of a batch.
        priors: whether the search uses priors of the evaluator; if not, they are equal, and not
            judged.
        limit_s: maximum s of a call, compiling included, after which the check ends; None for no
            limit.

    Raises:
        TypeError: the search is no function.
        ValueError: an option is unknown or out of range.
    """
    check_choice("evaluator", evaluator, ("owned", None))
    few, many = simulations
    check_range("simulations", few, 20, problem="are too few for a verdict")
    check_range("simulations", many, few, problem="are fewer than the small number")
    owned = evaluator is not None
    with open_check(
        _SearchCheck, search, game, board, owned=owned, seed=seed, batch=batch, limit_s=limit_s
    ) as check:
        return check.run(few, many, priors)


class _SearchCheck(Checker):
    """The rows of a check of a search."""

    causes: ClassVar[Mapping[str, str]] = {}
    """none: its patterns have causes of broken contracts too"""

    def run(self, few: int, many: int, priors: bool) -> Check:
        """Measure all rows, with a small and a large number of simulations."""
        self.few = few
        self.many = many
        size = len(self.zeros)
        self.generic_values = self.rng.uniform(-GENERIC, GENERIC, size)
        self.generic_priors = self.rng.dirichlet(np.full(self.table.num_actions, 5.0), size)
        self.is_repeatable = True
        self.is_solver = False
        self.root_free = min(ROOT_FREE, self.table.max_free)
        self.results = np.sign(self.table.values.round(9))
        self.finished = self.table.ended & (self.table.num_free >= 0)  # not that of no position
        what = "a search with rollouts"
        sections = [self.check_rollouts]
        unjudged = []
        if self.owned:
            what = "a search with a planted evaluator"
            sections = [self.check_repeats, self.check_signs, self.check_ends]
            if priors:
                sections += [self.check_priors, self.check_inner_priors]
            else:
                unjudged.append("priors")
                self.generic_priors = self.uniform
        elif self.table.turns == "plain":
            unjudged.append("second turns")
        sections = [
            self.check_results,
            self.check_moves,
            *sections,
            self.check_chance,
            self.check_leaves,
        ]
        if self.owned:
            sections.append(self.check_elsewhere)
        check = self.report(what, sections)
        if self.owned:
            return replace(check, right=no_error(unjudged))
        if np.isnan(self.facts.largest_error):
            unjudged.append("rollouts without values")
        return replace(check, right=f"{no_error(unjudged)}; {ROLLOUT_RATES}")

    def patterns(self, failed: set[str]) -> dict[str, bool]:
        """Return whether causes explain the failed rows, the likeliest first."""
        if not (self.is_evaluator_read or failed & {"rules", "time"}):
            return {NO_CALLS: True}
        return patterns(self.facts, failed)

    def contract_rows(self) -> list[CheckRow]:
        """Return the rows about errors, steps, time and the number of visits, after all calls."""
        missing = np.array(self.missing_visits)
        if missing.size:
            facts = self.facts
            is_most = facts.missing_share > MAX_MISSING_SHARE
            # without values it is not known whether it is a solver
            loses_most = is_most and facts.largest_error >= 0
            has_too_many = missing.min() < -TIE
            self.judge(
                "visits",
                f"simulations - visits: {missing.min():g} to {missing.max():g}",
                has_too_many or loses_most,
                0,
                notes=Notes(self.asked, "simulations - visits: {:g}", (missing,)),
                badness=np.abs(missing),
                rule="0 or more; in most positions at most half of the simulations",
            )
        if not self.is_evaluator_read:
            self.remark("evaluator", "the evaluator was never called")
        return super().contract_rows()

    # -- results and moves

    def _choose_signs(self, signs: Float64Array, mask: BoolArray, *options: Any) -> list[int]:
        """Return positions of each sign.

        Args:
            signs: of the positions, float64[N + 1].
            mask, options: see :meth:`choose`.
        """
        return [
            position
            for sign in RESULTS.values()
            for position in self.choose(mask & (signs == sign), *options)
        ]

    def _judge_values(
        self,
        name: str,
        text: str,
        positions: Sequence[int],
        values: Float64Array,
        errors: Float64Array,
        limit: float,
    ) -> tuple[dict[str, Float64Array], float]:
        """Add a row about errors of values; return the errors by the result, and their largest mean
        size.

        Args:
            name, limit: of the row.
            text: format of what was measured, with places for the means of wins, draws and losses.
            positions: rows of the table.
            values, errors: float64[B], of the positions.
        """
        results = self.results[positions]
        parts = {result: errors[results == sign] for result, sign in RESULTS.items()}
        means = [mean_of(part) for part in parts.values()]
        # a wrong result of a draw can be a win and a loss in turn, with the mean 0
        size = np.fmax.reduce([*np.abs(means), mean_of(np.abs(parts["draws"]))])
        self.judge(
            name,
            text.format(*means),
            size,
            limit,
            notes=Notes(positions, VALUE_NOTE, (values, self.table.values[positions])),
            badness=np.abs(errors),
        )
        return parts, size

    def check_leaves(self) -> None:
        """Values after few simulations where play does not change the result: those of leaves."""
        table = self.table
        is_sure = table.forced & (table.num_free > 1) & (table.values == self.results)
        # the more free cells, the fewer simulations end the game
        positions = self._choose_signs(self.results, is_sure, NUM_RESULTS, -table.num_free)
        truth = table.values[positions]
        values = self.ask("leaves", positions, table.values, LEAF_SIMULATIONS).values
        # a search may divide by one more, the simulation that makes the root
        errors = np.abs(values - np.clip(values, *np.sort([truth, LEAF_SHARE * truth], axis=0)))
        _, self.facts.leaf_error = self._judge_values(
            "leaves",
            f"mean error of values after {LEAF_SIMULATIONS} simulations: "
            "wins {:.2f}, draws {:.2f}, losses {:.2f}",
            positions,
            values,
            errors,
            MAX_LEAF_ERROR[self.owned],
        )

    def check_results(self) -> None:
        """Values where play does not change the result, with true values planted."""
        table = self.table
        late = table.forced & (table.num_free <= LATE_FREE + 1)
        facts = self.facts
        positions = self.result_positions = self._choose_signs(self.results, late, NUM_RESULTS)
        values = self.ask("results", positions, table.values, self.many // 2).values
        facts.value_range = np.ptp(finite(values))
        results = self.results[positions]
        errors = values - table.values[positions]
        parts, facts.largest_error = self._judge_values(
            "results",
            "mean of value - truth: wins {:+.2f}, draws {:+.2f}, losses {:+.2f}",
            positions,
            values,
            errors,
            MAX_RESULT_ERROR[table.turns],
        )
        facts.errors = {name: mean_of(part) for name, part in parts.items()}
        facts.draw_error = mean_of(np.abs(parts["draws"]))
        facts.win_size = mean_of(np.abs(values[results == RESULTS["wins"]]))
        facts.errors_by_parity = [
            self.by_parity(positions, np.where(results == RESULTS[name], np.abs(errors), nan))
            for name in ("wins", "losses")
        ]

    def check_chance(self) -> None:
        """Difference of wrong values between seeds."""
        is_wrong = self.facts.largest_error > MAX_RESULT_ERROR["skip"]
        if self.table.turns == "skip" and is_wrong and not self.broken["rules"]:
            values = [
                self.ask(name, self.result_positions, self.table.values, self.many // 2).values
                for name in ("chance 0", "chance 1", "chance 2", "chance 3")
            ]
            self.facts.spread = np.ptp(values, axis=0).max()

    def _missing_share(self, positions: Sequence[int], answers: SearchAnswers) -> float:
        """Return the median share of visits that are missing in positions that are not solved, in
        which a solver may stop early.
        """
        visits = answers.visits.sum(axis=1)
        is_solved = np.abs(answers.values - self.table.values[positions]) < TIE
        are_shares = visits <= 1 + TIE
        return median_of(np.where(is_solved | are_shares, nan, 1 - visits / self.many))

    def check_moves(self) -> None:
        """Moves near the end, and anywhere, without knowledge and with true values planted."""
        table = self.table
        facts = self.facts
        is_late = table.moves_differ & (table.num_free <= LATE_FREE)
        late = self.choose(is_late)
        # a third more of those in which a move wins later, as after a second turn
        wins_later = ~table.wins & (table.values > MIN_WON_VALUE)
        more = [position for position in late[NUM_POSITIONS:] if wins_later[position]]
        late = late[:NUM_POSITIONS] + more[: NUM_POSITIONS // 3]
        answers, losses = self.judge_moves(
            "near the end", late, self.zeros, self.many, MAX_LATE_LOSS
        )
        excess = normalise(np.maximum(answers.visits, TIE)) - normalise(table.legal[late])
        facts.visit_excess = median_of(np.abs(excess).max(axis=1)[:NUM_POSITIONS])
        # means of simulations that try other moves too are not exact
        certain = (np.abs(table.values[late]) > 1 - TIE) & ~table.wins[late]
        exact = np.abs(answers.values - table.values[late]) < TIE
        self.is_solver = mean_of(exact[certain]) > MIN_SOLVED_SHARE
        shares = losses / table.random_losses[late]
        facts.late_share_by_parity = self.by_parity(late[:NUM_POSITIONS], shares[:NUM_POSITIONS])
        middle = (table.num_free >= LATE_FREE) & (table.num_free <= ROOT_FREE)
        positions = self.choose(table.moves_differ & middle, NUM_POSITIONS)
        random_loss = mean_of(table.random_losses[positions])
        limit = MAX_UNTOLD_SHARE * random_loss
        untold, _ = self.judge_moves("without knowledge", positions, self.zeros, self.many, limit)
        shares = [self._missing_share(late, answers), self._missing_share(positions, untold)]
        facts.missing_share = finite(shares).max()
        is_trap = (table.num_free <= LATE_FREE + 1) & (table.traps > -np.inf)
        traps = self.choose(is_trap, NUM_POSITIONS, -table.traps)
        self.judge_moves("traps", traps, self.zeros, self.many, MAX_LATE_LOSS)
        all_positions, moves = np.transpose(self.made_moves)
        total = np.nansum(table.losses[all_positions, moves])
        if total > TIE:
            shares = table.mistaken_losses[:, all_positions, moves].sum(axis=1) / total
            facts.alternating_share = shares[:2].min()
            facts.depth_share = shares[1:3].min()
            facts.root_view_share = shares[3]
        if self.owned:
            limit = MAX_TOLD_SHARE * random_loss
            _, losses = self.judge_moves("told the truth", positions, table.values, self.few, limit)
            facts.told_share = mean_of(losses) / random_loss

    def check_rollouts(self) -> None:
        """Values after few rollouts, against the mean result of random play."""
        table = self.table
        is_clear = (np.abs(table.random_values) > MIN_RANDOM_VALUE) & (table.legal.sum(axis=1) >= 4)
        positions = self._choose_signs(np.sign(table.random_values), is_clear, 2 * NUM_POSITIONS)
        truth = table.random_values[positions]
        values = self.ask("rollouts", positions, None, ROLLOUT_SIMULATIONS).values
        # the value of the chosen move, which had the luckiest rollouts, is too large anywhere
        deviations = truth - mean_of(truth)
        slope = mean_of(values * deviations) / mean_of(deviations**2)
        is_exact = np.abs(values - table.values[positions]) < TIE
        if is_exact.mean() > MIN_SOLVED_SHARE:  # no rollouts
            slope = nan
        note = "the value is {:+.2f}, that of random play {:+.2f}"
        self.judge(
            "rollouts",
            f"values after {ROLLOUT_SIMULATIONS} rollouts rise {slope:.2f} times "
            "as those of random play",
            slope,
            MIN_ROLLOUT_SLOPE,
            notes=Notes(positions, note, (values, truth)),
            badness=-values * deviations,
            minimum=True,
        )

    # -- the root's response

    def _roots(self, free: int, count: int = NUM_ROOTS) -> list[int]:
        return self.choose(~self.table.ended & (self.table.num_free == free), count)

    def _response(
        self,
        name: str,
        root: int,
        mask: BoolArray | Float64Array,
        simulations: int = SIGN_SIMULATIONS,
        scale: float = 1.0,
        priors: Float64Array | None = None,
    ) -> float:
        """Return the response of the root's value to values planted at a mask; NaN without
        values, or where they are not repeatable.
        """
        base = scale * self.generic_values
        priors = self.generic_priors if priors is None else priors
        up, down = (
            self.ask(name, [root], base + sign * mask, simulations, priors).values[0]
            for sign in (PLANT, -PLANT)
        )
        return float(up - down) / (2 * PLANT) if self.is_repeatable else nan

    def check_repeats(self) -> None:
        """Whether the same seed gives the same answer, and another seed nearly the same."""
        roots = self._roots(self.root_free, NUM_REPEATED)
        first, again, other = (
            self.ask(name, roots, self.generic_values, SIGN_SIMULATIONS, self.generic_priors)
            for name in ("repeatable", "repeatable", "noise")
        )
        self.is_repeatable = all(map(np.array_equal, first, again, [False, True]))
        if not self.is_repeatable:
            self.remark("repeatable", "the same seed gives other visits or values")
            return
        moved = np.abs(first.visits - other.visits).sum() / max(TIE, 2 * first.visits.sum())
        if self.table.turns != "skip" and moved > NOISE_SHARE:
            self.remark(
                "noise",
                f"another seed moves {moved:.0%} of the visits, without ties and chance: noise at "
                "the root, or random moves",
            )

    def check_signs(self) -> None:
        """Signs of the response to planted values, by depth and mover."""
        roots = self._roots(self.root_free) + self._roots(self.root_free - 1)
        own = []
        weights = np.zeros((len(roots), len(GROUPS)))
        for b, root in enumerate(roots):
            depths, movers = self.table.depths(root)
            own.append(self._response("own value", root, depths == 0, OWN_SIMULATIONS))
            weights[b] = [
                self._response("signs", root, (depths == depth) & (movers == same))
                for depth, same in zip(DEPTHS, SAME, strict=True)
            ]
        clear = np.array([median_of(numbers) for numbers in np.abs(weights.T)]) > MIN_RESPONSE
        odd = self.table.odd[roots]
        sums = np.array([np.nansum(np.sign(weights[part]), axis=0) for part in (~odd, odd)])
        agreement = weights * RIGHT_SIGNS
        least = agreement.min(axis=1)
        facts = self.facts
        facts.own_weight = float(finite(own).min())
        facts.sign_pattern = sign_cause(np.sign(sums) * (clear & (np.abs(sums) > 2)), facts)
        # of most roots a value may be proved, which leaves do not change
        is_blind = not (self.is_solver or (np.abs(weights[:, 2:]) > MIN_RESPONSE).any())
        if is_blind and not facts.sign_pattern:
            facts.sign_pattern = NO_LEAVES
        text = ", ".join(
            f"{GROUPS[g]} {median_of(weights[:, g]):+.2f}" for g in np.flatnonzero(clear)
        )
        if self.is_solver:
            text += "; it solves positions"
        has_values = np.isfinite(own).any()
        self.judge(
            "signs",
            f"response by depth and mover: {text}",
            bool(facts.sign_pattern) if has_values else nan,
            0,
            notes=Notes(
                roots,
                "the response at {}, times its right sign, is {:+.2f}",
                (np.array(GROUPS)[agreement.argmin(axis=1)], least),
            ),
            badness=-least,
            rule="+ for the same mover, - for the other",
        )
        if self.table.turns != "plain" and (clear[2:].any() or is_blind):
            is_searched = bool((clear & (RIGHT_SIGNS != DEPTH_SIGNS)).any())
            self.judge(
                "second turns",
                "searched" if is_searched else "never searched",
                is_searched if has_values else nan,
                1,
                minimum=True,
                notes=Notes(roots, "a move here can give another turn"),
                badness=np.zeros(len(roots)),
                rule="searched",
            )
        self.remark(
            "own value",
            f"the root's own evaluation has the weight {median_of(own):+.2f} after "
            f"{OWN_SIMULATIONS} simulations",
        )

    def _judge_responses(
        self, name: str, place: str, masks: Mapping[int, BoolArray], limit: float
    ) -> None:
        """Add a row about the mean response to values planted at masks, by the root.

        Args:
            name, limit: of the row.
            place: where the values are planted, in words.
            masks: bool[N + 1] each.
        """
        responses = np.abs([self._response(name, root, mask) for root, mask in masks.items()])
        response = mean_of(responses)
        self.judge(
            name,
            f"response {response:.2f} to values planted {place}",
            response,
            limit,
            notes=Notes([*masks], "the response is {:.2f}", (responses,)),
            badness=responses,
        )

    def check_ends(self) -> None:
        """Response to values planted at finished positions."""
        table = self.table
        late = table.num_free <= LATE_FREE + 1
        masks = table.moves_differ & table.wins, table.forced & (self.results == 0)
        positions = [position for mask in masks for position in self.choose(late & mask, NUM_ENDS)]
        self._judge_responses(
            "ends",
            "at finished positions",
            dict.fromkeys(positions, self.finished),
            MAX_END_RESPONSE,
        )

    def check_elsewhere(self) -> None:
        """Response to values planted where no play leads from the root, and at no position."""
        roots = self._roots(self.root_free) + self._roots(self.root_free - 1)
        masks = {root: (self.table.depths(root)[0] < 0) & ~self.finished for root in roots}
        self._judge_responses("elsewhere", "where no play leads", masks, MIN_RESPONSE)

    # -- priors

    def _shifted_roots(self, mask: BoolArray, count: int) -> list[int]:
        """Return positions; first those where action 0 is illegal, so that no move has the
        place among legal moves that it has among all, and undecided ones, whose value a solver does
        not prove.
        """
        table = self.table
        is_decided = np.abs(table.values) > 1 - TIE
        return self.choose(mask & ~table.ended, count, 2 * table.legal[:, 0] + is_decided)

    def _likely(self, move: int, prior: float) -> Float64Array:
        """Return priors with one likely move, float64[A]."""
        num_actions = self.table.num_actions
        others = (1 - prior) / (num_actions - 1)
        return np.where(np.arange(num_actions) == move, prior, others)

    def check_priors(self) -> None:
        """Visits of a move with a large prior."""
        table = self.table
        num_placed = self.root_free - table.num_free
        positions = self._shifted_roots(
            ~table.wins & np.isin(num_placed, (0, 1, 2)), NUM_PRIOR_ROOTS
        )
        leads = []
        for position in positions:
            move = int(self.rng.choice(np.flatnonzero(table.losses[position] < TIE)))
            shares = []
            for prior in (1 / table.num_actions, LARGE_PRIOR):
                priors = self.uniform.copy()
                priors[position] = self._likely(move, prior)
                answers = self.ask("priors", [position], self.zeros, PRIOR_SIMULATIONS, priors)
                visits = answers.visits[0]
                shares.append(visits / max(1.0, visits.sum()))
            gains = shares[1] - shares[0]
            leads.append(gains[move] - np.delete(gains, move).max())
        lead = mean_of(leads)
        proves_moves = self.is_solver and lead < MIN_PRIOR_GAIN  # which need no priors
        self.judge(
            "priors",
            f"a move of prior {LARGE_PRIOR} gains {lead:+.2f} of the visits, more than any other",
            nan if proves_moves else lead,
            MIN_PRIOR_GAIN,
            notes=Notes(positions, "it gains {:+.2f} more than any other", (leads,)),
            badness=-np.array(leads),
            minimum=True,
        )

    def check_inner_priors(self) -> None:
        """Response at depth 2 below a reply with a large prior. Without it nothing is judged."""
        table = self.table
        gains = {}
        is_quiet = ~table.wins & ~table.wins[table.next].any(axis=(1, 2))
        is_root = is_quiet & (table.num_free == self.root_free - 1)
        for root in self._shifted_roots(is_root, NUM_INNER_ROOTS):
            move = int(self.rng.choice(np.flatnonzero(table.legal[root])))
            depth, same = table.depths(root)
            cell = action_to_cell(table.game, table.boards[root] % 3, move)
            mask = np.where(same, 1.0, -1.0) * (depth == 2)
            shares = []
            for prior in (TINY_PRIOR, DOMINANT_PRIOR):
                priors = np.tile(self._likely(move, prior), (len(table.boards), 1))
                priors[root] = self._likely(move, TINY_PRIOR)
                below, total = (
                    abs(
                        self._response(
                            "inner priors", root, part, INNER_SIMULATIONS, INNER_SCALE, priors
                        )
                    )
                    for part in (mask * (table.boards[:, cell] != 0), mask)
                )
                shares.append(below / total if total > MIN_INNER_RESPONSE else nan)
            gains[root] = shares[1] - shares[0]
        numbers = np.array([*gains.values()])
        if np.isfinite(numbers).sum() >= MIN_INNER_ROOTS and not self.is_solver:
            gain = median_of(numbers)
            note = f"a reply of prior {DOMINANT_PRIOR} gains {{:+.2f}} of the evaluations"
            self.judge(
                "inner priors",
                note.format(gain),
                gain,
                MIN_INNER_GAIN,
                notes=Notes([*gains], note, (numbers,)),
                badness=-numbers,
                minimum=True,
            )
