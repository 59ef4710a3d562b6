"""Part three of the report on tree search: four nets, taught by the tree, against the tree."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np

from evaluation.exact import outcome
from evaluation.match import Score
from evaluation.statistics import Interval, is_sample, of_seeds
from evaluation.study import Claim, Findings, Row, Study, Unit
from learners.training import Task
from learners.value_net import PRESETS, Preset, ValueNetConfig
from ttt_apps.studies.trees import (
    DEPTH,
    GAMES,
    SOURCE,
    counted,
    drawn_bars,
    drawn_lengths,
    match,
    name_of,
    of_seat,
    one_by_one,
    signed,
    square,
    total,
)
from ttt_envs.rules import Game

TEACHER_GAMES = 25
SEEDS, PAIRS = 10, 500
"""nets taught for each of the report's, each by games of its own; and games that each plays in either seat"""
EXACT = 9
"""cells up to which results of a net against the tree are exact"""
SOLVED = 16
"""cells up to which optimal play is known"""
AUTHORS: dict[Preset, str] = {"40-20": "Song", "20": "Li", "30-10": "Liu", "10-20": "Cheng"}


class Entry(NamedTuple):
    """One column of one of the report's four tables."""

    size: int
    win_length: int
    preset: Preset
    iterations: int
    published: tuple[int, int, int]
    """the net's wins, draws and losses, moving first"""

    @property
    def game(self) -> Game:
        """What is played."""
        return square(self.size, self.win_length)

    @property
    def name(self) -> str:
        """The board, whose net, and how long it learned."""
        return f"{name_of(self.game)}, {self.preset} ({AUTHORS[self.preset]}), {self.iterations:,}"

    @property
    def tree(self) -> str:
        """The teacher, and the opponent."""
        return f"expectiminimax:depth={DEPTH},width={8 if self.size == 7 else 15}"


ENTRIES = (
    Entry(3, 3, "40-20", 100, (58, 19, 23)),
    Entry(4, 3, "40-20", 100, (56, 0, 44)),
    Entry(5, 3, "40-20", 100, (78, 0, 22)),
    Entry(6, 4, "40-20", 100, (47, 0, 53)),
    Entry(6, 4, "40-20", 300, (66, 0, 34)),
    Entry(7, 4, "40-20", 500, (57, 0, 43)),
    Entry(7, 4, "40-20", 1_000, (54, 0, 46)),
    Entry(3, 3, "20", 3_000, (48, 21, 31)),
    Entry(4, 3, "20", 3_000, (64, 0, 36)),
    Entry(5, 3, "20", 1_000, (79, 0, 21)),
    Entry(6, 4, "20", 200, (54, 0, 46)),
    Entry(7, 4, "20", 1_000, (38, 0, 62)),
    Entry(3, 3, "30-10", 500, (47, 19, 34)),
    Entry(4, 3, "30-10", 500, (84, 0, 16)),
    Entry(5, 3, "30-10", 500, (75, 0, 25)),
    Entry(6, 4, "30-10", 500, (52, 0, 48)),
    Entry(7, 4, "30-10", 300, (62, 0, 38)),
    Entry(3, 3, "10-20", 1_000, (49, 21, 30)),
    Entry(4, 3, "10-20", 1_000, (68, 0, 32)),
    Entry(5, 3, "10-20", 1_000, (69, 0, 31)),
    Entry(6, 4, "10-20", 500, (49, 0, 51)),
    Entry(7, 4, "10-20", 300, (55, 0, 45)),
)


def units(quick: bool) -> list[Unit]:
    """Every net with every seed, seed by seed; and optimal play where it is known."""
    seeds, pairs, single = (2, 25, 10) if quick else (SEEDS, PAIRS, GAMES)
    entries = [index for index, entry in enumerate(ENTRIES) if not quick or entry.size <= 4]
    boards = sorted({(entry.size, entry.win_length) for entry in ENTRIES if entry.size**2 <= (9 if quick else SOLVED)})
    return [{"optimal": board} for board in boards] + [
        {"entry": entry, "seed": seed, "pairs": pairs, "single": single if seed == 0 else 0}
        for seed in range(seeds)
        for entry in entries
    ]


