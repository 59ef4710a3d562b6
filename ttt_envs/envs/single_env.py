"""The Gymnasium environment: the caller in one seat, a policy in the other.

Rules: the board has rows x columns cells; player_0 (o) moves first, or with
``first_player="random"`` a drawn player. A move puts one own stone on an empty cell; ``win_length``
or more own stones in a row, column or diagonal win, a full board without such a line is a draw.
After every stone that does not end the game, the other player's turn is skipped with probability
``skip_chance``, and the mover moves again.

Actions: the index of an empty cell, counted row by row from 0 at the top left: ``row * columns +
column``; with ``gravity=True`` a column, from 0 at the left. The action mask has 1 for each legal
action.

Rewards: 0 until the end; then +1 to the winner and -1 to the loser, 0 to both in a draw. The
environment returns the caller's reward; an illegal action costs -1 and by default ends the game.
"""

from __future__ import annotations

import functools
import operator
from typing import Any

import gymnasium
import numpy as np
from gymnasium.error import ResetNeeded

from ttt_envs.agents.observations import map_parts
from ttt_envs.arrays import ToyTable
from ttt_envs.core.checks import Refusal, check_choice, is_whole
from ttt_envs.core.jit import BoolArray, Int8Array
from ttt_envs.core.random import draw_key
from ttt_envs.envs import render
from ttt_envs.envs.config import EnvConfig, GameState, Info, Keywords, environment, takes
from ttt_envs.envs.engine import make_games
from ttt_envs.envs.game_batch import (
    INTEGERS,
    ONLY_ROW,
    GameBatch,
    HasArrayViews,
    boards_of,
    chance_outcomes_of,
    clone_games,
    describe_outcome,
    first_boards,
    must_be_reset,
    restore_games,
    seed_games,
    to_caller_cells,
)
from ttt_envs.envs.tabular import Tabular
from ttt_envs.game.actions import check_action, num_actions
from ttt_envs.game.game import Position
from ttt_envs.game.phantom import visible
from ttt_envs.game.rules import DRAW, NOT_OVER, ChanceOutcome


