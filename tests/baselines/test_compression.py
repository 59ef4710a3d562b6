"""Compressed tables: known facts, tensorly, scipy, and the table that the factors reconstruct."""

import itertools
import math
import sys

import numpy as np
import plain
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import ortho_group
from small_games import SKIP_GAME

from baselines.compression import (
    decompose,
    decomposition,
    default_rank,
    largest_rank,
    make_grouping,
    singular_vectors,
)
from baselines.compression.grouping import Grouping
from baselines.compression.ranks import stored_numbers
from baselines.tables import Softmax, Table, random_play_values
from ttt_envs import Game, make_policy

METHODS = ["svd", "hosvd", "hosvd2", "hooi", "tt"]


@pytest.fixture(autouse=True)
def _private_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TTT_ENVS_CACHE", str(tmp_path / "kept"))


def table_of_noise(game, seed=0, of_moves=False):
    shape = (3**game.cells, game.cells) if of_moves else (3**game.cells,)
    return np.random.default_rng(seed).standard_normal((2, *shape) if game.skip_chance else shape)


def error(compressed, values):
    return np.linalg.norm(compressed.table() - values) / np.linalg.norm(values)


def rank_of(full):
    """The first rank that misses nothing."""
    return next(
        part.rank for part in map(full.at, range(full.largest + 1)) if part.relative_error < 1e-12
    )


# --------------------------------------------------------------------------------------------------
# Known facts


@pytest.mark.parametrize(
    "case", ["svd_equation", "svd_as_published", "hosvd_equation", "hosvd2_equation"]
)
def test_relative_errors_are_known(known_values, case):
    method, terminal = case.split("_", 1)
    full = decomposition(Game(), method, terminal=terminal)
    values = random_play_values(Game(), terminal)
    for rank, fact in known_values["relative_error_3x3x3"][case].items():
        compressed = full.at(int(rank))
        assert compressed.relative_error == pytest.approx(fact, abs=6e-6)
        assert compressed.relative_error == pytest.approx(error(compressed, values), rel=1e-12)


@pytest.mark.parametrize("terminal", ["equation", "as_published"])
def test_ranks_are_known(known_values, terminal):
    facts = known_values["random_play_values_3x3x3"][terminal]
    assert rank_of(decomposition(Game(), "svd", terminal=terminal)) == facts["rank_81x243"]
    for method in ("hosvd", "hosvd2", "hooi"):
        assert rank_of(decomposition(Game(), method, terminal=terminal)) == max(
            facts["multilinear_rank"]
        )


def test_stored_numbers_equal_the_formulas_of_the_paper():
    for rank in (0, 1, 18, 24):
        counts = [
            decomposition(Game(), method).at(rank).stored_numbers
            for method in ("svd", "hosvd", "hosvd2")
        ]
        assert counts[0] == (3**4 + 3**5) * rank  # Eq. 14
        assert counts[1] == 3**4 * rank + rank**3  # Eq. 15
        assert counts[2] == 27 * (rank**2 + 2 * rank)  # the older version's Eq. 14
    assert decomposition(Game(), "svd").at(81).compression_ratio == pytest.approx(4 / 3)
    assert decomposition(SKIP_GAME, "svd").at(49).compression_ratio == pytest.approx(0.8065843621)
    assert decomposition(SKIP_GAME, "svd").at(18).stored_numbers == 2 * 5832


# --------------------------------------------------------------------------------------------------
# Other libraries


BOARD = Game(2, 3, 2)
THREE_PAIRS = Grouping.parse(BOARD, "03/14/25")


@pytest.mark.parametrize("seed", range(3))
def test_hooi_equals_tensorly(seed):
    import tensorly  # which takes a second, and only here
    from tensorly.decomposition import tucker

    values = table_of_noise(BOARD, seed)
    tensor = THREE_PAIRS.tensor(values)
    for rank in (1, 4, 8):
        reference = tensorly.tucker_to_tensor(
            tucker(tensor, [rank] * 3, init="svd", n_iter_max=10000, tol=1e-12)
        )
        missed = np.linalg.norm(reference - tensor) / np.linalg.norm(tensor)
        assert decompose("hooi", values, THREE_PAIRS).at(rank).relative_error == pytest.approx(
            missed, rel=1e-5
        )


@pytest.mark.parametrize("split", ["03/14/25", "0/12/34/5", "cells"])
def test_tt_equals_tensorly(split):
    import tensorly
    from tensorly.decomposition import tensor_train

    grouping = Grouping.parse(BOARD, split)
    values = table_of_noise(BOARD)
    tensor = grouping.tensor(values)
    for rank in (1, 4, 9):
        expected = tensorly.tt_to_tensor(tensor_train(tensor, rank))
        our_values = decompose("tt", values, grouping).at(rank)
        assert_allclose(grouping.tensor(our_values.table()), expected, rtol=0, atol=1e-10)


