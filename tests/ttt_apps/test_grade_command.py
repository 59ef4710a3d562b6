"""``evaluate.py grade`` prints and writes a grade for each submission."""

import csv
import json
import re
import shutil
from pathlib import Path

import pytest
from submissions import CALLS, SHEET, SOLUTIONS, change

from ttt_apps.cli.signals import INTERRUPTED
from ttt_apps.evaluate import grade as grade_command
from ttt_eval.grading import TASKS, grade, load_task, submission_side


def make_folder(path, name, right, wrong):
    """Return a folder with a right submission and a folder of its name without one, a wrong one in
    a folder of its own, and one that cannot be loaded.
    """
    (path / "wrong").mkdir(parents=True)
    shutil.copy(SOLUTIONS / f"{name}.py", path / "right.py")
    (path / "wrong" / "task.py").write_text(change(name, {right: wrong}))
    (path / "broken.py").write_text("def minimax(board)")
    (path / "right").mkdir()
    (path / "right" / "notes.txt").touch()
    (path / ".hidden").touch()
    return path


@pytest.fixture
def folder(tmp_path):
    """Submissions of minimax."""
    return make_folder(tmp_path / "homework", "minimax", ", (2, 4, 6)]", "]")


def test_it_prints_and_writes_what_python_computes(folder, tmp_path, evaluate_py):
    out = tmp_path / "grades"
    words = ["grade", folder, f"--task=minimax --jobs=2 --out={out}"]
    text = evaluate_py.text(*words)
    assert re.search(r"note: 4 of 4, about 0 min left: \S+: [\d.]+ of 10: ", evaluate_py.err)
    assert "right/solution.py 0 0 0 not graded: hand in NAME.py" in text
    assert "broken.py 0 0 0 SyntaxError: expected ':' (line 1)" in text
    assert f"written to {out}: grades.csv" in text
    task = load_task("minimax")
    printed = evaluate_py.json(*words)
    result = grade(folder / "wrong" / "task.py", task, "wrong/task.py")
    assert printed[3] | {"cpu_s": 0} == result.to_dict() | {"cpu_s": 0}
    assert printed[3]["cpu_s"] > 0
    with (out / "grades.csv").open() as file:
        rows = [*csv.DictReader(file)]
    for row, data in zip(rows, printed, strict=True):
        names = "file", "score", "points", "remark"
        assert [row[name] for name in names] == [str(data[name]) for name in names]
        assert [float(row[name]) for name in task.weights] == [*data["earned"].values()]
        assert sum(data["earned"].values()) == data["points"]
    assert [row["score"] for row in rows] == ["0.0", "1.0", "0.0", "0.55"]
    page = (out / "wrong" / "task.html").read_text()
    assert "5.5 of 10" in page
    assert page.count('role="img"') == page.count("<strong>you are o and move</strong>") == 2
    assert '<span class="name">6</span>' in page
    [board, *_] = re.findall(r"board = (\[[-01, ]{25,}\])", page)
    assert {*json.loads(board)} == {0, 1, -1}
    assert all(task.texts[name] in page for name in task.weights)
    assert "evaluate.py" not in page
    assert "mean loss" in (out / "teacher" / "wrong" / "task.html").read_text()
    broken = (out / "broken.html").read_text()
    assert broken.count("SyntaxError") == 1
    assert "not measured" in broken
    assert "10.0 of 10" in (out / "right.html").read_text()


@pytest.mark.more
def test_only_what_is_new_or_changed_is_graded(tmp_path, evaluate_py, monkeypatch, capsys):
    files = []

    def interrupt(path, task, file):
        files.append(file)
        if len(files) == 4:
            raise KeyboardInterrupt
        return grade(path, task, file)

    monkeypatch.setattr(grade_command, "grade", interrupt)
    out = tmp_path / "grades"
    # of a task whose grade takes little time
    folder = make_folder(
        tmp_path / "homework", "value-iteration", "discount * expected", "expected"
    )
    words = ["grade", folder, "--task=value-iteration", f"--out={out}"]
    with pytest.raises(SystemExit) as stop:
        evaluate_py(*words)
    assert stop.value.code == INTERRUPTED
    printed = capsys.readouterr()
    assert "right.py 10 1 " in " ".join(printed.out.split())
    assert "the same command continues" in printed.err
    assert len(evaluate_py.json(*words)) == 4
    shutil.move(folder / "right.py", folder / "broken.py")
    shutil.copy(SOLUTIONS / "value-iteration.py", folder / "late.py")
    rows = evaluate_py.json(*words)
    assert files[3:] == ["wrong/task.py", "wrong/task.py", "broken.py", "late.py"]
    assert [row["points"] for row in rows] == [10, 10, 10, 0, 4]
    assert json.loads((out / "grades.json").read_text()) == rows
    (out / "grades.json").write_text("[{}]")
    assert "has no grades" in evaluate_py.error(*words)
    assert "right has no submissions" in evaluate_py.error("grade", folder / "right", "--task=gae")


@pytest.mark.more
def test_a_system_without_a_filter_of_system_calls_is_told(tmp_path, evaluate_py, monkeypatch):
    words = ["grade", SOLUTIONS / "gae.py", "--task=gae"]
    evaluate_py(*words)
    assert "no filter of system calls" not in evaluate_py.err
    program = tmp_path / "submission_side.py"
    program.write_text(Path(submission_side.__file__).read_text())
    program.with_suffix(".toml").touch()
    monkeypatch.setattr(submission_side, "__file__", str(program))
    evaluate_py(*words)
    assert "no filter of system calls" in evaluate_py.err


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--task=minmax"], "did you mean 'minimax'"),
        (["--task=minimax", "--out=grades"], "other.txt is there already"),
        (["--task=minimax", "--jobs=0"], "jobs=0"),
    ],
    ids=str,
)
def test_what_cannot_be_graded_is_refused(
    folder, words, problem, evaluate_py, monkeypatch, tmp_path
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "grades").mkdir()
    (tmp_path / "grades" / "other.txt").touch()
    assert problem in evaluate_py.error("grade", folder, *words)


def test_the_help_names_all_tasks(evaluate_py, capsys):
    with pytest.raises(SystemExit):
        evaluate_py("grade --help")
    text = capsys.readouterr().out
    assert [name for name in TASKS if name not in text] == []


@pytest.mark.slow
def test_thirty_submissions_get_their_marks(tmp_path, evaluate_py):
    """Ten that are right, ten that are wrong, and ten that break rules."""
    folder = tmp_path / "homework"
    folder.mkdir()
    for number in range(10):
        seed = f"default_rng(seed + {100 * number})"
        text = change("q-learning", {"default_rng(seed)": seed})
        (folder / f"right-{number}.py").write_text(text)
    errors = [
        (name, texts) for name in ("q-learning", "monte-carlo") for texts in SHEET[name].values()
    ]
    for number, (name, texts) in enumerate(errors[:10]):
        (folder / f"wrong-{number}.py").write_text(change(name, texts))
    for number, action in enumerate([*CALLS][:10]):
        source = f"import os, socket, subprocess, sys\n\ndef train(*_):\n    {action}\n"
        (folder / f"x-{number}.py").write_text(source)
    rows = evaluate_py.json("grade", folder, "--task=q-learning --jobs=2")
    scores = {row["file"]: row["score"] for row in rows}
    assert len(scores) == 30
    assert {scores[f"right-{number}.py"] for number in range(10)} == {1.0}
    assert max(scores[f"wrong-{number}.py"] for number in range(10)) <= 0.9
    assert {scores[f"x-{number}.py"] for number in range(10)} == {0.0}
