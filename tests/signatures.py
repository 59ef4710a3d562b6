"""One number for each search, stream of random numbers, learner and sampler: tests/goldens."""

import math
from functools import partial

import numpy as np
import plain
import tiny
from evaluators import Noise
from small_games import SKIP_GAME

from baselines.connect_four import Solver
from baselines.mcts import MCTS, gumbel_search
from baselines.proof_number import Prover, prove
from learners import LEARNERS
from learners.checkpoint import load_checkpoint
from learners.q_net import ReplayBuffer
from ttt_envs import Game, make_policy
from ttt_envs.agents.policy import act_in_episodes
from ttt_envs.core.random import draw_keys, splitmix64, uniform
from ttt_envs.envs.game_batch import keys_of_seeds
from ttt_envs.envs.vector_env import MNKVectorEnv
from ttt_envs.game import rules
from ttt_envs.game.openings import draw_openings
from ttt_eval.matches.match import play_pairs

LARGE = Game(4, 4, 3)
GOMOKU = Game(9, 9, 5)
KEY = np.uint64(2026)


def signature(*arrays):
    """Return the sum of all numbers but NaN, each weighted by its place and its sign."""
    values = np.concatenate([np.asarray(array, np.float64).ravel() for array in arrays])
    weights = 1 + np.arange(len(values)) % 97 / 97
    terms = weights * (np.abs(values) + values / 2)
    return math.fsum(terms[~np.isnan(terms)].tolist())


# --------------------------------------------------------------------------------------------------
# Searches


def of_policy(spec):
    """Return the signature of the probabilities in positions of random play."""
    boards = plain.positions_of_random_play(SKIP_GAME, 32)
    return signature(make_policy(spec, SKIP_GAME).probabilities(boards))


def scores_of(spec, game):
    """Return the signature of the scores of expectiminimax."""
    boards = plain.positions_of_random_play(game, 16)
    return signature(make_policy(spec, game).scores(boards, np.random.default_rng(5)))


def nodes_of(spec, game):
    """Return the signature of the numbers of visited positions and the principal variations."""
    boards = plain.positions_of_random_play(game, 8)
    policy = make_policy(spec, game)
    analyses = [
        policy.analyse(boards.position(row), np.random.default_rng(row)) for row in range(8)
    ]
    return signature(*(part for result in analyses for part in (result.nodes, result.variation)))


def visits_of(game=SKIP_GAME, **settings):
    """Return the signature of the visits and values of a tree search."""
    policy = MCTS(game, simulations=100, temperature=1.0, **settings)
    boards = plain.positions_of_random_play(game, 16)
    return signature(policy.probabilities(boards, np.random.default_rng(5)))


def gumbel(game, **settings):
    """Return the signature of the policy and the values of a search by the Gumbel rule."""
    boards = plain.positions_of_random_play(game, 16)
    noise = np.random.default_rng(5).gumbel(size=boards.cells.shape)
    result = gumbel_search(game, boards, Noise(), noise=noise, **settings)
    return signature(result.probabilities(1.0), result.values)


def proof(game):
    """Return the signature of a proof: winner, visited positions and move."""
    result = prove(game)
    return signature(result.winner, result.nodes, -1 if result.move is None else result.move)


def proofs_of_moves(game):
    """Return the signature of the proved results of moves."""
    boards = plain.positions_of_random_play(game, 8)
    prover = Prover(game, nodes=500)
    return signature(*(prover.results(boards.position(row), shares=True) for row in range(8)))


def connect_four(game):
    """Return the signature of the scores of moves, and of all visited positions."""
    boards = plain.positions_of_random_play(game, 8)
    solver = Solver(game, memory=1 << 22)
    bounds = [solver.scores(boards.position(row), nodes=2_000) for row in range(8)]
    return signature(*(bound for scores in bounds for bound in scores.values()), solver.nodes)


