"""Exact results: against fractions known without us, plain Python, OpenSpiel and sampled matches."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from exactly import (
    SKIP3,
    T3,
    Drawn,
    FirstEmpty,
    LowestOptimal,
    Recorded,
    Turned,
    best_value,
    call,
    losses,
    play_out,
    policy_of,
    start_of,
    values_of,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from baselines.retrograde.solver import solve
from evaluation.exact.dynamic_programming import (
    Exploitation,
    Outcome,
    RegretRow,
    best_response,
    exploitability,
    exploitation,
    match_outcome,
    outcome,
    regret,
    regret_table,
)
from evaluation.matches.match import play_pairs
from ttt_envs import Boards, Game, Position, chance_outcomes, make_policy
from ttt_envs.game.random_games import random_results
from ttt_envs.game.rules import DRAW
from ttt_envs.game.symmetry import symmetries
from ttt_envs.open_spiel import to_boards

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


@pytest.fixture(autouse=True, scope="module")
def _no_tables_of_the_user(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TTT_ENVS_CACHE", str(tmp_path_factory.mktemp("tables")))
        patch.delenv("TTT_ENVS_CACHE_BYTES", raising=False)
        yield


# ---------------------------------------------------------------------------------------------------------------------
# Facts known without us


def close(ours, expected, atol=1e-12):
    assert_allclose(ours, [float(Fraction(share)) for share in expected], rtol=0, atol=atol)


def test_random_play_has_its_known_chances(known):
    facts = known["random_play_values_3x3x3"]
    ours = outcome(T3, "random", "random")
    assert isinstance(ours, Outcome)
    close(ours, facts["win_draw_loss_of_player_0"])
    assert ours.value == ours.win - ours.loss
    assert ours.value == pytest.approx(float(Fraction(facts["value_at_start"])), abs=1e-12)
    length = sum(row.moves for row in regret_table(T3, "random"))
    assert length == pytest.approx(float(Fraction(facts["expected_length"])), abs=1e-12)


@pytest.mark.parametrize(
    ("name", "a"),
    [("random vs random", "random"), ("optimal (uniform over optimal moves) vs random", "optimal")],
)
def test_matches_against_random_have_their_known_chances(known, name, a):
    facts = known["matches_3x3x3_softmax_w10_equation"][name]
    as_first, as_second = outcome(T3, a, "random"), outcome(T3, "random", a)
    close(as_first, facts["a_as_player_0"], 5e-10)
    close(as_second[::-1], facts["a_as_player_1"], 5e-10)
    close(match_outcome(T3, a, "random"), np.mean([as_first, as_second[::-1]], axis=0), 1e-15)


def test_perfect_play_with_skips_has_its_known_chances(known):
    facts = known["optimal_play"]["3x3x3 skip 1/4"]
    policy = LowestOptimal(SKIP3)
    ours = outcome(SKIP3, policy, policy)
    close(ours, facts["win_draw_loss_lowest_index_ties"], 5e-10)
    assert ours.value == pytest.approx(float(Fraction(facts["value"])), abs=1e-12)


@pytest.mark.parametrize(("name", "game"), [("random", T3), ("random at skip 1/4", SKIP3)])
def test_the_best_response_to_random_has_its_known_value(known, name, game):
    facts = known["best_response_value_3x3x3"][name]
    first, second, _ = found = exploitation(game, "random")
    close([first.value, second.value], facts)
    close([best_response(game, "random", seat).value for seat in (0, 1)], facts)
    assert found.exploitability == pytest.approx(float(sum(map(Fraction, facts))) / 2, abs=1e-12)


@pytest.mark.parametrize("game", [Game(3, 4, 3, 0.25), Game(2, 5, 2, 0.5), Game(5, 2, 3)], ids=str)
def test_random_games_have_the_exact_frequencies(game):
    exact, games = np.array(outcome(game, "random", "random")), 10**5
    wins, losses, draws = random_results(game, games, seed=0)
    assert (abs(np.array([wins, draws, losses]) / games - exact) <= 4 * np.sqrt(exact * (1 - exact) / games)).all()


@pytest.mark.slow
def test_random_games_on_sixteen_cells_have_the_exact_frequencies():
    for game in (Game(4, 4, 3), Game(4, 4, 4, 0.25)):
        exact, games = np.array(outcome(game, "random", "random")), 10**6
        wins, losses, draws = random_results(game, games, seed=0)
        assert sum(exact) == pytest.approx(1, abs=1e-12)
        assert (abs(np.array([wins, draws, losses]) / games - exact) <= 4 * np.sqrt(exact * (1 - exact) / games)).all()


# ---------------------------------------------------------------------------------------------------------------------
# Against plain Python

SPECS = ["random", "win-or-block", "optimal", "optimal:epsilon=0.3", "first-empty", "drawn1", "drawn2"]


def some_pairs(game):
    """Pairs of policies: all of them on small boards."""
    if game.cells < 9:
        return [(first, second) for first in SPECS for second in SPECS]
    return [("random", "drawn1"), ("drawn2", "win-or-block"), ("optimal", "first-empty")]


@pytest.mark.parametrize("game", GAMES, ids=str)
def test_outcomes_are_those_of_plain_python(game):
    for first, second in some_pairs(game):
        ours = outcome(game, policy_of(first, game), policy_of(second, game))
        assert_allclose(ours, play_out(game, first, second)[0], rtol=0, atol=1e-12, err_msg=f"{first} {second}")
        assert sum(ours) == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("game", GAMES, ids=str)
def test_best_responses_are_those_of_plain_python(game):
    for spec in SPECS if game.cells < 9 else ("random", "win-or-block", "drawn1"):
        policy = policy_of(spec, game)
        responses = [best_response(game, policy, seat) for seat in (0, 1)]
        expected = [best_value(game, spec, seat) for seat in (0, 1)]
        assert_allclose([found.value for found in responses], expected, rtol=0, atol=1e-12, err_msg=spec)
        for found in responses:
            assert sum(found) == pytest.approx(1, abs=1e-12)
            assert min(found) >= 0
        found = exploitation(game, policy)
        assert isinstance(found, Exploitation)
        assert (found.first, found.second) == tuple(responses)
        assert found.game_value == pytest.approx(values_of(game)[0][start_of(game)], abs=1e-12)
        assert found.exploitability == pytest.approx(sum(expected) / 2, abs=1e-12)
        assert exploitability(game, policy) == found.exploitability


@pytest.mark.parametrize("game", GAMES, ids=str)
def test_regret_is_that_of_plain_python(game):
    for spec in SPECS if game.cells < 9 else ("random", "win-or-block", "drawn1"):
        policy, expected = policy_of(spec, game), losses(game, spec)
        rows = regret_table(game, policy)
        assert all(isinstance(row, RegretRow) for row in rows)
        ours = {row.stones: row[1:] for row in rows if row.moves > 0}
        assert list(ours) == sorted(ours) == list(expected)
        assert_allclose(list(ours.values()), list(expected.values()), rtol=0, atol=1e-12, err_msg=spec)
        moves, lost = np.sum(list(expected.values()), axis=0)
        assert regret(game, policy) == pytest.approx(lost / moves, abs=1e-12)


@settings(max_examples=12)
@given(
    st.sampled_from([Game(2, 3, 2), Game(3, 2, 3), Game(1, 6, 3), Game(2, 2, 2), Game(2, 4, 3)]),
    st.sampled_from([0.0, 0.1, 0.25, 0.9]),
    st.integers(0, 10**6),
    st.sampled_from([0.0, 0.3, 0.8]),
)
def test_any_two_policies_have_the_results_of_plain_python(shape, skip_chance, seed, never):
    game = replace(shape, skip_chance=skip_chance)
    a, b = Drawn(game, seed, never), Drawn(game, seed + 1, never)
    assert_allclose(outcome(game, a, b), play_out(game, a, b)[0], rtol=0, atol=1e-12)
    for seat in (0, 1):
        assert best_response(game, a, seat).value == pytest.approx(best_value(game, a, seat), abs=1e-12)
    ours = {row.stones: row[1:] for row in regret_table(game, a) if row.moves > 0}
    assert_allclose(list(ours.values()), list(losses(game, a).values()), rtol=0, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("spec", ["random", "win-or-block", "drawn1"])
def test_openspiel_finds_the_same_exploitability(spec):
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
    (T3, "random", "win-or-block"),
    (T3, "optimal", "win-or-block"),
    (T3, "drawn1", "optimal:epsilon=0.5"),
    (SKIP3, "random", "random"),
    (SKIP3, "win-or-block", "win-or-block"),
    (SKIP3, "optimal", "drawn2"),
    (SKIP3, "first-empty", "random"),
    (Game(2, 4, 3, 0.5), "win-or-block", "drawn1"),
    (Game(3, 4, 3, 0.1), "random", "win-or-block"),
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
    both = np.array(match_outcome(game, a, b))
    assert_allclose(both, (np.array(outcome(game, a, b)) + np.array(outcome(game, b, a))[::-1]) / 2, atol=1e-15)


# ---------------------------------------------------------------------------------------------------------------------
# What must hold


@pytest.mark.parametrize("skip_chance", [0.0, 0.1, 0.25, 0.5, 0.9])
@pytest.mark.parametrize("shape", [Game(), Game(2, 3, 3), Game(2, 4, 3)], ids=str)
def test_nobody_gains_against_perfect_play(shape, skip_chance):
    game = replace(shape, skip_chance=skip_chance)
    value = solve(game).value
    assert outcome(game, "optimal", "optimal").value == pytest.approx(value, abs=1e-12)
    assert best_response(game, "optimal", 0).value == pytest.approx(value, abs=1e-12)
    assert best_response(game, "optimal", 1).value == pytest.approx(-value, abs=1e-12)
    found = exploitation(game, "optimal")
    assert abs(found.first.value + found.second.value) < 1e-12
    assert found.game_value == value
    assert_allclose(found.gains, 0, atol=1e-12)
    assert exploitability(game, "optimal") == pytest.approx(0, abs=1e-12)
    assert regret(game, "optimal") == pytest.approx(0, abs=1e-12)
    assert all(row.loss == pytest.approx(0, abs=1e-12) for row in regret_table(game, "optimal"))


def test_perfect_play_on_a_longer_board_is_worth_the_value_of_the_game():
    game = Game(3, 4, 4, 0.25)
    value = solve(game).value
    assert outcome(game, "optimal", "optimal").value == pytest.approx(value, abs=1e-12)
    assert exploitation(game, "optimal").gains == pytest.approx((0, 0), abs=1e-12)


@pytest.mark.parametrize("game", [T3, SKIP3], ids=str)
def test_errors_are_exploited_and_more_errors_more(game):
    for name in ("random", "win-or-block", "optimal:epsilon=0.1"):
        found = exploitation(game, name)
        assert found.exploitability > 0.01
        assert min(found.gains) > 0
        assert sum(found.gains) == pytest.approx(2 * found.exploitability, abs=1e-12)
        value = solve(game).value
        assert found.gains == pytest.approx((found.first.value - value, found.second.value + value), abs=1e-12)
        assert regret(game, name) > 0.001
    by_errors = [exploitability(game, f"optimal:epsilon={epsilon}") for epsilon in (0, 0.01, 0.1, 0.3, 0.6, 1)]
    assert (np.diff(by_errors) > 0.001).all()
    assert by_errors[-1] == pytest.approx(exploitability(game, "random"), abs=1e-12)


@pytest.mark.parametrize("skip_chance", [0.999, 0.9999, 0.5])
def test_a_best_response_is_worth_the_maximum_of_moves_that_are_nearly_as_good(skip_chance):
    """Perfect play shares its moves within 1e-9 of the best: what it loses by it is the responder's."""
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


