"""Play in the terminal: commands, output, logs, signals."""

import io
import os
import re
import subprocess
import sys
from itertools import islice

import numpy as np
import pexpect
import pytest
from commands import words_of
from processes import ROOT
from rich.status import Status
from small_games import SKIP_GAME

from baselines.exact import solve
from baselines.mcts import MCTS
from ttt_apps.cli.board import board_text
from ttt_apps.cli.options import PlainConsole
from ttt_apps.terminal.game import HINT_SIMULATIONS, MAX_MISTAKES, TerminalGame
from ttt_apps.terminal.replay import replay
from ttt_envs import Game, make_policy
from ttt_envs.envs.single_env import SingleEnv
from ttt_envs.game.boards import Boards, cell_at, coordinate
from ttt_eval.matches.account import make_account
from ttt_eval.matches.games import HUMAN, PlayedGame, append_games, read_games, write_games
from ttt_eval.matches.luck import EXACT, make_correction

pytestmark = pytest.mark.more


class Person:
    """An input stream: the lines that the generator ``lines(session)`` yields."""

    def __init__(self, lines):
        self.lines = lines

    def join(self, session):
        self.typed = islice(self.lines(session), 500)  # a session that never ends is an error

    def isatty(self):
        return False

    def readline(self, limit=-1):
        return next(self.typed) + "\n"


def play_session(lines, game=SKIP_GAME, opponent="random", **settings):
    """A finished session with its ``output``; ``lines`` is a list or a Person."""
    out = io.StringIO()
    if isinstance(lines, list):
        lines = io.StringIO("".join(f"{line}\n" for line in lines))
    console = PlainConsole(file=out, width=80)
    session = TerminalGame(game, make_policy(opponent, game), opponent, console, lines, **settings)
    if isinstance(lines, Person):
        lines.join(session)
    try:
        session.run()
    finally:
        session.output = out.getvalue()
    return session


def free_cells(session):
    return np.flatnonzero(session.live.position.cells == 0)


def varied(number):
    """Plays empty cells that depend on a number, without end."""

    def lines(session):
        while True:
            free = free_cells(session)
            yield coordinate(int(free[(number * 7 + len(free) * 5) % len(free)]), session.game)

    return lines


def test_output_of_a_game():
    """The moves, an illegal one, the skip, the last board, the result and what it came from."""
    output = play_session(["999", "b2", "b2", "a1", "no"], opponent="win-or-block", seed=0).output
    parts = (
        "999 is no cell: choose 0 to 8, row by row, or coordinates such as b2.",
        "o: you play b2.\nx: win-or-block plays c3.\n\n   a  b  c\n1  .  .  .\n2  .  o  .\n3  .  . "
        "[x]\n",
        "b2 holds a stone",
        "o's turn is skipped: x moves again.\nx: win-or-block plays c2.\n\n   a  b  c\n1  o  . "
        "*x*\n2  .  o *x*\n",
        "win-or-block wins. So far you have won 0, drawn 0 and lost 1.",
        "worth +0.31 to you, your moves lose 0.16, those of win-or-block lose 0.00, the skips "
        "are worth -1.15: -1 in all.\na1 lost 0.16; c2 was best.\nAnother game?",
    )
    places = [output.find(part) for part in parts]
    assert -1 not in places
    assert places == sorted(places)


def test_the_largest_mistakes_of_the_person_are_named(tmp_path):
    log = tmp_path / "log.jsonl"
    session = play_session(Person(varied(1)), games=4, seat="alternate", log=log)
    expected = []
    for played in read_games(log):
        own = played.players.index(HUMAN)
        moves = make_account(played, make_correction(EXACT, SKIP_GAME)).moves
        losses = sorted(-move.loss for move in moves if move.position.mover == own)
        expected += [f"{-loss:.2f}" for loss in losses[:MAX_MISTAKES] if loss < -1e-9]
    assert len(expected) > 4
    assert re.findall(r" lost (0\.\d\d);", session.output) == expected


