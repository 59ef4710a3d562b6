"""Exact results of policies, by dynamic programming over the reachable positions; nothing is sampled.

Layers of positions (:mod:`evaluation.exact.forward_backward`) propagate probabilities forward and values backward. A
policy is queried about up to ``chunk`` positions of a layer at once, and only about reachable positions.

Games with hidden stones are evaluated by :mod:`evaluation.exact.phantom`, where chunks, memory, progress and threads
have no effect.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from baselines.retrograde import fits_columns, start_value
from baselines.retrograde.solver import MAX_SOLVER_CELLS, Progress, solve
from evaluation.exact import phantom
from evaluation.exact.estimate import boards_by_stones, check_fits
from evaluation.exact.forward_backward import Layer, Players, TraversalSpec, add_losses, backward, forward_layers
from evaluation.exact.policy_cache import MAX_CACHE_BYTES, cached
from evaluation.exact.results import Exploitation as Exploitation
from evaluation.exact.results import OutcomeProbabilities as OutcomeProbabilities
from evaluation.exact.results import check_responder
from evaluation.exact.results import make_pure as make_pure
from ttt_envs.agents.policy import Policy, is_symmetric
from ttt_envs.core.jit import Float64Array
from ttt_envs.core.threads import Threads, count_threads
from ttt_envs.game.boards import Boards
from ttt_envs.game.rules import Game

CHUNK = 1 << 14
"""Default number of positions per query of a policy."""


class RegretRow(NamedTuple):
    """Loss of a policy in self-play by its moves on boards with a given number of stones."""

    stones: int
    moves: float
    """expected number of such moves: the probability that a game lasts so long"""
    loss: float
    """expected loss of value by these moves"""


# ---------------------------------------------------------------------------------------------------------------------
# Public functions


def outcome(
    game: Game,
    first: str | Policy,
    second: str | Policy,
    *,
    chunk: int = CHUNK,
    memory: int | None = None,
    progress: Progress | None = None,
    threads: Threads = 1,
) -> OutcomeProbabilities:
    """Return the exact result of ``first``, who is player_0, against ``second``.

    Args:
        game: the game.
        first, second: spec strings or pure policies.
        chunk: maximum number of positions per query of a policy; the result does not depend on it.
        memory: bytes that may be used; by default the available memory.
        progress: called with the share that is done.
        threads: number of threads, see :mod:`ttt_envs.core.threads`; the result does not depend on it.

    Raises:
        ValueError: a policy that is unknown, is not pure, or does not play by the rules.
        MemoryError: too many reachable positions; raised after the first layers.
    """
    pure = make_pure(first, game), make_pure(second, game)
    if game.hidden != "no":
        return phantom.outcome(game, *pure)
    players = _cache_symmetric(game, *pure)
    check_fits(game, players, chunk, backward=False, memory=memory)
    results = np.zeros((3, 2))
    traversal, num_threads = TraversalSpec.from_players(game, players), count_threads(threads)
    for layer in forward_layers(traversal, chunk, results=results, threads=num_threads):
        report_progress(progress, layer, 0, 1)
    report_end(progress)
    win, loss, draw = (float(share) for share in results.sum(axis=1))
    return OutcomeProbabilities(win, draw, loss)


def perfect_value(
    game: Game,
    *,
    chunk: int = CHUNK,
    memory: int | None = None,
    progress: Progress | None = None,
    threads: Threads = 1,
) -> float:
    """Return the value of perfect play by both, for player_0.

    Only positions that two players reach who never miss a win are visited; with gravity, all that stones can fall into,
    layer by layer (:mod:`baselines.retrograde.columns`).

    Args:
        game: the game.
        chunk, memory, progress, threads: as for :func:`outcome`.

    Raises:
        MemoryError: too many reachable positions; raised after the first layers.
    """
    if game.gravity and fits_columns(game):
        return start_value(game, memory=memory, progress=progress, threads=threads)
    after = _backward_layers(TraversalSpec.from_players(game, (None, None)), chunk, memory, progress, threads)
    return float(after.values[0, 0, 0]) + 0.0  # 0.0 in place of -0.0


def match_outcome(
    game: Game,
    a: str | Policy,
    b: str | Policy,
    *,
    chunk: int = CHUNK,
    memory: int | None = None,
    progress: Progress | None = None,
    threads: Threads = 1,
) -> OutcomeProbabilities:
    """Return the exact result of a against b, the mean over both seats; see :func:`outcome`."""
    players = (make_pure(a, game), make_pure(b, game))
    as_first = outcome(
        game, *players, chunk=chunk, memory=memory, progress=partial_progress(progress, 0, 2), threads=threads
    )
    as_second = outcome(
        game, *players[::-1], chunk=chunk, memory=memory, progress=partial_progress(progress, 1, 2), threads=threads
    )
    return as_first.mean(as_second.reversed())


def best_response(
    game: Game,
    policy: str | Policy,
    seat: int,
    *,
    chunk: int = CHUNK,
    memory: int | None = None,
    progress: Progress | None = None,
    threads: Threads = 1,
) -> OutcomeProbabilities:
    """Return the exact result of a best responder to ``policy``, from the responder's view.

    The responder chooses uniformly among moves of equal value: they may differ in wins and losses, not in ``value``.

    Args:
        game: the game.
        policy: a spec string or a pure policy, in the other seat.
        seat: the responder's: 0 moves first, 1 second.
        chunk: maximum number of positions per query of the policy; the result does not depend on it.
        memory: bytes that may be used; by default the available memory.
        progress: called with the share that is done.
        threads: number of threads, see :mod:`ttt_envs.core.threads`; the result does not depend on it.

    Raises:
        ValueError: another seat; a policy that is unknown, is not pure, or does not play by the rules.
        MemoryError: too many reachable positions; raised after the first layers.
    """
    check_responder(seat)
    pure = make_pure(policy, game)
    if game.hidden != "no":
        return phantom.best_response(game, pure, seat)
    traversal = TraversalSpec.from_players(game, (None, pure) if seat == 0 else (pure, None))
    return _responses(traversal, chunk, memory, progress, threads)[0]


def exploitation(
    game: Game,
    policy: str | Policy,
    *,
    chunk: int = CHUNK,
    memory: int | None = None,
    progress: Progress | None = None,
    threads: Threads = 1,
) -> Exploitation:
    """Return the results of best responders to a policy in both seats; see :func:`best_response`."""
    pure = make_pure(policy, game)  # reject an impure policy before the game is solved
    if game.hidden != "no":
        return phantom.exploitation(game, pure)
    value = solve(game, threads=threads).value if game.cells <= MAX_SOLVER_CELLS else None
    return _exploitation(game, pure, value, chunk, memory, progress, threads)


def exploitability(
    game: Game,
    policy: str | Policy,
    *,
    chunk: int = CHUNK,
    memory: int | None = None,
    progress: Progress | None = None,
    threads: Threads = 1,
) -> float:
    """Return NashConv / 2 of a policy that plays both seats (Lanctot et al., 2017): 0 only for perfect play, skips or
    not.

    It is (best response value as first + as second) / 2; see :func:`best_response`.
    """
    pure = make_pure(policy, game)
    if game.hidden != "no":
        return phantom.exploitability(game, pure)
    return _exploitation(game, pure, None, chunk, memory, progress, threads).exploitability


def _exploitation(
    game: Game,
    pure: Policy,
    value: float | None,
    chunk: int,
    memory: int | None,
    progress: Progress | None,
    threads: Threads,
) -> Exploitation:
    traversal = TraversalSpec.from_players(game, (None, pure))
    if traversal.by_roles:
        first, second = _responses(traversal._replace(starts=(0, 1)), chunk, memory, progress, threads)
    else:
        first, second = (
            best_response(
                game,
                pure,
                seat,
                chunk=chunk,
                memory=memory,
                progress=partial_progress(progress, seat, 2),
                threads=threads,
            )
            for seat in (0, 1)
        )
    return Exploitation(first, second, value)


def _responses(
    traversal: TraversalSpec, chunk: int, memory: int | None, progress: Progress | None, threads: Threads
) -> list[OutcomeProbabilities]:
    """Return the best responder's results, for each possible first mover."""
    after = _backward_layers(traversal, chunk, memory, progress, threads)
    found = []
    for mover in traversal.starts:
        win, loss = (float(share) for share in after.values[0, mover, 1:])
        found.append(OutcomeProbabilities(win, max(0.0, 1 - win - loss), loss))
    return found


