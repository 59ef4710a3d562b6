"""Opening books: results of the moves of many games, by position up to symmetry, and a policy that plays by a book.

For every position of the first plies, in the mover's view, a book has the moves that were played there, with the
mover's wins, draws and losses in those games (Hsu, Theory of Computer Games: the open book). It stores moves and not
successors, so a move counts only for the position in which it was made. The score of a move is
(wins + draws / 2) / games.

A book is one file: a line of JSON with its description, then the arrays of :class:`Book`, which are memory-mapped.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable
from dataclasses import InitVar, dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import IO, Any, ClassVar, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from ttt_envs.agents.policy import VALUE_TOLERANCE, HasPlayer, Player, Policy, is_colour_blind, is_symmetric, sample
from ttt_envs.agents.specs import Named, make_policy
from ttt_envs.core.array_cache import mapped
from ttt_envs.core.checks import check_choice
from ttt_envs.core.files import open_to_read, parse_json, write_atomically
from ttt_envs.core.jit import BoolArray, Float64Array, Int64Array, UInt64Array
from ttt_envs.game.boards import Boards, from_keys, num_words
from ttt_envs.game.game import Game
from ttt_envs.game.rules import legal
from ttt_envs.game.symmetry import canonical_keys, inverse, symmetries

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


@cache
def _symmetries(game: Game) -> tuple[Int64Array, Int64Array]:
    """Return the symmetries of a board, and their inverses: int64[S, rows * columns] each."""
    found = symmetries(game)
    return found, inverse(found)


class BookError(ValueError):
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
        return cls(*canonical_keys(boards.own_first(), _symmetries(game)[0]))

    def cells(self, actions: Int64Array, game: Game) -> Int64Array:
        """Return int64[B]: the moves int64[B] on the canonical boards; the least cell if symmetries differ."""
        to = _symmetries(game)[1][:, actions].T
        return np.asarray(np.where(self.same, to, game.cells).min(axis=1))


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


def move_scores(results: NDArray[Any]) -> Float64Array:
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
    def arrays(self) -> tuple[NDArray[Any], ...]:
        """Its arrays, in the order of the file."""
        return self.positions, self.starts, self.cells, self.results

    @cached_property
    def _sorted_keys(self) -> NDArray[Any]:
        """[P]: the keys in a form that numpy can search in."""
        return self.positions[:, 0] if self.positions.shape[1] == 1 else _to_bytes(self.positions)

    def find(self, boards: Boards) -> tuple[Int64Array, BoolArray]:
        """Return the rows of positions, int64[B], -1 if unknown; and the symmetries that lead there, bool[B, S]."""
        canonical = Canonical.from_boards(boards, self.game)
        rows = np.full(len(boards.mover), -1)
        if len(self.positions):
            keys = canonical.keys[:, 0] if canonical.keys.shape[1] == 1 else _to_bytes(canonical.keys)
            places = np.minimum(np.searchsorted(self._sorted_keys, keys), len(self.positions) - 1)
            found = (self.positions[places] == canonical.keys).all(axis=1)
            rows[found] = places[found]
        return rows, canonical.same

    def moves(self, boards: Boards) -> list[Moves | None]:
        """Return the book's moves in positions, None for unknown ones."""
        images, _ = _symmetries(self.game)
        found: list[Moves | None] = []
        for row, same in zip(*self.find(boards), strict=True):
            if row < 0:
                found.append(None)
                continue
            part = slice(self.starts[row], self.starts[row + 1])
            actions = tuple(np.unique(images[same, cell]) for cell in self.cells[part])
            found.append(Moves(actions, self.results[part]))
        return found

    def spread(self, boards: Boards, shares: Float64Array) -> tuple[Float64Array, BoolArray]:
        """Return distributions over moves, float64[B, rows * columns], and whether the book has one, bool[B].

        Equivalent moves in a symmetric position split the share of their common entry.

        Args:
            boards: positions.
            shares: float64[M], for the moves of the book.
        """
        rows, same = self.find(boards)
        known = rows >= 0
        counts = np.where(known, self.starts[rows + 1] - self.starts[rows], 0)
        board = np.repeat(np.arange(len(rows)), counts)
        within = np.arange(len(board)) - np.repeat(np.cumsum(counts) - counts, counts)
        move = self.starts[rows[board]] + within
        out = np.zeros(boards.cells.shape)
        part = shares[move] / same.sum(axis=1)[board]
        for symmetry, image in enumerate(_symmetries(self.game)[0]):
            here = same[board, symmetry]
            np.add.at(out, (board[here], image[self.cells[move[here]]]), part[here])
        return out, known

    def write(self, path: Path) -> None:
        """Write the file atomically.

        Raises:
            OSError: the file cannot be written.
        """
        digest = hashlib.sha256()
        for array in self.arrays:
            digest.update(np.ascontiguousarray(array).data)
        header = {**_game_fields(self.game), "plies": self.plies, "games": self.games, "sha256": digest.hexdigest()}

        def write(file: Any) -> None:
            file.write(json.dumps(header).encode().ljust(_HEAD - 1) + b"\n")
            for array in self.arrays:
                file.write(b"\0" * (-file.tell() % _ALIGNED))
                np.lib.format.write_array(file, np.ascontiguousarray(array), allow_pickle=False)

        write_atomically(path, write)


