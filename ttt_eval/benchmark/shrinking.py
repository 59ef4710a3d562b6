"""Small copies of submissions: fewer checkpoints, and packed tables."""

from __future__ import annotations

import secrets
import shutil
from functools import partial
from glob import escape
from pathlib import Path

from learners.checkpoint import write_arrays
from ttt_envs.core.files import write_atomically
from ttt_envs.game.boards import keys
from ttt_eval.benchmark.policy_table import list_positions, pack
from ttt_eval.benchmark.submission import (
    COST,
    RETURNS,
    SUBMISSION,
    RunFolder,
    find_runs,
    read_cost,
    read_returns,
    read_submission,
    read_table,
    stored_games,
)
from ttt_eval.benchmark.tasks import MAX_CELLS_OF_CHECKPOINTS, TASKS


def shrink_submission(folder: Path, out: Path, every: int = 1) -> None:
    """Write a small copy of a submission.

    Of each run it has the last checkpoint and every so many before it. Tables are packed: without values, and with
    probabilities in 255ths of the highest one, for all positions that the agent can meet. These are copied as they
    are: last tables whose values another task measures, those of tasks without masks, of which the last alone is kept,
    and those of large boards.

    Args:
        folder: of the submission.
        out: of the copy; a copy that is there is replaced, once the new one is complete.
        every: 1 for all checkpoints.

    Raises:
        OSError: a file cannot be opened or written.
        ValueError: ``folder`` is no submission, a file in it is invalid, or the copy would replace it.
    """
    if every < 1:
        raise ValueError(f"every={every} keeps no checkpoint: choose 1 or more")
    if out.resolve() == folder.resolve():
        raise ValueError(f"{folder} cannot be its own small copy: choose another folder")
    read_submission(folder)
    runs = list(find_runs(folder))
    if out.exists():
        read_submission(out)  # nothing else is removed
    for left in out.parent.glob(f"{escape(out.name)}{'[0-9a-f]' * 8}.tmp"):  # by a call that was killed
        shutil.rmtree(left)
    unfinished = out.with_name(f"{out.name}{secrets.token_hex(4)}.tmp")
    unfinished.mkdir(parents=True)
    try:
        for run in runs:
            _shrink_run(run, unfinished / run.folder.relative_to(folder), every)
        shutil.copyfile(folder / SUBMISSION, unfinished / SUBMISSION)
        if out.exists():
            shutil.rmtree(out)
        unfinished.rename(out)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise


def _shrink_run(run: RunFolder, out: Path, every: int) -> None:
    out.mkdir(parents=True)
    last, *earlier = sorted(run.tables, reverse=True)[::every]
    task = run.task
    is_measured = any(other.uses_runs_of == task.name for other in TASKS)
    for steps in [last] if task.hides_masks else [last, *earlier]:
        for game, path in zip(stored_games(task), run.tables[steps], strict=True):
            if task.hides_masks or game.cells > MAX_CELLS_OF_CHECKPOINTS or (steps == last and is_measured):
                shutil.copyfile(path, out / path.name)
                continue
            boards = list_positions(game, task.seats)
            probabilities = read_table(task, game, path).policy.probabilities(boards)
            packed = pack(game, {"codes": keys(boards.own_first()), "probabilities": probabilities})
            write_atomically(out / path.name, partial(write_arrays, arrays={"shares": packed["shares"]}, compress=True))
    for name, read in ((COST, read_cost), (RETURNS, read_returns)):
        if read(run.folder) is not None:
            shutil.copyfile(run.folder / name, out / name)
