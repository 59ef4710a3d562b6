"""B games side by side between the caller and an opponent: what the single and the vector environment share.

The two environments only present what this does, so that game i of a batch and the single environment cannot differ.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from ttt_envs.boards import MOVERS, Boards, from_text
from ttt_envs.policy import Policy, act_in_episodes, make_policy
from ttt_envs.rules import (
    DRAW,
    ILLEGAL,
    NOT_OVER,
    OPPONENT,
    SEAT,
    SKIP,
    SMALL,
    SYMMETRY,
    Cells,
    ChanceOutcome,
    Game,
    Integers,
    Kernel,
    Keys,
    Position,
    Reals,
    action_index,
    begin,
    chance_outcomes,
    compiled,
    inlined,
    line_in,
    occupied,
    pick,
    play,
    play_rows,
    splitmix64,
    uniform,
    wide,
    winner,
)
from ttt_envs.symmetry import symmetries

Seat = Literal["first", "second", "random", "alternate"]
IllegalAction = Literal["lose", "penalize", "raise"]
Symmetry = Literal["none", "random"]
Flags = NDArray[np.bool_]

SELF = "self"
"""the opponent's name when the caller moves for both"""
FORFEIT, TRUNCATED = 3, 5  # FORFEIT + the loser: further outcomes beside the rules' own
OUTCOMES = (
    "player_0 won",
    "player_1 won",
    "draw",
    "player_0 lost by an illegal action",
    "player_1 lost by an illegal action",
    "truncated after too many illegal actions",
)
WINNERS = (0, 1, -1, 1, 0, -1, -1)
"""of each outcome the player who has won, -1 for nobody; the last is that of ``NOT_OVER``, -1"""
_SEATS = get_args(Seat)
_BOTH = len(_SEATS)
_NONE, _UNIFORM, _BY_ACT = range(3)  # how the opponent replies
# rows of the arrays of a Lockstep
_MOVER, _SEAT, _OUTCOME, _OVER, _BEGUN = range(5)
_STONES, _EPISODE, _SYMMETRY, _ILLEGAL = range(4)
_KEYS, _LUCK = range(2)


def check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    """Raise ValueError unless ``value`` is one of the choices."""
    if value not in choices:
        raise ValueError(f"{name}={value!r} is not known: choose {', '.join(map(repr, choices))}")


def beginning(game: Game, options: Mapping[str, Any] | None, both: bool) -> tuple[Position | None, int | None]:
    """The position and the caller's seat that the options of a reset ask for, None where they do not.

    Args:
        game: what is played.
        options: ``position``, a text, and ``seat``, 0 or 1; both may be missing.
        both: whether the caller moves for both players.

    Raises:
        TypeError, ValueError: another option, a position that is over or that no game leads to, a seat that is none.
    """
    if not options:
        return None, None
    for name in options:
        if name not in ("position", "seat"):
            raise ValueError(f"options[{name!r}] is not known: choose 'position' or 'seat'")
    seat = options.get("seat")
    if seat is not None:
        if isinstance(seat, bool) or not isinstance(seat, (int, np.integer)) or seat not in (0, 1):
            raise ValueError(f"options['seat']={seat!r} is no seat: choose 0 (first, o) or 1 (second, x)")
        if both:
            raise ValueError("options['seat'] makes no sense with opponent='self': you move for both")
        seat = int(seat)
    text = options.get("position")
    if text is None:
        return None, seat
    if not isinstance(text, str):
        raise TypeError(f"options['position']={text!r} is no text: write rows and mover, as in 'x.o/.../..o x'")
    position = from_text(text, game)
    if winner(game, position.cells) is not None:
        raise ValueError(f"options['position']={text!r} is over: choose a position in which the game goes on")
    o, x = (int(np.count_nonzero(position.cells == stone)) for stone in (1, 2))
    if game.skip_chance == 0:
        if o - x not in (0, 1) or position.mover != o - x:
            turn = f"{MOVERS[o - x]} is" if o - x in (0, 1) else "nobody could be"
            raise ValueError(
                f"options['position']={text!r} comes from no game without skips, with {o} o and {x} x {turn} to move: "
                f"choose another, or a skip_chance above 0"
            )
    elif o == 0 and (x or position.mover):
        raise ValueError(f"options['position']={text!r} comes from no game: o moves first")
    return position, seat


