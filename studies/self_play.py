"""Why self-play leaves holes: exploitability beside regret, and what training visits."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np

from learners.checkpoint import build_config
from learners.ppo import PPO
from studies.alpha_zero import median_and_range
from studies.frame import (
    Claim,
    Panel,
    ResultRow,
    Results,
    Series,
    Study,
    StudyReport,
    Value,
    group,
    read_data,
    train_to,
)
from studies.verdicts import holds_for_all, is_smaller, is_within
from ttt_apps.training.options import default_options
from ttt_envs import make_policy
from ttt_envs.agents.policy import normalise
from ttt_envs.arrays import GameArrays, game_arrays
from ttt_envs.core.jit import Float64Array
from ttt_envs.envs.config import SELF
from ttt_envs.game.game import Game
from ttt_envs.game.openings import RandomPlies
from ttt_eval.exact import exploitability, regret
from ttt_eval.exact.decision_values import DecisionValues, SelfPlayValues
from ttt_eval.store.result_store import Data, Unit

SEEDS = range(1, 11)
"""Seed 0 was tried when the claims were written."""
MARKS = 15
RARE = 1e-3
"""Visits in a game below which a position counts as one that training does not meet."""
MEASURES = ("exploitability", "regret", "coverage")
DATA = read_data("self_play")


class Holes(Study):
    """PPO trains for 450,000 games on 3 x 3, ten seeds for each arm. Apart from what an arm
    changes, the settings are those of Schulman et al. with an entropy coefficient of 0.01, games
    begin on the empty board, and one policy plays both seats. Measured, exactly, is greedy play.
    Coverage is a share of its moves against its best responders: those in positions that training
    meets at least once in 1,000 games. Numbers are the median over seeds (and the
    range). Verdicts are of an exact rank test at 5%, or statements on the seeds trained.
    """

    def units(self, quick: bool) -> list[Unit]:
        """Return the trainings, seeds in the outer loop."""
        arms = {name: DATA["arms"][name] for name in list(DATA["arms"])[: 2 if quick else None]}
        units: list[Unit] = []
        for seed in SEEDS[: 1 if quick else None]:
            for name, arm in arms.items():
                changes = {**DATA["settings"], **arm.get("settings", {})}
                settings = dataclasses.replace(default_options("ppo", SELF)[1], **changes)
                unit = {"opponent": SELF, "openings": "", "skip_chance": 0.0, **arm}
                games = DATA["games"] // (8 if quick else 1)
                unit |= {"arm": name, "games": games, "seed": seed}
                units.append({**unit, "settings": dataclasses.asdict(settings)})
        return units

    def measure(self, unit: Unit) -> list[dict[str, float]]:
        """Train, and measure at each mark: ``games`` and :data:`MEASURES`."""
        game = Game(skip_chance=unit["skip_chance"])
        config = build_config("ppo", unit["settings"])
        training = config.training(
            game,
            unit["games"],
            batch=config.batch,
            seed=unit["seed"],
            opponent=unit["opponent"],
            openings=unit["openings"],
        )
        points = []
        for _ in train_to(training, np.linspace(0, unit["games"], MARKS + 1)[1:]):
            learner = training.learner
            assert isinstance(learner, PPO)
            points.append(
                {
                    "games": training.done.games,
                    "exploitability": exploitability(game, learner),
                    "regret": regret(game, learner),
                    "coverage": coverage(game, learner, unit["opponent"], unit["openings"]),
                }
            )
        return points

    def analyse(self, results: Results) -> StudyReport:
        """Report the measures at the end of each arm, and their curves."""
        runs_of_arms = group(results, "arm")
        games = [point["games"] for point in results[0][1]]
        ends = {
            name: {key: [run[-1][key] for run in runs] for key in MEASURES}
            for name, runs in runs_of_arms.items()
        }
        rows = [
            ResultRow(name, exact={key: median_and_range(end) for key, end in of_arm.items()})
            for name, of_arm in ends.items()
        ]
        claims = [_make_claim(claim, ends) for claim in DATA["claims"] if claim["arm"] in ends]
        panels = []
        for key in MEASURES:
            series = []
            for index, (name, runs) in enumerate(runs_of_arms.items()):
                medians = np.median([[point[key] for point in run] for run in runs], axis=0)
                series.append(Series(name, games, medians, "o-", index))
            panels.append(Panel(series, "games of training", f"{key}, exact"))
        figure = self.figure(panels, seeds=len(results) // len(ends))
        return StudyReport(rows, claims, {"self-play-holes": figure})


def _make_claim(claim: Data, ends: Mapping[str, Mapping[str, Sequence[float]]]) -> Claim:
    """Return the verdict on a claim: that measures at the end of an arm are within limits with
    every seed, or that they are smaller or larger than those of another arm.
    """
    end = ends[claim["arm"]]
    numbers: dict[str, Value] = {}
    verdicts = []
    for key, (low, high) in claim.get("limits", {}).items():
        numbers[key] = median_and_range(end[key])
        verdicts.append(is_within(end[key], low, high))
    for key, relation in claim.get("relations", {}).items():
        values = end[key]
        others = ends[claim["than"]][key]
        numbers[key] = {"": median_and_range(values), claim["than"]: median_and_range(others)}
        samples = (values, others) if relation == "smaller" else (others, values)
        verdicts.append(is_smaller(*samples))
    return Claim(claim["words"], holds_for_all(verdicts), numbers)


# --------------------------------------------------------------------------------------------------
# What training meets


@cache
def _arrays(game: Game) -> GameArrays:
    return game_arrays(game)


def coverage(game: Game, learner: PPO, opponent: str, openings: str) -> float:
    """Return how much of the games in which an opponent exploits a learner is known from training.

    Args:
        game: the game.
        learner: measured is its greedy play; in training it plays as its ``actor``.
        opponent: in training: "self", or a spec string.
        openings: in training: "random:A-B:SHARE", or "" for the empty board.

    Returns:
        Of the learner's moves against its best responders, one in each seat, the share of those in
        positions with at least :data:`RARE` visits in a game of training.
    """
    arrays = _arrays(game)
    greedy = arrays.policy_table(learner, 0)
    assert learner.actor is not None
    actor = arrays.policy_table(learner.actor, 0)
    uniform = normalise(arrays.legal[: arrays.over])
    if opponent == SELF:
        visits = visits_in_self_play(arrays, actor, uniform, openings)
    else:
        reply = arrays.policy_table(make_policy(opponent, game), 0)
        seats = [_visits_against(arrays, actor, reply, seat) for seat in (0, 1)]
        visits = np.mean(seats, axis=0)
    weights = np.zeros(arrays.over)
    for seat in (0, 1):
        responder = DecisionValues(arrays, greedy, 1 - seat)
        _, action_values = responder.optimum()
        is_best = responder.allowed & (action_values >= responder.best(action_values)[:, None])
        reply = uniform.copy()
        reply[responder.rows] = is_best / is_best.sum(axis=1, keepdims=True)
        weights += _visits_against(arrays, greedy, reply, seat)
    return float(weights @ (visits >= RARE) / weights.sum())


def _visits_against(
    arrays: GameArrays, probabilities: Float64Array, opponent: Float64Array, seat: int
) -> Float64Array:
    """Return the expected number of visits of positions, float64[S], in a game of a policy."""
    model = DecisionValues(arrays, opponent, seat)
    visits = np.zeros(arrays.over)
    visits[model.rows] = model.visits(probabilities[model.rows])
    return visits


def visits_in_self_play(
    arrays: GameArrays, probabilities: Float64Array, uniform: Float64Array, openings: str
) -> Float64Array:
    """Return the expected number of visits of positions in a game of self-play, float64[S]."""
    model = SelfPlayValues(arrays)
    if openings:
        first, last, share = RandomPlies.from_text(openings, Game())
        start = model.start
        starts = []
        for _ in range(last):
            start = model.push(start[:, None] * uniform)
            starts.append(start)
        mean = np.mean(starts[first - 1 :], axis=0)
        model.start = share * mean + (1 - share) * model.start
    return model.visits(probabilities)