def _game_fields(game: Game) -> dict[str, Any]:
    return {"format": FORMAT, "content": "opening book", "game": game.to_dict()}


def _to_bytes(found: UInt64Array) -> NDArray[Any]:
    """Return keys of several words as bytes with the same order."""
    return np.ascontiguousarray(found.astype(">u8")).view(f"S{8 * found.shape[1]}").ravel()


def read_book(path: str | Path, game: Game | None = None) -> Book:
    """Return the book in a file, memory-mapped, after a check of its hash.

    Args:
        path: the file.
        game: the expected game; None for any.

    Raises:
        OSError: there is no file.
        BookError: the file is something else, of another game, or damaged.
    """
    path = Path(path)
    try:
        file = open_to_read(path, _MAX_FILE_BYTES)
    except ValueError as problem:
        raise BookError(str(problem)) from None
    with file:
        try:
            header = parse_json(file.read(_HEAD).rstrip(b" \n"), _HEAD)
            own = Game.from_dict(header["game"])
            if {name: header[name] for name in _game_fields(own)} != _game_fields(own):
                raise ValueError("the fields of its game differ")
            arrays: list[Any] = []
            at = _HEAD
            for _ in range(4):
                file.seek(at)
                arrays.append(mapped(file))  # this moves the file position
                file.seek(at)
                at = _next_offset(file, arrays[-1].nbytes)
            book = Book(own, int(header["plies"]), int(header["games"]), *arrays)
            _check(book, str(header["sha256"]))
        except Exception as problem:  # files can be wrong in endless ways
            raise BookError(
                f"{path} is no opening book, or a damaged one: make one by evaluate.py book build"
            ) from problem
    if game is not None and book.game != game:
        raise BookError(f"{path} is a book of {book.game}, not of {game}: choose another, or play that game")
    return book


