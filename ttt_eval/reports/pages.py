"""Pages of results: :func:`report_of` returns what a page consists of, for every kind of result."""

from __future__ import annotations

from functools import singledispatch
from pathlib import Path

from ttt_envs.core.checks import Refusal, name_place
from ttt_envs.core.files import read_json
from ttt_eval.language_models.results import LanguageModelResult
from ttt_eval.matches.ladder import LadderResult
from ttt_eval.matches.results import MatchResult
from ttt_eval.matches.sprt import SprtResult
from ttt_eval.matches.tournament import TournamentResult
from ttt_eval.reports.benchmark import benchmark_report
from ttt_eval.reports.language_model import language_model_report
from ttt_eval.reports.matches import ladder_report, match_report, tournament_report
from ttt_eval.reports.page import Report, write_report
from ttt_eval.reports.runs import run_report, runs_report
from ttt_eval.reports.sweep import sweep_report
from ttt_eval.runs.run_files import REPORT
from ttt_eval.runs.sweep import SweepResult
from ttt_eval.store.result_store import RESULT
from ttt_eval.store.results import Result

MAX_BYTES = 1 << 26
"""Maximum size of a result in bytes."""
KINDS: tuple[type[Result], ...] = (
    MatchResult,
    SprtResult,
    TournamentResult,
    LadderResult,
    LanguageModelResult,
    SweepResult,
)
"""Results that ``result.json`` stores and that have a page."""


@singledispatch
def report_of(result: object) -> Report:
    """Return the page of a result.

    Raises:
        TypeError: a result of a kind that has no page.
        ValueError: a result with positions that are none of its game.
    """
    raise TypeError(f"{type(result).__name__} has no page: report_of.register gives it one")


for describe in (
    run_report,
    runs_report,
    match_report,
    tournament_report,
    ladder_report,
    sweep_report,
    benchmark_report,
    language_model_report,
):
    report_of.register(describe)


def read_result(folder: Path) -> Result:
    """Read the ``result.json`` of a folder.

    Raises:
        OSError: no such file.
        ValueError: a damaged result, or one of another kind.
    """
    path = folder / RESULT
    data = read_json(path, MAX_BYTES)
    kinds = {str(kind.__struct_config__.tag): kind for kind in KINDS}
    with name_place(f"{path} is no result that has a page"):
        kind = kinds.get(str(data["kind"]))
        if kind is None:
            raise Refusal(f"its kind is {data['kind']!r} and not one of {', '.join(kinds)}")
        return kind.from_dict(data, folder)


def write_page(folder: Path) -> Path:
    """Write ``report.html`` beside the ``result.json`` of a folder, and return its path.

    Raises:
        OSError: no result, or a page that cannot be written.
        ValueError: a damaged result, or one of another kind.
    """
    result = read_result(folder)
    with name_place(f"{folder / RESULT} holds no complete result"):
        report = report_of(result)
    return write_report(folder / REPORT, report)
