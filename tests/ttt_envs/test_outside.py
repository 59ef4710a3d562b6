"""Functions and models from outside as policies and opponents."""

import gymnasium
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from ttt_envs import Boards, Game, Policy, as_policy, from_text
from ttt_envs.single_env import SingleEnv
from ttt_envs.vector_env import MNKVectorEnv

GAME = Game(2, 3, 2)
BOARDS = Boards.of([from_text("o../x.. o"), from_text("o../..x x"), from_text(".../... o")])
LEGAL = BOARDS.cells == 0
OBSERVATIONS = ["flat", "planes", "channels", "dict"]


def last_legal(observation, mask):
    return int(np.flatnonzero(mask)[-1])


def rising(observation, mask):
    return np.arange(6.0)


def stones(observation):
    """The own stones and the opponent's [2, cells], of one game or of a batch."""
    if isinstance(observation, dict):
        observation = observation["observation"]
    if observation.shape[-1] == 2:
        observation = np.moveaxis(observation, -1, -3)
    return observation.reshape(*observation.shape[: 1 if observation.ndim in (2, 4) else 0], 2, 6)


@pytest.mark.parametrize("observation", OBSERVATIONS)
@pytest.mark.parametrize("batch", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_a_function_sees_what_an_environment_shows(observation, batch, dtype):
    seen = []

    def look(observation, mask):
        seen.append((observation, mask))
        return mask.argmax(axis=-1)

    policy = as_policy(look, GAME, observation, batch=batch, dtype=dtype)
    policy.probabilities(BOARDS)
    env = SingleEnv((2, 3), 2, observation=observation, dtype=dtype)
    own = BOARDS.own_first()
    assert len(seen) == (1 if batch else 3)
    for index, (shown, mask) in enumerate(seen):
        assert batch or env.observation_space.contains(shown)
        rows = slice(None) if batch else index
        assert mask.dtype == np.int8
        assert_array_equal(mask, LEGAL[rows])
        assert_array_equal(stones(shown), np.stack([own == 1, own == 2], axis=1)[rows])


def test_the_three_kinds_of_answers():
    assert str(as_policy(last_legal, GAME)) == "last_legal"
    assert isinstance(as_policy(last_legal, GAME), Policy)
    assert_array_equal(as_policy(last_legal, GAME).probabilities(BOARDS).argmax(axis=1), [5, 4, 5])
    weights = np.where(LEGAL, np.exp(np.arange(6.0)), 0)
    assert_allclose(
        as_policy(rising, GAME, returns="logits").probabilities(BOARDS), weights / weights.sum(axis=1, keepdims=True)
    )
    shares = np.where(LEGAL, np.arange(6.0), 0)
    assert_allclose(
        as_policy(rising, GAME, returns="probabilities").probabilities(BOARDS),
        shares / shares.sum(axis=1, keepdims=True),
    )
    in_batches = as_policy(lambda _, mask: np.tile(np.arange(6.0), (len(mask), 1)), GAME, returns="logits", batch=True)
    assert_allclose(in_batches.probabilities(BOARDS), as_policy(rising, GAME, returns="logits").probabilities(BOARDS))
    one = as_policy(lambda _, mask: np.where(mask, 1e9, -np.inf), GAME, returns="logits").probabilities(BOARDS)
    assert_allclose(one, LEGAL / LEGAL.sum(axis=1, keepdims=True))


@pytest.mark.needs("torch")
def test_tensors_are_answers():
    import torch

    net = torch.nn.Linear(12, 6)
    policy = as_policy(lambda seen, mask: net(torch.as_tensor(seen)), GAME, returns="logits", batch=True)
    p = policy.probabilities(BOARDS)
    assert_allclose(p.sum(axis=1), 1)
    assert not p[~LEGAL].any()


@pytest.mark.parametrize(
    ("answer", "settings", "error", "message"),
    [
        (lambda *_: 0, {}, ValueError, "chose the illegal action 0: it must choose where the mask is 1"),
        (lambda *_: 6, {}, ValueError, "chose the illegal action 6"),
        (lambda *_: -1, {}, ValueError, "chose the illegal action -1"),
        (lambda *_: 1.0, {}, TypeError, "returned actions of type float64: an action is a whole number"),
        (lambda *_: None, {}, TypeError, "returned actions of type object"),
        (lambda *_: np.zeros(6, int), {}, ValueError, r"returned actions of shape \(6,\), not \(\): as_policy\("),
        (lambda *_: 4, {"batch": True}, ValueError, r"returned actions of shape \(\), not \(3,\)"),
        (lambda *_: np.zeros(5), {"returns": "logits"}, ValueError, r"logits of shape \(5,\), not \(6,\)"),
        (
            lambda _, mask: np.zeros(mask.sum()),
            {"returns": "logits"},
            ValueError,
            r"returned logits of different shapes, \[\(4,\), \(6,\)\]",
        ),
        (lambda *_: np.full(6, np.nan), {"returns": "logits"}, ValueError, "logits that are NaN or infinite for legal"),
        (lambda *_: np.full(6, np.inf), {"returns": "logits"}, ValueError, "logits that are NaN or infinite"),
        (lambda *_: np.full(6, -np.inf), {"returns": "logits"}, ValueError, "logits of -inf for all legal actions"),
        (lambda *_: np.full(6, np.nan), {"returns": "probabilities"}, ValueError, "that are NaN or infinite"),
        (lambda *_: -np.ones(6), {"returns": "probabilities"}, ValueError, "probabilities below 0 for legal actions"),
        (lambda *_: np.eye(6)[0], {"returns": "probabilities"}, ValueError, "probabilities of 0 for all legal actions"),
    ],
)
def test_what_is_no_answer_is_told(answer, settings, error, message):
    with pytest.raises(error, match=message):
        as_policy(answer, GAME, **settings).probabilities(BOARDS)


class Model:
    """What looks like a model of Stable-Baselines3."""

    def __init__(self, shape=None):
        self.observation_space = None if shape is None else gymnasium.spaces.Box(0, 1, shape)

    def predict(self, observation, state=None, deterministic=False):
        assert deterministic
        free = observation.reshape(len(observation), 2, -1).sum(axis=1) == 0
        return free.argmax(axis=1), None


class MaskedModel:
    def predict(self, observation, deterministic=False, action_masks=None):
        assert action_masks.dtype == np.bool_
        return np.where(action_masks, np.arange(action_masks.shape[1]), -1).max(axis=1), None


def test_models_are_known_by_predict():
    assert_array_equal(as_policy(Model((12,)), GAME).probabilities(BOARDS).argmax(axis=1), [1, 1, 0])
    assert_array_equal(as_policy(MaskedModel(), GAME).probabilities(BOARDS).argmax(axis=1), [5, 4, 5])


@pytest.mark.parametrize(
    ("function", "settings", "error", "message"),
    [
        (4, {}, TypeError, "4 is neither a function of .* nor a model with predict"),
        (rising, {"returns": "values"}, ValueError, "returns='values' is not known: choose 'actions', 'logits'"),
        (rising, {"observation": "image"}, ValueError, "observation='image' is not known"),
        (Model(), {"returns": "logits"}, ValueError, "returns='logits' does not work for a model: its predict gives"),
        (Model(), {"batch": False}, ValueError, "batch=False does not work for a model"),
        (Model((18,)), {}, ValueError, r"Model sees observations of shape \(18,\), but observation='flat' of 2 x 3"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(function, settings, error, message):
    with pytest.raises(error, match=message):
        as_policy(function, GAME, **settings)


@pytest.mark.parametrize("observation", OBSERVATIONS)
def test_a_function_is_an_opponent(observation):
    env = SingleEnv((2, 3), 3, opponent=last_legal, observation=observation)
    env.reset(seed=0)
    assert np.flatnonzero(env.step(0)[4]["action_mask"]).tolist() == [1, 2, 3, 4]
    envs = MNKVectorEnv(4, (2, 3), 3, opponent=last_legal, observation=observation)
    envs.reset(seed=0)
    assert envs.step([0, 1, 2, 3])[4]["action_mask"][:, 5].tolist() == [0] * 4
    assert SingleEnv(opponent=Model()).reset(seed=0)
    stubborn = SingleEnv(opponent=lambda *_: 0)
    stubborn.reset(seed=0)
    with pytest.raises(ValueError, match="<lambda> chose the illegal action 0"):
        stubborn.step(0)


@pytest.mark.needs("torch", "stable_baselines3")
def test_an_untrained_model_of_stable_baselines_is_an_opponent():
    import stable_baselines3
    import torch

    torch.set_num_threads(1)
    env = SingleEnv()
    model = stable_baselines3.DQN("MlpPolicy", env, seed=0, buffer_size=10)
    policy = as_policy(model, env.game)
    start = Boards.start(env.game)
    expected = model.predict(np.zeros((1, 18), np.float32), deterministic=True)[0]
    assert policy.probabilities(start).argmax(axis=1) == expected
    against = SingleEnv(opponent=model, seat="second")
    observation, _ = against.reset(seed=0)
    assert np.flatnonzero(observation[9:]) == expected
    with pytest.raises(ValueError, match=r"DQN sees observations of shape \(18,\), but observation='flat' of 4 x 4"):
        SingleEnv(4, opponent=model)
    env = SingleEnv(opponent=model)  # it was taught no rules: what it would move to, is taken
    for cell in range(9):
        env.reset(seed=0)
        choice = model.predict(np.eye(18, dtype=np.float32)[None, 9 + cell], deterministic=True)[0]
        if choice == cell:
            with pytest.raises(ValueError, match=f"DQN chose the illegal action {cell}"):
                env.step(cell)
        else:
            assert np.flatnonzero(env.step(cell)[0][9:]) == choice


@pytest.mark.needs("torch", "sb3_contrib")
def test_a_masked_model_of_stable_baselines_never_errs():
    import sb3_contrib
    import torch

    torch.set_num_threads(1)
    model = sb3_contrib.MaskablePPO("MlpPolicy", SingleEnv(), seed=0, n_steps=8, batch_size=8)
    env = MNKVectorEnv(3, opponent=model)
    env.reset(seed=0)
    ended = 0
    for _ in range(12):
        ended += env.step(env.action_masks().argmax(axis=1))[2].sum()
    assert ended > 3
