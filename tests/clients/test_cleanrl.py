"""CleanRL: its single-file scripts as they are, with another id on their command line."""

import re

import pytest

for module in ("torch", "tyro", "tensorboard"):  # what the scripts import; CleanRL itself is a checkout
    pytest.importorskip(module)

ID = "ttt_envs:ttt/TicTacToe-v0"


@pytest.mark.parametrize("name", ["ppo", "dqn"])
def test_script(name, checkout, python, timed, tmp_path):
    """`{name}.py --env-id ttt_envs:ttt/TicTacToe-v0`, 20,000 steps: it learns not to lose by illegal moves"""
    root = checkout("cleanrl")
    with timed(20_000):
        printed = python(
            root / "cleanrl" / f"{name}.py", "--env-id", ID, "--total-timesteps", "20000", "--no-cuda", path=[root]
        )
    assert "SPS" in printed
    assert list((tmp_path / "runs").rglob("events.out.tfevents.*"))
    returns = [float(value) for value in re.findall(r"episodic_return=\[?(-?[\d.]+)", printed)]
    assert set(returns) <= {-1.0, 0.0, 1.0}
    if returns:
        assert sum(returns[-500:]) / len(returns[-500:]) > sum(returns[:500]) / len(returns[:500])
