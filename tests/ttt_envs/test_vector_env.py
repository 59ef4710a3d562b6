"""The vector environment against Gymnasium's vector of single environments, and its arguments."""

from itertools import combinations, product

import gymnasium
import numpy as np
import plain
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import TimeLimit
from numpy.testing import assert_array_equal
from players import Impure

from ttt_envs import Game, Policy, make_policy
from ttt_envs.envs.single_env import SingleEnv
from ttt_envs.envs.vector_env import MNKVectorEnv

MODES = list(AutoresetMode)
SEATS = ("first", "second", "random", "alternate")


class Leftmost(Policy):
    """A pure opponent without `act`."""

    def probabilities(self, boards, rng=None):
        p = (boards.cells == 0) * 0.5 ** np.arange(boards.cells.shape[1])
        return p / p.sum(axis=1, keepdims=True)


def assert_same(ours, theirs, path=""):
    """Both hold the same, arrays also of the same type."""
    if isinstance(theirs, dict):
        assert set(ours) == set(theirs), path
        for name, value in theirs.items():
            assert_same(ours[name], value, f"{path}/{name}")
    elif isinstance(theirs, (tuple, list)) or (isinstance(theirs, np.ndarray) and theirs.dtype == object):
        assert type(ours) is type(theirs), path
        for index, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            assert_same(one, other, f"{path}/{index}")
    elif isinstance(theirs, np.ndarray):
        assert ours.dtype == theirs.dtype, path
        if not np.array_equal(ours, theirs):  # which takes a tenth of the time, and then says nothing
            assert_array_equal(ours, theirs, err_msg=path, strict=True)
    elif isinstance(theirs, np.random.Generator):
        assert ours.bit_generator.state == theirs.bit_generator.state, path
    else:
        assert ours == theirs, path


def compare(num_envs, mode, steps, seed=0, limit=None, **settings):
    """Play the same actions, legal and not, here and in SyncVectorEnv. Returns how many games ended and were cut."""
    ours = MNKVectorEnv(num_envs, autoreset_mode=mode, max_episode_steps=limit, **settings)

    def single():
        return SingleEnv(**settings) if limit is None else TimeLimit(SingleEnv(**settings), limit)

    theirs = SyncVectorEnv([single] * num_envs, autoreset_mode=mode)
    assert ours.observation_space == theirs.observation_space
    assert ours.action_space == theirs.action_space
    assert ours.metadata["autoreset_mode"] is mode
    rng = np.random.default_rng(seed)
    shown = ours.reset(seed=seed)
    assert_same(shown, theirs.reset(seed=seed))
    info, ended = shown[1], np.zeros(2, int)
    often = 0.8 if settings.get("illegal_action") == "penalize" else 0.07
    for _ in range(steps):
        illegal = rng.random((num_envs, 1)) < often
        actions = (rng.random(info["action_mask"].shape) * (info["action_mask"] != illegal)).argmax(axis=1)
        shown = ours.step(actions)
        assert_same(shown, theirs.step(actions))
        assert ours.observation_space.contains(shown[0])
        assert_same(ours.action_masks(), shown[4]["action_mask"] == 1)
        over = shown[2] | shown[3]
        ended += over.sum(), shown[3].sum()
        info = shown[4]
        if mode is AutoresetMode.DISABLED and over.any():
            seeds = [int(rng.integers(99)) if rng.random() < 0.5 else None for _ in range(num_envs)]
            shown = ours.reset(seed=seeds, options={"reset_mask": over.copy()})
            assert_same(shown, theirs.reset(seed=seeds, options={"reset_mask": over.copy()}))
            info = {"action_mask": np.where(over[:, None], shown[1]["action_mask"], info["action_mask"])}
    return ended


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
@pytest.mark.parametrize("opponent", ["random", "win-or-block", "self"])
def test_vector_equals_sync_vector_env(mode, opponent):
    views = list(product(("flat", "planes", "channels", "dict"), ("int8", "float32"), ("none", "random")))
    views = [views[5 * index % 16] for index in range(16)]  # so that every seat meets every observation
    choices = product(SEATS, ("lose", "penalize"), range(2))
    for (seat, illegal_action, _), (observation, dtype, symmetry) in zip(choices, views, strict=True):
        ended, truncated = compare(
            3,
            mode,
            steps=70,
            opponent=opponent,
            seat=seat,
            illegal_action=illegal_action,
            observation=observation,
            dtype=dtype,
            symmetry=symmetry,
            size=(3, 4),
            skip_chance=0.25,
        )
        assert ended > 10
        assert (truncated > 0) == (illegal_action == "penalize")