@pytest.mark.parametrize("seat", ["first", "second", "alternate", "random"])
def test_games_equal_those_of_the_environment(seat, tmp_path):
    game = Game(3, 4, 3, 0.25)
    log = tmp_path / "log.jsonl"

    def first_free(session):
        while True:
            yield coordinate(int(free_cells(session)[0]), game)

    session = play_session(Person(first_free), game, "random", seat=seat, seed=5, games=6, log=log)
    env = SingleEnv((3, 4), 3, 0.25, opponent="random", seat=seat)
    score = [0, 0, 0]
    for episode, played in enumerate(read_games(log)):
        env.reset(seed=5 if episode == 0 else None)
        reward = 0.0
        done = False
        while not done:
            _, reward, done, _, info = env.step(int(np.flatnonzero(env.action_masks())[0]))
        assert (played.players[info["seat"]], played.players[1 - info["seat"]]) == (HUMAN, "random")
        assert played.end().cells.tolist() == env.clone_state()["cells"][0].tolist()
        assert (played.result, played.seed, played.episode) == (info["result"], 5, episode)
        score[1 - int(reward)] += 1
    assert (sum(score), session.score) == (6, score)
    end = "you have won {}, drawn {} and lost {}. 6 saved in {}.".format(*score, log)
    assert " ".join(session.output.split()).endswith(end)


@pytest.mark.parametrize(
    "opponent", ["win-or-block", "expectiminimax:depth=2,width=2", "mcts:simulations=30"]
)
def test_undo_keeps_skips_and_replies(opponent, tmp_path):
    """With every move taken back and made again the game is the same, also against stateful
    opponents.
    """
    for seed in range(2):
        straight = tmp_path / f"{seed}"
        wavering_log = tmp_path / f"{seed}-undone"
        play_session(
            Person(varied(seed)),
            opponent=opponent,
            seed=seed,
            seat="alternate",
            games=2,
            log=straight,
        )

        def wavering(session, lines=varied(seed)):  # noqa: B008
            for move in lines(session):
                live = session.live
                yield move
                if session.live is live:
                    yield "undo"
                    yield move

        play_session(
            Person(wavering),
            opponent=opponent,
            seed=seed,
            seat="alternate",
            games=2,
            log=wavering_log,
        )
        undone = [record.settings.get("undone", 0) for record in read_games(wavering_log)]
        assert sum(undone) > 0
        assert [game.moves for game in read_games(wavering_log)] == [
            game.moves for game in read_games(straight)
        ]


def test_undo_replays_the_positions_of_the_opponent():
    """Of its own turns, in a new game of its player's memory."""
    session = play_session(
        ["b2", "a2", "a3", "undo", "undo", "quit"], opponent="recorders:Counting", seat="second"
    )
    own = [ply.position for ply in session.live.plies if ply.position.mover != session.own]
    assert [position.cells.tolist() for position in session.player.positions] == [
        p.cells.tolist() for p in own
    ]
    assert len(own) > 0


def test_hint_is_an_optimal_move():
    boards = []

    def ask(session):
        for move in varied(3)(session):
            boards.append(session.live.boards)
            yield "hint"
            yield move

    output = play_session(Person(ask), seed=3, games=4, seat="alternate").output
    hints = re.findall(r"^(\w\d+) is best, with the value (\S+) for you", output, re.M)
    assert len(boards) > 8
    for (move, value), board in zip(hints, boards, strict=True):
        assert solve(SKIP_GAME).optimal_actions(board)[0, cell_at(move, SKIP_GAME)]
        assert value == f"{solve(SKIP_GAME).values(board)[0] + 0.0:+.3f}"


def test_hint_on_a_large_board_is_of_a_search():
    output = play_session(["b2", "b3", "b4", "hint"], Game(5, 5, 4), seed=1).output
    assert output.count("plays") == 3
    assert re.search(
        r"^b[15] is best by a search of 10,000 games, with the value \+1.000 for you", output, re.M
    )
    assert (
        "is best, with the value +0.000"
        in play_session(["hint"], Game(3, 6, 4, gravity=True)).output
    )


def test_a_hint_of_a_search_says_whether_it_decides():
    """By the intervals of the values of its moves: more games decide between moves of different
    values only.
    """
    four = Game(6, 7, 4, gravity=True)
    output = play_session(["hint"], four).output
    search = MCTS(four, simulations=HINT_SIMULATIONS).analyse(Boards.start(four).position(0))
    visits, values, _ = (moves[0] for moves in search.root_moves)
    best = int(np.argmax(visits))
    half = 1.96 * np.sqrt((1 - values[best] ** 2) / visits[best])
    words = re.search(
        r"^d6 is best by .* the value (\S+) \(95%: (\S+) to (\S+)\) for you", output, re.M
    )
    expected = values[best] + half * np.array([0, -1, 1])
    assert [float(word) for word in words.groups()] == pytest.approx(expected.tolist(), abs=1e-3)
    output = play_session(["hint"], Game(9, 9, 5)).output
    assert re.search(
        r"^A search of 10,000 games decides nothing: .* \d+ of the other moves may be as good",
        output,
        re.M,
    )


