"""``play.py --gomocup``: what the engine answers, and games against it over real pipes."""

import math
import os
import re
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from processes import ROOT

from baselines.gomocup.engine import parse_cell
from baselines.timed import Timed
from ttt_apps.terminal.gomocup import Brain, make_timed_policy
from ttt_envs import Game, Policy, make_policy
from ttt_envs.envs.single_env import SingleEnv

pytestmark = pytest.mark.more


def replies(*lines, spec="win-or-block", seed=0):
    """Return the answers to lines, until the end."""
    answers = []
    brain = Brain(spec, seed, answers.append)
    for line in lines:
        if not brain.handle_line(line):
            break
    return answers


def move_in(answer):
    assert re.fullmatch(r"\d+,\d+", answer)
    return parse_cell(answer)


# --------------------------------------------------------------------------------------------------
# Answers


@pytest.mark.parametrize(
    ("size", "board", "move"),
    [
        ("START 10", "3,2,2 4,2,2 5,2,2 6,2,2 2,2,1 9,9,1 0,9,1", "7,2"),  # blocks
        (
            "START 10",
            "2,4,1 3,4,1 4,4,1 5,4,1 1,4,2 3,2,2 4,2,2 5,2,2 6,2,2",
            "6,4",
        ),  # wins as the second player
        ("RECTSTART 12,5", "11,0,1 11,1,1 11,2,1 11,3,1", "11,4"),
    ],
)
def test_boards_are_answered_by_the_move_of_the_policy(size, board, move):
    assert replies(size, "BOARD", *board.split(), "DONE") == ["OK", move]


@pytest.mark.parametrize(
    ("lines", "last"),
    [
        (["START 20"], "ERROR boards have edges of 5 to 19 here"),
        (
            ["RECTSTART 7"],
            "ERROR START is followed by the size of the board, RECTSTART by width,height",
        ),
        (["START 7", "START 20", "BEGIN"], "ERROR there is no board: send START first"),
        (["START 7", "TURN 7,0"], "ERROR 7,0 is no cell of the board"),
        (["START 7", "BOARD", "3,3,1", "3,3,2", "DONE"], "ERROR 3,3 has a stone already"),
        (
            ["START 7", "BOARD", *(f"{x},3,2" for x in range(5)), "DONE"],
            "ERROR the game is over: send RESTART",
        ),
        (["  start   7  ", "TURN 3,3", "TAKEBACK 3,3"], "OK"),
        (["START 7", "TAKEBACK 3,3"], "ERROR 3,3 has no stone"),
        (["START 7", "PLAY 3,4"], "3,4"),
        (["START 7", "INFO rule 1", "BEGIN"], "ERROR rule 1 is not played here"),
        (["caf\u00e9 au lait"], "UNKNOWN command CAF?"),
    ],
)
def test_invalid_commands_get_an_error_and_the_engine_continues(lines, last):
    answers = replies(*lines, "START 6", "INFO rule 0", "BEGIN")
    assert answers[-3].startswith(last)
    assert answers[-2] == "OK"
    move_in(answers[-1])


def test_info_and_empty_lines_are_not_answered():
    for line in ("", "INFO", "INFO timeout_turn soon", "INFO timeout_turn " + "9" * 400):
        assert len(replies("START 7", line, "BEGIN")) == 2
        assert replies("START 7", "BOARD", line, "DONE")[0] == "OK"


def test_board_without_done_is_an_error_and_the_command_is_executed():
    assert replies("START 7", "BOARD", "3,3,1", "TURN 1,1")[:2] == ["OK", "ERROR BOARD has no DONE"]
    move_in(replies("START 7", "BOARD", "3,3,1", "TURN 1,1")[2])


def test_invalid_policy_is_an_error_reply():
    for spec in ("no-such", "optimal", "win-or-block:("):
        (answer,) = replies("START 15", spec=spec)
        assert answer.startswith("ERROR ")
        assert "\n" not in answer


class Broken(Policy):
    """A bad move of the opponent does not stop the engine."""

    pure = False

    def __init__(self, game):
        self.game = game

    def probabilities(self, boards, rng=None):
        if np.count_nonzero(boards.cells) == 1:
            raise RuntimeError("no idea\nat all")
        return np.eye(boards.cells.shape[1])[boards.cells.argmax(axis=1)]


def test_failing_policy_is_an_error_reply_and_keeps_the_board():
    spec = f"{__name__}:Broken"
    answers = replies(
        "START 7", "TURN 3,3", "TURN 3,3", "BOARD", "1,0,2", "2,0,1", "DONE", spec=spec
    )
    assert answers[:3] == [
        "OK",
        "ERROR RuntimeError: no idea?at all",
        "ERROR RuntimeError: no idea?at all",
    ]
    assert "gave no distribution over legal moves in '.xo..../" in answers[3]


def test_takeback_begins_the_memory_of_the_player_again():
    """The first empty cell but as many as it remembers."""
    lines = ["START 5", "TURN 4,4", "TURN 3,4"]
    assert replies(*lines, spec="recorders:Counting") == ["OK", "0,0", "2,0"]
    lines += ["TAKEBACK 2,0", "TAKEBACK 3,4", "TURN 3,4"]
    assert replies(*lines, spec="recorders:Counting")[-1] == "1,0"


