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
from ttt_eval.benchmark.runs import shorten
from ttt_eval.benchmark.scoring import score_policies
from ttt_eval.benchmark.tasks import BudgetSpent, find_task
from ttt_eval.exact.dynamic_programming import exploitability, outcome

EXAMPLES, PAGE = ROOT / "examples", ROOT / "docs" / "examples.md"
QUICK = {"own_agent", "pettingzoo_drop_in", "q_learning_from_scratch", "text_observations", "open_spiel_bot", "tour"}
HERE = {
    "sb3_dqn",
    "sb3_ppo",
    "sb3_maskable_ppo",
    "cleanrl_style_dqn",
    "cleanrl_style_ppo",
    "bench_dqn",
    "bench_ppo",
}
ELSEWHERE = {
    "tianshou_dqn": "test_tianshou.py",
    "torchrl_ppo": "test_torchrl.py",
    "pufferlib_a2c": "test_pufferlib.py",
    "rllib_self_play": "test_rllib.py",
    "bench_tianshou": "test_tianshou.py",
    "bench_torchrl": "test_torchrl.py",
    "bench_rllib": "test_rllib.py",
}
OURS = rf"^(?:{ROOT}/(?:ttt_envs|baselines|learners|evaluation|ttt_apps|examples)/|<).*Warning.*"


def run(path, folder, *arguments):
    """Run a script and return its output; warnings about our code are failures."""
    variables = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "MPLBACKEND": "agg"}
    done = run_python("-W", "default", path, *arguments, cwd=folder, **variables)
    warned = re.findall(OURS, done.stderr, re.M)
    assert not warned, warned
    assert list(folder.iterdir()) == []  # nothing is left behind
    return done.stdout


def shortened(name, settings, folder):
    """An example with other settings at its top."""
    text = (EXAMPLES / f"{name}.py").read_text()
    for setting, value in settings.items():
        text, count = re.subn(rf"^{setting} = .*?(?=  #|$)", f"{setting} = {value}", text, flags=re.M)
        assert count == 1
    path = folder / f"{name}.py"
    path.write_text(text)
    return path


def on_the_page(name):
    """The block of the page that shows what an example printed."""
    [printed] = re.findall(rf"^python examples/{name}\.py\n```\n\n```text\n(.*?)```$", PAGE.read_text(), re.M | re.S)
    return printed


def test_every_example_is_tested_and_documented():
    names = {path.stem for path in EXAMPLES.glob("*.py")}
    assert names == QUICK | HERE | set(ELSEWHERE)
    page = PAGE.read_text()
    for name in names:
        assert f"examples/{name}.py" in page
        assert f"examples/{name}.py" in (EXAMPLES / f"{name}.py").read_text()  # it says how it is run
    for name, tests in ELSEWHERE.items():
        call = f'bench("examples.{name}:' if name.startswith("bench_") else f'example("{name}.py"'
        assert call in (clients.HERE / tests).read_text()


def test_rllib_is_tested_with_its_requirements_file():
    lines = (EXAMPLES / "rllib-requirements.txt").read_text().splitlines()
    assert {line for line in lines if not line.startswith("#")} == {"torch", *clients.ENVIRONMENTS["rllib"]}


def test_own_agent(tmp_path):
    printed = run(EXAMPLES / "own_agent.py", tmp_path)
    assert printed == on_the_page("own_agent")
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
    assert "legal actions: 0 (a1), 1 (b1)" in printed
    numbers = [list(map(int, re.findall(r"\d+", line))) for line in printed.splitlines() if "illegal" in line]
    (moves, illegal, given_up), (positions, illegal_at) = numbers
    assert 60 < moves > illegal > 0 == given_up  # it overlooks stones, and finds a legal move when told
    assert 60 < positions > illegal_at > 60
    counted, exact = (float(share) for share in re.findall(r"^against random, .*: (\S+)% won", printed, re.M))
    assert abs(counted - exact) < 25
    assert ending(printed).exploitability == 1  # a player who is never blocked


