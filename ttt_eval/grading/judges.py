"""Judges: what a task asks of a submission, and the check of its answers against exact ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import nan
from typing import Any

import numpy as np

from ttt_envs.agents.specs import make_policy
from ttt_envs.arrays import DecisionProcess, against, game_arrays
from ttt_envs.core.jit import Float64Array, Int64Array
from ttt_envs.game.boards import to_text
from ttt_envs.game.game import Game
from ttt_eval.checks import (
    Check,
    CheckRow,
    Evidence,
    check_advantages,
    check_agent,
    check_search,
    check_values,
)
from ttt_eval.checks.calls import CallError
from ttt_eval.checks.check import judge
from ttt_eval.checks.tables import TIE, make_table
from ttt_eval.grading.submission import SubmissionError, SubmissionProcess

Judge = Callable[..., Check]
DISCOUNT = 0.9
LAMBDA = 0.95
MAX_VALUE_ERROR = 1e-3
"""Largest error of values of value iteration."""
MAX_EVIDENCE = 3
SKIPS = Game(2, 3, 3, skip_chance=0.25)
PROCESSES = {
    "one move": (SKIPS, 0.0),
    "no discount": (SKIPS, 1.0),
    "discount": (SKIPS, 0.9),
    "3 x 3": (Game(), 0.9),
}
"""Games against random play and discounts, by row."""


def judge_minimax(submission: SubmissionProcess) -> Check:
    """Check ``minimax(board)``, which returns a move and the value for the player to move."""
    answers: dict[Sequence[int], Any] = {}

    def ask(board: Sequence[int]) -> Any:
        if board not in answers:
            answers[board] = submission.call(0, board)
        return answers[board]

    agent = check_agent(lambda board: ask(board)[0], limit_s=None)
    values = check_values(lambda board: ask(board)[1], limit_s=None)
    rows = {row.name: row for row in (*values.rows, *agent.rows)}
    wrong = sum(not _is_exact(board, answer) for board, answer in answers.items())
    text = f"{wrong} of {len(answers)} moves or values are not the best"
    exact = judge("exact", text, wrong if answers else nan, 0, rule="none")
    return Check(agent.subject, [*rows.values(), exact], [*agent.causes, *values.causes])


def _is_exact(board: Sequence[int], answer: Any) -> bool:
    """Return whether the move is one of the best, and the value right."""
    table = make_table("plain")
    row = table.index(board)
    try:
        move, value = answer
        return bool(max(table.losses[row, move], abs(value - table.values[row])) < TIE)
    except (TypeError, ValueError, LookupError):
        return False


def judge_search(submission: SubmissionProcess) -> Check:
    """Check ``search(board, simulations, seed)``, which returns visits and the root's value."""

    def search(game: Any, board: Any, evaluator: None, simulations: int, seed: int) -> Any:
        return tuple(submission.call(0, board, simulations, seed))

    return check_search(search, "plain", None, limit_s=None)


def judge_advantages(submission: SubmissionProcess) -> Check:
    """Check ``gae(rewards, values, dones, next_value, next_done, discount, lam)``."""

    def gae(rewards: Any, values: Any, dones: Any, next_value: Any, next_done: Any) -> Any:
        arrays = rewards, values, dones, next_value, next_done
        return submission.call(0, *arrays, DISCOUNT, LAMBDA)

    check = check_advantages(gae, gamma=DISCOUNT, cpu=10.0, limit_s=None)
    right = f"GAE({DISCOUNT}, {LAMBDA})"
    wrong = float(check.recognised != right)
    row = judge("lambda", f"recognised: {check.recognised or 'nothing'}", wrong, 0, rule=right)
    return replace(check, rows=[*check.rows, row])


# --------------------------------------------------------------------------------------------------
# Value iteration


def judge_value_iteration(submission: SubmissionProcess) -> Check:
    """Check ``value_iteration(next_states, probabilities, rewards, discount)``, which returns the
    optimal values of all states.
    """
    rows: list[CheckRow] = []
    for name, (game, discount) in PROCESSES.items():
        arrays = game_arrays(game)
        process = against(arrays, make_policy("random", game), 0)
        states, shares = list_outcomes(process)
        exact = solve(states, shares, process.rewards, discount)
        try:
            answer = submission.call(0, states, shares, process.rewards, discount)
            values = np.asarray(answer, np.float64).reshape(exact.shape)
        except (CallError, SubmissionError, TypeError, ValueError) as error:
            rows.append(CheckRow("answers", str(error), "fails", "values of all states"))
            break
        errors = np.abs(values - exact)
        boards = arrays.boards(0)
        evidence = [
            Evidence(
                to_text(boards.position(process.rows[row]), game),
                f"the value is {values[row]:+.3f}, the truth {exact[row]:+.3f}",
            )
            for row in np.argsort(-errors[:-6])[:MAX_EVIDENCE]
        ]
        text = f"largest error of {len(exact)} values: {errors.max():.4f}"
        rule = f"at most {MAX_VALUE_ERROR}"
        rows.append(judge(name, text, errors.max(), MAX_VALUE_ERROR, evidence, rule=rule))
    return Check("value iteration", rows, ["values are not those of the best play"])


def list_outcomes(process: DecisionProcess) -> tuple[Int64Array, Float64Array]:
    """Return the next states of all states and actions, int64[S, A, K], and their probabilities,
    float64[S, A, K]; where there are fewer, probabilities are 0.
    """
    matrices = process.transitions
    width = max(np.diff(matrix.indptr).max() for matrix in matrices)
    states = np.zeros((len(process.start), len(matrices), width), np.int64)
    shares = np.zeros(states.shape)
    for action, matrix in enumerate(matrices):
        row, column = matrix.nonzero()
        place = np.arange(len(row)) - matrix.indptr[row]
        states[row, action, place] = column
        shares[row, action, place] = matrix.data
    return states, shares


def solve(
    states: Int64Array, shares: Float64Array, rewards: Float64Array, discount: float
) -> Float64Array:
    """Return the optimal values, float64[S], by as many sweeps as a game has moves."""
    values = np.zeros(len(states))
    for _ in range(Game().cells + 1):
        values = (rewards + discount * (shares * values[states]).sum(axis=2)).max(axis=1)
    return values


JUDGES: Mapping[str, Judge] = {
    "minimax": judge_minimax,
    "search": judge_search,
    "value iteration": judge_value_iteration,
    "advantages": judge_advantages,
}
