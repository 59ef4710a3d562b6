"""Pictures of a board: text and pixels need no display and no pygame."""

import sys

import gymnasium
import numpy as np
import pytest

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
        "  a  b  c\n1 .  .  .\n2 .  .  .\no to move\nlegal actions: 0 (a1), 1 (b1), 2 (c1), 3 (a2), 4 (b2), 5 (c2)\n"
    )
    env.step(1)
    assert env.render() == (
        "  a  b  c\n1 . [o] .\n2 .  .  .\nx to move\nlast move: o b1\n"
        "legal actions: 0 (a1), 2 (c1), 3 (a2), 4 (b2), 5 (c2)\n"
    )
    env.step(5)
    env.step(2)
    assert env.render() == "  a  b  c\n1 . *o**o*\n2 .  .  x\nplayer_0 won\nlast move: o c1\n"
    env = SingleEnv(opponent="self", render_mode="ansi")
    env.reset(seed=0)
    env.step(4)
    board = "  a  b  c\n1 .  .  .\n2 . [o] .\n3 .  .  .\n"
    assert env.render().startswith(f"{board}x to move\nlast move: o b2\nlegal actions: 0 (a1), 1")
    env.step(4)
    assert env.render().endswith("player_1 lost by an illegal action\nrefused: 4 (b2) is not empty\n")


@pytest.mark.parametrize(("size", "is_listed"), [(5, True), ((5, 6), False)])
def test_legal_actions_are_listed_up_to_25_cells(size, is_listed):
    env = SingleEnv(size, render_mode="ansi")
    env.reset(seed=0)
    assert ("legal actions" in env.render()) == is_listed


def test_illegal_move_is_shown_until_the_next_move():
    env = SingleEnv(opponent="self", illegal_action="penalize", render_mode="ansi")
    env.reset(seed=0)
    env.step(4)
    text = env.render()
    line = "refused: 4 (b2) is not empty\n"
    env.step(4)
    rendered = env.render()
    assert rendered == text.replace("[o]", " o ").replace("last move: o b2\n", line)
    state = env.clone_state()
    env.step(0)
    assert "refused" not in env.render()
    env.step(0)
    env.restore_state(state, seed=0)
    assert "refused" not in env.render()
    for _ in range(8):
        env.step(4)
    assert env.render().endswith(f"truncated after too many illegal actions\n{line}")
    env.reset()
    assert "refused" not in env.render()


def test_large_boards_as_text_have_straight_columns():
    env = SingleEnv(15, 5, opponent="self", render_mode="ansi")
    env.reset(seed=0)
    env.step(15 * 9 + 14)
    lines = env.render().splitlines()
    assert [lines[0].index(letter) for letter in "abo"] == [3, 6, 45]
    assert lines[1].startswith(" 1 .  .")
    assert lines[10] == "10" + " . " * 14 + "[o]"
    assert lines[16:] == ["x to move", "last move: o o10"]  # and no list of 224 actions
    assert max(map(len, lines)) <= 48


def texts_of(env, steps=200):
    """(text, info) after every step of random games."""
    _, info = env.reset(seed=0)
    rng = np.random.default_rng(0)
    for _ in range(steps):
        _, _, over, _, info = env.step(int(rng.choice(env.legal_actions() or [0])))
        yield env.render(), info
        if over:
            env.reset()


def test_text_says_which_turns_were_skipped():
    skips = 0
    for text, info in texts_of(SingleEnv(4, 4, skip_chance=0.4, opponent="self", render_mode="ansi")):
        last = text.partition("last move: ")[2][:1]
        again = info["result"] == -1 and info["seat"] == info["mover"]
        assert last == "ox"[info["seat"]]
        assert (f"the turn of {'xo'[info['seat']]} was skipped" in text) == ("was skipped" in text) == again
        skips += again
    assert skips > 40
    alone, twice = 0, 0
    for text, _ in texts_of(SingleEnv(4, 4, skip_chance=0.4, render_mode="ansi")):
        last = text.partition("last move: ")[2].partition("\n")[0].split(" ")
        alone += "the turn of x was skipped" in text
        twice += "the turn of o was skipped" in text
        assert ("the turn of o was skipped" in text) == (last[0] == "x" and len(last) > 2)
        assert text.count("[") + text.count("*") // 2 >= len(last) - 1
    assert alone > 20
    assert twice > 20


@pytest.mark.parametrize("mode", ["ansi", "rgb_array"])
def test_pictures_show_the_agents_view(mode):
    for seed in range(12):
        env = mnk_v0.env(symmetry="random", render_mode=mode)
        env.reset(seed=seed)
        single = SingleEnv(symmetry="random", opponent="self", render_mode=mode)
        single.reset(seed=seed)
        plain = SingleEnv(opponent="self", render_mode=mode)
        plain.reset(seed=seed)
        for action in (1, 3, 2):
            env.step(action)
            single.step(action)
            plain.step(action)
            assert np.array_equal(env.render(), plain.render())
            assert np.array_equal(single.render(), plain.render())


