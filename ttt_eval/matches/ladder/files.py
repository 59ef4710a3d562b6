"""Ladders as files: ``ttt_eval/data/ladders/NAME.json`` or another file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

from ttt_envs.agents.specs import FromFile
from ttt_envs.game.game import Game
from ttt_eval.cost import is_number
from ttt_eval.matches.ladder.plans import ANCHOR, PLANS
from ttt_eval.matches.ladder.results import MAX_GAMES, pair_weights
from ttt_eval.result_store import read_hashed_json

LADDER_FOLDER = Path(__file__).parents[2] / "data" / "ladders"
MAX_FILE_BYTES = 1 << 24
"""Maximum size of a ladder's file in bytes."""


@dataclass(frozen=True)
class Ladder:
    """A measured ladder.

    Attributes:
        name: one of :data:`PLANS`, or another name.
        game: the game.
        rungs: by rising rating: ``spec``, ``rating``, ``low``, ``high``, ``exploitability``, ``regret``, ``cost``; see
            docs/files.md.
        data: the file, as JSON-ready data.
        source: argument of :func:`read_ladder` that reads it.
    """

    name: str
    game: Game
    rungs: Sequence[Mapping[str, Any]]
    data: Mapping[str, Any]
    source: str

    @property
    def specs(self) -> list[str]:
        """Spec strings of the rungs."""
        return [rung["spec"] for rung in self.rungs]

    @property
    def exact(self) -> bool:
        """Whether the results between the rungs are exact."""
        return bool(self.data["games"] == 0)


def read_ladder(name: str | Path) -> Ladder:
    """Read a built-in ladder by its name, or one in a ``.json`` file.

    Its policies are :class:`~ttt_envs.agents.specs.FromFile`: a file can never run code.

    Raises:
        OSError: no file, or one that cannot be read.
        ValueError: no such ladder, a damaged file.
    """
    path = Path(name) if str(name).endswith(".json") else LADDER_FOLDER / f"{name}.json"
    if path.parent == LADDER_FOLDER and str(name) not in PLANS:
        raise ValueError(f"there is no ladder {str(name)!r}: choose {_ladder_names()}, or a .json file")
    if path.parent == LADDER_FOLDER and not path.exists():
        raise ValueError(
            f"{path} is missing: reinstall ttt_envs, or measure it with evaluate.py ladder --measure {name}"
        )
    remedy = "reinstall ttt_envs, or measure with evaluate.py ladder --measure"
    parse = partial(_parse, source=str(name))
    return read_hashed_json(path, "rungs", MAX_FILE_BYTES, parse, what="complete ladder", remedy=remedy)


def _parse(data: dict[str, Any], source: str) -> Ladder:
    rungs, results, games = data["rungs"], data["results"], data["games"]
    if not (isinstance(rungs, list) and isinstance(results, list) and all(map(_is_rung, rungs))):
        raise ValueError("it has a rung without its policy or a number")
    if not all(map(_is_result, results)):
        raise ValueError("it has a result that is none")
    if type(games) is not int or not 0 <= games <= MAX_GAMES:
        raise ValueError("it has no number of games")
    met = {frozenset((result["a"], result["b"])) for result in results}
    if met != set(map(frozenset, combinations(range(len(rungs)), 2))) or ANCHOR not in [r["spec"] for r in rungs]:
        raise ValueError("it lacks rungs or results")
    rungs = [{**rung, "spec": FromFile(rung["spec"])} for rung in rungs]
    return Ladder(str(data["name"]), Game.from_dict(data["game"]), rungs, data, source)


def _is_rung(rung: object) -> bool:
    """Return whether the data of a rung has all that is shown and computed with it."""
    unknown = ("exploitability", "regret")  # on boards that are too large
    if not isinstance(rung, dict) or not isinstance(rung.get("cost"), dict) or not set(unknown) <= rung.keys():
        return False
    numbers = [rung.get(name) for name in ("rating", "low", "high")]
    numbers += [rung["cost"].get(name) for name in ("cpu_s_per_move", "own_bytes")]
    numbers += [rung[name] for name in unknown if rung[name] is not None]
    return isinstance(rung.get("spec"), str) and rung["spec"].isprintable() and all(map(is_number, numbers))


def _is_result(result: object) -> bool:
    """Return whether the data of a result between two rungs can be rated."""
    if not isinstance(result, dict) or not all(type(result.get(name)) is int for name in ("a", "b")):
        return False
    if result.get("exact"):
        return all(is_number(result.get(name)) and 0 <= result[name] <= 1 for name in ("win", "draw"))
    pairs = result.get("pentanomial")
    if not (isinstance(pairs, list) and len(pairs) == 5 and all(type(n) is int and 0 <= n <= MAX_GAMES for n in pairs)):
        return False
    with suppress(ValueError):
        return any(pairs) and bool(pair_weights(result)[0].shape == (5,))
    return False


def ladder_name(game: Game) -> str:
    """Return the name of the ladder of a game.

    Raises:
        ValueError: there is none.
    """
    for name, plan in PLANS.items():
        if plan.game == game:
            return name
    raise ValueError(
        f"there is no ladder of {game}: choose one of another game, {_ladder_names()}, or sample it here "
        f"with evaluate.py match"
    )


def _ladder_names() -> str:
    *most, last = PLANS
    return f"{', '.join(most)} or {last}"
