"""Every example runs as a user runs it: in its own process, in an empty folder, with checked numbers.

Those of Tianshou, TorchRL, PufferLib and RLlib are run by the matrix of clients, each in its own environment:
tests/clients.
"""

import re

import pytest
from clients import run as clients
from clients.endings import ending
from processes import ROOT, run_python

from learners.sb3 import RandomState
from ttt_envs import Game
from ttt_eval.benchmark.agents import agent_policy, load_agent
from ttt_eval.benchmark.runs import BudgetSpent, CountedEnv, shorten
from ttt_eval.benchmark.scoring import score_policies
from ttt_eval.benchmark.tasks import find_task
from ttt_eval.exact.dynamic_programming import exploitability, outcome

EXAMPLES, PAGE = ROOT / "examples", ROOT / "docs" / "examples.md"
TRAININGS = {
    "cleanrl_style_dqn": (30_000, 80, ("torch",)),
    "cleanrl_style_ppo": (60_000, 80, ("torch",)),
    "sb3_dqn": (15_000, 50, ("stable_baselines3",)),
    "sb3_ppo": (12_000, 40, ("stable_baselines3",)),
    "sb3_maskable_ppo": (8_000, 40, ("stable_baselines3", "sb3_contrib")),
}
"""steps, the percentage of games that is at least won against random play, and packages; random play wins 43.65%"""
QUICK = {"own_agent", "pettingzoo_drop_in", "q_learning_from_scratch", "text_observations", "open_spiel_bot", "tour"}
OURS = rf"^(?:{ROOT}/(?:ttt_envs|baselines|learners|ttt_eval|ttt_apps|examples)/|<).*Warning.*"


def run(path, folder, *arguments):
    """Run a script and return its output; warnings about our code are failures."""
    variables = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "MPLBACKEND": "agg"}
    done = run_python("-W", "default", path, *arguments, cwd=folder, **variables)
    assert re.findall(OURS, done.stderr, re.M) == []
    assert list(folder.iterdir()) == []  # nothing is left behind
    return done.stdout


def test_every_example_is_tested_and_documented():
    """Here, as an agent of the benchmark, or by the tests of its client, which call it."""
    names, page = {path.stem for path in EXAMPLES.glob("*.py")}, PAGE.read_text()
    called = "".join(path.read_text() for path in clients.HERE.glob("test_*.py"))
    elsewhere = {name for name in names if f'example("{name}.py"' in called or f'bench("examples.{name}:' in called}
    assert names == QUICK | {*TRAININGS, "bench_dqn", "bench_ppo"} | elsewhere
    for name in names:
        assert f"examples/{name}.py" in page
        assert f"examples/{name}.py" in (EXAMPLES / f"{name}.py").read_text()  # it says how it is run
    lines = (EXAMPLES / "rllib-requirements.txt").read_text().splitlines()
    assert {line for line in lines if not line.startswith("#")} == {"torch", *clients.ENVIRONMENTS["rllib"]}


def test_own_agent(tmp_path):
    printed = run(EXAMPLES / "own_agent.py", tmp_path)
    [shown] = re.findall(r"^python examples/own_agent\.py\n```\n\n```text\n(.*?)```$", PAGE.read_text(), re.M | re.S)
    assert printed == shown
    assert ending(printed).exploitability == 1


def test_pettingzoo_drop_in(tmp_path):
    games = 300
    printed = run(EXAMPLES / "pettingzoo_drop_in.py", tmp_path, "--games", games)
    rows = [[float(share) / 100 for share in re.findall(r"(\S+)%", line)] for line in printed.splitlines()[1:3]]
    assert rows[1] == pytest.approx(outcome(Game(), "random", "random"), abs=5.1e-5)
    for counted, exact in zip(*rows, strict=True):
        assert abs(counted - exact) < 4 * (exact * (1 - exact) / games) ** 0.5
    assert ending(printed).exploitability == pytest.approx(exploitability(Game(), "random"), abs=5.1e-5)


