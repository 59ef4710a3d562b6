"""Is a search right? A check against planted and exact values."""

from __future__ import annotations

from collections.abc import Callable
from math import nan
from typing import Any

import numpy as np

from ttt_envs.core.checks import check_choice, check_range
from ttt_envs.core.jit import BoolArray, Float64Array
from ttt_envs.game.game import Game
from ttt_eval.checks.causes import NO_LEAVES, Group, find_causes, right_sign, sign_cause
from ttt_eval.checks.check import Check, CheckRow
from ttt_eval.checks.session import Checker, Session, finite, mean_of, median_of, open_session
from ttt_eval.checks.tables import TIE, Turns

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
LATE_FREE = 3
"""Largest number of free cells near the end."""
SIGN_SIMULATIONS = 100
"""Number of simulations after which the root's value responds to planted values."""
PLANT = 1e-4
"""Size of planted differences: so small that a search visits the same positions."""
GENERIC = 0.2
"""Size of the values to which differences are added: without ties, which a plant would break."""
MIN_RESPONSE = 0.004
"""Smaller responses are no evidence."""

MAX_RESULT_ERROR = {"plain": 0.05, "turns": 0.05, "skip": 0.10}
"""Maximum mean error of values by the result."""
MAX_LATE_LOSS = 0.07
"""Maximum mean loss of moves near the end."""
MAX_UNTOLD_SHARE = 0.5
"""Maximum mean loss without knowledge, as a share of that of random moves."""
MAX_TOLD_SHARE = 0.45
"""Maximum mean loss with true values, as a share of that of random moves."""
MAX_END_RESPONSE = 0.02
"""Maximum response to values planted at finished positions, which differ by 1."""
MIN_PRIOR_GAIN = 0.04
"""Minimum gain in the share of visits of a move with a large prior."""
MIN_INNER_SHARE = 0.04
"""Minimum share of the response at depth 2 below a move with a large prior."""
MIN_ROLLOUT_SLOPE = 0.2
"""Minimum slope of the root's value in the mean result of random play; 1 is expected."""
MIN_SOLVED_SHARE = 0.7
"""Share of exact values near the end from which a search solves positions."""
GROUPS: tuple[Group, ...] = tuple((depth, same) for depth in (1, 2, 3) for same in (False, True))
"""Groups of positions below a root."""
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
            [B].
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
    with open_session(
        search, game, board, owned=owned, seed=seed, batch=batch, limit_s=limit_s
    ) as session:
        return _SearchCheck(session, few, many).run()


