"""Pictures: the same numbers make the same picture, and several of them can stand in one page."""

import re
from itertools import pairwise
from xml.etree import ElementTree

import pytest

from ttt_eval.reports import plots
from ttt_eval.reports.plots import (
    LOSS,
    WIN,
    IntervalRow,
    Line,
    as_svg,
    check_pictures,
    curves_size,
    draw_curves,
    draw_intervals,
    draw_pareto_front,
    draw_radar,
    figure_size,
    radar_size,
    save_picture,
)
from ttt_eval.statistics import Interval

LINES = [
    Line("exploitability", [100, 1_000, 50_000], [1.0, 0.02, 0.0], WIN),
    Line("regret <&>", [100, 1_000, 50_000], [0.5, 0.001, 0.0], LOSS, "--"),
]


def drawn(name="one", lines=LINES, distances=True):
    return as_svg(draw_curves(lines, "games", "value lost", distances=distances), name, f"a <picture> & {name}")


def texts(svg):
    return ["".join(text.itertext()) for text in ElementTree.fromstring(svg).iter("text")]


def test_a_picture_in_a_page_is_one_element_that_says_what_it_shows_and_takes_the_text_s_colour():
    root = ElementTree.fromstring(drawn())
    assert (root.tag, root.get("role"), root.get("aria-label")) == ("svg", "img", "a <picture> & one")
    assert root.get("width") is None
    colours = set(re.findall(r"#[0-9a-f]{6}\b", drawn().lower()))
    assert colours == {WIN.lower(), LOSS.lower(), "#b0b0b0", "#000000"}  # of the lines, the grid, and the axes
    assert "http" not in drawn()
    assert not {"style", "metadata", "script", "image"} & {element.tag for element in root.iter()}
    assert drawn() == drawn()


def test_ids_of_two_pictures_differ_and_references_stay_within_a_picture():
    ids = [set(re.findall(r'\bid="([^"]*)"', drawn(name))) for name in ("one", "two")]
    assert ids[0]
    assert not ids[0] & ids[1]
    for name, known in zip(("one", "two"), ids, strict=True):
        used = re.findall(r'href="#([^"]*)"|url\(#([^)]*)\)', drawn(name))
        assert used
        assert {a or b for a, b in used} <= known


def test_distances_have_a_place_for_one_a_thousandth_and_nothing():
    assert {"0", "0.001", "0.01", "0.1", "1"} <= set(texts(drawn()))
    assert {"exploitability", "regret <&>", "games", "value lost", "100", "1k", "10k"} <= set(texts(drawn()))


def test_labels_of_intervals_do_not_overlap():
    row = IntervalRow("one", Interval(0.0201, 0.0201, 0.0201))
    shown = texts(as_svg(draw_intervals([row], "score", 0.0), "one", "scores"))
    assert 3 <= len([text for text in shown if re.fullmatch(r"0\.\d+", text)]) <= 7


@pytest.mark.parametrize(
    ("x", "marks"),
    [([0, 10, 10_000], {"0", "10", "1k", "10k"}), ([300, 400], {"300", "400"}), ([7], set()), ([0], set())],
)
def test_games_may_be_none_few_or_alike(x, marks):
    shown = texts(drawn(lines=[Line("won", x, [0.5] * len(x), WIN)], distances=False))
    assert marks <= set(shown) | ({"300", "400"} if x == [300, 400] else set())
    assert {"0", "0.25", "0.5", "0.75", "1"} <= set(shown)


@pytest.mark.parametrize("x", [[0], [0, 10]])
def test_a_linear_axis_may_have_no_length(x):
    draw = draw_curves([Line("won", x, [0.5] * len(x), WIN)], "games", "score", distances=False, linear=("x", "y"))
    assert "0" in texts(as_svg(draw, "one", "scores"))


