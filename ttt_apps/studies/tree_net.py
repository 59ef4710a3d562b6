"""Part three of the report on tree search: four nets, trained by imitation of the tree, against the tree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from learners.value_net import Preset, ValueNetConfig
from ttt_apps.studies import trees
from ttt_apps.studies.trees import DEPTH, GAMES, board_name, format_counts, format_rates, square
from ttt_envs.game.game import Game
from ttt_eval.exact.dynamic_programming import outcome
from ttt_eval.matches.score import Score
from ttt_eval.reports.plots import SERIES, plot_intervals
from ttt_eval.result_store import Unit
from ttt_eval.statistics import Interval, holds_for_all, interval_from_seeds, is_above, is_sample, is_within
from ttt_eval.study import Caption, Claim, Report, Row, Study, format_difference, rates, read_intervals

TEACHER_GAMES = 25
SEEDS, PAIRS = 10, 500
"""Number of nets for each of the report's, each trained on games of its own; number of games of each in either seat."""
MAX_EXACT_CELLS = 9
"""Maximum number of cells for exact results of a net against the tree."""
MAX_OPTIMAL_CELLS = 16
"""Maximum number of cells for optimal play."""
ABOUT_A_FIFTH = (0.15, 0.25)
"""Range taken for "about a fifth"."""
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
        """The game."""
        return square(self.size, self.win_length)

    @property
    def name(self) -> str:
        """Board, author of the net, and number of training steps."""
        return f"{board_name(self.game)}, {self.preset} ({AUTHORS[self.preset]}), {self.iterations:,}"

    @property
    def tree(self) -> str:
        """The teacher, which is also the opponent."""
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
    """Return every net with every seed, seed by seed; and optimal play where it is known."""
    seeds, pairs, single = (2, 25, 10) if quick else (SEEDS, PAIRS, GAMES)
    entries = [index for index, entry in enumerate(ENTRIES) if not quick or entry.size <= 4]
    boards = sorted(
        {(entry.size, entry.win_length) for entry in ENTRIES if entry.size**2 <= (9 if quick else MAX_OPTIMAL_CELLS)}
    )
    return [{"optimal": board} for board in boards] + [
        {"entry": entry, "seed": seed, "pairs": pairs, "single": single if seed == 0 else 0}
        for seed in range(seeds)
        for entry in entries
    ]


def measure(unit: Unit) -> Any:
    """Train a net and play it, or evaluate optimal play."""
    if "optimal" in unit:
        return list(outcome(square(*unit["optimal"]), "optimal", "optimal"))
    entry, seed = ENTRIES[unit["entry"]], unit["seed"]
    config = ValueNetConfig(
        preset=entry.preset, teacher=entry.tree, iterations=entry.iterations, log_iterations=entry.iterations // 50
    )
    curve: list[Mapping[str, float]] = []
    training = config.training(entry.game, TEACHER_GAMES, batch=1, seed=seed, opponent=config.opponent)
    training.run(log=lambda games, measured: curve.append(measured))
    net = training.learner
    exact = None
    if entry.game.cells <= MAX_EXACT_CELLS:
        exact = [list(outcome(entry.game, net, entry.tree)), list(outcome(entry.game, entry.tree, net).reversed())]
    return {
        **trees.play_match(entry.game, net, entry.tree, unit["pairs"], seed),
        "exact": exact,
        "loss": curve[-1]["loss"],
        "held_out_loss": curve[-1]["held_out_loss"],
        "positions": curve[-1]["positions"],
        "single": list(trees.play_games(entry.game, net, entry.tree, 0, unit["single"], 10_000 + seed)),
        "curve": [[line[key] for key in ("iterations", "loss", "held_out_loss")] for line in curve]
        if unit["single"]
        else [],
    }


