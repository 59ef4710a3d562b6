"""Text games: presentations are bijections of the same game, and answers are parsed without a
guess.

test_environments.py has the games themselves.
"""

import itertools
import re

import gymnasium
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from players import Cheat
from small_games import SKIP_GAME

from ttt_envs import Game, PhantomGame, Position, from_text
from ttt_envs.agents.policy import Forfeit, Policy
from ttt_envs.game.game import VARIANTS
from ttt_envs.game.rules import Outcome, winner
from ttt_envs.text import PRESENTATIONS, Problem, TextGame, make_presentation, parse_answer, present
from ttt_envs.text.answers import MAX_ANSWER_LENGTH
from ttt_eval.language_models.credit import TurnReward

FALLING = Game(3, 4, 3, gravity=True)
ANY_BOARD = ("grid", "coordinates", "numbers", "shuffled")
POSITION = from_text("x.o/.../..o x")
FALLEN = from_text("o.../x.../o..x x", FALLING)


# --------------------------------------------------------------------------------------------------
# Presentations


def test_the_lines_are_the_triples_of_the_sum_15_and_of_a_common_letter():
    lines = {frozenset(line) for line in Game().line_cells.tolist()}
    triples = [frozenset(triple) for triple in itertools.combinations(range(9), 3)]
    numbers, words = (
        make_presentation(name, Game()).cell_names for name in ("magic-square", "words")
    )
    assert {
        triple for triple in triples if sum(int(numbers[cell]) for cell in triple) == 15
    } == lines
    assert {
        triple for triple in triples if set.intersection(*(set(words[cell]) for cell in triple))
    } == lines
    for name in ("magic-square", "words"):  # lists do not tell the places of cells
        listed = make_presentation(name, SKIP_GAME).legal_names(Position(np.zeros(9, np.int8), 0))
        assert listed == sorted(listed)


@pytest.mark.parametrize("game", [Game(), Game(2, 5, 3), Game(19, 19, 5), Game(1, 1, 1)], ids=str)
@pytest.mark.parametrize("name", ANY_BOARD)
def test_names_of_cells_are_a_bijection(name, game):
    presentation, other = (make_presentation(name, game, seed=seed) for seed in (4, 4))
    assert presentation.cell_names == other.cell_names
    empty = Position(np.zeros(game.cells, np.int8), 0)
    assert [
        parse_answer(f"<move>{word}</move>", presentation, empty)
        for word in presentation.cell_names
    ] == list(range(game.cells))
    assert sorted(presentation.legal_names(empty)) == sorted(presentation.cell_names)


def read_back(text, name, cell_names):
    """Read a position from its text without the code that wrote it."""
    mover = 0 if "You are the first player" in text else 1
    if name in ("grid", "numbers", "shuffled"):
        board = text.splitlines()[:-1]
        rows = (
            [line.split()[1:] for line in board[1:]]
            if name == "grid"
            else [line.split() for line in board]
        )
        return [" ox".index(mark) if mark in "ox" else 0 for row in rows for mark in row], mover
    cells = [0] * len(cell_names)
    own, other = (
        re.findall(r"[A-Za-z0-9]+", line.partition(":")[2]) for line in text.splitlines()[1:]
    )
    for stone, taken in ((mover + 1, own), (2 - mover, other)):
        for word in taken:
            if word != "none":
                cells[cell_names.index(word)] = stone
    return cells, mover


@pytest.mark.parametrize("name", PRESENTATIONS)
def test_positions_are_read_back_from_their_texts(name):
    """All boards of 3 x 3 without a line, whoever moves, and some larger ones."""
    presentation = make_presentation(name, SKIP_GAME, seed=1)
    for cells in itertools.product(range(3), repeat=9):
        board = np.array(cells, np.int8)
        if winner(SKIP_GAME, board) is None:
            for mover in (0, 1):
                text = presentation.describe(Position(board, mover), mover)
                assert read_back(text, name, presentation.cell_names) == (list(cells), mover)
    rng = np.random.default_rng(0)
    for game in (Game(10, 3, 3), Game(15, 15, 5)) if name in ANY_BOARD else ():
        presentation = make_presentation(name, game, seed=2)
        for mover in (0, 1):
            board = rng.integers(0, 3, game.cells).astype(np.int8)
            text = presentation.describe(Position(board, mover), mover)
            assert read_back(text, name, presentation.cell_names) == (board.tolist(), mover)


