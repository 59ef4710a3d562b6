"""Whatever stands in a spec string, a file or a command line, what comes of it is a sentence or a result: slow."""

import io
import json
import os
import shutil
import sys
import warnings
import zipfile
from contextlib import contextmanager
from pathlib import Path

import damage
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baselines.retrograde import solver
from evaluation.cost import read_cost
from evaluation.matches.games import Move, PlayedGame, append_games, from_notation, read_games, to_notation, write_games
from evaluation.policy_snapshots import read_choices
from evaluation.reports.run import game_of
from evaluation.result_store import UNITS
from evaluation.run_files import read_metrics
from evaluation.study import Report, Study, run_units
from learners import LEARNERS, OtherGame
from learners.checkpoint import (
    build_config,
    load_arrays,
    load_policy,
    read_config,
    read_training,
    save_arrays,
)
from learners.pool import parse_pool
from ttt_apps import evaluate, play, train
from ttt_apps.evaluate import COMMANDS
from ttt_envs import Boards, Game, Policy, make_policy
from ttt_envs.agents.specs import POLICIES, TRUST, FromFile, load_object
from ttt_envs.core.array_cache import CACHE_BYTES_VARIABLE, CACHE_VARIABLE, CachedArray

pytestmark = pytest.mark.slow

SEEDS = st.integers(0, 2**32 - 1)
SCALE = float(os.environ.get("TTT_ENVS_FUZZ_SCALE", "1"))
"""multiplies the number of examples of every test here"""


def examples(number):
    """Settings for a number of examples at scale 1."""
    return settings(max_examples=max(1, round(SCALE * number)))


@contextmanager
def told():
    """What the commands tell in one sentence is fine; of any other error there is a traceback."""
    said = "a sentence"
    try:
        yield
    except (ValueError, TypeError, OSError, MemoryError) as problem:
        said = str(problem)
    assert said
    assert "\n" not in said


@pytest.fixture(scope="module", autouse=True)
def fonts_are_known():
    """matplotlib looks for them, and writes down what it found, where it is imported first: not under guard."""
    import matplotlib.font_manager  # noqa: F401


@pytest.fixture(autouse=True)
def untrusting(monkeypatch):
    monkeypatch.setenv(TRUST, "0")


# ---------------------------------------------------------------------------------------------------------------------
# Spec strings and settings

GAME = Game(2, 3, 2, 0.25)

KEYS = [
    *("epsilon", "depth", "width", "heuristic", "leaf", "simulations", "c", "rollout", "temperature", "decisive"),
    *("reuse", "w", "terminal", "source", "rank", "split", "path", "algorithm", "trust", "every", "size"),
]
WORDS = ["0", "1", "2", "-1", "0.5", "nan", "inf", "-inf", "1e308", "none", "true", "False", "9" * 30, "9" * 5000]
WORDS += ["", "x", "..", "results", "children", "٣", "0x10", "1_0"]
MODULES = ["uuid:uuid4", "joblib.numpy_pickle:dump", "importlib.util:find_spec", "no_such:A"]
NAMES = [*POLICIES, "pool", "teacher", *MODULES]


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
def test_any_spec_string_is_a_policy_or_a_sentence(spec, from_file):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(TRUST, "0")
        patch.setattr("baselines.mcts.policy.MEMORY", 1 << 20)
        with told():
            parse_pool(spec, lambda: None)
            policy = make_policy(FromFile(spec) if from_file else spec, GAME)
            assert isinstance(policy, Policy)
            assert spec.partition(":")[0] in POLICIES or not from_file


VALUES = st.sampled_from([value for value in damage.VALUES if value is not damage.HUGE])


@examples(2_000)
@given(st.data())
def test_settings_of_any_kind_are_taken_or_a_sentence(data):
    learner = data.draw(st.sampled_from(sorted(LEARNERS)))
    names = list(load_object(LEARNERS[learner]).__dataclass_fields__)
    chosen = data.draw(st.dictionaries(st.sampled_from(names), VALUES, min_size=1, max_size=2))
    with told():
        build_config(learner, chosen)


# ---------------------------------------------------------------------------------------------------------------------
# Files of runs

