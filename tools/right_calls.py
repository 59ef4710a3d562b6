"""Calls of checks with right searches, agents and values, in which every error is a false alarm."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from right_search import RETURNED, PlainSearch

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
Calls = Iterator[tuple[str, Callable[[], Check]]]
"""Names of calls that differ in search, agent, values, game or options, and the calls."""


@dataclass(frozen=True)
class TableLeaf:
    """The planted evaluator, for searches of this project."""

    table: GameTable
    evaluator: PlantedEvaluator

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


def search_calls(rules: Mapping[str, str | None], seed: int) -> Calls:
    """Yield checks of searches in plain Python, by their rule and evaluator; the values that they
    return take turns by the seed.
    """
    sizes = SIMULATIONS[seed % len(SIMULATIONS)]
    returned = RETURNED[seed // len(SIMULATIONS) % len(RETURNED)]
    for rule, evaluator in rules.items():
        for solver, note in ((False, ""), (True, ", solver")):
            for c in CONSTANTS:
                search = PlainSearch(rule, c, solver, returned)
                for turns in GAMES:
                    call = partial(
                        check_search, search, turns, evaluator, sizes, seed, priors=rule != "uct"
                    )
                    yield f"{rule}, c {c}{note}, {turns}, {sizes}", call


def our_calls(seed: int) -> Calls:
    """Yield checks of the searches of this project."""
    sizes = SIMULATIONS[seed % len(SIMULATIONS)]
    plain = partial(our_mcts, decisive=False)
    decisive = partial(our_mcts, decisive=True)
    searches: dict[str, tuple[Any, str | None]] = {
        "gumbel_search": (our_gumbel, "owned"),
        "MCTSSearch": (plain, "owned"),
        "MCTSSearch, rollouts": (plain, None),
        "MCTSSearch, decisive": (decisive, "owned"),
        "MCTSSearch, decisive, rollouts": (decisive, None),
    }
    for name, (search, evaluator) in searches.items():
        for turns in GAMES[1:]:
            call = partial(
                check_search, search, turns, evaluator, sizes, seed, batch=True, limit_s=None
            )
            yield f"{name}, {turns}, {sizes}", call


def head_calls(seed: int) -> Calls:
    """Yield checks of moves and values that are exact, or have small errors, and of policies."""
    rng = np.random.default_rng(seed)
    for turns in GAMES:
        table = make_table(turns)
        for sd in (0.0, 0.1):
            values = table.values + rng.normal(0, sd, table.values.shape)
            moves = table.action_values + rng.normal(0, sd / 10, table.losses.shape)
            heads = {
                check_values: lambda board, t=table, v=values: v[t.find(board)],
                check_agent: lambda board, t=table, m=moves: np.nanargmax(m[t.find(board)]),
            }
            for check, head in heads.items():
                yield f"{check.__name__}, {turns}, sd {sd}", partial(check, head, turns, seed=seed)
        if turns != "turns":
            for spec in ("optimal", "expectiminimax:depth=9"):
                yield f"{spec}, {turns}", partial(check_agent, spec, turns, seed=seed)


KINDS: dict[str, Callable[[int], Calls]] = {
    "search": partial(search_calls, {"puct": "owned", "gumbel": "owned"}),
    "rollouts": partial(search_calls, {"uct": None}),
    "leaf values": partial(search_calls, {"uct": "owned"}),
    "ours": our_calls,
    "heads": head_calls,
}
"""Calls for a seed, by what is checked."""
