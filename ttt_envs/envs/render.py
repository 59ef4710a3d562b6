"""Rendering of a board: as text and as pixels without a display, and in a window with pygame."""

from __future__ import annotations

from typing import Any, NamedTuple

import gymnasium
import numpy as np
from numpy.typing import NDArray

from ttt_envs.core.jit import Int8Array
from ttt_envs.core.packages import install_command
from ttt_envs.game.actions import legal_actions
from ttt_envs.game.boards import (
    COLUMNS,
    MOVERS,
    STONES,
    board_lines,
    coordinate,
    winning_line_cells,
)
from ttt_envs.game.game import Game
from ttt_envs.game.rules import winner

FPS = 4
"""frames a second of windows, as of Gymnasium's other games on boards"""
MAX_CELLS_WITH_ACTIONS = 25
"""Maximum number of cells of boards whose legal actions are listed."""
MODES = ("ansi", "rgb_array", "human")
Picture = NDArray[np.uint8]

# colours
_GROUND = (247, 243, 235)
_LAST_MOVE_GROUND = (226, 212, 182)
_LINE_GROUND = (190, 224, 180)
_LINE = (120, 110, 100)
_RING = (32, 96, 168)
_CROSS = (190, 62, 44)
_LARGEST_PICTURE = 608
_STRIP = 16
# Font of three by five pixels: five rows from the top, each a number of three bits. Other letters
# are blank.
_LETTERS = "0123456789abcdefghijklmnopqrstuvwxyz_,"
_ROWS = (
    "7555726227717477171755711747177475771122757577571725755656563444365556746477464434553557557222711152556554444757755"
    "65555255526564425573656553421672222555575555255775552555522271247"
    "0000700024"
)
_FONT = {letter: _ROWS[5 * index : 5 * index + 5] for index, letter in enumerate(_LETTERS)}


class Scene(NamedTuple):
    """The content of a picture, in the agent's view of the board."""

    cells: Int8Array
    """int8[rows * columns]"""
    mover: int
    """player to move, 0 or 1"""
    end: str | None = None
    """result of the game as text"""
    last: tuple[int, ...] = ()
    """cells of the stones that the last mover has put since the other player's move"""
    refused: int | None = None
    """the occupied cell of the agent's last, illegal action, with gravity the top of a full column
    """

    def skipped(self) -> int | None:
        """Return the player whose turn was just skipped, None if there is none."""
        if not self.last:
            return None
        owner = int(self.cells[self.last[0]]) - 1
        moves_on = self.end is None and owner == self.mover
        return 1 - owner if moves_on or len(self.last) > 1 else None


def make_scene(
    before: Int8Array,
    cells: Int8Array,
    mover: int,
    end: str | None,
    seat: int,
    refused: int | None = None,
) -> Scene:
    """Return the scene after a step, which adds the caller's stone and the other player's replies.

    Args:
        before: int8[rows * columns], the board before the step.
        cells: int8[rows * columns], the board after it; possibly of a new game.
        mover, end, refused: as for :class:`Scene`.
        seat: the caller's seat.
    """
    if ((before != 0) & (before != cells)).any():
        before = np.zeros_like(before)
    last = np.flatnonzero(before != cells)
    replies = last[cells[last] != seat + 1]
    if len(replies):
        last = replies
    return Scene(cells, mover, end, tuple(last.tolist()), refused)


def text(game: Game, scene: Scene) -> str:
    """Return the board with coordinates, then the mover or the result, the last move, a skip, and a
    refused move.

    The last move is in brackets, the stones of a winning line between asterisks. For boards of up
    to 25 cells, the legal actions are listed with their cells.
    """
    line = winning_line_cells(game, scene.cells, winner(game, scene.cells))
    lines = board_lines(game, scene.cells, scene.last, line)
    lines.append(scene.end or f"{MOVERS[scene.mover]} to move")
    if scene.last:
        cells = " ".join(coordinate(cell, game) for cell in scene.last)
        lines.append(f"last move: {STONES[scene.cells[scene.last[0]]]} {cells}")
    skipped_player = scene.skipped()
    if skipped_player is not None:
        lines.append(f"the turn of {MOVERS[skipped_player]} was skipped")
    if scene.refused is not None:
        lines.append(f"refused: {scene.refused} ({coordinate(scene.refused, game)}) is not empty")
    if scene.end is None and game.cells <= MAX_CELLS_WITH_ACTIONS:
        actions = np.flatnonzero(legal_actions(game, scene.cells)).tolist()
        names = [COLUMNS[a] if game.gravity else coordinate(a, game) for a in actions]
        labels = (f"{action} ({name})" for action, name in zip(actions, names, strict=True))
        lines.append("legal actions: " + ", ".join(labels))
    return "\n".join(lines) + "\n"


