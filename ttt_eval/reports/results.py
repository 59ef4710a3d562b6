"""``result.json`` of comparisons, read into types and checked by msgspec.

A damaged file is one sentence with the place in the file, as in ``Expected int >= 0 - at $.pairs[0][1]``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from msgspec import Meta, Struct, convert, field

from ttt_envs.agents.specs import MAX_SPEC_LENGTH
from ttt_envs.core.files import read_json
from ttt_envs.core.jit import Float64Array
from ttt_envs.game.boards import from_text
from ttt_envs.game.game import Position
from ttt_envs.game.phantom import AnyGame, game_from_dict
from ttt_envs.game.rules import legal
from ttt_eval.matches.score import CorrectedPairs, Forfeits, Score
from ttt_eval.matches.sprt import SPRT
from ttt_eval.statistics import Interval
from ttt_eval.sweep import Line

RESULT = "result.json"
MAX_BYTES = 1 << 26
"""Maximum size of a result in bytes."""
_FAR = 10**15  # upper bound of any rating, number of games or time

Count = Annotated[int, Meta(ge=0, le=_FAR)]
Seed = Annotated[int, Meta(ge=0)]
Number = Annotated[float, Meta(ge=-_FAR, le=_FAR)]
Amount = Annotated[float, Meta(ge=0, le=_FAR)]
Share = Annotated[float, Meta(ge=-1e-6, le=1 + 1e-6)]
Loss = Annotated[float, Meta(ge=-1e-6, le=2 + 1e-6)]
Spec = Annotated[str, Meta(min_length=1, max_length=MAX_SPEC_LENGTH, pattern="^[^-]")]
"""of a policy; one that begins with a hyphen would be an option of a command"""
Counts = tuple[Count, Count, Count]


class Estimate(Struct):
    """A mean with its interval; without ends it is a point."""

    mean: Number
    low: Number | None = None
    high: Number | None = None

    def __post_init__(self) -> None:
        low, mean, high = self.interval.low, self.mean, self.interval.high
        slack = 1e-9 * max(1.0, abs(mean))
        if not low - slack <= mean <= high + slack:
            raise ValueError(f"{low:g}, {mean:g} and {high:g} are no interval: low, mean and high are in this order")

    @property
    def interval(self) -> Interval:
        """The same as an interval."""
        low, high = (self.mean if end is None else end for end in (self.low, self.high))
        return Interval(self.mean, min(self.mean, low), max(self.mean, high))


class GivenUp(Struct):
    """Forfeited games."""

    a: Count = 0
    b: Count = 0
    first: str = ""


class Played(Struct, kw_only=True):
    """Games of a against b."""

    pairs: tuple[Counts, Counts, Counts]
    corrected: list[Any] | None = None
    forfeits: GivenUp = field(default_factory=GivenUp)
    raw_score: Estimate | None = None
    equivalent_games: Count | None = None

    def __post_init__(self) -> None:
        count, corrected = int(np.sum(self.pairs)), self.played.corrected
        if not count or (corrected is not None and corrected.num != count):
            raise ValueError(f"{count} pairs of games have no score: they are one or more, with a corrected score each")

    @property
    def played(self) -> Score:
        """The score of a."""
        corrected = None if self.corrected is None else CorrectedPairs.from_list(self.corrected)
        forfeits = Forfeits(self.forfeits.a, self.forfeits.b, self.forfeits.first)
        return Score(np.array(self.pairs, np.int64), None, forfeits, corrected)


class Spot(Struct):
    """A position, and the moves of one or two players there: probabilities by cell."""

    position: str
    best: list[Count] | None = None
    likely: Share | None = None
    times: Count | None = None
    difference: Share = 0.0
    loss: Loss | None = None
    loss_a: Loss | None = None
    loss_b: Loss | None = None
    moves: dict[Count, Share] = {}
    played: dict[Count, Share] = {}
    a: dict[Count, Share] = {}
    b: dict[Count, Share] = {}

    def place(self, game: AnyGame) -> Position:
        """Return the position.

        Raises:
            ValueError: it is none of the game.
        """
        return from_text(self.position, game)


def spread_moves(game: AnyGame, position: Position, moves: dict[Count, Share]) -> Float64Array:
    """Return the probabilities float64[cells] of moves by cell.

    Raises:
        ValueError: a move that is not legal.
    """
    shares = np.zeros(game.cells)
    for cell, share in moves.items():
        if cell >= game.cells or not legal(game, position.cells)[cell]:
            raise ValueError(f"cell {cell} is no legal move: moves are on empty cells")
        shares[cell] = share
    return shares


class Result(Struct, tag_field="kind", kw_only=True):
    """What every ``result.json`` has."""

    format: Literal[1]
    raw: dict[str, Any]
    """the whole content of the file"""
    folder: str
    """the folder of the file"""


class GameResult(Result, kw_only=True):
    """What every result of games has."""

    game: Any
    seed: Seed = 0
    openings: Spec | None = None
    luck_correction: Spec | None = None

    def __post_init__(self) -> None:
        self.game = game_from_dict(self.game)


class SprtResult(GameResult, tag="sprt", kw_only=True):
    """A sequential test of a against b."""

    a: Spec
    b: Spec
    test: SPRT
    most_games: Count
    match: Played
    score: Estimate
    llr: Number
    llr_low: Annotated[float, Meta(lt=0, ge=-_FAR)]
    llr_high: Annotated[float, Meta(gt=0, le=_FAR)]
    likelihood: Share = field(name="likelihood_of_superiority")
    fixed_games: Count | None = None
    path: Annotated[list[tuple[Count, Annotated[float, Meta(ge=-1e6, le=1e6)]]], Meta(min_length=1)]
    differences: list[Spot] | None = None


class Pairing(Played, kw_only=True):
    """The games of players number a and b."""

    a: Count
    b: Count


class Participant(Struct):
    """A player of a tournament."""

    spec: Spec
    rating: Estimate
    score: Estimate
    games: Count


class Differences(Struct):
    """Positions in which players number a and b differ most."""

    a: Count
    b: Count
    positions: list[Spot]


class TournamentResult(GameResult, tag="tournament", kw_only=True):
    """A round robin."""

    players: Annotated[list[Participant], Meta(min_length=2, max_length=200)]
    pairings: list[Pairing]
    games_per_pairing: Count
    anchor: Spec | None = None
    differences: Differences | None = None

    def __post_init__(self) -> None:
        GameResult.__post_init__(self)
        count = len(self.players)
        pairs = {(i, j) for i in range(count) for j in range(count) if i != j}
        if set(self.scores) != pairs or (self.differences and (self.differences.a, self.differences.b) not in pairs):
            raise ValueError("the pairings are not those of all players")

    @property
    def scores(self) -> dict[tuple[int, int], Score]:
        """The score of each player against each other one."""
        scores = {(pairing.a, pairing.b): pairing.played for pairing in self.pairings}
        return scores | {(b, a): score.reversed() for (a, b), score in scores.items()}


class Rung(Struct):
    """A policy of known rating on a ladder."""

    spec: Spec
    rating: Number
    low: Number
    high: Number
    cpu_s_per_move_here: Amount | None = None
    front: bool | None = None


class RungResult(Struct):
    """The placed policy's result against a rung."""

    rung: Count
    win: Share
    draw: Share
    loss: Share
    score: Estimate
    expected: Share
    games: Count
    exact: bool = False


