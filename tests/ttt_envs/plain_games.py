"""A second engine: the games of ``ttt_envs.envs.game_batch`` one by one in plain Python, over the
reference of the rules.
"""

import numpy as np
import plain

from ttt_envs.envs.config import EnvConfig
from ttt_envs.envs.engine import KernelGames
from ttt_envs.envs.game_batch import (
    RANDOM,
    STATE,
    Output,
    output_layout,
    pack_result,
    refuse_action,
)
from ttt_envs.game import reference, rules
from ttt_envs.game.actions import legal_actions, num_actions
from ttt_envs.game.boards import Boards
from ttt_envs.game.phantom import PhantomGame, visible
from ttt_envs.game.rules import NOT_OVER, Outcome


class PlainGames:
    """A ``GameBatch`` whose columns are one dictionary of arrays."""

    def __init__(self, config, count, *, observes=True):
        self.config = config
        self.count = count
        self.game = config.game
        self.players = config if isinstance(config, EnvConfig) else None
        self.opponents = self.players.opponents if self.players else ()
        self.illegal_action = self.players.illegal_action if self.players else "lose"
        self.kind = self.game.kind if isinstance(self.game, PhantomGame) else None
        types = {"skip_chance": float, "key": np.uint64, "episode_key": np.uint64}
        names = (*STATE, *RANDOM, "begins", "illegal")
        self.columns = {name: np.zeros(count, types.get(name, np.int64)) for name in names}
        for name in ("cells", "found"):
            self.columns[name] = np.zeros((count, self.game.cells), np.int8)
        self.columns["is_over"][:] = 1
        self.columns["episode"][:] = -1
        self.columns["outcome"][:] = NOT_OVER
        self.layout = output_layout(
            count,
            self.game.cells,
            num_actions(self.game),
            observes=observes,
            plays_alone=self.players is None,
        )

    def output(self):
        return Output(self.layout)

    def column(self, name, rows=None):
        return self.columns[name].copy() if rows is None else self.columns[name][rows]

    def set_column(self, name, rows, values):
        self.columns[name][rows] = values

    def views(self, rows):
        cells = self.column("cells", rows)
        movers = self.column("mover", rows).astype(np.int8)
        if self.kind:
            cells *= (cells == movers[:, None] + 1) | (self.columns["found"][rows] == 1)
        return Boards(cells, movers)

    def draw(self, row, stream, n=0):
        """Number n of an episode's stream, in [0, 1)."""
        key = int(self.columns["episode_key"][row])
        return plain.uniform(key, stream, n)

    def begin(self, row, position=None, seat=None):
        c = self.columns
        c["episode"][row] += 1
        c["episode_key"][row] = plain.splitmix64(int(c["key"][row]), int(c["episode"][row]))
        for name in ("cells", "found", "is_over", "num_illegal"):
            c[name][row] = 0
        c["outcome"][row] = NOT_OVER
        c["symmetry"][row] = self.draw(row, rules.STREAM_SYMMETRY) * len(self.config.permutations)
        games = self.config.games
        c["skip_chance"][row] = games[
            int(self.draw(row, rules.STREAM_CONTEXT) * len(games))
        ].skip_chance
        if position is None:
            starts = self.config.opening_positions or Boards.start(self.game)
            number = int(self.draw(row, rules.STREAM_OPENING) * len(starts.mover))
            position = starts.position(number)
        c["cells"][row], c["mover"][row] = position
        c["stones"][row] = np.count_nonzero(position.cells)
        c["seat"][row] = 0 if seat is None else seat
        if self.opponents:
            starts = [start for _, start in self.players.schedule]
            c["stage"][row] = sum(start <= c["num_steps"][row] for start in starts) - 1
            alternate = c["episode"][row] % 2
            drawn = {
                "second": 1,
                "random": self.draw(row, rules.STREAM_SEAT) * 2,
                "alternate": alternate,
            }
            if seat is None:
                c["seat"][row] = int(drawn.get(self.players.seat, 0))

    def cell_of(self, row, action):
        """The cell on which an action puts a stone, or None for an illegal one."""
        view = self.views(np.array([row])).cells[0]
        first = self.config.permutations[self.columns["symmetry"][row], action]
        legal = reference.legal_cells(visible(self.game), set(np.flatnonzero(view)))
        step = self.game.columns if self.game.gravity else self.game.cells
        return next((cell for cell in legal if cell % step == first), None)

    def number_of(self, row):
        """The index of a game into ``config.games``, by its skip chance."""
        skip_chances = [game.skip_chance for game in self.config.games]
        return skip_chances.index(self.columns["skip_chance"][row])

    def outcome(self, row, cell, u):
        """The state of the reference after the mover's stone on a cell, with a draw of the skip."""
        stones = tuple(
            frozenset(np.flatnonzero(self.columns["cells"][row] == player + 1)) for player in (0, 1)
        )
        state = reference.State(stones, int(self.columns["mover"][row]))
        return reference.play(visible(self.config.games[self.number_of(row)]), state, cell, u)

    def put(self, row, cell):
        """Put the mover's stone on a cell, or find the other's there."""
        c = self.columns
        mover = int(self.columns["mover"][row])
        if self.kind and c["cells"][row, cell] == 2 - mover:
            c["found"][row, cell] = 1
            c["mover"][row] = mover if self.kind == "classic" else 1 - mover
            return
        u = self.draw(row, rules.STREAM_SKIP, int(c["stones"][row]))
        state = self.outcome(row, cell, u)
        c["cells"][row, cell] = mover + 1
        c["stones"][row] += 1
        c["mover"][row] = state.mover
        c["outcome"][row] = NOT_OVER if state.winner is None else state.winner

    def reply(self):
        c = self.columns
        for row in range(self.count if self.opponents else 0):
            index = np.array([row])
            number = self.number_of(row)
            while c["outcome"][row] == NOT_OVER and c["mover"][row] != c["seat"][row]:
                policy = self.opponents[c["stage"][row]][number]
                view = self.views(index)
                plies = np.count_nonzero(view.cells, axis=1)
                keys = c["episode_key"][index]
                self.put(row, int(policy.act_in_games(view, c["episode"][index], keys, plies)[0]))

    def reset(self, rows, out, *, position=None, seat=None):
        self.columns["begins"][:] = 0
        self.columns["begins"][rows] = 1
        for row in rows:
            self.begin(row, position, seat)
        self.reply()
        self.observe(out)

    def check(self, rows, actions):
        for row in rows:
            if not 0 <= actions[row] < num_actions(self.game):
                refuse_action(self, row, int(actions[row]))
        for row in rows if self.illegal_action == "raise" else ():
            if self.cell_of(row, actions[row]) is None:
                refuse_action(self, row, int(actions[row]))

    def step(self, actions, out, *, begin_over=False):
        c = self.columns
        begins = (c["is_over"] == 1) & begin_over
        movers = np.flatnonzero(~begins & (c["outcome"] == NOT_OVER))
        self.check(movers, actions)
        c["begins"][:] = begins
        c["illegal"][:] = 0
        c["num_steps"] += ~begins if len(self.opponents) > 1 else 0
        for row in np.flatnonzero(begins):
            self.begin(row)
        for row in movers:
            if self.players and not self.opponents:
                c["seat"][row] = c["mover"][row]
            cell = self.cell_of(row, actions[row])
            if cell is not None:
                self.put(row, cell)
                continue
            c["illegal"][row] = 1
            c["num_illegal"][row] += 1
            if self.illegal_action == "lose":
                c["outcome"][row] = Outcome.PLAYER_0_FORFEITED + c["mover"][row]
            elif c["num_illegal"][row] == self.game.cells:
                c["outcome"][row] = Outcome.TRUNCATED
        self.reply()
        self.observe(out)
        c["is_over"][:] = ended = (c["outcome"] != NOT_OVER) & ~begins
        won = (out["winner"] == c["seat"]).astype(int) - (out["winner"] == 1 - c["seat"])
        out["rewards"][:] = ended * won - c["illegal"] * (self.illegal_action == "penalize")
        out["truncated"][:] = ended & (c["outcome"] == Outcome.TRUNCATED)
        out["terminated"][:] = ended & (c["outcome"] != Outcome.TRUNCATED)
        return int(np.count_nonzero(ended))

    def step_one(self, action, out):
        self.step(np.array([action]), out)
        return pack_result(int(out["mover"][0]), int(out["outcome"][0]))

    def observe(self, out):
        c = self.columns
        views = self.views(np.arange(self.count))
        for name in ("mover", "seat", "outcome"):
            out[name][:] = c[name]
        winners = {0: 0, 1: 1, Outcome.PLAYER_0_FORFEITED: 1, Outcome.PLAYER_1_FORFEITED: 0}
        out["winner"][:] = [winners.get(outcome, -1) for outcome in c["outcome"]]
        for row, (planes, mask) in enumerate(zip(out["planes"], out["mask"], strict=True)):
            permutation = self.config.permutations[c["symmetry"][row]]
            player = c["seat"][row] if self.opponents or not self.players else c["mover"][row]
            is_seen = (c["found"][row] == 1) | (not self.kind) | (not self.players)
            planes[0] = (c["cells"][row] == player + 1)[permutation]
            planes[1] = ((c["cells"][row] == 2 - player) & is_seen)[permutation]
            legal = legal_actions(self.game, views.cells[row][permutation])
            mask[:] = legal | (c["outcome"][row] != NOT_OVER)
        if not self.players:
            out["views"][:, 0] = out["planes"].swapaxes(1, 2)
            out["views"][:, 1] = out["planes"][:, ::-1].swapaxes(1, 2)


ENGINES = (KernelGames, PlainGames)
"""all engines: tests compare them with each other and with the reference"""
