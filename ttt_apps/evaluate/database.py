"""``evaluate.py database``: build, probe and verify endgame databases."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import tyro

from baselines.exact import Work, build, estimate, open_layers
from baselines.exact.folder import Folder
from baselines.exact.layers import check_memory
from baselines.exact.verify import check_entries, describe_entry
from ttt_apps import cli
from ttt_apps.board import parse_position, values_json, values_text
from ttt_envs.core.parallel import map_blocks
from ttt_envs.game.boards import Boards
from ttt_envs.graph.numbering import Numbering

COMMANDS = {
    "build": ("ttt_apps.evaluate.database:Build", "Build a database, or resume a build."),
    "probe": ("ttt_apps.evaluate.database:Probe", "Print the values of a position and its moves."),
    "verify": ("ttt_apps.evaluate.database:Verify", "Recompute its entries from later ones."),
}
BLOCK_SIZE = 1 << 20
"""Number of entries verified per block."""
DatabaseFolder = Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FOLDER")]


@dataclass(frozen=True)
class Build(cli.ThreadOptions, cli.ExactOptions):
    """Compute the values of all positions with at least so many stones, in a folder; resume a build that was
    stopped.
    """

    stones: cli.Count = 0
    """number of stones of the first layer; 0 for the whole game, of up to 21 cells, or with --gravity up to 6 x 5; of
    up to 25 cells the last layers"""
    folder: Annotated[Path | None, tyro.conf.arg(metavar="PATH")] = None
    """the folder; default: databases/ and a name made of the game"""
    dry_run: tyro.conf.FlagCreatePairsOff[bool] = False
    """only print the estimated cost"""

    def run(self) -> None:
        """Print the estimated cost, build the database, and print its hash."""
        game, threads = self.game_for(), self.num_threads()
        needed = estimate(game, stones=self.stones)
        folder = cli.DATABASES / game.slug if self.folder is None else self.folder
        cli.warn(
            f"{game} from {self.stones} stones on has about {sum(needed.by_stones):,} values: {needed.disk:,} bytes in "
            f"{folder}, {needed.memory:,} of memory while they are made, about {needed.seconds:,.0f} s on one core"
        )
        if self.dry_run:
            data = {"game": game.to_dict(), **needed._asdict(), "seconds": needed.seconds}
            rows = [(str(stones), f"{count:,}") for stones, count in enumerate(needed.by_stones)]
            cli.show(data, cli.new_table("stones", "values", rows=rows), json=self.json)
            return
        check_memory(needed, game, memory=self.memory_bytes())
        with cli.share_bar("building") as progress:
            build(game, folder, stones=self.stones, work=Work(threads, self.memory_bytes(), progress))
        facts = Folder.open(folder).facts()
        entries = f"{facts['entries']:,} entries, sha256 {facts['sha256']}"
        cli.show(facts, f"{folder}: {game} from {facts['stones']} stones on, {entries}", json=self.json)


@dataclass(frozen=True)
class Verify(cli.JsonOptions, cli.WorkOptions):
    """Recompute the entries of a database from the rules, by single look-ups; errors end with exit code 2."""

    folder: DatabaseFolder = tyro.MISSING
    """the database"""
    sample: cli.Count | None = None
    """number of entries to verify, drawn at random; default: all"""
    seed: cli.Count = 0
    """seed of the sample"""

    def run(self) -> None:
        """Check hashes, then entries.

        Raises:
            ValueError: an error in the database; the message locates it.
        """
        cli.check_seed(self.seed)
        workers = self.workers()
        if self.sample is not None and self.sample < 1:
            raise cli.UsageError(f"--sample {self.sample} looks at nothing: choose 1 or more entries")
        store = Folder.open(self.folder)
        game, numbering = store.game, Numbering(store.game)
        sizes = {stones: numbering.size(stones) for stones in range(game.cells, store.stones - 1, -1)}
        for stones, size in sizes.items():
            if stones in store.missing():
                raise cli.UsageError(f"{store.file(stones)} is missing: build the database to its end")
            if store.read(stones, size) is None:
                raise cli.UsageError(f"{store.file(stones)} is damaged: build again, which rebuilds only this file")
        checked, largest = 0, 0.0
        blocks = list(self._blocks(sizes))
        with cli.progress_bar() as bar:
            task = bar.add_task("entries", total=sum(len(entries) for _, _, entries in blocks))
            for number, (difference, wrong) in map_blocks(check_entries, blocks, workers):
                _, stones, entries = blocks[number]
                if wrong >= 0:
                    position = describe_entry(game, stones, wrong)
                    raise cli.UsageError(
                        f"{store.file(stones)} is wrong in entry {wrong:,}, of the position {position!r}: it "
                        f"contradicts the next layer. Remove the file and build again"
                    )
                checked, largest = checked + len(entries), max(largest, difference)
                bar.update(task, completed=checked)
        facts = {**store.facts(), "checked": checked, "largest_difference": largest}
        cli.show(
            facts,
            f"{self.folder}: {game} from {store.stones} stones on: all {len(sizes)} files have their hashes, "
            f"{checked:,} of {facts['entries']:,} entries follow from those after them, the largest difference is "
            f"{largest:.3g}\nsha256 {facts['sha256']}",
            json=self.json,
        )

    def _blocks(self, sizes: dict[int, int]) -> Iterator[tuple[Path, int, range | np.ndarray]]:
        """Yield blocks to check: all entries in order, or a random sample."""
        sample: np.ndarray | None = None
        if self.sample is not None:
            sample = np.random.default_rng(self.seed).integers(0, sum(sizes.values()), self.sample)
            sample.sort()
        first = 0
        for stones, size in sizes.items():
            layer: range | np.ndarray = range(size)
            if sample is not None:
                layer = sample[(sample >= first) & (sample < first + size)] - first
            for start in range(0, len(layer), BLOCK_SIZE):
                yield self.folder, stones, layer[start : start + BLOCK_SIZE]
            first += size


@dataclass(frozen=True)
class Probe(cli.JsonOptions):
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
        value, moves = float(table.values(boards)[0]), table.action_values(boards)[0]
        data = {
            "game": game.to_dict(),
            "position": self.position,
            "value": value,
            "distance": None,
            "moves": values_json(game, moves),
            "distances": None,
        }
        if game.skip_chance:
            text = f"{self.position!r} has the value {value:.7g} for the mover; its moves have the values"
            cli.show(data, text, values_text(game, position, moves), json=self.json)
            return
        distance, distances = int(table.distance(boards)[0]), table.action_distances(boards)[0]
        rows = distances.reshape(game.rows, -1)
        data |= {"distance": distance, "distances": [[None if d < 0 else int(d) for d in row] for row in rows]}
        word = {1.0: "won", 0.0: "drawn", -1.0: "lost"}[value]
        plies = values_text(game, position, np.where(distances < 0, np.nan, distances), 0)
        cli.show(
            data,
            f"{self.position!r} is {word} for the mover, and over after {distance} more plies; the values of its moves",
            values_text(game, position, moves, 0),
            "and the game ends after this number of plies",
            plies.replace("+", " ").replace("*", " "),
            json=self.json,
        )