@pytest.mark.needs("open_spiel")
def test_open_spiel_bot(tmp_path):
    board = ("--rows", 2, "--columns", 3, "--win-length", 2)
    printed = run(EXAMPLES / "open_spiel_bot.py", tmp_path, "--policy", "random", "--games", 20, *board)
    theirs, ours = re.findall(r"^exploitability by \S+: (\S+), ", printed, re.M)
    assert theirs == ours
    assert 0 < float(ours) < 1
    assert "random against optimal: 0.00%" not in printed
    points, low, high = map(float, re.findall(r"(\d\.\d+)", printed.splitlines()[0]))
    assert 0 < low < points < high < 1


@pytest.mark.needs("IPython", "matplotlib")
def test_tour_as_a_script(tmp_path):
    (tmp_path / "empty").mkdir()
    printed = run(shortened("tour", {"GAMES": 2_000}, tmp_path), tmp_path / "empty")
    before, after = map(float, re.findall(r"games (\S+?),? ?(?:$|after)", printed.splitlines()[3] + "\n"))
    assert 0 <= after < before == pytest.approx(exploitability(Game(3, 3, 3, 0.25), "random"), abs=5.1e-5)
    assert ending(printed).exploitability == after
    estimate, low, high = map(float, re.findall(r"(\d\.\d+)", printed.splitlines()[-3]))
    exact = float(printed.splitlines()[-2].removeprefix("exactly: "))
    assert 0 < low <= estimate <= high < 1
    assert abs(estimate - exact) < 2 * (high - low)


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
    pictures = [output for output in outputs if "image/png" in output.get("data", {})]
    assert len(pictures) == 5
    printed = "".join(output["text"] for output in outputs if output.output_type == "stream")
    assert ending(printed).exploitability < 0.02  # random play has 0.70


@pytest.mark.slow
@pytest.mark.needs("torch")
@pytest.mark.parametrize(("name", "steps"), [("cleanrl_style_dqn", 30_000), ("cleanrl_style_ppo", 60_000)])
def test_cleanrl_style(name, steps, tmp_path):
    printed = run(EXAMPLES / f"{name}.py", tmp_path, "--steps", steps)
    won, _, lost = ending(printed).results["random"]
    assert won > 80 > 10 > lost  # random play wins 43.65%
    assert printed.count("moves, exploitability") >= 5


@pytest.mark.needs("torch")
@pytest.mark.parametrize("name", ["examples.bench_dqn:DQN", "examples.bench_ppo:PPO"])
@pytest.mark.parametrize(
    ("task", "steps", "least"),
    [
        ("random", 2_500, 0.1),
        pytest.param("chance-25", 20_000, 0.0, marks=pytest.mark.slow),
        pytest.param("masks", 20_000, -1.0, marks=pytest.mark.slow),
        pytest.param("self-play-skip", 20_000, -1.0, marks=pytest.mark.slow),
        pytest.param("skips-shown", 5_000, -1.0, marks=pytest.mark.slow),
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


@pytest.mark.slow
@pytest.mark.needs("stable_baselines3", "sb3_contrib")
def test_sb3_dqn(tmp_path):
    printed = run(EXAMPLES / "sb3_dqn.py", tmp_path, "--steps", 15_000)
    assert float(re.search(r"legal: (\S+)% of", printed)[1]) > 80
    assert ending(printed).results["random"][0] > 50


@pytest.mark.slow
@pytest.mark.needs("stable_baselines3", "sb3_contrib")
def test_sb3_ppo(tmp_path):
    printed = run(EXAMPLES / "sb3_ppo.py", tmp_path, "--steps", 12_000)
    rows = re.findall(r"^ +\d+,\d+ +(\d\.\d+) +(\S+)% +(\S+)%$", printed, re.M)
    assert len(rows) >= 6
    assert float(rows[-1][1]) > float(rows[0][1])  # it wins more against random play
    assert set(ending(printed).results) == {"random", "optimal"}


@pytest.mark.slow
@pytest.mark.needs("stable_baselines3", "sb3_contrib")
def test_sb3_maskable_ppo(tmp_path):
    printed = run(EXAMPLES / "sb3_maskable_ppo.py", tmp_path, "--steps", 8_000, "--games", 400)
    forgotten, sampled, exact = map(float, re.findall(r"^mean result.*: (-?\d\.\d+)", printed, re.M))
    assert abs(sampled - exact) < 0.2  # four standard errors
    assert forgotten < exact - 0.2
    assert set(ending(printed).results) == {"random", "optimal"}
