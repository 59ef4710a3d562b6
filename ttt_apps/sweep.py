"""``train.py --sweep FILE``: train many runs described in a file, on all cores or on a cluster, and tabulate them."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import tyro

from ttt_apps import cli
from ttt_apps.runs import compared_policies, complete_run, new_run_config
from ttt_apps.train_options import MEASURED, Options, batch_note, folder_name, parse_options
from ttt_apps.train_subprocess import train_in_subprocess
from ttt_apps.versions import make_provenance
from ttt_envs.agents.policy import Policy
from ttt_envs.agents.specs import FromFile, make_policy, parse_spec, trusted
from ttt_envs.core.files import read_bounded, write_atomically
from ttt_envs.game.game import Game
from ttt_envs.game.phantom import AnyGame, PhantomGame, game_from_dict
from ttt_envs.graph.layers import check_cells
from ttt_eval import sweep as sweeps
from ttt_eval.exact.estimate import boards_by_stones
from ttt_eval.exact.strength import strength
from ttt_eval.matches.match import play_pairs
from ttt_eval.policy_identity import policy_identity
from ttt_eval.reports.sweep import write_sweep_curves
from ttt_eval.result_store import Unit, collect_results
from ttt_eval.run_files import DERIVED_FILES, REPORT, RUN_FILES, RunDirectory

RUNS = "runs"
"""Folder of a sweep's runs."""
BROUGHT = tuple(name for name in RUN_FILES if name not in DERIVED_FILES)
"""Files that a run on another machine sends back; the others are made here."""
SAMPLED = 2_000
"""Number of pairs of games against random, for learners that cannot be measured exactly."""
REFUSED = (
    "out", "overwrite", "seed", "sweep", "resume", "trust", "cluster", "jobs", "threads", "json", "help",
    "tyro-print-completion", "tyro-write-completion",
)  # fmt: skip
"""Options that the file of a sweep cannot have: they are those of the command, or write files."""


@dataclass(frozen=True)
class Sweep(cli.ReportOptions, cli.TrustOptions, cli.WorkOptions):
    """Train the runs described in a file, each with several seeds, and print one table of their results.

    The file is written in TOML:

        seeds = 3                            # 0, 1 and 2; or a list of seeds
        fixed = {games = 2000}               # options of train.py that all runs have
        grid = {epsilon = [0.1, 0.3]}        # every combination of these
        [[runs]]                             # each of these with every combination
        learner = "q-learning"
        [[runs]]                             # a learner of yours, see CONTRIBUTING.md; needs --trust
        learner = "favourite:FavouriteConfig"
        [[runs]]                             # a policy, which is measured and not trained
        agent = "win-or-block"

    After a stop or kill, the same command continues the sweep, with an identical final result.
    """

    sweep: Path = tyro.MISSING
    """the file"""
    out: Path | None = None
    """folder for the table, the curves, the page and the runs; default: runs/sweep-NAME after the file"""

    def run(self) -> None:
        """Train the missing runs, write and print.

        Raises:
            ValueError: a file that describes no runs, invalid options.
            Stopped: an interrupt; completed work is stored.
        """
        workers = self.workers()
        rows, seeds = sweeps.read_sweep(self.sweep, REFUSED)
        units = sweep_units(self.sweep, rows, seeds)
        folder = self.out or Path(RUNS, f"sweep-{self.sweep.stem}")
        provenance = make_provenance()
        runs = folder / RUNS
        work = partial(train_unit, None if isinstance(workers, str) else str(runs.absolute()), provenance)
        with cli.report_interrupt(folder), cli.bar("training runs") as progress:
            numbers = collect_results(
                work,
                units,
                folder,
                provenance,
                jobs=workers,
                other_files=(sweeps.RESULT, sweeps.TABLE, sweeps.CURVES, REPORT),
                postprocess=partial(_write_files, runs),
                progress=progress,
            )
            for unit in units:
                if sweeps.AGENT not in unit:
                    complete_run(runs / unit["name"])
        results = [sweeps.RunResult(unit["row"], unit["seed"], row) for unit, row in zip(units, numbers, strict=True)]
        lines = sweeps.aggregate_runs(rows, results)
        folders = [
            {**result._asdict(), "run": f"{RUNS}/{unit['name']}"} for result, unit in zip(results, units, strict=True)
        ]
        sweeps.write_sweep(folder, self.sweep.name, provenance, lines, folders, trust=self.trust)
        curves = write_sweep_curves(folder)
        options = sweeps.varied_options(rows)
        names, *cells = (row[len(options) :] for row in sweeps.table_rows(lines))
        settings = [{"setting": sweeps.setting_name(row, options)} for row in rows]
        table = [setting | dict(zip(names, row, strict=True)) for setting, row in zip(settings, cells, strict=True)]
        self.show_folder(
            folder / sweeps.RESULT,
            cli.rows_table(table, title=f"{self.sweep.name}: means over seeds, and 95% intervals"),
            others=[folder / sweeps.TABLE, *([] if curves is None else [curves]), runs],
        )


