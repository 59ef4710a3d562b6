"""The explorer's responses and rejections. Its page in a browser: test_explorer_page.py."""

import json
import shutil
import signal
import socket
import threading
import time
from asyncio import CancelledError
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import plain
import pytest
from explorers import (
    client_of,
    line_of,
    make_explorer,
    random_game,
    request_of,
    run_explorer,
    serve,
)
from small_games import SKIP_GAME
from tiny import GAME, train_run

from baselines.compression import decomposition
from baselines.exact import SearchedSolution, build, solve
from baselines.expectiminimax import Expectiminimax
from baselines.mcts import MCTS
from baselines.tables import Softmax, Table, source_values
from ttt_apps.explorer import server
from ttt_apps.explorer.api import ExplorerApi
from ttt_apps.explorer.app import MAX_REQUESTS, Guard
from ttt_apps.explorer.command import listening
from ttt_apps.explorer.panels import Panels
from ttt_apps.explorer.root import MAX_DEPTH, Root
from ttt_apps.explorer.schemas import ValuesRequest
from ttt_envs import Game
from ttt_envs.agents.specs import make_policy
from ttt_envs.core.array_cache import CACHE_VARIABLE
from ttt_envs.core.lru_cache import LRUCache
from ttt_envs.game.boards import Boards, cell_at, to_text
from ttt_envs.game.rules import DRAW

