"""The explorer's responses: positions, moves and values, from the same functions as everything else.

Responses depend only on the request, on the files under the root, and on stored tables of exact values: no state is
shared between visitors. Caches of bounded size keep expensive objects: solved games, tables, and trained policies.
"""

from __future__ import annotations

import dataclasses
import threading
from typing import Any

import numpy as np

from learners.checkpoint import policy_name
from ttt_apps.board import LiveGame
from ttt_apps.explorer import policies, schemas
from ttt_apps.explorer.game_lines import as_o_began, line_json, review_game, to_played_game
from ttt_apps.explorer.panels import Panels, cell_names, refused_panels
from ttt_apps.explorer.root import Root
from ttt_apps.explorer.schemas import LineRequest, PlayRequest, PuzzlesRequest, ValuesRequest
from ttt_apps.explorer.solutions import Solutions, first_stones
from ttt_envs.agents.policy import act
from ttt_envs.core.random import draw_key
from ttt_envs.game.boards import Boards, coordinate, from_text
from ttt_envs.game.game import default_win_length
from ttt_envs.game.phantom import refuse_hidden
from ttt_envs.game.rules import STREAM_OPPONENT, legal, mover_after, winner
from ttt_envs.version import __version__
from ttt_eval.exact.estimate import affordable
from ttt_eval.matches.games import AGAIN, PlayedGame
from ttt_eval.puzzles import Puzzle, from_games, from_policy, read_puzzles
from ttt_eval.reports.links import MAX_EXPLORER_EDGE, MAX_EXPLORER_SKIP


class ExplorerApi:
    """Handles requests; every method takes one and returns JSON-ready data.

    Args:
        root: folder of runs.

    All raise ValueError, with a sentence, for an invalid request.
    """

    def __init__(self, root: Root) -> None:
        self.root = root
        self._solutions = Solutions(root.databases)
        self._panels = Panels(root, self._solutions)

    def start_warming(self) -> None:
        """Compile in the background by handling typical first requests: panels and a reply.

        Moves on the board are interpreted meanwhile.
        """
        threading.Thread(target=self.warm, name="warm", daemon=True).start()

    def warm(self) -> None:
        """Do the work of :meth:`start_warming`, and return when it is done."""
        game = schemas.GameRequest(rows=3, columns=3, win_length=3, skip_chance=0.0)
        for kind in ("exact", "random", "compressed", "mcts", "search", "prove"):
            panel = schemas.PanelRequest.model_validate({"kind": kind})
            self.values(ValuesRequest(game=game, position=".../.../... o", panel=panel))
        self.play(PlayRequest(game=game, seed=0, policy="optimal"))

    def about(self) -> dict[str, Any]:
        """Return the available runs, policies and settings."""
        runs = []
        for name in self.root.runs():
            try:
                runs.append({"name": name, "learner": str(self.root.run(name).read_config()["learner"])})
            except (ValueError, TypeError, OSError):  # a damaged run is not offered
                continue
        settings = {name: policies.settings_of(name) for name in policies.OFFERED}
        return {
            "version": __version__,
            "edge": MAX_EXPLORER_EDGE,
            "win_lengths": [default_win_length(edge, MAX_EXPLORER_EDGE) for edge in range(1, MAX_EXPLORER_EDGE + 1)],
            "tables": policies.MAX_TABLE_CELLS,
            "most_skips": MAX_EXPLORER_SKIP,
            "policies": {
                name: {key: setting.to_dict() for key, setting in known.items()} for name, known in settings.items()
            },
            "on_tables": sorted(policies.TABLE_POLICIES),
            "runs": runs,
        }

    def replay(self, request: LineRequest) -> dict[str, Any]:
        """Return every position of a game so far, with exact values if these are known at once.

        ``exact`` says whether they are: ``now``; ``soon``, by :meth:`review`; ``table``, once one is stored; ``part``,
        for the last moves; or ``none``. ``refused`` has the panels that the game does not have, with the reasons.
        """
        return self._replay(_request_game(request))

    def review(self, request: LineRequest) -> dict[str, Any]:
        """Return the same with exact values, if there are any, which may take a second."""
        return self._replay(_request_game(request), may_wait=True)

    def play(self, request: PlayRequest) -> dict[str, Any]:
        """Play one more move with its chance event, and respond as :meth:`replay`."""
        played = _request_game(request)
        game = played.game
        if played.result is not None:
            raise ValueError("the game is over: begin another, or go back")
        if (request.cell is None) == (request.policy is None):
            raise ValueError("a move is a cell, or that of a policy: say one of them")
        position, stones, first = played.end(), len(played.moves), request.game.first
        key = LiveGame(game, draw_key(np.random.default_rng(request.seed)), 0).episode_key[0]
        cell = request.cell
        if request.policy is not None:
            policy, lock = self._panels.policy(request.policy, game)
            with lock:
                rng = np.random.default_rng([int(key), STREAM_OPPONENT, stones])
                here = as_o_began(game, position, "the position", first)
                cell = int(act(policy, Boards.from_positions([here]), rng)[0])
        choices = np.flatnonzero(legal(game, position.cells)).tolist()
        if cell is None or cell not in choices:
            where = "lowest empty cell of a column" if game.gravity else "empty cell"
            raise ValueError(f"cell={cell} is no {where}: choose one of {cell_names(choices, game)}")
        mover = mover_after(position.mover, key, int(np.count_nonzero(position.cells)), game.skip_chance)
        after = position.cells.copy()
        after[cell] = position.mover + 1
        skipped = winner(game, after) is None and mover == position.mover
        moves = f"{request.moves} {coordinate(cell, game)}{AGAIN * skipped}"
        return self._replay(to_played_game(game, request.opening, moves, first))

    def _replay(self, played: PlayedGame, may_wait: bool = False) -> dict[str, Any]:
        state = self._solutions.availability(played.game)
        review = None
        if state == "now" or (may_wait and state == "soon"):
            exact = self._solutions.get(played.game)
            if first_stones(exact) == 0:
                review, state = review_game(played, exact), "now"
        refused = refused_panels(played.game, has_values=state != "none")
        return {**line_json(played, review), "exact": state, "refused": refused}

    def values(self, request: ValuesRequest) -> dict[str, Any]:
        """Return the values of the moves in a position, by one panel."""
        game = request.game.game()
        position = as_o_began(game, from_text(request.position, game), "the position", request.game.first)
        return self._panels.answer(game, Boards.from_positions([position]), request.panel)

    def puzzles(self, request: PuzzlesRequest) -> dict[str, Any]:
        """Return the puzzles of a game, of a run, or the built-in ones."""
        if request.line is not None:
            played = _request_game(request.line)
            policies.check_table(played.game, "practice with the mistakes of a game")
            found = list(from_games([played], solver=self._solutions.get))
        elif request.run is not None:
            found = self._run_puzzles(request.run)
        else:
            found = read_puzzles()
        return {"puzzles": [puzzle.to_dict() for puzzle in found]}

    def _run_puzzles(self, name: str) -> list[Puzzle]:
        game = refuse_hidden(self.root.run(name).read_game())
        policies.check_table(game, "practice with the mistakes of a run")
        policy, lock = self._panels.policy(policy_name(name), game)
        with lock:
            if not policy.pure or not affordable(game, policy):
                raise ValueError(f"the mistakes of {name} are not computed in a moment: evaluate.py puzzles does it")
            return [dataclasses.replace(puzzle, why=name) for puzzle in from_policy(game, policy)]


def _request_game(request: LineRequest) -> PlayedGame:
    return to_played_game(request.game.game(), request.opening, request.moves, request.game.first)
