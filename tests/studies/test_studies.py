"""All studies: a page from the smallest form, and numbers known without us."""

import csv
import json
import re
import subprocess

import numpy as np
import pytest
from documents import ROOT

from studies import (
    STUDIES,
    alpha_zero,
    claims,
    compression,
    imitation,
    learners,
    noise,
    self_play,
    svd,
    trees,
)
from ttt_envs import Game
from ttt_envs.agents.policy import normalise
from ttt_envs.agents.specs import load_object
from ttt_envs.arrays import game_arrays
from ttt_eval.benchmark.scores import score_submission
from ttt_eval.exact import exploitability, match_outcome
from ttt_eval.matches.match import play_pairs
from ttt_eval.matches.score import Score
from ttt_eval.store.statistics import wilson

pytestmark = pytest.mark.more

DOCUMENTED = ROOT / "docs" / "studies"
SUBMITTED = noise.SUBMISSIONS / "q-learning.npz"
IN_A_MOMENT = ("slides-tables", "tree-random", "claims")


@pytest.mark.parametrize("name", STUDIES)
def test_studies_are_described_and_have_distinct_units(name):
    study = load_object(STUDIES[name])()
    assert all((study.title, study.source, study.__doc__))
    for quick in (False, True):
        units = [json.dumps(unit, sort_keys=True) for unit in study.units(quick)]
        assert len(units) == len(set(units)) > 0
    assert len(study.units(True)) <= len(study.units(False))


@pytest.mark.parametrize(
    "name",
    [
        name if name in IN_A_MOMENT else pytest.param(name, marks=pytest.mark.slow)
        for name in STUDIES
    ],
)
def test_quick_form(name, tmp_path, evaluate_py, monkeypatch):
    """It writes a page with the questions of the documents, and no unit is measured twice."""
    evaluate_py.text("reproduce", name, "--quick --out", tmp_path)
    page = (tmp_path / "table.md").read_text()
    result = (tmp_path / "result.json").read_text()
    pictures = re.findall(r"!\[.*\]\((.*)\)", page)
    assert sorted(pictures) == sorted(path.name for path in tmp_path.glob("*.png"))
    assert pictures or name in ("svd-table1", "claims")
    questions = re.findall(r"^\*\*(.*)\*\*$", page, re.M)
    documented = "\n".join(path.read_text() for path in DOCUMENTED.glob("*.md"))
    assert set(questions) <= set(re.findall(r"^\*\*(.*)\*\*$", documented, re.M))
    claims_file = DOCUMENTED / f"{name}-claims.csv"
    stored = stored_rows(claims_file) if claims_file.exists() else []
    evidence = {words: numbers for words, _, numbers in stored}
    for claim in json.loads(result)["claims"]:
        assert all(number in evidence[claim["words"]] for number in claim["numbers"]), claim[
            "words"
        ]
    study = load_object(STUDIES[name])
    if evidence and not study.left_out:  # the quick form decides, too
        assert all(row in stored for row in stored_rows(tmp_path / f"{name}-claims.csv"))
    monkeypatch.setattr(study, "measure", None)
    evaluate_py("reproduce", name, "--quick --out", tmp_path)
    assert (tmp_path / "result.json").read_text() == result


def stored_rows(path):
    """Return the rows of a CSV file of claims, without its head: words, verdict and evidence."""
    with path.open(newline="") as file:
        _, *rows = csv.reader(file)
    return rows


def claims_of_pages():
    """Return the claims' tables of the pages, by study: lists of words, verdict and evidence, which
    some tables leave to the CSV file.
    """
    tables = {}
    for page in DOCUMENTED.glob("*.md"):
        for section in re.split("^##+ ", page.read_text(), flags=re.M):
            for name in re.findall(r"\((\S+)-claims\.csv\)", section):
                claims = section[section.index("| claim") :]
                tables[name] = [
                    row[2:-2].split(" | ") for row in re.findall(r"^\| .*\|$", claims, re.M)
                ]
    return tables


