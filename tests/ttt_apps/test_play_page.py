"""The page without a server: its numbers are Python's, and a browser plays it by mouse, keyboard and touch."""

import base64
from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np
import pytest
from documents import ROOT
from pages import accessibility_faults, in_browser

from baselines.compression import decomposition
from baselines.exact import SearchedSolution, solve
from baselines.tables import random_play_values
from ttt_apps.board import LiveGame
from ttt_apps.play_page.nets import Net, load_weights
from ttt_apps.play_page.numbers import (
    ANY_RULES,
    GAMES,
    MAX_RANK,
    OPPONENTS,
    VARIANTS,
    all_positions,
    make_opponent,
    numbers,
)
from ttt_apps.play_page.page import build_page, parse_numbers
from ttt_envs.agents.policy import sample
from ttt_envs.agents.wrappers import check_colour_blind, check_symmetric
from ttt_envs.core.random import splitmix64, uniform
from ttt_envs.game.boards import MOVERS, Boards, coordinate, from_text, play_moves, to_text
from ttt_envs.game.game import VARIANTS as RULES
from ttt_envs.game.game import Game
from ttt_envs.game.rules import NOT_OVER, STREAM_OPPONENT, STREAM_SKIP
from ttt_eval.exact.dynamic_programming import exploitation, match_outcome
from ttt_eval.reports.links import PLAY_BOARDS, PLAY_SKIPS, play_link

PAGE = ROOT / "docs" / "play" / "index.html"

FOLLOW = """link => new Promise(done => {
    if (location.hash === link) return done()
    addEventListener("hashchange", () => done(), {once: true})
    location.hash = link
})"""
RESET_VIEW = """() => {
    const first = {"#exact": true, "#wait": false, "[name=show][value=values]": true}
    for (const [place, on] of Object.entries(first)) {
        const box = document.querySelector(place)
        if (box.checked !== on) box.click()
    }
}"""


class Visits:
    """Visits of the page from its file, in one tab, which saves time; errors and requests are collected."""

    def __init__(self, browser):
        self._browser = browser
        self._tab = self._look = None
        self.faults = []

    def tab(self, **settings):
        """Return a new tab."""
        page = self._browser.new_context(viewport={"width": 1280, "height": 800}, **settings).new_page()
        page.on("console", lambda message: self.faults.append(message.text))
        page.on("pageerror", lambda error: self.faults.append(str(error)))
        page.on("request", lambda request: self._check_url(request.url))
        page.clock.install()  # time passes only in wait()
        return page

    def __call__(self, link="#against=table&skip=0.25&you=o&seed=1", width=1280, scheme="light"):
        """Follow a link within the page, and reset what is shown."""
        if self._tab is None:
            self._tab = self.tab()
            self._tab.goto(PAGE.as_uri())
        page = self._tab
        if self._look != (width, scheme):
            page.set_viewport_size({"width": width, "height": 800})
            page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
            self._look = width, scheme
        page.evaluate(RESET_VIEW)
        page.evaluate(FOLLOW, link)
        return page

    def _check_url(self, url):
        if not url.startswith((PAGE.as_uri(), "data:")):
            self.faults.append(url)


@pytest.fixture(scope="module")
def visits(browser):
    return Visits(browser)


@pytest.fixture
def visit(visits):
    yield visits
    faults, visits.faults = visits.faults, []
    assert faults == []


def board(page, columns=3):
    """The board as text, without the mover."""
    names = page.locator("#board .cell").evaluate_all("all => all.map(cell => cell.className.split(' '))")
    line = "".join("o" if "o" in name else "x" if "x" in name else "." for name in names)
    return "/".join(line[row : row + columns] for row in range(0, len(line), columns))


def episode_key(seed):
    """The key of a game's random numbers: that of an environment's first episode."""
    return np.uint64(splitmix64(np.uint64(seed), 0))


def wait(page):
    """Let the opponent move while it is its turn."""
    page.clock.run_for(5000)


