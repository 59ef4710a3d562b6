"""The policy and player protocols, and sampling of moves."""

from __future__ import annotations

import functools
import typing
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ttt_envs.core.jit import Float64Array, Int64Array, UInt64Array, compiled
from ttt_envs.core.random import uniforms
from ttt_envs.game.boards import Boards
from ttt_envs.game.rules import STREAM_OPPONENT


class Uniforms(Protocol):
    """The part of ``numpy.random.Generator`` needed for sampling; every generator has it."""

    def random(self, size: int, /) -> Float64Array:
        """Return float64[size], uniform in [0, 1)."""
        ...


@runtime_checkable
class Policy(Protocol):
    """A distribution over moves for every position of a batch.

    Callers never pass finished positions. Optional features are separate protocols, detected by the methods of the
    class: :class:`ActsFast`, :class:`ActsInGames`, :class:`PlaysUniformly`, :class:`Symmetric`, :class:`ColourBlind`,
    :class:`HasPlayer`, :class:`Values`.
    """

    @property
    def pure(self) -> bool:
        """Whether ``probabilities`` is a function of the boards alone; may be a class attribute."""
        ...

    def probabilities(self, boards: Boards, rng: np.random.Generator | None = None) -> Float64Array:
        """Return float64[B, rows * columns]: a distribution over legal moves for each position; rows sum to 1.

        A policy that is not pure needs ``rng``.
        """
        ...


@runtime_checkable
class ActsFast(Protocol):
    """A policy with a faster way to sample moves than from its probabilities; :func:`act` uses it."""

    def act(self, boards: Boards, rng: Uniforms) -> Int64Array:
        """Sample int64[B] from the distribution of ``probabilities``, with exactly one ``rng.random(B)``."""
        ...


@runtime_checkable
class ActsInGames(Protocol):
    """An opponent whose play depends on the game number."""

    def act_in_games(
        self, boards: Boards, games: Int64Array, episode_keys: UInt64Array, plies: Int64Array
    ) -> Int64Array:
        """Return int64[B]: a move in each of the ``games``.

        Args:
            boards: the positions.
            games: int64[B], the numbers of the games.
            episode_keys: uint64[B], see :func:`act_in_episodes`.
            plies: int64[B], stones on the boards; in phantom games, cells that the player knows to be taken.
        """
        ...


@runtime_checkable
class PlaysUniformly(Protocol):
    """A policy that declares itself uniformly random over legal moves, so that environments sample in its place."""

    @property
    def plays_uniformly(self) -> bool:
        """Whether the policy is uniformly random; may be a class attribute."""
        ...


@runtime_checkable
class Symmetric(Protocol):
    """A pure policy that declares whether it is equivariant under board symmetries; undeclared means it is not.

    Its probabilities for a position transformed by a symmetry of the board (``symmetry.symmetries``) are the
    transformed probabilities of the position, within :data:`SHARE_TOLERANCE`. Exact evaluation relies on this and
    evaluates one of eight symmetric positions; ``symmetrized.check_symmetric`` tests it.
    """

    @property
    def symmetric(self) -> bool:
        """Whether the policy is equivariant; may be a class attribute."""
        ...


@runtime_checkable
class ColourBlind(Protocol):
    """A pure policy that declares whether it depends only on own and opponent stones, not on the first player.

    For two reachable positions that differ only by exchanged stones and mover, its probabilities are the same, within
    :data:`SHARE_TOLERANCE`. ``symmetrized.check_colour_blind`` tests it.
    """

    @property
    def colour_blind(self) -> bool:
        """Whether the policy is colour-blind; may be a class attribute."""
        ...


@runtime_checkable
class Values(Protocol):
    """A policy with value estimates: expected results, from -1 (loss) to 1 (win)."""

    def values(self, boards: Boards) -> Float64Array:
        """Return float64[B], for the mover."""
        ...

    def action_values(self, boards: Boards) -> Float64Array:
        """Return float64[B, rows * columns], for the mover, NaN where illegal."""
        ...


