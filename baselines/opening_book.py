"""Opening books: results of the moves of many games, by position up to symmetry, and a policy that
plays by a book.

For every position of the first plies, in the mover's view, a book has the moves that were played
there, with the mover's wins, draws and losses in those games (Hsu, Theory of Computer Games: the
open book). It stores moves and not successors, so a move counts only for the position in which it
was made. The score of a move is (wins + draws / 2) / games.

A book is one file: a line of JSON with its description and a hash, then the arrays of
:class:`Book`.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import IO, Any, ClassVar, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from baselines.search.canonical import symmetry_tables
from ttt_envs.agents.policy import ALL_VARIANTS, VALUE_TOLERANCE, Player, Policy, sample
from ttt_envs.agents.specs import Named, make_policy
from ttt_envs.core.checks import Refusal, check_choice, check_properties, check_range
from ttt_envs.core.files import open_to_read, parse_json, write_atomically
from ttt_envs.core.hash_index import KeyIndex, distinct_rows
from ttt_envs.core.jit import BoolArray, Float64Array, Int64Array, UInt64Array
from ttt_envs.game.boards import Boards, from_keys, num_words
from ttt_envs.game.game import Game
from ttt_envs.game.rules import legal
from ttt_envs.game.symmetry import canonical_keys

FORMAT = 1
"""version of the file format"""
MAX_PLIES = 64
"""Maximum number of plies of a book."""

_HEAD = 1 << 12
"""Size of the first line in bytes."""
_ALIGNED = 64
"""Alignment of arrays in bytes."""
_MAX_FILE_BYTES = 1 << 34
"""Maximum size of a file in bytes."""

Choose = Literal["best", "ucb", "softmax"]


class BookError(Refusal):
    """The file is not an opening book, or is of another game."""


class Canonical(NamedTuple):
    """Canonical positions: for each the least key among its symmetric boards."""

    keys: UInt64Array
    """uint64[B, words]: keys of the canonical boards, in the mover's view"""
    same: BoolArray
    """bool[B, S]: symmetries that map a board to its canonical board"""

    @classmethod
    def from_boards(cls, boards: Boards, game: Game) -> Canonical:
        """Canonicalise positions; the mover's stones become 1."""
        return cls(*canonical_keys(boards.own_first(), symmetry_tables(game)[1]))

    def cells(self, actions: Int64Array, game: Game) -> Int64Array:
        """Return int64[B]: the moves int64[B] on the canonical boards; the least cell if symmetries
        differ.
        """
        return np.asarray(
            np.where(self.same, symmetry_tables(game)[0][:, actions].T, game.cells).min(axis=1)
        )


class Moves(NamedTuple):
    """A book's moves in one position."""

    actions: tuple[Int64Array, ...]
    """for every move its equivalent actions, under the symmetries of the position"""
    results: Int64Array
    """int64[moves, 3]: games that the mover won, drew and lost"""

    @property
    def scores(self) -> Float64Array:
        """float64[moves]: (wins + draws / 2) / games."""
        return move_scores(self.results)


def move_scores(results: NDArray[np.integer | np.floating]) -> Float64Array:
    """Return float64[M] from results [M, 3]: (wins + draws / 2) / games."""
    return np.asarray((results[:, 0] + results[:, 1] / 2) / results.sum(axis=1), np.float64)


