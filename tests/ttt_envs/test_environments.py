"""What all environments promise: games of the rules, seeds, views, states, copies, fresh arrays and
refusals.
"""

import copy
import pickle
from itertools import combinations, permutations

import gymnasium
import numpy as np
import plain
import pytest
from environment_contract import KINDS, OPENINGS, SCHEDULE, SEATS, SEVERAL, Referee
from gymnasium.error import ResetNeeded
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from plain_games import ENGINES
from players import Impure, Scripted

from ttt_envs import mnk_v0
from ttt_envs.envs import engine
from ttt_envs.envs.single_env import SingleEnv
from ttt_envs.envs.vector_env import MNKVectorEnv
from ttt_envs.text.text_env import TextEnv

BOTH = ("aec", "single", "vector")
every_kind = pytest.mark.parametrize("kind", BOTH)


@st.composite
def any_settings(draw, kind):
    """Any rules and views of an environment, and where it has them an opponent, a seat and
    penalties.
    """
    size = draw(
        st.sampled_from([(3, 3), (2, 3), (4, 3), (4, 5), (3, 7), (8, 9)])
    )  # the last has no bits
    # by default that of the size
    chosen = {"size": size, "win_length": draw(st.none() | st.integers(2, min(4, max(size))))}
    chosen["skip_chance"] = draw(
        st.sampled_from([0.0, 0.25, 0.6] if kind == "text" else [0.0, 0.25, 0.6, (0, 0.5)])
    )
    phantom = draw(st.sampled_from([None, None, "classic", "abrupt"])) if kind != "text" else None
    rules = draw(st.sampled_from([{}, {"misere": True}] if phantom else [{}, *plain.COMBINATIONS]))
    if phantom:
        chosen["phantom"] = phantom
    if kind != "text":
        chosen["symmetry"] = draw(st.sampled_from(["none", "random"]))
        chosen["first_player"] = draw(st.sampled_from(["player_0", "random"]))
        if size == (3, 3) and not rules and draw(st.booleans()):
            chosen |= {"openings": OPENINGS, "first_player": "player_0", "skip_chance": 0.25}
    if kind != "aec" and draw(st.booleans()):
        others = [Scripted(), Impure()] if phantom or not rules.get("gravity") else []
        others += [[("random", 0), (player, 5)] for player in others] if kind != "text" else []
        named = ["random"] if phantom else ["random", "win-or-block"]
        chosen["opponent"] = draw(st.sampled_from([*named, *others]))
        chosen["seat"] = draw(
            st.sampled_from(SEATS if kind != "text" else ("first", "second", "alternate"))
        )
    if kind in ("single", "vector"):
        chosen["illegal_action"] = draw(st.sampled_from(["lose", "penalize"]))
    return chosen | rules


def check_outcomes(env, referee, action):
    """The successors of an action are those of the rules, on the board itself."""
    outcomes = env.chance_outcomes(action)
    results = [
        (p, position.cells.tolist(), position.mover, winner) for p, position, winner in outcomes
    ]
    assert [row[1:] for row in results] == [row[1:] for row in referee.outcomes(action)]
    assert [row[0] for row in results] == pytest.approx(
        [row[0] for row in referee.outcomes(action)]
    )


def compare(env, referee, kind, rng, seed, episodes, illegal):
    """Play random games, some actions illegal, in an environment and by the referee."""
    for episode in range(episodes):
        report = env.reset(seed if episode == 0 else None)
        assert report == referee.reset(seed if episode == 0 else None)
        is_over = False
        while not is_over:
            mask = np.array(report[2])
            action = int(rng.choice(np.flatnonzero(mask)))
            if rng.random() < illegal and not mask.all():
                action = int(np.flatnonzero(mask == 0)[0])
            elif kind in BOTH and referee.kind is None and referee.result == -1:
                check_outcomes(env, referee, action)
            report = env.step(action)
            assert report == referee.step(action)
            is_over = report[4]
            if kind == "aec":
                assert [env.view(player) for player in (0, 1)] == [
                    referee.view(player) for player in (0, 1)
                ]


