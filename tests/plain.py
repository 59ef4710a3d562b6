"""The game once more, in plain Python and without a line of ours, to compare with; and positions to
test on.
"""

from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np
from hypothesis import strategies as st
from json_files import read_json, rows_of
from numpy.testing import assert_allclose, assert_array_equal

from learners.checkpoint import load_checkpoint
from ttt_envs import Boards, Game, Position, chance_outcomes, from_text
from ttt_envs.game import reference
from ttt_envs.game.boards import from_keys
from ttt_envs.game.game import VARIANTS
from ttt_envs.game.rules import DRAW, NOT_OVER, place
from ttt_eval.runs.run_files import EVENTS

WORD = (1 << 64) - 1


def splitmix64(state, n):
    """The n-th number, from 0, of the generator of Steele, Lea and Flood (2014)."""
    z = (state + (n + 1) * 0x9E3779B97F4A7C15) & WORD
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & WORD
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & WORD
    return z ^ (z >> 31)


def uniform(key, stream, n=0):
    """Number n of a stream of an episode's key, in [0, 1)."""
    return (splitmix64(key, (stream << 32) + n) >> 11) * 2.0**-53


def all_lines(game):
    """Every row, column and diagonal of ``win_length`` cells, as lists of cells."""
    lines = []
    for row in range(game.rows):
        for column in range(game.columns):
            for down, right in ((0, 1), (1, 0), (1, 1), (1, -1)):
                line = [(row + i * down, column + i * right) for i in range(game.win_length)]
                if all(0 <= r < game.rows and 0 <= c < game.columns for r, c in line):
                    lines.append([r * game.columns + c for r, c in line])
    return lines


def play_variant(game, actions, u):
    """Play ``actions`` until the game ends: (cells, mover, winner: None in progress, 2 for a draw,
    legal cells).

    ``u`` are the draws of the skips, by number of stones.
    """
    state = reference.State()
    for stones, cell in enumerate(actions):
        state = reference.play(game, state, int(cell), u[stones])
    own, other = state.stones
    cells = np.array([(cell in own) + 2 * (cell in other) for cell in range(game.cells)], np.int8)
    return cells, state.mover, state.winner, reference.legal_cells(game, own | other)


def games(longest=19, skip=False):
    """Hypothesis: any game with edges up to ``longest``."""
    chance = st.sampled_from([0.0, 0.1, 0.25, 0.9]) if skip else st.just(0.0)
    edges = st.tuples(st.integers(1, longest), st.integers(1, longest))
    return edges.flatmap(
        lambda edge: st.builds(Game, *map(st.just, edge), st.integers(1, max(edge)), chance)
    )


COMBINATIONS = [
    {name: VARIANTS[name] for name, is_chosen in zip(VARIANTS, chosen, strict=True) if is_chosen}
    for chosen in product([False, True], repeat=4)
][1:]
"""all combinations of unusual rules but none of them"""


def label_rules(rules):
    """Return the names of the rules that are chosen."""
    return "-".join(rules)


def variants(longest=5, skip=False):
    """Hypothesis: any game with unusual rules."""
    rules = st.fixed_dictionaries(dict.fromkeys(VARIANTS, st.booleans()))
    return st.builds(lambda game, changed: replace(game, **changed), games(longest, skip), rules)


def cells_of_any(game):
    """Hypothesis: any cells, reachable or not."""
    stones = st.binary(min_size=game.cells, max_size=game.cells)
    return stones.map(lambda text: (np.frombuffer(text, np.uint8) % 3).astype(np.int8))


def from_texts(*texts, game=None):
    """A batch of positions as ``from_text`` reads them."""
    return Boards.from_positions([from_text(text, game) for text in texts])


def boards_of(states):
    """A batch of states, each (cells, mover)."""
    cells, movers = zip(*states, strict=True)
    return Boards(np.array([list(board) for board in cells], np.int8), np.array(movers, np.int8))


def shares_of(weights):
    """Rows of weights as rows that sum to 1."""
    return weights / weights.sum(axis=1, keepdims=True)


def all_cells(game):
    """Every way to fill the board, by key."""
    return from_keys(np.arange(3**game.cells, dtype=np.uint64), game)


def positions_of_random_play(game, count, seed=0):
    """``count`` positions of random games that are not over, of all lengths, either player to
    move.
    """
    rng = np.random.default_rng(seed)
    cells = []
    movers = []
    while len(cells) < count:
        board = np.zeros(game.cells, np.int8)
        mover = 0
        for stones, cell in enumerate(rng.permutation(game.cells)):
            if game.gravity:
                cell = rng.choice(reference.legal_cells(game, set(np.flatnonzero(board).tolist())))
            cells.append(board.copy())
            movers.append(mover)
            if place(board, mover, int(cell), stones, game.parameters) != NOT_OVER:
                break
            mover = mover if rng.random() < game.skip_chance else 1 - mover
    chosen = rng.permutation(len(cells))[:count]
    return Boards(np.stack(cells)[chosen], np.array(movers, np.int8)[chosen])


def all_positions(game, stones=0):
    """Every board with at least so many stones, with either mover; without skips those of
    alternating play.
    """
    cells = all_cells(game)
    cells = cells[np.count_nonzero(cells, axis=1) >= stones]
    boards = Boards(
        np.concatenate([cells, cells]), np.repeat(np.array([0, 1], np.int8), len(cells))
    )
    if game.skip_chance == 0:
        views = boards.own_first()
        behind = (views == 2).sum(axis=1) - (views == 1).sum(axis=1)
        boards = boards.take((behind == 0) | (behind == 1))
    return boards


