"""OpenSpiel's bots and searches as policies: ``openspiel:algorithm=mcts``.

They play OpenSpiel's own ``tic_tac_toe`` or ``mnk``, see :mod:`ttt_envs.open_spiel`; OpenSpiel has
no skips. ``pyspiel`` is imported when a policy is created: ``pip install open_spiel``.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, get_args

import numpy as np

from ttt_envs.agents.policy import check_game, need_rng
from ttt_envs.agents.specs import Named, load_object
from ttt_envs.core.checks import Refusal, check_choice, check_range
from ttt_envs.core.jit import Float64Array
from ttt_envs.game.boards import Boards
from ttt_envs.game.game import Game
from ttt_envs.open_spiel import load_game, to_states

if TYPE_CHECKING:
    import pyspiel  # an optional dependency

Algorithm = Literal["mcts", "alpha-beta", "random"]

WHOLE = 9
"""Maximum number of cells for a search to the end by alpha-beta, which is plain Python in
OpenSpiel.
"""
MAX_INT32 = 2**31 - 1
"""Maximum value of a C++ int."""


@dataclass(frozen=True)
class OpenSpielBot(Named):
    """A bot or search of OpenSpiel: ``mcts`` is its ``MCTSBot``, ``alpha-beta`` its
    ``minimax.alpha_beta_search``.

    ``alpha-beta`` plays the first of the best moves, ``random`` is its uniform bot: both are pure.
    ``mcts`` draws two seeds for each position from the generator, and reuses no trees, as in
    OpenSpiel.

    Raises:
        ValueError: OpenSpiel is not installed, the game has skips, or a setting is out of range.
    """

    name: ClassVar[str] = "openspiel"
    plays_skips = False
    needs = ("pyspiel",)
    test_specs = ("openspiel:simulations=10",)
    refusals: ClassVar = {
        "gravity": (
            "it takes the cells of OpenSpiel's boards as moves, and Connect Four has columns there"
        ),
        **dict.fromkeys(
            ("overlines", "misere", "torus"), "tic_tac_toe and mnk of OpenSpiel have no such rule"
        ),
        "hidden": (
            "it reads the whole board, as a position of a game of OpenSpiel "
            "in which nothing is hidden"
        ),
    }

    game: Game
    algorithm: Algorithm = "mcts"
    simulations: int = 200
    """number of simulations per move, for mcts"""
    c: float = 1.4
    """exploration weight, for mcts"""
    rollouts: int = 1
    """number of random games per leaf, whose mean evaluates it, for mcts"""
    solve: bool = True
    """whether to propagate solved values, for mcts"""
    depth: int | None = None
    """number of plies to look ahead, for alpha-beta; an unfinished game counts as a draw; none: to
    the end
    """

    def __post_init__(self) -> None:
        check_game(self.name, type(self), self.game)
        check_choice("algorithm", self.algorithm, get_args(Algorithm))
        check_range("simulations", self.simulations, 1, MAX_INT32, "makes no search")
        check_range("rollouts", self.rollouts, 1, MAX_INT32, "makes no search")
        check_range("c", self.c, 0, MAX_INT32, "makes no search")
        check_range("depth", self.depth, 1, problem="looks at nothing", hint=", or none")
        if self.algorithm == "alpha-beta" and self.depth is None and self.game.cells > WHOLE:
            raise Refusal(
                f"alpha-beta does not search {self.game.cells} cells to the end: choose depth=3, "
                f"or up to {WHOLE} cells"
            )
        if importlib.util.find_spec("pyspiel") is None:
            raise Refusal(
                "openspiel needs OpenSpiel, which is not installed: pip install open_spiel"
            )
        load_game(self.game)  # raises errors for unknown games early

    @property
    def pure(self) -> bool:  # type: ignore[override]  # computed
        """Whether the policy draws no random numbers."""
        return self.algorithm != "mcts"

    def probabilities(self, boards: Boards, rng: np.random.Generator | None = None) -> Float64Array:
        """Return float64[B, rows * columns]; one-hot for ``mcts`` and ``alpha-beta``.

        Raises:
            ValueError: ``mcts`` without ``rng``, or a position is unreachable without skips.
        """
        seeds = np.zeros((len(boards.mover), 2), np.int64)
        if not self.pure:
            seeds = need_rng(self, rng).integers(0, MAX_INT32, seeds.shape)
        out = np.zeros(boards.cells.shape)
        for row, state in enumerate(to_states(boards, self.game)):
            for action, share in self._shares(state, *seeds[row].tolist()):
                out[row, action] = share
        return out

    def _shares(
        self, state: pyspiel.State, seed: int, seed_of_rollouts: int
    ) -> list[tuple[int, float]]:
        """Return actions and their probabilities in one state."""
        import pyspiel

        game = state.get_game()
        player = state.current_player()
        if self.algorithm == "alpha-beta":
            search = load_object("open_spiel.python.algorithms.minimax:alpha_beta_search")
            return [(search(game, state, lambda _: 0.0, self.depth or self.game.cells)[1], 1.0)]
        if self.algorithm == "random":
            return list(pyspiel.make_uniform_random_bot(player, 0).get_policy(state))
        evaluator = pyspiel.RandomRolloutEvaluator(self.rollouts, seed_of_rollouts)
        no_limit = 0  # of the memory
        bot = pyspiel.MCTSBot(
            game, evaluator, self.c, self.simulations, no_limit, self.solve, seed, False
        )
        return [(bot.step(state), 1.0)]
