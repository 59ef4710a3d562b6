"""The transposition table of the searches, and its keys."""

import numpy as np
import pytest

from baselines.search.canonical import Planes, mark, write_key
from baselines.search.transpositions import (
    BUCKET,
    FOREVER,
    MIN_ROWS,
    WORTH_SHIFT,
    find,
    grow,
    store,
)
from ttt_envs import Game
from ttt_envs.game.symmetry import symmetries


@pytest.mark.parametrize("words", [1, 2, 3])
def test_a_table_returns_what_was_stored_and_nothing_else(words):
    rng = np.random.default_rng(0)
    keys = rng.integers(-(1 << 63), 1 << 63, (500, words + 1))
    keys[:, words] = 7 << WORTH_SHIFT | np.arange(500)
    table = np.zeros((1 << 12, words + 1), np.int64)
    gained = sum(store(keys, row, words, int(keys[row, words]), table)[1] for row in range(500))
    assert gained == np.count_nonzero(table[:, words]) > 490
    table, num_stored, _ = grow(table, 1 << 11, words, 1 << 30)
    assert num_stored == gained
    assert len(table) == 1 << 14
    entries = [find(keys, row, words, table) for row in range(500)]
    assert [tuple(table[entry]) for entry in entries if entry >= 0] == [
        tuple(key) for key, entry in zip(keys, entries, strict=True) if entry >= 0
    ]
    assert sum(entry >= 0 for entry in entries) == gained
    for word in range(words):
        keys[:, word] ^= 1
        assert all(find(keys, row, words, table) < 0 for row in range(500))
        keys[:, word] ^= 1
    assert find(keys, 0, words, table[:0]) == -1


def test_a_full_bucket_replaces_the_row_of_the_least_worth():
    keys = np.arange(1, 7)[:, None]
    table = np.zeros((BUCKET, 2), np.int64)
    for row, worth in enumerate((9, 3, 7, 5)):
        store(keys, row, 1, worth << WORTH_SHIFT, table)
    assert store(keys, 4, 1, 4 << WORTH_SHIFT, table)[1] == 0
    assert [find(keys, row, 1, table) >= 0 for row in range(6)] == [
        True,
        False,
        True,
        True,
        True,
        False,
    ]
    store(keys, 0, 1, 2 << WORTH_SHIFT, table)
    assert np.count_nonzero(table[:, 0] == 1) == 1


@pytest.mark.parametrize("memory", [0, 16 * MIN_ROWS - 1, 16 * MIN_ROWS, 1 << 20, 1 << 24])
def test_a_table_grows_within_its_memory(memory):
    table = np.zeros((0, 2), np.int64)
    full = 0
    while full < FOREVER:
        old = table
        table, _, full = grow(old, full, 1, memory)
        assert (table.nbytes + old.nbytes <= memory and table.ctypes.data % 64 == 0) or table is old
    assert 5 * table.nbytes + 16 * MIN_ROWS > memory
    assert (len(table) > 0) == (memory >= 16 * MIN_ROWS)


@pytest.mark.parametrize("size", [(3, 3), (4, 5), (5, 5), (1, 7), (8, 8), (9, 9)], ids=str)
def test_symmetric_positions_have_the_same_key(size):
    game = Game(*size, 3)
    rng = np.random.default_rng(0)
    for _ in range(50):
        order = rng.permutation(game.cells)[:6]
        keys = set()
        images = set()
        for image in symmetries(game):
            planes = Planes.empty(game)
            for number, cell in enumerate(image[order]):
                mark(int(cell), number % 2, planes)
            key = np.zeros(planes.stones.shape[1], np.int64)
            assert (planes.stones[write_key(key, planes)] == key).all()
            keys.add(tuple(key.tolist()))
            images.add(tuple(planes.stones[0].tolist()))
        assert len(keys) == 1
        assert keys <= images
