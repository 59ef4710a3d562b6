"""``evaluate.py policies`` and ``learners``: list all policies or learners by name, with their arguments."""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rich.table import Table
from rich.text import Text

from learners import LEARNERS
from ttt_apps.cli import JsonOptions, print_output, print_table
from ttt_envs.agents.specs import POLICIES, load_object


@dataclass(frozen=True)
class Policies(JsonOptions):
    """List all named policies, with their arguments and defaults."""

    def run(self) -> None:
        """Print the list."""
        found = {name: _describe_factory(load_object(path)) for name, path in sorted(POLICIES.items())}
        if self.json:
            print(json.dumps(found))
            return
        print_table(_table(found))
        print_output(
            "\nArguments are written behind the name, as in optimal:epsilon=0.1 or mcts:simulations=500,c=1; a value "
            "with commas or colons in it stands in parentheses, as in expectiminimax:depth=2,leaf=(run:runs/first). "
            "A class of your own is module:Class or module:Class:key=value."
        )


@dataclass(frozen=True)
class Learners(JsonOptions):
    """List all learners, with their settings, the defaults, and the defaults in self-play where they differ."""

    def run(self) -> None:
        """Print the list."""
        found: dict[str, dict[str, Any]] = {}
        for name, path in sorted(LEARNERS.items()):
            config = load_object(path)
            found[name] = {**_describe_factory(config), "self_play": dict(config.self_play)}
        if self.json:
            print(json.dumps(found))
            return
        print_table(_table(found))
        print_output(
            "\nSettings are options of train.py: python train.py --learner q-learning --epsilon 0.2. The value "
            "after | is the default in self-play (--opponent self or pool)."
        )


def _describe_factory(factory: Callable[..., Any]) -> dict[str, Any]:
    """Describe a factory and its arguments: name -> kind and default, null and "needed" without a default."""
    annotated: Any = factory
    if inspect.isclass(factory) and not dataclasses.is_dataclass(factory):
        annotated = factory.__init__
    kinds = typing.get_type_hints(annotated)
    arguments = {
        name.replace("_", "-"): {
            "kind": _kind(kinds[name]),
            "default": None if parameter.default is parameter.empty else parameter.default,
            "needed": parameter.default is parameter.empty,
        }
        for name, parameter in inspect.signature(factory).parameters.items()
        if name != "game"
    }
    return {"what": _strip_markup((inspect.getdoc(factory) or "").split("\n\n")[0]), "arguments": arguments}


def _strip_markup(docstring: str) -> str:
    """Remove documentation markup from prose."""
    text = re.sub(r":\w+:`~?([^`]*)`", r"\1", " ".join(docstring.split()))
    return text.replace("`", "")


def _kind(kind: Any) -> str:
    """Describe the type of an argument, in a word or by its choices."""
    if isinstance(kind, types.UnionType) or typing.get_origin(kind) is typing.Union:
        return " or ".join(_kind(arm) for arm in typing.get_args(kind))
    if typing.get_origin(kind) is typing.Literal:
        return "|".join(map(str, typing.get_args(kind)))
    if typing.get_origin(kind) is tuple:
        return f"{_kind(typing.get_args(kind)[0])}s"
    return {int: "whole number", float: "number", str: "text", bool: "true|false", type(None): "none"}.get(
        kind, getattr(kind, "__name__", str(kind))
    )


def _table(found: Mapping[str, Mapping[str, Any]]) -> Table:
    table = Table(padding=(0, 1), show_lines=True)
    table.add_column("name", no_wrap=True)
    table.add_column("description, and arguments with their defaults")
    for name, one in found.items():
        own: Mapping[str, Any] = one.get("self_play", {})
        arguments = []
        for key, argument in one["arguments"].items():
            value = "(needed)" if argument["needed"] else _format_value(argument["default"])
            other = own.get(key.replace("-", "_"), argument["default"])
            arguments.append(f"{key}={value}" + (f"|{_format_value(other)}" if other != argument["default"] else ""))
        text = Text(one["what"])
        if arguments:
            text.append("\n" + "   ".join(part.replace(" ", "\u00a0") for part in arguments), style="dim")
        table.add_row(name, text)
    return table


def _format_value(value: Any) -> str:
    """Format a value as in a spec string or on a command line."""
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    if isinstance(value, tuple):
        return " ".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)
