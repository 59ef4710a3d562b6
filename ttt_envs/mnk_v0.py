"""The PettingZoo AEC environment: the caller plays both players.

``env`` and ``raw_env`` make the same object. The checks that PettingZoo's other games get from three wrappers (illegal
move, action out of bounds, calls out of order) are built in, with the wrappers' behaviour and messages, because the
wrappers cost more than twenty times as much as the game.

Rules: the board has rows x columns cells; player_0 (o) moves first, or with
``first="random"`` a drawn player. A move puts one own stone on an empty cell;
``win_length`` or more own stones in a row, column or diagonal win, a full board without such a line is a draw. After
every stone that does not end the game, the other player's turn is skipped with probability ``skip_chance``, and the
mover moves again.

Actions: the index of an empty cell, counted row by row from 0 at the top left: ``row * columns + column``; with
``gravity=True`` a column, from 0 at the left. The action mask has 1 for each legal action.

Rewards: 0 until the end; then +1 to the winner and -1 to the loser, 0 to both in a draw. An illegal action ends the
game with -1 to its player and 0 to the other.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from itertools import repeat
from typing import Any, ClassVar, get_args

import numpy as np
from gymnasium import spaces
from gymnasium.utils import EzPickle, seeding
from pettingzoo import AECEnv
from pettingzoo.utils.env_logger import EnvLogger

from ttt_envs.agents.observations import SKIP_CHANCE_SPACE, Context
from ttt_envs.core.checks import check_argument_names, check_choice
from ttt_envs.core.jit import Int8Array, Int64Array, compiled, inlined, int64
from ttt_envs.core.random import draw_key, splitmix64, uniform
from ttt_envs.envs import render as drawing
from ttt_envs.envs.contexts import First, SkipChance, draw_opening, make_games, make_openings
from ttt_envs.envs.lockstep import Symmetry, check_restored
from ttt_envs.envs.step_kernels import FORFEIT
from ttt_envs.game.actions import action_to_cell, check_action, num_actions
from ttt_envs.game.attempts import FOUND, attempt
from ttt_envs.game.game import BOARD_HINTS, Position
from ttt_envs.game.parameters import has_gravity, pack_parameters, unpack_parameters
from ttt_envs.game.phantom import AnyGame, Kind, visible
from ttt_envs.game.rules import (
    ILLEGAL,
    NOT_OVER,
    STREAM_CONTEXT,
    STREAM_SYMMETRY,
    ChanceOutcome,
    Outcome,
    chance_outcomes,
    landing_cell,
    play,
)
from ttt_envs.game.symmetry import symmetries

__all__ = ["env", "raw_env"]

PLAYERS = ("player_0", "player_1")
# by number of the outcome (the last is NOT_OVER), both players' rewards, and infos for each agent
_RETURNS = tuple(Outcome(number).returns for number in (*range(5), NOT_OVER))
_INFOS: tuple[dict[str, dict[str, Any]], ...] = tuple(
    {
        agent: {
            "action_mask": None,
            "seat": seat,
            "mover": seat,
            "result": number,
            "winner": Outcome(number).winner,
            "outcome": Outcome(number).description,
        }
        for seat, agent in enumerate(PLAYERS)
    }
    for number in (*range(5), NOT_OVER)
)
_INT64 = np.int64  # a global, because every step reads it
_NOT_BEGUN = -3  # an outcome in addition to those of the rules: no reset yet


class _AfterReset:
    """An attribute available after reset; a descriptor, because ``__getattr__`` would slow down every access."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, env: Any, owner: type) -> Any:
        if env is None:
            return self
        raise AttributeError(f"{self.name} cannot be accessed before reset")


