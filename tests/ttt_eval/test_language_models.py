"""Language models as players: against a stub endpoint that plays by known policies, and fails in all ways."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import contextmanager

import gymnasium
import numpy as np
import pytest
from commands import error_of, json_of, rows_of
from hypothesis import given
from hypothesis import strategies as st
from pages import check_damaged_results
from processes import ROOT, python_path, run_python
from stub_endpoint import KEY, MOVES, answers_badly, serve_stub

from baselines.exact import solve
from ttt_apps import evaluate
from ttt_envs.agents.policy import Policy
from ttt_envs.agents.specs import make_policy
from ttt_envs.game.boards import Boards, from_text, to_text
from ttt_envs.game.game import Game, Position
from ttt_envs.game.rules import NOT_OVER, chance_outcomes
from ttt_envs.game.symmetry import symmetries
from ttt_envs.text import make_presentation, parse_answer, present
from ttt_eval.exact import exploitability, outcome, regret
from ttt_eval.language_models.answer_cache import ANSWERS, open_answers
from ttt_eval.language_models.dataset import DataSettings, make_rows
from ttt_eval.language_models.endpoint import (
    Completion,
    Endpoint,
    EndpointError,
    Question,
    Sampling,
    check_key,
    check_url,
)
from ttt_eval.language_models.evaluation import evaluate_model
from ttt_eval.language_models.player import TextSettings, game_tasks, position_tasks, reachable_positions
from ttt_eval.language_models.results import game_luck
from ttt_eval.language_models.scheduler import Limits, RequestScheduler
from ttt_eval.matches.luck import make_correction, make_expected_values
from ttt_eval.reports.results import RESULT

pytestmark = [pytest.mark.needs("httpx")]

SMALL = Game(2, 3, 2, 0.25)
"""A game of 153 positions, in 60 of which a move loses value."""


@contextmanager
def make_scheduler(folder, url, model="optimal", limits=Limits(), sampling=None, **options):  # noqa: B008  # frozen
    settings = {"backoff_s": 0.001, "timeout_s": 30.0, **options}
    with Endpoint(url, KEY, **settings) as endpoint, open_answers(folder) as answers:
        yield RequestScheduler(endpoint, sampling or Sampling(model), answers, limits)


def play(folder, url, model, settings, opponent, games, **options):
    """Games of a model, in order."""
    with make_scheduler(folder, url, model, **options) as scheduler:
        return [text for _, text in sorted(scheduler.run(game_tasks(settings, opponent, games)))]


def env_game(game, model, opponent, seed, seat):
    """The moves and the reward of the same policy in the Gymnasium environment."""
    env = gymnasium.make(
        "ttt_envs:ttt/MNK-v0",
        size=(game.rows, game.columns),
        win_length=game.win_length,
        skip_chance=game.skip_chance,
        opponent=opponent,
    )
    observation, info = env.reset(seed=seed, options={"seat": seat})
    if info["outcome"]:  # over by skips before the first move
        return [], env.step(0)[1]
    reward, over, actions = 0.0, False, []
    while not over:
        own, other = observation.astype(np.int8).reshape(2, -1)
        position = Position(own * (seat + 1) + other * (2 - seat), seat)
        actions.append(MOVES[model](game, position))
        observation, reward, over, _, _ = env.step(actions[-1])
    return actions, reward


@pytest.mark.parametrize("skip", [0.0, 0.5])
@pytest.mark.parametrize("model", sorted(MOVES))
def test_games_are_those_of_the_environment_seed_by_seed(model, skip, tmp_path):
    game = Game(skip_chance=skip)
    settings = TextSettings(game, seed=5)
    with serve_stub(game) as (_, url):
        texts = play(tmp_path, url, model, settings, "random", 12)
    for number, text in enumerate(texts):
        pair, seat = divmod(number, 2)
        own = [turn.action for turn in text.turns if turn.by == "answer"]
        assert (own, text.result(seat)) == env_game(game, model, "random", 5 + pair, seat)


class Named(Policy):
    """A model of the stub as a policy."""

    def __init__(self, game, model):
        self.game, self.model = game, model

    def probabilities(self, boards, rng=None):
        shares = np.zeros(boards.cells.shape)
        for row in range(len(shares)):
            position = boards.position(row)
            if self.model == "half-malformed" and answers_badly(self.game, position):
                legal = position.cells == 0
                shares[row] = legal / legal.sum()
            else:
                shares[row, MOVES[{"half-malformed": "optimal"}.get(self.model, self.model)](self.game, position)] = 1
        return shares


@pytest.mark.parametrize("model", ["optimal", "random", "half-malformed"])
def test_the_exact_strength_is_that_of_the_policy(model, tmp_path):
    settings = TextSettings(SMALL, illegal="random")
    with serve_stub(SMALL) as (stub, url), make_scheduler(tmp_path, url, model) as scheduler:
        found = evaluate_model(scheduler, settings, opponent=make_policy("random", SMALL), games=0, positions=True)
    policy, exact = Named(SMALL, model), found["positions"]["exact"]
    assert exact["exploitability"] == pytest.approx(exploitability(SMALL, policy), abs=1e-12)
    assert exact["regret"] == pytest.approx(regret(SMALL, policy), abs=1e-12)
    both = outcome(SMALL, policy, "random").mean(outcome(SMALL, "random", policy).reversed())
    assert exact["results"]["random"] == pytest.approx(both._asdict(), abs=1e-12)
    assert found["complete"]
    assert found["usage"]["answers"] == len(stub.answered) == found["positions"]["positions"]
    part = found["positions"]
    assert part["moves"]["illegal_share"] == pytest.approx(part["without_move"] / len(stub.answered))
    assert (part["without_move"] > 0) == (model == "half-malformed")
    if model == "optimal":
        assert exact["exploitability"] == pytest.approx(0, abs=1e-12)
        assert found["positions"]["blunders"] == []
    else:
        worst = found["positions"]["blunders"][0]
        assert worst["loss"] > 0
        assert not set(worst["best"]) >= set(map(int, worst["moves"]))


def test_no_symmetry_of_a_model_is_assumed():
    """Every reachable position is asked about: the stub's policies depend on the order of cells."""
    boards = reachable_positions(Game())
    assert len(boards.mover) == 4520  # 5478 reachable positions of tic-tac-toe, 958 of which are over
    assert len({(cells.tobytes(), mover) for cells, mover in zip(*boards, strict=True)}) == 4520


