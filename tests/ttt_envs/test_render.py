"""Pictures of a board: text and pixels need no display and no pygame."""

import sys

import gymnasium
import numpy as np
import pytest
from environment_contract import OPENINGS

from ttt_envs import Game, from_text, mnk_v0
from ttt_envs.envs import render
from ttt_envs.envs.render import Scene
from ttt_envs.envs.single_env import SingleEnv
from ttt_envs.envs.vector_env import MNKVectorEnv
from ttt_envs.game.rules import Outcome


def test_a_board_as_text():
    env = mnk_v0.env(size=(2, 3), win_length=2, render_mode="ansi")
    env.reset(seed=0)
    assert env.render() == (
        "  a  b  c\n1 .  .  .\n2 .  .  .\no to move\nlegal actions: 0 (a1), 1 (b1), 2 (c1), 3 "
        "(a2), 4 (b2), 5 (c2)\n"
    )
    env.step(1)
    assert env.render() == (
        "  a  b  c\n1 . [o] .\n2 .  .  .\nx to move\nlast move: o b1\n"
        "legal actions: 0 (a1), 2 (c1), 3 (a2), 4 (b2), 5 (c2)\n"
    )
    env.step(5)
    env.step(2)
    assert env.render() == "  a  b  c\n1 . *o**o*\n2 .  .  x\nplayer_0 won\nlast move: o c1\n"
    falling = from_text("o.../x.../o..x x", Game(3, 4, 3, gravity=True))
    output = render.text(Game(3, 4, 3, gravity=True), Scene(falling.cells, falling.mover))
    assert output.splitlines()[-1] == "legal actions: 1 (b), 2 (c), 3 (d)"


def test_an_illegal_move_is_shown_until_the_next_move():
    env = SingleEnv(opponent="self", illegal_action="penalize", render_mode="ansi")
    env.reset(seed=0)
    env.step(4)
    text = env.render()
    line = "refused: 4 (b2) is not empty\n"
    env.step(4)
    assert env.render() == text.replace("[o]", " o ").replace("last move: o b2\n", line)
    state = env.clone_state()
    for call in (lambda: env.step(0), lambda: env.restore_state(state, seed=0), env.reset):
        call()
        assert "refused" not in env.render()
    for _ in range(10):
        env.step(4)
    assert env.render().endswith(f"truncated after too many illegal actions\n{line}")


def test_large_boards_as_text_have_straight_columns_and_no_list_of_actions():
    env = SingleEnv(15, 5, opponent="self", render_mode="ansi")
    env.reset(seed=0)
    env.step(15 * 9 + 14)
    lines = env.render().splitlines()
    assert [lines[0].index(letter) for letter in "abo"] == [3, 6, 45]
    assert lines[10] == "10" + " . " * 14 + "[o]"
    assert lines[16:] == ["x to move", "last move: o o10"]


def test_text_says_which_turns_were_skipped():
    env = SingleEnv(4, 4, skip_chance=0.4, opponent="self", render_mode="ansi")
    rng = np.random.default_rng(0)
    skips = 0
    for seed in range(10):
        _, info = env.reset(seed=seed)
        while info["result"] == -1:
            *_, info = env.step(int(rng.choice(env.legal_actions())))
            again = info["result"] == -1 and info["seat"] == info["mover"]
            assert (f"the turn of {'xo'[info['seat']]} was skipped" in env.render()) == again
            assert ("was skipped" in env.render()) == again
            skips += again
    assert skips > 20


@pytest.mark.parametrize("mode", ["ansi", "rgb_array"])
def test_pictures_show_the_agents_view(mode):
    for seed in range(6):
        symmetric = {"symmetry": "random", "render_mode": mode}
        views = [
            SingleEnv(opponent="self", render_mode=mode),
            SingleEnv(opponent="self", **symmetric),
        ]
        for env in (*views, mnk_v0.env(**symmetric)):
            env.reset(seed=seed)
            for action in (1, 3, 2):
                env.step(action)
            assert np.array_equal(env.render(), views[0].render())


def test_an_opening_has_no_last_move():
    env = SingleEnv(opponent="self", openings=OPENINGS, render_mode="ansi")
    env.reset(seed=0)
    assert "[" not in env.render().partition("legal")[0]


