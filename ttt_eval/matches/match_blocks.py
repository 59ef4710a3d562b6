"""Matches as stored units of work, each a block of pairs, so that a match can be resumed or extended."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np

from baselines.timed import Clock
from ttt_envs.core.parallel import Jobs
from ttt_envs.game.game import Game
from ttt_eval.matches.luck import EXACT, OFF
from ttt_eval.matches.match import Call, MatchSettings, play_part
from ttt_eval.matches.openings import Openings
from ttt_eval.matches.score import Score
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
    block = block_size(match)
    return [{**unit, "first": first, "pairs": min(block, pairs - first)} for first in range(0, pairs, block)]


def block_size(match: MatchSettings) -> int:
    """Return the number of pairs per unit of work."""
    return BLOCK if match.clock is None else TIMED_BLOCK


def describe_match(match: MatchSettings) -> dict[str, Any]:
    """Return the settings of a match without its players, JSON-ready; docs/files.md documents the keys."""
    return {
        "game": match.game.to_dict(),
        "seed": match.seed,
        "openings": match.openings and match.openings.text,
        "openings_sha256": match.openings and openings_hash(match.openings),
        "block": block_size(match),
        "luck_correction": str(match.luck_correction),
        **({} if match.clock is None else {"clock": str(match.clock)}),
    }


def openings_hash(openings: Openings) -> str:
    """Return the SHA-256 of listed positions, "" if they are drawn from the seed."""
    if openings.boards is None:
        return ""
    return hashlib.sha256(b"".join(np.ascontiguousarray(part).tobytes() for part in openings.boards)).hexdigest()


def play_unit(call: str, openings: Openings | None, unit: Unit) -> dict[str, Any]:
    """Play a block; return its record, as of :meth:`Score.to_record`, and the time ``cpu_s``.

    A timed match adds ``lost_on_time``, a's and b's games.

    Args:
        call: name of the call that plays the blocks.
        openings: of the match.
        unit: of :func:`make_units`.
    """
    start = time.process_time()
    a, b = unit["players"]
    clock = Clock(*unit["clock"]) if "clock" in unit else None
    correction, _ = unit.get("luck_correction", [OFF, ""])
    match = MatchSettings(Game.from_dict(unit["game"]), a, b, unit["seed"], openings, clock, correction)
    numbers = range(unit["first"], unit["first"] + unit["pairs"])
    score = play_part(Call(match, f"{call} {a} {b}"), numbers)
    lost = {} if score.times is None else {"lost_on_time": [times.lost for times in score.times]}
    return {**score.to_record(), "cpu_s": time.process_time() - start, **lost}


class PlayedBlock(NamedTuple):
    """A block of one of several matches."""

    match: int
    """number of the match"""
    score: Score
    cpu_s: float


def play_matches(
    matches: Sequence[MatchSettings],
    pairs: int,
    identities: Mapping[str, str],
    folder: Path,
    provenance: Mapping[str, Any],
    *,
    jobs: Jobs = 1,
    other_files: tuple[str, ...] = (),
) -> Generator[tuple[int, PlayedBlock], None, None]:
    """Play the blocks of matches that are not stored yet.

    Args:
        matches: between spec strings, all with the same openings.
        pairs: number of pairs of each.
        identities: of all players, as of :func:`make_units`.
        folder, provenance, jobs, other_files: as of :func:`ttt_eval.result_store.do_units`.

    Yields:
        The number of a block, counted through all matches, and the block, as soon as it is available.
    """
    units = [make_units(match, pairs, identities) for match in matches]
    owners = [number for number, blocks in enumerate(units) for _ in blocks]
    play = partial(play_unit, uuid4().hex, matches[0].openings)
    work = do_units(play, list(chain(*units)), folder, provenance, jobs=jobs, other_files=other_files)
    with closing(work) as results:
        for number, result in results:
            yield number, PlayedBlock(owners[number], Score.from_record(result), float(result["cpu_s"]))
