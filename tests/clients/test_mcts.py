"""mcts, the package of this name in the index: what our check finds in it."""

import pytest

pytest.importorskip("mcts")

from ttt_eval.checks import check_search


@pytest.mark.parametrize("game", ["plain", "turns"])
def test_its_search_is_wrong(game, adapter):
    """it selects moves always for the first player, which the check names"""
    check = check_search(adapter("mcts_package").search, game, evaluator=None)
    assert "fixed player's view" in check.cause
