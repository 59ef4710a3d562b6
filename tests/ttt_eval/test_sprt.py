"""Sequential tests: results are those of the pairs in order, and stored games are reused."""

from dataclasses import replace

import numpy as np
from json_files import read_json
from small_games import SKIP_GAME

from ttt_eval.matches.luck import EXACT
from ttt_eval.matches.match import BLOCK, PAIRS_PER_SEED_BLOCK, MatchSettings, play_blocks
from ttt_eval.matches.openings import Openings
from ttt_eval.matches.score import Score
from ttt_eval.matches.sprt import SPRT, SprtResult, run_sprt
from ttt_eval.store.result_store import RESULT, UNITS

TEST = SPRT(0, 20)
PROVENANCE = {"code": "this"}


def run(folder, a="random", test=TEST, pairs=2000, openings=None, **options):
    match = MatchSettings(
        SKIP_GAME,
        (a, "random"),
        3,
        openings and Openings.from_text(openings, SKIP_GAME),
        luck_correction=EXACT,
    )
    return run_sprt(match, test, folder, PROVENANCE, pairs=pairs, **options)


def test_result_is_that_of_the_pairs_in_order(tmp_path):
    result = run(tmp_path)  # between equal players, which takes some blocks
    total = Score.empty(SKIP_GAME)
    path = []
    for score in play_blocks(
        MatchSettings(SKIP_GAME, ("random", "random"), 3, luck_correction=EXACT),
        2 * PAIRS_PER_SEED_BLOCK,
        block=BLOCK,
    ):
        total += score
        path.append((total.games // 2, TEST.decide(total).llr))
        if TEST.decide(total).accepted is not None:
            break
    assert result.path == path
    assert len(path) > 3
    np.testing.assert_array_equal(result.played.pairs, total.pairs)
    assert result.accepted == "elo0"
    assert result.llr_low >= result.path[-1][1] > result.llr_low - 3
    assert (
        result.score.mean > total.moments()[0] + 1e-3
    )  # which an early stop at the lower bound makes too low


def test_clearly_better_player_is_accepted_early(tmp_path):
    """Far better than either hypothesis: the mean is in its interval although the ratio has gained
    little for it.
    """
    result = run(tmp_path, "win-or-block", SPRT(0, 5))
    assert result.accepted == "elo1"
    assert 128 < result.games < 4000
    data = read_json(tmp_path / RESULT)
    assert (data["accepted"], data["path"][-1]) == ("elo1", [result.games // 2, data["llr"]])
    assert data["elo"]["low"] > 0
    assert data["score"]["low"] < result.played.moments()[0] < data["score"]["high"]
    assert SprtResult.from_dict(data).played.to_record() == result.played.to_record()


def test_other_hypotheses_and_more_games_reuse_stored_games(tmp_path):
    run(tmp_path, test=SPRT(0, 5), pairs=128)
    before = (tmp_path / UNITS).read_text()
    run(tmp_path, test=SPRT(0, 300), pairs=128)
    assert (tmp_path / UNITS).read_text() == before
    result = run(tmp_path, test=SPRT(0, 5), pairs=200)  # which may leave the test undecided
    assert ([pairs for pairs, _ in result.path], result.accepted) == ([64, 128, 192, 200], None)
    assert (tmp_path / UNITS).read_text().startswith(before)


def test_openings_are_those_of_a_match(tmp_path):
    result = run(tmp_path, test=SPRT(0, 5), pairs=64, openings="all:2")
    match = MatchSettings(
        SKIP_GAME,
        ("random", "random"),
        3,
        Openings.from_text("all:2", SKIP_GAME),
        luck_correction=EXACT,
    )
    np.testing.assert_array_equal(
        result.played.pairs, next(play_blocks(match, PAIRS_PER_SEED_BLOCK, block=64)).pairs
    )
    others = replace(match, openings=Openings.from_text("all:3", SKIP_GAME)._replace(text="all:2"))
    assert match.to_dict() != others.to_dict()
