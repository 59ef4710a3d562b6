"""Properties of all environments: seeds, skips, views, states, copies, fresh arrays and errors of arguments."""

import copy
import json
import pickle
from itertools import combinations

import gymnasium
import numpy as np
import plain
import pytest
from environment_contract import AEC, DRAWN, DRAWN_AGAINST, KINDS, OPENINGS, SEVERAL, Row, Single, play, same_copy
from gymnasium.utils.env_checker import data_equivalence
from players import Scripted

from ttt_envs import mnk_v0
from ttt_envs.envs.registration import PRESETS
from ttt_envs.envs.single_env import SingleEnv
from ttt_envs.envs.vector_env import MNKVectorEnv

SKIPPING = {"size": 4, "skip_chance": 0.5}
# opponents, whether they are played in kernels or by policies, seats and boards larger than 63 cells
AGAINST_OPPONENTS = [
    {"opponent": "random", "seat": "random"},
    {"opponent": "win-or-block", "seat": "second"},
    {"opponent": "random", "size": (8, 9), "seat": "alternate"},
    {"opponent": "random", "gravity": True, "seat": "random"},
    {"opponent": "win-or-block", "torus": True, "seat": "second"},
]
HIDDEN = [{"phantom": rule, "skip_chance": 0.2, "symmetry": "random"} for rule in ("classic", "abrupt")]
VARIANTS = [
    {"gravity": True},
    {"gravity": True, "symmetry": "random", "overlines": False},
    {"misere": True, "torus": True},
]


@pytest.fixture(params=KINDS.values(), ids=KINDS)
def kind(request):
    return request.param


@pytest.fixture(
    params=[
        *((kind, SKIPPING | {"symmetry": symmetry}) for kind in KINDS.values() for symmetry in ("none", "random")),
        *((kind, SKIPPING | settings) for kind in (Single, Row) for settings in AGAINST_OPPONENTS),
        *((kind, SKIPPING | settings) for kind in KINDS.values() for settings in VARIANTS),
        *((kind, settings) for kind in KINDS.values() for settings in [*DRAWN, *HIDDEN]),
        *((kind, settings) for kind in (Single, Row) for settings in DRAWN_AGAINST),
    ],
    ids=lambda param: f"{param[0].__name__} {param[1]}",
)
def make(request):
    """Make an environment with these settings, in the middle of its sixth game; and what it shows."""
    kind, settings = request.param

    def make(seed=3):
        game = kind(**settings)
        play(game, game.reset(seed), np.random.default_rng(1), 5)
        shown = game.reset()
        for _ in range(2 if "phantom" in settings else 1):  # the second finds the first stone
            shown = game.step(int(np.argmax(shown[1])))
        return game, shown

    return make


# ---------------------------------------------------------------------------------------------------------------------
# Games


@pytest.mark.parametrize(
    ("settings", "episodes"),
    [
        *(
            ({"size": size, "skip_chance": 0.4, "symmetry": symmetry}, 30)
            for size in (3, (4, 6), (8, 9))
            for symmetry in ("none", "random")
        ),
        *((settings, 30) for settings in DRAWN),
        *(
            ({"size": size, "win_length": 4, "skip_chance": 0.4, "symmetry": "random", **rules}, 4)
            for size in ((4, 5), (8, 9))
            for rules in plain.COMBINATIONS
        ),
    ],
    ids=str,
)
def test_the_same_seed_and_moves_are_the_same_game_in_all_environments(settings, episodes):
    traces = []
    for kind in KINDS.values():
        game = kind(**settings)
        traces.append(play(game, game.reset(seed=7), np.random.default_rng(0), episodes))
    assert traces[0] == traces[1] == traces[2]


def test_seeds_determine_all_episodes(kind):
    def games(game, *seed):
        return play(game, game.reset(*seed), np.random.default_rng(0))

    game = kind(**SKIPPING)
    first = games(game, 5)
    assert games(game) != first  # the next episodes
    assert games(game, 5) == first
    assert games(kind(**SKIPPING), 6) != first
    assert games(kind(**SKIPPING)) != games(kind(**SKIPPING))  # unseeded


def test_the_first_turn_is_never_skipped(kind):
    game = kind(skip_chance=0.9)
    assert {game.reset(seed)[-1]["mover"] for seed in range(20)} == {0}


