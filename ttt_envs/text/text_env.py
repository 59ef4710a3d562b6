"""The Gymnasium environment ``ttt/Text-v0``: prompts as observations, answers as actions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import gymnasium
from gymnasium.error import ResetNeeded
from gymnasium.spaces import Text

from ttt_envs.agents.policy import Policy
from ttt_envs.core.checks import check_choice
from ttt_envs.envs.config import GameConfig, environment, takes
from ttt_envs.game.phantom import visible
from ttt_envs.text.answers import Problem
from ttt_envs.text.presentations import Presentation
from ttt_envs.text.text_game import MAX_ASKS, Illegal, Reward, TextGame, result_reward

SeatChoice = Literal["first", "second", "alternate"]

CHARACTERS = "".join(map(chr, range(32, 127))) + "\n"
"""characters of observations and of sampled actions; other characters are allowed in actions"""
MAX_ACTION_LENGTH = 1000
"""Maximum length of sampled actions; longer ones are allowed."""


@dataclass(frozen=True, kw_only=True)
class TextConfig(GameConfig):
    """Arguments of :class:`TextEnv`.

    Args:
        opponent, presentation, illegal, max_asks, show_legal: as of :class:`ttt_envs.text.TextGame`.
        seat: the caller's seat: ``"first"``, ``"second"``, or ``"alternate"`` (starting with first).
        rules: whether every observation contains the rules; by default the first one only.
        reward: a function of the turns since the previous answer and the seat, such as
            ``ttt_eval.credit.TurnReward``; by default :func:`result_reward`.
        render_mode: None or ``"ansi"``, the current observation.
    """

    opponent: str | Policy = "random"
    presentation: str | Presentation = "grid"
    illegal: Illegal = "ask"
    max_asks: int = MAX_ASKS
    show_legal: bool = True
    seat: SeatChoice = "first"
    rules: bool | None = None
    reward: Reward = result_reward
    render_mode: Literal["ansi"] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("seat", self.seat, get_args(SeatChoice))
        check_choice("render_mode", self.render_mode, (None, "ansi"))
        if len(self.games) > 1:
            raise ValueError(f"skip_chance={self.skip_chance!r} is not one number: text games draw no skip chance")
        self.make_game()  # raises errors early

    def make_game(self, **start: Any) -> TextGame:
        """Return a new game; ``start`` are its ``seat``, ``seed`` and ``episode``."""
        names = ("opponent", "presentation", "illegal", "max_asks", "show_legal")
        return TextGame(visible(self.game), **{name: getattr(self, name) for name in names}, **start)


@environment(TextConfig)
class TextEnv(gymnasium.Env[str, str]):
    """One text game at a time; see :class:`ttt_envs.text.TextGame`.

    An answer that is no legal move returns reward 0 and asks again, or ends the game, by ``illegal``. With
    ``opponent="self"`` the caller answers for both players; the reward is that of the player who answered. As in
    ``ttt/MNK-v0``, an opponent who moves first may win before the first answer: then the first step, with any action,
    returns the loss.

    ``info`` holds ``seat``, ``mover``, ``result`` and ``winner`` as in ``ttt/MNK-v0``, and ``problem``, the kind of
    problem of the last answer, empty for a legal move.

    Raises:
        TypeError, ValueError: an argument is invalid.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi"], "render_fps": 2}  # noqa: RUF012  # as Gymnasium has it

    @takes(TextConfig)
    def __init__(self, config: TextConfig) -> None:
        self.config, self.game, self.render_mode = config, config.game, config.render_mode
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
        seat = self._episode % 2 if self.config.seat == "alternate" else int(self.config.seat == "second")
        self.text = self.config.make_game(seat=seat, seed=self._seed, episode=self._episode)
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
        reward = self.config.reward(self.text.turns[self._num_turns :], self._seat)
        self._num_turns = len(self.text.turns)
        return self.render(), reward, self._is_done, False, self._info(self.text, problem)

    def render(self) -> str:
        """Return the current observation.

        Raises:
            ResetNeeded: before ``reset``.
        """
        if self.text is None:
            raise ResetNeeded("no game has begun: call reset() before render()")
        return self.text.prompt(rules=self.config.rules)

    def _info(self, text: TextGame, problem: Problem | None) -> dict[str, Any]:
        outcome = text.outcome
        return {
            "seat": self._seat,
            "mover": text.mover,
            "result": int(outcome),
            "winner": outcome.winner,
            "problem": "" if problem is None else problem.kind,
        }
