"""The commands on the real thing: what they write, and what they say to nonsense."""

import io
import json
import subprocess
import sys
import zipfile
from pathlib import Path
from unittest import mock

import numpy as np
import plain
import pytest

from baselines.retrograde.solver import solve
from evaluation import exact
from learners import LEARNERS
from learners.checkpoint import load_arrays, load_checkpoint, load_policy, save_arrays
from ttt_apps import cli, evaluate, runs, train
from ttt_apps.evaluate import ground_truth, warm_up
from ttt_apps.train_options import default_folder
from ttt_envs import Boards, Game, make_policy
from ttt_envs.core.files import write_atomically
from ttt_envs.core.jit_settings import kernel_folder

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "first"
    options = ["--games", "3000", "--skip-chance", "0.1", "--epsilon", "0.2", "--log-every", "500"]
    train.main([*options, "--out", str(folder)])
    return folder


def sentence(capsys, command, arguments):
    """What a command says when it refuses, with exit code 2 and no traceback."""
    with pytest.raises(SystemExit) as end:
        command(arguments)
    assert end.value.code == 2
    said = capsys.readouterr()
    assert "Traceback" not in said.err
    return " ".join((said.err + said.out).split())


def test_training_writes_a_run(run):
    config = json.loads((run / "config.json").read_text())
    assert Game.from_dict(config["game"]) == Game(skip_chance=0.1)
    assert config["settings"]["epsilon"] == 0.2
    assert {"python", "numpy", "numba", "ttt_envs"} <= config["versions"].keys()
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert rows[-1]["games"] == 3000
    assert rows[-1]["wins"] + rows[-1]["draws"] + rows[-1]["losses"] == 3000
    cost = json.loads((run / "cost.json").read_text())
    assert list(cost["phases"]) == ["set-up", "compiling", "training", "evaluation"]
    assert not list(run.glob("*.tmp"))


def test_a_run_is_a_policy(run):
    policy = make_policy(f"run:{run}", Game(skip_chance=0.1))
    assert str(policy) == f"run:{run}"
    assert policy.probabilities(Boards.start(policy.learner.game, 2)).sum() == pytest.approx(2)
    assert policy.action_values(Boards.start(policy.learner.game)).shape == (1, 9)


def test_the_same_command_gives_the_same_learner(run, tmp_path):
    options = ["--skip-chance", "0.1", "--log-every", "500", "--epsilon", "0.2"]
    train.main(["--games", "3000", *options, "--out", str(tmp_path / "again")])
    plain.assert_same_runs(run, tmp_path / "again")


def test_a_match_as_json(run, capsys):
    evaluate.main(["match", f"run:{run}", "random", "--games", "400", "--seed", "1", "--skip-chance", "0.1", "--json"])
    result = json.loads(capsys.readouterr().out)
    assert result["games"] == 400
    assert result["score"]["low"] < result["score"]["mean"] < result["score"]["high"]
    assert sum(result["first"]) == sum(result["second"]) == 200
    assert sum(result["pentanomial"]) == 200
    assert result["game"]["skip_chance"] == 0.1


def test_a_match_as_text(capsys):
    evaluate.main(["match", "win-or-block", "random", "--games", "400"])
    shown = capsys.readouterr().out
    for word in ("win-or-block against random, 400 games", "moving first", "95% interval", "draws"):
        assert word in shown


