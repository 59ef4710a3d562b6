"""Error messages of the commands: one sentence in the words of the command line.

The packages below name arguments as Python does, ``win_length=9``. Here they become options, ``--win-length 9``.
"""

from __future__ import annotations

import errno
import re
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from learners import LEARNERS, is_run
from ttt_envs.agents.specs import POLICIES, TRUSTING
from ttt_envs.core.checks import closest_name, closest_names
from ttt_envs.core.files import closest_path

_given: dict[str, str | None] = {}
"""options of the current command -> the text that was given, None for an option that was not given"""


def installed_names(text: str) -> str:
    """Replace command names in ``text`` by those of this installation: an installed package has no train.py."""
    if Path(sys.argv[0]).name.startswith("ttt-"):
        return re.sub(r"\b(?:python )?(train|evaluate|play)\.py\b", r"ttt-\1", text)
    return text


def print_error(problem: BaseException) -> int:
    """Print the error on one line, and return its exit code."""
    text = _os_error(problem) if isinstance(problem, OSError) else str(problem)
    print(f"error: {escape_unprintable(installed_names(_to_options(text)))}", file=sys.stderr)
    return 2


def escape_unprintable(text: str, keep: str = "") -> str:
    """Replace line breaks and other unprintable characters by their escapes, except those in ``keep``.

    Messages and tables quote names of files and texts in them, which may hold characters that a terminal obeys.
    """
    return "".join(letter if letter.isprintable() or letter in keep else repr(letter)[1:-1] for letter in text)


def note_options(names: Iterable[str], words: Sequence[str]) -> None:
    """Note the options of the command, ``--win-length`` and so on, and its words: :func:`print_error` uses both."""
    _given.clear()
    _given.update(dict.fromkeys(names))
    for index, word in enumerate(words):
        option, given, value = word.partition("=")
        option = option.replace("_", "-")
        if option in _given:
            _given[option] = value if given else "".join(words[index + 1 : index + 2])


# ---------------------------------------------------------------------------------------------------------------------
# Python's words and the system's


def _to_options(text: str) -> str:
    """Replace arguments by options: ``win_length=9`` by ``--win-length 9``, and ``memory=`` by ``--memory``.

    An argument of one word, such as ``epsilon=2``, may belong to a spec string. It is replaced if its option has this
    value.
    """
    if "--trust" in _given:
        text = text.replace(TRUSTING, f"use --trust or {TRUSTING}")

    def replace(match: re.Match[str]) -> str:
        name, value = match.groups()
        option = f"--{name.replace('_', '-')}"
        if option not in _given:
            return match[0]
        if not value:
            return option
        if value.startswith('"'):  # advice: another value of an option that was given
            return f"{option} {value[1:-1]}"
        same = _is_equal(value, _given[option])
        return f"{option} {_given[option] if same else value}" if "_" in name or same else match[0]

    return re.sub(r"(?<![\w:,.-])([a-z][a-z_0-9]*)=('[^']*'|\"[^\"]*\"|[^\s,:;]*)", replace, text)


def _is_equal(value: str, given: str | None) -> bool:
    """Return whether a value in a message is the given one."""
    if given is None or value.strip("'\"") == given:
        return given is not None
    try:
        return float(value) == float(given) or value == given.lower() == "nan"
    except ValueError:
        return False


def _os_error(problem: OSError) -> str:
    """Return what the system refused, and on which file."""
    if problem.filename is None or problem.strerror is None:
        return str(problem)
    path = Path(str(problem.filename))
    if problem.errno == errno.ENOENT:
        near = closest_path(path)
        missing = next((folder for folder in reversed(path.parents) if not folder.exists()), path)
        return f"there is no file or folder {missing}{f': did you mean {near}?' if near else ''}"
    why = {
        errno.EISDIR: "is a folder: name a file",
        errno.ENOTDIR: "is in no folder: a part of its path is a file",
        errno.EACCES: "may not be read or written by you: choose another place, or change its permissions",
        errno.EROFS: "is on a disk that cannot be written: choose another place",
        errno.ENOSPC: "does not fit on the disk, which is full",
        errno.EEXIST: "exists already: choose another name",
    }
    return f"{path} {why.get(problem.errno or 0, f'cannot be used: {problem.strerror}')}"


# ---------------------------------------------------------------------------------------------------------------------
# The parser's words


def parser_sentence(box: str, prog: str) -> str:
    """Return the message in tyro's box as one sentence."""
    message = _inside(box)
    return f"{_reword(message)}. See {prog} --help".replace("?.", "?")


def _inside(box: str) -> str:
    """Extract the message from tyro's box: the part below its title, up to the next rule."""
    parts: list[list[str]] = [[]]
    framed = box.lstrip().startswith(("╭", "+"))
    for line in box.splitlines():
        text = line.strip("│| ")
        if text.startswith(("╭", "╰", "+")) or (text and set(text) <= set("─-")):
            parts.append([])
        else:
            parts[-1].append(text)
    said = [" ".join(" ".join(part).split()) for part in parts]
    said = [part for part in said if part]
    message = said[0 if framed or len(said) == 1 else 1]  # without a frame the title is a part of its own
    return message.rstrip(".").removesuffix("(required)").rstrip()


