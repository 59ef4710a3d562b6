"""How fast the environments and the kernel are, each beside a peer that does the same.

Ours and the peer take turns in one process on one core, for several rounds. The ratio is taken within each round, so
that a slow moment of the machine hits both sides. A rate is moves (stones put on boards) per second of the process's
CPU time, threads included: the stones of an opponent inside an environment count, steps that only begin a game do not.
Compiling and first calls stay outside the clock. Our guards against illegal moves, actions off the board and calls out
of order are on, as they always are.

Single games draw their random moves within the clock. Batches draw them outside, by one sampler for both sides; the
last column says what it takes.

    python benchmarks/environments.py [--quick] [--rounds N] [--only NAME,...] [--json FILE]
"""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import gc
import itertools
import json
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from random import random
from time import process_time
from typing import Any, NamedTuple

from measuring import Arguments, SkipRow, Spread, compile_c, cpu, not_installed, versions

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import gymnasium
import numpy as np
import tyro
from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

from ttt_envs import mnk_v0
from ttt_envs.random_games import random_games
from ttt_envs.rules import Game

PACKAGES = ("numpy", "numba", "gymnasium", "pettingzoo", "open_spiel", "pgx", "jax", "envpool")
BOARDS = ((3, 3), (7, 5), (15, 5), (19, 5))
"""edges and win lengths of the table of costs"""
COSTS = "cost"
"""the name of the table of costs, beside those of the rows"""


class Count(NamedTuple):
    """What a stretch of play amounts to."""

    moves: int
    seconds: float
    """CPU time of the moves"""
    drawing: float = 0.0
    """CPU time of drawing them where that is not part of ``seconds``"""


Play = Callable[[], Count]
"""plays on for some milliseconds"""


def total(counts: Iterable[Count]) -> Count:
    return Count(*map(sum, zip(*counts, strict=True)))


# ---------------------------------------------------------------------------------------------------------------------
# One game at a time


