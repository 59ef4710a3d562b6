"""``python -m ttt_apps.play_page``: make the page without a server, which is the explorer's with
its answers inside.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import tyro

from ttt_apps.cli.options import command_words, parse, print_status, run_command

TITLE = "Tic-tac-toe with skipped turns"
POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:"
OWN_SCRIPTS = ("solver.js", "offline.js", "lesson.js")


def build_page(numbers: Mapping[str, object]) -> str:
    """Return the page with the data of :func:`numbers.numbers`: one file, which fetches nothing.

    The same data give the same text.
    """
    text = _read("explorer/assets/index.html")
    styles = [
        _read(f"explorer/assets/{name}")
        for name in re.findall(r'<link rel="stylesheet" href="/(.*)">\n', text)
    ]
    scripts = [
        _read(f"explorer/assets/{name}") for name in re.findall(r'<script src="/(.*)" defer>', text)
    ]
    scripts += [_read(f"play_page/assets/{name}") for name in OWN_SCRIPTS]
    head = (
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n<title>{TITLE}</title>\n'
    )
    head += '<link rel="icon" href="data:,">\n<style>\n' + "\n".join(styles) + "\n</style>\n</head>"
    data = (
        '<script type="application/json" '
        f'id="numbers">{json.dumps(numbers, separators=(",", ":"))}</script>'
    )
    end = f"{data}\n<script>\n" + "\n".join(scripts) + "\n</script>"
    text = re.sub(r"<title>.*</head>", lambda _: head, text, flags=re.DOTALL)
    text = re.sub(r"<h1>.*</h1>", f"<h1>{TITLE}</h1>", text)
    text = text.replace("</main>", _read("play_page/assets/lesson.html") + "\n</main>")
    return text.replace("</body>", end + "\n</body>")


def _read(name: str) -> str:
    return (resources.files("ttt_apps") / name).read_text("utf-8").rstrip("\n")


@dataclass(frozen=True)
class PlayPage:
    """Make one file to play in a browser, with all exact values inside; it needs no server."""

    out: Path = Path("docs/play/index.html")
    """the file"""
    train: tyro.conf.FlagCreatePairsOff[bool] = False
    """train the page's nets first, which needs TensorFlow; default: use the stored weights"""

    def run(self) -> None:
        """Compute the values and write the page."""
        from ttt_apps.play_page.nets import train_nets
        from ttt_apps.play_page.numbers import GAMES, numbers
        from ttt_envs.core.files import write_bytes

        if self.train:
            train_nets(GAMES)
        page = build_page(numbers()).encode()
        write_bytes(self.out, page)
        print_status(f"{self.out}: {len(page) / 1000:.0f} kB. Open it in any browser.")


if __name__ == "__main__":
    run_command(lambda: parse(PlayPage, command_words(None), "python -m ttt_apps.play_page").run())
