"""The commands train.py and evaluate.py: their files and their output."""

import importlib.util
import json
import shutil
import subprocess
from unittest import mock

import ground_truth
import numpy as np
import pytest
import warm_up
from commands import error_of, json_of, rows_of, text_of
from processes import ROOT

from baselines.exact import solve
from learners import LEARNERS
from learners.checkpoint import RunPolicy, load_checkpoint, save_arrays
from ttt_apps import evaluate, train, versions
from ttt_apps.evaluate import solve as solve_command
from ttt_apps.train_options import batch_note, default_folder, parse_options
from ttt_envs import Boards, Game, from_text, make_policy
from ttt_envs.core.jit import kernel_folder
from ttt_eval import exact


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "first"
    options = ["--games", "3000", "--skip-chance", "0.1", "--epsilon", "0.2", "--log-every", "500"]
    train.main([*options, "--out", str(folder)])
    return folder


def test_training_writes_a_run(run):
    config = json.loads((run / "config.json").read_text())
    assert Game.from_dict(config["game"]) == Game(skip_chance=0.1)
    assert config["settings"]["epsilon"] == 0.2
    packages = {name for name in ("scipy", "sb3_contrib") if importlib.util.find_spec(name) is not None}
    assert {"python", "numpy", "numba", "ttt_envs", *packages} <= config["versions"].keys()
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert rows[-1]["games"] == 3000
    assert rows[-1]["wins"] + rows[-1]["draws"] + rows[-1]["losses"] == 3000
    cost = json.loads((run / "cost.json").read_text())
    assert list(cost["phases"]) == ["set-up", "compiling", "training", "evaluation"]
    assert not list(run.glob("*.tmp"))


@pytest.mark.skipif(shutil.which("git") is None, reason="git")
@pytest.mark.parametrize(("folder", "own"), [(".", True), (".venv/lib/site-packages", False)])
def test_the_revision_is_that_of_its_own_checkout(folder, own, tmp_path, monkeypatch):
    copy = tmp_path / folder / "ttt_apps" / "versions.py"
    copy.parent.mkdir(parents=True)
    copy.touch()
    git = ("git", "-C", str(tmp_path), "-c", "user.name=x", "-c", "user.email=x")
    for words in (("init", "-q"), ("commit", "-q", "--allow-empty", "-m", "x")):
        subprocess.run([*git, *words], check=True)
    head = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
    monkeypatch.setattr(versions, "__file__", str(copy))
    assert versions.revision() == (head if own else None)


def test_run_of_another_board_is_refused(run):
    with pytest.raises(ValueError, match=r"learned 3 x 3.*, and the game here is 4 x 4, 3 to win"):
        RunPolicy(Game(4, 4), str(run))


def test_runs_carry_their_variant(tmp_path):
    folder = tmp_path / "run"
    options = ["--size", "3x4", "--gravity", "--misere", "--games", "200", "--opponent", "random"]
    train.main([*options, "--no-report", "--out", str(folder)])
    game = Game(3, 4, 3, gravity=True, misere=True)
    assert Game.from_dict(json.loads((folder / "config.json").read_text())["game"]) == game
    policy = RunPolicy(game, str(folder))
    boards = Boards.from_positions([from_text("..../x.../o..o x", game)])
    assert (policy.probabilities(boards)[~boards.legal(game)] == 0).all()
    with pytest.raises(ValueError, match=r"learned 3 x 4.*, and the game here is 3 x 4.*: play it on its own"):
        RunPolicy(Game(3, 4, 3, gravity=True), str(folder))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:100]), "cannot be read as a file of arrays"),
        (lambda path: path.unlink(), "cannot be read as a file of arrays"),
        (lambda path: save_arrays(path, {"other": np.zeros(3)}), "q-learning needs "),
    ],
    ids=["truncated", "missing", "of another learner"],
)
def test_damaged_checkpoint_is_one_sentence(damage, message, run, tmp_path):
    shutil.copytree(run, tmp_path / "copy")
    damage(tmp_path / "copy" / "checkpoint.npz")
    with pytest.raises(ValueError, match=message):
        RunPolicy(Game(skip_chance=0.1), str(tmp_path / "copy"))