BOARD = ["--size=2x3", "--win-length=2", "--skip-chance=0.25"]
BRIEF = ["--batch=4", "--log-every=10", "--no-report", *BOARD]
NET = ["--hidden=4"]
LEARNED = {
    "q-learning": ["--games=40"],
    "naive-mc": ["--games=40"],
    "alpha-zero": ["--games=20", "--simulations=2", "--gradient-steps=2", "--batch-size=4", *NET],
    "q-net": ["--games=20", *NET],
    "value-net": ["--games=4", "--teacher=optimal", "--preset=20", "--iterations=2", "--jobs=1"],
    "sb3-dqn": ["--games=20", *NET],
}
NEEDS = {"alpha-zero": "tensorflow", "q-net": "tensorflow", "value-net": "tensorflow", "sb3-dqn": "stable_baselines3"}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """name -> the folder of a small run of that learner, made when it is asked for."""

    class Runs(dict):
        def __missing__(self, name):
            if name in NEEDS:
                pytest.importorskip(NEEDS[name])
            folder = tmp_path_factory.mktemp("runs") / name
            train.main(["--learner", name, *LEARNED[name], *BRIEF, "--out", str(folder)])
            self[name] = folder
            return folder

    return Runs()


def read_all(run):
    """Read all there is of a run, as playing, reports and costs do; every reader may say why it cannot."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OtherGame)
        with told():
            played = load_policy(GAME, str(run)).probabilities(Boards.start(GAME))
            assert played.shape == (1, 6)
            assert np.isclose(played.sum(), 1)
        readers = (
            read_cost,
            read_metrics,
            read_training,
            lambda run: game_of(run, read_config(run)),
            lambda run: read_choices(run, GAME),
        )
        for read in readers:
            with told():
                read(run)


@contextmanager
def changed(path, content):
    """Another content in the place of a file's."""
    whole = path.read_bytes()
    path.write_bytes(content)
    try:
        yield
    finally:
        path.write_bytes(whole)


# TensorFlow makes every net anew, in a tenth of a second
EXAMPLES = {"q-net": 40, "value-net": 200, "sb3-dqn": 200}


@pytest.mark.parametrize("learner", LEARNED)
def test_damaged_bytes_in_any_file_of_a_run(runs, learner):
    run = runs[learner]
    files = sorted(path for path in run.rglob("*") if path.suffix in (".json", ".jsonl", ".npz"))

    @examples(EXAMPLES.get(learner, 500))
    @given(st.sampled_from(files), SEEDS)
    def check(path, seed):
        with changed(path, damage.damaged_bytes(path.read_bytes(), np.random.default_rng(seed))):
            read_all(run)

    with damage.guarded(run):
        check()


@pytest.mark.parametrize("learner", LEARNED)
def test_damaged_nodes_of_any_json_of_a_run(runs, learner):
    run = runs[learner]

    @examples(EXAMPLES.get(learner, 500))
    @given(st.sampled_from(["config.json", "config.json", "cost.json", "metrics.jsonl", "choices.jsonl"]), SEEDS)
    def check(name, seed):
        rng, text = np.random.default_rng(seed), (run / name).read_text()
        damaged = (
            damage.damaged_lines(text.splitlines(), rng)
            if name.endswith(".jsonl")
            else damage.damaged_json(json.loads(text), rng)
        )
        with changed(run / name, damaged.encode()):
            read_all(run)

    with damage.guarded(run):
        check()


def arrays_of(run):
    return sorted(run.rglob("*.npz"))


@pytest.mark.parametrize("learner", LEARNED)
def test_damaged_zips_of_a_run(runs, learner):
    """A damaged zip is refused whole, or holds the arrays that were written."""
    run = runs[learner]

    @examples(EXAMPLES.get(learner, 500))
    @given(st.sampled_from(arrays_of(run)), SEEDS)
    def check(path, seed):
        whole = path.read_bytes()
        with zipfile.ZipFile(io.BytesIO(whole)) as archive:
            said = archive.comment
        written = load_arrays(path)
        damaged = damage.damaged_zip(whole, np.random.default_rng(seed))
        with changed(path, damaged):
            read_all(run)
            with told():
                read = load_arrays(path, limit=1 << 22)
                if said in damaged:
                    assert read.keys() == written.keys()
                    for name, array in read.items():
                        np.testing.assert_array_equal(array, written[name], strict=True)

    with damage.guarded(run):
        check()


