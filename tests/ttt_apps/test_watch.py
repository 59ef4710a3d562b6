"""Runs that are watched and stopped, and the answers of their page. The page in a browser: test_watch_page.py."""

import itertools
import json
import os
import shutil

import pytest
import tiny
from commands import error_of
from explorers import Client
from plain import assert_same_runs

from learners import LEARNERS
from ttt_apps import evaluate, live, runs, train

pytestmark = [pytest.mark.needs("fastapi", "uvicorn", "httpx")]
SLOW = {"naive-mc", "sb3-ppo", "sb3-maskable-ppo", "value-net"}
MARK = {"wins": 4, "draws": 3, "losses": 3}


@pytest.fixture
def watched(monkeypatch):
    """Every run from here on is watched at every step: what its reader has seen at the end of it, and the reader."""
    from ttt_apps.watch.reader import RunReader

    for name in ("POLL_S", "UPDATE_S", "SAMPLE_S"):
        monkeypatch.setattr(live, name, 0.0)
    monkeypatch.setattr(live, "SAMPLE_SHARE", 1.0)
    seen = {"states": [], "stop_after": None}

    class WatchedRun(live.LiveRun):
        def __init__(self, directory, *rest):
            super().__init__(directory, *rest)
            self.now_file = directory.live / live.NOW
            self.reader = seen["reader"] = RunReader(directory.path, "run")

        def begin(self, *phase):
            self.reader.refresh()
            super().begin(*phase)
            self.reader.refresh()
            seen["states"].append(self.reader.state)

        def update(self, done):
            if seen["stop_after"] is not None and done.games >= seen["stop_after"]:
                self.reader.stop()
            super().update(done)

        def __exit__(self, *problem):
            self.reader.refresh()
            seen["now"] = json.loads(self.now_file.read_text())
            seen["summary"], seen["detail"] = self.reader.summary(), self.reader.detail()
            super().__exit__(*problem)

    monkeypatch.setattr(runs, "LiveRun", WatchedRun)
    return seen


# ---------------------------------------------------------------------------------------------------------------------
# Runs


@pytest.mark.parametrize("name", [tiny.case(name, slow=name in SLOW) for name in LEARNERS])
def test_a_watched_run_is_bit_for_bit_the_same(name, tmp_path, request):
    tiny.train_run(name, tmp_path / "alone")
    seen = request.getfixturevalue("watched")
    tiny.train_run(name, tmp_path / "watched")
    assert_same_runs(tmp_path / "alone", tmp_path / "watched")
    assert seen["states"][-2:] == ["training", "evaluation"]
    sample = seen["detail"]["sample"]
    assert sample["result"] in ("o", "x", "draw")
    assert sum(seen["detail"]["first"]["probabilities"]) == pytest.approx(1, abs=1e-3)
    seen["reader"].refresh()
    assert seen["reader"].state == "finished"


@pytest.mark.parametrize("name", [tiny.case(name, slow=name in SLOW) for name in LEARNERS])
def test_a_run_stopped_by_its_watcher_ends_as_after_ctrl_c(name, tmp_path, watched, capsys):
    tiny.train_run(name, tmp_path / "whole")
    watched["stop_after"] = 2
    with pytest.raises(SystemExit) as end:
        tiny.train_run(name, tmp_path / "stopped")
    assert end.value.code == 130
    assert f"train.py --resume {tmp_path / 'stopped'}" in capsys.readouterr().err
    assert watched["detail"]["stopping"]
    assert watched["detail"]["resumes"] == (not name.startswith("sb3"))
    watched["reader"].refresh()
    assert watched["reader"].state == "stopped"
    watched["stop_after"] = None
    train.main(["--resume", str(tmp_path / "stopped"), "--quiet"])
    assert_same_runs(tmp_path / "whole", tmp_path / "stopped")


def test_the_sample_game_is_against_the_opponent_in_both_seats(tmp_path, watched):
    tiny.train_run("q-learning", tmp_path / "run", "--opponent=win-or-block")
    assert set(watched["detail"]["sample"]["players"]) == {"q-learning", "win-or-block"}


def test_the_next_phase_begins_with_all_games(tmp_path, watched, monkeypatch):
    monkeypatch.setattr(live, "POLL_S", 3600.0)  # no step is long enough after the last look
    tiny.train_run("q-learning", tmp_path / "run", "--games=300")
    assert (watched["now"]["phase"], watched["now"]["games"]) == ("evaluation", 300)


def test_a_run_without_watchers_writes_nothing_for_them(tmp_path, monkeypatch):
    monkeypatch.setattr(live.LiveRun, "_write", lambda _: pytest.fail("it is not watched"))
    tiny.train_run("q-learning", tmp_path / "run")
    assert not (tmp_path / "run" / "live").exists()


