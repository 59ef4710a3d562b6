"""Monte Carlo tree search: against a plain implementation, against exact values, and invariances."""

import numpy as np
import plain
import pytest
from evaluators import Noise, Nothing, PlainEvaluator
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from plain_search import PlainTree, compare, softmax

from baselines import mcts
from baselines.exact import Tablebase, build, solve
from baselines.mcts import MCTS, MCTSSearch, Tree
from baselines.mcts.policy import MCTSPlayer
from ttt_envs import Boards, Game, from_text, make_policy
from ttt_envs.agents.policy import act_in_episodes
from ttt_envs.game.rules import winner

SKIPS = [0.0, 0.1, 0.25, 0.5]


class NoiseValues:
    """Random values, and no priors."""

    def __init__(self):
        noise = Noise()
        self.values, self.action_values = noise.values, noise.action_values

    def __str__(self):
        return "noise-values"


def keys_for(count, seed=0):
    return np.random.default_rng(seed).integers(0, 1 << 64, count, np.uint64)


def searched(game, boards, simulations, leaf=None, **more):
    search = MCTSSearch(game, boards, keys_for(len(boards.mover)), leaf=leaf, **more)
    search.run(simulations)
    return search


def contents(tree, node=0):
    """Everything below a node of tree 0, by history; the sign of its own value belongs to the edge above."""
    found = {(): [abs(x) for x in tree.nodes[0, node].tolist()[1:]]}
    for edge in mcts.tree.children_of(tree, 0, node):
        move = tree.edges[0, edge]
        found[int(move["cell"]), 0] = [move[name].item() for name in ("player", "visits", "is_solved", "q", "p")]
        for turn in range(tree.turns_per_move):
            below = contents(tree, edge * tree.turns_per_move + turn)
            found |= {(int(move["cell"]), turn, *history): entry for history, entry in below.items()}
    return found


# ---------------------------------------------------------------------------------------------------------------------
# The same search once more


@settings(max_examples=60)
@given(
    st.sampled_from([(3, 3, 3), (2, 3, 2), (4, 4, 3), (1, 6, 3), (2, 2, 1)]),
    st.sampled_from([*SKIPS, 0.9]),
    st.integers(0, 10**6),
    st.sampled_from([0.3, 1.4, 4.0]),
    st.booleans(),
    st.sampled_from([Noise(), NoiseValues()]),
)
def test_it_agrees_with_a_plain_implementation(shape, skip, seed, c, decisive, leaf):
    """With an evaluator's priors, and with equal ones."""
    game = Game(*shape, skip)
    boards = plain.positions_of_random_play(game, 2, seed)
    search = searched(game, boards, 60, leaf, c=c, decisive=decisive)
    for row, key in enumerate(keys_for(2).tolist()):
        other = PlainTree(game, boards.position(row), leaf, key, c=c, decisive=decisive)
        for _ in range(60):
            other.simulate()
        compare(search, row, other)


@pytest.mark.parametrize("game", [Game(), Game(3, 4, 3, 0.25), Game(5, 6, 4, 0.5)], ids=str)
def test_random_games_are_those_of_a_plain_implementation(game):
    """Three moves, before scores are so equal that rounding decides."""
    boards = plain.positions_of_random_play(game, 60)
    search = searched(game, boards, 3, decisive=False, c=1000)
    for row, key in enumerate(keys_for(60).tolist()):
        other = PlainTree(game, boards.position(row), None, key, decisive=False, c=1000)
        for _ in range(3):
            other.simulate()
        compare(search, row, other)


@pytest.mark.parametrize(
    "game", [Game(), Game(skip_chance=0.25), Game(3, 3, 3, 0.25, gravity=True, misere=True)], ids=str
)
def test_the_mean_of_random_games_is_the_value_of_random_play(game):
    text = ".../x../x.o x" if game.gravity else "x.o/.../..o x"
    boards = Boards(np.tile(from_text(text).cells, (4000, 1)), np.ones(4000, np.int8))
    roots = searched(game, boards, 1, decisive=False).tree.nodes["raw_value"][:, 0]
    assert {-1, 1} <= set(np.unique(roots)) <= {-1, 0, 1}
    assert abs(-roots.mean() - make_policy("table", game).values(boards)[0]) < 0.05


# ---------------------------------------------------------------------------------------------------------------------
# What it finds


