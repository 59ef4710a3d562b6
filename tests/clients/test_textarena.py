"""TextArena: its registry, its wrappers and states, and games of fake agents."""

import random
import sys
from pathlib import Path

import pytest

ta = pytest.importorskip("textarena")

from ttt_envs import Game
from ttt_envs.text import PRESENTATIONS, TextGame
from ttt_eval.language_models.credit import TurnReward

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples" / "files"))
from textarena_env import ID


def play(env, players, games, agent):
    """Play games in the way of TextArena's examples; return their rewards."""
    results = []
    for seed in range(games):
        env.reset(num_players=players, seed=seed)
        is_over = False
        while not is_over:
            player, observation = env.get_observation()
            is_over, _ = env.step(action=agent(env, player, observation))
        results.append(env.close()[0])
    return results


def random_move(env, player, observation):
    legal = env.text.legal_moves()
    return f"[{random.Random(f'{observation}').choice(legal)}]" if legal else ""


def test_two_players():
    """`make` and 500 games of two fake agents: results of both players are opposite (steps are
    games)
    """
    env = ta.make(ID, skip_chance=0.25)
    play(env, 2, 50, random_move)
    results = play(env, 2, 500, random_move)
    assert all(sum(rewards.values()) == 0 for rewards in results)
    assert {rewards[0] for rewards in results} == {-1.0, 0.0, 1.0}
    env.reset(num_players=2, seed=0)
    assert env.get_observation()[0] == 0
    ta.check_env_exists(ID)


@pytest.mark.parametrize(("seat", "name"), [(0, "first"), (1, "second")])
def test_one_player(seat, name):
    """one player in either seat against `win-or-block`: results are those of the same answers in a
    text game
    """
    env = ta.make(ID, skip_chance=0.25, opponent="win-or-block", seat=name)
    answers = []

    def agent(*words):
        answers.append(random_move(*words))
        return answers[-1]

    for seed, rewards in enumerate(play(env, 1, 20, agent)):
        text = TextGame(Game(skip_chance=0.25), opponent="win-or-block", seat=seat, seed=seed)
        while not text.over:
            text.step(answers.pop(0))
        if all(turn.by == "opponent" for turn in text.turns):
            assert (
                answers.pop(0) == ""
            )  # the opponent has won before the first answer, which is ignored
        assert rewards == {0: text.result(seat)}
    assert not answers


def test_illegal_moves_and_rewards():
    """answers that are no moves, and rewards with regret"""
    reward = TurnReward(Game(), regret=1.0)
    env = ta.make(ID, max_asks=1, reward=reward)
    env.reset(num_players=2, seed=0)
    assert env.step("nonsense") == (False, {})
    assert env.get_observation()[1][-1][1].startswith("The answer names no move.")
    is_over, _ = env.step("nonsense")
    rewards, infos = env.close()
    assert is_over
    assert rewards == {0: -2.0, 1: 1.0}  # the loss, and the regret of the forfeit
    assert infos[0]["invalid_move"]
    assert not infos[1]["invalid_move"]
    with pytest.raises(ValueError, match=r"^num_players=3 cannot play"):
        env.reset(num_players=3)


@pytest.mark.parametrize("name", PRESENTATIONS)
def test_wrappers(name):
    """`LLMObservationWrapper` with all presentations: each player reads its own prompts and
    answers
    """
    env = ta.wrappers.LLMObservationWrapper(ta.make(ID, presentation=name))
    env.reset(num_players=2, seed=3)
    first, second, *_ = env.text.presentation.cell_names
    player, observation = env.get_observation()
    assert player == 0
    assert observation.count("Two players") == 1
    env.step(f"<move>{first}</move>")
    player, observation = env.get_observation()
    assert player == 1
    assert "The other player chose" in observation
    env.step(f"<move>{second}</move>")
    player, observation = env.get_observation()
    assert player == 0
    assert f"<move>{first}</move>" in observation
    assert f"<move>{second}</move>" not in observation
