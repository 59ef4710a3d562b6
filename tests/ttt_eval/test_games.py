"""Games in files and as text: round trips, hostile input, and interrupted writers."""

import json
import os
import textwrap
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from plain import games as any_game
from processes import run_python

from ttt_envs import Game, chance_outcomes, from_text, to_text
from ttt_envs.game.boards import cell_at
from ttt_envs.game.rules import DRAW
from ttt_eval.matches.games import (
    HUMAN,
    MAX_LINE_LENGTH,
    Move,
    PlayedGame,
    append_games,
    from_notation,
    new_games,
    read_any_format,
    read_games,
    to_notation,
    write_games,
)

SKIPPING = Game(skip_chance=0.25)
HEAD = '{"format": 1, "content": "games"}'
GOLDEN = """\
[rows 3]
[columns 3]
[win_length 3]
[skip_chance 0.25]
[o "human"]
[x "svd:rank=18"]
[seed 7]
[episode 0]
[settings {"asked": "twice"}]

b2 a1 (skip) b1 a3 (skip) c2 c1
x wins
"""


def moves_of(text, game=SKIPPING):
    """Parse moves as in a file."""
    return tuple(Move(cell_at(word.rstrip("+"), game), word.endswith("+")) for word in text.split())


@st.composite
def played_games(draw, longest=6):
    """Games of any length, played by ``chance_outcomes`` of the rules, with their last positions."""
    game = draw(any_game(longest, skip=True))
    opening = from_text("/".join(["." * game.columns] * game.rows) + " o", game)
    start = None
    if game.cells > 1 and game.win_length > 1 and draw(st.booleans()):
        opening.cells[draw(st.integers(0, game.cells - 1))] = draw(st.integers(1, 2))
        opening = opening._replace(mover=draw(st.integers(0, 1)))
        start = to_text(opening, game)
    position, moves, result = opening, [], None
    for _ in range(draw(st.integers(0, game.cells))):
        action = draw(st.sampled_from([cell for cell in range(game.cells) if position.cells[cell] == 0]))
        outcomes = chance_outcomes(game, position, action)
        skipped = len(outcomes) == 2 and draw(st.booleans())
        moves.append(Move(action, skipped))
        _, position, result = outcomes[skipped]
        if result is not None:
            break
    forfeit = None
    if result is None and draw(st.booleans()):
        result, forfeit = draw(st.integers(0, 1)), "time"
    name = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=12)
    return PlayedGame(
        game,
        (draw(name), draw(name)),
        tuple(moves),
        result,
        seed=draw(st.none() | st.integers(0, 2**64 - 1)),
        episode=draw(st.none() | st.integers(0, 100)),
        opening=start,
        forfeit=forfeit,
        settings=draw(
            st.dictionaries(st.text(max_size=5), st.integers(-(2**63), 2**63) | st.text(max_size=9), max_size=2)
        ),
    ), position


@given(st.lists(played_games(), max_size=3))
def test_round_trip_by_file_and_by_text(tmp_path_factory, cases):
    path = tmp_path_factory.mktemp("games") / "log.jsonl"
    played = [one for one, _ in cases]
    write_games(path, played[:1])
    for one in played[1:]:
        append_games(path, [one])
    assert list(read_games(path)) == played
    assert from_notation("\n".join(map(to_notation, played))) == played


@given(played_games())
def test_replay_follows_the_rules(case):
    played, end = case
    position = played.start()
    for (before, action, skipped), move in zip(played.positions(), played.moves, strict=True):
        assert (before.cells.tolist(), before.mover) == (position.cells.tolist(), position.mover)
        assert Move(action, skipped) == move
        _, position, _ = chance_outcomes(played.game, before, action)[skipped]
    assert (played.end().cells.tolist(), played.end().mover) == (end.cells.tolist(), end.mover)


