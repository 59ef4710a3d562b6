"""Make the built-in set of puzzles again, byte by byte: ``python tools/make_puzzles.py FILE [--seed N]``."""

from __future__ import annotations

from pathlib import Path

import tyro

from ttt_eval.puzzles import make_set, write_puzzles


def main(file: tyro.conf.Positional[Path], seed: int = 0) -> None:
    """Write the puzzles.

    Args:
        file: the JSON file, of ttt_eval/data/puzzles for the built-in set.
        seed: seed of the games that give the positions.
    """
    write_puzzles(file, make_set(seed), {"command": f"tools/make_puzzles.py --seed {seed}", "seed": seed})


if __name__ == "__main__":
    tyro.cli(main)
