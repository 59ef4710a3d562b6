"""Pages taken apart, and shown by a browser."""

import html
import re
import shutil
import subprocess
from html.parser import HTMLParser
from xml.etree import ElementTree

EMPTY = {"meta", "br", "col", "hr"}
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


class Page(HTMLParser):
    """A page taken apart: everything that is opened is closed, in order."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.words, self.ids, self.tables = [], [], [], [], []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attributes):
        named = dict(attributes)
        self.tags.append((tag, named))
        self.ids += [named["id"]] if "id" in named else []
        if tag == "table":
            self.tables.append({"class": named["class"], "words": [], "cells": []})
        if tag == "td":
            self.tables[-1]["cells"].append("")
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in EMPTY:
            self.handle_endtag(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" in self.open:
            return
        self.words.append(data)
        if "caption" in self.open:
            self.tables[-1]["words"].append(data)
        if "td" in self.open:
            self.tables[-1]["cells"][-1] += data

    def text(self):
        return re.sub(r"\s+", " ", "".join(self.words))

    def map(self, title):
        """The numbers of a heat map."""
        [cells] = [table["cells"] for table in self.tables if title in table["words"]]
        return [float(cell) for cell in cells if cell]


def looked_at(path):
    """A page, with the checks that every page has to pass."""
    text = path.read_text("utf-8")
    page = Page(text)
    assert text.startswith("<!doctype html>\n<html lang=")
    assert len(page.ids) == len(set(page.ids))
    tags = {tag for tag, _ in page.tags}
    assert {"title", "header", "main", "h1", "h2"} <= tags
    assert not tags & {"script", "link", "img", "iframe", "object", "base", "form", "image"}
    style = text[text.index("<style>") : text.index("</style>")]
    assert not re.search(r"@import|url\(", style)
    assert "http" not in text
    for tag, named in page.tags:
        assert not [name for name in named if name.startswith("on") or name in ("src", "srcset", "action", "data")]
        if "href" in named and tag != "a":
            assert named["href"][0] == "#"
            assert named["href"][1:] in page.ids
        if tag == "th":
            assert named["scope"] in ("row", "col")
        if tag == "svg" or named.get("class", "").split()[:1] == ["board"]:
            assert named["role"] == "img"
            assert named["aria-label"]
    for svg in re.findall(r"<svg.*?</svg>", text, re.DOTALL):
        ElementTree.fromstring(svg)
    assert len(text) < 1_000_000
    return page


PROBE = """<!doctype html><title>probe</title><script>
function measured(frame) {
  const page = frame.contentDocument.documentElement
  const ground = getComputedStyle(frame.contentDocument.body).backgroundColor.match(/[0-9]+/)[0]
  const found = [frame.width, page.scrollWidth, page.scrollHeight, ground]
  frame.parentNode.querySelector("output").textContent = found.join(":")
}
</script>"""


def widths(pages, folder, *, dark=False):
    """Pages in a browser, which has no complaint, each at three widths.

    Returns:
        Of each: its width, what it needs, its height, and how light its ground is, 0 to 255.
    """
    frames = "".join(
        f'<div><output></output><iframe width="{width}" height="800" onload="measured(this)" '
        f'srcdoc="{html.escape(page.read_text())}"></iframe></div>'
        for page in pages
        for width in (360, 768, 1280)
    )
    (folder / "probe.html").write_text(PROBE + frames)
    asked = [CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--dump-dom"]
    done = subprocess.run(
        [
            *asked,
            f"--blink-settings=preferredColorScheme={0 if dark else 1}",
            f"--user-data-dir={folder / 'profile'}",
            (folder / "probe.html").as_uri(),
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    found = [tuple(map(int, one.split(":"))) for one in re.findall(r"<output>([\d:]+)</output>", done.stdout)]
    assert "CONSOLE" not in done.stderr
    return found