COMMANDS = [
    *(name[3:] for name in dir(Brain) if name.startswith("on_")),
    "OK",
    "turn",
    "INFO timeout_turn",
    "",
]
NUMBERS = st.one_of(
    st.sampled_from(["", "5", "20", "-1", "5,6", "x", "9" * 50]),
    st.builds("{},{}".format, st.integers(-1, 6), st.integers(-1, 6)),
    st.builds("{},{},{}".format, st.integers(0, 5), st.integers(0, 5), st.integers(0, 4)),
)
COMMAND = st.builds("{} {}".format, st.sampled_from(COMMANDS), NUMBERS)
LINES = st.one_of(st.text(st.characters(codec="utf-8"), max_size=30), COMMAND, NUMBERS)
ANSWER = re.compile(r'OK|\d+,\d+|(ERROR|UNKNOWN) [ -~]{1,320}|name="ttt_envs", [ -~]+')


@settings(max_examples=200)
@given(st.lists(LINES, max_size=30))
def test_any_lines_get_valid_replies(lines):
    """Nothing is raised, every answer is one line of the protocol, and no line but one has more
    than one.
    """
    answers = []
    brain = Brain("win-or-block", 0, answers.append)
    for line in ["START 5", *lines]:
        before = len(answers)
        going = brain.handle_line(line)
        assert going == (line.strip().split(" ")[0].upper() != "END")
        new = answers[before:]
        assert len(new) <= 1 or new[0] == "ERROR BOARD has no DONE"
        assert all(ANSWER.fullmatch(answer) for answer in new), new


# --------------------------------------------------------------------------------------------------
# Games and times


@pytest.mark.parametrize("seat", ["first", "second"])
def test_games_equal_those_of_the_environment_with_the_same_seed(seat):
    """As play.py says of its own: the same seed and moves give the same replies."""
    seed = 11
    answers = []
    env = SingleEnv(7, 5, opponent="win-or-block", seat=seat)
    brain = Brain("win-or-block", seed, answers.append)
    brain.handle_line("START 7")
    for episode in range(3):
        if episode:
            brain.handle_line("RESTART")
        env.reset(seed=seed if episode == 0 else None)
        if seat == "second":
            brain.handle_line("BEGIN")
        done = False
        before = np.zeros(49, np.int8)
        while not done:
            if seat == "second" or before.any():
                (cell,) = np.flatnonzero(env.clone_state()["cells"][0] != before)
                assert answers[-1] == f"{cell % 7},{cell // 7}"
            action = int(np.flatnonzero(env.action_masks())[-1])
            before = env.clone_state()["cells"][0]
            before[action] = 1 if seat == "first" else 2
            _, _, done, _, _ = env.step(action)
            if not done:
                brain.handle_line(f"TURN {action % 7},{action // 7}")


@pytest.mark.parametrize(
    ("spec", "turn_s", "clocked", "limits"),
    [
        ("timed:move=0.5", 3.0, True, (0.5, None)),
        ("timed:mcts,move=5", 3.0, True, (3.0, None)),
        ("mcts:simulations=77", None, True, (None, 77)),
        ("expectiminimax:depth=2", 2.0, False, (2.0, 2)),
        ("mcts:simulations=77", None, False, None),
        ("win-or-block", 1.0, False, None),
    ],
)
def test_search_obeys_the_managers_times_and_its_own_limits(spec, turn_s, clocked, limits):
    """None: the policy is as it is."""
    policy = make_timed_policy(spec, Game(9, 9, 5), turn_s, clocked)
    itself = make_policy(spec, Game(9, 9, 5))
    assert policy == itself if limits is None else (policy.move, policy.max_depth) == limits


def test_times_of_every_kind_reach_the_search(monkeypatch):
    plans = []
    plan = Timed.plan
    monkeypatch.setattr(Timed, "is_warm", True)
    monkeypatch.setattr(
        Timed,
        "plan",
        lambda self, *given: plans.append((self.move, given[1])) or plan(self, *given),
    )
    lines = ["START 7", "BEGIN", "INFO timeout_turn 200", "INFO time_left 2147483647", "TURN 0,0"]
    lines += [
        "INFO time_left 1500",
        "TURN 1,1",
        "INFO timeout_turn 0",
        "INFO time_left -20",
        "TURN 2,2",
    ]
    answers = replies(*lines, spec="timed:max-depth=1")
    for answer in answers[1:]:
        move_in(answer)
    at_start = (0.001, 0.0)
    assert plans == [at_start, (None, math.inf), (0.2, math.inf), (0.2, 1.5), (0.001, 0.0)]


LOUD = """
import os, sys
import numpy as np
from ttt_envs import Policy

print("imported")

class Loud(Policy):
    pure = False
    def __init__(self, game):
        print("made")
    def probabilities(self, boards, rng=None):
        print("asked")
        os.write(1, b"from below\\n")
        return np.eye(boards.cells.shape[1])[(boards.cells == 0).argmax(axis=1)]
"""


def test_only_replies_are_written_to_standard_output(tmp_path):
    (tmp_path / "loud.py").write_text(LOUD)
    text = b"START 7\r\n\xff\xfe\r\n" + b"x" * 100_000 + b"\r\nTURN 3,3\nEND\nBEGIN\n"
    command = [sys.executable, "play.py", "--gomocup", "--opponent=loud:Loud"]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        command, input=text, capture_output=True, cwd=ROOT, check=False, env=environment
    )
    assert done.returncode == 0
    assert done.stdout.splitlines() == [
        b"OK",
        b"UNKNOWN command ??",
        b"UNKNOWN command " + b"X" * 300,
        b"0,0",
    ]
    assert sorted(done.stderr.splitlines()) == [b"asked", b"from below", b"imported", b"made"]
