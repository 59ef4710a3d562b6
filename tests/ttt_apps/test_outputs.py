"""Files and folders that commands write: what is there already is continued or refused, and
replaced only if asked.
"""

import json
from pathlib import Path

import pytest
from json_files import read_json

from ttt_eval.runs.run_files import REPORT
from ttt_eval.store.result_store import RESULT

MATCH = "match random win-or-block"
TOURNAMENT = "match random win-or-block table"
TEST = "match random win-or-block --sprt 0 20"
CONTENT = "mine" * 20


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.name in (RESULT, REPORT)}


@pytest.mark.parametrize(
    ("words", "option"),
    [
        ("puzzles", "--out=a.json"),
        ("games LOG", "--out=a.jsonl"),
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
    words, option, tiny_run, tmp_path, monkeypatch, evaluate_py
):
    monkeypatch.chdir(tmp_path)
    evaluate_py("--quiet match random random --games 2 --log log")
    path = Path(option.partition("=")[2])
    path.write_text(CONTENT)
    scores = Path(__file__).parents[2] / "benchmarks" / "scores" / "v1" / "random.json"
    places = {"RUN": tiny_run("q-learning"), "LOG": "log", "SCORES": scores}
    line = [places.get(word, word) for word in words.split()]
    assert f"{path} is there already" in evaluate_py.error(*line, option)
    assert path.read_text() == CONTENT
    if "score" not in line:  # which takes submissions alone
        evaluate_py(*line, option, "--overwrite --quiet")
        assert path.read_bytes() != CONTENT.encode()


@pytest.mark.parametrize(
    ("first", "games", "others"),
    [
        (
            MATCH,
            8,
            ("--seed=1", "--openings=random:1", "--games=4", "--size=4", "--skip-chance=0.5"),
        ),
        (TOURNAMENT, 8, ("--seed=1", "--openings=random:1", "--games=4", "--anchor=random")),
        (TEST, 32, ("--seed=1", "--alpha=0.1", "--games=16")),
        (MATCH, 8, ("--clock=9+1",)),
    ],
)
def test_a_result_of_other_settings_is_refused(first, games, others, tmp_path, evaluate_py):
    first += f" --games {games}"
    evaluate_py.json(first, "--out", tmp_path)
    before = contents(tmp_path)
    assert len(before) == 2
    evaluate_py.json(first, "--out", tmp_path)
    players = [first.replace("random", "optimal")]
    if not first.startswith(TOURNAMENT):
        players.append(first.replace("win-or-block", "table"))
    for line in (*(f"{first} {option}" for option in others), *players):
        assert "choose another --out, or --overwrite replaces it" in evaluate_py.error(
            line, "--out", tmp_path
        )
        assert contents(tmp_path) == before
    changed = evaluate_py.json(first, "--seed=1 --overwrite --out", tmp_path)
    assert changed["seed"] == 1
    assert read_json(tmp_path / RESULT) == changed


def test_a_result_grows_by_games_and_players(tmp_path, evaluate_py):
    for number, line in enumerate((MATCH, TEST, TOURNAMENT)):
        folder = tmp_path / str(number)
        evaluate_py.json(line, "--games 32 --out", folder)
        grown = evaluate_py.json(line, "--games 64 --out", folder)
        assert grown == evaluate_py.json(line, "--games 64 --out", tmp_path / "new" / str(number))
    more = evaluate_py.json(TOURNAMENT, "optimal --games=64 --out", folder)
    assert len(more["players"]) == 4


def test_default_folders_differ_by_players_and_settings(tmp_path, evaluate_py, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = [f"{of}{seed}" for of in (TOURNAMENT, TEST) for seed in ("", " --seed=1")]
    lines += [f"{TOURNAMENT} --openings=random:1", f"{MATCH} optimal"]
    results = [evaluate_py.json(line, "--games=8") for line in lines]
    assert {path.read_text() for path in Path("runs").rglob(RESULT)} == {
        json.dumps(data, indent=2) + "\n" for data in results
    }
    assert len([*Path("runs", "sprt").rglob(REPORT)]) == 2
    assert len([*Path("runs", "tournament").rglob(REPORT)]) == len(lines) - 2


def test_pages_and_results_of_others_are_refused(tmp_path, evaluate_py, train_py):
    study = "reproduce svd-table1"
    for name in (REPORT, RESULT):
        folder = tmp_path / name
        folder.mkdir()
        (folder / name).write_text("[]")
        for line in (f"{MATCH} --games 8", study):
            assert "--overwrite replaces it" in evaluate_py.error(line, "--out", folder)
        if name == REPORT:
            assert "--overwrite replaces it" in train_py.error("--games=9 --out", folder)
        assert (folder / name).read_text() == "[]"
    (folder / RESULT).write_text('{"study": "svd-table1", "quick": false}')
    assert "is a result with quick False, not True" in evaluate_py.error(
        study, "--quick --out", folder
    )
    (tmp_path / "submission.npz").write_text(CONTENT)
    line = "bench run --agent random --task random --seeds=1 --steps=200 --out"
    assert "is there already" in evaluate_py.error(line, tmp_path)