@pytest.mark.parametrize("config", ["{", "[]", "{}", '{"game": {}, "learner": "q", "settings": {}}'])
def test_damaged_config_is_one_sentence(config, tmp_path):
    (tmp_path / "config.json").write_text(config)
    with pytest.raises(ValueError, match=r"cannot be read as the settings of a run|there is no learner 'q'"):
        RunPolicy(Game(), str(tmp_path))


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ([], "q-learning-3x3-3-random-seed0"),
        (["--opponent", "self"], "q-learning-3x3-3-self-seed0"),
        (["--epsilon", "0.2", "--seed", "3"], "q-learning-3x3-3-random-epsilon0.2-seed3"),
        (["--epsilon", "0.3"], "q-learning-3x3-3-random-seed0"),
        (["--games", "70", "--skip-chance", "0.25"], "q-learning-3x3-3-skip0.25-random-games70-seed0"),
        (["--opponent", "pool:every=50,size=2"], "q-learning-3x3-3-pool_every_50_size_2-seed0"),
        (["--opponent", "self", "--symmetries", "none"], "q-learning-3x3-3-self-symmetriesnone-seed0"),
        (["--learner", "naive-mc", "--seat", "first"], "naive-mc-3x3-3-random-seatfirst-seed0"),
    ],
)
def test_default_folder_names_settings(words, name):
    assert str(default_folder(*parse_options(words, "train.py"))) == f"runs/{name}"


@pytest.mark.parametrize(
    ("words", "noted"),
    [(["--games=2000"], True), (["--games=2049"], False), (["--games=100", "--batch=100"], False)],
)
def test_a_training_in_one_batch_is_noted(words, noted):
    """Its games do not learn from each other: no setting of its exploration makes a difference."""
    note = batch_note(*parse_options(["--learner=q-learning", *words], "train.py"))
    assert bool(note) == noted
    assert not noted or "because the batch of q-learning is 2,048: no game uses what was learned" in note


def test_a_submission_stays_in_its_default_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    options = ["--agent", "random", "--task", "chance-25", "--seeds", "1", "--steps", "200"]
    evaluate.main(["bench", "run", *options, "--name", ".."])
    assert [path.name for path in tmp_path.glob("runs/*/*")] == ["_."]


def test_long_folder_names_are_cut_and_still_differ():
    opponents = [f"expectiminimax:depth=2,leaf=(run:{'long' * 40}{depth})" for depth in (3, 4)]
    names = [default_folder(*parse_options(["--opponent", opponent], "train.py")).name for opponent in opponents]
    assert names[0] != names[1]
    assert max(map(len, names)) < 130


def test_exact_measurements_do_not_change_training(tmp_path):
    options = ["--games", "900", "--log-every", "200", "--batch", "32", "--skip-chance", "0.25", "--no-report", "--out"]
    train.main([*options, str(tmp_path / "plain"), "--exact-every", "0"])
    train.main([*options, str(tmp_path / "measured"), "--exact-every", "400"])
    plain, measured = (rows_of(tmp_path / name / "metrics.jsonl") for name in ("plain", "measured"))
    wanted = {"exploitability", "regret", "exact_win", "exact_draw", "exact_loss"}
    assert [wanted <= row.keys() for row in measured] == [False, True, False, True, True]  # 200, 400, ..., and the end
    for row, other in zip(plain, measured, strict=True):
        times = {"games_per_s": 0, "cpu_s": 0}
        assert {**row, **times} == {**{name: other[name] for name in row}, **times}
    first, second = (load_checkpoint(tmp_path / name)["learner"] for name in ("plain", "measured"))
    assert first.keys() == second.keys()
    for name, array in first.items():
        assert np.array_equal(array, second[name])
    game, last = Game(skip_chance=0.25), measured[-1]
    learned = make_policy(f"run:{tmp_path / 'measured'}", game)
    assert last["exploitability"] == exact.exploitability(game, learned)
    assert last["regret"] == exact.regret(game, learned)
    assert last["exact_win"] == exact.match_outcome(game, learned, "random").win


@pytest.mark.parametrize(("seat", "players"), [("first", ("run", "random")), ("second", ("random", "run"))])
def test_learner_of_one_seat_is_measured_in_that_seat(seat, players, tmp_path):
    options = ["--games", "200", "--log-every", "200", "--exact-every", "200", "--seat", seat]
    train.main([*options, "--out", str(tmp_path)])
    first, second = (f"run:{tmp_path}" if player == "run" else player for player in players)
    result = exact.outcome(Game(), first, second)
    assert rows_of(tmp_path / "metrics.jsonl")[-1]["exact_win"] == (result.win if seat == "first" else result.loss)


