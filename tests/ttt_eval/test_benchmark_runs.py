"""Runs of the benchmark, their submissions, and the scores computed again from tables alone."""

import csv
import io
import json
import os
import shlex
import shutil
import warnings
import zipfile
from functools import cache
from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest
from commands import error_of, json_of
from damage import guarded
from documents import ROOT
from exactly import best_value, play_out
from numpy.testing import assert_allclose
from players import FirstEmpty

from learners.alpha_zero.self_play import SelfPlayGames
from ttt_apps.evaluate import main
from ttt_envs.agents.policy import best_shares
from ttt_envs.game.boards import Boards, keys
from ttt_envs.game.game import Game
from ttt_eval.benchmark.agents import LearnerAgent, PolicyAgent, agent_policy, load_agent
from ttt_eval.benchmark.runs import list_runs, run_benchmark, shorten, train_agent
from ttt_eval.benchmark.scores import read_scores, score_submission
from ttt_eval.benchmark.scoring import score_policies
from ttt_eval.benchmark.submission import (
    FILE,
    PolicyTable,
    Run,
    Submission,
    encode_record,
    list_positions,
    open_submission,
    tabulate,
)
from ttt_eval.benchmark.tasks import TASKS, BudgetSpent, find_task

LEADERBOARD = ROOT / "docs" / "benchmark" / "leaderboard.md"
STEPS = 200
LAST = f"/steps-{STEPS:06d}/"
TOLERANCE = 1e-12


def run_all(
    folder,
    agent="q-learning",
    tasks=("chance-25", "skips-shown"),
    seeds=2,
    name="test",
    steps=STEPS,
    code="1",
    **options,
):
    run_benchmark(agent, list_runs(tasks, seeds), Submission(name, steps=steps), folder, {"code": code}, **options)


def arrays_of(folder):
    with np.load(folder / FILE) as stored:
        return dict(stored)


def change(folder, function):
    """Change the arrays of a submission in place."""
    arrays = arrays_of(folder)
    function(arrays)
    np.savez_compressed(folder / FILE, **arrays)


def contents(folder):
    """All that two runs of the same submission have in common: no costs, and no order of completion."""
    return {name: array.tobytes() for name, array in arrays_of(folder).items() if not name.endswith("/run")}


def runs_of(folder):
    with open_submission(folder) as stored:
        return {(run.task.name, run.seed): run for run in stored.runs}


