"""The page put together: one file with its look, its script and its numbers inside, which asks nobody for anything."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from ttt_envs.files import write_whole

PARTS = {
    "LOOK": ("explorer/assets/look.css", "play_page/assets/page.css"),
    "SCRIPT": ("explorer/assets/board.js", "play_page/assets/game.js", "play_page/assets/page.js"),
}
"""what stands in which place of the template"""


def page_of(numbers: Mapping[str, Any]) -> str:
    """The page around what :func:`numbers.numbers` has found; the same numbers give the same letters."""
    text = _read("play_page/assets/page.html")
    for place, names in PARTS.items():
        text = text.replace(f"{{{{{place}}}}}", "\n".join(map(_read, names)))
    return text.replace("{{NUMBERS}}", json.dumps(numbers, separators=(",", ":")))


def numbers_in(page: str) -> Any:
    """What :func:`page_of` was given."""
    return json.loads(page.partition('<script type="application/json" id="numbers">')[2].partition("</script>")[0])


def write_page(path: Path, page: str) -> None:
    """Write a page, whole or not at all."""
    write_whole(path, lambda file: file.write(page.encode()))


def _read(name: str) -> str:
    return (resources.files("ttt_apps") / name).read_text("utf-8").rstrip("\n")
