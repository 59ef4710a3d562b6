"""Results of right learners in the probes: ``python tools/learner_runs.py FILE --log LOG``, of
ttt_eval/checks/learner.toml for the limits of ``check_learner``.

The learners are those of examples/checks. A run is stored in the log, a file of JSON lines, and is
not repeated.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import tyro
from planted_learners import plant

from ttt_eval.checks.learner import measure_agent
from ttt_eval.checks.probes import PROBES

NUM_RUNS = {"tabular": 200, "dqn": 40, "ppo": 40}
MAX_RUNS = max(NUM_RUNS.values())
FIRST_SEED = 1_000


def make_runs(log: Path) -> list[dict[str, Any]]:
    """Return all runs, those of the log first."""
    lines = log.read_text("utf-8").splitlines() if log.exists() else []
    rows = [json.loads(line) for line in lines]
    known = {(row["family"], row["probe"], row["seed"]) for row in rows}
    with log.open("a", encoding="utf-8") as file:
        for seed, family, (name, probe) in product(range(MAX_RUNS), NUM_RUNS, PROBES.items()):
            if seed >= NUM_RUNS[family] or (family, name, seed) in known:
                continue
            agent = plant(family)(probe.make_env, probe.steps, FIRST_SEED + seed)
            run = measure_agent(probe, agent)._replace(mistake=None)
            row = {"family": family, "probe": name, "seed": seed, **run._asdict()}
            file.write(f"{json.dumps(row)}\n")
            file.flush()
            rows.append(row)
    return rows


def summarize(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Yield the lines of the file of the limits."""
    yield "# Made by tools/learner_runs.py"
    for family, name in product(NUM_RUNS, PROBES):
        chosen = [row for row in rows if (row["family"], row["probe"]) == (family, name)]
        scores = np.array([row["score"] for row in chosen])
        errors = np.array([row["error"] for row in chosen])
        entropies = np.array([row["entropy"] for row in chosen])
        yield f"\n[{family}.{name}]"
        yield f"runs = {len(chosen)}"
        yield f"min_score = {scores.min():.3f}"
        yield f"mean_score = {scores.mean():.3f}"
        yield f"sd_score = {scores.std():.3f}"
        yield f"max_error = {errors.max():.3f}"
        yield f"mean_error = {errors.mean():.3f}"
        yield f"sd_error = {errors.std():.3f}"
        if np.isfinite(entropies).all():
            yield f"entropies = [{entropies.min():.2f}, {entropies.max():.2f}]"


def main(file: tyro.conf.Positional[Path], log: Path) -> None:
    """Train what the log does not have, and write the file.

    Args:
        file: the TOML file.
        log: the file of JSON lines.
    """
    file.write_text("\n".join([*summarize(make_runs(log)), ""]), encoding="utf-8")


if __name__ == "__main__":
    tyro.cli(main)