@pytest.fixture(scope="module")
def submission(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bench") / "submission"
    run_all(folder)
    return folder


@pytest.fixture
def copy(submission, tmp_path):
    folder = tmp_path / "copy"
    shutil.copytree(submission, folder)
    return folder


def keep_last(folder):
    """Remove all tables but the last of each run, so that scoring is quick."""
    change(folder, lambda arrays: [arrays.pop(name) for name in [*arrays] if "/steps-" in name and LAST not in name])


# ---------------------------------------------------------------------------------------------------------------------
# Runs


@pytest.mark.parametrize("change", [{"name": "other"}, {"code": "2"}, {"steps": 2 * STEPS}], ids=str)
def test_stored_runs_of_others_are_kept_and_refused(change, copy, tmp_path):
    """Those of another agent, other code or steps."""
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(ValueError, match=str(copy)):
        run_all(copy, **change)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_a_submission_has_a_table_for_each_checkpoint_and_skip_chance(submission, tmp_path):
    runs = runs_of(submission)
    assert list(runs) == [(name, seed) for name in ("chance-25", "skips-shown") for seed in (0, 1)]
    with open_submission(submission) as stored:
        for run in runs.values():
            assert run.checkpoints == shorten(run.task, STEPS).checkpoints
            assert {len(run.tables(steps)) for steps in run.checkpoints} == {2 if run.task.name == "skips-shown" else 1}
            assert stored.read_cost(run).cpu_s > 0
        assert (stored.submission.name, stored.submission.steps, stored.submission.setting) == ("test", STEPS, "one")
    run_all(tmp_path, tasks=("chance-25",), seeds=1, every=6)
    assert runs_of(tmp_path)["chance-25", 0].checkpoints == runs["chance-25", 0].checkpoints[::-6][::-1]
    few = contents(tmp_path)
    assert few == {name: content for name, content in contents(submission).items() if name in few}


def test_the_last_table_is_the_policy_of_an_agent_that_learned_without_the_runner(submission):
    """A shown skip chance selects and mixes learners."""
    for name in ("chance-25", "skips-shown"):
        task = find_task(name)
        boards, agent = list_positions(task.games[0]), LearnerAgent("q-learning", task, 1)
        agent.learn(task.make_env(1, **agent.env_options), STEPS)
        with open_submission(submission) as stored:
            tables = stored.read_tables(runs_of(submission)[name, 1], STEPS)
        for game, stored in zip(task.games, tables, strict=True):
            policy = agent_policy(agent, task, game)
            assert stored.probabilities(boards) == pytest.approx(policy.probabilities(boards), abs=1e-3)
            assert stored.values(boards) == pytest.approx(np.clip(policy.values(boards), -1, 1), abs=1e-3)
    low, high = (learner.action_values(boards) for learner in agent.learners.values())
    assert (low != high).any()
    for game, weight in ((Game(), 0), (task.games[0], 0.2), (task.games[1], 0.5), (Game(skip_chance=0.6), 1)):
        mixed, policy = (1 - weight) * low + weight * high, agent_policy(agent, task, game)
        assert policy.probabilities(boards) == pytest.approx(best_shares(mixed, 1e-12), abs=1e-12)
        assert policy.values(boards) == pytest.approx(np.nanmax(mixed, axis=1), abs=1e-12)


def test_learners_see_the_episodes_of_their_own_skip_chance(monkeypatch):
    task, skips, begun = find_task("skips-shown"), [], []
    agent = LearnerAgent("q-learning", task, 0)

    class Watched(gymnasium.Wrapper):
        def reset(self):
            observation, info = self.env.reset()
            skips.append(info["skip_chance"])
            return observation, info

    monkeypatch.setattr(agent, "begin", begun.append)
    agent.learn(Watched(task.make_env(0, **agent.env_options)), 100)
    assert begun == skips
    assert set(begun) == set(agent.learners) == {0.0, 0.5}
    assert list(LearnerAgent("q-learning", find_task("skips-hidden"), 0).learners) == [0.25]


def test_alpha_zero_learns_from_its_moves_in_the_environment():
    pytest.importorskip("tensorflow")
    task = find_task("half-random")
    [game] = task.games
    boards = list_positions(game)

    def learn(steps):
        agent = load_agent("alpha-zero")(task, 0, decisive=False)
        env = task.make_env(0, **agent.env_options)
        env.budget = steps
        with pytest.raises(BudgetSpent):  # its simulations are no steps
            agent.learn(env, steps + 1)
        return agent_policy(agent, task, game)

    untrained, once, again = learn(0), learn(3 * STEPS), learn(3 * STEPS)
    assert (once.probabilities(boards) == again.probabilities(boards)).all()
    assert (once.values(boards) == again.values(boards)).all()
    assert score_policies(task, [once]).score > score_policies(task, [untrained]).score


def test_alpha_zero_learns_results_of_player_0(monkeypatch):
    pytest.importorskip("tensorflow")
    task, results, winners = find_task("half-random"), [], []

    class Watched(gymnasium.Wrapper):
        def step(self, action):
            observation, reward, over, truncated, info = self.env.step(action)
            winners.extend([info["winner"]] * over)
            return observation, reward, over, truncated, info

    agent = load_agent("alpha-zero")(task, 0, simulations=2, decisive=False)
    monkeypatch.setattr(SelfPlayGames, "examples", lambda games, result: results.extend(result))
    agent.learn(Watched(task.make_env(0, **agent.env_options)), 60)
    assert results == [{0: 1, 1: -1, -1: 0}[winner] for winner in winners]
    assert {1, -1} <= set(results[1::2])  # of games in which it moves second


def test_self_play_shows_positions_and_the_sign_of_the_next_value():
    task = find_task("self-play-skip")
    agent = LearnerAgent("q-learning", task, 0)
    env, signs = task.make_env(0, **agent.env_options), set()
    for _ in range(10):
        observation, info = env.reset()
        cells, over = np.zeros(9, np.int8), False
        while not over:
            mover, action = info["mover"], int(np.argmax(info["action_mask"]))
            position = agent.boards(observation, info).position(0)
            assert (position.cells.tolist(), position.mover) == (cells.tolist(), mover)
            cells[action] = mover + 1
            observation, _, over, _, info = env.step(action)
            signs.add((int(env.discount[0]), over or info["mover"] == mover, over))
    assert signs == {(1, True, False), (-1, False, False), (0, True, True)}


def test_missing_runs_are_named(copy):
    (copy / "chance-25" / "seed-0.npz").unlink()
    with pytest.raises(ValueError, match="is missing: remove"):
        run_all(copy)


class FirstLegal:
    """Plays the first legal move, an episode a call, whatever steps are left."""

    steps = 0

    def learn(self, env, steps):
        _, info = env.reset()
        over = False
        while not over:
            _, _, over, _, info = env.step(int(np.argmax(info["action_mask"])))
            self.steps += 1

    def __call__(self, observation, mask):
        return int(np.argmax(mask))


def test_agents_that_learn_too_much_too_little_or_nothing():
    task, agent = shorten(find_task("self-play"), STEPS), FirstLegal()
    arrays = train_agent(agent, task, 0)
    assert agent.steps == STEPS
    nothing = train_agent(PolicyAgent("random", task, 0), task, 0)
    assert [*nothing] == [*arrays]
    assert len({array.tobytes() for name, array in nothing.items() if name.endswith("probabilities")}) == 1
    with pytest.raises(TypeError, match="no agent"):
        train_agent(3, task, 0)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sb3-ppo", "sb3-dqn", "sb3-maskable-ppo", "q-net", "naive-mc", "alpha-zero"])
def test_other_agents_twice(name, tmp_path):
    pytest.importorskip("tensorflow" if name in ("q-net", "alpha-zero") else "sb3_contrib")
    for part in ("a", "b"):
        run_all(tmp_path / part, name, ("masks", "self-play", "chance-25", "skips-shown"), 1, steps=3 * STEPS)
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    found = score_submission(tmp_path / "a")
    assert {run.task for run in found.runs} >= {"masks", "self-play", "chance-25", "skips-shown"}


@pytest.mark.needs("torch")
def test_nets_of_an_agent_are_shown_the_skip_chance():
    import torch

    critic = torch.nn.Linear(19, 1)
    with torch.no_grad():
        critic.weight.zero_()[0, -1] = 1.0
        critic.bias.zero_()
    agent = SimpleNamespace(model=torch.nn.Linear(19, 9), critic=critic, returns="values")
    task = find_task("skips-shown")
    values = [agent_policy(agent, task, game).values(Boards.start(game)) for game in task.games]
    assert_allclose(np.ravel(values), [0.1, 0.25], rtol=1e-6)


def test_the_quick_form_with_fewer_steps(tmp_path, capsys):
    """The commands of ``make bench-quick``, with fewer steps, of an agent whose scores are known."""
    folder, scores, board = tmp_path / "win-or-block", tmp_path / "scores.json", tmp_path / "leaderboard.md"
    main(["bench", "run", "--agent", folder.name, "--quick", "--steps", str(STEPS), "--out", str(folder)])
    tasks = ("random", "chance-25", "self-play", "masks")
    assert list(runs_of(folder)) == [(task, seed) for task in tasks for seed in range(2)]
    keep_last(folder)
    main(["bench", "score", str(folder), "--out", str(scores)])
    main(["bench", "report", str(scores), "--out", str(tmp_path / "page.html"), "--markdown", str(board)])
    mean = read_scores(scores)[0].task_means
    assert [mean["random"], mean["chance-25"], mean["self-play"]] == pytest.approx([0.792, 0.688, 0.309], abs=1e-3)
    assert "| win-or-block | one | " in board.read_text()
    capsys.readouterr()


def test_the_leaderboard_is_written_by_its_command(tmp_path, capsys, monkeypatch):
    """From scores in the repository; the page names the command."""
    monkeypatch.chdir(ROOT)
    page, table = LEADERBOARD.read_text(), tmp_path / "leaderboard.md"
    [command] = [
        line for line in page.splitlines() if line.startswith("`python evaluate.py bench report benchmarks/scores/")
    ]
    words = shlex.split(command.strip("`").replace("FILE", str(table)))[2:]
    sources = sorted((ROOT / "benchmarks" / "scores").iterdir())
    assert words[2 : 2 + len(sources)] == [str(path.relative_to(ROOT)) for path in sources]
    main([*words, "--out", str(tmp_path / "page.html")])
    capsys.readouterr()
    assert f"-->\n\n{table.read_text()}\n<!--" in page


@pytest.mark.slow
def test_scores_of_the_quick_form_are_those_of_the_submissions(tmp_path, capsys):
    sources = map(str, sorted((ROOT / "benchmarks" / "submissions").iterdir()))
    words = ["--task", "random", "chance-25", "self-play", "masks", "--out", str(tmp_path / "page.html"), "--json"]
    main(["bench", "report", *sources, *words])
    result = json.loads(capsys.readouterr().out)
    lines = csv.DictReader((ROOT / "docs" / "benchmark" / "quick.csv").read_text().splitlines())
    stored = {line["submission"]: line for line in lines}
    assert stored.keys() == {entry["name"] for entry in result["entries"]}
    for entry in result["entries"]:
        line = stored[entry["name"]]
        for name in ("interquartile_mean", "mean"):
            assert float(line[name]) == pytest.approx(entry[name][0], abs=6e-4)
        for task, score in entry["tasks"].items():
            assert line[task] == f"{score:.3f}"


# ---------------------------------------------------------------------------------------------------------------------
# Scores


def write_table(folder, task, probabilities, steps=None, values=None):
    """Write a submission of one table, or add it to the one in the folder."""
    [name] = Run(task, 0, ()).tables(steps or task.steps)
    folder.mkdir(exist_ok=True)
    arrays = arrays_of(folder) if (folder / FILE).exists() else {"submission": encode_record(Submission("table"))}
    arrays[f"{name}/probabilities"] = probabilities
    np.savez_compressed(folder / FILE, **arrays)


@cache
def uniform(name):
    """Return the table of uniformly random play."""
    task = find_task(name)
    boards = list_positions(task.games[0], task.seats)
    legal = boards.legal(task.games[0])
    return legal / legal.sum(axis=1, keepdims=True)


def random_table(task, seed):
    """Return a table of random distributions over legal moves, float16."""
    weights = uniform(task.name) * np.random.default_rng(seed).exponential(size=uniform(task.name).shape)
    return (weights / weights.sum(axis=1, keepdims=True)).astype(np.float16)


class TableInPython(FirstEmpty):
    """A table as a policy, by a dictionary of its positions."""

    def __init__(self, game, table):
        codes = keys(list_positions(game).own_first()).tolist()
        self.rows = dict(zip(codes, (table / table.sum(axis=1, keepdims=True)).tolist(), strict=True))

    def probabilities(self, boards, rng=None):
        return np.array([self.rows[code] for code in keys(boards.own_first()).tolist()])


@pytest.mark.parametrize("name", ["half-random", pytest.param("chance-25", marks=pytest.mark.slow)])
def test_submissions_score_what_a_plain_recursion_gives(name, tmp_path):
    task = find_task(name)
    [game] = task.games

    def results(own, opponent):
        first, second = play_out(game, own, opponent)[0], play_out(game, opponent, own)[0]
        return (first[0] + second[2]) / 2, (first[2] + second[0]) / 2

    win, loss = results("random", task.opponent)
    worst, best = win - loss, sum(best_value(game, task.opponent, seat) for seat in (0, 1)) / 2
    tables = {steps: random_table(task, steps) for steps in (1000, task.steps)}
    for steps, table in tables.items():
        write_table(tmp_path, task, table, steps)
    [run] = score_submission(tmp_path).runs
    for row, table in zip(run.checkpoints, tables.values(), strict=True):
        own = TableInPython(game, table.astype(np.float64))
        win, loss = results(own, task.opponent)
        assert row.value == pytest.approx(win - loss, abs=TOLERANCE)
        assert row.score == pytest.approx((win - loss - worst) / (best - worst), abs=1e-11)


def test_the_last_tables_are_those_that_determine_the_score(tmp_path):
    """Equal tables are scored against the opponents of their steps, all of which count; otherwise the last one does."""
    task = find_task("opponents")
    for steps in (20_000, 40_000):
        write_table(tmp_path / "all", task, uniform(task.name), steps)
    every = score_submission(tmp_path / "all")
    assert every == score_submission(tmp_path / "all", last=True)
    random, win_or_block = every.runs[0].checkpoints
    assert random.score == pytest.approx(win_or_block.score, abs=TOLERANCE) == pytest.approx(0, abs=TOLERANCE)
    assert random.value > win_or_block.value + 0.5
    task = find_task("half-random")
    for steps in task.checkpoints:
        write_table(tmp_path / "last", task, uniform(task.name), steps)
    assert score_submission(tmp_path / "last", last=True).runs[0].complete
    change(tmp_path / "last", remove_first)
    assert not score_submission(tmp_path / "last", last=True).runs[0].complete


def remove_first(arrays):
    arrays.pop(min(name for name in arrays if "/steps-" in name))


def test_tables_of_large_boards_round_probabilities(monkeypatch):
    game = Game()
    boards, table = list_positions(game), random_table(find_task("self-play"), 3).astype(np.float64)
    policy = TableInPython(game, table)
    monkeypatch.setattr("ttt_eval.benchmark.submission.MAX_CELLS_OF_CHECKPOINTS", 8)
    arrays = tabulate(game, policy)
    assert arrays["probabilities"].dtype == np.uint8
    p, exact = PolicyTable(game, **arrays).probabilities(boards), policy.probabilities(boards)
    stored = exact.astype(np.float16).astype(np.float64)
    shares = np.rint(255 * stored / stored.max(axis=1, keepdims=True))
    assert p == pytest.approx(shares / shares.sum(axis=1, keepdims=True), abs=1e-15)
    assert (np.abs(p - exact) < 9 * exact.max(axis=1, keepdims=True) / 255).all()


@pytest.mark.slow
@pytest.mark.parametrize(("spec", "score"), [("random", 0), ("optimal", 1)])
@pytest.mark.parametrize("name", ["self-play-4x4"])
def test_tables_of_4x4_are_small_and_exact(name, spec, score, tmp_path):
    task = find_task(name)
    write_table(tmp_path, task, tabulate(task.games[0], spec, task.seats)["probabilities"])
    assert (tmp_path / FILE).stat().st_size < 80e6
    [run] = score_submission(tmp_path).runs
    assert run.score == pytest.approx(score, abs=TOLERANCE)


def test_scores_are_of_the_documented_form(copy, capsys, tmp_path):
    keep_last(copy)
    printed = json_of(capsys, "bench", "score", copy, "--out", tmp_path / "scores.json")
    assert printed == json.loads((tmp_path / "scores.json").read_text())
    assert printed.keys() == {"format", "kind", "benchmark", "version", "submissions"}
    [one] = printed["submissions"]
    assert {"name", "setting", "tuning_steps", "hyperparameters", "runs"} <= one.keys()
    assert {run["task"] for run in one["runs"]} == {"chance-25", "critic", "skips-shown"}
    assert all(run.keys() == {"task", "seed", "score", "complete", "checkpoints", "cost"} for run in one["runs"])
    [last] = one["runs"][0]["checkpoints"]
    assert last.keys() == {"steps", "score", "value", "random", "best"}


def text(content):
    return np.frombuffer(content.encode(), np.uint8)


def test_scoring_opens_nothing_else(copy):
    keep_last(copy)
    score_submission(copy)  # imports, and caches what scores are relative to
    with guarded(copy):
        assert len(score_submission(copy).runs) == 6


# ---------------------------------------------------------------------------------------------------------------------
# Hostile folders


TABLE = f"chance-25/seed-0{LAST}"
P, V, RUN = f"{TABLE}probabilities", f"{TABLE}values", "chance-25/seed-0/run"


def put(index, value):
    """Return what sets an item of an array."""

    def changed(array):
        array[index] = value
        return array

    return changed


def head(**changed):
    content = {"benchmark": "ttt-exact", "version": "v1", "submission": {"name": "x"}} | changed
    return {"submission": text(json.dumps(content))}


def many(name, count):
    return {name.format(number): np.zeros(0) for number in range(count)}


def renamed(old, new):
    """Return what renames arrays, in all names that have a part."""

    def rename(folder):
        change(folder, lambda arrays: [arrays.update({name.replace(old, new): arrays.pop(name)}) for name in [*arrays]])

    return rename


def link(folder):
    (folder / FILE).rename(folder / "elsewhere.npz")
    (folder / FILE).symlink_to(folder / "elsewhere.npz")


def append(folder, name, content):
    with zipfile.ZipFile(folder / FILE, "a") as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of names that are there twice
        archive.writestr(name, content)


def claim(folder):
    """An array whose header claims more numbers than it has."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f2", "fortran_order": False, "shape": (1 << 40, 9)})
    change(folder, lambda arrays: arrays.pop(P))
    append(folder, f"{P}.npy", header.getvalue() + bytes(18))


HOSTILE = {  # arrays in place of others, None for no array; or what changes the folder
    "NaN": ({P: put(5, np.nan)}, "no distribution"),
    "all illegal": ({P: put(slice(None), 1 / 9)}, "illegal moves"),
    "shares of nothing": ({P: lambda p: np.zeros(p.shape, np.uint8)}, "no distribution"),
    "values": ({V: put(0, 3)}, "needs values"),
    "too few": ({P: lambda p: p[:9]}, "needs probabilities"),
    "other type": ({P: lambda p: p > 0}, "needs probabilities"),
    "objects": ({P: np.array([{}])}, "cannot be read"),
    "bomb": ({P: np.zeros((1 << 22, 9))}, "unpacks to 301,"),
    "claim": (claim, "cannot be read"),
    "other array": ({f"{TABLE}more": np.zeros(3)}, "no array of a submission"),
    "no probabilities": ({P: None}, "lacks chance-25/seed-0"),
    "twice": (lambda folder: append(folder, "submission.npy", b""), "same name"),
    "no zip": (lambda folder: (folder / FILE).write_bytes(b"nothing"), "is no valid submission"),
    "truncated": (
        lambda folder: (folder / FILE).write_bytes((folder / FILE).read_bytes()[:-99]),
        "is no valid submission",
    ),
    "huge": (lambda folder: os.truncate(folder / FILE, 1 << 34), "17,179,869,184 bytes"),
    "link": (link, "is a link"),
    "no file": (lambda folder: (folder / FILE).unlink(), "No such file"),
    "many arrays": (many("{}", 20_001), "more than 20,000 arrays"),
    "many checkpoints": (many("chance-25/seed-0/steps-{:06d}/values", 21), "22 checkpoints"),
    "other steps": (renamed("steps-000200", "steps-900000"), "within 100,000 steps"),
    "other task": (renamed("chance-25", "chance-26"), "chance-25"),
    "scored from others": (renamed("chance-25", "critic"), "is scored from those of chance-25"),
    "cost": ({RUN: text('{"cost": {"cpu_s": -1}}')}, "cpu_s"),
    "no submission": ({"submission": None}, "no array submission"),
    "deep": ({"submission": text("[" * 5000)}, "is no valid submission"),
    "unknown key": (head(submission={"name": "x", "tuning_step": 1}), "tuning_step"),
    "lines": (head(submission={"name": "a\nb"}), "name"),
    "other version": (head(version="v2"), "v2"),
}


def replace_arrays(arrays, others):
    for name, other in others.items():
        array = arrays.pop(name, None)
        if other is not None:
            arrays[name] = other(array) if callable(other) else other


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_folders_get_one_sentence(kind, copy, capsys):
    damage, message = HOSTILE[kind]
    rest = ("skips-shown", "chance-25/seed-1")
    change(copy, lambda arrays: [arrays.pop(name) for name in [*arrays] if name.startswith(rest)])
    keep_last(copy)
    damage(copy) if callable(damage) else change(copy, lambda arrays: replace_arrays(arrays, damage))
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        score_submission(copy)
    error_of(capsys, main, "bench", "score", "--check", copy)


def test_a_submission_is_checked_before_it_is_sent(copy, capsys):
    [row] = json_of(capsys, "bench", "score", "--check", copy)
    assert (row["runs"], row["complete"]) == (4, 0)  # 200 steps are no whole run
    assert {"random", "chance-25", "skips-shown"} < set(row["lacks"])


def test_submissions_are_read_as_written(tmp_path):
    written = Submission(
        "ä \"quoted\" \\ name", "lib", "https://example.org/a?b", "cpu", "tuned", 7, 9, {"numpy": "2"},
        {"hidden": [64, 64], "lr": 1e-3, "anneal": True, "nested": {"a b": 1}},
    )  # fmt: skip
    array = {"random/seed-0/steps-000200/probabilities": uniform("random")}
    np.savez(tmp_path / "named.npz", submission=encode_record(written), **array)
    with open_submission(tmp_path / "named.npz") as stored:
        assert stored.submission == written


@pytest.mark.parametrize("about", [{"name": "a\nb"}, {"hyperparameters": {"h": [["a" * 99] * 99] * 99}}])
def test_what_cannot_be_read_again_is_refused_before_training(about, tmp_path):
    with pytest.raises(ValueError, match="submission"):
        run_benchmark("random", list_runs(), Submission(**{"name": "x", **about}), tmp_path, {})


def test_tables_of_all_small_tasks_can_be_scored(tmp_path):
    tasks = [task for task in TASKS if task.size == (3, 3) and task.uses_runs_of is None]
    arrays = {"submission": encode_record(Submission("win-or-block"))}
    for task in tasks:
        for name, game in Run(task, 3, ()).tables(1000).items():
            policy = agent_policy(PolicyAgent("win-or-block", task, 0), task, game)
            table = tabulate(game, policy, task.seats)
            arrays |= {f"{name}/{part}": array for part, array in table.items()}
    np.savez_compressed(tmp_path / FILE, **arrays)
    scores = score_submission(tmp_path)
    assert [(run.task, run.seed, run.cost) for run in scores.runs] == [(task.name, 3, None) for task in tasks]
