"""A small PUCT with the planted evaluator, UCT with rollouts, and Gumbel search, in plain Python.

``planted_errors.toml`` replaces texts of this file, for the checks of ttt_eval.checks.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

RETURNED = ("root", "move", "none")
"""Values that a search can return: of the root, of the chosen move, or none."""


@dataclass
class PlainNode:
    """A node of the tree."""

    board: tuple[int, ...]
    same: bool
    """whether its mover is the root's"""
    priors: dict[int, float] = field(default_factory=dict)
    children: dict[tuple[int, bool], PlainNode] = field(default_factory=dict)
    """by move and whether it gave another turn"""
    visits: dict[int, int] = field(default_factory=dict)
    sums: dict[int, float] = field(default_factory=dict)
    proved: dict[int, float] = field(default_factory=dict)
    """values of moves that are proved, for the node's mover"""

    def list_visits(self, num_actions: int) -> np.ndarray:
        """Return the visits of all moves, float64[num_actions], 0 of illegal ones."""
        visits = np.zeros(num_actions)
        visits[list(self.visits)] = list(self.visits.values())
        return visits

    def mean(self, action: int) -> float:
        """Return the mean value of a move, 0 without visits."""
        return self.sums[action] / max(1, self.visits[action])


@dataclass(frozen=True)
class PlainSearch:
    """A tree search.

    Attributes:
        rule: "puct", "uct" or "gumbel".
        c: exploration constant.
        solver: whether proved moves count with their value and the search ends when the root is
            solved; in games without chance.
        returned: whose value PUCT and UCT return, see :data:`RETURNED`.
    """

    rule: str = "puct"
    c: float = 1.5
    solver: bool = False
    returned: str = "root"

    def __call__(
        self, game: Any, board: tuple[int, ...], evaluator: Any, simulations: int, seed: int
    ) -> tuple[np.ndarray, float | None]:
        """Search as ``check_search`` asks for it."""
        if self.rule == "gumbel":
            run = _Run(self, game, evaluator, random.Random(seed))
            return run.search_gumbel(self.root(run, board), simulations)
        root = self.grow(game, board, evaluator, simulations, seed)
        visits = root.list_visits(game.num_actions)
        value = sum(root.sums.values()) / max(1, sum(root.visits.values()))
        if self.returned == "move":
            value = root.mean(int(visits.argmax()))
        if self.solver and root.proved:
            value = self._solved_value(root, visits, value)
        if self.returned == "none":
            return visits, None
        return visits, value

    def root(self, run: _Run, board: tuple[int, ...]) -> PlainNode:
        """Return the expanded root of a search."""
        root = PlainNode(tuple(board), True)
        run.expand(root)
        return root

    def grow(
        self, game: Any, board: tuple[int, ...], evaluator: Any, simulations: int, seed: int
    ) -> PlainNode:
        """Return the root of the tree after some simulations of PUCT or UCT."""
        run = _Run(self, game, evaluator, random.Random(seed))
        root = self.root(run, board)
        for _ in range(simulations):
            run.simulate(root, None)
            if self.solver and len(root.proved) == len(root.visits):
                break
        return root

    @staticmethod
    def _solved_value(root: PlainNode, visits: np.ndarray, value: float) -> float:
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