def test_exact_results(capsys):
    data = json_of(capsys, "exact", "optimal", "random")
    assert Game.from_dict(data["game"]) == Game()
    assert (data["a"], data["b"]) == ("optimal", "random")
    for seat in ("first", "second", "mean"):
        assert data[seat].keys() == {"win", "draw", "loss", "value"}
    assert data["first"]["win"] == pytest.approx(0.967811214, abs=1e-9)
    assert data["second"]["win"] == pytest.approx(0.777483833, abs=1e-9)
    assert data["mean"]["draw"] == pytest.approx((0.032188786 + 0.222516167) / 2, abs=1e-9)
    text = text_of(capsys, "exact", "random", "optimal", "--chunk", "100")
    assert "0.222516" in text
    assert "-0.967811" in text


def test_exploitability(capsys):
    data = json_of(capsys, "exploitability", "random")
    assert data["exploitability"] == pytest.approx((191 / 192 + 874 / 945) / 2, abs=1e-12)
    assert data["best_response"]["first"]["value"] == pytest.approx(191 / 192, abs=1e-12)
    assert data["gains"] == pytest.approx({"first": 191 / 192, "second": 874 / 945}, abs=1e-12)
    assert data["regret"] == pytest.approx(exact.regret(Game(), "random"))
    assert [row["stones"] for row in data["regret_by_stones"]] == list(range(9))
    text = text_of(capsys, "exploitability", "random")
    assert f"{data['exploitability']:.6f}" in text
    assert f"{data['regret']:.6f}" in text


def test_best_responses_on_a_board_too_large_to_solve(capsys):
    words = ("exploitability", "win-or-block", "--size", "1x17", "--win-length", "2")
    data = json_of(capsys, *words)
    assert data["best_response"]["first"]["value"] == 1
    assert data["gains"] is None
    assert data["regret"] is None
    assert "too large to solve" in text_of(capsys, *words)


def test_solve_game(capsys):
    data = json_of(capsys, "solve", "--skip-chance", "0.25")
    assert data["value"] == 5095 / 16384
    corner, edge, centre = 11281 / 65536, 7285 / 65536, 5095 / 16384
    assert data["moves"] == [[corner, edge, corner], [edge, centre, edge], [corner, edge, corner]]
    assert data["optimal"] == [4]
    assert data["distance"] is None
    assert data["counts"]["positions_not_over"] == 21727
    text = text_of(capsys, "solve")
    for words in ("5,478 boards", "765 boards up to symmetry", "255,168 games", "ends after 9 more moves"):
        assert words in text


def test_solve_position(capsys):
    data = json_of(capsys, "solve", "--position", "oo./xx./... o")
    assert (data["value_to_mover"], data["optimal"], data["distance"]) == (1, [2], 1)
    assert data["moves"][0] == [None, None, 1.0]
    assert "+1.000000*" in text_of(capsys, "solve", "--position", "oo./xx./... o")


def test_solve_connect_four(capsys):
    game = Game(6, 7, 4, gravity=True)
    words = ("solve", "--size", "6x7", "--win-length", "4", "--gravity", "--position")
    at = "......./...x.../...o.../..xx.../..oo.../.ooxx.. o"
    data = json_of(capsys, *words, at)
    assert (data["game"], data["position"], data["value"]) == (game.to_dict(), at, None)
    assert (data["value_to_mover"], data["optimal"], data["distance"]) == (0, [40], 32)
    assert data["scores"] == {"a": -5, "b": -2, "c": -2, "d": -5, "e": -2, "f": 0, "g": -2}
    assert data["moves"][5] == [-1, None, None, None, None, 0, -1]
    assert data["moves"][0] == [None, None, None, -1, None, None, None]
    text = text_of(capsys, *words, at)
    assert "a draw for the mover after 32 more moves" in text
    assert "f*" in text
    assert "stones fall" in error_of(capsys, evaluate.main, *words, "......./......./......./......./o....../....... x")


