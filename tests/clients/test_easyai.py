"""easyAI: its Negamax in our check of searches."""

import pytest

pytest.importorskip("easyAI")

from ttt_eval.checks import check_search


def test_its_search_is_right_where_turns_alternate(adapter):
    """`Negamax` is right in plain games; it negates at every ply, so second turns are wrong"""
    search = adapter("easyai_search").search
    check_search(search, "plain", evaluator=None).assert_ok()
    assert "results" in check_search(search, "turns", evaluator=None).failed
