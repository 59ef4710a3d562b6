"""Endgame databases: against the solver over all boards, their verification, and in searches."""

import json
from functools import cache

import numpy as np
import plain
import pytest
from json_files import read_json
from numpy.testing import assert_allclose, assert_array_equal
from small_games import SKIP_GAME

from baselines.exact import build, open_layers, solve
from baselines.exact.count import reachable_boards
from baselines.exact.verify import check_entries, describe_entry
from baselines.expectiminimax import Expectiminimax
from baselines.mcts import MCTS
from ttt_envs import Boards, Game, from_text, make_policy
from ttt_eval.store.policy_identity import policy_identity

pytestmark = pytest.mark.more

SKIPS = [0.0, 0.1, 0.25]
SMALL = Game(2, 3, 3, 0.25)


@pytest.fixture(scope="session")
def folder_of(tmp_path_factory):
    """Return a function of (game, stones) to a folder with that database, built once."""
    place = tmp_path_factory.mktemp("databases")

    @cache
    def database(game, stones):
        folder = place / f"{game.slug}-{stones}"
        build(game, folder, stones=stones)
        return folder

    return database


# --------------------------------------------------------------------------------------------------
# Content


def test_positions_before_the_first_layer_are_refused_but_not_moves_into_it(folder_of):
    game = Game()
    table = open_layers(game, folder_of(game, 5))
    early, before = (plain.from_texts(text) for text in ("o../.x./..o x", "o.x/.x./..o o"))
    with pytest.raises(ValueError, match="begins at 5 stones"):
        table.values(early)
    assert_array_equal(table.values(before), solve(game).values(before))
    assert_array_equal(table.action_values(before), solve(game).action_values(before))


def test_database_is_extended_to_fewer_stones(tmp_path):
    build(SMALL, tmp_path, stones=4)
    before = {path.name: path.stat().st_ino for path in tmp_path.glob("*.npy")}
    assert set(before) == {"04-layer.npy", "05-layer.npy", "06-layer.npy"}
    build(SMALL, tmp_path, stones=5)  # is there already
    build(SMALL, tmp_path)
    inodes = {path.name: path.stat().st_ino for path in tmp_path.glob("*.npy")}
    assert inodes.items() > before.items()
    assert open_layers(SMALL, tmp_path).stones == 0


def test_killed_and_resumed_build_has_the_same_bytes(tmp_path, fresh, folder_of):
    whole = {path.name: path.read_bytes() for path in folder_of(SMALL, 1).iterdir()}
    # killed again and again: each time after one file more was written, whole or as a leftover
    fresh(
        "import os, ttt_envs.core.files as files; from pathlib import Path",
        "from baselines.exact import build; from ttt_envs import Game",
        f"folder, game = Path({str(tmp_path)!r}), Game(2, 3, 3, 0.25)",
        # kernels are read once, not in every process
        "build(game, folder.with_name('before'), stones=1)",
        "real, replace = os.replace, os.replace",
        "def killed(at, when):",
        "    if os.fork():",
        "        return os.wait()",
        "    seen = []",
        "    def die(old, new):",
        "        seen.append(new)",
        "        if len(seen) == at and when == 'before': os._exit(0)",
        "        real(old, new)",
        "        if len(seen) == at: os._exit(0)",
        "    os.replace = die",
        "    build(game, folder, stones=1)",
        "    os._exit(0)",
        "for at in (1, 3, 2):",
        "    for when in ('before', 'after'): killed(at, when)",
    )
    build(SMALL, tmp_path, stones=1)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == whole


def test_invalid_sizes_are_refused(tmp_path):
    with pytest.raises(
        ValueError, match=r"5 x 5 is too large to solve by layers: .* evaluate\.py solve"
    ):
        build(Game(5, 5, 4))
    with pytest.raises(ValueError, match="stones=10 are not on a board of 9 cells: choose 0 to 9"):
        build(Game(), tmp_path, stones=10)


# --------------------------------------------------------------------------------------------------
# Verification


