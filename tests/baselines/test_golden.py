"""Searches look at as many positions, and find the same, as they did when tests/data/node-counts.json was written."""

import json

import golden
import pytest
from numba import config


@pytest.mark.skipif(config.DISABLE_JIT, reason="too long in plain Python")
@pytest.mark.parametrize("kind", [golden.searched, golden.proved, golden.grown], ids=lambda kind: kind.__name__)
def test_searches_look_at_what_they_did(kind):
    kept = json.loads(golden.FILE.read_text())[golden.KINDS[kind]]
    found = json.loads(json.dumps(kind()))
    assert found.keys() == kept.keys()
    changed = {name: (kept[name], found[name]) for name in kept if found[name] != kept[name]}
    assert not changed, "if it is meant: python tests/baselines/golden.py"
