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
from functools import cached_property
from itertools import repeat
from typing import Any, ClassVar

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from pettingzoo import AECEnv
from pettingzoo.utils.env_logger import EnvLogger

from ttt_envs.agents.observations import ObservationBuilder
from ttt_envs.core.checks import Refusal, check_choice
from ttt_envs.core.jit import Int8Array
from ttt_envs.envs import render as drawing
from ttt_envs.envs.config import BoardConfig, GameState, Info, Keywords, environment, takes
from ttt_envs.envs.engine import make_games
from ttt_envs.envs.game_batch import (
    INTEGERS,
    ONLY_ROW,
    HasArrayViews,
    chance_outcomes_of,
    clone_games,
    describe_outcome,
    keys_of_seeds,
    restore_games,
    seed_games,
    to_caller_cells,
    unpack_result,
)
from ttt_envs.envs.kernels import FORFEIT
from ttt_envs.game.actions import num_actions
from ttt_envs.game.phantom import PhantomGame, visible
from ttt_envs.game.rules import NOT_OVER, ChanceOutcome, Outcome

__all__ = ["env", "raw_env"]

Observation = dict[str, NDArray[Any]]
PLAYERS = ("player_0", "player_1")
OUTCOMES = (*range(5), NOT_OVER)
"""outcomes of a game that the caller plays alone"""
_RETURNS = {number: dict(zip(PLAYERS, Outcome(number).returns, strict=True)) for number in OUTCOMES}
"""both players' rewards, by outcome"""
_NOT_BEGUN = -3
"""an outcome in addition to those of the rules: no reset yet"""


def _infos_of(outcome: int, mover: int) -> dict[str, Info]:
    """Return the infos of both agents."""
    winner = Outcome(outcome).winner
    return {
        agent: {"seat": seat, "mover": mover, "result": outcome, "winner": winner}
        for seat, agent in enumerate(PLAYERS)
    }


_INFOS = {number: (_infos_of(number, 0), _infos_of(number, 1)) for number in OUTCOMES}
"""infos of each agent, by outcome, then by mover"""


class _AfterReset:
    """An attribute available after reset; a descriptor, because ``__getattr__`` would slow down
    every access.
    """

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, env: object, owner: type) -> object:
        if env is None:
            return self
        raise AttributeError(f"{self.name} cannot be accessed before reset")


def _after_reset() -> Any:
    """Return the attribute, of any type."""
    return _AfterReset()


