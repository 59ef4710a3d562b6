"""Whatever stands in a spec string or in a file of a run, what comes of it is a sentence or what was there: slow."""

import json
import shutil
from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluation.report_parts import read_cost, read_metrics
from learners import LEARNERS
from learners.checkpoint import build_config, load_policy, read_training
from learners.pool import parse_pool
from ttt_apps import train
from ttt_envs import Boards, Game, Policy, make_policy
from ttt_envs.policy import POLICIES, TRUST, FromFile, load_object


@contextmanager
def told():
    """What the commands tell in one sentence is fine; of any other error there is a traceback."""
    said = "a sentence"
    try:
        yield
    except (ValueError, TypeError, OSError, MemoryError) as problem:
        said = str(problem)
    assert said


GAME = Game(2, 3, 2, 0.25)

KEYS = [
    *("epsilon", "depth", "width", "heuristic", "leaf", "simulations", "c", "rollout", "temperature", "decisive"),
    *("reuse", "w", "terminal", "source", "rank", "split", "path", "algorithm", "trust", "every", "size"),
]
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
    "",
    "x",
]
NAMES = [
    *POLICIES,
    "pool",
    "teacher",
    "uuid:uuid4",
    "joblib.numpy_pickle:dump",
    "importlib.util:find_spec",
    "no_such:A",
]


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


@pytest.mark.slow
@settings(max_examples=2_000)
@given(SPECS, st.booleans())
def test_any_spec_string_is_a_policy_or_a_sentence(spec, from_file):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(TRUST, "0")
        patch.setattr("baselines.mcts.MEMORY", 1 << 20)
        with told():
            parse_pool(spec, lambda: None)
            policy = make_policy(FromFile(spec) if from_file else spec, GAME)
            assert isinstance(policy, Policy)
            assert spec.partition(":")[0] in POLICIES or not from_file


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from(
        [0, 1, -1, 5, 10**30, 0.5, -0.5, 1e308, "", "x", "random", "none", [], {}, [1], {"a": 1}, [[[[]]]]]
    ),
)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    board = ["--size=2x3", "--win-length=2", "--skip-chance=0.25"]
    train.main(["--games=40", "--batch=4", "--log-every=10", "--no-report", *board, "--out", str(folder)])
    return folder


@pytest.mark.slow
@settings(max_examples=400)
@given(st.data())
def test_settings_of_any_kind_are_taken_or_a_sentence(data):
    learner = data.draw(st.sampled_from(sorted(LEARNERS)))
    names = list(load_object(LEARNERS[learner]).__dataclass_fields__)
    chosen = data.draw(st.dictionaries(st.sampled_from(names), VALUES, min_size=1, max_size=2))
    with told():
        build_config(learner, chosen)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::learners.checkpoint.OtherGame")
@settings(max_examples=150)
@given(st.data())
def test_a_run_whose_settings_are_damaged_goes_on_or_says_why(run, tmp_path_factory, data):
    copy = tmp_path_factory.mktemp("copy") / "run"
    shutil.copytree(run, copy)
    config = json.loads((copy / "config.json").read_text())
    place = data.draw(st.sampled_from([config, config["game"], config["settings"]]))
    name = data.draw(st.sampled_from(sorted(place)))
    if data.draw(st.booleans()):
        place[name] = data.draw(VALUES)
    else:
        del place[name]
    (copy / "config.json").write_text(json.dumps(config))
    with told():
        load_policy(GAME, str(copy)).probabilities(Boards.start(GAME))
    if name not in ("games", "batch", "log_every", "checkpoint_seconds", "exact_every"):
        with told():
            train.resume_run(copy, 44)
    shutil.rmtree(copy)


@pytest.mark.slow
@settings(max_examples=300)
@given(st.sampled_from(["config.json", "cost.json", "metrics.jsonl", "checkpoint.npz"]), st.integers(0, 2**32 - 1))
def test_a_flipped_byte_in_any_file_of_a_run_is_a_sentence_or_changes_little(run, name, seed):
    whole = (run / name).read_bytes()
    rng = np.random.default_rng(seed)
    damaged = bytearray(whole)
    damaged[rng.integers(len(whole))] ^= 1 << int(rng.integers(8))
    (run / name).write_bytes(damaged)
    for read in (lambda run: load_policy(GAME, str(run)), read_cost, read_metrics, read_training):
        with told():
            read(run)
    (run / name).write_bytes(whole)
