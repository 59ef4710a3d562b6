"""Assembly of the page: one file with its style, script and data inside, which fetches nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import resources
from typing import Any

PARTS = {
    "LOOK": ("explorer/assets/look.css", "explorer/assets/puzzles.css", "play_page/assets/page.css"),
    "SCRIPT": (
        "explorer/assets/board.js",
        "explorer/assets/puzzles.js",
        "play_page/assets/game.js",
        "play_page/assets/page.js",
    ),
}
"""Files for each placeholder of the template."""


def build_page(numbers: Mapping[str, Any]) -> str:
    """Return the page with the data of :func:`numbers.numbers`; the same data give the same text."""
    text = _read("play_page/assets/page.html")
    for place, names in PARTS.items():
        text = text.replace(f"{{{{{place}}}}}", "\n".join(map(_read, names)))
    return text.replace("{{NUMBERS}}", json.dumps(numbers, separators=(",", ":")))


def parse_numbers(page: str) -> Any:
    """Extract the data that :func:`build_page` was given."""
    return json.loads(page.partition('<script type="application/json" id="numbers">')[2].partition("</script>")[0])


def _read(name: str) -> str:
    return (resources.files("ttt_apps") / name).read_text("utf-8").rstrip("\n")