@dataclass
class _Run:
    """One search."""

    settings: PlainSearch
    game: Any
    evaluator: Any
    rng: random.Random

    def actions(self, board: tuple[int, ...]) -> list[int]:
        return list(self.game.legal_actions(board))

    def step(
        self, board: tuple[int, ...], action: int, moves_again: bool
    ) -> tuple[tuple[int, ...], float, bool]:
        next_board, reward, is_over = self.game.step(board, action, moves_again)
        return next_board, reward, is_over

    def draw_turn(self, board: tuple[int, ...], action: int) -> bool:
        """Return whether the mover has another turn."""
        chance = float(self.game.again[self.game.index(board), action])
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

    def expand(self, node: PlainNode) -> float:
        """Give a node its moves, and return its value for its mover."""
        num_actions = self.game.num_actions
        priors: Any = np.full(num_actions, 1 / num_actions)
        if self.evaluator is None:
            value = self.rollout(node.board)
        else:
            priors, value = self.evaluator(node.board)
        actions = self.actions(node.board)
        total = sum(priors[action] for action in actions) or 1.0
        node.priors = {action: priors[action] / total for action in actions}
        node.visits = dict.fromkeys(actions, 0)
        node.sums = dict.fromkeys(actions, 0.0)
        return value

    def score(self, node: PlainNode, action: int, total: int) -> tuple[float, float]:
        """Return the priority of a move, and a random number for ties."""
        settings = self.settings
        count = node.visits[action]
        value = node.mean(action)
        if settings.solver and action in node.proved:
            value = node.proved[action]
        if settings.rule == "uct":
            if not count:
                return 1e9, self.rng.random()
            return value + settings.c * math.sqrt(math.log(total + 1) / count), self.rng.random()
        bonus = settings.c * node.priors[action] * math.sqrt(total + 1) / (1 + count)
        return value + bonus, self.rng.random()

    def select(self, node: PlainNode) -> int:
        candidates = list(node.priors)
        if self.settings.solver:
            open_moves = [action for action in candidates if node.proved.get(action, 0) != -1]
            candidates = open_moves or candidates
        total = sum(node.visits.values())
        return max(candidates, key=lambda action: self.score(node, action, total))

    def simulate(self, root: PlainNode, first: int | None) -> None:
        """Walk to a leaf, evaluate it, and back up its value."""
        node = root
        path: list[tuple[PlainNode, int]] = []
        while True:
            action = first if first is not None and not path else self.select(node)
            path.append((node, action))
            moves_again = self.draw_turn(node.board, action)
            next_board, reward, is_over = self.step(node.board, action, moves_again)
            next_same = node.same if moves_again else not node.same
            if is_over:
                value = reward
                owner = node.same  # whether the value is that of the root's mover
                break
            place = (action, moves_again)
            if place not in node.children:
                leaf = node.children[place] = PlainNode(next_board, next_same)
                value = self.expand(leaf)
                owner = leaf.same
                break
            node = node.children[place]
            node.same = next_same
        for parent, action in reversed(path):
            parent.visits[action] += 1
            parent.sums[action] += value if parent.same == owner else -value
        if self.settings.solver and is_over:
            self.prove(path, reward)

    def prove(self, path: list[tuple[PlainNode, int]], reward: float) -> None:
        """Keep the values of moves that are proved, from the end of a game to the root."""
        node, action = path[-1]
        node.proved[action] = reward
        for (child, _), (node, action) in pairwise(reversed(path)):
            if 0 < self.game.again[self.game.index(node.board), action] < 1:
                return
            best = max(child.proved.values())
            if best < 1 and len(child.proved) < len(child.visits):
                return
            node.proved[action] = best if child.same == node.same else -best

    def search_gumbel(self, root: PlainNode, simulations: int) -> tuple[np.ndarray, float]:
        """Sequential halving of the root's moves by prior and value, without noise."""
        scores = {action: math.log(max(prior, 1e-9)) for action, prior in root.priors.items()}
        candidates = sorted(scores, key=lambda action: -scores[action])
        num_rounds = max(1, math.ceil(math.log2(max(2, len(candidates)))))
        num_simulations = 0
        while num_simulations < simulations:
            share = max(1, simulations // (num_rounds * len(candidates)))
            for action in (candidates * share)[: simulations - num_simulations]:
                self.simulate(root, action)
                num_simulations += 1
            scale = 0.1 * (50 + max(root.visits.values()))
            candidates.sort(key=lambda action: -(scores[action] + scale * root.mean(action)))
            candidates = candidates[: (len(candidates) + 1) // 2]
        best = candidates[0]
        return np.eye(self.game.num_actions)[best], root.mean(best)
