"""Self-play and its targets, the net, gradients by hand, the replay buffer, resuming, and searches
of runs.
"""

import numpy as np
import plain
import pytest
import tiny
from evaluators import Perfect
from numpy.testing import assert_allclose, assert_array_equal
from small_games import SKIP_GAME

from baselines.exact import solve
from baselines.mcts import FusedEvaluator, MCTSSearch, Tree, gumbel_search
from baselines.mcts import search as search_module
from learners.alpha_zero import AlphaZeroConfig
from learners.alpha_zero.self_play import (
    SearchedPly,
    SelfPlay,
    TrainingExamples,
    play_block,
    play_games,
    td_lambda_targets,
)
from learners.ppo import BETA1
from ttt_envs import Boards, Game, make_policy
from ttt_envs.core.records import concatenate
from ttt_envs.game.symmetry import symmetries
from ttt_eval.exact.dynamic_programming import exploitability

SMALL = {"hidden": (4,), "simulations": 4, "gradient_steps": 3, "batch_size": 8, "buffer_size": 100}
SEARCHES = ["gumbel", pytest.param("puct", marks=pytest.mark.more)]


def build(game=None, seed=0, **settings):
    return AlphaZeroConfig(**{**SMALL, **settings}).build(
        game or Game(), np.random.default_rng(seed)
    )


def taught(game, games, *, batch=8, seed=0, **settings):
    """A training, done."""
    learner = build(game, seed, **settings)
    done = SelfPlay(learner, games, batch=batch, seed=seed)
    done.run()
    return done


# --------------------------------------------------------------------------------------------------
# Games against itself


def ply(mover, value, random=False):
    boards = plain.boards_of([(bytes(9), mover)])
    return SearchedPly(
        np.zeros(1, np.int64),
        boards,
        np.zeros((1, 9), np.float32),
        np.array([value]),
        np.array([random]),
    )


def test_td_lambda_targets_by_hand():
    """player_1 moves twice and wins: -1 to player_0."""
    plies = [ply(0, 0.2), ply(1, 0.4), ply(1, -0.6)]
    result = np.array([-1.0])
    assert_allclose(np.ravel(td_lambda_targets(plies, result, 0.5)), [-0.05, 0.3, 0.2], atol=1e-7)
    assert_allclose(np.ravel(td_lambda_targets(plies, result, 1.0)), [-1, 1, 1], atol=1e-7)
    assert_allclose(np.ravel(td_lambda_targets(plies, result, 0.0)), [0.2, 0.4, -0.6], atol=1e-7)
    plies[1] = ply(1, 0.4, random=True)  # nothing comes back through it: its value is the search's
    assert_allclose(np.ravel(td_lambda_targets(plies, result, 0.5)), [-0.1, 0.4, 0.2], atol=1e-7)
    assert_allclose(np.ravel(td_lambda_targets(plies, result, 1.0)), [-0.4, 0.4, 1], atol=1e-7)
    assert_array_equal(result, [-1])


@pytest.mark.parametrize("td_lambda", [0.0, 0.5, 1.0])
def test_value_targets_of_perfect_searches_are_exact_despite_random_moves(td_lambda):
    """Random moves lose value: traced back through one of them, values would be wrong."""
    game = Game()
    config = AlphaZeroConfig(opening=9, epsilon=0.4, td_lambda=td_lambda, simulations=8)
    examples = play_games(config, game, Perfect(game), KEY, range(60))
    boards = Boards(
        examples.obs, np.zeros(len(examples.obs), np.int8)
    )  # whose stones are first is to move
    assert_allclose(examples.value, solve(SKIPS_0).values(boards), atol=1e-6)
    assert np.ptp(examples.value) == 2
    assert (examples.policy[examples.obs != 0] == 0).all()
    steps = np.diff(np.count_nonzero(examples.obs, axis=1))
    assert set(steps[steps >= 0]) == {1}  # every position, game by game
    assert (steps < 0).sum() == 59
    game = Game(misere=True)  # in which a random first move may lose
    never = play_games(AlphaZeroConfig(opening=0, epsilon=0), game, Perfect(game), KEY, range(20))
    assert not never.results.any()
    assert abs(never.value).max() < 1e-6


