"""Run directories: atomically written files, and policies loaded from runs.

Loading a file here never runs code: arrays are read with ``allow_pickle=False`` and settings are JSON.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
import os
import warnings
import zipfile
from collections.abc import Mapping
from multiprocessing import current_process
from pathlib import Path
from typing import IO, Any

import numpy as np

from learners import CONFIG as CONFIG
from learners import OtherGameWarning, is_run
from learners.config import LearnerConfig, load_learner
from ttt_envs.agents.policy import ALL_VARIANTS, Policy, PolicyWrapper
from ttt_envs.agents.specs import FromFile, from_file
from ttt_envs.agents.wrappers import SymmetrizedPolicy
from ttt_envs.core.checks import closest_names, quote
from ttt_envs.core.files import closest_path, open_to_read, parse_json, read_bounded, write_atomically
from ttt_envs.game.phantom import AnyGame, PhantomGame, game_from_dict, visible

CHECKPOINT, METRICS, COST = "checkpoint.npz", "metrics.jsonl", "cost.json"
TEACHER_FOLDER = "teacher"
"""Folder of the teacher's games."""
MAX_OVERHEAD = 1 << 20
"""Maximum overhead of a file of arrays in bytes."""
MAX_CONFIG_BYTES = 1 << 22
"""Maximum size of a config.json in bytes."""

KINDS: dict[type, str] = {
    dict: "an object",
    list: "a list",
    str: "a word",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    type(None): "null",
}
"""Names of JSON types, for messages."""
RUN_FIELDS: dict[str, tuple[type, ...]] = {"game": (dict,), "learner": (str,), "settings": (dict,)}
"""Fields that every config.json has, with their types."""
TRAINING_FIELDS: dict[str, tuple[type, ...]] = {"opponent": (str,), "games": (int,), "seed": (int,)}
"""Fields without which a training cannot be resumed."""
OTHER_FIELDS: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("batch", "log_every", "exact_every"), (int, type(None))),
    **{"seat": (str,), "checkpoint_games": (int,), "checkpoint_seconds": (int, float)},
    **{"no_report": (bool,), "resumed": (list,)},
}
"""Fields of a training that a config.json may lack."""


