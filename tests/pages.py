"""HTML pages, parsed and checked, and shown by a browser."""

import json
import re
import shutil
from contextlib import contextmanager
from xml.etree import ElementTree

import pytest

from ttt_eval.reports.pages import write_page
from ttt_eval.runs.run_files import REPORT
from ttt_eval.store.result_store import RESULT

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")


IN_BROWSER = (pytest.mark.needs("playwright", "axe_playwright_python"), needs_chromium)
"""marks of a test that drives a browser"""


def in_browser(test):
    """Mark a test that drives a browser."""
    for mark in IN_BROWSER:
        test = mark(test)
    return test


class Page:
    """A parsed page, in well-formed XML after its first line."""

    def __init__(self, text):
        root = ElementTree.fromstring(text.partition("\n")[2])
        for style in root.findall("head/style"):
            style.text = ""
        self.words = [*root.itertext()]
        self.tags = [(element.tag, element.attrib) for element in root.iter()]
        self.tables = [
            ["".join(cell.itertext()) for cell in table.iter("td")] for table in root.iter("table")
        ]
        headings = [
            element for element in root.iter() if element.tag in ("h1", "h2", "h3", "summary")
        ]
        self.outline = [f"{element.tag} {''.join(element.itertext())}" for element in headings]

    def text(self):
        return re.sub(r"\s+", " ", "".join(self.words))

    def names(self):
        """The names of all elements."""
        return {tag for tag, _ in self.tags}

    def attributes(self, name, tag=None):
        """The values of an attribute, of all elements that have it."""
        return [
            named[name] for element, named in self.tags if name in named and tag in (None, element)
        ]

    def map(self, title):
        """The numbers of an empty board with a number in each cell."""
        [label] = [label for label in self.attributes("aria-label") if f" {title}: " in label]
        return [
            float(number)
            for number in re.findall(
                r" [a-z]+\d+ ([-+.\d]+?)[,.]?(?= |$)", label.partition(title)[2]
            )
        ]


def read_page(path):
    """Parse a page: accessible, in one file without scripts, and nothing is fetched."""
    text = path.read_text("utf-8")
    page = Page(text)
    ids = page.attributes("id")
    assert text.startswith("<!doctype html>\n<html lang=")
    assert len(ids) == len(set(ids))
    assert {"title", "header", "main", "h1", "h2"} <= page.names()
    assert not page.names() & {"script", "link", "img", "iframe", "object", "base", "form", "image"}
    style = text[text.index("<style>") : text.index("</style>")]
    assert not re.search(r"@import|url\(", style)
    assert "http" not in text
    for tag, named in page.tags:
        assert not [
            name
            for name in named
            if name.startswith("on") or name in ("src", "srcset", "action", "data")
        ]
        if "href" in named and tag != "a":
            assert named["href"][0] == "#"
            assert named["href"][1:] in ids
        if tag == "th":
            assert named["scope"] in ("row", "col")
        if tag == "svg" or named.get("class", "").split()[:1] == ["board"]:
            assert named["role"] == "img"
            assert named["aria-label"]
    assert len(text) < 1_000_000
    return page


def page_of_result(folder, data):
    """Write a result of a comparison, and its page, which is parsed."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / RESULT).write_text(json.dumps(data))
    assert write_page(folder) == folder / REPORT
    return read_page(folder / REPORT)


@contextmanager
def open_pages(browser, ignored=()):
    """Opens pages, each in a context of its own; at the end, none has an error or has sent a
    request elsewhere.

    Messages in the console that contain one of ``ignored`` are no errors.
    """
    contexts = []
    faults = []

    def is_ignored(text):
        return any(part in text for part in ignored)

    def open_page(address, width=1280, own=None, **settings):
        """Open a page that sends requests only to its own address, or to ``own``."""
        own = own or re.split("[?#]", address)[0]
        context = browser.new_context(
            viewport={"width": width, "height": 900}, reduced_motion="reduce", **settings
        )
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(60_000)
        page.on("console", lambda message: is_ignored(message.text) or faults.append(message.text))
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on(
            "request",
            lambda request: request.url.startswith((own, "data:")) or faults.append(request.url),
        )
        page.goto(address)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert not faults, "; ".join(faults)


def accessibility_faults(page):
    """Return the serious and critical problems that axe finds in a page of a browser."""
    from axe_playwright_python.sync_playwright import Axe

    result = Axe().run(page).response["violations"]
    return [
        (fault["id"], fault["nodes"][0]["html"])
        for fault in result
        if fault["impact"] in ("serious", "critical")
    ]


WIDTHS = (360, 390, 500, 768, 1024, 1280, 1920)
CUT_BARS = """[...document.querySelectorAll(".bar")].filter(bar => {
  const part = bar.closest(".wide")
  return bar.offsetWidth ? part.scrollWidth > part.clientWidth : bar.closest("tr").cells.length < 6
}).length"""

CUT_COMMANDS = """[...document.querySelectorAll("pre")].map(part => {
  part.closest("details")?.setAttribute("open", "")
  return part.scrollWidth > part.clientWidth ? part.textContent : ""
}).filter(text => text)"""


def check_in_browser(browser, paths, *, dark=False):
    """Check that pages are accessible, and fit at all widths without errors; bars and commands are
    whole.

    Narrow windows hide the bars of tables of more than five columns.
    """
    with open_pages(browser) as open_page:
        for path in paths:
            page = open_page(path.as_uri(), color_scheme="dark" if dark else "light")
            for width in WIDTHS:
                page.set_viewport_size({"width": width, "height": 800})
                assert page.evaluate("document.documentElement.scrollWidth") <= width
                assert page.evaluate(CUT_BARS) == 0, width
                assert page.evaluate(CUT_COMMANDS) == [], width
            assert accessibility_faults(page) == []
            ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
            assert (int(re.search(r"\d+", ground)[0]) < 50) == dark
