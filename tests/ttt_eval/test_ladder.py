"""Ladders: equations of ratings, and validity of the stored ladders."""

import json
from dataclasses import replace
from itertools import combinations, pairwise

import make_ladders
import pytest
from json_files import read_json
from make_ladders import PLANS, LadderPlan, measure_ladder
from small_games import SKIP_GAME, TINY_GAME

from ttt_envs.agents.specs import FromFile
from ttt_eval.exact.dynamic_programming import match_outcome
from ttt_eval.matches import ladder as rate
from ttt_eval.matches.ladder import (
    ANCHOR,
    LADDER_FOLDER,
    LadderResult,
    ladder_name,
    pairing_seed,
    pareto_front,
    play_pairing,
    rate_policy,
    read_ladder,
)
from ttt_eval.store.result_store import RESULT, hash_data

PROVENANCE = {"code": "this"}
RUNGS = ("random", "win-or-block", "optimal:epsilon=0.5", "optimal")
EXACT = LadderPlan(SKIP_GAME, RUNGS, 0, RUNGS)
SAMPLED = LadderPlan(
    SKIP_GAME, ("random", "win-or-block", "mcts:simulations=5,reuse=false"), 200, ("random",)
)


@pytest.fixture(scope="module", autouse=True)
def quickly(quick_ladders):
    """Also those that the tool measures."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(make_ladders, "measure_move_costs", quick_ladders)
        yield


def place(policy, ladder, games=500, seed=0, **options):
    return rate_policy(policy, ladder, PROVENANCE, games=games, seed=seed, **options)


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """An exact and a sampled ladder of a small game."""
    folder = tmp_path_factory.mktemp("ladders")
    plans = {"exact": EXACT, "sampled": SAMPLED}
    return {
        name: measure_ladder(name, plan, folder / name, PROVENANCE) for name, plan in plans.items()
    }


def test_random_is_0_and_perfect_play_is_highest(measured):
    ladder = measured["exact"]
    first, *_, best = ladder.rungs
    assert ladder.exact
    assert [rung.rating for rung in ladder.rungs] == sorted(rung.rating for rung in ladder.rungs)
    assert (first.spec, first.rating, best.spec, best.regret) == (
        ANCHOR,
        0,
        "optimal",
        0,
    )
    assert best.exploitability < 1e-12 < first.exploitability
    assert all(rung.low == rung.rating == rung.high for rung in ladder.rungs)


def test_rating_of_a_rung_is_its_own(measured):
    for ladder, rung in ((each, rung) for each in measured.values() for rung in each.rungs):
        result = place(str(rung.spec), ladder, games=200, seed=7)
        assert result.exact == ladder.exact
        if result.exact:
            assert result.rating.mean == pytest.approx(rung.rating, abs=0.01)
            assert result.losses.exploitability == pytest.approx(rung.exploitability, abs=1e-12)
        else:
            assert result.rating.low < rung.rating < result.rating.high


def test_intervals_include_the_uncertainty_of_rungs_and_shrink_with_games(measured):
    ladder = measured["sampled"]
    few, many = (place("win-or-block", ladder, games=games).rating for games in (20, 200))
    fixed = replace(ladder, data={**ladder.data, "games": 0})
    held = place("win-or-block", fixed, games=200).rating
    assert held.mean == many.mean
    assert held.high - held.low < many.high - many.low < few.high - few.low


def test_result_file(measured, tmp_path):
    ladder = measured["exact"]
    placement = place("optimal:epsilon=0.5", ladder, folder=tmp_path)
    data = read_json(tmp_path / RESULT)
    assert data == placement.to_dict()
    assert LadderResult.from_dict(data, tmp_path) == placement
    for result, spec in zip(placement.results, ladder.specs, strict=True):
        shares = match_outcome(SKIP_GAME, "optimal:epsilon=0.5", spec)
        assert (result.win, result.draw, result.loss) == shares
    assert 0 < len(placement.worst_positions) <= rate.MAX_WORST_POSITIONS


def test_pareto_front():
    # cheapest, weaker at the same cost, strong, as strong and dearer
    assert pareto_front([0, -5, 300, 300], [2, 2, 3, 4]) == [True, False, True, False]


# --------------------------------------------------------------------------------------------------
# Stored ladders


@pytest.mark.parametrize("name", PLANS)
def test_stored_ladder_is_complete_and_in_order(name):
    ladder = read_ladder(name)
    plan = PLANS[name]
    assert (ladder.game, ladder.data["games"], ladder.data["seed"]) == (
        plan.game,
        plan.games,
        plan.seed,
    )
    assert (ladder_name(ladder.game), sorted(ladder.specs)) == (name, sorted(plan.rungs))
    for result in ladder.data["results"]:
        assert result["win"] + result["draw"] + result["loss"] == pytest.approx(1)
        assert result["exact"] == ladder.exact
        assert sum(result["pentanomial"] or []) * 2 == result["games"] == plan.games
    for rung in ladder.rungs:
        assert isinstance(rung.spec, FromFile)
        assert rung.low <= rung.rating <= rung.high
        assert (rung.exploitability is not None) == (rung.spec in plan.graded)
        assert rung.cost.cpu_s_per_move > 0
    assert (ladder.rungs[0].spec, ladder.rungs[0].rating) == (ANCHOR, 0)
    for lower, upper in pairwise(ladder.rungs):
        assert lower.high < upper.low
        assert lower.rating + 10 < upper.rating


@pytest.mark.parametrize(
    ("name", "a", "b"),
    [
        ("3x3", "svd:rank=4", "expectiminimax:depth=5"),
        ("3x3-skip", "table:w=3", "win-or-block"),
        ("5x5-skip", "random", "win-or-block"),
        ("5x5-skip", "win-or-block", "mcts:simulations=10,decisive=false,reuse=false"),
    ],
)
def test_stored_results_are_reproduced(name, a, b):
    """Exactly, or game by game."""
    ladder = read_ladder(name)
    plan = PLANS[name]
    pairings = list(combinations(plan.rungs, 2))
    number = next(i for i, pairing in enumerate(pairings) if set(pairing) == {a, b})
    first, second = pairings[number]
    again = play_pairing(plan.game, first, second, plan.games, pairing_seed(plan.seed, number))
    stored = {
        (ladder.specs[result["a"]], ladder.specs[result["b"]]): result
        for result in ladder.data["results"]
    }
    stored = stored[first, second]
    assert again["pentanomial"] == stored["pentanomial"]
    for key in ("win", "draw", "loss"):
        assert again[key] == pytest.approx(stored[key], abs=1e-9)


@pytest.mark.parametrize(
    ("message", "change"),
    [
        (r"mine\.json.*checksum", lambda data: data["rungs"][0].update(rating=9.0)),
        (r"mine\.json", lambda data: data["rungs"].pop()),
        (r"mine\.json", lambda data: data["results"][3].update(a=99)),
        (r"mine\.json", lambda data: data["rungs"][3]["cost"].update(own_bytes=[1])),
        (r"mine\.json.*rating", lambda data: data["rungs"][3].update(rating=1e308)),
        ("was read from a file", lambda data: data["rungs"][3].update(spec="os:system")),
    ],
)
def test_damaged_files_are_rejected_and_run_no_code(message, change, tmp_path):
    data = read_json(LADDER_FOLDER / "3x3.json")
    change(data)
    if "checksum" not in message:
        del data["sha256"]
    (tmp_path / "mine.json").write_text(json.dumps({"sha256": hash_data(data), **data}))
    with pytest.raises(ValueError, match=message):
        place("random", read_ladder(tmp_path / "mine.json"))


def test_ladder_is_measured_by_the_tool_and_used(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(PLANS, "tiny", LadderPlan(TINY_GAME, ("random", "win-or-block"), 40, ()))
    make_ladders.main(("tiny",), out=tmp_path)
    path = tmp_path / "tiny" / "tiny.json"
    assert (capsys.readouterr().out, read_ladder(path).data["games"]) == (f"written: {path}\n", 40)
    assert place("optimal", read_ladder(path), games=40).rating.mean > 0
