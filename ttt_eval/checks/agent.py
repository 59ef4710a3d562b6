"""Is an agent right? Lessons, and what it loses, in positions with exact values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from math import nan
from typing import Any

import numpy as np

from ttt_envs.agents.policy import Policy, best_shares, normalise
from ttt_envs.agents.specs import make_policy, make_pure
from ttt_envs.core.jit import BoolArray, Float64Array
from ttt_envs.game.actions import sum_by_action
from ttt_envs.game.game import Game
from ttt_eval.checks.check import MOVE_NOTE, Check
from ttt_eval.checks.session import Checker, Notes, mean_of, open_check
from ttt_eval.checks.tables import (
    MAX_WHOLE,
    MIN_WON_VALUE,
    TIE,
    Turns,
    best,
    make_table,
    mean_by,
)

MAX_WRONG = {
    "win at once": 0.05,
    "win, not draw": 0.05,
    "block": 0.05,
    "win later": 0.15,
    "hold a draw": 0.15,
}
"""Maximum share of wrong moves, by the lesson of a position."""
MIN_UNSEEN = 0.5
"""Minimum share of missed blocks of an agent that does not see replies."""
MAX_GAP = 0.25
"""Maximum difference of mean losses between the players."""
MAX_LOSS_SHARE = 0.5
"""Maximum mean loss, as a share of that of random moves."""
MAX_RIGHT_LOSS_SHARE = 1 / 3
"""The same of the player for whom an agent with a fixed player's view is right."""
MIN_WRONG_LOSS_SHARE = 1.1
"""The least of a player for whom an agent prefers bad moves: clearly more than of random moves."""
MIN_WINS = 10
"""Minimum number of wins along a direction that are judged."""
MAX_MISSED_GAP = 0.25
"""Maximum difference of the shares of missed wins, between a direction and all others."""
UCT_SIMULATIONS = (2, 5, 10, 20, 50, 100, 200, 500)
"""Numbers of simulations of plain UCT that an agent is compared with."""


def check_agent(
    agent: Callable[..., Any] | str | Policy,
    game: Turns = "plain",
    *,
    board: str | Game = "3x3",
    own_play: bool = False,
    seed: int = 0,
    limit_s: float | None = 60.0,
) -> Check:
    """Check what an agent plays against exact values.

    Args:
        agent: ``agent(board)``, which returns a move, or probabilities or visits for all moves, of
            which the largest is played. ``board`` is a tuple of numbers by cell: 1 a stone of the
            player to move, -1 of the other, 0 empty. Or a pure policy, or its spec string.
        game, board: as of :func:`ttt_eval.checks.search.check_search`.
        own_play: whether only positions are asked about that the agent's own play can reach.
        seed: of the choice of positions.
        limit_s: maximum s of a call; None for no limit.

    Raises:
        TypeError: the agent is no function and no policy.
        ValueError: an option is unknown, or the policy is unknown or not pure.
    """
    function: Any = agent
    if isinstance(agent, str) or hasattr(agent, "probabilities"):
        function = make_pure(function, make_table(game, board).game).probabilities
    with open_check(
        _AgentCheck, function, game, board, seed=seed, batch=function is not agent, limit_s=limit_s
    ) as check:
        return check.run(own_play)


