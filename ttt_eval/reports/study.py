"""Files of a reproduced study: a table, the numbers, and the figures."""

from __future__ import annotations

from pathlib import Path

from ttt_envs.core.files import write_atomically, write_json
from ttt_eval.reports.plots import save_picture
from ttt_eval.study import RESULT, TABLE, Caption, Report, Study, verdict


def write_report_files(
    study: Study, name: str, findings: Report, folder: Path, quick: bool, part: str = ""
) -> list[Path]:
    """Write ``table.md``, ``result.json`` and each figure as PNG and SVG; return the figures' paths."""
    write_atomically(folder / TABLE, lambda file: file.write(_markdown(study, name, findings, quick, part).encode()))
    write_json(
        folder / RESULT,
        {
            "format": 1,
            "study": name,
            "quick": quick,
            "rows": [row._asdict() for row in findings.rows],
            "claims": [claim._asdict() for claim in findings.claims],
            "data": findings.data,
        },
    )
    return [
        path for picture, draw in findings.pictures.items() for path in save_picture(folder / f"{picture}.png", draw)
    ]


def _markdown(study: Study, name: str, findings: Report, quick: bool, part: str) -> str:
    lines = [f"# {study.title}", "", f"{study.source[:1].upper()}{study.source[1:]}. {study.about}", ""]
    lines += [f"Quick form: {study.left_out}", ""] if quick else []
    options = f"{f' --part {part}' if part else ''}{' --quick' if quick else ''}"
    lines += [f"`python evaluate.py reproduce {name}{options}`", ""]
    head, *rows = findings.table()
    lines += [f"| {' | '.join(head)} |", "|---" * len(head) + "|", *(f"| {' | '.join(row)} |" for row in rows)]
    if findings.claims:
        lines += ["", "| claim of the source | verdict | evidence |", "|---|---|---|"]
        lines += [
            f"| {claim.words} | {'undecided' if claim.holds is None else verdict(claim.holds)} | {claim.evidence} |"
            for claim in findings.claims
        ]
    for picture in findings.pictures:
        caption = study.captions.get(picture)
        answer = "" if caption is None or quick else caption.answer_from(findings)
        lines += figure_lines(picture, f"{picture}.png", caption, answer)
    return "\n".join(lines) + "\n"


def figure_lines(name: str, path: str, caption: Caption | None, answer: str) -> list[str]:
    """Return a figure in Markdown: its question, the picture, and the answer with the symbols."""
    if caption is None:
        return ["", f"![{name}]({path})"]
    words = f"{answer} {caption.symbols}".lstrip()
    return ["", f"**{caption.question}**", "", f"![{caption.question}]({path})", "", words]
