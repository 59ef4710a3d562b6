"""The contract of every registered policy; a new one is tested as soon as it is registered."""

import inspect
import re
from functools import partial
from typing import get_args

import numpy as np
import plain
import pytest
import tiny
from documents import ROOT
from numpy.testing import assert_allclose, assert_array_equal
from players import Drawn, Scripted
from right_calls import our_gumbel, our_mcts
from small_games import SKIP_GAME, TINY_GAME

from baselines.expectiminimax.lines import Heuristic
from baselines.opening_book import PlayedMoves, make_book
from learners import LEARNERS, QLearningConfig
from learners.config import load_learner
from learners.sb3 import CONFIGS, load_algorithm
from ttt_envs import Boards, Game, Policy, act, make_policy, to_text
from ttt_envs.agents.policy import sample
from ttt_envs.agents.specs import POLICIES, load_object
from ttt_envs.agents.wrappers import SymmetrizedPolicy, check_colour_blind, check_symmetric
from ttt_envs.envs.single_env import SingleEnv
from ttt_envs.game.game import VARIANTS as RULES
from ttt_envs.game.phantom import HIDING, PhantomGame
from ttt_eval.checks import check_agent, check_search, check_values

GAMES = [Game(), SKIP_GAME, Game(4, 6, 4, 0.1), Game(1, 5, 3), Game(15, 15, 5)]
VARIANTS = [
    Game(3, 4, 3, gravity=True),
    Game(3, 3, 3, 0.25, misere=True),
    Game(4, 3, 3, overlines=False, torus=True),
    Game(4, 5, 4, 0.1, gravity=True, overlines=False, misere=True, torus=True),
    Game(8, 9, 4, gravity=True, misere=True),
]
KINDS = {name: load_object(path) for name, path in POLICIES.items()}
RUN = re.compile(r"\{(.+?)\}")
"""the learner of a short run in a spec string of ``Policy.test_specs``"""


def needs_arguments(name):
    parameters = list(inspect.signature(KINDS[name]).parameters.values())[1:]
    return any(parameter.default is parameter.empty for parameter in parameters)


NAMES = [name for name in sorted(POLICIES) if not needs_arguments(name)]


def is_too_large(name, game):
    return game.cells > (KINDS[name].max_cells or game.cells)


def supports(name, game):
    kind = KINDS[name]
    has_rules = set(game.variants) <= set(kind.variants)
    return has_rules and not is_too_large(name, game) and (kind.plays_skips or not game.skip_chance)


def is_slow(name, game):
    """Whether a case compiles a kernel once more, or decomposes tables again and again."""
    if name == "hooi":
        return bool(game.variants)
    max_cells = 64 if name == "mcts" else 200
    return name in ("expectiminimax", "mcts", "timed") and (game.torus or game.cells > max_cells)


def case_of(spec, game, packages=(), id=None, marks=()):
    """A case of a policy; learners in its spec string are trained first."""
    learners = RUN.findall(spec)
    needed = {*packages, *(name for learner in learners for name in load_learner(learner).needs)}
    needs = [pytest.mark.needs(*sorted(needed))] if needed else []
    return pytest.param((spec, game), id=id or re.sub("[{}]", "", spec), marks=[*marks, *needs])


def cases_of(name):
    """The first spec string of a policy by all rules, the others by one."""
    kind = KINDS[name]
    specs = list(kind.test_specs or [name])
    if name in NAMES:
        first = specs.pop(0)
        for game in filter(partial(supports, name), [*GAMES, *VARIANTS]):
            marks = [pytest.mark.more] if is_slow(name, game) else []
            yield case_of(first, game, kind.needs, f"{name}-{game}", marks)
    for spec in specs:
        # a net in the place of rollouts has a kernel of its own
        marks = [pytest.mark.more] if "rollout" in spec else []
        yield case_of(spec, tiny.GAME if RUN.search(spec) else GAMES[1], kind.needs, marks=marks)


DECLARED = [name for name in sorted(POLICIES) if name in NAMES or KINDS[name].test_specs]
CASES = [
    *(case for name in DECLARED for case in cases_of(name)),
    *(case_of(f"run:{{{learner}}}", tiny.GAME) for learner in sorted(LEARNERS)),
    case_of("book:optimal", GAMES[1]),
    *(case_of(f"sb3:{name}", GAMES[0], config.needs) for name, config in CONFIGS.items()),
]


@pytest.fixture(scope="module", params=CASES)
def case(request):
    return request.param


@pytest.fixture
def game(case):
    return case[1]


