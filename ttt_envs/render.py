"""Pictures of a board: as text and as pixels without a display, and in a window through pygame."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from ttt_envs.boards import MOVERS, STONES
from ttt_envs.rules import Cells, Game

FPS = 2
MODES = ("ansi", "rgb_array", "human")
Picture = NDArray[np.uint8]

# The colours of a cell's ground, its lines, player_0's ring and player_1's cross
_GROUND, _LINE, _RING, _CROSS = (247, 243, 235), (120, 110, 100), (32, 96, 168), (190, 62, 44)
_LARGEST_PICTURE = 608


def check_mode(mode: object, modes: tuple[str, ...] = MODES) -> None:
    """Raise ValueError unless ``mode`` is None or one of ``modes``."""
    if mode is not None and mode not in modes:
        raise ValueError(f"render_mode={mode!r} is not known: choose None, {', '.join(map(repr, modes))}")


def text(game: Game, cells: Cells, mover: int, end: str | None) -> str:
    """The board as lines of text, then who is to move, or how the game ended."""
    rows = (" ".join(STONES[cell] for cell in row) for row in cells.reshape(game.rows, game.columns))
    return "\n".join([*rows, end or f"{MOVERS[mover]} to move"]) + "\n"


def picture(game: Game, cells: Cells) -> Picture:
    """The board as uint8[height, width, 3], rings for player_0 and crosses for player_1."""
    edge = max(16, min(64, _LARGEST_PICTURE // max(game.rows, game.columns)))
    board = np.array([_tile(edge, stone) for stone in range(3)])[cells]
    board = board.reshape(game.rows, game.columns, edge, edge, 3)
    return np.ascontiguousarray(board.transpose(0, 2, 1, 3, 4)).reshape(game.rows * edge, game.columns * edge, 3)


def _tile(edge: int, stone: int) -> Picture:
    """One cell of ``edge`` pixels."""
    tile = np.empty((edge, edge, 3), np.uint8)
    tile[:] = _GROUND
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


class Screen:
    """A window that shows a board; pygame is imported here and nowhere else."""

    def __init__(self, game: Game) -> None:
        try:
            import pygame
        except ImportError:
            raise gymnasium.error.DependencyNotInstalled(
                'render_mode="human" needs pygame: pip install pygame-ce, or take render_mode="ansi" or "rgb_array"'
            ) from None
        self._pygame = pygame
        pygame.display.init()
        height, width, _ = picture(game, np.zeros(game.cells, np.int8)).shape
        self._window = pygame.display.set_mode((width, height))
        pygame.display.set_caption(f"tic-tac-toe, {game}")
        self._clock = pygame.time.Clock()

    def show(self, pixels: Picture) -> None:
        """Show a picture and keep the frame rate."""
        self._pygame.event.pump()
        surface = self._pygame.surfarray.make_surface(pixels.transpose(1, 0, 2))
        self._window.blit(surface, (0, 0))
        self._pygame.display.flip()
        self._clock.tick(FPS)

    def close(self) -> None:
        """Close the window."""
        self._pygame.display.quit()


def show(mode: str | None, game: Game, cells: Cells, mover: int, end: str | None, screen: Screen | None) -> Any:
    """What ``render()`` returns in a mode: str, a picture, or None with the window updated."""
    if mode is None:
        gymnasium.logger.warn(
            "render() was called without a render mode: choose one when making the environment, "
            'for example render_mode="rgb_array"'
        )
        return None
    if mode == "ansi":
        return text(game, cells, mover, end)
    pixels = picture(game, cells)
    if mode == "rgb_array":
        return pixels
    assert screen is not None
    screen.show(pixels)
    return None