def test_all_policies_are_listed(capsys):
    evaluate.main(["policies"])
    shown = capsys.readouterr().out
    assert "win-or-block" in shown
    assert "random" in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--size", "20"], "rows=20 is not the edge of a board: choose 1 to 19"),
        (["--size", "3 by 3"], "--size 3 by 3 is not a board: write an edge such as 3"),
        (["--win-length", "4"], "win_length=4 does not fit a board of 3 x 3: choose 1 to 3"),
        (["--skip-chance", "1"], "skip_chance=1.0 is not a probability below 1"),
        (["--opponent", "randon"], "there is no policy 'randon': did you mean 'random'?"),
        (["--opponent", "random:("], "its parentheses do not match"),
        (["--learner", "q-lerning"], "there is no learner 'q-lerning': did you mean 'q-learning'?"),
        (["--learner="], "there is no learner ''"),
        (["--learner", "q-learning", "--learner", "x"], "there is no learner 'x'"),
        (["--games", "-5"], "games=-5 is negative"),
        (["--batch", "0"], "batch=0 leaves nothing to play"),
        (["--log-every", "0"], "log_every=0 does not work: choose 1 or more games"),
        (["--exact-every", "-1"], "exact_every=-1 does not work: choose 0 (never), 1 or more games"),
        (["--checkpoint-seconds", "0"], "checkpoint_seconds=0.0 does not work: choose more than 0 seconds"),
        (["--epsilon", "2"], "epsilon=2.0 does not work for q-learning: choose 0 to 1"),
        (["--bootstrap", "ply"], "which only self-play shows"),
        (["--games", "many"], "many is not a whole number: write for example 10000"),
        (["--gamse", "5"], "there is no option --gamse: did you mean --games? See train.py --help"),
        (
            ["--hidden", "5"],
            "--hidden is an option of alpha-zero, q-net, sb3-dqn, sb3-maskable-ppo, sb3-ppo, value-net",
        ),
        (["--seed", "-1"], "--seed -1 is no seed: choose 0 or more"),
        (["--opponent", "minimax"], "there is no policy 'minimax': did you mean 'optimal' or 'expectiminimax'?"),
        (["--opponent", "runs/first"], "what the run in a folder has learned is written 'run:runs/first'"),
    ],
)
def test_train_says_what_to_type_instead(arguments, message, capsys, tmp_path):
    assert message in sentence(capsys, train.main, [*arguments, "--out", str(tmp_path / "run")])
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["match", "random", "rndom"], "there is no policy 'rndom': did you mean 'random'?"),
        (["match", "random", "random", "--games", "7"], "--games 7 makes no pairs"),
        (["match", "random", "random", "--games", "0"], "--games 0 makes no pairs"),
        (["match", "random", "random", "--size", "0"], "rows=0 is not the edge of a board"),
        (["match", "random", "run:nowhere"], "nowhere is no run: there is no config.json in it"),
        (["match", "random", "run"], "run needs its argument path: write run:path=..."),
        (["match", "random", "random", "--seed", "-1"], "--seed -1 is no seed: choose 0 or more"),
        (["match", "random", "random", "--jobs", "0"], "--jobs 0 leaves nobody to work"),
        (["match", "random", "random", "--jobs", "3000000000"], "--jobs 3000000000 is more than a machine can have"),
        (["match", "random"], "B another policy. See evaluate.py match --help"),
        (["mtach", "random", "random"], "there is no command 'mtach': did you mean 'match'?"),
        ([], "a command is missing: choose one of 'book'"),
    ],
)
def test_evaluate_says_what_to_type_instead(arguments, message, capsys):
    assert message in sentence(capsys, evaluate.main, arguments)


def test_a_run_is_not_replaced_unless_asked(run, capsys):
    assert f"go on with it by train.py --resume {run}, choose another --out, or --overwrite" in sentence(
        capsys, train.main, ["--out", str(run), "--games", "10"]
    )


def test_a_run_of_another_board_is_refused(run):
    with pytest.raises(ValueError, match=r"learned on a board of 3 x 3, and the game here is 4 x 4, 3 to win"):
        load_policy(Game(4, 4), str(run))


