"""The pictures of the README: a run's report and the explorer, as Chromium shows them. ``make pictures`` calls it.

Runs are trained in a folder for the purpose: that of the README, and one on the board that the explorer shows.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
FIRST = ("--learner=q-learning", "--opponent=self")
POSITION = "skip=0.25&moves=b2.a1%2B.c3&o=you&x=you&panels=exact.random.compressed.search.mcts.run"
"""what stands behind the # of the explorer's address: x was to move twice, for o was skipped"""
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


@contextmanager
def explorer(runs: Path) -> Iterator[str]:
    """Its address, while it is served on a free port."""
    command = [sys.executable, str(ROOT / "play.py"), "--web", "--no-browser", "--port=0", f"--runs={runs}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as server:
        assert server.stdout is not None
        try:
            yield next(word for line in server.stdout for word in line.split() if word.startswith("http://"))
        finally:
            server.terminate()


def train(run: Path, *options: str) -> None:
    """Train as the README does, and with more options."""
    subprocess.run([sys.executable, str(ROOT / "train.py"), "--quiet", *FIRST, *options, f"--out={run}"], check=True)


def take(page: Page, name: str) -> None:
    """Write docs/NAME.png of a page as far as it is seen."""
    page.screenshot(path=DOCS / f"{name}.png")


def main() -> None:
    """Take both."""
    chromium = next(filter(None, map(shutil.which, BROWSERS)), None)
    if chromium is None:
        sys.exit(f"error: there is none of {', '.join(BROWSERS)}: install chromium")
    with TemporaryDirectory() as folder, sync_playwright() as playwright:
        runs = Path(folder)
        train(runs / "first")
        train(runs / "skips", "--skip-chance=0.25", "--games=20000")
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1060, "height": 1545}, color_scheme="light")
        page.goto((runs / "first" / "report.html").as_uri())
        take(page, "reports")
        page = browser.new_page(
            viewport={"width": 1400, "height": 1130}, device_scale_factor=0.75, color_scheme="light"
        )
        with explorer(runs) as address:
            page.goto(f"{address.rstrip('/')}/#{POSITION}&run=skips")
            page.wait_for_selector("#board .cell")
            for panel in ("exact", "random", "compressed", "search", "mcts", "run"):
                page.wait_for_selector(f"#panel-{panel}[aria-busy=false] .cell")
            take(page, "explorer")
        browser.close()


if __name__ == "__main__":
    main()
