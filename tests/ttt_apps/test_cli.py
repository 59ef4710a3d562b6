"""Shared parts of the commands: options, help, output, signals."""

import contextlib
import dataclasses
import io
import os
import re
import shutil
import signal
import subprocess
import sys
import types
import warnings
from typing import Annotated

import pytest
import tiny
import tyro
from commands import error_of, json_of, text_of
from processes import ROOT, run_python

from learners import OtherGameWarning
from ttt_apps import cli, evaluate, play, train
from ttt_apps.evaluate import COMMANDS
from ttt_apps.signals import Interrupt, interrupt_on_signals
from ttt_envs import Game, make_policy
from ttt_envs.agents.specs import load_object
from ttt_envs.game.game import VARIANTS
from ttt_envs.version import __version__
from ttt_eval.reports.formats import game_options


@pytest.mark.parametrize("rule", VARIANTS)
def test_the_options_of_a_game_are_read_as_the_same_game(rule):
    game = Game(4, 5, 3, 0.1, **{rule: VARIANTS[rule]})
    assert cli.parse(cli.GameOptions, game_options(game), "evaluate.py").game() == game


@pytest.mark.parametrize(
    ("words", "game"),
    [
        ("--game connect-four", Game(6, 7, 4, gravity=True)),
        ("--game connect-four --skip-chance 0.25", Game(6, 7, 4, 0.25, gravity=True)),
        ("--game gomoku --no-overlines", Game(15, 15, 5, overlines=False)),
        ("--game connect-four --size 4", Game(4, 4, 4, gravity=True)),
        ("", Game(4, 5, 3, 0.5)),
        ("--skip-chance 0", Game(4, 5, 3)),
        ("--game tic-tac-toe", Game()),
    ],
)
def test_a_game_by_name_or_by_default(words, game):
    assert cli.parse(cli.GameOptions, words.split(), "evaluate.py").game(Game(4, 5, 3, 0.5)) == game


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("10000", 10_000), ("10_000", 10_000), ("10,000", 10_000), ("1e4", 10_000), ("1.5e3", 1_500), ("2E+2", 200),
        ("-5", -5), ("0", 0), ("1,234,567", 1_234_567),
    ],
)  # fmt: skip
def test_parse_count(text, number):
    assert cli.parse_count(text) == number


@pytest.mark.parametrize("text", ["many", "", "1.5", "1.25e1", "1,00", "1e", "e4", "0x10", "9" * 100, "nan", "inf"])
def test_invalid_count(text):
    with pytest.raises(ValueError, match="is not a whole number: write for example 10000, 10_000 or 1e4"):
        cli.parse_count(text)


@pytest.mark.parametrize(("text", "size"), [("3", (3, 3)), ("5x6", (5, 6)), (" 12X4 ", (12, 4))])
def test_parse_size(text, size):
    assert cli.parse_size(text) == size


@dataclasses.dataclass(frozen=True)
class Some:
    """Options of a test."""

    games: cli.Count = 5
    """how many"""
    steady: float = 1.0
    """how steady"""
    where: Annotated[tuple[str, ...], tyro.conf.Positional] = ()
    """in which folders"""


@pytest.mark.parametrize(
    ("words", "options"),
    [
        ([], Some()),
        (["--games", "1e3"], Some(games=1000)),
        (["--steady=0.5", "a", "b"], Some(steady=0.5, where=("a", "b"))),
    ],
)
def test_parse(words, options):
    assert cli.parse(Some, words, "some.py") == options


@pytest.mark.parametrize("command", [train.main, evaluate.main])
def test_version(command, capsys):
    with pytest.raises(SystemExit) as end:
        command(["--version"])
    assert not end.value.code
    assert capsys.readouterr().out == f"ttt_envs {__version__}\n"


def test_quiet_prints_results_alone(tmp_path, capsys):
    train.main(["--games", "50", "--quiet", "--out", str(tmp_path / "run")])
    said = capsys.readouterr()
    assert said.err == ""
    [line] = said.out.splitlines()
    assert line.startswith("exactly: exploitability")
    train.main(["--games", "50", "--out", str(tmp_path / "other")])
    assert "a report to look at" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ((), "exact results against random and optimal are left out on 3 x 4, 3 to win, skip 0.1: "),
        (("--exact-every", "50", "--opponent", "self"), "exactly: exploitability "),
    ],
)
def test_quiet_training_says_what_it_leaves_out(options, line, tmp_path, capsys):
    run = tmp_path / "run"
    train.main(["--games", "50", "--size", "3x4", "--skip-chance", "0.1", "--quiet", "--out", str(run), *options])
    said = capsys.readouterr().out
    assert said.startswith(line)
    assert said.endswith(f"evaluate.py match run:{run} random --size 3x4 --skip-chance 0.1 samples them\n")


