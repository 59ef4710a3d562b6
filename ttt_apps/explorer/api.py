"""The explorer's responses: positions, moves and values, from the same functions as everything
else.

Responses depend only on the request, on the files under the root, and on stored tables of exact
values: no state is shared between visitors. Caches of bounded size keep expensive objects: solved
games, tables, and trained policies.
"""

from __future__ import annotations

import dataclasses
from asyncio import CancelledError
from collections.abc import Callable, Iterator
from typing import get_args

import numpy as np

from baselines.compression import Method
from learners.checkpoint import policy_name
from ttt_apps.cli.board import LiveGame
from ttt_apps.explorer import policies
from ttt_apps.explorer.panels import Panels, refused_panels
from ttt_apps.explorer.review import review_game, to_played_game
from ttt_apps.explorer.root import Root
from ttt_apps.explorer.schemas import MoveRequest, PuzzlesRequest, ReviewRequest, ValuesRequest
from ttt_apps.explorer.solutions import Solutions, first_stones
from ttt_envs.agents.policy import act
from ttt_envs.core.checks import Refusal
from ttt_envs.game.boards import Boards, check_opening, from_text
from ttt_envs.game.game import Game
from ttt_envs.graph.estimate import affordable
from ttt_envs.version import __version__
from ttt_eval.puzzles import Puzzle, from_games, from_policy, read_puzzles
from ttt_eval.reports.formats import MAX_EXPLORER_EDGE, MAX_EXPLORER_SKIP

SEARCHING = "mcts:simulations=2000"
"""The opponent on boards that are too large for tables."""


class ExplorerApi:
    """Handles requests; every method takes one and returns JSON-ready data.

    Args:
        root: folder of runs.

    All raise one of :data:`panels.REFUSALS`, with a sentence, for an invalid request.
    """

    def __init__(self, root: Root) -> None:
        self.root = root
        self._solutions = Solutions(root.databases)
        self._panels = Panels(root, self._solutions)

    def warm(self) -> None:
        """Compile by handling typical first requests: panels and a reply."""
        kinds = "exact", "random", "compressed", "mcts", "search", "prove"
        body = {
            "game": {},
            "position": ".../.../... o",
            "panels": [{"kind": kind} for kind in kinds],
        }
        list(self.values(ValuesRequest.model_validate(body)))
        self.move(MoveRequest(game=Game(), seed=0, policy="optimal"))

    def about(self) -> dict[str, object]:
        """Return the available runs, policies and settings."""
        return {
            "version": __version__,
            "edge": MAX_EXPLORER_EDGE,
            "methods": get_args(Method),
            "link": "show=none",
            "most_skips": MAX_EXPLORER_SKIP,
            "policies": {name: policies.settings_of(name) for name in policies.OFFERED_POLICIES},
            "runs": [
                {"name": name, "game": None if game is None else game.to_dict()}
                for name, game in self.root.games().items()
            ],
        }

    def review(self, request: ReviewRequest) -> dict[str, object]:
        """Return what is known of a game, and the exact values of its positions and moves if there
        are any.

        ``exact`` says whether there are: ``now``; ``soon``, if the request waits for them;
        ``table``, once one is stored; ``part``, for the last moves; or ``none``. ``refused`` has
        the panels that the game does not have, and ``unplayable`` the policies that do not play it,
        with what they need; ``opponent`` plays it.
        """
        played_game = to_played_game(request)
        game = played_game.game
        facts: dict[str, object] = {"values": None, "plies": None}
        state = self._solutions.availability(game)
        if state == "now" or (request.wait and state == "soon"):
            exact = self._solutions.get(game)
            if first_stones(exact) == 0:
                facts = review_game(played_game, exact)
                state = "now"
        cells = {name: policies.max_cells(name) for name in policies.TABLE_POLICIES}
        return {
            **facts,
            "exact": state,
            "refused": refused_panels(game, has_values=state != "none"),
            "unplayable": {
                name: f"a board of at most {limit} cells"
                for name, limit in cells.items()
                if game.cells > limit
            },
            "opponent": SEARCHING,
        }

    def move(self, request: MoveRequest) -> dict[str, int]:
        """Return the cell that a policy plays; its random numbers are those of the seed and the
        number of moves.
        """
        played_game = to_played_game(request)
        if played_game.result is not None:
            raise Refusal("the game is over: begin another, or go back")
        policy, lock = self._panels.policy(request.policy, played_game.game)
        rng = LiveGame(played_game.game, np.uint64(request.seed), 0).generator(
            len(played_game.moves)
        )
        with lock:
            return {"cell": int(act(policy, Boards.from_positions([played_game.end()]), rng)[0])}

    def values(
        self, request: ValuesRequest, is_abandoned: Callable[[], bool] = lambda: False
    ) -> Iterator[dict[str, object]]:
        """Return the values of the moves in a position, by one panel after the other, each computed
        when it is read.

        Args:
            request: the position and the panels.
            is_abandoned: returns whether nobody waits for the answer any more, which ends the
                iterator and the search of its panel by a CancelledError.
        """
        position = from_text(request.position, request.game)
        check_opening(request.game, position, "the position")
        boards = Boards.from_positions([position])

        def check(_: int) -> None:
            if is_abandoned():
                raise CancelledError

        return (self._panels.answer(request.game, boards, panel, check) for panel in request.panels)

    def puzzles(self, request: PuzzlesRequest) -> dict[str, object]:
        """Return the puzzles of a game, of a run, or the built-in ones."""
        if request.line is not None and request.run is not None:
            raise Refusal("puzzles are of a line or of a run: leave out 'line' or 'run'")
        if request.line is not None:
            played_game = to_played_game(request.line)
            policies.check_table(played_game.game, "practice with the mistakes of a game")
            puzzles = list(from_games([played_game], solver=self._solutions.get))
        elif request.run is not None:
            puzzles = self._run_puzzles(request.run)
        else:
            puzzles = read_puzzles()
        return {"puzzles": [puzzle.to_dict() for puzzle in puzzles]}

    def _run_puzzles(self, name: str) -> list[Puzzle]:
        game = self.root.run(name).read_game()
        if not isinstance(game, Game):
            raise Refusal(
                f"the run {name} learned {game}, which is not played here: choose another run"
            )
        policies.check_table(game, "practice with the mistakes of a run")
        policy, lock = self._panels.policy(policy_name(name), game)
        with lock:
            if not policy.pure or not affordable(game, policy):
                raise Refusal(
                    f"the mistakes of {name} are not computed in a moment: evaluate.py puzzles "
                    "does it"
                )
            return [dataclasses.replace(puzzle, why=name) for puzzle in from_policy(game, policy)]
