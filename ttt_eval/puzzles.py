"""Puzzles: positions where an obvious move loses value, with the exact value of every move.

The obvious move of the built-in set wins; if no move wins, it blocks a line that the other player
could complete; if there is none, it makes the longest line of own stones that can still be
completed, and of such moves it lies on most lines that can. Other sets have the moves of a policy,
or those of played games.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
from msgspec import Struct, convert
from msgspec.structs import asdict

from baselines.exact import MAX_SOLVER_CELLS, Solution, solve
from ttt_envs.agents.policy import VALUE_TOLERANCE, Policy, best_moves
from ttt_envs.core.checks import Refusal
from ttt_envs.core.files import write_bytes
from ttt_envs.core.jit import BoolArray, Float64Array
from ttt_envs.game.boards import Boards, from_text, play_moves, to_text
from ttt_envs.game.game import Game, Position
from ttt_envs.game.phantom import check_variants
from ttt_envs.game.rules import NOT_OVER, legal
from ttt_envs.game.symmetry import canonical_keys, symmetries
from ttt_eval.exact.dynamic_programming import played_losses
from ttt_eval.exact.strength import worst_positions
from ttt_eval.matches.games import PlayedGame
from ttt_eval.store.result_store import Data, json_numbers, read_hashed_json, with_hash

FILE = Path(__file__).parent / "data" / "puzzles" / "puzzles.json"
"""The built-in set."""
MAX_FILE_BYTES = 1 << 22
"""Maximum size of a file of puzzles in bytes."""
LEVELS = (0.5, 0.75)
"""Mean probability of a mistake by the policies that grade a puzzle at which level 2 and level 3
begin.
"""


class _StoredPuzzle(Struct):
    """A puzzle as in files, without what follows from the rest; docs/files.md documents the
    keys.
    """

    game: dict[str, object]
    position: str
    values: list[float | None]
    replies: tuple[tuple[int, ...], ...]
    tempting: tuple[int, ...]
    why: str
    loss: float
    wrong: dict[str, float]


@dataclass(frozen=True)
class Puzzle:
    """A position where some moves lose value.

    Args:
        game: the game, up to 16 cells.
        position: the position.
        values: exact action values float64[cells] for the mover, NaN where illegal.
        replies: by cell, the other player's best replies to that move if its turn is not skipped;
            none where the cell is taken or the game ends.
        tempting: cells of the obvious moves, all of which lose value.
        why: the reason for these moves: ``wins``, ``blocks`` or ``extends`` for obvious ones,
            otherwise who played.
        loss: value lost by the best of the obvious moves, or by the expected move of a policy.
        wrong: by policies that grade it, the probability of a move that loses value; may be empty.
    """

    game: Game
    position: Position
    values: Float64Array
    replies: tuple[tuple[int, ...], ...]
    tempting: tuple[int, ...]
    why: str
    loss: float
    wrong: Mapping[str, float] = field(default_factory=dict)

    @property
    def best(self) -> tuple[int, ...]:
        """Cells of the best moves."""
        return tuple(best_moves(self.values).tolist())

    @property
    def level(self) -> int:
        """1 (easy) to 3 (hard), by the mean probability of a mistake; 0 if it is not graded."""
        if not self.wrong:
            return 0
        return 1 + sum(float(np.mean([*self.wrong.values()])) >= bound for bound in LEVELS)

    def to_dict(self) -> dict[str, object]:
        """Return JSON-ready data; docs/files.md documents the keys."""
        return {
            "game": self.game.to_dict(),
            "position": to_text(self.position, self.game),
            "values": json_numbers(self.values),
            "best": list(self.best),
            "tempting": list(self.tempting),
            "why": self.why,
            "loss": self.loss,
            "replies": [list(cells) for cells in self.replies],
            "wrong": dict(self.wrong),
            "level": self.level,
        }

    @classmethod
    def from_dict(cls, data: object) -> Puzzle:
        """Return the puzzle that :meth:`to_dict` stored.

        Raises:
            ValueError, TypeError, KeyError: not such data.
        """
        record = convert(data, _StoredPuzzle)
        game = Game.from_dict(record.game)
        if not len(record.values) == len(record.replies) == game.cells:
            raise Refusal(f"a puzzle of {game} has no value or no replies for some of its cells")
        values: Data = asdict(record) | {
            "game": game,
            "position": from_text(record.position, game),
            "values": np.array(record.values, np.float64),  # None is NaN
        }
        return cls(**values)


# --------------------------------------------------------------------------------------------------
# Obvious moves


def obvious_moves(game: Game, boards: Boards) -> tuple[BoolArray, list[str]]:
    """Return the obvious moves of positions that are not over, as defined above.

    Args:
        game: the game.
        boards: B positions.

    Returns:
        bool[B, cells]: the moves. For each position, the reason: ``wins``, ``blocks`` or
            ``extends``.

    Raises:
        ValueError: a game of other rules, in which other moves are obvious.
    """
    check_variants(
        "the set of puzzles",
        game,
        reasons="its obvious moves complete, block or extend lines of the standard rules",
    )
    lines = game.line_cells
    own_first = boards.own_first()
    playable = boards.legal(game)
    through = np.zeros((len(lines), game.cells), np.bool_)
    np.put_along_axis(through, lines, values=True, axis=1)
    # [B, lines]
    own, other = ((own_first[:, lines] == player).sum(axis=2) for player in (1, 2))
    completes = (own == game.win_length - 1) & (other == 0)
    threatens = (other == game.win_length - 1) & (own == 0)
    # [B, lines, cells]
    length = np.where((other == 0)[:, :, None] & through, own[:, :, None] + 1, 0)
    max_length = length.max(axis=1)
    num_lines = (length > 0).sum(axis=1)
    score = np.where(playable, max_length * (len(lines) + 1) + num_lines, -1)
    kinds = {
        "wins": (completes[:, :, None] & through).any(axis=1) & playable,
        "blocks": (threatens[:, :, None] & through).any(axis=1) & playable,
        "extends": playable & (score == score.max(axis=1, keepdims=True)),
    }
    moves = np.stack(list(kinds.values()))  # [kinds, B, cells]
    first = moves.any(axis=2).argmax(axis=0)
    return moves[first, np.arange(len(playable))], [list(kinds)[kind] for kind in first]


# --------------------------------------------------------------------------------------------------
# Sets


def from_policy(
    game: Game, policy: str | Policy, count: int = 10, opponent: str | None = None
) -> list[Puzzle]:
    """Return the positions in which a policy loses most in games against an opponent, as puzzles.

    Args:
        game: the game, up to 16 cells.
        policy: a spec string or a pure policy.
        count: maximum number of puzzles.
        opponent: see :func:`~ttt_eval.exact.strength.worst_positions`; None for the policy itself.

    Raises:
        ValueError, MemoryError: as there.
    """
    candidates = [
        Candidate(
            choice.position,
            [cell for cell in choice.played.tolist() if cell not in choice.best],
            str(policy),
            loss,
        )
        for choice, loss, *_ in worst_positions(game, policy, opponent, count)
    ]
    return make_puzzles(solve(game), candidates)


def from_games(
    games: Iterable[PlayedGame],
    player: str | None = None,
    *,
    solver: Callable[[Game], Solution] = solve,
) -> Iterator[Puzzle]:
    """Yield the positions of games in which a move lost value, as puzzles; the first of symmetric
    ones.

    Args:
        games: played games; those on boards of more than 16 cells are left out.
        player: name of the player whose moves count, such as ``human``; None for both.
        solver: returns the solution of a game; it is called once for each of the games.
    """
    keys: set[tuple[Game, bytes]] = set()
    for record in games:
        game = record.game
        names = record.players
        candidates: list[Candidate] = []
        plies = [ply for ply in record.positions() if player in (None, names[ply.position.mover])]
        if game.cells > MAX_SOLVER_CELLS or not plies:
            continue
        solution = solver(game)
        boards = Boards.from_positions([ply.position for ply in plies])
        cells = np.array([ply.action for ply in plies])
        losses = played_losses(solution.action_values(boards), cells).tolist()
        for ply, key, loss in zip(plies, class_keys(game, boards), losses, strict=True):
            if loss > VALUE_TOLERANCE and (game, key) not in keys:
                keys.add((game, key))
                name = names[ply.position.mover]
                candidates.append(Candidate(ply.position, [ply.action], name, loss))
        yield from make_puzzles(solution, candidates)


def write_puzzles(path: Path, puzzles: Sequence[Puzzle], facts: Mapping[str, object]) -> None:
    """Write puzzles atomically to a JSON file, one per line.

    Args:
        path: the file.
        puzzles: the puzzles.
        facts: JSON-ready: the command and the seed that made them.
    """
    data = with_hash("puzzles", {**facts, "puzzles": [puzzle.to_dict() for puzzle in puzzles]})
    lines = ",\n".join(json.dumps(puzzle, separators=(",", ":")) for puzzle in data.pop("puzzles"))
    text = json.dumps(data, indent=1).removesuffix("\n}") + f',\n "puzzles": [\n{lines}\n]}}\n'
    write_bytes(path, text.encode())


def read_puzzles(path: Path = FILE) -> list[Puzzle]:
    """Read a file of puzzles.

    Raises:
        OSError: no file, or one that cannot be read.
        ValueError: a damaged file.
    """
    return read_hashed_json(path, "puzzles", MAX_FILE_BYTES, _parse, what="puzzles")


def _parse(data: Data) -> list[Puzzle]:
    return [Puzzle.from_dict(puzzle) for puzzle in data["puzzles"]]


class Candidate(NamedTuple):
    """A position of a puzzle, without its solution."""

    position: Position
    tempting: list[int]
    """cells of the obvious moves, which lose"""
    reason: str
    """``wins``, ``blocks`` or ``extends``, or who made these moves"""
    loss: float
    """value lost by the best obvious move"""


def make_puzzles(solution: Solution, candidates: Sequence[Candidate]) -> list[Puzzle]:
    """Return puzzles of positions with their obvious moves, the reason, and the loss."""
    if not candidates:
        return []
    boards = Boards.from_positions([candidate.position for candidate in candidates])
    values = solution.action_values(boards)

    return [
        Puzzle(
            solution.game,
            candidate.position,
            row,
            _replies(solution, candidate.position),
            tuple(candidate.tempting),
            candidate.reason,
            candidate.loss,
        )
        for candidate, row in zip(candidates, values, strict=True)
    ]


def _replies(solution: Solution, position: Position) -> tuple[tuple[int, ...], ...]:
    """Return by cell the best replies of the other player."""
    game = solution.game
    moves = np.flatnonzero(legal(solution.game, position.cells))
    cells, outcomes = play_moves(
        game, Boards.from_positions([position]), np.zeros_like(moves), moves
    )
    is_open = outcomes == NOT_OVER
    values = solution.action_values(
        Boards(cells[is_open], np.full(is_open.sum(), 1 - position.mover, np.int8))
    )
    best = {
        cell: best_moves(row).tolist()
        for cell, row in zip(moves[is_open].tolist(), values, strict=True)
    }
    return tuple(tuple(best.get(cell, ())) for cell in range(game.cells))


def class_keys(game: Game, boards: Boards) -> list[bytes]:
    """Return keys that are equal for positions that symmetries or an exchange of colours map to
    each other.
    """
    return [key.tobytes() for key in canonical_keys(boards.own_first(), symmetries(game))[0]]
