"""CleanRL: its single-file scripts as they are, with another id on their command line."""

import math
import re

import pytest

for module in (
    "torch",
    "tyro",
    "tensorboard",
):  # what the scripts import; CleanRL itself is a checkout
    pytest.importorskip(module)

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

ID = "ttt_envs:ttt/TicTacToe-v0"
LOSSES = {"ppo": "losses/value_loss", "dqn": "losses/td_loss"}


@pytest.mark.parametrize("name", ["ppo", "dqn"])
def test_script(name, checkout, python, tmp_path):
    """`{name}.py --env-id ttt_envs:ttt/TicTacToe-v0`, only the id changed, 20,000 steps: to its
    end, losses finite
    """
    root = checkout("cleanrl")
    steps = ("--total-timesteps", "20000", "--no-cuda")
    python(root / "cleanrl" / f"{name}.py", "--env-id", ID, *steps, path=[root])
    check_events(name, tmp_path)


def test_vectors(checkout, python, tmp_path):
    """`ppo.py` with `gymnasium.make_vec` of 64 games in the place of its `SyncVectorEnv`, 65,536
    steps
    """
    text = (checkout("cleanrl") / "cleanrl" / "ppo.py").read_text()
    made = 'gym.make_vec(args.env_id, args.num_envs, opponent="random")'
    text, count = re.subn(
        r"gym\.vector\.SyncVectorEnv\(\n.*?\n    \)\n", f"{made}\n", text, flags=re.S
    )
    assert count == 1
    script = tmp_path / "ppo.py"
    script.write_text(text)
    sizes = ("--num-envs", "64", "--num-steps", "32", "--total-timesteps", "65536", "--no-cuda")
    python(script, "--env-id", ID, *sizes)
    check_events("ppo", tmp_path)


def check_events(name, folder):
    """Check what a script has logged to a folder."""
    [events] = (folder / "runs").rglob(
        "events.out.tfevents.*"
    )  # they print no returns with Gymnasium 1
    events_read = EventAccumulator(str(events)).Reload()
    losses = [point.value for point in events_read.Scalars(LOSSES[name])]
    assert len(losses) > 10
    assert all(map(math.isfinite, losses))
    assert events_read.Scalars("charts/SPS")[-1].step >= 19_000
