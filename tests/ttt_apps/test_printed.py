"""What commands print: the numbers, verdicts, notes and names of folders are those that Python
computes.
"""

import re
import shlex
import shutil
import time
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from statistics import fmean
from typing import ClassVar

import numpy as np
import pytest
import tiny
from commands import words_of
from json_files import read_json
from small_games import SKIP_GAME

from baselines.exact import solve
from baselines.exact.folder import Folder
from baselines.opening_book import read_book
from ttt_apps import evaluate
from ttt_apps.cli import options as cli
from ttt_apps.cli.board import parse_position
from ttt_apps.cli.options import format_value as number
from ttt_apps.evaluate import COMMANDS
from ttt_apps.training import runs
from ttt_apps.training.metrics import RunLog
from ttt_apps.training.options import Options, default_folder, parse_options
from ttt_envs import Boards, Game, Named
from ttt_envs.agents.policy import Forfeit
from ttt_envs.core.checks import Refusal
from ttt_envs.game.boards import coordinate, to_text
from ttt_envs.text.text_game import TextGameConfig
from ttt_eval import exact
from ttt_eval.benchmark.agents import AGENTS
from ttt_eval.benchmark.comparison import compare_submissions
from ttt_eval.benchmark.scores import read_scores, score_submission
from ttt_eval.benchmark.tasks import TASKS
from ttt_eval.exact.dynamic_programming import exploitation
from ttt_eval.exact.strength import strength
from ttt_eval.grading import grade, load_task
from ttt_eval.language_models.asking import Interview, Sampling
from ttt_eval.language_models.results import estimate_usage
from ttt_eval.matches import ladder
from ttt_eval.matches.account import make_account
from ttt_eval.matches.games import read_games
from ttt_eval.matches.luck import EXACT, make_correction
from ttt_eval.matches.match import MatchSettings, play_pairs
from ttt_eval.matches.sprt import SPRT
from ttt_eval.matches.tournament import run_tournament
from ttt_eval.puzzles import from_policy
from ttt_eval.reports.formats import format_elo, game_options
from ttt_eval.runs.run_files import REPORT, RunDirectory
from ttt_eval.store.metrics import COUNTS
from ttt_eval.store.result_store import RESULT

ROOT = Path(__file__).parents[2]
BENCHMARKS = ROOT / "benchmarks"
EXAMPLES = ROOT / "examples" / "grading"
PLAYERS = ("random", "win-or-block")
DATABASE = "database"
GROUPS = ("bench", "book", "database")
SLOWER = ("ladder win-or-block", "reproduce svd-table1 --out=OUT")
"""Cases that take seconds."""


@dataclass(frozen=True)
class Quitter(Named):
    """Gives up in every position."""

    name: ClassVar[str] = "quitter"
    pure: ClassVar[bool] = False
    game: Game

    def probabilities(self, boards, rng=None):
        raise Forfeit("it gives up")


@dataclass(frozen=True)
class Files:
    """Files that commands read: a run, a log of games, a book and a database."""

    run: Path
    log: Path
    book: Path
    database: Path


@pytest.fixture(scope="module")
def files(tiny_run, tmp_path_factory):
    folder = tmp_path_factory.mktemp("printed")
    log = folder / "log"
    book = folder / "book"
    board = game_options(tiny.GAME)
    for line in (
        f"match random win-or-block --games=20 --luck-correction=off --skip-chance=.25 --log={log}",
        f"book build {log} --minimum=1 --out={book}",
        f"database build --folder={folder / DATABASE} {shlex.join(board)}",
    ):
        evaluate.main(words_of("--quiet", line))
    return Files(tiny_run("q-learning"), log, book, folder / DATABASE)


CASES = {}


def case(words, *, board=True):
    """Register a function that returns rows of cells or sentences, all text, that are printed."""

    def register(expected):
        CASES[words] = (expected, board)
        return expected

    return register


def starred(values):
    return [
        f"{value:+.6f}{'*' if value == np.nanmax(values) else ''}"
        for value in values[~np.isnan(values)]
    ]


def probabilities(result):
    return [f"{share:.6f}" for share in (*result, result.value)]


