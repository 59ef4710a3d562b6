"""The net of AlphaZero, its settings, and its evaluation, alone or in one kernel with the
search.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
from msgspec import Meta

from baselines.mcts import SelectionParams, Tree, backup, forced_moves_of_rows, simulate
from learners import config
from learners.base import MAX_NUMBER, Checkpointable, Limits
from learners.config import LearnerConfig
from learners.mlp import Packed, evaluate_net, glorot, layer_shapes
from ttt_envs.agents.policy import best_shares
from ttt_envs.core.jit import (
    Float32Array,
    Float64Array,
    Int8Array,
    Int64Array,
    inlined,
    int64,
    kernel,
)
from ttt_envs.envs.config import SELF
from ttt_envs.game.boards import Boards, base_3, one_ply_ahead, own_first_row
from ttt_envs.game.game import VARIANTS, Game
from ttt_envs.game.phantom import AnyGame, visible
from ttt_envs.game.symmetry import Symmetries, inverse, symmetries

MAX_SMALL_CELLS = 9
"""Maximum number of cells of a small board: most of its positions recur often."""
MAX_OPENING_PLIES = 14
"""Default maximum number of plies of a random opening."""


def gumbel_options(settings: Any, game: Game) -> dict[str, Any]:
    """Return the arguments of :func:`~baselines.mcts.gumbel_search` that stand in
    :class:`AlphaZeroConfig` or :class:`~learners.alpha_zero.policy.AlphaZeroSearch`.
    """
    value_scale = settings.value_scale
    if value_scale is None:
        value_scale = 2.0 if game.skip_chance > 0 else 0.5
    return {
        "simulations": settings.simulations,
        "max_num_considered_actions": settings.max_num_considered_actions,
        "maxvisit_init": settings.maxvisit_init,
        "value_scale": value_scale,
        "threads": settings.threads,
    }


@dataclass(frozen=True)
class AlphaZeroConfig(LearnerConfig):
    """AlphaZero with chance nodes: a policy-value net trained by its own search in self-play."""

    name: ClassVar[str] = "alpha-zero"
    variants: ClassVar[tuple[str, ...]] = tuple(VARIANTS)
    games: ClassVar[int] = 8_192
    opponent: ClassVar[str] = SELF
    self_play_games: ClassVar[int] = 8_192
    only_opponent: ClassVar[bool] = True
    loop: ClassVar[str] = "learners.alpha_zero.self_play:SelfPlay"
    test_settings: ClassVar[dict[str, object]] = {
        "games": 40,
        "hidden": 4,
        "simulations": 4,
        "gradient_steps": 2,
        "batch_size": 8,
    }

    hidden: config.Layers | None = None
    """units of the hidden ReLU layers; default: two of 64 on boards up to 9 cells; two of 256 on
    boards up to 16 without skips, where play can become perfect and one wrong reply costs half a
    game; two of 128 on others"""
    lines: bool = True
    """add line features to the input: for each winnable line, the number of stones of one side, or
    that both sides are in it; without, the input is the cells alone"""
    simulations: config.PositiveInt = 32
    """number of simulations per move during training"""
    search: Literal["gumbel", "puct"] = "gumbel"
    """gumbel: sequential halving at the root with Gumbel noise; the target is the improved policy
    (2022); puct: Dirichlet noise at the root, moves sampled by visit count; the target is the visit
    distribution (2018)"""
    max_num_considered_actions: Annotated[int, Meta(ge=2)] = 16
    """maximum number of root moves that the Gumbel search considers, 2 or more"""
    maxvisit_init: config.NonNegative = 50.0
    """visits added to the highest visit count when the Gumbel search scales values, 0 or more"""
    value_scale: config.NonNegative | None = None
    """scale of the values per such visit in the Gumbel search, 0 or more; default: 0.5, or 2 where
    turns are skipped, because move values may then differ little"""
    c: config.NonNegative = 1.4
    """exploration constant of PUCT, 0 or more"""
    chance_nodes: bool = True
    """model skipped turns as chance nodes in the search; without, the search assumes no skips"""
    opening: config.NonNegativeInt | None = None
    """maximum number of random opening moves, drawn uniformly from 0 for each game; default: all
    but two cells, or half of the cells where turns are skipped (skips vary the games anyway), at
    most 14"""
    epsilon: config.Fraction = 0.25
    """probability of a random move after the opening, 0 to 1; value targets do not bootstrap
    through random moves
    """
    td_lambda: config.Fraction = 0.1
    """lambda of the TD(lambda) value targets: 0 is the search's value of the position, 1 the result
    of the game
    """
    learning_rate: config.Positive = 0.006
    """learning rate of Adam, above 0"""
    learning_rate_decay: config.NonNegative = 0.002
    """the learning rate of update n, from 0, is learning_rate / (1 + learning_rate_decay n); 0
    keeps it constant
    """
    weight_decay: config.NonNegative = 1e-5
    """L2 penalty: weight of half the sum of squared weights in the loss, 0 or more"""
    value_weight: config.Positive = 4.0
    """weight of the squared value error relative to the policy's cross entropy, above 0"""
    buffer_size: config.PositiveInt | None = None
    """capacity of the replay buffer in positions; default: 15,000 on boards up to 9 cells, where a
    better search soon revisits positions, and 60,000 on others"""
    batch_size: config.PositiveInt = 256
    """number of positions in a minibatch"""
    gradient_steps: config.PositiveInt = 200
    """number of updates after each batch of games"""
    symmetries: Symmetries = "all"
    """augment training data with randomly drawn rotations, or all symmetries, of the positions, and
    average over them in greedy play"""
    decisive: bool = True
    """in greedy play without a search, complete a line at once; where no turn can be skipped, also
    block an immediate win; in misère no move is forced"""
    jobs: config.NumProcesses = 1
    """number of processes that play the games, -1 for one per core; results do not depend on it"""
    threads: config.NumThreads = 1
    """number of threads of each process for the searches, or auto for cores / jobs; results do not
    depend on it
    """

    def build(self, game: AnyGame, rng: np.random.Generator) -> AlphaZero:
        """Return a learner with random weights drawn from ``rng``."""
        return AlphaZero(self, visible(game), rng)

    def layers_for(self, game: Game) -> tuple[int, ...]:
        """Return the number of units of each hidden layer."""
        if self.hidden is not None:
            return self.hidden
        if game.cells <= MAX_SMALL_CELLS:
            return 64, 64
        return (256, 256) if game.cells <= 16 and game.skip_chance == 0 else (128, 128)

    def buffer_size_for(self, game: Game) -> int:
        """Return the capacity of the replay buffer in positions."""
        if self.buffer_size is not None:
            return self.buffer_size
        return 15_000 if game.cells <= MAX_SMALL_CELLS else 60_000

    def opening_for(self, game: Game) -> int:
        """Return the maximum number of random opening moves."""
        if self.opening is not None:
            return min(self.opening, game.cells)
        max_plies = (game.cells + 1) // 2 if game.skip_chance > 0 else game.cells - 2
        return max(0, min(max_plies, MAX_OPENING_PLIES))