def test_requests_left_by_a_killed_run_are_not_for_the_next_one(tmp_path, watched):
    folder = tmp_path / "run"
    tiny.train_run("q-learning", folder)
    (folder / "live").mkdir()
    (folder / "live" / "stop").touch()
    train.main(["--resume", str(folder), "--games=300", "--quiet"])
    assert watched["summary"]["games"] == 300
    assert not (folder / "live").exists()


# ---------------------------------------------------------------------------------------------------------------------
# Readers


def write_marks(path, marks):
    path.write_text("".join(json.dumps({"games": games, **MARK, "loss": value}) + "\n" for games, value in marks))


def test_curves_have_few_points_however_long_the_run(tmp_path):
    from ttt_apps.watch.reader import MAX_POINTS, MetricsTail

    path = tmp_path / "metrics.jsonl"
    tail = MetricsTail(path)
    tail.read()
    assert tail.measures() == []
    write_marks(path, [(games, 1 / games) for games in range(1, 20_001)])
    while tail.games < 20_000:
        tail.read()
    points = tail.curves["loss"].points()
    assert MAX_POINTS // 2 < len(points) <= MAX_POINTS + 1
    assert points[0] == (1, 1.0)
    assert points[-1] == (20_000, 1 / 20_000)
    gaps = {b[0] - a[0] for a, b in itertools.pairwise(points[:-1])}
    assert len(gaps) == 1  # evenly thinned out


def test_curves_are_read_again_from_a_file_that_was_cut(tmp_path):
    from ttt_apps.watch.reader import MetricsTail

    path = tmp_path / "metrics.jsonl"
    tail = MetricsTail(path)
    for marks in ([(10, 1.0), (20, 2.0)], [(10, 5.0)], [(5, 1.0), (8, 2.0), (30, 3.0)]):
        write_marks(path, marks)
        tail.read()
        tail.read()
        assert tail.curves["loss"].points() == [(games, value) for games, value in marks]
    with path.open("a") as file:
        file.write('{"games": 40, "lo')
    tail.read()
    assert tail.games == 30
    assert tail.problem is None


@pytest.mark.parametrize(
    "content", [b"{}\n", b"no\n", b'{"games": NaN}\n', b"[" * 100_000 + b"\n", b"x" * (1 << 20), b'{"games": "1"}\n']
)
def test_a_damaged_curve_is_named(content, tmp_path):
    from ttt_apps.watch.reader import MetricsTail

    path = tmp_path / "metrics.jsonl"
    path.write_bytes(content)
    tail = MetricsTail(path)
    for _ in range(3):
        tail.read()
    assert tail.problem.startswith("metrics.jsonl ")
    assert tail.measures() == []


@pytest.fixture
def run(tmp_path):
    return tiny.train_run("q-learning", tmp_path / "runs" / "first", "--exact-every=50")


def good_now(**changes):
    sample = {"games": 5, "game": {}, "last": [], "probabilities": [1.0], "values": None}
    now = {"format": 1, "heartbeat": 1, "phase": "training", "games": 5, "total": 10, "games_per_s": 1.0}
    now |= {"seconds_left": None, "stopping": False, "resumes": True, "sample": None}
    return json.dumps({**now, **changes, **({"sample": sample} if changes.get("sample") else {})})


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        "[" * 60_000,
        good_now(games=-1),
        good_now(games=True),
        good_now(phase="other"),
        good_now(games_per_s=1e30),
        good_now(sample=True),
        " " * (1 << 17),
    ],
)
def test_a_hostile_state_of_a_run_is_named(content, run):
    from ttt_apps.watch.reader import RunReader

    reader = RunReader(run, "first")
    (run / "live").mkdir()
    (run / "live" / "now.json").write_text(content)
    reader.refresh()
    assert reader.summary()["problem"]
    assert reader.summary()["games"] == 200
    (run / "live" / "now.json").write_text(good_now(games=220))
    reader.refresh()
    assert reader.summary()["problem"] is None
    assert reader.summary()["games"] == 220


def test_links_are_not_followed(run, tmp_path):
    from ttt_apps.watch.reader import RunReader

    other = tmp_path / "other"
    other.write_text("x")
    os.utime(other, (1, 1))
    (run / "live").mkdir()
    for name in ("watched", "stop", "now.json"):
        (run / "live" / name).symlink_to(other)
    reader = RunReader(run, "first")
    reader.refresh()
    with pytest.raises(ValueError, match="a link"):
        reader.stop()
    assert other.stat().st_mtime == 1
    shutil.rmtree(run / "live")
    (run / "live").symlink_to(tmp_path)
    reader.refresh()
    assert reader.state == "finished"


