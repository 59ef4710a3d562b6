"""Results of computations as one class each, which a command makes, ``result.json`` stores and
pages show.

msgspec reads them: a damaged file is one sentence with the place in the file, as in ``Expected
`int`, got `str` - at $.seed``.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, cast

from msgspec import UNSET, Meta, Struct, UnsetType, convert

from ttt_envs.agents.specs import MAX_SPEC_LENGTH
from ttt_envs.core.files import write_json
from ttt_envs.game.game import Game
from ttt_envs.game.phantom import AnyGame, PhantomGame, game_from_dict
from ttt_eval.store.result_store import RESULT, Data
from ttt_eval.store.statistics import Interval

if TYPE_CHECKING:
    StoredGame = AnyGame
else:
    StoredGame = Any  # msgspec leaves the game to GameResult

Spec = Annotated[str, Meta(min_length=1, max_length=MAX_SPEC_LENGTH, pattern="^[^-]")]
"""of a policy; one that begins with a hyphen would be an option of a command"""


class Result(Struct, tag_field="kind", kw_only=True):
    """What every ``result.json`` has."""

    format: Literal[1] = 1
    provenance: Data | UnsetType = UNSET
    """versions and code"""
    folder: Path = Path()
    """the folder of the file"""

    @classmethod
    def from_dict(cls, data: Mapping[str, object], folder: Path = Path()) -> Self:
        """Return the result that :meth:`to_dict` stored.

        Args:
            data: the content of a file.
            folder: its folder.

        Raises:
            ValueError: the content of another kind, or a damaged one.
        """
        return convert({**_with_intervals(dict(data)), "folder": folder}, cls, str_keys=True)

    def to_dict(self) -> Data:
        """Return the content of the file, JSON-ready; docs/files.md documents the keys."""
        content = to_json(self)
        del content["folder"], content["format"]
        return {"format": self.format, "kind": self.__struct_config__.tag, **content}

    def write(self, folder: Path) -> None:
        """Write ``result.json`` into a folder, atomically."""
        write_json(folder / RESULT, self.to_dict())


class GameResult(Result, kw_only=True):
    """What every result of a game has."""

    game: StoredGame

    def __post_init__(self) -> None:
        self.game = _read_game(self.game)


def to_json(value: object) -> Any:
    """Return a part of a result, JSON-ready."""
    if isinstance(value, Struct):
        fields = {name: getattr(value, name) for name in value.__struct_fields__}
        return {name: to_json(part) for name, part in fields.items() if part is not UNSET}
    if isinstance(value, Interval | Game | PhantomGame):
        return value.to_dict()
    if isinstance(value, dict):
        return {str(key): to_json(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(part) for part in value]
    return value


def _read_game(data: object) -> AnyGame:
    """Return the game of a result, which is JSON-ready if it was read from a file."""
    if isinstance(data, Game | PhantomGame):
        return data
    return game_from_dict(cast(Data, data))


def _with_intervals(data: object) -> Any:
    """Return data with an interval for each estimate; one without ends is a point."""
    if isinstance(data, list):
        return [_with_intervals(entry) for entry in data]
    if not isinstance(data, dict):
        return data
    if "mean" not in data:
        return {key: _with_intervals(entry) for key, entry in data.items()}
    ends = [data.get(key) for key in ("low", "high")]
    return Interval(data["mean"], *(data["mean"] if end is None else end for end in ends))
