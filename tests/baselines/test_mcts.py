"""Monte Carlo tree search: against a plain implementation, against exact values, and
invariances.
"""

import numpy as np
import plain
import pytest
from evaluators import Noise, PlainEvaluator
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from plain_search import PlainTree, compare, softmax
from small_games import SKIP_GAME

from baselines import mcts
from baselines.exact import solve
from baselines.mcts import MCTS, MCTSSearch, Tree
from ttt_envs import Boards, Game, make_policy

SKIPS = [0.0, 0.1, 0.25, 0.5]


class NoiseValues:
    """Random values, and no priors."""

    def __init__(self):
        noise = Noise()
        self.values = noise.values
        self.action_values = noise.action_values

    def __str__(self):
        return "noise-values"


def keys_for(count, seed=0):
    return np.random.default_rng(seed).integers(0, 1 << 64, count, np.uint64)


def searched(game, boards, simulations, leaf=None, **more):
    search = MCTSSearch(game, boards, keys_for(len(boards.mover)), leaf=leaf, **more)
    search.run(simulations)
    return search


# --------------------------------------------------------------------------------------------------
# The same search once more


@settings(max_examples=24)
@given(
    st.sampled_from([(3, 3, 3), (2, 3, 2), (4, 4, 3), (5, 5, 4), (1, 6, 3), (2, 2, 1)]),
    st.sampled_from([*SKIPS, 0.9]),
    st.integers(0, 10**6),
    st.sampled_from([0.3, 1.4, 4.0]),
    st.booleans(),
    st.sampled_from([Noise(), NoiseValues()]),
    st.booleans(),
)
@example(
    (3, 3, 3), 0.0, 0, 1.4, True, Noise(), False
)  # of two stones that win only one can be blocked
@example((4, 4, 3), 0.0, 0, 1.4, True, NoiseValues(), False)
def test_it_agrees_with_a_plain_implementation(shape, skip, seed, c, decisive, leaf, gravity):
    """With an evaluator's priors, and with equal ones; in two runs."""
    game = Game(*shape, skip, gravity=gravity)
    boards = plain.positions_of_random_play(game, 2, seed)
    search = searched(game, boards, 7, leaf, c=c, decisive=decisive)
    search.run(53)
    for row, key in enumerate(keys_for(2).tolist()):
        other = PlainTree(game, boards.position(row), leaf, key, c=c, decisive=decisive)
        for _ in range(60):
            other.simulate()
        compare(search, row, other)


@pytest.mark.parametrize(
    "game",
    [
        Game(),
        Game(3, 4, 3, 0.25),
        Game(5, 6, 4, 0.5),
        pytest.param(Game(8, 9, 5), marks=pytest.mark.more),
        pytest.param(Game(9, 8, 3, 0.1), marks=pytest.mark.more),
    ],
    ids=str,
)
def test_random_games_are_those_of_a_plain_implementation(game):
    """Three moves, before scores are so equal that rounding decides; the last have no bits."""
    boards = plain.positions_of_random_play(game, 60)
    search = searched(game, boards, 3, decisive=False, c=1000)
    for row, key in enumerate(keys_for(60).tolist()):
        other = PlainTree(game, boards.position(row), None, key, decisive=False, c=1000)
        for _ in range(3):
            other.simulate()
        compare(search, row, other)


# --------------------------------------------------------------------------------------------------
# What it finds


@pytest.mark.parametrize("leaf", [None, Noise()], ids=str)
@pytest.mark.parametrize(
    "game",
    [
        *(Game(skip_chance=skip) for skip in (0.0, 0.25, 0.9)),
        *(
            pytest.param(Game(skip_chance=0.25, **rules), marks=pytest.mark.more)
            for rules in plain.COMBINATIONS[::4]
        ),
    ],
    ids=str,
)
def test_solved_values_are_exact_and_propagated(game, leaf):
    boards = plain.positions_of_random_play(game, 150, seed=2)
    exact = solve(game).action_values(boards)
    search = searched(game, boards, 1500, leaf)
    assert search.solved.sum() > 60
    assert_allclose(search.action_values[search.solved], exact[search.solved], atol=1e-12)
    certain = search.visits.sum(axis=1) < 1500  # no more simulations where everything is certain
    assert certain.sum() > 30
    best = np.nanmax(exact, axis=1, keepdims=True)
    assert_allclose(search.root_values[certain], best[certain, 0], atol=1e-12)
    assert_allclose(search.values[certain], best[certain, 0], atol=1e-12)
    assert not ((search.probabilities() > 0) & (exact < best - 1e-12))[certain].any()


