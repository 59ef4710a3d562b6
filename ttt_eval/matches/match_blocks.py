"""Matches as stored units of work, each a block of pairs, so that a match can be resumed or extended."""

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
from ttt_envs.core.parallel import Jobs
from ttt_envs.game.game import Game
from ttt_eval.matches.corrected_pairs import CorrectedPairs
from ttt_eval.matches.luck import EXACT, OFF
from ttt_eval.matches.match import MatchSettings, play_part
from ttt_eval.matches.openings import Openings
from ttt_eval.matches.score import Forfeits, Score
from ttt_eval.matches.timed_match import play_timed_part
from ttt_eval.policy_identity import policy_identity
from ttt_eval.result_store import Unit, do_units

BLOCK = 64
"""Number of pairs per unit of work."""
TIMED_BLOCK = 4
"""Number of pairs per unit of work in timed matches, whose games take long."""


def make_units(match: MatchSettings, pairs: int, identities: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the blocks of a match, in order; the first ones of a longer match are the same.

    Args:
        match: the match, between spec strings.
        pairs: number of pairs.
        identities: of both players: their dependencies beyond their specs, see
            :func:`ttt_eval.policy_identity.policy_identity`.
    """
    players = [str(match.a), str(match.b)]
    unit: dict[str, Any] = {
        "game": match.game.to_dict(),
        "players": players,
        "identities": [identities[player] for player in players],
        "seed": match.seed,
        "openings": match.openings and [match.openings.text, openings_hash(match.openings)],
    }
    if match.clock is not None:
        unit["clock"] = list(match.clock)
    if match.luck_correction != OFF:
        correction = str(match.luck_correction)
        unit["luck_correction"] = [correction, "" if correction == EXACT else policy_identity(correction)]
    block = block_size(match.clock)
    return [{**unit, "first": first, "pairs": min(block, pairs - first)} for first in range(0, pairs, block)]


def block_size(clock: Clock | None) -> int:
    """Return the number of pairs per unit of work."""
    return BLOCK if clock is None else TIMED_BLOCK


def openings_hash(openings: Openings) -> str:
    """Return the SHA-256 of listed positions, "" if they are drawn from the seed."""
    if openings.boards is None:
        return ""
    return hashlib.sha256(b"".join(np.ascontiguousarray(part).tobytes() for part in openings.boards)).hexdigest()


def play_unit(call: str, openings: Openings | None, unit: Unit) -> dict[str, Any]:
    """Play a block; return ``pairs``, as of :class:`Score`, and the time ``cpu_s``. ``call`` names the whole call.

    Corrected scores add ``corrected``, as of :meth:`CorrectedPairs.to_list`.

    A timed match adds ``lost_on_time``, a's and b's games; forfeited games add ``forfeits``, as of :class:`Forfeits`.
    """
    start = time.process_time()
    a, b = unit["players"]
    clock = Clock(*unit["clock"]) if "clock" in unit else None
    correction, _ = unit.get("luck_correction", [OFF, ""])
    match = MatchSettings(Game.from_dict(unit["game"]), a, b, unit["seed"], openings, clock, correction)
    numbers, name = range(unit["first"], unit["first"] + unit["pairs"]), f"{call} {a} {b}"
    more: dict[str, Any] = {}
    if clock is None:
        score = play_part(match, numbers, name)
    else:
        timed = play_timed_part(match, numbers, name)
        score, more = timed.score, {"lost_on_time": [times.lost for times in timed.times]}
    if score.forfeits.first:
        more["forfeits"] = list(score.forfeits)
    if score.corrected is not None:
        more["corrected"] = score.corrected.to_list()
    return {"pairs": score.pairs.tolist(), "cpu_s": time.process_time() - start, **more}


def play_units(
    units: list[dict[str, Any]],
    openings: Openings | None,
    folder: Path,
    provenance: Mapping[str, Any],
    *,
    jobs: Jobs,
    other_files: tuple[str, ...] = (),
) -> Generator[tuple[int, Score, float], None, None]:
    """Play the blocks that are not stored yet.

    Args:
        units: of :func:`make_units`, all with these openings.
        openings, folder, provenance, jobs, other_files: as of :func:`ttt_eval.result_store.do_units`.

    Yields:
        The number of a block, its score and its CPU seconds, as soon as they are available.
    """
    work = do_units(
        partial(play_unit, uuid4().hex, openings), units, folder, provenance, jobs=jobs, other_files=other_files
    )
    with closing(work) as results:
        for number, result in results:
            forfeits = Forfeits.from_list(result.get("forfeits", [0, 0, ""]))
            corrected = CorrectedPairs.from_list(result["corrected"]) if "corrected" in result else None
            score = Score(np.array(result["pairs"], np.int64), None, forfeits, corrected)
            yield number, score, float(result["cpu_s"])