def _backward_layers(
    traversal: TraversalSpec, chunk: int, memory: int | None, progress: Progress | None, threads: Threads
) -> Layer:
    """Return the layer of the empty board, with the values of the best responder."""
    check_fits(traversal.game, traversal.players, chunk, backward=True, memory=memory, traversal=traversal)
    layers, num_threads = [], count_threads(threads)
    budget = [MAX_CACHE_BYTES]
    for layer in forward_layers(traversal, chunk, edge_budget=budget, masses=False, threads=num_threads):
        layer.index.pack()
        layers.append(layer)
        report_progress(progress, layer, 0, 0.5)
    after = Layer(traversal, traversal.game.cells)
    while layers:
        layer = layers.pop()
        backward(traversal, chunk, layer, after, threads=num_threads)
        report_progress(progress, layer, 1, 0.5)
        after = layer
    report_end(progress)
    return after


def regret(
    game: Game,
    policy: str | Policy,
    *,
    chunk: int = CHUNK,
    memory: int | None = None,
    progress: Progress | None = None,
    threads: Threads = 1,
) -> float:
    """Return the mean loss of value per move: E[sum of losses] / E[number of moves] in self-play.

    Raises:
        ValueError: as :func:`outcome`; a board too large to solve.
    """
    return mean_loss(regret_table(game, policy, chunk=chunk, memory=memory, progress=progress, threads=threads))


