"""Text games, prompts and rendered boards of rule variants."""

import pytest

from ttt_envs import Game, from_text
from ttt_envs.envs.render import Scene, text
from ttt_envs.text import TextGame, make_presentation, present
from ttt_envs.text.answers import parse_answer
from ttt_envs.text.text_env import TextEnv

FALLING = Game(3, 4, 3, gravity=True)
POSITION = from_text("o.../x.../o..x x", FALLING)


@pytest.mark.parametrize("name", ["grid", "coordinates"])
def test_answers_name_columns(name):
    shown = make_presentation(name, FALLING)
    assert shown.legal_names(POSITION) == ["b", "c", "d"]
    assert [parse_answer(f"<move>{column}</move>", shown, POSITION) for column in "bCd"] == [9, 10, 7]
    assert parse_answer("<move>a</move>", shown, POSITION).message == "Column a is full."
    assert parse_answer("<move>a3</move>", shown, POSITION).kind == "unknown-cell"
    prompt = present(FALLING, POSITION, shown)
    assert "Legal moves: b, c, d\nAnswer with the name of a column that is not full" in prompt
    assert "lowest" in prompt


@pytest.mark.parametrize("name", ["numbers", "shuffled", "magic-square", "words"])
def test_presentations_that_name_cells_are_refused(name):
    with pytest.raises(ValueError, match=r"with gravity a move is a column: choose grid|is of 3 x 3 with 3 to win"):
        make_presentation(name, Game(gravity=True))


def test_rules_tell_the_variant():
    def rules(**variants):
        return make_presentation("grid", Game(4, 4, 3, **variants)).rules

    assert "3 or more own stones in an unbroken line, in a row, a column or a diagonal, wins." in rules()
    assert "exactly 3 own stones" in rules(overlines=False)
    assert "A line of more than 3 does not count." in rules(overlines=False)
    assert "diagonal, loses." in rules(misere=True)
    assert "continue across the edges" in rules(torus=True)
    assert "drop stones into the columns" in rules(gravity=True)
    for word in ("exactly", "loses", "edges", "drop", "longer"):
        assert word not in rules()


def test_random_moves_for_illegal_answers_are_legal():
    game = TextGame(FALLING, opponent="random", seed=1, illegal="random")
    while not game.over:
        game.step("no move")
    assert all(turn.by != "answer" for turn in game.turns)


def test_the_text_environment_has_variants():
    env = TextEnv((3, 4), gravity=True, misere=True)
    assert "drop stones" in env.reset(seed=0)[0]
    assert env.game == Game(3, 4, 3, gravity=True, misere=True)
    assert "drop stones" not in env.step("<move>a</move>")[0]
    always = TextEnv((3, 4), gravity=True, rules=True)
    always.reset(seed=0)
    assert "drop stones" in always.step("<move>a</move>")[0]


def test_drawn_boards_list_columns():
    shown = text(FALLING, Scene(POSITION.cells, POSITION.mover))
    assert shown.splitlines()[-1] == "legal actions: 1 (b), 2 (c), 3 (d)"