@pytest.mark.parametrize("learner", LEARNED)
def test_other_arrays_with_a_hash_of_their_own(runs, learner, tmp_path):
    """Somebody has written the arrays as we do, and they are not those of a run."""
    run = runs[learner]

    @examples(EXAMPLES.get(learner, 500))
    @given(st.sampled_from(arrays_of(run)), SEEDS)
    def check(path, seed):
        with told():
            save_arrays(tmp_path / "other.npz", damage.damaged_arrays(load_arrays(path), np.random.default_rng(seed)))
        with changed(path, (tmp_path / "other.npz").read_bytes()):
            read_all(run)

    save_arrays(tmp_path / "other.npz", {})
    with damage.guarded(tmp_path.parent):
        check()


RESUMED = {"q-learning": 150, "naive-mc": 60, "alpha-zero": 30, "value-net": 30}


@pytest.mark.parametrize("learner", RESUMED)
def test_a_damaged_run_goes_on_or_says_why(runs, learner, tmp_path):
    run = runs[learner]
    names = ["config.json", "config.json", "cost.json", "metrics.jsonl", "choices.jsonl"]
    names += [path.name for path in arrays_of(run)]
    contents = {path.relative_to(run): path.read_bytes() for path in run.rglob("*") if path.is_file()}
    games = str(int(LEARNED[learner][0].partition("=")[2]) + 4)

    @examples(RESUMED[learner])
    @given(st.sampled_from(names), SEEDS)
    def check(name, seed):
        copy, rng = tmp_path / "run", np.random.default_rng(seed)
        shutil.rmtree(copy, ignore_errors=True)
        for path, content in contents.items():
            (copy / path).parent.mkdir(parents=True, exist_ok=True)
            (copy / path).write_bytes(content)
        path = next(copy.rglob(name))
        if name.endswith(".npz"):
            with told():
                save_arrays(path, damage.damaged_arrays(load_arrays(path), rng))
        elif name.endswith(".jsonl"):
            path.write_text(damage.damaged_lines(path.read_text().splitlines(), rng))
        else:
            data = json.loads(path.read_text())
            text = damage.damaged_json(data, rng)
            with told():
                new = json.loads(text)
                if isinstance(new, dict) and any(  # what is allowed, and would take long
                    new.get(each) != data.get(each)
                    for each in ("games", "batch", "log_every", "checkpoint_seconds", "exact_every", "learner")
                    if isinstance(new.get(each), (int, float, str)) and not isinstance(new.get(each), bool)
                ):
                    return
                if isinstance(new, dict) and isinstance(new.get("settings"), dict):
                    jobs = new["settings"].get("jobs")
                    if jobs in (-1, 2, 5):  # other processes are allowed too, and may open what they like
                        return
            path.write_text(text)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", OtherGame)
            command(train.main, ["--resume", str(copy), "--games", games])

    with damage.guarded(tmp_path):
        check()


# ---------------------------------------------------------------------------------------------------------------------
# Other files


def squares(quick):
    return [{"n": number} for number in range(4)]


def square(unit):
    return {"square": unit["n"] ** 2, "half": unit["n"] / 2, "none": float("nan") if unit["n"] == 3 else None}


def test_damaged_results_of_a_study_are_measured_anew(tmp_path):
    study = Study("Squares", "", "", squares, square, lambda results: Report([]), "")
    made_by = {"code": "x"}
    wanted = json.dumps(run_units(study, tmp_path, made_by))
    whole = (tmp_path / UNITS).read_bytes()

    @examples(600)
    @given(SEEDS, st.booleans())
    def check(seed, bytewise):
        rng = np.random.default_rng(seed)
        if bytewise:
            damaged = damage.damaged_bytes(whole, rng)
        else:
            damaged = damage.damaged_lines(whole.decode().splitlines(), rng).encode()
        (tmp_path / UNITS).write_bytes(damaged)
        assert json.dumps(run_units(study, tmp_path, made_by)) == wanted

    with damage.guarded(tmp_path):
        check()


def test_damaged_tables_that_are_kept_are_made_anew(tmp_path, monkeypatch):
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))
    array = np.linspace(0, 1, 60).reshape(20, 3)
    kept = CachedArray("table", {"format": 1, "of": "a test"}, "nobody")
    assert kept.write(array)
    files = [kept.path, kept.label]

    @examples(1_000)
    @given(st.sampled_from(files), SEEDS)
    def check(path, seed):
        rng, whole = np.random.default_rng(seed), path.read_bytes()
        if rng.integers(2):
            damaged = damage.damaged_bytes(whole, rng)
        elif path == kept.label:
            damaged = damage.damaged_json(json.loads(whole), rng).encode()
        else:
            damaged = damage.damaged_array(whole, rng)
        with changed(path, damaged):
            read = kept.read(array.shape, np.float64)
            assert read is None or np.array_equal(read, array)

    with damage.guarded(tmp_path):
        check()
    np.testing.assert_array_equal(kept.read(array.shape, np.float64), array)