def test_pages_have_the_claims_of_the_files_that_studies_write():
    tables = claims_of_pages()
    for path in DOCUMENTED.glob("*-claims.csv"):
        head, *rows = tables.pop(path.stem.removesuffix("-claims"))
        stored = stored_rows(path)
        assert len(head) >= 2
        assert rows == [row[: len(head)] for row in stored], path
    assert not tables


# --------------------------------------------------------------------------------------------------
# The paper on compressed tables


def test_figure_4_uses_the_table_as_published():
    [point] = svd.Figure4().measure({"terminal": "as_published", "ranks": [18]})
    assert [round(rate, 4) for rate in svd.mean(point)] == [
        0.1284,
        0.7933,
        0.0783,
    ]  # known without us
    assert (point["error"], point["numbers"]) == (pytest.approx(0.41339, abs=5e-6), 5832)


@pytest.mark.parametrize(("pair", "rates"), [((3, 7), (0.382, 0.357)), ((12, 14), (0.252, 0.188))])
def test_figure_5_has_known_results(pair, rates):
    win, _, loss = svd.mean(
        svd.Figure5().measure({"terminal": "as_published", "method": "hosvd", "pair": pair})
    )
    assert (round(win, 3), round(loss, 3)) == rates


def test_claims_about_table_1(tmp_path, evaluate_py):
    result = evaluate_py.json("reproduce svd-table1 --out", tmp_path)
    assert all(row["agrees"] for row in result["rows"])
    assert [claim["holds"] for claim in result["claims"]] == [False, False, True]


def test_decompositions_are_the_policies_of_their_names():
    *_, point, _, _ = compression.Decompositions().measure(
        {"table": "random play", "method": "svd"}
    )
    size = point["size"]
    play = point["play"]
    assert (size["rank"], size["numbers"]) == (18, 5832)
    assert play["exploitability"] == pytest.approx(exploitability(Game(), "svd:rank=18"), abs=1e-9)
    assert play["against the whole"] == pytest.approx(
        list(match_outcome(Game(), "svd:rank=18", "table")), abs=1e-9
    )


# --------------------------------------------------------------------------------------------------
# The report on learners


@pytest.mark.parametrize("seed", [0, 1])
def test_duels_are_measured_from_the_challengers_side(seed):
    data = learners.DATA["learners"]
    unit = {
        "challenger": data["program"],
        "benchmark": data["naive"],
        "marks": [0, 300],
        "seed": seed,
    }
    untrained, trained_learner = learners.DuelStudy().measure(unit)
    first = 737 / 1260
    draw = 8 / 63
    second = 121 / 420  # random against random: nothing was learned yet
    assert untrained["exact"] == pytest.approx(
        [second, draw, first] if seed == 0 else [first, draw, second]
    )
    assert sum(trained_learner["exact"]) == pytest.approx(1)
    assert learners.DuelStudy().measure({**unit, "seed": seed + 2}) != [untrained, trained_learner]


# --------------------------------------------------------------------------------------------------
# The report on tree search


@pytest.mark.parametrize("board", trees.BOARDS, ids=lambda board: board.name)
def test_the_tree_is_as_large_and_as_good_as_published(board):
    """Moving second against random, it may win as often as the lower limit of the published games
    says.
    """
    assert trees.first_move_nodes(board, "none") == trees.tree_size(board)
    if board.win_length == 5:  # whose games are short
        _, _, won = play_pairs(board.game, "random", board.spec, 40, seed=20).table[0]
        assert wilson(won / 40, 40).high >= wilson(board.tree[0] / trees.GAMES, trees.GAMES).low


def test_results_of_the_first_mover():
    pairs = np.zeros((3, 3), np.int64)
    pairs[0, 2] = 100  # the first player always wins
    assert trees.first_mover_score(Score(pairs)).table.sum(axis=0).tolist() == [200, 0, 0]
    always = np.diag([100, 0, 0])  # a always wins
    for table, advantage in ((pairs, 1), (pairs.T, -1), (always, 0)):
        assert trees.first_move_advantage(Score(table)).mean == pytest.approx(advantage)


