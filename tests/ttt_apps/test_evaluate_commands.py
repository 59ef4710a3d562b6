"""Commands of evaluate.py: exact results, matches, ladders, plots, books and databases; the others have own tests."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pytest
import tiny
from commands import error_of, json_of, rows_of, text_of
from processes import ROOT, python_path, run_python

from baselines.exact import build
from baselines.opening_book import read_book
from ttt_apps import evaluate
from ttt_apps.evaluate import ladder as ladder_command
from ttt_apps.evaluate import solve as solve_command
from ttt_envs import Game
from ttt_envs.agents.simple import Random
from ttt_eval import exact
from ttt_eval.curves import record
from ttt_eval.matches import ladder
from ttt_eval.matches.games import append_games, read_games
from ttt_eval.matches.move_cost import MoveCost
from ttt_eval.result_store import UNITS

MATCH = ["match", "win-or-block", "random", "--games", "200", "--skip-chance", "0.25", "--seed", "3"]


def fails(capsys, *words):
    return error_of(capsys, evaluate.main, *words)


# ---------------------------------------------------------------------------------------------------------------------
# Exact results and solutions


def test_exact_results(capsys):
    data = json_of(capsys, "exact", "optimal", "random")
    assert Game.from_dict(data["game"]) == Game()
    assert data["first"]["win"] == pytest.approx(0.967811214, abs=1e-9)
    assert data["second"]["win"] == pytest.approx(0.777483833, abs=1e-9)
    assert data["mean"]["draw"] == pytest.approx((0.032188786 + 0.222516167) / 2, abs=1e-9)
    text = text_of(capsys, "exact", "random", "optimal")
    assert all(number in text for number in ("0.222516", "-0.967811"))


def test_exploitability(capsys):
    data = json_of(capsys, "exploitability", "random")
    assert data["exploitability"] == pytest.approx((191 / 192 + 874 / 945) / 2, abs=1e-12)
    assert data["gains"] == pytest.approx({"first": 191 / 192, "second": 874 / 945}, abs=1e-12)
    assert data["regret"] == pytest.approx(exact.regret(Game(), "random"))
    assert [row["stones"] for row in data["regret_by_stones"]] == list(range(9))
    text = text_of(capsys, "exploitability", "random")
    assert all(f"{data[name]:.6f}" in text for name in ("exploitability", "regret"))


def test_best_responses_on_a_board_too_large_to_solve(capsys):
    data = json_of(capsys, "exploitability", "win-or-block", "--size", "1x17", "--win-length", "2")
    assert data["best_response"]["first"]["value"] == 1
    assert data["gains"] is data["regret"] is None


def test_solve_by_layers(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("TTT_ENVS_CACHE", str(tmp_path))
    monkeypatch.setenv("TTT_ENVS_CACHE_BYTES", "0")
    data = json_of(capsys, "solve", "--skip-chance", "0.25")
    corner, edge, centre = 11281 / 65536, 7285 / 65536, 5095 / 16384
    assert (data["value"], data["optimal"], data["distance"], data["method"]) == (centre, [4], None, "layers")
    assert data["moves"] == [[corner, edge, corner], [edge, centre, edge], [corner, edge, corner]]
    assert data["counts"]["positions_not_over"] == 21727
    assert not list(tmp_path.iterdir())
    text = text_of(capsys, "solve")
    assert all(part in text for part in ("classes 765", "games 255,168", "distance 9"))
    data = json_of(capsys, "solve", "--position", "oo./xx./... o")
    assert (data["value_to_mover"], data["optimal"], data["distance"]) == (1, [2], 1)
    assert data["moves"][0] == [None, None, 1.0]
    assert "+1.000000*" in text_of(capsys, "solve", "--position", "oo./xx./... o")
    data = json_of(capsys, "solve", "--size", "1x17", "--win-length", "2")
    assert (data["value"], data["distance"], data["counts"]["games"]) == (1, 3, None)


def test_solve_connect_four_by_a_search(capsys):
    words = ("solve", "--game", "connect-four", "--position")
    position = "......./...x.../...o.../..xx.../..oo.../.ooxx.. o"
    data = json_of(capsys, *words, position)
    assert (data["game"], data["value"]) == (Game(6, 7, 4, gravity=True).to_dict(), None)
    assert (data["value_to_mover"], data["optimal"], data["distance"]) == (0, [40], 32)
    assert data["scores"] == {"a": -5, "b": -2, "c": -2, "d": -5, "e": -2, "f": 0, "g": -2}
    assert data["moves"][5] == [-1, None, None, None, None, 0, -1]
    assert "scores a -5 b -2" in text_of(capsys, *words, position)
    assert "stones fall" in fails(capsys, *words, "......./......./......./......./o....../....... x")


def test_solve_by_a_proof(capsys):
    data = json_of(capsys, "solve", "--size", "5x6", "--win-length", "4")
    assert (data["method"], data["value"]) == ("proof", 1)
    assert 0 <= data["move"] < 30
    for words, result in (
        (["--size", "5x6"], "the first player wins"),
        (["--size", "5"], "a draw with perfect play"),
        (["--size", "5", "--nodes", "10"], "allow more with --nodes"),
    ):
        assert result in text_of(capsys, "solve", "--win-length", "4", *words)


@pytest.mark.parametrize(
    "words", ["--size 5 --skip-chance 0.1", "--size 9", "--size 5 --misere", "--nodes 10", "--size 5 --threads 2"]
)
def test_solve_refuses_a_game_before_anything_is_compiled(monkeypatch, capsys, words):
    monkeypatch.setattr(solve_command, "prove", lambda game, **limits: pytest.fail("it would compile now"))
    fails(capsys, "solve", *words.split())


# ---------------------------------------------------------------------------------------------------------------------
# Matches and games


def test_openings_and_log_for_any_number_of_jobs(tmp_path, capsys):
    for jobs in ("1", "2"):
        log = str(tmp_path / f"{jobs}.jsonl")
        data = json_of(capsys, *MATCH, "--openings", "random:2", "--log", log, "--jobs", jobs)
    assert (tmp_path / "1.jsonl").read_bytes() == (tmp_path / "2.jsonl").read_bytes()
    games = list(read_games(tmp_path / "1.jsonl"))
    assert len(games) == data["games"] == 200
    assert sum(played.result == 0 for played in games[::2]) == data["first"][0]
    assert data["openings"] == games[0].settings["openings"] == "random:2"
    assert json_of(capsys, *MATCH, "--openings", "random:2") == data  # a log changes nothing
    score = np.array([data["score"][name] for name in ("mean", "low", "high")])
    assert [data["elo"][name] for name in ("mean", "low", "high")] == pytest.approx(400 * np.log10(score / (1 - score)))
    before = (tmp_path / "1.jsonl").read_bytes()
    assert "is there already" in fails(capsys, *MATCH, "--log", tmp_path / "1.jsonl")
    assert (tmp_path / "1.jsonl").read_bytes() == before


def test_notes_on_a_match(tmp_path, capsys):
    degenerate = ["match", "players:FirstEmpty", "players:FirstEmpty", "--games", "20"]
    log = tmp_path / "log.jsonl"
    evaluate.main([*MATCH, "--games", "2", "--log", str(log)])
    log.write_bytes(log.read_bytes()[:-20])
    for words, note in (
        (degenerate, "play one pair again and again"),
        ([*MATCH, "--openings", str(log)], f"{log}, line 3 was not written to its end"),
        ([*MATCH, "--openings", "all:4"], "100 pairs play the first of 756 openings; --games 1512 plays all"),
    ):
        capsys.readouterr()
        evaluate.main(words)
        assert note in capsys.readouterr().err
    for others in (["--openings", "random:2"], ["--games", "2"], ["--skip-chance", "0.25"]):
        evaluate.main([*degenerate, *others])
        assert "again and again" not in capsys.readouterr().err


def test_match_with_a_clock_reports_times(tmp_path, capsys):
    words = ["match", "timed:max-depth=2", "random", "--games", "4", "--clock", "20+0.5"]
    data = json_of(capsys, *words, "--log", tmp_path / "log.jsonl")
    assert (data["clock"], data["games"]) == ("20+0.5", 4)
    games = list(read_games(tmp_path / "log.jsonl"))
    for times, player in zip(data["times"], ("timed:max-depth=2", "random"), strict=True):
        seconds = [second for game in games for second in game.settings["seconds"][game.players.index(player)]]
        assert times["moves"] == len(seconds)
        assert times["largest_s"] == pytest.approx(max(seconds), abs=1e-4)
        assert 0 < times["least_left_s"] < 20.5
    assert "by the clock, 20+0.5" in text_of(capsys, *words)


def test_games_are_counted_printed_converted_and_explained(tmp_path, capsys):
    log, text, again = (tmp_path / name for name in ("log.jsonl", "games.txt", "again.jsonl"))
    match = json_of(capsys, *MATCH, "--openings", "random:2", "--log", log)
    data = json_of(capsys, "games", log)
    first, second = data["results"]
    assert first["players"] == second["players"][::-1] == ["win-or-block", "random"]
    assert [first[name] for name in ("player_0", "draw", "player_1")] == match["first"]
    assert [second[name] for name in ("player_1", "draw", "player_0")] == match["second"]
    assert f"{log}, 200 games" in text_of(capsys, "games", log)
    assert text_of(capsys, "games", log, "--text", "--number", "2").startswith("[game {")
    evaluate.main(["games", str(log), "--text"])
    whole = capsys.readouterr().out
    evaluate.main(["games", str(log), "--out", str(text)])
    assert text.read_text() == whole
    evaluate.main(["games", str(text), "--out", str(again)])
    assert again.read_bytes() == log.read_bytes()
    capsys.readouterr()
    account = json_of(capsys, "games", log, "--explain", "2")
    assert account["start_value"] + account["skip_luck"] + sum(account["changes"]) == pytest.approx(account["result"])
    assert "game 2 of" in text_of(capsys, "games", log, "--explain", "2")


def test_invalid_logs(tmp_path, capsys):
    log = tmp_path / "log.jsonl"
    append_games(log, [])
    for words, word in ((["--number", "1"], "--number 1"), (["--out", log], "is there already")):
        assert word in fails(capsys, "games", log, *words)
    log.write_text('{"format": 1, "content": "games"}\n{"moves": 3}\n')
    assert "log.jsonl, line 2: " in fails(capsys, "games", log)
    log.write_text('{"format": 1, "content": "games"}\n{"moves')
    evaluate.main(["games", str(log)])
    assert "note: " in capsys.readouterr().err


def test_sprt(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ("match", "win-or-block", "random", "--sprt", "0", "50")
    path = Path("runs", "sprt", "3x3-3-win-or-block-random", "result.json")
    text = text_of(capsys, *words)
    assert all(part in text for part in ("50 is accepted", "LLR +", "from -2.94 to 2.94", f"written: {path}"))
    data = json_of(capsys, *words)
    assert data == json.loads(path.read_text())
    assert (data["kind"], data["accepted"]) == ("sprt", "elo1")
    undecided = text_of(capsys, "--quiet", "match", "random", "random", "--sprt", "0", "5", "--games", "64")
    assert "undecided between 0 and 5 Elo" in undecided


def test_tournament(tmp_path, capsys):
    words = ("match", "random", "win-or-block", "table", "--games", "200", "--anchor", "random", "--out", tmp_path)
    text = text_of(capsys, *words)
    assert text.index("win-or-block") < text.index("3 random")
    data = json_of(capsys, *words)
    assert (data["kind"], data["anchor"]) == ("tournament", "random")


def stored_lines(folder):
    path = folder / UNITS
    return path.read_text().splitlines() if path.exists() else []


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGHUP, marks=pytest.mark.slow)])
def test_signal_stops_workers(number, tmp_path):
    words = ["match", "random", "random", "--sprt", "0", "0.1", "--games", "1e7", "--jobs", "2", "--out"]
    command = [sys.executable, ROOT / "evaluate.py", *words, tmp_path / "x"]
    process = subprocess.Popen([*map(str, command)], cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    while process.poll() is None and len(stored_lines(tmp_path / "x")) < 3:
        time.sleep(0.01)
    workers = psutil.Process(process.pid).children(recursive=True)
    assert len(workers) >= 2
    process.send_signal(number)
    message = " ".join(process.communicate()[1].split())
    assert process.returncode == 130
    assert f"finished work is stored in {tmp_path / 'x'}: the same command continues" in message
    assert psutil.wait_procs(workers, 60)[1] == []


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
    player = f"test_evaluate_commands:DiesOnce:path={tmp_path / 'died'}"
    words = ("evaluate.py", "match", player, "random", "--games=20", "--json", f"--cluster={cluster}")
    process = run_python(*words, PYTHONPATH=python_path(ROOT, ROOT / "tests", ROOT / "tests" / "ttt_apps"))
    assert (tmp_path / "died").exists()
    assert json.loads(process.stdout)["games"] == 20


# ---------------------------------------------------------------------------------------------------------------------
# Ladders, plots and books


@pytest.fixture
def quick_costs(monkeypatch):
    """No processes measure costs; the code is the same, whatever is edited meanwhile."""
    monkeypatch.setattr(ladder_command, "make_provenance", lambda: {"code": "as it is"})
    cost = MoveCost(1e-6, 0.1, 1 << 27, 1 << 20)
    monkeypatch.setattr(ladder, "measure_move_costs", lambda game, *specs: [cost] * len(specs))


def test_ladder_is_printed(capsys):
    text = text_of(capsys, "ladder")
    assert text.index("optimal") < text.index("win-or-block") < text.index("random")
    data = json_of(capsys, "ladder", "--size", "5", "--win-length", "4", "--skip-chance", "0.1")
    assert (data["name"], data["kind"], len(data["rungs"])) == ("5x5-skip", "rungs", 13)


@pytest.mark.usefixtures("quick_costs")
def test_run_is_placed_on_the_ladder_of_its_own_game(tmp_path, capsys, tiny_run):
    run = tiny.train_run("q-learning", tmp_path / "run", "--size=3", "--win-length=3", "--exact-every=0")
    words = ("ladder", f"run:{run}", "--out", tmp_path / "out", "--no-report")
    text = text_of(capsys, *words)
    assert all(part in text for part in ("3x3-skip", f"> run:{run}", "exploitability"))
    data = json.loads((tmp_path / "out" / "result.json").read_text())
    assert (data["kind"], data["policy"], data["exact"]) == ("ladder", f"run:{run}", True)
    assert 0 < data["exploitability"] < 1
    assert json_of(capsys, *words) == data  # nothing is played again
    assert "there is no ladder of 2 x 3" in fails(capsys, "ladder", f"run:{tiny_run('q-learning')}")


@pytest.mark.usefixtures("quick_costs")
def test_impure_policy_is_sampled(capsys):
    data = json_of(capsys, "ladder", "mcts:simulations=1", "--games", "20", "--seed", "3")
    assert not data["exact"]
    assert all(result["games"] == 20 and sum(result["pentanomial"]) == 10 for result in data["results"])
    assert data["rating"]["low"] < data["rating"]["mean"] < data["rating"]["high"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Three seeds of a learner, and one of an agent that is not of this package."""
    folder = tmp_path_factory.mktemp("runs")
    for seed in range(3):
        tiny.train_run("q-learning", folder / f"seed{seed}", f"--seed={seed}")
    for games in (0, 10, 200):
        record(folder / "mine", tiny.GAME, "win-or-block", games, learner="mine")
    return folder


