"""The explorer's responses: positions, moves and values, from the same functions as everything else.

Responses depend only on the request and on the files under the root: no state is shared between visitors. Caches of
bounded size keep expensive objects: solved games, tables, and trained policies.
"""

from __future__ import annotations

import dataclasses
import threading
import warnings
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from baselines.compression import Decomposition, decomposition, default_rank, grouping_of, largest_rank
from baselines.expectiminimax import Expectiminimax
from baselines.mcts import MCTS
from baselines.retrograde.solver import Solution, solve
from baselines.tables import Softmax, Table, values_of
from evaluation.exact.estimate import affordable
from evaluation.exact.strength import Choice, choice_in
from evaluation.matches.games import AGAIN, PlayedGame, read_games
from evaluation.policy_snapshots import Snapshot, position_name
from evaluation.puzzles import Puzzle, from_games, from_policy, read_puzzles
from evaluation.run_files import RunDirectory
from learners.checkpoint import policy_name
from ttt_apps.board import LiveGame
from ttt_apps.explorer import schemas
from ttt_apps.explorer.schemas import (
    LineRequest,
    LogRequest,
    NameRequest,
    PanelRequest,
    PlayRequest,
    PuzzlesRequest,
    Root,
    SnapshotRequest,
    ValuesRequest,
    check_spec,
    check_table,
    max_depth,
)
from ttt_envs.agents.policy import VALUE_TOLERANCE, Policy, Values, act
from ttt_envs.agents.specs import make_policy
from ttt_envs.core.jit import Float64Array
from ttt_envs.core.random import draw_key
from ttt_envs.game.boards import (
    MOVERS,
    Boards,
    cell_at,
    check_opening,
    coordinate,
    from_text,
    to_text,
    winning_line_cells,
)
from ttt_envs.game.rules import DRAW, STREAM_OPPONENT, Game, Position, legal, mover_after, winner
from ttt_envs.version import __version__

MAX_NODES = 2_000_000
"""Maximum number of positions per search for one panel."""
MAX_NARROW = 4
"""Maximum number of columns of a narrow board."""
DIGITS, WIDE_DIGITS = 3, 2
"""Decimal places of values in cells, on narrow boards and on wider ones."""
MAX_SOLUTIONS, MAX_TABLES, MAX_POLICIES, MAX_SNAPSHOTS = 24, 32, 16, 8
"""Maximum numbers of cached solutions, tables, policies and snapshots of runs."""
RESULTS = ("o", "x", "draw")
SHOWN = ("games", "iterations", "exploitability", "regret")
"""Metrics shown for a mark."""


class LRUCache:
    """A thread-safe LRU cache, which makes each value once even for concurrent requests.

    Args:
        max_size: maximum number of values.
    """

    def __init__(self, max_size: int) -> None:
        self.max_size = max_size
        self._lock = threading.Lock()
        self._values: OrderedDict[Hashable, Any] = OrderedDict()
        self._making: dict[Hashable, threading.Lock] = {}

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """Return the cached value of ``key``, or make it."""
        with self._lock:
            making = self._making.setdefault(key, threading.Lock())
        try:
            with making:
                with self._lock:
                    if key in self._values:
                        self._values.move_to_end(key)
                        return self._values[key]
                made = make()
                with self._lock:
                    self._values[key] = made
                    while len(self._values) > self.max_size:
                        self._values.popitem(last=False)
                return made
        finally:
            with self._lock:
                if not making.locked():
                    self._making.pop(key, None)