# ---------------------------------------------------------------------------------------------------------------------
# What is in it


def test_the_published_page_is_up_to_date_and_small():
    text = PAGE.read_text("utf-8")
    same = build_page(parse_numbers(text)) == text
    assert same, "docs/play/index.html is not what its parts make now: make play-page"
    assert len(text.encode()) < 450_000
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "").replace("http-equiv", "")


@pytest.mark.parametrize("game", GAMES, ids=str)
def test_positions_tables_and_nets_have_the_properties_that_the_page_needs(game):
    positions = all_positions(game)
    assert len(positions.mover) == (4520 if game.skip_chance == 0 else 21_727)
    whole = decomposition(game, "svd")
    np.testing.assert_allclose(whole.at(MAX_RANK).table(), random_play_values(game), atol=1e-9)
    assert whole.at(MAX_RANK - 1).relative_error > 1e-6
    some = positions.take(np.arange(0, len(positions.mover), 140))
    check_symmetric(make_opponent(game, "net"), game, some)
    check_colour_blind(Net(game, load_weights(game)), game, some)


@pytest.mark.needs("tensorflow")
@pytest.mark.slow
def test_training_again_gives_a_similar_net(tmp_path):
    import subprocess
    import sys

    from learners.checkpoint import RunPolicy
    from ttt_apps.play_page.nets import training_command

    game = GAMES[0]
    words = ["-m", "ttt_apps.train", *training_command(game), "--out", str(tmp_path / "run"), "--no-report", "--quiet"]
    subprocess.run([sys.executable, *words], cwd=ROOT, check=True)
    learned, boards = RunPolicy(game, str(tmp_path / "run")), all_positions(game)
    # the same seed gives the same learner on one machine only, and on another one as good
    kept = make_opponent(game, "net").action_values(boards)
    assert np.nanmean(np.abs(learned.action_values(boards) - kept)) < 0.2


@pytest.mark.parametrize(
    ("number", "names", "rank"),
    [
        (0, ("random", "net"), 18),
        (2, ("table", "optimal"), 3),
        *(pytest.param(number, OPPONENTS, 30, marks=pytest.mark.slow) for number in range(len(GAMES))),
    ],
)
def test_strengths_are_those_of_exact_evaluation(number, names, rank):
    game, said = GAMES[number], parse_numbers(PAGE.read_text("utf-8"))["games"][number]
    assert said["skip"] == game.skip_chance
    assert 0.01 < said["strength"]["net"]["exploitability"] < 0.6  # there is something to be found wrong
    for name in set(names) - {"svd"}:
        check_strength(game, name, rank, said["strength"][name])
    check_strength(game, "svd", rank, {name: numbers[rank] for name, numbers in said["ranks"].items()})


@pytest.mark.parametrize("number", [1, *(pytest.param(n, marks=pytest.mark.slow) for n in range(len(VARIANTS)))])
def test_strengths_by_other_rules_are_those_of_exact_evaluation(number):
    game, said = VARIANTS[number], parse_numbers(PAGE.read_text("utf-8"))["games"][len(GAMES) + number]
    assert (said["skip"], said["rules"]) == (game.skip_chance, ".".join(game.variant_names))
    for name in ANY_RULES:
        check_strength(game, name, 0, said["strength"][name])


def check_strength(game, name, rank, said):
    policy = make_opponent(game, name, rank)
    assert said["exploitability"] == pytest.approx(exploitation(game, policy).exploitability, abs=1e-6)
    result = match_outcome(game, policy, "optimal")
    assert (said["win"], said["draw"], said["loss"]) == pytest.approx(result, abs=1e-6)
    if name == "svd":
        compressed = policy.evaluation
        wanted = compressed.relative_error, compressed.compression_ratio
        assert (said["error"], said["compression_ratio"]) == pytest.approx(wanted, abs=1e-6)