@pytest.mark.parametrize("leaf", [None, Noise()], ids=str)
@pytest.mark.parametrize(
    "game",
    [
        *(Game(skip_chance=skip) for skip in (0.0, 0.25, 0.9)),
        *(pytest.param(Game(skip_chance=0.25, **rules), marks=pytest.mark.more) for rules in plain.COMBINATIONS[::4]),
    ],
    ids=str,
)
def test_solved_values_are_exact_and_propagated(game, leaf):
    boards = plain.positions_of_random_play(game, 150, seed=2)
    exact = solve(game).action_values(boards)
    search = searched(game, boards, 1500, leaf)
    assert search.solved.sum() > 60
    assert_allclose(search.action_values[search.solved], exact[search.solved], atol=1e-12)
    known = search.visits.sum(axis=1) < 1500  # no more simulations where everything is certain
    assert known.sum() > 30
    assert_allclose(search.root_values[known], np.nanmax(exact, axis=1)[known], atol=1e-12)
    assert_allclose(search.values[known], np.nanmax(exact, axis=1)[known], atol=1e-12)
    chosen = search.probabilities()[known] > 0
    assert (exact[known][chosen] >= np.repeat(np.nanmax(exact, axis=1)[known], chosen.sum(axis=1)) - 1e-12).all()


@pytest.mark.parametrize("leaf", [None, Noise(20.0)], ids=str)
@pytest.mark.parametrize("game", [Game(4, 4, 3), Game(5, 5, 4, 0.25), Game(9, 9, 5)], ids=str)
def test_wins_in_one_are_found_and_losses_in_one_blocked(game, leaf):
    boards = plain.positions_of_random_play(game, 200, seed=4)
    search = searched(game, boards, 8, leaf)
    num_forced = 0
    for row in range(200):
        other = PlainTree(game, boards.position(row), Nothing())
        mover = int(boards.mover[row])
        wins, blocks = (set(other.wins_of((), player)) for player in (mover, 1 - mover))
        if wins:
            assert search.root_values[row] == search.values[row] == 1
        if wins or (blocks and game.skip_chance == 0):
            assert set(np.flatnonzero(search.visits[row])) <= (wins or blocks)
            assert set(np.flatnonzero(search.probabilities()[row])) <= (wins or blocks)
            num_forced += 1
    assert num_forced > 10


def test_without_skips_a_double_threat_is_a_solved_loss():
    """The move leaves the opponent two ways to win, so it is solved by one simulation."""
    boards = Boards.from_positions([from_text("..../.xx./..../o..o o")])
    search = searched(Game(4, 4, 3), boards, 1, Nothing())  # of two cells that stop a line the other is left
    assert search.solved.sum() == 1
    assert search.action_values[0, search.solved[0]] == [-1]
    assert not searched(Game(4, 4, 3, 0.25), boards, 1, Nothing()).solved.any()


@pytest.mark.parametrize("skip", [pytest.param(0.0, marks=pytest.mark.more), 0.25])
def test_a_database_replaces_the_evaluator(skip, tmp_path, monkeypatch):
    game, leaf, asked = Game(skip_chance=skip), Noise(), []
    build(game, tmp_path, stones=5)
    boards = plain.positions_of_random_play(game, 60, seed=5)
    stones, evaluate = np.count_nonzero(boards.cells, axis=1), leaf.evaluate
    monkeypatch.setattr(leaf, "evaluate", lambda b: asked.extend((b.cells != 0).sum(axis=1)) or evaluate(b))
    search = searched(game, boards, 400, leaf, endgame=Tablebase(tmp_path, game))
    assert max(asked) <= max(4, stones.max())
    exact = solve(game).action_values(boards)
    near = np.flatnonzero(stones == 4)
    assert len(near) > 3
    assert search.solved[near].sum() > 3
    assert_allclose(search.action_values[search.solved], exact[search.solved], atol=1e-6)
    assert_allclose(search.root_values[near], np.nanmax(exact[near], axis=1), atol=1e-6)


class Hesitating(PlainEvaluator):
    """Later cells are likelier by less than a rounding error."""

    def evaluate(self, boards):
        shape = boards.cells.shape
        return np.tile(np.arange(shape[1], dtype=np.float32) * 1e-10, (shape[0], 1)), np.zeros(shape[0])