@pytest.mark.parametrize(("count", "letters"), [(1, 5), (3, 60), (12, 5), (12, 60)])
def test_a_legend_of_many_long_names_leaves_room_for_the_axes(count, letters):
    lines = [Line(f"{number:02}" + "x" * letters, [0, 1], [0.0, 1.0], WIN) for number in range(count)]
    picture = as_svg(
        draw_curves(lines, "score", "share", distances=False, linear=("x",)), "one", "", curves_size(lines)
    )
    heights = {text.text: float(text.get("y")) for text in ElementTree.fromstring(picture).iter("text")}
    assert heights["0.25"] - heights["0.75"] > 50


@pytest.mark.parametrize("letters", [5, 25, 60])
def test_a_legend_of_a_radar_is_not_cut_off(letters):
    lines = [Line(f"{number:02}" + "x" * letters, [], [0.5] * 3, WIN) for number in range(12)]
    picture = ElementTree.fromstring(as_svg(draw_radar(["a", "b", "c"], lines), "one", "", radar_size(lines)))
    width, height = map(float, picture.get("viewBox").split()[2:])
    [legend] = [group for group in picture.iter("g") if group.get("id") == "one-legend_1"]
    starts = [path.get("d").split()[1:3] for path in legend.iter("path") if path.get("d").startswith("M ")]
    places = [(float(x), float(y)) for x, y in starts] + [
        (float(t.get("x")), float(t.get("y"))) for t in legend.iter("text")
    ]
    assert len(places) >= 2 * len(lines)
    assert all(0 < x < width and 0 < y < height for x, y in places)


@pytest.mark.parametrize("count", [2, 14, 30])
def test_names_of_points_of_similar_value_do_not_overlap(count):
    values = [0.8 + 0.001 * number for number in range(count)]
    points = [IntervalRow(f"at {value:.3f}", Interval(value, value, value), cost=2.0) for value in values[::-1]]
    size = figure_size(max(9, count))
    picture = ElementTree.fromstring(as_svg(draw_pareto_front(points, "cost", "score"), "one", "", size))
    bottom = float(picture.get("viewBox").split()[3])
    names = sorted((t.text, float(t.get("y"))) for t in picture.iter("text") if t.text.startswith("at "))
    heights = [height for _, height in names]
    assert len(heights) == count
    assert all(low - high >= 10 for low, high in pairwise(heights))
    assert 8 < heights[-1] < heights[0] < bottom


def test_a_picture_of_a_study_is_the_same_files_each_time(tmp_path):
    draw = draw_curves(LINES, "games", "value lost", distances=True)
    png, svg = save_picture(tmp_path / "a", draw)
    again = save_picture(tmp_path / "b.png", draw)
    assert (png.name, svg.name) == ("a.png", "a.svg")
    assert png.read_bytes()[:4] == b"\x89PNG"
    assert [path.read_bytes() for path in again] == [png.read_bytes(), svg.read_bytes()]


def test_every_colour_of_a_file_that_is_dark_on_dark_has_a_rule_for_dark_grounds(tmp_path):
    _, svg = save_picture(tmp_path / "a", draw_curves(LINES, "games", "value lost", distances=True))
    style, *marks = [one for one in ElementTree.parse(svg).iter() if one.tag.endswith("}style") or one.get("style")]
    rules = dict(re.findall(r'\[style\*="([^"]*)"\]\{([^}]*)!important\}', style.text))
    used = {part for mark in marks for part in re.findall(r"(?:fill|stroke): #\w+", mark.get("style", ""))}
    assert {part for part in used if part.endswith(("#000000", "#ffffff", WIN.lower(), LOSS.lower()))} <= rules.keys()
    assert used - rules.keys() == {"stroke: #b0b0b0"}  # the grid is seen on both
    assert all(part.partition(":")[0] == rule.partition(":")[0] for part, rule in rules.items())


def test_without_matplotlib_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr(plots, "find_spec", lambda name: None)
    for call in (check_pictures, drawn, lambda: save_picture(tmp_path / "a", lambda figure: None)):
        with pytest.raises(ValueError, match=r"pip install .*\[report\]"):
            call()
    assert not list(tmp_path.iterdir())