def test_a_random_symmetry_is_a_view_in_which_actions_are_cells(kind):
    views = set()
    for seed in range(40):
        game = kind(size=(2, 3), win_length=2, symmetry="random")
        game.reset(seed=seed)
        game.step(1)
        stones, mask, *_ = game.step(0)
        assert stones == [[0, 1, 0, 0, 0, 0], [1, 0, 0, 0, 0, 0]]
        assert mask == [0, 0, 1, 1, 1, 1]
        [outcome] = game.chance_outcomes(2)
        views.add(tuple(outcome.position.cells.tolist()))
        assert outcome.winner == 0  # 1 and 2 are neighbours in every view
    assert len(views) == 4


def test_arrays_are_fresh(kind):
    game = kind(symmetry="random")
    mask = game.reset(seed=0)[1]
    arrays, rng = game.arrays(), np.random.default_rng(0)
    copies = [array.copy() for array in arrays]
    for _ in range(4):
        mask = game.step(int(rng.choice(np.flatnonzero(mask))))[1]
        arrays += game.arrays()
        copies += [array.copy() for array in game.arrays()]
    for array, before in zip(arrays, copies, strict=True):
        np.testing.assert_array_equal(array, before)
    assert not any(np.shares_memory(*pair) for pair in combinations(arrays, 2))


@pytest.mark.parametrize(
    "settings",
    [{}, {"opponent": "random"}, {"opponent": "random", "seat": "second"}, {"illegal_action": "penalize"}, None],
    ids=str,
)
def test_infos_have_one_structure_at_every_step(settings):
    game = AEC(skip_chance=0.25) if settings is None else Single(skip_chance=0.25, **settings)
    rng, kinds, winners = np.random.default_rng(0), set(), set()
    for episode in range(60):
        _, mask, _, info = game.reset(0 if episode == 0 else None)
        while True:
            infos = {} if settings is not None else game.env.infos
            for name, info in infos.items():
                is_mover = info["result"] == -1 and info["mover"] == info["seat"]
                assert is_mover == game.env.observe(name)["action_mask"].any()
                assert name == f"player_{info['seat']}"
                assert {type(game.env.terminations[name]), type(game.env.truncations[name])} == {bool}
            for info in infos.values() or [game.info]:
                kinds.add(tuple((name, type(value)) for name, value in info.items()))
                numbers = {name: value for name, value in info.items() if name != "action_mask"}
                assert json.loads(json.dumps(numbers)) == numbers
            winners.add((info["result"], info["winner"]))
            if game.env.terminations["player_0"] if settings is None else info["result"] != -1:
                break
            legal = np.flatnonzero(mask)
            _, mask, _, info = game.step(int(rng.choice(legal) if rng.random() < 0.8 else rng.integers(9)))
    [structure] = kinds
    masks = {} if settings is None else {"action_mask": np.ndarray}  # no texts, which TorchRL cannot convert
    assert dict(structure) == {**masks, **dict.fromkeys(("seat", "mover", "result", "winner"), int)}
    known = {(-1, -1), (0, 0), (1, 1), (2, -1), (3, 1), (4, 0), (5, -1)}
    assert {(-1, -1), (0, 0), (1, 1)} <= winners <= known


# ---------------------------------------------------------------------------------------------------------------------
# States and copies


def test_a_state_with_its_generator_determines_the_future(make):
    game, shown = make()
    state = game.env.clone_state(include_rng=True)
    stored = pickle.dumps(state)
    first = play(game, shown, np.random.default_rng(0), episodes=10)
    assert pickle.dumps(state) == stored  # a copy
    for other in (game, make(8)[0]):
        assert play(other, other.restore(state), np.random.default_rng(0), episodes=10)[1:] == first[1:]
    assert pickle.dumps(state) == stored


def test_a_state_without_its_generator_needs_a_seed(make):
    game, _ = make()
    state = game.env.clone_state()
    assert not any(word in name for name in state for word in ("key", "episode"))
    with pytest.raises(ValueError, match=r"cloned without its generator: use restore_state\(state, seed="):
        game.env.restore_state(state)
    futures = [play(game, game.restore(state, seed=seed), np.random.default_rng(0), 6) for seed in (1, 1, 2)]
    assert futures[0] == futures[1] != futures[2]
    for name in [name for name in state if "skip_chance" in name]:  # it is that of the episode, which goes on
        row = 1 if isinstance(game, Row) else 0
        for seed in range(8):
            shown = game.restore(state, seed=seed)
            game.step(int(np.argmax(shown[1])))
            assert np.ravel(game.env.clone_state()[name])[row] == np.ravel(state[name])[row]


