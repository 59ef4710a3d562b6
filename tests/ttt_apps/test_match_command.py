"""``evaluate.py match`` with openings and logs, and ``evaluate.py games``."""

import json
import os
import signal
from pathlib import Path

import numpy as np
import pytest
from commands import error_of, json_of, text_of
from processes import ROOT, python_path, run_python

from ttt_apps import evaluate
from ttt_envs.agents.simple import Random
from ttt_eval.matches.games import append_games, read_games

MATCH = ["match", "win-or-block", "random", "--games", "200", "--skip-chance", "0.25", "--seed", "3"]


def test_openings_and_log_for_any_number_of_jobs(tmp_path, capsys):
    for jobs in ("1", "2"):
        log = str(tmp_path / f"{jobs}.jsonl")
        found = json_of(capsys, *MATCH, "--openings", "random:2", "--log", log, "--jobs", jobs)
    assert (tmp_path / "1.jsonl").read_bytes() == (tmp_path / "2.jsonl").read_bytes()
    games = list(read_games(tmp_path / "1.jsonl"))
    assert len(games) == found["games"] == 200
    assert sum(played.result == 0 for played in games[::2]) == found["first"][0]
    assert found["openings"] == games[0].settings["openings"] == "random:2"
    assert json_of(capsys, *MATCH, "--openings", "random:2") == found  # a log changes nothing


def test_score_interval_and_elo(capsys):
    found = json_of(capsys, *MATCH)
    score = np.array([found["score"][name] for name in ("mean", "low", "high")])
    expected = 400 * np.log10(score / (1 - score))
    assert [found["elo"][name] for name in ("mean", "low", "high")] == pytest.approx(expected)
    assert 0.99 < found["likelihood_of_superiority"] <= 1
    text = text_of(capsys, *MATCH)
    elo = f"Elo difference {expected[0]:+.0f} "
    title = "win-or-block against random, 200 games"
    assert all(part in text for part in (title, "moving first", "95% interval", elo, "likelihood of superiority"))


def test_repeated_games_are_reported(capsys):
    repeated = "play one pair again and again"
    degenerate = ["match", "players:FirstEmpty", "players:FirstEmpty", "--games", "20"]
    evaluate.main(degenerate)
    assert repeated in capsys.readouterr().err
    others = (["--openings", "random:2"], ["--games", "2"], ["--skip-chance", "0.25"])
    for other in others:
        evaluate.main([*degenerate, *other])
        assert repeated not in capsys.readouterr().err
    evaluate.main(["match", "optimal", "optimal", "--games", "20"])  # always draws, in many ways
    assert repeated not in capsys.readouterr().err


def test_infinite_elo_is_null(capsys):
    for seed in range(20):
        found = json_of(capsys, "match", "optimal", "random", "--games", "2", "--seed", seed)
        if found["score"]["mean"] == 1:
            break
    assert found["score"]["mean"] == 1
    assert found["elo"]["mean"] is None


def test_log_that_exists_is_kept(tmp_path, capsys):
    log = tmp_path / "log.jsonl"
    evaluate.main([*MATCH, "--log", str(log)])
    before = log.read_bytes()
    message = error_of(capsys, evaluate.main, *MATCH, "--log", log)
    assert f"error: {log} is there already: name another file, or remove that one" in message
    assert log.read_bytes() == before


def test_an_incomplete_line_of_openings_is_a_note(tmp_path, capsys):
    log = tmp_path / "log.jsonl"
    evaluate.main([*MATCH, "--games", "2", "--log", str(log)])
    log.write_bytes(log.read_bytes()[:-20])
    evaluate.main([*MATCH, "--games", "2", "--openings", str(log)])
    assert f"note: {log}, line 3 was not written to its end, and is left out\n" in capsys.readouterr().err


def test_fewer_pairs_than_openings_are_reported(capsys):
    evaluate.main([*MATCH, "--openings", "all:4"])
    assert "note: 100 pairs play the first of 756 openings; --games 1512 plays all" in capsys.readouterr().err


def test_games_are_counted_printed_and_converted(tmp_path, capsys):
    log, text, again = (tmp_path / name for name in ("log.jsonl", "games.txt", "again.jsonl"))
    match = json_of(capsys, *MATCH, "--openings", "random:2", "--log", log)
    found = json_of(capsys, "games", log)
    assert found["games"] == 200
    first, second = found["results"]
    assert first["players"] == second["players"][::-1] == ["win-or-block", "random"]
    assert [first[name] for name in ("player_0", "draw", "player_1")] == match["first"]
    assert [second[name] for name in ("player_1", "draw", "player_0")] == match["second"]
    assert f"{log}, 200 games" in text_of(capsys, "games", log)
    shown = text_of(capsys, "games", log, "--text", "--number", "2")
    assert shown.startswith("[rows 3]")
    assert "[episode 1]" in shown
    evaluate.main(["games", str(log), "--text"])
    whole = capsys.readouterr().out
    evaluate.main(["games", str(log), "--out", str(text)])
    assert text.read_text() == whole
    evaluate.main(["games", str(text), "--out", str(again)])
    assert again.read_bytes() == log.read_bytes()


def test_invalid_logs(tmp_path, capsys):
    log = tmp_path / "log.jsonl"
    append_games(log, [])
    for words, message in (
        (["--number", "1"], "error: --number 1 is not in"),
        (["--out", log], "is there already: name another file"),
    ):
        assert message in error_of(capsys, evaluate.main, "games", log, *words)
    with log.open("a") as file:
        file.write('{"moves": 3}\n')
    assert "log.jsonl, line 2: " in error_of(capsys, evaluate.main, "games", log)
    with log.open("w") as file:
        file.write('{"format": 1, "content": "games"}\n{"moves')
    evaluate.main(["games", str(log)])
    assert "note: " in capsys.readouterr().err


def test_match_with_a_clock_reports_times(tmp_path, capsys):
    log = tmp_path / "log.jsonl"
    words = ["match", "timed:max-depth=2", "random", "--games", "4", "--clock", "20+0.5"]
    found = json_of(capsys, *words, "--log", log)
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
    text = text_of(capsys, *words)
    assert "by the clock, 20+0.5" in text
    assert "lost on time" in text


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
def test_standard_output_is_json_when_a_cluster_worker_dies(cluster, tmp_path):
    player = f"test_match_command:DiesOnce:path={tmp_path / 'died'}"
    words = ("evaluate.py", "match", player, "random", "--games=20", "--json", f"--cluster={cluster}")
    done = run_python(*words, PYTHONPATH=python_path(ROOT, ROOT / "tests", ROOT / "tests" / "ttt_apps"))
    assert (tmp_path / "died").exists()
    assert json.loads(done.stdout)["games"] == 20