@pytest.mark.parametrize("game", [T3, SKIP3], ids=str)
def test_nobody_does_better_than_the_best_response(game):
    for opponent in ("win-or-block", "drawn1", "optimal:epsilon=0.3"):
        opponent = policy_of(opponent, game)
        first, second, _ = exploitation(game, opponent)
        for spec in SPECS:
            policy = policy_of(spec, game)
            assert outcome(game, policy, opponent).value <= first.value + 1e-12
            assert -outcome(game, opponent, policy).value <= second.value + 1e-12


class Responder(FirstEmpty):
    """The best response that plain Python finds; moves of equal value share its choice."""

    def __init__(self, game, policy, seat):
        self.of_moves = values_of(game, policy, seat)[1]

    def probabilities(self, boards, rng=None):
        p = np.zeros(boards.cells.shape)
        for row, (cells, mover) in enumerate(zip(*boards, strict=True)):
            moves = self.of_moves[cells.tobytes(), int(mover)]
            p[row, [action for action, value in moves.items() if value >= max(moves.values()) - 1e-9]] = 1
        return p / p.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("game", [T3, SKIP3, Game(2, 4, 3, 0.9)], ids=str)
def test_a_best_response_can_be_played(game):
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
def test_it_does_not_matter_how_many_positions_are_asked_at_once(call, game, a, b):
    a, b = policy_of(a, game), policy_of(b, game)
    assert call(a, b, game) == call(a, b, game, chunk=7) == call(a, b, game, chunk=1)


