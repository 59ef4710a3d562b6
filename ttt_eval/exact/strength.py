"""Exact strength of a policy and its worst positions, as shown on the page of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from baselines.exact import MAX_SOLVER_CELLS, Solution, solve
from ttt_envs.agents.policy import VALUE_TOLERANCE, Policy, best_moves
from ttt_envs.agents.specs import make_pure
from ttt_envs.core.checks import check_range
from ttt_envs.core.hash_index import distinct_rows
from ttt_envs.core.jit import Float64Array, Int8Array, Int64Array
from ttt_envs.core.records import concatenate
from ttt_envs.core.work import DEFAULT_WORK, Work
from ttt_envs.game.boards import Boards, draw_text, position_words, to_text
from ttt_envs.game.game import Game, Position
from ttt_envs.game.phantom import AnyGame
from ttt_envs.game.symmetry import canonical_keys, symmetries
from ttt_envs.graph.layers import Traversal
from ttt_eval.exact.measurement import (
    Measurement,
    RegretRow,
    expected_losses,
    has_mean_loss,
    has_regret,
    mean_regret,
    visits,
)
from ttt_eval.exact.results import Exploitation, OutcomeProbabilities, in_seats
from ttt_eval.store.metrics import LOSSES, RATES

__all__ = ["Strength", "strength", "training_callback", "worst_positions"]


class Strength(NamedTuple):
    """Exact strength of a policy."""

    responders: Exploitation
    """results of the best responders"""
    regret_by_stones: Sequence[RegretRow]
    """loss of value in self-play; empty where the board is too large to solve, or stones are hidden
    """
    seats: Mapping[str, tuple[OutcomeProbabilities, OutcomeProbabilities]]
    """by opponent: its results moving first, and moving second"""
    mean_loss: float | None = None
    """see :func:`~ttt_eval.exact.mean_loss`; None on large boards, and where stones are hidden"""

    @property
    def exploitability(self) -> float:
        """A best responder's gain over the value of the game, mean of both seats: 0 is perfect."""
        return self.responders.exploitability

    @property
    def gains(self) -> tuple[float, float] | None:
        """A best responder's gain over perfect play, moving first and second: the policy's weakness
        as second and as first player; None where regret is.
        """
        return self.responders.gains

    @property
    def regret(self) -> float | None:
        """Mean loss of value per move in self-play; None where it is not known."""
        return mean_regret(self.regret_by_stones) if self.regret_by_stones else None

    @property
    def measures(self) -> dict[str, float]:
        """The known ones of :data:`ttt_eval.store.metrics.LOSSES`, by name."""
        values = {name: getattr(self, name) for name in LOSSES}
        return {name: value for name, value in values.items() if value is not None}

    @property
    def results(self) -> dict[str, OutcomeProbabilities]:
        """Results by opponent, the mean over both seats."""
        return {opponent: self.result(opponent) for opponent in self.seats}

    def result(self, opponent: str, seat: int | None = None) -> OutcomeProbabilities:
        """Return the result against an opponent in a seat, 0 or 1; for None the mean over both."""
        first, second = self.seats[opponent]
        return first.mean(second) if seat is None else self.seats[opponent][seat]

    @property
    def perfect(self) -> bool:
        """Whether a best responder gains no more than against perfect play, up to rounding."""
        return self.exploitability <= VALUE_TOLERANCE


class PolicyChoice(NamedTuple):
    """A policy's move probabilities and values in one position, with the exact values."""

    position: Position
    probabilities: Float64Array
    """float64[cells]: probabilities of its moves"""
    own: Float64Array | None
    """float64[cells]: the policy's own action values for the mover, NaN where illegal; None if it
    has none
    """
    exact: Float64Array | None
    """float64[cells]: exact action values, NaN where illegal; None where the game is not solved"""

    @property
    def best(self) -> Int64Array:
        """int64[N]: the cells of the best moves; empty if unknown."""
        if self.exact is None:
            return np.zeros(0, np.int64)
        return best_moves(self.exact)

    @property
    def loss(self) -> float | None:
        """Expected loss of value by the move; None where the game is not solved."""
        if self.exact is None:
            return None
        return float(expected_losses(self.exact[None], self.probabilities[None])[0])

    @property
    def played(self) -> Int64Array:
        """int64[N]: the cells with positive probability, in descending order of it."""
        cells = np.flatnonzero(self.probabilities > 0)
        return cells[np.argsort(-self.probabilities[cells], kind="stable")]

    def to_dict(self, game: AnyGame) -> dict[str, Any]:
        """Return the fields of :class:`ttt_eval.matches.results.ChosenMoves`."""
        shares = self.probabilities[self.played].tolist()
        return {
            "position": to_text(self.position, game),
            "moves": dict(zip(self.played.tolist(), shares, strict=True)),
            "best": None if self.exact is None else self.best.tolist(),
            "loss": self.loss,
        }