@case("exact random win-or-block")
def exact_rows(files):
    first, second = (exact.outcome(tiny.GAME, *players) for players in (PLAYERS, PLAYERS[::-1]))
    other = second.reversed()
    return [
        ("first", *probabilities(first)),
        ("second", *probabilities(other)),
        ("mean", *probabilities(first.mean(other))),
    ]


@case("exploitability RUN", board=False)
def exploitability_rows(files):
    policy = f"run:{files.run}"
    best = exploitation(tiny.GAME, policy)
    regret = exact.regret(tiny.GAME, policy)
    yield "first", *probabilities(best.first)
    yield "second", *probabilities(best.second)
    yield "(NashConv / 2)", f"{best.exploitability:.6f}"
    yield "an average move playing itself", f"{regret:.6f}"
    yield "lost by a move in all positions", f"{exact.mean_loss(tiny.GAME, policy):.6f}"


@case("solve --position 'o../x.. x'")
def solution_rows(files):
    boards = Boards.start(tiny.GAME)
    solution = solve(tiny.GAME)
    yield "value", number(float(solution.values(boards)[0]))
    later = Boards.from_positions([parse_position("o../x.. x", tiny.GAME)])
    yield "value to mover", number(float(solution.values(later)[0]))
    cells = starred(solution.action_values(later)[0])
    yield "o", *cells[:2], "x", *cells[2:]


@case("match random win-or-block --games=40 --seed=5")
def match_rows(files):
    score = play_pairs(tiny.GAME, *PLAYERS, 20, seed=5, luck_correction="exact")
    yield "first", *map(number, score.table[0].tolist())
    yield "second", *map(number, score.table[1].tolist())
    for name in ("score", "wins", "draws", "losses"):
        yield name, number(score.rate(name)._asdict())
    yield "raw score", number(score.raw.rate("score")._asdict())


@case("match random win-or-block table --games=8 --anchor=random --out=OUT --no-report")
def tournament_rows(files):
    settings = MatchSettings(tiny.GAME, (*PLAYERS, "table"), luck_correction="exact")
    result = run_tournament(settings, Path("again"), {}, pairs=4, anchor="random")
    scores = result.scores
    players = result.players
    ranked = sorted(range(3), key=lambda index: -players[index].rating.mean)
    for place, row in enumerate(ranked, 1):
        name = f"{place} {players[row].spec}"
        yield name, format_elo(players[row].rating.mean)
        rates = [scores[row, column].rate("score") for column in ranked if column != row]
        yield name, *(f"{rate.mean:.3f} ({rate.low:.3f}-{rate.high:.3f})" for rate in rates)


@case("match random win-or-block --sprt -10 10 --games=64 --out=OUT --no-report")
def sequential_rows(files):
    score = play_pairs(tiny.GAME, *PLAYERS, 32, luck_correction="exact")
    yield "first", *map(number, score.table[0].tolist())


@case("games LOG", board=False)
def count_rows(files):
    games = list(read_games(files.log))
    for o, x in (PLAYERS, PLAYERS[::-1]):
        our_values = [played_game for played_game in games if played_game.players == (o, x)]
        results = [played_game.result for played_game in our_values]
        accounts = [
            make_account(played_game, make_correction(EXACT, played_game.game))
            for played_game in our_values
        ]
        corrected = fmean((1 + account.start + sum(account.changes)) / 2 for account in accounts)
        counts = [number(results.count(result)) for result in (0, 1, 2)]
        yield f"o {o}, x {x}", *counts, "0", number(corrected)


@case("games LOG --explain=2", board=False)
def explained_rows(files):
    played_game = list(read_games(files.log))[1]
    game = played_game.game
    solution = solve(game)
    changes = {0: 0.0, 1: 0.0}
    for position, action, skipped in played_game.positions():
        values = solution.action_values(Boards.from_positions([position]))[0]
        change = (1 - 2 * position.mover) * float(values[action] - np.nanmax(values))
        changes[position.mover] += change
        yield number(position.mover), coordinate(action, game), number(skipped), number(change)
    assert changes[1] > 0  # what player_1 loses is the gain of player_0
    yield "changes", number(list(changes.values()))