@environment(EnvConfig)
class SingleEnv(HasArrayViews, gymnasium.Env[Any, np.int64]):
    """One game at a time between the caller and an opponent.

    Rewards are always the caller's own: +1 win, 0 draw or not over, -1 loss. With
    ``opponent="self"`` the caller moves for both players: the reward goes to the player who just
    moved, the next observation is the next mover's, and ``info["mover"]`` names that player.

    With skips, an opponent who moves first may win before the caller's first move. ``reset`` does
    not resample; it returns that position, and the next ``step``, with any action, returns -1,
    terminated.

    ``info`` holds the same keys at every step: ``action_mask`` int8[actions] (all ones when the
    game is over), and as Python integers ``seat`` the caller's seat (with ``"self"`` the seat that
    moved last), ``mover``, ``result`` (the number of the ``rules.Outcome``, which has the text: -1
    during the game, 0 or 1 the winner, 2 a draw, 3 or 4 the player who lost by an illegal action, 5
    truncated) and ``winner`` (0 or 1; -1 during the game, and without a winner). With several skip
    chances it also holds ``skip_chance``, the one of the episode, which is for logs: unless
    ``observe_skip_chance`` is set, it is no part of the observation. There are no texts, because
    some libraries convert infos to arrays.

    Attributes:
        config: the arguments.
        game: the game, the first of several.

    Raises:
        TypeError, ValueError: an argument is invalid; the message lists valid ones.
    """

    metadata: Keywords = {"render_modes": list(render.MODES), "render_fps": render.FPS}  # noqa: RUF012

    @takes(EnvConfig)
    def __init__(self, config: EnvConfig) -> None:
        check_choice("render_mode", config.render_mode, (None, *render.MODES))
        self.config = config
        self.game = config.game
        self.render_mode = config.render_mode
        self.observation_space = config.observations.observation_space
        self.action_space = config.observations.action_space
        self._games = make_games(config, 1)
        self._out = self._games.output()
        self._num_actions = num_actions(self.game)
        self._action = np.zeros(1, np.int64)
        self._is_over = True
        self._has_key = False
        self.renderer = render.Renderer(visible(self.game), config.render_mode)
        # for rendering: the board before the last step, and its action if it was illegal
        self._before = np.zeros(self.game.cells, np.int8)
        self._refused: int | None = None
        self._make_array_views()

    def _make_array_views(self) -> None:
        """Create the views of the output."""
        out = self._out
        self._mask = out["mask"][0]
        self._numbers = out["info"].ravel()
        self._outcome = out["outcome"]
        self._flags = out["flags"].ravel()
        self._reward = out["rewards"]
        self._flat = out["flat"][0] if self.config.is_flat else None
        self._dtype = np.dtype(self.config.dtype)

    def reset(
        self, *, seed: int | None = None, options: Keywords | None = None
    ) -> tuple[Any, Info]:
        """Begin the next episode, or with ``seed`` the first of that seed.

        Args:
            seed: None continues with the next episode.
            options: ``position``, a text such as ``"x.o/.../..o x"``, is the initial position (see
                ``ttt_envs.from_text``; of the board itself, not of the view); ``seat``, 0 or 1, is
                the caller's seat in this episode.

        Raises:
            TypeError, ValueError: an option is unknown, or the position or seat is invalid.
        """
        position, seat = parse_reset_options(self.config, options)
        super().reset(seed=seed)
        if seed is not None or not self._has_key:
            seed_games(self._games, ONLY_ROW, np.array([draw_key(self.np_random)]))
            self._has_key = True
        self._games.reset(ONLY_ROW, self._out, position=position, seat=seat)
        self._is_over = False
        self._refused = None
        if self.render_mode is not None:
            if position is None:
                position = first_boards(self._games, ONLY_ROW).position(0)
            self._before = position.cells
            self._show()
        return self._observation()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, Info]:
        """Make the caller's move, and let the opponent reply.

        Args:
            action: the index of a cell, or with gravity of a column, in the view of the
                observation.

        Raises:
            TypeError: the action is not an integer.
            ValueError: the action is off the board; with ``illegal_action="raise"`` also if it is
                illegal.
            ResetNeeded: before ``reset``, and after the end of a game.
        """
        if self._is_over:
            raise ResetNeeded(
                "the game is over: call reset() to begin the next one"
                if self._has_key
                else "no game has begun: call reset() before step()"
            )
        index = operator.index(action) if type(action) in INTEGERS else -1
        if not 0 <= index < self._num_actions and self._outcome[0] == NOT_OVER:
            index = check_action(self.game, action)
        self._action[0] = index
        if self.render_mode is not None:
            self._before = self._games.column("cells")[0]
        self._games.step(self._action, self._out)
        terminated, truncated = self._flags.tolist()
        self._is_over = terminated or truncated
        if self.render_mode is not None:
            self._refused = index if self._games.column("illegal")[0] else None
            self._show()
        observation, info = self._observation()
        return observation, self._reward.item(), terminated, truncated, info

    def _observation(self) -> tuple[Any, Info]:
        """Return the observation and info in ``_out``, as copies."""
        mover, seat, result, winner = self._numbers.tolist()
        info: Info = {
            "action_mask": self._mask.copy(),
            "seat": seat,
            "mover": mover,
            "result": result,
            "winner": winner,
        }
        if self._flat is not None:  # the fast path for the common case
            return self._flat.astype(self._dtype), info
        skip_chance = self._games.column("skip_chance")
        if len(self.config.games) > 1:
            info["skip_chance"] = float(skip_chance[0])
        observation = self.config.observations.build(
            self._out["planes"].copy(), self._out["mask"], skip_chance
        )
        return map_parts(operator.itemgetter(0), observation), info

    def action_masks(self) -> BoolArray:
        """Return bool[actions]: the legal actions, all of them when the game is over, for
        sb3-contrib.
        """
        return np.asarray(self._mask, np.bool_)

    def legal_actions(self) -> list[int]:
        """Return the legal actions; none when the game is over."""
        is_over = self._is_over or self._outcome[0] != NOT_OVER
        return [] if is_over else np.flatnonzero(self._mask).tolist()

    @functools.cached_property
    def _tabular(self) -> Tabular:
        return Tabular(self.config)

    @property
    def P(self) -> ToyTable:  # noqa: N802  # the name in Gymnasium
        """The transition table, as Gymnasium's toy-text environments have it.

        ``P[state][action]`` lists (probability, next state, reward, whether the game is over). The
        states are those positions in which the caller is to move, then six ends, see
        :class:`ttt_envs.arrays.DecisionProcess`; :attr:`s` is the present one. It is made at first
        use.

        Raises:
            ValueError: the game is larger than 3 x 3, the opponent is not one pure policy, the seat
                is drawn, or another argument is more than a table of positions shows.
        """
        return self._tabular.table

    @property
    def s(self) -> int:
        """The present state of the game in :attr:`P`."""
        _, seat, result, winner = self._numbers.tolist()
        if result != NOT_OVER and winner < 0:
            winner = DRAW
        return self._tabular.state(self._out["flat"][0], winner, seat, self._is_over)

    def chance_outcomes(self, action: int) -> list[ChanceOutcome]:
        """Return all possible successors of the caller's move before the opponent's reply, with
        exact probabilities.

        See :func:`ttt_envs.chance_outcomes`. With ``symmetry="random"`` the action is in the
        caller's view, and the positions are those of the board itself.
        """
        return chance_outcomes_of(self._games, 0, action)

    def clone_state(self, include_rng: bool = False) -> GameState:
        """Return a copy of the game. Without ``include_rng`` it does not determine future skips and
        replies.
        """
        return clone_games(self._games, include_rng)

    def restore_state(self, state: GameState, *, seed: int | None = None) -> tuple[Any, Info]:
        """Restore a cloned game, and return its observation and info like :meth:`reset`.

        Args:
            state: from :meth:`clone_state` of an environment with the same game, symmetry and
                stages of opponents.
            seed: for future random numbers; required if the state was cloned without the generator.

        Raises:
            ValueError: the state has another game, symmetry or number of stages, or neither the
                state nor ``seed`` determines random numbers.
        """
        keys = None
        if seed is not None:
            super().reset(seed=seed)
            keys = np.array([draw_key(self.np_random)])
        restore_games(self._games, state, keys)
        self._games.observe(self._out)
        self._is_over = bool(must_be_reset(self._games)[0])
        self._has_key = True
        self._refused = None
        self._before = self._games.column("cells")[0]
        self._show()
        return self._observation()

    def render(self) -> str | render.Picture | None:
        """Return the board as text (``"ansi"``) or uint8[height, width, 3] (``"rgb_array"``), or
        show a window.
        """
        return self.renderer.render(
            make_scene(self._games, self.config, 0, self._before, self._refused)
        )

    def _show(self) -> None:
        """Update the window, without a call of :meth:`render`."""
        if self.render_mode == "human":
            self.render()

    def close(self) -> None:
        """Close the window, if any."""
        self.renderer.close()


