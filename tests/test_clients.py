"""The runner of the client matrix, without the clients; their tests are in tests/clients."""

import sys
from pathlib import Path

import pytest
from clients import run

HERE = Path(__file__).resolve().parent
FILES = sorted(path.name for path in (HERE / "clients").glob("test_*.py"))


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


def test_only_the_marked_part_of_the_page_is_rewritten(tmp_path, monkeypatch):
    page = tmp_path / "clients.md"
    page.write_text(f"# Clients\n\nBefore.\n\n{run.BEGIN}\nold\n{run.END}\n\nAfter.\n")
    monkeypatch.setattr(run, "PAGE", page)
    results = {client.name: "**not run**: a | b" for client in run.CLIENTS}
    for _ in range(2):
        run.write_page({**results, "RLlib": "passed (3)"}, {"rllib": {"ray": "9.9", "numpy": "2.0"}})
        text = page.read_text()
        assert text.startswith("# Clients\n\nBefore.\n")
        assert text.endswith("After.\n")
        assert "| **RLlib** (ray 9.9) | passed (3) |" in text
        assert "| **OpenSpiel** | **not run**: a \\| b |" in text
        assert "- `rllib`: numpy 2.0" in text


def test_clients_are_selected_by_name_and_a_failing_command_raises_its_last_line(tmp_path, monkeypatch):
    assert [client.name for client in run.select_clients(("openspiel,Tianshou-0.5",))] == ["OpenSpiel", "Tianshou 0.5"]
    assert run.select_clients(()) == list(run.CLIENTS)
    with pytest.raises(ValueError, match="nobody is no client"):
        run.select_clients(("nobody",))
    monkeypatch.setattr(run, "CACHE", tmp_path)
    with pytest.raises(run.CommandError, match=r"^the disk is full$"):
        run.call(sys.executable, "-c", "print('first'); raise SystemExit('the disk is full')", log="log")
