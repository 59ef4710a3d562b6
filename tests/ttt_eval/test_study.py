"""Studies: stored results, hostile result files, and the written report."""

import errno
import json
import os
import re
from dataclasses import replace

import numpy as np
import pytest
from documents import ROOT

from ttt_apps.studies import STUDIES
from ttt_envs.agents.specs import load_object
from ttt_eval.reports.study import figure_lines, write_report_files
from ttt_eval.result_store import UNITS
from ttt_eval.study import Caption, Claim, Report, Row, Study, run_units

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


def test_a_full_disk_is_named_and_leaves_no_part_of_a_result(tmp_path, monkeypatch):
    write = os.write

    def write_part(descriptor, content):
        if b'"square": 4' not in bytes(content):
            return write(descriptor, content)
        write(descriptor, content[:9])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", write_part)
    with pytest.raises(OSError, match=re.escape(str(tmp_path / UNITS))):
        run_units(STUDY, tmp_path, {})
    monkeypatch.undo()
    lines = (tmp_path / UNITS).read_text().split("\n")
    assert len(lines) == 1 + 2 + 1  # the head, two results, and the end of the last line
    assert run_units(STUDY, tmp_path, {}) == SQUARES
    assert sorted(CALLS) == [0, 1, 2, 2, 3, 4]


@pytest.mark.parametrize("changes", [{"code": "new"}, {"numpy": "3"}, {}])
def test_results_of_another_version_are_kept_and_refused(changes, tmp_path):
    run_units(STUDY, tmp_path, {"code": "old"})
    stored = (tmp_path / UNITS).read_bytes()
    with pytest.raises(ValueError, match=re.escape(str(tmp_path / UNITS))):
        run_units(STUDY if changes else replace(STUDY, version=2), tmp_path, {"code": "old", **changes})
    assert (tmp_path / UNITS).read_bytes() == stored
    assert run_units(STUDY, tmp_path, {"code": "old"}) == SQUARES
    assert len(CALLS) == 5


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
    assert [path.name for path in pictures] == ["squares.png", "squares.svg"]
    assert pictures[0].read_bytes().startswith(b"\x89PNG")


def test_a_figure_has_its_question_and_in_the_full_form_its_answer():
    caption = Caption("Do squares grow?", "They do.", "Dots are squares.")
    for answer, words in (("", "Dots are squares."), ("They do.", "They do. Dots are squares.")):
        assert figure_lines("a", "a.png", caption, answer)[1:] == [
            "**Do squares grow?**", "", "![Do squares grow?](a.png)", "", words
        ]  # fmt: skip


def table_after(page, head):
    """The rows of a Markdown table whose header begins so, by column."""
    header, _, *rows = (
        [cell.strip() for cell in line[1:-1].split("|")]
        for line in page[page.index(head) :].split("\n\n")[0].splitlines()
    )
    return [dict(zip(header, row, strict=True)) for row in rows]


def report_of(page):
    """The rows and verdicts of a page of a study."""
    holds = {"yes": True, "no": False, "undecided": None, "": None}
    rows = []
    for cells in table_after(page, "|  |"):
        [*_, ours] = ["", *(cell for head, cell in cells.items() if head not in ("", "published", "exact", "agree"))]
        published, exact = cells.get("published", ""), cells.get("exact", "")
        rows.append(Row(cells[""], published, ours, exact, holds[cells.get("agree", "")]))
    head = "| claim of the source |"
    claims = (
        [Claim(words, holds[cell], why) for words, cell, why in map(dict.values, table_after(page, head))]
        if (head in page)
        else []
    )
    return Report(rows, claims, {})


@pytest.mark.parametrize("name", STUDIES)
def test_every_figure_in_the_documents_has_the_answer_of_its_table(name):
    page = (ROOT / "docs" / "studies" / f"{name}.md").read_text()
    for caption in load_object(STUDIES[name]).captions.values():
        assert f"**{caption.question}**" in page
        assert f"\n{caption.answer_from(report_of(page))} {caption.symbols}\n" in page
    assert page.count("![") == len(load_object(STUDIES[name]).captions)


