"""Results of deterministic searches, and node counts of trees, to detect changes of the searches.

After an intended change, write the file again and give the reason in the commit:

    python tests/baselines/golden.py
"""

import json
import sys
from pathlib import Path

import numpy as np

from baselines.expectiminimax import Expectiminimax, Search
from baselines.mcts import MCTS
from baselines.proof_number import prove
from ttt_envs import Game, make_policy
from ttt_envs.agents.policy import VALUE_TOLERANCE

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "tests" / "data" / "node-counts.json"

SMALL_TABLE_BYTES = 1 << 16
"""size of a transposition table that fills up"""
PRUNING = {
    "none": {"pruning": "none"},
    "alpha-beta": {"pruning": "alpha-beta", "memory": 0},
    "star1": {"pruning": "star1", "memory": 0},
    "star1, small table": {"pruning": "star1", "memory": SMALL_TABLE_BYTES},
    "star1, table": {"pruning": "star1"},
    "star1, table, best moves": {"pruning": "star1", "every_move": False},
    "star1, runs": {"pruning": "star1", "heuristic": "consecutive"},
    "star1, all diagonals": {"pruning": "star1", "heuristic": "all-diagonals"},
    "star1, 3 drawn": {"pruning": "star1", "width": 3},
}
"""by name the settings of a search to a fixed depth"""
SEARCH_GAMES = [
    (Game(), 6, 12),
    (Game(skip_chance=0.25), 6, 12),
    (Game(4, 4, 4, 0.1), 4, 8),
    (Game(3, 5, 3, 0.25), 4, 8),
    (Game(5, 5, 4, 0.25), 3, 4),
    (Game(6, 4, 4), 4, 4),
    (Game(9, 9, 5, 0.25), 2, 3),
]
"""games, depth, and number of positions: the empty board and others of random play"""
PROOF_GAMES = [Game(), Game(4, 4, 4), Game(4, 5, 4), Game(5, 5, 4), Game(4, 6, 4), Game(3, 8, 3)]
TREE_GAMES = [
    (Game(), {}),
    (Game(skip_chance=0.25), {}),
    (Game(skip_chance=0.25), {"decisive": False}),
    (Game(5, 5, 4, 0.25), {"c": 0.5}),
    (Game(7, 7, 5), {}),
    (Game(skip_chance=0.25), {"rollout": "optimal", "simulations": 40}),
]
"""games and settings of Monte Carlo tree search"""


def boards_of(game, count):
    """The empty board, and positions of random play."""
    import plain  # found once the path is as pytest has it

    found = plain.positions_of_random_play(game, count)
    found.cells[0], found.mover[0] = 0, 0
    return found


def summarise(values):
    """Return a weighted sum of many numbers, to 9 places; NaN counts as 0."""
    flat = np.nan_to_num(np.asarray(values, np.float64)).ravel()
    return round(float(flat @ np.cos(np.arange(flat.size))), 9)


def search_counts(games=SEARCH_GAMES):
    """Searches to a fixed depth: the values, which no way to search changes."""
    found = {}
    for game, depth, count in games:
        boards = boards_of(game, count)
        for name, settings in PRUNING.items():
            keys = np.arange(count, dtype=np.uint64) if "width" in settings else None
            search = Search(game, boards, random_keys=keys, **settings)
            search.run(depth - 1 if game.cells > 16 and settings["pruning"] == "none" else depth)
            values = search.move_values
            if not settings.get("every_move", True):  # of other moves there are bounds only
                values = np.where(values >= np.nanmax(values, axis=1, keepdims=True) - VALUE_TOLERANCE, values, np.nan)
            found[f"{game}, depth {search.depth}, {name}"] = summarise(values)
    game = Game(skip_chance=0.25)
    analyses = Expectiminimax(game, 2, leaf="optimal").analyse_all(boards_of(game, 6))
    found[f"{game}, depth 2, leaves of perfect play"] = summarise([analysis.value for analysis in analyses])
    return found


def proof_counts(games=PROOF_GAMES):
    """Proofs: the winner."""
    return {str(game): str(prove(game).winner) for game in games}


def tree_counts(games=TREE_GAMES):
    """Monte Carlo trees: moves in the trees, visits and values of the moves at the roots."""
    found = {}
    for game, settings in games:
        policy = MCTS(game, **settings)
        boards = boards_of(game, 6)
        search = policy.search(boards, np.arange(6, dtype=np.uint64))
        search.run(policy.simulations)
        found[str(policy) + f" on {game}"] = [
            *map(int, (search.tree.counts.sum(), search.visits.sum())),
            summarise(search.visits),
            summarise(search.action_values),
        ]
    game = Game(skip_chance=0.25)
    player = make_policy("mcts:simulations=50", game).player()
    slots, rng = np.arange(6), np.random.default_rng(0)
    moves = [player.act(boards_of(game, 6), slots, rng).tolist() for _ in range(2)]
    found[f"moves of a player with a memory on {game}"] = moves
    return found


KINDS = {search_counts: "expectiminimax", proof_counts: "proof", tree_counts: "mcts"}


def to_text():
    """Return all as JSON, one line for each search."""
    kinds = []
    for kind, name_of_kind in KINDS.items():
        lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(entry)}" for name, entry in kind().items())
        kinds.append(f" {json.dumps(name_of_kind)}: {{\n{lines}\n }}")
    return "{\n" + ",\n".join(kinds) + "\n}\n"


if __name__ == "__main__":
    sys.path += [str(ROOT), str(ROOT / "tests")]
    FILE.write_text(to_text())
    print(f"written: {FILE.relative_to(ROOT)}")
