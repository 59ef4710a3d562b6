"""Play in the terminal: commands, output, logs, signals."""

import fcntl
import io
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
from itertools import islice

import numpy as np
import pytest
from processes import ROOT

from baselines.exact import solve
from ttt_apps import play
from ttt_apps.board import board_text
from ttt_apps.cli import PlainConsole
from ttt_apps.replay import replay
from ttt_apps.terminal_game import TerminalGame, search
from ttt_envs import Boards, Game, Policy, from_text, make_policy
from ttt_envs.envs.single_env import SingleEnv
from ttt_envs.game.boards import cell_at, coordinate
from ttt_eval.matches.games import HUMAN, PlayedGame, read_games, write_games

SKIPPING = Game(skip_chance=0.25)
MAX_LINES = 500
"""more than the games of a test take: a session that never ends is an error and no endless test"""


class Person:
    """An input stream: the lines that the generator ``lines(session)`` yields."""

    def __init__(self, lines):
        self.lines = lines

    def join(self, session):
        self.typed = islice(self.lines(session), MAX_LINES)

    def isatty(self):
        return False

    def readline(self, limit=-1):
        return next(self.typed) + "\n"


def play_session(lines, game=SKIPPING, opponent="random", width=80, **settings):
    """A finished session with its output as ``shown``; ``lines`` is a list or a Person."""
    out = io.StringIO()
    if isinstance(lines, list):
        lines = io.StringIO("".join(f"{line}\n" for line in lines))
    console = PlainConsole(file=out, width=width)
    session = TerminalGame(game, make_policy(opponent, game), opponent, console, lines, **settings)
    if isinstance(lines, Person):
        lines.join(session)
    try:
        session.run()
    finally:
        session.shown = out.getvalue()
    return session


def free_cells(session):
    return np.flatnonzero(session.live.position.cells == 0)


def first_free(session):
    """Plays the first empty cell, without end."""
    while True:
        yield coordinate(int(free_cells(session)[0]), session.game)


def varied(number):
    """Plays empty cells that depend on a number, without end."""

    def lines(session):
        while True:
            free = free_cells(session)
            yield coordinate(int(free[(number * 7 + len(free) * 5) % len(free)]), session.game)

    return lines


def test_output_of_a_game():
    """The moves, an illegal one, the skip, the last board, the result and what it came from."""
    shown = play_session(["b2", "b2", "a1", "no"], opponent="win-or-block", seed=0).shown
    parts = (
        "o: you play b2.\nx: win-or-block plays c3.\n\n   a  b  c\n1  .  .  .\n2  .  o  .\n3  .  . [x]\n",
        "b2 holds a stone",
        "o's turn is skipped: x moves again.\nx: win-or-block plays c2.\n\n   a  b  c\n1  o  . *x*\n2  .  o *x*\n",
        "win-or-block wins. So far you have won 0, drawn 0 and lost 1.",
        "worth +0.31 to you, your moves lose 0.16, those of win-or-block lose 0.00, the skips bring you -1.15",
    )
    places = [shown.find(part) for part in parts]
    assert -1 not in places
    assert places == sorted(places)


@pytest.mark.parametrize("seat", ["first", "second", "alternate", "random"])
@pytest.mark.parametrize("opponent", ["random", "win-or-block"])
def test_games_equal_those_of_the_environment(seat, opponent, tmp_path):
    game, seed, count = Game(3, 4, 3, 0.25), 5, 6
    log = tmp_path / "log.jsonl"
    session = play_session(Person(first_free), game, opponent, seat=seat, seed=seed, games=count, log=log)
    played = list(read_games(log))
    env = SingleEnv((3, 4), 3, 0.25, opponent=opponent, seat=seat)
    score = [0, 0, 0]
    for episode, one in enumerate(played):
        env.reset(seed=seed if episode == 0 else None)
        reward, done = 0.0, False
        while not done:
            _, reward, done, _, info = env.step(int(np.flatnonzero(env.action_masks())[0]))
        assert one.players[info["seat"]] == HUMAN
        assert one.players[1 - info["seat"]] == opponent
        assert one.end().cells.tolist() == env.clone_state()["cells"][0].tolist()
        assert one.result == info["result"]
        assert (one.seed, one.episode) == (seed, episode)
        score[1 - int(reward)] += 1
    assert len(played) == count
    assert session.score == score
    assert "Another game?" not in session.shown
    won, drawn, lost = score
    end = f"you have won {won}, drawn {drawn} and lost {lost}. {count} saved in {log}."
    assert " ".join(session.shown.split()).endswith(end)


