"""Frame of the studies: stored results, hostile result files, and the written report."""

import errno
import json
import math
import os
import re

import numpy as np
import pytest
from squares import CALLS, SQUARES, Squares

from studies.frame import Figure, Panel, Series, draw_figure, format_value, group, reproduce, write_page
from ttt_eval.result_store import UNITS
from ttt_eval.statistics import Interval


def run(folder, study=None, provenance=None, **options):
    report, _ = reproduce(study or Squares(), "squares", folder, provenance or {}, **options)
    return [row.ours for row in report.rows]


@pytest.fixture(autouse=True)
def no_calls():
    CALLS.clear()


def test_units_are_measured_once_and_returned_in_order(tmp_path):
    calls = []
    assert run(tmp_path, progress=lambda *done: calls.append(done)) == SQUARES
    assert sorted(CALLS) == [0, 1, 2, 3, 4]
    assert calls == [(done, 5) for done in range(6)]
    assert run(tmp_path) == SQUARES
    assert len(CALLS) == 5
    assert run(tmp_path, quick=True) == SQUARES[:2]
    head, _, *later = (tmp_path / UNITS).read_text().splitlines(keepends=True)
    (tmp_path / UNITS).write_text("".join([head, *later]))
    assert run(tmp_path) == SQUARES  # although the first unit is measured last


def test_a_full_disk_is_named_and_leaves_no_part_of_a_result(tmp_path, monkeypatch):
    write = os.write

    def write_part(descriptor, content):
        if b'"square": 4' not in bytes(content):
            return write(descriptor, content)
        write(descriptor, content[:9])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", write_part)
    with pytest.raises(OSError, match=re.escape(str(tmp_path / UNITS))):
        run(tmp_path)
    monkeypatch.undo()
    lines = (tmp_path / UNITS).read_text().split("\n")
    assert len(lines) == 1 + 2 + 1  # the head, two results, and the end of the last line
    assert run(tmp_path) == SQUARES
    assert sorted(CALLS) == [0, 1, 2, 2, 3, 4]


@pytest.mark.parametrize("changes", [{"code": "new"}, {"numpy": "3"}, {}])
def test_results_of_another_version_are_kept_and_refused(changes, tmp_path, monkeypatch):
    run(tmp_path, provenance={"code": "old"})
    stored = (tmp_path / UNITS).read_bytes()
    if not changes:
        monkeypatch.setattr(Squares, "version", 2)
    with pytest.raises(ValueError, match=re.escape(str(tmp_path / UNITS))):
        run(tmp_path, provenance={"code": "old", **changes})
    monkeypatch.undo()
    assert (tmp_path / UNITS).read_bytes() == stored
    assert run(tmp_path, provenance={"code": "old"}) == SQUARES
    assert len(CALLS) == 5


def test_folder_in_use_is_rejected(tmp_path):
    def again(done, total):
        if done == 2:
            with pytest.raises(ValueError, match=f"another process is writing in {tmp_path}"):
                run(tmp_path)

    assert run(tmp_path, progress=again) == SQUARES


def test_links_and_pipes_are_rejected(tmp_path):
    outside = tmp_path / "outside"
    outside.write_text("precious")
    for number, make in enumerate((lambda path: path.symlink_to(outside), os.mkfifo)):
        (tmp_path / str(number)).mkdir()
        make(tmp_path / str(number) / UNITS)
        with pytest.raises(ValueError, match=f"{UNITS} is a (link|pipe), not a regular file"):
            run(tmp_path / str(number))
    assert outside.read_text() == "precious"


@pytest.mark.parametrize(
    "line",
    [
        "[" * 100_000,
        "5",
        '{"unit": 5}',
        '{"unit": {"n": 0}, "result": ' + "9" * 5_000 + "}",
        '{"unit": {"n": 0}, "result": 7, "sha256": "' + "0" * 64 + '"}',
    ],
)
def test_invalid_lines_are_measured_again(line, tmp_path):
    run(tmp_path)
    head = (tmp_path / UNITS).read_text().splitlines()[0]
    (tmp_path / UNITS).write_text(f"{head}\n{line}\n")
    assert run(tmp_path) == SQUARES