class EntryResult:
    """Results of the nets of one entry, one for each seed.

    Attributes:
        runs: the results of their units.
        rates: float64[2, seeds, 3]: wins, draws and losses by seat.
    """

    def __init__(self, entry: Entry, runs: Sequence[Mapping[str, Any]]) -> None:
        self.entry = entry
        self.runs = runs
        self.score: Score = trees.total_score(runs)
        tables = np.stack([trees.total_score([run]).table for run in runs], axis=1)
        self.rates = tables / tables.sum(axis=2, keepdims=True)
        if runs[0]["exact"] is not None:
            self.rates = np.array([run["exact"] for run in runs]).swapaxes(0, 1)

    def lead(self, *seats: int) -> Interval:
        """Return wins minus losses, the mean over seats and nets."""
        rates = self.rates[list(seats)].mean(axis=0)
        return interval_from_seeds((rates[:, 0] - rates[:, 2]).tolist(), bounds=(-1.0, 1.0))

    @property
    def draws(self) -> Interval:
        """Share of draws where the net moves first, the mean over nets."""
        return interval_from_seeds(self.rates[0, :, 1].tolist(), bounds=(0.0, 1.0))

    def rows(self) -> list[Row]:
        """Return rows: first the published seat, then the other."""
        agrees = any(is_sample(self.entry.published, one) for one in self.rates[0].tolist())
        rows = []
        for seat, published, words in ((0, format_counts(self.entry.published), "moves first"), (1, "", "second")):
            ours = rates([rate.mean for rate in trees.rates_of_seat(self.score, seat)])
            exact = "" if self.runs[0]["exact"] is None else rates(self.rates[seat].mean(axis=0))
            ours += f"; lead {format_difference(self.lead(seat))}"
            rows.append(Row(f"{self.entry.name} {words}", published, ours, exact, None if seat else agrees))
        return rows


def analyse(results: Sequence[tuple[Unit, Any]]) -> Report:
    """Report all rows, and verdicts on the report's statements."""
    optimal = {tuple(unit["optimal"]): result for unit, result in results if "optimal" in unit}
    runs: dict[Entry, list[Any]] = {}
    for unit, result in results:
        if "entry" in unit:
            runs.setdefault(ENTRIES[unit["entry"]], []).append(result)
    nets = {entry: EntryResult(entry, mine) for entry, mine in runs.items()}
    rows = [row for one in nets.values() for row in one.rows()]
    rows += [
        Row(f"{board_name(square(*board))}, optimal play of both, the first player", "", "", rates(result))
        for board, result in optimal.items()
    ]
    by_size = sorted(nets.values(), key=lambda one: one.entry.size)
    return Report(
        rows,
        _claims(nets, optimal),
        {"tree-net": lambda figure: _draw_figure(figure, by_size)},
        ours=f"ours, {len(by_size[0].runs)} nets",
        data=[{**unit, "result": result} for unit, result in results],
    )


def _draw_figure(figure: Any, nets: Sequence[EntryResult]) -> None:
    """Draw the leads, published and ours, a row for each net; and the training and held-out errors."""
    figure.set_size_inches(8, 1.8 + 0.27 * len(nets))
    left, right = figure.subplots(1, 2, sharey=True, width_ratios=(3, 2))
    places, row = [], 0.0
    for index, one in enumerate(nets):
        row += 1.0 if index and one.entry.size == nets[index - 1].entry.size else 1.7
        places.append(row)
    count = len(nets[0].runs)
    published = [trees.mean_result(one.entry.published, trees.VALUE) for one in nets]
    for shift, marker, colour, name, leads in (
        (-0.22, "D", "black", f"published, net first ({GAMES} games)", published),
        (0.0, "o", SERIES[0], f"ours, net first ({count} nets)", [one.lead(0) for one in nets]),
        (0.22, "s", SERIES[1], "ours, both seats", [one.lead(0, 1) for one in nets]),
    ):
        style = {"fmt": marker, "ms": 4, "lw": 1, "capsize": 2, "color": colour, "label": name}
        plot_intervals(left, np.array(places) + shift, leads, across=True, **style)
    left.axvline(0, color="black", lw=0.8)
    left.set(xlabel="the net's wins less losses, 95% intervals", xlim=(-1.05, 1.05))
    left.set_ylabel("board (stones in a row that win), whose net, steps of learning")
    left.set_ylim(places[0] - 0.8, places[-1] + 0.8)
    left.set_yticks(
        places, [f"{board_name(one.entry.game)}  {AUTHORS[one.entry.preset]}, {one.entry.iterations:,}" for one in nets]
    )
    left.invert_yaxis()
    for key, marker, colour, name in (
        ("loss", "v", SERIES[2], "error, positions learned from"),
        ("held_out_loss", "^", SERIES[4], "error, positions held out"),
    ):
        errors = [np.mean([run[key] for run in one.runs]) for one in nets]
        right.plot(errors, places, marker, ms=6, color=colour, label=name)
    right.set(xscale="log", xlabel="mean squared error, in the tree's\nscores; means of all nets")
    figure.legend(loc="outside upper center", ncols=3, frameon=False, fontsize="small")


