"""Pages of runs: their numbers are those of the exact functions; unfinished runs have a page,
too.
"""

import html
import json
import re
import shlex
import shutil
from urllib.parse import unquote

import numpy as np
import pytest
import tiny
from commands import words_of
from json_files import read_json
from pages import check_in_browser, in_browser, read_page
from scipy.special import stdtrit
from small_games import SKIP_GAME

from baselines.exact import solve
from learners import CONFIG
from learners.checkpoint import CHECKPOINT, COST, METRICS, RunPolicy
from ttt_apps.training import command as train
from ttt_envs.game.boards import Boards, coordinate, from_text
from ttt_envs.game.game import Game
from ttt_envs.game.phantom import PhantomGame
from ttt_eval import exact, record
from ttt_eval.exact.results import Exploitation, OutcomeProbabilities
from ttt_eval.exact.strength import Strength, first_choice, strength, worst_positions
from ttt_eval.reports import plots
from ttt_eval.reports.formats import explorer_command, format_interval, number
from ttt_eval.reports.groups import measure_groups
from ttt_eval.reports.page import write_report
from ttt_eval.reports.parts import choice_board
from ttt_eval.reports.runs import MAX_MARKS, rates, read_runs, runs_report, thin_out, write_run_page
from ttt_eval.runs.curves import group_curves, read_curves
from ttt_eval.runs.run_files import FIRST, REPORT, RunDirectory

pytestmark = pytest.mark.more

SECTIONS = [
    "Learning curves",
    "The first move",
    "A sample game",
    "Worst positions",
    "Cost",
    "Settings",
]


def train_run(folder, *options, games=600):
    line = f"--games {games} --log-every 100 --overwrite --no-report"
    train.main(words_of(line, *options, "--out", folder))
    return folder


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run of tabular Q-learning with skips and exact measurements, in a folder with a difficult
    name.
    """
    folder = tmp_path_factory.mktemp("runs") / "a <b> & \"ü\" 'c' d:e"
    return train_run(folder, "--skip-chance 0.25 --epsilon 0.2 --exact-every 100")


@pytest.fixture
def run(trained, tmp_path):
    """A copy of it that may be changed."""
    return shutil.copytree(trained, tmp_path / trained.name)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Three runs; the last one has another setting."""
    folder = tmp_path_factory.mktemp("runs")
    for name, words in (("a", ()), ("b <i>", ("--seed=1",)), ("c", ("--epsilon=0.6",))):
        tiny.train_run("q-learning", folder / name, "--exact-every=10", *words)
    return [folder / name for name in ("a", "b <i>", "c")]


def page_of(run, exact=None):
    return read_page(write_run_page(run, exact))


def write_runs(path, runs, *progress):
    return write_report(path, runs_report(read_runs(path, runs, *progress)))


# --------------------------------------------------------------------------------------------------
# One run


def test_numbers_of_a_page_are_exact(run):
    policy = RunPolicy(SKIP_GAME, str(run))
    measured = strength(SKIP_GAME, policy, ["random", "optimal"])
    choice = first_choice(SKIP_GAME, policy, solution=solve(SKIP_GAME))
    page = page_of(run, measured)
    assert [line[3:] for line in page.outline if line.startswith("h2")] == SECTIONS
    assert f"a best response gains {measured.exploitability:.4f} a game more" in page.text()
    cells = [float(cell) for cell in page.tables[0] if cell]
    outcomes = [
        result
        for name, by_seat in measured.seats.items()
        for result in (measured.results[name], *by_seat)
    ]
    assert cells == pytest.approx(np.ravel(outcomes), abs=6e-5)
    for title, values in (
        ("Exact values", choice.exact),
        ("Its own values", choice.own),
        ("Move probabilities", choice.probabilities),
    ):
        assert page.map(title) == pytest.approx(values, abs=0.0051)
    mistakes = [*worst_positions(SKIP_GAME, policy), *worst_positions(SKIP_GAME, policy, "random")]
    labels = [label for label in page.attributes("aria-label") if "best: " in label]
    for label, mistake in zip(labels, mistakes, strict=True):
        best = re.search(r"best: (.*)\.", label)[1].split(", ")[:4]
        assert best == [coordinate(int(cell), SKIP_GAME) for cell in mistake.choice.best[:4]]
        assert f"loses {number(mistake.loss)} in" in page.text()
    [first, *_] = [row for row in RunDirectory(run).read_metrics() if f"{FIRST}b2" in row]
    assert sum(share for name, share in first.items() if name.startswith(FIRST)) == pytest.approx(1)
    assert f"{first['games']} games" in page.text()
    costs = read_json(run / COST)["phases"]
    assert all(f"{cost['wall_s']:,.2f} s" in page.text() for cost in costs.values())


