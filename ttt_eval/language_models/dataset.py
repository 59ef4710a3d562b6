"""A data set of single turns: a prompt, its legal moves, and the exact value of each of them.

Train and held-out positions are split by class: board symmetries and an exchange of both players map positions of one
class to each other, and all of them are in the same part.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from baselines.exact import solve
from ttt_envs.agents.policy import VALUE_TOLERANCE
from ttt_envs.game.boards import to_text
from ttt_envs.game.game import Game
from ttt_envs.game.symmetry import canonical_keys, symmetries
from ttt_envs.text import make_presentation, present
from ttt_eval.language_models.results import reachable_positions
from ttt_eval.puzzles import natural_moves

CHUNK = 1 << 12
"""Number of positions that are valued at once."""


def make_rows(
    game: Game, presentation: str = "grid", *, held_out: float = 0.2, every: bool = False, seed: int = 0
) -> Iterator[dict[str, Any]]:
    """Yield the rows of a data set, JSON-ready; docs/language-models.md documents the keys.

    The part of a class is a function of its name and the seed alone, so that it is the same in every presentation and
    selection of positions.

    Args:
        game: the game.
        presentation: name of a presentation of it.
        held_out: share of the classes in the held-out part.
        every: whether there is a row for all positions of a class, or for one.
        seed: of the split, and of the presentation ``"shuffled"``.

    Raises:
        ValueError: an invalid share, too many positions, or a game that is too large to solve.
    """
    if not 0 <= held_out <= 1:
        raise ValueError(f"held_out={held_out:g} is no share of the classes: choose from 0 to 1")
    form, boards = make_presentation(presentation, game, seed), reachable_positions(game)
    # two positions are of one class if a symmetry maps them to each other, also with both players exchanged
    least, _ = canonical_keys(boards.own_first(), symmetries(game))
    classes = least.reshape(len(least), -1)
    _, first = np.unique(classes, axis=0, return_index=True)
    rows = np.arange(len(boards.mover)) if every else np.sort(first)
    names = [hashlib.sha256(f"{game.slug} {key.tobytes().hex()}".encode()).hexdigest()[:16] for key in classes[rows]]
    for start in range(0, len(rows), CHUNK):
        part = boards.take(rows[start : start + CHUNK])
        values = solve(game).action_values(part)
        best = values >= np.nanmax(values, axis=1, keepdims=True) - VALUE_TOLERANCE
        for row, (name, kind) in enumerate(zip(names[start:], natural_moves(game, part)[1], strict=False)):
            position, digest = part.position(row), hashlib.sha256(f"{seed} {name}".encode()).digest()
            words = {cell: form.move_name(cell) for cell in np.flatnonzero(~np.isnan(values[row])).tolist()}
            yield {
                "prompt": present(game, position, form),
                "legal": list(words.values()),
                "values": {word: float(values[row, cell]) + 0.0 for cell, word in words.items()},
                "best": [word for cell, word in words.items() if best[row, cell]],
                "split": "held-out" if int.from_bytes(digest[:8], "big") < held_out * 2.0**64 else "train",
                "class": name,
                "kind": kind,
                "stones": int(np.count_nonzero(position.cells)),
                "position": to_text(position, game),
                "game": game.to_dict(),
                "presentation": form.name,
            }
