"""PPO: its gradient against finite differences, its sums against samples, its returns against those
of each player alone, and where it leads.
"""

import dataclasses
from itertools import pairwise

import numpy as np
import plain
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import entr, rel_entr
from small_games import TINY_GAME

from learners.ppo import (
    Adam,
    Lookup,
    MaskedPPOConfig,
    Samples,
    backpropagate,
    estimate_returns,
    loss_gradient,
    run_net,
    split_layers,
)
from learners.training import make_initial_rng
from ttt_envs import Boards, Game, PhantomGame, make_policy
from ttt_eval.checks import check_advantages
from ttt_eval.exact import exploitability, match_outcome

MORE_CELLS = Game(3, 5, 3)
"""too many positions for a list"""
CONFIG = MaskedPPOConfig(hidden=(7, 5), kl_coef=0.3, vf_coef=0.7)


def train(game=TINY_GAME, games=400, opponent="self", batch=32, seed=0, **settings):
    settings = {"hidden": (8,), "rollout": 256, "batch_size": 64, **settings}
    return MaskedPPOConfig(**settings).training(
        game, games, batch=batch, seed=seed, opponent=opponent
    )


# --------------------------------------------------------------------------------------------------
# The gradient


class DrawnSamples:
    """Positions with the policy of a net, samples of its moves, and a net that has moved on."""

    def __init__(self, num_samples=120, num_positions=15):
        rng = np.random.default_rng(0)
        game = Game(2, 3, 3)
        own = plain.positions_of_random_play(game, num_positions).own_first()
        self.widths = (12, 7, 5, 7)
        size = sum((inputs + 1) * outputs for inputs, outputs in pairwise(self.widths))
        before = rng.normal(size=size)
        self.weights = before + rng.normal(scale=0.1, size=size)
        self.table = Lookup.of(game, own, split_layers(before, self.widths))
        self.rows = rng.integers(num_positions, size=num_samples)
        self.p = np.exp(self.table.log_p)
        p = self.p[self.rows]
        self.actions = (p.cumsum(axis=1) > rng.random((num_samples, 1))).argmax(axis=1)
        self.advantages = rng.normal(size=num_samples)
        self.returns = rng.normal(size=num_samples)

    def sums(self):
        return Samples.sum_up(self.table, self.rows, self.actions, self.advantages, self.returns)

    def single_samples(self):
        """The same samples, each in a row of its own."""
        table = Lookup(*(array[self.rows] for array in self.table))
        rows = np.arange(len(self.rows))
        return Samples.sum_up(table, rows, self.actions, self.advantages, self.returns)

    def gradient(self, samples, ent_coef=0.2, config=CONFIG):
        layers = split_layers(self.weights, self.widths)
        outputs = run_net(samples.obs, layers)
        return backpropagate(outputs, layers, loss_gradient(outputs[-1], samples, config, ent_coef))

    def loss(self, weights, ent_coef=0.2, config=CONFIG):
        """The loss of the paper."""
        out = self.table.obs[self.rows]
        layers = split_layers(weights, self.widths)
        for matrix, bias, activation in layers:
            out = out @ matrix + bias
            out = out if activation == "linear" else np.maximum(out, 0)
        old = self.p[self.rows]
        new = plain.shares_of(np.where(old > 0, np.exp(out[:, :-1]), 0))
        chosen = np.arange(len(old)), self.actions
        ratio = new[chosen] / old[chosen]
        clipped = np.clip(ratio, 1 - config.clip_range, 1 + config.clip_range)
        loss = -np.minimum(ratio * self.advantages, clipped * self.advantages)
        loss += ent_coef * -entr(new).sum(axis=1) + config.kl_coef * rel_entr(new, old).sum(axis=1)
        loss += config.vf_coef / 2 * (out[:, -1] - self.returns) ** 2
        return loss.mean()


@pytest.fixture(scope="module")
def drawn():
    return DrawnSamples()