def check_restored(cloned: Game, game: Game, has_luck: bool, seed: object) -> None:
    """Raise ValueError unless a cloned state fits the game and somebody says how chance goes on."""
    if cloned != game:
        raise ValueError(f"a state of the game {cloned} cannot be restored in the game {game}: make that game first")
    if not has_luck and seed is None:
        raise ValueError(
            "this state was cloned without its generator: restore_state(state, seed=...) says how chance goes on, "
            "or clone_state(include_rng=True) keeps the generator"
        )


class Shown(NamedTuple):
    """What a step shows."""

    planes: Cells
    """int8[B, 2, cells]: own stones, then the opponent's"""
    mask: Cells
    """int8[B, cells]: legal actions; all ones in a finished game, because an empty mask would make masked distributions
    uniform over illegal actions"""
    rewards: Reals
    """float64[B], to ``Lockstep.seat``"""
    terminated: Flags
    """bool[B]"""
    truncated: Flags
    """bool[B]"""

    @classmethod
    def empty(cls, count: int, cells: int) -> Shown:
        """Fresh arrays to write into."""
        return cls(
            np.empty((count, 2, cells), np.int8),
            np.empty((count, cells), np.int8),
            np.empty(count),
            np.empty(count, np.bool_),
            np.empty(count, np.bool_),
        )