def test_command_names_of_an_installed_package(monkeypatch):
    text = "go on with train.py --resume x, or python evaluate.py match a b"
    assert cli.installed_names(text) == text
    monkeypatch.setattr(sys, "argv", ["/usr/bin/ttt-train"])
    assert cli.installed_names(text) == "go on with ttt-train --resume x, or ttt-evaluate match a b"


def test_every_listed_command_exists():
    waiting = [COMMANDS]
    while waiting:
        for path, what in waiting.pop().values():
            command = load_object(path)
            assert what.endswith(".")
            if isinstance(command, dict):
                waiting.append(command)
            else:
                assert callable(command.run)
                names = {field.name for field in dataclasses.fields(command)}
                assert issubclass(command, cli.GameOptions) or not names & {*VARIANTS}  # a rule is an option once


def test_help_has_all_commands(capsys):
    with contextlib.suppress(SystemExit):
        evaluate.main(["--help"])
    shown = capsys.readouterr().out
    for name in (*COMMANDS, "--quiet"):
        assert re.search(rf"(^|\W){name}\W", shown), name


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command, capsys):
    with pytest.raises(SystemExit) as end:
        evaluate.main([command, "--help"])
    assert end.value.code == 0
    assert f"evaluate.py {command}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("columns", "used"),
    [
        ("0", None), ("1", "40"), ("-5", None), ("", None), ("\u00b2", None),
        ("9" * 5000, None), ("99", "99"), ("9" * 9, "10000"),
    ],
)  # fmt: skip
def test_terminal_width_is_limited(columns, used, monkeypatch):
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setattr(sys, "__stdout__", io.StringIO())  # no terminal
    cli.run_command(lambda: None)
    assert os.environ.get("COLUMNS") == used


@pytest.mark.parametrize("columns", ["0", "1"])
def test_help_is_complete_in_narrow_terminals(columns):
    shown = run_python("evaluate.py", "match", "--help", COLUMNS=columns).stdout
    for word in ("--openings", "--clock", "--jobs"):
        assert word in shown


def test_a_closed_pipe_ends_a_command_without_a_message():
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "evaluate.py", "list", "learners"]
    done = subprocess.run(command, cwd=ROOT, stdout=writing, stderr=subprocess.PIPE, timeout=300)
    os.close(writing)
    assert done.stderr == b""


@pytest.mark.parametrize(
    "encoding",
    [
        {"PYTHONIOENCODING": "ascii"},
        {"PYTHONIOENCODING": "cp1252:strict"},
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    ],
)
def test_letters_outside_the_encoding_are_replaced(encoding, tmp_path):
    (tmp_path / "names.py").write_text(
        "from ttt_apps.cli import run_command, print_output, print_table, new_table\n"
        "table = new_table('games \\u4e94')\n"
        "run_command(lambda: (print_output('five: \\u4e94'), print_table(table), print('\\udcff')))\n"
    )
    env = {name: value for name, value in os.environ.items() if not name.startswith(("LC_", "LANG", "PYTHONUTF8"))}
    env |= {"PYTHONPATH": str(ROOT), **encoding}
    shown = subprocess.run([sys.executable, tmp_path / "names.py"], env=env, capture_output=True)
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.splitlines()[0] == b"five: ?"
    assert shown.stdout.splitlines()[-1] == b"?"


@pytest.mark.skipif(os.name != "posix", reason="SIGHUP")
def test_a_signal_that_nohup_ignores_stays_ignored():
    before, ignored = signal.signal(signal.SIGHUP, signal.SIG_IGN), False
    try:
        with contextlib.suppress(KeyboardInterrupt), interrupt_on_signals(), Interrupt() as interrupt:
            signal.raise_signal(signal.SIGHUP)
            ignored = not interrupt.asked
    finally:
        signal.signal(signal.SIGHUP, before)
    assert ignored