def measure(unit: Unit) -> Any:
    """Teach a net and let it play, or evaluate optimal play."""
    if "optimal" in unit:
        return list(outcome(square(*unit["optimal"]), "optimal", "optimal"))
    entry, seed = ENTRIES[unit["entry"]], unit["seed"]
    config = ValueNetConfig(
        preset=entry.preset, teacher=entry.tree, iterations=entry.iterations, log_iterations=entry.iterations // 50
    )
    curve: list[Mapping[str, float]] = []
    with TemporaryDirectory() as folder:
        task = Task(
            game=entry.game,
            opponent=config.opponent,
            seat="alternate",
            games=TEACHER_GAMES,
            batch=1,
            seed=seed,
            run=Path(folder),
            every=1,
            callbacks=(),
            log=lambda games, measured: curve.append(measured),
            progress=lambda done: None,
        )
        config.fit(task)
        net = config.load(entry.game, Path(folder))
    exact = None
    if entry.game.cells <= EXACT:
        exact = [
            list(outcome(entry.game, net, entry.tree)),
            list(outcome(entry.game, entry.tree, net).turned()),
        ]
    return {
        **match(entry.game, net, entry.tree, unit["pairs"], seed),
        "exact": exact,
        "loss": curve[-1]["loss"],
        "held_out_loss": curve[-1]["held_out_loss"],
        "positions": curve[-1]["positions"],
        "single": list(one_by_one(entry.game, net, entry.tree, 0, unit["single"], 10_000 + seed)),
        "curve": [[line[key] for key in ("iterations", "loss", "held_out_loss")] for line in curve]
        if unit["single"]
        else [],
    }


class Nets:
    """What the nets of one entry came to, one for each seed.

    Attributes:
        runs: the results of their units.
        rates: float64[2, seeds, 3]: wins, draws and losses by seat.
    """

    def __init__(self, entry: Entry, runs: Sequence[Mapping[str, Any]]) -> None:
        self.entry = entry
        self.runs = runs
        self.score: Score = total(runs)
        tables = np.stack([total([run]).table for run in runs], axis=1)
        self.rates = tables / tables.sum(axis=2, keepdims=True)
        if runs[0]["exact"] is not None:
            self.rates = np.array([run["exact"] for run in runs]).swapaxes(0, 1)

    def lead(self, *seats: int) -> Interval:
        """Wins less losses, the mean over seats and nets."""
        rates = self.rates[list(seats)].mean(axis=0)
        found = of_seeds((rates[:, 0] - rates[:, 2]).tolist())
        return Interval(found.mean, max(-1.0, found.low), min(1.0, found.high))

    def rows(self) -> list[Row]:
        """First as published, then the other way round."""
        agrees = any(is_sample(self.entry.published, one) for one in self.rates[0].tolist())
        return [
            Row(
                f"{self.entry.name} {'moves first' if seat == 0 else 'second'}",
                counted(self.entry.published) if seat == 0 else "",
                f"{_rates([rate.mean for rate in of_seat(self.score, seat)])}; lead {signed(self.lead(seat))}",
                "" if self.runs[0]["exact"] is None else _rates(self.rates[seat].mean(axis=0)),
                agrees if seat == 0 else None,
            )
            for seat in range(2)
        ]


def _rates(result: Any) -> str:
    return " / ".join(f"{share:.3f}" for share in result)


def _all(leads: Sequence[Interval]) -> bool | None:
    """Whether all are above 0; None where their intervals leave it open."""
    if any(lead.high < 0 for lead in leads):
        return False
    return True if all(lead.low > 0 for lead in leads) else None


def conclude(results: Sequence[tuple[Unit, Any]]) -> Findings:
    """All rows, and what becomes of the report's statements."""
    optimal = {tuple(unit["optimal"]): result for unit, result in results if "optimal" in unit}
    of_entry: dict[int, list[Any]] = {}
    for unit, result in results:
        if "entry" in unit:
            of_entry.setdefault(unit["entry"], []).append(result)
    nets = {ENTRIES[index]: Nets(ENTRIES[index], runs) for index, runs in of_entry.items()}
    rows = [row for one in nets.values() for row in one.rows()]
    rows += [
        Row(f"{name_of(square(*board))}, optimal play of both, who moves first", "", "", _rates(result))
        for board, result in optimal.items()
    ]

    def draw_bars(figure: Any) -> None:
        for axes, one in _panels(figure, nets):
            games = one.runs[0]["single"]
            drawn_bars(axes, [stones for _, stones in games], [result for result, _ in games], ("net", "draw", "tree"))

    def draw_lengths(figure: Any) -> None:
        for axes, one in _panels(figure, nets):
            assert one.score.lengths is not None
            first, second = one.score.lengths.sum(axis=1)
            drawn_lengths(axes, first, second, "games")

    def draw_curves(figure: Any) -> None:
        for axes, one in _panels(figure, nets):
            iterations, loss, held_out = np.array(one.runs[0]["curve"]).T
            axes.semilogy(iterations, loss, label="learned from")
            axes.semilogy(iterations, held_out, label="held out")
            axes.set(xlabel="step")
            axes.legend(fontsize="small")

    return Findings(
        rows,
        _claims(nets, optimal),
        {"tree-net": draw_bars, "tree-net-lengths": draw_lengths, "tree-net-learning": draw_curves},
        ours=f"ours, {len(next(iter(of_entry.values())))} nets",
        data=[{**unit, "result": result} for unit, result in results],
    )