class Lockstep:
    """The state of B games and what happens to all of them at once.

    Attributes:
        cells, mover, stones: int8[B, cells], int8[B], int64[B]: the positions.
        keys, episode, luck: uint64[B], int64[B], uint64[B]: the seeds' keys, the number of the episode since, and
            ``splitmix64(key, episode)``, from which all chance of the episode comes.
        seat: int8[B]: the caller's seat; with ``opponent="self"`` the seat that moved last.
        symmetry: int64[B]: which of ``permutations`` int64[S, cells] the caller sees the board through.
        outcome: int8[B]: ``NOT_OVER``, a winner, ``DRAW``, ``FORFEIT`` + the loser, or ``TRUNCATED``.
        over: bool[B]: the end of the game has been shown, and the game must begin anew.
        small: int8[5, B]: mover, seat, outcome, over, and what only steps use.
        illegal: int64[B]: illegal actions so far.
    """

    def __init__(
        self,
        game: Game,
        count: int,
        opponent: str | Policy,
        seat: Seat,
        illegal_action: IllegalAction,
        symmetry: Symmetry,
    ) -> None:
        check_choice("seat", seat, _SEATS)
        check_choice("illegal_action", illegal_action, get_args(IllegalAction))
        check_choice("symmetry", symmetry, get_args(Symmetry))
        self.game = game
        self.opponent = None if opponent == SELF else make_policy(opponent, game)
        self.permutations = symmetries(game, "all" if symmetry == "random" else "none")
        if self.opponent is None:
            self._replies = _NONE
        else:
            self._replies = _UNIFORM if getattr(self.opponent, "plays_uniformly", False) else _BY_ACT
        self._seats = _BOTH if self.opponent is None else _SEATS.index(seat)
        self._illegal = get_args(IllegalAction).index(illegal_action)
        self.cells = np.zeros((count, game.cells), np.int8)
        # Few arrays with rows, because every array costs a kernel's caller as much as a move on a small board.
        self.small = np.zeros((5, count), np.int8)
        self._whole = np.zeros((4, count), np.int64)
        self._chance = np.zeros((2, count), np.uint64)
        # The stones as bits, see `_move_both`: kept only where the caller moves for both on a small board.
        as_bits = self.opponent is None and len(self.permutations) == 1 and game.cells <= SMALL
        self._bits = np.zeros((2, count if as_bits else 0), np.int64)
        self._name_rows()
        self.outcome[:] = NOT_OVER
        self.over[:] = True
        self.episode[:] = -1

    def _name_rows(self) -> None:
        """Make the views of the arrays: a copy of a view is none, so copies make them anew."""
        self.mover, self.seat, self.outcome = self.small[_MOVER], self.small[_SEAT], self.small[_OUTCOME]
        self.over = self.small[_OVER].view(np.bool_)
        self.stones, self.episode, self.symmetry, self.illegal = self._whole
        self.keys, self.luck = self._chance
        self._state = (self.cells, self.small, self._whole, self._chance, self._bits)
        self._fixed: tuple[Any, ...] = (self.permutations, self._seats, self._illegal, self._replies, self.game.kernel)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._name_rows()

    def seed(self, rows: Integers, keys: Keys) -> None:
        """Give the games ``rows`` the 64-bit keys of their seeds; their next episode is number 0."""
        self.keys[rows] = keys
        self.episode[rows] = -1

    def begin(self, rows: Integers, position: Position | None = None, seat: int | None = None) -> None:
        """Begin the next episode in the games ``rows``, the opponent's opening moves included.

        Args:
            rows: int64[R].
            position: where they begin, if not with an empty board.
            seat: the caller's, if not as the environment was made.
        """
        if self._bits.size:
            self._bits[:, rows] = 0
        _begin_rows(rows, *self._state[:-1], *self._fixed)
        placed = position is not None or seat is not None
        if placed:
            cells, mover = position or Position(np.zeros(self.game.cells, np.int8), 0)
            self.cells[rows], self.mover[rows], self.stones[rows] = cells, mover, np.count_nonzero(cells)
            self.outcome[rows] = NOT_OVER
            if seat is not None:
                self.seat[rows] = seat
            self._renew_bits()
        if self._replies == _BY_ACT or (placed and self.opponent is not None):
            self._reply()

    def _renew_bits(self) -> None:
        """Read the bits from the cells."""
        if self._bits.size:
            place = np.arange(self.game.cells) + np.arange(self.game.cells) // self.game.columns
            for player in range(2):
                self._bits[player] = ((self.cells == player + 1) << place).sum(axis=1)

    def step(self, actions: Integers, begin_over: bool, out: Shown) -> int:
        """Move in every game, let the opponent reply, and show how the games stand.

        Args:
            actions: int64[B], cells of the board as the caller sees it. It is ignored where a game begins, and where
                the opponent won before the caller's first move.
            begin_over: whether games that are over begin anew in place of a move (reward 0); else they stay over.
            out: written into.

        Returns:
            How many games have ended.

        Raises:
            ValueError: an action that is no cell, or an illegal one with ``illegal_action="raise"``; then no game has
                changed.
        """
        status: int = _call_step(*self._state, actions, begin_over, *self._fixed, *out)
        if status < 0:
            self._refuse(-1 - status, int(actions[-1 - status]))
        if self._replies == _BY_ACT:
            self._reply()
            status = _settle(self.small, out.rewards, out.terminated, out.truncated)
            self.observe(out)
        elif len(self.permutations) > 1:
            self.observe(out)
        return status

    def _reply(self) -> None:
        """Let an opponent with an ``act`` of its own move wherever it is to move, until nowhere."""
        assert self.opponent is not None
        while True:
            rows = np.flatnonzero((self.outcome == NOT_OVER) & (self.mover != self.seat))
            if not len(rows):
                return
            boards = Boards(self.cells[rows], self.mover[rows])
            luck, stones = self.luck[rows], self.stones[rows]
            in_games = getattr(self.opponent, "act_in_games", None)
            if in_games is not None:  # who plays differently in different games
                actions = in_games(boards, self.episode[rows], luck, stones)
            else:
                actions = act_in_episodes(self.opponent, boards, luck, stones)
            play_rows(self.cells, self.mover, self.stones, self.luck, rows, actions, self.game.kernel, self.outcome)
            illegal = rows[self.outcome[rows] == ILLEGAL]
            if len(illegal):
                self.outcome[illegal] = NOT_OVER
                raise ValueError(f"the opponent {self.opponent} moved to a cell that is not empty: it is at fault")

    def observe(self, out: Shown) -> None:
        """Write ``planes`` and ``mask``."""
        cells = self.cells
        if len(self.permutations) > 1:
            cells = np.take_along_axis(cells, self.permutations[self.symmetry], axis=1)
        _observe(cells, self.mover if self.opponent is None else self.seat, self.outcome, out.planes, out.mask)

    def shown(self) -> Shown:
        """``planes`` and ``mask`` in fresh arrays; the rest is not written."""
        out = Shown.empty(*self.cells.shape)
        self.observe(out)
        return out

    def seen(self, row: int, cells: Cells) -> Cells:
        """A board int8[rows * columns] as the caller of game ``row`` sees it."""
        return np.asarray(cells[self.permutations[self.symmetry[row]]])

    def told(self) -> Integers:
        """int64[4, B], fresh: mover, seat, outcome and winner (-1 for nobody) of each game."""
        out = np.empty((4, len(self.mover)), np.int64)
        _tell(self.small, out)
        return out

    def words(self, row: int) -> str | None:
        """How game ``row`` has ended, None while it goes on."""
        return None if self.outcome[row] == NOT_OVER else OUTCOMES[self.outcome[row]]

    def chance_outcomes(self, row: int, action: object) -> list[ChanceOutcome]:
        """What the caller's move may lead to in game ``row``, the opponent's reply not included."""
        cell = self.permutations[self.symmetry[row], action_index(self.game, action)]
        return chance_outcomes(self.game, Position(self.cells[row], int(self.mover[row])), int(cell))

    _POSITION = ("cells", "mover", "stones", "seat", "symmetry", "outcome", "illegal", "over")
    _LUCK = ("luck", "keys", "episode")

    def clone(self, include_rng: bool) -> dict[str, Any]:
        """Copies of the arrays; without ``include_rng`` of none that tells the future."""
        names = self._POSITION + (self._LUCK if include_rng else ())
        return {"game": self.game, **{name: getattr(self, name).copy() for name in names}}

    def restore(self, state: dict[str, Any], keys: Keys | None) -> None:
        """Take back what :meth:`clone` gave, and with ``keys`` go on with other luck.

        Raises:
            ValueError: arrays of another board or number of games, or neither the state's own luck nor keys.
        """
        check_restored(state["game"], self.game, "luck" in state, keys)
        if len(state["cells"]) != len(self.cells):
            raise ValueError(f"a state of {len(state['cells'])} games does not fit {len(self.cells)}")
        for name in self._POSITION + (self._LUCK if "luck" in state else ()):
            getattr(self, name)[...] = state[name]
        self._renew_bits()
        if keys is not None:
            self.seed(np.arange(len(keys)), keys)
            self.episode += 1
            _luck_of(self._chance, self.episode)

    def _refuse(self, row: int, action: int) -> None:
        try:
            action_index(self.game, action)
        except ValueError as problem:
            message = str(problem)
        else:
            cells = self.cells[row][self.permutations[self.symmetry[row]]]
            message = occupied(self.game, cells, action)
        raise ValueError(f"game {row}: {message}" if len(self.mover) > 1 else message)