def test_counts_agree_with_similar_rates():
    for published, our_values, agree in (
        ((56, 44, 0), (5_500, 4_500, 0), True),
        ((56, 44, 0), (7_000, 3_000, 0), False),
        ((99, 0, 1), (1_000, 0, 0), True),  # rare, not impossible
        ((100, 0, 0), (999, 0, 0), None),  # too few to tell
    ):
        assert trees.counts_agree(published, our_values) is agree


def test_sampled_rates_of_a_net_agree_with_exact_ones():
    measured = imitation.ImitationNets().measure({"entry": 0, "seed": 1, "pairs": 400})
    table = Score(np.array(measured["pairs"])).table / 400
    assert np.abs(table - np.array(measured["exact"])).max() < 0.1


# --------------------------------------------------------------------------------------------------
# AlphaZero


def test_a_threshold_is_reached_if_it_is_never_exceeded_later():
    for values, expected in (([0.5, 0.0, 0.3, 0.0, 0.0], 4), ([0.0, 0.0], 1), ([0.0, 0.5], np.inf)):
        marks = np.arange(1.0, len(values) + 1)
        curve = alpha_zero.TrainingCurve(100 * marks, marks, np.array(values), None)
        assert curve.reach(alpha_zero.ROUNDING) == (100 * expected, expected)


def test_measurements_are_reproducible():
    unit = {
        **alpha_zero.training_unit("q-learning", Game(2, 3, 2), 6_000),
        "marks": (0.25, 1.0),
        "seed": 3,
    }
    curves = [alpha_zero.Learning().measure(json.loads(json.dumps(unit))) for _ in range(2)]
    assert curves[0]["games"] == curves[1]["games"]
    assert curves[0]["games"][-1] == 6_000
    assert curves[0]["exploitability"] == curves[1]["exploitability"]
    assert all(np.diff(curves[0]["cpu_s"]) > 0)


def claims_of_curves(study, results):
    return {claim.words: claim.holds for claim in study.analyse(results).claims}


@pytest.mark.parametrize(("end", "holds"), [(0.0, True), (0.5, False)])
def test_goals_are_statements_on_the_last_measurement(end, holds):
    """Whether a net is perfect at the end, whenever it became so."""
    study = alpha_zero.Learning()
    curve = {"games": [1, 2], "cpu_s": [70.0, 80.0], "searched": None}
    results = [
        (unit, {**curve, "exploitability": [0.5, 0.0 if unit["seed"] else end]})
        for unit in study.units(False)
        if unit["game"] == alpha_zero.FOUR.to_dict()
    ]
    assert (
        claims_of_curves(study, results)[
            "4 x 4, skip 0: the net plays perfectly at the end, with every seed"
        ]
        == holds
    )


def test_parts_are_claimed_where_every_seed_is_sooner_with_them():
    study = alpha_zero.Ablation()
    results = []
    for unit in study.units(False):
        start = unit["seed"] + (10.0 if unit["variant"] in ("PUCT", "no chance nodes") else 0.0)
        results.append(
            (unit, {"games": [1], "cpu_s": [1 + start], "exploitability": [0.0], "searched": None})
        )
    holds = claims_of_curves(study, results)
    sooner = ("the Gumbel search", "chance nodes")
    assert len(holds) == len(alpha_zero.DATA["parts"])
    assert all(
        verdict is (True if any(part in words for part in sooner) else None)
        for words, verdict in holds.items()
    )


def test_the_search_is_measured_from_a_stored_run():
    unit = alpha_zero.training_unit(
        alpha_zero.NAME, alpha_zero.SKIPS, 16, hidden=(8,), gradient_steps=2
    )
    curve = alpha_zero.Learning().measure({**unit, "marks": (1.0,), "search": True, "seed": 0})
    assert 0 < curve["searched"] < 0.5 * curve["exploitability"][0]