def test_the_score_has_no_luck(tmp_path):
    """Two perfect players: without the luck of skips and of the opponent's draws, every pair has the same score."""
    game = Game(skip_chance=0.5)
    with serve_stub(game) as (_, url), make_scheduler(tmp_path, url) as scheduler:
        found = evaluate_model(
            scheduler, TextSettings(game), opponent=make_policy("optimal", game), games=20, positions=False,
            luck_correction="exact",
        )  # fmt: skip
    games = found["games"]
    assert games["score"]["mean"] == pytest.approx(0.5, abs=1e-12)
    assert games["variance_reduction"] is None
    assert games["raw_score"]["low"] < 0.5 < games["raw_score"]["high"]
    assert games["raw_score"]["high"] - games["raw_score"]["low"] > games["score"]["high"] - games["score"]["low"]
    assert games["moves"]["regret"] == pytest.approx(0, abs=1e-12)


def test_luck_is_the_value_after_a_draw_minus_its_expectation(tmp_path):
    """Of skips, and of the moves of an opponent whose draws are known."""
    correction = make_correction("exact", SMALL)
    known = make_expected_values(make_policy("random", SMALL), correction)

    def value(position, winner):
        if winner in (0, 1):
            return 1 - 2 * winner
        return (
            (1 - 2 * position.mover) * solve(SMALL).values(Boards.from_positions([position]))[0]
            if winner is None
            else 0
        )

    def mean(position, action):
        chances = chance_outcomes(SMALL, position, int(action))
        return sum(chance.probability * value(chance.position, chance.winner) for chance in chances)

    with serve_stub(SMALL) as (_, url):
        texts = play(tmp_path, url, "optimal", TextSettings(SMALL), "random", 8)
    for number, text in enumerate(texts):
        luck = 0.0
        for turn in text.turns:
            drawn = [turn.action] if turn.by == "answer" else np.flatnonzero(turn.position.cells == 0)
            expected = np.mean([mean(turn.position, action) for action in drawn])
            luck += value(turn.after, None if turn.outcome == NOT_OVER else turn.outcome.winner) - expected
        found = game_luck(text, number % 2, correction, known)
        assert found == pytest.approx((1 - 2 * (number % 2)) * luck, abs=1e-12)


