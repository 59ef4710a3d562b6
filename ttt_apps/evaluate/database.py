"""``evaluate.py database``: build, verify, probe and list endgame databases."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import tyro

from ttt_apps.cli import (
    DATABASES,
    Count,
    ExactOptions,
    JsonOptions,
    ThreadOptions,
    WorkOptions,
    check_seed,
    new_table,
    print_output,
    print_table,
    progress_bar,
    share_bar,
    warn,
)

COMMANDS = {
    "build": ("ttt_apps.evaluate.database:Build", "Build a database, or resume a build."),
    "verify": ("ttt_apps.evaluate.database:Verify", "Recompute its entries from later ones."),
    "probe": ("ttt_apps.evaluate.database:Probe", "Print the values of a position and its moves."),
    "list": ("ttt_apps.evaluate.database:List", "List databases."),
}
BLOCK_SIZE = 1 << 20
"""Number of entries verified per block."""


@dataclass(frozen=True)
class Build(ThreadOptions, ExactOptions):
    """Compute the values of all positions with at least so many stones, in a folder; resume a build that was
    stopped.
    """

    stones: Count = 0
    """number of stones of the first layer; 0 for the whole game, of up to 21 cells, or with --gravity up to 6 x 5; of
    up to 25 cells the last layers"""
    folder: Annotated[Path | None, tyro.conf.arg(metavar="PATH")] = None
    """the folder; default: databases/ and a name made of the game"""
    dry_run: Annotated[bool, tyro.conf.arg(name="dry-run")] = False
    """only print the estimated cost"""

    def run(self) -> None:
        """Print the estimated cost, build the database, and print its hash."""
        from baselines.exact import Work, build, estimate
        from baselines.exact.folder import Folder
        from baselines.exact.layers import check_memory

        game, threads = self.game_for(), self.num_threads()
        needed = estimate(game, stones=self.stones)
        folder = DATABASES / game.slug if self.folder is None else self.folder
        warn(
            f"{game} from {self.stones} stones on has about {sum(needed.by_stones):,} values: {needed.disk:,} bytes in "
            f"{folder}, {needed.memory:,} of memory while they are made, about {needed.seconds:,.0f} s on one core"
        )
        if self.dry_run:
            data = {"game": game.to_dict(), **needed._asdict(), "seconds": needed.seconds}
            if self.json:
                print(json.dumps(data))
                return
            table = new_table("stones", "values")
            for stones, count in enumerate(needed.by_stones):
                table.add_row(str(stones), f"{count:,}")
            print_table(table)
            return
        check_memory(needed, game, memory=self.memory_bytes())
        with share_bar("building") as progress:
            build(game, folder, stones=self.stones, work=Work(threads, self.memory_bytes(), progress))
        facts = Folder.open(folder).facts()
        if self.json:
            print(json.dumps(facts))
            return
        whole = f"{facts['entries']:,} entries, sha256 {facts['sha256']}"
        print_output(f"{folder}: {game} from {facts['stones']} stones on, {whole}")


@dataclass(frozen=True)
class Verify(JsonOptions, WorkOptions):
    """Recompute the entries of a database from the rules, by single look-ups; errors end with exit code 2."""

    folder: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FOLDER")] = tyro.MISSING
    """the database"""
    sample: Count | None = None
    """number of entries to verify, drawn at random; default: all"""
    seed: Count = 0
    """seed of the sample"""

    def run(self) -> None:
        """Check hashes, then entries.

        Raises:
            ValueError: an error in the database; the message locates it.
        """
        from baselines.exact.folder import Folder
        from baselines.exact.verify import check_entries, describe_entry
        from ttt_envs.core.parallel import map_blocks
        from ttt_envs.graph.numbering import Numbering

        check_seed(self.seed)
        jobs = self.workers()
        if self.sample is not None and self.sample < 1:
            raise ValueError(f"--sample {self.sample} looks at nothing: choose 1 or more entries")
        store = Folder.open(self.folder)
        game, numbering = store.game, Numbering(store.game)
        sizes = {stones: numbering.size(stones) for stones in range(game.cells, store.stones - 1, -1)}
        with share_bar("hashes") as progress:
            for index, (stones, size) in enumerate(sizes.items()):
                if stones in store.missing():
                    raise ValueError(f"{store.file(stones)} is missing: build the database to its end")
                if store.read(stones, size) is None:
                    raise ValueError(f"{store.file(stones)} is damaged: build again, which rebuilds only this file")
                progress((index + 1) / len(sizes))
        entries, largest = 0, 0.0
        blocks = list(_blocks(self, sizes))
        with progress_bar() as bar:
            task = bar.add_task("entries", total=sum(len(entries) for _, _, entries in blocks))
            for number, (difference, wrong) in map_blocks(check_entries, blocks, jobs):
                _, stones, block = blocks[number]
                if wrong >= 0:
                    position = describe_entry(game, stones, wrong)
                    raise ValueError(
                        f"{store.file(stones)} is wrong in entry {wrong:,}, of the position {position!r}: it "
                        f"contradicts the next layer. Remove the file and build again"
                    )
                entries, largest = entries + len(block), max(largest, difference)
                bar.update(task, completed=entries)
        facts = {**store.facts(), "checked": entries, "largest_difference": largest}
        if self.json:
            print(json.dumps(facts))
            return
        what = f"{game} from {store.stones} stones on"
        print_output(
            f"{self.folder}: {what}: all {len(sizes)} files have their hashes, {entries:,} of {facts['entries']:,} "
            f"entries follow from those after them, the largest difference is {largest:.3g}\n"
            f"sha256 {facts['sha256']}"
        )


def _blocks(options: Verify, sizes: dict[int, int]) -> Iterator[tuple[Path, int, range | np.ndarray]]:
    """Yield blocks to check: all entries in order, or a random sample."""
    if options.sample is None:
        for stones, size in sizes.items():
            for start in range(0, size, BLOCK_SIZE):
                yield options.folder, stones, range(start, min(start + BLOCK_SIZE, size))
        return
    sample = np.random.default_rng(options.seed).integers(0, sum(sizes.values()), options.sample)
    sample.sort()
    for stones, size in sizes.items():
        here, sample = sample[sample < size], sample[sample >= size] - size
        for start in range(0, len(here), BLOCK_SIZE):
            yield options.folder, stones, here[start : start + BLOCK_SIZE]


@dataclass(frozen=True)
class Probe(JsonOptions):
    """Print the values of a position and its moves."""

    folder: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FOLDER")] = tyro.MISSING
    """the database"""
    position: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="POSITION")] = tyro.MISSING
    """rows from the top, then the mover, as in "x.o/.../..o x" """

    def run(self) -> None:
        """Print the values.

        Raises:
            ValueError: a position that is over, or with fewer stones than are in the database.
        """
        from baselines.exact import open_layers
        from ttt_apps.board import parse_position, values_json, values_text
        from ttt_envs.game.boards import Boards

        table = open_layers(None, self.folder)
        game = table.game
        at = parse_position(self.position, game)
        boards = Boards.from_positions([at])
        value, moves = float(table.values(boards)[0]), table.action_values(boards)[0]
        by_plies = game.skip_chance == 0
        distance = int(table.distance(boards)[0]) if by_plies else None
        distances = table.action_distances(boards)[0] if by_plies else None
        if self.json:
            data = {
                "game": game.to_dict(),
                "position": self.position,
                "value": value,
                "distance": distance,
                "moves": values_json(game, moves),
                "distances": None
                if distances is None
                else [[None if d < 0 else int(d) for d in row] for row in distances.reshape(game.rows, -1)],
            }
            print(json.dumps(data))
            return
        if distance is None:
            print_output(f"{self.position!r} has the value {value:.7g} for the mover; its moves have the values")
            print(values_text(game, at, moves))
            return
        word = {1.0: "won", 0.0: "drawn", -1.0: "lost"}[value]
        print_output(
            f"{self.position!r} is {word} for the mover, and over after {distance} more plies; the values of its moves"
        )
        print(values_text(game, at, moves, 0))
        print_output("and the game ends after this number of plies")
        assert distances is not None
        print(values_text(game, at, np.where(distances < 0, np.nan, distances), 0).replace("+", " ").replace("*", " "))


@dataclass(frozen=True)
class List(JsonOptions):
    """List endgame databases."""

    folder: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="FOLDER")] = ()
    """databases, or folders of them; default: databases/"""

    def run(self) -> None:
        """Print the list."""
        from baselines.exact.folder import MANIFEST, Folder

        found = []
        for folder in self.folder or (DATABASES,):
            if not folder.is_dir():
                if self.folder:
                    raise ValueError(f"{folder} is no folder: name a database, or a folder of databases")
                continue
            inside = sorted(path.parent for path in folder.glob(f"*/{MANIFEST}"))
            found += [folder] if (folder / MANIFEST).is_file() or (self.folder and not inside) else inside
        facts = [{"folder": str(folder), **Folder.open(folder).facts()} for folder in found]
        if self.json:
            print(json.dumps(facts))
            return
        if not facts:
            print_output(
                f"there are no databases in {DATABASES}: make one by evaluate.py database build, or name a folder"
            )
            return
        table = new_table("folder", "game", "from", "entries", "bytes", "complete", "sha256")
        for row, folder in zip(facts, found, strict=True):
            complete = "yes" if row["complete"] else "no"
            game = str(Folder.open(folder).game)
            digest = str(row["sha256"])[:16]
            table.add_row(
                str(folder), game, str(row["stones"]), f"{row['entries']:,}", f"{row['bytes']:,}", complete, digest
            )
        print_table(table)
