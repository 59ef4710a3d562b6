"""The page of runs side by side: its numbers are those of the exact functions, and damaged parts are left out."""

import shutil

import pytest
import tiny
from commands import error_of, text_of
from pages import accessibility_faults, check_in_browser, in_browser, read_page

from learners.checkpoint import RunPolicy
from ttt_apps import evaluate
from ttt_eval import exact
from ttt_eval.reports.side_by_side import write_side_by_side

OUTLINE = [
    "h1 3 runs side by side",
    "table Strength at the end; a name is a link to the page of the run",
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


def test_numbers_are_exact(runs, tmp_path):
    steps = []
    page = read_page(write_side_by_side(tmp_path / "page.html", runs, lambda done, total: steps.append((done, total))))
    assert [line for line in page.outline if line in OUTLINE] == OUTLINE
    assert steps == [(done, 6) for done in range(1, 7)]  # three runs, and three pairs
    policies = [RunPolicy(tiny.GAME, str(run)) for run in runs]
    strength, matrix, *_ = (table["cells"] for table in page.tables if table["class"] == "data")
    values = [exact.exploitability(tiny.GAME, policy) for policy in policies]
    assert [float(value) for value in strength[::5]] == pytest.approx(values, abs=1e-4)
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
    page = read_page(write_side_by_side(tmp_path / "page.html", [begun, damaged])).text()
    assert "begun is unfinished" in page
    assert "Left out of damaged: " in page
    assert "holds no cost by phase" in page
    assert "metrics.jsonl cannot be read" in page
    assert "evaluate.py tournament" in page


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
    page = write_side_by_side(tmp_path / "page.html", runs)
    check_in_browser([page], tmp_path)
    shown = browser.new_page()
    shown.goto(page.as_uri())
    assert accessibility_faults(shown) == []