class Hesitating(PlainEvaluator):
    """Later cells are likelier by less than a rounding error."""

    def evaluate(self, boards):
        shape = boards.cells.shape
        return np.tile(np.arange(shape[1], dtype=np.float32) * 1e-10, (shape[0], 1)), np.zeros(
            shape[0]
        )


@pytest.mark.parametrize("skip_chance", [0.0, 0.25])
def test_moves_with_nearly_equal_priors_are_all_tried(skip_chance):
    boards = plain.from_texts(".../.../... o", "x../.../... o")
    visits = searched(Game(skip_chance=skip_chance), boards, 60, Hesitating()).visits
    assert ((visits > 0) == (boards.cells == 0)).all()


# --------------------------------------------------------------------------------------------------
# What must not matter


def test_results_do_not_depend_on_memory(monkeypatch):
    game = SKIP_GAME
    boards = plain.positions_of_random_play(game, 40)
    result = []
    policy = MCTS(game, simulations=50, temperature=1)
    for memory in (mcts.policy.MEMORY, 3 * Tree.num_bytes(51, 2)):
        monkeypatch.setattr(mcts.policy, "MEMORY", memory)
        result.append(policy.probabilities(boards, np.random.default_rng(1)))
    assert_array_equal(*result)


# --------------------------------------------------------------------------------------------------
# Trees that are continued


@pytest.mark.parametrize(
    ("skip", "text"),
    [(0.0, "o../.../..x o"), (0.5, "o../.../..x o"), (0.5, "xox/oo./... x")],
    ids=str,
)
def test_a_continued_tree_agrees_with_a_plain_implementation(skip, text):
    """In the last case, solved moves are continued, too."""
    game = Game(skip_chance=skip)
    leaf = Noise()
    boards = plain.from_texts(text)
    mover = int(boards.mover[0])
    search = searched(game, boards, 300, leaf)
    other = PlainTree(game, boards.position(0), leaf)
    for _ in range(300):
        other.simulate()
    num_continued = 0
    for cell in other.tried[()]:
        edge = (cell, 1 - mover)
        nodes = [(edge,), ((cell, mover),)] if skip else [(edge,)]
        nodes += [(edge, (reply, mover)) for reply in other.tried.get((edge,), [])]
        for node in nodes:
            if not other.tried.get(node):
                continue
            now = plain.boards_of([(other.cells[node], other.mover[node])])
            again = MCTSSearch(game, now, np.zeros(1, np.uint64), leaf=leaf, trees=[search.tree])
            assert again.visits.sum() == other.visits[node] - 1
            again.run(20)
            branch = other.branch(node)
            for _ in range(20):
                branch.simulate()
            compare(again, 0, branch)
            num_continued += 1
    assert num_continued > 0


def test_a_tree_of_another_position_is_ignored():
    game = Game(skip_chance=0.5)
    boards = Boards.start(game)
    tree = searched(game, boards, 500).tree
    for text in (
        "oo./.x./... o",
        "o../.x./... x",
        "xx./.../... o",
        ".../.../... x",
        "xx./.ox/... x",
    ):
        board = plain.from_texts(text)
        assert MCTSSearch(game, board, keys_for(1), trees=[tree]).visits.sum() == 0, text
    tree = searched(Game(), boards, 500).tree
    for text in (".../.o./... o", "x../.o./x.. o"):  # no such turns where nothing is skipped
        board = plain.from_texts(text)
        assert MCTSSearch(Game(), board, keys_for(1), trees=[tree]).visits.sum() == 0


