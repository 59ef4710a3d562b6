"""Cost of AlphaZero with chance nodes to reach perfect play, and speed of its self-play.

All times are CPU seconds on one core. Trainings are measured exactly, at regular numbers of games
and outside the timing, one for each seed: the number of games and seconds until the exploitability
was 0, or another goal, and stayed there to the end. The rows "start" are new processes that do only
that.

Beside mctx on pgx both sides play and search with the same net and weights, on the cells alone, and
deliver training data: search results go to numpy. Our count of simulations excludes those skipped
for solved positions, which mctx always makes; so moves are counted too.

    python speed/alpha_zero.py [--quick] [--rounds N] [--only NAME,...] [--json FILE]

A round is a seed of a training.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from measuring import (
    MS,
    Benchmark,
    Part,
    Row,
    Spread,
    Stretch,
    alone_part,
    measure_rounds,
    rate,
    run,
    time_answers,
    time_work,
)

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault(
    "XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
)

import numpy as np
from rich.box import MARKDOWN
from rich.table import Table

from baselines.mcts import GumbelResult, gumbel_search
from learners.alpha_zero import AlphaZeroConfig, AlphaZeroSearch
from learners.alpha_zero.net import AlphaZero, gumbel_options
from learners.alpha_zero.self_play import TrainingExamples, play_block
from learners.training import make_initial_rng
from studies.alpha_zero import NAME, ROUNDING, Learning, TrainingCurve, temporary_run, training_unit
from ttt_envs.game.boards import Boards
from ttt_envs.game.game import Game

PACKAGES = ("numpy", "numba", "mctx", "pgx", "jax")
SIMULATIONS = 32
"""Number of simulations of a search at play."""
SMALL_HIDDEN = (64, 64)
"""Units of the hidden layers beside mctx: larger ones take it longer."""


# --------------------------------------------------------------------------------------------------
# Time to perfect play


class Goal(NamedTuple):
    """A training to be measured, and the goal of the net alone."""

    unit: dict[str, Any]
    bound: float
    """maximum exploitability"""


@dataclass(frozen=True)
class Learned:
    """Measurements of a goal, by seed."""

    name: str
    bound: float
    end: list[float]
    """exploitability"""
    games: list[float]
    """number after which the goal was always met; infinite if the last measurement missed it"""
    seconds: list[float]
    """CPU time until then"""
    searched: list[float | None]
    """exploitability of the search at the end"""


def measure_training(name: str, rounds: int, seconds: float) -> Learned:
    """Measure one seed per round; the quick form plays fewer games."""
    unit, bound = GOALS[name]
    games = int(unit["games"] * min(1.0, seconds / FULL_SECONDS))
    results = [Learning().measure({**unit, "games": games, "seed": seed}) for seed in range(rounds)]
    curves = [TrainingCurve.from_result(result) for result in results]
    reached = [curve.reach(bound + ROUNDING) for curve in curves]
    ends = [curve.end for curve in curves]
    searched = [curve.search_exploitability for curve in curves]
    return Learned(
        name,
        bound,
        ends,
        [games for games, _ in reached],
        [cpu_s for _, cpu_s in reached],
        searched,
    )


def trainings_table(measured: list[Learned]) -> Table:
    headers = ("row", "at most", "seeds", "CPU s until then", "games", "at the end", "with search")
    table = Table(*headers, box=MARKDOWN)
    for row in measured:
        solved = [number for number, second in enumerate(row.seconds) if np.isfinite(second)]
        since = [
            str(Spread.of(values[i] for i in solved)) if solved else ""
            for values in (row.seconds, row.games)
        ]
        searched = [value for value in row.searched if value is not None]
        ends = [str(Spread.of(values)) if values else "" for values in (row.end, searched)]
        table.add_row(row.name, f"{row.bound:g}", f"{len(solved)} of {len(row.end)}", *since, *ends)
    return table


FULL_SECONDS = 0.4
"""Seconds of a round in the full form."""
SKIPS = Game(skip_chance=0.25)
GOALS = {
    "3x3": Goal(training_unit(NAME, Game(), 8_192), 0.0),
    "3x3-skip": Goal({**training_unit(NAME, SKIPS, 8_192), "search": True}, 0.01),
    "4x4": Goal(training_unit(NAME, Game(4, 4, 4), 16_384), 0.0),
}


# --------------------------------------------------------------------------------------------------
# Time per move


PLAYED: dict[str, tuple[Game, bool]] = {
    "move-3x3": (SKIPS, True),
    "move-3x3-own": (SKIPS, False),
    "move-7x7": (Game(7, 7, 5), True),
    "move-7x7-own": (Game(7, 7, 5), False),
}
"""Games, and the symmetries used."""
BATCH_SIZES = (1, 16, 512)


@dataclass(frozen=True)
class MoveTime:
    """Time of ``alpha-zero:`` per position, with an untrained net."""

    name: str
    who: str
    ms: list[Spread]
    """CPU time at the batch sizes of :data:`BATCH_SIZES`"""


def measure_move_time(name: str, rounds: int, seconds: float) -> MoveTime:
    """Measure searches of empty boards."""
    game, symmetrize = PLAYED[name]
    unit = {**training_unit(NAME, game, 1), "seed": 0}
    with temporary_run(unit, AlphaZeroConfig().build(game, make_initial_rng(0))) as path:
        search = AlphaZeroSearch(game, str(path), simulations=SIMULATIONS, symmetrize=symmetrize)
        search.search(Boards.start(game, 1))
    stretches = [
        time_answers(partial(search.search, Boards.start(game, count)), count)
        for count in BATCH_SIZES
    ]
    ms = [Spread.of(map(MS.of, done)) for done in measure_rounds(stretches, rounds, seconds)]
    return MoveTime(name, f"{game}, symmetrize={str(symmetrize).lower()}", ms)


def move_times_table(measured: list[MoveTime]) -> Table:
    table = Table(box=MARKDOWN)
    for number, header in enumerate(
        ("row", "plays", *(f"ms of {count} at once" for count in BATCH_SIZES))
    ):
        table.add_column(header, justify="left" if number < 2 else "right", no_wrap=True)
    for row in measured:
        table.add_row(row.name, row.who, *(str(ms) for ms in row.ms))
    return table


# --------------------------------------------------------------------------------------------------
# Startup

START = """
from learners.alpha_zero import AlphaZeroConfig
from learners.alpha_zero.self_play import SelfPlay
from ttt_envs.game.game import Game