@pytest.mark.parametrize("game", [T3, SKIP3, Game(2, 4, 3, 0.25)], ids=str)
def test_it_does_not_matter_how_the_board_is_turned(game):
    for a, b in (("win-or-block", "drawn1"), ("drawn2", "first-empty")):
        a, b = policy_of(a, game), policy_of(b, game)
        for image in symmetries(game)[1::2]:
            turned, other = Turned(a, image), Turned(b, image)
            assert_allclose(outcome(game, turned, other), outcome(game, a, b), rtol=0, atol=1e-12)
            for seat in (0, 1):
                ours = best_response(game, other, seat).value
                assert ours == pytest.approx(best_response(game, b, seat).value, abs=1e-12)
            assert regret(game, turned) == pytest.approx(regret(game, a), abs=1e-12)


def test_specs_and_policies_are_the_same():
    a, b = make_policy("win-or-block", SKIP3), make_policy("optimal:epsilon=0.5", SKIP3)
    assert outcome(SKIP3, a, b) == outcome(SKIP3, str(a), str(b))
    assert exploitation(SKIP3, a) == exploitation(SKIP3, str(a))


# ---------------------------------------------------------------------------------------------------------------------
# What policies are asked


def assert_asked(policy, expected, chunk):
    """Of these positions only, no one twice and not too many at once."""
    assert len(set(policy.asked)) == len(policy.asked)
    assert set(policy.asked) <= set(expected)
    assert all(0 < len(batch) <= chunk for batch in policy.batches)