def single(play_game: Callable[[], int], cells: int) -> Play:
    """Some games of ``play_game``, which returns its number of moves, as one stretch."""
    games = max(1, 400 // cells)

    def play() -> Count:
        begin = process_time()
        moves = sum(play_game() for _ in range(games))
        return Count(moves, process_time() - begin)

    return play


def aec_games(env: Any, cells: int = 9) -> Play:
    """PettingZoo's loop."""

    def play_game() -> int:
        moves = 0
        env.reset()
        for _ in env.agent_iter():
            observation, _, terminated, truncated, _ = env.last()
            if terminated or truncated:
                env.step(None)
                continue
            legal = np.flatnonzero(observation["action_mask"])
            env.step(legal[int(random() * len(legal))])
            moves += 1
        return moves

    return single(play_game, cells)


def our_aec(size: int = 3, win_length: int = 3) -> Play:
    return aec_games(mnk_v0.env(size=size, win_length=win_length), size * size)


def our_raw_aec(size: int = 3, win_length: int = 3) -> Play:
    return aec_games(mnk_v0.raw_env(size=size, win_length=win_length), size * size)


def pettingzoo_aec() -> Play:
    from pettingzoo.classic import tictactoe_v3

    return aec_games(tictactoe_v3.env())


def pettingzoo_raw_aec() -> Play:
    from pettingzoo.classic import tictactoe_v3

    return aec_games(tictactoe_v3.raw_env())


def our_single(size: int = 3, win_length: int = 3, dtype: str = "int8") -> Play:
    env = gymnasium.make("ttt/TicTacToe-v0", size=size, win_length=win_length, opponent="random", dtype=dtype)

    def play_game() -> int:
        _, info = env.reset()
        over = False
        while not over:
            legal = np.flatnonzero(info["action_mask"])
            observation, _, terminated, truncated, info = env.step(legal[int(random() * len(legal))])
            over = terminated or truncated
        return int(np.count_nonzero(observation))  # the stones of both

    return single(play_game, size * size)


def open_spiel_environment() -> Play:
    from open_spiel.python import rl_environment

    env = rl_environment.Environment("tic_tac_toe")

    def play_game() -> int:
        moves = 0
        time_step = env.reset()
        while not time_step.last():
            observations = time_step.observations
            legal = observations["legal_actions"][observations["current_player"]]
            time_step = env.step([legal[int(random() * len(legal))]])
            moves += 1
        return moves

    return single(play_game, 9)


def open_spiel_large() -> Play:
    import pyspiel

    game = pyspiel.load_game("mnk(m=15,n=15,k=5)")

    def play_game() -> int:
        moves = 0
        state = game.new_initial_state()
        while not state.is_terminal():
            np.array(state.observation_tensor(), np.float32)
            legal = np.flatnonzero(state.legal_actions_mask())
            state.apply_action(legal[int(random() * len(legal))])
            moves += 1
        return moves

    return single(play_game, 225)


# ---------------------------------------------------------------------------------------------------------------------
# Many games at once


def batch_games(
    mask: Any,
    step: Callable[[Any], Any],
    read: Callable[[Any], tuple[Any, int]],
    action_type: Any = np.int64,
    prepare: Callable[[], None] = lambda: None,
) -> Play:
    """Games side by side whose moves are drawn outside the clock.

    Args:
        mask: bool or int8[B, cells], the first legal actions.
        step: what the clock measures: takes actions [B], returns all that a learner wants, as numpy arrays.
        read: takes what ``step`` returned; the legal actions and the number of moves that the step made.
        action_type: what ``step`` takes without converting it.
        prepare: called before each step, outside the clock.
    """
    rng = np.random.default_rng(0)
    count, cells = mask.shape

    def draw() -> Any:
        ranks = np.cumsum(mask, axis=1, dtype=np.int16)
        wanted = (rng.random(count) * ranks[:, -1]).astype(np.int16)
        return np.argmax(ranks > wanted[:, None], axis=1).astype(action_type)

    def turn() -> Count:
        nonlocal mask
        begin = process_time()
        actions = draw()
        drawn = process_time()
        prepare()
        ready = process_time()
        shown = step(actions)
        done = process_time()
        mask, moves = read(shown)
        return Count(moves, done - ready, drawn - begin)

    for _ in range(2 * cells):  # compiles, and lets games that began together drift apart
        turn()
    turns = max(2, 50_000 // (count * cells))
    return lambda: total(turn() for _ in range(turns))


def our_batch(opponent: str, count: int = 1024, size: int = 3, win_length: int = 3, dtype: str = "int8") -> Play:
    """Our vector environment, which begins the next game in a step of its own."""
    env = gymnasium.make_vec(
        "ttt/TicTacToe-v0", num_envs=count, size=size, win_length=win_length, opponent=opponent, dtype=dtype
    )
    going_on = 0  # stones in the games that go on

    def read(shown: Any) -> tuple[Any, int]:
        nonlocal going_on
        observation, _, terminated, truncated, info = shown
        before, stones = going_on, np.count_nonzero(observation)
        going_on = stones - np.count_nonzero(observation[terminated | truncated])
        return info["action_mask"], stones - before

    return batch_games(env.reset(seed=0)[1]["action_mask"], env.step, read)


def pgx_batch(count: int = 1024) -> Play:
    """pgx, compiled, with its own autoreset, which begins the next game in the step that ends one."""
    import jax
    import pgx
    from pgx.experimental.wrappers import auto_reset

    env = pgx.make("tic_tac_toe")
    compiled_step = jax.jit(jax.vmap(auto_reset(env.step, env.init)))
    split = jax.jit(lambda key: (jax.random.fold_in(key, 0), jax.random.split(key, count)))
    key, keys = split(jax.random.key(0))
    state = jax.jit(jax.vmap(env.init))(keys)

    def prepare() -> None:
        nonlocal key, keys
        key, keys = jax.block_until_ready(split(key))

    def step(actions: Any) -> Any:
        nonlocal state
        state = compiled_step(state, actions, keys)
        return tuple(map(np.asarray, (state.observation, state.legal_action_mask, state.rewards, state.terminated)))

    return batch_games(np.asarray(state.legal_action_mask), step, lambda shown: (shown[1], count), np.int32, prepare)


def envpool_batch(count: int) -> Play:
    """EnvPool with one worker thread, which begins the next game in a step of its own."""
    import envpool

    env = envpool.make("TicTacToe-v1", env_type="gymnasium", num_envs=count, num_threads=1, seed=0)

    def read(shown: Any) -> tuple[Any, int]:
        info = shown[4]
        return info["legal_action_mask"], np.count_nonzero(info["elapsed_step"])  # 0 where a game has only begun

    return batch_games(env.reset()[1]["legal_action_mask"], env.step, read, np.int32)


# ---------------------------------------------------------------------------------------------------------------------
# The kernel alone

C_SOURCE = r"""
// ttt_envs.rules.random_games and what it calls, line by line.
#include <stdint.h>

enum { SKIP, OPPONENT };
enum { DRAW = 2, NOT_OVER = -1, SMALL = 25 };

typedef struct { int64_t rows, columns, win_length; double skip_chance; } Game;

static inline int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

static inline uint64_t splitmix64(uint64_t state, uint64_t n) {
    uint64_t z = state + (n + 1) * 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

static inline double uniform(uint64_t luck, int64_t stream, int64_t n) {
    return (double)(splitmix64(luck, (uint64_t)((stream << 32) + n)) >> 11) * 0x1p-53;
}

static inline int completes_line(const int8_t *cells, int64_t cell, Game game) {
    int64_t rows = game.rows, columns = game.columns, win_length = game.win_length;
    int8_t stone = cells[cell];
    if (rows * columns <= SMALL) {
        int64_t bits = 0, start = 0;
        for (int64_t row = 0; row < rows; row++) {
            int64_t row_bits = 0;
            for (int64_t column = 0; column < columns; column++)
                row_bits |= (int64_t)(cells[start + column] == stone) << column;
            bits |= row_bits << (row * (columns + 1));
            start += columns;
        }
        int64_t across = bits, upright = bits, falling = bits, rising = bits;
        for (int64_t length = 1; length < win_length; length++) {
            across &= across >> 1;
            upright &= upright >> (columns + 1);
            falling &= falling >> (columns + 2);
            rising &= rising >> columns;
        }
        return (across | upright | falling | rising) != 0;
    }
    int64_t up = cell / columns, left = cell - up * columns, down = rows - 1 - up, right = columns - 1 - left;
    for (int direction = 0; direction < 4; direction++) {
        int64_t step, before, after;
        if (direction == 0) step = 1, before = left, after = right;
        else if (direction == 1) step = columns, before = up, after = down;
        else if (direction == 2) step = columns + 1, before = smaller(up, left), after = smaller(down, right);
        else step = columns - 1, before = smaller(up, right), after = smaller(down, left);
        if (before + after + 1 < win_length) continue;
        int64_t first = cell - before * step, last = cell + after * step;
        int64_t low = cell - step, high = cell + step;
        while (low >= first && cells[low] == stone) low -= step;
        while (high <= last && cells[high] == stone) high += step;
        if (high - low > win_length * step) return 1;
    }
    return 0;
}

int64_t random_games(
    int64_t games, uint64_t key, int64_t rows, int64_t columns, int64_t win_length, double skip_chance, int64_t *results
) {
    Game game = {rows, columns, win_length, skip_chance};
    int64_t size = rows * columns, moves = 0;
    int8_t cells[19 * 19];
    int64_t empty[19 * 19];
    for (int64_t i = 0; i < games; i++) {
        uint64_t luck = splitmix64(key, (uint64_t)i);
        for (int64_t cell = 0; cell < size; cell++) cells[cell] = 0;
        for (int64_t cell = 0; cell < size; cell++) empty[cell] = cell;
        int64_t mover = 0, outcome = NOT_OVER, stones = 0;
        while (outcome == NOT_OVER) {
            int64_t left = size - stones;
            int64_t chosen = (int64_t)(uniform(luck, OPPONENT, stones) * (double)left);
            int64_t cell = empty[chosen];
            empty[chosen] = empty[left - 1];
            cells[cell] = (int8_t)(mover + 1);
            int64_t own = skip_chance > 0 ? stones + 1 : stones / 2 + 1;
            if (own >= win_length && completes_line(cells, cell, game)) outcome = mover;
            else if (stones + 1 == size) outcome = DRAW;
            else if (!(skip_chance > 0 && uniform(luck, SKIP, stones) < skip_chance)) mover = 1 - mover;
            stones++;
        }
        moves += stones;
        results[outcome]++;
    }
    return moves;
}
"""


Results = tuple[int, list[int]]
"""moves, and how often player_0 won, player_1 won, nobody won"""


def games_by_numba(game: Game, games: int, key: int) -> Results:
    results = np.zeros(3, np.int64)
    return random_games(games, np.uint64(key), game.parameters, results), results.tolist()


@functools.cache
def compiled_c() -> ctypes.CDLL:
    loaded = compile_c(C_SOURCE)
    sizes = [ctypes.c_int64] * 3
    loaded.random_games.argtypes = [ctypes.c_int64, ctypes.c_uint64, *sizes, ctypes.c_double, ctypes.c_void_p]
    loaded.random_games.restype = ctypes.c_int64
    return loaded


def games_by_c(game: Game, games: int, key: int) -> Results:
    results = np.zeros(3, np.int64)
    return compiled_c().random_games(games, key, *game.parameters[:4], results.ctypes.data), results.tolist()


def kernel_games(play_games: Callable[[Game, int, int], Results], game: Game) -> Play:
    games = 400_000 // game.cells
    keys = itertools.count()
    # compiles both; and what is compared must be the same work
    expected, got = games_by_numba(game, games, 0), play_games(game, games, 0)
    assert got == expected, f"C played other games than numba: {got}, not {expected}"

    def play() -> Count:
        key = next(keys)
        begin = process_time()
        moves, _ = play_games(game, games, key)
        return Count(moves, process_time() - begin)

    return play


# ---------------------------------------------------------------------------------------------------------------------
# Rows


class Row(NamedTuple):
    """Ours beside a peer."""

    name: str
    ours: str
    beside: str
    at_least: float
    """the ratio to reach"""
    our_play: Callable[[], Play]
    peer_play: Callable[[], Play]


def kernel_row(name: str, game: Game) -> Row:
    sides = (functools.partial(kernel_games, play_games, game) for play_games in (games_by_numba, games_by_c))
    return Row(name, f"numba, {game}", "gcc -O3", 0.5, *sides)


def vector_row(name: str, opponent: str, at_least: float, dtype: str = "int8") -> Row:
    ours = f"vector env, 1024, {opponent}" + (f", {dtype}" if dtype != "int8" else "")
    return Row(name, ours, "pgx, 1024", at_least, lambda: our_batch(opponent, dtype=dtype), pgx_batch)


ROWS = (
    Row("aec", "mnk_v0.env()", "tictactoe_v3.env()", 10, our_aec, pettingzoo_aec),
    Row("aec-raw", "mnk_v0.raw_env()", "tictactoe_v3.raw_env()", 2.5, our_raw_aec, pettingzoo_raw_aec),
    Row("single", "single env, random", "OpenSpiel rl_environment", 2, our_single, open_spiel_environment),
    Row(
        "single-float32",
        "single env, random, float32",
        "OpenSpiel rl_environment",
        2,
        lambda: our_single(dtype="float32"),
        open_spiel_environment,
    ),
    vector_row("vector-random", "random", 3),
    vector_row("vector-random-float32", "random", 3, "float32"),
    vector_row("vector-self", "self", 5),
    vector_row("vector-win-or-block", "win-or-block", 1.2),
    Row(
        "vector-64",
        "vector env, 64, random",
        "EnvPool, 64",
        10,
        lambda: our_batch("random", 64),
        lambda: envpool_batch(64),
    ),
    Row("aec-large", "mnk_v0.raw_env(), 15 x 15", "OpenSpiel mnk", 10, lambda: our_raw_aec(15, 5), open_spiel_large),
    kernel_row("kernel", Game()),
    kernel_row("kernel-skip", Game(skip_chance=0.25)),
    kernel_row("kernel-large", Game(15, 15, 5)),
    kernel_row("kernel-large-skip", Game(15, 15, 5, 0.25)),
)

KINDS: dict[str, Callable[[int, int], Play]] = {
    "mnk_v0.env()": our_aec,
    "single env, random": our_single,
    "vector env, self": functools.partial(our_batch, "self", 1024),
    "vector env, random": functools.partial(our_batch, "random", 1024),
}
"""the columns of the table of costs, by size and win length"""


# ---------------------------------------------------------------------------------------------------------------------
# Measuring


@dataclass(frozen=True)
class Comparison:
    """A measured row."""

    name: str
    ours: str
    beside: str
    our_rate: Spread
    """moves per second"""
    peer_rate: Spread
    ratio: Spread
    at_least: float
    drawing: float
    """nanoseconds a move takes to be drawn, outside the rates"""


@dataclass(frozen=True)
class Cost:
    """What a move costs on a board, in nanoseconds."""

    size: int
    win_length: int
    observation: int
    """bytes of the stones and the mask that a move shows"""
    kinds: dict[str, Spread]


def rounds_of(plays: list[Play], rounds: int, seconds: float) -> list[list[Count]]:
    """Counts [play][round]: in each round, every one of ``plays`` by turns for ``seconds`` of its CPU time."""
    for play in plays:
        play()
    gc.collect()
    gc.freeze()  # what the peers' libraries keep is not ours, or theirs, to look through in the middle of a game
    counts: list[list[Count]] = [[] for _ in plays]
    for _ in range(rounds):
        for play, of_play in zip(plays, counts, strict=True):
            stretches = [play()]
            while sum(stretch.seconds for stretch in stretches) < seconds:
                stretches.append(play())
            of_play.append(total(stretches))
    return counts


def compare(row: Row, rounds: int, seconds: float) -> Comparison:
    """Measure a row.

    Raises:
        SkipRow: the peer is not there.
    """
    try:
        peer = row.peer_play()
    except ImportError as problem:
        raise not_installed(problem) from None
    counts = rounds_of([row.our_play(), peer], rounds, seconds)
    ours, theirs = ([count.moves / count.seconds for count in side] for side in counts)
    drawn = total(counts[0] + counts[1])
    return Comparison(
        row.name,
        row.ours,
        row.beside,
        Spread.of(ours),
        Spread.of(theirs),
        Spread.of(our / their for our, their in zip(ours, theirs, strict=True)),
        row.at_least,
        1e9 * drawn.drawing / drawn.moves,
    )


def measure_costs(rounds: int, seconds: float) -> list[Cost]:
    plays = [kind(*board) for board in BOARDS for kind in KINDS.values()]
    counts = iter(rounds_of(plays, rounds, seconds))
    costs = []
    for size, win_length in BOARDS:
        kinds = {kind: Spread.of(1e9 * c.seconds / c.moves for c in next(counts)) for kind in KINDS}
        costs.append(Cost(size, win_length, 3 * size * size, kinds))
    return costs


# ---------------------------------------------------------------------------------------------------------------------
# Showing


def table_of(comparisons: list[Comparison]) -> Table:
    table = Table(box=MARKDOWN)
    for header in ("row", "ours", "beside"):
        table.add_column(header, no_wrap=True)
    for header in ("ours, moves/s", "beside, moves/s", "ratio", "at least", "drawing, ns"):
        table.add_column(header, justify="right", no_wrap=True)
    for c in comparisons:
        goal = f"{c.at_least:g}" if c.ratio.median >= c.at_least else f"{c.at_least:g} missed"
        drawing = f"{c.drawing:.0f}" if c.drawing else ""
        table.add_row(c.name, c.ours, c.beside, str(c.our_rate), str(c.peer_rate), str(c.ratio), goal, drawing)
    return table


def table_of_costs(costs: list[Cost]) -> Table:
    """The costs, and below them how many times those of the smallest board the largest board's are."""
    table = Table(box=MARKDOWN)
    for header in ("board", "observation and mask, bytes", *(f"{kind}, ns/move" for kind in KINDS)):
        table.add_column(header, justify="right", no_wrap=True)
    for cost in costs:
        spreads = map(str, cost.kinds.values())
        table.add_row(f"{cost.size} x {cost.size}, {cost.win_length} to win", str(cost.observation), *spreads)
    first, last = costs[0], costs[-1]
    growth = (f"{last.kinds[kind].median / first.kinds[kind].median:.2g} x" for kind in KINDS)
    table.add_row("the last / the first", f"{last.observation / first.observation:.2g} x", *growth)
    return table


def main(arguments: Arguments) -> None:
    known = [*(row.name for row in ROWS), COSTS]
    chosen = arguments.chosen(known)
    rounds = arguments.rounds or (3 if arguments.quick else 5)
    seconds = 0.1 if arguments.quick else 0.4
    console = Console()
    console.width = max(console.width, 200)  # a row is a line, in a file too
    comparisons, skipped = [], {}
    for row in ROWS:
        if row.name not in chosen:
            continue
        with console.status(row.name):
            try:
                comparisons.append(compare(row, rounds, seconds))
            except SkipRow as reason:
                skipped[row.name] = str(reason)
    with console.status(COSTS):
        costs = measure_costs(rounds, seconds / 4) if COSTS in chosen else []

    here = versions(PACKAGES)
    console.print(f"{cpu()}, one core; " + ", ".join(" ".join(pair) for pair in here.items()))
    console.print(f"Medians (min - max) of {rounds} rounds; ratios are taken within each round.")
    if comparisons:
        console.print(table_of(comparisons))
    for name, reason in skipped.items():
        console.print(f"{name} is skipped, {reason}", markup=False)
    if costs:
        console.print(table_of_costs(costs))
    if arguments.json is not None:
        measured = {"rows": list(map(dataclasses.asdict, comparisons)), "costs": list(map(dataclasses.asdict, costs))}
        data = {"cpu": cpu(), "versions": here, "rounds": rounds, **measured, "skipped": skipped}
        arguments.json.write_text(json.dumps(data, indent=2) + "\n")


if __name__ == "__main__":
    main(tyro.cli(Arguments, description=__doc__))