@check_argument_names(BOARD_HINTS | {"opponent": "both players are agents; gymnasium.make takes an opponent"})
class raw_env(AECEnv[str, Any, Any], EzPickle):  # PettingZoo looks for this name
    """m,n,k tic-tac-toe with skipped turns for two agents.

    A skipped turn is not a separate event: the same agent stays selected. An observation is a dict of ``observation``
    int8[rows, columns, 2], own stones first, and ``action_mask`` int8[rows * columns], all zeros for the agent not on
    move and after the end. An action is the index of a cell, row by row; with gravity it is a column, and the mask is
    int8[columns], as in ``pettingzoo.classic.connect_four_v3``. Rewards come at the end: +1 and -1, or 0 and
    0; an illegal action ends the game with -1 for its player and 0 for the other.

    ``infos`` hold the same keys for both agents at every step: ``action_mask`` as in the observation, ``seat`` (the
    agent's own, 0 or 1), ``mover``, ``result`` (the number of the ``rules.Outcome``, -1 during the game),
    ``winner`` (0 or 1; -1 during the game and in a draw) and ``outcome``, the result as text, empty during the game.
    With several skip chances, ``skip_chance`` is the one of the episode, for logs.

    After the end, the opponent of the last mover is selected first, as in ``pettingzoo.classic.tictactoe_v3``; after an
    illegal action it is player_0, as with ``TerminateIllegalWrapper``.

    Args:
        size: edge of the board, or (rows, columns), 1 to 19.
        win_length: stones in a line needed to win.
        skip_chance: probability of a skipped turn, in [0, 1); or several, as in ``(0, 0.5)``, of which each episode
            draws one, all equally often.
        symmetry: ``"random"`` shows each episode under a random symmetry of the board; actions are mapped back.
        context: ``"shown"`` adds ``skip_chance`` float32[1], the skip chance of the episode, to observations; or
            ``"hidden"``.
        openings: positions as text, of which each episode begins with one, drawn uniformly; None for the empty board.
        first: the player who moves first, ``"player_0"``, or ``"random"``: each episode draws one, both equally often.
        gravity: stones fall to the lowest empty cell of their column, as in Connect Four, and actions are columns.
        overlines: longer lines count too; without them only lines of exactly ``win_length``, as in standard gomoku.
        misere: a player who completes a line loses.
        torus: lines continue across the edges of the board, a torus.
        phantom: ``"classic"`` or ``"abrupt"`` hides the opponent's stones until an agent tries their cells, as in
            OpenSpiel's ``phantom_ttt``: see :mod:`ttt_envs.game.attempts`. An agent observes its own stones and the
            found ones, and its mask has 0 for these. After a failed attempt of a classic game the same agent stays
            selected. :meth:`state`, pictures and :meth:`clone_state` have all stones.
        render_mode: None, ``"ansi"``, ``"rgb_array"`` or ``"human"`` (needs pygame).
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

    def __init__(
        self,
        size: int | tuple[int, int] = 3,
        win_length: int = 3,
        skip_chance: SkipChance = 0.0,
        *,
        symmetry: Symmetry = "none",
        context: Context = "hidden",
        openings: Sequence[str] | None = None,
        first: First = "player_0",
        gravity: bool = False,
        overlines: bool = True,
        misere: bool = False,
        torus: bool = False,
        phantom: Kind | None = None,
        render_mode: str | None = None,
    ) -> None:
        rules = {"gravity": gravity, "overlines": overlines, "misere": misere, "torus": torus, "phantom": phantom}
        settings = {"symmetry": symmetry, "context": context, "openings": openings, "first": first}
        settings["render_mode"] = render_mode
        EzPickle.__init__(self, size, win_length, skip_chance, **settings, **rules)
        super().__init__()
        check_choice("render_mode", render_mode, (None, *drawing.MODES))
        check_choice("symmetry", symmetry, get_args(Symmetry))
        check_choice("context", context, get_args(Context))
        self.games = make_games(size, win_length, skip_chance, rules)
        self.game = self.games[0]
        self._openings = make_openings(self.games, openings, first)
        self._shows_context = context == "shown"
        self._has_contexts = len(self.games) > 1
        self.render_mode = render_mode
        self._human = render_mode == "human"
        self.possible_agents = list(PLAYERS)
        shape = (self.game.rows, self.game.columns, 2)
        self._num_actions = num_actions(self.game)
        self._lines = visible(self.game).parameters.lines
        self._is_phantom, self._is_abrupt = phantom is not None, phantom == "abrupt"
        parts: dict[str, spaces.Space[Any]] = {
            "observation": spaces.Box(0, 1, shape, np.int8),
            "action_mask": spaces.Box(0, 1, (self._num_actions,), np.int8),
        }
        if self._shows_context:
            parts["skip_chance"] = SKIP_CHANCE_SPACE
        self.observation_spaces = {agent: spaces.Dict(parts) for agent in PLAYERS}
        self.action_spaces = {agent: spaces.Discrete(self._num_actions) for agent in PLAYERS}
        self._actions = self.action_spaces[PLAYERS[0]]
        num_planes = 4 if self._is_phantom else 3
        self.state_space = spaces.Box(0, 1, (self.game.rows, self.game.columns, num_planes), np.int8)
        self._permutations = symmetries(self.game, "all") if symmetry == "random" else None
        self._symmetry = 0
        self._mover = 0
        self._last: int | None = None  # the cell of the last stone in the agents' view
        self._outcome = _NOT_BEGUN
        # The cells, the mask, and each player's view, updated stone by stone: an observation is then a copy. One
        # array, so that a reset is one copy. In phantom games, last the stones that have been found.
        size = self._size = self.game.cells
        self._memory = np.zeros((7 if self._is_phantom else 6) * size, np.int8)
        self._numbers = np.concatenate([np.array([0, 0, -1, 0]), pack_parameters(visible(self.game).parameters)])
        self._name_views()
        self._mask.fill(1)
        self._no_mask = np.zeros(self._num_actions, np.int8)
        self._start = self._memory.copy()
        self._seeded = False
        self._renderer = drawing.Renderer(visible(self.game), render_mode)
        self._infos: dict[str, dict[str, Any]] = {}
        self._has_reset = False
        self._has_updated = False
        self._quick = False  # a game has begun, and observe is not overridden

    def _name_views(self) -> None:
        """Create the views of the memory; needed after copying, because a copy of a view is not a view."""
        size = self._size
        self._cells, mask, self._views, self._found = np.split(self._memory, [size, 2 * size, 6 * size])
        self._mask = mask[: self._num_actions]
        shape = (2, self.game.rows, self.game.columns, 2)
        self._seen = dict(zip(PLAYERS, self._views.reshape(shape), strict=True))
        self._key = self._numbers.view(np.uint64)[_KEY : _KEY + 1]
        self._skip_chance = self._numbers.view(np.float64)[_SKIP_CHANCE : _SKIP_CHANCE + 1]

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__  # a copy continues the game, which `EzPickle` would not

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._name_views()

    @property
    def num_agents(self) -> int:
        """Number of agents in the current game.

        Raises:
            AttributeError: ``reset`` has not been called.
        """
        if not self._has_reset:
            raise AttributeError("num_agents cannot be accessed before reset")
        return len(self.agents)

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        """Return the observation space, the same object at every call."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Space[Any]:
        """Return the action space, the same object at every call."""
        return self.action_spaces[agent]

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Begin the next episode, or with ``seed`` the first of that seed. ``options`` are ignored."""
        if seed is not None or not self._seeded:
            self._key[0] = draw_key(seeding.np_random(seed)[0])
            self._numbers[_EPISODE] = -1
            self._seeded = True
        numbers = self._numbers
        numbers[_MOVER] = numbers[_STONES] = 0
        numbers[_EPISODE] += 1
        self._memory[:] = self._start
        self._mover = 0
        if self._permutations is not None or self._has_contexts or self._openings is not None:
            self._draw_episode(np.uint64(splitmix64(self._key[0], numbers[_EPISODE])))
        self._last = None
        self._outcome = NOT_OVER
        self.agents = list(PLAYERS)
        self.agent_selection = PLAYERS[self._mover]
        self.rewards = {"player_0": 0.0, "player_1": 0.0}
        self._cumulative_rewards = {"player_0": 0.0, "player_1": 0.0}
        self.terminations = {"player_0": False, "player_1": False}
        self.truncations = {"player_0": False, "player_1": False}
        self._infos = {}
        self._skip_agent_selection: str | None = None
        self._has_reset = self._has_updated = True
        self._quick = self._is_quick()
        if self._human:
            self.render()

    def _is_quick(self) -> bool:
        """Return whether :meth:`last` can do without :meth:`observe` and the keys of contexts."""
        return type(self).observe is raw_env.observe and not (self._shows_context or self._has_contexts)

    def _draw_episode(self, episode_key: np.uint64) -> None:
        """Draw what differs between episodes: the symmetry, the skip chance and the opening."""
        if self._permutations is not None:
            self._symmetry = int(uniform(episode_key, STREAM_SYMMETRY, 0) * len(self._permutations))
        if self._has_contexts:
            drawn = int(uniform(episode_key, STREAM_CONTEXT, 0) * len(self.games))
            self._skip_chance[0] = self.games[drawn].skip_chance
        if self._openings is not None:
            self._place(self._openings.position(draw_opening(episode_key, len(self._openings.mover))))

    def _place(self, position: Position) -> None:
        """Write a position into the memory of an empty board."""
        cells, self._mover = position
        shown = cells if self._permutations is None else cells[self._permutations[self._symmetry]]
        self._cells[:] = cells
        self._mask[shown[: self._num_actions] != 0] = 0  # with gravity, the first row tells which columns are full
        for player, view in enumerate(self._views.reshape(2, -1, 2)):
            view[:, 0] = shown == player + 1
            if not self._is_phantom:
                view[:, 1] = shown == 2 - player
        if self._is_phantom:
            self._mask[:] = shown != self._mover + 1
        self._numbers[_MOVER], self._numbers[_STONES] = self._mover, np.count_nonzero(cells)

    def step(self, action: Any) -> None:
        """Make a move for ``agent_selection``; None for an agent whose game is over.

        Raises:
            AssertionError: there was no ``reset``, or the action is not a cell of the board, or with gravity a column.
            ValueError: an action for an agent whose game is over.
        """
        self._has_updated = True
        if self._outcome != NOT_OVER:
            if not self._has_reset:
                EnvLogger.error_step_before_reset()
            elif not self.agents:
                EnvLogger.warn_step_after_terminated_truncated()
            else:
                self._was_dead_step(action)
            return
        kind = type(action)
        if kind is not int and kind is not _INT64 and (kind is bool or not self._actions.contains(action)):
            self._refuse(action)
        shown = cell = int(action)
        if not 0 <= cell < self._num_actions:
            self._refuse(action)
        if self._permutations is not None:
            cell = int(self._permutations[self._symmetry, cell])
        if self._is_phantom:
            code = _turn_phantom(self._memory, self._numbers, self._lines, cell, shown, self._is_abrupt)
        else:
            code = _turn(self._memory, self._numbers, self._lines, cell, shown)
            if self.game.gravity:
                shown, code = divmod(code, _CODES)
        if code == _REFUSED:
            EnvLogger.warn_on_illegal_move()
            self._finish(FORFEIT + self._mover)
            return
        self._last = shown
        if code < 2:
            self._mover = code
            self._infos = {}
            self.agent_selection = PLAYERS[code]
        else:
            self._finish(code - 2)
        if self._human:
            self.render()

    def _refuse(self, action: Any) -> None:
        kind = "column" if self.game.gravity else "cell"
        raise AssertionError(
            f"action is not in action space: {action!r} is no {kind} of a board of {self.game.rows} x "
            f"{self.game.columns}, choose a whole number from 0 to {self._num_actions - 1}"
        )

    def _finish(self, outcome: int) -> None:
        """Terminate both agents, and select the agent that is removed first."""
        self._outcome = outcome
        first, second = _RETURNS[outcome]
        self.rewards = {"player_0": first, "player_1": second}
        self._cumulative_rewards = {"player_0": first, "player_1": second}
        self.terminations = {"player_0": True, "player_1": True}
        self._infos = {}
        self._skip_agent_selection = self.agent_selection
        if outcome >= FORFEIT:
            self.truncations = {"player_0": True, "player_1": True}
            self.agent_selection = PLAYERS[0]
        else:
            self.agent_selection = PLAYERS[1 - self._mover]
            self._skip_agent_selection = self.agent_selection

    def _was_dead_step(self, action: Any) -> None:
        """Remove the selected agent: like the base class, for two agents that end together."""
        if action is not None:
            raise ValueError("when an agent is dead, the only valid action is None")
        agent = self.agent_selection
        del self.terminations[agent]
        del self.truncations[agent]
        del self.rewards[agent]
        del self._cumulative_rewards[agent]
        self.agents.remove(agent)
        if self.agents:
            self.agent_selection = self.agents[0]
            self.rewards[self.agent_selection] = 0.0
        else:
            self.agent_selection = self._skip_agent_selection or agent
            self._skip_agent_selection = None

    # Infos are created on demand, because loops read the info of one agent only.

    @property
    def infos(self) -> dict[str, dict[str, Any]]:
        """The info of each of ``agents``: see :class:`raw_env`.

        Raises:
            AttributeError: ``reset`` has not been called.
        """
        if not self._has_reset:
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
            on_move = self._outcome == NOT_OVER and agent == self.agent_selection
            info["action_mask"] = (self._mask if on_move else self._no_mask).copy()
            info["mover"] = self._mover
            if self._has_contexts:
                info["skip_chance"] = float(self._skip_chance[0])
        return info

    def observe(self, agent: str) -> dict[str, Any]:
        """Return copies of ``observation`` int8[rows, columns, 2] and ``action_mask`` int8[actions] of ``agent``.

        With ``context="shown"`` also ``skip_chance`` float32[1].
        """
        mask = self._no_mask
        if self._outcome == NOT_OVER:
            if agent == self.agent_selection:
                mask = self._mask
        elif not self._has_reset:
            EnvLogger.error_observe_before_reset()
        observation = {"observation": self._seen[agent].copy(), "action_mask": mask.copy()}
        if self._shows_context:
            observation["skip_chance"] = self._skip_chance.astype(np.float32)
        return observation

    def last(self, observe: bool = True) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Return observation (or None), cumulative reward, terminated, truncated and info of the selected agent."""
        agent = self.agent_selection
        if observe and self._quick:  # a faster path to the same result
            outcome = self._outcome
            mask = (self._mask if outcome == NOT_OVER else self._no_mask).copy()
            infos = self._infos
            if agent in infos:
                info = infos[agent]
            else:
                infos[agent] = info = _INFOS[outcome][agent].copy()
                info["mover"] = self._mover
                info["action_mask"] = mask  # the observation's: one copy serves both
            return (
                {"observation": self._seen[agent].copy(), "action_mask": mask},
                self._cumulative_rewards[agent],
                self.terminations[agent],
                self.truncations[agent],
                info,
            )
        shown = self.observe(agent) if observe else None
        return (
            shown,
            self._cumulative_rewards[agent],
            self.terminations[agent],
            self.truncations[agent],
            self._info(agent),
        )

    def agent_iter(self, max_iter: int = 2**63) -> Iterator[str]:
        """Iterate over selected agents; call ``step`` or ``reset`` between two of them."""
        if not self._has_reset:
            EnvLogger.error_agent_iter_before_reset()
        return self._turns(max_iter)

    def _turns(self, left: int) -> Iterator[str]:
        for _ in repeat(None, min(left, sys.maxsize)):  # faster than counting down from 2**63
            if not self.agents:
                return
            assert self._has_updated, "need to call step() or reset() in a loop over `agent_iter`"
            self._has_updated = False
            yield self.agent_selection

    def state(self) -> np.ndarray[Any, Any]:
        """Return int8[rows, columns, 3]: stones of player_0, stones of player_1, and a plane of the mover (0 or 1).

        In phantom games int8[rows, columns, 4], with the stones that the other player has found before the mover: with
        the results of skips it is all that determines what follows.
        """
        if not self._has_reset:
            EnvLogger.error_state_before_reset()
        mover = np.full((self.game.rows, self.game.columns, 1), self._mover, np.int8)
        if self._is_phantom:
            stones = np.stack([self._shown(self._cells == stone) for stone in (1, 2)], axis=2)
            return np.concatenate([stones, self._shown(self._found)[:, :, None], mover], axis=2)
        return np.concatenate([self._seen[PLAYERS[0]], mover], axis=2)

    def _shown(self, cells: np.ndarray[Any, Any]) -> Int8Array:
        """Return numbers of the board's cells in the agents' view, int8[rows, columns]."""
        shown = cells if self._permutations is None else cells[self._permutations[self._symmetry]]
        return shown.astype(np.int8).reshape(self.game.rows, self.game.columns)

    def legal_actions(self) -> list[int]:
        """Return the legal actions of the selected agent; none when the game is over."""
        if not self._has_reset:
            EnvLogger.error_observe_before_reset()
        actions: list[int] = np.flatnonzero(self._mask).tolist() if self._outcome == NOT_OVER else []
        return actions

    def chance_outcomes(self, action: int) -> list[ChanceOutcome]:
        """Return all possible successors of the selected agent's action, with exact probabilities.

        See :func:`ttt_envs.chance_outcomes`. With ``symmetry="random"`` the action is in the agent's view, and the
        positions are those of the board itself.
        """
        action = check_action(self.game, action)
        if self._permutations is not None:  # with gravity, the first row of the board has the numbers of the columns
            action = int(self._permutations[self._symmetry, action])
        cell = action_to_cell(self.game, self._cells, action)
        game = next(game for game in self.games if game.skip_chance == self._skip_chance[0])
        return chance_outcomes(game, Position(self._cells, self._mover), cell)

    _STATE = (
        "_mover",
        "_last",
        "_outcome",
        "_symmetry",
        "agent_selection",
        "_skip_agent_selection",
        "_has_updated",
    )
    _COPIED = ("agents", "rewards", "_cumulative_rewards", "terminations", "truncations")

    @property
    def _identity(self) -> AnyGame | tuple[AnyGame, ...]:
        """What a stored state must have in common."""
        return self.games if self._has_contexts else self.game

    def clone_state(self, include_rng: bool = False) -> dict[str, Any]:
        """Return a copy of the game. Without ``include_rng`` it does not determine future skips."""
        if not self._has_reset:
            EnvLogger.error_state_before_reset()
        state: dict[str, Any] = {"game": self._identity, **{name: getattr(self, name) for name in self._STATE}}
        state |= {name: getattr(self, name).copy() for name in self._COPIED}
        state["_memory"] = self._memory.copy()
        state["_stones"] = int(self._numbers[_STONES])
        if self._has_contexts:
            state["_skip_chance"] = float(self._skip_chance[0])
        if include_rng:
            state |= {"_key": self._key.copy(), "_episode": int(self._numbers[_EPISODE])}
        return state

    def restore_state(self, state: dict[str, Any], *, seed: int | None = None) -> None:
        """Restore a cloned game.

        Args:
            state: from :meth:`clone_state` of an environment with the same game.
            seed: for future random numbers; required if the state was cloned without the generator.

        Raises:
            ValueError: the state has another board, or neither the state nor ``seed`` determines random numbers.
        """
        check_restored(state["game"], self._identity, "_key" in state, seed)
        for name in self._STATE:
            setattr(self, name, state[name])
        for name in self._COPIED:
            setattr(self, name, state[name].copy())
        self._infos = {}
        self._memory[:] = state["_memory"]
        self._numbers[_MOVER], self._numbers[_STONES] = self._mover, state["_stones"]
        if self._has_contexts:
            self._skip_chance[0] = state["_skip_chance"]
        if seed is None:
            self._key[:] = state["_key"]
            self._numbers[_EPISODE] = state["_episode"]
        else:
            self._key[0] = draw_key(seeding.np_random(seed)[0])
            self._numbers[_EPISODE] = 0
        self._has_reset = self._seeded = True
        self._quick = self._is_quick()

    def render(self) -> Any:
        """Return the board as text (``"ansi"``) or uint8[height, width, 3] (``"rgb_array"``), or show a window."""
        if not self._has_reset:
            EnvLogger.error_render_before_reset()
        cells = self._shown(self._cells).reshape(-1)
        last = () if self._last is None else (self._last,)
        end = Outcome(self._outcome).description or None
        return self._renderer.render(drawing.Scene(cells, self._mover, end, last))

    def close(self) -> None:
        """Close the window, if any."""
        self._renderer.close()


