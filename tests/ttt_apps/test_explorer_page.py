"""The page of the explorer in a browser, served and without a server. What a server answers:
test_explorer.py.
"""

import shlex

import numpy as np
import plain
import pytest
from documents import ROOT
from explorers import run_explorer, serve
from pages import IN_BROWSER, accessibility_faults, open_pages
from small_games import SKIP_GAME
from tiny import train_run

from baselines.compression import decomposition
from baselines.exact import solve
from baselines.tables import Softmax
from ttt_envs import Game
from ttt_envs.game.boards import cell_at, from_text
from ttt_envs.game.game import VARIANTS
from ttt_eval.reports.formats import explorer_command

pytestmark = [pytest.mark.more, pytest.mark.needs("fastapi", "uvicorn", "httpx"), *IN_BROWSER]
WITHOUT = (ROOT / "docs" / "play" / "index.html").as_uri()
EVERYWHERE = pytest.mark.parametrize("where", ["file", "server"])


@pytest.fixture(scope="module")
def address():
    with serve(warm=True) as port:
        yield f"http://127.0.0.1:{port}/"


@pytest.fixture
def open_page(browser, address):
    """Opens the page of a link, served, from its file or at an address, when it has drawn what it
    knows of the game.
    """
    with open_pages(
        browser, ignored=["status of 400"]
    ) as open_new:  # what is refused says why on the page

        def open_page(link="", where="server", **settings):
            base = {"server": address, "file": WITHOUT}.get(where, where)
            page = open_new(f"{base}#{link}", own=base, **settings)
            page.wait_for_selector("#board[aria-busy=false] .cell")
            page.locator("#setup").evaluate("part => part.open = true")
            return page

        yield open_page


def cell(page, name, where="#board"):
    return page.locator(f'{where} .cell[aria-label^="{name}:"]')


def play(page, *names):
    for name in names:
        cell(page, name).click()
        page.wait_for_selector(f'#board[aria-busy=false] .cell.last[aria-label^="{name}"]')


def panel_values(page, where):
    """The numbers of a board."""
    page.wait_for_selector(f"{where} .value")
    texts = page.locator(f"{where} .cell").all_inner_texts()
    return [float(text.replace("\N{MINUS SIGN}", "-")) if text else None for text in texts]


def values_of(solution, text):
    """Values of moves to three places, as a page has them."""
    values = solution.action_values(plain.from_texts(text))[0]
    return [None if np.isnan(value) else pytest.approx(value, abs=5.001e-4) for value in values]


def wait_for_text(page, words, where="#status"):
    page.wait_for_selector(f'{where}:has-text("{words}")')


def offered_values(page, selector):
    """The runs among the options that are not greyed."""
    script = "all => all.filter(one => !one.disabled).map(one => one.value)"
    return [
        value
        for value in page.locator(selector).evaluate_all(script)
        if "first" in value or "phantom" in value
    ]


def labels(page, selector):
    return page.locator(selector).evaluate_all(
        "all => all.map(one => one.getAttribute('aria-label'))"
    )


@EVERYWHERE
def test_a_game_by_mouse_is_taken_back_and_gone_through(open_page, where):
    """By keys too, also after a click on the board, where the keys otherwise move the focus."""
    page = open_page("x=you&seed=1", where)
    play(page, "b2", "a1", "c1", "a3", "a2", "c2", "b1", "b3", "c3")
    wait_for_text(page, "A draw")
    assert page.locator("#moves button").count() == 9
    at = page.locator("#at-shown")
    for key, place in (
        ("ArrowLeft", 8),
        ("Home", 0),
        ("ArrowLeft", 0),
        ("ArrowRight", 1),
        ("End", 9),
    ):
        page.keyboard.press(key)
        assert at.inner_text() == f"{place} of 9"
    page.click("#undo")
    wait_for_text(page, "o to move")
    page.locator("#moves button").nth(3).click()
    assert at.inner_text() == "4 of 8"
    play(page, "b3")  # another fifth move, and the later ones are gone
    assert at.inner_text() == "5 of 5"