# ---------------------------------------------------------------------------------------------------------------------
# Answers


@pytest.fixture
def client(run):
    from ttt_apps.explorer.security import AccessPolicy
    from ttt_apps.watch.app import WatchPage

    page = WatchPage(AccessPolicy("127.0.0.1", 8000, "right"), [run.parent])
    client = Client(page)
    client.http.headers["x-ttt-token"] = "right"
    yield client
    client.close()
    page.close()


def test_runs_and_one_of_them_in_detail(client, run):
    answer = client.post("/api/runs", json={}).json()
    assert [(one["name"], one["state"], one["games"]) for one in answer["runs"]] == [(str(run), "finished", 200)]
    detail = answer["run"]
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    exact = [[row["games"], row["exploitability"]] for row in rows if "exploitability" in row]
    assert detail["measure"] == detail["measures"][0] == "exploitability"
    assert detail["points"] == [[games, pytest.approx(value, rel=1e-5)] for games, value in exact]
    assert len(detail["first"]["values"]) == 6
    again = client.post("/api/runs", json={"name": str(run), "version": detail["version"]}).json()
    assert again["run"]["points"] is None
    other = {"name": str(run), "measure": "win rate", "version": detail["version"]}
    rates = client.post("/api/runs", json=other).json()["run"]["points"]
    assert [games for games, _ in rates] == [row["games"] for row in rows]
    assert rates[0][1] == pytest.approx(rows[0]["wins"] / rows[0]["games"], rel=1e-5)


def test_runs_that_appear_later_are_found(client, run, monkeypatch):
    from ttt_apps.watch import app

    monkeypatch.setattr(app, "SEARCH_S", 0.0)
    monkeypatch.setattr(app, "REFRESH_S", 0.0)
    tiny.train_run("q-learning", run.parent / "second", "--seed=1")
    names = [one["name"] for one in client.post("/api/runs", json={}).json()["runs"]]
    assert names == [str(run), str(run.parent / "second")]


def test_a_run_in_progress_is_stopped(client, run):
    (run / "live").mkdir()
    assert client.post("/api/runs", json={}).json()["run"]["stoppable"]
    assert (run / "live" / "watched").exists()
    assert client.post("/api/stop", json={"name": str(run)}).status_code == 200
    assert (run / "live" / "stop").exists()


@pytest.mark.parametrize(
    ("path", "body", "status", "words"),
    [
        ("stop", {"name": "nowhere"}, 400, "no run 'nowhere'"),
        ("stop", {"name": "../../etc"}, 400, "no run"),
        ("stop", {"name": None}, 400, "name"),
        ("stop", {}, 400, "name"),
        ("runs", {"name": "nowhere"}, 400, "no run 'nowhere'"),
        ("runs", {"other": 1}, 400, "other"),
        ("runs", {"version": "x" * 501}, 400, "version"),
        ("runs", {"name": "x" * 20_000}, 413, "longer than"),
    ],
)
def test_invalid_requests_are_named(client, path, body, status, words):
    client.post("/api/runs", json={})
    answer = client.post(f"/api/{path}", json=body)
    assert answer.status_code == status
    assert words in answer.json()["error"]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"x-ttt-token": "wrong"}, 401),
        ({"host": "evil.example:8000"}, 421),
        ({"origin": "http://evil.example"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"content-type": "text/plain"}, 415),
    ],
)
def test_no_other_site_or_user_stops_a_run(client, run, headers, status):
    (run / "live").mkdir()
    client.post("/api/runs", json={})
    body = json.dumps({"name": str(run)})
    answer = client.post("/api/stop", content=body, headers={"content-type": "application/json", **headers})
    assert answer.status_code == status
    assert not (run / "live" / "stop").exists()


def test_a_finished_run_is_not_stopped(client, run):
    client.post("/api/runs", json={})
    answer = client.post("/api/stop", json={"name": str(run)})
    assert "nothing to stop" in answer.json()["error"]


# ---------------------------------------------------------------------------------------------------------------------
# Commands


def test_missing_packages_are_named(capsys, monkeypatch, tmp_path):
    from ttt_apps.explorer import command

    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    monkeypatch.setattr(command, "NEEDED", ("no_such_package",))
    message = error_of(capsys, evaluate.main, "watch", "--no-browser")
    assert "a page in the browser needs no_such_package: pip install" in message


def test_a_page_that_cannot_be_served_begins_no_training(capsys, tmp_path):
    words = ["--games=20", "--out", str(tmp_path / "run"), "--watch", "--no-browser", "--port=70000"]
    assert "--port 70000 is no port" in error_of(capsys, train.main, *words)
    assert not (tmp_path / "run").exists()
