"""Cost of AlphaZero with chance nodes to reach perfect play, and speed of its self-play.

All times are CPU seconds on one core. Trainings are measured exactly, at regular numbers of games and outside the
timing, one for each seed: the number of games and seconds until the exploitability was 0, or another goal, and stayed
there to the end. Tracing TensorFlow's graph is reported separately; the rows "start" are new processes that do only
that. The rows "cells" have nets without line features.

Beside mctx on pgx both sides play and search with the same net and weights, on the cells alone, and deliver training
data: search results go to numpy. Our count of simulations excludes those skipped for solved positions, which mctx
always makes; so moves are counted too. Beside OpenSpiel both sides learn for the same time, and are then measured
exactly, by the policy head alone and with the search. OpenSpiel's actor and learner alternate in one process, without
checkpoint files, and its inference is compiled, which it is not by default; its graphs are compiled before the timing.

    python benchmarks/alpha_zero.py [--quick] [--rounds N] [--only NAME,...] [--json FILE]

A round is a seed of a training. The rows of ten minutes a seed, and the rows "cells", run only if --only names them.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from time import process_time
from typing import Any, NamedTuple

from measuring import (
    MS,
    Benchmark,
    Part,
    Row,
    Spread,
    Stretch,
    alone_part,
    measure_rounds,
    rate,
    run,
    time_answers,
    time_work,
)

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")

import numpy as np
from rich.box import MARKDOWN
from rich.table import Table

from baselines.mcts import GumbelResult, gumbel_search
from learners.alpha_zero import AlphaZeroConfig, AlphaZeroSearch
from learners.alpha_zero.net import AlphaZero, value_scale_for
from learners.alpha_zero.policy import CHUNK_SIZE
from learners.alpha_zero.self_play import TrainingExamples, play_block
from learners.training import make_initial_rng
from studies.alpha_zero import temporary_run, training_unit
from ttt_envs.agents.policy import Policy, best_shares
from ttt_envs.core.jit import Float64Array
from ttt_envs.game.boards import Boards
from ttt_envs.game.game import Game
from ttt_eval.exact.dynamic_programming import exploitability

PACKAGES = ("numpy", "numba", "tensorflow", "mctx", "pgx", "jax", "open_spiel", "flax")
SIMULATIONS = 32
"""Number of simulations of a search at play."""
SMALL_HIDDEN = (64, 64)
"""Units of the hidden layers beside mctx, and of OpenSpiel's net: larger ones take it longer."""
TOLERANCE = 1e-9
"""Tolerance for sums of rounded probabilities that should be 0."""


@dataclass(frozen=True)
class SearchPolicy(Policy):
    """A deterministic Gumbel search guided by a learner, as ``alpha-zero:path=RUN``."""

    learner: AlphaZero
    colour_blind = True

    def probabilities(self, boards: Boards, rng: np.random.Generator | None = None) -> Float64Array:
        """Return the move that the search selects."""
        out = np.empty(boards.cells.shape)
        for start in range(0, len(out), CHUNK_SIZE):
            rows = slice(start, start + CHUNK_SIZE)
            batch = Boards(boards.cells[rows], boards.mover[rows])
            search = gumbel_search(
                self.learner.game,
                batch,
                self.learner.mean,
                simulations=SIMULATIONS,
                max_num_considered_actions=AlphaZeroSearch.max_num_considered_actions,
                maxvisit_init=AlphaZeroSearch.maxvisit_init,
                value_scale=value_scale_for(self.learner.game),
            )
            out[rows] = search.probabilities()
        return out


# ---------------------------------------------------------------------------------------------------------------------
# Time to perfect play


class PlayerGoal(NamedTuple):
    """A player measured in a training, and its goal."""

    who: str
    player: Callable[[AlphaZero], Policy]
    most: float
    """maximum exploitability"""
    within: float
    """maximum CPU seconds"""


class Training(NamedTuple):
    """A training to be measured."""

    game: Game
    games: int
    every: int
    """number of games between measurements"""
    goals: tuple[PlayerGoal, ...]
    seconds: float = np.inf
    """CPU time limit"""
    settings: AlphaZeroConfig = AlphaZeroConfig()


@dataclass(frozen=True)
class Mark:
    """A measurement."""

    games: int
    seconds: float
    exploitability: float


