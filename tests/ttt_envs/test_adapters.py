"""Functions and models from outside as policies and opponents."""

import functools
import random
import threading

import gymnasium
import numpy as np
import plain
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from ttt_envs import Boards, Game, Policy, as_policy, make_policy
from ttt_envs.envs.single_env import SingleEnv
from ttt_envs.envs.vector_env import MNKVectorEnv
from ttt_eval.exact import mean_loss
from ttt_eval.matches.match import play_pairs

GAME = Game(2, 3, 2)
BOARDS = plain.from_texts("o../x.. o", "o../..x x", ".../... o")
LEGAL = BOARDS.cells == 0
UNIFORM = plain.shares_of(LEGAL)
PLANES = np.stack([BOARDS.own_first() == 1, BOARDS.own_first() == 2], axis=1).reshape(3, 12)
OBSERVATIONS = ["flat", "planes", "channels", "dict"]


def normalize(weights):
    """Probabilities in proportion to the weights of legal actions."""
    shares = np.where(LEGAL, weights, 0)
    return plain.shares_of(shares)


def last_legal(observation, mask):
    return int(np.flatnonzero(mask)[-1])


def rising(observation, mask):
    return np.arange(6.0)


def free(observation):
    """The empty cells as flat observations, of one game or of a batch, show them."""
    return 1 - observation.reshape(*observation.shape[:-1], 2, 6).sum(axis=-2)


@pytest.mark.parametrize("observation", OBSERVATIONS)
@pytest.mark.parametrize(("batch", "dtype"), [(False, "float32"), (True, "int8")])
def test_functions_get_the_observations_of_environments(observation, batch, dtype):
    calls = []

    def look(observation, mask):
        calls.append((observation, mask))
        return mask.argmax(axis=-1)

    as_policy(look, GAME, observation, batch=batch, dtype=dtype).probabilities(BOARDS)
    env = SingleEnv(
        (2, 3), 2, skip_chance=0.1, observation=observation, dtype=dtype, opponent="self"
    )
    rows = [
        env.reset(seed=0, options={"position": text})[0]
        for text in ("o../x.. o", "o../..x x", ".../... o")
    ]
    assert len(calls) == (1 if batch else 3)
    for index, row in enumerate(rows):
        obs, mask = calls[0 if batch else index]
        assert_array_equal(
            mask[index] if batch else mask, LEGAL[index].astype(np.int8), strict=True
        )
        for name, array in row.items() if observation == "dict" else [(None, row)]:
            part = obs if name is None else obs[name]
            assert_array_equal(part[index] if batch else part, array, strict=True)


def test_actions_logits_probabilities_and_values_are_accepted():
    assert str(as_policy(last_legal, GAME)) == "last_legal"
    assert_array_equal(as_policy(last_legal, GAME).probabilities(BOARDS).argmax(axis=1), [5, 4, 5])
    for returns, weights in (("logits", np.exp(np.arange(6.0))), ("probabilities", np.arange(6.0))):
        many = as_policy(
            lambda _, mask: np.tile(np.arange(6.0), (len(mask), 1)),
            GAME,
            returns=returns,
            batch=True,
        )
        for policy in (as_policy(rising, GAME, returns=returns), many):
            assert_allclose(policy.probabilities(BOARDS), normalize(weights))
    p = as_policy(
        lambda _, mask: np.where(mask, 1e9, -np.inf), GAME, returns="logits"
    ).probabilities(BOARDS)
    assert_allclose(p, UNIFORM)
    values = np.array(
        [3.0, 1.0, 2.0, 9.0, 2.0, 2.0]
    )  # the best legal value is played, and ties share
    p = as_policy(lambda obs, mask: values, GAME, returns="values").probabilities(BOARDS)
    assert_allclose(p, [[0, 0, 1 / 3, 0, 1 / 3, 1 / 3], [0, 0, 0, 1, 0, 0], [0, 0, 0, 1, 0, 0]])