@pytest.mark.parametrize("terminal", ["", "1"])
def test_output_shows_names_without_markup_and_without_control_characters(terminal, capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", terminal)
    monkeypatch.setattr(cli.threading, "Timer", lambda _, start: types.SimpleNamespace(start=start, cancel=str))
    name = "A[lr=0.1][/x]:x:\x07\x1b]0;"
    table = cli.new_table("name", "games", title=name)
    table.add_row(name, name)
    cli.print_table(table)
    cli.print_output(name)
    cli.warn(name)
    with cli.slow_status(name), cli.count_bar(name) as update:
        update(1, 1)
    out, err = capsys.readouterr()
    assert "\x07" not in out + err
    assert re.sub("\x1b\\[[^A-Za-z]*.", "", out).count(r"A[lr=0.1][/x]:x:\x07\x1b]0;") == 4
    assert re.sub("\x1b\\[[^A-Za-z]*.", "", err).count(r"A[lr=0.1][/x]:x:\x07\x1b]0;") >= 1 + 2 * bool(terminal)


def test_run_that_plays_another_game_warns(tmp_path, capsys):
    train.main(["--games", "20", "--no-report", "--out", str(tmp_path)])
    capsys.readouterr()
    with pytest.warns(OtherGameWarning, match=r"learned 3 x 3, 3 to win, and plays 3 x 3, 3 to win, skip 0\.1 here"):
        make_policy(f"run:{tmp_path}", Game(skip_chance=0.1))
    for command in (["exact"], ["match", "--games", "4"]):
        evaluate.main([*command, f"run:{tmp_path}", "random", "--skip-chance", "0.1"])
        assert capsys.readouterr().err.count("note: run:") == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make_policy(f"run:{tmp_path}", Game())


@pytest.mark.parametrize(
    ("command", "policy"),
    [
        ("exact RUN random", ""),
        ("exact random RUN", ""),
        ("exploitability RUN", ""),
        ("exploitability SPEC", "expectiminimax:depth=1,leaf=(RUN)"),
        ("match RUN random --games 2", ""),
        ("match SPEC RUN --games 2", "mcts:simulations=4,rollout=(RUN)"),
        ("match random RUN table --games 2 --no-report", ""),
        ("audit gae --policy RUN --episodes 50", ""),
        ("audit gae --opponent RUN --episodes 50", ""),
    ],
)
def test_a_command_plays_the_game_of_its_run(command, policy, tiny_run, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run = f"run:{tiny_run('q-learning')}"
    capsys.readouterr()
    words = [word.replace("SPEC", policy).replace("RUN", run) for word in command.split()]
    assert json_of(capsys, *words)["game"] == tiny.GAME.to_dict()
    elsewhere = ("--out", tmp_path / "other") if "--no-report" in words else ()
    other = json_of(capsys, *words, "--skip-chance", "0.5", *elsewhere)
    assert other["game"] == Game(2, 3, 2, 0.5).to_dict()


def test_the_terminal_plays_the_game_of_its_run(tiny_run, tmp_path, capsys):
    (tmp_path / "moves.txt").write_text("quit\n")
    play.main(["--opponent", f"run:{tiny_run('q-learning')}", "--input", str(tmp_path / "moves.txt")])
    assert capsys.readouterr().out.startswith(str(tiny.GAME))


def test_runs_of_different_games_need_the_game_by_name(tmp_path, capsys):
    for skip in ("0.0", "0.5"):
        train.main(["--games", "20", "--skip-chance", skip, "--no-report", "--out", str(tmp_path / skip)])
    capsys.readouterr()
    plain, skips = tmp_path / "0.0", tmp_path / "0.5"
    words = ("exact", f"run:{plain}", f"run:{skips}")
    message = error_of(capsys, evaluate.main, *words)
    assert f"{plain} learned {Game()}, and {skips} learned {Game(skip_chance=0.5)}: name the game" in message
    assert json_of(capsys, *words, "--skip-chance", "0")["game"] == Game().to_dict()


def test_class_in_the_current_folder_plays(tmp_path, monkeypatch, capsys):
    shutil.copy(ROOT / "examples" / "files" / "corner.py", tmp_path / "mine_of_a_test.py")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [folder for folder in sys.path if folder])
    evaluate.main(["exact", "mine_of_a_test:Corner:firmly=0.5", "random", "--json"])
    assert '"mean"' in capsys.readouterr().out


def test_lists_of_learners_and_policies(capsys):
    learners, policies = json_of(capsys, "list", "learners"), json_of(capsys, "list", "policies")
    assert learners["q-learning"]["arguments"]["epsilon"] == {"kind": "number", "default": 0.3, "needed": False}
    assert learners["q-learning"]["self_play"] == {"backup": "negamax", "symmetries": "all"}
    assert policies["run"]["arguments"]["path"]["needed"]
    assert policies["optimal"]["arguments"]["epsilon"]["default"] == 0.0
    for command, name in (("learners", "q-learning"), ("policies", "win-or-block")):
        text = text_of(capsys, "list", command)
        assert "epsilon=" in text
        assert name in text
        assert "`" not in text
    assert "chance-25" in json_of(capsys, "list", "tasks")
    assert "svd-fig4" in json_of(capsys, "list", "studies")
