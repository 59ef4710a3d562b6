"""Proves the winner of m,n,k without skips, on boards too large to tabulate.

An extra stone never hurts, so player_1 cannot win against best play (strategy stealing), and there
are two possible results: player_0 wins, or the game is a draw. Depth-first proof-number search
(df-pn; Nagai, 2002) decides between them, over positions as two sets of cells, one bit a cell. Four
techniques keep the tree small:

- *Threats.* A player who can complete a line does; a line that the other could complete is blocked;
  two such lines, or a cell that makes two, decide the game (`look`). Otherwise irrelevant moves are
  removed.
- *Potential.* If the lines still open to player_0 weigh less than 1, each 2**-(its empty cells),
  player_1 can take a cell of every one of them (Erdos and Selfridge, 1973). This is combined with a
  pairing strategy (Hales and Jewett, 1963): `holds` adds pairs of cells, of which player_1 always
  gets one, as long as they reduce the weight.
- *Symmetry.* All symmetric variants of a position are maintained, and the least of them is its key
  (`baselines.search.canonical`).
- *A transposition table* with proof numbers (`baselines.search.transpositions`).

Uiterwijk and van den Herik ("The advantage of the initiative", 2000) solved boards up to 6 x 6 by
proof-number search, Hsu et al. ("On solving the 7,7,5-game and the 8,8,5-game", 2020) larger ones
by weighing threats and pairs.

The search itself decides whether one player, the attacker, wins a position; the other is the
defender. For the empty board the attacker is player_0. The result of a position within a game needs
two such searches, one for each player as attacker: :class:`Prover`.
"""

from __future__ import annotations

from baselines.proof_number.search import (
    LOSS,
    MAX_PROOF_CELLS,
    TAKEN,
    TIED,
    UNDECIDED,
    WIN,
    Proof,
    Prover,
    check_provable,
    prove,
)

__all__ = [
    "LOSS",
    "MAX_PROOF_CELLS",
    "TAKEN",
    "TIED",
    "UNDECIDED",
    "WIN",
    "Proof",
    "Prover",
    "check_provable",
    "prove",
]