class Mistake(NamedTuple):
    """A position in which a policy loses value."""

    choice: PolicyChoice
    loss: float
    """expected loss of value by its move there"""
    likely: float
    """the probability that a game reaches the position"""
    position: str
    """as text, see ``ttt_envs.from_text``"""

    @property
    def cost(self) -> float:
        """Expected loss per game at this position."""
        return self.loss * self.likely

    def __str__(self) -> str:
        played = self.choice.played.tolist()
        best = self.choice.best.tolist()
        return draw_text(self.position, f"plays {played}, loses {self.loss:.3f}; best: {best}")


class Mistakes(list[Mistake]):
    """Positions in which a policy loses value, the worst first; printed, each is a board.

    Args:
        mistakes: the positions.
        note: what the list does not show, printed after it.
    """

    def __init__(self, mistakes: Iterable[Mistake], note: str) -> None:
        super().__init__(mistakes)
        self.note = note

    def __str__(self) -> str:
        return "\n\n".join(filter(None, [*map(str, self), self.note]))


class Difference(NamedTuple):
    """A position in which two policies play differently."""

    a: PolicyChoice
    b: PolicyChoice
    difference: float
    """total variation distance: half the sum over moves of the differences of their probabilities
    """
    likely: float
    """the probability that a game between the two reaches the position, the mean over both seats"""

    @property
    def weight(self) -> float:
        """Expected difference per game at this position."""
        return self.difference * self.likely

    @property
    def costs(self) -> bool:
        """Whether one of the two loses more than the other, as far as it is known."""
        if self.a.loss is None or self.b.loss is None:
            return True
        return abs(self.a.loss - self.b.loss) > VALUE_TOLERANCE

    def to_dict(self, game: AnyGame) -> dict[str, Any]:
        """Return the fields of :class:`ttt_eval.matches.results.DifferentMoves`."""
        a = self.a.to_dict(game)
        b = self.b.to_dict(game)
        return {
            "position": a["position"],
            "best": a["best"],
            "difference": self.difference,
            "likely": self.likely,
            "a": a["moves"],
            "b": b["moves"],
            "loss_a": a["loss"],
            "loss_b": b["loss"],
        }


def strength(
    game: AnyGame,
    policy: str | Policy,
    opponents: Sequence[str | Policy],
    *,
    work: Work = DEFAULT_WORK,
    masked: bool = True,
) -> Strength:
    """Return the exact strength of a policy.

    Args:
        game: the game.
        policy: a spec string or a pure policy.
        opponents: spec strings or pure policies for exact results.
        work: see :class:`Work`.
        masked: whether a probability of an illegal move is refused, see :class:`Measurement`.

    Raises:
        ValueError: a policy that is unknown, is not pure, or does not play by the rules.
        MemoryError: too many reachable positions.
    """
    exact = Measurement(game, policy, work, cache=isinstance(game, Game), masked=masked)
    responders = exact.exploitation()
    regret_by_stones = exact.regret_table() if has_regret(game) else []
    mean_loss = exact.mean_loss() if has_mean_loss(game) else None
    seats = {str(opponent): exact.outcomes(opponent) for opponent in opponents}
    return Strength(responders, regret_by_stones, seats, mean_loss)


def measure(
    game: AnyGame,
    policy: str | Policy,
    opponent: str | Policy | None = None,
    seat: int | None = None,
) -> dict[str, float]:
    """Measure a policy exactly, as :func:`training_callback` does."""
    exact = strength(game, policy, () if opponent is None else (opponent,))
    rates: dict[str, float] = {}
    for name in exact.seats:
        rates = dict(zip(RATES, exact.result(name, seat), strict=True))
    return exact.measures | rates