class AlphaZero(Checkpointable):
    """The learner of :class:`AlphaZeroConfig`.

    One net serves both seats: it sees the mover's stones as its own. The input is planes and lines,
    as :func:`~learners.mlp.evaluate_net` describes. Hidden layers end in ReLU. The last layer gives
    one logit per cell and then the value, which passes through tanh.

    Greedy play without a search takes the move with the highest logit, averaged over the training
    symmetries. With ``decisive`` it completes a line where it can, and where no turn can be skipped
    it blocks an immediate win. The net then chooses among such moves.

    ``evaluate`` and ``run_simulations``, which guide searches, do not average; ``values`` and
    ``action_values`` do.

    Attributes:
        lines: int64[L, win_length]: the lines that are input features, all or none.
        mean: the net averaged over the training symmetries, as in greedy play.
    """

    colour_blind = True
    name = AlphaZeroConfig.name
    stored = ("weights",)
    game: Game
    evaluate: Callable[[Boards], tuple[Float32Array, Float64Array]]
    values: Callable[[Boards], Float64Array]
    action_values: Callable[[Boards], Float64Array]

    def __init__(self, config: AlphaZeroConfig, game: Game, rng: np.random.Generator) -> None:
        self.config = config
        self.game = game
        self.symmetric = config.symmetries == "all"
        self.lines: Int64Array = game.line_cells if config.lines else game.line_cells[:0]
        inputs = 3 * game.cells + len(self.lines) * (2 * game.win_length - 1)
        self.weights = glorot(layer_shapes((inputs, *config.layers_for(game), game.cells + 1)), rng)

    @property
    def weights(self) -> dict[str, Float32Array]:
        """The net's arrays by name: replace all of them at once."""
        return self._weights

    @weights.setter
    def weights(self, weights: dict[str, Float32Array]) -> None:
        self._weights = weights
        net = Packed.from_weights(weights, self.lines)
        single = NetEvaluator(self.game, net, "none")
        self.mean = NetEvaluator(self.game, net, self.config.symmetries)
        self.evaluate = single.evaluate
        self.run_simulations = single.run_simulations
        self.values = self.mean.values
        self.action_values = self.mean.action_values

    def limits(self) -> Limits:
        """See :class:`~learners.base.Stored`."""
        return {"weights": (-MAX_NUMBER, MAX_NUMBER)}

    def probabilities(self, boards: Boards, rng: np.random.Generator | None = None) -> Float64Array:
        """Return float64[B, cells]: equal shares for the moves with the highest logit."""
        playable = boards.legal(self.game)
        if self.config.decisive:
            is_forced = np.zeros(boards.cells.shape, np.int8)
            forced_moves_of_rows(boards.cells, boards.mover, self.game.parameters, is_forced)
            playable &= (is_forced == 1) | ~is_forced.any(axis=1, keepdims=True)
        logits, _ = self.mean.means(boards)
        return best_shares(np.where(playable, logits, np.nan))


