"""Pictures of a board: text and pixels need no display and no pygame."""

import builtins
import sys

import gymnasium
import numpy as np
import pytest

from ttt_envs import Game, from_text, mnk_v0, render
from ttt_envs.single_env import SingleEnv
from ttt_envs.vector_env import MNKVectorEnv


def test_a_board_as_text():
    env = mnk_v0.env(size=(2, 3), win_length=2, render_mode="ansi")
    env.reset(seed=0)
    assert env.render() == ". . .\n. . .\no to move\n"
    env.step(1)
    assert env.render() == ". o .\n. . .\nx to move\n"
    env.step(5)
    env.step(2)
    assert env.render() == ". o o\n. . x\nplayer_0 won\n"
    env = SingleEnv(opponent="self", render_mode="ansi")
    env.reset(seed=0)
    env.step(4)
    assert env.render() == ". . .\n. o .\n. . .\nx to move\n"
    env.step(4)
    assert env.render() == ". . .\n. o .\n. . .\nplayer_1 lost by an illegal action\n"


@pytest.mark.parametrize(("rows", "columns"), [(1, 2), (3, 3), (4, 6), (19, 19)])
def test_a_board_as_pixels(rows, columns):
    game = Game(rows, columns, 2)
    cells = np.zeros(game.cells, np.int8)
    empty = render.picture(game, cells)
    assert empty.dtype == np.uint8
    assert empty.ndim == 3
    assert empty.shape[2] == 3
    assert empty.shape[0] * columns == empty.shape[1] * rows
    assert max(empty.shape) <= 608
    cells[-1] = 1
    ring = render.picture(game, cells)
    cells[-1] = 2
    cross = render.picture(game, cells)
    edge = empty.shape[0] // rows
    for one, other in ((empty, ring), (empty, cross), (ring, cross)):
        changed = np.argwhere((one != other).any(axis=2))
        assert len(changed)
        assert (changed >= np.array(empty.shape[:2]) - edge).all()  # nothing but the last cell


def test_stones_change_what_the_environments_show():
    for env in (mnk_v0.env(render_mode="rgb_array"), SingleEnv(render_mode="rgb_array")):
        env.reset(seed=0)
        before = env.render()
        assert before.dtype == np.uint8
        assert before.shape[2] == 3
        env.step(4)
        assert (env.render() != before).any()
    env = MNKVectorEnv(3, render_mode="rgb_array", opponent="self")
    env.reset(seed=0)
    env.step([0, 1, 2])
    pictures = env.render()
    assert isinstance(pictures, tuple)
    assert len({picture.tobytes() for picture in pictures}) == 3
    env = MNKVectorEnv(2, render_mode="ansi", opponent="self")
    env.reset(seed=0)
    env.step([0, 8])
    assert env.render() == ("o . .\n. . .\n. . .\nx to move\n", ". . .\n. . .\n. . o\nx to move\n")


def test_pictures_need_no_pygame(fresh):
    printed = fresh(
        "import sys",
        "sys.modules['pygame'] = None  # importing it fails",
        "import gymnasium",
        "from ttt_envs import mnk_v0",
        "for mode in ('ansi', 'rgb_array'):",
        "    for env in (mnk_v0.env(render_mode=mode), gymnasium.make('ttt/TicTacToe-v0', render_mode=mode)):",
        "        env.reset(seed=0)",
        "        print(type(env.render()).__name__)",
        "        env.close()",
    )
    assert printed.split() == ["str", "str", "ndarray", "ndarray"]


def test_a_window_without_pygame_says_how_to_get_it(monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == "pygame"]:
        monkeypatch.delitem(sys.modules, name)
    original = builtins.__import__

    def without_pygame(name, *rest, **keywords):
        if name.split(".")[0] == "pygame":
            raise ImportError(name)
        return original(name, *rest, **keywords)

    monkeypatch.setattr(builtins, "__import__", without_pygame)
    with pytest.raises(gymnasium.error.DependencyNotInstalled, match=r"pip install pygame-ce"):
        SingleEnv(render_mode="human").reset()


def test_a_window_shows_the_picture(monkeypatch):
    pygame = pytest.importorskip("pygame")
    monkeypatch.setattr(render, "FPS", 1000)
    for env in (mnk_v0.env(size=(3, 4), render_mode="human"), SingleEnv((3, 4), render_mode="human", opponent="self")):
        env.reset(seed=0)
        env.step(5)
        assert env.render() is None
        shown = pygame.surfarray.array3d(pygame.display.get_surface()).transpose(1, 0, 2)
        cells = np.zeros(12, np.int8)
        cells[5] = 1
        np.testing.assert_array_equal(shown, render.picture(Game(3, 4), cells))
        env.close()
        env.close()


def test_rendering_without_a_mode_warns():
    for env in (mnk_v0.env(), SingleEnv(), MNKVectorEnv(2)):
        env.reset(seed=0)
        with pytest.warns(UserWarning, match=r"render\(\) was called without a render mode"):
            assert env.render() is None


def test_text_of_a_position_that_is_given():
    position = from_text("x.o/.../..o x")
    assert render.text(Game(), position.cells, position.mover, None) == "x . o\n. . .\n. . o\nx to move\n"
