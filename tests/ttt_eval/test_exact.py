"""Exact results, compared with published fractions, plain Python, OpenSpiel and sampled matches."""

from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np
import plain
import pytest
from exactly import (
    SMALL_VARIANTS,
    T3,
    LowestOptimal,
    Recorded,
    assert_as_plain,
    assert_near,
    play_out,
    policy_of,
    values_of,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from players import Drawn, FirstEmpty
from small_games import SKIP_GAME, TINY_GAME

from baselines.exact import solve
from ttt_envs import Game, make_policy
from ttt_envs.core.work import Work
from ttt_envs.graph.estimate import boards_by_stones
from ttt_eval.exact.dynamic_programming import (
    best_response,
    exploitability,
    exploitation,
    match_outcome,
    mean_loss,
    outcome,
    perfect_value,
    regret,
    regret_table,
    result_lines,
)

pytestmark = pytest.mark.usefixtures("private_cache")
GAMES = [T3, SKIP_GAME, Game(1, 5, 3, 0.9), Game(3, 2, 1), Game(1, 1, 1), *SMALL_VARIANTS]
LARGER = [
    replace(Game(3, 3, 2 + number % 2), **chosen)
    for number, chosen in enumerate(plain.COMBINATIONS)
]


# --------------------------------------------------------------------------------------------------
# Known facts


def close(ours, expected, atol=1e-12):
    assert_allclose(ours, [float(Fraction(share)) for share in expected], rtol=0, atol=atol)


def test_results_are_shown_as_lines():
    _, *lines = result_lines(T3, "optimal").splitlines()
    assert lines == [
        "against optimal: 0.00% won, 100.00% drawn, 0.00% lost",
        "exploitability: 0.0000",
    ]


def test_random_play_has_its_known_results(known_values):
    facts = known_values["random_play_values_3x3x3"]
    ours = outcome(T3, "random", "random")
    close(ours, facts["win_draw_loss_of_player_0"])
    assert ours.value == ours.win - ours.loss
    assert_near(ours.value, float(Fraction(facts["value_at_start"])))
    length = sum(row.moves for row in regret_table(T3, "random"))
    assert_near(length, float(Fraction(facts["expected_length"])))


@pytest.mark.parametrize(
    ("name", "a"),
    [("random vs random", "random"), ("optimal (uniform over optimal moves) vs random", "optimal")],
)
def test_matches_against_random_have_their_known_results(known_values, name, a):
    facts = known_values["matches_3x3x3_softmax_w10_equation"][name]
    as_first = outcome(T3, a, "random")
    as_second = outcome(T3, "random", a)
    close(as_first, facts["a_as_player_0"], 5e-10)
    close(as_second[::-1], facts["a_as_player_1"], 5e-10)
    close(match_outcome(T3, a, "random"), np.mean([as_first, as_second[::-1]], axis=0), 1e-15)


def test_perfect_play_with_skips_has_its_known_results(known_values):
    facts = known_values["optimal_play"]["3x3x3 skip 1/4"]
    policy = LowestOptimal(SKIP_GAME)
    ours = outcome(SKIP_GAME, policy, policy)
    close(ours, facts["win_draw_loss_lowest_index_ties"], 5e-10)
    assert_near(ours.value, float(Fraction(facts["value"])))


@pytest.mark.parametrize(("name", "game"), [("random", T3), ("random at skip 1/4", SKIP_GAME)])
def test_best_response_to_random_has_its_known_value(known_values, name, game):
    facts = known_values["best_response_value_3x3x3"][name]
    first, second, _ = result = exploitation(game, "random")
    close([first.value, second.value], facts)
    close([best_response(game, "random", seat).value for seat in (0, 1)], facts)
    assert_near(result.exploitability, float(sum(map(Fraction, facts))) / 2)


# --------------------------------------------------------------------------------------------------
# Against plain Python

SPECS = [
    "random",
    "win-or-block",
    "optimal",
    "optimal:epsilon=0.3",
    "first-empty",
    "drawn1",
    "drawn2",
]


@pytest.mark.parametrize(
    "game",
    [
        *(game for game in GAMES if game != SKIP_GAME),
        pytest.param(SKIP_GAME, marks=pytest.mark.more),
        *(pytest.param(replace(game, skip_chance=0.25), marks=pytest.mark.slow) for game in LARGER),
    ],
    ids=str,
)
def test_results_are_those_of_plain_python(game):
    """Outcomes, best responses, regrets, and the value of perfect play, with any rules."""
    specs = SPECS
    if game.cells == 9:
        specs = ("random", "win-or-block", "drawn1")
    elif game.variants:
        specs = ("random", "win-or-block", "drawn1", "drawn2")
    for number, spec in enumerate(specs):
        assert_as_plain(game, spec, specs[number - 1])
    assert_near(perfect_value(game), plain.values_of(game)[0][bytes(game.cells), 0])
    assert perfect_value(game, work=Work(chunk=3)) == perfect_value(game)


@settings(max_examples=12)
@given(
    st.sampled_from([Game(2, 3, 2), Game(3, 2, 3), Game(1, 6, 3), Game(2, 2, 2)]),
    st.sampled_from([0.0, 0.1, 0.25, 0.9]),
    st.integers(0, 10**6),
    st.sampled_from([0.0, 0.3, 0.8]),
)
def test_results_of_random_policies_are_those_of_plain_python(shape, skip_chance, seed, never):
    game = replace(shape, skip_chance=skip_chance)
    assert_as_plain(game, Drawn(game, seed, never), Drawn(game, seed + 1, never))


# --------------------------------------------------------------------------------------------------
# Properties


@pytest.mark.parametrize("skip_chance", [0.999, 0.5])
def test_best_response_takes_the_maximum_among_nearly_equal_moves(skip_chance):
    """Perfect play mixes moves within 1e-9 of the best: the responder gains the difference."""
    game = Game(1, 4, 2, skip_chance)
    gains = [
        best_response(game, "optimal", seat).value - (1, -1)[seat] * solve(game).value
        for seat in (0, 1)
    ]
    assert min(gains) >= -1e-15
    assert exploitability(game, "optimal") == pytest.approx(sum(gains) / 2, abs=1e-15)


class Responder(FirstEmpty):
    """The best response of plain Python, uniform over moves of equal value."""

    def __init__(self, game, policy, seat):
        self.of_moves = values_of(game, policy, seat)[1]

    def probabilities(self, boards, rng=None):
        p = np.zeros(boards.cells.shape)
        for row, (cells, mover) in enumerate(zip(*boards, strict=True)):
            moves = self.of_moves[cells.tobytes(), int(mover)]
            p[
                row,
                [action for action, value in moves.items() if value >= max(moves.values()) - 1e-9],
            ] = 1
        return plain.shares_of(p)


@pytest.mark.more
@pytest.mark.parametrize("game", [TINY_GAME, Game(2, 4, 3, 0.9)], ids=str)
def test_best_response_has_the_results_of_playing_it(game):
    for opponent in (Drawn(game, seed=3), make_policy("win-or-block", game)):
        first = Responder(game, opponent, 0)
        second = Responder(game, opponent, 1)
        assert_allclose(
            outcome(game, first, opponent), best_response(game, opponent, 0), rtol=0, atol=1e-9
        )
        assert_allclose(
            outcome(game, opponent, second)[::-1],
            best_response(game, opponent, 1),
            rtol=0,
            atol=1e-9,
        )


# --------------------------------------------------------------------------------------------------
# Queries of policies


def assert_asked(policy, expected, chunk):
    """Check that only these positions were queried, each once, and at most ``chunk`` at a time."""
    assert len(set(policy.queries)) == len(policy.queries)
    assert set(policy.queries) <= set(expected)
    assert all(0 < len(batch) <= chunk for batch in policy.batches)


@pytest.mark.parametrize("chunk", [100, 10**6])
@pytest.mark.parametrize(("a", "b"), [("optimal", "drawn1"), ("drawn1", "drawn2")])
def test_policies_are_queried_once_per_position_that_both_reach(a, b, chunk):
    game = Game(2, 4, 3, 0.25)
    first = Recorded(policy_of(a, game))
    second = Recorded(policy_of(b, game))
    outcome(game, first, second, work=Work(chunk=chunk))
    reached = play_out(game, a, b)[1]
    assert_asked(first, [state for state in reached if state[1] == 0], chunk)
    assert_asked(second, [state for state in reached if state[1] == 1], chunk)
    both = Recorded(policy_of(a, game))
    outcome(game, both, both, work=Work(chunk=chunk))
    assert_asked(both, play_out(game, a, a)[1], chunk)
    assert len(both.batches) <= 2 * game.cells or chunk < 10**6
    any_moves = Drawn(game, never=0)  # a responder's
    for seat in (0, 1):
        policy = Recorded(policy_of("drawn1", game))
        best_response(game, policy, seat, work=Work(chunk=100))
        players = (any_moves, policy.policy) if seat == 0 else (policy.policy, any_moves)
        reached = play_out(game, *players)[1]
        assert_asked(policy, [state for state in reached if state[1] != seat], 100)


# --------------------------------------------------------------------------------------------------
# Errors


def against_random(evaluate, seat, policy, **settings):
    players = (policy, "random") if seat == 0 else ("random", policy)
    return evaluate(T3, *players, **settings)


def best_reply(seat, policy, **settings):
    return best_response(T3, policy, seat, **settings)


CALLS = [
    *(partial(against_random, outcome, seat) for seat in (0, 1)),
    *(partial(against_random, match_outcome, seat) for seat in (0, 1)),
    *(partial(best_reply, seat) for seat in (0, 1)),
    *(partial(of, T3) for of in (exploitation, exploitability, regret, mean_loss, regret_table)),
]
call = pytest.mark.parametrize("call", CALLS)


class Coin(FirstEmpty):
    pure = False

    def __str__(self):
        return "coin"


class Faulty(FirstEmpty):
    """Answers no distribution over legal moves, from two stones on."""

    def __init__(self, fault):
        self.fault = fault

    def __str__(self):
        return "faulty:1"

    def probabilities(self, boards, rng=None):
        p = super().probabilities(boards)
        for row in np.flatnonzero(np.count_nonzero(boards.cells, axis=1) >= 2):
            free = np.flatnonzero(boards.cells[row] == 0)
            taken = np.flatnonzero(boards.cells[row])
            p[row] = 0
            p[row, free[0]], p[row, free[1]], p[row, taken[0]] = self.fault
        return p


class Short(Faulty):
    def probabilities(self, boards, rng=None):
        return np.ones((len(boards.mover), 1))


FAULTS = [
    *(
        (0.5, 0, 0.5),
        (0.5, 0.4, 0),
        (0.7, 0.7, 0),
        (0, 0, 0),
        (1 + 1e-5, 0, 0),
        (1.5, -0.5, 0),
        (np.nan, 1, 0),
    )
]


@call
@pytest.mark.parametrize("policy", [Coin(), "randm", Short(None), *map(Faulty, FAULTS)])
def test_what_is_no_policy_or_answers_no_distribution_is_refused(call, policy):
    with pytest.raises(ValueError, match=r"coin is not pure|did you mean 'random'|faulty:1"):
        call(policy)


def test_float32_rounding_of_probabilities_is_accepted_and_no_other_seat():
    class Float32Uniform(FirstEmpty):
        def probabilities(self, boards, rng=None):
            empty = (boards.cells == 0).astype(np.float32)
            return empty / empty.sum(axis=1, keepdims=True, dtype=np.float32)

    assert_allclose(
        outcome(SKIP_GAME, Float32Uniform(), Float32Uniform()),
        outcome(SKIP_GAME, "random", "random"),
        rtol=0,
        atol=1e-6,
    )
    for seat in (2, -1, "first", None):
        with pytest.raises(ValueError, match="seat="):
            best_response(T3, "random", seat)


def test_game_value_is_unknown_on_boards_too_large_to_solve():
    game = Game(1, 17, 1)
    result = exploitation(game, "random")
    assert result.game_value is None
    assert result.gains is None
    assert (result.first, result.second) == ((1, 0, 0), (0, 0, 1))
    assert result.exploitability == exploitability(game, "random") == 0
    assert outcome(game, "random", "win-or-block") == (1, 0, 0)
    with pytest.raises(ValueError, match="2 x 11"):
        regret(Game(2, 11, 1), "random")


@call
def test_progress_grows_to_1(call):
    shares = []
    assert call("win-or-block", work=Work(progress=shares.append)) == call("win-or-block")
    assert len(shares) > 1
    assert (np.diff(shares) >= 0).all()
    assert shares[0] >= 0
    assert shares[-1] == 1


@pytest.mark.parametrize(
    ("game", "expected"),
    [
        (Game(3, 3, 3, misere=True), 0),  # Golomb and Hales: the centre, then mirroring
        (Game(3, 3, 3, torus=True), 1),
        (Game(4, 4, 4, gravity=True), 0),  # Tromp: Connect Four on small boards is drawn
        pytest.param(Game(4, 5, 4, gravity=True), 0, marks=pytest.mark.slow),
        # over the reachable positions in which no player has missed a win
        (Game(4, 4, 4, 0.25, gravity=True), 0.128586702049),
        (Game(4, 5, 4, 0.25, gravity=True), 0.169643568512),
        pytest.param(Game(5, 5, 4, 0.25, gravity=True), 0.155540992322, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_known_values_of_perfect_play(game, expected, monkeypatch):
    assert_near(perfect_value(game), expected)
    if game == Game(4, 4, 4, 0.25, gravity=True):  # without layers, too
        monkeypatch.setattr("ttt_eval.exact.dynamic_programming.is_layered", lambda game: False)
        assert_near(perfect_value(game), expected)


@pytest.mark.parametrize("game", [*GAMES[2:], Game(2, 3, 3)], ids=str)
def test_arrangements_of_stones_are_counted(game):
    cells = plain.all_cells(game)
    behind = (cells == 1).sum(axis=1) - (cells == 2).sum(axis=1)
    cells = cells[
        (cells == 0).any(axis=1) & ((game.skip_chance > 0) | (behind == 0) | (behind == 1))
    ]
    if game.gravity:
        board = cells.reshape(-1, game.rows, game.columns)
        cells = cells[((board[:, :-1] == 0) | (board[:, 1:] != 0)).all(axis=(1, 2))]
    assert boards_by_stones(game) == np.bincount(np.count_nonzero(cells, axis=1)).tolist()
