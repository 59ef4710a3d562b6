"""Pages of runs: their numbers are those of the exact functions, whatever the run's files hold."""

import dataclasses
import html
import json
import re
import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest
import tiny
from pages import check_in_browser, needs_chromium, read_page

from baselines.exact import solve
from learners.checkpoint import CHECKPOINT, CONFIG, COST, METRICS, RunPolicy
from ttt_apps import cli, demo, train
from ttt_envs.agents.policy import Policy
from ttt_envs.game.boards import Boards, coordinate, to_text
from ttt_envs.game.game import Game
from ttt_envs.game.phantom import PhantomGame
from ttt_eval.exact.critics import critic_error
from ttt_eval.exact.dynamic_programming import OutcomeProbabilities
from ttt_eval.exact.strength import Strength, first_choice, strength, worst_positions
from ttt_eval.policy_snapshots import CHOICES, read_choices
from ttt_eval.reports import links, plots
from ttt_eval.reports import runs as run_page
from ttt_eval.reports.curves import MAX_MARKS, rates, thin_out
from ttt_eval.reports.formats import number
from ttt_eval.reports.page import MAX_OPACITY, encode_url
from ttt_eval.reports.parts import choice_board
from ttt_eval.reports.runs import read_runs, write_run_page
from ttt_eval.run_files import REPORT, RunDirectory

SKIP = Game(skip_chance=0.25)
OUTLINE = """\
h1 q-learning, 3 x 3, 3 to win, skip 0.25
table Exact results, by dynamic programming: nothing is sampled. Bold rows are the mean of both seats.
h2 Learning curves
summary The exact measurements as a table
table Measured during training
h3 Its first move during training
h2 The first move
h2 A sample game
h2 Worst positions
h3 In self-play
h3 Against random play, which reaches every position
h2 Error of its values
table Error by the number of stones
table Positions with the largest share in the error
h2 Cost
table By phase, as the operating system counts it
h2 Settings
summary Commands that repeat and continue the training
summary All settings, as config.json has them"""


