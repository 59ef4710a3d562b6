"""Engines of the Gomocup protocol as opponents: the lines they receive, what they may say, and that
they never stay.
"""

import contextlib
import copy
import dataclasses
import gc
import os
import sys
import textwrap
import time

import numpy as np
import plain
import psutil
import pytest
from numpy.testing import assert_array_equal
from players import FirstEmpty

from baselines.gomocup.program import MAX_LINE_LENGTH, Program
from baselines.timed import Clock
from ttt_envs import Boards, Game, make_policy
from ttt_envs.agents.policy import Forfeit
from ttt_envs.agents.specs import TRUST, FromFile
from ttt_envs.game.game import Position
from ttt_eval.matches.match import play_pairs

pytestmark = pytest.mark.more
GAME = Game(7, 7, 5)
FAKE = """\
import re, sys, time
size, stones, log = None, {}, open(sys.argv[1], "a")
def hear():
    line = sys.stdin.readline()
    if not line:
        sys.exit()
    log.write(line)
    log.flush()
    return line.strip()
def say(text):
    print(text, flush=True)
def first_free():
    for y in range(size[1]):
        for x in range(size[0]):
            if (x, y) not in stones:
                stones[x, y] = 1
                return f"{x},{y}"
def numbers(text):
    return tuple(map(int, re.findall(r"\\d+", text)))
def start(line):
    return "OK"
def answer(line):
    return first_free()
def restart(line):
    return "OK"
#HERE
while True:
    line = hear()
    word = line.split()[0]
    if word in ("START", "RECTSTART"):
        size = (numbers(line) * 2)[:2]
        stones.clear()
        say(start(line))
    elif word == "RESTART":
        stones.clear()
        say(restart(line))
    elif word == "TURN":
        stones[numbers(line)] = 2
        say(answer(line))
    elif word == "BEGIN":
        say(answer(line))
    elif word == "BOARD":
        stones.clear()
        while (line := hear()) != "DONE":
            x, y, whose = numbers(line)
            stones[x, y] = whose
        say(answer("BOARD"))
    elif word == "PLAY":
        say(line[5:])
    elif word == "END":
        break
"""
"""an engine that plays the first empty cell, and writes down the lines it receives; others have
something else in it
"""


@pytest.fixture
def engine(tmp_path):
    """Make an engine, with some lines of its own, and give its spec string."""

    def make(here="", **settings):
        name = f"engine{len(list(tmp_path.glob('engine*')))}"
        program = tmp_path / f"{name}.py"
        program.write_text(FAKE.replace("#HERE", textwrap.dedent(here)))
        arguments = f"-S {program} {tmp_path / 'received.txt'}"
        more = "".join(f",{key}={value}" for key, value in {"pause": 0, **settings}.items())
        return f"gomocup:{sys.executable},arguments=({arguments}){more}"

    return make


@pytest.fixture
def received(tmp_path):
    """The lines that engines received since the last call."""

    def lines():
        text = (tmp_path / "received.txt").read_bytes().decode()
        (tmp_path / "received.txt").unlink()
        assert "\n" not in text.replace("\r\n", "")
        return text.split("\r\n")[:-1]

    return lines


def children():
    """Processes of engines that this one has started."""
    return [
        child
        for child in psutil.Process().children(recursive=True)
        if "engine" in " ".join(child.cmdline())
    ]


@pytest.fixture(autouse=True)
def no_engine_is_left_running():
    yield
    gc.collect()
    assert not children()


def with_stones(**stones):
    """A position with stones, as ``o=["00", "10"]``: column and row."""
    cells = np.zeros((7, 7), np.int8)
    for stone, places in stones.items():
        for column, row in places:
            cells[int(row), int(column)] = ".ox".index(stone)
    return Position(cells.ravel(), np.count_nonzero(cells) % 2)


# --------------------------------------------------------------------------------------------------
# Lines that it receives


INFOS = [
    "INFO timeout_turn 1000",
    "INFO timeout_match 0",
    "INFO max_memory 0",
    "INFO game_type 1",
    "INFO rule 0",
]
UNLIMITED = "INFO time_left 2147483647"


def moves_of(spec, *positions, game=GAME):
    player = make_policy(spec, game).player()
    player.begin(np.zeros(1, np.int64))
    rng = np.random.default_rng(0)
    moves = [
        int(player.act(Boards.from_positions([state]), np.zeros(1, np.int64), rng)[0])
        for state in positions
    ]
    player.close()
    return moves


