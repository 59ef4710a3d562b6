"""The explorer's page in a browser. Its responses, and many visitors at once: test_explorer.py."""

import shlex

import numpy as np
import pytest
from explorers import serve
from pages import IN_BROWSER, accessibility_faults, open_pages

from baselines.compression import decomposition
from baselines.exact import SearchedSolution, solve
from baselines.tables import Softmax
from ttt_envs import Game
from ttt_envs.game.boards import Boards, cell_at, from_text
from ttt_envs.game.game import VARIANTS
from ttt_eval.reports.links import explorer_command

pytestmark = [pytest.mark.needs("fastapi", "uvicorn", "httpx"), *IN_BROWSER]
SKIPS = Game(skip_chance=0.25)


@pytest.fixture(scope="module")
def address():
    with serve(warm=True) as port:
        yield f"http://127.0.0.1:{port}"


@pytest.fixture
def page(browser, address):
    with open_pages(browser, ignored=["status of 400"]) as open_new:  # what is refused says why on the page
        yield open_new("about:blank", own=f"{address}/")


def open_page(page, address, link=""):
    """Open the page of a link and wait for its board."""
    page.goto("about:blank")
    page.goto(f"{address}/#{link}")
    page.wait_for_selector("#board[aria-busy=false] .cell")
    return page


def cell(page, name, where="#board"):
    return page.locator(f'{where} .cell[aria-label^="{name}:"]')


def panel_values(page, kind):
    """The numbers of a panel, after the last request."""
    page.wait_for_selector(f"#panel-{kind}[aria-busy=false] .cell")
    texts = page.locator(f"#panel-{kind} .cell").all_inner_texts()
    return [float(text.replace("\N{MINUS SIGN}", "-")) if text else None for text in texts]


def to_three(values):
    return [None if np.isnan(value) else pytest.approx(value, abs=5.001e-4) for value in values]


def test_a_game_by_mouse(page, address):
    open_page(page, address, "x=you&seed=1")
    for name in ("b2", "a1", "c1", "a3", "a2", "c2", "b1", "b3", "c3"):
        cell(page, name).click()
        page.wait_for_selector(f'#board[aria-busy=false] .cell.last[aria-label^="{name}"]')
    wait_for_text(page, "A draw")
    assert page.locator("#moves button").count() == 9
    page.click("#undo")
    wait_for_text(page, "o to move")


def test_a_game_by_keyboard_against_a_policy(page, address):
    """Arrow keys, Enter and the space bar; the policy answers until the game is over."""
    open_page(page, address, "x=optimal&seed=5")
    cell(page, "b2").focus()
    around = ("ArrowUp", "ArrowLeft", "ArrowDown", "ArrowDown", "ArrowRight", "ArrowRight", "ArrowUp", "ArrowUp")
    for number in range(16):
        here = page.evaluate("[document.activeElement.getAttribute('aria-label'), document.activeElement.className]")
        if "free" in here[1]:
            page.keyboard.press(("Enter", " ")[number % 2])
            page.wait_for_selector(f'#board[aria-busy=false] .cell.o[aria-label^="{here[0][:3]}"]')
            if "to move" not in wait_for_status(page):
                break
        page.keyboard.press(around[number % 8])
    assert page.inner_text("#status") in ("A draw", "x has won")
    assert page.locator("#board .cell.x").count() >= 3


def wait_for_text(page, status):
    """Wait for a status: stones stand on the board before the server's answer."""
    page.wait_for_selector(f'#status:has-text("{status}")')


def wait_for_status(page):
    """The status at a person's turn or at the end, after the policy's move."""
    page.wait_for_selector('#status:not(:has-text("optimal"))')
    return page.inner_text("#status")


@pytest.mark.slow
def test_the_winning_line_is_marked_and_named(page, address):
    open_page(page, address, "x=you&moves=a1.a2.b1.b2.c1")
    page.wait_for_selector("#board .cell.line")
    assert [one.get_attribute("aria-label") for one in page.locator("#board .cell.line").all()] == [
        "a1: o, winning line",
        "b1: o, winning line",
        "c1: o, last move, winning line",
    ]
    wait_for_text(page, "o has won")


def test_the_rank_slider_shows_the_table_at_that_rank(page, address):
    open_page(page, address, "skip=0.25&x=you&moves=b2.a1&rank=18")
    boards = Boards.from_positions([from_text("x../.o./... o")])
    whole = decomposition(SKIPS, "svd")
    expected = {rank: Softmax(whole.at(rank)).action_values(boards)[0] for rank in (18, 3)}
    assert panel_values(page, "compressed") == to_three(expected[18])
    with page.expect_response("**/api/values"):
        page.fill("#rank", "3")
    page.wait_for_selector('label[for=rank]:has-text("3 of")')
    assert panel_values(page, "compressed") == to_three(expected[3])
    assert "rank=3" in page.url


