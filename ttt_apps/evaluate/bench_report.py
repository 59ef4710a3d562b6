"""``evaluate.py bench report``: submissions to the benchmark on a page."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from ttt_apps.cli import Count, JsonOptions, check_seed, count_bar, new_table, print_output, print_status, print_table
from ttt_envs.core.files import read_bounded, write_atomically

if TYPE_CHECKING:  # compiled code is imported where it is used, not where help is written
    from ttt_eval.benchmark.comparison import Comparison
    from ttt_eval.benchmark.records import SubmissionScores


@dataclass(frozen=True)
class BenchReport(JsonOptions):
    """Compare submissions to the benchmark ttt-exact on a page.

    Scores of folders are computed from their tables; files hold those that bench score --out FILE has written. It has
    the leaderboard, axes, tasks, performance profiles, probabilities of improvement, and score by cost.
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
    seed: Count = 0
    """seed of the bootstrap"""

    def run(self) -> None:
        """Read or score, compare, write and print.

        Raises:
            OSError: a file cannot be read or written.
            ValueError: no submission, a damaged one, submissions without a common task, or a page without the section.
        """
        from ttt_eval.benchmark.comparison import compare_submissions, to_json, write_csv
        from ttt_eval.reports.benchmark import write_benchmark

        if self.out.suffix != ".html":
            raise ValueError(f"--out {self.out} is no page: end its name in .html")
        if self.section and self.markdown is None:
            raise ValueError("--section is of the file of --markdown FILE: write both")
        check_seed(self.seed)
        found = [one for path in self.submissions for one in _read(path, last=self.csv is None)]
        comparison = compare_submissions(found, self.seed, self.task)
        page = write_benchmark(self.out, comparison, self.submissions, self.task)
        if self.csv is not None:
            write_csv(self.csv, found)
        if self.markdown is not None:
            text = self._markdown(comparison, self.markdown)
            write_atomically(self.markdown, lambda file: file.write(text.encode()))
        if self.json:
            print(json.dumps(to_json(comparison)))
            return
        _print(comparison)
        print_status(
            f"written: {', '.join(str(path) for path in (self.out, self.csv, self.markdown) if path is not None)}"
        )
        print_output(f"a page to look at: {page}")

    def _markdown(self, comparison: Comparison, path: Path) -> str:
        """Return the content of the file of the leaderboard."""
        from ttt_eval.benchmark.tasks import VERSION
        from ttt_eval.reports.benchmark import leaderboard_markdown, replace_section, report_command

        words = [*report_command(self.submissions, self.task), "--markdown", str(path)]
        if not self.section:
            return f"# Leaderboard of ttt-exact {VERSION}\n\n{leaderboard_markdown(comparison, words)}"
        text = leaderboard_markdown(comparison, [*words, "--section", self.section])
        return replace_section(read_bounded(path).decode(), self.section, text)


def _read(path: Path, *, last: bool) -> Sequence[SubmissionScores]:
    """Return scores of a file of scores or of a submission; with ``last`` of those tables alone that determine the
    score of a run.
    """
    from ttt_eval.benchmark.records import read_scores
    from ttt_eval.benchmark.scores import score_submission

    if path.suffix == ".json":
        return read_scores(path)
    with count_bar(path.name) as progress:
        return [score_submission(path, progress, last=last)]


def _print(comparison: Comparison) -> None:
    from ttt_eval.reports.benchmark import describe_leader

    title = f"{len(comparison.tasks)} tasks"
    table = new_table("submission", "interquartile mean", "percentiles", "mean", "optimality gap", title=title)
    for one in comparison.entries:
        middle = one.interquartile_mean
        ends = f"{middle.low:.3f} to {middle.high:.3f}"
        table.add_row(one.name, f"{middle.mean:.3f}", ends, f"{one.mean.mean:.3f}", f"{one.optimality_gap.mean:.3f}")
    print_table(table)
    print_output(f"{describe_leader(comparison)}.")
    for note in comparison.notes:
        print_output(note)
