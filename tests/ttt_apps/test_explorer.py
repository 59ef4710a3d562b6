"""The explorer's responses and rejections. Its page in a browser: test_explorer_page.py."""

import json
import random
import signal
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from damage import damaged_bytes, damaged_json
from explorers import Client, Program, make_explorer
from tiny import GAME, train_run

from baselines.compression import decomposition
from baselines.exact import SearchedSolution, build, solve
from baselines.expectiminimax import Expectiminimax
from baselines.mcts import MCTS
from baselines.tables import Softmax, Table, source_values
from ttt_apps.board import LiveGame
from ttt_apps.explorer.api import ExplorerApi
from ttt_apps.explorer.command import listening
from ttt_apps.explorer.root import Root
from ttt_apps.explorer.schemas import LineRequest, PlayRequest, ValuesRequest
from ttt_apps.explorer.solutions import LRUCache
from ttt_envs import Game
from ttt_envs.agents.specs import make_policy
from ttt_envs.core.array_cache import CACHE_VARIABLE
from ttt_envs.core.random import draw_key
from ttt_envs.game.boards import Boards, cell_at, coordinate, from_text, to_text, winning_line_cells
from ttt_envs.game.rules import DRAW
from ttt_eval.reports.links import explorer_command

pytestmark = [pytest.mark.needs("fastapi", "httpx")]
TIMEOUT_S = 60
"""limit for what should happen at once"""
START = ".../.../... o"
GAME_3X3 = Game(skip_chance=0.25)
SKIPS = {"rows": 3, "columns": 3, "win_length": 3, "skip_chance": 0.25}
TINY = {"rows": 2, "columns": 3, "win_length": 2, "skip_chance": 0.25}
LARGE = {"rows": 15, "columns": 15, "win_length": 5, "skip_chance": 0.0}
JSON = {"content-type": "application/json"}


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A root with a run, and links to what is outside it."""
    outside = tmp_path_factory.mktemp("outside")
    train_run("q-learning", outside / "secret")
    folder = tmp_path_factory.mktemp("root")
    train_run("q-learning", folder / "first")
    (folder / "link").symlink_to(outside / "secret")
    (folder / "linked").mkdir()
    (folder / "linked" / "config.json").symlink_to(outside / "secret" / "config.json")
    (folder / "broken").mkdir()
    (folder / "broken" / "config.json").write_text("{" * 100)
    return folder


@pytest.fixture(scope="module")
def client(root):
    with Client(make_explorer(root)) as made:
        yield made


def ask(client, path, /, **content):
    answer = client.post(f"/api/{path}", json=content)
    assert answer.status_code == 200, answer.text
    return answer.json()


def values(client, position, *panels, game=SKIPS):
    return [ask(client, "values", game=game, position=position, panel=panel) for panel in panels]


def why_not(client, position, panel, game=SKIPS):
    """Why there is no panel."""
    return error(client.post("/api/values", json={"game": game, "position": position, "panel": panel}))


def error(answer, status=400):
    assert answer.status_code == status, answer.text
    assert set(answer.json()) == {"error"}
    return answer.json()["error"]


def check_values(answer, expected):
    """Check that numbers are those of Python, and texts these numbers to their digits."""
    np.testing.assert_allclose(np.array(answer["values"], float), expected, rtol=0, atol=1e-12)
    for text, value in zip(answer["texts"], expected, strict=True):
        if not np.isnan(value):
            assert float(text.replace("\N{MINUS SIGN}", "-")) == pytest.approx(value, abs=5.001e-4)
    assert answer["best"] == np.flatnonzero(expected >= np.nanmax(expected) - 1e-9).tolist()


# ---------------------------------------------------------------------------------------------------------------------
# Panels


@pytest.mark.parametrize("text", [START, "x.o/.../..o x", "x.o/.../..o o", "oox/.x./... o"])
def test_panels_have_the_values_of_python(client, text):
    boards = Boards.from_positions([from_text(text, GAME_3X3)])
    kinds = ({"kind": "exact"}, {"kind": "random"}, {"kind": "search", "depth": 4}, {"kind": "mcts"})
    exact, at_random, search, tree = values(client, text, *kinds)
    check_values(exact, solve(GAME_3X3).action_values(boards)[0])
    check_values(at_random, Softmax(Table(GAME_3X3, source_values(GAME_3X3, "random"))).action_values(boards)[0])
    analysis = Expectiminimax(GAME_3X3, 4).analyse(boards.position(0))
    check_values(search, (1 - 2 * int(boards.mover[0])) * analysis.move_values)
    assert [cell_at(word, GAME_3X3) for word in search["lines"][0]["moves"].split()] == list(analysis.variation)
    visits = MCTS(GAME_3X3, simulations=400).analyse(boards.position(0)).visits[0]
    assert [0 if text is None else int(text) for text in tree["texts"]] == visits.tolist()
    [more_skips] = values(client, text, {"kind": "exact"}, game={**SKIPS, "skip_chance": 0.5})
    check_values(more_skips, solve(Game(skip_chance=0.5)).action_values(boards)[0])


@pytest.mark.parametrize(
    "method", ["svd", "hooi", *(pytest.param(one, marks=pytest.mark.slow) for one in ("hosvd", "hosvd2", "tt"))]
)
def test_a_compressed_table_has_the_requested_rank(client, method):
    boards = Boards.from_positions([from_text("x.o/.../..o x", GAME_3X3)])
    whole = decomposition(GAME_3X3, method)
    panels = [{"kind": "compressed", "method": method, "rank": rank} for rank in (0, 2, 9, 1000)]
    answers = values(client, "x.o/.../..o x", *panels)
    for answer, rank in zip(answers, (0, 2, 9, whole.largest), strict=True):
        assert (answer["rank"], answer["largest_rank"]) == (rank, whole.largest)
        check_values(answer, Softmax(whole.at(rank)).action_values(boards)[0])
    assert answers[1]["values"] != answers[2]["values"]


def test_a_run_has_its_own_values_and_plays(client, root):
    panel = {"kind": "run", "run": "first"}
    [answer] = values(client, ".../... o", panel, game=TINY)
    check_values(answer, make_policy(f"run:({root / 'first'})", GAME).action_values(Boards.start(GAME))[0])
    [other] = values(client, ".../... o", panel, game={**TINY, "skip_chance": 0.0})
    assert "another game" in " ".join(other["notes"])
    assert len(ask(client, "play", game=TINY, seed=1, policy="run:first")["plies"]) == 1


def test_a_policy_has_its_move_probabilities(client):
    [answer] = values(client, "oo./x../... x", {"kind": "policy", "policy": "optimal:epsilon=0.5"})
    boards = Boards.from_positions([from_text("oo./x../... x", GAME_3X3)])
    shares = make_policy("optimal:epsilon=0.5", GAME_3X3).probabilities(boards)[0]
    assert [0 if one is None else one for one in answer["values"]] == pytest.approx(shares.tolist())


def test_a_large_board_has_only_panels_without_tables(client):
    start = "/".join(["." * 15] * 15) + " o"
    for kind in ("exact", "random", "compressed"):
        why_not(client, start, {"kind": kind}, game=LARGE)
    for kind in ("search", "mcts"):
        assert values(client, start, {"kind": kind, "simulations": 50}, game=LARGE)[0]["best"]
    assert ask(client, "play", game=LARGE, seed=1, policy="mcts:simulations=50")["plies"][0]["loss"] is None


# ---------------------------------------------------------------------------------------------------------------------
# Exact values and reviews

FLAT = {"rows": 1, "columns": 13, "win_length": 3, "skip_chance": 0.25}
STORED = {"rows": 2, "columns": 9, "win_length": 3, "skip_chance": 0.0}


@pytest.mark.parametrize(
    ("content", "moves"), [(FLAT, "g1 a1+ b1"), ({"rows": 4, "columns": 4, "win_length": 3}, "b2 a1 b3 d1")]
)
def test_exact_values_to_16_cells_come_with_a_review(client, content, moves):
    """A larger board is not solved while a move is drawn, but by the next request; its values are those of a table.

    Without skips, its layers have no values of positions in which a player moves twice.
    """
    game = Game(**content)
    first = ask(client, "replay", game=content, moves=moves)
    assert (first["exact"], first["positions"][0]["value"], first["plies"][0]["loss"]) == ("soon", None, None)
    answer = ask(client, "review", game=content, moves=moves)
    solution = solve(game, cache=False)
    boards = Boards.from_positions([from_text(one["position"], game) for one in answer["positions"]])
    expected = (1 - 2 * boards.mover) * solution.values(boards)
    assert [one["value"] for one in answer["positions"]] == pytest.approx(expected.tolist(), abs=1e-12)
    assert answer["exact"] == ask(client, "replay", game=content, moves=moves)["exact"] == "now"
    panel = values(client, answer["positions"][3]["position"], {"kind": "exact"}, game=content)[0]
    moves = solution.action_values(boards)[3]
    np.testing.assert_allclose(np.array(panel["values"], float), moves, rtol=0, atol=1e-12)
    assert panel["best"] == np.flatnonzero(moves >= np.nanmax(moves) - 1e-9).tolist()


def test_what_a_skip_gives_is_the_value_after_it_less_its_expectation(client):
    """After b2 and a1, x is to move again with probability .25; the skip gave x the difference to the mean."""

    def value(moves):
        return ask(client, "replay", game=SKIPS, moves=moves)["positions"][-1]["value"]

    rest = "c1 b1 a3 b3"
    whole = ask(client, "replay", game=SKIPS, moves=f"b2 a1+ {rest}")["summary"]["skips"]
    later = ask(client, "replay", game=SKIPS, opening="x../.o./... x", moves=rest)["summary"]["skips"]
    pairs = ((value("b2"), value("b2+")), (value("b2 a1+"), value("b2 a1")))
    first, second = pairs
    given = 0.25 * (first[0] - first[1]) + 0.75 * (second[0] - second[1])
    assert whole - later == pytest.approx(given, abs=1e-12)


@pytest.mark.parametrize("kind", ["table", "database"])
def test_larger_boards_have_exact_values_where_these_are_stored(kind, monkeypatch, tmp_path):
    """A table by the command that the page names, or a database of the whole game; larger boards have neither."""
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    game, start = Game(2, 9, 3), "........./......... o"
    large = {"rows": 5, "columns": 5, "win_length": 4}
    with Client(make_explorer(databases=tmp_path)) as client:
        assert "evaluate.py solve --size 2x9" in why_not(client, start, {"kind": "exact"}, game=STORED)
        assert ask(client, "replay", game=STORED)["exact"] == "table"
        assert ask(client, "replay", game=large)["exact"] == "none"
        solution = solve(game) if kind == "table" else build(game, tmp_path / game.slug)
        assert ask(client, "replay", game=STORED)["exact"] == "soon"
        answer = ask(client, "review", game=STORED, moves="e1")
        assert answer["positions"][0]["value"] == solution.value
        assert ask(client, "replay", game=STORED)["exact"] == "now"


def test_a_database_gives_values_where_it_begins(monkeypatch, tmp_path):
    """Without a table of the whole game, later positions have the values of a database; no request names its folder."""
    game = Game(2, 11, 3)
    table = build(game, tmp_path / game.slug, stones=18)
    late, early = "ooxxooxxoox/xxooxxoo... x", "." * 11 + "/" + "." * 11 + " o"
    with Client(make_explorer(databases=tmp_path)) as client:
        body = {"rows": 2, "columns": 11, "win_length": 3, "skip_chance": 0.0}
        assert ask(client, "replay", game=body)["exact"] == "part"
        boards = Boards.from_positions([from_text(late, game)])
        found = values(client, late, {"kind": "exact"}, game=body)[0]["values"]
        np.testing.assert_array_equal(np.array(found, float), table.action_values(boards)[0])
        assert "17 stones" in why_not(client, early, {"kind": "exact"}, game=body)


def test_proofs_are_results_of_perfect_play(client):
    """Without skips, as far as the positions suffice."""
    plain = {"rows": 3, "columns": 3, "win_length": 3, "skip_chance": 0.0}
    position = "x.o/.o./..x o"
    proved = values(client, position, {"kind": "prove"}, game=plain)[0]
    exact = solve(Game()).action_values(Boards.from_positions([from_text(position)]))[0]
    np.testing.assert_array_equal(np.array(proved["values"], float), exact)
    words = {1: "won", 0: "draw", -1: "lost"}
    assert proved["texts"] == [None if np.isnan(one) else words[one] for one in exact]
    five = {"rows": 5, "columns": 5, "win_length": 4}
    little = values(client, "...../...../..o../...../..... x", {"kind": "prove", "nodes": 24}, game=five)[0]
    assert little["best"] == []
    assert little["value"] is None
    assert little["notes"][0] == "The result is not decided."
    assert "skip_chance=0.25" in why_not(client, START, {"kind": "prove"})


# ---------------------------------------------------------------------------------------------------------------------
# Other rules

FALLING = {"rows": 4, "columns": 4, "win_length": 4, "gravity": True}
MISERE = {**SKIPS, "misere": True}
GAMES = [
    GAME_3X3,
    Game(3, 4, 3, 0.25, gravity=True),
    Game(3, 4, 3, overlines=False, torus=True),
    Game(3, 3, 3, 0.25, misere=True),
    Game(3, 3, 3, 0.5, torus=True),
    Game(4, 3, 3, 0.1, gravity=True, misere=True, torus=True),
]


def request_of(game):
    """A game as a request has it."""
    return {name: value for name, value in game.to_dict().items() if name != "format"}


@pytest.mark.parametrize("game", GAMES, ids=str)
def test_games_have_the_moves_skips_lines_and_values_of_python(client, game):
    """Whole games, with moves of every legal cell in turn.

    The result is the value of the start, plus what skips gave, minus what o lost, plus what x lost.
    """
    solution, content = solve(game, cache=False), request_of(game)
    for seed in range(3):
        live, moves = LiveGame(game, draw_key(np.random.default_rng(seed)), 0), ""
        while live.outcome is None:
            free = np.flatnonzero(live.boards.legal(game)[0]).tolist()
            here = ask(client, "replay", game=content, moves=moves)["positions"][-1]
            assert here["legal"] == (free if game.gravity else None)
            exact = values(client, here["position"], {"kind": "exact"}, game=content)[0]
            check_values(exact, solution.action_values(live.boards)[0])
            taken = [cell for cell in range(game.cells) if cell not in free]
            for cell in taken[:1] + taken[-1:]:
                where = "lowest empty cell of a column" if game.gravity else "empty cell"
                wrong = {"game": content, "moves": moves, "seed": seed, "cell": cell}
                assert f"cell={cell} is no {where}" in error(client.post("/api/play", json=wrong))
            cell = free[len(moves) % len(free)]
            answer = ask(client, "play", game=content, moves=moves, seed=seed, cell=cell)
            moves, ply, last = answer["moves"], answer["plies"][-1], answer["positions"][-1]
            assert (ply["cell"], ply["skipped"]) == (cell, live.move(cell).skipped)
            assert (last["position"], last["last"]) == (to_text(live.boards.position(0), game), live.last_cells())
            assert (answer["summary"] is None) == (answer["result"] is None)
        assert answer["result"] == ("draw" if live.outcome == DRAW else "ox"[live.outcome])
        assert last["line"] == winning_line_cells(game, live.cells, live.outcome)
        error(client.post("/api/play", json={"game": content, "moves": moves, "seed": seed, "cell": 0}))
        assert answer["game"] == game.to_dict()
        found = answer["summary"]
        o, x = found["players"]["o"], found["players"]["x"]
        assert found["start"] == pytest.approx(solution.value)
        assert found["result"] == {"o": 1, "x": -1, "draw": 0}[answer["result"]]
        assert found["without_skips"] == pytest.approx(found["result"] - found["skips"], abs=1e-12)
        assert o["moves"] + x["moves"] == len(answer["plies"])
        assert o["best"] == sum(ply["loss_text"] == "best" for ply in answer["plies"] if ply["mover"] == "o")
        assert found["result"] == pytest.approx(found["start"] + found["skips"] - o["loss"] + x["loss"], abs=1e-12)


def test_a_line_loses_in_misere_and_lines_cross_the_edges_on_a_torus(client):
    answer = ask(client, "replay", game={"misere": True}, moves="a1 b1 a2 b2 a3")
    assert (answer["result"], answer["positions"][-1]["line"]) == ("x", [0, 3, 6])
    answer = ask(client, "replay", game={"torus": True}, moves="b1 b2 c2 a2 a3")
    assert (answer["result"], answer["positions"][-1]["line"]) == ("o", [1, 5, 6])
    answer = ask(client, "replay", game={"rows": 1, "columns": 5, "overlines": False}, moves="a1 e1 b1")
    assert answer["result"] is None
    exact = {"rows": 3, "columns": 4, "win_length": 3, "overlines": False}
    assert ask(client, "replay", game=exact, moves="a1 a2 b1 b2 d1 d3 c1")["result"] is None  # four in a line


def test_panels_play_by_other_rules_or_say_why_not(client):
    """Boards with gravity have numbers for the lowest cells only."""
    kinds = ("exact", "random", "compressed", "search", "mcts", "policy")
    falling = {**FALLING, "columns": 3, "win_length": 3, "skip_chance": 0.25}
    for panel in values(
        client, ".../.../.../... o", *({"kind": kind, "policy": "random"} for kind in kinds), game=falling
    ):
        assert [cell for cell, value in enumerate(panel["values"]) if value is not None] == [9, 10, 11], panel
    tables = dict.fromkeys(("random", "compressed"), "up to 12 cells")
    standard = "only by the standard rules, or with gravity alone"
    wide = {**FALLING, "rows": 9, "columns": 9}
    for game, refused in (
        (MISERE, {"prove": standard}),
        ({**FALLING, "columns": 3, "win_length": 3}, {}),
        (falling, {"prove": "only without skips"}),
        (FALLING, tables),
        (LARGE, tables | {"exact": "up to 21 cells", "prove": "up to 64 cells"}),
        (wide, tables | {"exact": "up to 20 cells", "prove": "up to 63 cells, with one more in each column"}),
        (
            {**FALLING, "rows": 6, "columns": 5, "misere": True},
            tables | {"exact": "up to 5 x 5", "prove": standard},
        ),
    ):
        assert ask(client, "replay", game=game)["refused"] == refused
        start = "/".join(["." * game["columns"]] * game["rows"]) + " o"
        for kind in refused:
            why_not(client, start, {"kind": kind}, game=game)


def test_connect_four_is_solved_by_a_search(client):
    """4 x 4 has exact values and a review without a table; larger boards have proofs within a number of positions."""
    game = Game(4, 4, 4, gravity=True)
    moves = "b4 a4 b3 a3 b2 c4 b1"
    answer = ask(client, "review", game=FALLING, moves=moves)
    assert (answer["exact"], answer["result"]) == ("now", "o")
    solution = SearchedSolution(game, memory=1 << 22)
    boards = Boards.from_positions([from_text(one["position"], game) for one in answer["positions"][:-1]])
    expected = (1 - 2 * boards.mover) * solution.values(boards)
    assert [one["value"] for one in answer["positions"]] == [*expected.tolist(), 1.0]
    assert answer["summary"]["start"] == 0
    seven = {"rows": 6, "columns": 7, "gravity": True}
    late = "......./..xo.../..ox.../.xoo.../.oxx.../xxoo.o. x"
    proved = values(client, late, {"kind": "prove", "nodes": 100_000}, game=seven)[0]
    found = SearchedSolution(Game(6, 7, 4, gravity=True), memory=1 << 22)
    wanted = found.action_values(Boards.from_positions([from_text(late)]))[0]
    np.testing.assert_array_equal(np.array(proved["values"], float), wanted)
    early = values(client, "/".join(["......."] * 6) + " o", {"kind": "prove", "nodes": 1}, game=seven)[0]
    assert early["notes"] == ["The result is not decided.", "7 of 7 moves are not decided within 20 positions."]


@pytest.mark.parametrize(
    "game", [Game(), Game(skip_chance=0.25), Game(3, 3, 3, gravity=True), Game(4, 4, 4, gravity=True)], ids=str
)
def test_a_game_that_x_begins_has_the_values_of_one_with_exchanged_colours(client, game):
    """If it is drawn who moves first; otherwise it comes from no game."""
    content = request_of(game)
    drawn = {**content, "first": "random"}
    empty = "/".join(["." * game.columns] * game.rows)
    kinds = ["exact", "search", "mcts", "policy", *(["random", "compressed"] if game.cells <= 12 else ["prove"])]
    panels = [{"kind": kind, "policy": "win-or-block", "simulations": 50} for kind in kinds]
    name = coordinate(game.cells - 2, game)
    after = to_text(from_text(f"{empty} x", game)._replace(cells=stone_at(game, game.cells - 2, 2), mover=0), game)
    mirrored = after.translate(str.maketrans("ox", "xo"))
    for theirs, ours in ((f"{empty} x", f"{empty} o"), (after, mirrored)):
        assert values(client, theirs, *panels, game=drawn) == values(client, ours, *panels, game=content)
        if theirs != after or not game.skip_chance:
            assert "comes from no game" in why_not(client, theirs, EXACT, game=content)
    begun = {"opening": f"{empty} x", "moves": name}
    answer = ask(client, "review", game=drawn, **begun)
    other = ask(client, "review", game=content, moves=name)
    assert [one["value"] for one in answer["positions"]] == [-one["value"] + 0.0 for one in other["positions"]]
    assert [one["mover"] for one in answer["positions"]] == ["x", "o"]
    assert [one["loss"] for one in answer["plies"]] == [one["loss"] for one in other["plies"]]
    policy = "optimal" if game.cells <= 12 else "expectiminimax"
    played = ask(client, "play", game=drawn, seed=1, policy=policy, **begun)
    assert played["moves"] == ask(client, "play", game=content, seed=1, policy=policy, moves=name)["moves"]
    error(client.post("/api/replay", json={"game": content, **begun}))


def stone_at(game, cell, stone):
    return np.where(np.arange(game.cells) == cell, stone, 0).astype(np.int8)


def test_a_run_of_other_rules_is_refused_and_has_its_own(tmp_path):
    train_run("q-learning", tmp_path / "misere", "--misere")
    with Client(make_explorer(tmp_path)) as client:
        panel = {"kind": "run", "run": "misere"}
        why = why_not(client, ".../... o", panel, game=TINY)
        assert why.endswith("by its rules")
        assert str(tmp_path) not in why
        error(client.post("/api/play", json={"game": TINY, "seed": 1, "policy": "run:misere"}))
        own = {**TINY, "misere": True}
        game = Game(2, 3, 2, 0.25, misere=True)
        learned = make_policy(f"run:({tmp_path / 'misere'})", game).action_values(Boards.start(game))[0]
        check_values(values(client, ".../... o", panel, game=own)[0], learned)
        for one in ask(client, "puzzles", run="misere")["puzzles"]:
            assert one["game"] == game.to_dict()
        found = ask(client, "puzzles", line={"game": own, "moves": "a1 b1 c1"})["puzzles"]
        assert {one["game"]["misere"] for one in found} <= {True}


# ---------------------------------------------------------------------------------------------------------------------
# Games


def test_policies_move_reproducibly(client):
    for policy in ("optimal", "mcts:simulations=20", "svd:rank=9", "win-or-block", "expectiminimax:depth=2"):
        assert len(ask(client, "play", game=SKIPS, moves="b2 a1", seed=1, policy=policy)["plies"]) == 3, policy
    content = {"game": SKIPS, "moves": "b2 a1+", "seed": 3, "policy": "random"}
    assert ask(client, "play", **content) == ask(client, "play", **content)


def test_a_replay_has_the_positions_and_the_loss_of_every_move(client):
    answer = ask(client, "replay", game=SKIPS, moves="b2 a1+ c3 b1 c2 b3")
    solution = solve(GAME_3X3)
    for position, ply in zip(answer["positions"], answer["plies"], strict=False):
        exact = solution.action_values(Boards.from_positions([from_text(position["position"])]))[0]
        assert ply["loss"] == pytest.approx(np.nanmax(exact) - exact[ply["cell"]])
        assert position["value"] == pytest.approx(np.nanmax(exact) * (1 if position["mover"] == "o" else -1))
    losses = [ply["loss"] for ply in answer["plies"]]
    assert answer["worst"] == losses.index(max(losses))
    assert max(losses) > 0
    assert answer["plies"][1]["skipped"]
    answer = ask(client, "replay", game=SKIPS, opening="x.o/.../..o x", moves="b2")
    assert [one["position"] for one in answer["positions"]] == ["x.o/.../..o x", "x.o/.x./..o o"]


@pytest.mark.parametrize(("rows", "columns"), [(1, 5), (3, 3), (3, 7), (4, 4), (5, 6), (7, 9), (15, 15)])
def test_a_size_alone_has_the_win_length_of_the_size(client, rows, columns):
    from ttt_apps.explorer.schemas import GameRequest

    game = GameRequest(rows=rows, columns=columns).game()
    assert game == Game.of_size((rows, columns))
    assert ask(client, "about")["win_lengths"][min(rows, columns) - 1] == game.win_length
    assert "win=" not in explorer_command(game)
    assert "win=2" in explorer_command(replace(game, win_length=2))


def test_about_lists_runs_and_playable_policies(client):
    about = ask(client, "about")
    assert [run["name"] for run in about["runs"]] == ["first"]
    for name, settings in about["policies"].items():
        path = ["path=first"] if name == "run" else []
        game = TINY if name == "run" else SKIPS
        offered = [f"{key}={choice}" for key, setting in settings.items() for choice in setting["choices"]]
        for spec in (":".join([name, *path]), *(f"{name}:{','.join([*path, choice])}" for choice in offered)):
            ask(client, "play", game=game, seed=1, policy=spec)


# ---------------------------------------------------------------------------------------------------------------------
# Rejected requests

SPECS = (
    "os:system", "module:Class", "ttt_apps.play:main", "sb3:model.zip,algorithm=dqn", "gomocup:/bin/sh",
    "book:path=b.npz,then=random", "timed:seconds=100", "optimal:database=/tmp", "mcts:endgame=/tmp",
    "mcts:rollout=(run:first)", "mcts:simulations=1000000000", "mcts:simulations=0", "mcts:c=nan",
    "expectiminimax:leaf=(run:first)", "expectiminimax:endgame=/tmp", "expectiminimax:depth=99",
    "expectiminimax:table=65536", "table:source=(run:first)", "table:w=1e9", "svd:rank=100000",
    "svd:split=012/345/678", "run:../outside/secret", "run:/etc", "run:link", "run:broken", "run:first,trust=true",
    "run:.", "run:", "run", "run:first/../first", "run:(first\x00)", "random:", "random:1", "", "(" * 300, "x" * 300,
)  # fmt: skip


@pytest.mark.parametrize("spec", SPECS)
def test_policies_with_access_to_files_code_or_unbounded_time_are_rejected(client, spec, root):
    message = error(client.post("/api/play", json={"game": SKIPS, "seed": 1, "policy": spec}))
    assert "\n" not in message
    assert str(root) not in message


NAMES = ("/etc/passwd", "../outside/secret", "link", "linked", "first/../first", "", ".", "x\n", "x\0")
EXACT = {"kind": "exact"}
BAD = [
    *(("puzzles", {"run": name}, "there is no run ") for name in NAMES),
    ("play", {"game": LARGE, "seed": 1, "policy": "expectiminimax:depth=9"}, "depth=9 takes too long on 15 x 15"),
    ("values", {"game": SKIPS, "position": START}, "'panel' cannot be taken"),
    ("values", {"game": SKIPS, "position": START, "panel": {"kind": "exact", "more": 1}}, "'panel.more'"),
    ("values", {"game": SKIPS, "position": START, "panel": {"kind": "all"}}, "'panel.kind'"),
    ("values", {"game": SKIPS, "position": "ooo/xx./... x", "panel": EXACT}, ""),
    ("values", {"game": SKIPS, "position": "xxx/.../... o", "panel": EXACT}, ""),
    ("values", {"game": SKIPS, "position": "..../.... o", "panel": EXACT}, ""),
    ("values", {"game": {"rows": 16}, "position": START, "panel": EXACT}, "'game.rows'"),
    ("values", {"game": {"rows": True}, "position": START, "panel": EXACT}, "'game.rows'"),
    ("values", {"game": {"rows": "3"}, "position": START, "panel": EXACT}, "'game.rows'"),
    ("values", {"game": {"skip_chance": 0.6}, "position": START, "panel": EXACT}, "'game.skip_chance'"),
    ("values", {"game": {"gravity": 1}, "position": START, "panel": EXACT}, "'game.gravity'"),
    ("values", {"game": {"misere": "true"}, "position": START, "panel": EXACT}, "'game.misere'"),
    ("values", {"game": {"first": "x"}, "position": START, "panel": EXACT}, "'game.first'"),
    ("values", {"game": {"first": "random"}, "position": "xx./.../... o", "panel": EXACT}, "comes from no game"),
    ("values", {"game": {"hidden": "classic"}, "position": START, "panel": EXACT}, "'game.hidden'"),
    ("values", {"game": {"gravity": True}, "position": "o../.../x.. o", "panel": EXACT}, "above an empty cell"),
    ("replay", {"game": {"gravity": True}, "moves": "b3 b1"}, "move 2, b1, is illegal: stones fall to the lowest"),
    ("replay", {"game": {"gravity": True}, "opening": "o../.../... x"}, "above an empty cell"),
    ("values", {"game": {"win_length": 4}, "position": START, "panel": EXACT}, "win_length=4"),
    ("values", [], "'the request'"),
    ("play", {"game": SKIPS, "seed": 1}, "say one of them"),
    ("play", {"game": SKIPS, "seed": 1, "cell": 0, "policy": "random"}, "say one of them"),
    ("play", {"game": SKIPS, "seed": -1, "cell": 0}, "'seed'"),
    ("play", {"game": SKIPS, "seed": 1, "cell": 9}, "cell=9 is no empty cell"),
    ("play", {"game": SKIPS, "seed": 1, "cell": 4, "moves": "b2"}, "cell=4 is no empty cell"),
    ("replay", {"game": SKIPS, "moves": "b2 b2"}, "holds a stone"),
    ("replay", {"game": SKIPS, "moves": "z9"}, "z9"),
    ("replay", {"game": {}, "moves": "b2+ a1"}, ""),
    ("replay", {"game": SKIPS, "moves": "a1+ b1+ c1 a2"}, ""),
    ("replay", {"game": SKIPS, "opening": "ooo/xx./... x"}, ""),
    ("puzzles", {"line": {"game": LARGE, "moves": "a1"}}, "is not offered on a board of 15 x 15"),
    ("puzzles", {"line": {"game": SKIPS, "moves": "b2 b2"}}, "holds a stone"),
    ("puzzles", {"name": "first"}, "'name'"),
]


@pytest.mark.parametrize(("name", "content", "message"), BAD, ids=[f"{i}-{bad[0]}" for i, bad in enumerate(BAD)])
def test_invalid_requests_are_rejected_in_a_sentence(client, name, content, message):
    found = error(client.post(f"/api/{name}", json=content))
    assert message in found
    assert len(found) > 10
    assert "\n" not in found


def test_requests_that_are_no_json_or_have_another_address_are_rejected(client):
    for body in (b"", b"{", b"\xff\xfe", b"[" * 16000, b'{"game": NaN}', b"1" * 16000, b"null"):
        error(client.post("/api/replay", headers=JSON, content=body))
    error(client.post("/api/replay", content=b"{}", headers={"content-type": "text/plain"}))
    error(client.post("/api/nothing", json={}), 405)
    error(client.get("/api/replay"), 404)
    error(client.put("/api/replay", json={}), 405)
    for path in ("/../app.py", "/%2e%2e/app.py", "/../etc/passwd", "/assets/", "/docs", "/openapi.json"):
        error(client.get(path), 404)


def test_the_size_of_a_request_is_limited_before_it_is_read(client):
    """With a length that is too large or wrong, or without one."""
    error(client.post("/api/replay", content=b" " * (1 << 14 | 1), headers=JSON), 413)
    for length in ("\N{SUPERSCRIPT TWO}", "-1", "1" * 10):
        error(
            client.post("/api/replay", content=b"{}", headers={**JSON, "content-length": length.encode("latin-1")}), 413
        )
    for more in ({}, {"content-length": "2"}):
        headers = {**JSON, **more, "transfer-encoding": "chunked"}
        error(client.post("/api/replay", content=b"{}", headers=headers), 413)


@pytest.mark.parametrize(
    ("status", "headers"),
    [
        *((421, {"host": host}) for host in ("evil.example", "evil.example:8000", "127.0.0.1:80", "")),
        *(
            (403, {"origin": f"{origin}"})
            for origin in ("http://evil.example", "null", "https://127.0.0.1:8000", "http://127.0.0.1:8001",
                           "http://localhost:8000")
        ),
        (403, {"sec-fetch-site": "cross-site"}),
        (200, {"origin": "http://127.0.0.1:8000"}),
        (200, {"host": "LOCALHOST:8000", "sec-fetch-site": "same-origin"}),
        (421, [("host", "127.0.0.1:8000"), ("host", "127.0.0.1:8000")]),
    ],
)  # fmt: skip
def test_only_requests_of_the_same_host_and_origin_are_answered(client, status, headers):
    answer = client.post("/api/about", json={}, headers=headers)
    assert (answer.status_code, "error" in answer.json()) == (status, status != 200)


def test_every_response_has_the_security_headers(client):
    for method, path in (("GET", "/"), ("GET", "/look.css"), ("GET", "/x"), ("POST", "/api/about")):
        headers = client.request(method, path, json={}).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert "access-control-allow-origin" not in headers


def test_the_assets_need_nothing_from_elsewhere():
    from ttt_apps.explorer.app import ASSETS

    for file in ASSETS.iterdir():
        text = file.read_text().replace("http://www.w3.org/2000/svg", "")
        assert not [word for word in ("http:", "https:", "innerHTML") if word in text], file.name
        if file.suffix == ".html":
            assert not [word for word in ("style=", "<script>") if word in text]


# ---------------------------------------------------------------------------------------------------------------------
# Many requests


def test_the_cache_makes_each_value_once_and_is_bounded():
    cache, made = LRUCache(3), []

    def make(key):
        time.sleep(0.01)
        made.append(key)
        return key

    threads = [threading.Thread(target=cache.get, args=(1, lambda: make(1))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made == [1]
    for key in (2, 3, 1, 4):  # 1 is used again, so that 2 is dropped
        cache.get(key, lambda key=key: make(key))
    assert (made, [key in cache for key in (1, 2, 3, 4)]) == ([1, 2, 3, 4], [True, False, True, True])
    cache.get(2, lambda: make(2))
    assert made[-1] == 2
    with pytest.raises(ZeroDivisionError):
        cache.get(5, lambda: 1 / 0)
    assert cache.get(5, lambda: 5) == 5


def test_concurrent_games_do_not_interfere(root):
    """Visitors play games with values of several panels, and each has its own."""
    api, solution = ExplorerApi(Root(root)), solve(GAME_3X3)

    def play_game(seed):
        rng = random.Random(seed)
        live, moves, answer = LiveGame(GAME_3X3, draw_key(np.random.default_rng(seed)), 0), "", None
        while live.outcome is None:
            position = to_text(live.boards.position(0), GAME_3X3)
            body = {"game": SKIPS, "position": position}
            for panel in (
                {"kind": "compressed", "rank": rng.randrange(20)},
                {"kind": "mcts", "simulations": 20},
                EXACT,
            ):
                shown = api.values(ValuesRequest.model_validate({**body, "panel": panel}))
            exact = solution.action_values(live.boards)[0]
            np.testing.assert_allclose(np.array(shown["values"], float), exact, atol=1e-12)
            cell = rng.choice(np.flatnonzero(live.cells == 0).tolist())
            body = {"game": SKIPS, "moves": moves, "seed": seed, "cell": cell}
            answer = api.play(PlayRequest.model_validate(body))
            live.move(cell)
            moves = answer["moves"]
            assert answer["positions"][-1]["position"] == to_text(live.boards.position(0), GAME_3X3)
        assert answer["result"] == ("draw" if live.outcome == DRAW else "ox"[live.outcome])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(play_game, range(8)))


# ---------------------------------------------------------------------------------------------------------------------
# Random requests

POLICIES = (
    "random", "optimal", "mcts:simulations=9", "svd:rank=3", "run:first", "tt:rank=2,w=3", "expectiminimax:depth=2",
)  # fmt: skip


def random_request(rng):
    """A request, often a valid one."""
    game = {"rows": rng.randint(1, 4), "columns": rng.randint(1, 4), "win_length": rng.randint(1, 4)}
    game["skip_chance"] = rng.choice((0, 0.25, 0.5, rng.random()))
    cells = "".join(rng.choice("..ox") for _ in range(game["rows"] * game["columns"]))
    rows = [cells[start : start + game["columns"]] for start in range(0, len(cells), game["columns"])]
    position = f"{'/'.join(rows)} {rng.choice('ox')}"
    moves = " ".join(rng.choice("abc") + rng.choice("123") + rng.choice(("", "", "+")) for _ in range(rng.randrange(5)))
    panel = {
        "kind": rng.choice(("exact", "prove", "random", "compressed", "run", "search", "mcts", "policy")),
        "rank": rng.randrange(30),
        "simulations": 9,
        "run": "first",
        "nodes": 99,
        "policy": rng.choice(POLICIES),
    }
    return rng.choice((
        ("values", {"game": game, "position": position, "panel": panel}),
        ("replay", {"game": game, "moves": moves}),
        ("replay", {"game": game, "moves": "", "opening": position}),
        ("review", {"game": game, "moves": moves}),
        ("play", {"game": game, "moves": moves, "seed": rng.randrange(99), "policy": rng.choice(POLICIES)}),
        ("play", {"game": game, "moves": moves, "seed": rng.randrange(99), "cell": rng.randrange(12)}),
        ("puzzles", {"run": rng.choice(("first", "link", "broken"))}),
    ))  # fmt: skip


def send_random_requests(client, count, seed):
    """Send random requests, of which some are damaged; every status is 200 or 4xx and never 500, in JSON."""
    rng, damages, statuses = random.Random(seed), np.random.default_rng(seed), []
    for _ in range(count):
        name, content = random_request(rng)
        body = (damaged_json(content, damages) if rng.random() < 0.25 else json.dumps(content)).encode()
        if rng.random() < 0.1:
            body = damaged_bytes(body, damages)
        answer = client.post(f"/api/{name}", content=body, headers=JSON)
        assert answer.status_code == 200 or 400 <= answer.status_code < 500, (name, body)
        assert ("error" in answer.json()) == (answer.status_code != 200)
        statuses.append(answer.status_code)
    return statuses


def test_an_internal_error_is_one(monkeypatch):
    def replay(self, request: LineRequest):
        return {}["missing"]

    monkeypatch.setattr(ExplorerApi, "replay", replay)
    with Client(make_explorer()) as client:
        error(client.post("/api/replay", json={"game": SKIPS}), 500)


def test_random_requests_are_answered_or_rejected(client):
    statuses = send_random_requests(client, 300, seed=1)
    assert min(statuses.count(200), statuses.count(400)) > 40  # enough are valid, and enough are not


# ---------------------------------------------------------------------------------------------------------------------
# The command


def test_the_command_serves_until_it_is_interrupted(root):
    import httpx

    with Program("play.py", "--web", "--runs", root) as program, httpx.Client(timeout=TIMEOUT_S) as http:
        assert "<title>ttt_envs explorer" in http.get(program.address).text
        assert http.post(f"{program.address}api/about", json={}).json()["runs"][0]["name"] == "first"
        program.process.send_signal(signal.SIGINT)
        assert program.process.communicate(timeout=TIMEOUT_S) == ("", "")
    assert program.process.returncode == 0
    assert program.line.startswith("The explorer is at http://127.0.0.1:")


def test_the_socket_names_its_protocol():
    """Otherwise asyncio lets Nagle's algorithm delay every response by 40 ms."""
    with listening(0) as bound:
        assert bound.proto == socket.IPPROTO_TCP