def test_a_link_restores_a_position_and_its_panels(page, address):
    open_page(page, address, "skip=0.25&x=you&moves=b2.a1%2B.c3.b1&at=3&panels=exact.search&depth=2")
    position = "x../.o./..x o"
    exact = solve(SKIPS).action_values(Boards.from_positions([from_text(position)]))[0]
    assert panel_values(page, "exact") == to_three(exact)
    assert page.input_value("#position") == position
    assert page.locator("#maps .card:visible").count() == 2
    assert page.input_value("#depth") == "2"
    assert page.inner_text("label[for=at] output") == "3 of 4"
    best = [one.get_attribute("aria-label") for one in page.locator("#panel-exact .cell.best").all()]
    assert best
    assert all("best move" in name and "value +0.177" in name for name in best)
    there = page.url
    cell(page, "c1").click()
    page.wait_for_selector('#board[aria-busy=false] .cell.last[aria-label^="c1"]')
    page.wait_for_url(lambda url: url != there)
    open_page(page, address, there.partition("#")[2])
    assert page.input_value("#position") == position


@pytest.mark.slow
def test_two_policies_play_step_by_step_and_continuously(page, address):
    open_page(page, address, "o=random&x=optimal&seed=4")
    page.fill("#speed", "8")
    assert page.locator("#moves button").count() == 0
    page.click("#step")
    page.wait_for_selector("#moves li:nth-child(1)")
    page.click("#run")
    page.wait_for_selector("#moves li:nth-child(5)")
    page.wait_for_selector("#run[aria-pressed=false]")
    assert page.inner_text("#status") in ("A draw", "x has won")


@pytest.mark.slow
def test_the_board_size_can_be_changed(page, address):
    open_page(page, address)
    page.fill("#rows", "4")
    page.press("#rows", "Tab")
    page.wait_for_selector("#board .cell >> nth=11")
    page.fill("#columns", "6")
    page.press("#columns", "Tab")
    page.wait_for_selector("#board .cell >> nth=23")
    page.wait_for_selector("#panel-search[aria-busy=false] .cell")
    assert not page.is_visible("#panel-exact")
    assert "x=mcts:simulations=2000" in page.url
    assert not page.is_visible("#trouble")


@pytest.mark.slow
def test_an_invalid_link_has_an_error_message(browser, address):
    page = browser.new_page()
    page.goto(f"{address}/#moves=b2.b2")
    page.wait_for_selector("#trouble:visible")
    assert page.inner_text("#trouble") == "Move 2, b2, is illegal: the cell holds a stone."
    page.click("#new")
    page.wait_for_selector("#board .cell")
    assert not page.is_visible("#trouble")
    page.close()


@pytest.mark.parametrize(
    ("shape", "width", "scheme"),
    [
        ("square", 360, "dark"),
        ("square", 1280, "light"),
        ("falling", 390, "dark"),
        pytest.param("square", 360, "light", marks=pytest.mark.slow),
        pytest.param("square", 1280, "dark", marks=pytest.mark.slow),
        pytest.param("square", 320, "light", marks=pytest.mark.slow),
        pytest.param("square", 768, "dark", marks=pytest.mark.slow),
        pytest.param("falling", 1280, "light", marks=pytest.mark.slow),
    ],
)
def test_the_page_is_accessible_at_any_width(browser, address, shape, width, scheme):
    """axe finds nothing serious, the page needs no scrolling aside, and targets are large enough."""
    context = browser.new_context(
        viewport={"width": width, "height": 800}, color_scheme=scheme, reduced_motion="reduce", bypass_csp=True
    )
    link, panel = {
        "square": ("skip=0.25&x=you&moves=b2.a1%2B.c3", "mcts"),
        "falling": ("rows=6&columns=7&gravity=true&o=you&x=you&moves=d6.d5.d4", "search"),
    }[shape]
    page = open_page(context.new_page(), address, link)
    page.wait_for_selector(f"#panel-{panel}[aria-busy=false] .cell")
    page.locator("#setup").evaluate("one => one.open = true")
    if shape == "falling":
        cell(page, "d1").focus()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    if width not in (320, 768):
        assert accessibility_faults(page) == []
    small = page.evaluate(
        """() => [...document.querySelectorAll("#board .cell, button, select, input, .check, summary")]
            .filter((one) => one.type !== "checkbox") // whose label is the target
            .filter((one) => one.checkVisibility() && one.getBoundingClientRect().height < 43.5)
            .map((one) => one.outerHTML)"""
    )
    assert small == []
    context.close()


