"""``evaluate.py list KIND``: policies and learners with their arguments, tasks and agents of
the benchmark, and studies.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

import tyro

from learners import LEARNERS
from learners.config import LearnerConfig, load_learner
from ttt_apps.cli import options as cli
from ttt_apps.evaluate.reproduce import load_studies
from ttt_envs.agents.specs import POLICIES, load_object
from ttt_eval.store.result_store import Data

ABOUT = {
    "policies": (
        "Arguments are written behind the name, as in optimal:epsilon=0.1 or "
        "mcts:simulations=500,c=1; a value with commas or colons in it stands in parentheses, as "
        "in expectiminimax:depth=2,leaf=(run:runs/first). A class of your own is module:Class or "
        "module:Class:key=value."
    ),
    "learners": (
        "Settings are options of train.py: python train.py --learner q-learning --epsilon 0.2. "
        "Defaults after self-play hold with --opponent self."
    ),
    "tasks": "evaluate.py bench run --agent NAME --task TASK trains an agent on a task.",
    "agents": "evaluate.py bench run --agent NAME trains an agent on the benchmark.",
    "studies": "evaluate.py reproduce NAME runs a study, with --quick a small form of it.",
}

Kind = Literal["policies", "learners", "tasks", "agents", "studies"]


@dataclass(frozen=True)
class List(cli.JsonOptions):
    """List policies or learners with their arguments and defaults, tasks or agents of the
    benchmark, or studies.
    """

    kind: Annotated[Kind, tyro.conf.Positional] = tyro.MISSING
    """what to list"""

    def run(self) -> None:
        """Print the list."""
        facts = _facts(self.kind)
        head = "description"
        if any(fact["arguments"] for fact in facts.values()):
            head = "description, and arguments with their defaults"
        rows = [{"name": name, head: _text(fact)} for name, fact in facts.items()]
        self.show(facts, cli.rows_table(rows), ABOUT[self.kind])


def _facts(kind: Kind) -> dict[str, dict[str, object]]:
    """Return the facts by name."""
    if kind == "policies":
        return {name: _describe_factory(load_object(POLICIES[name])) for name in sorted(POLICIES)}
    if kind == "learners":
        return {name: _describe_learner(load_learner(name)) for name in sorted(LEARNERS)}
    if kind == "tasks":
        from ttt_eval.benchmark.tasks import TASKS

        texts = {task.name: f"{task.measure}: {', '.join(task.axes)}" for task in TASKS}
    elif kind == "agents":
        from ttt_eval.benchmark.agents import AGENTS

        paths = {**POLICIES, **LEARNERS}  # agents have the names of what they train or play
        texts = {name: _summarize(load_object(paths[name])) for name in AGENTS}
    else:
        texts = {}
        for name, path in sorted(load_studies().items()):
            study = load_object(path)
            texts[name] = f"{study.title}: {study.source}"
    return {name: {"what": text, "arguments": {}} for name, text in texts.items()}


def _describe_learner(learner: type[LearnerConfig]) -> dict[str, object]:
    """Describe a learner, its settings, and those that differ in self-play."""
    settings = {name.replace("_", "-"): value for name, value in learner.self_play.items()}
    return {**_describe_factory(learner), "self_play": settings}


def _describe_factory(factory: Callable[..., object]) -> dict[str, object]:
    """Describe a factory and its arguments: name -> default, null and "needed" without a
    default.
    """
    arguments = {}
    for name, parameter in inspect.signature(factory).parameters.items():
        if name != "game":
            is_needed = parameter.default is parameter.empty
            default = None if is_needed else parameter.default
            arguments[name.replace("_", "-")] = {"default": default, "needed": is_needed}
    return {"what": _summarize(factory), "arguments": arguments}


def _summarize(factory: Callable[..., object]) -> str:
    """Return the first paragraph of a docstring, without markup."""
    paragraph = (inspect.getdoc(factory) or "").split("\n\n")[0]
    summary = " ".join(paragraph.split())
    return re.sub(r":\w+:`~?([^`]*)`", r"\1", summary).replace("`", "")


def _text(fact: Data) -> str:
    """Return a description, and on further lines the arguments and their defaults."""
    defaults = {
        name: "(needed)" if argument["needed"] else argument["default"]
        for name, argument in fact["arguments"].items()
    }
    lines = [fact["what"], _format_values(defaults)]
    if fact.get("self_play"):
        lines.append(f"self-play: {_format_values(fact['self_play'])}")
    return "\n".join(filter(None, lines))


def _format_values(values: Mapping[str, object]) -> str:
    """Format values as in a spec string."""
    return "   ".join(f"{name}={value}" for name, value in values.items())