def test_plots_of_every_format_hold_the_medians(runs, tmp_path, capsys):
    for form, start in (("pdf", b"%PDF"), ("svg", b"<?xml"), ("png", b"\x89PNG")):
        words = ("plot", runs, "--out", tmp_path / f"a.{form}", "--csv", tmp_path / "a.csv")
        assert f"written: {tmp_path / f'a.{form}'}" in text_of(capsys, *words)
        content = (tmp_path / f"a.{form}").read_bytes()
        assert content.startswith(start)
        evaluate.main(list(map(str, words)))
        assert (tmp_path / f"a.{form}").read_bytes() == content  # without date and version
    assert b"FontFile2" in (tmp_path / "a.pdf").read_bytes()  # embedded TrueType, as publishers want it
    with (tmp_path / "a.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["learner"] == "q-learning"]
    ends = [rows_of(runs / f"seed{seed}" / "metrics.jsonl")[-1]["exploitability"] for seed in range(3)]
    numbers = [float(rows[-1][name]) for name in ("low", "exploitability", "high")]
    assert numbers == pytest.approx([min(ends), np.median(ends), max(ends)])


def test_groups_axes_and_notes_of_a_plot(runs, capsys):
    data = json_of(capsys, "plot", runs, "--x", "steps", "--by", "seed")
    assert [group["settings"] for group in data["groups"][1:]] == [{"seed": seed} for seed in (1, 2)]
    evaluate.main(["plot", str(runs), "--y", "score"])
    assert "mine has no measurements of score" in capsys.readouterr().err
    for words, word in ((("--out", "a.gif"), ".pdf"), (("--by", "sede"), "'seed'"), (("--width", "0"), "--width 0")):
        assert word in fails(capsys, "plot", runs, *words)


def test_book_from_games_and_by_a_search(tmp_path, capsys):
    log, path, searched = (tmp_path / name for name in ("games.jsonl", "a.book", "b.book"))
    evaluate.main(["--quiet", "match", "optimal", "win-or-block", "--games", "200", "--log", str(log)])
    words = ("--plies", "4", "--minimum", "2", "--player", "optimal", "--out", path)
    text = text_of(capsys, "book", "build", log, *words)
    book = read_book(path)
    assert f"{len(book.positions)} positions and {len(book.cells)} moves of 200 games" in text
    rows = json_of(capsys, "book", "show", path)["moves"]
    assert sum(row["wins"] + row["draws"] + row["losses"] for row in rows) == 100
    text = text_of(capsys, "book", "show", path)
    assert all(" ".join(row["moves"]) in text for row in rows)
    assert "it has no move" in text_of(capsys, "book", "show", path, "oxo/xo./... x")
    words = ("--search", "optimal", "--plies", "3", "--skip-chance", "0.25", "--out", searched)
    assert "35 positions and 169 moves" in text_of(capsys, "book", "build", *words)  # 1 + 6 + 28 up to symmetry
    assert json_of(capsys, "book", "show", searched)["moves"][0]["moves"] == ["b2"]
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.book", "b.book", "games.jsonl"]
    for words, word in (
        (("build", log, "--minimum", "500", "--out", tmp_path / "c.book"), "--minimum"),
        (("build", log, "--out", path), "is there already"),
        (("show", log), "is no opening book"),
        (("show", path, "ooo/xx./... x"), "the game is over"),
    ):
        assert word in fails(capsys, "book", *words)


# ---------------------------------------------------------------------------------------------------------------------
# Databases


@pytest.fixture
def plain_folder(tmp_path):
    build(Game(), tmp_path / "plain", stones=4)
    return tmp_path / "plain"


def test_a_database_is_built_extended_verified_and_probed(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    game, folder = ("--size", "3x4", "--win-length", "3", "--gravity", "--skip-chance", "0.25"), Path("databases")
    data = json_of(capsys, "database", "build", *game, "--dry-run")
    assert sum(data["by_stones"]) * 4 == data["disk"]
    assert not list(tmp_path.iterdir())
    first = json_of(capsys, "database", "build", *game, "--stones", "6")
    more = json_of(capsys, "database", "build", *game)
    assert (more["complete"], more["stones"]) == (True, 0)
    assert more["entries"] > first["entries"]
    [folder] = folder.iterdir()
    checked = json_of(capsys, "database", "verify", folder, "--jobs", "2")
    assert checked["checked"] == checked["entries"] == more["entries"]
    assert checked["sha256"] == more["sha256"]
    data = json_of(capsys, "database", "probe", folder, "..../..../..x. o")
    assert data["value"] == pytest.approx(max(value for row in data["moves"] for value in row if value is not None))
    assert data["distance"] is None
    assert "bytes of memory" in fails(capsys, "database", "build", "--size", "3", "--memory", "1e-7")


def test_probe_without_skips_prints_values_and_distances(capsys, plain_folder):
    assert "over after 1 more plies" in text_of(capsys, "database", "probe", plain_folder, "ox./ox./... o")
    data = json_of(capsys, "database", "probe", plain_folder, "ox./ox./... o")
    assert (data["value"], data["distance"], data["moves"][2][0], data["moves"][0][0]) == (1, 1, 1, None)
    assert (data["distances"][2], data["distances"][0][0]) == ([1, 5, 2], None)
    for folder, position, word in (
        (plain_folder, "o../.../... x", "begins at 4 stones"),
        (plain_folder, "ooo/xx./... x", "the game is over"),
        (plain_folder.parent, "o../.../... x", "has no database"),
    ):
        assert word in fails(capsys, "database", "probe", folder, position)


def test_verify_finds_wrong_hashes_and_wrong_entries(capsys, plain_folder):
    import hashlib

    assert json_of(capsys, "database", "verify", plain_folder)["largest_difference"] == 0
    path, manifest = plain_folder / "06-layer.npy", plain_folder / "manifest.json"
    content = bytearray(path.read_bytes())
    content[-7] ^= 1
    path.write_bytes(content)
    assert "06-layer.npy is missing or damaged" in fails(capsys, "database", "verify", plain_folder)
    data = json.loads(manifest.read_text())
    data["layers"]["06-layer.npy"] = hashlib.sha256(content).hexdigest()  # forged
    manifest.write_text(json.dumps(data))
    entry = len(content) - 7 - (len(content) - len(np.load(path)))
    assert f"06-layer.npy is wrong in entry {entry:,}" in fails(capsys, "database", "verify", plain_folder)
    path.unlink()
    assert "06-layer.npy is missing or damaged" in fails(capsys, "database", "verify", plain_folder)
