"""B simultaneous games between the caller and an opponent: the common core of the single and the vector environment.

Both environments are thin wrappers, so game i of a batch cannot differ from the single environment.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, cast, get_args

import numpy as np

from ttt_envs.agents.peeking import is_peeking
from ttt_envs.agents.policy import ActsInGames, Policy, act_in_episodes, acts_in_games
from ttt_envs.core.checks import check_choice
from ttt_envs.core.jit import BoolArray, Float64Array, Int8Array, Int64Array, UInt64Array
from ttt_envs.core.threads import map_threads, split_rows
from ttt_envs.envs import step_kernels
from ttt_envs.envs.contexts import draw_opening
from ttt_envs.envs.opponents import SELF as SELF
from ttt_envs.envs.opponents import Opponents, make_opponents
from ttt_envs.envs.step_kernels import (
    BOTH_SEATS,
    FINISH,
    MOVE,
    MOVE_OR_RESET,
    OBSERVE,
    RAISE,
    REPLY_NONE,
    REPLY_POLICY,
    REPLY_RANDOM,
    RESET,
    pack_settings,
)
from ttt_envs.game.actions import action_to_cell, check_action, illegal_action_message, num_actions
from ttt_envs.game.bits import MAX_CELLS_IN_BITS
from ttt_envs.game.boards import Boards, check_opening, from_text
from ttt_envs.game.game import Position
from ttt_envs.game.phantom import AnyGame, PhantomGame, visible
from ttt_envs.game.rules import NOT_OVER, ChanceOutcome, Outcome, chance_outcomes
from ttt_envs.game.symmetry import symmetries

SeatChoice = Literal["first", "second", "random", "alternate"]
IllegalAction = Literal["lose", "penalize", "raise"]
Symmetry = Literal["none", "random"]

_SEATS = get_args(SeatChoice)
_INT8, _BOOL = np.dtype(np.int8), np.dtype(np.bool_)  # arrays are allocated faster with these than with types
MIN_BLOCK_GAMES = 32_768
"""Minimum number of games of a thread. Blocks of 8,192 games took as long with two threads as with one, or longer, and
those of 2,048 twice as long: a step of so few takes no longer than handing its games to another core (AMD EPYC, family
25)."""


def parse_reset_options(
    games: Sequence[AnyGame], options: Mapping[str, Any] | None, both: bool
) -> tuple[Position | None, int | None]:
    """Return the position and the caller's seat from the options of a reset; None for each that is missing.

    Args:
        games: the game of each skip chance; the position must be an opening of all of them.
        options: ``position``, a text, and ``seat``, 0 or 1; both are optional.
        both: whether the caller moves for both players.

    Raises:
        TypeError, ValueError: an option is unknown, the position is over or unreachable, or the seat is invalid.
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
    position = from_text(text, games[0])
    for game in games:
        check_opening(game, position, f"options['position']={text!r}")
    return position, seat


def check_restored(
    cloned: AnyGame | tuple[AnyGame, ...], game: AnyGame | tuple[AnyGame, ...], has_keys: bool, seed: object
) -> None:
    """Raise ValueError unless a cloned state fits the game and it or ``seed`` determines future random numbers."""
    if cloned != game:
        raise ValueError(
            f"a state of the game {_describe(cloned)} cannot be restored in the game {_describe(game)}: "
            f"make that game first"
        )
    if not has_keys and seed is None:
        raise ValueError(
            "this state was cloned without its generator: use restore_state(state, seed=...), or "
            "clone_state(include_rng=True), which copies the generator"
        )


def _describe(game: AnyGame | tuple[AnyGame, ...]) -> str:
    return " or ".join(map(str, game)) if isinstance(game, tuple) else str(game)