@EVERYWHERE
def test_a_game_by_keyboard_against_a_policy(open_page, where):
    """Arrow keys, Enter and the space bar; the policy answers."""
    page = open_page("x=optimal&seed=5", where)
    page.locator("#to-board").focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")  # on the cell in the middle
    page.wait_for_selector("#board .cell.x")
    page.keyboard.press("ArrowUp")
    if cell(page, "b1").get_attribute("class").startswith("cell x"):
        page.keyboard.press("ArrowLeft")
    page.keyboard.press(" ")
    page.wait_for_selector("#board .cell.x >> nth=1")
    assert page.locator("#board .cell.o").count() == 2


@EVERYWHERE
def test_panels_a_link_and_the_board_have_the_values_of_python(open_page, where):
    link = (
        "skip=0.25&x=you&moves=b2.a1%2B.c3.b1&at=3"
        "&panels=exact.compressed.policy&policy=table&rank=18"
    )
    page = open_page(link, where)
    position = "x../.o./..x o"
    exact = values_of(solve(SKIP_GAME), position)
    whole = decomposition(SKIP_GAME, "svd")
    assert panel_values(page, "#panel-exact") == panel_values(page, "#board") == exact
    assert page.inner_text("#bar-text") == "+0.177 for o, by perfect play"
    assert page.inner_text("#verdict").startswith(
        "Your move c3 lost 0.100: its value is +0.024. Best was c1 or a3, with +0.124. "
    )
    assert page.inner_text("#verdict").endswith(" The best reply to c3: o b1, a2, c2 or b3.")
    assert page.input_value("#position") == position
    best = labels(page, "#panel-exact .cell.best")
    assert best
    assert all("best move" in name and "value +0.177" in name for name in best)
    assert panel_values(page, "#panel-compressed") == values_of(Softmax(whole.at(18)), position)
    page.fill("#rank", "3")
    wait_for_text(page, "3 of", "label[for=rank]")
    page.wait_for_selector("#panel-compressed[aria-busy=false]")
    assert panel_values(page, "#panel-compressed") == values_of(Softmax(whole.at(3)), position)
    assert "rank=3" in page.url
    wait_for_text(page, "On average it loses", "#panel-policy")
    page.click("#panel-policy .on-board")
    assert page.inner_text("#source") == "Numbers: a policy, for o."
    assert (
        page.locator("#board .cell").all_inner_texts()
        == page.locator("#panel-policy .cell").all_inner_texts()
    )
    page.select_option("#show", "none")
    assert page.locator("#board .value").count() == 0
    again = open_page(page.url.partition("#")[2], where)
    assert (again.input_value("#position"), again.input_value("#show")) == (position, "none")


@EVERYWHERE
def test_play_mode_shows_no_values_until_the_game_is_over(open_page, where):
    """Hints mark a best move; the summary at the end names the worst."""
    page = open_page("o=you&x=you&moves=b2.b1&mode=play&seed=1", where)
    wait_for_text(page, "o to move")
    assert not page.is_visible("#views")
    assert not page.is_visible("#bar")
    assert page.locator("#board .value, #moves small").count() == 0
    page.click("#hint")
    hinted = page.wait_for_selector("#board .cell.hint").get_attribute("aria-label")[:2]
    wait_for_text(page, f"o to move. Hint: {hinted}, by perfect play")
    best = solve(Game()).optimal_actions(plain.from_texts(".x./.o./... o"))[0]
    assert best[cell_at(hinted, Game())]
    play(page, "a1", "c3", "a2", "a3", "c2")
    wait_for_text(page, "o has won")
    page.wait_for_selector("#summary table")
    assert "o\t4\t" in page.inner_text("#summary")
    page.click("#to-worst")
    assert page.inner_text("#at-shown") == "1 of 7"