@pytest.fixture(scope="module")
def policy(case, tiny_run, tmp_path_factory):
    """The policy of a case; of a run, a book, or a model of Stable-Baselines3, which is made."""
    spec, game = case
    kind, _, what = spec.partition(":")
    if kind == "book":
        path = tmp_path_factory.mktemp("book") / "a.book"
        boards = plain.positions_of_random_play(game, 256)
        values = make_policy(what, game).probabilities(boards)
        results = np.tile(np.array([[3, 2, 1]]), (256, 1))
        make_book(game, [PlayedMoves(boards, values.argmax(axis=1), results)], plies=5).write(path)
        spec = f"book:path={path},choose=ucb,then={what}"
    elif kind == "sb3":
        model = load_algorithm(spec, CONFIGS[what].algorithm)
        path = tmp_path_factory.mktemp("model") / "model.zip"
        model("MlpPolicy", SingleEnv(), seed=0, device="cpu", policy_kwargs={"net_arch": [4]}).save(
            path
        )
        spec = f"sb3:{path},algorithm={what},trust=true"
    return make_policy(RUN.sub(lambda learner: str(tiny_run(learner[1])), spec), game)


@pytest.fixture
def boards(game):
    return plain.positions_of_random_play(game, 64)


def probabilities(policy, boards, seed=0):
    return policy.probabilities(boards, None if policy.pure else np.random.default_rng(seed))


def illegal_moves(policy, game, boards, chosen):
    """The illegal moves among chosen ones, bool[B, cells], in words."""
    return [
        f"{policy} plays the illegal cell {cell} in {to_text(boards.position(row), game)}"
        for row, cell in np.argwhere(chosen & ~boards.legal(game)).tolist()
    ]


def test_all_registered_policies_are_tested():
    tested = {case.values[0][0].partition(":")[0] for case in CASES}
    assert POLICIES.keys() - tested == {"gomocup"}  # tests/baselines/test_gomocup.py


@pytest.mark.parametrize("name", POLICIES)
def test_policies_are_in_the_table_of_specs(name):
    page = "docs/policies.md"
    row = re.search(rf"^\|[^|\n]*`{name}[`:]", (ROOT / page).read_text(), re.M)
    assert row, f"the table of specs in {page} lacks {name}"


@pytest.mark.parametrize("name", NAMES)
def test_every_rule_that_a_policy_declares_is_tested(name):
    assert set(KINDS[name].variants) == {
        rule for game in VARIANTS if supports(name, game) for rule in game.variants
    }


REFUSED = [
    (name, rule)
    for name in sorted(POLICIES)
    for rule in (*RULES, HIDING)
    if not (KINDS[name].plays_hidden if rule == HIDING else rule in KINDS[name].variants)
]


def game_with(rule):
    return PhantomGame() if rule == HIDING else Game(**{rule: RULES[rule]})


@pytest.mark.parametrize(("name", "rule"), REFUSED)
def test_policies_refuse_rules_by_name_with_the_reason(name, rule):
    reason = KINDS[name].refusals.get(rule, "its class declares neither")
    with pytest.raises(
        ValueError, match=rf"^{name} does not support .* because {re.escape(reason)}"
    ):
        make_policy(name, game_with(rule))


@pytest.mark.parametrize("name", [*LEARNERS])
def test_learners_refuse_rules_by_name_with_the_reason(name):
    """Those that support all rules have nothing to refuse."""
    config = load_object(LEARNERS[name])
    for rule in {*RULES, HIDING} - set(config.variants):
        reason = (
            "it reads the whole board" if rule == HIDING else "its configuration does not list it"
        )
        with pytest.raises(ValueError, match=f"^{name} does not support .*, because {reason}"):
            config.check_game(config, game_with(rule))


@pytest.mark.parametrize(
    ("name", "game"),
    [
        pytest.param(name, game, id=f"{game}-{name}")
        for game in GAMES
        for name in NAMES
        if is_too_large(name, game)
    ],
)
def test_boards_too_large_for_a_table_are_rejected(name, game):
    with pytest.raises(
        ValueError, match=f"{game.rows} x {game.columns} is too large (for a table|to solve)"
    ):
        make_policy(name, game)


def test_probabilities_are_of_legal_moves_and_boards_are_not_modified(policy, game, boards):
    assert isinstance(policy, Policy)
    before = [array.copy() for array in boards]
    p = probabilities(policy, boards)
    act(policy, boards, np.random.default_rng(0))
    for array, was in zip(boards, before, strict=True):
        assert_array_equal(array, was)
    assert (p.dtype, p.shape) == (np.float64, (64, game.cells))
    assert (p >= 0).all()
    assert illegal_moves(policy, game, boards, p != 0) == []
    assert_allclose(p.sum(axis=1), 1, rtol=1e-12)


