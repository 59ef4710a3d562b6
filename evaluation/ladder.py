"""Ladders: opponents of known strength on standard games, and where a policy stands among them.

A ladder is a dozen policies, its rungs, that met each other once; their ratings (Bradley and Terry, 1952) are kept with
everything that decides them in ``ladders/NAME.json``. ``random`` is 0. On small boards results are exact; else they are
matches. A policy meets every rung, and its rating is the one under which its results are likeliest.
"""

from __future__ import annotations

import hashlib
import json
import math
import shlex
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from baselines.solver import LARGEST
from evaluation.better import score_of
from evaluation.cost import MoveCost, cost_of_moves, processor
from evaluation.estimate import SMALL, boards_by_stones
from evaluation.exact import exploitability, match_outcome, regret
from evaluation.match import Score, play_pairs
from evaluation.report_parts import read_cost
from evaluation.sources import identity_of
from evaluation.statistics import Interval
from evaluation.strength import worst_positions
from evaluation.tournament import DRAWS, bradley_terry
from evaluation.units import Unit, do_units
from learners.checkpoint import CONFIG, read_config
from ttt_envs.boards import Boards, to_text
from ttt_envs.compiling import Reals
from ttt_envs.files import read_json, write_json
from ttt_envs.parallel import Jobs
from ttt_envs.policy import Policy
from ttt_envs.rules import Game
from ttt_envs.specs import FromFile, make_policy, parse_spec

HERE = Path(__file__).parent / "ladders"
RESULT = "result.json"
ANCHOR = "random"
"""whose rating is 0"""
GAMES = 500
"""against every rung, where a policy is placed by matches"""
MOST = 1_000_000
"""games against a rung that can be asked for"""
LARGEST_FILE = 1 << 24
"""bytes of a file that holds a ladder"""
CONFIDENCE = 0.95
"""that an interval holds the truth"""
WORST = 5
"""positions that are told in which a policy loses most"""
ASKED = 256
"""how often a policy that is not pure is asked for its first move"""
SAME = 0.05
"""by how much ratings may differ that are the same but for rounding"""
_CERTAIN = 1e6  # pairs that an exact result counts for: so many that the prior of ratings does not


@dataclass(frozen=True)
class Plan:
    """What a ladder is measured from.

    Attributes:
        game: what is played.
        rungs: spec strings, ``random`` first.
        games: of each pairing, an even number; 0 where all results are exact.
        graded: the rungs whose exploitability and regret are computed.
        seed: of all chance.
    """

    game: Game
    rungs: tuple[str, ...]
    games: int
    graded: tuple[str, ...]
    seed: int = 1


def _tree(simulations: int, *, decisive: bool = True) -> str:
    return f"mcts:simulations={simulations},{'' if decisive else 'decisive=false,'}reuse=false"


_ON_3X3 = (
    "random",
    "table:w=0.5",
    "hosvd:rank=2",
    "hosvd:rank=4",
    "svd:rank=3",
    "svd:rank=4",
    "expectiminimax:depth=1",
    "win-or-block",
    "hosvd:rank=27",
    "expectiminimax:depth=4",
    "expectiminimax:depth=5",
    "optimal",
)
_ON_3X3_SKIP = (
    "random",
    "table:w=0.5",
    "table:w=1",
    "svd:rank=1",
    "hosvd:rank=2",
    "table:w=3",
    "hosvd:rank=3",
    "win-or-block",
    "hosvd:rank=27",
    "expectiminimax:depth=3",
    "optimal:epsilon=0.05",
    "optimal",
)
_TABLES_ON_4X4 = ("random", "table:w=1", "svd:rank=1", "svd:rank=2", "svd:rank=3", "svd:rank=4")
PLANS: Mapping[str, Plan] = {
    "3x3": Plan(Game(), _ON_3X3, 0, _ON_3X3),
    "3x3-skip": Plan(Game(skip_chance=0.25), _ON_3X3_SKIP, 0, _ON_3X3_SKIP),
    "4x4-skip": Plan(
        Game(4, 4, 4, 0.1),
        (
            *_TABLES_ON_4X4,
            "win-or-block",
            _tree(30),
            "svd:rank=128",
            _tree(100),
            "expectiminimax:depth=3",
            "optimal",
        ),
        4_000,
        ("random", "optimal"),  # of a table that takes more than ten minutes
    ),
    "5x5-skip": Plan(
        Game(5, 5, 4, 0.1),
        (
            "random",
            *(_tree(simulations, decisive=False) for simulations in (10, 15, 20, 30, 50)),
            "win-or-block",
            "expectiminimax:depth=1",
            *(_tree(simulations) for simulations in (100, 200, 500)),
            "expectiminimax:depth=3",
            "expectiminimax:depth=5",
        ),
        1_000,
        (),
    ),
}
"""name -> what the ladder of that name is measured from"""


