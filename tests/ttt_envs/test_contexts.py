"""Skip chances and first movers drawn per episode, schedules of opponents, and openings: in all three environments."""

import json
from collections import Counter

import numpy as np
import plain
import pytest
from environment_contract import AEC, DRAWN, DRAWN_AGAINST, KINDS, OPENINGS, SCHEDULE, SEVERAL, SKIPS
from gymnasium.vector import AutoresetMode
from players import Scripted
from test_vector_env import compare

from ttt_envs import Game, as_policy, from_text, mnk_v0
from ttt_envs.envs.config import EnvConfig
from ttt_envs.envs.single_env import SingleEnv
from ttt_envs.envs.vector_env import MNKVectorEnv
from ttt_envs.game.rules import STREAM_OPENING
from ttt_eval.exact import match_outcome

# ---------------------------------------------------------------------------------------------------------------------
# What is drawn


def episode_keys(seed, count):
    key = int(np.random.default_rng(seed).integers(0, 1 << 64, dtype=np.uint64))
    return [plain.splitmix64(key, episode) for episode in range(count)]


def test_skip_chances_are_the_addressed_draws_of_episodes():
    env = SingleEnv(skip_chance=SKIPS)
    drawn = [env.reset(seed=5)[1]["skip_chance"], *(env.reset()[1]["skip_chance"] for _ in range(300))]
    keys = episode_keys(5, 301)
    assert drawn == [SKIPS[int(plain.splitmix64(key, 5 << 32) / 2**64 * 3)] for key in keys]
    assert min(Counter(drawn).values()) > 70


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("size", [3, (8, 9)], ids=str)
def test_turns_are_skipped_as_often_as_the_drawn_chance_says(kind, size):
    game = kind(size=size, skip_chance=(0, 0.75))
    skipped, turns = Counter(), Counter()
    for episode in range(60):
        shown = game.reset(0 if episode == 0 else None)
        chance = skip_chance_of(game)
        for _ in range(4):
            mover = shown[-1]["mover"]
            shown = game.step(int(np.argmax(shown[1])))
            if shown[-1]["result"] != -1:
                break
            assert {outcome.probability for outcome in game.chance_outcomes(int(np.argmax(shown[1])))} <= {
                1,
                0.25,
                0.75,
            }
            turns[chance] += 1
            skipped[chance] += shown[-1]["mover"] == mover
    assert skipped[0] == 0 < turns[0]
    assert 0.6 < skipped[0.75] / turns[0.75] < 0.9


def skip_chance_of(game):
    """Return the skip chance in the info of an environment of the contract."""
    if isinstance(game, AEC):
        return game.env.infos["player_0"]["skip_chance"]
    return game.info["skip_chance"]


def test_openings_are_drawn_uniformly():
    env = SingleEnv(openings=OPENINGS, opponent="self", observation="planes", dtype="int8")
    boards = Counter()
    env.reset(seed=0)
    for _ in range(300):
        observation, info = env.reset()
        own = 1 if info["mover"] == 0 else 2
        cells = observation[..., 0] * own + observation[..., 1] * (3 - own)
        boards[cells.tobytes(), info["mover"]] += 1
    expected = {(position.cells.tobytes(), position.mover) for position in map(from_text, OPENINGS)}
    assert set(boards) == expected
    assert min(boards.values()) > 70


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("size", [3, (8, 9)], ids=str)
def test_a_random_first_mover_is_the_addressed_draw_of_an_episode(kind, size):
    game, movers = kind(size=size, first_player="random"), []
    for episode in range(100):
        (stones, mask, *_, info) = game.reset(seed=5 if episode == 0 else None)
        movers.append(info["mover"])
        assert not np.any(stones)
        assert all(mask)
        own, *_, info = game.step(3)
        assert own == [[0] * len(mask), [*[0] * 3, 1, *[0] * (len(mask) - 4)]]  # the other player sees the stone
        assert info["mover"] == 1 - movers[-1]
    keys = episode_keys(5, 100)
    assert movers == [int(plain.splitmix64(key, STREAM_OPENING << 32) / 2**64 * 2) for key in keys]
    assert 30 < sum(movers) < 70