@pytest.mark.parametrize(
    ("settings", "others", "message"),
    [
        ({}, {"size": 4}, "3 x 3, 3 to win cannot be restored in the game 4 x 4, 3 to win:"),
        ({}, {"skip_chance": 0.5}, r"3 x 3, 3 to win cannot be restored in the game 3 x 3, 3 to win, skip 0\.5:"),
        (SEVERAL, {}, r"3 x 3, 3 to win or 3 x 3, 3 to win, skip 0\.5 cannot be restored in the game 3 x 3, 3"),
    ],
    ids=str,
)
def test_a_state_fits_its_game_only(kind, settings, others, message):
    game = kind(**settings)
    game.reset()
    with pytest.raises(ValueError, match=f"a state of the game {message}"):
        kind(**others).env.restore_state(game.env.clone_state(), seed=0)


@pytest.mark.parametrize("copies", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))], ids=["deep", "pickle"])
def test_a_copy_plays_on_as_the_original_and_shares_nothing(make, copies):
    game, shown = make()
    before = pickle.dumps(game.env.clone_state(include_rng=True))
    alone = play(same_copy(copies, game), shown, np.random.default_rng(0), episodes=5)
    assert pickle.dumps(game.env.clone_state(include_rng=True)) == before
    assert play(game, shown, np.random.default_rng(0), episodes=5) == alone


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_environments_made_by_id_are_pickled(name):
    env = gymnasium.make(name)
    twin = pickle.loads(pickle.dumps(env))
    assert data_equivalence(env.reset(seed=3), twin.reset(seed=3))
    action = env.action_space.sample()
    assert data_equivalence(env.step(action), twin.step(action))
    twin = pickle.loads(pickle.dumps(mnk_v0.env(size=4, render_mode="ansi")))  # not reset yet
    twin.reset(seed=1)
    assert twin.render_mode == "ansi"
    assert twin.observe("player_0")["action_mask"].sum() == 16


def test_chance_outcomes_do_not_move(kind):
    game = kind(skip_chance=0.25)
    game.reset(seed=0)
    mover = game.step(0)[-1]["mover"]
    before = pickle.dumps(game.env.clone_state(include_rng=True))
    outcomes = game.chance_outcomes(4)
    assert [(outcome.probability, outcome.position.mover) for outcome in outcomes] == [(0.75, 1 - mover), (0.25, mover)]
    assert all(outcome.position.cells.tolist() == [1, 0, 0, 0, mover + 1, 0, 0, 0, 0] for outcome in outcomes)
    for outcome in outcomes:
        outcome.position.cells[:] = 1
    assert pickle.dumps(game.env.clone_state(include_rng=True)) == before
    with pytest.raises(ValueError, match="action 0 is illegal, the cell holds a stone"):
        game.chance_outcomes(0)


# ---------------------------------------------------------------------------------------------------------------------
# Arguments

ANY = (mnk_v0.env, SingleEnv, MNKVectorEnv)
AGAINST = (SingleEnv, MNKVectorEnv)


