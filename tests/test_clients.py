"""The runner of the client matrix, without the clients; their tests are in tests/clients."""

import sys
from pathlib import Path

import environments
import pytest
from clients import run

HERE = Path(__file__).resolve().parent
FILES = sorted(path.name for path in (HERE / "clients").glob("test_*.py"))


def test_clients_environments_and_checkouts_match():
    assert {client.tests for client in run.CLIENTS} == set(FILES)
    assert {client.environment for client in run.CLIENTS} == set(run.ENVIRONMENTS)
    assert {name for client in run.CLIENTS for name in client.checkouts} == set(run.CHECKOUTS)
    page = run.PAGE.read_text()
    assert [client.name for client in run.CLIENTS if f"\n| **{client.name}**" not in page] == []


REPORT = """<testsuites><testsuite>
<testcase name="test_a[1]"><properties><property name="what" value="all of it" />
<property name="tests" value="4" /><property name="tests" value="3" /></properties></testcase>
<testcase name="test_b" /></testsuite></testsuites>"""


def test_pytest_reports_become_results(tmp_path):
    (tmp_path / "report.xml").write_text(REPORT)
    assert run.read_report(tmp_path / "report.xml") == "passed (8)"
    for element, result in (("failure", "failed"), ("error", "failed"), ("skipped", "not run")):
        bad = f'<testcase name="test_b"><{element} message="boom&#10;and more" /></testcase>'
        (tmp_path / "report.xml").write_text(REPORT.replace('<testcase name="test_b" />', bad))
        assert run.read_report(tmp_path / "report.xml") == f"`test_b` **{result}**: boom"


def test_rows_of_the_page_are_rewritten_client_by_client(tmp_path, monkeypatch):
    page = tmp_path / "clients.md"
    lines = [
        "Before.",
        *(f"| **{client.name}** (x 1.0) | passed (1) |" for client in run.CLIENTS),
        "After.",
    ]
    page.write_text("\n".join(lines))
    monkeypatch.setattr(run, "PAGE", page)
    results = {"RLlib": "passed (3)", "Tianshou": "**not run**: a | b"}
    expected = list(lines)
    expected[lines.index("| **RLlib** (x 1.0) | passed (1) |")] = (
        "| **RLlib** (ray 9.9) | passed (3) |"
    )
    expected[lines.index("| **Tianshou** (x 1.0) | passed (1) |")] = (
        "| **Tianshou** | **not run**: a \\| b |"
    )
    for _ in range(2):
        run.write_rows(results, {"rllib": {"ray": "9.9", "numpy": "2.0"}})
        assert page.read_text().split("\n") == expected


def test_clients_are_selected_by_name_and_a_failing_command_raises_its_last_line(
    tmp_path, monkeypatch
):
    assert [client.name for client in run.select_clients(("openspiel,Tianshou-0.5",))] == [
        "OpenSpiel",
        "Tianshou 0.5",
    ]
    assert run.select_clients(()) == list(run.CLIENTS)
    with pytest.raises(ValueError, match="nobody is no client"):
        run.select_clients(("nobody",))
    monkeypatch.setattr(environments, "CACHE", tmp_path)
    with pytest.raises(environments.CommandError, match=r"^the disk is full$"):
        environments.call(
            sys.executable, "-c", "print('first'); raise SystemExit('the disk is full')", log="log"
        )
