"""Matches with early stopping: a sequential test on stored pairs of games."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ttt_envs.core.files import write_json
from ttt_envs.core.parallel import Jobs, results_in_order
from ttt_eval.exact.strength import differences_within
from ttt_eval.matches.elo import (
    SPRT,
    Decision,
    elo_from_score,
    elo_to_dict,
    normalized_elo,
    pair_moments,
)
from ttt_eval.matches.luck import make_correction
from ttt_eval.matches.match import MatchSettings
from ttt_eval.matches.match_blocks import block_size, make_units, openings_hash, play_units
from ttt_eval.matches.score import Score
from ttt_eval.matches.stopping import stopped_score
from ttt_eval.policy_identity import policy_identity
from ttt_eval.statistics import Interval, finite_or_none

RESULT = "result.json"
MAX_GAMES = 10_000_000
"""Maximum number of games."""


@dataclass(frozen=True)
class SequentialMatch:
    """Result of a sequential test.

    Attributes:
        test: the hypotheses and errors.
        score: of a, in the pairs that were evaluated.
        decision: state of the test after them.
        path: number of evaluated pairs and the log-likelihood ratio, after each block.
        settings: JSON-ready: everything else that determines the result.
        differences: of :func:`ttt_eval.exact.strength.differences_within`.
    """

    test: SPRT
    score: Score
    decision: Decision
    path: list[tuple[int, float]]
    settings: Mapping[str, Any]
    differences: Sequence[Mapping[str, Any]] | None = None

    @property
    def estimate(self) -> Interval:
        """Score per game, nearly median unbiased, with its 95% interval; both allow for the early stop."""
        return stopped_score(self.test, self.score, len(self.path))

    @property
    def elo(self) -> Interval:
        """Elo difference of the estimate."""
        return Interval(*map(elo_from_score, self.estimate))

    @property
    def fixed_games(self) -> int | None:
        """Number of games of a fixed-size test with the same errors, for the observed variance; None if that is 0."""
        variance = pair_moments(self.score)[1]
        return 2 * self.test.fixed_pairs(variance) if variance > 0 else None

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-ready data; docs/files.md documents the keys."""
        return {
            "format": 1,
            "kind": "sprt",
            **self.settings,
            "test": asdict(self.test),
            "accepted": {None: None, 0: "elo0", 1: "elo1"}[self.decision.accepted],
            "llr": self.decision.llr,
            "llr_low": self.decision.low,
            "llr_high": self.decision.high,
            **self.score.to_dict(),
            "pairs": self.score.pairs.tolist(),
            "score": self.estimate._asdict(),
            **elo_to_dict(self.score, self.elo),
            "normalized_elo": finite_or_none(normalized_elo(self.score)),
            "fixed_games": self.fixed_games,
            "path": [list(point) for point in self.path],
            "differences": None if self.differences is None else list(self.differences),
        }


def run_sprt(
    match: MatchSettings,
    test: SPRT,
    folder: Path,
    provenance: Mapping[str, Any],
    *,
    pairs: int,
    jobs: Jobs = 1,
    progress: Callable[[int, Decision], None] | None = None,
) -> SequentialMatch:
    """Play pairs of games, block by block and in order, until a hypothesis is accepted.

    Every block is stored in the folder as soon as it is played, and ``result.json`` is written there at the end. After
    a kill, the same call resumes, as does one with other hypotheses or more pairs. The result does not depend on the
    workers, because games beyond the decision are ignored.

    Args:
        match: the match, between spec strings. With a clock, the games depend on the machine.
        test: the hypotheses, about a's rating minus b's.
        folder: folder of the blocks.
        provenance: JSON-ready: versions and code; the same at every call.
        pairs: maximum number of pairs.
        jobs: the workers.
        progress: called with the number of evaluated pairs, and the state of the test.

    Raises:
        ValueError: an invalid number of pairs, an unknown policy, another process that works in the folder.
    """
    if not 1 <= pairs <= MAX_GAMES // 2:
        raise ValueError(f"pairs={pairs} makes no match: choose 1 to {MAX_GAMES // 2:,}")
    match.make_policies()  # reports a wrong name before anything is written
    make_correction(match.luck_correction, match.game)
    a, b = str(match.a), str(match.b)
    identities = {spec: policy_identity(spec) for spec in (a, b)}
    units = make_units(match, pairs, identities)
    total, path = Score.empty(match.game), []
    blocks = play_units(units, match.openings, folder, provenance, jobs=jobs, other_files=(RESULT, "*.html"))
    with closing(blocks):
        for score in results_in_order((number, score) for number, score, _ in blocks):
            total += score
            decision = test.decide(total)
            path.append((total.games // 2, decision.llr))
            if progress is not None:
                progress(total.games // 2, decision)
            if decision.accepted is not None:
                break
    settings = {
        "game": match.game.to_dict(),
        "a": a,
        "b": b,
        "identities": identities,
        "seed": match.seed,
        "openings": match.openings and match.openings.text,
        "openings_sha256": match.openings and openings_hash(match.openings),
        "most_games": 2 * pairs,
        "luck_correction": str(match.luck_correction),
        "block": block_size(match.clock),
        **({} if match.clock is None else {"clock": str(match.clock)}),
        "provenance": dict(provenance),
    }
    found = SequentialMatch(test, total, decision, path, settings, differences_within(match.game, a, b))
    write_json(folder / RESULT, found.to_dict())
    return found
