"""The Gymnasium environment: the learner in one seat, a policy in the other.

Rules: the board has rows x columns cells; player_0 (o) moves first, or with ``first="random"`` a drawn player. A move
puts one own stone on an empty cell; ``win_length`` or more own stones in a row, column or diagonal win, a full board
without such a line is a draw. After every stone that does not end the game, the other player's turn is skipped with
probability ``skip_chance``, and the mover moves again.

Actions: the index of an empty cell, counted row by row from 0 at the top left: ``row * columns + column``; with
``gravity=True`` a column, from 0 at the left. The action mask has 1 for each legal action.

Rewards: 0 until the end; then +1 to the winner and -1 to the loser, 0 to both in a draw. The environment returns the
learner's reward; an illegal action costs -1 and by default ends the game.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, Literal, get_args

import gymnasium
import numpy as np
from gymnasium.error import ResetNeeded

from ttt_envs.agents.adapters import Opponent, as_opponent
from ttt_envs.agents.observations import Context, DType, Observation, ObservationBuilder
from ttt_envs.core.checks import check_argument_names, check_choice
from ttt_envs.core.jit import BoolArray, Int8Array
from ttt_envs.core.random import draw_key
from ttt_envs.envs import render
from ttt_envs.envs.contexts import First, SkipChance, make_games, make_openings
from ttt_envs.envs.lockstep import (
    IllegalAction,
    Lockstep,
    SeatChoice,
    Symmetry,
    parse_reset_options,
)
from ttt_envs.envs.opponents import SELF, make_opponents
from ttt_envs.envs.render import Scene, make_scene
from ttt_envs.game.actions import check_action
from ttt_envs.game.game import BOARD_HINTS, Position
from ttt_envs.game.phantom import Kind, visible
from ttt_envs.game.rules import NOT_OVER, ChanceOutcome, Outcome

RenderMode = Literal["ansi", "rgb_array", "rgb_array_list", "human"]


_INTEGERS = (int, np.int64)  # types of most actions; no bool
_IS_OVER = 4  # index into `Lockstep.info_of_first`
OUTCOME_DESCRIPTIONS = tuple(Outcome(number).description for number in (*range(6), NOT_OVER))
"""``info["outcome"]`` by ``info["result"]``, which is -1 during the game."""


@check_argument_names(BOARD_HINTS)
class SingleEnv(gymnasium.Env[Any, np.int64]):
    """One game at a time between the caller and an opponent.

    Rewards are always the caller's own: +1 win, 0 draw or not over, -1 loss. With ``opponent="self"`` the caller moves
    for both players: the reward goes to the player who just moved, the next observation is the next mover's, and
    ``info["mover"]`` names that player.

    With skips, an opponent who moves first may win before the caller's first move. ``reset`` does not resample; it
    returns that position, and the next ``step``, with any action, returns -1, terminated.

    ``info`` holds the same keys at every step: ``action_mask`` int8[actions] (all ones when the game is over), and as
    Python integers ``seat`` the caller's seat (with ``"self"`` the seat that moved last), ``mover``, ``result`` (the
    number of the ``rules.Outcome``: -1 during the game, 0 or 1 the winner, 2 a draw, 3 or 4 the player who lost by an
    illegal action, 5 truncated) and ``winner`` (0 or 1; -1 during the game, and without a winner), and
    ``outcome``, the result as text, empty during the game. With several skip chances it also holds ``skip_chance``, the
    one of the episode, which is for logs: a hidden context is no part of the observation.

    Attributes:
        games: the game of each skip chance, one or several.
        game: the first of them.

    Args:
        size: edge of the board, or (rows, columns), 1 to 19.
        win_length: stones in a line needed to win.
        skip_chance: probability of a skipped turn, in [0, 1); or several, as in ``(0, 0.5)``, of which each episode
            draws one, all equally often.
        opponent: a spec string such as ``"random"``, a Policy, ``"self"``, or an argument of
            :func:`ttt_envs.as_policy`: a function of (observation, mask) of one game, which returns an action, or a
            model of Stable-Baselines3. These get the caller's kind of observation, from the opponent's seat. Or a
            schedule, such as ``("random", "win-or-block@20000", "optimal@40000")``: each of these plays in episodes
            that begin after so many steps, or episodes (``"optimal@500 episodes"``), since seeding. With several skip
            chances, an opponent named by a spec string knows the one of the episode.
        seat: the caller's seat: ``"first"``, ``"second"``, ``"random"`` or ``"alternate"`` (starting with first).
        observation: ``"flat"`` [2 * cells] own stones then the opponent's, ``"planes"`` [rows, columns, 2],
            ``"channels"`` [2, rows, columns], or ``"dict"`` with ``observation`` (planes) and ``action_mask``.
        dtype: of the observation, ``"float32"`` as networks need it, or ``"int8"``.
        illegal_action: ``"lose"`` (-1, terminated), ``"penalize"`` (-1, no move; truncated once there are as many as
            cells) or ``"raise"``.
        symmetry: ``"random"`` shows each episode under a random symmetry of the board; actions are mapped back.
        context: ``"shown"`` adds the skip chance of the episode to observations: a last entry of ``"flat"``, a third
            plane, or ``skip_chance`` float32[1] in ``"dict"``; or ``"hidden"``.
        openings: positions as text, of which each episode begins with one, drawn uniformly; None for the empty board.
        first: the player who moves first, ``"player_0"``, or ``"random"``: each episode draws one, both equally often.
        gravity: stones fall to the lowest empty cell of their column, as in Connect Four, and actions are columns.
        overlines: longer lines count too; without them only lines of exactly ``win_length``, as in standard gomoku.
        misere: a player who completes a line loses.
        torus: lines continue across the edges of the board, a torus.
        phantom: ``"classic"`` or ``"abrupt"`` hides the opponent's stones until the caller tries their cells: see
            :mod:`ttt_envs.game.attempts`. Observations show the own stones and the found ones, and the mask has 0 for
            these. Pictures and :meth:`clone_state` are not for the players: they have all stones.
        render_mode: None, ``"ansi"``, ``"rgb_array"``, ``"rgb_array_list"`` (a picture of each turn, including the
            opponent's) or ``"human"`` (needs pygame).

    Raises:
        TypeError, ValueError: an argument is invalid; the message lists valid ones.
    """

    metadata: dict[str, Any] = {"render_modes": list(get_args(RenderMode)), "render_fps": render.FPS}  # noqa: RUF012

    def __init__(
        self,
        size: int | tuple[int, int] = 3,
        win_length: int = 3,
        skip_chance: SkipChance = 0.0,
        *,
        opponent: Opponent = "random",
        seat: SeatChoice = "first",
        observation: Observation = "flat",
        dtype: DType = "float32",
        illegal_action: IllegalAction = "lose",
        symmetry: Symmetry = "none",
        context: Context = "hidden",
        openings: Sequence[str] | None = None,
        first: First = "player_0",
        gravity: bool = False,
        overlines: bool = True,
        misere: bool = False,
        torus: bool = False,
        phantom: Kind | None = None,
        render_mode: RenderMode | None = None,
    ) -> None:
        check_choice("render_mode", render_mode, (None, *get_args(RenderMode)))
        rules = {"gravity": gravity, "overlines": overlines, "misere": misere, "torus": torus, "phantom": phantom}
        self.games = make_games(size, win_length, skip_chance, rules)
        self.game = self.games[0]
        self._builder = ObservationBuilder(self.game, observation, dtype, context)
        opponents = make_opponents(
            opponent, self.games, lambda other, game: as_opponent(other, game, observation, dtype, context)
        )
        # positions of the opponent's moves, for rgb_array_list
        self._met: list[Position] | None = [] if render_mode == "rgb_array_list" and opponents is not None else None
        positions = make_openings(self.games, openings, first)
        self._games = Lockstep(
            self.games, 1, opponents or SELF, seat, illegal_action, symmetry, openings=positions, met=self._met
        )
        self.observation_space = self._builder.observation_space
        self.action_space = self._builder.action_space
        self.render_mode = render_mode
        self._renderer = render.Renderer(visible(self.game), render_mode)
        self._has_contexts, self._has_openings = len(self.games) > 1, positions is not None
        self._empty = np.zeros(self.game.cells, np.int8)
        self._before = self._empty  # the board before the last step, for rendering; replaced, never changed
        self._refused: int | None = None  # the action of the last step if it was illegal, for rendering
        self._scenes: list[Scene] = []  # since the last render() or reset(), for rgb_array_list
        self._seeded = False
        self._action = np.zeros(1, np.int64)
        self._row = np.zeros(1, np.int64)
        self._out = self._games.output()
        self._name_views()

    def _name_views(self) -> None:
        """Create the views of arrays; needed after copying, because a copy of a view is not a view."""
        self._mask = self._out.mask[0]
        self._numbers = self._games.info_of_first
        builder = self._builder
        self._flat = self._out.planes.reshape(-1) if builder.kind == "flat" and not builder.shows_context else None

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._name_views()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin the next episode, or with ``seed`` the first of that seed.

        Args:
            seed: None continues with the next episode.
            options: ``position``, a text such as ``"x.o/.../..o x"``, is the initial position (see
                ``ttt_envs.from_text``; of the board itself, not of the view); ``seat``, 0 or 1, is the caller's
                seat in this episode.

        Raises:
            TypeError, ValueError: an option is unknown, or the position or seat is invalid.
        """
        position, at_seat = parse_reset_options(self.games, options, self._games.is_self_play)
        super().reset(seed=seed)
        if seed is not None or not self._seeded:
            self._games.seed(self._row, np.array([draw_key(self.np_random)]))
            self._seeded = True
        if self._met is not None:
            self._met.clear()
        self._games.begin(self._row, position, at_seat, self._out)
        if position is not None:
            self._before = position.cells
        elif self._has_openings:
            self._before = self._games.first_cells(self._row)[0]
        else:
            self._before = self._empty
        self._refused = None
        if self.render_mode is not None:
            self._draw(new_game=True)
        return self._observation()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Make the caller's move, and let the opponent reply.

        Args:
            action: the index of a cell, or with gravity of a column, in the view of the observation.

        Raises:
            TypeError: the action is not an integer.
            ValueError: the action is off the board; with ``illegal_action="raise"`` also if it is illegal.
            ResetNeeded: before ``reset``, and after the end of a game.
        """
        games = self._games
        if self._numbers[_IS_OVER]:
            raise ResetNeeded(
                "the game is over: call reset() to begin the next one"
                if self._seeded
                else "no game has begun: call reset() before step()"
            )
        self._action[0] = self._checked_action(action)
        out = self._out
        if self.render_mode is None:
            games.step(self._action, False, out)
        else:
            self._before = games.position(0).cells
            illegal = int(games.num_illegal[0])
            games.step(self._action, False, out)
            self._refused = int(self._action[0]) if games.num_illegal[0] > illegal else None
            self._draw()
        observation, info = self._observation()
        return observation, out.rewards.item(), out.terminated.item(), out.truncated.item(), info

    def _checked_action(self, action: Any) -> int:
        """Return an action as an int, checked for type and range."""
        if type(action) in _INTEGERS and 0 <= (index := operator.index(action)) < self._games.num_actions:
            return index  # the fast path for the common case
        return check_action(self.game, action)

    def _observation(self) -> tuple[Any, dict[str, Any]]:
        """Return the observation and info in ``_out``, as copies."""
        mover, seat, result, winner, _ = self._numbers.tolist()
        info: dict[str, Any] = {
            "action_mask": self._mask.copy(),
            "seat": seat,
            "mover": mover,
            "result": result,
            "winner": winner,
            "outcome": OUTCOME_DESCRIPTIONS[result],
        }
        if self._has_contexts:
            info["skip_chance"] = float(self._games.skip_chance[0])
        if self._flat is not None:  # the fast path for the common case
            return self._flat.astype(self._builder.dtype), info
        shown = self._builder.build(self._out.planes.copy(), self._out.mask, self._games.skip_chance)
        if isinstance(shown, dict):
            return {name: array[0] for name, array in shown.items()}, info
        return shown[0], info

    def action_masks(self) -> BoolArray:
        """Return bool[actions]: the legal actions, all of them when the game is over, for sb3-contrib."""
        return np.asarray(self._games.observe_all().mask[0], np.bool_)

    def legal_actions(self) -> list[int]:
        """Return the legal actions; none when the game is over."""
        games = self._games
        if self._numbers[_IS_OVER] or games.outcome[0] != NOT_OVER:
            return []
        actions: list[int] = np.flatnonzero(games.observe_all().mask[0]).tolist()
        return actions

    def chance_outcomes(self, action: int) -> list[ChanceOutcome]:
        """Return all possible successors of the caller's move before the opponent's reply, with exact probabilities.

        See :func:`ttt_envs.chance_outcomes`. With ``symmetry="random"`` the action is in the caller's view, and the
        positions are those of the board itself.
        """
        return self._games.chance_outcomes(0, action)

    def clone_state(self, include_rng: bool = False) -> dict[str, Any]:
        """Return a copy of the game. Without ``include_rng`` it does not determine future skips and replies."""
        return self._games.clone(include_rng)

    def restore_state(self, state: dict[str, Any], *, seed: int | None = None) -> tuple[Any, dict[str, Any]]:
        """Restore a cloned game, and return its observation and info like :meth:`reset`.

        Args:
            state: from :meth:`clone_state` of an environment with the same game.
            seed: for future random numbers; required if the state was cloned without the generator.

        Raises:
            ValueError: neither the state nor ``seed`` determines random numbers.
        """
        keys = None
        if seed is not None:
            super().reset(seed=seed)
            keys = np.array([draw_key(self.np_random)])
        self._games.restore(state, keys)
        self._before = self._games.position(0).cells
        self._refused = None
        if self.render_mode is not None:
            self._draw(new_game=True)
        self._seeded = True
        self._games.observe(self._out)
        return self._observation()

    def render(self) -> Any:
        """Return the board as text (``"ansi"``) or uint8[height, width, 3] (``"rgb_array"``), or show it in a window.

        With ``"rgb_array_list"``, return the list of such pictures since the last ``render()`` or ``reset()``,
        including the initial one: one after each turn, the caller's and each of the opponent's, at least one per step.
        """
        if self.render_mode == "rgb_array_list":
            scenes, self._scenes = self._scenes, []
            return [render.picture(visible(self.game), scene) for scene in scenes]
        return self._renderer.render(self._scene())

    def _scene(self) -> Scene:
        """Return the scene of the current board."""
        games = self._games
        return self._make_scene(*games.position(0), games.description(0), self._refused)

    def _make_scene(self, cells: Int8Array, mover: int, end: str | None = None, refused: int | None = None) -> Scene:
        games = self._games
        before, cells = games.to_caller_view(0, self._before), games.to_caller_view(0, cells)
        seat = int(games.mover[0] if games.is_self_play else games.seat[0])
        return make_scene(before, cells, mover, end, seat, refused)

    def _draw(self, new_game: bool = False) -> None:
        """Update the window, or add to the list of pictures, without a call of :meth:`render`.

        Args:
            new_game: whether a game begins.
        """
        if self.render_mode == "human":
            self.render()
        elif self.render_mode == "rgb_array_list":
            if new_game:
                self._scenes.clear()
            if self._met is not None:  # the opponent has seen the board after each turn but the last
                self._scenes += [self._make_scene(cells, mover) for cells, mover in self._met]
                self._met.clear()
            self._scenes.append(self._scene())

    def close(self) -> None:
        """Close the window, if any."""
        self._renderer.close()
