"""The Gymnasium environment ``ttt/Text-v0``: prompts as observations, answers as actions."""

from __future__ import annotations

from typing import Any, Literal, get_args

import gymnasium
from gymnasium.error import ResetNeeded
from gymnasium.spaces import Text

from ttt_envs.core.checks import check_choice
from ttt_envs.game.game import Game
from ttt_envs.text.answers import Problem
from ttt_envs.text.text_game import Reward, TextGame, result_reward

SeatChoice = Literal["first", "second", "alternate"]

CHARACTERS = "".join(map(chr, range(32, 127))) + "\n"
"""characters of observations and of sampled actions; other characters are allowed in actions"""
MAX_ACTION_LENGTH = 1000
"""Maximum length of sampled actions; longer ones are allowed."""


class TextEnv(gymnasium.Env[str, str]):
    """One text game at a time; see :class:`ttt_envs.text.TextGame`.

    An answer that is no legal move returns reward 0 and asks again, or ends the game, by ``illegal``. With
    ``opponent="self"`` the caller answers for both players; the reward is that of the player who answered. As in
    ``ttt/MNK-v0``, an opponent who moves first may win before the first answer: then the first step, with any action,
    returns the loss.

    ``info`` holds ``seat``, ``mover``, ``result`` and ``winner`` as in ``ttt/MNK-v0``, and ``problem``, the kind of
    problem of the last answer, empty for a legal move.

    Args:
        size, win_length, skip_chance, gravity, overlines, misere, torus: as for ``ttt/MNK-v0``.
        seat: the caller's seat: ``"first"``, ``"second"``, or ``"alternate"`` (starting with first).
        rules: whether every observation contains the rules; by default the first one only.
        reward: a function of the turns since the previous answer and the seat, such as
            ``ttt_eval.credit.TurnReward``; by default :func:`result_reward`.
        render_mode: None or ``"ansi"``, the current observation.
        settings: other arguments of a text game: ``opponent``, ``presentation``, ``illegal``, ``max_asks``,
            ``show_legal``.

    Raises:
        TypeError, ValueError: an argument is invalid.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi"], "render_fps": 2}  # noqa: RUF012  # as Gymnasium has it

    def __init__(
        self,
        size: int | tuple[int, int] = 3,
        win_length: int = 3,
        skip_chance: float = 0.0,
        *,
        seat: SeatChoice = "first",
        rules: bool | None = None,
        reward: Reward = result_reward,
        render_mode: Literal["ansi"] | None = None,
        gravity: bool = False,
        overlines: bool = True,
        misere: bool = False,
        torus: bool = False,
        **settings: Any,
    ) -> None:
        check_choice("seat", seat, get_args(SeatChoice))
        check_choice("render_mode", render_mode, (None, "ansi"))
        self.game = Game.of_size(
            size, win_length, skip_chance, gravity=gravity, overlines=overlines, misere=misere, torus=torus
        )
        self._seat_choice, self._rules, self._reward, self.render_mode = seat, rules, reward, render_mode
        self._settings = settings
        TextGame(self.game, **self._settings)  # raises errors early
        self.observation_space = Text(4000 + 100 * self.game.cells, min_length=1, charset=CHARACTERS)
        self.action_space = Text(MAX_ACTION_LENGTH, min_length=0, charset=CHARACTERS)
        self.text: TextGame | None = None
        """the current game; None before ``reset``"""
        self._seed, self._episode, self._is_done = 0, -1, True

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Begin the next game, or with ``seed`` the first of that seed.

        Raises:
            ValueError: ``options`` are given, and there are none.
        """
        super().reset(seed=seed)
        if options:
            raise ValueError(f"options={options!r} are not known: ttt/Text-v0 has none")
        if seed is not None:
            self._seed, self._episode = seed, 0
        elif self._episode < 0:
            self._seed, self._episode = int(self.np_random.integers(1 << 62)), 0
        else:
            self._episode += 1
        seat = self._episode % 2 if self._seat_choice == "alternate" else int(self._seat_choice == "second")
        self.text = TextGame(self.game, seat=seat, seed=self._seed, episode=self._episode, **self._settings)
        self._is_done, self._seat, self._num_turns = False, self.text.seats[0], 0
        return self.render(), self._info(self.text, None)

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Answer the prompt, and let the opponent reply.

        Args:
            action: the answer; any text.

        Raises:
            ResetNeeded: before ``reset``, and after the end of a game.
        """
        if self.text is None or self._is_done:
            raise ResetNeeded("no game is in progress: call reset() before step()")
        problem = None
        if not self.text.over:
            self._seat = self.text.mover
            problem = self.text.step(action)
        self._is_done = self.text.over
        reward = self._reward(self.text.turns[self._num_turns :], self._seat)
        self._num_turns = len(self.text.turns)
        return self.render(), reward, self._is_done, False, self._info(self.text, problem)

    def render(self) -> str:
        """Return the current observation.

        Raises:
            ResetNeeded: before ``reset``.
        """
        if self.text is None:
            raise ResetNeeded("no game has begun: call reset() before render()")
        return self.text.prompt(rules=self._rules)

    def _info(self, text: TextGame, problem: Problem | None) -> dict[str, Any]:
        outcome = text.outcome
        return {
            "seat": self._seat,
            "mover": text.mover,
            "result": int(outcome),
            "winner": outcome.winner,
            "problem": "" if problem is None else problem.kind,
        }