def timed(search, depth):
    """Return the signature of the shares and the visited positions at a fixed depth."""
    policy = make_policy(f"timed:{search},move=60,max-depth={depth}", SKIP_GAME)
    boards = plain.positions_of_random_play(SKIP_GAME, 8)
    shares = []
    for row in range(8):
        timed_search = policy.begin(boards.position(row), KEY, lambda: 0.0)
        timed_search.run(0.0, 60.0, 60.0)
        shares += [timed_search.best(), [timed_search.depth]]
    return signature(*shares)


SEARCHES = {
    **{
        spec: partial(of_policy, spec)
        for spec in ("random", "win-or-block", "optimal", "table", "svd", "hosvd", "tt")
    },
    **{
        f"expectiminimax:{options}, {game}": partial(scores_of, f"expectiminimax:{options}", game)
        for options in (
            "depth=3",
            "depth=2,width=2",
            "depth=2,heuristic=consecutive",
            "depth=1,leaf=table",
        )
        for game in (SKIP_GAME, Game(3, 4, 3, 0.1, misere=True))
    },
    **{
        f"nodes of expectiminimax:{options}, {game}": partial(
            nodes_of, f"expectiminimax:{options}", game
        )
        for options in ("depth=4", "depth=3,width=3")
        for game in (SKIP_GAME, LARGE)
    },
    "mcts": visits_of,
    "mcts, without skips": partial(visits_of, LARGE),
    "mcts, misere and gravity": partial(visits_of, Game(3, 4, 3, 0.1, misere=True, gravity=True)),
    "mcts, c=0.5": partial(visits_of, c=0.5),
    "mcts, decisive=false": partial(visits_of, decisive=False),
    "mcts, values of a policy": partial(visits_of, rollout="optimal"),
    "mcts, priors and values": partial(visits_of, rollout=Noise()),
    "gumbel": partial(gumbel, SKIP_GAME, simulations=32),
    "gumbel, four moves considered": partial(
        gumbel, LARGE, simulations=20, max_num_considered_actions=4
    ),
    "gumbel, large scale of values": partial(gumbel, SKIP_GAME, simulations=8, value_scale=1.0),
    "df-pn, 4 x 5": partial(proof, Game(4, 5, 4)),
    "df-pn, 3 x 4 and its move": partial(proof, Game(3, 4, 3)),
    "df-pn, moves": partial(proofs_of_moves, LARGE),
    "Connect Four, 4 x 5": partial(connect_four, Game(4, 5, 4, gravity=True)),
    "Connect Four, 6 x 7": partial(connect_four, Game(6, 7, 4, gravity=True)),
    "timed expectiminimax": partial(timed, "expectiminimax", 3),
    "timed mcts": partial(timed, "mcts", 64),
}

# --------------------------------------------------------------------------------------------------
# Streams of random numbers


def numbers_of_stream(stream):
    """Return the signature of the first numbers of a stream of an episode."""
    return signature([uniform(KEY, stream, n) for n in range(8)])


def opponent_moves(spec):
    """Return the signature of an opponent's moves in episodes."""
    policy = make_policy(spec, SKIP_GAME)
    boards = plain.positions_of_random_play(SKIP_GAME, 32)
    keys = draw_keys(np.random.default_rng(5), 32)
    plies = np.count_nonzero(boards.cells, axis=1)
    return signature(act_in_episodes(policy, boards, keys, plies))


def vector_games(**settings):
    """Return the signature of 24 steps of eight environments, with the first legal action each."""
    env = MNKVectorEnv(8, **settings)
    _, info = env.reset(seed=4)
    parts = []
    for _ in range(24):
        observation, reward, terminated, truncated, info = env.step(
            info["action_mask"].argmax(axis=1)
        )
        parts += [observation, reward, terminated, truncated, info["action_mask"], info["seat"]]
    return signature(*parts)


