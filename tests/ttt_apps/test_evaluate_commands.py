"""Commands of evaluate.py: exact results, matches, ladders, plots, books and databases; the others
have own tests.
"""

import hashlib
import re
import signal
import sys
from pathlib import Path

import numpy as np
import psutil
import pytest
import tiny
from commands import words_of
from json_files import read_json
from numpy.testing import assert_array_equal
from processes import ROOT, start_until
from small_games import SKIP_GAME

from baselines.exact import build
from ttt_apps.evaluate import ladder as ladder_command
from ttt_apps.evaluate import solve
from ttt_envs import Game, make_policy
from ttt_envs.arrays import GameArrays, against, game_arrays
from ttt_eval import exact
from ttt_eval.matches.games import append_games, read_games, to_notation
from ttt_eval.runs.curves import record
from ttt_eval.store.result_store import UNITS

pytestmark = pytest.mark.more

MATCH = "match win-or-block random --games 200 --skip-chance 0.25 --seed 3"


# --------------------------------------------------------------------------------------------------
# Exact results and solutions


def test_exact_results(evaluate_py):
    data = evaluate_py.json("exact optimal random")
    assert Game.from_dict(data["game"]) == Game()
    assert data["first"]["win"] == pytest.approx(0.967811214, abs=1e-9)
    assert data["second"]["win"] == pytest.approx(0.777483833, abs=1e-9)


def test_exploitability(evaluate_py):
    data = evaluate_py.json("exploitability random")
    assert data["exploitability"] == pytest.approx((191 / 192 + 874 / 945) / 2, abs=1e-12)
    assert data["gains"] == pytest.approx({"first": 191 / 192, "second": 874 / 945}, abs=1e-12)
    assert data["regret"] == pytest.approx(exact.regret(Game(), "random"))
    assert data["mean_loss"] == exact.mean_loss(Game(), "random")
    assert "NashConv / 2) 2.0e-07 " in evaluate_py.text(
        "exploitability optimal:epsilon=1e-7"
    )  # it is not 0
    data = evaluate_py.json("exploitability win-or-block --size 1x17 --win-length 2")
    assert data["best_response"]["first"]["value"] == 1
    assert data["gains"] is data["regret"] is data["mean_loss"] is None  # too large to solve


def test_a_function_that_draws_or_is_stopped_is_named(evaluate_py, capsys):
    for line in (
        "exact players:drawn random",
        "exploitability players:drawn",
        "exact random table",
    ):
        evaluate_py(line)
        assert ("drawn answers differently" in evaluate_py.err) == ("drawn" in line)
    with pytest.raises(SystemExit):
        evaluate_py.main(["match", "players:stuck", "random"])
    assert capsys.readouterr().err.startswith("stopped; stuck was asked for its move in ")


def test_solve_by_layers(evaluate_py, tmp_path, monkeypatch):
    monkeypatch.setenv("TTT_ENVS_CACHE", str(tmp_path))
    monkeypatch.setenv("TTT_ENVS_CACHE_BYTES", "0")
    data = evaluate_py.json("solve --skip-chance 0.25")
    corner = 11281 / 65536
    edge = 7285 / 65536
    centre = 5095 / 16384
    assert (data["value"], data["optimal"], data["distance"], data["method"]) == (
        centre,
        [4],
        None,
        "layers",
    )
    assert data["moves"] == [[corner, edge, corner], [edge, centre, edge], [corner, edge, corner]]
    assert not list(tmp_path.iterdir())
    assert "games 255,168" in evaluate_py.text("solve")
    monkeypatch.setattr(solve, "MAX_SOLVER_CELLS", 8)
    evaluate_py("solve")
    assert re.search(
        r"note: solving 3 x 3, .* takes about 0 s, .* GiB on disk and ", evaluate_py.err
    )
    data = evaluate_py.json("solve --position 'oo./xx./... o'")
    assert (data["value_to_mover"], data["optimal"], data["distance"]) == (1, [2], 1)