@pytest.mark.parametrize("opponent", ["random", "win-or-block", "optimal", "expectiminimax", "mcts:simulations=8"])
def test_every_opponent_may_move_first(opponent):
    env, first = SingleEnv(opponent=opponent, first_player="random", skip_chance=0.1, observation="planes"), set()
    for episode in range(20):
        observation, info = env.reset(seed=episode)
        stones = int(np.any(observation, axis=-1).sum())
        first.add(stones > 0)
        assert info["mover"] == info["seat"] == 0 or info["result"] != -1
        assert (np.argmax(observation[observation.any(axis=-1)], axis=-1) == 1).all()  # only the opponent's
    assert first == {False, True}


def test_results_with_a_random_first_mover_are_the_mean_of_both_seats():
    env = MNKVectorEnv(512, skip_chance=0.5, first_player="random", opponent="win-or-block", autoreset_mode="SameStep")
    rng, results = np.random.default_rng(0), [[] for _ in range(512)]
    env.reset(seed=0)
    while min(map(len, results)) < 30:
        masks = env.action_masks()
        _, rewards, over, _, _ = env.step((rng.random(masks.shape) * masks).argmax(axis=1))
        for row in np.flatnonzero(over):
            results[row].append(rewards[row])
    expected = match_outcome(Game(skip_chance=0.5), "random", "win-or-block").value
    assert abs(np.mean([each[:30] for each in results]) - expected) < 4 / np.sqrt(512 * 30)


def test_a_position_in_the_options_replaces_the_opening():
    env = SingleEnv(openings=OPENINGS, render_mode="ansi")
    for _ in range(5):
        env.reset(seed=0, options={"position": "o.o/.x./..x o"})
        assert env.legal_actions() == [1, 3, 5, 6, 7]


def test_shown_contexts_are_in_observations():
    chances = MNKVectorEnv(4, **SEVERAL).reset(seed=2)[1]["skip_chance"]
    assert set(chances) == {0, 0.5}
    for kind, where in (("flat", np.s_[:, -1]), ("planes", np.s_[:, 0, 2, 2]), ("channels", np.s_[:, 2, 1, 0])):
        shown = MNKVectorEnv(4, (3, 4), observation=kind, **SEVERAL)
        hidden = MNKVectorEnv(4, (3, 4), observation=kind, skip_chance=SEVERAL["skip_chance"])
        (own, info), (other, _) = shown.reset(seed=2), hidden.reset(seed=2)
        np.testing.assert_array_equal(own[where], chances)
        np.testing.assert_array_equal(info["skip_chance"], chances)
        axis = -1 if kind != "channels" else 1
        np.testing.assert_array_equal(np.delete(own, -1, axis=axis), other)
    observation = MNKVectorEnv(4, observation="dict", dtype="int8", **SEVERAL).reset(seed=2)[0]
    np.testing.assert_array_equal(observation["skip_chance"][:, 0], chances)
    assert observation["observation"].dtype == np.int8
    env = mnk_v0.env(**SEVERAL)
    env.reset(seed=2)
    assert env.observe("player_1")["skip_chance"].tolist() == [chances[0]]


def test_one_skip_chance_can_be_shown():
    observation, info = SingleEnv(skip_chance=0.1, observe_skip_chance=True).reset()
    assert observation[-1] == np.float32(0.1)
    assert "skip_chance" not in info


# ---------------------------------------------------------------------------------------------------------------------
# Schedules


def marker(first):
    """A policy that plays a cell first, then the least empty one."""
    return Scripted(first, *range(9))


def first_replies(schedule, num_episodes):
    """Return the opponent's first cell in each episode, and the number of steps of each episode."""
    env, cells, lengths = SingleEnv(opponent=schedule, seat="second", dtype="int8"), [], []
    for episode in range(num_episodes):
        observation = env.reset(seed=0 if episode == 0 else None)[0]
        cells.append(int(np.flatnonzero(observation[9:])[0]))
        terminated, steps = False, 0
        while not terminated:
            terminated = env.step(int(np.flatnonzero(env.action_masks())[-1]))[2]
            steps += 1
        lengths.append(steps)
    return cells, lengths


def test_a_schedule_changes_the_opponent_when_an_episode_begins():
    stages = [marker(cell) for cell in (4, 2, 6)]
    [length] = set(first_replies(stages[0], 3)[1])
    assert length > 1
    for start in (length + 1, 2 * length):  # in the second game, or at its end: then the third game has a new opponent
        assert first_replies([(stages[0], 0), (stages[1], start)], 5)[0] == [4, 4, 2, 2, 2]
    three = [(stages[0], 0), (stages[1], 2 * length + 1), (stages[2], 3 * length + 1)]
    assert first_replies(three, 6)[0] == [4, 4, 4, 2, 6, 6]


