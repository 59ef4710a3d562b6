"""A game as arrays: beside the rules in plain Python by enumeration, and beside exact values."""

import runpy

import gymnasium
import numpy as np
import plain
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from small_games import SKIP_GAME
from submissions import SOLUTIONS

import ttt_envs
from baselines.exact import solve
from ttt_envs import Game, PhantomGame, make_policy
from ttt_envs.arrays import against, game_arrays
from ttt_envs.core.work import Work
from ttt_envs.game import reference
from ttt_envs.game.boards import Boards
from ttt_envs.game.openings import draw_openings
from ttt_eval.exact import best_response, outcome

BOARDS = [
    (1, 1, 1),
    (1, 2, 2),
    (2, 1, 2),
    (2, 2, 1),
    (2, 2, 2),
    (1, 4, 2),
    (4, 1, 3),
    (1, 5, 3),
    (2, 3, 2),
    (2, 3, 3),
    (3, 2, 3),
    (1, 6, 4),
]


def enumerate_game(game, starts):
    """Every position that games reach, as (own, other) sets of cells, with its moves: action ->
    (result of the mover, None while the game goes on; the next positions by turn).
    """
    moves = {}
    waiting = list(starts)
    while waiting:
        own_first = waiting.pop()
        if own_first in moves:
            continue
        state = reference.State(own_first, 0)
        moves[own_first] = {}
        for cell in reference.legal_cells(game, own_first[0] | own_first[1]):
            action = cell % game.columns if game.gravity else cell
            after = [reference.play(game, state, cell, u) for u in (1 - 1e-9, 0.0)]
            winner = after[0].winner
            next_positions = [s.stones if s.mover == 0 else s.stones[::-1] for s in after]
            if winner is None:
                waiting += next_positions
            result = {None: None, reference.DRAW: 0, 0: 1, 1: -1}[winner]
            moves[own_first][action] = result, next_positions
    return moves


def position_of(arrays, row):
    """The stones of a row, as (own, other) sets of cells."""
    own, other = arrays.observations[row].reshape(2, -1)
    return frozenset(np.flatnonzero(own).tolist()), frozenset(np.flatnonzero(other).tolist())


def assert_equals_reference(game, openings=None):
    """Every row is a position of the game, with the moves that the rules in plain Python have."""
    arrays = game_arrays(game, openings=openings)
    starts = [
        tuple(frozenset(np.flatnonzero(cells == stone).tolist()) for stone in (1, 2))
        for cells in (openings or Boards.start(game)).own_first()
    ]
    moves = enumerate_game(game, starts)
    positions = [position_of(arrays, row) for row in range(arrays.over)]
    assert positions[: len(starts)] == starts
    assert len(positions) == len(moves)
    assert set(positions) == set(moves)
    for row, position in enumerate(positions):
        assert set(np.flatnonzero(arrays.legal[row])) == set(moves[position])
        for action, next_rows in enumerate(arrays.next[row]):
            result, next_positions = moves[position].get(action, (-1, None))
            assert arrays.rewards[row, action] == (result or 0)
            if result is None:
                assert [positions[next_row] for next_row in next_rows] == next_positions
            else:
                assert_array_equal(next_rows, arrays.over)
    stones = [len(own) + len(other) for own, other in positions]
    assert_array_equal(arrays.layers, np.searchsorted(stones, np.arange(game.cells + 1)))
    assert stones == sorted(stones)


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: "{}x{}-{}".format(*board))
@pytest.mark.parametrize("skip_chance", [0.0, 0.25])
def test_all_rules_have_the_positions_and_moves_of_plain_python(board, skip_chance):
    for rules in ({}, *plain.COMBINATIONS):
        assert_equals_reference(Game(*board, skip_chance, **rules))