def _reword(message: str) -> str:
    """Reword the parser's messages about values."""
    if match := re.fullmatch(
        r"Error parsing (\S+): no type matching .*\. Got errors: .* - .*?: (\S+: '.*'|\S.*)", message
    ):
        message = f"Error parsing {match[1]}: {match[2]}"
    if match := re.fullmatch(r"Error parsing (\S+): could not convert string to float: '(.*)'", message):
        return f"{match[1]} {match[2]} is not a number: write for example {_as_number(match[2])}"
    if match := re.fullmatch(r"Error parsing (\S+): invalid literal for int\(\).*: '(.*)'", message):
        return f"{match[1]} {match[2]} is not a whole number: write for example 3"
    if match := re.fullmatch(r"Error parsing (\S+): (.*)", message):
        of_settings = not match[1].startswith("-") and re.match(r"\w+=", match[2])  # of a dataclass, not of one option
        return match[2] if of_settings else f"{match[1]} {match[2]}"
    if match := re.fullmatch(r"Missing value for argument '(.*)'\. Expected (\d+) values?", message):
        name = match[1] if match[1].startswith("-") else match[1].upper()
        return f"{name} needs a value: write one behind it" if name.startswith("-") else f"{name} is missing"
    if match := re.fullmatch(r"Missing from (.*?): ((?:--[\w-]+ )?[A-Z]\S*) (.*)", message):
        return f"{match[1]} needs {match[2]}: {match[3]}"
    if match := re.fullmatch(r"invalid choice '(.*)' for argument '(.*)'\. Expected one of \((.*)\)", message):
        value, name, choices = match.groups()
        known = re.findall(r"'([^']*)'", choices)
        near = closest_name(value, known)
        hint = f"did you mean {near}?" if near else f"choose {', '.join(known[:-1])} or {known[-1]}"
        return f"{name if name.startswith('-') else name.upper()} {value} is not known: {hint}"
    return message


def _as_number(text: str) -> str:
    """Return the number that the writer meant, 0.25 for one that cannot be guessed."""
    percent = text.strip().endswith("%")
    try:
        number = float(text.strip().rstrip("%").strip().replace(",", "."))
    except ValueError:
        return "0.25"
    return f"{number / 100 if percent else number:g}"


def unknown_word(word: str, options: Sequence[str], prog: str, others: Mapping[str, str]) -> str:
    """Return the error message for a word that no option takes.

    Args:
        word: the first of them.
        options: of the command.
        prog: name of the command.
        others: options that have no effect here -> the reason.
    """
    name = word.partition("=")[0].replace("_", "-")
    see = f"See {prog} --help"
    if not word.startswith("-"):
        meant = _meant(word, options)
        return f"{word!r} is one word too many{f': did you mean {meant}?' if meant else '.'} {see}"
    if name in others:
        return f"{name} {others[name]}. {see}"
    plain = {option.lstrip("-"): option for option in (*options, *others)}
    near = closest_name(name.lstrip("-"), plain, 0.6)
    if near and plain[near] not in options:
        return f"there is no option {name}: {plain[near]} {others[plain[near]]}. {see}"
    return f"there is no option {name}{f': did you mean {plain[near]}?' if near else '.'} {see}"


def _meant(word: str, options: Sequence[str]) -> str | None:
    """Return the option of which a single word may be the value, with the word; None if there is none."""
    if f"--{word}" in options:
        return f"--{word}"
    if "--learner" in options and (learner := closest_name(word, LEARNERS, 0.8)):
        return f"--learner {learner}"
    if is_run(Path(word)):
        return (
            f"--opponent {shlex.quote(f'run:{word}')}"
            if "--learner" not in options
            else f"--resume {shlex.quote(word)}"
        )
    if "--opponent" in options and closest_name(word.partition(":")[0], (*POLICIES, "self"), 0.8):
        return f"--opponent {shlex.quote(word)}"
    return None


def unknown_command(name: str, commands: Iterable[str], prog: str) -> str:
    """Return the error message for a command that does not exist."""
    if name.startswith("-"):
        return f"{name} stands before the command: write {prog} COMMAND ... {name}. See {prog} --help"
    see = f"See {prog} --help"
    if name.partition(":")[0] in POLICIES:
        return f"{name!r} is a policy, and a command comes before it: did you mean {prog} exploitability {name}? {see}"
    if is_run(Path(name)):
        return f"{name!r} is a run, and a command comes before it: did you mean {prog} exploitability run:{name}? {see}"
    near = closest_names(name, commands)
    return f"there is no command {name!r}: {near}{'' if near.endswith('?') else '.'} {see}"