# --------------------------------------------------------------------------------------------------
# Self-play


@pytest.mark.parametrize(("openings", "expected"), [("", [1, 1, 1]), ("random:2-2:1", [0, 0, 1])])
def test_visits_begin_at_the_openings(openings, expected):
    arrays = game_arrays(Game())
    uniform = normalise(arrays.legal[: arrays.over])
    visits = self_play.visits_in_self_play(arrays, uniform, uniform, openings)
    stones = arrays.observations[: arrays.over].sum(axis=1)
    by_stones = np.bincount(stones, weights=visits)
    assert by_stones[:3] == pytest.approx(expected)
    # the same number of visits in four plies that cannot end a game, then fewer
    assert by_stones[4] == pytest.approx(1)
    assert by_stones[5] < 1


@pytest.mark.parametrize("better", ["openings", "plain self-play"])
def test_claims_on_coverage_follow_from_the_measurements(better):
    study = self_play.Holes()
    results = []
    for unit in study.units(False):
        shift = 0.2 if unit["arm"] == better else 0.0
        point = {
            "games": 1,
            "regret": 0.0,
            "exploitability": 0.5 - shift + unit["seed"] / 1000,
            "coverage": 0.5 + shift,
        }
        results.append((unit, [point]))
    words = "random openings: coverage rises, exploitability falls"
    assert claims_of_curves(study, results)[words] == (better == "openings")


# --------------------------------------------------------------------------------------------------
# The noise of games


def test_intervals_over_tasks_with_seeds_in_common_cover_the_mean():
    rng = np.random.default_rng(0)
    inside = []
    for _ in range(500):
        levels = 0.3 + 0.1 * rng.standard_normal((18, 1))
        shares = levels + 0.03 * rng.standard_normal((18, 5))
        interval = noise.mean_over_tasks(
            {str(task): of_task for task, of_task in enumerate(shares.tolist())}
        )
        inside.append(interval.low <= 0.3 <= interval.high)
    assert np.mean(inside) >= 0.93


def test_policies_of_submissions_are_measured():
    """Those in the repository, at their last checkpoint: an own recursion scores them elsewhere."""
    for agent, scored in (
        ("random", None),
        ("q-learning", score_submission(SUBMITTED, last=True).runs),
    ):
        rows = noise.NoiseOfGames().measure({"agent": agent, "checkpoints": 1})
        [row] = [row for row in rows if (row["task"], row["seed"]) == ("random", 1)]
        if scored is None:
            assert row["score"] == pytest.approx(0, abs=1e-9)
            assert row["random"] == pytest.approx([737 / 1260, 121 / 420])  # known without us
        else:
            [run] = [run for run in scored if (run.task, run.seed) == ("random", 1)]
            assert row["score"] == run.score


# --------------------------------------------------------------------------------------------------
# Claims of others


@pytest.mark.parametrize(
    ("table", "wrong"),
    [
        ({}, 4520),
        ({"___\n___\n___": [0, 0], "XX_\nOO_\n___": [1, -1], "OO_\nXX_\nX__": [-1, 1]}, 4517),
        ({"___\n___\n___": [1, -1], "XX_\nOO_\n___": [-1, 1]}, 4520),
    ],
)
def test_values_of_a_checkout_are_compared(table, wrong, tmp_path):
    """Values are the first player's, X's, and what is missing is wrong."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "tictactoe_value_table.json").write_text(json.dumps(table))
    author = ("-c", "user.name=x", "-c", "user.email=x")
    for words in (("init", "-q"), ("add", "."), (*author, "commit", "-qm", "x")):
        subprocess.run(["git", "-C", tmp_path, *words], check=True)
    study = claims.Claims()
    assert not any(unit["blob"] for unit in study.units(False))
    study.use_checkouts([tmp_path])
    [unit] = [unit for unit in study.units(False) if unit["blob"]]
    assert study.measure(unit)["wrong values"] == wrong
