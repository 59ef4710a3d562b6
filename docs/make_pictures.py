"""Pictures of pages for the documents, as Chromium shows them, light and dark. ``make pictures``
calls it.

``python docs/make_pictures.py reports evidence`` takes only those. What the pages show is computed
in a folder for the purpose. The site shows the dark ones, ``NAME-dark.png``, in its dark colours
(docs/make_pages.py).
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, NamedTuple

import tyro
from playwright.sync_api import Browser, sync_playwright

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
SKIPS = "--skip-chance=0.25"
COMMANDS: dict[str, Sequence[str]] = {
    "first": ("train.py", "--learner=q-learning", "--opponent=self"),
    "four": (
        "evaluate.py",
        "match",
        "random",
        "win-or-block",
        "table:w=3",
        "optimal",
        "--games=400",
    ),
}
"""What makes the folders of runs that are shown: the run with the settings of the README, and the
tournament in docs/reports.md."""
PANELS = ("exact", "random", "compressed", "search", "mcts", "run")
POSITION = f"skip=0.25&moves=b2.a1%2B.c3&o=you&x=you&panels={'.'.join(PANELS)}&run=first"
"""what stands behind the # of the explorer's address: x was to move twice, for o was skipped"""
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


class Picture(NamedTuple):
    """A page, as far as it is seen."""

    address: str
    """``{runs}`` stands for the address of the runs, ``{explorer}`` for that of the explorer"""
    width: int
    """of the viewport, as the height"""
    height: int
    wait: Sequence[str] = ()
    """selectors of what has to be there"""
    scale: float = 1.0
    """pixels of the picture by pixels of the viewport"""


PICTURES = {
    "reports": Picture("{runs}/first/report.html", 1060, 1800),
    "evidence": Picture("{runs}/four/report.html", 1060, 1130),
    "explorer": Picture(
        f"{{explorer}}#{POSITION}",
        1400,
        1400,
        ["#board .cell", *(f"#panel-{name}[aria-busy=false] .cell" for name in PANELS)],
        0.75,
    ),
}


def take(browser: Browser, name: str, addresses: dict[str, str]) -> None:
    """Write docs/NAME.png and docs/NAME-dark.png, given the addresses of what is shown."""
    picture = PICTURES[name]
    viewport: Any = {"width": picture.width, "height": picture.height}
    for scheme, ending in (("light", ""), ("dark", "-dark")):
        page = browser.new_page(
            color_scheme=scheme, viewport=viewport, device_scale_factor=picture.scale
        )
        page.goto(picture.address.format(**addresses))
        for selector in picture.wait:
            page.wait_for_selector(selector)
        page.screenshot(path=DOCS / f"{name}{ending}.png")
        page.close()


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
    with TemporaryDirectory() as runs, sync_playwright() as playwright:
        for folder, (script, *words) in COMMANDS.items():
            options = ["--quiet", SKIPS, f"--out={runs}/{folder}"]
            command = [sys.executable, ROOT / script, *words, *options]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        explorer = [sys.executable, ROOT / "play.py", "web", "--no-browser", "--port=0"]
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        with subprocess.Popen(
            [*explorer, f"--runs={runs}"], stdout=subprocess.PIPE, text=True
        ) as server:
            try:
                assert server.stdout is not None
                words = (word for line in server.stdout for word in line.split())
                address = next(word for word in words if word.startswith("http://"))
                for name in names:
                    take(browser, name, {"runs": Path(runs).as_uri(), "explorer": address})
            finally:
                server.terminate()


if __name__ == "__main__":
    tyro.cli(main)
