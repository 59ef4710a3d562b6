"""Commands called in the tests' own process: their output, and their errors."""

import json
import shlex

import pytest


class Program:
    """A command of ours. A line is given as somebody types it: a text is split as in a shell, all
    else, such as a path, is one word.
    """

    def __init__(self, main, capsys):
        self.main = main
        self.capsys = capsys

    def __call__(self, *line):
        """The standard output of this line alone; ``err`` is its standard error."""
        self.capsys.readouterr()
        self.main(words_of(*line))
        out, self.err = self.capsys.readouterr()
        return out

    def text(self, *line):
        """The standard output in single spaces."""
        return " ".join(self(*line).split())

    def json(self, *line):
        """The JSON that is printed."""
        return json.loads(self(*line, "--json"))

    def error(self, *line):
        """The message of a line that ends with exit code 2, or of its parser, in single spaces and
        without a frame.
        """
        self.capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            self.main(words_of(*line))
        output = self.capsys.readouterr()
        assert end.value.code == 2, output
        assert "Traceback" not in output.err
        text = "".join(" " if letter in "│╭╮╰╯─" else letter for letter in output.err + output.out)
        return " ".join(text.split())


def words_of(*line):
    """The words of a command line, see :class:`Program`."""
    words = []
    for part in line:
        words += shlex.split(part) if isinstance(part, str) else [str(part)]
    return words
