"""Self-play: many games in parallel, each move chosen by search, and the training on examples from
them.
"""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import NamedTuple

import numpy as np

from baselines.mcts import MCTSSearch, Tree, gumbel_search
from learners.alpha_zero.net import AlphaZero, AlphaZeroConfig, gumbel_options
from learners.base import Arrays, Limits
from learners.mlp import Activation, line_states, planes
from learners.net import TrainableNet
from learners.training import SPAWN_REPLAY, TrainingLoop, check_memory, make_rng, training_key
from ttt_envs.agents.policy import Evaluator, normalise, sample
from ttt_envs.agents.softmax_table import softmax
from ttt_envs.core.jit import (
    BoolArray,
    Float32Array,
    Float64Array,
    Int8Array,
    Int64Array,
    UInt64Array,
)
from ttt_envs.core.parallel import check_jobs, connect, map_blocks, results_in_order
from ttt_envs.core.random import uniforms
from ttt_envs.core.records import chunks, concatenate
from ttt_envs.game.boards import Boards
from ttt_envs.game.game import Game
from ttt_envs.game.rules import DRAW, NOT_OVER, STREAM_POOL, begin_rows, legal, play_rows
from ttt_envs.game.symmetry import symmetries

BLOCK = 64
"""Number of games that a process plays at a time, if there are several processes; results do not
depend on it.
"""
OPENING, STREAM_EXPLORE, STREAM_RANDOM_ACTION, NOISE = range(STREAM_POOL + 1, STREAM_POOL + 5)
"""Random streams of a game, in addition to those of the rules."""
DIRICHLET = 0.25
"""Weight of the Dirichlet noise in the root priors of PUCT."""
CONCENTRATION = 10.0
"""Total concentration of that noise, split over the moves: close to the choices of Silver et al.
for three games.
"""


class TrainingExamples(NamedTuple):
    """Training examples: positions of some games with the targets from searches and results."""

    obs: Int8Array
    """int8[N, cells], own stones first"""
    policy: Float32Array
    """float32[N, cells]: the policy improved by the search"""
    value: Float32Array
    """float32[N], from the mover's view"""
    results: Float64Array
    """float64[games], for player_0"""


class SearchedPly(NamedTuple):
    """The next move in each unfinished game."""

    rows: Int64Array
    """int64[G]: indices of the games"""
    boards: Boards
    policy: Float32Array
    value: Float64Array
    """float64[G]: values of the positions from the search, from their movers' view"""
    random: BoolArray
    """bool[G]: True where the move played was random, not the search's"""


def play_block(
    config: AlphaZeroConfig, game: Game, weights: Arrays, seed: int, numbers: range
) -> TrainingExamples:
    """Play the games with the given numbers, with a net of these weights.

    A game depends on its number, the seed and the weights alone, not on the process or the other
    games.
    """
    net = AlphaZero(config, game, np.random.default_rng(0))
    net.state = weights
    return play_games(config, game, net, training_key(seed), numbers)


def play_games(
    config: AlphaZeroConfig, game: Game, evaluator: Evaluator, key: np.uint64, numbers: range
) -> TrainingExamples:
    """Play games in parallel and search every position, including those before random moves.

    Args:
        config: the settings.
        game: the game.
        evaluator: the net that guides the searches.
        key: derived from a seed; a game's random numbers come from this key and its number.
        numbers: the numbers of the games.

    Returns:
        The training examples, game by game.
    """
    count = len(numbers)
    cells, mover = Boards.start(game, count)
    stones = np.zeros(count, np.int64)
    keys = np.zeros(count, np.uint64)
    outcome = np.full(count, NOT_OVER, np.int8)
    begin_rows(cells, mover, stones, keys, key, np.arange(numbers.start, numbers.stop))
    games = SelfPlayGames(config, game, evaluator, keys)
    while (outcome == NOT_OVER).any():
        rows = np.flatnonzero(outcome == NOT_OVER)
        moves = games.choose_moves(rows, Boards(cells[rows], mover[rows]))
        play_rows(cells, mover, stones, keys, rows, moves, game.parameters, outcome)
    return games.examples(np.where(outcome == DRAW, 0.0, 1.0 - 2.0 * outcome))


