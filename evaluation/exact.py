"""Exact results of what plays, by dynamic programming over the positions that can be reached; nothing is sampled.

Layers of positions (``evaluation/layers.py``) hand probability on going forward, and values going back. A policy is
asked about many positions of a layer at once, ``chunk`` at most, and only about positions that can be reached.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from baselines.solver import LARGEST, Progress, solve
from evaluation.asking import KEPT, kept
from evaluation.estimate import boards_by_stones, check_fits
from evaluation.layers import Layer, Players, Walk, add_losses, backward, walked
from ttt_envs.boards import Boards
from ttt_envs.compiling import Reals
from ttt_envs.policy import Policy, is_symmetric
from ttt_envs.rules import Game
from ttt_envs.specs import make_policy

CHUNK = 1 << 14
"""positions that a policy is asked about at once, unless a caller says otherwise"""


class Outcome(NamedTuple):
    """How likely each result of a game is, from one player's view."""

    win: float
    draw: float
    loss: float

    @property
    def value(self) -> float:
        """The expected result, -1 to 1."""
        return self.win - self.loss

    def turned(self) -> Outcome:
        """The same from the other player's view."""
        return Outcome(self.loss, self.draw, self.win)

    def mean(self, other: Outcome) -> Outcome:
        """Of two games, or of both seats."""
        return Outcome(*((x + y) / 2 for x, y in zip(self, other, strict=True)))


class Exploitation(NamedTuple):
    """What the best responders get out of a policy."""

    first: Outcome
    """of the responder who moves first"""
    second: Outcome
    """of the responder who moves second"""
    game_value: float | None
    """of perfect play, to player_0; None where the board is too large to solve"""

    @property
    def exploitability(self) -> float:
        """(value as first + value as second) / 2, which is NashConv / 2: the value of the game cancels."""
        return max(0.0, (self.first.value + self.second.value) / 2)  # rounding may leave -1e-17 of perfect play

    @property
    def gains(self) -> tuple[float, float] | None:
        """What each responder gets beyond perfect play against perfect play: moving first, and moving second."""
        if self.game_value is None:
            return None
        return self.first.value - self.game_value, self.second.value + self.game_value


class RegretRow(NamedTuple):
    """What a policy loses, playing itself, by its moves on boards with so many stones."""

    stones: int
    moves: float
    """the expected number of such moves: the probability that a game comes so far"""
    loss: float
    """the expected loss of value by them"""


# ---------------------------------------------------------------------------------------------------------------------
# What is asked


def outcome(
    game: Game,
    first: str | Policy,
    second: str | Policy,
    *,
    chunk: int = CHUNK,
    memory: int | None = None,
    progress: Progress | None = None,
) -> Outcome:
    """The exact result of ``first``, who is player_0, against ``second``.

    Args:
        game: what is played.
        first, second: spec strings or pure policies.
        chunk: positions that a policy is asked about at once; the result does not depend on it.
        memory: bytes that may be used; by default what is free.
        progress: called with the share that is done.

    Raises:
        ValueError: a policy that is unknown, is not pure, or does not play by the rules.
        MemoryError: too many positions can be reached; told after the first of them.
    """
    players = _each_class_once(game, _pure(first, game), _pure(second, game))
    check_fits(game, players, chunk, backward=False, memory=memory)
    results = np.zeros((3, 2))
    for layer in walked(Walk.of(game, players), chunk, results=results):
        _tell(progress, layer, 0, 1)
    _done(progress)
    win, loss, draw = (float(share) for share in results.sum(axis=1))
    return Outcome(win, draw, loss)


def match_outcome(
    game: Game,
    a: str | Policy,
    b: str | Policy,
    *,
    chunk: int = CHUNK,
    memory: int | None = None,
    progress: Progress | None = None,
) -> Outcome:
    """The exact result of a against b, the mean over both seats; see :func:`outcome`."""
    players = (_pure(a, game), _pure(b, game))
    as_first = outcome(game, *players, chunk=chunk, memory=memory, progress=_part(progress, 0, 2))
    as_second = outcome(game, *players[::-1], chunk=chunk, memory=memory, progress=_part(progress, 1, 2))
    return as_first.mean(as_second.turned())