def train_run(folder, *options, games=600):
    marks = ("--games", str(games), "--log-every", "100")
    train.main([*marks, *options, "--overwrite", "--no-report", "--out", str(folder)])
    return folder


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run of tabular Q-learning with skips and exact measurements, in a folder with a difficult name."""
    folder = tmp_path_factory.mktemp("runs") / "a <b> & \"ü\" 'c' d:e"
    return train_run(folder, "--skip-chance", "0.25", "--epsilon", "0.2", "--exact-every", "100")


@pytest.fixture
def run(trained, tmp_path):
    """A copy of it that may be damaged."""
    return shutil.copytree(trained, tmp_path / trained.name)


def text_of(run, strength=None):
    return read_page(write_run_page(run, strength)).text()


# ---------------------------------------------------------------------------------------------------------------------
# Contents


def test_strength_and_results_are_those_of_the_exact_functions(run):
    exact = strength(SKIP, RunPolicy(SKIP, str(run)), ["random", "optimal"])
    page = read_page(write_run_page(run, exact))
    words = page.text()
    assert "\n".join(line for line in page.outline if line != "summary explore") == OUTLINE
    assert f"a best response gains {exact.exploitability:.4f} a game more than against perfect play" in words
    assert f"an average move loses {exact.regret:.4f}" in words
    marks = read_choices(run, SKIP)
    assert all(f"{mark.games} games" in words for mark in (marks[0], marks[-1]))
    cells = next(table["cells"] for table in page.tables if table["class"] == "data")
    outcomes = [one for name in ("random", "optimal") for one in (exact.results[name], *exact.seats[name])]
    assert [float(cell) for cell in cells if cell] == pytest.approx(np.ravel(outcomes), abs=6e-5)


def test_perfect_play_has_its_sentence(run):
    seats = (OutcomeProbabilities(0.5, 0.5, 0.0), OutcomeProbabilities(0.25, 0.75, 0.0))
    words = text_of(run, Strength(1e-17, 0.0, {"optimal": seats}))
    assert "It plays perfectly" in words
    assert "Against optimal it wins 37.5%, draws 62.5% and loses 0%" in words


def test_heat_maps_have_the_numbers_of_the_solver_and_of_the_learner(run):
    page = read_page(write_run_page(run, None))
    choice = first_choice(SKIP, RunPolicy(SKIP, str(run)), solution=solve(SKIP))
    assert page.map("Exact values") == pytest.approx(solve(SKIP).action_values(Boards.start(SKIP))[0], abs=0.0051)
    assert page.map("Its own values") == pytest.approx(choice.own, abs=0.0051)
    assert page.map("Move probabilities") == pytest.approx(choice.probabilities, abs=0.0051)


def test_maps_of_equal_numbers_are_sentences(tmp_path):
    page = read_page(write_run_page(train_run(tmp_path / "run", "--opponent", "optimal", games=1), None))
    assert "Move probabilities" not in page.text()
    assert "It plays every first move with the same probability, 0.1111." in page.text()
    assert "It values every first move at 0. Every first move has the exact value 0." in page.text()


def test_boards_lead_to_the_explorer_and_to_the_page_without_a_server(run, monkeypatch):
    monkeypatch.setattr(links, "PLAY_PAGE", run.parent / "docs" / "play" / "index.html")
    assert read_page(write_run_page(run, None)).attributes("href", "a") == []
    links.PLAY_PAGE.parent.mkdir(parents=True)
    links.PLAY_PAGE.write_text("")
    page = read_page(write_run_page(run, None))
    assert {link.partition("#")[0] for link in page.attributes("href", "a")} == {"../docs/play/index.html"}
    worst = worst_positions(SKIP, RunPolicy(SKIP, str(run)))[0].choice.position
    text = to_text(worst, SKIP)
    opening = f"&opening={text}" * bool(worst.cells.any())
    seats = ("o=you&x=optimal", "o=optimal&x=you")[worst.mover]
    link = f"../docs/play/index.html#skip=0.25{opening}&{seats}".replace(" ", "%20")
    assert link in page.attributes("href", "a")
    command = links.explorer_command(SKIP, worst)
    assert command in page.text()
    assert shlex.split(command)[-1] == f"skip=0.25{opening}&o=you&x=you"


def test_positions_beyond_the_limits_have_no_link():
    for game in (Game(16, 16, 5), Game(skip_chance=0.75)):
        assert links.explorer_command(game) == ""
    start = Boards.start(SKIP).position(0)
    assert links.play_link(Game(4, 4, 3), start) == links.play_link(Game(skip_chance=0.6), start) == ""
    assert links.explorer_command(SKIP, None, [(4, False), (0, True)]).endswith("'skip=0.25&moves=b2.a1+&o=you&x=you'")


def test_boards_of_a_run_with_other_rules_lead_there_with_these_rules(tmp_path):
    game = Game(3, 3, 3, 0.25, misere=True, torus=True)
    start = Boards.start(game).position(0)
    address = f"{links.PLAY_SCHEME}#skip=0.25&misere=true&torus=true&o=you&x=optimal"
    assert links.play_link(game, start) == address
    command = links.explorer_command(game, None, [(4, True)])
    assert shlex.split(command)[-1] == "skip=0.25&misere=true&torus=true&moves=b2+&o=you&x=you"
    run = train_run(tmp_path / "run", "--misere", "--torus", "--size", "3", "--skip-chance", "0.25")
    page = read_page(write_run_page(run, None))
    assert "misere=true&torus=true" in page.text()
    falling = Game(4, 4, 4, gravity=True)
    assert "rows=4&columns=4&gravity=true&" in links.play_link(falling, Boards.start(falling).position(0))
    for other in (Game(4, 4, 4), Game(5, 4, 4, gravity=True), PhantomGame(kind="classic")):  # the page has no such game
        assert links.play_link(other, Boards.start(other).position(0)) == ""


def test_worst_positions_have_their_loss_and_best_moves(run):
    policy = RunPolicy(SKIP, str(run))
    found = [*worst_positions(SKIP, policy), *worst_positions(SKIP, policy, "random")]
    page = read_page(write_run_page(run, None))
    labels = [label for label in page.attributes("aria-label") if "best: " in label]
    assert len(labels) == len(found) == 10
    words = page.text().replace("loses 1 in", "loses 1.0000 in")
    for label, one in zip(labels, found, strict=True):
        best = re.search(r"best: (.*)\.", label)[1]
        assert best.split(", ")[:4] == [coordinate(int(cell), SKIP) for cell in one.choice.best[:4]]
        assert f"plays {coordinate(int(one.choice.played[0]), SKIP)} (" in label
        assert f"loses {one.loss:.4f} in" in words


@pytest.mark.needs("torch", "stable_baselines3")
def test_the_values_of_a_critic_are_those_of_its_actor(tmp_path):
    run = tiny.train_run("sb3-ppo", tmp_path / "run", "--exact-every", "0")
    game = Game(2, 3, 2, 0.25)
    policy = RunPolicy(game, str(run)).learner
    assert policy.actor is not None
    found = critic_error(game, policy.actor, "random", policy)
    assert "exact values of its actor, which samples moves, against random" in text_of(run)
    assert f"root mean square error {number(found.root_mean_square)}" in text_of(run)


@pytest.mark.parametrize(
    ("options", "against", "settings", "words"),
    [
        ("", "random", {}, "without discount"),
        ("--gamma=0.5 --seat=second", "random", {"discount": 0.5, "seat": 1}, "moving second, with the discount 0.5"),
        ("--gamma=0.5 --opponent=self --backup=agent", None, {"discount": 0.5}, "with the discount 0.5"),
        ("--gamma=0.5 --opponent=self --backup=negamax", None, {}, "without discount"),
    ],
)
def test_the_error_of_values_is_exact_with_the_discount_and_seat_of_the_training(
    tmp_path, options, against, settings, words
):
    run = tiny.train_run("q-learning", tmp_path / "run", "--exact-every", "0", *options.split())
    policy = RunPolicy(tiny.GAME, str(run)).learner
    found = critic_error(tiny.GAME, policy, against, policy, **settings)
    text = text_of(run)
    assert f"against {against or 'itself'}, {words}, weighted" in text
    assert found.root_mean_square > 0.01
    assert f"root mean square error {number(found.root_mean_square)}, mean error {number(found.bias)}" in text
    for row in found.by_stones():
        cells = (str(row.stones), number(row.visits), number(row.bias), number(row.root_mean_square))
        assert " ".join(cells) in text
    assert found.worst(1)[0].position in text


def test_the_sample_game_is_reproducible_and_shows_the_loss_of_each_move(run):
    words = text_of(run)
    assert words == text_of(run)
    game = words[words.index("A sample game") : words.index("Worst positions")]
    assert "It has o and plays random, who has x" in game
    assert game.count("loses ") == int(re.search(r"after (\d+) moves", game)[1])


def test_curves_have_the_measured_numbers(run):
    labels = re.findall(r'<svg role="img" aria-label="([^"]*)"', write_run_page(run, None).read_text())
    rows = RunDirectory(run).read_metrics()
    first, *_, last = [row for row in rows if "exploitability" in row]
    ends = [f"exploitability from {first['exploitability']:.4g} to {last['exploitability']:.4g}"]
    ends += [f"won from {first['exact_win']:.4g} to {last['exact_win']:.4g}", "drawn from "]
    for end, label in zip(ends, labels, strict=True):
        assert end in label
        assert f"up to {rows[-1]['games']:,}" in label


def test_cost_is_shown_by_phase(run):
    words = text_of(run).replace(" ", "")
    for name, phase in json.loads((run / COST).read_text())["phases"].items():
        cells = [name, *(f"{phase[time]:,.2f}s" for time in ("cpu_user_s", "cpu_system_s", "wall_s"))]
        assert "".join(cells) in words


def test_the_command_on_the_page_repeats_the_training(run, tmp_path):
    page = html.unescape(write_run_page(run, None).read_text())
    line = next(line for line in page.splitlines() if "python train.py --learner" in line)
    words = shlex.split(line[line.index("python train.py") :])
    words[words.index("--out") + 1] = str(tmp_path / "again")
    train.main([*words[2:], "--no-report"])
    old, new = (json.loads((folder / CONFIG).read_text()) for folder in (run, tmp_path / "again"))
    names = ("game", "learner", "settings", "opponent", "seat", "games", "batch", "seed")
    assert {name: old[name] for name in names} == {name: new[name] for name in names}
    assert shlex.join(["python", "train.py", "--resume", str(run)]) in page
    assert CHECKPOINT in page


# ---------------------------------------------------------------------------------------------------------------------
# Other games and learners, and missing parts


@pytest.mark.parametrize(
    ("options", "game"),
    [
        (("--size", "5x6", "--win-length", "4", "--opponent", "self", "--backup", "negamax"), Game(5, 6, 4)),
        (("--size", "19", "--win-length", "5"), Game(19, 19, 5)),
        (("--size", "1x16", "--win-length", "3", "--seat", "second"), Game(1, 16, 3)),
    ],
)
def test_pages_of_other_boards_name_what_is_left_out(tmp_path, options, game):
    page = read_page(write_run_page(train_run(tmp_path / "run (1), old", *options, games=60), None))
    words = page.text()
    assert f"q-learning, {game}" in words
    assert "Its strength has not been computed" in words
    assert "python evaluate.py match 'run:(" in words
    if game.cells > 16:
        assert "up to 16 cells" in words
        assert "best: " not in str(page.tags)
    moves = int(re.search(r"after (\d+) moves", words)[1])
    boards = [name for name in page.attributes("class") if "board" in name.split()]
    if game.cells <= 36:
        assert boards.count("board small") == moves
    else:
        assert boards == ["board"]
        assert f" {moves}" in words


def test_the_loss_of_a_net_is_drawn_by_steps_without_the_results_of_its_teacher(run):
    rows = [{"games": 40, "iterations": n, "loss": 1 / (n + 1), "wins": 3, "draws": 0, "losses": 1} for n in range(5)]
    (run / METRICS).write_text("".join(json.dumps(row) + "\n" for row in rows))
    tags = str(read_page(write_run_page(run, None)).tags)
    assert "Curves by steps of the optimizer, up to 4: loss from 1 to 0.2." in tags
    assert "won from" not in tags


@pytest.mark.slow
@pytest.mark.needs("tensorflow")
def test_a_learner_with_a_loop_of_its_own_has_a_page(tmp_path):
    page = read_page(write_run_page(tiny.train_run("value-net", tmp_path / "net", "--log-iterations=5"), None))
    assert f"value-net learned {tiny.GAME} from games of its teacher expectiminimax:depth=2" in page.text()
    assert "held out loss from" in str(page.tags)
    assert "won from" not in str(page.tags)


def test_without_matplotlib_the_page_has_its_boards_and_names_the_package(run, monkeypatch):
    monkeypatch.setattr(plots, "find_spec", lambda name: None)
    page = read_page(write_run_page(run, None))
    assert "[report]" in page.text()
    assert "won from" in page.text()
    assert "svg" not in page.names()
    assert page.map("Exact values")


def test_an_impure_policy_has_a_page_without_exact_answers(run, monkeypatch):
    class Impure(Policy):
        pure = False

        def probabilities(self, boards, rng=None):
            return (boards.cells == 0) / (boards.cells == 0).sum(axis=1, keepdims=True)

        def act(self, boards, rng):
            return (boards.cells == 0).argmax(axis=1)

    monkeypatch.setattr(run_page, "RunPolicy", lambda game, path: Impure())
    page = read_page(write_run_page(run, None))
    assert "It plays every first move with the same probability, 0.1111." in page.text()
    assert "Left out: losses of moves" in page.text()


@pytest.mark.parametrize(
    ("read", "name", "content", "message"),
    [
        (RunDirectory.read_metrics, METRICS, "[1, 2]\n", "line 1 of"),
        (RunDirectory.read_metrics, METRICS, '{"games": 1}\n{"games": "<b>"}\n', "line 2 of"),
        (RunDirectory.read_metrics, METRICS, '{"games": 5, "wins": NaN}\n', "line 1 of"),
        (RunDirectory.read_metrics, METRICS, '{"games": 5, "wins": 1e999}\n', "line 1 of"),
        (RunDirectory.read_metrics, METRICS, '{"games": 5, "wins": true}\n', "line 1 of"),
        (RunDirectory.read_metrics, METRICS, '{"wins": 5}\n', "line 1 of"),
        (RunDirectory.read_metrics, METRICS, '{"games": -5}\n', "fewer games than there were before"),
        (RunDirectory.read_metrics, METRICS, '{"games": 5}\n{"games": 4}\n', "fewer games than there were before"),
        (RunDirectory.read_metrics, METRICS, '{"games": 5}\n{"ga', "cannot be read"),
        (RunDirectory.read_metrics, METRICS, "[" * 100_000, "cannot be read"),
        *(
            (RunDirectory.read_cost, COST, content, COST)
            for content in (
                "nonsense", "[]", "{}", '{"phases": []}', '{"phases": {"a": 1}}', '{"phases": {"a": {"wall_s": 1}}}'
            )
        ),
    ],
)  # fmt: skip
def test_damaged_numbers_raise_an_error(tmp_path, read, name, content, message):
    run = RunDirectory(tmp_path)
    assert not read(run)  # a missing file is empty
    (tmp_path / name).write_text(content)
    with pytest.raises(ValueError, match=message):
        read(run)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (METRICS, '{"<i>": "<b>"}\n', "The curves are left out: line 1 of"),
        (METRICS, "", "Nothing was logged"),
        (METRICS, None, "Nothing was logged"),
        (METRICS, '{"games": 0}\n', "no exact measurements during training"),
        (CHOICES, '{"<i>": 1}', "The boards during training are left out: line 1 of"),
        (COST, '{"phases": {"<i>": {"wall_s": 1}}}', "holds no cost by phase"),
        (COST, None, f"there is no {COST}"),
        (CHECKPOINT, "nonsense", "The boards are left out"),
    ],
)
def test_damaged_and_missing_files_are_left_out_with_a_reason(run, name, content, message):
    if content is None:
        (run / name).unlink()
    else:
        (run / name).write_text(content)
    page = read_page(write_run_page(run, None))
    assert message in page.text()
    assert not {"i", "b"} & {tag for tag, named in page.tags if "aria-hidden" not in named}


def test_markup_in_the_config_is_escaped(run):
    config = json.loads((run / CONFIG).read_text())
    evil = {"opponent": "<script>alert(1)</script>", "seat": '"><b>', "games": "<i>", "seed": -1, "revision": "</pre>"}
    (run / CONFIG).write_text(json.dumps({**config, **evil, "learner": "<u>"}))
    page = read_page(write_run_page(run, None))
    assert "<script>alert(1)</script>" in page.text()
    assert not {"b", "u"} & page.names()


def test_the_demo_prints_a_row_for_each_learner_in_80_columns(trained, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    results = dict.fromkeys(demo.OPPONENTS, (OutcomeProbabilities(0.5, 0.25, 0.25),) * 2)
    [run] = read_runs(trained / REPORT, [trained]).runs
    exact = Strength(1e-4, 1e-4, results)
    cli.print_table(demo._table([dataclasses.replace(run, name=name, strength=exact) for name in demo.LEARNERS]))
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert [line.split()[0] for line in lines if line.count("0.6250") == 3] == list(demo.LEARNERS)


# ---------------------------------------------------------------------------------------------------------------------
# Parts


def test_marks_are_thinned_evenly_on_the_log_axis_with_both_ends():
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


def test_a_choice_lists_moves_by_probability():
    shares = np.array([0.2, 0, 0, 0, 0.7, 0, 0, 0, 0.1])
    board = choice_board(SKIP, Boards.start(SKIP).position(0), shares, [4], 0.5, 0.25)
    assert board.words == "o is to move, plays b2 (0.70), a1 (0.20), c3 (0.10); best: b2."
    assert (board.cost, board.lines) == ("loses 0.5000 in 25.0% of games", ["o to move", "best: b2"])
    assert [text for text, _ in board.spans] == ["0.20", "", "", "", "0.70", "", "", "", "0.10"]


def test_paths_are_encoded_as_addresses():
    assert encode_url("a:b/c d%") == "a%3Ab/c%20d%25"


def luminance(colour):
    parts = [part / 255 for part in colour]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one, other):
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("dark", [False, True])
def test_text_has_enough_contrast_on_plain_and_on_coloured_ground(dark):
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
    results = tuple(tuple(bytes.fromhex(colour[1:])) for colour in plots.RESULTS)
    assert (colours["win"], colours["draw"], colours["loss"]) == results


@needs_chromium
def test_a_browser_shows_pages_of_runs_at_any_width(trained, tmp_path):
    exact = strength(SKIP, RunPolicy(SKIP, str(trained)), ["random", "win-or-block", "optimal"])
    large = train_run(tmp_path / "large", "--size", "19", "--win-length", "5", games=20)
    pages = [write_run_page(trained, exact), write_run_page(large, None)]
    check_in_browser(pages, tmp_path)
