"""How many simulations a second Monte Carlo tree search does, each row beside a peer.

Ours and the peer take turns in one process on one core, for several rounds, and the ratio is taken within each round,
so that a slow moment of the machine hits both. A rate is simulations per second of the process's CPU time; kernels and
graphs are compiled before. Searches begin at the empty board. Beside OpenSpiel both do the same: UCT with one random
game from every leaf, plain, or in the row "decisive" with what either has to pass on certain results. Beside mctx ours
does more: mctx judges a leaf by a random number, ours plays a game to the end.

    python benchmarks/mcts.py [--quick] [--rounds N] [--only NAME,...] [--json FILE]
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from time import process_time
from typing import Any, NamedTuple

from measuring import Arguments, SkipRow, Spread, cpu, not_installed, versions

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import numpy as np
import tyro
from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

from baselines.mcts import MCTS, Search, keys_of
from ttt_envs.boards import Boards
from ttt_envs.rules import Game

PACKAGES = ("numpy", "numba", "open_spiel", "pgx", "mctx", "jax")
C = 1.4
BATCH = 256

Think = Callable[[], int]
"""searches for some milliseconds; returns the simulations done"""


# ---------------------------------------------------------------------------------------------------------------------
# Both sides


def ours(game: Game, simulations: int, decisive: bool = False, count: int = 1) -> Think:
    """Trees of ``count`` empty boards."""
    boards, rng = Boards.start(game, count), np.random.default_rng(0)

    def think() -> int:
        search = Search(game, boards, keys_of(rng, count), c=C, decisive=decisive)
        search.run(simulations)
        return count * simulations

    return think


def our_moves(game: Game, simulations: int) -> Think:
    """Whole moves of the policy as it is without settings, one position at a time."""
    policy, boards, rng = MCTS(game, simulations), Boards.start(game), np.random.default_rng(0)

    def think() -> int:
        policy.probabilities(boards, rng)
        return simulations

    return think


def open_spiel(name: str, simulations: int, solve: bool = False) -> Think:
    """OpenSpiel's search in C++."""
    import pyspiel

    game = pyspiel.load_game(name)
    evaluator = pyspiel.RandomRolloutEvaluator(1, 0)
    bot = pyspiel.MCTSBot(game, evaluator, C, simulations, 1000, solve, 0, False)
    state = game.new_initial_state()

    def think() -> int:
        bot.mcts_search(state)
        return simulations

    return think


def mctx_pgx(name: str, simulations: int) -> Think:
    """``mctx.muzero_policy`` or ``mctx.gumbel_muzero_policy`` over pgx's tic-tac-toe, equal priors, random values."""
    import jax
    import jax.numpy as jnp
    import mctx
    import pgx

    env = pgx.make("tic_tac_toe")
    step = jax.vmap(env.step)

    def logits(state: Any) -> Any:
        return jnp.where(state.legal_action_mask, 0.0, -1e9)

    def follow(_: Any, key: Any, action: Any, state: Any) -> Any:
        mover = state.current_player
        state = step(state, action)
        value = jax.random.uniform(key, (BATCH,), minval=-1, maxval=1)
        output = mctx.RecurrentFnOutput(
            reward=state.rewards[jnp.arange(BATCH), mover],
            discount=jnp.where(state.terminated, 0.0, -1.0),
            prior_logits=logits(state),
            value=jnp.where(state.terminated, 0.0, value),
        )
        return output, state

    def search(key: Any, state: Any) -> Any:
        root = mctx.RootFnOutput(prior_logits=logits(state), value=jnp.zeros(BATCH), embedding=state)
        found = getattr(mctx, name)(
            params=(),
            rng_key=key,
            root=root,
            recurrent_fn=follow,
            num_simulations=simulations,
            invalid_actions=~state.legal_action_mask,
        )
        return found.action_weights

    compiled = jax.jit(search)
    state = jax.jit(jax.vmap(env.init))(jax.random.split(jax.random.key(0), BATCH))
    keys = iter(np.arange(1 << 30))

    def think() -> int:
        np.asarray(compiled(jax.random.key(next(keys)), state))
        return BATCH * simulations

    return think


# ---------------------------------------------------------------------------------------------------------------------
# Rows


class Row(NamedTuple):
    """Ours beside a peer."""

    name: str
    ours: str
    beside: str
    at_least: float
    """the ratio to reach"""
    our_think: Callable[[], Think]
    peer_think: Callable[[], Think]