@EVERYWHERE
def test_policies_play_step_by_step_and_continuously(open_page, where):
    page = open_page("o=random&x=optimal&seed=4&panels=", where)
    assert page.locator("#moves button").count() == 0
    page.click("#step")
    page.wait_for_selector("#moves li:nth-child(1)")
    page.fill("#speed", "8")
    page.click("#run")
    page.wait_for_selector("#moves li:nth-child(5)")
    page.wait_for_selector("#run[aria-pressed=false]")
    assert page.inner_text("#status") in ("A draw", "x has won")
    page = open_page("o=you&x=random&seed=4&panels=", where)
    page.check("#wait")
    play(page, "b2")
    wait_for_text(page, "x to move: random")
    assert page.locator("#moves button").count() == 1
    page.click("#step")
    page.wait_for_selector("#moves li:nth-child(2)")
    page.click("#swap")
    page.click("#ask button[value=yes]")
    wait_for_text(page, "o to move: random")


@EVERYWHERE
def test_stones_are_dropped_into_columns_by_mouse_and_by_keyboard(open_page, where):
    """Any cell of a column stands for it; the page shows where the stone comes to rest."""
    page = open_page("rows=4&columns=4&gravity=true&o=you&x=you&seed=1", where)
    cell(page, "b1").hover()
    assert labels(page, "#board .aim")[0].startswith("b4: ")
    cell(page, "b1").click()
    wait_for_text(page, "x to move")
    page.keyboard.press("Tab")  # after a click, arrow keys go through the game
    cell(page, "c2").focus()
    page.keyboard.press("ArrowLeft")
    assert (
        page.evaluate("document.activeElement.getAttribute('aria-label')")
        == "b2: empty, a stone falls to b3"
    )
    page.keyboard.press("Enter")
    page.wait_for_selector('#board .cell.x.last[aria-label^="b3"]')
    cell(page, "b4").click()  # a stone of the column stands for it too
    page.wait_for_selector('#board .cell.o.last[aria-label^="b2"]')
    assert "rows=4&columns=4&gravity=true&moves=b4.b3.b2" in page.url


@EVERYWHERE
def test_rules_are_chosen_and_lines_are_marked(open_page, where):
    page = open_page("skip=0.25&o=you&x=you&seed=1&moves=b2.a1%2B", where)
    page.check("#misere")
    page.click("#ask button[value=yes]")
    wait_for_text(page, "o to move")
    assert "misere=true" in page.url
    assert page.inner_text("#setup-title").startswith("3 \u00d7 3, 3 in a line lose, 25% skips")
    page = open_page("misere=true&o=you&x=you&moves=a1.b1.a2.b2.a3", where)
    wait_for_text(page, "x has won: o completed a line")
    assert labels(page, "#board .line") == [
        "a1: o, losing line",
        "a2: o, losing line",
        "a3: o, last move, losing line",
    ]
    page = open_page("torus=true&o=you&x=you&moves=b1.b2.c2.a2.a3", where)
    wait_for_text(page, "o has won")
    assert [label[:2] for label in labels(page, "#board .line")] == ["b1", "c2", "a3"]


