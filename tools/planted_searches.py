"""Searches with planted errors, and right ones, for the checks of ttt_eval.checks.

A small PUCT with the planted evaluator, UCT with rollouts, and Gumbel search, in plain Python.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Search = Callable[..., Any]

ERRORS = (
    "sign never flipped",
    "sign alternates with depth",
    "leaf taken for the other player",
    "fixed player's view",
    "root value of the other player",
    "negated at second turns only",
    "edge value of the next mover",
    "second turn never searched",
    "chance 1/2 for 1/4",
    "one outcome kept",
    "outcomes share a node",
    "finished positions evaluated",
    "wins as draws",
    "draws as losses",
    "draws as wins",
    "illegal moves searched",
    "selection by the child's side",
    "selection ignores values",
    "no exploration",
    "priors ignored",
    "priors of the parent",
    "ends not backed up",
    "only the parent updated",
    "discount 0.9 per ply",
    "tree of another position kept",
    "plays the least visited",
    "value off by one ply",
    "one diagonal missing",
    "sum for mean",
)
"""Errors of PUCT with an evaluator."""
ROLLOUT_ERRORS = tuple(
    error
    for error in ERRORS
    if error
    not in {
        "finished positions evaluated",
        "priors ignored",
        "priors of the parent",
        "value off by one ply",
        "illegal moves searched",
    }
)
"""Errors of UCT with rollouts."""


@dataclass
class PlantedNode:
    """A node of the tree."""

    board: tuple[int, ...]
    same: bool
    """whether its mover is the root's"""
    priors: dict[int, float] = field(default_factory=dict)
    children: dict[tuple[int, bool], PlantedNode] = field(default_factory=dict)
    outcomes: dict[int, bool] = field(default_factory=dict)
    """whether moves gave another turn at their first visit"""
    visits: dict[int, int] = field(default_factory=dict)
    sums: dict[int, float] = field(default_factory=dict)
    proved: dict[int, float] = field(default_factory=dict)
    """values of moves that are proved, for the node's mover"""

    def mean(self, action: int) -> float:
        """Return the mean value of a move, 0 without visits."""
        return self.sums[action] / max(1, self.visits[action])


@dataclass(frozen=True)
class PlantedTreeSearch:
    """A tree search with one planted error, or none.

    Attributes:
        rule: "puct", "uct" or "gumbel".
        c: exploration constant.
        solver: whether proved moves count with their value and the search ends when the root is
            solved; in games without chance.
        error: a name of :data:`ERRORS`, or "".
    """

    rule: str = "puct"
    c: float = 1.5
    solver: bool = False
    error: str = ""
    kept: dict[str, PlantedNode] = field(default_factory=dict, compare=False)

    def __call__(
        self, game: Any, board: tuple[int, ...], evaluator: Any, simulations: int, seed: int
    ) -> tuple[np.ndarray, float]:
        """Search as ``check_search`` asks for it."""
        if self.rule == "gumbel":
            run = _Run(self, game, evaluator, random.Random(seed))
            return run.search_gumbel(self.root(run, board), simulations)
        root = self.grow(game, board, evaluator, simulations, seed)
        visits = np.zeros(game.num_actions)
        for action, count in root.visits.items():
            visits[action] = count
        value = sum(root.sums.values()) / max(1, sum(root.visits.values()))
        if self.solver and root.proved:
            value = self._solved_value(root, visits, value)
        if self.error == "root value of the other player":
            value = -value
        if self.error == "plays the least visited":
            visits = np.where(visits > 0, visits.max() + 1 - visits, 0)
        return visits, value

    def root(self, run: _Run, board: tuple[int, ...]) -> PlantedNode:
        """Return the expanded root of a search."""
        root = PlantedNode(tuple(board), True)
        if self.error == "tree of another position kept":
            root = self.kept.setdefault("root", root)
        if not root.priors:
            run.expand(root, None)
        run.first_player = 1 if sum(map(abs, board)) % 2 == 0 else -1
        return root

    def grow(
        self, game: Any, board: tuple[int, ...], evaluator: Any, simulations: int, seed: int
    ) -> PlantedNode:
        """Return the root of the tree after some simulations of PUCT or UCT."""
        run = _Run(self, game, evaluator, random.Random(seed))
        root = self.root(run, board)
        for _ in range(simulations):
            run.simulate(root, None)
            if self.solver and len(root.proved) == len(root.visits):
                break
        return root

    @staticmethod
    def _solved_value(root: PlantedNode, visits: np.ndarray, value: float) -> float:
        """Give all visits to the best proved move if it is certain, none to lost moves; return
        the root's value.
        """
        best = max(root.proved, key=lambda action: root.proved[action])
        losing_moves = [action for action, value in root.proved.items() if value == -1]
        if root.proved[best] == 1 or len(root.proved) == len(root.visits):
            visits[:] = np.eye(len(visits))[best] * visits.sum()
            return root.proved[best]
        if len(losing_moves) < len(root.visits):
            visits[losing_moves] = 0
        return value


