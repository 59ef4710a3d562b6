"""Node counts and results of searches equal those in tests/data/node-counts.json."""

import json

import golden
import pytest
from numba import config


@pytest.mark.skipif(config.DISABLE_JIT, reason="too long in plain Python")
@pytest.mark.parametrize(
    "kind", [golden.search_counts, golden.proof_counts, golden.tree_counts], ids=lambda kind: kind.__name__
)
def test_node_counts_are_unchanged(kind):
    expected = json.loads(golden.FILE.read_text())[golden.KINDS[kind]]
    found = json.loads(json.dumps(kind()))
    assert found.keys() == expected.keys()
    changed = {name: (expected[name], found[name]) for name in expected if found[name] != expected[name]}
    assert not changed, "if it is meant: python tests/baselines/golden.py"