@pytest.mark.parametrize("num_envs", [1, 3, 64])
@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
def test_game_i_is_the_single_environment_at_any_batch_size(num_envs, mode):
    settings = {"skip_chance": 0.25, "seat": "second", "symmetry": "random"}
    assert compare(num_envs, mode, steps=100, opponent="random", **settings)[0] > 10 * num_envs


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
@pytest.mark.parametrize("opponent", ["random", "win-or-block", "self"])
def test_time_limits_truncate_as_in_gymnasium(mode, opponent):
    for limit, illegal_action in product((1, 3, 4), ("lose", "penalize")):
        ended, truncated = compare(
            4, mode, steps=60, limit=limit, opponent=opponent, illegal_action=illegal_action, size=4, skip_chance=0.25
        )
        assert ended >= truncated > 20
    assert compare(4, mode, steps=60, limit=100, opponent=opponent)[1] == 0


@pytest.mark.parametrize("opponent", [Impure(), Leftmost()], ids=["not pure", "without act"])
def test_any_policy_is_an_opponent(opponent):
    for seat in ("first", "second"):
        assert compare(5, AutoresetMode.SAME_STEP, steps=60, opponent=opponent, seat=seat, skip_chance=0.25)[0] > 40


class ByAct:
    """`random` without the permission to draw its moves in kernels."""

    pure = True

    def __init__(self, game):
        self.policy = make_policy("random", game)
        self.probabilities = self.policy.probabilities

    def act(self, boards, rng):
        return self.policy.act(boards, rng)


@pytest.mark.parametrize("seat", SEATS)
@pytest.mark.parametrize(
    "settings",
    [
        {"size": (3, 4), "symmetry": "random"},
        {"size": (4, 5), "win_length": 4, "gravity": True},
        {"size": (8, 9), "win_length": 4, "gravity": True},
    ],
    ids=str,
)
def test_random_moves_are_the_same_in_kernels_and_by_act(settings, seat):
    settings = {"skip_chance": 0.25, "seat": seat, **settings}
    in_kernels = MNKVectorEnv(9, **settings)
    by_act = MNKVectorEnv(9, opponent=ByAct(in_kernels.game), **settings)
    rng = np.random.default_rng(0)
    assert_same(in_kernels.reset(seed=0), by_act.reset(seed=0))
    for _ in range(100):
        actions = rng.integers(0, in_kernels.single_action_space.n, 9)
        assert_same(in_kernels.step(actions), by_act.step(actions))


def test_replies_do_not_depend_on_batch_size():
    """Also not for an opponent that is not pure: game 2 of five is game 0 of those with seeds from 2."""
    some, one = (MNKVectorEnv(count, opponent=Impure(), skip_chance=0.25, size=4) for count in (5, 1))
    some.reset(seed=0)
    one.reset(seed=2)
    rng = np.random.default_rng(0)
    for _ in range(60):
        actions = rng.integers(0, 16, 5)
        shown, alone = some.step(actions), one.step(actions[2:3])
        for several, single in zip(shown[:4], alone[:4], strict=True):
            assert_array_equal(several[2:3], single)


@pytest.mark.parametrize("observation", ["flat", "planes", "channels", "dict"])
def test_arrays_are_fresh_in_every_observation(observation):
    env = MNKVectorEnv(4, observation=observation, symmetry="random")
    shown = [env.reset(seed=0)[0], *(env.step(np.full(4, step % 9))[0] for step in range(30))]
    arrays = [array for one in shown for array in (one.values() if observation == "dict" else [one])]
    for index, array in enumerate(arrays):
        assert not any(np.shares_memory(array, other) for other in arrays[:index])


# ---------------------------------------------------------------------------------------------------------------------
# Games lost before the first move, and rates