@pytest.mark.parametrize("opponent", ["win-or-block", "expectiminimax:depth=2,width=2", "mcts:simulations=30"])
def test_undo_keeps_skips_and_replies(opponent, tmp_path):
    """With every move taken back and made again the game is the same, also against stateful opponents."""
    for seed in range(3):
        straight, wavering_log = tmp_path / f"{seed}", tmp_path / f"{seed}-undone"
        play_session(Person(varied(seed)), opponent=opponent, seed=seed, seat="alternate", games=2, log=straight)

        def wavering(session, lines=varied(seed)):  # noqa: B008
            for move in lines(session):
                live = session.live
                yield move
                if session.live is live:
                    yield "undo"
                    yield move

        play_session(Person(wavering), opponent=opponent, seed=seed, seat="alternate", games=2, log=wavering_log)
        undone = [one.settings.get("undone", 0) for one in read_games(wavering_log)]
        assert sum(undone) > 0
        assert [one.moves for one in read_games(wavering_log)] == [one.moves for one in read_games(straight)]


def test_hint_is_an_optimal_move():
    count = 0
    for seed in range(4):
        boards = []

        def ask(session, boards=boards, lines=varied(seed)):  # noqa: B008
            for move in lines(session):
                boards.append(session.live.boards)
                yield "hint"
                yield move

        shown = play_session(Person(ask), seed=seed, games=2, seat="alternate").shown
        hints = re.findall(r"^(\w\d+) is best, with the value (\S+) for you", shown, re.M)
        for (move, value), board in zip(hints, boards, strict=True):
            assert solve(SKIPPING).optimal_actions(board)[0, cell_at(move, SKIPPING)]
            assert value == f"{solve(SKIPPING).values(board)[0] + 0.0:+.3f}"
        count += len(hints)
    assert count > 20


def test_hint_on_a_large_board_is_of_a_search():
    game = Game(5, 5, 4)
    typed = ["b2", "b3", "b4", "hint"]
    shown = play_session(typed, game, seed=1).shown
    assert shown.count("plays") == 3
    assert re.search(r"^b[15] is best by a search \(expectiminimax\) \d+ plies ahead", shown, re.M)
    assert "As good: all others." in play_session(["hint"], Game(1, 19, 8)).shown
    values, depth = search(game, Boards.from_positions([from_text("xxx../...../.oo../...../..... x", game)]))
    assert int(np.nanargmax(values)) == 3
    assert depth >= 3


def test_explain_shows_exact_values_and_those_of_the_opponent():
    policy = make_policy("svd:rank=18", SKIPPING)
    session = play_session(["b2", "explain"], opponent="svd:rank=18", seed=3)
    boards = session.live.boards
    exact, own = solve(SKIPPING).action_values(boards)[0], policy.action_values(boards)[0]
    likely = policy.probabilities(boards)[0]
    rows = dict(re.findall(r"^ *(\w\d) +(\d.*)$", session.shown, re.M))
    assert {cell_at(name, SKIPPING) for name in rows} == set(np.flatnonzero(boards.cells[0] == 0))
    for name, words in rows.items():
        cell = cell_at(name, SKIPPING)
        star = "*" if exact[cell] >= np.nanmax(exact) - 1e-9 else ""
        assert words.split() == [f"{likely[cell]:.3f}", f"{own[cell]:+.3f}", f"{exact[cell]:+.3f}{star}"]
    values = [float(words.split()[2].rstrip("*")) for words in rows.values()]
    assert values == sorted(values, reverse=True)
    text = play_session(["explain"], Game(5, 5, 4), "win-or-block").shown.split("explain\n")[1]
    assert "exact " not in text.partition("1 is won.")[2]
    assert "and 13 more" in text


SCRIPT = ["b2", "u", "hi", "e", "b", "?", "n", "a1", "sw", "c3", "undo", "c3", "exit"]


def test_end_of_input_at_every_prompt(tmp_path):
    for count in range(len(SCRIPT) + 1):
        log = tmp_path / f"{count}.jsonl"
        write_games(log, [])
        session = play_session(SCRIPT[:count], seed=4, log=log)
        assert re.search(r"Goodbye: you have won 0, drawn 0 and lost 0. \d saved in ", session.shown)
        saved = list(read_games(log))
        assert all(one.result is None and one.moves for one in saved)
        assert f" {len(saved)} saved in {log}" in session.shown.replace("\n", " ")
    for words in (["b2", "a1"], ["b2", "a1", "what"]):  # at the question for another game
        shown = play_session(words, opponent="win-or-block", seed=0).shown
        assert shown.endswith("Another game? (yes, swap seats, quit) \nGoodbye: you have won 0, drawn 0 and lost 1.\n")
    assert "Game 2" not in play_session(["b2", "a1", "n"], opponent="win-or-block", seed=0).shown


