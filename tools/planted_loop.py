"""A small AlphaZero loop with planted errors, whose search, values and policy are checked apart.

Self-play by PUCT and a network in NumPy learn tic-tac-toe in which a stone on an edge cell gives
another turn. One error can be planted; :func:`check_loop` makes the three calls that look for it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from planted_searches import PlantedTreeSearch

from ttt_envs.game.symmetry import symmetries
from ttt_eval.checks import Check, check_agent, check_search, check_values
from ttt_eval.checks.tables import PlantedEvaluator, make_table

SEARCH_ERRORS = (
    "sign never flipped",
    "finished positions evaluated",
    "priors ignored",
    "bonus without decay",
)
LOOP_ERRORS = (
    "results of the first player",
    "results inverted",
    "draws recorded as losses",
    *SEARCH_ERRORS,
    "boards of the first player",
    "images of boards, not of policies",
    "no exploration in self-play",
    "value head untrained",
    "boards of the other player",
    "policy of the best mean value",
)
NUM_ITERATIONS = 6
NUM_GAMES = 100
"""Number of games of an iteration."""
NUM_SIMULATIONS = 50
NUM_STEPS = 400
"""Number of steps of training in an iteration."""
BATCH_SIZE = 128
NUM_HIDDEN = 160
STEP_SIZE = 3e-3
NOISE_SHARE = 0.25
"""Share of noise in the priors of a root."""


class LoopNetwork:
    """A network with one hidden layer, a policy head and a value head, trained by Adam."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.weights = [
            rng.normal(0, 0.3, (18, NUM_HIDDEN)),
            np.zeros(NUM_HIDDEN),
            rng.normal(0, 0.05, (NUM_HIDDEN, 10)),
            np.zeros(10),
        ]
        self.means = [np.zeros_like(weight) for weight in self.weights]
        self.squares = [np.zeros_like(weight) for weight in self.weights]
        self.num_steps = 0

    def run(self, boards: Any) -> tuple[Any, Any, Any, Any]:
        """Return the inputs, float64[B, 18], the hidden layer, priors, float64[B, 9], and values,
        float64[B], of boards, int8[B, 9].
        """
        inputs = np.concatenate([boards == 1, boards == -1], axis=1).astype(float)
        hidden = np.maximum(0, inputs @ self.weights[0] + self.weights[1])
        outputs = hidden @ self.weights[2] + self.weights[3]
        scores = np.exp(outputs[:, :9] - outputs[:, :9].max(axis=1, keepdims=True))
        return inputs, hidden, scores / scores.sum(axis=1, keepdims=True), np.tanh(outputs[:, 9])

    def train(self, boards: Any, policies: Any, results: Any, value_weight: float) -> None:
        """Make one step towards the policies and results of a batch."""
        inputs, hidden, priors, values = self.run(boards)
        value_slopes = value_weight * 2 * (values - results) * (1 - values**2)
        slopes = np.column_stack([priors - policies, value_slopes]) / len(boards)
        hidden_slopes = (slopes @ self.weights[2].T) * (hidden > 0)
        gradients = [
            inputs.T @ hidden_slopes, hidden_slopes.sum(axis=0), hidden.T @ slopes,
            slopes.sum(axis=0),
        ]  # fmt: skip
        self.num_steps += 1
        for weight, mean, square, gradient in zip(
            self.weights, self.means, self.squares, gradients, strict=True
        ):
            mean += 0.1 * (gradient - mean)
            square += 0.001 * (gradient**2 - square)
            size = np.sqrt(square / (1 - 0.999**self.num_steps)) + 1e-8
            weight -= STEP_SIZE * mean / (1 - 0.9**self.num_steps) / size


class LoopExample(NamedTuple):
    """What a move of self-play teaches."""

    board: Any
    """int8[9], as the network sees it"""
    policy: Any
    """float64[9]"""
    player: int
    """1 for the player who moved first, or -1"""


