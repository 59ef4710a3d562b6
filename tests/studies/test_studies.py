"""All studies: a page with verdicts from the smallest form, and numbers known without us."""

import json
import re
import shutil

import numpy as np
import pytest
from commands import error_of, json_of, text_of
from documents import ROOT
from scipy.stats import spearmanr

from baselines.expectiminimax import Search
from learners.alpha_zero import AlphaZeroConfig
from studies import STUDIES, alpha_zero, estimators, learners, noise, svd, trees
from ttt_apps import evaluate
from ttt_apps.evaluate import reproduce
from ttt_envs import Boards, Game
from ttt_envs.agents.policy import act
from ttt_envs.agents.specs import load_object, make_policy
from ttt_eval.benchmark.scores import score_submission
from ttt_eval.matches.match import play_pairs
from ttt_eval.matches.score import Score
from ttt_eval.statistics import wilson

IN_A_SECOND = ("svd-table1", "slides-tables")
TABLES_ALONE = ("svd-table1", "compression-4x4")


@pytest.mark.parametrize("name", STUDIES)
def test_studies_are_described_and_have_distinct_units(name):
    study = load_object(STUDIES[name])()
    assert all((study.title, study.source, study.__doc__, study.left_out))
    for quick in (False, True):
        units = [json.dumps(unit) for unit in study.units(quick)]
        assert len(units) == len(set(units)) > 0
    assert len(study.units(True)) <= len(study.units(False))


@pytest.mark.parametrize(
    "name", [name if name in IN_A_SECOND else pytest.param(name, marks=pytest.mark.slow) for name in STUDIES]
)
def test_quick_form(name, tmp_path, capsys, monkeypatch):
    """It writes a page with the questions of the page in the documents, and no unit is measured twice."""
    shown = text_of(capsys, "reproduce", name, "--quick", "--out", tmp_path)
    assert "quick form" in shown
    page, result = (tmp_path / "table.md").read_text(), (tmp_path / "result.json").read_text()
    pictures = re.findall(r"!\[.*\]\((.*)\)", page)
    assert sorted(pictures) == sorted(path.name for path in tmp_path.glob("*.png"))
    assert pictures or name in TABLES_ALONE
    for picture in pictures:
        assert (tmp_path / picture).stat().st_size > 10_000
        assert (tmp_path / picture).with_suffix(".svg").read_text().startswith("<?xml")
    documented = (ROOT / "docs" / "studies" / f"{name}.md").read_text()
    assert set(re.findall(r"^\*\*(.*)\*\*$", page, re.M)) <= set(re.findall(r"^\*\*(.*)\*\*$", documented, re.M))
    monkeypatch.setattr(load_object(STUDIES[name]), "measure", None)
    evaluate.main(["reproduce", name, "--quick", "--out", str(tmp_path)])
    assert (tmp_path / "result.json").read_text() == result
    assert json.loads(result)["quick"] is True


def test_all_studies_are_listed(capsys):
    shown = text_of(capsys, "list", "studies")
    assert all(name in shown for name in STUDIES)


