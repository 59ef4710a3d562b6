"""Arrays that are kept on disk; what the solver, tables and compression keep is tested with them."""

import os

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from ttt_envs.core import array_cache
from ttt_envs.core.array_cache import (
    CACHE_BYTES_VARIABLE,
    CACHE_VARIABLE,
    CachedArray,
    cache_root,
    make_cached_folder,
    mapped,
    max_cache_bytes,
)
from ttt_envs.core.files import locked

ARRAY = np.arange(12.0).reshape(3, 4)


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "kept"))
    monkeypatch.delenv(CACHE_BYTES_VARIABLE, raising=False)
    return tmp_path / "kept"


def written(name="array", array=ARRAY, **content):
    place = CachedArray(name, content)
    assert place.write(array)
    return place


def test_cached_arrays_are_mapped_and_read_only(place):
    assert written(size=3).path.parent == place == cache_root()
    found = CachedArray("array", {"size": 3}).read((3, 4), np.float64)
    assert_array_equal(found, ARRAY, strict=True)
    assert isinstance(found.base, np.memmap)
    with pytest.raises(ValueError, match="read-only"):
        found[0, 0] = 1


@pytest.mark.parametrize(
    "header",
    [
        pytest.param(b"{'descr': '<f8', 'fortran_order': False, 'shape': (3,", id="not closed"),
        pytest.param(b"{'descr': '<f8', 'fortran_order': False, 'shape': (4611686018427387904, 4)}", id="huge"),
        pytest.param(b"{'descr': '<f8', 'fortran_order': False, 'shape': (-1,)}", id="negative"),
        pytest.param(b"{'descr': '|O', 'fortran_order': False, 'shape': (3,)}", id="objects"),
        pytest.param(b"{'descr': 'zz', 'fortran_order': False, 'shape': (3,)}", id="no type"),
        pytest.param(b"(" * 9000, id="nested"),
        pytest.param(b"x", id="no header"),
        pytest.param(b"\x00", id="zero byte"),
        pytest.param(b"", id="empty"),
    ],
)
def test_files_of_no_array_are_refused(header, tmp_path):
    path = tmp_path / "array.npy"
    np.save(path, ARRAY)
    magic = path.read_bytes()[:8]
    whole = magic + len(header).to_bytes(2, "little") + header + bytes(96)
    for content in (whole, b"", magic[:4], magic, magic + b"\xff\xff{"):
        path.write_bytes(content)
        with path.open("rb") as file, pytest.raises(ValueError, match="it holds no array of numpy"):
            mapped(file)


def test_cache_entries_differ_by_content_shape_and_type():
    written(size=3)
    assert CachedArray("array", {"size": 4}).read((3, 4), np.float64) is None
    assert CachedArray("array", {"size": 3}).read((4, 3), np.float64) is None
    assert CachedArray("array", {"size": 3}).read((3, 4), np.int64) is None


@pytest.mark.parametrize("damage", ["the end", "no array", "objects"])
def test_damaged_cache_entries_are_ignored(damage):
    place = written(size=3)
    if damage == "the end":
        place.path.write_bytes(place.path.read_bytes()[:-8])
    elif damage == "no array":
        place.path.unlink()
    else:
        np.save(place.path, np.array([{}]), allow_pickle=True)
    assert place.read((3, 4), np.float64) is None
    assert place.write(ARRAY)
    assert_array_equal(place.read((3, 4), np.float64), ARRAY)


def test_the_least_recently_used_is_evicted_also_of_a_killed_writer(place, monkeypatch):
    places = [written(size=size, array=np.zeros(10_000)) for size in range(4)]
    unfinished = place / "array-0123456789abcdef.npy01234567.tmp"
    for path in (unfinished, place / "mine.npy"):
        path.write_bytes(bytes(10_000))
        os.utime(path, (1e9 - 9, 1e9 - 9))
    for age, number in enumerate((2, 0, 3, 1)):  # the last is the oldest
        os.utime(places[number].path, (1e9 - age, 1e9 - age))
    assert places[1].read((10_000,), np.float64) is not None  # and now the newest
    monkeypatch.setenv(CACHE_BYTES_VARIABLE, "250000")  # of three arrays
    written(size=4, array=np.zeros(10_000))
    assert [place.path.exists() for place in places] == [False, True, True, False]
    assert (place / "mine.npy").exists()
    assert not unfinished.exists()


def test_arrays_larger_than_the_cache_are_not_stored(monkeypatch):
    small = written(size=1)
    monkeypatch.setenv(CACHE_BYTES_VARIABLE, "5000")
    assert not CachedArray("large", {}).write(np.zeros(1000))
    assert make_cached_folder("layers", {}, 5_001) is None
    assert small.path.exists()
    monkeypatch.setenv(CACHE_BYTES_VARIABLE, "0")
    assert small.read((3, 4), np.float64) is None
    monkeypatch.setenv(CACHE_BYTES_VARIABLE, "many")
    with pytest.raises(ValueError, match=r"TTT_ENVS_CACHE_BYTES='many' is no number of bytes: write for example"):
        max_cache_bytes()


def test_cache_is_off_if_its_folder_is_a_file(place):
    place.write_text("")
    assert not CachedArray("array", {}).write(ARRAY)
    assert CachedArray("array", {}).read((3, 4), np.float64) is None
    assert make_cached_folder("layers", {}, 10) is None


def test_default_cache_folder_is_private(tmp_path, monkeypatch):
    monkeypatch.delenv(CACHE_VARIABLE)
    monkeypatch.setattr(array_cache.platformdirs, "user_cache_path", lambda name: tmp_path / name)
    folder = written().path.parent
    assert folder == tmp_path / "ttt_envs"
    assert folder.stat().st_mode & 0o777 == 0o700


def filled(number):
    folder = make_cached_folder("layers", {"number": number}, 80_000)
    (folder / "00-layer.npy").write_bytes(bytes(80_000))
    (folder / "manifest.json").write_text("{}")
    return folder


def test_cached_folders_count_towards_the_limit(place, monkeypatch):
    first = filled(1)
    assert first.parent == place
    assert make_cached_folder("layers", {"number": 1}, 80_000) == first
    os.utime(first, (1e9, 1e9))
    monkeypatch.setenv(CACHE_BYTES_VARIABLE, "190000")
    array = written(size=2, array=np.zeros(10_000))
    assert (first / "00-layer.npy").exists()  # there is room for both
    os.utime(array.path, (2e9, 2e9))
    second = filled(3)
    assert not first.exists()
    assert array.path.exists()
    with locked(second):
        assert make_cached_folder("layers", {"number": 4}, 180_000) is not None
        assert (second / "00-layer.npy").exists()  # somebody writes there
    assert not array.path.exists()
    assert make_cached_folder("layers", {"number": 4}, 180_000) is not None
    assert not second.exists()
