"""Pages of evidence: the verdict is what the intervals in the result say, whatever else the result holds."""

import copy
import json
import re
import shlex
from xml.etree import ElementTree

import numpy as np
import pytest
from pages import CHROMIUM, looked_at, widths

from evaluation.exact.strength import differences_within
from evaluation.matches.elo import SPRT
from evaluation.matches.ladder import Ladder, place
from evaluation.matches.score import Score
from evaluation.matches.sprt import SequentialMatch
from evaluation.matches.tournament import Tournament, bradley_terry
from evaluation.reports import plots
from evaluation.reports.comparison import MAX_BYTES, RESULT, write_comparison
from evaluation.reports.formats import describe_better, duration, format_elo_difference, format_interval, likelihood
from evaluation.reports.result_reader import interval_in
from evaluation.run_files import REPORT
from evaluation.statistics import Interval, of_seeds
from evaluation.sweep import Trained, lines_of, write_sweep
from ttt_apps.evaluate import main as evaluate
from ttt_envs.game.boards import coordinate
from ttt_envs.game.rules import Game

SKIP = Game(skip_chance=0.25)
KINDS = ("sprt", "tournament", "ladder", "sweep")
MADE = {"versions": {"ttt_envs": "0"}, "code": "abc"}
WON, LOST, EVEN = (
    [[60, 5, 20], [4, 6, 1], [3, 0, 1]],
    [[1, 0, 3], [1, 6, 4], [20, 5, 60]],
    [[20, 5, 20], [5, 0, 5], [20, 5, 20]],
)


def played(pairs):
    return Score(np.array(pairs, np.int64))


def sprt(pairs=WON, a="win-or-block", b="random", differences=None):
    score, test = played(pairs), SPRT(0, 30)
    decision = test.decide(score)
    settings = {
        "game": SKIP.to_dict(), "a": a, "b": b, "identities": {a: "", b: ""}, "seed": 3, "openings": None,
        "openings_sha256": None, "most_games": 4000, "block": 64, "made_by": MADE,
    }  # fmt: skip
    path = [(50, decision.llr / 3), (100, decision.llr)]
    return SequentialMatch(test, score, decision, path, settings, differences).to_dict()


def tournament(players=("random", "win-or-block", "optimal"), scores=(LOST, LOST, EVEN), differences=None):
    met = dict(zip(((0, 1), (0, 2), (1, 2)), map(played, scores), strict=True))
    counts = np.zeros((3, 3, 5), np.int64)
    for pairing, score in met.items():
        counts[pairing] = score.pentanomial
    settings = {
        "game": SKIP.to_dict(), "identities": dict.fromkeys(players, ""), "seed": 0, "openings": None,
        "openings_sha256": None, "games_per_pairing": 200, "block": 64, "anchor": None, "prior": 0.2, "draws": 100,
        "rated_by": {"choix": "0"}, "made_by": MADE,
    }  # fmt: skip
    return Tournament(players, met, bradley_terry(counts, draws=100), settings, differences).to_dict()


def small_ladder():
    kept = {"cpu_s_per_move": 1e-6, "setup_cpu_s": 0.1, "peak_rss_bytes": 10**8, "own_bytes": 10**6}
    rungs = [
        {
            "spec": spec,
            "rating": rating,
            "low": rating,
            "high": rating,
            "exploitability": 0.1,
            "regret": 0.1,
            "cost": kept,
        }
        for spec, rating in (("random", 0.0), ("win-or-block", 200.0), ("optimal", 320.0))
    ]
    data = {
        "name": "small",
        "anchor": "random",
        "games": 0,
        "seed": 0,
        "command": "",
        "made_by": MADE,
        "processor": "x",
    }
    return Ladder("small", SKIP, rungs, {**data, "sha256": "0", "results": []})