def test_solve_writes_arrays(evaluate_py, tmp_path):
    game = SKIP_GAME
    path = tmp_path / "game.npz"
    data = evaluate_py.json("solve --skip-chance 0.25 --arrays", path)
    with np.load(path) as stored:
        arrays = GameArrays(**stored)
    for read, expected in zip(arrays, game_arrays(game), strict=True):
        assert_array_equal(read, expected)
    assert "is there already" in evaluate_py.error("solve --arrays", path)
    assert "--seat has no effect" in evaluate_py.error("solve --seat second")
    options = "--opponent random --seat second --overwrite"
    assert evaluate_py.json("solve --skip-chance 0.25 --arrays", path, options) == data
    with np.load(path) as stored:
        file = dict(stored)
    process = against(game_arrays(game), make_policy("random", game), 1)
    assert_array_equal(file["start"], process.start)
    assert_array_equal(file["rewards"], process.rewards)
    for action, matrix in enumerate(process.transitions):
        of_action = file["actions"] == action
        places = file["states"][of_action], file["next_states"][of_action]
        assert_array_equal(matrix[places], file["probabilities"][of_action])
        assert matrix.nnz == np.count_nonzero(of_action)


def test_solve_connect_four_by_a_search(evaluate_py):
    position = "......./...x.../...o.../..xx.../..oo.../.ooxx.. o"
    data = evaluate_py.json(f"solve --game connect-four --position '{position}'")
    assert (data["game"], data["value"]) == (Game(6, 7, 4, gravity=True).to_dict(), None)
    assert (data["value_to_mover"], data["optimal"], data["distance"]) == (0, [40], 32)
    assert data["scores"] == {"a": -5, "b": -2, "c": -2, "d": -5, "e": -2, "f": 0, "g": -2}


def test_solve_by_a_proof(evaluate_py):
    data = evaluate_py.json("solve --size 5x6 --win-length 4")
    assert (data["method"], data["value"]) == ("proof", 1)
    assert 0 <= data["move"] < 30
    text = evaluate_py.text("solve --size 5 --win-length 4 --nodes 10")
    assert "allow more with --nodes" in text


# --------------------------------------------------------------------------------------------------
# Matches and games


def test_a_log_has_the_games_of_a_match(tmp_path, evaluate_py):
    log = tmp_path / "log.jsonl"
    data = evaluate_py.json(MATCH, "--openings random:2 --jobs 2 --log", log)
    games = list(read_games(log))
    assert len(games) == data["games"] == 200
    assert sum(played_game.result == 0 for played_game in games[::2]) == data["first"][0]
    assert evaluate_py.json(MATCH, "--openings random:2") == data  # jobs and a log change nothing
    score = np.array([data["score"][name] for name in ("mean", "low", "high")])
    assert [data["elo"][name] for name in ("mean", "low", "high")] == pytest.approx(
        400 * np.log10(score / (1 - score))
    )


def test_games_are_listed_printed_and_converted(tmp_path, evaluate_py):
    log, again = (tmp_path / name for name in ("log.jsonl", "again.jsonl"))
    evaluate_py(MATCH, "--log", log)
    first, second = evaluate_py.json("games", log)["results"]
    assert first["players"] == second["players"][::-1] == ["win-or-block", "random"]
    assert evaluate_py("games", log, "--text") == "\n".join(map(to_notation, read_games(log)))
    evaluate_py("games", log, "--out", again)
    assert again.read_bytes() == log.read_bytes()


def test_invalid_logs(tmp_path, evaluate_py):
    log = tmp_path / "log.jsonl"
    append_games(log, [])
    assert "log.jsonl has no games" in evaluate_py.error("games", log, "--number 1")
    log.write_text('{"format": 1, "content": "games"}\n{"moves": 3}\n')
    assert "log.jsonl, line 2: " in evaluate_py.error("games", log)
    log.write_text('{"format": 1, "content": "games"}\n{"moves')
    evaluate_py("games", log)
    assert "note: " in evaluate_py.err


