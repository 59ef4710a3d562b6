"""The tasks of the benchmark, and their exact scores, against tables and a plain recursion."""

import copy
from dataclasses import replace
from fractions import Fraction
from multiprocessing.reduction import ForkingPickler

import numpy as np
import phantoms
import plain
import pytest
from documents import ROOT
from players import Drawn

from baselines.exact import solve
from ttt_envs import Boards, Game, Policy, as_policy, make_policy
from ttt_envs.agents.policy import PolicyWrapper, best_shares
from ttt_envs.game.boards import keys, one_ply_ahead, to_text
from ttt_envs.game.game import Position
from ttt_envs.game.rules import chance_outcomes
from ttt_envs.game.symmetry import canonical_keys, symmetries
from ttt_eval.benchmark import TASKS, find_task, score_policies
from ttt_eval.benchmark.scoring import (
    Unmasked,
    combine_scores,
    measure_task,
    references,
    uniform_over_cells,
)
from ttt_eval.benchmark.submission import PolicyTable, list_positions, tabulate
from ttt_eval.benchmark.tasks import find_tasks, split_openings
from ttt_eval.exact import evaluate_policy, exploitability, outcome
from ttt_eval.exact.best_response_values import BestResponseValues
from ttt_eval.exact.measurement import Measurement
from ttt_eval.exact.proved_positions import read_proved

pytestmark = pytest.mark.more

VISIBLE = [task for task in TASKS if task.phantom is None]
SMALL = [task for task in VISIBLE if task.size == (3, 3)]
LARGE = [task for task in VISIBLE if task.size != (3, 3)]


def as_tables(task, policies):
    """Return the same policies as tables, which are neither symmetric nor known to be anything
    else.
    """
    masked = task.measure != "illegal-moves"
    tables = []
    for game, policy in zip(task.games, policies, strict=True):
        arrays = tabulate(game, policy, task.seats, task.positions, dtype=np.float64)
        if task.measure != "critic-error":
            arrays.pop("values", None)
        tables.append(
            PolicyTable(game, **arrays, seats=task.seats, positions=task.positions, masked=masked)
        )
    return tables


def random_policies(task):
    if task.measure == "illegal-moves":
        return [uniform_over_cells(task.games[0])]
    random = [PolicyWrapper(make_policy("random", game)) for game in task.games]
    random[0].values = lambda boards: np.zeros(len(boards.mover))
    return random


class BestResponse(Policy):
    """The best response to a policy; uniform in positions that it never reaches."""

    def __init__(self, game, policy):
        self.game = game
        self.seats = [BestResponseValues(game, policy, seat) for seat in (0, 1)]

    def probabilities(self, boards, rng=None):
        shares = boards.legal(self.game).astype(np.float64)
        for seat, responder in enumerate(self.seats):
            rows = np.flatnonzero((boards.mover == seat) & ~np.isnan(responder.values(boards)))
            if len(rows):
                shares[rows] = best_shares(
                    one_ply_ahead(self.game, boards.take(rows), responder.values), 1e-9
                )
        return plain.shares_of(shares)


def best_policies(task, steps):
    opponent = task.stages[task.stage(steps)][0]
    if task.measure == "value":
        return [BestResponse(game, opponent) for game in task.games]
    optimal = [make_policy("optimal", game) for game in task.games]
    if task.measure != "critic-error":
        return optimal
    exact = evaluate_policy(task.games[0], optimal[0], opponent)
    table = dict(zip(keys(exact.boards.own_first()).tolist(), exact.values.tolist(), strict=True))
    policy = PolicyWrapper(optimal[0])
    policy.values = lambda boards: np.array(
        [table.get(key, 0.0) for key in keys(boards.own_first()).tolist()]
    )
    return [policy]


def check_ends_of_the_scale(task, convert=as_tables):
    for _, start in task.stages:
        steps = start + 1
        worst = score_policies(task, convert(task, random_policies(task)), steps)
        best = score_policies(task, convert(task, best_policies(task, steps)), steps)
        assert worst.score == pytest.approx(0, abs=1e-12)
        assert best.score == pytest.approx(1, abs=1e-12)
        assert abs(best.value - worst.value) > 0.01


@pytest.mark.parametrize("task", SMALL, ids=lambda task: task.name)
def test_random_tables_score_0_and_perfect_tables_1(task):
    check_ends_of_the_scale(task)