def test_damaged_tables_of_solved_games_are_solved_anew(tmp_path, monkeypatch):
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))
    game = Game(3, 4, 3, 0.25)
    boards = Boards.start(game)
    wanted = solver.solve(game).action_values(boards)
    contents = {path: path.read_bytes() for path in sorted(tmp_path.iterdir())}
    assert len(contents) == 2

    @examples(25)
    @given(st.sampled_from(list(contents)), SEEDS)
    def check(path, seed):
        path.write_bytes(damage.damaged_bytes(contents[path], np.random.default_rng(seed)))
        np.testing.assert_array_equal(solver.solve(game).action_values(boards), wanted)
        for each, content in contents.items():
            each.write_bytes(content)

    with damage.guarded(tmp_path):
        check()


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


def test_damaged_logs_of_games(games, tmp_path):
    path = tmp_path / "games.jsonl"
    write_games(path, games)
    whole = path.read_bytes()

    @examples(1_500)
    @given(SEEDS, st.booleans())
    def check(seed, bytewise):
        rng = np.random.default_rng(seed)
        if bytewise:
            damaged = damage.damaged_bytes(whole, rng)
        else:
            damaged = damage.damaged_lines(whole.decode().splitlines(), rng).encode(errors="surrogatepass")
        path.write_bytes(damaged)
        with told():
            for played in read_games(path, tell=lambda sentence: None):
                assert from_notation(to_notation(played)) == [played]
        with told():
            append_games(path, games[:1])
            with told():
                list(read_games(path))

    with damage.guarded(tmp_path):
        check()


def test_damaged_text_of_games(games):
    whole = "\n".join(map(to_notation, games[:3])).encode()

    @examples(1_500)
    @given(SEEDS)
    def check(seed):
        text = damage.damaged_bytes(whole, np.random.default_rng(seed)).decode(errors="replace")
        with told():
            for played in from_notation(text):
                to_notation(played)

    check()