def test_q_learning_from_scratch(tmp_path):
    before, after = (
        float(run(EXAMPLES / "q_learning_from_scratch.py", tmp_path, "--episodes", games).split(": ")[1])
        for games in (1, 4_000)
    )
    assert 0 <= after < before <= 1


def test_text_observations(tmp_path):
    printed = run(EXAMPLES / "text_observations.py", tmp_path, "--games", 60)
    numbers = [list(map(int, re.findall(r"\d+", line))) for line in printed.splitlines() if "illegal" in line]
    (moves, illegal, given_up), _ = numbers
    assert 60 < moves > illegal > 0 == given_up  # it overlooks stones, and finds a legal move when told
    assert ending(printed).exploitability == 1  # a player who is never blocked


@pytest.mark.needs("open_spiel")
def test_open_spiel_bot(tmp_path):
    board = ("--rows", 2, "--columns", 3, "--win-length", 2)
    printed = run(EXAMPLES / "open_spiel_bot.py", tmp_path, "--policy", "random", "--games", 20, *board)
    theirs, ours = re.findall(r"^exploitability by \S+: (\S+), ", printed, re.M)
    assert theirs == ours
    assert 0 < float(ours) < 1


@pytest.mark.needs("IPython", "matplotlib")
def test_tour_as_a_script(tmp_path):
    (tmp_path / "empty").mkdir()
    text, count = re.subn(r"^GAMES = .*?(?=  #|$)", "GAMES = 2000", (EXAMPLES / "tour.py").read_text(), flags=re.M)
    assert count == 1
    (tmp_path / "tour.py").write_text(text)
    printed = run(tmp_path / "tour.py", tmp_path / "empty")
    before, after = map(float, re.findall(r"games (\S+?),? ?(?:$|after)", printed.splitlines()[3] + "\n"))
    assert 0 <= after < before == pytest.approx(exploitability(Game(3, 3, 3, 0.25), "random"), abs=5.1e-5)
    assert ending(printed).exploitability == after


@pytest.mark.slow
@pytest.mark.needs("nbclient", "jupytext", "ipykernel", "matplotlib")
def test_tour_as_a_notebook(tmp_path, monkeypatch):
    import jupytext
    from nbclient import NotebookClient

    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.chdir(tmp_path)
    notebook = jupytext.read(EXAMPLES / "tour.py")
    NotebookClient(notebook, kernel_name="python3").execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert sum("image/png" in output.get("data", {}) for output in outputs) == 5
    printed = "".join(output["text"] for output in outputs if output.output_type == "stream")
    assert ending(printed).exploitability < 0.02  # random play has 0.70


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "steps", "least"),
    [pytest.param(name, *row[:2], marks=pytest.mark.needs(*row[2])) for name, row in TRAININGS.items()],
)
def test_trainings_end_with_a_player_that_has_learned(name, steps, least, tmp_path):
    printed = run(EXAMPLES / f"{name}.py", tmp_path, "--steps", steps)
    results = ending(printed).results
    assert results["random"][0] > least
    assert set(results) == {"random", "optimal"}


@pytest.mark.needs("torch")
@pytest.mark.parametrize("name", ["examples.bench_dqn:DQN", "examples.bench_ppo:PPO"])
@pytest.mark.parametrize(
    ("task", "steps", "least"),
    [
        ("random", 2_500, 0.1),
        *(pytest.param(task, 20_000, -1.0, marks=pytest.mark.slow) for task in ("masks", "skips-shown")),
    ],
)
def test_agents_of_the_benchmark(name, task, steps, least):
    chosen = shorten(find_task(task), steps)
    agent = load_agent(name)(chosen, 0)
    env = CountedEnv(chosen.make_env(0, **getattr(agent, "env_options", {})), (steps,), lambda steps: None)
    with RandomState(threads=1), pytest.raises(BudgetSpent):
        agent.learn(env, steps)
    policies = [agent_policy(agent, chosen, game) for game in chosen.games]
    assert score_policies(chosen, policies).score > least  # of random play 0
