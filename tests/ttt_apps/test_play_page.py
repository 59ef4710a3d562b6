"""The page without a server: its numbers and its answers are Python's. How it is played:
test_explorer_page.py.
"""

import base64
import json
from dataclasses import replace
from itertools import product

import numpy as np
import plain
import pytest
from documents import ROOT
from explorers import line_of, random_game
from pages import in_browser, open_pages
from small_games import SKIP_GAME

from baselines.compression import decomposition
from baselines.exact import solve
from baselines.tables import random_play_values
from ttt_apps.play_page.__main__ import build_page
from ttt_apps.play_page.nets import Net
from ttt_apps.play_page.numbers import (
    GAMES,
    MAX_RANK,
    OPPONENTS,
    SKIPS,
    make_opponent,
    measure_strength,
    numbers,
)
from ttt_envs.agents.policy import sample
from ttt_envs.agents.wrappers import check_colour_blind, check_symmetric
from ttt_envs.core.random import splitmix64, uniform
from ttt_envs.game.boards import Boards, to_text
from ttt_envs.game.game import VARIANTS as RULES
from ttt_envs.game.game import Game
from ttt_envs.game.rules import STREAM_OPPONENT
from ttt_eval.exact.dynamic_programming import exploitation, match_outcome

pytestmark = pytest.mark.more

PAGE = ROOT / "docs" / "play" / "index.html"


@pytest.fixture(scope="module")
def answer(browser):
    """Answers questions by the page's script."""
    with open_pages(browser) as open_page:
        page = open_page(PAGE.as_uri())
        page.wait_for_selector("#board .cell")
        yield lambda *calls: page.evaluate(
            "calls => Promise.all(calls.map((call) => offline.answer(...call)))", calls
        )


def inside():
    text = PAGE.read_text("utf-8").partition('<script type="application/json" id="numbers">')[2]
    return json.loads(text.partition("</script>")[0])


def test_the_published_page_is_up_to_date_and_small():
    text = PAGE.read_text("utf-8")
    same = build_page(inside()) == text
    assert same, "docs/play/index.html is not what its parts make now: make play-page"
    assert len(text.encode()) < 500_000
    words = text.replace("http://www.w3.org/2000/svg", "").replace("http-equiv", "")
    assert not [word for word in ("http", "innerHTML", '<link rel="stylesheet') if word in words]


# --------------------------------------------------------------------------------------------------
# What is in it


@pytest.mark.parametrize("game", GAMES, ids=str)
def test_tables_and_nets_have_the_properties_that_the_page_needs(game):
    whole = decomposition(game, "svd")
    np.testing.assert_allclose(whole.at(MAX_RANK).table(), random_play_values(game), atol=1e-9)
    assert whole.at(MAX_RANK - 1).relative_error > 1e-6
    boards = Boards.from_positions(
        [ply.position for seed in range(20) for ply in random_game(game, seed).plies]
    )
    check_symmetric(make_opponent(game, "net"), game, boards)
    check_colour_blind(Net(game), game, boards)


def test_strengths_are_those_of_exact_evaluation():
    games = inside()["games"]
    svd = {name: of_ranks[18] for name, of_ranks in games[2]["ranks"].items()}
    for game, name, strength in (
        (GAMES[0], "net", games[0]["strength"]["net"]),
        (GAMES[2], "svd", svd),
    ):
        policy = make_opponent(game, name, 18)
        assert strength["exploitability"] == pytest.approx(
            exploitation(game, policy).exploitability, abs=1e-6
        )
        outcome = match_outcome(game, policy, "optimal")
        assert (strength["win"], strength["draw"], strength["loss"]) == pytest.approx(
            outcome, abs=1e-6
        )
        assert measure_strength(game, policy).items() <= strength.items()


@pytest.mark.slow
def test_the_page_is_reproducible_and_the_published_one():
    new = numbers()
    old = inside()
    assert build_page(new | {"games": []}) == build_page(old | {"games": []})
    for before, now in zip(old["games"], new["games"], strict=True):
        assert before["net"] == now["net"]
        # the last bits of a float are those of a machine's arithmetic
        for halves in zip(before["svd"], now["svd"], strict=True):
            first, second = (
                np.frombuffer(base64.b64decode(half), "<f4").reshape(81, MAX_RANK)
                for half in halves
            )
            np.testing.assert_allclose(first @ first.T, second @ second.T, atol=1e-4)
        for name in before["ranks"]:
            np.testing.assert_allclose(before["ranks"][name], now["ranks"][name], atol=1e-5)


