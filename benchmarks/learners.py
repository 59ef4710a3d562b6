"""How fast learners learn, each beside a peer that does the same.

Ours and the peer take turns in one process on one core, for several rounds, and the ratio is taken within each round.
A rate is finished games per second of CPU time, exploration and learning included; imports, compiling and the first
games stay outside the clock. Every learner starts anew in every round, so that tables grow from nothing.

    python benchmarks/learners.py [--quick] [--rounds N] [--only NAME,...] [--json FILE]
"""

from __future__ import annotations

import dataclasses
import json
import os
import random
from collections.abc import Callable
from dataclasses import dataclass
from time import process_time
from typing import Any, NamedTuple

from measuring import Arguments, SkipRow, Spread, cpu, not_installed, versions

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tyro
from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

from learners import LEARNERS
from learners.training import initial_rng, train
from ttt_apps.train import BATCH
from ttt_envs.policy import load_object
from ttt_envs.rules import Game

PACKAGES = ("numpy", "numba", "tensorflow", "open_spiel")
BOARDS = ((3, 3), (4, 4), (5, 4), (7, 5))
"""edges and win lengths of the table of boards"""
OF_BOARDS = "boards"

Play = Callable[[int], None]
"""plays and learns so many games, from the start"""


def our_learner(name: str, opponent: str, game: Game | None = None, **settings: Any) -> Play:
    """At the batch that ``train.py`` plays by default."""
    config = load_object(LEARNERS[name])(**settings)

    def play(games: int) -> None:
        learner = config.build(game or Game(), initial_rng(0))
        train(learner, opponent, games, batch=getattr(config, "batch", BATCH), seed=0)

    return play


LINES = ((0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6))


def dictionary_learner() -> Play:
    """Tabular Q-learning against random moves as tutorials write it: a dictionary, a string for a board, no API."""

    def play(games: int) -> None:
        values: dict[str, list[float]] = {}
        alpha, gamma, epsilon = 0.5, 1.0, 0.3
        for game in range(games):
            board = ["."] * 9
            empty = list(range(9))
            mine, other = ("o", "x") if game % 2 == 0 else ("x", "o")
            mover = "o"
            before: tuple[list[float], int] | None = None
            while True:
                if mover == mine:
                    state = "".join(board)
                    known = values.get(state)
                    if known is None:
                        known = values[state] = [0.0] * 9
                    best = max(known[cell] for cell in empty)
                    if before is not None:
                        row, action = before
                        row[action] += alpha * (gamma * best - row[action])
                    if random.random() < epsilon:
                        cell = random.choice(empty)
                    else:
                        cell = random.choice([cell for cell in empty if known[cell] == best])
                    before = known, cell
                else:
                    cell = random.choice(empty)
                board[cell] = mover
                empty.remove(cell)
                won = any(board[a] == board[b] == board[c] == mover for a, b, c in LINES)
                if won or not empty:
                    reward = 0.0 if not won else (1.0 if mover == mine else -1.0)
                    if before is not None:
                        row, action = before
                        row[action] += alpha * (reward - row[action])
                    break
                mover = other if mover == mine else mine

    return play


def open_spiel_learner() -> Play:
    """OpenSpiel's tabular Q-learner in self-play, one learner in each seat."""
    from open_spiel.python import rl_environment
    from open_spiel.python.algorithms import tabular_qlearner

    def play(games: int) -> None:
        env = rl_environment.Environment("tic_tac_toe")
        actions = env.action_spec()["num_actions"]
        agents = [tabular_qlearner.QLearner(player_id=player, num_actions=actions) for player in range(2)]
        for _ in range(games):
            time_step = env.reset()
            while not time_step.last():
                mover = time_step.observations["current_player"]
                time_step = env.step([agents[mover].step(time_step).action])
            for agent in agents:
                agent.step(time_step)

    return play


def keras_learner(hidden: int) -> Play:
    """The same net in Keras, updated move by move with ``train_on_batch``, against random moves."""
    import keras

    from ttt_envs.single_env import SingleEnv

    def play(games: int) -> None:
        model = keras.Sequential(
            [keras.layers.Input((18,)), keras.layers.Dense(hidden, activation="relu"), keras.layers.Dense(9)]
        )
        model.compile(optimizer=keras.optimizers.Adam(0.001), loss="mse")
        env = SingleEnv(opponent="random", seat="alternate", observation="flat")
        rng = np.random.default_rng(0)

        def values(observation: Any) -> Any:
            return np.array(model(observation[None].astype(np.float32)))[0]

        for game in range(games):
            observation, info = env.reset(seed=0) if game == 0 else env.reset()
            over = False
            while not over:
                q = values(observation)
                legal = np.flatnonzero(info["action_mask"])
                action = int(rng.choice(legal)) if rng.random() < 0.3 else int(legal[np.argmax(q[legal])])
                after, reward, terminated, truncated, info = env.step(action)
                over = terminated or truncated
                target = reward
                if not over:
                    legal = np.flatnonzero(info["action_mask"])
                    target = 0.999 * values(after)[legal].max()
                q[action] = target
                model.train_on_batch(observation[None].astype(np.float32), q[None])
                observation = after

    return play


