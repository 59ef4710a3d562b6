"""Puzzles on the page without a server and in the explorer, and the moves of a game that can be opened there."""

import re
import shlex

import numpy as np
import pytest
from documents import ROOT
from explorers import Client, Program, make_explorer, serve
from pages import CHROMIUM, accessibility_faults, in_browser, open_pages

from baselines.exact import solve
from ttt_apps import train
from ttt_apps.play_page.page import parse_numbers
from ttt_envs import Game
from ttt_envs.game.boards import Boards, coordinate, from_text
from ttt_eval.puzzles import read_puzzles
from ttt_eval.reports.links import explorer_command

PAGE = ROOT / "docs" / "play" / "index.html"
SKIPS = {"rows": 3, "columns": 3, "win_length": 3, "skip_chance": 0.25}
pytestmark = [pytest.mark.needs("fastapi", "uvicorn", "httpx")]


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("root")
    words = ["--games=300", "--skip-chance=0.25", "--exact-every=0", "--no-report"]
    train.main([*words, "--out", str(root / "first")])
    return root


@pytest.fixture  # of one test: other tests here run coroutines, which the loop of a browser forbids
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def visit(browser):
    with open_pages(browser) as open_page:
        yield open_page


def cell(page, number, where="#trainer"):
    return page.locator(f'{where} [data-cell="{number}"]')


def solve_one(page, puzzle):
    """Answer wrongly, try again, and answer rightly."""
    tempting, best = (coordinate(cells[0], puzzle.game) for cells in (puzzle.tempting, puzzle.best))
    cell(page, puzzle.tempting[0]).click()
    answer = page.locator("#trainer .answer")
    assert answer.inner_text().startswith(f"{tempting} loses")
    shown = [one.get_attribute("data-cell") for one in page.locator("#trainer .cell.best").all()]
    assert shown == [str(number) for number in puzzle.best]
    page.get_by_role("button", name="Try again").click()
    assert answer.inner_text() == ""
    cell(page, puzzle.best[0]).click()
    assert answer.inner_text().startswith(f"Right: {best} is best")
    assert page.get_by_text("Right at the first try: 0 of 1.").is_visible()


@in_browser
def test_puzzles_of_the_page_without_a_server(visit):
    page = visit(f"{PAGE.as_uri()}#against=table&skip=0.25&you=o&seed=3")
    page.select_option("#trainer select", label="3 x 3, 3 in a line, 25% skips (16)")
    first = next(one for one in read_puzzles() if one.game.to_dict() == {"format": 1, **SKIPS})
    solve_one(page, first)
    page.get_by_role("button", name="Play on from here").click()
    text = "".join(".ox"[stone] for stone in first.position.cells)
    assert "".join(page.locator("#board .cell").evaluate_all(STONES)) == text
    assert accessibility_faults(page) == []
    narrow = visit(PAGE.as_uri(), 390)
    assert narrow.evaluate("document.documentElement.scrollWidth") == 390


STONES = "all => all.map(one => one.classList.contains('o') ? 'o' : one.classList.contains('x') ? 'x' : '.')"


@in_browser
def test_the_moves_of_a_game_open_the_positions_after_them(visit):
    page = visit(f"{PAGE.as_uri()}#against=optimal&skip=0&you=o&seed=3&moves=a1b2b1c1")
    page.locator("#moves button").nth(1).click()
    assert "".join(page.locator("#board .cell").evaluate_all(STONES)) == "o...x...."
    assert page.locator("#status").inner_text().endswith("Move 2 of 4.")
    assert page.locator("#moves button").count() == 4
    cell(page, 8, "#board").click()  # another third move, and the later ones are gone
    assert page.locator("#moves button").count() == 3
    page.locator("#moves button").nth(3).wait_for()  # the opponent answers
    page = visit(f"{PAGE.as_uri()}#against=optimal&skip=0&you=x&seed=3&moves=b2b1a1")
    page.get_by_role("button", name="Practise my mistakes").click()
    assert page.locator("#trainer .count").inner_text() == "1 of 1"
    cell(page, 1).click()
    answer = page.locator("#trainer .answer").inner_text()
    assert answer.startswith("b1 loses 1: its value is \u22121. Best is a1, c1, a3 or")


def test_answers_to_the_questions_are_exact():
    page = PAGE.read_text()
    values = [solve(Game(skip_chance=skip)).value for skip in (0.1, 0.25, 0.5)]
    assert "by {:.3f}, at 25% by {:.3f} and at 50% by {:.3f} games".format(*values) in page
    ranks = parse_numbers(page)["games"][0]["ranks"]["exploitability"]
    words = "by {:.3f} without skips. Rank 45 has {:.3f}, rank 18 has {:.3f}, rank 3 has {:.3f}"
    assert words.format(*(ranks[rank] for rank in (75, 45, 18, 3))) in page
    game = Game(skip_chance=0.25)
    moves = np.sort(solve(game).action_values(Boards.from_positions([from_text("xo./..x/x.. o", game)]))[0])[:5]
    assert moves[4] == moves[3] == pytest.approx(moves[2] + 0.09, abs=0.005)


