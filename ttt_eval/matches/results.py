"""Results of comparisons: one type each, which commands make, ``result.json`` stores and pages
show.

msgspec reads them: a damaged file is one sentence with the place in the file, as in ``Expected
`int`, got `str` - at $.seed``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from msgspec import Meta, Struct, convert, field

from ttt_envs.agents.specs import MAX_SPEC_LENGTH
from ttt_envs.game.phantom import game_from_dict
from ttt_eval.matches.score import Score
from ttt_eval.store.statistics import Interval

Kind = TypeVar("Kind")

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

    @property
    def played(self) -> Score:
        """The score of the games, as it was played."""
        return Score.from_record(self.raw)


def _with_intervals(data: Any) -> Any:
    """Return data with an interval for each estimate; one without ends is a point."""
    if isinstance(data, list):
        return [_with_intervals(entry) for entry in data]
    if not isinstance(data, dict):
        return data
    if "mean" not in data:
        return {key: _with_intervals(entry) for key, entry in data.items()}
    return Interval(
        *(data["mean"] if data.get(key) is None else data[key] for key in Interval._fields)
    )


def parse_result(data: dict[str, Any], folder: Path, kind: type[Kind]) -> Kind:
    """Return the result of the content of a ``result.json``.

    Raises:
        ValueError: the content of another kind, or a damaged one.
    """
    return convert({**_with_intervals(data), "raw": data, "folder": folder}, kind, str_keys=True)