def _claims(nets: Mapping[Entry, EntryResult], optimal: Mapping[tuple[int, ...], Sequence[float]]) -> list[Claim]:
    """Return the report's claims; the quick form, with two small boards, decides none of those on all boards."""
    claims = []
    full = len(nets) == len(ENTRIES)
    for preset, author in AUTHORS.items():
        mine = [one for entry, one in nets.items() if entry.preset == preset]
        for words, seats in (
            (f"{author}: moving first, the net wins more than the tree on each board", (0,)),
            (f"the same over both seats ({author}'s net): the lead is not the first move's", (0, 1)),
        ):
            leads = [one.lead(*seats) for one in mine]
            evidence = "; ".join(
                f"{board_name(one.entry.game)}, {one.entry.iterations:,}: {format_difference(lead)}"
                for one, lead in zip(mine, leads, strict=True)
            )
            claims.append(Claim(words, is_above(leads) if full else None, f"wins less losses {evidence}"))
    small = [one for entry, one in nets.items() if entry.size == 3]
    if small and (3, 3) in optimal:
        draws = [one.draws for one in small]
        claims.append(
            Claim(
                "3 x 3: about a fifth of the games is drawn",
                holds_for_all(is_within(share, *ABOUT_A_FIFTH) for share in draws),
                f"exactly {format_rates(draws)} by net; with optimal play of both {optimal[3, 3][1]:.3f}. Taken as "
                f"{ABOUT_A_FIFTH[0]} to {ABOUT_A_FIFTH[1]}",
            )
        )
    for words, before, after in (
        ("Song, 6 x 6: 300 steps are a significant improvement on 100", 3, 4),
        ("Song, 7 x 7: 1,000 steps perform a little worse than 500, probably for overfitting", 6, 5),
    ):
        if ENTRIES[before] not in nets:
            continue
        one, other = nets[ENTRIES[before]], nets[ENTRIES[after]]
        gain = interval_from_seeds((other.rates[0, :, 0] - one.rates[0, :, 0]).tolist(), bounds=(-1.0, 1.0))
        losses = ", ".join(
            f"{net.entry.iterations:,} steps: {np.mean([run['loss'] for run in net.runs]):.3f}, held out "
            f"{np.mean([run['held_out_loss'] for run in net.runs]):.3f}"
            for net in (one, other)
        )
        claims.append(
            Claim(
                words,
                is_above([gain]),
                f"wins of the better less the other's {format_difference(gain)}; mean errors {losses}",
            )
        )
    return claims


def _answer(report: Report) -> str:
    claims = [claim for claim in report.claims if claim.words.startswith("the same over both seats")]
    leads = [lead for claim in claims for lead in read_intervals(claim.evidence)]
    more, fewer = sum(lead.low > 0 for lead in leads), sum(lead.high < 0 for lead in leads)
    if fewer == len(leads):
        return "No: over both seats every net loses more games to the tree than it wins, on every board."
    return f"Over both seats, of {len(leads)} nets {more} win more games than they lose, and {fewer} lose more."


STUDY = Study(
    title="Networks trained by imitation of the tree, against the tree",
    source=f"{trees.SOURCE}, part three",
    about=(
        "For each network and board of the report, the tree (depth 3, 15 random moves at each node, 8 on 7 x 7) plays "
        "25 games against itself. The network learns the value that the tree's search gives to each of their "
        "positions, for as many steps as in the report, and plays the tree one ply deep. The report has one network "
        f"each and {GAMES} games, with the network moving first. Here there are {SEEDS} networks, each trained on "
        f"games of its own, with {PAIRS:,} games in either seat each. Rates are the network's wins, draws and losses. "
        "Lead is wins minus losses; its interval is that of the mean over networks (95%, Student's t), and on 3 x 3 "
        "the lead of each network is exact. Published and our results agree if the published counts are a plausible "
        "sample of one of our networks. Li's text says that his network wins more on 7 x 7; his table, used here, has "
        "38 of 100. The report's figures have one bar per game and one learning curve per network. Those of our first "
        "networks are in result.json; the picture shows the lead and the final errors of all networks."
    ),
    units=units,
    measure=measure,
    analyse=analyse,
    left_out=f"boards above 4 x 4, eight of ten nets, and all but 25 of {PAIRS} games in either seat",
    captions={
        "tree-net": Caption(
            "Does a net that imitates the tree beat it?",
            _answer,
            "Left: wins less losses with 95% intervals; the vertical line is 0. Right: mean errors of the net.",
        ),
    },
)
