"""``evaluate.py proved-positions POLICY``: the rate at which a policy keeps proved results on larger boards."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from ttt_apps.cli import (
    Count,
    JsonOptions,
    TrustOptions,
    WorkOptions,
    check_seed,
    new_table,
    parse_size,
    print_output,
    print_table,
)

if TYPE_CHECKING:  # compiled code is imported where it is used, not where help is written
    from ttt_eval.exact.proved_positions import KeepRate, Positions


@dataclass(frozen=True)
class ProvedPositions(JsonOptions, TrustOptions, WorkOptions):
    """Measure how often a policy keeps the proved result in 1,000 positions of each of four boards too large to solve.

    In each position some move keeps a win or a draw, and some move gives it away; the result of every move is proved.
    """

    policy: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="[POLICY]")] = ""
    """the policy, such as run:PATH or mcts:simulations=50; without one, describe the positions"""
    size: Annotated[str | None, tyro.conf.arg(metavar="N|RxC")] = None
    """the board, 5, 5x6, 6, 7, or 6x7 for Connect Four; default: the first four"""
    win_length: int | None = None
    """number of stones in a line that win, as in the positions of that board"""
    seed: Count = 0
    """seed of the sampled moves of an impure policy"""

    def run(self) -> None:
        """Evaluate a policy, or describe the positions.

        Raises:
            ValueError: a board without proved positions, an unknown policy.
        """
        check_seed(self.seed)
        workers = self.workers()
        names = self._names()
        from ttt_eval.exact.proved_positions import keep_probabilities, read_proved, summarize

        found: dict[str, Any] = {}
        for name in names:
            positions = read_proved(name)
            if self.policy:
                shares = keep_probabilities(positions.game, self.policy, positions, seed=self.seed, jobs=workers)
                found[name] = summarize(positions, shares)
                if not self.json:
                    self._show(positions, found[name])
            else:
                found[name], words = _describe_positions(positions)
                if not self.json:
                    print_output(f"{positions.game}: {words}")
        if self.json:
            print(json.dumps({"policy": self.policy or None, "seed": self.seed, "boards": _to_json(found)}))

    def _names(self) -> Sequence[str]:
        from ttt_eval.exact.proved_positions import SETS

        names = [
            name
            for name, game in SETS.items()
            if (not game.variants if self.size is None else parse_size(self.size) == (game.rows, game.columns))
            and self.win_length in (None, game.win_length)
        ]
        if not names:
            raise ValueError(f"there are no proved positions of this board: choose one of {', '.join(SETS)}")
        return names

    def _show(self, positions: Positions, found: Mapping[str, Mapping[str, KeepRate]]) -> None:
        table = new_table(
            "positions", "number", "kept", "95%", title=f"{self.policy} in proved positions, {positions.game}"
        )
        words = {"all": "{}", "result": "proved {}", "stones": "{} stones", "plies": "decided in {} plies"}
        for kind, group in found.items():
            for which, kept in group.items():
                share = kept.share
                interval = f"{share.low:.3f} to {share.high:.3f}"
                table.add_row(words[kind].format(which), f"{kept.positions:,}", f"{share.mean:.4f}", interval)
        print_table(table)


def _describe_positions(positions: Positions) -> tuple[dict[str, Any], str]:
    """Describe a set of positions, as JSON-ready data and in words."""
    from ttt_eval.exact.proved_positions import SEARCH_DEPTH

    proven = positions.proven
    wins = sum(one.result == "w" for one in proven)
    plies = {str(n): sum(one.plies == n for one in proven) for n in range(SEARCH_DEPTH + 1)}
    keeping = sum(one.moves.count(one.result) for one in proven) / len(proven)
    stones = [one.stones for one in proven]
    quick = ", ".join(f"{count} in {n}" for n, count in plies.items() if n != "0" and count)
    words = (
        f"{len(proven):,} positions of {min(stones)} to {max(stones)} stones, {wins} won and "
        f"{len(proven) - wins} drawn; "
        f"decided in plies: {quick}, {plies['0']} in more; {keeping:.1f} moves keep the result; "
        f"of {positions.data['drawn']:,} drawn were left out "
        + ", ".join(f"{count} {why}" for why, count in positions.data["left_out"].items() if count)
    )
    facts = {
        "positions": len(proven),
        "won": wins,
        "plies": plies,
        "stones": [min(stones), max(stones)],
        "keeping": keeping,
        "drawn": positions.data["drawn"],
        "left_out": positions.data["left_out"],
        "command": positions.data["command"],
    }
    return facts, words


def _to_json(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return JSON-ready data; docs/proven.md documents the keys."""
    return {
        name: {
            kind: {
                which: {"positions": rate.positions, "keep_rate": rate.share._asdict()} for which, rate in group.items()
            }
            for kind, group in one.items()
        }
        if isinstance(one, dict) and "all" in one
        else one
        for name, one in found.items()
    }
