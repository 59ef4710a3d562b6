"""What a run costs, by phase."""

import numpy as np

from evaluation.cost import Meter


def test_work_is_booked_on_the_phase_in_which_it_was_done():
    meter = Meter()
    meter.end("idle")
    total = 0.0
    for _ in range(30):
        total += float(np.linalg.norm(np.random.default_rng(0).random((300, 300)) @ np.ones((300, 300))))
    block = np.ones(30_000_000)
    meter.end("busy")
    idle, busy = meter.phases["idle"], meter.phases["busy"]
    assert busy["cpu_user_s"] + busy["cpu_system_s"] > idle["cpu_user_s"] + idle["cpu_system_s"]
    assert busy["peak_rss_bytes"] >= max(idle["peak_rss_bytes"], block.nbytes)
    assert all(value >= 0 for phase in meter.phases.values() for value in phase.values())
