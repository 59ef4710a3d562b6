"""Studies: interrupts, hostile result files, and the written report."""

import json
import os

import numpy as np
import pytest
from documents import ROOT

from evaluation.reports.study import figure_lines, write_report_files
from evaluation.result_store import UNITS
from evaluation.study import Caption, Claim, Report, Row, Study, run_units
from ttt_apps.studies import STUDIES
from ttt_envs.agents.specs import load_object

CALLS = []


def units(quick):
    return [{"n": n} for n in range(2 if quick else 5)]


def measure(unit):
    CALLS.append(unit["n"])
    return {"square": unit["n"] ** 2}


def analyse(results):
    rows = [Row(str(unit["n"]), "", str(result["square"]), "", True) for unit, result in results]
    return Report(rows, [Claim("squares grow", True, "they do")], {"squares": draw})


def draw(figure):
    figure.subplots().plot(np.arange(5) ** 2)


STUDY = Study("Squares", "Euclid", "Nothing differs.", units, measure, analyse, "three squares")
SQUARES = [({"n": n}, {"square": n * n}) for n in range(5)]


@pytest.fixture(autouse=True)
def no_calls():
    CALLS.clear()


def test_units_are_measured_once_and_returned_in_order(tmp_path):
    calls = []
    assert run_units(STUDY, tmp_path, {}, progress=lambda *done: calls.append(done)) == SQUARES
    assert sorted(CALLS) == [0, 1, 2, 3, 4]
    assert calls == [(done, 5) for done in range(6)]
    assert run_units(STUDY, tmp_path, {}) == SQUARES
    assert len(CALLS) == 5
    assert run_units(STUDY, tmp_path, {}, quick=True) == SQUARES[:2]
    head, _, *later = (tmp_path / UNITS).read_text().splitlines(keepends=True)
    (tmp_path / UNITS).write_text("".join([head, *later]))
    assert run_units(STUDY, tmp_path, {}) == SQUARES  # although the first unit is measured last


@pytest.mark.parametrize("after", [1, 3])
def test_interrupted_study_resumes(tmp_path, after):
    def stop(done, total):
        if done == after:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_units(STUDY, tmp_path, {}, progress=stop)
    with (tmp_path / UNITS).open("a") as file:
        file.write('{"unit": {"n": 4}, "resu')  # as a kill in the middle of a line leaves it
    assert run_units(STUDY, tmp_path, {}) == SQUARES
    assert sorted(CALLS) == [0, 1, 2, 3, 4]
    assert run_units(STUDY, tmp_path, {}) == SQUARES
    assert len(CALLS) == 5


def test_results_of_other_code_are_discarded(tmp_path):
    run_units(STUDY, tmp_path, {"code": "old"})
    run_units(STUDY, tmp_path, {"code": "new"})
    assert len(CALLS) == 10


def test_results_do_not_depend_on_workers(tmp_path):
    study = Study("Powers", "", "", units, power, analyse, "")
    assert run_units(study, tmp_path / "two", {}, jobs=2) == run_units(study, tmp_path / "one", {})


def power(unit):
    return 3 ** unit["n"]


def test_report_files(tmp_path):
    findings = analyse(SQUARES)
    pictures = write_report_files(STUDY, "squares", findings, tmp_path, quick=True)
    table = (tmp_path / "table.md").read_text()
    assert "| 3 | 9 | yes |" in table  # nothing stands under "published" or "exact"
    assert "| squares grow | yes | they do |" in table
    assert "Quick form: three squares" in table
    result = json.loads((tmp_path / "result.json").read_text())
    assert result["rows"][2] == {"what": "2", "published": "", "ours": "4", "exact": "", "agrees": True}
    assert result["claims"][0]["holds"] is True
    assert [path.name for path in pictures] == ["squares.png", "squares.svg", "squares-dark.svg"]
    assert pictures[0].read_bytes().startswith(b"\x89PNG")


def test_a_figure_has_its_question_and_in_the_full_form_its_answer():
    caption = Caption("Do squares grow?", "They do.", "Dots are squares.")
    for quick, words in ((True, "Dots are squares."), (False, "They do. Dots are squares.")):
        assert figure_lines("a", "a.png", caption, quick)[1:] == [
            "**Do squares grow?**", "", "![Do squares grow?](a.png)", "", words
        ]  # fmt: skip


@pytest.mark.parametrize("name", STUDIES)
def test_every_figure_in_the_documents_has_a_caption(name):
    page = (ROOT / "docs" / "studies" / f"{name}.md").read_text()
    for caption in load_object(STUDIES[name]).captions.values():
        assert f"**{caption.question}**" in page
        assert f"{caption.answer} {caption.symbols}" in page
    assert page.count("![") == len(load_object(STUDIES[name]).captions)


def test_folder_in_use_is_rejected(tmp_path):
    def again(done, total):
        if done == 2:
            with pytest.raises(ValueError, match=f"another process is writing in {tmp_path}"):
                run_units(STUDY, tmp_path, {})

    assert run_units(STUDY, tmp_path, {}, progress=again) == SQUARES
    assert [path.name for path in tmp_path.iterdir()] == [UNITS]


def test_links_and_pipes_are_rejected(tmp_path):
    outside = tmp_path / "outside"
    outside.write_text("precious")
    for number, make in enumerate((lambda path: path.symlink_to(outside), os.mkfifo)):
        (tmp_path / str(number)).mkdir()
        make(tmp_path / str(number) / UNITS)
        with pytest.raises(ValueError, match=f"{UNITS} is a (link|pipe), and neither read nor written"):
            run_units(STUDY, tmp_path / str(number), {})
    assert outside.read_text() == "precious"


@pytest.mark.parametrize(
    "line",
    [
        "[" * 100_000,
        "5",
        '{"unit": 5}',
        '{"unit": {"n": 0}, "result": ' + "9" * 5_000 + "}",
        '{"unit": {"n": 0}, "result": 7}',
        '{"unit": {"n": 0}, "result": 7, "sha256": "' + "0" * 64 + '"}',
    ],
)
def test_invalid_lines_are_measured_again(line, tmp_path):
    run_units(STUDY, tmp_path, {})
    head = (tmp_path / UNITS).read_text().splitlines()[0]
    (tmp_path / UNITS).write_text(f"{head}\n{line}\n")
    assert run_units(STUDY, tmp_path, {}) == SQUARES