class _Run:
    """One search."""

    def __init__(self, settings: PlantedTreeSearch, game: Any, evaluator: Any, rng: random.Random):
        self.settings = settings
        self.error = settings.error
        self.game = game
        self.evaluator = evaluator
        self.rng = rng
        self.first_player = 1

    def actions(self, board: tuple[int, ...]) -> list[int]:
        if self.error == "illegal moves searched":
            return list(range(self.game.num_actions))
        return list(self.game.legal_actions(board))

    def step(
        self, board: tuple[int, ...], action: int, moves_again: bool
    ) -> tuple[tuple[int, ...], float, bool]:
        if self.error == "illegal moves searched" and board[action] != 0:
            return tuple(-cell for cell in board), 0.0, False
        next_board, reward, is_over = self.game.step(board, action, moves_again)
        if self.error == "one diagonal missing" and reward > 0:
            own = next_board if moves_again else tuple(-cell for cell in next_board)
            lines = [line.cells for line in self.game.game.lines if line.cells != (2, 4, 6)]
            if not any(all(own[cell] == 1 for cell in line) for line in lines):
                return next_board, 0.0, 0 not in own
        return next_board, reward, is_over

    def draw_turn(self, board: tuple[int, ...], action: int) -> bool:
        """Return whether the mover has another turn."""
        if self.error == "illegal moves searched" and board[action] != 0:
            return False
        chance = float(self.game.again[self.game.index(board), action])
        if self.error == "second turn never searched":
            return False
        if self.error == "chance 1/2 for 1/4" and 0 < chance < 1:
            chance = 0.5
        return chance == 1 or (chance > 0 and self.rng.random() < chance)

    def rollout(self, board: tuple[int, ...]) -> float:
        """Return the result of random play for the player to move."""
        sign = 1
        while True:
            action = self.rng.choice(self.actions(board))
            moves_again = self.draw_turn(board, action)
            board, reward, is_over = self.step(board, action, moves_again)
            if is_over:
                return sign * reward
            if not moves_again:
                sign = -sign

    def expand(self, node: PlantedNode, parent: PlantedNode | None) -> float:
        """Give a node its moves, and return its value for its mover."""
        num_actions = self.game.num_actions
        priors: Any = np.full(num_actions, 1 / num_actions)
        if self.evaluator is None:
            value = self.rollout(node.board)
        else:
            priors, value = self.evaluator(node.board)
            if self.error == "priors of the parent" and parent is not None:
                priors = self.evaluator(parent.board)[0]
            if self.error == "value off by one ply" and parent is not None:
                value = self.evaluator(parent.board)[1]
        if self.error == "priors ignored":
            priors = np.full(num_actions, 1 / num_actions)
        actions = self.actions(node.board)
        total = sum(priors[action] for action in actions) or 1.0
        node.priors = {action: priors[action] / total for action in actions}
        node.visits = dict.fromkeys(actions, 0)
        node.sums = dict.fromkeys(actions, 0.0)
        return value

    def score(self, node: PlantedNode, action: int, total: int) -> tuple[float, float]:
        """Return the priority of a move, and a random number for ties."""
        settings = self.settings
        count = node.visits[action]
        value = node.sums[action] if self.error == "sum for mean" else node.mean(action)
        if settings.solver and action in node.proved:
            value = node.proved[action]
        if self.error == "selection by the child's side":
            value = -value
        if self.error == "selection ignores values":
            value = 0.0
        if self.error == "no exploration":
            return value, node.priors[action]
        if settings.rule == "uct":
            if not count:
                return 1e9, self.rng.random()
            return value + settings.c * math.sqrt(math.log(total + 1) / count), self.rng.random()
        bonus = settings.c * node.priors[action] * math.sqrt(total + 1)
        if self.error != "bonus without decay":
            bonus /= 1 + count
        return value + bonus, self.rng.random()

    def select(self, node: PlantedNode) -> int:
        candidates = list(node.priors)
        if self.settings.solver:
            open_moves = [action for action in candidates if node.proved.get(action, 0) != -1]
            candidates = open_moves or candidates
        total = sum(node.visits.values())
        return max(candidates, key=lambda action: self.score(node, action, total))

    def simulate(self, root: PlantedNode, first: int | None) -> None:
        """Walk to a leaf, evaluate it, and back up its value."""
        node = root
        path: list[tuple[PlantedNode, int]] = []
        while True:
            action = first if first is not None and not path else self.select(node)
            path.append((node, action))
            moves_again = self.draw_turn(node.board, action)
            if self.error == "one outcome kept":
                moves_again = node.outcomes.setdefault(action, moves_again)
            next_board, reward, is_over = self.step(node.board, action, moves_again)
            next_same = node.same if moves_again else not node.same
            if is_over:
                value, owner = self.end_value(node, next_board, reward, next_same)
                break
            place = action, moves_again and self.error != "outcomes share a node"
            child = node.children.get(place)
            if child is None:
                child = node.children[place] = PlantedNode(next_board, next_same)
                value = self.expand(child, node)
                owner = child.same
                if self.error == "leaf taken for the other player":
                    owner = not owner
                break
            child.same = next_same
            node = child
        if is_over and self.error == "ends not backed up":
            return
        self.back_up(path, value, owner, is_over)
        if self.settings.solver:
            self.prove(path, is_over, reward)

    def end_value(
        self, node: PlantedNode, next_board: tuple[int, ...], reward: float, next_same: bool
    ) -> tuple[float, bool]:
        """Return the value of a finished game, and whether it is that of the root's mover."""
        if self.error == "finished positions evaluated":
            return (self.evaluator(next_board)[1] if self.evaluator else 0.0), next_same
        if self.error == "wins as draws":
            return 0.0, node.same
        if reward == 0 and self.error == "draws as losses":
            return -1.0, node.same
        if reward == 0 and self.error == "draws as wins":
            return 1.0, node.same
        return reward, node.same

    def back_up(
        self, path: list[tuple[PlantedNode, int]], value: float, owner: bool, is_over: bool
    ) -> None:
        next_same = owner != is_over  # after an end the other player would be to move
        for depth, (node, action) in enumerate(reversed(path)):
            backed_up = value if node.same == owner else -value
            if self.error == "sign never flipped":
                backed_up = value
            if self.error == "sign alternates with depth":
                backed_up = value * (-1) ** (depth + (0 if is_over else 1))
            if self.error == "fixed player's view":
                backed_up = value if owner == (self.first_player == 1) else -value
            if self.error == "edge value of the next mover":
                backed_up = value if next_same == owner else -value
            if self.error == "negated at second turns only":
                value = -value if node.same == next_same else value
                backed_up = value
            next_same = node.same
            if self.error == "discount 0.9 per ply":
                backed_up *= 0.9 ** (depth + 1)
            node.visits[action] += 1
            node.sums[action] += backed_up
            if self.error == "only the parent updated":
                break

    def prove(self, path: list[tuple[PlantedNode, int]], is_over: bool, reward: float) -> None:
        """Keep the values of moves that are proved, from the leaf to the root."""
        for depth, (node, action) in enumerate(reversed(path)):
            if depth == 0:
                if not is_over:
                    return
                node.proved[action] = reward
                continue
            moves_again = float(self.game.again[self.game.index(node.board), action])
            if 0 < moves_again < 1:
                return
            child = node.children[action, moves_again == 1]
            values = child.proved.values()
            if not values or (max(values) < 1 and len(values) < len(child.visits)):
                return
            node.proved[action] = max(values) if child.same == node.same else -max(values)

    def search_gumbel(self, root: PlantedNode, simulations: int) -> tuple[np.ndarray, float]:
        """Sequential halving of the root's moves by prior and value, without noise."""
        scores = {action: math.log(max(prior, 1e-9)) for action, prior in root.priors.items()}
        candidates = sorted(scores, key=lambda action: -scores[action])
        num_rounds = max(1, math.ceil(math.log2(max(2, len(candidates)))))
        num_simulations = 0
        while True:
            share = max(1, simulations // (num_rounds * len(candidates)))
            for _ in range(share):
                for action in candidates:
                    if num_simulations < simulations:
                        self.simulate(root, action)
                        num_simulations += 1
            scale = 0.1 * (50 + max(root.visits.values()))
            candidates.sort(key=lambda action: -(scores[action] + scale * root.mean(action)))
            if len(candidates) == 1 or num_simulations >= simulations:
                break
            candidates = candidates[: max(1, (len(candidates) + 1) // 2)]
        best = candidates[0]
        while num_simulations < simulations:
            self.simulate(root, best)
            num_simulations += 1
        visits = np.zeros(self.game.num_actions)
        visits[best] = 1
        return visits, root.mean(best)
