"""Files of arrays: what is wrong with them is one sentence, and nothing wrong is taken for right."""

import os
import re
import zipfile

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from learners.checkpoint import load_arrays, save_arrays

ARRAYS = {
    "learner.values": np.linspace(0, 1, 12).reshape(3, 4),
    "learner.counts": np.arange(5),
    "by columns": np.asfortranarray(np.arange(6, dtype=np.int8).reshape(2, 3)),
    "none": np.zeros((0, 3), np.float32),
    "one": np.array(2.5, np.float32),
    "flags": np.array([True, False]),
}


@pytest.fixture
def path(tmp_path):
    save_arrays(tmp_path / "arrays.npz", ARRAYS)
    return tmp_path / "arrays.npz"


def assert_as_saved(arrays):
    assert arrays.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        assert arrays[name].dtype == array.dtype
        assert_array_equal(arrays[name], array, strict=True)


def test_arrays_are_read_as_written_and_need_a_hash(path):
    assert_as_saved(load_arrays(path))
    with zipfile.ZipFile(path) as archive:
        assert re.fullmatch(b"sha256:[0-9a-f]{64}", archive.comment)
    with np.load(path, allow_pickle=False) as file:  # anybody can read it, and there is nothing else in it
        assert_as_saved(dict(file))
    np.savez(path, **ARRAYS)
    with pytest.raises(ValueError, match="its arrays are not those that were written"):
        load_arrays(path)


@pytest.mark.parametrize("count", [400, pytest.param(None, marks=pytest.mark.slow)])
def test_flipped_bits_are_refused_or_harmless(path, count):
    """No flip is a traceback, and none gives other arrays."""
    whole, refused = path.read_bytes(), 0
    places = [(place, bit) for place in range(len(whole)) for bit in (1, 2, 4, 8, 16, 32, 64, 128, 255)]
    chosen = np.random.default_rng(0).permutation(len(places))[:count]
    for place, bit in (places[number] for number in chosen):
        damaged = bytearray(whole)
        damaged[place] ^= bit
        path.write_bytes(damaged)
        try:
            read, said = load_arrays(path), ""
        except ValueError as problem:
            read, said = ARRAYS, str(problem)
            refused += 1
        assert_as_saved(read)
        assert said.startswith(f"{path} " * bool(said))
        assert "\n" not in said
    assert refused > (200 if count else len(whole))


def test_arrays_with_another_hash_are_refused(path, tmp_path):
    """A whole zip of other arrays beside the hash of these."""
    with zipfile.ZipFile(path) as archive:
        said = archive.comment

    def exchanged(arrays):
        np.savez(path, **arrays)
        with zipfile.ZipFile(path, "a") as archive:
            archive.comment = said

    exchanged(ARRAYS)
    assert_as_saved(load_arrays(path))
    for change in (
        {"learner.counts": np.arange(5)[::-1].copy()},
        {"learner.counts": np.arange(5, dtype=np.uint64)},
        {"learner.values": ARRAYS["learner.values"].reshape(4, 3)},
        {"more": np.zeros(1)},
    ):
        exchanged({**ARRAYS, **change})
        with pytest.raises(ValueError, match="its arrays are not those that were written"):
            load_arrays(path)
    exchanged({name: array for name, array in ARRAYS.items() if name != "one"})
    with pytest.raises(ValueError, match="its arrays are not those that were written"):
        load_arrays(path)


def zipped(path, name, content, **how):
    with zipfile.ZipFile(path, "w", **how) as archive:
        archive.writestr(name, content)


@pytest.mark.parametrize(
    "header",
    [
        "{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,), }",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (-1,), }",
        "{'descr': '|O', 'fortran_order': False, 'shape': (1,), }",
        "{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (1,), }",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (1L,), }",
        "{'descr': '<f8', 'fortran_order': False, 'shape': ((((",
        "[" * 5_000,
        "\x00",
    ],
)
def test_invalid_headers_are_refused(header, tmp_path):
    text = header.encode() + b"\n"
    content = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + bytes(8)
    zipped(tmp_path / "a.npz", "a.npy", content)
    with pytest.raises(ValueError, match="cannot be read as a file of arrays"):
        load_arrays(tmp_path / "a.npz")


def test_arrays_larger_than_the_limit_are_refused(path):
    with pytest.raises(ValueError, match="at most 100 are read"):
        load_arrays(path, limit=100)


@pytest.mark.parametrize("made", ["pipe", "link", "device", "folder"])
def test_pipes_links_and_folders_are_refused(made, path, tmp_path):
    other = tmp_path / "other.npz"
    if made == "pipe":
        os.mkfifo(other)
    elif made == "folder":
        other.mkdir()
    else:
        other.symlink_to(path if made == "link" else "/dev/zero")
    with pytest.raises(ValueError, match=r"other\.npz is a (pipe|link|folder), not a regular file"):
        load_arrays(other)