# --------------------------------------------------------------------------------------------------
# Evaluation


class _Workspace(NamedTuple):
    """What the kernels read and write: a net, the symmetries, room for one evaluation, and the
    results of all.
    """

    net: Packed
    permutations: Int64Array  # int64[I, cells]: the symmetries over which outputs are averaged
    inverses: Int64Array  # int64[I, cells]
    room: Float32Array  # see Packed.room
    obs: Int8Array  # int8[cells]
    image: Int8Array  # int8[cells]
    # int8[N]: 1 where evaluated; N is 3 ** cells on boards up to MAX_SMALL_CELLS cells, and 1 on
    # others
    is_evaluated: Int8Array
    # float64[N, cells], by the base-3 digits of boards with own stones first; or the last results
    logits: Float64Array
    values: Float64Array  # float64[N]


class NetEvaluator:
    """A net that evaluates positions by the mean over their symmetries.

    An evaluation does not depend on the rest of its batch: a sum of few float32 numbers in float64
    is exact. For the same reason symmetric moves have equal logits. On a board of few cells, each
    position is evaluated at most once.

    Args:
        game: the game.
        net: the net; it must not change.
        which: the symmetries to average over.
    """

    def __init__(self, game: Game, net: Packed, kind: Symmetries) -> None:
        self.game = game
        self._net = net
        self._permutations = symmetries(game, kind)
        # those not in use: each thread has its own
        self._workspaces: list[_Workspace] = []

    def means(self, boards: Boards) -> tuple[Float64Array, Float64Array]:
        """Return logits float64[B, cells] and values float64[B] from the mover's view."""
        obs = boards.own_first()
        logits = np.empty(obs.shape)
        values = np.empty(len(obs))
        with self._workspace() as work:
            _evaluate_rows(obs, work, logits, values)
        return logits, values

    def evaluate(self, boards: Boards) -> tuple[Float32Array, Float64Array]:
        """See :class:`~ttt_envs.agents.policy.Evaluator`."""
        logits, values = self.means(boards)
        return logits.astype(np.float32), values

    def values(self, boards: Boards) -> Float64Array:
        """Return values float64[B] from the mover's view."""
        return self.means(boards)[1]

    def action_values(self, boards: Boards) -> Float64Array:
        """Return action values float64[B, cells] from the mover's view, NaN where illegal, by
        one-ply lookahead.
        """
        return one_ply_ahead(self.game, boards, self.values)

    def run_simulations(
        self, considered_visit: Int64Array, params: SelectionParams, tree: Tree
    ) -> None:
        """See :class:`~baselines.mcts.FusedEvaluator`."""
        with self._workspace() as work:
            _run_simulations(considered_visit, params, tree, work)

    @contextmanager
    def _workspace(self) -> Iterator[_Workspace]:
        """Lend a workspace of this net."""
        try:
            work = self._workspaces.pop()
        except IndexError:  # other threads have them
            cells = self._permutations.shape[1]
            size = 3**cells if cells <= MAX_SMALL_CELLS else 1
            work = _Workspace(
                net=self._net,
                permutations=self._permutations,
                inverses=inverse(self._permutations),
                room=self._net.room(),
                obs=np.zeros(cells, np.int8),
                image=np.zeros(cells, np.int8),
                is_evaluated=np.zeros(size, np.int8),
                logits=np.empty((size, cells)),
                values=np.empty(size),
            )
        yield work
        self._workspaces.append(work)


