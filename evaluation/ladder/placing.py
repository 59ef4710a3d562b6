"""A policy is placed: it meets every rung of a ladder, and its rating makes its results likeliest."""

from __future__ import annotations

import math
import shlex
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from evaluation.better import score_of
from evaluation.cost import MoveCost, cost_of_moves, processor
from evaluation.estimate import SMALL, boards_by_stones
from evaluation.ladder.kept import Ladder
from evaluation.ladder.plans import ANCHOR
from evaluation.ladder.results import (
    CONFIDENCE,
    check_games,
    result_of,
    score_of_result,
    seed_of,
    strength_of,
    weights_of,
)
from evaluation.report_parts import read_cost
from evaluation.sources import identity_of
from evaluation.statistics import Interval
from evaluation.strength import worst_positions
from evaluation.tournament import DRAWS, bradley_terry
from evaluation.units import Unit, do_units
from learners.checkpoint import CONFIG, read_config
from ttt_envs.boards import Boards, to_text
from ttt_envs.files import write_json
from ttt_envs.parallel import Jobs
from ttt_envs.policy import Policy
from ttt_envs.rules import Game
from ttt_envs.specs import FromFile, make_policy, parse_spec

RESULT = "result.json"
GAMES = 500
"""against every rung, where a policy is placed by matches"""
WORST = 5
"""positions that are told in which a policy loses most"""
ASKED = 256
"""how often a policy that is not pure is asked for its first move"""
SAME = 0.05
"""by how much ratings may differ that are the same but for rounding"""


def place(
    policy: str | Policy,
    ladder: Ladder,
    made_by: Mapping[str, Any],
    *,
    games: int = GAMES,
    seed: int = 0,
    jobs: Jobs = 1,
    folder: Path | None = None,
    costs: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Any]:
    """Where a policy stands on a ladder.

    On small boards what is pure has exact results against the rungs, and its exploitability, regret and worst positions
    are computed; else games are played against each rung. What moves cost is measured on this machine, of the rungs in
    one process and of the policy in its own.

    Args:
        policy: a spec string, or a policy, whose cost is then not measured.
        ladder: of :func:`read_ladder`.
        made_by: JSON-ready: versions and code.
        games: against each rung, an even number; not looked at where results are exact.
        seed: of all chance.
        jobs: who plays.
        folder: where results are kept as soon as they are known, so that the same call goes on, and ``result.json`` is
            written in the end.
        costs: whether to measure what moves cost.
        progress: called with how many pieces of work are done, and how many there are.

    Returns:
        What ``result.json`` holds; its keys are documented in docs/files.md.

    Raises:
        ValueError: an unknown policy, one that does not play by the rules or not this game; a number of games that
            makes no pairs.
    """
    check_games(games, least=2)
    game, name = ladder.game, str(policy)
    asked = make_policy(policy, game)
    exact = is_exact(ladder, asked)
    identity = identity_of(policy) if isinstance(policy, str) else ""
    results = _met(
        policy if isinstance(policy, str) else asked,
        ladder,
        {**made_by, "identity": identity, "ladder": ladder.data["sha256"]},
        games=0 if exact else games,
        seed=seed,
        jobs=jobs,
        folder=folder,
        progress=progress or (lambda done, total: None),
    )
    own, of_rungs = None, None
    if costs and isinstance(policy, str):
        own = cost_of_moves(game, policy)[0]
        of_rungs = [one.cpu_s_per_move for one in cost_of_moves(game, *ladder.specs)]
    run = run_of(policy) if isinstance(policy, str) else None
    data: dict[str, Any] = {
        "format": 1,
        "kind": "ladder",
        "policy": name,
        "identity": identity,
        "pure": bool(asked.pure),
        "game": game.to_dict(),
        **_standing(ladder, results, _placed(ladder, results, exact=exact), own, of_rungs),
        "exact": exact,
        **(strength_of(game, asked) if exact else {"exploitability": None, "regret": None}),
        "worst_positions": _worst(game, asked) if exact else [],
        "first_move": _first_move(game, asked, seed),
        "training": None if run is None else _training(run),
        "ladder": {
            key: ladder.data[key]
            for key in ("name", "anchor", "games", "seed", "command", "made_by", "processor", "sha256")
        },
        "settings": {"games": 0 if exact else games, "seed": seed, "confidence": CONFIDENCE},
        "made_by": dict(made_by),
        "processor": processor(),
        "command": shlex.join(
            ["evaluate.py", "ladder", name, "--ladder", ladder.name, "--games", str(games), "--seed", str(seed)]
        ),
    }
    if folder is not None:
        write_json(folder / RESULT, data)
    return data


def is_exact(ladder: Ladder, policy: Policy) -> bool:
    """Whether the results of a policy against the rungs are exact: all are pure, on a small board."""
    small = sum(boards_by_stones(ladder.game)) <= SMALL
    return small and policy.pure and all(make_policy(spec, ladder.game).pure for spec in ladder.specs)


