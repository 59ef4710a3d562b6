"""Grades: solutions have all points, planted errors and starters do not, and whatever else a
submission does is one line.
"""

import re
from dataclasses import replace

import pytest
from documents import ROOT
from submissions import (
    CALLS,
    ENDS,
    MORE_MUTANTS,
    MORE_NAMED,
    MUTANTS,
    NAMED,
    SETTINGS,
    SHEET,
    SOLUTIONS,
    TRAININGS,
    change,
)

from ttt_eval.grading import (
    TASK_FOLDER,
    TASKS,
    SubmissionError,
    SubmissionLimits,
    SubmissionProcess,
    grade,
    load_task,
    submission,
)
from ttt_eval.grading.judges import ROWS
from ttt_eval.reports.checks import grade_report

NO_ROWS = {"steps", "time", "critic", "by free cells", "exploitability", "strength", "visits"} | {
    "recognised"
}
"""Rows of checks that judge nothing here."""
QUICK = ("gae", "value-iteration")
"""Tasks whose whole grades are in ``make test``; the others take seconds. Of a learner,
test_a_right_learner_with_other_settings_has_all_points has all rows.
"""


def more(cases):
    """Return the cases as those of ``make test-more``."""
    return [pytest.param(*case, marks=pytest.mark.more) for case in cases]


@pytest.fixture
def write(tmp_path):
    """Write a submission."""

    def write_file(text, name="submission.py"):
        path = tmp_path / name
        path.write_text(text)
        return path

    return write_file


@pytest.mark.parametrize("name", [*QUICK, *more(zip(sorted({*TASKS} - {*QUICK})))])
def test_a_solution_has_all_points_and_the_starter_none(name):
    task = load_task(name)
    solved = grade(SOLUTIONS / f"{name}.py", task)
    assert (solved.score, solved.points) == (1.0, task.points), solved
    assert solved.remark == "no error found"
    rows = {row.name for row in solved.check.rows}
    assert set(task.weights) | set(task.needs) <= rows
    assert rows <= {*ROWS[task.judge], *NO_ROWS}
    if task.judge != "learner":
        assert rows >= {*ROWS[task.judge]}
    assert solved.earned == {row: task.worth(row) for row in task.weights}
    started = grade(TASK_FOLDER / name / "starter.py", task)
    assert started.check.failed
    assert started.score == 0.0
    assert started.remark in " ".join((TASK_FOLDER / name / "task.md").read_text().split())


@pytest.mark.parametrize(
    ("mutant", "row"),
    [*MUTANTS.items(), *more(MORE_MUTANTS.items())],
    ids=str,
)
def test_a_planted_error_costs_points(write, mutant, row):
    name, right, wrong = mutant
    source = (SOLUTIONS / f"{name}.py").read_text()
    assert right in source
    result = grade(write(source.replace(right, wrong)), load_task(name))
    assert row in result.check.failed
    assert result.score <= 0.9
    assert result.remark != "no error found"


@pytest.mark.more
@pytest.mark.parametrize(
    ("name", "error"), [(name, error) for name, errors in SHEET.items() for error in errors]
)
def test_the_sheet_has_the_points_of_an_error(write, name, error):
    result = grade(write(change(name, SHEET[name][error])), load_task(name))
    mark = "*" if result.remark.startswith(f"likely: {error}") else ""
    sheet = (ROOT / "docs" / "teaching-answers.md").read_text()
    [row] = [line for line in sheet.splitlines() if line.startswith(f"| `{name}` |")]
    assert f"{result.points:g}: {error}{mark}" in row.removesuffix(" |").split(" | ")[-1].split(
        "; "
    )


@pytest.mark.parametrize(
    ("name", "texts"),
    [
        *(pytest.param(*case, marks=pytest.mark.slow) for case in SETTINGS),
        (
            "q-learning",
            {
                "STEP_SIZE = 0.1": "STEP_SIZE = 0.1\nprint('words ' * (1 << 18))",
                "observations: np": (
                    "observations: np.where(observations.reshape(-1, 2, 9).any(1), -np.inf, 0) + np"
                ),
            },
        ),
    ],
    ids=str,
)
def test_a_right_learner_with_other_settings_has_all_points(write, name, texts):
    result = grade(write(change(name, texts)), load_task(name))
    assert (result.score, result.remark) == (1.0, "no error found")


def mark_named(case):
    """Return a case of ``make test-more``, or of ``make slow``."""
    marks = pytest.mark.slow if "slow" in case else pytest.mark.more
    return pytest.param(case, marks=marks)


@pytest.mark.parametrize("case", [*NAMED, *map(mark_named, MORE_NAMED)], ids=str)
def test_an_error_is_named(write, case):
    source = change(case["source"], {case["right"]: case["wrong"]})
    tasks = {"uct": "mcts", "mcts": "mcts", "q-learning": "q-learning"}
    task = load_task(tasks.get(case["source"], "minimax"))
    result = grade(write(source), task)
    assert result.remark.startswith(case.get("hint") or f"likely: {case['cause']}")
    assert result.points <= case.get("points", 9)


