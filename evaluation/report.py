"""``report.html`` of a run: one file to look at, without a server and without anything to fetch."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

from evaluation.exact import Outcome
from evaluation.match import Score
from learners.checkpoint import CONFIG, COST, METRICS, read_config
from ttt_envs.files import write_whole

REPORT = "report.html"
_WIDTH, _HEIGHT, _MARGIN = 640, 240, 40
_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #222 }
table { border-collapse: collapse; margin: 1rem 0 } td, th { padding: .25rem .8rem; text-align: right }
td:first-child, th:first-child { text-align: left } tr { border-bottom: 1px solid #ddd } svg { background: #faf9f7 }
pre { background: #faf9f7; padding: .8rem; overflow: auto }
"""


class Learned(NamedTuple):
    """A run and what it came to."""

    name: str
    run: Path
    games: int
    cpu_s: float
    """of training"""
    peak_rss_bytes: int
    exploitability: float
    regret: float
    exact: Mapping[str, Outcome]
    """exact results, the mean over both seats, by opponent"""


def write_overview(folder: Path, title: str, learned: Sequence[Learned]) -> Path:
    """Write a page that compares runs below ``folder``, with links to their own reports.

    Returns:
        The page's path.
    """
    opponents = list(learned[0].exact) if learned else []
    head = ("learner", "games", "CPU", "peak memory", "exploitability", "regret", *(f"against {o}" for o in opponents))
    body = []
    for one in learned:
        link = f'<a href="{escape(str((one.run / REPORT).relative_to(folder)))}">{escape(one.name)}</a>'
        results = (" / ".join(f"{share:.4f}" for share in one.exact[opponent]) for opponent in opponents)
        cells = (
            link,
            f"{one.games:,}",
            f"{one.cpu_s:.1f} s",
            f"{one.peak_rss_bytes / 2**20:.0f} MiB",
            f"{one.exploitability:.6f}",
            f"{one.regret:.6f}",
            *results,
        )
        body.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
    parts = [
        f"<h1>{escape(title)}</h1><p>Everything here is exact, by dynamic programming over the positions that can be "
        f"reached: win / draw / loss are means over both seats. Each learner's page shows how it got there.</p>",
        f"<table><tr>{''.join(f'<th>{name}</th>' for name in head)}</tr>{''.join(body)}</table>",
    ]
    return _write_page(folder, title, parts)


def write_report(run: Path, scores: Mapping[str, Score], exact: Mapping[str, Outcome]) -> Path:
    """Write the report of a run beside its other files.

    Args:
        run: the run directory.
        scores: of matches of what was learned, by opponent.
        exact: its exact results, the mean over both seats, by opponent.

    Returns:
        The report's path.
    """
    config = read_config(run)
    lines = (run / METRICS).read_text().splitlines() if (run / METRICS).exists() else []
    rows = [json.loads(line) for line in lines]
    cost = json.loads((run / COST).read_text())["phases"] if (run / COST).exists() else {}
    parts = [
        f"<h1>{escape(config['learner'])} against {escape(config['opponent'])}</h1>",
        *([_exact(exact)] if exact else []),
        *([_matches(scores)] if scores else []),
        *_distance(rows),
        "<h2>While learning</h2><p>Games won, drawn and lost of those between two marks, exploration included.</p>",
        _curves([row["games"] for row in rows], {name: _rates(rows, name) for name in ("wins", "draws", "losses")}),
        "<h2>Cost</h2>" + _cost(cost),
        f"<h2>Settings</h2><pre>{escape(json.dumps(config, indent=2))}</pre><p>Files: {CONFIG}, {METRICS}, {COST}.</p>",
    ]
    return _write_page(run, str(run), parts)


def _write_page(folder: Path, title: str, parts: Sequence[str]) -> Path:
    page = f'<!doctype html><meta charset="utf-8"><title>{escape(title)}</title><style>{_STYLE}</style>'
    write_whole(folder / REPORT, lambda file: file.write((page + "\n".join(parts) + "\n").encode()))
    return folder / REPORT


def _rates(rows: Sequence[Mapping[str, float]], name: str) -> list[float]:
    """The share of ``name`` among the games since the mark before."""
    rates = []
    before: Mapping[str, float] = {"games": 0, name: 0}
    for row in rows:
        rates.append((row[name] - before[name]) / max(1, row["games"] - before["games"]))
        before = row
    return rates


