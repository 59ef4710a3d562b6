"""``evaluate.py book``."""

import json

import commands
import pytest

from baselines.opening_book import read_book
from ttt_apps import evaluate


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    path = tmp_path_factory.mktemp("log") / "games.jsonl"
    evaluate.main(["--quiet", "match", "optimal", "win-or-block", "--games", "200", "--log", str(path)])
    return path


def error_of(capsys, *words):
    return commands.error_of(capsys, evaluate.main, "book", *words)


def said(capsys, *words):
    evaluate.main(["book", *words])
    return capsys.readouterr().out


def test_build_and_show(log, tmp_path, capsys):
    path = str(tmp_path / "a.book")
    shown = said(capsys, "build", str(log), "--plies", "4", "--minimum", "2", "--player", "optimal", "--out", path)
    book = read_book(path)
    assert f"{len(book.positions)} positions and {len(book.cells)} moves of 200 games" in shown
    found = json.loads(said(capsys, "show", path, "--json"))
    assert [sum(row[name] for row in found["moves"]) for name in ("ucb", "softmax")] == pytest.approx([1, 1])
    assert sum(row["wins"] + row["draws"] + row["losses"] for row in found["moves"]) == 100
    assert found["moves"][0]["score"] == max(row["score"] for row in found["moves"])
    for row in found["moves"]:
        assert " ".join(row["moves"]) in said(capsys, "show", path)
    assert "it has no move in 'oxo/xo./... x'" in said(capsys, "show", path, "oxo/xo./... x")


def test_build_by_a_search(tmp_path, capsys):
    path = tmp_path / "a.book"
    words = ("--search", "optimal", "--plies", "3", "--skip-chance", "0.25", "--out", str(path))
    assert "35 positions and 169 moves of optimal" in said(capsys, "build", *words)  # 1 + 6 + 28 up to symmetry
    assert [file.name for file in tmp_path.iterdir()] == ["a.book"]
    (best, *_) = json.loads(said(capsys, "show", str(path), "--json"))["moves"]
    assert best["moves"] == ["b2"]


def test_invalid_calls_are_one_line_errors(log, tmp_path, capsys):
    out = str(tmp_path / "a.book")
    assert "no move was made in 500 games" in error_of(capsys, "build", str(log), "--minimum", "500", "--out", out)
    said(capsys, "build", str(log), "--out", out)
    assert "is there already" in error_of(capsys, "build", str(log), "--out", out)
    assert "is no opening book" in error_of(capsys, "show", str(log))
    assert "the game is over" in error_of(capsys, "show", out, "ooo/xx./... x")