KEY = np.uint64(1)
SKIPS_0 = Game(skip_chance=1e-12)
"""the values of no skips, of positions with any numbers of stones"""


def test_search_values_with_skips_need_chance_nodes():
    for chance_nodes, game in ((True, SKIP_GAME), (False, SKIPS_0)):
        config = AlphaZeroConfig(opening=5, td_lambda=0.0, simulations=8, chance_nodes=chance_nodes)
        examples = play_games(config, SKIP_GAME, Perfect(game), KEY, range(40))
        boards = Boards(examples.obs, np.zeros(len(examples.obs), np.int8))
        assert_allclose(examples.value, solve(game).values(boards), atol=1e-6)
        stones = [np.count_nonzero(examples.obs == stone, axis=1) for stone in (1, 2)]
        assert (abs(stones[0] - stones[1]) > 1).any()  # it was played with skips


@pytest.mark.parametrize("search", SEARCHES)
def test_a_game_depends_on_its_number_and_the_seed(search):
    net = build(SKIP_GAME, search=search)

    def played(numbers, seed=3):
        return play_block(net.config, SKIP_GAME, net.state, seed, numbers)

    whole = played(range(5, 25))
    for first, again in zip(
        whole, concatenate([played(range(5, 12)), played(range(12, 25))]), strict=True
    ):
        assert_array_equal(first, again)
    for other in (played(range(20)), played(range(5, 25), seed=4)):
        assert len(whole.obs) != len(other.obs) or (whole.obs != other.obs).any()


class Unfused:
    """A net without its fused simulations."""

    def __init__(self, net):
        self.evaluate = net.evaluate
        self.values = net.values
        self.action_values = net.action_values


def search_tree(search, game, boards, guide):
    if search == "gumbel":
        return gumbel_search(game, boards, guide, value_scale=0.5).search.tree
    by_puct = MCTSSearch(game, boards, np.zeros(40, np.uint64), leaf=guide)
    by_puct.run(50)
    return by_puct.tree


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("game", [Game(), SKIP_GAME, Game(3, 4, 3), Game(4, 4, 4, 0.25)], ids=str)
@pytest.mark.parametrize(
    "make_evaluator", [lambda net: net, lambda net: net.mean], ids=["own", "mean"]
)
def test_the_fused_search_equals_one_that_calls_the_net(game, make_evaluator, search, monkeypatch):
    net = make_evaluator(build(game, hidden=(16,)))
    boards = plain.positions_of_random_play(game, 40)
    assert isinstance(net, FusedEvaluator)
    assert not isinstance(Unfused(net), FusedEvaluator)
    for together in (search_module.CHUNK_SIZE, 50, 7):  # the second time much is remembered
        monkeypatch.setattr(search_module, "CHUNK_SIZE", together)
        trees = [search_tree(search, game, boards, guide)[:3] for guide in (net, Unfused(net))]
        for array, expected in zip(*trees, strict=True):
            assert_array_equal(array, expected)


# --------------------------------------------------------------------------------------------------
# The net at play


def lines_by_hand(game, cells):
    """Columns for every line: 1 to k - 1 own stones alone in it, as many of the opponent's, or
    both.
    """
    columns = []
    for line in game.line_cells:
        own = (cells[:, line] == 1).sum(axis=1)
        other = (cells[:, line] == 2).sum(axis=1)
        columns += [(own == count) & (other == 0) for count in range(1, game.win_length)]
        columns += [(other == count) & (own == 0) for count in range(1, game.win_length)]
        columns.append((own > 0) & (other > 0))
    return np.stack(columns, axis=1)