def test_regret_and_blunders_of_games_are_those_of_the_moves(tmp_path):
    game = Game(skip_chance=0.25)
    with serve_stub(game) as (_, url), make_scheduler(tmp_path, url, "random") as scheduler:
        settings, opponent = TextSettings(game), make_policy("win-or-block", game)
        texts = [text for _, text in sorted(scheduler.run(game_tasks(settings, opponent, 8)))]
        found = evaluate_model(scheduler, settings, opponent=opponent, games=8, positions=False)["games"]
    losses, by_stones = [], Counter()
    for number, text in enumerate(texts):
        for turn in text.turns:
            if turn.position.mover == number % 2:
                values = solve(game).action_values(Boards.from_positions([turn.position]))[0]
                losses.append(np.nanmax(values) - values[turn.action])
                by_stones[int(np.count_nonzero(turn.position.cells))] += 1
    assert found["moves"]["regret"] == pytest.approx(np.mean(losses))
    assert found["moves"]["blunders"] == np.sum(np.array(losses) > 1e-9) > 0
    assert {row["stones"]: row["moves"] for row in found["moves"]["by_stones"]} == by_stones
    assert sum(one["times"] for one in found["blunders"]) <= len(losses)
    assert found["moves"]["illegal"] == 0


@pytest.mark.parametrize(
    ("illegal", "answers", "ends"), [("lose", 1, True), ("ask", 3, True), ("random", 1, False)], ids=str
)
def test_illegal_answers_are_counted_and_have_their_consequence(illegal, answers, ends, tmp_path):
    game = Game(2, 3, 3)
    settings = TextSettings(game, illegal=illegal, max_asks=2)
    with serve_stub(game) as (_, url), make_scheduler(tmp_path, url, "malformed") as scheduler:
        opponent = make_policy("random", game)
        found = evaluate_model(scheduler, settings, opponent=opponent, games=8, positions=False)["games"]
    moves = found["moves"]
    assert moves["illegal_share"] == 1.0
    assert moves["moves"] == 0
    assert moves["problems"] == {"unknown-cell": moves["answers"]}
    if ends:
        assert found["losses"]["mean"] == 1.0
        assert found["forfeits"]["a"] == 8
        assert moves["answers"] == 8 * answers
        assert moves["by_stones"][0]["stones"] == 0
    else:
        assert "forfeits" not in found
        assert found["losses"]["mean"] < 1.0


# ---------------------------------------------------------------------------------------------------------------------
# An endpoint that fails


FAULTS = [429, 500, 503, "half", "close", "no-json", "empty", 429, "close", "half", 502]


def test_faults_change_no_result_and_no_answer_is_requested_again(tmp_path):
    settings = TextSettings(SMALL)
    with serve_stub(SMALL) as (good, url):
        expected = play(tmp_path / "good", url, "random", settings, "random", 8)
    with serve_stub(SMALL, faults=FAULTS) as (stub, url):
        found = play(tmp_path / "bad", url, "random", settings, "random", 8, retries=12)
    assert list(map(plain_turns, found)) == list(map(plain_turns, expected))
    assert stub.faults == []
    assert Counter(stub.answered) == Counter(good.answered)
    assert max(Counter(stub.answered).values()) == 1
    assert stub.attempts == len(stub.answered) + len(FAULTS)


def plain_turns(text):
    return [(to_text(turn.position, text.game), turn.action, turn.outcome) for turn in text.turns]