STREAMS = {
    "splitmix64": lambda: signature([int(splitmix64(KEY, n)) / 2**64 for n in range(8)]),
    **{
        name: partial(numbers_of_stream, getattr(rules, name))
        for name in sorted(vars(rules))
        if name.startswith("STREAM_")
    },
    "keys of seeds": lambda: signature(keys_of_seeds([0, 1, 2]) / 2**64),
    "keys of a generator": lambda: signature(draw_keys(np.random.default_rng(5), 8) / 2**64),
    **{
        f"moves of {spec}": partial(opponent_moves, spec)
        for spec in ("random", "win-or-block", "mcts:simulations=20")
    },
    "environments, random": partial(vector_games, opponent="random", skip_chance=0.25),
    "environments, skips, seats and symmetries drawn": partial(
        vector_games,
        opponent="win-or-block",
        skip_chance=(0.1, 0.5),
        seat="random",
        symmetry="random",
    ),
    "environments, first player drawn": partial(vector_games, first_player="random"),
    "environments, openings drawn": partial(
        vector_games, skip_chance=0.5, openings=["x.o/.../..o x", "o../.../... x"]
    ),
    "environments, phantom": partial(vector_games, phantom="classic", skip_chance=0.25),
}

# --------------------------------------------------------------------------------------------------
# Learners

FORMS = {
    "naive-mc": ((), ("--symmetries=all", "--rewards=report")),
    "q-learning": (
        (),
        ("--backup=negamax", "--opponent=self"),
        ("--values=afterstate", "--target=sarsa", "--symmetries=all"),
        ("--epsilon-decay=0.01", "--opponent=pool"),
    ),
}
"""learner -> the options of its signatures"""
NETS = ["alpha-zero", "ppo", "value-net"]
"""in numpy"""
GROUPS = {
    "learners": [name for name in sorted(LEARNERS) if name not in (*tiny.PACKAGES, *NETS)],
    "nets": NETS,
    **{
        package: [name for name in sorted(tiny.PACKAGES) if package in tiny.PACKAGES[name]]
        for package in ("tensorflow", "torch")
    },
}
"""file -> the learners in it"""


def learned(name, options, folder):
    """Return the signature of what is learned in a short training."""
    arrays = load_checkpoint(tiny.train_run(name, folder, *options))["learner"]
    numbers = {key: array for key, array in arrays.items() if array.dtype.kind in "bif"}
    return signature(*(numbers[key] for key in sorted(numbers)))


def of_learners(group, folder):
    """Return the signatures of a file, of trainings in subfolders."""
    results = {}
    for name in GROUPS[group]:
        for options in FORMS.get(name, ((),)):
            label = " ".join([name, *options])
            results[label] = learned(name, options, folder / str(len(results)))
    return results


# --------------------------------------------------------------------------------------------------
# Samplers


def openings(game, plies):
    """Return the signature of drawn openings."""
    boards = draw_openings(game, plies, draw_keys(np.random.default_rng(5), 64))
    return signature(*boards)


def replay():
    """Return the signature of minibatches of a replay buffer that overflowed."""
    buffer = ReplayBuffer(50, 3, np.random.default_rng(5))
    for start in range(0, 120, 40):
        buffer.add(np.arange(3 * start, 3 * start + 120, dtype=np.float32).reshape(40, 3))
    return signature(buffer.draw(20), buffer.draw(20))


def match(a, b, **settings):
    """Return the signature of the score of a match of two blocks."""
    score = play_pairs(SKIP_GAME, a, b, 300, seed=7, **settings)
    return signature(score.pairs, score.lengths, *score.moments())


SAMPLERS = {
    "openings, 3 x 3": partial(openings, SKIP_GAME, 3),
    "openings, 9 x 9": partial(openings, GOMOKU, 10),
    "replay": replay,
    "match": partial(match, "win-or-block", "random"),
    "match, openings": partial(match, "optimal", "win-or-block", openings="random:2"),
    "match, corrected": partial(match, "table", "random", luck_correction="optimal"),
}
SMALL = {"searches": SEARCHES, "streams": STREAMS, "samplers": SAMPLERS}
"""file -> its signatures that take no folder"""