# Arguments of a move in one int64 array: these (the key is the bits of uint64) and the game.
_MOVER, _STONES, _EPISODE, _KEY, _GAME = range(5)
_SKIP_CHANCE = _GAME + 3  # the bits of float64, see `pack_parameters`
_REFUSED = 5
_CODES = 8


@compiled
def _turn(memory: Int8Array, numbers: Int64Array, lines: Int64Array | None, cell: int, shown: int) -> int:
    """Apply ``rules.play``, and write the stone into the mask and both players' views, on cell ``shown``.

    With gravity, ``cell`` and ``shown`` are columns.

    Returns:
        The next mover, 0 or 1; 2 + the winner, 2 + ``DRAW``; or ``_REFUSED``, and then nothing has changed. With
        gravity plus ``_CODES`` times the cell of the stone in the agents' view.
    """
    size = len(memory) // 6
    mover, stones = numbers[_MOVER], numbers[_STONES]
    episode_key = splitmix64(numbers.view(np.uint64)[_KEY], numbers[_EPISODE])
    parameters = unpack_parameters(numbers[_GAME:], lines)
    falls = has_gravity(parameters)
    landing = landing_cell(memory[:size], cell, parameters) if falls else int64(cell)
    outcome, after = play(memory[:size], mover, landing, stones, episode_key, parameters)
    if outcome == ILLEGAL:
        return _REFUSED
    memory[size + shown] = memory[cell] == 0  # with gravity, of the top cell of the column, which has its number
    shown_cell = shown + landing - cell  # a column stays one in the agents' view
    code = _write_turn(memory, numbers, shown_cell, outcome, after)
    return shown_cell * _CODES + code if falls else code


