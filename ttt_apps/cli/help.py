"""Help texts of the commands, and the rules by which tyro reads a dataclass of options."""

from __future__ import annotations

import dataclasses
import inspect
import re
import shutil
import sys
import textwrap
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import docstring_parser
import tyro
from tyro.constructors import (
    ConstructorRegistry,
    PrimitiveConstructorSpec,
    PrimitiveTypeInfo,
    StructConstructorSpec,
    StructFieldSpec,
    StructTypeInfo,
    UnsupportedTypeAnnotationError,
)

from ttt_envs.core.packages import ROOT

REGISTRY = ConstructorRegistry()
"""The rules of this module."""
NO_DEFAULT: Any = tyro.conf.arg(help_behavior_hint="")
"""In place of tyro's "(default: None)", where the help says what happens without an option."""
INDENT = "  "
"""Indent of a description: tyro joins lines that begin with a letter, and doubles empty ones."""


def installed_names(text: str) -> str:
    """Replace command names in ``text`` by those of this installation: an installed package has no
    train.py.
    """
    if Path(sys.argv[0]).name.startswith("ttt-") or not (ROOT / "train.py").is_file():
        return re.sub(r"\b(?:python )?(train|evaluate|play)\.py\b", r"ttt-\1", text)
    return text


def join_lines(text: str) -> str:
    """Join the lines of each paragraph of a help text; indented paragraphs keep theirs."""
    paragraphs = inspect.cleandoc(installed_names(text)).split("\n\n")
    return "\n\n".join(
        paragraph if paragraph.startswith(" ") else " ".join(paragraph.split())
        for paragraph in paragraphs
    )


def describe(text: str) -> str:
    """Return a description of a command, wrapped to the width of the terminal."""
    width = shutil.get_terminal_size().columns
    wrapper = textwrap.TextWrapper(
        width, initial_indent=INDENT, subsequent_indent=INDENT, break_on_hyphens=False
    )
    return "\n".join(
        textwrap.indent(paragraph, INDENT) if paragraph.startswith(" ") else wrapper.fill(paragraph)
        for paragraph in join_lines(text).split("\n\n")
    )


@cache
def field_texts(kind: type) -> dict[str, str]:
    """Return the strings below the fields of a dataclass and of its bases, by name."""
    texts: dict[str, str] = {}
    for base in filter(dataclasses.is_dataclass, reversed(kind.__mro__)):
        for field in docstring_parser.parse_from_object(base).params:
            if field.args[0] == "attribute":
                texts[field.arg_name] = join_lines(field.description or "")
    return texts


def _field_text(kind: type, name: str) -> str | None:
    """Return the help text of a field, for which tyro asks in help only: reading takes long."""
    return field_texts(kind).get(name)


@REGISTRY.struct_rule
def _read_dataclass(info: StructTypeInfo) -> StructConstructorSpec | None:
    """Return the fields of a dataclass with their help texts in joined lines."""
    if not dataclasses.is_dataclass(info.type):
        return None
    kinds = get_type_hints(info.type, include_extras=True)
    fields = []
    for field in dataclasses.fields(info.type):
        default = getattr(info.default, field.name, field.default)
        if default is dataclasses.MISSING:
            default = tyro.constructors.MISSING_NONPROP
        kind = _hide_default(kinds[field.name], default)
        text: Callable[[], str | None] = partial(_field_text, info.type, field.name)
        if dataclasses.is_dataclass(default):
            text = partial(join_lines, type(default).__doc__ or "")
        fields.append(StructFieldSpec(field.name, kind, default, text))
    return StructConstructorSpec(info.type, tuple(fields))


def _hide_default(kind: Any, default: object) -> Any:
    """Return the type of an option, without a default in its help where that says nothing."""
    if default is not False and default not in (None, "", ()):
        return kind
    bare, *extras = get_args(kind) if get_origin(kind) is Annotated else [kind]
    return Annotated[(bare, NO_DEFAULT, *extras)]


@REGISTRY.primitive_rule
def _read_optional(
    info: PrimitiveTypeInfo,
) -> PrimitiveConstructorSpec[Any] | UnsupportedTypeAnnotationError | None:
    """Read an option that may be missing as its value: no word stands for None."""
    kinds = get_args(info.type)
    if len(kinds) != 2 or NoneType not in kinds:
        return None
    [kind] = [kind for kind in kinds if kind is not NoneType]
    value = PrimitiveTypeInfo.make(kind, info.markers)
    spec = ConstructorRegistry.get_primitive_spec(value)
    if isinstance(spec, UnsupportedTypeAnnotationError):
        return spec
    return dataclasses.replace(
        spec,
        is_instance=lambda value: value is None or spec.is_instance(value),
        str_from_instance=lambda value: [] if value is None else spec.str_from_instance(value),
    )
