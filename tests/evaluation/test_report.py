"""Pages of runs: what they say is what the exact functions say, whatever the run's files hold."""

import html
import json
import re
import shlex
import shutil
from pathlib import Path
from urllib.parse import unquote
from xml.etree import ElementTree

import numpy as np
import pytest
from pages import CHROMIUM, looked_at, widths

from baselines.retrograde.solver import solve
from evaluation.cost import read_cost
from evaluation.exact.dynamic_programming import Outcome
from evaluation.exact.estimate import affordable
from evaluation.exact.strength import Strength, first_choice, strength_of, worst_positions
from evaluation.matches.score import Score
from evaluation.policy_snapshots import CHOICES, read_choices
from evaluation.reports import plots
from evaluation.reports import run as run_page
from evaluation.reports.curves import MAX_MARKS, rates, thin_out
from evaluation.reports.html import MAX_OPACITY, encode_url, macro
from evaluation.reports.overview import Compared, Played, write_overview
from evaluation.reports.run import REPORT, write_report
from evaluation.run_files import read_metrics
from learners.checkpoint import CHECKPOINT, CONFIG, COST, METRICS, load_policy
from ttt_apps import train
from ttt_envs.game.boards import Boards, coordinate
from ttt_envs.game.rules import Game

SKIP = Game(skip_chance=0.25)