@pytest.mark.slow
@pytest.mark.parametrize("task", LARGE, ids=lambda task: task.name)
def test_random_play_scores_0_and_perfect_play_1_on_larger_boards(task):
    """In Connect Four the perfect player is a search whose scores of other positions are those of
    the program of Pons.
    """
    check_ends_of_the_scale(
        task, as_tables if "v2" in task.versions else lambda task, policies: policies
    )


def test_measures_of_random_play_are_known(known_values):
    """Without us by dynamic programming, and with hidden stones in docs/rules.md."""
    gains = known_values["best_response_value_3x3x3"]["random at skip 1/4"]
    known = sum(map(Fraction, gains)) / 2
    assert references(find_task("self-play-skip"))[0] == pytest.approx(float(known), abs=1e-12)
    task = find_task("phantom")
    result = score_policies(task, as_tables(task, random_policies(task)))
    assert (result.score, result.value) == pytest.approx((0, 0.788732), abs=1e-6)


def test_positions_of_released_tasks_do_not_change():
    """In Connect Four a mistake changes the proved result; other positions have the regret of
    random play with v2.
    """
    proved = read_proved("6x7-4-gravity").proven
    kept = [row.moves.count(row.result) / len(row.moves.replace(".", "")) for row in proved]
    assert references(find_task("connect-four"))[0] == pytest.approx(1 - np.mean(kept))
    regret = references(find_task("self-play-4x4-skip"))[0]
    assert regret == pytest.approx(0.2625521317635167, abs=1e-12)


def test_tables_of_hidden_stones_know_their_seat():
    task = replace(find_task("phantom"), size=(2, 2), win_length=2)
    [game] = task.games
    policy = phantoms.ViewPolicy(game, 3)
    start = phantoms.start(game)
    gains = [phantoms.best_response(game, start, seat, policy)[0] for seat in (0, 1)]
    measured = measure_task(task, as_tables(task, [policy]), 0)
    assert measured == pytest.approx(sum(gains) / 2, abs=1e-12)


def test_a_score_is_that_of_its_measure():
    task = find_task("self-play")
    policy = make_policy("win-or-block", Game())
    share = exploitability(Game(), policy) / exploitability(Game(), "random")
    assert score_policies(task, [policy]).score == pytest.approx(1 - share, abs=1e-12)
    second = find_task("second-seat")
    [game] = second.games
    assert (
        score_policies(second, [policy]).value == outcome(game, "optimal", policy).reversed().value
    )


def test_the_score_of_an_opponent_that_changes_depends_on_the_steps():
    task = find_task("opponents")
    assert [task.stage(steps) for steps in (0, 20_000, 20_001, 40_000, 80_001)] == [0, 0, 1, 1, 4]
    assert task.checkpoints == tuple(range(5_000, 100_001, 5_000))
    [policy] = best_policies(task, 20_000)
    at = [score_policies(task, [policy], steps).score for steps in (20_000, 20_001)]
    assert at[0] == pytest.approx(1, abs=1e-12)
    assert at[1] < 0.9
    assert (combine_scores(task, [1.0, 0.5]), combine_scores(find_task("svd"), [1.0, 0.5])) == (
        0.75,
        0.5,
    )


# --------------------------------------------------------------------------------------------------
# Measures


def plain_probability(game, policy, opponent, seat, position):
    """Return the probability of an illegal move of ``policy`` from here on, by recursion over
    single moves.
    """
    cells, mover = position
    player = policy if mover == seat else opponent
    p = player.probabilities(Boards.from_positions([position]))[0]
    illegal = p[cells != 0].sum() if mover == seat else 0.0
    for action in np.flatnonzero((cells == 0) & (p > 0)):
        for chance in chance_outcomes(game, position, int(action)):
            if chance.winner is None:
                remainder = plain_probability(game, policy, opponent, seat, chance.position)
                illegal += p[action] * chance.probability * remainder
    return illegal


@pytest.mark.parametrize("skip_chance", [0, 0.3])
@pytest.mark.parametrize("seat", [0, 1])
def test_the_probability_of_illegal_moves_agrees_with_a_plain_recursion(seat, skip_chance):
    game = Game(1, 5, 3, skip_chance)
    policy = Drawn(game)
    rng = np.random.default_rng(0)
    policy.table = rng.dirichlet(np.ones(5), policy.table.shape[:2])  # over all cells
    opponent = Drawn(game, never=0)
    expected = plain_probability(game, policy, opponent, seat, Position(np.zeros(5, np.int8), 0))
    assert 0.3 < expected < 1
    measured = Measurement(game, Unmasked(policy)).illegal_share(opponent, seat)
    assert measured == pytest.approx(expected, abs=1e-12)


