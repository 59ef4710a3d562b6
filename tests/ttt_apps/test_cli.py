"""Shared parts of the commands: options, help, output, signals, and the game that a command
plays.
"""

import os
import re
import signal
import subprocess
import sys

import pytest
import tiny
from commands import Program
from explorers import run_explorer
from processes import ROOT, run_python
from small_games import SKIP_GAME

from ttt_apps.cli import help
from ttt_apps.cli import options as cli
from ttt_apps.cli.signals import interrupt_on_signals, stop_requests
from ttt_apps.terminal import command as play
from ttt_envs import Game
from ttt_envs.core.checks import Refusal
from ttt_envs.game.game import VARIANTS
from ttt_envs.version import __version__
from ttt_eval.reports.formats import game_options

pytestmark = pytest.mark.more


@pytest.mark.parametrize("rule", VARIANTS)
def test_the_options_of_a_game_are_read_as_the_same_game(rule):
    game = Game(4, 5, 3, 0.1, **{rule: VARIANTS[rule]})
    assert cli.parse(cli.GameOptions, game_options(game), "evaluate.py").game() == game


@pytest.mark.parametrize(
    ("words", "game"),
    [
        ("--game connect-four --skip-chance 0.25", Game(6, 7, 4, 0.25, gravity=True)),
        ("--game connect-four --size 3", Game(3, 3, 3, gravity=True)),
        ("", Game(4, 5, 3, 0.5)),
        ("--game tic-tac-toe --no-overlines", Game(overlines=False)),
        ("--size 3 --skip-chance 25%", SKIP_GAME),
    ],
)
def test_a_game_by_name_or_by_default(words, game):
    assert cli.parse(cli.GameOptions, words.split(), "evaluate.py").game(Game(4, 5, 3, 0.5)) == game


@pytest.mark.parametrize(
    "text", ["many", "", "2.5", "1,00", "1e", "9" * 100, "1e999999999", "nan", "0", "3"]
)
def test_even_numbers(text):
    assert cli.parse_count("1.5e3", 2, 2) == cli.parse_count("1,500", 2, 2) == 1_500
    with pytest.raises(Refusal):
        cli.parse_count(text, 2, 2)


def test_quiet_prints_results_alone(tmp_path, train_py):
    [line] = train_py("--games 50 --quiet --out", tmp_path / "run").splitlines()
    assert line.startswith("exactly: exploitability")
    compute, estimate = train_py("--games 50 --size 4 --quiet --out", tmp_path / "4").splitlines()
    assert re.search(
        r"takes about \d+ s: python evaluate.py exploitability run:.* --size 4", compute
    )
    assert "python evaluate.py match run:" in estimate
    assert train_py.err == ""


def test_a_closed_pipe_ends_a_command_without_a_message():
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "evaluate.py", "list", "learners"]
    process = subprocess.run(command, cwd=ROOT, stdout=writing, stderr=subprocess.PIPE, timeout=300)
    os.close(writing)
    assert process.stderr == b""