def test_two_who_play_one_line_are_asked_about_it_alone():
    players = Recorded(FirstEmpty()), Recorded(FirstEmpty())
    assert outcome(T3, *players) == (1, 0, 0)
    first, second = (player.asked for player in players)
    plies = [9 - cells.count(0) for cells, _ in first + second]
    assert len(set(plies)) == len(plies) <= 7
    assert {mover for _, mover in first} == {0}
    assert {mover for _, mover in second} == {1}


@pytest.mark.parametrize("chunk", [1, 100, 10**6])
@pytest.mark.parametrize("game", [T3, Game(2, 4, 3, 0.25)], ids=str)
@pytest.mark.parametrize(("a", "b"), [("optimal", "drawn1"), ("first-empty", "random"), ("drawn1", "drawn2")])
def test_policies_are_asked_once_about_what_both_can_reach(game, a, b, chunk):
    first, second = Recorded(policy_of(a, game)), Recorded(policy_of(b, game))
    outcome(game, first, second, chunk=chunk)
    reached = play_out(game, a, b)[1]
    assert_asked(first, [state for state in reached if state[1] == 0], chunk)
    assert_asked(second, [state for state in reached if state[1] == 1], chunk)
    both = Recorded(policy_of(a, game))
    outcome(game, both, both, chunk=chunk)
    assert_asked(both, play_out(game, a, a)[1], chunk)


@pytest.mark.parametrize("game", [T3, Game(2, 4, 3, 0.25)], ids=str)
def test_a_policy_is_asked_about_what_a_responder_can_reach(game):
    any_moves = Drawn(game, never=0)
    for seat in (0, 1):
        policy = Recorded(policy_of("drawn1", game))
        best_response(game, policy, seat, chunk=100)
        players = (any_moves, policy.policy) if seat == 0 else (policy.policy, any_moves)
        reached = play_out(game, *players)[1]
        assert set(policy.asked) <= {state for state in reached if state[1] != seat}
        assert all(0 < len(batch) <= 100 for batch in policy.batches)


def test_a_policy_that_plays_itself_is_asked_about_what_it_can_reach():
    policy = Recorded(Drawn(SKIP3, seed=1))
    regret_table(SKIP3, policy, chunk=100)
    assert_asked(policy, play_out(SKIP3, "drawn1", "drawn1")[1], 100)


def test_asking_more_at_once_asks_less_often():
    few, many = Recorded(FirstEmpty()), Recorded(FirstEmpty())
    outcome(T3, few, "random", chunk=10**6)
    outcome(T3, many, "random", chunk=5)
    assert len(few.batches) <= 5  # player_0 moves five times at most
    assert sorted(few.asked) == sorted(many.asked)


# ---------------------------------------------------------------------------------------------------------------------
# What is refused


class Coin(FirstEmpty):
    pure = False

    def __str__(self):
        return "coin"