def lost_before_the_first_move():
    """The exact chance that a random first player wins while all other turns are skipped at .25, on 3 x 3."""
    lines = list(map(set, plain.all_lines(Game())))

    def has_line(stones):
        sets = [set(cells) for cells in combinations(range(9), stones)]
        return sum(any(line <= cells for line in lines) for cells in sets) / len(sets)

    return sum(0.25 ** (stones - 1) * (has_line(stones) - has_line(stones - 1)) for stones in range(3, 10))


def rates_of_random_play(each, seed, count=4096):
    """The uniform player in the second seat against `random`: how often it wins, and loses before its first move.

    Every slot plays `each` whole games, so that no game is left out for being long.
    """
    env = MNKVectorEnv(count, skip_chance=0.25, seat="second", autoreset_mode=AutoresetMode.SAME_STEP)
    rng = np.random.default_rng(seed)
    played, won, lost_at_once = np.zeros(count, int), 0, 0
    _, info = env.reset(seed=seed)
    fresh = np.ones(count, bool)
    while (counting := played < each).any():
        lost_at_once += (counting & fresh & (info["result"] == 0)).sum()
        legal = rng.random((count, 9), np.float32) * info["action_mask"]
        _, rewards, over, _, info = env.step(legal.argmax(axis=1))
        won += (counting & over & (rewards == 1)).sum()
        played += counting & over
        fresh = over
    return won / (each * count), lost_at_once / (each * count), each * count


def test_random_in_the_second_seat_wins_at_its_known_rate():
    """Over a million games, those lost before the first move included."""
    won, lost_at_once, games = rates_of_random_play(245, seed=1)
    assert games > 10**6
    assert abs(won - 0.334085) < 4 * (0.334085 * (1 - 0.334085) / games) ** 0.5
    chance = lost_before_the_first_move()
    assert chance == pytest.approx(0.012, abs=5e-4)
    assert abs(lost_at_once - chance) < 4 * (chance * (1 - chance) / games) ** 0.5


# ---------------------------------------------------------------------------------------------------------------------
# Arguments


def test_autoreset_modes_are_accepted_by_value():
    for mode in MODES:
        assert MNKVectorEnv(2, autoreset_mode=mode.value).metadata["autoreset_mode"] is mode
    env = MNKVectorEnv(2)
    MNKVectorEnv(2, autoreset_mode=AutoresetMode.DISABLED)
    assert env.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP  # of the instance, not of the class


@pytest.mark.parametrize(
    ("actions", "error", "message"),
    [
        (np.zeros(2, int), ValueError, r"actions of shape \(2,\) do not fit 3 games: give one for each game"),
        (np.zeros((3, 1), int), ValueError, r"actions of shape \(3, 1\) do not fit 3 games"),
        (0, ValueError, r"actions of shape \(\) do not fit 3 games"),
        (
            np.zeros(3),
            TypeError,
            "actions of type float64 are no whole numbers: an action is the index of a cell, 0 to 8",
        ),
        (np.zeros(3, bool), TypeError, "actions of type bool are no whole numbers"),
        (["a", "b", "c"], TypeError, "are no whole numbers"),
        (None, TypeError, "actions of type object are no whole numbers"),
        ([0, 9, 0], ValueError, "game 1: action 9 is no cell of a board of 3 x 3: choose 0 to 8"),
        ([0, 0, -1], ValueError, "game 2: action -1 is no cell of a board of 3 x 3"),
    ],
)
@pytest.mark.parametrize("illegal_action", ["lose", "raise"])
def test_invalid_actions_are_rejected(actions, error, message, illegal_action):
    env = MNKVectorEnv(3, illegal_action=illegal_action)
    env.reset(seed=0)
    before = env.clone_state(include_rng=True)
    with pytest.raises(error, match=message):
        env.step(actions)
    for name, array in env.clone_state(include_rng=True).items():
        assert_array_equal(array, before[name])
    env.step([0, 1, 2])


def test_illegal_actions_raise_and_change_no_game():
    env = MNKVectorEnv(3, illegal_action="raise", opponent=Leftmost())
    env.reset(seed=0)
    env.step([8, 8, 8])
    before = env.clone_state(include_rng=True)
    with pytest.raises(ValueError, match="game 1: action 8 is illegal, the cell holds a stone: choose an empty one"):
        env.step([7, 8, 7])
    for name, array in env.clone_state(include_rng=True).items():
        assert_array_equal(array, before[name])


