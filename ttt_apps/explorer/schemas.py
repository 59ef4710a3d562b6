"""Request schemas of the explorer with their limits: board sizes, policies with settings, files under one root.

Any client may send any request. So a request names no file or class except a run or a log found under
the root, and every number has a bound.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal, NamedTuple, get_args

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from baselines.compression import Method
from baselines.expectiminimax import Heuristic
from learners.checkpoint import CONFIG, METRICS
from ttt_envs.agents.specs import FromFile, parse_spec
from ttt_envs.core.checks import closest_names
from ttt_envs.core.files import parse_json
from ttt_envs.envs.config import FirstPlayer
from ttt_envs.game.game import VARIANTS, Game
from ttt_eval.matches.games import read_games
from ttt_eval.policy_snapshots import CHOICES
from ttt_eval.run_files import RunDirectory

MAX_EDGE = 15
"""Maximum edge of a board."""
MAX_TABLE_CELLS = 12
"""Maximum number of cells of boards with exact values and tables, each computed in a moment."""
MAX_SKIP_CHANCE = 0.5
MAX_BODY = 1 << 14
"""Maximum size of a request in bytes."""
MAX_LOG_BYTES = 1 << 24
"""Maximum size of a log in bytes."""
MAX_MARKS = 2000
"""Maximum number of marks of a learning curve."""
MAX_GAMES = 500
"""Maximum number of listed games of a log."""
MAX_ENTRIES, MAX_DEPTH = 200, 3
"""Maximum number of listed runs and logs, and maximum depth of their folders."""
MAX_SIMULATIONS = 5000
MAX_PROOF_NODES = 1_000_000
"""Maximum number of positions for the proofs of all moves of a position."""
MAX_PANELS = 8

Text = Annotated[str, StringConstraints(max_length=400)]


# ---------------------------------------------------------------------------------------------------------------------
# Schemas


class BaseRequest(BaseModel):
    """Base of requests: no unknown fields, strict types."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class GameRequest(BaseRequest):
    """Parameters of a game; without a win length it is the default of the size."""

    rows: Annotated[int, Field(ge=1, le=MAX_EDGE)] = 3
    columns: Annotated[int, Field(ge=1, le=MAX_EDGE)] = 3
    win_length: Annotated[int, Field(ge=1, le=MAX_EDGE)] | None = None
    skip_chance: Annotated[float, Field(ge=0, le=MAX_SKIP_CHANCE)] = 0.0
    gravity: bool = False
    overlines: bool = True
    misere: bool = False
    torus: bool = False
    first: FirstPlayer = "player_0"
    """who moves first; with ``"random"`` openings may be those of either player"""

    def game(self) -> Game:
        """Return the validated game.

        Raises:
            ValueError: a line that does not fit on the board.
        """
        rules = {name: getattr(self, name) for name in VARIANTS}
        return Game.of_size((self.rows, self.columns), self.win_length, round(self.skip_chance, 2), **rules)


class LineRequest(BaseRequest):
    """A whole game so far: the server is stateless."""

    game: GameRequest
    opening: Text | None = None
    moves: Annotated[str, StringConstraints(max_length=5 * MAX_EDGE * MAX_EDGE)] = ""


class ReviewRequest(LineRequest):
    """The same, for its exact values."""


class PlayRequest(LineRequest):
    """One more move: a person's cell, or a policy's move."""

    seed: Annotated[int, Field(ge=0, lt=1 << 32)]
    cell: Annotated[int, Field(ge=0, lt=MAX_EDGE * MAX_EDGE)] | None = None
    policy: Text | None = None


class PanelRequest(BaseRequest):
    """Settings of one panel."""

    kind: Literal["exact", "prove", "random", "compressed", "run", "search", "mcts", "policy"]
    method: Method = "svd"
    rank: Annotated[int, Field(ge=0, le=1 << 10)] | None = None
    run: Text | None = None
    depth: Annotated[int, Field(ge=1, le=9)] = 3
    simulations: Annotated[int, Field(ge=1, le=MAX_SIMULATIONS)] = 400
    nodes: Annotated[int, Field(ge=1, le=MAX_PROOF_NODES)] = 200_000
    policy: Text | None = None


class ValuesRequest(BaseRequest):
    """A position to evaluate, for several panels."""

    game: GameRequest
    position: Text
    panels: Annotated[list[PanelRequest], Field(min_length=1, max_length=MAX_PANELS)]


class SolveRequest(BaseRequest):
    """Whether a game has exact values, and whether to compute a table of them."""

    game: GameRequest
    start: bool = False


class NameRequest(BaseRequest):
    """Name of a run or a log."""

    name: Text