@dataclass(eq=False)
class Book:
    """The moves of an opening book, read-only; see :func:`read_book` and :func:`make_book`."""

    game: Game
    plies: int
    """number of stones from which on it has no positions"""
    games: int
    """number of games it was made of; 0 if it was made by a search"""
    positions: UInt64Array
    """uint64[P, words], sorted: the keys of positions"""
    starts: Int64Array
    """int64[P + 1]: start of the moves of a position"""
    cells: Int64Array
    """int64[M]: cells of the moves on the canonical boards"""
    results: Int64Array
    """int64[M, 3]: games that the mover won, drew and lost"""

    @property
    def arrays(self) -> tuple[NDArray[np.generic], ...]:
        """Its arrays, in the order of the file."""
        return self.positions, self.starts, self.cells, self.results

    @property
    def header(self) -> dict[str, object]:
        """The first line of the file, JSON-ready: the description, and a hash of the arrays."""
        digest = hashlib.sha256()
        for array in self.arrays:
            digest.update(np.ascontiguousarray(array).data)
        fields = {
            "format": FORMAT,
            "content": "opening book",
            "game": self.game.to_dict(),
            "plies": self.plies,
        }
        return {**fields, "games": self.games, "sha256": digest.hexdigest()}

    def is_consistent(self) -> bool:
        """Return whether shapes, dtypes and ranges of the arrays are those of a book of the
        game.
        """
        num_positions = len(self.positions)
        num_moves = len(self.cells)
        shapes = [
            (num_positions, num_words(self.game.cells)),
            (num_positions + 1,),
            (num_moves,),
            (num_moves, 3),
        ]
        if [array.shape for array in self.arrays] != shapes:
            return False
        if [array.dtype.str[1:] for array in self.arrays] != ["u8", "i8", "i8", "i8"]:
            return False
        if self.starts[0] != 0 or self.starts[-1] != num_moves or (np.diff(self.starts) < 1).any():
            return False
        if (self.results < 0).any() or (self.results.sum(axis=1) < 1).any():
            return False
        return bool(((self.cells >= 0) & (self.cells < self.game.cells)).all())

    @cached_property
    def _index(self) -> KeyIndex:
        """The rows of the positions."""
        index = KeyIndex(self.positions.shape[1])
        index.rows(self.positions.copy())  # kernels would be compiled again for a read-only array
        return index

    def find(self, boards: Boards) -> tuple[Int64Array, BoolArray]:
        """Return the rows of positions, int64[B], -1 if unknown; and the symmetries that lead
        there, bool[B, S].
        """
        canonical = Canonical.from_boards(boards, self.game)
        return self._index.find(canonical.keys), canonical.same

    def moves(self, boards: Boards) -> list[Moves | None]:
        """Return the book's moves in positions, None for unknown ones."""
        _, images = symmetry_tables(self.game)
        entries: list[Moves | None] = []
        for row, same in zip(*self.find(boards), strict=True):
            if row < 0:
                entries.append(None)
                continue
            part = slice(self.starts[row], self.starts[row + 1])
            actions = tuple(np.unique(images[same, cell]) for cell in self.cells[part])
            entries.append(Moves(actions, self.results[part]))
        return entries

    def spread(self, boards: Boards, shares: Float64Array) -> tuple[Float64Array, BoolArray]:
        """Return distributions over moves, float64[B, rows * columns], and whether the book has
        one, bool[B].

        Equivalent moves in a symmetric position split the share of their common entry.

        Args:
            boards: positions.
            shares: float64[M], for the moves of the book.
        """
        rows, same = self.find(boards)
        is_listed = rows >= 0
        counts = np.where(is_listed, self.starts[rows + 1] - self.starts[rows], 0)
        board = np.repeat(np.arange(len(rows)), counts)
        within = np.arange(len(board)) - np.repeat(np.cumsum(counts) - counts, counts)
        move = self.starts[rows[board]] + within
        out = np.zeros(boards.cells.shape)
        part = shares[move] / same.sum(axis=1)[board]
        for symmetry, image in enumerate(symmetry_tables(self.game)[1]):
            rows_of_image = same[board, symmetry]
            cells = image[self.cells[move[rows_of_image]]]
            np.add.at(out, (board[rows_of_image], cells), part[rows_of_image])
        return out, is_listed

    def write(self, path: Path) -> None:
        """Write the file atomically.

        Raises:
            OSError: the file cannot be written.
        """

        def write(file: IO[bytes]) -> None:
            file.write(json.dumps(self.header).encode().ljust(_HEAD - 1) + b"\n")
            for array in self.arrays:
                file.write(b"\0" * (-file.tell() % _ALIGNED))
                np.lib.format.write_array(file, np.ascontiguousarray(array), allow_pickle=False)

        write_atomically(path, write)


def read_book(path: str | Path, game: Game | None = None) -> Book:
    """Return the book in a file, after a check of its hash.

    Args:
        path: the file.
        game: the expected game; None for any.

    Raises:
        OSError: there is no file.
        BookError: the file is something else, of another game, or damaged.
    """
    arrays: list[NDArray[Any]] = []
    try:
        with open_to_read(Path(path), _MAX_FILE_BYTES) as file:
            header = parse_json(file.read(_HEAD).rstrip(b" \n"), _HEAD)
            for _ in range(4):
                file.seek(-file.tell() % _ALIGNED, os.SEEK_CUR)
                arrays.append(np.lib.format.read_array(file, allow_pickle=False))
                arrays[-1].flags.writeable = False
        book = Book(Game.from_dict(header["game"]), header["plies"], header["games"], *arrays)
        check_plies(book.plies)
        if book.header != header or not book.is_consistent():
            raise Refusal("its description, its hash or its arrays differ")
        is_legal = legal(book.game, from_keys(book.positions, book.game))
        if not is_legal[
            np.repeat(np.arange(len(is_legal)), np.diff(book.starts)), book.cells
        ].all():
            raise Refusal("a move is illegal")  # an opponent would play it, late in a match
    except OSError:
        raise
    except Exception as problem:  # files can be wrong in endless ways
        raise BookError(
            f"{path} is no opening book, or a damaged one: make one by evaluate.py book build"
        ) from problem
    if game is not None and book.game != game:
        raise BookError(
            f"{path} is a book of {book.game}, not of {game}: choose another, or play that game"
        )
    return book


