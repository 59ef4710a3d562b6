"""Costs of phases and of moves."""

import numpy as np
import pytest

from ttt_envs import Game
from ttt_eval.matches.move_cost import measure_move_costs
from ttt_eval.store.cost import Meter

pytestmark = pytest.mark.more


def test_meter_adds_usage_to_the_current_phase():
    meter = Meter()
    meter.end("idle")
    total = 0.0
    for _ in range(30):
        total += float(
            np.linalg.norm(np.random.default_rng(0).random((300, 300)) @ np.ones((300, 300)))
        )
    block = np.ones(30_000_000)
    meter.end("busy")
    idle = meter.phases["idle"]
    busy = meter.phases["busy"]
    assert busy["cpu_user_s"] + busy["cpu_system_s"] > idle["cpu_user_s"] + idle["cpu_system_s"]
    assert busy["peak_rss_bytes"] >= max(idle["peak_rss_bytes"], block.nbytes)
    assert all(value >= 0 for phase in meter.phases.values() for value in phase.values())


def test_move_costs_are_measured_in_a_process(tmp_path, monkeypatch):
    (tmp_path / "heavy.py").write_text(
        "import numpy as np\nfrom ttt_envs.agents.simple import Random\n\n\nclass Heavy(Random):\n"
        "    def __init__(self, game):\n        super().__init__(game)\n        self.held = "
        "np.ones(1 << 24)\n\n"
        "    def act(self, boards, rng):\n        sum(range(200_000))\n        return "
        "super().act(boards, rng)\n\n\ndef dies(game):\n    import os\n    os._exit(1)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delenv("TTT_ENVS_INTERPRET", raising=False)
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))  # nothing is compiled yet
    light, heavy = measure_move_costs(Game(2, 2, 2), "random", "heavy:Heavy")
    assert heavy.cpu_s_per_move > 20 * light.cpu_s_per_move > 0
    assert light.own_bytes < 1 << 26 < 15 << 23 <= heavy.own_bytes  # the compiler is not counted
    assert heavy.peak_rss_bytes > heavy.own_bytes
    for spec, problem in (
        ("rndom", "there is no policy 'rndom': did you mean 'random'"),
        ("heavy:dies", "the process that measures heavy:dies died"),
    ):
        with pytest.raises(ValueError, match=problem):
            measure_move_costs(Game(2, 2, 2), spec)