def test_batches_may_be_empty_and_read_only(policy, game, boards):
    """And of one position."""
    for count in (0, 1, 5):
        few = boards.take(np.arange(count))
        frozen = boards.take(np.arange(count))
        for array in frozen:
            array.flags.writeable = False
        p = probabilities(policy, frozen)
        assert (p.dtype, p.shape) == (np.float64, (count, game.cells))
        actions = act(policy, frozen, np.random.default_rng(0))
        assert (actions.dtype, actions.shape) == (np.int64, (count,))
        chosen = np.eye(game.cells, dtype=bool)[actions]
        assert illegal_moves(policy, game, few, chosen) == []
        if not policy.uses_clock:
            assert_array_equal(p, probabilities(policy, few))


def test_pure_policies_depend_on_the_position_and_draw_one_number_for_it(policy, game, boards):
    """Not on the batch; and their declarations of symmetry are true. Others need a generator."""
    if policy.pure:
        check_pure(policy, game, boards)
    else:
        with pytest.raises(ValueError, match="draws random numbers: give it rng"):
            policy.probabilities(boards)


def check_pure(policy, game, boards):
    """Raise AssertionError for a policy whose probabilities depend on more than the position."""
    p = probabilities(policy, boards)
    order = np.random.default_rng(1).permutation(64)
    assert_allclose(probabilities(policy, boards.take(order)), p[order], atol=1e-12)
    for row in range(0, 64, 9):
        assert_allclose(probabilities(policy, boards.take(np.array([row])))[0], p[row], atol=1e-12)
    rng = np.random.default_rng(2)
    other = np.random.default_rng(2)
    actions = act(policy, boards, rng)
    other.random(64)
    assert (actions.dtype, actions.shape) == (np.int64, (64,))
    assert rng.bit_generator.state == other.bit_generator.state
    if policy.symmetric:
        check_symmetric(policy, game, boards)
    if policy.colour_blind and game.skip_chance > 0:
        check_colour_blind(policy, game, with_both_colours(boards))


class Numbers:
    """In place of a generator: uniform numbers."""

    def __init__(self, u):
        self.u = u

    def random(self, size):
        assert size == len(self.u)
        return self.u


def test_moves_follow_the_probabilities_and_the_spec_recreates_the_policy(policy, game, boards):
    """A pure policy's moves are, in all positions, the probabilities at uniform numbers; others'
    are by frequency, unless the clock decides them.

    Frequencies are those of `probabilities` within 5 standard errors, and three moves, because few
    are not normal.
    """
    if policy.pure:
        many = boards.take(np.repeat(np.arange(64), 8))
        u = np.random.default_rng(3).random(512)
        assert_array_equal(act(policy, many, Numbers(u)), sample(probabilities(policy, many), u))
    elif not policy.uses_clock:
        count = 200
        many = boards.take(np.full(200, 3))
        p = probabilities(policy, many, seed=3).mean(axis=0)
        shares = np.bincount(act(policy, many, np.random.default_rng(3)), minlength=len(p)) / count
        assert (shares[p == 0] == 0).all()
        assert (abs(shares - p) <= 5 * np.sqrt(p * (1 - p) / count) + 3 / count).all()
    again = make_policy(str(policy), game)
    assert (type(again), str(again)) == (type(policy), str(policy))
    if not policy.uses_clock:
        assert_array_equal(probabilities(again, boards), probabilities(policy, boards))


# --------------------------------------------------------------------------------------------------
# Declared symmetry and colour-blindness


def with_both_colours(boards):
    """The positions with stones of both players, which are reachable with exchanged colours as
    well.
    """
    return boards.take((boards.cells == 1).any(axis=1) & (boards.cells == 2).any(axis=1))


@pytest.mark.parametrize(
    "spec",
    [
        "optimal:epsilon=0.3",
        "table:source=optimal,w=10000",
        "table:terminal=as_published",
        *(f"expectiminimax:depth=2,heuristic={of}" for of in get_args(Heuristic)),
        "expectiminimax:depth=2,leaf=table",
    ],
)
@pytest.mark.parametrize("game", [SKIP_GAME, Game(3, 4, 3, 0.1)], ids=str)
def test_settings_that_keep_the_declarations(spec, game):
    policy = make_policy(spec, game)
    boards = plain.positions_of_random_play(game, 64)
    assert policy.symmetric
    assert policy.colour_blind
    check_symmetric(policy, game, boards)
    check_colour_blind(policy, game, with_both_colours(boards))
    for withdrawn in ("table:w=1e6", "expectiminimax:width=2", "mcts:simulations=4"):
        assert not make_policy(withdrawn, game).symmetric


@pytest.mark.parametrize(
    ("learner", "more"),
    [
        ("naive-mc", ()),
        ("q-learning", ("--backup=negamax", "--opponent=self")),
        ("q-learning", ("--values=afterstate",)),
        tiny.case("q-net", "q-net", ()),
        tiny.case("alpha-zero", "alpha-zero", ()),
    ],
)
def test_runs_trained_on_all_symmetries_declare_symmetry(learner, more, tmp_path):
    run = tiny.train_run(learner, tmp_path / "run", "--symmetries=all", *more)
    policy = make_policy(f"run:{run}", tiny.GAME)
    boards = plain.positions_of_random_play(tiny.GAME, 256)
    assert policy.symmetric
    check_symmetric(policy, tiny.GAME, boards)
    check_colour_blind(policy, tiny.GAME, with_both_colours(boards))