def _met(
    policy: str | Policy,
    ladder: Ladder,
    made_by: Mapping[str, Any],
    *,
    games: int,
    seed: int,
    jobs: Jobs,
    folder: Path | None,
    progress: Callable[[int, int], None],
) -> list[dict[str, Any]]:
    """What a policy makes of each rung."""
    described = ladder.game.to_dict()
    units = [
        {"policy": str(policy), "rung": spec, "game": described, "games": games, "seed": seed_of(seed, number)}
        for number, spec in enumerate(ladder.specs)
    ]
    progress(0, len(units))
    found: dict[int, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as fleeting:
        place = Path(fleeting) if folder is None else folder
        with closing(do_units(partial(_meet, policy), units, place, made_by, jobs=jobs, others=(RESULT,))) as met:
            for number, result in met:
                found[number] = result
                progress(len(found), len(units))
    return [found[number] for number in range(len(units))]


def _standing(
    ladder: Ladder,
    results: Sequence[Mapping[str, Any]],
    rating: Interval,
    own: MoveCost | None,
    of_rungs: Sequence[float] | None,
) -> dict[str, Any]:
    """A rating among those of the rungs, and what moves cost, as JSON-ready data."""
    ratings = [float(rung["rating"]) for rung in ladder.rungs]
    front = front_of([*ratings, rating.mean], None if own is None else [*(of_rungs or ()), own.cpu_s_per_move])
    at = rating.mean + SAME
    below = [str(rung["spec"]) for rung in ladder.rungs if rung["rating"] <= at]
    above = [str(rung["spec"]) for rung in ladder.rungs if rung["rating"] > at]
    scores = [score_of_result(result) for result in results]
    expected = [score_of(rating.mean - one) for one in ratings]
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


def _meet(policy: str | Policy, unit: Unit) -> dict[str, Any]:
    """A piece of work of :func:`place`."""
    return result_of(Game.from_dict(unit["game"]), policy, FromFile(unit["rung"]), unit["games"], unit["seed"])


def _placed(ladder: Ladder, results: Sequence[Mapping[str, Any]], *, exact: bool) -> Interval:
    """The rating under which the results are likeliest, beside those of the rungs, which are held."""
    count = len(ladder.rungs)
    pairs = np.zeros((count + 1, count + 1, 5))
    pairs[count, :count] = [weights_of(result) for result in results]
    known = [*(float(rung["rating"]) for rung in ladder.rungs), None]
    draws = DRAWS if ladder.exact and not exact else 1  # where intervals are taken from it
    found = bradley_terry(pairs, known=known, confidence=CONFIDENCE, draws=draws)[-1]
    if exact:
        return Interval(found.mean, found.mean, found.mean)
    if ladder.exact:
        return found
    # the rungs' own ratings come from samples: all are found again together, to see how much that is in doubt
    for result in ladder.data["results"]:
        pairs[result["a"], result["b"]] = weights_of(result)
    anchor = ladder.specs.index(ANCHOR)
    doubt = bradley_terry(pairs, anchor=anchor, confidence=CONFIDENCE, draws=DRAWS)[-1]
    return Interval(found.mean, found.mean - (doubt.mean - doubt.low), found.mean + (doubt.high - doubt.mean))


def front_of(ratings: Sequence[float], seconds: Sequence[float] | None) -> list[bool | None]:
    """Who is on the Pareto front: nobody is as strong at less cost, or stronger at no more."""
    if seconds is None:
        return [None] * len(ratings)
    both = list(zip(ratings, seconds, strict=True))
    return [not any((r >= rating and s < cost) or (r > rating and s <= cost) for r, s in both) for rating, cost in both]


def _first_move(game: Game, policy: Policy, seed: int) -> list[list[float]]:
    """How likely each move is on the empty board, by rows; the mean of many answers of a policy that is not pure."""
    boards = Boards.start(game, 1 if policy.pure else ASKED)
    rng = None if policy.pure else np.random.default_rng(seed)
    shares = np.asarray(policy.probabilities(boards, rng)).mean(axis=0)
    rows: list[list[float]] = shares.reshape(game.rows, game.columns).tolist()
    return rows


def _worst(game: Game, policy: Policy) -> list[dict[str, Any]]:
    """The positions in which a policy loses most against random play, which brings about every position."""
    return [
        {
            "position": to_text(mistake.choice.position, game),
            "loss": mistake.loss,
            "likely": mistake.likely,
            "cost": mistake.cost,
            "played": {str(cell): float(mistake.choice.probabilities[cell]) for cell in mistake.choice.played},
            "best": mistake.choice.best.tolist(),
        }
        for mistake in worst_positions(game, policy, ANCHOR, WORST)
    ]


def _training(run: Path) -> dict[str, Any]:
    """What a run learned with, and what that cost."""
    config = read_config(run)
    names = ("learner", "settings", "opponent", "seat", "games", "batch", "seed", "versions", "revision")
    return {**{name: config[name] for name in names if name in config}, "file": CONFIG, "cost": read_cost(run)}


def run_of(spec: str) -> Path | None:
    """The folder of the run that a spec string names; None where it names anything else."""
    parsed = parse_spec(spec)
    path = parsed.unkeyed or parsed.keyed.get("path")
    return Path(path) if parsed.name == "run" and path else None