@runtime_checkable
class ActorCritic(Protocol):
    """A policy with a critic. The critic estimates the values of the actor, which may differ from what it plays."""

    @property
    def actor(self) -> Policy:
        """The policy of which ``values`` are estimates, such as the distribution that training samples from."""
        ...

    def values(self, boards: Boards) -> Float64Array:
        """Return float64[B], for the mover."""
        ...


@runtime_checkable
class Evaluator(Values, Protocol):
    """A policy that guides searches: one evaluation gives both priors and values."""

    def evaluate(self, boards: Boards) -> tuple[NDArray[np.float32], Float64Array]:
        """Evaluate positions.

        Returns:
            prior logits, float32[B, rows * columns], each row up to a constant and arbitrary where illegal; and
            values, float64[B], for the mover, from -1 (loss) to 1 (win).
        """
        ...


class Forfeit(ValueError):  # noqa: N818  # the end of a game, which a match counts instead of failing
    """The mover forfeits a game, for example because its engine has exited. A match counts the loss and continues.

    Players raise it from ``act``, and so do policies that are not pure, which matches query one position at a time.
    Elsewhere it is an ordinary error.

    Args:
        reason: one sentence.
        actions: int64[F]: moves in the first F games of the batch. The next game is forfeited; for later games,
            ``act`` is called again.
    """

    def __init__(self, reason: str, actions: Int64Array | None = None) -> None:
        words = " ".join(reason.split())[:MAX_REASON_LENGTH] or "no reason was given"
        super().__init__(words if words.isprintable() else ascii(words)[1:-1])
        self.actions = np.zeros(0, np.int64) if actions is None else actions


MAX_REASON_LENGTH = 1000
"""Maximum number of characters of a reason; the rest is cut."""


class Player(Protocol):
    """A player with memory between its moves: tree reuse, clocks, pondering."""

    def begin(self, slots: Int64Array) -> None:
        """Start new games in ``slots`` int64[B]."""
        ...

    def act(
        self, boards: Boards, slots: Int64Array, rng: np.random.Generator, time_left: Float64Array | None = None
    ) -> Int64Array:
        """Return int64[B]: a move in each of the games ``slots``, with ``time_left`` float64[B] seconds on the clocks.

        Raises:
            Forfeit: one of the games is forfeited.
        """
        ...


@runtime_checkable
class ReadsClocks(Protocol):
    """A player that needs the time control of a match."""

    def use_clock(self, seconds: float, increment: float) -> None:
        """Set the seconds per game and the increment in seconds per move; called before the first game begins."""
        ...


@runtime_checkable
class HasPlayer(Protocol):
    """A policy that plays matches with memory."""

    def player(self) -> Player:
        """Return a new player with empty memory."""
        ...


SHARE_TOLERANCE = 1e-9
"""Maximum difference of probabilities that count as equal, for :class:`Symmetric` and :class:`ColourBlind`."""


def is_symmetric(policy: Policy) -> bool:
    """Return whether a policy declares itself :class:`Symmetric`."""
    return bool(getattr(policy, "symmetric", False))


def is_colour_blind(policy: Policy) -> bool:
    """Return whether a policy declares itself :class:`ColourBlind`."""
    return bool(getattr(policy, "colour_blind", False))


def is_quick(policy: Policy) -> bool:
    """Return whether a policy declares, by an attribute ``quick``, that a cache would take as long as its answers."""
    return bool(getattr(policy, "quick", False))


# ---------------------------------------------------------------------------------------------------------------------
# Sampling moves

VALUE_TOLERANCE = 1e-9
"""Maximum difference of values that count as equal, where they were computed in different ways."""


def best_shares(values: Float64Array, tie: float = 0.0) -> Float64Array:
    """Return float64[B, cells]: equal shares for moves within ``tie`` of the best; ``values`` are NaN where illegal."""
    best = values >= np.nanmax(values, axis=1, keepdims=True) - tie
    shares: Float64Array = best / best.sum(axis=1, keepdims=True)
    return shares


