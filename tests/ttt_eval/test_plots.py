"""Pictures: the same numbers make the same picture, and several of them can stand in one page."""

import re
from xml.etree import ElementTree

import pytest

from ttt_eval.reports import plots
from ttt_eval.reports.plots import LOSS, WIN, PlotLine, as_svg, draw_curves, save_picture

LINES = [
    PlotLine("exploitability", [100, 1_000, 50_000], [1.0, 0.02, 0.0], WIN),
    PlotLine("regret <&> $\\frac{", [100, 1_000, 50_000], [0.5, 0.001, 0.0], LOSS, "--"),
]
CURVES = draw_curves(LINES, "games", "value lost", distances=True)


def texts(draw):
    return {
        "".join(text.itertext())
        for text in ElementTree.fromstring(as_svg(draw, "one", "")).iter("text")
    }


def test_a_picture_in_a_page_is_one_element_that_says_what_it_shows_and_takes_the_text_s_colour():
    svg = as_svg(CURVES, "one", "a <picture> & one")
    root = ElementTree.fromstring(svg)
    assert (root.tag, root.get("role"), root.get("aria-label")) == (
        "svg",
        "img",
        "a <picture> & one",
    )
    assert root.get("width") is None
    colours = set(re.findall(r"#[0-9a-f]{6}\b", svg.lower()))
    assert colours == {
        WIN.lower(),
        LOSS.lower(),
        "#b0b0b0",
        "#000000",
    }  # of the lines, the grid, and the axes
    assert "http" not in svg
    assert not {"style", "metadata", "script", "image"} & {element.tag for element in root.iter()}
    assert svg == as_svg(CURVES, "one", "a <picture> & one")


@pytest.mark.parametrize(
    ("draw", "words"),
    [
        (
            CURVES,
            {
                "0",
                "0.001",
                "0.01",
                "0.1",
                "1",
                "100",
                "1k",
                "10k",
                "games, logarithmic",
                "value lost",
                LINES[1].name,
            },
        ),
        (
            draw_curves([PlotLine("LLR", [100, 2000], [-0.5, 3.0])], "games", "", distances=False),
            {"0", "1k", "LLR", "games, logarithmic"},
        ),
    ],
)
def test_every_picture_has_its_labels(draw, words):
    assert words <= texts(draw)


@pytest.mark.parametrize(
    ("x", "marks"),
    [
        ([0, 10, 10_000], {"0", "10", "1k", "10k"}),
        ([300, 400], {"300", "400"}),
        ([7], {"0"}),
        ([0], {"0"}),
    ],
)
@pytest.mark.parametrize("log", [True, False])
def test_games_may_be_none_few_or_alike(x, marks, log):
    line = PlotLine("won", x, [0.5] * len(x), low=[0.4] * len(x), high=[0.6] * len(x))
    labels = texts(draw_curves([line], "games", "share", distances=False, log=log))
    assert {"0", "0.25", "0.5", "0.75", "1"} <= labels
    assert marks <= labels or not log
    assert ("games, logarithmic from 10" if log and x[-1] == 10_000 else "games") in labels


@pytest.mark.parametrize("letters", [5, 60])
def test_a_legend_of_many_names_leaves_room_for_the_axes(letters):
    lines = [PlotLine(f"{number:02}" + "x" * letters, [0, 1], [0.0, 1.0]) for number in range(12)]
    picture = ElementTree.fromstring(
        as_svg(draw_curves(lines, "score", "share", distances=False), "one", "")
    )
    heights = {text.text: float(text.get("y")) for text in picture.iter("text")}
    assert heights["0.25"] - heights["0.75"] > 50


def test_a_picture_of_a_study_is_the_same_files_each_time_with_dark_colours(tmp_path):
    png, svg = save_picture(tmp_path / "a", CURVES)
    again = save_picture(tmp_path / "b.png", CURVES)
    assert (png.name, svg.name) == ("a.png", "a.svg")
    assert png.read_bytes()[:4] == b"\x89PNG"
    assert [path.read_bytes() for path in again] == [png.read_bytes(), svg.read_bytes()]
    style, *marks = [
        node
        for node in ElementTree.parse(svg).iter()
        if node.tag.endswith("}style") or node.get("style")
    ]
    rules = dict(re.findall(r'\[style\*="([^"]*)"\]\{([^}]*)!important\}', style.text))
    used = {
        part
        for mark in marks
        for part in re.findall(r"(?:fill|stroke): #\w+", mark.get("style", ""))
    }
    assert used - rules.keys() == {"stroke: #b0b0b0"}  # the grid is seen on both grounds
    assert all(part.partition(":")[0] == rule.partition(":")[0] for part, rule in rules.items())


def test_without_matplotlib_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr(plots, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"pip install .*\[report\]"):
        save_picture(tmp_path / "a", CURVES)
    assert not list(tmp_path.iterdir())
