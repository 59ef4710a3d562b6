"""Files that are written whole or not at all, and files of others."""

import json
import os
import stat
from pathlib import Path

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

OPENED = [open_to_read, open_to_write, read_bounded, read_json]


@pytest.fixture
def odd(tmp_path):
    """Whatever may stand in the place of a file, by kind."""
    (tmp_path / "target").write_text("1")
    (tmp_path / "link").symlink_to(tmp_path / "target")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    (tmp_path / "zero").symlink_to("/dev/zero")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    return tmp_path


@pytest.mark.parametrize("opened", OPENED)
@pytest.mark.parametrize(
    ("name", "kind"),
    [("link", "a link"), ("dangling", "a link"), ("zero", "a link"), ("folder", "a folder"), ("pipe", "a pipe")],
)
def test_links_pipes_and_folders_are_rejected_at_once(opened, name, kind, odd):
    with pytest.raises(ValueError, match=f"{name} is {kind}, not a regular file"):
        opened(odd / name)
    assert (odd / "target").read_text() == "1"
    assert not (odd / "nowhere").exists()


@pytest.mark.parametrize("opened", OPENED)
def test_devices_are_rejected(opened):
    with pytest.raises(ValueError, match="/dev/zero is a device"):
        opened(files.Path("/dev/zero"))


def test_reading_is_bounded(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"[1, 2, 3]")
    assert read_bounded(path, 9) == b"[1, 2, 3]"
    assert read_json(path, 9) == [1, 2, 3]
    for opened in (open_to_read, read_bounded, read_json):
        with pytest.raises(ValueError, match="file has 9 bytes, and at most 8 are read"):
            opened(path, 8)
    with pytest.raises(FileNotFoundError):
        open_to_read(tmp_path / "none")


def test_a_file_is_opened_for_writing_with_what_it_holds(tmp_path):
    with open_to_write(tmp_path / "file") as file:
        file.write(b"one")
    with open_to_write(tmp_path / "file") as file:
        assert file.read() == b"one"
        file.write(b" two")
    assert (tmp_path / "file").read_bytes() == b"one two"
    assert not (tmp_path / "file").stat().st_mode & stat.S_IXUSR


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b"{", "it is not JSON: .* column 2"),
        (b"\xff", "it is not JSON: .* decode byte"),
        ("[" * 100_000, "it is nested too deeply"),
        ("[" * 100_000 + "]" * 100_000, "it is nested too deeply"),
        ("9" * 10_000, "10000 digits"),
        ("[NaN]", "NaN is no number"),
        ("-Infinity", "-Infinity is no number"),
        ("[-1e999]", "-1e999 is no number"),
        ("9" * 400 + ".0", r"9+\.\.\. is no number"),
        (b"1" * 10, "it has more than 8 bytes"),
    ],
)
def test_invalid_json_is_rejected(text, problem, tmp_path):
    most = 8 if "8 bytes" in problem else 10**6
    with pytest.raises(ValueError, match=problem):
        parse_json(text, most)
    if most > 8:
        (tmp_path / "file").write_bytes(text if isinstance(text, bytes) else text.encode())
        with pytest.raises(ValueError, match=f"file cannot be read: .*{problem}"):
            read_json(tmp_path / "file")


def test_json_is_read_as_it_was_written(tmp_path):
    data = {"a": [1.5, -2, None, True, "[[[" * 99], "b": [[[[[[]]]]]] * 999, "c": 10**50}
    write_json(tmp_path / "file", data)
    assert read_json(tmp_path / "file") == data
    assert parse_json("[Infinity, -1e999]", nan=True) == [float("inf"), -float("inf")]


def test_a_link_is_replaced_and_what_it_leads_to_is_left_alone(odd):
    write_json(odd / "link", [5])
    assert not (odd / "link").is_symlink()
    assert json.loads((odd / "link").read_text()) == [5]
    assert (odd / "target").read_text() == "1"


def test_write_errors_name_the_file(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:

        def read_only(path, mode):
            raise PermissionError(13, "Permission denied", str(path))

        patch.setattr(Path, "open", read_only)
        with pytest.raises(PermissionError, match=r"Permission denied: '[^']*/wanted\.json'$"):
            write_json(tmp_path / "wanted.json", [])
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match=r"file/wanted\.json'$"):
        write_json(tmp_path / "file" / "wanted.json", [])


def test_only_temporary_files_are_removed(tmp_path):
    keep = ["a.json", "a.jsonabcdefg.tmp", "b.jsonabcdefgh.tmp", "my a.jsonabcdefgh.tmp", "a.jsonabcdefgh.tmp.txt"]
    keep += ["a.svgabcdefgh.tmp", "a.PNGabcdefgh.tmp"]
    for name in (*keep, "a.jsonabc_ef9h.tmp", "x.npz01234567.tmp", "a figure.png01234567.tmp"):
        (tmp_path / name).touch()
    delete_temporary_files(tmp_path, ("a.json", "x.npz", "*.png"))
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(keep)
    delete_temporary_files(tmp_path / "nowhere", ("a",))


def test_a_killed_writer_leaves_what_is_tidied(fresh, tmp_path):
    write = f"write_atomically(Path({str(tmp_path)!r}) / 'a.json', lambda file: os._exit(0))"
    fresh("import os", "from pathlib import Path", "from ttt_envs.core.files import write_atomically", write)
    assert len(list(tmp_path.iterdir())) == 1
    delete_temporary_files(tmp_path, ("a.json",))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("umask", [0o022, 0o027, 0o077])
def test_permissions_follow_the_umask(umask, tmp_path):
    before = os.umask(umask)
    try:
        write_atomically(tmp_path / "new", lambda file: file.write(b"1"))
        (tmp_path / "other").write_bytes(b"1")
    finally:
        os.umask(before)
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("new", "other")]
    assert modes == [0o666 & ~umask] * 2


def test_files_are_synced_before_renaming(tmp_path, monkeypatch):
    done, replace = [], os.replace
    monkeypatch.setattr(files.os, "fsync", lambda file: done.append(("fsync", os.fstat(file).st_size)))

    def replaced(source, target):
        done.append(("replace", os.path.getsize(source)))
        replace(source, target)

    monkeypatch.setattr(files.os, "replace", replaced)
    write_atomically(tmp_path / "file", lambda file: file.write(b"12345"))
    assert done == [("fsync", 5), ("replace", 5)]


def test_folder_locks_are_exclusive(tmp_path):
    with locked(tmp_path):
        with pytest.raises(ValueError, match=f"another process is writing in {tmp_path}: wait"), locked(tmp_path):
            pass
        write_atomically(tmp_path / "file", lambda file: file.write(b"1"))
        assert [path.name for path in tmp_path.iterdir()] == ["file"]
    with locked(tmp_path):
        pass
