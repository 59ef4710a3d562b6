"""``evaluate.py list KIND``: policies and learners with their arguments, tasks of the benchmark, and studies."""

from __future__ import annotations

import dataclasses
import inspect
import re
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import tyro
from rich.table import Table
from rich.text import Text

from learners import LEARNERS
from ttt_apps.cli import JsonOptions, new_table, show
from ttt_apps.evaluate.reproduce import load_studies
from ttt_envs.agents.specs import POLICIES, load_object

Facts = dict[str, dict[str, Any]]
ABOUT = {
    "policies": "Arguments are written behind the name, as in optimal:epsilon=0.1 or mcts:simulations=500,c=1; a value "
    "with commas or colons in it stands in parentheses, as in expectiminimax:depth=2,leaf=(run:runs/first). A class of "
    "your own is module:Class or module:Class:key=value.",
    "learners": "Settings are options of train.py: python train.py --learner q-learning --epsilon 0.2. The value after "
    "| is the default in self-play (--opponent self or pool).",
    "tasks": "evaluate.py bench run --agent NAME --task TASK trains an agent on a task.",
    "studies": "evaluate.py reproduce NAME runs a study, with --quick a small form of it.",
}


@dataclass(frozen=True)
class List(JsonOptions):
    """List policies or learners with their arguments and defaults, tasks of the benchmark, or studies."""

    kind: Annotated[Literal["policies", "learners", "tasks", "studies"], tyro.conf.Positional] = tyro.MISSING
    """what to list"""

    def run(self) -> None:
        """Print the list."""
        facts = {"policies": _policies, "learners": _learners, "tasks": _tasks, "studies": _studies}[self.kind]()
        show(facts, _table(facts), ABOUT[self.kind], json=self.json)


def _policies() -> Facts:
    return {name: _describe_factory(load_object(path)) for name, path in sorted(POLICIES.items())}


def _learners() -> Facts:
    configs = {name: load_object(path) for name, path in sorted(LEARNERS.items())}
    return {
        name: {**_describe_factory(config), "self_play": dict(config.self_play)} for name, config in configs.items()
    }


def _tasks() -> Facts:
    from ttt_eval.benchmark.tasks import TASKS

    return {task.name: {"what": f"{task.measure}: {', '.join(task.axes)}", "arguments": {}} for task in TASKS}


def _studies() -> Facts:
    studies = {name: load_object(path) for name, path in load_studies().items()}
    return {name: {"what": f"{study.title}: {study.source}", "arguments": {}} for name, study in studies.items()}


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
    summary = " ".join((inspect.getdoc(factory) or "").split("\n\n")[0].split())
    return {"what": re.sub(r":\w+:`~?([^`]*)`", r"\1", summary).replace("`", ""), "arguments": arguments}


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


def _table(facts: Mapping[str, Mapping[str, Any]]) -> Table:
    table = new_table("name")
    table.add_column("description, and arguments with their defaults")
    for name, fact in facts.items():
        self_play: Mapping[str, Any] = fact.get("self_play", {})
        arguments = []
        for key, argument in fact["arguments"].items():
            value = "(needed)" if argument["needed"] else _format_value(argument["default"])
            other = self_play.get(key.replace("-", "_"), argument["default"])
            arguments.append(f"{key}={value}" + (f"|{_format_value(other)}" if other != argument["default"] else ""))
        spaced = "   ".join(part.replace(" ", "\u00a0") for part in arguments)
        table.add_row(name, Text.assemble(fact["what"], (f"\n{spaced}\n" if spaced else "", "dim")))
    return table


def _format_value(value: Any) -> str:
    """Format a value as in a spec string or on a command line."""
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    if isinstance(value, tuple):
        return " ".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)
