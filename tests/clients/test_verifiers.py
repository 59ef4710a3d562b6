"""verifiers: its loader and checks of task sets, and episodes of a stub model through its whole
machinery.
"""

import asyncio
import itertools
import json
import random
import re
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

vf = pytest.importorskip("verifiers.v1")

from verifiers.v1.utils.loaders import environment_class, load_environment, taskset_class

from ttt_envs import Game
from ttt_envs.text import TextGame
from ttt_eval.language_models.credit import optimal_credit
from ttt_eval.language_models.verifiers_env import (
    TextTaskset,
    TextTasksetConfig,
    VerifiersEnv,
    VerifiersEnvConfig,
)


def fake_answer(prompt):
    """A random legal move; now and then no move."""
    rng = random.Random(prompt)
    if rng.random() < 0.1:
        return "I resign"
    return f"<move>{rng.choice(re.findall(r'Legal moves: (.*)', prompt)[-1].split(', '))}</move>"


def make_env(opponent, harness="null", **settings):
    agent = vf.AgentConfig(harness={"id": harness}, runtime={"type": "subprocess"})
    taskset = TextTasksetConfig(id="ttt-text", **settings)
    return load_environment(
        VerifiersEnvConfig(taskset=taskset, opponent=opponent, player=agent, second=agent)
    )


def test_loader():
    """its loader finds the task set and the environment by `ttt-text`, and their options"""
    assert taskset_class("ttt-text") is TextTaskset
    assert environment_class("ttt-text") is VerifiersEnv
    tasks = list(itertools.islice(make_env("random", presentation="words").taskset, 3))
    assert [task.data.seed for task in tasks] == [0, 1, 2]
    assert len({task.key for task in tasks}) == 3
    assert {task.data.presentation for task in tasks} == {"words"}


def test_validate(tmp_path):
    """its `vf-validate ttt-text --only-noop` of 5 tasks: no errors"""
    command = (
        Path(sys.executable).parent / "vf-validate",
        "ttt-text",
        "--only-noop",
        "-n",
        "5",
        "-o",
        "out",
    )
    subprocess.run(
        [*command, "--runtime.type", "subprocess"], cwd=tmp_path, check=True, capture_output=True
    )
    [summary] = [json.loads(path.read_text()) for path in (tmp_path / "out").rglob("summary.json")]
    assert summary["recorded"] == 5
    assert summary["outcomes"]["error"] == summary["outcomes"]["invalid"] == 0


class StubModel(BaseHTTPRequestHandler):
    """An OpenAI-compatible endpoint of :func:`fake_answer`."""

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        prompt = request["messages"][-1]["content"]
        prompt = prompt if isinstance(prompt, str) else "".join(part["text"] for part in prompt)
        message = {"role": "assistant", "content": fake_answer(prompt)}
        body = {"id": "1", "object": "chat.completion", "created": 0, "model": "stub"}
        body["choices"] = [{"index": 0, "message": message, "finish_reason": "stop"}]
        body["usage"] = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        data = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *words):
        pass


@pytest.fixture
def stub(monkeypatch):
    monkeypatch.setenv("STUB_KEY", "secret")
    server = ThreadingHTTPServer(("127.0.0.1", 0), StubModel)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield vf.EvalClientConfig(
        base_url=f"http://127.0.0.1:{server.server_port}/v1", api_key_var="STUB_KEY"
    )
    server.shutdown()
    thread.join()
    server.server_close()


def replay(trace, game, opponent, seat, seed):
    """Play the answers of a trace again without the library."""
    text = TextGame(game, opponent=opponent, seat=seat, seed=seed)
    for message in trace.branches[-1].messages:
        if message.role == "assistant":
            text.step(message.content)
    return text


@pytest.mark.parametrize("opponent", ["win-or-block", "self"])
def test_episodes(opponent, stub, here, monkeypatch):
    """`run_episode` of 6 games, stub model behind an endpoint, opponent `{opponent}`: rewards of
    the replayed games
    """
    monkeypatch.syspath_prepend(str(here))
    env = make_env(opponent, "in-process-harness")
    context = vf.ModelContext(model="stub", client=stub, sampling=vf.SamplingConfig())

    async def play():
        async with env.serving():
            return [
                await env.run_episode(task, context) for task in itertools.islice(env.taskset, 6)
            ]

    episodes = asyncio.run(play())
    assert len(episodes) == 6
    for seed, episode in enumerate(episodes):
        assert episode.ok, [*episode.errors, *(trace.errors for trace in episode.traces)]
        results = [trace.rewards["result"].value for trace in episode.traces]
        assert all(trace.info["finished"] for trace in episode.traces)
        if opponent == "self":
            assert len(results) == 2
            assert sum(results) == 0
            continue
        [trace] = episode.traces
        game = Game(skip_chance=0.25)
        text = replay(trace, game, opponent, seed % 2, seed)
        assert text.over
        assert results == [text.result(seed % 2)]
        if text.turns:
            turns = zip(text.turns, optimal_credit(game)(text.turns, seed % 2), strict=True)
            own = sum(credit.change for turn, credit in turns if turn.position.mover == seed % 2)
            assert trace.rewards["regret"].score == pytest.approx(own, abs=1e-12)
            assert len(trace.info["turns"]) == sum(
                turn.position.mover == seed % 2 for turn in text.turns
            )