@pytest.mark.slow
def test_the_page_is_reproducible_and_the_published_one():
    made = build_page(numbers())
    assert build_page(numbers()) == made
    inside, now = parse_numbers(PAGE.read_text("utf-8")), parse_numbers(made)
    assert build_page(now | {"games": []}) == build_page(inside | {"games": []})
    for old, new in zip(inside["games"], now["games"], strict=True):
        assert old.keys() == new.keys()
        for name in old.keys() - {"svd", "ranks", "strength"}:
            assert old[name] == new[name]
        # the last bits of a float are those of a machine's arithmetic
        for before, after in zip(old.get("svd", ()), new.get("svd", ()), strict=True):
            before, after = (floats(half).reshape(81, MAX_RANK) for half in (before, after))
            np.testing.assert_allclose(before @ before.T, after @ after.T, atol=1e-4)
        for name in old["strength"]:
            assert new["strength"][name] == pytest.approx(old["strength"][name], abs=1e-5)
        for name in old.get("ranks", ()):
            np.testing.assert_allclose(old["ranks"][name], new["ranks"][name], atol=1e-5)


def floats(text):
    return np.frombuffer(base64.b64decode(text), "<f4").astype(np.float64)


# ---------------------------------------------------------------------------------------------------------------------
# The page's numbers are Python's


ANSWERS = """({board, rules, skip, against, rank, step}) => {
    // an opponent's numbers for unfinished positions of a game, by key, o's turn before x's; and the outcomes of moves
    const game = exact.read(JSON.parse(document.getElementById("numbers").textContent)).game(board, rules, skip)
    const places = [...game.seen.keys()].filter((place) => game.seen[place]).filter((_, number) => number % step === 0)
    const positions = places.map((place) => ({cells: game.rules.cellsOf(place >> 1), mover: place & 1}))
    const asked = positions.map((position) => exact.ask(game, against, rank, position))
    const outcomeOf = (position, cell) => exact.play(game, position, cell, 0).outcome ?? 3
    const outcomes = positions.map((position) => {
        const free = game.rules.legal(position.cells)
        return position.cells.map((_, cell) => (free.includes(cell) ? outcomeOf(position, cell) : -1))
    })
    const pack = (rows) => {
        const bytes = new Uint8Array(Float32Array.from(rows.flat()).buffer)
        return btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""))
    }
    return {
        positions: positions.map((position) => ttt.toText({columns: game.rules.columns, ...position})),
        values: pack(asked.map(({values}) => values ?? [])),
        probabilities: pack(asked.map(({probabilities}) => probabilities)),
        outcomes: pack(outcomes),
    }
}"""
"""Float32 in base64; no values of random."""


def check_answers(page, game, name, rank=0, step=1, policy=None):
    """An opponent's numbers on the page, and the outcomes of all moves there, are those of Python."""
    boards, policy = reached(game), policy or make_opponent(game, name, rank)
    boards = boards.take(np.arange(0, len(boards.mover), step))
    board = next(one for one, shape in PLAY_BOARDS.items() if (shape.rows, shape.columns) == (game.rows, game.columns))
    asked = {"board": board, "rules": game.variant_names, "skip": PLAY_SKIPS.index(game.skip_chance), "against": name}
    said = page.evaluate(ANSWERS, asked | {"rank": rank, "step": step})
    texts = [to_text(boards.position(row), game) for row in range(len(boards.mover))]
    if not game.gravity:
        assert said["positions"] == texts
    # keys of boards with gravity are others, and so is their order
    there = Boards.from_positions([from_text(text, game) for text in said["positions"]])
    assert step > 1 or sorted(said["positions"]) == sorted(texts)
    shape = (len(there.mover), game.cells)
    np.testing.assert_allclose(floats(said["probabilities"]).reshape(shape), policy.probabilities(there), atol=1e-4)
    if name == "random":
        assert said["values"] == ""
    else:
        values = policy.action_values(there)
        np.testing.assert_allclose(floats(said["values"]).reshape(shape), values, atol=3e-6, equal_nan=True)
    outcomes = np.full(shape, -1)
    rows, cells = np.nonzero(there.legal(game))
    after = play_moves(game, there, rows, cells)[1]
    outcomes[rows, cells] = np.where(after == NOT_OVER, 3, after)
    np.testing.assert_array_equal(floats(said["outcomes"]).reshape(shape), outcomes)


