"""Proved positions: construction, the stored sets, and evaluation of policies."""

import json

import make_proved_positions
import numpy as np
import pytest
from make_proved_positions import PLANS, PositionSetPlan, make_proved, prove_again

from baselines.exact import build
from baselines.proof_number import Prover
from ttt_envs import Game
from ttt_envs.game.boards import from_text
from ttt_envs.game.rules import legal, winner
from ttt_envs.game.symmetry import symmetries
from ttt_eval.exact import proved_positions
from ttt_eval.exact.proved_positions import keep_probabilities, read_proved, summarize
from ttt_eval.store.result_store import hash_data

SMALL = PositionSetPlan(Game(3, 4, 3), (2, 8), count=30, quick=10, wins=20, nodes=5000, seed=3)


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    return make_proved("small", SMALL, tmp_path_factory.mktemp("small"), {"code": "none"})


def test_results_are_those_of_the_solver(small):
    values = build(SMALL.game).action_values(small.boards)
    for position, row in zip(small.proven, values, strict=True):
        assert [{1: "w", 0: "d", -1: "l"}.get(value, ".") for value in row] == list(position.moves)
    assert {position.result for position in small.proven} == {"w", "d"}
    assert sum(position.result == "w" for position in small.proven) <= SMALL.wins
    assert sum(0 < position.plies <= 2 for position in small.proven) <= SMALL.quick


def test_plies_to_the_quickest_win_or_slowest_loss():
    game = Game(5, 5, 4)
    for text, best, plies in (
        ("...../.oo../...../..x.x/..... o", "w", 3),  # a third stone makes two threats
        ("ooo../x.x../...../...../..... x", "d", 2),  # a threat is to be blocked
    ):
        position = from_text(text, game)
        results = Prover(game).results(position)
        assert ("w" if "w" in make_proved_positions.results_to_letters(results) else "d") == best
        assert make_proved_positions.count_plies(game, position, results) == plies, text


@pytest.mark.parametrize("name", PLANS)
def test_stored_set_is_complete(name):
    positions = read_proved(name)
    plan = PLANS[name]
    assert (positions.game, len(positions.proven)) == (plan.game, plan.count)
    assert positions.data["seed"] == plan.seed
    classes = set()
    for position in positions.proven:
        cells = from_text(position.text, plan.game).cells
        assert winner(plan.game, cells) is None
        assert plan.stones[0] <= position.stones <= plan.stones[1]
        assert set(position.moves) >= {"w", "d"} or set(position.moves) >= {position.result, "l"}
        classes.add(min(cell.tobytes() for cell in cells[symmetries(plan.game)]))
    assert len(classes) == plan.count
    assert sum(0 < position.plies <= 2 for position in positions.proven) <= plan.quick
    assert (proved_positions.PROVED_POSITIONS_FOLDER / f"{name}.json").stat().st_size < 200_000


@pytest.mark.parametrize("count", [5, pytest.param(1000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", PLANS)
def test_stored_positions_are_proved_again(name, count, capsys):
    make_proved_positions.main((name,), again=True, sample=count)
    number = min(count, PLANS[name].count)
    assert (
        capsys.readouterr().out
        == f"{name}: {number:,} positions proved again, with the stored results\n"
    )


def test_wrong_result_is_found(small):
    row = small.proven[0]
    wrong = row._replace(
        moves=row.moves.replace("l", "d") if "l" in row.moves else row.moves.replace("d", "l")
    )
    with pytest.raises(ValueError, match="the results of moves differ from those stored in"):
        prove_again(proved_positions.Positions(small.game, [*small.proven[1:3], wrong], small.data))


def test_keep_probabilities_of_random_moves(small):
    shares = keep_probabilities(small.game, "random", small)
    expected = small.keeps.sum(axis=1) / legal(small.game, small.boards.cells).sum(axis=1)
    assert np.allclose(shares, expected, rtol=0, atol=1e-12)
    result = summarize(small, shares)
    assert result["all"]["all"].share.mean == pytest.approx(expected.mean(), abs=1e-12)
    assert keep_probabilities(small.game, "optimal", small) == pytest.approx(1.0)
    for kind in ("result", "stones", "plies"):
        assert sum(group.positions for group in result[kind].values()) == len(shares)


def test_sampled_moves_depend_on_the_seed_and_not_on_workers(small):
    spec = "mcts:simulations=5,reuse=false"
    shares = keep_probabilities(small.game, spec, small, seed=1)
    assert set(shares.tolist()) <= {0.0, 1.0}
    assert shares.tolist() == keep_probabilities(small.game, spec, small, seed=1, jobs=2).tolist()


@pytest.mark.parametrize(
    "damage", [{"kind": "rungs"}, {"positions": [3]}, {"game": 7}, {"seed": 9}], ids=str
)
def test_damaged_files_are_refused(small, tmp_path, damage):
    data = {**small.data, **damage}
    if "seed" not in damage:  # that one has the wrong checksum
        data["sha256"] = hash_data(data)
    path = tmp_path / "x.json"
    path.write_text(json.dumps(data))
    for name in (path, "9x9-5", "../proved_positions/5x5-4"):
        with pytest.raises(ValueError, match=str(name)):
            read_proved(name)
