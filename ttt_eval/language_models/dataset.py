"""A data set of single turns: a prompt, its legal moves, and the exact value of each of them.

Train and held-out positions are split by class: board symmetries and an exchange of both players map positions of one
class to each other, and all of them are in the same part.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from baselines.exact import MAX_SOLVER_CELLS, solve
from ttt_envs.agents.policy import VALUE_TOLERANCE
from ttt_envs.core.checks import check_choice
from ttt_envs.core.jit import BoolArray, Int64Array, UInt64Array
from ttt_envs.game.boards import Boards, to_text
from ttt_envs.game.game import Game
from ttt_envs.game.symmetry import canonical_keys, symmetries
from ttt_envs.text import Presentation, present
from ttt_eval.language_models.player import TextSettings, reachable_positions
from ttt_eval.puzzles import natural_moves

Members = Literal["one", "all"]
Kind = Literal["wins", "blocks", "extends"]
CHUNK = 1 << 12
"""Number of positions that are valued at once."""


@dataclass(frozen=True)
class DataSettings:
    """The positions of a data set.

    Raises:
        ValueError: an invalid share or choice, or a game that is too large to solve.
    """

    text: TextSettings
    held_out: float = 0.2
    """share of the classes in the held-out part"""
    members: Members = "one"
    """one position of each class, or all"""
    kinds: tuple[Kind, ...] = get_args(Kind)
    """by the obvious move: it wins, it blocks a line of the other player, or it extends an own line"""
    decisive: bool = False
    """whether only positions are taken in which some move loses value"""

    def __post_init__(self) -> None:
        if not 0 <= self.held_out <= 1:
            raise ValueError(f"held_out={self.held_out:g} is no share of the classes: choose from 0 to 1")
        check_choice("members", self.members, get_args(Members))
        for kind in self.kinds:
            check_choice("kinds", kind, get_args(Kind))
        if self.text.game.cells > MAX_SOLVER_CELLS:
            raise ValueError(
                f"{self.text.game} has {self.text.game.cells} cells, and exact values are known up to "
                f"{MAX_SOLVER_CELLS}: take a smaller board"
            )


def make_rows(settings: DataSettings) -> Iterator[dict[str, Any]]:
    """Yield the rows of a data set, JSON-ready; docs/language-models.md documents the keys.

    Raises:
        ValueError: too many positions.
    """
    game, text = settings.text.game, settings.text
    boards = reachable_positions(game)
    classes, first = position_classes(game, boards)
    presentation = text.make_presentation()
    rows = np.sort(first) if settings.members == "one" else np.arange(len(boards.mover))
    names = [hashlib.sha256(f"{game.slug} {one.tobytes().hex()}".encode()).hexdigest()[:16] for one in classes[rows]]
    for start in range(0, len(rows), CHUNK):
        part = rows[start : start + CHUNK]
        yield from _make_part(settings, presentation, boards.take(part), names[start : start + CHUNK])


def position_classes(game: Game, boards: Boards) -> tuple[UInt64Array, Int64Array]:
    """Return the class of each position, uint64[B, words], and the first row of each class, int64[C].

    Two positions are of one class if a symmetry of the board maps them to each other, also with both players exchanged.
    """
    least, _ = canonical_keys(boards.own_first(), symmetries(game))
    words = least.reshape(len(least), -1)
    _, first = np.unique(words, axis=0, return_index=True)
    return words, first.astype(np.int64)


def _make_part(
    settings: DataSettings, presentation: Presentation, boards: Boards, names: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """Yield rows of positions with the names of their classes."""
    text = settings.text
    values = solve(text.game).action_values(boards)
    best = values >= np.nanmax(values, axis=1, keepdims=True) - VALUE_TOLERANCE
    legal: BoolArray = ~np.isnan(values)
    _, kinds = natural_moves(text.game, boards)
    for row, name in enumerate(names):
        cells = np.flatnonzero(legal[row])
        if kinds[row] not in settings.kinds or (settings.decisive and best[row, cells].all()):
            continue
        position = boards.position(row)
        words = [presentation.move_name(int(cell)) for cell in cells]
        yield {
            "prompt": present(text.game, position, presentation, show_legal=text.show_legal),
            "legal": words,
            "values": {word: float(values[row, cell]) + 0.0 for word, cell in zip(words, cells, strict=True)},
            "best": [word for word, cell in zip(words, cells, strict=True) if best[row, cell]],
            "split": "held-out" if is_held_out(name, settings.held_out, text.seed) else "train",
            "class": name,
            "kind": kinds[row],
            "stones": int(np.count_nonzero(position.cells)),
            "position": to_text(position, text.game),
            "game": text.game.to_dict(),
            "presentation": presentation.name,
        }


def is_held_out(name: str, share: float, seed: int) -> bool:
    """Return whether a class is in the held-out part: a function of its name and the seed alone.

    So it is in the same part in every presentation and selection of positions.
    """
    digest = hashlib.sha256(f"{seed} {name}".encode()).digest()
    return int.from_bytes(digest[:8], "big") < share * 2.0**64


def write_row(row: dict[str, Any]) -> bytes:
    """Return a row as a line."""
    return json.dumps(row).encode() + b"\n"
