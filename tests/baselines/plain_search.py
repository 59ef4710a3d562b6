"""Monte Carlo tree search as in the papers, in plain Python on dictionaries, to compare with."""

import math

import numpy as np
import plain
from numpy.testing import assert_allclose, assert_array_equal

from ttt_envs.game import reference
from ttt_envs.game.rules import STREAM_OPPONENT, STREAM_SKIP


def softmax(logits):
    largest = max(logits.values())
    weights = {cell: math.exp(logit - largest) for cell, logit in logits.items()}
    total = sum(weights.values())
    return {cell: weight / total for cell, weight in weights.items()}


def uniform(key, edge, turn, stream, stones):
    """A random number of one of the turns after an edge."""
    return plain.uniform(plain.splitmix64(key, 2 * edge + turn), stream, stones)


class PlainTree:
    """The search by history ((cell, next mover), ...) from the root; values are computed from
    scratch at each use.

    Without an evaluator's priors, moves have priors 1 / sqrt(number of moves), and are tried in
    random order.
    """

    def __init__(self, game, position, evaluator, key=0, **settings):
        self.game = game
        self.evaluator = evaluator
        self.key = key
        self.settings = {
            "c": 1.4,
            "decisive": True,
            "noise": None,
            "max_num_considered_actions": 16,
            "maxvisit_init": 50.0,
            "value_scale": 0.1,
            **settings,
        }
        self.lines = [set(line) for line in plain.all_lines(game)]
        self.cells = {(): position.cells.tolist()}
        self.mover = {(): position.mover}
        self.visits = {}
        self.exact_values = {}
        self.edges = 1
        self.prior = {}
        self.raw_value = {}
        self.tried = {}
        self.look(())

    def wins_of(self, node, player):
        """The cells where a player would complete a line."""
        cells = self.cells[node]
        own = {cell for cell, stone in enumerate(cells) if stone == player + 1}
        return [
            c
            for c in self.legal(node)
            if any(c in line and line <= own | {c} for line in self.lines)
        ]

    def legal(self, node):
        return reference.legal_cells(self.game, set(np.flatnonzero(self.cells[node]).tolist()))

    def look(self, node):
        """A position is met: it is won or lost at once, or evaluated."""
        cells = self.cells[node]
        mover = self.mover[node]
        wins = []
        blocks = []
        if self.settings["decisive"]:
            wins = self.wins_of(node, mover)
            blocks = self.wins_of(node, 1 - mover) if self.game.skip_chance == 0 else []
        self.visits[node] = 1
        if node and wins:
            self.exact_values[node] = 1.0
        elif node and len(blocks) > 1:
            self.exact_values[node] = -1.0
        else:
            sensible = wins or blocks or self.legal(node)
            boards = plain.boards_of([(cells, mover)])
            if hasattr(self.evaluator, "evaluate"):
                logits, values = self.evaluator.evaluate(boards)
                self.prior[node] = softmax({cell: float(logits[0, cell]) for cell in sensible})
            else:
                values = self.evaluator.values(boards) if self.evaluator else [self.play_out(node)]
                self.prior[node] = dict.fromkeys(sensible, len(sensible) ** -0.5)
            self.raw_value[node] = float(values[0])
            self.tried[node] = []

    def play_out(self, node):
        """The mover's result of a game of random moves."""
        edge, turn = (
            (self.edges - 1, int(self.mover[node] == self.mover[node[:-1]])) if node else (0, 0)
        )
        cells = [*self.cells[node]]
        mover = self.mover[node]
        empty = [cell for cell, stone in enumerate(cells) if stone == 0]
        while empty:
            stones = self.game.cells - len(empty)
            chosen = int(uniform(self.key, edge, turn, STREAM_OPPONENT, stones) * len(empty))
            cell = empty[chosen]
            last = empty.pop()
            if chosen < len(empty):
                empty[chosen] = last
            cells[cell] = mover + 1
            own = {cell for cell, stone in enumerate(cells) if stone == mover + 1}
            if any(line <= own for line in self.lines):
                return 1.0 if mover == self.mover[node] else -1.0
            is_skipped = uniform(self.key, edge, turn, STREAM_SKIP, stones) < self.game.skip_chance
            mover = mover if is_skipped else 1 - mover
        return 0.0

    def turns(self, node, cell):
        """The positions after a move: the other player's turn, and, where it may be skipped, the
        mover's own.
        """
        mover = self.mover[node]
        either = (1 - mover, mover) if self.game.skip_chance else (1 - mover,)
        return [(*node, (cell, following)) for following in either]

    def times(self, node, cell):
        """Return the visits of a move: the first simulation evaluates both turns after it."""
        turns = self.turns(node, cell)
        return (
            sum(self.visits[turn] for turn in turns) - (len(turns) - 1)
            if cell in self.tried[node]
            else 0
        )

    def value(self, node):
        """Of a position, to its mover."""
        if node in self.exact_values:
            return self.exact_values[node]
        times = {cell: self.times(node, cell) for cell in self.tried[node]}
        total = self.raw_value[node] + sum(
            n * self.move_value(node, cell) for cell, n in times.items()
        )
        return total / (1 + sum(times.values()))

    def move_value(self, node, cell):
        """Of a move, to the mover: what is after it, as likely as chance has it."""
        skip = self.game.skip_chance
        mover = self.mover[node]
        values = [
            self.value(turn) * (1 if self.mover[turn] == mover else -1)
            for turn in self.turns(node, cell)
        ]
        return values[0] + skip * (values[1] - values[0]) if len(values) == 2 else values[0]

    def completed(self, node):
        """{cell: value}, of moves never made what is thought of the position and of its other
        moves.
        """
        tried = self.tried[node]
        prior = self.prior[node]
        value = self.raw_value[node]
        if tried:
            total = sum(self.times(node, cell) for cell in tried)
            mean = sum(prior[cell] * self.move_value(node, cell) for cell in tried) / sum(
                prior[cell] for cell in tried
            )
            value = (value + total * mean) / (1 + total)
        return {cell: self.move_value(node, cell) if cell in tried else value for cell in prior}

    def improved(self, node):
        values = self.completed(node)
        max_visits = max((self.times(node, cell) for cell in self.tried[node]), default=0)
        scale = (self.settings["maxvisit_init"] + max_visits) * self.settings["value_scale"]
        return {cell: math.log(p) + scale * values[cell] for cell, p in self.prior[node].items()}

    def choose(self, node, considered_visit):
        times = {cell: self.times(node, cell) for cell in self.prior[node]}
        total = sum(times.values())
        if self.settings["noise"] is None:
            values = self.completed(node)
            width = self.settings["c"] * math.sqrt(1 + total)
            scores = {
                cell: values[cell] + width * p / (1 + times[cell])
                for cell, p in self.prior[node].items()
            }
        elif node == ():
            scores = {c: s for c, s in self.noisy().items() if times[c] == considered_visit}
        else:
            policy = softmax(self.improved(node))
            scores = {cell: policy[cell] - times[cell] / (1 + total) for cell in policy}
        cell = max(sorted(scores), key=scores.get)
        if times[cell] == 0 and not hasattr(self.evaluator, "evaluate"):
            untried = sorted(cell for cell in times if times[cell] == 0)
            u = uniform(
                self.key,
                self.edges,
                0,
                STREAM_OPPONENT,
                self.game.cells - self.cells[node].count(0),
            )
            return untried[int(u * len(untried))]
        return cell

    def noisy(self):
        """The moves of the root that are considered, by noise and improved logits."""
        noise = self.settings["noise"]
        likely = {cell: noise[cell] + math.log(p) for cell, p in self.prior[()].items()}
        considered = sorted(likely, key=likely.get, reverse=True)[
            : self.settings["max_num_considered_actions"]
        ]
        return {c: noise[c] + score for c, score in self.improved(()).items() if c in considered}

    def simulate(self, considered_visit=0):
        node = ()
        path = []
        if node in self.exact_values:
            return
        while node not in self.exact_values:
            cell = self.choose(node, considered_visit)
            path.append((node, cell))
            turns = self.turns(node, cell)
            if cell not in self.tried[node]:
                self.make(node, cell, turns)
                break
            node = self.next_of(turns)
        else:
            self.visits[node] += 1
        for above, cell in reversed(path):
            self.visits[above] += 1
            if self.settings["decisive"] and all(
                turn in self.exact_values for turn in self.turns(above, cell)
            ):
                self.settle(above)

    def next_of(self, turns):
        """The turn that is behind its share of visits; not one that is known, if the other is
        not.
        """
        unknown = [turn for turn in turns if turn not in self.exact_values]
        if len(unknown) < 2:
            return unknown[0] if unknown else turns[0]
        skip = self.game.skip_chance
        other, own = unknown
        return own if skip * self.visits[other] > (1 - skip) * self.visits[own] else other

    def make(self, node, cell, turns):
        self.tried[node].append(cell)
        self.edges += 1
        mover = self.mover[node]
        won = cell in self.wins_of(node, self.mover[node])
        for turn in turns:
            self.cells[turn] = [*self.cells[node]]
            self.cells[turn][cell] = mover + 1
            self.mover[turn] = turn[-1][1]
            if won or 0 not in self.cells[turn]:
                self.visits[turn] = 1
                self.exact_values[turn] = float(won) * (1 if self.mover[turn] == mover else -1)
            else:
                self.look(turn)

    def solved(self, node):
        turns = {
            cell: self.turns(node, cell) for cell in self.tried[node] if self.settings["decisive"]
        }
        return [cell for cell in turns if all(turn in self.exact_values for turn in turns[cell])]

    def settle(self, node):
        values = {cell: self.move_value(node, cell) for cell in self.solved(node)}
        if max(values.values()) == 1 or len(values) == len(self.prior[node]):
            self.exact_values[node] = max(values.values())

    def branch(self, node):
        """The part of the search below a node, as a search of its own."""
        position = plain.boards_of([(self.cells[node], self.mover[node])]).position(0)
        branch = PlainTree(self.game, position, self.evaluator, **self.settings)
        for name in ("cells", "mover", "visits", "exact_values", "prior", "raw_value", "tried"):
            entries = {
                way[len(node) :]: x
                for way, x in getattr(self, name).items()
                if way[: len(node)] == node
            }
            setattr(
                branch,
                name,
                {way: [*x] if isinstance(x, list) else x for way, x in entries.items()},
            )
        return branch


def compare(search, row, other):
    """A tree has made the same moves as often as the dictionaries, with the same values."""
    times = {cell: other.times((), cell) for cell in other.tried[()]}
    assert {int(c): int(search.visits[row, c]) for c in np.flatnonzero(search.visits[row])} == times
    cells = sorted(times)
    assert_allclose(
        search.action_values[row, cells], [other.move_value((), cell) for cell in cells], atol=1e-6
    )
    assert_array_equal(np.flatnonzero(search.solved[row]), sorted(other.solved(())))
    assert_allclose(search.root_values[row], other.value(()), atol=1e-6)
