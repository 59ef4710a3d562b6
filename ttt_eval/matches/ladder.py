"""Ladders: opponents of known strength on standard games, for rating other policies.

A ladder is a dozen policies, its rungs, with ratings (Bradley and Terry, 1952) from a round robin.
``random`` is 0. On small boards results are exact; else they are matches. A policy plays every
rung, and its rating maximizes the likelihood of its results. ``data/ladders/NAME.json`` stores a
ladder with everything that determines it, measured by ``tools/make_ladders.py``.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any, Self

import numpy as np
from msgspec import UNSET, Meta, Struct, UnsetType, convert, field, to_builtins
from msgspec.structs import asdict, replace

from ttt_envs.agents.policy import Policy
from ttt_envs.agents.specs import FromFile
from ttt_envs.core.checks import Refusal
from ttt_envs.core.jit import Float64Array
from ttt_envs.core.parallel import Jobs
from ttt_envs.game.game import Game
from ttt_envs.graph.estimate import MAX_BOARDS_WITHOUT_ESTIMATE, boards_by_stones
from ttt_eval.exact.dynamic_programming import match_outcome
from ttt_eval.exact.policy_cache import make_policy_once
from ttt_eval.exact.strength import Mistake, strength, worst_positions
from ttt_eval.matches.elo import score_from_elo
from ttt_eval.matches.luck import default_correction
from ttt_eval.matches.match import play_pairs
from ttt_eval.matches.move_cost import MoveCost, measure_move_costs
from ttt_eval.matches.results import ChosenMoves
from ttt_eval.matches.score import CorrectedPairs, Score, StoredCorrection
from ttt_eval.matches.tournament import DRAWS, bradley_terry
from ttt_eval.store.cost import processor
from ttt_eval.store.metrics import Losses
from ttt_eval.store.policy_identity import policy_identity
from ttt_eval.store.result_store import (
    Data,
    Unit,
    collect_results,
    no_progress,
    path_of_set,
    read_hashed_json,
)
from ttt_eval.store.results import GameResult, Spec
from ttt_eval.store.statistics import Interval

ANCHOR = "random"
"""Policy with rating 0."""
LADDERS: Mapping[str, Game] = {
    "3x3": Game(),
    "3x3-skip": Game(skip_chance=0.25),
    "4x4-skip": Game(4, 4, 4, 0.1),
    "5x5-skip": Game(5, 5, 4, 0.1),
}
"""Games of the ladders by name."""
LADDER_FOLDER = Path(__file__).parents[1] / "data" / "ladders"
MAX_FILE_BYTES = 1 << 24
"""Maximum size of a ladder's file in bytes."""
GAMES = 500
"""Default number of games against every rung."""
MAX_GAMES = 1_000_000
"""Maximum number of games against a rung."""
MAX_WORST_POSITIONS = 5
"""Number of worst positions reported."""
MAX_RATING = 10_000
"""Maximum distance of a rung's rating from that of ``random``; the expected scores of more would
overflow.
"""
# weight of an exact result in pairs: large enough to make the prior of ratings negligible
_CERTAIN = 1e6

_Share = Annotated[float, Meta(ge=0, le=1)]
_Count = Annotated[int, Meta(ge=0, le=MAX_GAMES)]


# --------------------------------------------------------------------------------------------------
# Results of one policy against another


class Pairing(Struct, frozen=True):
    """Results of a policy against another, as in files: exact, or those of games."""

    exact: bool
    games: _Count
    """0 for exact results"""
    win: _Share
    draw: _Share
    loss: _Share
    pentanomial: Annotated[list[_Count], Meta(min_length=5, max_length=5)] | None
    """number of pairs of 0, 1/2, 1, 3/2 and 2 points"""
    corrected: StoredCorrection | UnsetType | None = UNSET
    """left out if luck is not corrected"""
    a: int | UnsetType = UNSET
    b: int | UnsetType = UNSET
    """numbers of the two rungs, in a ladder's file"""

    def __post_init__(self) -> None:
        if not self.exact and not any(self.pentanomial or ()):
            raise Refusal("a result has no games: it is exact, or has one pair or more")
        self.weights()

    def _played(self) -> Score:
        corrected = CorrectedPairs.from_stored(self.corrected)
        return Score.from_pentanomial(self.pentanomial or [0] * 5, corrected)

    def score_per_game(self) -> Interval:
        """Return the score per game: wins and half the draws."""
        if not self.exact:
            return self._played().rate("score")
        score = self.win + self.draw / 2
        return Interval(score, score, score)

    def weights(self) -> tuple[Float64Array, float]:
        """Return pair counts by result, float64[5], and their precision, as :meth:`Score.weights`.

        An exact result counts as so many pairs that it has no sampling error.
        """
        if self.exact:
            score = self.score_per_game().mean
            return _CERTAIN * np.array([1 - score, 0, 0, 0, score]), 1.0
        return self._played().weights()


