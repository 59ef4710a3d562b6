"""Who wins m,n,k without skips, on boards too large to tabulate.

An extra stone never hurts, so player_1 cannot win against best play (strategy stealing), and the question has two
answers: player_0 wins, or can be kept from it, which is a draw. It is answered by depth-first proof-number search
(df-pn; Nagai, 2002) over positions as two sets of cells, one bit a cell, with four things that keep the tree small:

- *Threats.* Who can complete a line does; a line that the other could complete is blocked; two such lines, or a cell
  that makes two, decide (`look`). Elsewhere only moves remain that could matter.
- *Potential.* Where the lines still open to player_0 weigh less than 1, each 2**-(its empty cells), player_1 can take a
  cell of every one of them (Erdos and Selfridge, 1973). Pairs of cells of which player_1 always gets one (Hales and
  Jewett, 1963) join in: `holds` takes pairs as long as they make the rest lighter.
- *Symmetry.* All images of a position are carried along, and the least of them is its key.
- *A table* of positions with their proof numbers. Entries hold the whole key, so that none is taken for another.

Uiterwijk and van den Herik ("The advantage of the initiative", 2000) solved boards up to 6 x 6 by proof-number search,
Hsu et al. ("On solving the 7,7,5-game and the 8,8,5-game", 2020) larger ones by weighing threats and pairs.

The search itself asks of any position whether one player, the attacker, wins it; the other is the defender. Of the
empty board the attacker is player_0. A position in the middle of a game has its result from two such questions, one for
each player: :class:`Prover`.
"""

from __future__ import annotations

from baselines.proof.positions import LOSS as LOSS
from baselines.proof.positions import TAKEN as TAKEN
from baselines.proof.positions import TIED as TIED
from baselines.proof.positions import WIN as WIN
from baselines.proof.positions import Prover as Prover
from baselines.proof.winner import LARGEST_BOARD as LARGEST_BOARD
from baselines.proof.winner import Proof as Proof
from baselines.proof.winner import prove as prove
