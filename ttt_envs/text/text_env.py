"""The Gymnasium environment ``ttt/Text-v0``: prompts as observations, answers as actions."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Literal

import gymnasium
from gymnasium.error import ResetNeeded
from gymnasium.spaces import Text

from ttt_envs.core.checks import Refusal, check_choice
from ttt_envs.envs.config import GameConfig, Info, Keywords, environment, takes
from ttt_envs.game.phantom import visible
from ttt_envs.text.answers import Problem
from ttt_envs.text.text_game import Reward, TextGame, TextOptions, Turn, result_reward

CHARACTERS = "".join(map(chr, range(32, 127))) + "\n"
"""characters of observations and of sampled actions; other characters are allowed in actions"""
MAX_ACTION_LENGTH = 1000
"""Maximum length of sampled actions; longer ones are allowed."""


@dataclass(frozen=True, kw_only=True)
class TextConfig(GameConfig, TextOptions):
    """Arguments of :class:`TextEnv`.

    Args:
        seat: the caller's seat: 'first', 'second', or 'alternate' (starting with first).
        rules: whether every observation contains the rules; by default the first one only.
        reward: a function of the turns since the previous answer and the seat, such as
            ttt_eval.TurnReward; by default the result, ttt_envs.text.text_game.result_reward. A
            turn has the problem of the last answer alone; a refused answer is a turn of its own
            without a move.
        render_mode: None or 'ansi', the current observation.
    """

    seat: Literal["first", "second", "alternate"] = "first"
    rules: bool | None = None
    reward: Reward = result_reward
    render_mode: Literal["ansi"] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("seat", self.seat, ("first", "second", "alternate"))
        check_choice("render_mode", self.render_mode, (None, "ansi"))
        if len(self.games) > 1:
            raise Refusal(
                f"skip_chance={self.skip_chance!r} is not one number: text games draw no skip "
                "chance"
            )
        self.make_game()  # raises errors early

    def make_game(self, **start: Any) -> TextGame:
        """Return a new game; ``start`` are its ``seat``, ``seed`` and ``episode``."""
        options = {field.name: getattr(self, field.name) for field in fields(TextOptions)}
        return TextGame(visible(self.game), **options, **start)


@environment(TextConfig)
class TextEnv(gymnasium.Env[str, str]):
    """One text game at a time; see :class:`ttt_envs.text.TextGame`.

    An answer that is no legal move returns reward 0 and asks again, or ends the game, by
    ``illegal``. With ``opponent="self"`` the caller answers for both players; the reward is that of
    the player who answered. As in ``ttt/MNK-v0``, an opponent who moves first may win before the
    first answer: then the first step, with any action, returns the loss.

    ``info`` holds ``seat``, ``mover``, ``result`` (see :class:`ttt_envs.game.rules.Outcome`) and
    ``winner`` as in ``ttt/MNK-v0``, and ``problem``, the kind of problem of the last answer, empty
    for a legal move.

    Raises:
        TypeError, ValueError: an argument is invalid.
    """

    metadata: Keywords = {"render_modes": ["ansi"], "render_fps": 2}  # noqa: RUF012  # as Gymnasium has it

    @takes(TextConfig)
    def __init__(self, config: TextConfig) -> None:
        self.config = config
        self.game = config.game
        self.render_mode = config.render_mode
        self.observation_space = Text(
            4000 + 100 * self.game.cells, min_length=1, charset=CHARACTERS
        )
        self.action_space = Text(MAX_ACTION_LENGTH, min_length=0, charset=CHARACTERS)
        self._text: TextGame | None = None
        self._episode = -1
        self._is_done = True

    @property
    def text(self) -> TextGame:
        """The current game.

        Raises:
            ResetNeeded: before ``reset``.
        """
        if self._text is None:
            raise ResetNeeded("no game has begun: call reset() first")
        return self._text

    def reset(
        self, *, seed: int | None = None, options: Keywords | None = None
    ) -> tuple[str, Info]:
        """Begin the next game, or with ``seed`` the first of that seed.

        Raises:
            ValueError: ``options`` are given, and there are none.
        """
        super().reset(seed=seed)
        if options:
            raise Refusal(f"options={options!r} are not known: ttt/Text-v0 has none")
        self._episode = 0 if seed is not None else self._episode + 1
        seat = (
            self._episode % 2
            if self.config.seat == "alternate"
            else int(self.config.seat == "second")
        )
        self._text = self.config.make_game(
            seat=seat, seed=self.np_random_seed, episode=self._episode
        )
        self._is_done = False
        self._seat = self.text.seats[0]
        self._num_turns = 0
        return self.render(), self._info(None)

    def step(self, action: str) -> tuple[str, float, bool, bool, Info]:
        """Answer the prompt, and let the opponent reply.

        Args:
            action: the answer; any text.

        Raises:
            ResetNeeded: before ``reset``, and after the end of a game.
        """
        text = self.text
        problem = None
        if self._is_done:
            raise ResetNeeded("the game is over: call reset() to begin the next one")
        if not text.over:
            self._seat = text.mover
            problem = text.step(action)
        self._is_done = text.over
        turns = text.turns[self._num_turns :]
        self._num_turns = len(text.turns)
        if text.problems:
            position = text.position
            turns.append(Turn(position, -1, position, text.outcome, "answer", text.problems))
        # earlier problems of a turn have had their reward
        turns = [turn._replace(problems=turn.problems[-1:] if problem else ()) for turn in turns]
        reward = self.config.reward(turns, self._seat)
        return self.render(), reward, self._is_done, False, self._info(problem)

    def render(self) -> str:
        """Return the current observation.

        Raises:
            ResetNeeded: before ``reset``.
        """
        return self.text.prompt(rules=self.config.rules)

    def _info(self, problem: Problem | None) -> Info:
        return {
            "seat": self._seat,
            "mover": self.text.mover,
            "result": int(self.text.outcome),
            "winner": self.text.outcome.winner,
            "problem": "" if problem is None else problem.kind,
        }