def _panels(figure: Any, nets: Mapping[Entry, Nets]) -> Iterator[tuple[Any, Nets]]:
    """A panel for each net, a row for each author."""
    presets = [[one for entry, one in nets.items() if entry.preset == preset] for preset in PRESETS]
    width = max(map(len, presets))
    figure.set_size_inches(3.2 * width, 2.8 * len(presets))
    grid = figure.subplots(len(presets), width, squeeze=False)
    for row, mine in zip(grid, presets, strict=True):
        for axes, one in zip(row, mine, strict=False):
            axes.set_title(one.entry.name, fontsize="small")
            yield axes, one
        for axes in row[len(mine) :]:
            axes.remove()


def _claims(nets: Mapping[Entry, Nets], optimal: Mapping[tuple[int, ...], Sequence[float]]) -> list[Claim]:
    """The report's words; the quick form, with two small boards, decides none of those on all boards."""
    claims = []
    full = len(nets) == len(ENTRIES)
    for preset, author in AUTHORS.items():
        mine = [one for entry, one in nets.items() if entry.preset == preset]
        for words, seats in (
            (f"{author}: moving first, the net wins more than the tree on each board", (0,)),
            (f"the same over both seats ({author}'s net): the lead is not the first move's", (0, 1)),
        ):
            leads = [one.lead(*seats) for one in mine]
            told = "; ".join(
                f"{name_of(one.entry.game)}, {one.entry.iterations:,}: {signed(lead)}"
                for one, lead in zip(mine, leads, strict=True)
            )
            claims.append(Claim(words, _all(leads) if full else None, f"wins less losses {told}"))
    small = [one for entry, one in nets.items() if entry.size == 3]
    if small and (3, 3) in optimal:
        drawn = [float(one.rates[0, :, 1].mean()) for one in small]
        claims.append(
            Claim(
                "3 x 3: about a fifth of the games is drawn",
                all(0.15 <= share <= 0.25 for share in drawn),
                f"exactly {min(drawn):.3f} to {max(drawn):.3f} by net; with optimal play of both "
                f"{optimal[3, 3][1]:.3f}. Taken as 0.15 to 0.25",
            )
        )
    for words, before, after in (
        ("Song, 6 x 6: 300 steps are a significant improvement on 100", 3, 4),
        ("Song, 7 x 7: 1,000 steps perform a little worse than 500, probably for overfitting", 6, 5),
    ):
        if ENTRIES[before] not in nets:
            continue
        one, other = nets[ENTRIES[before]], nets[ENTRIES[after]]
        gains = (other.rates[0, :, 0] - one.rates[0, :, 0]).tolist()
        gain = of_seeds(gains)
        losses = ", ".join(
            f"{net.entry.iterations:,} steps: {np.mean([run['loss'] for run in net.runs]):.3f}, held out "
            f"{np.mean([run['held_out_loss'] for run in net.runs]):.3f}"
            for net in (one, other)
        )
        claims.append(
            Claim(words, _all([gain]), f"wins of the better less the other's {signed(gain)}; mean errors {losses}")
        )
    return claims


STUDY = Study(
    title="Nets that the tree has taught, against the tree",
    source=f"{SOURCE}, part three",
    about=(
        "For each of the report's nets and boards the tree (depth 3, 15 moves drawn at each node, 8 on 7 x 7) "
        "plays 25 games against itself, the net learns the backed-up utilities of their positions for as many "
        f"steps as in the report, and plays the tree one ply deep. The report has one net each and {GAMES} games, "
        f"the net moving first; here are {SEEDS} nets, each taught by games of its own, with {PAIRS:,} games in "
        "either seat each. Rates are of the net's wins, draws and losses; lead is wins less losses, its interval "
        "that of the mean over nets (95%, Student's t), and on 3 x 3 exact for every net. Published and ours "
        "agree where the published counts may be a sample of one of our nets. Li's text says that his net wins "
        "more on 7 x 7; his table has 38 of 100, and is what stands here. In the pictures of lengths bars are "
        "games in which the net moves first, lines those in which the tree does."
    ),
    units=units,
    measure=measure,
    conclude=conclude,
    left_out=f"boards above 4 x 4, eight of ten nets, and all but 25 of {PAIRS} games in either seat",
)
