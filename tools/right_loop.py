"""A small AlphaZero loop, whose search, values and policy are checked apart.

Self-play by PUCT and a network in NumPy learn tic-tac-toe in which a stone on an edge cell gives
another turn. ``planted_errors.toml`` replaces texts of this file; :func:`check_loop` makes the
three calls that look for an error.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from right_search import PlainSearch

from ttt_envs.game.symmetry import symmetries
from ttt_eval.checks import Check, check_agent, check_search, check_values
from ttt_eval.checks.tables import PlantedEvaluator, make_table

NUM_ITERATIONS = 6
NUM_GAMES = 100
"""Number of games of an iteration."""
NUM_SIMULATIONS = 50
NUM_STEPS = 400
"""Number of steps of training in an iteration."""
BATCH_SIZE = 128
NUM_HIDDEN = 160
STEP_SIZE = 3e-3


class LoopNetwork:
    """A network with one hidden layer, a policy head and a value head, trained by Adam."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.weights = [
            rng.normal(0, 0.3, (19, NUM_HIDDEN)),
            rng.normal(0, 0.05, (NUM_HIDDEN, 10)),
        ]
        self.means = [0.0, 0.0]
        self.squares = [0.0, 0.0]

    def run(self, boards: Any) -> tuple[Any, Any, Any, Any]:
        """Return the inputs, float64[B, 19], the hidden layer, priors, float64[B, 9], and values,
        float64[B], of boards, int8[B, 9].
        """
        inputs = np.column_stack([boards == 1, boards == -1, np.ones(len(boards))])
        hidden = np.maximum(0, inputs @ self.weights[0])
        outputs = hidden @ self.weights[1]
        scores = np.exp(outputs[:, :9])
        return inputs, hidden, scores / scores.sum(axis=1, keepdims=True), np.tanh(outputs[:, 9])

    def train(self, boards: Any, policies: Any, results: Any) -> None:
        """Make one step towards the policies and results of a batch."""
        inputs, hidden, priors, values = self.run(boards)
        value_slopes = (values - results) * (1 - values**2)
        slopes = np.column_stack([priors - policies, value_slopes]) / len(boards)
        hidden_slopes = slopes @ self.weights[1].T * (hidden > 0)
        for layer, gradient in enumerate((inputs.T @ hidden_slopes, hidden.T @ slopes)):
            self.means[layer] += 0.1 * (gradient - self.means[layer])
            self.squares[layer] += 0.01 * (gradient**2 - self.squares[layer])
            self.weights[layer] -= (
                STEP_SIZE * self.means[layer] / (self.squares[layer] ** 0.5 + 1e-8)
            )


class Loop:
    """An AlphaZero loop.

    Args:
        search: of its moves.
        seed: of all random numbers.
    """

    def __init__(self, search: PlainSearch, seed: int = 0) -> None:
        self.search = search
        self.table = make_table("turns")
        self.rng = np.random.default_rng(seed)
        self.network = LoopNetwork(self.rng)
        self.examples: list[tuple[Any, Any, float]] = []

    def train(self) -> Loop:
        """Play and learn, and return the loop."""
        for _ in range(NUM_ITERATIONS):
            _, _, priors, values = self.network.run(self.table.boards)
            self.evaluator = PlantedEvaluator(self.table, values, priors)
            for _ in range(NUM_GAMES):
                self.play()
            self.learn()
        return self

    def policy_head(self, board: tuple[int, ...]) -> Any:
        """Return the network's probabilities of moves, float64[9]."""
        return self.network.run(np.array([board]))[2][0]

    def value_head(self, board: tuple[int, ...]) -> float:
        """Return the network's value."""
        return float(self.network.run(np.array([board]))[3][0])

    def play(self) -> None:
        """Play a game from a random position, and keep what its moves teach."""
        table = self.table
        num_free = self.rng.integers(1, 10)
        starts = np.flatnonzero(~table.ended & (table.num_free == num_free))
        row = int(self.rng.choice(starts))
        player = int(self.rng.choice([1, -1]))  # 1 for the first player
        moves = []
        result = None
        while result is None:
            policy, action = self.choose_move(row)
            moves.append((row, policy, player))
            if table.over[row, action]:
                result = table.reward[row, action] * player
            moves_again = int(table.again[row, action])
            row = int(table.next[row, action, moves_again])
            player *= 2 * moves_again - 1
        for row, policy, player in moves:
            self.examples.append((table.boards[row], policy, result * player))

    def choose_move(self, row: int) -> tuple[Any, int]:
        """Return the policy that a search teaches, float64[9], and the move that is played."""
        seed = int(self.rng.integers(2**31))
        board = self.table.board(row)
        root = self.search.grow(self.table, board, self.evaluator, NUM_SIMULATIONS, seed)
        shares = root.list_visits(9) / NUM_SIMULATIONS
        action = self.rng.choice(9, p=shares)
        return shares, int(action)

    def learn(self) -> None:
        """Train the network with random symmetric images of the examples."""
        boards, policies, results = map(np.array, zip(*self.examples, strict=True))
        images = symmetries(self.table.game)
        for _ in range(NUM_STEPS):
            batch = self.rng.integers(len(boards), size=BATCH_SIZE)
            image = self.rng.choice(images)
            targets = policies[batch][:, image]
            self.network.train(boards[batch][:, image], targets, results[batch])


def check_loop(loop: Loop, seed: int = 0) -> dict[str, Check]:
    """Return the checks of the search, the value head and the policy head of a trained loop. A
    wrong search spoils both heads, and a wrong value head the policy: the first that fails counts.
    """
    return {
        "search": check_search(loop.search, "turns", seed=seed),
        "values": check_values(loop.value_head, "turns", seed=seed),
        "policy": check_agent(loop.policy_head, "turns", seed=seed),
    }
