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


class Client:
    """Sends requests to an application without a network."""

    def __init__(self, app):
        import httpx

        self.runner = asyncio.Runner()
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        self.http = httpx.AsyncClient(transport=transport, base_url=f"http://127.0.0.1:{PORT}")

    def request(self, method, path, **content):
        return self.runner.run(self.http.request(method, path, **content))

    get = partialmethod(request, "GET")
    post = partialmethod(request, "POST")
    put = partialmethod(request, "PUT")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.runner.run(self.http.aclose())
        self.runner.close()


@contextmanager
def serve(root=None, warm=False):
    """The port of an explorer that listens."""
    import uvicorn

    from ttt_apps.explorer.command import listening

    with listening(0) as bound:
        port = bound.getsockname()[1]
        config = uvicorn.Config(make_explorer(root, port=port, warm=warm), log_level="error", lifespan="off", ws="none")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
        thread.start()
        try:
            yield port
        finally:
            server.should_exit = True
            thread.join(30)


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
