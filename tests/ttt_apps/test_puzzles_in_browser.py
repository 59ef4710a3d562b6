"""Puzzles in a browser, on the page without a server and in the explorer."""

import pytest
from commands import words_of
from documents import ROOT
from explorers import serve
from pages import IN_BROWSER, accessibility_faults, open_pages

from ttt_apps.training import command as train
from ttt_envs.game.boards import coordinate, to_text
from ttt_eval.puzzles import read_puzzles

pytestmark = [pytest.mark.more, pytest.mark.needs("fastapi", "uvicorn", "httpx"), *IN_BROWSER]


@pytest.fixture(scope="module", params=["file", "server"])
def address(request, tmp_path_factory):
    if request.param == "file":
        yield (ROOT / "docs" / "play" / "index.html").as_uri()
        return
    root = tmp_path_factory.mktemp("root")
    line = "--games=300 --skip-chance=0.25 --exact-every=0 --no-report --out"
    train.main(words_of(line, root / "first"))
    with serve(root, warm=True) as port:
        yield f"http://127.0.0.1:{port}/"


def cell(page, number):
    return page.locator(f'#trainer [data-cell="{number}"]')


def solve_puzzle(page, puzzle):
    """Answer wrongly, try again, and answer rightly."""
    tempting, best = (coordinate(cells[0], puzzle.game) for cells in (puzzle.tempting, puzzle.best))
    cell(page, puzzle.tempting[0]).click()
    answer = page.locator("#trainer .answer")
    assert answer.inner_text().startswith(f"{tempting} loses")
    framed = [cell.get_attribute("data-cell") for cell in page.locator("#trainer .cell.best").all()]
    assert framed == [str(number) for number in puzzle.best]
    page.get_by_role("button", name="Try again").click()
    assert answer.inner_text() == ""
    cell(page, puzzle.best[0]).click()
    assert answer.inner_text().startswith(f"Right: {best} is best")
    assert page.get_by_text("Right at the first try: 0 of 1.").is_visible()


def test_puzzles_are_opened_by_links_solved_and_played_on(browser, address):
    from playwright.sync_api import expect

    puzzles = read_puzzles()
    with open_pages(browser) as open_page:
        page = open_page(f"{address}#puzzle=40", own=address)
        count = page.locator("#trainer .count")
        expect(count).to_have_text("40 of 100")
        assert page.locator("#notice").is_hidden()
        stones = page.locator("#trainer .board .cell").evaluate_all(STONES)
        assert "".join(stones) == "".join(".ox"[stone] for stone in puzzles[39].position.cells)
        solve_puzzle(page, puzzles[39])
        page.get_by_role("button", name="Next puzzle", exact=True).first.click()
        assert (
            page.get_by_role("link", name="Link to this puzzle").get_attribute("href")
            == "#puzzle=41"
        )
        page.get_by_role("button", name="Play on from here").click()
        expect(page.locator("#position")).to_have_value(
            to_text(puzzles[40].position, puzzles[40].game)
        )
        page.evaluate("location.hash = '#puzzle=101'")
        expect(page.get_by_text("There is no puzzle 101: the set has 100.")).to_be_visible()
        assert accessibility_faults(page) == []


def test_the_mistakes_of_a_game_and_of_a_run_are_puzzles(browser, address):
    from playwright.sync_api import expect

    with open_pages(browser) as open_page:
        page = open_page(f"{address}#x=you&moves=b2.b1.a1", own=address)
        page.wait_for_selector("#board .cell.x")
        page.locator("#practice summary").click()
        page.select_option("#practice-source", "game")
        page.wait_for_selector("#trainer .count:text-is('1 of 1')")
        cell(page, 1).click()
        expect(page.locator("#trainer .answer")).to_contain_text(
            "b1 loses 1: its value is \u22121. Best is a1, c1, a3"
        )
        page.get_by_role("button", name="Play on from here").click()
        expect(page.locator("#position")).to_have_value(".../.o./... x")
        if address.startswith("http"):
            page.select_option("#practice-source", "run:first")
            page.wait_for_selector("#trainer .count:text-is('1 of 10')")
            page.locator("#setup-title").click()
            page.locator("#plays-x").select_option("run:first")
            expect(page.locator("#setup-title")).to_contain_text("x run:first")
            expect(page.locator("#plays-x")).to_have_value("run:first")


STONES = (
    "all => all.map(one => one.classList.contains('o') ? 'o' : one.classList.contains('x') ? 'x' : "
    "'.')"
)