def _next_offset(file: IO[bytes], size: int) -> int:
    """Return the offset after the array of ``size`` bytes that begins here."""
    np.lib.format.read_magic(file)
    np.lib.format.read_array_header_1_0(file)
    return -(-(file.tell() + size) // _ALIGNED) * _ALIGNED


def _check(book: Book, sha256: str) -> None:
    """Raise ValueError if the arrays are invalid."""
    positions, starts, cells, results = arrays = book.arrays
    shapes = (len(positions), num_words(book.game)), (len(positions) + 1,), (len(cells),), (len(cells), 3)
    kinds = np.uint64, np.int64, np.int64, np.int64
    digest = hashlib.sha256()
    for array, shape, kind in zip(arrays, shapes, kinds, strict=True):
        if array.shape != shape or array.dtype != kind:
            raise ValueError("an array has another shape or kind of number")
        digest.update(np.ascontiguousarray(array).data)
    in_order = starts[0] == 0 and starts[-1] == len(cells) and (np.diff(starts) > 0).all()
    on_board = ((cells >= 0) & (cells < book.game.cells)).all()
    if digest.hexdigest() != sha256 or not in_order or not on_board or (results < 0).any() or not results.any(1).all():
        raise ValueError("it is damaged")
    boards = from_keys(np.asarray(positions), book.game)
    allowed = legal(book.game, boards)
    if len(cells) and not allowed[np.repeat(np.arange(len(positions)), np.diff(starts)), cells].all():
        raise ValueError("a move is not legal")


# ---------------------------------------------------------------------------------------------------------------------
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
    """number of games of which this part has the first moves; 0 where they are from no games, as by a search"""


class _Counts(NamedTuple):
    keys: UInt64Array
    cells: Int64Array
    results: Int64Array

    def merge(self, other: _Counts) -> _Counts:
        """Merge the moves of both, sorted and unique."""
        keys = np.concatenate([self.keys, other.keys])
        cells, results = np.append(self.cells, other.cells), np.concatenate([self.results, other.results])
        order = np.lexsort((cells, *keys.T[::-1]))
        keys, cells, results = keys[order], cells[order], results[order]
        first = _is_first(np.column_stack([keys, cells.astype(np.uint64)]))
        return _Counts(keys[first], cells[first], np.add.reduceat(results, np.flatnonzero(first)))


def _is_first(rows: UInt64Array) -> BoolArray:
    """Return bool[N]: rows of [N, W] that differ from the row before."""
    return np.append(np.ones(min(1, len(rows)), np.bool_), (rows[1:] != rows[:-1]).any(axis=1))


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
    if minimum < 1:
        raise ValueError(f"minimum={minimum} is no number of games: choose 1 or more")
    words = num_words(game)
    num_games = 0
    total = _Counts(np.zeros((0, words), np.uint64), np.zeros(0, np.int64), np.zeros((0, 3), np.int64))
    for boards, actions, results, games in played:
        num_games += games
        early = np.count_nonzero(boards.cells, axis=1) < plies
        if not early.any():
            continue
        some = Canonical.from_boards(boards.take(early), game)
        part = _Counts(some.keys, some.cells(actions[early], game), results[early])
        total = total.merge(part)
    often = total.results.sum(axis=1) >= minimum
    keys, cells, results = total.keys[often], total.cells[often], total.results[often]
    first = _is_first(keys)
    starts = np.append(np.flatnonzero(first), len(keys)).astype(np.int64)
    return Book(game, plies, num_games, np.ascontiguousarray(keys[first]), starts, cells, results)


def check_plies(plies: int) -> None:
    """Raise ValueError for an invalid number of plies of a book."""
    if not 1 <= plies <= MAX_PLIES:
        raise ValueError(f"plies={plies} makes no book: choose 1 to {MAX_PLIES} stones up to which positions are keys")


# ---------------------------------------------------------------------------------------------------------------------
# Playing by books


def ucb_shares(starts: Int64Array, results: NDArray[Any], c: float) -> Float64Array:
    """Return how often UCB1 selects each move of a position with constant scores, as shares of its games.

    Its index is score + c sqrt(ln N / n), with n of N games for a move (Auer, Cesa-Bianchi and Fischer, 2002; there c
    is the root of 2). It selects the move with the highest index, so that in the long run all indices equal a number l,
    and n = c**2 ln N / (l - score)**2; l follows from the sum N of all n.

    Args:
        starts: int64[P + 1]: start of the moves of a position.
        results: [M, 3]: games won, drawn and lost.
        c: exploration weight, above 0.

    Returns:
        float64[M].
    """
    scores, count = move_scores(results), np.diff(starts)
    games = np.add.reduceat(results.sum(axis=1), starts[:-1]).astype(np.float64)
    unit = c * np.sqrt(np.log(np.maximum(games, 2)) / games)  # a position with one game has one move
    best = np.maximum.reduceat(scores, starts[:-1])
    low, high = best + unit, best + unit * np.sqrt(count)  # extremes: one move has all games; all scores are equal
    for _ in range(60):
        middle = (low + high) / 2
        wide = np.add.reduceat((np.repeat(unit, count) / (np.repeat(middle, count) - scores)) ** 2, starts[:-1]) > 1
        low, high = np.where(wide, middle, low), np.where(wide, high, middle)
    return _normalise(starts, (np.repeat(unit, count) / (np.repeat(high, count) - scores)) ** 2)


def best_move_shares(starts: Int64Array, results: NDArray[Any]) -> Float64Array:
    """Return equal shares for the best moves of each position, float64[M]; arguments as for :func:`ucb_shares`."""
    return _normalise(starts, (_below_best(starts, results) >= -VALUE_TOLERANCE).astype(np.float64))


def softmax_shares(starts: Int64Array, results: NDArray[Any], temperature: float) -> Float64Array:
    """Return shares by exp(score / temperature), float64[M]; arguments as for :func:`ucb_shares`."""
    return _normalise(starts, np.exp(_below_best(starts, results) / temperature))


def _below_best(starts: Int64Array, results: NDArray[Any]) -> Float64Array:
    """Return the score of each move minus the best of its position, float64[M]."""
    scores = move_scores(results)
    return np.asarray(scores - np.repeat(np.maximum.reduceat(scores, starts[:-1]), np.diff(starts)))


def _normalise(starts: Int64Array, weights: Float64Array) -> Float64Array:
    return np.asarray(weights / np.repeat(np.add.reduceat(weights, starts[:-1]), np.diff(starts)))


@dataclass(frozen=True)
class OpeningBook(Named):
    """Plays by an opening book while it has moves, and then like another policy.

    Raises:
        BookError, ValueError: the file is not a book of the game, or a setting is out of range.
        OSError: there is no file.
    """

    name: ClassVar[str] = "book"

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
    following: InitVar[Policy | None] = None
    """the policy of ``then``, if it has been made"""
    _then: Policy = field(init=False, repr=False, compare=False)

    def __post_init__(self, following: Policy | None) -> None:
        for name, value in (("c", self.c), ("temperature", self.temperature)):
            if not 0 < value < math.inf:
                raise ValueError(f"{name}={value:g} is out of range: choose a number above 0")
        check_choice("choose", self.choose, get_args(Choose))
        self.book  # noqa: B018  # raises errors early
        object.__setattr__(self, "_then", make_policy(self.then if following is None else following, self.game))

    @cached_property
    def book(self) -> Book:
        """The opening book."""
        return read_book(self.path, self.game)

    @property
    def pure(self) -> bool:
        """Whether the following policy is pure."""
        return self._then.pure

    @property
    def symmetric(self) -> bool:
        """Whether the following policy is; a book itself is, because positions are stored up to symmetry."""
        return is_symmetric(self._then)

    @property
    def colour_blind(self) -> bool:
        """Whether the following policy is; a book itself is, because positions are stored in the mover's view."""
        return is_colour_blind(self._then)

    def probabilities(self, boards: Boards, rng: np.random.Generator | None = None) -> Float64Array:
        """Return float64[B, rows * columns]; ``rng`` as the following policy needs it."""
        out, known = self.book_probabilities(boards)
        if not known.all():
            out[~known] = self._then.probabilities(boards.take(~known), rng)
        return out

    @cached_property
    def _shares(self) -> Float64Array:
        """float64[M]: shares of the moves of the book."""
        book = self.book
        if not len(book.cells):
            return np.zeros(0)
        if self.choose == "ucb":
            return ucb_shares(book.starts, book.results, self.c)
        if self.choose == "softmax":
            return softmax_shares(book.starts, book.results, self.temperature)
        return best_move_shares(book.starts, book.results)

    def book_probabilities(self, boards: Boards) -> tuple[Float64Array, BoolArray]:
        """Return the distributions of the book alone, float64[B, rows * columns], and whether it has one, bool[B]."""
        out, known = np.zeros(boards.cells.shape), np.zeros(len(boards.mover), np.bool_)
        early = np.count_nonzero(boards.cells, axis=1) < self.book.plies
        if early.any():
            out[early], known[early] = self.book.spread(boards.take(early), self._shares)
        return out, known


class OpeningBookWithMemory(OpeningBook):
    """An opening book followed by a policy with a player, which takes over at the end of the book."""

    def player(self) -> BookPlayer:
        """Return a new player with empty memory."""
        assert isinstance(self._then, HasPlayer)
        return BookPlayer(self, self._then.player())


class BookPlayer:
    """Plays games by a book, and hands each over to a player with memory at the end of the book."""

    def __init__(self, policy: OpeningBook, then: Player) -> None:
        self.policy, self.then = policy, then

    def begin(self, slots: Int64Array) -> None:
        """Start new games in ``slots`` int64[B]."""
        self.then.begin(slots)

    def act(
        self, boards: Boards, slots: Int64Array, rng: np.random.Generator, time_left: Float64Array | None = None
    ) -> Int64Array:
        """Return int64[B]: a move in each of the games ``slots``; first draws one uniform number for each."""
        shares, known = self.policy.book_probabilities(boards)
        u = rng.random(len(slots))
        out = np.empty(len(slots), np.int64)
        out[known] = sample(shares[known], u[known])
        if not known.all():
            times = None if time_left is None else time_left[~known]
            out[~known] = self.then.act(boards.take(~known), slots[~known], rng, times)
        return out


def load_book(
    game: Game,
    path: str,
    choose: Choose = "best",
    then: str | Policy = "expectiminimax",
    c: float = 1.4,
    temperature: float = 0.05,
) -> OpeningBook:
    """Plays the moves of an opening book, and another policy outside it; see :class:`OpeningBook`."""
    following = make_policy(then, game)
    kind = OpeningBookWithMemory if isinstance(following, HasPlayer) else OpeningBook
    return kind(game, path, choose, then, c, temperature, following)
