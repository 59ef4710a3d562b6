"""``evaluate.py bench``: run agents on the benchmark, and score submissions."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from ttt_apps.cli import (
    Count,
    JsonOptions,
    WorkOptions,
    count_bar,
    new_table,
    print_output,
    print_status,
    print_table,
    report_interrupt,
)

if TYPE_CHECKING:  # compiled code is imported where it is used, not where help is written
    from ttt_eval.benchmark.records import Submission, SubmissionScores
    from ttt_eval.benchmark.runs import RunSettings


@dataclass(frozen=True)
class BenchRun(WorkOptions):
    """Train an agent on the tasks of the benchmark ttt-exact, and write a submission.

    Every finished run is stored: the same command continues where it was stopped.
    """

    agent: Annotated[str, tyro.conf.arg(metavar="NAME|module:make")] = ""
    """a name, such as q-learning or sb3-ppo; or a function make(task, seed) of your own, which returns an object with
    learn(env, steps). Without one, list the names"""
    task: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME...")] = ()
    """tasks; default: all"""
    seeds: Count | None = None
    """number of seeds; default: 5, with --quick 2"""
    quick: tyro.conf.FlagCreatePairsOff[bool] = False
    """4 tasks, 2 seeds and 20,000 steps at most"""
    steps: Count | None = None
    """maximum environment steps of a run; default: those of the task"""
    every: Count = 1
    """store the last checkpoint of a run, and every so many before it"""
    name: str = ""
    """name of the agent on the leaderboard; default: that of --agent"""
    library: str = ""
    """library of the agent"""
    code: Annotated[str, tyro.conf.arg(metavar="URL")] = ""
    """address of its code"""
    tuned: tyro.conf.FlagCreatePairsOff[bool] = False
    """settings were chosen for each task"""
    tuning_steps: Count = 0
    """environment steps spent on the choice of settings"""
    out: Path | None = None
    """folder of the runs, and of the submission that they make, submission.npz; default: runs/bench/ and the name of
    the agent"""

    def run(self) -> None:
        """Do the missing runs.

        Raises:
            ValueError: an unknown agent or task, an invalid number, or an agent that is none.
            Stopped: an interrupt; completed runs are stored.
        """
        from ttt_apps.train_options import folder_name
        from ttt_apps.versions import make_provenance
        from ttt_eval.benchmark.agents import AGENTS, source_hash
        from ttt_eval.benchmark.runs import run_benchmark

        if not self.agent:
            print_status("agents that have a name, for evaluate.py bench run --agent NAME:")
            print_output("\n".join(AGENTS))
            return
        if self.seeds is not None and self.seeds < 1:
            raise ValueError(f"--seeds {self.seeds} makes no run: choose 1 or more")
        if self.steps is not None and self.steps < 1:
            raise ValueError(f"--steps {self.steps} teaches nothing: choose 1 or more")
        if self.every < 1:
            raise ValueError(f"--every {self.every} keeps no checkpoint: choose 1 or more")
        settings, workers = self._settings(), self.workers()
        submission = self._submission(settings)
        folder = self.out or Path("runs", "bench", folder_name(submission.name.split(":")))
        provenance = {**make_provenance(), "agent": source_hash(self.agent)}
        with report_interrupt(folder), count_bar("runs") as progress:
            run_benchmark(settings, submission, folder, provenance, jobs=workers, progress=progress)
        print_status(f"written: {folder}; evaluate.py bench score {folder} scores it")

    def _settings(self) -> RunSettings:
        from ttt_eval.benchmark.runs import QUICK_SEEDS, QUICK_STEPS, QUICK_TASKS, RunSettings
        from ttt_eval.benchmark.tasks import SEEDS

        return RunSettings(
            self.agent,
            self.task or (QUICK_TASKS if self.quick else ()),
            self.seeds or (QUICK_SEEDS if self.quick else len(SEEDS)),
            self.steps or (QUICK_STEPS if self.quick else 0),
            self.every,
        )

    def _submission(self, settings: RunSettings) -> Submission:
        from ttt_apps.versions import versions
        from ttt_eval.benchmark.agents import SB3_ALGORITHMS
        from ttt_eval.benchmark.records import Submission
        from ttt_eval.benchmark.runs import describe_agent
        from ttt_eval.cost import processor

        hyperparameters, named = describe_agent(settings)
        own = named if ":" in self.agent else SB3_ALGORITHMS.get(self.agent, "ttt_envs").partition(":")[0]
        library = self.library or own
        return Submission(
            self.name or self.agent,
            library,
            self.code,
            processor(),
            "tuned" if self.tuned else "one",
            self.tuning_steps,
            settings.shortened_steps,
            dict(versions(library)),
            dict(hyperparameters),
        )


@dataclass(frozen=True)
class BenchScore(JsonOptions):
    """Score submissions to the benchmark ttt-exact: every score is computed from their tables alone.

    No code of a submission is run. Scores are exact: 0 is uniformly random play, 1 the best possible.
    """

    submissions: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="FILE|FOLDER...")] = (
        tyro.MISSING
    )
    """submissions: files, or folders with a submission.npz"""
    out: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """write the scores to a file, as --json prints them"""
    last: tyro.conf.FlagCreatePairsOff[bool] = False
    """score those tables alone that determine the score of a run: the last, or where the opponent changes all"""
    add: tyro.conf.FlagCreatePairsOff[bool] = False
    """keep the runs in the file of --out that the submission lacks"""

    def run(self) -> None:
        """Score, write and print.

        Raises:
            OSError: a file cannot be read or written.
            ValueError: one is no submission, something in it is invalid, or the file of ``out`` has other scores.
        """
        from ttt_eval.benchmark.records import read_scores, to_json, write_scores
        from ttt_eval.benchmark.scores import add_runs, score_submission
        from ttt_eval.benchmark.submission import open_submission

        if self.add and (self.out is None or len(self.submissions) > 1):
            raise ValueError("--add needs one submission and --out FILE, the file to which its runs are added")
        earlier = read_scores(self.out) if self.add and self.out is not None and self.out.exists() else None
        for path in self.submissions:  # an invalid one costs no score of the others
            with open_submission(path) as stored:
                _ = stored.submission, stored.runs
        scores = []
        for path in self.submissions:
            with count_bar(path.name) as progress:
                scores.append(score_submission(path, progress, last=self.last))
        if earlier is not None:
            try:
                scores = [add_runs(scores[0], earlier)]
            except ValueError as problem:
                raise ValueError(f"{self.out} is not extended: {problem}") from None
        if self.out is not None:
            write_scores(self.out, scores)
        if self.json:
            print(json.dumps(to_json(scores)))
            return
        _print(scores)


def _print(scores: list[SubmissionScores]) -> None:
    """Print the mean over seeds of each task."""
    from ttt_eval.benchmark.tasks import TASKS

    table = new_table("task", *(one.name for one in scores))
    for task in TASKS:
        cells = [_mean_score(one, task.name) for one in scores]
        if any(cells):
            table.add_row(task.name, *cells)
    print_table(table)
    print_output("Means over seeds of exact scores: 0 is random play, 1 the best possible.")
    if not all(run.complete for one in scores for run in one.runs):
        print_output("* not all checkpoints of the benchmark are there.")


def _mean_score(scores: SubmissionScores, task: str) -> str:
    runs = [run for run in scores.runs if run.task == task]
    if not runs:
        return ""
    mark = "" if all(run.complete for run in runs) else "*"
    return f"{sum(run.score for run in runs) / len(runs):.4f}{mark}"


@dataclass(frozen=True)
class BenchCheck(JsonOptions):
    """Check that submissions to the benchmark ttt-exact can be scored, and say what they lack."""

    submissions: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="FILE|FOLDER...")] = (
        tyro.MISSING
    )
    """submissions: files, or folders with a submission.npz"""

    def run(self) -> None:
        """Read all arrays, and print.

        Raises:
            ValueError: something in a submission is invalid.
        """
        from ttt_eval.benchmark.submission import check_submission, open_submission
        from ttt_eval.benchmark.tasks import SEEDS, TASKS

        rows: list[dict[str, Any]] = []
        for path in self.submissions:
            with open_submission(path) as stored:
                check_submission(stored)
                runs = stored.runs
            has = {(run.task.name, run.seed) for run in runs if run.checkpoints == run.task.checkpoints}
            tasks = [task.name for task in TASKS if task.uses_runs_of is None]
            lacks = [name for name in tasks if any((name, seed) not in has for seed in SEEDS)]
            rows.append({"submission": str(path), "runs": len(runs), "complete": len(has), "lacks": lacks})
        if self.json:
            print(json.dumps(rows))
            return
        for row in rows:
            missing = f"; without all {len(SEEDS)} whole runs of {', '.join(row['lacks'])}" if row["lacks"] else ""
            print_output(f"{row['submission']} is valid: {row['runs']} runs, {row['complete']} of them whole{missing}")


COMMANDS = {
    "run": ("ttt_apps.evaluate.bench:BenchRun", "Train an agent on the tasks, and write a submission."),
    "score": ("ttt_apps.evaluate.bench:BenchScore", "Score submissions from their tables alone."),
    "check": ("ttt_apps.evaluate.bench:BenchCheck", "Check a submission before it is sent."),
    "report": ("ttt_apps.evaluate.bench_report:BenchReport", "Compare submissions on a page."),
}
"""The commands of the group."""