@pytest.mark.parametrize(
    ("demanded", "wait_s"),
    [
        ("7", 7), ("700", "700"), ("Wed, 21 Oct 2195 07:28:00 GMT", r"\d,\d{3},\d{3},\d{3}"),
        *((text, 0) for text in ("Wed, 21 Oct 2015 07:28:00 GMT", "soon", "-1", "1e9", "9" * 99, "Wed, 99 Oct 2015")),
    ],
)  # fmt: skip
def test_the_demanded_wait_is_kept_or_too_long(demanded, wait_s, monkeypatch):
    monkeypatch.setattr("stub_endpoint.RETRY_AFTER", demanded)
    waits, body = [], Sampling("malformed").body(Question(({"role": "user", "content": ""},)))
    with serve_stub(SMALL, faults=[429]) as (_, url), Endpoint(url, KEY, backoff_s=0.001) as endpoint:
        monkeypatch.setattr(endpoint.stopping, "wait", waits.append)
        if isinstance(wait_s, int):
            assert endpoint.complete(body).text
        else:
            with pytest.raises(EndpointError, match=f"asks to wait {wait_s} s"):
                endpoint.complete(body)
    assert waits == ([] if isinstance(wait_s, str) else [pytest.approx(wait_s, abs=0.001)])  # the backoff is shorter


def test_slow_replies_are_requested_again_after_the_time_limit(tmp_path):
    with serve_stub(SMALL, faults=["slow"]) as (stub, url):
        texts = play(tmp_path, url, "optimal", TextSettings(SMALL), "random", 2, timeout_s=0.5, limits=Limits(1))
    assert all(text.over for text in texts)
    assert stub.attempts == len(stub.answered) + 1


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "httpx", None)
    with pytest.raises(ValueError, match=r"a language model needs httpx: pip install .*\[llm\]"):
        Endpoint("http://127.0.0.1:9/v1")


@pytest.mark.parametrize(
    ("faults", "words"),
    [
        ([500] * 3, "has not answered after 3 attempts; the last: HTTP status 500"),
        (["close"] * 3, "/v1/chat/completions has not answered after 3 attempts"),
        (["no-json"] * 3, "the last: a reply that is no chat completion: it is not JSON"),
        (["empty"] * 3, "has no choices with a message"),
        ([400], "HTTP status 400"),
        ([404], "endpoint= is the address before /chat/completions"),
        (["huge"], "the endpoint sent a reply of more than 8,388,608 bytes: choose a smaller max_tokens"),
    ],
    ids=str,
)
def test_a_failure_that_stays_ends_the_work_with_a_sentence(faults, words, tmp_path):
    with (
        serve_stub(SMALL, faults=faults) as (_, url),
        pytest.raises(EndpointError, match=words.replace("(", r"\(")) as end,
    ):
        play(tmp_path, url, "optimal", TextSettings(SMALL), "random", 2, retries=2, limits=Limits(1))
    assert KEY not in str(end.value)


def test_requests_run_concurrently_up_to_the_limit(tmp_path):
    with serve_stub(SMALL, delay_s=0.02) as (stub, url):
        play(tmp_path, url, "random", TextSettings(SMALL), "random", 16, limits=Limits(concurrency=3))
    assert 2 <= stub.most_at_once <= 3


def test_samples_of_a_model_with_temperature_are_asked_separately(tmp_path):
    game, sampling = Game(2, 3, 3), Sampling("optimal", temperature=1.0, seed=3)
    with serve_stub(game) as (stub, url):
        play(tmp_path, url, "", TextSettings(game), "random", 6, sampling=sampling)
        asked = len(stub.answered)
        play(tmp_path, url, "", TextSettings(game), "random", 6, sampling=sampling)
    assert len(stub.answered) == asked
    bodies = [json.loads(body) for body in stub.answered]
    assert {body["seed"] for body in bodies} == set(range(3, 9))
    assert all(body["temperature"] == 1.0 for body in bodies)


# ---------------------------------------------------------------------------------------------------------------------
# Limits, and stops