@case("ladder", board=False)
def rung_rows(files):
    for rung in ladder.read_ladder("3x3").rungs:
        losses = (f"{loss:.4f}" for loss in (rung.exploitability, rung.regret, rung.mean_loss))
        cost = f"{1e6 * rung.cost.cpu_s_per_move:,.3g}"
        yield rung.spec, f"{rung.rating:.0f}", "exact", *losses, cost


@case("ladder win-or-block", board=False)
def place_rows(files):
    for rung in ladder.read_ladder("3x3").rungs:
        result = exact.match_outcome(Game(), PLAYERS[1], rung.spec)
        yield rung.spec, *(f"{share:.3f}" for share in result[:3])


@case("plot RUN", board=False)
def curve_rows(files):
    last = RunDirectory(files.run).read_metrics()[-1]
    yield "q-learning", "1", number(last["games"]), number(last["exploitability"])


@case("report REPORTED", board=False)
def report_lines(files):
    yield f"a report to look at: {files.run.with_name('reported') / REPORT}"


@case("compare RUN --out=OUT.html", board=False)
def compare_lines(files):
    yield "a page to look at: OUT.html"


@case("list agents", board=False)
def agent_lines(files):
    yield from AGENTS


@case("bench run --agent=random --task=random --seeds=1 --steps=200 --out=OUT", board=False)
def submission_lines(files):
    yield "written: OUT; evaluate.py bench score OUT scores it"


@case("bench score SUBMISSION --last", board=False)
def score_rows(files):
    means = score_submission(BENCHMARKS / "submissions" / "random.npz", last=True).task_means
    for task in TASKS:
        if task.name in means:
            yield f"{task.name} {means[task.name]:.4f}*"


@case("bench report SCORES --out=OUT.html", board=False)
def leader_rows(files):
    [scores] = read_scores(BENCHMARKS / "scores" / "v1" / "random.json")
    [entry] = compare_submissions([scores]).entries
    yield "random", entry.setting, f"{entry.interquartile_mean.mean:z.3f}"
    yield f"{len(scores.task_means)} tasks."


@case("grade SOLUTION --task=gae", board=False)
def graded_rows(files):
    graded = grade(EXAMPLES / "gae.py", load_task("gae"))
    yield graded.file, f"{graded.points:g} {graded.score:g}"


@case("llm --model=any --dry-run --games=10")
def usage_rows(files):
    settings = TextGameConfig(tiny.GAME, opponent="optimal")
    usage = estimate_usage(Interview(Sampling("any"), {}), settings, 10, False)
    yield "illegal answers are asked again"
    for name, count in usage.items():
        yield name.replace("_", " "), number(count)


@case("book build LOG --minimum=1 --out=OUT.book", board=False)
def book_lines(files):
    book = read_book(files.book)
    yield f"{len(book.positions):,} positions and {len(book.cells):,} moves of {book.games:,} games"


@case("book show BOOK", board=False)
def book_rows(files):
    book = read_book(files.book)
    [moves] = book.moves(Boards.start(book.game))
    for actions, results, score in zip(
        moves.actions, moves.results.tolist(), moves.scores.tolist(), strict=True
    ):
        yield (
            " ".join(coordinate(cell, book.game) for cell in actions),
            *map(number, results),
            number(score),
        )


@case("database build --folder=OUT")
def database_rows(files):
    facts = Folder.open(files.database).facts()
    yield "entries", number(facts["entries"])
    yield "sha256", facts["sha256"]


@case("database verify DATABASE", board=False)
def verified_rows(files):
    yield "checked", number(Folder.open(files.database).facts()["entries"])


@case("database probe DATABASE '.../... o'", board=False)
def probed_rows(files):
    boards = Boards.start(tiny.GAME)
    solution = solve(tiny.GAME)
    yield f"value {float(solution.values(boards)[0]):.7g} for the mover;"
    yield from starred(solution.action_values(boards)[0])