class SelfPlayGames:
    """The moves of games of a net against itself, and the training examples from them.

    Args:
        config: the settings.
        game: the game, as the search plays it.
        evaluator: the net that guides the searches.
        keys: uint64[games]: determine the random numbers of each game.

    Attributes:
        plies: all searched positions, in the order of play.
    """

    def __init__(
        self, config: AlphaZeroConfig, game: Game, evaluator: Evaluator, keys: UInt64Array
    ) -> None:
        self.config = config
        self.game = game
        self.evaluator = evaluator
        self.keys = keys
        num_lengths = config.opening_for(game) + 1
        u = uniforms(keys, OPENING, np.zeros(len(keys), np.int64))
        # int64[games]: the number of random moves with which each game begins
        self._openings = (u * num_lengths).astype(np.int64)
        self.plies: list[SearchedPly] = []

    def choose_moves(self, rows: Int64Array, boards: Boards) -> Int64Array:
        """Search the next positions of some games, and choose their moves, of which some are
        random.

        Random moves are not in the paper (Silver et al., 2018): a random ``opening`` begins each
        game, and later a move is random with probability ``epsilon``, so that the net also learns
        positions that its own play avoids.

        Args:
            rows: int64[G]: indices of the games.
            boards: their positions.

        Returns:
            The moves int64[G].
        """
        keys = self.keys[rows]
        stones = boards.num_stones
        policy, values, selected = self._search(boards, keys, stones)
        is_opening = stones < self._openings[rows]
        is_random = uniforms(keys, STREAM_EXPLORE, stones) < self.config.epsilon
        uniform = normalise(boards.legal(self.game))
        random_moves = sample(uniform, uniforms(keys, STREAM_RANDOM_ACTION, stones))
        moves = np.where(is_opening | is_random, random_moves, selected)
        self.plies.append(
            SearchedPly(rows, boards, policy.astype(np.float32), values, moves != selected)
        )
        return moves

    def examples(self, results: Float64Array) -> TrainingExamples:
        """Return the training examples of the finished games, game by game; their results are
        float64[games], for player_0.
        """
        targets = td_lambda_targets(self.plies, results, self.config.td_lambda)
        by_game = np.argsort(np.concatenate([ply.rows for ply in self.plies]), kind="stable")
        return TrainingExamples(
            obs=np.concatenate([ply.boards.own_first() for ply in self.plies])[by_game],
            policy=np.concatenate([ply.policy for ply in self.plies])[by_game],
            value=np.concatenate(targets)[by_game],
            results=results,
        )

    def _search(
        self, boards: Boards, keys: UInt64Array, stones: Int64Array
    ) -> tuple[Float64Array, Float64Array, Int64Array]:
        """Return the improved policy float64[G, cells], the values float64[G], and the selected
        moves of a search.
        """
        config = self.config
        shape = boards.cells.shape
        cells = self.game.cells
        game = self.game if config.chance_nodes else dataclasses.replace(self.game, skip_chance=0.0)
        if config.search == "gumbel":
            numbers = (stones[:, None] * cells + np.arange(cells)).ravel()
            u = uniforms(np.repeat(keys, cells), NOISE, numbers).reshape(shape)
            noise = -np.log(-np.log(u + 2.0**-54))
            gumbel = gumbel_search(
                game, boards, self.evaluator, noise=noise, **gumbel_options(config, self.game)
            )
            return gumbel.improved, gumbel.improved_values, np.argmax(gumbel.scores, axis=1)
        no_keys = np.zeros(len(keys), np.uint64)
        puct = MCTSSearch(
            game, boards, no_keys, c=config.c, leaf=self.evaluator, threads=config.threads
        )
        gammas = np.zeros(shape)
        for row, is_legal in enumerate(boards.legal(game)):
            rng = np.random.default_rng([int(keys[row]), int(stones[row])])
            num_legal = is_legal.sum()
            gammas[row, is_legal] = rng.standard_gamma(CONCENTRATION / num_legal, num_legal)
        puct.add_root_noise(normalise(gammas), DIRICHLET)
        puct.run(config.simulations)
        policy = puct.probabilities(temperature=1.0)
        return policy, puct.root_values, sample(policy, uniforms(keys, NOISE, stones))


