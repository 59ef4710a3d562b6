"""The PettingZoo AEC environment: the caller plays both players.

``env`` and ``raw_env`` make the same object. The checks that PettingZoo's other games get from
three wrappers (illegal move, action out of bounds, calls out of order) are built in, with the
wrappers' behaviour and messages, because the wrappers cost more than twenty times as much as the
game.

Rules: the board has rows x columns cells; player_0 (o) moves first, or with
``first_player="random"`` a drawn player. A move puts one own stone on an empty cell; ``win_length``
or more own stones in a row, column or diagonal win, a full board without such a line is a draw.
After every stone that does not end the game, the other player's turn is skipped with probability
``skip_chance``, and the mover moves again.

Actions: the index of an empty cell, counted row by row from 0 at the top left: ``row * columns +
column``; with ``gravity=True`` a column, from 0 at the left. The action mask has 1 for each legal
action.

Rewards: 0 until the end; then +1 to the winner and -1 to the loser, 0 to both in a draw. An illegal
action ends the game with -1 to its player and 0 to the other.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from itertools import repeat
from typing import Any, ClassVar

import numpy as np
from gymnasium import spaces
from pettingzoo import AECEnv
from pettingzoo.utils.env_logger import EnvLogger

from ttt_envs.agents.observations import ObservationBuilder
from ttt_envs.core.checks import Refusal, check_choice
from ttt_envs.core.jit import Int8Array
from ttt_envs.envs import render as drawing
from ttt_envs.envs.config import BoardConfig, environment, takes
from ttt_envs.envs.engine import INTEGERS, GameBatch, HasViews, keys_of_seeds
from ttt_envs.envs.kernels import FORFEIT
from ttt_envs.game.phantom import PhantomGame, visible
from ttt_envs.game.rules import NOT_OVER, ChanceOutcome, Outcome

__all__ = ["env", "raw_env"]

PLAYERS = ("player_0", "player_1")
# by number of the outcome (the last is NOT_OVER), both players' rewards, and infos for each agent
_RETURNS = tuple(
    dict(zip(PLAYERS, Outcome(number).returns, strict=True)) for number in (*range(5), NOT_OVER)
)
_INFOS: tuple[dict[str, dict[str, Any]], ...] = tuple(
    {
        agent: {"seat": seat, "mover": seat, "result": number, "winner": Outcome(number).winner}
        for seat, agent in enumerate(PLAYERS)
    }
    for number in (*range(5), NOT_OVER)
)
_NOT_BEGUN = -3  # an outcome in addition to those of the rules: no reset yet


class _AfterReset:
    """An attribute available after reset; a descriptor, because ``__getattr__`` would slow down
    every access.
    """

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, env: Any, owner: type) -> Any:
        if env is None:
            return self
        raise AttributeError(f"{self.name} cannot be accessed before reset")


@environment(BoardConfig)
class raw_env(HasViews, AECEnv[str, Any, Any]):  # PettingZoo looks for this name
    """m,n,k tic-tac-toe with skipped turns for two agents.

    A skipped turn is not a separate event: the same agent stays selected. An observation is a dict
    of ``observation`` int8[rows, columns, 2], own stones first, and ``action_mask`` int8[rows *
    columns], all zeros for the agent not on move and after the end; with ``observe_skip_chance``
    also ``skip_chance`` float32[1]. An action is the index of a cell, row by row; with gravity it
    is a column, and the mask is int8[columns], as in ``pettingzoo.classic.connect_four_v3``.
    Rewards come at the end: +1 and -1, or 0 and 0; an illegal action ends the game with -1 for its
    player and 0 for the other. In phantom games the mask has 0 for the agent's own stones and the
    found ones, and after a failed attempt of a classic game the same agent stays selected;
    :meth:`state` has all stones.

    ``infos`` hold the same integers for both agents at every step: ``seat`` (the agent's own, 0 or
    1), ``mover``, ``result`` (the number of the ``rules.Outcome``, which has the text; -1 during
    the game) and ``winner`` (0 or 1; -1 during the game and in a draw). With several skip chances,
    ``skip_chance`` is the one of the episode, for logs.

    After the end, the opponent of the last mover is selected first, as in
    ``pettingzoo.classic.tictactoe_v3``; after an illegal action it is player_0, as with
    ``TerminateIllegalWrapper``.
    """

    metadata: ClassVar[dict[str, Any]] = {
        "render_modes": ["human", "ansi", "rgb_array"],
        "name": "mnk_v0",
        "is_parallelizable": False,  # after a skip, agents do not alternate
        "render_fps": drawing.FPS,
    }

    agents: Any = _AfterReset()
    agent_selection: Any = _AfterReset()
    rewards: Any = _AfterReset()
    terminations: Any = _AfterReset()
    truncations: Any = _AfterReset()
    _cumulative_rewards: Any = _AfterReset()

    @takes(BoardConfig)
    def __init__(self, config: BoardConfig) -> None:
        check_choice("render_mode", config.render_mode, (None, *drawing.MODES))
        self.config, self.game, self.render_mode = config, config.game, config.render_mode
        self.possible_agents = list(PLAYERS)
        self._is_phantom = isinstance(self.game, PhantomGame)
        self._games = GameBatch(config, 1)
        self._out, self._num_actions = self._games.output(), self._games.num_actions
        self._row = np.zeros(1, np.int64)
        builders = {
            a: ObservationBuilder(self.game, "dict", "int8", config.observe_skip_chance)
            for a in PLAYERS
        }
        self.observation_spaces = {a: builder.observation_space for a, builder in builders.items()}
        self.action_spaces = {a: builder.action_space for a, builder in builders.items()}
        num_planes = 4 if self._is_phantom else 3
        self.state_space = spaces.Box(
            0, 1, (self.game.rows, self.game.columns, num_planes), np.int8
        )
        self._no_mask = np.zeros(self._num_actions, np.int8)
        self._before = np.zeros(
            self.game.cells, np.int8
        )  # the board before the last step, for rendering
        self._mover, self._outcome = 0, _NOT_BEGUN
        self._seeded = self._has_updated = False
        self._infos: dict[str, dict[str, Any]] = {}
        self._skip_agent_selection: str | None = None
        self.renderer = drawing.Renderer(visible(self.game), config.render_mode)
        self._name_views()

    def _name_views(self) -> None:
        """Create the views of the engine's output."""
        planes = self._out["planes"].reshape(2, self.game.rows, self.game.columns)
        self._views = {
            PLAYERS[0]: planes.transpose(1, 2, 0),
            PLAYERS[1]: planes[::-1].transpose(1, 2, 0),
        }
        self._mask = self._out["mask"][0]

    def _check_reset(self, raise_error: Callable[[], None]) -> None:
        if self._outcome == _NOT_BEGUN:
            raise_error()

    @property
    def num_agents(self) -> int:
        """Number of agents in the current game.

        Raises:
            AttributeError: ``reset`` has not been called.
        """
        if self._outcome == _NOT_BEGUN:
            raise AttributeError("num_agents cannot be accessed before reset")
        return len(self.agents)

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        """Return the observation space, the same object at every call."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Space[Any]:
        """Return the action space, the same object at every call."""
        return self.action_spaces[agent]

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Begin the next episode, or with ``seed`` the first of that seed. ``options`` are
        ignored.
        """
        keys = None
        if seed is not None or not self._seeded:
            keys, self._seeded = keys_of_seeds([seed]), True
        self._games.reset(self._row, self._out, keys=keys)
        self._mover, self._outcome = int(self._out["mover"][0]), NOT_OVER
        if self.render_mode is not None:
            self._before = self._games.boards().cells[0]
        self.agents = list(PLAYERS)
        self.agent_selection = PLAYERS[self._mover]
        self.rewards = {"player_0": 0.0, "player_1": 0.0}
        self._cumulative_rewards = {"player_0": 0.0, "player_1": 0.0}
        self.terminations = {"player_0": False, "player_1": False}
        self.truncations = {"player_0": False, "player_1": False}
        self._infos, self._skip_agent_selection, self._has_updated = {}, None, True
        if self.render_mode == "human":
            self.render()

    def step(self, action: Any) -> None:
        """Make a move for ``agent_selection``; None for an agent whose game is over.

        Raises:
            AssertionError: there was no ``reset``, or the action is not a cell of the board, or
                with gravity a column.
            ValueError: an action for an agent whose game is over.
        """
        self._has_updated = True
        if self._outcome != NOT_OVER:
            self._check_reset(EnvLogger.error_step_before_reset)
            if self._outcome != _NOT_BEGUN and not self.agents:
                EnvLogger.warn_step_after_terminated_truncated()
            elif self._outcome != _NOT_BEGUN:
                self._was_dead_step(action)
            return
        if type(action) not in INTEGERS:
            self._check_action(action)
        index = int(action)  # Python's integers compare faster than NumPy's
        if not 0 <= index < self._num_actions:
            self._check_action(action)
        if self.render_mode is not None:
            self._before = self._games.boards().cells[0]
        code = self._games.step_one(index, self._out)
        self._infos = {}
        if code < 2:  # the game goes on
            self._mover = code
            self.agent_selection = PLAYERS[code]
        else:
            self._mover = code & 1
            self._finish((code >> 1) - 1)
        if self.render_mode == "human":
            self.render()

    def _check_action(self, action: Any) -> None:
        if isinstance(action, bool) or not self.action_spaces[PLAYERS[0]].contains(action):
            kind = "column" if self.game.gravity else "cell"
            raise AssertionError(
                f"action is not in action space: {action!r} is no {kind} of a board of "
                f"{self.game.rows} x "
                f"{self.game.columns}, choose a whole number from 0 to {self._num_actions - 1}"
            )

    def _finish(self, outcome: int) -> None:
        """Terminate both agents, and select the agent that is removed first."""
        self._outcome = outcome
        self.rewards, self._cumulative_rewards = _RETURNS[outcome].copy(), _RETURNS[outcome].copy()
        self.terminations = {"player_0": True, "player_1": True}
        self._skip_agent_selection = self.agent_selection
        if outcome >= FORFEIT:
            EnvLogger.warn_on_illegal_move()
            self.truncations = {"player_0": True, "player_1": True}
            self.agent_selection = PLAYERS[0]
        else:
            self.agent_selection = self._skip_agent_selection = PLAYERS[1 - self._mover]

    def _was_dead_step(self, action: Any) -> None:
        """Remove the selected agent: like the base class, for two agents that end together."""
        if action is not None:
            raise Refusal("when an agent is dead, the only valid action is None")
        agent = self.agent_selection
        for table in (self.terminations, self.truncations, self.rewards, self._cumulative_rewards):
            del table[agent]
        self.agents.remove(agent)
        if self.agents:
            self.agent_selection = self.agents[0]
            self.rewards[self.agent_selection] = 0.0
        else:
            self.agent_selection, self._skip_agent_selection = (
                self._skip_agent_selection or agent,
                None,
            )

    # Infos are created on demand, because loops read the info of one agent only.

    @property
    def infos(self) -> dict[str, dict[str, Any]]:
        """The info of each of ``agents``: see :class:`raw_env`.

        Raises:
            AttributeError: ``reset`` has not been called.
        """
        if self._outcome == _NOT_BEGUN:
            raise AttributeError("infos cannot be accessed before reset")
        return {agent: self._info(agent) for agent in self.agents}

    @infos.setter
    def infos(self, infos: dict[str, dict[str, Any]]) -> None:
        self._infos = infos

    def _info(self, agent: str) -> dict[str, Any]:
        """Return the info of ``agent``: the same object until the next step."""
        info = self._infos.get(agent)
        if info is None:
            info = self._infos[agent] = _INFOS[self._outcome][agent].copy()
            info["mover"] = int(self._mover)  # of NumPy where kernels are not compiled
            if len(self.config.games) > 1:
                info["skip_chance"] = float(self._games.column("skip_chance")[0])
        return info

    def observe(self, agent: str) -> dict[str, Any]:
        """Return copies of ``observation`` int8[rows, columns, 2] and ``action_mask`` int8[actions]
        of ``agent``.

        With ``observe_skip_chance`` also ``skip_chance`` float32[1].
        """
        if self._outcome == _NOT_BEGUN:
            EnvLogger.error_observe_before_reset()
        planes = self._views[agent].copy()
        if self._is_phantom:
            planes[:, :, 1] &= self._to_view(self._games.found_stones()[0])
        is_on_move = self._outcome == NOT_OVER and agent == self.agent_selection
        observation = {
            "observation": planes,
            "action_mask": (self._mask if is_on_move else self._no_mask).copy(),
        }
        if self.config.observe_skip_chance:
            observation["skip_chance"] = self._games.column("skip_chance").astype(np.float32)
        return observation

    def last(self, observe: bool = True) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Return observation (or None), cumulative reward, terminated, truncated and info of the
        selected agent.
        """
        agent = self.agent_selection
        observation = self.observe(agent) if observe else None
        info = self._info(agent)
        return (
            observation,
            self._cumulative_rewards[agent],
            self.terminations[agent],
            self.truncations[agent],
            info,
        )

    def agent_iter(self, max_iter: int = 2**63) -> Iterator[str]:
        """Iterate over selected agents; call ``step`` or ``reset`` between two of them."""
        self._check_reset(EnvLogger.error_agent_iter_before_reset)
        return self._turns(max_iter)

    def _turns(self, limit: int) -> Iterator[str]:
        for _ in repeat(None, min(limit, sys.maxsize)):  # faster than counting down from 2**63
            if not self.agents:
                return
            assert self._has_updated, "need to call step() or reset() in a loop over `agent_iter`"
            self._has_updated = False
            yield self.agent_selection

    def _to_view(self, cells: np.ndarray[Any, Any]) -> Int8Array:
        """Return numbers of the board's cells in the agents' view, int8[rows, columns]."""
        return (
            self._games.to_caller_view(0, cells)
            .astype(np.int8)
            .reshape(self.game.rows, self.game.columns)
        )

    def state(self) -> np.ndarray[Any, Any]:
        """Return int8[rows, columns, 3]: stones of player_0, stones of player_1, and a plane of the
        mover (0 or 1).

        In phantom games int8[rows, columns, 4], with the stones that the other player has found
        before the mover: with the results of skips it is all that determines what follows.
        """
        self._check_reset(EnvLogger.error_state_before_reset)
        stones = self._views[PLAYERS[0]]
        view = [self._to_view(self._games.found_stones()[0])] if self._is_phantom else []
        return np.stack(
            [stones[:, :, 0], stones[:, :, 1], *view, np.full_like(stones[:, :, 0], self._mover)],
            axis=2,
        )

    def legal_actions(self) -> list[int]:
        """Return the legal actions of the selected agent; none when the game is over."""
        self._check_reset(EnvLogger.error_observe_before_reset)
        actions: list[int] = (
            np.flatnonzero(self._mask).tolist() if self._outcome == NOT_OVER else []
        )
        return actions

    def chance_outcomes(self, action: int) -> list[ChanceOutcome]:
        """Return all possible successors of the selected agent's action, with exact probabilities.

        See :func:`ttt_envs.chance_outcomes`. With ``symmetry="random"`` the action is in the
        agent's view, and the positions are those of the board itself.
        """
        return self._games.chance_outcomes(0, action)

    _COPIED = ("agents", "rewards", "_cumulative_rewards", "terminations", "truncations")
    _STATE = ("_outcome", "agent_selection", "_skip_agent_selection", "_has_updated")

    def clone_state(self, include_rng: bool = False) -> dict[str, Any]:
        """Return a copy of the game. Without ``include_rng`` it does not determine future skips."""
        self._check_reset(EnvLogger.error_state_before_reset)
        state = {name: getattr(self, name) for name in self._STATE}
        state |= {name: getattr(self, name).copy() for name in self._COPIED}
        picture = (
            {} if self.render_mode is None else {"_before": self._before}
        )  # pictures mark the last step
        return state | picture | self._games.clone(include_rng)

    def restore_state(self, state: dict[str, Any], *, seed: int | None = None) -> None:
        """Restore a cloned game.

        Args:
            state: from :meth:`clone_state` of an environment with the same game, symmetry and
                stages of opponents.
            seed: for future random numbers; required if the state was cloned without the generator.

        Raises:
            ValueError: the state has another game or symmetry, or neither the state nor ``seed``
                determines random numbers.
        """
        self._games.restore(state, None if seed is None else keys_of_seeds([seed]))
        self._games.observe(self._out)
        for name in self._STATE:
            setattr(self, name, state[name])
        for name in self._COPIED:
            setattr(self, name, state[name].copy())
        self._mover, self._infos, self._seeded = int(self._out["mover"][0]), {}, True
        self._before = state.get("_before", self._games.boards().cells[0])

    def render(self) -> Any:
        """Return the board as text (``"ansi"``) or uint8[height, width, 3] (``"rgb_array"``), or
        show a window.
        """
        self._check_reset(EnvLogger.error_render_before_reset)
        before, cells = (
            self._to_view(self._before).ravel(),
            self._to_view(self._games.boards().cells[0]).ravel(),
        )
        last = tuple(np.flatnonzero(before != cells).tolist())
        return self.renderer.render(
            drawing.Scene(cells, self._mover, self._games.description(0), last)
        )

    def close(self) -> None:
        """Close the window, if any."""
        self.renderer.close()


def env(**kwargs: Any) -> raw_env:
    """Create :class:`raw_env`, which has PettingZoo's usual checks built in; the arguments are the
    same.
    """
    return raw_env(**kwargs)