@pytest.mark.parametrize(("rows", "columns"), [(1, 2), (3, 3), (10, 4), (19, 19)])
def test_a_board_as_pixels(rows, columns):
    """A stone changes the pixels of its cell only; colours, the last move and both stones
    differ.
    """
    game = Game(rows, columns, 2)
    empty = render.picture(game, Scene(np.zeros(game.cells, np.int8), 0))
    edge = max(16, min(64, 608 // max(rows, columns)))
    margin = edge if max(rows, columns) >= 10 else 0  # for coordinates
    assert (empty.shape, empty.dtype) == (
        (rows * edge + margin + 16, columns * edge + margin, 3),
        np.uint8,
    )
    pictures = [empty]
    for stone in (1, 2):
        cells = np.zeros(game.cells, np.int8)
        cells[-1] = stone
        pictures.append(render.picture(game, Scene(cells, 0)))
        where = np.nonzero((pictures[-1] != empty).any(axis=2))
        for places, count in zip(where, (rows, columns), strict=True):
            assert (
                margin + (count - 1) * edge <= places.min() <= places.max() < margin + count * edge
            )
        pictures.append(
            render.picture(game, Scene(cells, 0, None, (game.cells - 1,)))
        )  # the last move is marked
    assert len({picture.tobytes() for picture in pictures}) == 5


def test_pixels_mark_the_line_that_won():
    cells = from_text("ooo/xx./... o").cells
    grounds = [
        render.picture(Game(), Scene(cells, 0, "player_0 won", (2,)))[5 + 64 * row, 5::64]
        for row in (0, 1)
    ]
    assert len({tuple(pixel) for pixel in grounds[0]}) == 1  # all three of the line
    assert tuple(grounds[0][0]) != tuple(grounds[1][0])


def test_pictures_show_mover_outcome_and_refusal():
    cells = from_text("oo./xx./... o").cells
    scenes = [
        Scene(cells, 0),
        Scene(cells, 1),
        Scene(cells, 0, None, (0,)),
        Scene(cells, 0, None, (), 4),
    ]
    scenes += [Scene(cells, 0, outcome.description) for outcome in Outcome if outcome >= 0]
    assert len({render.picture(Game(), scene)[3 * 64 :].tobytes() for scene in scenes}) == len(
        scenes
    )
    small = render.picture(
        Game(1, 1, 1), Scene(np.zeros(1, np.int8), 0, Outcome.TRUNCATED.description)
    )
    assert small.shape == (80, 64, 3)  # what does not fit is cut off


def test_pictures_need_no_pygame_and_a_window_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "pygame", None)  # importing it fails
    for mode, kind in (("ansi", str), ("rgb_array", np.ndarray)):
        for env in (
            mnk_v0.env(render_mode=mode),
            gymnasium.make("ttt/TicTacToe-v0", render_mode=mode),
        ):
            env.reset(seed=0)
            assert isinstance(env.render(), kind)
            env.close()
    with pytest.raises(gymnasium.error.DependencyNotInstalled, match=r"pip install .*\[render\]"):
        SingleEnv(render_mode="human").reset()


def test_two_windows_show_their_pictures(monkeypatch):
    pygame = pytest.importorskip("pygame")
    monkeypatch.setattr(render, "FPS", 1000)
    games = {Game(3, 4): mnk_v0.env(size=(3, 4), render_mode="human")}
    games[Game(5, 5)] = SingleEnv(5, render_mode="human", opponent="self")
    for env in games.values():
        env.reset(seed=0)
    for game, env in games.items():
        env.step(7)
        assert env.render() is None
        cells = np.zeros(game.cells, np.int8)
        cells[7] = 1
        pixels = pygame.surfarray.array3d(env.renderer.window.get_surface()).transpose(1, 0, 2)
        np.testing.assert_array_equal(pixels, render.picture(game, Scene(cells, 1, None, (7,))))
    for env in (*games.values(), games[Game(3, 4)]):
        env.close()


def test_rendering_without_a_mode_warns():
    for env in (mnk_v0.env(), SingleEnv(), MNKVectorEnv(2)):
        env.reset(seed=0)
        with pytest.warns(UserWarning, match="render mode"):
            assert env.render() is None
    assert env.call("render") == (None, None)  # as trainers ask vectors