class Faulty(FirstEmpty):
    """Answers what is no distribution over legal moves, on the boards with two stones."""

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


@call
def test_a_policy_that_is_not_pure_is_refused(call):
    with pytest.raises(ValueError, match=r"coin is not pure.*evaluate\.py match"):
        call(Coin())


@call
@pytest.mark.parametrize(
    "fault",
    [
        (0.5, 0, 0.5),
        (0, 0, 1),
        (0.5, 0.4, 0),
        (0.7, 0.7, 0),
        (0, 0, 0),
        (1 + 1e-5, 0, 0),
        (1.5, -0.5, 0),
        (np.nan, 1, 0),
    ],
    ids=str,
)
def test_a_policy_that_gives_no_distribution_over_legal_moves_is_named(call, fault):
    with pytest.raises(ValueError, match="faulty:1"):
        call(Faulty(fault))


def test_a_policy_that_gives_another_shape_is_named():
    class Short(Faulty):
        def probabilities(self, boards, rng=None):
            return np.ones((len(boards.mover), 1))

    with pytest.raises(ValueError, match="faulty:1"):
        outcome(T3, Short(None), "random")


def test_what_rounds_like_a_net_is_taken():
    class Net(FirstEmpty):
        def probabilities(self, boards, rng=None):
            empty = (boards.cells == 0).astype(np.float32)
            return empty / empty.sum(axis=1, keepdims=True, dtype=np.float32)

    ours = outcome(SKIP3, Net(), Net())
    assert_allclose(ours, outcome(SKIP3, "random", "random"), rtol=0, atol=1e-6)
    assert exploitability(SKIP3, Net()) == pytest.approx(exploitability(SKIP3, "random"), abs=1e-6)


@pytest.mark.parametrize("seat", [2, -1, "first", None])
def test_a_seat_that_is_none_is_refused(seat):
    with pytest.raises(ValueError, match=f"seat={seat!r}"):
        best_response(T3, "random", seat)


@call
def test_what_cannot_be_asked_is_told(call):
    with pytest.raises(ValueError, match="no policy 'randm': did you mean 'random'"):
        call("randm")
    with pytest.raises(ValueError, match="chunk=0"):
        call("random", chunk=0)


class Strip(FirstEmpty):
    """Any empty cell of a few in a row, and then the first: few positions, on boards of any size."""

    def __init__(self, first, last):
        self.strip = slice(first, last + 1)

    def probabilities(self, boards, rng=None):
        inside = np.zeros(boards.cells.shape)
        inside[:, self.strip] = boards.cells[:, self.strip] == 0
        return np.where(
            inside.any(axis=1, keepdims=True),
            inside / np.maximum(1, inside.sum(axis=1, keepdims=True)),
            super().probabilities(boards),
        )


@pytest.mark.parametrize(
    ("game", "first", "last"),
    [
        (Game(5, 8, 3), 33, 38),
        (Game(6, 7, 2, 0.25), 35, 41),
        (Game(9, 8, 2, 0.25), 60, 67),
        (Game(12, 12, 3), 61, 66),
        (Game(19, 19, 2, 0.1), 317, 323),
    ],
    ids=str,
)
def test_few_positions_are_walked_on_large_boards(game, first, last):
    """Boards of more than 40 cells have keys of several words."""
    policy, results = Strip(first, last), [0.0, 0.0, 0.0]
    level = {start_of(game): 1.0}
    while level:
        following = {}
        for (cells, mover), mass in level.items():
            position = Position(np.frombuffer(cells, np.int8), mover)
            p = policy.probabilities(Boards.of([position]))[0]
            for action in np.flatnonzero(p).tolist():
                for probability, after, winner in chance_outcomes(game, position, action):
                    share, state = mass * p[action] * probability, (after.cells.tobytes(), after.mover)
                    if winner is None:
                        following[state] = following.get(state, 0.0) + share
                    else:
                        results[{0: 0, DRAW: 1, 1: 2}[winner]] += share
        level = following
    assert_allclose(outcome(game, policy, policy), results, rtol=0, atol=1e-12)


def test_on_a_board_that_cannot_be_solved_the_value_of_the_game_is_left_open():
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
def test_progress_only_grows(call):
    seen = []
    assert call("win-or-block", progress=seen.append) == call("win-or-block")
    assert len(seen) > 1
    assert (np.diff(seen) >= 0).all()
    assert seen[0] >= 0
    assert seen[-1] == 1
