"""What the explorer answers, and what it refuses. Its page in a browser: test_explorer_page.py."""

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
import subprocess
import sys
import threading
import time
from functools import partialmethod
from pathlib import Path

import numpy as np
import pytest
from tiny import GAME, train_run

from baselines.compression import decomposition
from baselines.expectiminimax import Expectiminimax
from baselines.mcts import MCTS
from baselines.retrograde.solver import solve
from baselines.tables import Softmax, Table, values_of
from evaluation.matches.games import Move, PlayedGame, append_games
from ttt_apps.board import LiveGame
from ttt_envs import Game
from ttt_envs.agents.specs import make_policy
from ttt_envs.core.random import draw_key
from ttt_envs.game.boards import Boards, cell_at, from_text, to_text
from ttt_envs.game.rules import DRAW

pytestmark = [pytest.mark.needs("fastapi", "httpx")]
ROOT = Path(__file__).parents[2]
GIVE_UP_S = 60
"""a way out where what is waited for never happens"""
HERE = "http://127.0.0.1:8000"
START = ".../.../... o"
SKIPS = {"rows": 3, "columns": 3, "win_length": 3, "skip_chance": 0.25}
PLAYED = PlayedGame(
    Game(skip_chance=0.25), ("optimal", "random"), (Move(4), Move(0, True), Move(8), Move(1), Move(5), Move(7)), 0
)


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A root with a run and a log, and what must not be had through it."""
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
    from ttt_apps.explorer.app import Explorer
    from ttt_apps.explorer.schemas import Root
    from ttt_apps.explorer.security import AccessPolicy

    made = Explorer(AccessPolicy("127.0.0.1", 8000), Root(root))
    yield made
    made.work.close()


class Client:
    """Asks an application without a network."""

    def __init__(self, app, address=HERE):
        import httpx

        self.app = app
        self.runner = asyncio.Runner()
        self.http = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=address)

    def ask(self, method, path, **what):
        return self.runner.run(self.http.request(method, path, **what))

    get = partialmethod(ask, "GET")
    post = partialmethod(ask, "POST")
    put = partialmethod(ask, "PUT")

    def close(self):
        self.runner.run(self.http.aclose())
        self.runner.close()


@pytest.fixture(scope="module")
def client(explorer):
    with contextlib.closing(Client(explorer)) as made:
        yield made


@pytest.fixture(autouse=True)
def no_faults(caplog):
    """Whatever is asked, no fault of ours comes up."""
    with caplog.at_level(logging.ERROR, logger="ttt_apps.explorer.app"):
        yield
    assert not caplog.records


def values(client, position, *panels, game=SKIPS):
    answer = client.post("/api/values", json={"game": game, "position": position, "panels": list(panels)})
    assert answer.status_code == 200, answer.text
    return answer.json()["panels"]


def error(answer, status=400):
    assert answer.status_code == status, answer.text
    assert set(answer.json()) == {"error"}
    return answer.json()["error"]


def same(answer, expected):
    """Numbers are those of Python, and what is written is those numbers to its digits."""
    np.testing.assert_allclose(np.array(answer["values"], float), expected, rtol=0, atol=1e-12)
    for text, value in zip(answer["texts"], expected, strict=True):
        if not np.isnan(value):
            assert float(text.replace("\N{MINUS SIGN}", "-")) == pytest.approx(value, abs=5.001e-4)
    assert answer["best"] == np.flatnonzero(expected >= np.nanmax(expected) - 1e-9).tolist()


# ---------------------------------------------------------------------------------------------------------------------
# Numbers


@pytest.mark.parametrize("text", [START, "x.o/.../..o x", "x.o/.../..o o", "oox/.x./... o"])
def test_every_panel_shows_what_python_says(client, text):
    game = Game(skip_chance=0.25)
    boards = Boards.of([from_text(text, game)])
    exact, at_random, search, tree = values(
        client,
        text,
        *({"kind": kind} for kind in ("exact", "random")),
        {"kind": "search", "depth": 4},
        {"kind": "mcts"},
    )
    same(exact, solve(game).action_values(boards)[0])
    same(at_random, Softmax(Table(game, values_of(game, "random"))).action_values(boards)[0])
    sign = 1 - 2 * int(boards.mover[0])
    analysis = Expectiminimax(game, 4).analyse(boards.position(0))
    same(search, sign * analysis.move_values)
    assert [cell_at(word, game) for word in search["variation"].split()] == list(analysis.variation)
    visits = MCTS(game, simulations=400).analyse(boards.position(0)).visits
    assert [0 if text is None else int(text) for text in tree["texts"]] == visits.tolist()


@pytest.mark.parametrize(
    "method", ["svd", "hooi", *(pytest.param(one, marks=pytest.mark.slow) for one in ("hosvd", "hosvd2", "tt"))]
)
def test_a_compressed_table_is_read_at_the_rank_asked_for(client, method):
    game = Game(skip_chance=0.25)
    boards = Boards.of([from_text("x.o/.../..o x", game)])
    whole = decomposition(game, method)
    asked = [{"kind": "compressed", "method": method, "rank": rank} for rank in (0, 2, 9, 1000)]
    answers = values(client, "x.o/.../..o x", *asked)
    for answer, rank in zip(answers, (0, 2, 9, whole.largest), strict=True):
        assert (answer["rank"], answer["largest_rank"]) == (rank, whole.largest)
        same(answer, Softmax(whole.at(rank)).action_values(boards)[0])
    assert answers[1]["values"] != answers[2]["values"]


def test_a_run_shows_what_it_has_learned(client, root):
    game = {"rows": 2, "columns": 3, "win_length": 2, "skip_chance": 0.25}
    [answer] = values(client, ".../... o", {"kind": "run", "run": "first"}, game=game)
    learned = make_policy(f"run:({root / 'first'})", GAME)
    same(answer, learned.action_values(Boards.start(GAME))[0])
    [other] = values(client, ".../... o", {"kind": "run", "run": "first"}, game={**game, "skip_chance": 0.0})
    assert "another game" in " ".join(other["notes"])


def test_a_policy_shows_how_likely_it_plays_each_move(client):
    game = Game(skip_chance=0.25)
    [answer] = values(client, "oo./x../... x", {"kind": "policy", "policy": "optimal:epsilon=0.5"})
    boards = Boards.of([from_text("oo./x../... x", game)])
    shares = make_policy("optimal:epsilon=0.5", game).probabilities(boards)[0]
    assert [0 if one is None else one for one in answer["values"]] == pytest.approx(shares.tolist())


def test_a_skip_chance_of_the_slider_changes_the_values(client):
    found = [values(client, START, {"kind": "exact"}, game={**SKIPS, "skip_chance": p})[0] for p in (0, 0.05, 0.5)]
    for p, answer in zip((0, 0.05, 0.5), found, strict=True):
        same(answer, solve(Game(skip_chance=p)).action_values(Boards.start(Game()))[0])
    assert len({json.dumps(answer["values"]) for answer in found}) == 3


# ---------------------------------------------------------------------------------------------------------------------
# Games


def test_moves_and_skips_are_those_of_the_seed(client):
    game = Game(skip_chance=0.25)
    for seed in range(8):
        live, moves = LiveGame(game, draw_key(np.random.default_rng(seed)), 0), ""
        while live.outcome is None:
            cell = int(np.flatnonzero(live.cells == 0)[-1])
            answer = client.post("/api/play", json={"game": SKIPS, "moves": moves, "seed": seed, "cell": cell}).json()
            skipped = live.move(cell).skipped
            moves, last = answer["moves"], answer["plies"][-1]
            assert (last["cell"], last["skipped"]) == (cell, skipped)
            assert answer["positions"][-1]["position"] == to_text(live.boards.position(0), game)
            assert answer["positions"][-1]["last"] == live.last_cells()
        assert answer["result"] == ("draw" if live.outcome == DRAW else "ox"[live.outcome])
        assert (answer["positions"][-1]["line"] == []) == (live.outcome == DRAW)
        assert error(client.post("/api/play", json={"game": SKIPS, "moves": moves, "seed": seed, "cell": 0}))


def test_a_policy_moves(client):
    for policy in ("optimal", "mcts:simulations=20", "svd:rank=9", "win-or-block", "expectiminimax:depth=2"):
        answer = client.post("/api/play", json={"game": SKIPS, "moves": "b2 a1", "seed": 1, "policy": policy})
        assert len(answer.json()["plies"]) == 3, policy
    asked = {"game": SKIPS, "moves": "b2 a1+", "seed": 3, "policy": "random"}
    assert client.post("/api/play", json=asked).json() == client.post("/api/play", json=asked).json()


def test_a_run_plays(client):
    game = {"rows": 2, "columns": 3, "win_length": 2, "skip_chance": 0.25}
    assert len(client.post("/api/play", json={"game": game, "seed": 1, "policy": "run:first"}).json()["plies"]) == 1


def test_every_move_has_its_cost(client):
    answer = client.post("/api/replay", json={"game": SKIPS, "moves": "b2 a1+ c3 b1 c2 b3"}).json()
    solution = solve(Game(skip_chance=0.25))
    for position, ply in zip(answer["positions"], answer["plies"], strict=False):
        worth = solution.action_values(Boards.of([from_text(position["position"])]))[0]
        assert ply["loss"] == pytest.approx(np.nanmax(worth) - worth[ply["cell"]])
        assert position["value"] == pytest.approx(np.nanmax(worth) * (1 if position["mover"] == "o" else -1))
    losses = [ply["loss"] for ply in answer["plies"]]
    assert answer["worst"] == losses.index(max(losses))
    assert max(losses) > 0
    assert answer["plies"][1]["skipped"]


def test_a_game_that_begins_with_a_position(client):
    answer = client.post("/api/replay", json={"game": SKIPS, "opening": "x.o/.../..o x", "moves": "b2"}).json()
    assert [one["position"] for one in answer["positions"]] == ["x.o/.../..o x", "x.o/.x./..o o"]


def test_logged_games_are_shown(client):
    listed = client.post("/api/log", json={"name": "games.jsonl"}).json()["games"]
    assert [(one["number"], one["players"], one["plies"]) for one in listed] == [
        (n, ["optimal", "random"], 6) for n in (1, 2)
    ]
    answer = client.post("/api/logged", json={"name": "games.jsonl", "number": 2}).json()
    assert answer["moves"] == "b2 a1+ c3 b1 c2 b3"
    assert len(answer["positions"]) == 7
    assert "fewer games" in error(client.post("/api/logged", json={"name": "games.jsonl", "number": 3}))


def test_a_learning_curve_is_that_of_the_run(client, root):
    answer = client.post("/api/run", json={"name": "first"}).json()
    rows = [json.loads(line) for line in (root / "first" / "metrics.jsonl").read_text().splitlines()]
    assert [mark["games"] for mark in answer["marks"]] == [row["games"] for row in rows]
    exact = [(row["games"], row["exploitability"]) for row in rows if "exploitability" in row]
    assert [(m["games"], m["exploitability"]) for m in answer["marks"] if "exploitability" in m] == exact
    assert exact


def test_the_boards_at_a_mark_are_those_of_the_run(client, root):
    answer = client.post("/api/run", json={"name": "first"}).json()
    lines = [json.loads(line) for line in (root / "first" / "choices.jsonl").read_text().splitlines()]
    assert [mark["games"] for mark in answer["boards"]] == [line["games"] for line in lines]
    assert all(mark in answer["marks"] and "exploitability" in mark for mark in answer["boards"])
    assert (len(lines), answer["no_boards"]) == (2, "")
    for number, line in enumerate(lines):
        shown = client.post("/api/mark", json={"name": "first", "number": number}).json()
        assert shown["games"] == line["games"]
        assert [one["position"] for one in shown["boards"]] == [one["position"] for one in line["choices"]]
        assert shown["boards"][0]["name"] == "the empty board"
        for one, kept in zip(shown["boards"], line["choices"], strict=True):
            same(one["expects"], np.array(kept["values"], float))
            stones = one["position"].partition(" ")[0].replace("/", "")
            known = [
                None if stone != "." else share for stone, share in zip(stones, kept["probabilities"], strict=True)
            ]
            assert one["plays"]["values"] == known
            assert one["plays"]["texts"] == [None if share is None else f"{share:.0%}" for share in known]
    assert "boards at 2, counted from 0" in error(client.post("/api/mark", json={"name": "first", "number": 2}))
    assert "no run" in error(client.post("/api/mark", json={"name": "link", "number": 0}))


def test_a_curve_is_shown_where_its_boards_cannot_be(client, root):
    kept = root / "first" / "choices.jsonl"
    whole = kept.read_text()
    try:
        for text, said in (
            ("nonsense", "line 1 of first/choices.jsonl is no mark with choices: it is not JSON"),
            (" " * (1 << 22 | 1), "at most 4,194,304 are read"),
        ):
            kept.write_text(text)
            answer = client.post("/api/run", json={"name": "first"}).json()
            assert (answer["boards"], len(answer["marks"]) > 1) == ([], True)
            assert said in answer["no_boards"]
            error(client.post("/api/mark", json={"name": "first", "number": 0}))
        kept.unlink()
        answer = client.post("/api/run", json={"name": "first"}).json()
        assert (answer["boards"], answer["no_boards"]) == ([], "")
    finally:
        kept.write_text(whole)


def test_what_may_be_chosen_is_told(client):
    about = client.post("/api/about", json={}).json()
    assert [run["name"] for run in about["runs"]] == ["first"]
    assert about["logs"] == ["games.jsonl"]
    for name in about["policies"]:
        if name != "run":
            assert client.post("/api/play", json={"game": SKIPS, "seed": 1, "policy": name}).status_code == 200, name


def test_a_large_board_has_what_needs_no_table(client):
    large = {"rows": 15, "columns": 15, "win_length": 5, "skip_chance": 0.0}
    start = "/".join(["." * 15] * 15) + " o"
    kinds = ("exact", "random", "compressed", "search", "mcts")
    answers = values(client, start, *({"kind": kind, "simulations": 50} for kind in kinds), game=large)
    assert ["error" in answer for answer in answers] == [True, True, True, False, False]
    answer = client.post("/api/play", json={"game": large, "seed": 1, "policy": "mcts:simulations=50"}).json()
    assert answer["plies"][0]["loss"] is None


# ---------------------------------------------------------------------------------------------------------------------
# Refusals


@pytest.mark.parametrize(
    "spec",
    [
        "os:system",
        "module:Class",
        "ttt_apps.demo:main",
        "sb3:model.zip,algorithm=dqn",
        "gomocup:/bin/sh",
        "book:path=b.npz,then=random",
        "timed:seconds=100",
        "optimal:database=/tmp",
        "mcts:endgame=/tmp",
        "mcts:rollout=(run:first)",
        "mcts:simulations=1000000000",
        "mcts:simulations=0",
        "mcts:c=nan",
        "expectiminimax:leaf=(run:first)",
        "expectiminimax:endgame=/tmp",
        "expectiminimax:depth=99",
        "expectiminimax:table=65536",
        "table:source=(run:first)",
        "table:w=1e9",
        "svd:rank=100000",
        "svd:split=012/345/678",
        "run:../outside/secret",
        "run:/etc",
        "run:link",
        "run:broken",
        "run:first,trust=true",
        "run:.",
        "run:",
        "run",
        "run:first/../first",
        "run:(first\x00)",
        "random:",
        "random:1",
        "",
        "(" * 300,
        "x" * 300,
    ],
)
def test_a_policy_gets_no_files_no_code_and_no_time(client, spec, root):
    said = error(client.post("/api/play", json={"game": SKIPS, "seed": 1, "policy": spec}))
    assert "\n" not in said
    assert str(root) not in said


def test_a_search_is_no_deeper_than_the_board_lets_it_be(client):
    large = {"rows": 15, "columns": 15, "win_length": 5}
    said = error(client.post("/api/play", json={"game": large, "seed": 1, "policy": "expectiminimax:depth=9"}))
    assert said == "depth=9 takes too long on 15 x 15, 5 to win: choose 1 to 3"


@pytest.mark.parametrize(
    "name",
    [
        "/etc/passwd",
        "../outside/secret.jsonl",
        "games-link.jsonl",
        "notes.jsonl",
        "first/metrics.jsonl",
        "",
        ".",
        "x\n",
    ],
)
@pytest.mark.parametrize("what", ["log", "run"])
def test_what_is_not_below_the_root_does_not_exist(client, what, name):
    assert error(client.post(f"/api/{what}", json={"name": name})).startswith(f"there is no {what} ")


BAD = [
    ("values", {"game": SKIPS, "position": START}),
    ("values", {"game": SKIPS, "position": START, "panels": []}),
    ("values", {"game": SKIPS, "position": START, "panels": [{"kind": "exact"}] * 9}),
    ("values", {"game": SKIPS, "position": START, "panels": [{"kind": "exact", "more": 1}]}),
    ("values", {"game": SKIPS, "position": "ooo/xx./... x", "panels": [{"kind": "exact"}]}),
    ("values", {"game": SKIPS, "position": "xxx/.../... o", "panels": [{"kind": "exact"}]}),
    ("values", {"game": SKIPS, "position": "..../.... o", "panels": [{"kind": "exact"}]}),
    ("values", {"game": {"rows": 16}, "position": START, "panels": [{"kind": "exact"}]}),
    ("values", {"game": {"rows": True}, "position": START, "panels": [{"kind": "exact"}]}),
    ("values", {"game": {"rows": "3"}, "position": START, "panels": [{"kind": "exact"}]}),
    ("values", {"game": {"skip_chance": 0.6}, "position": START, "panels": [{"kind": "exact"}]}),
    ("values", {"game": {"win_length": 4}, "position": START, "panels": [{"kind": "exact"}]}),
    ("values", []),
    ("play", {"game": SKIPS, "seed": 1}),
    ("play", {"game": SKIPS, "seed": 1, "cell": 0, "policy": "random"}),
    ("play", {"game": SKIPS, "seed": -1, "cell": 0}),
    ("play", {"game": SKIPS, "seed": 1, "cell": 9}),
    ("play", {"game": SKIPS, "seed": 1, "cell": 4, "moves": "b2"}),
    ("replay", {"game": SKIPS, "moves": "b2 b2"}),
    ("replay", {"game": SKIPS, "moves": "z9"}),
    ("replay", {"game": {}, "moves": "b2+ a1"}),
    ("replay", {"game": SKIPS, "moves": "a1+ b1+ c1 a2"}),
    ("replay", {"game": SKIPS, "opening": "ooo/xx./... x"}),
    ("logged", {"name": "games.jsonl", "number": 0}),
    ("about", {"more": 1}),
    ("mark", {"name": "first"}),
    ("mark", {"name": "first", "number": -1}),
    ("mark", {"name": "first", "number": 2000}),
]


@pytest.mark.parametrize(("name", "asked"), BAD, ids=[f"{number}-{name}" for number, (name, _) in enumerate(BAD)])
def test_what_makes_no_sense_is_refused_in_a_sentence(client, name, asked):
    said = error(client.post(f"/api/{name}", json=asked))
    assert len(said) > 10
    assert "\n" not in said
    assert "Traceback" not in said


def test_what_is_no_json_is_refused(client):
    headers = {"content-type": "application/json"}
    for body in (b"", b"{", b"\xff\xfe", b"[" * 16000, b'{"game": NaN}', b"1" * 16000, b"null"):
        error(client.post("/api/replay", headers=headers, content=body))
    error(client.post("/api/replay", content=b"{}", headers={"content-type": "text/plain"}), 415)
    error(client.post("/api/nothing", json={}), 404)
    error(client.get("/api/replay"), 405)
    error(client.put("/api/replay", json={}), 405)
    for path in ("/assets/../app.py", "/assets/%2e%2e/app.py", "/../etc/passwd", "/assets/", "/docs", "/openapi.json"):
        error(client.get(path), 404)


def test_a_request_is_bounded_before_it_is_read(client):
    """More is not taken in, whether its length is told, told wrong or not told."""
    error(client.post("/api/replay", content=b" " * (1 << 14 | 1), headers={"content-type": "application/json"}), 413)
    taken = 0

    def endless():
        nonlocal taken
        while taken < 1 << 24:
            taken += 1 << 12
            yield b" " * (1 << 12)

    asked = {
        "type": "http",
        "method": "POST",
        "path": "/api/replay",
        "query_string": b"",
        "headers": [(b"host", b"127.0.0.1:8000")],
    }
    sent, parts = [], endless()

    async def receive():
        return {"type": "http.request", "body": next(parts), "more_body": True}

    async def send(message):
        sent.append(message)

    asyncio.run(client.app(asked, receive, send))
    assert sent[0]["status"] == 413
    assert taken <= 1 << 15


@pytest.mark.parametrize(
    "headers", [{"host": "evil.example"}, {"host": "evil.example:8000"}, {"host": "127.0.0.1:80"}, {"host": ""}]
)
def test_another_host_is_refused(client, headers):
    error(client.get("/", headers=headers), 421)


@pytest.mark.parametrize(
    "origin",
    ["http://evil.example", "null", "https://127.0.0.1:8000", "http://127.0.0.1:8001", "http://localhost:8000"],
)
def test_another_origin_is_refused(client, origin):
    error(client.post("/api/about", json={}, headers={"origin": origin}), 403)
    error(client.post("/api/about", json={}, headers={"sec-fetch-site": "cross-site"}), 403)
    assert client.post("/api/about", json={}, headers={"origin": HERE}).status_code == 200


def test_the_token_is_wanted_where_others_can_ask(explorer):
    from ttt_apps.explorer.security import AccessPolicy, GuardMiddleware

    there = Client(GuardMiddleware(explorer.app, AccessPolicy("192.0.2.7", 8000, "right")), "http://192.0.2.7:8000")
    for path in ("/", "/?token=wrong", "/?token=", "/assets/board.js?token=right", "/?token=%FF"):
        error(there.get(path), 401)
    error(there.get("/", headers={"cookie": "ttt_token=wrong"}), 401)
    error(there.get("/", headers={"cookie": 'ttt_token="\xff'.encode("latin-1")}), 401)
    first = there.get("/?token=right")
    assert (first.status_code, first.headers["location"]) == (303, "/")
    assert "HttpOnly" in first.headers["set-cookie"]
    assert "SameSite=Strict" in first.headers["set-cookie"]
    assert there.get("/").status_code == 200
    there.http.cookies.clear()
    assert there.post("/api/about", json={}, headers={"x-ttt-token": "right"}).status_code == 200
    error(there.post("/api/about", json={}), 401)
    error(there.get("/?token=right", headers={"host": "evil.example:8000"}), 421)
    there.close()


def test_every_answer_is_told_to_be_careful(client):
    for answer in (
        client.get("/"),
        client.get("/assets/look.css"),
        client.get("/x"),
        client.post("/api/about", json={}),
    ):
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert "access-control-allow-origin" not in answer.headers


def test_the_page_takes_nothing_from_elsewhere():
    from ttt_apps.explorer.app import ASSETS

    for file in ASSETS.iterdir():
        text = file.read_text().replace("http://www.w3.org/2000/svg", "")
        assert "http:" not in text, file.name
        assert "https:" not in text, file.name
        assert "innerHTML" not in text, file.name
        if file.suffix == ".html":
            assert "style=" not in text
            assert "<script>" not in text


# ---------------------------------------------------------------------------------------------------------------------
# Much at once


def test_more_than_may_wait_is_told_to_come_again():
    from ttt_apps.explorer.app import ServerBusyError, Work

    work, begun, go = Work(workers=1, waiting=1), threading.Event(), threading.Event()

    def slow():
        begun.set()
        go.wait(10)
        return 1

    async def ask():
        first = asyncio.ensure_future(work.do(slow))
        second = asyncio.ensure_future(work.do(slow))
        await asyncio.sleep(0)
        with pytest.raises(ServerBusyError):
            await work.do(slow)
        go.set()
        assert await asyncio.gather(first, second) == [1, 1]
        assert await work.do(slow) == 1

    asyncio.run(ask())
    assert begun.is_set()
    work.close()


def test_a_busy_explorer_answers_429():
    from ttt_apps.explorer.app import Explorer, Work
    from ttt_apps.explorer.security import AccessPolicy

    with contextlib.closing(Client(Explorer(AccessPolicy("127.0.0.1", 8000), quick=Work(1, -1)))) as client:
        said = error(client.post("/api/about", json={}), 429)
    assert said == "too much is asked at once: ask again in a moment"


def test_requests_that_take_long_do_not_hold_others(monkeypatch):
    from ttt_apps.explorer.api import Answers
    from ttt_apps.explorer.app import WORKERS, Explorer
    from ttt_apps.explorer.security import AccessPolicy

    go, begun = threading.Event(), threading.Semaphore(0)

    def compile_long(self, asked):
        begun.release()
        go.wait(GIVE_UP_S)
        return {}

    monkeypatch.setattr(Answers, "values", compile_long)
    app = Explorer(AccessPolicy("127.0.0.1", 8000))
    slow = {"game": SKIPS, "position": START, "panels": [{"kind": "mcts"}]}
    quick = {
        "about": {},
        "replay": {"game": SKIPS, "moves": "b2"},
        "play": {"game": SKIPS, "moves": "", "seed": 0, "cell": 4},
    }

    async def ask(client):
        post = client.http.post
        waiting = [asyncio.ensure_future(post("/api/values", json=slow)) for _ in range(WORKERS + 2)]
        while not begun.acquire(blocking=False):
            await asyncio.sleep(0.01)
        try:
            for name, asked in quick.items():
                answer = await asyncio.wait_for(post(f"/api/{name}", json=asked), GIVE_UP_S / 2)
                assert answer.status_code == 200, answer.text
            assert not any(one.done() for one in waiting)
        finally:
            go.set()
            answers = await asyncio.gather(*waiting)
        assert {answer.status_code for answer in answers} == {200}

    with contextlib.closing(app), contextlib.closing(Client(app)) as client:
        client.runner.run(ask(client))


def test_panels_wait_until_the_board_is_compiled(monkeypatch):
    from ttt_apps.explorer.api import Answers
    from ttt_apps.explorer.schemas import Root, ValuesRequest

    replay, go, order = Answers.replay, threading.Event(), []

    def compile_long(self, asked):
        go.wait(GIVE_UP_S)
        order.append("board")
        return replay(self, asked)

    monkeypatch.setattr(Answers, "replay", compile_long)
    answers = Answers(Root())
    answers.start_warming()
    asked = ValuesRequest.model_validate({"game": SKIPS, "position": START, "panels": [{"kind": "exact"}]})
    asks = threading.Thread(target=lambda: (answers.values(asked), order.append("panel")))
    asks.start()
    go.set()
    asks.join(GIVE_UP_S)
    assert order == ["board", "panel"]


# ---------------------------------------------------------------------------------------------------------------------
# Requests that do not come


@contextlib.contextmanager
def served(token=None):
    """The port of an explorer that listens."""
    from ttt_apps.explorer.app import Explorer
    from ttt_apps.explorer.command import listening
    from ttt_apps.explorer.protocol import new_server
    from ttt_apps.explorer.security import AccessPolicy

    with listening("127.0.0.1", 0) as bound:
        port = bound.getsockname()[1]
        app = Explorer(AccessPolicy("127.0.0.1", port, token))
        server = new_server(app)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
        thread.start()
        try:
            yield port
        finally:
            server.should_exit = True
            thread.join()
            app.close()


def connect(port, text=""):
    client = socket.create_connection(("127.0.0.1", port), GIVE_UP_S)
    client.sendall(text.encode())
    return client


def heard(client):
    """All that comes until the end."""
    found = b""
    with contextlib.suppress(ConnectionResetError):
        while some := client.recv(1 << 16):
            found += some
    return found


@pytest.mark.needs("uvicorn")
@pytest.mark.parametrize("sent", ["", "GET / HTTP/1.1\r\nHost: 127.0.0.1", "whole, and half of another"])
@pytest.mark.parametrize("token", [None, "secret"])
def test_who_sends_half_a_head_is_not_waited_for(sent, token, monkeypatch):
    from ttt_apps.explorer import protocol

    with served(token) as port:
        whole = f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nX-Ttt-Token: secret\r\n\r\n"
        monkeypatch.setattr(protocol, "REQUEST_S", 0.5)
        with connect(port, "" if sent.startswith("whole") else sent) as client:
            if sent.startswith("whole"):
                client.sendall(whole.encode())
                assert client.recv(9) == b"HTTP/1.1 "
                client.sendall(b"GET /assets")
            if not sent:
                assert heard(client) == b""
            until = time.monotonic() + GIVE_UP_S
            with contextlib.suppress(OSError):
                while True:  # a byte now and then brings no more time
                    assert time.monotonic() < until
                    client.sendall(b"x")
                    time.sleep(0.1)
        with connect(port, whole) as client:
            assert client.recv(15) == b"HTTP/1.1 200 OK"


@pytest.mark.needs("uvicorn")
def test_who_sends_half_a_body_is_told_so(monkeypatch):
    from ttt_apps.explorer import security

    monkeypatch.setattr(security, "REQUEST_S", 0.2)
    with served() as port:
        head = f"POST /api/about HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
        with connect(port, f"{head}Content-Length: 100\r\n\r\n{{") as client:
            answer = heard(client)
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b"the rest of the request did not come in time" in answer


@pytest.mark.needs("uvicorn")
def test_many_who_send_half_a_head_hold_nobody_else(monkeypatch):
    from ttt_apps.explorer import protocol

    monkeypatch.setattr(protocol, "REQUEST_S", 10 * GIVE_UP_S)
    monkeypatch.setattr(protocol, "MAX_INCOMPLETE", 8)
    with served("secret") as port, contextlib.ExitStack() as stack:
        clients = [stack.enter_context(connect(port, "GET / HTTP/1.1\r\n")) for _ in range(20)]
        for client in clients[:12]:
            assert heard(client) == b""
        with connect(port, f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nX-Ttt-Token: secret\r\n\r\n") as client:
            assert client.recv(15) == b"HTTP/1.1 200 OK"
        clients[-1].setblocking(False)
        with pytest.raises(BlockingIOError):
            clients[-1].recv(1)


def test_what_is_kept_is_made_once_and_bounded():
    from ttt_apps.explorer.api import Recent

    recent, made = Recent(3), []

    def make(key):
        time.sleep(0.01)
        made.append(key)
        return key

    threads = [threading.Thread(target=recent.get, args=(1, lambda: make(1))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made == [1]
    for key in (2, 3, 1, 4):  # 1 is asked for again, so that 2 goes
        recent.get(key, lambda key=key: make(key))
    assert made == [1, 2, 3, 4]
    assert len(recent) == 3
    recent.get(2, lambda: make(2))
    assert made[-1] == 2
    with pytest.raises(ZeroDivisionError):
        recent.get(5, lambda: 1 / 0)
    assert recent.get(5, lambda: 5) == 5


WORDS = ("game", "position", "panels", "moves", "opening", "seed", "cell", "policy", "name", "number", "kind", "rank")


def noise(rng, deep=0):
    """JSON of any kind."""
    kind = rng.randrange(9 if deep < 4 else 6)
    if kind < 6:
        numbers = (0, -1, 2**70, 1e308, rng.random())
        return (None, rng.random() < 0.5, rng.choice(numbers), rng.choice(WORDS), START, "\x00\ud800'\"<")[kind]
    if kind == 6:
        return [noise(rng, deep + 1) for _ in range(rng.randrange(4))]
    return {rng.choice(WORDS): noise(rng, deep + 1) for _ in range(rng.randrange(4))}


def spoiled(rng):
    """A request that would be answered, with something else in a place or two."""
    game = {"rows": rng.randint(1, 4), "columns": rng.randint(1, 4), "win_length": rng.randint(1, 4)}
    game["skip_chance"] = rng.choice((0, 0.25, 0.5, rng.random()))
    cells = "".join(rng.choice("..ox") for _ in range(game["rows"] * game["columns"]))
    rows = [cells[start : start + game["columns"]] for start in range(0, len(cells), game["columns"])]
    position = f"{'/'.join(rows)} {rng.choice('ox')}"
    moves = " ".join(rng.choice("abc") + rng.choice("123") + rng.choice(("", "", "+")) for _ in range(rng.randrange(5)))
    specs = (
        "random",
        "optimal",
        "mcts:simulations=9",
        "svd:rank=3",
        "run:first",
        "tt:rank=2,w=3",
        "expectiminimax:depth=2",
    )
    panels = [
        {"kind": kind, "rank": rng.randrange(30), "simulations": 9, "run": "first", "policy": rng.choice(specs)}
        for kind in rng.sample(("exact", "random", "compressed", "run", "search", "mcts", "policy"), 2)
    ]
    name, asked = rng.choice((
        ("values", {"game": game, "position": position, "panels": panels}),
        ("replay", {"game": game, "moves": moves}),
        ("replay", {"game": game, "moves": "", "opening": position}),
        ("play", {"game": game, "moves": moves, "seed": rng.randrange(99), "policy": rng.choice(specs)}),
        ("play", {"game": game, "moves": moves, "seed": rng.randrange(99), "cell": rng.randrange(12)}),
        ("log", {"name": rng.choice(("games.jsonl", "first", "link"))}),
        ("logged", {"name": "games.jsonl", "number": rng.randrange(5)}),
        ("run", {"name": rng.choice(("first", "link", "broken"))}),
        ("mark", {"name": rng.choice(("first", "link", "broken")), "number": rng.randrange(3)}),
    ))  # fmt: skip
    for _ in range(rng.choice((0, 0, 1, 2))):
        inside = rng.choice((asked, game, *panels))
        inside[rng.choice(list(inside) or WORDS)] = noise(rng)
    return name, asked


def bombard(client, count, seed):
    """Ask for anything; every answer is 200 or 4xx, in JSON."""
    rng, statuses = random.Random(seed), []
    for _ in range(count):
        name, asked = spoiled(rng) if rng.random() < 0.8 else (rng.choice(("values", "play", "log", "x")), noise(rng))
        body = json.dumps(asked).encode()
        if rng.random() < 0.1:
            at = rng.randrange(len(body))
            body = body[:at] + rng.randbytes(rng.randrange(9)) + body[at + rng.randrange(3) :]
        answer = client.post(f"/api/{name}", content=body, headers={"content-type": "application/json"})
        assert answer.status_code == 200 or 400 <= answer.status_code < 500, (name, body)
        assert ("error" in answer.json()) == (answer.status_code != 200)
        statuses.append(answer.status_code)
    return statuses


def test_whatever_is_asked_is_answered_or_refused(client):
    statuses = bombard(client, 300, seed=1)
    assert min(statuses.count(200), statuses.count(400)) > 40  # it gets inside, and it gets things wrong


@pytest.mark.slow
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="frees memory as glibc does")
def test_ten_thousand_requests_leave_nothing_behind(client):
    answers = client.app.answers

    def resident():
        """Bytes, without what is kept on purpose: how much that is depends on which games were asked for last."""
        for kept in (answers._solutions, answers._tables, answers._policies, answers._choices):
            kept._kept.clear()
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

    bombard(client, 3000, seed=2)
    before = resident()
    bombard(client, 7000, seed=3)
    assert resident() - before < 16 << 20


# ---------------------------------------------------------------------------------------------------------------------
# The command


def test_the_command_serves_and_ends_quietly(root):
    import httpx

    command = [sys.executable, "play.py", "--web", "--no-browser", "--runs", str(root)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            line = process.stdout.readline()
            address = line.split()[4]
            for _ in range(200):
                with contextlib.suppress(httpx.TransportError):
                    assert "<title>ttt_envs explorer" in httpx.get(address).text
                    break
                time.sleep(0.05)
            assert httpx.post(f"{address}api/about", json={}).json()["logs"] == ["games.jsonl"]
        finally:
            process.send_signal(signal.SIGINT)
            rest, said = process.communicate(timeout=60)
    assert line.startswith("The explorer is at http://127.0.0.1:")
    assert (process.returncode, rest, said) == (0, "", "")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--port", "70000"], "--port 70000 is no port: choose 0, for a free one, to 65535"),
        (["--runs", "nowhere"], "nowhere is no folder: choose one that holds runs"),
        (["--host", "256.1.1.1"], "choose another --port or --host"),
        (["--prot", "1"], "did you mean --port?"),
    ],
)
def test_what_cannot_be_served_is_said(words, said, capsys):
    from ttt_apps.play import main

    with pytest.raises(SystemExit):
        main(["--web", "--no-browser", *words])
    assert said in capsys.readouterr().err


def test_without_the_extra_it_says_how_to_have_it(monkeypatch, capsys):
    from ttt_apps.explorer import command
    from ttt_apps.play import main

    monkeypatch.setattr(command, "NEEDED", ("no_such_package",))
    with pytest.raises(SystemExit):
        main(["--web", "--no-browser"])
    assert 'pip install "ttt_envs[explorer]"' in capsys.readouterr().err


@pytest.mark.parametrize(
    ("host", "alone"), [("127.0.0.1", True), ("localhost", True), ("::1", True), ("0.0.0.0", False), ("box", False)]
)
def test_only_this_machine_needs_no_token(host, alone):
    from ttt_apps.explorer.command import is_loopback

    assert is_loopback(host) == alone


def test_answers_are_sent_at_once():
    """Where a socket does not name its protocol, asyncio lets Nagle's algorithm hold every answer for 40 ms."""
    from ttt_apps.explorer.command import listening

    async def accepted():
        found = asyncio.get_running_loop().create_future()

        def connected(reader, writer):
            found.set_result(writer.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            writer.close()

        with listening("127.0.0.1", 0) as bound:
            async with await asyncio.start_server(connected, sock=bound):
                _, writer = await asyncio.open_connection(*bound.getsockname())
                try:
                    return await found
                finally:
                    writer.close()
                    await writer.wait_closed()

    assert asyncio.run(accepted())
