"""Pages of comparisons: the verdict is what the intervals of the result decide, whatever else the
result holds.
"""

import copy
import json
import re
import shlex
from xml.etree import ElementTree

import numpy as np
import pytest
from json_files import read_json
from msgspec.structs import replace
from pages import check_in_browser, in_browser, page_of_result
from small_games import SKIP_GAME

from ttt_apps.evaluate import main as evaluate
from ttt_envs.game.boards import coordinate
from ttt_eval.matches.ladder import Ladder, Rung, rate_policy
from ttt_eval.matches.move_cost import MoveCost
from ttt_eval.matches.results import compare_moves
from ttt_eval.matches.score import Score
from ttt_eval.matches.sprt import SPRT, summarize_test
from ttt_eval.matches.tournament import bradley_terry, summarize_tournament
from ttt_eval.reports.formats import duration, format_elo, format_interval, likelihood, number
from ttt_eval.reports.pages import MAX_BYTES, read_result, write_page
from ttt_eval.reports.parts import interval_cells
from ttt_eval.reports.sweep import sweep_report
from ttt_eval.runs.run_files import REPORT
from ttt_eval.runs.sweep import SweepLine, SweepResult, SweepRun, tabulate_runs
from ttt_eval.store.result_store import RESULT
from ttt_eval.store.results import to_json
from ttt_eval.store.statistics import Interval, interval_from_seeds

pytestmark = pytest.mark.more

PROVENANCE = {"versions": {"ttt_envs": "0"}, "code": "abc"}
SETTINGS = {"game": SKIP_GAME.to_dict(), "seed": 3, "openings": None, "provenance": PROVENANCE}
WON = [[60, 5, 20], [4, 6, 1], [3, 0, 1]]
LOST = [[1, 0, 3], [1, 6, 4], [20, 5, 60]]
EVEN = [[20, 5, 20], [5, 0, 5], [20, 5, 20]]
CONTENTS = {
    "sprt": ("Course of the test|The games|Largest differences", 1, {"LLR", "accepts 30 Elo"}),
    "tournament": ("Ratings|Cross table|Largest differences of the best two", 0, set()),
    "ladder": ("The ladder|Against each reference policy|Worst positions", 0, set()),
    "sweep": ("Settings|Learning curves", 0, set()),
}
"""sections, number of pictures, and texts in them"""


def score_of(pairs):
    return Score(np.array(pairs, np.int64))


def sprt(pairs=WON, a="win-or-block", b="random", differences=None):
    score = score_of(pairs)
    test = SPRT(0, 30)
    settings = {**SETTINGS, "a": a, "b": b, "most_games": 4000, "clock": "9+1"}
    path = [(100, test.decide(score).llr)]
    result = summarize_test(test, score, path, **settings)
    return {**result.to_dict(), "differences": differences}


def tournament(
    players=("random", "win-or-block", "optimal"), scores=(LOST, LOST, EVEN), differences=None
):
    results = dict(zip(((0, 1), (0, 2), (1, 2)), map(score_of, scores), strict=True))
    ratings = bradley_terry(
        {pairing: (score.pentanomial, 1.0) for pairing, score in results.items()}, 3, draws=100
    )
    settings = {**SETTINGS, "games_per_pairing": 200}
    result = summarize_tournament(dict.fromkeys(players, ""), results, ratings, **settings)
    return {**result.to_dict(), "differences": differences}


def ladder():
    cost = MoveCost(1e-6, 0.1, 10**8, 10**6)
    rungs = [
        Rung(spec, elo, elo, elo, cost, exploitability=0.1, regret=0.1)
        for spec, elo in (("random", 0.0), ("win-or-block", 200.0), ("optimal", 320.0))
    ]
    data = {"anchor": "random", "games": 0, "sha256": "0"}
    small = Ladder("small", SKIP_GAME, rungs, data, "small.json")
    placed = rate_policy("optimal:epsilon=0.2", small, PROVENANCE, costs=False)
    placed.front = True
    placed.cost = replace(cost, cpu_s_per_move=3.14e-6)
    for rung in placed.rungs:
        rung.cpu_s_per_move_here = 2e-6 + rung.rating * 1e-8
        rung.front = rung.spec == "optimal"
    return placed.to_dict()


