"""The tasks of the benchmark, and their exact scores, against tables and a plain recursion."""

import numpy as np
import pytest
from documents import ROOT

from baselines.exact import solve
from ttt_envs import Boards, Game, Policy, as_policy, make_policy
from ttt_envs.game.boards import to_text
from ttt_envs.game.game import Position
from ttt_envs.game.rules import chance_outcomes
from ttt_envs.game.symmetry import canonical_keys, symmetries
from ttt_eval.benchmark import (
    TASKS,
    best_policies,
    combine_scores,
    find_task,
    find_tasks,
    random_policies,
    references,
    score_policies,
)
from ttt_eval.benchmark.illegal_moves import UniformOverCells, probability_of_illegal_move
from ttt_eval.benchmark.policy_table import PolicyTable, list_positions, tabulate
from ttt_eval.benchmark.scoring import class_weights
from ttt_eval.benchmark.tasks import HiddenMasks, split_openings
from ttt_eval.exact import exploitability, outcome

SMALL = [task for task in TASKS if task.size == (3, 3)]
LARGE = [task for task in TASKS if task.size != (3, 3)]


def as_tables(task, policies):
    """Return the same policies as tables, which are neither symmetric nor known to be anything else."""
    masked = task.measure != "illegal-moves"
    tables = []
    for game, policy in zip(task.games, policies, strict=True):
        arrays = tabulate(game, policy, task.seats, dtype=np.float64)
        if task.measure != "critic-error":
            arrays.pop("values", None)
        tables.append(PolicyTable(game, **arrays, seats=task.seats, masked=masked))
    return tables


def check_ends_of_the_scale(task, convert=as_tables):
    for stage in range(task.num_stages):
        steps = task.steps * (stage + 1) // task.num_stages
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
    check_ends_of_the_scale(task, as_tables if task.size == (3, 4) else lambda task, policies: policies)


def test_a_score_is_that_of_its_measure():
    task = find_task("self-play")
    policy = make_policy("win-or-block", Game())
    share = exploitability(Game(), policy) / exploitability(Game(), "random")
    assert score_policies(task, [policy]).score == pytest.approx(1 - share, abs=1e-12)
    second = find_task("second-seat")
    [game] = second.games
    assert score_policies(second, [policy]).value == outcome(game, "optimal", policy).reversed().value


def test_the_score_of_an_opponent_that_changes_depends_on_the_steps():
    task = find_task("opponents")
    assert [task.stage(steps) for steps in (0, 1, 20_000, 20_001, 40_000, 80_001, 100_000)] == [0, 0, 0, 1, 1, 4, 4]
    assert task.checkpoints == tuple(range(5_000, 100_001, 5_000))
    policy = best_policies(task, 20_000)[0]
    at = [score_policies(task, [policy], steps).score for steps in (20_000, 20_001)]
    assert at[0] == pytest.approx(1, abs=1e-12)
    assert at[1] < 0.9
    assert combine_scores(task, [1.0, 0.5]) == 0.75
    assert combine_scores(find_task("svd"), [1.0, 0.5]) == 0.5


# ---------------------------------------------------------------------------------------------------------------------
# Measures


class Drawn(Policy):
    """Random probabilities over all cells, or over legal ones, by the position."""

    def __init__(self, masked):
        self.masked = masked

    def __str__(self):
        return "drawn"

    def probabilities(self, boards, rng=None):
        rows = []
        for cells, mover in zip(*boards, strict=True):
            weights = np.random.default_rng([*cells.tolist(), int(mover)]).random(len(cells))
            rows.append(weights * (cells == 0) if self.masked else weights)
        rows = np.stack(rows)
        return rows / rows.sum(axis=1, keepdims=True)


def plain_probability(game, policy, opponent, seat, position):
    """Return the probability of an illegal move of ``policy`` from here on, by recursion over single moves."""
    cells, mover = position
    player = policy if mover == seat else opponent
    p = player.probabilities(Boards.from_positions([position]))[0]
    illegal = p[cells != 0].sum() if mover == seat else 0.0
    for action in np.flatnonzero((cells == 0) & (p > 0)):
        for chance in chance_outcomes(game, position, int(action)):
            if chance.winner is None:
                rest = plain_probability(game, policy, opponent, seat, chance.position)
                illegal += p[action] * chance.probability * rest
    return illegal