@pytest.mark.parametrize("skip_chance", [0.0, 0.25])
def test_moves_with_nearly_equal_priors_are_all_tried(skip_chance):
    boards = Boards.from_positions([from_text(".../.../... o"), from_text("x../.../... o")])
    visits = searched(Game(skip_chance=skip_chance), boards, 60, Hesitating()).visits
    assert ((visits > 0) == (boards.cells == 0)).all()


# ---------------------------------------------------------------------------------------------------------------------
# What must not matter


@pytest.mark.parametrize("leaf", [None, NoiseValues(), Noise()], ids=str)
@pytest.mark.parametrize("game", [Game(), Game(3, 4, 3, 0.25)], ids=str)
def test_results_do_not_depend_on_steps_or_batch(game, leaf):
    boards, keys = plain.positions_of_random_play(game, 20), keys_for(20)
    whole = searched(game, boards, 300, leaf)
    parts = MCTSSearch(game, boards, keys, leaf=leaf)
    for simulations in (1, 1, 100, 7, 191):
        parts.run(simulations)
    assert parts.simulations == whole.simulations == 300
    assert_array_equal(parts.tree.counts, whole.tree.counts)
    for part, array in zip(parts.tree[:3], whole.tree[:3], strict=True):
        used = min(part.shape[1], array.shape[1])
        assert_array_equal(part[:, :used], array[:, :used])
    for row in range(0, 20, 7):
        alone = MCTSSearch(game, boards.take(np.array([row])), keys[[row]], leaf=leaf)
        alone.run(300)
        assert contents(alone.tree) == contents(whole.tree.rows(slice(row, row + 1)))


def test_results_do_not_depend_on_memory(monkeypatch):
    game = Game(skip_chance=0.25)
    boards, found = plain.positions_of_random_play(game, 40), []
    policy = MCTS(game, simulations=50, temperature=1)
    for memory in (mcts.policy.MEMORY, 3 * Tree.num_bytes(51, 2)):
        monkeypatch.setattr(mcts.policy, "MEMORY", memory)
        found.append(policy.probabilities(boards, np.random.default_rng(1)))
        found.append(policy.player().act(boards, np.arange(40), np.random.default_rng(2)))
    assert [rows.stop - rows.start for rows in policy.groups(8)] == [3, 3, 2]
    assert_array_equal(found[0], found[2])
    assert_array_equal(found[1], found[3])


def test_a_simulation_adds_one_move_at_most():
    for game in (Game(19, 19, 5, 0.25), Game(4, 4, 4), Game(skip_chance=0.25)):
        tree = searched(game, Boards.start(game, 3), 700).tree
        assert (tree.counts <= 701).all()
        assert sum(array.nbytes for array in tree[:3]) == 3 * Tree.num_bytes(701, 2 if game.skip_chance else 1)
    assert (tree.counts < 701).all()  # where results are known nothing is added


# ---------------------------------------------------------------------------------------------------------------------
# Trees that are continued


def after(boards, moves):
    """Row 0 of ``boards`` after moves ((cell, next mover), ...)."""
    cells, mover = boards.cells[:1].copy(), int(boards.mover[0])
    for cell, following in moves:
        cells[0, cell] = mover + 1
        mover = following
    return Boards(cells, np.array([mover], np.int8))


@pytest.mark.parametrize("skip", [0.0, 0.5])
def test_a_continued_tree_agrees_with_a_plain_implementation(skip):
    game, leaf = Game(skip_chance=skip), Noise()
    boards = Boards.from_positions([from_text("o../.../..x o")])
    search, other = searched(game, boards, 300, leaf), PlainTree(game, boards.position(0), leaf)
    for _ in range(300):
        other.simulate()
    num_continued = 0
    for cell in other.tried[()]:
        nodes = [((cell, 1),), ((cell, 0),)] if skip else [((cell, 1),)]
        nodes += [((cell, 1), (reply, 0)) for reply in other.tried.get(((cell, 1),), [])]
        for node in nodes:
            if node in other.known or not other.tried.get(node):
                continue
            now = Boards(np.array([other.cells[node]], np.int8), np.array([other.mover[node]], np.int8))
            again = MCTSSearch(game, now, np.zeros(1, np.uint64), leaf=leaf, trees=[search.tree])
            assert again.visits.sum() == other.visits[node] - 1
            again.run(20)
            branch = other.branch(node)
            for _ in range(20):
                branch.simulate()
            compare(again, 0, branch)
            num_continued += 1
    assert num_continued >= 5


