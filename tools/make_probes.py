"""Make the probes of learners: ``python tools/make_probes.py FILE``, of
ttt_eval/checks/probes.toml for the built-in ones.

Openings are searched by what an error loses in them, exactly: chosen by sight, they show little.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import tyro
from writing import to_toml

from ttt_envs.arrays import game_arrays
from ttt_envs.core.files import read_table, write_bytes
from ttt_envs.core.jit import Float64Array
from ttt_envs.envs.config import EnvConfig
from ttt_envs.game.boards import to_text
from ttt_envs.game.game import Game, Position
from ttt_envs.game.phantom import visible
from ttt_eval.checks.probes import TIE, ExactProbe, LearnerProbe
from ttt_eval.checks.wrong_targets import PREDICTED_ERRORS

DATA = read_table(__file__)
PERFECT = "perfect play"
"""Name of the error of who plays as in the game without skips against itself."""


def list_openings(game: Game, stones: int) -> list[str]:
    """Return all unfinished positions after so many moves without skips, the mover as o."""
    arrays = game_arrays(replace(game, skip_chance=0.0))
    rows = slice(*arrays.layers[stones : stones + 2])
    own, other = np.split(arrays.observations[rows], 2, axis=1)
    return [to_text(Position(cells, 0), game) for cells in own + 2 * other]


def wrong_policy(exact: ExactProbe, error: str, options: Mapping[str, Any]) -> Float64Array:
    """Return the policy with an error, float64[S, A].

    Perfect play of the game without skips plays right in positions that only skips lead to.
    """
    if error != PERFECT:
        return exact.greedy(exact.learned_values(PREDICTED_ERRORS[error])[1])
    plain = ExactProbe(
        LearnerProbe("", "", 0, {**options, "opponent": "optimal", "skip_chance": 0.0})
    )
    plain_places = {row.tobytes(): place for place, row in enumerate(plain.observations)}
    places = [plain_places.get(row.tobytes(), -1) for row in exact.observations]
    is_known = np.array(places)[:, None] >= 0
    return exact.greedy(np.where(is_known, plain.action_values[places], exact.action_values))


def search_openings(
    options: Mapping[str, Any],
    *,
    stones: int,
    count: int,
    error: str,
    min_loss: float,
    max_loss: float = 2.0,
    wins_at_once: bool | None = None,
) -> list[str]:
    """Return openings of a probe in which an error loses; see the file of the data."""
    game = visible(EnvConfig(**options).game)
    options = {**options, "openings": list_openings(game, stones)}
    exact = ExactProbe(LearnerProbe("", "", 0, options))
    losses = exact.losses(wrong_policy(exact, error, options))
    is_chosen = (exact.model.start > 0) & (losses >= min_loss - TIE) & (losses <= max_loss)
    if wins_at_once is not None:
        is_chosen &= (exact.model.rewards.max(axis=1) == 1) == wins_at_once
    rows = np.random.default_rng(0).permutation(np.flatnonzero(is_chosen))[:count]
    return [exact.text(row) for row in rows]


def make_probes() -> dict[str, dict[str, Any]]:
    """Return the tables of the file: the fields of each probe, and its options as
    ``NAME.options``.
    """
    tables: dict[str, dict[str, Any]] = {}
    for name, row in DATA.items():
        options = row.pop("options")
        search = row.pop("search", None)
        source = row.pop("openings_of", None)
        if search:
            options["openings"] = search_openings(options, **search)
        if source:
            source_options = tables[f"{source}.options"]
            exact = ExactProbe(LearnerProbe("", "", 0, source_options))
            row["scored"] = source_options["openings"]
            options["openings"] = [exact.text(s) for s in range(len(exact.values))]
        tables |= {name: row, f"{name}.options": options}
    return tables


def main(file: tyro.conf.Positional[Path]) -> None:
    """Write the probes.

    Args:
        file: the TOML file.
    """
    write_bytes(file, to_toml("make_probes.py", make_probes()).encode())


if __name__ == "__main__":
    tyro.cli(main)