@pytest.mark.more
@pytest.mark.parametrize(
    ("right", "wrong", "row", "remark"),
    [
        ("result / simulations", "result", "mean", "likely: the value is the sum"),
        ("Random(seed)", "Random()", "seed", "not right yet: the same answer"),
        ("Random(seed)", "Random(1)", "seed", "not right yet: the same answer"),
        (
            "result / simulations",
            "max(c.total / c.visits for c in root.children.values())",
            "mean",
            "likely: the value is that of the best move",
        ),
        ("result /", "0.5 + result / 2 /", "mean", "likely: values are shares of wins"),
        (
            "    return visits,",
            "    visits = [n // 2 for n in visits]\n    return visits,",
            "form",
            "likely: the list has other numbers",
        ),
    ],
    ids=str,
)
def test_an_answer_unlike_the_task_costs_a_row_of_a_search(write, right, wrong, row, remark):
    result = grade(write(change("uct", {right: wrong})), load_task("mcts"))
    assert [name for name, points in result.earned.items() if points == 0] == [row]
    assert 8 <= result.points < 10
    assert result.remark.startswith(remark)
    assert bool(result.check.row(row).evidence) == (row != "form")


@pytest.mark.more
def test_random_visits_and_a_constant_have_no_points_of_a_search(write):
    source = (
        "import random\n\ndef search(board, simulations, seed):\n"
        "    free = [cell for cell in range(9) if board[cell] == 0]\n"
        "    moves = random.Random(seed).choices(free, k=simulations)\n"
        "    return [moves.count(cell) for cell in range(9)], 0.0\n"
    )
    result = grade(write(source), load_task("mcts"))
    assert {name for name, points in result.earned.items() if points > 0} == {"form", "seed"}


@pytest.mark.more
def test_a_wrong_value_is_shown_beside_the_truth(write):
    path = write(change("q-learning", SHEET["q-learning"]["discount 0.99"]))
    result = grade(path, load_task("q-learning"))
    _, note = result.check.row("values").evidence[0]
    assert re.fullmatch(r"cell \d: the value is \+0\.9[789]\d, the truth \+1\.000", note)


def test_a_page_has_no_list_of_visits(write):
    path = write("def minimax(board):\n    return max(range(9), key=lambda i: board[i] ** 2), 0\n")
    task = load_task("minimax")
    page = str(grade_report(grade(path, task), task))
    assert "illegal moves" in page
    assert "0.0, 0.0" not in page


def assert_one_line(result, remark):
    """A submission has no points, and is told why in one line with this beginning."""
    assert result.score == 0.0
    assert result.remark.startswith(remark), result.remark
    assert "\n" not in result.remark


def limited(source=""):
    """The task minimax, with a small limit of time for what does not end."""
    task = load_task("minimax")
    cpu_s = 1 if "while True" in source or "sleep" in source else 60
    return replace(task, limits=replace(task.limits, cpu_s=cpu_s))


@pytest.mark.parametrize(("source", "remark"), ENDS.items(), ids=repr)
def test_a_submission_that_cannot_be_loaded_is_one_line(write, source, remark):
    result = grade(write(source), limited(source))
    assert (result.points, result.check) == (0.0, None)
    assert_one_line(result, remark)


@pytest.mark.parametrize(("action", "remark"), CALLS.items(), ids=repr)
def test_whatever_its_function_does_is_one_line(write, action, remark):
    source = f"import os, socket, subprocess, sys\n\ndef minimax(board):\n    {action}\n"
    result = grade(write(source), limited(source))
    assert_one_line(result, remark)
    if result.check is not None:
        assert "judges.py" not in str(result.check)


@pytest.mark.parametrize(
    ("name", "source", "remark"),
    [
        ("mcts", "search", "return a pair (list of nine visits, value); yours returned 4"),
        ("value-iteration", "value_iteration", "return 242 values; yours returned 4"),
        ("gae", "gae", "likely: the function fails, or returns another form"),
    ],
)
def test_an_answer_of_another_form_is_told_in_its_words(write, name, source, remark):
    assert_one_line(grade(write(f"def {source}(*_):\n    return 4\n"), load_task(name)), remark)


@pytest.mark.parametrize("name", TASKS)
def test_rows_of_the_rubric_stand_in_the_task_with_their_points(name):
    task = load_task(name)
    text = (TASK_FOLDER / name / "task.md").read_text()
    lines = [f"| {task.worth(row):g} | {task.texts[row]} |" for row in task.weights]
    assert f"ttt-evaluate grade solution.py --task {name}" in text
    assert all(package in text.lower() for package in task.limits.allowed)
    if name != "alpha-zero":  # whose only row is a sentence
        assert [line for line in lines if line not in text] == []
    assert set(task.texts) == {*task.weights, *task.needs}


