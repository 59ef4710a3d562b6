"""Text games: presentations are bijections of the same game, and answers are parsed without a guess."""

from __future__ import annotations

import itertools
import re

import gymnasium
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from players import Impure

from ttt_envs import Game, PhantomGame, Position, from_text
from ttt_envs.agents.policy import Forfeit, Policy
from ttt_envs.game.rules import DRAW, Outcome, winner
from ttt_envs.text import PRESENTATIONS, Problem, TextGame, make_presentation, parse_answer, present
from ttt_envs.text.answers import MAX_ANSWER_LENGTH

TIC_TAC_TOE = Game(skip_chance=0.25)
ANY_BOARD = ("grid", "coordinates", "numbers", "shuffled")
POSITION = from_text("x.o/.../..o x")


def all_positions(game):
    """Every position of a game with skips that is not over: stones of both colours in any numbers, either mover."""
    for cells in itertools.product(range(3), repeat=game.cells):
        board = np.array(cells, np.int8)
        if winner(game, board) is None:
            yield from (Position(board, mover) for mover in (0, 1))


# ---------------------------------------------------------------------------------------------------------------------
# Presentations


def test_the_lines_are_the_triples_of_the_sum_15_and_of_a_common_letter():
    lines = {frozenset(line) for line in Game().line_cells.tolist()}
    triples = [frozenset(triple) for triple in itertools.combinations(range(9), 3)]
    numbers, words = (make_presentation(name, Game()).cell_names for name in ("magic-square", "words"))
    assert {triple for triple in triples if sum(int(numbers[cell]) for cell in triple) == 15} == lines
    assert {triple for triple in triples if set.intersection(*(set(words[cell]) for cell in triple))} == lines


@pytest.mark.parametrize("game", [Game(), Game(2, 5, 3), Game(12, 12, 5), Game(19, 19, 5), Game(1, 1, 1)], ids=str)
@pytest.mark.parametrize("name", ANY_BOARD)
def test_names_of_cells_are_a_bijection(name, game):
    shown = make_presentation(name, game, seed=4)
    assert len({one.lower() for one in shown.cell_names}) == game.cells
    empty = Position(np.zeros(game.cells, np.int8), 0)
    assert [parse_answer(f"<move>{one}</move>", shown, empty) for one in shown.cell_names] == list(range(game.cells))
    assert sorted(shown.legal_names(empty)) == sorted(shown.cell_names)


def read_back(text, name, game, cell_names):
    """Read a position from its text without the code that wrote it."""
    cells = np.zeros(game.cells, np.int8)
    mover = 0 if "You are the first player" in text else 1
    if name in ("grid", "numbers", "shuffled"):
        board = text.splitlines()[:-1]
        rows = [line.split()[1:] for line in board[1:]] if name == "grid" else [line.split() for line in board]
        marks = [mark for row in rows for mark in row]
        return np.array([" ox".index(mark) if mark in "ox" else 0 for mark in marks], np.int8), mover
    own, other = (re.findall(r"[A-Za-z0-9]+", line.partition(":")[2]) for line in text.splitlines()[1:])
    for stone, taken in ((mover + 1, own), (2 - mover, other)):
        for one in taken:
            if one != "none":
                cells[cell_names.index(one)] = stone
    return cells, mover


@pytest.mark.parametrize("name", PRESENTATIONS)
def test_positions_and_texts_are_a_bijection(name):
    shown = make_presentation(name, TIC_TAC_TOE, seed=1)
    texts = {}
    for position in all_positions(TIC_TAC_TOE):
        text = shown.view(position, position.mover)
        assert text not in texts
        texts[text] = position
        cells, mover = read_back(text, name, TIC_TAC_TOE, shown.cell_names)
        assert mover == position.mover
        assert cells.tolist() == position.cells.tolist()


@pytest.mark.parametrize("name", ANY_BOARD)
def test_positions_of_other_boards_are_read_back(name):
    rng = np.random.default_rng(0)
    for game in (Game(2, 5, 3), Game(10, 3, 3), Game(15, 15, 5)):
        shown = make_presentation(name, game, seed=2)
        for _ in range(20):
            position = Position(rng.integers(0, 3, game.cells).astype(np.int8), int(rng.integers(2)))
            cells, mover = read_back(shown.view(position, position.mover), name, game, shown.cell_names)
            assert (cells.tolist(), mover) == (position.cells.tolist(), position.mover)