def best_response(
    game: Game,
    policy: str | Policy,
    seat: int,
    *,
    chunk: int = CHUNK,
    memory: int | None = None,
    progress: Progress | None = None,
) -> Outcome:
    """The exact result of a player who knows ``policy`` and makes the most of it, from that player's view.

    Moves of equal value share the responder's choice: they may differ in wins and losses, not in ``value``.

    Args:
        game: what is played.
        policy: a spec string or a pure policy, in the other seat.
        seat: the responder's: 0 moves first, 1 second.
        chunk: positions that the policy is asked about at once; the result does not depend on it.
        memory: bytes that may be used; by default what is free.
        progress: called with the share that is done.

    Raises:
        ValueError: another seat; a policy that is unknown, is not pure, or does not play by the rules.
        MemoryError: too many positions can be reached; told after the first of them.
    """
    if seat not in (0, 1):
        raise ValueError(f"seat={seat!r} is no seat: choose 0 (the responder moves first) or 1 (second)")
    asked = _pure(policy, game)
    walk = Walk.of(game, (None, asked) if seat == 0 else (asked, None))
    return _responses(walk, chunk, memory, progress)[0]


def exploitation(
    game: Game,
    policy: str | Policy,
    *,
    chunk: int = CHUNK,
    memory: int | None = None,
    progress: Progress | None = None,
) -> Exploitation:
    """What best responders get out of a policy in either seat; see :func:`best_response`."""
    asked = _pure(policy, game)  # before a game is solved for nothing
    value = solve(game).value if game.cells <= LARGEST else None
    return _exploitation(game, asked, value, chunk, memory, progress)


def exploitability(
    game: Game,
    policy: str | Policy,
    *,
    chunk: int = CHUNK,
    memory: int | None = None,
    progress: Progress | None = None,
) -> float:
    """NashConv / 2 of a policy that plays both seats (Lanctot et al., 2017): 0 for perfect play only, skips or not.

    It is (best response value as first + as second) / 2; see :func:`best_response`.
    """
    return _exploitation(game, policy, None, chunk, memory, progress).exploitability


def _exploitation(
    game: Game, policy: str | Policy, value: float | None, chunk: int, memory: int | None, progress: Progress | None
) -> Exploitation:
    asked = _pure(policy, game)
    walk = Walk.of(game, (None, asked))
    if walk.by_roles:
        first, second = _responses(walk._replace(starts=(0, 1)), chunk, memory, progress)
    else:
        first, second = (
            best_response(game, asked, seat, chunk=chunk, memory=memory, progress=_part(progress, seat, 2))
            for seat in (0, 1)
        )
    return Exploitation(first, second, value)


def _responses(walk: Walk, chunk: int, memory: int | None, progress: Progress | None) -> list[Outcome]:
    """The best responder's results, for each who may begin."""
    check_fits(walk.game, walk.players, chunk, backward=True, memory=memory, walk=walk)
    layers = []
    for layer in walked(walk, chunk, kept=[KEPT]):
        layer.index.pack()
        layers.append(layer)
        _tell(progress, layer, 0, 0.5)
    after = Layer(walk, walk.game.cells)
    while layers:
        layer = layers.pop()
        backward(walk, chunk, layer, after)
        _tell(progress, layer, 1, 0.5)
        after = layer
    _done(progress)
    found = []
    for mover in walk.starts:
        win, loss = (float(share) for share in after.values[0, mover, 1:])
        found.append(Outcome(win, max(0.0, 1 - win - loss), loss))
    return found


def regret(
    game: Game,
    policy: str | Policy,
    *,
    chunk: int = CHUNK,
    memory: int | None = None,
    progress: Progress | None = None,
) -> float:
    """The value that a policy loses by an average move: E[sum of losses] / E[number of moves] when it plays itself.

    Raises:
        ValueError: as :func:`outcome`; a board too large to solve.
    """
    return mean_loss(regret_table(game, policy, chunk=chunk, memory=memory, progress=progress))


def mean_loss(rows: Sequence[RegretRow]) -> float:
    """The :func:`regret` that a :func:`regret_table` comes to."""
    return sum(row.loss for row in rows) / sum(row.moves for row in rows)


