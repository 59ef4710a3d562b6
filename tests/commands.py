"""Commands called in the tests' own process: their output, and their errors."""

import json

import pytest

from ttt_apps import evaluate


def text_of(capsys, *words):
    """The standard output of ``evaluate.py``, in single spaces."""
    evaluate.main(list(map(str, words)))
    return " ".join(capsys.readouterr().out.split())


def json_of(capsys, *words):
    """The JSON that ``evaluate.py`` prints."""
    evaluate.main([*map(str, words), "--json"])
    return json.loads(capsys.readouterr().out)


def error_of(capsys, command, *words):
    """The message of a command that ends with exit code 2, or of its parser, in single spaces and
    without a frame.
    """
    with pytest.raises(SystemExit) as end:
        command(list(map(str, words)))
    output = capsys.readouterr()
    assert end.value.code == 2, output
    assert "Traceback" not in output.err
    text = "".join(" " if letter in "│╭╮╰╯─" else letter for letter in output.err + output.out)
    return " ".join(text.split())


def rows_of(path):
    """The objects in a file of JSON lines."""
    return [json.loads(line) for line in path.read_text().splitlines()]