def test_masks_are_passed_to_functions_that_accept_them():
    def named(observation, action_mask=None):
        return action_mask

    def other(observation, action=None):
        assert action is None
        return free(observation)

    class Agent:
        def __call__(self, observation, /, mask):
            return mask

        def policy(self, observation):
            return free(observation)

    for function in (
        free,
        named,
        other,
        Agent(),
        Agent().policy,
        functools.partial(named),
        lambda *args: args[1],
    ):
        for batch in (False, True):
            p = as_policy(function, GAME, returns="probabilities", batch=batch).probabilities(
                BOARDS
            )
            assert_allclose(p, UNIFORM)
    inside = as_policy(lambda obs: obs["action_mask"], GAME, "dict", "probabilities")
    assert_allclose(inside.probabilities(BOARDS), UNIFORM)


def of_random(observation, mask):
    return random.choice(np.flatnonzero(mask))


def of_numpy(observation, mask):
    return np.random.choice(np.flatnonzero(mask))  # noqa: NPY002


def of_torch(observation, mask):
    import torch

    return int(torch.multinomial(torch.as_tensor(mask, dtype=torch.float32), 1))


@pytest.mark.parametrize(
    "agent", [of_random, of_numpy, pytest.param(of_torch, marks=pytest.mark.needs("torch"))]
)
def test_random_agents_have_the_frequencies_of_their_answers(agent):
    before = random.getstate()
    p = as_policy(agent, GAME, samples=40).probabilities(BOARDS)
    assert random.getstate() == before
    assert_allclose((p * 40).round(), p * 40, atol=1e-9)
    assert (abs(p - UNIFORM) <= 5 * np.sqrt(UNIFORM / 40)).all()  # 0 where illegal
    again = as_policy(agent, GAME, samples=40).probabilities(BOARDS.take(np.array([2])))
    assert_array_equal(again[0], p[2])
    assert (as_policy(agent, GAME, samples=40, seed=1).probabilities(BOARDS) != p).any()


def test_samples_of_agents_with_generators_of_their_own_are_kept():
    own = np.random.default_rng(0)
    policy = as_policy(lambda _, mask: own.choice(np.flatnonzero(mask)), GAME, samples=200)
    loss = mean_loss(GAME, policy)
    assert loss == mean_loss(GAME, policy)
    assert loss == pytest.approx(mean_loss(GAME, "random"), rel=0.05)
    assert as_policy(make_policy("mcts:simulations=4", GAME), GAME, samples=10).pure
    with pytest.raises(ValueError, match="samples"):
        as_policy(last_legal, GAME, samples=0)


@pytest.mark.more
def test_adapters_are_sent_to_other_processes_and_policies_stay():
    uniform = make_policy("random", GAME)
    assert as_policy(uniform, GAME) is uniform
    policy = as_policy(lambda obs, mask: int(np.flatnonzero(mask)[-1]), Game())
    here = play_pairs(Game(), policy, "random", 40, seed=1)
    assert_array_equal(play_pairs(Game(), policy, "random", 40, seed=1, jobs=2).pairs, here.pairs)
    lock = threading.Lock()
    with pytest.raises(ValueError, match="jobs=1"):
        play_pairs(
            Game(),
            as_policy(lambda obs, mask: [mask.argmax(), lock][0], Game()),
            "random",
            40,
            jobs=2,
        )


