"""Files that are written whole or not at all, and files of others."""

import json
import os
from io import DEFAULT_BUFFER_SIZE

import pytest

from ttt_envs.core import files
from ttt_envs.core.files import (
    delete_temporary_files,
    locked,
    open_to_read,
    open_to_write,
    parse_json,
    read_bounded,
    read_json,
    write_atomically,
    write_json,
)


def test_what_is_no_regular_file_is_refused_at_once(tmp_path):
    """Links, of which the targets stay, folders, pipes, which would block, and devices."""
    (tmp_path / "target").write_text("1")
    for name, target in (
        ("link", tmp_path / "target"),
        ("dangling", tmp_path / "nowhere"),
        ("zero", "/dev/zero"),
    ):
        (tmp_path / name).symlink_to(target)
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    names = ["link", "dangling", "zero", "folder", "pipe"]
    for path in [*(tmp_path / name for name in names), files.Path("/dev/zero")]:
        for opened in (open_to_read, open_to_write, read_bounded, read_json):
            with pytest.raises(ValueError, match=path.name):
                opened(path)
    assert (tmp_path / "target").read_text() == "1"
    assert not (tmp_path / "nowhere").exists()
    write_json(tmp_path / "link", [5])  # replaces the link, and leaves what it leads to alone
    assert not (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_text() == "1"


def test_reading_is_bounded(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"[1, 2, 3]")
    assert (read_bounded(path, 9), read_json(path, 9)) == (b"[1, 2, 3]", [1, 2, 3])
    for opened in (open_to_read, read_bounded, read_json):
        with pytest.raises(ValueError, match="file has 9 bytes"):
            opened(path, 8)
    with pytest.raises(FileNotFoundError):
        open_to_read(tmp_path / "none")


@pytest.mark.parametrize(
    "text",
    [
        b"{",
        b"\xff",
        "[" * 100_000,
        "[" * 100_000 + "]" * 100_000,
        "9" * 10_000,
        "[NaN]",
        "[-1e999]",
        '"\\ud800"',
    ],
    ids=lambda text: str(text[:9]),
)
def test_invalid_json_is_refused(text, tmp_path):
    with pytest.raises(ValueError, match=r"."):
        parse_json(text, 10**6)
    (tmp_path / "file").write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ValueError, match="file cannot be read") as refused:
        read_json(tmp_path / "file")
    assert len(str(refused.value)) < 1000


def test_json_is_read_as_it_was_written(tmp_path):
    data = {"a": [1.5, -2, None, True, "[[[" * 99], "b": [[[[[[]]]]]] * 999, "c": 10**50}
    write_json(tmp_path / "file", data)
    assert read_json(tmp_path / "file") == data == json.loads((tmp_path / "file").read_text())


def test_only_temporary_files_of_these_names_are_removed(fresh, tmp_path):
    """As a killed writer leaves them."""
    keep = ["a.json", "a.jsonabcdefg.tmp", "b.jsonabcdefgh.tmp"]
    for name in (*keep, "a figure.png01234567.tmp"):
        (tmp_path / name).touch()
    write = f"write_atomically(Path({str(tmp_path)!r}) / 'x.npz', lambda file: os._exit(0))"
    fresh(
        "import os",
        "from pathlib import Path",
        "from ttt_envs.core.files import write_atomically",
        write,
    )
    assert len(list(tmp_path.glob("x.npz*"))) == 1
    delete_temporary_files(tmp_path, ("a.json", "x.npz", "*.png"))
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(keep)


def test_files_are_synced_before_renaming(tmp_path, monkeypatch):
    done = []
    replace = os.replace
    monkeypatch.setattr(
        files.os, "fsync", lambda file: done.append(("fsync", os.fstat(file).st_size))
    )
    monkeypatch.setattr(
        files.os,
        "replace",
        lambda source, target: done.append(("replace", 5)) or replace(source, target),
    )
    write_atomically(tmp_path / "file", lambda file: file.write(b"12345"))
    assert done == [("fsync", 5), ("replace", 5)]


def test_folder_locks_are_exclusive(tmp_path):
    with locked(tmp_path):
        with pytest.raises(ValueError, match="another process is writing"), locked(tmp_path):
            pass
        write_atomically(tmp_path / "file", lambda file: file.write(b"1"))
        assert [path.name for path in tmp_path.iterdir()] == ["file"]
    with locked(tmp_path):
        pass


def test_a_failed_write_to_an_open_file_names_it(tmp_path):
    resource = pytest.importorskip("resource")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024, limits[1]))
    try:
        with (
            open_to_write(tmp_path / "a") as file,
            pytest.raises(OSError, match="File too large") as error,
        ):
            file.write(bytes(2 * DEFAULT_BUFFER_SIZE))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert error.value.filename == str(tmp_path / "a")
