"""The report of a run is one file with everything in it."""

import numpy as np

from evaluation.match import Score
from evaluation.report import write_report
from ttt_apps import train


def test_the_report_shows_matches_curves_and_cost(tmp_path):
    train.main(["--games", "300", "--log-every", "100", "--out", str(tmp_path)])
    path = write_report(tmp_path, {"random <b>": Score(np.array([[10, 2, 3], [1, 20, 4], [5, 6, 7]]))})
    page = path.read_text()
    assert "random &lt;b&gt;" in page
    assert "<b>" not in page
    assert page.count("<polyline") == 3
    assert "training" in page
    assert "http" not in page
