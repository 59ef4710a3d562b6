"""The rules of m,n,k tic-tac-toe with skipped turns: lines, results, turns and legal moves are defined only here.

So are the rules of the variants: gravity, exactly ``win_length``, misère, and lines that wrap around the edges.

The environments, the solver, the searches and the learners all call this module. Two design decisions: *chance is an
argument*: no rule draws a random number, the caller passes ``u`` in [0, 1). And the *mover is part of the position*:
after a skip, the number of stones no longer determines the player to move.

Kernels take a game as the plain tuple :attr:`Game.parameters`, because numba unpacks a plain tuple three times faster
than a named one; only this module and :mod:`ttt_envs.game.bits` unpack it. The tuples of variants are longer, so that
kernels are compiled for each kind of game, and those of the standard game pay nothing for the variants.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import Any, Literal, NamedTuple, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from ttt_envs.core.checks import check_argument_names, check_choice, closest_names, truncate
from ttt_envs.core.jit import (
    Float64Array,
    Int8Array,
    Int64Array,
    Parameters,
    UInt64Array,
    compiled,
    compiled_at_once,
    inlined,
    inlined_public,
    int8,
    int64,
)
from ttt_envs.core.random import splitmix64, uniform
from ttt_envs.game.bits import MAX_CELLS_IN_BITS, NUM_LISTED, NUM_STANDARD, completing_bits, line_in, to_bits

Value = TypeVar("Value", float, Float64Array)

BOARD_HINTS = dict.fromkeys(("rows", "columns"), "write size=3, or size=(5, 6) for rows and columns")
"""advice for arguments that environments do not have"""
FORMAT = 1
"""version of the storage format"""
MAX_EDGE = 19
VARIANTS = ("gravity", "exact", "misere", "wrap")
"""the fields of :class:`Game` that change the rules"""
Hidden = Literal["no", "classic", "abrupt"]
"""whether a game hides the opponent's stones, see ``Game.hidden``"""
HIDDEN: tuple[Hidden, ...] = get_args(Hidden)
HIDING = "hidden"
"""name of the field in lists of supported rules, for what plays without seeing the opponent's stones"""
_GRAVITY, _EXACT, _MISERE, _WRAP = 1, 2, 4, 8  # the same, as bits


class Outcome(IntEnum):
    """Outcome of a move or of a game; the number of a win is the winner's."""

    description: str
    """text, empty while the game is in progress"""
    winner: int
    """0 or 1, -1 for none"""
    returns: tuple[float, float]
    """both players' returns where each plays for itself: the opponent of a player who forfeits gets 0"""

    def __new__(
        cls, value: int, description: str = "", winner: int = -1, returns: tuple[float, float] = (0.0, 0.0)
    ) -> Outcome:
        """Return the member with this value."""
        member = int.__new__(cls, value)
        member._value_ = value
        member.description, member.winner, member.returns = description, winner, returns
        return member

    def result_index(self, player: int) -> int:
        """Return the index of a player's result in (win, draw, loss)."""
        return 1 if self.winner < 0 else 0 if self.winner == player else 2

    ILLEGAL = -2  # of a move, which changes nothing
    NOT_OVER = -1
    PLAYER_0_WON = 0, "player_0 won", 0, (1.0, -1.0)
    PLAYER_1_WON = 1, "player_1 won", 1, (-1.0, 1.0)
    DRAW = 2, "draw"
    PLAYER_0_FORFEITED = 3, "player_0 lost by an illegal action", 1, (-1.0, 0.0)
    PLAYER_1_FORFEITED = 4, "player_1 lost by an illegal action", 0, (0.0, -1.0)
    TRUNCATED = 5, "truncated after too many illegal actions"


# For kernels, in which the winner is 0 or 1.
DRAW, NOT_OVER, ILLEGAL = int(Outcome.DRAW), int(Outcome.NOT_OVER), int(Outcome.ILLEGAL)

# Independent streams of the random numbers of an episode, see `core.random.uniform`. The key of an episode is
# `splitmix64(key, episode)`. Numbers of skips and opponents are indexed by ply, the others have number 0 only.
STREAM_SKIP, STREAM_OPPONENT, STREAM_SEAT, STREAM_SYMMETRY, STREAM_POOL, STREAM_CONTEXT, STREAM_OPENING = range(7)


