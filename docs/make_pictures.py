"""Pictures of pages for the documents, as Chromium shows them, light and dark. ``make pictures``
calls it.

``python docs/make_pictures.py reports evidence`` makes only those. Runs are trained in a folder for
the purpose. The site shows the dark ones, ``NAME-dark.png``, in its dark colours
(docs/make_pages.py).
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import tyro
from playwright.sync_api import Browser, sync_playwright

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
FIRST = ("--learner=q-learning", "--opponent=self")
PANELS = ("exact", "random", "compressed", "search", "mcts", "run")
POSITION = f"skip=0.25&moves=b2.a1%2B.c3&o=you&x=you&panels={'.'.join(PANELS)}"
"""what stands behind the # of the explorer's address: x was to move twice, for o was skipped"""
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


@contextmanager
def explorer(runs: Path) -> Iterator[str]:
    """Its address, while it is served on a free port."""
    command = [
        sys.executable,
        str(ROOT / "play.py"),
        "web",
        "--no-browser",
        "--port=0",
        f"--runs={runs}",
    ]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as server:
        assert server.stdout is not None
        try:
            yield next(
                word
                for line in server.stdout
                for word in line.split()
                if word.startswith("http://")
            )
        finally:
            server.terminate()


def call(script: str, *words: str) -> None:
    """Run a command quietly."""
    subprocess.run(
        [sys.executable, str(ROOT / script), "--quiet", *words],
        check=True,
        stdout=subprocess.DEVNULL,
    )


def take(
    browser: Browser,
    name: str,
    address: str,
    width: int,
    height: int,
    wait: Sequence[str] = (),
    scale: float = 1.0,
) -> None:
    """Write docs/NAME.png and docs/NAME-dark.png of a page as far as it is seen.

    Args:
        browser: the browser.
        name: name of the picture.
        address: address of the page.
        width, height: of the viewport.
        wait: selectors of what has to be there.
        scale: pixels of the picture by pixels of the viewport.
    """
    viewport: Any = {"width": width, "height": height}
    for scheme, ending in (("light", ""), ("dark", "-dark")):
        page = browser.new_page(color_scheme=scheme, viewport=viewport, device_scale_factor=scale)
        page.goto(address)
        for selector in wait:
            page.wait_for_selector(selector)
        page.screenshot(path=DOCS / f"{name}{ending}.png")
        page.close()


def take_report(browser: Browser, runs: Path) -> None:
    """Take the report of a run, with the settings of the README and skips."""
    take(browser, "reports", (runs / "first" / "report.html").as_uri(), 1060, 1800)


def take_tournament(browser: Browser, runs: Path) -> None:
    """Take the page of the tournament in docs/reports.md."""
    call(
        "evaluate.py",
        "match",
        *("random", "win-or-block", "table:w=3", "optimal"),
        "--skip-chance=0.25",
        "--games=400",
        f"--out={runs / 'four'}",
    )
    take(browser, "evidence", (runs / "four" / "report.html").as_uri(), 1060, 1130)


def take_explorer(browser: Browser, runs: Path) -> None:
    """Take the explorer with six panels."""
    with explorer(runs) as address:
        panels = [f"#panel-{name}[aria-busy=false] .cell" for name in PANELS]
        place = f"{address.rstrip('/')}/#{POSITION}&run=first"
        take(browser, "explorer", place, 1400, 1400, ["#board .cell", *panels], 0.75)


PICTURES = {"reports": take_report, "evidence": take_tournament, "explorer": take_explorer}


def main(
    names: tyro.conf.Positional[tuple[Literal["reports", "evidence", "explorer"], ...]] = tuple(
        PICTURES
    ),
) -> None:
    """Take pictures.

    Args:
        names: of the pictures.
    """
    chromium = next(filter(None, map(shutil.which, BROWSERS)), None)
    if chromium is None:
        sys.exit(f"error: there is none of {', '.join(BROWSERS)}: install chromium")
    with TemporaryDirectory() as folder, sync_playwright() as playwright:
        runs = Path(folder)
        call("train.py", *FIRST, "--skip-chance=0.25", f"--out={runs / 'first'}")
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for name in names:
            PICTURES[name](browser, runs)


if __name__ == "__main__":
    tyro.cli(main)