def test_the_gradient_is_that_of_the_loss_by_differences(drawn):
    gradient = drawn.gradient(drawn.sums())
    step = 1e-6
    differences = np.full_like(gradient, np.nan)
    for place in range(0, len(gradient), 3):
        change = np.zeros_like(gradient)
        change[place] = step
        differences[place] = drawn.loss(drawn.weights + change) - drawn.loss(drawn.weights - change)
    assert_allclose(gradient[::3], differences[::3] / (2 * step), atol=1e-7)
    free = dataclasses.replace(CONFIG, clip_range=1e9)
    assert not np.allclose(gradient, drawn.gradient(drawn.sums(), config=free), rtol=0.05)


def test_sums_by_position_give_the_gradient_of_all_samples(drawn):
    sums = drawn.sums()
    single = drawn.single_samples()
    assert len(sums.visits) <= 15
    assert len(single.visits) == sums.visits.sum() == 120
    assert_allclose(drawn.gradient(sums), drawn.gradient(single), rtol=0, atol=1e-12)
    halves = [drawn.gradient(single.take(rows)) for rows in np.array_split(np.arange(120), 2)]
    assert_allclose(np.mean(halves, axis=0), drawn.gradient(sums), rtol=0, atol=1e-12)


def test_adam_takes_the_steps_of_its_paper():
    rng = np.random.default_rng(0)
    weights = np.zeros(3, np.float32)
    adam = Adam(3)
    mean = np.zeros(3)
    square = np.zeros(3)
    expected = np.zeros(3)
    for n in range(1, 20):
        gradient = rng.normal(size=3)
        adam.step(weights, gradient.astype(np.float32), 0.01)
        mean = 0.9 * mean + 0.1 * gradient
        square = 0.999 * square + 0.001 * gradient**2
        expected -= 0.01 * (mean / (1 - 0.9**n)) / (np.sqrt(square / (1 - 0.999**n)) + 1e-8)
    assert_allclose(weights, expected, rtol=1e-3)


@pytest.mark.parametrize("game", [Game(2, 4, 3), Game(3, 3, 3, gravity=True)], ids=str)
def test_illegal_moves_have_no_probability(game):
    boards = plain.positions_of_random_play(game, 50)
    own = boards.own_first()
    learner = MaskedPPOConfig(hidden=(6,), stochastic=True).build(game, make_initial_rng(0))
    learner.weights *= 30
    table = Lookup.of(game, own, learner.layers)
    assert_array_equal(table.mask == 0, boards.legal(game))
    p = np.exp(table.log_p)
    assert (p[~boards.legal(game)] == 0).all()
    assert_allclose(p, learner.probabilities(boards), atol=1e-5)
    assert_allclose(table.value, learner.values(boards), atol=1e-4)
    greedy = dataclasses.replace(learner.config, stochastic=False).build(game, make_initial_rng(0))
    greedy.state = learner.state
    best = greedy.probabilities(boards).argmax(axis=1)
    assert_array_equal(best, p.argmax(axis=1))
    assert_array_equal(greedy.actor.probabilities(boards), learner.probabilities(boards))


# --------------------------------------------------------------------------------------------------
# Returns


@pytest.mark.parametrize("seats", [(0,), (0, 1)], ids=str)
@pytest.mark.parametrize("gae_lambda", [0.0, 0.8, 1.0])
def test_advantages_are_right(seats, gae_lambda):
    def advantages(rewards, values, dones, next_value, next_done, movers):
        players = ((1 - movers) / 2).astype(np.int64)
        over = np.concatenate([dones[1:], next_done[None]]) > 0
        values = np.concatenate([values, next_value[None]])
        opposite = len(seats) == 2
        returns = estimate_returns(rewards, values, players, over, gae_lambda, opposite)
        return returns - values[:-1]

    check_advantages(advantages, seats=seats, gamma=1.0).assert_ok()


