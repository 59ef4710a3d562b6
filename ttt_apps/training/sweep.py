"""``train.py sweep FILE``: train many runs described in a file, on all cores or on a cluster, and
tabulate them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import tyro

from ttt_apps.cli import options as cli
from ttt_apps.training.options import Options, folder_name, options_from_values
from ttt_apps.training.runs import compared_policies, new_run_config, report_run
from ttt_envs.agents.policy import Policy
from ttt_envs.agents.specs import FromFile, make_policy, trusted
from ttt_envs.core.checks import Refusal
from ttt_envs.core.files import make_subfolder, read_bounded, write_bytes
from ttt_envs.core.packages import ROOT
from ttt_envs.game.game import Game
from ttt_envs.game.phantom import AnyGame, PhantomGame, game_from_dict
from ttt_envs.graph.estimate import check_traversable, is_measured_at_once
from ttt_eval.exact.strength import strength
from ttt_eval.matches.match import play_pairs
from ttt_eval.reports.sweep import write_table
from ttt_eval.runs import sweep as sweeps
from ttt_eval.runs.run_files import REPORT, RUN_FILES, RunDirectory
from ttt_eval.store.cost import Usage, cpu_seconds, measure_usage
from ttt_eval.store.policy_identity import policy_identity
from ttt_eval.store.result_store import TABLE, Data, Unit, collect_results
from ttt_eval.store.versions import make_provenance

RUNS = "runs"
"""Folder of a sweep's runs."""
SAMPLE_PAIRS = 2_000
"""Number of pairs of games against random, for learners that cannot be measured exactly."""
REFUSED_OPTIONS = (
    "out",
    "overwrite",
    "seed",
    "trust",
    "cluster",
    "jobs",
    "threads",
    "json",
    "help",
    "tyro-print-completion",
    "tyro-write-completion",
)
"""Options that the file of a sweep cannot have: they are those of the command, or write files."""
TRAIN = (
    "import os; from ttt_envs.core.packages import end_with_process; "
    "end_with_process(os.getppid()); from ttt_apps.training.command import main; main()"
)
"""Code of a process that trains: a killed command leaves no process behind that holds the lock of a
run.
"""


@dataclass(frozen=True)
class Sweep(cli.ReportOptions, cli.TrustOptions, cli.WorkOptions):
    """Train the runs described in a file, each with several seeds, and print one table of their
    results.

    The file is written in TOML:

        seeds = 3                      # 0, 1 and 2; or a list of seeds
        fixed = {games = 2000}         # options that all runs have
        grid = {epsilon = [0.1, 0.3]}  # every combination of these
        [[runs]]                       # each of these with every combination
        learner = "q-learning"
        [[runs]]                       # a learner of yours; needs --trust
        learner = "favourite:FavouriteConfig"
        [[runs]]                       # a policy, which is only measured
        agent = "win-or-block"

    After a stop or kill, the same command continues the sweep, with an identical final result.
    """

    file: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")] = tyro.MISSING
    """the file"""
    out: Path | None = None
    """folder for the table, the page and the runs; default: runs/sweep-NAME after the file"""

    def run(self) -> None:
        """Train the missing runs, write and print.

        Raises:
            ValueError: a file that describes no runs, invalid options.
            Stopped: an interrupt; completed work is stored.
        """
        workers = self.workers()
        rows, seeds = sweeps.read_sweep(self.file, REFUSED_OPTIONS)
        units = sweep_units(self.file, rows, seeds)
        folder = self.out or Path(RUNS, f"sweep-{self.file.stem}")
        provenance = make_provenance()
        places = [{"run": f"{RUNS}/{unit['name']}"} for unit in units]
        self.check_folder(
            folder,
            {"kind": "sweep", "source": self.file.name},
            {"runs": places, "table": [{"options": row} for row in rows]},
        )
        work = partial(
            train_unit, None if isinstance(workers, str) else str(folder.absolute()), provenance
        )
        with cli.bar("training runs", folder) as progress:
            numbers = collect_results(
                work,
                units,
                folder,
                provenance,
                jobs=workers,
                postprocess=partial(_write_files, folder),
                progress=progress,
            )
        runs = [
            sweeps.SweepRun(unit["row"], unit["seed"], row, place["run"])
            for unit, row, place in zip(units, numbers, places, strict=True)
        ]
        result = sweeps.SweepResult(
            source=self.file.name,
            trust=self.trust,
            provenance=provenance,
            table=sweeps.tabulate_runs(rows, runs),
            runs=runs,
            folder=folder,
        )
        result.write(folder)
        title = f"{self.file.name}: means over seeds, and 95% intervals"
        self.show_folder(
            folder,
            cli.texts_table(write_table(result), title),
            other_files=[folder / TABLE, folder / RUNS],
        )


