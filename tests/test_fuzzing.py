"""Any spec string, file or command line gives a result or a one-line error.

By default one example in twenty is tried; ``make slow`` tries all of them.
"""

import dataclasses
import io
import json
import os
import shutil
import sys
import warnings
import zipfile
from contextlib import contextmanager
from functools import cache
from inspect import signature
from pathlib import Path
from typing import get_args, get_type_hints

import damage
import numpy as np
import plain
import pytest
import tiny
import tyro
from hypothesis import given, settings
from hypothesis import strategies as st

from learners import OtherGameWarning
from learners.checkpoint import RunPolicy, load_arrays
from learners.config import load_learner
from ttt_apps import evaluate
from ttt_apps.cli import options as cli
from ttt_apps.evaluate import COMMANDS
from ttt_apps.terminal import command as play
from ttt_apps.training import command as train
from ttt_apps.training.options import Options
from ttt_envs import Boards, Game, Policy, from_text, make_policy, to_text
from ttt_envs.agents.specs import POLICIES, TRUST, FromFile, load_object
from ttt_envs.core.array_cache import CACHE_BYTES_VARIABLE
from ttt_eval.matches.games import (
    Move,
    PlayedGame,
    append_games,
    read_games,
    write_games,
)
from ttt_eval.runs.run_files import RunDirectory
from ttt_eval.store.result_store import UNITS, collect_results

pytestmark = pytest.mark.more

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
    """matplotlib looks for fonts and caches them on its first import, which the guard would
    report.
    """
    import matplotlib.font_manager  # noqa: F401


@pytest.fixture(autouse=True)
def no_trust(monkeypatch):
    monkeypatch.setenv(TRUST, "0")


# --------------------------------------------------------------------------------------------------
# Spec strings and settings

KEYS = sorted(
    {name for path in POLICIES.values() for name in signature(load_object(path)).parameters}
    | {"trust", "every"}
)
WORDS = [
    "0",
    "1",
    "2",
    "-1",
    "0.5",
    "nan",
    "inf",
    "-inf",
    "1e308",
    "none",
    "true",
    "False",
    "9" * 30,
    "9" * 5000,
]
WORDS += ["", "x", "..", "results", "children", "٣", "0x10", "1_0"]
NAMES = [
    *POLICIES,
    "pool",
    "teacher",
    "joblib.numpy_pickle:dump",
    "importlib.util:find_spec",
    "no_such:A",
]


