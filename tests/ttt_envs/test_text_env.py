"""The Gymnasium environment of text games."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env

import ttt_envs
from ttt_envs.game.rules import Outcome
from ttt_envs.text import PRESENTATIONS
from ttt_eval.credit import TurnReward

ID = "ttt_envs:ttt/Text-v0"


def answer(env, rng):
    """A random legal move of the current game."""
    legal = env.unwrapped.text.legal_moves()
    return f"<move>{rng.choice(legal)}</move>" if legal else ""


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"presentation": "words", "skip_chance": 0.5, "seat": "alternate"},
        {"opponent": "self", "illegal": "random", "size": (4, 5), "win_length": 4},
        {"illegal": "lose", "rules": True, "show_legal": False, "seat": "second"},
    ],
)
def test_checker(settings):
    check_env(gymnasium.make(ID, render_mode="ansi", **settings).unwrapped)


@pytest.mark.parametrize("seat", ["first", "second"])
def test_games_are_those_of_the_environment_on_cells(seat):
    settings = {"skip_chance": 0.25, "opponent": "win-or-block", "seat": seat}
    cells, text = gymnasium.make("ttt_envs:ttt/MNK-v0", **settings), gymnasium.make(ID, **settings)
    rng = np.random.default_rng(0)
    for number in range(12):
        seed = 5 if number == 0 else None
        _, info = cells.reset(seed=seed)
        _, text_info = text.reset(seed=seed)
        done = False
        while not done:
            assert {name: text_info[name] for name in ("seat", "mover", "result", "winner")} == {
                name: info[name] for name in ("seat", "mover", "result", "winner")
            }
            action = int(rng.choice(np.flatnonzero(info["action_mask"])))
            _, reward, done, _, info = cells.step(action)
            name = text.unwrapped.text.presentation.cell_names[action]
            _, text_reward, text_done, truncated, text_info = text.step(name)
            assert (text_reward, text_done, truncated) == (reward, done, False)


@pytest.mark.parametrize("presentation", PRESENTATIONS)
def test_observations_are_in_the_space(presentation):
    env = gymnasium.make(ID, presentation=presentation, skip_chance=0.5, seat="alternate", rules=True)
    rng = np.random.default_rng(1)
    for number in range(10):
        seen, _ = env.reset(seed=3 if number == 0 else None)
        done = False
        while not done:
            assert env.observation_space.contains(seen)
            assert "probability 0.5" in seen
            seen, _, done, _, info = env.step(env.action_space.sample() if rng.random() < 0.2 else answer(env, rng))
            assert set(info) == {"seat", "mover", "result", "winner", "problem"}
    huge = gymnasium.make(ID, size=19, win_length=5, skip_chance=0.9, rules=True, seat="second")
    assert huge.observation_space.contains(huge.reset(seed=0)[0])


def test_illegal_answers_and_the_end():
    env = gymnasium.make(ID, max_asks=1)
    for early in (lambda: env.unwrapped.step("b2"), env.unwrapped.render):
        with pytest.raises(ResetNeeded):
            early()
    env.reset(seed=0)
    seen, reward, done, _, info = env.step("d9\ud800")
    assert (reward, done, info["problem"]) == (0.0, False, "no-move")
    assert "once more" in seen
    seen, reward, done, _, info = env.step("<move>d9</move>")
    assert (reward, done, info["problem"]) == (-1.0, True, "unknown-cell")
    assert info["result"] == int(Outcome.PLAYER_0_FORFEITED)
    assert seen.endswith("You have lost.")
    with pytest.raises(ResetNeeded):
        env.step("b2")


def test_rewards_of_turns_add_up():
    reward = TurnReward(ttt_envs.Game(skip_chance=0.25), regret=0.5, illegal=0.1)
    env = gymnasium.make(ID, skip_chance=0.25, opponent="win-or-block", seat="alternate", reward=reward)
    rng = np.random.default_rng(2)
    for number in range(10):
        env.reset(seed=0 if number == 0 else None)
        total, done = 0.0, False
        while not done:
            _, gained, done, _, _ = env.step("nonsense" if rng.random() < 0.1 else answer(env, rng))
            total += gained
        text = env.unwrapped.text
        assert total == pytest.approx(reward(text.turns, text.seats[0]), abs=1e-12)


def test_self_play_rewards_the_player_who_answered():
    env = gymnasium.make(ID, opponent="self")
    env.reset(seed=0)
    for move in ("a1", "a2", "b1", "b2"):
        _, reward, *_ = env.step(move)
        assert reward == 0
    _, reward, done, _, info = env.step("c1")
    assert (reward, done, info["seat"], info["winner"]) == (1.0, True, 0, 0)


def test_arguments_are_checked():
    with pytest.raises(ValueError, match=r"^seat='third' is not known"):
        gymnasium.make(ID, seat="third")
    with pytest.raises(TypeError, match="unexpected keyword argument 'presentations'"):
        gymnasium.make(ID, presentations="grid")
    with pytest.raises(ValueError, match=r"^options=.* are not known: ttt/Text-v0 has none"):
        gymnasium.make(ID).reset(options={"seat": 1})
