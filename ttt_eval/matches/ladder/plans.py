"""Plans of the ladders: the games, the rungs and the number of games."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ttt_envs.game.game import Game

ANCHOR = "random"
"""Policy with rating 0."""


@dataclass(frozen=True)
class LadderPlan:
    """Definition of a ladder.

    Attributes:
        game: the game.
        rungs: spec strings, ``random`` first.
        games: of each pairing, an even number; 0 where all results are exact.
        graded: the rungs whose exploitability and regret are computed.
        seed: seed of all random numbers.
    """

    game: Game
    rungs: tuple[str, ...]
    games: int
    graded: tuple[str, ...]
    seed: int = 1


def _tree(simulations: int, *, decisive: bool = True) -> str:
    return f"mcts:simulations={simulations},{'' if decisive else 'decisive=false,'}reuse=false"


_ON_3X3 = (
    "random",
    "table:w=0.5",
    "hosvd:rank=2",
    "hosvd:rank=4",
    "svd:rank=3",
    "svd:rank=4",
    "expectiminimax:depth=1",
    "win-or-block",
    "hosvd:rank=27",
    "expectiminimax:depth=4",
    "expectiminimax:depth=5",
    "optimal",
)
_ON_3X3_SKIP = (
    "random",
    "table:w=0.5",
    "table:w=1",
    "svd:rank=1",
    "hosvd:rank=2",
    "table:w=3",
    "hosvd:rank=3",
    "win-or-block",
    "hosvd:rank=27",
    "expectiminimax:depth=3",
    "optimal:epsilon=0.05",
    "optimal",
)
_TABLES_ON_4X4 = ("random", "table:w=1", "svd:rank=1", "svd:rank=2", "svd:rank=3", "svd:rank=4")
PLANS: Mapping[str, LadderPlan] = {
    "3x3": LadderPlan(Game(), _ON_3X3, 0, _ON_3X3),
    "3x3-skip": LadderPlan(Game(skip_chance=0.25), _ON_3X3_SKIP, 0, _ON_3X3_SKIP),
    "4x4-skip": LadderPlan(
        Game(4, 4, 4, 0.1),
        (*_TABLES_ON_4X4, "win-or-block", _tree(30), "svd:rank=128", _tree(100), "expectiminimax:depth=3", "optimal"),
        4_000,
        ("random", "optimal"),  # a table takes more than ten minutes
    ),
    "5x5-skip": LadderPlan(
        Game(5, 5, 4, 0.1),
        (
            "random",
            *(_tree(simulations, decisive=False) for simulations in (10, 15, 20, 30, 40)),
            "win-or-block",
            "expectiminimax:depth=1",
            *(_tree(simulations) for simulations in (100, 200, 350)),
            "expectiminimax:depth=3",
            "expectiminimax:depth=5",
        ),
        1_000,
        (),
    ),
}
"""Plans of the ladders by name."""
