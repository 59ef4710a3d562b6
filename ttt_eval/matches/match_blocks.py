"""Matches as stored units of work, each a block of pairs, so that a match can be resumed or extended."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np

from ttt_envs.agents.specs import make_policy
from ttt_envs.core.parallel import Jobs
from ttt_eval.matches.luck import make_correction
from ttt_eval.matches.match import Call, MatchSettings, play_block
from ttt_eval.matches.score import Score
from ttt_eval.policy_identity import policy_identity
from ttt_eval.result_store import Unit, do_units

RESULT, COST = "result.json", "cost.json"
BLOCK = 64
"""Number of pairs per unit of work."""
TIMED_BLOCK = 4
"""Number of pairs per unit of work in timed matches, whose games take long."""


def describe_match(match: MatchSettings) -> dict[str, Any]:
    """Return the settings of a match without its players, JSON-ready; docs/files.md documents the keys."""
    openings, digest = match.openings, hashlib.sha256()
    if openings is not None and openings.boards is not None:
        for part in openings.boards:
            digest.update(np.ascontiguousarray(part).tobytes())
    return {
        "game": match.game.to_dict(),
        "seed": match.seed,
        "openings": openings and openings.text,
        "openings_sha256": openings and (digest.hexdigest() if openings.boards is not None else ""),
        "block": BLOCK if match.clock is None else TIMED_BLOCK,
        "luck_correction": str(match.luck_correction),
        **({} if match.clock is None else {"clock": str(match.clock)}),
    }


def identify(match: MatchSettings, players: Sequence[str]) -> dict[str, str]:
    """Return the identities of players by spec, see :func:`ttt_eval.policy_identity.policy_identity`.

    Raises:
        ValueError: an unknown policy or value function of a match, so that it is reported before anything is written.
    """
    make_correction(match.luck_correction, match.game)
    for spec in players:
        make_policy(spec, match.game)
    return {spec: policy_identity(spec) for spec in players}


class PlayedBlock(NamedTuple):
    """A block of one of several matches."""

    match: int
    """number of the match"""
    score: Score
    cpu_s: float


def play_matches(
    match: MatchSettings,
    players: Sequence[tuple[str, str]],
    pairs: int,
    identities: Mapping[str, str],
    folder: Path,
    provenance: Mapping[str, Any],
    *,
    jobs: Jobs = 1,
) -> Generator[tuple[int, PlayedBlock], None, None]:
    """Play the blocks of matches that are not stored yet; the first ones of a longer match are the same.

    Args:
        match: everything but the players.
        players: specs of a and b of each match.
        pairs: number of pairs of each.
        identities: of :func:`identify`.
        folder, provenance, jobs: as of :func:`ttt_eval.result_store.do_units`.

    Yields:
        The number of a block, counted through all matches, and the block, as soon as it is available.
    """
    settings = describe_match(match)
    settings["correction_identity"] = policy_identity(str(match.luck_correction))
    firsts = range(0, pairs, block := settings["block"])
    units = [
        {**settings, "players": [a, b], "identities": [identities[a], identities[b]]}
        | {"first": first, "pairs": min(block, pairs - first)}
        for a, b in players
        for first in firsts
    ]
    play, files = partial(_play_unit, match, uuid4().hex), (RESULT, COST, "*.html")
    with closing(do_units(play, units, folder, provenance, jobs=jobs, other_files=files)) as results:
        for number, result in results:
            score = Score.from_record(result)
            yield number, PlayedBlock(number // len(firsts), score, float(result["cpu_s"]))


def _play_unit(match: MatchSettings, name: str, unit: Unit) -> dict[str, Any]:
    """Play a block; return its record, as of :meth:`Score.to_record`, and the time ``cpu_s``.

    A timed match adds ``lost_on_time``, a's and b's games.

    Args:
        match: everything but the players.
        name: of the call that plays the blocks.
        unit: a block of :func:`play_matches`.
    """
    start = time.process_time()
    a, b = unit["players"]
    numbers = range(unit["first"], unit["first"] + unit["pairs"])
    score, _ = play_block(Call(replace(match, a=a, b=b), f"{name} {a} {b}"), False, numbers)
    lost = {} if score.times is None else {"lost_on_time": [times.lost for times in score.times]}
    return {**score.to_record(), "cpu_s": time.process_time() - start, **lost}
