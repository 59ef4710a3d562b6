"""Exact strength of a policy and its worst positions, as shown on the page of a run.

Only a sample game draws random numbers; everything else is dynamic programming.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from baselines.retrograde.solver import MAX_SOLVER_CELLS, Solution, solve
from evaluation.exact.dynamic_programming import (
    CHUNK,
    OutcomeProbabilities,
    exploitability,
    has_regret,
    outcome,
    regret,
)
from evaluation.exact.estimate import boards_by_stones
from evaluation.exact.forward_backward import forward
from evaluation.exact.policy_cache import cached
from ttt_envs.agents.policy import VALUE_TOLERANCE, Policy, Values, act
from ttt_envs.agents.specs import make_policy
from ttt_envs.core.jit import Float64Array, Int8Array, Int64Array, UInt64Array
from ttt_envs.game.boards import Boards, from_keys, keys, to_text
from ttt_envs.game.rules import Game, Outcome, Position, chance_outcomes
from ttt_envs.game.symmetry import canonical_keys, symmetries

MAX_BOARDS_COMPARED = 20_000
"""Maximum number of arrangements of stones for :func:`differences_within`: includes 3 x 3 with or without skips."""


class Strength(NamedTuple):
    """Exact strength of a policy."""

    exploitability: float
    """a best responder's gain over the value of the game, the mean of both seats: 0 is perfect"""
    regret: float | None
    """mean loss of value per move in self-play; None where the board is too large to solve, or stones are hidden"""
    seats: Mapping[str, tuple[OutcomeProbabilities, OutcomeProbabilities]]
    """by opponent: its results moving first, and moving second"""

    @property
    def results(self) -> dict[str, OutcomeProbabilities]:
        """Results by opponent, the mean over both seats."""
        return {opponent: first.mean(second) for opponent, (first, second) in self.seats.items()}

    @property
    def perfect(self) -> bool:
        """Whether a best responder gains no more than against perfect play, up to rounding."""
        return self.exploitability <= VALUE_TOLERANCE


class Choice(NamedTuple):
    """A policy's move probabilities and values in one position, with the exact values."""

    position: Position
    probabilities: Float64Array
    """float64[cells]: probabilities of its moves"""
    own: Float64Array | None
    """float64[cells]: the policy's own action values for the mover, NaN where illegal; None if it has none"""
    exact: Float64Array | None
    """float64[cells]: exact action values, NaN where illegal; None where the game is not solved"""

    @property
    def best(self) -> Int64Array:
        """int64[N]: the cells of the best moves; empty if unknown."""
        if self.exact is None:
            return np.zeros(0, np.int64)
        return np.flatnonzero(self.exact >= np.nanmax(self.exact) - VALUE_TOLERANCE)

    @property
    def played(self) -> Int64Array:
        """int64[N]: the cells with positive probability, in descending order of it."""
        cells = np.flatnonzero(self.probabilities > 0)
        return cells[np.argsort(-self.probabilities[cells], kind="stable")]


class Mistake(NamedTuple):
    """A position in which a policy loses value."""

    choice: Choice
    loss: float
    """expected loss of value by its move there"""
    likely: float
    """the probability that a game reaches the position"""

    @property
    def cost(self) -> float:
        """Expected loss per game at this position."""
        return self.loss * self.likely


class Difference(NamedTuple):
    """A position in which two policies play differently."""

    a: Choice
    b: Choice
    difference: float
    """total variation distance: half the sum over moves of the differences of their probabilities"""
    likely: float
    """the probability that a game between the two reaches the position, the mean over both seats"""

    @property
    def weight(self) -> float:
        """Expected difference per game at this position."""
        return self.difference * self.likely

    def to_dict(self, game: Game) -> dict[str, Any]:
        """Return JSON-ready data; docs/files.md documents the keys."""
        losses = None if self.a.exact is None else [_expected_loss(one) for one in (self.a, self.b)]
        return {
            "position": to_text(self.a.position, game),
            "difference": self.difference,
            "likely": self.likely,
            **{
                name: {str(cell): float(one.probabilities[cell]) for cell in one.played}
                for name, one in (("a", self.a), ("b", self.b))
            },
            "best": None if losses is None else self.a.best.tolist(),
            "loss_a": None if losses is None else losses[0],
            "loss_b": None if losses is None else losses[1],
        }


class Ply(NamedTuple):
    """A move of a game."""

    position: Position
    """position before it"""
    action: int
    loss: float | None
    """the value that it loses, 0 for a best move; None where the game is not solved"""
    skips: bool
    """whether the other player's turn is then skipped"""


class SampleGame(NamedTuple):
    """A game from its first move to its last."""

    plies: Sequence[Ply]
    last: Position
    """the finished board"""
    outcome: Outcome


