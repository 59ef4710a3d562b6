"""Snapshots of a learner's policy: the positions, and the file."""

import json
from itertools import product

import numpy as np
import pytest
import tiny

from baselines.exact import solve
from learners.checkpoint import load_checkpoint, save_checkpoint
from ttt_apps import train
from ttt_apps.metrics import open_log
from ttt_envs import Boards, Game
from ttt_envs.agents.specs import make_policy
from ttt_envs.game.boards import check_opening, to_text
from ttt_envs.game.rules import chance_outcomes, check_cells, legal
from ttt_eval.policy_snapshots import (
    CHOICES,
    next_due,
    position_name,
    probe_positions,
    read_choices,
    snapshot_line,
    take_snapshot,
)
from ttt_eval.run_files import RunDirectory

GAMES = [
    Game(rows, columns, length, 0.25 * (rows % 2))
    for rows, columns in product(range(1, 6), repeat=2)
    for length in range(1, max(rows, columns) + 1)
]


def wins(game, position):
    """Return the cells that win immediately."""
    cells = np.flatnonzero(legal(game, position.cells))
    return [cell for cell in cells if chance_outcomes(game, position, int(cell))[0].winner == position.mover]


def test_probe_positions_are_what_their_names_say():
    many = 0
    for game in GAMES:
        found = probe_positions(game)
        many += len(found) == 4
        assert len({to_text(one, game) for one in found.values()}) == len(found)
        for name, position in found.items():
            check_opening(game, position, name)
            assert position_name(game, position) == name
        if "a line to complete" in found:
            assert wins(game, found["a line to complete"])
        if "a line to block" in found:
            block = found["a line to block"]
            assert not wins(game, block)
            [threat] = wins(game, block._replace(mover=0))
            values = solve(game).action_values(Boards.from_positions([block]))[0] if game.cells <= 9 else None
            assert values is None or values[threat] == np.nanmax(values)
    assert many > 20


def test_number_of_snapshots_is_bounded_and_early_ones_are_dense():
    for games in (10, 10**6, 10**9):
        marks = [0]
        while (due := next_due(games, marks[-1])) <= games:
            marks.append(max(1, due))
        assert marks[1:9] == list(range(1, 9))
        assert len(marks) <= 201


def test_round_trip(tmp_path):
    game = Game(2, 3, 2, 0.25)
    marks = [
        take_snapshot(game, games, make_policy(spec, game)) for games, spec in ((5, "optimal"), (9, "win-or-block"))
    ]
    (tmp_path / CHOICES).write_bytes(b"".join(snapshot_line(game, mark) for mark in marks))
    read = read_choices(tmp_path, game)
    assert [mark.games for mark in read] == [5, 9]
    assert [mark.choices[0].own is None for mark in read] == [False, True]
    for mark, again in zip(marks, read, strict=True):
        for choice, other in zip(mark.choices, again.choices, strict=True):
            assert to_text(choice.position, game) == to_text(other.position, game)
            np.testing.assert_allclose(other.probabilities, choice.probabilities, rtol=0, atol=5e-7)
            np.testing.assert_allclose(*(np.array(each.own, float) for each in (other, choice)), rtol=0, atol=5e-7)
    assert read_choices(tmp_path / "nowhere", game) == []


CHOICE = {"position": "../.. o", "probabilities": [1, 0, 0, 0], "values": [0, 0.5, -1, 1]}
WRONG = [
    "[" * 4000, {"games": 1, "choices": [CHOICE], "more": 1}, {"games": -1, "choices": [CHOICE]},
    {"games": 1, "choices": [CHOICE] * 9},
    *({"games": 1, "choices": [CHOICE | change]} for change in (
        {"position": "." * 1000}, {"position": ".../... o"}, {"position": "xx/.. o"}, {"probabilities": [1, 0, 0]},
        {"probabilities": [2, 0, 0, 0]}, {"values": [0, 0, 0, 1e300]}, {"values": [0, 0, 0, None]},
        {"position": "o./.. x"},
    )),
]  # fmt: skip


@pytest.mark.parametrize("line", WRONG, ids=range(len(WRONG)))
def test_invalid_lines_are_rejected(line, tmp_path):
    text = line if isinstance(line, str) else json.dumps(line)
    (tmp_path / CHOICES).write_text(text + "\n")
    with pytest.raises(ValueError, match=f"line 1 of .*{CHOICES}"):
        read_choices(tmp_path, Game(2, 2, 2))


def test_decreasing_games_and_links_are_rejected(tmp_path):
    line = json.dumps({"games": 4, "choices": [CHOICE]}) + "\n"
    (tmp_path / CHOICES).write_text(2 * line + line.replace("4", "3", 1))
    with pytest.raises(ValueError, match="line 3 of "):
        read_choices(tmp_path, Game(2, 2, 2))
    (tmp_path / CHOICES).unlink()
    (tmp_path / CHOICES).symlink_to(tmp_path / "elsewhere")
    log = open_log(RunDirectory(tmp_path), Game(2, 2, 2), 100, {}, exact=True)
    with pytest.raises(ValueError, match="is a link"), log:
        pass


def test_snapshots_of_a_run_are_those_of_its_learner(tmp_path):
    run = tiny.train_run("q-learning", tmp_path / "run", "--exact-every=50")
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    marks = read_choices(run, tiny.GAME)
    assert [mark.games for mark in marks] == [row["games"] for row in rows if "exploitability" in row]
    last = take_snapshot(tiny.GAME, 200, make_policy(f"run:{run}", tiny.GAME))
    assert snapshot_line(tiny.GAME, marks[-1]) == snapshot_line(tiny.GAME, last)
    assert snapshot_line(tiny.GAME, marks[0]._replace(games=200)) != snapshot_line(tiny.GAME, last)
    without = tiny.train_run("q-learning", tmp_path / "without", "--exact-every=0")
    assert not (without / CHOICES).exists()
    tiny.train_run("q-learning", run, "--exact-every=0", "--overwrite")
    assert not (run / CHOICES).exists()


def test_run_without_snapshots_resumes_with_them(tmp_path):
    run = tiny.train_run("q-learning", tmp_path / "run", "--exact-every=50")
    parts = load_checkpoint(run)
    del parts["metrics"]["choices"]
    save_checkpoint(run, **parts)
    (run / CHOICES).unlink()
    train.main(["--resume", str(run), "--games=300"])
    assert [mark.games > 200 for mark in read_choices(run, tiny.GAME)] == [True, True]


def test_with_gravity_stones_of_telling_positions_rest():
    for game, count in ((Game(6, 7, 4, gravity=True), 4), (Game(4, 2, 4, gravity=True), 2)):
        positions = probe_positions(game).values()
        assert len(positions) == count
        for position in positions:
            check_cells(game, position.cells)