def sweep_units(
    path: Path, rows: Sequence[Mapping[str, object]], seeds: Sequence[int]
) -> list[Data]:
    """Return the runs of a sweep, with options validated as on the command line.

    Raises:
        ValueError: invalid options.
    """
    units = []
    for number, row in enumerate(rows):
        try:
            if ":" in str(row.get("learner", "")) and not trusted():
                raise Refusal(
                    f"learner {row['learner']} is a class outside this package: add --trust to run "
                    "it"
                )
            values = {name: value for name, value in row.items() if name != sweeps.AGENT}
            options, settings = options_from_values(values)
            game = options.game()
            if isinstance(game, PhantomGame):
                check_traversable(game)  # which is how its policies are measured
            if sweeps.AGENT in row:
                units.append(_agent_unit(number, str(row[sweeps.AGENT]), options))
                continue
            config = new_run_config(options, settings, f"run {number + 1} of {path}: ")
        except (ValueError, TypeError, MemoryError) as problem:
            raise Refusal(f"run {number + 1} of {path}: {problem}") from None
        except SystemExit:  # the parser has said why
            raise Refusal(
                f"run {number + 1} of {path} has options that train.py does not take"
            ) from None
        del config["versions"], config["revision"]  # those of the sweep's start
        # in the run's config too, so that a run of an older class is refused, and not taken for one
        # of this class
        if ":" in options.learner:
            config["identity"] = policy_identity(options.learner)
        learner = folder_name([options.learner])
        for seed in seeds:
            name = f"{number + 1:04d}-{learner}-{game.slug}-seed{seed}"
            unit_config = {**config, "seed": seed}
            units.append({"row": number, "seed": seed, "name": name, "config": unit_config})
    return units


def _agent_unit(number: int, agent: str, options: Options) -> dict[str, object]:
    """Return the unit of an agent, which is measured once: it does not depend on seeds."""
    game = options.game()
    make_policy(FromFile(agent), game)  # reports a wrong name before the first training
    return {
        "row": number,
        "seed": 0,
        "name": f"{number + 1:04d}-{folder_name([agent])}-{game.slug}",
        "agent": agent,
        "identity": policy_identity(agent),
        "game": game.to_dict(),
        "opponent": options.opponent,
    }


def train_unit(study: str | None, provenance: Mapping[str, str], unit: Unit) -> dict[str, object]:
    """Train a run in a separate process and evaluate it, or evaluate an agent.

    Args:
        study: folder of the sweep; None on a machine without it: then the result includes the run's
            files.
        provenance: of the sweep.
        unit: of :func:`sweep_units`.

    Returns:
        ``numbers``, and ``files`` by name if they are sent.
    """
    if sweeps.AGENT in unit:
        game = game_from_dict(unit["game"])  # agent and opponent are those of a file
        agent = make_policy(FromFile(unit[sweeps.AGENT]), game)
        return {"numbers": measure_policy(game, agent, FromFile(unit["opponent"]))}
    with tempfile.TemporaryDirectory() if study is None else nullcontext(study) as folder:
        run = RunDirectory(make_subfolder(Path(folder), f"{RUNS}/{unit['name']}"))
        versions = {name: version for name, version in provenance.items() if name != "code"}
        config = {**unit["config"], "versions": versions}
        train_in_subprocess(config, run)
        result: dict[str, object] = {"numbers": measure_run(run, config)}
        if study is None:
            # the report, which names the folder, is made there
            paths = [run.path / name for name in RUN_FILES if name != REPORT]
            result["files"] = {path.name: read_bounded(path) for path in paths if path.exists()}
        return result