def sweep(folder):
    rows = [{"epsilon": 0.1, "games": 5}, {"epsilon": 0.3, "games": 5}]
    numbers = [[0.2, 0.21, 0.19], [0.4, 0.41, 0.39]]
    trained = [
        Trained(row, seed, {"exploitability": numbers[row][seed], "score_against_random": 0.9, "cpu_s": 2.0 + seed})
        for row in (1, 0)
        for seed in range(3)
    ]
    runs = [{**one._asdict(), "run": f"runs/{one.row} seed{one.seed}"} for one in trained]
    write_sweep(folder, "steps.toml", MADE, lines_of(rows, trained), runs)
    return json.loads((folder / RESULT).read_text())


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """A result of each kind."""
    found = differences_within(SKIP, "win-or-block", "random")
    placed = place("optimal:epsilon=0.2", small_ladder(), MADE, costs=False)
    placed |= {"front": True, "cost": {**small_ladder().rungs[0]["cost"], "cpu_s_per_move": 3.14e-6}}
    for rung in placed["rungs"]:
        rung |= {"cpu_s_per_move_here": 2e-6 + rung["rating"] * 1e-8, "front": rung["spec"] == "optimal"}
    return {
        "sprt": sprt(differences=found),
        "tournament": tournament(differences={"a": 1, "b": 0, "positions": found}),
        "ladder": placed,
        "sweep": sweep(tmp_path_factory.mktemp("sweep")),
    }


def page_of(folder, data):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / RESULT).write_text(json.dumps(data))
    path = write_comparison(folder)
    assert path == folder / REPORT
    return looked_at(path)


# ---------------------------------------------------------------------------------------------------------------------
# What they say first


def test_games_that_were_given_up_are_told(tmp_path, results):
    words = page_of(tmp_path / "without", results["sprt"]).text()
    assert "given up" not in words
    forfeits = {"a": 2, "b": 0, "first": "it <ended>"}
    words = page_of(tmp_path / "sprt", results["sprt"] | {"forfeits": forfeits}).text()
    assert "Games were given up, and so lost: 2 by win-or-block. The first: it <ended>" in words
    data = copy.deepcopy(results["tournament"])
    data["pairings"][0] |= {"forfeits": {"a": 0, "b": 3, "first": "it ended"}}
    loser = data["players"][data["pairings"][0]["b"]]["spec"]
    words = page_of(tmp_path / "tournament", data).text()
    assert words.count(f"Games were given up, and so lost: 3 by {loser}. The first: it ended") == 1


@pytest.mark.parametrize(("pairs", "better_one"), [(WON, "a"), (LOST, "b"), (EVEN, None)])
def test_the_verdict_of_a_test_is_what_its_interval_says(tmp_path, pairs, better_one):
    data = sprt(pairs)
    words = page_of(tmp_path, data).text()
    elo = data["elo"]
    told = {"a": elo["low"] > 0, "b": elo["high"] < 0, None: elo["low"] <= 0 <= elo["high"]}
    assert told[better_one]
    sentences = {
        "a": f"win-or-block is better than random: Elo {elo['mean']:+.0f} ({elo['low']:+.0f} to {elo['high']:+.0f})",
        "b": f"random is better than win-or-block: Elo {-elo['mean']:+.0f} ({-elo['high']:+.0f} to {-elo['low']:+.0f})",
        None: "Undecided whether win-or-block or random is better: Elo of win-or-block",
    }
    assert [key for key, sentence in sentences.items() if sentence in words] == [better_one]
    accepted = {"elo1": "The test accepts 30 Elo", "elo0": "The test accepts 0 Elo", None: "has not ended"}
    assert [key for key, sentence in accepted.items() if sentence in words] == [data["accepted"]]
    assert f"{data['games']:,}" in words


def test_a_perfect_score_is_infinite_elo_and_never_certain(tmp_path):
    words = page_of(tmp_path, sprt([[50, 0, 0], [0, 0, 0], [0, 0, 0]])).text()
    assert "win-or-block is better than random: Elo infinite (+" in words
    assert "likelihood of superiority over 99.9%" in words
    assert "likelihood of superiority 100%" not in words