@dataclass(frozen=True)
class LearnerResult:
    """Measurements of one player over all trainings of a row."""

    name: str
    who: str
    most: float
    within: float
    tracing: list[float]
    """CPU seconds of each seed's preparation, not included elsewhere"""
    marks: list[list[Mark]]
    """for each seed"""

    def since(self) -> list[Mark | None]:
        """Return for each seed the first mark after which the goal was always met; None if the last missed it."""
        found = []
        for marks in self.marks:
            missed = [number for number, mark in enumerate(marks) if mark.exploitability > self.most + TOLERANCE]
            first = missed[-1] + 1 if missed else 0
            found.append(marks[first] if first < len(marks) else None)
        return found


def net_alone(learner: AlphaZero) -> Policy:
    return learner


def measure_marks(training: Training, seed: int, games: int) -> tuple[float, list[list[Mark]]]:
    """Return the preparation time of one training, and the measurements of all players."""
    config = training.settings
    begin = process_time()
    loop = config.training(training.game, games, batch=config.batch, seed=seed)
    prepared = process_time() - begin
    learner = loop.learner
    spent, due = 0.0, training.every
    marks: list[list[Mark]] = [[] for _ in training.goals]
    while loop.running and spent < training.seconds:
        begin = process_time()
        loop.step()
        spent += process_time() - begin
        if loop.done.games >= due or not loop.running or spent >= training.seconds:
            due += training.every
            for goal, goal_marks in zip(training.goals, marks, strict=True):
                found = exploitability(training.game, goal.player(learner))
                goal_marks.append(Mark(loop.done.games, spent, found))
    return prepared, marks


FULL_SECONDS = 0.4
"""Seconds of a round in the full form."""


def measure_training(name: str, rounds: int, seconds: float) -> list[LearnerResult]:
    """Measure one seed per round; the quick form plays fewer games."""
    training = TRAININGS[name]
    games = int(training.games * min(1.0, seconds / FULL_SECONDS))
    measure_marks(training._replace(seconds=1e-9), 0, training.every)  # a step, so that kernels are compiled
    found = [measure_marks(training, seed, games) for seed in range(rounds)]
    return [
        LearnerResult(
            name,
            goal.who,
            goal.most,
            goal.within,
            [prepared for prepared, _ in found],
            [marks[number] for _, marks in found],
        )
        for number, goal in enumerate(training.goals)
    ]


def trainings_table(measured: list[list[LearnerResult]]) -> Table:
    table = Table(box=MARKDOWN)
    headers = (
        "row",
        "plays",
        "asked",
        "seeds",
        "CPU s until then",
        "games",
        "at the end",
        "CPU s in all",
        "tracing, s",
    )
    for number, header in enumerate(headers):
        table.add_column(header, justify="left" if number < 3 else "right", no_wrap=True)
    for learned in (learned for of_row in measured for learned in of_row):
        since = [mark for mark in learned.since() if mark is not None]
        ended = [marks[-1] for marks in learned.marks]
        table.add_row(
            learned.name,
            learned.who,
            f"{learned.most:g}" + (f" within {learned.within:g} s" if np.isfinite(learned.within) else ""),
            f"{sum(mark.seconds <= learned.within for mark in since)} of {len(ended)}",
            str(Spread.of(mark.seconds for mark in since)) if since else "",
            str(Spread.of(mark.games for mark in since)) if since else "",
            str(Spread.of(mark.exploitability for mark in ended)),
            str(Spread.of(mark.seconds for mark in ended)),
            str(Spread.of(learned.tracing)),
        )
    return table


SKIPS, FOUR = Game(skip_chance=0.25), Game(4, 4, 4)
WITH_SEARCH = f"the net and {SIMULATIONS} simulations"
NEARLY = PlayerGoal("the net", net_alone, 0.01, np.inf), PlayerGoal(WITH_SEARCH, SearchPolicy, 0.0, 5.0)
CELLS = AlphaZeroConfig(lines=False)
TRAININGS = {
    "3x3": Training(Game(), 8_192, 256, (PlayerGoal("the net", net_alone, 0.0, 5.0),)),
    "3x3-skip": Training(SKIPS, 8_192, 512, NEARLY),
    "3x3-skip-cells": Training(SKIPS, 8_192, 512, NEARLY, settings=CELLS),
    "4x4": Training(FOUR, 16_384, 1_024, (PlayerGoal("the net", net_alone, 0.0, 60.0),)),
    "4x4-cells": Training(FOUR, 16_384, 1_024, (PlayerGoal("the net", net_alone, 0.0, 60.0),), settings=CELLS),
    "4x4-skip": Training(
        Game(4, 4, 4, 0.25),
        1 << 20,
        16_384,
        (PlayerGoal("the net", net_alone, 0.02, 600.0),),
        seconds=600.0,
        # suits a long training
        settings=AlphaZeroConfig(learning_rate_decay=0.0003, buffer_size=150_000),
    ),
}