def assert_bellman_equation(solution, boards, tolerance):
    """Values are the best of the action values, and these are the expected values of the
    successors.
    """
    values = solution.values(boards)
    action_values = solution.action_values(boards)
    assert values.dtype == action_values.dtype == np.float64
    assert_array_equal(np.isnan(action_values), boards.cells != 0)
    assert_allclose(values, np.nanmax(action_values, axis=1), rtol=0, atol=tolerance)
    for row in range(len(values)):
        position = boards.position(row)
        for action in np.flatnonzero(position.cells == 0)[:4].tolist():
            expected = 0.0
            for probability, child, winner in chance_outcomes(solution.game, position, action):
                value = float(solution.values(Boards.from_positions([child]))[0])
                expected += probability * (
                    value if child.mover == position.mover or winner is not None else -value
                )
            assert abs(action_values[row, action] - expected) <= tolerance


@cache
def everything(shape):
    """All positions that can be reached, those with fewer stones first: {state: {action: (winner,
    next states)}}.

    A state is (cells as bytes, mover); of two next states the first is the other player's turn.
    """
    moves = {}
    level = {(bytes(shape.cells), 0): None}
    while level:
        following = {}
        for cells, mover in level:
            position = Position(np.array(list(cells), np.int8), mover)
            moves[cells, mover] = {}
            for action in reference.legal_cells(
                shape, set(np.flatnonzero(position.cells).tolist())
            ):
                outcomes = chance_outcomes(shape, position, action)
                states = [
                    (outcome.position.cells.tobytes(), outcome.position.mover)
                    for outcome in outcomes
                ]
                moves[cells, mover][action] = outcomes[0].winner, states
                if outcomes[0].winner is None:
                    following |= dict.fromkeys(states)
        level = following
    return moves


def moves_of(game):
    """The moves of every position that can be reached: the same ones for all skip chances above
    0.
    """
    return everything(replace(game, skip_chance=0.5 if game.skip_chance else 0.0))


def result_for(player, winner):
    """The result of a finished game for a player: 1, 0 or -1."""
    if winner == DRAW:
        return 0.0
    return 1.0 if winner == player else -1.0


@cache
def values_of(game, average=False):
    """Values to the mover of all positions that can be reached, and of their moves: {state},
    {state: {action}}.

    Both players make best moves, or with ``average`` random ones.
    """
    skip = game.skip_chance
    values = {}
    of_moves = {}
    for state, moves in reversed(moves_of(game).items()):
        of_moves[state] = {}
        for action, (winner, states) in moves.items():
            if winner is not None:
                value = result_for(state[1], winner)
            else:
                value = -(1 - skip) * values[states[0]] + (skip * values[states[1]] if skip else 0)
            of_moves[state][action] = value
        result = of_moves[state].values()
        values[state] = sum(result) / len(result) if average else max(result)
    return dict(reversed(values.items())), of_moves


def ends_of(game):
    """{cells of a finished board, as bytes: winner}."""
    return {
        states[0][0]: winner
        for moves in moves_of(game).values()
        for winner, states in moves.values()
        if winner is not None
    }


def assert_same_arrays(arrays, others):
    """Named arrays are the same, bit for bit."""
    assert arrays.keys() == others.keys()
    for name, array in arrays.items():
        assert array.dtype == others[name].dtype, name
        assert np.array_equal(array, others[name]), name


def assert_same_runs(run, other):
    """Two runs have ended alike: every file but the report, times apart, and when they were saved
    and went on.
    """
    files = [_files_of(folder) for folder in (run, other)]
    assert files[0].keys() == files[1].keys()
    for name, content in files[0].items():
        assert content == files[1][name], name


UNLIKE = ("resumed", "checkpoint_games", "revision")
"""in which settings runs that end alike may differ"""


def _files_of(run):
    """Return the contents of the files of a run, by name."""
    readers = {
        "config.json": lambda path: {k: v for k, v in read_json(path).items() if k not in UNLIKE},
        "checkpoint.npz": _checkpoint,
        "metrics.jsonl": lambda path: [_untimed(row) for row in rows_of(path)],
        "cost.json": lambda path: [(k, sorted(v)) for k, v in read_json(path)["phases"].items()],
        EVENTS: _events,
    }
    paths = sorted(path for path in run.rglob("*") if path.is_file() and path.name != "report.html")
    return {
        str(path.relative_to(run)): readers.get(path.name, lambda path: path.read_bytes())(path)
        for path in paths
    }


def _untimed(row):
    return {
        name: value
        for name, value in row.items()
        if not (name.endswith("_per_s") or name == "cpu_s")
    }


def _checkpoint(path):
    parts = load_checkpoint(path.parent)
    size = parts["metrics"].pop("size")
    assert size == (path.parent / "metrics.jsonl").stat().st_size  # it is as long as its times
    return {
        (part, name): (array.dtype, array.shape, array.tobytes())
        for part, arrays in parts.items()
        for name, array in arrays.items()
    }


def _events(path):
    from tensorboard.backend.event_processing.event_file_loader import LegacyEventFileLoader

    events = list(LegacyEventFileLoader(str(path)).Load())
    return [
        (event.step, _untimed({item.tag: item.simple_value for item in event.summary.value}))
        for event in events
    ]