SEATED = [{"opponent": "win-or-block", "seat": seat, "skip_chance": 0.25} for seat in SEATS]
VIEWED = [
    *(
        {"phantom": rule, "skip_chance": (0, 0.5), "symmetry": "random"}
        for rule in ("classic", "abrupt")
    ),
    {"size": (8, 9), "win_length": 3, "skip_chance": 0.25, "gravity": True, "symmetry": "random"},
    {"openings": OPENINGS, "skip_chance": 0.25},
]
"""settings that are played whatever is drawn"""


@pytest.mark.parametrize("games", ENGINES)
@pytest.mark.parametrize("kind", KINDS)
def test_games_are_those_of_the_reference(kind, games, monkeypatch):
    """Stones, masks, rewards, ends and infos, with every rule and view, and with opponents in every
    seat, over either engine.
    """
    monkeypatch.setattr(engine, "KernelGames", games)

    @settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow])
    @given(any_settings(kind), st.integers(1, 10**6))
    def check(chosen, seed):
        illegal = 0.1 * ("illegal_action" in chosen)
        compare(
            KINDS[kind](**chosen),
            Referee(**chosen),
            kind,
            np.random.default_rng(seed),
            seed,
            4,
            illegal,
        )

    for chosen in {"aec": VIEWED, "text": [row for row in SEATED if row["seat"] != "random"]}.get(
        kind, SEATED + VIEWED
    ):
        compare(KINDS[kind](**chosen), Referee(**chosen), kind, np.random.default_rng(0), 5, 8, 0)
    check()


@every_kind
def test_games_without_a_seed_differ(kind):
    """Those of a seed are the referee's."""
    envs = [KINDS[kind](size=4, skip_chance=0.5, symmetry="random") for _ in range(2)]
    first, second = (play_on(env, env.reset()) for env in envs)
    assert first != second


def test_opponents_know_the_skip_chance_of_the_episode():
    """Functions see it, and policies named by specs are of its game."""
    observed = set()
    drawn = set()

    def opponent(observation, mask):
        observed.add(float(observation[-1]))
        return int(np.flatnonzero(mask)[0])

    env = SingleEnv(opponent=opponent, seat="second", **SEVERAL)
    for episode in range(10):
        drawn.add(env.reset(seed=episode)[1]["skip_chance"])
    assert observed == drawn == {0, 0.5}
    [[policy, other]] = SingleEnv(opponent="optimal", **SEVERAL).config.opponents
    assert (policy.game.skip_chance, other.game.skip_chance) == (0, 0.5)


# --------------------------------------------------------------------------------------------------
# Observations and infos


@pytest.mark.parametrize("skip_chance", [0.1, (0, 0.5)])
@pytest.mark.parametrize("dtype", ["int8", "float32"])
@pytest.mark.parametrize("observation", ["flat", "planes", "channels", "dict"])
def test_observations_are_the_planes_in_every_form(observation, dtype, skip_chance):
    """In their space, in new arrays, and with the skip chance where it is shown; test_vector_env.py
    has many games.
    """
    shows = dtype == "float32" or observation == "dict"
    chosen = {
        "size": (3, 4),
        "observation": observation,
        "dtype": dtype,
        "skip_chance": skip_chance,
    }
    env = SingleEnv(opponent="self", observe_skip_chance=shows, **chosen)
    plain_env = SingleEnv(
        opponent="self", size=(3, 4), skip_chance=skip_chance, observation="planes", dtype="int8"
    )
    steps = [(env.reset(seed=4), plain_env.reset(seed=4))]
    arrays = []
    steps += [(env.step(action), plain_env.step(action)) for action in (5, 1, 7)]
    for (obs, *_, info), (planes, *_) in steps:
        assert env.observation_space.contains(obs)
        chance = info.get("skip_chance", skip_chance)
        board = obs["observation"] if observation == "dict" else obs
        assert board.dtype == dtype
        if observation == "flat":
            board = np.stack([board[:12], board[12:24]], axis=-1).reshape(3, 4, 2)
            assert obs[24:].tolist() == [np.float32(chance)] * shows
        elif observation == "dict":
            assert obs.get("skip_chance", np.zeros(0)).tolist() == [np.float32(chance)] * shows
        board = np.moveaxis(board, 0, -1) if observation == "channels" else board
        assert np.array_equal(board[..., :2], planes)
        assert np.all(board[..., 2:] == np.float32(chance))
        arrays += [
            *(obs.values() if observation == "dict" else [obs]),
            info["action_mask"],
            env.action_masks(),
        ]
    assert not any(np.shares_memory(*pair) for pair in combinations(arrays, 2))


