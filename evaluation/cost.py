"""Measurement of cost per run phase, process and move: CPU seconds, wall seconds, and peak resident memory."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ttt_envs.core.files import read_json, write_json

if TYPE_CHECKING:  # a meter that runs from the start of a process waits for no compiled code
    import psutil

    from ttt_envs.game.boards import Boards
    from ttt_envs.game.rules import Game

NAMES = ("cpu_user_s", "cpu_system_s", "wall_s", "peak_rss_bytes")
"""Keys of a phase's costs: the numbers of :class:`Usage`, in order."""
POLL_S = 0.05
"""Seconds between two polls of a process, where the system keeps no usage of ended processes."""


class Usage(NamedTuple):
    """The process's resource usage at one moment."""

    user_s: float
    system_s: float
    wall_s: float
    peak_rss_bytes: int

    @classmethod
    def now(cls) -> Usage:
        """Return the usage counted by the operating system."""
        try:
            import resource
        except ImportError:  # on Windows
            spent = os.times()
            return cls(spent.user, spent.system, time.perf_counter(), _own_peak())
        usage = resource.getrusage(resource.RUSAGE_SELF)
        return cls(usage.ru_utime, usage.ru_stime, time.perf_counter(), _own_peak(_bytes(usage.ru_maxrss)))


def _own_peak(counted: int | None = None) -> int:
    """Return this program's peak memory; ``counted`` by getrusage may include the parent that started it."""
    try:
        status = Path("/proc/self/status").read_text(encoding="utf-8")
        return 1024 * int(status.partition("VmHWM:")[2].split()[0])
    except (OSError, IndexError):
        if counted is not None:
            return counted
        import psutil

        return _peak_of(psutil.Process())


def _bytes(maximum: int) -> int:
    """Convert ``ru_maxrss`` to bytes."""
    return maximum * (1 if sys.platform == "darwin" else 1024)


def _peak_of(process: psutil.Process) -> int:
    """Return a process's peak resident memory in bytes; where the system does not keep it, the current one."""
    memory = process.memory_info()
    return int(getattr(memory, "peak_wset", memory.rss))


class Meter:
    """Measures usage per phase; peak memory is the highest so far, not the phase's own.

    Args:
        before: phases of an earlier process that did a part of the same work; later usage is added to them.
    """

    def __init__(self, before: Mapping[str, Mapping[str, float]] | None = None) -> None:
        self._last = Usage.now()
        self.phases: dict[str, dict[str, float]] = {name: dict(phase) for name, phase in (before or {}).items()}

    def end(self, phase: str) -> None:
        """End ``phase`` and begin the next."""
        now = Usage.now()
        spent = {
            "cpu_user_s": now.user_s - self._last.user_s,
            "cpu_system_s": now.system_s - self._last.system_s,
            "wall_s": now.wall_s - self._last.wall_s,
        }
        before = self.phases.get(phase, {})
        peak = max(now.peak_rss_bytes, before.get("peak_rss_bytes", 0))
        self.phases[phase] = {name: before.get(name, 0.0) + amount for name, amount in spent.items()}
        self.phases[phase]["peak_rss_bytes"] = peak
        self._last = now


def usage_of(command: Sequence[str], environment: Mapping[str, str] | None = None) -> Usage:
    """Return the resource usage of a new process from start to end, as counted by the operating system.

    Peak memory is at least that of this process where children inherit it. Windows keeps no usage of ended processes:
    there the process is polled every :data:`POLL_S`, and usage after the last poll is missing.

    Raises:
        ValueError: the process failed; the message is its last line of output.
    """
    began = time.perf_counter()
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(command, stdout=said, stderr=subprocess.STDOUT, env=environment)
        if hasattr(os, "wait4"):
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            user, system, peak = usage.ru_utime, usage.ru_stime, _bytes(usage.ru_maxrss)
        else:
            user, system, peak = _polled(process)
        if process.returncode:
            said.seek(0)
            lines = said.read().decode(errors="replace").strip().splitlines() or ["it said nothing"]
            raise ValueError(f"{' '.join(command)} failed with exit code {process.returncode}: {lines[-1]}")
    return Usage(user, system, time.perf_counter() - began, peak)


def _polled(process: subprocess.Popen[bytes]) -> tuple[float, float, int]:
    """Return user and system seconds and peak memory of a process and its children, as of the last poll."""
    import psutil

    seen: dict[int, tuple[float, float, int]] = {}
    while process.poll() is None:
        with contextlib.suppress(psutil.Error):
            parent = psutil.Process(process.pid)
            for one in [parent, *parent.children(recursive=True)]:  # python.exe of a virtual environment has a child
                times = one.cpu_times()
                seen[one.pid] = times.user, times.system, max(_peak_of(one), seen.get(one.pid, (0.0, 0.0, 0))[2])
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(POLL_S)
    users, systems, peaks = zip(*seen.values(), strict=True) if seen else ((0.0,), (0.0,), (0,))
    return sum(users), sum(systems), max(peaks)