def test_damaged_zips_of_stable_baselines(tmp_path, monkeypatch):
    """Trusted, because pickles are not read otherwise: what is told of them, and that nothing hangs."""
    sb3 = pytest.importorskip("stable_baselines3")
    from ttt_envs.envs.single_env import SingleEnv

    monkeypatch.setenv(TRUST, "1")
    path = tmp_path / "dqn.zip"
    sb3.DQN("MlpPolicy", SingleEnv((2, 3), 2, 0.25), policy_kwargs={"net_arch": [4]}, buffer_size=1).save(path)
    whole = path.read_bytes()

    @examples(150)
    @given(SEEDS)
    def check(seed):
        rng = np.random.default_rng(seed)
        path.write_bytes(damage.damaged_bytes(whole, rng))
        with told(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            make_policy(f"sb3:{path},algorithm=dqn", GAME).probabilities(Boards.start(GAME))

    with damage.guarded(tmp_path):
        check()


# ---------------------------------------------------------------------------------------------------------------------
# Command lines


def test_the_guard_sees_what_is_opened_elsewhere(tmp_path):
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.write_text("precious")
    with damage.guarded(inside):
        (inside / "file").write_text(Path(damage.__file__).read_text())
        shutil.rmtree(inside)
    for touch in (outside.read_text, outside.unlink, lambda: outside.write_text("x"), lambda: outside.rename(inside)):
        with pytest.raises(AssertionError, match="outside"), damage.guarded(inside):
            touch()


def command(main, words, typed=""):
    """Run a command in this process: it ends by itself, or with one sentence and a code. Returns what it said."""
    said, shown = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(TRUST, "0")
        patch.setenv(CACHE_BYTES_VARIABLE, "10000000")
        patch.setattr(sys, "stdin", io.StringIO(typed))
        patch.setattr(sys, "stderr", said)
        patch.setattr(sys, "stdout", shown)
        patch.setattr(sys, "path", list(sys.path))
        try:
            main(words)
            code = 0
        except SystemExit as end:
            code = 0 if end.code is None else end.code
    assert code in (0, 2), said.getvalue()
    assert "Traceback" not in said.getvalue() + shown.getvalue()
    if code:
        assert said.getvalue().strip()
    return said.getvalue()


SIZES = ["1", "2", "2x3", "3", "1x7", "3x2", "19", "20", "0", "-1", "3x", "axb", "", "5x5", "٣", "3x3x3"]
NUMBERS = ["0", "1", "2", "3", "7", "-1", "1.5", "nan", "inf", "-inf", "1e400", "9" * 30, "1e1", "1,0", "x", "", "none"]
FEW = ["0", "1", "2", "5", "12", "-1", "1.5", "nan", "9" * 30, "1e1", "x", ""]  # games are played, one by one
SOME = ["random", "win-or-block", "optimal", "optimal:epsilon=0.5", "table", "svd:rank=2", "expectiminimax:depth=1",
        "mcts:simulations=3", "pool:every=5,size=2", "self", "teacher", "run:run", "run:nothing", "run:", "run:cut",
        "sb3:x.zip,algorithm=dqn", "no_such:A", "rndom", "", "x", "svd:rank=0", "mcts:simulations=0", "(", "random:",
        "optimal:epsilon=nan", "run:games.jsonl", "٣", "\x00", "run:" + "x" * 5000]  # fmt: skip
FOLDERS = ["run", "cut", "nothing", "new", "new/deeper", "games.jsonl", "", ".", "x\x00y", "\udcff", "y" * 300, "empty"]
FILES = [
    "games.jsonl",
    "torn.jsonl",
    "run",
    "nothing",
    "new.jsonl",
    "empty",
    "",
    "x\x00",
    "config.json",
    "run/config.json",
]
TYPED = ["a1", "b2", "c3", "5", "0", "99", "-1", "help", "undo", "hint", "moves", "board", "why", "values", "exact",
         "new", "quit", "yes", "no", "y", "n", "", "z9", "x" * 500, "\x00", "٣", "resign", "swap", "?"]  # fmt: skip
COMMON = {"size": SIZES, "win-length": ["1", "2", "3", "3", "0", "-1", "9", "x", ""],
          "skip-chance": ["0", "0.25", "0.5", "1", "-0.1", "nan", "x", "1e-300", ""]}  # fmt: skip
EXACT = {**COMMON, "memory": ["0.1", "0", "-1", "nan", "inf", "x", "1e400"], "no-cache": None, "json": None}
ASKED = {
    "match": (
        ["P", "P"],
        {**COMMON, "games": FEW, "seed": NUMBERS, "jobs": ["1", "1", "0", "-5", "x", "9999999999"], "json": None,
         "log": FILES, "openings": ["random:2", "all:1", "random:99", "all:x", *FILES]},
    ),
    "games": ([FILES], {"text": None, "number": NUMBERS, "out": FILES, "json": None}),
    "exact": (["P", "P"], {**EXACT, "chunk": NUMBERS}),
    "exploitability": (["P"], {**EXACT, "chunk": NUMBERS}),
    "solve": ([], {**EXACT, "position": ["x.o/.../..o x", "", "x", "o../.../... o", "." * 99, "\x00"]}),
    "prove": ([], {**COMMON, "nodes": ["1", "50", "1000", "0", "-1", "x", "nan"], "memory": ["0.001", "0", "-1", "x"]}),
    "compression-levels": (
        [["svd", "tt", "hooi", "hosvd", "hosvd2", "x", ""]],
        {**EXACT, "ranks": ["1", "0", "-1", "x", "99"], "w": NUMBERS, "split": ["", "0,1", "x", "0-2", "9"],
         "terminal": ["equation", "x", ""], "source": SOME},
    ),
    "report": ([FOLDERS], {"trust": None}),
    "cost": ([FOLDERS, ["--repeats=0", "--repeats=x"]], {"games": NUMBERS, "json": None}),  # else in other processes
    "reproduce": ([["", "x", "table-9", "\x00"]], {"jobs": ["0", "-1", "x"], "out": FOLDERS}),
    "policies": ([], {"json": None}),
    "learners": ([], {"json": None}),
    "ground-truth": ([["--largest=x", "--largest=nan", "--help"]], {"largest": ["x"]}),  # else it takes a minute
}  # fmt: skip
TRAIN = {
    **COMMON, "games": FEW, "batch": ["1", "2", "5", "0", "-1", "x"], "seed": NUMBERS, "opponent": SOME,
    "seat": ["first", "second", "random", "alternate", "x", ""], "out": FOLDERS, "log-every": NUMBERS,
    "overwrite": None, "exact-every": NUMBERS, "checkpoint-games": NUMBERS,
    "checkpoint-seconds": ["1", "0", "-1", "nan", "x"], "learner": ["q-learning", "naive-mc", "x", ""],
    "epsilon": NUMBERS, "bootstrap": ["ply", "x"], "symmetries": ["all", "none", "x"], "alpha": NUMBERS,
    "gamma": NUMBERS, "discount": NUMBERS, "hidden": NUMBERS,
}  # fmt: skip
RESUME = {"resume": FOLDERS, "games": FEW, "trust": None, "seed": NUMBERS}
PLAYED = {**COMMON, "opponent": SOME, "seat": ["first", "second", "alternate", "x"], "games": FEW, "seed": NUMBERS,
          "log": FILES, "replay": FILES, "number": NUMBERS}  # fmt: skip
ANYWHERE = ["--help", "--version", "--quiet", "-h", "--", "--no-such-option", "stray", "--size", "", "--seed=1=2", "-x"]


def players(data):
    return SOME[: 9 if data.draw(st.integers(0, 2)) else None]


PLAUSIBLE = {"1", "2", "3", "5", "7", "12", "1e1", "2x3", "1x7", "0.25", "0.5", "50", "1000", "0.1", "x.o/.../..o x",
             "random", "win-or-block", "optimal", "optimal:epsilon=0.5", "table", "expectiminimax:depth=1", "run:run",
             "mcts:simulations=3", "pool:every=5,size=2", "self", "svd:rank=2", "svd", "tt", "equation", "run", "new",
             "new/deeper", "cut", "games.jsonl", "torn.jsonl", "new.jsonl", "first", "second", "alternate",
             "q-learning", "naive-mc", "all", "none", "ply"}  # fmt: skip


def options_of(data, table, most=5):
    """Options of a command, two of three times such as somebody might type in earnest."""
    words = []
    if data.draw(st.integers(0, 2)):
        table = {
            name: values and ([value for value in values if value in PLAUSIBLE] or values)
            for name, values in table.items()
        }
    for name in data.draw(st.lists(st.sampled_from(sorted(table)), max_size=most, unique=True)):
        if table[name] is None:
            words.append(f"--{name}")
        elif data.draw(st.booleans()):
            words.append(f"--{name}={data.draw(st.sampled_from(table[name]))}")
        else:
            words += [f"--{name}", data.draw(st.sampled_from(table[name]))]
    if data.draw(st.integers(0, 7)) == 0:
        words.insert(data.draw(st.integers(0, len(words))), data.draw(st.sampled_from(ANYWHERE)))
    return words


@pytest.fixture
def here(tmp_path, runs, games, monkeypatch):
    """A current folder with a run, a cut one, games, and nothing else."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(runs["q-learning"], "run")
    shutil.copytree(runs["q-learning"], "cut")
    whole = Path("cut", "checkpoint.npz").read_bytes()
    Path("cut", "checkpoint.npz").write_bytes(whole[: len(whole) // 2])
    write_games("games.jsonl", games)
    Path("torn.jsonl").write_bytes(Path("games.jsonl").read_bytes()[:-20])
    Path("empty").touch()
    monkeypatch.setenv("TTT_ENVS_CACHE", str(tmp_path / "kept"))
    return tmp_path


@pytest.mark.filterwarnings("ignore::learners.OtherGame")
@pytest.mark.parametrize(
    ("program", "count"), [("evaluate", 250), ("train", 150), ("train --resume", 50), ("play", 200)]
)
def test_any_command_line_ends_with_a_result_or_a_sentence(program, count, here):
    def words_and_input(data):
        if program == "evaluate":
            name = data.draw(st.sampled_from([*COMMANDS, "x"]))
            positional, table = ASKED.get(name, ([], COMMON))
            given = [data.draw(st.sampled_from(players(data) if one == "P" else one)) for one in positional]
            if data.draw(st.integers(0, 9)) == 0 and name not in ("cost", "ground-truth"):
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
        command(main, words, typed)

    for warm in (["--help"], ["--version"]):
        for main in (evaluate.main, train.main, play.main):
            command(main, warm)
    with damage.guarded(here):
        check()