FIRST = with_stones()
SECOND = with_stones(o=["00"], x=["35"])


@pytest.mark.parametrize(
    ("positions", "moves", "lines"),
    [
        (
            [FIRST, SECOND, with_stones(o=["00", "10"], x=["35", "20"])],
            [0, 1, 3],
            ["BEGIN", UNLIMITED, "TURN 3,5", UNLIMITED, "TURN 2,0"],
        ),
        ([with_stones(o=["62"])], [0], ["TURN 6,2"]),
        (
            [with_stones(o=["00", "34"], x=["10"])],
            [2],
            ["BOARD", "0,0,2", "1,0,1", "3,4,2", "DONE"],
        ),
        (
            [with_stones(o=["00", "34"], x=["10", "66"])],
            [2],
            ["BOARD", "0,0,1", "1,0,2", "3,4,1", "6,6,2", "DONE"],  # in alternating order
        ),
        (
            [
                with_stones(o=["00"], x=["11"]),
                with_stones(o=["62"]),
                with_stones(o=["62", "05"], x=["33"]),
            ],
            [1, 0, 0],
            # in the third position the engine's stone is elsewhere: no move of the other player
            # leads there
            [
                *[
                    "BOARD",
                    "0,0,1",
                    "1,1,2",
                    "DONE",
                    "RESTART",
                    *INFOS,
                    UNLIMITED,
                    "TURN 6,2",
                    "RESTART",
                    *INFOS,
                ],
                *[UNLIMITED, "BOARD", "6,2,2", "3,3,1", "0,5,2", "DONE"],
            ],
        ),
    ],
    ids=["moves", "second", "board", "board of both", "new games"],
)
def test_positions_are_sent_as_moves_or_boards(engine, received, positions, moves, lines):
    assert moves_of(engine(), *positions) == moves
    assert received() == ["START 7", *INFOS, UNLIMITED, *lines, "END"]


@pytest.mark.parametrize("answer", ["UNKNOWN", "ERROR not today"])
def test_engine_without_restart_is_started_again(engine, received, answer):
    assert moves_of(
        engine(f"def restart(line): return {answer!r}"), with_stones(), with_stones(o=["62"])
    ) == [0, 0]
    begin = ["START 7", *INFOS, UNLIMITED]
    assert received() == [*begin, "BEGIN", "RESTART", "END", *begin, "TURN 6,2", "END"]


def test_rectangles_and_exactly_five_are_sent(engine, received):
    game = Game(5, 9, 5, overlines=False)
    cells = np.zeros(45, np.int8)
    cells[8] = 1
    assert moves_of(engine(), Position(cells, 1), game=game) == [0]
    lines = received()
    assert lines[0] == "RECTSTART 9,5"
    assert "INFO rule 1" in lines
    assert lines[-2] == "TURN 8,0"


def test_time_and_memory_limits_are_sent(engine, received):
    moves_of(engine(move=0.25, clock="3+0.5", memory=16), FIRST, SECOND)
    lines = received()
    limits = ["INFO timeout_turn 250", "INFO timeout_match 3000", f"INFO max_memory {16 << 20}"]
    assert lines[:5] == ["START 7", *limits, "INFO game_type 1"]
    first, second = [int(line.split()[2]) for line in lines if "time_left" in line]
    assert first == 3000
    assert 3000 < second <= 3500
    moves_of(engine(move=0, memory=1 << 20), FIRST)
    assert received()[1:4:2] == ["INFO timeout_turn 0", "INFO max_memory 2147483647"]


def test_clock_of_a_match_replaces_its_own(engine, received):
    player = make_policy(engine(clock=100), GAME).player()
    only = np.zeros(1, np.int64)
    player.use_clock(7, 1)
    for position in (
        FIRST,
        SECOND,
    ):  # the second looks like a reply to the first, but a game begins
        player.begin(only)
        player.act(
            Boards.from_positions([position]), only, np.random.default_rng(0), np.array([6.5])
        )
    player.close()
    begin = ["INFO timeout_turn 6500", "INFO timeout_match 7000", *INFOS[2:], "INFO time_left 6500"]
    board = ["BOARD", "0,0,1", "3,5,2", "DONE"]
    assert received()[1:-1] == [*begin, "BEGIN", "RESTART", *begin, *board]


# --------------------------------------------------------------------------------------------------
# What it may say