def test_illegal_moves_are_measured_before_masking():
    task = find_task("masks")
    for output, score in (
        (lambda observation, mask: np.ones(9), 0),
        (lambda observation, mask: mask, 1),
    ):
        policy = as_policy(output, task.games[0], returns="probabilities")
        assert score_policies(task, [policy]).score == pytest.approx(score, abs=1e-12)


def test_openings_are_split_by_symmetry_class_of_equal_weight():
    game = Game()
    *halves, weights = split_openings(game)
    codes = [
        canonical_keys(boards.cells, symmetries(game))[0].ravel().tolist() for boards in halves
    ]
    assert not set(codes[0]) & set(codes[1])
    assert abs(len(set(codes[0])) - len(set(codes[1]))) <= 1
    assert len(codes[0]) + len(codes[1]) == 9 * 8 * 7 // 2
    learned = [to_text(halves[0].position(row), game) for row in range(len(codes[0]))]
    assert find_task("openings").settings["openings"] == learned
    boards = halves[1]
    policy = make_policy("win-or-block", game)
    assert weights.sum() == pytest.approx(1)
    values = solve(game).action_values(boards)
    lost = np.nanmax(values, axis=1) - np.nansum(policy.probabilities(boards) * values, axis=1)
    _, classes, sizes = np.unique(codes[1], return_inverse=True, return_counts=True)
    expected = np.mean(np.bincount(classes, lost) / sizes)
    assert abs(expected - lost.mean()) > 1e-3
    assert score_policies(find_task("openings"), [policy]).value == pytest.approx(expected)


# --------------------------------------------------------------------------------------------------
# Environments


def test_the_task_of_masks_hides_them():
    env = find_task("masks").make_env(seed=0, observation="dict")
    parts = [*env.reset(), *env.step(4)[::4]]  # observations and infos
    assert all(part["action_mask"].all() for part in parts)
    assert env.action_masks().all()
    assert env.step(4)[1:3] == (-1, True)


@pytest.mark.parametrize(
    "bypass",
    [
        copy.copy,
        copy.deepcopy,
        ForkingPickler.dumps,
        lambda env: env.clone_state(include_rng=True),
        lambda env: env.restore_state({}, seed=1),
        lambda env: env.P,
    ],
)
def test_no_steps_are_taken_without_being_counted(bypass):
    env = find_task("second-seat").make_env(seed=0)
    with pytest.raises(TypeError, match="knows_rules"):
        bypass(env)
    assert env.unwrapped is env


def test_agents_choose_observations_only():
    with pytest.raises(TypeError, match="the task random determines opponent"):
        find_task("random").make_env(seed=0, opponent="optimal")
    with pytest.raises(ValueError, match="reset"):
        find_task("random").make_env(seed=0).reset(options={"position": "... / ... / ... o"})


def test_the_page_of_tasks_lists_them():
    rows = []
    for task in TASKS:
        opponents = ", ".join(
            f"{opponent} from {start}" if start else opponent for opponent, start in task.stages
        )
        rules = [name for name in ("gravity", "phantom") if getattr(task, name)]
        board = ", ".join(["x".join(map(str, task.size)), str(task.win_length), *rules])
        skips = ", ".join(f"{skip:g}" for skip in task.skip_chances)
        axes = ", ".join(task.axes)
        rows.append(
            f"| `{task.name}` | {axes} | {board} | {skips} | `{opponents}` | {task.measure} |"
        )
    page = (ROOT / "docs/benchmark/index.md").read_text()
    assert "\n".join(rows) in page
    shared = "`, `".join(task.name for task in find_tasks() if "v2" in task.versions)
    assert f"shares these with v1: `{shared}`." in page.replace("\n", " ")


# --------------------------------------------------------------------------------------------------
# Tables


def test_tables_hold_every_position_of_their_seats():
    game = Game()
    first, second, both = (list_positions(game, seats) for seats in ((0,), (1,), (0, 1)))
    assert (
        len(both.mover) == len(first.mover) + len(second.mover) == 4_520
    )  # unfinished positions of tic-tac-toe
    assert set(first.mover) == {0}
    table = PolicyTable(game, **tabulate(game, "random", (1,)), seats=(1,))
    with pytest.raises(ValueError, match=r"lacks the position '\.\.\./\.\.\./\.\.\. o'"):
        table.probabilities(Boards.start(game))
