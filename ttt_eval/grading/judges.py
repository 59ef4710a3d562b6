"""Judges: what a task asks of a submission, and the check of its answers against exact ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import nan
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode

from ttt_envs.arrays import GameArrays, game_arrays
from ttt_envs.core.checks import DATA_PROBLEMS
from ttt_envs.game.boards import to_text
from ttt_envs.game.game import Game
from ttt_eval.checks import (
    PROBES,
    Check,
    CheckRow,
    Evidence,
    check_advantages,
    check_agent,
    check_learner,
    check_search,
    check_values,
)
from ttt_eval.checks.calls import CallError
from ttt_eval.checks.check import judge
from ttt_eval.checks.probes import MakeEnv
from ttt_eval.checks.tables import TIE, make_table
from ttt_eval.exact.decision_values import SelfPlayValues
from ttt_eval.grading.submission import SubmissionError, SubmissionProcess

Judge = Callable[..., Check]
DISCOUNT = 0.9
LAMBDA = 0.95
MAX_VALUE_ERROR = 1e-3
"""Largest error of values of value iteration."""
MAX_EVIDENCE = 3
NUM_ENVS = 16
"""Number of simultaneous games in the environments of submissions."""
GAMES = {
    "one move": (Game(2, 3, 3), 0.0),
    "skips": (Game(2, 3, 3, skip_chance=0.25), 1.0),
    "discount": (Game(2, 3, 3, skip_chance=0.25), 0.9),
    "3 x 3": (Game(3, 3, 3, skip_chance=0.25), 0.9),
}
"""Games and discounts of value iteration, by row."""


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
    except DATA_PROBLEMS:
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


def judge_value_iteration(submission: SubmissionProcess) -> Check:
    """Check ``value_iteration(legal, next_states, rewards, skip_chance, discount)``, which returns
    the values of all states if both players play perfectly.
    """
    rows: list[CheckRow] = []
    for name, (game, discount) in GAMES.items():
        arrays = game_arrays(game)
        model = SelfPlayValues(arrays)
        exact, _ = model.fixed_point(model.best, discount=discount)
        try:
            answer = submission.call(0, *_game(arrays), discount)
            errors = np.ravel(np.asarray(answer, np.float64))[: len(exact)] - exact
        except (CallError, SubmissionError, *DATA_PROBLEMS) as error:
            rows.append(CheckRow("answers", str(error), "fails", "values of all states"))
            break
        boards = arrays.boards(0)
        evidence = [
            Evidence(
                to_text(boards.position(row), game),
                f"the value is {exact[row] + errors[row]:+.3f}, the truth {exact[row]:+.3f}",
            )
            for row in np.argsort(-np.abs(errors))[:MAX_EVIDENCE]
        ]
        largest = np.abs(errors).max()
        text = f"largest error of {len(exact)} values: {largest:.4f}"
        rule = f"at most {MAX_VALUE_ERROR}"
        rows.append(judge(name, text, largest, MAX_VALUE_ERROR, evidence, rule=rule))
    return Check("value iteration", rows, ["values are not those of perfect play"])


def judge_learner(
    submission: SubmissionProcess,
    probes: Sequence[str],
    family: str | None = None,
    values: bool = False,
) -> Check:
    """Check ``train(environment, steps, seed)``, which returns a function of observations; in
    self-play ``train(game, observations, num_starts, seed)``, which learns from arrays.

    Args:
        submission: that has the function.
        probes, family: as of :func:`ttt_eval.checks.check_learner`.
        values: whether scores of actions are their values.
    """

    def train(make_env: MakeEnv, steps: int, seed: int) -> Any:
        agent = submission.call(0, *_task(make_env, steps), seed)
        if values and callable(agent):
            agent.values = agent
        return agent

    try:
        return check_learner(train, probes, family)
    except (CallError, SubmissionError, *DATA_PROBLEMS) as error:
        row = CheckRow("answers", str(error), "fails", "a function of observations")
        return Check("a learner", [row], [str(error)])


def _task(make_env: MakeEnv, steps: int) -> tuple[Any, ...]:
    """Return what a learner is given beside its seed."""
    if not make_env.self_play:
        return _serve(make_env), steps
    model: Any = PROBES["self-play"].exact.model
    return (*_game(model.arrays), model.arrays.observations, model.starts)


def _game(arrays: GameArrays) -> tuple[Any, ...]:
    return arrays.legal, arrays.next, arrays.rewards, arrays.skip_chance


def _serve(make_env: MakeEnv) -> dict[str, Any]:
    """Return what a submission's environment is made of, see ``task.md``."""
    envs: Any = make_env(NUM_ENVS, autoreset_mode=AutoresetMode.SAME_STEP)

    def reset(seed: int | None = None) -> list[Any]:
        observations, info = envs.reset(seed=seed)
        return [observations, {"action_mask": info["action_mask"]}]

    def step(actions: Any) -> list[Any]:
        observations, rewards, terminated, truncated, info = envs.step(np.asarray(actions))
        next_observations = observations.copy()
        next_mask = info["action_mask"].copy()
        for game in np.flatnonzero(terminated | truncated):
            next_observations[game] = info["final_obs"][game]
            next_mask[game] = info["final_info"]["action_mask"][game]
        infos = {
            "action_mask": info["action_mask"],
            "next_observations": next_observations,
            "next_action_mask": next_mask,
        }
        return [observations, rewards, terminated, truncated, infos]

    num_actions = int(envs.single_action_space.n)
    return {"reset": reset, "step": step, "num_envs": NUM_ENVS, "num_actions": num_actions}


JUDGES: Mapping[str, Judge] = {
    "minimax": judge_minimax,
    "search": judge_search,
    "value iteration": judge_value_iteration,
    "advantages": judge_advantages,
    "learner": judge_learner,
}
