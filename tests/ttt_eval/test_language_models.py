"""Language models as players: models that play by known policies, asked directly or through a stub
endpoint.
"""

import gzip
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from dataclasses import replace

import gymnasium
import numpy as np
import pytest
from commands import words_of
from json_files import read_json, rows_of
from processes import ROOT, python_path, run_python
from small_games import SKIP_GAME, TINY_GAME
from stub_endpoint import KEY, MOVES, Stub, serve_stub

from baselines.exact import solve
from ttt_envs.agents.policy import Policy
from ttt_envs.agents.specs import make_policy
from ttt_envs.game.boards import Boards
from ttt_envs.game.game import Game, Position
from ttt_envs.game.rules import NOT_OVER, chance_outcomes
from ttt_envs.text.text_game import TextGame, TextGameConfig
from ttt_eval.exact import best_response, exploitability, outcome, regret
from ttt_eval.language_models.asking import (
    Answer,
    Interview,
    Sampling,
    make_ask,
    open_answers,
    read_completion,
)
from ttt_eval.language_models.credit import turn_credits
from ttt_eval.language_models.results import evaluate_model, make_games, reachable_positions
from ttt_eval.matches.luck import make_correction
from ttt_eval.store.result_store import RESULT

pytestmark = pytest.mark.more

needs_client = pytest.mark.needs("openai")


class Stored(dict):
    """Answers without a file."""

    add = dict.__setitem__


def interview_of(game, model, temperature=0.0):
    """An interview of a model of the stub, without an endpoint."""
    stub = Stub(game)
    sampling = Sampling(model, temperature)

    def ask(requests):
        return [(key, Answer(stub.answer(body))) for key, body in requests.items()]

    return Interview(sampling, Stored(), ask)


def play(model, settings, opponent, games):
    """Games of a model, in order."""
    texts = make_games(replace(settings, opponent=opponent), games)
    interview_of(settings.game, model).hold(texts)
    return texts


def evaluate_games(model, settings, opponent, games, **options):
    settings = replace(settings, opponent=opponent)
    interview = interview_of(settings.game, model)
    result = evaluate_model(interview, settings, games=games, positions=False, **options)
    return result.to_dict()["games"]


def env_game(game, model, opponent, seed, seat):
    """The moves and the reward of the same policy in the Gymnasium environment."""
    env = gymnasium.make("ttt_envs:ttt/MNK-v0", skip_chance=game.skip_chance, opponent=opponent)
    observation, info = env.reset(seed=seed, options={"seat": seat})
    if info["result"] >= 0:  # over by skips before the first move
        return [], env.step(0)[1]
    reward = 0.0
    is_over = False
    actions = []
    while not is_over:
        own, other = observation.astype(np.int8).reshape(2, -1)
        position = Position(own * (seat + 1) + other * (2 - seat), seat)
        actions.append(MOVES[model](game, position))
        observation, reward, is_over, _, _ = env.step(actions[-1])
    return actions, reward


@pytest.mark.parametrize("model", sorted(MOVES))
def test_games_are_those_of_the_environment_seed_by_seed(model):
    game = Game(skip_chance=0.5)
    texts = play(model, TextGameConfig(game, seed=5), "random", 12)
    for number, text in enumerate(texts):
        pair, seat = divmod(number, 2)
        own = [turn.action for turn in text.turns if turn.by == "answer"]
        assert (own, text.result(seat)) == env_game(game, model, "random", 5 + pair, seat)


class Named(Policy):
    """A model of the stub as a policy."""

    def __init__(self, game, model):
        self.game = game
        self.model = model

    def probabilities(self, boards, rng=None):
        shares = np.zeros(boards.cells.shape)
        for row in range(len(shares)):
            position = boards.position(row)
            action = Stub(self.game).move_of(self.model, position)
            moves = position.cells == 0 if action is None else np.arange(self.game.cells) == action
            shares[row] = moves / moves.sum()
        return shares