def begin(steps):
    config = AlphaZeroConfig()
    training = config.training(Game(), 8_192, batch=config.batch, seed=0)
    for _ in range(steps):
        training.step()
    return f"{training.done.games} games"
"""
STARTS = {
    "start-import": ("importing", "SelfPlay.__name__"),
    "start-build": ("the same, and building", "begin(0)"),
    "start-first": ("the same, and a step", "begin(1)"),
    "start-second": ("the same, and another", "begin(2)"),
}


# --------------------------------------------------------------------------------------------------
# Self-play beside mctx

TOGETHER_IN_SELF_PLAY = 1_024


def make_learner(simulations: int) -> tuple[AlphaZeroConfig, AlphaZero]:
    """Return an untrained learner."""
    config = AlphaZeroConfig(simulations=simulations, hidden=SMALL_HIDDEN, lines=False)
    return config, config.build(Game(), make_initial_rng(0))


def num_simulations(result: GumbelResult) -> int:
    return int(result.search.visits.sum())


def our_self_play(simulations: int, count_moves: bool = False) -> Stretch:
    """Return a batch of self-play games, as in training."""
    config, learner = make_learner(simulations)
    rng = np.random.default_rng(0)
    seeds = iter(range(1 << 30))

    def play() -> TrainingExamples:
        return play_block(
            config, learner.game, learner.state, next(seeds), range(TOGETHER_IN_SELF_PLAY)
        )

    # count the simulations that a search really makes, in positions of real games
    obs = play().obs
    search = gumbel_search(
        learner.game,
        Boards(obs, np.zeros(len(obs), np.int8)),
        learner,
        simulations=simulations,
        max_num_considered_actions=config.max_num_considered_actions,
        noise=rng.gumbel(size=obs.shape),
        maxvisit_init=config.maxvisit_init,
        value_scale=gumbel_options(config, learner.game)["value_scale"],
    )
    of_a_move = 1.0 if count_moves else num_simulations(search) / len(obs)
    return time_work(lambda: of_a_move * len(play().obs))


def mctx_on_pgx(simulations: int, plies: int, count_moves: bool = False) -> Stretch:
    """Return ``mctx.gumbel_muzero_policy`` over pgx's tic-tac-toe, with our learner's net.

    Args:
        simulations: number per search.
        plies: of all games, which restart when over.
        count_moves: count moves instead of simulations.
    """
    import jax
    import jax.numpy as jnp
    import mctx
    import pgx
    from pgx.experimental import auto_reset

    count = TOGETHER_IN_SELF_PLAY
    env = pgx.make("tic_tac_toe")
    step = jax.vmap(env.step)
    go_on = jax.vmap(auto_reset(env.step, env.init))
    arrays = list(make_learner(simulations)[1].weights.values())

    def evaluate(weights: Any, state: Any) -> tuple[Any, Any]:
        own = state.observation[..., 0]
        other = state.observation[..., 1]
        planes = [own, other, ~(own | other)]
        out = jnp.concatenate([plane.reshape(count, -1) for plane in planes], axis=1).astype(
            jnp.float32
        )
        for layer in range(0, len(weights), 2):
            if layer > 0:
                out = jax.nn.relu(out)
            out = out @ weights[layer] + weights[layer + 1]
        logits = jnp.where(state.legal_action_mask, out[:, :-1], jnp.finfo(jnp.float32).min)
        return logits, jnp.tanh(out[:, -1])

    def follow(weights: Any, _: Any, action: Any, state: Any) -> Any:
        mover = state.current_player
        state = step(state, action)
        logits, value = evaluate(weights, state)
        output = mctx.RecurrentFnOutput(
            reward=state.rewards[jnp.arange(count), mover],
            discount=jnp.where(state.terminated, 0.0, -1.0),
            prior_logits=logits,
            value=jnp.where(state.terminated, 0.0, value),
        )
        return output, state

    def play(weights: Any, key: Any, state: Any) -> Any:
        search_key, step_key = jax.random.split(key)
        logits, value = evaluate(weights, state)
        output = mctx.gumbel_muzero_policy(
            params=weights,
            rng_key=search_key,
            root=mctx.RootFnOutput(prior_logits=logits, value=value, embedding=state),
            recurrent_fn=follow,
            num_simulations=simulations,
            invalid_actions=~state.legal_action_mask,
        )
        lessons = state.observation, output.action_weights, output.search_tree.summary().value
        return lessons, go_on(state, output.action, jax.random.split(step_key, count))

    compiled = jax.jit(play)
    initial = jax.jit(jax.vmap(env.init))(jax.random.split(jax.random.key(0), count))
    keys = iter(np.arange(1 << 30))

    def think() -> int:
        state = initial
        for _ in range(plies):
            lessons, state = compiled(arrays, jax.random.key(next(keys)), state)
            for lesson in lessons:
                np.asarray(lesson)
        return plies * count * (1 if count_moves else simulations)

    return time_work(think)


MCTX = "mctx gumbel_muzero_policy on pgx"
GAMES = f"{TOGETHER_IN_SELF_PLAY:,} games"
PLIES = 9


def rows_of(simulations: int) -> tuple[Row, ...]:
    """Return the rows of self-play with this number of simulations per move."""
    phrase = f"{simulations} simulations"
    mctx_stretch = partial(mctx_on_pgx, simulations, PLIES)
    return (
        Row(
            f"self-play-{simulations}",
            f"simulations, {GAMES}, {phrase}",
            MCTX,
            5,
            partial(our_self_play, simulations),
            mctx_stretch,
        ),
        Row(
            f"moves-{simulations}",
            f"moves, {GAMES}, {phrase}",
            MCTX,
            5,
            partial(our_self_play, simulations, True),
            partial(mctx_stretch, True),
        ),
    )


BENCHMARK = Benchmark(
    about=str(__doc__),
    packages=PACKAGES,
    unit=rate("/s"),
    rows=(*rows_of(16), *rows_of(32)),
    parts=(
        Part("trainings", tuple(GOALS), measure_training, trainings_table),
        Part("moves", tuple(PLAYED), measure_move_time, move_times_table),
        alone_part(STARTS, START),
    ),
    left_out=("3x3-skip", "4x4", "move-7x7", "move-7x7-own", "start-build", "start-first"),
)


if __name__ == "__main__":
    run(BENCHMARK)
