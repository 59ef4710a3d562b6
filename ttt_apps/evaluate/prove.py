"""``evaluate.py prove``: the result of perfect play without skips, on boards too large to tabulate."""

from __future__ import annotations

import json
from dataclasses import dataclass

from baselines.proof_number import prove
from baselines.proof_number.winner import check_provable
from ttt_apps.cli import Count, GameOptions, JsonOptions, gib_to_bytes, print_output, progress_bar
from ttt_envs.game.rules import DRAW, Game


@dataclass(frozen=True)
class Prove(JsonOptions, GameOptions):
    """Prove the result of perfect play without skips on up to 64 cells: a first-player win or a draw."""

    nodes: Count | None = None
    """maximum number of positions to visit; default: no limit"""
    memory: float = 1.0
    """maximum size of the table of positions in GiB"""

    def run(self) -> None:
        """Search and print.

        Raises:
            ValueError: a game with skips, a board too large, invalid limits.
        """
        game = self.game()
        check_provable(game)
        prove(Game(1, 3, 3))  # compile first, so that the seconds below measure the search alone
        with progress_bar("nodes") as bar:
            task = bar.add_task("searching", total=self.nodes, nodes="")
            proof = prove(
                game,
                nodes=self.nodes,
                memory=gib_to_bytes(self.memory),
                progress=lambda nodes: bar.update(task, completed=nodes, nodes=f"{nodes:,} positions"),
            )
            bar.update(task, completed=proof.nodes, total=proof.nodes, nodes=f"{proof.nodes:,} positions")
        if self.json:
            winner = {0: "player_0", DRAW: "draw", None: None}[proof.winner]
            limits = {"nodes": proof.nodes, "seconds": proof.seconds}
            print(json.dumps({"game": game.to_dict(), "winner": winner, "move": proof.move, **limits}))
            return
        if proof.winner == 0:
            assert proof.move is not None
            row, column = divmod(proof.move, game.columns)
            found = f"the first player wins, for example by the cell in row {row + 1}, column {column + 1}"
        elif proof.winner == DRAW:
            found = "a draw with perfect play by both"
        else:
            found = f"undecided after {proof.nodes:,} positions: allow more with --nodes"
        rate = proof.nodes / max(proof.seconds, 1e-9)
        print_output(f"{game}: {found}")
        print_output(f"{proof.nodes:,} positions in {proof.seconds:.2f} s, {rate:,.0f} a second")
