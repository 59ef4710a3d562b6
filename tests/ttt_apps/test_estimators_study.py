"""The study of advantage estimators: its verdicts follow from its measurements."""

import pytest

from ttt_apps.studies import estimators


@pytest.fixture(scope="module")
def results():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(estimators, "SKIPS", (0.0,))
        patch.setattr(estimators, "QUICK", 200)
        return [(unit, estimators.measure(unit)) for unit in estimators.units(True)]


def verdict(results, words):
    (found,) = [claim.holds for claim in estimators.analyse(results).claims if words in claim.words]
    return found


@pytest.mark.parametrize(
    ("words", "holds"),
    [
        ("lambda = 1 and exact values is unbiased", True),
        ("unbiased whatever the values are", True),
        ("every lambda is unbiased", True),
        ("lambda = 0 has the smallest variance", None),  # 200 episodes do not tell it from 0.25
        ("with inexact values lambda < 1 is biased", True),
        ("a truncation without bootstrapping biases", True),
        ("even if the bootstrap is correct", False),
        ("remove this bias", False),
        ("have less bias than those of GAE", False),
        ("number of subtracted means depends", True),
        ("does not depend on when the episode ends", True),
        ("RLOO is unbiased", True),
        ("divided by the standard deviation", True),
        ("importance sampling per decision is unbiased", True),
        ("ratios of temporal-difference errors", True),
        ("ratios of what follows them", True),
        ("truncation reduces the variance", True),
    ],
)
def test_verdicts(words, holds, results):
    assert verdict(results, words) is holds


def test_verdicts_follow_the_numbers(results):
    """A measured bias of lambda = 1 refutes the claims that there is none."""
    biased = [
        (unit, [one if one["name"] != "gae:lam=1" else one | {"gradient": worse(one["gradient"])} for one in audits])
        for unit, audits in results
    ]
    assert verdict(biased, "lambda = 1 and exact values is unbiased") is False
    assert verdict(biased, "unbiased whatever the values are") is False
    assert verdict(biased, "every lambda is unbiased") is False
    assert verdict(biased, "RLOO is unbiased") is True


def test_a_shorter_gradient_is_not_another_direction(results):
    """The mean with the episode itself has a bias without the division, too: it does not show that of the division."""
    exchanged = {"grpo": "grpo:scale=false", "grpo:scale=false": "grpo"}
    swapped = [
        (unit, [one | {"name": exchanged.get(one["name"], one["name"])} for one in audits]) for unit, audits in results
    ]
    assert verdict(swapped, "divided by the standard deviation") is False


def worse(gradient):
    return gradient | {"bias_squared": dict.fromkeys(("mean", "low", "high"), 0.1)}


def test_the_table_has_every_estimator_of_the_main_game(results):
    report = estimators.analyse(results)
    assert len({row.what for row in report.rows}) == len(report.rows)
    for name in (*estimators.FAMILY, *estimators.BASELINES, *estimators.GROUPS):
        (row,) = [row for row in report.rows if row.what == f"{estimators.MAIN[0]}, exact values: {name}"]
        assert row.ours.count(";") == 4
    assert sum(len(unit["audits"]) for unit in report.data) == sum(len(audits) for _, audits in results)
