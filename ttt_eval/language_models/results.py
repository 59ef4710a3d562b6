"""Results of a model: the score of its games without luck, regret by ply, illegal answers, blunders, exact strength."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from baselines.exact import MAX_SOLVER_CELLS, solve
from ttt_envs.agents.policy import VALUE_TOLERANCE, Policy
from ttt_envs.core.jit import Float64Array
from ttt_envs.game.boards import Boards, to_text
from ttt_envs.game.game import Game, Position
from ttt_envs.text import Problem, TextGame
from ttt_eval.exact.strength import strength, worst_positions
from ttt_eval.language_models.player import AnsweredPolicy, ModelTurn
from ttt_eval.matches.account import account_moves
from ttt_eval.matches.corrected_pairs import CorrectedPairs
from ttt_eval.matches.luck import ExpectedValues, LuckCorrection, make_correction, make_expected_values
from ttt_eval.matches.score import Forfeits, Score
from ttt_eval.metrics import LOSSES

MAX_BLUNDERS = 6
"""Maximum number of positions that are listed as blunders."""
EXACT_OPPONENTS = ("random", "win-or-block", "optimal")
"""Opponents of exact results."""


# ---------------------------------------------------------------------------------------------------------------------
# Answers and moves


@dataclass
class MoveCount:
    """Moves and answers with one number of stones on the board."""

    moves: int = 0
    """legal moves that were named"""
    regret: float = 0.0
    """sum of their losses of value"""
    blunders: int = 0
    """moves that lose value"""
    answers: int = 0
    illegal: int = 0
    """answers that are no legal moves"""

    def add(self, other: MoveCount) -> None:
        """Add the numbers of another count."""
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)

    def to_dict(self, exact: bool) -> dict[str, Any]:
        """Return JSON-ready data; docs/language-models.md documents the keys."""
        known = exact and self.moves > 0
        return {
            "moves": self.moves,
            "regret": self.regret / self.moves if known else None,
            "blunders": self.blunders if exact else None,
            "answers": self.answers,
            "illegal": self.illegal,
            "illegal_share": self.illegal / self.answers if self.answers else 0.0,
        }


@dataclass
class AnswerCounts:
    """Moves of a model, with their losses of value where the game is solved.

    Attributes:
        game: the game.
        by_stones: by the number of stones on the board before the move.
        problems: illegal answers by kind.
        moves: by position, how often each cell was named.
    """

    game: Game
    by_stones: dict[int, MoveCount] = field(default_factory=dict)
    problems: Counter[str] = field(default_factory=Counter)
    moves: dict[tuple[bytes, int], Counter[int]] = field(default_factory=dict)
    _losses: dict[tuple[bytes, int], Float64Array] = field(default_factory=dict)

    @property
    def exact(self) -> bool:
        """Whether losses of value are known."""
        return self.game.cells <= MAX_SOLVER_CELLS

    def add(self, position: Position, action: int, answers: int, problems: Sequence[Problem]) -> None:
        """Count a turn.

        Args:
            position: before the move.
            action: the cell that was named, or -1.
            answers: number of answers.
            problems: of those that are no legal moves.
        """
        count = self.by_stones.setdefault(int(np.count_nonzero(position.cells)), MoveCount())
        count.answers += answers
        count.illegal += len(problems)
        self.problems.update(one.kind for one in problems)
        if action < 0:
            return
        count.moves += 1
        self.moves.setdefault((position.cells.tobytes(), int(position.mover)), Counter())[action] += 1
        if self.exact:
            loss = float(self._action_losses(position)[action])
            count.regret += loss
            count.blunders += loss > VALUE_TOLERANCE

    def _action_losses(self, position: Position) -> Float64Array:
        key = position.cells.tobytes(), int(position.mover)
        if key not in self._losses:
            values = solve(self.game).action_values(Boards.from_positions([position]))[0]
            self._losses[key] = np.nanmax(values) - values
        return self._losses[key]

    def blunders(self) -> list[dict[str, Any]]:
        """Return the positions whose moves lost most value in all, JSON-ready."""
        costs: list[tuple[float, tuple[bytes, int]]] = []
        for key, named in self.moves.items() if self.exact else ():
            cost = sum(float(self._losses[key][cell]) * count for cell, count in named.items())
            if cost > VALUE_TOLERANCE:
                costs.append((cost, key))
        costs.sort(key=lambda one: (-one[0], one[1]))
        return [self._blunder(cost, key) for cost, key in costs[:MAX_BLUNDERS]]

    def _blunder(self, cost: float, key: tuple[bytes, int]) -> dict[str, Any]:
        named, losses = self.moves[key], self._losses[key]
        position = Position(np.frombuffer(key[0], np.int8), key[1])
        times = named.total()
        return {
            "position": to_text(position, self.game),
            "moves": {str(cell): count / times for cell, count in sorted(named.items())},
            "best": np.flatnonzero(losses <= VALUE_TOLERANCE).tolist(),
            "loss": cost / times,
            "times": times,
        }

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-ready data; docs/language-models.md documents the keys."""
        total = MoveCount()
        for one in self.by_stones.values():
            total.add(one)
        rows = [{"stones": stones, **count.to_dict(self.exact)} for stones, count in sorted(self.by_stones.items())]
        return {**total.to_dict(self.exact), "problems": dict(sorted(self.problems.items())), "by_stones": rows}


# ---------------------------------------------------------------------------------------------------------------------
# Games