@case("puzzles win-or-block --opponent=optimal --count=2 --skip-chance=0.25", board=False)
def puzzle_rows(files):
    game = SKIP_GAME
    for puzzle in from_policy(game, "win-or-block", 2, "optimal"):
        best = " ".join(coordinate(cell, game) for cell in puzzle.best)
        yield to_text(puzzle.position, game), str(game)
        yield puzzle.why, number(puzzle.loss), best


@case("reproduce svd-table1 --out=OUT", board=False)
def study_rows(files):
    for row in read_json(Path("OUT", RESULT))["rows"]:
        yield row["what"], f"{row['published']:,}" if isinstance(row["published"], int) else ""


@case("list tasks", board=False)
def task_rows(files):
    for task in TASKS:
        yield task.name, f"{task.measure}: {', '.join(task.axes)}"


def test_every_command_has_a_case():
    # those of checks are in test_check_command.py
    leaves = {name for name in COMMANDS if name not in (*GROUPS, "check")}
    leaves |= {f"{name} {part}" for name in GROUPS for part in COMMANDS[name]["commands"]}
    leaves.remove("bench verify")  # trains a run: tests/ttt_eval/test_benchmark_runs.py
    assert not [
        leaf for leaf in leaves if not any(f"{words} ".startswith(f"{leaf} ") for words in CASES)
    ]


@pytest.mark.usefixtures("quick_ladders")
@pytest.mark.parametrize(
    "words",
    [pytest.param(words, marks=pytest.mark.more if words in SLOWER else ()) for words in CASES],
)
def test_a_command_prints_what_python_computes(words, files, tmp_path, monkeypatch, evaluate_py):
    expected, board = CASES[words]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(cli.QUIET, "0")
    reported = files.run.with_name("reported")
    if "REPORTED" in words:
        shutil.copytree(files.run, reported)
    places = {
        "RUN": f"run:{files.run}" if words.startswith("exploit") else files.run,
        "LOG": files.log,
        "BOOK": files.book,
        "DATABASE": files.database,
        "SUBMISSION": BENCHMARKS / "submissions" / "random.npz",
        "SOLUTION": EXAMPLES / "gae.py",
        "SCORES": BENCHMARKS / "scores" / "v1" / "random.json",
        "REPORTED": reported,
    }
    line = re.sub(r"\b[A-Z]+\b", lambda word: str(places.get(word[0], word[0])), words)
    text = evaluate_py.text(line, *(game_options(tiny.GAME) if board else ()))
    rows = list(expected(files))
    assert rows
    for row in rows:
        assert f" {row if isinstance(row, str) else ' '.join(filter(None, row))} " in f" {text} "


# --------------------------------------------------------------------------------------------------
# Notes, verdicts and names


def test_a_sequential_test_prints_its_verdict(evaluate_py, tmp_path):
    low, high = SPRT(-10, 10, alpha=0.01, beta=0.2).bounds
    verdicts = {
        PLAYERS: "-10 Elo: random is ahead by less than 10 (wrong in at most 20.0% of tests)",
        PLAYERS[
            ::-1
        ]: "10 Elo: win-or-block is ahead by more than -10 (wrong in at most 1.0% of tests)",
    }
    for players, verdict in verdicts.items():
        line = "--sprt -10 10 --alpha=0.01 --beta=0.2 --no-report --out"
        text = evaluate_py.text("match", *players, line, tmp_path / players[0])
        assert f"The test accepts {verdict}" in text
        assert f", from {low:.2f} to {high:.2f}" in text


def test_forfeits_of_a_match_are_told(evaluate_py, monkeypatch, tmp_path):
    monkeypatch.setenv(cli.QUIET, "0")
    players = (f"{__name__}:Quitter", "random")
    data = evaluate_py.json("match", *players, "--games=4")
    forfeits = play_pairs(Game(), *players, 2).forfeits
    assert data["forfeits"]["a"] == forfeits.a == 4
    assert f"note: {forfeits.describe(*players)}" in evaluate_py.err
    evaluate_py("match", *players, f"table --games=2 --out={tmp_path} --no-report")
    assert evaluate_py.err.count(f" 2 by {players[0]}. The first: ") == 2
    assert evaluate_py.err.count("note: games were given up") == 2


