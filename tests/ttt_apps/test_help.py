"""The help of every command, in a narrow and in a wide terminal."""

import io
import itertools
import os
import re
from contextlib import redirect_stdout, suppress
from unittest import mock

import pytest

from learners import LEARNERS
from ttt_apps import evaluate
from ttt_apps.terminal import command as play
from ttt_apps.training import command as train


def evaluation_commands():
    """The words of every command of ``evaluate.py``."""
    for name, command in evaluate.COMMANDS.items():
        yield [name]
        yield from ([name, other] for other in command.get("commands", ()))


COMMANDS = [
    *((train.main, words) for words in ([], ["resume"], ["sweep"])),
    *((train.main, ["--learner", name]) for name in LEARNERS),
    *((play.main, words) for words in ([], ["web"])),
    *((evaluate.main, words) for words in ([], *evaluation_commands())),
]


def help_lines(main, words, width):
    """The lines of a help, without the frames of its boxes."""
    output = io.StringIO()
    with (
        mock.patch.dict(os.environ, {"COLUMNS": str(width)}),
        redirect_stdout(output),
        suppress(SystemExit),
    ):
        main([*words, "--help"])
    return [
        line[2:-2] if line.startswith("│") else line.removeprefix("  ").ljust(width - 2)
        for line in output.getvalue().splitlines()
    ]


def torn_lines(lines):
    """The lines of paragraphs that end where the first word of the next line would have fitted."""
    for line, next_line in itertools.pairwise(lines):
        indent = len(next_line) - len(next_line.lstrip())
        text = line.rstrip()
        is_paragraph = indent == 0 and next_line[:1].islower()
        if indent > 4:  # a column of texts, beside the options or below an option that is too wide
            is_paragraph = text[indent - 2 : indent] == "  " and text[indent : indent + 1] != " "
        if text and is_paragraph:
            word = re.match("[^ ,]*,?", next_line.lstrip())[0]
            if len(text) + 1 + len(word) <= len(line):
                yield line


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize(
    ("main", "words"),
    [pytest.param(*case, id=f"{case[0].__module__[9:]} {' '.join(case[1])}") for case in COMMANDS],
)
def test_a_help_reads(main, words, width):
    lines = help_lines(main, words, width)
    assert lines[0].startswith("usage: ")
    assert [*torn_lines(lines)] == []
    assert max(len(line.rstrip()) for line in lines[1:]) <= width
    text = " ".join(lines)
    for noise in ("(default: False)", "(default: None)", "{None}", "At most one argument"):
        assert noise not in text


def test_torn_lines_are_found():
    text = "--size N  edge of the board, and\n          more words of it"
    lines = [line.ljust(60) for line in text.splitlines()]
    assert [*torn_lines(lines)] == lines[:1]
    assert [*torn_lines(["Train a learner".ljust(24), "and write a run."])] != []


def test_train_names_its_subcommands_and_an_example():
    text = "\n".join(help_lines(train.main, [], 100))
    for words in ("train.py resume RUN", "train.py sweep FILE", "train.py --learner q-learning"):
        assert words in text