@pytest.mark.parametrize(
    ("game", "stones"),
    [(Game(), 6), (SKIP_GAME, 6), (Game(3, 4, 3, 0.25, gravity=True), 7)],
    ids=str,
)
def test_wrong_entry_is_found(tmp_path, game, stones):
    table = build(game, tmp_path, stones=0 if game.gravity else 5)
    path = tmp_path / f"0{stones}-layer.npy"
    size = table.numbering.size(stones)
    for entry in np.random.default_rng(0).choice(size, 5, replace=False).tolist():
        content = path.read_bytes()
        layer = np.array(table.layer(stones))
        layer[entry] = 5 if game.skip_chance == 0 else layer[entry] + 1e-3
        path.write_bytes(content[: -layer.nbytes] + layer.tobytes())
        for entries in (range(size), np.array([entry])):
            assert check_entries(tmp_path, stones, entries)[1] == entry
        assert (
            np.count_nonzero(from_text(describe_entry(game, stones, entry), game).cells) == stones
        )
        path.write_bytes(content)


# --------------------------------------------------------------------------------------------------
# Searches


@pytest.mark.parametrize(
    ("game", "stones"), [(Game(), 4), (Game(), 7), (Game(), 9), (Game(2, 5, 3), 5)], ids=str
)
def test_full_search_without_skips_has_the_same_values_with_fewer_nodes(folder_of, game, stones):
    boards = plain.positions_of_random_play(game, 30)
    result = []
    for endgame in (str(folder_of(game, stones)), None):
        policy = Expectiminimax(game, depth=game.cells, endgame=endgame)
        analyses = [policy.analyse(boards.position(row)) for row in range(30)]
        nodes = [analysis.nodes for analysis in analyses]
        moves = [analysis.move_values for analysis in analyses]
        result.append((sum(nodes), moves, policy.probabilities(boards)))
    (fewer, *with_it), (nodes, *without) = result
    for our_values, expected in zip(with_it, without, strict=True):
        assert_array_equal(our_values, expected)
    assert (
        fewer < nodes or stones == game.cells
    )  # with a table of full boards there is nothing to save


@pytest.mark.parametrize("skip_chance", [0.0, 0.25])
def test_narrow_searches_use_the_database(folder_of, skip_chance):
    game = Game(skip_chance=skip_chance)
    boards = plain.positions_of_random_play(game, 60)
    policy = Expectiminimax(game, depth=2, endgame=str(folder_of(game, 0)), width=3)
    best = policy.scores(boards, np.random.default_rng(0))
    expected = solve(game).action_values(boards)  # one ply is all that is searched
    result = best if skip_chance > 0 else np.sign(best)
    assert_allclose(np.nanmax(result, axis=1), np.nanmax(expected, axis=1), rtol=0, atol=1e-6)


# --------------------------------------------------------------------------------------------------
# Spec strings


@pytest.mark.parametrize(
    "spec", ["optimal:database={}", "expectiminimax:endgame={}", "mcts:endgame={}"]
)
def test_invalid_databases_are_refused(spec, folder_of, tmp_path):
    game = Game(2, 5, 3)
    for path in (tmp_path / "nothing", "/dev/null", tmp_path, folder_of(Game(), 5)):
        with pytest.raises(
            ValueError, match=r"no database or table of layers|cannot be read|of 3 x 3"
        ):
            make_policy(spec.format(path), game)
    whole = read_json(folder_of(game, 4) / "manifest.json")
    del whole["layers"]["07-layer.npy"]
    for data in (
        [],
        {**whole, "stones": 99},
        {**whole, "stones": -1},
        {**whole, "game": {"rows": 99}},
        whole,
    ):
        (tmp_path / "manifest.json").write_text(json.dumps(data))
        with pytest.raises(ValueError, match=r"stones|manifest|format|rows=99"):
            make_policy(spec.format(tmp_path), game)


def test_policy_identity_depends_on_the_database(folder_of):
    first, second = (
        policy_identity(f"expectiminimax:depth=2,endgame={folder_of(Game(), n)}") for n in (5, 7)
    )
    assert first != second


