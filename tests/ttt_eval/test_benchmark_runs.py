"""Runs of the benchmark, their submissions, and the scores computed again from tables alone."""

import csv
import json
import os
import shlex
import shutil
import zipfile
from types import SimpleNamespace

import gymnasium
import numpy as np
import plain
import pytest
from damage import guarded
from documents import ROOT
from exactly import best_value, play_out
from json_files import read_json
from numpy.testing import assert_allclose
from players import Drawn

from learners.alpha_zero.self_play import SelfPlayGames
from ttt_envs.agents.policy import best_shares
from ttt_envs.agents.specs import make_policy
from ttt_envs.agents.wrappers import SymmetrizedPolicy
from ttt_envs.game.boards import Boards
from ttt_envs.game.game import Game
from ttt_eval.benchmark.agents import LearnerAgent, PolicyAgent, agent_policy, load_agent
from ttt_eval.benchmark.runs import list_runs, run_benchmark, shorten, train_agent
from ttt_eval.benchmark.scores import NOT_LEARNED, score_submission
from ttt_eval.benchmark.scoring import score_policies
from ttt_eval.benchmark.submission import (
    FILE,
    Head,
    PolicyTable,
    Submission,
    encode_record,
    list_positions,
    open_submission,
    tabulate,
)
from ttt_eval.benchmark.tasks import VERSIONS, BudgetSpent, find_task, find_tasks

pytestmark = pytest.mark.more

LEADERBOARD = ROOT / "docs" / "benchmark" / "leaderboard.md"
STEPS = 200
LAST = f"/steps-{STEPS:06d}/"
TOLERANCE = 1e-12
SAME = "another seed has the same tables"


def run_all(
    folder,
    agent="q-learning",
    tasks=("chance-25", "skips-shown"),
    seeds=2,
    name="test",
    steps=STEPS,
    code="1",
    **more,
):
    run_benchmark(
        agent,
        list_runs(tasks, seeds),
        Submission(name, steps=steps, code_sha256=code),
        folder,
        **more,
    )


def arrays_of(folder):
    with np.load(folder / FILE) as stored:
        return dict(stored)


def contents(folder):
    """All that two runs of the same submission have in common: no costs, and no order of
    completion.
    """
    return {
        name: array.tobytes()
        for name, array in arrays_of(folder).items()
        if not name.endswith("/run")
    }


def runs_of(folder):
    with open_submission(folder) as stored:
        return {(run.task.name, run.seed): run for run in stored.runs}