@pytest.mark.needs("torch")
def test_torch_modules_run_in_eval_mode_and_are_restored():
    import torch

    class TorchNet(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.body = torch.nn.Sequential(
                torch.nn.Linear(12, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 6)
            )
            self.calls = []

        def forward(self, observation, action_mask=None):
            self.calls.append((observation, action_mask, torch.is_grad_enabled(), self.training))
            values = self.body(observation)
            return values if action_mask is None else torch.where(action_mask, values, -1e8)

    torch.manual_seed(0)
    net = TorchNet()
    net.body[0].eval()  # somebody has frozen it
    with torch.no_grad():
        values = (
            net.body[2](net.body[0](torch.as_tensor(PLANES, dtype=torch.float32))).double().numpy()
        )
    p = as_policy(net, GAME, returns="values").probabilities(BOARDS)
    assert_array_equal(p.argmax(axis=1), np.where(LEGAL, values, -np.inf).argmax(axis=1))
    [(observation, mask, grad, training)] = net.calls
    assert (observation.dtype, mask.dtype, grad, training) == (
        torch.float32,
        torch.bool,
        False,
        False,
    )
    assert_array_equal(mask.numpy(), LEGAL)
    assert [part.training for part in net.body] == [False, True, True]
    assert net.training
    assert torch.is_grad_enabled()
    as_policy(net.double(), GAME, returns="logits").probabilities(BOARDS)  # and of another type
    assert net.calls[-1][0].dtype == torch.float64
    with pytest.raises(TypeError, match="TorchNet"):
        as_policy(net, GAME).probabilities(BOARDS)


@pytest.mark.needs("tensorflow")
def test_keras_models_are_policies():
    import keras

    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((12,)), keras.layers.Dropout(0.5), keras.layers.Dense(6)])
    weights, bias = model.get_weights()
    p = as_policy(model, GAME, returns="logits").probabilities(BOARDS)
    assert_allclose(p, normalize(np.exp(PLANES @ weights + bias)), rtol=1e-5)


def test_models_with_predict_are_policies():
    """Of another library: actions of a batch, alone or with a state, and without exploration."""

    class Greedy:
        returns = staticmethod(lambda actions: actions)

        def predict(self, observation, state=None, deterministic=False):
            assert deterministic
            assert observation.shape == (3, 12)
            return self.returns(free(observation).argmax(axis=1))

    model = Greedy()
    for returns in (model.returns, lambda actions: (actions, None)):
        model.returns = returns
        assert_array_equal(
            as_policy(model, GAME).probabilities(BOARDS).argmax(axis=1), LEGAL.argmax(axis=1)
        )
    for returns in (
        lambda actions: (actions, actions),
        lambda actions: actions * 0,
    ):  # a memory; an illegal move
        model.returns = returns
        with pytest.raises((TypeError, ValueError), match="set returns="):
            as_policy(model, GAME).probabilities(BOARDS)
    values = as_policy(lambda observation: (np.arange(6.0), None), GAME, returns="values")
    assert_array_equal(values.probabilities(BOARDS).argmax(axis=1), [5, 4, 5])


def test_illegal_moves_have_mass_before_they_are_masked():
    """Of values, the share among the best of all cells; NaN or less than nothing where illegal is
    no mass.
    """
    numbers = np.array([3.0, 1.0, 0.0, 3.0, 3.0, 1.0])
    occupied = BOARDS.cells != 0
    weights = {
        "probabilities": numbers,
        "logits": np.exp(numbers),
        "values": (numbers == 3).astype(float),
    }
    for returns, weight in weights.items():
        policy = as_policy(lambda obs, mask: numbers, GAME, returns=returns)
        assert_allclose(policy.illegal_mass(BOARDS), (occupied * weight).sum(axis=1) / weight.sum())
        for no in (np.nan, -1) if returns == "probabilities" else (np.nan, -np.inf):
            masked = as_policy(
                lambda obs, mask, no=no: np.where(mask, numbers + 1, no), GAME, returns=returns
            )
            assert_array_equal(masked.illegal_mass(BOARDS), 0)


class Model:
    """A function that says what it was trained with, as models do."""

    def __init__(self, observation_space):
        self.observation_space = observation_space

    def __call__(self, observation, mask):
        self.observation = observation
        return mask.argmax()


class Duck:
    pure = False
    quick = True

    def probabilities(self, boards, rng=None):
        return UNIFORM


