"""Games are played, and shown, as they were when tests/data/playthroughs.json was written."""

import json

import playthroughs
import pytest


@pytest.mark.parametrize("kind", ["ttt/MNK-v0", "mnk_v0"])
def test_playthroughs_have_not_changed(kind):
    kept = json.loads(playthroughs.FILE.read_text())[kind]
    found = json.loads(json.dumps(playthroughs.played()[kind]))
    assert found.keys() == kept.keys()
    for name, lines in kept.items():
        assert found[name] == lines, f"{name}; if it is meant: python tests/ttt_envs/playthroughs.py"
