"""What an estimator or a loss is given: rows of decisions, of rollouts or of batches of games.

**Rollouts** have T steps in E environments, as in CleanRL: ``rewards`` and ``values``
float64[T, E], ``dones`` float64[T, E] with 1 at the first step of an episode, ``next_value`` and
``next_done`` float64[E] of the step after the last, and ``movers`` float64[T + 1, E] with 1 where
the first player moves and -1 where the second does. What follows each step has Gymnasium's names:
``terminated`` and ``truncated`` bool[T, E], and ``next_values`` float64[T, E], after a truncation
of the position in which the game was cut, for the next mover of the rollout. Every game begins with
the likeliest first decision.

**Batches** have N rows of up to T decisions. A row is what one player did in one game; in self-play
each game has two rows, the first player's and the second player's: ``rewards`` (the result, at the
last decision) and ``values`` float64[N, T], ``mask`` bool[N, T] where there is a decision,
``groups`` int64[N], ``roles`` int64[N] of the player, 0 or 1, ``lengths`` int64[N] and ``states``
int64[N, T], a number for each position; for losses also ``logp``, ``old_logp``, ``ref_logp``,
``advantages`` and ``entropy`` float64[N, T].

With **tokens**, action a is one token that decides and a certain ones after it, each with a column;
the mask has gaps between decisions. The log-probability is that of the token that decides, the
reward that of the last token, and values are expected results given the tokens before each one.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Mapping
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from ttt_envs.arrays import RESULTS
from ttt_envs.core.checks import Refusal
from ttt_envs.core.hash_index import distinct_rows
from ttt_envs.core.jit import Float64Array, Int64Array
from ttt_eval.checks.decisions import DecisionModel

MAX_BATCHES = 20_000
"""Maximum number of batches that are enumerated."""
MAX_ROWS = 150_000
"""Maximum number of different rollouts and games."""
MAX_STEPS = 6
"""Maximum number of steps of a rollout."""
TIME_LIMIT = 2
"""Steps after which games are truncated that are not over, in rollouts with truncations."""
CHUNK = 256
"""Number of games that a loss is asked for at once."""
NUM_TESTED = 512
"""Minimum number of games whose estimates in random samples are compared with those in others."""
EQUAL = 1e-4
"""Largest difference of equal answers of size 1, maybe in single precision."""
AT_DECISION = {"logp", "old_logp", "ref_logp", "entropy"}
"""Arrays of the token that decides; others but rewards are repeated for each token."""

Arrays = Mapping[str, np.ndarray]
Estimator = Callable[[Arrays], Float64Array]
"""Returns advantages, of the shape of the rewards, from arrays by name."""


def list_next(steps: Float64Array, last: Float64Array) -> Float64Array:
    """Return what follows each step of rollouts, float64[T, E].

    Args:
        steps: float64[T, E].
        last: float64[E], what follows the last one.
    """
    return np.vstack([steps, last])[1:]


def gae(
    rewards: Float64Array,
    values: Float64Array,
    dones: Float64Array,
    next_value: Float64Array,
    next_done: Float64Array,
    movers: Float64Array | None = None,
    *,
    discount: float = 0.9,
    lam: float = 0.95,
) -> Float64Array:
    """Return generalised advantage estimates (Schulman et al., 2016, equation 16), of rollouts.

    Where the next decision is the other player's, its value and advantage count negative.
    """
    following = list_next(values, next_value)
    alive = 1 - list_next(dones, next_done)
    if movers is not None:
        alive = alive * movers[1:] * movers[:-1]
    advantages = np.zeros(rewards.shape)
    carried = np.zeros(len(next_value))
    for step in reversed(range(len(rewards))):
        further = following[step] + lam * carried
        carried = rewards[step] + discount * alive[step] * further - values[step]
        advantages[step] = carried
    return advantages


class Rows(NamedTuple):
    """All N games with R rows each, or all N rollouts, R = 1, of up to T decisions."""

    chances: Float64Array
    """float64[N]"""
    places: Int64Array
    """int64[N, R, T], state * A + action of each decision; -1 where there is none"""
    arrays: dict[str, np.ndarray]
    """[N, R, ...], by the names of an estimator's arguments"""
    right: Float64Array
    """float64[N, R, T], estimates whose expected gradient is right"""


