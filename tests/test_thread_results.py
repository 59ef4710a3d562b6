"""Results are bit-identical for every number of threads, in all work that is spread over threads."""

import dataclasses

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from baselines.exact import Work, build, solve
from baselines.mcts import MCTS, MCTSSearch, gumbel_search, search
from learners.alpha_zero import AlphaZeroConfig, AlphaZeroSearch
from learners.alpha_zero.self_play import play_games
from ttt_envs.core import work as work_module
from ttt_envs.envs.vector_env import MNKVectorEnv
from ttt_envs.game.boards import Boards
from ttt_envs.game.game import Game
from ttt_envs.graph import numbering

SKIPS = Game(skip_chance=0.25)
GAMES = (SKIPS, Game(4, 4, 4))
NUMBERS = (2, 3, 7)


def keys(count):
    return np.arange(count, dtype=np.uint64)


def random_boards(game, count=30):
    rng = np.random.default_rng(3)
    cells = np.zeros((count, game.cells), np.int8)
    for row in cells:
        row[rng.choice(game.cells, 2, replace=False)] = 1, 2
    return Boards(cells, np.zeros(count, np.int8))


def learner(game):
    return AlphaZeroConfig(hidden=(8,)).build(game, np.random.default_rng(0))


def search_by_uct(threads):
    found = []
    for game in GAMES:
        boards = random_boards(game)
        uct = MCTSSearch(game, boards, keys(30), threads=threads)
        uct.run(20)
        uct.run(35)
        found += [*uct.root_moves, uct.tree.counts]
        policy = MCTS(game, 25, threads=threads)
        found.append(policy.probabilities(boards, np.random.default_rng(1)))
    return found


def search_by_guide(threads):
    found = []
    for game in GAMES:
        boards, net = random_boards(game), learner(game)
        puct = MCTSSearch(game, boards, keys(30), leaf=net, threads=threads)
        puct.run(20)
        gumbel = gumbel_search(game, boards, net, simulations=20, threads=threads)
        leaf = MCTSSearch(game, boards, keys(30), leaf=Values(net), threads=threads)
        leaf.run(10)
        found += [*puct.root_moves, *leaf.root_moves, gumbel.improved, gumbel.scores, gumbel.improved_values]
    return found


class Values:
    """Leaf values without priors."""

    def __init__(self, net):
        self.values, self.action_values = net.values, net.action_values


def play_training_games(threads):
    found = []
    for search_rule in ("gumbel", "puct"):
        config = AlphaZeroConfig(hidden=(8,), simulations=16, search=search_rule, threads=threads)
        found += play_games(config, SKIPS, learner(SKIPS), np.uint64(5), range(3, 30))
    return found


def build_layers(threads):
    found = []
    for game in (Game(3, 4, 3, 0.25), Game(3, 4, 4), Game(3, 4, 3, 0.25, gravity=True)):
        table = build(game, work=Work(threads))
        found += [table.layer(stones) for stones in range(game.cells + 1)]
    return found


def arrays_in(value):
    """All arrays of numbers in nested tuples, dictionaries and arrays of objects, in which None stands for nothing."""
    if isinstance(value, np.ndarray) and value.dtype != object:
        return [value]
    parts = value.values() if isinstance(value, dict) else value
    return [array for part in parts if part is not None for array in arrays_in(part)]


WORK = (
    search_by_uct,
    search_by_guide,
    play_training_games,
    build_layers,
)


@pytest.fixture
def small_blocks(monkeypatch):
    """Cut small work into blocks, too."""
    monkeypatch.setattr(search, "MIN_BLOCK_SIMULATIONS", 8)
    monkeypatch.setattr(search, "CHUNK_SIZE", 64)
    monkeypatch.setattr(numbering, "MIN_BLOCK_SETS", 1)


@pytest.mark.parametrize("work", WORK, ids=lambda work: work.__name__)
@pytest.mark.usefixtures("small_blocks")
def test_results_do_not_depend_on_threads(work, monkeypatch):
    expected = work(1)
    spread = []
    pool = work_module.ThreadPoolExecutor
    monkeypatch.setattr(work_module, "ThreadPoolExecutor", lambda threads: spread.append(threads) or pool(threads))
    for threads in NUMBERS:
        found = work(threads)
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_array_equal(one, other, strict=isinstance(one, np.ndarray))
        assert spread, "no work was spread over threads"
        spread.clear()


@pytest.mark.usefixtures("small_blocks")
def test_a_database_is_built_alike(tmp_path):
    digests = set()
    for threads in (1, 2):
        folder = tmp_path / str(threads)
        build(Game(3, 4, 3, 0.25), folder, work=Work(threads))
        digests.update(file.read_bytes() for file in folder.glob("*-layer.npy"))
    assert len(digests) == len(list(folder.glob("*-layer.npy")))


def test_wrong_numbers_of_threads():
    for call in (
        lambda threads: MCTS(SKIPS, 5, threads=threads),
        lambda threads: solve(SKIPS, cache=False, work=Work(threads)),
        lambda threads: build(SKIPS, work=Work(threads)),
        lambda threads: AlphaZeroConfig(threads=threads),
    ):
        for threads in (0, -1, 1.5, "all"):
            with pytest.raises(ValueError, match="threads="):
                call(threads)


@pytest.mark.parametrize("illegal_action", ["raise", "lose"])
def test_an_invalid_action_changes_nothing(illegal_action):
    env = MNKVectorEnv(20_000, illegal_action=illegal_action)
    env.reset(seed=0)
    before = env.clone_state(include_rng=True)
    for illegal in (9, -1):
        actions = np.full(20_000, 4)
        actions[19_999] = illegal
        with pytest.raises(ValueError, match=rf"^game 19999: .*{illegal}"):
            env.step(actions)
    for name, value in env.clone_state(include_rng=True).items():
        if name != "game":
            assert_array_equal(value, before[name])
    if illegal_action == "raise":
        env.step(np.full(20_000, 4))
        after = env.clone_state()["cells"]
        with pytest.raises(ValueError, match="the cell holds a stone"):
            env.step(np.full(20_000, 4))
        assert_array_equal(env.clone_state()["cells"], after)


def test_a_spec_string_names_threads():
    from ttt_envs import make_policy

    assert make_policy("mcts:threads=auto", SKIPS) == MCTS(SKIPS, threads="auto")
    policy = make_policy("mcts:simulations=7,threads=2", SKIPS)
    assert str(policy) == "mcts:simulations=7,threads=2"
    assert {field.name for field in dataclasses.fields(AlphaZeroSearch)} >= {"threads"}
    with pytest.raises(ValueError, match="threads=0 is no number of threads"):
        make_policy("mcts:threads=0", SKIPS)