@check_argument_names({"size": "write Game.of_size(3), Game.of_size((5, 6)), or rows and columns"})
@dataclass(frozen=True)
class Game:
    """The parameters of a game.

    Players alternately put stones on empty cells, ``player_0`` (o) first. ``win_length`` or more own stones in a row,
    column or diagonal win; a full board without such a line is a draw. After every stone that does not end the game,
    the other player's turn is skipped with probability ``skip_chance``, and the mover moves again; skips chain.

    Four fields change these rules, alone or together, see ``docs/rules.md``.

    Raises:
        TypeError: a size is not an integer, the skip chance is not a number, or a rule is not a bool.
        ValueError: a size is out of range, no line fits on the board, or the skip chance is outside [0, 1).
    """

    rows: int = 3
    """number of rows, 1 to 19"""
    columns: int = 3
    """number of columns, 1 to 19"""
    win_length: int = 3
    """stones in a line needed to win, 1 to the longer edge"""
    skip_chance: float = 0.0
    """probability of a skipped turn, at least 0 and below 1"""
    gravity: bool = False
    """stones fall to the lowest empty cell of their column, as in Connect Four"""
    exact: bool = False
    """only lines of exactly ``win_length`` count, longer ones do not, as in standard gomoku"""
    misere: bool = False
    """a player who completes a line loses"""
    wrap: bool = False
    """lines continue across the edges: the board is a torus"""
    hidden: Hidden = "no"
    """whether the opponent's stones are hidden, see :mod:`ttt_envs.game.phantom`: an attempt on a hidden stone is
    followed by another one (``"classic"``), or ends the turn (``"abrupt"``)"""

    def __post_init__(self) -> None:
        for name in ("rows", "columns", "win_length"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
                raise TypeError(f"{name}={value!r} is not a whole number: write for example {name}=3")
            object.__setattr__(self, name, int(value))
        for name in ("rows", "columns"):
            value = getattr(self, name)
            if not 1 <= value <= MAX_EDGE:
                raise ValueError(
                    f"{name}={value} is not the edge of a board: choose 1 to {MAX_EDGE} {name}, "
                    f"as in size=3 or size=(5, 6)"
                )
        longest = max(self.rows, self.columns)
        if not 1 <= self.win_length <= longest:
            raise ValueError(
                f"win_length={self.win_length} does not fit a board of {self.rows} x {self.columns}: "
                f"choose 1 to {longest}"
            )
        skip = self.skip_chance
        if isinstance(skip, bool) or not isinstance(skip, (int, float, np.integer, np.floating)):
            raise TypeError(f"skip_chance={skip!r} is not a number: write for example skip_chance=0.25")
        if not 0 <= skip < 1:  # also rejects NaN
            percent = f"; {skip:g}% is {skip / 100:g}" if 1 < skip < 100 else ""
            raise ValueError(
                f"skip_chance={skip} is not a probability below 1: choose 0 (turns are never skipped) "
                f"up to, but not including, 1 (the other player would never move){percent}"
            )
        object.__setattr__(self, "skip_chance", float(skip))
        for name in VARIANTS:
            value = getattr(self, name)
            if not isinstance(value, (bool, np.bool_)):
                raise TypeError(f"{name}={value!r} is not a truth value: write {name}=True or {name}=False")
            object.__setattr__(self, name, bool(value))
        check_choice("hidden", self.hidden, HIDDEN)
        if self.hidden != "no" and self.gravity:
            raise ValueError("gravity shows where hidden stones are: choose gravity=False or hidden='no'")

    @classmethod
    def of_size(
        cls,
        size: int | tuple[int, int] = 3,
        win_length: int | None = None,
        skip_chance: float = 0.0,
        *,
        gravity: bool = False,
        exact: bool = False,
        misere: bool = False,
        wrap: bool = False,
        hidden: Hidden = "no",
    ) -> Game:
        """Return the game on a square board of edge ``size``, or on ``size = (rows, columns)``.

        Args:
            size: edge of the board, or (rows, columns).
            win_length: stones in a line needed to win; by default :func:`default_win_length`.
            skip_chance: probability of a skipped turn.
            gravity, exact, misere, wrap, hidden: as of the class.

        Raises:
            TypeError, ValueError: as the class.
        """
        if isinstance(size, (tuple, list)):
            if len(size) != 2:
                raise ValueError(f"size={size!r} is not a board: write size=3 or size=(5, 6), rows first")
            rows, columns = size
        else:
            rows = columns = size
        if isinstance(size, bool) or not all(isinstance(edge, (int, np.integer)) for edge in (rows, columns)):
            raise TypeError(f"size={size!r} is not a board: write size=3 or size=(5, 6), rows first")
        if win_length is None:
            win_length = default_win_length(rows, columns)
        return cls(rows, columns, win_length, skip_chance, gravity, exact, misere, wrap, hidden)

    @cached_property
    def cells(self) -> int:
        """Number of cells of the board, which is also the number of actions."""
        return self.rows * self.columns

    @cached_property
    def parameters(self) -> Parameters:
        """Kernel representation: rows, columns, win length, skip chance, and three bit sets (0 on boards too large for
        bits): the cells where a line along a row, a falling diagonal or a rising diagonal may begin.

        Variants have the rules as bits at the end. Where lines are not all runs of ``win_length`` stones, the tuple is
        rows, columns, win length, skip chance, the rules and the list of lines, int64[2, W]: the cells of each line as
        bits, and the cells that must not hold a stone of the same player. It is empty on boards too large for bits.

        Raises:
            ValueError: the game hides stones. So nothing that sees the whole board accepts it by mistake; the rules of
                its lines are those of :attr:`visible`.
        """
        if self.hidden != "no":
            raise ValueError(
                f"{self}: the opponent's stones are hidden, and what was called needs to see them: choose a game with "
                f"hidden='no', or what docs/phantom.md lists, such as evaluate.py exact and exploitability"
            )
        rules = sum(getattr(self, name) << bit for bit, name in enumerate(VARIANTS))
        fits = self.cells <= MAX_CELLS_IN_BITS
        if rules & (_EXACT | _WRAP):
            lines = board_lines(self) if fits else []
            masks = np.zeros((2, len(lines)), np.int64)
            for index, line in enumerate(lines):
                masks[:, index] = sum(1 << cell for cell in line.cells), sum(1 << cell for cell in line.beyond)
            masks.flags.writeable = False
            return self.rows, self.columns, self.win_length, self.skip_chance, rules, masks
        starts = (0, 0, 0)
        if fits:
            run = self.win_length - 1
            starts = (self._bits_of(0, run), self._bits_of(run, run), self._bits_of(run, -run))
        standard = (self.rows, self.columns, self.win_length, self.skip_chance, *starts)
        return (*standard, rules) if rules else standard

    def _bits_of(self, down: int, right: int) -> int:
        """Return the cells, as bits, from which a step of ``down`` rows and ``right`` columns stays on the board."""
        return sum(
            1 << row * self.columns + column
            for row, column in np.ndindex(self.rows, self.columns)
            if row + down < self.rows and 0 <= column + right < self.columns
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the game as JSON-ready data, with the format version; rules that do not hold are left out."""
        fields = dataclasses.asdict(self)
        absent = {name for name in VARIANTS if not fields[name]} | ({"hidden"} if self.hidden == "no" else set())
        return {"format": FORMAT, **{name: fields[name] for name in fields if name not in absent}}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Game:
        """Return the game that :meth:`to_dict` stored; missing fields get their defaults.

        Raises:
            ValueError: it is no mapping, the format is newer, or a field is unknown to this version or is invalid.
        """
        if not isinstance(data, Mapping):
            raise ValueError(f"{truncate(repr(data))} is no stored game: that has rows, columns and other fields")
        fields = dict(data)
        version = fields.pop("format", FORMAT)
        if version != FORMAT:
            raise ValueError(
                f"format={truncate(repr(version))} of a stored game is not known here: this version reads {FORMAT}"
            )
        known = [field.name for field in dataclasses.fields(cls)]
        for name in [name for name in fields if name not in known]:
            raise ValueError(f"a stored game has the unknown field {truncate(name)!r}: {closest_names(name, known)}")
        try:
            return cls(**fields)
        except TypeError as problem:
            raise ValueError(str(problem)) from None

    def __str__(self) -> str:
        count = f"exactly {self.win_length}" if self.exact else f"{self.win_length}"
        goal = f"{count} to lose" if self.misere else f"{count} to win"
        rules = ", gravity" * self.gravity + ", lines wrap" * self.wrap
        skip = f", skip {self.skip_chance:g}" if self.skip_chance else ""
        hidden = f", phantom ({self.hidden})" if self.hidden != "no" else ""
        return f"{self.rows} x {self.columns}, {goal}{rules}{skip}{hidden}"

    @cached_property
    def visible(self) -> Game:
        """The same game with visible stones."""
        return self if self.hidden == "no" else dataclasses.replace(self, hidden="no")

    @property
    def variants(self) -> dict[str, bool]:
        """The fields that change the rules and are set, as keywords."""
        return {name: True for name in VARIANTS if getattr(self, name)}

    @property
    def slug(self) -> str:
        """Short form for file names, as in ``3x3-3-skip0.25`` or ``6x7-4-gravity``."""
        skip = f"-skip{self.skip_chance:g}" if self.skip_chance else ""
        rules = "".join(f"-{name}" for name in self.variants)
        hidden = f"-phantom-{self.hidden}" if self.hidden != "no" else ""
        return f"{self.rows}x{self.columns}-{self.win_length}{rules}{skip}{hidden}"


def default_win_length(rows: int, columns: int) -> int:
    """Return the win length of a board of which only the size is given, by its shorter edge.

    3 up to an edge of 3, 4 up to 6, and 5 from 7 on; on a board up to 2 x 2, its longer edge. On an edge of 4
    or more, three to win is won by the first player at once.
    """
    edge = min(rows, columns)
    return min(3, max(rows, columns)) if edge <= 3 else 4 if edge <= 6 else 5


class Position(NamedTuple):
    """One position of a game."""

    cells: Int8Array
    """int8[rows * columns], row by row: 0 empty, 1 a stone of player_0, 2 a stone of player_1"""
    mover: int
    """player to move, 0 or 1"""


class ChanceOutcome(NamedTuple):
    """One possible successor of a move."""

    probability: float
    position: Position
    winner: int | None
    """None while the game is in progress, else 0, 1 or ``DRAW``"""


# ---------------------------------------------------------------------------------------------------------------------
# Compiled rules

MAX_CELLS_SCANNED = (
    25  # maximum number of cells for which scanning the whole board is faster than scanning around the last stone
)


def to_kernel_args(game: Game) -> Int64Array:
    """Return ``Game.parameters`` of the standard game as one int64[7] array; the skip chance is stored as its bits.

    A kernel call from Python pays as much for each argument, and for each part of a tuple, as for a move. Kernels get
    the rules of a variant as its tuple besides.
    """
    standard = (
        dataclasses.replace(game, gravity=False, exact=False, misere=False, wrap=False, hidden="no")
        if game.variants or game.hidden != "no"
        else game
    )
    rows, columns, win_length, skip_chance, *starts = standard.parameters
    numbers = np.array([rows, columns, win_length, 0, *starts], np.int64)
    numbers.view(np.float64)[3] = skip_chance
    return numbers


@inlined
def from_kernel_args(numbers: Int64Array) -> Parameters:
    """Return ``Game.parameters`` from :func:`to_kernel_args`, in kernels."""
    skip_chance = numbers.view(np.float64)[3]
    return numbers[0], numbers[1], numbers[2], skip_chance, numbers[4], numbers[5], numbers[6]


@inlined
def win_length_of(parameters: Parameters) -> int:
    """Return the win length from ``Game.parameters``."""
    return parameters[2]


@inlined
def skip_chance_of(parameters: Parameters) -> float:
    """Return the skip chance from ``Game.parameters``."""
    return parameters[3]


@inlined
def with_skip_chance(parameters: Parameters, skip_chance: float) -> Parameters:
    """Return ``Game.parameters`` with another skip chance."""
    if len(parameters) == NUM_STANDARD:
        rows, columns, win_length, _, across, falling, rising = parameters
        return rows, columns, win_length, skip_chance, across, falling, rising
    if len(parameters) == NUM_LISTED:
        rows, columns, win_length, _, rules, lines = parameters
        return rows, columns, win_length, skip_chance, rules, lines
    rows, columns, win_length, _, across, falling, rising, rules = parameters
    return rows, columns, win_length, skip_chance, across, falling, rising, rules


@inlined
def _rules_of(parameters: Parameters) -> int:
    """Return the rules as bits from ``Game.parameters``."""
    if len(parameters) == NUM_STANDARD:
        return 0
    if len(parameters) == NUM_LISTED:
        return parameters[4]
    return parameters[7]


@inlined
def line_result(parameters: Parameters) -> int:
    """Return the result, 1 or -1, for a player who completes a line."""
    if len(parameters) == NUM_STANDARD:
        return 1
    return -1 if _rules_of(parameters) & _MISERE != 0 else 1


@inlined
def is_legal(cells: Int8Array, cell: int, parameters: Parameters) -> bool:
    """Return whether a cell may be played in a game in progress (the colour encoding does not matter)."""
    if len(parameters) == NUM_STANDARD:
        return bool(cells[cell] == 0)
    below = cell + parameters[1]
    falls = _rules_of(parameters) & _GRAVITY != 0 and below < len(cells) and cells[below] == 0
    return bool(cells[cell] == 0) and not falls


@inlined
def has_gravity(parameters: Parameters) -> bool:
    """Return whether stones fall, from ``Game.parameters``."""
    return _rules_of(parameters) & _GRAVITY != 0


@inlined
def landing_cell(cells: Int8Array, column: int, parameters: Parameters) -> int:
    """Return the cell where a stone that is dropped into a column comes to rest, -1 if the column is full."""
    columns = parameters[1]
    cell = len(cells) - columns + column
    while cell >= 0 and cells[cell] != 0:
        cell -= columns
    return max(cell, -1)


@inlined
def legal_bits(first: int, second: int, parameters: Parameters) -> int:
    """Return the legal cells as bits, see :func:`is_legal`; ``first`` and ``second`` are both players' stones."""
    rows, columns = parameters[0], parameters[1]
    taken = first | second
    empty = ~taken & ((int64(1) << (rows * columns)) - 1)
    if len(parameters) == NUM_STANDARD:
        return empty
    floor = ((int64(1) << columns) - 1) << ((rows - 1) * columns) if _rules_of(parameters) & _GRAVITY else int64(-1)
    return empty & (taken >> columns | floor)


@inlined
def opened_cell(cell: int, parameters: Parameters) -> int:
    """Return the cell that becomes legal by a stone on ``cell``: with gravity the one above, -1 for none."""
    if len(parameters) == NUM_STANDARD:
        return -1
    return cell - parameters[1] if _rules_of(parameters) & _GRAVITY != 0 and cell >= parameters[1] else -1


@inlined
def outcome_of_move(line: bool, mover: int, stones: int, parameters: Parameters) -> int:
    """Return the outcome of a stone of ``mover``, given ``line``, whether it makes one, and ``stones`` including it."""
    rows, columns = parameters[0], parameters[1]
    if len(parameters) == NUM_STANDARD:
        return mover if line else (DRAW if stones == rows * columns else NOT_OVER)
    winner = mover if line_result(parameters) > 0 else 1 - mover
    return winner if line else (DRAW if stones == rows * columns else NOT_OVER)


@inlined
def has_line(cells: Int8Array, cell: int, parameters: Parameters) -> bool:
    """Return whether the last stone, on ``cell``, completes a line: ``win_length`` or more, exactly so many if exact.

    Only lines through the last stone can be new, so the cost does not grow with the board.

    Args:
        cells: int8[rows * columns].
        cell: index of a stone.
        parameters: ``Game.parameters``.
    """
    rows, columns, win_length = parameters[0], parameters[1], parameters[2]
    stone = cells[cell]
    if len(parameters) == NUM_LISTED:
        return completes_listed_line(cells, cell, int64(stone), parameters)
    if len(cells) <= MAX_CELLS_SCANNED:
        # Scanning a small board has no branches that depend on stones; the loops below do.
        return line_in(to_bits(cells, stone), parameters)
    up = cell // columns
    left = cell - up * columns
    down = rows - 1 - up
    right = columns - 1 - left
    for direction in range(4):  # one loop, not a helper called eight times: this is the hottest code of play
        if direction == 0:
            step, before, after = 1, left, right
        elif direction == 1:
            step, before, after = columns, up, down
        elif direction == 2:
            step, before, after = columns + 1, min(up, left), min(down, right)
        else:
            step, before, after = columns - 1, min(up, right), min(down, left)
        if before + after + 1 < win_length:
            continue
        first = cell - before * step
        last = cell + after * step
        low = cell - step
        while low >= first and cells[low] == stone:
            low -= step
        high = cell + step
        while high <= last and cells[high] == stone:
            high += step
        if high - low > win_length * step:
            return True
    return False


@inlined
def completes_listed_line(cells: Int8Array, cell: int, stone: int, parameters: Parameters) -> bool:
    """Like :func:`has_line`, where lines wrap or must be exact; ``cell`` may be empty, and would hold ``stone``."""
    rows, columns, win_length, rules = parameters[0], parameters[1], parameters[2], _rules_of(parameters)
    row = cell // columns
    column = cell - row * columns
    for direction in range(4):
        down, right = int64(direction > 0), int64(1 - (direction == 1) - 2 * (direction == 3))
        length = 1
        for sign in range(-1, 2, 2):
            y, x = row, column
            while True:
                y += sign * down
                x += sign * right
                if rules & _WRAP:
                    y, x = y % rows, x % columns
                elif y < 0 or y >= rows or x < 0 or x >= columns:
                    break
                if cells[y * columns + x] != stone or y * columns + x == cell:
                    break
                length += 1
            if y * columns + x == cell and sign < 0:
                break  # once around the torus
        if length == win_length or (length > win_length and not rules & _EXACT):
            return True
    return False


@inlined
def _put(cells: Int8Array, mover: int, cell: int, stones: int, own: int, parameters: Parameters) -> int:
    """Like :func:`place`; no line is searched where ``own``, the maximum number of own stones, is too small for one."""
    if cell < 0 or cell >= len(cells) or not is_legal(cells, cell, parameters):
        return ILLEGAL
    cells[cell] = mover + 1
    line = own >= win_length_of(parameters) and has_line(cells, cell, parameters)
    return outcome_of_move(line, mover, stones + 1, parameters)


@inlined_public
def place(cells: Int8Array, mover: int, cell: int, stones: int, parameters: Parameters) -> int:
    """Put a stone of ``mover`` on ``cell``, in place; ``stones`` counts the stones before the move.

    Returns:
        The winner (``mover``), ``DRAW``, ``NOT_OVER``; or ``ILLEGAL``, with the board unchanged.
    """
    return _put(cells, mover, cell, stones, stones + 1, parameters)


@inlined_public
def next_mover(mover: int, u: float, parameters: Parameters) -> int:
    """Return the next mover after a stone that does not end the game: ``mover`` again when ``u < skip_chance``."""
    return mover if u < skip_chance_of(parameters) else 1 - mover


@inlined_public
def mover_after(mover: int, episode_key: np.uint64, stones: int, parameters: Parameters) -> int:
    """Like :func:`next_mover`, with the episode's skip draw for the ply ``stones``."""
    if skip_chance_of(parameters) > 0:
        return next_mover(mover, uniform(episode_key, STREAM_SKIP, stones), parameters)
    return 1 - mover  # no random number is needed


def values_over_skip(own: Value, other: Value, skip: float) -> Value:
    """Return the expected value of an afterstate for one player, over the turn that follows; numbers or arrays.

    Both values are of that player: the negative of a value for the player to move, where that is the other one.

    Args:
        own: value if the other player's turn is skipped, ignored without skips.
        other: value if the other player moves next.
        skip: the skip chance.
    """
    return skip * own + (1.0 - skip) * other if skip > 0 else other


value_over_skip = inlined(values_over_skip)
"""in kernels: :func:`values_over_skip` of numbers"""


@inlined
def play(
    cells: Int8Array, mover: int, cell: int, stones: int, episode_key: np.uint64, parameters: Parameters
) -> tuple[int, int]:
    """Make a move in a game that began with an empty board, then draw the next mover.

    The skip draw is the episode's draw for this ply.

    Returns:
        (outcome, mover): the outcome as in :func:`place`; the mover is unchanged after the end or an illegal move.
    """
    # without skips, the mover has half of the stones
    own = stones + 1 if skip_chance_of(parameters) > 0 else stones // 2 + 1
    outcome = _put(cells, mover, cell, stones, own, parameters)
    if outcome == NOT_OVER:
        mover = mover_after(mover, episode_key, stones, parameters)
    return outcome, mover


@inlined
def nth_legal_cell(cells: Int8Array, u: float, parameters: Parameters) -> int:
    """Return the legal cell at quantile ``u`` in [0, 1) of the uniform distribution, in order of cells; -1 if full."""
    if len(parameters) == NUM_STANDARD:
        return nth_empty_cell(cells, u)
    legal = 0
    for cell in range(len(cells)):
        legal += int64(is_legal(cells, cell, parameters))
    skip = int(u * legal)
    for cell in range(len(cells)):
        if is_legal(cells, cell, parameters):
            if skip == 0:
                return cell
            skip -= 1
    return -1


@inlined
def nth_empty_cell(cells: Int8Array, u: float) -> int:
    """Return the empty cell at quantile ``u`` in [0, 1) of the uniform distribution, in order of cells; -1 if full."""
    empty = 0
    for cell in range(len(cells)):
        empty += cells[cell] == 0
    skip = int(u * empty)
    for cell in range(len(cells)):
        if cells[cell] == 0:
            if skip == 0:
                return cell
            skip -= 1
    return -1


@inlined
def completing_cells(cells: Int8Array, mover: int, parameters: Parameters, out: Int8Array) -> None:
    """Write 1 into ``out`` int8[rows * columns] where a legal stone of ``mover`` completes a line, else 0."""
    size = len(cells)
    if size <= MAX_CELLS_IN_BITS:
        found = completing_bits(to_bits(cells, int8(mover + 1)), parameters)
        for cell in range(size):
            out[cell] = int64(is_legal(cells, cell, parameters)) & found >> cell
        return
    if len(parameters) == NUM_LISTED:
        for cell in range(size):
            legal = is_legal(cells, cell, parameters)
            out[cell] = legal and completes_listed_line(cells, cell, mover + 1, parameters)
        return
    rows, columns = parameters[0], parameters[1]
    for cell in range(size):
        out[cell] = 0
    for row in range(rows):
        _completing_in_line(cells, mover, row * columns, 1, columns, parameters, out)
    for column in range(columns):
        _completing_in_line(cells, mover, column, columns, rows, parameters, out)
        _completing_in_line(cells, mover, column, columns + 1, min(rows, columns - column), parameters, out)
        _completing_in_line(cells, mover, column, columns - 1, min(rows, column + 1), parameters, out)
    for row in range(1, rows):
        first, last = row * columns, row * columns + columns - 1
        _completing_in_line(cells, mover, first, columns + 1, min(rows - row, columns), parameters, out)
        _completing_in_line(cells, mover, last, columns - 1, min(rows - row, columns), parameters, out)
    if len(parameters) != NUM_STANDARD:
        for cell in range(size):
            out[cell] &= int8(is_legal(cells, cell, parameters))


@compiled
def _completing_in_line(
    cells: Int8Array, mover: int, start: int, step: int, length: int, parameters: Parameters, out: Int8Array
) -> None:
    """Do :func:`completing_cells` for one line of the board: a window of ``win_length`` cells slides along it."""
    win_length = win_length_of(parameters)
    mine = mover + 1
    own, empty, last_empty = 0, 0, 0
    cell = start
    for i in range(length):
        own += cells[cell] == mine
        empty += cells[cell] == 0
        last_empty = cell if cells[cell] == 0 else last_empty
        if i >= win_length:
            left = cells[cell - win_length * step]
            own -= left == mine
            empty -= left == 0
        if own == win_length - 1 and empty == 1 and i >= win_length - 1:
            out[last_empty] = 1
        cell += step


@inlined
def terminal_outcome_in_bits(cells: Int8Array, parameters: Parameters) -> int:
    """Like :func:`terminal_outcome_inline`, for boards up to ``MAX_CELLS_IN_BITS`` cells."""
    outcome = DRAW
    for cell in range(len(cells)):
        if cells[cell] == 0:
            outcome = NOT_OVER
    for player in range(2):
        if line_in(to_bits(cells, int8(player + 1)), parameters):
            return outcome_of_move(True, player, 0, parameters)
    return outcome


@inlined
def terminal_outcome_inline(cells: Int8Array, parameters: Parameters) -> int:
    """Return the outcome of a position from a scan of the whole board: the winner, ``DRAW`` or ``NOT_OVER``."""
    if len(cells) <= MAX_CELLS_IN_BITS:
        return terminal_outcome_in_bits(cells, parameters)
    outcome = DRAW
    for cell in range(len(cells)):
        if cells[cell] == 0:
            outcome = NOT_OVER
        elif has_line(cells, cell, parameters):
            return outcome_of_move(True, int64(cells[cell]) - 1, 0, parameters)
    return outcome


@compiled
def terminal_outcome(cells: Int8Array, parameters: Parameters) -> int:
    """Like :func:`terminal_outcome_inline`, for calls from Python."""
    return terminal_outcome_inline(cells, parameters)


@compiled
def play_rows(
    cells: Int8Array,
    mover: Int8Array,
    stones: Int64Array,
    episode_keys: UInt64Array,
    rows: Int64Array,
    actions: Int64Array,
    parameters: Parameters,
    outcomes: Int8Array,
) -> None:
    """Apply :func:`play` in the games ``rows`` of a batch, in place.

    Args:
        cells: int8[B, rows * columns]; mover: int8[B]; stones: int64[B]; episode_keys: uint64[B].
        rows: int64[R]: indices of the games that move.
        actions: int64[R].
        outcomes: int8[B], written for ``rows``; a game with outcome ``ILLEGAL`` is otherwise unchanged.
    """
    for i in range(len(rows)):
        b = rows[i]
        outcome, after = play(cells[b], int64(mover[b]), actions[i], stones[b], episode_keys[b], parameters)
        outcomes[b] = outcome
        if outcome != ILLEGAL:
            mover[b] = after
            stones[b] += 1


@inlined
def begin(
    b: int,
    cells: Int8Array,
    mover: Int8Array,
    stones: Int64Array,
    episode_keys: UInt64Array,
    key: np.uint64,
    episode: int,
) -> None:
    """Start an episode in game ``b`` of a batch, from the seed's key and the episode number; see :func:`play_rows`."""
    for cell in range(cells.shape[1]):
        cells[b, cell] = 0
    mover[b] = 0
    stones[b] = 0
    episode_keys[b] = splitmix64(key, episode)


@compiled
def begin_rows(
    cells: Int8Array,
    mover: Int8Array,
    stones: Int64Array,
    episode_keys: UInt64Array,
    key: np.uint64,
    episodes: Int64Array,
) -> None:
    """Start episode ``episodes[b]`` in every game b, see :func:`begin`."""
    for b in range(len(cells)):
        begin(b, cells, mover, stones, episode_keys, key, episodes[b])


# ---------------------------------------------------------------------------------------------------------------------
# Functions for Python callers


def check_cells(game: Game, cells: Int8Array) -> None:
    """Raise ValueError unless ``cells`` is a board of ``game``: int8[rows * columns] of 0, 1 and 2, none in the air."""
    if not isinstance(cells, np.ndarray) or cells.shape != (game.cells,) or cells.dtype != np.int8:
        raise ValueError(
            f"cells must be int8[{game.cells}] for a board of {game.rows} x {game.columns}, row by row, "
            f"but got {getattr(cells, 'dtype', type(cells).__name__)}{list(np.shape(cells))}"
        )
    if ((cells < 0) | (cells > 2)).any():
        raise ValueError(f"cells holds {cells[(cells < 0) | (cells > 2)][0]}: use 0 empty, 1 player_0, 2 player_1")
    if game.gravity and ((cells[: -game.columns] != 0) & (cells[game.columns :] == 0)).any():
        raise ValueError("cells holds a stone above an empty cell: with gravity, stones fall to the lowest one")


def action_index(game: Game, action: object) -> int:
    """Return ``action`` as an int, checked for type and range.

    Raises:
        TypeError: the action is not an integer.
        ValueError: the action is not a cell of the board.
    """
    return _check_index(game, action, "cell", game.cells)


def column_index(game: Game, action: object) -> int:
    """Return ``action`` as an int, checked for type and range.

    Raises:
        TypeError: the action is not an integer.
        ValueError: the action is not a column of the board.
    """
    return _check_index(game, action, "column", game.columns)


def _check_index(game: Game, action: object, what: str, count: int) -> int:
    try:
        if isinstance(action, (bool, np.bool_)):
            raise TypeError
        action = operator.index(action)  # type: ignore[arg-type]  # raises TypeError for objects without an index
    except TypeError:
        raise TypeError(
            f"action {action!r} is not a whole number: an action is the index of a {what}, 0 to {count - 1}"
        ) from None
    if not 0 <= action < count:
        raise ValueError(
            f"action {action} is no {what} of a board of {game.rows} x {game.columns}: choose 0 to {count - 1}"
        )
    return action


def legal(game: Game, cells: Int8Array) -> NDArray[np.bool_]:
    """Return :func:`is_legal` as bool, of the shape of ``cells``: int8[..., rows * columns], games in progress."""
    found: NDArray[np.bool_] = cells == 0
    if game.gravity:
        found[..., : -game.columns] &= cells[..., game.columns :] != 0
    return found


def illegal_message(game: Game, cells: Int8Array, action: int) -> str:
    """Return the error message for an illegal action, the index of a cell."""
    free = np.flatnonzero(legal(game, cells))
    listed = ", ".join(map(str, free[:12])) + (", ..." if len(free) > 12 else "")
    if cells[action]:
        return f"action {action} is illegal, the cell holds a stone: choose an empty one ({listed})"
    return f"action {action} is illegal, stones fall to the lowest empty cell: choose one of these ({listed})"


NOT_ADAPTED = "it is not adapted to it"
"""The reason for which a rule is not supported, if no other is given."""


def check_variants(
    name: str,
    game: Game,
    supported: Collection[str] = (),
    *,
    reasons: str | Mapping[str, str] = NOT_ADAPTED,
    instead: str = "random or optimal",
    hint: str = "",
) -> None:
    """Raise ValueError if a game has a rule that a policy, learner or tool ``name`` does not support.

    Args:
        name: of the policy, learner or tool.
        game: the game.
        supported: those of :data:`VARIANTS` that it supports, and :data:`HIDING` if it plays without seeing the
            opponent's stones.
        reasons: why it does not support the others, after the word "because": for all, or by rule.
        instead: what supports them.
        hint: further advice where stones are hidden.
    """
    rules = [*game.variants, *([HIDING] if game.hidden != "no" else [])]
    refused = [rule for rule in rules if rule not in supported]
    if not refused:
        return
    why = [reasons if isinstance(reasons, str) else reasons.get(rule, NOT_ADAPTED) for rule in refused]
    known = [rule for rule in supported if rule in VARIANTS]
    if HIDING in refused:
        advice = "choose what plays by views, such as random, win-or-block or run:PATH, see docs/phantom.md"
        advice = f"{advice}, or a game with hidden='no'{hint}"
    else:
        advice = f"it supports {', '.join(known)}" if known else "it supports the standard rules only"
        advice = f"{advice}; choose another, such as {instead}, or a game without {' and '.join(refused)}"
    names = " or ".join("hidden stones" if rule == HIDING else rule for rule in refused)
    raise ValueError(
        f"{name} does not support {names} of the game {game}, because {'; '.join(dict.fromkeys(why))}: {advice}"
    )


def winner(game: Game, cells: Int8Array) -> int | None:
    """Return the winner, 0 or 1, or ``DRAW``; None while the game is in progress."""
    outcome = int(terminal_outcome(cells, game.parameters))
    return None if outcome == NOT_OVER else outcome


def chance_outcomes(game: Game, position: Position, action: int) -> list[ChanceOutcome]:
    """Return all possible successors of a move with exact probabilities: the chance model for planners.

    Args:
        game: the game.
        position: a position that is not over; it is not changed.
        action: index of an empty cell.

    Returns:
        One outcome with probability 1 if the move ends the game or turns are never skipped; else two, the other
        player's turn first. In positions of finished games the mover is the player who moved last.

    Raises:
        TypeError: the action is not an integer.
        ValueError: the action is illegal, the position is over, or cells are not a board of the game.
    """
    check_cells(game, position.cells)
    if position.mover not in (0, 1):
        raise ValueError(f"mover={position.mover!r} is no player: use 0 (player_0, o) or 1 (player_1, x)")
    if winner(game, position.cells) is not None:
        raise ValueError("the game is over in this position: no action leads on from it")
    cell = action_index(game, action)
    mover = int(position.mover)
    cells = position.cells.copy()
    outcome = int(place(cells, mover, cell, int(np.count_nonzero(cells)), game.parameters))
    if outcome == ILLEGAL:
        raise ValueError(illegal_message(game, cells, cell))
    if outcome != NOT_OVER:
        return [ChanceOutcome(1.0, Position(cells, mover), outcome)]
    turn = ChanceOutcome(1.0 - game.skip_chance, Position(cells, 1 - mover), None)
    if game.skip_chance == 0:
        return [turn]
    return [turn, ChanceOutcome(game.skip_chance, Position(cells.copy(), mover), None)]


def perft(game: Game, plies: int) -> int:
    """Return the number of move sequences of length ``plies`` without skips, from the empty board.

    This is perft as in chess: games that end at ply ``plies`` count, games that end earlier do not.

    Raises:
        ValueError: ``plies`` is negative or exceeds the number of cells.
    """
    if not 0 <= plies <= game.cells:
        raise ValueError(f"plies={plies} does not fit a board of {game.cells} cells: choose 0 to {game.cells}")
    return int(_perft(np.zeros(game.cells, np.int8), 0, 0, plies, game.parameters))


@compiled_at_once
def _perft(cells: Int8Array, mover: int, stones: int, plies: int, parameters: Parameters) -> int:
    if plies == 0:
        return 1
    total = 0
    for cell in range(len(cells)):
        outcome = place(cells, mover, cell, stones, parameters)
        if outcome == ILLEGAL:
            continue
        if outcome == NOT_OVER:
            total += _perft(cells, 1 - mover, stones + 1, plies - 1, parameters)
        elif plies == 1:
            total += 1
        cells[cell] = 0
    return total


class Line(NamedTuple):
    """One line of a board."""

    cells: tuple[int, ...]
    """from its top, or from its left"""
    beyond: tuple[int, ...]
    """the cells next to its ends, where lines must be exact: stones of the same player there make it too long"""


def board_lines(game: Game) -> list[Line]:
    """Return all lines of a board, in order of their cells."""
    lines: dict[tuple[tuple[int, ...], tuple[int, ...]], Line] = {}  # directions may give the same line
    for row, column in np.ndindex(game.rows, game.columns):
        for down, right in ((0, 1), (1, 0), (1, 1), (1, -1)):
            places = [(row + i * down, column + i * right) for i in range(-1, game.win_length + 1)]
            if game.wrap:
                places = [(y % game.rows, x % game.columns) for y, x in places]
            on_board = [y * game.columns + x if 0 <= y < game.rows and 0 <= x < game.columns else -1 for y, x in places]
            before, *cells, after = on_board
            if -1 in cells or len(set(cells)) < game.win_length:
                continue
            beyond = tuple(sorted({before, after} - {-1, *cells})) if game.exact else ()
            lines.setdefault((tuple(sorted(cells)), beyond), Line(tuple(cells), beyond))
    return [lines[key] for key in sorted(lines)]


def winning_lines(game: Game) -> Int64Array:
    """Return the cells of every line, int64[W, win_length]: rows, columns and both diagonals, each from its top.

    A player with stones on all cells of a line wins, or loses in misère. In exact games, the line must not be longer.
    """
    return np.array([line.cells for line in board_lines(game)], np.int64)