class Paths(NamedTuple):
    """What can happen in N rollouts or games of up to T decisions."""

    chances: Float64Array
    """float64[N]"""
    places: Int64Array
    """int64[N, T], state * A + action; -1 after the end of a game"""
    following: Int64Array
    """int64[N, T + 1], the first state and what follows each decision: the next state; or S + 0, 1,
    2 for the end of the game with a win, a draw or a loss of the mover, after which it stays"""
    rewards: Float64Array
    """float64[N, T], the result of a game that ends, or has ended, for its last mover; else 0"""


def unroll(model: DecisionModel, restarts: bool, limit: int | None = None) -> Paths:
    """Return all games; or, with restarts, all rollouts of T steps from a first decision on, with T
    as large as memory allows.

    Args:
        model: the decisions.
        restarts: whether games follow each other.
        limit: the step at which another game begins; None for none.

    Raises:
        ValueError: there are too many games.
    """
    from scipy.sparse import csr_array, vstack

    count, num_actions = model.legal.shape
    ends = np.arange(len(RESULTS))
    stays = csr_array((np.ones(len(ends)), (ends * (num_actions + 1), count + ends)))
    outcomes = vstack([model.actions.outcomes, stays]).tocsr()
    shares = np.vstack([model.policy, np.eye(len(ends), num_actions)])
    states = np.arange(len(shares))  # in which each state goes on
    following = np.flatnonzero(model.start)[:, None]
    chances = model.start[following[:, 0]]
    if restarts:
        states[count:] = np.argmax(model.start)
        following = np.full((1, 1), count)
        chances = np.ones(1)
    places = np.zeros((len(chances), 0), np.int64)
    while places.shape[1] < MAX_STEPS or not restarts:
        now = states[following[:, -1]]
        if now.min() >= count:
            break
        if places.shape[1] == limit:
            now = np.full_like(now, np.argmax(model.start))
        rows, actions = np.nonzero(shares[now])
        played = now[rows] * num_actions + actions
        table = outcomes[played].tocoo()
        rows = rows[table.row]
        if len(rows) > MAX_ROWS:
            if restarts:
                break
            raise Refusal(f"{model.game} has too many games for batches: choose 2x3/3")
        chances = chances[rows] * shares.ravel()[played][table.row] * table.data
        places = np.column_stack([places[rows], played[table.row]])
        following = np.column_stack([following[rows], table.col])
    rewards = np.append(np.zeros(count), model.results)[following[:, 1:]]
    return Paths(chances, np.where(places < model.legal.size, places, -1), following, rewards)


def list_rollouts(model: DecisionModel, critic: Float64Array, limit: int | None = None) -> Rows:
    """Return all rollouts.

    Args:
        model: the decisions.
        critic: float64[S], values for the mover.
        limit: the step at which games are truncated that are not over; None for none.
    """
    count = len(model.signs)
    chances, places, following, rewards = unroll(model, restarts=True, limit=limit)
    over = (following >= count).T
    cut = ~over & (np.arange(len(over)) == limit)[:, None]
    begins = (over | cut).astype(np.float64)
    states = np.where(begins, np.argmax(model.start), following.T)
    arrivals = np.where(cut, following.T, states)
    steps = {
        "rewards": rewards.T,
        "values": critic[states[:-1]],
        "next_value": critic[states[-1]],
        "dones": begins[:-1],
        "next_done": begins[-1],
        "movers": model.signs[states],
        "truncated": cut[1:],
        "cut_values": (model.signs[states] * (model.signs * critic)[arrivals])[1:],
    }
    arrays = {name: array.T[:, None] for name, array in steps.items()}
    places = places[:, None]
    return Rows(chances, places, arrays, model.advantages.ravel()[places])