@pytest.mark.parametrize("model", ["optimal", "random", "half-malformed"])
def test_the_exact_strength_is_that_of_the_policy(model):
    settings = TextGameConfig(TINY_GAME, illegal="random")
    interview = interview_of(TINY_GAME, model)
    result = evaluate_model(interview, settings, games=0, positions=True)
    result = result.to_dict()
    policy = Named(TINY_GAME, model)
    part = result["positions"]
    exact = part["exact"]
    moves = part["moves"]
    assert exact["exploitability"] == pytest.approx(exploitability(TINY_GAME, policy), abs=1e-12)
    assert exact["regret"] == pytest.approx(regret(TINY_GAME, policy), abs=1e-12)
    both = outcome(TINY_GAME, policy, "random").mean(
        outcome(TINY_GAME, "random", policy).reversed()
    )
    assert exact["results"]["random"] == pytest.approx(both._asdict(), abs=1e-12)
    assert result["usage"]["answers"] == len(interview.new) == part["positions"]
    assert moves["illegal_share"] == pytest.approx(part["without_move"] / len(interview.new))
    assert (part["without_move"] > 0) == (model == "half-malformed")
    assert bool(part["blunders"]) == (model != "optimal")
    for blunder in part["blunders"]:
        assert blunder["loss"] > 0
        assert not set(blunder["best"]) >= set(map(int, blunder["moves"]))


@pytest.mark.parametrize("illegal", ["ask", "lose"])
def test_exact_results_are_lost_by_illegal_answers(illegal):
    """Here the model answers badly whenever it moves second, and never when it moves first."""
    game = Game(2, 3, 3)
    interview = interview_of(game, "half-malformed")
    settings = TextGameConfig(game, illegal=illegal)
    part = evaluate_model(interview, settings, games=0, positions=True).positions
    policy = Named(game, "random")
    wins = outcome(game, policy, "random").win / 2
    assert part.exact.results["random"]["win"] == pytest.approx(wins)
    gain = best_response(game, policy, 1).value
    assert part.exact.exploitability == pytest.approx((1 + gain) / 2)
    # a draw becomes a loss by the second of two moves
    assert (part.exact.regret, part.exact.without_move) == (0.5, "loses")
    assert part.answers["o../... x"] == "unknown-cell"


def test_the_score_has_no_luck():
    """Two perfect players: without the luck of skips and of the opponent's draws, every pair has
    the same score.
    """
    game = Game(skip_chance=0.5)
    games = evaluate_games("optimal", TextGameConfig(game), "optimal", 20, luck_correction="exact")
    assert games["scores"] == pytest.approx([0.5] * 10, abs=1e-12)
    assert games["score"]["mean"] == pytest.approx(0.5, abs=1e-12)
    assert games["raw_score"]["low"] < 0.5 < games["raw_score"]["high"]
    assert games["moves"]["regret"] == pytest.approx(0, abs=1e-12)


def test_luck_is_the_value_after_a_draw_minus_its_expectation():
    """Of skips, and of the moves of an opponent whose draws are known."""
    correction = make_correction("exact", TINY_GAME)
    values = correction.expected_values(make_policy("random", TINY_GAME))

    def value(position, winner):
        if winner is None:
            return (1 - 2 * position.mover) * solve(TINY_GAME).values(
                Boards.from_positions([position])
            )[0]
        return 1 - 2 * winner if winner in (0, 1) else 0

    def mean(position, action):
        chances = chance_outcomes(TINY_GAME, position, int(action))
        return sum(chance.probability * value(chance.position, chance.winner) for chance in chances)

    for text in play("optimal", TextGameConfig(TINY_GAME), "random", 8):
        credits = turn_credits(text.turns, text.seats[0], correction, values)
        for turn, credit in zip(text.turns, credits, strict=True):
            drawn = (
                [turn.action] if turn.by == "answer" else np.flatnonzero(turn.position.cells == 0)
            )
            expected = np.mean([mean(turn.position, action) for action in drawn])
            luck = (
                value(turn.next_position, None if turn.outcome == NOT_OVER else turn.outcome.winner)
                - expected
            )
            assert credit.luck == pytest.approx((1 - 2 * text.seats[0]) * luck, abs=1e-12)