@pytest.mark.parametrize("rules", [{}, {"misere": True}, {"size": 8}], ids=str)
def test_an_illegal_action_raises_but_is_ignored_where_a_game_begins(rules):
    env = MNKVectorEnv(1, illegal_action="raise", opponent="self", max_episode_steps=2, **rules)
    env.reset()
    env.step([8])
    with pytest.raises(ValueError, match=r"^action 8 is illegal"):  # there is no other game to tell it from
        env.step([8])
    assert env.step([7])[3].all()  # truncated
    assert not env.step([8])[0].any()


def test_games_begin_with_reset():
    env = MNKVectorEnv(2, opponent="self", autoreset_mode=AutoresetMode.DISABLED)
    with pytest.raises(ResetNeeded, match=r"no game has begun: call reset\(\) before step\(\)"):
        env.step([0, 0])
    with pytest.raises(ResetNeeded, match=r"call reset\(\) for all games before resetting some"):
        env.reset(options={"reset_mask": np.array([True, False])})
    env.reset(seed=0)
    for actions in ([0, 0], [3, 1], [1, 2], [4, 3], [2, 4]):
        env.step(actions)
    with pytest.raises(ResetNeeded, match=r"game 0 is over: call reset\(options=\{'reset_mask': mask\}\)"):
        env.step([5, 5])
    env.reset(options={"reset_mask": np.array([True, False])})
    observation, *_ = env.step([8, 8])
    assert observation.sum(axis=1).tolist() == [1, 6]


@pytest.mark.parametrize(
    ("mask", "error", "message"),
    [
        (np.zeros(2, bool), ValueError, r"options\['reset_mask'\] names no game: set at least one entry to True"),
        (np.ones(3, bool), TypeError, r"options\['reset_mask'\] must be bool\[2\], True for each game to reset"),
        (np.ones(2), TypeError, r"must be bool\[2\], True for each game to reset, but is float64\[2\]"),
        ([True, False], TypeError, r"must be bool\[2\].* but is list\[2\]"),
    ],
)
def test_invalid_reset_masks_are_rejected(mask, error, message):
    env = MNKVectorEnv(2, autoreset_mode=AutoresetMode.DISABLED)
    env.reset(seed=0)
    with pytest.raises(error, match=message):
        env.reset(options={"reset_mask": mask})


def test_seeds_are_one_number_or_one_for_each_game():
    env = MNKVectorEnv(3, seat="second")

    def boards(**arguments):
        return env.reset(**arguments)[0].tolist()

    assert boards(seed=7) == boards(seed=np.int64(7)) == boards(seed=[7, 8, 9])
    assert boards(seed=[9, 8, 7]) == boards(seed=[7, 8, 9])[::-1]
    with pytest.raises(ValueError, match="2 seeds do not fit 3 games: give one number, or one for each game"):
        env.reset(seed=[1, 2])
    env.reset(seed=7)
    assert env.np_random_seed == 7


@pytest.mark.parametrize("opponent", ["random", "win-or-block", "self"])
@pytest.mark.parametrize("skip_chance", [0, 0.25])
def test_reset_options_apply_to_all_games(opponent, skip_chance):
    """As in Gymnasium's vector, which hands the options on."""
    settings = {"opponent": opponent, "skip_chance": skip_chance}
    seat = {} if opponent == "self" else {"seat": 1}
    mode = AutoresetMode.DISABLED
    ours = MNKVectorEnv(5, autoreset_mode=mode, **settings)
    theirs = SyncVectorEnv([lambda: SingleEnv(**settings)] * 5, autoreset_mode=mode)
    rng = np.random.default_rng(0)
    over = np.ones(5, bool)
    for episode in range(20):
        some = over
        options = {"position": ("o../.x./..o x", "o../.x./... o", ".../.../... o")[episode % 3]}
        seed = 3 if episode == 0 else None
        shown = ours.reset(seed=seed, options={**options, **seat, "reset_mask": some.copy()})
        assert_same(shown, theirs.reset(seed=seed, options={**options, **seat, "reset_mask": some.copy()}))
        over = np.zeros(5, bool)
        while not over.any():
            actions = (rng.random((5, 9)) * ours.action_masks()).argmax(axis=1)
            shown = ours.step(actions)
            assert_same(shown, theirs.step(actions))
            over = shown[2] | shown[3]
    with pytest.raises(ValueError, match=r"options\['unknown'\] is not known: choose 'position' or 'seat'"):
        ours.reset(options={"unknown": 1})