@cache
def reached(game):
    """All positions of a game that are not over."""
    return all_positions(game)


@in_browser
@pytest.mark.parametrize("name", OPPONENTS)
@pytest.mark.parametrize("step", [23, pytest.param(1, marks=pytest.mark.slow)])
def test_opponents_have_the_probabilities_and_values_of_python(visit, name, step):
    page = visit()
    for number in range(len(GAMES)) if step == 1 else (0, 2):
        check_answers(page, GAMES[number], name, 18, step)


def cases():
    """All rules on two boards, with and without skips; in the quick form each rule once, and some together."""
    quick = {
        "3x3-3-gravity",
        "3x3-3-misere",
        "3x3-3-torus",
        "3x4-3-no-overlines-torus",
        "3x3-3-gravity-misere-torus-skip0.25",
    }
    for base in (Game(), Game(skip_chance=0.25), Game(3, 4, 3), Game(3, 4, 3, 0.5)):
        for values in product((False, True), repeat=len(RULES)):
            game = replace(base, **dict(zip(RULES, values, strict=True)))
            if game.variants:
                yield pytest.param(game, id=game.slug, marks=[] if game.slug in quick else [pytest.mark.slow])


@in_browser
@pytest.mark.parametrize("game", [*cases()])
def test_games_of_all_rules_have_the_moves_lines_values_and_opponents_of_python(visit, game):
    """Every position, or of 3 x 4 one of 97; values of the solver, and the probabilities of the opponents."""
    step = 1 if game.cells == 9 else 97
    page = visit()
    for name in ANY_RULES:
        check_answers(page, game, name, step=step)


@in_browser
@pytest.mark.parametrize("skip", [0.0, pytest.param(0.25, marks=pytest.mark.slow)])
def test_four_by_four_with_gravity_has_the_values_of_python(visit, skip):
    game = Game(4, 4, 4, skip, gravity=True)
    page = visit()
    exact = solve(game, cache=False) if skip else SearchedSolution(game, memory=1 << 22)
    check_answers(page, game, "random", step=997)
    asked = {"board": "4x4", "rules": ["gravity"], "skip": PLAY_SKIPS.index(skip), "against": "optimal", "step": 997}
    said = page.evaluate(ANSWERS, asked)
    there = Boards.from_positions([from_text(text, game) for text in said["positions"]])
    values = exact.action_values(there)
    np.testing.assert_allclose(floats(said["values"]).reshape(values.shape), values, atol=3e-6, equal_nan=True)


@in_browser
@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(GAMES)))
def test_the_compressed_table_is_that_of_python_at_every_rank(visit, number):
    page = visit()
    for rank in range(MAX_RANK + 1):
        check_answers(page, GAMES[number], "svd", rank)


@in_browser
def test_random_numbers_are_those_of_an_episode(visit):
    page = visit()
    for seed in (0, 7, 999_999):
        for stream in (STREAM_SKIP, STREAM_OPPONENT):
            wanted = [uniform(episode_key(seed), stream, ply) for ply in range(9)]
            asked = "([seed, stream]) => [0, 1, 2, 3, 4, 5, 6, 7, 8].map(n => exact.uniform(seed, stream, n))"
            assert page.evaluate(asked, [seed, stream]) == wanted


# ---------------------------------------------------------------------------------------------------------------------
# How it is played


