"""Requests of the explorer, with their limits. A request names no file or class except a run below
the root.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from baselines.compression import Method
from ttt_apps.explorer.policies import MAX_SIMULATIONS
from ttt_envs.game.game import Game
from ttt_eval.reports.formats import check_limits

MAX_PROOF_NODES = 1_000_000
"""Maximum number of positions for the proofs of all moves of a position."""


OfferedGame = Annotated[Game, AfterValidator(check_limits)]


class BaseRequest(BaseModel):
    """Base of requests: no unknown fields."""

    model_config = ConfigDict(extra="forbid")


class LineRequest(BaseRequest):
    """A whole game so far: the server is stateless."""

    game: OfferedGame
    opening: str | None = None
    moves: str = ""


class ReviewRequest(LineRequest):
    """The exact values of a game; those that take a moment only if they are waited for."""

    wait: bool = False


class MoveRequest(LineRequest):
    """A policy's move."""

    seed: Annotated[int, Field(ge=0, lt=1 << 32)]
    policy: str


class PanelRequest(BaseRequest):
    """Settings of one panel."""

    kind: Literal["exact", "prove", "random", "compressed", "run", "search", "mcts", "policy"]
    method: Method = "svd"
    rank: Annotated[int, Field(ge=0, le=1 << 10)] | None = None
    run: str | None = None
    depth: Annotated[int, Field(ge=1, le=9)] = 3
    simulations: Annotated[int, Field(ge=1, le=MAX_SIMULATIONS)] = 400
    nodes: Annotated[int, Field(ge=1, le=MAX_PROOF_NODES)] = 200_000
    policy: str | None = None


class ValuesRequest(BaseRequest):
    """A position to evaluate, by several panels: one of each kind, at most."""

    game: OfferedGame
    position: str
    panels: Annotated[list[PanelRequest], Field(max_length=8)]


class PuzzlesRequest(BaseRequest):
    """Puzzles: the mistakes of a game so far or of a run by its name; of neither, the built-in
    set.
    """

    line: LineRequest | None = None
    run: str | None = None
