"""The transposition table of the searches, and its keys."""

import numpy as np
import pytest

from baselines.search.canonical import Planes, mark, write_key
from baselines.search.transpositions import (
    FOREVER,
    MIN_ROWS,
    grow,
)
from ttt_envs import Game
from ttt_envs.game.symmetry import symmetries


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