def test_curves_have_the_measured_numbers(run):
    labels = re.findall(
        r'<svg role="img" aria-label="([^"]*)"', write_run_page(run, None).read_text()
    )
    rows = RunDirectory(run).read_metrics()
    first, *_, last = [row for row in rows if "exploitability" in row]
    ends = [f"exploitability from {first['exploitability']:.4g} to {last['exploitability']:.4g}"]
    ends += [f"won from {first['exact_win']:.4g} to {last['exact_win']:.4g}", "drawn from "]
    for end, label in zip(ends, labels, strict=True):
        assert end in label
        assert f"up to {rows[-1]['games']:,}" in label


def test_the_sample_game_is_reproducible_and_shows_the_loss_of_each_move(run):
    words = page_of(run).text()
    assert words == page_of(run).text()
    game = words[words.index("A sample game") : words.index("Worst positions")]
    assert "It has o and plays random, who has x" in game
    assert game.count("loses ") == int(re.search(r"after (\d+) moves", game)[1])


def test_perfect_play_has_its_sentence(run):
    draw = OutcomeProbabilities(1e-17, 1.0, 0.0)
    measured = Strength(Exploitation(draw, draw, 0.0), [], {})
    assert "It plays perfectly" in page_of(run, measured).text()


@pytest.mark.parametrize(
    "options",
    [
        "--backup agent --openings random:1-2",  # both usual elsewhere
        "--learner ppo --hidden 4 --openings=",
    ],
)
def test_the_command_on_the_page_repeats_the_training(run, tmp_path, train_py, options):
    train_run(run, "--skip-chance 0.25 --opponent self", options, games=100)
    page = html.unescape(write_run_page(run, None).read_text())
    words = shlex.split(re.search("python train.py --learner.*", page)[0])
    words[words.index("--out") + 1] = str(tmp_path / "again")
    train_py(shlex.join(words[2:]), "--no-report")
    old, new = (read_json(folder / CONFIG) for folder in (run, tmp_path / "again"))
    for name in {*old} - {"log_every", "exact_every"}:
        assert old[name] == new[name], name
    assert shlex.join(["python", "train.py", "resume", str(run)]) in page


@pytest.mark.parametrize(
    ("options", "game"),
    [
        ("--size 5x6 --win-length 4 --opponent self --backup negamax", Game(5, 6, 4)),
        ("--size 19 --win-length 5", Game(19, 19, 5)),
        ("--size 1x16 --win-length 3 --seat second", Game(1, 16, 3)),
        ("--phantom classic", PhantomGame(kind="classic")),
    ],
)
def test_pages_of_other_games_name_what_is_left_out(tmp_path, options, game):
    page = page_of(train_run(tmp_path / "run (1), old", options, games=60))
    words = page.text()
    assert f"q-learning, {game}" in words
    assert ("Its strength has not been computed, which takes" in words) == (game.cells < 30)
    assert ("Its strength cannot be computed" in words) == (game.cells >= 30)
    assert "python evaluate.py match 'run:(" in words
    boards = page.attributes("class").count("board small")
    moves = re.search(r"after (\d+) moves", words)
    assert boards == (0 if moves is None else min(36, int(moves[1])))


def test_the_loss_of_a_net_is_drawn_by_steps_without_the_results_of_its_teacher(run):
    rows = [
        {"games": 40, "iterations": n, "loss": 1 / (n + 1), "wins": 3, "draws": 0, "losses": 1}
        for n in range(5)
    ]
    (run / METRICS).write_text("".join(json.dumps(row) + "\n" for row in rows))
    tags = str(page_of(run).tags)
    assert "Curves by steps of the optimizer, up to 4: loss from 1 to 0.2." in tags
    assert "won from" not in tags


def test_a_section_without_parts_is_left_out(run):
    (run / METRICS).write_text('{"games": 5, "exploitability": 0.1}\n')
    assert "Learning curves" not in page_of(run).text()


def test_without_matplotlib_the_page_has_its_boards_and_names_the_package(run, monkeypatch):
    monkeypatch.setattr(plots, "find_spec", lambda name: None)
    page = page_of(run)
    assert "[report]" in page.text()
    assert "won from" in page.text()
    assert "svg" not in page.names()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (METRICS, "Nothing was logged"),
        (COST, f"there is no {COST}"),
        (CHECKPOINT, "There is no checkpoint yet"),
    ],
)
def test_files_that_an_unfinished_run_lacks_are_left_out(run, name, message):
    (run / name).unlink()
    assert message in page_of(run).text()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (METRICS, f'{{"games": 1}}\n{{"games": {10**30}}}\n', "line 2 of"),
        (METRICS, '{"games": 5}\n{"games": 4}\n', "line 2 of"),
        (COST, '{"phases": {"a": 1}}', COST),
        (CHECKPOINT, "nonsense", CHECKPOINT),
    ],
)
def test_a_damaged_file_is_named_in_one_sentence(run, name, content, message):
    (run / name).write_text(content)
    with pytest.raises(ValueError, match=message):
        write_run_page(run, None)


