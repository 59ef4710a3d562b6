"""The page of runs in progress in a browser, with real runs. Its answers: test_watch.py."""

import shlex
import signal
import subprocess
import sys
import time

import pytest
from explorers import Program
from pages import accessibility_faults, in_browser, open_pages
from plain import assert_same_runs
from processes import ROOT

from ttt_apps import train
from ttt_eval.run_files import RunDirectory

pytestmark = [pytest.mark.needs("fastapi", "uvicorn", "playwright", "axe_playwright_python")]
GONE = "net::ERR_CONNECTION_REFUSED"
"""of a request after the program has ended"""
ENDLESS = ("--games=100000000", "--skip-chance=0.25", "--log-every=2000", "--no-report")


@pytest.fixture
def open_page(browser):
    with open_pages(browser, ignored=(GONE,)) as open_page:
        yield open_page


def wait_for_curve(page, games=0):
    """Wait for a curve, and for training beyond a number of games."""
    page.wait_for_selector("#curve svg polyline")
    page.wait_for_function(
        f"() => Number(document.getElementById('games').textContent.replace(/,| of.*/g, '')) > {games}"
    )


@in_browser
def test_a_run_is_shown_while_it_learns_and_stopped(open_page, tmp_path):
    folder = tmp_path / "run"
    with Program("train.py", *ENDLESS, "--out", folder, "--watch") as program:
        page = open_page(program.address)
        wait_for_curve(page)
        page.wait_for_selector("#first .cell.best")
        page.wait_for_selector("#moves li:nth-child(5)")
        page.wait_for_selector("#state:text-is('Training')")
        first, games = page.inner_text("#first"), page.inner_text("#games")
        page.wait_for_function("(old) => document.getElementById('games').textContent !== old", arg=games)
        page.wait_for_function("(old) => document.getElementById('first').innerText !== old", arg=first)
        assert page.inner_text("#rate") != "\N{EN DASH}"
        assert page.locator("#list").is_hidden()
        # by keyboard: asked, declined, asked again, confirmed
        page.focus("#stop")
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.id") == "stop-now"
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.id") == "stop"
        page.keyboard.press("Enter")
        page.keyboard.press("Enter")
        page.wait_for_selector("#state:has-text('continue with train.py --resume')")
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        page.click("#copy")
        page.wait_for_selector("#copy:text-is('Copied')")
        assert page.evaluate("navigator.clipboard.readText()") == f"python train.py --resume {folder}"
        assert f"continue with train.py --resume {folder}" in program.end(130)
    state = RunDirectory(folder).read_state()
    assert 0 < state.progress.games < state.config["games"]
    assert not (folder / "live").exists()


def test_ctrl_c_ends_a_run_whose_address_has_just_been_printed(tmp_path):
    program = Program("train.py", *ENDLESS, "--out", tmp_path / "run", "--watch")
    program.process.send_signal(signal.SIGINT)
    program.end(130)


@in_browser
def test_runs_started_elsewhere_are_shown_side_by_side(open_page, tmp_path):
    runs = [tmp_path / "runs" / name for name in ("one", "two")]
    words = [sys.executable, "train.py", *ENDLESS]
    started = [
        subprocess.Popen([*words, "--out", str(run), "--quiet"], cwd=ROOT, stderr=subprocess.PIPE, text=True)
        for run in runs
    ]
    try:
        while not all((run / "live").exists() for run in runs):
            time.sleep(0.1)
        with Program("evaluate.py", "watch", tmp_path / "runs") as program:
            page = open_page(program.address)
            wait_for_curve(page)
            assert page.locator("#rows tr").count() == 2
            page.click(f"#rows button:text-is('{runs[1]}')")
            page.wait_for_selector(f"#name:text-is('{runs[1]}')")
            page.click("#stop")
            page.click("#stop-now")
            page.wait_for_selector("#rows tr:nth-child(2) td:text-is('stopped')")
            assert started[1].wait(60) == 130
            assert started[0].poll() is None
            page.select_option("#measure", "win rate")
            page.wait_for_selector("#curve svg[aria-label='win rate over games']")
    finally:
        for process in started:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
            process.communicate(timeout=60)
    assert started[0].returncode == 130


@in_browser
def test_the_page_is_accessible_at_any_width_and_outlives_its_program(open_page, tmp_path):
    runs = tmp_path / "runs"
    for seed in (0, 1):
        words = ["--games=2000", "--log-every=100", f"--seed={seed}", "--no-report", "--quiet"]
        train.main([*words, "--out", str(runs / str(seed))])
    (runs / "0" / "live").mkdir()  # in progress, with all buttons
    with Program("evaluate.py", "watch", runs) as program:
        for width, scheme in ((360, "dark"), (1280, "light")):
            page = open_page(program.address, width, color_scheme=scheme, bypass_csp=True)
            wait_for_curve(page)
            page.click("#stop")
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            assert accessibility_faults(page) == []
            small = page.evaluate(
                """() => [...document.querySelectorAll("button, select")]
                    .filter((one) => one.checkVisibility() && one.getBoundingClientRect().height < 43.5)
                    .map((one) => one.outerHTML)"""
            )
            assert small == []
        for name in ("runs/a-1", "my run", "it's", "$(id)", ""):  # the copied command quotes what a shell would read
            command = page.evaluate("(name) => resumeCommand(name)", name)
            assert shlex.split(command) == ["train.py", "--resume", name]
    page.wait_for_selector("#trouble:visible")
    assert page.inner_text("#trouble") == "The page's program has ended. What you see is the last that it told."


@pytest.mark.parametrize("end", ["finish", "kill"])
def test_the_page_ends_with_its_training(tmp_path, end):
    import httpx
    import psutil

    games = ENDLESS if end == "kill" else ("--games=300", "--no-report")
    with Program("train.py", *games, "--out", tmp_path / "run", "--watch") as program:
        [page] = psutil.Process(program.process.pid).children()
        if end == "kill":
            address, _, token = program.address.partition("?token=")
            assert httpx.post(f"{address}api/runs", json={}, headers={"x-ttt-token": token}).status_code == 200
            program.process.kill()
        program.end()
        page.wait(20)
        assert not page.is_running()


def test_a_watched_sweep_shows_its_runs_and_is_the_same(tmp_path):
    file = tmp_path / "small.toml"
    file.write_text('seeds = 1\nfixed = {games = 300, "log-every" = 100, "no-report" = true}\n')
    train.main(["--sweep", str(file), "--out", str(tmp_path / "alone"), "--quiet"])
    with Program("train.py", "--sweep", file, "--out", tmp_path / "watched", "--watch") as program:
        program.end(0)
    for run in (tmp_path / "alone" / "runs").iterdir():
        assert_same_runs(run, tmp_path / "watched" / "runs" / run.name)