def save_arrays(path: Path, arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
    """Write arrays atomically; the zip comment is a hash of all arrays and their names."""
    write_atomically(path, lambda file: write_arrays(file, arrays))


def write_arrays(file: IO[bytes], arrays: Mapping[str, np.ndarray[Any, Any]], *, compress: bool = False) -> None:
    """Write arrays to an open file, as :func:`save_arrays` does. The same arrays give the same bytes.

    With ``compress`` they are deflated: the same arrays give the same bytes with one version of zlib.
    """
    method = zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED
    with zipfile.ZipFile(file, "w", method) as archive:  # as `np.savez`, which in old numpy takes no allow_pickle=False
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as part:
                np.lib.format.write_array(part, np.asanyarray(array), allow_pickle=False)
        archive.comment = _hash(arrays)


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
    arrays = {f"{part}.{name}": array for part, named in parts.items() for name, array in named.items()}
    try:
        save_arrays(run / CHECKPOINT, arrays)
    except OSError as problem:
        state = "the checkpoint before it is still there" if (run / CHECKPOINT).exists() else "there is none before it"
        raise OSError(f"{run / CHECKPOINT} cannot be written ({problem.strerror or problem}): {state}") from None


def load_checkpoint(run: Path) -> dict[str, dict[str, np.ndarray[Any, Any]]]:
    """Load the parts that :func:`save_checkpoint` wrote, by name.

    Raises:
        ValueError: a file that is missing, damaged, too large, or holds anything but arrays.
    """
    parts: dict[str, dict[str, np.ndarray[Any, Any]]] = {}
    for name, array in load_arrays(run / CHECKPOINT).items():
        part, _, rest = name.partition(".")
        parts.setdefault(part, {})[rest] = array
        if part == "learner" and array.dtype.kind == "f" and not np.isfinite(array).all():
            raise ValueError(f"{run / CHECKPOINT} is damaged: {name} has numbers that are not finite")
    return parts


def load_arrays(path: Path, limit: int = 1 << 34) -> dict[str, np.ndarray[Any, Any]]:
    """Read arrays that :func:`save_arrays` wrote, and check their hash.

    Memory use is bounded by the file size: entries must be uncompressed and must not overlap.

    Args:
        path: the file.
        limit: maximum total size of the arrays in bytes.

    Raises:
        ValueError: a file that is damaged, too large, or holds anything but arrays of numbers.
    """
    try:
        with open_to_read(path, limit + MAX_OVERHEAD) as file:
            arrays = read_arrays(file, limit)
    except Exception as problem:  # a malformed zip or array header can raise many exceptions
        why = str(problem).partition("\n")[0] or type(problem).__name__
        raise ValueError(f"{path} cannot be read as a file of arrays: {why}") from None
    return arrays


def read_arrays(file: IO[bytes], limit: int, *, compressed: bool = False) -> dict[str, np.ndarray[Any, Any]]:
    """Read arrays from an open file, as :func:`load_arrays` does; a malformed one can raise any exception.

    Only with ``compressed``, as those of other programs, may they be deflated, and lack the hash; also then they have
    at most ``limit`` bytes.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # numpy warns of old headers, which are never written here
        arrays, stored_hash = _unpack(file, limit, compressed)
    if (stored_hash or not compressed) and stored_hash != _hash(arrays):
        raise ValueError("its arrays are not those that were written")
    return arrays


def _unpack(file: IO[bytes], limit: int, compressed: bool) -> tuple[dict[str, np.ndarray[Any, Any]], bytes]:
    """Return the arrays in a zip and its comment; raise any exception if it is malformed."""
    arrays: dict[str, np.ndarray[Any, Any]] = {}
    methods = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) if compressed else (zipfile.ZIP_STORED,)
    with zipfile.ZipFile(file) as archive:
        entries = archive.infolist()
        stored = sum(entry.file_size for entry in entries)
        if stored > limit:
            raise ValueError(f"it unpacks to {stored:,} bytes, and at most {limit:,} are read")
        if not compressed and stored > file.seek(0, os.SEEK_END):
            raise ValueError(f"it unpacks to {stored:,} bytes, which are more than it has")
        for entry in entries:
            name = entry.filename.removesuffix(".npy")
            if name == entry.filename or name in arrays or entry.comment or entry.compress_type not in methods:
                raise ValueError(f"{quote(entry.filename)} in it is no array in the format of these files")
            with archive.open(entry) as part:
                arrays[name] = _read_array(part, entry.file_size)
        return arrays, archive.comment


def _read_array(part: IO[bytes], size: int) -> np.ndarray[Any, Any]:
    """Return an array of numbers from its ``size`` bytes; raise any exception if it is malformed."""
    major, _ = np.lib.format.read_magic(part)
    read = np.lib.format.read_array_header_1_0 if major == 1 else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(part)
    if dtype.kind not in "biuf":
        raise ValueError(f"it holds {dtype}, and not only numbers")
    if math.prod(shape) * dtype.itemsize != size - part.tell():
        raise ValueError("the size of an array differs from its header")
    part.seek(0)
    array: np.ndarray[Any, Any] = np.lib.format.read_array(part, allow_pickle=False)
    if part.read(1):  # reading to the end checks the CRC
        raise ValueError("an array has more bytes than its header says")
    return array


def build_config(learner: str, settings: Mapping[str, Any]) -> LearnerConfig:
    """Return the settings of the named learner.

    Raises:
        ValueError: an unknown learner, setting or value.
    """
    config = load_learner(learner)
    known = [field.name for field in dataclasses.fields(config)]
    for name in settings:
        if name not in known:
            raise ValueError(f"{learner} has no setting {name!r}: {closest_names(name, known)}")
    try:
        made = config(**settings)
    except TypeError as problem:  # for example, a number where a list belongs
        raise ValueError(f"the settings of {learner} do not work: {problem}") from None
    return made


def new_config(game: AnyGame, settings: Mapping[str, Any], **training: Any) -> dict[str, Any]:
    """Return the contents of :data:`CONFIG`: game, settings, and the training's fields, ``learner`` among them."""
    return {"format": 1, "game": game.to_dict(), **training, "settings": dict(settings)}


def _hint(path: Path) -> str:
    """Return the advice for a folder that is no run: the run that was probably meant."""
    if is_run(path.parent):
        return f"Did you mean {path.parent}?"
    if near := closest_path(path, is_run):
        return f"Did you mean {near}?"
    try:
        inside = sorted(str(each) for each in path.iterdir() if is_run(each))
    except OSError:
        inside = []
    if inside:
        return f"It contains runs: choose one, such as {inside[0]}"
    return f"Make one with train.py --out {path}"


def read_config(run: Path, required: Mapping[str, tuple[type, ...]] = RUN_FIELDS) -> dict[str, Any]:
    """Read a run's ``config.json``; its strings are :class:`~ttt_envs.agents.specs.FromFile`.

    Raises:
        ValueError: no such run, or a damaged file, or one without a ``required`` field.
    """
    path = run / CONFIG
    if not os.path.lexists(path):
        raise ValueError(f"{run} is no run: there is no {CONFIG} in it. {_hint(run)}")
    content = read_bounded(path, MAX_CONFIG_BYTES)
    try:
        data: dict[str, Any] = from_file(parse_json(content))
        if not isinstance(data, dict):
            raise ValueError("it is no object")
        for name, kinds in {**OTHER_FIELDS, **required}.items():
            if name not in data and name in required:
                raise ValueError(f"it does not say its {name}")
            if name in data and type(data[name]) not in (kinds if str not in kinds else {*kinds, FromFile}):
                admissible = " or ".join(KINDS[kind] for kind in kinds)
                raise ValueError(f"{name} is {quote(data[name])}, and must be {admissible}")
        game_from_dict(data["game"])
    except (ValueError, TypeError, RecursionError) as problem:
        raise ValueError(f"{path} cannot be read as the settings of a run: {problem}") from None
    return data


def read_training(run: Path) -> dict[str, Any]:
    """Read a run's ``config.json`` with all fields needed to resume or repeat the training.

    Raises:
        ValueError: no such run, or a damaged file.
    """
    return read_config(run, {**RUN_FIELDS, **TRAINING_FIELDS})


class RunPolicy(PolicyWrapper):
    """The policy trained by the run in a folder.

    It has the learner's values and evaluations, where it has any. Warns with OtherGameWarning if the game is not the
    one of its training.

    Args:
        game: the game to play.
        path: folder of the run.
        symmetrize: whether to play by the mean of the action values over all symmetries of the board, so that the
            policy is symmetric; else it plays as the learner does by itself.

    Raises:
        ValueError: no such run, a run on another board or by other rules, a damaged file, or ``symmetrize`` of a
            learner without action values.
    """

    variants = ALL_VARIANTS  # its run has one game, which the learner supports
    plays_hidden = True

    def __init__(self, game: AnyGame, path: str, symmetrize: bool = False) -> None:
        run = Path(path)
        config = read_config(run)
        trained = game_from_dict(config["game"])
        if (trained.rows, trained.columns) != (game.rows, game.columns):
            raise ValueError(
                f"the run {path} learned on a board of {trained.rows} x {trained.columns}, "
                f"and the game here is {game}: play it on its own board"
            )
        if trained.variants != game.variants:
            raise ValueError(f"the run {path} learned {trained}, and the game here is {game}: play it by its own rules")
        if isinstance(trained, PhantomGame) and not (isinstance(game, PhantomGame) and game.kind == trained.kind):
            raise ValueError(
                f"the run {path} learned {trained}, and the game here is {game}: play the game that it learned"
            )
        if trained != game and current_process().name == "MainProcess":  # worker processes would repeat the warning
            warnings.warn(
                f"run:{path} learned {trained}, and plays {game} here, which it has never seen",
                OtherGameWarning,
                stacklevel=2,
            )
        settings = build_config(config["learner"], config["settings"])
        trained_learner = settings.build(trained, np.random.default_rng(0))
        trained_learner.state = load_checkpoint(run).get("learner", {})
        learner: Policy = trained_learner
        if symmetrize and not learner.symmetric:
            learner = SymmetrizedPolicy(learner, visible(game))
        super().__init__(learner)
        self.path, self.learner, self.symmetrize = path, learner, symmetrize
        if hasattr(learner, "run_simulations"):  # guides searches in one kernel
            self.run_simulations = learner.run_simulations

    def __str__(self) -> str:
        return policy_name(self.path) + (",symmetrize=true" if self.symmetrize else "")


def policy_name(run: str | Path) -> str:
    """Return the spec string of a run."""
    return f"run:({run})" if set(str(run)) & set(",:=()") else f"run:{run}"