def test_play_mode_shows_no_values_until_the_game_is_over(page, address):
    """Hints mark a best move; the summary at the end names the worst."""
    open_page(page, address, "o=you&x=you&moves=b2.b1&mode=play&seed=1")
    page.wait_for_selector('#status:has-text("o to move")')
    assert not page.is_visible("#views")
    assert not page.is_visible("#bar")
    assert page.locator("#board .value, #moves small").count() == 0
    page.click("#hint")
    hinted = page.wait_for_selector("#board .cell.hint").get_attribute("aria-label")[:2]
    wait_for_text(page, f"o to move. Hint: {hinted}, by perfect play")
    best = solve(Game()).optimal_actions(Boards.from_positions([from_text(".x./.o./... o")]))[0]
    assert best[cell_at(hinted, Game())]
    for name in ("a1", "c3", "a2", "a3", "c2"):
        cell(page, name).click()
        page.wait_for_selector(f'#board[aria-busy=false] .cell.last[aria-label^="{name}"]')
    wait_for_text(page, "o has won")
    page.wait_for_selector("#summary table")
    assert "o\t4\t" in page.inner_text("#summary")
    page.click("#to-worst")
    assert page.inner_text("#at-shown") == "1 of 7"
    page.click("#undo")
    assert page.locator("#moves small").count() == 0


def test_values_stand_on_the_board_that_is_played_on(page, address):
    open_page(page, address, "skip=0.25&o=you&x=you&moves=b2.a1")
    page.wait_for_selector("#board .value")
    exact = solve(SKIPS).action_values(Boards.from_positions([from_text("x../.o./... o")]))[0]
    texts = page.locator("#board .cell").all_inner_texts()
    shown = [float(text.replace("\N{MINUS SIGN}", "-")) if text else None for text in texts]
    assert shown == to_three(exact)
    assert page.inner_text("#bar-text") == f"+{np.nanmax(exact):.3f} for o, by perfect play"
    page.wait_for_selector("#panel-mcts[aria-busy=false] .cell")
    page.click("#panel-mcts .on-board")
    assert page.inner_text("#source") == "Numbers: tree search, for o."
    assert page.locator("#board .cell").all_inner_texts() == page.locator("#panel-mcts .cell").all_inner_texts()
    page.select_option("#show", "none")
    assert page.locator("#board .value").count() == 0
    assert not page.is_visible("#bar")
    assert "show=none" in page.url


def test_keys_go_through_the_game(page, address):
    """Also after a click on the board, where the keys otherwise move the focus."""
    open_page(page, address, "o=you&x=you&moves=b2.a1.c1")
    page.wait_for_selector("#moves button >> nth=2")
    at = page.locator("#at-shown")
    for key, shown in (("ArrowLeft", 2), ("Home", 0), ("ArrowLeft", 0), ("ArrowRight", 1), ("End", 3)):
        page.keyboard.press(key)
        assert at.inner_text() == f"{shown} of 3"
    cell(page, "a3").click()
    page.wait_for_selector('#board[aria-busy=false] .cell.last[aria-label^="a3"]')
    page.keyboard.press("ArrowLeft")
    assert at.inner_text() == "3 of 4"