@pytest.mark.parametrize("skip_chance", [0, 0.3])
@pytest.mark.parametrize("seat", [0, 1])
def test_the_probability_of_illegal_moves_agrees_with_a_plain_recursion(seat, skip_chance):
    game = Game(1, 5, 3, skip_chance)
    policy, opponent = Drawn(masked=False), Drawn(masked=True)
    expected = plain_probability(game, policy, opponent, seat, Position(np.zeros(5, np.int8), 0))
    assert 0.3 < expected < 1
    assert probability_of_illegal_move(game, policy, opponent, seat) == pytest.approx(expected, abs=1e-12)


def test_known_probabilities_of_illegal_moves():
    assert probability_of_illegal_move(Game(), make_policy("optimal", Game()), "random", 0) == 0
    line = Game(1, 2, 2)  # two cells, no win: the first player moves once, the second once
    assert probability_of_illegal_move(line, UniformOverCells(), "random", 0) == 0
    assert probability_of_illegal_move(line, UniformOverCells(), "random", 1) == 0.5
    with pytest.raises(ValueError, match="gave no distribution over"):
        probability_of_illegal_move(line, Constant(np.array([0.5, np.nan])), "random", 0)


def test_a_wrapped_function_is_measured_before_masking():
    task = find_task("masks")
    [game] = task.games

    def uniform(observation, mask):
        return np.ones(9)

    assert score_policies(task, [as_policy(uniform, game, returns="probabilities")]).score == pytest.approx(
        0, abs=1e-12
    )
    legal = as_policy(lambda observation, mask: mask, game, returns="probabilities")
    assert score_policies(task, [legal]).score == 1


class Constant(Policy):
    def __init__(self, row):
        self.row = row

    def __str__(self):
        return "constant"

    def probabilities(self, boards, rng=None):
        return np.tile(self.row, (len(boards.mover), 1))


def test_openings_are_split_by_symmetry_class():
    game = Game()
    learned, held_out = split_openings(game)
    classes = [
        set(canonical_keys(boards.cells, symmetries(game))[0].ravel().tolist()) for boards in (learned, held_out)
    ]
    assert not classes[0] & classes[1]
    assert abs(len(classes[0]) - len(classes[1])) <= 1
    assert len(learned.mover) + len(held_out.mover) == 9 * 8 * 7 // 2
    weights = class_weights(game, held_out)
    assert weights.sum() == pytest.approx(1)
    least = canonical_keys(held_out.cells, symmetries(game))[0]
    for code in np.unique(least):
        assert weights[(least == code).ravel()].sum() == pytest.approx(1 / len(classes[1]))
    assert set(learned.cells.sum(axis=1)) == {4}
    known = [to_text(learned.position(row)) for row in range(len(learned.mover))]
    assert find_task("openings").settings["openings"] == known


def test_each_class_of_openings_weighs_the_same():
    game, losses = Game(), {}
    boards, policy = split_openings(game)[1], make_policy("win-or-block", game)
    values = solve(game).action_values(boards)
    lost = np.nanmax(values, axis=1) - np.nansum(policy.probabilities(boards) * values, axis=1)
    for code, loss in zip(canonical_keys(boards.cells, symmetries(game))[0].ravel().tolist(), lost, strict=True):
        losses.setdefault(code, []).append(loss)
    expected = np.mean([np.mean(one) for one in losses.values()])
    assert abs(expected - lost.mean()) > 1e-3
    assert score_policies(find_task("openings"), [policy]).value == pytest.approx(expected)


# ---------------------------------------------------------------------------------------------------------------------
# Environments


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_tasks_make_seeded_environments(task):
    if task.size == (4, 4):
        return  # its opponent solves the board
    first, second = (task.make_env(seed=3, observation="dict") for _ in range(2))
    for env in (first, second):
        env.trace = []
        for _ in range(3):
            _, info = env.reset()
            over = False
            while not over:
                action = int(np.flatnonzero(env.unwrapped.action_masks())[-1])
                observation, reward, terminated, truncated, info = env.step(action)
                over = terminated or truncated
                env.trace.append((observation["observation"].tolist(), reward, info["mover"]))
    assert first.trace == second.trace
    assert task.checkpoints[-1] == task.steps
    assert len(set(task.checkpoints)) in (1, 20)


