"""The layered solver: against the solver over all boards, and its folders."""

from functools import cache

import numpy as np
import plain
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from small_games import TINY_GAME

from baselines.exact import LayeredSolution, Work, build, estimate, open_layers, solve
from ttt_envs import Boards, Game, make_policy
from ttt_envs.core.files import locked

pytestmark = pytest.mark.more

SKIPS = [0.0, 0.1, 0.25]
SMALL = Game(2, 3, 3, 0.25)  # for the files: 28 parts
LONG = Game(1, 17, 2, 0.25)
build_once = cache(build)


# --------------------------------------------------------------------------------------------------
# Values


@pytest.mark.parametrize("skip_chance", SKIPS)
def test_values_of_4x4_satisfy_the_bellman_equation(skip_chance, known_values):
    game = Game(4, 4, 4, skip_chance)
    ours = build(game)
    plain.assert_bellman_equation(ours, plain.positions_of_random_play(game, 100), 1e-15)
    start = ours.values(Boards.start(game))
    if skip_chance == 0.25:
        assert start == pytest.approx(65393675 / 536870912, abs=1e-15)
    if skip_chance == 0:
        assert start == int(known_values["optimal_play"]["4x4x4 skip 0"]["value"])


def test_values_above_16_cells_are_float32():
    ours = build_once(LONG)
    # two moves may be rounded apart
    assert (ours.dtype, ours.error, ours.tie) == (np.float32, 18 * 2**-25, 1e-9 + 36 * 2**-25)
    plain.assert_bellman_equation(ours, plain.positions_of_random_play(LONG, 50), 2**-25)


def test_positions_of_no_alternating_play_are_refused_without_skips():
    """On large boards."""
    boards = plain.from_texts(17 * "." + " o", "o" + 16 * "." + " o")
    for ask in (build_once(Game(1, 17, 2)).values, build_once(Game(1, 17, 2)).action_values):
        with pytest.raises(ValueError, match=r"such as 0.25"):
            ask(boards)
        ask(boards.take(np.array([0])))


# --------------------------------------------------------------------------------------------------
# The solver above 16 cells


@pytest.fixture
def cache_path(tmp_path, monkeypatch):
    monkeypatch.setenv("TTT_ENVS_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("TTT_ENVS_CACHE_BYTES", raising=False)
    return tmp_path / "cache"


def test_layers_of_a_large_board_are_cached(cache_path):
    solution = solve(LONG)
    assert isinstance(solution, LayeredSolution)
    assert solve(LONG) is solution
    boards = plain.positions_of_random_play(LONG, 200)
    table_of = build(LONG)
    assert_array_equal(solution.values(boards), table_of.values(boards))
    assert_array_equal(solution.action_values(boards), table_of.action_values(boards))
    assert solution.value == table_of.values(Boards.start(LONG))[0]
    (folder,) = cache_path.iterdir()
    before = inodes(folder)
    del solution
    assert_array_equal(solve(LONG).values(boards), table_of.values(boards))
    assert inodes(folder) == before


def test_without_the_cache_layers_stay_in_memory(cache_path, monkeypatch):
    value = solve(LONG, cache=False).value
    assert not cache_path.exists()
    monkeypatch.setenv("TTT_ENVS_CACHE_BYTES", "0")
    assert solve(LONG).value == value
    assert not cache_path.exists()


def test_moves_within_rounding_error_are_optimal(cache_path):
    """On a single row every move has its mirror, and no image of it rounds as it does."""
    boards = plain.positions_of_random_play(LONG, 200)
    solution = solve(LONG)
    policy = make_policy("optimal", LONG)
    values = solution.action_values(boards)
    best = values >= np.nanmax(values, axis=1, keepdims=True) - 1e-9 - 36 * 2**-25
    assert_array_equal(solution.optimal_actions(boards), best)
    assert_array_equal(policy.probabilities(boards), plain.shares_of(best))


# --------------------------------------------------------------------------------------------------
# Resources


@pytest.mark.parametrize("game", [SMALL, Game(), Game(3, 3, 3, 0.1), Game(2, 4, 2)], ids=str)
def test_estimate_equals_the_size_of_the_layers(game):
    ours = build_once(game)
    needed = estimate(game, folder=False)
    layers = [ours.layer(stones) for stones in range(game.cells + 1)]
    assert needed.by_stones == tuple(layer.size for layer in layers)
    assert needed.disk == sum(layer.nbytes for layer in layers)


def test_too_little_memory_is_refused_before_building(tmp_path):
    needed = estimate(SMALL)
    alone = estimate(SMALL, folder=False).memory_alone
    with pytest.raises(MemoryError, match=f"takes {alone:,} bytes of memory.*or give it a folder"):
        build(SMALL, work=Work(memory=alone - 1))
    with pytest.raises(MemoryError, match=f"takes {needed.memory:,} bytes of memory"):
        build(SMALL, tmp_path / "layers", work=Work(memory=needed.memory - 1))
    assert not (tmp_path / "layers").exists()


# --------------------------------------------------------------------------------------------------
# Files


def inodes(folder):
    """Inodes of the layers, by file name: they change when a file is rewritten."""
    return {path.name: path.stat().st_ino for path in folder.glob("*.npy")}


def assert_float32_values(ours):
    boards = plain.all_positions(ours.game)
    in_memory = build_once(ours.game).values(boards)  # in double precision
    assert_allclose(ours.values(boards), in_memory, rtol=0, atol=ours.error)


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(path.read_bytes()[:-1] + bytes([path.read_bytes()[-1] ^ 1])),
        lambda path: path.write_bytes(path.read_bytes()[:-8]),
        lambda path: path.unlink(),
    ],
    ids=["flipped", "cut", "missing"],
)
def test_only_a_damaged_layer_is_rebuilt(tmp_path, damage):
    build(SMALL, tmp_path)
    whole = (tmp_path / "03-layer.npy").read_bytes()
    before = inodes(tmp_path)
    damage(tmp_path / "03-layer.npy")
    with pytest.raises(ValueError, match=r"03-layer\.npy is damaged: build"):
        open_layers(SMALL, tmp_path).layer(3)
    assert_float32_values(build(SMALL, tmp_path))
    assert (tmp_path / "03-layer.npy").read_bytes() == whole
    assert {name for name, inode in inodes(tmp_path).items() if inode != before[name]} <= {
        "03-layer.npy"
    }


def test_locked_folder_is_read_but_not_written(tmp_path):
    tmp_path.joinpath("layers").mkdir()
    with locked(tmp_path / "layers"), pytest.raises(ValueError, match="another process is writing"):
        build(SMALL, tmp_path / "layers")
    build(SMALL, tmp_path / "layers")
    with locked(tmp_path / "layers"):  # a table that is complete is only read
        assert_float32_values(build(SMALL, tmp_path / "layers"))


def test_folder_with_other_content_is_refused(tmp_path):
    build(SMALL, tmp_path)
    with pytest.raises(ValueError, match="holds a table of another game"):
        build(TINY_GAME, tmp_path)
    with pytest.raises(ValueError, match="holds the layers of 2 x 3, 3 to win"):
        open_layers(TINY_GAME, tmp_path)