def test_answers_to_the_questions_for_a_class_are_exact():
    page = PAGE.read_text()
    values = [solve(Game(skip_chance=skip)).value for skip in (0.1, 0.25, 0.5)]
    assert "by {:.3f}, at 25% by {:.3f} and at 50% by {:.3f} games".format(*values) in page
    ranks = inside()["games"][0]["ranks"]["exploitability"]
    words = "is {:.3f} without skips. Rank 45 has {:.3f}, rank 18 has {:.3f}, rank 3 has {:.3f}"
    assert words.format(*(ranks[rank] for rank in (75, 45, 18, 3))) in page
    game = SKIP_GAME
    moves = np.sort(solve(game).action_values(plain.from_texts("xo./..x/x.. o", game=game))[0])[:5]
    assert moves[4] == moves[3] == pytest.approx(moves[2] + 0.09, abs=0.005)


# --------------------------------------------------------------------------------------------------
# Its answers are those of a server


def cases():
    """All rules on 3 x 3 and 3 x 4, and 4 x 4 with gravity; in the quick form each rule once, and
    some together.
    """
    quick = {
        "3x3-3-skip0.25",
        "3x4-3-no-overlines-torus",
        "3x3-3-gravity-misere-torus-skip0.25",
        "4x4-4-gravity",
    }
    bases = Game(), SKIP_GAME, Game(3, 4, 3), Game(3, 4, 3, 0.5)
    ways = [
        dict(zip(RULES, values, strict=True))
        for values in product((False, True), repeat=len(RULES))
    ]
    games = [replace(base, **rules) for base in bases for rules in ways]
    for game in (*games, Game(4, 4, 4, gravity=True), Game(4, 4, 4, 0.25, gravity=True)):
        yield pytest.param(
            game, id=game.slug, marks=[] if game.slug in quick else [pytest.mark.slow]
        )