def compute_strength(game: Game, policy: str | Policy, opponents: Sequence[str], *, chunk: int = CHUNK) -> Strength:
    """Return the exact strength of a policy.

    Args:
        game: the game.
        policy: a spec string or a pure policy.
        opponents: spec strings of pure policies for exact results.
        chunk: maximum number of positions per query of the policy; the result does not depend on it.

    Raises:
        ValueError: a policy that is unknown, is not pure, or does not play by the rules.
        MemoryError: too many reachable positions.
    """
    policy = make_policy(policy, game)
    if game.hidden == "no":
        policy = cached(policy, game)
    return Strength(
        exploitability(game, policy, chunk=chunk),
        regret(game, policy, chunk=chunk) if has_regret(game) else None,
        {
            opponent: (
                outcome(game, policy, opponent, chunk=chunk),
                outcome(game, opponent, policy, chunk=chunk).reversed(),
            )
            for opponent in opponents
        },
    )


def choice_in(policy: Policy, boards: Boards, row: int = 0, *, solution: Solution | None, seed: int = 0) -> Choice:
    """Return a policy's choice in the position in ``row``.

    Args:
        policy: the policy; an impure one is queried once.
        boards: positions that are not over.
        row: index of the position.
        solution: of the game, if it is solved.
        seed: seed of an impure policy.
    """
    one = boards.take(np.array([row]))
    rng = None if policy.pure else np.random.default_rng(seed)
    own = policy.action_values(one)[0] if isinstance(policy, Values) else None
    exact = None if solution is None else solution.action_values(one)[0]
    return Choice(one.position(0), np.asarray(policy.probabilities(one, rng)[0]), own, exact)


def first_choice(game: Game, policy: Policy, *, solution: Solution | None) -> Choice:
    """Return a policy's choice on the empty board; see :func:`choice_in`."""
    return choice_in(policy, Boards.start(game), solution=solution)


def worst_positions(
    game: Game, policy: str | Policy, opponent: str | Policy | None = None, count: int = 5, *, chunk: int = CHUNK
) -> list[Mistake]:
    """Return the positions in which a policy loses most value, by loss times the probability of reaching them.

    Args:
        game: the game, up to 16 cells.
        policy: a spec string or a pure policy.
        opponent: its opponent, the mean over both seats; None for itself. Against ``random`` it meets every position
            that any opponent could reach.
        count: maximum number of positions. Of symmetric positions, the worst is taken.
        chunk: maximum number of positions per query of the policy; the result does not depend on it.

    Returns:
        The worst first; empty if it loses nothing.

    Raises:
        ValueError: a board too large to solve; a policy that is unknown, is not pure, or does not play by the rules.
        MemoryError: too many reachable positions.
    """
    solution = solve(game)
    policy = make_policy(policy, game)
    for player in (policy, *([] if opponent is None else [make_policy(opponent, game)])):
        if not player.pure:
            raise ValueError(f"{player} is not pure: its loss of value is not exact. Sample it with evaluate.py match")
    worst = _Worst(count * len(symmetries(game)), game)  # enough that `count` remain even if they are symmetric

    def traverse(players: tuple[Policy, Policy], seat: int | None, weight: float) -> None:
        def visit(stones: int, boards: Boards, probabilities: Float64Array, mass: Float64Array) -> None:
            if seat is None or boards.mover[0] == seat:  # all boards of a query have the same mover
                worst.add(boards, probabilities, solution.action_values(boards), weight * mass)

        for _ in forward(game, players, chunk, visit=visit):
            pass

    if opponent is None:
        traverse((policy, policy), None, 1.0)
    else:
        other = make_policy(opponent, game)
        traverse((policy, other), 0, 0.5)
        traverse((other, policy), 1, 0.5)
    return [
        Mistake(
            choice_in(policy, worst.boards, row, solution=solution), float(worst.loss[row]), float(worst.likely[row])
        )
        for row in _distinct_rows(game, worst.boards, count)
    ]


def _distinct_rows(game: Game, boards: Boards, count: int) -> list[int]:
    """Return the first row of each class of symmetric positions, up to ``count`` rows."""
    least, _ = canonical_keys(boards.cells, symmetries(game))
    rows: dict[tuple[bytes, int], int] = {}
    for row, mover in enumerate(boards.mover):
        rows.setdefault((least[row].tobytes(), int(mover)), row)
    return list(rows.values())[:count]


class _Worst:
    """The costliest of the added positions, costliest first, stable for equal costs."""

    def __init__(self, most: int, game: Game) -> None:
        self.most = most
        self.boards = Boards.start(game, 0)
        self.loss: Float64Array = np.zeros(0)
        self.likely: Float64Array = np.zeros(0)

    def add(self, boards: Boards, probabilities: Float64Array, values: Float64Array, mass: Float64Array) -> None:
        loss = np.nanmax(values, axis=1) - np.nansum(probabilities * values, axis=1)
        rows = np.flatnonzero((loss > VALUE_TOLERANCE) & (mass > 0))
        loss = np.concatenate([self.loss, loss[rows]])
        likely = np.concatenate([self.likely, mass[rows]])
        order = np.argsort(-loss * likely, kind="stable")[: self.most]
        together = (np.concatenate([old, new[rows]])[order] for old, new in zip(self.boards, boards, strict=True))
        self.boards, self.loss, self.likely = Boards(*together), loss[order], likely[order]


