"""``result.json`` of comparisons, read into types by msgspec: what pages show of them.

A damaged file is one sentence with the place in the file, as in ``Expected `int`, got `str` - at $.seed``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, convert, field

from ttt_envs.agents.specs import MAX_SPEC_LENGTH
from ttt_envs.core.checks import name_place
from ttt_envs.core.files import read_json
from ttt_envs.game.phantom import game_from_dict
from ttt_eval.matches.score import Score
from ttt_eval.matches.sprt import SPRT
from ttt_eval.result_store import RESULT
from ttt_eval.statistics import Interval

MAX_BYTES = 1 << 26
"""Maximum size of a result in bytes."""

Spec = Annotated[str, Meta(min_length=1, max_length=MAX_SPEC_LENGTH, pattern="^[^-]")]
"""of a policy; one that begins with a hyphen would be an option of a command"""
Data = dict[str, Any]
"""A part of the file as it is, with intervals; docs/files.md documents the keys."""


class Spot(Struct):
    """A position, and the moves of one or two players there: probabilities by cell."""

    position: str
    best: list[int] | None = None
    likely: float | None = None
    times: int | None = None
    difference: float = 0.0
    loss: float | None = None
    loss_a: float | None = None
    loss_b: float | None = None
    moves: dict[int, float] = field(default_factory=dict)
    a: dict[int, float] = field(default_factory=dict)
    b: dict[int, float] = field(default_factory=dict)


class Result(Struct, tag_field="kind", kw_only=True):
    """What every ``result.json`` has."""

    format: Literal[1]
    raw: Data
    """the whole content of the file"""
    folder: Path
    """the folder of the file"""


class GameResult(Result, kw_only=True):
    """What every result of games has."""

    game: Any
    seed: int = 0
    openings: Spec | None = None
    luck_correction: Spec | None = None

    def __post_init__(self) -> None:
        self.game = game_from_dict(self.game)


class MatchResult(GameResult, tag="match", kw_only=True):
    """A match of a against b."""

    a: Spec
    b: Spec
    games: int = 0
    score: Interval
    likelihood: float = field(name="likelihood_of_superiority")
    differences: list[Spot] | None = None


class SprtResult(MatchResult, tag="sprt", kw_only=True):
    """A sequential test of a against b."""

    test: SPRT
    most_games: int
    llr: float
    llr_low: float
    llr_high: float
    path: Annotated[list[tuple[int, float]], Meta(min_length=1)]


class Differences(Struct):
    """Positions in which players number a and b differ most."""

    a: int
    b: int
    positions: list[Spot]


class TournamentResult(GameResult, tag="tournament", kw_only=True):
    """A round robin."""

    players: Annotated[list[Data], Meta(min_length=2)]
    """``spec``, ``rating``, ``score`` and ``games`` of each"""
    pairings: list[Data]
    games_per_pairing: int
    anchor: Spec | None = None
    differences: Differences | None = None

    @property
    def scores(self) -> dict[tuple[int, int], Score]:
        """The score of each player against each other one."""
        scores = {(pairing["a"], pairing["b"]): Score.from_record(pairing) for pairing in self.pairings}
        return scores | {(b, a): score.reversed() for (a, b), score in scores.items()}


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


AnyResult = MatchResult | SprtResult | TournamentResult | LadderResult | LanguageModelResult | SweepResult


def _with_intervals(data: Any) -> Any:
    """Return data with an interval for each estimate; one without ends is a point."""
    if isinstance(data, list):
        return [_with_intervals(entry) for entry in data]
    if not isinstance(data, dict):
        return data
    if "mean" not in data:
        return {key: _with_intervals(entry) for key, entry in data.items()}
    return Interval(*(data["mean"] if data.get(key) is None else data[key] for key in Interval._fields))


def read_result(folder: Path) -> AnyResult:
    """Read the ``result.json`` of a folder.

    Raises:
        OSError: no such file.
        ValueError: a damaged result, or one of another kind.
    """
    path = folder / RESULT
    data = read_json(path, MAX_BYTES)
    with name_place(f"{path} is no result that has a page"):
        result: AnyResult = convert({**_with_intervals(data), "raw": data, "folder": folder}, AnyResult, str_keys=True)
    return result