def test_shuffled_names_depend_on_the_seed_alone():
    one, again, other = (make_presentation("shuffled", TIC_TAC_TOE, seed).cell_names for seed in (1, 1, 2))
    assert one == again
    assert one != other
    assert sorted(one) == sorted(other) == [str(cell) for cell in range(9)]


def test_presentations_of_three_by_three_say_why_they_have_no_other_board():
    with pytest.raises(ValueError, match=r"^presentation magic-square is of 3 x 3 with 3 to win"):
        make_presentation("magic-square", Game(4, 4, 4))
    with pytest.raises(ValueError, match=r"^presentation words is of 3 x 3 with 3 to win"):
        make_presentation("words", Game(3, 3, 2))
    with pytest.raises(ValueError, match=r"^'magic' is no presentation: did you mean 'magic-square'\?"):
        make_presentation("magic", Game())
    with pytest.raises(ValueError, match=r"^presentation grid is of 3 x 3, 3 to win, not of 4 x 4"):
        make_presentation(make_presentation("grid", Game()), Game(4, 4, 4))


def test_phantom_games_have_no_presentation():
    """Every presentation shows all stones."""
    message = (
        r"^a text game does not support hidden stones of the game .*, because it reads the whole board, .*: choose"
    )
    with pytest.raises(ValueError, match=message):
        TextGame(PhantomGame(kind="classic"), opponent="self")
    with pytest.raises(ValueError, match=message):
        present(PhantomGame(kind="abrupt"), POSITION, "words")


def test_a_prompt_says_the_rules_the_skip_chance_the_position_and_the_legal_moves():
    text = present(TIC_TAC_TOE, POSITION)
    assert "skipped with probability 0.25" in text
    assert "  a b c\n1 x . o\n2 . . .\n3 . . o\nYou are the second player, x." in text
    assert "Legal moves: b1, a2, b2, c2, a3, b3\n" in text
    assert text.endswith("between <move> and </move>.")
    assert "no turn is skipped" in present(Game(), from_text("x.o/.../..o x"))
    short = present(TIC_TAC_TOE, POSITION, rules=False, show_legal=False)
    assert "probability" not in short
    assert "Legal" not in short
    with pytest.raises(ValueError, match=r"^cells must be int8\[16\]"):
        present(Game(4, 4, 4), POSITION)


@pytest.mark.parametrize("name", ["magic-square", "words"])
def test_lists_do_not_tell_the_places_of_cells(name):
    shown = make_presentation(name, TIC_TAC_TOE)
    names = shown.legal_names(Position(np.zeros(9, np.int8), 0))
    assert names == sorted(names)


# ---------------------------------------------------------------------------------------------------------------------
# Answers

CELL = 4
"""b2, the empty middle of the position"""


@pytest.mark.parametrize(
    "answer",
    [
        "b2",
        " B2. ",
        "**b2**",
        "`b2`",
        "My move: b2",
        "Answer: b2",
        "The answer is b2.",
        "<move>b2</move>",
        "I take the middle. <MOVE> B2 </MOVE>",
        "<move>b2",
        r"So \boxed{b2}.",
        r"\boxed{\text{b2}}",
        r"\boxed{\textbf{b2}}",
        "I see [b2] as best",
        "<think>a3? <move>a3</move></think> <move>b2</move>",
        "<move>b2</move>, yes, <move>b2</move>",
        "[a3] is worse: <move>b2</move>",
        "x" * (3 * MAX_ANSWER_LENGTH) + "<move>b2</move>",
    ],
)
def test_answers_that_name_one_move(answer):
    assert parse_answer(answer, make_presentation("grid", TIC_TAC_TOE), POSITION) == CELL


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        ("", "no-move"),
        (None, "no-move"),
        (4, "no-move"),
        (["b2"], "no-move"),
        ("b2 or a3", "no-move"),
        ("anything but b2", "no-move"),
        ("I do not play b2", "no-move"),
        ("b22", "no-move"),
        ("4", "no-move"),
        ("\uff42\uff12", "no-move"),
        ("<move>b2</move><move>a3</move>", "several-moves"),
        (r"\boxed{b2} \boxed{a3}", "several-moves"),
        ("<move>d4</move>", "unknown-cell"),
        ("<move></move>", "unknown-cell"),
        ("<move>not b2</move>", "unknown-cell"),
        ("<move>b2, a3</move>", "unknown-cell"),
        ("<move>b2</move><move>d4</move>", "unknown-cell"),
        ("<move>\x00\ud800</move>", "unknown-cell"),
        ("<move>a1</move>", "occupied-cell"),
        ("c3", "occupied-cell"),
    ],
)
def test_answers_that_name_no_legal_move(answer, kind):
    found = parse_answer(answer, make_presentation("grid", TIC_TAC_TOE), POSITION)
    assert isinstance(found, Problem)
    assert found.kind == kind
    assert found.message.isprintable()
    assert len(found.message) < 200


