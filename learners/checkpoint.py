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

from learners.base import AnyArray, Arrays
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
    game: dict[str, object]
    learner: str
    settings: dict[str, object]
    games: Count = 0
    batch: Annotated[int, Meta(ge=1)] | None = None
    log_every: Annotated[int, Meta(ge=1)] | None = None
    exact_every: Count | None = None
    checkpoint_games: Count = 0
    checkpoint_seconds: float = 0.0
    seat: str = ""
    openings: str = ""
    no_report: bool = False
    resumed: list[object] = []


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
        save: Any = np.savez  # its stub takes a keyword for one of the arrays
        save(file, **arrays)
        with zipfile.ZipFile(file, "a") as archive:
            archive.comment = _hash(arrays)

    write_atomically(path, write)


def _hash(arrays: Arrays) -> bytes:
    """Return the SHA-256 of arrays, their names, dtypes and shapes, in its stored form."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = np.asarray(arrays[name])
        digest.update(repr((name, array.dtype.str, array.shape)).encode())
        digest.update(np.ascontiguousarray(array).data if array.size else b"")
    return f"sha256:{digest.hexdigest()}".encode()


def save_checkpoint(run: Path, **parts: Arrays) -> None:
    """Write a run's ``checkpoint.npz`` atomically: arrays ``part.name`` of each part.

    ``run:PATH`` plays the part ``learner``.

    Raises:
        OSError: it cannot be written; a checkpoint before it is still there.
    """
    arrays: dict[str, AnyArray] = {}
    for part, part_arrays in parts.items():
        arrays |= {f"{part}.{name}": array for name, array in part_arrays.items()}
    save_arrays(run / CHECKPOINT, arrays)


def load_checkpoint(run: Path) -> dict[str, dict[str, AnyArray]]:
    """Load the parts that :func:`save_checkpoint` wrote, by name.

    Raises:
        ValueError: a file that is missing, damaged, too large, or holds anything but arrays.
    """
    parts: dict[str, dict[str, AnyArray]] = {}
    for full_name, array in load_arrays(run / CHECKPOINT).items():
        part, _, name = full_name.partition(".")
        parts.setdefault(part, {})[name] = array
    return parts


def load_arrays(path: Path, limit: int = 1 << 34) -> dict[str, AnyArray]:
    """Read arrays that :func:`save_arrays` wrote, and check their hash.

    Args:
        path: the file.
        limit: maximum size of the file in bytes; the arrays in it have fewer.

    Raises:
        ValueError: a file that is damaged, too large, or holds anything but arrays.
    """
    # a malformed zip can raise any exception; np.load would propose pickle to read another file
    with (
        name_place(f"{path} cannot be read as a file of arrays", (Exception,)),
        open_to_read(path, limit) as file,
        zipfile.ZipFile(file) as entries,
        np.lib.npyio.NpzFile(file) as archive,
    ):
        # ours are not compressed: a small file could fill the memory
        if sum(entry.file_size for entry in entries.infolist()) > path.stat().st_size:
            raise Refusal("it unpacks to more bytes than it has")
        arrays = dict(archive)
        if entries.comment != _hash(arrays):
            raise Refusal("its arrays are not those that were written")
    return arrays


def build_config(learner: str, settings: Mapping[str, object]) -> LearnerConfig:
    """Return the settings of the named learner.

    Raises:
        ValueError: an unknown learner, setting or value.
    """
    config = load_learner(learner)
    fields = {field.name: field for field in dataclasses.fields(config)}
    for name in settings:
        find_named(f"setting of {learner}", name, fields)
    return config(**settings)


def new_config(
    game: AnyGame, settings: Mapping[str, object], **training: object
) -> dict[str, object]:
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
        raise Refusal(f"{run} is no run: there is no {CONFIG} in it. {_hint_of_run(run)}")
    data = read_json(path, MAX_CONFIG_BYTES)
    with name_place(f"{path} cannot be read as the settings of a run"):
        convert(data, fields)
        game_from_dict(data["game"])
    return dict(from_file(data))


def _hint_of_run(path: Path) -> str:
    """Return which run to name in place of a path that is none."""
    runs_inside = [run for run in sorted(path.glob("*")) if is_run(run)]
    names = [run.name for run in path.parent.glob("*") if is_run(run)]
    similar = difflib.get_close_matches(path.name, names, 1)
    if is_run(path.parent):
        return f"Did you mean {path.parent}?"
    if similar:
        return f"Did you mean {path.with_name(similar[0])}?"
    if runs_inside:
        return f"It contains runs: choose one, such as {runs_inside[0]}"
    return f"Make one with train.py --out {path}"


def is_recorded(run: Path, config: Mapping[str, object]) -> bool:
    """Return whether a run is a curve that ``ttt_eval.record`` wrote: it has neither
    settings nor a policy.
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
        own_game = game_from_dict(config["game"])
        # what learned where stones are seen also plays where they are hidden, by views
        view = game if isinstance(own_game, PhantomGame) else visible(game)
        if _rules(view) != _rules(own_game):
            games = f"the run {path} learned {own_game}, and the game here is {game}"
            raise Refusal(f"{games}: play it on its own board, by its rules")
        # worker processes would repeat the warning
        if own_game != game and current_process().name == "MainProcess":
            words = f"run:{path} learned {own_game}, and plays {game} here, which it has never seen"
            warnings.warn(words, OtherGameWarning, stacklevel=2)
        settings = build_config(config["learner"], config["settings"])
        learner = settings.build(own_game, np.random.default_rng(0))
        with name_place(str(run / CHECKPOINT)):
            learner.state = load_checkpoint(run).get("learner", {})
        self.learner: Policy = learner
        if symmetrize and not learner.symmetric:
            self.learner = SymmetrizedPolicy(learner, visible(game))
        super().__init__(self.learner)
        self.path = path
        self.symmetrize = symmetrize
        if hasattr(self.learner, "run_simulations"):  # guides searches in one kernel
            self.run_simulations = self.learner.run_simulations

    def __str__(self) -> str:
        return policy_name(self.path) + (",symmetrize=true" if self.symmetrize else "")


def _rules(game: AnyGame) -> dict[str, object]:
    """Return the board and the rules of a game, without the numbers in which it may differ."""
    return {**game.to_dict(), "skip_chance": 0, "win_length": 0}


def policy_name(run: str | Path) -> str:
    """Return the spec string of a run."""
    return f"run:{wrap(str(run))}"