def spec_of(values):
    keyed = st.lists(st.tuples(st.sampled_from(KEYS), values), max_size=3)
    return st.builds(
        lambda name, rest: (
            f"{name}:{','.join(f'{key}=({value})' for key, value in rest)}" if rest else name
        ),
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
        patch.setattr("baselines.mcts.policy.MEMORY", 1 << 20)
        with one_line_errors():
            policy = make_policy(FromFile(spec) if from_file else spec, tiny.GAME)
            assert isinstance(policy, Policy)
            assert spec.partition(":")[0] in POLICIES or not from_file


@examples(5_000)
@given(
    st.lists(
        st.sampled_from(["...", "xo.", ".ox", "/", " ", "o", "x", "\n", "\x00", "٣"]), max_size=6
    ).map("".join)
)
def test_any_text_is_a_position_or_an_error(text):
    with one_line_errors():
        assert to_text(from_text(text, tiny.GAME), tiny.GAME) == text


# --------------------------------------------------------------------------------------------------
# Files of runs


LEARNED = {"q-learning": 1500, "naive-mc": 1500, "alpha-zero": 1500, "sb3-dqn": 600}
"""numbers of examples; torch builds every network again"""
RESUMED = {"q-learning": 150, "naive-mc": 60, "alpha-zero": 30}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """The folder of a small run of the learner of a name, made when it is asked for."""
    return cache(lambda name: tiny.train_run(name, tmp_path_factory.mktemp("runs") / name))


def read_all(run):
    """Read all there is of a run, as playing, reports and costs do; every reader may say why it
    cannot.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OtherGameWarning)
        with one_line_errors():
            played = RunPolicy(tiny.GAME, str(run)).probabilities(Boards.start(tiny.GAME))
            assert played.shape == (1, 6)
            assert np.isclose(played.sum(), 1)
        for name in ("read_cost", "read_metrics", "read_training", "read_game"):
            with one_line_errors():
                getattr(RunDirectory(run), name)()


def damaged(path, rng):
    """Bytes in place of those of a file: damaged as bytes, or as what a file of its kind holds."""
    whole = path.read_bytes()
    if rng.integers(2):
        return damage.damaged_bytes(whole, rng)
    if path.suffix == ".npz":
        return damage.damaged_zip(whole, rng)
    if path.suffix == ".jsonl":
        return damage.damaged_lines(whole.decode().splitlines(), rng).encode(errors="surrogatepass")
    return damage.damaged_json(json.loads(whole), rng).encode()


def check_damaged(files, number, verify, folder):
    """Damage one of some files, call ``verify`` with its path, and restore the file."""

    @examples(number)
    @given(st.sampled_from(files), SEEDS)
    def check(path, seed):
        whole = path.read_bytes()
        path.write_bytes(damaged(path, np.random.default_rng(seed)))
        try:
            verify(path)
        finally:
            path.write_bytes(whole)

    with damage.guarded(folder):
        check()


@pytest.mark.parametrize("learner", [*map(tiny.case, LEARNED)])
def test_damaged_files_of_a_run_are_read_or_rejected(runs, learner):
    """Arrays under the hash of those that were written are these, or rejected."""
    run = runs(learner)
    files = [
        path for pattern in ("*.json", "*.jsonl", "*.npz") for path in sorted(run.rglob(pattern))
    ]
    written = {path: load_arrays(path) for path in files if path.suffix == ".npz"}
    hashes = {path: zipfile.ZipFile(path).comment for path in written}

    def verify(path):
        read_all(run)
        if path in written:
            with one_line_errors():
                read = load_arrays(path, limit=1 << 22)
                if hashes[path] in path.read_bytes():
                    plain.assert_same_arrays(read, written[path])

    check_damaged(files, LEARNED[learner], verify, run)


@pytest.mark.parametrize("learner", [*map(tiny.case, RESUMED)])
def test_a_damaged_run_resumes_or_is_rejected(runs, learner, tmp_path):
    run = shutil.copytree(runs(learner), tmp_path / "whole")
    games = str(int(tiny.OPTIONS[learner][0].partition("=")[2]) + 4)
    # a changed config.json may be valid, and train for long
    files = [run / "cost.json", run / "metrics.jsonl", *sorted(run.rglob("*.npz"))]

    def verify(path):
        shutil.rmtree(tmp_path / "copy", ignore_errors=True)
        copy = shutil.copytree(run, tmp_path / "copy" / "run")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", OtherGameWarning)
            run_command(train.main, ["resume", str(copy), "--games", games])

    check_damaged(files, RESUMED[learner], verify, tmp_path)


# --------------------------------------------------------------------------------------------------
# Other files


def square(unit):
    return {
        "square": unit["n"] ** 2,
        "half": unit["n"] / 2,
        "none": float("nan") if unit["n"] == 3 else None,
    }


def test_damaged_results_are_measured_again(tmp_path):
    units = [{"n": number} for number in range(4)]
    provenance = {"code": "x"}
    expected = json.dumps(collect_results(square, units, tmp_path, provenance))

    def verify(path):
        with one_line_errors():  # of a damaged first line
            assert json.dumps(collect_results(square, units, tmp_path, provenance)) == expected

    check_damaged([tmp_path / UNITS], 600, verify, tmp_path)


@pytest.fixture(scope="module")
def games():
    skipping = Game(3, 3, 3, 0.25)
    plain = Game(2, 3, 2)
    won = (Move(0, False), Move(5, False), Move(1, False))
    return [
        PlayedGame(
            skipping,
            ("random", "human"),
            (Move(4, False), Move(0, True), Move(1, False)),
            seed=7,
            episode=3,
        ),
        PlayedGame(plain, ("mcts:simulations=5", "x"), won, 0, settings={"of": [1, {"a": None}]}),
        PlayedGame(plain, ("a", "b"), won[:1], 1, forfeit="time"),
        PlayedGame(skipping, ("a", "b"), (), None, opening="x.o/.../..o x"),
    ]


def test_damaged_logs_of_games_are_read_or_rejected(games, tmp_path):
    path = tmp_path / "games.jsonl"
    write_games(path, games)

    def verify(path):
        with one_line_errors():
            for played in read_games(path, tell=lambda sentence: None):
                assert PlayedGame.from_dict(played.to_dict()) == played
        with one_line_errors():
            append_games(path, games[:1])
            with one_line_errors():
                list(read_games(path))

    check_damaged([path], 1_500, verify, tmp_path)


# --------------------------------------------------------------------------------------------------
# Command lines


def run_command(main, words, typed=""):
    """Run a command in this process: it succeeds, or exits with code 2 and a message without a
    traceback.
    """
    error = io.StringIO()
    output = io.StringIO()
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


NUMBERS = (["0", "1", "2", "3", "5", "12", "0.25", "0.5", "1e1"],
           ["-1", "7", "1.5", "nan", "inf", "-inf", "1e400", "1e-300", "9" * 30, "1,0", "x", "",
            "none"])  # fmt: skip
PATHS = (["run", "new", "games.jsonl", "new.jsonl"],
         ["cut", "nothing", "new/deeper", "torn.jsonl", "config.json", "run/config.json", "", ".",
          "x\x00y", "\udcff",
          "y" * 300, "empty"])  # fmt: skip
TEXTS = (["random", "win-or-block", "optimal", "table", "expectiminimax:depth=1",
          "mcts:simulations=3", "run:run",
          "self"],
         ["optimal:epsilon=0.5", "svd:rank=2", "pool:every=5,size=2", "teacher", "run:nothing",
          "run:", "run:cut", "(",
          "sb3:x.zip,algorithm=dqn", "no_such:A", "rndom", "", "x", "svd:rank=0",
          "mcts:simulations=0", "random:",
          "optimal:epsilon=nan", "run:games.jsonl", "٣", "\x00", "run:" + "x" * 5000])  # fmt: skip
WORDS_OF_TYPE = {int: NUMBERS, float: NUMBERS, Path: PATHS, str: TEXTS, bool: None}
"""plausible words and others; a flag has none"""
WORDS_OF = {
    "size": (
        ["1", "2", "2x3", "3"],
        ["1x7", "3x2", "19", "20", "0", "-1", "3x", "axb", "", "5x5", "٣", "3x3x3"],
    ),
    "position": (["x.o/.../..o x", "o../.../... x"], ["", "x", "." * 99, "\x00"]),
    "openings": (["random:2", "all:1"], ["random:99", "all:x", "games.jsonl", "nothing", ""]),
    "critic": (["exact", "zero", "learned:5"], ["learned:", "learned:x", "random", "x", ""]),
    "names": (["gae", "rloo", "all"], ["gae:lam=x", "x", "no_such:a", "", "\x00"]),
    "learner": (["q-learning", "naive-mc"], ["x", ""]),
}
"""words for fields of some names"""
OPEN_OR_LONG = {"cluster", "jobs", "threads", "clock", "web", "gomocup", "preset", "phantom",
                "gravity", "overlines",
                "misere", "torus", "sprt"}  # fmt: skip
"""fields that begin processes or listen, or by whose games a command may take minutes"""


def words_by_field(*commands):
    """Words of the positional fields of commands, in order; and of their options, by name."""
    positional = []
    options = {}
    for command in commands:
        kinds = get_type_hints(command)
        annotated = get_type_hints(command, include_extras=True)
        for name in (field.name for field in dataclasses.fields(command)):
            if dataclasses.is_dataclass(kinds[name]):
                options |= words_by_field(kinds[name])[1]
                continue
            of_kind = [kinds[name], *get_args(kinds[name])]
            words = [WORDS_OF_TYPE[kind] for kind in of_kind if kind in WORDS_OF_TYPE]
            words = words or [(of_kind[1:], ["x", ""])]  # choices, or types that take no such word
            words = WORDS_OF.get(name, words[0])
            if tyro.conf.Positional in getattr(annotated[name], "__metadata__", ()):
                positional += [words] * (2 if name == "players" else 1)
            elif name not in OPEN_OR_LONG:
                options[name.replace("_", "-")] = words
    return positional, options


ASKED = (
    "match",
    "games",
    "exact",
    "exploitability",
    "solve",
    "report",
    "compare",
    "reproduce",
    "list",
)
"""commands with words for their fields; others only have options of the game, and stop for want of
the rest
"""
TYPED = ["a1", "b2", "c3", "5", "0", "99", "-1", "help", "undo", "hint", "moves", "board", "why",
         "values", "exact",
         "new", "quit", "yes", "no", "y", "n", "", "z9", "x" * 500, "\x00", "٣", "resign", "swap",
         "?"]  # fmt: skip
ANYWHERE = [
    "--help",
    "--version",
    "--quiet",
    "-h",
    "--",
    "--no-such-option",
    "stray",
    "--size",
    "",
    "--seed=1=2",
    "-x",
]


def words_for(data, *commands):
    """Words of a command line: two of three times such as somebody might type in earnest."""
    positional, options = words_by_field(*commands)
    in_earnest = data.draw(st.integers(0, 2)) > 0

    def word(words):
        return data.draw(st.sampled_from(words[0] if in_earnest else words[0] + words[1]))

    words = list(map(word, positional))[data.draw(st.integers(0, 9)) == 0 :]  # or one is missing
    for name in data.draw(st.lists(st.sampled_from(sorted(options)), max_size=6, unique=True)):
        words += [f"--{name}"] if options[name] is None else [f"--{name}", word(options[name])]
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
    ("program", "count"), [("evaluate", 250), ("train", 150), ("train resume", 50), ("play", 200)]
)
def test_any_command_line_gives_a_result_or_an_error(program, count, here):
    def words_and_input(data):
        if program == "evaluate":
            name = data.draw(st.sampled_from([*COMMANDS, "x"]))
            command = load_object(COMMANDS[name]["class"]) if name in ASKED else cli.GameOptions
            return evaluate.main, [name, *words_for(data, command)], ""
        if program == "train":  # a number of games always: the usual one takes long
            games = data.draw(st.sampled_from(["5", "9", "12"]))
            settings = map(load_learner, WORDS_OF["learner"][0])
            return (
                train.main,
                [f"--games={games}", "--no-report", *words_for(data, Options, *settings)],
                "",
            )
        if program == "train resume":
            return train.main, ["resume", *words_for(data, train.Resume)], ""
        typed = data.draw(st.lists(st.sampled_from(TYPED), max_size=12))
        return play.main, words_for(data, play.Play), "\n".join(typed)

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