# --------------------------------------------------------------------------------------------------
# Making books


class PlayedMoves(NamedTuple):
    """Moves that were made, and their results."""

    boards: Boards
    """the positions before the moves"""
    actions: Int64Array
    """int64[B]"""
    results: Int64Array
    """int64[B, 3]: games that the mover won, drew and lost"""
    games: int = 0
    """number of games of which this part has the first moves; 0 where they are from no games, as by
    a search
    """


def _merge(
    keys: UInt64Array, cells: Int64Array, results: Int64Array
) -> tuple[UInt64Array, Int64Array, Int64Array]:
    """Return moves sorted, with the results of equal ones added up."""
    first, move = distinct_rows(np.column_stack([keys, cells.astype(np.uint64)]))
    total = np.zeros((len(first), 3), np.int64)
    np.add.at(total, move, results)
    return keys[first], cells[first], total


def make_book(game: Game, played: Iterable[PlayedMoves], *, plies: int, minimum: int = 1) -> Book:
    """Return a book of moves that were made.

    Args:
        game: the game.
        played: the moves, in any order and in parts of any size.
        plies: number of stones from which on the book has no positions, 1 to 64.
        minimum: minimum number of games of a move, 1 or more.

    Raises:
        ValueError: the number of plies, or the minimum, is invalid.
    """
    check_plies(plies)
    check_range("minimum", minimum, 1, problem="is no number of games")
    num_games = 0
    total = (
        np.zeros((0, num_words(game.cells)), np.uint64),
        np.zeros(0, np.int64),
        np.zeros((0, 3), np.int64),
    )
    for boards, actions, results, games in played:
        num_games += games
        early = boards.num_stones < plies
        if early.any():
            canonical = Canonical.from_boards(boards.take(early), game)
            moves = canonical.cells(actions[early], game)
            part: tuple[NDArray[Any], ...] = canonical.keys, moves, results[early]
            total = _merge(*map(np.concatenate, zip(total, part, strict=True)))
    keys, cells, results = (array[total[2].sum(axis=1) >= minimum] for array in total)
    first, _ = distinct_rows(keys)
    return Book(game, plies, num_games, keys[first], np.append(first, len(keys)), cells, results)


def check_plies(plies: int) -> None:
    """Raise ValueError for an invalid number of plies of a book."""
    check_range(
        "plies", plies, 1, MAX_PLIES, "makes no book", " stones up to which positions are keys"
    )


# --------------------------------------------------------------------------------------------------
# Playing by books


def choice_shares(
    choose: Choose,
    starts: Int64Array,
    results: NDArray[np.integer | np.floating],
    *,
    c: float = 1.4,
    temperature: float = 0.05,
) -> Float64Array:
    """Return the shares of the moves of each position.

    ``"best"``: equal shares for the best moves. ``"softmax"``: by exp(score / temperature).
    ``"ucb"``: how often UCB1 selects each move if scores are constant. Its index is score + c
    sqrt(ln N / n), with n of N games for a move (Auer, Cesa-Bianchi and Fischer, 2002; there c is
    the root of 2). It selects the move with the highest index, so that in the long run all indices
    equal a number l, and n = c**2 ln N / (l - score)**2; l follows from the sum N of all n.

    Args:
        choose: the kind of shares.
        starts: int64[P + 1]: start of the moves of a position.
        results: [M, 3]: games won, drawn and lost.
        c: exploration weight, above 0.
        temperature: above 0.

    Returns:
        float64[M].
    """
    scores = move_scores(results)
    count = np.diff(starts)
    first = starts[:-1]
    best = np.maximum.reduceat(scores, first)
    if choose == "ucb":
        games = np.add.reduceat(results.sum(axis=1), first).astype(np.float64)
        # a position with one game has one move
        unit = c * np.sqrt(np.log(np.maximum(games, 2)) / games)
        # extremes: one move has all games; all scores are equal
        low = best + unit
        high = best + unit * np.sqrt(count)
        for _ in range(60):
            middle = (low + high) / 2
            sums = np.add.reduceat(
                (np.repeat(unit, count) / (np.repeat(middle, count) - scores)) ** 2, first
            )
            low = np.where(sums > 1, middle, low)
            high = np.where(sums > 1, high, middle)
        weights = (np.repeat(unit, count) / (np.repeat(high, count) - scores)) ** 2
    else:
        loss = np.repeat(best, count) - scores
        if choose == "softmax":
            weights = np.exp(-loss / temperature)
        else:
            weights = (loss <= VALUE_TOLERANCE).astype(np.float64)
    return np.asarray(weights / np.repeat(np.add.reduceat(weights, first), count))