@pytest.fixture(scope="module")
def submission(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bench") / "submission"
    run_all(folder)
    return folder


# --------------------------------------------------------------------------------------------------
# Runs


@pytest.mark.parametrize(
    "change", [{"name": "other"}, {"code": "2"}, {"steps": 2 * STEPS}], ids=str
)
def test_stored_runs_of_others_are_kept_and_refused(change, submission, tmp_path):
    """Those of another agent, other code or steps."""
    copy = shutil.copytree(submission, tmp_path / "copy")

    def files():
        return {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}

    before = files()
    with pytest.raises(ValueError, match=str(copy)):
        run_all(copy, **change)
    assert files() == before
    (copy / "chance-25" / "seed-0.npz").write_bytes(b"PK")
    with pytest.raises(
        ValueError, match=r"seed-0\.npz is no valid submission: File is not a zip file"
    ):
        run_all(copy)


def test_a_submission_has_a_table_for_each_checkpoint_and_skip_chance(submission, tmp_path):
    runs = runs_of(submission)
    assert list(runs) == [(name, seed) for name in ("chance-25", "skips-shown") for seed in (0, 1)]
    with open_submission(submission) as stored:
        for run in runs.values():
            assert run.checkpoints == shorten(run.task, STEPS).checkpoints
            assert {len(run.tables(steps)) for steps in run.checkpoints} == {
                2 if run.task.name == "skips-shown" else 1
            }
            record = stored.read_run(run)
            seconds = [0, *record.cpu_s.values(), record.cost.cpu_s]
            assert seconds == sorted(seconds)
        assert (stored.submission.name, stored.submission.steps, stored.submission.setting) == (
            "test",
            STEPS,
            "one",
        )
    run_all(tmp_path, tasks=("chance-25",), seeds=1, every=6)
    assert (
        runs_of(tmp_path)["chance-25", 0].checkpoints
        == runs["chance-25", 0].checkpoints[::-6][::-1]
    )
    assert contents(tmp_path).items() <= contents(submission).items()


def test_the_last_table_is_the_policy_of_an_agent_that_learned_without_the_runner(submission):
    """A shown skip chance selects and mixes learners."""
    for name in ("chance-25", "skips-shown"):
        task = find_task(name)
        boards = list_positions(task.games[0])
        agent = LearnerAgent("q-learning", task, 1)
        agent.learn(task.make_env(1, **agent.env_options), STEPS)
        with open_submission(submission) as stored:
            tables = stored.read_tables(runs_of(submission)[name, 1], STEPS)
        for game, stored in zip(task.games, tables, strict=True):
            policy = agent_policy(agent, task, game)
            assert stored.probabilities(boards) == pytest.approx(
                policy.probabilities(boards), abs=1e-3
            )
            assert stored.values(boards) == pytest.approx(
                np.clip(policy.values(boards), -1, 1), abs=1e-3
            )
    low, high = (learner.action_values(boards) for learner in agent.learners.values())
    assert (low != high).any()
    for game, weight in (
        (Game(), 0),
        (task.games[0], 0.2),
        (task.games[1], 0.5),
        (Game(skip_chance=0.6), 1),
    ):
        mixed = (1 - weight) * low + weight * high
        policy = agent_policy(agent, task, game)
        assert policy.probabilities(boards) == pytest.approx(best_shares(mixed, 1e-12), abs=1e-12)
        assert policy.values(boards) == pytest.approx(np.nanmax(mixed, axis=1), abs=1e-12)


def test_learners_see_the_episodes_of_their_own_skip_chance(monkeypatch):
    task = find_task("skips-shown")
    skips = []
    begun = []
    agent = LearnerAgent("q-learning", task, 0)

    class SkipRecorder(gymnasium.Wrapper):
        def reset(self):
            observation, info = self.env.reset()
            skips.append(info["skip_chance"])
            return observation, info

    monkeypatch.setattr(agent, "begin", begun.append)
    agent.learn(SkipRecorder(task.make_env(0, **agent.env_options)), 100)
    assert begun == skips
    assert set(begun) == set(agent.learners) == {0.0, 0.5}
    assert list(LearnerAgent("q-learning", find_task("skips-hidden"), 0).learners) == [0.25]


def test_alpha_zero_learns_results_of_player_0(monkeypatch):
    task = find_task("half-random")
    results = []
    winners = []

    class WinnerRecorder(gymnasium.Wrapper):
        def step(self, action):
            observation, reward, is_over, truncated, info = self.env.step(action)
            winners.extend([info["winner"]] * is_over)
            return observation, reward, is_over, truncated, info

    agent = load_agent("alpha-zero")(task, 0, simulations=2, decisive=False)
    monkeypatch.setattr(SelfPlayGames, "examples", lambda games, result: results.extend(result))
    env = task.make_env(0, **agent.env_options)
    env.budget = 60
    with pytest.raises(BudgetSpent):  # its simulations are no steps
        agent.learn(WinnerRecorder(env), 61)
    assert env.steps == 60
    assert results == [{0: 1, 1: -1, -1: 0}[winner] for winner in winners]
    assert {1, -1} <= set(results[1::2])  # of games in which it moves second


@pytest.mark.parametrize(
    ("name", "learned"), [("ppo", "random"), ("ppo", "self-play"), ("exact-pg", "random")]
)
def test_what_agents_learn_wins_against_a_random_player(name, learned):
    task = shorten(find_task(learned), 5_000)
    agent = load_agent(name)(task, 0)
    train_agent(agent, task, 0)
    policy = agent_policy(agent, task, task.games[0])
    assert score_policies(find_task("random"), [policy]).score > 0.4


def test_self_play_shows_positions_and_the_sign_of_the_next_value():
    task = find_task("self-play-skip")
    agent = LearnerAgent("q-learning", task, 0)
    env = task.make_env(0, **agent.env_options)
    signs = set()
    for _ in range(10):
        observation, info = env.reset()
        cells = np.zeros(9, np.int8)
        is_over = False
        while not is_over:
            mover = info["mover"]
            action = int(np.argmax(info["action_mask"]))
            position = agent.boards(observation, info).position(0)
            assert (position.cells.tolist(), position.mover) == (cells.tolist(), mover)
            cells[action] = mover + 1
            observation, _, is_over, _, info = env.step(action)
            signs.add((int(env.discount[0]), is_over or info["mover"] == mover, is_over))
    assert signs == {(1, True, False), (-1, False, False), (0, True, True)}


class FirstLegal:
    """Plays the first legal move, an episode a call, whatever steps are left."""

    steps = 0

    def learn(self, env, steps):
        _, info = env.reset()
        is_over = False
        while not is_over:
            _, _, is_over, _, info = env.step(int(np.argmax(info["action_mask"])))
            self.steps += 1

    def __call__(self, observation, mask):
        return int(np.argmax(mask))


def test_agents_that_learn_too_much_too_little_or_nothing():
    task = shorten(find_task("self-play"), STEPS)
    agent = FirstLegal()
    arrays = train_agent(agent, task, 0)
    assert agent.steps == STEPS
    nothing = train_agent(PolicyAgent("random", task, 0), task, 0)
    assert [*nothing] == [*arrays]
    assert (
        len({array.tobytes() for name, array in nothing.items() if name.endswith("probabilities")})
        == 1
    )
    with pytest.raises(TypeError, match="no agent"):
        train_agent(3, task, 0)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["sb3-ppo", "sb3-dqn", "sb3-maskable-ppo", "ppo", "q-net", "naive-mc", "alpha-zero"]
)
def test_other_agents_twice(name, tmp_path):
    pytest.importorskip("tensorflow" if name == "q-net" else "sb3_contrib")
    tasks = "masks", "self-play", "chance-25", "skips-shown"
    for part in ("a", "b"):
        run_all(tmp_path / part, name, tasks, 1, steps=3 * STEPS)
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    result = score_submission(tmp_path / "a")
    assert {run.task for run in result.runs} >= set(tasks)


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


