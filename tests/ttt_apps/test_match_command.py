"""``evaluate.py match`` with openings and logs, and ``evaluate.py games``."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from baselines.simple import Random
from evaluation.matches.games import append_games, read_games
from ttt_apps import evaluate

ROOT = Path(__file__).resolve().parents[2]

MATCH = ["match", "win-or-block", "random", "--games", "200", "--skip-chance", "0.25", "--seed", "3"]


def refused(capsys, *words):
    with pytest.raises(SystemExit) as stop:
        evaluate.main(list(words))
    assert stop.value.code == 2
    return " ".join(capsys.readouterr().err.split())


def test_a_match_begins_with_openings_and_keeps_its_games(tmp_path, capsys):
    for jobs in ("1", "2"):
        log = str(tmp_path / f"{jobs}.jsonl")
        evaluate.main([*MATCH, "--openings", "random:2", "--log", log, "--jobs", jobs, "--json"])
        found = json.loads(capsys.readouterr().out)
    assert (tmp_path / "1.jsonl").read_bytes() == (tmp_path / "2.jsonl").read_bytes()
    games = list(read_games(tmp_path / "1.jsonl"))
    assert len(games) == found["games"] == 200
    assert sum(played.result == 0 for played in games[::2]) == found["first"][0]
    assert found["openings"] == games[0].settings["openings"] == "random:2"
    evaluate.main([*MATCH, "--openings", "random:2", "--json"])
    assert json.loads(capsys.readouterr().out) == found  # keeping games changes nothing


def test_how_sure_a_match_is(capsys):
    evaluate.main([*MATCH, "--json"])
    found = json.loads(capsys.readouterr().out)
    score = np.array([found["score"][name] for name in ("mean", "low", "high")])
    expected = 400 * np.log10(score / (1 - score))
    assert [found["elo"][name] for name in ("mean", "low", "high")] == pytest.approx(expected)
    assert 0.99 < found["likelihood_of_superiority"] <= 1
    evaluate.main(MATCH)
    shown = capsys.readouterr().out
    assert f"Elo difference {expected[0]:+.0f} " in " ".join(shown.split())
    assert "likelihood of superiority" in shown


class FirstEmpty:
    """Draws nothing."""

    pure = True

    def __init__(self, game):
        pass

    def probabilities(self, boards, rng=None):
        empty = boards.cells == 0
        return (empty & (empty.cumsum(axis=1) == 1)).astype(float)


def test_who_plays_one_pair_again_and_again_is_told(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "first", sys.modules[__name__])
    again = "play one pair again and again"
    alike = ["match", "first:FirstEmpty", "first:FirstEmpty", "--games", "20"]
    evaluate.main(alike)
    assert again in capsys.readouterr().err
    others = (["--openings", "random:2"], ["--games", "2"], ["--skip-chance", "0.25"])
    for told in ([*alike, *other] for other in others):
        evaluate.main(told)
        assert again not in capsys.readouterr().err
    evaluate.main(["match", "optimal", "optimal", "--games", "20"])  # always draws, in many ways
    assert again not in capsys.readouterr().err


def test_a_difference_without_end_is_null(capsys):
    for seed in range(20):
        evaluate.main(["match", "optimal", "random", "--games", "2", "--seed", str(seed), "--json"])
        found = json.loads(capsys.readouterr().out)
        if found["score"]["mean"] == 1:
            break
    assert found["score"]["mean"] == found["likelihood_of_superiority"] == 1
    assert found["elo"]["mean"] is None


def test_a_log_that_is_there_is_kept(tmp_path, capsys):
    log = tmp_path / "log.jsonl"
    evaluate.main([*MATCH, "--log", str(log)])
    before = log.read_bytes()
    assert f"error: {log} is there already: name another file, or remove that one" in refused(
        capsys, *MATCH, "--log", str(log)
    )
    assert log.read_bytes() == before


def test_fewer_pairs_than_openings_are_told(capsys):
    evaluate.main([*MATCH, "--openings", "all:4"])
    assert "note: 100 pairs play the first of 756 openings; --games 1512 plays all" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("openings", "message"),
    [
        (
            "randm:2",
            "error: openings='randm:2' are not known, and there is no such file: write random:2 for two random",
        ),
        ("all:9", "choose 1 to 8 plies"),
        (".", "error: . is a folder, and neither read nor written"),
    ],
)
def test_openings_that_are_none_are_one_sentence(openings, message, tmp_path, capsys):
    log = tmp_path / "log.jsonl"
    assert message in refused(capsys, *MATCH, "--openings", openings, "--log", str(log))
    assert not log.exists()


def test_games_are_counted_shown_and_written_in_either_form(tmp_path, capsys):
    log, text, again = (str(tmp_path / name) for name in ("log.jsonl", "games.txt", "again.jsonl"))
    evaluate.main([*MATCH, "--openings", "random:2", "--log", log, "--json"])
    match = json.loads(capsys.readouterr().out)
    evaluate.main(["games", log, "--json"])
    found = json.loads(capsys.readouterr().out)
    assert found["games"] == 200
    first, second = found["results"]
    assert first["players"] == second["players"][::-1] == ["win-or-block", "random"]
    assert [first[name] for name in ("player_0", "draw", "player_1")] == match["first"]
    assert [second[name] for name in ("player_1", "draw", "player_0")] == match["second"]
    evaluate.main(["games", log])
    assert f"{log}, 200 games" in " ".join(capsys.readouterr().out.split())  # its title is broken where it is long
    evaluate.main(["games", log, "--text", "--number", "2"])
    shown = capsys.readouterr().out
    assert shown.startswith("[rows 3]")
    assert "[episode 1]" in shown
    evaluate.main(["games", log, "--text"])
    whole = capsys.readouterr().out
    evaluate.main(["games", log, "--out", text])
    assert (tmp_path / "games.txt").read_text() == whole
    evaluate.main(["games", text, "--out", again])
    assert (tmp_path / "again.jsonl").read_bytes() == (tmp_path / "log.jsonl").read_bytes()


def test_games_that_are_none_are_one_sentence(tmp_path, capsys):
    log = tmp_path / "log.jsonl"
    append_games(log, [])
    assert "error: --number 1 is not in" in refused(capsys, "games", str(log), "--number", "1")
    assert "--number 0 is no game: choose 1 or more" in refused(capsys, "games", str(log), "--number", "0")
    assert "is there already: name another file" in refused(capsys, "games", str(log), "--out", str(log))
    assert "No such file" in refused(capsys, "games", str(tmp_path / "none"))
    with log.open("a") as file:
        file.write('{"moves": 3}\n')
    assert "log.jsonl, line 2: the field 'game' is missing" in refused(capsys, "games", str(log))
    with log.open("w") as file:
        file.write('{"format": 1, "content": "games"}\n{"moves')
    evaluate.main(["games", str(log)])
    assert "note: " in capsys.readouterr().err


def test_a_match_by_the_clock_tells_the_time_of_both(tmp_path, capsys):
    log = tmp_path / "log.jsonl"
    words = ["match", "timed:max-depth=2", "random", "--games", "4", "--clock", "20+0.5"]
    evaluate.main([*words, "--json", "--log", str(log)])
    found = json.loads(capsys.readouterr().out)
    assert found["clock"] == "20+0.5"
    assert found["games"] == 4
    games = list(read_games(log))
    for times, player in zip(found["times"], ("timed:max-depth=2", "random"), strict=True):
        seats = [game.players.index(player) for game in games]
        seconds = [s for game, seat in zip(games, seats, strict=True) for s in game.settings["seconds"][seat]]
        assert times["moves"] == len(seconds)
        assert times["largest_s"] == pytest.approx(max(seconds), abs=1e-4)
        assert 0 < times["least_left_s"] < 20.5
        assert times["lost_on_time"] == 0
    evaluate.main(words)
    shown = capsys.readouterr().out
    assert "by the clock, 20+0.5" in shown
    assert "lost on time" in shown
    assert "'soon' is no clock: write seconds" in refused(capsys, *words[:-1], "soon")


class DiesOnce(Random):
    """Kills the worker in which it moves first of all, as the system does when memory runs out."""

    def __init__(self, game, path: str):
        super().__init__(game)
        self.path = Path(path)

    def act(self, boards, rng):
        if not self.path.exists():
            self.path.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().act(boards, rng)


@pytest.mark.needs("ray")
def test_json_is_all_that_standard_output_has_when_a_worker_of_a_cluster_dies(cluster, tmp_path):
    command = [
        sys.executable,
        "evaluate.py",
        "match",
        f"test_match_command:DiesOnce:path={tmp_path / 'died'}",
        "random",
    ]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests" / "ttt_apps")])}
    done = subprocess.run(
        [*command, "--games=20", "--json", f"--cluster={cluster.address}"],
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "died").exists()
    assert json.loads(done.stdout)["games"] == 20
