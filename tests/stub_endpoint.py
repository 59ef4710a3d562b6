"""A chat-completions endpoint on the loopback address, whose model reads the prompt and plays by a
policy.
"""

import hashlib
import json
import re
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np

from ttt_envs.agents.specs import make_policy
from ttt_envs.game.boards import Boards, coordinate
from ttt_envs.game.game import Position

KEY = "sk-stub-0123456789abcdef"


def read_grid(prompt, game):
    """The position in a prompt of the presentation "grid"."""
    rows = re.findall(r"^ ?\d+ ([.ox](?: [.ox])*)$", prompt, re.MULTILINE)[-game.rows :]
    cells = np.array([".ox".index(stone) for row in rows for stone in row.split()], np.int8)
    return Position(cells, 0 if "You are the first player" in prompt else 1)


def random_move(game, position):
    """A move that looks random, and is a function of the position."""
    digest = hashlib.sha256(position.cells.tobytes() + bytes([position.mover])).digest()
    legal = np.flatnonzero(position.cells == 0)
    return int(legal[digest[0] % len(legal)])


def first_move(name):
    """The first of the likeliest moves of a policy, as a function of game and position."""
    return lambda game, position: int(
        make_policy(name, game).probabilities(Boards.from_positions([position]))[0].argmax()
    )


MOVES = {"random": random_move} | {name: first_move(name) for name in ("optimal", "win-or-block")}


def answers_badly(game, position):
    """Whether the model "half-malformed" answers badly in a position."""
    return int(position.cells.sum()) % 3 == 1


class Stub:
    """The state of a stub: its model, its faults, and the bodies that it has answered.

    ``model`` is one of MOVES; "malformed", which never names a move; or "half-malformed", which
    names a taken or an unknown cell in some positions, also when it is asked again. ``faults`` are
    used up one by one, before an answer; a function replies itself, by the handler that it is
    given.
    """

    def __init__(self, game, faults=(), delay_s=0.0):
        self.game = game
        self.faults = list(faults)
        self.delay_s = delay_s
        self.answered = []
        self.attempts = 0
        self.most_at_once = 0
        self.at_once = 0
        self.lock = threading.Lock()

    def move_of(self, model, position):
        if model == "malformed" or (
            model == "half-malformed" and answers_badly(self.game, position)
        ):
            return None
        return MOVES[{"half-malformed": "random"}.get(model, model)](self.game, position)

    def answer(self, body):
        position = read_grid(body["messages"][0]["content"], self.game)
        assert all(
            answer["content"].endswith("<move>z99</move>") for answer in body["messages"][1::2]
        )
        action = self.move_of(body["model"], position)
        if action is None:
            return "I would rather not say. " * 200 + "<move>z99</move>"
        return f"<think>a1? no.</think>I play <move>{coordinate(action, self.game)}</move>"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *words):
        pass

    def do_POST(self):
        stub = self.server.stub
        key = self.headers["authorization"]
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        with stub.lock:
            stub.attempts += 1
            stub.at_once += 1
            stub.most_at_once = max(stub.most_at_once, stub.at_once)
            fault = stub.faults.pop(0) if stub.faults else None
        time.sleep(stub.delay_s)
        with stub.lock:
            stub.at_once -= 1
        if callable(fault):
            fault(self)
        elif fault == "page":
            self._send(200, "no object")
        elif fault == "close":
            self.close_connection = True
            self.connection.close()
        elif key != f"Bearer {KEY}" or isinstance(fault, int):
            self._send(fault or 401, {"error": f"fault {fault} for {key}"})
        else:
            usage = {"prompt_tokens": 100, "completion_tokens": 7}
            choice = {
                "message": {"role": "assistant", "content": stub.answer(body)},
                "finish_reason": "stop",
            }
            if fault is None:
                with stub.lock:
                    stub.answered.append(json.dumps(body, sort_keys=True))
            self._send(200, {"choices": [] if fault == "empty" else [choice], "usage": usage})

    def _send(self, status, data):
        content = json.dumps(data).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        self.send_header("retry-after-ms", "1")  # of faults
        self.end_headers()
        self.wfile.write(content)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        """Say nothing: clients are killed, and connections closed."""


@contextmanager
def serve_stub(game, **settings):
    """Serve a stub; yield its state and the address of its endpoint."""
    stub = Stub(game, **settings)
    server = _Server(("127.0.0.1", 0), _Handler)
    server.stub = stub
    thread = threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
    )
    thread.start()
    try:
        yield stub, f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