def picture(game: Game, scene: Scene) -> Picture:
    """Return the board as uint8[height, width, 3], with rings for player_0 and crosses for
    player_1.

    The background is darker at the last move and green on a winning line. Below are the mover or
    the result, a skip, and a refused move. Boards with an edge of 10 or more have coordinates above
    and on the left.
    """
    length = max(game.rows, game.columns)
    edge = max(16, min(64, _LARGEST_PICTURE // length))
    marks = np.zeros(game.cells, np.int8)
    marks[list(scene.last)] = 1
    marks[winning_line_cells(game, scene.cells, winner(game, scene.cells))] = 2
    grounds = (_GROUND, _LAST_MOVE_GROUND, _LINE_GROUND)
    tiles = np.array([[_tile(edge, stone, ground) for stone in range(3)] for ground in grounds])
    board = (
        tiles[marks, scene.cells]
        .reshape(game.rows, game.columns, edge, edge, 3)
        .transpose(0, 2, 1, 3, 4)
    )
    margin = edge if length >= 10 else 0
    height = game.rows * edge
    width = game.columns * edge
    out = np.empty((margin + height + _STRIP, margin + width, 3), np.uint8)
    out[:] = _GROUND
    out[margin : margin + height, margin:] = board.reshape(height, width, 3)
    if margin:
        for column in range(game.columns):
            _write(out, COLUMNS[column], edge // 2, margin + column * edge + edge // 2)
        for row in range(game.rows):
            _write(out, str(row + 1), margin + row * edge + edge // 2, edge // 2)
    words = scene.end or f"{MOVERS[scene.mover]} to move"
    skipped_player = scene.skipped()
    if skipped_player is not None:
        words += f", {MOVERS[skipped_player]} skipped"
    if scene.refused is not None:
        words += f", {coordinate(scene.refused, game)} refused"
    _write(out, words, margin + height + _STRIP // 2, (margin + width) // 2)
    return out


def _tile(edge: int, stone: int, ground: tuple[int, int, int]) -> Picture:
    """Draw one cell of ``edge`` pixels."""
    tile = np.empty((edge, edge, 3), np.uint8)
    tile[:] = ground
    middle = (edge - 1) / 2
    y, x = np.mgrid[:edge, :edge] - middle
    width = max(1.0, edge / 14)
    if stone == 1:
        tile[abs(np.hypot(x, y) - edge * 0.32) <= width] = _RING
    elif stone == 2:
        inside = np.maximum(abs(x), abs(y)) <= edge * 0.32
        tile[inside & ((abs(x - y) <= width * 1.4) | (abs(x + y) <= width * 1.4))] = _CROSS
    tile[0, :] = tile[-1, :] = tile[:, 0] = tile[:, -1] = _LINE
    return tile


def _write(out: Picture, words: str, y: int, x: int) -> None:
    """Write text centred at the pixel (y, x), at double size if it fits; the overflow is cut
    off.
    """
    glyphs = np.zeros((5, 4 * len(words)), np.bool_)
    for index, letter in enumerate(words):
        for row, bits in enumerate(_FONT.get(letter, "00000")):
            glyphs[row, 4 * index : 4 * index + 3] = [int(bits) >> bit & 1 for bit in (2, 1, 0)]
    glyphs = glyphs[:, :-1]
    scale = 2 if 2 * glyphs.shape[1] <= out.shape[1] else 1
    glyphs = glyphs.repeat(scale, axis=0).repeat(scale, axis=1)[:, : out.shape[1]]
    height, width = glyphs.shape
    y_min = y - height // 2
    x_min = min(max(0, x - width // 2), out.shape[1] - width)
    out[y_min : y_min + height, x_min : x_min + width][glyphs] = _LINE


class Renderer:
    """Renders scenes in one mode; owns the window, if any, which a copy does not share.

    Args:
        game: the game.
        mode: a mode of ``MODES``, or None.
    """

    def __init__(self, game: Game, mode: str | None) -> None:
        self._game = game
        self._mode = mode
        self.window: Any = None

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "window": None, "_clock": None}

    def render(self, scene: Scene) -> str | Picture | None:
        """Return the result of ``render()``: str, a picture, or None with the window updated."""
        if self._mode is None:
            gymnasium.logger.warn(
                "render() was called without a render mode: choose one when making the "
                "environment, "
                'for example render_mode="rgb_array"'
            )
            return None
        if self._mode == "ansi":
            return text(self._game, scene)
        pixels = picture(self._game, scene)
        if self._mode == "rgb_array":
            return pixels
        self._show(pixels)
        return None

    def _show(self, pixels: Picture) -> None:
        """Show a picture in the window, and keep the frame rate.

        Raises:
            gymnasium.error.DependencyNotInstalled: pygame is not installed.
        """
        try:
            import pygame
        except ImportError:
            raise gymnasium.error.DependencyNotInstalled(
                f'render_mode="human" needs pygame: {install_command("render")}, or take '
                'render_mode="ansi" or '
                '"rgb_array"'
            ) from None
        if self.window is None:
            pygame.display.init()
            height, width, _ = pixels.shape
            self.window = pygame.Window(
                f"tic-tac-toe, {self._game}", (width, height)
            )  # one window per environment
            self._clock = pygame.time.Clock()
        pygame.event.pump()
        self.window.get_surface().blit(
            pygame.surfarray.make_surface(pixels.transpose(1, 0, 2)), (0, 0)
        )
        self.window.flip()
        self._clock.tick(FPS)

    def close(self) -> None:
        """Close the window, if any; those of others stay."""
        if self.window is not None:
            self.window.destroy()
            self.window = None
