"""Matches as pieces of work that are kept, each a block of pairs of games: who is stopped or wants more goes on."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Generator, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np

from baselines.timed import Clock
from evaluation.match import Forfeits, Score, play_part
from evaluation.openings import Openings
from evaluation.timed_match import play_timed_part
from evaluation.units import Unit, do_units
from ttt_envs.parallel import Jobs
from ttt_envs.rules import Game

BLOCK = 64
"""pairs in a piece of work"""
TIMED_BLOCK = 4
"""the same by the clock, where a game takes long"""


def units_of(
    game: Game,
    a: str,
    b: str,
    pairs: int,
    *,
    seed: int,
    openings: Openings | None,
    identities: Mapping[str, str],
    clock: Clock | None = None,
) -> list[dict[str, Any]]:
    """The blocks of a match, in order; the first ones of a longer match are the same.

    Args:
        game, a, b, pairs, seed: as of :func:`evaluation.match.play_pairs`.
        openings: with which pairs begin.
        identities: of both players: what they depend on beside their specs, see
            :func:`evaluation.sources.identity_of`.
        clock: of both players; None where time is not kept.
    """
    match: dict[str, Any] = {
        "game": game.to_dict(),
        "players": [a, b],
        "identities": [identities[a], identities[b]],
        "seed": seed,
        "openings": None if openings is None else [openings.text, openings_hash(openings)],
    }
    if clock is not None:
        match["clock"] = list(clock)
    block = block_of(clock)
    return [{**match, "first": first, "pairs": min(block, pairs - first)} for first in range(0, pairs, block)]


def block_of(clock: Clock | None) -> int:
    """Pairs in a piece of work."""
    return BLOCK if clock is None else TIMED_BLOCK


def openings_hash(openings: Openings) -> str:
    """SHA-256 of positions that are listed, "" where they are drawn from the seed."""
    if openings.boards is None:
        return ""
    return hashlib.sha256(b"".join(np.ascontiguousarray(part).tobytes() for part in openings.boards)).hexdigest()


def play_unit(call: str, openings: Openings | None, unit: Unit) -> dict[str, Any]:
    """Play a block of a ``call`` of its own name: ``pairs``, as of :class:`Score`, and ``cpu_s``, what it took.

    By the clock also ``lost_on_time``, a's and b's games; and where games were given up ``forfeits``, as of
    :class:`Forfeits`.
    """
    begun = time.process_time()
    a, b = unit["players"]
    numbers = range(unit["first"], unit["first"] + unit["pairs"])
    match = f"{call} {a} {b}"
    game, seed = Game.from_dict(unit["game"]), unit["seed"]
    more: dict[str, Any] = {}
    if "clock" in unit:
        clock = Clock(*unit["clock"])
        timed = play_timed_part(game, a, b, clock, numbers, seed=seed, openings=openings, match=match)
        score, more = timed.score, {"lost_on_time": [times.lost for times in timed.times]}
    else:
        score = play_part(game, a, b, numbers, seed=seed, openings=openings, match=match)
    if score.forfeits.first:
        more["forfeits"] = list(score.forfeits)
    return {"pairs": score.pairs.tolist(), "cpu_s": time.process_time() - begun, **more}


def play_units(
    units: list[dict[str, Any]],
    openings: Openings | None,
    folder: Path,
    made_by: Mapping[str, Any],
    *,
    jobs: Jobs,
    others: tuple[str, ...] = (),
) -> Generator[tuple[int, Score, float], None, None]:
    """Play the blocks that are not kept yet.

    Args:
        units: of :func:`units_of`, all with these openings.
        openings, folder, made_by, jobs, others: as of :func:`evaluation.units.do_units`.

    Yields:
        The number of a block, what it came to and the seconds of CPU it took, as soon as it is there.
    """
    work = do_units(partial(play_unit, uuid4().hex, openings), units, folder, made_by, jobs=jobs, others=others)
    with closing(work) as results:
        for number, result in results:
            forfeits = Forfeits.of(result.get("forfeits", [0, 0, ""]))
            yield number, Score(np.array(result["pairs"], np.int64), forfeits=forfeits), float(result["cpu_s"])