@pytest.mark.parametrize(
    "here",
    [
        "def answer(line): return 'MESSAGE I win\\n\\nDEBUG depth 3\\r' + first_free()",
        "def answer(line): return 'SUGGEST ' + first_free()",
        "def answer(line): return '  ' + first_free().replace(',', ' , ')",
        "def start(line): return 'OK - everything is good'",
        "sys.stderr.write('warning\\n' * 30_000); sys.stderr.flush()",
        f"def answer(line): return 'MESSAGE ' + 'x' * {3 * MAX_LINE_LENGTH} + '\\n' + first_free()",
    ],
    ids=range(6),
)
def test_tolerated_answers(engine, here):
    assert moves_of(engine(here), FIRST, SECOND) == [0, 1]


def test_unread_answers_are_discarded_before_the_next_request(engine):
    assert moves_of(
        engine("def answer(line): return first_free() + '\\n6,6'", pause=0.2), FIRST, SECOND
    ) == [0, 1]


FAULTS = {
    "exits": ("def answer(line): sys.exit(3)", "ended"),
    "refuses the board": ("def start(line): return 'ERROR only 20'", "'ERROR only 20' to START 7"),
    "below": ("def answer(line): return '0,7'", "'0,7'"),
    "taken": ("def answer(line): return '3,5'", "'3,5'"),
    "control characters": (
        "def answer(line): return '\\x1b[2J\\x07'",
        r"'\\x1b\[2J\\x07' to TURN 3,5",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_one_line_errors(engine, fault):
    here, message = FAULTS[fault]
    spec = engine(here)
    with pytest.raises(ValueError, match=message) as problem:
        moves_of(spec, with_stones(o=["35"]))
    assert "\n" not in str(problem.value)


SLOW = {
    "hangs": "def answer(line): time.sleep(60)",
    "floods": "def answer(line):\n    while True: say('MESSAGE ' + 'x' * 70)",
    "does not listen to signals": """
        import signal
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        def answer(line): time.sleep(60)
    """,
}


@pytest.mark.parametrize("slow", SLOW)
def test_engine_that_does_not_answer_in_time_is_killed(engine, slow):
    spec = engine(SLOW[slow], move=0.05, tolerance=0.15)
    start = time.monotonic()
    with pytest.raises(ValueError, match=r"did not answer BEGIN within 0\.2 s"):
        moves_of(spec, FIRST)
    assert time.monotonic() - start >= 0.2
    assert not children()


def test_full_input_of_a_program_is_a_timeout():
    deaf = Program([sys.executable, "-Sc", "import time; time.sleep(60)"])
    with pytest.raises(TimeoutError):
        next(deaf.ask(["x" * 1000] * 1000, time.monotonic() + 60))
    deaf.close()


def test_expired_clock_is_a_fault(engine):
    spec = engine(
        "def answer(line): time.sleep(0.3); return first_free()", clock=0.4, tolerance=0.01
    )
    with pytest.raises(ValueError, match=r"did not answer TURN 3,5 within 0\.\d+ s"):
        moves_of(spec, FIRST, SECOND)


def test_pause_precedes_the_next_command(engine, received):
    """Rapfi discards commands that arrive before its search has ended."""
    here = """
        import select
        def answer(line):
            say(first_free())
            if select.select([sys.stdin], [], [], 0.05)[0]:
                sys.exit("did not listen")
            return ""
    """
    assert moves_of(engine(here, pause=0.4), FIRST, SECOND, FIRST) == [0, 1, 0]
    with pytest.raises(
        ValueError, match=r"ended before it answered TURN 3,5, and wrote 'did not listen'"
    ):
        moves_of(engine(here), FIRST, SECOND)


# --------------------------------------------------------------------------------------------------
# Nothing stays


LEAVES = """
    import subprocess
    stray = (
        "import os, sys, time; print(os.getpid(), file=open(sys.argv[1], 'w'), flush=True); "
        "time.sleep(600)"
    )
    subprocess.Popen([sys.executable, "-S", "-c", stray, "STRAY"], start_new_session=True)
"""
"""an engine that starts a process in a session of its own"""


def test_processes_in_other_sessions_end_with_the_engine(engine, tmp_path):
    player = make_policy(engine(LEAVES.replace("STRAY", str(tmp_path / "stray"))), GAME).player()
    while not (tmp_path / "stray").exists() or not (tmp_path / "stray").read_text():
        time.sleep(0.01)
    stray = psutil.Process(int((tmp_path / "stray").read_text()))
    try:
        assert os.getsid(stray.pid) == stray.pid
        player.close()
        assert not stray.is_running() or stray.status() == psutil.STATUS_ZOMBIE
    finally:
        with contextlib.suppress(psutil.Error):
            stray.kill()


def test_no_engine_outlives_python(engine, fresh):
    """Not even one that does not listen any more."""
    spec = engine("def start(line): say('OK'); time.sleep(60)")
    number = fresh(
        "import psutil",
        "from ttt_envs import *",
        f"player = make_policy({spec!r}, Game(7, 7, 5)).player()",
        "print(psutil.Process().children()[0].pid)",
    )
    assert not psutil.pid_exists(int(number))


# --------------------------------------------------------------------------------------------------
# As a policy


def test_probabilities_are_one_hot_for_its_moves(engine, received):
    """By one engine, which ends with the policy."""
    policy = make_policy(engine(), GAME)
    boards = plain.positions_of_random_play(GAME, 8)
    assert not policy.pure
    for _ in range(2):
        assert_array_equal(
            policy.probabilities(boards), np.eye(49)[(boards.cells == 0).argmax(axis=1)]
        )
    assert (received().count("START 7"), len(children()), copy.deepcopy(policy)) == (1, 1, policy)
    del policy
    assert not children()


@pytest.mark.parametrize(
    ("clock", "settings"), [(0.2, {}), (60, {"move": 0.05})], ids=["clock", "move"]
)
def test_late_engine_loses_a_timed_match(engine, clock, settings):
    """By its clock, or by its own limit for a move, which is a forfeit."""
    logged = []
    spec = engine(SLOW["hangs"], tolerance=0.05, **settings)
    score = play_pairs(GAME, spec, "random", 1, seed=4, clock=Clock(clock), log=logged.extend)
    assert score.table.tolist() == [[0, 0, 1], [0, 0, 1]]
    assert (score.times[0].lost, score.forfeits.a) == ((0, 2) if settings else (2, 0))
    assert [len(played_game.moves) for played_game in logged] == [0, 1]


FAULTY = """
    def answer(line):
        free = first_free()
        if free == "{free}":
            {fault}
        return free
"""
"""at fault where this is the first free cell: a function of the position"""


def test_late_answer_costs_no_other_game_of_a_batch(engine):
    spec = engine(FAULTY.format(free="0,0", fault="time.sleep(60)"), tolerance=0.05)
    with contextlib.closing(make_policy(spec, GAME).player()) as player:
        boards = Boards.from_positions([FIRST, with_stones(o=["00"])])
        assert player.act(
            boards, np.arange(2), np.random.default_rng(0), np.array([0.05, 60])
        ).tolist() == [0, 1]


def test_fault_forfeits_one_game_of_a_match(engine):
    spec = engine(FAULTY.format(free="2,0", fault="return '0,0'"))
    logged = []
    others = []
    score = play_pairs(GAME, spec, "random", 4, seed=1, openings="random:2", log=logged.extend)
    play_pairs(GAME, FirstEmpty(), "random", 4, seed=1, openings="random:2", log=others.extend)
    assert 0 < score.forfeits.a < 8
    for played_game, other in zip(logged, others, strict=True):
        assert (
            other.moves[: len(played_game.moves)] == played_game.moves
        )  # nothing else has changed
        if played_game.forfeit is None:
            assert played_game == dataclasses.replace(other, players=played_game.players)
        else:
            assert played_game.players[1 - played_game.result] == spec
            assert played_game.forfeit.startswith(str(make_policy(spec, GAME)))


def test_engine_that_cannot_be_restarted_ends_the_match(engine, tmp_path):
    once = f"""
        import os
        if os.path.exists({str(tmp_path / "once")!r}):
            sys.exit(1)
        open({str(tmp_path / "once")!r}, "w").close()
        def answer(line): sys.exit(3)
    """
    with pytest.raises(ValueError, match="ended before it answered START 7") as problem:
        play_pairs(GAME, engine(once), "random", 4, seed=1)
    assert not isinstance(problem.value, Forfeit)


@pytest.mark.parametrize("inside", ["{}", "expectiminimax:depth=1,leaf=({})"])
def test_files_may_not_name_programs(inside, engine, received, tmp_path, monkeypatch):
    monkeypatch.setenv(TRUST, "0")
    spec = FromFile(inside.format(engine()))
    with pytest.raises(
        ValueError, match="was read from a file, which may not name what runs a program"
    ):
        make_policy(spec, GAME)
    assert not (tmp_path / "received.txt").exists()