@pytest.mark.parametrize(("action", "remark"), TRAININGS.items(), ids=repr)
def test_whatever_a_learner_does_is_one_line(write, action, remark):
    source = f"def train(environment, steps, seed):\n    {action}\n"
    assert_one_line(grade(write(source), load_task("q-learning")), remark)


def test_a_link_and_a_large_file_are_not_read(write, tmp_path):
    link = tmp_path / "link.py"
    link.symlink_to(SOLUTIONS / "minimax.py")
    assert "is a link, not a regular file" in grade(link, limited()).remark
    large = write("#" * (1 << 21))
    assert "at most 1,048,576 are read" in grade(large, limited()).remark


def test_a_submission_sees_no_environment_variables_and_an_empty_folder(write, monkeypatch):
    monkeypatch.setenv("SECRET", "1")
    source = "import os\ndef look(): return [sorted(os.environ), os.listdir()]\n"
    with SubmissionProcess(write(source), "look", SubmissionLimits()) as submission:
        names, files = submission.call(0)
    assert "SECRET" not in names
    assert "HOME" in names
    assert files == []


def test_functions_are_called_in_both_directions(write):
    source = """
def add(scale, number):
    scaled = scale(number)
    return lambda other: scaled + other
"""
    with SubmissionProcess(write(source), "add", SubmissionLimits()) as submission:
        add = submission.call(0, lambda number: 10 * number, 2)
        assert [add(1), add(2)] == [21, 22]
        with pytest.raises(SubmissionError, match="its call of <lambda> fails"):
            submission.call(0, lambda number: {}["missing"], 1)
        with pytest.raises(SubmissionError, match="its call of <lambda> fails"):
            add(1)


@pytest.mark.more
def test_a_learner_that_asks_for_ever_has_its_limit_of_cpu_time(write, monkeypatch):
    monkeypatch.setattr(submission, "MAX_WAITS", 1_000)
    source = "def train(environment, steps, seed):\n    while True: environment.reset(seed)\n"
    task = load_task("q-learning")
    result = grade(write(source), replace(task, limits=replace(task.limits, cpu_s=1)))
    assert (result.score, result.remark) == (
        0.0,
        "it took more than 1 s of CPU time, the limit of the task: it does not end, or is too slow",
    )


DAMAGES = {
    "minimax": [
        (
            'function = "minimax"',
            'function = "minmax"',
            "no function 'minmax': did you mean 'minimax'",
        ),
        ('judge = "minimax"', 'judge = "jury"', "there is no judge 'jury'"),
        ("points = 10", 'points = "ten"', "Expected `float`, got `str`"),
        ("[weights]", "[other]", "there is no key 'other': choose one of"),
        (re.compile(r'" = [\d.]+$', re.MULTILINE), '" = 0', "has no weights"),
        ("title", "titel", "there is no key 'titel': did you mean 'title'"),
        ("allowed =", "alowed =", "there is no limit 'alowed': did you mean 'allowed'"),
        ('"hold a draw" =', '"hold a drawn" =', "did you mean 'hold a draw'"),
        ("numpy", "nunpy", "there is no package 'nunpy': did you mean 'numpy'"),
        ("[limits]", "[causes]\ndiscount = ''\n[limits]", "there is no cause 'discount': did"),
        ("[limits]", 'needs = ["rule"]\n[limits]', "there is no row 'rule': did you mean 'rules'"),
        ("[limits]", "[options]\nfamily = 1\n[limits]", "there is no option 'family'"),
        ("points = 10", "points = 0", "points=0.0 is out of range"),
    ],
    "q-learning": [
        ('"trap" = 0.7', '"trep" = 0.7', "there is no probe 'trep': did you mean 'trap'"),
        ('"trap" = 0.7', '"trap" = 7', "trap=7 is no score"),
        ('"trap" = 0.7', '"gravity" = 0.7', "there is no row with a limit 'trap'"),
        ("values = true", 'values = "yes"', "values='yes' is no truth value"),
        ("values = true", "values = false", "there is no row with a limit 'values'"),
        ('"credit" = 2', '"credit" = -1', "credit=-1.0 is no weight"),
    ],
}
"""{task: [(text of its rubric, the text in its place, the message)]}"""


@pytest.mark.parametrize(
    ("name", "old", "new", "problem"),
    [(name, *damage) for name, damages in DAMAGES.items() for damage in damages],
    ids=str,
)
def test_a_damaged_rubric_is_refused(tmp_path, name, old, new, problem):
    text = (TASK_FOLDER / name / "task.toml").read_text()
    changed = old.sub(new, text) if isinstance(old, re.Pattern) else text.replace(old, new)
    assert changed != text
    (tmp_path / "task.toml").write_text(changed)
    with pytest.raises(ValueError, match=re.escape(problem)):
        load_task(str(tmp_path))
