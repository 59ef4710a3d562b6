"""Answers of a model on disk, by the hash of the question: one JSON line for each, appended as it arrives.

The file is not trusted. Lines that are incomplete, damaged or too long are ignored, and a killed writer leaves at most
one such line.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from ttt_envs.core.files import locked, open_to_write, parse_json, replace_tail
from ttt_envs.text import MAX_ANSWER_LENGTH
from ttt_eval.language_models.endpoint import Completion

ANSWERS = "answers.jsonl"
"""File of the answers in a folder."""
MAX_CACHE_BYTES = 1 << 29
"""Maximum size of the file in bytes."""
MAX_LINE_BYTES = 12 * MAX_ANSWER_LENGTH + 1000
"""Maximum length of a line in bytes: JSON writes a character outside the basic plane with twelve."""
_MAX_TOKENS = 10**9


class AnswerCache:
    """Stored answers of a folder; see :func:`open_answers`.

    Raises:
        ValueError: the file has more than ``MAX_CACHE_BYTES`` bytes.
    """

    def __init__(self, path: Path, file: IO[bytes]) -> None:
        self._path, self._file = path, file
        self._answers: dict[str, Completion] = {}
        self._size = 0
        file.seek(0)
        for line in iter(lambda: file.readline(MAX_LINE_BYTES + 1), b""):
            self._size += len(line)
            if self._size > MAX_CACHE_BYTES:
                raise ValueError(f"{path} has more than {MAX_CACHE_BYTES:,} bytes: name another folder with cache=")
            if (found := _read_line(line)) is not None:
                self._answers.setdefault(*found)
        self._is_cut = not line.endswith(b"\n") if self._size else False

    def __len__(self) -> int:
        return len(self._answers)

    def get(self, key: str) -> Completion | None:
        """Return the answer to the question with this hash, if it is stored."""
        return self._answers.get(key)

    def add(self, key: str, answer: Completion) -> None:
        """Store an answer; when this returns, it is on disk.

        Raises:
            OSError: it cannot be written.
            ValueError: the file is full.
        """
        content = b"\n" * self._is_cut + _write_line(key, answer)
        if self._size + len(content) > MAX_CACHE_BYTES:
            raise ValueError(f"{self._path} is full, {self._size:,} bytes: name another folder with cache=")
        replace_tail(self._file, self._path, self._size, content)
        self._is_cut = False
        self._size += len(content)
        self._answers[key] = answer


@contextmanager
def open_answers(folder: Path) -> Iterator[AnswerCache]:
    """Open the stored answers of a folder, which is created if missing, for this process alone.

    Raises:
        OSError: the folder or the file cannot be opened.
        ValueError: another process has opened it, or the file is a link, a device, or too large.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / ANSWERS
    with locked(folder), open_to_write(path) as file:
        if os.fstat(file.fileno()).st_size > MAX_CACHE_BYTES:
            raise ValueError(f"{path} has more than {MAX_CACHE_BYTES:,} bytes: name another folder with cache=")
        yield AnswerCache(path, file)


def _write_line(key: str, answer: Completion) -> bytes:
    data = {"question": key, **answer._asdict()}
    return json.dumps({**data, "sha256": _hash(data)}).encode() + b"\n"


def _hash(data: dict[str, object]) -> str:
    return hashlib.sha256(json.dumps(data).encode()).hexdigest()


def _read_line(line: bytes) -> tuple[str, Completion] | None:
    """Return the hash of a question and its answer; None for a line that holds none."""
    try:
        match parse_json(line, MAX_LINE_BYTES):
            case {
                "question": str(key),
                "text": str(text),
                "prompt_tokens": int(asked),
                "completion_tokens": int(answered),
                "truncated": bool(truncated),
                "sha256": str(known),
            } if len(text) <= MAX_ANSWER_LENGTH and 0 <= asked <= _MAX_TOKENS and 0 <= answered <= _MAX_TOKENS:
                answer = Completion(text, asked, answered, truncated)
                return (key, answer) if known == _hash({"question": key, **answer._asdict()}) else None
    except ValueError:
        pass
    return None
