"""Run directories: atomically written files, and policies loaded from runs.

Loading a file here never runs code: arrays are read with ``allow_pickle=False`` and settings are
JSON.
"""

from __future__ import annotations

import dataclasses
import difflib
import hashlib
import os
import warnings
import zipfile
from collections.abc import Mapping
from multiprocessing import current_process
from pathlib import Path
from typing import IO, Annotated, Any, Literal

import numpy as np
from msgspec import Meta, Struct, convert

from learners.base import Arrays
from learners.config import LearnerConfig, load_learner
from learners.registry import CONFIG, OtherGameWarning, is_run
from ttt_envs.agents.policy import ALL_VARIANTS, Policy, PolicyWrapper
from ttt_envs.agents.specs import from_file, wrap
from ttt_envs.agents.wrappers import SymmetrizedPolicy
from ttt_envs.core.checks import Refusal, find_named, name_place
from ttt_envs.core.files import open_to_read, read_json, write_atomically
from ttt_envs.game.phantom import AnyGame, PhantomGame, game_from_dict, visible

CHECKPOINT = "checkpoint.npz"
METRICS = "metrics.jsonl"
COST = "cost.json"
MAX_CONFIG_BYTES = 1 << 22
"""Maximum size of a config.json in bytes."""
Count = Annotated[int, Meta(ge=0)]


class RunConfig(Struct, kw_only=True):
    """Fields of every config.json, and those of a training that it may lack."""

    format: Literal[1] = 1
    game: dict[str, Any]
    learner: str
    settings: dict[str, Any]
    games: Count = 0
    batch: Annotated[int, Meta(ge=1)] | None = None
    log_every: Annotated[int, Meta(ge=1)] | None = None
    exact_every: Count | None = None
    checkpoint_games: Count = 0
    checkpoint_seconds: float = 0.0
    seat: str = ""
    no_report: bool = False
    resumed: list[Any] = []


class TrainingConfig(RunConfig, kw_only=True):
    """The same with those without which a training cannot be resumed."""

    opponent: str
    games: Count
    seed: Count


def save_arrays(path: Path, arrays: Arrays) -> None:
    """Write arrays atomically; the zip comment is a hash of all arrays and their names.

    The same arrays give the same bytes.
    """

    def write(file: IO[bytes]) -> None:
        save: Any = np.savez
        save(file, **arrays)
        with zipfile.ZipFile(file, "a") as archive:
            archive.comment = _hash(arrays)

    write_atomically(path, write)