def parse_reset_options(
    config: EnvConfig, options: Keywords | None
) -> tuple[Position | None, int | None]:
    """Return the position and the caller's seat from the options of a reset; None for each that is
    missing.

    Raises:
        TypeError, ValueError: an option is unknown, the position is over or unreachable, or the
            seat is invalid.
    """
    if not options:
        return None, None
    for name in options:
        if name not in ("position", "seat"):
            raise Refusal(f"options[{name!r}] is not known: choose 'position' or 'seat'")
    seat = options.get("seat")
    text = options.get("position")
    if seat is not None:
        if not is_whole(seat) or seat not in (0, 1):
            raise Refusal(
                f"options['seat']={seat!r} is no seat: choose 0 (first, o) or 1 (second, x)"
            )
        if not config.opponents:
            raise Refusal("options['seat'] makes no sense with opponent='self': you move for both")
    position = None if text is None else config.to_position(text, f"options['position']={text!r}")
    return position, None if seat is None else int(seat)


def make_scene(
    games: GameBatch, config: EnvConfig, row: int, before: Int8Array, refused_action: int | None
) -> render.Scene:
    """Return the picture of game ``row`` after a step from the board ``before``; ``refused_action``
    is illegal.
    """
    cells, mover = boards_of(games, np.array([row])).position(0)
    before = to_caller_cells(games, row, before)
    cells = to_caller_cells(games, row, cells)
    seat = int(games.column("seat")[row]) if config.opponents else mover
    return render.make_scene(
        before, cells, mover, describe_outcome(games, row), seat, refused_action
    )