@in_browser
def test_a_game_by_mouse(visit):
    page = visit("#against=random&skip=0&you=o&seed=3")
    assert page.locator("#status").inner_text() == "Your turn: you are o."
    for cell in range(9):
        if board(page).replace("/", "")[cell] == "." and page.locator("#new.first").count() == 0:
            page.locator(f'#board [data-cell="{cell}"]').click()
            wait(page)
    assert page.locator("#status").inner_text() in ("You win!", "A draw.", "Random wins.")
    ended = board(page)
    page.locator(f'#board [data-cell="{max(0, ended.replace("/", "").find("."))}"]').click(force=True)
    wait(page)
    assert board(page) == ended  # nobody moves any more
    page.get_by_role("button", name="New game").click()
    assert board(page) == ".../.../..."
    assert page.locator("#seed").input_value() == "4"


@in_browser
def test_a_game_by_keyboard(visit):
    page = visit("#against=optimal&skip=0.25&you=x&seed=11")
    wait(page)
    assert board(page).count("o") >= 1  # it has begun
    page.get_by_role("link", name="To the board").focus()
    page.keyboard.press("Enter")
    for row in range(3):
        for column in range(3):
            for key in ("PageUp", "Home", *["ArrowDown"] * row, *["ArrowRight"] * column, "Enter"):
                page.keyboard.press(key)
            wait(page)
    assert page.locator("#new.first").count() == 1
    assert page.locator("#status").inner_text() in ("You win!", "A draw.", "Perfect play wins.")


@in_browser
def test_a_skip_is_announced_and_keeps_the_turn(visit):
    game = GAMES[3]
    seed = next(seed for seed in range(100) if uniform(episode_key(seed), STREAM_SKIP, 0) < game.skip_chance)
    page = visit(f"#against=table&skip=0.5&you=o&seed={seed}")
    page.locator('#board [data-cell="4"]').click()
    assert page.locator("#skip-said").inner_text() == "x was skipped: you move again."
    assert page.locator("#status").inner_text() == "Your turn: you are o."
    assert page.locator("#moves li").all_inner_texts() == ["o b2", "x skipped"]
    wait(page)
    assert board(page) == ".../.o./..."


@in_browser
@pytest.mark.parametrize("number", [0, 3])
def test_a_game_has_the_skips_of_an_episode_with_its_key(visit, number):
    game = GAMES[number]
    for seed in (1, 2, 3):
        live = LiveGame(game, np.uint64(seed), 0)
        wanted = []
        for cell in (4, 1, 0, 5, 8, 2, 3, 6, 7):
            if live.outcome is None:
                mover = live.mover
                skipped = live.move(cell).skipped
                wanted += [f"{MOVERS[mover]} {coordinate(cell, game)}", *[f"{MOVERS[1 - mover]} skipped"] * skipped]
        moves = "".join(word[2:] for word in wanted if "skipped" not in word)
        page = visit(f"#against=table&skip={game.skip_chance:g}&you=o&seed={seed}&moves={moves}")
        assert [text.split(" \u2212")[0] for text in page.locator("#moves li").all_inner_texts()] == wanted
        assert page.locator("#new.first").count() == 1  # it is over there, too


@in_browser
def test_the_reply_follows_from_the_key_also_after_undo(visit):
    for seed in (1, 2, 3):
        page = visit(f"#against=table&skip=0&you=o&seed={seed}")
        assert page.locator("#undo").is_disabled()
        boards = Boards.from_positions([from_text("o../.../... x")])
        share = uniform(episode_key(seed), STREAM_OPPONENT, 1)
        reply = sample(make_opponent(GAMES[0], "table").probabilities(boards), np.array([share]))[0]
        for _ in range(2):
            page.locator('#board [data-cell="0"]').click()
            wait(page)
            assert board(page).replace("/", "") == "".join(
                "o" if i == 0 else "x" if i == reply else "." for i in range(9)
            )
            page.get_by_role("button", name="Undo").click()
            assert board(page) == ".../.../..."


