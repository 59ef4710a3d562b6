"""Intervals, against values computed elsewhere."""

import pytest

from evaluation.statistics import of_pairs, wilson


def test_wilson_s_interval_has_its_published_values():
    # Newcombe (1998), Statistics in Medicine 17, table I, method 3: 81/263, 15/148, 0/20, 1/29
    for wins, games, low, high in ((81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611)):
        interval = wilson(wins / games, games)
        assert (round(interval.low, 4), round(interval.high, 4)) == (low, high)
    assert round(wilson(1 / 29, 29).high, 4) == 0.1718


def test_nothing_seen_says_nothing():
    assert wilson(0.5, 0) == (0.5, 0.0, 1.0)


@pytest.mark.parametrize(("variance", "effective"), [(0.25, 100), (0.125, 200), (0.5, 50)])
def test_pairs_count_for_as_many_games_as_their_spread_says(variance, effective):
    assert of_pairs(0.5, variance, 100) == wilson(0.5, effective)


def test_pairs_that_never_differ_still_leave_room():
    assert of_pairs(1.0, 0.0, 50) == wilson(1.0, 50)
    assert of_pairs(0.5, 0.0, 50) == wilson(0.5, 50)
