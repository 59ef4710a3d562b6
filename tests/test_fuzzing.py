"""Any spec string, file or command line gives a result or a one-line error.

In the twentieth part of the examples; ``make slow`` has all of them.
"""

import io
import json
import os
import shutil
import sys
import warnings
import zipfile
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import damage
import numpy as np
import plain
import pytest
import tiny
from hypothesis import given, settings
from hypothesis import strategies as st

from learners import OtherGameWarning
from learners.checkpoint import (
    RunPolicy,
    load_arrays,
)
from ttt_apps import evaluate, play, train
from ttt_apps.evaluate import COMMANDS
from ttt_envs import Boards, Game, Policy, make_policy
from ttt_envs.agents.specs import POLICIES, TRUST, FromFile
from ttt_envs.core.array_cache import CACHE_BYTES_VARIABLE
from ttt_eval.matches.games import Move, PlayedGame, append_games, from_notation, read_games, to_notation, write_games
from ttt_eval.result_store import UNITS, collect_results
from ttt_eval.run_files import RunDirectory

SEEDS = st.integers(0, 2**32 - 1)
SCALE = float(os.environ.get("TTT_ENVS_FUZZ_SCALE", "0.05"))
"""multiplies the number of examples of every test here"""


def examples(number):
    """Settings for a number of examples at scale 1."""
    return settings(max_examples=max(1, round(SCALE * number)))


@contextmanager
def one_line_errors():
    """Accept the exceptions that commands report, with a message of one line."""
    message = "none"
    try:
        yield
    except (ValueError, TypeError, OSError, MemoryError) as problem:
        message = str(problem)
    assert message
    assert "\n" not in message


@pytest.fixture(scope="module", autouse=True)
def load_fonts():
    """matplotlib looks for fonts and caches them on its first import, which the guard would report."""
    import matplotlib.font_manager  # noqa: F401


@pytest.fixture(autouse=True)
def no_trust(monkeypatch):
    monkeypatch.setenv(TRUST, "0")


# ---------------------------------------------------------------------------------------------------------------------
# Spec strings and settings

KEYS = [
    *("epsilon", "depth", "width", "heuristic", "leaf", "simulations", "c", "rollout", "temperature", "decisive"),
    *("reuse", "w", "terminal", "source", "rank", "split", "path", "algorithm", "trust", "every", "size"),
]
WORDS = ["0", "1", "2", "-1", "0.5", "nan", "inf", "-inf", "1e308", "none", "true", "False", "9" * 30, "9" * 5000]
WORDS += ["", "x", "..", "results", "children", "٣", "0x10", "1_0"]
NAMES = [*POLICIES, "pool", "teacher", "joblib.numpy_pickle:dump", "importlib.util:find_spec", "no_such:A"]


def spec_of(values):
    keyed = st.lists(st.tuples(st.sampled_from(KEYS), values), max_size=3)
    return st.builds(
        lambda name, rest: f"{name}:{','.join(f'{key}=({value})' for key, value in rest)}" if rest else name,
        st.sampled_from(NAMES),
        keyed,
    )


SPECS = st.one_of(
    st.recursive(st.sampled_from(WORDS), spec_of, max_leaves=6),
    st.text(st.sampled_from("random:optimal=,().-19mcts[]\x00\n ٣")),
)


@examples(20_000)
@given(SPECS, st.booleans())
def test_any_spec_string_gives_a_policy_or_an_error(spec, from_file):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(TRUST, "0")
        patch.setattr("baselines.mcts.policy.MEMORY", 1 << 20)
        with one_line_errors():
            policy = make_policy(FromFile(spec) if from_file else spec, tiny.GAME)
            assert isinstance(policy, Policy)
            assert spec.partition(":")[0] in POLICIES or not from_file


# ---------------------------------------------------------------------------------------------------------------------
# Files of runs