class Training(Struct):
    """The run of a placed policy."""

    learner: str
    games: Count
    cost: dict[str, dict[str, Amount]] = {}


class LadderName(Struct):
    """The ladder."""

    name: str
    anchor: str
    source: Spec


class LadderResult(GameResult, tag="ladder", kw_only=True):
    """A policy's place on a ladder."""

    policy: Spec
    rating: Estimate
    rungs: Annotated[list[Rung], Meta(min_length=1, max_length=100)]
    results: list[RungResult]
    ladder: LadderName
    settings: dict[str, Amount]
    first_move: list[list[Share]]
    worst_positions: list[Spot] = []
    exploitability: Share | None = None
    regret: Loss | None = None
    misfit: Amount | None = None
    cost: dict[str, Number] | None = None
    training: Training | None = None
    front: bool | None = None
    pure: bool = False
    exact: bool = False
    processor: str = ""


class MoveCounts(Struct):
    """Moves of a language model."""

    illegal_share: Share
    answers: Count
    moves: Count
    regret: Loss | None = None
    blunders: Count | None = None
    stones: Count = 0
    problems: dict[str, Count] = {}
    by_stones: list[MoveCounts] = []


class ModelGames(Struct):
    """Games of a language model."""

    match: Played
    games: Count
    score: Estimate
    moves: MoveCounts
    blunders: list[Spot]


class Exact(Struct):
    """Exact strength."""

    exploitability: Share | None = None
    regret: Loss | None = None
    results: dict[str, dict[str, Share]] = {}


class ModelPositions(Struct):
    """Answers of a language model in all positions."""

    positions: Count
    without_move: Count
    moves: MoveCounts
    blunders: list[Spot]
    exact: Exact | None = None


class LanguageModelResult(GameResult, tag="language-model", kw_only=True):
    """A language model."""

    endpoint: Spec | None
    model: Spec
    presentation: Spec
    opponent: Spec
    illegal: Spec
    max_asks: Count
    max_tokens: Count
    show_legal: bool
    temperature: Amount
    fields: dict[str, Any]
    games: ModelGames | None
    positions: ModelPositions | None
    usage: dict[str, Number]
    new: dict[str, Number]


class SweepRun(Struct):
    """A run of a sweep."""

    row: Count
    seed: Seed
    run: str


class SweepResult(Result, tag="sweep", kw_only=True):
    """A sweep."""

    source: Spec
    table: Annotated[list[dict[str, Any]], Meta(min_length=1)]
    runs: list[SweepRun]
    trust: bool = False

    @property
    def lines(self) -> list[Line]:
        """The settings, with their numbers."""
        lines = []
        for row in self.table:
            numbers = {name: row[name] for name in row if name not in ("options", "seeds")}
            values = {name: convert(value, Estimate).interval for name, value in numbers.items()}
            lines.append(Line(convert(row["options"], dict[str, Any]), convert(row["seeds"], Count), values))
        return lines

    def __post_init__(self) -> None:
        if not all({"options", "seeds"} < set(row) for row in self.table) or not all(self.lines):
            raise ValueError("a row of the table has no options, seeds or numbers")


AnyResult = SprtResult | TournamentResult | LadderResult | LanguageModelResult | SweepResult


def read_result(folder: Path) -> AnyResult:
    """Read the ``result.json`` of a folder.

    Raises:
        OSError: no such file.
        ValueError: a damaged result, or one of another kind.
    """
    path = folder / RESULT
    data = read_json(path, MAX_BYTES)
    if not isinstance(data, dict):
        raise ValueError(f"{path} is no result: it holds no object")
    try:
        whole = {**data, "match": data, "raw": data, "folder": str(folder)}
        if isinstance(whole.get("games"), dict):
            whole["games"] = {**whole["games"], "match": whole["games"]}
        result: AnyResult = convert(whole, AnyResult, str_keys=True)
    except ValueError as problem:
        raise ValueError(f"{path} is no result that has a page: {problem}") from None
    return result
