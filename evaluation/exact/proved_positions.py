"""Positions of boards too large to solve, with the proved result of every move, and tests of policies on them.

The positions come from seeded games between players of mixed strength. ``evaluation/data/proved_positions/GAME.json``
stores them with the result of each move under perfect play (:class:`~baselines.proof_number.Prover`). In each of them
some move keeps the result, a win or a draw, and some move gives it away.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from baselines.connect_four import MoveResults, landing_cells
from baselines.expectiminimax import Search
from baselines.proof_number import LOSS, TAKEN, TIED, WIN, Prover
from baselines.proof_number.winner import check_provable
from evaluation.exact.policy_cache import make_policy_once
from evaluation.result_store import hash_data, read_hashed_json
from evaluation.statistics import Interval, wilson
from ttt_envs.agents.policy import act
from ttt_envs.core.files import write_atomically
from ttt_envs.core.jit import BoolArray, Float64Array, Int8Array, Int64Array
from ttt_envs.core.parallel import Jobs, map_blocks, results_in_order
from ttt_envs.game import rules
from ttt_envs.game.boards import Boards, from_text, to_text
from ttt_envs.game.rules import NOT_OVER, Game, Position, place
from ttt_envs.game.symmetry import canonical_keys, symmetries

PROVED_POSITIONS_FOLDER = Path(__file__).parents[1] / "data" / "proved_positions"
MAX_FILE_BYTES = 1 << 22
"""Maximum size of a file of positions in bytes."""
LETTERS = {WIN: "w", TIED: "d", LOSS: "l", TAKEN: "."}
"""Letters of the results of moves."""
RESULTS = {"w": "win", "d": "draw"}
"""Names of the results of positions."""
SEARCH_DEPTH = 5
"""Depth in plies of the search for short wins and losses."""
PLAYERS = ("random", "win-or-block", "expectiminimax:depth=2", "mcts:simulations=100,reuse=false")
"""Players of the games that give the positions; each seat draws one."""
_BLOCK = 25  # candidates, or positions, in a block of work
QUERY_SIZE = 100
"""Number of positions per query of a policy; the moves of impure policies depend on it."""


@dataclass(frozen=True)
class PositionSetPlan:
    """Definition of a set of positions.

    Attributes:
        game: without skips.
        stones: minimum and maximum number of stones on the board.
        count: number of positions.
        seen: maximum number of positions decided within 2 plies: a threat of a line that must be blocked.
        wins: maximum number of won positions.
        nodes: maximum number of positions visited by a proof.
        seed: seed of all random numbers.
        players: players of the games that give the positions; each seat draws one.
    """

    game: Game
    stones: tuple[int, int]
    count: int = 1000
    seen: int = 200
    wins: int = 500
    nodes: int = 20_000
    seed: int = 1
    players: tuple[str, ...] = PLAYERS


PLANS: Mapping[str, PositionSetPlan] = {
    plan.game.slug: plan
    for plan in (
        PositionSetPlan(Game(5, 5, 4), (4, 16)),
        PositionSetPlan(Game(5, 6, 4), (4, 20)),
        PositionSetPlan(Game(6, 6, 5), (10, 26)),
        PositionSetPlan(Game(7, 7, 5), (16, 34)),
        PositionSetPlan(Game(6, 7, 4, gravity=True), (10, 28), 500, 100, 400, 1_000_000, players=PLAYERS[:2]),
    )
}
"""Definitions of the sets by name."""


class ProvedPosition(NamedTuple):
    """A position in which the result of every move is proved."""

    text: str
    """the position, in the format of boards.from_text"""
    moves: str
    """result of a move in every cell for the mover under perfect play: w, d or l; . where no stone may be put"""
    plies: int
    """plies to the end of the quickest win, or in a drawn position of the slowest loss; 0 beyond ``SEARCH_DEPTH``"""

    @property
    def result(self) -> str:
        """Result of the position under perfect play, for the mover: w or d."""
        return "w" if "w" in self.moves else "d"

    @property
    def stones(self) -> int:
        """Number of stones on the board."""
        board = self.text.partition(" ")[0]
        return board.count("o") + board.count("x")

    def __str__(self) -> str:
        return f"{self.text} {self.moves} {self.plies}"


@dataclass(frozen=True)
class Positions:
    """A set of proved positions.

    Attributes:
        game: the game.
        proven: the positions.
        data: the file, as JSON-ready data.
    """

    game: Game
    proven: Sequence[ProvedPosition]
    data: Mapping[str, Any]

    @property
    def boards(self) -> Boards:
        """The positions as a batch."""
        return Boards.from_positions(from_text(one.text, self.game) for one in self.proven)

    @property
    def keeps(self) -> BoolArray:
        """bool[B, cells]: the moves that keep the result."""
        return np.array([[letter == one.result for letter in one.moves] for one in self.proven])


def read_proved(name: str | Path) -> Positions:
    """Read a built-in set by its name, or one in a ``.json`` file.

    Raises:
        OSError: no file, or one that cannot be read.
        ValueError: no such set, a damaged file.
    """
    path = Path(name) if str(name).endswith(".json") else PROVED_POSITIONS_FOLDER / f"{name}.json"
    if path.parent == PROVED_POSITIONS_FOLDER and str(name) not in PLANS:
        raise ValueError(f"there are no proven positions of {name}: choose {', '.join(PLANS)}, or a .json file")
    remedy = "reinstall ttt_envs, or make it again"
    return read_hashed_json(path, "proved positions", MAX_FILE_BYTES, _parse, what="proven positions", remedy=remedy)


def _parse(data: dict[str, Any]) -> Positions:
    game = Game.from_dict(data["game"])
    proven = [_read(line, game) for line in data["positions"]]
    if not proven:
        raise ValueError("it has none")
    if type(data["drawn"]) is not int or not isinstance(data["left_out"], dict) or "command" not in data:
        raise ValueError("it does not tell how many were drawn")
    return Positions(game, proven, data)


def _read(line: object, game: Game) -> ProvedPosition:
    if not isinstance(line, str):
        raise ValueError("it has a position that is no text")
    board, mover, moves, plies = line.split(" ")
    found = ProvedPosition(f"{board} {mover}", moves, int(plies))
    legal = rules.legal(game, from_text(found.text, game).cells)
    if [letter != "." for letter in moves] != legal.tolist() or set(moves) - set("wdl."):
        raise ValueError(f"{line[:200]!r} tells no result for every move")
    return found


# ---------------------------------------------------------------------------------------------------------------------
# Construction


def make_proved(
    name: str,
    plan: PositionSetPlan,
    folder: Path,
    provenance: Mapping[str, Any],
    *,
    jobs: Jobs = 1,
    progress: Callable[[int, int], None] | None = None,
) -> Positions:
    """Draw positions, prove them, and write them to ``NAME.json`` in a folder, independent of the workers.

    Args:
        name: of the set.
        plan: the definition of the set.
        folder: folder of the file.
        provenance: JSON-ready: versions and code.
        jobs: the workers.
        progress: called with the number of positions so far, and the total.

    Raises:
        ValueError: a game with skips, or on more than 64 cells.
    """
    if not plan.game.gravity:
        check_provable(plan.game)
    accepted: list[ProvedPosition] = []
    seen: set[bytes] = set()
    counts: Counter[str] = Counter()

    def blocks() -> Iterator[tuple[PositionSetPlan, int]]:
        first = 0
        while True:
            yield plan, first
            first += _BLOCK

    work = map_blocks(_candidates, blocks(), jobs)
    with closing(work):
        for found in (one for block in results_in_order(work) for one in block):
            if len(accepted) == plan.count:
                break
            counts["drawn"] += 1
            why = found if isinstance(found, str) else _rejection(found, plan, counts, seen)
            if why:
                counts[why] += 1
                continue
            assert isinstance(found, ProvedPosition)
            seen.add(_class_key(plan.game, found))
            counts[found.result] += 1
            counts["quick"] += 0 < found.plies <= 2
            accepted.append(found)
            if progress is not None:
                progress(len(accepted), plan.count)
    accepted.sort(key=lambda one: (one.stones, one.text))
    left_out = {why: counts[why] for why in LEFT_OUT}
    data = {
        "format": 1,
        "kind": "proved positions",
        "name": name,
        "game": plan.game.to_dict(),
        "seed": plan.seed,
        "nodes": plan.nodes,
        "stones": list(plan.stones),
        "players": list(plan.players),
        "command": f"evaluate.py proved-positions --make --size {plan.game.rows}x{plan.game.columns}",
        "provenance": dict(provenance),
        "drawn": counts["drawn"],
        "left_out": left_out,
        "positions": [str(one) for one in accepted],
    }
    content = json.dumps({**data, "sha256": hash_data(data)}, indent=1) + "\n"
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / f"{name}.json", lambda file: file.write(content.encode()))
    return read_proved(folder / f"{name}.json")


OVER, AT_ONCE, UNDECIDED, ALIKE = "over before", "won at once", "undecided", "all moves alike"
TWICE, QUICK, WON, DRAWN = "seen before", "too many seen in 2 plies", "too many won", "too many drawn"
LEFT_OUT = (OVER, AT_ONCE, UNDECIDED, ALIKE, TWICE, QUICK, WON, DRAWN)
"""Reasons for rejecting a drawn position."""


def _rejection(found: ProvedPosition, plan: PositionSetPlan, counts: Mapping[str, int], seen: set[bytes]) -> str:
    """Return the reason for rejecting a proved position, or ""."""
    if _class_key(plan.game, found) in seen:
        return TWICE
    if 0 < found.plies <= 2 and counts.get("quick", 0) == plan.seen:
        return QUICK
    if found.result == "w":
        return WON if counts.get("w", 0) == plan.wins else ""
    return DRAWN if counts.get("d", 0) == plan.count - plan.wins else ""


def _class_key(game: Game, one: ProvedPosition) -> bytes:
    """Return a key that is equal for symmetric positions."""
    least, _ = canonical_keys(from_text(one.text, game).cells[None], symmetries(game))
    return least.tobytes()


def _candidates(plan: PositionSetPlan, first: int) -> list[ProvedPosition | str]:
    """Return a block of candidates: proved positions, or reasons for rejection."""
    return [_candidate(plan, number) for number in range(first, first + _BLOCK)]


def _candidate(plan: PositionSetPlan, number: int) -> ProvedPosition | str:
    game, rng = plan.game, np.random.default_rng([plan.seed, number])
    position = _sample_position(plan, int(rng.integers(plan.stones[0], plan.stones[1] + 1)), rng)
    if position is None:
        return OVER
    if game.gravity:
        return _candidate_of_connect_four(game, position, plan.nodes)
    if _wins_at_once(game, position):
        return AT_ONCE
    results = Prover(game, plan.nodes).results(position)
    if results is None:
        return UNDECIDED
    legal = results[results != TAKEN]
    if legal.min() == legal.max():
        return ALIKE
    return ProvedPosition(to_text(position, game), results_to_letters(results), _plies(game, position, results))


def _candidate_of_connect_four(game: Game, position: Position, nodes: int) -> ProvedPosition | str:
    prover = MoveResults(game, nodes)
    scores = prover.scores(position)
    if scores is None:
        return UNDECIDED
    results = _to_results(game, position, scores)
    known = [score for score in scores if score is not None]
    stones = int(np.count_nonzero(position.cells))
    if prover.distance(max(known), stones) == 1 and max(known) > 0:
        return AT_ONCE
    if len({np.sign(score) for score in known}) == 1:
        return ALIKE
    decisive = max(known) if max(known) > 0 else max(score for score in known if score < 0)
    plies = prover.distance(decisive, stones)
    return ProvedPosition(to_text(position, game), results_to_letters(results), plies if plies <= SEARCH_DEPTH else 0)


def _to_results(game: Game, position: Position, scores: Sequence[int | None]) -> Int8Array:
    """Return int8[cells]: the results of moves from the scores of columns; ``TAKEN`` where a stone cannot be put."""
    results = np.full(game.cells, TAKEN, np.int8)
    for cell, score in zip(landing_cells(game, position), scores, strict=True):
        if score is not None:
            results[cell] = np.sign(score)
    return results


def results_to_letters(results: Int8Array) -> str:
    """Format the results of all moves as letters."""
    return "".join(LETTERS[int(result)] for result in results)


def _sample_position(plan: PositionSetPlan, stones: int, rng: np.random.Generator) -> Position | None:
    """Return the position of a game after ``stones`` stones; None if the game was over before."""
    game = plan.game
    players = [make_policy_once(game, plan.players[int(rng.integers(len(plan.players)))]) for _ in range(2)]
    cells, mover = np.zeros(game.cells, np.int8), 0
    for ply in range(stones):
        player = players[mover] if ply >= 2 else make_policy_once(game, "random")
        move = int(act(player, Boards.from_positions([Position(cells, mover)]), rng)[0])
        if place(cells, mover, move, ply, game.parameters) != NOT_OVER:
            return None
        mover = 1 - mover
    return Position(cells, mover)


def _wins_at_once(game: Game, position: Position) -> bool:
    search = Search(game, Boards.from_positions([position]))
    search.run(1)
    return bool(np.nanmax(search.move_values) == 1)


def _plies(game: Game, position: Position, results: Int8Array) -> int:
    """Return the ``plies`` of :class:`ProvedPosition`, by a search over all moves that counts the plies to an end."""
    search = Search(game, Boards.from_positions([position]))
    search.run(SEARCH_DEPTH)
    values = search.move_values[0]
    if WIN in results:
        return (
            int(SEARCH_DEPTH - values.max(where=results == WIN, initial=-SEARCH_DEPTH) + 1)
            if np.nanmax(values) >= 1
            else 0
        )
    slowest = values[results == LOSS].max()
    return int(SEARCH_DEPTH + slowest + 1) if slowest <= -1 else 0


# ---------------------------------------------------------------------------------------------------------------------
# Verification


def prove_again(
    positions: Positions,
    sample: int | None = None,
    *,
    jobs: Jobs = 1,
    progress: Callable[[int, int], None] | None = None,
) -> int:
    """Prove positions again, without a limit on the number of nodes.

    Args:
        positions: a set of them.
        sample: number of positions, evenly spaced; None for all.
        jobs: the workers.
        progress: called with the number done, and the total.

    Returns:
        The number of proved positions.

    Raises:
        ValueError: a position with other results.
    """
    chosen = _evenly_spaced(positions.proven, sample)
    blocks = ((positions.game, chosen[start : start + _BLOCK]) for start in range(0, len(chosen), _BLOCK))
    done = 0
    with closing(map_blocks(_first_difference, blocks, jobs)) as work:
        for _, wrong in work:
            if wrong:
                raise ValueError(f"the results of moves differ from those stored in {wrong}: reinstall ttt_envs")
            done = min(done + _BLOCK, len(chosen))
            if progress is not None:
                progress(done, len(chosen))
    return len(chosen)


def _evenly_spaced(proven: Sequence[ProvedPosition], sample: int | None) -> Sequence[ProvedPosition]:
    if sample is None or sample >= len(proven):
        return proven
    if sample < 1:
        raise ValueError(f"sample={sample} proves nothing: choose 1 or more positions")
    return [proven[len(proven) * i // sample] for i in range(sample)]


def _first_difference(game: Game, proven: Sequence[ProvedPosition]) -> str:
    """Return the first position with other results, or ""."""
    for one in proven:
        results = _prove(game, from_text(one.text, game))
        if results is None or results_to_letters(results) != one.moves:
            return str(one)
    return ""


def _prove(game: Game, position: Position) -> Int8Array | None:
    """Return the results of all moves without a limit on the number of nodes."""
    if not game.gravity:
        return Prover(game, nodes=1 << 40).results(position)
    scores = MoveResults(game, nodes=1 << 40).scores(position)
    return None if scores is None else _to_results(game, position, scores)


# ---------------------------------------------------------------------------------------------------------------------
# Evaluation of policies


class KeepRate(NamedTuple):
    """Rate at which a policy keeps the proved result."""

    positions: int
    share: Interval
    """share of positions in which the result is kept; a position counts by the probability of moves that keep it"""


def keep_probabilities(game: Game, policy: str, positions: Positions, *, seed: int = 0, jobs: Jobs = 1) -> Float64Array:
    """Return the probability float64[B] that a policy keeps the proved result.

    For an impure policy it is 1 or 0, by a sampled move.

    Args:
        game: of the positions.
        policy: a spec string.
        positions: the positions.
        seed: seed of all random numbers.
        jobs: the workers.

    Raises:
        ValueError: an unknown policy.
    """
    boards, keeps = positions.boards, positions.keeps
    make_policy_once(game, policy)  # reports errors before the workers start
    starts = range(0, len(keeps), QUERY_SIZE)
    parts = (np.arange(start, min(start + QUERY_SIZE, len(keeps))) for start in starts)
    blocks = ((game, policy, boards.take(rows), keeps[rows], [seed, int(rows[0])]) for rows in parts)
    return np.concatenate(list(results_in_order(map_blocks(_block_probabilities, blocks, jobs))))


def _block_probabilities(game: Game, spec: str, boards: Boards, keeps: BoolArray, seed: list[int]) -> Float64Array:
    policy, rng = make_policy_once(game, spec), np.random.default_rng(seed)
    if policy.pure:
        shares: Float64Array = np.where(keeps, policy.probabilities(boards), 0).sum(axis=1)
        return shares
    moves = act(policy, boards, rng)
    return keeps[np.arange(len(moves)), moves].astype(np.float64)


def summarize(positions: Positions, shares: Float64Array) -> dict[str, dict[str, KeepRate]]:
    """Summarize how often the result is kept: in total, by proved result, by stones, and by plies to the end.

    Args:
        positions: a set of them.
        shares: of :func:`keep_probabilities`.
    """
    proven = positions.proven
    stones: Int64Array = np.array([one.stones for one in proven])
    plies: Int64Array = np.array([one.plies for one in proven])
    result = np.array([one.result for one in proven])
    low, high = int(stones.min()), int(stones.max())
    edges = [low + (high + 1 - low) * i // 3 for i in range(4)]
    groups: dict[str, dict[str, BoolArray]] = {
        "all": {"all": np.ones(len(proven), np.bool_)},
        "result": {words: result == letter for letter, words in RESULTS.items()},
        "stones": {f"{a} to {b - 1}": (a <= stones) & (stones < b) for a, b in pairwise(edges)},
        "plies": {
            "up to 2": (plies > 0) & (plies <= 2),
            f"3 to {SEARCH_DEPTH}": plies > 2,
            f"more than {SEARCH_DEPTH}": plies == 0,
        },
    }
    return {
        kind: {words: _keep_rate(shares[rows]) for words, rows in group.items() if rows.any()}
        for kind, group in groups.items()
    }


def _keep_rate(shares: Float64Array) -> KeepRate:
    return KeepRate(len(shares), wilson(min(1.0, float(shares.mean())), len(shares)))