def test_regret_and_blunders_of_games_are_those_of_the_moves():
    game = SKIP_GAME
    settings = TextGameConfig(game, illegal="random")
    result = evaluate_games("half-malformed", settings, "win-or-block", 8)
    texts = play("half-malformed", settings, "win-or-block", 8)
    own = [
        turn for text in texts for turn in text.turns if turn.by == "answer"
    ]  # no random moves in place of answers
    values = solve(game).action_values(Boards.from_positions([turn.position for turn in own]))
    losses = np.nanmax(values, axis=1) - values[np.arange(len(own)), [turn.action for turn in own]]
    moves = result["moves"]
    assert moves["regret"] == pytest.approx(np.mean(losses))
    assert moves["blunders"] == np.sum(losses > 1e-9) > 0
    assert moves["moves"] == len(losses)
    assert sum(blunder["times"] for blunder in result["blunders"]) <= len(losses)
    assert moves["illegal"] > 0


@pytest.mark.parametrize(
    ("illegal", "answers", "ends"),
    [("lose", 1, True), ("ask", 4, True), ("random", 1, False)],
    ids=str,
)
def test_illegal_answers_are_counted_and_have_their_consequence(illegal, answers, ends):
    settings = TextGameConfig(Game(2, 3, 3), illegal=illegal)
    result = evaluate_games("malformed", settings, "random", 8)
    moves = result["moves"]
    assert (moves["illegal_share"], moves["moves"]) == (1.0, 0)
    assert moves["problems"] == {"unknown-cell": moves["answers"]}
    if ends:
        assert result["different"] < 8  # in the second seat the opponent moves first
        assert (result["losses"]["mean"], result["forfeits"]["a"]) == (1.0, 8)
        assert moves["answers"] == 8 * answers
    else:
        assert "forfeits" not in result
        assert result["losses"]["mean"] < 1.0


@pytest.mark.parametrize(
    ("message", "end", "kind", "questions"),
    [
        ({"content": "<move>a1</move>"}, "length", "truncated", 4),
        ({"content": "<move>a1</move>"}, "content_filter", "refused", 1),
        ({"content": None, "refusal": "Sorry"}, "stop", "refused", 1),
        ({"content": "", "reasoning_content": "a1?"}, "stop", "refused", 1),
    ],
)
def test_answers_that_were_cut_off_or_refused_name_no_move(message, end, kind, questions):
    """Only the former are followed by further questions."""
    answer = read_completion({"choices": [{"message": message, "finish_reason": end}]})
    text = TextGame(Game(2, 3, 3))
    Interview(Sampling("m"), Stored(), lambda bodies: [(key, answer) for key in bodies]).hold(
        [text]
    )
    assert [problem.kind for problem in text.turns[0].problems] == [kind] * questions


# --------------------------------------------------------------------------------------------------
# An endpoint


def test_samples_of_a_model_with_temperature_are_asked_separately():
    game = Game(2, 3, 3)
    interview = interview_of(game, "optimal", temperature=1.0)
    texts = make_games(TextGameConfig(game), 6)
    interview.hold(texts)
    assert len(interview.new) == sum(turn.by == "answer" for text in texts for turn in text.turns)
    messages = [{"role": "user", "content": ""}]
    assert Sampling("m", 1.0, seed=3).request(messages, 4)[1]["seed"] == 7
    assert "seed" not in Sampling("m").request(messages)[1]
    fields = {"max_tokens": None, "max_completion_tokens": 5, "temperature": 2}
    body = {
        "model": "m",
        "messages": messages,
        "seed": 4,
        "max_completion_tokens": 5,
        "temperature": 2,
    }
    assert Sampling("m", fields=fields).request(messages, 4)[1] == body


