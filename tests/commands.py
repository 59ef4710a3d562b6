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
    """The message of a command that ends with exit code 2, in single spaces."""
    with pytest.raises(SystemExit) as end:
        command(list(map(str, words)))
    shown = capsys.readouterr()
    assert end.value.code == 2, shown
    assert "Traceback" not in shown.err
    assert not set("│╭╯") & set(shown.err)
    return " ".join((shown.err + shown.out).split())


def rows_of(path):
    """The objects in a file of JSON lines."""
    return [json.loads(line) for line in path.read_text().splitlines()]
