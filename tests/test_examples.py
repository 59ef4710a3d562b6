"""Every example runs as a user runs it: in its own process, in an empty folder, with checked
numbers.

Those of Tianshou, TorchRL, PufferLib and RLlib are run by the matrix of clients, each in its own
environment: tests/clients.
"""

import re

import pytest
from clients import run as clients
from clients.endings import ending
from json_files import rows_of
from processes import ROOT, run_python

from examples.grpo_data import ILLEGAL, reward
from learners.sb3 import RandomState
from ttt_envs import Game
from ttt_eval.benchmark.agents import agent_policy, load_agent
from ttt_eval.benchmark.runs import shorten
from ttt_eval.benchmark.scoring import score_policies
from ttt_eval.benchmark.tasks import BudgetSpent, find_task
from ttt_eval.exact.dynamic_programming import exploitability

pytestmark = pytest.mark.more

EXAMPLES = ROOT / "examples"
PAGE = ROOT / "docs" / "clients.md"
MODULES = {"bench_dqn", "bench_ppo"}
"""Those that are no scripts."""
SCRIPTS = {
    "sb3_maskable_ppo",
    "pettingzoo_drop_in",
    "q_learning_from_scratch",
    "open_spiel_exploitability",
    "tour",
    "grpo_data",
}
ELSEWHERE = {
    "tianshou_dqn": "test_tianshou.py",
    "torchrl_ppo": "test_torchrl.py",
    "pufferlib_a2c": "test_pufferlib.py",
    "rllib_self_play": "test_rllib.py",
}


def run(path, folder, *arguments):
    """Run a script and return its output; warnings about our code are failures."""
    variables = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "MPLBACKEND": "agg"}
    result = run_python("-W", "default", path, *arguments, cwd=folder, **variables)
    our_values = (
        rf"^(?:{ROOT}/(?:ttt_envs|baselines|learners|ttt_eval|ttt_apps|examples)/|<).*Warning.*"
    )
    assert not re.findall(our_values, result.stderr, re.M)
    assert list(folder.iterdir()) == []  # nothing is left behind
    return result.stdout


def numbers(pattern, text):
    return list(map(float, re.findall(pattern, text, re.M)))


def test_every_example_is_tested_and_documented():
    names = {path.stem for path in EXAMPLES.glob("*.py")}
    assert names == SCRIPTS | MODULES | set(ELSEWHERE)
    for name in names:
        assert f"examples/{name}.py" in PAGE.read_text()
        assert (
            f"examples/{name}.py" in (EXAMPLES / f"{name}.py").read_text()
        )  # it says how it is run
    for name, tests in ELSEWHERE.items():
        assert f'example("{name}.py"' in (clients.HERE / tests).read_text()
    lines = (EXAMPLES / "rllib-requirements.txt").read_text().splitlines()
    assert {line for line in lines if not line.startswith("#")} == {
        "torch",
        *clients.ENVIRONMENTS["rllib"],
    }


def test_pettingzoo_drop_in(tmp_path):
    output = run(EXAMPLES / "pettingzoo_drop_in.py", tmp_path)
    exploited = (191 / 192 + 874 / 945) / 2
    assert ending(output).exploitability == pytest.approx(exploited, abs=5.1e-5)


def test_q_learning_from_scratch(tmp_path):
    path = EXAMPLES / "q_learning_from_scratch.py"
    before, final = (
        float(run(path, tmp_path, "--episodes", games).split(": ")[1]) for games in (1, 4_000)
    )
    assert 0 <= final < before <= 1


def test_grpo_data(tmp_path):
    """The row and the rewards of a position that is solved by hand: b3 wins, and after a3 the
    mover wins if the other turn is skipped, else draws.
    """
    file = tmp_path.with_suffix(".rows")
    run(EXAMPLES / "grpo_data.py", tmp_path, "--out", file)
    [row] = [row for row in rows_of(file) if row["position"] == "oxo/xxo/..x x"]
    assert (row["legal"], row["regrets"]) == (["a3", "b3"], [0.75, 0.0])
    completions = ["b3", [{"content": "a3"}], "a1"]
    columns = {name: [value] * 3 for name, value in row.items()}
    assert reward([], completions, **columns) == [0.0, -0.75, ILLEGAL]
    assert ILLEGAL < -2  # the loss of a won game


@pytest.mark.needs("open_spiel")
def test_open_spiel_exploitability(tmp_path):
    board = ("--rows", 2, "--columns", 3, "--win-length", 2)
    path = EXAMPLES / "open_spiel_exploitability.py"
    output = run(path, tmp_path, "--policy", "random", *board)
    reference, our_values = numbers(r"^exploitability by \S+: (\S+)", output)
    assert 0 < reference == our_values < 1


@pytest.mark.needs("IPython", "matplotlib")
def test_tour_as_a_script(tmp_path):
    text, count = re.subn(
        r"^GAMES = 100_000", "GAMES = 2_000", (EXAMPLES / "tour.py").read_text(), flags=re.M
    )
    assert count == 1
    (tmp_path / "tour.py").write_text(text)
    (tmp_path / "empty").mkdir()
    output = run(tmp_path / "tour.py", tmp_path / "empty")
    [(before, final)] = re.findall(r"games (\d\.\d+), after \S+ games (\d\.\d+)", output)
    assert (
        0
        <= float(final)
        < float(before)
        == pytest.approx(exploitability(Game(3, 3, 3, 0.25), "random"), abs=5.1e-5)
    )


@pytest.mark.slow
@pytest.mark.needs("sb3_contrib")
def test_sb3_maskable_ppo(tmp_path):
    output = run(EXAMPLES / "sb3_maskable_ppo.py", tmp_path, "--steps", 8_000)
    results = ending(output).results
    assert set(results) == {"random", "optimal"}
    assert results["random"][0] > 50  # random play wins 43.65%
    forgotten, sampled, exact = numbers(r"^mean result.*: (-?\d\.\d+)", output)
    assert forgotten + 0.2 < exact < sampled + 0.2


@pytest.mark.needs("torch")
@pytest.mark.parametrize("name", ["examples.bench_dqn:DQN", "examples.bench_ppo:PPO"])
@pytest.mark.parametrize(
    ("task", "steps", "least"),
    [
        ("random", 2_500, 0.1),
        *(
            pytest.param(t, 20_000, -1.0, marks=pytest.mark.slow)
            for t in ("masks", "self-play-skip")
        ),
    ],
)
def test_agents_of_the_benchmark(name, task, steps, least):
    chosen = shorten(find_task(task), steps)
    agent = load_agent(name)(chosen, 0)
    env = chosen.make_env(0, **getattr(agent, "env_options", {}))
    env.budget = steps
    with RandomState(threads=1), pytest.raises(BudgetSpent):
        agent.learn(env, steps)
    policies = [agent_policy(agent, chosen, game) for game in chosen.games]
    assert score_policies(chosen, policies).score > least  # of random play 0
