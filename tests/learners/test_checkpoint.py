"""Files of arrays: what is wrong with them is one sentence, and nothing wrong is taken for
right.
"""

import re
import zipfile

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from learners.checkpoint import load_arrays, save_arrays

ARRAYS = {
    "counts": np.arange(5),
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
        assert_array_equal(arrays[name], array, strict=True)  # its dtype, too


def test_arrays_are_read_as_written_and_need_a_hash(path):
    assert_as_saved(load_arrays(path))
    with zipfile.ZipFile(path) as archive:
        assert re.fullmatch(b"sha256:[0-9a-f]{64}", archive.comment)
    with np.load(
        path, allow_pickle=False
    ) as file:  # anybody can read it, and there is nothing else in it
        assert_as_saved(dict(file))
    for save, problem in (
        (np.savez, "not those that were written"),
        (np.savez_compressed, "more bytes than it has"),
    ):
        save(path, **ARRAYS, more=np.zeros(10_000))
        with pytest.raises(ValueError, match=problem):
            load_arrays(path)


def test_other_arrays_beside_the_hash_are_refused(path):
    with zipfile.ZipFile(path) as archive:
        comment = archive.comment
    for change in (
        {"counts": np.arange(4, -1, -1)},
        {"counts": np.arange(5, dtype=np.uint64)},
        {"more": np.zeros(1)},
    ):
        np.savez(path, **{**ARRAYS, **change})
        with zipfile.ZipFile(path, "a") as archive:
            archive.comment = comment
        with pytest.raises(ValueError, match="its arrays are not those that were written"):
            load_arrays(path)


@pytest.mark.parametrize(
    "header",
    [
        "{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,), }",
        "{'descr': '|O', 'fortran_order': False, 'shape': (1,), }",
        "{'descr': '<f8', 'fortran_order': False, 'shape': ((((",
        "[" * 5_000,
    ],
)
def test_invalid_headers_are_refused(header, tmp_path):
    text = header.encode() + b"\n"
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr(
            "a.npy", b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + bytes(8)
        )
    with pytest.raises(ValueError, match="cannot be read as a file of arrays"):
        load_arrays(tmp_path / "a.npz")


def test_arrays_larger_than_the_limit_are_refused(path):
    with pytest.raises(ValueError, match="at most 100 are read"):
        load_arrays(path, limit=100)