MNK = Game(5, 5, 4)
ROWS = (
    Row(
        "mcts-3x3",
        "3 x 3, 10,000 simulations",
        "OpenSpiel MCTSBot, tic_tac_toe",
        1,
        partial(ours, Game(), 10_000),
        partial(open_spiel, "tic_tac_toe", 10_000),
    ),
    Row(
        "mcts-3x3-move",
        "3 x 3, moves of 200 simulations, decisive",
        "OpenSpiel MCTSBot, tic_tac_toe, solve",
        1,
        partial(our_moves, Game(), 200),
        partial(open_spiel, "tic_tac_toe", 200, True),
    ),
    Row(
        "mcts-5x5",
        "5 x 5, 4 to win, 1,000 simulations",
        "OpenSpiel MCTSBot, mnk(m=5,n=5,k=4)",
        20,
        partial(ours, MNK, 1000),
        partial(open_spiel, "mnk(m=5,n=5,k=4)", 1000),
    ),
    Row(
        "mcts-5x5-decisive",
        "the same, decisive",
        "OpenSpiel MCTSBot, mnk(m=5,n=5,k=4), solve",
        20,
        partial(ours, MNK, 1000, True),
        partial(open_spiel, "mnk(m=5,n=5,k=4)", 1000, True),
    ),
    *(
        Row(
            f"mcts-256-{policy.split('_')[0]}",
            "3 x 3, 256 positions, 128 simulations",
            f"mctx {policy} on pgx",
            3,
            partial(ours, Game(), 128, count=BATCH),
            partial(mctx_pgx, policy, 128),
        )
        for policy in ("muzero_policy", "gumbel_muzero_policy")
    ),
)


# ---------------------------------------------------------------------------------------------------------------------
# Measuring


@dataclass(frozen=True)
class Comparison:
    """A measured row."""

    name: str
    ours: str
    beside: str
    our_rate: Spread
    """simulations per second"""
    peer_rate: Spread
    ratio: Spread
    at_least: float


def rate_of(think: Think, least: float) -> float:
    """Simulations per CPU second, of as many searches as fill ``least`` seconds."""
    begin = process_time()
    done = 0
    while done == 0 or process_time() - begin < least:
        done += think()
    return done / (process_time() - begin)


def compare(row: Row, rounds: int, least: float) -> Comparison:
    """Measure a row.

    Raises:
        SkipRow: the peer is not there.
    """
    try:
        peer = row.peer_think()
    except ImportError as problem:
        raise not_installed(problem) from None
    our = row.our_think()
    our(), peer()  # compiles
    ours_rates, theirs = [], []
    for _ in range(rounds):
        ours_rates.append(rate_of(our, least))
        theirs.append(rate_of(peer, least))
    ratios = (one / other for one, other in zip(ours_rates, theirs, strict=True))
    spreads = Spread.of(ours_rates), Spread.of(theirs), Spread.of(ratios)
    return Comparison(row.name, row.ours, row.beside, *spreads, row.at_least)


def table_of(comparisons: list[Comparison]) -> Table:
    table = Table(box=MARKDOWN)
    for header in ("row", "ours", "beside"):
        table.add_column(header, no_wrap=True)
    for header in ("ours, sims/s", "beside, sims/s", "ratio", "at least"):
        table.add_column(header, justify="right", no_wrap=True)
    for c in comparisons:
        goal = f"{c.at_least:g}" if c.ratio.median >= c.at_least else f"{c.at_least:g} missed"
        table.add_row(c.name, c.ours, c.beside, str(c.our_rate), str(c.peer_rate), str(c.ratio), goal)
    return table


def main(arguments: Arguments) -> None:
    chosen = arguments.chosen([row.name for row in ROWS])
    rounds = arguments.rounds or (2 if arguments.quick else 5)
    console = Console()
    console.width = max(console.width, 200)  # a row is a line, in a file too
    comparisons, skipped = [], {}
    for row in ROWS:
        if row.name in chosen:
            with console.status(row.name):
                try:
                    comparisons.append(compare(row, rounds, 0.1 if arguments.quick else 0.4))
                except SkipRow as reason:
                    skipped[row.name] = str(reason)

    here = versions(PACKAGES)
    console.print(f"{cpu()}, one core; " + ", ".join(" ".join(pair) for pair in here.items()))
    console.print(f"Medians (min - max) of {rounds} rounds; ratios are taken within each round.")
    if comparisons:
        console.print(table_of(comparisons))
    for name, reason in skipped.items():
        console.print(f"{name} is skipped, {reason}", markup=False)
    if arguments.json is not None:
        rows = list(map(dataclasses.asdict, comparisons))
        data = {"cpu": cpu(), "versions": here, "rounds": rounds, "rows": rows, "skipped": skipped}
        arguments.json.write_text(json.dumps(data, indent=2) + "\n")


if __name__ == "__main__":
    main(tyro.cli(Arguments, description=__doc__))
