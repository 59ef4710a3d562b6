"""The report of a run is one file with everything in it."""

import numpy as np

from evaluation.exact import Outcome
from evaluation.match import Score
from evaluation.report import Learned, write_overview, write_report
from ttt_apps import train


def test_the_report_shows_matches_curves_and_cost(tmp_path):
    train.main(["--games", "300", "--log-every", "100", "--out", str(tmp_path)])
    score = Score(np.array([[10, 2, 3], [1, 20, 4], [5, 6, 7]]))
    path = write_report(tmp_path, {"random <b>": score}, {"perfect <i>": Outcome(0.125, 0.5, 0.375)})
    page = path.read_text()
    assert "random &lt;b&gt;" in page
    assert "<b>" not in page
    assert "perfect &lt;i&gt;</td><td>0.125000</td><td>0.500000</td><td>0.375000</td><td>-0.250000" in page
    assert page.count("<polyline") == 3
    assert "How far" not in page
    assert "training" in page
    assert "http" not in page


def test_the_report_shows_how_far_from_perfect_the_learner_was_while_it_learned(tmp_path):
    train.main(["--games", "300", "--log-every", "100", "--exact-every", "100", "--out", str(tmp_path)])
    page = write_report(tmp_path, {}, {}).read_text()
    assert page.count("<polyline") == 5
    assert ">exploitability</text>" in page
    assert ">regret</text>" in page


def test_the_overview_compares_runs_and_links_to_their_pages(tmp_path):
    run = tmp_path / "first <i>"
    found = Learned("q <b>", run, 1_000, 1.25, 2**20, 0.125, 0.0625, {"optimal": Outcome(0.25, 0.5, 0.25)})
    page = write_overview(tmp_path, "Learners & more", [found]).read_text()
    assert '<a href="first &lt;i&gt;/report.html">q &lt;b&gt;</a>' in page
    for words in ("Learners &amp; more", "1,000", "1.2 s", "1 MiB", "0.125000", "0.2500 / 0.5000 / 0.2500"):
        assert words in page
