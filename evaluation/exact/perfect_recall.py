"""Exact results of policies with perfect recall in phantom games: outcomes, best responses and exploitability.

Such policies are functions of information sets (:class:`ttt_envs.agents.perfect_recall.PerfectRecallPolicy`). Policies
over views and spec strings are accepted too, and give the results of :mod:`evaluation.exact.phantom`. Nothing is
sampled. The walk is that of :mod:`evaluation.exact.stone_histories`.

Sizes are known before anything is computed: a computation with more than ``limit`` pairs, or that does not fit into
memory, is refused with its size.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from baselines.joint_view_graph import JointViewGraph, joint_view_graph
from baselines.retrograde.solver import Progress
from evaluation.exact.dynamic_programming import partial_progress
from evaluation.exact.estimate import duration, free_bytes, gib
from evaluation.exact.phantom_best_response import InformationSetCount, count_information_sets, list_information_sets
from evaluation.exact.results import Exploitation, OutcomeProbabilities, check_responder, make_pure
from evaluation.exact.stone_histories import (
    InformationTree,
    Walk,
    count_observations,
    count_stone_histories,
)
from ttt_envs.agents.peeking import is_peeking
from ttt_envs.agents.perfect_recall import ByViews, PerfectRecallPolicy
from ttt_envs.agents.policy import Policy
from ttt_envs.core.jit import Float64Array
from ttt_envs.game.phantom import JointViews, check_phantom
from ttt_envs.game.rules import Game

LIMIT = 10**10
"""Default maximum number of pairs of a stone history and an information set."""
CHUNK = 1 << 16
"""Maximum number of information sets per query of a policy."""
TOLERANCE = 1e-6
"""Maximum difference of a sum of probabilities from 1."""
PAIR_SECONDS, SET_SECONDS = 7e-8, 1e-6
"""Assumed CPU seconds for a pair, and for an information set besides the policy's own time: measured on an Intel Xeon,
family 6 model 207."""
SET_BYTES, SEQUENCE_BYTES = 14, 24
"""Memory for an information set and for a sequence."""

AnyPolicy = str | Policy | PerfectRecallPolicy


class Estimate(NamedTuple):
    """Size of the walks of an exact computation."""

    pairs: float
    """number of pairs of a stone history and an information set of its mover: exact"""
    information_sets: tuple[int, int]
    """number of information sets of player_0 and player_1: exact"""
    seconds: float
    """estimated CPU time, without the policies' own"""
    bytes: float
    """memory"""

    def __str__(self) -> str:
        first, second = self.information_sets
        return (
            f"{self.pairs:,.0f} pairs of a stone history and an information set, {first:,} and {second:,} information "
            f"sets, about {duration(self.seconds)} of CPU time and {gib(self.bytes)}"
        )


def estimate(
    game: Game, *, walks: int = 1, start: JointViews | None = None, limit: int = LIMIT, memory: int | None = None
) -> Estimate:
    """Return the size of an exact computation, if it is affordable.

    Args:
        game: a game with hidden stones.
        walks: number of walks: 1 of an outcome or a best response, 2 of :func:`exploitation`.
        start: one row: the state in which all games begin; None for an empty board.
        limit: maximum number of pairs, in all walks.
        memory: bytes that may be used; by default the available memory.

    Raises:
        ValueError: the stones are not hidden.
        MemoryError: too many joint views, more pairs than ``limit``, or too many information sets for the memory.
    """
    return _estimate(_graph(game, start), walks, limit, memory)


def outcome(
    game: Game,
    first: AnyPolicy,
    second: AnyPolicy,
    *,
    start: JointViews | None = None,
    limit: int = LIMIT,
    memory: int | None = None,
    progress: Progress | None = None,
) -> OutcomeProbabilities:
    """Return the exact result of ``first``, who is player_0, against ``second``.

    Args:
        game: a game with hidden stones.
        first, second: policies with perfect recall, policies over views, or spec strings.
        start, limit, memory: see :func:`estimate`.
        progress: called with the share that is done.

    Raises:
        ValueError: the stones are not hidden; a policy that is unknown, is not pure, sees the whole board, or does not
            play by the rules.
        MemoryError: as :func:`estimate`.
    """
    graph = _graph(game, start)
    players = [_player(game, policy, start) for policy in (first, second)]
    trees = _trees(graph, _estimate(graph, 1, limit, memory))
    policies = [(tree, _probabilities(tree, player)) for tree, player in zip(trees, players, strict=True)]
    walk = Walk(graph, policies)
    _run(walk, graph, progress or _ignore)
    return OutcomeProbabilities(*map(float, walk.results))


def best_response(
    game: Game,
    policy: AnyPolicy,
    responder: int,
    *,
    start: JointViews | None = None,
    limit: int = LIMIT,
    memory: int | None = None,
    progress: Progress | None = None,
) -> OutcomeProbabilities:
    """Return the exact result of a best responder to a policy; both have perfect recall.

    Args:
        game: a game with hidden stones.
        policy: a policy with perfect recall, a policy over views, or a spec string.
        responder: the responder's seat, 0 moves first, 1 second.
        start, limit, memory, progress: see :func:`outcome`.

    Raises:
        ValueError: another seat; and as :func:`outcome`.
        MemoryError: as :func:`estimate`.
    """
    check_responder(responder)
    graph = _graph(game, start)
    player = _player(game, policy, start)
    trees = _trees(graph, _estimate(graph, 1, limit, memory))
    return _respond(graph, trees, player, responder, progress or _ignore)