def sweep_units(path: Path, rows: Sequence[Mapping[str, Any]], seeds: Sequence[int]) -> list[dict[str, Any]]:
    """Return the runs of a sweep, with options validated as on the command line.

    Raises:
        ValueError: invalid options.
    """
    units = []
    for number, row in enumerate(rows):
        try:
            _check_trusted(row)
            options, settings = parse_options(sweeps.to_command_line({**row, sweeps.AGENT: False}), "train.py")
            if isinstance(game := options.game(), PhantomGame):
                check_cells(game)  # which is how its policies are measured
            if sweeps.AGENT in row:
                units.append(_agent_unit(number, str(row[sweeps.AGENT]), options))
                continue
            if note := batch_note(options, settings):
                cli.warn(f"run {number + 1} of {path}: {note}")
            config = new_run_config(options, settings)
        except (ValueError, TypeError, MemoryError) as problem:
            raise cli.UsageError(f"run {number + 1} of {path}: {problem}") from None
        except SystemExit:  # the parser has said why
            raise cli.UsageError(f"run {number + 1} of {path} has options that train.py does not take") from None
        del config["versions"], config["revision"]  # those of the sweep's start
        own = {"identity": policy_identity(options.learner)} if ":" in options.learner else {}
        for seed in seeds:
            name = f"{number + 1:04d}-{folder_name([options.learner])}-{options.game().slug}-seed{seed}"
            units.append({"row": number, "seed": seed, "name": name, "config": {**config, "seed": seed}, **own})
    return units


def _check_trusted(row: Mapping[str, Any]) -> None:
    """Raise ValueError if a setting names a class outside this package, and files are not trusted."""
    names = {name: str(row[name]) for name in (sweeps.AGENT, "learner") if name in row}
    for name, value in names.items():
        own = ":" in (parse_spec(value).name if name == sweeps.AGENT else value)
        if own and not trusted():
            raise cli.UsageError(f"{name} {value} is a class outside this package: add --trust to run it")


def _agent_unit(number: int, agent: str, options: Options) -> dict[str, Any]:
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


def train_unit(runs: str | None, provenance: Mapping[str, str], unit: Unit) -> dict[str, Any]:
    """Train a run in a separate process and evaluate it, or evaluate an agent.

    Args:
        runs: folder of the sweep's runs; None on a machine without it: then the result includes the run's files.
        provenance: of the sweep.
        unit: of :func:`sweep_units`.

    Returns:
        ``numbers``, and ``files`` by name if they are sent.
    """
    if sweeps.AGENT in unit:
        game = game_from_dict(unit["game"])  # agent and opponent are those of a file
        return {
            "numbers": measure_policy(game, make_policy(FromFile(unit[sweeps.AGENT]), game), FromFile(unit["opponent"]))
        }
    with tempfile.TemporaryDirectory() if runs is None else nullcontext(runs) as folder:
        run = RunDirectory(Path(folder, unit["name"]))
        packages = {name: version for name, version in provenance.items() if name != "code"}
        config = {**unit["config"], "versions": packages}
        train_in_subprocess(config, run)
        result: dict[str, Any] = {"numbers": measure_run(run, config)}
        if runs is None:
            paths = [run.path / name for name in BROUGHT]
            result["files"] = {path.name: read_bounded(path) for path in paths if path.exists()}
        return result


def measure_run(run: RunDirectory, config: Mapping[str, Any]) -> dict[str, float]:
    """Measure the strength of a run, as :func:`measure_policy` does, and its cost."""
    game = game_from_dict(config["game"])
    numbers = measure_policy(game, make_policy(run.policy, game), FromFile(config["opponent"]))
    cost = run.read_cost()
    numbers["cpu_s"] = cost["training"]["cpu_user_s"] + cost["training"]["cpu_system_s"]
    numbers["peak_rss_bytes"] = max(phase["peak_rss_bytes"] for phase in cost.values())
    return numbers


def measure_policy(game: AnyGame, policy: Policy, opponent: str) -> dict[str, float]:
    """Measure the strength of a policy, exactly up to 3 x 3 and in phantom games, else by matches against random."""
    # a count, not a time, so that every machine measures the same
    if isinstance(game, Game) and (not policy.pure or sum(boards_by_stones(game)) > MEASURED):
        return {"score_against_random": play_pairs(game, policy, "random", SAMPLED).rate("score").mean}
    exact = strength(game, policy, compared_policies(game, replace(Options(), opponent=opponent).fixed_opponent))
    return exact.measures | {f"score_against_{opponent}": result.score for opponent, result in exact.results.items()}


def _write_files(runs: Path, unit: Unit, result: Mapping[str, Any]) -> Any:
    """Write the files that came with a result; return the numbers to store."""
    for name, content in result.get("files", {}).items():
        (runs / unit["name"]).mkdir(parents=True, exist_ok=True)
        write_atomically(runs / unit["name"] / name, lambda file, content=content: file.write(content))
    return result["numbers"]
