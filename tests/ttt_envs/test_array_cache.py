"""Arrays that are kept on disk; what the solver, tables and compression keep is tested with them."""

import os

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from ttt_envs.core import array_cache
from ttt_envs.core.array_cache import (
    CACHE_BYTES_VARIABLE,
    CACHE_VARIABLE,
    cache_path,
    cache_root,
    load_or_compute,
    make_room,
    max_cache_bytes,
)
from ttt_envs.core.files import locked

ARRAY = np.arange(12.0).reshape(3, 4)


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "kept"))
    monkeypatch.delenv(CACHE_BYTES_VARIABLE, raising=False)
    return tmp_path / "kept"


def loaded(size, array=ARRAY):
    """The array of this size, and whether it had to be computed."""
    computed = []

    def compute():
        computed.append(size)
        return array.copy()

    return load_or_compute("array", {"size": size}, array.shape, compute, min_bytes=0), bool(computed)


def path_of(size):
    return cache_path("array", {"size": size}).with_suffix(".npy")


def test_cached_arrays_are_mapped_and_read_only(place):
    for is_computed in (True, False):
        found, was_computed = loaded(3)
        assert was_computed is is_computed
        assert_array_equal(found, ARRAY, strict=True)
        assert isinstance(found.base, np.memmap) is not is_computed
        with pytest.raises(ValueError, match="read-only"):
            found[0, 0] = 1
    assert [path_of(3)] == list(place.iterdir())
    assert place == cache_root()


def test_small_arrays_are_not_stored(place):
    found = load_or_compute("array", {}, (3, 4), ARRAY.copy)
    assert_array_equal(found, ARRAY, strict=True)
    assert not found.flags.writeable
    assert not place.exists()


@pytest.mark.parametrize("damage", ["content", "the end", "no array", "objects"])
def test_other_and_damaged_arrays_are_computed_again(damage):
    loaded(3)
    path = path_of(3)
    if damage == "the end":
        path.write_bytes(path.read_bytes()[:-8])
    elif damage == "no array":
        path.write_bytes(b"")
    elif damage != "content":
        np.save(path, np.array([{}]), allow_pickle=True)
    for is_computed in (True, False):
        found, was_computed = loaded(4 if damage == "content" else 3)
        assert_array_equal(found, ARRAY, strict=True)
        assert was_computed is is_computed


def test_the_least_recently_used_is_evicted_also_of_a_killed_writer(place, monkeypatch):
    large = np.zeros(10_000)
    for size in range(4):
        loaded(size, large)
    unfinished = place / "array-0123456789abcdef.npy01234567.tmp"
    for path in (unfinished, place / "mine.npy"):
        path.write_bytes(bytes(10_000))
        os.utime(path, (1e9 - 9, 1e9 - 9))
    for age, number in enumerate((2, 0, 3, 1)):  # the last is the oldest
        os.utime(path_of(number), (1e9 - age, 1e9 - age))
    assert not loaded(1, large)[1]  # and now it is the newest
    monkeypatch.setenv(CACHE_BYTES_VARIABLE, "250000")  # of three arrays
    loaded(4, large)
    assert [path_of(number).exists() for number in range(4)] == [False, True, True, False]
    assert (place / "mine.npy").exists()
    assert not unfinished.exists()


def test_arrays_larger_than_the_cache_are_not_stored(monkeypatch):
    loaded(1)
    monkeypatch.setenv(CACHE_BYTES_VARIABLE, "5000")
    assert [loaded(2, np.zeros(1000))[1] for _ in range(2)] == [True, True]
    assert not make_room(path_of(1), 5_001)
    assert path_of(1).exists()
    monkeypatch.setenv(CACHE_BYTES_VARIABLE, "0")
    assert loaded(1)[1]
    monkeypatch.setenv(CACHE_BYTES_VARIABLE, "many")
    with pytest.raises(ValueError, match=r"TTT_ENVS_CACHE_BYTES='many' is no number of bytes: write 4294967296"):
        max_cache_bytes()


def test_cache_is_off_if_its_folder_is_a_file(place):
    place.write_text("")
    assert [loaded(1)[1] for _ in range(2)] == [True, True]
    assert not make_room(path_of(1), 10)


def test_default_cache_folder_is_private(tmp_path, monkeypatch):
    monkeypatch.delenv(CACHE_VARIABLE)
    monkeypatch.setattr(array_cache.platformdirs, "user_cache_path", lambda name: tmp_path / name)
    loaded(1)
    folder = path_of(1).parent
    assert folder == tmp_path / "ttt_envs"
    assert folder.stat().st_mode & 0o777 == 0o700


def filled(number):
    folder = cache_path("layers", {"number": number})
    assert make_room(folder, 80_000)
    folder.mkdir(exist_ok=True)
    (folder / "00-layer.npy").write_bytes(bytes(80_000))
    (folder / "manifest.json").write_text("{}")
    return folder


def test_cached_folders_count_towards_the_limit(place, monkeypatch):
    first = filled(1)
    assert first.parent == place
    os.utime(first, (1e9, 1e9))
    assert make_room(first, 0)
    assert first.stat().st_mtime > 1e9  # it was used
    os.utime(first, (1e9, 1e9))
    monkeypatch.setenv(CACHE_BYTES_VARIABLE, "190000")
    loaded(2, np.zeros(10_000))
    assert (first / "00-layer.npy").exists()  # there is room for both
    os.utime(path_of(2), (2e9, 2e9))
    second = filled(3)
    assert not first.exists()
    assert path_of(2).exists()
    with locked(second):
        assert make_room(place / "other", 180_000)
        assert (second / "00-layer.npy").exists()  # somebody writes there
    assert not path_of(2).exists()
    assert make_room(place / "other", 180_000)
    assert not second.exists()
