"""Workflows of the code host run targets of the Makefile, on the declared versions of Python."""

import configparser
import re

import pytest
from documents import ROOT

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def matches(kind):
    """All matches of a pattern in the workflows."""
    return {
        word for path in WORKFLOWS for word in re.findall(kind, path.read_text(encoding="utf-8"))
    }


def test_the_declared_python_versions_are_tested():
    settings = configparser.ConfigParser()
    settings.read(ROOT / "setup.cfg", encoding="utf-8")
    declared = set(re.findall(r"Python :: (3\.\d+)$", settings["metadata"]["classifiers"], re.M))
    assert matches(r'"(3\.\d+)"') == declared
    assert (
        settings["options"]["python_requires"]
        == f">={min(declared, key=lambda version: int(version[2:]))}"
    )


def test_make_steps_are_targets():
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M))
    words = {
        word
        for line in matches(r"(?:run: make|targets:) ([a-z -]+?)(?: PYTHON=.*)?\n")
        for word in line.split()
    }
    assert {"test", "unit"} <= words <= targets


def test_actions_are_pinned_by_their_hash():
    actions = matches(r"uses: ([a-z].*)")
    assert actions
    assert not [action for action in actions if not re.search(r"@[0-9a-f]{40}  # v[\d.]+$", action)]


def test_tests_for_windows_exist():
    paths = matches(r"\btests/\S+\.py")
    assert paths
    assert not [path for path in paths if not (ROOT / path).is_file()]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_only_publishing_may_write(path):
    text = path.read_text(encoding="utf-8")
    assert re.search(r"^permissions:\n  contents: read\n(?! )", text, re.M)
    assert re.findall(r"^ +([a-z-]+): write$", text, re.M) == (
        ["id-token"] if path.stem == "release" else []
    )
    assert "secrets." not in text
