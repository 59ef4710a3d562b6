"""``python -m ttt_apps.play_page``: make the page without a server."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import tyro

from ttt_apps.cli import bar, command_words, parse, print_status, run_command


@dataclass(frozen=True)
class PlayPage:
    """Make one file to play 3 x 3 in a browser, with all exact values inside; it needs no server."""

    out: Path = Path("docs/play/index.html")
    """the file"""
    train: tyro.conf.FlagCreatePairsOff[bool] = False
    """train the page's nets first, which needs TensorFlow; default: use the stored weights"""

    def run(self) -> None:
        """Compute the values and write the page."""
        from ttt_apps.play_page.nets import FILE, train_nets
        from ttt_apps.play_page.numbers import GAMES, numbers
        from ttt_apps.play_page.page import build_page
        from ttt_envs.core.files import write_atomically

        if self.train:
            train_nets(GAMES, Path(__file__).with_name("assets") / FILE)
        with bar("exact values") as progress:
            page = build_page(numbers(progress)).encode()
        write_atomically(self.out, lambda file: file.write(page))
        print_status(f"{self.out}: {len(page) / 1000:.0f} kB. Open it in any browser.")


if __name__ == "__main__":
    run_command(lambda: parse(PlayPage, command_words(None), "python -m ttt_apps.play_page").run())
