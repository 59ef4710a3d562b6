"""A data set of single turns: a prompt, its legal moves, and the exact value of each of them.

Train and held-out positions are split by class: board symmetries and an exchange of both players
map positions of one class to each other, and all of them are in the same part.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import numpy as np

from baselines.exact import solve
from ttt_envs.agents.policy import best_moves
from ttt_envs.core.checks import check_range
from ttt_envs.game.boards import to_text
from ttt_envs.game.game import Game
from ttt_envs.text import make_presentation, present
from ttt_eval.language_models.results import reachable_positions
from ttt_eval.puzzles import class_keys, obvious_moves

CHUNK = 1 << 12
"""Number of positions that are valued at once."""


def make_rows(
    game: Game,
    presentation: str = "grid",
    *,
    held_out: float = 0.2,
    every: bool = False,
    seed: int = 0,
) -> Iterator[dict[str, object]]:
    """Yield the rows of a data set, JSON-ready; docs/language-models.md documents the keys.

    The part of a class is a function of its name and the seed alone, so that it is the same in
    every presentation and selection of positions.

    Args:
        game: the game.
        presentation: name of a presentation of it.
        held_out: share of the classes in the held-out part.
        every: whether there is a row for all positions of a class, or for one.
        seed: of the split, and of the presentation ``"shuffled"``.

    Raises:
        ValueError: an invalid share, too many positions, or a game that is too large to solve.
    """
    check_range("held_out", held_out, 0, 1, "is no share of the classes")
    form = make_presentation(presentation, game, seed)
    boards = reachable_positions(game)
    texts = [f"{game.slug} {key.hex()}" for key in class_keys(game, boards)]
    classes = np.array([hashlib.sha256(text.encode()).hexdigest()[:16] for text in texts])
    rows = np.arange(len(classes)) if every else np.sort(np.unique(classes, return_index=True)[1])
    names = iter(classes[rows].tolist())
    for part in boards.take(rows).chunks(CHUNK):
        _, kinds = obvious_moves(game, part)
        for row, of_cells in enumerate(solve(game).action_values(part)):
            position = part.position(row)
            name = next(names)
            legal = np.flatnonzero(~np.isnan(of_cells)).tolist()
            values = {form.move_name(cell): float(of_cells[cell]) + 0.0 for cell in legal}
            digest = hashlib.sha256(f"{seed} {name}".encode()).digest()
            yield {
                "prompt": present(game, position, form),
                "legal": list(values),
                "values": values,
                "best": [form.move_name(cell) for cell in best_moves(of_cells).tolist()],
                "split": "held-out"
                if int.from_bytes(digest[:8], "big") < held_out * 2.0**64
                else "train",
                "class": name,
                "kind": kinds[row],
                "stones": int(np.count_nonzero(position.cells)),
                "position": to_text(position, game),
                "game": game.to_dict(),
                "presentation": form.name,
            }
