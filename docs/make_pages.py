"""The pages that the site is built from: those of docs/ and of the root, all commands' help, and the API by module.

``make docs`` calls it, and zensical then makes ``site/`` of ``build/pages`` as mkdocs.yml says. README.md is the front
page. Links are rewritten to where pages stand on the site, blocks keep their language alone, and what links to a file
that is no page keeps its words.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import sys
from collections.abc import Callable
from contextlib import redirect_stdout, suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FRONT = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "CHANGELOG.md": "changelog.md",
    "CODE_OF_CONDUCT.md": "code-of-conduct.md",
}
"""page of the root -> page of the site; ``docs/x.md`` is ``x.md`` there"""
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
FENCE = re.compile(r"^ *```.*?^ *```$", re.M | re.S)


def make(folder: Path) -> None:
    """Write all pages into a folder, whatever stood there before."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ROOT / "docs", folder, ignore=shutil.ignore_patterns("*.py", "*.md", "__pycache__"))
    for page, place in places().items():
        target = folder / place
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(moved(page, place), encoding="utf-8")
    for page in modules():
        target = folder / page
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(api(page), encoding="utf-8")
    (folder / "help.md").write_text(commands(), encoding="utf-8")


def places() -> dict[str, str]:
    """Every page, by its path in the checkout: its path on the site."""
    return FRONT | {
        f"docs/{page.relative_to(ROOT / 'docs')}": str(page.relative_to(ROOT / "docs"))
        for page in sorted((ROOT / "docs").rglob("*.md"))
    }


def moved(page: str, place: str) -> str:
    """A page's text as it stands on the site."""
    text = (ROOT / page).read_text(encoding="utf-8")
    parts, last = [], 0
    for code in FENCE.finditer(text):
        parts += [linked(text[last : code.start()], page, place), code[0]]
        last = code.end()
    whole = "".join([*parts, linked(text[last:], page, place)])
    return re.sub(r"^( *```(?:sh|python)) slow$", r"\1", whole, flags=re.M)


def linked(text: str, page: str, place: str) -> str:
    """Text between blocks of code, its links those of the site."""
    pages = places()

    def other(match: re.Match[str]) -> str:
        image, words, target = match.groups()
        path, mark, anchor = target.partition("#")
        if not path or re.match(r"[a-z]+:", path):
            return match[0]
        meant = os.path.normpath(os.path.join(os.path.dirname(page), path))
        if meant in pages:
            goal = pages[meant]
        elif f"{meant}/index.md" in pages:
            goal = pages[f"{meant}/index.md"]
        elif meant.startswith("docs/") and (ROOT / meant).is_file():
            goal = meant.removeprefix("docs/")
        else:
            return words
        return f"{image}[{words}]({os.path.relpath(goal, os.path.dirname(place) or '.')}{mark}{anchor})"

    return LINK.sub(other, text)


def navigation() -> list[str]:
    """All pages that mkdocs.yml has in its navigation, in order."""
    settings = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    return re.findall(r"^ *- (?:\S.*: )?(\S+\.md)$", settings[settings.index("\nnav:") :], re.M)


def modules() -> list[str]:
    """The pages of the API, ``api/package/module.md`` for each module whose public names the navigation shows."""
    return [page for page in navigation() if page.startswith("api/")]


def api(page: str) -> str:
    """A page of the API: docstrings of a module, and of the classes and functions that a package offers."""
    path = page.removeprefix("api/").removesuffix(".md")
    name, package = path.replace("/", "."), ROOT / path / "__init__.py"
    offered = (
        re.findall(r"^from (\S+) import (\w*[a-z]\w*) as \2$", package.read_text(encoding="utf-8"), re.M)
        if package.exists()
        else []
    )
    options = "    options: {heading_level: 2, show_root_heading: true, show_root_toc_entry: true}"
    parts = [f"# {name}", f"::: {name}", *(f"::: {module}.{what}\n{options}" for module, what in offered)]
    return "\n\n".join(parts) + "\n"


def commands() -> str:
    """The page of all commands: what each says with ``--help``."""
    from ttt_apps import evaluate, play, train
    from ttt_envs.agents.specs import load_object

    os.environ["COLUMNS"] = "84"
    parts = ["# What every command takes", "Written from `--help`. What they have in common: [commands](commands.md)."]
    for script, main in (("train.py", train.main), ("play.py", play.main), ("evaluate.py", evaluate.main)):
        parts += [f"## {script}", help_of(main, script)]
    for name, (path, _) in evaluate.COMMANDS.items():
        group = load_object(path)
        words = [[name, other] for other in group] if isinstance(group, dict) else [[name]]
        for each in words:
            parts += [f"### {' '.join(each)}", help_of(evaluate.main, "evaluate.py", *each)]
    return "\n\n".join(parts) + "\n"


def help_of(main: Callable[[], None], script: str, *words: str) -> str:
    """What a command says of itself, as a block."""
    said, before = io.StringIO(), sys.argv
    sys.argv = [script, *words, "--help"]
    try:
        with redirect_stdout(said), suppress(SystemExit):
            main()
    finally:
        sys.argv = before
    lines = [line.rstrip() for line in said.getvalue().strip().splitlines()]
    return "```text\n" + "\n".join(lines) + "\n```"


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    make(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build" / "pages")
