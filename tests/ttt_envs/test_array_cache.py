"""Arrays that are kept on disk; what the solver, tables and compression keep is tested with
them.
"""

import os

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from ttt_envs.core.array_cache import (
    CACHE_BYTES_VARIABLE,
    CACHE_VARIABLE,
    cache_path,
    load_or_compute,
    make_room,
)
from ttt_envs.core.files import locked

ARRAY = np.arange(12.0).reshape(3, 4)


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "kept"))
    monkeypatch.delenv(CACHE_BYTES_VARIABLE, raising=False)
    return tmp_path / "kept"


def loaded(number, array=ARRAY):
    """Whether the array of this number had to be computed; it is right and cannot be written."""
    computed = []

    def compute():
        computed.append(number)
        return array.copy()

    result = load_or_compute("array-0.5", {"number": number}, compute, min_bytes=0)
    assert_array_equal(result, array, strict=True)
    assert not result.flags.writeable
    return bool(computed)


def path_of(number):
    return cache_path("array-0.5", {"number": number}, ".npy")


def test_arrays_are_computed_once_and_small_ones_each_time(place):
    load_or_compute("array", {}, ARRAY.copy)
    assert not place.exists()
    assert [loaded(3), loaded(3)] == [True, False]
    assert [path_of(3)] == list(place.iterdir())


@pytest.mark.parametrize(
    "damage",
    [lambda content: content[:-8], lambda content: b"", None],
    ids=["end", "all", "objects"],
)
def test_damaged_arrays_are_computed_again(damage):
    loaded(3)
    if damage is None:
        np.save(path_of(3), np.array([{}]), allow_pickle=True)
    else:
        path_of(3).write_bytes(damage(path_of(3).read_bytes()))
    assert [loaded(4), loaded(3), loaded(3)] == [True, True, False]


def test_the_least_recently_used_is_evicted_also_of_a_killed_writer(place, monkeypatch):
    large = np.zeros(10_000)
    for number in range(4):
        loaded(number, large)
    unfinished = place / "array-0123456789abcdef.npy01234567.tmp"
    for path in (unfinished, place / "mine.npy"):
        path.write_bytes(bytes(10_000))
        os.utime(path, (1e9 - 9, 1e9 - 9))
    for age, number in enumerate((2, 0, 3, 1)):  # the last is the oldest
        os.utime(path_of(number), (1e9 - age, 1e9 - age))
    assert not loaded(1, large)  # and now it is the newest
    monkeypatch.setenv(CACHE_BYTES_VARIABLE, "250000")  # of three arrays
    loaded(4, large)
    assert [path_of(number).exists() for number in range(4)] == [False, True, True, False]
    assert [(place / "mine.npy").exists(), unfinished.exists()] == [True, False]


def test_the_cache_has_a_size_and_may_be_off(place, monkeypatch):
    loaded(1)
    monkeypatch.setenv(CACHE_BYTES_VARIABLE, "5000")
    assert [loaded(2, np.zeros(1000)) for _ in range(2)] == [True, True]  # larger than the cache
    assert path_of(1).exists()
    monkeypatch.setenv(CACHE_BYTES_VARIABLE, "0")
    assert [loaded(3), loaded(3)] == [True, True]
    monkeypatch.setenv(CACHE_BYTES_VARIABLE, "many")
    with pytest.raises(ValueError, match=CACHE_BYTES_VARIABLE):
        loaded(5)
    monkeypatch.delenv(CACHE_BYTES_VARIABLE)
    monkeypatch.setenv(CACHE_VARIABLE, str(path_of(1)))  # a file in the place of the folder
    assert [loaded(1), loaded(1)] == [True, True]


def filled(number):
    folder = cache_path("layers", {"number": number})
    assert make_room(folder, 80_000)
    folder.mkdir(exist_ok=True)
    (folder / "00-layer.npy").write_bytes(bytes(80_000))
    (folder / "manifest.json").write_text("{}")
    return folder


def test_cached_folders_count_towards_the_limit_and_stay_while_somebody_writes(place, monkeypatch):
    first = filled(1)
    os.utime(first, (1e9, 1e9))
    monkeypatch.setenv(CACHE_BYTES_VARIABLE, "190000")
    loaded(2, np.zeros(10_000))
    assert first.exists()  # there is room for both
    os.utime(path_of(2), (2e9, 2e9))
    second = filled(3)
    assert [first.exists(), path_of(2).exists()] == [False, True]
    with locked(second):
        assert make_room(place / "other", 180_000)
        assert (second / "00-layer.npy").exists()
    assert not path_of(2).exists()
    assert make_room(place / "other", 180_000)
    assert not second.exists()
