"""Text games as a task set and an environment of verifiers (``pip install verifiers``), loaded as
``ttt-text``.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import AsyncExitStack
from functools import cache
from typing import Any

from ttt_envs.core.packages import install_command
from ttt_envs.game.game import Game
from ttt_envs.text.text_game import MAX_ASKS, SELF, Illegal, TextGame
from ttt_eval.language_models.credit import describe_seat, opponent_credit, optimal_credit

try:
    import verifiers.v1 as vf
except ModuleNotFoundError as problem:
    package = (problem.name or "").partition(".")[0]
    raise ModuleNotFoundError(
        f"ttt-text needs {package}, which is not installed: {install_command('verifiers')}",
        name=problem.name,
    ) from None

_optimal_credit = cache(optimal_credit)
_opponent_credit = cache(opponent_credit)


class TextData(vf.TaskData):
    """One game: its parameters, as ``Game.to_dict``, its presentation and its seed."""

    game: dict[str, Any]
    presentation: str
    seed: int


class TextTask(vf.Task[TextData, vf.State, vf.TaskConfig]):
    """The task of one game, which :class:`VerifiersEnv` plays and rewards."""


class TextTasksetConfig(vf.TasksetConfig):
    """The games: options ``--env.taskset.*``."""

    size: int = 3
    win_length: int | None = None
    skip_chance: float = 0.25
    presentation: str = "grid"


class TextTaskset(vf.Taskset[TextTask, TextTasksetConfig]):
    """Games of the seeds 0, 1, 2, ..."""

    INFINITE = True

    def load(self) -> Iterator[TextTask]:
        """Yield one task for each seed."""
        config = self.config
        game = Game.of_size(config.size, config.win_length, config.skip_chance).to_dict()
        for seed in itertools.count():
            data = TextData(
                name=f"seed {seed}", game=game, presentation=config.presentation, seed=seed
            )
            yield TextTask(data, config.task)


class VerifiersEnvConfig(vf.EnvConfig):
    """Opponents and rewards: options ``--env.*``."""

    player: vf.AgentConfig = vf.AgentConfig(harness={"id": "null"})
    second: vf.AgentConfig = vf.AgentConfig(harness={"id": "null"})
    """plays the second seat with opponent="self"; else unused"""
    opponent: str = "win-or-block"
    """a spec string, then the player moves first in games of even seeds; or "self", the agents
    player and second
    """
    illegal: Illegal = "ask"
    max_asks: int = MAX_ASKS
    weights: dict[str, float] = {"result": 1.0}  # noqa: RUF012  # pydantic copies defaults
    """weights of result, regret, advantage and illegal; 0 if not given"""


class VerifiersEnv(vf.Env[VerifiersEnvConfig]):
    """One game between the agent and an opponent, or between two agents."""

    async def run(self, task: Any, agents: Any) -> None:
        """Play the game, then record rewards and metrics on the trace of each agent."""
        data = task.data
        config = self.config
        text = TextGame(
            Game.from_dict(data.game),
            illegal=config.illegal,
            max_asks=config.max_asks,
            seed=data.seed,
            opponent=config.opponent,
            seat=data.seed % 2,
            presentation=data.presentation,
        )
        players = [agents.player, agents.second] if config.opponent == SELF else [agents.player]
        async with AsyncExitStack() as stack:
            talks = [
                await stack.enter_async_context(player.interaction(task)) for player in players
            ]
            by_seat = dict(zip(text.seats, talks, strict=True))
            while not text.over:
                segment = await by_seat[text.mover].turn(text.prompt())
                if segment.terminated:
                    break
                text.step(segment.last_reply)
        for seat, talk in by_seat.items():
            _record(talk.trace, text, seat, config)


def _record(trace: Any, text: TextGame, seat: int, config: VerifiersEnvConfig) -> None:
    """Record turns, rewards and metrics of :func:`ttt_eval.language_models.credit.describe_seat` on
    a trace.
    """
    against = (
        _opponent_credit(text.game, config.opponent)
        if getattr(text.opponent, "pure", False)
        else None
    )
    turns, rewards, metrics = describe_seat(text, seat, _optimal_credit(text.game), against)
    for name, value in rewards.items():
        trace.record_reward(name, value, config.weights.get(name, 0.0))
    trace.record_metrics(metrics)
    trace.info["turns"] = turns
    trace.info["finished"] = text.over