def test_a_tree_of_another_position_is_ignored():
    game = Game(skip_chance=0.5)
    boards = Boards.start(game)
    tree = searched(game, boards, 500).tree
    for text in ("oo./.../... x", "oo./.x./... o", "o../.x./... x", "xx./.../... o", ".../.../... x", "xx./.ox/... x"):
        board = Boards.from_positions([from_text(text)])
        fresh, again = (MCTSSearch(game, board, keys_for(1), trees=trees) for trees in ([], [tree]))
        fresh.run(50), again.run(50)
        assert contents(fresh.tree) == contents(again.tree)
    without = Game()
    tree = searched(without, boards, 500).tree
    for text in (".../.o./... o", "x../.o./x.. o"):  # no such turns where nothing is skipped
        board = Boards.from_positions([from_text(text)])
        assert MCTSSearch(without, board, keys_for(1), trees=[tree]).visits.sum() == 0


@pytest.mark.parametrize("skip", [0.0, 0.25])
def test_a_continued_tree_keeps_solved_values(skip):
    """For either player to move."""
    game = Game(skip_chance=skip)
    boards = plain.positions_of_random_play(game, 100)
    search = searched(game, boards, 2000)
    num_solved = 0
    for row, cell in zip(*np.nonzero(search.solved), strict=True):
        before, tree = boards.take(np.array([row])), search.tree.rows(slice(row, row + 1))
        mover = int(before.mover[0])
        for following in (1 - mover, mover) if skip else (1 - mover,):
            now = after(before, [(int(cell), following)])
            again = MCTSSearch(game, now, keys_for(1), trees=[tree])
            if winner(game, now.cells[0]) is None and again.visits.any():
                assert again.tree.nodes["num_unsolved"][0, 0] == 0
                assert_allclose(again.values, solve(game).values(now), atol=1e-12)
                num_solved += 1
    assert num_solved > 20


@pytest.mark.parametrize("rollout", ["random", Noise()], ids=str)
def test_a_player_has_one_tree_per_game(rollout):
    game = Game(4, 4, 3, 0.25)
    policy = MCTS(game, simulations=60, rollout=rollout)
    player, rng = policy.player(), np.random.default_rng(0)
    assert isinstance(player, MCTSPlayer)
    slots = np.array([3, 7, 1])
    player.begin(slots)
    boards = Boards.start(game, 3)
    first = player.act(boards, slots, rng)
    assert set(player.trees) == {1, 3, 7}
    cells = boards.cells.copy()
    cells[np.arange(3), first] = 1
    now = Boards(cells[[0, 2]], np.zeros(2, np.int8))  # two skips
    again = policy.search(now, keys_for(2), [player.trees[3], player.trees[1]])
    assert (again.visits.sum(axis=1) > 0).all()
    carried = again.tree.counts.copy()
    player.act(now, slots[[0, 2]], rng)
    for row, slot in enumerate((3, 1)):
        assert player.trees[slot].counts[0] <= carried[row] + 60
    player.begin(np.array([7]))
    assert set(player.trees) == {1, 3}
    forgetful = MCTS(game, simulations=60, reuse=False).player()
    forgetful.act(boards, slots, rng)
    assert not forgetful.trees


# ---------------------------------------------------------------------------------------------------------------------
# The policy


def test_moves_in_episodes_do_not_depend_on_the_batch():
    game = Game(skip_chance=0.25)
    boards = plain.positions_of_random_play(game, 20)
    keys, plies = keys_for(20), np.count_nonzero(boards.cells, axis=1)
    policy = MCTS(game, simulations=20)
    rows = np.arange(3, 20, 4)
    some = act_in_episodes(policy, boards.take(rows), keys[rows], plies[rows])
    assert_array_equal(act_in_episodes(policy, boards, keys, plies)[rows], some)


