"""alpha-zero-general: its search, unchanged, and a net of its interface in our checks."""

import importlib

from ttt_eval.checks import check_agent, check_search, check_values


class OneHotNet:
    """The interface of its nets: probabilities of cells and of passing, and a value."""

    def predict(self, board):
        assert board.shape == (3, 3)
        return [*range(1, 10), 100.0], [[0.5]]


def test_its_search_is_right_where_turns_alternate(checkout, adapter, monkeypatch):
    """`MCTS` is right in plain games; with second turns its sign follows depth, which is named"""
    search_of = adapter("alpha_zero_general").search_of
    monkeypatch.syspath_prepend(checkout("alpha-zero-general"))
    search = search_of(importlib.import_module("MCTS").MCTS)
    check_search(search, "plain").assert_ok()
    assert "alternates with depth" in check_search(search, "turns").cause


def test_the_heads_of_a_net(adapter):
    """`predict` as an agent and as values: legal answers, and the values of an untrained net"""
    policy_head, value_head = adapter("alpha_zero_general").heads_of(OneHotNet())
    assert "rules" not in check_agent(policy_head).failed
    assert "do not depend on the result" in check_values(value_head).cause