def score_games(
    game: Game, pairs: Sequence[tuple[TextGame, TextGame]], opponent: Policy, luck_correction: str
) -> Score:
    """Return the score of a model from pairs of games, without luck if ``luck_correction`` says so.

    The luck is that of :mod:`ttt_eval.matches.luck`: of skips, and of the opponent's draws where they are known.
    """
    correction = make_correction(luck_correction, game)
    known = None if correction is None else make_expected_values(opponent, correction)
    results, lengths = np.zeros((3, 3), np.int64), np.zeros((2, 3, game.cells + 1), np.int64)
    lost = won = 0
    first, points = "", np.zeros(len(pairs))
    for number, pair in enumerate(pairs):
        places = [text.outcome.result_index(seat) for seat, text in enumerate(pair)]
        results[places[0], places[1]] += 1
        for seat, text in enumerate(pair):
            lengths[seat, places[seat], np.count_nonzero(text.position.cells)] += 1
            if text.turns[-1].action < 0:
                lost, won = lost + (text.turns[-1].by == "answer"), won + (text.turns[-1].by != "answer")
                problems = text.turns[-1].problems
                first = first or (problems[-1].message if problems else "it has given up")
            if correction is not None:
                points[number] += (1 + text.result(seat) - game_luck(text, seat, correction, known)) / 4
    corrected = None if correction is None else CorrectedPairs.from_scores(points)
    return Score(results, lengths, Forfeits(lost, won, first), corrected)


def game_luck(text: TextGame, seat: int, correction: LuckCorrection, known: ExpectedValues | None) -> float:
    """Return the luck in a game for the player of a seat.

    Args:
        text: the game.
        seat: the seat.
        correction: the value function.
        known: the draws of the opponent, if they are known: then their luck counts too.
    """
    moved = [turn for turn in text.turns if turn.action >= 0]
    if not moved:
        return 0.0
    value, moves, _ = account_moves([(turn.position, turn.action, turn.skip) for turn in moved], correction)
    luck = 0.0
    for turn, move in zip(moved, moves, strict=True):
        after = value + move.change + move.luck
        if known is not None and turn.by == "opponent":
            luck += after - float(known.expected(Boards.from_positions([turn.position]))[0])
        else:
            luck += move.luck
        value = after
    return luck * (1 - 2 * seat)


def count_games(game: Game, games: Sequence[tuple[int, TextGame]]) -> AnswerCounts:
    """Return the counts of the model's turns in games, each with the model's seat."""
    counts = AnswerCounts(game)
    for seat, text in games:
        for turn in text.turns:
            if turn.position.mover == seat:
                named = turn.action if turn.by == "answer" else -1
                counts.add(turn.position, named, len(turn.problems) + (named >= 0), turn.problems)
    return counts


def describe_games(
    game: Game, finished: Mapping[int, TextGame], opponent: Policy, luck_correction: str
) -> dict[str, Any] | None:
    """Return JSON-ready results of the finished pairs of games; None if no pair is finished."""
    numbers = [number for number in sorted(finished) if number % 2 == 0 and number + 1 in finished]
    if not numbers:
        return None
    pairs = [(finished[number], finished[number + 1]) for number in numbers]
    score = score_games(game, pairs, opponent, luck_correction)
    counts = count_games(game, [(seat, text) for pair in pairs for seat, text in enumerate(pair)])
    return {
        **score.to_dict(),
        "pairs": score.pairs.tolist(),
        "corrected": None if score.corrected is None else score.corrected.to_list(),
        "moves": counts.to_dict(),
        "blunders": counts.blunders(),
    }


# ---------------------------------------------------------------------------------------------------------------------
# Positions


class AnsweredPositions(NamedTuple):
    """Positions and a model's turns in some of them."""

    boards: Boards
    turns: Mapping[int, ModelTurn]
    """by row"""
    deterministic: bool
    """whether the model answers a question always alike, so that its policy is known"""


def describe_positions(game: Game, name: str, answered: AnsweredPositions) -> dict[str, Any]:
    """Return JSON-ready results of a model's turns in the reachable positions.

    Exact strength is included if the model is deterministic and has answered all of them.
    """
    boards, turns, deterministic = answered
    counts = AnswerCounts(game)
    for row, turn in sorted(turns.items()):
        counts.add(boards.position(row), turn.action, len(turn.answers), turn.problems)
    complete = len(turns) == len(boards.mover)
    exact: dict[str, Any] | None = None
    if complete and deterministic:
        exact = describe_strength(game, AnsweredPolicy(game, name, boards, turns))
    blunders = counts.blunders() if exact is None else exact.pop("blunders")
    return {
        "positions": len(boards.mover),
        "answered": len(turns),
        "without_move": sum(turn.action < 0 for turn in turns.values()),
        "moves": counts.to_dict(),
        "blunders": blunders,
        "exact": exact,
    }


def describe_strength(game: Game, policy: Policy) -> dict[str, Any]:
    """Return JSON-ready exact results of a policy."""
    solved = game.cells <= MAX_SOLVER_CELLS
    exact = strength(game, policy, EXACT_OPPONENTS if solved else EXACT_OPPONENTS[:2])
    mistakes = worst_positions(game, policy, "random", MAX_BLUNDERS) if solved else []
    return {
        **dict.fromkeys(LOSSES),
        **exact.measures,
        "gains": None if exact.gains is None else dict(zip(("first", "second"), exact.gains, strict=True)),
        "results": {opponent: result._asdict() for opponent, result in exact.results.items()},
        "blunders": [
            {
                "position": to_text(one.choice.position, game),
                "moves": {str(cell): float(one.choice.probabilities[cell]) for cell in one.choice.played},
                "best": one.choice.best.tolist(),
                "loss": one.loss,
                "likely": one.likely,
            }
            for one in mistakes
        ],
    }