# --------------------------------------------------------------------------------------------------
# Properties

SMALL = [Game(2, 3, 2), Game(2, 3, 3, 0.25), Game(1, 5, 3), Game(4, 1, 2, 0.5), Game(2, 2, 2)]


@st.composite
def groupings(draw, method):
    """A grouping of a small board, and whether it is one of moves: any cells in any order."""
    game = draw(st.sampled_from(SMALL))
    of_moves = draw(st.booleans())
    axes = draw(st.permutations(range(game.cells + of_moves)))
    count = 2 if method == "svd" else draw(st.integers(2, len(axes)))
    borders = sorted(draw(st.permutations(range(1, len(axes))))[: count - 1])
    return Grouping(
        game,
        tuple(tuple(axes[i:j]) for i, j in itertools.pairwise([0, *borders, len(axes)])),
        of_moves,
    )


@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=10)
@given(st.data())
def test_read_equals_the_reconstructed_table(method, data):
    grouping = data.draw(groupings(method))
    game = grouping.game
    of_moves = grouping.of_moves
    values = table_of_noise(game, data.draw(st.integers(0, 9)), of_moves)
    full = decompose(method, values, grouping)
    assert full.largest == largest_rank(method, grouping)
    rank = data.draw(st.integers(0, full.largest))
    compressed = full.at(rank)
    table = compressed.table()
    assert table.shape == values.shape
    assert compressed.relative_error == pytest.approx(
        error(compressed, values), rel=1e-9, abs=1e-12
    )
    assert compressed.stored_numbers == compressed.num_sides * stored_numbers(
        method, grouping, rank
    )
    assert compressed.compression_ratio == pytest.approx(
        compressed.stored_numbers / values.size, rel=1e-15
    )
    cells = plain.all_cells(game)
    for side, entries in enumerate(table.reshape(compressed.num_sides, 3**game.cells, -1)):
        for action, column in enumerate(entries.T):
            actions = np.full(len(cells), action)
            assert_allclose(compressed.read(cells, actions, side=side), column, rtol=0, atol=1e-12)
    boards = plain.positions_of_random_play(game, 16, rank)
    rebuilt = Table(game, table)
    for of_small_boards in (0, 9):  # by the factors, and by the whole table
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                sys.modules["baselines.compression.decomposition"],
                "MAX_CELLS_OF_TABLE",
                of_small_boards,
            )
            assert_allclose(
                compressed.action_values(boards), rebuilt.action_values(boards), rtol=0, atol=1e-12
            )
            assert_allclose(compressed.values(boards), rebuilt.values(boards), rtol=0, atol=1e-12)
            p = Softmax(compressed, 2.0).probabilities(boards)
            assert_allclose(p, Softmax(rebuilt, 2.0).probabilities(boards), rtol=0, atol=1e-11)


@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=15)
@given(st.data())
def test_error_decreases_with_rank(method, data):
    grouping = data.draw(groupings(method))
    values = table_of_noise(grouping.game, of_moves=grouping.of_moves)
    full = decompose(method, values, grouping)
    assert full.at(0).relative_error == pytest.approx(1, rel=1e-14)
    assert full.at(full.largest).relative_error < 1e-13
    assert_allclose(full.at(full.largest).table(), values, rtol=0, atol=1e-12)
    if (
        method == "hooi"
    ):  # which finds no best approximation, but one at least as good as that it begins with
        rank = data.draw(st.integers(1, full.largest))
        assert (
            full.at(rank).relative_error
            <= decompose("hosvd", values, grouping).at(rank).relative_error + 1e-12
        )
    else:
        assert (
            np.diff([part.relative_error for part in map(full.at, range(full.largest + 1))])
            <= 1e-12
        ).all()


# --------------------------------------------------------------------------------------------------
# Equal singular values


@pytest.mark.parametrize(
    ("exact", "gram"), [(3**12, 3**7), (0, 3**7), (0, 0)], ids=["SVD", "Gram", "ARPACK"]
)
@pytest.mark.parametrize("shape", [(30, 50), (50, 30)], ids=str)
def test_singular_vectors_do_not_depend_on_the_method(monkeypatch, exact, gram, shape):
    """Values that come in pairs and triples have many singular vectors; the ones taken are always
    the same.
    """
    rng = np.random.default_rng(0)
    u, v = (ortho_group.rvs(size, random_state=rng)[:, :8] for size in shape)
    matrix = u * [5, 5, 4, 3, 3, 3, 2, 1] @ v.T
    expected, _ = singular_vectors.leading_vectors(matrix, 8)
    monkeypatch.setattr(singular_vectors, "EXACT", exact)
    monkeypatch.setattr(singular_vectors, "GRAM", gram)
    for other in (matrix, matrix @ ortho_group.rvs(shape[1], random_state=rng)):
        for count in (1, 5, 8):  # 1 and 5 cut through equal values
            result, missed = singular_vectors.leading_vectors(other, count)
            assert_allclose(result, expected[:, :count], rtol=0, atol=1e-6 if exact == 0 else 1e-11)
            assert missed == pytest.approx(
                np.square([5, 5, 4, 3, 3, 3, 2, 1][count:]).sum(), abs=1e-10
            )