class StepOutput(NamedTuple):
    """Output of a step. ``planes`` and ``mask`` have no rows where observations are not written."""

    planes: Int8Array
    """int8[B, 2, cells]: own stones, then the opponent's stones"""
    mask: Int8Array
    """int8[B, actions]: legal actions; all ones in a finished game, because an empty mask would make masked
    distributions uniform over illegal actions"""
    rewards: Float64Array
    """float64[B], rewards of the player ``Lockstep.seat``"""
    terminated: BoolArray
    """bool[B]"""
    truncated: BoolArray
    """bool[B]"""
    memory: tuple[UInt64Array | None, Float64Array, BoolArray]
    """the arguments of kernels: planes and mask as uint64, because kernels write eight bytes at once, each from the
    start of a word, or None; rewards; and bool[2, B], terminated and truncated"""

    @classmethod
    def empty(cls, count: int, cells: int, actions: int | None = None, *, observes: bool = True) -> StepOutput:
        """Allocate uninitialised arrays; the number of ``actions`` is that of ``cells`` by default."""
        actions = cells if actions is None else actions
        if not observes:
            planes, mask = np.empty((0, 2, cells), np.int8), np.empty((0, actions), np.int8)
            rewards, flags = np.empty(count), np.empty((2, count), np.bool_)
            return cls(planes, mask, rewards, flags[0], flags[1], (None, rewards, flags))
        num_words = step_kernels.num_plane_words(count, cells)
        observations = np.empty(num_words + (count * actions + 7) // 8, np.uint64)
        planes = np.ndarray((count, 2, cells), _INT8, observations)
        mask = np.ndarray((count, actions), _INT8, observations, 8 * num_words)
        rewards, flags = np.empty(count), np.empty((2, count), _BOOL)
        return cls(planes, mask, rewards, flags[0], flags[1], (observations, rewards, flags))

    def with_new_rewards(self) -> StepOutput:
        """Return an output with the same memory of planes and mask, and new rewards and flags."""
        rewards, flags = np.empty(len(self.rewards)), np.empty((2, len(self.rewards)), np.bool_)
        memory = (self.memory[0], rewards, flags)
        return StepOutput(self.planes, self.mask, rewards, flags[0], flags[1], memory)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild_step_output, tuple(self[:5])  # the arrays share the memory, in copies too


def _rebuild_step_output(*arrays: np.ndarray[Any, Any]) -> StepOutput:
    """Copy these arrays into newly allocated memory."""
    planes, mask, rewards = arrays[:3]
    out = StepOutput.empty(len(rewards), planes.shape[2], mask.shape[1], observes=len(planes) == len(rewards))
    for name, array in zip(StepOutput._fields, arrays, strict=False):
        getattr(out, name)[...] = array
    return out


class _Block(NamedTuple):
    """Some of the games, for a thread."""

    games: slice
    first_word: int
    """the first word of their planes"""
    state: tuple[Int64Array, Int8Array, Int64Array, UInt64Array]
    """as ``Lockstep._state``"""


def _block_size(count: int, threads: int) -> int:
    """Return the number of games of a block, a multiple of 64; or ``count`` for a single block.

    There is a block for each thread, so that the numbers of a game mostly stay in the cache of one core.
    """
    share = max(MIN_BLOCK_GAMES, -(-count // threads))
    return max(1, min(count, -(-share // 64) * 64))


class Lockstep:
    """The state of B games and the operations on all of them at once.

    Attributes:
        mover, seat: int64[B]: player to move, and the caller's seat; with ``opponent="self"`` the seat that moved last.
        outcome: int64[B], see ``rules.Outcome``.
        stones: int64[B]: number of stones on the board.
        keys, episode, episode_keys: uint64[B], int64[B], uint64[B]: the seeds' keys, the number of the episode since
            seeding, and ``splitmix64(key, episode)``, from which all random numbers of the episode are computed.
        num_actions: number of actions, of cells or with gravity of columns.
        symmetry: int64[B]: index into ``permutations`` int64[S, cells] of the caller's view of the board.
        num_illegal: int64[B]: number of illegal actions so far.
        skip_chance: float64[B]: of the episode.

    Args:
        game: the game, or games that differ in the skip chance only, of which each episode draws one.
        count: B.
        opponent: see :func:`ttt_envs.envs.opponents.make_opponents`.
        seat, illegal_action, symmetry: as in ``SingleEnv``.
        openings: positions, of which each episode draws one to begin with; by default the empty board.
        threads: number of threads for steps.
        met: the positions of the first game in which the opponent moves are appended to this list, if given.
        observes: whether operations write observations; without them, the kernel of steps is smaller, and so compiled
            faster.
    """

    def __init__(
        self,
        game: AnyGame | Sequence[AnyGame],
        count: int,
        opponent: str | Policy | Opponents,
        seat: SeatChoice,
        illegal_action: IllegalAction,
        symmetry: Symmetry,
        *,
        openings: Boards | None = None,
        threads: int = 1,
        met: list[Position] | None = None,
        observes: bool = True,
    ) -> None:
        check_choice("seat", seat, _SEATS)
        check_choice("illegal_action", illegal_action, get_args(IllegalAction))
        check_choice("symmetry", symmetry, get_args(Symmetry))
        self.games = (game,) if isinstance(game, AnyGame) else tuple(game)
        game = self.game = self.games[0]
        self.opponents = make_opponents(opponent, self.games)
        self.is_self_play = self.opponents is None
        self._openings = openings
        self._met = met
        self.permutations = symmetries(game, "all" if symmetry == "random" else "none")
        if self.opponents is None:
            self._replies = REPLY_NONE
        else:  # the kernel that replies at once knows no openings
            uniform = self.opponents.plays_uniformly and openings is None and met is None
            self._replies = REPLY_RANDOM if uniform else REPLY_POLICY
        self._only = self.opponent if self.opponents is not None and self.opponents.num_policies == 1 else None
        self._is_scheduled = self.opponents is not None and len(self.opponents.starts) > 1
        self._counts_steps = self.opponents is not None and self._is_scheduled and self.opponents.unit == "steps"
        seats = BOTH_SEATS if self.is_self_play else _SEATS.index(seat)
        illegal = get_args(IllegalAction).index(illegal_action)
        self._raises_illegal = illegal == RAISE
        self.num_actions = num_actions(game)
        self._lines = visible(game).parameters.lines
        self._settings = pack_settings(self.games, count, seats, illegal, self._replies, self.permutations)
        # rows, and room for those of a block, which begin at its first game
        self._memory = np.zeros((step_kernels.ROWS + 1) * step_kernels.stride(count), np.int64)
        self._is_phantom = isinstance(game, PhantomGame)
        shape = (0,) if game.cells <= MAX_CELLS_IN_BITS else (count, game.cells)
        self._cells = np.zeros((count, 2, game.cells) if self._is_phantom else shape, np.int8)
        self._threads = threads
        size = _block_size(count, threads)
        # a word more for each block, because a block writes to the end of its last word and one beyond
        self._words = np.empty(count * 2 * game.cells // 64 + -(-count // size), np.uint64)
        self._waiting = np.empty(count, np.int64)
        self._stage = np.zeros(count, np.int64)  # of the schedule of opponents, by game
        self._num_steps = np.zeros(count, np.int64)  # since seeding, counted if the schedule needs it
        self._count = count
        unread = np.empty(0, np.uint64) if observes else None  # of the same type as of steps, for one kernel
        self._no_output = (unread, np.empty(0), np.empty((2, 0), np.bool_))
        self._name_columns()
        self.outcome[:] = NOT_OVER
        self._columns.is_over[:] = 1
        self.episode[:] = -1
        self.skip_chance[:] = game.skip_chance

    def _name_columns(self) -> None:
        """Create the views of the arrays; needed after copying, because a copy of a view is not a view."""
        self._rows = np.ndarray((step_kernels.ROWS, step_kernels.stride(self._count)), np.int64, self._memory)
        columns = self._columns = step_kernels.name_columns(self._rows, self._count)
        self.mover, self.seat, self.outcome, self.stones = columns.mover, columns.seat, columns.outcome, columns.stones
        self.episode, self.symmetry, self.num_illegal = columns.episode, columns.symmetry, columns.num_illegal
        self.keys, self.episode_keys, self.skip_chance = columns.key, columns.episode_key, columns.skip_chance
        self.info_of_first = self._rows[: step_kernels.INFO_ROWS + 1, 0]  # without a copy, for the single environment
        self._state = (self._settings, self._cells, self._rows, self._words)
        parts = split_rows(self._count, _block_size(self._count, self._threads))
        self._blocks = [self._block(number, part) for number, part in enumerate(parts)] if len(parts) > 1 else []
        # one call of the kernel for standard rules makes a whole step
        needs_more = self._blocks or self._counts_steps or self._openings is not None
        self._steps_at_once = not needs_more and self._replies != REPLY_POLICY

    def _block(self, number: int, games: slice) -> _Block:
        """Return the arguments of a step of some of the games."""
        first, size = games.start, self.game.cells
        settings = step_kernels.block_settings(self._settings, first, games.stop - first, self.num_actions)
        cells = self._cells[games] if self._cells.ndim > 1 else self._cells
        rows = np.ndarray(self._rows.shape, np.int64, self._memory, 8 * first)  # each row begins at this game
        words = self._words[first * 2 * size // 64 + number :]
        return _Block(games, first * 2 * size // 8, (settings, cells, rows, words))

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._name_columns()

    @property
    def opponent(self) -> Policy | None:
        """The only opponent, or the first of several; None in self-play."""
        return None if self.opponents is None else self.opponents.policies[0][0]

    @property
    def over(self) -> BoolArray:
        """bool[B], a copy: the end of the game has been shown, and the game must be reset."""
        over: BoolArray = self._columns.is_over != 0
        return over

    @property
    def begun_games(self) -> Int64Array:
        """int64[R]: the games that the last operation began."""
        return np.flatnonzero(self._columns.begins)

    def end(self, rows: BoolArray) -> None:
        """Mark the games where ``rows`` bool[B] is true as over, so that they must be reset; outcomes do not change."""
        self._columns.is_over[rows] = 1

    def boards(self, rows: Int64Array | None = None) -> Boards:
        """Return the positions of the games ``rows`` int64[R], by default all, as copies.

        In phantom games they are the movers' views; :meth:`positions` has all stones.
        """
        if rows is None:
            rows = np.arange(len(self.mover))
        out = Boards(np.empty((len(rows), self.game.cells), np.int8), np.empty(len(rows), np.int8))
        step_kernels.read_boards(rows, self._cells, self._rows, *out)
        return out

    def positions(self, rows: Int64Array | None = None) -> Boards:
        """Return :meth:`boards` with all stones, hidden or not."""
        boards = self.boards(rows)
        if not self._is_phantom:
            return boards
        return Boards(self._cells[slice(None) if rows is None else rows, 0].copy(), boards.mover)

    def seed(self, rows: Int64Array, keys: UInt64Array) -> None:
        """Set the 64-bit seed keys of the games ``rows``; their next episode is number 0."""
        self.keys[rows] = keys
        self.episode[rows] = -1
        self._num_steps[rows] = 0

    def begin(
        self, rows: Int64Array, position: Position | None = None, seat: int | None = None, out: StepOutput | None = None
    ) -> None:
        """Begin the next episode in the games ``rows``, including the opponent's opening moves.

        Args:
            rows: int64[R].
            position: initial position; by default an opening, or the empty board without openings.
            seat: the caller's seat; by default as configured.
            out: its ``planes`` and ``mask`` are written, for all games.
        """
        memory = self._no_output if out is None else out.memory
        _step(*self._state, rows, RESET, *memory, self._lines)
        if self._is_scheduled:
            self._set_stage(rows)
        placed = position is not None or seat is not None or self._openings is not None
        if placed:
            self._begin_in(rows, position, seat)
        if self._replies == REPLY_POLICY or (placed and not self.is_self_play):
            self._reply()
        if out is not None and (placed or self._replies == REPLY_POLICY):
            self.observe(out)

    def _begin_in(self, rows: Int64Array, position: Position | None, seat: int | None) -> None:
        """Set position and seat of games that begin; see :meth:`begin`."""
        if position is None and self._openings is not None:
            self._place(rows, *self._draw_openings(rows))
        else:
            cells, mover = position or Position(np.zeros(self.game.cells, np.int8), 0)
            self._place(rows, np.tile(cells, (len(rows), 1)), mover)
        if seat is not None:
            self.seat[rows] = seat

    def _set_stage(self, rows: Int64Array) -> None:
        """Look the schedule of opponents up for episodes that begin."""
        assert self.opponents is not None
        counts = self._num_steps if self._counts_steps else self.episode
        self._stage[rows] = self.opponents.stages(counts[rows])

    def _place(self, rows: Int64Array, cells: Int8Array, mover: Int8Array | int) -> None:
        """Set the positions of games that begin."""
        step_kernels.write_boards(rows, cells, self._cells, self._rows)
        self.mover[rows] = mover
        self.outcome[rows] = NOT_OVER

    def _draw_openings(self, rows: Int64Array) -> Boards:
        """Return the openings of the current episodes of the games ``rows``."""
        assert self._openings is not None
        count = len(self._openings.mover)
        return self._openings.take(np.array([draw_opening(key, count) for key in self.episode_keys[rows]], np.int64))

    def first_cells(self, rows: Int64Array) -> Int8Array:
        """Return int8[R, cells], the boards with which the current episodes of the games ``rows`` begin."""
        if self._openings is None:
            return np.zeros((len(rows), self.game.cells), np.int8)
        return self._draw_openings(rows).cells

    def step(self, actions: Int64Array, begin_over: bool, out: StepOutput) -> int:
        """Make the caller's move in every game, let the opponent reply, and write the resulting state.

        Args:
            actions: int64[B], cells of the board in the caller's view, or with gravity its columns. Ignored where a
                game begins, and where the opponent won before the caller's first move.
            begin_over: whether games that are over are reset instead of moving (reward 0); else they stay over.
            out: written.

        Returns:
            The number of games that have ended.

        Raises:
            ValueError: an action is not a cell, or is illegal with ``illegal_action="raise"``; no game has changed.
        """
        mode = MOVE_OR_RESET if begin_over else MOVE
        if self._steps_at_once:  # the common case, without the questions below
            status = _step(*self._state, actions, mode, *out.memory, self._lines)
            if status < 0:
                self._refuse(-1 - status, int(actions[-1 - status]))
            return status
        if self._blocks:
            status = self._step_blocks(actions, mode, out)
        else:
            status = _step(*self._state, actions, mode, *out.memory, self._lines)
        if status < 0:
            self._refuse(-1 - status, int(actions[-1 - status]))
        if self._counts_steps:
            self._num_steps += 1 - self._columns.begins
        if self._replies == REPLY_POLICY:
            if self._is_scheduled or self._openings is not None:
                self._begin_scheduled()
            self._reply()
            if self._blocks:
                status = self._step_blocks(actions, FINISH, out)
            else:
                status = _step(*self._state, actions, FINISH, *out.memory, self._lines)
        elif self._openings is not None and self._begin_scheduled():  # in self-play
            self.observe(out)
        return status

    def _step_blocks(self, actions: Int64Array, mode: int, out: StepOutput) -> int:
        """Call the kernel block by block; see :func:`step_kernels.step`."""
        if self._may_refuse(actions):
            return _step(*self._state, actions, mode, *out.memory, self._lines)
        observations, rewards, flags = out.memory
        room = np.empty((3, self._count), np.bool_)  # two rows, and room for those of a block

        def step(_: int, block: _Block) -> int:
            games = block.games
            of_block = np.ndarray(flags.shape, np.bool_, room, games.start)
            words = None if observations is None else observations[block.first_word :]
            return step_kernels.step(*block.state, actions[games], mode, words, rewards[games], of_block, self._lines)

        num_ended: int = sum(map_threads(step, self._blocks, min(self._threads, len(self._blocks))))
        if mode == FINISH or self._replies != REPLY_POLICY:
            flags[...] = room[:2]
        return num_ended

    def _may_refuse(self, actions: Int64Array) -> bool:
        """Return whether a step may change nothing, because of an action that is invalid."""
        return self._raises_illegal or int(actions.min()) < 0 or int(actions.max()) >= self.num_actions

    def _begin_scheduled(self) -> bool:
        """Set opponents and openings of the games that the last step began, and return whether there are any."""
        rows = self.begun_games
        if len(rows):
            if self._is_scheduled:
                self._set_stage(rows)
            if self._openings is not None:
                self._place(rows, *self._draw_openings(rows))
        return len(rows) > 0

    def _reply(self) -> None:
        """Let an opponent with its own ``act`` move, until the caller is to move in every game."""
        assert self.opponents is not None
        while True:
            rows = self._waiting[: step_kernels.games_to_reply(self._count, self._rows, self._waiting)]
            if not len(rows):
                return
            if self._met is not None and rows[0] == 0:
                self._met.append(self.position(0))
            if self._only is not None:
                self._reply_by(self._only, rows)
                continue
            stage, context = self._stage[rows], self._context(rows)
            for i, j in sorted(set(zip(stage.tolist(), context.tolist(), strict=True))):
                self._reply_by(self.opponents.policies[i][j], rows[(stage == i) & (context == j)])

    def _context(self, rows: Int64Array) -> Int64Array:
        """Return the index into ``games`` int64[R] of the games ``rows``."""
        known = np.array([game.skip_chance for game in self.games])
        index: Int64Array = (self.skip_chance[rows, None] == known).argmax(axis=1)
        return index

    def _reply_by(self, opponent: Policy, rows: Int64Array) -> None:
        """Let an opponent make one move in each of the games ``rows``."""
        boards, keys, plies = self.boards(rows), self.episode_keys[rows], self.stones[rows]
        if self._is_phantom:  # number of cells known to be taken: failed attempts need random numbers of their own
            plies = np.count_nonzero(boards.cells, axis=1)
            boards = self.positions(rows) if is_peeking(opponent) else boards
        if acts_in_games(type(opponent)):
            actions = cast(ActsInGames, opponent).act_in_games(boards, self.episode[rows], keys, plies)
        else:
            actions = act_in_episodes(opponent, boards, keys, plies)
        if step_kernels.play_replies(rows, actions, self._settings, self._cells, self._rows, self._lines) >= 0:
            illegal = "that is illegal" if self.game.gravity else "that is not empty"
            illegal = "that it knows to be taken" if self._is_phantom else illegal
            raise ValueError(f"the opponent {opponent} moved to a cell {illegal}: choose another, or correct this one")

    def observe(self, out: StepOutput) -> None:
        """Write ``planes`` and ``mask``."""
        _step(*self._state, self._waiting, OBSERVE, *out.memory, self._lines)

    def output(self) -> StepOutput:
        """Allocate the output of a step."""
        return StepOutput.empty(self._count, self.game.cells, self.num_actions, observes=self._no_output[0] is not None)

    def observe_all(self) -> StepOutput:
        """Return ``planes`` and ``mask`` in new arrays; the other fields are not written."""
        out = self.output()
        self.observe(out)
        return out

    def to_caller_view(self, row: int, cells: Int8Array) -> Int8Array:
        """Return a board int8[rows * columns] in the view of the caller of game ``row``."""
        return np.asarray(cells[self.permutations[self.symmetry[row]]])

    def infos(self) -> Int64Array:
        """Return int64[4, B], a copy: mover, seat, outcome and winner (-1 for none) of each game."""
        return self._rows[: step_kernels.INFO_ROWS, : self._count].copy()

    def description(self, row: int) -> str | None:
        """Return a text for the outcome of game ``row``, None while it is in progress."""
        return Outcome(int(self.outcome[row])).description or None

    def position(self, row: int) -> Position:
        """Return the position of game ``row``."""
        return self.positions(np.array([row])).position(0)

    def chance_outcomes(self, row: int, action: object) -> list[ChanceOutcome]:
        """Return the possible successors of the caller's move in game ``row``, before the opponent's reply."""
        position = self.position(row)
        # with gravity, the first row of the board has the numbers of the columns
        action = self.permutations[self.symmetry[row], check_action(self.game, action)]
        game = self.games[int(self._context(np.array([row]))[0])]
        return chance_outcomes(game, position, action_to_cell(game, position.cells, action))

    # columns in a stored state, which are named as in stored trainings
    _SMALL = {"mover": "mover", "seat": "seat", "outcome": "outcome"}  # noqa: RUF012  # stored as int8
    _WHOLE = {"stones": "stones", "symmetry": "symmetry", "illegal": "num_illegal"}  # noqa: RUF012
    _RANDOM = {"episode_keys": "episode_keys", "keys": "keys", "episode": "episode"}  # noqa: RUF012

    @property
    def _identity(self) -> AnyGame | tuple[AnyGame, ...]:
        """What a stored state must have in common."""
        return self.games if len(self.games) > 1 else self.game

    def _scheduled(self) -> dict[str, str]:
        """Return further columns in a stored state, where the settings need them."""
        columns = {"skip_chance": "skip_chance"} if len(self.games) > 1 else {}
        if self._is_scheduled:
            columns |= {"stage": "_stage", "steps_since_seed": "_num_steps"}
        return columns

    def clone(self, include_rng: bool) -> dict[str, Any]:
        """Return copies of the arrays, with ``cells`` int8[B, rows * columns], and in phantom games ``found``.

        Without ``include_rng``, arrays that determine future random numbers are left out.
        """
        whole = self._WHOLE | self._scheduled() | (self._RANDOM if include_rng else {})
        return {
            "game": self._identity,
            "cells": self.positions().cells,
            **({"found": self._cells[:, 1].copy()} if self._is_phantom else {}),
            "over": self.over,
            **{name: getattr(self, column).astype(np.int8) for name, column in self._SMALL.items()},
            **{name: getattr(self, column).copy() for name, column in whole.items()},
        }

    def restore(self, state: dict[str, Any], keys: UInt64Array | None) -> None:
        """Restore a state from :meth:`clone`; with ``keys``, random numbers come from these keys from now on.

        Raises:
            ValueError: the state has another board or number of games, or there are neither stored nor new keys.
        """
        check_restored(state["game"], self._identity, "episode_keys" in state, keys)
        count = len(self.mover)
        if len(state["cells"]) != count:
            raise ValueError(f"a state of {len(state['cells'])} games does not fit {count}")
        columns = self._SMALL | self._WHOLE | self._scheduled() | (self._RANDOM if "episode_keys" in state else {})
        for name, column in columns.items():
            getattr(self, column)[...] = state[name]
        self._columns.is_over[:] = state["over"]
        cells = np.empty((count, self.game.cells), np.int8)
        cells[...] = state["cells"]
        step_kernels.write_boards(np.arange(count), cells, self._cells, self._rows)
        if self._is_phantom:
            self._cells[:, 1] = state["found"]
        if keys is not None:
            self.seed(np.arange(count), keys)
            self.episode += 1
            step_kernels.update_episode_keys(count, self._rows)

    def _refuse(self, row: int, action: int) -> None:
        try:
            check_action(self.game, action)
        except ValueError as problem:
            message = str(problem)
        else:
            message = illegal_action_message(
                self.game, self.to_caller_view(row, self.boards(np.array([row])).cells[0]), action
            )
        raise ValueError(f"game {row}: {message}" if len(self.mover) > 1 else message)


# mypy cannot count arguments after two starred tuples
_step: Callable[..., int] = step_kernels.step