@pytest.mark.parametrize(
    ("makers", "settings", "error", "message"),
    [
        (ANY, {"size": 20}, ValueError, "rows=20 is not the edge of a board: choose 1 to 19 rows"),
        (ANY, {"size": "3"}, TypeError, "size='3' is not a board: write size=3"),
        (ANY, {"win_length": 4}, ValueError, "win_length=4 does not fit a board of 3 x 3: choose 1 to 3"),
        (ANY, {"skip_chance": 1}, ValueError, "skip_chance=1 is not a probability below 1"),
        (ANY, {"symmetry": "all"}, ValueError, "symmetry='all' is not known: choose 'none', 'random'"),
        (ANY, {"symmetry": True}, ValueError, "symmetry=True is not known"),
        (ANY, {"render_mode": "text"}, ValueError, "render_mode='text' is not known: choose None, 'ansi', 'rgb_array'"),
        ((mnk_v0.env,), {"opponent": "random"}, TypeError, "unexpected keyword argument 'opponent'"),
        (AGAINST, {"opponent": "randm"}, ValueError, "there is no policy 'randm': did you mean 'random'"),
        (AGAINST, {"opponent": "random:"}, ValueError, "'random:' is no policy: write name"),
        (AGAINST, {"opponent": None}, TypeError, "None is neither a function"),
        (AGAINST, {"seat": 1}, ValueError, "seat=1 is not known: choose 'first', 'second', 'random', 'alternate'"),
        (AGAINST, {"observation": "image"}, ValueError, "is not known: choose 'flat', 'planes', 'channels', 'dict'"),
        (AGAINST, {"dtype": np.int8}, ValueError, "dtype=<class 'numpy.int8'> is not known: choose 'int8', 'float32'"),
        (AGAINST, {"illegal_action": "ignore"}, ValueError, "is not known: choose 'lose', 'penalize', 'raise'"),
        (ANY, {"skip_chance": ()}, ValueError, r"skip_chance=\(\) must have two or more different values"),
        (ANY, {"skip_chance": (0.25,)}, ValueError, "must have two or more different values"),
        (ANY, {"skip_chance": (0, 0)}, ValueError, r"skip_chance=\(0, 0\) must have two or more different values"),
        (ANY, {"skip_chance": (0, 1)}, ValueError, "skip_chance=1 is not a probability below 1"),
        (ANY, {"skip_chance": (0, "0.5")}, TypeError, "skip_chance='0.5' is not a number"),
        (ANY, {"skip_chance": ((0, 0.5), 0.1)}, TypeError, r"skip_chance=\(0, 0.5\) is not a number"),
        (ANY, {"skip_chance": {0, 0.5}}, TypeError, "is not a number: write for example skip_chance=0.25"),
        (ANY, {"observe_skip_chance": "yes"}, ValueError, "observe_skip_chance='yes' is not known: choose False, True"),
        (ANY, {"openings": "o../.../... x"}, TypeError, r"is no list of positions: write openings=\['o../.../... x'\]"),
        (ANY, {"openings": []}, ValueError, r"openings=\[\] leaves nothing to begin with"),
        (ANY, {"openings": [3]}, TypeError, "the opening 3 is no text"),
        (ANY, {"openings": ["oxo"]}, ValueError, "'oxo' is not a position"),
        (ANY, {"openings": ["ooo/xx./... x"]}, ValueError, "the opening 'ooo/xx./... x' is over"),
        (ANY, {"openings": ["oo./.../... x"], "skip_chance": (0.5, 0)}, ValueError, "comes from no game without skips"),
        (
            ANY,
            {"first_player": "player_1"},
            ValueError,
            "first_player='player_1' is not known: choose 'player_0', 'random'",
        ),
        (
            ANY,
            {"first_player": "random", "openings": OPENINGS},
            ValueError,
            "openings name their mover: omit one of them",
        ),
        (AGAINST, {"observe_skip_chance": True, "dtype": "int8"}, ValueError, "dtype='float32'"),
        (AGAINST, {"opponent": []}, ValueError, r"starts \[\] of a schedule of opponents must increase from 0: write"),
        (AGAINST, {"opponent": ["random", ("optimal", 9)]}, TypeError, "the entry 'random' of a schedule is no pair"),
        (
            AGAINST,
            {"opponent": [("random", 0), ("optimal", 2.5)]},
            TypeError,
            r"\('optimal', 2.5\) of a schedule is no",
        ),
        (AGAINST, {"opponent": [("random", 0), (Scripted(), 9), ("random", 9)]}, ValueError, "must increase from 0"),
        (AGAINST, {"opponent": [("self", 0), ("random", 5)]}, ValueError, "a schedule of opponents cannot hold 'self'"),
        (AGAINST, {"opponent": [("randm", 0), ("random", 5)]}, ValueError, "there is no policy 'randm'"),
        ((MNKVectorEnv,), {"render_mode": "human"}, ValueError, "render_mode='human' is not known"),
        ((MNKVectorEnv,), {"num_envs": 0}, ValueError, "num_envs=0 leaves nothing to play: choose 1 or more"),
        ((MNKVectorEnv,), {"num_envs": 2.0}, TypeError, "num_envs=2.0 is not a whole number: write for example"),
        ((MNKVectorEnv,), {"num_envs": True}, TypeError, "num_envs=True is not a whole number"),
        ((MNKVectorEnv,), {"autoreset_mode": "next"}, ValueError, "is not known: choose AutoresetMode NEXT_STEP, SAME"),
        ((MNKVectorEnv,), {"autoreset_mode": None}, ValueError, "autoreset_mode=None is not known"),
        ((MNKVectorEnv,), {"max_episode_steps": 0}, ValueError, "max_episode_steps=0 leaves nothing to play"),
        ((MNKVectorEnv,), {"max_episode_steps": 2.0}, TypeError, "max_episode_steps=2.0 is not a whole number"),
        ((MNKVectorEnv,), {"max_episode_steps": True}, TypeError, "max_episode_steps=True is not a whole number"),
    ],
)
def test_invalid_arguments_are_rejected(makers, settings, error, message):
    for make in makers:
        with pytest.raises(error, match=message):
            make(**settings)
