"""``evaluate.py ladder``: output and files; its errors are in test_errors."""

import json

import pytest
from commands import error_of, json_of, text_of

from ttt_apps import evaluate, train
from ttt_apps.evaluate import ladder as command
from ttt_eval.matches import ladder
from ttt_eval.matches.ladder import RESULT
from ttt_eval.matches.move_cost import MoveCost


@pytest.fixture(autouse=True)
def quickly(monkeypatch):
    """No processes measure costs; the code is the same, whatever is edited meanwhile."""
    monkeypatch.setattr(command, "make_provenance", lambda: {"code": "as it is"})
    monkeypatch.setattr(
        ladder, "measure_move_costs", lambda game, *specs: [MoveCost(1e-6, 0.1, 1 << 27, 1 << 20)] * len(specs)
    )


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run of a game that has a ladder."""
    folder = tmp_path_factory.mktemp("runs") / "skips"
    game = ["--skip-chance=0.25", "--games=300", "--batch=4", "--no-report", "--exact-every=0"]
    train.main(["--learner", "q-learning", "--opponent", "random", *game, "--out", str(folder), "--quiet"])
    return folder


def test_ladder_is_printed(capsys):
    text = text_of(capsys, "ladder")
    assert "the ladder 3x3, 3 x 3, 3 to win: exact results" in text
    assert text.index("optimal") < text.index("win-or-block") < text.index("random")
    data = json_of(capsys, "ladder", "--size", "5", "--win-length", "4", "--skip-chance", "0.1")
    assert (data["name"], data["kind"], len(data["rungs"])) == ("5x5-skip", "rungs", 13)


def test_run_is_placed_on_the_ladder_of_its_own_game(run, tmp_path, capsys):
    words = ("ladder", f"run:{run}", "--out", tmp_path, "--no-report")
    text = text_of(capsys, *words)
    cost = "learned from 300 games in CPU set-up"
    assert all(part in text for part in ("the ladder 3x3-skip", f"> run:{run}", "exactly: exploitability", cost))
    data = json.loads((tmp_path / RESULT).read_text())
    assert (data["format"], data["kind"], data["policy"]) == (1, "ladder", f"run:{run}")
    assert len(data["identity"]) == 64
    assert data["training"]["learner"] == "q-learning"
    assert data["training"]["cost"]["training"]["cpu_user_s"] >= 0
    assert data["exact"]
    assert 0 < data["exploitability"] < 1
    assert 0 < data["rating"]["mean"] < data["rungs"][-1]["rating"]
    assert json_of(capsys, *words) == data  # nothing is played again


def test_impure_policy_is_sampled(capsys):
    first = json_of(capsys, "ladder", "mcts:simulations=1", "--games", "20", "--seed", "3")
    assert not first["exact"]
    assert first["exploitability"] is None
    assert all(result["games"] == 20 and sum(result["pentanomial"]) == 10 for result in first["results"])
    assert first["rating"]["low"] < first["rating"]["mean"] < first["rating"]["high"]
    assert first["command"] == "evaluate.py ladder mcts:simulations=1 --ladder 3x3 --games 20 --seed 3"
    assert json_of(capsys, *first["command"].split()[1:]) == first


def test_run_of_a_game_without_a_ladder(tiny_run, capsys):
    message = error_of(capsys, evaluate.main, "ladder", f"run:{tiny_run('q-learning')}")
    assert "there is no ladder of 2 x 3, 2 to win, skip 0.25" in message