@environment(BoardConfig)
class raw_env(HasArrayViews, AECEnv[str, Any, Any]):  # PettingZoo looks for this name
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

    metadata: ClassVar[Keywords] = {
        "render_modes": ["human", "ansi", "rgb_array"],
        "name": "mnk_v0",
        "is_parallelizable": False,  # after a skip, agents do not alternate
        "render_fps": drawing.FPS,
    }

    agents: list[str] = _after_reset()
    agent_selection: str = _after_reset()
    rewards: dict[str, float] = _after_reset()
    terminations: dict[str, bool] = _after_reset()
    truncations: dict[str, bool] = _after_reset()
    _cumulative_rewards: dict[str, float] = _after_reset()

    @takes(BoardConfig)
    def __init__(self, config: BoardConfig) -> None:
        check_choice("render_mode", config.render_mode, (None, *drawing.MODES))
        # at most 29 attributes: instances with more have slower ones
        self.config = config
        self.game = config.game
        self.render_mode = config.render_mode
        self.possible_agents = list(PLAYERS)
        # whether observations are stones and masks, and infos have no skip chance: the common case
        self._is_plain = not (
            self._is_phantom or config.observe_skip_chance or len(config.games) > 1
        )
        self._is_quick = self._is_plain and type(self).observe is raw_env.observe
        self._games = make_games(config, 1)
        self._out = self._games.output()
        self._num_actions = num_actions(self.game)
        builders = {
            a: ObservationBuilder(self.game, "dict", "int8", config.observe_skip_chance)
            for a in PLAYERS
        }
        self.observation_spaces = {a: builder.observation_space for a, builder in builders.items()}
        self.action_spaces = {a: builder.action_space for a, builder in builders.items()}
        self._no_mask = np.zeros(self._num_actions, np.int8)
        # for rendering: the board before the last step
        self._before = np.zeros(self.game.cells, np.int8)
        self._mover = 0
        self._outcome = _NOT_BEGUN
        self._has_key = self._has_updated = False
        self._infos: dict[str, Info] = {}
        self._skip_agent_selection: str | None = None
        self.renderer = drawing.Renderer(visible(self.game), config.render_mode)
        self._make_array_views()

    def _make_array_views(self) -> None:
        """Create the views of the engine's output."""
        views = self._out["views"].reshape(2, self.game.rows, self.game.columns, 2)
        self._copy_planes = {agent: view.copy for agent, view in zip(PLAYERS, views, strict=True)}
        self._mask = self._out["mask"][0]
        self._out_mover = self._out["mover"]

    @cached_property
    def state_space(self) -> spaces.Box:
        """The space of :meth:`state`."""
        num_planes = 4 if self._is_phantom else 3
        return spaces.Box(0, 1, (self.game.rows, self.game.columns, num_planes), np.int8)

    @property
    def _is_phantom(self) -> bool:
        return isinstance(self.game, PhantomGame)

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

    def reset(self, seed: int | None = None, options: Keywords | None = None) -> None:
        """Begin the next episode, or with ``seed`` the first of that seed. ``options`` are
        ignored.
        """
        if seed is not None or not self._has_key:
            seed_games(self._games, ONLY_ROW, keys_of_seeds([seed]))
            self._has_key = True
        self._games.reset(ONLY_ROW, self._out)
        self._mover = self._out_mover.item()
        self._outcome = NOT_OVER
        if self.render_mode is not None:
            self._before = self._games.column("cells")[0]
        self.agents = list(PLAYERS)
        self.agent_selection = PLAYERS[self._mover]
        self.rewards = {"player_0": 0.0, "player_1": 0.0}
        self._cumulative_rewards = {"player_0": 0.0, "player_1": 0.0}
        self.terminations = {"player_0": False, "player_1": False}
        self.truncations = {"player_0": False, "player_1": False}
        self._infos = {}
        self._skip_agent_selection = None
        self._has_updated = True
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
            if self._outcome == _NOT_BEGUN:
                EnvLogger.error_step_before_reset()
            elif self.agents:
                self._was_dead_step(action)
            else:
                EnvLogger.warn_step_after_terminated_truncated()
            return
        if type(action) not in INTEGERS:
            self._check_action(action)
        index = int(action)  # Python's integers compare faster than NumPy's
        if not 0 <= index < self._num_actions:
            self._check_action(action)
        if self.render_mode is not None:
            self._before = self._games.column("cells")[0]
        result = self._games.step_one(index, self._out)
        self._infos = {}
        if result < 2:  # the game goes on, and the result is the mover
            self._mover = result
            self.agent_selection = PLAYERS[result]
        else:
            self._mover, outcome = unpack_result(result)
            self._finish(outcome)
        if self.render_mode == "human":
            self.render()

    def _check_action(self, action: object) -> None:
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
        self.rewards = _RETURNS[outcome].copy()
        self._cumulative_rewards = _RETURNS[outcome].copy()
        self.terminations = {"player_0": True, "player_1": True}
        self._skip_agent_selection = self.agent_selection
        if outcome >= FORFEIT:
            EnvLogger.warn_on_illegal_move()
            self.truncations = {"player_0": True, "player_1": True}
            self.agent_selection = PLAYERS[0]
        else:
            self.agent_selection = self._skip_agent_selection = PLAYERS[1 - self._mover]

    def _was_dead_step(self, action: object) -> None:
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
            self.agent_selection = self._skip_agent_selection or agent
            self._skip_agent_selection = None

    # Infos are created on demand, because loops read the info of one agent only.

    @property
    def infos(self) -> dict[str, Info]:
        """The info of each of ``agents``: see :class:`raw_env`.

        Raises:
            AttributeError: ``reset`` has not been called.
        """
        if self._outcome == _NOT_BEGUN:
            raise AttributeError("infos cannot be accessed before reset")
        return {agent: self._info(agent) for agent in self.agents}

    @infos.setter
    def infos(self, infos: dict[str, Info]) -> None:
        self._infos = infos

    def _info(self, agent: str) -> dict[str, Any]:
        """Return the info of ``agent``: the same object until the next step."""
        if agent in self._infos:
            return self._infos[agent]
        info = self._infos[agent] = _INFOS[self._outcome][self._mover][agent].copy()
        if not self._is_plain and len(self.config.games) > 1:
            info["skip_chance"] = float(self._games.column("skip_chance")[0])
        return info

    def observe(self, agent: str) -> Observation:
        """Return copies of ``observation`` int8[rows, columns, 2] and ``action_mask`` int8[actions]
        of ``agent``.

        With ``observe_skip_chance`` also ``skip_chance`` float32[1].
        """
        if self._outcome == _NOT_BEGUN:
            EnvLogger.error_observe_before_reset()
        planes = self._copy_planes[agent]()
        is_on_move = self._outcome == NOT_OVER and agent == self.agent_selection
        mask = self._mask if is_on_move else self._no_mask
        observation = {"observation": planes, "action_mask": mask.copy()}
        if self._is_plain:  # the common case
            return observation
        if self._is_phantom:
            planes[:, :, 1] &= self._to_agents(self._games.column("found")[0])
        if self.config.observe_skip_chance:
            observation["skip_chance"] = self._games.column("skip_chance").astype(np.float32)
        return observation

    def last(self, observe: bool = True) -> tuple[Observation | None, float, bool, bool, Info]:
        """Return observation (or None), cumulative reward, terminated, truncated and info of the
        selected agent.
        """
        agent = self.agent_selection
        observation: Observation | None
        if observe and self._is_quick:  # does `observe` and `_info` without their calls
            mask = self._mask if self._outcome == NOT_OVER else self._no_mask
            observation = {"observation": self._copy_planes[agent](), "action_mask": mask.copy()}
            if agent not in self._infos:
                self._infos[agent] = _INFOS[self._outcome][self._mover][agent].copy()
        else:
            observation = self.observe(agent) if observe else None
            self._info(agent)
        return (
            observation,
            self._cumulative_rewards[agent],
            self.terminations[agent],
            self.truncations[agent],
            self._infos[agent],
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

    def _to_agents(self, cells: Int8Array) -> Int8Array:
        """Return numbers of the board's cells as the agents see them, int8[rows, columns]."""
        agent_cells = to_caller_cells(self._games, 0, cells)
        return agent_cells.astype(np.int8).reshape(self.game.rows, self.game.columns)

    def state(self) -> Int8Array:
        """Return int8[rows, columns, 3]: stones of player_0, stones of player_1, and a plane of the
        mover (0 or 1).

        In phantom games int8[rows, columns, 4], with the stones that the other player has found
        before the mover: with the results of skips it is all that determines what follows.
        """
        self._check_reset(EnvLogger.error_state_before_reset)
        planes = list(self._out["planes"].reshape(2, self.game.rows, self.game.columns))
        if self._is_phantom:
            planes.append(self._to_agents(self._games.column("found")[0]))
        planes.append(np.full_like(planes[0], self._mover))
        return np.stack(planes, axis=2)

    def legal_actions(self) -> list[int]:
        """Return the legal actions of the selected agent; none when the game is over."""
        self._check_reset(EnvLogger.error_observe_before_reset)
        return np.flatnonzero(self._mask).tolist() if self._outcome == NOT_OVER else []

    def chance_outcomes(self, action: int) -> list[ChanceOutcome]:
        """Return all possible successors of the selected agent's action, with exact probabilities.

        See :func:`ttt_envs.chance_outcomes`. With ``symmetry="random"`` the action is in the
        agent's view, and the positions are those of the board itself.
        """
        return chance_outcomes_of(self._games, 0, action)

    _COPIED = ("agents", "rewards", "_cumulative_rewards", "terminations", "truncations")
    _STATE = ("_outcome", "agent_selection", "_skip_agent_selection", "_has_updated")

    def clone_state(self, include_rng: bool = False) -> GameState:
        """Return a copy of the game. Without ``include_rng`` it does not determine future skips."""
        self._check_reset(EnvLogger.error_state_before_reset)
        state = {name: getattr(self, name) for name in self._STATE}
        state |= {name: getattr(self, name).copy() for name in self._COPIED}
        if self.render_mode is not None:  # pictures mark the last step
            state["_before"] = self._before
        return state | clone_games(self._games, include_rng)

    def restore_state(self, state: GameState, *, seed: int | None = None) -> None:
        """Restore a cloned game.

        Args:
            state: from :meth:`clone_state` of an environment with the same game, symmetry and
                stages of opponents.
            seed: for future random numbers; required if the state was cloned without the generator.

        Raises:
            ValueError: the state has another game or symmetry, or neither the state nor ``seed``
                determines random numbers.
        """
        restore_games(self._games, state, None if seed is None else keys_of_seeds([seed]))
        self._games.observe(self._out)
        for name in self._STATE:
            setattr(self, name, state[name])
        for name in self._COPIED:
            setattr(self, name, state[name].copy())
        self._mover = self._out_mover.item()
        self._infos = {}
        self._has_key = True
        self._before = state.get("_before", self._games.column("cells")[0])

    def render(self) -> str | drawing.Picture | None:
        """Return the board as text (``"ansi"``) or uint8[height, width, 3] (``"rgb_array"``), or
        show a window.
        """
        self._check_reset(EnvLogger.error_render_before_reset)
        before = self._to_agents(self._before).ravel()
        cells = self._to_agents(self._games.column("cells")[0]).ravel()
        last = tuple(np.flatnonzero(before != cells).tolist())
        outcome = describe_outcome(self._games, 0)
        return self.renderer.render(drawing.Scene(cells, self._mover, outcome, last))

    def close(self) -> None:
        """Close the window, if any."""
        self.renderer.close()


def env(**kwargs: Any) -> raw_env:
    """Create :class:`raw_env`, which has PettingZoo's usual checks built in; the arguments are the
    same.
    """
    return raw_env(**kwargs)