def has_regret(game: Game) -> bool:
    """Return whether the values of all positions can be had, of which regret is a loss: not where stones are hidden."""
    return game.cells <= MAX_SOLVER_CELLS and game.hidden == "no"


def mean_loss(rows: Sequence[RegretRow]) -> float:
    """Return the :func:`regret` of a :func:`regret_table`."""
    return sum(row.loss for row in rows) / sum(row.moves for row in rows)


def regret_table(
    game: Game,
    policy: str | Policy,
    *,
    chunk: int = CHUNK,
    memory: int | None = None,
    progress: Progress | None = None,
    threads: Threads = 1,
) -> list[RegretRow]:
    """Return :func:`regret` by the number of stones on the board, up to the longest game."""
    pure = make_pure(policy, game)
    check_fits(game, (pure, pure), chunk, backward=False, memory=memory)  # before the game is solved in vain
    num_threads = count_threads(threads)
    solution = solve(game, threads=num_threads)
    lost = np.zeros((game.cells + 1, 2))

    def visit(stones: int, boards: Boards, probabilities: Float64Array, mass: Float64Array) -> None:
        add_losses(solution.unfinished_action_values(boards), probabilities, mass, stones, lost)

    rows = []
    for layer in forward_layers(
        TraversalSpec.from_players(game, (pure, pure)), chunk, visit=visit, threads=num_threads
    ):
        rows.append(RegretRow(layer.stones, layer.total, float(lost[layer.stones].sum())))
        report_progress(progress, layer, 0, 1)
    report_end(progress)
    return rows


def training_callback(
    game: Game,
    opponent: str | Policy | None,
    every: int,
    games: int,
    *,
    seat: int | None = None,
    start: int = 0,
    chunk: int = CHUNK,
) -> Callable[[int, Policy], dict[str, float]]:
    """Return a callback for a training's ``run`` that measures the greedy policy exactly and draws nothing.

    Args:
        game: the game.
        opponent: opponent of the exact result; None for none.
        every: number of games between measurements: made at the first mark of the training at or after each multiple.
        games: of the whole training; a measurement at its end is always made.
        seat: the learner's against the opponent, 0 or 1; None for the mean of both.
        start: number of games at the last mark, for a resumed training.
        chunk: maximum number of positions per query of the learner.

    Returns:
        A callback of the number of finished games and the learner. It returns ``exploitability``, and ``regret`` where
        the board can be solved; against an opponent ``exact_win``, ``exact_draw``, ``exact_loss``; and nothing between
        two measurements.

    Raises:
        ValueError: ``every`` is not positive, or the opponent is unknown or not pure.
    """
    if every < 1:
        raise ValueError(f"every={every} is no number of games between two measurements: choose 1 or more")
    other = None if opponent is None else make_pure(opponent, game)
    due = start // every * every + every

    def measure(done: int, learner: Policy) -> dict[str, float]:
        nonlocal due
        if done < min(due, games):
            return {}
        due = done // every * every + every
        if game.hidden == "no":
            learner = cached(learner, game)  # later measurements query the positions that the best responders visited
        found = {"exploitability": exploitability(game, learner, chunk=chunk)}
        if has_regret(game):
            found["regret"] = regret(game, learner, chunk=chunk)
        if other is not None:
            if seat is None:
                result = match_outcome(game, learner, other, chunk=chunk)
            elif seat == 0:
                result = outcome(game, learner, other, chunk=chunk)
            else:
                result = outcome(game, other, learner, chunk=chunk).reversed()
            found |= {f"exact_{name}": share for name, share in result._asdict().items()}
        return found

    return measure


def _cache_symmetric(game: Game, first: Policy, second: Policy) -> Players:
    """Cache the policy that alone is symmetric, because the traversal visits all symmetric positions."""
    if is_symmetric(first) == is_symmetric(second):
        return first, second
    first, second = (cached(player, game) if is_symmetric(player) else player for player in (first, second))
    return first, second


def report_progress(progress: Progress | None, layer: Layer, start: float, end: float) -> None:
    """Report progress from ``start`` to ``end``, in proportion to the arrangements up to this layer."""
    if progress is not None:
        bound = boards_by_stones(layer.game)
        share = sum(bound[: layer.stones + 1]) / sum(bound)
        progress(start + (end - start) * share)


def report_end(progress: Progress | None) -> None:
    """Report that all is done."""
    if progress is not None:
        progress(1.0)  # games may have ended before the board was full


def partial_progress(progress: Progress | None, index: int, count: int) -> Progress | None:
    """Return the progress callback of part ``index`` of ``count`` equal parts."""
    return None if progress is None else lambda share: progress((index + share) / count)
