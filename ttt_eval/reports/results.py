"""Results of comparisons, as pages show them: those of matches, and of ladders, language models and
sweeps.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, cast

from msgspec import Meta, Struct, field

from ttt_envs.core.checks import name_place
from ttt_envs.core.files import read_json
from ttt_eval.matches.results import Data, GameResult, MatchResult, Result, Spec, Spot, parse_result
from ttt_eval.matches.sprt import SprtResult
from ttt_eval.matches.tournament import TournamentResult
from ttt_eval.store.result_store import RESULT
from ttt_eval.store.statistics import Interval

MAX_BYTES = 1 << 26
"""Maximum size of a result in bytes."""


class LadderResult(GameResult, tag="ladder", kw_only=True):
    """A policy's place on a ladder."""

    policy: Spec
    rating: Interval
    rungs: Annotated[list[Data], Meta(min_length=1)]
    results: list[Data]
    """against the rungs"""
    ladder: Data
    settings: Data
    worst_positions: list[Spot] = field(default_factory=list)
    exploitability: float | None = None
    regret: float | None = None
    cost: Data | None = None
    front: bool | None = None
    exact: bool = False
    processor: str = ""


class ModelPart(Struct):
    """Moves of a language model in its games, or in all positions."""

    moves: Data
    blunders: list[Spot]
    score: Interval | None = None
    positions: int = 0
    without_move: int = 0
    exact: Data | None = None


class LanguageModelResult(GameResult, tag="language-model", kw_only=True):
    """A language model."""

    model: Spec
    opponent: Spec
    games: ModelPart | None
    positions: ModelPart | None
    usage: Data


class SweepResult(Result, tag="sweep", kw_only=True):
    """A sweep."""

    source: Spec
    table: Annotated[list[Data], Meta(min_length=1)]
    runs: list[Data]
    """``row``, ``seed`` and folder ``run`` of each"""
    trust: bool = False


AnyResult = (
    MatchResult | SprtResult | TournamentResult | LadderResult | LanguageModelResult | SweepResult
)


def read_result(folder: Path) -> AnyResult:
    """Read the ``result.json`` of a folder.

    Raises:
        OSError: no such file.
        ValueError: a damaged result, or one of another kind.
    """
    path = folder / RESULT
    data = read_json(path, MAX_BYTES)
    with name_place(f"{path} is no result that has a page"):
        result: AnyResult = parse_result(data, folder, cast("Any", AnyResult))
    return result
