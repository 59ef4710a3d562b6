"""Frame of the studies: stored results, and the written report."""

import re

import pytest
from json_files import read_json
from squares import CALLS, SQUARES, Squares

from studies.frame import Panel, Series, StudyFigure, draw_figure, judge_claims, reproduce
from ttt_eval.store.result_store import UNITS
from ttt_eval.store.statistics import Interval

pytestmark = pytest.mark.more


def run(folder, provenance=None, **options):
    report, _ = reproduce(Squares(), "squares", folder, provenance or {}, **options)
    return [row.ours for row in report.rows]


@pytest.fixture(autouse=True)
def no_calls():
    CALLS.clear()


def test_units_are_measured_once_and_returned_in_order(tmp_path):
    calls = []
    assert run(tmp_path, progress=lambda *done: calls.append(done)) == SQUARES
    assert calls == [(done, 5) for done in range(6)]
    assert run(tmp_path) == SQUARES
    assert run(tmp_path, quick=True) == SQUARES[:2]
    assert sorted(CALLS) == [0, 1, 2, 3, 4]
    head, _, *later = (tmp_path / UNITS).read_text().splitlines(keepends=True)
    (tmp_path / UNITS).write_text("".join([head, *later]))
    assert run(tmp_path) == SQUARES  # although the first unit is measured last


@pytest.mark.parametrize(("version", "code"), [(1, "new"), (2, "old")])
def test_results_of_another_version_are_kept_and_refused(version, code, tmp_path, monkeypatch):
    run(tmp_path, {"code": "old"})
    with monkeypatch.context() as patch:
        patch.setattr(Squares, "version", version)
        with pytest.raises(ValueError, match=re.escape(str(tmp_path / UNITS))):
            run(tmp_path, {"code": code})
    assert run(tmp_path, {"code": "old"}) == SQUARES
    assert len(CALLS) == 5


@pytest.mark.parametrize("quick", [True, False])
def test_the_page_and_the_numbers(quick, tmp_path):
    _, paths = reproduce(Squares(), "squares", tmp_path, {}, quick=quick)
    page = (tmp_path / "table.md").read_text()
    result = read_json(tmp_path / "result.json")
    assert "| 1 | 1 | yes |" in page  # nothing stands under "published" or "exact"
    assert (
        f"| squares grow | {'undecided' if quick else 'yes'} | from: 0; to: " in page
    )  # the quick form decides nothing
    assert ("Quick form: without three squares" in page) == quick
    assert page.endswith(
        "**Do squares grow?**\n\n![Do squares grow?](squares.png)\n\nDots are squares.\n"
    )
    assert result["rows"][1] == {
        "what": "1",
        "published": None,
        "ours": 1,
        "exact": None,
        "agrees": True,
    }
    assert result["claims"][0]["numbers"]["bounds"] == [0, None]
    assert result["units"][1] == {"unit": {"n": 1}, "result": {"square": 1}}
    assert [path.suffix for path in paths] == [".md", ".json", ".csv", ".csv", ".png", ".svg"]
    assert paths[4].read_bytes().startswith(b"\x89PNG")


def test_claims_are_judged_by_ranges_of_their_numbers():
    claim = {
        "words": "they are small",
        "true_if": {"sizes": [0, 1], "error": [-0.1, 0.1]},
        "evidence": ["sizes", "error", {"read as: at most": 1}],
    }
    numbers = {"sizes": {"a": 0.5, "b": Interval(0.9, 0.8, 1.1)}, "error": 0.0}
    [judged] = judge_claims([claim], numbers, "nets: ")
    assert judged.words == "nets: they are small"
    assert judged.holds is None
    assert judged.numbers == {**numbers["sizes"], "error": 0.0, "read as: at most": 1}
    with pytest.raises(KeyError):
        judge_claims([claim], {"sizes": 1})


def test_figures_draw_every_series():
    from matplotlib.figure import Figure as Canvas

    bars = Series("bars", [1, 2], [Interval(0.5, 0.4, 0.7), 0.2])
    panels = [
        Panel([bars], scales=("log", "symlog")),
        Panel([bars], places=("a", "b")),
        Panel([bars], ticks=(1, 2)),
    ]
    canvas = Canvas()
    draw_figure(StudyFigure("?", "", panels), canvas)
    first, second, third = canvas.axes
    assert (first.get_xscale(), first.get_yscale()) == ("log", "symlog")
    assert second.containers[0][0].get_xdata().tolist() == [0.5, 0.2]
    for axis, words in ((second.yaxis, ["a", "b"]), (third.xaxis, ["1", "2"])):
        assert [label.get_text() for label in axis.get_ticklabels()] == words
    assert [text.get_text() for text in canvas.legends[0].get_texts()] == ["bars"]
