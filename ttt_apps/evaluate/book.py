"""``evaluate.py book build|show|leaves``: opening books."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import tyro
from rich.console import Console

from ttt_apps.cli import (
    Count,
    GameOptions,
    JsonOptions,
    WorkOptions,
    count_bar,
    new_table,
    print_output,
    print_status,
    print_table,
    report_interrupt,
    warn,
)
from ttt_apps.versions import make_provenance
from ttt_envs.game.boards import Boards, coordinate, to_text

if TYPE_CHECKING:  # compiled code is imported where a book is read, not where help is written
    from baselines.opening_book import Book
    from ttt_eval.matches.games import PlayedGame

COMMANDS = {
    "build": ("ttt_apps.evaluate.book:BuildBook", "Build a book from logs of games, or by a search."),
    "show": ("ttt_apps.evaluate.book:ShowBook", "Print the moves of a book in a position."),
    "leaves": ("ttt_apps.evaluate.book:LeavesBook", "Print when games leave a book, and their results."),
}


@dataclass(frozen=True)
class BuildBook(WorkOptions, GameOptions):
    """Build an opening book from the results of logged games, or from the values of a search."""

    logs: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="LOG ...")] = ()
    """files of games, as evaluate.py match --log writes them; the game is theirs"""
    plies: Count = 6
    """number of stones on a board from which on the book is empty"""
    minimum: Count = 5
    """minimum number of games in which a move was made"""
    player: str | None = None
    """include only the moves of this player, named as in the logs"""
    search: str | None = None
    """instead of logs: a policy with action values, such as mcts:simulations=10000; it evaluates every early position
    of the game given by --size, --win-length and --skip-chance"""
    out: Annotated[Path, tyro.conf.arg(metavar="FILE")] = Path("opening.book")
    """the new file"""

    def run(self) -> None:
        """Build the book and write it.

        Raises:
            ValueError: neither logs nor a search, or both; unusable logs; a file that exists.
            Stopped: an interrupt of a search; completed work is stored.
        """
        from ttt_eval.matches.books import book_from_games

        if bool(self.logs) == (self.search is not None):
            raise ValueError("a book is made of logs of games, or by a --search: name either")
        if self.out.exists():
            raise ValueError(f"--out {self.out} is there already: name another file, or remove that one")
        if self.search is None:
            with Console(stderr=True).status("reading games") as status:
                book = book_from_games(
                    self.logs,
                    plies=self.plies,
                    minimum=self.minimum,
                    player=self.player,
                    tell=warn,
                    progress=lambda games: status.update(f"reading games: {games:,}"),
                )
        else:
            book = self._make_from_search()
        if not len(book.cells):
            raise ValueError(f"no move was made in {self.minimum:,} games: choose a smaller --minimum, or more logs")
        book.write(self.out)
        if self.search is not None:
            shutil.rmtree(self._stored)
        made_of = f"{book.games:,} games" if self.search is None else self.search
        print_output(f"{book.game}: {len(book.positions):,} positions and {len(book.cells):,} moves of {made_of}")
        print_status(f"written: {self.out}")

    @property
    def _stored(self) -> Path:
        """Folder of the results of a search until the book is written."""
        return self.out.with_name(f"{self.out.name}.searched")

    def _make_from_search(self) -> Book:
        from ttt_eval.matches.books import book_from_search
        from ttt_eval.policy_identity import policy_identity

        assert self.search is not None
        game, workers = self.game_for(self.search), self.workers()
        provenance = {**make_provenance(), "player": policy_identity(self.search)}
        with report_interrupt(self._stored), count_bar("searching") as progress:
            return book_from_search(
                game,
                self.search,
                self._stored,
                provenance,
                plies=self.plies,
                jobs=workers,
                progress=progress,
            )


@dataclass(frozen=True)
class ShowBook(JsonOptions):
    """Show the moves of a book in a position: results, values, and probabilities."""

    book: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")] = tyro.MISSING
    """the book"""
    position: Annotated[str | None, tyro.conf.Positional, tyro.conf.arg(metavar="TEXT")] = None
    """rows from the top, then the mover, as in x.o/.../..o x; by default the empty board"""

    def run(self) -> None:
        """Look up the moves and print them.

        Raises:
            OSError, ValueError: no book, no position of its game, one that is over.
        """
        from baselines.opening_book import choice_shares, read_book
        from ttt_apps.board import parse_position

        book = read_book(self.book)
        game = book.game
        at = parse_position(self.position, game)
        (moves,) = book.moves(Boards.from_positions([at]))
        listed: list[dict[str, Any]] = []
        if moves is not None:
            starts = np.array([0, len(moves.results)])
            by_ucb, by_softmax = (choice_shares(kind, starts, moves.results) for kind in ("ucb", "softmax"))
            for index in np.argsort(-moves.scores, kind="stable").tolist():
                wins, draws, losses = moves.results[index].tolist()
                listed.append(
                    {
                        "moves": [coordinate(cell, game) for cell in moves.actions[index].tolist()],
                        "wins": wins,
                        "draws": draws,
                        "losses": losses,
                        "score": float(moves.scores[index]),
                        "ucb": float(by_ucb[index]),
                        "softmax": float(by_softmax[index]),
                    }
                )
        if self.json:
            said = {"game": game.to_dict(), "positions": len(book.positions), "plies": book.plies, "games": book.games}
            print(json.dumps({**said, "position": to_text(at, game), "moves": listed}))
            return
        print_output(f"{self.book}: {game}, {len(book.positions):,} positions with fewer than {book.plies} stones")
        if not listed:
            print_output(f"it has no move in {to_text(at, game)!r}")
            return
        table = new_table(
            "move", "games", "wins", "draws", "losses", "score", "ucb", "softmax", title=to_text(at, game)
        )
        for row in listed:
            counts = (row["wins"], row["draws"], row["losses"])
            shares = (f"{row[name]:.3f}" for name in ("score", "ucb", "softmax"))
            table.add_row(" ".join(row["moves"]), f"{sum(counts):,}", *(f"{count:,}" for count in counts), *shares)
        print_table(table)


@dataclass(frozen=True)
class LeavesBook(JsonOptions):
    """Show at how many stones the games of a player leave a book, and the results of those games."""

    book: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")] = tyro.MISSING
    """the book"""
    logs: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="LOG ...")] = tyro.MISSING
    """files of games"""
    player: Annotated[str, tyro.conf.arg(metavar="NAME")] = tyro.MISSING
    """the player, named as in the logs"""

    def run(self) -> None:
        """Read, count and print.

        Raises:
            OSError, ValueError: no book, no games of its game, an unknown player.
        """
        from baselines.opening_book import read_book
        from ttt_eval.matches.books import book_exits
        from ttt_eval.matches.games import read_any_format
        from ttt_eval.statistics import wilson

        book = read_book(self.book)
        names: set[str] = set()

        def games() -> Iterator[PlayedGame]:
            for log in self.logs:
                for played in read_any_format(log, tell=warn):
                    names.update(played.players)
                    yield played

        found = book_exits(book, games(), self.player)
        if not found:
            known = f"they are of {', '.join(sorted(names))}" if names else "they have no games"
            raise ValueError(f"--player {self.player} has finished no game in these logs: {known}")
        rows: list[dict[str, Any]] = []
        for each in found:
            wins, draws, losses = each.results.tolist()
            score = wilson((wins + draws / 2) / (wins + draws + losses), wins + draws + losses)
            rows.append(
                {"stones": each.stones, "wins": wins, "draws": draws, "losses": losses, "score": score._asdict()}
            )
        if self.json:
            print(json.dumps({"player": self.player, "leaves": rows}))
            return
        table = new_table(
            "stones", "games", "wins", "draws", "losses", "score", "95%", title=f"{self.player} leaves {self.book}"
        )
        for row in rows:
            stones = "never" if row["stones"] is None else str(row["stones"])
            counts = (row["wins"], row["draws"], row["losses"])
            score = row["score"]
            shown = (f"{score['mean']:.3f}", f"{score['low']:.3f}-{score['high']:.3f}")
            table.add_row(stones, f"{sum(counts):,}", *(f"{count:,}" for count in counts), *shown)
        print_table(table)
