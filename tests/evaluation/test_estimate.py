"""Estimates of exact computations: accuracy of positions, and limits of memory."""

import numpy as np
import pytest

from baselines.retrograde.count import reachable_boards
from evaluation.exact.dynamic_programming import CHUNK, best_response, outcome
from evaluation.exact.estimate import affordable, boards_by_stones, check_fits, duration, estimate, free_bytes
from evaluation.exact.forward_backward import TraversalSpec, forward_layers
from ttt_envs import Game, make_policy
from ttt_envs.game.boards import from_keys


@pytest.mark.parametrize(("game", "spec"), [(Game(5, 5, 4), "win-or-block"), (Game(4, 4, 4, 0.25), "random")], ids=str)
def test_symmetric_policy_has_an_eighth_of_the_positions(game, spec):
    players = (None, make_policy(spec, game))
    found = estimate(game, players, CHUNK, backward=True)
    plain = estimate(game, players, CHUNK, backward=True, traversal=TraversalSpec.plain(game, players))
    assert 1 / 16 < found.positions / plain.positions < 1 / 4
    assert found.bytes < plain.bytes / 4


@pytest.mark.parametrize("skip", [0.0, 0.25])
def test_reachable_boards_are_within_the_counts(skip):
    game = Game(skip_chance=skip)
    cells = from_keys(np.flatnonzero(reachable_boards(game)).astype(np.uint64), game)
    met = np.bincount(np.count_nonzero(cells, axis=1), minlength=game.cells)[: game.cells]
    bound = boards_by_stones(game)
    assert (met <= bound).all()
    if not skip:
        assert met[:5].tolist() == bound[:5]  # nobody can have won


@pytest.mark.parametrize(
    ("game", "spec"),
    [
        (Game(3, 4, 3), "random"),
        (Game(3, 4, 4, 0.25), "random"),
        (Game(3, 4, 3), "win-or-block"),
        (Game(3, 4, 3, 0.1), "optimal"),
    ],
    ids=str,
)
def test_estimate_from_the_first_layers(game, spec, monkeypatch):
    players = (None, make_policy(spec, game))
    sizes = [layer.index.size for layer in forward_layers(TraversalSpec.from_players(game, players), CHUNK)]
    monkeypatch.setattr("evaluation.exact.estimate.MOVES", 1 << 14)  # of some hundred thousand
    found = estimate(game, players, CHUNK, backward=True)
    assert sum(sizes) / 3 <= found.positions <= sum(sizes) * 4
    assert max(sizes) / 3 <= found.largest <= max(sizes) * 4
    assert found.seconds > 0


def test_short_traversal_is_counted_exactly():
    game = Game(1, 17, 2)
    players = (None, make_policy("win-or-block", game))
    found = estimate(game, players, CHUNK, backward=True)
    assert found.positions == sum(
        layer.index.size for layer in forward_layers(TraversalSpec.from_players(game, players), CHUNK)
    )


@pytest.mark.parametrize(
    ("game", "spec"),
    [
        (Game(5, 5, 3), "random"),
        (Game(5, 6, 4), "random"),
        (Game(19, 19, 5), "win-or-block"),
        (Game(6, 6, 4, 0.25), "random"),
    ],
    ids=str,
)
def test_too_large_computation_is_rejected_before_it_starts(game, spec):
    policy = make_policy(spec, game)
    for work in (lambda: best_response(game, policy, 0), lambda: outcome(game, policy, policy)):
        with pytest.raises(MemoryError, match=r"would take about .* positions, .* GiB may be used: sample them with"):
            work()


def test_memory_limit():
    game = Game(4, 4, 4, 0.25)
    players = (make_policy("random", game),) * 2
    assert check_fits(game, players, CHUNK, backward=True).bytes < free_bytes()
    with pytest.raises(MemoryError, match=r"and 0\.01 GiB may be used"):
        check_fits(game, players, CHUNK, backward=True, memory=2**30 // 100)
    assert check_fits(Game(), (None, None), CHUNK, backward=True, memory=1) is None  # next to nothing


@pytest.mark.parametrize(
    ("game", "policy", "expected"),
    [
        (Game(skip_chance=0.25), "random", True),
        (Game(3, 4, 3), "random", True),
        (Game(3, 4, 3, 0.1), "random", False),
        (Game(5, 5, 4), "random", False),
        (Game(), "mcts", False),  # not pure
    ],
    ids=str,
)
def test_small_games_of_pure_policies_are_affordable(game, policy, expected, monkeypatch):
    monkeypatch.setattr("time.perf_counter", lambda: pytest.fail("a clock decides, so that a busy machine differs"))
    assert affordable(game, make_policy(policy, game)) is expected


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.5, "0.5 seconds"),
        (90, "90 seconds"),
        (150, "2.5 minutes"),
        (86400, "24 hours"),
        (1e30, "more than a century"),
    ],
)
def test_duration_in_words(seconds, words):
    assert duration(seconds) == words
