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
    StudyReport,
    Value,
    combine,
    group,
    read_data,
)
from studies.trees import (
    DEPTH,
    FIRST,
    GAMES,
    SECOND,
    board_name,
    format_counts,
    mean_result,
    play_match,
    rates_of_seat,
    square,
    total_score,
)
from studies.verdicts import is_sample, is_within
from ttt_envs.game.game import Game
from ttt_eval.exact.measurement import Measurement
from ttt_eval.store.result_store import Data, Unit
from ttt_eval.store.statistics import Interval, interval_from_seeds

TEACHER_GAMES = 25
SEEDS = 10
"""Number of nets for each of the report's, each trained on games of its own."""
PAIRS = 500
"""Number of games of each net in either seat."""
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


DATA = read_data("trees")
ENTRIES = tuple(PublishedNet(**row) for row in DATA["entries"])


class NetResult:
    """Results of the nets of one entry, one for each seed.

    Attributes:
        runs: the results of their units.
        rates: float64[2, seeds, 3]: wins, draws and losses by seat.
    """

    def __init__(self, entry: PublishedNet, runs: Sequence[Data]) -> None:
        self.entry = entry
        self.runs = runs
        tables = np.stack([total_score([run]).table for run in runs], axis=1)
        self.rates = tables / tables.sum(axis=2, keepdims=True)
        if runs[0]["exact"] is not None:
            self.rates = np.array([run["exact"] for run in runs]).swapaxes(0, 1)

    def lead(self, *seats: int) -> Interval:
        """Return wins minus losses, the mean over seats and nets."""
        leads = self.rates[list(seats)].mean(axis=0) @ RESULT_VALUES
        return interval_from_seeds(leads.tolist(), bounds=(-1.0, 1.0))

    def rows(self) -> list[ResultRow]:
        """Return rows: first the published seat, then the other."""
        counts = self.entry.published
        agrees = any(is_sample(counts, rates) for rates in self.rates[FIRST].tolist())
        name = self.entry.name
        return [
            ResultRow(f"{name} moves first", format_counts(counts), *self._numbers(FIRST), agrees),
            ResultRow(f"{name} second", None, *self._numbers(SECOND)),
        ]

    def _numbers(self, seat: int) -> tuple[Value, Value]:
        """Return our results in a seat, and the exact ones if there are any."""
        rates = rates_of_seat(total_score(self.runs), seat)
        own = {"": [rate.mean for rate in rates], "lead": self.lead(seat)}
        exact = None if self.runs[0]["exact"] is None else self.rates[seat].mean(axis=0)
        return own, exact


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

    def units(self, quick: bool) -> list[Unit]:
        """Return every net with every seed, seed by seed."""
        if quick:
            return combine(seed=range(2), entry=[0], pairs=[10])
        return combine(seed=range(SEEDS), entry=range(len(ENTRIES)), pairs=[PAIRS])

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
        exact: Sequence[Sequence[float]] | None = None
        if game.cells <= MAX_EXACT_CELLS:
            exact = Measurement(game, net).outcomes(tree)
        return {**play_match(game, net, tree, unit["pairs"], seed), "exact": exact}

    def analyse(self, results: Results) -> StudyReport:
        """Report all rows, and verdicts on the report's statements."""
        runs_of_entries = group(results, "entry")
        nets = {entry: NetResult(ENTRIES[entry], runs) for entry, runs in runs_of_entries.items()}
        by_size = sorted(nets.values(), key=lambda net: net.entry.size)
        figures = {"tree-net": self.figure([_net_panel(by_size)])}
        rows = [row for net in nets.values() for row in net.rows()]
        return StudyReport(rows, _net_claims(nets), figures, f"ours, {len(by_size[0].runs)} nets")


def _net_claims(nets: Mapping[int, NetResult]) -> list[Claim]:
    """Return the report's claims on the nets that were trained, by the numbers of their entries."""
    claims = []
    for preset, author in AUTHORS.items():
        own = [net for net in nets.values() if net.entry.preset == preset]
        words = f"{author}: moving first, the net wins more than the tree on each board"
        claims.append(_lead_claim(words, own, FIRST))
        words = f"the same over both seats ({author}'s net): the lead is not the first move's"
        claims.append(_lead_claim(words, own, FIRST, SECOND))
    draws = [
        interval_from_seeds(net.rates[FIRST, :, 1].tolist(), bounds=(0.0, 1.0))
        for net in nets.values()
        if net.entry.size == 3
    ]
    holds = is_within(draws, *ABOUT_A_FIFTH)
    numbers = {"draws by net": draws, "read as": ABOUT_A_FIFTH}
    claims.append(Claim("3 x 3: about a fifth of the games is drawn", holds, numbers))
    own_nets = {net.entry.name: net for net in nets.values()}
    gains = [gain for gain in DATA["gains"] if gain["than"] in own_nets]
    return claims + [
        _gain_claim(gain["words"], own_nets[gain["better"]], own_nets[gain["than"]])
        for gain in gains
    ]


def _lead_claim(words: str, nets: Sequence[NetResult], *seats: int) -> Claim:
    """Return the claim that nets win more than they lose in the seats."""
    leads = {
        f"{board_name(net.entry.game)}, {net.entry.iterations:,}": net.lead(*seats) for net in nets
    }
    return Claim(words, is_within(leads, 0, 1), leads)


def _gain_claim(words: str, better: NetResult, other: NetResult) -> Claim:
    """Return the claim that one entry wins more than another."""
    gains = better.rates[FIRST, :, 0] - other.rates[FIRST, :, 0]
    gain = interval_from_seeds(gains.tolist(), bounds=(-1.0, 1.0))
    return Claim(words, is_within(gain, 0, 1), {"wins of the better less the other's": gain})


def _net_panel(nets: Sequence[NetResult]) -> Panel:
    """Return the leads, published and ours, a row for each net."""
    names = [
        f"{board_name(net.entry.game)}  {AUTHORS[net.entry.preset]}, {net.entry.iterations:,}"
        for net in nets
    ]
    places = np.arange(len(nets))
    published_leads = [mean_result(net.entry.published, RESULT_VALUES) for net in nets]
    label = f"published, net first ({GAMES} games)"
    leads = [
        Series(label, places - 0.22, published_leads, "D", "black"),
        Series("ours, net first", places, [net.lead(FIRST) for net in nets], "o"),
        Series(
            "ours, both seats", places + 0.22, [net.lead(FIRST, SECOND) for net in nets], "s", 1
        ),
    ]
    return Panel(leads, "the net's wins less losses", places=names, limits=(-1.05, 1.05))