# Kernels that are called for every game take the rows that they need, or index single numbers: cutting rows out of an
# array again for every game would cost more than the game.


@inlined
def _begin(
    b: int,
    cells: Cells,
    mover: Cells,
    stones: Integers,
    luck: Keys,
    small: Cells,
    whole: Integers,
    chance: Keys,
    seats: int,
    images: int,
) -> None:
    """Begin the next episode of game ``b``: an empty board, and the seat and the symmetry of the episode."""
    whole[_EPISODE, b] += 1
    begin(b, cells, mover, stones, luck, chance[_KEYS, b], whole[_EPISODE, b])
    if seats == 2:  # random
        small[_SEAT, b] = int(uniform(luck[b], SEAT, 0) * 2)
    elif seats == 3:  # alternate
        small[_SEAT, b] = whole[_EPISODE, b] % 2
    else:
        small[_SEAT, b] = seats % 2  # first, second; who plays both begins as the first
    if images > 1:
        whole[_SYMMETRY, b] = int(uniform(luck[b], SYMMETRY, 0) * images)
    small[_OUTCOME, b] = NOT_OVER
    small[_OVER, b] = False
    whole[_ILLEGAL, b] = 0


@inlined
def _reply_uniformly(
    b: int, cells: Cells, mover: Cells, stones: Integers, luck: Keys, seat: Cells, outcome: Cells, kernel: Kernel
) -> None:
    """The replies of an opponent that moves at random, with the numbers that ``act_in_episodes`` would use."""
    while outcome[b] == NOT_OVER and mover[b] != seat[b]:
        cell = pick(cells[b], uniform(luck[b], OPPONENT, stones[b]))
        result, after = play(cells[b], wide(mover[b]), cell, stones[b], luck[b], kernel)
        outcome[b] = result
        mover[b] = after
        stones[b] += 1


