"""``evaluate.py bench``: run agents on the benchmark, score submissions, and compare them on a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any

import tyro

from ttt_apps import cli
from ttt_apps.train_options import folder_name
from ttt_apps.versions import make_provenance, versions
from ttt_envs.core.files import read_bounded, write_atomically
from ttt_eval.benchmark.agents import AGENTS, SB3_ALGORITHMS, source_hash
from ttt_eval.benchmark.comparison import Comparison, compare_submissions, write_csv
from ttt_eval.benchmark.comparison import to_json as comparison_to_json
from ttt_eval.benchmark.records import Submission, SubmissionScores, read_scores, to_json, write_scores
from ttt_eval.benchmark.runs import QUICK_SEEDS, QUICK_STEPS, QUICK_TASKS, RunSettings, describe_agent, run_benchmark
from ttt_eval.benchmark.scores import add_runs, score_submission
from ttt_eval.benchmark.submission import check_submission, open_submission
from ttt_eval.benchmark.tasks import SEEDS, TASKS, VERSION
from ttt_eval.cost import processor
from ttt_eval.reports import benchmark as pages

COMMANDS = {
    "run": ("ttt_apps.evaluate.bench:BenchRun", "Train an agent on the tasks, and write a submission."),
    "score": ("ttt_apps.evaluate.bench:BenchScore", "Check and score submissions, from their tables alone."),
    "report": ("ttt_apps.evaluate.bench:BenchReport", "Compare submissions on a page."),
}


@dataclass(frozen=True)
class BenchRun(cli.WorkOptions):
    """Train an agent on the tasks of the benchmark ttt-exact, and write a submission.

    Every finished run is stored: the same command continues where it was stopped.
    """

    agent: Annotated[str, tyro.conf.arg(metavar="NAME|module:make")] = ""
    """a name, such as q-learning or sb3-ppo; or a function make(task, seed) of your own, which returns an object with
    learn(env, steps). Without one, list the names"""
    task: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME...")] = ()
    """tasks; default: all"""
    seeds: cli.OptionalPositive = None
    """number of seeds; default: 5, with --quick 2"""
    quick: tyro.conf.FlagCreatePairsOff[bool] = False
    """4 tasks, 2 seeds and 20,000 steps at most"""
    steps: cli.Natural = 0
    """maximum environment steps of a run; 0 for those of the task, with --quick 20,000 at most"""
    every: cli.Positive = 1
    """store the last checkpoint of a run, and every so many before it"""
    name: str = ""
    """name of the agent on the leaderboard; default: that of --agent"""
    library: str = ""
    """library of the agent"""
    code: Annotated[str, tyro.conf.arg(metavar="URL")] = ""
    """address of its code"""
    tuned: tyro.conf.FlagCreatePairsOff[bool] = False
    """settings were chosen for each task"""
    tuning_steps: cli.Natural = 0
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
        if not self.agent:
            cli.print_output(f"evaluate.py bench run --agent NAME trains one of {', '.join(AGENTS)}")
            return
        settings, workers = self._settings(), self.workers()
        submission = self._submission(settings)
        folder = self.out or Path("runs", "bench", folder_name(submission.name.split(":")))
        provenance = {**make_provenance(), "agent": source_hash(self.agent)}
        with cli.report_interrupt(folder), cli.bar("runs") as progress:
            run_benchmark(settings, submission, folder, provenance, jobs=workers, progress=progress)
        cli.print_status(f"written: {folder}; evaluate.py bench score {folder} scores it")

    def _settings(self) -> RunSettings:
        return RunSettings(
            self.agent,
            self.task or (QUICK_TASKS if self.quick else ()),
            (QUICK_SEEDS if self.quick else len(SEEDS)) if self.seeds is None else self.seeds,
            self.steps or (QUICK_STEPS if self.quick else 0),
            self.every,
        )

    def _submission(self, settings: RunSettings) -> Submission:
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
class BenchScore(cli.JsonOptions):
    """Score submissions to the benchmark ttt-exact: every score is computed from their tables alone.

    No code of a submission is run. Scores are exact: 0 is uniformly random play, 1 the best possible.
    """

    submissions: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="FILE|FOLDER")] = tyro.MISSING
    """submissions: files, or folders with a submission.npz"""
    check: tyro.conf.FlagCreatePairsOff[bool] = False
    """compute no score: check that the submissions can be scored, and say what they lack"""
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
        if self.check:
            cli.check_no_effect(self, "with --check", "out", "last", "add")
            rows = [_check(path) for path in self.submissions]
            cli.show(rows, cli.rows_table(rows), json=self.json)
            return
        if self.add and (self.out is None or len(self.submissions) > 1):
            raise cli.UsageError("--add needs one submission and --out FILE, the file to which its runs are added")
        for path in self.submissions:  # an invalid one costs no score of the others
            with open_submission(path) as stored:
                _ = stored.submission, stored.runs
        scores = []
        for path in self.submissions:
            with cli.bar(path.name) as progress:
                scores.append(score_submission(path, progress, last=self.last))
        if self.add and self.out is not None and self.out.exists():
            scores = [add_runs(scores[0], read_scores(self.out))]
        if self.out is not None:
            write_scores(self.out, scores)
        cells: list[dict[str, Any]] = [
            {"task": task.name} | {score.name: _mean_score(score, task.name) for score in scores} for task in TASKS
        ]
        cli.show(
            to_json(scores),
            cli.rows_table(row for row in cells if any(list(row.values())[1:])),
            "Means over seeds of exact scores: 0 is random play, 1 the best possible; * not all checkpoints are there.",
            json=self.json,
        )


def _check(path: Path) -> dict[str, Any]:
    """Return the numbers of runs of a valid submission, and the tasks that lack whole ones."""
    with open_submission(path) as stored:
        check_submission(stored)
        runs = stored.runs
    whole = {(run.task.name, run.seed) for run in runs if run.checkpoints == run.task.checkpoints}
    tasks = [task.name for task in TASKS if task.uses_runs_of is None]
    lacks = [name for name in tasks if any((name, seed) not in whole for seed in SEEDS)]
    return {"submission": str(path), "runs": len(runs), "complete": len(whole), "lacks": lacks}


def _mean_score(score: SubmissionScores, task: str) -> str | None:
    """Return the mean over seeds of a task, with a star if checkpoints are missing."""
    runs = [run for run in score.runs if run.task == task]
    star = "" if all(run.complete for run in runs) else "*"
    return f"{fmean(run.score for run in runs):.4f}{star}" if runs else None


@dataclass(frozen=True)
class BenchReport(cli.JsonOptions):
    """Compare submissions to the benchmark ttt-exact on a page.

    Scores of submissions are computed from their tables; .json files hold those that bench score --out FILE has
    written. The page has the leaderboard, axes, tasks, performance profiles, probabilities of improvement, and score
    by cost.
    """

    submissions: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="FILE|FOLDER")] = tyro.MISSING
    """submissions, or .json files of their scores"""
    out: Annotated[Path, tyro.conf.arg(metavar="FILE.html")] = Path("runs", "bench.html")
    """the page"""
    csv: Annotated[Path | None, tyro.conf.arg(metavar="FILE.csv")] = None
    """write the scores of all checkpoints into this file"""
    markdown: Annotated[Path | None, tyro.conf.arg(metavar="FILE.md")] = None
    """write the leaderboard as Markdown into this file"""
    section: Annotated[str, tyro.conf.arg(metavar="NAME")] = ""
    """replace this section of the file of --markdown alone: from its line <!-- bench report: NAME --> to <!-- until
    here -->"""
    task: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME...")] = ()
    """tasks of the aggregates: submissions that lack one of them get no rank; default: those that all have"""
    seed: cli.Natural = 0
    """seed of the bootstrap"""

    def run(self) -> None:
        """Read or score, compare, write and print.

        Raises:
            OSError: a file cannot be read or written.
            ValueError: no submission, a damaged one, submissions without a common task, or a page without the section.
        """
        if self.out.suffix != ".html":
            raise cli.UsageError(f"--out {self.out} is no page: end its name in .html")
        if self.section and self.markdown is None:
            raise cli.UsageError("--section is of the file of --markdown FILE: write both")
        submissions = [submission for path in self.submissions for submission in self._read(path)]
        comparison = compare_submissions(submissions, self.seed, self.task)
        page = pages.write_benchmark(self.out, comparison, self.submissions, self.task)
        if self.csv is not None:
            write_csv(self.csv, submissions)
        if self.markdown is not None:
            text = self._markdown(comparison, self.markdown)
            write_atomically(self.markdown, lambda file: file.write(text.encode()))
        comparison_data = comparison_to_json(comparison)
        columns = ("submission", "interquartile_mean", "mean", "optimality_gap")
        rows = [{name: entry[name] for name in columns} for entry in comparison_data["leaderboard"]]
        written = ", ".join(str(path) for path in (self.out, self.csv, self.markdown) if path is not None)
        cli.show(
            comparison_data,
            cli.rows_table(rows, title=f"{len(comparison.tasks)} tasks"),
            f"{pages.describe_leader(comparison)}.",
            *comparison.notes,
            f"written: {written}\na page to look at: {page}",
            json=self.json,
        )

    def _read(self, path: Path) -> Sequence[SubmissionScores]:
        """Return the scores in a file of scores, or of a submission; without --csv of those tables alone that determine
        the score of a run.
        """
        if path.suffix == ".json":
            return read_scores(path)
        with cli.bar(path.name) as progress:
            return [score_submission(path, progress, last=self.csv is None)]

    def _markdown(self, comparison: Comparison, path: Path) -> str:
        """Return the content of the file of the leaderboard."""
        words = [*pages.report_command(self.submissions, self.task), "--markdown", str(path)]
        if not self.section:
            return f"# Leaderboard of ttt-exact {VERSION}\n\n{pages.leaderboard_markdown(comparison, words)}"
        text = pages.leaderboard_markdown(comparison, [*words, "--section", self.section])
        return pages.replace_section(read_bounded(path).decode(), self.section, text)