@pytest.mark.parametrize(
    ("game", "plies"),
    [
        (Game(3, 4, 3), 6),
        pytest.param(Game(3, 4, 3, 0.25), 5, marks=pytest.mark.more),
        (Game(4, 4, 3, 0.25, gravity=True), 6),
    ],
    ids=str,
)
def test_openings_have_the_positions_and_moves_of_plain_python(game, plies):
    openings = draw_openings(game, plies, np.arange(6, dtype=np.uint64))
    _, first = np.unique(openings.own_first(), axis=0, return_index=True)
    assert len(first) > 1
    assert_equals_reference(game, openings.take(first))


def test_openings_with_unequally_many_stones_are_refused():
    openings = plain.from_texts("o../.../... x", "o../x../... o")
    with pytest.raises(ValueError, match="equally many stones"):
        game_arrays(Game(), openings=openings)


def test_the_common_game_has_its_known_size():
    arrays = game_arrays(Game())
    assert arrays.over == 4520  # of 5,478 positions 958 are finished: 626, 316 and 16 draws
    assert_array_equal(np.diff(arrays.layers), [1, 9, 72, 252, 756, 1140, 1372, 696, 222])
    assert arrays.observations.shape == (4521, 18)


def test_the_last_row_begins_a_game_again():
    arrays = game_arrays(SKIP_GAME)
    assert arrays.legal[arrays.over].all()
    assert not arrays.next[arrays.over].any()
    assert not arrays.rewards[arrays.over].any()
    assert not arrays.observations[arrays.over].any()


def test_what_cannot_be_arrays_is_refused():
    with pytest.raises(TypeError, match="hidden stones"):
        game_arrays(PhantomGame(Game(), "classic"))
    with pytest.raises(MemoryError, match="too many for exact results"):
        game_arrays(Game(6, 6, 4))
    with pytest.raises(MemoryError, match="allow more"):
        game_arrays(Game(4, 4, 4, 0.25, gravity=True), Work(memory=1 << 20))
    arrays = game_arrays(Game())
    with pytest.raises(ValueError, match="not pure"):
        against(arrays, make_policy("mcts:simulations=10", Game()), 0)
    with pytest.raises(ValueError, match="seat=2"):
        against(arrays, make_policy("random", Game()), 2)


@pytest.mark.parametrize(
    "game",
    [Game(), SKIP_GAME, Game(3, 4, 3, gravity=True), Game(3, 3, 3, 0.5, misere=True)],
    ids=str,
)
def test_value_iteration_equals_the_solver(game):
    arrays = game_arrays(game)
    solution = solve(game)
    value_iteration = runpy.run_path(SOLUTIONS / "value-iteration.py")["value_iteration"]
    values = value_iteration(arrays.legal, arrays.next, arrays.rewards, game.skip_chance, 1.0)
    values[-1] = 0
    other, again = np.moveaxis(values[arrays.next], 2, 0)
    expected = game.skip_chance * again - (1 - game.skip_chance) * other
    q = np.where(arrays.legal, arrays.rewards + expected, -np.inf)
    assert values[0] == solution.value
    boards = arrays.boards(0)
    if game.skip_chance == 0:  # player_1 moves after odd numbers of stones
        odd = np.count_nonzero(boards.cells, axis=1) % 2
        boards = boards._replace(
            cells=np.where(odd[:, None] == 1, -boards.cells % 3, boards.cells).astype(np.int8),
            mover=odd.astype(np.int8),
        )
    assert_array_equal(values[:-1], solution.values(boards))
    by_cell = np.nan_to_num(solution.action_values(boards), nan=-np.inf)
    by_action = by_cell.reshape(len(by_cell), -1, arrays.legal.shape[1]).max(1)
    assert_array_equal(q[:-1], by_action)


