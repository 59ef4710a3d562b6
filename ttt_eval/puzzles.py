"""Puzzles: positions where an obvious move loses value, with the exact value of every move.

The obvious move of the built-in set is *natural*: it wins; if no move wins, it blocks a line that the other player
could complete; if there is none, it makes the longest line of own stones that can still be completed, and of such moves
it lies on most lines that can. Other sets have the moves of a policy, or those of played games.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from baselines.exact import MAX_SOLVER_CELLS, Solution, solve
from ttt_envs.agents.policy import VALUE_TOLERANCE, Policy
from ttt_envs.agents.specs import make_policy
from ttt_envs.core.files import write_atomically
from ttt_envs.core.jit import BoolArray, Float64Array
from ttt_envs.game.boards import Boards, from_text, to_text
from ttt_envs.game.game import Game, Position
from ttt_envs.game.phantom import check_variants
from ttt_envs.game.rules import legal, winner
from ttt_envs.game.symmetry import canonical_keys, symmetries
from ttt_eval.exact.strength import worst_positions
from ttt_eval.matches.games import PlayedGame
from ttt_eval.matches.match import play_pairs
from ttt_eval.result_store import hash_data, read_hashed_json

FILE = Path(__file__).parent / "data" / "puzzles" / "puzzles.json"
"""The built-in set."""
MAX_FILE_BYTES = 1 << 22
"""Maximum size of a file of puzzles in bytes."""
KIND = "puzzles"
PANEL = ("random", "win-or-block", "expectiminimax:depth=1", "expectiminimax:depth=2", "expectiminimax:depth=3")
"""Policies whose mistakes grade a puzzle."""
LEVELS = (0.5, 0.75)
"""Mean probability of a mistake by the panel at which level 2 and level 3 begin."""
MIN_LOSS = 0.05
"""Minimum loss of value of the natural moves in the built-in set."""
PLAYER = "win-or-block"
"""Both players of the games that give the positions of the built-in set."""
PAIRS = 400
"""Pairs of such games for each game of the set."""
WINS, BLOCKS, EXTENDS = "wins", "blocks", "extends"
"""Reasons why a move is natural."""
SHIPPED: tuple[tuple[Game, int], ...] = (
    (Game(), 9),
    (Game(skip_chance=0.25), 16),
    (Game(skip_chance=0.5), 13),
    (Game(3, 4, 3), 10),
    (Game(3, 4, 3, 0.25), 16),
    (Game(4, 4, 3, 0.25), 14),
    (Game(4, 4, 4, 0.25), 22),
)
"""Games of the built-in set, with their shares of 100 puzzles."""


@dataclass(frozen=True)
class Puzzle:
    """A position where some moves lose value.

    Args:
        game: the game, up to 16 cells.
        position: the position.
        values: exact action values float64[cells] for the mover, NaN where illegal.
        replies: by cell, the other player's best replies to that move if its turn is not skipped; none where the cell
            is taken or the game ends.
        tempting: cells of the obvious moves, all of which lose value.
        why: the reason for these moves: ``wins``, ``blocks`` or ``extends`` for natural ones, otherwise who played.
        loss: value lost by the best of the obvious moves, or by the expected move of a policy.
        wrong: by policy of :data:`PANEL`, the probability of a move that loses value; may be empty.
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
        return _best_cells(self.values)

    @property
    def level(self) -> int:
        """1 (easy) to 3 (hard), by the mean probability of a mistake over the panel; 0 if it is not graded."""
        if not self.wrong:
            return 0
        return 1 + sum(float(np.mean([*self.wrong.values()])) >= bound for bound in LEVELS)

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-ready data; docs/files.md documents the keys."""
        return {
            "game": self.game.to_dict(),
            "position": to_text(self.position, self.game),
            "values": [None if np.isnan(value) else float(value) + 0.0 for value in self.values],
            "best": list(self.best),
            "tempting": list(self.tempting),
            "why": self.why,
            "loss": self.loss,
            "replies": [list(cells) for cells in self.replies],
            "wrong": dict(self.wrong),
            "level": self.level,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Puzzle:
        """Return the puzzle that :meth:`to_dict` stored.

        Raises:
            ValueError, TypeError, KeyError: not such data.
        """
        game, replies = Game.from_dict(data["game"]), tuple(map(tuple, data["replies"]))
        values = np.array([np.nan if value is None else value for value in data["values"]], np.float64)
        if not len(values) == len(replies) == game.cells:
            raise ValueError(f"a puzzle of {game} has no value or no replies for some of its cells")
        position, wrong = from_text(data["position"], game), dict(data["wrong"])
        return cls(game, position, values, replies, tuple(data["tempting"]), data["why"], data["loss"], wrong)


# ---------------------------------------------------------------------------------------------------------------------
# Natural moves


def natural_moves(game: Game, boards: Boards) -> tuple[BoolArray, list[str]]:
    """Return the natural moves of positions that are not over, as defined above.

    Args:
        game: the game.
        boards: B positions.

    Returns:
        bool[B, cells]: the moves. For each position, the reason: ``wins``, ``blocks`` or ``extends``.

    Raises:
        ValueError: a game of other rules, in which other moves are natural.
    """
    check_variants(
        "the set of puzzles", game, reasons="its natural moves complete, block or extend lines of the standard rules"
    )
    lines = game.line_cells
    through = np.zeros((len(lines), game.cells), np.bool_)
    np.put_along_axis(through, lines, values=True, axis=1)
    seen, playable = boards.own_first(), boards.legal(game)
    own, other = ((seen[:, lines] == player).sum(axis=2) for player in (1, 2))  # [B, lines]
    completes = (own == game.win_length - 1) & (other == 0)
    threatens = (other == game.win_length - 1) & (own == 0)
    length = np.where((other == 0)[:, :, None] & through, own[:, :, None] + 1, 0)  # [B, lines, cells]
    longest, many = length.max(axis=1), (length > 0).sum(axis=1)
    score = np.where(playable, longest * (len(lines) + 1) + many, -1)
    kinds = {
        WINS: (completes[:, :, None] & through).any(axis=1) & playable,
        BLOCKS: (threatens[:, :, None] & through).any(axis=1) & playable,
        EXTENDS: playable & (score == score.max(axis=1, keepdims=True)),
    }
    moves, reasons = np.zeros_like(playable), []
    for row in range(len(playable)):
        reasons.append(next(name for name, found in kinds.items() if found[row].any()))
        moves[row] = kinds[reasons[-1]][row]
    return moves, reasons


# ---------------------------------------------------------------------------------------------------------------------
# Sets


def make_set(seed: int = 0, shares: Sequence[tuple[Game, int]] = SHIPPED) -> list[Puzzle]:
    """Return puzzles with natural moves as the built-in set has them: no two are symmetric, and levels are mixed.

    Exchanging all colours counts as a symmetry, and so does a different skip chance on the same board.

    Args:
        seed: seed of the games that give the positions.
        shares: games, with the number of puzzles of each.

    Raises:
        ValueError: a game with too few such positions.
    """
    found: list[Puzzle] = []
    seen: set[tuple[object, ...]] = set()
    for number, (game, count) in enumerate(shares):
        chosen: list[Puzzle] = []
        for one in _by_turns(list(_natural_puzzles(game, [seed, number])), np.random.default_rng([seed, number])):
            key = (game.rows, game.columns, game.win_length, _class_key(game, one.position))
            if len(chosen) < count and key not in seen:
                seen.add(key)
                chosen.append(one)
        if len(chosen) < count:
            raise ValueError(f"{game} gives {len(chosen)} puzzles of {count}: ask for fewer, or choose another game")
        found += sorted(chosen, key=lambda one: (one.level, -one.loss))
    return found


def from_policy(game: Game, policy: str | Policy, count: int = 10, opponent: str | None = None) -> list[Puzzle]:
    """Return the positions in which a policy loses most in games against an opponent, as puzzles.

    Args:
        game: the game, up to 16 cells.
        policy: a spec string or a pure policy.
        count: maximum number of puzzles.
        opponent: see :func:`~ttt_eval.exact.strength.worst_positions`; None for the policy itself.

    Raises:
        ValueError, MemoryError: a larger board, or as there.
    """
    if game.cells > MAX_SOLVER_CELLS:
        raise ValueError(
            f"puzzles have boards of up to {MAX_SOLVER_CELLS} cells, and {game} has {game.cells}: take a smaller one"
        )
    puzzles = []
    for choice, loss, _ in worst_positions(game, policy, opponent, count):
        played = [cell for cell in choice.played.tolist() if cell not in choice.best]
        puzzles.append((choice.position, played, str(policy), loss))
    return _make_puzzles(solve(game), puzzles)


def from_games(
    games: Iterable[PlayedGame], player: str | None = None, *, solver: Callable[[Game], Solution] = solve
) -> Iterator[Puzzle]:
    """Yield the positions of games in which a move lost value, as puzzles; the first of symmetric ones.

    Args:
        games: played games; those on boards of more than 16 cells are left out.
        player: name of the player whose moves count, such as ``human``; None for both.
        solver: returns the solution of a game; it is called once for each of the games.
    """
    seen: set[tuple[Game, bytes]] = set()
    for played in games:
        game = played.game
        plies = [
            (position, cell)
            for position, cell, _ in played.positions()
            if player is None or played.players[position.mover] == player
        ]
        if game.cells > MAX_SOLVER_CELLS or not plies:
            continue
        solution, boards = solver(game), Boards.from_positions([position for position, _ in plies])
        values = solution.action_values(boards)
        loss = np.nanmax(values, axis=1) - values[np.arange(len(plies)), [cell for _, cell in plies]]
        found = []
        for (position, cell), lost in zip(plies, loss, strict=True):
            key = game, _class_key(game, position)
            if lost > VALUE_TOLERANCE and key not in seen:
                seen.add(key)
                found.append((position, [cell], played.players[position.mover], float(lost)))
        yield from _make_puzzles(solution, found)


def write_puzzles(path: Path, puzzles: Sequence[Puzzle], about: Mapping[str, Any]) -> None:
    """Write puzzles atomically to a JSON file, one per line.

    Args:
        path: the file.
        puzzles: the puzzles.
        about: JSON-ready: the command and the seed that made them.
    """
    data = {"format": 1, "kind": KIND, **about, "panel": list(PANEL), "puzzles": [one.to_dict() for one in puzzles]}
    data["sha256"] = hash_data(data)
    lines = ",\n".join(json.dumps(one, separators=(",", ":")) for one in data.pop("puzzles"))
    text = json.dumps(data, indent=1).removesuffix("\n}") + f',\n "puzzles": [\n{lines}\n]}}\n'
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, lambda file: file.write(text.encode()))


def read_puzzles(path: Path = FILE) -> list[Puzzle]:
    """Read a file of puzzles.

    Raises:
        OSError: no file, or one that cannot be read.
        ValueError: a damaged file.
    """
    return read_hashed_json(
        path,
        KIND,
        MAX_FILE_BYTES,
        lambda data: [Puzzle.from_dict(one) for one in data["puzzles"]],
        what="puzzles",
        remedy="make it again with evaluate.py puzzles --out",
    )


# ---------------------------------------------------------------------------------------------------------------------
# Construction


def _natural_puzzles(game: Game, seed: Sequence[int]) -> Iterator[Puzzle]:
    """Yield the puzzles among the positions of seeded games, one of each symmetry class, in order of the games."""
    positions = _game_positions(game, int(np.random.default_rng(seed).integers(1 << 31)))
    boards = Boards.from_positions(positions)
    natural, reasons = natural_moves(game, boards)
    solution = solve(game)
    values = solution.action_values(boards)
    top = np.nanmax(values, axis=1)
    loss = top - np.where(natural, values, -np.inf).max(axis=1)
    best = (values >= top[:, None] - VALUE_TOLERANCE).sum(axis=1)
    legal = boards.legal(game).sum(axis=1)
    rows = np.flatnonzero((loss >= MIN_LOSS) & (2 * best <= legal))
    chosen = [(positions[row], np.flatnonzero(natural[row]).tolist(), reasons[row], float(loss[row])) for row in rows]
    yield from _make_puzzles(solution, chosen, graded=True)


def _game_positions(game: Game, seed: int) -> list[Position]:
    """Return the positions of games between two players that see wins and blocks, one of each symmetry class."""
    games: list[PlayedGame] = []
    play_pairs(game, PLAYER, PLAYER, PAIRS, seed=seed, log=games.extend)
    positions: dict[tuple[bytes, int], Position] = {}
    for played in games:
        for position, _, _ in played.positions():
            positions.setdefault((position.cells.tobytes(), position.mover), position)
    boards = Boards.from_positions([*positions.values()])
    least, _ = canonical_keys(boards.own_first(), symmetries(game))
    _, first = np.unique(least, axis=0, return_index=True)
    return [boards.position(row) for row in sorted(first)]


def _make_puzzles(
    solution: Solution, found: Sequence[tuple[Position, list[int], str, float]], *, graded: bool = False
) -> list[Puzzle]:
    """Return puzzles of positions with their obvious moves, the reason, and the loss."""
    if not found:
        return []
    game, boards = solution.game, Boards.from_positions([position for position, *_ in found])
    values = solution.action_values(boards)
    wrong = _mistakes(game, boards, values) if graded else [{} for _ in found]
    return [
        Puzzle(game, position, values[row], _replies(solution, position), tuple(tempting), why, loss, wrong[row])
        for row, (position, tempting, why, loss) in enumerate(found)
    ]


def _mistakes(game: Game, boards: Boards, values: Float64Array) -> list[dict[str, float]]:
    """Return for each position the probability that each policy of the panel loses value."""
    bad = values < np.nanmax(values, axis=1, keepdims=True) - VALUE_TOLERANCE  # False where illegal
    shares = {name: (make_policy(name, game).probabilities(boards) * bad).sum(axis=1) for name in PANEL}
    return [{name: round(float(one[row]), 6) for name, one in shares.items()} for row in range(len(values))]


def _replies(solution: Solution, position: Position) -> tuple[tuple[int, ...], ...]:
    """Return by cell the best replies of the other player."""
    game, boards = solution.game, dict[int, Position]()
    for cell in np.flatnonzero(legal(game, position.cells)).tolist():
        cells = position.cells.copy()
        cells[cell] = position.mover + 1
        if winner(game, cells) is None:
            boards[cell] = Position(cells, 1 - position.mover)
    values = solution.action_values(Boards.from_positions(list(boards.values()))) if boards else ()
    best = {cell: _best_cells(row) for cell, row in zip(boards, values, strict=True)}
    return tuple(best.get(cell, ()) for cell in range(game.cells))


def _best_cells(values: Float64Array) -> tuple[int, ...]:
    return tuple(np.flatnonzero(values >= np.nanmax(values) - VALUE_TOLERANCE).tolist())


def _class_key(game: Game, position: Position) -> bytes:
    """Return a key that is equal for positions that symmetries or an exchange of colours map to each other."""
    least, _ = canonical_keys(Boards.from_positions([position]).own_first(), symmetries(game))
    return least.tobytes()


def _by_turns(puzzles: Sequence[Puzzle], rng: np.random.Generator) -> Iterator[Puzzle]:
    """Yield puzzles in random order, one of each level and reason in turn."""
    groups: dict[tuple[int, str], list[Puzzle]] = {}
    for place in rng.permutation(len(puzzles)):
        one = puzzles[place]
        groups.setdefault((one.level, one.why), []).append(one)
    waiting = [groups[key] for key in sorted(groups)]
    while any(waiting):
        for group in waiting:
            if group:
                yield group.pop()
