"""Arrays that are kept on disk; what the solver, tables and compression keep is tested with them."""

import json
import os
import sys

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from ttt_envs.core import array_cache
from ttt_envs.core.array_cache import (
    CACHE_BYTES_VARIABLE,
    CACHE_VARIABLE,
    CachedArray,
    cache_root,
    hash_of_sources,
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
    place = CachedArray(name, content, "made")
    assert place.write(array)
    return place


def test_cached_arrays_are_mapped_and_read_only(place):
    assert written(size=3).path.parent == place == cache_root()
    found = CachedArray("array", {"size": 3}, "made").read((3, 4), np.float64)
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
    path.write_bytes(magic + len(header).to_bytes(2, "little") + header + bytes(96))
    with path.open("rb") as file, pytest.raises(ValueError, match="it holds no array of numpy"):
        mapped(file)
    for content in (b"", magic[:4], magic, magic + b"\xff\xff{"):
        path.write_bytes(content)
        with path.open("rb") as file, pytest.raises(ValueError, match="it holds no array of numpy"):
            mapped(file)


def test_cache_entries_differ_by_content_code_shape_and_type():
    written(size=3)
    assert CachedArray("array", {"size": 4}, "made").read((3, 4), np.float64) is None
    assert CachedArray("array", {"size": 3}, "made otherwise").read((3, 4), np.float64) is None
    assert CachedArray("array", {"size": 3}, "made").read((4, 3), np.float64) is None
    assert CachedArray("array", {"size": 3}, "made").read((3, 4), np.int64) is None


LABELS = {"no JSON": "{", "a list": "[1]", "one word more": '{"more": 1, '}
FILES = ("a number", "the end", "no array", "no label", "another's", "a link", "a pipe", "objects")


@pytest.mark.parametrize("damage", [*LABELS, *FILES])
def test_damaged_cache_entries_are_ignored(damage, tmp_path):
    place, other = written(size=3), written(size=4, array=ARRAY + 1)
    whole = place.path.read_bytes()
    if damage == "a number":
        place.path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    elif damage == "the end":
        place.path.write_bytes(whole[:-8])
    elif damage == "no array":
        place.path.unlink()
    elif damage == "no label":
        place.label.unlink()
    elif damage == "another's":
        place.path.write_bytes(other.path.read_bytes())
        place.label.write_bytes(other.label.read_bytes())
    elif damage in LABELS:
        text = place.label.read_text()
        place.label.write_text(LABELS[damage] + (text[1:] if damage == "one word more" else ""))
    elif damage == "a pipe":
        place.path.unlink()
        os.mkfifo(place.path)
    elif damage == "a link":
        place.path.rename(tmp_path / "elsewhere")
        place.path.symlink_to(tmp_path / "elsewhere")
    else:
        np.save(place.path, np.array([{}]), allow_pickle=True)
        label = json.loads(place.label.read_text())
        label["sha256"] = array_cache.hashlib.sha256(place.path.read_bytes()).hexdigest()
        place.label.write_text(json.dumps(label))
    assert place.read((3, 4), np.float64) is None
    assert place.write(ARRAY)
    assert_array_equal(place.read((3, 4), np.float64), ARRAY)
    assert_array_equal(other.read((3, 4), np.float64), ARRAY + 1)


def test_least_recently_read_array_is_evicted(place, monkeypatch):
    places = [written(size=size, array=np.zeros(10_000)) for size in range(4)]
    (place / "mine.json").touch()
    for age, one in enumerate((2, 0, 3, 1)):  # the last is the oldest
        os.utime(places[one].label, (1e9 - age, 1e9 - age))
    assert places[1].read((10_000,), np.float64) is not None  # and now the newest
    monkeypatch.setenv(CACHE_BYTES_VARIABLE, "260000")  # of three arrays and their labels
    written(size=4, array=np.zeros(10_000))
    assert [one.path.exists() for one in places] == [False, True, True, False]
    assert not places[0].label.exists()
    assert (place / "mine.json").exists()


def test_arrays_that_cannot_be_removed_keep_their_labels(place, monkeypatch):
    """As on Windows, while somebody has it mapped."""
    places = [written(size=size, array=np.zeros(10_000)) for size in range(3)]
    for age, one in enumerate(places):  # the last is the oldest
        os.utime(one.label, (1e9 - age, 1e9 - age))
    unlink = array_cache.Path.unlink

    def refuse_one(path, missing_ok=False):
        if path == places[2].path:
            raise PermissionError(13, "Permission denied")
        unlink(path, missing_ok)

    monkeypatch.setattr(array_cache.Path, "unlink", refuse_one)
    monkeypatch.setenv(CACHE_BYTES_VARIABLE, "180000")  # of two arrays and their labels
    new = written(size=3, array=np.zeros(10_000))
    assert new.read((10_000,), np.float64) is not None
    assert [(one.path.exists(), one.label.exists()) for one in places] == [(True, True), (False, False), (True, True)]


def test_arrays_larger_than_the_cache_are_not_stored(place, monkeypatch):
    small = written(size=1)
    monkeypatch.setenv(CACHE_BYTES_VARIABLE, "5000")
    assert not CachedArray("large", {}, "made").write(np.zeros(1000))
    assert small.path.exists()
    monkeypatch.setenv(CACHE_BYTES_VARIABLE, "0")
    assert small.read((3, 4), np.float64) is None
    monkeypatch.setenv(CACHE_BYTES_VARIABLE, "many")
    with pytest.raises(ValueError, match=r"TTT_ENVS_CACHE_BYTES='many' is no number of bytes: write for example"):
        max_cache_bytes()


def test_cache_is_off_if_its_folder_is_a_file(place):
    place.write_text("")
    assert not CachedArray("array", {}, "made").write(ARRAY)
    assert CachedArray("array", {}, "made").read((3, 4), np.float64) is None


def test_default_cache_folder_is_private(place, tmp_path, monkeypatch):
    monkeypatch.delenv(CACHE_VARIABLE)
    monkeypatch.setattr(array_cache.platformdirs, "user_cache_path", lambda name: tmp_path / name)
    (tmp_path / "ttt_envs").mkdir(mode=0o777)
    place = written()
    assert place.path.parent == tmp_path / "ttt_envs"
    assert place.path.parent.stat().st_mode & 0o777 == 0o700


def test_old_temporary_files_are_removed(place):
    written()
    old, new, not_ours = (
        place / f"{name}.tmp" for name in ("a-0123456789abcdef.npyab", "b-0123456789abcdef.npyab", "c")
    )
    for path in (old, new, not_ours):
        path.touch()
    for path in (old, not_ours):
        os.utime(path, (1e9, 1e9))
    written(size=2)
    assert [path.exists() for path in (old, new, not_ours)] == [False, True, True]


def test_hash_of_sources_depends_on_the_code():
    assert hash_of_sources(array_cache) == hash_of_sources(sys.modules["ttt_envs.core.array_cache"])
    assert hash_of_sources(array_cache) != hash_of_sources(array_cache, np)


def filled(number):
    place = make_cached_folder("layers", {"number": number}, 80_000)
    (place / "00-00.npy").write_bytes(bytes(80_000))
    (place / "manifest.json").write_text("{}")
    return place


def test_cached_folders_count_towards_the_limit(place, monkeypatch):
    first = filled(1)
    assert first.parent == place
    assert make_cached_folder("layers", {"number": 1}, 80_000) == first
    os.utime(first, (1e9, 1e9))
    monkeypatch.setenv(CACHE_BYTES_VARIABLE, "190000")
    array = written(size=2, array=np.zeros(10_000))
    assert (first / "00-00.npy").exists()  # there is room for both
    os.utime(array.label, (2e9, 2e9))
    second = filled(3)
    assert not first.exists()
    assert array.path.exists()
    with locked(second):
        assert make_cached_folder("layers", {"number": 4}, 180_000) is not None
        assert (second / "00-00.npy").exists()  # somebody writes there
    assert not array.path.exists()
    (second / "mine.txt").touch()
    assert make_cached_folder("layers", {"number": 4}, 180_000) is not None
    assert [path.name for path in second.iterdir()] == ["mine.txt"]


def test_folders_larger_than_the_cache_are_refused(place, monkeypatch):
    monkeypatch.setenv(CACHE_BYTES_VARIABLE, "100000")
    assert make_cached_folder("layers", {}, 100_000) is None
    assert not place.exists()
    place.write_text("")
    assert make_cached_folder("layers", {}, 10) is None