def _hash(arrays: Mapping[str, np.ndarray[Any, Any]]) -> bytes:
    """Return the SHA-256 of arrays, their names, dtypes and shapes, in its stored form."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = np.asarray(arrays[name])
        digest.update(repr((name, array.dtype.str, array.shape)).encode())
        digest.update(np.ascontiguousarray(array).data if array.size else b"")
    return f"sha256:{digest.hexdigest()}".encode()


def save_checkpoint(run: Path, **parts: Mapping[str, np.ndarray[Any, Any]]) -> None:
    """Write a run's ``checkpoint.npz`` atomically: arrays ``part.name`` of each part.

    ``run:PATH`` plays the part ``learner``.

    Raises:
        OSError: it cannot be written; a checkpoint before it is still there.
    """
    named = {
        f"{part}.{name}": array for part, arrays in parts.items() for name, array in arrays.items()
    }
    save_arrays(run / CHECKPOINT, named)


def load_checkpoint(run: Path) -> dict[str, dict[str, np.ndarray[Any, Any]]]:
    """Load the parts that :func:`save_checkpoint` wrote, by name.

    Raises:
        ValueError: a file that is missing, damaged, too large, or holds anything but arrays.
    """
    parts: dict[str, dict[str, np.ndarray[Any, Any]]] = {}
    for name, array in load_arrays(run / CHECKPOINT).items():
        part, _, rest = name.partition(".")
        parts.setdefault(part, {})[rest] = array
    return parts


def load_arrays(path: Path, limit: int = 1 << 34) -> dict[str, np.ndarray[Any, Any]]:
    """Read arrays that :func:`save_arrays` wrote, and check their hash.

    Args:
        path: the file.
        limit: maximum size of the file in bytes; the arrays in it have fewer.

    Raises:
        ValueError: a file that is damaged, too large, or holds anything but arrays.
    """
    with (
        name_place(
            f"{path} cannot be read as a file of arrays", (Exception,)
        ),  # a malformed zip can raise any
        open_to_read(path, limit) as file,
        zipfile.ZipFile(file) as entries,
        np.lib.npyio.NpzFile(
            file
        ) as archive,  # np.load would propose pickle to read what is no zip file
    ):
        # ours are not compressed: a small file could fill the memory
        if sum(entry.file_size for entry in entries.infolist()) > path.stat().st_size:
            raise Refusal("it unpacks to more bytes than it has")
        arrays = dict(archive)
        if entries.comment != _hash(arrays):
            raise Refusal("its arrays are not those that were written")
    return arrays


def build_config(learner: str, settings: Mapping[str, Any]) -> LearnerConfig:
    """Return the settings of the named learner.

    Raises:
        ValueError: an unknown learner, setting or value.
    """
    config = load_learner(learner)
    fields = {field.name: field for field in dataclasses.fields(config)}
    for name in settings:
        find_named(f"setting of {learner}", name, fields)
    return config(**settings)


def new_config(game: AnyGame, settings: Mapping[str, Any], **training: Any) -> dict[str, Any]:
    """Return the contents of :data:`CONFIG`: game, settings, and the training's fields, ``learner``
    among them.
    """
    return {"format": 1, "game": game.to_dict(), **training, "settings": dict(settings)}


def read_config(run: Path, fields: type = RunConfig) -> dict[str, Any]:
    """Read a run's ``config.json``; its strings are :class:`~ttt_envs.agents.specs.FromFile`.

    Raises:
        ValueError: no such run, or a damaged file, or one without the ``fields``, those of
            :data:`RunConfig`, or of :data:`TrainingConfig`, which a training needs to be resumed or
            repeated.
    """
    path = run / CONFIG
    if run.is_file():
        raise Refusal(f"{run} is a file and no run: name the folder of a run")
    if not os.path.lexists(path):
        near = difflib.get_close_matches(
            run.name, [other.name for other in run.parent.glob("*") if is_run(other)], 1
        )
        hints = [
            f"Did you mean {other}?"
            for other in (run.parent, *map(run.with_name, near))
            if is_run(other)
        ]
        hints += [
            f"It contains runs: choose one, such as {other}"
            for other in sorted(run.glob("*"))
            if is_run(other)
        ]
        hints.append(f"Make one with train.py --out {run}")
        raise Refusal(f"{run} is no run: there is no {CONFIG} in it. {hints[0]}")
    data = read_json(path, MAX_CONFIG_BYTES)
    with name_place(f"{path} cannot be read as the settings of a run"):
        convert(data, fields)
        game_from_dict(data["game"])
    return dict(from_file(data))


def is_recorded(run: Path, config: Mapping[str, Any]) -> bool:
    """Return whether a run is a curve that ``ttt_eval.record`` wrote: it has neither settings nor a
    policy.
    """
    return "games" not in config and not (run / CHECKPOINT).exists()


class RunPolicy(PolicyWrapper):
    """The policy trained by the run in a folder.

    It has the learner's values and evaluations, where it has any. Warns with OtherGameWarning if
    the game is not the one of its training.

    Args:
        game: the game to play.
        path: folder of the run.
        symmetrize: whether to play by the mean of the action values over all symmetries of the
            board, so that the policy is symmetric; else it plays as the learner does by itself.

    Raises:
        ValueError: no such run, a run on another board or by other rules, a damaged file, or
            ``symmetrize`` of a learner without action values.
    """

    variants = ALL_VARIANTS  # its run has one game, which the learner supports
    plays_hidden = True

    def __init__(self, game: AnyGame, path: str, symmetrize: bool = False) -> None:
        run = Path(path)
        config = read_config(run)
        if is_recorded(run, config):
            raise Refusal(
                f"{path} is a recorded curve, which has no policy: name a run of train.py"
            )
        trained = game_from_dict(config["game"])
        # what learned where stones are seen also plays where they are hidden, by views
        played = game if isinstance(trained, PhantomGame) else visible(game)
        rules, trained_rules = (
            {**each.to_dict(), "skip_chance": 0, "win_length": 0} for each in (played, trained)
        )
        if rules != trained_rules:
            games = f"the run {path} learned {trained}, and the game here is {game}"
            raise Refusal(f"{games}: play it on its own board, by its rules")
        if (
            trained != game and current_process().name == "MainProcess"
        ):  # worker processes would repeat the warning
            words = f"run:{path} learned {trained}, and plays {game} here, which it has never seen"
            warnings.warn(words, OtherGameWarning, stacklevel=2)
        learner = build_config(config["learner"], config["settings"]).build(
            trained, np.random.default_rng(0)
        )
        with name_place(str(run / CHECKPOINT)):
            learner.state = load_checkpoint(run).get("learner", {})
        symmetrized = symmetrize and not learner.symmetric
        self.learner: Policy = SymmetrizedPolicy(learner, visible(game)) if symmetrized else learner
        super().__init__(self.learner)
        self.path = path
        self.symmetrize = symmetrize
        if hasattr(self.learner, "run_simulations"):  # guides searches in one kernel
            self.run_simulations = self.learner.run_simulations

    def __str__(self) -> str:
        return policy_name(self.path) + (",symmetrize=true" if self.symmetrize else "")


def policy_name(run: str | Path) -> str:
    """Return the spec string of a run."""
    return f"run:{wrap(str(run))}"
