"""What everything that plays has in common."""

from __future__ import annotations

import functools
import typing
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ttt_envs.boards import Boards
from ttt_envs.compiling import Integers, Keys, Reals, compiled
from ttt_envs.rules import OPPONENT, uniforms


class Uniforms(Protocol):
    """The part of ``numpy.random.Generator`` that playing needs; every generator has it."""

    def random(self, size: int, /) -> Reals:
        """float64[size], uniform in [0, 1)."""
        ...


@runtime_checkable
class Policy(Protocol):
    """Whatever plays: a distribution over moves for every position of a batch.

    Callers never pass finished positions. What more a policy may offer are protocols of their own, found by the methods
    of its class: :class:`ActsFast`, :class:`ActsInGames`, :class:`PlaysUniformly`, :class:`Symmetric`,
    :class:`ColourBlind`, :class:`HasPlayer`, :class:`Values`.
    """

    @property
    def pure(self) -> bool:
        """Whether ``probabilities`` is a function of the boards alone; an attribute of the class will do."""
        ...

    def probabilities(self, boards: Boards, rng: np.random.Generator | None = None) -> Reals:
        """float64[B, rows * columns]: a distribution over legal moves for each position; rows sum to 1.

        A policy that is not pure needs ``rng``.
        """
        ...


@runtime_checkable
class ActsFast(Protocol):
    """A policy that draws its moves faster than from its probabilities; :func:`act` lets it."""

    def act(self, boards: Boards, rng: Uniforms) -> Integers:
        """int64[B], from the distribution of ``probabilities``, with exactly one ``rng.random(B)``."""
        ...


@runtime_checkable
class ActsInGames(Protocol):
    """An opponent that plays differently in different games."""

    def act_in_games(self, boards: Boards, games: Integers, luck: Keys, plies: Integers) -> Integers:
        """int64[B]: a move in each of the games of these numbers, with luck uint64[B] and ``plies`` stones so far."""
        ...


@runtime_checkable
class PlaysUniformly(Protocol):
    """A policy that, where it says so, gives every legal move the same probability: environments draw in its place."""

    @property
    def plays_uniformly(self) -> bool:
        """Whether it does; an attribute of the class will do."""
        ...


@runtime_checkable
class Symmetric(Protocol):
    """A pure policy that says whether it answers all images of a position alike; who does not say it does not.

    Its probabilities for the image of a position under a symmetry of the board (``symmetry.symmetries``) are the image
    of those for the position, within :data:`SAME`. Exact evaluation believes it, and asks about one image of eight;
    ``images.check_symmetric`` puts it to the test.
    """

    @property
    def symmetric(self) -> bool:
        """Whether it does; an attribute of the class will do."""
        ...


@runtime_checkable
class ColourBlind(Protocol):
    """A pure policy that says whether it sees own stones and the opponent's, and not who moved first.

    Of two positions that games come to, and that are the same but for stones and mover exchanged, it answers both with
    the same probabilities, within :data:`SAME`. ``images.check_colour_blind`` puts it to the test.
    """

    @property
    def colour_blind(self) -> bool:
        """Whether it does; an attribute of the class will do."""
        ...


@runtime_checkable
class Values(Protocol):
    """What a policy thinks of positions, where it thinks in values: expected results, -1 loss to 1 win."""

    def values(self, boards: Boards) -> Reals:
        """float64[B], to the mover."""
        ...

    def action_values(self, boards: Boards) -> Reals:
        """float64[B, rows * columns], to the mover, NaN where illegal."""
        ...


@runtime_checkable
class Judge(Values, Protocol):
    """A policy that guides searches: it says in one go how likely moves are and what positions are worth."""

    def judge(self, boards: Boards) -> tuple[NDArray[np.float32], Reals]:
        """How likely moves are, and what positions are worth.

        Returns:
            float32[B, rows * columns], logarithms, each row up to a constant and anything where illegal; and
            float64[B], to the mover, -1 loss to 1 win.
        """
        ...


@runtime_checkable
class Thinker(Judge, Protocol):
    """A judge that makes the simulations of a search itself, in a kernel of its own."""

    def think(self, wanted: Integers, rule: Any, forest: Any) -> None:
        """Simulations of B trees one after another.

        What is in the trees then is the same, bit for bit, as where :meth:`judge` is asked about what they come to.

        Args:
            wanted: int64[S, B], of each simulation what :func:`baselines.mcts.guided.go_down` says.
            rule: how moves are chosen, a :class:`baselines.mcts.Rule`.
            forest: the trees, a :class:`baselines.mcts.Forest`, written.
        """
        ...


class Forfeit(ValueError):  # noqa: N818  # a game's end, and no error where a match counts it
    """Who is to move gives up a game, and so loses it: an engine that has ended, say. A match counts it and goes on.

    Players raise it from ``act``, and policies that are not pure, which matches ask about one position at a time;
    elsewhere it is an error like any other.

    Args:
        reason: one sentence.
        actions: int64[F]: moves in the first F games that were asked about. The next one is given up, and those behind
            it are asked about again.
    """

    def __init__(self, reason: str, actions: Integers | None = None) -> None:
        words = " ".join(reason.split())[:LONGEST_REASON] or "no reason was given"
        super().__init__(words if words.isprintable() else ascii(words)[1:-1])
        self.actions = np.zeros(0, np.int64) if actions is None else actions


LONGEST_REASON = 1000
"""letters of a reason that are kept"""