@pytest.mark.parametrize("name", ["grid", "coordinates"])
def test_answers_name_columns_under_gravity(name):
    presentation = make_presentation(name, FALLING)
    assert presentation.legal_names(FALLEN) == ["b", "c", "d"]
    *cells, full, unknown = (
        parse_answer(f"<move>{text}</move>", presentation, FALLEN)
        for text in ("b", "C", "d", "a", "a3")
    )
    assert cells == [9, 10, 7]
    assert (full.kind, unknown.kind) == ("occupied-cell", "unknown-cell")
    assert "Legal moves: b, c, d\n" in present(FALLING, FALLEN, presentation)


def test_presentations_refuse_games_that_they_cannot_show():
    falling = [
        (name, Game(gravity=True)) for name in ("numbers", "shuffled", "magic-square", "words")
    ]
    others = [("magic-square", Game(4, 4, 4)), ("words", Game(3, 3, 2)), ("magic", Game())]
    for name, game in (*falling, *others, (make_presentation("grid", Game()), Game(4, 4, 4))):
        with pytest.raises(ValueError, match="presentation"):
            make_presentation(name, game)


def test_a_rule_without_words_is_refused(monkeypatch):
    """As a new rule is, until its words are written."""

    class Straight(Game):
        diagonals = False

    monkeypatch.setitem(VARIANTS, "diagonals", False)
    with pytest.raises(ValueError, match="a text game does not support diagonals=False"):
        make_presentation("grid", Straight())


def test_a_prompt_says_rules_until_the_first_answer_and_the_position():
    game = TextGame(SKIP_GAME, start=POSITION, seat=1)
    text = present(SKIP_GAME, POSITION)
    assert game.prompt() == text
    game.position.cells[:] = 0  # of a copy
    assert "  a b c\n1 x . o\n2 . . .\n3 . . o\nYou are the second player, x." in text
    assert "Legal moves: b1, a2, b2, c2, a3, b3\n" in text
    game.step("b2")
    for short in (game.prompt(), present(SKIP_GAME, POSITION, rules=False, show_legal=False)):
        assert "probability" not in short
    assert "Legal" not in short
    assert "probability 0.25" in game.prompt(rules=True)
    for name, word in {
        "overlines": "exactly 3",
        "misere": "loses",
        "torus": "edges",
        "gravity": "drop",
    }.items():
        rules = [
            make_presentation("grid", Game(4, 4, 3, **{name: value})).rules
            for value in (False, True)
        ]
        assert [word in text for text in rules] == [name == "overlines", name != "overlines"]


# --------------------------------------------------------------------------------------------------
# Answers


@pytest.mark.parametrize(
    "answer",
    [
        *(
            "b2",
            " B2. ",
            "**b2**",
            "`b2`",
            "My move: b2",
            "The answer is b2.",
            "<move>b2</move>",
            "<move>b2",
        ),
        "I take the middle. <MOVE> B2 </MOVE>",
        r"So \boxed{b2}.",
        r"\boxed{\textbf{b2}}",
        "I see [b2] as best",
        "<think>a3? <move>a3</move></think> <move>b2</move>",
        "<move>b2</move> <think> or <move>a3</move>",
        "<move>b2</move>, yes, <move>b2</move>",
        "[a3] is worse: <move>b2</move>",
        "x" * (3 * MAX_ANSWER_LENGTH) + "<move>b2</move>",
    ],
    ids=lambda answer: answer[:40],
)
def test_answers_that_name_one_move(answer):
    assert parse_answer(answer, make_presentation("grid", SKIP_GAME), POSITION) == 4


@pytest.mark.parametrize(
    ("kind", "answers"),
    [
        (
            "no-move",
            [
                "",
                None,
                4,
                ["b2"],
                "b2 or a3",
                "anything but b2",
                "I do not play b2",
                "b22",
                "4",
                "\uff42\uff12",
                "<think> <move>b2</move>",
            ],
        ),
        ("several-moves", ["<move>b2</move><move>a3</move>", r"\boxed{b2} \boxed{a3}"]),
        (
            "unknown-cell",
            ["<move>d4</move>", "<move></move>", "<move>not b2</move>", "<move>b2, a3</move>"],
        ),
        ("unknown-cell", ["<move>b2</move><move>d4</move>", "<move>\x00\ud800</move>"]),
        ("occupied-cell", ["<move>a1</move>", "c3"]),
    ],
)
def test_answers_that_name_no_legal_move(kind, answers):
    grid = make_presentation("grid", SKIP_GAME)
    assert [parse_answer(answer, grid, POSITION).kind for answer in answers] == [kind] * len(
        answers
    )
    assert parse_answer("a1", grid) == 0  # where no position is given