@in_browser
def test_seats_can_be_switched_and_the_opponent_can_wait(visit):
    page = visit("#against=table&skip=0&you=o&seed=5")
    page.get_by_label("Stop before the opponent moves").check()
    page.get_by_role("button", name="Switch seats").click()
    wait(page)
    assert board(page) == ".../.../..."
    assert page.locator("#status").inner_text() == "The table\u2019s turn: it is o."
    page.get_by_role("button", name="Let it move").click()
    assert board(page).count("o") == 1
    assert page.locator("#status").inner_text() == "Your turn: you are x."


@in_browser
def test_a_copied_link_restores_the_game(visit):
    page = visit("#against=svd&rank=7&skip=0.1&you=x&seed=12")
    wait(page)
    page.locator("#board .free").first.click()
    wait(page)
    link, position, moves = page.evaluate("location.hash"), board(page), page.locator("#moves").inner_text()
    visit()
    again = visit(link)
    assert board(again) == position
    assert again.locator("#moves").inner_text() == moves
    assert again.locator("#rank-now").inner_text() == "7"
    again.get_by_role("button", name="Copy link").click()
    again.locator("#link-said", has_text="the link opens this game").wait_for()
    own = visit.tab()
    own.goto(again.locator("#link-text").input_value())
    assert board(own) == position
    assert own.evaluate("location.hash") == link
    own.context.close()


@in_browser
def test_a_link_may_name_a_position(visit):
    page = visit("#against=optimal&skip=0&you=o&position=oo./xx./..._o")
    assert board(page) == "oo./xx./..."
    assert page.locator("#truth .best").evaluate_all("all => all.map(cell => cell.dataset.cell)") == ["2"]
    assert "o wins for sure" in page.locator("#value").inner_text()
    page.locator('#board [data-cell="2"]').click()
    assert page.locator("#status").inner_text() == "You win!"


@in_browser
def test_invalid_links_have_a_message_and_change_nothing(visit):
    page = visit("#against=table&skip=0.25&you=o&seed=3")
    for link in (
        "against=nobody",
        "against=toString",
        "skip=0.3",
        "rank=76",
        "rank=1e1",
        "seed=-1",
        "you=z",
        "moves=b2b2",
        "moves=d4",
        "position=ooo/xx./..._x",  # over
        "position=oo./.../..._o&skip=0",  # nobody comes to it without skips
        "position=oo_",
        "board=5x5",
        "board=toString",
        "rules=misere.nothing",
        "rules=misere&against=net",  # which knows the standard rules only
        "moves=a4",
        "board=4x4&moves=a1&skip=0",  # in the air
        "board=4x4&position=o.../..../..../...._x&skip=0",
        "position=%F",
        "&&=",
        "<img src=x onerror=alert(1)>",
    ):
        page.evaluate(FOLLOW, f"#{link}")
        assert "names no game" in page.locator("#link-said").inner_text()
        assert page.evaluate("location.hash") == "#against=table&skip=0.25&you=o&seed=3"
        visit("#against=table&skip=0.25&you=o&seed=3&moves=")
        assert page.locator("#link-said").inner_text() == ""


@in_browser
def test_a_stone_is_dropped_into_a_column_by_mouse_and_by_keyboard(visit):
    page = visit("#against=random&board=4x4&skip=0&you=o&seed=3")
    assert page.locator("#board .cell .value").count() == 0  # random has no values
    page.locator('#board [data-cell="1"]').hover()
    assert page.locator("#board .aim").get_attribute("data-cell") == "13"
    page.locator('#board [data-cell="1"]').click()
    assert board(page, 4) == "..../..../..../.o.."
    wait(page)
    moved = board(page, 4)
    assert moved.count("x") == 1
    page.get_by_role("link", name="To the board").focus()
    page.keyboard.press("Enter")
    for key in ("PageUp", "Home", "ArrowRight"):
        page.keyboard.press(key)
    there = page.evaluate("document.activeElement.getAttribute('aria-label')")
    below = page.locator("#board .aim").get_attribute("aria-label")[:2]
    assert there == f"b1: empty, a stone falls to {below}"
    page.keyboard.press("Enter")
    assert page.locator(f'#board .cell.o[aria-label^="{below}"]').count() == 1


