"""Damage: to bytes, to what JSON holds, and to what a zip of arrays holds; and a guard over what is
opened.
"""

import io
import json
import os
import re
import sys
import sysconfig
import tempfile
import warnings
import zipfile
from contextlib import contextmanager
from pathlib import Path

from ttt_envs.core.jit import kernel_folder

ROOT = Path(__file__).resolve().parents[1]

# --------------------------------------------------------------------------------------------------
# Bytes


def damaged_bytes(whole, rng):
    """Bytes with one of them flipped, cut off, repeated, or with others in their place."""
    place = int(rng.integers(max(1, len(whole))))
    length = int(rng.integers(1, 64))
    flipped = bytes([byte ^ 1 << int(rng.integers(8)) for byte in whole[place : place + 1]])
    choices = [
        whole[:place] + flipped + whole[place + 1 :],
        whole[:place],
        whole[place:],
        whole[:place] + rng.bytes(length) + whole[place:],
        whole[:place] + rng.bytes(length) + whole[place + length :],
        whole[:place] + whole[max(0, place - 40) :],
    ]
    return choices[rng.integers(len(choices))]


# --------------------------------------------------------------------------------------------------
# JSON

HUGE = "@huge@"  # stands for a number that json.dumps does not write
VALUES = [
    None, True, False, 0, 1, -1, 2, 5, 10**30, -(10**19), 2**63, 0.5, -0.5, 1e308, float("nan"),
    float("inf"), HUGE, "",
    "x", "random", "self", "none", "../x", "\x00", "\ud800", "0" * 5000, "run:run", [], {}, [1],
    {"a": 1}, [[[[]]]],
    [None],
]  # fmt: skip


def _nodes(data, path=()):
    yield path
    keys = range(len(data)) if isinstance(data, list) else data
    for key in keys if isinstance(data, dict | list) else ():
        yield from _nodes(data[key], (*path, key))


def damaged_json(data, rng):
    """JSON text in which any node is deleted, doubled, replaced, nested deeply, or of another
    type.
    """
    root = [json.loads(json.dumps(data))]
    paths = list(_nodes(root))[1:]
    *path, key = paths[rng.integers(len(paths))]
    holder = root
    for part in path:
        holder = holder[part]
    value = holder[key]
    kind = rng.integers(4)
    other = VALUES[rng.integers(len(VALUES))]
    if kind == 0 and path:
        del holder[key]
    elif kind == 1 and isinstance(holder, list):
        holder.insert(key, value)
    elif kind == 1:  # the same name twice, or under another name
        holder[key + ("@twice@" if rng.integers(2) else "_")] = other
    elif kind == 2:
        holder[key] = other
    else:
        number = value if isinstance(value, (int, float)) else len(str(value))
        others = [
            str(value),
            [value],
            {"a": value},
            bool(value),
            number + 1,
            -number,
            number * 1e9,
            float(number),
        ]
        holder[key] = [*others, _deep(value)][rng.integers(len(others) + 1)]
    text = json.dumps(root[0] if len(root) == 1 else root)
    return text.replace(f'"{HUGE}"', "9" * 5000).replace("@twice@", "")


def _deep(value):
    for _ in range(200):
        value = [value]
    return value


def damaged_lines(lines, rng):
    """Lines of JSON, of which one is damaged, lost, doubled, torn, or stands elsewhere."""
    lines = list(lines)
    kind = rng.integers(6)
    place = int(rng.integers(len(lines)))
    line = lines.pop(place)
    put = (
        [damaged_json(json.loads(line), rng)]
        if kind <= 2
        else [line[: int(rng.integers(len(line)))]]
    )
    lines[place:place] = {3: [], 4: [line, line]}.get(kind, put)
    if kind == 4:
        lines.insert(int(rng.integers(len(lines))), lines.pop(place))
    return "\n".join(lines) + "\n" * int(rng.integers(2))


# --------------------------------------------------------------------------------------------------
# Zips of arrays

HEADERS = {
    rb"'descr': '[^']*'": [
        b"'descr': '%b'" % kind
        for kind in (b"|O", b"|V8", b"<U99999999", b">f8", b"zz", b"|S9999999999")
    ],
    rb"'shape': \([^)]*\)": [
        b"'shape': %b" % shape
        for shape in (b"(1099511627776,)", b"(-1,)", b"()", b"(1e9,)", b"None")
    ],
    rb"False": [b"True", b"None", b"__import__('os')"],
    rb"(?s).*": [b"", b"{}", b"{" * 3000, b"(" * 9000, b"9" * 5000, b"\x00"],
}
"""Parts of the headers of arrays, and what may stand in their places."""


def damaged_array(whole, rng):
    """The bytes of a file of one array, with another header."""
    end = 10 + int.from_bytes(whole[8:10], "little")
    pattern = [*HEADERS][rng.integers(len(HEADERS))]
    part = HEADERS[pattern][rng.integers(len(HEADERS[pattern]))]
    header = re.sub(pattern, lambda _: part, whole[10:end], count=1)
    return whole[:8] + len(header).to_bytes(2, "little") + header + whole[end:]


