"""Learners of Stable-Baselines3: their files are arrays, their policies play what was learned; zips
need trust.
"""

import random
import sys

import numpy as np
import plain
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from tiny import fit

from learners.mlp import planes
from learners.sb3 import DQNConfig, MaskablePPOConfig, PPOConfig, sign_buffer
from ttt_envs import Game, PhantomGame, make_policy
from ttt_envs.agents.adapters import as_value_function
from ttt_envs.agents.specs import TRUST
from ttt_envs.envs.single_env import SingleEnv
from ttt_eval.exact.critics import critic_error
from ttt_eval.exact.dynamic_programming import exploitability, match_outcome

pytestmark = pytest.mark.needs("torch", "stable_baselines3", "sb3_contrib")

CONFIGS = {
    "sb3-dqn": DQNConfig(hidden=(16,), learning_starts=100, batch_size=32),
    "sb3-ppo": PPOConfig(hidden=(16, 8), rollout=128, batch_size=32, n_epochs=2),
    "sb3-maskable-ppo": MaskablePPOConfig(hidden=(16,), rollout=128, batch_size=32, n_epochs=2),
}
ALGORITHMS = ("dqn", "ppo", "maskable-ppo")
GAME = Game()


def test_a_net_sees_the_movers_stones_as_its_own():
    """The only hidden unit counts own stones in the first row, and the value of the upper right
    corner is half of it: 1 for o, who has two stones there, and 0 for x.

    oo.
    xx.
    ...
    """
    net = DQNConfig(hidden=(1,)).build(GAME, np.random.default_rng(0))
    count = np.zeros((1, 18), np.float32)
    count[0, :3] = 1
    half = np.zeros((9, 1), np.float32)
    half[2] = 0.5
    net.state = {
        "q_net.0.weight": count,
        "q_net.0.bias": np.zeros(1, np.float32),
        "q_net.2.weight": half,
        "q_net.2.bias": np.zeros(9, np.float32),
    }
    boards = plain.from_texts("oo./xx./... o", "oo./xx./... x")
    legal = [2, 5, 6, 7, 8]
    assert net.action_values(boards)[:, legal].tolist() == [[1, 0, 0, 0, 0], [0, 0, 0, 0, 0]]
    assert net.probabilities(boards)[:, legal].tolist() == [[1, 0, 0, 0, 0], [0.2] * 5]


def class_of(algorithm):
    """The class of Stable-Baselines3 itself."""
    from sb3_contrib import MaskablePPO
    from stable_baselines3 import DQN, PPO

    return {"dqn": DQN, "ppo": PPO, "maskable-ppo": MaskablePPO}[algorithm]


def assert_plays_as_predicted(p, model, boards):
    """The most probable moves ``p`` are the actions of ``model.predict``, where these are legal."""
    masks = (
        {"action_masks": boards.cells == 0} if isinstance(model, class_of("maskable-ppo")) else {}
    )
    moves, _ = model.predict(flat(boards), deterministic=True, **masks)
    legal = boards.cells[np.arange(64), moves] == 0
    assert legal.any()
    assert_array_equal(p.argmax(axis=1)[legal], moves[legal])
    return legal


def flat(boards):
    return planes(boards.own_first(), 2).astype(np.int8)


def boards_of(game, count=64):
    return plain.positions_of_random_play(game, count)


@pytest.fixture(scope="module", params=CONFIGS)
def trained(request):
    """The settings, the game and the net of a few hundred games, with skips, on a board that is not
    square.
    """
    game = Game(3, 4, 3, 0.1)
    config = CONFIGS[request.param]
    return config, game, fit(config, game, 300)[1]


# --------------------------------------------------------------------------------------------------
# Learning


def model_of(config, game, net):
    """A model of Stable-Baselines3 with the weights of a net."""
    import torch

    env = SingleEnv((game.rows, game.columns), gravity=game.gravity)
    kind = class_of(config.name.removeprefix("sb3-"))
    model = kind("MlpPolicy", env, policy_kwargs={"net_arch": list(config.hidden)}, device="cpu")
    model.policy.load_state_dict({name: torch.tensor(array) for name, array in net.state.items()})
    return model


def test_arrays_are_a_state_dict_and_play_as_stable_baselines(trained):
    """They go back into Stable-Baselines3, whose ``predict`` then chooses the same, and whose actor
    is ours.
    """
    import torch

    config, game, net = trained
    model = model_of(*trained)
    boards = boards_of(game)
    assert_plays_as_predicted(net.probabilities(boards), model, boards)
    if config.name == "sb3-maskable-ppo":
        observations = model.policy.obs_to_tensor(flat(boards))[0]
        with torch.no_grad():
            shares = model.policy.get_distribution(
                observations, boards.cells == 0
            ).distribution.probs
        assert_allclose(net.actor.probabilities(boards), shares, atol=1e-5)


