"""Games in files and as text: round trips, hostile input, and interrupted writers."""

import json
import os
import resource
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from json_files import rows_of
from plain import games as any_game
from small_games import SKIP_GAME

from ttt_envs import Game, chance_outcomes, from_text, to_text
from ttt_envs.game.boards import cell_at
from ttt_envs.game.rules import DRAW
from ttt_eval.matches.games import (
    HUMAN,
    MAX_LINE_LENGTH,
    Move,
    PlayedGame,
    append_games,
    new_games,
    read_games,
    to_notation,
    write_games,
)

HEAD = '{"format": 1, "content": "games"}'
GOLDEN = """\
[game {"format": 1, "rows": 3, "columns": 3, "win_length": 3, "skip_chance": 0.25}]
[players ["human", "svd:rank=18"]]
[result "player_1"]
[seed 7]
[episode 0]
[settings {"asked": "twice"}]

b2 a1 (skip) b1 a3 (skip) c2 c1
"""


def moves_of(text, game=SKIP_GAME):
    """Parse moves as in a file."""
    return tuple(Move(cell_at(word.rstrip("+"), game), word.endswith("+")) for word in text.split())


PLAYED = PlayedGame(SKIP_GAME, ("random", HUMAN), moves_of("b2 a1+ b1"))
LONG = replace(PLAYED, settings={"x": "y" * 9000})


@st.composite
def played_games(draw):
    """Games of any length, played by ``chance_outcomes`` of the rules, with their last
    positions.
    """
    game = draw(any_game(6, skip=True))
    position = from_text("/".join(["." * game.columns] * game.rows) + " o", game)
    opening = None
    if game.cells > 1 and game.win_length > 1 and draw(st.booleans()):
        position.cells[draw(st.integers(0, game.cells - 1))] = draw(st.integers(1, 2))
        opening = to_text(position, game)
    moves = []
    result = None
    forfeit = None
    while result is None and (position.cells == 0).any() and draw(st.integers(0, 9)):
        action = draw(st.sampled_from(np.flatnonzero(position.cells == 0).tolist()))
        outcomes = chance_outcomes(game, position, action)
        moves.append(Move(action, len(outcomes) == 2 and draw(st.booleans())))
        _, position, result = outcomes[moves[-1].skipped]
    if result is None and draw(st.booleans()):
        result = draw(st.integers(0, 1))
        forfeit = "time"
    name = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=12)
    more = st.fixed_dictionaries(
        {"seed": st.none() | st.integers(0, 2**64 - 1), "episode": st.none() | st.integers(0, 100)}
    )
    settings = st.dictionaries(
        st.text(max_size=5), st.integers(-(2**63), 2**63) | st.text(max_size=9), max_size=2
    )
    more = {**draw(more), "opening": opening, "forfeit": forfeit, "settings": draw(settings)}
    return PlayedGame(game, (draw(name), draw(name)), tuple(moves), result, **more), position


@given(st.lists(played_games(), max_size=3))
def test_games_follow_the_rules_and_are_read_again(tmp_path_factory, cases):
    for played_game, end in cases:
        position = played_game.start()
        for (before, action, skipped), move in zip(
            played_game.positions(), played_game.moves, strict=True
        ):
            assert (before.cells.tolist(), before.mover) == (
                position.cells.tolist(),
                position.mover,
            )
            assert Move(action, skipped) == move
            _, position, _ = chance_outcomes(played_game.game, before, action)[skipped]
        assert (played_game.end().cells.tolist(), played_game.end().mover) == (
            end.cells.tolist(),
            end.mover,
        )
    path = tmp_path_factory.mktemp("games") / "log.jsonl"
    games = [game for game, _ in cases]
    write_games(path, games[:1])
    for game in games[1:]:
        append_games(path, [game])
    assert list(read_games(path)) == games


