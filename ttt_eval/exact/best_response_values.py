"""Values of positions of which one seat plays the best response to a policy in the other."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from ttt_envs.agents.policy import Policy
from ttt_envs.agents.specs import make_pure
from ttt_envs.core.checks import Refusal, check_choice
from ttt_envs.core.hash_index import find_sorted
from ttt_envs.core.jit import Float64Array, UInt64Array
from ttt_envs.core.work import DEFAULT_WORK, Work
from ttt_envs.game.boards import Boards, to_text
from ttt_envs.game.game import Game
from ttt_envs.graph.estimate import check_traversable
from ttt_envs.graph.layers import Traversal, to_keys
from ttt_envs.graph.passes import backward
from ttt_eval.exact.results import in_seats


class BestResponseValues:
    """Expected results of the best response to a pure policy, in all positions that they can reach.

    A position of the responder has the value of its best move, and one of the policy the mean over
    its moves.

    Args:
        game: the game.
        policy: a spec string or a pure policy, which plays the other seat.
        seat: the responder's: 0 moves first, 1 second.
        work: see :class:`Work`.

    Raises:
        ValueError: another seat, or a policy that is unknown or not pure.
        MemoryError: too many cells or positions.
    """

    def __init__(
        self, game: Game, policy: str | Policy, seat: int, *, work: Work = DEFAULT_WORK
    ) -> None:
        check_choice("seat", seat, (0, 1))
        check_traversable(game)
        self.game = game
        self.seat = seat
        self.policy = make_pure(policy, game)
        self._work = work

    @cached_property
    def _table(self) -> tuple[UInt64Array, Float64Array]:
        """The sorted keys of boards, and float64[N, 2]: values for the responder by mover, NaN
        where not reached.

        The responder's moves beside a win are followed, too.
        """
        traversal = Traversal(
            self.game,
            in_seats(None, self.policy, self.seat),
            complete=(self.seat == 0, self.seat == 1),
            merge=False,
            work=self._work,
            passes=2,
        )
        traversal.make_layers()
        keys = []
        values = []
        chances_by_layer = {layer: chances for layer, _, chances, _ in backward(traversal)}
        for layer, chances in chances_by_layer.items():
            is_reached = layer.reach[: layer.index.size] > 0
            layer_values = chances[:, :, self.seat] - chances[:, :, 1 - self.seat]
            values.append(np.where(is_reached, layer_values, np.nan))
            keys.append(layer.index.keys[:, 0])
        all_keys = np.concatenate(keys)
        order = np.argsort(all_keys)
        return all_keys[order], np.concatenate(values)[order]

    def values(self, boards: Boards) -> Float64Array:
        """Return values for the mover, float64[B]; NaN in a position that the two players cannot
        reach.
        """
        keys, values = self._table
        places = find_sorted(keys, to_keys(boards.cells))
        out = np.where(places >= 0, values[places, boards.mover], np.nan)
        return np.where(boards.mover == self.seat, out, -out)

    def check_reached(self, boards: Boards) -> None:
        """Raise ValueError, naming a position, if the two players cannot reach all positions."""
        missing = np.flatnonzero(np.isnan(self.values(boards)))
        if len(missing):
            position = to_text(boards.position(int(missing[0])), self.game)
            raise Refusal(
                f"{position!r} is not reached against {self.policy}: the game was played against "
                "another opponent, or from another start"
            )