def test_another_size_asks_before_it_throws_a_game_away_and_says_what_it_replaces(open_page):
    page = open_page("moves=b2.a1&o=you")
    for answer, cells in (("no", 9), ("yes", 45)):
        page.fill("#columns", "19")
        page.press("#columns", "Tab")
        page.wait_for_selector("#ask[open]")
        assert page.inner_text("#ask-text").endswith("The game of 2 moves is thrown away.")
        page.click(f"#ask button[value={answer}]")
        page.wait_for_selector(f"#board .cell >> nth={cells - 1}")
        assert page.locator("#board .cell").count() == cells
        assert page.input_value("#columns") == str(cells // 3)
    wait_for_text(page, "Optimal needs", "#notice")
    assert page.inner_text("#notice") == (
        "Boards have 1 to 15 columns: 19 is replaced by 15. "
        "Optimal needs a board of at most 16 cells: mcts:simulations=2000 plays x."
    )
    page.wait_for_selector("#panel-mcts[aria-busy=false] .lines")
    assert page.is_disabled("#chip-compressed")
    assert "a compressed table (up to 12 cells)" in page.inner_text("#why")
    assert "x=mcts:simulations=2000" in page.url


def test_the_page_without_a_server_says_what_it_has_not(open_page):
    assert not open_page("skip=0.25", "file").is_visible("#notice")
    page = open_page("skip=0.3&x=svd&o=you", "file")
    wait_for_text(page, "table plays x", "#notice")
    assert "proofs, a search, tree search (only with play.py web)" in page.inner_text("#why")
    page = open_page("rows=5&columns=5&x=optimal&o=you", "file")
    wait_for_text(page, "random plays x", "#notice")
    cell(page, "c3").click()
    page.wait_for_selector("#moves li:nth-child(2)")
    assert not page.is_visible("#trouble")


@pytest.mark.parametrize(
    ("link", "words"),
    [
        (
            "foo=1",
            'The link has "foo", which the explorer does not know: its keys are rows, columns, '
            "win,",
        ),
        ("rows=three", "Rows=three in the link is no number: rows is 3."),
        ("panels=exact.nothing", 'There is no panel "nothing": panels are exact,'),
        ("gravity=yes", "Gravity=yes in the link is not known: choose true, false."),
        ("win=9", "A line of 9 does not fit on 3 \u00d7 3: 3 in a line win."),
        (
            "gravity=true&moves=b1",
            "Move 1, b1, is illegal: stones fall to the lowest empty cell of their column.",
        ),
        ("opening=oo./.../...%20o", "comes from no game"),
        ("x=sb3:model", 'There is no player "sb3": players are you, random,'),
        ("o=run:nothere&x=you", 'There is no run "nothere" here; o is you.'),
        ("x=svd:rank=-1", "Rank=-1 of svd is not offered: choose 0 to"),
        ("x=svd:depth=2", 'Svd has no setting "depth" here; x is optimal.'),
        ("policy=foo", 'There is no player "foo": players are you'),
        ("opening=<img%20src=x>", "The opening is no position"),
    ],
)
def test_what_cannot_be_of_a_link_is_named_and_left_out(open_page, link, words):
    """By the script of both pages, or by what answers it."""
    page = open_page(
        f"o=you&{link}&show=none", "server" if words == "comes from no game" else "file"
    )
    page.wait_for_function(
        "words => document.querySelector('.play').innerText.toLowerCase().includes(words)",
        arg=words.lower(),
    )
    page.click("#new")
    wait_for_text(page, "o to move")


@EVERYWHERE
def test_a_finished_position_that_is_set_up_has_its_result_and_what_was_wrong(open_page, where):
    page = open_page("x=you&show=auto", where)
    page.locator("details.more").first.evaluate("part => part.open = true")
    for position, words in (("xxx/oo./o.. o", "x has won"), ("xox/oxo/oxo o", "A draw")):
        page.fill("#position", position)
        page.click("#set")
        wait_for_text(page, words)
        assert page.inner_text("#bar-text") == words.lower()
    page.fill("#position", "." * 16 + "/" + "." * 16 + " o")
    page.click("#set")
    wait_for_text(page, "A board of 2 \u00d7 16 is not offered here", "#trouble")
    assert page.locator("#board .cell").count() == 9
    page.click("#new")
    wait_for_text(page, "o to move")


def test_runs_are_offered_where_they_play(browser, tmp_path):
    train_run("q-learning", tmp_path / "first")  # 2 x 3
    train_run("q-learning", tmp_path / "phantom", "--phantom", "classic")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "config.json").write_text("{")
    with serve(tmp_path) as port, open_pages(browser) as open_new:
        page = open_new(f"http://127.0.0.1:{port}/#x=run:first&o=you")
        wait_for_text(page, "Run:first needs a board of 2 \u00d7 3, 2 in a line: mcts", "#notice")
        assert offered_values(page, "#plays-x option") == []
        assert "a run (none of this board and its rules)" in page.inner_text("#why")
        page = open_new(
            f"http://127.0.0.1:{port}/#rows=2&columns=3&win=2&x=run:first&o=you&panels=run"
        )
        page.wait_for_selector("#panel-run[aria-busy=false] .value")
        assert offered_values(page, "#plays-x option") == ["run:first"]
        assert offered_values(page, "#panel-run-choice option") == ["first"]
        cell(page, "b1").click()
        page.wait_for_selector("#moves li:nth-child(2)")
        sources = page.locator("#practice-source option").all_text_contents()
        assert [text for text in sources if "mistakes of" in text][1:] == ["The mistakes of first"]


