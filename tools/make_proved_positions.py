"""Makes the proved positions of ``ttt_eval/data/proved_positions``, or proves them again.

``python tools/make_proved_positions.py 5x5-4 --out runs/proved-positions`` draws positions from
seeded games between players of mixed strength and proves the result of every move; with ``--again``
it proves the stored ones again. Without names it takes all sets. The same version makes the same
files, for any number of workers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path
from typing import Any

import numpy as np
import tyro

from baselines.connect_four import Solver
from baselines.expectiminimax import Search
from baselines.proof_number import LOSS, TAKEN, TIED, UNDECIDED, WIN, Prover, check_provable
from ttt_envs.agents.policy import act
from ttt_envs.core.files import read_table, write_json
from ttt_envs.core.jit import Int8Array
from ttt_envs.core.parallel import Jobs, map_blocks, results_in_order
from ttt_envs.game.boards import Boards, from_text, to_text
from ttt_envs.game.game import Game, Position
from ttt_envs.game.rules import NOT_OVER, place
from ttt_envs.game.symmetry import canonical_keys, symmetries
from ttt_eval.exact.policy_cache import make_policy_once
from ttt_eval.exact.proved_positions import (
    SEARCH_DEPTH,
    SETS,
    Positions,
    ProvedPosition,
    read_proved,
)
from ttt_eval.store.result_store import with_hash
from ttt_eval.store.versions import make_provenance

LETTERS = {WIN: "w", TIED: "d", LOSS: "l", TAKEN: "."}
"""Letters of the results of moves."""
QUICK = "quick"
"""Kind of the positions that are decided within 2 plies."""
BLOCK = 25
"""Number of candidates in a block of work."""


@dataclass(frozen=True)
class PositionSetPlan:
    """Definition of a set of positions.

    Attributes:
        game: without skips.
        stones: minimum and maximum number of stones on the board.
        count: number of positions.
        quick: maximum number of positions decided within 2 plies: a threat of a line that must be
            blocked.
        wins: maximum number of won positions.
        nodes: maximum number of positions visited by a proof.
        seed: seed of all random numbers.
        players: players of the games that give the positions; each seat draws one.
    """

    game: Game
    stones: Sequence[int]
    count: int = 1000
    quick: int = 200
    wins: int = 500
    nodes: int = 20_000
    seed: int = 1
    players: Sequence[str] = (
        "random",
        "win-or-block",
        "expectiminimax:depth=2",
        "mcts:simulations=100,reuse=false",
    )


PLANS: Mapping[str, PositionSetPlan] = {
    name: PositionSetPlan(SETS[name], **plan) for name, plan in read_table(__file__).items()
}
"""Definitions of the sets by name."""


def make_proved(
    name: str, plan: PositionSetPlan, folder: Path, provenance: Mapping[str, Any], *, jobs: Jobs = 1
) -> Positions:
    """Draw positions, prove them, and write them to ``NAME.json`` in a folder, independent of the
    workers.

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
    limits = {"w": plan.wins, "d": plan.count - plan.wins, QUICK: plan.quick}
    accepted: dict[bytes, ProvedPosition] = {}
    num_drawn = 0
    counts: Counter[str] = Counter()
    with closing(
        map_blocks(_candidates, ((plan, first) for first in count(0, BLOCK)), jobs)
    ) as work:
        for candidate in chain.from_iterable(results_in_order(work)):
            if len(accepted) == plan.count:
                break
            num_drawn += 1
            if candidate is not None:
                cells = from_text(candidate.text, plan.game).cells[None]
                # the same of all symmetric positions
                keys, *_ = canonical_keys(cells, symmetries(plan.game))
                key = keys.tobytes()
                kinds = [candidate.result]
                if 0 < candidate.plies <= 2:
                    kinds.append(QUICK)
                if key not in accepted and all(counts[kind] < limits[kind] for kind in kinds):
                    counts.update(kinds)
                    accepted[key] = candidate
    data = {
        "name": name,
        "game": plan.game.to_dict(),
        "seed": plan.seed,
        "nodes": plan.nodes,
        "stones": list(plan.stones),
        "players": list(plan.players),
        "command": f"tools/make_proved_positions.py {name}",
        "provenance": dict(provenance),
        "drawn": num_drawn,
        "positions": [
            str(row) for row in sorted(accepted.values(), key=lambda row: (row.stones, row.text))
        ],
    }
    write_json(folder / f"{name}.json", with_hash("proved positions", data), indent=1)
    return read_proved(folder / f"{name}.json")