def test_the_verdict_of_a_tournament_is_what_its_intervals_say(tmp_path):
    clear = tournament(scores=(EVEN, LOST, LOST))
    best, *rest = sorted(clear["players"], key=lambda one: -one["rating"]["mean"])
    assert best["rating"]["low"] > max(one["rating"]["high"] for one in rest)
    assert f"{best['spec']} is the best of 3: rating" in page_of(tmp_path / "clear", clear).text()
    level = tournament()
    best, second, _ = sorted(level["players"], key=lambda one: -one["rating"]["mean"])
    assert best["rating"]["low"] <= second["rating"]["high"]
    words = page_of(tmp_path / "level", level).text()
    assert f"Undecided who is best of 3: {best['spec']}" in words
    assert f"is not told apart from {second['spec']}" in words
    assert "is the best of" not in words


def test_the_cross_table_has_every_score_in_the_colour_of_its_value(tmp_path):
    data = tournament()
    page = page_of(tmp_path, data)
    cells = [
        cell for table in page.tables for cell in table["cells"] if re.fullmatch(r"\d\.\d{3}\d\.\d{3}-\d\.\d{3}", cell)
    ]
    assert len(cells) == 6
    for one in data["pairings"]:
        score = one["score"]
        assert f"{score['mean']:.3f}{score['low']:.3f}-{score['high']:.3f}" in cells
    coloured = [named["class"] for tag, named in page.tags if tag == "td" and named.get("class") in ("up", "down")]
    assert (coloured.count("up"), coloured.count("down")) == (2, 2)


def test_a_place_on_a_ladder_says_between_whom_how_exploitable_how_fast(tmp_path, results):
    data = results["ladder"]
    assert 200 < data["rating"]["low"] == data["rating"]["high"] < 320
    page = page_of(tmp_path, data)
    words = page.text()
    assert f"is rated {data['rating']['mean']:.0f}: between win-or-block and optimal" in words
    assert f"exploitability {data['exploitability']:.4f}; 3.14 us a move; on the Pareto front." in words
    wide = {**data, "rating": {"mean": 210.0, "low": 190.0, "high": 230.0}}
    words = page_of(tmp_path, wide).text()
    assert "is rated 210 (190 to 230): above random, not told apart from win-or-block, below optimal" in words
    for one, shown in zip(
        data["worst_positions"], [n for _, n in page.tags if "best: " in n.get("aria-label", "")], strict=True
    ):
        best = ", ".join(coordinate(cell, SKIP) for cell in one["best"][:4])
        assert f"best: {best}" in shown["aria-label"]


def test_a_sweep_is_sorted_by_its_first_number_and_leads_to_its_runs(tmp_path, results):
    folder = tmp_path / "a sweep"
    (folder / "runs" / "0 seed1").mkdir(parents=True)
    (folder / "runs" / "0 seed1" / REPORT).write_text("")
    page = page_of(folder, results["sweep"])
    best = of_seeds([0.2, 0.21, 0.19])
    words = page.text()
    assert f"epsilon 0.1 is best of 2: exploitability 0.2000 ({best.low:.4f} to {best.high:.4f})" in words
    assert [named["href"] for tag, named in page.tags if tag == "a"] == ["runs/0%20seed1/report.html"]
    assert words.index("0.2000 (") < words.index("0.4000")
    assert "All have games 5." in words
    assert "training of all runs18.0 s" in words
    alike = copy.deepcopy(results["sweep"])
    for one in alike["table"]:
        one["exploitability"]["low"] = 0.0
        one["exploitability"]["high"] = 0.5
    assert "Undecided: epsilon 0.1 came out first of 2" in page_of(folder, alike).text()


def test_links_do_not_leave_the_folder(tmp_path, results):
    data = copy.deepcopy(results["sweep"])
    (tmp_path / REPORT).write_text("")
    data["runs"] = [
        {**one, "run": run} for one, run in zip(data["runs"], ["..", "/", str(tmp_path), "a/../.."], strict=False)
    ]
    assert not [tag for tag, _ in page_of(tmp_path / "sweep", data).tags if tag == "a"]