def check_games(games: int, min_games: int) -> None:
    """Raise ValueError for an odd number of games, or one not from ``min_games`` to
    :data:`MAX_GAMES`.
    """
    if games % 2 or not min_games <= games <= MAX_GAMES:
        raise Refusal(
            f"games={games} makes no pairs, two games with the seats swapped: "
            f"choose an even number from {min_games} to {MAX_GAMES:,}"
        )


def pairing_seed(seed: int, number: int) -> int:
    """Return the seed of a pairing; no two pairings share random numbers, nor do two seeds."""
    return MAX_GAMES * seed + number


def play_pairing(game: Game, a: str | Policy, b: str | Policy, games: int, seed: int) -> Data:
    """Return a's results against b, a :class:`Pairing` as JSON-ready data: exact if ``games`` is
    0.
    """
    first = make_policy_once(game, a)
    second = make_policy_once(game, b)
    if games == 0:
        result = Pairing(
            exact=True, games=0, **match_outcome(game, first, second)._asdict(), pentanomial=None
        )
    else:
        score = play_pairs(
            game, first, second, games // 2, seed=seed, luck_correction=default_correction(game)
        )
        win, draw, loss = (score.table.sum(axis=0) / score.games).tolist()
        corrected = UNSET if score.corrected is None else score.corrected.to_list()
        result = Pairing(False, score.games, win, draw, loss, score.pentanomial.tolist(), corrected)
    data: Data = to_builtins(result)
    return data


# --------------------------------------------------------------------------------------------------
# Stored ladders


_Rating = Annotated[float, Meta(ge=-MAX_RATING, le=MAX_RATING)]


class Rung(Losses):
    """A policy of a ladder."""

    spec: str
    rating: _Rating
    low: _Rating
    high: _Rating
    cost: MoveCost

    @property
    def interval(self) -> Interval:
        """The rating and its interval."""
        return Interval(self.rating, self.low, self.high)


@dataclass(frozen=True)
class Ladder:
    """A measured ladder.

    Attributes:
        name: one of :data:`LADDERS`, or another name.
        game: the game.
        rungs: by rising rating; their policies are
            :class:`~ttt_envs.agents.specs.FromFile`.
        data: the file, as JSON-ready data.
        source: argument of :func:`read_ladder` that reads it.
    """

    name: str
    game: Game
    rungs: Sequence[Rung]
    data: Data
    source: str

    @property
    def specs(self) -> list[str]:
        """Spec strings of the rungs."""
        return [rung.spec for rung in self.rungs]

    @property
    def ratings(self) -> list[float]:
        """Ratings of the rungs."""
        return [rung.rating for rung in self.rungs]

    @property
    def exact(self) -> bool:
        """Whether the results between the rungs are exact."""
        return bool(self.data["games"] == 0)


def read_ladder(name: str | Path) -> Ladder:
    """Read a built-in ladder by its name, or one in a ``.json`` file.

    Its policies are :class:`~ttt_envs.agents.specs.FromFile`: a file can never run code.

    Raises:
        OSError: no file, or one that cannot be read.
        ValueError: no such ladder, a damaged file.
    """
    path = path_of_set(name, LADDER_FOLDER, LADDERS, "ladder")
    return read_hashed_json(
        path, "rungs", MAX_FILE_BYTES, partial(_parse, source=str(name)), what="complete ladder"
    )


class _File(Struct):
    name: str
    anchor: str
    games: _Count
    rungs: list[Rung]
    results: list[Pairing]


def _parse(data: Data, source: str) -> Ladder:
    file = convert(data, _File)
    rungs = [replace(rung, spec=FromFile(rung.spec)) for rung in file.rungs]
    pairings = set(map(frozenset, combinations(range(len(rungs)), 2)))
    if {frozenset((result.a, result.b)) for result in file.results} != pairings:
        raise Refusal("it lacks results")
    ladder = Ladder(file.name, Game.from_dict(data["game"]), rungs, data, source)
    if ANCHOR not in ladder.specs:
        raise Refusal(f"it lacks {ANCHOR}")
    return ladder


def ladder_name(game: Game) -> str:
    """Return the name of the ladder of a game.

    Raises:
        ValueError: there is none.
    """
    names = [name for name, standard in LADDERS.items() if standard == game]
    if not names:
        raise Refusal(
            f"there is no ladder of {game}: choose one of another game, {', '.join(LADDERS)}, or "
            "sample it here with evaluate.py match"
        )
    return names[0]


# --------------------------------------------------------------------------------------------------
# Ratings