def test_an_occupied_cell_is_a_move_where_no_position_is_given():
    assert parse_answer("a1", make_presentation("grid", TIC_TAC_TOE)) == 0


FRAGMENTS = [
    *("<move>", "</move>", "<MOVE>", r"\boxed{", "}", "[", "]", "<think>", "</think>"),
    *("not ", "never ", "anything but ", "Answer: ", r"\text{", "|", "<", ">", "{", "-", "0", ","),
    *(" ", "\n", "\0", "\u202e", "İ", "K", "٣", "²", "\ud800", "💥", "TAN\N{KELVIN SIGN}"),
    *("b2", "B2", "a3", "a1", "c9", "b22", "5", "4", "10", "HOT", "tank", "ship", "xHOT", "hot hot"),
]
"""parts of mangled answers"""
NAMES = ("b2", "a3", "c2", "4", "5", "7", "TANK", "form", "brim", "a1")


def check_mangled(answer, name):
    """Check that an answer is parsed without an exception, and that a move that is found was named."""
    shown = make_presentation(name, TIC_TAC_TOE, seed=1)
    found = parse_answer(answer, shown, POSITION)
    if isinstance(found, Problem):
        assert found.message.isprintable()
        assert len(found.message) < 200
        return 0
    assert POSITION.cells[found] == 0
    word = re.escape(shown.cell_names[found])
    assert re.search(rf"(?<![a-z0-9]){word}(?![a-z0-9])", answer, re.IGNORECASE | re.ASCII)
    return 1


ANSWERS = st.one_of(
    st.text(max_size=60),
    st.lists(st.sampled_from(FRAGMENTS), max_size=9).map("".join),
    st.lists(st.one_of(st.sampled_from(FRAGMENTS), st.text(max_size=5)), max_size=7).map(" ".join),
)


@settings(max_examples=300, deadline=None)
@given(ANSWERS, st.sampled_from(sorted(PRESENTATIONS)))
def test_mangled_answers(answer, name):
    check_mangled(answer, name)


def mangle(rng):
    """Return a random answer of fragments, some of them cut, repeated or changed in one character."""
    parts = [FRAGMENTS[index] for index in rng.integers(0, len(FRAGMENTS), int(rng.integers(1, 10)))]
    if rng.random() < 0.5:  # a well-formed mark among them
        before, after = (("<move>", "</move>"), (r"\boxed{", "}"), ("[", "]"))[int(rng.integers(3))]
        name = NAMES[int(rng.integers(len(NAMES)))]
        parts.insert(int(rng.integers(len(parts) + 1)), f"{before}{name}{after}")
    answer = "".join(parts[-int(rng.integers(1, 4)) :] if rng.random() < 0.5 else parts)
    for _ in range(int(rng.integers(0, 3))):
        at = int(rng.integers(0, len(answer) + 1))
        kind = int(rng.integers(4))
        if kind == 0:
            answer = answer[:at] + chr(int(rng.integers(0, 0x10FFFF))) + answer[at:]
        elif kind == 1:
            answer = answer[:at]
        elif kind == 2:
            answer = answer[:at] + answer[at + 1 :]
        elif rng.random() < 0.01:
            answer = answer[:at] * 20_000
    return answer