def damaged_zip(whole, rng):
    """A zip with an entry renamed, lost, doubled, exchanged, of other content, compressed, or one
    too many.
    """
    with zipfile.ZipFile(io.BytesIO(whole)) as archive:
        entries = [
            [entry.filename, archive.read(entry), zipfile.ZIP_STORED]
            for entry in archive.infolist()
        ]
        comment = archive.comment
    target, other = (entries[index] for index in rng.integers(len(entries), size=2))
    names = [
        "x.npy",
        "../x.npy",
        "/tmp/x.npy",
        "x",
        "",
        "x.npy/",
        "\x00.npy",
        "x" * 60_000 + ".npy",
        "learner.x.npy",
    ]
    name = names[rng.integers(len(names))]
    kind = rng.integers(9)
    if kind == 0:
        target[0] = name
    elif kind == 1:
        entries.remove(target)
    elif kind == 2:
        entries.append(list(target))
    elif kind == 3:
        target[1], other[1] = other[1], target[1]
    elif kind == 4:
        target[1] = damaged_bytes(target[1], rng)
    elif kind == 5:
        target[1] = damaged_array(target[1], rng)
    elif kind == 6:  # what grows when it is read
        target[1:] = target[1] + bytes(20_000_000), zipfile.ZIP_DEFLATED
    elif kind == 7:
        entries.append([name, rng.bytes(100), zipfile.ZIP_STORED])
    else:
        comment = [b"", b"sha256:", comment[:-1], rng.bytes(60_000)][rng.integers(4)]
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of names that are there twice
        for name, content, compression in entries:
            info = zipfile.ZipInfo("x")
            info.filename = name
            info.compress_type = compression
            archive.writestr(info, content)
        archive.comment = comment
    written = bytearray(out.getvalue())
    if rng.integers(6) == 0:  # sizes that are not so, in the directory at the end
        place = written.rfind(b"PK\x01\x02") + int(rng.choice([16, 20, 24, 28, 42]))
        written[place : place + 4] = rng.choice(
            [b"\xff\xff\xff\xff", b"\xfe\xff\xff\x7f", b"\x00\x00\x00\x00"]
        )
    return bytes(written)


# --------------------------------------------------------------------------------------------------
# What is opened

_WRITE = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_CHANGES = {"os.remove": 1, "os.rename": 2, "os.mkdir": 1, "os.rmdir": 1, "os.link": 2,
            "os.symlink": 2, "os.chmod": 1,
            "os.truncate": 1, "shutil.rmtree": 1, "os.chown": 1}  # fmt: skip
_NEVER = (
    "socket.connect",
    "socket.bind",
    "os.system",
    "os.exec",
    "os.posix_spawn",
    "pty.spawn",
    "ctypes.dlopen",
)
_installed = False
_look = []
"""The function of the guard that is active: takes an event, a path, and whether it is written."""


def _hook(event, arguments):
    if not _look:
        return
    if event == "open" and isinstance(arguments[0], (str, bytes)):
        path, mode, flags = arguments
        _look[0](
            event, path, bool(flags & _WRITE) or any(letter in (mode or "") for letter in "wax+")
        )
    elif event in _CHANGES:
        beside = arguments[-1]  # a descriptor of the folder, or -1
        for path in arguments[: _CHANGES[event]]:
            if isinstance(path, (str, bytes, os.PathLike)):
                within = (
                    os.readlink(f"/proc/self/fd/{beside}")
                    if isinstance(beside, int) and beside > 2
                    else ""
                )
                _look[0](event, os.path.join(within, os.fsdecode(path)), True)
    elif event in _NEVER or (
        event == "subprocess.Popen" and Path(os.fsdecode(arguments[0])).name != "git"
    ):
        _look[0](
            event, f"/{arguments[:2]}", True
        )  # but for git: which revision it is; no such path may be written


@contextmanager
def guarded(folder):
    """Within, whatever is opened for writing is in ``folder`` or a cache, and whatever is read
    there or of Python.

    Audit hooks cannot be removed: there is one, which looks at nothing elsewhere.
    """
    global _installed
    if not _installed:
        sys.addaudithook(_hook)
        _installed = True
    caches = [os.environ[name] for name in ("TTT_ENVS_CACHE", "MPLCONFIGDIR") if name in os.environ]
    caches.append(kernel_folder())  # some kernel may not have been compiled yet
    write = [folder, *caches, ROOT / ".hypothesis", "/dev/null", "/dev/tty"]
    python = [sys.prefix, sys.base_prefix, *sysconfig.get_paths().values(), *filter(None, sys.path)]
    read = [
        *write,
        ROOT,
        *python,
        "/proc",
        "/sys",
        "/dev",
        "/etc",
        "/usr/share",
        "/usr/lib",
        "/lib",
    ]
    roots = {True: tuple(map(os.path.realpath, write)), False: tuple(map(os.path.realpath, read))}
    faults: list[str] = []

    def look(event, path, writes):
        path = os.fsdecode(path)
        if "\0" in path:  # nothing can be opened so
            return
        real = os.path.realpath(path)
        inside = any(real == root or real.startswith(f"{root}/") for root in roots[writes])
        if (
            not inside and "__pycache__" not in real and "/__autograph_generated_file" not in real
        ):  # of TensorFlow
            faults.append(f"{event} {path}")

    usual = tempfile.tempdir
    tempfile.tempdir = str(folder)  # TensorFlow writes temporary sources
    _look.append(look)
    try:
        yield faults
    finally:
        _look.clear()
        tempfile.tempdir = usual
    assert not faults, faults[:5]