def forward(game, weights, cells):
    """Logits and values, in float64, as the papers have it."""
    out = np.concatenate([cells == 1, cells == 2, cells == 0], axis=1).astype(float)
    if len(weights["0.weights"]) > out.shape[1]:
        out = np.concatenate([out, lines_by_hand(game, cells)], axis=1)
    layers = len(weights) // 2
    for layer in range(layers):
        out = out @ weights[f"{layer}.weights"].astype(float) + weights[f"{layer}.bias"]
        out = np.maximum(out, 0) if layer < layers - 1 else out
    return out[:, :-1], np.tanh(out[:, -1])


@pytest.mark.parametrize(
    ("game", "lines"), [(Game(), False), (Game(), True), (Game(4, 5, 4), True)], ids=str
)
def test_the_net_equals_its_definition(game, lines):
    net = build(game, hidden=(7, 5), lines=lines)
    boards = plain.positions_of_random_play(game, 50)
    result = net.evaluate(boards)
    for output, other in zip(result, forward(game, net.weights, boards.own_first()), strict=True):
        assert_allclose(output, other, atol=1e-5)
    for rows in ([0], [49], list(range(7, 30))):  # whatever is evaluated with it
        for part, whole in zip(net.evaluate(boards.take(np.array(rows))), result, strict=True):
            assert_array_equal(part, whole[rows])


def test_decisive_play_completes_and_blocks_lines():
    won = "oo./xx./... o"
    lost = "oo./x../... x"
    boards = plain.from_texts(won, lost)
    for seed in range(3):
        assert_array_equal(
            np.argwhere(build(seed=seed).probabilities(boards) > 0), [[0, 2], [1, 2]]
        )
    chance = [build(SKIP_GAME, seed).probabilities(boards).argmax(axis=1) for seed in range(5)]
    assert {int(moves[0]) for moves in chance} == {2}
    assert len({int(moves[1]) for moves in chance}) > 1  # the turn may be skipped: there it chooses


# --------------------------------------------------------------------------------------------------
# The update


def random_examples(game, count, rng):
    boards = plain.positions_of_random_play(game, count, 3)
    policy = plain.shares_of((boards.cells == 0) * rng.random(boards.cells.shape))
    return TrainingExamples(
        boards.own_first(),
        policy.astype(np.float32),
        rng.uniform(-1, 1, count).astype(np.float32),
        None,
    )


def losses_by_hand(game, weights, examples, config):
    """(cross entropy, squared error, all with the decay), in float64."""
    logits, values = forward(game, weights, examples.obs)
    logits = np.where(examples.obs == 0, logits, -np.inf)
    largest = logits.max(axis=1, keepdims=True)
    logarithms = logits - largest - np.log(np.exp(logits - largest).sum(axis=1, keepdims=True))
    entropy = (
        -np.where(examples.obs == 0, examples.policy * np.nan_to_num(logarithms, neginf=0), 0)
        .sum(axis=1)
        .mean()
    )
    error = ((values - examples.value) ** 2).mean()
    decay = sum(
        (array.astype(float) ** 2).sum() / 2
        for name, array in weights.items()
        if name.endswith("weights")
    )
    return entropy, error, entropy + config.value_weight * error + config.weight_decay * decay


