"""``evaluate.py bench``: run agents on the benchmark, score submissions, and compare them on a
page.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import tyro
from msgspec import Struct, convert

from ttt_apps.cli import options as cli
from ttt_apps.training.options import folder_name
from ttt_envs.core.checks import Refusal, find_named, name_place
from ttt_envs.core.files import read_json, write_bytes, write_json
from ttt_eval.benchmark.agents import load_agent
from ttt_eval.benchmark.comparison import compare_submissions
from ttt_eval.benchmark.comparison import to_json as comparison_to_json
from ttt_eval.benchmark.runs import CHOSEN, hash_code, list_runs, run_benchmark
from ttt_eval.benchmark.scores import (
    SubmissionScores,
    read_scores,
    score_submission,
    to_json,
    why_not_learned,
)
from ttt_eval.benchmark.scoring import combine_scores
from ttt_eval.benchmark.submission import FILE, Count, Submission, open_submission
from ttt_eval.benchmark.tasks import (
    SEEDS,
    VERSIONS,
    Version,
    find_task,
    find_tasks,
    version_of,
)
from ttt_eval.reports import benchmark as pages
from ttt_eval.store.cost import processor
from ttt_eval.store.result_store import UNITS
from ttt_eval.store.versions import versions

QUICK_TASKS: Mapping[Version, tuple[str, ...]] = {
    "v1": ("random", "chance-25", "self-play", "masks"),
    "v2": ("chance-25", "skips-beyond-hidden", "connect-four", "phantom"),
}
QUICK_STEPS = 20_000
QUICK_SEEDS = 2


class ChosenSettings(Struct):
    """What a file of settings says of an agent, besides what follows from them."""

    settings: dict[str, object]
    """arguments of the agent that are not the default ones"""
    tuning_steps: Count
    """environment steps of all runs that were tried"""


def read_settings(path: Path, agent: str) -> ChosenSettings:
    """Return the settings of an agent in a JSON file, an object by the names of agents.

    Raises:
        OSError: the file cannot be read.
        ValueError: it has none of this agent, or they are invalid.
    """
    with name_place(f"{path} has no valid settings"):
        return convert(find_named("agent", agent, read_json(path)), ChosenSettings)


@dataclass(frozen=True)
class BenchRun(cli.OutputOptions, cli.WorkOptions):
    """Train an agent on the tasks of the benchmark ttt-exact, and write a submission.

    Every finished run is stored: the same command continues where it was stopped.
    """

    agent: Annotated[str, tyro.conf.arg(metavar="NAME|module:make")] = tyro.MISSING
    """a name of evaluate.py list agents, such as q-learning or sb3-ppo; or a function make(task,
    seed) of your own, which returns an object with learn(env, steps)"""
    benchmark: Version = VERSIONS[0]
    """the version whose tasks are the default"""
    task: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME...")] = ()
    """tasks; default: all of the version"""
    seeds: cli.Positive | None = None
    """number of seeds; default: 5, with --quick 2"""
    quick: cli.Flag = False
    """4 tasks, 2 seeds and 20,000 steps at most"""
    steps: cli.Natural = 0
    """maximum environment steps of a run; 0 for those of the task, with --quick 20,000 at most"""
    every: cli.Positive = 1
    """store the last checkpoint of a run, and every so many before it"""
    name: cli.TextOption = ""
    """name of the agent on the leaderboard; default: that of --agent"""
    code: Annotated[cli.TextOption, tyro.conf.arg(metavar="URL")] = ""
    """address of its code"""
    tuned: cli.Flag = False
    """settings were chosen for each task"""
    tuning_steps: cli.Natural = 0
    """environment steps spent on the choice of settings"""
    settings: Annotated[Path | None, tyro.conf.arg(metavar="FILE.json")] = None
    """take settings and tuning steps of the agent from a file, benchmarks/tuning/chosen.json or one
    like it"""
    out: Path | None = None
    """folder of the runs, and of the submission that they make, submission.npz; default:
    runs/bench/ and the name of the agent"""

    def run(self) -> None:
        """Do the missing runs.

        Raises:
            ValueError: an unknown agent or task, an invalid number, or an agent that is none.
            Stopped: an interrupt; completed runs are stored.
        """
        tasks = self.task or (QUICK_TASKS[self.benchmark] if self.quick else ())
        seeds = self.seeds or (QUICK_SEEDS if self.quick else len(SEEDS))
        runs = list_runs(tasks, seeds, self.benchmark)
        names = [unit["task"] for unit in runs if unit["seed"] == 0]
        version_of(names)  # refuses tasks of different versions before the first run
        submission = self._describe(names)
        folder = self.out or Path("runs", "bench", folder_name(submission.name.split(":")))
        if not (folder / UNITS).exists():
            self.check_new_file(folder / FILE)
        with cli.bar("runs", folder) as progress:
            run_benchmark(
                self.agent,
                runs,
                submission,
                folder,
                every=self.every,
                jobs=self.workers(),
                progress=progress,
            )
        cli.print_status(f"written: {folder}; evaluate.py bench score {folder} scores it")

    def _describe(self, tasks: Sequence[str]) -> Submission:
        """Return what the submission says of the agent, which is made for each of the tasks, so
        that it refuses one before the first run.
        """
        choice = ChosenSettings({}, self.tuning_steps)
        if self.settings is not None:
            cli.check_no_effect(self, "with --settings", "tuning_steps")
            choice = read_settings(self.settings, self.agent)
        make = load_agent(self.agent)
        problems = (Refusal, MemoryError, *((TypeError,) if choice.settings else ()))
        for task in tasks:
            with name_place(f"{self.agent} does not learn the task {task}", problems):
                agent = make(find_task(task), 0, **choice.settings)
        chosen = {CHOSEN: choice.settings} if choice.settings else {}
        library = str(getattr(agent, "library", "" if ":" in self.agent else "ttt_envs"))
        return Submission(
            self.name or self.agent,
            library,
            self.agent,
            hash_code(self.agent),
            self.code,
            processor(),
            "tuned" if self.tuned else "one",
            choice.tuning_steps,
            self.steps or (QUICK_STEPS if self.quick else 0),
            versions(library),
            {**getattr(agent, "hyperparameters", {}), **chosen},
        )


@dataclass(frozen=True)
class BenchScore(cli.JsonOptions, cli.OutputOptions):
    """Score submissions to the benchmark ttt-exact: every score is computed from their tables
    alone.

    No code of a submission is run. Scores are exact: 0 is uniformly random play, 1 the best
    possible.
    """

    submissions: Annotated[cli.Paths, tyro.conf.arg(metavar="FILE|FOLDER ...")] = tyro.MISSING
    """submissions: files, or folders with a submission.npz"""
    check: cli.Flag = False
    """compute no score: check that the submissions can be scored, and say what they lack"""
    out: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """write the scores to a file, as --json prints them"""
    last: cli.Flag = False
    """score those tables alone that determine the score of a run: the last, or where the opponent
    changes all; not the score at equal cost
    """

    def run(self) -> None:
        """Score, write and print.

        Raises:
            OSError: a file cannot be read or written.
            ValueError: one is no submission, or something in it is invalid.
        """
        if self.check:
            cli.check_no_effect(self, "with --check", "out", "last")
            checks = [_check(path) for path in self.submissions]
            self.show(checks, cli.rows_table(checks))
            return
        self.check_new_file(self.out)
        for path in self.submissions:  # an invalid one costs no score of the others
            with open_submission(path):
                pass
        scores = [_score(path, last=self.last) for path in self.submissions]
        data = to_json(scores)
        if self.out is not None:
            write_json(self.out, data)
        rows = [
            {"task": name, **{row.name: _mean_score(row, name) for row in scores}}
            for name in {run.task: None for row in scores for run in row.runs}
        ]
        self.show(
            data,
            cli.rows_table(rows),
            "Means over seeds of exact scores: 0 is random play, 1 the best possible; * not all "
            "checkpoints are there.",
        )


def _check(path: Path) -> dict[str, object]:
    """Return the numbers of runs of a valid submission, the tasks without runs, those without whole
    runs of all seeds, those that measure values and have none, seeds that are not of the protocol,
    and why it counts as not learned.
    """
    with open_submission(path) as submission:
        runs = submission.runs
        without_values = {
            run.task.name
            for run in runs
            for steps in run.checkpoints
            if submission.read_tables(run, steps)[0].values is None
        }
        causes = {cause for run in runs for cause in why_not_learned(submission, run)}
    complete_runs = {
        (run.task.name, run.seed) for run in runs if run.checkpoints == run.task.checkpoints
    }
    tasks = {run.task.name for run in runs}
    every_task = find_tasks(version=submission.version)
    return {
        "submission": str(path),
        "runs": len(runs),
        "complete": len(complete_runs),
        "lacks": sorted({task.training for task in every_task} - tasks),
        "incomplete": sorted({name for name, _ in {*product(tasks, SEEDS)} - complete_runs}),
        "lacks_values": [task.name for task in every_task if task.uses_runs_of in without_values],
        "other_seeds": sorted({run.seed for run in runs}.difference(SEEDS)),
        "not_learned": sorted(causes),
    }


def _score(path: Path, *, last: bool) -> SubmissionScores:
    with cli.bar(path.name) as progress:
        return score_submission(path, progress, last=last)


def _mean_score(scores: SubmissionScores, task: str) -> str | None:
    """Return the mean over seeds of a task, with a star if checkpoints are missing."""
    runs = [run for run in scores.runs if run.task == task]
    star = "" if all(run.complete for run in runs) else "*"
    return f"{scores.task_means[task]:.4f}{star}" if runs else None


def _read_scores(path: Path) -> Sequence[SubmissionScores]:
    """Return the scores of a file, or of a submission; to v1 by its last tables, which tell no
    score at equal cost.
    """
    if path.suffix == ".json":
        return read_scores(path)
    with open_submission(path) as submission:
        return [_score(path, last=submission.version == VERSIONS[0])]


@dataclass(frozen=True)
class BenchVerify(cli.JsonOptions):
    """Train a run of a submission again from its code, and compare the scores, which are the same
    with the same versions.

    A submission names the hash of its code: other code is refused. Other scores end with exit code
    2 and the versions that differ.
    """

    submission: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FILE|FOLDER")] = (
        tyro.MISSING
    )
    """a submission, or a .json file of its scores"""
    row: cli.Natural = 0
    """number of the run in the order of bench score --json, from 0"""
    agent: Annotated[cli.TextOption, tyro.conf.arg(metavar="module:make")] = ""
    """an agent of your own that the submission names: its code is run"""

    def run(self) -> None:
        """Train, score and compare.

        Raises:
            OSError: the file cannot be read.
            ValueError: there is no such row, its agent is not named or is other code, or the scores
                differ.
        """
        rows = [(scores, run) for scores in _read_scores(self.submission) for run in scores.runs]
        if self.row >= len(rows):
            raise Refusal(f"{self.submission} has the rows 0 to {len(rows) - 1}: choose one")
        submission, run = rows[self.row]
        agent = submission.agent
        task = find_task(run.task)
        if not submission.code_sha256:
            raise Refusal(
                f"{self.submission} is an older file: it names no code, so it cannot be verified; "
                "train the row again with python evaluate.py bench run --agent "
                f"{submission.name} --task {task.training} --seeds {run.seed + 1}"
            )
        if ":" in agent and agent != self.agent:
            raise Refusal(
                f"{self.submission} names the agent {agent}: --agent {agent} runs its code"
            )
        if hash_code(agent) != submission.code_sha256:
            raise Refusal(
                f"the code of {agent!r} is not that of {self.submission}: its hash differs, so "
                "install the version that was submitted"
            )
        with TemporaryDirectory() as folder:
            unit = {"task": task.training, "seed": run.seed}
            path = Path(folder)
            again = Submission(
                "again", steps=submission.steps, hyperparameters=submission.hyperparameters
            )
            problems = (TypeError,) if CHOSEN in submission.hyperparameters else ()
            with name_place(f"settings of {agent}", problems):
                run_benchmark(agent, [unit], again, path)
            new_scores = {
                mark.steps: mark.score
                for new in score_submission(path).runs
                for mark in new.checkpoints
                if new.task == run.task
            }
        scores = [new_scores.get(mark.steps, math.nan) for mark in run.checkpoints]
        row = {
            "task": run.task,
            "seed": run.seed,
            "score": run.score,
            "again": combine_scores(task, scores),
        }
        if scores != [mark.score for mark in run.checkpoints]:
            differences = sorted(versions(submission.library).items() ^ submission.versions.items())
            raise Refusal(f"the scores differ: {row}; other versions: {differences or 'none'}")
        self.show(row, cli.rows_table([row]), "The scores are the same.")


@dataclass(frozen=True)
class BenchReport(cli.JsonOptions, cli.OutputOptions):
    """Compare submissions to the benchmark ttt-exact on a page.

    Scores of submissions are computed from their tables; .json files hold those that bench score
    --out FILE has written. The page has the leaderboard, axes, tasks, probabilities of improvement,
    and score by cost.
    """

    submissions: Annotated[cli.Paths, tyro.conf.arg(metavar="FILE|FOLDER ...")] = tyro.MISSING
    """submissions, or .json files of their scores"""
    out: Annotated[Path | None, tyro.conf.arg(metavar="FILE.html")] = None
    """the page; default: runs/bench.html, with --json none"""
    markdown: Annotated[Path | None, tyro.conf.arg(metavar="FILE.md")] = None
    """write the leaderboard as Markdown into this file"""
    task: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME...")] = ()
    """tasks of the aggregates; default: those that all submissions have"""

    def run(self) -> None:
        """Read or score, compare, write and print.

        Raises:
            OSError: a file cannot be read or written.
            ValueError: no submission, a damaged one, or submissions that cannot be compared.
        """
        out = self.out or (None if self.json else Path("runs", "bench.html"))
        cli.check_page(out)
        self.check_new_file(out, self.markdown)
        submissions = list(chain.from_iterable(map(_read_scores, self.submissions)))
        comparison = compare_submissions(submissions, self.task)
        command = pages.report_command(self.submissions, self.task)
        if out is not None:
            pages.write_benchmark(out, comparison, command)
        if self.markdown is not None:
            write_bytes(self.markdown, pages.leaderboard_markdown(comparison, command).encode())
        files = ", ".join(map(str, filter(None, (out, self.markdown))))
        self.show(
            comparison_to_json(comparison),
            *cli.report_tables(pages.benchmark_report(comparison), ""),
            f"{len(comparison.tasks)} tasks. {pages.describe_leader(comparison)}.",
            *comparison.notes,
            f"written: {files}\na page to look at: {out}",
        )
