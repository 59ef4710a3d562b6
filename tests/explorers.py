"""Explorers: in this process without a network, listening at a port, and as programs."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager
from functools import partialmethod

from processes import ROOT


def make_explorer(root=None, port=8000, token=None, databases=None, **pools):
    """An explorer for 127.0.0.1."""
    from ttt_apps.explorer.app import Explorer
    from ttt_apps.explorer.schemas import Root
    from ttt_apps.explorer.security import AccessPolicy

    return Explorer(AccessPolicy("127.0.0.1", port, token), Root(root, databases), **pools)


class Client:
    """Sends requests to an application without a network."""

    def __init__(self, app, address="http://127.0.0.1:8000"):
        import httpx

        self.app = app
        self.runner = asyncio.Runner()
        self.http = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=address)

    def request(self, method, path, **content):
        return self.runner.run(self.http.request(method, path, **content))

    get = partialmethod(request, "GET")
    post = partialmethod(request, "POST")
    put = partialmethod(request, "PUT")

    def close(self):
        self.runner.run(self.http.aclose())
        self.runner.close()


@contextmanager
def serve(root=None, token=None, warm=False):
    """The port of an explorer that listens."""
    from ttt_apps.explorer.command import listening
    from ttt_apps.explorer.protocol import new_server

    with listening("127.0.0.1", 0) as bound:
        port = bound.getsockname()[1]
        explorer = make_explorer(root, port, token)
        if warm:
            explorer.api.warm()
        server = new_server(explorer)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
        thread.start()
        try:
            yield port
        finally:
            server.should_exit = True
            thread.join(30)
            explorer.close()


class Program:
    """A command that serves a page: its process, and the line with an address that it has printed."""

    def __init__(self, *words):
        self.process = subprocess.Popen(
            [sys.executable, *map(str, words), "--no-browser"],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        while "http://" not in (line := self.process.stdout.readline()):
            assert line, self.process.communicate()[1]
        self.line, self.address = line, next(word for word in line.split() if word.startswith("http://"))

    def end(self, code=None):
        """Wait for the end; return what went to standard error."""
        error = self.process.communicate(timeout=120)[1]
        assert code is None or self.process.returncode == code, error
        return error

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            self.end()