@in_browser
def test_other_rules_are_chosen_with_the_opponents_that_play_by_them(visit):
    page = visit("#against=net&skip=0.25&you=o&seed=5")
    page.get_by_label("mis\u00e8re").check(force=True)
    assert page.evaluate("location.hash") == "#against=table&rules=misere&skip=0.25&you=o&seed=5"
    for name, is_open in (("Learned net", False), ("Compressed table", False), ("Perfect play", True)):
        assert page.get_by_label(name).is_enabled() == is_open
    assert page.locator("#rules-about").inner_text().startswith("3 in a line lose. A player")
    value = solve(Game(skip_chance=0.25, misere=True)).value
    assert f"\u2212{-value:.3f} for o" in page.locator("#strengths-about").inner_text()
    assert page.locator("#table tbody tr").count() == len(ANY_RULES)
    page.locator("#skips").get_by_label("none").check(force=True)
    page.get_by_label("3 \u00d7 4").check(force=True)
    assert page.locator("#board .cell").count() == 12
    assert page.locator("#table").is_hidden()
    page.get_by_label("4 \u00d7 4").check(force=True)
    assert page.locator("[value=gravity]").is_disabled()
    assert page.evaluate("location.hash").startswith("#against=table&board=4x4&rules=gravity.misere&")
    page.get_by_label("3 \u00d7 3").check(force=True)
    assert page.evaluate("location.hash") == "#against=table&rules=misere&skip=0&you=o&seed=5"


@in_browser
def test_the_end_of_a_game_says_who_lost_by_a_line_and_marks_lines_across_the_edges(visit):
    page = visit("#against=random&rules=misere&skip=0&you=x&seed=3&moves=a1b1a2b2a3")
    assert page.locator("#status").inner_text() == "You win! o completed a line."
    labels = page.locator("#board .line").evaluate_all("all => all.map(cell => cell.getAttribute('aria-label'))")
    assert labels == ["a1: o, losing line", "a2: o, losing line", "a3: o, last move, losing line"]
    page = visit("#against=random&rules=torus&skip=0&you=o&seed=3&moves=b1b2c2a2a3")  # a diagonal that leaves at c2
    assert page.locator("#status").inner_text() == "You win!"
    cells = page.locator("#board .line").evaluate_all("all => all.map(cell => cell.dataset.cell)")
    assert cells == ["1", "5", "6"]


@in_browser
@pytest.mark.parametrize(
    ("game", "text"),
    [
        (Game(torus=True, misere=True), "xo./.../... o"),
        (Game(3, 4, 3, 0.25, overlines=False), "oo../x.../.... x"),
        (Game(4, 4, 4, gravity=True), "..../..../x.../o... o"),
    ],
    ids=str,
)
def test_a_board_of_a_report_opens_with_the_rules_of_its_game(visit, game, text):
    position = from_text(text, game)
    page = visit("#" + play_link(game, position).partition("#")[2])
    assert page.locator("#link-said").inner_text() == ""
    assert f"{board(page, game.columns)} {text[-1]}" == text
    shown = [one.replace("\N{MINUS SIGN}", "-") for one in page.locator("#truth .cell").all_inner_texts()]
    exact = SearchedSolution(game, memory=1 << 22) if game.cells > 12 else solve(game)
    values = exact.action_values(Boards.from_positions([position]))[0]
    assert [float(one) if one else np.nan for one in shown] == pytest.approx(values, abs=0.005, nan_ok=True)


