"""The explorer's responses: positions, moves and values, from the same functions as everything else.

Responses depend only on the request, on the files under the root, and on stored tables of exact values: no state is
shared between visitors, except that one of them may have a table computed. Caches of bounded size keep expensive
objects: solved games, tables, and trained policies.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from learners.checkpoint import policy_name
from ttt_apps.board import LiveGame
from ttt_apps.explorer import schemas
from ttt_apps.explorer.board_json import cell_names, learned_values_json, probabilities_json
from ttt_apps.explorer.caches import LRUCache
from ttt_apps.explorer.game_lines import as_o_began, line_json, result_name, review_game, to_played_game
from ttt_apps.explorer.panels import Panels, refused_panels
from ttt_apps.explorer.schemas import (
    LineRequest,
    LogRequest,
    NameRequest,
    PlayRequest,
    PuzzlesRequest,
    ReviewRequest,
    Root,
    SnapshotRequest,
    SolveRequest,
    ValuesRequest,
    check_table,
)
from ttt_apps.explorer.solutions import Solutions
from ttt_envs.agents.policy import act
from ttt_envs.core.random import draw_key
from ttt_envs.game.boards import Boards, coordinate, from_text, to_text
from ttt_envs.game.game import default_win_length
from ttt_envs.game.phantom import AnyGame, refuse_hidden
from ttt_envs.game.rules import STREAM_OPPONENT, legal, mover_after, winner
from ttt_envs.version import __version__
from ttt_eval.exact.estimate import affordable
from ttt_eval.exact.strength import Choice
from ttt_eval.matches.games import AGAIN, PlayedGame, read_games
from ttt_eval.metrics import LOSSES
from ttt_eval.policy_snapshots import Snapshot, position_name
from ttt_eval.puzzles import Puzzle, from_games, from_policy, read_puzzles
from ttt_eval.run_files import RunDirectory

MAX_SNAPSHOTS = 8
"""Maximum number of cached snapshots of runs."""
SHOWN = ("games", "iterations", *LOSSES)
"""Metrics shown for a mark."""


class ExplorerApi:
    """Handles requests; every method takes one and returns JSON-ready data.

    Args:
        root: folder of runs and logs.

    All raise ValueError, with a sentence, for an invalid request.
    """

    def __init__(self, root: Root) -> None:
        self.root = root
        self._solutions = Solutions(root.databases)
        self._panels = Panels(root, self._solutions)
        self._choices = LRUCache(MAX_SNAPSHOTS)

    def start_warming(self) -> None:
        """Compile in the background by handling typical first requests: panels and a reply.

        Moves on the board are interpreted meanwhile.
        """
        threading.Thread(target=self.warm, name="warm", daemon=True).start()

    def warm(self) -> None:
        """Do the work of :meth:`start_warming`, and return when it is done."""
        game = {"rows": 3, "columns": 3, "win_length": 3, "skip_chance": 0.0}
        panels = [{"kind": kind} for kind in ("exact", "random", "compressed", "mcts", "search", "prove")]
        self.values(ValuesRequest.model_validate({"game": game, "position": ".../.../... o", "panels": panels}))
        self.play(PlayRequest.model_validate({"game": game, "seed": 0, "policy": "optimal"}))

    def close(self) -> None:
        """End a computation in another process."""
        self._solutions.close()

    def about(self) -> dict[str, Any]:
        """Return the available runs, policies and settings."""
        runs = []
        for name in self.root.runs():
            try:
                run = self.root.run(name)
                config, learned = run.read_config(), run.read_game()
                runs.append({"name": name, "learner": str(config["learner"]), "game": learned.to_dict()})
            except (ValueError, TypeError, OSError):  # a damaged run is not offered
                continue
        policies = {
            name: {key: setting._asdict() for key, setting in settings.items()}
            for name, settings in schemas.SETTINGS.items()
        }
        return {
            "version": __version__,
            "edge": schemas.MAX_EDGE,
            "win_lengths": [default_win_length(edge, schemas.MAX_EDGE) for edge in range(1, schemas.MAX_EDGE + 1)],
            "tables": schemas.MAX_TABLE_CELLS,
            "most_skips": schemas.MAX_SKIP_CHANCE,
            "most_simulations": schemas.MAX_SIMULATIONS,
            "policies": policies,
            "on_tables": sorted(schemas.TABLE_POLICIES),
            "runs": runs,
            "logs": self.root.logs(),
        }

    # -----------------------------------------------------------------------------------------------------------------
    # Games

    def replay(self, request: LineRequest) -> dict[str, Any]:
        """Return every position of a game so far, with exact values if these are known at once.

        ``exact`` says whether they are: ``now``; ``soon``, by :meth:`review`; ``ask``, if :meth:`solve` is asked to
        compute a table; ``building``, while it does; or ``none``. ``refused`` has the panels that the game does not
        have, with the reasons.
        """
        return self._replay(_request_game(request))

    def review(self, request: ReviewRequest) -> dict[str, Any]:
        """Return the same with exact values, if there are any, which may take a second."""
        return self._replay(_request_game(request), may_wait=True)

    def solve(self, request: SolveRequest) -> dict[str, Any]:
        """Return the availability of exact values, and start to compute them if ``start`` is set."""
        game = request.game.game()
        return self._solutions.build(game) if request.start else self._solutions.status(game)

    def play(self, request: PlayRequest) -> dict[str, Any]:
        """Play one more move with its chance event, and respond as :meth:`replay`."""
        game = request.game.game()
        played = _request_game(request)
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
        mover = mover_after(position.mover, key, int(np.count_nonzero(position.cells)), game.parameters)
        after = position.cells.copy()
        after[cell] = position.mover + 1
        skipped = winner(game, after) is None and mover == position.mover
        word = coordinate(cell, game) + AGAIN * skipped
        return self._replay(to_played_game(game, request.opening, f"{request.moves} {word}".strip(), first))

    def log(self, request: NameRequest) -> dict[str, Any]:
        """Return the games of a log."""
        path = self.root.log(request.name)
        with _name_errors(path):
            found = list(islice(read_games(path, limit=schemas.MAX_LOG_BYTES, tell=lambda _: None), schemas.MAX_GAMES))
        return {
            "games": [
                {
                    "number": number,
                    "players": list(played.players),
                    "plies": len(played.moves),
                    "result": result_name(played.result),
                    "game": str(played.game),
                }
                for number, played in enumerate(found, 1)
            ]
        }

    def logged(self, request: LogRequest) -> dict[str, Any]:
        """Return a game of a log, as :meth:`replay` does."""
        path = self.root.log(request.name)
        with _name_errors(path):
            games = read_games(path, limit=schemas.MAX_LOG_BYTES, tell=lambda _: None)
            played = next(islice(games, request.number - 1, None), None)
        if played is None:
            raise ValueError(f"number={request.number} is not in the log: it has fewer games")
        game = played.game
        if max(game.rows, game.columns) > schemas.MAX_EDGE or game.skip_chance > schemas.MAX_SKIP_CHANCE:
            raise ValueError(
                f"{game} is more than is shown here: boards up to {schemas.MAX_EDGE} x {schemas.MAX_EDGE} are"
            )
        return self._replay(played)

    def _replay(self, played: PlayedGame, may_wait: bool = False) -> dict[str, Any]:
        state = self._solutions.availability(played.game)
        review = None
        if state == "now" or (may_wait and state == "soon"):
            exact = self._solutions.get(played.game)
            if exact is not None and exact.stones == 0:
                review = review_game(played, exact)
                state = "now"
        refused = refused_panels(played.game, has_values=state != "none")
        return {**line_json(played, review), "exact": state, "refused": refused}

    # -----------------------------------------------------------------------------------------------------------------
    # Values

    def values(self, request: ValuesRequest) -> dict[str, Any]:
        """Return the action values of a position, for each panel."""
        text, panels = self.plan_panels(request)
        return {"position": text, "panels": [panel() for panel in panels]}

    def plan_panels(self, request: ValuesRequest) -> tuple[str, list[Callable[[], dict[str, Any]]]]:
        """Return the position as text, and for each panel a function that computes it."""
        game = request.game.game()
        position = from_text(request.position, game)
        boards = Boards.from_positions([as_o_began(game, position, "the position", request.game.first)])

        def plan(one: schemas.PanelRequest) -> Callable[[], dict[str, Any]]:
            return lambda: self._panels.answer(game, boards, one)

        return to_text(position, game), [plan(one) for one in request.panels]

    # -----------------------------------------------------------------------------------------------------------------
    # Runs

    def run(self, request: NameRequest) -> dict[str, Any]:
        """Return a run's game, its learning curve, and the marks with stored boards."""
        run = self.root.run(request.name)
        with _name_errors(run.path):
            config, game = run.read_config(), run.read_game()
            if run.metrics.exists() and run.metrics.stat().st_size > schemas.MAX_LOG_BYTES:
                raise ValueError(
                    f"{run.metrics.name} of {request.name} has more than {schemas.MAX_LOG_BYTES:,} bytes: "
                    f"it is not shown"
                )
            rows = run.read_metrics()
        try:
            games, why = [mark.games for mark in self._snapshots(run, game)], ""
        except (ValueError, OSError) as problem:  # the curve is shown nevertheless
            games, why = [], self.root.describe_error(problem)
        step = -(-len(rows) // schemas.MAX_MARKS) or 1
        marks = [{name: row[name] for name in SHOWN if name in row} for row in rows]
        exact: dict[float, list[dict[str, float]]] = {}  # learners with loops of their own have several
        for mark in marks:
            if "exploitability" in mark:
                exact.setdefault(mark["games"], []).append(mark)
        turn = {count: iter(found) for count, found in exact.items()}
        return {
            "game": game.to_dict(),
            "learner": str(config["learner"]),
            "opponent": str(config.get("opponent", "")),
            "marks": marks[::step],
            "boards": [next(turn.get(count, iter(())), {"games": count}) for count in games],
            "no_boards": why,
        }

    def mark(self, request: SnapshotRequest) -> dict[str, Any]:
        """Return a run's move probabilities and values at a mark, in the stored positions."""
        run = self.root.run(request.name)
        with _name_errors(run.path):
            snapshots = self._snapshots(run, game := run.read_game())
        if request.number >= len(snapshots):
            count = len(snapshots)
            raise ValueError(f"number={request.number} is no mark: the run has boards at {count}, counted from 0")
        mark = snapshots[request.number]
        return {"games": mark.games, "boards": [_snapshot_json(game, one) for one in mark.choices]}

    def _snapshots(self, run: RunDirectory, game: AnyGame) -> list[Snapshot]:
        """Return the marks of a run with stored boards, at most the first ``schemas.MAX_MARKS``."""
        path = run.choices
        changed = (path.stat().st_mtime_ns, path.stat().st_size) if path.exists() else ()
        found: list[Snapshot] = self._choices.get(
            (path, game, changed), lambda: run.read_choices(game)[: schemas.MAX_MARKS]
        )
        return found

    # -----------------------------------------------------------------------------------------------------------------
    # Puzzles

    def puzzles(self, request: PuzzlesRequest) -> dict[str, Any]:
        """Return the puzzles of a game, of a run, or the built-in ones."""
        if request.line is not None:
            game = request.line.game.game()
            check_table(game, "practice with the mistakes of a game")
            played = _request_game(request.line)
            found = list(from_games([played], solver=self._solutions.solve_small))
        elif request.run is not None:
            found = self._run_puzzles(request.run)
        else:
            found = read_puzzles()
        return {"puzzles": [one.to_dict() for one in found]}

    def _run_puzzles(self, name: str) -> list[Puzzle]:
        game = refuse_hidden(self.root.run(name).read_game())
        check_table(game, "practice with the mistakes of a run")
        policy, lock = self._panels.policy(policy_name(name), game)
        with lock:
            if not policy.pure or not affordable(game, policy):
                raise ValueError(f"the mistakes of {name} are not computed in a moment: evaluate.py puzzles does it")
            return [dataclasses.replace(one, why=name) for one in from_policy(game, policy)]


def _request_game(request: LineRequest) -> PlayedGame:
    return to_played_game(request.game.game(), request.opening, request.moves, request.game.first)


@contextmanager
def _name_errors(path: Path) -> Iterator[None]:
    """Report file errors under the file's name, without its folder."""
    try:
        yield
    except OSError as problem:
        raise ValueError(f"{path.name} cannot be read: {problem.strerror or problem}") from None


def _snapshot_json(game: AnyGame, choice: Choice) -> dict[str, Any]:
    """Return a position with a learner's stored choice."""
    own = choice.own
    return {
        "name": position_name(game, choice.position),
        "position": to_text(choice.position, game),
        "plays": probabilities_json(game, choice.position, choice.probabilities, []),
        "expects": None if own is None else learned_values_json(game, own, []),
    }