def test_the_quick_form_with_fewer_steps(tmp_path, evaluate_py, monkeypatch):
    """The commands of ``make bench-quick``, with fewer steps, of an agent whose scores are
    known.
    """
    folder = tmp_path / "win-or-block"
    scores = tmp_path / "scores.json"
    board = tmp_path / "leaderboard.md"
    evaluate_py(f"bench run --agent win-or-block --quick --steps {STEPS} --every 20 --out", folder)
    tasks = ("random", "chance-25", "self-play", "masks")
    assert list(runs_of(folder)) == [(task, seed) for task in tasks for seed in range(2)]
    evaluate_py("bench score", folder, "--out", scores)
    monkeypatch.chdir(tmp_path)
    report = f"bench report --overwrite --markdown {board}"
    by_file, by_folder = (evaluate_py.json(report, source) for source in (scores, folder))
    assert by_file == by_folder
    assert not list(tmp_path.rglob("*.html"))
    mean = by_file["entries"][0]["tasks"]
    assert [mean["random"], mean["chance-25"], mean["self-play"]] == pytest.approx(
        [0.792, 0.688, 0.309], abs=1e-3
    )
    assert "| win-or-block | not learned | " in board.read_text()


def test_tasks_of_v2_are_learned_and_scored(tmp_path, evaluate_py):
    """Scores from tables are those of the policies of the same learner without the runner."""
    tasks = [task for task in find_tasks(version="v2") if "v1" not in task.versions]
    names = " ".join(task.name for task in tasks)
    command = f"bench run --benchmark v2 --task {names} --steps {STEPS} --every 20 --seeds 2 --out"
    folder = tmp_path / "learned"
    evaluate_py(command, folder, "--agent q-learning")
    scores = evaluate_py.json("bench score", folder)
    assert scores["version"] == "v2"
    runs = scores["submissions"][0]["runs"]
    assert not any(run["known"] for run in runs)  # in few positions the seeds still play alike
    for task, run in zip(tasks, runs[::2], strict=True):
        agent = LearnerAgent("q-learning", task, 0)
        agent.learn(task.make_env(0, **agent.env_options), STEPS)
        policies = [agent_policy(agent, task, game) for game in task.games]
        assert run["score"] == pytest.approx(score_policies(task, policies).score, abs=2e-3)
    assert "does not learn the task phantom" in evaluate_py.error(
        command, tmp_path / "refused", "--agent alpha-zero"
    )