class PlacedRung(Rung, kw_only=True):
    """A rung beside the policy that is placed."""

    cpu_s_per_move_here: float | None = None
    """on this machine; None if it is not measured"""
    front: bool | None = None
    """whether it is on the Pareto front with the policy; None if costs are not measured"""


class RungResult(Pairing, frozen=True, kw_only=True):
    """Results of the policy against a rung."""

    rung: int
    """its number"""
    score: Interval
    expected: float
    """score that the ratings predict"""


class WorstPosition(ChosenMoves, kw_only=True):
    """A position in which the policy loses value, against random play."""

    likely: float
    """the probability that a game reaches it"""
    cost: float | UnsetType = UNSET
    """expected loss per game there"""


class LadderSource(Struct):
    """The ladder of a result."""

    name: str
    anchor: str
    sha256: str
    source: str
    """argument of :func:`read_ladder`"""


class LadderSettings(Struct):
    """Number of games against each rung, 0 for exact results, and the seed."""

    games: int
    seed: int


class LadderResult(GameResult, tag="ladder", kw_only=True):
    """A policy's place on a ladder."""

    policy: Spec
    identity: str | UnsetType = UNSET
    rating: Interval
    cost: MoveCost | None = None
    front: bool | None = None
    rungs: Annotated[list[PlacedRung], Meta(min_length=1)]
    results: list[RungResult]
    """against the rungs"""
    misfit: float | UnsetType = UNSET
    """root mean square difference of score and expected score"""
    exact: bool = False
    losses: Losses = field(default_factory=Losses)
    """in the file among the other keys"""
    worst_positions: list[WorstPosition] = field(default_factory=list)
    ladder: LadderSource
    settings: LadderSettings
    processor: str = ""

    @classmethod
    def from_dict(cls, data: Mapping[str, object], folder: Path = Path()) -> Self:
        """See :meth:`Result.from_dict <ttt_eval.store.results.Result.from_dict>`."""
        return super().from_dict({**data, "losses": data}, folder)

    def to_dict(self) -> Data:
        """See :meth:`Result.to_dict <ttt_eval.store.results.Result.to_dict>`."""
        content = super().to_dict()
        losses: Data = content.pop("losses")
        return content | losses


def rate_policy(
    policy: str,
    ladder: Ladder,
    provenance: Mapping[str, object],
    *,
    games: int = GAMES,
    seed: int = 0,
    costs: bool = True,
    jobs: Jobs = 1,
    folder: Path | None = None,
    progress: Callable[[int, int], None] = no_progress,
) -> LadderResult:
    """Return a policy's rating on a ladder. On small boards pure policies are rated exactly, and
    its exploitability, regret and worst positions are computed; otherwise games are played against
    each rung. The cost of moves is measured on this machine, of the rungs in one process and of the
    policy in its own.

    Args:
        policy: a spec string.
        ladder: of :func:`read_ladder`.
        provenance: JSON-ready: versions and code.
        games: number of games against each rung, even; ignored if results are exact.
        seed: seed of all random numbers.
        costs: whether to measure the cost of moves.
        jobs: the workers.
        folder: folder in which results are stored as soon as they are known, so that the same call
            resumes, and ``result.json`` at the end.
        progress: called with the number of units done, and the total.

    Raises:
        ValueError: an unknown policy, one that does not play by the rules or not this game; an
            invalid number of games.
    """
    check_games(games, min_games=2)
    game = ladder.game
    players = [make_policy_once(game, spec) for spec in (policy, *ladder.specs)]
    is_small = sum(boards_by_stones(game)) <= MAX_BOARDS_WITHOUT_ESTIMATE
    exact = is_small and all(player.pure for player in players)
    settings = LadderSettings(games=0 if exact else games, seed=seed)
    head = {"identity": policy_identity(policy), "ladder": ladder.data["sha256"]}
    with tempfile.TemporaryDirectory() as temporary:
        results = collect_results(
            _play_rung,
            _rung_units(policy, ladder, settings),
            folder or Path(temporary),
            {**provenance, **head},
            jobs=jobs,
            progress=progress,
        )
    pairings = [convert(result, Pairing) for result in results]
    rating = fit_rating(ladder, pairings, exact=exact)
    against = _compare_with_rungs(ladder, pairings, rating)
    errors = np.array([row.score.mean - row.expected for row in against])
    result = LadderResult(
        policy=policy,
        identity=head["identity"],
        game=game,
        rating=rating,
        rungs=[PlacedRung(**asdict(rung)) for rung in ladder.rungs],
        results=against,
        misfit=float(np.sqrt(np.mean(errors**2))),
        exact=exact,
        ladder=LadderSource(
            ladder.name, ladder.data["anchor"], ladder.data["sha256"], ladder.source
        ),
        settings=settings,
        provenance=dict(provenance),
        processor=processor(),
    )
    if exact:
        _add_losses(result, game, players[0])
    if costs:
        _add_costs(result, ladder)
    if folder is not None:
        result.folder = folder
        result.write(folder)
    return result