@pytest.mark.parametrize(
    ("word", "game", "cell"),
    [
        *((word, Game(), "b2") for word in ("b2", "B2", " b2 ", "b 2", "4", "004")),
        *((word, Game(3, 4, 3), cell) for word, cell in (("0", "a1"), ("5", "b2"), ("11", "d3"))),
    ],
)
def test_names_of_cells(word, game, cell):
    assert f"o: you play {cell}." in play_session([word], game, "win-or-block").shown


def test_a_person_drops_stones_into_columns():
    game = Game(3, 5, 3, gravity=True)
    shown = play_session(["b", "z", "7", "b1", "e", "help", "quit"], game, "win-or-block", seed=1).shown
    for words in ("your move (a to e, or help):", "o: you play b3.", "'z1' is no cell", "action 6", "o: you play e3."):
        assert words in shown  # a letter names a column before a command
    full = play_session(["a", "A", "1", "quit"], Game(1, 4, 3, gravity=True)).shown
    assert full.count("the column is full") == 2


@pytest.mark.parametrize(
    ("nonsense", "message"),
    [
        *((word, f"{word!a} is no cell") for word in ("2,2", "d1", "a4", "b2 a1", "\x1b[a", "\0", "b\u0662")),
        ("9", "action 9"),
        ("undoo", "'undoo' is no move and no command"),
        ("h", "h may be hint or help: type more of it."),
        ("[red]b2[/red]", "'[red]b2[/red]' is no cell"),
        ("x" * 200_000, f"'{'x' * 20}' is no move and no command"),
        ("undo", "you have not moved yet"),
    ],
)
def test_invalid_input_gets_one_sentence(nonsense, message):
    session = play_session([nonsense, "  ", "b2"])
    said = session.shown.split("or help): ")[2 if nonsense == "  " else 1]
    assert message in said
    assert said.count("\n") <= 3
    assert "\x1b" not in session.shown
    assert "o: you play b2." in session.shown


def test_log_has_the_played_games(tmp_path):
    log = tmp_path / "log.jsonl"
    play_session(["b2", "a1", "yes", "hint", "a1", "swap", "b2", "quit"], opponent="win-or-block", seed=0, log=log)
    lost, left, swapped = read_games(log)
    assert lost.players == (HUMAN, "win-or-block")
    assert lost.result == 1
    assert [coordinate(cell, SKIPPING) for cell, _ in lost.moves] == ["b2", "c3", "a1", "c1", "c2"]
    assert [skipped for _, skipped in lost.moves] == [False, False, False, True, False]
    assert (lost.seed, lost.episode, lost.settings) == (0, 0, {})
    assert (left.result, left.episode, left.settings) == (None, 1, {"hints": 1})
    assert (swapped.result, swapped.episode, swapped.players) == (None, 2, ("win-or-block", HUMAN))


def test_illegal_move_of_the_opponent(monkeypatch):
    class Stubborn(Policy):
        def probabilities(self, boards, rng=None):
            return np.tile(np.eye(9)[4], (len(boards.mover), 1))

    console, lines = PlainConsole(file=io.StringIO()), io.StringIO("b2\n")
    session = TerminalGame(Game(), Stubborn(), "stubborn", console, lines)
    with pytest.raises(ValueError, match="stubborn moved to a cell that is not empty: choose another opponent"):
        session.run()


# ---------------------------------------------------------------------------------------------------------------------
# The board


def test_board_width_fits_the_terminal():
    game = Game(2, 4, 2)
    cells = np.array([1, 2, 2, 0, 1, 0, 0, 0], np.int8)
    wide = "   a  b  c  d\n1 *o* x [x] .\n2 *o* .  .  ."
    assert board_text(game, cells, 14, [2], [0, 4]).plain == wide
    for narrow in (13, 9):
        assert board_text(game, cells, narrow, [2], [0, 4]).plain == "  a b c d\n1 O x X .\n2 O . . ."
    assert board_text(game, cells, 8, [2], [0, 4]).plain == "  abcd\n1 OxX.\n2 O..."


# ---------------------------------------------------------------------------------------------------------------------
# Saved games