def differences(
    game: Game, a: str | Policy, b: str | Policy, count: int = 5, *, chunk: int = CHUNK
) -> list[Difference]:
    """Return the positions in which two policies differ most, by distance times the probability of reaching them.

    Args:
        game: the game.
        a, b: spec strings or pure policies; games are between these two, each in either seat.
        count: maximum number of positions. Of symmetric positions, the first is taken.
        chunk: maximum number of positions per query of the policies; the result does not depend on it.

    Returns:
        In descending order of weight; empty if the two play alike in all positions that they reach. Exact values are
        included on boards of up to 16 cells.

    Raises:
        ValueError: a policy that is unknown, is not pure, or does not play by the rules.
        MemoryError: too many reachable positions.
    """
    both = make_policy(a, game), make_policy(b, game)
    for player in both:
        if not player.pure:
            raise ValueError(f"{player} is not pure: where it differs is not exact. Compare it with evaluate.py match")
    solution = solve(game) if game.cells <= MAX_SOLVER_CELLS else None
    seen: list[tuple[UInt64Array, Int8Array, Float64Array, Float64Array]] = []

    def traverse(first: int) -> None:
        """Traverse the games that ``both[first]`` begins."""

        def visit(stones: int, boards: Boards, probabilities: Float64Array, mass: Float64Array) -> None:
            other = both[1 - (first ^ int(boards.mover[0]))]  # all boards of a query have the same mover
            distance = np.abs(probabilities - other.probabilities(boards)).sum(axis=1) / 2
            rows = np.flatnonzero((distance > VALUE_TOLERANCE) & (mass > 0))
            seen.append((keys(boards.cells[rows]), boards.mover[rows], distance[rows], mass[rows] / 2))

        for _ in forward(game, (both[first], both[1 - first]), chunk, visit=visit):
            pass

    traverse(0)
    traverse(1)
    codes, mover, distance, mass = (np.concatenate(parts) for parts in zip(*seen, strict=True))
    if not len(codes):
        return []
    # either player may be to move in the same position: add both probabilities
    words = codes.reshape(len(codes), -1)
    _, first, place = np.unique(
        np.column_stack([words, mover.astype(words.dtype)]), axis=0, return_index=True, return_inverse=True
    )
    likely = np.bincount(place.ravel(), mass, minlength=len(first))
    order = np.argsort(-distance[first] * likely, kind="stable")[: count * len(symmetries(game))]
    boards = Boards(from_keys(words[first[order]], game), mover[first[order]])
    found: list[Difference] = []
    for row in _distinct_rows(game, boards, count):
        mine, theirs = (choice_in(policy, boards, row, solution=solution) for policy in both)
        found.append(Difference(mine, theirs, float(distance[first[order[row]]]), float(likely[order[row]])))
    return found


def differences_within(game: Game, a: str | Policy, b: str | Policy) -> list[dict[str, Any]] | None:
    """Return :func:`differences`, JSON-ready; None if a policy is not pure, or the board exceeds
    :data:`MAX_BOARDS_COMPARED`.
    """
    both = make_policy(a, game), make_policy(b, game)
    # a count, not a time, so that a result is the same on any machine
    small = sum(boards_by_stones(game)) <= MAX_BOARDS_COMPARED
    if not small or not all(policy.pure for policy in both):
        return None
    return [one.to_dict(game) for one in differences(game, *both)]


def _expected_loss(choice: Choice) -> float:
    """Return the expected loss of value of a choice in a solved game."""
    assert choice.exact is not None
    return max(0.0, float(np.nanmax(choice.exact) - np.nansum(choice.probabilities * choice.exact)))


def sample_game(game: Game, first: Policy, second: Policy, seed: int, *, solution: Solution | None) -> SampleGame:
    """Sample one game.

    Args:
        game: the game.
        first, second: the players.
        seed: of the players' draws and the skips.
        solution: of the game, if it is solved: then the losses of moves are known.
    """
    moves, skips = (np.random.default_rng(child) for child in np.random.SeedSequence(seed).spawn(2))
    position, plies = Boards.start(game).position(0), []
    while True:
        boards = Boards.from_positions([position])
        action = int(act((first, second)[position.mover], boards, moves)[0])
        loss = None
        if solution is not None:
            values = solution.action_values(boards)[0]
            loss = float(np.nanmax(values) - values[action])
        outcomes = chance_outcomes(game, position, action)
        chosen = outcomes[int(len(outcomes) > 1 and skips.random() < game.skip_chance)]
        goes_on = chosen.winner is None
        plies.append(Ply(position, action, loss, goes_on and chosen.position.mover == position.mover))
        position = chosen.position
        if chosen.winner is not None:
            return SampleGame(plies, position, Outcome(chosen.winner))