def list_batch_rows(
    model: DecisionModel,
    tables: Mapping[str, Float64Array],
    names: Collection[str],
    tokens: bool = False,
) -> Rows:
    """Return the rows of all games.

    Args:
        model: the decisions.
        tables: float64[S, A], numbers of decisions by the name of their array; ``right`` has
            estimates whose expected gradient is right, by default results without their mean.
        names: of the arrays that the estimator reads.
        tokens: whether decisions are several tokens.
    """
    chances, plays, _, rewards = unroll(model, restarts=False)
    num_actions = model.game.cells
    signs = np.unique(model.signs)[::-1]
    movers = model.signs[plays // num_actions] * (plays >= 0)
    is_own = movers[:, None] == signs[:, None]
    places = np.take_along_axis(
        np.where(is_own, plays[:, None], -1), np.argsort(~is_own, axis=2, kind="stable"), axis=2
    )
    mask = places >= 0
    last = np.maximum(mask.sum(axis=2) - 1, 0)[..., None]
    results = ((movers * rewards).sum(axis=1)[:, None] * signs)[..., None]
    token = np.arange(num_actions if tokens else 1)
    action = (places * mask % len(token))[..., None]
    is_used = (token <= action) & mask[..., None]
    decides = token == 0
    parts = {"rewards": token == action, **dict.fromkeys(AT_DECISION, decides)}
    baselines = np.average(results, axis=0, weights=chances)
    by_decision: dict[str, np.ndarray] = {
        "right": results - baselines,
        **{name: table.ravel()[places] * mask for name, table in tables.items()},
        "rewards": results * (np.arange(mask.shape[2]) == last),
        "mask": mask,
        "states": places // num_actions,
    }
    shape = *mask.shape[:2], -1
    arrays = {
        name: (array[..., None] * parts.get(name, is_used)).reshape(shape)
        for name, array in by_decision.items()
        if name in {*names, "right", "mask"}
    }
    if "values" in arrays:  # after a decision, those of the action
        of_action = model.advantages.ravel()[places][..., None] * (is_used & (token > 0))
        arrays["values"] += of_action.reshape(shape)
    arrays["lengths"] = arrays["mask"].sum(axis=2)
    by_token = np.where(decides, places[..., None], -1).reshape(shape)
    right = arrays.pop("right")
    return Rows(chances, by_token, arrays, right)


# --------------------------------------------------------------------------------------------------
# Samples


class BatchSize(NamedTuple):
    """The size of a batch."""

    games: int
    group: int
    """number of consecutive games that form a group; 1 of rollouts"""


class Source:
    """Samples of rows, as classes of games that an estimator cannot tell apart.

    Given the class of a game its decisions do not depend on other games, so that their exact means
    stand for them.

    Args:
        rows: of all games, or rollouts.
        size: of a sample.
        policy: float64[S, A], in whose logits the gradient is.
        of_loss: whether estimates are those of a loss: it takes samples of any size, and a second
            part of its estimates is of weights of the entropy.

    Attributes:
        chances: float64[C], of the classes.
        matrix: sparse float64[C * R * T, S * A], the mean decisions of each estimate.
        right: sparse float64[C, S * A], sums of estimates whose expected gradient is right.
    """

    def __init__(
        self, rows: Rows, size: BatchSize, policy: Float64Array, of_loss: bool = False
    ) -> None:
        from scipy.sparse import block_diag, csr_array, eye_array, vstack
        from scipy.special import entr

        self.size = size
        self.policy = policy
        self.chunks = [size.games]
        places = rows.places
        right = rows.right
        basis = eye_array(policy.size)
        if of_loss:
            self.chunks = [CHUNK, size.games]
            states = np.where(places < 0, -1, policy.size + places // policy.shape[1])
            places = np.append(places, states, axis=2)
            right = np.append(right, 0 * right, axis=2)
            basis = vstack([basis, block_diag(entr(policy)[:, None])])
        columns = [array.reshape(len(places), -1) for array in rows.arrays.values()]
        words = np.column_stack(columns).astype(np.float64).view(np.uint64)
        first, number = distinct_rows(words)
        self.chances = np.bincount(number, rows.chances)
        self.arrays = {name: array[first] for name, array in rows.arrays.items()}
        self.num_rows = places.shape[1]
        by_game = places.reshape(len(places), -1)
        self.num_keys = by_game.shape[1]
        entries = np.nonzero(by_game >= 0)
        game = number[entries[0]]
        weights = (rows.chances / self.chances[number])[entries[0]]

        def sum_by(keys: Int64Array, numbers: Float64Array, count: int) -> Any:
            parts = csr_array((numbers, (keys, by_game[entries])), (count, basis.shape[0]))
            return parts @ basis

        self.right = sum_by(game, weights * right.reshape(by_game.shape)[entries], len(first))
        keys = game * self.num_keys + entries[1]
        self.matrix = sum_by(keys, weights, len(first) * self.num_keys)

    def make(self, classes: Int64Array) -> dict[str, np.ndarray]:
        """Return the arrays of a sample of games of some classes."""
        game, role = np.divmod(np.arange(len(classes) * self.num_rows), self.num_rows)
        arrays = {
            name: array[classes].reshape(len(role), *array.shape[2:])
            for name, array in self.arrays.items()
        }
        return arrays | {"groups": game % self.size.games // self.size.group, "roles": role}

    def draw_tests(self, rng: np.random.Generator) -> Int64Array:
        """Return the classes of the games of random samples, int64[M, B]."""
        games = self.size.games
        return rng.integers(len(self.chances), size=(2 + NUM_TESTED // games, games))

    def ask(self, estimator: Estimator, classes: Int64Array) -> Float64Array:
        """Return the estimates for samples of games of some classes, float64[M, B, R * T].

        Args:
            estimator: the function.
            classes: int64[M, B].
        """
        answers = [estimator(self.make(sample)) for sample in classes]
        return np.reshape(answers, (*classes.shape, -1))

    def sum_up(self, classes: Int64Array, estimates: Float64Array) -> Float64Array:
        """Return the sums of estimates, float64[M, B, R * T], by decision, float64[S * A]."""
        keys = classes[..., None] * self.num_keys + np.arange(self.num_keys)
        sums = np.bincount(keys.ravel(), estimates.ravel(), self.matrix.shape[0])
        return np.asarray(sums @ self.matrix)

    def sample_sums(
        self, estimator: Estimator, count: int, rng: np.random.Generator
    ) -> Float64Array:
        """Return the sums of estimates by decision, then those of right ones, float64[2, S * A], of
        some random samples.
        """
        classes = rng.choice(len(self.chances), (count, self.size.games), p=self.chances)
        sums = self.sum_up(classes, self.ask(estimator, classes))
        return np.stack([sums, self.right[classes.ravel()].sum(axis=0)])

    def exact_sums(
        self, estimator: Estimator, rng: np.random.Generator
    ) -> tuple[Float64Array | None, bool]:
        """Return the expected sums of estimates for one game, float64[S * A]: from games alone if
        an estimator reads no others, or their number of tokens alone; or from all samples; None if
        these are too many, or equal ones have other estimates. And whether it reads no others.
        """
        count = len(self.chances)
        lengths = self.arrays.get("lengths", np.ones((count, 1), np.int64)).sum(axis=1)
        tests = self.draw_tests(rng)
        tested = tests, self.ask(estimator, tests)
        for chunk in self.chunks:
            every = np.resize(np.arange(count), (-(-count // chunk), chunk))
            samples = (every, self.ask(estimator, every)), tested
            for numbers in (np.ones_like(lengths), lengths):
                alone, again = (
                    answers * numbers[games].mean(axis=1)[:, None, None] / numbers[games][..., None]
                    for games, answers in samples
                )
                table = alone.reshape(-1, self.num_keys)[:count]
                if np.abs(again - table[tests]).max() <= EQUAL * np.abs(table).max():
                    shares = self.chances * self._expect_shares(numbers)
                    sums = (table * shares[:, None]).ravel() @ self.matrix
                    return sums, numbers is not lengths
        if count**self.size.games > MAX_BATCHES or not np.array_equal(
            self.ask(estimator, tests), tested[1]
        ):
            return None, False
        classes = np.array([*itertools.product(range(count), repeat=self.size.games)])
        shares = self.chances[classes].prod(axis=1) / self.size.games
        return self.sum_up(classes, shares[:, None, None] * self.ask(estimator, classes)), False

    def _expect_shares(self, lengths: Int64Array) -> Float64Array:
        """Return the expected ratio of a game's number of tokens to the mean in its sample,
        float64[C].
        """
        of_one = np.bincount(lengths, self.chances)
        of_others = reduce(np.convolve, itertools.repeat(of_one, self.size.games - 1), np.ones(1))
        totals = np.arange(len(of_one))[:, None] + np.arange(len(of_others))
        inverse = (of_others / np.maximum(1, totals)).sum(axis=1)
        return np.asarray(self.size.games * lengths * inverse[lengths])
