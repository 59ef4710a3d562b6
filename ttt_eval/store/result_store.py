"""Units of work with stored results: after a kill, the same call resumes."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from io import StringIO
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from ttt_envs.core.checks import Refusal, name_place, truncate
from ttt_envs.core.files import (
    delete_temporary_files,
    hash_json,
    locked,
    open_to_write,
    parse_json,
    read_bounded,
    read_json,
    write_bytes,
)
from ttt_envs.core.jit import Float64Array
from ttt_envs.core.parallel import Jobs, map_blocks

Content = TypeVar("Content")
Data = dict[str, Any]
"""A JSON object; docs/files.md documents the keys of those in files."""
Unit = Mapping[str, Any]
"""JSON-ready settings of one unit of work."""

RESULT_VERSION = 2
"""Version of the code that determines stored results: raise it with a change that alters any of
them.
"""
RESULT = "result.json"
"""File in a folder of results that holds what follows from all of them, as data."""
TABLE = "table.md"
"""The same for readers."""
UNITS = "units.jsonl"
"""File in a folder that stores results, one per line."""


def no_progress(count: object, total: object) -> None:
    """Take the progress of work that nobody watches."""


def do_units(
    measure: Callable[[Unit], object],
    units: Sequence[Unit],
    folder: Path,
    provenance: Mapping[str, object],
    *,
    jobs: Jobs = 1,
    other_files: Sequence[str] = (),
    postprocess: Callable[[Unit, Any], object] = lambda unit, result: result,
) -> Generator[tuple[int, Any], None, None]:
    """Do the units of work that are not done yet.

    Every result is a line of ``units.jsonl`` in the folder before it is yielded. Close the
    generator to stop early.

    Args:
        measure: does one unit and returns JSON-ready data; a module-level function, because it may
            run in another process.
        units: distinct units.
        folder: folder of the results, created if missing. It also keeps the results of units not
            requested now.
        provenance: JSON-ready: versions and everything else that determines results; the same at
            every call.
        jobs: the workers.
        other_files: names of the caller's files in the folder besides results, tables and pages, or
            patterns of names: leftovers of their killed writers are removed, too.
        postprocess: takes a unit and its result in this process, before storage, and returns the
            data to store.

    Yields:
        The number of a unit and its result, as read from the file: first the stored ones, in order,
        then the others as they are done.

    Raises:
        ValueError: another process works in the folder, something in it is no file, or its results
            have another ``provenance``; they are kept.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder):
        delete_temporary_files(folder, (UNITS, RESULT, TABLE, "*.html", *other_files))
        head = json.dumps({"provenance": dict(provenance)})
        old_results = _stored_results(folder / UNITS, json.loads(head)["provenance"])
        names = [json.dumps(unit, sort_keys=True) for unit in units]
        lines = [head, *(_line(name, result) for name, result in old_results.items())]
        write_bytes(folder / UNITS, ("\n".join(lines) + "\n").encode())
        missing: list[int] = []
        for index, name in enumerate(names):
            if name in old_results:
                yield index, old_results[name]
            else:
                missing.append(index)
        work = map_blocks(measure, ((units[index],) for index in missing), jobs)
        with open_to_write(folder / UNITS) as file, closing(work) as results:
            file.seek(0, os.SEEK_END)
            for number, result in results:
                line = _line(names[missing[number]], postprocess(units[missing[number]], result))
                file.write(line.encode() + b"\n")
                file.flush()
                yield missing[number], json.loads(line)["result"]


def collect_results(
    measure: Callable[[Unit], object],
    units: Sequence[Unit],
    folder: Path,
    provenance: Mapping[str, object],
    *,
    progress: Callable[[int, int], None] = no_progress,
    **options: Any,
) -> list[Any]:
    """Return the results of all units, in order; see :func:`do_units`.

    Args:
        measure, units, folder, provenance, options: as there.
        progress: called with the number of units done, and the total.
    """
    progress(0, len(units))
    results: dict[int, Any] = {}
    with closing(do_units(measure, units, folder, provenance, **options)) as results_by_number:
        for number, result in results_by_number:
            results[number] = result
            progress(len(results), len(units))
    return [results[number] for number in range(len(units))]