# --------------------------------------------------------------------------------------------------
# States and copies


def stored(state):
    """A state as bytes, without the games, which remember what was computed of them."""
    return pickle.dumps({name: value for name, value in state.items() if name != "games"})


def play_on(env, report, episodes=4):
    """What fixed play shows from here on, with resets."""
    rng = np.random.default_rng(0)
    trace = [report]
    for _ in range(episodes):
        while not report[4] and len(trace) < 500:
            report = env.step(int(rng.choice(np.flatnonzero(report[2]))))
            trace.append(report)
        report = env.reset()
    return trace[1:]


@every_kind
def test_states_and_copies_go_on_as_the_original(kind):
    """With the generator a state determines the future, without it a seed is needed; copies share
    nothing.
    """

    @settings(max_examples=15)
    @given(any_settings(kind), st.integers(0, 10**6))
    @example(
        {"skip_chance": (0, 0.5), "opponent": SCHEDULE, "seat": "random"} if kind != "aec" else {},
        1,
    )
    def check(chosen, seed):
        env = KINDS[kind](**chosen)
        other = KINDS[kind](**chosen)
        for each, number in ((other, seed + 1), (env, seed)):
            play_on(each, each.reset(number), 2)
            report = each.step(int(np.argmax(each.reset()[2])))
        if report[4]:
            return
        report = env.restore(env.env.clone_state(), seed=seed)
        state = env.env.clone_state(include_rng=True)
        blank = env.env.clone_state()
        before = stored(state)
        twins = []
        for copied in (copy.deepcopy(env.env), pickle.loads(pickle.dumps(env.env))):
            twin = copy.copy(env)
            twin.env = copied
            twins.append(play_on(twin, report))
        assert stored(env.env.clone_state(include_rng=True)) == before
        future = play_on(env, report)
        assert twins == [future, future]
        assert play_on(other, other.restore(state)) == future
        assert stored(state) == before
        with pytest.raises(ValueError, match="seed"):
            env.env.restore_state(blank)
        again = [play_on(env, env.restore(blank, seed=number), 2) for number in (seed, seed)]
        assert again[0] == again[1]
        env.restore(blank, seed=seed)
        following = play_on(env, env.reset())
        env.reset(seed + (kind == "vector"))  # game 1 of a vector has the next seed
        assert play_on(env, env.reset()) == following  # from the second episode of the seed on

    check()


@every_kind
def test_a_state_keeps_the_skip_chance_of_the_episode_and_fits_its_game_only(kind):
    env = KINDS[kind](skip_chance=(0, 0.5))
    env.reset(3)
    state = env.env.clone_state()
    row = 1 if kind == "vector" else 0
    for seed in range(8):
        report = env.restore(state, seed=seed)
        env.step(int(np.argmax(report[2])))
        assert (
            np.ravel(env.env.clone_state()["skip_chance"])[row]
            == np.ravel(state["skip_chance"])[row]
        )
    for others in ({"size": 4}, {"skip_chance": 0.5}, {}):
        with pytest.raises(ValueError, match="cannot be restored"):
            KINDS[kind](**others).env.restore_state(state, seed=0)


@every_kind
def test_states_of_other_symmetries_or_schedules_are_refused(kind):
    two, three = ([("random", 5 * stage) for stage in range(count)] for count in (2, 3))
    makers = [{}, {"symmetry": "random"}]
    if kind != "aec":
        makers += [{"opponent": two}, {"opponent": three}]
    for rules in ({"size": (8, 9)}, {"size": 2}):
        envs = [KINDS[kind](**maker, **rules) for maker in makers]
        for env, other in permutations(envs, 2):
            env.reset(0)
            with pytest.raises(
                ValueError, match="the same symmetry and the same schedule of opponents"
            ):
                other.env.restore_state(env.env.clone_state(include_rng=True))