def test_the_page_and_the_numbers(tmp_path):
    for quick, answer in ((True, ""), (False, "Largest: 16. ")):
        _, paths = reproduce(Squares(), "squares", tmp_path, {}, quick=quick)
        page = (tmp_path / "table.md").read_text()
        assert "| 1 | 1 | yes |" in page  # nothing stands under "published" or "exact"
        assert "| squares grow | undecided | from: 0; to: " in page
        assert ("Quick form: three squares" in page) == quick
        assert page.endswith(f"**Do squares grow?**\n\n![Do squares grow?](squares.png)\n\n{answer}Dots are squares.\n")
        result = json.loads((tmp_path / "result.json").read_text())
        assert result["rows"][1] == {"what": "1", "published": None, "ours": 1, "exact": None, "agrees": True}
        assert result["claims"][0]["numbers"]["bounds"] == [0, None]
        assert result["units"][1] == {"unit": {"n": 1}, "result": {"square": 1}}
        names = ["table.md", "result.json", "squares.png", "squares.svg"]
        assert [path.name for path in paths] == names
        assert paths[2].read_bytes().startswith(b"\x89PNG")


def test_the_description_has_that_of_the_base():
    class Cubes(Squares):
        """Cubes are alike."""

    report = Squares().analyse([({"n": 0}, {"square": 0})])
    assert "Euclid. Cubes are alike. Nothing differs." in write_page(Cubes(), report, "", quick=True)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (12_345, "12,345"),
        (np.float64(0.25), "0.2500"),
        (1234.56, "1,234.6"),
        (2e-30, "2e-30"),
        (0.0, "0.0000"),
        (None, "undecided"),
        (True, "yes"),
        (math.nan, "unknown"),
        (Interval(0.5, 0.25, 0.75), "0.5000 (0.2500 to 0.7500)"),
        (Interval(0.5, 0.5, 0.5), "0.5000"),
        ([1, "b"], "1 / b"),
        ({"a": 1, "b": {"c": 2, "d": False}, "": 3}, "a: 1; b: c 2, d no; 3"),
        (Interval(10.5, 9.75, 11.0), "10.5 (9.8 to 11.0)"),
    ],
)
def test_values_as_text(value, text):
    assert format_value(value) == text


def test_results_are_grouped_by_their_units():
    results = [({"a": 1, "b": [0, n]}, n) for n in (1, 2)] + [({"a": 2, "b": [0, 1]}, 3), ({"c": 0}, 4)]
    assert group(results, "a") == {1: [1, 2], 2: [3]}
    assert group(results, "a", "b") == {(1, (0, 1)): [1], (1, (0, 2)): [2], (2, (0, 1)): [3]}


def test_figures_draw_every_series():
    from matplotlib.figure import Figure as Canvas

    bars = Series("bars", [1, 2], [Interval(0.5, 0.4, 0.7), 0.2])
    single = Series("", [1, 2], [0.1, 0.0], "-", "black", 0.9)
    panels = [
        Panel([bars, single], "x", "y", scales=("log", "symlog")),
        Panel([bars], places=("a", "b", "c"), limits=(0, 1)),
        Panel([bars], ticks=(1, 2_000, 3)),
    ]
    canvas = Canvas()
    draw_figure(Figure("?", "", panels, {}), canvas)
    first, second, third = canvas.axes
    assert (first.get_xscale(), first.get_yscale()) == ("log", "symlog")
    assert [label.get_text() for label in second.get_yticklabels()] == ["a", "b", "c"]
    assert second.containers[0][0].get_xdata().tolist() == [0.5, 0.2]
    assert [label.get_text() for label in third.get_xticklabels()] == ["1", "2,000", "3"]
    [legend] = canvas.legends
    assert [text.get_text() for text in legend.get_texts()] == ["bars"]