@compiled
def _settle(small: Cells, rewards: Reals, terminated: Flags, truncated: Flags) -> int:
    """Rewards and flags of games that have ended and have not just begun; what ends is over. Returns how many.

    Without a branch on an outcome, which nobody can predict: that halves the cost of a step of many games.
    """
    seat, outcome, over, begun = small[_SEAT], small[_OUTCOME], small[_OVER], small[_BEGUN]
    count = len(outcome)
    for b in range(count):  # a loop for each array, because short loops become vector instructions
        over[b] = (outcome[b] != NOT_OVER) & (begun[b] == 0)
    ended = 0
    for b in range(count):
        ended += over[b]
    for b in range(count):
        truncated[b] = over[b] * (outcome[b] == TRUNCATED) != 0
    for b in range(count):
        terminated[b] = over[b] * (outcome[b] != TRUNCATED) != 0
    for b in range(count):
        first_won = wide(outcome[b] == 0) + wide(outcome[b] == FORFEIT + 1)
        second_won = wide(outcome[b] == 1) + wide(outcome[b] == FORFEIT)
        rewards[b] += over[b] * (first_won - second_won) * (1 - 2 * seat[b])
    return ended


@compiled
def _begin_rows(
    rows: Integers,
    cells: Cells,
    small: Cells,
    whole: Integers,
    chance: Keys,
    permutations: Integers,
    seats: int,
    illegal_action: int,
    replies: int,
    kernel: Kernel,
) -> None:
    """Begin games, with the opening moves of an opponent that moves at random."""
    mover, seat, outcome, stones, luck = small[_MOVER], small[_SEAT], small[_OUTCOME], whole[_STONES], chance[_LUCK]
    for i in range(len(rows)):
        b = rows[i]
        _begin(b, cells, mover, stones, luck, small, whole, chance, seats, len(permutations))
        if replies == _UNIFORM:
            _reply_uniformly(b, cells, mover, stones, luck, seat, outcome, kernel)