class Row(NamedTuple):
    """Ours beside a peer."""

    name: str
    ours: str
    beside: str
    at_least: float
    our_play: Callable[[], Play]
    our_games: int
    peer_play: Callable[[], Play]
    peer_games: int


def q_net_hidden() -> int:
    """The default size of the net's hidden layer."""
    return int(load_object(LEARNERS["q-net"])().hidden)


ROWS = (
    Row(
        "q-learning",
        "q-learning against random",
        "plain Python, dictionary",
        8,
        lambda: our_learner("q-learning", "random"),
        50_000,
        dictionary_learner,
        50_000,
    ),
    Row(
        "q-learning-self",
        "q-learning in self-play",
        "OpenSpiel tabular_qlearner",
        50,
        lambda: our_learner("q-learning", "self"),
        50_000,
        open_spiel_learner,
        500,
    ),
    Row(
        "q-net",
        "q-net against random",
        "Keras, train_on_batch",
        300,
        lambda: our_learner("q-net", "random"),
        20_000,
        lambda: keras_learner(q_net_hidden()),
        20,
    ),
)


@dataclass(frozen=True)
class Comparison:
    """A measured row."""

    name: str
    ours: str
    beside: str
    our_rate: Spread
    """games per second"""
    peer_rate: Spread
    ratio: Spread
    at_least: float


def rate(play: Play, games: int) -> float:
    begin = process_time()
    play(games)
    return games / (process_time() - begin)


def compare(row: Row, rounds: int, share: float) -> Comparison:
    """Measure a row, with this share of its games.

    Raises:
        SkipRow: the peer is not there.
    """
    try:
        ours, theirs = row.our_play(), row.peer_play()
        ours(min(2_000, row.our_games)), theirs(2)
    except ImportError as problem:
        raise not_installed(problem) from None
    rates: list[tuple[float, float]] = []
    for _ in range(rounds):
        mine = rate(ours, max(1, int(share * row.our_games)))
        rates.append((mine, rate(theirs, max(1, int(share * row.peer_games)))))
    our_rates, peer_rates = zip(*rates, strict=True)
    spreads = Spread.of(our_rates), Spread.of(peer_rates), Spread.of(our / peer for our, peer in rates)
    return Comparison(row.name, row.ours, row.beside, *spreads, row.at_least)


def rates_of_boards(rounds: int, share: float) -> dict[str, dict[str, Spread]]:
    """Games per second of every learner of our own, by board, against random moves."""
    found: dict[str, dict[str, Spread]] = {}
    for name, path in LEARNERS.items():
        if not hasattr(load_object(path), "build"):
            continue
        found[name] = {}
        for size, win_length in BOARDS:
            play = our_learner(name, "random", game=Game(size, size, win_length))
            play(300)
            games = max(300, int(share * 20_000))
            found[name][f"{size} x {size}, {win_length}"] = Spread.of(rate(play, games) for _ in range(rounds))
    return found


def table_of(comparisons: list[Comparison]) -> Table:
    table = Table(box=MARKDOWN)
    for header in ("row", "ours", "beside"):
        table.add_column(header, no_wrap=True)
    for header in ("ours, games/s", "beside, games/s", "ratio", "at least"):
        table.add_column(header, justify="right", no_wrap=True)
    for c in comparisons:
        goal = f"{c.at_least:g}" if c.ratio.median >= c.at_least else f"{c.at_least:g} missed"
        table.add_row(c.name, c.ours, c.beside, str(c.our_rate), str(c.peer_rate), str(c.ratio), goal)
    return table


def main(arguments: Arguments) -> None:
    chosen = arguments.chosen([*(row.name for row in ROWS), OF_BOARDS])
    rounds = arguments.rounds or (2 if arguments.quick else 5)
    share = 0.2 if arguments.quick else 1.0
    console = Console()
    console.width = max(console.width, 200)  # a row is a line, in a file too
    comparisons, skipped = [], {}
    for row in ROWS:
        if row.name in chosen:
            with console.status(row.name):
                try:
                    comparisons.append(compare(row, rounds, share))
                except SkipRow as reason:
                    skipped[row.name] = str(reason)
    with console.status(OF_BOARDS):
        boards = rates_of_boards(min(3, rounds), share) if OF_BOARDS in chosen else {}
    here = versions(PACKAGES)
    console.print(f"{cpu()}, one core; " + ", ".join(" ".join(pair) for pair in here.items()))
    console.print(f"Medians (min - max) of {rounds} rounds; ratios are taken within each round.")
    if comparisons:
        console.print(table_of(comparisons))
    for name, reason in skipped.items():
        console.print(f"{name} is skipped, {reason}", markup=False)
    if boards:
        table = Table("learner, games/s", *next(iter(boards.values())), box=MARKDOWN)
        for name, of_board in boards.items():
            table.add_row(name, *map(str, of_board.values()))
        console.print(table)
    if arguments.json is not None:
        plain = {name: {b: dataclasses.asdict(s) for b, s in of.items()} for name, of in boards.items()}
        rows = {"rows": list(map(dataclasses.asdict, comparisons)), "boards": plain}
        data = {"cpu": cpu(), "versions": here, "rounds": rounds, **rows, "skipped": skipped}
        arguments.json.write_text(json.dumps(data, indent=2) + "\n")


if __name__ == "__main__":
    main(tyro.cli(Arguments, description=__doc__))
