"""Exact results over classes of images, and with answers kept, are those without."""

from dataclasses import replace

import numpy as np
import plain
import pytest
from exactly import CALLS, SKIP3, T3, Drawn, Recorded, play_out, policy_of
from numpy.testing import assert_allclose, assert_array_equal

from evaluation.exact.dynamic_programming import (
    best_response,
    exploitability,
    exploitation,
    outcome,
    regret,
    regret_table,
    while_training,
)
from evaluation.exact.policy_cache import CachedPolicy, cached
from evaluation.exact.symmetry_classes import canonical_rows, symmetry_tables
from ttt_envs import Game, make_policy
from ttt_envs.agents.symmetrized import check_colour_blind, check_symmetric
from ttt_envs.game.symmetry import symmetries


class Claiming(Recorded):
    """A policy that notes what it is asked, and says of itself what is so."""

    def __init__(self, policy, symmetric=True, colour_blind=True):
        super().__init__(policy)
        self.symmetric, self.colour_blind = symmetric, colour_blind


class Averaged(Drawn):
    """The mean over all images, and both colours, of any distributions: symmetric and colour-blind."""

    def __init__(self, game, seed=0, never=0.6):
        super().__init__(game, seed, never)
        table = np.zeros_like(self.table)
        cells = np.arange(3**game.cells)[:, None] // self.powers % 3
        exchanged = np.where(cells > 0, 3 - cells, 0)
        for image in symmetries(game):
            for turned, movers in ((cells, (0, 1)), (exchanged, (1, 0))):
                rows = turned[:, image] @ self.powers
                back = np.argsort(image)
                table += self.table[list(movers)][:, rows][:, :, back]
        self.table = table / np.maximum(table.sum(axis=2, keepdims=True), 1e-9)


def test_what_is_averaged_is_symmetric_and_colour_blind():
    game = Game(2, 3, 3, 0.25)
    boards = plain.positions_of_random_play(game, 64)
    both = boards.take((boards.cells == 1).any(axis=1) & (boards.cells == 2).any(axis=1))
    check_symmetric(Averaged(game), game, boards)
    check_colour_blind(Averaged(game), game, both)


SIX = Game(2, 3, 3, 0.25)
SIDES = [(False, False), (True, False), (False, True), (True, True)]
"""what a policy says of itself: symmetric, colour-blind"""
CLASS_GAMES = [
    *(
        replace(shape, skip_chance=skip)
        for shape in (Game(2, 2, 2), Game(2, 3, 3), Game(3, 2, 2))
        for skip in (0, 0.25)
    ),
    Game(1, 6, 3, 0.1),
]


def numbers_of(game, policy, other):
    """All that can be asked, as one array."""
    rows = regret_table(game, policy)
    return np.concatenate(
        [
            *(outcome(game, *pair) for pair in ((policy, other), (other, policy), (policy, policy))),
            *(best_response(game, policy, seat) for seat in (0, 1)),
            *exploitation(game, policy)[:2],
            [exploitability(game, policy), regret(game, policy)],
            *([row.stones, row.moves, row.loss] for row in rows),
        ]
    )


@pytest.mark.parametrize("game", CLASS_GAMES, ids=str)
def test_classes_change_no_number(game):
    for spec in ("win-or-block", "optimal:epsilon=0.1", "expectiminimax:depth=2", Averaged(game)):
        policy = make_policy(spec, game)
        for other in (Drawn(game, seed=5), Averaged(game, seed=6)):
            expected = numbers_of(game, Claiming(policy, False, False), other)
            other = Claiming(other, *[isinstance(other, Averaged)] * 2)
            for said in SIDES[1:]:
                found = numbers_of(game, Claiming(policy, *said), other)
                assert_allclose(found, expected, rtol=0, atol=1e-12, err_msg=f"{spec} {said}")