def test_states_count_illegal_actions_and_steps():
    env = SingleEnv(opponent="self", illegal_action="penalize")
    env.reset(seed=3)
    env.step(4)
    env.step(4)
    state = env.clone_state(include_rng=True)
    for _ in range(2):
        assert [env.step(4)[2:4] for _ in range(8)] == [(False, False)] * 7 + [(False, True)]
        env.restore_state(state)
    envs = MNKVectorEnv(2, opponent="self", max_episode_steps=3)
    envs.reset(seed=0)
    envs.step([0, 0])
    state = envs.clone_state(include_rng=True)
    for _ in range(2):
        assert [envs.step([action] * 2)[3].all() for action in (1, 2)] == [False, True]
        envs.restore_state(state)


def test_environments_made_by_id_and_not_reset_yet_are_pickled():
    for env in (
        gymnasium.make("ttt/SkipConnectFour-v0"),
        mnk_v0.env(size=4, skip_chance=0.25, render_mode="ansi"),
    ):
        twin = pickle.loads(pickle.dumps(env))
        for each in (env, twin):
            each.reset(seed=3)
            each.step(1)
        assert twin.render_mode == env.render_mode
        assert stored(twin.unwrapped.clone_state(include_rng=True)) == stored(
            env.unwrapped.clone_state(include_rng=True)
        )


# --------------------------------------------------------------------------------------------------
# Positions at the start


@pytest.mark.parametrize("games", ENGINES)
@pytest.mark.parametrize("opponent", [Scripted(), "random"], ids=["scripted", "random"])
def test_a_game_begins_in_a_position_and_seat_of_the_options(opponent, games, monkeypatch):
    """Once, in place of an opening; the opponent replies if it is not the caller's turn."""
    monkeypatch.setattr(engine, "KernelGames", games)
    env = SingleEnv(opponent=opponent, observation="planes", openings=OPENINGS)
    observation, info = env.reset(seed=0, options={"position": "x.o/.../..o x", "seat": 1})
    assert [observation[:, :, plane].ravel().nonzero()[0].tolist() for plane in (0, 1)] == [
        [0],
        [2, 8],
    ]
    assert (info["seat"], info["mover"], info["result"]) == (1, 1, -1)
    assert env.legal_actions() == [1, 3, 4, 5, 6, 7]
    observation, info = env.reset(
        options={"position": "x.o/.../..o x"}
    )  # the seat is the environment's: first
    assert (observation.sum(), info["seat"], info["mover"]) == (4, 0, 0)
    env = SingleEnv(opponent=opponent)
    env.reset(seed=0)
    assert env.reset(options={"seat": 1})[0].sum() == 1
    assert not env.reset()[0].any()


# --------------------------------------------------------------------------------------------------
# Refusals

ALL = (mnk_v0.env, SingleEnv, MNKVectorEnv)
AGAINST = (SingleEnv, MNKVectorEnv)
WRONG_VALUES = {
    (*ALL, TextEnv): {
        "size": (20, "3"),
        "win_length": (4,),
        "skip_chance": (1, (0.25,), (0, 0), (0, 1), (0, "0.5")),
        "render_mode": ("text",),
        "no_such_argument": (None,),
    },
    ALL: {
        "symmetry": ("all",),
        "observe_skip_chance": ("yes",),
        "openings": ("o../.../... x", [], [3], ["ooo/xx./... x"]),
        "first_player": ("player_1",),
        "phantom": ("dark",),
    },
    (*AGAINST, TextEnv): {"opponent": ("randm",), "seat": (1,)},
    AGAINST: {
        "opponent": (
            *(None, [], ["random", ("optimal", 9)], [("random", 0), ("optimal", 2.5)]),
            *([("random", 0), (Scripted(), 9), ("random", 9)], [("self", 0), ("random", 5)]),
        ),
        "observation": ("image",),
        "dtype": (np.int8,),
        "illegal_action": ("ignore",),
    },
    (mnk_v0.env,): {"opponent": ("random",)},
    (TextEnv,): {"skip_chance": ((0, 0.5),)},
    (MNKVectorEnv,): {
        "render_mode": ("human",),
        "num_envs": (0, 2.0),
        "autoreset_mode": ("next",),
        "max_episode_steps": (0, True),
        "copy": ("no",),
    },
}
WRONG_TOGETHER = [
    (ALL, {"openings": ["oo./.../... x"], "skip_chance": (0.5, 0)}),
    (ALL, {"openings": ["o../.../... x"], "gravity": True}),
    (ALL, {"first_player": "random", "openings": OPENINGS}),
    (ALL, {"phantom": "classic", "gravity": True}),
    (AGAINST, {"observe_skip_chance": True, "dtype": "int8"}),
]