# --------------------------------------------------------------------------------------------------
# Gravity and other rules

RULES = [
    Game(3, 4, 3, gravity=True),
    Game(3, 3, 3, 0.25, gravity=True, misere=True),
    Game(4, 3, 3, 0.1, gravity=True, overlines=False, torus=True),
    Game(3, 3, 3, 0.25, misere=True),
    Game(2, 3, 3, 0.25, overlines=False),
    Game(3, 3, 2, overlines=False, torus=True),
    *(Game(2, 5, 3, skip_chance) for skip_chance in SKIPS),
]
by_rules = pytest.mark.parametrize("game", RULES, ids=str)


def reachable_positions(game):
    """All positions: in progress of either mover that may move there, and over, with either
    mover.
    """
    kinds = reachable_boards(game)
    results = [np.flatnonzero((kinds >= 4) | (kinds >> mover & 1 == 1)) for mover in (0, 1)]
    cells = np.concatenate(results)[:, None] // 3 ** np.arange(game.cells) % 3
    return Boards(
        cells.astype(np.int8), np.repeat(np.array([0, 1], np.int8), [len(part) for part in results])
    )


@by_rules
def test_values_of_all_rules_equal_the_solver(folder_of, game):
    solution = solve(game, cache=False)
    boards = reachable_positions(game)
    for table in (open_layers(game, folder_of(game, 0)), build(game)):
        tolerance = 1e-15 if game.skip_chance == 0 or table.dtype == np.float64 else table.error
        assert_allclose(table.values(boards), solution.values(boards), rtol=0, atol=tolerance)
        assert_allclose(
            table.action_values(boards), solution.action_values(boards), rtol=0, atol=tolerance
        )
        if game.skip_chance == 0:
            assert_array_equal(table.distance(boards), solution.distance(boards))


@by_rules
def test_all_entries_of_all_rules_are_verified(folder_of, game):
    folder = folder_of(game, 0)
    for stones in range(game.cells + 1):
        size = open_layers(game, folder).numbering.size(stones)
        largest, wrong = check_entries(folder, stones, range(size))
        assert wrong == -1
        assert largest <= (0 if game.skip_chance == 0 else 2**-24)


def test_a_floating_stone_is_refused(folder_of):
    game = Game(3, 4, 3, 0.25, gravity=True)
    table = open_layers(game, folder_of(game, 0))
    with pytest.raises(ValueError, match="a stone above an empty cell"):
        table.values(plain.from_texts("..../o.../.x.. o"))


@pytest.mark.parametrize("game", [Game(), SKIP_GAME, Game(3, 3, 3, 0.25, gravity=True)], ids=str)
def test_searches_and_optimal_play_by_a_database(folder_of, game):
    boards = plain.positions_of_random_play(game, 60)
    folder = str(folder_of(game, 4))
    expected = solve(game).action_values(boards)
    best = np.nanmax(expected, axis=1)
    search = MCTS(game, simulations=20, endgame=folder).search(
        boards, np.arange(60, dtype=np.uint64)
    )
    search.run(20)  # more than there are moves
    near = np.count_nonzero(boards.cells, axis=1) >= 3
    assert search.solved[near].any(axis=1).all()
    assert_allclose(search.action_values[search.solved], expected[search.solved], rtol=0, atol=1e-6)
    assert_allclose(search.root_values[near], best[near], rtol=0, atol=1e-6)
    policy = Expectiminimax(game, depth=game.cells, endgame=folder)
    scores = np.nanmax(policy.scores(boards), axis=1)
    assert_allclose(scores if game.skip_chance > 0 else np.sign(scores), best, rtol=0, atol=1e-6)
    chosen = policy.probabilities(boards).argmax(axis=1)
    assert_allclose(expected[np.arange(60), chosen], best, rtol=0, atol=1e-6)
    perfect = make_policy(f"optimal:database={folder_of(game, 0)}", game)
    assert_allclose(
        perfect.probabilities(boards),
        make_policy("optimal", game).probabilities(boards),
        atol=1e-12,
    )