@dataclass(frozen=True)
class OpeningBook(Named):
    """Plays by an opening book while it has moves, and then like another policy, with its memory if
    it has one.

    Raises:
        BookError, ValueError: the file is not a book of the game, or a setting is out of range.
        OSError: there is no file.
    """

    name: ClassVar[str] = "book"
    variants = ALL_VARIANTS
    refusals: ClassVar = {"hidden": "it reads the whole board, to find it among those of the book"}

    game: Game
    path: str
    """the file, made by evaluate.py book build"""
    choose: Choose = "best"
    """the best move; or random moves: with the frequencies of ucb, or by softmax of their scores"""
    then: str | Policy = "expectiminimax"
    """the policy for positions without book moves"""
    c: float = 1.4
    """exploration weight, for ucb"""
    temperature: float = 0.05
    """for softmax: shares are exp(score / temperature)"""
    _then: Policy = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_range("c", self.c, 0, above=True)
        check_range("temperature", self.temperature, 0, above=True)
        check_choice("choose", self.choose, get_args(Choose))
        check_properties(self, "book")
        object.__setattr__(self, "_then", make_policy(self.then, self.game))
        # the book is: it stores the mover's views up to symmetry
        for name in ("pure", "symmetric", "colour_blind"):
            object.__setattr__(self, name, getattr(self._then, name))
        if self._then.player is not None:  # only then is this policy one with a player, too
            object.__setattr__(self, "player", partial(BookPlayer, self))

    @cached_property
    def book(self) -> Book:
        """The opening book."""
        return read_book(self.path, self.game)

    def probabilities(self, boards: Boards, rng: np.random.Generator | None = None) -> Float64Array:
        """Return float64[B, rows * columns]; ``rng`` as the following policy needs it."""
        out, is_listed = self.book_probabilities(boards)
        if not is_listed.all():
            out[~is_listed] = self._then.probabilities(boards.take(~is_listed), rng)
        return out

    @cached_property
    def _shares(self) -> Float64Array:
        """float64[M]: shares of the moves of the book."""
        book = self.book
        return choice_shares(
            self.choose, book.starts, book.results, c=self.c, temperature=self.temperature
        )

    def book_probabilities(self, boards: Boards) -> tuple[Float64Array, BoolArray]:
        """Return the distributions of the book alone, float64[B, rows * columns], and whether it
        has one, bool[B].
        """
        out = np.zeros(boards.cells.shape)
        is_listed = np.zeros(len(boards.mover), np.bool_)
        early = boards.num_stones < self.book.plies
        if early.any():
            out[early], is_listed[early] = self.book.spread(boards.take(early), self._shares)
        return out, is_listed


class BookPlayer(Player):
    """Plays games by a book, and hands each over to a player with memory at the end of the book."""

    def __init__(self, policy: OpeningBook) -> None:
        assert policy._then.player is not None
        self.policy = policy
        self.then = policy._then.player()

    def begin(self, slots: Int64Array) -> None:
        """Start new games in ``slots`` int64[B]."""
        self.then.begin(slots)

    def use_clock(self, seconds: float, increment: float) -> None:
        """See :class:`ttt_envs.agents.policy.Player`."""
        self.then.use_clock(seconds, increment)

    def close(self) -> None:
        """See :class:`ttt_envs.agents.policy.Player`."""
        self.then.close()

    def act(
        self,
        boards: Boards,
        slots: Int64Array,
        rng: np.random.Generator,
        time_left: Float64Array | None = None,
    ) -> Int64Array:
        """Return int64[B]: a move in each of the games ``slots``; first draws one uniform number
        for each.
        """
        shares, is_listed = self.policy.book_probabilities(boards)
        u = rng.random(len(slots))
        out = np.empty(len(slots), np.int64)
        out[is_listed] = sample(shares[is_listed], u[is_listed])
        if not is_listed.all():
            times = None if time_left is None else time_left[~is_listed]
            out[~is_listed] = self.then.act(boards.take(~is_listed), slots[~is_listed], rng, times)
        return out