@compiled
def _turn_phantom(
    memory: Int8Array, numbers: Int64Array, lines: Int64Array | None, cell: int, shown: int, abrupt: bool
) -> int:
    """Do :func:`_turn` in a phantom game: ``phantom.attempt``, and then the mask is the next mover's."""
    size = len(memory) // 7
    mover, stones = numbers[_MOVER], numbers[_STONES]
    episode_key = splitmix64(numbers.view(np.uint64)[_KEY], numbers[_EPISODE])
    cells, found = memory[:size], memory[6 * size :]
    parameters = unpack_parameters(numbers[_GAME:], lines)
    outcome, after = attempt(cells, found, mover, cell, stones, episode_key, abrupt, parameters)
    if outcome == ILLEGAL:
        return _REFUSED
    view = memory[2 * size + mover * 2 * size :]
    view[2 * shown + int64(outcome == FOUND)] = 1
    numbers[_MOVER] = after
    numbers[_STONES] += int64(outcome != FOUND)
    if outcome != FOUND and outcome != NOT_OVER:
        return int64(2 + outcome)
    known = memory[2 * size + after * 2 * size :]
    for place in range(size):
        memory[size + place] = known[2 * place] == 0 and known[2 * place + 1] == 0
    return int64(after)


@inlined
def _write_turn(memory: Int8Array, numbers: Int64Array, shown: int, outcome: int, after: int) -> int:
    """Write a stone of the mover into both players' views, and return what :func:`_turn` does."""
    size = len(memory) // 6
    mover = numbers[_MOVER]
    numbers[_MOVER] = after
    numbers[_STONES] += 1
    memory[2 * size + mover * 2 * size + 2 * shown] = 1  # plane 0 of the mover's view
    memory[2 * size + (1 - mover) * 2 * size + 2 * shown + 1] = 1  # plane 1 of the other's view
    return int64(after if outcome == NOT_OVER else 2 + outcome)


def env(**kwargs: Any) -> raw_env:
    """Create :class:`raw_env`, which has PettingZoo's usual checks built in; the arguments are the same."""
    return raw_env(**kwargs)