@pytest.mark.skipif(os.name != "posix", reason="a shell, and ulimit")
@pytest.mark.parametrize(
    ("line", "code", "message"),
    [
        ("COMMAND list tasks >&-", 0, ""),
        ("COMMAND list tasks <&- 2>&-", 0, ""),
        ("PLAY --size 2 --opponent random <&-", 0, ""),
        (
            "mkdir gone && cd gone && rmdir ../gone && COMMAND list tasks",
            2,
            "error: the current folder is gone",
        ),
        (
            "NUMBA_NUM_THREADS=0 COMMAND list tasks",
            2,
            "error: NUMBA_NUM_THREADS=0 is no number of threads",
        ),
    ],
)
def test_commands_bear_odd_surroundings(line, code, message, tmp_path):
    for name, program in (("COMMAND", "evaluate.py"), ("PLAY", "play.py")):
        line = line.replace(name, f"{sys.executable} {ROOT / program}")
    process = subprocess.run(
        line, shell=True, cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert (process.returncode, process.stderr[: len(message)]) == (code, message)
    assert "Traceback" not in process.stderr


def test_the_package_prints_its_version_and_commands():
    output = run_python("-m", "ttt_envs").stdout
    assert output.startswith(f"ttt_envs {__version__}\n")
    assert all(f"ttt-{name}" in output for name in ("train", "evaluate", "play"))


def test_an_installed_package_names_its_commands(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "argv", ["/x/ttt_apps/evaluate/__main__.py"])
    text = "python train.py resume x"
    assert help.installed_names(text) == text
    monkeypatch.setattr(help, "ROOT", tmp_path)
    assert help.installed_names(text) == "ttt-train resume x"


@pytest.mark.needs("fastapi", "uvicorn")
def test_the_explorer_opens_a_game_by_its_options(capsys):
    with run_explorer("--game", "connect-four", "--skip-chance", "0.25") as (_, address):
        assert address.endswith("/#rows=6&columns=7&skip=0.25&gravity=true")
    play_py = Program(play.main, capsys)
    for options, problem in (
        ("--size=16", "up to 15"),
        ("--open=seed=1 --size=4", "--size has no effect"),
    ):
        assert problem in play_py.error("web --no-browser", options)


def test_letters_outside_the_encoding_are_replaced(tmp_path):
    (tmp_path / "names.py").write_text(
        "from ttt_apps.cli.options import run_command, print_output, rows_table\n"
        "table = rows_table([{'games \\u4e94': 3}])\n"
        "run_command(lambda: (print_output('five: \\u4e94'), print_output(table), "
        "print('\\udcff')))\n"
    )
    variables = {"PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "cp1252:strict"}
    lines = run_python(tmp_path / "names.py", **variables).stdout.splitlines()
    assert (lines[0], lines[-1]) == ("five: ?", "?")


@pytest.mark.skipif(os.name != "posix", reason="SIGHUP")
def test_a_signal_that_nohup_ignores_stays_ignored():
    former = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with interrupt_on_signals(), stop_requests() as requests:
            signal.raise_signal(signal.SIGHUP)
            assert not requests
    finally:
        signal.signal(signal.SIGHUP, former)


def test_a_second_signal_stops_at_once():
    with stop_requests() as requests:
        signal.raise_signal(signal.SIGINT)
        assert requests == [signal.SIGINT]
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("terminal", ["", "1"])
def test_output_shows_names_without_markup_and_without_control_characters(
    terminal, capsys, monkeypatch
):
    monkeypatch.setenv("FORCE_COLOR", terminal)
    monkeypatch.setenv(cli.QUIET, "0")
    name = "A[lr=0.1][/x]:x:\x07\x1b]0;"
    cli.JsonOptions().show(
        None, cli.rows_table([{"name": name}], title=name), cli.facts_table({name: 1}), name
    )
    cli.warn(name)
    with cli.bar(name) as update:
        update(1, 1)
    out, err = capsys.readouterr()
    assert "\x07" not in out + err
    assert re.sub("\x1b\\[[^A-Za-z]*.", "", out).count(r"A[lr=0.1][/x]:x:\x07\x1b]0;") == 4
    assert re.sub("\x1b\\[[^A-Za-z]*.", "", err).count(r"A[lr=0.1][/x]:x:\x07\x1b]0;") >= 1 + bool(
        terminal
    )


@pytest.mark.parametrize(
    "command",
    [
        "exploitability expectiminimax:depth=1,leaf=(RUN)",
        "match random timed:search=(expectiminimax:depth=1,leaf=(RUN)),max-depth=1 --games 2",
    ],
)
def test_a_command_plays_the_game_of_its_run_or_another_with_a_note(command, tiny_run, evaluate_py):
    line = command.replace("RUN", f"run:{tiny_run('q-learning')}")
    assert evaluate_py.json(line)["game"] == tiny.GAME.to_dict()
    assert evaluate_py.json(line, "--skip-chance 0.5")["game"]["skip_chance"] == 0.5
    assert evaluate_py.err.count("note: run:") == 1


def test_runs_of_different_games_need_the_game_by_name(tmp_path, evaluate_py, train_py):
    for skip in ("0.0", "0.5"):
        train_py(f"--games 20 --skip-chance {skip} --no-report --out", tmp_path / skip)
    line = f"exact run:{tmp_path / '0.0'} run:{tmp_path / '0.5'}"
    assert "name the game" in evaluate_py.error(line)
    assert evaluate_py.json(line, "--skip-chance 0")["game"] == Game().to_dict()


def test_lists(evaluate_py):
    learners = evaluate_py.json("list learners")
    policies = evaluate_py.json("list policies")
    assert learners["q-learning"]["arguments"]["epsilon"] == {"default": 0.3, "needed": False}
    assert learners["q-learning"]["self_play"] == {"backup": "negamax", "symmetries": "all"}
    assert policies["run"]["arguments"]["path"]["needed"]
    assert "svd-fig4" in evaluate_py.json("list studies")
