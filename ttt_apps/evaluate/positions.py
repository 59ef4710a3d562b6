"""``evaluate.py positions``: a data set of single turns for language models."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Annotated, Literal

import tyro

from ttt_apps.cli import Count, GameOptions, JsonOptions, check_seed, new_table, print_status, print_table, slow_status


@dataclass(frozen=True)
class Positions(JsonOptions, GameOptions):
    """Write positions as prompts, with the legal moves and the exact value of each, as JSON lines.

    They are split into train and held-out positions, so that no symmetry maps one of the former to one of the latter.
    """

    out: Annotated[Path, tyro.conf.arg(metavar="FILE.jsonl")] = tyro.MISSING
    """the file; an existing one is replaced"""
    presentation: str = "grid"
    """presentation of the game: grid, coordinates, numbers, shuffled, and on 3 x 3 magic-square or words"""
    hide_legal: tyro.conf.FlagCreatePairsOff[bool] = False
    """do not list the legal moves in prompts"""
    members: Literal["one", "all"] = "one"
    """one position of each class of symmetric positions, or all"""
    held_out: float = 0.2
    """share of the classes in the held-out part"""
    seed: Count = 0
    """seed of the split, and of shuffled names"""

    def run(self) -> None:
        """Compute, write and print.

        Raises:
            OSError: the file cannot be written.
            ValueError: invalid options, a board that is too large.
        """
        from ttt_envs.core.files import write_atomically
        from ttt_eval.language_models.dataset import make_rows
        from ttt_eval.language_models.player import TextSettings

        check_seed(self.seed)
        text = TextSettings(self.game_for(), self.presentation, show_legal=not self.hide_legal, seed=self.seed)
        counts: Counter[tuple[str, str]] = Counter()

        def write(file: IO[bytes]) -> None:
            for row in make_rows(text, self.held_out, self.members == "all"):
                counts[row["split"], row["kind"]] += 1
                file.write(json.dumps(row).encode() + b"\n")

        with slow_status("the values of all positions"):
            write_atomically(self.out, write)
        if self.json:
            data = [{"split": split, "kind": kind, "positions": count} for (split, kind), count in counts.items()]
            print(json.dumps({"file": str(self.out), "positions": counts.total(), "counts": data}))
            return
        table = new_table("obvious move", "train", "held-out", title=f"{counts.total():,} positions of {text.game}")
        for kind in sorted({kind for _, kind in counts}):
            table.add_row(kind, *(f"{counts[split, kind]:,}" for split in ("train", "held-out")))
        print_table(table)
        print_status(f"written: {self.out}")