FRAGMENTS = [
    *("<move>", "</move>", "<MOVE>", r"\boxed{", "}", "[", "]", "<think>", "</think>"),
    *("not ", "never ", "anything but ", "Answer: ", r"\text{", "|", "<", ">", "{", "-", "0", ","),
    *(" ", "\n", "\0", "\u202e", "İ", "K", "٣", "²", "\ud800", "💥", "TAN\N{KELVIN SIGN}"),
    *(
        "b2",
        "B2",
        "a3",
        "a1",
        "c9",
        "b22",
        "5",
        "4",
        "10",
        "HOT",
        "tank",
        "ship",
        "xHOT",
        "hot hot",
    ),
    *(
        "<move>b2</move>",
        r"\boxed{4}",
        "[TANK]",
        "<move>form</move>",
        "<move>b2</mo",
        "<move>b2" * 9,
    ),
]
"""parts of mangled answers"""


@settings(max_examples=200)
@given(
    st.lists(st.one_of(st.sampled_from(FRAGMENTS), st.text(max_size=4)), max_size=9).map("".join),
    st.sampled_from(sorted(PRESENTATIONS)),
)
def test_a_mangled_answer_is_a_problem_or_a_move_that_it_names(answer, name):
    presentation = make_presentation(name, SKIP_GAME, seed=1)
    move = parse_answer(answer, presentation, POSITION)
    if isinstance(move, Problem):
        assert move.message.isprintable()
        assert len(move.message) < 200
        return
    assert POSITION.cells[move] == 0
    word = re.escape(presentation.cell_names[move])
    assert re.search(rf"(?<![a-z0-9]){word}(?![a-z0-9])", answer, re.IGNORECASE | re.ASCII)


@pytest.mark.parametrize(
    "part", ["<move>", r"\boxed{", "[", "</think>", " ", "<move>b", "a", "<move></move>"]
)
def test_huge_answers_are_read_in_linear_time(part):
    """Without the bound of the length and of the names, some of these would take hours."""
    assert isinstance(
        parse_answer(part * 1_000_000, make_presentation("grid", SKIP_GAME), POSITION), Problem
    )


# --------------------------------------------------------------------------------------------------
# Games


def test_both_seats_read_their_own_remarks():
    text = TextGame(Game(skip_chance=0.5), opponent="self", seed=2)
    skips = 0
    while not text.over:
        mover = text.mover
        assert f"You are the {('first', 'second')[mover]} player" in text.prompt()
        text.step(text.legal_moves()[0])
        skipped = not text.over and text.mover == mover
        skips += skipped
        assert (
            "The other player's turn was skipped: you move again." in text.prompt(mover)
        ) == skipped
        assert "Your turn was skipped." in text.prompt(1 - mover) or not skipped
    assert skips
    assert text.prompt(text.outcome.winner).endswith("You have won.")
    assert text.prompt(1 - text.outcome.winner).endswith("You have lost.")


def test_illegal_answers_ask_again_and_then_lose():
    text = TextGame(SKIP_GAME, max_asks=2, seed=0)
    text.step("nonsense")
    assert "up to 2 times more" in text.prompt()
    text.step("d9")
    assert [problem.kind for problem in text.problems] == ["no-move", "no-move"]
    text.step("b2")
    assert [len(turn.problems) for turn in text.turns if turn.by == "answer"] == [2]
    for _ in range(3):
        assert not text.over
        text.step("<move>b2</move>")
    assert text.outcome == Outcome.PLAYER_0_FORFEITED
    assert (text.result(0), text.result(1), text.turns[-1].action) == (-1, 1, -1)
    with pytest.raises(RuntimeError, match="over"):
        text.step("b2")
    at_once = TextGame(SKIP_GAME, illegal="lose")
    at_once.step("nonsense")
    assert at_once.outcome == Outcome.PLAYER_0_FORFEITED


