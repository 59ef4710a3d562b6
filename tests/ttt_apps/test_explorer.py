"""The explorer's responses and rejections. Its page in a browser: test_explorer_page.py."""

import asyncio
import contextlib
import ctypes
import gc
import json
import logging
import platform
import random
import signal
import socket
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from damage import damaged_bytes, damaged_json
from explorers import Client, Program, make_explorer, serve
from tiny import GAME, train_run

from baselines.compression import decomposition
from baselines.exact import SearchedSolution, build, estimate, solve
from baselines.expectiminimax import Expectiminimax
from baselines.mcts import MCTS
from baselines.tables import Softmax, Table, source_values
from ttt_apps.board import LiveGame
from ttt_apps.explorer.api import ExplorerApi
from ttt_apps.explorer.caches import LRUCache
from ttt_apps.explorer.command import is_loopback, listening
from ttt_envs import Game
from ttt_envs.agents.specs import make_policy
from ttt_envs.core.random import draw_key
from ttt_envs.game.boards import Boards, cell_at, coordinate, from_text, to_text, winning_line_cells
from ttt_envs.game.rules import DRAW
from ttt_eval.exact.dynamic_programming import perfect_value
from ttt_eval.matches.games import Move, PlayedGame, append_games
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
PLAYED = PlayedGame(
    GAME_3X3, ("optimal", "random"), (Move(4), Move(0, True), Move(8), Move(1), Move(5), Move(7)), 0
)  # fmt: skip


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A root with a run and a log, and links to what is outside it."""
    outside = tmp_path_factory.mktemp("outside")
    train_run("q-learning", outside / "secret")
    folder = tmp_path_factory.mktemp("root")
    train_run("q-learning", folder / "first", "--exact-every=100")
    append_games(folder / "games.jsonl", [PLAYED, PLAYED])
    append_games(outside / "secret.jsonl", [PLAYED])
    (folder / "link").symlink_to(outside / "secret")
    (folder / "games-link.jsonl").symlink_to(outside / "secret.jsonl")
    (folder / "broken").mkdir()
    (folder / "broken" / "config.json").write_text("{" * 100)
    (folder / "notes.jsonl").write_text("no games\n")
    return folder


@pytest.fixture(scope="module")
def explorer(root):
    made = make_explorer(root)
    yield made
    made.close()


@pytest.fixture(scope="module")
def client(explorer):
    with contextlib.closing(Client(explorer)) as made:
        yield made


@pytest.fixture(autouse=True)
def no_internal_errors(caplog):
    """No request causes an internal error."""
    with caplog.at_level(logging.ERROR, logger="ttt_apps.explorer.app"):
        yield
    assert not caplog.records


def ask(client, path, /, **content):
    answer = client.post(f"/api/{path}", json=content)
    assert answer.status_code == 200, answer.text
    return answer.json()


def values(client, position, *panels, game=SKIPS):
    return ask(client, "values", game=game, position=position, panels=list(panels))["panels"]


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
    kinds = ("exact", "random", "compressed", "search", "mcts")
    start = "/".join(["." * 15] * 15) + " o"
    answers = values(client, start, *({"kind": kind, "simulations": 50} for kind in kinds), game=LARGE)
    assert ["error" in answer for answer in answers] == [True, True, True, False, False]
    assert ask(client, "play", game=LARGE, seed=1, policy="mcts:simulations=50")["plies"][0]["loss"] is None


# ---------------------------------------------------------------------------------------------------------------------
# Exact values, reviews, and panels that come one by one

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


def test_larger_tables_are_offered_with_their_cost(client, monkeypatch, tmp_path):
    """17 to 21 cells are solved on request only; larger boards never."""
    monkeypatch.setenv("TTT_ENVS_CACHE", str(tmp_path))
    needed = estimate(Game(2, 9, 3))
    status = ask(client, "solve", game=STORED)
    assert status == {"state": "ask", "seconds": needed.seconds, "disk": needed.disk, "memory": needed.memory}
    start = "........./......... o"
    assert values(client, start, {"kind": "exact"}, game=STORED)[0]["ask"] == status
    assert ask(client, "replay", game=STORED)["exact"] == "ask"
    monkeypatch.setenv("TTT_ENVS_CACHE_BYTES", "1000")
    message = error(client.post("/api/solve", json={"game": STORED, "start": True}))
    assert "TTT_ENVS_CACHE_BYTES=" in message
    large = {"rows": 5, "columns": 5, "win_length": 4}
    assert ask(client, "solve", game=large) == {"state": "none"}
    assert ask(client, "replay", game=large)["exact"] == "none"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("content", "move"),
    [(STORED, "e1"), ({"rows": 4, "columns": 5, "win_length": 4, "skip_chance": 0.25, "gravity": True}, "c4")],
    ids=["flat", "gravity"],
)
def test_a_table_is_computed_on_request_in_another_process(content, move, monkeypatch, tmp_path):
    monkeypatch.setenv("TTT_ENVS_CACHE", str(tmp_path))
    game, app = Game(**content), make_explorer()
    with contextlib.closing(app), contextlib.closing(Client(app)) as client:
        status = ask(client, "solve", game=content)
        assert (status["state"], status["disk"]) == ("ask", estimate(game).disk)
        assert ask(client, "solve", game=content, start=True)["state"] == "building"
        other = error(client.post("/api/solve", json={"game": STORED | {"columns": 10}, "start": True}))
        assert other.startswith(f"{game} is being solved")
        until = time.monotonic() + 10 * TIMEOUT_S
        while (status := ask(client, "solve", game=content))["state"] == "building" and time.monotonic() < until:
            time.sleep(0.2)
        assert (status["state"], status["failure"]) == ("soon", None)
        answer = ask(client, "review", game=content, moves=move)
        tolerance = 1e-6 if game.skip_chance else 0.0
        assert answer["positions"][0]["value"] == pytest.approx(perfect_value(game), abs=tolerance)
        assert ask(client, "replay", game=content)["exact"] == "now"


def test_a_database_gives_values_where_it_begins(monkeypatch, tmp_path):
    """Without a table of the whole game, later positions have the values of a database; no request names its folder."""
    game = Game(2, 11, 3)
    table = build(game, tmp_path / game.slug, stones=18)
    app = make_explorer(databases=tmp_path)
    late, early = "ooxxooxxoox/xxooxxoo... x", "." * 11 + "/" + "." * 11 + " o"
    with contextlib.closing(app), contextlib.closing(Client(app)) as client:
        body = {"rows": 2, "columns": 11, "win_length": 3, "skip_chance": 0.0}
        assert ask(client, "replay", game=body)["exact"] == "part"
        boards = Boards.from_positions([from_text(late, game)])
        found = values(client, late, {"kind": "exact"}, game=body)[0]["values"]
        np.testing.assert_array_equal(np.array(found, float), table.action_values(boards)[0])
        message = values(client, early, {"kind": "exact"}, game=body)[0]["error"]
        assert message == "the database has the positions from 17 stones on, and this has 0"


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
    assert values(client, START, {"kind": "prove"})[0]["error"].startswith("skip_chance=0.25 leaves nothing to prove")


def test_panels_come_one_by_one_and_say_what_they_wait_for(monkeypatch):
    """A slow panel holds up none of the others."""
    from ttt_apps.explorer import streams
    from ttt_apps.explorer.panels import Panels

    monkeypatch.setattr(streams, "WAIT_S", 0.02)
    answer, go = Panels.answer, threading.Event()

    def delay(self, game, boards, request):
        if request.kind == "random":
            go.wait(TIMEOUT_S)
        return answer(self, game, boards, request)

    monkeypatch.setattr(Panels, "answer", delay)
    content = {"game": SKIPS, "position": START, "panels": [{"kind": "random"}, {"kind": "exact"}, {"kind": "run"}]}
    found = []
    with serve() as port, httpx_client(port) as http:
        headers = {"accept": "application/x-ndjson"}
        with http.stream("POST", "/api/values", json=content, headers=headers) as response:
            assert response.headers["content-type"].startswith("application/x-ndjson")
            for text in response.iter_lines():
                found.append(json.loads(text))
                if any("waits" in one for one in found[-1:]):
                    go.set()
    assert found[0] == {"position": START}
    finished = [one["number"] for one in found[1:] if "waits" not in one]
    assert sorted(finished) == [0, 1, 2]
    assert finished[-1] == 0
    waits = [one for one in found[1:] if "waits" in one]
    assert {one["kind"] for one in waits} >= {"random"}
    by_number = {one["number"]: one for one in found[1:] if "waits" not in one}
    assert by_number[2]["error"] == "no run is chosen: choose one"
    expected = solve(GAME_3X3).action_values(Boards.from_positions([from_text(START)]))[0]
    check_values(by_number[1], expected)


def httpx_client(port):
    import httpx

    return httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=TIMEOUT_S)


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
            assert "error" in values(client, start, {"kind": kind}, game=game)[0]


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
            assert "comes from no game" in error(
                client.post("/api/values", json={"game": content, "position": theirs, "panels": EXACT})
            )
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
    train_run("q-learning", tmp_path / "misere", "--misere", "--exact-every=100")
    append_games(tmp_path / "games.jsonl", [PlayedGame(Game(misere=True), ("random", "random"), (Move(4),))])
    app = make_explorer(tmp_path)
    with contextlib.closing(app), contextlib.closing(Client(app)) as client:
        panel = {"kind": "run", "run": "misere"}
        why = values(client, ".../... o", panel, game=TINY)[0]["error"]
        assert why.endswith("play it by its own rules")
        assert str(tmp_path) not in why
        assert "play it by its own rules" in error(
            client.post("/api/play", json={"game": TINY, "seed": 1, "policy": "run:misere"})
        )
        own = {**TINY, "misere": True}
        game = Game(2, 3, 2, 0.25, misere=True)
        learned = make_policy(f"run:({tmp_path / 'misere'})", game).action_values(Boards.start(game))[0]
        check_values(values(client, ".../... o", panel, game=own)[0], learned)
        assert ask(client, "about")["runs"][0]["game"] == game.to_dict()
        assert ask(client, "run", name="misere")["game"] == game.to_dict()
        for one in ask(client, "puzzles", run="misere")["puzzles"]:
            assert one["game"] == game.to_dict()
        found = ask(client, "puzzles", line={"game": own, "moves": "a1 b1 c1"})["puzzles"]
        assert {one["game"]["misere"] for one in found} <= {True}
        assert ask(client, "logged", name="games.jsonl", number=1)["game"]["misere"]


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


def test_logged_games_are_replayed(client):
    listed = ask(client, "log", name="games.jsonl")["games"]
    expected = [(number, ["optimal", "random"], 6) for number in (1, 2)]
    assert [(one["number"], one["players"], one["plies"]) for one in listed] == expected
    answer = ask(client, "logged", name="games.jsonl", number=2)
    assert answer["moves"] == "b2 a1+ c3 b1 c2 b3"
    assert len(answer["positions"]) == 7


def test_the_curve_and_the_boards_of_a_run_are_those_of_its_files(client, root):
    answer = ask(client, "run", name="first")
    rows, lines = (
        [json.loads(line) for line in (root / "first" / name).read_text().splitlines()]
        for name in ("metrics.jsonl", "choices.jsonl")
    )
    names = ("games", "exploitability")
    assert [[mark.get(name) for name in names] for mark in answer["marks"]] == [
        [row.get(name) for name in names] for row in rows
    ]
    assert [mark["games"] for mark in answer["boards"]] == [line["games"] for line in lines]
    assert all(mark in answer["marks"] and "exploitability" in mark for mark in answer["boards"])
    assert (len(lines), answer["no_boards"]) == (2, "")
    for number, line in enumerate(lines):
        shown = ask(client, "mark", name="first", number=number)
        assert shown["games"] == line["games"]
        assert [one["position"] for one in shown["boards"]] == [one["position"] for one in line["choices"]]
        assert shown["boards"][0]["name"] == "the empty board"
        for one, stored in zip(shown["boards"], line["choices"], strict=True):
            check_values(one["expects"], np.array(stored["values"], float))
            stones = one["position"].partition(" ")[0].replace("/", "")
            shares = [
                share if stone == "." else None for stone, share in zip(stones, stored["probabilities"], strict=True)
            ]
            assert one["plays"]["values"] == shares
            assert one["plays"]["texts"] == [None if share is None else f"{share:.0%}" for share in shares]


def test_a_curve_is_shown_without_its_boards_if_these_are_damaged(client, root):
    path = root / "first" / "choices.jsonl"
    whole = path.read_text()
    try:
        for text, message in (
            ("nonsense", "line 1 of first/choices.jsonl is no mark with choices: it is not JSON"),
            (" " * (1 << 22 | 1), "at most 4,194,304 are read"),
        ):
            path.write_text(text)
            answer = ask(client, "run", name="first")
            assert (answer["boards"], len(answer["marks"]) > 1) == ([], True)
            assert message in answer["no_boards"]
            error(client.post("/api/mark", json={"name": "first", "number": 0}))
        path.unlink()
        answer = ask(client, "run", name="first")
        assert (answer["boards"], answer["no_boards"]) == ([], "")
    finally:
        path.write_text(whole)


@pytest.mark.parametrize(("rows", "columns"), [(1, 5), (3, 3), (3, 7), (4, 4), (5, 6), (7, 9), (15, 15)])
def test_a_size_alone_has_the_win_length_of_the_size(client, rows, columns):
    from ttt_apps.explorer.schemas import GameRequest

    game = GameRequest(rows=rows, columns=columns).game()
    assert game == Game.of_size((rows, columns))
    assert ask(client, "about")["win_lengths"][min(rows, columns) - 1] == game.win_length
    assert "win=" not in explorer_command(game)
    assert "win=2" in explorer_command(replace(game, win_length=2))


def test_about_lists_runs_logs_and_playable_policies(client):
    about = ask(client, "about")
    assert [run["name"] for run in about["runs"]] == ["first"]
    assert about["logs"] == ["games.jsonl"]
    for name, settings in about["policies"].items():
        path = ["path=first"] if name == "run" else []
        game = TINY if name == "run" else SKIPS
        offered = [f"{key}={choice}" for key, setting in settings.items() for choice in setting["choices"]]
        for spec in (":".join([name, *path]), *(f"{name}:{','.join([*path, choice])}" for choice in offered)):
            ask(client, "play", game=game, seed=1, policy=spec)


# ---------------------------------------------------------------------------------------------------------------------
# Rejected requests

SPECS = (
    "os:system", "module:Class", "ttt_apps.demo:main", "sb3:model.zip,algorithm=dqn", "gomocup:/bin/sh",
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


NAMES = (
    "/etc/passwd",
    "../outside/secret.jsonl",
    "games-link.jsonl",
    "notes.jsonl",
    "first/metrics.jsonl",
    "",
    ".",
    "x\n",
)
EXACT = [{"kind": "exact"}]
BAD = [
    *(("log", {"name": name}, "there is no log ") for name in NAMES),
    *(("run", {"name": name}, "there is no run ") for name in NAMES),
    ("mark", {"name": "link", "number": 0}, "there is no run"),
    ("mark", {"name": "first", "number": 2}, "boards at 2, counted from 0"),
    ("logged", {"name": "games.jsonl", "number": 3}, "fewer games"),
    ("play", {"game": LARGE, "seed": 1, "policy": "expectiminimax:depth=9"}, "depth=9 takes too long on 15 x 15"),
    ("values", {"game": SKIPS, "position": START}, "'panels' cannot be taken"),
    ("values", {"game": SKIPS, "position": START, "panels": []}, "'panels'"),
    ("values", {"game": SKIPS, "position": START, "panels": EXACT * 9}, "'panels'"),
    ("values", {"game": SKIPS, "position": START, "panels": [{"kind": "exact", "more": 1}]}, "'panels.0.more'"),
    ("values", {"game": SKIPS, "position": "ooo/xx./... x", "panels": EXACT}, ""),
    ("values", {"game": SKIPS, "position": "xxx/.../... o", "panels": EXACT}, ""),
    ("values", {"game": SKIPS, "position": "..../.... o", "panels": EXACT}, ""),
    ("values", {"game": {"rows": 16}, "position": START, "panels": EXACT}, "'game.rows'"),
    ("values", {"game": {"rows": True}, "position": START, "panels": EXACT}, "'game.rows'"),
    ("values", {"game": {"rows": "3"}, "position": START, "panels": EXACT}, "'game.rows'"),
    ("values", {"game": {"skip_chance": 0.6}, "position": START, "panels": EXACT}, "'game.skip_chance'"),
    ("values", {"game": {"gravity": 1}, "position": START, "panels": EXACT}, "'game.gravity'"),
    ("values", {"game": {"misere": "true"}, "position": START, "panels": EXACT}, "'game.misere'"),
    ("values", {"game": {"first": "x"}, "position": START, "panels": EXACT}, "'game.first'"),
    ("values", {"game": {"first": "random"}, "position": "xx./.../... o", "panels": EXACT}, "comes from no game"),
    ("values", {"game": {"hidden": "classic"}, "position": START, "panels": EXACT}, "'game.hidden'"),
    ("values", {"game": {"gravity": True}, "position": "o../.../x.. o", "panels": EXACT}, "above an empty cell"),
    ("replay", {"game": {"gravity": True}, "moves": "b3 b1"}, "move 2, b1, is illegal: stones fall to the lowest"),
    ("replay", {"game": {"gravity": True}, "opening": "o../.../... x"}, "above an empty cell"),
    ("values", {"game": {"win_length": 4}, "position": START, "panels": EXACT}, "win_length=4"),
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
    ("logged", {"name": "games.jsonl", "number": 0}, "'number'"),
    ("about", {"more": 1}, "'more'"),
    ("puzzles", {"run": "link"}, "there is no run"),
    ("puzzles", {"line": {"game": LARGE, "moves": "a1"}}, "is not offered on a board of 15 x 15"),
    ("puzzles", {"line": {"game": SKIPS, "moves": "b2 b2"}}, "holds a stone"),
    ("puzzles", {"name": "first"}, "'name'"),
    ("mark", {"name": "first"}, "'number'"),
    ("mark", {"name": "first", "number": -1}, "'number'"),
    ("mark", {"name": "first", "number": 2000}, "'number'"),
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
    error(client.post("/api/replay", content=b"{}", headers={"content-type": "text/plain"}), 415)
    error(client.post("/api/nothing", json={}), 404)
    error(client.get("/api/replay"), 405)
    error(client.put("/api/replay", json={}), 405)
    for path in ("/assets/../app.py", "/assets/%2e%2e/app.py", "/../etc/passwd", "/assets/", "/docs", "/openapi.json"):
        error(client.get(path), 404)


def test_the_size_of_a_request_is_limited_while_it_is_read(client):
    """With a length that is too large, wrong, or missing."""
    error(client.post("/api/replay", content=b" " * (1 << 14 | 1), headers=JSON), 413)
    for length in ("\N{SUPERSCRIPT TWO}", "-1", "1" * 10):
        error(
            client.post("/api/replay", content=b"{}", headers={**JSON, "content-length": length.encode("latin-1")}), 413
        )
    taken, sent = 0, []
    headers = [(b"host", b"127.0.0.1:8000")]
    scope = {"type": "http", "method": "POST", "path": "/api/replay", "query_string": b"", "headers": headers}

    async def receive():
        nonlocal taken
        taken += 1 << 12
        assert taken <= 1 << 15
        return {"type": "http.request", "body": b" " * (1 << 12), "more_body": True}

    async def send(message):
        sent.append(message)

    asyncio.run(client.app(scope, receive, send))
    assert sent[0]["status"] == 413


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
        (200, {"host": "[::1]:8000"}),
        (421, [("host", "127.0.0.1:8000"), ("host", "127.0.0.1:8000")]),
    ],
)  # fmt: skip
def test_only_requests_of_the_same_host_and_origin_are_answered(client, status, headers):
    answer = client.post("/api/about", json={}, headers=headers)
    assert (answer.status_code, "error" in answer.json()) == (status, status != 200)


def test_a_token_is_required_if_others_can_connect(explorer):
    from ttt_apps.explorer.security import AccessPolicy, GuardMiddleware

    guarded = Client(GuardMiddleware(explorer.app, AccessPolicy("192.0.2.7", 8000, "right")), "http://192.0.2.7:8000")
    for path in ("/", "/?token=wrong", "/?token=", "/assets/board.js?token=right", "/?token=%FF"):
        error(guarded.get(path), 401)
    for cookie in (b"ttt_token_8000=wrong", b"ttt_token_8000=", b'ttt_token_8000="\xff', b"ttt_token=right"):
        error(guarded.get("/", headers={"cookie": cookie}), 401)
    first = guarded.get("/?token=right")
    assert (first.status_code, first.headers["location"]) == (303, "/")
    assert {"httponly", "samesite=strict", "path=/"} <= set(first.headers["set-cookie"].lower().split("; "))
    assert guarded.get("/").status_code == 200
    guarded.http.cookies.clear()
    assert guarded.post("/api/about", json={}, headers={"x-ttt-token": "right"}).status_code == 200
    error(guarded.post("/api/about", json={}), 401)
    error(guarded.get("/?token=right", headers={"host": "evil.example:8000"}), 421)
    guarded.close()


def test_every_response_has_the_security_headers(client):
    for method, path in (("GET", "/"), ("GET", "/assets/look.css"), ("GET", "/x"), ("POST", "/api/about")):
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


def test_more_requests_than_may_wait_are_rejected():
    from ttt_apps.explorer.app import ServerBusyError, WorkerPool

    pool, started, go = WorkerPool(workers=1, max_waiting=1), threading.Event(), threading.Event()

    def work():
        started.set()
        go.wait(10)
        return 1

    async def run():
        first, second = (asyncio.ensure_future(pool.run(work)) for _ in range(2))
        await asyncio.sleep(0)
        with pytest.raises(ServerBusyError):
            await pool.run(work)
        go.set()
        assert await asyncio.gather(first, second) == [1, 1]
        assert await pool.run(work) == 1

    asyncio.run(run())
    assert started.is_set()
    pool.close()
    busy = make_explorer(quick=WorkerPool(1, -1))
    with contextlib.closing(busy), contextlib.closing(Client(busy)) as client:
        message = error(client.post("/api/about", json={}), 429)
    assert message == "too many requests at once: try again in a moment"


def test_slow_requests_do_not_delay_quick_ones(monkeypatch):
    from ttt_apps.explorer.api import ExplorerApi
    from ttt_apps.explorer.streams import WORKERS

    go, started = threading.Event(), threading.Semaphore(0)

    def compile_long(self, request):
        started.release()
        go.wait(TIMEOUT_S)
        return {}

    monkeypatch.setattr(ExplorerApi, "values", compile_long)
    slow = {"game": SKIPS, "position": START, "panels": [{"kind": "mcts"}]}
    quick = {"about": {}, "replay": {"game": SKIPS, "moves": "b2"}, "play": {"game": SKIPS, "seed": 0, "cell": 4}}

    async def run(post):
        waiting = [asyncio.ensure_future(post("/api/values", json=slow)) for _ in range(WORKERS + 2)]
        while not started.acquire(blocking=False):
            await asyncio.sleep(0.01)
        try:
            for name, content in quick.items():
                answer = await asyncio.wait_for(post(f"/api/{name}", json=content), TIMEOUT_S / 2)
                assert answer.status_code == 200, answer.text
            assert not any(one.done() for one in waiting)
        finally:
            go.set()
            answers = await asyncio.gather(*waiting)
        assert {answer.status_code for answer in answers} == {200}

    app = make_explorer()
    with contextlib.closing(app), contextlib.closing(Client(app)) as client:
        client.runner.run(run(client.http.post))


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
    assert (made, len(cache)) == ([1, 2, 3, 4], 3)
    cache.get(2, lambda: make(2))
    assert made[-1] == 2
    with pytest.raises(ZeroDivisionError):
        cache.get(5, lambda: 1 / 0)
    assert cache.get(5, lambda: 5) == 5


def play_games(port, seed, until, problems, finished):
    """Play games as a visitor, and check that they are its own."""
    rng, solution = random.Random(seed), solve(GAME_3X3)

    def ask_until_free(path, **content):
        while (answer := http.post(f"/api/{path}", json={"game": SKIPS, **content})).status_code == 429:
            time.sleep(0.05)
        assert answer.status_code == 200, answer.text
        return answer.json()

    try:
        with httpx_client(port) as http:
            while seed not in finished or time.monotonic() < until:
                key_seed = rng.randrange(10**6)
                live, moves = LiveGame(GAME_3X3, draw_key(np.random.default_rng(key_seed)), 0), ""
                while live.outcome is None:
                    position = to_text(live.boards.position(0), GAME_3X3)
                    rank = {"kind": "compressed", "rank": rng.randrange(20)}
                    panels = [{"kind": "exact"}, rank, {"kind": "mcts", "simulations": 20}]
                    shown = ask_until_free("values", position=position, panels=panels)
                    assert shown["position"] == position
                    found = np.array(shown["panels"][0]["values"], float)
                    np.testing.assert_allclose(found, solution.action_values(live.boards)[0], atol=1e-12)
                    cell = rng.choice(np.flatnonzero(live.cells == 0).tolist())
                    answer = ask_until_free("play", moves=moves, seed=key_seed, cell=cell)
                    live.move(cell)
                    moves = answer["moves"]
                    assert answer["positions"][-1]["position"] == to_text(live.boards.position(0), GAME_3X3)
                assert answer["result"] == ("draw" if live.outcome == DRAW else "ox"[live.outcome])
                finished.append(seed)
    except BaseException as problem:
        problems.append(problem)


@pytest.mark.needs("uvicorn")
@pytest.mark.parametrize(("visitors", "seconds"), [(3, 0), pytest.param(50, 60, marks=pytest.mark.slow)])
def test_concurrent_games_do_not_interfere(root, visitors, seconds):
    until, problems, finished = time.monotonic() + seconds, [], []
    with serve(root, warm=True) as port:
        visits = [
            threading.Thread(target=play_games, args=(port, seed, until, problems, finished))
            for seed in range(visitors)
        ]
        for visit in visits:
            visit.start()
        for visit in visits:
            visit.join()
    assert problems == []
    assert set(finished) == set(range(visitors))


# ---------------------------------------------------------------------------------------------------------------------
# Incomplete requests


def connect(port, text=""):
    client = socket.create_connection(("127.0.0.1", port), TIMEOUT_S)
    client.sendall(text.encode())
    return client


def receive_all(client):
    found = b""
    with contextlib.suppress(ConnectionResetError):
        while some := client.recv(1 << 16):
            found += some
    return found


def head(port, request="GET /", more=""):
    return f"{request} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nX-Ttt-Token: secret\r\n{more}\r\n"


@pytest.mark.needs("uvicorn")
@pytest.mark.parametrize("sent", ["", "GET / HTTP/1.1\r\nHost: 127.0.0.1", "a whole request, and half of another"])
@pytest.mark.parametrize("token", [None, "secret"])
def test_a_connection_with_half_a_head_is_closed(sent, token, monkeypatch):
    from ttt_apps.explorer import protocol

    with serve(token=token) as port:
        monkeypatch.setattr(protocol, "REQUEST_S", 0.5)
        with connect(port, "" if "whole" in sent else sent) as client:
            if "whole" in sent:
                client.sendall(head(port).encode())
                assert client.recv(9) == b"HTTP/1.1 "
                client.sendall(b"GET /assets")
            if not sent:
                assert receive_all(client) == b""
            until = time.monotonic() + TIMEOUT_S
            with contextlib.suppress(OSError):
                while True:  # more bytes do not extend the timeout
                    assert time.monotonic() < until
                    client.sendall(b"x")
                    time.sleep(0.1)
        with connect(port, head(port)) as client:
            assert client.recv(15) == b"HTTP/1.1 200 OK"


@pytest.mark.needs("uvicorn")
def test_half_a_body_gets_status_408(monkeypatch):
    from ttt_apps.explorer import security

    monkeypatch.setattr(security, "REQUEST_S", 0.2)
    with serve() as port:
        more = "Content-Type: application/json\r\nContent-Length: 100\r\n"
        with connect(port, head(port, "POST /api/about", more) + "{") as client:
            answer = receive_all(client)
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b"the rest of the request did not come in time" in answer


@pytest.mark.needs("uvicorn")
def test_the_oldest_of_too_many_incomplete_connections_are_closed(monkeypatch):
    from ttt_apps.explorer import protocol

    monkeypatch.setattr(protocol, "REQUEST_S", 10 * TIMEOUT_S)
    monkeypatch.setattr(protocol, "MAX_INCOMPLETE", 8)
    with serve(token="secret") as port, contextlib.ExitStack() as stack:
        clients = [stack.enter_context(connect(port, "GET / HTTP/1.1\r\n")) for _ in range(20)]
        for client in clients[:12]:
            assert receive_all(client) == b""
        with connect(port, head(port)) as client:
            assert client.recv(15) == b"HTTP/1.1 200 OK"
        clients[-1].setblocking(False)
        with pytest.raises(BlockingIOError):
            clients[-1].recv(1)


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
    panels = [
        {
            "kind": kind,
            "rank": rng.randrange(30),
            "simulations": 9,
            "run": "first",
            "nodes": 99,
            "policy": rng.choice(POLICIES),
        }
        for kind in rng.sample(("exact", "prove", "random", "compressed", "run", "search", "mcts", "policy"), 2)
    ]
    return rng.choice((
        ("values", {"game": game, "position": position, "panels": panels}),
        ("replay", {"game": game, "moves": moves}),
        ("replay", {"game": game, "moves": "", "opening": position}),
        ("review", {"game": game, "moves": moves}),
        ("solve", {"game": game}),
        ("play", {"game": game, "moves": moves, "seed": rng.randrange(99), "policy": rng.choice(POLICIES)}),
        ("play", {"game": game, "moves": moves, "seed": rng.randrange(99), "cell": rng.randrange(12)}),
        (rng.choice(("log", "x")), {"name": rng.choice(("games.jsonl", "first", "link"))}),
        ("logged", {"name": "games.jsonl", "number": rng.randrange(5)}),
        ("run", {"name": rng.choice(("first", "link", "broken"))}),
        ("mark", {"name": rng.choice(("first", "link", "broken")), "number": rng.randrange(3)}),
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


def test_an_internal_error_is_one_and_is_logged(root, monkeypatch, caplog):
    monkeypatch.setattr(ExplorerApi, "replay", lambda *_: {}["missing"])
    explorer = make_explorer(root)
    with contextlib.closing(explorer), contextlib.closing(Client(explorer)) as client:
        message = error(client.post("/api/replay", json={"game": SKIPS, "moves": ""}), 500)
    assert message == "this cannot be answered because of an error of the server: see its log"
    [record] = caplog.records
    assert record.exc_info[0] is KeyError
    caplog.clear()


def test_random_requests_are_answered_or_rejected(client):
    statuses = send_random_requests(client, 300, seed=1)
    assert min(statuses.count(200), statuses.count(400)) > 40  # enough are valid, and enough are not


@pytest.mark.slow
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="frees memory as glibc does")
def test_ten_thousand_requests_leak_no_memory(client):
    api = client.app.api

    def resident_bytes():
        """Memory without caches: their sizes depend on the last requests."""
        solutions, panels = api._solutions, api._panels
        caches = (solutions._small, solutions._medium, panels._tables, panels._policies, panels._solvers, api._choices)
        for cache in caches:
            cache._values.clear()
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

    send_random_requests(client, 3000, seed=2)
    before = resident_bytes()
    send_random_requests(client, 7000, seed=3)
    assert resident_bytes() - before < 16 << 20


# ---------------------------------------------------------------------------------------------------------------------
# The command


def test_the_command_serves_until_it_is_interrupted(root):
    import httpx

    with Program("play.py", "--web", "--runs", root) as program, httpx.Client(timeout=TIMEOUT_S) as http:
        assert "<title>ttt_envs explorer" in http.get(program.address).text
        assert http.post(f"{program.address}api/about", json={}).json()["logs"] == ["games.jsonl"]
        program.process.send_signal(signal.SIGINT)
        assert program.process.communicate(timeout=TIMEOUT_S) == ("", "")
    assert program.process.returncode == 0
    assert program.line.startswith("The explorer is at http://127.0.0.1:")


@pytest.mark.parametrize(
    ("host", "alone"), [("127.0.0.1", True), ("localhost", True), ("::1", True), ("0.0.0.0", False), ("box", False)]
)
def test_only_loopback_addresses_need_no_token(host, alone):
    assert is_loopback(host) == alone


def test_the_socket_names_its_protocol():
    """Otherwise asyncio lets Nagle's algorithm delay every response by 40 ms."""
    with listening("127.0.0.1", 0) as bound:
        assert bound.proto == socket.IPPROTO_TCP