def test_signal_stops_workers(tmp_path):
    line = "evaluate.py match random random --sprt 0 0.1 --games 1e7 --jobs 2 --out"
    command = words_of(line, tmp_path / "x")
    process = start_until(tmp_path / "x" / UNITS, sys.executable, *command, lines=3, cwd=ROOT)
    workers = psutil.Process(process.pid).children(recursive=True)
    assert len(workers) >= 2
    process.send_signal(signal.SIGTERM)
    message = " ".join(process.communicate()[1].split())
    assert process.returncode == 130
    assert f"finished work is stored in {tmp_path / 'x'}: the same command continues" in message
    assert psutil.wait_procs(workers, 60)[1] == []


# --------------------------------------------------------------------------------------------------
# Ladders, plots and books


@pytest.mark.usefixtures("quick_ladders")
def test_run_is_placed_on_the_ladder_of_its_own_game(tmp_path, evaluate_py, tiny_run, monkeypatch):
    # whatever is edited meanwhile
    monkeypatch.setattr(ladder_command, "make_provenance", lambda: {"code": "as it is"})
    run = tiny.train_run(
        "q-learning", tmp_path / "run", "--size=3", "--win-length=3", "--exact-every=0"
    )
    line = f"ladder run:{run} --no-report --out {tmp_path / 'out'}"
    text = evaluate_py.text(line)
    assert all(part in text for part in ("3x3-skip", f"run:{run} (placed)", "exploitability"))
    data = read_json(tmp_path / "out" / "result.json")
    assert (data["kind"], data["policy"], data["exact"]) == ("ladder", f"run:{run}", True)
    assert evaluate_py.json(line) == data  # nothing is played again
    assert "there is no ladder of 2 x 3" in evaluate_py.error(
        f"ladder run:{tiny_run('q-learning')}"
    )
    data = evaluate_py.json(
        "ladder mcts:simulations=1 --games 20 --seed 3"
    )  # an impure one is sampled
    assert not data["exact"]
    assert data["settings"] == {"games": 20, "seed": 3}
    assert all(
        result["games"] == 20 and sum(result["pentanomial"]) == 10 for result in data["results"]
    )
    data = evaluate_py.json("ladder --size 5 --win-length 4 --skip-chance 0.1")
    assert (data["name"], data["kind"], len(data["rungs"])) == ("5x5-skip", "rungs", 13)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Three seeds of a learner, and one of an agent that is not of this package."""
    folder = tmp_path_factory.mktemp("runs")
    for seed in range(3):
        tiny.train_run("q-learning", folder / f"seed{seed}", f"--seed={seed}")
    for games in (0, 10, 200):
        record(folder / "mine", tiny.GAME, "win-or-block", games, learner="mine")
    return folder


def test_plots_are_of_every_format(runs, tmp_path, evaluate_py):
    table = tmp_path / "a.csv"
    for form, start in (("pdf", b"%PDF"), ("svg", b"<?xml"), ("png", b"\x89PNG")):
        path = tmp_path / f"a.{form}"
        contents = []
        for _ in range(2):
            text = evaluate_py.text("plot", runs, "--overwrite --csv", table, "--out", path)
            assert f"written: {path}" in text
            contents.append(path.read_bytes())
        assert contents[0] == contents[1]  # without date and version
        assert contents[0].startswith(start)
    assert table.read_text().splitlines()[0].endswith(",games,runs,exploitability,low,high")
    data = evaluate_py.json("plot", runs, "--x steps --by seed")
    assert [group["settings"] for group in data["groups"][1:]] == [
        {"seed": seed} for seed in (1, 2)
    ]
    assert ".pdf" in evaluate_py.error("plot", runs, "--out a.gif")
    assert "'seed'" in evaluate_py.error("plot", runs, "--by sede")


def test_book_from_games_and_by_a_search(tmp_path, evaluate_py):
    log, path, searched = (tmp_path / name for name in ("games.jsonl", "a.book", "b.book"))
    evaluate_py("--quiet match optimal win-or-block --games 200 --log", log)
    evaluate_py("book build", log, "--plies=4 --minimum=2 --player=optimal --out", path)
    rows = evaluate_py.json("book show", path)["moves"]
    assert sum(row["wins"] + row["draws"] + row["losses"] for row in rows) == 100
    # 1 + 6 + 28 up to symmetry
    assert "35 positions and 169 moves" in evaluate_py.text(
        "book build --search optimal --plies 3 --skip-chance 0.25 --out", searched
    )
    assert evaluate_py.json("book show", searched)["moves"][0]["moves"] == ["b2"]
    for line, word in (
        (f"build {log} --minimum 500 --out c.book", "--minimum"),
        (f"show {log}", "is no opening book"),
        (f"show {path} 'ooo/xx./... x'", "the game is over"),
    ):
        assert word in evaluate_py.error("book", line)


# --------------------------------------------------------------------------------------------------
# Databases


def test_a_database_is_built_extended_and_verified(tmp_path, evaluate_py, monkeypatch):
    monkeypatch.chdir(tmp_path)
    line = "database build --size 3x4 --win-length 3 --gravity --skip-chance 0.25"
    evaluate_py.json(line, "--dry-run")
    assert not list(tmp_path.iterdir())
    first = evaluate_py.json(line, "--stones 6")
    more = evaluate_py.json(line)
    assert (more["complete"], more["stones"]) == (True, 0)
    assert more["entries"] > first["entries"]
    [folder] = Path("databases").iterdir()
    checked = evaluate_py.json("database verify", folder, "--jobs 2")
    assert checked["checked"] == checked["entries"] == more["entries"]
    assert checked["sha256"] == more["sha256"]
    assert re.search(
        r"[\d,]+ free\).+bytes of memory", evaluate_py.error("database build --memory 1e-7")
    )


def test_values_distances_and_damage_of_a_database_without_skips(evaluate_py, tmp_path):
    folder = tmp_path / "plain"
    build(Game(), folder, stones=4)
    data = evaluate_py.json("database probe", folder, "'ox./ox./... o'")
    assert (data["value"], data["distance"], data["moves"][2][0], data["moves"][0][0]) == (
        1,
        1,
        1,
        None,
    )
    assert (data["distances"][2], data["distances"][0][0]) == ([1, 5, 2], None)
    for place, position, word in (
        (folder, "o../.../... x", "begins at 4 stones"),
        (folder, "ooo/xx./... x", "the game is over"),
        (tmp_path, "o../.../... x", "has no database"),
    ):
        assert word in evaluate_py.error("database probe", place, f"'{position}'")
    assert evaluate_py.json("database verify", folder)["largest_difference"] == 0
    layer = folder / "06-layer.npy"
    manifest = folder / "manifest.json"

    def replace_layer(content):
        whole, other = (hashlib.sha256(data).hexdigest() for data in (layer.read_bytes(), content))
        layer.write_bytes(content)
        manifest.write_text(manifest.read_text().replace(whole, other))

    content = layer.read_bytes()
    size = np.load(layer).nbytes
    for entry in (0, size - 1):  # a byte each
        place = len(content) - size + entry
        replace_layer(content[:place] + b"\x05" + content[place + 1 :])
        assert f"06-layer.npy is wrong in entry {entry:,}, of" in evaluate_py.error(
            "database verify", folder
        )
    replace_layer(b"")
    assert "06-layer.npy is missing or damaged" in evaluate_py.error("database verify", folder)
    manifest.write_text(manifest.read_text().replace('rows": 3', 'rows": 19'))
    assert "19 x 3 is too large" in evaluate_py.error("database verify", folder)
