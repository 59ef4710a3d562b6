"""The base classes of policies and players, and sampling of moves."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar, NamedTuple, Protocol, cast, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ttt_envs.core.checks import Refusal, TypeRefusal, escape_unprintable, truncate
from ttt_envs.core.jit import Float64Array, Int64Array, UInt64Array, kernel
from ttt_envs.core.random import uniforms
from ttt_envs.game.boards import Boards, to_text
from ttt_envs.game.game import VARIANTS
from ttt_envs.game.phantom import HIDING, AnyGame, check_variants, visible
from ttt_envs.game.rules import STREAM_OPPONENT

ALL_VARIANTS = ("gravity", "overlines", "misere", "torus")
"""``Policy.variants`` of those that support all: a new rule is refused until it is added here, or
to a class
"""


class Policy:
    """A distribution over moves for every position of a batch.

    Callers never pass finished positions. What a policy declares and offers are its attributes,
    which subclasses override: as class attributes, properties, methods, or on the instance.
    """

    pure: bool = True
    """Whether ``probabilities`` is a function of the boards alone, so that the policy can be
    evaluated exactly.
    """
    symmetric: bool = False
    """Whether a pure policy is equivariant: its probabilities for a position transformed by a
    symmetry of the board (``symmetry.symmetries``, on a torus also translations) are the
    transformed probabilities, within :data:`SHARE_TOLERANCE`. Exact evaluation relies on this and
    evaluates one of several symmetric positions; ``wrappers.check_symmetric`` tests it."""
    colour_blind: bool = False
    """Whether a pure policy depends only on own and opponent stones, not on the first player: for
    two reachable positions that differ only by exchanged stones and mover, its probabilities are
    the same, within :data:`SHARE_TOLERANCE`; ``wrappers.check_colour_blind`` tests it."""
    quick: ClassVar[bool] = False
    """Whether a cache would take as long as its answers."""
    runs_program: ClassVar[bool] = False
    """Whether it runs a program named by an argument, which a file may not do."""

    variants: ClassVar[Collection[str]] = ()
    """Rules of ``game.VARIANTS`` that it supports."""
    plays_hidden: ClassVar[bool] = False
    """Whether it plays phantom games by views."""
    refusals: ClassVar[Mapping[str, str]] = {}
    """Rules that it does not support -> the reason, which follows "because" in messages."""
    plays_skips: ClassVar[bool] = True
    """Whether it plays games in which turns may be skipped."""
    max_cells: ClassVar[int | None] = None
    """Maximum number of cells of a board that it plays on by any rules; None for no limit."""
    needs: ClassVar[Collection[str]] = ()
    """Names of the optional packages that it imports."""
    uses_clock: bool = False
    """Whether the time that it is given decides its moves, so that the same positions and random
    numbers may give others.
    """
    test_specs: ClassVar[Collection[str]] = ()
    """Spec strings with which the conformance suite tests it, the first of them by all rules and
    the others by one; none for its name alone. ``{LEARNER}`` in one is the folder of a short run of
    that learner.
    """

    values: Callable[[Boards], Float64Array] | None = None
    """Return the expected results, float64[B] from -1 (loss) to 1 (win), for the mover."""
    action_values: Callable[[Boards], Float64Array] | None = None
    """Return those of moves, float64[B, rows * columns], for the mover, NaN where illegal."""
    evaluate: Callable[[Boards], tuple[NDArray[np.float32], Float64Array]] | None = None
    """See :class:`Evaluator`."""
    actor: Policy | None = None
    """The policy of which ``values`` are estimates if it is another, such as the one that training
    samples from.
    """
    player: Callable[[], Player] | None = None
    """Return a new player with empty memory, for a policy that plays matches with memory."""
    illegal_mass: Callable[[Boards], Float64Array] | None = None
    """Return float64[B]: the probability of illegal moves before they are masked."""

    @property
    def has_own_act(self) -> bool:
        """Whether ``act`` is overridden: then it is called in place of sampling from
        ``probabilities``.
        """
        return "act" in vars(self) or type(self).act is not Policy.act

    def probabilities(self, boards: Boards, rng: np.random.Generator | None = None) -> Float64Array:
        """Return float64[B, rows * columns]: a distribution over legal moves for each position;
        rows sum to 1.

        A policy that is not pure needs ``rng``.
        """
        raise NotImplementedError

    def act(self, boards: Boards, rng: np.random.Generator) -> Int64Array:
        """Sample int64[B] from the distribution of ``probabilities``, with exactly one
        ``rng.random(B)``.

        Args:
            boards: positions that are not over.
            rng: of a pure policy perhaps an :class:`EpisodeStreams` in its place.
        """
        p = self.probabilities(boards) if self.pure else self.probabilities(boards, rng)
        return sample(p, rng.random(len(boards.mover)))

    def act_in_games(
        self, boards: Boards, games: Int64Array, episode_keys: UInt64Array, plies: Int64Array
    ) -> Int64Array:
        """Return int64[B]: a move in each of the ``games``; opponents may depend on their numbers.

        Args:
            boards: the positions.
            games: int64[B], the numbers of the games.
            episode_keys, plies: uint64[B] and int64[B], see :func:`act_in_episodes`.
        """
        return act_in_episodes(self, boards, episode_keys, plies)


def check_game(name: str, kind: Any, game: AnyGame) -> None:
    """Raise ValueError if a game has a rule that policies of a class do not support.

    Args:
        name: of the policy.
        kind: the class, or any other factory with some of the attributes of one.
        game: the game.
    """
    default_reason = (
        "its class declares neither that rule in `variants` nor, for hidden stones, `plays_hidden`"
    )
    reasons = dict.fromkeys((*VARIANTS, HIDING), default_reason) | getattr(kind, "refusals", {})
    rules = [*getattr(kind, "variants", ())]
    if getattr(kind, "plays_hidden", False):
        rules.append(HIDING)
    check_variants(name, game, rules, reasons=reasons)


class PolicyWrapper(Policy):
    """A policy that has all that another policy, or an object with ``pure`` and ``probabilities``,
    has of a policy.
    """

    def __init__(self, policy: Any) -> None:
        self.policy = policy
        for name in vars(Policy):
            if not name.startswith("_") and name != "has_own_act" and hasattr(policy, name):
                setattr(self, name, getattr(policy, name))

    def __str__(self) -> str:
        return str(self.policy)


def to_policy(policy: Any) -> Policy:
    """Return a policy unchanged, and an object with ``pure`` and ``probabilities`` wrapped.

    Raises:
        TypeError: anything else.
    """
    if isinstance(policy, Policy):
        return policy
    if hasattr(policy, "pure") and hasattr(policy, "probabilities"):
        return PolicyWrapper(policy)
    raise TypeRefusal(
        f"{policy} is no policy, it needs pure and probabilities: or use as_policy(function, game)"
    )


@contextmanager
def note_question(policy: object, game: AnyGame, boards: Boards) -> Iterator[None]:
    """Add a note to exceptions, unless they have one: which policy was asked about which
    positions.
    """
    try:
        yield
    except BaseException as problem:
        if not hasattr(problem, "__notes__"):
            text = to_text(boards.position(0), visible(game))
            problem.add_note(
                f"{policy} was asked for its move in {text!r} (1 of {len(boards.mover)})"
            )
        raise


@runtime_checkable
class Values(Protocol):
    """What searches need of an evaluation of positions: expected results, from -1 (loss) to 1
    (win).
    """

    def values(self, boards: Boards) -> Float64Array:
        """Return float64[B], for the mover."""

    def action_values(self, boards: Boards) -> Float64Array:
        """Return float64[B, rows * columns], for the mover, NaN where illegal."""


@runtime_checkable
class Evaluator(Protocol):
    """What guides searches: one evaluation gives both priors and values."""

    def evaluate(self, boards: Boards) -> tuple[NDArray[np.float32], Float64Array]:
        """Evaluate positions.

        Returns:
            prior logits, float32[B, rows * columns], each row up to a constant and arbitrary where
            illegal; and values, float64[B], for the mover, from -1 (loss) to 1 (win).
        """


class Forfeit(Refusal):  # the end of a game, which a match counts instead of failing
    """The mover forfeits a game, for example because its engine has exited. A match counts the loss
    and continues.

    Players raise it from ``act``, and so do policies that are not pure, which matches query one
    position at a time. Elsewhere it is an ordinary error.

    Args:
        reason: one sentence.
        actions: int64[F]: moves in the first F games of the batch. The next game is forfeited; for
            later games, ``act`` is called again.
    """

    def __init__(self, reason: str, actions: Int64Array | None = None) -> None:
        words = truncate(" ".join(reason.split()), 1000) or "no reason was given"
        super().__init__(escape_unprintable(words))
        self.actions = np.zeros(0, np.int64) if actions is None else actions


class Player:
    """A player with memory between its moves: tree reuse, clocks, pondering."""

    def begin(self, slots: Int64Array) -> None:
        """Start new games in ``slots`` int64[B]."""

    def act(
        self,
        boards: Boards,
        slots: Int64Array,
        rng: np.random.Generator,
        time_left: Float64Array | None = None,
    ) -> Int64Array:
        """Return int64[B]: a move in each of the games ``slots``, with ``time_left`` float64[B]
        seconds on the clocks.

        Raises:
            Forfeit: one of the games is forfeited.
        """
        raise NotImplementedError

    def use_clock(self, seconds: float, increment: float) -> None:
        """Take the seconds per game and the increment per move of a match; called before the first
        game begins.
        """

    def close(self) -> None:
        """Release threads and processes."""


SHARE_TOLERANCE = 1e-9
"""Maximum difference of probabilities that count as equal, where a policy is symmetric or
colour-blind.
"""

# --------------------------------------------------------------------------------------------------
# Sampling moves

VALUE_TOLERANCE = 1e-9
"""Maximum difference of values that count as equal, where they were computed in different ways."""


def best_shares(values: Float64Array, tie: float = 0.0) -> Float64Array:
    """Return float64[B, cells]: equal shares for moves within ``tie`` of the best; ``values`` are
    NaN where illegal.
    """
    return normalise(values >= np.nanmax(values, axis=1, keepdims=True) - tie)


def normalise(weights: NDArray[Any]) -> Float64Array:
    """Return float64[B, N]: each row of ``weights`` divided by its sum."""
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def best_moves(values: Float64Array) -> Int64Array:
    """Return int64[N]: the cells of the best moves by ``values`` float64[cells], NaN where
    illegal.
    """
    return np.flatnonzero(values >= np.nanmax(values) - VALUE_TOLERANCE)


@kernel
def _sample(probabilities: Float64Array, u: Float64Array, out: Int64Array) -> None:
    for b in range(len(probabilities)):
        remainder = u[b]
        action = -1
        for cell in range(probabilities.shape[1]):
            p = probabilities[b, cell]
            if p > 0:
                # rounding may leave a remainder after the last move: then the last one is chosen
                action = cell
                if remainder < p:
                    break
                remainder -= p
        out[b] = action


def sample(probabilities: Float64Array, u: Float64Array) -> Int64Array:
    """Sample actions by inverting the cumulative distribution at uniform numbers.

    Args:
        probabilities: float64[B, cells], rows that sum to 1.
        u: float64[B] in [0, 1).

    Returns:
        int64[B].
    """
    out = np.empty(len(probabilities), np.int64)
    _sample(np.ascontiguousarray(probabilities, np.float64), u, out)
    return out


def act(policy: Policy, boards: Boards, rng: np.random.Generator) -> Int64Array:
    """Return a move int64[B] of any policy: see :meth:`Policy.act`."""
    return to_policy(policy).act(boards, rng)


def need_rng(policy: Policy, rng: np.random.Generator | None) -> np.random.Generator:
    """Return the generator of a policy that draws random numbers.

    Raises:
        ValueError: there is none.
    """
    if rng is None:
        raise Refusal(f"{policy} draws random numbers: give it rng=np.random.default_rng(seed)")
    return rng


class EpisodeStreams(NamedTuple):
    """Replaces a generator by uniform numbers indexed by (episode, ply): row b gets number
    ``plies[b]``.

    So the moves of a game do not depend on other games of the batch. It offers ``random(B)`` once;
    any other attribute raises AttributeError.
    """

    episode_keys: UInt64Array
    plies: Int64Array

    def random(self, size: int, /) -> Float64Array:
        """Return float64[B], one number per row.

        Raises:
            ValueError: ``size`` is not B.
        """
        if size != len(self.plies):
            raise Refusal(
                f"act must draw one uniform number per position: {len(self.plies)}, not {size}"
            )
        return uniforms(self.episode_keys, STREAM_OPPONENT, self.plies)

    def __getattr__(self, name: str) -> Any:
        rule = (
            "act takes one rng.random(len(boards.mover)), and what needs more must say pure=False"
        )
        raise AttributeError(f"a policy with pure=True asked its rng for {name!r}: {rule}")


def act_in_episodes(
    policy: Policy, boards: Boards, episode_keys: UInt64Array, plies: Int64Array
) -> Int64Array:
    """Like :meth:`Policy.act`, with random numbers of each row's own episode, so that rows do not
    depend on each other.

    Args:
        policy: the policy that moves.
        boards: positions that are not over.
        episode_keys: uint64[B], ``splitmix64(key, episode)`` of each episode.
        plies: int64[B], stones on the boards; in phantom games, cells that the player knows to be
            taken.

    Raises:
        Forfeit: a policy that is not pure forfeits a game.
    """
    if policy.pure:
        try:
            actions = policy.act(
                boards, cast(np.random.Generator, EpisodeStreams(episode_keys, plies))
            )
        except Forfeit as problem:
            # the game is unknown, because positions may have been queried in another order
            raise Refusal(
                f"{policy} is pure and gave up a game, {problem}: say pure = False"
            ) from None
    else:
        actions = np.empty(len(plies), np.int64)
        for b in range(
            len(plies)
        ):  # a separate generator per row: draws must not depend on the batch
            rng = np.random.default_rng([int(episode_keys[b]), STREAM_OPPONENT, int(plies[b])])
            try:
                actions[b] = policy.act(boards.take(np.array([b])), rng)[0]
            except Forfeit as problem:
                raise Forfeit(str(problem), actions[:b]) from None
    return actions


class GreedyPolicy(Policy):
    """A policy that plays the moves of highest action value."""

    tie: ClassVar[float] = 0.0
    """Maximum difference of values that count as equal."""

    def action_values(self, boards: Boards) -> Float64Array:
        """Return action values float64[B, cells] from the mover's view, NaN where illegal."""
        raise NotImplementedError

    def values(self, boards: Boards) -> Float64Array:
        """Return values float64[B] from the mover's view."""
        return np.asarray(np.nanmax(self.action_values(boards), axis=1))

    def probabilities(self, boards: Boards, rng: np.random.Generator | None = None) -> Float64Array:
        """Return float64[B, cells]: equal shares for the moves of highest value."""
        return best_shares(self.action_values(boards), self.tie)
