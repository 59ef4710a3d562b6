"""Arrays of records, whose fields a class declares: kernels read and write them by name. And named
tuples of arrays, and chunks of arrays.
"""

from __future__ import annotations

import typing
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, Protocol, SupportsIndex, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

Record = TypeVar("Record")
Arrays = TypeVar("Arrays", bound=tuple[NDArray[Any], ...])
Record_co = TypeVar("Record_co", covariant=True)
Rows = TypeVar("Rows", NDArray[Any], range, str)


class Records(Protocol[Record_co]):
    """An array of records, whose fields a class declares, of their rows, or of numbers, as type
    checkers see it.
    """

    @property
    def shape(self) -> tuple[int, ...]:
        """The numbers of rows, if it has any, and of records."""

    @overload
    def __getitem__(self, index: tuple[Any, ...]) -> Any: ...
    @overload
    def __getitem__(self, index: SupportsIndex) -> Record_co: ...
    @overload
    def __getitem__(self, index: slice) -> Any: ...
    @overload
    def __getitem__(self, index: str) -> NDArray[Any]: ...

    def __setitem__(self, index: Any, value: Any) -> None: ...

    def __len__(self) -> int: ...


@overload
def records(kind: type[Record], shape: tuple[int]) -> Records[Record]: ...
@overload
def records(kind: type[Record], shape: tuple[int, int]) -> Records[Records[Record]]: ...
def records(kind: type, shape: tuple[int, ...]) -> Any:
    """Return zeros with the fields that a class declares, usable in kernels and in plain Python.

    A field is a number, or an array of a fixed shape, such as ``Annotated[Int64Array, np.int64, (2,
    3)]``. A kernel takes a record as one pointer, but an array as seven numbers or more, which a
    recursion copies at every call.
    """
    return np.zeros(shape, record_dtype(kind))


def record(kind: type[Record]) -> Record:
    """Return one record of zeros, see :func:`records`."""
    return records(kind, (1,))[0]


@cache
def record_dtype(kind: type) -> np.dtype[Any]:
    """Return the type of a record with the fields that a class declares."""
    hints = typing.get_type_hints(kind, include_extras=True).items()
    fields = [
        (name, *getattr(hint, "__metadata__", (np.int64 if hint is int else hint,)))
        for name, hint in hints
    ]
    return np.dtype((np.record, np.dtype(fields, align=True)))


def concatenate(parts: Sequence[Arrays]) -> Arrays:
    """Return named tuples of arrays, one or more, as one: each field concatenated."""
    return type(parts[0])(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))


def chunks(rows: Rows, size: int) -> Iterator[Rows]:
    """Yield consecutive parts of up to ``size`` rows, which are views of an array."""
    return (rows[start : start + size] for start in range(0, len(rows), size))