class ExplorerApi:
    """Handles requests; every method takes one and returns JSON-ready data.

    Args:
        root: folder of runs and logs.

    All raise ValueError, with a sentence, for an invalid request.
    """

    def __init__(self, root: Root) -> None:
        self.root = root
        self._solutions = LRUCache(MAX_SOLUTIONS)
        self._tables = LRUCache(MAX_TABLES)
        self._policies = LRUCache(MAX_POLICIES)
        self._choices = LRUCache(MAX_SNAPSHOTS)
        self._board_compiled = threading.Event()
        self._board_compiled.set()  # without warm-up, nothing waits

    def start_warming(self) -> None:
        """Compile in the background by handling typical first requests: the board, and then panels and a reply.

        Compilation is serial, so panels requested meanwhile wait for the board.
        """
        self._board_compiled.clear()
        threading.Thread(target=self.warm, name="warm", daemon=True).start()

    def warm(self) -> None:
        """Do the work of :meth:`start_warming`, and return when it is done."""
        game = {"rows": 3, "columns": 3, "win_length": 3, "skip_chance": 0.0}
        try:
            self.replay(LineRequest.model_validate({"game": game, "moves": "b2"}))
            self.play(PlayRequest.model_validate({"game": game, "seed": 0, "cell": 0}))
        finally:
            self._board_compiled.set()
        panels = [{"kind": kind} for kind in ("exact", "random", "compressed", "search", "mcts")]
        self.values(ValuesRequest.model_validate({"game": game, "position": ".../.../... o", "panels": panels}))
        self.play(PlayRequest.model_validate({"game": game, "seed": 0, "policy": "optimal"}))

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
        """Return every position of a game so far, and the losses of its moves."""
        return self._line(_to_played_game(request.game.game(), request.opening, request.moves))

    def play(self, request: PlayRequest) -> dict[str, Any]:
        """Play one more move with its chance event, and respond as :meth:`replay`."""
        game = request.game.game()
        played = _to_played_game(game, request.opening, request.moves)
        if played.result is not None:
            raise ValueError("the game is over: begin another, or go back")
        if (request.cell is None) == (request.policy is None):
            raise ValueError("a move is a cell, or that of a policy: say one of them")
        position, stones = played.end(), len(played.moves)
        key = LiveGame(game, draw_key(np.random.default_rng(request.seed)), 0).episode_key[0]
        cell = request.cell
        if request.policy is not None:
            self._board_compiled.wait()
            policy, lock = self._policy(request.policy, game)
            with lock:
                rng = np.random.default_rng([int(key), STREAM_OPPONENT, stones])
                cell = int(act(policy, Boards.of([position]), rng)[0])
        choices = np.flatnonzero(legal(game, position.cells)).tolist()
        if cell is None or cell not in choices:
            raise ValueError(f"cell={cell} is no empty cell: choose one of {_names(choices, game)}")
        mover = mover_after(position.mover, key, int(np.count_nonzero(position.cells)), game.parameters)
        after = position.cells.copy()
        after[cell] = position.mover + 1
        skipped = winner(game, after) is None and mover == position.mover
        word = coordinate(cell, game) + AGAIN * skipped
        return self._line(_to_played_game(game, request.opening, f"{request.moves} {word}".strip()))

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
                    "result": _result_name(played.result),
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
        return self._line(played)

    def _line(self, played: PlayedGame) -> dict[str, Any]:
        game = played.game
        plies = list(played.positions())
        positions = [position for position, _, _ in plies] + [played.end()]
        exact, values = self._exact(game, positions, played.result is not None and played.forfeit is None)
        shown = []
        for number, position in enumerate(positions):
            result = played.result if number == len(plies) and played.forfeit is None else None
            shown.append(
                {
                    "position": to_text(position, game),
                    "mover": MOVERS[position.mover],
                    "last": _last_stones(plies[:number]),
                    "line": winning_line_cells(game, position.cells, result),
                    "result": _result_name(result),
                    "value": None if values is None else values[number],
                }
            )
        moves, losses = [], []
        for number, (position, cell, skipped) in enumerate(plies):
            loss = None
            if exact is not None:
                loss = float(np.nanmax(exact[number]) - exact[number][cell]) + 0.0
                losses.append(loss)
            moves.append(
                {
                    "cell": cell,
                    "name": coordinate(cell, game),
                    "mover": MOVERS[position.mover],
                    "skipped": skipped,
                    "loss": loss,
                    "loss_text": None if loss is None else "best" if loss <= VALUE_TOLERANCE else _text(-loss, DIGITS),
                    "best": None if exact is None else _names(_best_cells(exact[number]), game),
                }
            )
        return {
            "game": game.to_dict(),
            "opening": played.opening,
            "moves": " ".join(coordinate(cell, game) + AGAIN * skipped for cell, skipped in played.moves),
            "players": list(played.players),
            "result": _result_name(played.result),
            "forfeit": played.forfeit,
            "worst": int(np.argmax(losses)) if losses and max(losses) > VALUE_TOLERANCE else None,
            "plies": moves,
            "positions": shown,
        }

    def _exact(
        self, game: Game, positions: list[Position], over: bool
    ) -> tuple[Float64Array | None, list[float] | None]:
        """Return the action values of every unfinished position for its mover, and all values for o."""
        if game.cells > schemas.MAX_TABLE_CELLS:
            return None, None
        solution = self._solution(game)
        boards = Boards.of(positions)
        values = (1 - 2 * boards.mover) * solution.values(boards) + 0.0
        going = boards.take(np.arange(len(positions) - over)) if len(positions) > over else None
        exact = None if going is None else solution.action_values(going)
        return exact, [float(value) for value in values]

    # -----------------------------------------------------------------------------------------------------------------
    # Values

    def values(self, request: ValuesRequest) -> dict[str, Any]:
        """Return the action values of a position, for each panel."""
        self._board_compiled.wait()
        game = request.game.game()
        position = from_text(request.position, game)
        check_opening(game, position, "the position")
        boards = Boards.of([position])
        return {
            "position": to_text(position, game),
            "panels": [self._panel(game, boards, one) for one in request.panels],
        }

    def _panel(self, game: Game, boards: Boards, request: PanelRequest) -> dict[str, Any]:
        """Return one panel; an error is reported in the panel and does not affect the others."""
        kinds: dict[str, Callable[[Game, Boards, PanelRequest], dict[str, Any]]] = {
            "exact": self._exact_panel,
            "random": self._random_panel,
            "compressed": self._compressed_panel,
            "run": self._run_panel,
            "search": self._search_panel,
            "mcts": self._mcts_panel,
            "policy": self._policy_panel,
        }
        try:
            return {"kind": request.kind, **kinds[request.kind](game, boards, request)}
        except (ValueError, TypeError, OSError, MemoryError) as problem:
            return {"kind": request.kind, "error": self.describe_error(problem)}

    def _exact_panel(self, game: Game, boards: Boards, request: PanelRequest) -> dict[str, Any]:
        check_table(game, "the exact value")
        values = self._solution(game).action_values(boards)[0]
        best = _text(float(np.nanmax(values)), DIGITS)
        return _map(game, values, [f"The value of best play is {best} for the mover."])

    def _random_panel(self, game: Game, boards: Boards, request: PanelRequest) -> dict[str, Any]:
        check_table(game, "the table of random play")
        table = self._tables.get((game, "random"), lambda: Table(game, values_of(game, "random")))
        return _map(game, Softmax(table).action_values(boards)[0], ["The values if both play at random."])

    def _compressed_panel(self, game: Game, boards: Boards, request: PanelRequest) -> dict[str, Any]:
        check_table(game, "a compressed table")
        grouping = grouping_of(game, request.method)
        largest = largest_rank(request.method, grouping)
        rank = min(largest, default_rank(request.method, grouping) if request.rank is None else request.rank)
        whole: Decomposition = self._tables.get((game, request.method), lambda: decomposition(game, request.method))
        table = self._tables.get((game, request.method, rank), lambda: whole.at(min(rank, whole.largest)))
        notes = [
            f"{table.stored_numbers:,} numbers, {table.compression_ratio:.1%} of the table; "
            f"relative error {table.relative_error:.3f}."
        ]
        return {
            **_map(game, Softmax(table).action_values(boards)[0], notes),
            "rank": table.rank,
            "largest_rank": min(largest, whole.largest),
        }

    def _run_panel(self, game: Game, boards: Boards, request: PanelRequest) -> dict[str, Any]:
        if request.run is None:
            raise ValueError("no run is chosen: choose one")
        policy, lock = self._policy(policy_name(request.run), game)
        with lock:
            if not isinstance(policy, Values):
                return self._shares(game, policy, boards, "It has no values: these are its move probabilities.")
            values = policy.action_values(boards)[0]
        learned = self.root.run(request.run).read_game()
        other = [] if learned == game else [f"It learned {learned}, which is another game."]
        return _values_json(game, values, ["Its learned values of the moves.", *other])

    def _search_panel(self, game: Game, boards: Boards, request: PanelRequest) -> dict[str, Any]:
        depth = min(request.depth, max_depth(game))
        policy = Expectiminimax(game, depth)
        search = policy.search(boards, np.zeros(1, np.uint64), every_move=True)
        if not search.run(depth, MAX_NODES):
            raise ValueError(f"depth={depth} looks at more than {MAX_NODES:,} positions here: choose a smaller depth")
        values = search.move_values[0] + 0.0  # no -0.0
        variation = policy.variation(boards.position(0), np.uint64(0), values)
        line = " ".join(coordinate(cell, game) for cell in variation)
        return {
            **_map(game, values, [f"Best line: {line}.", f"{int(search.nodes[0]):,} positions looked at."], "score"),
            "scale": max(1.0, float(np.nanmax(np.abs(values)))),
            "variation": line,
            "largest_depth": max_depth(game),
        }

    def _mcts_panel(self, game: Game, boards: Boards, request: PanelRequest) -> dict[str, Any]:
        found = MCTS(game, simulations=request.simulations).analyse(boards.position(0))
        visits = np.where(boards.legal(game)[0], found.visits, np.nan)
        line = " ".join(f"{coordinate(cell, game)}" for _, cell in found.variation[:6])
        notes = [f"Its value of the position is {_text(found.value, DIGITS)}.", f"Most visited line: {line}."]
        shown = _map(game, visits, notes, "visits")
        return {
            **shown,
            "texts": [None if np.isnan(one) else f"{one:.0f}" for one in visits],
            "scale": _max_value(visits),
        }

    def _policy_panel(self, game: Game, boards: Boards, request: PanelRequest) -> dict[str, Any]:
        if request.policy is None:
            raise ValueError("no policy is chosen: choose one")
        policy, lock = self._policy(request.policy, game)
        with lock:
            return self._shares(game, policy, boards, "Its move probabilities.")

    def _shares(self, game: Game, policy: Policy, boards: Boards, note: str) -> dict[str, Any]:
        shares = choice_in(policy, boards, solution=None).probabilities
        notes = [note] if policy.pure else [note, "It is randomised: this is one sample of its probabilities."]
        return _probabilities_json(game, boards.position(0), shares, notes)

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
            games, why = [], self.describe_error(problem)
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

    def _snapshots(self, run: RunDirectory, game: Game) -> list[Snapshot]:
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
            played = _to_played_game(game, request.line.opening, request.line.moves)
            found = list(from_games([played], solver=self._solution))
        elif request.run is not None:
            found = self._run_puzzles(request.run)
        else:
            found = read_puzzles()
        return {"puzzles": [one.to_dict() for one in found]}

    def _run_puzzles(self, name: str) -> list[Puzzle]:
        game = self.root.run(name).read_game()
        check_table(game, "practice with the mistakes of a run")
        policy, lock = self._policy(policy_name(name), game)
        with lock:
            if not policy.pure or not affordable(game, policy):
                raise ValueError(f"the mistakes of {name} are not computed in a moment: evaluate.py puzzles does it")
            return [dataclasses.replace(one, why=name) for one in from_policy(game, policy)]

    # -----------------------------------------------------------------------------------------------------------------
    # Caches

    def _solution(self, game: Game) -> Solution:
        found: Solution = self._solutions.get(game, lambda: solve(game, cache=False))
        return found

    def _policy(self, spec: str, game: Game) -> tuple[Policy, threading.Lock]:
        """Return a policy, and the lock to hold while using it: policies with internal state are not thread-safe."""
        checked = check_spec(spec, game, self.root)
        changed: tuple[int, ...] = ()
        if checked.startswith("run:"):
            run = self.root.run(schemas.run_name(spec))
            changed = tuple(path.stat().st_mtime_ns for path in (run.config, run.checkpoint) if path.exists())

        def make() -> tuple[Policy, threading.Lock]:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a different training game is reported in the panel
                return make_policy(checked, game), threading.Lock()

        found: tuple[Policy, threading.Lock] = self._policies.get((checked, game, changed), make)
        return found

    def describe_error(self, problem: BaseException) -> str:
        """Format an error without paths of this machine."""
        text = str(problem).partition("\n")[0] or type(problem).__name__
        if self.root.folder is not None:
            text = text.replace(f"{self.root.folder}/", "").replace(str(self.root.folder), "the folder of runs")
        return text[:400]