def test_seeding_starts_a_schedule_again():
    env = SingleEnv(opponent=[(marker(4), 0), (marker(2), 1)], seat="second", dtype="int8")
    for _ in range(2):
        assert env.reset(seed=1)[0][9 + 4] == 1
        env.step(8)
        assert env.reset()[0][9 + 2] == 1


def test_a_game_in_a_vector_counts_its_own_steps():
    for mode in AutoresetMode:
        assert compare(3, mode, steps=120, opponent=SCHEDULE, seat="alternate", **SEVERAL)[0] > 30


@pytest.mark.parametrize("mode", AutoresetMode, ids=lambda mode: mode.name)
@pytest.mark.parametrize("settings", [*DRAWN, *DRAWN_AGAINST], ids=str)
def test_the_vector_equals_sync_vector_env(settings, mode):
    compare(4, mode, steps=60, limit=7, observation="dict", **{"opponent": "self", **settings})


def test_opponents_named_by_specs_know_the_skip_chance():
    [[one, other]] = EnvConfig(opponent="optimal", skip_chance=(0, 0.5)).opponents
    assert (one.game.skip_chance, other.game.skip_chance) == (0, 0.5)


def test_functions_as_opponents_see_the_context():
    seen = set()

    def opponent(observation, mask):
        seen.add(float(observation[-1]))
        return int(np.flatnonzero(mask)[0])

    env = SingleEnv(opponent=opponent, seat="second", **SEVERAL)
    known = set()
    for episode in range(10):
        known.add(env.reset(seed=episode)[1]["skip_chance"])
    assert seen == known == {0, 0.5}


def test_models_that_saw_contexts_are_policies_of_each_game():
    class Model:
        def __init__(self, **settings):
            self.observation_space = SingleEnv(**settings).observation_space

        def predict(self, observation):
            self.seen = observation
            return np.zeros(len(observation), np.int64)

    start = from_text(".../.../... o")
    for skip_chance in (0.1, 0.5):
        model = Model(**SEVERAL)
        game = Game(skip_chance=skip_chance)
        as_policy(model, game).probabilities(type(plain.positions_of_random_play(game, 1)).from_positions([start]))
        assert model.seen.shape == (1, 19)
        assert model.seen[0, -1] == np.float32(skip_chance)
    with pytest.raises(ValueError, match="observation="):
        as_policy(Model(observation="channels", **SEVERAL), Game())
    as_policy(Model(observation="channels", **SEVERAL), Game(), "channels")
    with pytest.raises(ValueError, match=r"sees observations of shape \(19,\)"):
        as_policy(Model(**SEVERAL), Game(), observe_skip_chance=False)


# ---------------------------------------------------------------------------------------------------------------------
# States, copies, checkers


@pytest.mark.needs("stable_baselines3")
@pytest.mark.parametrize("observation", ["flat", "dict"])
def test_sb3_trains_on_contexts_and_schedules(observation):
    sb3 = pytest.importorskip("stable_baselines3")
    env = SingleEnv(opponent=SCHEDULE, observation=observation, **SEVERAL)
    policy = "MlpPolicy" if observation == "flat" else "MultiInputPolicy"
    model = sb3.PPO(policy, env, n_steps=32, batch_size=32, n_epochs=1, policy_kwargs={"net_arch": [4]}, device="cpu")
    model.learn(64)
    game = Game(skip_chance=0.25)
    p = as_policy(model, game, returns="probabilities").probabilities(plain.positions_of_random_play(game, 8))
    np.testing.assert_allclose(p.sum(axis=1), 1)


def test_an_opening_is_no_last_move_in_pictures():
    for seed in range(5):
        env = SingleEnv(opponent="self", openings=OPENINGS, render_mode="ansi")
        env.reset(seed=seed)
        assert "[" not in env.render().split("\n", 4)[1]
    env = MNKVectorEnv(2, opponent="self", openings=OPENINGS, render_mode="ansi", autoreset_mode="SameStep")
    mask = env.reset(seed=0)[1]["action_mask"]
    for _ in range(20):
        _, _, terminated, _, info = env.step(mask.argmax(axis=1))
        mask = info["action_mask"]
        for over, text in zip(terminated, env.render(), strict=True):
            assert over == ("[" not in text)


def test_infos_of_contexts_are_stored_as_json():
    info = SingleEnv(**SEVERAL).reset(seed=0)[1]
    assert json.loads(json.dumps({"skip_chance": info["skip_chance"]}))["skip_chance"] in (0, 0.5)
