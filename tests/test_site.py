"""The site: its navigation has every page, links and anchors exist, and it builds without
warnings.
"""

import importlib.util
import re
import shutil
import sys
from pathlib import Path

import pytest
from documents import ROOT
from processes import run_program

pytestmark = pytest.mark.more

spec = importlib.util.spec_from_file_location("make_pages", ROOT / "docs" / "make_pages.py")
make_pages = importlib.util.module_from_spec(spec)
spec.loader.exec_module(make_pages)

GENERATED = {"help.md", *make_pages.api_pages()}
PAGES = sorted(make_pages.page_paths())


def words_of(page):
    """A page's text without its blocks of code."""
    return make_pages.FENCE.sub("", (ROOT / page).read_text())


def anchors_of(page):
    """The anchors of a page's headings, if code hosts and the site name them alike."""
    result = set()
    for heading in re.findall(r"^#+ +(.*?) *$", words_of(page), re.M):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        host = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
        site = re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", plain.lower()).strip())
        if host == site:
            result.add(host)
    return result


def test_the_navigation_has_every_page_once():
    pages = make_pages.navigation()
    there = {*make_pages.page_paths().values(), *GENERATED}
    assert len(pages) == len(set(pages)), (
        f"twice in mkdocs.yml: {sorted(page for page in pages if pages.count(page) > 1)}"
    )
    assert there <= set(pages), f"not under nav in mkdocs.yml: {sorted(there - set(pages))}"
    assert set(pages) <= there, f"in mkdocs.yml, and no page: {sorted(set(pages) - there)}"
    for page in make_pages.api_pages():
        name = page.removeprefix("api/").removesuffix(".md").replace("/", ".")
        assert importlib.util.find_spec(name) is not None, page


@pytest.mark.parametrize("page", PAGES)
def test_links_and_anchors_exist(page):
    for _, words, target in make_pages.LINK.findall(words_of(page)):
        path, _, anchor = target.partition("#")
        if re.match(r"[a-z]+:", target):
            assert re.match(r"https?://|mailto:", target), f"{page} links to {target}"
            continue
        meant = Path(page) if not path else Path(page).parent / path
        assert (ROOT / meant).exists(), f"{page} links to {target} as {words!r}"
        if anchor:
            assert anchor in anchors_of(meant), (
                f"{page} links to {target}, and there is no such heading"
            )


def test_links_are_rewritten_for_the_site():
    text = (
        "[a](docs/exact.md#x) [b](docs/learners) [c](tests/conftest.py) ![d](docs/reports.png) "
        "[`e`](https://a.b/c.md)"
    )
    pictures = "![d](reports.png#only-light) ![d](reports-dark.png#only-dark)"
    moved = f"[a](exact.md#x) [b](learners/index.md) c {pictures} [`e`](https://a.b/c.md)"
    assert make_pages.rewrite_links(text, "README.md", "index.md") == moved
    deeper = "[a](../../CONTRIBUTING.md#habits) [b](../policies.md) [c](#here)"
    moved = "[a](../contributing.md#habits) [b](../policies.md) [c](#here)"
    assert (
        make_pages.rewrite_links(deeper, "docs/learners/tables.md", "learners/tables.md") == moved
    )


def test_api_pages_have_the_public_names_of_packages():
    assert "\n::: learners.base.Learner\n" in make_pages.api_page(
        "api/learners.md"
    )  # it is imported when it is used


def test_blocks_keep_only_their_language(tmp_path, monkeypatch):
    (tmp_path / "page.md").write_text(
        "```sh slow\nls [a](b.md)\n```\n\n```text output\n1\n```\n\n[a](missing.md)\n"
    )
    monkeypatch.setattr(make_pages, "ROOT", tmp_path)
    text = make_pages.page_text("page.md", "page.md")
    assert text == "```sh\nls [a](b.md)\n```\n\n```text\n1\n```\n\na\n"


@pytest.mark.slow
@pytest.mark.needs("zensical")
@pytest.mark.needs("mkdocstrings")
def test_the_site_builds_without_warnings_and_fetches_nothing(tmp_path):
    shutil.copy(
        ROOT / "mkdocs.yml", tmp_path
    )  # where it lies the site is made, and a link would lead home
    for name in ("docs", "ttt_envs", "baselines", "learners", "ttt_eval"):
        (tmp_path / name).symlink_to(ROOT / name)
    make_pages.make(tmp_path / "build" / "pages")
    zensical = shutil.which("zensical", path=Path(sys.executable).parent)
    process_result = run_program(zensical, "build", "--strict", cwd=tmp_path)
    assert (
        "griffe:" not in process_result.stdout + process_result.stderr
    )  # what a docstring says and its function does not
    assert "exploitability" in (tmp_path / "site" / "search.json").read_text()
    for page in make_pages.navigation():
        text = (tmp_path / "site" / page).with_suffix(".html").read_text()
        fetched = re.findall(
            r"<(?:script|img|link|iframe|source)\b[^>]*\b(?:src|href)=\"?(https?:[^\" >]*)", text
        )
        assert fetched == [], f"{page} fetches {fetched}"
        assert ":func:" not in text
        assert "<h1" in text
