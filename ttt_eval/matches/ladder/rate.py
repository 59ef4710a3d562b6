"""Rating of a policy: it plays every rung of a ladder, and its rating maximizes the likelihood of its results."""

from __future__ import annotations

import math
import shlex
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ttt_envs.agents.policy import Policy
from ttt_envs.agents.specs import FromFile, make_policy
from ttt_envs.core.files import write_json
from ttt_envs.core.parallel import Jobs
from ttt_envs.game.boards import Boards, to_text
from ttt_envs.game.game import Game
from ttt_eval.cost import processor
from ttt_eval.exact.estimate import MAX_BOARDS_WITHOUT_ESTIMATE, boards_by_stones
from ttt_eval.exact.strength import strength, worst_positions
from ttt_eval.matches.elo import score_from_elo
from ttt_eval.matches.ladder.files import Ladder
from ttt_eval.matches.ladder.plans import ANCHOR
from ttt_eval.matches.ladder.results import (
    CONFIDENCE,
    check_games,
    pair_weights,
    pairing_seed,
    play_pairing,
    score_from_result,
)
from ttt_eval.matches.move_cost import MoveCost, measure_move_costs
from ttt_eval.matches.tournament import DRAWS, bradley_terry
from ttt_eval.metrics import LOSSES
from ttt_eval.policy_identity import policy_identity
from ttt_eval.result_store import Unit, collect_results
from ttt_eval.run_files import RunDirectory, run_folder
from ttt_eval.statistics import Interval

RESULT = "result.json"
GAMES = 500
"""Default number of games against every rung."""
MAX_WORST_POSITIONS = 5
"""Number of worst positions reported."""
NUM_QUERIES = 256
"""Number of queries of an impure policy for its first move."""
RATING_TOLERANCE = 0.05
"""Tolerance for ratings that are equal but for rounding."""


@dataclass(frozen=True)
class RatingSettings:
    """Settings of the rating of a policy."""

    games: int = GAMES
    """against each rung, an even number; ignored if results are exact"""
    seed: int = 0
    """seed of all random numbers"""
    costs: bool = True
    """whether to measure the cost of moves"""


def rate_policy(
    policy: str | Policy,
    ladder: Ladder,
    provenance: Mapping[str, Any],
    settings: RatingSettings | None = None,
    *,
    jobs: Jobs = 1,
    folder: Path | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Any]:
    """Rate a policy on a ladder.

    On small boards a pure policy has exact results against the rungs, and its exploitability, regret and worst
    positions are computed; otherwise games are played against each rung. The cost of moves is measured on this machine,
    of the rungs in one process and of the policy in its own.

    Args:
        policy: a spec string, or a policy, whose cost is then not measured.
        ladder: of :func:`read_ladder`.
        provenance: JSON-ready: versions and code.
        settings: settings; None for the defaults.
        jobs: the workers.
        folder: folder in which results are stored as soon as they are known, so that the same call resumes, and
            ``result.json`` at the end.
        progress: called with the number of units done, and the total.

    Returns:
        The content of ``result.json``; docs/files.md documents its keys.

    Raises:
        ValueError: an unknown policy, one that does not play by the rules or not this game; an invalid number of games.
    """
    settings = settings or RatingSettings()
    check_games(settings.games, least=2)
    games, seed = settings.games, settings.seed
    game, name = ladder.game, str(policy)
    player = make_policy(policy, game)
    exact = is_exact(ladder, player)
    identity = policy_identity(policy) if isinstance(policy, str) else ""
    results = _play_rungs(
        policy if isinstance(policy, str) else player,
        ladder,
        {**provenance, "identity": identity, "ladder": ladder.data["sha256"]},
        games=0 if exact else games,
        seed=seed,
        jobs=jobs,
        folder=folder,
        progress=progress,
    )
    own, of_rungs = None, None
    if settings.costs and isinstance(policy, str):
        own = measure_move_costs(game, policy)[0]
        of_rungs = [one.cpu_s_per_move for one in measure_move_costs(game, *ladder.specs)]
    run = run_folder(policy) if isinstance(policy, str) else None
    data: dict[str, Any] = {
        "format": 1,
        "kind": "ladder",
        "policy": name,
        "identity": identity,
        "pure": bool(player.pure),
        "game": game.to_dict(),
        **_rating_and_costs(ladder, results, _fit_rating(ladder, results, exact=exact), own, of_rungs),
        "exact": exact,
        **dict.fromkeys(LOSSES),
        **(strength(game, player, ()).measures if exact else {}),
        "worst_positions": _worst_positions(game, player) if exact else [],
        "first_move": _first_move(game, player, seed),
        "training": None if run is None else _training(run),
        "ladder": {
            key: ladder.data[key]
            for key in ("name", "anchor", "games", "seed", "command", "provenance", "processor", "sha256")
        }
        | {"source": ladder.source},
        "settings": {"games": 0 if exact else games, "seed": seed, "confidence": CONFIDENCE},
        "provenance": dict(provenance),
        "processor": processor(),
        "command": shlex.join(
            ["evaluate.py", "ladder", name, "--ladder", ladder.source, "--games", str(games), "--seed", str(seed)]
        ),
    }
    if folder is not None:
        write_json(folder / RESULT, data)
    return data


