"""Phantom games in plain Python, with the lines of the reference, and exact results by walks over
all histories.
"""

from typing import NamedTuple

import numpy as np
import plain
from players import Drawn

from ttt_envs.game import reference

VARIANTS = ("classic", "abrupt")


class State(NamedTuple):
    """Cells 0, 1, 2; for each player the cells on which it has found a stone; the mover; None or
    the result.
    """

    cells: tuple
    hits: tuple = (frozenset(), frozenset())
    mover: int = 0
    winner: object = None

    def view(self, player):
        """The cells as a player knows them."""
        return tuple(
            stone if stone == player + 1 or cell in self.hits[player] else 0
            for cell, stone in enumerate(self.cells)
        )

    def legal(self):
        return [cell for cell, stone in enumerate(self.view(self.mover)) if stone == 0]


def start(game):
    return State((0,) * game.cells)


def branches(game, state, cell):
    """[(probability, next state, observation of the mover: "failed", "placed" or "again")] of an
    attempt.
    """
    assert cell in state.legal()
    mover = state.mover
    other = 1 - state.mover
    skip = game.skip_chance
    if state.cells[cell]:
        results = list(state.hits)
        results[mover] = results[mover] | {cell}
        mover = mover if game.kind == "classic" else other
        return [(1.0, state._replace(hits=tuple(results), mover=mover), "failed")]
    cells = (*state.cells[:cell], mover + 1, *state.cells[cell + 1 :])
    placed = state._replace(cells=cells)
    if reference.has_line(
        game.game, {cell for cell, stone in enumerate(cells) if stone == mover + 1}
    ):
        return [(1.0, placed._replace(winner=other if game.game.misere else mover), "placed")]
    if 0 not in cells:
        return [(1.0, placed._replace(winner=2), "placed")]
    again = [(skip, placed, "again")] if skip else []
    return [(1 - skip, placed._replace(mover=other), "placed"), *again]


class ViewPolicy(Drawn):
    """Random probabilities of a view; some attempts have probability 0."""

    def __init__(self, game, seed):
        super().__init__(game, seed, never=0.2)
        self.cache = {}

    def of(self, state):
        """The mover's probabilities in a plain state."""
        view = (state.mover, state.view(state.mover))
        if view not in self.cache:
            self.cache[view] = self._of(state)
        return self.cache[view]

    def _of(self, state):
        boards = plain.boards_of([(state.view(state.mover), state.mover)])
        return self.probabilities(boards)[0].tolist()


def play_out(game, state, policies):
    """Probabilities of wins of player_0, draws and wins of player_1, over all histories."""
    if state.winner is not None:
        return np.eye(3)[{0: 0, 2: 1, 1: 2}[state.winner]]
    shares = policies[state.mover].of(state)
    total = np.zeros(3)
    for cell in state.legal():
        if shares[cell]:
            for probability, next_state, _ in branches(game, state, cell):
                total += shares[cell] * probability * play_out(game, next_state, policies)
    return total


def best_response(game, state, responder, policy, tolerance=1e-12):
    """(value of a best response, smallest, largest probability of its win over all of them), over
    all histories.
    """
    wins, draws, _ = range(3)

    def best(histories):
        """The value, and the smallest and largest win chance of the attempts that have it."""
        options = []
        for cell in histories[0][1].legal():
            ended = np.zeros(3)
            observations = {}
            for weight, before in histories:
                for probability, next_state, observation in branches(game, before, cell):
                    follow(
                        weight * probability,
                        next_state,
                        ended,
                        observations.setdefault(observation, []),
                    )
            later = [best(group) for group in observations.values() if group]
            value = ended[wins] - ended[2] + sum(result[0] for result in later)
            options.append(
                (value, *(ended[wins] + sum(result[i] for result in later) for i in (1, 2)))
            )
        top = max(value for value, _, _ in options) - tolerance
        return (
            max(value for value, _, _ in options),
            min(least for value, least, _ in options if value >= top),
            max(greatest for value, _, greatest in options if value >= top),
        )

    def follow(weight, reached, ended, histories):
        """Add the results of games that end before the responder moves, and the histories in which
        it moves.
        """
        if reached.winner is not None:
            by_winner = {2: draws, responder: wins}
            ended[by_winner.get(reached.winner, 2)] += weight
        elif reached.mover == responder:
            histories.append((weight, reached))
        else:
            shares = policy.of(reached)
            for cell in reached.legal():
                if shares[cell]:
                    for probability, next_state, _ in branches(game, reached, cell):
                        follow(weight * shares[cell] * probability, next_state, ended, histories)

    ended = np.zeros(3)
    histories = []
    follow(1.0, state, ended, histories)
    value, least, greatest = best(histories) if histories else (0.0, 0.0, 0.0)
    return ended[wins] - ended[2] + value, ended[wins] + least, ended[wins] + greatest