# --------------------------------------------------------------------------------------------------
# Several runs


def test_numbers_of_several_runs_are_exact(runs, tmp_path):
    steps = []
    page = read_page(
        write_runs(tmp_path / "page.html", runs, lambda done, total: steps.append((done, total)))
    )
    assert steps == [(done, 6) for done in range(1, 7)]  # three runs, and three pairs
    policies = [RunPolicy(tiny.GAME, str(run)) for run in runs]
    _, _, table, matrix, settings = page.tables  # before them are those of settings over seeds
    values = [exact.exploitability(tiny.GAME, policy) for policy in policies]
    assert [float(value) for value in table[::8]] == pytest.approx(values, abs=1e-4)
    against_random = exact.match_outcome(tiny.GAME, policies[0], "random")
    for cell, result in (
        (table[3], against_random),
        (matrix[1], exact.match_outcome(tiny.GAME, *policies[:2])),
    ):
        assert float(cell[:6]) == pytest.approx(result.score, abs=1e-4)
        assert f"{result.win:.2f} / {result.draw:.2f} / {result.loss:.2f}" in cell
    assert [cell for cell in settings if cell in ("0.3", "0.6")] == ["0.3", "0.3", "0.6"]  # epsilon


def test_unfinished_runs_are_compared_and_noted(runs, tmp_path):
    begun, waiting = (shutil.copytree(runs[0], tmp_path / name) for name in ("begun", "waiting"))
    lines = (begun / METRICS).read_bytes().splitlines(keepends=True)
    (begun / METRICS).write_bytes(
        b"".join(lines[:3]) + lines[3][:9]
    )  # the last line is being written
    (waiting / CHECKPOINT).unlink()
    page = read_page(write_runs(tmp_path / "page.html", [begun, waiting, waiting])).text()
    assert "begun is unfinished" in page
    assert "not computed" in page
    assert "evaluate.py match" in page


def test_the_command_writes_a_page_with_links_to_those_of_the_runs(runs, tmp_path, evaluate_py):
    path = runs[0].parent / "two.html"
    for run in runs[:2]:
        (run / REPORT).write_text("")
    assert f"a page to look at: {path}" in evaluate_py.text("compare", *runs[:2], "--out", path)
    hrefs = read_page(path).attributes("href", "a")
    assert all(
        (path.parent / unquote(link)).samefile(run / REPORT)
        for link, run in zip(hrefs, runs[:2], strict=True)
    )
    assert all(re.fullmatch(r"[A-Za-z0-9%._/-]+", link) for link in hrefs)
    evaluate_py.text("compare", runs[0], "--out", path, "--overwrite")
    assert "It does not play perfectly" in read_page(path).text()
    other = tiny.train_run("q-learning", tmp_path / "other", "--skip-chance=0")
    assert "different games" in evaluate_py.error("compare", runs[0], other)


@pytest.fixture(scope="module")
def curves(tmp_path_factory):
    """A folder of recorded curves: five seeds of a good rule and of a bad one."""
    folder = tmp_path_factory.mktemp("curves")
    for rule, level in (("good", 0.1), ("bad", 0.6)):
        for seed in range(5):
            for games in (0, 10, 40):
                policy = f"optimal:epsilon={level + 0.02 * seed + 0.1 / (1 + games)}"
                record(
                    folder / f"{rule}-{seed}",
                    tiny.GAME,
                    policy,
                    games,
                    learner="mine",
                    seed=seed,
                    rule=rule,
                )
    return folder


def test_recorded_curves_are_measured_runs_without_policies(
    curves, tmp_path, evaluate_py, train_py
):
    good = curves / "good-1"
    bad = curves / "bad-1"
    evaluate_py.text("compare", good, bad, "--out", tmp_path / "page.html")
    page = read_page(tmp_path / "page.html")
    last = [RunDirectory(run).read_metrics()[-1]["exploitability"] for run in (good, bad)]
    values = f"exploitability {number(last[0])}; next is bad-1, exploitability {number(last[1])}"
    assert f"good-1 is best of these 2 runs: {values}" in page.text()
    assert [page.tables[0][0], page.tables[0][8]] == [number(value) for value in last]
    assert "evaluate.py match" not in page.text()
    evaluate_py.text("compare", good, "--out", tmp_path / "good.html")
    assert f"good-1: exploitability {number(last[0])}" in read_page(tmp_path / "good.html").text()
    for words in (
        ("report", good),
        ("match", f"run:{good}", "random", "--size=2x3", "--win-length=2"),
    ):
        assert f"{good} is a recorded curve" in evaluate_py.error(*words)
    assert f"{good} is a recorded curve" in train_py.error("resume", good)