def exploitation(
    game: Game,
    policy: AnyPolicy,
    *,
    start: JointViews | None = None,
    limit: int = LIMIT,
    memory: int | None = None,
    progress: Progress | None = None,
) -> Exploitation:
    """Return the exact results of best responders in both seats; the value of the game is not known.

    Args:
        game, policy, start, limit, memory, progress: see :func:`best_response`.

    Raises:
        ValueError, MemoryError: as :func:`outcome`.
    """
    graph = _graph(game, start)
    player = _player(game, policy, start)
    trees = _trees(graph, _estimate(graph, 2, limit, memory))
    first, second = (
        _respond(graph, trees, player, seat, partial_progress(progress, seat, 2) or _ignore) for seat in (0, 1)
    )
    return Exploitation(first, second, None)


def exploitability(
    game: Game,
    policy: AnyPolicy,
    *,
    limit: int = LIMIT,
    memory: int | None = None,
    progress: Progress | None = None,
) -> float:
    """Return NashConv / 2 of a policy that plays in both seats; see :func:`exploitation`."""
    return exploitation(game, policy, limit=limit, memory=memory, progress=progress).exploitability


def _ignore(share: float) -> None:
    """Report nothing."""


def _graph(game: Game, start: JointViews | None) -> JointViewGraph:
    check_phantom(game)
    return joint_view_graph(game) if start is None else JointViewGraph(game, start)


def _player(game: Game, policy: AnyPolicy, start: JointViews | None) -> PerfectRecallPolicy:
    if isinstance(policy, PerfectRecallPolicy):
        return policy
    player = make_pure(policy, game)
    if is_peeking(player):
        raise ValueError(f"{player} sees hidden stones, so that it has no information sets: choose a policy by views")
    return ByViews(player, start)


def _estimate(graph: JointViewGraph, walks: int, limit: int, memory: int | None) -> Estimate:
    count = count_stone_histories(graph)
    pairs = walks * sum(count.pairs)
    if pairs > limit:
        raise MemoryError(
            f"exact results of {graph.game} with perfect recall take {pairs:,.0f} pairs of a stone history and an "
            f"information set, about {duration(pairs * PAIR_SECONDS)} of CPU time, and the limit is {limit:,}: take a "
            f"smaller board, a later start or fewer skips, or raise limit="
        )
    allowed = free_bytes() if memory is None else memory
    least = SET_BYTES + SEQUENCE_BYTES * count_observations(graph)  # with one legal attempt
    counts = [_count_sets(graph, player, allowed // least) for player in (0, 1)]
    sets = counts[0].sets, counts[1].sets
    sequences = [1 + count_observations(graph) * count.attempts for count in counts]
    size = sum(sets) * SET_BYTES + sum(sequences) * SEQUENCE_BYTES
    found = Estimate(pairs, sets, pairs * PAIR_SECONDS + walks * sum(sets) * SET_SECONDS, size)
    if size > allowed or sum(sequences) > np.iinfo(np.int32).max:
        raise MemoryError(
            f"exact results of {graph.game} with perfect recall take at least {found}, and {gib(allowed)} may be used: "
            f"take a smaller board or a later start, or allow more with memory="
        )
    return found


@lru_cache(4)
def _count_sets(graph: JointViewGraph, player: int, limit: int) -> InformationSetCount:
    return count_information_sets(graph, player, limit)


def _trees(graph: JointViewGraph, sizes: Estimate) -> list[InformationTree]:
    return [
        InformationTree(graph, player, list_information_sets(graph, player, count))
        for player, count in enumerate(sizes.information_sets)
    ]


def _probabilities(tree: InformationTree, policy: PerfectRecallPolicy) -> Float64Array:
    """Return a policy's probabilities of a player's sequences, float64[S].

    Raises:
        ValueError: they are no probabilities of legal attempts in some information set.
    """
    out = np.ones(tree.size)
    for begin in range(0, len(tree), CHUNK):
        end = min(begin + CHUNK, len(tree))
        shares = np.asarray(policy.recall_probabilities(tree.information_sets(begin, end)), np.float64)
        sound = shares.shape == (end - begin, tree.cells) and np.isfinite(shares).all() and (shares >= 0).all()
        sound = sound and (shares[tree.is_known(begin, end)] == 0).all()
        if not sound or np.abs(shares.sum(axis=1) - 1.0).max() > TOLERANCE:
            raise ValueError(
                f"{policy} gave no probabilities of the legal attempts in some information set: float64[B, cells] that "
                f"are 0 for cells known to be taken, not negative, and have the sum 1"
            )
        tree.write_probabilities(begin, shares / shares.sum(axis=1, keepdims=True), out)
    return out


def _respond(
    graph: JointViewGraph, trees: list[InformationTree], policy: PerfectRecallPolicy, responder: int, progress: Progress
) -> OutcomeProbabilities:
    opponent, own = trees[1 - responder], trees[responder]
    walk = Walk(graph, [(opponent, _probabilities(opponent, policy))], own)
    _run(walk, graph, progress)
    own.maximize(walk.values, walk.wins)
    value, wins = float(walk.values[0]), float(walk.wins[0])
    return OutcomeProbabilities(wins, 1.0 - wins - (wins - value), wins - value)


def _run(walk: Walk, graph: JointViewGraph, progress: Progress) -> None:
    """Walk to the end; Ctrl-C ends it within some seconds."""
    total = count_stone_histories(graph).histories
    while walk.advance():
        progress(walk.histories / total)
    progress(1.0)  # attempts without probability are left out