@compiled
def _move_both(
    cells: Cells,
    small: Cells,
    whole: Integers,
    chance: Keys,
    bits: Integers,
    actions: Integers,
    begin_over: bool,
    illegal_action: int,
    kernel: Kernel,
    rewards: Reals,
) -> None:
    """The moves of a caller who plays both sides on a small board: ``rules.play`` for all games without a branch.

    A branch that depends on a game is guessed wrong as often as games differ, and each wrong guess costs as much as a
    move. So every game computes everything, and keeps what holds for it.
    """
    mover, seat, outcome, over, begun = small[_MOVER], small[_SEAT], small[_OUTCOME], small[_OVER], small[_BEGUN]
    stones, luck = whole[_STONES], chance[_LUCK]
    first, second = bits[0], bits[1]
    count, size = cells.shape
    _, columns, win_length, skip_chance = kernel
    for b in range(count):
        begun[b] = begin_over and over[b]
        if begun[b]:
            _begin(b, cells, mover, stones, luck, small, whole, chance, _BOTH, 1)
            first[b] = 0
            second[b] = 0
    refused = 0
    for b in range(count):
        player = wide(mover[b])
        cell = actions[b]
        playing = (outcome[b] == NOT_OVER) & (begun[b] == 0)
        bit = 1 << (cell + cell // columns)
        legal = playing & (((first[b] | second[b]) & bit) == 0)
        own = (second[b] if player else first[b]) | bit
        line = line_in(own, columns, win_length)
        result = player if line else (DRAW if stones[b] + 1 == size else NOT_OVER)
        goes_on = legal & (result == NOT_OVER)
        if skip_chance > 0:
            goes_on &= uniform(luck[b], SKIP, stones[b]) >= skip_chance
        cells[b, cell] = player + 1 if legal else cells[b, cell]
        first[b] |= bit if legal & (player == 0) else 0
        second[b] |= bit if legal & (player == 1) else 0
        stones[b] += legal
        outcome[b] = result if legal else outcome[b]
        mover[b] = 1 - player if goes_on else player
        seat[b] = player if playing else seat[b]
        bad = playing & (not legal)
        rewards[b] = -1.0 if bad else 0.0
        refused += bad
    if refused > 0:
        illegal = whole[_ILLEGAL]
        for b in range(count):
            if rewards[b] < 0:
                if illegal_action == 0:  # lose
                    outcome[b] = FORFEIT + mover[b]
                    rewards[b] = 0.0
                else:
                    illegal[b] += 1
                    if illegal[b] >= size:
                        outcome[b] = TRUNCATED


@compiled
def _step(
    cells: Cells,
    small: Cells,
    whole: Integers,
    chance: Keys,
    bits: Integers,
    actions: Integers,
    begin_over: bool,
    permutations: Integers,
    seats: int,
    illegal_action: int,
    replies: int,
    kernel: Kernel,
    planes: Cells,
    mask: Cells,
    rewards: Reals,
    terminated: Flags,
    truncated: Flags,
) -> int:
    """The caller's moves; and where the opponent needs no Python, its replies and how the games then stand.

    Returns:
        How many games have ended; or -1 - b for the first game b whose action is to be refused, and then nothing has
        changed.
    """
    mover, seat, outcome, over, begun = small[_MOVER], small[_SEAT], small[_OUTCOME], small[_OVER], small[_BEGUN]
    stones, symmetry, illegal, luck = whole[_STONES], whole[_SYMMETRY], whole[_ILLEGAL], chance[_LUCK]
    count, size = cells.shape
    least, most = 0, 0
    for b in range(count):
        least = min(least, actions[b])
        most = max(most, actions[b])
    if least < 0 or most >= size:
        for b in range(count):
            if actions[b] < 0 or actions[b] >= size:
                return -1 - b
    if illegal_action == 2:  # raise
        for b in range(count):
            if outcome[b] == NOT_OVER and cells[b, permutations[symmetry[b], actions[b]]] != 0:
                return -1 - b
    images = len(permutations)
    if bits.shape[1] > 0:
        _move_both(cells, small, whole, chance, bits, actions, begin_over, illegal_action, kernel, rewards)
        _observe(cells, mover, outcome, planes, mask)
        return _settle(small, rewards, terminated, truncated)
    for b in range(count):
        rewards[b] = 0.0
        begun[b] = begin_over and over[b]
        if begun[b]:
            _begin(b, cells, mover, stones, luck, small, whole, chance, seats, images)
        elif outcome[b] == NOT_OVER:  # else it is over, or was won by the opponent before the caller's first move
            player = wide(mover[b])
            if seats == _BOTH:
                seat[b] = player
            cell = actions[b] if images == 1 else permutations[symmetry[b], actions[b]]
            result, after = play(cells[b], player, cell, stones[b], luck[b], kernel)
            if result != ILLEGAL:
                outcome[b] = result
                mover[b] = after
                stones[b] += 1
            elif illegal_action == 0:  # lose
                outcome[b] = FORFEIT + player
            else:
                rewards[b] = -1.0
                illegal[b] += 1
                if illegal[b] >= size:
                    outcome[b] = TRUNCATED
    if replies == _BY_ACT:
        return 0
    if replies == _UNIFORM:
        for b in range(count):
            _reply_uniformly(b, cells, mover, stones, luck, seat, outcome, kernel)
    if images == 1:
        _observe(cells, mover if replies == _NONE else seat, outcome, planes, mask)
    return _settle(small, rewards, terminated, truncated)


_call_step: Callable[..., int] = _step  # mypy cannot count arguments behind two starred tuples


@compiled
def _observe(cells: Cells, viewer: Cells, outcome: Cells, planes: Cells, mask: Cells) -> None:
    # Flat arrays, plain comparisons and indices that only ever grow from 0: this is what becomes vector instructions
    # (five to ten times as fast as planes[b, 0, cell] = ... on large boards).
    count, size = cells.shape
    board = cells.reshape(-1)
    flat = planes.reshape(-1)
    legal = mask.reshape(-1)
    for i in range(count * size):
        legal[i] = board[i] == 0
    start = 0
    for b in range(count):
        own = np.int8(viewer[b] + 1)
        other = np.int8(3 - own)
        double = 2 * start
        for cell in range(size):
            stone = board[start + cell]
            flat[double + cell] = stone == own
            flat[double + size + cell] = stone == other
        if outcome[b] != NOT_OVER:
            for cell in range(size):
                legal[start + cell] = 1
        start += size


@compiled
def _tell(small: Cells, out: Integers) -> None:
    """``Lockstep.told``, without a branch on an outcome."""
    mover, seat, outcome = small[_MOVER], small[_SEAT], small[_OUTCOME]
    for b in range(len(mover)):
        out[0, b] = mover[b]
    for b in range(len(mover)):
        out[1, b] = seat[b]
    for b in range(len(mover)):
        out[2, b] = outcome[b]
    for b in range(len(mover)):
        first = wide(outcome[b] == 0) + wide(outcome[b] == FORFEIT + 1)
        second = wide(outcome[b] == 1) + wide(outcome[b] == FORFEIT)
        out[3, b] = first + 2 * second - 1


@compiled
def _luck_of(chance: Keys, episode: Integers) -> None:
    """The luck of the episodes, after their numbers or keys have changed."""
    keys, luck = chance[_KEYS], chance[_LUCK]
    for b in range(len(luck)):
        luck[b] = splitmix64(keys[b], episode[b])