def test_studies_need_a_checkout(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(reproduce, "CHECKOUT", tmp_path)
    assert "checkout" in error_of(capsys, evaluate.main, "reproduce", "svd-fig4")


# ---------------------------------------------------------------------------------------------------------------------
# The paper on compressed tables


def test_figure_4_uses_the_table_as_published():
    [point] = svd.Figure4().measure({"terminal": "as_published", "ranks": [18], "batches": 1})
    assert [round(rate, 4) for rate in svd.mean(point)] == [0.1284, 0.7933, 0.0783]  # known without us
    assert point["error"] == pytest.approx(0.41339, abs=5e-6)
    assert point["numbers"] == 5832
    assert svd.rates_agree(point)
    assert not svd.rates_agree({**point, "exact": [[0.3, 0.4, 0.3]] * 2})


@pytest.mark.parametrize(("pair", "rates"), [((3, 7), (0.382, 0.357)), ((12, 14), (0.252, 0.188))])
def test_figure_5_has_known_results(pair, rates):
    point = svd.Figure5().measure({"terminal": "as_published", "method": "hosvd", "pair": pair, "batches": 0})
    win, _, loss = svd.mean(point)
    assert (round(win, 3), round(loss, 3)) == rates


def test_claims_about_table_1(tmp_path, capsys):
    result = json_of(capsys, "reproduce", "svd-table1", "--out", tmp_path)
    assert all(row["agrees"] for row in result["rows"])
    assert [claim["holds"] for claim in result["claims"]] == [False, False, True]


def test_compressed_tables_range_from_random_play_to_the_whole_table(capsys):
    nothing, some, whole = (json_of(capsys, "exploitability", f"svd:rank={rank}") for rank in (0, 18, 81))
    first, second = (191 / 192, 874 / 945)  # best responses to random play, known without us
    assert nothing["exploitability"] == pytest.approx((first + second) / 2)
    assert nothing["exploitability"] > some["exploitability"] > whole["exploitability"]
    assert whole["exploitability"] == pytest.approx((0.914598047 + 0.043916719) / 2, abs=1e-8)


# ---------------------------------------------------------------------------------------------------------------------
# The report on learners


@pytest.mark.parametrize("seed", [0, 1])
def test_duels_are_measured_from_the_challengers_side(seed):
    [unit] = learners.duel_units("x", learners.PROGRAM, learners.NAIVE, (0, 300), seed + 1)[-1:]
    untrained, trained = learners.Duel().measure(unit)
    first, draw, second = 737 / 1260, 8 / 63, 121 / 420  # random against random: nothing was learned yet
    assert untrained["exact"] == pytest.approx([second, draw, first] if seed == 0 else [first, draw, second])
    for point in (untrained, trained):
        assert sum(point["sampled"]) == 1_000
        assert np.abs(np.array(point["sampled"]) / 1_000 - point["exact"]).max() < 0.08
    assert learners.Duel().measure(unit) == [untrained, trained]
    assert learners.Duel().measure({**unit, "seed": seed + 2}) != [untrained, trained]


def test_costs_are_measured_in_separate_processes():
    study = learners.Cost()
    measured = study.measure({**study.units(True)[0], "games": 5})
    assert measured["cpu_user_s"] > 0.1
    assert measured["peak_rss_bytes"] > 2**25


# ---------------------------------------------------------------------------------------------------------------------
# The report on tree search

BOARDS = pytest.mark.parametrize("board", trees.BOARDS, ids=lambda board: f"{board.size}x{board.size}")


def test_published_matches_have_a_hundred_games():
    for counts in (*(entry.published for entry in trees.ENTRIES), *(board[3] for board in trees.BOARDS)):
        assert sum(counts) == trees.GAMES
    assert all(sum(board.tree) == trees.GAMES for board in trees.BOARDS)


@BOARDS
def test_the_formula_gives_the_nodes_of_the_first_move(board):
    keys = np.zeros(1, np.uint64)
    search = Search(board.game, Boards.start(board.game), pruning="none", width=board.width, random_keys=keys)
    search.run(trees.DEPTH)
    assert search.nodes[0] == trees.tree_size(board)


@pytest.mark.parametrize(
    ("board", "games"),
    [
        *((board, 40) for board in trees.BOARDS if board.win_length == 5),  # whose games are short
        *(pytest.param(board, 1_000, marks=pytest.mark.slow) for board in trees.BOARDS),
    ],
    ids=str,
)
def test_the_tree_beats_random_as_published(board, games):
    """The tree, moving second, may win as often as the lower limit of the published games says."""
    _, _, won = play_pairs(board.game, "random", board.spec(), games, seed=20).table[0]
    limit = wilson(board.tree[0] / trees.GAMES, trees.GAMES).low
    assert wilson(won / games, games).high >= limit


@pytest.mark.parametrize("study", [trees.RandomPlay(), trees.TreeSearch()], ids=["random", "search"])
def test_units_play_distinct_games(study):
    units = [unit for unit in study.units(False) if "seed" in unit]
    seeds = [(*unit["board"], unit.get("tree"), unit["seed"]) for unit in units]
    assert len(seeds) == len(set(seeds))
    # games that are played one by one have seeds of their own, from the first on
    assert max(seed for *_, seed in seeds if seed != trees.GAMES_PER_SEAT) < trees.GAMES_PER_SEAT


def test_units_add_up_to_the_stated_games():
    games = {}
    for unit in trees.TreeSearch().units(False):
        if unit["what"] == "match":
            key = (*unit["board"], unit["tree"])
            games[key] = games.get(key, 0) + unit["games"]
    for board in trees.BOARDS:
        assert games.pop((board.size, board.win_length, board.spec())) == trees.GAMES_PER_SEAT
    assert set(games.values()) == {trees.OTHER_GAMES}


def test_single_games_are_those_of_their_seat():
    game = trees.square(3, 3)
    for seat in (0, 1):
        games = list(trees.play_games(game, "optimal", "random", seat, 20, seed=3))
        scores = [play_pairs(game, "optimal", "random", 1, seed=3 + number) for number in range(20)]
        assert [result for result, _ in games] == [int(score.table[seat].argmax()) for score in scores]


@pytest.mark.parametrize("heuristic", ["count", "consecutive"])
def test_the_counting_tree_plays_like_its_policy(heuristic):
    board = trees.BOARDS[0]
    game, policy = board.game, make_policy(board.spec(heuristic), board.game)
    counting = trees.CountingTree(policy)
    cells = np.zeros((4, game.cells), np.int8)
    cells[1:, 24], cells[2:, 25], cells[3:, [10, 11, 12, 13]] = 1, 2, 1
    boards, slots = Boards(cells, np.array([0, 1, 0, 1], np.int8)), np.array([5, 0, 2, 7])
    counting.begin(slots)
    rng, other_rng = np.random.default_rng(4), np.random.default_rng(4)
    moves = counting.act(boards, slots, rng)
    assert moves.tolist() == [int(act(policy, boards.take(np.array([row])), other_rng)[0]) for row in range(4)]
    for slot in slots.tolist():
        assert 0 < counting.nodes[slot, "star1"] <= counting.nodes[slot, "none"]
    assert counting.nodes[5, "none"] == trees.tree_size(board)


def test_first_move_advantage():
    pairs = np.zeros((3, 3), np.int64)
    pairs[0, 2] = 100  # the first player always wins
    score = Score(pairs)
    assert trees.first_mover_score(score).table.sum(axis=0).tolist() == [200, 0, 0]
    assert trees.first_move_advantage(score).mean == pytest.approx(1)
    assert trees.first_move_advantage(Score(pairs.T)).mean == pytest.approx(-1)
    assert trees.first_move_advantage(Score(np.diag([100, 0, 0]))).mean == pytest.approx(0)  # a always wins


def test_counts_agree_with_similar_rates():
    assert trees.counts_agree((56, 44, 0), (5_500, 4_500, 0)) is True
    assert trees.counts_agree((56, 44, 0), (7_000, 3_000, 0)) is False
    assert trees.counts_agree((98, 0, 2), (10_000, 0, 0)) is False
    assert trees.counts_agree((99, 0, 1), (1_000, 0, 0)) is True  # rare, not impossible
    assert trees.counts_agree((100, 0, 0), (999, 0, 0)) is None  # too few to tell


@pytest.mark.needs("tensorflow")
def test_sampled_rates_of_a_net_agree_with_exact_ones():
    unit = {"entry": 0, "seed": 1, "pairs": 400, "single": 3}
    measured = trees.ImitationNets().measure(unit)
    table = Score(np.array(measured["pairs"])).table / 400
    assert np.abs(table - np.array(measured["exact"])).max() < 0.1
    assert len(measured["single"]) == 3
    assert measured["curve"][-1][0] == trees.ENTRIES[0].iterations
    assert measured["curve"][-1][1] < measured["curve"][0][1]


# ---------------------------------------------------------------------------------------------------------------------
# AlphaZero


def test_a_threshold_is_reached_if_it_is_never_exceeded_later():
    def curve(values):
        marks = np.arange(1.0, len(values) + 1)
        return alpha_zero.TrainingCurve(100 * marks, marks, np.array(values))

    assert curve([0.5, 0.0, 0.3, 0.0, 0.0]).reach(alpha_zero.ROUNDING) == (400, 4)
    assert curve([0.0, 0.0]).reach(alpha_zero.ROUNDING) == (100, 1)
    assert curve([0.0, 0.5]).reach(alpha_zero.ROUNDING) == (np.inf, np.inf)
    assert curve([0.5, 0.2, 0.1]).at(2.5) == 0.2
    assert curve([0.5, 0.2, 0.1]).at(0.5) == 1.0  # nothing was measured so early


@pytest.mark.parametrize("learner", ["q-learning", "naive-mc"])
def test_measurements_are_reproducible(learner):
    unit = alpha_zero.training_unit(learner, Game(2, 3, 2), 6_000, 3)
    unit |= {"marks": (0.25, 1.0), "searched": (), "simulations": 0}
    curves = [alpha_zero.Learning().measure(json.loads(json.dumps(unit))) for _ in range(2)]
    assert curves[0]["games"] == curves[1]["games"]
    assert curves[0]["games"][-1] == 6_000
    assert curves[0]["exploitability"] == curves[1]["exploitability"]
    assert all(np.diff(curves[0]["cpu_s"]) > 0)


@pytest.mark.needs("tensorflow")
def test_the_search_is_measured_from_a_stored_run():
    unit = alpha_zero.training_unit(alpha_zero.NAME, Game(skip_chance=0.25), 16, 0, hidden=(8,), gradient_steps=2)
    curve = alpha_zero.Learning().measure({**unit, "marks": (1.0,), "searched": (1.0,), "simulations": 64})
    assert 0 < curve["searched"][0] < 0.5 * curve["exploitability"][0]


def test_variants_differ_from_the_default_in_their_settings():
    skips = {}
    default = json.loads(json.dumps(alpha_zero.dataclasses.asdict(AlphaZeroConfig())))
    for unit in json.loads(json.dumps(alpha_zero.Ablation().units(False))):
        changed = {name for name, value in unit["settings"].items() if value != default[name]}
        settings = alpha_zero.VARIANTS[unit["variant"]]
        assert changed == {name for name, value in settings.items() if value != default[name]}
        assert bool(changed) == (unit["variant"] != alpha_zero.DEFAULT)
        skips.setdefault(unit["variant"], set()).add(unit["game"]["skip_chance"])
    assert skips["no chance nodes"] == {0.25}  # elsewhere they are the same


def test_perfect_play_keeps_proved_results():
    game = alpha_zero.BOARDS[0]
    positions = alpha_zero._select(alpha_zero.read_proved(game.slug), 6)
    pairs = alpha_zero._play_from_proved(game, "expectiminimax:depth=6", "random", positions, 0)
    assert sum(pairs["held"]) == sum(pairs["theirs"]) == sum(pairs["ahead"]) == 6
    assert pairs["held"][2] >= 5
    assert pairs["theirs"][0] + pairs["theirs"][1] >= 5


# ---------------------------------------------------------------------------------------------------------------------
# Estimators, and the noise of games


@pytest.fixture(scope="module")
def audits():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(estimators, "SKIPS", (0.0,))
        patch.setattr(estimators, "QUICK", 200)
        study = estimators.Estimators()
        return [(unit, study.measure(unit)) for unit in study.units(True)]


VERDICTS_OF_ESTIMATORS = {
    "lambda = 1 and exact values is unbiased": True,
    "unbiased whatever the values are": True,
    "every lambda is unbiased": True,
    "lambda = 0 has the smallest variance": None,  # 200 episodes do not tell it from 0.25
    "with inexact values lambda < 1 is biased": True,
    "a truncation without bootstrapping biases": True,
    "even if the bootstrap is correct": False,
    "remove this bias": False,
    "have less bias than those of GAE": False,
    "number of subtracted means depends": True,
    "does not depend on when the episode ends": True,
    "RLOO is unbiased": True,
    "divided by the standard deviation": True,
    "importance sampling per decision is unbiased": True,
    "ratios of temporal-difference errors": True,
    "ratios of what follows them": True,
    "truncation reduces the variance": True,
}


def verdicts_of(audits):
    claims = estimators.Estimators().analyse(audits).claims
    return {
        part: claim.holds for part, claim in zip(VERDICTS_OF_ESTIMATORS, claims, strict=True) if part in claim.words
    }


def test_verdicts_on_estimators(audits):
    assert verdicts_of(audits) == VERDICTS_OF_ESTIMATORS


def test_a_bias_refutes_the_claims_that_there_is_none(audits):
    bias = {"bias_squared": dict.fromkeys(("mean", "low", "high"), 0.1)}
    biased = [
        (
            unit,
            [
                audit | {"gradient": audit["gradient"] | bias} if audit["name"] == "gae:lam=1" else audit
                for audit in own
            ],
        )
        for unit, own in audits
    ]
    expected = dict.fromkeys(list(VERDICTS_OF_ESTIMATORS)[:3], False)
    verdicts = verdicts_of(biased)
    assert {part: verdicts[part] for part in expected} == expected
    assert verdicts["RLOO is unbiased"] is True


def test_rank_correlation_is_that_of_scipy():
    rng = np.random.default_rng(0)
    scores, values = rng.integers(4, size=12).astype(float), rng.integers(4, size=(3, 12)).astype(float)
    expected = np.mean([spearmanr(row, scores).statistic for row in values])
    assert noise.rank_correlation(values, scores) == pytest.approx(expected)
    assert noise.rank_correlation(np.ones((1, 12)), scores) == 0


def test_wrong_comparisons_are_counted():
    rows = [{"steps": 10, "score": score} for score in (0.1, 0.5, 0.9)] + [{"steps": 500, "score": 0.0}]
    for values, share in (
        ([[1.0, 2, 3, 9]], 0),
        ([[3.0, 2, 1, 9]], 1),
        ([[1.0, 1, 1, 9]], 0.5),
        ([[2.0, 1, 3, 9], [1, 2, 3, 9]], 1 / 6),
        ([[np.nan, 3, 2, 9]], 1),
    ):
        assert noise.share_of_wrong(np.array(values), rows) == pytest.approx(share)
    assert noise.share_of_wrong(np.ones((1, 2)), [{"steps": 1, "score": 0.5}] * 2) is None


def test_noise_of_games_costs_seeds():
    """Two seeds per group, with a variance of 0.02, and games with a variance of 0.25 / n."""
    unit, run = {"task": "chance-25"}, {"agent": "a", "steps": 10, "learns": True}
    results = [(unit, [{**run, "random": [0.5 + sign * 0.1] * 2}]) for sign in (-1, 1)]
    for games in noise.GAMES:
        cost = noise.cost_in_seeds(results, games)
        assert cost.mean == pytest.approx(1 + 0.24 / games / 0.02)
        assert 1 <= cost.low < cost.mean < cost.high
    assert noise.cost_in_seeds(results[:1], 20).high == float("inf")


def test_a_unit_measures_all_policies():
    """Those of submissions in the repository, at their last two checkpoints: an own recursion scores them elsewhere."""
    study = noise.NoiseOfGames()
    unit = next(unit for unit in study.units(False) if (unit["task"], unit["seed"]) == ("random", 1))
    unit = {**unit, "agents": ["random", "q-learning", "naive-mc"], "checkpoints": 2, "pairs": 2}
    rows = study.measure(unit)
    assert rows[0]["score"] == pytest.approx(0, abs=1e-9)
    assert rows[0]["random"] == pytest.approx([737 / 1260, 121 / 420])  # known without us
    assert rows[0]["elo"] == rows[1]["elo"] < min(rows[3]["elo"], rows[5]["elo"])
    scored = score_submission(noise.SUBMISSIONS / "q-learning.npz", last=True).runs
    [run] = [run for run in scored if (run.task, run.seed) == ("random", 1)]
    assert rows[3]["score"] == run.score
    assert np.mean(rows[3]["random"]) == pytest.approx(run.win_random)


def test_units_follow_the_files_of_submissions(tmp_path, monkeypatch):
    for name in ("random.npz", "win-or-block.npz"):
        shutil.copy(noise.SUBMISSIONS / name, tmp_path / name)
    monkeypatch.setattr(noise, "SUBMISSIONS", tmp_path)
    units = noise.NoiseOfGames().units(False)
    assert {unit["task"] for unit in units} >= {"random", "chance-25", "self-play"}
    assert not any(unit["task"] == "masks" for unit in units)
    with np.load(tmp_path / "random.npz") as stored:
        rest = {name: array for name, array in stored.items() if not name.startswith("random/seed-1")}
    np.savez_compressed(tmp_path / "random.npz", **rest)
    after = noise.NoiseOfGames().units(False)
    remaining = [unit for unit in units if (unit["task"], unit["seed"]) != ("random", 1)]
    assert [(unit["task"], unit["seed"]) for unit in after] == [(unit["task"], unit["seed"]) for unit in remaining]
    assert after[0]["sha256"][0] != units[0]["sha256"][0]