SOLVED = {
    "first_helper": "from second_helper import start",
    "second_helper": "start = 'optimal'",
    "solved_agent": """
import numpy as np
from first_helper import start

from ttt_envs import make_policy


class Solved:
    def __init__(self, task, seed):
        self.model = make_policy(start, task.games[0])

    def learn(self, env, steps):
        _, info = env.reset()
        over = False
        while not over:
            _, _, over, _, info = env.step(int(np.argmax(info["action_mask"])))
""",
}


def test_a_run_is_trained_again(tmp_path, evaluate_py):
    folder = tmp_path / "mine"
    scores = tmp_path / "scores.json"
    evaluate_py(
        f"bench run --agent q-learning --task self-play --steps {STEPS} --seeds 2 --out", folder
    )
    row = evaluate_py.json("bench verify --row 1", folder)
    assert (row["seed"], row["again"]) == (1, row["score"])
    assert "rows 0 to 1" in evaluate_py.error("bench verify --row 2", folder)
    evaluate_py("bench score", folder, "--out", scores)
    assert evaluate_py.json("bench verify", scores)["seed"] == 0
    content = read_json(scores)
    [edited] = content["submissions"]
    run = edited["runs"][0]
    run["score"] = 1.0
    run["checkpoints"][-1] |= {"score": 1.0, "value": 0.0}
    edited["versions"]["numpy"] = "1.0"
    scores.write_text(json.dumps(content))
    message = evaluate_py.error("bench verify", scores)
    assert "the scores differ" in message
    assert "('numpy', '1.0')" in message
    edited["code_sha256"] = ""
    scores.write_text(json.dumps(content))
    message = evaluate_py.error("bench verify --row 1", scores)
    assert "bench run --agent q-learning --task self-play --seeds 2" in message


def test_chosen_settings_are_those_of_the_runs(tmp_path, evaluate_py):
    """The default ones of ``ppo`` have no update in so few steps."""
    chosen = tmp_path / "chosen.json"
    choice = {"settings": {"rollout": 50}, "tuning_steps": 7}
    chosen.write_text(json.dumps({"ppo": choice, "q-learning": choice}))
    run = f"bench run --task random --seeds 1 --steps {STEPS} --settings {chosen} --agent"
    evaluate_py(run, "ppo --out", tmp_path / "tuned")
    result = score_submission(tmp_path / "tuned")
    assert (result.tuning_steps, result.hyperparameters["rollout"]) == (7, 50)
    assert len({mark.score for mark in result.runs[0].checkpoints}) > 1
    evaluate_py("bench verify", tmp_path / "tuned")
    assert "'rollout'" in evaluate_py.error(run, "q-learning")