@contextmanager
def _name_errors(path: Path) -> Iterator[None]:
    """Report file errors under the file's name, without its folder."""
    try:
        yield
    except OSError as problem:
        raise ValueError(f"{path.name} cannot be read: {problem.strerror or problem}") from None


def _to_played_game(game: Game, opening: str | None, moves: str) -> PlayedGame:
    """Return an unfinished or finished game from its moves."""
    start = from_text(opening, game) if opening is not None else Boards.start(game).position(0)
    if opening is not None:
        check_opening(game, start, "the opening")
    cells, mover = start.cells.copy(), start.mover
    for word in moves.split():
        cells[cell_at(word.removesuffix(AGAIN), game)] = mover + 1
        mover = mover if word.endswith(AGAIN) else 1 - mover
    result = winner(game, cells)
    data: dict[str, Any] = {"game": game.to_dict(), "players": ["o", "x"], "moves": moves}
    data["result"] = None if result is None else ("player_0", "player_1", "draw")[result]
    return PlayedGame.from_dict(data if opening is None else {**data, "opening": opening})


def _last_stones(plies: list[tuple[Position, int, bool]]) -> list[int]:
    """Return the stones that the last mover placed since the other player's last move."""
    cells: list[int] = []
    for position, cell, _ in reversed(plies):
        if position.mover != plies[-1][0].mover:
            break
        cells.append(cell)
    return cells


