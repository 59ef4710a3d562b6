"""OpenSpiel's bots and searches as policies: ``openspiel:algorithm=mcts``.

They play OpenSpiel's own ``tic_tac_toe`` or ``mnk``, see :mod:`ttt_envs.open_spiel`; OpenSpiel has no skips.
``pyspiel`` is imported when a policy is created: ``pip install open_spiel``.
"""

from __future__ import annotations

import importlib.util
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

import numpy as np

from ttt_envs.agents.specs import REFUSAL_REASONS, Named, load_object
from ttt_envs.core.checks import closest_names
from ttt_envs.core.jit import Float64Array
from ttt_envs.game.boards import Boards
from ttt_envs.game.game import Game
from ttt_envs.game.phantom import check_variants
from ttt_envs.open_spiel import load_game, to_states

if TYPE_CHECKING:
    import pyspiel  # an optional dependency

Algorithm = Literal["mcts", "alpha-beta", "random"]

WHOLE = 9
"""Maximum number of cells for a search to the end by alpha-beta, which is plain Python in OpenSpiel."""
MAX_INT32 = 2**31 - 1
"""Maximum value of a C++ int."""


@dataclass(frozen=True)
class OpenSpielBot(Named):
    """A bot or search of OpenSpiel: ``mcts`` is its ``MCTSBot``, ``alpha-beta`` its ``minimax.alpha_beta_search``.

    ``alpha-beta`` plays the first of the best moves, ``random`` is its uniform bot: both are pure. ``mcts`` draws two
    seeds for each position from the generator, and reuses no trees, as in OpenSpiel.

    Raises:
        ValueError: OpenSpiel is not installed, the game has skips, or a setting is out of range.
    """

    name: ClassVar[str] = "openspiel"

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
    """number of plies to look ahead, for alpha-beta; an unfinished game counts as a draw; none: to the end"""

    def __post_init__(self) -> None:
        check_variants(self.name, self.game, reasons=REFUSAL_REASONS[self.name])
        if self.algorithm not in get_args(Algorithm):
            raise ValueError(
                f"algorithm={self.algorithm!r} is not known: {closest_names(self.algorithm, get_args(Algorithm))}"
            )
        for name in ("simulations", "rollouts"):
            if not 1 <= getattr(self, name) <= MAX_INT32:
                raise ValueError(f"{name}={getattr(self, name)} makes no search: choose 1 to {MAX_INT32:,}")
        if not 0 <= self.c < math.inf:
            raise ValueError(f"c={self.c:g} is no weight of exploration: choose 0 or more")
        if self.depth is not None and self.depth < 1:
            raise ValueError(f"depth={self.depth} looks at nothing: choose 1 or more, or none")
        if self.algorithm == "alpha-beta" and self.depth is None and self.game.cells > WHOLE:
            raise ValueError(
                f"alpha-beta of OpenSpiel does not come to the end of a game on {self.game.cells} cells: choose a "
                f"depth, as in openspiel:algorithm=alpha-beta,depth=3, or a board of up to {WHOLE}"
            )
        if importlib.util.find_spec("pyspiel") is None:
            raise ValueError("openspiel needs OpenSpiel, which is not installed: pip install open_spiel")
        load_game(self.game)  # raises errors for unknown games early

    @property
    def pure(self) -> bool:
        """Whether the policy draws no random numbers."""
        return self.algorithm != "mcts"

    def probabilities(self, boards: Boards, rng: np.random.Generator | None = None) -> Float64Array:
        """Return float64[B, rows * columns]; one-hot for ``mcts`` and ``alpha-beta``.

        Raises:
            ValueError: ``mcts`` without ``rng``, or a position is unreachable without skips.
        """
        if rng is None and not self.pure:
            raise ValueError(f"{self} draws its simulations: give it rng=np.random.default_rng(seed)")
        seeds = (
            np.zeros((len(boards.mover), 2))
            if self.pure or rng is None
            else rng.integers(0, MAX_INT32, (len(boards.mover), 2))
        )
        out = np.zeros(boards.cells.shape)
        for row, state in enumerate(to_states(boards, self.game)):
            for action, share in self._shares(state, *map(int, seeds[row])):
                out[row, action] = share
        return out

    def _shares(self, state: pyspiel.State, seed: int, seed_of_rollouts: int) -> list[tuple[int, float]]:
        """Return actions and their probabilities in one state."""
        import pyspiel

        game = state.get_game()
        if self.algorithm == "alpha-beta":
            return [(self._alpha_beta(game, state), 1.0)]
        if self.algorithm == "random":
            shares: list[tuple[int, float]] = pyspiel.make_uniform_random_bot(state.current_player(), 0).get_policy(
                state
            )
            return shares
        evaluator = pyspiel.RandomRolloutEvaluator(self.rollouts, seed_of_rollouts)
        bot = pyspiel.MCTSBot(game, evaluator, self.c, self.simulations, 0, self.solve, seed, False)  # no memory limit
        return [(bot.step(state), 1.0)]

    def _alpha_beta(self, game: pyspiel.Game, state: pyspiel.State) -> int:
        search = load_object("open_spiel.python.algorithms.minimax:alpha_beta_search")

        def draw(_: Any) -> float:
            return 0.0

        found: tuple[float, int] = search(game, state, draw, self.depth or self.game.cells)
        return found[1]