# ---------------------------------------------------------------------------------------------------------------------
# Time per move


PLAYED: dict[str, tuple[Game, bool]] = {
    "move-3x3": (SKIPS, True),
    "move-3x3-own": (SKIPS, False),
    "move-7x7": (Game(7, 7, 5), True),
    "move-7x7-own": (Game(7, 7, 5), False),
}
"""Games, and the symmetries used."""
BATCH_SIZES = (1, 16, 512)


@dataclass(frozen=True)
class MoveTime:
    """Time of ``alpha-zero:`` per position, with an untrained net."""

    name: str
    who: str
    ms: list[Spread]
    """CPU time at the batch sizes of :data:`BATCH_SIZES`"""


def measure_move_time(name: str, rounds: int, seconds: float) -> MoveTime:
    """Measure searches of empty boards."""
    game, symmetrize = PLAYED[name]
    with temporary_run(
        training_unit("alpha-zero", game, 1, 0), AlphaZeroConfig().build(game, make_initial_rng(0))
    ) as path:
        search = AlphaZeroSearch(game, str(path), simulations=SIMULATIONS, symmetrize=symmetrize)
        search.search(Boards.start(game, 1))
    stretches = [time_answers(partial(search.search, Boards.start(game, count)), count) for count in BATCH_SIZES]
    ms = [Spread.of(map(MS.of, done)) for done in measure_rounds(stretches, rounds, seconds)]
    return MoveTime(name, f"{game}, symmetrize={str(symmetrize).lower()}", ms)


def move_times_table(measured: list[MoveTime]) -> Table:
    table = Table(box=MARKDOWN)
    for number, header in enumerate(("row", "plays", *(f"ms of {count} at once" for count in BATCH_SIZES))):
        table.add_column(header, justify="left" if number < 2 else "right", no_wrap=True)
    for row in measured:
        table.add_row(row.name, row.who, *(str(ms) for ms in row.ms))
    return table


# ---------------------------------------------------------------------------------------------------------------------
# Startup

START = """
from learners.alpha_zero import AlphaZeroConfig
from ttt_envs.game.rules import Game

def begin(steps):
    import tensorflow
    config = AlphaZeroConfig()
    training = config.training(Game(), 8_192, batch=config.batch, seed=0)
    for _ in range(steps):
        training.step()
    return f"{training.done.games} games"
"""
STARTS = {
    "start-import": ("importing TensorFlow", "__import__('tensorflow').__version__"),
    "start-trace": ("the same, and tracing", "begin(0)"),
    "start-first": ("the same, and a step", "begin(1)"),
    "start-second": ("the same, and another", "begin(2)"),
}


# ---------------------------------------------------------------------------------------------------------------------
# Self-play beside mctx

TOGETHER_IN_SELF_PLAY = 1_024


def make_learner(simulations: int) -> tuple[AlphaZeroConfig, AlphaZero]:
    """Return an untrained learner."""
    config = AlphaZeroConfig(simulations=simulations, hidden=SMALL_HIDDEN, lines=False)
    return config, config.build(Game(), make_initial_rng(0))


def num_simulations(result: GumbelResult) -> int:
    return int(result.search.visits.sum())


def our_self_play(simulations: int, count_moves: bool = False) -> Stretch:
    """Return a batch of self-play games, as in training."""
    config, learner = make_learner(simulations)
    rng, seeds = np.random.default_rng(0), iter(range(1 << 30))

    def play() -> TrainingExamples:
        return play_block(config, learner.game, learner.state, next(seeds), range(TOGETHER_IN_SELF_PLAY))

    # count the simulations that a search really makes, in positions of real games
    seen = play().obs
    search = gumbel_search(
        learner.game,
        Boards(seen, np.zeros(len(seen), np.int8)),
        learner,
        simulations=simulations,
        max_num_considered_actions=config.max_num_considered_actions,
        noise=rng.gumbel(size=seen.shape),
        maxvisit_init=config.maxvisit_init,
        value_scale=value_scale_for(learner.game, config.value_scale),
    )
    of_a_move = 1.0 if count_moves else num_simulations(search) / len(seen)
    return time_work(lambda: of_a_move * len(play().obs))


