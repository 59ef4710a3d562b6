"""Pages of the site: those of docs/ and of the root, the help of all commands, and the public names
by package.

``make docs`` writes them into ``build/pages``, from which zensical builds ``site/`` by mkdocs.yml.
README.md is the front page. Links are rewritten for the site, code blocks keep only their language,
and a link to a file that is no page becomes plain text.
"""

from __future__ import annotations

import ast
import importlib
import io
import os
import re
import shutil
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout, suppress
from pathlib import Path
from types import FunctionType

ROOT = Path(__file__).resolve().parents[1]
FRONT = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "CHANGELOG.md": "changelog.md",
    "CODE_OF_CONDUCT.md": "code-of-conduct.md",
}
"""Maps pages of the root to pages of the site; ``docs/x.md`` is ``x.md`` there."""
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
FENCE = re.compile(r"^ *```.*?^ *```$", re.M | re.S)
CODE_OR_LINK = re.compile(f"({FENCE.pattern})|{LINK.pattern}", re.M | re.S)


def make(folder: Path) -> None:
    """Write all pages into an empty folder."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(
        ROOT / "docs", folder, ignore=shutil.ignore_patterns("*.py", "*.md", "__pycache__")
    )
    texts = {path: page_text(page, path) for page, path in page_paths().items()}
    texts |= {page: api_page(page) for page in api_pages()}
    texts["help.md"] = help_page()
    for path, text in texts.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")


def page_paths() -> dict[str, str]:
    """Return the path on the site of every page, by its path in the checkout."""
    docs = ROOT / "docs"
    pages = [str(page.relative_to(docs)) for page in sorted(docs.rglob("*.md"))]
    return FRONT | {f"docs/{page}": page for page in pages}


def page_text(page: str, path: str) -> str:
    """Return the text of a page on the site."""
    text = rewrite_links((ROOT / page).read_text("utf-8"), page, path)
    return re.sub(
        r"^( *```(?:sh|python|text))(?: slow| output| needs=\w+)+$", r"\1", text, flags=re.M
    )


def rewrite_links(text: str, page: str, path: str) -> str:
    """Rewrite links for the site, but for those in code blocks.

    A picture that has a dark variant, ``NAME-dark.png``, becomes two: the theme shows the one of
    its colours. One that is also an SVG file becomes that, which has the colours of both.
    """
    pages = page_paths()

    def rewrite(match: re.Match[str]) -> str:
        code, image, words, link = match.groups()
        if code:
            return code
        file, mark, anchor = link.partition("#")
        if not file or re.match(r"[a-z]+:", file):
            return match[0]
        source = os.path.normpath(os.path.join(os.path.dirname(page), file))
        target = pages.get(source) or pages.get(f"{source}/index.md")
        if target is None and source.startswith("docs/") and (ROOT / source).is_file():
            target = source.removeprefix("docs/")
        if target is None:
            return words
        address = Path(os.path.relpath(target, Path(path).parent))
        dark = f"{address.stem}-dark.png"
        if image and (ROOT / source).with_name(dark).is_file():
            dark_address = address.with_name(dark)
            return f"![{words}]({address}#only-light) ![{words}]({dark_address}#only-dark)"
        if image and (ROOT / source).with_suffix(".svg").is_file():  # in light and dark colours
            address = address.with_suffix(".svg")
        return f"{image}[{words}]({address}{mark}{anchor})"

    return CODE_OR_LINK.sub(rewrite, text)


def navigation() -> list[str]:
    """Return the pages in the navigation of mkdocs.yml, in order."""
    settings = (ROOT / "mkdocs.yml").read_text("utf-8")
    return re.findall(r"^ *- (?:\S.*: )?(\S+\.md)$", settings[settings.index("\nnav:") :], re.M)


def api_pages() -> list[str]:
    """Return the API pages of the navigation, ``api/package.md`` for each package."""
    return [page for page in navigation() if page.startswith("api/")]


def api_page(page: str) -> str:
    """Return an API page: the docstring and the public names of a package, or of a module with a
    list of them.
    """
    path = page.removeprefix("api/").removesuffix(".md")
    name = path.replace("/", ".")
    if not (ROOT / path).is_dir():  # a module, whose packages may not be installed
        [names] = re.findall(
            r"^__all__ = (\[.*?\])$", (ROOT / f"{path}.py").read_text("utf-8"), re.M | re.S
        )
        return f"# {name}\n\n::: {name}\n    options: {{members: {ast.literal_eval(names)}}}\n"
    package = importlib.import_module(name)
    options = "    options: {heading_level: 2, show_root_heading: true, show_root_toc_entry: true}"
    members = [getattr(package, what) for what in package.__all__]
    places = [
        f"{member.__module__}.{member.__name__}"
        for member in members
        if isinstance(member, type | FunctionType)
    ]
    return (
        "\n\n".join([f"# {name}", f"::: {name}", *(f"::: {place}\n{options}" for place in places)])
        + "\n"
    )


def help_page() -> str:
    """Return the page with the ``--help`` of all commands."""
    from ttt_apps import evaluate
    from ttt_apps.terminal import command as play
    from ttt_apps.training import command as train

    os.environ["COLUMNS"] = "84"
    parts = [
        "# Options of all commands",
        "Generated from `--help`. Common options: [commands](commands.md).",
    ]
    for script, main, *words in (
        ("train.py", train.main),
        ("train.py resume", train.main, "resume"),
        ("train.py sweep", train.main, "sweep"),
        ("play.py", play.main),
        ("play.py web", play.main, "web"),
        ("evaluate.py", evaluate.main),
    ):
        parts += [f"## {script}", help_text(main, *words)]
    for name, command in evaluate.COMMANDS.items():
        words = [[name, other] for other in command.get("commands", ())] or [[name]]
        for each in words:
            parts += [f"### {' '.join(each)}", help_text(evaluate.main, *each)]
    return "\n\n".join(parts) + "\n"


def help_text(main: Callable[[Sequence[str]], None], *words: str) -> str:
    """Return the help of a command as a code block."""
    output = io.StringIO()
    with redirect_stdout(output), suppress(SystemExit):
        main([*words, "--help"])
    lines = [line.rstrip() for line in output.getvalue().strip().splitlines()]
    return "```text\n" + "\n".join(lines) + "\n```"


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    make(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build" / "pages")
