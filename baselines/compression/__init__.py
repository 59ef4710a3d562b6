"""Compressed tables, as products of smaller arrays, and the softmax policies that play by them
(Fujita and Watanabe).

The cells of the board are partitioned into groups, and a table over boards becomes a tensor with
one axis per group. Its entries are approximated by

* ``svd``: two groups, Q S of the leading singular vectors (Eqs. 4 to 7 of the paper);
* ``hosvd``: a core times one matrix for each group, whose columns are the leading singular vectors
  of the tensor unfolded along that axis (Eqs. 8 to 12; De Lathauwer, De Moor and Vandewalle,
  2000a);
* ``hosvd2``: the same for the first and the last group only (Eqs. 8 to 11 of the paper's older
  version);
* ``hooi``: ``hosvd``, with its matrices improved in turn until the error converges (the same
  authors, 2000b);
* ``tt``: a tensor train, by one SVD after another (Oseledets, 2011); with two groups it is ``svd``.

All methods begin by projecting the tensor onto the singular vectors of some axes, the leading ones
first, which is lossless if all are kept. So one decomposition serves all ranks. Entries are
computed from the factors, without reconstructing the table. With skips, each mover's side is
decomposed separately, at the same rank.
"""

from __future__ import annotations

from baselines.compression.decomposition import Compressed as Compressed
from baselines.compression.decomposition import Decomposition as Decomposition
from baselines.compression.decomposition import decompose, decomposition
from baselines.compression.grouping import Method as Method
from baselines.compression.grouping import make_grouping
from baselines.compression.policy import HOOI, HOSVD, HOSVD2, SVD, TT
from baselines.compression.ranks import default_rank as default_rank
from baselines.compression.ranks import largest_rank as largest_rank

__all__ = [
    "HOOI",
    "HOSVD",
    "HOSVD2",
    "SVD",
    "TT",
    "decompose",
    "decomposition",
    "make_grouping",
]