def test_values_are_those_of_stable_baselines(trained):
    """Those of a critic are predicted for the actor, which samples moves also where the policy
    plays the likeliest.
    """
    config, game, policy = trained
    boards = boards_of(game)
    if config.name == "sb3-dqn":
        values = policy.action_values(boards)
        assert_array_equal(np.isnan(values), boards.cells != 0)
        assert_array_equal(
            policy.probabilities(boards) > 0, values == policy.values(boards)[:, None]
        )
        return
    assert_allclose(
        policy.values(boards), as_value_function(model_of(*trained), game)(boards), atol=1e-6
    )
    assert critic_error(game, policy.actor, "random", policy).root_mean_square > 0.01


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_callbacks_do_not_interfere(config):
    import torch

    def measure(games, policy):
        np.random.random(games)  # noqa: NPY002
        return {"drawn": random.random() + float(torch.rand(1))}

    before = np.random.get_state()[1].copy()  # noqa: NPY002
    alone, learned = fit(config)
    assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002
    done, measured = fit(config, callbacks=(measure,), every=20)
    assert done == alone
    plain.assert_same_arrays(learned.state, measured.state)


def test_divergence_is_reported():
    import torch

    training = CONFIGS["sb3-dqn"].training(GAME, 100, batch=16, seed=0, opponent="random")
    with torch.no_grad():
        training.model.policy.q_net.q_net[0].bias[0] = np.nan
    with pytest.raises(ValueError, match=r"sb3-dqn diverged after \d+ games"):
        training.step()


# --------------------------------------------------------------------------------------------------
# Self-play


@pytest.mark.parametrize("skip_chance", [0.0, 0.4])
def test_discounts_in_self_play_give_the_next_mover(skip_chance):
    training = CONFIGS["sb3-maskable-ppo"].training(
        Game(skip_chance=skip_chance), 60, batch=16, seed=1, opponent="self"
    )
    count = training.count
    signs = set()

    def watch(step, rest):
        before = step["self"]._last_obs.reshape(-1, 2, 9).copy()  # noqa: SLF001
        goes_on = count(step, rest)
        over = step["dones"]
        observations = step["new_obs"].reshape(-1, 2, 9)
        discount = training.discount
        assert_array_equal(discount == 0, over)
        assert (step["rewards"] >= over * 0.0).all()  # to who moved, who cannot lose by that
        before[np.arange(16), 0, step["actions"]] = 1
        assert_array_equal(
            observations[discount == 1], before[discount == 1]
        )  # the same mover's view
        assert_array_equal(observations[discount == -1], before[discount == -1, ::-1])
        signs.update(discount.tolist())
        return goes_on

    training.count = watch
    done = training.run()
    assert signs == ({0, 1, -1} if skip_chance else {0, -1})
    assert done.games == done.wins + done.draws + done.losses > 50
    assert done.wins > done.losses  # player_0, who has the first stone


@pytest.mark.slow
def test_self_play_by_its_defaults_visits_what_an_opponent_could_choose():
    """So its stochastic policy is not far from unexploitable; the other one has 0 or 0.5 by single
    positions.
    """
    config = MaskablePPOConfig(**MaskablePPOConfig.self_play)
    game = Game()
    training = config.training(
        game, config.self_play_games, batch=config.batch, seed=0, opponent="self"
    )
    training.run()
    assert exploitability(game, training.learner.actor) < 0.25


class Fixed:
    """Stands for the environment of a buffer."""

    discount = np.ones(2, np.float32)


def test_signed_buffers_by_hand():
    """Advantages and targets in self-play, against the formulas written out."""
    import torch
    from stable_baselines3.common.buffers import ReplayBuffer, RolloutBuffer

    env = SingleEnv()
    games = Fixed()
    spaces = env.observation_space, env.action_space
    gamma = 0.9
    gae_lambda = 0.8
    steps = 6
    rollout = sign_buffer(
        games, RolloutBuffer(steps, *spaces, "cpu", gamma=gamma, gae_lambda=gae_lambda, n_envs=2)
    )
    replay = sign_buffer(games, ReplayBuffer(100, *spaces, "cpu", n_envs=2))
    rng = np.random.default_rng(0)
    discounts = rng.choice([-1, 0, 1], (steps, 2)).astype(np.float32)
    rewards = rng.normal(size=(steps, 2))
    values = rng.normal(size=(steps + 1, 2))
    obs = np.zeros((2, 18), np.int8)
    actions = np.zeros((2, 1), np.int64)
    for step in range(steps):
        games.discount = discounts[step]
        over = discounts[step] == 0
        rollout.add(obs, actions, rewards[step], over, torch.tensor(values[step]), torch.zeros(2))
        replay.add(obs, obs, actions, rewards[step], over, [{}, {}])
    rollout.compute_returns_and_advantage(torch.tensor(values[-1]), discounts[-1] == 0)
    advantage = np.zeros(2)
    for step in reversed(range(steps)):
        error = rewards[step] + gamma * discounts[step] * values[step + 1] - values[step]
        advantage = error + gamma * gae_lambda * discounts[step] * advantage
        assert_allclose(rollout.advantages[step], advantage, rtol=1e-5)
    assert_array_equal(1 - replay.dones[:steps], discounts)


