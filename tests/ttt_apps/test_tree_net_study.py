"""Networks trained by imitation of the tree: measurements, and verdicts that follow from them."""

import numpy as np
import pytest

from ttt_apps.studies import tree_net
from ttt_apps.studies.tree_net import ENTRIES, SEEDS
from ttt_envs import Game
from ttt_eval.matches.score import Score


def test_published_results_are_of_a_hundred_games():
    assert all(sum(entry.published) == 100 for entry in ENTRIES)
    assert {entry.size for entry in ENTRIES} == {3, 4, 5, 6, 7}
    assert all(entry.tree.endswith("width=8") == (entry.size == 7) for entry in ENTRIES)
    assert ENTRIES[3].game == Game(6, 6, 4, 0.25)


def test_every_entry_has_ten_thousand_games():
    of_entry = {}
    for unit in tree_net.units(False):
        if "entry" in unit:
            of_entry[unit["entry"]] = of_entry.get(unit["entry"], 0) + 2 * unit["pairs"]
    assert of_entry == dict.fromkeys(range(len(ENTRIES)), 10_000)


@pytest.mark.needs("tensorflow")
def test_sampled_rates_agree_with_exact_ones():
    unit = {"entry": 0, "seed": 1, "pairs": 400, "single": 3}
    found = tree_net.measure(unit)
    assert found == tree_net.measure(unit)
    table = Score(np.array(found["pairs"])).table / 400
    assert np.abs(table - np.array(found["exact"])).max() < 0.1
    assert len(found["single"]) == 3
    assert found["curve"][-1][0] == ENTRIES[0].iterations
    assert found["curve"][-1][1] < found["curve"][0][1]


def results(first, second, draws=0.0):
    """Measurements in which every net has these shares of wins in the two seats, and draws moving first on 3 x 3."""
    both = []
    for unit in tree_net.units(False):
        if "optimal" in unit:
            both.append((unit, [0.5, 0.25, 0.25]))
            continue
        entry = ENTRIES[unit["entry"]]
        shift = (0.02 + 0.004 * (unit["entry"] % 2)) * (unit["seed"] / (SEEDS - 1) - 0.5)
        drawn = draws + 1e-6 * unit["seed"]
        rates = [[share + shift, 0.0, 1 - share - shift] for share in (first(entry), second(entry))]
        counts = np.round(1_000 * np.array(rates)).astype(int)
        pairs = np.zeros((3, 3), int)  # of wins and losses, made to have these margins
        pairs[0, 0] = min(counts[0, 0], counts[1, 0])
        pairs[0, 2], pairs[2, 0] = counts[0, 0] - pairs[0, 0], counts[1, 0] - pairs[0, 0]
        pairs[2, 2] = 1_000 - pairs.sum()
        lengths = np.zeros((2, 3, entry.game.cells + 1), int)
        lengths[:, :, 5] = Score(pairs).table
        result = {
            "pairs": pairs.tolist(),
            "lengths": lengths.tolist(),
            "exact": [np.add(rates[0], [-drawn, drawn, 0]).tolist(), rates[1]] if entry.size == 3 else None,
            "loss": 0.1,
            "held_out_loss": 0.2,
            "positions": 100,
            "single": [[0, 5]],
            "curve": [[0, 1.0, 1.0], [100, 0.1, 0.2]],
        }
        both.append((unit, result))
    return both


def verdicts(first, second):
    return {
        claim.words.partition(":")[0]: claim.holds
        for claim in tree_net.analyse(results(first, second)).claims
        if "3 x 3" not in claim.words
    }


def test_claims_hold_for_rates_as_published():
    found = tree_net.analyse(results(lambda entry: 0.7, lambda entry: 0.6))
    held = [claim.holds for claim in found.claims]
    assert held[:8] == [True] * 8  # both statements of all four
    assert held[8] is False  # nothing is drawn
    assert held[9:] == [None, None]  # more steps gain nothing, and lose nothing
    drawn = tree_net.analyse(results(lambda entry: 0.7, lambda entry: 0.6, draws=0.2))
    assert drawn.claims[8].holds is True
    rows = {row.what: row for row in found.rows}
    assert rows["5 x 5 (3), 40-20 (Song), 100 moves first"].agrees is True
    assert rows["7 x 7 (4), 20 (Li), 1,000 moves first"].agrees is False


def test_claims_do_not_hold_for_other_rates():
    only_first = verdicts(lambda entry: 0.6, lambda entry: 0.2)
    assert [only_first[author] for author in ("Song", "Li", "Liu", "Cheng")] == [True] * 4
    assert [holds for words, holds in only_first.items() if words.startswith("the same")] == [False] * 4
    lost = verdicts(lambda entry: 0.6 if entry.size < 7 else 0.4, lambda entry: 0.5)
    assert [lost[author] for author in ("Song", "Li", "Liu", "Cheng")] == [False] * 4


def test_more_steps_are_better_if_wins_increase():
    better = verdicts(lambda entry: 0.5 + entry.iterations / 10_000, lambda entry: 0.5)
    assert better["Song, 6 x 6"] is True
    assert better["Song, 7 x 7"] is False
