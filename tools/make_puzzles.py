"""Makes the built-in set of puzzles from seeded games: ``python tools/make_puzzles.py --out puzzles.json``."""

import argparse
from pathlib import Path

from ttt_eval.puzzles import make_set, write_puzzles


def main(arguments: list[str] | None = None) -> None:
    """Make and write the set."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seed", type=int, default=0, help="seed of the games")
    parser.add_argument("--out", type=Path, default=Path("puzzles.json"), help="file of the puzzles")
    options = parser.parse_args(arguments)
    command = f"tools/make_puzzles.py --seed {options.seed}"
    write_puzzles(options.out, make_set(options.seed), {"command": command, "seed": options.seed})


if __name__ == "__main__":
    main()
