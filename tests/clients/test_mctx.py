"""mctx: its policies in our check of searches."""

import pytest

pytest.importorskip("mctx")

from ttt_eval.checks import check_search

COMPILING_S = 600.0
"""Maximum s of a call, of which the first of each number of simulations compiles."""


@pytest.mark.parametrize(
    ("name", "game"),
    [
        ("muzero", "plain"),
        ("muzero", "turns"),
        ("gumbel", "turns"),
        ("stochastic", "turns"),
        ("stochastic", "skip"),
    ],
)
def test_its_policies_are_right(name, game, adapter):
    """`muzero_policy`, `gumbel_muzero_policy` and `stochastic_muzero_policy`, jitted, are right"""
    simulations = (100, 1_000) if name == "stochastic" else (50, 500)  # half in chance nodes
    search = getattr(adapter("mctx_search"), name)
    check_search(search, game, simulations=simulations, limit_s=COMPILING_S).assert_ok()


def test_a_coin_in_recurrent_fn_is_wrong(adapter):
    """chance that `recurrent_fn` draws is found to be wrong"""
    check = check_search(adapter("mctx_search").muzero, "skip", limit_s=COMPILING_S)
    assert "results" in check.failed