def td_lambda_targets(
    plies: list[SearchedPly], results: Float64Array, td_lambda: float
) -> list[Float32Array]:
    """Return TD(lambda) value targets: float32[G] for each ply, from the mover's view.

    Computed backwards from the end of a game: the target is (1 - ``td_lambda``) times the search's
    value plus ``td_lambda`` times the target after the move. Before a random move it is the
    search's value.
    """
    targets = results.copy()
    values = []
    for ply in reversed(plies):
        sign = 1.0 - 2.0 * ply.boards.mover
        weight = np.where(ply.random, 0.0, td_lambda)
        value = ply.value + weight * (sign * targets[ply.rows] - ply.value)
        targets[ply.rows] = sign * value
        values.append(value.astype(np.float32))
    return values[::-1]


# --------------------------------------------------------------------------------------------------
# Training


class SelfPlay(TrainingLoop):
    """An AlphaZero training, see :class:`~learners.training.TrainingLoop`; a step is a batch of
    games and its updates. ``logged`` has the losses, the number of updates, and the size of the
    replay buffer.

    All random numbers of a step depend only on the seed and the numbers of its games.

    Args:
        learner: the learner, trained in place.
        games: total number of games.
        batch: number of games per step.
        seed: of all random numbers.
        cluster: plays the games, by default ``config.jobs`` local processes.

    Attributes:
        replay: the latest positions, at most ``config.buffer_size_for(game)``, in order.

    Raises:
        ValueError: numbers out of range, of processes too.
    """

    learner: AlphaZero
    stored = ("counts", "net", "replay")

    def __init__(
        self, learner: AlphaZero, games: int, *, batch: int, seed: int, cluster: str = ""
    ) -> None:
        super().__init__(learner, games, batch)
        self._seed = seed
        self._workers = cluster or learner.config.jobs
        check_jobs(self._workers)  # before a run has a folder
        if cluster:
            connect(cluster)  # once, not in every step
        config = learner.config
        cells = learner.game.cells
        parallel = min(batch, games) if self._workers == 1 else BLOCK
        trees = parallel * Tree.num_bytes(config.simulations + 1, 2, cells)
        check_memory(trees, f"simulations={config.simulations:,} in {parallel:,} games at a time")
        hidden: list[Activation] = ["relu" for _ in config.layers_for(learner.game)]
        self.net = TrainableNet(
            config, learner.weights, [*hidden, "linear"], config.learning_rate_decay
        )
        self.replay = TrainingExamples(
            obs=np.zeros((0, cells), np.int8),
            policy=np.zeros((0, cells), np.float32),
            value=np.zeros(0, np.float32),
            results=np.zeros(0),
        )
        self._permutations = symmetries(learner.game, config.symmetries)

    def limits(self) -> Limits:
        """See :class:`~learners.base.Stored`."""
        return {
            **super().limits(),
            "replay.obs": (0, 2, "positions"),
            "replay.policy": (0, 1, "positions"),
            "replay.value": (-1, 1, "positions"),
        }

    def step(self) -> None:
        """Play a batch of games and make its updates."""
        learner = self.learner
        numbers = range(self.done.games, min(self.done.games + self.batch, self.games))
        play = partial(play_block, learner.config, learner.game, learner.state, self._seed)
        size = len(numbers) if self._workers == 1 else BLOCK
        blocks = ((block,) for block in chunks(numbers, size))
        workers = self._workers if len(numbers) > BLOCK else 1
        examples = results_in_order(map_blocks(play, blocks, workers))
        self.learn(concatenate(list(examples)))

    def learn(self, examples: TrainingExamples) -> None:
        """Make the updates after a batch of games, and count its games and moves.

        Raises:
            ValueError: the net has diverged.
        """
        capacity = self.learner.config.buffer_size_for(self.learner.game)
        positions = concatenate([self.replay, examples._replace(results=self.replay.results)])
        self.replay = TrainingExamples._make(array[-capacity:] for array in positions)
        batches = self.draw(make_rng(self._seed, SPAWN_REPLAY, self.done.games))
        policy_loss, value_loss = self.update(batches).tolist()
        self.learner.weights = self.net.arrays
        self.done.count(examples.results)
        self.steps += len(examples.value)
        self.logged = {
            "policy_loss": policy_loss,
            "value_loss": value_loss,
            "updates": self.net.updates,
            "positions": len(self.replay.value),
        }

    def draw(self, rng: np.random.Generator) -> TrainingExamples:
        """Draw batches [updates, batch_size], with replacement, each position under a random
        symmetry.
        """
        config = self.learner.config
        replay = self.replay
        shape = config.gradient_steps, config.batch_size
        rows = rng.integers(0, len(replay.value), shape)
        images = self._permutations[rng.integers(0, len(self._permutations), shape)]
        return TrainingExamples(
            obs=np.take_along_axis(replay.obs[rows], images, axis=2),
            policy=np.take_along_axis(replay.policy[rows], images, axis=2),
            value=replay.value[rows],
            results=replay.results,
        )

    @np.errstate(all="ignore")  # divergence is reported at the end
    def update(self, examples: TrainingExamples) -> Float64Array:
        """Make one gradient step from each of K batches of N positions.

        Args:
            examples: int8[K, N, cells], float32[K, N, cells] and float32[K, N]; ``results`` is
                ignored.

        Returns:
            float64[2]: the mean cross entropy of the policy and the mean squared error of the
            value, each before its step.

        Raises:
            ValueError: the net has diverged.
        """
        learner = self.learner
        # no stone in a line is a row of zeros
        one_hot = np.eye(2 * learner.game.win_length, dtype=np.float32)[:, 1:]
        losses = np.zeros(2)
        for obs, policy, value in zip(*examples[:3], strict=True):
            lines = one_hot[line_states(obs, learner.lines)].reshape(len(obs), -1)
            outputs = self.net.run(np.concatenate([planes(obs), lines], axis=1))
            is_legal = legal(learner.game, obs)
            d, parts = loss_gradient(
                outputs[-1], is_legal, policy, value, learner.config.value_weight
            )
            self.net.step(outputs, d, learner.config.weight_decay)
            losses += parts / len(examples.value)
        self.net.check(losses, *self.net.weights.values())
        return losses


def loss_gradient(
    outputs: Float32Array,
    is_legal: BoolArray,
    policy: Float32Array,
    value: Float32Array,
    value_weight: float,
) -> tuple[Float32Array, Float64Array]:
    """Return the gradient of the loss in the net's outputs, and the parts of the loss.

    Computed in float64 and rounded, because exponentials in float32 differ between processors.

    Args:
        outputs: float32[N, cells + 1]: logits, and the value before its tanh.
        is_legal: bool[N, cells].
        policy: float32[N, cells]: targets, 0 where illegal.
        value: float32[N]: targets.
        value_weight: weight of the squared error of the value.

    Returns:
        The gradient float32[N, cells + 1], and float64[2]: the mean cross entropy of the policy,
        and the mean squared error of the value.
    """
    exact = outputs.astype(np.float64)
    p = softmax(np.where(is_legal, exact[:, :-1], np.nan))
    v = np.tanh(exact[:, -1])
    error = v - value
    d = np.column_stack([p - policy, 2 * value_weight * error * (1 - v * v)]) / len(value)
    cross_entropy = -(policy * np.log(np.where(policy > 0, p, 1))).sum() / len(value)
    return d.astype(np.float32), np.array([cross_entropy, np.square(error).mean()])