def _result_name(result: int | None) -> str | None:
    return None if result is None else RESULTS[2 if result == DRAW else result]


def _names(cells: Iterable[int], game: Game) -> str:
    return ", ".join(coordinate(cell, game) for cell in islice(cells, 12))


def _best_cells(values: Float64Array) -> list[int]:
    return [int(cell) for cell in np.flatnonzero(values >= np.nanmax(values) - VALUE_TOLERANCE)]


def _max_value(values: Float64Array) -> float:
    return max(1.0, float(np.nanmax(values)))


def _text(value: float, digits: int) -> str:
    """Format a value with its sign; the minus sign is as wide as the plus."""
    text = f"{abs(value):.{digits}f}"
    return text if not float(text) else ("\N{MINUS SIGN}" if value < 0 else "+") + text


def _snapshot_json(game: Game, choice: Choice) -> dict[str, Any]:
    """Return a position with a learner's stored choice."""
    own = choice.own
    return {
        "name": position_name(game, choice.position),
        "position": to_text(choice.position, game),
        "plays": _probabilities_json(game, choice.position, choice.probabilities, []),
        "expects": None if own is None else _values_json(game, own, []),
    }


def _probabilities_json(game: Game, position: Position, shares: Float64Array, notes: list[str]) -> dict[str, Any]:
    """Return move probabilities; none for occupied cells."""
    known = np.where(legal(game, position.cells), shares, np.nan)
    texts = [None if np.isnan(one) else f"{one:.0%}" for one in known]
    return {**_map(game, known, notes, "probability"), "texts": texts}


def _values_json(game: Game, values: Float64Array, notes: list[str]) -> dict[str, Any]:
    """Return a learner's own action values, which may be wrong by any amount."""
    return {**_map(game, values, notes), "scale": max(1.0, float(np.nanmax(np.abs(values))))}


def _map(game: Game, values: Float64Array, notes: list[str], word: str = "value") -> dict[str, Any]:
    """Return a number for every empty cell, its text, and the best cells."""
    digits = DIGITS if game.columns <= MAX_NARROW else WIDE_DIGITS
    known = [None if np.isnan(value) else float(value) + 0.0 for value in values]
    return {
        "values": known,
        "texts": [None if value is None else _text(value, digits) for value in known],
        "best": _best_cells(values),
        "scale": 1.0,
        "word": word,
        "notes": notes,
    }