def test_where_two_differ_is_shown_for_both(tmp_path, results):
    page = page_of(tmp_path, results["sprt"])
    labels = [named["aria-label"] for _, named in page.tags if named.get("aria-label", "").startswith("Board")]
    assert len(labels) == 2 * len(results["sprt"]["differences"]) == 10
    for one, (mine, theirs) in zip(
        results["sprt"]["differences"], zip(labels[::2], labels[1::2], strict=True), strict=True
    ):
        for moves, label in ((one["a"], mine), (one["b"], theirs)):
            assert f"plays {coordinate(int(next(iter(moves))), SKIP)} (" in label
    assert "they play alike" in page_of(tmp_path, {**results["sprt"], "differences": []}).text()
    assert "computed where both are pure" in page_of(tmp_path, {**results["sprt"], "differences": None}).text()


def test_the_pictures_have_the_names_and_the_numbers(tmp_path, results):
    for kind, count in (("sprt", 2), ("tournament", 1), ("ladder", 2)):
        page_of(tmp_path, results[kind])
        found = re.findall(r"<svg.*?</svg>", (tmp_path / REPORT).read_text(), re.DOTALL)
        assert len(found) == count
        texts = {"".join(one.itertext()) for one in ElementTree.fromstring(found[0]).iter("text")}
        wanted = {"sprt": {"A - B"}, "tournament": {"3 random"}, "ladder": {"optimal", "random", "optimal:epsilon=0.2"}}
        assert wanted[kind] <= texts


def test_the_command_on_the_page_asks_for_the_same(tmp_path, results):
    text = page_of(tmp_path, results["sprt"]).text()
    words = shlex.split(text[text.index("python evaluate.py") : text.index("All settings and versions")])
    asked = [*words[2:], "--games", "256", "--out", str(tmp_path / "again"), "--no-report"]
    evaluate(asked)
    again = json.loads((tmp_path / "again" / RESULT).read_text())
    for name in ("game", "a", "b", "seed", "openings", "test"):
        assert again[name] == results["sprt"][name], name
    assert again["differences"] == results["sprt"]["differences"]
    assert not (tmp_path / "again" / REPORT).exists()


def test_commands_end_with_a_page(tmp_path, capsys):
    asked = ["tournament", "random", "win-or-block", "--games", "20", "--out", str(tmp_path)]
    evaluate(asked)
    assert f"a page to look at: {tmp_path / REPORT}" in capsys.readouterr().out
    assert "win-or-block" in looked_at(tmp_path / REPORT).text()


# ---------------------------------------------------------------------------------------------------------------------
# Results that are none


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("[]", "is no result of a kind that has a page"),
        ('{"kind": "games", "format": 1}', "is no result of a kind"),
        ('{"kind": ["sprt"], "format": 1}', "is no result of a kind"),
        ('{"kind": "sprt", "format": 2}', "is no result of a kind"),
        ('{"kind": "sprt", "format": 1}', "holds no whole result: a is None, and must be a text"),
        ('{"kind": "sweep", "format": 1, "table": []}', "table is empty"),
        ('{"kind": "tournament", "format": 1, "players": []}', "game is None"),
        ("nonsense", "is not JSON"),
        ("[" * 100_000, "nested too deeply"),
        (" " * (MAX_BYTES + 1), "at most"),
    ],
)
def test_what_is_no_result_is_refused_in_a_sentence(tmp_path, content, said):
    (tmp_path / RESULT).write_text(content)
    with pytest.raises(ValueError, match=said):
        write_comparison(tmp_path)


JUNK = (
    None,
    True,
    -1,
    1e300,
    10**39,
    "x",
    [],
    [[]],
    {},
    {"mean": 1},
    [1, "2"],
    {"mean": 0.5, "low": 0.6, "high": 0.4},
    [{}],
)


def places(data, path=()):
    """Where something stands in a result, of each list the first."""
    for key, value in list(data.items()) if isinstance(data, dict) else list(enumerate(data))[:1]:
        yield (*path, key)
        if isinstance(value, dict | list):
            yield from places(value, (*path, key))