@pytest.mark.parametrize("rollout", ["random", Noise()], ids=str)
def test_a_player_has_one_tree_per_game(rollout):
    game = Game(4, 4, 3, 0.25)
    policy = MCTS(game, simulations=60, rollout=rollout)
    player = policy.player()
    rng = np.random.default_rng(0)
    slots = np.array([3, 7, 1])
    player.begin(slots)
    boards = Boards.start(game, 3)
    first = player.act(boards, slots, rng)
    assert set(player.trees) == {1, 3, 7}
    cells = boards.cells.copy()
    cells[np.arange(3), first] = 1
    now = Boards(cells[[0, 2]], np.zeros(2, np.int8))  # two skips
    assert (
        policy.search(now, keys_for(2), [player.trees[3], player.trees[1]]).visits.sum(axis=1) > 0
    ).all()
    player.begin(np.array([7]))
    assert set(player.trees) == {1, 3}
    forgetful = MCTS(game, simulations=60, reuse=False).player()
    forgetful.act(boards, slots, rng)
    assert not forgetful.trees


# --------------------------------------------------------------------------------------------------
# The policy


def test_the_temperature_spreads_the_moves():
    game = Game(4, 4, 4)
    boards = plain.positions_of_random_play(game, 30)
    search = searched(game, boards, 300, decisive=False)
    shares = plain.shares_of(search.visits)
    assert_allclose(search.probabilities(1), shares, rtol=1e-12)
    squared = plain.shares_of(shares**2)
    assert_allclose(search.probabilities(0.5), squared, rtol=1e-12)
    best = search.visits == search.visits.max(axis=1, keepdims=True)
    assert_allclose(search.probabilities(), plain.shares_of(best))
    assert_allclose(search.probabilities(1e-4), search.probabilities(), atol=1e-9)
    policy = MCTS(game, simulations=300, decisive=False, temperature=1)
    assert_array_equal(
        policy.probabilities(boards, np.random.default_rng(0)), search.probabilities(1)
    )


def test_root_noise_is_mixed_with_the_priors():
    game = SKIP_GAME
    boards = plain.from_texts(".../.../... o", "oo./xx./... o", "x../.o./... x")
    shares = np.random.default_rng(0).dirichlet(np.ones(9), 3)
    noisy = MCTSSearch(game, boards, np.zeros(3, np.uint64), leaf=Noise())
    noisy.add_root_noise(shares, 0.25)
    logits, _ = Noise().evaluate(boards)
    for row, result in enumerate(noisy.tree.priors[:, 0]):
        sensible = (
            [2] if row == 1 else np.flatnonzero(boards.cells[row] == 0).tolist()
        )  # a stone that wins
        p = softmax({cell: float(logits[row, cell]) for cell in sensible})
        assert_array_equal(np.flatnonzero(result), sensible)
        assert_allclose(
            result[sensible],
            [0.75 * p[cell] + 0.25 * shares[row, cell] for cell in sensible],
            rtol=1e-5,
        )


def test_a_move_solved_as_lost_is_not_played():
    game = SKIP_GAME
    search = searched(game, Boards.start(game), 200)
    move = int(np.argmax(search.visits[0]))
    edges = search.tree.edges[0]
    (edge,) = (
        edge for edge in mcts.tree.children_of(search.tree, 0, 0) if edges["cell"][edge] == move
    )
    edges["is_solved"][edge] = 1
    edges["q"][edge] = -1
    assert search.probabilities()[0, move] == 0
    assert search.probabilities(1)[0, move] == 0
    edges["q"][edge] = -0.5  # worse than what? nobody knows
    assert search.probabilities()[0, move] == 1


def test_values_and_analysis_agree():
    game = Game(4, 4, 4, 0.25)
    policy = make_policy("mcts:simulations=500", game)
    boards = plain.positions_of_random_play(game, 20)
    boards.cells[4] = 0
    boards.mover[4] = 0
    values = policy.values(boards)
    of_moves = policy.action_values(boards)
    some = boards.take(np.array([4, 2]))
    assert_array_equal(policy.values(some), values[[4, 2]])  # without rng they belong to the board
    assert_array_equal(policy.action_values(some), of_moves[[4, 2]])
    search = policy.analyse(boards.position(4))
    assert search.values == [values[4]]
    assert_array_equal(search.action_values, of_moves[[4]])
    assert search.variation(0)[0] == (0, np.argmax(search.visits))