def test_the_explorer_gives_the_puzzles_of_the_set_a_game_and_a_run(root):
    with Client(make_explorer(root)) as client:

        def ask(**content):
            answer = client.post("/api/puzzles", json=content)
            return answer.status_code, answer.json()

        status, answer = ask()
        assert (status, len(answer["puzzles"])) == (200, 100)
        line = {"game": {**SKIPS, "skip_chance": 0.0}, "moves": "b2 b1 a1"}
        [one] = ask(line=line)[1]["puzzles"]
        assert (one["position"], one["tempting"], one["best"], one["why"]) == (".../.o./... x", [1], [0, 2, 6, 8], "x")
        of_run = ask(run="first")[1]["puzzles"]
        assert {one["why"] for one in of_run} == {"first"}
        assert all(set(one["best"]).isdisjoint(one["tempting"]) for one in of_run)
        assert ask(run="second")[0] == 400
        assert ask(line={"game": {**SKIPS, "rows": 4, "columns": 4}, "moves": "b2"})[0] == 400


@in_browser
def test_a_command_of_a_report_opens_its_position(visit):
    from playwright.sync_api import expect

    position = from_text("x../.o./... x", Game(skip_chance=0.25))
    *_, link = shlex.split(explorer_command(Game(skip_chance=0.25), position))
    with Program("play.py", "--web", "--open", link) as program:
        page = visit(program.address)
        page.wait_for_selector("#board .cell.x")
        expect(page.locator("#position")).to_have_value("x../.o./... x")
        expect(page.locator("#skip-shown")).to_have_text("25%")
        page.close()  # before the server, which would not answer all requests


def check_links(page, number):
    """The puzzle of a number is shown; its link opens it, and one beyond the set says so."""
    from playwright.sync_api import expect

    count = page.locator("#trainer .count")
    expect(count).to_have_text(f"{number} of 100")
    shown = read_puzzles()[number - 1]
    text = "".join(".ox"[stone] for stone in shown.position.cells)
    assert "".join(page.locator("#trainer .board .cell").evaluate_all(STONES)) == text
    page.get_by_role("button", name="Next puzzle", exact=True).first.click()
    link = page.get_by_role("link", name="Link to this puzzle")
    assert link.get_attribute("href") == f"#puzzle={number + 1}"
    link.click()
    copied = page.get_by_text("Copied", exact=True)
    there = page.locator("input").filter(visible=True).and_(page.get_by_label("Link to this puzzle"))
    expect(copied.or_(there)).to_be_visible()
    if not copied.is_visible():  # there is no clipboard: the link is shown
        expect(there).to_have_value(re.compile(f"#puzzle={number + 1}$"))
    page.evaluate("location.hash = '#puzzle=99'")
    expect(count).to_have_text("99 of 100")
    page.evaluate("location.hash = '#puzzle=101'")
    expect(page.get_by_text("There is no puzzle 101: the set has 100.")).to_be_visible()


@in_browser
def test_a_link_to_a_puzzle_on_the_page_without_a_server(visit):
    page = visit(f"{PAGE.as_uri()}#puzzle=40")
    check_links(page, 40)
    assert page.locator("#moves button").count() == 0  # the game is as it was
    assert accessibility_faults(page) == []


@in_browser
def test_puzzles_in_the_explorer(visit, root):
    from playwright.sync_api import expect

    with serve(root, warm=True) as port:
        page = visit(f"http://127.0.0.1:{port}/#puzzle=40")
        check_links(page, 40)
        assert page.locator("#notice").is_hidden()
        page.close()
        page = visit(f"http://127.0.0.1:{port}/#x=you&moves=b2.b1.a1")
        page.wait_for_selector("#board .cell")
        page.locator("#practice summary").click()
        page.wait_for_selector("#trainer .cell")
        solve_one(page, read_puzzles()[0])
        page.select_option("#practice-source", "game")
        page.wait_for_selector("#trainer .count:text-is('1 of 1')")
        page.get_by_role("button", name="Play on from here").click()
        expect(page.locator("#position")).to_have_value(".../.o./... x")
        page.select_option("#practice-source", "run:first")
        page.wait_for_selector("#trainer .count:text-is('1 of 10')")
        assert accessibility_faults(page) == []
