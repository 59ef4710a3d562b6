"""The report on tree search, part three: four nets, trained by imitation of the tree, against the
tree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from learners.value_net import Preset, ValueNetConfig
from studies.frame import (
    RESULT_VALUES,
    Claim,
    Panel,
    ResultRow,
    Results,
    Series,
    Study,
    StudyFigure,
    StudyReport,
    group,
    read_data,
)
from studies.trees import (
    DEPTH,
    FIRST,
    GAMES,
    SECOND,
    SOURCE,
    board_name,
    format_counts,
    mean_result,
    play_match,
    rates_of_seat,
    square,
    total_score,
)
from studies.verdicts import holds_for_all, is_above, is_sample, is_within
from ttt_envs.game.game import Game
from ttt_eval.exact.dynamic_programming import outcome
from ttt_eval.store.result_store import Unit
from ttt_eval.store.statistics import Interval, interval_from_seeds

TEACHER_GAMES = 25
SEEDS = 10
PAIRS = 500
"""Number of nets for each of the report's, each trained on games of its own; number of games of
each in either seat.
"""
MAX_EXACT_CELLS = 9
"""Maximum number of cells for exact results of a net against the tree."""
ABOUT_A_FIFTH = (0.15, 0.25)
"""Range taken for "about a fifth"."""
AUTHORS: Mapping[Preset, str] = {"40-20": "Song", "20": "Li", "30-10": "Liu", "10-20": "Cheng"}


class PublishedNet(NamedTuple):
    """One column of one of the report's four tables."""

    size: int
    win_length: int
    preset: Preset
    iterations: int
    published: Sequence[int]
    """the net's wins, draws and losses, moving first"""

    @property
    def game(self) -> Game:
        """The game."""
        return square(self.size, self.win_length)

    @property
    def name(self) -> str:
        """Board, author of the net, and number of training steps."""
        return (
            f"{board_name(self.game)}, {self.preset} ({AUTHORS[self.preset]}), {self.iterations:,}"
        )

    @property
    def tree(self) -> str:
        """The teacher, which is also the opponent."""
        return f"expectiminimax:depth={DEPTH},width={8 if self.size == 7 else 15}"


ENTRIES = tuple(PublishedNet(**row) for row in read_data("trees")["entries"])


class NetResult:
    """Results of the nets of one entry, one for each seed.

    Attributes:
        runs: the results of their units.
        rates: float64[2, seeds, 3]: wins, draws and losses by seat.
    """

    def __init__(self, entry: PublishedNet, runs: Sequence[Mapping[str, Any]]) -> None:
        self.entry = entry
        self.runs = runs
        tables = np.stack([total_score([run]).table for run in runs], axis=1)
        self.rates = tables / tables.sum(axis=2, keepdims=True)
        if runs[0]["exact"] is not None:
            self.rates = np.array([run["exact"] for run in runs]).swapaxes(0, 1)

    def lead(self, *seats: int) -> Interval:
        """Return wins minus losses, the mean over seats and nets."""
        return interval_from_seeds(
            (self.rates[list(seats)].mean(axis=0) @ RESULT_VALUES).tolist(), bounds=(-1.0, 1.0)
        )

    def rows(self) -> list[ResultRow]:
        """Return rows: first the published seat, then the other."""
        plausible = any(
            is_sample(self.entry.published, rates) for rates in self.rates[FIRST].tolist()
        )
        rows = []
        for seat, published, agrees in (
            (FIRST, format_counts(self.entry.published), plausible),
            (SECOND, None, None),
        ):
            ours = {
                "": [rate.mean for rate in rates_of_seat(total_score(self.runs), seat)],
                "lead": self.lead(seat),
            }
            exact = None if self.runs[0]["exact"] is None else self.rates[seat].mean(axis=0)
            label = f"{self.entry.name} {'second' if seat else 'moves first'}"
            rows.append(ResultRow(label, published, ours, exact, agrees))
        return rows


