"""Errors of the commands: one message that names the value, exit code 2, nothing written; bugs keep
tracebacks.
"""

import errno
import io
import sys
from pathlib import Path

import numpy as np
import pytest
from commands import Program

from ttt_apps import evaluate
from ttt_apps.cli import options as cli
from ttt_apps.terminal import command as play
from ttt_apps.training import command as train
from ttt_envs.core.checks import Refusal

SWEEPS = {
    "option": "fixed = {epsilom = 0.1}",
    "out": "fixed = {out = 'x'}",
    "no": "fixed = {epsilom = false}",
}
"""Files of sweeps, by what is wrong in them."""
EVALUATE = [
    # names of commands, options, policies and other things
    ("", "match"),
    ("match random rndom", "'random'"),
    ("match random builtins:dict", "no signature"),
    ("reproduce learners-nave", "learners-naive"),
    # what is missing
    ("match random", "two or more"),
    # numbers and sizes
    ("match random random --games 7", "7 is no even number"),
    ("match random random --jobs 0", "jobs=0"),
    ("exploitability random --size 5", "memory"),
    ("exact examples.files.corner:Corner:weight=1e308 random", "choose a number above 0, up to 1"),
    ("llm --model any --dry-run --temperature nan", "nan"),
    # what contradicts itself, or has no effect
    ("match random random --phantom classic", "--phantom"),
    ("match random random --sprt 0 1e6", "elo1=1e+06"),
    # files and positions
    ("exploitabilty random", "did you mean 'exploitability'?"),
    ("exploitability run:runs/frist", "Did you mean runs/first?"),
    ("exploitability run:runs", "It contains runs: choose one, such as runs/first"),
    ("games rusn/log", "there is no file or folder rusn: did you mean runs?"),
    ("bench score runs", "runs is no submission"),
    ("compare runs/first runs/first --out a.pdf", ".html"),
    ("compare no.toml", "no.toml is a file and no run"),
    ("exploitability sb3:model.zip", "write sb3:path=...,algorithm=..."),
    ("exact random optimal table", "has no place for table"),
    ("exact random optimal --tabel", "Unrecognized options: --tabel"),
    ("bench run --agent dqn", "no agent or module:make 'dqn': did you mean 'sb3-dqn'?"),
    ("solve --size 30", "--size '30' is not a board: write an edge of 1 to 19"),
    ("solve --skip-chance half", "half is no probability"),
]
TRAIN = [
    ("q-lerning", "did you mean 'q-learning'?"),
    ("q-learning --games 9", "write --learner q-learning"),
    ("--win-length 4", "--win-length 4 does not fit"),
    ("--hidden 64", "q-learning has no --hidden, which is of alpha-zero, ppo, q-net"),
    ("resume runs/first --learner q-net", "--learner"),
    ("sweep optoin.toml", "optoin.toml"),
    ("sweep option.toml", "run 1 of option.toml"),
    ("sweep out.toml", "'out'"),
    ("sweep no.toml", "run 1 of no.toml"),
    ("--cluster nowhere:1", "--cluster"),
]


@pytest.mark.parametrize(
    ("command", "line", "word"),
    [
        pytest.param(module.main, line, word, id=f"{module.__name__[9:]} {line[:60]}")
        for module, cases in (
            (evaluate, EVALUATE),
            (train, TRAIN),
            (play, [("--opponent optimall", "'optimal'")]),
        )
        for line, word in cases
    ],
)
def test_an_invalid_command_line_is_one_message(command, line, word, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    files = {f"{name}.toml": content for name, content in SWEEPS.items()}
    for name, content in files.items():
        Path(name).write_text(content)
    Path("runs", "first").mkdir(parents=True)
    Path("runs", "first", "config.json").write_text("{}")
    assert word in Program(command, capsys).error(line)
    assert {path.name: path.read_text() for path in Path().iterdir() if path.is_file()} == files
    assert [path.name for path in Path().rglob("*") if path.is_dir()] == ["runs", "first"]


@pytest.mark.parametrize(("command", "option"), [(evaluate.main, "games"), (play.main, "--replay")])
def test_a_file_that_is_no_log_is_told_its_first_line(command, option, tmp_path, capsys):
    (tmp_path / "junk").write_bytes(bytes(range(256)) * 9)
    message = Program(command, capsys).error(option, tmp_path / "junk")
    assert message.endswith('which begins with {"format": 1, "content": "games"}')
    assert len(message) < 300


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        (
            FileNotFoundError(errno.ENOENT, "No such file", "none/a/b"),
            "there is no file or folder none",
        ),
        (
            OSError(errno.EIO, "Input/output error", "a.json"),
            "a.json cannot be used (Input/output error)",
        ),
        (
            OSError(errno.ENOSPC, "No space left", "a.json"),
            "a.json cannot be used (No space left): make room",
        ),
        (
            OSError(errno.ENOSPC, "No space left"),
            "the output cannot be written (No space left): make room",
        ),
        (Refusal("x" * 9000), "x" * 3997 + "...\n"),
        (Refusal("a\nb\x1b[2J\udcff.json is no run"), "a\\nb\\x1b[2J\\udcff.json is no run\n"),
    ],
)
def test_problems_name_the_file_on_one_line(problem, message, capsys):
    def fail():
        raise problem

    with pytest.raises(SystemExit) as end:
        cli.run_command(fail)
    assert end.value.code == 2
    assert capsys.readouterr().err.startswith(f"error: {message}")


def fail_an_invariant():
    exec("raise ValueError('an invariant')", {"__name__": "ttt_eval.exact"})


@pytest.mark.parametrize(
    "bug",
    [lambda: np.ones(3) + np.ones(4), lambda: {}["key"], lambda: int("three"), fail_an_invariant],
    ids=["shapes", "key", "number", "invariant"],
)
def test_a_bug_keeps_its_traceback(bug):
    with pytest.raises((ValueError, KeyError)):
        cli.run_command(bug)


def test_a_refusal_shows_its_traceback_if_asked(monkeypatch):
    monkeypatch.setenv(cli.TRACEBACK, "1")
    with pytest.raises(Refusal, match="not a board"):
        cli.run_command(lambda: cli.parse_size("30x30"))