def test_a_value_that_is_not_proved_is_an_estimate(open_page):
    page = open_page("rows=6&columns=7&gravity=true&x=you&panels=prove.search.mcts")
    page.wait_for_selector("#panel-mcts[aria-busy=false] .value")
    assert page.inner_text("#bar-text").endswith(" for o, an estimate by tree search")
    assert "The result is not decided." in page.inner_text("#panel-prove")
    assert "These are scores, not values" in page.inner_text("#panel-search")


def test_a_link_with_a_size_alone_has_the_win_length_of_the_size(open_page):
    for rows, columns in ((1, 5), (3, 7), (4, 4), (5, 6), (15, 15)):
        page = open_page(f"rows={rows}&columns={columns}&show=none&panels=&x=you", "file")
        assert page.input_value("#win") == str(Game.of_size((rows, columns)).win_length)
        assert "win=" not in page.url


def test_boards_of_reports_open_with_their_rules(open_page, browser):
    for game, text in (
        (Game(4, 5, 3, 0.25, gravity=True, overlines=False), "...../...../...../..o.. x"),
        (Game(3, 4, 3, 0.25, overlines=False), "oo../x.../.... x"),
        (Game(torus=True, misere=True), "xo./.../... o"),
    ):
        position = from_text(text, game)
        page = open_page(shlex.split(explorer_command(game, position))[-1])
        wait_for_text(page, f"{text[-1]} to move")
        assert page.input_value("#position") == text
        rules = [rule for rule in VARIANTS if page.is_checked(f"#{rule}")]
        assert rules == [rule for rule in VARIANTS if getattr(game, rule)]
        assert not page.is_visible("#notice")
    with (
        run_explorer("--open", "skip=0.25&moves=b2+&o=you&x=you") as (_, own),
        open_pages(browser) as open_new,
    ):
        wait_for_text(open_new(own), "o to move, again: x is skipped")


@pytest.mark.parametrize(
    ("link", "panel", "width", "scheme", "where"),
    [
        ("skip=0.25&x=you&moves=b2.a1%2B.c3", "compressed", 390, "dark", "file"),
        ("skip=0.25&x=you&moves=b2.a1%2B.c3", "compressed", 1280, "light", "server"),
        ("rows=4&columns=4&gravity=true&o=you&x=you&moves=d4.d3", "exact", 390, "light", "server"),
    ],
)
def test_the_page_is_accessible_at_any_width(open_page, link, panel, width, scheme, where):
    """axe finds nothing serious, the page needs no scrolling aside, and targets are large
    enough.
    """
    page = open_page(link, where, width=width, color_scheme=scheme, bypass_csp=True, has_touch=True)
    page.wait_for_selector(f"#panel-{panel}[aria-busy=false] .cell")
    page.locator("#practice").evaluate("part => part.open = true")
    page.wait_for_selector("#trainer .cell")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert accessibility_faults(page) == []
    small = page.evaluate(
        """() => [...document.querySelectorAll(
                "#board .cell, button, select, input, .check, summary")]
            .filter((one) => one.type !== "checkbox") // whose label is the target
            .filter((one) => one.checkVisibility() && one.getBoundingClientRect().height < 43.5)
            .map((one) => one.outerHTML)"""
    )
    assert small == []
