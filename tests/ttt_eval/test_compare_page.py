"""The page of several runs: its numbers are those of the exact functions, and damaged parts are left out."""

import re
import shutil
from urllib.parse import unquote

import numpy as np
import pytest
import tiny
from commands import error_of, text_of
from pages import accessibility_faults, check_in_browser, in_browser, read_page

from learners.checkpoint import RunPolicy
from ttt_apps import evaluate
from ttt_eval import exact
from ttt_eval.matches.score import Score
from ttt_eval.reports.page import write_report
from ttt_eval.reports.runs import PlayedMatch, read_runs, runs_report
from ttt_eval.run_files import REPORT

OUTLINE = [
    "h1 3 runs side by side",
    "h2 Exact results",
    "h2 Learning curves",
    "h2 Against each other",
]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Three runs; the last one has another setting."""
    folder = tmp_path_factory.mktemp("runs")
    for name, words in (("a", ()), ("b <i>", ("--seed=1",)), ("c", ("--epsilon=0.6",))):
        tiny.train_run("q-learning", folder / name, "--exact-every=10", *words)
    return [folder / name for name in ("a", "b <i>", "c")]


def write_runs(path, runs, *progress):
    return write_report(path, runs_report(read_runs(path, runs, ("random", "optimal"), *progress)))


def test_numbers_are_exact(runs, tmp_path):
    steps = []
    page = read_page(write_runs(tmp_path / "page.html", runs, lambda done, total: steps.append((done, total))))
    assert [line for line in page.outline if line in OUTLINE] == OUTLINE
    assert steps == [(done, 6) for done in range(1, 7)]  # three runs, and three pairs
    policies = [RunPolicy(tiny.GAME, str(run)) for run in runs]
    strength, random, _, matrix, *_ = (table["cells"] for table in page.tables)
    values = [exact.exploitability(tiny.GAME, policy) for policy in policies]
    assert [float(value) for value in strength[::8]] == pytest.approx(values, abs=1e-4)
    outcomes = [exact.match_outcome(tiny.GAME, policy, "random") for policy in policies]
    assert [float(value) for value in random if value] == pytest.approx(np.ravel(outcomes), abs=6e-5)
    result = exact.match_outcome(tiny.GAME, policies[0], policies[1])
    assert matrix[0] == ""
    assert float(matrix[1][:6]) == pytest.approx(result.win + result.draw / 2, abs=1e-4)
    assert f"{result.win:.2f} / {result.draw:.2f} / {result.loss:.2f}" in matrix[1]
    assert "b <i>" in page.text()
    assert [line for line in page.words if line in ("0.3", "0.6")] == ["0.3", "0.3", "0.6"]  # epsilon


def test_an_unfinished_or_damaged_run_is_noted(runs, tmp_path):
    begun, damaged = tmp_path / "begun", tmp_path / "damaged"
    for copy in (begun, damaged):
        shutil.copytree(runs[0], copy)
    lines = (begun / "metrics.jsonl").read_bytes().splitlines(keepends=True)
    (begun / "metrics.jsonl").write_bytes(b"".join(lines[:3]))
    (damaged / "checkpoint.npz").write_bytes(b"nothing")
    (damaged / "cost.json").write_text("[]")
    (damaged / "metrics.jsonl").write_text('{"games": 20}\nnothing\n')
    page = read_page(write_runs(tmp_path / "page.html", [begun, damaged])).text()
    assert "begun is unfinished" in page
    assert "Left out of damaged: " in page
    assert "holds no cost by phase" in page
    assert "metrics.jsonl cannot be read" in page
    assert "evaluate.py match" in page


def test_matches_have_their_exact_score_and_names_are_links(runs, tmp_path):
    for run in runs[:2]:
        (run / REPORT).write_text("")
    result = read_runs(runs[0].parent / "page.html", runs[:2])
    counts, drawn = Score(np.array([[10, 2, 3], [1, 20, 4], [5, 6, 7]])), exact.OutcomeProbabilities(0.25, 0.5, 0.25)
    matches = [PlayedMatch("a", "b <i>", counts, drawn), PlayedMatch("c", "x", counts, None)]
    page = read_page(write_report(runs[0].parent / "page.html", runs_report(result._replace(matches=matches))))
    rate = counts.rate("score")
    assert f"{rate.mean:.4f} {rate.low:.4f} to {rate.high:.4f} 0.5000, inside" in page.text()
    assert f"c against x {counts.games:,}" in page.text()
    links = page.attributes("href", "a")
    assert [(runs[0].parent / unquote(link)).samefile(run / REPORT) for link, run in zip(links, runs, strict=False)]
    assert all(re.fullmatch(r"[A-Za-z0-9%._/-]+", link) for link in links)


def test_one_run_has_a_page(runs, tmp_path):
    assert "It does not play perfectly" in read_page(write_runs(tmp_path / "page.html", runs[:1])).text()


def test_runs_of_other_games_are_refused(runs, tmp_path, capsys):
    other = tiny.train_run("q-learning", tmp_path / "other", "--skip-chance=0")
    assert "different games" in error_of(capsys, evaluate.main, "compare", runs[0], other)


def test_the_command_writes_the_page(runs, tmp_path, capsys):
    page = tmp_path / "pages" / "two.html"
    assert f"a page to look at: {page}" in text_of(capsys, "compare", *runs[:2], "--out", page)
    hrefs = read_page(page).attributes("href", "a")
    assert all(not href.startswith(("/", "http")) for href in hrefs)


@in_browser
def test_the_page_is_accessible_and_fits_at_any_width(runs, tmp_path, browser):
    page = write_runs(tmp_path / "page.html", runs)
    check_in_browser([page], tmp_path)
    shown = browser.new_page()
    shown.goto(page.as_uri())
    assert accessibility_faults(shown) == []