def is_exact(ladder: Ladder, policy: Policy) -> bool:
    """Return whether a policy's results against the rungs are exact: all are pure, on a small board."""
    small = sum(boards_by_stones(ladder.game)) <= MAX_BOARDS_WITHOUT_ESTIMATE
    return small and policy.pure and all(make_policy(spec, ladder.game).pure for spec in ladder.specs)


def _play_rungs(
    policy: str | Policy,
    ladder: Ladder,
    provenance: Mapping[str, Any],
    *,
    games: int,
    seed: int,
    jobs: Jobs,
    folder: Path | None,
    progress: Callable[[int, int], None] | None,
) -> list[dict[str, Any]]:
    """Return a policy's results against each rung."""
    described = ladder.game.to_dict()
    units = [
        {"policy": str(policy), "rung": spec, "game": described, "games": games, "seed": pairing_seed(seed, number)}
        for number, spec in enumerate(ladder.specs)
    ]
    with tempfile.TemporaryDirectory() as temporary:
        path = Path(temporary) if folder is None else folder
        play = partial(_play_rung, policy)
        return collect_results(
            play, units, path, provenance, jobs=jobs, other_files=(RESULT, "*.html"), progress=progress
        )


def _rating_and_costs(
    ladder: Ladder,
    results: Sequence[Mapping[str, Any]],
    rating: Interval,
    own: MoveCost | None,
    of_rungs: Sequence[float] | None,
) -> dict[str, Any]:
    """Return the rating among those of the rungs, and the costs of moves, as JSON-ready data."""
    ratings = [float(rung["rating"]) for rung in ladder.rungs]
    front = pareto_front([*ratings, rating.mean], None if own is None else [*(of_rungs or ()), own.cpu_s_per_move])
    at = rating.mean + RATING_TOLERANCE
    below = [str(rung["spec"]) for rung in ladder.rungs if rung["rating"] <= at]
    above = [str(rung["spec"]) for rung in ladder.rungs if rung["rating"] > at]
    scores = [score_from_result(result) for result in results]
    expected = [score_from_elo(rating.mean - one) for one in ratings]
    return {
        "rating": rating._asdict(),
        "between": {"below": below[-1] if below else None, "above": above[0] if above else None},
        "cost": None if own is None else own._asdict(),
        "front": front[-1],
        "rungs": [
            {
                **rung,
                "spec": str(rung["spec"]),
                "cpu_s_per_move_here": None if of_rungs is None else of_rungs[number],
                "front": front[number],
            }
            for number, rung in enumerate(ladder.rungs)
        ],
        "results": [
            {"rung": number, **result, "score": scores[number]._asdict(), "expected": expected[number]}
            for number, result in enumerate(results)
        ],
        "misfit": math.sqrt(np.mean([(one.mean - other) ** 2 for one, other in zip(scores, expected, strict=True)])),
    }


