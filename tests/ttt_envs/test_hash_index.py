"""Row numbers for keys, against a dictionary."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from ttt_envs.core.hash_index import KeyIndex


def keys_of(rng, count, words):
    """Some keys, many of them twice, and some of which differ in one word only."""
    return rng.integers(0, 12, (count, words)).astype(np.uint64) << np.uint64(60)


@pytest.mark.parametrize("words", [1, 3])
def test_keys_are_numbered_in_order_of_insertion(words):
    rng = np.random.default_rng(0)
    index = KeyIndex(words)
    numbers = {}
    for count in (1, 40, 300, 7):
        keys = keys_of(rng, count, words)
        expected = [numbers.setdefault(key, len(numbers)) for key in map(bytes, keys)]
        assert_array_equal(index.rows(keys), expected)
        assert index.size == len(numbers)
        assert_array_equal(index.find(keys), expected)
        assert (index.find(keys_of(rng, 200, words) | np.uint64(1)) == -1).all()
        if count == 40:  # and then it grows again
            index.pack()
            assert len(index.keys) == index.size
    assert_array_equal(index.keys[: index.size], [np.frombuffer(key, np.uint64) for key in numbers])