def hash_data(data: Mapping[str, object]) -> str:
    """Return the SHA-256 of JSON-ready data, without its key ``sha256``."""
    content = {key: value for key, value in data.items() if key != "sha256"}
    return hash_json(content, sort_keys=True)


def with_hash(kind: str, data: Mapping[str, object]) -> Data:
    """Return JSON-ready data with what :func:`read_hashed_json` checks: the format 1, the kind, and
    the hash.
    """
    content = {"format": 1, "kind": kind, **data}
    return {**content, "sha256": hash_data(content)}


def json_numbers(values: Float64Array) -> list[Any]:
    """Return numbers as nested lists, None for NaN."""
    # 0.0 in place of -0.0
    numbers: list[Any] = np.where(np.isnan(values), np.array(None), values + 0.0).tolist()
    return numbers


def write_csv(path: Path, rows: Iterable[Iterable[object]]) -> None:
    """Write rows as CSV, atomically; undecodable bytes of file names are written as escapes."""
    text = StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    write_bytes(path, text.getvalue().encode("utf-8", "backslashreplace"))


def path_of_set(name: str | Path, folder: Path, names: Collection[str], what: str) -> Path:
    """Return the path of a ``.json`` file, or of a built-in set by its name.

    Args:
        name: the name or the path.
        folder: folder of the built-in sets.
        names: their names.
        what: a set of them in words, for the error message.

    Raises:
        ValueError: no such name.
    """
    if str(name).endswith(".json"):
        return Path(name)
    if str(name) not in names:
        raise Refusal(
            f"there is no {what} {str(name)!r}: choose {', '.join(names)}, or a .json file"
        )
    return folder / f"{name}.json"


def read_hashed_json(
    path: Path, kind: str, max_bytes: int, parse: Callable[[Data], Content], *, what: str
) -> Content:
    """Read a JSON object of a kind and of format 1 that has its :func:`hash_data` as ``sha256``,
    and parse it.

    Args:
        path: the file.
        kind: value of its key ``kind``.
        max_bytes: maximum size of the file in bytes.
        parse: returns the result, or raises an exception for invalid data.
        what: the content, for the error message.

    Raises:
        OSError: no file, or one that cannot be read.
        ValueError: a damaged file.
    """
    data = read_json(path, max_bytes)
    with name_place(f"{path} holds no {what}, make it again or reinstall ttt_envs"):
        if not isinstance(data, dict) or data.get("kind") != kind or data.get("format") != 1:
            raise Refusal("it does not say that it is that, of format 1")
        if data.get("sha256") != hash_data(data):
            raise Refusal("its content does not match its checksum")
        return parse(data)


def _line(name: str, result: object) -> str:
    """Encode a unit's result as a line; its hash detects damage that is still JSON."""
    data = {"unit": json.loads(name), "result": result}
    return json.dumps({**data, "sha256": hash_json(data)})


def _stored_results(path: Path, provenance: Mapping[str, object]) -> Data:
    """Read the results in a file, by the unit as JSON.

    Raises:
        ValueError: the first line has another provenance, or none.
    """
    if not path.exists():
        return {}
    text = read_bounded(path).decode(errors="replace")
    try:
        head, *lines = text.splitlines()
        old_provenance = dict(**parse_json(head)["provenance"])
    except (ValueError, KeyError, TypeError):
        raise Refusal(
            f"{path} does not begin with its provenance: choose another folder, or remove it"
        ) from None
    for key in {**old_provenance, **provenance}:
        old_value = old_provenance.get(key)
        value = provenance.get(key)
        if old_value != value:
            raise Refusal(
                f"{path} has results of {key} {truncate(repr(old_value))}, not "
                f"{truncate(repr(value))}: choose another folder, or go back to that"
            )
    # a line of a killed writer is no result
    return dict(filter(None, map(_read_line, lines)))


def _read_line(line: str) -> tuple[str, Any] | None:
    """Return the unit of a line, as JSON, and its result; None for a damaged line."""
    with suppress(ValueError, KeyError, TypeError, RecursionError):
        data = json.loads(line)
        name = json.dumps(data["unit"], sort_keys=True)
        if line == _line(name, data["result"]):
            return name, data["result"]
    return None