pytestmark = [pytest.mark.more, pytest.mark.needs("fastapi", "httpx")]
TIMEOUT_S = 60
"""limit for what should happen at once"""
START = ".../.../... o"
SKIPS = {"rows": 3, "columns": 3, "win_length": 3, "skip_chance": 0.25}
TINY = {"rows": 2, "columns": 3, "win_length": 2, "skip_chance": 0.25}
LARGE = {"rows": 15, "columns": 15, "win_length": 5, "skip_chance": 0.0}
FALLING = {"rows": 4, "columns": 4, "win_length": 4, "gravity": True}
SEVEN = {"rows": 6, "columns": 7, "win_length": 4, "gravity": True}
EXACT = {"kind": "exact"}
JSON = {"content-type": "application/json"}


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A root with a run and a damaged one, and a run outside of it."""
    folder = tmp_path_factory.mktemp("root")
    train_run("q-learning", folder.parent / "secret")
    train_run("q-learning", folder / "first")
    (folder / "broken").mkdir()
    (folder / "broken" / "config.json").write_text("{" * 100)
    (folder / "link").symlink_to(folder.parent / "secret", target_is_directory=True)
    return folder


@pytest.fixture(scope="module")
def client(root):
    return client_of(make_explorer(root))


def ask(client, path, /, **content):
    answer = client.post(f"/api/{path}", json=content)
    assert answer.status_code == 200, answer.text
    return answer.json()


def values(client, position, *panels, game=SKIPS):
    answer = client.post("/api/values", json={"game": game, "position": position, "panels": panels})
    return [json.loads(line) for line in answer.iter_lines()]


def why_not(client, position, panel, game=SKIPS):
    """Why there is no panel."""
    [answer, beside] = values(client, position, panel, {"kind": "search", "depth": 1}, game=game)
    assert "values" in beside
    return answer["error"]


def error(answer, status=400):
    assert answer.status_code == status, answer.text
    assert set(answer.json()) == {"error"}
    return answer.json()["error"]


def check_values(answer, expected):
    np.testing.assert_allclose(np.array(answer["values"], float), expected, rtol=0, atol=1e-12)


# --------------------------------------------------------------------------------------------------
# Panels


@pytest.mark.parametrize("text", [START, "x.o/.../..o x", "x.o/.../..o o"])
def test_panels_have_the_numbers_of_python(client, text):
    boards = plain.from_texts(text, game=SKIP_GAME)
    kinds = ({"kind": "random"}, {"kind": "search", "depth": 4}, {"kind": "mcts"})
    at_random, search, tree = values(client, text, *kinds)
    check_values(
        at_random,
        Softmax(Table(SKIP_GAME, source_values(SKIP_GAME, "random"))).action_values(boards)[0],
    )
    analysis = Expectiminimax(SKIP_GAME, 4).analyse(boards.position(0))
    check_values(search, (1 - 2 * int(boards.mover[0])) * analysis.move_values)
    visits = MCTS(SKIP_GAME, simulations=400).analyse(boards.position(0)).visits[0]
    assert [0 if value is None else value for value in tree["values"]] == visits.tolist()
    policy = make_policy("optimal:epsilon=0.5", SKIP_GAME)
    exact = solve(SKIP_GAME).action_values(boards)[0]
    [answer] = values(client, text, {"kind": "policy", "policy": "optimal:epsilon=0.5"})
    shares = policy.probabilities(boards)[0]
    assert [0 if value is None else value for value in answer["values"]] == pytest.approx(
        shares.tolist()
    )
    assert (
        f"loses {np.nansum(shares * (np.nanmax(exact) - exact)):.3f} of the value"
        in answer["notes"][-1]
    )
    whole = decomposition(SKIP_GAME, "hooi")
    for rank, largest in ((0, 0), (9, 9), (1000, whole.largest)):
        [table] = values(client, text, {"kind": "compressed", "method": "hooi", "rank": rank})
        assert (table["rank"], table["largest_rank"]) == (largest, whole.largest)
        check_values(table, Softmax(whole.at(largest)).action_values(boards)[0])


def test_a_run_has_its_own_values_plays_and_gives_puzzles(client, tmp_path):
    panel = {"kind": "run", "run": "first"}
    [other] = values(client, ".../... o", panel, game={**TINY, "skip_chance": 0.0})
    assert "another game" in " ".join(other["notes"])
    assert ask(client, "move", game=TINY, seed=1, policy="run:first")["cell"] in range(6)
    train_run("q-learning", tmp_path / "misere", "--misere")
    client = client_of(make_explorer(tmp_path))
    panel = {"kind": "run", "run": "misere"}
    game = {**TINY, "misere": True}
    assert why_not(client, ".../... o", panel, game=TINY).endswith("by its rules")
    rules = Game(2, 3, 2, 0.25, misere=True)
    learned = make_policy(f"run:({tmp_path / 'misere'})", rules).action_values(Boards.start(rules))[
        0
    ]
    check_values(values(client, ".../... o", panel, game=game)[0], learned)
    for puzzle in ask(client, "puzzles", run="misere")["puzzles"]:
        assert (puzzle["game"], puzzle["why"]) == (rules.to_dict(), "misere")
        assert set(puzzle["best"]).isdisjoint(puzzle["tempting"])


def test_runs_are_listed_up_to_a_depth(root, tmp_path):
    folders = [Path(*"abcd"[:depth], "run") for depth in range(MAX_DEPTH + 1)]
    for folder in folders:
        shutil.copytree(root / "first", tmp_path / folder)
    assert Root(tmp_path).runs() == sorted(folder.as_posix() for folder in folders[:MAX_DEPTH])


def test_a_run_that_is_trained_again_has_its_new_values(tmp_path):
    client = client_of(make_explorer(tmp_path))
    panel = {"kind": "run", "run": "first"}
    for seed in ("1", "2"):
        shutil.rmtree(tmp_path / "first", ignore_errors=True)
        train_run("q-learning", tmp_path / "first", "--seed", seed)
        learned = make_policy(f"run:({tmp_path / 'first'})", GAME).action_values(
            Boards.start(GAME)
        )[0]
        check_values(values(client, ".../... o", panel, game=TINY)[0], learned)


def test_puzzles_are_the_set_or_the_mistakes_of_a_game(client):
    assert len(ask(client, "puzzles")["puzzles"]) == 100
    [puzzle] = ask(client, "puzzles", line={"game": {}, "moves": "b2 b1 a1"})["puzzles"]
    assert (puzzle["position"], puzzle["tempting"], puzzle["best"]) == (
        ".../.o./... x",
        [1],
        [0, 2, 6, 8],
    )


def test_proofs_are_results_of_perfect_play(client):
    """Without skips, as far as the positions suffice; by Connect Four's own search where stones
    fall.
    """
    proof = values(client, "x.o/.o./..x o", {"kind": "prove"}, game={})[0]
    check_values(proof, solve(Game()).action_values(plain.from_texts("x.o/.o./..x o"))[0])
    five = {"rows": 5, "columns": 5, "win_length": 4}
    little = values(
        client, "...../...../..o../...../..... x", {"kind": "prove", "nodes": 24}, game=five
    )[0]
    assert little["notes"][0] == "The result is not decided."
    late = "......./..xo.../..ox.../.xoo.../.oxx.../xxoo.o. x"
    solution = SearchedSolution(Game(6, 7, 4, gravity=True), memory=1 << 22)
    proof = values(client, late, {"kind": "prove"}, game=SEVEN)[0]
    check_values(proof, solution.action_values(plain.from_texts(late))[0])
    early = values(
        client, "/".join(["......."] * 6) + " o", {"kind": "prove", "nodes": 1}, game=SEVEN
    )[0]
    assert early["notes"] == [
        "The result is not decided.",
        "7 of 7 moves are not decided within 20 positions.",
    ]


def test_games_without_a_panel_say_why(client):
    for game, refused in (
        ({**SKIPS, "misere": True}, {"prove"}),
        (FALLING, {"random", "compressed"}),
        (LARGE, {"random", "compressed", "exact", "prove"}),
        ({**FALLING, "rows": 9, "columns": 9}, {"random", "compressed", "exact", "prove"}),
        (
            {**FALLING, "rows": 6, "columns": 5, "misere": True},
            {"random", "compressed", "exact", "prove"},
        ),
    ):
        start = "/".join(["." * game["columns"]] * game["rows"]) + " o"
        facts = ask(client, "review", game=game)
        assert facts["refused"].keys() == refused
        assert ("table" in facts["unplayable"]) == ("random" in refused)
        assert ("optimal" in facts["unplayable"]) == ("exact" in refused)
        for kind in refused:
            assert (
                "skip_chance"
                not in why_not(client, start, {"kind": kind}, game=game) + facts["refused"][kind]
            )
        for answer in values(
            client, start, {"kind": "search", "depth": 1}, {"kind": "mcts"}, game=game
        ):
            cells = [cell for cell, value in enumerate(answer["values"]) if value is not None]
            assert (
                cells == np.flatnonzero(Boards.start(Game(**game)).legal(Game(**game))[0]).tolist()
            )
        for name in {"mcts:simulations=50", "optimal"} - facts["unplayable"].keys():
            assert "cell" in ask(client, "move", game=game, seed=1, policy=name)


# --------------------------------------------------------------------------------------------------
# Exact values and reviews

GAMES = [
    SKIP_GAME,
    Game(3, 4, 3, overlines=False, torus=True),
    Game(4, 3, 3, 0.1, gravity=True, misere=True, torus=True),
    Game(4, 4, 4, gravity=True),  # by a search
    Game(1, 13, 3, 0.25),
]


@pytest.mark.parametrize("game", GAMES, ids=str)
def test_a_review_has_the_exact_values_of_positions_moves_and_skips(game):
    """The result is the value of the start, plus what skips gave, minus what o lost, plus what x
    lost.

    Nothing is solved before it is waited for.
    """
    client = client_of(make_explorer())
    by_search = game.gravity and game.cells > 12
    solution = SearchedSolution(game, memory=1 << 22) if by_search else solve(game, cache=False)
    content = request_of(game)
    first = ask(client, "review", game=content)
    assert (first["exact"], first["values"]) == ("soon", None)
    for seed in range(3):
        live = random_game(game, seed)
        moves = line_of(live)["moves"]
        facts = ask(client, "review", game=content, moves=moves, wait=True)
        boards = Boards.from_positions([ply.position for ply in live.plies])
        expected = (1 - 2 * boards.mover) * solution.values(boards)
        assert facts["values"][:-1] == pytest.approx(expected.tolist(), abs=1e-12)
        assert facts["values"][-1] == (0 if live.outcome == DRAW else 1 - 2 * live.outcome)
        balance = facts["values"][0]
        for ply, fact, own in zip(
            live.plies, facts["plies"], solution.action_values(boards), strict=True
        ):
            best = np.nanmax(own)
            assert fact["loss"] == pytest.approx(best - own[ply.action], abs=1e-9)
            assert fact["best"] == np.flatnonzero(own >= best - 1e-9).tolist()
            balance += fact["luck"] - fact["loss"] * (1 - 2 * ply.position.mover)
        assert balance == pytest.approx(facts["values"][-1], abs=1e-9)
        assert game.skip_chance > 0 or {fact["luck"] for fact in facts["plies"]} == {0}
        ply = live.plies[len(live.plies) // 2]
        [panel] = values(client, to_text(ply.position, game), EXACT, game=content)
        check_values(panel, solution.action_values(Boards.from_positions([ply.position]))[0])
    assert ask(client, "review", game=content)["exact"] == "now"


@pytest.mark.parametrize("kind", ["table", "database"])
def test_larger_boards_have_exact_values_where_these_are_stored(kind, monkeypatch, tmp_path):
    """A table by the command that the page names, or a database of the whole game; larger boards
    have neither.
    """
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    game = Game(2, 9, 3)
    start = "........./......... o"
    content = request_of(game)
    client = client_of(make_explorer(databases=tmp_path))
    assert "evaluate.py solve --size 2x9" in why_not(client, start, EXACT, game=content)
    assert ask(client, "review", game=content)["exact"] == "table"
    assert ask(client, "review", game={"rows": 5, "columns": 5, "win_length": 4})["exact"] == "none"
    solution = solve(game) if kind == "table" else build(game, tmp_path / game.slug)
    assert ask(client, "review", game=content)["exact"] == "soon"
    assert ask(client, "review", game=content, moves="e1", wait=True)["values"][0] == solution.value
    assert ask(client, "review", game=content)["exact"] == "now"


def test_a_database_gives_values_where_it_begins(tmp_path):
    """Without a table of the whole game, later positions have the values of a database; no request
    names its folder.
    """
    game = Game(2, 11, 3)
    table = build(game, tmp_path / game.slug, stones=18)
    late = "ooxxooxxoox/xxooxxoo... x"
    early = "." * 11 + "/" + "." * 11 + " o"
    client = client_of(make_explorer(databases=tmp_path))
    assert ask(client, "review", game=request_of(game))["exact"] == "part"
    boards = plain.from_texts(late, game=game)
    check_values(
        values(client, late, EXACT, game=request_of(game))[0], table.action_values(boards)[0]
    )
    assert "17 stones" in why_not(client, early, EXACT, game=request_of(game))


# --------------------------------------------------------------------------------------------------
# Policies


def test_offered_policies_move_reproducibly(client):
    about = ask(client, "about")
    assert about["runs"] == [
        {"name": "broken", "game": None},
        {"name": "first", "game": GAME.to_dict()},
    ]
    for name in about["policies"]:
        spec, game = ("run:first", TINY) if name == "run" else (name, SKIPS)
        cell = ask(client, "move", game=game, moves="b2+", seed=1, policy=spec)["cell"]
        assert cell != cell_at("b2", Game(**game)), spec
        assert ask(client, "move", game=game, moves="b2+", seed=1, policy=spec)["cell"] == cell
    games = [{"game": SKIPS, "seed": seed, "policy": "random"} for seed in range(8)]
    steps = [
        ask(client, "move", **each, moves="a1")["cell"] - ask(client, "move", **each)["cell"]
        for each in games
    ]
    assert ask(
        client,
        "move",
        game={"rows": 1, "columns": 2, "win_length": 1},
        seed=1,
        policy="expectiminimax",
    )
    assert not set(steps) <= {
        0,
        1,
    }  # as one random number at both plies would choose among the free cells


# --------------------------------------------------------------------------------------------------
# Rejected requests

SPECS = (
    "os:system",
    "sb3:model.zip,algorithm=dqn",
    "gomocup:/bin/sh",
    "optimal:database=/tmp",
    "mcts:endgame=/tmp",
    "mcts:rollout=(run:first)",
    "mcts:simulations=1000000000",
    "mcts:simulations=0",
    "mcts:c=nan",
    "expectiminimax:depth=99",
    "expectiminimax:table=65536",
    "table:source=(run:first)",
    "svd:split=012/345/678",
    "run:../secret",
    "run:/etc",
    "run:broken",
    "run:first,trust=true",
    "run:",
    "run",
    "run:first/../first",
    "run:(first\x00)",
    "random:1",
    "",
    "(" * 300,
)


@pytest.mark.parametrize("spec", SPECS)
def test_policies_with_access_to_files_code_or_unbounded_time_are_rejected(client, spec):
    assert "\n" not in error(
        client.post("/api/move", json={"game": SKIPS, "seed": 1, "policy": spec})
    )


NAMES = ("/etc/passwd", "../secret", "first/../first", "", ".", "x\0")
BAD = [
    *(("puzzles", {"run": name}, "there is no run ") for name in NAMES),
    (
        "move",
        {"game": LARGE, "seed": 1, "policy": "expectiminimax:depth=9"},
        "depth=9 is not offered on 15 x 15",
    ),
    (
        "values",
        {"game": SKIPS, "position": START, "panels": [{"kind": "exact", "more": 1}]},
        "'panels.0.more'",
    ),
    ("values", {"game": SKIPS, "position": START, "panels": [EXACT] * 9}, "'panels'"),
    ("values", {"game": SKIPS, "position": "ooo/xx./... x", "panels": [EXACT]}, ""),
    ("review", {"game": {"rows": 16}}, "'game'"),
    ("values", {"game": {}, "position": ".../.../... x", "panels": [EXACT]}, "comes from no game"),
    ("values", [], "'the request'"),
    (
        "move",
        {"game": SKIPS, "seed": 1, "policy": "random", "moves": "a1 b1 a2 b2 a3"},
        "the game is over",
    ),
    (
        "review",
        {"game": {"gravity": True}, "moves": "b3 b1"},
        "move 2, b1, is illegal: stones fall to the lowest",
    ),
    ("review", {"game": SKIPS, "moves": "b2 b2"}, "holds a stone"),
    ("puzzles", {"line": {"game": LARGE, "moves": "a1"}}, "is not offered on 15 x 15"),
    ("puzzles", {"line": {"game": {}, "moves": "b2"}, "run": "first"}, "leave out 'line' or 'run'"),
    ("move", {"game": TINY, "seed": 1, "policy": "run:first,symmetrize=true"}, "write run:first"),
    (
        "review",
        {"game": {"rows": 2, "columns": 16}},
        "'game' is not valid: 2 x 16, 3 to win is not offered here",
    ),
]


@pytest.mark.parametrize(
    ("name", "content", "message"), BAD, ids=[f"{i}-{bad[0]}" for i, bad in enumerate(BAD)]
)
def test_invalid_requests_are_rejected_in_a_sentence(client, name, content, message):
    sentence = error(client.post(f"/api/{name}", json=content))
    assert message in sentence
    assert len(sentence) > 10
    assert "\n" not in sentence


def test_requests_that_are_no_json_or_have_another_address_are_rejected(client):
    for body in (b"", b"{", b"\xff\xfe", b"[" * 16000, b'{"game": NaN}', b"null"):
        error(client.post("/api/review", headers=JSON, content=body))
    error(client.post("/api/review", content=b"{}", headers={"content-type": "text/plain"}))
    for path in ("/api/review", "/../app.py", "/%2e%2e/app.py", "/docs", "/openapi.json"):
        assert client.get(path).status_code == 404


@pytest.mark.parametrize(
    ("status", "headers"),
    [
        *(
            (421, {"host": host})
            for host in ("evil.example", "evil.example:8000", "127.0.0.1:80", "127.0.0.1", "")
        ),
        *(
            (403, {"origin": f"http://{host}"})
            for host in ("evil.example", "127.0.0.1:8001", "localhost:8000")
        ),
        *((403, {"origin": origin}) for origin in ("null", "https://127.0.0.1:8000")),
        (200, {"origin": "http://127.0.0.1:8000"}),
        (200, {"host": "LOCALHOST:8000"}),
        (403, {"sec-fetch-site": "cross-site"}),
        *(
            (413, header)
            for header in ({"content-length": "16385"}, {"transfer-encoding": "chunked"})
        ),
        (421, [("host", "127.0.0.1:8000"), ("host", "127.0.0.1:8000")]),
    ],
)
def test_only_requests_of_the_same_host_and_origin_are_answered(client, status, headers):
    answer = client.post("/api/about", json={}, headers=headers)
    assert (answer.status_code, "error" in answer.json()) == (status, status != 200)


def test_every_response_has_the_security_headers(client, monkeypatch):
    requests = [
        ("GET", "/"),
        ("GET", "/look.css"),
        ("GET", "/x"),
        ("POST", "/api/about"),
        ("POST", "/api/puzzles"),
    ]
    monkeypatch.setattr("ttt_apps.explorer.api.read_puzzles", lambda: {}["missing"])
    for (method, path), status in zip(requests, (200, 200, 404, 200, 500), strict=True):
        answer = client.request(method, path, json={})
        headers = answer.headers
        assert answer.status_code == status
        assert headers["content-security-policy"].startswith(
            "default-src 'none'; script-src 'self';"
        )
        assert (
            headers["cross-origin-opener-policy"]
            == headers["cross-origin-resource-policy"]
            == "same-origin"
        )
        assert (headers["x-frame-options"], "access-control-allow-origin" in headers) == (
            "DENY",
            False,
        )


def test_browsers_leave_out_port_80():
    for origin, status in (("http://localhost", 200), ("http://127.0.0.1", 403)):
        headers = {"host": "localhost", "origin": origin}
        assert (
            client_of(make_explorer(port=80))
            .post("/api/about", json={}, headers=headers)
            .status_code
            == status
        )


# --------------------------------------------------------------------------------------------------
# Many requests


def test_the_cache_makes_each_value_once_and_is_bounded():
    cache = LRUCache(3)
    results = []

    def make(key):
        time.sleep(0.01)
        results.append(key)
        return key

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: cache.get(1, lambda: make(1)), range(8)))
    for key in (2, 3, 1, 4):  # 1 is used again, so that 2 is dropped
        cache.get(key, lambda key=key: make(key))
    assert (results, [key in cache for key in (1, 2, 3, 4)]) == (
        [1, 2, 3, 4],
        [True, False, True, True],
    )
    with pytest.raises(ZeroDivisionError):
        cache.get(5, lambda: 1 / 0)
    assert cache.get(5, lambda: 5) == 5


def test_concurrent_requests_do_not_interfere(root):
    """Visitors look at positions by several panels, and each has its own."""
    api = ExplorerApi(Root(root))
    solution = solve(SKIP_GAME)

    def visit(seed):
        for ply in random_game(SKIP_GAME, seed).plies:
            panels = [
                {"kind": "compressed", "rank": seed},
                {"kind": "mcts", "simulations": 20},
                EXACT,
            ]
            body = {"game": SKIPS, "position": to_text(ply.position, SKIP_GAME), "panels": panels}
            *_, answer = api.values(ValuesRequest.model_validate(body))
            check_values(answer, solution.action_values(Boards.from_positions([ply.position]))[0])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(visit, range(8)))


ABANDONED = [
    ({}, {"kind": "prove"}),
    (SEVEN, {"kind": "prove"}),
    (LARGE, {"kind": "search", "depth": 3}),
]


@pytest.mark.parametrize(("game", "panel"), ABANDONED, ids=["proof", "Connect Four", "search"])
def test_a_search_that_nobody_waits_for_ends(game, panel, monkeypatch):
    """Between two slices, and between two panels."""
    monkeypatch.setattr("baselines.connect_four.SLICE", 100)
    monkeypatch.setattr("baselines.proof_number.search.SLICE", 100)
    monkeypatch.setattr("ttt_apps.explorer.panels.SLICE", 100)
    api = ExplorerApi(Root(None))
    checks = []
    rows, columns = (game.get(key, 3) for key in ("rows", "columns"))
    start = "/".join(["." * columns] * rows) + " o"
    request = ValuesRequest.model_validate(
        {"game": game, "position": start, "panels": [panel, {"kind": "mcts"}]}
    )

    def is_abandoned(after):
        checks.append(0)
        return len(checks) > after

    answers = api.values(request, lambda: is_abandoned(4))
    with pytest.raises(CancelledError):
        next(answers)
    assert (len(checks), list(answers)) == (5, [])
    [answer, *_] = api.values(request, lambda: False)
    assert "values" in answer  # also of a game whose earlier search was ended


def test_a_visitor_who_goes_ends_the_search(monkeypatch):
    begun = threading.Event()
    ended = threading.Event()
    tested = threading.Event()

    def search(*given):
        begun.set()
        try:
            while not tested.wait(0.01):
                given[-1](0)
        except CancelledError:
            ended.set()
            raise

    monkeypatch.setattr(Panels, "answer", search)
    body = json.dumps({"game": {}, "position": START, "panels": [{"kind": "prove"}]}).encode()
    with serve() as port, socket.create_connection(("127.0.0.1", port)) as visitor:
        head = (
            f"POST /api/values HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: "
            "application/json\r\n"
        )
        visitor.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        assert begun.wait(TIMEOUT_S)
        visitor.close()
        ended.wait(TIMEOUT_S)
        tested.set()
    assert ended.is_set()


def test_the_number_of_requests_at_once_is_bounded():
    app = make_explorer()
    assert isinstance(app, Guard)
    app.requests = MAX_REQUESTS
    assert "try again" in error(client_of(app).post("/api/about", json={}), 503)
    app.requests = 0
    for _ in range(MAX_REQUESTS + 1):
        assert ask(client_of(app), "about")


HEAD = (
    "POST /api/puzzles HTTP/1.1\r\nHost: {host}\r\nContent-Type: "
    "application/json\r\nContent-Length: 2\r\n\r\n"
)


@pytest.mark.parametrize("part", ["", HEAD[:20], HEAD[:-2], HEAD, HEAD + "{{"])
@pytest.mark.parametrize("earlier", ["", HEAD + "{{}}"], ids=["first", "later"])
def test_a_connection_is_closed_if_no_whole_request_arrives(earlier, part, monkeypatch):
    with serve() as port:
        monkeypatch.setattr(server, "REQUEST_S", 0.2)
        with socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S) as visitor:
            visitor.sendall((earlier + part).format(host=f"127.0.0.1:{port}").encode())
            answer = visitor.makefile("rb").read()
    assert (b"200 OK" in answer) == bool(earlier)


def test_an_internal_error_is_one(monkeypatch):
    monkeypatch.setattr(LRUCache, "get", lambda *_: {}["missing"])
    client = client_of(make_explorer())
    error(client.post("/api/review", json={"game": SKIPS, "wait": True}), 500)
    assert "error of the server" in why_not(client, START, EXACT)


# --------------------------------------------------------------------------------------------------
# The command


def test_the_command_serves_until_it_is_interrupted(root):
    import httpx

    with (
        run_explorer("--runs", root) as (process, address),
        httpx.Client(timeout=TIMEOUT_S) as http,
    ):
        assert address.startswith("http://127.0.0.1:")
        assert "<title>ttt_envs explorer" in http.get(address).text
        runs = http.post(f"{address}api/about", json={}).json()["runs"]
        assert [run["name"] for run in runs] == ["broken", "first"]
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=TIMEOUT_S) == ("", "")
    assert process.returncode == 0


def test_the_socket_names_its_protocol():
    """Otherwise asyncio lets Nagle's algorithm delay every response by 40 ms."""
    with listening(0) as bound:
        assert bound.proto == socket.IPPROTO_TCP