def test_invalid_arguments_are_refused():
    alone = [
        (makers, {name: value})
        for makers, table in WRONG_VALUES.items()
        for name in table
        for value in table[name]
    ]
    for makers, chosen in alone + WRONG_TOGETHER:
        for make in makers:
            with pytest.raises((TypeError, ValueError)) as refused:
                make(**chosen)
            assert "\n" not in str(refused.value)


def check_unchanged(env, error, call):
    """A call is refused and changes nothing."""
    before = stored(env.clone_state(include_rng=True))
    with pytest.raises(error):
        call()
    assert stored(env.clone_state(include_rng=True)) == before


OVER = "ooo/xx./... x"
NOT_THEIRS = "x.o/.../..o o"
SKIPPED = "oo./.../... x"
OF_X = "x../.../... o"


@pytest.mark.parametrize(
    ("settings", "options"),
    [
        *(({}, options) for options in ({"unknown": 1}, {"seat": 2}, {"seat": True})),
        *(({}, {"position": text}) for text in (4, "..../.... o", OVER, NOT_THEIRS, SKIPPED)),
        ({"opponent": "self"}, {"seat": 0}),
        *(
            ({"skip_chance": 0.1}, {"position": text}) for text in (OF_X, ".../.../... x")
        ),  # the first stone is o's
    ],
)
def test_invalid_reset_options_are_refused_and_change_nothing(settings, options):
    for env in (SingleEnv(**settings), MNKVectorEnv(2, **settings)):
        env.reset(seed=0)
        check_unchanged(
            env, (TypeError, ValueError), lambda env=env: env.reset(seed=1, options=options)
        )


@pytest.mark.parametrize("rules", [{}, {"size": (6, 7), "gravity": True}], ids=str)
@pytest.mark.parametrize("illegal_action", ["lose", "penalize", "raise"])
def test_what_is_no_action_is_refused_and_changes_nothing(illegal_action, rules):
    settings = {"illegal_action": illegal_action, **rules}
    env = SingleEnv(**settings)
    envs = MNKVectorEnv(3, **settings)
    env.reset(seed=0)
    envs.reset(seed=0)
    for action in (9, -1, 10**30, 1.5, "a", None, True, np.float64(1), np.array([1])):
        check_unchanged(env, (TypeError, ValueError), lambda action=action: env.step(action))
    wrong_types = (np.zeros((3, 1), int), np.zeros(3), np.zeros(3, bool), list("abc"))
    for actions in ([0, 9, 0], [0, 0, -1], [0, 0], 0, *wrong_types):
        check_unchanged(envs, (TypeError, ValueError), lambda actions=actions: envs.step(actions))
    for number in (4, np.int8(4), np.uint64(4), np.array(4)):
        env.reset()
        env.step(number)


@pytest.mark.parametrize(
    "rules",
    [{"symmetry": "random"}, {"size": 8}, {"gravity": True}, {"phantom": "classic"}],
    ids=str,
)
def test_an_illegal_action_raises_and_changes_nothing(rules):
    rules = {"illegal_action": "raise", **rules}
    env = SingleEnv(opponent="self", **rules)
    envs = MNKVectorEnv(3, opponent="self", **rules)
    env.reset(seed=1)
    envs.reset(seed=1)
    moves_before = {"gravity": 3, "phantom": 2}
    for _ in range(max(moves_before.get(rule, 1) for rule in rules)):
        env.step(1)
        envs.step([1, 1, 1])
    check_unchanged(env, ValueError, lambda: env.step(1))
    check_unchanged(envs, ValueError, lambda: envs.step([2, 2, 1]))


def test_games_begin_with_reset():
    for env in (
        SingleEnv(opponent="self"),
        MNKVectorEnv(1, opponent="self", autoreset_mode="Disabled"),
        TextEnv(),
    ):
        with pytest.raises(ResetNeeded):
            env.step([0])
    env = SingleEnv(opponent="self")
    env.reset()
    for action in (0, 3, 1, 4, 2):
        env.step(action)
    for _ in range(2):
        with pytest.raises(ResetNeeded):
            env.step(5)
        env.restore_state(env.clone_state(include_rng=True))  # which is over, too