def test_objects_with_probabilities_are_policies():
    policy = as_policy(Duck(), GAME)
    assert isinstance(policy, Policy)
    assert (policy.pure, policy.quick, policy.symmetric) == (False, True, False)
    assert policy.act(BOARDS, np.random.default_rng(0)).shape == (3,)


WRONG_ANSWERS = [
    ({}, (0, 6, 1.0, np.zeros(6, int))),
    ({"batch": True}, (4,)),
    ({"returns": "logits"}, ({"logits": 0}, np.zeros(4), np.full(6, np.inf))),
    ({"returns": "values"}, (np.full(6, np.nan), np.full(6, -np.inf))),
    ({"returns": "probabilities"}, (-np.ones(6), np.eye(6)[0])),
]
WRONG_CALLS = [(rising, {"returns": "scores"}), (rising, {"observation": "image"})]
WRONG_CALLS += [(function, {}) for function in (4, lambda a, b, c: 0, lambda a, *, b: 0)]
WRONG_CALLS += [(Model(gymnasium.spaces.Box(0, 1, (18,))), {})]


def test_invalid_functions_and_answers_are_refused():
    calls = [
        (lambda *_, answer=answer: answer, settings)
        for settings, of in WRONG_ANSWERS
        for answer in of
    ]
    for function, settings in calls + WRONG_CALLS:
        with pytest.raises((TypeError, ValueError)):
            as_policy(function, GAME, **settings).probabilities(BOARDS)


def test_a_function_is_an_opponent():
    for kind, steps in ((SingleEnv, [0]), (functools.partial(MNKVectorEnv, 4), [[0, 1, 2, 3]])):
        envs = kind((2, 3), 3, opponent=last_legal, observation="planes")
        envs.reset(seed=0)
        assert (envs.step(*steps)[4]["action_mask"][..., 5] == 0).all()
    small = Model(gymnasium.spaces.Box(0, 1, (12,)))
    SingleEnv((2, 3), 3, opponent=small)
    with pytest.raises(ValueError, match="Model"):
        SingleEnv(4, opponent=small)
    stubborn = SingleEnv(opponent=lambda *_: 0)
    stubborn.reset(seed=0)
    with pytest.raises(ValueError, match="illegal action 0"):
        stubborn.step(0)


def test_functions_choose_columns_under_gravity():
    game = Game(3, 4, 3, gravity=True)
    boards = plain.from_texts("o.../x.../o... x", "..../..../.... o", game=game)
    leftmost = as_policy(lambda observation, mask: int(mask.argmax()), game)
    assert_array_equal(leftmost.probabilities(boards).argmax(axis=1), [9, 8])
    with pytest.raises(ValueError, match="illegal action 9: obey the mask of 4 actions") as problem:
        as_policy(lambda observation, mask: 9, game).probabilities(boards)
    assert "'o.../x.../o... x'" in problem.value.__notes__[0]
    weights = np.array([0.5, 0.25, 0.125, 0.125])
    shares = as_policy(
        lambda observation, mask: weights, game, returns="probabilities"
    ).probabilities(boards)
    assert_allclose(shares[:, 8:], [[0, 0.5, 0.25, 0.25], weights])


def test_models_that_saw_skip_chances_are_policies_of_each_game():
    def trained(**settings):
        return Model(
            SingleEnv(skip_chance=(0, 0.5), observe_skip_chance=True, **settings).observation_space
        )

    for skip_chance in (0.1, 0.5):
        model = trained()
        game = Game(skip_chance=skip_chance)
        as_policy(model, game).probabilities(Boards.start(game))
        assert model.observation.tolist() == [*[0] * 18, np.float32(skip_chance)]
    for call in (
        lambda: as_policy(trained(observation="channels"), Game()),
        lambda: as_policy(trained(), Game(), observe_skip_chance=False),
    ):
        with pytest.raises(ValueError, match="observ"):
            call()