def our_search(simulations: int) -> Stretch:
    """Return one search of that many empty boards."""
    config, learner = make_learner(simulations)
    boards, rng = Boards.start(learner.game, TOGETHER_IN_SELF_PLAY), np.random.default_rng(0)

    def think() -> int:
        search = gumbel_search(
            learner.game,
            boards,
            learner,
            simulations=simulations,
            max_num_considered_actions=config.max_num_considered_actions,
            noise=rng.gumbel(size=boards.cells.shape),
            maxvisit_init=config.maxvisit_init,
            value_scale=value_scale_for(learner.game, config.value_scale),
        )
        return num_simulations(search)

    return time_work(think)


def mctx_on_pgx(simulations: int, plies: int, count_moves: bool = False) -> Stretch:
    """Return ``mctx.gumbel_muzero_policy`` over pgx's tic-tac-toe, with our learner's net.

    Args:
        simulations: number per search.
        plies: of all games, which restart when over; 0: only a search of empty boards.
        count_moves: count moves instead of simulations.
    """
    import jax
    import jax.numpy as jnp
    import mctx
    import pgx
    from pgx.experimental import auto_reset

    count = TOGETHER_IN_SELF_PLAY
    env = pgx.make("tic_tac_toe")
    step = jax.vmap(env.step)
    go_on = jax.vmap(auto_reset(env.step, env.init))
    arrays = list(make_learner(simulations)[1].weights.values())

    def evaluate(weights: Any, state: Any) -> tuple[Any, Any]:
        own, other = state.observation[..., 0], state.observation[..., 1]
        planes = [own, other, ~(own | other)]
        out = jnp.concatenate([plane.reshape(count, -1) for plane in planes], axis=1).astype(jnp.float32)
        for layer in range(0, len(weights), 2):
            if layer > 0:
                out = jax.nn.relu(out)
            out = out @ weights[layer] + weights[layer + 1]
        logits = jnp.where(state.legal_action_mask, out[:, :-1], jnp.finfo(jnp.float32).min)
        return logits, jnp.tanh(out[:, -1])

    def follow(weights: Any, _: Any, action: Any, state: Any) -> Any:
        mover = state.current_player
        state = step(state, action)
        logits, value = evaluate(weights, state)
        output = mctx.RecurrentFnOutput(
            reward=state.rewards[jnp.arange(count), mover],
            discount=jnp.where(state.terminated, 0.0, -1.0),
            prior_logits=logits,
            value=jnp.where(state.terminated, 0.0, value),
        )
        return output, state

    def play(weights: Any, key: Any, state: Any) -> Any:
        search_key, step_key = jax.random.split(key)
        logits, value = evaluate(weights, state)
        found = mctx.gumbel_muzero_policy(
            params=weights,
            rng_key=search_key,
            root=mctx.RootFnOutput(prior_logits=logits, value=value, embedding=state),
            recurrent_fn=follow,
            num_simulations=simulations,
            invalid_actions=~state.legal_action_mask,
        )
        lessons = state.observation, found.action_weights, found.search_tree.summary().value
        return lessons, go_on(state, found.action, jax.random.split(step_key, count)) if plies else state

    compiled = jax.jit(play)
    initial = jax.jit(jax.vmap(env.init))(jax.random.split(jax.random.key(0), count))
    keys = iter(np.arange(1 << 30))

    def think() -> int:
        state = initial
        for _ in range(max(1, plies)):
            lessons, state = compiled(arrays, jax.random.key(next(keys)), state)
            for lesson in lessons:
                np.asarray(lesson)
        return max(1, plies) * count * (1 if count_moves else simulations)

    return time_work(think)


MCTX = "mctx gumbel_muzero_policy on pgx"
GAMES = f"{TOGETHER_IN_SELF_PLAY:,} games"
PLIES = 9


def rows_of(simulations: int) -> tuple[Row, ...]:
    """Return the rows of self-play with this number of simulations per move."""
    said = f"{simulations} simulations"
    theirs = partial(mctx_on_pgx, simulations, PLIES)
    return (
        Row(
            f"self-play-{simulations}",
            f"simulations, {GAMES}, {said}",
            MCTX,
            5,
            partial(our_self_play, simulations),
            theirs,
        ),
        Row(
            f"moves-{simulations}",
            f"moves, {GAMES}, {said}",
            MCTX,
            5,
            partial(our_self_play, simulations, True),
            partial(theirs, True),
        ),
        Row(
            f"search-{simulations}",
            f"simulations, {TOGETHER_IN_SELF_PLAY:,} empty boards, {said}",
            MCTX,
            5,
            partial(our_search, simulations),
            partial(mctx_on_pgx, simulations, 0),
        ),
    )