@compiled
def _sample(probabilities: Float64Array, u: Float64Array, out: Int64Array) -> None:
    for b in range(len(probabilities)):
        rest = u[b]
        chosen = -1
        for cell in range(probabilities.shape[1]):
            p = probabilities[b, cell]
            if p > 0:
                chosen = cell  # rounding may leave a rest after the last move: then the last one is chosen
                if rest < p:
                    break
                rest -= p
        out[b] = chosen


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


def act(policy: Policy, boards: Boards, rng: Uniforms) -> Int64Array:
    """Sample one move for each position, int64[B], from exactly one ``rng.random(B)``.

    Args:
        policy: the policy that moves.
        boards: positions that are not over.
        rng: a ``numpy.random.Generator``; for a policy that is not pure it must be a real one.
    """
    if acts_fast(type(policy)):
        return typing.cast(ActsFast, policy).act(boards, rng)
    if policy.pure:
        return sample(policy.probabilities(boards), rng.random(len(boards.mover)))
    assert isinstance(rng, np.random.Generator)
    return sample(policy.probabilities(boards, rng), rng.random(len(boards.mover)))


@functools.cache  # checks of protocols are slow
def acts_fast(kind: type) -> bool:
    """Return whether policies of a class have their own sampling method: see :class:`ActsFast`."""
    return issubclass(kind, ActsFast)


@functools.cache
def acts_in_games(kind: type) -> bool:
    """Return whether policies of a class depend on the game number: see :class:`ActsInGames`."""
    return issubclass(kind, ActsInGames)


class EpisodeStreams:
    """Replaces a generator by uniform numbers indexed by (episode, ply): row b gets number ``plies[b]``.

    So the moves of a game do not depend on other games of the batch. It offers ``random(B)`` once; any other
    attribute raises AttributeError.
    """

    def __init__(self, episode_keys: UInt64Array, plies: Int64Array) -> None:
        self._episode_keys = episode_keys
        self._plies = plies

    def random(self, size: int, /) -> Float64Array:
        """Return float64[B], one number per row.

        Raises:
            ValueError: ``size`` is not B.
        """
        if size != len(self._plies):
            raise ValueError(f"act must draw one uniform number per position: {len(self._plies)}, not {size}")
        out = np.empty(size)
        uniforms(self._episode_keys, STREAM_OPPONENT, self._plies, out)
        return out

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"a policy with pure=True asked its rng for {name!r}: act takes exactly one rng.random(len(boards.mover)); "
            f"a policy that needs more randomness must say pure=False"
        )


def act_in_episodes(policy: Policy, boards: Boards, episode_keys: UInt64Array, plies: Int64Array) -> Int64Array:
    """Like :func:`act`, with random numbers of each row's own episode, so that rows do not depend on each other.

    Args:
        policy: the policy that moves.
        boards: positions that are not over.
        episode_keys: uint64[B], ``splitmix64(key, episode)`` of each episode.
        plies: int64[B], stones on the boards; in phantom games, cells that the player knows to be taken.

    Raises:
        Forfeit: a policy that is not pure forfeits a game.
    """
    if policy.pure:
        try:
            actions = act(policy, boards, EpisodeStreams(episode_keys, plies))
        except Forfeit as problem:  # the game is unknown, because positions may have been queried in another order
            raise ValueError(f"{policy} is pure and gave up a game, {problem}: say pure = False") from None
    else:
        actions = np.empty(len(plies), np.int64)
        for b in range(len(plies)):  # a separate generator per row: draws must not depend on the batch
            rng = np.random.default_rng([int(episode_keys[b]), STREAM_OPPONENT, int(plies[b])])
            try:
                actions[b] = act(policy, boards.take(np.array([b])), rng)[0]
            except Forfeit as problem:
                raise Forfeit(str(problem), actions[:b]) from None
    return actions
