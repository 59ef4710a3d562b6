"""Policies with invalid settings, or of games that they do not play, are refused by name;
test_specs.py has the spec strings themselves.
"""

import re

import pytest
from small_games import SKIP_GAME

from ttt_envs import Boards, Game, make_policy

GOMOKU = Game(7, 7, 5)
BIG = Game(4, 5, 4)
TIC_TAC_TOE = {
    # compressed tables
    "svd:rank=82": "rank=82",
    "svd:rank=-1": "rank=-1",
    "tt:split=12/345/678": "12/345/678",
    "tt:split=0123/345678": "0123/345678",
    "tt:split=0123/45679": "0123/45679",
    "tt:split=0123//45678": "0123//45678",
    "tt:split=9": "split='9'",
    "svd:split=rows": "exactly two groups",
    "svd:w=nan": "w=nan",
    "svd:split=0123/45678,source=(run:nowhere)": "and the move m once",
    # tables
    "table:w=-1": "w=-1.0",
    "table:terminal=published": "did you mean 'as_published'",
    "table:source=(run:nowhere),terminal=as_published": "source=run:nowhere has a table of moves",
    "table:source=win-or-block": "source=win-or-block has no values",
    # searches
    "mcts:0": "simulations=0",
    "mcts:c=nan": "c=nan",
    "mcts:temperature=-2": "temperature=-2",
    "mcts:rollout=win-or-block": "win-or-block",
    **{
        f"timed:{setting}": setting.partition("=")[2]
        for setting in (
            "search=random",
            "move=0",
            "move=nan",
            "clock=soon",
            "max-depth=0",
            "margin=-1",
        )
    },
}
"""spec -> a part of the message"""
OTHERS = [
    ("hosvd:split=rows", Game(1, 5, 3), "two groups or more"),
    ("svd", Game(1, 1, 1), "1 x 1 has one cell"),
    ("hooi:source=(run:nowhere)", Game(4, 4, 4), "too large for a table of moves"),
    ("gomocup:sh", Game(7, 7, 4), "choose 5 in a row"),
    ("gomocup:sh", Game(7, 7, 5, 0.1), "choose 5 in a row"),
    ("gomocup:sh", Game(4, 7, 5), "choose 5 in a row"),
    ("gomocup:no/such/engine", GOMOKU, "there is no program no/such/engine"),
    ("gomocup:sh,arguments=('a)", GOMOKU, "arguments='a"),
    ("gomocup:sh,move=inf", GOMOKU, "move=inf"),
    ("gomocup:sh,memory=-1", GOMOKU, "memory=-1"),
    *(
        pytest.param(*case, marks=pytest.mark.needs("pyspiel"))
        for case in (
            ("openspiel", SKIP_GAME, "skip_chance=0.25"),
            ("openspiel:algorithm=minimx", Game(), "algorithm='minimx'"),
            ("openspiel:rollouts=4294967296", Game(), "rollouts=4"),
            ("openspiel:c=nan", Game(), "c=nan"),
            ("openspiel:alpha-beta", BIG, "choose depth=3, or up to 9 cells"),
        )
    ),
]


@pytest.mark.parametrize(
    ("spec", "game", "message"),
    [*((spec, Game(), message) for spec, message in TIC_TAC_TOE.items()), *OTHERS],
    ids=str,
)
def test_invalid_settings_are_refused_by_name(spec, game, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        make_policy(spec, game).probabilities(Boards.start(game))
