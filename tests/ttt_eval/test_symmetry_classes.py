"""Exact results over symmetry classes and with cached answers, compared with results over single
boards.
"""

import numpy as np
import plain
import pytest
from exactly import T3, Recorded, assert_near, play_out, policy_of
from players import Drawn

from ttt_envs import Game, make_policy
from ttt_envs.agents.specs import TRUST, FromFile
from ttt_envs.game.symmetry import symmetries
from ttt_eval.exact.dynamic_programming import (
    best_response,
    exploitability,
    exploitation,
    outcome,
    regret,
    regret_table,
)
from ttt_eval.exact.policy_cache import CachedPolicy, make_policy_once
from ttt_eval.exact.strength import training_callback


class Claiming(Recorded):
    """A policy that records its queries and declares its symmetries."""

    def __init__(self, policy, symmetric=True, colour_blind=True):
        super().__init__(policy)
        self.symmetric = symmetric
        self.colour_blind = colour_blind


class Averaged(Drawn):
    """Random distributions averaged over symmetries and colours: symmetric and colour-blind."""

    def __init__(self, game, seed=0, never=0.6):
        super().__init__(game, seed, never)
        table = np.zeros_like(self.table)
        cells = plain.all_cells(game)
        exchanged = np.where(cells > 0, 3 - cells, 0)
        for image in symmetries(game):
            for rotated, movers in ((cells, (0, 1)), (exchanged, (1, 0))):
                rows = rotated[:, image] @ self.powers
                back = np.argsort(image)
                table += self.table[list(movers)][:, rows][:, :, back]
        self.table = table / np.maximum(table.sum(axis=2, keepdims=True), 1e-9)


SIX = Game(2, 3, 3, 0.25)
SIDES = [(False, False), (True, False), (False, True), (True, True)]
"""Declarations of a policy: symmetric, colour-blind."""
CLASS_GAMES = [Game(2, 2, 2), Game(2, 3, 3, 0.25), Game(3, 2, 2), Game(1, 6, 3, 0.1)]


def numbers_of(game, policy, other):
    """Return all results as one array."""
    rows = regret_table(game, policy)
    return np.concatenate(
        [
            *(
                outcome(game, *pair)
                for pair in ((policy, other), (other, policy), (policy, policy))
            ),
            *(best_response(game, policy, seat) for seat in (0, 1)),
            *exploitation(game, policy)[:2],
            [exploitability(game, policy), regret(game, policy)],
            *([row.stones, row.moves, row.loss] for row in rows),
        ]
    )


@pytest.mark.parametrize("game", CLASS_GAMES, ids=str)
def test_results_over_classes_are_those_over_boards(game):
    for spec in ("win-or-block", "optimal:epsilon=0.1", "expectiminimax:depth=2", Averaged(game)):
        policy = make_policy(spec, game)
        for other in (Drawn(game, seed=5), Averaged(game, seed=6)):
            expected = numbers_of(game, Claiming(policy, False, False), other)
            other = Claiming(other, *[isinstance(other, Averaged)] * 2)
            for sides in SIDES[1:]:
                result = numbers_of(game, Claiming(policy, *sides), other)
                assert_near(result, expected, err_msg=f"{spec} {sides}")


@pytest.mark.slow
def test_results_over_classes_on_4x4_with_skips():
    """The same computation over single boards gave these numbers to 1e-12, with 18 GB of memory."""
    expected = [
        (0.6167921322851387, 0.34267521710630433, 0.04053265060855694),
        (0.45154687500982604, 0.4685006221160227, 0.07995250287415123),
    ]
    assert_near(exploitation(Game(4, 4, 4, 0.25), "win-or-block")[:2], expected)


def test_only_declared_symmetries_are_used():
    """An asymmetric policy has the results of plain Python; a wrong declaration is not checked and
    changes them.
    """
    asymmetric = policy_of("drawn1", SIX)
    our_values = outcome(SIX, asymmetric, "random")
    assert_near(our_values, play_out(SIX, "drawn1", "random")[0])
    assert abs(np.subtract(outcome(SIX, Claiming(asymmetric), "random"), our_values)).max() > 1e-3


def canonical_queries(game, states):
    """Return queries with symmetric positions mapped to one."""
    images = symmetries(game)
    return [
        (min(np.frombuffer(cells, np.int8)[image].tobytes() for image in images), mover)
        for cells, mover in states
    ]


@pytest.mark.parametrize("game", [T3, SIX], ids=str)
def test_one_position_of_each_class_is_queried(game):
    separate = Claiming(Averaged(game), False, False)
    claiming = Claiming(Averaged(game))
    for call in (exploitability, regret, lambda game, policy: outcome(game, policy, policy)):
        separate.batches = []
        claiming.batches = []
        call(game, separate)
        call(game, claiming)
        assert len(set(canonical_queries(game, claiming.queries))) == len(claiming.queries)
        assert len(claiming.queries) < len(separate.queries) / 2
        assert set(claiming.queries) <= set(
            plain.moves_of(game)
        )  # with the colours that games can reach


def test_while_training_queries_each_position_once():
    game = SIX
    for sides in SIDES[::3]:
        learner = Claiming(Averaged(game), *sides)
        measure = training_callback(game, Drawn(game, seed=5), 10, games=40, start=15)
        result = measure(20, learner)  # the next multiple of 10
        assert len(set(learner.queries)) == len(learner.queries)
        assert result["exploitability"] == pytest.approx(
            exploitability(game, learner.policy), abs=1e-12
        )
        assert result["regret"] == pytest.approx(regret(game, learner.policy), abs=1e-12)


@pytest.mark.parametrize("memory", [0, 1500, 1 << 28])
@pytest.mark.parametrize("sides", SIDES, ids=str)
def test_cached_answers_are_those_of_the_policy(sides, memory, monkeypatch):
    """Answers beyond the cache's size are queried again."""
    policy = Averaged(SIX)
    boards = plain.positions_of_random_play(SIX, 500)
    claiming = Claiming(policy, *sides)
    monkeypatch.setattr("ttt_eval.exact.policy_cache.MAX_CACHE_BYTES", memory)
    caching = CachedPolicy(claiming, SIX)
    expected = policy.probabilities(boards)
    for rows in (np.arange(0, 300), np.arange(200, 500), np.arange(500)):
        assert_near(caching.probabilities(boards.take(rows)), expected[rows])
    before = len(claiming.queries)
    caching.probabilities(boards)
    assert (len(claiming.queries) == before) == (memory == 1 << 28)


def test_edges_beyond_the_memory_limit_are_recomputed(monkeypatch):
    expected = exploitation(SIX, Averaged(SIX)), exploitation(SIX, Claiming(Averaged(SIX)))
    for memory in (0, 5000):
        monkeypatch.setattr("ttt_envs.graph.layers.KEPT_BYTES", memory)
        assert (
            exploitation(SIX, Averaged(SIX)),
            exploitation(SIX, Claiming(Averaged(SIX))),
        ) == expected


def test_a_policy_that_was_made_once_is_that_of_the_trust_in_files(monkeypatch):
    spec = FromFile("ttt_envs.agents.simple:Random")
    monkeypatch.setenv(TRUST, "1")
    assert make_policy_once(Game(), spec) is make_policy_once(Game(), spec)
    monkeypatch.delenv(TRUST)
    with pytest.raises(ValueError, match="read from a file"):
        make_policy_once(Game(), spec)