class PuzzlesRequest(BaseRequest):
    """Puzzles: the mistakes of a game so far or of a run by its name; of neither, the built-in set."""

    line: LineRequest | None = None
    run: Text | None = None


class LogRequest(NameRequest):
    """A game of a log, counted from 1."""

    number: Annotated[int, Field(ge=1, le=MAX_GAMES)]


class SnapshotRequest(NameRequest):
    """A mark of a run with stored boards, counted from 0."""

    number: Annotated[int, Field(ge=0, lt=MAX_MARKS)]


def read_request(kind: type[BaseRequest], body: bytes) -> Any:
    """Parse a request.

    Raises:
        ValueError: anything else, in one sentence.
    """
    try:
        return kind.model_validate(parse_json(body, MAX_BODY))
    except ValidationError as problem:
        first = problem.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"])) or "the request"
        what = first["msg"]
        raise ValueError(f"{where[:60]!a} cannot be taken: {what[0].lower()}{what[1:]}") from None


# ---------------------------------------------------------------------------------------------------------------------
# Policies


class Setting(NamedTuple):
    """A configurable setting of a policy."""

    default: Any
    low: float = 0
    high: float = 0
    choices: tuple[str, ...] = ()
    about: str = ""

    def check(self, name: str, key: str, value: str) -> str:
        """Return the value if it is admissible.

        Raises:
            ValueError: it is not.
        """
        prefix = f"{name}: {key}={value[:40]!a} is not offered here"
        if self.choices:
            if value not in self.choices:
                raise ValueError(f"{prefix}, {closest_names(value, self.choices)}")
            return value
        try:
            number = int(value) if isinstance(self.default, int) else float(value)
        except ValueError:
            number = math.nan
        if not self.low <= number <= self.high:
            raise ValueError(f"{prefix}: choose {self.low:g} to {self.high:g}")
        return str(number)


_TABLE = {
    "w": Setting(10.0, 0, 1000, about="how much the table weighs"),
    "terminal": Setting("equation", choices=("equation", "as_published")),
    "source": Setting("random", choices=("random", "optimal"), about="whose values are in the table"),
}
_COMPRESSED = {"rank": Setting(18, 0, 1 << 10, about="of the approximation"), **_TABLE}
SETTINGS: dict[str, dict[str, Setting]] = {
    "optimal": {"epsilon": Setting(0.0, 0, 1, about="probability of a random move")},
    "random": {},
    "win-or-block": {},
    "expectiminimax": {
        "depth": Setting(3, 1, 9, about="plies to look ahead"),
        "width": Setting(4, 1, 4, about="moves drawn at every node below the root; left out, all are tried"),
        "heuristic": Setting("count", choices=get_args(Heuristic)),
    },
    "mcts": {
        "simulations": Setting(200, 1, MAX_SIMULATIONS, about="for every move"),
        "c": Setting(1.4, 0, 100, about="weight of exploration"),
        "temperature": Setting(0.0, 0, 10, about="0 plays the most visited move"),
        "decisive": Setting("true", choices=("true", "false")),
        "rollout": Setting("random", choices=("random",)),
    },
    "table": _TABLE,
    **dict.fromkeys(("svd", "hosvd", "hosvd2", "hooi", "tt"), _COMPRESSED),
    "run": {
        "path": Setting(""),
        "symmetrize": Setting("false", choices=("false", "true"), about="average values over symmetries"),
    },
}
"""Available policies and their settings; the first may be given without its key."""
TABLE_POLICIES = {"optimal", "table", "svd", "hosvd", "hosvd2", "hooi", "tt"}
"""Policies that need a table."""


def max_depth(game: Game) -> int:
    """Return the maximum depth of a search in plies."""
    for cells, depth in ((9, 9), (25, 6), (49, 5), (100, 4)):
        if game.cells <= cells:
            return min(depth, game.cells)
    return 3


def check_spec(spec: str, game: Game, root: Root) -> FromFile:
    """Return the spec string if it is safe: it can only play, in bounded time.

    Raises:
        ValueError: any other.
    """
    parsed = parse_spec(spec)
    name = parsed.name
    if name not in SETTINGS:
        raise ValueError(f"there is no policy {name[:40]!a} here: {closest_names(name[:40], SETTINGS)}")
    known = SETTINGS[name]
    if name in TABLE_POLICIES:
        check_table(game, name)
    given = dict(parsed.keyed)
    if parsed.unkeyed is not None:
        if not known or next(iter(known)) in given:
            raise ValueError(f"{name} does not take {parsed.unkeyed[:40]!a}: write {name}")
        given = {next(iter(known)): parsed.unkeyed, **given}
    words = []
    for key, value in given.items():
        if key not in known:
            raise ValueError(
                f"{name} has no setting {key[:40]!a} here: {closest_names(key[:40], known) if known else name}"
            )
        if (name, key) == ("run", "path"):
            continue
        words.append(f"{key}={known[key].check(name, key, value)}")
    if name == "expectiminimax" and int(given.get("depth", 3)) > max_depth(game):
        raise ValueError(f"depth={given['depth']} takes too long on {game}: choose 1 to {max_depth(game)}")
    if name == "run":
        return FromFile(",".join([root.run(given.get("path", "")).policy, *words]))
    return FromFile(f"{name}:{','.join(words)}" if words else name)