def sweep():
    rows = [{"epsilon": 0.1, "games": 5}, {"epsilon": 0.3, "games": 5}]
    values = ((0.2, 0.21, 0.19), (0.4, 0.41, 0.39))
    other = {"cpu_s": 3.0, "peak_rss_bytes": 2.0**28}
    trained_learner = [
        SweepRun(
            row,
            seed,
            {"exploitability": value, "score_against_random": 0.9, **other},
            f"runs/{row} seed{seed}",
        )
        for row in (1, 0)
        for seed, value in enumerate(values[row])
    ]
    table = tabulate_runs(rows, trained_learner)
    result = SweepResult(
        source="steps.toml", table=table, runs=trained_learner, provenance=PROVENANCE
    )
    return json.loads(json.dumps(result.to_dict()))


@pytest.fixture(scope="module")
def results():
    """A result of each kind."""
    result = to_json(compare_moves(SKIP_GAME, "win-or-block", "random"))
    return {
        "sprt": sprt(differences=result),
        "tournament": tournament(differences={"a": 1, "b": 0, "positions": result}),
        "ladder": ladder(),
        "sweep": sweep(),
    }


# --------------------------------------------------------------------------------------------------
# Contents


@pytest.mark.parametrize("kind", CONTENTS)
def test_a_page_has_its_sections_and_pictures(tmp_path, results, kind):
    sections, count, texts = CONTENTS[kind]
    page = page_of_result(tmp_path, results[kind])
    assert [line[3:] for line in page.outline if line[:2] == "h2"] == [
        *sections.split("|"),
        "Reproduction",
    ]
    svgs = re.findall(r"<svg.*?</svg>", (tmp_path / REPORT).read_text(), re.DOTALL)
    assert len(svgs) == count
    assert texts <= {
        "".join(text.itertext())
        for svg in svgs
        for text in ElementTree.fromstring(svg).iter("text")
    }


@pytest.mark.parametrize("kind", CONTENTS)
def test_a_stored_result_is_read_and_written_again(tmp_path, results, kind):
    data = json.loads(json.dumps(results[kind]))
    (tmp_path / RESULT).write_text(json.dumps(data))
    result = read_result(tmp_path)
    result.write(tmp_path)
    assert read_json(tmp_path / RESULT) == data


def test_forfeited_games_are_reported(tmp_path, results):
    forfeits = [2, 0, "it <ended>"]
    words = page_of_result(tmp_path, results["sprt"] | {"forfeits": forfeits}).text()
    named = read_result(tmp_path).to_dict()["forfeits"]
    assert named == dict(zip(("a", "b", "first"), forfeits, strict=True))
    assert "Games were given up, and so lost: 2 by win-or-block. The first: it <ended>" in words


@pytest.mark.parametrize(("pairs", "better"), [(WON, "a"), (LOST, "b"), (EVEN, None)])
def test_the_verdict_of_a_sequential_test_follows_from_its_interval(tmp_path, pairs, better):
    data = sprt(pairs)
    data["test"] |= {"alpha": 0.01, "beta": 0.2}
    words = page_of_result(tmp_path, data).text()
    elo = data["elo"]
    assert {"a": "at most 1.0% of tests", "b": "at most 20.0% of tests", None: "has not ended"}[
        better
    ] in words
    low, mean, high = sorted(elo.values())
    assert {"a": low > 0, "b": high < 0, None: low <= 0 <= high}[better]
    sentences = {
        "a": f"win-or-block is best of 2: Elo {mean:+.0f} ({low:+.0f} to {high:+.0f})",
        "b": f"random is best of 2: Elo {-mean:+.0f} ({-high:+.0f} to {-low:+.0f})",
        None: "Undecided: ",
    }
    assert [key for key, sentence in sentences.items() if sentence in words] == [better]
    accepted = {
        "elo1": "The test accepts 30 Elo",
        "elo0": "The test accepts 0 Elo",
        None: "has not ended",
    }
    assert [key for key, sentence in accepted.items() if sentence in words] == [data["accepted"]]