@pytest.mark.parametrize("illegal_action", ["lose", "penalize"])
def test_vectors_draw_what_single_environments_draw(illegal_action):
    settings = {"skip_chance": 0.25, "symmetry": "random", "seat": "second", "render_mode": "ansi"}
    settings["illegal_action"] = illegal_action
    envs, singles = MNKVectorEnv(4, **settings), [SingleEnv(**settings) for _ in range(4)]
    envs.reset(seed=0)
    for index, env in enumerate(singles):
        env.reset(seed=index)
    assert envs.render() == tuple(env.render() for env in singles)
    rng = np.random.default_rng(0)
    over, refused = np.zeros(4, bool), 0
    for _ in range(60):
        actions = (rng.random((4, 9)) * (envs.action_masks() + 1)).argmax(axis=1)
        for env, action, ended in zip(singles, actions, over, strict=True):
            if ended:
                env.reset()
            else:
                env.step(action)
        _, _, terminated, truncated, _ = envs.step(actions)
        over = terminated | truncated
        assert envs.render() == tuple(env.render() for env in singles)
        refused += sum("refused" in text for text in envs.render())
    assert refused > 5


def changed(one, other):
    """(top, bottom, left, right) of what differs, and of what colour it is in the first."""
    rows, columns = np.nonzero((one != other).any(axis=2))
    return rows.min(), rows.max() + 1, columns.min(), columns.max() + 1


@pytest.mark.parametrize(("rows", "columns"), [(1, 2), (3, 3), (4, 6), (9, 9), (10, 4), (19, 19)])
def test_a_board_as_pixels(rows, columns):
    game = Game(rows, columns, 2)
    cells = np.zeros(game.cells, np.int8)
    empty = render.picture(game, Scene(cells, 0))
    assert empty.dtype == np.uint8
    assert empty.ndim == 3
    assert empty.shape[2] == 3
    edge = max(16, min(64, 608 // max(rows, columns)))
    margin = edge if max(rows, columns) >= 10 else 0  # for coordinates
    assert empty.shape == (rows * edge + margin + 16, columns * edge + margin, 3)
    pictures = [empty]
    for stone in (1, 2):
        cells = np.zeros(game.cells, np.int8)
        cells[-1] = stone
        pictures.append(render.picture(game, Scene(cells, 0)))
        cells[0] = stone  # elsewhere, and the last stone is marked
        pictures.append(render.picture(game, Scene(cells, 0, None, (0,))))
    empty, ring, _, cross, _ = pictures
    assert len({picture.tobytes() for picture in pictures}) == 5
    for one, other in ((empty, ring), (empty, cross), (ring, cross)):
        top, bottom, left, right = changed(one, other)
        assert top >= margin + (rows - 1) * edge
        assert bottom <= margin + rows * edge
        assert left >= margin + (columns - 1) * edge
        assert right <= margin + columns * edge


def test_pixels_mark_the_last_move_and_the_line_that_won():
    game = Game()
    position = from_text("ooo/xx./... o")
    grounds = [
        render.picture(game, Scene(position.cells, 0, "player_0 won", (2,)))[5 + 64 * row, 5::64] for row in (0, 1)
    ]
    assert len({tuple(pixel) for pixel in grounds[0]}) == 1  # all three of the line
    assert tuple(grounds[0][0]) != tuple(grounds[1][0])
    position = from_text("oo./xx./... o")
    row = render.picture(game, Scene(position.cells, 0, None, (4,)))[5 + 64, 5::64]
    assert tuple(row[0]) == tuple(row[2]) != tuple(row[1])


def test_pictures_show_mover_and_outcome():
    cells = from_text("oo./xx./... o").cells
    scenes = [
        Scene(cells, 0),
        Scene(cells, 1),
        Scene(cells, 0, None, (0,)),
        Scene(cells, 0, None, (), 4),
        *(Scene(cells, 0, outcome.description) for outcome in Outcome if outcome >= 0),
    ]
    strips = [render.picture(Game(), scene)[3 * 64 :] for scene in scenes]
    assert len({strip.tobytes() for strip in strips}) == len(strips)
    small = render.picture(Game(1, 1, 1), Scene(np.zeros(1, np.int8), 0, Outcome.TRUNCATED.description))
    assert small.shape == (80, 64, 3)  # what does not fit is cut off


# ---------------------------------------------------------------------------------------------------------------------
# A list of pictures: the opponent's turns have their own


def turns_of(picture, game):
    """Return the number of stones in a picture."""
    drawn = (picture == render._RING).all(axis=2) | (picture == render._CROSS).all(axis=2)
    return drawn[: 64 * game.rows].reshape(game.rows, 64, game.columns, 64).any(axis=(1, 3)).sum()


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
    monkeypatch.setitem(sys.modules, "pygame", None)  # importing it fails
    with pytest.raises(gymnasium.error.DependencyNotInstalled, match=r"pip install .*\[render\]"):
        SingleEnv(render_mode="human").reset()


def pixels_of(env):
    pygame = pytest.importorskip("pygame")
    return pygame.surfarray.array3d(env._renderer._window.get_surface()).transpose(1, 0, 2)


def test_two_windows_show_their_pictures(monkeypatch):
    pytest.importorskip("pygame")
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
        np.testing.assert_array_equal(pixels_of(env), render.picture(game, Scene(cells, 1, None, (7,))))
    games[Game(3, 4)].close()
    games[Game(3, 4)].close()
    env.step(8)
    cells[8] = 2
    np.testing.assert_array_equal(pixels_of(env), render.picture(game, Scene(cells, 0, None, (8,))))
    env.close()


def test_rendering_without_a_mode_warns():
    for env in (mnk_v0.env(), SingleEnv(), MNKVectorEnv(2)):
        env.reset(seed=0)
        with pytest.warns(UserWarning, match=r"render\(\) was called without a render mode"):
            assert env.render() is None