def test_text_of_a_game():
    settings = {"asked": "twice"}
    played = PlayedGame(
        SKIPPING, (HUMAN, "svd:rank=18"), moves_of("b2 a1+ b1 a3+ c2"), seed=7, episode=0, settings=settings
    )
    won = replace(played, moves=moves_of("b2 a1+ b1 a3+ c2 c1"), result=1)
    assert to_notation(won) == GOLDEN
    assert to_notation(played) == GOLDEN.replace(" c1\nx wins", "\nunfinished")
    assert from_notation(GOLDEN) == [won]
    assert from_notation(to_notation(played) + GOLDEN.replace(" c2 c1", "\nC2\n\n  c1")) == [played, won]
    forfeited = replace(played, result=0, forfeit="time")
    assert to_notation(forfeited).endswith(" c2\no wins, x forfeits: time\n")


def test_text_of_a_long_game_is_wrapped():
    game = Game(19, 19, 19)
    cells = sorted(range(361), key=lambda cell: cell * 150 % 361)
    played = PlayedGame(game, ("a", "b"), tuple(map(Move, cells)), DRAW)
    assert max(map(len, to_notation(played).splitlines())) <= 80
    assert from_notation(to_notation(played)) == [played]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("x wins", "o wins", "line 12: its result is player_0, and its moves end with player_1"),
        ("x wins", "x wins, x forfeits: time", "line 12: x wins and forfeits: only the loser forfeits"),
        ("x wins", "", "line 12: the last game has no result: write o wins, x wins, draw or unfinished"),
        ("b2 a1", "(skip) b2 a1", r"line 12: \(skip\) stands behind no move"),
        ("b2 a1", "b2 d1", "line 12: 'd1' is no cell of a board of 3 x 3: write its column, a to c"),
        ("[seed 7]", "[sead 7]", "line 7: 'sead' is not known: did you mean 'seed'"),
        ("[seed 7]", "[seed seven]", "line 7: it is not JSON: Expecting value"),
        ("[seed 7]", "[seed 7", "line 7: '.seed 7' is no line of a game: write a name and a value"),
        ("[seed 7]", "[o 7]", "line 7: o is given twice"),
        ('[o "human"]\n', "", 'line 11: o has no player: write .o "human"., or the name of a policy'),
        ("[rows 3]", "[rows 2]", "line 12: 'a3' is no cell of a board of 2 x 3"),
        ("x wins", "[rows 3]", "line 12: a game begins before the one above has a result"),
    ],
)
def test_invalid_text_is_rejected(old, new, message):
    assert old in GOLDEN
    with pytest.raises(ValueError, match=message):
        from_notation(GOLDEN.replace(old, new, 1))


