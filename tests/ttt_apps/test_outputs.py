"""Files and folders that commands write: what is there already is continued or refused, and
replaced only if asked.
"""

import json
from pathlib import Path

import pytest
from commands import error_of, json_of

from ttt_apps import evaluate
from ttt_apps.training import command as train
from ttt_eval.runs.run_files import REPORT
from ttt_eval.store.result_store import RESULT

MATCH = ("match", "random", "win-or-block", "--games", "8")
TOURNAMENT = ("match", "random", "win-or-block", "table", "--games", "8")
TEST = ("match", "random", "win-or-block", "--sprt", "0", "20", "--games", "32")
CONTENT = "mine" * 20


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.name in (RESULT, REPORT)}


@pytest.mark.parametrize(
    ("words", "option"),
    [
        ("puzzles", "--out=a.json"),
        ("games LOG", "--out=a.txt"),
        ("compare RUN", "--out=a.html"),
        ("plot RUN", "--out=a.svg"),
        ("plot RUN", "--csv=a.csv"),
        ("check agent optimal", "--out=a.html"),
        ("bench score SCORES", "--out=a.json"),
        ("bench report SCORES", "--out=a.html"),
        ("bench report SCORES --out=b.html", "--markdown=a.md"),
        ("book build LOG --minimum=1", "--out=a.book"),
        ("match random random --games=2", "--log=a.jsonl"),
    ],
)
def test_a_file_is_replaced_only_by_overwrite(
    words, option, tiny_run, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    evaluate.main(["--quiet", "match", "random", "random", "--games", "2", "--log", "log"])
    path = Path(option.partition("=")[2])
    path.write_text(CONTENT)
    scores = Path(__file__).parents[2] / "benchmarks" / "scores" / "random.json"
    places = {"RUN": tiny_run("q-learning"), "LOG": "log", "SCORES": scores}
    words = [str(places.get(word, word)) for word in words.split()] + [option]
    assert f"{path} is there already" in error_of(capsys, evaluate.main, *words)
    assert path.read_text() == CONTENT
    if words[1] != "score":  # which takes submissions alone
        evaluate.main([*words, "--overwrite", "--quiet"])
        assert path.read_bytes() != CONTENT.encode()


@pytest.mark.parametrize(
    ("first", "others"),
    [
        (
            MATCH,
            [
                ("--seed=1",),
                ("--openings=random:1",),
                ("--games=4",),
                ("--size=4",),
                ("--skip-chance=0.5",),
            ],
        ),
        (
            TOURNAMENT,
            [("--seed=1",), ("--openings=random:1",), ("--games=4",), ("--anchor=random",)],
        ),
        (TEST, [("--seed=1",), ("--alpha=0.1",), ("--games=16",)]),
        (MATCH, [("--clock=9+1",)]),
    ],
)
def test_a_result_of_other_settings_is_refused(first, others, tmp_path, capsys):
    json_of(capsys, *first, "--out", tmp_path)
    before = contents(tmp_path)
    assert len(before) == 2
    json_of(capsys, *first, "--out", tmp_path)
    for words in (*others, ("optimal",), *([] if first is TOURNAMENT else [("table",)])):
        players = (
            [words[0], *first[2:]] if words[0] in ("optimal", "table") else [*first[1:], *words]
        )
        line = ["match", *players, "--out", tmp_path]
        assert "choose another --out, or --overwrite replaces it" in error_of(
            capsys, evaluate.main, *line
        )
        assert contents(tmp_path) == before
    changed = json_of(capsys, *first, "--seed=1", "--out", tmp_path, "--overwrite")
    assert changed["seed"] == 1
    assert json.loads((tmp_path / RESULT).read_text()) == changed


def test_a_result_grows_by_games_and_players(tmp_path, capsys):
    for words in (MATCH, TOURNAMENT, TEST):
        folder = tmp_path / words[3]
        json_of(capsys, *words, "--out", folder / str(len(words)))
        grown = json_of(capsys, *words[:-1], "64", "--out", folder / str(len(words)))
        assert grown == json_of(
            capsys, *words[:-1], "64", "--out", tmp_path / "new" / str(len(words))
        )
    players = json_of(
        capsys, "match", "optimal", *TOURNAMENT[1:], "--games=64", "--out", folder / "6"
    )["players"]
    assert len(players) == 4


def test_default_folders_differ_by_players_and_settings(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = [
        TOURNAMENT,
        [*TOURNAMENT, "--seed=1"],
        [*TOURNAMENT, "--openings=random:1"],
        ["match", *MATCH[1:3], "optimal"],
    ]
    lines += [TEST, [*TEST, "--seed=1"]]
    results = [json_of(capsys, *words, "--games=8") for words in lines]
    assert {path.read_text() for path in Path("runs").rglob(RESULT)} == {
        json.dumps(data, indent=2) + "\n" for data in results
    }
    assert len(list(Path("runs").rglob(REPORT))) == len(lines)


def test_pages_and_results_of_others_are_refused(tmp_path, capsys):
    for name in (REPORT, RESULT):
        folder = tmp_path / name
        folder.mkdir()
        (folder / name).write_text("[]")
        for words in ((*MATCH, "--out", folder), ("reproduce", "svd-table1", "--out", folder)):
            assert "--overwrite replaces it" in error_of(capsys, evaluate.main, *words)
        if name == REPORT:
            assert "--overwrite replaces it" in error_of(
                capsys, train.main, "--games=9", "--out", folder
            )
        assert (folder / name).read_text() == "[]"
    (folder / RESULT).write_text('{"study": "svd-table1", "quick": false}')
    words = ("reproduce", "svd-table1", "--quick", "--out", folder)
    assert "is a result with quick False, not True" in error_of(capsys, evaluate.main, *words)
    (tmp_path / "submission.npz").write_text(CONTENT)
    words = (
        "bench",
        "run",
        "--agent",
        "random",
        "--task",
        "random",
        "--seeds=1",
        "--steps=200",
        "--out",
        tmp_path,
    )
    assert "is there already" in error_of(capsys, evaluate.main, *words)
