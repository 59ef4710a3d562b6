"""Monte Carlo tree search: against a plain implementation, against exact values, and invariances."""

import math
from collections import defaultdict
from itertools import pairwise, permutations

import numpy as np
import plain
import pytest
from evaluators import Noise
from numpy.testing import assert_allclose, assert_array_equal

from baselines import mcts
from baselines.exact import solve
from baselines.mcts import MCTS, MCTSPlayer, MCTSSearch, Tree
from ttt_envs import Boards, Game, from_text, make_policy
from ttt_envs.agents.policy import Values, act_in_episodes
from ttt_envs.game.rules import STREAM_OPPONENT, STREAM_SKIP, winner
from ttt_eval.matches.match import MatchSettings, play_blocks, play_pairs

SKIPS = [0.0, 0.1, 0.25, 0.5]


def keys_for(count, seed=0):
    return np.random.default_rng(seed).integers(0, 1 << 64, count, np.uint64)


def searched(game, boards, simulations, seed=0, **settings):
    search = MCTSSearch(game, boards, keys_for(len(boards.mover), seed), **settings)
    search.run(simulations)
    return search


def contents(search, row=0):
    """Everything in a tree: {history: (visits, sum to player_0, moves tried in order)}.

    A history is ((cell, next mover), ...) from the root, as `PlainSearch` has it.
    """
    return contents_below(search._trees.edges[row], search._trees.nodes[row], search._trees.turns_per_move)