def _play_rung(policy: str | Policy, unit: Unit) -> dict[str, Any]:
    """Do one unit of work of :func:`rate_policy`."""
    return play_pairing(Game.from_dict(unit["game"]), policy, FromFile(unit["rung"]), unit["games"], unit["seed"])


def _fit_rating(ladder: Ladder, results: Sequence[Mapping[str, Any]], *, exact: bool) -> Interval:
    """Return the maximum likelihood rating, with the rungs' ratings held fixed."""
    count = len(ladder.rungs)
    pairs, precision = np.zeros((count + 1, count + 1, 5)), np.zeros((count + 1, count + 1))
    for number, result in enumerate(results):
        pairs[count, number], precision[count, number] = pair_weights(result)
    known = [*(float(rung["rating"]) for rung in ladder.rungs), None]
    draws = DRAWS if ladder.exact and not exact else 1  # only where intervals are taken from it
    found = bradley_terry(pairs, known=known, precision=precision, confidence=CONFIDENCE, draws=draws)[-1]
    if exact:
        return Interval(found.mean, found.mean, found.mean)
    if ladder.exact:
        return found
    # the rungs' ratings come from samples: re-estimate all together to include their uncertainty
    for result in ladder.data["results"]:
        pairing = result["a"], result["b"]
        pairs[pairing], precision[pairing] = pair_weights(result)
    anchor = ladder.specs.index(ANCHOR)
    doubt = bradley_terry(pairs, anchor=anchor, precision=precision, confidence=CONFIDENCE, draws=DRAWS)[-1]
    return Interval(found.mean, found.mean - (doubt.mean - doubt.low), found.mean + (doubt.high - doubt.mean))


def pareto_front(ratings: Sequence[float], seconds: Sequence[float] | None) -> list[bool | None]:
    """Return which policies are on the Pareto front: none is as strong at less cost, or stronger at no more."""
    if seconds is None:
        return [None] * len(ratings)
    both = list(zip(ratings, seconds, strict=True))
    return [not any((r >= rating and s < cost) or (r > rating and s <= cost) for r, s in both) for rating, cost in both]


def _first_move(game: Game, policy: Policy, seed: int) -> list[list[float]]:
    """Return the probability of each first move, by rows; for an impure policy, the mean of many answers."""
    boards = Boards.start(game, 1 if policy.pure else NUM_QUERIES)
    rng = None if policy.pure else np.random.default_rng(seed)
    shares = np.asarray(policy.probabilities(boards, rng)).mean(axis=0)
    rows: list[list[float]] = shares.reshape(game.rows, game.columns).tolist()
    return rows


def _worst_positions(game: Game, policy: Policy) -> list[dict[str, Any]]:
    """Return the positions with the largest losses against random play, which reaches every position."""
    return [
        {
            "position": to_text(mistake.choice.position, game),
            "loss": mistake.loss,
            "likely": mistake.likely,
            "cost": mistake.cost,
            "played": {str(cell): float(mistake.choice.probabilities[cell]) for cell in mistake.choice.played},
            "best": mistake.choice.best.tolist(),
        }
        for mistake in worst_positions(game, policy, ANCHOR, MAX_WORST_POSITIONS)
    ]


def _training(run: Path) -> dict[str, Any]:
    """Return a run's training settings and costs."""
    directory = RunDirectory(run)
    config = directory.read_config()
    names = ("learner", "settings", "opponent", "seat", "games", "batch", "seed", "versions", "revision")
    return {
        **{name: config[name] for name in names if name in config},
        "file": directory.config.name,
        "cost": directory.read_cost(),
    }