def test_hint_names_the_move_nearest_to_the_middle_first():
    output = play_session(["hint"], Game()).output
    assert "b2 is best, with the value +0.000 for you. As good: all others." in output
    output = play_session(["hint"], Game(3, 4, 3)).output
    assert "b2 is best, with the value +1.000 for you. As good: c2, b1, c1, b3, c3." in output


def test_a_long_search_is_announced_and_counted(monkeypatch):
    game = Game(3, 6, 4, gravity=True)
    texts = []
    monkeypatch.setattr("ttt_apps.terminal.game.MAX_SEARCHED_CELLS", 16)
    monkeypatch.setattr(Status, "update", lambda self, text: texts.append(text.plain))
    output = play_session(["d", "d", "quit"], game, "optimal").output
    assert output.count("optimal searches to the end of the game, which takes minutes") == 1
    assert re.fullmatch(r"optimal thinks: [\d,]+ positions", texts[-1])


def test_a_full_column_is_named_as_it_is_typed():
    output = play_session(["2", "b", "2"], Game(gravity=True), "win-or-block", seed=0).output
    assert "column b is full: choose a, c." in output


SCRIPT = ["b2", "u", "hi", "b", "?", "n", "a1", "sw", "c3", "undo", "c3", "exit"]


def test_end_of_input_at_every_prompt(tmp_path):
    for count in range(len(SCRIPT) + 1):
        log = tmp_path / f"{count}.jsonl"
        write_games(log, [])
        session = play_session(SCRIPT[:count], seed=4, log=log)
        assert re.search(
            r"Goodbye: you have won 0, drawn 0 and lost 0. \d saved in ", session.output
        )
        saved = list(read_games(log))
        assert all(record.result is None and record.moves for record in saved)
        assert f" {len(saved)} saved in {log}" in session.output.replace("\n", " ")
    for words in (["b2", "a1"], ["b2", "a1", "what"]):  # at the question for another game
        output = play_session(words, opponent="win-or-block", seed=0).output
        assert output.endswith(
            "Another game? (yes, swap seats, quit) \nGoodbye: you have won 0, drawn 0 and lost 1.\n"
        )
    assert "Game 2" not in play_session(["b2", "a1", "n"], opponent="win-or-block", seed=0).output


@pytest.mark.parametrize("word", ["b2", "B2", " b2 ", "b 2", "4", "004"])
def test_names_of_cells(word):
    assert "o: you play b2." in play_session([word], Game(), "win-or-block").output


def test_a_person_drops_stones_into_columns():
    game = Game(3, 5, 3, gravity=True)
    output = play_session(
        ["b", "z", "7", "b1", "e", "help", "quit"], game, "win-or-block", seed=1
    ).output
    for words in (
        "your move (a to e, or",
        "o: you play b3.",
        "'z1' is no cell",
        "7 is no column",
        "o: you play e3.",
    ):
        assert words in output  # a letter names a column before a command


@pytest.mark.parametrize(
    ("nonsense", "message"),
    [
        *(
            (word, f"{word!a} is no cell")
            for word in ("2,2", "d1", "b2 a1", "\x1b[a", "\0", "b\u0662")
        ),
        ("undoo", "'undoo' is no move and no command"),
        ("h", "h may be hint or help: type more of it."),
        ("[red]b2[/red]", "'[red]b2[/red]' is no cell"),
        ("x" * 200_000, f"'{'x' * 20}' is no move and no command"),
        ("undo", "you have not moved yet"),
    ],
)
def test_invalid_input_gets_one_sentence(nonsense, message):
    session = play_session([nonsense, "  ", "b2"])
    answer = session.output.split("or help): ")[2 if nonsense == "  " else 1]
    assert message in answer
    assert answer.count("\n") <= 3
    assert "\x1b" not in session.output
    assert "o: you play b2." in session.output


def test_log_has_the_played_games(tmp_path):
    log = tmp_path / "log.jsonl"
    play_session(
        ["b2", "a1", "yes", "hint", "a1", "swap", "b2", "quit"],
        opponent="win-or-block",
        seed=0,
        log=log,
    )
    lost, unfinished, swapped = read_games(log)
    assert (lost.players, lost.result) == ((HUMAN, "win-or-block"), 1)
    assert [coordinate(cell, SKIP_GAME) for cell, _ in lost.moves] == ["b2", "c3", "a1", "c1", "c2"]
    assert [skipped for _, skipped in lost.moves] == [False, False, False, True, False]
    assert (lost.seed, lost.episode, lost.settings) == (0, 0, {})
    assert (unfinished.result, unfinished.episode, unfinished.settings) == (None, 1, {"hints": 1})
    assert (swapped.result, swapped.episode, swapped.players) == (None, 2, ("win-or-block", HUMAN))


