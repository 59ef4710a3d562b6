"""``evaluate.py database``: build, probe and verify endgame databases."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import tyro

from baselines.exact import Work, build, estimate, open_layers
from baselines.exact.folder import Folder
from baselines.exact.verify import check_entries, describe_entry
from ttt_apps.cli import options as cli
from ttt_apps.cli.board import parse_position, values_json, values_text
from ttt_envs.core.checks import Refusal
from ttt_envs.core.parallel import map_blocks
from ttt_envs.game.boards import Boards

BLOCK_SIZE = 1 << 20
"""Number of entries verified per block."""
DatabaseFolder = Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FOLDER")]


@dataclass(frozen=True)
class BuildDatabase(cli.ThreadOptions, cli.ExactOptions):
    """Compute the values of all positions with at least so many stones, in a folder; resume a build
    that was stopped.
    """

    stones: cli.Natural = 0
    """number of stones of the first layer; 0 for the whole game, of up to 21 cells, or with
    --gravity up to 6 x 5; of up to 25 cells the last layers"""
    folder: Path | None = None
    """the folder; default: databases/ and a name made of the game"""
    dry_run: cli.Flag = False
    """only print the estimated cost"""

    def run(self) -> None:
        """Print the estimated cost, build the database, and print its hash."""
        game = self.game_for()
        size = estimate(game, stones=self.stones)
        folder = cli.DATABASES / game.slug if self.folder is None else self.folder
        disk = next(filter(Path.exists, (folder, *folder.absolute().parents)))
        free = shutil.disk_usage(disk).free
        cost = (
            f"{game} from {self.stones} stones on has about {sum(size.by_stones):,} values: "
            f"{size.disk:,} bytes in {folder} ({free:,} free), {size.memory:,} of memory "
            f"meanwhile, {size.seconds:,.0f} s on one core"
        )
        if self.dry_run:
            data = {"game": game.to_dict(), **size._asdict(), "seconds": size.seconds}
            self.show(data, cost)
            return
        cli.warn(cost)
        with cli.bar("building") as progress:
            build(
                game,
                folder,
                stones=self.stones,
                work=Work(self.num_threads(), self.memory_bytes(), progress),
            )
        facts = Folder.open(folder).facts()
        self.show(facts, cli.facts_table(facts, f"{folder}, {game}"))


@dataclass(frozen=True)
class VerifyDatabase(cli.JsonOptions, cli.WorkOptions):
    """Recompute the entries of a database from the rules, by single look-ups; errors end with exit
    code 2.
    """

    folder: DatabaseFolder = tyro.MISSING
    """the database"""

    def run(self) -> None:
        """Check hashes, then entries.

        Raises:
            ValueError: an error in the database; the message locates it.
        """
        workers = self.workers()
        game = open_layers(None, self.folder).game
        store = Folder.open(self.folder)
        blocks = self._blocks(store)
        total = sum(len(entries) for _, _, entries in blocks)
        count = 0
        max_difference = 0.0
        with cli.bar("entries") as progress:
            for number, (difference, error) in map_blocks(check_entries, blocks, workers):
                _, stones, entries = blocks[number]
                if error >= 0:
                    raise Refusal(
                        f"{store.file(stones)} is wrong in entry {error:,}, of the position "
                        f"{describe_entry(game, stones, error)!r}: it contradicts the "
                        "next layer. Remove the file and build again"
                    )
                count += len(entries)
                max_difference = max(max_difference, difference)
                progress(count, total)
        facts = {**store.facts(), "checked": count, "largest_difference": max_difference}
        self.show(facts, cli.facts_table(facts, f"{self.folder}, {game}: no error was found"))

    def _blocks(self, store: Folder) -> list[tuple[Path, int, range]]:
        """Return the blocks of entries, as folder, number of stones and entries, once the hashes of
        their files are checked.
        """
        table = open_layers(None, self.folder)
        blocks: list[tuple[Path, int, range]] = []
        for stones in range(table.game.cells, store.stones - 1, -1):
            entries = range(table.numbering.size(stones))
            if store.read(stones, len(entries)) is None:
                raise Refusal(
                    f"{store.file(stones)} is missing or damaged: build again, which makes this "
                    "file alone"
                )
            for start in entries[::BLOCK_SIZE]:
                block = entries[start : start + BLOCK_SIZE]
                blocks.append((self.folder.absolute(), stones, block))
        return blocks


@dataclass(frozen=True)
class ProbeDatabase(cli.JsonOptions):
    """Print the values of a position and its moves."""

    folder: DatabaseFolder = tyro.MISSING
    """the database"""
    position: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="POSITION")] = tyro.MISSING
    """rows from the top, then the mover, as in "x.o/.../..o x" """

    def run(self) -> None:
        """Print the values.

        Raises:
            ValueError: a position that is over, or with fewer stones than are in the database.
        """
        table = open_layers(None, self.folder)
        game = table.game
        position = parse_position(self.position, game)
        boards = Boards.from_positions([position])
        value = float(table.values(boards)[0])
        moves = table.action_values(boards)[0]
        data = {
            "game": game.to_dict(),
            "position": self.position,
            "value": value,
            "moves": values_json(game, moves),
            "distance": None,
            "distances": None,
        }
        parts = [
            f"{self.position!r}: value {value:.7g} for the mover; its moves have the values",
            values_text(game, position, moves, 6 if game.skip_chance else 0),
        ]
        if not game.skip_chance:
            distance = int(table.distance(boards)[0])
            distances = table.action_distances(boards)[0]
            plies = np.where(distances < 0, np.nan, distances)
            data |= {"distance": distance, "distances": values_json(game, plies)}
            text = values_text(game, position, plies, 0, best=(), sign=" ")
            parts += [f"plies to the end: {distance}; by each move:", text]
        self.show(data, *parts)
