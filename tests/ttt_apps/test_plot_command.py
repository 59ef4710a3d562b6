"""``evaluate.py plot``: figures of each format, their numbers, and notes on what cannot be compared."""

import csv
import re

import numpy as np
import pytest
import tiny
from commands import error_of, json_of, rows_of, text_of

from ttt_apps import evaluate
from ttt_eval.curves import record


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Three seeds of a learner, and one of an agent that is not of this package."""
    folder = tmp_path_factory.mktemp("runs")
    for seed in range(3):
        tiny.train_run("q-learning", folder / f"seed{seed}", f"--seed={seed}")
    for games in (0, 10, 200):
        record(folder / "mine.jsonl", tiny.GAME, "win-or-block", games, learner="mine")
    return folder


def test_files_of_every_format_hold_the_medians(runs, tmp_path, capsys):
    for form, start in (("pdf", b"%PDF"), ("svg", b"<?xml"), ("png", b"\x89PNG")):
        words = ("plot", runs, "--out", tmp_path / f"a.{form}", "--csv", tmp_path / "a.csv")
        assert f"written: {tmp_path / f'a.{form}'}" in text_of(capsys, *words)
        content = (tmp_path / f"a.{form}").read_bytes()
        assert content.startswith(start)
        evaluate.main(list(map(str, words)))
        assert (tmp_path / f"a.{form}").read_bytes() == content  # without date and version
    assert b"FontFile2" in (tmp_path / "a.pdf").read_bytes()  # embedded TrueType, as publishers want it
    with (tmp_path / "a.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["learner"] == "q-learning"]
    ends = [rows_of(runs / f"seed{seed}" / "metrics.jsonl")[-1]["exploitability"] for seed in range(3)]
    assert (rows[-1]["games"], rows[-1]["runs"]) == ("200", "3")
    assert [float(rows[-1][name]) for name in ("low", "exploitability", "high")] == pytest.approx(
        [min(ends), np.median(ends), max(ends)]
    )


def test_groups_axes_and_notes(runs, capsys):
    data = json_of(capsys, "plot", runs, "--x", "steps", "--by", "seed")
    assert [group["settings"] for group in data["groups"][1:]] == [{"seed": seed} for seed in (1, 2)]
    evaluate.main(["plot", str(runs), "--y", "score"])
    shown = capsys.readouterr()
    assert re.search(r"q-learning +3 +200", shown.out)
    assert "mine.jsonl has no measurements of score by games, because no opponent was fixed" in shown.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--out", "a.gif"], "a.gif has no format of figures: end its name in .pdf, .svg, .png"),
        (["--by", "sede"], "no run has the setting 'sede': did you mean 'seed'?"),
        (["--width", "0"], "--width 0 is no width of a figure: choose 1.5 to 20"),
    ],
)
def test_errors_say_what_to_type(runs, capsys, words, message):
    assert message in error_of(capsys, evaluate.main, "plot", runs, *words)