@inlined
def _evaluate(obs: Int8Array, work: _Workspace) -> int:
    """Evaluate a board, own stones first, unless it is known; return the row of its logits and
    value.
    """
    has_cache = len(work.is_evaluated) > 1
    row = int64(base_3(obs)) if has_cache else int64(0)
    if has_cache and work.is_evaluated[row] == 1:
        return row
    cells = len(obs)
    count = len(work.permutations)
    logits = work.logits[row]
    value = 0.0
    for cell in range(cells):
        logits[cell] = 0.0
    for image in range(count):
        for cell in range(cells):
            work.image[cell] = obs[work.permutations[image, cell]]
        outputs = work.room[evaluate_net(work.image, work.net, work.room)]
        for cell in range(cells):
            logits[cell] += outputs[work.inverses[image, cell]]
        value += math.tanh(np.float64(outputs[cells]))
    for cell in range(cells):
        logits[cell] /= count
    work.values[row] = value / count
    work.is_evaluated[row] = 1
    return row


@kernel(interpreted=False, nogil=True)
def _evaluate_rows(
    obs: Int8Array, work: _Workspace, logits: Float64Array, values: Float64Array
) -> None:
    """Evaluate boards int8[B, cells] into ``logits`` float64[B, cells] and ``values``
    float64[B].
    """
    for b in range(len(obs)):
        row = _evaluate(obs[b], work)
        values[b] = work.values[row]
        for cell in range(obs.shape[1]):
            logits[b, cell] = work.logits[row, cell]


@kernel(interpreted=False, nogil=True)
def _run_simulations(
    considered_visit: Int64Array, params: SelectionParams, tree: Tree, work: _Workspace
) -> None:
    """Run S simulations in all trees, tree by tree for cache locality."""
    scratch = tree.scratch
    for b in range(len(tree.cells)):
        for simulation in range(len(considered_visit)):
            count = simulate(b, considered_visit[simulation, b], params, tree, int64(0))
            for leaf in range(count):
                own_first_row(scratch.leaves[leaf], int64(scratch.movers[leaf]), work.obs)
                row = _evaluate(work.obs, work)
                scratch.values[leaf] = work.values[row]
                for cell in range(len(work.obs)):
                    scratch.prior_logits[leaf, cell] = work.logits[row, cell]
            backup(b, tree, int64(0))