def test_the_full_form_computes_the_answer_from_its_results(tmp_path):
    captions = {"squares": Caption("Do squares grow?", lambda report: f"To {report.find_rows('4')[0].ours}.", "Dots.")}
    for quick, answer in ((True, ""), (False, "To 16. ")):
        report = analyse([({"n": n}, {"square": n**2}) for n in range(5)])
        write_report_files(replace(STUDY, captions=captions), "squares", report, tmp_path, quick)
        assert (tmp_path / "table.md").read_text().endswith(f"![Do squares grow?](squares.png)\n\n{answer}Dots.\n")


PAGES = {name: (ROOT / "docs" / "studies" / f"{name}.md").read_text() for name in STUDIES}
OTHER_RESULTS = [
    (
        "tree-net",
        "-0.185 (-0.316 to -0.054)",
        "+0.185 (+0.054 to +0.316)",
        "Over both seats, of 22 nets 1 win more games than they lose, and 21 lose more.",
    ),
    ("tree-random", "play first | yes", "play first | undecided", "On some boards it is undecided. Where lines are"),
    ("tree-random", "play first | yes", "play first | no", "Not on every board. Where lines are"),
    ("slides-tables", "105 of 105 numbers; of", "104 of 105 numbers; of", "for 104 of 105 numbers."),
    (
        "svd-fig5",
        "0.368 against 0.265, 4.1 standard",
        "0.3 against 0.3, 0.1 standard",
        "more at 0.049, 0.13 (equation)",
    ),
    ("compression-methods", "in 2 of 6", "in 6 of 6", "least exploitable play in 18 of them."),
    ("learners-qnet", "+0.400 (+0.031 to +0.769)", "+0.400 (-0.031 to +0.769)", "The runs show no lead of either."),
    ("learners-cost", "11.5 (9.0 to 14.8) times", "17.0 (16.0 to 18.0) times", "takes 17.0 (16.0 to 18.0) times"),
    ("learners-cost", "games increases | yes", "games increases | no", "Memory grows with the games."),
    (
        "learning-curves",
        "0.0006, 0.0148, 0.0006",
        "0.0006, 0.0148, 0.3000",
        "0.3000 (ply to ply, replay, all symmetries, s",
    ),
    (
        "alpha-zero",
        "44.6 (7.5 to 65.0) CPU s | exploitability 0.0000 (0.0000 to 0.5000); 0 in 4 of 5",
        "44.6 (7.5 to 65.0) CPU s | exploitability 0.0000 (0.0000 to 0.5000); 0 in 3 of 5",
        "q-net in 3 of 10 runs of 60,000 games.",
    ),
    (
        "alpha-zero",
        "skip 0: q-learning | 300,000 games, 25.6 (23.8 to 26.7) CPU s; below 0.01 for good never",
        "skip 0: q-learning | 300,000 games, 25.6 (23.8 to 26.7) CPU s; below 0.01 for good after 9.0 CPU s",
        "q-learning after 9.0 CPU seconds in 5 of 10 runs",
    ),
    (
        "alpha-zero",
        "without never (yes); at the end 0.0000, without 0.0871",
        "without never (undecided); at the end 0.0000, without 0.0871",
        "line inputs of the network, chance nodes and TD(lambda) value targets.",
    ),
    ("alpha-zero", "in 0.788 (0.762 to 0.813)", "in 0.900 (0.880 to 0.917)", "5 of 6 searches"),
    (
        "what-forgetting-costs",
        "0.1063 (0.1063 to 0.1063)",
        "0.0163 (0.0163 to 0.0163)",
        "MMD 0.1 gets lowest, to 0.02 of uniform play's 0.79.",
    ),
    ("what-games-say", "wrong 0.199 (0.160", "wrong 0.299 (0.260", "against random play does in 30% of comparisons"),
    ("estimators", "larger lambda is | yes", "larger lambda is | no", "add does not always shrink as lambda grows."),
]


@pytest.mark.parametrize(
    ("name", "before", "after", "answer"), OTHER_RESULTS, ids=[one[3][:30] for one in OTHER_RESULTS]
)
def test_other_results_give_another_answer(name, before, after, answer):
    def answers(page):
        captions = load_object(STUDIES[name]).captions.values()
        return "\n".join(caption.answer_from(report_of(page)) for caption in captions)

    assert answer not in answers(PAGES[name])
    assert answer in answers(PAGES[name].replace(before, after))


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
        with pytest.raises(ValueError, match=f"{UNITS} is a (link|pipe), not a regular file"):
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
