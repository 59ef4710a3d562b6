"""Make the built-in set of puzzles again, byte by byte: ``python tools/make_puzzles.py FILE [--seed
N]``.

Its positions are those of games between two players that see wins and blocks. No two puzzles are
symmetric: exchanging all colours counts as a symmetry, and so does a different skip chance on the
same board.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, zip_longest
from pathlib import Path

import numpy as np
import tyro

from baselines.exact import solve
from ttt_envs.agents.policy import VALUE_TOLERANCE
from ttt_envs.agents.specs import make_policy
from ttt_envs.core.files import read_table
from ttt_envs.game.boards import Boards
from ttt_envs.game.game import Game, Position
from ttt_eval.matches.games import PlayedGame
from ttt_eval.matches.match import play_pairs
from ttt_eval.puzzles import (
    Candidate,
    Puzzle,
    class_keys,
    make_puzzles,
    obvious_moves,
    write_puzzles,
)

DATA = read_table(__file__)
PUZZLES_PER_GAME = {Game(**row["game"]): row["puzzles"] for row in DATA["games"]}
"""Games, with their shares of 100 puzzles."""
PANEL = DATA["panel"]
"""Policies whose mistakes grade a puzzle."""
PLAYER = "win-or-block"
PAIRS = 400
"""Both players of the games that give the positions, and the pairs of such games for each game of
the set.
"""
MIN_LOSS = 0.05
"""Minimum loss of value of the obvious moves."""


def make_set(seed: int) -> Iterator[Puzzle]:
    """Yield the puzzles of each game, the easiest and most costly first; of each level and reason
    in turn.
    """
    keys: set[tuple[object, ...]] = set()
    for number, (game, count) in enumerate(PUZZLES_PER_GAME.items()):
        puzzles = list(obvious_puzzles(game, [seed, number]))
        selection: list[Puzzle] = []
        groups: dict[tuple[int, str], list[Puzzle]] = {}
        for place in np.random.default_rng([seed, number]).permutation(len(puzzles)):
            groups.setdefault((puzzles[place].level, puzzles[place].why), []).append(puzzles[place])
        turns = zip_longest(*(reversed(groups[key]) for key in sorted(groups)))
        for puzzle in filter(None, chain.from_iterable(turns)):
            [shape] = class_keys(game, Boards.from_positions([puzzle.position]))
            key = (game.rows, game.columns, game.win_length, shape)
            if len(selection) < count and key not in keys:
                keys.add(key)
                selection.append(puzzle)
        yield from sorted(selection, key=lambda puzzle: (puzzle.level, -puzzle.loss))


def obvious_puzzles(game: Game, seed: Sequence[int]) -> Iterator[Puzzle]:
    """Yield the graded puzzles among the positions of seeded games, in order of the games."""
    positions = game_positions(game, int(np.random.default_rng(seed).integers(1 << 31)))
    boards = Boards.from_positions(positions)
    solution = solve(game)
    obvious, reasons = obvious_moves(game, boards)
    values = solution.action_values(boards)
    best = np.nanmax(values, axis=1)
    loss = best - np.where(obvious, values, -np.inf).max(axis=1)
    is_error = values < best[:, None] - VALUE_TOLERANCE
    rows = np.flatnonzero(
        (loss >= MIN_LOSS) & (is_error.sum(axis=1) >= boards.legal(game).sum(axis=1) / 2)
    )
    losses = {
        name: (make_policy(name, game).probabilities(boards) * is_error).sum(axis=1)
        for name in PANEL
    }
    candidates = [
        Candidate(
            positions[row], np.flatnonzero(obvious[row]).tolist(), reasons[row], float(loss[row])
        )
        for row in rows
    ]
    for row, puzzle in zip(rows, make_puzzles(solution, candidates), strict=True):
        yield replace(
            puzzle, wrong={name: round(float(shares[row]), 6) for name, shares in losses.items()}
        )


def game_positions(game: Game, seed: int) -> list[Position]:
    """Return the positions of games, the first of each symmetry class."""
    games: list[PlayedGame] = []
    play_pairs(game, PLAYER, PLAYER, PAIRS, seed=seed, log=games.extend)
    positions = [position for played in games for position, _, _ in played.positions()]
    classes: dict[bytes, Position] = {}
    for position, key in zip(
        positions, class_keys(game, Boards.from_positions(positions)), strict=True
    ):
        classes.setdefault(key, position)
    return list(classes.values())


def main(file: tyro.conf.Positional[Path], seed: int = 0) -> None:
    """Write the puzzles.

    Args:
        file: the JSON file, of ttt_eval/data/puzzles for the built-in set.
        seed: seed of the games that give the positions.
    """
    command = f"tools/make_puzzles.py --seed {seed}"
    write_puzzles(file, list(make_set(seed)), {"command": command, "seed": seed, "panel": PANEL})


if __name__ == "__main__":
    tyro.cli(main)
