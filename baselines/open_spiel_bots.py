"""Bots and searches of OpenSpiel as policies: ``openspiel:algorithm=mcts``.

They play OpenSpiel's own ``tic_tac_toe`` or ``mnk``, by :mod:`ttt_envs.open_spiel`; games with skips are unknown there.
``pyspiel`` is imported when a policy is made: ``pip install open_spiel``.
"""

from __future__ import annotations

import importlib.util
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

import numpy as np

from ttt_envs.boards import Boards
from ttt_envs.compiling import Reals
from ttt_envs.open_spiel import load_game, to_states
from ttt_envs.rules import Game
from ttt_envs.specs import Named, load_object, nearest

if TYPE_CHECKING:
    import pyspiel  # which is there only for who has OpenSpiel

Algorithm = Literal["mcts", "alpha-beta", "random"]

WHOLE = 9
"""cells of the largest board that alpha-beta, which is plain Python there, searches to the end of the game"""
MOST = 2**31 - 1
"""of what a C++ int holds"""


@dataclass(frozen=True)
class OpenSpielBot(Named):
    """A bot or search of OpenSpiel: ``mcts`` is its ``MCTSBot``, ``alpha-beta`` its ``minimax.alpha_beta_search``.

    ``alpha-beta`` plays the first of the best moves, ``random`` is its uniform bot: both are pure. ``mcts`` takes two
    seeds for each position from the generator handed down, and begins every search anew, as there.

    Raises:
        ValueError: OpenSpiel is not installed, a game with skips, a setting out of range.
    """

    name: ClassVar[str] = "openspiel"

    game: Game
    algorithm: Algorithm = "mcts"
    simulations: int = 200
    """of mcts, for every move"""
    c: float = 1.4
    """of mcts, weight of exploration"""
    rollouts: int = 1
    """of mcts, random games from every leaf, whose mean judges it"""
    solve: bool = True
    """of mcts: pass on what is certain"""
    depth: int | None = None
    """of alpha-beta, plies to look ahead, where what is not over counts as a draw; none: to the end of the game"""

    def __post_init__(self) -> None:
        if self.algorithm not in get_args(Algorithm):
            raise ValueError(
                f"algorithm={self.algorithm!r} is not known: {nearest(self.algorithm, get_args(Algorithm))}"
            )
        for name in ("simulations", "rollouts"):
            if not 1 <= getattr(self, name) <= MOST:
                raise ValueError(f"{name}={getattr(self, name)} makes no search: choose 1 to {MOST:,}")
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
        load_game(self.game)  # a game that is unknown there is told now

    @property
    def pure(self) -> bool:
        """Whether nothing is drawn."""
        return self.algorithm != "mcts"

    def probabilities(self, boards: Boards, rng: np.random.Generator | None = None) -> Reals:
        """float64[B, rows * columns]; of ``mcts`` and ``alpha-beta`` all for one move.

        Raises:
            ValueError: ``mcts`` without ``rng``; a position that no game without skips leads to.
        """
        if rng is None and not self.pure:
            raise ValueError(f"{self} draws its simulations: give it rng=np.random.default_rng(seed)")
        seeds = (
            np.zeros((len(boards.mover), 2))
            if self.pure or rng is None
            else rng.integers(0, MOST, (len(boards.mover), 2))
        )
        out = np.zeros(boards.cells.shape)
        for row, state in enumerate(to_states(boards, self.game)):
            for action, share in self._shares(state, *map(int, seeds[row])):
                out[row, action] = share
        return out

    def _shares(self, state: pyspiel.State, seed: int, seed_of_rollouts: int) -> list[tuple[int, float]]:
        """Actions and their probabilities in one state."""
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
        bot = pyspiel.MCTSBot(
            game, evaluator, self.c, self.simulations, 0, self.solve, seed, False
        )  # no limit of memory
        return [(bot.step(state), 1.0)]

    def _alpha_beta(self, game: pyspiel.Game, state: pyspiel.State) -> int:
        search = load_object("open_spiel.python.algorithms.minimax:alpha_beta_search")

        def draw(_: Any) -> float:
            return 0.0

        found: tuple[float, int] = search(game, state, draw, self.depth or self.game.cells)
        return found[1]
