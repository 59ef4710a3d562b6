"""Panels of the explorer: the values of all moves of a position, by one method each."""

from __future__ import annotations

import logging
import threading
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np

from baselines.compression import (
    Compressed,
    Decomposition,
    decomposition,
    default_rank,
    largest_rank,
    make_grouping,
)
from baselines.connect_four import Solver, is_solvable
from baselines.expectiminimax import Expectiminimax
from baselines.mcts import MCTS
from baselines.proof_number import MAX_PROOF_CELLS, TAKEN, UNDECIDED, Prover
from baselines.tables import Softmax, Table, source_values
from learners.checkpoint import policy_name
from ttt_apps.cli.help import installed_names
from ttt_apps.explorer.policies import MAX_TABLE_CELLS, check_spec, check_table, max_depth
from ttt_apps.explorer.root import Root
from ttt_apps.explorer.schemas import PanelRequest
from ttt_apps.explorer.solutions import (
    SEARCH_BYTES,
    Solutions,
    first_stones,
    why_no_values,
)
from ttt_envs.agents.policy import Policy
from ttt_envs.agents.specs import make_policy
from ttt_envs.core.checks import Refusal
from ttt_envs.core.jit import Float64Array, Int8Array
from ttt_envs.core.lru_cache import LRUCache
from ttt_envs.game.boards import Boards
from ttt_envs.game.game import Game, Position
from ttt_eval.exact.strength import choice_in
from ttt_eval.runs.run_files import RunDirectory, run_folder
from ttt_eval.store.result_store import json_numbers

REFUSALS = Refusal, OSError, MemoryError
"""Errors of what is asked for; all others are those of the server."""
MAX_NODES = 2_000_000
"""Maximum number of positions per search for one panel."""
SLICE = 1 << 17
"""Number of positions of such a search between two checks."""
MAX_TABLES = 32
"""Maximum number of cached tables."""
MAX_POLICIES = 16
"""Maximum number of cached policies."""
MAX_SOLVERS = 4
"""Maximum number of cached solvers of Connect Four."""
CONNECT_FOUR_NODES = 20
"""Number of positions of Connect Four that are searched in the time of one of a proof."""
HORIZON = (
    "These are scores, not values: 0.50 is the better line where the search ends, 1.00 or more a "
    "win before."
)
"""What is said of the scores of expectiminimax."""

Check = Callable[[int], None]
"""Takes the number of positions of a search so far; raises CancelledError if nobody waits for the
answer any more.
"""


def to_sentence(problem: Exception) -> str:
    """Return what a visitor is told of an error; one of the server goes to the log."""
    if isinstance(problem, REFUSALS):
        return installed_names(str(problem).partition("\n")[0]) or type(problem).__name__
    logging.getLogger(__name__).error("an error of the server", exc_info=problem)
    return "this cannot be answered because of an error of the server: see its log"


def why_not_proved(game: Game) -> str | None:
    """Return the condition that a game without proofs does not meet; None if there are proofs."""
    if game.skip_chance > 0:
        return "games without skips"
    if game.variants.keys() - {"gravity"}:
        return "the standard rules, also with gravity"
    is_small = is_solvable(game) if game.gravity else game.cells <= MAX_PROOF_CELLS
    return None if is_small else f"up to {MAX_PROOF_CELLS} cells, with gravity up to 6 x 9"


def refused_panels(game: Game, *, has_values: bool) -> dict[str, str]:
    """Return the kinds of panels that a game does not have, each with the condition that the game
    does not meet.

    Args:
        game: the game.
        has_values: whether there are exact values, or may be.
    """
    reasons: dict[str, str] = {}
    if not has_values:
        reasons["exact"] = why_no_values(game)
    condition = why_not_proved(game)
    if condition is not None:
        reasons["prove"] = condition
    if game.cells > MAX_TABLE_CELLS:
        reasons |= dict.fromkeys(("random", "compressed"), f"up to {MAX_TABLE_CELLS} cells")
    return reasons


def panel_json(
    values: Float64Array, notes: list[str], word: str = "value", **extras: object
) -> dict[str, object]:
    """Return the numbers of the moves, None where there is none.

    Args:
        values: float64[cells], NaN where there is none.
        notes: sentences about them.
        word: what they are: ``value``, ``result``, ``score``, ``visits`` or ``probability``.
        **extras: what else the page shows.
    """
    return {"values": json_numbers(values), "word": word, "notes": notes, **extras}