# ---------------------------------------------------------------------------------------------------------------------
# Cost of a move

OF_EACH_DEPTH = 4
"""Number of measured positions for each number of stones."""
ROUNDS, ENOUGH_S, MOST_S = 25, 1.0, 20.0
"""Maximum number of rounds over all positions; CPU seconds after which no new round begins, and no new move."""


class MoveCost(NamedTuple):
    """Cost of a move, for positions evaluated one at a time."""

    cpu_s_per_move: float
    """user and system, of all threads; the mean over positions of the median over rounds"""
    setup_cpu_s: float
    """making the policy and playing its first move, including one-time loading or solving"""
    peak_rss_bytes: int
    """of the process, imports included"""
    own_bytes: int
    """increase of peak memory while the policy was made and played"""


def cost_of_moves(game: Game, *specs: str) -> list[MoveCost]:
    """Measure the cost of policies' moves in a separate process, one policy after the other.

    All policies see the same positions: four for every number of stones up to two thirds of the cells, after random
    plies that end no game, in an order that is drawn once. Memory is the policy's own only if it is the only policy.

    Args:
        game: the game.
        specs: specs of policies; that process makes them, from the current folder.

    Raises:
        ValueError: the process failed.
    """
    here = str(Path(__file__).parents[1])  # the root, in case of a checkout that is not installed
    found = {**os.environ, "PYTHONPATH": os.pathsep.join([here, os.environ.get("PYTHONPATH", "")])}
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "cost.json")
        usage_of([sys.executable, "-m", "evaluation.cost", json.dumps(game.to_dict()), str(out), *specs], found)
        return [MoveCost(*one) for one in read_json(out)]


def time_moves(game: Game, spec: str, boards: Boards) -> MoveCost:
    """Measure one policy as in :func:`cost_of_moves`, in this process.

    Args:
        game: the game.
        spec: of a policy.
        boards: positions that are not over; the first is evaluated once beforehand.
    """
    import numpy as np

    from ttt_envs.agents.policy import act
    from ttt_envs.agents.specs import make_policy

    rng = np.random.default_rng(0)
    singles = [boards.take(np.array([row])) for row in range(len(boards.mover))]
    before, begun = Usage.now().peak_rss_bytes, time.process_time()
    policy = make_policy(spec, game)
    act(policy, singles[0], rng)
    setup = time.process_time() - begun
    seconds: list[list[float]] = [[] for _ in singles]
    total = 0.0
    for number in range(ROUNDS):
        if number and total > ENOUGH_S:
            break
        for row, one in enumerate(singles):
            if total > MOST_S:
                break
            begun = time.process_time()
            act(policy, one, rng)
            seconds[row].append(time.process_time() - begun)
            total += seconds[row][-1]
    after = Usage.now().peak_rss_bytes
    mean = statistics.fmean(statistics.median(row) for row in seconds if row)
    return MoveCost(mean, setup, after, after - before)


def processor() -> str:
    """Return the processor's model, to qualify timings."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.processor() or platform.machine()
    found = dict(re.findall(r"^(model name|cpu family|model)\s*: (.+)$", text, re.M))
    name = found.get("model name", platform.machine())
    return f"{name}, family {found['cpu family']} model {found['model']}" if "cpu family" in found else name


def _positions(game: Game) -> Boards:
    """Return the positions of :func:`cost_of_moves`."""
    import numpy as np

    from evaluation.matches.openings import draw_openings
    from ttt_envs.game.boards import Boards

    rng = np.random.default_rng(0)
    parts = []
    for plies in range(max(1, 2 * game.cells // 3)):
        luck = rng.integers(0, 2**64, OF_EACH_DEPTH, np.uint64)
        parts.append(draw_openings(game, plies, luck) if plies else Boards.start(game, OF_EACH_DEPTH))
    boards = Boards(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
    return boards.take(rng.permutation(len(boards.mover)))


def _main() -> None:
    from ttt_envs.core.jit import compile_at_once
    from ttt_envs.game.rules import Game

    described, out, *specs = sys.argv[1:]
    game = Game.from_dict(json.loads(described))
    boards = _positions(game)
    with compile_at_once():
        write_json(Path(out), [time_moves(game, spec, boards) for spec in specs])


if __name__ == "__main__":
    try:
        _main()
    except (ValueError, TypeError, OSError, MemoryError) as problem:
        sys.exit(str(problem))