@needs_client
def test_faults_change_no_result_and_no_answer_is_requested_again(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setitem(sys.modules, "httpx", None)  # which newer clients do not bring
    settings = TextGameConfig(TINY_GAME)
    faults = [429, 500, 503, "close", "close", 502, "page"]
    with (
        serve_stub(TINY_GAME, faults=faults, delay_s=0.01) as (stub, url),
        open_answers(tmp_path / "answers") as answers,
    ):
        ask = make_ask(f"{url}/chat/completions", concurrency=3)
        games = make_games(settings, 8)
        interview = Interview(Sampling("random"), answers, ask)
        interview.hold(games)
    moves = [[turn.action for turn in text.turns] for text in games]
    assert moves == [
        [turn.action for turn in text.turns] for text in play("random", settings, "random", 8)
    ]
    assert max(Counter(stub.answered).values()) == 1
    assert len(stub.answered) == len(interview.new) == stub.attempts - len(faults)
    assert 2 <= stub.most_at_once <= 3


@needs_client
@pytest.mark.parametrize("fault", [401, 404, "empty"], ids=str)
def test_a_failure_that_stays_ends_the_work_without_the_key(fault, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    key, body = Sampling("optimal").request([{"role": "user", "content": ""}])
    with serve_stub(TINY_GAME, faults=[fault]) as (stub, url):
        stub.answer = lambda body: ""
        with pytest.raises(ValueError, match=url) as end:
            dict(make_ask(url, 1)({key: body, "later": body}))
    assert stub.attempts == 1
    assert KEY[:10] not in str(end.value)
    with serve_stub(TINY_GAME, faults=[fault], delay_s=0.2) as (
        stub,
        url,
    ):  # the other answer is on its way, and kept
        stub.answer = lambda body: ""
        kept = []
        with pytest.raises(ValueError, match=url):
            kept.extend(make_ask(url, 2)({key: body, "later": body}))
    assert len(kept) == len(stub.answered) == 1


@needs_client
def test_one_refused_prompt_is_a_forfeit_and_all_are_an_error(tmp_path, monkeypatch, evaluate_py):
    """One is requested once, stored with its reason, and named."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with serve_stub(Game(2, 3, 3), faults=[400]) as (stub, url):
        options = f"--positions all --no-report --endpoint {url}"
        result = evaluate_py.json(command(tmp_path), options)
        output = evaluate_py.text(command(tmp_path), options)
    usage = result["usage"]
    assert usage["answers"] == stub.attempts
    assert "refused" in result["positions"]["answers"].values()
    assert "Error code: 400" in usage["refusal"]
    assert KEY not in (tmp_path / "answers.jsonl").read_text()
    assert "prompts refused 1" in output
    with serve_stub(TINY_GAME, faults=[422] * 99) as (_, url):
        assert "no prompt was answered" in evaluate_py.error(
            command(tmp_path / "all"), f"--endpoint {url}"
        )


ENDLESS = [b" " * (1 << 16)] * (1 << 10)


def slow_blanks():
    for _ in range(100):
        yield b" "
        time.sleep(0.05)


@needs_client
@pytest.mark.parametrize(
    ("status", "parts", "header", "message"),
    [
        (200, ENDLESS, ("content-encoding", "identity"), "more than 8 MiB"),
        (400, ENDLESS, ("content-encoding", "identity"), "more than 8 MiB"),
        (302, ENDLESS, ("location", "/v1"), "more than 8 MiB"),
        (200, [gzip.compress(b" " * (1 << 26))], ("content-encoding", "gzip"), "is compressed"),
        (200, slow_blanks(), ("content-encoding", "identity"), "no reply within 1 s.*--timeout"),
        (200, [b"<"], ("content-encoding", "identity"), "no JSON object.*: wait until it answers"),
    ],
    ids=["endless", "error", "redirect", "compressed", "slow", "page"],
)
def test_replies_are_bounded_in_size_and_time(status, parts, header, message, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setattr("ttt_eval.language_models.asking.RETRIES", 0)
    sent = []

    def reply(handler):
        handler.send_response(status)
        handler.send_header(*header)
        handler.end_headers()
        handler.close_connection = True
        with suppress(OSError):
            for part in parts:
                sent.append(handler.wfile.write(part))

    key, body = Sampling("optimal").request([{"role": "user", "content": ""}])
    with (
        serve_stub(TINY_GAME, faults=[reply]) as (stub, url),
        pytest.raises(ValueError, match=message),
    ):
        dict(make_ask(url, 1, timeout_s=1)({key: body}))
    assert stub.attempts == 1
    assert sum(sent) < 1 << 25
    assert len(sent) < 100 or parts is ENDLESS


@needs_client
@pytest.mark.parametrize(
    "key", [KEY, "sk-secret two", "sk-secret\nsk-two", "sk-secret\xe9"], ids=ascii
)
def test_an_address_or_a_key_that_is_none_is_refused_without_its_secret(key, monkeypatch):
    """And an address where nothing listens, before any request."""
    monkeypatch.setenv("OPENAI_API_KEY", key)
    odd = [
        "localhost",
        "ftp://localhost",
        "http://u:secret@localhost/v1",
        "http://localhost/?key=secret",
        "http://localhost:x/v1",
        "http://[localhost",
    ]
    for url in ("http://localhost:9/v1", *(odd if key == KEY else ())):
        with pytest.raises(
            ValueError, match="localhost" if key == KEY else "OPENAI_API_KEY holds no key"
        ) as end:
            make_ask(url, 8)
        assert "secret" not in str(end.value)


def command(folder):
    model = "llm --model=random --size=2x3 --win-length=3"
    return f"{model} --answers={folder / 'answers.jsonl'} --out={folder / 'out'}"


@needs_client
@pytest.mark.parametrize("sent", ["SIGKILL", pytest.param("SIGINT", marks=pytest.mark.slow)])
@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_a_stopped_evaluation_continues_and_asks_nothing_twice(sent, tmp_path):
    game = Game(2, 3, 3)
    env = {**os.environ, "OPENAI_API_KEY": KEY, "PYTHONPATH": python_path(ROOT)}
    with serve_stub(game, delay_s=0.01) as (stub, url):
        options = "--positions all --games 6 --concurrency 3 --no-report"
        start = words_of("evaluate.py", command(tmp_path), options, "--endpoint", url)
        process = subprocess.Popen(
            [sys.executable, *start], cwd=ROOT, env=env, stdout=-3, stderr=subprocess.PIPE
        )
        while len(stub.answered) < 30 and process.poll() is None:
            time.sleep(0.005)
        process.send_signal(getattr(signal, sent))
        assert b"Traceback" not in process.communicate()[1]
        run_python(*start, env=env)
        counts = Counter(stub.answered)
    assert sum(counts.values()) - len(counts) <= 3  # what was in flight, and no more
    result = read_json(tmp_path / "out" / RESULT)
    assert result["usage"]["answers"] == len(counts)
    assert_whole(result, game, games=6)


def assert_whole(result, game, games):
    """Assert that a result is that of asking the model directly."""
    settings = TextGameConfig(game, opponent="optimal")
    interview = interview_of(game, "random")
    whole = evaluate_model(interview, settings, games=games, positions=True).to_dict()
    assert (result["games"], result["positions"]) == (whole["games"], whole["positions"])


# --------------------------------------------------------------------------------------------------
# A file of answers


def test_prompts_of_a_file_are_answered_by_a_file(tmp_path, evaluate_py):
    """Also in the form of a batch service, until nothing is missing: the result is that of an
    endpoint.
    """
    game = Game(2, 3, 3)
    file = tmp_path / "answers.jsonl"
    stub = Stub(game)
    line = f"{command(tmp_path)} --games 4 --positions all --no-report"
    rounds = 0
    result = evaluate_py.json(line)
    while "games" not in result:
        rounds += 1
        assert evaluate_py.json(line, "--dry-run")["prompts"] == result["prompts"]
        with file.open("a") as answers:
            for number, row in enumerate(rows_of(tmp_path / "out" / "prompts.jsonl")):
                text = stub.answer(row["body"])
                body = {
                    "choices": [{"message": {"content": text}}],
                    "usage": {"completion_tokens": 3},
                }
                answer = {"text": text} if number % 2 else {"response": {"body": body}}
                answers.write(json.dumps({"custom_id": row["custom_id"], **answer}) + "\n")
        result = evaluate_py.json(line)
    assert evaluate_py.json(line, "--dry-run")["prompts"] == 0
    assert rounds == 1  # without temperature, all that games ask is a position
    assert_whole(result, game, games=4)
    assert result["usage"]["completion_tokens"] == 3 * ((result["usage"]["answers"] + 1) // 2)
    for other in (
        "--temperature=1",
        "--max-tokens=9",
        "--seed=1",
        "--presentation=numbers",
        "--illegal=lose",
    ):
        assert "--overwrite replaces it" in evaluate_py.error(line, other)


def test_stored_answers_of_any_content_are_no_danger(tmp_path):
    path = tmp_path / "answers.jsonl"
    good = Answer("<move>a1</move> \U0001f600", 3, 4)
    with open_answers(path) as answers:
        answers.add("one", good)
        with pytest.raises(ValueError, match="another process has opened"), open_answers(path):
            pass
        with open_answers(tmp_path / "others.jsonl"):
            pass
    line = path.read_bytes()
    bad = [
        b"[" * 10**5,
        b"\xff\xfe",
        b"",
        b"9" * 5000,
        b"{}",
        b'{"custom_id": 3}',
        b'{"custom_id": "two", "text": 1}',
    ]
    for body in (
        "null",
        "{}",
        '{"choices": []}',
        '{"choices": [3]}',
        '{"choices": [{"message": []}], "usage": 3}',
    ):
        bad.append(f'{{"custom_id": "five", "response": {{"body": {body}}}}}'.encode())
    surrogate = b'{"custom_id": "two", "text": "\\ud800"}'
    odd = b'{"custom_id": "three", "text": "?", "prompt_tokens": -1, "completion_tokens": 1%s}' % (
        b"0" * 30
    )
    error = {"status_code": 400, "body": {"error": {"message": "too long"}}}
    refusal = json.dumps({"custom_id": "six", "response": error}).encode()
    path.write_bytes(b"\n".join([*bad, surrogate, odd, refusal, line, line[: len(line) // 2]]))
    with open_answers(path) as answers:
        assert answers.pop("six") == Answer("", refusal="too long")
        assert answers == {"one": good, "three": Answer("?")}
        answers.add("four", answers["three"])
    with open_answers(path) as answers:
        assert set(answers) == {"one", "three", "four", "six"}
    path.unlink()
    path.symlink_to("/dev/zero")
    with pytest.raises(ValueError, match="is a link"), open_answers(path):
        pass


# --------------------------------------------------------------------------------------------------
# Commands


def test_a_dry_run_says_how_much_there_is_to_ask(tmp_path, evaluate_py):
    result = evaluate_py.json(
        command(tmp_path), "--games=4 --positions=all --temperature=1 --dry-run"
    )
    prompts = len(reachable_positions(Game(2, 3, 3)).mover) + 2 * 6
    assert (result["prompts"], result["completion_tokens"]) == (prompts, 1024 * prompts)
    assert 100 * prompts < result["prompt_tokens"] < 400 * prompts
    assert not list(tmp_path.iterdir())


@needs_client
def test_the_output_has_the_results_and_the_page_the_command(tmp_path, monkeypatch, evaluate_py):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with serve_stub(Game(2, 3, 3)) as (_, url):
        options = f"--games 4 --positions all --skip-chance 0.5 --endpoint {url}"
        data = evaluate_py.json(command(tmp_path), options)
        output = evaluate_py.text(command(tmp_path), options)
        note = evaluate_py.err
        tagged = evaluate_py.json(command(tmp_path), options, "--tag=step-2 --overwrite")
    usage = data["new"]
    count = usage["answers"]
    assert f"{count:,} of {count:,} answers are stored ones, the last of 20" in note
    assert (tagged["tag"], tagged["new"]["answers"]) == ("step-2", count)
    mean, low, high = map("{:.4f}".format, data["games"]["score"].values())
    assert f"luck-corrected score against optimal {mean} 95%: {low} to {high} " in output
    assert usage["prompt_tokens"] == 100 * count
    assert f"--answers {tmp_path}" in (tmp_path / "out" / "report.html").read_text()
    moves = data["positions"]["moves"]
    assert data["positions"]["exact"]["regret"] != moves["regret"]
    assert f"{moves['moves']:,} {moves['regret']:.4f} {moves['blunders']:,}" in output
    assert read_json(tmp_path / "out" / RESULT)["games"] == data["games"]
