"""OpenSpiel: its games, its algorithms and its players, asked through the adapter."""

import numpy as np
import phantoms
import pytest

pyspiel = pytest.importorskip("pyspiel")

from ttt_envs import Game, act, make_policy
from ttt_envs.game.information_sets import InformationSets
from ttt_envs.mnk_v0 import raw_env
from ttt_envs.open_spiel import from_information_strings, load_game, to_boards, to_states

GAMES = (Game(3, 3, 3), Game(3, 4, 3), Game(6, 7, 4), Game(15, 15, 5))


@pytest.mark.parametrize("game", GAMES, ids=str)
def test_games_side_by_side(game):
    """20 random games of {game} beside `mnk_v0`: movers, masks, results, and every state there and back"""
    rng = np.random.default_rng(0)
    other = load_game(game)
    ours = raw_env((game.rows, game.columns), game.win_length)
    for _ in range(20):
        state = other.new_initial_state()
        ours.reset(seed=0)
        while not state.is_terminal():
            assert ours.agent_selection == ours.possible_agents[state.current_player()]
            mask = ours.observe(ours.agent_selection)["action_mask"]
            assert state.legal_actions_mask() == mask.tolist()
            action = int(rng.choice(np.flatnonzero(mask)))
            state.apply_action(action)
            ours.step(action)
            boards = to_boards([state])
            [again] = to_states(boards, game)
            assert str(again) == str(state)
            assert again.returns() == state.returns()
        assert list(ours.rewards.values()) == state.returns()
        assert all(ours.terminations.values())


def test_all_positions():
    """`get_all_states` of `tic_tac_toe`: all 5,478 positions go to `Boards` and back, text and results the same"""
    from open_spiel.python.algorithms.get_all_states import get_all_states

    game = Game()
    states = get_all_states(load_game(game), depth_limit=-1, include_terminals=True, to_string=str)
    assert len(states) == 5478
    boards = to_boards(states.values())
    for state, again in zip(states.values(), to_states(boards, game), strict=True):
        assert str(again) == str(state)
        assert again.current_player() == state.current_player()
        assert again.returns() == state.returns()


def test_its_best_response():
    """`exploitability` of `random`, computed by theirs from the adapter's boards, is that of `evaluation.exact`"""
    from open_spiel.python import policy as policies
    from open_spiel.python.algorithms import exploitability as theirs

    from evaluation.exact.dynamic_programming import exploitability

    game = Game()
    table = policies.TabularPolicy(load_game(game))
    policy = make_policy("random", game)
    table.action_probability_array[:] = policy.probabilities(to_boards(table.states))
    assert exploitability(game, policy) == pytest.approx(theirs.exploitability(load_game(game), table), abs=1e-9)


@pytest.mark.parametrize(("version", "hidden"), [("classical", "classic"), ("abrupt", "abrupt")])
def test_perfect_recall(version, hidden):
    """`policy_value` and `BestResponsePolicy` in late states of `phantom_ttt`, {version}: the values of ours"""
    from open_spiel.python import policy as policies
    from open_spiel.python.algorithms.best_response import BestResponsePolicy
    from open_spiel.python.algorithms.expected_game_score import policy_value

    from evaluation.exact import perfect_recall
    from ttt_envs.game.phantom import JointViews

    game, other = Game(hidden=hidden), pyspiel.load_game("phantom_ttt", {"gameversion": version})
    state, before = other.new_initial_state(), [0, 0]
    for action in {"classic": (4, 4, 0, 0, 8, 1, 5), "abrupt": (4, 4, 0, 8, 8, 1, 5)}[hidden]:
        before[state.current_player()] += 1
        state.apply_action(action)
    cells = np.array([[".xo".index(letter) for letter in str(state).replace("\n", "")]], np.int8)
    found = np.zeros((1, 9), np.int8)
    for player in (0, 1):
        view = state.observation_string(player).replace("\n", "")
        found[0, [view[cell] == ".ox"[1 + player] for cell in range(9)]] = 1
    start = JointViews(cells, found, np.array([state.current_player()], np.int8))
    players = phantoms.RecallPolicy(0, start), phantoms.RecallPolicy(1, start)

    class Theirs(policies.Policy):
        """One of our policies, which remembers what it did since the late state"""

        def __init__(self, player):
            super().__init__(other, [0, 1])
            self.player = player

        def action_probabilities(self, later, player_id=None):
            seat = later.current_player()
            sets = from_information_strings([later.information_state_string()], game, seat)
            since = [np.full_like(array, -1) for array in sets[:2]]
            for ours, array in zip(since, sets, strict=False):
                ours[:, : 9 - before[seat]] = array[:, before[seat] :]
            shares = players[self.player].recall_probabilities(InformationSets(*since, sets.player))[0]
            return {action: shares[action] for action in later.legal_actions()}

    value = policy_value(state, [Theirs(0), Theirs(1)])
    assert perfect_recall.outcome(game, *players, start=start).value == pytest.approx(value[0], abs=1e-12)
    for responder in (0, 1):
        best = BestResponsePolicy(other, responder, Theirs(1), root_state=state)
        ours = perfect_recall.best_response(game, players[1], responder, start=start)
        assert ours.value == pytest.approx(best.value(state), abs=1e-12)


def test_its_mcts():
    """its `MCTSBot` against our `optimal`, 40 games in both seats: it never wins"""
    from open_spiel.python.algorithms import mcts

    game = Game()
    other, optimal, rng = load_game(game), make_policy("optimal", game), np.random.default_rng(0)
    random = np.random.RandomState(0)  # as theirs asks for
    bot = mcts.MCTSBot(other, 2.0, 50, mcts.RandomRolloutEvaluator(1, random), random_state=random)
    moves, results = 0, []
    for number in range(40):
        seat, state = number % 2, other.new_initial_state()
        while not state.is_terminal():
            mine = state.current_player() == seat
            state.apply_action(int(act(optimal, to_boards([state]), rng)[0]) if mine else bot.step(state))
            moves += 1
        results.append(state.returns()[seat])
    assert min(results) >= 0
    assert moves > 200
