"""The commands without POSIX features, as on Windows, and with explicit encodings."""

import pytest
from processes import ROOT, python_path, run_python

pytestmark = pytest.mark.more

# Python imports sitecustomize when it starts, in worker processes too. What is hidden there is
# hidden from us alone: other libraries have code of their own for each system.
POORER = """
import builtins, os, signal, sys, types, warnings

OURS = ("ttt_envs", "baselines", "learners", "ttt_eval", "ttt_apps")
HIDDEN = ("fcntl", "grp", "pty", "pwd", "resource", "select", "termios", "tty")

def is_ours(name):
    return name.partition(".")[0] in OURS

class Poorer(types.ModuleType):
    def __init__(self, module, missing):
        super().__init__(module.__name__)
        self.module, self.missing = module, missing
    def __getattr__(self, name):
        if name in self.missing:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        return getattr(self.module, name)
    def __dir__(self):
        return [name for name in dir(self.module) if name not in self.missing]

def open_no_folder(path, *arguments, **more):
    if os.path.isdir(path):
        raise PermissionError(13, "Permission denied", str(path))
    return os.open(path, *arguments, **more)

poorer = {
    "os": Poorer(os, {
        "O_CLOEXEC", "O_NOFOLLOW", "O_NONBLOCK", "fork", "getegid", "geteuid", "getpgid",
        "getuid", "killpg", "mkfifo", "register_at_fork", "sched_getaffinity",
        "sched_setaffinity", "set_blocking", "setsid", "statvfs", "sysconf",
        "uname", "wait4", "waitpid", "WNOHANG",
    }),
    "signal": Poorer(signal, {
        "SIGALRM", "SIGCHLD", "SIGHUP", "SIGKILL", "SIGPIPE", "SIGUSR1", "SIGUSR2", "alarm",
        "pthread_kill", "pthread_sigmask", "set_wakeup_fd", "setitimer", "sigwait",
    }),
}
poorer["os"].open = open_no_folder

plain = builtins.__import__

def poorer_import(name, globals=None, *rest, **more):
    if globals and is_ours(str(globals.get("__package__") or globals.get("__name__"))):
        if name in HIDDEN:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        if name in poorer:
            return poorer[name]
    return plain(name, globals, *rest, **more)

builtins.__import__ = poorer_import
warnings.filterwarnings("error", category=EncodingWarning, module="(" + "|".join(OURS) + r")\\b")
"""


@pytest.fixture
def poorer(tmp_path):
    """Environment variables of a process without POSIX features that warns of implicit
    encodings.
    """
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(POORER, encoding="utf-8")
    return {"PYTHONPATH": python_path(tmp_path / "site", ROOT), "PYTHONWARNDEFAULTENCODING": "1"}


def run(environment, folder, module, *words):
    """Run a command and return its output."""
    return run_python("-m", f"ttt_apps.{module}", *words, cwd=folder, **environment).stdout


def test_commands_give_the_same_results_without_posix(poorer, tmp_path):
    board = "--size 2 --win-length 2"
    train = f"--learner naive-mc {board} --games 40 --out run --quiet"
    match = f"match run:run random {board} --games 400 --jobs 2 --log games.jsonl --json"
    results = []
    for name, environment in (("here", {"PYTHONPATH": str(ROOT)}), ("there", poorer)):
        folder = tmp_path / name
        folder.mkdir()
        output = (
            run(environment, folder, "training", *train.split()),
            run(environment, folder, "evaluate", *match.split()),
        )
        files_of_run = {path.name for path in (folder / "run").iterdir()} - {
            ".lock"
        }  # that of Windows
        results.append((output, files_of_run, (folder / "games.jsonl").read_bytes()))
    assert results[0] == results[1]
