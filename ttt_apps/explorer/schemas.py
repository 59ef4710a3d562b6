"""Requests of the explorer, with their limits. A request names no file or class except a run below the root."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from baselines.compression import Method
from ttt_apps.explorer.policies import MAX_SIMULATIONS
from ttt_envs.envs.config import FirstPlayer
from ttt_envs.game.game import VARIANTS, Game
from ttt_eval.reports.links import MAX_EXPLORER_EDGE, MAX_EXPLORER_SKIP

MAX_PROOF_NODES = 1_000_000
"""Maximum number of positions for the proofs of all moves of a position."""

Text = Annotated[str, StringConstraints(max_length=400)]
Edge = Annotated[int, Field(ge=1, le=MAX_EXPLORER_EDGE)]


class BaseRequest(BaseModel):
    """Base of requests: no unknown fields, strict types."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class GameRequest(BaseRequest):
    """Parameters of a game; without a win length it is the default of the size."""

    rows: Edge = 3
    columns: Edge = 3
    win_length: Edge | None = None
    skip_chance: Annotated[float, Field(ge=0, le=MAX_EXPLORER_SKIP)] = 0.0
    gravity: bool = False
    overlines: bool = True
    misere: bool = False
    torus: bool = False
    first: FirstPlayer = "player_0"
    """who moves first; with ``"random"`` openings may be those of either player"""

    def game(self) -> Game:
        """Return the validated game.

        Raises:
            ValueError: a line that does not fit on the board.
        """
        rules = {name: getattr(self, name) for name in VARIANTS}
        return Game.of_size((self.rows, self.columns), self.win_length, round(self.skip_chance, 2), **rules)


class LineRequest(BaseRequest):
    """A whole game so far: the server is stateless."""

    game: GameRequest
    opening: Text | None = None
    moves: Annotated[str, StringConstraints(max_length=5 * MAX_EXPLORER_EDGE * MAX_EXPLORER_EDGE)] = ""


class ReviewRequest(LineRequest):
    """The exact values of a game; those that take a moment only if they are waited for."""

    wait: bool = False


class MoveRequest(LineRequest):
    """A policy's move."""

    seed: Annotated[int, Field(ge=0, lt=1 << 32)]
    policy: Text


class PanelRequest(BaseRequest):
    """Settings of one panel."""

    kind: Literal["exact", "prove", "random", "compressed", "run", "search", "mcts", "policy"]
    method: Method = "svd"
    rank: Annotated[int, Field(ge=0, le=1 << 10)] | None = None
    run: Text | None = None
    depth: Annotated[int, Field(ge=1, le=9)] = 3
    simulations: Annotated[int, Field(ge=1, le=MAX_SIMULATIONS)] = 400
    nodes: Annotated[int, Field(ge=1, le=MAX_PROOF_NODES)] = 200_000
    policy: Text | None = None


class ValuesRequest(BaseRequest):
    """A position to evaluate, for one panel."""

    game: GameRequest
    position: Text
    panel: PanelRequest


class PuzzlesRequest(BaseRequest):
    """Puzzles: the mistakes of a game so far or of a run by its name; of neither, the built-in set."""

    line: LineRequest | None = None
    run: Text | None = None