def training_callback(
    game: AnyGame,
    opponent: str | Policy | None,
    every: int,
    games: int,
    *,
    seat: int | None = None,
    start: int = 0,
) -> Callable[[int, Policy], dict[str, float]]:
    """Return a callback for a training's ``run`` that measures the greedy policy exactly and draws
    nothing.

    Args:
        game: the game.
        opponent: opponent of the exact result; None for none.
        every: number of games between measurements: made at the first mark of the training at or
            after each multiple.
        games: of the whole training; a measurement at its end is always made.
        seat: the learner's against the opponent, 0 or 1; None for the mean of both.
        start: number of games at the last mark, for a resumed training.

    Returns:
        A callback of the number of finished games and the learner. It returns ``exploitability``,
        ``regret`` where the board can be solved, ``mean_loss`` where it is small; against an
        opponent ``exact_win``, ``exact_draw``, ``exact_loss``; and nothing between two
        measurements.

    Raises:
        ValueError: ``every`` is not positive, or the opponent is unknown or not pure.
    """
    check_range("every", every, 1, problem="is no number of games between two measurements")
    other = None if opponent is None else make_pure(opponent, game)
    next_mark = start // every * every + every

    def measure_if_due(num_games: int, learner: Policy) -> dict[str, float]:
        nonlocal next_mark
        if num_games < min(next_mark, games):
            return {}
        next_mark = num_games // every * every + every
        return measure(game, learner, other, seat)

    return measure_if_due


def choice_in(
    policy: Policy, boards: Boards, row: int = 0, *, solution: Solution | None
) -> PolicyChoice:
    """Return a policy's choice in the position in ``row``.

    Args:
        policy: the policy; an impure one is queried once.
        boards: positions that are not over.
        row: index of the position.
        solution: of the game, if it is solved.
    """
    board = boards.take(np.array([row]))
    rng = None if policy.pure else np.random.default_rng(0)
    return PolicyChoice(
        position=board.position(0),
        probabilities=np.asarray(policy.probabilities(board, rng)[0]),
        own=None if policy.action_values is None else policy.action_values(board)[0],
        exact=None if solution is None else solution.action_values(board)[0],
    )


def first_choice(game: AnyGame, policy: Policy, *, solution: Solution | None) -> PolicyChoice:
    """Return a policy's choice on the empty board; see :func:`choice_in`."""
    return choice_in(policy, Boards.start(game), solution=solution)


def worst_positions(
    game: Game,
    policy: str | Policy,
    opponent: str | Policy | None = None,
    count: int = 5,
    *,
    work: Work = DEFAULT_WORK,
) -> Mistakes:
    """Return the positions in which a policy loses most value, by loss times the probability of
    reaching them.

    Args:
        game: the game, up to 16 cells.
        policy: a spec string or a pure policy.
        opponent: its opponent, the mean over both seats; None for itself, which shows few of the
            mistakes of a deterministic policy. Against ``random`` it meets every position that any
            opponent could reach.
        count: maximum number of positions. Of symmetric positions, the worst is taken.
        work: see :class:`Work`.

    Returns:
        The worst first, printed as boards; empty if it loses nothing.

    Raises:
        ValueError: a board too large to solve; a policy that is unknown, is not pure, or does not
            play by the rules.
        MemoryError: too many reachable positions.
    """
    solution = solve(game)
    own = make_pure(policy, game)
    other = own if opponent is None else make_pure(opponent, game)
    # in self-play one game serves both seats
    seats: tuple[int | None, ...] = (None,) if opponent is None else (0, 1)
    limit = count * len(symmetries(game))  # enough that `count` remain even if they are symmetric
    worst = _Spots(*Boards.start(game, 0), np.zeros(0), np.zeros(0))
    for seat in seats:
        players = in_seats(own, other, seat or 0)
        for visit in visits(Traversal(game, players, merge=False, work=work)):
            if seat is None or visit.boards.mover[0] == seat:
                action_values = solution.action_values(visit.boards)
                loss = expected_losses(action_values, visit.probabilities)
                rows = np.flatnonzero((loss > VALUE_TOLERANCE) & (visit.mass > 0))
                spots = _Spots(*visit.boards, loss, visit.mass / len(seats)).take(rows)
                worst = worst.merge(spots, limit)
    boards = worst.boards
    mistakes = [
        Mistake(
            choice_in(own, boards, row, solution=solution),
            float(worst.size[row]),
            float(worst.likely[row]),
            to_text(boards.position(row), game),
        )
        for row in _distinct_rows(game, boards, count)
    ]
    note = "" if mistakes else f"{own} loses nothing"
    if opponent is None:
        note += ' in its self-play: opponent="random" comes to all positions'
    return Mistakes(mistakes, note.strip())


