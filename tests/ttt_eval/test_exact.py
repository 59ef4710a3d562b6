"""Exact results, compared with published fractions, plain Python, OpenSpiel and sampled matches."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from exactly import (
    SKIP3,
    T3,
    Drawn,
    LowestOptimal,
    Recorded,
    assert_as_plain,
    call,
    numbers,
    play_out,
    policy_of,
    values_of,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from players import FirstEmpty

from baselines.exact import solve
from ttt_envs import Game, make_policy
from ttt_envs.core.work import Work
from ttt_envs.open_spiel import to_boards
from ttt_eval.exact.dynamic_programming import (
    OutcomeProbabilities,
    best_response,
    exploitability,
    exploitation,
    match_outcome,
    outcome,
    regret,
    regret_table,
)
from ttt_eval.matches.match import play_pairs

pytestmark = pytest.mark.usefixtures("private_cache")
GAMES = [
    T3,
    SKIP3,
    Game(2, 3, 3),
    Game(2, 3, 2, 0.5),
    Game(1, 5, 3, 0.9),
    Game(2, 2, 2, 0.1),
    Game(3, 2, 1),
    Game(1, 1, 1),
]


# ---------------------------------------------------------------------------------------------------------------------
# Known facts


def close(ours, expected, atol=1e-12):
    assert_allclose(ours, [float(Fraction(share)) for share in expected], rtol=0, atol=atol)


def test_random_play_has_its_known_results(known):
    facts = known["random_play_values_3x3x3"]
    ours = outcome(T3, "random", "random")
    assert isinstance(ours, OutcomeProbabilities)
    close(ours, facts["win_draw_loss_of_player_0"])
    assert ours.value == ours.win - ours.loss
    assert ours.value == pytest.approx(float(Fraction(facts["value_at_start"])), abs=1e-12)
    length = sum(row.moves for row in regret_table(T3, "random"))
    assert length == pytest.approx(float(Fraction(facts["expected_length"])), abs=1e-12)


@pytest.mark.parametrize(
    ("name", "a"), [("random vs random", "random"), ("optimal (uniform over optimal moves) vs random", "optimal")]
)
def test_matches_against_random_have_their_known_results(known, name, a):
    facts = known["matches_3x3x3_softmax_w10_equation"][name]
    as_first, as_second = outcome(T3, a, "random"), outcome(T3, "random", a)
    close(as_first, facts["a_as_player_0"], 5e-10)
    close(as_second[::-1], facts["a_as_player_1"], 5e-10)
    close(match_outcome(T3, a, "random"), np.mean([as_first, as_second[::-1]], axis=0), 1e-15)


def test_perfect_play_with_skips_has_its_known_results(known):
    facts = known["optimal_play"]["3x3x3 skip 1/4"]
    policy = LowestOptimal(SKIP3)
    ours = outcome(SKIP3, policy, policy)
    close(ours, facts["win_draw_loss_lowest_index_ties"], 5e-10)
    assert ours.value == pytest.approx(float(Fraction(facts["value"])), abs=1e-12)


@pytest.mark.parametrize(("name", "game"), [("random", T3), ("random at skip 1/4", SKIP3)])
def test_best_response_to_random_has_its_known_value(known, name, game):
    facts = known["best_response_value_3x3x3"][name]
    first, second, _ = found = exploitation(game, "random")
    close([first.value, second.value], facts)
    close([best_response(game, "random", seat).value for seat in (0, 1)], facts)
    assert found.exploitability == pytest.approx(float(sum(map(Fraction, facts))) / 2, abs=1e-12)


# ---------------------------------------------------------------------------------------------------------------------
# Against plain Python

SPECS = ["random", "win-or-block", "optimal", "optimal:epsilon=0.3", "first-empty", "drawn1", "drawn2"]


@pytest.mark.parametrize("game", GAMES, ids=str)
def test_results_are_those_of_plain_python(game):
    specs = SPECS if game.cells < 9 else ("random", "win-or-block", "optimal", "drawn1")
    for number, spec in enumerate(specs):
        assert_as_plain(game, spec, specs[number - 1])


@settings(max_examples=12)
@given(
    st.sampled_from([Game(2, 3, 2), Game(3, 2, 3), Game(1, 6, 3), Game(2, 2, 2), Game(2, 4, 3)]),
    st.sampled_from([0.0, 0.1, 0.25, 0.9]),
    st.integers(0, 10**6),
    st.sampled_from([0.0, 0.3, 0.8]),
)
def test_results_of_random_policies_are_those_of_plain_python(shape, skip_chance, seed, never):
    game = replace(shape, skip_chance=skip_chance)
    assert_as_plain(game, Drawn(game, seed, never), Drawn(game, seed + 1, never))


@pytest.mark.slow
@pytest.mark.parametrize("spec", ["random", "win-or-block", "drawn1"])
def test_exploitability_is_that_of_openspiel(spec):
    pyspiel = pytest.importorskip("pyspiel")
    from open_spiel.python import policy as policies
    from open_spiel.python.algorithms import exploitability as openspiel

    game = pyspiel.load_game("tic_tac_toe")
    table = policies.TabularPolicy(game)  # a state there is a sequence of moves
    mine = policy_of(spec, T3)
    table.action_probability_array[:] = mine.probabilities(to_boards(table.states))
    assert exploitability(T3, mine) == pytest.approx(openspiel.exploitability(game, table), abs=1e-9)


# ---------------------------------------------------------------------------------------------------------------------
# Against sampled matches

MATCHES = [
    (T3, "drawn1", "optimal:epsilon=0.5"),
    (SKIP3, "win-or-block", "win-or-block"),
    (SKIP3, "first-empty", "random"),
    (Game(2, 4, 3, 0.5), "win-or-block", "drawn1"),
    (Game(1, 7, 3, 0.9), "random", "optimal:epsilon=0.1"),
]


@pytest.mark.parametrize("pairs", [10**4, pytest.param(10**5, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("game", "a", "b"), MATCHES, ids=str)
def test_sampled_matches_have_the_exact_frequencies(game, a, b, pairs):
    """Within 4 standard errors, each seat by itself: the two games of a pair share their skips."""
    a, b = policy_of(a, game), policy_of(b, game)
    table = play_pairs(game, a, b, pairs, seed=1).table
    for counts, exact in zip(table, (outcome(game, a, b), outcome(game, b, a)[::-1]), strict=True):
        p = np.array(exact)
        assert (abs(counts / pairs - p) <= 4 * np.sqrt(p * (1 - p) / pairs) + 1e-12).all()


# ---------------------------------------------------------------------------------------------------------------------
# Properties


@pytest.mark.parametrize("skip_chance", [0.999, 0.9999, 0.5])
def test_best_response_takes_the_maximum_among_nearly_equal_moves(skip_chance):
    """Perfect play mixes moves within 1e-9 of the best: the responder gains the difference."""
    game = Game(1, 4, 2, skip_chance)
    solution = solve(game)
    gains = [best_response(game, "optimal", seat).value - (1, -1)[seat] * solution.value for seat in (0, 1)]
    assert min(gains) >= -1e-15
    assert exploitability(game, "optimal") == pytest.approx(sum(gains) / 2, abs=1e-15)
    if skip_chance == 0.999:
        assert exploitability(game, "optimal") == pytest.approx(2.5e-10, rel=0.01)
    for seat in (0, 1):
        found = best_response(game, "optimal", seat)
        assert min(found) >= 0
        assert sum(found) == pytest.approx(1)


class Responder(FirstEmpty):
    """The best response of plain Python, uniform over moves of equal value."""

    def __init__(self, game, policy, seat):
        self.of_moves = values_of(game, policy, seat)[1]

    def probabilities(self, boards, rng=None):
        p = np.zeros(boards.cells.shape)
        for row, (cells, mover) in enumerate(zip(*boards, strict=True)):
            moves = self.of_moves[cells.tobytes(), int(mover)]
            p[row, [action for action, value in moves.items() if value >= max(moves.values()) - 1e-9]] = 1
        return p / p.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("game", [T3, SKIP3, Game(2, 4, 3, 0.9)], ids=str)
def test_best_response_has_the_results_of_playing_it(game):
    for opponent in (Drawn(game, seed=3), make_policy("win-or-block", game)):
        first, second = Responder(game, opponent, 0), Responder(game, opponent, 1)
        assert_allclose(outcome(game, first, opponent), best_response(game, opponent, 0), rtol=0, atol=1e-9)
        assert_allclose(outcome(game, opponent, second)[::-1], best_response(game, opponent, 1), rtol=0, atol=1e-9)


@call
@pytest.mark.parametrize(
    ("game", "a", "b"),
    [(T3, "drawn1", "first-empty"), (Game(2, 3, 3, 0.25), "random", "drawn2"), (Game(1, 5, 2), "drawn1", "drawn2")],
    ids=str,
)
def test_results_do_not_depend_on_chunk(call, game, a, b):
    a, b = policy_of(a, game), policy_of(b, game)
    for chunk in (7, 1):
        found = np.array(numbers(call(a, b, game, work=Work(chunk=chunk))))
        assert_allclose(found, numbers(call(a, b, game)), rtol=0, atol=1e-14)


# ---------------------------------------------------------------------------------------------------------------------
# Queries of policies


def assert_asked(policy, expected, chunk):
    """Check that only these positions were queried, each once, and at most ``chunk`` at a time."""
    assert len(set(policy.asked)) == len(policy.asked)
    assert set(policy.asked) <= set(expected)
    assert all(0 < len(batch) <= chunk for batch in policy.batches)


@pytest.mark.parametrize("chunk", [1, 100, 10**6])
@pytest.mark.parametrize("game", [T3, Game(2, 4, 3, 0.25)], ids=str)
@pytest.mark.parametrize(("a", "b"), [("optimal", "drawn1"), ("first-empty", "random"), ("drawn1", "drawn2")])
def test_policies_are_queried_once_per_position_that_both_reach(game, a, b, chunk):
    first, second = Recorded(policy_of(a, game)), Recorded(policy_of(b, game))
    outcome(game, first, second, work=Work(chunk=chunk))
    reached = play_out(game, a, b)[1]
    assert_asked(first, [state for state in reached if state[1] == 0], chunk)
    assert_asked(second, [state for state in reached if state[1] == 1], chunk)
    both = Recorded(policy_of(a, game))
    outcome(game, both, both, work=Work(chunk=chunk))
    assert_asked(both, play_out(game, a, a)[1], chunk)
    assert len(both.batches) <= 2 * game.cells or chunk < 10**6
    again = Recorded(policy_of(a, game))
    regret_table(game, again, work=Work(chunk=chunk))
    assert_asked(again, play_out(game, a, a)[1], chunk)


@pytest.mark.parametrize("game", [T3, Game(2, 4, 3, 0.25)], ids=str)
def test_policy_is_queried_about_positions_that_a_responder_reaches(game):
    any_moves = Drawn(game, never=0)
    for seat in (0, 1):
        policy = Recorded(policy_of("drawn1", game))
        best_response(game, policy, seat, work=Work(chunk=100))
        players = (any_moves, policy.policy) if seat == 0 else (policy.policy, any_moves)
        reached = play_out(game, *players)[1]
        assert set(policy.asked) <= {state for state in reached if state[1] != seat}
        assert all(0 < len(batch) <= 100 for batch in policy.batches)


# ---------------------------------------------------------------------------------------------------------------------
# Errors


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
            free, taken = np.flatnonzero(boards.cells[row] == 0), np.flatnonzero(boards.cells[row])
            p[row] = 0
            p[row, free[0]], p[row, free[1]], p[row, taken[0]] = self.fault
        return p


class Short(Faulty):
    def probabilities(self, boards, rng=None):
        return np.ones((len(boards.mover), 1))


@call
@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (Coin(), r"coin is not pure.*evaluate\.py match"),
        ("randm", "no policy 'randm': did you mean 'random'"),
        (Short(None), "faulty:1"),
    ],
)
def test_errors_of_all_functions(call, policy, message):
    with pytest.raises(ValueError, match=message):
        call(policy)


@call
@pytest.mark.parametrize(
    "fault",
    [
        (0.5, 0, 0.5), (0, 0, 1), (0.5, 0.4, 0), (0.7, 0.7, 0),
        (0, 0, 0), (1 + 1e-5, 0, 0), (1.5, -0.5, 0), (np.nan, 1, 0),
    ],
    ids=str,
)  # fmt: skip
def test_invalid_distribution_is_rejected(call, fault):
    with pytest.raises(ValueError, match="faulty:1"):
        call(Faulty(fault))


@pytest.mark.parametrize("seat", [2, -1, "first", None])
def test_invalid_seat_is_rejected(seat):
    with pytest.raises(ValueError, match=f"seat={seat!r}"):
        best_response(T3, "random", seat)


def test_float32_rounding_of_probabilities_is_accepted():
    class Net(FirstEmpty):
        def probabilities(self, boards, rng=None):
            empty = (boards.cells == 0).astype(np.float32)
            return empty / empty.sum(axis=1, keepdims=True, dtype=np.float32)

    ours = outcome(SKIP3, Net(), Net())
    assert_allclose(ours, outcome(SKIP3, "random", "random"), rtol=0, atol=1e-6)
    assert exploitability(SKIP3, Net()) == pytest.approx(exploitability(SKIP3, "random"), abs=1e-6)


def test_game_value_is_unknown_on_boards_too_large_to_solve():
    game = Game(1, 17, 1)
    found = exploitation(game, "random")
    assert found.game_value is None
    assert found.gains is None
    assert (found.first, found.second) == ((1, 0, 0), (0, 0, 1))
    assert found.exploitability == exploitability(game, "random") == 0
    assert outcome(game, "random", "win-or-block") == (1, 0, 0)
    with pytest.raises(ValueError, match="2 x 11"):
        regret(Game(2, 11, 1), "random")


@call
def test_progress_grows_to_1(call):
    seen = []
    assert call("win-or-block", work=Work(progress=seen.append)) == call("win-or-block")
    assert len(seen) > 1
    assert (np.diff(seen) >= 0).all()
    assert seen[0] >= 0
    assert seen[-1] == 1
