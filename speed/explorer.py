"""Response times of the explorer, from a click to the drawn result, with one visitor and with
several; and its size.

A browser clicks through games on 3 x 3 with the panels that need no loading, and checks at every
frame whether all are drawn. The other visitors send the same requests over HTTP, each once a
second. There is no peer.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CORES = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()

from measuring import MS, Benchmark, Part, SkipRow, run  # noqa: E402  # it takes all cores but one away
from rich.box import MARKDOWN  # noqa: E402
from rich.table import Table  # noqa: E402

if CORES:  # server, browser and visitors must not share one core
    os.sched_setaffinity(0, CORES)

ROOT = Path(__file__).parents[1]
CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
CLICKS = ("b2", "a1", "c1", "a3", "a2", "c2", "b1", "b3")
"""Clicks of a game that fills the board."""
GAME = {"rows": 3, "columns": 3, "win_length": 3, "skip_chance": 0.25}
KINDS = ("exact", "random", "compressed", "search", "mcts")
PLAY = """async ([names, games]) => {
  const frame = () => new Promise(requestAnimationFrame)
  const drawn = (card) => card.hidden || card.ariaBusy === "false"
  const busy = () => ![...document.querySelectorAll("#maps .card")].every(drawn)
  const moves = () => document.querySelectorAll("#moves li").length
  const [times, answers] = [[], []]
  performance.setResourceTimingBufferSize(10000)
  for (let game = 0; game < games; game++) {
    document.querySelector("#new").click()
    while (moves() !== 0 || busy()) await frame()
    for (const [number, name] of names.entries()) {
      performance.clearResourceTimings()
      const begin = performance.now()
      document.querySelector(`#board .cell[aria-label^="${name}:"]`).click()
      while (moves() !== number + 1 || busy()) await frame()
      times.push(performance.now() - begin)
      const entries = performance.getEntriesByType("resource")
      const first = entries.map((entry) => entry.startTime)
      const last = entries.map((entry) => entry.responseEnd)
      answers.push(Math.max(...last) - Math.min(...first))
    }
  }
  return {click: times, answer: answers}
}"""


@dataclass(frozen=True)
class Measured:
    """A row: a measurement, its unit, and the goal."""

    name: str
    what: str
    unit: str
    count: int
    median: float
    p99: float
    goal: str

    @classmethod
    def of(cls, name: str, what: str, unit: str, values: list[float], goal: str = "") -> Measured:
        """Summarize at least one value."""
        last = sorted(values)[min(len(values) - 1, int(0.99 * len(values)))]
        return cls(name, what, unit, len(values), statistics.median(values), last, goal)


@contextmanager
def run_explorer() -> Iterator[tuple[str, float]]:
    """Yield the address of an explorer in a separate process, and the ms from its start to its
    first page.
    """
    with tempfile.TemporaryDirectory() as root:
        command = [sys.executable, str(ROOT / "play.py"), "web", "--no-browser", "--runs", root]
        begin = time.perf_counter()
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            try:
                match = re.search(r"http://(\S+)/", process.stdout.readline())
                if match is None:
                    raise SkipRow("the explorer does not start")
                while True:
                    try:
                        request(match[1], "GET", "/")
                        break
                    except OSError:
                        time.sleep(0.005)
                yield match[1], 1e3 * (time.perf_counter() - begin)
            finally:
                process.terminate()


def request(host: str, method: str, path: str, body: Any = None) -> bytes:
    """Return the response to a request, whatever its status."""
    connection = http.client.HTTPConnection(host, timeout=60)
    try:
        content = None if body is None else json.dumps(body)
        connection.request(method, path, content, {"content-type": "application/json"})
        return connection.getresponse().read()
    finally:
        connection.close()


def visit(host: str, ended: threading.Event, wait: float) -> None:
    """Play like a page, about one request a second, until ``ended`` is set."""
    ended.wait(wait)
    count = 0
    while not ended.wait(1.0):
        count = (count + 1) % len(CLICKS)
        cells = ["."] * 9
        for number, (column, row) in enumerate(CLICKS[:count]):
            cells["abc".index(column) + 3 * (int(row) - 1)] = "ox"[number % 2]
        rows = "/".join("".join(cells[start : start + 3]) for start in (0, 3, 6))
        request(
            host,
            "POST",
            "/api/review",
            {"game": GAME, "moves": " ".join(CLICKS[:count]), "wait": True},
        )
        panels = [{"kind": kind} for kind in KINDS]
        body = {"game": GAME, "position": f"{rows} {'ox'[count % 2]}", "panels": panels}
        request(host, "POST", "/api/values", body)


def measure(name: str, rounds: int, seconds: float) -> Measured:
    """Measure a row."""
    if name == "weight":
        assets = ROOT / "ttt_apps" / "explorer" / "assets"
        size = sum(path.stat().st_size for path in assets.iterdir()) / 1024
        return Measured.of(name, "all files of the page, as they are sent", "KiB", [size])
    if name == "start":
        times = []
        for _ in range(rounds):
            with run_explorer() as (_, seconds):
                times.append(seconds)
        return Measured.of(name, "from the command to its first answer", "ms", times)
    if CHROMIUM is None:
        raise SkipRow("there is no chromium to look with")
    from playwright.sync_api import sync_playwright

    with run_explorer() as (host, _), sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page()
        for _ in range(3):
            page.goto(f"http://{host}/#x=you&skip=0.25")
            page.wait_for_selector("#panel-mcts[aria-busy=false] .cell", timeout=120_000)
            page.goto("about:blank")
        if name == "paint":
            times = []
            for _ in range(5 * rounds):
                page.goto("about:blank")
                page.goto(f"http://{host}/#x=you&skip=0.25")
                page.wait_for_selector("#board .cell")
                times.append(page.evaluate("performance.now()"))
            return Measured.of(
                name, "from the address to the board, drawn", "ms", times, "under 1000"
            )
        page.goto(f"http://{host}/#x=you")
        page.wait_for_selector("#panel-mcts[aria-busy=false] .cell")
        of_what, _, count = name.partition("-")
        visitors = int(count)
        ended = threading.Event()
        others = [
            threading.Thread(target=visit, args=(host, ended, n / visitors))
            for n in range(1, visitors)
        ]
        for other in others:
            other.start()
        try:
            page.evaluate(PLAY, [CLICKS, 1])
            times = page.evaluate(PLAY, [CLICKS, 5 * rounds])[of_what]
        finally:
            ended.set()
            for other in others:
                other.join()
            browser.close()
        what = {
            "click": "from a click to five panels, drawn",
            "answer": "of that, from the first request of the click to its last answer",
        }[of_what]
        return Measured.of(
            name, what + f", {visitors - 1} others" * bool(others), "ms", times, "median under 100"
        )


def comparison_table(rows: list[Measured]) -> Table:
    """Return the table of the rows."""
    table = Table(
        box=MARKDOWN, title="Server, browser and visitors on all cores", title_justify="left"
    )
    for header in ("row", "what", "unit", "times", "median", "99%", "goal"):
        table.add_column(header, no_wrap=True)
    for row in rows:
        numbers = (f"{row.count}", f"{row.median:.3g}", f"{row.p99:.3g}")
        table.add_row(row.name, row.what, row.unit, *numbers, row.goal)
    return table


if __name__ == "__main__":
    run(
        Benchmark(
            __doc__ or "",
            ("fastapi", "uvicorn"),
            MS,
            (),
            (
                Part(
                    "explorer",
                    ("weight", "start", "paint", "click-1", "answer-1", "click-20", "answer-20"),
                    measure,
                    comparison_table,
                ),
            ),
        )
    )