class ImitationNets(Study):
    """For each network and board of the report, the tree (depth 3, 15 random moves at each node, 8
    on 7 x 7) plays 25 games against itself. The network learns the value that the tree's search
    gives to each of their positions, for as many steps as in the report, and plays the tree one ply
    deep. The report has one network each and 100 games, with the network moving first. Here there
    are 10 networks, each trained on games of its own, with 500 games in either seat each. Rates are
    the network's wins, draws and losses. Lead is wins minus losses; its interval is that of the
    mean over networks (95%, Student's t), and on 3 x 3 the lead of each network is exact. Published
    and our results agree if the published counts are a plausible sample of one of our networks.
    Li's text says that his network wins more on 7 x 7; his table, used here, has 38 of 100. The
    picture has the lead of all networks.
    """

    title = "Networks trained by imitation of the tree, against the tree"
    source = f"{SOURCE}, part three"
    left_out = (
        "all boards but 3 x 3, three of four nets, and all but 10 of 500 games in either seat"
    )

    def units(self, quick: bool) -> list[Unit]:
        """Return every net with every seed, seed by seed."""
        seeds, pairs, entries = (2, 10, ENTRIES[:1]) if quick else (SEEDS, PAIRS, ENTRIES)
        return [
            {"entry": entry, "seed": seed, "pairs": pairs}
            for seed in range(seeds)
            for entry in range(len(entries))
        ]

    def measure(self, unit: Unit) -> Any:
        """Train a net by imitation of the tree and play it."""
        entry = ENTRIES[unit["entry"]]
        seed = unit["seed"]
        game = entry.game
        tree = entry.tree
        steps = entry.iterations
        config = ValueNetConfig(
            preset=entry.preset, teacher=tree, iterations=steps, log_iterations=steps
        )
        training = config.training(
            game, TEACHER_GAMES, batch=1, seed=seed, opponent=config.opponent
        )
        training.run()
        net = training.learner
        exact = None
        if game.cells <= MAX_EXACT_CELLS:
            exact = [list(outcome(game, net, tree)), list(outcome(game, tree, net).reversed())]
        return {**play_match(game, net, tree, unit["pairs"], seed), "exact": exact}

    def analyse(self, results: Results) -> StudyReport:
        """Report all rows, and verdicts on the report's statements."""
        nets = {
            entry: NetResult(ENTRIES[entry], runs)
            for entry, runs in group(results, "entry").items()
        }
        by_size = sorted(nets.values(), key=lambda net: net.entry.size)
        question = "Does a net that imitates the tree beat it?"
        figure = StudyFigure(
            question, "Wins less losses with 95% intervals.", [_net_panel(by_size)]
        )
        rows = [row for net in nets.values() for row in net.rows()]
        return StudyReport(
            rows, _net_claims(nets), {"tree-net": figure}, f"ours, {len(by_size[0].runs)} nets"
        )


def _net_claims(nets: Mapping[int, NetResult]) -> list[Claim]:
    """Return the report's claims on the nets that were trained, by the numbers of their entries."""
    claims = []
    for preset, author in AUTHORS.items():
        own = [net for net in nets.values() if net.entry.preset == preset]
        for words, seats in (
            (f"{author}: moving first, the net wins more than the tree on each board", (FIRST,)),
            (
                f"the same over both seats ({author}'s net): the lead is not the first move's",
                (FIRST, SECOND),
            ),
        ):
            leads = {
                f"{board_name(net.entry.game)}, {net.entry.iterations:,}": net.lead(*seats)
                for net in own
            }
            claims.append(Claim(words, is_above(leads.values()), leads))
    small = [net for net in nets.values() if net.entry.size == 3]
    draws = [
        interval_from_seeds(net.rates[FIRST, :, 1].tolist(), bounds=(0.0, 1.0)) for net in small
    ]
    holds = holds_for_all(is_within(share, *ABOUT_A_FIFTH) for share in draws)
    numbers = {"draws by net": draws, "read as": ABOUT_A_FIFTH}
    claims.append(Claim("3 x 3: about a fifth of the games is drawn", holds, numbers))
    for words, before, better in (
        ("Song, 6 x 6: 300 steps are a significant improvement on 100", 3, 4),
        (
            "Song, 7 x 7: 1,000 steps perform a little worse than 500, probably for overfitting",
            6,
            5,
        ),
    ):
        if before in nets:
            wins = [nets[index].rates[FIRST, :, 0] for index in (before, better)]
            gain = interval_from_seeds((wins[1] - wins[0]).tolist(), bounds=(-1.0, 1.0))
            claims.append(
                Claim(words, is_above([gain]), {"wins of the better less the other's": gain})
            )
    return claims


def _net_panel(nets: Sequence[NetResult]) -> Panel:
    """Return the leads, published and ours, a row for each net."""
    names = [
        f"{board_name(net.entry.game)}  {AUTHORS[net.entry.preset]}, {net.entry.iterations:,}"
        for net in nets
    ]
    places = np.arange(len(nets))
    published = [mean_result(net.entry.published, RESULT_VALUES) for net in nets]
    leads = [
        Series(f"published, net first ({GAMES} games)", places - 0.22, published, "D", "black"),
        Series("ours, net first", places, [net.lead(FIRST) for net in nets], "o"),
        Series(
            "ours, both seats", places + 0.22, [net.lead(FIRST, SECOND) for net in nets], "s", 1
        ),
    ]
    return Panel(leads, "the net's wins less losses", places=names, limits=(-1.05, 1.05))