def test_limits_are_never_exceeded_and_the_work_continues(tmp_path):
    settings, opponent = TextSettings(SMALL), make_policy("random", SMALL)
    with serve_stub(SMALL) as (stub, url):
        for most in (5, 9, 40, 10_000):
            before = len(stub.answered)
            limits = Limits(4, max_requests=most)
            with make_scheduler(tmp_path, url, limits=limits) as scheduler:
                found = dict(scheduler.run(position_tasks(settings, reachable_positions(SMALL))))
            assert len(stub.answered) - before == scheduler.new.answers <= most
            assert scheduler.spent == (scheduler.new.answers == most)
        assert len(found) == len(stub.answered) == len(set(stub.answered))
    with serve_stub(SMALL) as (stub, url):
        prices = {"price_in": 1.0, "price_out": 2.0}
        limits = Limits(4, max_cost=0.02, **prices)
        with make_scheduler(tmp_path / "cost", url, limits=limits) as scheduler:
            found = evaluate_model(scheduler, settings, opponent=opponent, games=0, positions=True)
    assert scheduler.spent
    assert not found["complete"]
    assert found["positions"]["exact"] is None
    assert 0.01 < found["new"]["cost"] <= 0.02
    assert found["new"]["cost"] == pytest.approx(len(stub.answered) * (100 * 1.0 + 7 * 2.0) / 1e6)


def command(url, folder, *words):
    return [
        "llm", "--endpoint", url, "--model", "random", "--size", "2x3", "--win-length", "3", "--cache",
        str(folder / "cache"), "--out", str(folder / "out"), *words,
    ]  # fmt: skip


