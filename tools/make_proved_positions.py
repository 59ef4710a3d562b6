"""Makes the proved positions of ``ttt_eval/data/proved_positions``, or proves them again.

``python tools/make_proved_positions.py 5x5-4 --out runs/proved-positions`` draws positions from seeded games between
players of mixed strength and proves the result of every move; with ``--again`` it proves the stored ones again. Without
names it takes all sets. The same version makes the same files, for any number of workers.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from baselines.connect_four import Solver, landing_cells
from baselines.expectiminimax import Search
from baselines.proof_number import LOSS, TAKEN, TIED, WIN, Prover
from baselines.proof_number.prover import check_provable
from ttt_apps.versions import make_provenance
from ttt_envs.agents.policy import act
from ttt_envs.core.files import write_atomically
from ttt_envs.core.jit import Int8Array
from ttt_envs.core.parallel import Jobs, map_blocks, results_in_order
from ttt_envs.game.boards import Boards, from_text, to_text
from ttt_envs.game.game import Game, Position
from ttt_envs.game.rules import NOT_OVER, place
from ttt_envs.game.symmetry import canonical_keys, symmetries
from ttt_eval.exact.policy_cache import make_policy_once
from ttt_eval.exact.proved_positions import SEARCH_DEPTH, SETS, Positions, ProvedPosition, read_proved
from ttt_eval.result_store import hash_data

LETTERS = {WIN: "w", TIED: "d", LOSS: "l", TAKEN: "."}
"""Letters of the results of moves."""
PLAYERS = ("random", "win-or-block", "expectiminimax:depth=2", "mcts:simulations=100,reuse=false")
"""Players of the games that give the positions; each seat draws one."""
BLOCK = 25
"""Number of candidates, or positions, in a block of work."""


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
        PositionSetPlan(SETS["5x5-4"], (4, 16)),
        PositionSetPlan(SETS["5x6-4"], (4, 20)),
        PositionSetPlan(SETS["6x6-5"], (10, 26)),
        PositionSetPlan(SETS["7x7-5"], (16, 34)),
        PositionSetPlan(SETS["6x7-4-gravity"], (10, 28), 500, 100, 400, 1_000_000, players=PLAYERS[:2]),
    )
}
"""Definitions of the sets by name."""


def make_proved(
    name: str,
    plan: PositionSetPlan,
    folder: Path,
    provenance: Mapping[str, Any],
    *,
    jobs: Jobs = 1,
) -> Positions:
    """Draw positions, prove them, and write them to ``NAME.json`` in a folder, independent of the workers.

    Args:
        name: of the set.
        plan: the definition of the set.
        folder: folder of the file.
        provenance: JSON-ready: versions and code.
        jobs: the workers.

    Raises:
        ValueError: a game with skips, or on more than 64 cells.
    """
    if not plan.game.gravity:
        check_provable(plan.game)
    accepted: list[ProvedPosition] = []
    seen: set[bytes] = set()
    counts: Counter[str] = Counter()
    work = map_blocks(_candidates, ((plan, first) for first in count(0, BLOCK)), jobs)
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
    accepted.sort(key=lambda one: (one.stones, one.text))
    data = {
        "format": 1,
        "kind": "proved positions",
        "name": name,
        "game": plan.game.to_dict(),
        "seed": plan.seed,
        "nodes": plan.nodes,
        "stones": list(plan.stones),
        "players": list(plan.players),
        "command": f"tools/make_proved_positions.py {name}",
        "provenance": dict(provenance),
        "drawn": counts["drawn"],
        "left_out": {why: counts[why] for why in LEFT_OUT},
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
    return [_candidate(plan, number) for number in range(first, first + BLOCK)]


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
    solver = Solver(game, memory=1 << 23)
    scores = _scores(solver, position, nodes)
    if scores is None:
        return UNDECIDED
    results = _to_results(game, position, scores)
    known = [score for score in scores if score is not None]
    stones = int(np.count_nonzero(position.cells))
    if solver.distance(max(known), stones) == 1 and max(known) > 0:
        return AT_ONCE
    if len({np.sign(score) for score in known}) == 1:
        return ALIKE
    decisive = max(known) if max(known) > 0 else max(score for score in known if score < 0)
    plies = solver.distance(decisive, stones)
    return ProvedPosition(to_text(position, game), results_to_letters(results), plies if plies <= SEARCH_DEPTH else 0)


def _scores(solver: Solver, position: Position, nodes: int) -> list[int | None] | None:
    """Return for each column the score of a stone there, None if it is full; or None if ``nodes`` are not enough."""
    bounds = solver.scores(position, nodes=nodes)
    if any(found is not None and found.score is None for found in bounds):
        return None
    return [found and found.score for found in bounds]


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
        quickest = values.max(where=results == WIN, initial=-SEARCH_DEPTH)
        return int(SEARCH_DEPTH - quickest + 1) if np.nanmax(values) >= 1 else 0
    slowest = values[results == LOSS].max()
    return int(SEARCH_DEPTH + slowest + 1) if slowest <= -1 else 0


def prove_again(positions: Positions, sample: int | None = None, *, jobs: Jobs = 1) -> int:
    """Prove positions again, without a limit on the number of nodes.

    Args:
        positions: a set of them.
        sample: number of positions, evenly spaced; None for all.
        jobs: the workers.

    Returns:
        The number of proved positions.

    Raises:
        ValueError: a position with other results.
    """
    total = len(positions.proven)
    number = total if sample is None else min(sample, total)
    if number < 1:
        raise ValueError(f"sample={sample} proves nothing: choose 1 or more positions")
    chosen = [positions.proven[total * i // number] for i in range(number)]
    blocks = ((positions.game, chosen[start : start + BLOCK]) for start in range(0, number, BLOCK))
    with closing(map_blocks(_first_difference, blocks, jobs)) as work:
        for _, wrong in work:
            if wrong:
                raise ValueError(f"the results of moves differ from those stored in {wrong}: reinstall ttt_envs")
    return number


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
    scores = _scores(Solver(game, memory=1 << 23), position, 1 << 40)
    return None if scores is None else _to_results(game, position, scores)


def main(arguments: Sequence[str] | None = None) -> None:
    """Make sets of positions, or prove stored ones again."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(PLANS)}; default: all")
    parser.add_argument("--out", type=Path, default=Path("runs", "proved-positions"), help="folder of the files")
    parser.add_argument("--again", action="store_true", help="prove the stored positions again")
    parser.add_argument("--sample", type=int, help="number of positions of each set, evenly spaced, to prove again")
    parser.add_argument("--jobs", type=int, default=1, help="number of processes")
    options = parser.parse_args(arguments)
    for name in options.names or PLANS:
        if options.again:
            number = prove_again(read_proved(name), options.sample, jobs=options.jobs)
            print(f"{name}: {number:,} positions proved again, with the stored results")
        else:
            make_proved(name, PLANS[name], options.out, make_provenance(), jobs=options.jobs)
            print(f"written: {options.out / name}.json")


if __name__ == "__main__":
    main()