def test_another_size_asks_before_it_throws_a_game_away_and_says_what_it_replaces(page, address):
    open_page(page, address, "moves=b2.a1&o=you")
    page.wait_for_selector("#moves button >> nth=1")
    for answer, cells in (("no", 9), ("yes", 45)):
        page.fill("#columns", "19")
        page.press("#columns", "Tab")
        page.wait_for_selector("#ask[open]")
        assert page.inner_text("#ask-text").endswith("The game of 2 moves is thrown away.")
        page.click(f"#ask button[value={answer}]")
        page.wait_for_selector(f"#board .cell >> nth={cells - 1}")
        assert page.locator("#board .cell").count() == cells
        assert page.input_value("#columns") == str(cells // 3)
    assert page.inner_text("#notice") == (
        "Boards have 1 to 15 columns: 19 is replaced by 15. "
        "Optimal needs a board of at most 12 cells: mcts:simulations=2000 plays x."
    )
    page.wait_for_selector("#panel-mcts[aria-busy=false] .lines")
    page.wait_for_selector("#chip-compressed:disabled")
    assert "a compressed table (up to 12 cells)" in page.inner_text("#why")


def test_a_link_with_unknown_keys_is_shown_and_the_known_ones_are_named(page, address):
    open_page(page, address, "foo=1&moves=b2&o=you&x=you&rows=three&panels=exact.nothing")
    page.wait_for_selector("#notice:visible")
    notice = page.inner_text("#notice")
    assert 'The link has "foo", which the explorer does not know: its keys are rows, columns, win,' in notice
    assert "Rows=three in the link is no number: rows is 3." in notice
    assert 'There is no panel "nothing": panels are exact,' in notice
    assert page.locator("#moves button").count() == 1


def test_a_link_with_a_size_alone_has_the_win_length_of_the_size(page, address):
    for link, win in (("rows=5&columns=5", "4"), ("rows=3&columns=7", "3"), ("rows=5&columns=5&win=3", "3")):
        open_page(page, address, f"{link}&show=none&panels=&x=you")
        assert page.input_value("#win") == win
        assert ("win=" in page.url) == ("win=" in link)
    for link, win in (("rows=5&columns=7", "5"), ("rows=5&columns=7&win=3", "3")):  # a length that was chosen stays
        open_page(page, address, f"{link}&show=none&panels=&x=you")
        page.fill("#rows", "7")
        page.dispatch_event("#rows", "change")
        page.wait_for_selector("#board[aria-busy=false] .cell >> nth=48")
        assert page.input_value("#win") == win


def test_the_played_board_is_the_largest_and_larger_games_are_reviewed(page, address):
    open_page(page, address, "rows=1&columns=13&skip=0.25&o=you&x=you&moves=g1.a1")
    page.wait_for_selector("#moves small >> nth=1")
    assert page.inner_text("#bar-text").endswith("by perfect play")
    open_page(page, address, "rows=5&columns=5&win=4&o=you&x=you&moves=c3.b2")
    page.wait_for_selector("#panel-search[aria-busy=false] .cell")
    width = "one => one.getBoundingClientRect().width"
    played, panel = (page.locator(f"{where} .cell").first.evaluate(width) for where in ("#board", "#panel-search"))
    assert played > panel
    assert page.locator("#board .value").first.evaluate("one => parseFloat(getComputedStyle(one).fontSize)") > 11
    page.wait_for_selector("#panel-prove[aria-busy=false] .cell")
    assert {text for text in page.locator("#panel-prove .cell").all_inner_texts() if text} == {"draw"}


# ---------------------------------------------------------------------------------------------------------------------
# Other rules


def test_stones_are_dropped_into_columns_by_mouse_and_by_keyboard(page, address):
    """Any cell of a column stands for it; the page shows where the stone comes to rest."""
    game = Game(4, 4, 4, gravity=True)
    open_page(page, address, "rows=4&columns=4&gravity=true&o=you&x=you&seed=1")
    wait_for_text(page, "o to move")
    assert page.is_checked("#gravity")
    cell(page, "b1").hover()
    assert page.locator("#board .aim").get_attribute("aria-label").startswith("b4: ")
    cell(page, "b1").click()
    page.wait_for_selector('#board[aria-busy=false] .cell.o.last[aria-label^="b4"]')
    wait_for_text(page, "x to move")
    page.keyboard.press("Tab")  # after a click, arrow keys go through the game
    cell(page, "c2").focus()
    page.keyboard.press("ArrowLeft")
    label = page.evaluate("document.activeElement.getAttribute('aria-label')")
    assert label == "b2: empty, a stone falls to b3"
    assert page.locator("#board .aim").get_attribute("aria-label").startswith("b3: ")
    page.keyboard.press("Enter")
    page.wait_for_selector('#board[aria-busy=false] .cell.x.last[aria-label^="b3"]')
    cell(page, "b4").click()  # a stone of the column stands for it too
    page.wait_for_selector('#board[aria-busy=false] .cell.o.last[aria-label^="b2"]')
    assert page.locator("#moves button").nth(2).get_attribute("aria-label").startswith("move 3: o b2")
    exact = SearchedSolution(game, memory=1 << 22).action_values(
        Boards.from_positions([from_text("..../.o../.x../.o.. x")])
    )[0]
    assert panel_values(page, "exact") == to_three(exact)
    page.click("#hint")
    hinted = page.wait_for_selector("#board .cell.hint").get_attribute("aria-label")[:2]
    assert exact[cell_at(hinted, game)] == np.nanmax(exact)
    assert "random play, a compressed table (up to 12 cells)" in page.inner_text("#why")
    there = page.url.partition("#")[2]
    assert "rows=4&columns=4&gravity=true&moves=b4.b3.b2" in there
    open_page(page, address, there)
    assert page.input_value("#position") == "..../.o../.x../.o.. x"


def test_a_falling_stone_is_animated_unless_motion_is_reduced(browser, address):
    for motion, names in (("no-preference", ["fall"]), ("reduce", [])):
        context = browser.new_context(reduced_motion=motion)
        page = open_page(context.new_page(), address, "rows=4&columns=4&gravity=true&o=you&x=you&panels=&seed=1")
        wait_for_text(page, "o to move")
        page.evaluate(
            """() => {
                window.seen = []
                const board = document.getElementById("board")
                board.addEventListener("animationstart", (event) => window.seen.push(event.animationName))
            }"""
        )
        cell(page, "c1").click()
        page.wait_for_selector('#board[aria-busy=false] .cell.o.last[aria-label^="c4"]')
        page.wait_for_timeout(100)
        assert page.evaluate("window.seen") == names
        context.close()


def test_rules_are_chosen_and_a_line_that_loses_is_marked(page, address):
    open_page(page, address, "skip=0.25&o=you&x=you&seed=1&moves=b2.a1%2B")
    page.wait_for_selector("#moves button >> nth=1")
    page.check("#misere")
    page.wait_for_selector("#ask[open]")
    assert page.inner_text("#ask-text").startswith("Other rules begin another game.")
    page.click("#ask button[value=no]")
    page.wait_for_function("!document.getElementById('misere').checked")
    page.check("#misere")
    page.click("#ask button[value=yes]")
    wait_for_text(page, "o to move")
    assert "misere=true" in page.url
    assert page.inner_text("#setup-title").startswith("3 \u00d7 3, 3 in a line lose, 25% skips")
    assert "proofs (only by the standard rules, or with gravity alone)" in page.inner_text("#why")
    open_page(page, address, "misere=true&o=you&x=you&moves=a1.b1.a2.b2.a3")
    wait_for_text(page, "x has won: o completed a line")
    page.wait_for_selector("#summary table")
    lines = page.locator("#board .cell.line").evaluate_all("all => all.map(one => one.getAttribute('aria-label'))")
    assert lines == ["a1: o, losing line", "a2: o, losing line", "a3: o, last move, losing line"]
    open_page(page, address, "torus=true&o=you&x=you&moves=b1.b2.c2.a2.a3")
    wait_for_text(page, "o has won")
    lines = page.locator("#board .cell.line").evaluate_all("all => all.map(one => one.getAttribute('aria-label'))")
    assert lines == ["b1: o, winning line", "c2: o, winning line", "a3: o, last move, winning line"]


def test_the_first_mover_may_be_drawn(page, address):
    open_page(page, address, "first=random&opening=.../.../..._x&o=you&x=you&panels=exact".replace("_", "%20"))
    wait_for_text(page, "x to move")
    assert page.is_checked("#first")
    exact = solve(Game()).action_values(Boards.start(Game()))[0]
    assert panel_values(page, "exact") == to_three(exact)
    cell(page, "b2").click()
    page.wait_for_selector('#board[aria-busy=false] .cell.x.last[aria-label^="b2"]')
    wait_for_text(page, "o to move")
    page.evaluate("Math.random = () => 0.9")
    page.click("#new")
    wait_for_text(page, "o to move")
    page.evaluate("Math.random = () => 0.1")
    page.click("#new")
    wait_for_text(page, "x to move")
    page.uncheck("#first")
    wait_for_text(page, "o to move")
    assert "first=" not in page.url
    open_page(page, address, "first=x")
    page.wait_for_selector("#notice:visible")
    assert page.inner_text("#notice") == "First=x in the link is not known: choose o, random."


def test_a_link_with_a_wrong_rule_says_so_and_a_report_opens_with_its_rules(page, address):
    open_page(page, address, "gravity=yes&misere=true&o=you&x=you")
    page.wait_for_selector("#notice:visible")
    assert page.inner_text("#notice") == "Gravity=yes in the link is not known: choose true or false."
    assert [rule for rule in VARIANTS if page.is_checked(f"#{rule}")] == ["overlines", "misere"]
    game = Game(4, 5, 3, 0.25, gravity=True, overlines=False)
    [*_, link] = shlex.split(explorer_command(game, from_text("...../...../...../..o.. x", game)))
    open_page(page, address, link)
    wait_for_text(page, "x to move")
    assert page.input_value("#position") == "...../...../...../..o.. x"
    assert [rule for rule in VARIANTS if page.is_checked(f"#{rule}")] == ["gravity"]
    assert not page.is_visible("#notice")
