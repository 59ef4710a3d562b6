"""Text games as an environment of TextArena (``pip install textarena``); importing it registers
``ttt/Text-v0``.
"""

from __future__ import annotations

from typing import Any

import textarena as ta

from ttt_envs.text import TextEnv

ID = "ttt/Text-v0"


class TextArenaEnv(ta.Env):
    """A text game of two players, or with ``num_players=1`` of one against ``opponent``.

    Each observation is one message, the prompt of :class:`ttt_envs.text.TextGame`; the first
    contains the rules. Rewards are 1, 0 and -1, or those of ``reward`` for the whole game; an
    answer that is no legal move is treated by ``illegal``.

    Args:
        settings: arguments of ``ttt/Text-v0``; a single player has the ``seat`` "first" or
            "second".
    """

    def __init__(self, **settings: Any) -> None:
        self._settings = settings

    def reset(self, num_players: int, seed: int | None = None) -> None:
        """Begin a game, of seed 0 without a ``seed``; TextArena's global generator is not seeded.

        Raises:
            ValueError: another number of players.
        """
        if num_players not in (1, 2):
            raise ValueError(
                f"num_players={num_players} cannot play: choose 1, against the opponent, or 2"
            )
        env = TextEnv(**self._settings | ({"opponent": "self"} if num_players == 2 else {}))
        env.reset(seed=seed or 0)
        self.text = env.text
        self._reward = env.config.reward
        self.state = ta.State(num_players)
        self.state.standard_resets(
            game_state={}, role_mapping={i: f"Player {i}" for i in range(num_players)}
        )
        self._has_prompt = [False] * num_players
        self._update()

    def step(self, action: str) -> tuple[bool, dict[str, Any]]:
        """Answer the prompt of the current player; return whether the game is over, and an empty
        dictionary.
        """
        player = self.state.current_player_id
        own = ta.ObservationType.PLAYER_ACTION
        self.state.add_observation(str(action), own, from_id=player, to_id=player)
        if not self.text.over:
            problem = self.text.step(action)
            self.state.game_info[player]["invalid_move"] = problem is not None
            self.state.game_info[player]["turn_count"] += problem is None
        self._update()
        done, info = self.state.step()
        return bool(done), info

    def _update(self) -> None:
        """Give the next prompt to the player to move, or to all players the end of the game."""
        text = self.text
        state = self.state
        for seat in text.seats if text.over else (text.mover,):
            player = text.seats.index(seat)
            kind = (
                ta.ObservationType.GAME_BOARD
                if self._has_prompt[player]
                else ta.ObservationType.PROMPT
            )
            state.add_observation(text.prompt(seat), kind, to_id=player)
            self._has_prompt[player] = True
            state.current_player_id = player
        if text.over:
            state.done = True
            state.rewards = {
                player: self._reward(text.turns, seat) for player, seat in enumerate(text.seats)
            }
            for player in state.rewards:
                state.game_info[player]["reason"] = text.outcome.description


if ID not in ta.envs.registration.ENV_REGISTRY:
    ta.register(ID, TextArenaEnv)