class _SearchCheck(Checker):
    """The rows of a check of a search."""

    def __init__(self, session: Session, few: int, many: int) -> None:
        super().__init__(session)
        self.few = few
        self.many = many
        size = len(session.zeros)
        self.generic_values = self.rng.uniform(-GENERIC, GENERIC, size)
        self.generic_priors = self.rng.dirichlet(np.full(self.table.num_actions, 5.0), size)
        self.is_repeatable = True
        self.is_solver = False
        self.root_free = min(ROOT_FREE, int(self.table.num_free.max()))

    def run(self) -> Check:
        """Measure all rows."""
        sections = [self.check_results, self.check_moves, self.check_rollouts]
        if self.session.owned:
            sections[2:] = [self.check_repeats, self.check_signs, self.check_ends]
            sections += [self.check_priors, self.check_inner_priors]
        rows = [*self.measure(sections), *self.visit_rows()]
        leaves = "a planted evaluator" if self.session.owned else "rollouts"
        subject = f"a search with {leaves}, game {self.table.turns} on {self.table.game}"
        return Check(subject, rows, find_causes(self.facts, rows))

    def visit_rows(self) -> list[CheckRow]:
        """Return the row about the number of visits, after all calls."""
        missing = self.session.missing_visits
        if not missing:
            return []
        extra = -np.array(missing)
        self.facts.extra_visits = extra.max()
        text = f"simulations - visits: {min(missing):g} to {max(missing):g}"
        if extra.max() <= TIE:
            return [CheckRow("visits", text, "remark", "0 or more")]
        evidence = self.show(
            self.session.asked, extra, lambda b: f"visits above the simulations: {extra[b]:g}"
        )
        return [CheckRow("visits", text, "fails", "0 or more", tuple(evidence))]

    # -- results and moves

    def check_results(self) -> None:
        """Values where play does not change the result, with true values planted."""
        table = self.table
        late = table.forced & (table.num_free <= LATE_FREE + 1)
        signs = np.sign(table.values.round(9)).astype(int)
        rows = [
            row for sign in (1, 0, -1) for row in self.choose(late & (signs == sign), NUM_RESULTS)
        ]
        values = self.session.ask(rows, table.values, self.many // 2, 0).values
        errors = values - table.values[rows]
        self.facts.errors = {sign: mean_of(errors[signs[rows] == sign]) for sign in (1, 0, -1)}
        # a wrong result of a draw can be a win and a loss in turn, with the mean 0
        self.facts.draw_error = mean_of(np.abs(errors[signs[rows] == 0]))
        of_wins, of_losses = (
            np.array(self.by_parity(rows, np.where(signs[rows] == sign, np.abs(errors), nan)))
            for sign in (1, -1)
        )
        self.facts.error_by_parity = tuple(np.fmin(of_wins, of_losses).tolist())
        names = {1: "wins", 0: "draws", -1: "losses"}
        means = ", ".join(f"{names[sign]} {self.facts.errors[sign]:+.2f}" for sign in names)
        self.judge(
            "results", f"mean of value - truth: {means}",
            self.facts.largest_error, MAX_RESULT_ERROR[table.turns],
            self.show(rows, np.abs(errors), lambda b: (
                f"the value is {values[b]:+.2f}, the truth {table.values[rows[b]]:+.2f}"
            )),
        )  # fmt: skip

    def check_moves(self) -> None:
        """Moves near the end, and anywhere, without knowledge and with true values planted."""
        table = self.table
        session = self.session
        facts = self.facts
        late = self.choose(table.moves_differ & (table.num_free <= LATE_FREE), NUM_POSITIONS)
        first = len(session.missing_visits)
        answers, moves, losses = self.judge_moves(
            "near the end", late, session.zeros, self.many, MAX_LATE_LOSS, 1
        )
        facts.missing_share = median_of(session.missing_visits[first:]) / self.many
        facts.late_loss = mean_of(losses)
        # means of simulations that try other moves too are not exact
        certain = (np.abs(table.values[late]) > 1 - TIE) & (table.reward[late].max(axis=1) == 0)
        exact = np.abs(answers.values - table.values[late]) < TIE
        self.is_solver = mean_of(exact[certain]) > MIN_SOLVED_SHARE
        facts.late_share_by_parity = self.by_parity(late, losses / table.random_losses[late])
        if session.batch and facts.late_loss > MAX_LATE_LOSS:
            answers = session.ask(late, session.zeros, self.many, 100, batch=False)
            facts.late_loss_alone = mean_of(session.moves(late, answers)[1])
        middle = (table.num_free >= LATE_FREE) & (table.num_free <= ROOT_FREE)
        rows = self.choose(table.moves_differ & middle, NUM_POSITIONS)
        random_loss = mean_of(table.random_losses[rows])
        limit = MAX_UNTOLD_SHARE * random_loss
        _, untold_moves, untold = self.judge_moves(
            "without knowledge", rows, session.zeros, self.many, limit, 200
        )
        moves = np.concatenate([moves, untold_moves])
        total = np.nansum(losses) + np.nansum(untold)
        shares = [
            (np.nanmax(values, axis=1) - values[np.arange(len(moves)), moves]).sum() / total
            for values in (table.alternating[:, late + rows] if total > TIE else ())
        ]
        facts.alternating_share = min(shares, default=nan)
        if session.owned:
            limit = MAX_TOLD_SHARE * random_loss
            *_, losses = self.judge_moves(
                "told the truth", rows, table.values, self.few, limit, 300
            )
            facts.told_share = mean_of(losses) / random_loss

    def check_rollouts(self) -> None:
        """Values after few rollouts, against the mean result of random play."""
        table = self.table
        # few rollouts still see both results
        clear = (np.abs(table.random_values) > 0.3) & (table.legal.sum(axis=1) >= 4)
        rows = self.choose(clear, 2 * NUM_POSITIONS)
        truth = table.random_values[rows]
        values = self.session.ask(rows, self.session.zeros, 8, 900).values
        slope = mean_of(values * truth) / mean_of(truth**2)
        self.judge(
            "rollouts", f"values after 8 rollouts are {slope:.2f} times those of random play",
            slope, MIN_ROLLOUT_SLOPE,
            self.show(rows, -values * truth, lambda b: (
                f"the value is {values[b]:+.2f}, that of random play {truth[b]:+.2f}"
            )),
            minimum=True,
        )  # fmt: skip

    # -- the root's response

    def _roots(self, free: int, count: int = NUM_ROOTS) -> list[int]:
        return self.choose(~self.table.ended & (self.table.num_free == free), count)

    def _response(
        self,
        root: int,
        mask: BoolArray | Float64Array,
        salt: int,
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
            self.session.ask([root], base + sign * mask, simulations, salt, priors).values[0]
            for sign in (PLANT, -PLANT)
        )
        return float(up - down) / (2 * PLANT) if self.is_repeatable else nan

    def check_repeats(self) -> None:
        """Whether the same seed gives the same answer, and another seed nearly the same."""
        roots = self._roots(self.root_free, 3)
        first, again, other = (
            self.session.ask(
                roots, self.generic_values, SIGN_SIMULATIONS, salt, self.generic_priors
            )
            for salt in (400, 400, 410)
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
        odd = self.is_odd(roots)
        below = [self.table.depths(root) for root in roots]
        own = [
            self._response(root, depth == 0, 500, 10)
            for root, (depth, _) in zip(roots, below, strict=True)
        ]
        weights = np.array(
            [
                [
                    self._response(root, (depths == depth) & (movers == same), 510)
                    for root, (depths, movers) in zip(roots, below, strict=True)
                ]
                for depth, same in GROUPS
            ]
        )
        clear = {
            group: median_of(numbers)
            for group, numbers in zip(GROUPS, weights, strict=True)
            if median_of(np.abs(numbers)) > MIN_RESPONSE
        }
        views = [
            {
                group: int(np.sign(votes))
                for group, votes in zip(
                    GROUPS, np.nansum(np.sign(weights[:, part]), axis=1), strict=True
                )
                if group in clear and abs(votes) > 2
            }
            for part in (~odd, odd)
        ]
        badness = -weights * [[right_sign(*group)] for group in GROUPS]
        worst = badness.argmax(axis=0)

        def note(b: int) -> str:
            depth, same = GROUPS[worst[b]]
            whose = "the root's mover" if same else "the other player"
            weight = weights[worst[b], b]
            return f"a value {depth} deep, with {whose} to move, has the weight {weight:+.2f}"

        facts = self.facts
        facts.own_weight = float(finite(own).min())
        facts.sign_pattern = sign_cause(views[0], views[1], facts)
        deep = max((depth for depth, _ in clear), default=0) > 1
        # of most roots a value may be proved, which leaves do not change
        is_reached = bool((np.abs(weights[2:]) > MIN_RESPONSE).any())
        if not is_reached and not self.is_solver and not facts.sign_pattern:
            facts.sign_pattern = NO_LEAVES
        text = ", ".join(
            f"{depth} {'same' if same else 'other'} {clear[depth, same]:+.2f}"
            for depth, same in sorted(clear)
        )
        if self.is_solver:
            text += "; it solves positions"
        known = 0.0 if np.isfinite(own).any() else nan
        self.judge(
            "signs",
            f"response by depth and mover: {text}",
            known + bool(facts.sign_pattern),
            0,
            self.show(roots, badness.max(axis=0), note),
            rule="+ for the same mover, - for the other",
        )
        if self.table.turns != "plain" and (deep or not (is_reached or self.is_solver)):
            seen = [same != (depth % 2 == 0) for depth, same in clear]
            text = "searched" if any(seen) else "never searched"
            evidence = [self.table.evidence(roots[0], "a move here can give another turn")]
            self.judge("second turns", text, known - any(seen), -1, evidence, rule="searched")
        self.remark("own value", f"the root's own evaluation has the weight {median_of(own):+.2f} "
                    "after 10 simulations")  # fmt: skip

    def check_ends(self) -> None:
        """Response to values planted at finished positions."""
        table = self.table
        wins = table.reward.max(axis=1) > 0
        rows = self.choose(table.moves_differ & (table.num_free <= LATE_FREE + 1) & wins, 5)
        high, low = (
            self.session.ask(rows, np.where(table.ended, value, 0.0), SIGN_SIMULATIONS, 600).values
            for value in (0.5, -0.5)
        )
        responses = np.abs(high - low)
        self.judge(
            "ends", f"response {mean_of(responses):.2f} to values planted at finished positions",
            mean_of(responses), MAX_END_RESPONSE,
            self.show(rows, responses, lambda b: f"the response is {responses[b]:.2f}"),
        )  # fmt: skip

    # -- priors

    def _likely(self, move: int, prior: float) -> Float64Array:
        """Return priors with one likely move, float64[A]."""
        priors = np.full(self.table.num_actions, (1 - prior) / (self.table.num_actions - 1))
        priors[move] = prior
        return priors

    def check_priors(self) -> None:
        """Visits of a move with a large prior, and with a large prior of illegal moves."""
        table = self.table
        session = self.session
        quiet = ~table.ended & (table.reward.max(axis=1) == 0)
        early = (table.num_free <= self.root_free) & (table.num_free >= self.root_free - 2)
        undecided = np.abs(table.values) < 1 - TIE  # else a solver needs no priors
        rows = [*self.choose(quiet & early & undecided, 6), *self.choose(quiet & early, 6)][:6]
        gains = []
        for row in rows:
            move = int(self.rng.choice(np.flatnonzero(table.losses[row] < TIE)))
            illegal = np.where(table.legal[row], 0.01, 1.0)
            shares = []
            for priors_of_row in (session.uniform[row], self._likely(move, 0.8), illegal):
                priors = session.uniform.copy()
                priors[row] = priors_of_row / priors_of_row.sum()
                visits = session.ask([row], session.zeros, 30, 700, priors).visits[0]
                shares.append(visits[move] / max(1.0, visits.sum()))
            gains.append(shares[1] - shares[0])
        gain = mean_of(gains)
        self.judge(
            "priors", f"a move of prior 0.8 gains {gain:+.2f} of the visits",
            # proved moves need no priors
            nan if self.is_solver and gain < MIN_PRIOR_GAIN else gain, MIN_PRIOR_GAIN,
            self.show(rows, -np.array(gains), lambda b: f"the gain is {gains[b]:+.2f}"),
            minimum=True,
        )  # fmt: skip

    def check_inner_priors(self) -> None:
        """Response at depth 2 below a reply with a large prior. Without it nothing is judged."""
        table = self.table
        shares = []
        roots = self._roots(self.root_free, 6)
        for root in roots:
            move = int(self.rng.choice(np.flatnonzero(table.legal[root])))
            depth, same = table.depths(root)
            priors = np.tile(self._likely(move, 0.9), (len(table.boards), 1))
            priors[root] = self._likely(move, 1e-3)
            cell = table.landing_cells(table.boards[[root]])[0, move]
            mask = np.where(same, 1.0, -1.0) * (depth == 2)
            below, total = (
                abs(self._response(root, part, 800, 60, 0.25, priors))
                for part in (mask * (table.boards[:, cell] != 0), mask)
            )
            if total > 0.15:  # less where replies are forced
                shares.append(below / total)
        if len(shares) >= 4 and not self.is_solver:
            share = median_of(shares)
            text = f"a reply of prior 0.9 has {share:.2f} of the evaluations"
            evidence = [self.table.evidence(roots[0], text)]
            self.judge("inner priors", text, share, MIN_INNER_SHARE, evidence, minimum=True)
