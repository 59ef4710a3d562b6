"""The symmetries of the board as permutations of cells.

A permutation ``p`` maps a board to ``cells[p]``: cell ``j`` of the transformed board is cell
``p[j]`` of the board, so action ``j`` there is the action ``p[j]`` on the board. Lines map to
lines, so symmetric positions have the same value.
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from ttt_envs.core.checks import check_choice
from ttt_envs.core.jit import BoolArray, Int8Array, Int64Array, UInt64Array
from ttt_envs.game.boards import keys
from ttt_envs.game.phantom import AnyGame, visible

Symmetries = Literal["none", "rotations", "all"]


def symmetries(game: AnyGame, which: Symmetries = "all") -> NDArray[np.int64]:
    """Return the symmetries of a game's board, int64[S, rows * columns], the identity first.

    Args:
        game: the game.
        which: ``"all"`` 8 on a square board and 4 on another, ``"rotations"`` 4 or 2, ``"none"``
            the identity. With gravity only the mirror image, left to right, is symmetric, and no
            rotation. Where lines wrap, ``"all"`` has the translations too, with gravity those along
            rows.

    Raises:
        ValueError: an unknown ``which``.
    """
    check_choice("symmetries", which, get_args(Symmetries))
    board = np.arange(game.cells).reshape(game.rows, game.columns)
    if which == "none":
        boards = [board]
    else:
        quarter_turns = [0, 1, 2, 3] if game.rows == game.columns else [0, 2]
        if game.gravity:
            quarter_turns = [0]
        boards = [np.rot90(board, turns) for turns in quarter_turns]
        if which == "all":
            boards += [board[:, ::-1] for board in boards]
            if visible(game).torus:
                shifts = np.ndindex(1 if game.gravity else game.rows, game.columns)
                boards = [
                    np.roll(board, shift, axis=(0, 1)) for shift in shifts for board in boards
                ]
    return np.stack([board.ravel() for board in boards])


def inverse(permutations: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the inverses of ``permutations`` int64[S, cells]: ``inverse(p)[s, p[s, j]] == j``."""
    return np.argsort(permutations, axis=1)


def canonical_keys(cells: Int8Array, permutations: Int64Array) -> tuple[UInt64Array, BoolArray]:
    """Return the canonical key of each board: the least key among its symmetric boards.

    Kernels that need a canonical form at every move do not permute boards: they look transformed
    boards up in tables or maintain them incrementally, and their canonical form is another one.

    Args:
        cells: int8[B, rows * columns].
        permutations: int64[S, rows * columns], from :func:`symmetries`.

    Returns:
        uint64[B, words]: the least key, in lexicographic order of its words. bool[B, S]: the
        permutations that map the board to it.
    """
    symmetric_keys = keys(cells[:, permutations].reshape(-1, cells.shape[1]))
    words = 1 if symmetric_keys.ndim == 1 else symmetric_keys.shape[1]
    symmetric_keys = symmetric_keys.reshape(len(cells), len(permutations), words)
    is_minimal = np.ones(symmetric_keys.shape[:2], np.bool_)
    for word in range(words):
        column = symmetric_keys[:, :, word]
        minimum = np.where(is_minimal, column, np.iinfo(np.uint64).max).min(axis=1)
        is_minimal &= column == minimum[:, None]
    return symmetric_keys[np.arange(len(cells)), is_minimal.argmax(axis=1)], is_minimal
