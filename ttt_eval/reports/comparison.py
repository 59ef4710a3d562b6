"""``report.html`` of a sequential test, a tournament, a ladder, a language model or a sweep, as a single file.

Pages are made from ``result.json`` alone, which is not trusted: invalid parts are replaced by a sentence with the
reason. See docs/reports.md.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from ttt_envs.core.files import read_json
from ttt_eval.reports.html import Content, write_page
from ttt_eval.reports.ladder import ladder_page
from ttt_eval.reports.language_model import language_model_page
from ttt_eval.reports.result_reader import Record
from ttt_eval.reports.sprt import sprt_page
from ttt_eval.reports.sweep import sweep_page
from ttt_eval.reports.tournament import tournament_page
from ttt_eval.run_files import REPORT

RESULT = "result.json"
MAX_BYTES = 1 << 26
"""Maximum size of a result in bytes."""


def write_comparison(folder: Path) -> Path:
    """Write ``report.html`` beside the ``result.json`` of a folder.

    Args:
        folder: of a sequential test, a tournament, a place on a ladder, a language model or a sweep.

    Returns:
        The page's path.

    Raises:
        OSError: no result, or a page that cannot be written.
        ValueError: a result of another kind, or one without usable content. Other damaged parts are left out of the
            page.
    """
    path = folder / RESULT
    data = read_json(path, MAX_BYTES)
    pages: dict[str, Callable[[Record], Content]] = {
        "sprt": sprt_page,
        "tournament": tournament_page,
        "ladder": ladder_page,
        "language-model": language_model_page,
        "sweep": partial(sweep_page, folder=folder),
    }
    kind = data.get("kind") if isinstance(data, dict) else None
    if not isinstance(kind, str) or kind not in pages or data.get("format") != 1:
        *names, last = pages
        raise ValueError(f"{path} is no result of a kind that has a page: choose one of {', '.join(names)} or {last}")
    try:
        content = pages[kind](Record(data))
    except ValueError as problem:
        raise ValueError(f"{path} holds no complete result: {problem}") from None
    return write_page(folder / REPORT, f"{kind}.html", content)