@pytest.mark.parametrize("count", [2_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_mutated_answers_never_name_another_move(count):
    rng = np.random.default_rng(0)
    names = sorted(PRESENTATIONS)
    named = sum(check_mangled(mangle(rng), names[number % len(names)]) for number in range(count))
    assert 0.02 * count < named < 0.5 * count


@pytest.mark.parametrize("part", ["<move>", r"\boxed{", "[", "</think>", " ", "<move>b", "a", "\n", "<move></move>"])
def test_huge_answers_are_read_in_linear_time(part):
    """Without the bound of the length and of the names, some of these would take hours."""
    shown = make_presentation("grid", TIC_TAC_TOE)
    assert isinstance(parse_answer(part * 1_000_000, shown, POSITION), Problem)


# ---------------------------------------------------------------------------------------------------------------------
# Games


def play_both(game, seat, opponent, seed, presentation):
    """Play one game with random legal moves in the environment and in text, and compare every position."""
    env = gymnasium.make(
        "ttt_envs:ttt/MNK-v0",
        size=(game.rows, game.columns),
        win_length=game.win_length,
        skip_chance=game.skip_chance,
        opponent=opponent,
        seat=("first", "second")[seat],
        observation="planes",
        **game.variants,
    )
    seen, info = env.reset(seed=seed)
    text = TextGame(game, opponent=opponent, seat=seat, presentation=presentation, seed=seed)
    rng, reward, done = np.random.default_rng(seed), 0.0, False
    while not done:
        if info["winner"] >= 0:  # the opponent has won before the first move
            assert text.over
            return text.result(seat), info["winner"]
        own, other = seen[..., 0].ravel(), seen[..., 1].ravel()
        stones = (own * (seat + 1) + other * (2 - seat)).astype(np.int8)
        assert text.position.cells.tolist() == stones.tolist()
        action = int(rng.choice(np.flatnonzero(info["action_mask"])))
        seen, reward, terminated, truncated, info = env.step(action)
        name = "abcd"[action] if game.gravity else text.presentation.cell_names[action]
        assert text.step(f"<move>{name}</move>") is None
        done = terminated or truncated
        assert done == text.over
    assert text.result(seat) == reward
    assert int(text.outcome) == info["result"]
    return reward, info["winner"]


@pytest.mark.parametrize("opponent", ["random", "win-or-block", "optimal:epsilon=0.3"])
@pytest.mark.parametrize("seat", [0, 1])
def test_games_are_those_of_the_environment(opponent, seat):
    for seed in range(20):
        presentation = sorted(PRESENTATIONS)[seed % len(PRESENTATIONS)]
        play_both(Game(skip_chance=(0.0, 0.25, 0.5)[seed % 3]), seat, opponent, seed, presentation)
    for game, presentation in ((Game(4, 5, 3, 0.25), "shuffled"), (Game(3, 4, 3, 0.25, gravity=True), "grid")):
        play_both(game, seat, opponent.replace("optimal:epsilon=0.3", "random"), 0, presentation)


def test_the_turns_are_the_whole_game():
    for seed in range(30):
        text = TextGame(TIC_TAC_TOE, seed=seed, seat=seed % 2)
        rng = np.random.default_rng(seed)
        while not text.over:
            text.step(str(rng.choice(text.legal_moves())))
        position = Position(np.zeros(9, np.int8), 0)
        for turn in text.turns:
            assert turn.position.cells.tolist() == position.cells.tolist()
            assert turn.position.mover == position.mover
            assert (turn.by == "opponent") == (turn.position.mover != seed % 2)
            assert turn.after.cells[turn.action] == turn.position.mover + 1
            position = turn.after
        assert winner(TIC_TAC_TOE, position.cells) == int(text.turns[-1].outcome) == int(text.outcome)
        assert text.result(0) == -text.result(1)
        assert (text.result(0) == 0) == (int(text.outcome) == DRAW)


def test_both_seats_read_their_own_remarks():
    text = TextGame(Game(skip_chance=0.5), opponent="self", seed=2)
    skips = 0
    assert text.seats == (0, 1)
    while not text.over:
        mover = text.mover
        assert f"You are the {('first', 'second')[mover]} player" in text.prompt()
        text.step(text.legal_moves()[0])
        if not text.over and text.mover == mover:
            skips += 1
            assert "The other player's turn was skipped: you move again." in text.prompt()
            assert "Your turn was skipped." in text.prompt(1 - mover)
            assert "It is your turn" not in text.prompt(1 - mover)
        elif not text.over:
            assert "The other player chose" in text.prompt()
    assert skips
    won = text.outcome.winner
    assert text.prompt(won).endswith("You have won.")
    assert text.prompt(1 - won).endswith("You have lost.")


def test_rules_come_until_the_first_answer():
    text = TextGame(TIC_TAC_TOE, seed=1)
    assert "Two players" in text.prompt()
    assert text.prompt() == text.prompt()
    text.step("b2")
    assert "Two players" not in text.prompt()
    assert "Two players" in text.prompt(rules=True)


def test_illegal_answers_ask_again_and_then_lose():
    text = TextGame(TIC_TAC_TOE, max_asks=2, seed=0)
    text.step("nonsense")
    assert "You may answer up to 2 times more in this turn." in text.prompt()
    text.step("d9")
    assert "You may answer once more in this turn." in text.prompt()
    assert [problem.kind for problem in text.problems] == ["no-move", "no-move"]
    text.step("b2")
    assert [len(turn.problems) for turn in text.turns if turn.by == "answer"] == [2]
    assert text.problems == ()
    for _ in range(3):
        assert not text.over
        text.step("<move>b2</move>")
    assert text.outcome == Outcome.PLAYER_0_FORFEITED
    assert (text.result(0), text.result(1)) == (-1, 1)
    assert text.turns[-1].action == -1
    assert "This loses the game." in text.prompt()
    assert text.prompt().endswith("You have lost.")
    assert text.prompt(1).endswith("You have won.")
    with pytest.raises(RuntimeError, match=r"^the game is over"):
        text.step("b2")
    assert text.legal_moves() == []


def test_illegal_answers_lose_at_once():
    text = TextGame(TIC_TAC_TOE, illegal="lose")
    problem = text.step("nonsense")
    assert problem is not None
    assert text.outcome == Outcome.PLAYER_0_FORFEITED


def test_illegal_answers_make_random_moves_of_the_seed():
    def play(seed):
        text = TextGame(TIC_TAC_TOE, illegal="random", seed=seed)
        while not text.over:
            assert text.step("nonsense") is not None
            assert "A random move was made for you" in text.prompt()
        assert {turn.by for turn in text.turns} <= {"random", "opponent"}
        return [turn.action for turn in text.turns]

    games = [play(seed) for seed in range(40)]
    assert games == [play(seed) for seed in range(40)]
    assert len({game[0] for game in games}) == 9


def test_games_begin_in_a_position():
    text = TextGame(TIC_TAC_TOE, start=POSITION, seat=1)
    assert text.position.cells.tolist() == POSITION.cells.tolist()
    assert text.mover == 1
    with pytest.raises(ValueError, match=r"^start is over"):
        TextGame(TIC_TAC_TOE, start=from_text("ooo/xx./... x"))


def test_arguments_are_checked():
    for wrong in ({"illegal": "forgive"}, {"seat": 2}, {"max_asks": -1}, {"opponent": "randon"}):
        with pytest.raises(ValueError, match=str(next(iter(wrong.values())))):
            TextGame(TIC_TAC_TOE, **wrong)
    with pytest.raises(TypeError, match=r"^'random' is no game: write for example TextGame\(Game\(\)"):
        TextGame("random")


def test_policies_that_are_not_pure_are_opponents():
    def play(seed):
        text = TextGame(TIC_TAC_TOE, opponent=Impure(), seat=1, seed=seed)
        while not text.over:
            text.step(text.legal_moves()[0])
        assert text.turns[0].by == "opponent"
        return [turn.action for turn in text.turns]

    assert play(3) == play(3)
    assert len({tuple(play(seed)) for seed in range(10)}) > 5


def test_opponents_are_told_the_number_of_the_game():
    class Numbered(Impure):
        def act_in_games(self, boards, games, episode_keys, plies):
            return games

    assert TextGame(TIC_TAC_TOE, opponent=Numbered(), seat=1, episode=5).turns[0].action == 5


def test_an_opponent_may_give_up():
    class Quits(Policy):
        pure = False

        def probabilities(self, boards, rng=None):
            raise Forfeit("the engine has exited")

    text = TextGame(TIC_TAC_TOE, opponent=Quits(), seat=1)
    assert text.outcome == Outcome.PLAYER_0_FORFEITED
    assert text.prompt().endswith("You have won.")
    assert text.turns[0].by == "opponent"