# --------------------------------------------------------------------------------------------------
# Large boards


@pytest.mark.parametrize("method", ["svd", "hosvd", "hosvd2", "tt"])
def test_a_truncated_decomposition_equals_the_exact_one(monkeypatch, method):
    values = random_play_values(Game())
    grouping = make_grouping(Game(), method)
    exact = decompose(method, values, grouping)
    monkeypatch.setattr(singular_vectors, "EXACT", 0)
    monkeypatch.setattr(singular_vectors, "GRAM", 3**2)
    truncated = decompose(method, values, grouping, max_vectors=20)
    assert truncated.largest == 20
    for rank in (1, 7, 12, 20):
        our_values = truncated.at(rank)
        reference = exact.at(rank)
        assert our_values.relative_error == pytest.approx(reference.relative_error, rel=1e-6)
        assert_allclose(our_values.table(), reference.table(), rtol=0, atol=1e-7)
    with pytest.raises(ValueError, match=r"rank=21 is no rank of .* choose 0 to 20"):
        truncated.at(21)


def test_large_decomposition_is_cached(tmp_path):
    game = Game(3, 4, 3)
    first = decomposition(game, "hosvd").at(9)
    assert error(first, random_play_values(game)) == pytest.approx(first.relative_error, rel=1e-9)
    (path,) = tmp_path.glob("kept/*-factors-*.npy")
    inode = path.stat().st_ino
    assert_array_equal(decomposition(game, "hosvd").at(9).table(), first.table())
    assert path.stat().st_ino == inode


# --------------------------------------------------------------------------------------------------
# Policies, groups and errors


@pytest.mark.parametrize("name", METHODS)
def test_policy_uses_the_default_rank(name):
    policy = make_policy(name, SKIP_GAME)
    boards = plain.positions_of_random_play(SKIP_GAME, 32)
    expected = (
        decomposition(SKIP_GAME, name)
        .at(default_rank(name, make_grouping(SKIP_GAME, name)))
        .action_values(boards)
    )
    assert_array_equal(policy.action_values(boards), expected)


@pytest.mark.parametrize("game", [Game(), Game(4, 4, 4), Game(1, 5, 3)], ids=str)
def test_default_rank_keeps_three_tenths_of_the_numbers(game):
    for method in METHODS:
        grouping = make_grouping(game, method)
        rank = default_rank(method, grouping)
        share = [stored_numbers(method, grouping, r) / 3**game.cells for r in (rank, rank + 1)]
        assert share[0] <= 0.3
        assert rank == 32 or share[1] > 0.3


def test_table_of_moves_has_an_axis_of_actions():
    game = Game(2, 3, 2)
    assert (
        str(make_policy("svd:rank=4,source=(optimal:epsilon=0)", game).evaluation.grouping)
        == "012345/m"
    )
    whole = make_policy("svd:rank=6,source=(optimal:epsilon=0)", game)
    boards = plain.positions_of_random_play(game, 64)
    expected = make_policy("table:source=(optimal:epsilon=0)", game).probabilities(boards)
    assert_allclose(whole.probabilities(boards), expected, rtol=0, atol=1e-11)


@pytest.mark.parametrize(
    ("split", "of_moves", "text"),
    [
        ("rows", False, "012/345"),
        ("cells", False, "0/1/2/3/4/5"),
        ("4", True, "0123/45m"),
        ("rows", True, "012/345/m"),
        ("50/4231", False, "50/4231"),
        ("5m/01234", True, "5m/01234"),
    ],
)
def test_groupings_are_parsed_and_formatted(split, of_moves, text):
    grouping = Grouping.parse(BOARD, split, of_moves=of_moves)
    assert str(grouping) == text
    assert Grouping.parse(BOARD, text, of_moves=of_moves) == grouping
    assert math.prod(grouping.sizes) == 3**6 * (6 if of_moves else 1)
    values = table_of_noise(BOARD, of_moves=of_moves)
    assert_array_equal(grouping.entries(grouping.tensor(values)).reshape(values.shape), values)


def test_table_of_zeros_has_no_error():
    game = Game(1, 3, 3)  # by turns nobody gets three in a row
    assert not random_play_values(game).any()
    assert [part.relative_error for part in map(decomposition(game, "svd").at, range(4))] == [
        0.0
    ] * 4