def test_solve_board_of_17_cells_by_layers(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("TTT_ENVS_CACHE", str(tmp_path))
    size = ["--size", "1x17", "--win-length", "2"]
    evaluate.main(["solve", *size, "--json"])
    shown = capsys.readouterr()
    data = json.loads(shown.out)
    assert (data["value"], data["distance"], data["counts"]["games"]) == (1, 3, None)
    assert data["method"] == "layers"
    assert "about 743,248 values in 18 layers: 743,248 bytes on disk" in shown.err
    evaluate.main(["solve", *size, "--position", "o.x" + 14 * "." + " o"])
    assert "ends after 1 more move:" in capsys.readouterr().out
    message = error_of(capsys, evaluate.main, "solve", *size, "--skip-chance", "0.1", "--memory", "0.001")
    assert "bytes of memory, and 1,073,741 may be used" in message


def test_solve_by_a_proof(capsys):
    data = json_of(capsys, "solve", "--size", "5x6", "--win-length", "4")
    assert Game.from_dict(data["game"]) == Game(5, 6, 4)
    assert (data["method"], data["value"]) == ("proof", 1)
    assert 0 <= data["move"] < 30
    assert data["nodes"] > 0
    row, column = divmod(data["move"], 6)
    for words, result in (
        (["--size", "5x6"], f"the first player wins, for example by the cell in row {row + 1}, column {column + 1}"),
        (["--size", "5"], "a draw with perfect play by both"),
        (["--size", "5", "--nodes", "10"], "allow more with --nodes"),
    ):
        assert result in text_of(capsys, "solve", "--win-length", "4", *words)


@pytest.mark.parametrize(
    "words",
    [
        ["--size", "5", "--skip-chance", "0.1"],
        ["--size", "9"],
        ["--size", "5", "--misere"],
        ["--nodes", "10"],
        ["--size", "5", "--position", "...../...../...../...../..... o"],
    ],
)
def test_solve_refuses_a_game_before_anything_is_compiled(monkeypatch, capsys, words):
    monkeypatch.setattr(solve_command, "prove", lambda game, **limits: pytest.fail("it would compile now"))
    error_of(capsys, evaluate.main, "solve", *words)


def test_ground_truth_page_is_the_output_of_its_command(tmp_path, capsys):
    page = (ROOT / "docs" / "ground-truth.md").read_text()
    words = ["--largest", "9", "--no-proofs", "--out", str(tmp_path)]
    ground_truth.main(words)
    printed = capsys.readouterr().out
    head, *sections = printed.split("\n## ")
    assert page.startswith(head)
    assert len(sections) == 7
    for section in sections:
        assert section.strip() in page
    with mock.patch("ground_truth.solve", side_effect=AssertionError("it is stored")):
        ground_truth.main(words)
    assert capsys.readouterr().out == printed


def test_facts_of_a_board_solved_by_layers(tmp_path):
    """1 x 17, two to win, is small enough for a test; what is on its page is that of `solve`."""
    game = Game(1, 17, 2, 0.25)
    facts = ground_truth._measure(tmp_path, {"solve": game.to_dict()})
    solution = solve(game, cache=False)
    assert facts["value"] == solution.value
    assert facts["optimal"] == list(range(1, 16))
    win, draw, loss = facts["outcome"]
    assert win + draw + loss == pytest.approx(1)
    assert win - loss == pytest.approx(facts["value"], abs=1e-6)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_ground_truth_page_up_to_16_cells_is_the_output_of_its_command(tmp_path, capsys):
    page = (ROOT / "docs" / "ground-truth.md").read_text()
    ground_truth.main(["--largest", "16", "--out", str(tmp_path), "--jobs", "2"])
    for section in capsys.readouterr().out.split("\n## "):
        assert section.strip() in page


def test_help_names_all_learners(capsys):
    with pytest.raises(SystemExit) as end:
        train.main(["--help"])
    assert end.value.code == 0
    text = capsys.readouterr().out
    assert all(name in text for name in LEARNERS)


def test_no_cache_stores_no_table(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("TTT_ENVS_CACHE", str(tmp_path))
    monkeypatch.setenv("TTT_ENVS_CACHE_BYTES", "1000000000")  # is put back when the test ends
    assert "value 1 for the first player" in text_of(capsys, "solve", "--size", "3x4", "--no-cache")
    assert not list(tmp_path.iterdir())


@pytest.mark.needs("fastapi")
def test_warm_up_runs_every_part_and_names_the_cache(capsys):
    assert list(warm_up.warm_up()) == list(warm_up.PARTS)
    assert str(kernel_folder()) in capsys.readouterr().out