def test_times_of_a_match_are_told_by_player(evaluate_py, tmp_path):
    players = ("timed:max-depth=1", "random")
    text = evaluate_py.text(
        "match", *players, f"--games=2 --clock=20+0.5 --out={tmp_path} --no-report"
    )
    for player, times in zip(players, read_json(tmp_path / RESULT)["times"], strict=True):
        assert " ".join((player, *map(number, times.values()))) in text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"mean": 0.5, "low": 0.25, "high": 0.75}, "0.5 (0.25 to 0.75)"),
        ({"mean": None, "low": -326.53, "high": None}, "(-326.5 to inf)"),
        ({"mean": 0.5, "low": 0.5, "high": 0.5}, "0.5"),
        ([None, True, 12345, 1 / 3], " yes 12,345 0.333333"),
    ],
)
def test_values_are_formatted_for_people(value, text):
    assert number(value) == text


def test_the_largest_count_is_accepted_and_a_larger_one_refused():
    assert cli.parse_count(str(cli.MAX_NUMBER)) == cli.MAX_NUMBER
    with pytest.raises(Refusal, match="is no whole number"):
        cli.parse_count(str(cli.MAX_NUMBER + 1))


def test_default_folders_of_runs_differ_by_every_setting():
    options = "seat=second games=7 batch=3 seed=1 opponent=self epsilon=0.5 size=4"
    options += " skip-chance=0.5 learner=naive-mc phantom=classic"
    lines = [[], *([f"--{option}"] for option in options.split())]
    folders = [default_folder(*parse_options(words, "train.py")) for words in lines]
    assert len(set(folders)) == len(lines)


def test_the_report_of_fewer_games_is_gone_while_a_run_is_extended(
    tiny_run, tmp_path, monkeypatch, evaluate_py, train_py
):
    run = shutil.copytree(tiny_run("q-learning"), tmp_path / "run")
    evaluate_py("--quiet report", run)
    reports = [(run / REPORT).exists()]
    monkeypatch.setattr(runs.Run, "train", lambda *_: reports.append((run / REPORT).exists()))
    train_py("resume", run, "--games=300")
    assert reports == [True, False]


@pytest.mark.parametrize("seat", ["first", "second"])
def test_the_strength_of_a_learner_is_that_of_its_seat(seat):
    measured = strength(tiny.GAME, "win-or-block", ["random"])
    result = dict(zip(("first", "second"), measured.seats["random"], strict=True))[seat]
    text = f"wins {result.win:.2%}, draws {result.draw:.2%}, loses {result.loss:.2%}, moving {seat}"
    assert text in runs.describe_strength(measured, Options(opponent="random", seat=seat))


def test_a_run_is_saved_after_as_many_games_as_asked(tmp_path, monkeypatch):
    saved = []
    monkeypatch.setattr(
        RunDirectory, "save_checkpoint", lambda run, done, *_, **parts: saved.append(done.games)
    )
    tiny.train_run(
        "q-learning", tmp_path / "run", "--checkpoint-games=50", "--checkpoint-seconds=1e9"
    )
    steps = np.diff([0, *saved])
    assert len(saved) == 4
    assert all(50 <= games < 50 + 4 for games in steps[:-1])  # 4 games are played at the same time
    assert saved[-1] == 200


def test_the_speed_of_a_resumed_run_is_that_of_its_new_games(monkeypatch):
    began = time.perf_counter()
    rows = []
    log = RunLog(BytesIO(), 200, lambda games, row: rows.append(row))
    monkeypatch.setattr(time, "perf_counter", lambda: began + 1e6)
    log.write(300, dict.fromkeys(COUNTS, 100))
    assert [row["games_per_s"] for row in rows] == [pytest.approx(100 / 1e6, rel=1e-3)]


def test_a_training_prints_its_results(tmp_path, capsys):
    run = tiny.train_run("q-learning", tmp_path / "run")
    last = RunDirectory(run).read_metrics()[-1]
    won, drawn, lost = (last[name] / last["games"] for name in ("wins", "draws", "losses"))
    assert f"won {won:.1%}, drew {drawn:.1%}, lost {lost:.1%}" in " ".join(
        capsys.readouterr().out.split()
    )