@pytest.mark.parametrize("game", [SKIP_GAME, FALLING], ids=str)
def test_illegal_answers_make_random_moves_of_the_seed(game):
    def play(seed):
        text = TextGame(game, illegal="random", seed=seed)
        while not text.over:
            assert text.step("nonsense") is not None
        assert {turn.by for turn in text.turns} <= {"random", "opponent"}
        return [turn.action for turn in text.turns]

    games = [play(seed) for seed in range(40)]
    assert games == [play(seed) for seed in range(40)]
    assert len({actions[0] for actions in games}) == (game.columns if game.gravity else 9)


def test_what_is_no_text_game_is_refused():
    for call in (
        lambda: TextGame(SKIP_GAME, illegal="forgive"),
        lambda: TextGame(SKIP_GAME, seat=2),
        lambda: TextGame(SKIP_GAME, max_asks=-1),
        lambda: TextGame(SKIP_GAME, opponent="randon"),
        lambda: TextGame(SKIP_GAME, start=from_text("ooo/xx./... x")),  # it is over
        lambda: TextGame("random"),
        lambda: TextGame(PhantomGame(kind="classic"), opponent="self"),
        lambda: present(PhantomGame(kind="abrupt"), POSITION, "words"),
        lambda: present(Game(4, 4, 4), POSITION),
    ):
        with pytest.raises((TypeError, ValueError)):
            call()
    with pytest.raises(ValueError, match="seed=-1 is below 0"):
        TextGame(SKIP_GAME, seed=-1)


def test_an_opponent_that_gives_up_has_lost():
    class ExitedEngine(Policy):
        pure = False

        def probabilities(self, boards, rng=None):
            raise Forfeit("the engine has exited")

    text = TextGame(SKIP_GAME, opponent=ExitedEngine(), seat=1)
    assert text.outcome == Outcome.PLAYER_0_FORFEITED
    assert text.prompt().endswith("You have won.")


def test_an_opponent_cannot_move_to_a_taken_cell():
    with pytest.raises(ValueError, match="moved to an illegal cell"):
        TextGame(SKIP_GAME, opponent=Cheat(), start=from_text("o../.../... x"))


# --------------------------------------------------------------------------------------------------
# The environment


def answer(env, rng):
    """A random legal move of the current game, or now and then nonsense."""
    legal = env.unwrapped.text.legal_moves()
    return f"<move>{rng.choice(legal)}</move>" if legal and rng.random() < 0.8 else "nonsense"


@pytest.mark.parametrize("presentation", PRESENTATIONS)
def test_observations_are_prompts_in_the_space_and_rewards_of_turns_add_up(presentation):
    reward = TurnReward(Game(skip_chance=0.5), regret=0.5, illegal=2.5)
    settings = {
        "presentation": presentation,
        "skip_chance": 0.5,
        "seat": "alternate",
        "rules": True,
    }
    env = gymnasium.make("ttt_envs:ttt/Text-v0", reward=reward, **settings)
    rng = np.random.default_rng(1)
    for number in range(10):
        observation, _ = env.reset(seed=3 if number == 0 else None)
        total = 0.0
        is_over = False
        while not is_over:
            assert env.observation_space.contains(observation)
            assert "probability 0.5" in observation
            observation, gained, is_over, _, info = env.step(answer(env, rng))
            assert (gained < -2) == bool(info["problem"])  # which no legal answer gets
            total += gained
        assert set(info) == {"seat", "mover", "result", "winner", "problem"}
        text = env.unwrapped.text
        assert total == pytest.approx(reward(text.turns, text.seats[0]), abs=1e-12)


def test_problems_of_answers_are_in_the_info_and_options_are_refused():
    price = TurnReward(Game(), illegal=0.25)
    env = gymnasium.make("ttt_envs:ttt/Text-v0", max_asks=1, reward=price)
    env.reset(seed=0)
    observation, reward, is_over, _, info = env.step("d9\ud800")
    assert (reward, is_over, info["problem"]) == (-0.25, False, "no-move")
    assert "once more" in observation
    assert [env.step(answer)[1] for answer in ("b2", "?")] == [0.0, -0.25]
    _, reward, is_over, _, info = env.step("<move>d9</move>")
    assert (reward, is_over, info["problem"], info["result"]) == (-1.25, True, "unknown-cell", 3)
    with pytest.raises(ValueError, match="options"):
        env.reset(options={"seat": 1})