def _rung_units(policy: str, ladder: Ladder, settings: LadderSettings) -> list[Unit]:
    """Return the units of work: the results of the policy against each rung."""
    unit_settings = {"policy": policy, "game": ladder.game.to_dict(), "games": settings.games}
    return [
        {**unit_settings, "rung": spec, "seed": pairing_seed(settings.seed, number)}
        for number, spec in enumerate(ladder.specs)
    ]


def _play_rung(unit: Unit) -> Data:
    """Do one unit of work of :func:`rate_policy`."""
    game = Game.from_dict(unit["game"])
    rung = FromFile(unit["rung"])
    return play_pairing(game, unit["policy"], rung, unit["games"], unit["seed"])


def _compare_with_rungs(
    ladder: Ladder, pairings: Sequence[Pairing], rating: Interval
) -> list[RungResult]:
    """Return the results against the rungs, with the scores that a rating predicts."""
    return [
        RungResult(
            **asdict(pairing),
            rung=number,
            score=pairing.score_per_game(),
            expected=score_from_elo(rating.mean - rung_rating),
        )
        for number, (pairing, rung_rating) in enumerate(zip(pairings, ladder.ratings, strict=True))
    ]


def _add_losses(result: LadderResult, game: Game, policy: Policy) -> None:
    """Add the exact losses of the policy, and the positions with the largest ones against random
    play, which reaches every position.
    """
    result.losses = Losses(**strength(game, policy, ()).measures)
    mistakes = worst_positions(game, policy, ANCHOR, MAX_WORST_POSITIONS)
    result.worst_positions = [_describe_mistake(game, mistake) for mistake in mistakes]


def _describe_mistake(game: Game, mistake: Mistake) -> WorstPosition:
    data = mistake.choice.to_dict(game)
    data |= {"loss": mistake.loss, "likely": mistake.likely, "cost": mistake.cost}
    return WorstPosition(**data)


def _add_costs(result: LadderResult, ladder: Ladder) -> None:
    """Add the costs of moves on this machine, and who is on the Pareto front."""
    (own_cost,) = measure_move_costs(ladder.game, result.policy)
    seconds = [cost.cpu_s_per_move for cost in measure_move_costs(ladder.game, *ladder.specs)]
    *fronts, own_front = pareto_front(
        [*ladder.ratings, result.rating.mean], [*seconds, own_cost.cpu_s_per_move]
    )
    result.cost = own_cost
    result.front = own_front
    for rung, rung_seconds, front in zip(result.rungs, seconds, fronts, strict=True):
        rung.cpu_s_per_move_here = rung_seconds
        rung.front = front


def rate_rungs(
    pairings: Mapping[tuple[int, int], Pairing], players: int, *, exact: bool, **options: Any
) -> list[Interval]:
    """Return the ratings of players from the results of pairings (i, j), exact if the results are.

    Args:
        pairings: results of i against j.
        players: number of players.
        exact: whether results are exact: then so are the ratings.
        options: of :func:`ttt_eval.matches.tournament.bradley_terry`.
    """
    weights = {pairing: result.weights() for pairing, result in pairings.items()}
    return bradley_terry(weights, players, draws=0 if exact else DRAWS, **options)


def fit_rating(ladder: Ladder, pairings: Sequence[Pairing], *, exact: bool) -> Interval:
    """Return the maximum likelihood rating from results against all rungs, with the rungs' ratings
    held fixed.
    """
    count = len(ladder.rungs)
    own = {(count, number): pairing for number, pairing in enumerate(pairings)}
    rating = rate_rungs(own, count + 1, exact=exact, fixed=[*ladder.ratings, None])[-1]
    if exact or ladder.exact:
        return rating
    # the rungs' ratings come from samples: re-estimate all together to include their uncertainty
    rung_pairings = {
        (result["a"], result["b"]): convert(result, Pairing) for result in ladder.data["results"]
    }
    anchor = ladder.specs.index(ANCHOR)
    doubt = rate_rungs(own | rung_pairings, count + 1, exact=False, anchor=anchor)[-1]
    return Interval(
        rating.mean, rating.mean - (doubt.mean - doubt.low), rating.mean + (doubt.high - doubt.mean)
    )


def pareto_front(ratings: Sequence[float], seconds: Sequence[float]) -> list[bool]:
    """Return which policies are on the Pareto front: none is as strong at less cost, or stronger at
    no more.
    """
    policies = list(zip(ratings, seconds, strict=True))
    return [
        not any((r, s) != (rating, cost) and r >= rating and s <= cost for r, s in policies)
        for rating, cost in policies
    ]