def regret_table(
    game: Game,
    policy: str | Policy,
    *,
    chunk: int = CHUNK,
    memory: int | None = None,
    progress: Progress | None = None,
) -> list[RegretRow]:
    """:func:`regret` by the number of stones on the board, for as long as games may last."""
    asked = _pure(policy, game)
    check_fits(game, (asked, asked), chunk, backward=False, memory=memory)  # before a game is solved for nothing
    solution = solve(game)
    lost = np.zeros((game.cells + 1, 2))

    def visit(stones: int, boards: Boards, probabilities: Reals, mass: Reals) -> None:
        add_losses(solution.action_values(boards), probabilities, mass, stones, lost)

    rows = []
    for layer in walked(Walk.of(game, (asked, asked)), chunk, visit=visit):
        rows.append(RegretRow(layer.stones, layer.total, float(lost[layer.stones].sum())))
        _tell(progress, layer, 0, 1)
    _done(progress)
    return rows


def while_training(
    game: Game,
    opponent: str | Policy | None,
    every: int,
    games: int,
    *,
    seat: int | None = None,
    start: int = 0,
    chunk: int = CHUNK,
) -> Callable[[int, Policy], dict[str, float]]:
    """A callback for ``learners.training.train`` that measures a learner exactly, in earnest, and draws nothing.

    Args:
        game: what is learned.
        opponent: whom the exact result is against; None for none.
        every: after how many games to measure: at the first mark of the training at or after each multiple.
        games: of the whole training, after which it is measured in any case.
        seat: the learner's against the opponent, 0 or 1; None for the mean of both.
        start: games at the last mark, of a training that goes on.
        chunk: positions that the learner is asked about at once.

    Returns:
        A callback of the number of finished games and the learner. It returns ``exploitability``, and ``regret`` where
        the board can be solved; against an opponent ``exact_win``, ``exact_draw``, ``exact_loss``; and nothing between
        two measurements.
    """
    if every < 1:
        raise ValueError(f"every={every} is no number of games between two measurements: choose 1 or more")
    other = None if opponent is None else _pure(opponent, game)
    due = start // every * every + every

    def measure(done: int, learner: Policy) -> dict[str, float]:
        nonlocal due
        if done < min(due, games):
            return {}
        due = done // every * every + every
        learner = kept(learner, game)  # all that follows asks about what the best responders have met
        found = {"exploitability": exploitability(game, learner, chunk=chunk)}
        if game.cells <= LARGEST:
            found["regret"] = regret(game, learner, chunk=chunk)
        if other is not None:
            if seat is None:
                result = match_outcome(game, learner, other, chunk=chunk)
            elif seat == 0:
                result = outcome(game, learner, other, chunk=chunk)
            else:
                result = outcome(game, other, learner, chunk=chunk).turned()
            found |= {f"exact_{name}": share for name, share in result._asdict().items()}
        return found

    return measure


def _pure(spec: str | Policy, game: Game) -> Policy:
    """The policy, where it is a function of the board.

    Raises:
        ValueError: it is not.
    """
    policy = make_policy(spec, game)
    if not policy.pure:
        raise ValueError(
            f"{policy} is not pure: what it plays depends on more than the board, so it has no exact result. "
            f"Sample it with evaluate.py match"
        )
    return policy


def _each_class_once(game: Game, first: Policy, second: Policy) -> Players:
    """The two, where only one is symmetric and the walk is over all boards, so that it is asked about one image."""
    if is_symmetric(first) == is_symmetric(second):
        return first, second
    return kept(first, game) if is_symmetric(first) else first, kept(second, game) if is_symmetric(second) else second


def _tell(progress: Progress | None, layer: Layer, start: float, end: float) -> None:
    """Progress from ``start`` to ``end`` as the layers up to this one take of it, if all boards could be reached."""
    if progress is not None:
        bound = boards_by_stones(layer.game)
        share = sum(bound[: layer.stones + 1]) / sum(bound)
        progress(start + (end - start) * share)


def _done(progress: Progress | None) -> None:
    if progress is not None:
        progress(1.0)  # games may have ended before the board was full


def _part(progress: Progress | None, index: int, count: int) -> Progress | None:
    """Progress of part ``index`` of ``count`` equal ones."""
    return None if progress is None else lambda share: progress((index + share) / count)