def test_replay_lists_and_shows_games(tmp_path):
    log, out = tmp_path / "log.jsonl", io.StringIO()
    play_session(["b2", "a1", "yes", "a1", "quit"], opponent="win-or-block", seed=0, log=log)
    log.write_bytes(log.read_bytes() + b'{"game":')
    console = PlainConsole(file=out, width=200)
    replay(console, log)
    assert out.getvalue().splitlines()[0] == "1: 3 x 3, 3 to win, skip 0.25; o human, x win-or-block; x wins, moves: 5"
    assert "o human, x win-or-block; unfinished, moves: " in out.getvalue().splitlines()[1]
    assert "line 4 was not written to its end, and is left out" in out.getvalue()
    replay(console, log, 1)
    assert out.getvalue().endswith("5. x c2\n   a  b  c\n1  o  . *x*\n2  .  o *x*\n3  .  . *x*\n\n")
    assert "4. x c1 (skip)\n" in out.getvalue()
    with pytest.raises(ValueError, match=r"--number 3 is not in .*: it has 2 games"):
        replay(console, log, 3)
    write_games(log, [PlayedGame(Game(), ("a", "b"), ((0, False),), 1, forfeit="time")])
    replay(console, log, 1)
    assert '[forfeit "time"]' in out.getvalue()


# ---------------------------------------------------------------------------------------------------------------------
# The command


def test_moves_from_a_file_are_those_that_are_typed(tmp_path, capsys, monkeypatch):
    text, options = "b2\nhint\nquit\n", ["--opponent", "win-or-block", "--seed", "3"]
    (tmp_path / "moves.txt").write_text(text)
    play.main([*options, "--input", str(tmp_path / "moves.txt")])
    from_file = capsys.readouterr().out
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))
    play.main(options)
    assert from_file == capsys.readouterr().out
    assert "o: you play b2." in from_file


class Terminal:
    """``play.py`` in a terminal of its own."""

    def __init__(self, *arguments, rows=24, columns=80):
        self.shown = ""
        self.child, self.file = pty.fork()
        if self.child == 0:
            os.chdir(ROOT)
            # by hand, for readline, which pytest imports, writes COLUMNS where os.environ does not see it
            environment = {**os.environ, "TERM": "xterm-256color"}
            environment.pop("COLUMNS", None)
            os.execve(sys.executable, [sys.executable, "play.py", *arguments], environment)
        self.resize(rows, columns)

    def resize(self, rows, columns):
        fcntl.ioctl(self.file, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        os.kill(self.child, signal.SIGWINCH)

    def until(self, words):
        """Read until ``words`` are shown since the last call, and return that; it fails where nothing more comes."""
        seen = ""
        while words not in seen:
            assert select.select([self.file], [], [], 120)[0], seen
            seen += self._read()
        self.shown += seen
        return seen

    def _read(self):
        try:
            return os.read(self.file, 4096).decode(errors="replace")
        except OSError:  # the other end is closed
            raise AssertionError("it has ended: " + self.shown) from None

    def type(self, text):
        os.write(self.file, text.encode("latin-1"))

    def end(self):
        """The exit code."""
        try:
            while True:
                self.shown += self._read()
        except AssertionError:
            os.close(self.file)
            return os.waitstatus_to_exitcode(os.waitpid(self.child, 0)[1])


@pytest.mark.parametrize("end", ["interrupt", "hang up"])
def test_terminal_with_invalid_input_and_resize_that_is_interrupted_or_closed(end, tmp_path):
    log = tmp_path / "log.jsonl"
    terminal = Terminal("--opponent", "win-or-block", "--size", "7", "--win-length", "4", "--log", str(log))
    first = terminal.until("or help): ")
    assert "   a  b  c  d  e  f  g" in first
    for nonsense in ("\n", "zz9\n", "\xff\xfe\n", "\x1b[A\x1b[B\n", "\t\n", "9" * 3000 + "\n"):
        terminal.type(nonsense)
        terminal.until("or help): ")
    terminal.resize(10, 20)
    terminal.type("d4\n")
    assert "  a b c d e f g" in terminal.until("or help): ")
    if end == "interrupt":
        terminal.type("\x03")
        assert terminal.end() == 130
        assert "Goodbye: you have won 0, drawn 0 and lost 0. 1 saved in" in " ".join(terminal.shown.split())
    else:
        os.close(terminal.file)
        os.waitpid(terminal.child, 0)
    assert "Traceback" not in terminal.shown
    (left,) = read_games(log)
    assert coordinate(left.moves[0].action, left.game) == "d4"
    assert left.result is None


def test_pipe_gets_plain_text_and_may_be_closed():
    command = [sys.executable, "-m", "ttt_apps.play", "--opponent", "win-or-block", "--seed", "0"]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    typed = b"b2\n\xff\xfe\nhelp\nexplain\nquit\n"
    done = subprocess.run(
        [*command, "--skip-chance", "0.25"], cwd=ROOT, input=typed, capture_output=True, env=environment, check=True
    )
    assert "x: win-or-block plays c3." in done.stdout.decode("ascii")
    assert b"\x1b" not in done.stdout
    assert done.stderr == b""
    cut = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    cut.stdout.close()
    _, said = cut.communicate(b"b2\nquit\n")
    assert b"Traceback" not in said
    assert b"Exception" not in said