def _exact(outcomes: Mapping[str, Outcome]) -> str:
    head = "".join(f"<th>{name}</th>" for name in ("opponent", "win", "draw", "loss", "value"))
    body = "".join(
        f"<tr><td>{escape(opponent)}</td>{''.join(f'<td>{share:.6f}</td>' for share in result)}"
        f"<td>{result.value:+.6f}</td></tr>"
        for opponent, result in outcomes.items()
    )
    return (
        f"<h2>What it learned, exactly</h2><p>By dynamic programming over all positions that can be reached, the mean "
        f"of both seats; nothing is sampled.</p><table><tr>{head}</tr>{body}</table>"
    )


def _distance(rows: Sequence[Mapping[str, float]]) -> list[str]:
    """How far from perfect play the learner was, where it was measured."""
    measured = [row for row in rows if "exploitability" in row]
    if not measured:
        return []
    names = [name for name in ("exploitability", "regret") if name in measured[0]]
    last = ", ".join(f"{name} {measured[-1][name]:.6f}" for name in names)
    return [
        f"<h2>How far from perfect play</h2><p>Measured exactly while it learned; at the end {last}. Exploitability is "
        f"what one who knows it gets beyond the value of the game, the mean of both seats, and 0 for perfect play "
        f"only; regret is the value lost by an average move.</p>",
        _curves([row["games"] for row in measured], {name: [row[name] for row in measured] for name in names}),
    ]


def _matches(scores: Mapping[str, Score]) -> str:
    head = "".join(
        f"<th>{name}</th>" for name in ("opponent", "games", "wins", "draws", "losses", "score, 95% interval")
    )
    body = []
    for opponent, score in scores.items():
        rates = [f"{score.rate(name).mean:.1%}" for name in ("wins", "draws", "losses")]
        total = score.rate("score")
        cells = (
            escape(opponent),
            f"{score.games:,}",
            *rates,
            f"{total.mean:.3f} ({total.low:.3f} to {total.high:.3f})",
        )
        body.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
    return f"<h2>What it learned, in matches</h2><table><tr>{head}</tr>{''.join(body)}</table>"


def _curves(x: Sequence[float], curves: Mapping[str, Sequence[float]]) -> str:
    """Curves of rates between 0 and 1 as SVG."""
    if not x:
        return "<p>Nothing was logged.</p>"
    parts = []
    for share in (0.0, 0.5, 1.0):
        y = _HEIGHT - _MARGIN - share * (_HEIGHT - 2 * _MARGIN)
        parts.append(f'<line x1="{_MARGIN}" x2="{_WIDTH - _MARGIN}" y1="{y}" y2="{y}" stroke="#ddd"/>')
        parts.append(f'<text x="4" y="{y + 4}" font-size="12">{share:.0%}</text>')
    parts.append(
        f'<text x="{_WIDTH - _MARGIN}" y="{_HEIGHT - 12}" font-size="12" text-anchor="end">{x[-1]:,.0f} games</text>'
    )
    for index, ((name, values), colour) in enumerate(zip(curves.items(), ("#2a7", "#888", "#c43"), strict=False)):
        points = " ".join(
            f"{_MARGIN + at / x[-1] * (_WIDTH - 2 * _MARGIN):.1f},{_HEIGHT - _MARGIN - y * (_HEIGHT - 2 * _MARGIN):.1f}"
            for at, y in zip(x, values, strict=True)
        )
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        parts.append(f'<text x="{_MARGIN + 110 * index}" y="20" font-size="12" fill="{colour}">{name}</text>')
    return f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" width="100%">{"".join(parts)}</svg>'


def _cost(phases: Mapping[str, Mapping[str, float]]) -> str:
    head = "".join(f"<th>{name}</th>" for name in ("phase", "CPU user", "CPU system", "wall", "peak memory"))
    body = "".join(
        f"<tr><td>{escape(name)}</td><td>{phase['cpu_user_s']:.2f} s</td><td>{phase['cpu_system_s']:.2f} s</td>"
        f"<td>{phase['wall_s']:.2f} s</td><td>{phase['peak_rss_bytes'] / 2**20:.0f} MiB</td></tr>"
        for name, phase in phases.items()
    )
    return f"<table><tr>{head}</tr>{body}</table>"
