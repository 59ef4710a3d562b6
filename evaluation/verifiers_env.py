"""Text games as a task set and an environment of verifiers (``pip install verifiers``), loaded as ``ttt-text``.

The result of a game is the reward. Regret, advantage and illegal answers are rewards of weight 0 by default, and
``trace.info["turns"]`` has the exact credit of each own turn: see :func:`evaluation.credit.own_turns`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import AsyncExitStack
from functools import cache
from typing import Any

import verifiers.v1 as vf

from evaluation.credit import opponent_credit, optimal_credit, own_turns
from ttt_envs.game.rules import Game
from ttt_envs.text.text_game import MAX_ASKS, SELF, Illegal, TextGame

_optimal_credit, _opponent_credit = cache(optimal_credit), cache(opponent_credit)


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
            data = TextData(name=f"seed {seed}", game=game, presentation=config.presentation, seed=seed)
            yield TextTask(data, config.task)


class VerifiersEnvConfig(vf.EnvConfig):
    """Opponents and rewards: options ``--env.*``."""

    player: vf.AgentConfig = vf.AgentConfig(harness={"id": "null"})
    second: vf.AgentConfig = vf.AgentConfig(harness={"id": "null"})
    """plays the second seat with opponent="self"; else unused"""
    opponent: str = "win-or-block"
    """a spec string, then the player moves first in games of even seeds; or "self", the agents player and second"""
    illegal: Illegal = "ask"
    max_asks: int = MAX_ASKS
    weights: dict[str, float] = {"result": 1.0}  # noqa: RUF012  # pydantic copies defaults
    """weights of result, regret, advantage and illegal; 0 if not given"""


class VerifiersEnv(vf.Env[VerifiersEnvConfig]):
    """One game between the agent and an opponent, or between two agents."""

    async def run(self, task: Any, agents: Any) -> None:
        """Play the game, then record rewards and metrics on the trace of each agent."""
        data, config = task.data, self.config
        settings: dict[str, Any] = {"illegal": config.illegal, "max_asks": config.max_asks, "seed": data.seed}
        settings |= {"opponent": config.opponent, "seat": data.seed % 2, "presentation": data.presentation}
        text = TextGame(Game.from_dict(data.game), **settings)
        players = [agents.player, agents.second] if config.opponent == SELF else [agents.player]
        async with AsyncExitStack() as stack:
            talks = [await stack.enter_async_context(player.interaction(task)) for player in players]
            by_seat = dict(zip(text.seats, talks, strict=True))
            while not text.over:
                segment = await by_seat[text.mover].turn(text.prompt())
                if segment.terminated:
                    break
                text.step(segment.last_reply)
        for seat, talk in by_seat.items():
            _record(talk.trace, text, seat, config)


def _record(trace: Any, text: TextGame, seat: int, config: VerifiersEnvConfig) -> None:
    """Record a game on a trace. A player that has stopped before the end of the game has lost it."""
    pure = text.opponent is not None and text.opponent.pure
    against = _opponent_credit(text.game, config.opponent, seat) if pure else None
    turns = own_turns(text.turns, seat, _optimal_credit(text.game), against)
    result = text.result(seat) if text.over else -1 if seat == text.mover else 0
    illegal = sum(len(turn["problems"]) for turn in turns) + len(text.problems) * (seat == text.mover and not text.over)
    rewards = {"result": result, "regret": -sum(turn["regret"] for turn in turns), "illegal": -illegal}
    rewards |= {"advantage": sum(turn["advantage"] for turn in turns)} if pure else {}
    for name, value in rewards.items():
        trace.record_reward(name, float(value), config.weights.get(name, 0.0))
    trace.record_metric("mean_regret", -rewards["regret"] / max(1, len(turns)))
    trace.record_metric("luck", sum(turn["luck"] for turn in turns))
    trace.info["turns"], trace.info["finished"] = turns, text.over
