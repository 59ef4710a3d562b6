"""``evaluate.py ladder``: what it shows, what it writes, and what it refuses in one sentence."""

import json
from pathlib import Path

import pytest

from evaluation.matches.ladder import PLANS, RESULT, Plan, build, markdown, rate, read_ladder
from evaluation.matches.move_cost import MoveCost
from ttt_apps import evaluate, train
from ttt_apps.evaluate import ladder as command
from ttt_envs import Game


@pytest.fixture(autouse=True)
def quickly(request, monkeypatch):
    """No processes for costs, but where the test is of them; the code is the same, whatever is edited meanwhile."""
    monkeypatch.setattr(command, "_made_by", lambda: {"code": "as it is"})
    if request.node.get_closest_marker("slow") is None:
        for module in (build, rate):
            monkeypatch.setattr(
                module, "cost_of_moves", lambda game, *specs: [MoveCost(1e-6, 0.1, 1 << 27, 1 << 20)] * len(specs)
            )


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run of a game that has a ladder."""
    folder = tmp_path_factory.mktemp("runs") / "skips"
    game = ["--skip-chance=0.25", "--games=300", "--batch=4", "--no-report", "--exact-every=0"]
    train.main(["--learner", "q-learning", "--opponent", "random", *game, "--out", str(folder), "--quiet"])
    return folder


def test_a_ladder_is_shown(capsys):
    evaluate.main(["ladder"])
    shown = capsys.readouterr().out
    assert "the ladder 3x3, 3 x 3, 3 to win: exact results" in shown
    assert shown.index("optimal") < shown.index("win-or-block") < shown.index("random")
    evaluate.main(["ladder", "--skip-chance", "0.25", "--markdown"])
    assert capsys.readouterr().out.strip() == markdown(read_ladder("3x3-skip"))
    evaluate.main(["ladder", "--size", "5", "--win-length", "4", "--skip-chance", "0.1", "--json"])
    data = json.loads(capsys.readouterr().out)
    assert (data["name"], data["kind"], len(data["rungs"])) == ("5x5-skip", "rungs", len(PLANS["5x5-skip"].rungs))


def test_a_run_is_placed_on_the_ladder_of_its_own_game(run, tmp_path, capsys):
    words = ["ladder", f"run:{run}", "--out", str(tmp_path), "--no-report"]
    evaluate.main(words)
    shown = capsys.readouterr().out
    for said in (
        "the ladder 3x3-skip",
        f"> run:{run}",
        "exactly: exploitability",
        "learned from 300 games in CPU set-up",
    ):
        assert said in shown
    data = json.loads((tmp_path / RESULT).read_text())
    assert (data["format"], data["kind"], data["policy"]) == (1, "ladder", f"run:{run}")
    assert len(data["identity"]) == 64
    assert data["training"]["learner"] == "q-learning"
    assert data["training"]["cost"]["training"]["cpu_user_s"] >= 0
    assert data["exact"]
    assert 0 < data["exploitability"] < 1
    assert 0 < data["rating"]["mean"] < data["rungs"][-1]["rating"]
    evaluate.main([*words, "--json"])  # nothing is played again
    assert json.loads(capsys.readouterr().out) == data


def test_what_is_not_pure_is_sampled(capsys):
    words = ["ladder", "mcts:simulations=1", "--games", "20", "--seed", "3", "--json"]
    evaluate.main(words)
    first = json.loads(capsys.readouterr().out)
    assert not first["exact"]
    assert first["exploitability"] is None
    assert all(result["games"] == 20 and sum(result["pentanomial"]) == 10 for result in first["results"])
    assert first["rating"]["low"] < first["rating"]["mean"] < first["rating"]["high"]
    assert first["command"] == "evaluate.py ladder mcts:simulations=1 --ladder 3x3 --games 20 --seed 3"
    evaluate.main([*first["command"].split()[1:], "--json"])
    assert json.loads(capsys.readouterr().out) == first


def test_a_ladder_is_measured_and_used(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(PLANS, "tiny", Plan(Game(2, 3, 2, 0.25), ("random", "win-or-block"), 100, ()))
    evaluate.main(["ladder", "--measure", "tiny", "--games", "40", "--out", str(tmp_path)])
    path = tmp_path / "tiny.json"
    assert f"written: {path}" in capsys.readouterr().out
    assert read_ladder(path).data["games"] == 40
    evaluate.main(["ladder", "optimal", "--ladder", str(path), "--games", "40"])
    assert "optimal: " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--ladder", "9x9"], "there is no ladder '9x9': choose 3x3, "),
        (["--ladder", "nowhere.json"], "nowhere.json"),
        (["--size", "4"], "there is no ladder of 4 x 4, 3 to win: choose one of another game with --ladder"),
        (["--ladder", "3x3", "--size", "4"], "--ladder 3x3 is of 3 x 3, 3 to win, not of 4 x 4"),
        (["random", "--games", "7"], "--games 7 makes no pairs"),
        (["rndom"], "there is no policy 'rndom': did you mean 'random'?"),
        (["random", "--seed", "-1"], "--seed -1 is no seed"),
        (["random", "--jobs", "0"], "--jobs 0 leaves nobody to work"),
        (["random", "--measure", "3x3"], "leave out the policy"),
        (["--measure", "3x4"], "there is no ladder '3x4' to measure: did you mean '3x3'?"),
        (["run:nowhere"], "nowhere is no run"),
    ],
)
def test_what_is_wrong_is_one_sentence(words, says, capsys):
    with pytest.raises(SystemExit) as end:
        evaluate.main(["ladder", *words])
    assert end.value.code == 2
    told = capsys.readouterr().err
    assert says in told
    assert told.startswith("error: ")
    assert told.count("\n") == 1


def test_a_run_of_a_game_without_a_ladder(tiny_run, capsys):
    with pytest.raises(SystemExit):
        evaluate.main(["ladder", f"run:{tiny_run('q-learning')}"])
    assert "there is no ladder of 2 x 3, 2 to win, skip 0.25" in capsys.readouterr().err


@pytest.mark.slow
def test_what_moves_cost_is_measured_apart(capsys, tmp_path, monkeypatch):
    """The processes find classes in the current folder, as commands do."""
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(
        "from baselines.simple import Random\n\n\nclass Slow(Random):\n"
        "    def act(self, boards, rng):\n        sum(range(100_000))\n        return super().act(boards, rng)\n"
    )
    evaluate.main(["ladder", "mine:Slow", "--json"])
    data = json.loads(capsys.readouterr().out)
    assert data["cost"]["cpu_s_per_move"] > 10 * data["rungs"][0]["cpu_s_per_move_here"] > 0
    assert data["cost"]["peak_rss_bytes"] > data["cost"]["own_bytes"]
    assert data["front"] is False
    assert data["rating"]["mean"] == pytest.approx(0, abs=0.01)
    assert len(data["identity"]) == 64