@in_browser
@pytest.mark.parametrize("game", [*cases()])
def test_games_have_the_moves_lines_values_policies_and_puzzles_of_a_server(answer, game):
    """Whole games, with the values of all positions and the probabilities of all policies there."""
    from ttt_apps.explorer.api import ExplorerApi
    from ttt_apps.explorer.root import Root
    from ttt_apps.explorer.schemas import PuzzlesRequest, ReviewRequest, ValuesRequest

    api = ExplorerApi(Root())
    panels = [{"kind": "exact"}]
    if game.cells <= 12:
        panels += [
            {"kind": "random"},
            *({"kind": "policy", "policy": name} for name in ("random", "table", "optimal")),
        ]
    for seed in range(4):
        live = random_game(game, seed)
        line = line_of(live)
        position = live.plies[(seed * len(live.plies)) // 4].position
        body = {"game": line["game"], "position": to_text(position, game)}
        questions = [("values", {**body, "panel": panel}) for panel in panels]
        facts, puzzles, *result = answer(("review", line), ("puzzles", {"line": line}), *questions)
        expected = api.review(ReviewRequest(**line, wait=True))
        assert facts["values"] == pytest.approx(expected["values"], abs=1e-9)
        for our_values, reference in zip(facts["plies"], expected["plies"], strict=True):
            assert our_values["best"] == reference["best"]
            assert (our_values["loss"], our_values["luck"]) == pytest.approx(
                (reference["loss"], reference["luck"]), abs=1e-9
            )
        served = api.values(ValuesRequest.model_validate({**body, "panels": panels}))
        for reference, our_values in zip(served, result, strict=True):
            np.testing.assert_allclose(
                np.array(our_values["values"], float),
                np.array(reference["values"], float),
                atol=1e-9,
            )
        if game.cells <= 12:
            mistakes = api.puzzles(PuzzlesRequest.model_validate({"line": line}))["puzzles"]
            own = {puzzle["position"]: puzzle for puzzle in puzzles["puzzles"]}
            for puzzle in mistakes:  # the page does not leave out symmetric ones
                for name in ("best", "tempting", "replies"):
                    assert own[puzzle["position"]][name] == puzzle[name]


@in_browser
def test_the_rules_have_the_skips_legal_moves_and_ends_of_python(answer, browser):
    """On boards of any size: the script replays the games, and draws their skips from the seed."""
    with open_pages(browser) as open_page:
        page = open_page(PAGE.as_uri())
        script = """([game, moves, seed]) => {
            const line = rules.replay(game, null, moves)
            const words = line.plies.map(
                ({cell}, number) => rules.wordOf(game, line.positions[number], cell, seed))
            const viewOf = ({text, legal, outcome, line}) =>
                [text, legal, outcome, [...new Set(line)].length]
            const views = line.positions.map(viewOf)
            return [words, views, line.problem]
        }"""
        for game in (
            Game(5, 7, 4, 0.5),
            Game(6, 7, 4, 0.25, gravity=True),
            Game(4, 6, 3, 0.1, overlines=False, torus=True),
            Game(5, 5, 4, misere=True),
            Game(1, 9, 4, 0.5, overlines=False),
            Game(15, 15, 5, 0.25),
        ):
            for seed in (0, 7, 999_999):
                live = random_game(game, seed)
                line = line_of(live)
                words, views, problem = page.evaluate(
                    script, [line["game"], line["moves"].split(), seed]
                )
                assert (" ".join(words), problem) == (line["moves"], None)
                for ply, (text, legal, outcome, count) in zip(live.plies, views, strict=False):
                    assert (text, outcome, count) == (to_text(ply.position, game), None, 0)
                    here = Boards.from_positions([ply.position])
                    assert legal == np.flatnonzero(here.legal(game)[0]).tolist()
                assert views[-1][1:3] == [[], int(live.outcome)]


@in_browser
@pytest.mark.parametrize(
    "number", [0, 2, *(pytest.param(number, marks=pytest.mark.slow) for number in (1, 3))]
)
def test_nets_and_compressed_tables_have_the_numbers_of_python(answer, number):
    game = GAMES[number]
    ranks = (0, 3, 18, 75)
    own = make_opponent(game, "net")
    tables = [make_opponent(game, "svd", rank) for rank in ranks]
    panels = [{"kind": "run"}, {"kind": "policy", "policy": "run:learned-net"}]
    panels += [{"kind": "compressed", "rank": rank} for rank in ranks]
    panels += [{"kind": "policy", "policy": f"svd:rank={rank}"} for rank in ranks]
    for seed in range(6):
        live = random_game(game, seed)
        position = live.plies[seed * len(live.plies) // 6].position
        boards = Boards.from_positions([position])
        body = {**line_of(live), "position": to_text(position, game)}
        expected = [own.action_values(boards), own.probabilities(boards)]
        expected += [table.action_values(boards) for table in tables]
        expected += [table.probabilities(boards) for table in tables]
        free = boards.legal(game)[0]
        for result, rows in zip(
            answer(*(("values", {**body, "panel": panel}) for panel in panels)),
            expected,
            strict=True,
        ):
            np.testing.assert_allclose(
                np.array(result["values"], float)[free], rows[0][free], atol=1e-4
            )


@in_browser
def test_a_policy_moves_by_the_random_numbers_of_the_seed(answer):
    game = GAMES[2]
    policies = {name: make_opponent(game, name) for name in OPPONENTS if name != "net"}
    for seed in range(4):
        live = random_game(game, seed)
        line = line_of(live, 2)
        boards = Boards.from_positions([live.plies[2].position])
        share = uniform(np.uint64(splitmix64(np.uint64(seed), 0)), STREAM_OPPONENT, 2)
        for name, policy in policies.items():
            spec = "svd:rank=75" if name == "svd" else name
            [reply] = answer(("move", {**line, "seed": seed, "policy": spec}))
            assert reply["cell"] == sample(policy.probabilities(boards), np.array([share]))[0]
    assert [numbers["skip"] for numbers in inside()["games"][:4]] == list(SKIPS)