def test_the_temperature_spreads_the_moves():
    game = Game(4, 4, 4)
    boards = plain.positions_of_random_play(game, 30)
    search = searched(game, boards, 300, decisive=False)
    shares = search.visits / search.visits.sum(axis=1, keepdims=True)
    assert_allclose(search.probabilities(1), shares, rtol=1e-12)
    squared = shares**2 / (shares**2).sum(axis=1, keepdims=True)
    assert_allclose(search.probabilities(0.5), squared, rtol=1e-12)
    best = search.visits == search.visits.max(axis=1, keepdims=True)
    assert_allclose(search.probabilities(), best / best.sum(axis=1, keepdims=True))
    assert_allclose(search.probabilities(1e-4), search.probabilities(), atol=1e-9)
    policy = MCTS(game, simulations=300, decisive=False, temperature=1)
    drawn = policy.search(boards, np.random.default_rng(5).integers(0, 1 << 64, 30, np.uint64))
    drawn.run(300)
    assert_array_equal(policy.probabilities(boards, np.random.default_rng(5)), drawn.probabilities(1))


def test_root_noise_is_mixed_with_the_priors():
    game = Game(skip_chance=0.25)
    boards = Boards.from_positions([from_text(".../.../... o"), from_text("oo./xx./... o"), from_text("x../.o./... x")])
    shares = np.random.default_rng(0).dirichlet(np.ones(9), 3)
    noisy, same = (MCTSSearch(game, boards, np.zeros(3, np.uint64), leaf=Noise()) for _ in range(2))
    noisy.add_root_noise(shares, 0.25)
    same.add_root_noise(shares, 0.0)
    same.run(50)
    assert_array_equal(same.visits, searched(game, boards, 50, Noise()).visits)
    logits, _ = Noise().evaluate(boards)
    for row, found in enumerate(noisy.tree.priors[:, 0]):
        sensible = [2] if row == 1 else np.flatnonzero(boards.cells[row] == 0).tolist()  # a stone that wins
        p = softmax({cell: float(logits[row, cell]) for cell in sensible})
        assert_array_equal(np.flatnonzero(found), sensible)
        assert_allclose(found[sensible], [0.75 * p[cell] + 0.25 * shares[row, cell] for cell in sensible], rtol=1e-5)
    noisy.run(50)
    assert (noisy.visits[0] != same.visits[0]).any()


def test_a_move_solved_as_lost_is_not_played():
    game = Game(skip_chance=0.25)
    search = searched(game, Boards.start(game), 200)
    most, edges = int(np.argmax(search.visits[0])), search.tree.edges[0]
    (edge,) = (edge for edge in mcts.tree.children_of(search.tree, 0, 0) if edges["cell"][edge] == most)
    edges["is_solved"][edge], edges["q"][edge] = 1, -1
    assert search.probabilities()[0, most] == 0
    assert search.probabilities(1)[0, most] == 0
    edges["q"][edge] = -0.5  # worse than what? nobody knows
    assert search.probabilities()[0, most] == 1


def test_values_and_analysis_agree():
    game = Game(4, 4, 4, 0.25)
    policy = make_policy("mcts:simulations=500", game)
    boards = plain.positions_of_random_play(game, 20)
    boards.cells[4], boards.mover[4] = 0, 0
    values, of_moves = policy.values(boards), policy.action_values(boards)
    some = boards.take(np.array([4, 2]))
    assert_array_equal(policy.values(some), values[[4, 2]])  # without rng they belong to the board
    assert_array_equal(policy.action_values(some), of_moves[[4, 2]])
    assert np.isnan(of_moves[boards.cells != 0]).all()
    assert (abs(values) <= 1).all()
    search = policy.analyse(boards.position(4))
    assert search.values == [values[4]]
    assert_array_equal(search.action_values, of_moves[[4]])
    assert search.visits.sum() == 500
    assert search.variation(0)[0] == (0, np.argmax(search.visits))


@pytest.mark.parametrize("spec", ["mcts:0", "mcts:c=nan", "mcts:temperature=-2", "mcts:rollout=win-or-block"])
def test_invalid_settings_are_rejected(spec):
    with pytest.raises(ValueError, match=":"):
        make_policy(spec, Game())


def test_a_generator_and_a_simulation_are_required():
    with pytest.raises(ValueError, match="rng"):
        MCTS(Game(), c=2.0).probabilities(Boards.start(Game()))
    with pytest.raises(ValueError, match="simulations=0"):
        MCTSSearch(Game(), Boards.start(Game()), keys_for(1)).run(0)
