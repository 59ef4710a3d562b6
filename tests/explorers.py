"""Explorers: in this process without a network, listening at a port, and as programs."""

import os
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager

import numpy as np
from processes import ROOT

from ttt_apps.cli.board import LiveGame
from ttt_envs.game.boards import coordinate

PORT = 8000


def make_explorer(root=None, databases=None, port=PORT, warm=False):
    """The application of an explorer."""
    from ttt_apps.explorer.api import ExplorerApi
    from ttt_apps.explorer.app import make_app
    from ttt_apps.explorer.root import Root

    api = ExplorerApi(Root(root, databases))
    if warm:
        api.warm()
    return make_app(api, port)


def client_of(app):
    """A client of an application without a network; an error of the server is a response."""
    from starlette.testclient import TestClient

    return TestClient(app, base_url=f"http://127.0.0.1:{PORT}", raise_server_exceptions=False)


@contextmanager
def serve(root=None, warm=False):
    """The port of an explorer that listens."""
    from ttt_apps.explorer.command import listening
    from ttt_apps.explorer.server import make_server

    with listening(0) as bound:
        port = bound.getsockname()[1]
        server = make_server(make_explorer(root, port=port, warm=warm))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
        thread.start()
        try:
            yield port
        finally:
            server.should_exit = True
            thread.join(30)


@contextmanager
def run_explorer(*words):
    """Run ``play.py web``: yields its process, and the address that it has printed."""
    command = [sys.executable, "play.py", "web", "--no-browser", *map(str, words)]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        command, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        line = process.stdout.readline()
        try:
            yield process, line.removeprefix("The explorer is at ").split()[0]
        finally:
            process.send_signal(signal.SIGINT)


def request_of(game):
    """A game as a request has it."""
    return {name: value for name, value in game.to_dict().items() if name != "format"}


def random_game(game, seed):
    """A game of random moves, with the skips of an episode of its seed."""
    live = LiveGame(game, np.uint64(seed), 0)
    rng = np.random.default_rng(seed)
    while live.outcome is None:
        live.move(int(rng.choice(np.flatnonzero(live.boards.legal(game)[0]))))
    return live


def line_of(live, count=None):
    """The first moves of a game, as a request has them."""
    moves = [coordinate(ply.action, live.game) + "+" * ply.skipped for ply in live.plies[:count]]
    return {"game": request_of(live.game), "moves": " ".join(moves)}