def measure_run(run: RunDirectory, config: Data) -> dict[str, float]:
    """Measure the strength of a run, as :func:`measure_policy` does, and its cost."""
    game = game_from_dict(config["game"])
    numbers = measure_policy(game, make_policy(run.policy, game), FromFile(config["opponent"]))
    cost = run.read_cost()
    numbers["cpu_s"] = cpu_seconds(cost["training"])
    numbers["peak_rss_bytes"] = max(phase["peak_rss_bytes"] for phase in cost.values())
    return numbers


def measure_policy(game: AnyGame, policy: Policy, opponent: str) -> dict[str, float]:
    """Measure the strength of a policy, exactly up to 3 x 3 and in phantom games, else by matches
    against random.
    """
    if isinstance(game, Game) and not (policy.pure and is_measured_at_once(game)):
        score = play_pairs(game, policy, "random", SAMPLE_PAIRS)
        return {"score_against_random": score.rate("score").mean}
    options = Options(opponent=opponent)
    exact = strength(game, policy, compared_policies(game, options.fixed_opponent))
    return exact.measures | {
        f"score_against_{opponent}": result.score for opponent, result in exact.results.items()
    }


def _write_files(folder: Path, unit: Unit, result: Data) -> object:
    """Write the files that came with a result; return the numbers to store."""
    if "files" in result:
        run = make_subfolder(folder, f"{RUNS}/{unit['name']}")
        for name, content in result["files"].items():
            write_bytes(run / name, content)
        if not unit["config"]["no_report"]:
            report_run(run)
    return result["numbers"]


def measure_training(config: dict[str, object]) -> Usage:
    """Measure the cost of training with these settings in a new process, imports included; see
    :func:`train_in_subprocess`.

    It makes no exact measurements and writes no report.
    """
    config = {**config, "exact_every": 0, "no_report": True}
    with tempfile.TemporaryDirectory() as folder:
        return train_in_subprocess(config, RunDirectory(Path(folder, "run")))


def train_in_subprocess(config: dict[str, object], run: RunDirectory) -> Usage:
    """Train in a new process, into the directory ``run``; resume a run of these settings that is
    there.

    Returns:
        The resource usage of the process, imports included; peak memory is measured by the process
        itself.

    Raises:
        ValueError: a run of other settings is there, or the process failed.
    """
    if not run.exists():
        run.write_config(config)
    new_config = json.loads(json.dumps({**config, "no_report": None}))  # which changes no result
    run_config = {**run.read_config(), "no_report": None}
    if any(run_config.get(name) != value for name, value in new_config.items()):
        raise Refusal(
            f"{run} has other settings, versions or code: choose another --out, or move it away"
        )
    # a crash in machine code prints where it happened
    command = [sys.executable, "-X", "faulthandler", "-c", TRAIN, "resume", str(run)]
    try:
        # of these packages, also in a checkout
        path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
        usage = measure_usage(command, {**os.environ, "PYTHONPATH": path})
    except subprocess.CalledProcessError as problem:
        problem.cmd = f"train.py resume {run}"
        *_, line = (problem.output.strip() or "it printed nothing").splitlines()
        sentence = line.removeprefix("error: ")
        raise Refusal(f"{problem} {sentence}. {run.resume_command} prints all output") from None
    peaks = [phase["peak_rss_bytes"] for phase in run.read_cost().values()]
    return usage._replace(peak_rss_bytes=int(max(peaks)))