def test_the_verdict_of_a_tournament_follows_from_direct_games(tmp_path):
    """Also where the intervals of ratings overlap."""
    close = [np.diag(pairs) for pairs in ((8, 92, 0), (8, 92, 0), (50, 0, 50))]
    for data, sentence, overlap in (
        (tournament(scores=(EVEN, LOST, LOST)), "is best of 3: rating", False),
        (tournament(scores=close), "is best of 3: rating", True),
        (tournament(), "Undecided", True),
    ):
        best, second, _ = sorted(data["players"], key=lambda player: -player["rating"]["mean"])
        assert (best["rating"]["low"] <= second["rating"]["high"]) == overlap
        page = page_of_result(tmp_path, data)
        assert sentence in page.text()
        assert page.text().index(best["spec"]) < page.text().index(second["spec"])
        scores = [
            f"{of['mean']:.3f} {of['low']:.3f}-{of['high']:.3f}"
            for of in (pair["score"] for pair in data["pairings"])
        ]
        assert set(scores) <= set(page.tables[1])
        colours = page.attributes("class", "td")
        assert 2 <= colours.count("up") == colours.count("down")


def test_the_place_on_a_ladder_has_its_neighbours_exploitability_and_speed(tmp_path, results):
    data = results["ladder"]
    assert 200 < data["rating"]["low"] == data["rating"]["high"] < 320
    page = page_of_result(tmp_path, data)
    words = page.text()
    assert f"is rated {data['rating']['mean']:+.0f}: above win-or-block, below optimal" in words
    assert (
        f"exploitability {data['exploitability']:.4f}; 3.14 us a move; on the Pareto front."
        in words
    )
    assert "optimal:epsilon=0.2 --ladder small.json --seed 0" in words
    labels = [label for label in page.attributes("aria-label") if "best: " in label]
    for position, label in zip(data["worst_positions"], labels, strict=True):
        assert (
            f"best: {', '.join(coordinate(cell, SKIP_GAME) for cell in position['best'][:4])}"
            in label
        )
    wide = copy.deepcopy({**data, "rating": {"mean": 210.0, "low": 190.0, "high": 230.0}})
    next(rung for rung in wide["rungs"] if rung["spec"] == "win-or-block")["low"] = 180.0
    words = page_of_result(tmp_path, wide).text()
    assert (
        "is rated +210 (+190 to +230): above random, not distinguished from win-or-block, below "
        "optimal" in words
    )


def test_a_sweep_is_sorted_by_its_first_number_and_links_its_runs(tmp_path, results):
    (tmp_path / "runs" / "0 seed1").mkdir(parents=True)
    (tmp_path / "runs" / "0 seed1" / REPORT).write_text("")
    page = page_of_result(tmp_path, results["sweep"])
    best = interval_from_seeds([0.2, 0.21, 0.19])
    words = page.text()
    assert (
        f"epsilon 0.1 is best of 2: exploitability 0.2000 ({best.low:.4f} to {best.high:.4f})"
        in words
    )
    assert page.attributes("href", "a") == ["runs/0%20seed1/report.html"]
    assert words.index("0.2000 (") < words.index("0.4000")
    assert "All have games 5." in words
    assert "python train.py sweep steps.toml" in words
    alike = copy.deepcopy(results["sweep"])
    few = copy.deepcopy(results["sweep"])
    few["table"][0]["seeds"] = 2
    assert (
        "Undecided, because there are fewer than 3 seeds: epsilon 0.1"
        in page_of_result(tmp_path, few).text()
    )
    for row in alike["table"]:
        row["exploitability"] |= {"low": 0.0, "high": 0.5}
    assert "Undecided: epsilon 0.1 came out first of 2" in page_of_result(tmp_path, alike).text()


def test_settings_are_ordered_by_the_first_measure_whichever_is_best():
    point = Interval(0.5, 0.5, 0.5)
    best = {"exploitability": point, "score": Interval(0.9, 0.9, 0.9)}
    lines = [SweepLine({"size": "9"}, 3, {"score": point}), SweepLine({"size": "3"}, 3, best)]
    result = SweepResult(source="x", table=lines, runs=[])
    assert "size 3 is best of 2: score, draws half 0.9000" in sweep_report(result).verdict


def test_positions_where_two_differ_have_the_moves_of_both(tmp_path, results):
    data = results["sprt"]
    labels = [
        label
        for label in page_of_result(tmp_path, data).attributes("aria-label")
        if label.startswith("Board")
    ]
    moves = [difference[player] for difference in data["differences"] for player in ("a", "b")]
    assert len(moves) == 10
    for played, label in zip(moves, labels, strict=True):
        assert f"plays {coordinate(int(next(iter(played))), SKIP_GAME)} (" in label
    assert "They play alike" in page_of_result(tmp_path, {**data, "differences": []}).text()
    assert (
        "computed where both are pure"
        in page_of_result(tmp_path, {**data, "differences": None}).text()
    )