def trained(folder, *options, games=600):
    marks = ("--games", str(games), "--log-every", "100")
    train.main([*marks, *options, "--overwrite", "--no-report", "--out", str(folder)])
    return folder


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """Whether something is quickly computed is not asked of the clock, which other work slows down."""
    monkeypatch.setattr(run_page, "affordable", lambda game, policy: affordable(game, policy, seconds=1e9))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A run of tabular Q-learning with skips, measured exactly on the way, in a folder with a difficult name."""
    folder = tmp_path_factory.mktemp("runs") / "a <b> & \"ü\" 'c' d:e"
    return trained(folder, "--skip-chance", "0.25", "--epsilon", "0.2", "--exact-every", "100")


@pytest.fixture
def run(made, tmp_path):
    """A copy of it that may be damaged."""
    return shutil.copytree(made, tmp_path / made.name)


# ---------------------------------------------------------------------------------------------------------------------
# What it says


def test_the_page_says_how_good_the_run_is_as_the_exact_functions_do(run):
    policy = load_policy(SKIP, str(run))
    strength = strength_of(SKIP, policy, ["random", "optimal"])
    page = looked_at(write_report(run, strength))
    words = page.text()
    assert f"whoever knows it gets {strength.exploitability:.4f} a game more than perfect play allows" in words
    assert f"it gives away {strength.regret:.4f} by an average move" in words
    marks = read_choices(run, SKIP)
    assert "Its first move on the way" in words
    for mark in (marks[0], marks[-1]):
        assert f"{mark.games} games" in words
    results = next(table["cells"] for table in page.tables if table["class"] == "data")
    wanted = []
    for opponent in ("random", "optimal"):
        for one in (strength.results[opponent], *strength.seats[opponent]):
            wanted += [float(part) for part in one]
    assert [float(cell) for cell in results if cell] == pytest.approx(wanted, abs=6e-5)


def test_perfect_play_is_said_plainly(run):
    seats = (Outcome(0.5, 0.5, 0.0), Outcome(0.25, 0.75, 0.0))
    words = looked_at(write_report(run, Strength(1e-17, 0.0, {"optimal": seats}))).text()
    assert "It plays perfectly" in words
    assert "against optimal it wins 37.5%, draws 62.5% and loses 0%" in words.lower()


def test_heat_maps_have_the_numbers_of_the_solver_and_of_the_learner(run):
    page = looked_at(write_report(run, None))
    choice = first_choice(SKIP, load_policy(SKIP, str(run)), solution=solve(SKIP))
    assert page.map("Exact values") == pytest.approx(solve(SKIP).action_values(Boards.start(SKIP))[0], abs=0.0051)
    assert page.map("What it expects") == pytest.approx(choice.own, abs=0.0051)
    assert page.map("What it plays") == pytest.approx(choice.probabilities, abs=0.0051)


def test_the_positions_where_it_loses_most_are_shown_with_their_loss_and_best_moves(run):
    policy = load_policy(SKIP, str(run))
    found = worst_positions(SKIP, policy), worst_positions(SKIP, policy, "random")
    page = looked_at(write_report(run, None))
    labels = [named["aria-label"] for tag, named in page.tags if "best: " in named.get("aria-label", "")]
    assert len(labels) == len(found[0]) + len(found[1]) == 10
    for label, one in zip(labels, found[0] + found[1], strict=True):
        best = re.search(r"best: (.*)\.", label)[1]
        assert best.split(", ")[:4] == [coordinate(int(cell), SKIP) for cell in one.choice.best[:4]]
        likeliest = f"plays {coordinate(int(one.choice.played[0]), SKIP)} ("
        assert likeliest in label
    words = page.text()
    for one in found[0] + found[1]:
        assert f"loses {one.loss:.4f}" in words.replace("loses 1 in", "loses 1.0000 in")


def test_the_sample_game_is_the_same_each_time_and_names_what_moves_cost(run):
    pages = [looked_at(write_report(run, None)).text() for _ in range(2)]
    assert pages[0] == pages[1]
    game = pages[0][pages[0].index("A game") : pages[0].index("Where it loses most")]
    assert "It has o and plays random, who has x" in game
    assert game.count("gives away") == int(re.search(r"after (\d+) moves", game)[1])


def test_curves_are_drawn_of_what_was_measured(run):
    text = write_report(run, None).read_text()
    labels = re.findall(r'<svg role="img" aria-label="([^"]*)"', text)
    rows = read_metrics(run)
    measured = [row for row in rows if "exploitability" in row]
    assert len(labels) == 3
    ends = [f"exploitability from {measured[0]['exploitability']:.4g} to {measured[-1]['exploitability']:.4g}"]
    ends += [f"won from {measured[0]['exact_win']:.4g} to {measured[-1]['exact_win']:.4g}", "drawn from "]
    for end, label in zip(ends, labels, strict=True):
        assert end in label
    assert all(f"up to {rows[-1]['games']:,}" in label for label in labels)


def test_cost_is_told_by_phase(run):
    words = looked_at(write_report(run, None)).text()
    for name, phase in json.loads((run / COST).read_text())["phases"].items():
        assert f"{name}{phase['cpu_user_s']:,.2f} s{phase['cpu_system_s']:,.2f} s{phase['wall_s']:,.2f} s" in words


def test_the_command_on_the_page_trains_the_same_again(run, tmp_path):
    page = write_report(run, None).read_text()
    line = next(line for line in html.unescape(page).splitlines() if "python train.py --learner" in line)
    words = shlex.split(line[line.index("python train.py") :])
    again = tmp_path / "again"
    words[words.index("--out") + 1] = str(again)
    train.main([*words[2:], "--no-report"])
    was, now = (json.loads((folder / CONFIG).read_text()) for folder in (run, again))
    for name in ("game", "learner", "settings", "opponent", "seat", "games", "batch", "seed"):
        assert was[name] == now[name], name
    assert shlex.join(["python", "train.py", "--resume", str(run)]) in html.unescape(page)
    assert (run / CHECKPOINT).name in page


# ---------------------------------------------------------------------------------------------------------------------
# Other games, other learners, and what is missing


@pytest.mark.parametrize(
    ("options", "game"),
    [
        (("--size", "5x6", "--win-length", "4", "--opponent", "self", "--bootstrap", "ply"), Game(5, 6, 4)),
        (("--size", "5", "--win-length", "4", "--skip-chance", "0.1"), Game(5, 5, 4, 0.1)),
        (("--size", "19", "--win-length", "5"), Game(19, 19, 5)),
        (("--size", "1x16", "--win-length", "3", "--seat", "second"), Game(1, 16, 3)),
    ],
)
def test_other_boards_have_pages_and_say_what_is_left_out(tmp_path, options, game):
    run = trained(tmp_path / "run (1), old", *options, games=60)
    page = looked_at(write_report(run, None))
    words = page.text()
    assert f"q-learning, {game}" in words
    assert "How good it is has not been computed" in words
    assert "python evaluate.py match 'run:(" in words
    if game.cells > 16:
        assert "up to 16 cells" in words
        assert "best: " not in str(page.tags)
    moves = int(re.search(r"after (\d+) moves", words)[1])
    shown = [named["class"] for _, named in page.tags if "board" in named.get("class", "").split()]
    assert shown.count("board small") == (moves if game.cells <= 36 else 0)
    if game.cells > 36:
        assert shown == ["board"]
        assert f" {moves}" in words


def test_a_net_s_error_is_drawn_by_steps_and_its_teacher_s_results_are_not_its_own(run):
    rows = [{"games": 40, "iterations": n, "loss": 1 / (n + 1), "wins": 3, "draws": 0, "losses": 1} for n in range(5)]
    (run / METRICS).write_text("".join(json.dumps(row) + "\n" for row in rows))
    page = looked_at(write_report(run, None))
    assert "Curves by steps of the optimizer, up to 4: loss from 1 to 0.2." in str(page.tags)
    assert "won from" not in str(page.tags)


@pytest.mark.slow
@pytest.mark.needs("tensorflow")
def test_a_learner_with_a_loop_of_its_own_has_a_page(tmp_path):
    few = ("--games", "6", "--teacher", "expectiminimax:depth=1", "--iterations", "20", "--log-iterations", "5")
    train.main(["--learner", "value-net", *few, "--no-report", "--out", str(tmp_path / "net")])
    page = looked_at(write_report(tmp_path / "net", None))
    assert "value-net learned 3 x 3, 3 to win from games of its teacher expectiminimax:depth=1" in page.text()
    assert "held out loss from" in str(page.tags)
    assert "won from" not in str(page.tags)


def test_without_matplotlib_the_page_has_its_boards_and_says_what_to_install(run, monkeypatch):
    monkeypatch.setattr(plots, "find_spec", lambda name: None)
    page = looked_at(write_report(run, None))
    assert "pip install matplotlib" in page.text()
    assert "svg" not in {tag for tag, _ in page.tags}
    assert page.map("Exact values")
    assert "won from" in page.text()


def test_a_policy_without_exact_answers_has_a_page(run, monkeypatch):
    class Moody:
        pure = False

        def probabilities(self, boards, rng=None):
            return (boards.cells == 0) / (boards.cells == 0).sum(axis=1, keepdims=True)

        def act(self, boards, rng):
            return (boards.cells == 0).argmax(axis=1)

    monkeypatch.setattr(run_page, "load_policy", lambda game, path: Moody())
    page = looked_at(write_report(run, None))
    assert page.map("What it plays") == pytest.approx([0.11] * 9)
    assert "Left out: what moves lose" in page.text()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("[1, 2]\n", "line 1 of"),
        ('{"games": 1}\n{"games": "<b>"}\n', "line 2 of"),
        ('{"games": 5, "wins": NaN}\n', "line 1 of"),
        ('{"games": 5, "wins": 1e999}\n', "line 1 of"),
        ('{"games": 5, "wins": true}\n', "line 1 of"),
        ('{"wins": 5}\n', "line 1 of"),
        ('{"games": -5}\n', "fewer games than there were before"),
        ('{"games": 5}\n{"games": 4}\n', "fewer games than there were before"),
        ('{"games": 5}\n{"ga', "cannot be read"),
        ("[" * 100_000, "cannot be read"),
    ],
)
def test_marks_that_are_none_are_refused_in_a_sentence(tmp_path, content, said):
    (tmp_path / METRICS).write_text(content)
    with pytest.raises(ValueError, match=said):
        read_metrics(tmp_path)


@pytest.mark.parametrize(
    "content", ["nonsense", "[]", "{}", '{"phases": []}', '{"phases": {"a": 1}}', '{"phases": {"a": {"wall_s": 1}}}']
)
def test_a_cost_that_is_none_is_refused_in_a_sentence(tmp_path, content):
    (tmp_path / COST).write_text(content)
    with pytest.raises(ValueError, match=COST):
        read_cost(tmp_path)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        (METRICS, '{"<i>": "<b>"}\n', "The curves are left out: line 1 of"),
        (METRICS, "", "Nothing was logged"),
        (CHOICES, '{"<i>": 1}', "The boards on the way are left out: line 1 of"),
        (METRICS, '{"games": 0}\n', "not measured exactly"),
        (COST, '{"phases": {"<i>": {"wall_s": 1}}}', "holds no cost by phase"),
        (CHECKPOINT, "nonsense", "The boards are left out"),
    ],
)
def test_damaged_files_are_left_out_and_a_sentence_says_so(run, name, content, said):
    (run / name).write_text(content)
    page = looked_at(write_report(run, None))
    assert said in page.text()
    assert not {"i", "b"} & {tag for tag, named in page.tags if "aria-hidden" not in named}


def test_a_run_without_metrics_and_cost_has_a_page(run):
    for name in (METRICS, COST):
        (run / name).unlink()
    words = looked_at(write_report(run, None)).text()
    assert "Nothing was logged" in words
    assert f"there is no {COST}" in words


@pytest.mark.parametrize("game", [5, [], {"rows": "x"}, {"rows": 99}, {"format": 7}])
def test_settings_that_are_none_are_refused_in_a_sentence(run, game):
    config = json.loads((run / CONFIG).read_text())
    (run / CONFIG).write_text(json.dumps({**config, "game": game}))
    with pytest.raises(ValueError, match="cannot be read as the settings of a run"):
        write_report(run, None)


def test_whatever_stands_in_the_settings_is_shown_and_never_becomes_part_of_the_page(run):
    config = json.loads((run / CONFIG).read_text())
    evil = {"opponent": "<script>alert(1)</script>", "seat": '"><b>', "games": "<i>", "seed": -1, "revision": "</pre>"}
    (run / CONFIG).write_text(json.dumps({**config, **evil, "learner": "<u>"}))
    page = looked_at(write_report(run, None))
    assert "<script>alert(1)</script>" in page.text()
    assert not {"b", "u"} & {tag for tag, _ in page.tags}


# ---------------------------------------------------------------------------------------------------------------------
# Several runs


def test_the_overview_compares_runs_and_links_lead_there_and_back(made, tmp_path):
    folder = tmp_path / "de mo"
    runs = []
    strength = strength_of(SKIP, load_policy(SKIP, str(made)), ["random"])
    for name in ("<&>", "ü\"x'", "c:d 50%"):
        runs.append(Compared(f"q {name}", shutil.copytree(made, folder / name), strength))
        write_report(runs[-1].run, strength, back="../" + REPORT)
    score = Score(np.array([[10, 2, 3], [1, 20, 4], [5, 6, 7]]))
    played = [Played("q <&>", "q y", score, Outcome(0.25, 0.5, 0.25)), Played("q z", "x", score, None)]
    page = looked_at(write_overview(folder, "Learners & <more>", runs, played))
    links = [named["href"] for tag, named in page.tags if tag == "a"]
    assert len(links) == len(runs)
    for link, one in zip(links, runs, strict=True):
        assert re.fullmatch(r"[A-Za-z0-9%._/-]+", link)
        assert (folder / unquote(link)).samefile(one.run / REPORT)
        back = [named["href"] for tag, named in looked_at(one.run / REPORT).tags if tag == "a"]
        assert (one.run / unquote(back[0])).samefile(folder / REPORT)
    words = page.text()
    assert "Learners & <more>" in words
    assert "None of them plays perfectly" in words
    rate = score.rate("score")
    assert f"{rate.mean:.4f}{rate.low:.4f} to {rate.high:.4f}0.5000, inside" in words
    assert f"q z against x{score.games:,}" in words
    assert f"{strength.exploitability:.4f}{strength.regret:.4f}600" in words
    [svg] = re.findall(r"<svg.*?</svg>", (folder / REPORT).read_text(), re.DOTALL)
    assert {f"q {name}" for name in ("<&>", "c:d 50%")} <= set(ElementTree.fromstring(svg).itertext())


def test_the_overview_has_runs_of_which_little_is_known(run, tmp_path):
    (run / METRICS).write_text("nonsense")
    (run / COST).unlink()
    page = looked_at(write_overview(tmp_path, "One", [Compared("q", run, None)]))
    assert "not computed" in page.text()
    assert "Left out of q: " in page.text()
    assert looked_at(write_overview(tmp_path, "None", [])).text()


# ---------------------------------------------------------------------------------------------------------------------
# Pieces


def test_marks_are_thinned_evenly_on_the_logarithmic_axis_and_keep_their_ends():
    rows = [{"games": games, "wins": games // 2} for games in range(0, 1_000_000, 50)]
    few = thin_out(rows)
    assert (few[0], few[-1]) == (rows[0], rows[-1])
    assert 50 < len(few) <= MAX_MARKS
    games = [row["games"] for row in few]
    assert games == sorted(set(games))
    assert sum(mark < 10_000 for mark in games) > sum(mark >= 100_000 for mark in games)
    assert thin_out(rows[:5]) == rows[:5]


def test_rates_are_of_the_games_between_two_marks():
    rows = [{"games": 10, "wins": 5}, {"games": 10, "wins": 5}, {"games": 30, "wins": 25}]
    assert rates(rows, "wins") == ([10, 30], [0.5, 1.0])


def test_files_that_are_not_there_hold_nothing(tmp_path):
    assert (read_metrics(tmp_path), read_cost(tmp_path)) == ([], {})


def test_elements_escape_all_but_elements():
    inner = macro("link", '"', "<&>")
    assert inner == '<a href="&#34;">&lt;&amp;&gt;</a>'
    assert macro("emphasis", inner) == f"<em>{inner}</em>"
    assert encode_url("a:b/c d%") == "a%3Ab/c%20d%25"


def luminance(colour):
    parts = [part / 255 for part in colour]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one, other):
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("dark", [False, True])
def test_text_can_be_read_in_light_and_in_dark_on_plain_and_on_coloured_ground(dark):
    style = Path(run_page.__file__).parent.joinpath("templates", "style.css").read_text()
    roots = re.findall(r":root \{(.*?)\}", style, re.DOTALL)
    blocks = [dict(re.findall(r"--([\w-]+):\s*([^;}]+)", root)) for root in roots]
    shown = {**blocks[0], **(blocks[1] if dark else {})}
    colours = {name: tuple(bytes.fromhex(value.strip()[1:])) for name, value in shown.items() if value.startswith("#")}
    for ground in ("ground", "raised"):
        for text in ("text", "quiet", "link", "o", "x"):
            assert contrast(colours[text], colours[ground]) >= 4.5, (text, ground)
    for part in ("win-part", "loss-part"):
        colour = [int(number) for number in shown[part].split()]
        mixed = [MAX_OPACITY * a + (1 - MAX_OPACITY) * b for a, b in zip(colour, colours["ground"], strict=True)]
        assert contrast(colours["text"], mixed) >= 4.5, part
    assert (colours["win"], colours["draw"], colours["loss"]) == tuple(
        tuple(bytes.fromhex(colour[1:])) for colour in plots.RESULTS
    )


# ---------------------------------------------------------------------------------------------------------------------
# In a browser


@pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium to look at pages with")
@pytest.mark.parametrize("size", ["3", "19"])
def test_a_browser_shows_pages_of_any_width_without_scrolling_aside_and_without_complaint(made, tmp_path, size):
    if size == "3":
        strength = strength_of(SKIP, load_policy(SKIP, str(made)), ["random", "win-or-block", "optimal"])
        runs = [Compared(f"learner {index}", made, strength) for index in range(4)]
        pages = [write_report(made, strength), write_overview(tmp_path, "All", runs, [])]
    else:
        big = trained(tmp_path / "big", "--size", size, "--win-length", "5", games=20)
        pages = [write_report(big, None)]
    found = widths(pages, tmp_path)
    assert len(found) == 3 * len(pages)
    for width, needed, height, _ in found:
        assert needed <= width
        assert height > 1_000