@pytest.mark.parametrize("kind", KINDS)
def test_whatever_is_damaged_is_left_out_or_refused_and_a_sentence_says_so(tmp_path, monkeypatch, results, kind):
    monkeypatch.setattr(plots, "find_spec", lambda name: None)
    monkeypatch.setattr("os.fsync", lambda descriptor: None)
    spots, left_out, refused = list(places(results[kind])), 0, []
    for number, spot in enumerate(spots):
        for junk in {number % len(JUNK), (5 * number + 3) % len(JUNK)}:
            data = copy.deepcopy(results[kind])
            *way, last = spot
            inner = data
            for key in way:
                inner = inner[key]
            inner[last] = JUNK[junk]
            try:
                left_out += "Left out: " in page_of(tmp_path, data).text()
            except ValueError as problem:
                refused.append(str(problem))
    assert left_out > 5
    assert len(refused) > 3
    assert all(RESULT in sentence for sentence in refused)


@pytest.mark.parametrize(
    "spec", ["<script>alert(1)</script>", '"><b onclick=x>', "$\\frac{", "</title>", "\u4e16\U0001f600\x07", "-x"]
)
def test_whatever_stands_in_a_result_is_shown_and_never_becomes_part_of_the_page(tmp_path, results, spec):
    hostile = [
        sprt(a=spec, b=f"{spec}:2"),
        tournament((spec, "b", "c")),
        {**results["ladder"], "policy": spec, "processor": spec, "between": {"below": spec, "above": spec}},
        {**results["sweep"], "source": spec},
    ]
    for data in hostile:
        page = page_of(tmp_path, {**data, "made_by": {spec: spec}})
        assert not {"script", "b"} & {tag for tag, _ in page.tags}
        assert spec.replace("\x07", "\\x07") in page.text()
        if spec == "-x":
            assert "must be the spec string of a policy" in page.text()


def test_long_results_make_pages_that_can_be_looked_at(tmp_path, results):
    data = sprt()
    data["path"] = [[64 * n, n / 1000] for n in range(1, 20_000)] + data["path"][-1:]
    assert "Left out" not in page_of(tmp_path, data).text().replace("Left out: it is computed", "")
    long = {**results["sweep"], "table": results["sweep"]["table"] * 500}
    assert "The first 200 of 1,000 are shown" in page_of(tmp_path, long).text()
    assert "must be the spec string" in page_of(tmp_path, sprt(a="x" * 10_000)).text()


# ---------------------------------------------------------------------------------------------------------------------
# Pieces


def test_words_follow_from_intervals():
    assert describe_better("a", "b", Interval(0.6, 0.55, 0.65), 0.999) == (
        "a is better than b: Elo +70 (+35 to +108), likelihood of superiority 99.9%"
    )
    assert describe_better("a", "b", Interval(0.4, 0.35, 0.45), 0.001).startswith(
        "b is better than a: Elo +70 (+35 to +108)"
    )
    assert describe_better("a", "b", Interval(0.5, 0.5, 0.5), 0.5).startswith(
        "Undecided whether a or b is better: Elo of a 0,"
    )
    assert format_interval(Interval(-0.2, -0.3, 0.4), format_elo_difference) == "0 (0 to 0)"
    assert (likelihood(1.0), likelihood(0.0), likelihood(0.998)) == ("over 99.9%", "below 0.1%", "99.8%")
    assert [duration(value) for value in (3.14e-6, 0.0021, 2.5)] == ["3.14 us", "2.1 ms", "2.5 s"]


@pytest.mark.parametrize(
    "value", [None, 3, {}, {"mean": 1, "low": 2, "high": 3}, {"mean": float("nan")}, {"mean": 1, "low": 1}]
)
def test_intervals_that_are_none_are_refused(value):
    with pytest.raises(ValueError, match="must be"):
        interval_in({"score": value}, "score")


# ---------------------------------------------------------------------------------------------------------------------
# In a browser


@pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium to look at pages with")
@pytest.mark.parametrize("dark", [False, True])
def test_a_browser_shows_pages_of_any_width_without_scrolling_aside_in_light_and_in_dark(tmp_path, results, dark):
    for kind in KINDS:
        page_of(tmp_path / kind, results[kind])
    found = widths([tmp_path / kind / REPORT for kind in KINDS], tmp_path, dark=dark)
    assert len(found) == 3 * len(KINDS)
    for width, needed, height, ground in found:
        assert needed <= width
        assert height > 500
        assert (ground < 50) == dark