class Player(Protocol):
    """What plays with a memory between its moves: tree reuse, clocks, pondering."""

    def begin(self, slots: Integers) -> None:
        """New games begin in ``slots`` int64[B]."""
        ...

    def act(
        self, boards: Boards, slots: Integers, rng: np.random.Generator, time_left: Reals | None = None
    ) -> Integers:
        """int64[B]: a move in each of the games ``slots``, with ``time_left`` float64[B] seconds on the clocks.

        Raises:
            Forfeit: one of the games is given up.
        """
        ...


@runtime_checkable
class ReadsClocks(Protocol):
    """A player that wants to know by which clock a match is played that keeps the clocks."""

    def use_clock(self, seconds: float, increment: float) -> None:
        """Seconds for a game, and seconds that are added after every move; said before the first game begins."""
        ...


@runtime_checkable
class HasPlayer(Protocol):
    """A policy that plays matches with a memory."""

    def player(self) -> Player:
        """A player of its own, with nothing remembered yet."""
        ...


SAME = 1e-9
"""probabilities that differ by no more are the same, to :class:`Symmetric` and :class:`ColourBlind`"""


def is_symmetric(policy: Policy) -> bool:
    """Whether a policy says that it is :class:`Symmetric`."""
    return bool(getattr(policy, "symmetric", False))


def is_colour_blind(policy: Policy) -> bool:
    """Whether a policy says that it is :class:`ColourBlind`."""
    return bool(getattr(policy, "colour_blind", False))


# ---------------------------------------------------------------------------------------------------------------------
# Drawing moves

TIE = 1e-9
"""values that differ by no more are equal, where they were computed in different ways"""


def best_shares(values: Reals, tie: float = 0.0) -> Reals:
    """float64[B, cells]: equal shares for the moves within ``tie`` of the best; ``values`` are NaN where illegal."""
    best = values >= np.nanmax(values, axis=1, keepdims=True) - tie
    shares: Reals = best / best.sum(axis=1, keepdims=True)
    return shares


@compiled
def _sample(probabilities: Reals, u: Reals, out: Integers) -> None:
    for b in range(len(probabilities)):
        rest = u[b]
        chosen = -1
        for cell in range(probabilities.shape[1]):
            p = probabilities[b, cell]
            if p > 0:
                chosen = cell  # rounding may leave a rest behind the last one: then it is the last one's
                if rest < p:
                    break
                rest -= p
        out[b] = chosen


def sample(probabilities: Reals, u: Reals) -> Integers:
    """The actions on which uniform numbers fall.

    Args:
        probabilities: float64[B, cells], rows that sum to 1.
        u: float64[B] in [0, 1).

    Returns:
        int64[B].
    """
    out = np.empty(len(probabilities), np.int64)
    _sample(np.ascontiguousarray(probabilities, np.float64), u, out)
    return out


def act(policy: Policy, boards: Boards, rng: Uniforms) -> Integers:
    """Draw one move for each position, int64[B], from exactly one ``rng.random(B)``.

    Args:
        policy: who moves.
        boards: positions that are not over.
        rng: a ``numpy.random.Generator``; for a policy that is not pure it must be a real one.
    """
    if acts_fast(type(policy)):
        return typing.cast(ActsFast, policy).act(boards, rng)
    if policy.pure:
        return sample(policy.probabilities(boards), rng.random(len(boards.mover)))
    assert isinstance(rng, np.random.Generator)
    return sample(policy.probabilities(boards, rng), rng.random(len(boards.mover)))


@functools.cache  # protocols are slow to look at, and moves are not
def acts_fast(kind: type) -> bool:
    """Whether policies of a class choose moves by a method of their own: see :class:`ActsFast`."""
    return issubclass(kind, ActsFast)


class EpisodeStreams:
    """Uniform numbers that belong to (episode, ply), in place of a generator: row b gets number ``plies[b]``.

    So a game has the same moves whatever else is played beside it. It offers ``random(B)`` once and nothing more.
    """

    def __init__(self, luck: Keys, plies: Integers) -> None:
        self._luck = luck
        self._plies = plies

    def random(self, size: int, /) -> Reals:
        """float64[B], the numbers of the rows."""
        if size != len(self._plies):
            raise ValueError(f"act must draw one uniform number per position: {len(self._plies)}, not {size}")
        out = np.empty(size)
        uniforms(self._luck, OPPONENT, self._plies, out)
        return out

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"a policy with pure=True asked its rng for {name!r}: act takes exactly one rng.random(len(boards.mover)); "
            f"a policy that needs more randomness must say pure=False"
        )


def act_in_episodes(policy: Policy, boards: Boards, luck: Keys, plies: Integers) -> Integers:
    """:func:`act` with the numbers of each row's own episode, so that rows do not depend on their neighbours.

    Args:
        policy: who moves.
        boards: positions that are not over.
        luck: uint64[B], the episodes' luck.
        plies: int64[B], stones on the boards.

    Raises:
        Forfeit: a policy that is not pure gives up a game.
    """
    if policy.pure:
        try:
            actions = act(policy, boards, EpisodeStreams(luck, plies))
        except Forfeit as problem:  # nobody knows of which game, for it may have been asked in another order
            raise ValueError(f"{policy} is pure and gave up a game, {problem}: say pure = False") from None
    else:
        actions = np.empty(len(plies), np.int64)
        for b in range(len(plies)):  # a generator of its own for every row: what it draws cannot depend on the batch
            rng = np.random.default_rng([int(luck[b]), OPPONENT, int(plies[b])])
            try:
                actions[b] = act(policy, boards.take(np.array([b])), rng)[0]
            except Forfeit as problem:
                raise Forfeit(str(problem), actions[:b]) from None
    return actions