GAME = '{"game": {"skip_chance": 0.25}, "players": ["random", "human"], "moves": "b2 a1+ b1", "result": null}'


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("null", '"player_0"', "its result is player_0, and its moves end with none yet"),
        ("null", '"player_2"', "Invalid enum value 'player_2'"),
        ("null", "1", r"got `int` - at `\$.result`"),
        ("b1", "b2", "move 3, b2, is illegal: the cell holds a stone"),
        ("b1", "b1+ c1 c2", "there is a move 5 and the game is over with move 4"),
        ("a1+ b1", "a1+ b1+ c1+", "a turn is skipped after move 4, and the game is over then"),
        ("0.25", "0", "a turn is skipped after move 2, and turns are never skipped in this game"),
        ("0.25", "1e999", "1e999 is no number"),
        ("0.25", "NaN", "NaN is no number"),
        ("0.25", "9" * 5000, "5000 digits"),
        ("0.25", '"a"', "skip_chance='a' is not a number"),
        ('{"skip_chance": 0.25}', '{"rows": 20}', "rows=20 is not the edge of a board"),
        ('{"skip_chance": 0.25}', '{"toroid": 1}', "a stored game has the unknown field 'toroid'"),
        ('{"skip_chance": 0.25}', '{"format": 2}', "format=2 of a stored game is not known here"),
        ('{"skip_chance": 0.25}', "[3]", "Expected `object`, got `array` - at `\\$.game`"),
        ('"b2 a1+ b1"', "[4, 0]", "Expected `str`, got `array` - at `\\$.moves`"),
        ("b1", "b1++", r"'b1\+' is no cell of a board of 3 x 3"),
        ('["random", "human"]', '["random"]', "length 2"),
        ("human", "\\u001b[2J", "names nothing: write words that can be printed"),
        ("human", "\\ud800", "names nothing: write words that can be printed"),
        ('"players"', '"player"', "unknown field `player`"),
        (', "result": null', "", "missing required field `result`"),
        ("null", 'null, "seed": -1', r"`int` >= 0 - at `\$.seed`"),
        ("null", 'null, "seed": 1.5', r"got `float` - at `\$.seed`"),
        ("null", 'null, "episode": true', r"got `bool` - at `\$.episode`"),
        ("null", 'null, "settings": [1]', "got `array` - at `\\$.settings`"),
        ("null", 'null, "opening": 3', r"got `int` - at `\$.opening`"),
        ("null", 'null, "opening": "xxx/oo./... o"', "the game is over in the opening"),
        ("null", 'null, "opening": "' + "x" * 9000 + '"', "`str` of length <= "),
        ("null", 'null, "forfeit": "time"', "a game that is forfeited has a winner"),
        ("null", "[" * 20_000, "it is nested too deeply|it is not JSON"),
        ("null", '"' + "x" * MAX_LINE_LENGTH + '"', "it has more than 65,536 bytes"),
        ("null", '"\xff"', "it is not JSON: .* codec can't decode"),
        ("null", 'null, "settings": {"a": ' + "[" * 30_000 + "]" * 30_000 + "}", "it is nested too deeply"),
        (GAME, "[]", "Expected `object`, got `array`"),
        (GAME, "", "it is not JSON: Expecting value"),
    ],
)
def test_hostile_files_are_rejected_by_file_and_line(old, new, message, tmp_path):
    path = tmp_path / "log.jsonl"
    assert old in GAME
    lines = [HEAD, GAME, GAME.replace(old, new, 1), GAME]
    path.write_bytes("\n".join([*lines, ""]).encode("latin-1"))
    found = read_games(path)
    assert next(found).players == ("random", "human")
    with pytest.raises(ValueError, match=f"log.jsonl, line 3: .*({message})") as refused:
        list(found)
    assert len(str(refused.value)) < 600 + len(str(path))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"format": 2, "content": "games"}\n' + GAME, "format=2 is not known here: this version reads 1"),
        ('{"format": 1}\n' + GAME, "it is no file of games, which begins with the line"),
        ("notes of mine\n" + GAME, "it is not JSON"),
        ("notes of mine", "it is no file of games"),  # no torn header
    ],
)
def test_other_files_are_neither_read_nor_changed(content, message, tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text(content)
    with pytest.raises(ValueError, match=f"log.jsonl, line 1: {message}"):
        list(read_games(path))
    with pytest.raises(ValueError, match=f"no games can be added to .*: {message}"):
        append_games(path, [])
    assert path.read_text() == content


def test_missing_or_too_large_file_is_rejected(tmp_path):
    with pytest.raises(ValueError, match=r"there is no file .*log\.jsonl with games"):
        list(read_games(tmp_path / "log.jsonl"))
    append_games(tmp_path / "log.jsonl", [])
    with pytest.raises(ValueError, match="has 34 bytes, and at most 33 are read"):
        list(read_games(tmp_path / "log.jsonl", limit=33))


def test_games_before_a_torn_line_are_read_and_more_are_appended(tmp_path):
    path = tmp_path / "log.jsonl"
    first = PlayedGame(SKIPPING, ("random", HUMAN), moves_of("b2 a1+ b1"))
    second = PlayedGame(Game(), ("random", HUMAN), (), None, settings={"deep": {"}": [1]}})
    write_games(path, [first, second])
    whole = path.read_bytes()
    ends = [position + 1 for position, byte in enumerate(whole) if byte == ord("\n")]
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        kept = [first, second][: sum(size >= end - 1 for end in ends[1:])]  # a line is complete without its end
        messages = []
        assert list(read_games(path, tell=messages.append)) == kept
        assert bool(messages) == (size > 0 and not any(size in (end, end - 1) for end in ends)), size
        append_games(path, [second])
        assert list(read_games(path)) == [*kept, second]
    path.write_bytes(whole[:-5])
    with pytest.warns(UserWarning, match="log.jsonl, line 3 was not written to its end, and is left out"):
        assert list(read_games(path)) == [first]


def test_unreadable_settings_are_not_written(tmp_path):
    path = tmp_path / "log.jsonl"
    append_games(path, [])
    for settings, message in (
        ({"a": "x" * MAX_LINE_LENGTH}, "it has more than 65,536 bytes"),
        ({"a": float("nan")}, "not JSON compliant"),
        ({"a": {1, 2}}, "set is not JSON serializable"),
    ):
        with pytest.raises(ValueError, match=f"a game could not be read again: .*{message}.*Keep other settings"):
            append_games(path, [PlayedGame(Game(), ("a", "b"), settings=settings)])
    assert path.read_text() == HEAD + "\n"


def test_failed_write_leaves_no_part_of_the_games(tmp_path):
    """A limit on file sizes simulates a full disk; a part of the games would fit."""
    path = tmp_path / "log.jsonl"
    played = PlayedGame(SKIPPING, ("random", HUMAN), moves_of("b2 a1+ b1"), settings={"x": "y" * 9000})
    append_games(path, [played])
    whole = path.read_bytes()
    lines = """
        import resource, signal, sys
        from ttt_eval.matches.games import append_games, read_games
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, 30_000))
        played = list(read_games(sys.argv[1]))
        try:
            append_games(sys.argv[1], 3 * played)
        except OSError as problem:
            print(problem)
    """
    done = run_python("-c", textwrap.dedent(lines), path)
    assert done.stdout == f"[Errno 27] File too large: '{path}'\n"
    assert path.read_bytes() == whole


def test_new_games_rejects_an_existing_file(tmp_path):
    path = tmp_path / "folder" / "log.jsonl"
    for _ in range(2):  # again after an interrupt before the first game
        new_games(path)
        assert path.read_text() == HEAD + "\n"
    append_games(path, [PlayedGame(Game(), ("a", "b"))])
    with pytest.raises(ValueError, match=r"log\.jsonl is there already: name another file, or remove that one"):
        new_games(path)
    with pytest.raises(ValueError, match="is there already"):
        new_games(tmp_path)
    (tmp_path / "note").write_text("mine")
    with pytest.raises(ValueError, match=r"no games can be added to .*note: it is no file of games"):
        new_games(tmp_path / "note")


def test_read_any_format_reads_lines_and_text(tmp_path):
    played = [PlayedGame(SKIPPING, ("random", HUMAN), moves_of("b2 a1+ b1")), PlayedGame(Game(), ("a", "b"))]
    write_games(tmp_path / "lines", played)
    (tmp_path / "text").write_text("\n".join(map(to_notation, played)))
    assert list(read_any_format(tmp_path / "lines")) == list(read_any_format(tmp_path / "text")) == played
    (tmp_path / "other").write_text("[o 1\n")
    with pytest.raises(ValueError, match=r"other, line 1: '.o 1' is no line of a game"):
        list(read_any_format(tmp_path / "other"))


def test_concurrent_writers_lose_no_game(tmp_path):
    path = tmp_path / "log.jsonl"
    played = PlayedGame(SKIPPING, ("random", HUMAN), moves_of("b2 a1+ b1"), settings={"x": "y" * 9000})
    children = []
    for _ in range(4):
        child = os.fork()
        if child == 0:
            try:
                for _ in range(10):
                    append_games(path, [played])
            finally:
                os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)
    assert list(read_games(path)) == [played] * 40


def test_invalid_moves_and_results_are_rejected():
    with pytest.raises(TypeError, match=r"action 1\.5 is not a whole number"):
        PlayedGame(Game(), ("a", "b"), ((1.5, False),))
    with pytest.raises(ValueError, match="result=3 is not known: use 0, 1, 2 for a draw, or None"):
        PlayedGame(Game(), ("a", "b"), (), 3)


def test_documented_keys_of_a_line(tmp_path):
    path = tmp_path / "log.jsonl"
    append_games(path, [PlayedGame(SKIPPING, (HUMAN, "optimal"), moves_of("b2 a1+ b1"), seed=1, episode=0)])
    assert [json.loads(line) for line in path.read_text().splitlines()] == [
        {"format": 1, "content": "games"},
        {
            "game": {"format": 1, "rows": 3, "columns": 3, "win_length": 3, "skip_chance": 0.25},
            "players": ["human", "optimal"],
            "moves": "b2 a1+ b1",
            "result": None,
            "seed": 1,
            "episode": 0,
        },
    ]