class _AgentCheck(Checker):
    """The rows of a check of an agent."""

    def run(self, own_play: bool) -> Check:
        """Measure all rows."""
        self.own_play = own_play
        self.lines = np.array([line.cells for line in self.table.game.lines])
        sections = [
            self.ask_all,
            self.check_lessons,
            self.check_players,
            self.check_directions,
            self.check_loss,
            self.check_exploitability,
            self.check_strength,
        ]
        return self.report("an agent", sections)

    def answer(self, positions: Sequence[int], board: Any, *_: object) -> Any:
        """Return a move or shares of moves."""
        if self.batch:
            shares = self.function(self.table.to_boards(positions))
            return sum_by_action(shares, self.table.num_actions)
        answer = self.function(board)
        if np.ndim(answer) == 0:
            return answer
        # a policy head has probabilities of illegal moves too
        return np.where(self.table.legal[positions[0]], np.ravel(answer), 0)

    def shares(self, positions: Sequence[int]) -> Float64Array:
        """Return the distribution over moves, float64[B, A]; equal shares for broken answers."""
        legal = self.table.legal[positions]
        visits = np.where(legal, self.ask("moves", positions).visits, nan)
        if self.batch:  # a policy
            return normalise(np.nan_to_num(visits))
        return best_shares(visits)

    def mean_losses(self, shares: Float64Array) -> Float64Array:
        """Return the mean loss of distributions over moves, float64[B]."""
        return np.asarray((shares * self.move_losses).sum(axis=1))

    def ask_all(self) -> None:
        """Ask in positions in which moves differ."""
        self.reached = self._reached() if self.own_play else ~self.table.ended
        self.chosen = self.choose_classes(self.table.moves_differ & self.reached)
        self.move_losses = np.nan_to_num(self.table.losses[self.chosen])
        self.played = self.shares(self.chosen)
        self.losses = self.mean_losses(self.played)
        self.wrong = (self.played * (self.move_losses > TIE)).sum(axis=1)
        self.random_loss = mean_of(self.table.random_losses[self.chosen])
        best_moves = self.table.best_moves(self.chosen)
        moves = self.played.argmax(axis=1)
        self.notes = Notes(self.chosen, MOVE_NOTE, (moves, self.losses, best_moves))

    def _reached(self) -> BoolArray:
        """Return the positions in which the agent is to move, and that its own play can reach
        against any opponent, bool[N + 1].
        """
        table = self.table
        reached = np.zeros((2, len(table.boards)), np.bool_)  # the agent to move, the other
        reached[:, table.num_free == table.max_free] = True
        for free in range(table.max_free, 0, -1):
            for player in (0, 1):
                positions = np.flatnonzero(
                    reached[player] & (table.num_free == free) & ~table.ended
                )
                played = (
                    self.shares(positions.tolist()) > 0 if player == 0 else table.legal[positions]
                )
                next_positions = table.next[positions][played]
                reached[1 - player, next_positions[:, 0]] = True
                reached[player, next_positions[:, 1]] = True
        return np.asarray(reached[0])

    def _open_lines(self, stone: int) -> BoolArray:
        """Return the lines that one more stone completes, bool[B, lines]."""
        cells = self.table.boards[self.chosen][:, self.lines]
        almost = (cells == stone).sum(axis=2) == self.lines.shape[1] - 1
        return np.asarray(almost & (cells == 0).any(axis=2))

    def check_lessons(self) -> None:
        """Wrong moves by lesson."""
        values = self.table.values[self.chosen]
        losses = self.move_losses
        wins = self.table.wins[self.chosen]
        smallest = np.where(losses > TIE, losses, np.inf).min(axis=1)
        blocks = ~wins & self._open_lines(-1).any(axis=1) & (values > -MIN_WON_VALUE)
        others = ~wins & ~blocks
        lessons = {
            "win at once": wins & (smallest > 1 + TIE),
            "win, not draw": wins & (smallest <= 1 + TIE),
            "block": blocks,
            "win later": others & (values > MIN_WON_VALUE),
            "hold a draw": others & (np.abs(values) <= MIN_WON_VALUE),
        }
        self.block_share = mean_of(self.wrong[blocks])
        for name, mask in lessons.items():
            share = mean_of(self.wrong[mask])
            self.judge(
                name,
                f"{share:.0%} wrong in {mask.sum()} positions",
                share,
                MAX_WRONG[name],
                badness=self.losses * mask,
            )

    def check_players(self) -> None:
        """Mean loss with an even and with an odd number of stones."""
        odd = self.table.odd[self.chosen]
        self.by_player = self.by_parity(self.chosen, self.losses)
        even_loss, odd_loss = self.by_player
        self.judge(
            "players",
            f"mean loss {even_loss:.3f} with an even number of stones, {odd_loss:.3f} with an odd",
            abs(even_loss - odd_loss),
            MAX_GAP,
            badness=self.losses * (odd == (odd_loss > even_loss)),
        )

    def check_directions(self) -> None:
        """Missed wins along one direction, against those along all others."""
        lines = self._open_lines(1)
        single = self.table.wins[self.chosen] & (lines.sum(axis=1) == 1)
        steps = np.diff(self.lines)[lines.argmax(axis=1), 0]
        numbers = Counter(steps[single].tolist())
        shares = {
            step: mean_of(self.wrong[single & (steps == step)])
            for step, number in numbers.items()
            if number >= MIN_WINS
        }
        worst = max(shares, key=shares.__getitem__, default=0)
        share = shares.get(worst, nan)
        others = mean_of(self.wrong[single])
        self.judge(
            "directions",
            f"{share:.0%} of wins in steps of {worst} are missed, of all {others:.0%}",
            share - others,
            MAX_MISSED_GAP,
            badness=self.losses * (single & (steps == worst)),
        )

    def check_loss(self) -> None:
        """Mean loss, against that of random moves."""
        loss = mean_of(self.losses)
        self.judge(
            "mean loss",
            f"{loss:.3f} in {len(self.losses)} positions; of random moves {self.random_loss:.3f}",
            loss,
            MAX_LOSS_SHARE * self.random_loss,
            badness=self.losses,
        )

    def check_exploitability(self) -> None:
        """Mean gain of a best responder in both seats, on small boards."""
        table = self.table
        if table.game.cells > MAX_WHOLE or self.broken["rules"]:
            return
        positions = np.flatnonzero(self.reached & ~table.ended)
        shares = np.zeros(table.legal.shape)
        shares[positions] = self.shares(positions.tolist())
        (own, responder), _ = table.solve(mean_by(shares), best)
        self.remark("exploitability", f"{abs(responder[0] - own[0]) / 2:.3f}; 0 is perfect")

    def check_strength(self) -> None:
        """The simulations of plain UCT with the same mean loss."""
        if self.table.turns == "turns":
            return
        boards = self.table.to_boards(self.chosen)
        for simulations in UCT_SIMULATIONS:
            search = make_policy(f"mcts:simulations={simulations},decisive=false", self.table.game)
            searched = search.probabilities(boards, np.random.default_rng(self.seed))
            shares = sum_by_action(searched, self.table.num_actions)
            loss = mean_of(self.mean_losses(shares))
            if loss <= mean_of(self.losses):
                break
        self.remark("strength", f"plain UCT loses {loss:.3f} after {simulations} simulations")

    def patterns(self, failed: set[str]) -> dict[str, bool]:
        """Return whether causes explain the failed rows, the likeliest first."""
        low, high = sorted(self.by_player)
        return {
            "a fixed player's view: right for one player, wrong for the other": (
                "players" in failed and low < MAX_RIGHT_LOSS_SHARE * self.random_loss
            ),
            "a sign: it prefers what is good for the other player": (
                high > MIN_WRONG_LOSS_SHARE * self.random_loss
            ),
            "lines along one direction are not seen": "directions" in failed,
            "draws count as wins: it draws where it could win": (
                "win, not draw" in failed and failed <= {"win, not draw", "win later"}
            ),
            "wins are not preferred to other moves": "win at once" in failed,
            "the other player's replies are not seen": self.block_share > MIN_UNSEEN,
        }