def test_the_task_of_masks_hides_them():
    env = find_task("masks").make_env(seed=0)
    assert isinstance(env, HiddenMasks)
    _, info = env.reset()
    _, _, terminated, _, info = env.step(4)
    assert not terminated
    assert info["action_mask"].all()
    assert env.action_masks().all()
    _, reward, terminated, _, _ = env.step(4)
    assert (reward, terminated) == (-1, True)


def test_agents_choose_observations_only():
    with pytest.raises(TypeError, match="the task random determines opponent: an agent chooses observation, dtype"):
        find_task("random").make_env(seed=0, opponent="optimal")
    with pytest.raises(TypeError, match="the task masks determines illegal_action"):
        find_task("masks").make_env(seed=0, illegal_action="raise")


def test_the_page_of_tasks_lists_them():
    rows = []
    for task in TASKS:
        game = task.games[0]
        skips = task.skip_chance if isinstance(task.skip_chance, tuple) else (task.skip_chance,)
        pairs = task.opponent if isinstance(task.opponent, tuple) else ((task.opponent, 0),)
        opponents = [f"{opponent} from {start}" if start else opponent for opponent, start in pairs]
        board = f"{game.rows} x {game.columns}, {game.win_length}"
        cells = (f"`{task.name}`", ", ".join(task.axes), board, ", ".join(f"{skip:g}" for skip in skips))
        rows.append(f"| {' | '.join(cells)} | `{', '.join(opponents)}` | {task.measure} |")
    assert "\n".join(rows) in (ROOT / "docs/benchmark/tasks.md").read_text()


def test_tasks_are_found_by_name():
    assert len({task.name for task in TASKS}) == len(TASKS) == 20
    assert find_tasks() == list(TASKS)
    assert [task.name for task in find_tasks(["masks", "svd"])] == ["svd", "masks"]
    with pytest.raises(ValueError, match="there is no task 'self-pley': did you mean 'self-play'"):
        find_task("self-pley")
    assert {axis for task in TASKS for axis in task.axes} == {
        *("basics", "chance", "self-play", "credit", "exploration", "generalisation"),
        *("non-stationarity", "critic", "masks"),
    }
    assert find_task("critic").uses_runs_of == "chance-25"


def test_references_are_read_from_the_disk(tmp_path, monkeypatch):
    from ttt_eval.benchmark import scoring

    monkeypatch.setenv("TTT_ENVS_CACHE", str(tmp_path))
    scoring._references.cache_clear()
    task = find_task("random")
    computed = references(task)
    scoring._references.cache_clear()
    monkeypatch.setattr(scoring, "_measure", None)
    assert references(task) == computed
    scoring._references.cache_clear()
    with pytest.raises(ValueError, match="depend on the policy"):
        references(find_task("critic"))


# ---------------------------------------------------------------------------------------------------------------------
# Tables


def test_tables_hold_every_position_of_their_seats():
    game = Game()
    first, second, both = (list_positions(game, seats) for seats in ((0,), (1,), (0, 1)))
    assert len(both.mover) == len(first.mover) + len(second.mover) == 4_520  # unfinished positions of tic-tac-toe
    assert set(first.mover) == {0}
    table = PolicyTable(game, **tabulate(game, "random", (1,)), seats=(1,))
    with pytest.raises(ValueError, match=r"lacks the position '\.\.\./\.\.\./\.\.\. o'"):
        table.probabilities(Boards.start(game))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"probabilities": np.full((4520, 8), 1 / 8)}, r"needs probabilities float\[4520, 9\]"),
        ({"probabilities": np.full((4520, 9), 1)}, r"needs probabilities float\[4520, 9\]"),
        ({"probabilities": np.full((4519, 9), 1 / 9)}, r"needs probabilities float\[4520, 9\]"),
        ({"values": np.zeros(3)}, r"needs values float\[4520\]"),
    ],
)
def test_invalid_tables_are_rejected(change, message):
    arrays = tabulate(Game(), "random")
    PolicyTable(Game(), **arrays)
    with pytest.raises(ValueError, match=message):
        PolicyTable(Game(), **arrays | change)
