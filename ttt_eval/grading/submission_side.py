"""The program of a submission's process: it limits itself, loads the submission, and answers calls.

It is run by its path, and imports nothing of ours. Messages are JSON, see :class:`Channel`. A
request ``{"call", "arguments"}`` is answered by ``{"answer"}`` or ``{"error"}``, and before by
any number of questions to the grader, ``{"question", "arguments", "keywords"}``.
"""

from __future__ import annotations

import ctypes
import importlib.util
import json
import os
import platform
import random
import struct
import sys
import tomllib
import traceback
from collections.abc import Callable, Mapping
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

MAX_MESSAGE = 64 << 20
"""Maximum size of a message in bytes."""
MAX_ERROR = 200
"""Maximum number of characters of an error's text."""
OURS = ("ttt_envs/", "ttt_eval/", "ttt_apps/", "learners/", "baselines/", "studies/")
"""Packages that hold solutions: their files are denied, so that no import finds them."""
SOURCES = (".py", ".pyc", ".ipynb")
"""Ends of the names of files that may hold solutions."""

# --------------------------------------------------------------------------------------------------
# Messages


class Channel:
    """A connection for numbers, texts, lists, dictionaries by text, arrays, and functions.

    An array is ``{"array": [...]}``; a function is ``{"function": number}``, which the other side
    makes a function of its own by ``make``.
    """

    def __init__(self, connection: Connection, make: Callable[[int], Callable[..., Any]]) -> None:
        self.connection = connection
        self.make = make
        self.functions: list[Callable[..., Any]] = []
        """functions of this side that were sent"""

    def send(self, **message: Any) -> None:
        """Send a message.

        Raises:
            TypeError, ValueError, RecursionError: it holds something else.
            OSError: the other side is closed.
        """
        # keys that are no texts are left out: the grader says what to return in place of them
        text = json.dumps(message, default=self._encode, skipkeys=True)
        self.connection.send_bytes(text.encode())

    def receive(self) -> Any:
        """Return the next message.

        Raises:
            TypeError, ValueError, RecursionError: it is no message.
            EOFError, OSError: the other side is closed, or the message too large.
        """
        text = self.connection.recv_bytes(MAX_MESSAGE)
        return json.loads(text, object_hook=self._decode)

    def _encode(self, value: Any) -> Any:
        if callable(value):
            self.functions.append(value)
            return {"function": len(self.functions) - 1}
        array = np.asarray(value)
        if array.dtype.kind not in "biuf":
            raise TypeError(f"{type(value).__name__} is no number, list, array or function")
        return {"array": array.tolist()}

    def _decode(self, data: dict[str, Any]) -> Any:
        if "array" in data:
            return np.array(data["array"])
        if "function" in data:
            return self.make(data["function"])
        return data


# --------------------------------------------------------------------------------------------------
# Limits


FILTERS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
"""Programs of seccomp by processor."""


def deny_system_calls() -> bool:
    """Deny sockets, new processes and signals to others by a filter of seccomp; return whether the
    system has one.
    """
    rules = FILTERS.get(platform.machine(), [])
    if platform.system() != "Linux" or not rules:
        return False
    program = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *rule) for rule in rules))
    head = struct.pack("@HP", len(rules), ctypes.addressof(program))
    prctl = ctypes.CDLL(None).prctl
    return not prctl(38, 1, 0, 0, 0) and not prctl(22, 2, head)


def set_limits(cpu_s: int, memory: int, file_bytes: int) -> None:
    """Limit CPU s, memory and the size of files, in bytes."""
    import resource

    limits = {
        resource.RLIMIT_CPU: cpu_s,
        resource.RLIMIT_AS: memory,
        resource.RLIMIT_FSIZE: file_bytes,
        resource.RLIMIT_CORE: 0,
    }
    for kind, limit in limits.items():
        resource.setrlimit(kind, (limit, limit))


def deny_sources(own: str) -> None:
    """Deny files of Python and notebooks but a submission's own, and those of Python and of
    installed packages that are not ours.
    """
    allowed = own, os.path.realpath(os.path.dirname(os.__file__))

    def refuse(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and isinstance(arguments[0], str | bytes):
            path = os.path.realpath(os.fsdecode(arguments[0]))
            package = path.rpartition("-packages/")[2]  # the whole path if it is in none
            is_elsewhere = package == path and not path.startswith(allowed)
            if path.endswith(SOURCES) and (is_elsewhere or package.startswith(OURS)):
                raise PermissionError("the task forbids other files of Python")

    sys.addaudithook(refuse)


# --------------------------------------------------------------------------------------------------
# The program


class Server:
    """Answers calls of the grader.

    Args:
        connection: to the grader.
    """

    def __init__(self, connection: Connection) -> None:
        self.channel = Channel(connection, lambda number: partial(self.ask, number))

    def ask(self, number: int, *arguments: Any, **keywords: Any) -> Any:
        """Return the grader's answer to a question."""
        self.channel.send(question=number, arguments=arguments, keywords=keywords)
        return self.channel.receive()["answer"]

    def attempt(self, action: Callable[..., Any], *arguments: Any) -> None:
        """Send what an action returns, or what it raises."""
        try:
            self.channel.send(answer=action(*arguments))
        except BaseException as error:
            self.channel.send(error=describe(error))

    def load(self, path: str, name: str) -> bool:
        """Load the function of a submission; return whether system calls are denied to it."""
        is_filtered = deny_system_calls()
        spec: Any = importlib.util.spec_from_file_location("submission", path)
        module = importlib.util.module_from_spec(spec)
        sys.modules["submission"] = module  # where dataclasses look for it
        spec.loader.exec_module(module)
        if not hasattr(module, name):
            own = (
                key
                for key, value in vars(module).items()
                if getattr(value, "__module__", "") == "submission"
            )
            names = ", ".join(own) or "none"
            raise AttributeError(f"define a function named {name}; yours defines {names}")
        self.channel.functions.append(getattr(module, name))
        return is_filtered

    def call(self, request: Mapping[str, Any]) -> Any:
        """Return the answer to a request; a dictionary becomes an object with attributes."""
        arguments = [
            SimpleNamespace(**argument) if isinstance(argument, dict) else argument
            for argument in request["arguments"]
        ]
        return self.channel.functions[request["call"]](*arguments)


def describe(error: BaseException) -> str:
    """Return an error in one line, with the last line of the submission that led to it."""
    words = f"{type(error).__name__}: {error}".split()
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == sys.argv[1]]
    place = f" (line {lines[-1]})" if lines else ""
    return " ".join(words)[:MAX_ERROR] + place


def main(path: str, name: str, descriptor: str, settings: str) -> None:
    """Serve the function of a submission until the grader ends this process."""
    server = Server(Connection(int(descriptor)))
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002  # of the submission
    set_limits(**json.loads(settings))
    deny_sources(path)
    server.attempt(server.load, path, name)
    while True:
        server.attempt(server.call, server.channel.receive())


if __name__ == "__main__":
    main(*sys.argv[1:])