def test_settings_are_compared_over_their_seeds(curves, tmp_path, evaluate_py):
    evaluate_py.text("compare", curves, "--out", tmp_path / "page.html")
    page = read_page(tmp_path / "page.html")
    assert "mine, rule good is best of 2 settings: exploitability at the end" in page.text()
    at_end, average = measure_groups(group_curves(read_curves([curves])))
    bad, good = at_end.values
    rows = {
        rule: [RunDirectory(curves / f"{rule}-{seed}").read_metrics() for seed in range(5)]
        for rule in ("bad", "good")
    }
    difference = at_end.difference(good, bad)
    ends = {
        rule: np.array([run[-1]["exploitability"] for run in runs]) for rule, runs in rows.items()
    }
    assert difference.mean == pytest.approx(ends["good"].mean() - ends["bad"].mean())
    # Student's t of two samples with equal variances, at the level of two statements
    error = ((ends["good"].var(ddof=1) + ends["bad"].var(ddof=1)) / 5) ** 0.5
    assert difference.high - difference.mean == pytest.approx(
        stdtrit(8, 1 - 0.025 / 2) * error, rel=0.1
    )
    assert (at_end.improvement(good, bad), at_end.improvement(bad, good)) == (1, 0)
    first, second, third = (
        [row["exploitability"] for row in marks] for marks in zip(*rows["good"], strict=True)
    )
    areas = (np.add(first, second) / 2 * 10 + np.add(second, third) / 2 * 30) / 40
    assert average.values[good][:, 0] == pytest.approx(areas, rel=1e-3)
    assert format_interval(average.difference(bad, good)) in page.tables[1]
    few = [curves / f"{rule}-{seed}" for rule in rows for seed in range(4)]
    page = read_page(write_runs(tmp_path / "few.html", few))
    assert "Undecided, because there are fewer than 5 seeds" in page.text()


def test_more_runs_than_fit_a_page_are_compared_as_settings(curves, tmp_path):
    copies = [
        shutil.copytree(curves / "bad-0", tmp_path / "runs" / f"again-{copy}") for copy in range(3)
    ]
    page = read_page(write_runs(tmp_path / "page.html", [curves, *copies]))
    assert "13 runs side by side" in page.text()
    assert "The runs" not in page.outline


# --------------------------------------------------------------------------------------------------
# Parts


def test_commands_that_open_the_explorer():
    game = Game(3, 3, 3, 0.1234567, misere=True, torus=True)
    command = explorer_command(game, from_text("o../.x./... o", game))
    assert (
        shlex.split(command)[-1]
        == "skip=0.1234567&misere=true&torus=true&opening=o../.x./... o&o=you&x=you"
    )
    start = Boards.start(game).position(0)
    assert (
        explorer_command(Game(16, 16, 5), start)
        == explorer_command(Game(skip_chance=0.75), start)
        == ""
    )


def test_marks_are_thinned_evenly_on_the_log_axis_with_both_ends():
    rows = [{"games": games} for games in range(0, 1_000_000, 50)]
    few = thin_out(rows)
    assert (few[0], few[-1]) == (rows[0], rows[-1])
    assert 50 < len(few) <= MAX_MARKS
    assert sum(row["games"] < 10_000 for row in few) > sum(row["games"] >= 100_000 for row in few)


def test_rates_are_of_the_games_between_two_marks():
    rows = [
        {"games": games, "wins": wins, "draws": 0, "losses": 0}
        for games, wins in ((10, 5), (10, 5), (30, 25))
    ]
    assert [(row["games"], row["wins"]) for row in rates(rows)] == [(10, 0.5), (30, 1.0)]


def test_a_choice_lists_moves_by_probability():
    shares = np.array([0.2, 0, 0, 0, 0.7, 0, 0, 0, 0.1])
    board = choice_board(SKIP_GAME, Boards.start(SKIP_GAME).position(0), shares, [4], 0.5, 0.25)
    assert board.words == "o is to move, plays b2 (0.70), a1 (0.20), c3 (0.10); best: b2."
    assert board.cost == "loses 0.5000 in 25.0% of games"


@in_browser
@pytest.mark.parametrize("dark", [False, True])
def test_pages_are_accessible_and_fit_at_any_width(trained, runs, tmp_path, browser, dark):
    measured = strength(
        SKIP_GAME, RunPolicy(SKIP_GAME, str(trained)), ["random", "win-or-block", "optimal"]
    )
    large = train_run(tmp_path / "large", "--size 19 --win-length 5", games=20)
    pages = [
        write_run_page(trained, measured),
        write_run_page(large, None),
        write_runs(tmp_path / "page.html", runs),
    ]
    check_in_browser(browser, pages, dark=dark)