def test_make_vec_passes_the_time_limit():
    made = {
        mode: gymnasium.make_vec("ttt/TicTacToe-v0", 3, vectorization_mode=mode, max_episode_steps=2, opponent="self")
        for mode in ("vector_entry_point", "sync")
    }
    ours, theirs = made.values()
    assert isinstance(ours, MNKVectorEnv)
    kwargs = [dict(env.spec.kwargs) for env in (ours, theirs)]
    assert [kwarg.pop("vectorization_mode") for kwarg in kwargs] == list(made)
    assert kwargs[0] == kwargs[1]
    assert kwargs[0]["max_episode_steps"] == 2
    for env in (*made.values(), gymnasium.make_vec(ours.spec)):
        assert env.spec.id == "ttt/TicTacToe-v0"
        env.reset(seed=0)
        assert not env.step(np.zeros(3, int))[3].any()
        assert env.step(np.ones(3, int))[3].all()
    unlimited = gymnasium.make_vec("ttt/TicTacToe-v0", 3, max_episode_steps=-1)
    unlimited.reset(seed=0)
    assert not any(unlimited.step(np.argmax(unlimited.action_masks(), axis=1))[3].any() for _ in range(20))


def test_states_store_the_steps_of_limited_games():
    env = MNKVectorEnv(2, opponent="self", max_episode_steps=3)
    env.reset(seed=0)
    env.step([0, 0])
    state = env.clone_state(include_rng=True)
    cut = [env.step([action] * 2)[3].all() for action in (1, 2)]
    env.restore_state(state)
    assert [env.step([action] * 2)[3].all() for action in (1, 2)] == cut == [False, True]


def test_a_state_fits_its_number_of_games():
    env = MNKVectorEnv(4)
    env.reset(seed=0)
    with pytest.raises(ValueError, match="a state of 4 games does not fit 3"):
        MNKVectorEnv(3).restore_state(env.clone_state(include_rng=True))


# ---------------------------------------------------------------------------------------------------------------------
# Memory


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
@pytest.mark.parametrize("settings", [{"dtype": "int8"}, {"dtype": "float32"}, {"observation": "dict"}])
def test_without_copies_results_are_the_same_in_the_same_memory(settings, mode):
    settings = {"skip_chance": 0.25, "opponent": "win-or-block", "autoreset_mode": mode, **settings}
    copying, reusing = MNKVectorEnv(6, **settings), MNKVectorEnv(6, copy=False, **settings)
    assert_same(reusing.reset(seed=3), copying.reset(seed=3))
    rng = np.random.default_rng(0)
    rewards, ends, masks = [], 0, []
    for _ in range(30):
        actions = rng.integers(0, 9, 6)
        expected, got = copying.step(actions), reusing.step(actions)
        assert_same(got, expected)
        rewards.append((got[1], expected[1]))
        masks.append(got[4]["action_mask"])
        ends += int(expected[2].sum())
    assert ends > 6
    for kept, expected in rewards:  # rewards of earlier steps stay
        assert_array_equal(kept, expected)
    shared = [np.shares_memory(mask, masks[0]) for mask in masks]
    assert all(shared) if mode is AutoresetMode.NEXT_STEP else any(shared[1:])


def test_without_copies_int8_observations_are_the_memory_of_the_last_step():
    env = gymnasium.make_vec("ttt/TicTacToe-v0", num_envs=4, dtype="int8", copy=False)
    env.reset(seed=0)
    first, second = env.step(np.arange(4))[0], env.step(np.arange(4, 8))[0]
    assert first.ctypes.data == second.ctypes.data


def test_copy_is_true_or_false():
    with pytest.raises(ValueError, match="copy='no' is not known: choose True, False"):
        MNKVectorEnv(2, copy="no")