LEARNED = [tiny.case(name) for name in ("q-learning", "naive-mc", "alpha-zero", "sb3-dqn")]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """The folder of a small run of the learner of a name, made when it is asked for."""
    return cache(lambda name: tiny.train_run(name, tmp_path_factory.mktemp("runs") / name))


def read_all(run):
    """Read all there is of a run, as playing, reports and costs do; every reader may say why it cannot."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OtherGameWarning)
        with one_line_errors():
            played = RunPolicy(tiny.GAME, str(run)).probabilities(Boards.start(tiny.GAME))
            assert played.shape == (1, 6)
            assert np.isclose(played.sum(), 1)
        readers = (
            RunDirectory.read_cost,
            RunDirectory.read_metrics,
            RunDirectory.read_training,
            RunDirectory.read_game,
        )
        for read in readers:
            with one_line_errors():
                read(RunDirectory(run))


@contextmanager
def replaced(path, content):
    """A file with other content."""
    whole = path.read_bytes()
    path.write_bytes(content)
    try:
        yield
    finally:
        path.write_bytes(whole)


def damage_bytes(path, rng):
    return damage.damaged_bytes(path.read_bytes(), rng)


def damage_json(path, rng):
    text = path.read_text()
    if path.suffix == ".jsonl":
        return damage.damaged_lines(text.splitlines(), rng).encode(errors="surrogatepass")
    return damage.damaged_json(json.loads(text), rng).encode()


def damage_zip(path, rng):
    return damage.damaged_zip(path.read_bytes(), rng)


JSON_FILES = ("config.json", "config.json", "cost.json", "metrics.jsonl")
DAMAGES = {
    damage_bytes: ("*.json", "*.jsonl", "*.npz"),
    damage_json: JSON_FILES,
    damage_zip: ("*.npz",),
}
"""Maps each kind of damage to the files of a run that it applies to."""
# torch builds every network again
EXAMPLES = {"sb3-dqn": 200}


@pytest.mark.parametrize("kind", DAMAGES, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("learner", LEARNED)
def test_damaged_files_of_a_run_are_read_or_rejected(runs, learner, kind):
    run = runs(learner)
    files = [path for pattern in DAMAGES[kind] for path in sorted(run.rglob(pattern))]

    @examples(EXAMPLES.get(learner, 500))
    @given(st.sampled_from(files), SEEDS)
    def check(path, seed):
        damaged = kind(path, np.random.default_rng(seed))
        if kind is damage_zip:
            written = load_arrays(path)
            with zipfile.ZipFile(path) as archive:
                hash_is_same = archive.comment in damaged
        with replaced(path, damaged):
            read_all(run)
            if kind is damage_zip:
                with one_line_errors():
                    read = load_arrays(path, limit=1 << 22)
                    if hash_is_same:  # either rejected, or exactly the arrays that were written
                        plain.assert_same_arrays(read, written)

    with damage.guarded(run):
        check()


RESUMED = {"q-learning": 150, "naive-mc": 60, "alpha-zero": 30}


@pytest.mark.parametrize("learner", [*map(tiny.case, RESUMED)])
def test_a_damaged_run_resumes_or_is_rejected(runs, learner, tmp_path):
    run = shutil.copytree(runs(learner), tmp_path / "whole")
    # a changed config.json may be valid, and train for long
    names = [*JSON_FILES[2:], *(path.name for path in sorted(run.rglob("*.npz")))]
    games = str(int(tiny.OPTIONS[learner][0].partition("=")[2]) + 4)

    @examples(RESUMED[learner])
    @given(st.sampled_from(names), SEEDS)
    def check(name, seed):
        copy, rng = tmp_path / "copy" / "run", np.random.default_rng(seed)
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(run, copy)
        path = next(copy.rglob(name))
        damaged = (damage_bytes if path.suffix == ".npz" else damage_json)(path, rng)
        path.write_bytes(damaged)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", OtherGameWarning)
            run_command(train.main, ["--resume", str(copy), "--games", games])

    with damage.guarded(tmp_path):
        check()


# ---------------------------------------------------------------------------------------------------------------------
# Other files


def check_damaged(files, examples_, verify, folder, kinds=(damage_bytes, damage_json)):
    """Damage one of some files in one of several ways, call ``verify``, and restore the file."""

    @examples(examples_)
    @given(st.sampled_from(files), SEEDS)
    def check(path, seed):
        rng = np.random.default_rng(seed)
        with replaced(path, kinds[rng.integers(len(kinds))](path, rng)):
            verify()

    with damage.guarded(folder):
        check()


def square(unit):
    return {"square": unit["n"] ** 2, "half": unit["n"] / 2, "none": float("nan") if unit["n"] == 3 else None}


def test_damaged_results_are_measured_again(tmp_path):
    units, provenance = [{"n": number} for number in range(4)], {"code": "x"}
    expected = json.dumps(collect_results(square, units, tmp_path, provenance))

    def verify():
        with one_line_errors():  # of a damaged first line
            assert json.dumps(collect_results(square, units, tmp_path, provenance)) == expected

    check_damaged([tmp_path / UNITS], 600, verify, tmp_path)


@pytest.fixture(scope="module")
def games():
    skipping, plain = Game(3, 3, 3, 0.25), Game(2, 3, 2)
    won = (Move(0, False), Move(5, False), Move(1, False))
    return [
        PlayedGame(skipping, ("random", "human"), (Move(4, False), Move(0, True), Move(1, False)), seed=7, episode=3),
        PlayedGame(plain, ("mcts:simulations=5", "x"), won, 0, settings={"of": [1, {"a": None}]}),
        PlayedGame(plain, ("a", "b"), won[:1], 1, forfeit="time"),
        PlayedGame(skipping, ("a", "b"), (), None, opening="x.o/.../..o x"),
    ]


def test_damaged_logs_of_games_are_read_or_rejected(games, tmp_path):
    path = tmp_path / "games.jsonl"
    write_games(path, games)

    def verify():
        with one_line_errors():
            for played in read_games(path, tell=lambda sentence: None):
                assert from_notation(to_notation(played)) == [played]
        with one_line_errors():
            append_games(path, games[:1])
            with one_line_errors():
                list(read_games(path))

    check_damaged([path], 1_500, verify, tmp_path)


# ---------------------------------------------------------------------------------------------------------------------
# Command lines


def run_command(main, words, typed=""):
    """Run a command in this process: it succeeds, or exits with code 2 and a message without a traceback."""
    error, output = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(TRUST, "0")
        patch.setenv(CACHE_BYTES_VARIABLE, "10000000")
        for name, stream in (("stdin", io.StringIO(typed)), ("stderr", error), ("stdout", output)):
            patch.setattr(sys, name, stream)
        patch.setattr(sys, "path", list(sys.path))
        try:
            main(words)
            code = 0
        except SystemExit as end:
            code = 0 if end.code is None else end.code
    assert code in (0, 2), error.getvalue()
    assert "Traceback" not in error.getvalue() + output.getvalue()
    assert code == 0 or error.getvalue().strip()


SIZES = ["1", "2", "2x3", "3", "1x7", "3x2", "19", "20", "0", "-1", "3x", "axb", "", "5x5", "٣", "3x3x3"]
NUMBERS = ["0", "1", "2", "3", "7", "-1", "1.5", "nan", "inf", "-inf", "1e400", "9" * 30, "1e1", "1,0", "x", "", "none"]
FEW = ["0", "1", "2", "5", "12", "-1", "1.5", "nan", "9" * 30, "1e1", "x", ""]  # games are played, one by one
SOME = ["random", "win-or-block", "optimal", "optimal:epsilon=0.5", "table", "svd:rank=2", "expectiminimax:depth=1",
        "mcts:simulations=3", "pool:every=5,size=2", "self", "teacher", "run:run", "run:nothing", "run:", "run:cut",
        "sb3:x.zip,algorithm=dqn", "no_such:A", "rndom", "", "x", "svd:rank=0", "mcts:simulations=0", "(", "random:",
        "optimal:epsilon=nan", "run:games.jsonl", "٣", "\x00", "run:" + "x" * 5000]  # fmt: skip
FOLDERS = ["run", "cut", "nothing", "new", "new/deeper", "games.jsonl", "", ".", "x\x00y", "\udcff", "y" * 300, "empty"]
FILES = ["games.jsonl", "torn.jsonl", "run", "nothing", "new.jsonl", "empty", "", "x\x00", "config.json",
         "run/config.json"]  # fmt: skip
TYPED = ["a1", "b2", "c3", "5", "0", "99", "-1", "help", "undo", "hint", "moves", "board", "why", "values", "exact",
         "new", "quit", "yes", "no", "y", "n", "", "z9", "x" * 500, "\x00", "٣", "resign", "swap", "?"]  # fmt: skip
COMMON = {"size": SIZES, "win-length": ["1", "2", "3", "3", "0", "-1", "9", "x", ""],
          "skip-chance": ["0", "0.25", "0.5", "1", "-0.1", "nan", "x", "1e-300", ""]}  # fmt: skip
EXACT = {**COMMON, "memory": ["0.1", "0", "-1", "nan", "inf", "x", "1e400"], "json": None}
ASKED = {
    "match": (
        ["P", "P"],
        {**COMMON, "games": FEW, "seed": NUMBERS, "jobs": ["1", "1", "0", "-5", "x", "9999999999"], "json": None,
         "log": FILES, "anchor": SOME, "sprt": NUMBERS,
         "openings": ["random:2", "all:1", "random:99", "all:x", *FILES]},
    ),
    "games": ([FILES], {"text": None, "number": NUMBERS, "out": FILES, "json": None}),
    "exact": (["P", "P"], EXACT),
    "exploitability": (["P"], EXACT),
    "audit": (
        [["gae", "gae:lam=x", "rloo", "all", "x", "no_such:a", "", "\x00"]],
        {**COMMON, "json": None, "episodes": FEW, "group-size": NUMBERS, "max-steps": NUMBERS, "discount": NUMBERS,
         "seat": NUMBERS, "policy": SOME, "opponent": SOME, "behaviour": SOME, "enumerate": None,
         "critic": ["exact", "zero", "learned:5", "learned:", "learned:x", "random", "optimal", "x", ""],
         "position": ["x.o/.../..o x", "", "x"]},
    ),
    "solve": ([], {**EXACT, "position": ["x.o/.../..o x", "", "x", "o../.../... o", "." * 99, "\x00"],
                   "nodes": ["1", "50", "x"]}),
    "report": ([FOLDERS], {"trust": None}),
    "reproduce": ([["", "x", "table-9", "\x00"]], {"jobs": ["0", "-1", "x"], "out": FOLDERS}),
    "list": ([["policies", "learners", "tasks", "x", ""]], {"json": None}),
}  # fmt: skip
TRAIN = {
    **COMMON, "games": FEW, "batch": ["1", "2", "5", "0", "-1", "x"], "seed": NUMBERS, "opponent": SOME,
    "seat": ["first", "second", "random", "alternate", "x", ""], "out": FOLDERS, "log-every": NUMBERS,
    "overwrite": None, "exact-every": NUMBERS, "checkpoint-games": NUMBERS,
    "checkpoint-seconds": ["1", "0", "-1", "nan", "x"], "learner": ["q-learning", "naive-mc", "x", ""],
    "epsilon": NUMBERS, "backup": ["negamax", "x"], "symmetries": ["all", "none", "x"], "alpha": NUMBERS,
    "gamma": NUMBERS, "discount": NUMBERS, "hidden": NUMBERS,
}  # fmt: skip
RESUME = {"resume": FOLDERS, "games": FEW, "trust": None, "seed": NUMBERS}
PLAYED = {**COMMON, "opponent": SOME, "seat": ["first", "second", "alternate", "x"], "games": FEW, "seed": NUMBERS,
          "log": FILES, "replay": FILES, "number": NUMBERS}  # fmt: skip
ANYWHERE = ["--help", "--version", "--quiet", "-h", "--", "--no-such-option", "stray", "--size", "", "--seed=1=2", "-x"]


def players(data):
    return SOME[: 9 if data.draw(st.integers(0, 2)) else None]


PLAUSIBLE = {"1", "2", "3", "5", "12", "2x3", "0.25", "0.5", "50", "x.o/.../..o x", "random", "win-or-block", "optimal",
             "table", "expectiminimax:depth=1", "run:run", "mcts:simulations=3", "self", "run", "new", "games.jsonl",
             "first", "alternate", "q-learning", "naive-mc", "all", "none"}  # fmt: skip


def options_of(data, table, most=5):
    """Options of a command, two of three times such as somebody might type in earnest."""
    words = []
    if data.draw(st.integers(0, 2)):
        table = {
            name: values and ([value for value in values if value in PLAUSIBLE] or values)
            for name, values in table.items()
        }
    for name in data.draw(st.lists(st.sampled_from(sorted(table)), max_size=most, unique=True)):
        words += [f"--{name}"] if table[name] is None else [f"--{name}", data.draw(st.sampled_from(table[name]))]
    if data.draw(st.integers(0, 7)) == 0:
        words.insert(data.draw(st.integers(0, len(words))), data.draw(st.sampled_from(ANYWHERE)))
    return words


@pytest.fixture
def here(tmp_path, runs, games, monkeypatch):
    """A current folder with a run, a cut one, games, and nothing else."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(runs("q-learning"), "run")
    shutil.copytree(runs("q-learning"), "cut")
    whole = Path("cut", "checkpoint.npz").read_bytes()
    Path("cut", "checkpoint.npz").write_bytes(whole[: len(whole) // 2])
    write_games("games.jsonl", games)
    Path("torn.jsonl").write_bytes(Path("games.jsonl").read_bytes()[:-20])
    Path("empty").touch()
    monkeypatch.setenv("TTT_ENVS_CACHE", str(tmp_path / "kept"))
    return tmp_path


@pytest.mark.filterwarnings("ignore::learners.OtherGameWarning")
@pytest.mark.parametrize(
    ("program", "count"), [("evaluate", 250), ("train", 150), ("train --resume", 50), ("play", 200)]
)
def test_any_command_line_gives_a_result_or_an_error(program, count, here):
    def words_and_input(data):
        if program == "evaluate":
            name = data.draw(st.sampled_from([*COMMANDS, "x"]))
            positional, table = ASKED.get(name, ([], COMMON))
            given = [data.draw(st.sampled_from(players(data) if one == "P" else one)) for one in positional]
            if data.draw(st.integers(0, 9)) == 0:
                given = given[1:]
            return evaluate.main, [name, *given, *options_of(data, table)], ""
        if program == "train":  # a number of games always: the usual one takes long
            games = data.draw(st.sampled_from(["5", "9", "12"]))
            return train.main, [f"--games={games}", "--no-report", *options_of(data, TRAIN, most=6)], ""
        if program == "train --resume":
            return train.main, [f"--resume={data.draw(st.sampled_from(FOLDERS))}", *options_of(data, RESUME)], ""
        typed = data.draw(st.lists(st.sampled_from(TYPED), max_size=12))
        return play.main, options_of(data, PLAYED), "\n".join(typed)

    @examples(count)
    @given(st.data())
    def check(data):
        main, words, typed = words_and_input(data)
        run_command(main, words, typed)

    for warm in (["--help"], ["--version"]):
        for main in (evaluate.main, train.main, play.main):
            run_command(main, warm)
    with damage.guarded(here):
        check()
