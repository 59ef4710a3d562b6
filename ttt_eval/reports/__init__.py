"""Every page and figure: ``report.html`` of runs, comparisons, tests, tournaments, ladders and sweeps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ttt_envs.core.names import public_names

if TYPE_CHECKING:
    from ttt_eval.reports.page import write_report as write_report
    from ttt_eval.reports.pages import report_of as report_of
    from ttt_eval.reports.pages import write_page as write_page
    from ttt_eval.reports.runs import read_runs as read_runs
    from ttt_eval.reports.runs import write_run_page as write_run_page

__getattr__, __dir__, __all__ = public_names(__name__, __file__)