@pytest.mark.parametrize("sent", ["SIGKILL", pytest.param("SIGINT", marks=pytest.mark.slow)])
@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_a_stopped_evaluation_continues_and_asks_nothing_twice(sent, tmp_path):
    game, concurrency = Game(2, 3, 3), 3
    words = ["--positions", "all", "--games", "6", "--concurrency", str(concurrency), "--no-report"]
    env = {**os.environ, "OPENAI_API_KEY": KEY, "PYTHONPATH": python_path(ROOT)}
    with serve_stub(game, delay_s=0.01) as (stub, url):
        start = ["evaluate.py", *command(url, tmp_path, *words)]
        one = subprocess.Popen(
            [sys.executable, *start], cwd=ROOT, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        while len(stub.answered) < 30 and one.poll() is None:
            time.sleep(0.005)
        one.send_signal(getattr(signal, sent))
        assert b"Traceback" not in one.communicate()[1]
        stored = len((tmp_path / "cache" / ANSWERS).read_bytes().splitlines())
        at_stop = len(stub.answered)
        run_python(*start, env=env)
        counts = Counter(stub.answered)
    lost = at_stop - stored
    assert 0 <= lost <= (concurrency if sent == "SIGKILL" else 0)
    assert sum(counts.values()) - len(counts) <= lost  # what was in flight at a kill, and no more
    assert len((tmp_path / "cache" / ANSWERS).read_bytes().splitlines()) == len(counts)
    found = json.loads((tmp_path / "out" / RESULT).read_text())
    assert found["usage"]["answers"] == len(counts)
    with serve_stub(game) as (_, url), make_scheduler(tmp_path / "whole", url, "random") as scheduler:
        whole = evaluate_model(
            scheduler, TextSettings(game), opponent=make_policy("optimal", game), games=6, positions=True
        )
    assert [found[name] for name in ("games", "positions", "usage")] == [
        whole[name] for name in ("games", "positions", "usage")
    ]


# ---------------------------------------------------------------------------------------------------------------------
# The key


@pytest.mark.parametrize("faults", [[], [500] * 9, [400], ["no-json"] * 9], ids=str)
def test_the_key_is_in_no_file_and_no_output(faults, tmp_path, monkeypatch, capsys):
    """The stub writes the key into its errors and its answers."""
    game = Game(2, 3, 3)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr("stub_endpoint.Stub.answer", lambda stub, body: f"my key is {KEY}: <move>{KEY[:20]}</move>")
    monkeypatch.setattr("ttt_eval.language_models.endpoint.MAX_BACKOFF_S", 0.001)
    with serve_stub(game, faults=faults) as (stub, url):
        words = command(url, tmp_path, "--games", "2", "--retries", "2", "--concurrency", "1")
        if faults:
            error_of(capsys, evaluate.main, *words)
        else:
            evaluate.main(words)
    assert stub.attempts
    shown = capsys.readouterr()
    assert KEY not in shown.out + shown.err
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert files
    for path in files:
        assert KEY.encode() not in path.read_bytes(), path
    assert faults or any(b"[key]" in path.read_bytes() for path in files)


def test_a_wrong_key_and_no_key_are_told_without_it(tmp_path, monkeypatch, capsys):
    game = Game(2, 3, 3)
    for key in ("sk-another-key", ""):
        monkeypatch.setenv("OPENAI_API_KEY", key)
        with serve_stub(game) as (_, url):
            shown = error_of(capsys, evaluate.main, *command(url, tmp_path, "--games", "2"))
        assert "set the environment variable OPENAI_API_KEY, or --key-variable NAME)" in shown
        assert not key or key not in shown
    with pytest.raises(ValueError, match=r"^the environment variable NAME holds no key") as end:
        check_key("two words", "NAME")
    assert "two words" not in str(end.value)


def test_a_placeholder_is_no_secret():
    """Local servers want any key, such as EMPTY; an answer may hold that word."""
    reply = json.dumps({"choices": [{"message": {"content": f"[b2] is EMPTY, {KEY}"}}]}).encode()
    for key, text in (("EMPTY", f"[b2] is EMPTY, {KEY}"), (KEY, "[b2] is EMPTY, [key]")):
        with Endpoint("http://127.0.0.1:9/v1", key) as endpoint:
            assert endpoint._read(reply).text == text


# ---------------------------------------------------------------------------------------------------------------------
# Stored answers


def test_stored_answers_of_any_content_are_no_danger(tmp_path):
    good = Completion("<move>a1</move> \U0001f600", 3, 4, False)
    with open_answers(tmp_path) as answers:
        answers.add("one", good)
        with pytest.raises(ValueError, match="another process is writing"), open_answers(tmp_path):
            pass
    path = tmp_path / ANSWERS
    line = path.read_bytes()
    bad = [
        line.replace(b'"one"', b'"two"'), line.replace(b"a1", b"b1"), b"[" * 10**5 + b"\n", b"\xff\xfe\n", b"\n",
        b"9" * 5000 + b"\n", b"{}\n", b'{"question": 3}\n', b"x" * 3_000_000 + b"\n", line[: len(line) // 2],
    ]  # fmt: skip
    path.write_bytes(b"".join([*bad[:-1], line, bad[-1]]))
    with open_answers(tmp_path) as answers:
        assert len(answers) == 1
        assert answers.get("one") == good
        answers.add("three", good)
    with open_answers(tmp_path) as answers:
        assert [answers.get(key) for key in ("one", "two", "three")] == [good, None, good]
    path.unlink()
    path.symlink_to("/dev/zero")
    with pytest.raises(ValueError, match="is a link"), open_answers(tmp_path):
        pass


@pytest.fixture(scope="module")
def endpoint():
    with Endpoint("http://127.0.0.1:9/v1", KEY) as one:
        yield one


@given(content=st.binary(max_size=300))
def test_any_bytes_are_read_as_a_reply_or_refused(endpoint, content):
    try:
        found = endpoint._read(content)
    except ValueError:
        return
    assert isinstance(found, Completion)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["choices", "message", "content", "usage", "text", "prompt_tokens", "finish_reason"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(content=json_values, usage=json_values, other=json_values)
def test_any_json_is_read_as_a_reply_or_refused(endpoint, content, usage, other):
    reply = {"choices": [{"message": {"content": content}, "finish_reason": other}], "usage": usage}
    found = endpoint._read(json.dumps(reply).encode())
    assert isinstance(found.text, str)
    assert min(found.prompt_tokens, found.completion_tokens) >= 0
    try:
        endpoint._read(json.dumps(other).encode())
    except ValueError as problem:
        assert len(str(problem)) < 400  # noqa: PT017


# ---------------------------------------------------------------------------------------------------------------------
# Commands


def test_a_large_board_has_too_many_positions(tmp_path, capsys):
    words = "--endpoint http://127.0.0.1:9/v1 --model m --size 6 --positions all"
    shown = error_of(capsys, evaluate.main, "llm", *words.split(), "--cache", tmp_path)
    assert "has too many positions for a question about each" in shown


def test_an_estimate_is_printed_and_an_endpoint_without_a_server_ends_the_command(tmp_path, capsys):
    words = command("http://127.0.0.1:9/v1", tmp_path, "--games", "4", "--price-out", "1e6", "--retries", "1")
    shown = error_of(capsys, evaluate.main, *words)
    assert "up to 12 requests, of a cost of about 12,288.00 at most" in shown
    assert "no connection to http://127.0.0.1:9/v1" in shown


def test_addresses():
    for text in ("http://h/v1", "http://h/v1/", "http://h/v1/chat/completions", "http://h/v1/chat/completions/"):
        assert check_url(text) == "http://h/v1/chat/completions"


def test_the_page_shows_results_and_survives_damage(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with serve_stub(Game(2, 3, 3)) as (_, url):
        words = command(url, tmp_path, "--games", "4", "--positions", "all", "--illegal", "random")
        data = json_of(capsys, *words)
        evaluate.main(words)
    shown = capsys.readouterr().out
    assert "exploitability" in shown
    assert "0 answers were requested now" in shown
    page = (tmp_path / "out" / "report.html").read_text()
    for text in (
        "exploitability",
        "regret, exactly",
        "score against optimal",
        "Blunders",
        "Exact results of the model",
        "evaluate.py llm",
    ):
        assert text in page
    assert json.loads((tmp_path / "out" / RESULT).read_text())["games"] == data["games"]
    check_damaged_results(tmp_path / "damaged", data)


# ---------------------------------------------------------------------------------------------------------------------
# Positions as a data set


def test_the_data_set_has_exact_values_and_prompts_that_parse(tmp_path, capsys):
    file = tmp_path / "positions.jsonl"
    found = json_of(capsys, "positions", "--out", file, "--members", "all", "--presentation", "words")
    rows, game = rows_of(file), Game()
    assert len(rows) == found["positions"] == sum(one["positions"] for one in found["counts"]) == 4520
    presentation = make_presentation("words", game)
    boards = Boards.from_positions([from_text(row["position"]) for row in rows])
    values = solve(game).action_values(boards)
    for number, row in enumerate(rows):
        position = boards.position(number)
        assert row["prompt"] == present(game, position, "words")
        cells = [parse_answer(f"<move>{name}</move>", presentation, position) for name in row["legal"]]
        assert cells == np.flatnonzero(position.cells == 0).tolist()
        assert [row["values"][name] for name in row["legal"]] == pytest.approx(values[number, cells].tolist())
        top = max(row["values"].values())
        assert row["best"] == [name for name, value in row["values"].items() if value >= top - 1e-9]
    share = np.mean([row["split"] == "held-out" for row in rows])
    assert 0.1 < share < 0.3


@pytest.mark.parametrize("game", [Game(), Game(2, 3, 3, 0.25)], ids=str)
def test_no_symmetry_maps_a_train_position_to_a_held_out_one(game):
    text = TextSettings(game)
    rows = list(make_rows(DataSettings(text, members="all")))
    one = list(make_rows(DataSettings(text)))
    assert {row["class"] for row in one} == {row["class"] for row in rows}
    assert len({row["class"] for row in one}) == len(one)
    by_class = {}
    for row in rows:
        by_class.setdefault(row["class"], set()).add(row["split"])
    assert all(len(splits) == 1 for splits in by_class.values())
    own_split = {}
    for row in rows:
        position = from_text(row["position"])
        own = position.cells if position.mover == 0 else (3 - position.cells) % 3
        least = min(own[permutation].tobytes() for permutation in symmetries(game))
        own_split.setdefault(least, set()).add(row["split"])
    assert all(len(splits) == 1 for splits in own_split.values())
    assert len(own_split) == len(one)


def test_the_split_does_not_depend_on_presentation_or_selection():
    def splits(**settings):
        presentation = settings.pop("presentation", "grid")
        rows = make_rows(DataSettings(TextSettings(Game(), presentation), **settings))
        return {row["class"]: row["split"] for row in rows}

    every = splits()
    assert splits(presentation="magic-square") == every
    few = splits(kinds=("blocks",), decisive=True)
    assert 0 < len(few) < len(every)
    assert few.items() <= every.items()
    assert set(splits(held_out=0.0).values()) == {"train"}
    assert set(splits(held_out=1.0).values()) == {"held-out"}