def test_the_command_on_the_page_repeats_the_test(tmp_path, results):
    text = page_of_result(tmp_path, results["sprt"]).text()
    words = shlex.split(text[text.index("python evaluate.py") :])
    evaluate([*words[2:], "--games", "256", "--out", str(tmp_path / "again"), "--no-report"])
    again = read_json(tmp_path / "again" / RESULT)
    for name in ("game", "a", "b", "seed", "openings", "clock", "test", "differences"):
        assert again[name] == results["sprt"][name], name
    assert not (tmp_path / "again" / REPORT).exists()


# --------------------------------------------------------------------------------------------------
# Damaged and hostile results


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"kind": "games", "format": 1}', "is no result"),
        ('{"kind": "sprt", "format": 1}', "missing required field"),
        (
            '{"kind": "sweep", "format": 1, "source": "x", "table": [], "runs": []}',
            r"length >= 1 - at `\$.table`",
        ),
        (" " * (MAX_BYTES + 1), "at most"),
    ],
)
def test_a_file_that_is_no_result_raises_an_error(tmp_path, content, message):
    (tmp_path / RESULT).write_text(content)
    with pytest.raises(ValueError, match=message):
        write_page(tmp_path)


@pytest.mark.parametrize(
    "spec", ['"><script>alert(1)</script>', "</title><b>", "$\\frac{\u4e16\U0001f600\x07"]
)
def test_markup_in_a_result_is_escaped(tmp_path, results, spec):
    hostile = [
        sprt(a=spec, b=f"{spec}:2"),
        tournament((spec, "b", "c")),
        {**results["ladder"], "policy": spec, "processor": spec},
        {**results["sweep"], "source": spec},
    ]
    for data in hostile:
        page = page_of_result(tmp_path, {**data, "provenance": {spec: spec}})
        assert not {"script", "b"} & page.names()
        assert spec.replace("\x07", "\\x07") in page.text()


def test_long_results_are_shortened_and_specs_are_no_options(tmp_path, results):
    data = sprt()
    data["path"] = [[64 * n, n / 1000] for n in range(1, 20_000)] + data["path"][-1:]
    page_of_result(tmp_path, data)
    assert (tmp_path / REPORT).stat().st_size < 200_000
    long = {**results["sweep"], "table": results["sweep"]["table"] * 500}
    assert "The first 200 of 1,000 are shown" in page_of_result(tmp_path, long).text()
    for spec in ("x" * 10_000, "-x"):  # the second would be an option of the command
        with pytest.raises(ValueError, match=r"\$.a"):
            page_of_result(tmp_path, sprt(a=spec))
    spot = {**results["sprt"]["differences"][0], "best": [-1]}
    with pytest.raises(ValueError, match=r">= 0 - at .*best"):
        page_of_result(tmp_path, sprt(differences=[spot]))


def test_numbers_as_text():
    assert format_interval(Interval(-0.2, -0.3, 0.4), format_elo) == "0 (0 to 0)"
    shares = [*map(likelihood, (1.0, 0.0, 0.998, 0.9995))]
    assert shares == ["over 99.9%", "below 0.1%", "99.8%", "over 99.9%"]
    assert [*map(duration, (3.14e-6, 0.0021, 2.5))] == ["3.14 us", "2.1 ms", "2.5 s"]
    assert [*map(number, (0.0, 1 - 1e-12, 0.25, 3.2e-5))] == ["0", "1", "0.2500", "3.2e-05"]
    assert interval_cells([Interval(0.5, 0.25, 1.0)], str, (0.0, 1.0))[0].reach == [25, 50, 100]
    assert interval_cells([None], str) == [""]


@in_browser
@pytest.mark.parametrize("dark", [False, True])
def test_pages_are_accessible_and_fit_at_any_width(tmp_path, results, browser, dark):
    for kind in CONTENTS:
        page_of_result(tmp_path / kind, results[kind])
    check_in_browser(browser, [tmp_path / kind / REPORT for kind in CONTENTS], dark=dark)
