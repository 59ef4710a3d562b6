"""The page docs/outside.md: searches, learners and advantages of other libraries in our checks.

``make outside``, or ``python tools/outside.py``, makes an environment for each block of
``outside.toml``, runs ``ask_outside.py`` there, stores the result in ``docs/outside/NAME.json``,
and writes the page. ``--source FOLDER`` runs a block that is not on the index on a checkout of it.
"""

from __future__ import annotations

import ast
import json
import shutil
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro
import writing
from ask_outside import NUM_SEARCHES, SIMULATIONS
from environments import CACHE, ROOT, CommandError, call, make_environment, versions_in

from ttt_apps.cli import options as cli
from ttt_envs.core.checks import Refusal, check_choice
from ttt_envs.core.files import write_bytes, write_json
from ttt_eval.checks import Evidence

PAGE = ROOT / "docs" / "outside.md"
RESULTS = ROOT / "docs" / "outside"
SPEC = Path(__file__).with_suffix(".toml")
WITHOUT_NETWORK = (
    "unshare",
    "--map-root-user",
    "--net",
    "sh",
    "-c",
    'ip link set lo up; exec "$0" "$@"',
)
"""Runs a command with no network but this computer's own, where the system allows it."""


@dataclass(frozen=True)
class OutsideOptions:
    """Check what other libraries compute, and write docs/outside.md."""

    only: Annotated[str, tyro.conf.arg(metavar="NAME")] = ""
    """this block, of which the page is written anew"""
    source: Path | None = None
    """a checkout that has the code of the block, for one that is not on the index"""


def load_blocks() -> dict[str, dict[str, Any]]:
    """Return the blocks by name, in the order of the page."""
    data = tomllib.loads(SPEC.read_text("utf-8"))
    return {name: {**data["defaults"], **block} for name, block in data["blocks"].items()}


def package_of(name: str, block: dict[str, Any]) -> str:
    """Return the package that a block is about; its own name if its code is a checkout."""
    return next(iter((*block["alone"], *block["packages"])), name).partition("==")[0]


def run_block(name: str, block: dict[str, Any], source: Path | None = None) -> dict[str, Any]:
    """Return the result of a block: version, checks, and whether its lines are as they were read;
    or the problem, if it cannot be installed or run.

    The code of others runs with an empty home, without the network where the system allows it, and
    without the variables of this process.
    """
    try:
        base = make_environment("outside", ())
        package = package_of(name, block)
        packages = tuple(block["packages"])
        python = make_environment(f"outside-{package}", packages, tuple(block["alone"]), base)
        if source:
            version = call(
                "git", "rev-parse", "--short", "HEAD", cwd=source, log="revision"
            ).strip()
        else:
            version = versions_in(python)[package.lower().replace("_", "-")]
        allowed = subprocess.run(["env", *WITHOUT_NETWORK, "true"]).returncode == 0
        with tempfile.TemporaryDirectory(prefix="ttt-outside-") as home:
            shutil.copytree(ROOT / "examples", Path(home, "examples"))
            variables = {
                "HOME": home,
                "PYTHONPATH": f"{home}:{source or home}",
                "OPENBLAS_NUM_THREADS": "1",
                "OMP_NUM_THREADS": "1",
                "TTT_ENVS_CACHE": str(CACHE / "tables"),
                "NUMBA_CACHE_DIR": str(CACHE / "numba"),
            }
            script = Path(__file__).with_name("ask_outside.py")
            prefix = WITHOUT_NETWORK if allowed else ()
            words = (*prefix, python, "-W", "ignore", script, json.dumps(block))
            output = call(*words, cwd=Path(home), log=name, inherit=False, **variables)
        return {"version": version, **json.loads(output.splitlines()[-1])}
    except CommandError as problem:
        return {"version": "", "problem": str(problem)}


def show_adapter(block: dict[str, Any]) -> str:
    """Return the source of an adapter without its docstring and imports: all of it, or the
    functions, classes and variables that are ``shown``.
    """
    source = (ROOT / (block["adapter"].replace(".", "/") + ".py")).read_text("utf-8")
    parts = [
        ast.get_source_segment(source, node) or ""
        for node in ast.parse(source).body[1:]
        if not isinstance(node, ast.Import | ast.ImportFrom)
        and (not block["shown"] or names_of(node) & set(block["shown"]))
    ]
    return "\n\n".join(parts)


def names_of(node: ast.stmt) -> set[str]:
    """Return what a statement of a module defines."""
    return {getattr(node, "name", ""), *map(ast.unparse, getattr(node, "targets", ()))}


def render_page() -> str:
    """Return the page of all blocks with a result."""
    blocks = [
        {
            **block,
            "name": name,
            "code": show_adapter(block),
            **json.loads((RESULTS / f"{name}.json").read_text("utf-8")),
        }
        for name, block in load_blocks().items()
        if (RESULTS / f"{name}.json").exists()
    ]
    filters = {"draw": lambda answer: Evidence(*answer[1:]).draw()}
    numbers = {"simulations": SIMULATIONS, "num_searches": NUM_SEARCHES}
    return writing.render_page(__file__, filters, blocks=blocks, **numbers)


def main() -> None:
    """Run the blocks, store their results, and write the page."""
    options = cli.parse(OutsideOptions, sys.argv[1:], "python tools/outside.py")
    blocks = load_blocks()
    if options.only:
        check_choice("--only", options.only, tuple(blocks))
        if blocks[options.only]["checkout"] and not options.source:
            raise Refusal(f"{options.only} is not on the index: name a checkout with --source")
    for name, block in blocks.items():
        if options.only in ("", name) and block["checkout"] == bool(options.source):
            result = run_block(name, block, options.source)
            write_json(RESULTS / f"{name}.json", result)
            print(name, result.get("problem", "done"), flush=True)
    write_bytes(PAGE, render_page().encode())


if __name__ == "__main__":
    cli.run_command(main)