# --------------------------------------------------------------------------------------------------
# The board


def test_a_board_marks_the_last_move_and_the_line():
    cells = np.array([1, 2, 2, 0, 1, 0, 0, 0], np.int8)
    assert (
        board_text(Game(2, 4, 2), cells, [2], [0, 4]).plain
        == "   a  b  c  d\n1 *o* x [x] .\n2 *o* .  .  ."
    )


# --------------------------------------------------------------------------------------------------
# Saved games


def test_replay_shows_a_game(tmp_path):
    log = tmp_path / "log.jsonl"
    out = io.StringIO()
    play_session(["b2", "a1", "yes", "a1", "quit"], opponent="win-or-block", seed=0, log=log)
    console = PlainConsole(file=out, width=200)
    replay(console, log, 1)
    assert out.getvalue().endswith("5. x c2\n   a  b  c\n1  o  . *x*\n2  .  o *x*\n3  .  . *x*\n\n")
    assert "4. x c1 (skip)\n" in out.getvalue()
    with pytest.raises(ValueError, match=r"--number 3 is not in .*: it has 2 games"):
        replay(console, log, 3)
    append_games(log, [PlayedGame(Game(), ("a", "b"))])  # which has no moves
    replay(console, log, 3)


# --------------------------------------------------------------------------------------------------
# The command


def interrupt(terminal):
    """Press Ctrl-C until it is heard: readline keeps a signal that comes just before it reads until
    the next one.
    """
    terminal.sendintr()
    while terminal.expect_exact([b"Goodbye", pexpect.TIMEOUT], timeout=10) == 1:
        terminal.sendintr()


@pytest.mark.parametrize("end", ["interrupt", "hang up"])
def test_terminal_with_invalid_input_that_is_interrupted_or_closed(end, tmp_path):
    log = tmp_path / "log.jsonl"
    words = words_of("play.py --opponent win-or-block --size 7 --win-length 4 --log", log)
    # readline, which pytest imports, writes COLUMNS where os.environ does not see it
    environment = {**os.environ, "TERM": "xterm-256color"}
    environment.pop("COLUMNS", None)
    terminal = pexpect.spawn(sys.executable, words, cwd=ROOT, env=environment, timeout=120)
    terminal.logfile_read = output = io.BytesIO()
    prompt = b"or help): "
    terminal.expect_exact(prompt)
    assert b"   a  b  c  d  e  f  g" in terminal.before
    for nonsense in (b"", b"zz9", b"\xff\xfe", b"\x1b[A\x1b[B", b"\t", b"9" * 3000):
        terminal.sendline(nonsense)
        terminal.expect_exact(prompt)
    terminal.sendline(b"d4")
    terminal.expect_exact(prompt)
    if end == "interrupt":
        interrupt(terminal)
        terminal.expect_exact(b": you have won 0, drawn 0 and lost 0. 1 saved in")
        terminal.expect(pexpect.EOF)
        assert terminal.wait() == 130
    else:
        os.close(terminal.child_fd)
        terminal.wait()
    assert b"Traceback" not in output.getvalue()
    (record,) = read_games(log)
    assert coordinate(record.moves[0].action, record.game) == "d4"
    assert record.result is None


def test_pipe_gets_plain_text_and_may_be_closed():
    command = [
        sys.executable,
        "-m",
        "ttt_apps.terminal",
        "--opponent",
        "win-or-block",
        "--seed",
        "0",
    ]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    typed = b"b2\n\xff\xfe\nhelp\nhint\nquit\n"
    done = subprocess.run(
        [*command, "--skip-chance", "0.25"],
        cwd=ROOT,
        input=typed,
        capture_output=True,
        env=environment,
        check=True,
    )
    assert "x: win-or-block plays c3." in done.stdout.decode("ascii")
    assert b"\x1b" not in done.stdout
    assert done.stderr == b""
    cut = subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    cut.stdout.close()
    _, errors = cut.communicate(b"b2\nquit\n")
    assert b"Traceback" not in errors
    assert b"Exception" not in errors