# ---------------------------------------------------------------------------------------------------------------------
# Ladders as they are kept


@dataclass(frozen=True)
class Ladder:
    """A ladder as it was measured.

    Attributes:
        name: one of :data:`PLANS`, or another's.
        game: what is played.
        rungs: by rising rating: ``spec``, ``rating``, ``low``, ``high``, ``exploitability``, ``regret``, ``cost``; see
            docs/files.md.
        data: the file, as JSON-ready data.
    """

    name: str
    game: Game
    rungs: Sequence[Mapping[str, Any]]
    data: Mapping[str, Any]

    @property
    def specs(self) -> list[str]:
        """What plays on each rung."""
        return [rung["spec"] for rung in self.rungs]

    @property
    def exact(self) -> bool:
        """Whether the results between the rungs are exact."""
        return bool(self.data["games"] == 0)


def read_ladder(name: str | Path) -> Ladder:
    """A ladder of ours by its name, or one in a ``.json`` file.

    Its policies are :class:`~ttt_envs.specs.FromFile`: whatever a file says, it runs no code.

    Raises:
        OSError: no file, or one that cannot be read.
        ValueError: no such ladder, a damaged file.
    """
    path = Path(name) if str(name).endswith(".json") else HERE / f"{name}.json"
    if path.parent == HERE and str(name) not in PLANS:
        raise ValueError(f"there is no ladder {str(name)!r}: choose {_names()}, or a .json file")
    if path.parent == HERE and not path.exists():
        raise ValueError(
            f"{path} is missing: install ttt_envs anew, or measure it with evaluate.py ladder --measure {name}"
        )
    data = read_json(path, LARGEST_FILE)
    try:
        if not isinstance(data, dict) or data.get("kind") != "rungs" or data.get("format") != 1:
            raise ValueError("it does not say that it is one, of format 1")
        if data.get("sha256") != sha256_of(data):
            raise ValueError("its content is not what was written")
        rungs = [{**rung, "spec": FromFile(rung["spec"])} for rung in data["rungs"]]
        for rung in rungs:
            if not all(math.isfinite(rung[key]) for key in ("rating", "low", "high")):
                raise ValueError("it has a rung without a rating")
            float(rung["cost"]["cpu_s_per_move"]), int(rung["cost"]["own_bytes"])
        met = {frozenset((result["a"], result["b"])) for result in data["results"]}
        if met != set(map(frozenset, combinations(range(len(rungs)), 2))) or ANCHOR not in [r["spec"] for r in rungs]:
            raise ValueError("it lacks rungs or results")
        if not all(_weights(result).shape == (5,) for result in data["results"]):
            raise ValueError("it has a result that is none")
        return Ladder(str(data["name"]), Game.from_dict(data["game"]), rungs, {**data, "games": int(data["games"])})
    except (ValueError, TypeError, KeyError) as problem:
        why = f"it has no {problem}" if isinstance(problem, KeyError) else problem
        raise ValueError(
            f"{path} holds no whole ladder, {why}: install ttt_envs anew, or measure with evaluate.py ladder --measure"
        ) from None