def _candidates(plan: PositionSetPlan, first: int) -> list[ProvedPosition | None]:
    """Return a block of candidates; None for positions that are over or not suitable."""
    candidates: list[ProvedPosition | None] = []
    for number in range(first, first + BLOCK):
        rng = np.random.default_rng([plan.seed, number])
        position = _sample_position(
            plan, int(rng.integers(plan.stones[0], plan.stones[1] + 1)), rng
        )
        candidates.append(
            None if position is None else prove_position(plan.game, position, plan.nodes)
        )
    return candidates


def prove_position(game: Game, position: Position, nodes: int) -> ProvedPosition | None:
    """Return a position with the results of its moves; None if it is won at once, undecided, or all
    moves are alike.
    """
    search = Search(game, Boards.from_positions([position]))
    search.run(1)
    results = None if np.nanmax(search.move_values) == 1 else _results(game, position, nodes)
    if results is None or len(set(results[results != TAKEN])) == 1:
        return None
    return ProvedPosition(
        to_text(position, game), results_to_letters(results), count_plies(game, position, results)
    )


def _results(game: Game, position: Position, nodes: int) -> Int8Array | None:
    """Return int8[cells]: the results of all moves; None if so many nodes are not enough."""
    if not game.gravity:
        results = Prover(game, nodes).results(position)
        return None if (results == UNDECIDED).any() else results
    results = np.full(game.cells, TAKEN, np.int8)
    for cell, bound in Solver(game, memory=1 << 23).scores(position, nodes=nodes).items():
        if bound.score is None:
            return None
        results[cell] = np.sign(bound.score)
    return results


def results_to_letters(results: Int8Array) -> str:
    """Format the results of all moves as letters."""
    return "".join(LETTERS[int(result)] for result in results)


def _sample_position(
    plan: PositionSetPlan, stones: int, rng: np.random.Generator
) -> Position | None:
    """Return the position of a game after ``stones`` stones; None if the game was over before."""
    game = plan.game
    players = [
        make_policy_once(game, plan.players[int(rng.integers(len(plan.players)))]) for _ in range(2)
    ]
    cells = np.zeros(game.cells, np.int8)
    mover = 0
    for ply in range(stones):
        player = players[mover] if ply >= 2 else make_policy_once(game, "random")
        move = int(act(player, Boards.from_positions([Position(cells, mover)]), rng)[0])
        if place(cells, mover, move, ply, game.parameters) != NOT_OVER:
            return None
        mover = 1 - mover
    return Position(cells, mover)


def count_plies(game: Game, position: Position, results: Int8Array) -> int:
    """Return the ``plies`` of :class:`ProvedPosition`, by a search over all moves that counts the
    plies to an end.
    """
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
    sample_positions = [positions.proven[total * i // number] for i in range(number)]
    with closing(
        map_blocks(
            _prove_again, ((positions.game, position.text) for position in sample_positions), jobs
        )
    ) as work:
        for position, moves in zip(sample_positions, results_in_order(work), strict=True):
            if moves != position.moves:
                raise ValueError(
                    f"the results of moves differ from those stored in {position}: "
                    "reinstall ttt_envs"
                )
    return number


def _prove_again(game: Game, text: str) -> str:
    """Return the letters of a position's results, found without a limit on the number of nodes."""
    results = _results(game, from_text(text, game), 1 << 40)
    return "" if results is None else results_to_letters(results)


def main(
    names: tyro.conf.Positional[tuple[str, ...]] = tuple(PLANS),
    *,
    out: Path = Path("runs", "proved-positions"),
    again: tyro.conf.FlagCreatePairsOff[bool] = False,
    sample: int | None = None,
    jobs: int = 1,
) -> None:
    """Make sets of positions, or prove stored ones again.

    Args:
        names: of the sets.
        out: folder of the files.
        again: prove the stored positions again.
        sample: number of positions of each set, evenly spaced, to prove again; None for all.
        jobs: number of processes.
    """
    for name in names:
        if again:
            number = prove_again(read_proved(name), sample, jobs=jobs)
            print(f"{name}: {number:,} positions proved again, with the stored results")
        else:
            make_proved(name, PLANS[name], out, make_provenance(), jobs=jobs)
            print(f"written: {out / name}.json")


if __name__ == "__main__":
    tyro.cli(main)