# ---------------------------------------------------------------------------------------------------------------------
# Beside OpenSpiel

THEIR_SIMULATIONS, THEIR_C, TEMPERATURE, DROP = 40, 1.41, 1.0, 2
NOISE = (0.25, 1.0)
BATCH, BUFFER, REUSE, RATE, DECAY = 128, 1 << 11, 4, 1e-3, 1e-4
"""As in OpenSpiel's example for tic-tac-toe, except for the buffer, there 2**13, with which nothing would be learned in
a minute."""


@dataclass(frozen=True)
class Side:
    """Results of one side, by seed."""

    who: str
    games: list[int]
    seconds: list[float]
    """CPU time; less than the budget if a training ended early"""
    net: list[float]
    """exploitability of the policy head alone"""
    search: list[float]
    """exploitability of the search"""


@dataclass(frozen=True)
class Beside:
    """Results of both sides in the same time."""

    name: str
    budget: float
    """CPU seconds"""
    ours: Side
    theirs: Side
    their_updates: list[int]


class TheirLearner:
    """OpenSpiel's AlphaZero: a game of its actor, and a step of its learner when that is due."""

    def __init__(self, seed: int) -> None:
        import jax
        import jax.numpy as jnp
        import pyspiel
        from open_spiel.python.algorithms import mcts
        from open_spiel.python.algorithms.alpha_zero import alpha_zero, evaluator, model_linen, replay_buffer, utils

        self._jnp, self._mcts, self._actor, self._utils = jnp, mcts, alpha_zero, utils
        self.game = pyspiel.load_game("tic_tac_toe")
        shape, width, depth = self.game.observation_tensor_shape(), SMALL_HIDDEN[0], len(SMALL_HIDDEN)
        actions = self.game.num_distinct_actions()
        self.model = model = model_linen.Model.build_model(
            "mlp", shape, actions, width, depth, DECAY, RATE, None, seed=seed
        )
        self.buffer = replay_buffer.Buffer(BUFFER, seed=seed)

        @jax.jit
        def evaluate(params: Any, observation: Any, legal: Any) -> tuple[Any, Any]:
            logits, value = model._state.apply_fn({"params": params, "batch_stats": {}}, observation, training=False)
            return value, jax.nn.softmax(jnp.where(legal, logits, jnp.finfo(jnp.float32).min))

        def inference(observation: Any, legal: Any) -> tuple[Any, Any]:
            value, policy = evaluate(model._state.params, np.float32(observation), np.array(legal, bool))
            return np.asarray(value), np.asarray(policy)

        model.inference = inference
        self.evaluator = evaluator.AlphaZeroEvaluator(self.game, model)
        self._bot = self.bot(NOISE)
        self.games = self.updates = self._waiting = 0
        self._compile()

    def bot(self, noise: tuple[float, float] | None) -> Any:
        """Return OpenSpiel's search; without noise it is deterministic."""
        return self._mcts.MCTSBot(
            self.game,
            THEIR_C,
            THEIR_SIMULATIONS,
            self.evaluator,
            solve=False,
            random_state=None if noise else np.random.RandomState(0),
            dirichlet_noise=noise,
            child_selection_fn=self._mcts.SearchNode.puct_value,
            dont_return_chance_node=True,
        )

    def _compile(self) -> None:
        """Compile everything by running it once, and restore the state."""
        saved = self.model._state
        self._play()
        for _ in range(2):  # its second update is compiled again
            self.model.update(self.buffer.sample(BATCH))
        self.model._state, self.buffer.buffer_state, self._waiting = saved, None, 0
        self.evaluator._cache.clear()

    def _play(self) -> None:
        jnp = self._jnp
        trajectory = self._actor._play_game(_Silent(), 0, self.game, (self._bot, self._bot), TEMPERATURE, DROP)
        for state in trajectory.states:
            lesson = self._utils.TrainInput(
                observation=jnp.asarray(state.observation, dtype=jnp.float32),
                legals_mask=jnp.asarray(state.legals_mask, dtype=jnp.bool),
                policy=jnp.asarray(state.policy, dtype=jnp.float32),
                value=jnp.asarray(trajectory.returns[0], dtype=jnp.float32),
            )
            self.buffer.append(lesson)
        self._waiting += len(trajectory.states)

    def step(self) -> None:
        """Play a game, and make updates when they are due."""
        self._play()
        self.games += 1
        if self._waiting >= BUFFER // REUSE:
            self._waiting = 0
            for _ in range(len(self.buffer) // BATCH):
                self.model.update(self.buffer.sample(BATCH))
                self.updates += 1
            self.evaluator._cache.clear()


class _Silent:
    """A log that discards everything."""

    def print(self, *_: object) -> None: ...

    opt_print = print


class Theirs(Policy):
    """OpenSpiel's learner as a policy, by its net alone or with its search, without noise."""

    def __init__(self, learner: TheirLearner, search: bool) -> None:
        self._learner, self._search = learner, search

    def probabilities(self, boards: Boards, rng: np.random.Generator | None = None) -> Float64Array:
        """Return the moves of highest probability, or of most visits."""
        return best_shares(np.array([self._shares(cells) for cells in boards.cells]).reshape(boards.cells.shape))

    def _shares(self, cells: np.ndarray[Any, Any]) -> Float64Array:
        state = self._learner.game.new_initial_state()
        first, second = (np.flatnonzero(cells == stone) for stone in (1, 2))
        for number in range(len(first) + len(second)):  # neither has won, so any order is valid
            state.apply_action(int((first, second)[number % 2][number // 2]))
        shares = np.full(len(cells), np.nan)
        if not self._search:
            for cell, share in self._learner.evaluator.prior(state):
                shares[cell] = share
            return shares
        children = self._learner.bot(None).mcts_search(state).children
        for child in children:
            shares[child.action] = child.explore_count
        return shares


def measure_beside(name: str, rounds: int, seconds: float) -> Beside:
    """Measure both sides by turns, one seed per round; the quick form learns for a shorter time."""
    budget = BUDGETS[name] * min(1.0, seconds / FULL_SECONDS)
    games = AlphaZeroConfig.self_play_games
    goals = (PlayerGoal("", net_alone, 0.0, budget), PlayerGoal("", SearchPolicy, 0.0, budget))
    training = Training(Game(), games, games, goals, budget)
    found = Beside(
        name,
        budget,
        Side(f"ours, search of {SIMULATIONS}", [], [], [], []),
        Side(f"OpenSpiel, search of {THEIR_SIMULATIONS}", [], [], [], []),
        [],
    )
    TheirLearner(0)  # before ours, so that a missing peer costs nothing
    measure_marks(training._replace(seconds=1e-9), 0, games)
    for seed in range(rounds):
        net, search = (marks[-1] for marks in measure_marks(training, seed, games)[1])
        found.ours.games.append(net.games)
        found.ours.seconds.append(net.seconds)
        found.ours.net.append(net.exploitability)
        found.ours.search.append(search.exploitability)
        np.random.seed(seed)  # noqa: NPY002  # which theirs draws from
        theirs = TheirLearner(seed)
        begin = process_time()
        while (spent := process_time() - begin) < budget:
            theirs.step()
        found.theirs.games.append(theirs.games)
        found.theirs.seconds.append(spent)
        found.theirs.net.append(exploitability(Game(), Theirs(theirs, search=False)))
        found.theirs.search.append(exploitability(Game(), Theirs(theirs, search=True)))
        found.their_updates.append(theirs.updates)
    return found


def beside_table(measured: list[Beside]) -> Table:
    table = Table(box=MARKDOWN)
    for number, header in enumerate(("row", "who", "games", "CPU s", "the net's exploitability", "with search")):
        table.add_column(header, justify="left" if number < 2 else "right", no_wrap=True)
    for beside in measured:
        for side in (beside.ours, beside.theirs):
            spreads = (side.games, side.seconds, side.net, side.search)
            table.add_row(beside.name, side.who, *(str(Spread.of(values)) for values in spreads))
    return table


BUDGETS = {"open-spiel": 60.0, "open-spiel-long": 600.0}


BENCHMARK = Benchmark(
    about=str(__doc__),
    packages=PACKAGES,
    unit=rate("/s"),
    rows=(*rows_of(16), *rows_of(32)),
    parts=(
        Part("trainings", tuple(TRAININGS), measure_training, trainings_table),
        Part("moves", tuple(PLAYED), measure_move_time, move_times_table),
        alone_part(STARTS, START),
        Part("open_spiel", tuple(BUDGETS), measure_beside, beside_table),
    ),
    left_out=("3x3-skip", "4x4", "move-7x7", "move-7x7-own", "start-trace", "start-first", "open-spiel"),
    asked_for=("3x3-skip-cells", "4x4-cells", "4x4-skip", "open-spiel-long"),
)


if __name__ == "__main__":
    run(BENCHMARK)