def test_text_and_line_of_a_game(tmp_path):
    settings = {"asked": "twice"}
    played_game = PlayedGame(
        SKIP_GAME,
        (HUMAN, "svd:rank=18"),
        moves_of("b2 a1+ b1 a3+ c2"),
        seed=7,
        episode=0,
        settings=settings,
    )
    won = replace(played_game, moves=moves_of("b2 a1+ b1 a3+ c2 c1"), result=1)
    assert to_notation(won) == GOLDEN
    cells = sorted(range(361), key=lambda cell: cell * 150 % 361)
    full = PlayedGame(Game(19, 19, 19), ("a", "b"), tuple(map(Move, cells)), DRAW)
    assert max(map(len, to_notation(full).splitlines()[4:])) <= 80
    append_games(tmp_path / "log", [played_game])
    game = {"format": 1, "rows": 3, "columns": 3, "win_length": 3, "skip_chance": 0.25}
    record = {
        "game": game,
        "players": ["human", "svd:rank=18"],
        "moves": "b2 a1+ b1 a3+ c2",
        "result": None,
    }
    record |= {"seed": 7, "episode": 0, "settings": settings}
    assert rows_of(tmp_path / "log") == [
        json.loads(HEAD),
        record,
    ]


GAME = (
    '{"game": {"skip_chance": 0.25}, "players": ["random", "human"], "moves": "b2 a1+ b1", '
    '"result": null}'
)


HOSTILE = [
    ("null", '"player_0"'),
    ("b1", "b2"),
    ("b1", "b1+ c1 c2"),
    ("a1+ b1", "a1+ b1+ c1+"),
    ("0.25", "0"),
    ('"b2 a1+ b1"', "[4, 0]"),
    ("human", "\\u001b[2J"),
    ("null", 'null, "seed": -1'),
    ("null", 'null, "opening": "xxx/oo./... o"'),
    ("null", '"' + "x" * MAX_LINE_LENGTH + '"'),
]


@pytest.mark.parametrize(("old", "new"), HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_files_are_rejected_by_file_and_line(old, new, tmp_path):
    path = tmp_path / "log.jsonl"
    assert old in GAME
    path.write_bytes("\n".join([HEAD, GAME, GAME.replace(old, new, 1), GAME, ""]).encode("latin-1"))
    games = read_games(path)
    assert next(games).players == ("random", "human")
    with pytest.raises(ValueError, match=r"log.jsonl, line 3: .") as refusal:
        list(games)
    assert len(str(refusal.value)) < 600 + len(str(path))


@pytest.mark.parametrize(
    "content", ['{"format": 2, "content": "games"}\n' + GAME, '{"format": 1}\n', "my notes\n", "[["]
)
def test_other_files_are_neither_read_nor_changed(content, tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text(content)
    for call in (
        lambda: list(read_games(path)),
        lambda: append_games(path, []),
        lambda: new_games(path),
    ):
        with pytest.raises(ValueError, match=r"log\.jsonl"):
            call()
    assert path.read_text() == content


def test_games_before_a_torn_line_are_read_and_more_are_appended(tmp_path):
    path = tmp_path / "log.jsonl"
    second = PlayedGame(Game(), ("random", HUMAN), (), None, settings={"deep": {"}": [1]}})
    write_games(path, [PLAYED, second])
    whole = path.read_bytes()
    ends = [position + 1 for position, byte in enumerate(whole) if byte == ord("\n")]
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        remainder = [PLAYED, second][: sum(size >= end for end in ends[1:])]
        messages = []
        assert list(read_games(path, tell=messages.append)) == remainder
        assert bool(messages) == (size > ends[0] and size not in ends), size
        append_games(path, [second])
        assert list(read_games(path)) == [*remainder, second]


def test_a_failed_write_leaves_no_part_of_the_games(tmp_path):
    """A limit on file sizes simulates a full disk; a part of the games would fit."""
    path = tmp_path / "log.jsonl"
    append_games(path, [LONG])
    whole = path.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            append_games(path, [LONG] * 3)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.read_bytes() == whole


def test_new_games_rejects_an_existing_file(tmp_path):
    path = tmp_path / "folder" / "log.jsonl"
    for _ in range(2):  # again after an interrupt before the first game
        new_games(path)
        assert path.read_text() == HEAD + "\n"
    append_games(path, [PLAYED])
    with pytest.raises(ValueError, match="is there already"):
        new_games(path)
    with pytest.raises(ValueError, match="could not be read again"):
        append_games(path, [replace(PLAYED, settings={"a": float("nan")})])
    assert list(read_games(path)) == [PLAYED]


def test_concurrent_writers_lose_no_game(tmp_path):
    path = tmp_path / "log.jsonl"
    children = []
    for _ in range(4):
        child = os.fork()
        if child == 0:
            try:
                for _ in range(10):
                    append_games(path, [LONG])
            finally:
                os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)
    assert list(read_games(path)) == [LONG] * 40