def absurd(path):
    """A file of some bytes whose header promises 2**60 numbers."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (1 << 60,)})
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("learner.values.npy", header.getvalue() + bytes(80))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:100]), "cannot be read as a checkpoint"),
        (lambda path: path.unlink(), "cannot be read as a checkpoint"),
        (lambda path: np.savez(path, values=np.array([{}], dtype=object)), "cannot be read as a checkpoint"),
        (lambda path: save_arrays(path, {"other": np.zeros(3)}), "q-learning needs epsilon"),
        (absurd, "cannot be read as a checkpoint"),
    ],
    ids=["cut off", "gone", "objects", "another learner's", "absurd header"],
)
def test_a_damaged_checkpoint_is_one_sentence(damage, message, tmp_path):
    train.main(["--games", "10", "--no-report", "--out", str(tmp_path)])
    damage(tmp_path / "checkpoint.npz")
    with pytest.raises(ValueError, match=message):
        load_policy(Game(), str(tmp_path))


def test_a_checkpoint_that_would_fill_the_memory_is_not_unpacked(tmp_path):
    np.savez_compressed(tmp_path / "bomb.npz", zeros=np.zeros(1_000_000))
    with pytest.raises(ValueError, match="it unpacks to 8,000,128 bytes, and at most 1,000,000 are read"):
        load_arrays(tmp_path / "bomb.npz", limit=1_000_000)
    with pytest.raises(ValueError, match="it unpacks to 8,000,128 bytes, which are more than it has"):
        load_arrays(tmp_path / "bomb.npz")
    save_arrays(tmp_path / "large.npz", {"zeros": np.zeros(1_000_000)})
    with pytest.raises(ValueError, match=r"large.npz has 8,\d+,\d+ bytes, and at most 2,048,576 are read"):
        load_arrays(tmp_path / "large.npz", limit=1_000_000)


@pytest.mark.parametrize("config", ["{", "[]", "{}", '{"game": {}, "learner": "q", "settings": {}}'])
def test_a_damaged_config_is_one_sentence(config, tmp_path):
    (tmp_path / "config.json").write_text(config)
    with pytest.raises(ValueError, match=r"cannot be read as the settings of a run|there is no learner 'q'"):
        load_policy(Game(), str(tmp_path))


def test_a_file_is_written_whole_or_not_at_all(tmp_path):
    path = tmp_path / "checkpoint.npz"
    save_arrays(path, {"good": np.arange(3)})
    with pytest.raises(AttributeError):
        write_atomically(path, lambda file: file.no_such_method())
    assert load_arrays(path)["good"].tolist() == [0, 1, 2]
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(("text", "size"), [("3", (3, 3)), ("5x6", (5, 6)), (" 12X4 ", (12, 4))])
def test_sizes_are_read(text, size):
    assert cli.parse_size(text) == size


@pytest.mark.parametrize("script", ["train.py", "evaluate.py"])
def test_the_scripts_at_the_top_start_in_a_fresh_process(script):
    answer = subprocess.run([sys.executable, ROOT / script, "--help"], capture_output=True, text=True, cwd=ROOT)
    assert answer.returncode == 0
    assert "usage" in answer.stdout
    nonsense = subprocess.run([sys.executable, ROOT / script, "--nonsense"], capture_output=True, text=True, cwd=ROOT)
    assert nonsense.returncode == 2
    assert "Traceback" not in nonsense.stderr


def test_a_finished_run_is_told_to_be_finished(tmp_path, capsys):
    train.main(["--games", "50", "--no-report", "--out", str(tmp_path)])
    before = (tmp_path / "checkpoint.npz").read_bytes()
    capsys.readouterr()
    train.main(["--resume", str(tmp_path)])
    assert "is finished, all 50 games are played: nothing was done" in capsys.readouterr().out
    assert (tmp_path / "checkpoint.npz").read_bytes() == before
    train.main(["--resume", str(tmp_path), "--games", "80"])
    assert metrics(tmp_path)[-1]["games"] == 80


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
def test_other_settings_go_to_another_folder(words, name, monkeypatch):
    asked = []
    monkeypatch.setattr(runs, "train_run", lambda options, settings: asked.append((options, settings)))
    train.main(words)
    assert str(default_folder(*asked[0])) == f"runs/{name}"


def test_long_names_of_folders_are_cut_and_still_differ(monkeypatch):
    asked = []
    monkeypatch.setattr(runs, "train_run", lambda options, settings: asked.append((options, settings)))
    for depth in (3, 4):
        train.main(["--opponent", f"expectiminimax:depth=2,leaf=(run:{'long' * 40}{depth})"])
    names = [default_folder(*one).name for one in asked]
    assert names[0] != names[1]
    assert max(map(len, names)) < 130


def metrics(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_exact_measurements_while_training_change_nothing_that_is_learned(tmp_path):
    options = ["--games", "900", "--log-every", "200", "--batch", "32", "--skip-chance", "0.25", "--no-report", "--out"]
    train.main([*options, str(tmp_path / "plain"), "--exact-every", "0"])
    train.main([*options, str(tmp_path / "measured"), "--exact-every", "400"])
    plain, measured = metrics(tmp_path / "plain"), metrics(tmp_path / "measured")
    wanted = {"exploitability", "regret", "exact_win", "exact_draw", "exact_loss"}
    assert [wanted <= row.keys() for row in measured] == [False, True, False, True, True]  # 200, 400, ..., and the end
    for row, other in zip(plain, measured, strict=True):
        assert {**row, "games_per_s": 0} == {name: 0 if name == "games_per_s" else other[name] for name in row}
    first, second = (load_checkpoint(tmp_path / name)["learner"] for name in ("plain", "measured"))
    assert first.keys() == second.keys()
    for name, array in first.items():
        assert np.array_equal(array, second[name])
    game, last = Game(skip_chance=0.25), measured[-1]
    learned = make_policy(f"run:{tmp_path / 'measured'}", game)
    assert last["exploitability"] == exact.exploitability(game, learned)
    assert last["regret"] == exact.regret(game, learned)
    assert last["exact_win"] == exact.match_outcome(game, learned, "random").win


def test_in_self_play_there_is_no_opponent_to_measure_against(tmp_path):
    options = ["--games", "200", "--log-every", "100", "--exact-every", "100", "--opponent", "self"]
    train.main([*options, "--out", str(tmp_path)])
    assert "exploitability" in metrics(tmp_path)[0]
    assert "exact_win" not in metrics(tmp_path)[0]


@pytest.mark.parametrize(("seat", "players"), [("first", ("run", "random")), ("second", ("random", "run"))])
def test_a_learner_of_one_seat_is_measured_in_that_seat(seat, players, tmp_path):
    options = ["--games", "200", "--log-every", "200", "--exact-every", "200", "--seat", seat]
    train.main([*options, "--out", str(tmp_path)])
    first, second = (f"run:{tmp_path}" if player == "run" else player for player in players)
    result = exact.outcome(Game(), first, second)
    assert metrics(tmp_path)[-1]["exact_win"] == (result.win if seat == "first" else result.loss)


def test_exact_results_as_json(capsys):
    evaluate.main(["exact", "optimal", "random", "--json"])
    data = json.loads(capsys.readouterr().out)
    assert Game.from_dict(data["game"]) == Game()
    assert (data["a"], data["b"]) == ("optimal", "random")
    for seat in ("first", "second", "mean"):
        assert data[seat].keys() == {"win", "draw", "loss", "value"}
    assert data["first"]["win"] == pytest.approx(0.967811214, abs=1e-9)
    assert data["second"]["win"] == pytest.approx(0.777483833, abs=1e-9)
    assert data["mean"]["draw"] == pytest.approx((0.032188786 + 0.222516167) / 2, abs=1e-9)


def test_exact_results_as_a_table(capsys):
    evaluate.main(["exact", "random", "optimal", "--chunk", "100"])
    shown = capsys.readouterr().out
    assert "0.222516167" in shown
    assert "-0.967811214" in shown


def test_exploitability_as_json_and_as_tables(capsys):
    evaluate.main(["exploitability", "random", "--json"])
    data = json.loads(capsys.readouterr().out)
    assert data["exploitability"] == pytest.approx((191 / 192 + 874 / 945) / 2, abs=1e-12)
    assert data["best_response"]["first"]["value"] == pytest.approx(191 / 192, abs=1e-12)
    assert data["gains"] == pytest.approx({"first": 191 / 192, "second": 874 / 945}, abs=1e-12)
    assert data["regret"] == pytest.approx(exact.regret(Game(), "random"))
    assert [row["stones"] for row in data["regret_by_stones"]] == list(range(9))
    evaluate.main(["exploitability", "random"])
    shown = capsys.readouterr().out
    assert f"{data['exploitability']:.9f}" in shown
    assert f"{data['regret']:.9f}" in shown


def test_a_board_too_large_to_solve_still_has_exact_best_responses(capsys):
    size = ["--size", "1x17", "--win-length", "2"]
    evaluate.main(["exploitability", "win-or-block", *size, "--json"])
    data = json.loads(capsys.readouterr().out)
    assert data["best_response"]["first"]["value"] == 1
    assert data["gains"] is None
    assert data["regret"] is None
    evaluate.main(["exploitability", "win-or-block", *size])
    assert "too large to solve" in capsys.readouterr().out


def test_a_solved_game_as_json_and_as_text(capsys):
    evaluate.main(["solve", "--skip-chance", "0.25", "--json"])
    data = json.loads(capsys.readouterr().out)
    assert data["value"] == 5095 / 16384
    corner, edge, centre = (int(n) / int(d) for n, d in (("11281", "65536"), ("7285", "65536"), ("5095", "16384")))
    assert data["moves"] == [[corner, edge, corner], [edge, centre, edge], [corner, edge, corner]]
    assert data["optimal"] == [4]
    assert data["distance"] is None
    assert data["counts"]["positions_not_over"] == 21727
    evaluate.main(["solve"])
    shown = capsys.readouterr().out
    for words in ("5,478 boards", "765 boards up to symmetry", "255,168 games", "ends after 9 more moves"):
        assert words in shown


def test_the_moves_of_any_position(capsys):
    evaluate.main(["solve", "--position", "oo./xx./... o", "--json"])
    data = json.loads(capsys.readouterr().out)
    assert data["value_to_mover"] == 1
    assert data["optimal"] == [2]
    assert data["moves"][0] == [None, None, 1.0]
    assert data["distance"] == 1
    evaluate.main(["solve", "--position", "oo./xx./... o"])
    assert "+1.000000*" in capsys.readouterr().out


def test_a_board_of_17_cells_is_solved_by_layers(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("TTT_ENVS_CACHE", str(tmp_path))
    size = ["--size", "1x17", "--win-length", "2"]
    evaluate.main(["solve", *size, "--json"])
    shown = capsys.readouterr()
    data = json.loads(shown.out)
    assert (data["value"], data["distance"], data["counts"]["games"]) == (1, 3, None)
    assert "2,894,659 values in 18 layers: 2,894,659 bytes on disk" in shown.err
    evaluate.main(["solve", *size, "--position", "o.x" + 14 * "." + " o"])
    assert "ends after 1 more moves" in capsys.readouterr().out
    said = sentence(capsys, evaluate.main, ["solve", *size, "--skip-chance", "0.1", "--memory", "0.001"])
    assert "takes 27,576,106 bytes of memory, and 1,073,741 may be used" in said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["solve", "--size", "5"], "5 x 5 is too large to solve: its table of 2 x 3**25 values would take 13,556,617"),
        (["solve", "--position", "ooo/xx./... x"], "the game is over"),
        (["solve", "--position", "oo./xx. o"], "this game needs 3 x 3"),
        (["exact", "optimal", "random", "--size", "5"], "5 x 5 is too large to solve"),
        (["exact", "optimal:epsilon=2", "random"], "epsilon=2.0 is no probability of a random move: choose 0"),
        (["exact", "random", "random", "--chunk", "0"], "chunk=0 leaves nothing to ask: choose 1 or more"),
        (["exploitability", "optimum"], "did you mean 'optimal'?"),
        (["prove", "--skip-chance", "0.1"], "skip_chance=0.1"),
        (["prove", "--size", "9"], "64"),
        (["cost"], "cost needs runs: write evaluate.py cost RUN..."),
        (["cost", "nowhere"], "nowhere is no run"),
        (["cost", "nowhere", "--repeats", "0"], "--repeats 0 measures nothing"),
    ],
)
def test_nonsense_about_exact_numbers_is_answered_by_a_sentence(arguments, said, capsys):
    assert said in sentence(capsys, evaluate.main, arguments)


def test_a_proof_as_json_and_as_text(capsys):
    evaluate.main(["prove", "--size", "5x6", "--win-length", "4", "--json"])
    data = json.loads(capsys.readouterr().out)
    assert Game.from_dict(data["game"]) == Game(5, 6, 4)
    assert data["winner"] == "player_0"
    assert 0 <= data["move"] < 30
    assert data["nodes"] > 0
    evaluate.main(["prove", "--size", "5x6", "--win-length", "4"])
    row, column = divmod(data["move"], 6)
    assert f"the first player wins, for example by the cell in row {row + 1}, column {column + 1}" in words(capsys)
    evaluate.main(["prove", "--size", "5", "--win-length", "4"])
    assert "a draw with perfect play by both" in words(capsys)
    evaluate.main(["prove", "--size", "5", "--win-length", "4", "--nodes", "10"])
    assert "allow more with --nodes" in words(capsys)


def words(capsys):
    return " ".join(capsys.readouterr().out.split())


def test_the_page_of_ground_truth_is_what_its_command_prints(tmp_path, capsys):
    page = (ROOT / "docs" / "ground-truth.md").read_text()
    words = ["ground-truth", "--largest", "9", "--no-proofs", "--out", str(tmp_path)]
    evaluate.main(words)
    printed = capsys.readouterr().out
    head, *sections = printed.split("\n## ")
    assert page.startswith(head)
    assert len(sections) == 6
    for section in sections:
        assert section.strip() in page
    with mock.patch("ttt_apps.evaluate.ground_truth.solve", side_effect=AssertionError("it is kept")):
        evaluate.main(words)
    assert capsys.readouterr().out == printed


def test_a_board_by_layers_has_facts_of_the_same_kind(tmp_path):
    """1 x 17, two to win, is small enough for a test; what is on its page is that of `solve`."""
    game = Game(1, 17, 2, 0.25)
    facts = ground_truth._measure(tmp_path, {"solve": game.to_dict()})
    solution = solve(game, cache=False)
    assert facts["value"] == solution.value
    assert facts["optimal"] == list(range(1, 16))
    win, draw, loss = facts["outcome"]
    assert win + draw + loss == pytest.approx(1)
    assert win - loss == pytest.approx(facts["value"], abs=1e-6)
    assert len(facts["sha256"]) == 64
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_the_page_of_ground_truth_up_to_16_cells_is_what_its_command_prints(tmp_path, capsys):
    page = (ROOT / "docs" / "ground-truth.md").read_text()
    evaluate.main(["ground-truth", "--largest", "16", "--out", str(tmp_path), "--jobs", "2"])
    for section in capsys.readouterr().out.split("\n## "):
        assert section.strip() in page


def test_the_help_names_every_learner(capsys):
    with pytest.raises(SystemExit) as end:
        train.main(["--help"])
    assert end.value.code == 0
    shown = capsys.readouterr().out
    for name in LEARNERS:
        assert name in shown


def test_what_a_run_costs_beside_one_without_games(run, capsys):
    evaluate.main(["cost", str(run), "--repeats", "1", "--games", "500000", "--json"])
    data = json.loads(capsys.readouterr().out)[str(run)]
    assert data["games"] == 500000
    whole, alone = ({name: spread["median"] for name, spread in data[kind].items()} for kind in ("run", "set_up"))
    assert whole["cpu_user_s"] > alone["cpu_user_s"] > 0.1  # imports are counted
    assert whole["peak_rss_bytes"] > alone["peak_rss_bytes"] > 2**25


@pytest.mark.slow
def test_costs_are_told_above_those_of_setting_up(run, capsys):
    evaluate.main(["cost", str(run), "--repeats", "1", "--games", "100"])
    assert "above set-up" in capsys.readouterr().out


def test_no_cache_keeps_no_table(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("TTT_ENVS_CACHE", str(tmp_path))
    monkeypatch.setenv("TTT_ENVS_CACHE_BYTES", "1000000000")  # is put back when the test ends
    evaluate.main(["solve", "--size", "3x4", "--no-cache"])
    assert "worth 1 to the first player" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())


@pytest.mark.needs("fastapi")
def test_warm_up_runs_every_part_and_says_where_machine_code_is(capsys):
    evaluate.main(["warm-up", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert list(found["seconds"]) == list(warm_up.PARTS)
    assert found["bytes"] > 0
    assert found["folder"] == str(kernel_folder())