def ladder_of(game: Game) -> str:
    """The name of the ladder of a game.

    Raises:
        ValueError: there is none.
    """
    for name, plan in PLANS.items():
        if plan.game == game:
            return name
    raise ValueError(
        f"there is no ladder of {game}: choose one of another game with --ladder {_names()}, or sample it here with "
        f"evaluate.py match"
    )


def sha256_of(data: Mapping[str, Any]) -> str:
    """Of all that a ladder's file says, but for the hash itself."""
    rest = {key: value for key, value in data.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def run_of(spec: str) -> Path | None:
    """The folder of the run that a spec string names; None where it names anything else."""
    parsed = parse_spec(spec)
    path = parsed.unkeyed or parsed.keyed.get("path")
    return Path(path) if parsed.name == "run" and path else None


def _names() -> str:
    *most, last = PLANS
    return f"{', '.join(most)} or {last}"


# ---------------------------------------------------------------------------------------------------------------------
# Measuring


def measure_ladder(
    name: str,
    plan: Plan,
    folder: Path,
    made_by: Mapping[str, Any],
    *,
    jobs: Jobs = 1,
    progress: Callable[[int, int], None] | None = None,
) -> Ladder:
    """Measure a ladder, and write it to ``NAME.json`` in a folder.

    Every result is kept there as soon as it is known: killed at any time, the same call goes on. All but what moves
    cost is the same however many work. Costs are measured at the end, by one process at a time.

    Args:
        name: of the ladder.
        plan: what it is measured from.
        folder: where results are kept.
        made_by: JSON-ready: versions and code; results that something else made are thrown away.
        jobs: who works.
        progress: called with how many pieces of work are done, and how many there are.

    Raises:
        ValueError: a number of games that makes no pairs; another process that works in the folder.
    """
    _check_games(plan.games, least=0)
    game, rungs = plan.game, plan.rungs
    described = game.to_dict()
    pairings = list(combinations(range(len(rungs)), 2))
    units: list[dict[str, Any]] = [
        {
            "what": "pairing",
            "game": described,
            "players": [rungs[i], rungs[j]],
            "games": plan.games,
            "seed": _seed(plan.seed, number),
        }
        for number, (i, j) in enumerate(pairings)
    ]
    units += [{"what": "strength", "game": described, "policy": spec} for spec in plan.graded]
    costs: list[dict[str, Any]] = [{"what": "cost", "game": described, "policy": spec} for spec in rungs]
    tell = progress or (lambda done, total: None)
    total, done = len(units) + len(costs), 0
    tell(0, total)
    found: dict[str, Any] = {}
    for place, work, workers in ((folder, units, jobs), (folder / "costs", costs, 1)):
        with closing(do_units(_measure, work, place, made_by, jobs=workers, others=(f"{name}.json",))) as results:
            for number, result in results:
                found[json.dumps(work[number])] = result
                done += 1
                tell(done, total)
    met = [found[json.dumps(unit)] for unit in units[: len(pairings)]]
    strengths = {unit["policy"]: found[json.dumps(unit)] for unit in units[len(pairings) :]}
    ratings = _round_robin(len(rungs), pairings, met, rungs.index(ANCHOR), exact=plan.games == 0)
    order = sorted(range(len(rungs)), key=lambda i: ratings[i].mean)
    place_of = {rung: place for place, rung in enumerate(order)}
    data: dict[str, Any] = {
        "format": 1,
        "kind": "rungs",
        "name": name,
        "game": described,
        "anchor": ANCHOR,
        "games": plan.games,
        "seed": plan.seed,
        "command": f"evaluate.py ladder --measure {name}",
        "made_by": dict(made_by),
        "processor": processor(),
        "rungs": [
            {
                "spec": rungs[i],
                "rating": ratings[i].mean,
                "low": ratings[i].low,
                "high": ratings[i].high,
                **strengths.get(rungs[i], {"exploitability": None, "regret": None}),
                "cost": found[json.dumps(costs[i])],
            }
            for i in order
        ],
        "results": [
            {"a": place_of[i], "b": place_of[j], **result} for (i, j), result in zip(pairings, met, strict=True)
        ],
    }
    write_json(folder / f"{name}.json", {**data, "sha256": sha256_of(data)})
    return read_ladder(folder / f"{name}.json")


def _seed(seed: int, number: int) -> int:
    """Of a pairing: no two have the same luck, nor those of two seeds."""
    return MOST * seed + number


def _check_games(games: int, least: int) -> None:
    if games % 2 or not least <= games <= MOST:
        raise ValueError(
            f"games={games} makes no pairs, two games with the seats swapped: choose an even number from 2 to {MOST:,}"
        )


@lru_cache(maxsize=32)
def _made(game: Game, spec: str, trusted: bool) -> Policy:
    """A policy by its spec, made once in a process: to make it may take longer than to play."""
    return make_policy(spec if trusted else FromFile(spec), game)


def _policy(game: Game, spec: str | Policy) -> Policy:
    return _made(game, str(spec), not isinstance(spec, FromFile)) if isinstance(spec, str) else spec


def _measure(unit: Unit) -> dict[str, Any]:
    """A piece of work of :func:`measure_ladder`."""
    game = Game.from_dict(unit["game"])
    if unit["what"] == "pairing":
        a, b = unit["players"]
        return _result(game, a, b, unit["games"], unit["seed"])
    if unit["what"] == "strength":
        return _strength(game, _policy(game, unit["policy"]))
    cost_of_moves(game, unit["policy"])  # what is compiled is kept on disk, and is no part of the cost
    return cost_of_moves(game, unit["policy"])[0]._asdict()


def _result(game: Game, a: str | Policy, b: str | Policy, games: int, seed: int) -> dict[str, Any]:
    """What a makes of b: exactly where ``games`` is 0."""
    if games == 0:
        found = match_outcome(game, _policy(game, a), _policy(game, b))
        return {"exact": True, "games": 0, **found._asdict(), "pentanomial": None}
    score = play_pairs(game, _policy(game, a), _policy(game, b), games // 2, seed=seed)
    return {"exact": False, "games": score.games, **_shares(score), "pentanomial": score.pentanomial.tolist()}


def _shares(score: Score) -> dict[str, float]:
    counts = score.table.sum(axis=0) / score.games
    return dict(zip(("win", "draw", "loss"), counts.tolist(), strict=True))


def _strength(game: Game, policy: Policy) -> dict[str, float | None]:
    return {
        "exploitability": exploitability(game, policy),
        "regret": regret(game, policy) if game.cells <= LARGEST else None,
    }


def _weights(result: Mapping[str, Any]) -> Reals:
    """float64[5]: pairs by their result. An exact result is so many pairs that sampling has no part in it."""
    if result["exact"]:
        score = result["win"] + result["draw"] / 2
        return _CERTAIN * np.array([1 - score, 0, 0, 0, score])
    return np.array(result["pentanomial"], np.float64)


def _round_robin(
    count: int, pairings: Sequence[tuple[int, int]], met: Sequence[Mapping[str, Any]], anchor: int, *, exact: bool
) -> list[Interval]:
    pairs = np.zeros((count, count, 5))
    for (i, j), result in zip(pairings, met, strict=True):
        pairs[i, j] = _weights(result)
    found = bradley_terry(pairs, anchor=anchor, confidence=CONFIDENCE, draws=1 if exact else DRAWS)
    return [Interval(one.mean, one.mean, one.mean) for one in found] if exact else found


# ---------------------------------------------------------------------------------------------------------------------
# Placing


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
    _check_games(games, least=2)
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
        **(_strength(game, asked) if exact else {"exploitability": None, "regret": None}),
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
        {"policy": str(policy), "rung": spec, "game": described, "games": games, "seed": _seed(seed, number)}
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
    front = _front([*ratings, rating.mean], None if own is None else [*(of_rungs or ()), own.cpu_s_per_move])
    at = rating.mean + SAME
    below = [str(rung["spec"]) for rung in ladder.rungs if rung["rating"] <= at]
    above = [str(rung["spec"]) for rung in ladder.rungs if rung["rating"] > at]
    scores = [_score_of(result) for result in results]
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
    return _result(Game.from_dict(unit["game"]), policy, FromFile(unit["rung"]), unit["games"], unit["seed"])


def _placed(ladder: Ladder, results: Sequence[Mapping[str, Any]], *, exact: bool) -> Interval:
    """The rating under which the results are likeliest, beside those of the rungs, which are held."""
    count = len(ladder.rungs)
    pairs = np.zeros((count + 1, count + 1, 5))
    pairs[count, :count] = [_weights(result) for result in results]
    known = [*(float(rung["rating"]) for rung in ladder.rungs), None]
    draws = DRAWS if ladder.exact and not exact else 1  # where intervals are taken from it
    found = bradley_terry(pairs, known=known, confidence=CONFIDENCE, draws=draws)[-1]
    if exact:
        return Interval(found.mean, found.mean, found.mean)
    if ladder.exact:
        return found
    # the rungs' own ratings come from samples: all are found again together, to see how much that is in doubt
    for result in ladder.data["results"]:
        pairs[result["a"], result["b"]] = _weights(result)
    anchor = ladder.specs.index(ANCHOR)
    doubt = bradley_terry(pairs, anchor=anchor, confidence=CONFIDENCE, draws=DRAWS)[-1]
    return Interval(found.mean, found.mean - (doubt.mean - doubt.low), found.mean + (doubt.high - doubt.mean))


def _score_of(result: Mapping[str, Any]) -> Interval:
    """Wins and half the draws, per game."""
    if result["exact"]:
        score = result["win"] + result["draw"] / 2
        return Interval(score, score, score)
    pairs = np.zeros((3, 3), np.int64)
    pairs[2, 2], pairs[1, 2], pairs[1, 1], pairs[0, 1], pairs[0, 0] = result["pentanomial"]
    return Score(pairs).rate("score", CONFIDENCE)


def _front(ratings: Sequence[float], seconds: Sequence[float] | None) -> list[bool | None]:
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


# ---------------------------------------------------------------------------------------------------------------------
# Showing


def markdown(ladder: Ladder) -> str:
    """A ladder as a table of a page."""
    fronts = _front(
        [rung["rating"] for rung in ladder.rungs], [rung["cost"]["cpu_s_per_move"] for rung in ladder.rungs]
    )
    lines = [
        "| rung | rating | 95% | exploitability | regret | CPU, us a move | memory, MiB | front |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for rung, front in zip(ladder.rungs, fronts, strict=True):
        lines.append(f"| `{rung['spec']}` | {' | '.join(cells_of_rung(ladder, rung))} | {'yes' if front else ''} |")
    return "\n".join(lines)


def cells_of_rung(ladder: Ladder, rung: Mapping[str, Any]) -> list[str]:
    """Rating, interval, exploitability, regret, microseconds a move and MiB of a rung, as text."""
    return [
        f"{rung['rating']:.0f}",
        interval_of_rung(ladder, rung),
        *("" if rung[key] is None else f"{rung[key]:.4f}" for key in ("exploitability", "regret")),
        f"{1e6 * rung['cost']['cpu_s_per_move']:,.3g}",
        f"{rung['cost']['own_bytes'] / 2**20:,.0f}",
    ]


def interval_of_rung(ladder: Ladder, rung: Mapping[str, Any]) -> str:
    """Of its rating, as text; that of the anchor is what it is by choice."""
    if ladder.exact:
        return "exact"
    return "0" if rung["spec"] == ANCHOR else f"{rung['low']:.0f} to {rung['high']:.0f}"