class _Spots(NamedTuple):
    """N positions in which a policy loses value, or plays otherwise than another one."""

    cells: Int8Array
    mover: Int8Array
    size: Float64Array
    """float64[N]: the loss, or the difference"""
    likely: Float64Array
    """float64[N]: the probability that a game reaches the position"""

    @property
    def boards(self) -> Boards:
        """The positions."""
        return Boards(self.cells, self.mover)

    def take(self, rows: Int64Array) -> _Spots:
        """Return the selected rows."""
        return _Spots._make(column[rows] for column in self)

    def merge(self, other: _Spots, limit: int) -> _Spots:
        """Return the costliest rows of both, up to ``limit``, stable for equal costs."""
        both = concatenate([self, other])
        return both.take(np.argsort(-both.size * both.likely, kind="stable")[:limit])


def _distinct_rows(game: Game, boards: Boards, count: int) -> list[int]:
    """Return the first row of each class of symmetric positions, up to ``count`` rows."""
    class_keys, _ = canonical_keys(boards.cells, symmetries(game))
    rows: dict[tuple[bytes, int], int] = {}
    for row, mover in enumerate(boards.mover):
        rows.setdefault((class_keys[row].tobytes(), int(mover)), row)
    return list(rows.values())[:count]


def differences(
    game: Game, a: str | Policy, b: str | Policy, count: int = 5, *, work: Work = DEFAULT_WORK
) -> list[Difference]:
    """Return the positions in which two policies differ most, by distance times the probability of
    reaching them.

    Args:
        game: the game.
        a, b: spec strings or pure policies; games are between these two, each in either seat.
        count: maximum number of positions. Of symmetric positions, the first is taken.
        work: see :class:`Work`.

    Returns:
        In descending order of weight; empty if the two play alike in all positions that they reach.
        Exact values are included on boards of up to 16 cells.

    Raises:
        ValueError: a policy that is unknown, is not pure, or does not play by the rules.
        MemoryError: too many reachable positions.
    """
    players = make_pure(a, game), make_pure(b, game)
    solution = solve(game) if game.cells <= MAX_SOLVER_CELLS else None
    parts = []
    for seated in (players, players[::-1]):
        for visit in visits(Traversal(game, seated, merge=False, work=work)):
            mover = int(visit.boards.mover[0])
            # the other player, if it were to move
            other = seated[1 - mover].probabilities(visit.boards)
            distance = np.abs(visit.probabilities - other).sum(axis=1) / 2
            rows = np.flatnonzero((distance > VALUE_TOLERANCE) & (visit.mass > 0))
            parts.append(_Spots(*visit.boards, distance, visit.mass / 2).take(rows))
    spots = concatenate(parts)
    if not len(spots.size):
        return []
    # either player may be to move in the same position: add both probabilities
    first, position = distinct_rows(position_words(spots.boards))
    likely = np.bincount(position, spots.likely, minlength=len(first))
    weights = np.round(spots.size[first] * likely, 12)  # equal ones stay in the order of boards
    order = np.argsort(-weights, kind="stable")[: count * len(symmetries(game))]
    rows = first[order]
    boards = spots.boards.take(rows)
    return [
        Difference(
            choice_in(players[0], boards, row, solution=solution),
            choice_in(players[1], boards, row, solution=solution),
            float(spots.size[rows[row]]),
            float(likely[order[row]]),
        )
        for row in _distinct_rows(game, boards, count)
    ]