def contents_below(edges, nodes, turns_per_move, node=0, mover=None):
    found = {}
    player = int(edges["player"][node // turns_per_move])
    mover = 1 - player if mover is None else mover
    children = []
    edge = nodes["first_child"][node]
    while edge:
        children.append(int(edge))
        edge = edges["next_sibling"][edge]
    tried = tuple(int(edges["cell"][edge]) for edge in reversed(children))
    found[()] = int(nodes["visits"][node]), float(nodes["value_sum"][node]) * (1 - 2 * player), tried
    for edge in children:
        assert edges["player"][edge] == mover
        for own in range(turns_per_move):
            next_mover = mover if own else 1 - mover
            below = contents_below(edges, nodes, turns_per_move, edge * turns_per_move + own, next_mover)
            start = (int(edges["cell"][edge]), next_mover)
            found |= {(start, *history): entry for history, entry in below.items()}
    return found


# ---------------------------------------------------------------------------------------------------------------------
# The same search once more


class PlainSearch:
    """The search as the module describes it, on dictionaries by history, all values to player_0."""

    def __init__(self, game, position, key, c=1.4, decisive=True, evaluate=None):
        self.game, self.position, self.key = game, position, key
        self.c, self.decisive, self.evaluate = c, decisive, evaluate
        self.lines = [set(line) for line in plain.all_lines(game)]
        self.visits, self.total = defaultdict(int), defaultdict(float)
        self.tried, self.limit = defaultdict(list), {}
        self.known, self.solved = {}, {}

    def completes(self, cells, cell, player):
        own = {i for i, stone in enumerate(cells) if stone == player + 1} | {cell}
        return any(cell in line and line <= own for line in self.lines)

    def value_of(self, node, cell, mover):
        """(mean to the mover, width) of a move."""
        sign = 1 - 2 * mover
        turns = [(*node, (cell, 1 - mover)), (*node, (cell, mover))]
        visits = sum(self.visits[turn] for turn in turns)
        mean = self.solved.get((node, cell), (self.total[turns[0]] + self.total[turns[1]]) / visits)
        return sign * mean, 1 / math.sqrt(visits)

    def choose(self, node, cells, mover, u):
        empty = [cell for cell, stone in enumerate(cells) if stone == 0]
        wins = [cell for cell in empty if self.decisive and self.completes(cells, cell, mover)]
        blocks = [cell for cell in empty if self.decisive and self.completes(cells, cell, 1 - mover)]
        if node not in self.limit:
            self.limit[node] = 1 if wins else len(blocks) if blocks and not self.game.skip_chance else len(empty)
        tried = self.tried[node]
        if len(tried) < self.limit[node]:
            first = wins or [cell for cell in blocks if cell not in tried] or empty
            open_cells = [cell for cell in first if cell not in tried]
            tried.append(open_cells[int(u * len(open_cells))])
            return tried[-1]
        weight = 0.0 if node in self.known else self.c * math.sqrt(math.log(self.visits[node]))
        bounds = {}
        for cell in reversed(tried):
            mean, width = self.value_of(node, cell, mover)
            bounds[cell] = mean + weight * width
        return max(bounds, key=bounds.get)

    def play_out(self, cells, mover, u_of):
        empty = [cell for cell, stone in enumerate(cells) if stone == 0]
        while True:
            ply = self.game.cells - len(empty)
            chosen = int(u_of(STREAM_OPPONENT, ply) * len(empty))
            cell, last = empty[chosen], empty.pop()
            if chosen < len(empty):
                empty[chosen] = last
            cells[cell] = mover + 1
            if self.completes(cells, cell, mover):
                return 1 - 2 * mover
            if not empty:
                return 0
            mover = mover if u_of(STREAM_SKIP, ply) < self.game.skip_chance else 1 - mover

    def simulate(self, number):
        key = plain.splitmix64(self.key, number)
        cells, mover = self.position.cells.tolist(), self.position.mover

        def u_of(stream, ply):
            return (plain.splitmix64(key, (stream << 32) + ply) >> 11) * 2.0**-53

        node, movers = (), []
        while not movers or (self.visits[node] and node not in self.known):
            ply = self.game.cells - cells.count(0)
            cell = self.choose(node, cells, mover, u_of(STREAM_OPPONENT, ply))
            won = self.completes(cells, cell, mover)
            cells[cell] = mover + 1
            if won or 0 not in cells:
                self.known |= {(*node, (cell, player)): (1 - 2 * mover) * won for player in (0, 1)}
            movers.append(mover)
            mover = mover if u_of(STREAM_SKIP, ply) < self.game.skip_chance else 1 - mover
            node = (*node, (cell, mover))
        if node not in self.known:
            value = self.evaluate(cells, mover) if self.evaluate else self.play_out(cells, mover, u_of)
        while True:
            self.visits[node] += 1
            if node in self.known:
                value = self.known[node]
                self.total[node] = value * self.visits[node]
            else:
                self.total[node] += value
            if not node:
                return
            node, (cell, _) = node[:-1], node[-1]
            value = self.settle(node, cell, movers.pop(), value)

    def settle(self, node, cell, mover, value):
        turns = [(*node, (cell, 1 - mover)), (*node, (cell, mover))]
        if not self.game.skip_chance:
            turns[1] = turns[0]
        if self.decisive and all(turn in self.known for turn in turns):
            one, other = (self.known[turn] for turn in turns)
            self.solved[node, cell] = value = one + self.game.skip_chance * (other - one)
            sign = 1 - 2 * mover
            results = [sign * self.solved[node, other] for other in self.tried[node] if (node, other) in self.solved]
            if max(results) == 1:
                self.limit[node] = len(self.tried[node])
            if max(results) == 1 or len(results) == self.limit[node]:
                self.known[node] = sign * max(results)
        return value


def compare(game, boards, simulations, **settings):
    """Every node of the trees of both has the same visits, the same sum and the same moves, in the same order."""
    search = searched(game, boards, simulations, **settings)
    leaf = settings.pop("leaf", None)
    if leaf is not None:
        settings["evaluate"] = lambda cells, mover: (
            (1 - 2 * mover) * float(leaf.values(Boards(np.array([cells], np.int8), np.array([mover], np.int8)))[0])
        )
    for row, key in enumerate(keys_for(len(boards.mover)).tolist()):
        other = PlainSearch(game, boards.position(row), key, **settings)
        for number in range(simulations):
            other.simulate(number)
        found = contents(search, row)
        expected = {
            node: (visits, other.total[node], tuple(other.tried[node])) for node, visits in other.visits.items()
        }
        assert {node: entry for node, entry in found.items() if entry[0]} == {
            node: entry for node, entry in expected.items() if entry[0]
        }
        mover = int(boards.mover[row])
        values = {cell: other.value_of((), cell, mover)[0] for cell in other.tried[()]}
        assert_array_equal(np.flatnonzero(search.visits[row]), sorted(values))
        assert_array_equal(search.action_values[row, sorted(values)], [values[cell] for cell in sorted(values)])
        assert_array_equal(np.flatnonzero(search.solved[row]), sorted(cell for node, cell in other.solved if not node))


@pytest.mark.parametrize("decisive", [True, False])
@pytest.mark.parametrize(
    "game",
    [
        Game(),
        Game(skip_chance=0.1),
        Game(skip_chance=0.5),
        Game(3, 4, 3, 0.25),
        Game(2, 5, 2, 0.9),
        Game(1, 6, 3, 0.25),
        Game(2, 2, 1),
        Game(4, 4, 3),
        Game(5, 6, 4, 0.25),
    ],
    ids=str,
)
def test_the_kernel_agrees_with_a_plain_implementation(game, decisive):
    compare(game, Boards.start(game), 400 if game.cells <= 12 else 100, decisive=decisive)
    compare(game, plain.positions_of_random_play(game, 12, seed=1), 800 // game.cells, decisive=decisive, c=0.7)


@pytest.mark.parametrize("decisive", [True, False])
@pytest.mark.parametrize("game", [Game(), Game(skip_chance=0.25), Game(3, 4, 3, 0.5)], ids=str)
def test_with_a_rollout_policy_it_agrees_with_a_plain_implementation(game, decisive):
    leaf = make_policy("optimal", game)
    compare(game, Boards.start(game), 200, decisive=decisive, leaf=leaf)
    compare(game, plain.positions_of_random_play(game, 12, seed=1), 60, decisive=decisive, leaf=leaf)


def test_leaves_of_all_positions_are_evaluated_in_one_call():
    game, asked = Game(skip_chance=0.25), []

    class Zero:
        def values(self, boards):
            assert boards.cells.dtype == boards.mover.dtype == np.int8
            asked.append(len(boards.mover))
            return np.zeros(len(boards.mover))

    searched(game, Boards.start(game, 50), 30, leaf=Zero())
    assert asked[0] == 50
    assert len(asked) <= 30


# ---------------------------------------------------------------------------------------------------------------------
# What it finds


@pytest.mark.parametrize("skip", [*SKIPS, 0.9])
def test_solved_values_are_exact(skip):
    game = Game(skip_chance=skip)
    boards = plain.positions_of_random_play(game, 200, seed=2)
    search = searched(game, boards, 3000)
    exact = solve(game).action_values(boards)
    assert search.solved.sum() > 100
    assert_allclose(search.action_values[search.solved], exact[search.solved], atol=1e-12)
    solved = (search._trees.nodes["num_unsolved"][:, 0] == 0).nonzero()[0]
    assert len(solved) > 50
    assert_allclose(search.values[solved], np.nanmax(exact, axis=1)[solved], atol=1e-12)
    chosen = search.probabilities()[solved] > 0
    assert (exact[solved][chosen] >= np.repeat(np.nanmax(exact, axis=1)[solved], chosen.sum(axis=1)) - 1e-12).all()


def errors(game, boards, simulations, **settings):
    """Mean distance of the values of positions from the exact ones."""
    policy = MCTS(game, simulations, **settings)
    return abs(policy.values(boards, np.random.default_rng(0)) - solve(game).values(boards)).mean()


@pytest.mark.parametrize("decisive", [True, False])
@pytest.mark.parametrize("skip", [*SKIPS, 0.9])
def test_values_approach_the_exact_ones(skip, decisive):
    """Were the mover taken from the number of stones, they would not where turns are skipped."""
    game = Game(skip_chance=skip)
    boards = plain.positions_of_random_play(game, 100, seed=3)
    few, many = (errors(game, boards, simulations, decisive=decisive) for simulations in (30, 5000))
    assert many < 0.7 * few
    assert many < 0.1


def lines_in_one(game, count, seed):
    """Positions of random play in which the mover can win, and others in which only one cell stops the opponent."""
    boards = plain.positions_of_random_play(game, count, seed)
    lines = [frozenset(line) for line in plain.all_lines(game)]
    wins, blocks = {}, {}
    for row, (cells, mover) in enumerate(zip(*boards, strict=True)):
        threats = []
        for player in (mover, 1 - mover):
            own = set(np.flatnonzero(cells == player + 1))
            missing = [line - own for line in lines if len(line - own) == 1]
            threats.append({int(cell) for (cell,) in missing if cells[cell] == 0})
        if threats[0]:
            wins[row] = threats[0]
        elif len(threats[1]) == 1:
            blocks[row] = threats[1]
    return boards, wins, blocks


@pytest.mark.parametrize("skip", [0.0, 0.25])
def test_wins_in_one_are_found_and_losses_in_one_blocked(skip):
    game = Game(7, 7, 5, skip)
    boards, wins, blocks = lines_in_one(game, 3000, seed=4)
    for wanted in (wins, blocks):
        rows = np.array(list(wanted))[:60]
        assert len(rows) >= 40
        p = MCTS(game, simulations=500).probabilities(boards.take(rows), np.random.default_rng(0))
        for row, found in zip(rows, p, strict=True):
            assert set(np.flatnonzero(found)) <= wanted[row], boards.position(row)


@pytest.mark.parametrize("decisive", [True, False])
@pytest.mark.parametrize("text", ["xx./x../.o. o", "xx./x.o/o.. o", "x../.o./... x", "o../.../... o", "oo./..x/... x"])
def test_both_turns_after_a_possible_skip_are_searched(text, decisive):
    """The stones do not determine the mover."""
    game = Game(skip_chance=0.5)
    position = from_text(text)
    found = MCTS(game, simulations=20_000, decisive=decisive).analyse(position)
    exact = solve(game).action_values(Boards.from_positions([position]))[0]
    mover, cell = found.variation[0]
    assert mover == position.mover
    assert exact[cell] > np.nanmax(exact) - 0.05
    assert abs(found.value - np.nanmax(exact)) < 0.1
    often = found.visits > 1000
    assert_allclose(found.action_values[often], exact[often], atol=0.1)


def test_the_variation_can_contain_a_skip():
    game = Game(5, 5, 4, 0.9)
    movers = [mover for mover, _ in MCTS(game, simulations=3000).analyse(Boards.start(game).position(0)).variation]
    assert any(one == other for one, other in pairwise(movers))


# ---------------------------------------------------------------------------------------------------------------------
# What must not matter


@pytest.mark.parametrize("leaf", [None, "optimal", Noise()], ids=str)
@pytest.mark.parametrize("game", [Game(), Game(3, 4, 3, 0.25)], ids=str)
def test_a_search_in_parts_is_the_same_search(game, leaf):
    leaf = make_policy(leaf, game) if isinstance(leaf, str) else leaf
    boards = plain.positions_of_random_play(game, 20)
    whole = searched(game, boards, 300, leaf=leaf)
    parts = MCTSSearch(game, boards, keys_for(20), leaf=leaf)
    for simulations in (1, 1, 100, 7, 191):
        parts.run(simulations)
    assert parts.simulations == whole.simulations == 300
    assert_array_equal(parts.counts, whole.counts)
    for part, array in zip(parts._trees, whole._trees, strict=True):
        used = min(part.shape[1], array.shape[1])
        assert_array_equal(part[:, :used], array[:, :used])
        assert_array_equal(part[:, used:], np.zeros_like(part[:, used:]))
        assert_array_equal(array[:, used:], np.zeros_like(array[:, used:]))


@pytest.mark.parametrize("leaf", [None, "optimal"])
def test_results_do_not_depend_on_the_batch(leaf):
    game = Game(skip_chance=0.25)
    leaf = leaf and make_policy(leaf, game)
    boards, keys = plain.positions_of_random_play(game, 30), keys_for(30)
    together = searched(game, boards, 100, leaf=leaf)
    for row in range(0, 30, 7):
        alone = MCTSSearch(game, boards.take(np.array([row])), keys[[row]], leaf=leaf)
        alone.run(100)
        assert contents(alone) == contents(together, row)


def test_results_do_not_depend_on_memory(monkeypatch):
    game = Game(skip_chance=0.25)
    boards = plain.positions_of_random_play(game, 40)
    policy = MCTS(game, simulations=50, temperature=1)
    whole = policy.probabilities(boards, np.random.default_rng(1))
    actions = policy.player().act(boards, np.arange(40), np.random.default_rng(2))
    monkeypatch.setattr(mcts.policy, "MEMORY", 3 * Tree.num_bytes(51, 2))
    assert [rows.stop - rows.start for rows in policy.groups(8)] == [3, 3, 2]
    assert_array_equal(policy.probabilities(boards, np.random.default_rng(1)), whole)
    assert_array_equal(policy.player().act(boards, np.arange(40), np.random.default_rng(2)), actions)


def test_a_simulation_adds_one_move_at_most():
    for game in (Game(19, 19, 5, 0.25), Game(4, 4, 4), Game(skip_chance=0.25)):
        search = searched(game, Boards.start(game, 3), 700)
        assert (search.counts <= 701).all()
        assert search._trees.edges.shape[1] == 701
        assert sum(array.nbytes for array in search._trees) == 3 * Tree.num_bytes(701, 2 if game.skip_chance else 1)
    assert (search.counts < 701).all()  # where results are known nothing is added


# ---------------------------------------------------------------------------------------------------------------------
# Trees that are continued


def below(found, history):
    return {node[len(history) :]: entry for node, entry in found.items() if node[: len(history)] == history}


def after(game, boards, moves):
    """Row 0 of ``boards`` after moves ((cell, next mover), ...)."""
    cells, mover = boards.cells[:1].copy(), int(boards.mover[0])
    for cell, following in moves:
        cells[0, cell] = mover + 1
        mover = following
    return Boards(cells, np.array([mover], np.int8))


@pytest.mark.parametrize(
    "moves",
    [
        [(4, 0)],
        [(4, 1), (0, 0)],
        [(4, 1), (0, 1), (8, 0)],
        [(4, 1), (0, 1), (8, 1), (2, 0)],
        [(4, 1)],  # a position without a turn of the same player
    ],
)
def test_a_saved_subtree_keeps_its_statistics(moves):
    game = Game(skip_chance=0.5)
    boards = Boards.start(game)
    search = searched(game, boards, 20_000, decisive=False)
    subtree, whole = search.subtree(0, 4), contents(search)
    again = MCTSSearch(game, after(game, boards, moves), keys_for(1), decisive=False, subtrees=[subtree])
    reused = contents(again)
    first, stones = moves[0], [cell for cell, _ in moves[1:]]
    orders = permutations(stones) if stones else ()  # in any order of the other player's stones
    ways = [(first, *((cell, 1) for cell in rest), (last, 0)) for *rest, last in orders] or [(first,)]
    assert reused in [below(whole, way) for way in ways]
    visits = reused[()][0]
    assert visits > 1
    assert reused[()][0] == again.visits.sum() + 1  # the first visit evaluated the position itself
    again.run(100)
    assert contents(again)[()][0] == visits + 100
    assert again.visits.sum() == visits - 1 + 100
    assert_array_equal(again._cells, after(game, boards, moves).cells)


def test_a_saved_subtree_of_another_position_is_ignored():
    game = Game(skip_chance=0.5)
    boards = Boards.start(game)
    search = searched(game, boards, 500)
    subtree = search.subtree(0, 4)
    for text in ("o../.../... x", "o../.x./... o", "o../.o./... x", "x../.x./... o", "xx./oox/xx. o", "xx./.ox/... x"):
        board = Boards.from_positions([from_text(text)])
        fresh, again = MCTSSearch(game, board, keys_for(1)), MCTSSearch(game, board, keys_for(1), subtrees=[subtree])
        fresh.run(50), again.run(50)
        assert contents(fresh) == contents(again)
    without = Game()
    subtree = searched(without, boards, 500).subtree(0, 4)
    for text in (".../.o./... o", "x../.o./x.. o"):  # no such turns where nothing is skipped
        board = Boards.from_positions([from_text(text)])
        assert MCTSSearch(without, board, keys_for(1), subtrees=[subtree]).visits.sum() == 0
    assert searched(without, boards, 1).subtree(0, 4) is None or searched(without, boards, 1).subtree(0, 3) is None


@pytest.mark.parametrize("skip", [0.0, 0.25])
def test_a_saved_subtree_keeps_solved_values(skip):
    """For either player to move."""
    game = Game(skip_chance=skip)
    boards = plain.positions_of_random_play(game, 100)
    search = searched(game, boards, 2000)
    known = 0
    for row, cell in zip(*np.nonzero(search.solved), strict=True):
        before, subtree = boards.take(np.array([row])), search.subtree(row, int(cell))
        mover = int(before.mover[0])
        for following in (1 - mover, mover) if skip else (1 - mover,):
            now = after(game, before, [(int(cell), following)])
            if winner(game, now.cells[0]) is None:
                again = MCTSSearch(game, now, keys_for(1), subtrees=[subtree])
                assert again._trees.nodes["num_unsolved"][0, 0] == 0
                assert_allclose(again.values, solve(game).values(now), atol=1e-12)
                known += 1
    assert known > 20


def test_a_player_has_one_tree_per_game():
    game = Game(4, 4, 3, 0.25)
    policy = MCTS(game, simulations=60)
    player, rng = policy.player(), np.random.default_rng(0)
    assert isinstance(player, MCTSPlayer)
    slots = np.array([3, 7, 1])
    player.begin(slots)
    boards = Boards.start(game, 3)
    first = player.act(boards, slots, rng)
    assert set(player.subtrees) == {1, 3, 7}
    cells = boards.cells.copy()
    cells[np.arange(3), first] = 1
    for slot, board in zip(slots, cells, strict=True):
        assert_array_equal(player.subtrees[slot].cells, board)
        assert player.subtrees[slot].tree.edges.shape <= (1, 61)
    now = Boards(cells[[0, 2]], np.zeros(2, np.int8))  # two skips
    brought = [
        MCTSSearch(game, now, keys_for(2), subtrees=[player.subtrees[3], player.subtrees[1]]).visits.sum(axis=1)[row]
        for row in (0, 1)
    ]
    player.act(now, slots[[0, 2]], rng)
    for row, slot in enumerate((3, 1)):
        assert player.subtrees[slot].tree.edges.shape[1] <= 1 + brought[row] + 60
    player.begin(np.array([7]))
    assert set(player.subtrees) == {1, 3}
    forgetful = MCTS(game, simulations=60, reuse=False).player()
    forgetful.act(boards, slots, rng)
    assert not forgetful.subtrees


def test_matches_depend_on_the_seed_and_not_on_the_workers():
    game, players = Game(skip_chance=0.25), ("mcts:simulations=30", "win-or-block")
    once = play_pairs(game, *players, 100, seed=3)
    parts = play_blocks(MatchSettings(game, *players, seed=3), 100, jobs=2)
    assert_array_equal(once.pairs, sum(part.pairs for part in parts))
    assert (once.pairs != play_pairs(game, *players, 100, seed=4).pairs).any()


def test_it_beats_weaker_players():
    assert play_pairs(Game(), "mcts", "random", 200).rate("losses").mean < 0.02
    assert play_pairs(Game(4, 4, 4, 0.25), "mcts", "win-or-block", 100).rate("score").low > 0.5
    assert play_pairs(Game(5, 5, 4), "mcts:simulations=400", "mcts:simulations=40", 50).rate("score").low > 0.5


# ---------------------------------------------------------------------------------------------------------------------
# The policy


def test_moves_in_episodes_do_not_depend_on_the_batch():
    game = Game(skip_chance=0.25)
    boards = plain.positions_of_random_play(game, 20)
    keys, plies = keys_for(20), np.count_nonzero(boards.cells, axis=1)
    policy = MCTS(game, simulations=20)
    rows = np.arange(3, 20, 4)
    some = act_in_episodes(policy, boards.take(rows), keys[rows], plies[rows])
    assert_array_equal(act_in_episodes(policy, boards, keys, plies)[rows], some)


def test_the_temperature_spreads_the_moves():
    game = Game(4, 4, 4)
    boards = plain.positions_of_random_play(game, 30)
    search = searched(game, boards, 300, decisive=False)
    shares = search.visits / search.visits.sum(axis=1, keepdims=True)
    assert_allclose(search.probabilities(1), shares, rtol=1e-12)
    squared = shares**2 / (shares**2).sum(axis=1, keepdims=True)
    assert_allclose(search.probabilities(0.5), squared, rtol=1e-12)
    best = search.visits == search.visits.max(axis=1, keepdims=True)
    assert_allclose(search.probabilities(), best / best.sum(axis=1, keepdims=True))
    assert_allclose(search.probabilities(1e-4), search.probabilities(), atol=1e-9)
    policy = MCTS(game, simulations=300, decisive=False, temperature=1)
    drawn = policy.search(boards, mcts.drawn_keys(np.random.default_rng(5), 30))
    drawn.run(300)
    assert_array_equal(policy.probabilities(boards, np.random.default_rng(5)), drawn.probabilities(1))


def test_a_move_solved_as_lost_is_not_played():
    game = Game(skip_chance=0.25)
    search = searched(game, Boards.start(game), 200)
    most, edges = int(np.argmax(search.visits[0])), search._trees.edges[0]
    (edge,) = (edge for edge in search._edges_of(0, 0) if edges["cell"][edge] == most)
    edges["is_solved"][edge], edges["q"][edge] = 1, -1
    assert search.probabilities()[0, most] == 0
    assert search.probabilities(1)[0, most] == 0
    edges["q"][edge] = -0.5  # worse than what? nobody knows
    assert search.probabilities()[0, most] == 1


def test_values_and_analysis_agree():
    game = Game(skip_chance=0.25)
    policy = make_policy("mcts:simulations=500", game)
    assert isinstance(policy, Values)
    boards = plain.positions_of_random_play(game, 20)
    values, of_moves = policy.values(boards), policy.action_values(boards)
    some = boards.take(np.array([4, 2]))
    assert_array_equal(policy.values(some), values[[4, 2]])  # without rng they belong to the board
    assert_array_equal(policy.action_values(some), of_moves[[4, 2]])
    assert np.isnan(of_moves[boards.cells != 0]).all()
    assert ((values >= -1) & (values <= 1)).all()
    assert_array_equal(policy.values(boards, np.random.default_rng(1)), policy.values(boards, np.random.default_rng(1)))
    found = policy.analyse(boards.position(4))
    assert found.value == values[4]
    assert_array_equal(found.action_values, of_moves[4])
    assert found.visits.sum() == 500
    assert found.nodes <= 501
    assert found.variation[0] == (boards.mover[4], np.nanargmax(np.where(boards.cells[4] == 0, found.visits, -1)))


@pytest.mark.parametrize(
    "spec",
    [
        "mcts",
        "mcts:simulations=50,c=0.5",
        "mcts:rollout=optimal,decisive=false",
        "mcts:simulations=7,rollout=(optimal:epsilon=0.5),temperature=1.0,reuse=false",
        "mcts:simulations=5,rollout=(mcts:simulations=3)",
    ],
)
def test_the_spec_string_of_a_policy_recreates_it(spec):
    game = Game(skip_chance=0.25)
    policy = make_policy(spec, game)
    assert str(policy) == spec
    boards = plain.positions_of_random_play(game, 5)
    found = policy.probabilities(boards, np.random.default_rng(0))
    assert_array_equal(make_policy(str(policy), game).probabilities(boards, np.random.default_rng(0)), found)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("mcts:0", "simulations=0 tries no move: choose 1 or more"),
        ("mcts:c=-1", r"c=-1 is no weight of exploration: choose 0 \(none\) or more, such as 1.4"),
        ("mcts:c=nan", "c=nan is no weight of exploration"),
        (
            "mcts:temperature=-2",
            "temperature=-2 is no temperature: choose 0 .the most visited move. or more, such as 1",
        ),
        (
            "mcts:rollout=randm",
            "rollout=randm cannot evaluate leaves, there is no policy 'randm': did you mean",
        ),
        ("mcts:rollout=win-or-block", r"it has no values: choose random or a policy .* as in rollout=\(run:PATH\)"),
        ("mcts:sims=3", "mcts has no argument 'sims': did you mean 'simulations'"),
    ],
)
def test_invalid_settings_are_rejected(spec, message):
    with pytest.raises(ValueError, match=message):
        make_policy(spec, Game())


def test_a_generator_and_a_simulation_are_required():
    with pytest.raises(
        ValueError, match=r"mcts:c=2.0 draws its simulations: give it rng=np.random.default_rng\(seed\)"
    ):
        MCTS(Game(), c=2.0).probabilities(Boards.start(Game()))
    with pytest.raises(ValueError, match="simulations=0 tries no move"):
        MCTSSearch(Game(), Boards.start(Game()), keys_for(1)).run(0)
