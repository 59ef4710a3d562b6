"""Pieces of work whose results are kept as soon as they are there: killed at any time, the same call goes on."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from ttt_envs.files import held, open_to_write, parse_json, read_bounded, tidy, write_whole
from ttt_envs.parallel import Jobs, do_blocks

Unit = Mapping[str, Any]
"""JSON-ready settings of one piece of work"""

UNITS = "units.jsonl"
"""the file in a folder in which results are kept, a line for each"""


def do_units(
    measure: Callable[[Unit], Any],
    units: Sequence[Unit],
    folder: Path,
    made_by: Mapping[str, Any],
    *,
    jobs: Jobs = 1,
    others: Sequence[str] = (),
    arrived: Callable[[Unit, Any], Any] = lambda unit, result: result,
) -> Generator[tuple[int, Any], None, None]:
    """Do pieces of work, but for those that are done already.

    Every result is a line of ``units.jsonl`` in the folder before it is handed out. Close the generator when enough are
    done.

    Args:
        measure: does one piece; a function of a module, for it may run in another process. Returns JSON-ready data.
        units: the pieces, each another.
        folder: where results are kept, also of pieces that are not asked for now; those that something else made are
            thrown away. It is made where there is none.
        made_by: JSON-ready: versions and whatever else decides results.
        jobs: who works.
        arrived: takes a piece and its result here, before it is kept, and returns what is kept of it.
        others: names of files of the caller's in the folder: what a killed writer of theirs has left goes, too.

    Yields:
        The number of a piece and its result, as it is read from the file: first those that are kept, in order, then
        the others as they get done.

    Raises:
        ValueError: another process works in the folder, or something in it is no file.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with held(folder):
        tidy(folder, (UNITS, *others))
        head = json.dumps({"made_by": dict(made_by)})
        kept = _kept(folder / UNITS, head)
        names = [json.dumps(unit, sort_keys=True) for unit in units]
        missing = [index for index, name in enumerate(names) if name not in kept]
        lines = [head, *(_line(name, result) for name, result in kept.items())]
        write_whole(folder / UNITS, lambda file: file.write(("\n".join(lines) + "\n").encode()))
        yield from ((index, kept[name]) for index, name in enumerate(names) if name in kept)
        work = do_blocks(measure, ((units[index],) for index in missing), jobs)
        with open_to_write(folder / UNITS) as file, closing(work) as results:
            file.seek(0, os.SEEK_END)
            for number, result in results:
                line = _line(names[missing[number]], arrived(units[missing[number]], result))
                file.write(line.encode() + b"\n")
                file.flush()
                yield missing[number], json.loads(line)["result"]


def _line(name: str, result: Any) -> str:
    """What is kept of a unit, as a line: a hash in it tells damage that is JSON, too."""
    data = {"unit": json.loads(name), "result": result}
    return json.dumps({**data, "sha256": hashlib.sha256(json.dumps(data).encode()).hexdigest()})


def _kept(path: Path, head: str) -> dict[str, Any]:
    """The results in a file, by the unit as JSON; none where its first line is another."""
    try:
        content = read_bounded(path)
    except FileNotFoundError:
        return {}
    lines = content.decode(errors="replace").splitlines()
    if not lines or lines[0] != head:
        return {}
    kept = {}
    for line in lines[1:]:
        try:
            data = parse_json(line, nan=True)
            name, result = json.dumps(data["unit"], sort_keys=True), data["result"]
            if line == _line(name, result):
                kept[name] = result
        except (ValueError, KeyError, TypeError):  # the end of a file whose writer was killed
            continue
    return kept