@pytest.mark.parametrize("learner", ["naive-mc", tiny.case("q-net"), tiny.case("value-net")])
def test_the_mean_over_symmetries_is_symmetric(learner, tiny_run):
    game = tiny.GAME
    spec = f"run:{tiny_run(learner)}"
    policy = make_policy(f"{spec},symmetrize=true", game)
    own = make_policy(spec, game)
    boards = plain.positions_of_random_play(game, 64)
    assert (str(policy), policy.symmetric, own.symmetric) == (
        f"{spec},symmetrize=true",
        True,
        False,
    )
    check_symmetric(policy, game, boards)
    cells = boards.cells.reshape(-1, game.rows, game.columns)
    total = 0.0
    for axes in (
        (),
        1,
        2,
        (1, 2),
    ):  # the same mean by hand: the board flipped vertically, horizontally, and both
        flipped = np.ascontiguousarray(np.flip(cells, axes).reshape(len(cells), -1))
        total = total + np.flip(
            own.action_values(Boards(flipped, boards.mover)).reshape(cells.shape), axes
        )
    assert_allclose(policy.action_values(boards), total.reshape(boards.cells.shape) / 4, atol=1e-12)


def test_policies_without_action_values_cannot_be_symmetrized():
    for spec in ("random", "mcts:simulations=4"):
        with pytest.raises(ValueError, match="no values"):
            SymmetrizedPolicy(make_policy(spec, Game()), Game())


def test_false_declarations_are_detected():
    """Of a policy that prefers any move in any position, by player."""
    game = TINY_GAME
    boards = with_both_colours(plain.positions_of_random_play(game, 64))
    for check in (check_symmetric, check_colour_blind):
        with pytest.raises(ValueError, match="first-empty"):
            check(Drawn(game), game, boards)


def test_false_symmetry_is_reported_with_the_symmetry():
    """Corners are the same after rotations and reflections, and not after translations."""
    game = Game(torus=True)
    boards = plain.positions_of_random_play(game, 64)
    corner = make_policy("examples.files.corner:Corner", game)
    check_symmetric(corner, Game(), boards)
    with pytest.raises(ValueError, match=r"up to a symmetry of the torus$"):
        check_symmetric(corner, game, boards)
    with pytest.raises(ValueError, match=r"up to a rotation or reflection$"):
        check_symmetric(Scripted(), Game(), boards)


# --------------------------------------------------------------------------------------------------
# Checks of our searches, policies and values


@pytest.mark.parametrize(
    ("turns", "board"),
    [("plain", "3x3"), ("skip", "3x3"), pytest.param("plain", "4x4", marks=pytest.mark.more)],
)
@pytest.mark.parametrize(
    ("search", "evaluator"),
    [
        pytest.param(partial(our_mcts, decisive=False), None, id="mcts-rollouts"),
        pytest.param(partial(our_mcts, decisive=True), None, id="mcts-decisive-rollouts"),
        pytest.param(partial(our_mcts, decisive=False), "owned", id="mcts", marks=pytest.mark.more),
        pytest.param(
            partial(our_mcts, decisive=True), "owned", id="mcts-decisive", marks=pytest.mark.more
        ),
        pytest.param(our_gumbel, "owned", id="gumbel", marks=pytest.mark.more),
    ],
)
def test_searches_pass_their_check(turns, board, search, evaluator):
    # the first call may compile for long
    check_search(search, turns, evaluator, board=board, batch=True, limit_s=None).assert_ok()


FAILED = {
    "expectiminimax": "hold a draw",  # it looks a few plies ahead
    "random": "win at once",
    "table": "block",  # its moves are as likely as they are good
    "win-or-block": "win later",
    **dict.fromkeys(("hooi", "hosvd", "hosvd2", "svd", "tt"), "win later"),  # few numbers
}
"""A lesson that a policy does not know."""


@pytest.mark.parametrize("name", ["optimal", *FAILED])
def test_policies_fail_the_lessons_that_they_do_not_know(name):
    check = check_agent(name)
    assert check.ok == (name not in FAILED)
    assert FAILED.get(name) in (None, *check.failed)


def test_a_trained_learner_passes_the_checks_of_moves_and_values():
    config = QLearningConfig(backup="negamax", symmetries="all")
    _, learner = tiny.fit(config, games=30_000, every=30_000, batch=64, opponent="self")
    check_agent(learner).assert_ok()
    check_values(learner).assert_ok()
    check_values(make_policy("optimal", Game())).assert_ok()