@pytest.mark.parametrize(
    "game",
    [
        T3,
        SKIP3,
        pytest.param(Game(3, 4, 3), marks=pytest.mark.slow),
        pytest.param(Game(3, 4, 3, 0.1), marks=pytest.mark.slow),
        pytest.param(Game(4, 4, 4), marks=pytest.mark.slow),
        pytest.param(Game(4, 4, 4, 0.25), marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_classes_change_no_number_on_larger_boards(game):
    policy, other = make_policy("win-or-block", game), make_policy("optimal", game)
    plain_one = Claiming(policy, False, False)
    assert_allclose(exploitation(game, policy)[:2], exploitation(game, plain_one)[:2], rtol=0, atol=1e-12)
    if game.cells == 16 and game.skip_chance > 0:  # of whose positions one question takes two minutes
        return
    found = [outcome(game, policy, other), outcome(game, other, plain_one)]
    plain = [outcome(game, plain_one, other), outcome(game, other, policy)]
    assert_allclose(found, plain, rtol=0, atol=1e-12)
    assert regret(game, policy) == pytest.approx(regret(game, plain_one), abs=1e-12)


def test_who_says_nothing_is_believed_nothing():
    """A policy that is not symmetric has the results of plain Python, and another's claim changes nothing of it."""
    lopsided = policy_of("drawn1", SIX)
    ours = outcome(SIX, lopsided, "random")
    assert_allclose(ours, play_out(SIX, "drawn1", "random")[0], rtol=0, atol=1e-12)
    said = outcome(SIX, Claiming(lopsided), "random")  # a lie is believed: that is why it is tested elsewhere
    assert abs(np.subtract(said, ours)).max() > 1e-3


@pytest.mark.parametrize("chunk", [1, 7, 10**6])
@pytest.mark.parametrize("said", SIDES, ids=str)
def test_classes_do_not_depend_on_how_many_positions_are_asked_at_once(said, chunk):
    game = Game(2, 3, 3, 0.25)
    policy, other = Claiming(Averaged(game), *said), Drawn(game, seed=5)
    for call in CALLS.values():
        assert call(policy, other, game, chunk=chunk) == call(policy, other, game)


def leaders(game, asked):
    """What was asked, with images as one."""
    images = symmetries(game)
    return [(min(np.frombuffer(cells, np.int8)[image].tobytes() for image in images), mover) for cells, mover in asked]


@pytest.mark.parametrize("game", [T3, Game(2, 3, 3, 0.25)], ids=str)
def test_one_of_all_images_is_asked_about(game):
    plain_one, said = Claiming(Averaged(game), False, False), Claiming(Averaged(game))
    for call in (
        lambda policy: exploitability(game, policy),
        lambda policy: outcome(game, policy, policy),
        lambda policy: outcome(game, policy, Drawn(game, seed=5)),
        lambda policy: outcome(game, Drawn(game, seed=5), policy),
        lambda policy: regret(game, policy),
    ):
        plain_one.batches, said.batches = [], []
        call(plain_one)
        call(said)
        assert len(set(leaders(game, said.asked))) == len(said.asked)
        assert len(said.asked) < len(plain_one.asked) / 2


def test_what_is_the_same_from_both_seats_is_asked_about_once():
    one, both = Claiming(Averaged(SIX), True, False), Claiming(Averaged(SIX))
    assert exploitability(SIX, one) == pytest.approx(exploitability(SIX, both), abs=1e-12)
    assert len(both.asked) < 0.8 * len(one.asked)
    own_first = [
        (bytes(cells if mover == 0 else (0, 2, 1)[stone] for stone in cells) if mover else cells)
        for cells, mover in both.asked
    ]
    assert len(set(own_first)) == len(own_first)
    assert all(set(cells) != {0, 2} for cells, _ in both.asked)  # games begin with a stone of player_0's


@pytest.mark.parametrize("game", [SIX, Game(2, 3, 3)], ids=str)
def test_while_training_a_learner_is_asked_about_nothing_twice(game):
    for said in SIDES:
        learner = Claiming(Averaged(game), *said)
        measure = while_training(game, Drawn(game, seed=5), 10, games=10)
        found = measure(10, learner)
        assert len(set(learner.asked)) == len(learner.asked)
        assert found["exploitability"] == pytest.approx(exploitability(game, learner.policy), abs=1e-12)
        assert found["regret"] == pytest.approx(regret(game, learner.policy), abs=1e-12)


@pytest.mark.parametrize("most", [0, 3000, 1 << 28])
@pytest.mark.parametrize("said", SIDES, ids=str)
@pytest.mark.parametrize("policy", [Averaged(SIX), make_policy("win-or-block", SIX)], ids=["uneven", "even"])
def test_kept_answers_are_the_policys(policy, said, most):
    """As many as fit are kept, and the others asked again."""
    boards = plain.positions_of_random_play(SIX, 500)
    asked = Claiming(policy, *said)
    keeping = CachedPolicy(asked, SIX, most)
    expected = policy.probabilities(boards)
    for rows in (np.arange(0, 300), np.arange(200, 500), np.arange(500)):
        found = keeping.probabilities(boards.take(rows))
        assert_allclose(found, expected[rows], rtol=0, atol=1e-12)
    assert keeping.asked == len(asked.asked)
    if most == 1 << 28:
        assert len(set(asked.asked)) == len(asked.asked) < 300
        keeping.probabilities(boards)
        assert keeping.asked == len(asked.asked)
        if said == (False, False):
            assert_array_equal(found, expected)
    elif most == 0:
        keeping.probabilities(boards)
        assert len(asked.asked) > keeping.asked / 2 > len(set(asked.asked))
    else:
        once = len(set(asked.asked))
        before = len(asked.asked)
        keeping.probabilities(boards)
        assert 0 < len(asked.asked) - before < once


def test_nothing_is_kept_on_a_board_without_a_code():
    game = Game(6, 6, 4)
    boards = plain.positions_of_random_play(game, 20)
    keeping = cached(make_policy("win-or-block", game), game)
    for _ in range(2):
        assert_array_equal(keeping.probabilities(boards), keeping.policy.probabilities(boards))
    assert keeping.asked == 40
    assert cached(keeping, game) is keeping


def test_links_that_are_not_kept_are_found_again(monkeypatch):
    expected = exploitation(SIX, Averaged(SIX)), exploitation(SIX, Claiming(Averaged(SIX)))
    for most in (0, 5000):
        monkeypatch.setattr("evaluation.exact.dynamic_programming.MAX_CACHE_BYTES", most)
        assert (exploitation(SIX, Averaged(SIX)), exploitation(SIX, Claiming(Averaged(SIX)))) == expected


@pytest.mark.parametrize("game", [Game(), Game(2, 4, 3), Game(1, 7, 3), Game(5, 6, 4)], ids=str)
def test_leaders_are_the_same_for_all_images_and_images_of_their_boards(game):
    boards = plain.positions_of_random_play(game, 50)
    images = symmetry_tables(game)

    def codes(cells):
        bits = np.uint64(1) << np.arange(game.cells, dtype=np.uint64)
        return (cells == 1) @ bits | (cells == 2) @ bits << np.uint64(32)

    for permutation in symmetries(game):
        turned = boards.cells[:, permutation]
        found, by = np.empty(50, np.uint64), np.empty(50, np.int64)
        canonical_rows(codes(turned), *images, found, by)
        expected = np.min([codes(turned[:, other]) for other in symmetries(game)], axis=0)
        assert_array_equal(found, expected)
        assert_array_equal(codes(np.take_along_axis(turned, symmetries(game)[by], axis=1)), expected)
