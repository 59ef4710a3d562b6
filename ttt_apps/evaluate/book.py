"""``evaluate.py book build|show``: opening books."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import tyro

from baselines.opening_book import Book, read_book
from ttt_apps.cli import options as cli
from ttt_apps.cli.board import parse_position
from ttt_envs.core.checks import Refusal
from ttt_envs.game.boards import Boards, coordinate, to_text
from ttt_eval.matches.books import book_from_games, book_from_search
from ttt_eval.store.policy_identity import policy_identity
from ttt_eval.store.versions import make_provenance


@dataclass(frozen=True)
class BuildBook(cli.TrustOptions, cli.OutputOptions, cli.WorkOptions, cli.GameOptions):
    """Build an opening book from the results of logged games, or from the values of a search."""

    logs: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="LOG ...")] = ()
    """files of games, as evaluate.py match --log writes them; the game is theirs"""
    plies: cli.Positive = 6
    """number of stones on a board from which on the book is empty"""
    minimum: cli.Positive = 5
    """minimum number of games in which a move was made"""
    player: cli.OptionalText = None
    """include only the moves of this player, named as in the logs"""
    search: cli.OptionalText = None
    """instead of logs: a policy with action values, such as mcts:simulations=10000; it evaluates
    every early position of the game given by --size, --win-length and --skip-chance"""
    out: Annotated[Path, tyro.conf.arg(metavar="FILE")] = Path("opening.book")
    """the new file"""

    def run(self) -> None:
        """Build the book and write it.

        Raises:
            ValueError: neither logs nor a search, or both; unusable logs; a file that exists.
            Stopped: an interrupt of a search; completed work is stored.
        """
        if bool(self.logs) == (self.search is not None):
            raise Refusal("a book is made of logs of games, or by a --search: name either")
        self.check_new_file(self.out)
        if self.search is None:
            cli.check_no_effect(
                self, "with logs, whose game it is", *cli.GAME_FIELDS, "trust", "jobs", "cluster"
            )
            with cli.status("reading games"):
                book = book_from_games(
                    self.logs,
                    plies=self.plies,
                    minimum=self.minimum,
                    player=self.player,
                    tell=cli.warn,
                )
            if not len(book.cells):
                raise Refusal(
                    f"no move was made in {self.minimum:,} games: choose a smaller --minimum"
                )
            book.write(self.out)
        else:
            cli.check_no_effect(self, "with --search", "minimum", "player")
            book = self._search(self.search)
        cli.print_output(
            f"{book.game}: {len(book.positions):,} positions and {len(book.cells):,} moves of "
            f"{self.search or f'{book.games:,} games'}"
        )
        cli.print_status(f"written: {self.out}")

    def _search(self, search: str) -> Book:
        """Write the book of a search, whose results are stored in a folder until then."""
        game = self.game_for(search)
        workers = self.workers()
        provenance = {**make_provenance(), "player": policy_identity(search)}
        folder = self.out.with_name(f"{self.out.name}.searched")
        with cli.bar("searching", folder) as progress:
            book = book_from_search(
                game, search, folder, provenance, plies=self.plies, jobs=workers, progress=progress
            )
        book.write(self.out)
        shutil.rmtree(folder)
        return book


@dataclass(frozen=True)
class ShowBook(cli.JsonOptions):
    """Show the moves of a book in a position, and their results or values."""

    book: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")] = tyro.MISSING
    """the book"""
    position: Annotated[
        cli.OptionalText, tyro.conf.Positional, tyro.conf.arg(metavar="[POSITION]")
    ] = None
    """rows from the top, then the mover, as in x.o/.../..o x; by default the empty board"""

    def run(self) -> None:
        """Look up the moves and print them.

        Raises:
            OSError, ValueError: no book, no position of its game, one that is over.
        """
        book = read_book(self.book)
        game = book.game
        position = parse_position(self.position, game)
        (moves,) = book.moves(Boards.from_positions([position]))
        rows: list[dict[str, object]] = []
        if moves is not None:
            for index in np.argsort(-moves.scores, kind="stable").tolist():
                wins, draws, losses = moves.results[index].tolist()
                rows.append(
                    {
                        "moves": [coordinate(cell, game) for cell in moves.actions[index].tolist()],
                        "wins": wins,
                        "draws": draws,
                        "losses": losses,
                        "score": float(moves.scores[index]),
                    }
                )
        text = to_text(position, game)
        facts = {
            "game": game.to_dict(),
            "positions": len(book.positions),
            "plies": book.plies,
            "games": book.games,
        }
        self.show(
            {**facts, "position": text, "moves": rows},
            f"{self.book}: {game}, {len(book.positions):,} positions with fewer than {book.plies} "
            "stones",
            cli.rows_table(rows, text) if rows else f"it has no move in {text!r}",
        )