class PlantedLoop:
    """An AlphaZero loop with one planted error, or none.

    Args:
        error: a name of :data:`LOOP_ERRORS`, or "".
        seed: of all random numbers.
    """

    def __init__(self, error: str = "", seed: int = 0) -> None:
        self.error = error
        self.table = make_table("turns")
        self.rng = np.random.default_rng(seed)
        self.network = LoopNetwork(self.rng)
        self.search = PlantedTreeSearch(error=error if error in SEARCH_ERRORS else "")
        self.explores = error != "no exploration in self-play"
        self.evaluator = self.evaluate()

    def evaluate(self) -> PlantedEvaluator:
        """Return what the network says in all positions."""
        _, _, priors, values = self.network.run(self.table.boards)
        return PlantedEvaluator(self.table, values, priors)

    def policy_head(self, board: tuple[int, ...]) -> Any:
        """Return the network's probabilities of moves, float64[9]."""
        return self.evaluator(board)[0]

    def value_head(self, board: tuple[int, ...]) -> float:
        """Return the network's value."""
        return self.evaluator(board)[1]

    def train(self) -> PlantedLoop:
        """Play and learn, and return the loop."""
        examples: list[LoopExample] = []
        results: list[float] = []
        for _ in range(NUM_ITERATIONS):
            for _ in range(NUM_GAMES):
                game, result = self.play()
                examples += game
                results += [self.target(result, example.player) for example in game]
            self.learn(examples, np.array(results))
            self.evaluator = self.evaluate()
        return self

    def play(self) -> tuple[list[LoopExample], float]:
        """Play a game, and return its examples, and its result for the first player."""
        table = self.table
        row = self.choose_start()
        player = int(self.rng.choice([1, -1])) if self.explores else 1
        examples = []
        while True:
            policy, action = self.choose_move(row)
            examples.append(LoopExample(self.see(table.boards[row], player), policy, player))
            again = int(table.again[row, action])
            if table.over[row, action]:
                return examples, table.reward[row, action] * player
            row = int(table.next[row, action, again])
            player *= 2 * again - 1

    def choose_start(self) -> int:
        """Return the row of a random position, of any number of stones alike; without
        exploration, of the empty board.
        """
        num_free = self.rng.integers(1, 10) if self.explores else 9
        starts = np.flatnonzero(~self.table.ended & (self.table.num_free == num_free))
        return int(self.rng.choice(starts))

    def choose_move(self, row: int) -> tuple[Any, int]:
        """Return the policy that a search teaches, float64[9], and the move that is played."""
        board = self.table.board(row)
        noise = self.rng.dirichlet(np.full(9, 0.5))

        def evaluate(leaf: tuple[int, ...]) -> tuple[Any, float]:
            priors, value = self.evaluator(leaf)
            if leaf == board and self.explores:
                priors = (1 - NOISE_SHARE) * priors + NOISE_SHARE * noise
            return priors, value

        seed = int(self.rng.integers(2**31))
        root = self.search.grow(self.table, board, evaluate, NUM_SIMULATIONS, seed)
        shares = np.zeros(9)
        for action, count in root.visits.items():
            shares[action] = count / NUM_SIMULATIONS
        policy = shares
        if self.error == "policy of the best mean value":
            policy = np.eye(9)[max(root.visits, key=root.mean)]
        action = self.rng.choice(9, p=shares) if self.explores else shares.argmax()
        return policy, int(action)

    def see(self, board: Any, player: int) -> Any:
        """Return the board that the network is taught."""
        if self.error == "boards of the first player":
            return board * player
        return -board if self.error == "boards of the other player" else board

    def target(self, result: float, player: int) -> float:
        """Return the value that is taught for a player, from the first player's result."""
        if self.error == "draws recorded as losses" and result == 0:
            return -1.0
        if self.error == "results of the first player":
            return result
        return -result * player if self.error == "results inverted" else result * player

    def learn(self, examples: list[LoopExample], results: Any) -> None:
        """Train the network with random symmetric images of the examples."""
        boards = np.array([example.board for example in examples])
        policies = np.array([example.policy for example in examples])
        images = symmetries(self.table.game)
        value_weight = float(self.error != "value head untrained")
        for _ in range(NUM_STEPS):
            batch = self.rng.integers(len(examples), size=BATCH_SIZE)
            image = self.rng.choice(images)
            targets = policies[batch]
            if self.error != "images of boards, not of policies":
                targets = targets[:, image]
            self.network.train(boards[batch][:, image], targets, results[batch], value_weight)


def check_loop(loop: PlantedLoop, seed: int = 0) -> dict[str, Check]:
    """Return the checks of the search, the value head and the policy head of a trained loop. A
    wrong search spoils both heads, and a wrong value head the policy: the first that fails counts.
    """
    return {
        "search": check_search(loop.search, "turns", seed=seed),
        "values": check_values(loop.value_head, "turns", seed=seed),
        "policy": check_agent(loop.policy_head, "turns", seed=seed),
    }