def own_return(t, rewards, values, movers, over, gae_lambda):
    """The return of a decision in one game after another, from the definition."""
    for later in range(t, len(over)):
        if over[later]:
            is_own = movers[later] == movers[t]
            return rewards[later] if is_own else -rewards[later]
        if movers[later + 1] == movers[t]:
            value = values[later + 1]
            following = value
            if later + 1 < len(over):
                following = own_return(later + 1, rewards, values, movers, over, gae_lambda)
            return value + gae_lambda * np.nan_to_num(following - value)
    return np.nan


def test_where_boards_differ_the_next_value_is_of_the_own_next_turn():
    rng = np.random.default_rng(0)
    steps = 40
    count = 20
    movers = rng.integers(2, size=(steps + 1, count))
    over = rng.random((steps, count)) < 0.15
    rewards = over * rng.integers(-1, 2, size=(steps, count)).astype(float)
    values = rng.normal(size=(steps + 1, count))
    returns = estimate_returns(rewards, values, movers, over, 0.7, opposite=False)
    for game in range(count):
        columns = [array[:, game] for array in (rewards, values, movers, over)]
        expected = [own_return(t, *columns, 0.7) for t in range(steps)]
        assert_allclose(returns[:, game], expected)
    assert 0 < np.isnan(returns).sum() < 2 * count


# --------------------------------------------------------------------------------------------------
# Trainings


@pytest.mark.parametrize(("settings", "limit"), [({}, 0.2), ({"grouped": False}, 0.05)], ids=str)
def test_self_play_approaches_perfect_play(settings, limit):
    game = Game(2, 4, 3, 0.25)
    start = Boards.start(game)
    value = make_policy("optimal", game).values(start)
    losses = []
    for seed in range(5):
        training = train(
            game,
            6_000,
            batch=256,
            rollout=2_048,
            batch_size=256,
            hidden=(32,),
            learning_rate=0.01,
            n_epochs=8,
            ent_coef=0.2,
            final_ent_coef=0.05,
            seed=seed,
            **settings,
        )
        assert exploitability(game, training.learner) > 0.6
        training.run()
        assert training.done.games == 6_000
        losses.append(exploitability(game, training.learner))
        assert_allclose(training.learner.values(start), value, atol=0.1)
    assert np.median(losses) < limit


@pytest.mark.parametrize(
    ("game", "opponent", "settings"),
    [
        (TINY_GAME, "self", {}),
        (TINY_GAME, "self", {"grouped": False}),
        (TINY_GAME, "win-or-block", {}),
        (TINY_GAME, "pool:every=50,size=3", {"grouped": False}),
        (MORE_CELLS, "self", {}),
        (Game(3, 4, 3, gravity=True), "random", {}),
        (PhantomGame(TINY_GAME, "classic"), "self", {}),
        (PhantomGame(Game(3, 4, 3), "abrupt"), "self", {}),
    ],
    ids=str,
)
def test_a_training_stopped_between_rollouts_ends_as_if_it_had_not(game, opponent, settings):
    whole = train(game, 200, opponent, **settings)
    part = train(game, 200, opponent, **settings)
    rest = train(game, 200, opponent, **settings)
    assert whole.run().games == 200
    part.run(after_step=lambda training: training.done.games < 80)
    assert part.running
    rest.learner.state = part.learner.state
    rest.state = part.state
    rest.run()
    assert_array_equal(whole.learner.weights, rest.learner.weights)
    plain.assert_same_arrays(whole.state, rest.state)
    assert whole.logged == rest.logged
    other = train(game, 200, opponent, seed=1, **settings)
    other.run()
    assert (other.learner.weights != whole.learner.weights).any()


def test_it_learns_to_beat_an_opponent_that_it_trains_against():
    game = PhantomGame(Game(), "classic")
    training = train(game, 6_000, "random", batch=256, rollout=4_096, hidden=(32,), n_epochs=8)
    before = match_outcome(game, training.learner, "random").value
    training.run()
    assert match_outcome(game, training.learner, "random").value > max(0.5, before + 0.2)
