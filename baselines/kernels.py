"""Kernels of searches: they make no arrays, and so need not count references to those that they are handed.

numba counts references to arrays at every call, even of what is inlined, and to all that is taken out of a tuple. For
functions of a few nanoseconds that would be most of the work; and the search could not be written as small functions
that take its parts as they are.
"""

from __future__ import annotations

from ttt_envs.compiling import Function, kernel


def bare(function: Function) -> Function:
    """Compile a kernel that makes no arrays; other threads of Python run beside it."""
    return kernel(function, _nrt=False, nogil=True)


def bare_inlined(function: Function) -> Function:
    """The same for what these kernels call at every move."""
    return kernel(function, _nrt=False, forceinline=True)