@in_browser
def test_the_rank_slider_changes_the_values(visit):
    page = visit("#against=table&skip=0.25&you=o&seed=5")
    assert page.locator("#rank-card").is_hidden()
    page.get_by_label("Compressed table").check(force=True)
    slider = page.get_by_role("slider", name="Rank")
    seen = []
    for rank in (1, 18, 75):
        slider.fill(str(rank))
        error, shown = page.locator("#rank-said strong").all_inner_texts()[1:]
        numbers = parse_numbers(PAGE.read_text())["games"][2]["ranks"]
        assert (error, shown) == (f"{numbers['error'][rank]:.3f}", f"{numbers['exploitability'][rank]:.3f}")
        assert page.locator("tr.now th").inner_text() == f"Compressed table, rank {rank}"
        seen.append(page.locator("#board .value").all_inner_texts())
    page.get_by_label("Table", exact=True).check(force=True)
    assert page.locator("#board .value").all_inner_texts() == seen[2]  # whole at its full rank
    assert seen[0] != seen[1] != seen[2]
    page.get_by_label("Compressed table").check(force=True)
    slider.press("ArrowLeft")
    assert page.locator("#rank-now").inner_text() == "74"
    assert "rank=74" in page.evaluate("location.hash")


@in_browser
def test_the_boards_have_the_values_of_the_opponent_and_of_the_solver(visit):
    page = visit("#against=table&skip=0.25&you=o&seed=5")
    game = GAMES[2]
    start = all_positions(game).take(np.array([0]))
    for place, policy in (("#board", make_opponent(game, "table")), ("#truth", solve(game))):
        shown = [float(text.replace("\u2212", "-")) for text in page.locator(f"{place} .value").all_inner_texts()]
        assert shown == pytest.approx(policy.action_values(start)[0], abs=0.005)
    page.get_by_label("How often it plays there").check(force=True)
    shares = [int(text.rstrip("%")) for text in page.locator("#board .value").all_inner_texts()]
    assert shares == pytest.approx(100 * make_opponent(game, "table").probabilities(start)[0], abs=0.5)
    page.get_by_label("None", exact=True).check(force=True)
    assert page.locator("#board .value").count() == 0
    page.get_by_label("Show the exact values too").uncheck()
    assert page.locator("#truth").is_hidden()


# ---------------------------------------------------------------------------------------------------------------------
# Who can use it


MIDDLE = "#against=svd&rank=18&skip=0.25&you=o&seed=4&moves=b2"
FALLING = "#against=table&board=4x4&rules=gravity.misere&skip=0&you=o&seed=4&moves=b4b3"
END = "#against=random&skip=0&you=o&seed=3&moves=a1a2b1b2c1"


@in_browser
@pytest.mark.parametrize(
    ("link", "width", "scheme"),
    [
        (MIDDLE, 360, "light"),
        (END, 1280, "dark"),
        (FALLING, 360, "dark"),
        *(
            pytest.param(MIDDLE, *case, marks=pytest.mark.slow)
            for case in ((1280, "dark"), (1280, "light"), (360, "dark"))
        ),
    ],
)
def test_the_page_is_accessible_at_any_width(visit, link, width, scheme):
    page = visit(link, width, scheme)
    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert accessibility_faults(page) == []


@in_browser
def test_touch_targets_are_large_enough(visit):
    page = visit.tab(has_touch=True)
    page.set_viewport_size({"width": 360, "height": 800})
    page.goto(PAGE.as_uri() + "#against=svd&skip=0.25&you=o&seed=5")
    page.locator('#board [data-cell="4"]').tap()
    assert board(page) == ".../.o./..."
    heights = page.locator("button:visible, .picks label, input[type=range], .check").evaluate_all(
        "all => all.map(one => one.getBoundingClientRect().height)"
    )
    assert min(heights) >= 44
    page.context.close()


@in_browser
def test_without_scripts_the_page_explains_itself(visit):
    page = visit.tab(java_script_enabled=False)
    page.goto(PAGE.as_uri())
    assert "This page is a game" in page.locator("main").inner_text()
    assert page.locator("#choices").is_hidden()
    page.context.close()