def check_table(game: Game, what: str) -> None:
    """Raise ValueError for a board too large to compute a table in a moment."""
    if game.cells > MAX_TABLE_CELLS:
        raise ValueError(
            f"{what} is not offered on a board of {game.rows} x {game.columns}: choose one of up to "
            f"{MAX_TABLE_CELLS} cells, or a search"
        )


# ---------------------------------------------------------------------------------------------------------------------
# Files


@dataclass(frozen=True)
class Root:
    """Root folder of runs and logs; paths outside it and links are invisible.

    Args:
        folder: the root; None for none.
        databases: folder of endgame databases, which no request can name.

    Raises:
        ValueError: not a folder.
    """

    folder: Path | None = None
    databases: Path | None = None

    def __post_init__(self) -> None:
        if self.folder is not None and not self.folder.is_dir():
            raise ValueError(f"--runs {self.folder} is no folder: choose one that holds runs")

    def runs(self) -> list[str]:
        """Return the names of the runs."""
        return self._names(lambda path, files: [path] if CONFIG in files else [])

    def logs(self) -> list[str]:
        """Return the names of the files of games."""
        return self._names(lambda path, files: [path / name for name in files if _is_log(path / name)])

    def run(self, name: str) -> RunDirectory:
        """Return a run.

        Raises:
            ValueError: there is none of that name.
        """
        return RunDirectory(self._path(name, _is_run, self.runs, "run"))

    def log(self, name: str) -> Path:
        """Return a file of games.

        Raises:
            ValueError: there is none of that name.
        """
        return self._path(name, _is_log, self.logs, "log")

    def describe_error(self, problem: BaseException) -> str:
        """Format an error without paths of this machine."""
        text = str(problem).partition("\n")[0] or type(problem).__name__
        for folder, what in ((self.folder, "the folder of runs"), (self.databases, "the folder of databases")):
            if folder is not None:
                text = text.replace(f"{folder}/", "").replace(str(folder), what)
        return text[:400]

    def _path(self, name: str, is_one: Callable[[Path], bool], known: Callable[[], list[str]], what: str) -> Path:
        folder, parts = self.folder, PurePosixPath(name).parts
        if folder is not None and name.isprintable() and "\\" not in name and len(parts) <= MAX_DEPTH + 1:
            path, plain = folder, True
            for part in parts:
                path = path / part
                plain = plain and not part.startswith((".", "/")) and not path.is_symlink()
            if plain and is_one(path):
                return path
        names = known()
        way = closest_names(name[:60], names) if names else "start the explorer with --runs FOLDER"
        raise ValueError(f"there is no {what} {name[:60]!a}: {way}")

    def _names(self, here: Callable[[Path, list[str]], list[Path]]) -> list[str]:
        return sorted(
            path.relative_to(self.folder or path).as_posix() for path in islice(self._walk(here), MAX_ENTRIES)
        )

    def _walk(self, here: Callable[[Path, list[str]], list[Path]]) -> Iterator[Path]:
        """Yield the results of ``here`` in each folder, given its path and its files, without following links."""
        if self.folder is None:
            return
        for path, folders, files in os.walk(self.folder):
            below = Path(path).relative_to(self.folder)
            folders[:] = (
                sorted(one for one in folders if not one.startswith(".")) if len(below.parts) < MAX_DEPTH else []
            )
            yield from here(Path(path), sorted(one for one in files if not (Path(path) / one).is_symlink()))


def _is_run(path: Path) -> bool:
    """Return whether a folder is a run."""
    run = RunDirectory(path)
    return run.exists() and not run.config.is_symlink()


def _is_log(path: Path) -> bool:
    """Return whether a file is one of games, by its header."""
    if path.suffix != ".jsonl" or path.name in (METRICS, CHOICES) or path.is_symlink() or not path.is_file():
        return False
    try:
        next(read_games(path, limit=MAX_LOG_BYTES, tell=lambda _: None), None)
    except (ValueError, TypeError, OSError):
        return False
    return True


def run_name(spec: str) -> str:
    """Return the name of the run in a spec string that begins with ``run:``."""
    parsed = parse_spec(spec)
    return parsed.keyed.get("path", parsed.unkeyed or "")
