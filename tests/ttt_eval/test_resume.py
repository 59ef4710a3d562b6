"""Work whose results are stored: any number of workers, and a kill at any change of a file, leave
the same files.
"""

import random
import re
from functools import cache, partial

import numpy as np
import pytest
from kills import do_until
from small_games import SKIP_GAME
from squares import Squares

from studies.frame import reproduce
from ttt_eval.benchmark.runs import list_runs, run_benchmark
from ttt_eval.benchmark.submission import Submission
from ttt_eval.matches.ladder import rate_policy, read_ladder
from ttt_eval.matches.luck import EXACT
from ttt_eval.matches.match import MatchSettings
from ttt_eval.matches.sprt import SPRT, run_sprt
from ttt_eval.matches.tournament import run_tournament
from ttt_eval.store.result_store import UNITS

pytestmark = [pytest.mark.more, pytest.mark.usefixtures("quick_ladders")]

CODE = {"code": "this"}
EQUALS = MatchSettings(SKIP_GAME, ("random", "random"), 3, luck_correction=EXACT)
PLAYERS = MatchSettings(SKIP_GAME, ("random", "win-or-block", "mcts:simulations=4"), 3)
RUNS = list_runs(("chance-25",), 2)
WORK = {
    "study": lambda folder, jobs=1: reproduce(Squares(), "squares", folder, CODE, jobs=jobs),
    "test": lambda folder, jobs=1: run_sprt(
        EQUALS, SPRT(0, 20), folder, CODE, pairs=2000, jobs=jobs
    ),
    "tournament": lambda folder, jobs=1: run_tournament(PLAYERS, folder, CODE, pairs=70, jobs=jobs),
    "rating": lambda folder, jobs=1: rate_policy(
        "mcts:simulations=1", read_ladder("3x3"), CODE, games=20, seed=3, folder=folder, jobs=jobs
    ),
    "benchmark": lambda folder, jobs=1: run_benchmark(
        "q-learning", RUNS, Submission("test", steps=200), folder, jobs=jobs
    ),
}


def files(folder):
    """All files but costs; of stored results, lines in any order without their costs."""
    results = {}
    for path in folder.rglob("*"):
        if path.is_file() and path.name != "cost.json":
            content = path.read_bytes()
            if path.suffix == ".npz":
                with np.load(path) as stored:
                    content = {
                        name: stored[name].tobytes() for name in stored if not name.endswith("/run")
                    }
            if path.name == UNITS:
                content = sorted(
                    re.sub(rb'"cpu_s": [\d.e-]+|"sha256": "\w+"', b"", content).split(b"\n")
                )
            results[str(path.relative_to(folder))] = content
    return results


def stored_lines(folder):
    """The whole lines of stored results, by file."""
    return {path: path.read_bytes().split(b"\n")[:-1] for path in folder.rglob(UNITS)}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """What work leaves that was done by one process, and the changes of files until then."""

    @cache
    def do(name):
        folder = tmp_path_factory.mktemp("whole")
        changes = do_until(None, folder, partial(WORK[name], folder))
        return files(folder), changes

    return do


@pytest.mark.parametrize("name", WORK)
def test_workers_make_no_difference(name, whole, tmp_path, more_workers):
    WORK[name](tmp_path, more_workers)
    result = files(tmp_path)
    expected, _ = whole(name)
    assert result.keys() == expected.keys()
    for (
        file,
        content,
    ) in expected.items():  # a test that has ended may have blocks of games beyond its end
        assert (
            set(result[file]) >= set(content) if file.endswith(UNITS) else result[file] == content
        ), file


@pytest.mark.parametrize("name", WORK)
@pytest.mark.parametrize("moments", [2, pytest.param(20, marks=pytest.mark.slow)])
def test_killed_work_continues_to_the_same_files(name, moments, whole, tmp_path):
    expected, changes = whole(name)
    count = changes if name == "study" else min(moments, changes)  # which is quick
    for kill_at in {changes - 1, *random.Random(3).sample(range(changes), count)}:
        folder = tmp_path / str(kill_at)
        do_until(kill_at, folder, partial(WORK[name], folder))
        before = stored_lines(folder)
        WORK[name](folder)
        assert files(folder) == expected
        for path, lines in before.items():  # what was done is not done again
            assert stored_lines(folder)[path][: len(lines)] == lines


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", WORK)
def test_nothing_is_written_through_a_link(name, tmp_path):
    """Linked results are replaced; linked units, and linked folders within, are refused, also where
    all is done.
    """
    folder = tmp_path / "results"
    outside = tmp_path / "outside"
    WORK[name](folder)
    for path in sorted(folder.iterdir()):
        path.rename(outside)
        path.symlink_to(outside)
        if outside.is_dir():
            (outside / "seed-0.npz01234567.tmp").touch()  # of a killed writer
        before = contents(tmp_path)
        if path.name == UNITS or outside.is_dir():
            with pytest.raises(ValueError, match=f"{path.name} is a link"):
                WORK[name](folder)
            assert contents(tmp_path) == before
            path.unlink()
        else:
            WORK[name](folder)  # all is done but to write it
            assert outside.read_bytes() == before[outside]
            assert not path.is_symlink()
            continue
        outside.rename(path)