def test_code_that_has_changed_is_not_trained_again(tmp_path, evaluate_py, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    for name, text in SOLVED.items():
        (tmp_path / f"{name}.py").write_text(text)
    folder = tmp_path / "solved"
    agent = "--agent solved_agent:Solved"
    evaluate_py(f"bench run {agent} --task self-play --steps {STEPS} --seeds 1 --out", folder)
    assert f"{agent} runs its code" in evaluate_py.error("bench verify", folder)
    assert evaluate_py.json(f"bench verify {agent}", folder)["again"] == 1
    assert score_submission(folder).kind == NOT_LEARNED
    (tmp_path / "second_helper.py").write_text("start = 'random'")
    assert "its hash differs" in evaluate_py.error(f"bench verify {agent}", folder)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_leaderboard_is_written_by_its_command(version, tmp_path, evaluate_py, monkeypatch):
    """From scores in the repository; the page names the command."""
    monkeypatch.chdir(ROOT)
    page = LEADERBOARD.read_text()
    table = tmp_path / "leaderboard.md"
    scores = f"benchmarks/scores/{version}"
    [command] = [
        line
        for line in page.splitlines()
        if line.startswith(f"`python evaluate.py bench report {scores}/")
    ]
    words = shlex.split(command.strip("`").replace("FILE", str(table)))[2:]
    sources = sorted((ROOT / scores).iterdir())
    assert words[2 : 2 + len(sources)] == [str(path.relative_to(ROOT)) for path in sources]
    evaluate_py(*words, "--out", tmp_path / "page.html")
    assert f"<!-- {version} -->\n\n{table.read_text()}\n<!--" in page


@pytest.mark.slow
def test_scores_of_the_quick_form_are_those_of_the_submissions(evaluate_py):
    sources = sorted((ROOT / "benchmarks" / "submissions").iterdir())
    tasks = "--task random chance-25 self-play masks"
    result = evaluate_py.json("bench report", *sources, tasks)
    lines = csv.DictReader((ROOT / "docs" / "benchmark" / "quick.csv").read_text().splitlines())
    stored = {line["submission"]: line for line in lines}
    assert stored.keys() == {entry["name"] for entry in result["entries"]}
    for entry in result["entries"]:
        line = stored[entry["name"]]
        for name in ("interquartile_mean", "mean"):
            assert float(line[name]) == pytest.approx(entry[name][0], abs=6e-4)
        for task, score in entry["tasks"].items():
            assert line[task] == f"{round(score, 3) + 0.0:.3f}"  # without -0.000


# --------------------------------------------------------------------------------------------------
# Scores


def write_tables(folder, task, *runs):
    """Write a submission of runs with the seeds 0, 1, ... from their probabilities by steps."""
    folder.mkdir(exist_ok=True)
    arrays = {
        f"{task.name}/seed-{seed}/steps-{steps:06d}/probabilities": table
        for seed, tables in enumerate(runs)
        for steps, table in tables.items()
    }
    head = encode_record(Head(Submission("table")))
    np.savez_compressed(folder / FILE, submission=head, **arrays)


class ColourBlind(Drawn):
    """Random distributions over legal moves, which depend on own stones and those of the other."""

    def probabilities(self, boards, rng=None):
        return super().probabilities(
            Boards(boards.own_first(), np.zeros(len(boards.mover), np.int8))
        )


@pytest.mark.parametrize("name", ["half-random", pytest.param("chance-25", marks=pytest.mark.slow)])
def test_submissions_score_what_a_plain_recursion_gives(name, tmp_path):
    task = find_task(name)
    [game] = task.games

    def results(own, opponent):
        first = play_out(game, own, opponent)[0]
        second = play_out(game, opponent, own)[0]
        return (first[0] + second[2]) / 2, (first[2] + second[0]) / 2

    win, loss = results("random", task.opponent)
    worst = win - loss
    best = sum(best_value(game, task.opponent, seat) for seat in (0, 1)) / 2
    policies = {steps: ColourBlind(game, steps) for steps in (1000, task.steps)}
    boards = list_positions(game)
    write_tables(
        tmp_path, task, {steps: policy.probabilities(boards) for steps, policy in policies.items()}
    )
    [run] = score_submission(tmp_path).runs
    for row, policy in zip(run.checkpoints, policies.values(), strict=True):
        win, loss = results(policy, task.opponent)
        assert row.value == pytest.approx(win - loss, abs=TOLERANCE)
        assert row.score == pytest.approx((win - loss - worst) / (best - worst), abs=1e-11)


def test_the_last_tables_are_those_that_determine_the_score(tmp_path):
    """Equal tables are scored against the opponents of their steps, all of which count; otherwise
    the last one does.
    """
    task = find_task("opponents")
    table = tabulate(task.games[0], "random")["probabilities"]
    write_tables(tmp_path / "all", task, {20_000: table, 40_000: table})
    every = score_submission(tmp_path / "all")
    assert every == score_submission(tmp_path / "all", last=True)
    random, win_or_block = every.runs[0].checkpoints
    assert (
        random.score
        == pytest.approx(win_or_block.score, abs=TOLERANCE)
        == pytest.approx(0, abs=TOLERANCE)
    )
    assert random.value > win_or_block.value + 0.5
    task = find_task("half-random")
    for first, complete in ((0, True), (1, False)):
        write_tables(tmp_path / "last", task, dict.fromkeys(task.checkpoints[first:], table))
        assert score_submission(tmp_path / "last", last=True).runs[0].complete == complete


@pytest.mark.parametrize(("name", "known"), [("random", (SAME,)), ("self-play", ())])
def test_what_two_seeds_share_was_not_learned(name, known, tmp_path):
    """But learners may come to the same solution of self-play."""
    task = find_task(name)
    [game] = task.games
    specs = "random", "win-or-block", "optimal"
    *tables, last_table = (tabulate(game, spec)["probabilities"] for spec in specs)
    runs = [{500: table, 1000: last_table} for table in tables]
    for own_runs, expected in ((runs, known), (runs * 2, (SAME,))):
        write_tables(tmp_path, task, *own_runs)
        assert {run.known for run in score_submission(tmp_path).runs} == {expected}


def test_a_table_asks_once_for_symmetric_positions(monkeypatch):
    game = Game()
    boards = list_positions(game)
    policy = SymmetrizedPolicy(make_policy("optimal", game), game)
    expected = policy.probabilities(boards)
    counts = []

    def probabilities(self, boards, rng=None):
        counts.append(len(boards.mover))
        return answer(self, boards, rng)

    answer = SymmetrizedPolicy.probabilities
    monkeypatch.setattr(SymmetrizedPolicy, "probabilities", probabilities)
    table = tabulate(game, policy, dtype=np.float64)["probabilities"]
    assert_allclose(table, expected, atol=1e-12)
    assert 0 < sum(counts) < len(boards.mover) / 4


def test_tables_of_large_boards_round_probabilities(monkeypatch):
    game = Game()
    boards = list_positions(game)
    policy = ColourBlind(game, 3)
    monkeypatch.setattr("ttt_eval.benchmark.submission.MAX_CELLS_OF_CHECKPOINTS", 8)
    arrays = tabulate(game, policy)
    assert arrays["probabilities"].dtype == np.uint8
    p = PolicyTable(game, **arrays).probabilities(boards)
    stored = policy.probabilities(boards).astype(np.float16).astype(np.float64)
    shares = np.rint(255 * stored / stored.max(axis=1, keepdims=True))
    assert p == pytest.approx(plain.shares_of(shares), abs=1e-15)


def test_scoring_opens_nothing_else(tmp_path):
    run_all(tmp_path, every=20)
    score_submission(tmp_path)  # imports, and caches what scores are relative to
    with guarded(tmp_path):
        assert len(score_submission(tmp_path).runs) == 6


# --------------------------------------------------------------------------------------------------
# Hostile folders


TABLE = f"chance-25/seed-0{LAST}"
P = f"{TABLE}probabilities"
V = f"{TABLE}values"
RUN = "chance-25/seed-0/run"


def put(index, value):
    """Return what sets an item of an array."""

    def changed(array):
        array[index] = value
        return array

    return changed


def text(**content):
    return np.frombuffer(json.dumps(content).encode(), np.uint8)


def many(name, count):
    return {name.format(number): np.zeros(0) for number in range(count)}


def link(path):
    path.rename(path.with_name("elsewhere.npz"))
    path.symlink_to(path.with_name("elsewhere.npz"))


def add_twice(path):
    with zipfile.ZipFile(path, "a") as archive, pytest.warns(UserWarning, match="Duplicate name"):
        archive.writestr("submission.npy", b"")


HOSTILE = {  # arrays in place of others, None for no array; or what changes the file
    "NaN": ({P: put(5, np.nan)}, "no distribution"),
    "all illegal": ({P: put(slice(None), 1 / 9)}, "illegal moves"),
    "values": ({V: put(0, 3)}, "needs values"),
    "too few": ({P: lambda p: p[:9]}, "needs probabilities"),
    "objects": ({P: np.array([{}])}, "cannot be read"),
    "bomb": ({P: np.zeros((1 << 22, 9))}, "unpacks to 301,"),
    "other array": ({f"{TABLE}more": np.zeros(3)}, "no array of a submission"),
    "no probabilities": ({P: None}, "lacks chance-25/seed-0"),
    "many arrays": (many("{}", 101), "more than 100 arrays"),
    "many checkpoints": (many("chance-25/seed-0/steps-{:06d}/values", 21), "22 checkpoints"),
    "scored from others": (
        {"critic/seed-0/steps-000200/probabilities": np.zeros(0)},
        "from those of chance-25",
    ),
    "cost": ({RUN: text(cost={"cpu_s": -1})}, "cpu_s"),
    "steps": ({RUN: text(cost={"cpu_s": 1, "steps": STEPS + 1})}, "chance-25/seed-0/run says"),
    "unknown key": (
        {"submission": text(submission={"name": "x", "tuning_step": 1})},
        "tuning_step",
    ),
    "other version": ({"submission": text(submission={"name": "x"}, version="v3")}, "v3"),
    "task of another version": (
        {"phantom/seed-0/steps-000200/probabilities": np.zeros(0)},
        "those of another version",
    ),
    "deep": ({"submission": np.frombuffer(b"[" * 5000, np.uint8)}, "is no valid submission"),
    "twice": (add_twice, "same name"),
    "truncated": (
        lambda path: os.truncate(path, path.stat().st_size - 99),
        "is no valid submission",
    ),
    "huge": (lambda path: os.truncate(path, 1 << 34), "17,179,869,184 bytes"),
    "link": (link, "is a link"),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_files_get_one_sentence(kind, submission, tmp_path, evaluate_py, monkeypatch):
    monkeypatch.setattr("ttt_eval.benchmark.submission.MAX_ARRAYS", 100)
    damage, message = HOSTILE[kind]
    arrays = {
        name: array
        for name, array in arrays_of(submission).items()
        if name in (P, V, RUN, "submission")
    }
    for name, other in () if callable(damage) else damage.items():
        array = arrays.pop(name, None)
        if other is not None:
            arrays[name] = other(array) if callable(other) else other
    np.savez_compressed(tmp_path / FILE, **arrays)
    if callable(damage):
        damage(tmp_path / FILE)
    with pytest.raises(ValueError, match=message):
        score_submission(tmp_path)
    evaluate_py.error("bench score --check", tmp_path)


def test_a_submission_is_checked_before_it_is_sent(submission, tmp_path, evaluate_py):
    task = find_task("chance-25")
    table = tabulate(task.games[0], "random")["probabilities"]
    whole = dict.fromkeys(task.checkpoints, table)
    for fifth, incomplete in ((whole, []), ({}, ["chance-25"])):
        write_tables(tmp_path, task, *[whole] * 4, fifth, whole)
        [row] = evaluate_py.json("bench score --check", tmp_path)
        assert (row["incomplete"], row["other_seeds"]) == (incomplete, [5])
        assert (row["lacks_values"], row["not_learned"]) == (["critic"], [SAME])
        assert "chance-25" not in row["lacks"]
    [row] = evaluate_py.json("bench score --check", submission)
    assert (row["runs"], row["complete"]) == (4, 0)  # 200 steps are no whole run
    assert (row["lacks_values"], row["not_learned"]) == ([], [])
    assert row["incomplete"] == ["chance-25", "skips-shown"]
    assert "random" in row["lacks"]