class Panels:
    """Computes panels.

    Args:
        root: folder of runs.
        solutions: exact values.
    """

    def __init__(self, root: Root, solutions: Solutions) -> None:
        self._root = root
        self._solutions = solutions
        self._tables: LRUCache[Table] = LRUCache(MAX_TABLES)
        self._compressed_tables: LRUCache[Compressed] = LRUCache(MAX_TABLES)
        self._decompositions: LRUCache[Decomposition] = LRUCache(MAX_TABLES)
        self._policies: LRUCache[tuple[Policy, threading.Lock]] = LRUCache(MAX_POLICIES)
        self._solvers: LRUCache[tuple[Solver, threading.Lock]] = LRUCache(MAX_SOLVERS)

    def answer(
        self, game: Game, boards: Boards, request: PanelRequest, check: Check
    ) -> dict[str, object]:
        """Return one panel, or of one that cannot be computed the ``error``, a sentence.

        Raises:
            CancelledError: ``check`` raises it, before the panel or between two slices of its
                search.
        """
        check(0)
        try:
            return dict(getattr(self, f"_{request.kind}_panel")(game, boards, request, check))
        except Exception as problem:  # the other panels go on
            return {"error": to_sentence(problem)}

    def _exact_panel(
        self, game: Game, boards: Boards, request: PanelRequest, check: Check
    ) -> dict[str, object]:
        solution = self._solutions.get(game)
        min_stones = first_stones(solution)
        stones = int(np.count_nonzero(boards.cells))
        if stones + 1 < min_stones:
            raise Refusal(
                f"the database has the positions from {min_stones - 1} stones on, and this has "
                f"{stones}"
            )
        values = solution.action_values(boards)[0]
        # a minus as wide as the plus
        best = f"{np.nanmax(values) + 0.0:+.3f}".replace("-", "\N{MINUS SIGN}")
        notes = [f"The value of best play is {best} for the mover."]
        return panel_json(values, notes, tie=solution.tie)

    def _prove_panel(
        self, game: Game, boards: Boards, request: PanelRequest, check: Check
    ) -> dict[str, object]:
        condition = why_not_proved(game)
        if condition is not None:
            raise Refusal(f"there are no proofs for {game}: choose {condition}")
        nodes = request.nodes
        position = boards.position(0)
        if game.gravity:
            nodes *= CONNECT_FOUR_NODES
            results = self._connect_four_results(game, position, nodes, check)
        else:
            results = Prover(game, nodes=nodes).results(position, shares=True, progress=check)
        has_result = (results != TAKEN) & (results != UNDECIDED)
        values = np.where(has_result, results.astype(np.float64), np.nan)
        num_open = int(np.count_nonzero(results == UNDECIDED))
        note = "The result is not decided."
        if num_open == 0 or (values == 1).any():
            result = ("loses", "draws", "wins")[int(np.nanmax(values)) + 1]
            note = f"With perfect play the mover {result}."
        notes = [note]
        if num_open:
            moves = int(np.count_nonzero(boards.legal(game)))
            notes.append(f"{num_open} of {moves} moves are not decided within {nodes:,} positions.")
        return panel_json(values, notes, "result")

    def _connect_four_results(
        self, game: Game, position: Position, nodes: int, check: Check
    ) -> Int8Array:
        """Return the results of moves for the mover, int8[cells], as :meth:`Prover.results` does.

        The results of earlier positions remain in the solver's table, so that later ones are found
        sooner.
        """
        solver, lock = self._solvers.get(
            game, lambda: (Solver(game, memory=SEARCH_BYTES), threading.Lock())
        )
        with lock:
            check(0)
            solver.progress = check
            bounds = solver.scores(position, nodes=nodes)
        results = np.full(game.cells, TAKEN, np.int8)
        for cell, bound in bounds.items():
            results[cell] = UNDECIDED if bound.value is None else bound.value
        return results

    def _random_panel(
        self, game: Game, boards: Boards, request: PanelRequest, check: Check
    ) -> dict[str, object]:
        check_table(game, "the table of random play")
        table = self._tables.get(
            (game, "random"), lambda: Table(game, source_values(game, "random"))
        )
        return panel_json(
            Softmax(table).action_values(boards)[0], ["The values if both play at random."]
        )

    def _compressed_panel(
        self, game: Game, boards: Boards, request: PanelRequest, check: Check
    ) -> dict[str, object]:
        check_table(game, "a compressed table")
        grouping = make_grouping(game, request.method)
        max_rank = largest_rank(request.method, grouping)
        rank = default_rank(request.method, grouping) if request.rank is None else request.rank
        rank = min(rank, max_rank)
        parts = self._decompositions.get(
            (game, request.method), lambda: decomposition(game, request.method)
        )
        table = self._compressed_tables.get(
            (game, request.method, rank), lambda: parts.at(min(rank, parts.largest))
        )
        note = (
            f"{table.stored_numbers:,} numbers, {table.compression_ratio:.1%} of the table; "
            f"relative error {table.relative_error:.3f}."
        )
        return panel_json(
            Softmax(table).action_values(boards)[0],
            [note],
            rank=table.rank,
            largest_rank=min(max_rank, parts.largest),
        )

    def _run_panel(
        self, game: Game, boards: Boards, request: PanelRequest, check: Check
    ) -> dict[str, object]:
        policy, lock = self.policy(policy_name(request.run or ""), game)
        with lock:
            if policy.action_values is None:
                return self._shares(
                    game, policy, boards, "It has no values: these are its move probabilities."
                )
            values = policy.action_values(boards)[0]
        notes = ["Its learned values of the moves."]
        run_game = self._root.run(request.run or "").read_game()
        if run_game != game:
            notes.append(f"It learned {run_game}, which is another game.")
        return panel_json(values, notes)

    def _search_panel(
        self, game: Game, boards: Boards, request: PanelRequest, check: Check
    ) -> dict[str, object]:
        depth = min(request.depth, max_depth(game))
        search = Expectiminimax(game, depth).search(boards, np.zeros(1, np.uint64), every_move=True)
        while not search.run(depth, SLICE):
            nodes = int(search.nodes[0])
            check(nodes)
            if nodes >= MAX_NODES:
                raise Refusal(
                    f"{depth} plies take more than {MAX_NODES:,} positions here: look ahead fewer"
                )
        notes = [f"{int(search.nodes[0]):,} positions looked at.", HORIZON]
        return panel_json(search.move_values[0], notes, "score", largest_depth=max_depth(game))

    def _mcts_panel(
        self, game: Game, boards: Boards, request: PanelRequest, check: Check
    ) -> dict[str, object]:
        search = MCTS(game, simulations=request.simulations).analyse(boards.position(0))
        visits = np.where(boards.legal(game)[0], search.visits[0], np.nan)
        return panel_json(
            visits, ["The visits of the moves."], "visits", value=float(search.values[0])
        )

    def _policy_panel(
        self, game: Game, boards: Boards, request: PanelRequest, check: Check
    ) -> dict[str, object]:
        policy, lock = self.policy(request.policy or "", game)
        with lock:
            return self._shares(game, policy, boards, "Its move probabilities.")

    def _shares(self, game: Game, policy: Policy, boards: Boards, note: str) -> dict[str, object]:
        solution = self._solutions.get(game) if game.cells <= MAX_TABLE_CELLS else None
        choice = choice_in(policy, boards, solution=solution)
        notes = [note]
        if not policy.pure:
            notes.append("It is randomised: this is one sample of its probabilities.")
        if choice.loss is not None:
            notes.append(f"On average it loses {choice.loss:.3f} of the value here.")
        shares = np.where(boards.legal(game)[0], choice.probabilities, np.nan)
        return panel_json(shares, notes, "probability")

    def policy(self, spec: str, game: Game) -> tuple[Policy, threading.Lock]:
        """Return a policy, and the lock to hold while using it: policies with internal state are
        not thread-safe.
        """
        safe_spec = check_spec(spec, game, self._root)
        folder = run_folder(safe_spec)
        files: list[Path] = []
        if folder is not None:
            run = RunDirectory(folder)
            files = [run.config, run.checkpoint]
        times = tuple(path.stat().st_mtime_ns for path in files if path.exists())

        def make() -> tuple[Policy, threading.Lock]:
            with warnings.catch_warnings():
                # a different training game is reported in the panel
                warnings.simplefilter("ignore")
                return make_policy(safe_spec, game), threading.Lock()

        return self._policies.get((safe_spec, game, times), make)