@pytest.mark.parametrize("game", [Game(), SKIP_GAME, Game(3, 4, 3, 0.25, gravity=True)], ids=str)
@pytest.mark.parametrize("seat", [0, 1])
@pytest.mark.parametrize("opponent", ["random", "win-or-block"])
def test_decision_processes_have_the_exact_results(game, seat, opponent):
    policy = make_policy("win-or-block", game)
    arrays = game_arrays(game)
    process = against(arrays, make_policy(opponent, game), seat)
    moves = arrays.policy_table(policy, seat)[process.rows]
    moves = np.concatenate([moves, np.full((6, moves.shape[1]), 1 / moves.shape[1])])
    values = np.zeros(len(moves))
    best = np.zeros(len(moves))
    for _ in range(game.cells + 2):
        by_action = [matrix @ values for matrix in process.transitions]
        values = ((process.rewards + np.stack(by_action, 1)) * moves).sum(1)
        by_action = [matrix @ best for matrix in process.transitions]
        best = (process.rewards + np.stack(by_action, 1)).max(1)
    players = (policy, opponent) if seat == 0 else (opponent, policy)
    result = outcome(game, *players)
    sign = 1 - 2 * seat
    assert_allclose(process.start @ values, sign * (result.win - result.loss), atol=1e-12)
    response = best_response(game, opponent, seat)
    assert_allclose(process.start @ best, response.win - response.loss, atol=1e-9)


def test_processes_are_distributions_and_end():
    process = against(game_arrays(SKIP_GAME), make_policy("random", SKIP_GAME), 1)
    final = np.eye(len(process.start))[process.final :]
    for matrix in process.transitions:
        assert_allclose(matrix.sum(1), 1, atol=1e-12)
        assert matrix.data.min() > 0
        assert_array_equal(matrix[process.final :].toarray(), final)


# --------------------------------------------------------------------------------------------------
# P of an environment


@pytest.mark.parametrize("seat", ["first", "second"])
@pytest.mark.parametrize("skip_chance", [0.0, 0.5])
def test_env_p_is_what_the_environment_does(seat, skip_chance):
    env = gymnasium.make(
        "ttt/TicTacToe-v0", opponent="win-or-block", seat=seat, skip_chance=skip_chance
    ).unwrapped
    table = env.P
    starts = against(
        game_arrays(env.game), make_policy("win-or-block", env.game), int(seat == "second")
    ).start
    rng = np.random.default_rng(0)
    for seed in range(300):
        env.reset(seed=seed)
        assert starts[env.s] > 0
        terminated = False
        while not terminated:
            state = env.s
            action = int(rng.integers(9))
            _, reward, terminated, _, _ = env.step(action)
            outcomes = {(n, r, is_over): p for p, n, r, is_over in table[state][action]}
            assert outcomes[env.s, reward, terminated] > 0


def test_a_course_can_plan_in_env_p():
    """So probabilities are those of the game."""
    env = gymnasium.make("ttt_envs:ttt/TicTacToe-v0", opponent="random", skip_chance=0.5).unwrapped
    values = dict.fromkeys(env.P, 0.0)
    for _ in range(12):
        for state, actions in env.P.items():
            values[state] = max(
                sum(p * (reward + (not is_over) * values[n]) for p, n, reward, is_over in outcomes)
                for outcomes in actions.values()
            )
    env.reset(seed=0)
    response = best_response(env.game, "random", 0)
    assert values[env.s] == pytest.approx(response.win - response.loss, abs=1e-12)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"size": 5}, "too large"),
        ({"phantom": "classic"}, "hidden stones"),
        ({"opponent": "self"}, "one opponent"),
        ({"opponent": "mcts:simulations=10"}, "not pure"),
        ({"opponent": [("random", 0), ("optimal", 10)]}, "one opponent"),
        ({"skip_chance": (0.0, 0.5)}, "one skip chance"),
        ({"seat": "random"}, "seat='first'"),
        ({"symmetry": "random"}, "symmetry='none'"),
        ({"openings": ["o../.../... x"]}, "openings=None"),
        ({"illegal_action": "penalize"}, "illegal_action='lose'"),
    ],
)
def test_what_has_no_table_is_refused(options, reason):
    env = gymnasium.make("ttt/MNK-v0", **options).unwrapped
    with pytest.raises(ValueError, match=reason):
        _ = env.P


def test_arrays_are_loaded_when_they_are_asked_for():
    assert ttt_envs.arrays.game_arrays is game_arrays