@pytest.mark.parametrize("lines", [True, False])
def test_an_update_equals_the_one_by_hand(lines):
    game = Game(1, 4, 3)
    settings = {"weight_decay": 0.01, "learning_rate": 0.02, "learning_rate_decay": 0.5}
    net = build(game, hidden=(3,), lines=lines, value_weight=0.7, **settings)
    config = net.config
    examples = random_examples(game, 12, np.random.default_rng(5))
    once = TrainingExamples(*(None if part is None else part[None] for part in examples))
    learning = SelfPlay(net, 1, batch=1, seed=0)
    policy_loss, value_loss = learning.update(once)
    entropy, error, _ = losses_by_hand(game, net.weights, examples, config)
    assert policy_loss == pytest.approx(entropy, rel=1e-5)
    assert value_loss == pytest.approx(error, rel=1e-5)
    moments = learning.net.state
    first = learning.net.arrays
    for name, array in net.weights.items():
        gradient = np.zeros(array.shape)
        for place in np.ndindex(array.shape):
            ends = []
            for step in (1e-5, -1e-5):
                moved = {**net.weights, name: array.astype(float)}
                moved[name][place] += step
                ends.append(losses_by_hand(game, moved, examples, config)[2])
            gradient[place] = (ends[0] - ends[1]) / 2e-5
        assert_allclose(moments[f"mean.{name}"], (1 - BETA1) * gradient, atol=2e-6)
    # the second has a rate of its own, and sees what the first has left
    assert learning.update(once)[0] == pytest.approx(
        losses_by_hand(game, first, examples, config)[0], rel=1e-5
    )
    assert learning.net.updates == 2


def test_the_replay_buffer_draws_the_latest_positions_under_all_symmetries():
    done = taught(
        SKIP_GAME, 40, gradient_steps=200, batch_size=5, learning_rate=1e-30
    )  # the net remains as it is
    replay = done.replay
    net = done.learner
    origins = {}
    weights = dict(sorted(net.state.items()))  # which are read by name, not in order
    assert_array_equal(
        replay.obs, play_block(net.config, SKIP_GAME, weights, 0, range(40)).obs[-100:]
    )
    for row, (obs, policy, value) in enumerate(zip(*replay[:3], strict=True)):
        for number, permutation in enumerate(symmetries(SKIP_GAME)):
            image = obs[permutation].tobytes(), policy[permutation].tobytes(), value.tobytes()
            origins.setdefault(image, set()).add((row, number))
    drawn = done.draw(np.random.default_rng(0))
    rows = zip(
        drawn.obs.reshape(-1, 9), drawn.policy.reshape(-1, 9), drawn.value.ravel(), strict=True
    )
    sources = set().union(*(origins[tuple(part.tobytes() for part in row)] for row in rows))
    assert {row for row, _ in sources} == set(range(100))
    assert {number for _, number in sources} == set(range(8))


# --------------------------------------------------------------------------------------------------
# Learning


def test_training_reaches_perfect_play():
    game = Game()
    usual = {name: getattr(AlphaZeroConfig(), name) for name in SMALL}
    before = exploitability(game, build(game, decisive=False, **usual))
    learner = taught(game, 1_536, batch=256, decisive=False, **usual).learner
    assert before == 1
    assert exploitability(game, learner) == 0


# --------------------------------------------------------------------------------------------------
# Runs


def test_the_search_policy_equals_a_search_with_its_net(tiny_run, monkeypatch):
    run = tiny_run("alpha-zero")
    game = tiny.GAME
    boards = plain.positions_of_random_play(game, 40)
    net = make_policy(f"run:{run}", game)
    policy = make_policy(f"alpha-zero:{run},simulations=12,max_num_considered_actions=3", game)
    search = policy.search(boards)
    settings = {"simulations": 12, "max_num_considered_actions": 3, "value_scale": 2.0}
    assert_array_equal(
        search.improved, gumbel_search(game, boards, net.learner.mean, **settings).improved
    )
    monkeypatch.setattr(
        "learners.alpha_zero.policy.MEMORY", 3 * Tree.num_bytes(13, 2, game.cells)
    )  # three at a time
    assert_array_equal(policy.probabilities(boards), search.probabilities())
    assert_array_equal(policy.values(boards), search.values)
    assert_array_equal(policy.action_values(boards), search.search.action_values)


def test_invalid_searches_are_refused(tiny_run, tmp_path):
    for spec in (
        tiny_run("q-learning"),
        tmp_path / "none",
        f"{tiny_run('alpha-zero')},simulations=0",
    ):
        with pytest.raises(
            ValueError, match=r"has no policy to guide a search|is no run|simulations=0"
        ):
            make_policy(f"alpha-zero:{spec}", tiny.GAME)
