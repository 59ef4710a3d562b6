"""The runner of the client matrix, without the clients; their tests are in tests/clients."""

import sys
from pathlib import Path

import pytest
from clients import run

HERE = Path(__file__).resolve().parent
FILES = sorted(path.name for path in (HERE / "clients").glob("test_*.py"))


def case(what, result="passed", why="", tests=1, speed=None):
    return {"what": what, "result": result, "why": why, "tests": tests, "steps_per_s": speed}


def test_clients_environments_and_checkouts_match():
    assert {client.tests for client in run.CLIENTS} == set(FILES)
    assert {client.environment for client in run.CLIENTS} == set(run.ENVIRONMENTS)
    assert {name for client in run.CLIENTS for name in client.checkouts} == set(run.CHECKOUTS)


def test_the_page_has_a_result_of_every_client():
    text = run.PAGE.read_text()
    table = text.partition(run.BEGIN)[2].partition(run.END)[0]
    for client in run.CLIENTS:
        [row] = [
            line for line in table.splitlines() if line.startswith((f"| **{client.name}** ", f"| **{client.name}**("))
        ]
        assert "passed" in row or "failed" in row or "not run" in row


def test_rows_show_the_worst_result_of_tests_with_the_same_description():
    cases = [case("a", speed=100.0), case("a", speed=311.0), case("b", tests=5)]
    assert run.result_rows({"reason": "", "cases": cases}) == [("a", "210", "passed (2)"), ("b", "", "passed (5)")]
    cases += [case("a", "not run", "no checkout"), case("b", "failed", "assert 1 == 2"), case("b", "not run", "x")]
    rows = run.result_rows({"reason": "", "cases": cases})
    assert [result for *_, result in rows] == ["**not run**: no checkout", "**failed**: assert 1 == 2"]


REPORT = """<testsuites><testsuite>
<testcase name="test_a[1]"><properties><property name="what" value="all of it" />
<property name="steps_per_s" value="12.5" /><property name="tests" value="4" />
<property name="tests" value="3" /></properties></testcase>
<testcase name="test_b"><failure message="boom&#10;and more">trace</failure></testcase>
<testcase name="clients.test_c"><skipped message="could not import 'c'" /></testcase>
</testsuite></testsuites>"""


def test_pytest_reports_are_parsed(tmp_path):
    (tmp_path / "report.xml").write_text(REPORT)
    assert list(run.read_report(tmp_path / "report.xml")) == [
        case("all of it", tests=7, speed=12.5),
        case("`test_b`", "failed", "boom"),
        case("`clients.test_c`", "not run", "could not import 'c'"),
    ]


def test_only_the_marked_part_of_the_page_is_rewritten(tmp_path, monkeypatch):
    page = tmp_path / "clients.md"
    page.write_text(f"# Clients\n\nBefore.\n\n{run.BEGIN}\nold\n{run.END}\n\nAfter.\n")
    monkeypatch.setattr(run, "PAGE", page)
    records = {client.name: {"versions": {}, "reason": "no network", "cases": []} for client in run.CLIENTS}
    records["RLlib"] = {
        "versions": {"ray": "9.9", "numpy": "2.0"},
        "reason": "",
        "cases": [case("a | b", "failed", "boom"), case("c")],
    }
    for _ in range(2):
        run.write_page(records)
        text = page.read_text()
        assert text.startswith("# Clients\n\nBefore.\n")
        assert text.endswith("After.\n")
        assert "| **RLlib** (ray 9.9) | a \\| b **failed**: boom |" in text
        assert "| **OpenSpiel** | **not run**: no network |" in text
        assert "- `rllib`: numpy 2.0" in text


def test_clients_are_selected_by_name_and_a_failing_command_raises_its_last_line(tmp_path):
    assert [client.name for client in run.select_clients(("openspiel,Tianshou-0.5",))] == ["OpenSpiel", "Tianshou 0.5"]
    assert run.select_clients(()) == list(run.CLIENTS)
    with pytest.raises(ValueError, match="nobody is no client"):
        run.select_clients(("nobody",))
    code = "print('first'); raise SystemExit('the disk is full')"
    with pytest.raises(run.CommandError, match=r"^the disk is full$"):
        run.call(sys.executable, "-c", code, log=tmp_path / "logs" / "log.txt")
