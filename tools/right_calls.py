"""Calls of checks with right searches, agents and values, in which every error is a false alarm."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from planted_searches import PlantedTreeSearch

from baselines.mcts import gumbel_search
from baselines.mcts.search import MCTSSearch
from ttt_envs import Boards
from ttt_eval.checks import Check, check_agent, check_search, check_values
from ttt_eval.checks.tables import GameTable, PlantedEvaluator, Turns, make_table

GAMES: tuple[Turns, ...] = ("turns", "skip", "plain")
CONSTANTS = (0.5, 1.0, 1.5, 2.5, 5.0)
"""Exploration constants of right searches."""
SIMULATIONS = ((50, 500), (30, 300), (100, 1000))
"""Numbers of simulations, which take turns by the seed."""
MOVE_GAIN = 8.0
"""Logarithm of the odds of a move over one whose value is smaller by 1, in a right policy head."""
NOISE = 0.1
"""Standard deviation of the errors of a right value head."""
Calls = Iterator[tuple[str, Callable[[], Check]]]
"""Names of calls that differ in search, agent, values, game or options, and the calls."""


class TableLeaf:
    """The planted evaluator, for searches of this project."""

    def __init__(self, table: GameTable, evaluator: PlantedEvaluator) -> None:
        self.table = table
        self.evaluator = evaluator

    def evaluate(self, boards: Boards) -> tuple[Any, Any]:
        """Return logits of priors, float32[B, 9], and values, float64[B]."""
        own = boards.own_first().astype(int)
        rows = [self.table.find(cells) for cells in np.where(own == 2, -1, own)]
        logits = np.log(self.evaluator.priors[rows] + 1e-12).astype(np.float32)
        return logits, self.evaluator.values[rows].astype(float)


def to_boards(cells: Any) -> Boards:
    """Return int8[B, 9] boards of a check as positions of the first player."""
    return Boards((cells % 3).astype(np.int8), np.zeros(len(cells), np.int8))


def our_mcts(
    game: GameTable, boards: Any, evaluator: Any, simulations: int, seed: int, *, decisive: bool
) -> tuple[Any, Any]:
    """Search a batch with the MCTS of this project."""
    keys = np.arange(len(boards), dtype=np.uint64) + np.uint64(seed)
    leaf = TableLeaf(game, evaluator) if evaluator else None
    tree = MCTSSearch(game.game, to_boards(boards), keys, decisive=decisive, leaf=leaf)
    tree.run(simulations)
    return (tree.probabilities() if decisive else tree.visits), tree.root_values


def our_gumbel(
    game: GameTable, boards: Any, evaluator: Any, simulations: int, seed: int
) -> tuple[Any, Any]:
    """Search a batch with the Gumbel search of this project."""
    leaf = TableLeaf(game, evaluator)
    result = gumbel_search(game.game, to_boards(boards), leaf, simulations=simulations)
    return result.probabilities(), result.values


def planted_tree_calls(seed: int) -> Calls:
    """Yield checks of PUCT, UCT and Gumbel search in plain Python."""
    sizes = SIMULATIONS[seed % len(SIMULATIONS)]
    for rule, evaluator in (("puct", "owned"), ("uct", None), ("gumbel", "owned")):
        for solver in (False, True):
            for c in CONSTANTS:
                search = PlantedTreeSearch(rule, c, solver)
                for turns in GAMES:
                    call = partial(check_search, search, turns, evaluator, sizes, seed)
                    yield f"{rule}, c {c}{', solver' * solver}, {turns}, {sizes}", call


def our_calls(seed: int) -> Calls:
    """Yield checks of the searches of this project."""
    sizes = SIMULATIONS[seed % len(SIMULATIONS)]
    searches = {"gumbel_search": (our_gumbel, "owned")}
    for decisive in (False, True):
        for evaluator in ("owned", None):
            name = f"MCTSSearch{', decisive' * decisive}{', rollouts' * (evaluator is None)}"
            searches[name] = partial(our_mcts, decisive=decisive), evaluator
    for name, (search, evaluator) in searches.items():
        for turns in ("plain", "skip"):
            call = partial(check_search, search, turns, evaluator, sizes, seed, batch=True)
            yield f"{name}, {turns}, {sizes}", call


def agent_calls(seed: int) -> Calls:
    """Yield checks of best play, of searches as agents, and of near-optimal policy heads."""
    rng = np.random.default_rng(seed)
    for turns in GAMES:
        table = make_table(turns)
        gains = MOVE_GAIN * np.nan_to_num(table.action_values)
        heads = np.exp(gains + rng.normal(0, 0.5, gains.shape))  # of illegal moves too
        agents = {
            "best move": lambda b, t=table: int(np.nanargmax(t.action_values[t.find(b)])),
            "policy head": lambda b, t=table, h=heads: h[t.find(b)] / h[t.find(b)].sum(),
        }
        if turns != "turns":
            agents |= {spec: spec for spec in ("optimal", "expectiminimax:depth=9")}
        for name, agent in agents.items():
            for own_play in (False, True):
                call = partial(check_agent, agent, turns, own_play=own_play, seed=seed)
                yield f"{name}, {turns}{', own play' * own_play}", call


def value_calls(seed: int) -> Calls:
    """Yield checks of exact values, and of those with small errors."""
    rng = np.random.default_rng(seed)
    for turns in GAMES:
        table = make_table(turns)
        noisy = np.clip(0.9 * table.values + rng.normal(0, NOISE, len(table.values)), -1, 1)
        for name, values in (("exact", table.values), ("noisy", noisy)):
            call = partial(
                check_values, lambda b, t=table, v=values: v[t.find(b)], turns, seed=seed
            )
            yield f"{name} values, {turns}", call
        if turns != "turns":
            call = partial(
                check_values, lambda b, t=table: t.random_values[t.find(b)], turns, "random",
                seed=seed,
            )  # fmt: skip
            yield f"values of random play, {turns}", call


KINDS: dict[str, Callable[[int], Calls]] = {
    "search": planted_tree_calls,
    "ours": our_calls,
    "agent": agent_calls,
    "values": value_calls,
}
"""Calls for a seed, by what is checked."""