# --------------------------------------------------------------------------------------------------
# Files that are not what they should be


def test_what_does_not_fit_is_refused(monkeypatch):
    net = CONFIGS["sb3-dqn"].build(GAME, np.random.default_rng(0))
    own, other = (fit(CONFIGS[name], games=0)[1].state for name in ("sb3-dqn", "sb3-ppo"))
    for arrays in (
        other,
        {name: array[:1] if array.ndim == 1 else array for name, array in own.items()},
    ):
        with pytest.raises(ValueError, match=r"sb3-.* with hidden=.* needs layers"):
            net.state = arrays
    with pytest.raises(ValueError, match="policy as opponent"):
        fit(CONFIGS["sb3-ppo"], opponent="self", game=PhantomGame(kind="abrupt"))
    monkeypatch.setitem(sys.modules, "sb3_contrib", None)
    with pytest.raises(ValueError, match=r"needs Stable-Baselines3"):
        fit(CONFIGS["sb3-maskable-ppo"])


# --------------------------------------------------------------------------------------------------
# Zips of Stable-Baselines3


@pytest.fixture(scope="module", params=ALGORITHMS)
def zipped(request, tmp_path_factory):
    """A model and the path of its zip."""
    import torch

    torch.set_num_threads(1)
    numbers = (
        {"learning_starts": 50}
        if request.param == "dqn"
        else {"n_steps": 64, "batch_size": 32, "n_epochs": 1}
    )
    model = class_of(request.param)(
        "MlpPolicy", SingleEnv(skip_chance=0.1), seed=0, device="cpu", **numbers
    )
    model.learn(256)
    path = str(tmp_path_factory.mktemp("zip") / "model.zip")
    model.save(path)
    return request.param, model, path


def test_zips_are_read_only_if_trusted(zipped, monkeypatch):
    algorithm, _, path = zipped
    monkeypatch.delenv(TRUST, raising=False)
    monkeypatch.setattr(class_of(algorithm), "load", lambda *_, **__: pytest.fail("it was read"))
    for trust in ("", ",trust=false"):
        with pytest.raises(ValueError, match=r"can run any code"):
            make_policy(f"sb3:{path},algorithm={algorithm}{trust}", GAME)


def test_zips_play_as_their_models_predict(zipped, tmp_path):
    algorithm, model, path = zipped
    boards = boards_of(GAME)
    policy = make_policy(f"sb3:path={path},algorithm={algorithm},trust=true", GAME)
    p = policy.probabilities(boards)
    legal = assert_plays_as_predicted(p, model, boards)
    assert (p[legal].max(axis=1) == 1).all()
    for other in set(ALGORITHMS) - {algorithm}:
        with pytest.raises(
            ValueError, match=r"(and of this algorithm\?|which is not of \w+: name its algorithm)"
        ):
            make_policy(f"sb3:{path},algorithm={other},trust=true", GAME)
    (tmp_path / "model.zip").write_bytes(b"no zip")
    for path_, game in (
        (path, Game(3, 4)),
        (tmp_path / "model.zip", GAME),
        (tmp_path / "none.zip", GAME),
    ):
        with pytest.raises(
            ValueError, match=r"choose the game of its training|read as a zip of (?!.*zip\.zip)"
        ):
            make_policy(f"sb3:{path_},algorithm={algorithm},trust=true", game)


# --------------------------------------------------------------------------------------------------
# Strength


@pytest.mark.slow
@pytest.mark.parametrize(
    ("config", "opponent", "games"),
    [(MaskablePPOConfig(), "random", 200_000), (DQNConfig(), "self", 50_000)],
)
def test_training_of_minutes_rarely_loses_to_random_play(config, opponent, games):
    _, net = fit(config, opponent=opponent, games=games, batch=256, seed=0, every=games)
    assert match_outcome(GAME, net, "random").loss < 0.01
