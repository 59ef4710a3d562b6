"""Spec strings that name policies, and the registry of built-in policies.

A spec string is ``name[:argument,...]`` with arguments ``[key=]value``, of which only the first may omit its key; a
value that contains ``,`` or ``:`` is enclosed in parentheses::

    random      optimal:epsilon=0.1      run:runs/first      book:path=b.npz,then=(expectiminimax:depth=4)

Any other name is a module and a user's class in it: ``module:Class`` or ``package.module:Class:key=value`` is called as
``Class(game, key=value)``. It plays by the standard rules only, unless the class declares others: its attribute
``variants`` lists those of ``game.VARIANTS`` that it supports, and ``plays_hidden = True`` says that it plays phantom
games by views.

A spec string read from a file is a :class:`FromFile`, which names built-in policies only, unless files are trusted.
"""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
import inspect
import os
import sys
import types
import typing
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from ttt_envs.core.checks import closest_name, closest_names, truncate

if TYPE_CHECKING:  # parsing a spec imports no policy
    from ttt_envs.agents.policy import Policy
    from ttt_envs.game.phantom import AnyGame

POLICIES: dict[str, str] = {
    "random": "ttt_envs.agents.simple:Random",
    "win-or-block": "ttt_envs.agents.simple:WinOrBlock",
    "optimal": "baselines.exact.solve:Optimal",
    "expectiminimax": "baselines.expectiminimax:Expectiminimax",
    "table": "baselines.tables:TablePolicy",
    "svd": "baselines.compression:SVD",
    "hosvd": "baselines.compression:HOSVD",
    "hosvd2": "baselines.compression:HOSVD2",
    "hooi": "baselines.compression:HOOI",
    "tt": "baselines.compression:TT",
    "mcts": "baselines.mcts:MCTS",
    "timed": "baselines.timed:Timed",
    "book": "baselines.opening_book:load_book",
    "alpha-zero": "learners.alpha_zero:AlphaZeroSearch",
    "run": "learners.checkpoint:load_policy",
    "sb3": "learners.sb3:ZipPolicy",
    "openspiel": "baselines.open_spiel_bots:OpenSpielBot",
    "gomocup": "baselines.gomocup:Gomocup",
}
"""built-in names -> "module:factory", imported on demand and called as ``factory(game, **arguments)``"""

_ALL_VARIANTS = ("gravity", "overlines", "misere", "torus")
_AND_HIDDEN = (*_ALL_VARIANTS, "hidden")
SUPPORTED_VARIANTS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("random", "win-or-block", "table", "svd", "hosvd", "hosvd2", "hooi", "tt"), _AND_HIDDEN),
    **dict.fromkeys(("optimal", "expectiminimax", "timed", "mcts", "book"), _ALL_VARIANTS),
    "alpha-zero": _ALL_VARIANTS,  # a run has one game, as below
    "run": _AND_HIDDEN,  # a run has one game, which its learner supports
    "sb3": ("gravity", "hidden"),  # a zip stores no rules; gravity alone shows, by the number of actions
    "gomocup": ("overlines",),
}
"""built-in names -> the rules of ``game.VARIANTS`` that they support; others play by the standard rules only. With
``hidden`` they play phantom games by views; others can only peek"""
_BOARD = "it reads the whole board"
REFUSAL_REASONS: dict[str, dict[str, str]] = {
    "optimal": {"hidden": f"{_BOARD}, to look up its exact value"},
    **{
        name: {"hidden": f"{_BOARD}, to search the moves of both players"}
        for name in ("expectiminimax", "timed", "mcts", "alpha-zero")
    },
    "book": {"hidden": f"{_BOARD}, to find it among those of the book"},
    "openspiel": {
        "gravity": "it takes the cells of OpenSpiel's boards as moves, and Connect Four has columns there",
        **dict.fromkeys(("overlines", "misere", "torus"), "tic_tac_toe and mnk of OpenSpiel have no such rule"),
        "hidden": f"{_BOARD}, as a position of a game of OpenSpiel in which nothing is hidden",
    },
    "gomocup": {
        "gravity": "the Gomocup protocol lets an engine put a stone on any empty cell",
        "misere": "in the Gomocup protocol the player who completes a line wins",
        "torus": "the board of the Gomocup protocol has edges",
        "hidden": f"{_BOARD}: the Gomocup protocol tells an engine every move",
    },
    "sb3": dict.fromkeys(
        ("overlines", "misere", "torus"),
        "a zip does not store the rules of its training, and its spaces do not show them",
    ),
}
"""built-in names -> rules that they do not support -> the reason, which follows "because" in messages"""
PEEKING = "peeking"
"""key of a spec string: ``peeking=true`` shows the policy all stones of a phantom game; in others it has no effect"""

OTHER_NAMES: dict[str, tuple[str, ...]] = {
    "minimax": ("optimal", "expectiminimax"),
    "negamax": ("optimal", "expectiminimax"),
    "alpha-beta": ("expectiminimax",),
    "alphabeta": ("expectiminimax",),
    "perfect": ("optimal",),
    "solver": ("optimal",),
    "uct": ("mcts",),
    "uniform": ("random",),
}
"""other common names -> built-in names"""

NO_POLICIES: dict[str, str] = {
    "self": "self-play is an opponent only in training and in environments",
    "human": "in play.py you are the human, and name the policy that you play against, such as optimal",
}
"""names of other things than policies -> advice"""

GRAMMAR = 'write name or name:key=value,..., as in "random" or "run:PATH"'


PROGRAMS = ("gomocup",)
"""built-in policies that run a program named by an argument, which a file may not do"""

TRUST = "TTT_ENVS_TRUST"
"""the environment variable that, set to 1, trusts every file: files that can run code when loaded, and classes that
files name. The commands' --trust sets it"""
TRUSTING = f"set the environment variable {TRUST}=1"
"""advice of messages; the commands replace it by their option"""
MAX_SPEC_LENGTH, MAX_SPEC_DEPTH = 4096, 16
"""Maximum number of characters of a spec string, and maximum nesting depth of its parentheses."""


class FromFile(str):
    """A string read from a file, hence untrusted.

    As a spec string it names built-in policies only, and so do nested spec strings, at any depth. The type survives
    transfer to other processes. See :data:`TRUST`.
    """

    __slots__ = ()


def from_file(data: Any) -> Any:
    """Convert JSON-ready data read from a file: every string, except keys, becomes a :class:`FromFile`."""
    if isinstance(data, dict):
        return {key: from_file(value) for key, value in data.items()}
    if isinstance(data, list):
        return [from_file(value) for value in data]
    return FromFile(data) if isinstance(data, str) else data


def trusted() -> bool:
    """Return whether files are trusted: see :data:`TRUST`."""
    return os.environ.get(TRUST) == "1"


class Spec(NamedTuple):
    """A parsed spec string."""

    name: str
    unkeyed: str | None
    keyed: dict[str, str]

    def from_file(self) -> Spec:
        """Return the same spec, with its values marked as read from a file."""
        return Spec(*from_file(list(self)))


def _split(text: str, at: str) -> list[str]:
    """Split ``text`` at ``at`` outside parentheses.

    Raises:
        ValueError: the parentheses do not match.
    """
    parts, depth, start = [], 0, 0
    for index, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth < 0:
            break
        if depth > MAX_SPEC_DEPTH:
            raise ValueError(f"its parentheses are nested more than {MAX_SPEC_DEPTH} deep")
        if letter == at and depth == 0:
            parts.append(text[start:index])
            start = index + 1
    if depth != 0:
        raise ValueError("its parentheses do not match")
    return [*parts, text[start:]]


def _unwrap(value: str) -> str:
    """Return ``value`` without a pair of parentheses that encloses all of it."""
    inner = value[1:-1]
    if not (value.startswith("(") and value.endswith(")")):
        return value
    try:
        _split(inner, ",")
    except ValueError:  # as in (a)(b)
        return value
    return inner


def parse_spec(spec: str) -> Spec:
    """Parse a spec string, without resolving its name.

    Raises:
        TypeError: not a string.
        ValueError: the string is not a spec.
    """
    if not isinstance(spec, str):
        raise TypeError(_no_spec(spec))
    if len(spec) > MAX_SPEC_LENGTH:
        raise ValueError(
            f"{spec[:40]!r}... is no policy, it has {len(spec):,} characters, "
            f"and at most {MAX_SPEC_LENGTH:,} are allowed"
        )
    if spec.splitlines() not in ([], [spec]):  # messages about a spec quote its parts
        raise ValueError(f"text of several lines is no spec, {truncate(repr(spec))}: {GRAMMAR}")
    try:
        head, *rest = _split(spec, ":")
        # [package.]module:Class[:arguments]
        if rest and ("." in head or (head and head not in POLICIES and rest[0].isidentifier())):
            head, rest = f"{head}:{rest[0]}", rest[1:]
        if not head or head != head.strip():
            raise ValueError("its name is missing")
        unkeyed, keyed = None, {}
        if rest:
            for index, argument in enumerate(_split(":".join(rest), ",")):
                key, *value = _split(argument, "=")
                if not argument or (value and not key):
                    raise ValueError("it has an empty argument")
                if not value:
                    if index > 0:
                        raise ValueError(f"only the first argument may come without its key, {argument!r} does too")
                    unkeyed = _unwrap(argument)
                elif key in keyed:
                    raise ValueError(f"it gives {key} twice")
                else:
                    keyed[key] = _unwrap("=".join(value))
    except ValueError as problem:
        raise ValueError(f"{spec!r} is no policy, {problem}: {GRAMMAR}") from None
    return Spec(head, unkeyed, keyed)


def closest_or_class(name: str, known: typing.Iterable[str]) -> str:
    """Return the hint after an unknown name, in whose place a class may be named: see :func:`closest_names`."""
    near = closest_names(name, known)
    if near.endswith("?"):
        return near
    return f"{near}. A class of your own is written module:Class, with its module where python finds it"


def load_object(path: str) -> Any:
    """Import the object named by ``"package.module:name"``.

    Raises:
        ValueError: there is no such module or no such name in it.
    """
    module_name, _, name = path.partition(":")
    package = module_name.split(".")[0]
    if not package:
        raise ValueError(f"{path!r} names no module: write package.module:name, without a dot before it")
    try:
        module = importlib.import_module(module_name)
    except ImportError as problem:
        if isinstance(problem, ModuleNotFoundError) and (problem.name or "").split(".")[0] == package:
            missing = f"there is no module {problem.name!r} to import for {path!r}: is it installed?"
            raise ValueError(missing) from None
        raise  # the module exists, and one of its own imports is missing
    if not hasattr(module, name):
        public = [other for other in vars(module) if not other.startswith("_")]
        raise ValueError(f"the module {module_name} has no {name!r}: {closest_names(name, public)}")
    return getattr(module, name)


def convert_value(name: str, key: str, value: str, kind: Any) -> Any:
    """Convert a value of a spec string to the type in the signature of what it names.

    Raises:
        ValueError: it has another type; the message begins with ``name``.
    """
    if isinstance(kind, types.UnionType) or typing.get_origin(kind) is typing.Union:  # as in int | None
        arms = typing.get_args(kind)
        if type(None) in arms and value.lower() == "none":
            return None
        if any(typing.get_origin(arm) is typing.Literal and value in typing.get_args(arm) for arm in arms):
            return value  # as in int | Literal["auto"]
        kind = next(arm for arm in arms if arm is not type(None))
    if typing.get_origin(kind) is typing.Literal:
        if value not in typing.get_args(kind):
            raise ValueError(f"{name}: {key}={value!r} is not known, {closest_names(value, typing.get_args(kind))}")
        return value
    try:
        if kind is bool:
            return {"true": True, "false": False}[value.lower()]
        if kind is int and not -(2**63) <= int(value) < 2**63:
            raise ValueError
        if kind in (int, float):
            return kind(value)
    except (ValueError, KeyError):
        wanted = {bool: "true or false", int: "a whole number of 64 bits", float: "a number"}[kind]
        raise ValueError(f"{name}: {key}={value!r} is not {wanted}") from None
    return value


def make_policy(spec: str | Policy, game: AnyGame) -> Policy:
    """Create the policy named by a spec string, for a game; a policy is returned unchanged.

    Args:
        spec: for example ``"random"``, ``"win-or-block"``, ``"run:runs/first"`` or ``"package.module:Class"``.
        game: the game.

    Raises:
        TypeError: neither a string nor a policy.
        ValueError: the spec is malformed, a name or key is unknown (the message gives the closest known one), or a
            value does not fit; a rule of the game is not supported; in an untrusted :class:`FromFile`, the name is
            not a built-in one.
    """
    from ttt_envs.agents.policy import Policy
    from ttt_envs.game.phantom import HIDING, check_variants, visible

    if not isinstance(spec, str):
        if isinstance(spec, Policy):
            return spec
        raise TypeError(_no_spec(spec))
    parsed = parse_spec(spec)
    if PEEKING in parsed.keyed:
        return _make_peeking(spec, parsed, game)
    module, _, inside = parsed.name.partition(":")
    if isinstance(spec, FromFile):
        _check_from_file(parsed)
        parsed = parsed.from_file()
    # find_spec raises ValueError for an imported module without a specification, such as the __main__ of a script
    if inside and ("." in module or module in sys.modules or importlib.util.find_spec(module) is not None):
        factory = load_object(parsed.name)
        supported = (*getattr(factory, "variants", ()), *[HIDING] * getattr(factory, "plays_hidden", False))
        reasons: Any = "its class declares neither that rule in `variants` nor, for hidden stones, `plays_hidden`"
    elif parsed.name in POLICIES:
        supported, reasons = SUPPORTED_VARIANTS.get(parsed.name, ()), REFUSAL_REASONS.get(parsed.name, {})
    else:
        raise ValueError(_unknown(spec, module))
    hint = f"; or let it see hidden stones, which is cheating, with {PEEKING}=true"
    check_variants(parsed.name, game, supported, reasons=reasons, hint=hint)
    if parsed.name in POLICIES:
        factory = load_object(POLICIES[parsed.name])
        # a view is played as a board of the visible game; a run knows which game it has learned
        game = game if parsed.name == "run" else visible(game)
    if not callable(factory):
        raise ValueError(f"{parsed.name} is not a class or function that makes policies: it is {factory!r}")
    try:
        policy = factory(game, **_arguments(parsed, factory))
    except (ValueError, TypeError, OSError, MemoryError, ImportError):
        raise
    except Exception as problem:
        if parsed.name in POLICIES:
            raise
        raise ValueError(f"{parsed.name} made no policy of {game}: {type(problem).__name__}: {problem}") from problem
    if not isinstance(policy, Policy):
        wrap = "return as_policy(function, game), or an object with" if callable(policy) else "it needs"
        raise ValueError(f"{parsed.name} made {policy!r}, which is no policy: {wrap} `pure` and `probabilities`")
    return policy


def _make_peeking(spec: str, parsed: Spec, game: AnyGame) -> Policy:
    """Return the policy of a spec with the key ``peeking``: with true, one of the visible game that sees all stones.

    In a game with visible stones the key changes nothing.
    """
    from ttt_envs.agents.peeking import Peeking
    from ttt_envs.game.phantom import PhantomGame

    peeks = convert_value(parsed.name, PEEKING, parsed.keyed[PEEKING], bool)
    arguments = _split(spec[len(parsed.name) + 1 :], ",")
    others = [argument for argument in arguments if not argument.startswith(f"{PEEKING}=")]
    rest = type(spec)(f"{parsed.name}:{','.join(others)}" if others else parsed.name)
    if peeks and isinstance(game, PhantomGame):
        return Peeking(game, make_policy(rest, game.game))
    return make_policy(rest, game)


def _no_spec(found: Any) -> str:
    """Return the error message for an object that is neither a policy nor a string."""
    from ttt_envs.game.phantom import AnyGame

    if isinstance(found, AnyGame):
        return f"{found} is a game, where a policy is needed: exchange the game and the policy"
    if callable(found) or hasattr(found, "predict"):
        name = getattr(found, "__name__", type(found).__name__)
        return f"{name} is no policy: wrap it with as_policy, as in ttt_envs.as_policy(function, game)"
    return f"{found!r} is neither a policy nor the name of one: {GRAMMAR}"


def _check_from_file(spec: Spec) -> None:
    """Raise ValueError for specs that files may name only if they are trusted."""
    if trusted():
        return
    if ":" in spec.name:
        raise ValueError(
            f"{truncate(spec.name)!r} was read from a file, and files may name built-in policies only, because others "
            f"can run code: if you trust its author, {TRUSTING}"
        )
    if spec.name in PROGRAMS:
        raise ValueError(
            f"{spec.name} was read from a file, and runs a program, which a file may not name: if you trust its "
            f"author, {TRUSTING}"
        )
    if spec.keyed.get("trust", "false").lower() != "false":
        raise ValueError(
            f"trust={truncate(spec.keyed['trust'])} of {spec.name} was read from a file, which cannot declare "
            f"itself trusted: if you trust its author, {TRUSTING}"
        )


def _unknown(spec: str, name: str) -> str:
    """Return the error message for a spec whose name is neither a policy nor a module."""
    if spec[1:3] in (":/", ":\\"):  # a drive letter
        name = spec
    if {"/", "\\"} & set(name) or Path(name).is_dir():
        return f"there is no policy {name!r}: the learner of a run is written 'run:{spec}'"
    if name in NO_POLICIES:
        return f"{name!r} is no policy: {NO_POLICIES[name]}"
    if name in OTHER_NAMES:
        meant = " or ".join(map(repr, OTHER_NAMES[name]))
        return f"there is no policy {name!r}: did you mean {meant}?"
    first, *rest = name.split()
    if rest and first in POLICIES:
        return f"there is no policy {name!r}: did you mean '{first}:{','.join(rest)}'?"
    is_class = name != spec and spec.removeprefix(f"{name}:").partition(":")[0].isidentifier()
    if is_class and closest_name(name, POLICIES) is None:
        return f"there is no module {name!r} for {spec!r}: put {name}.py into the current folder, or install it"
    return f"there is no policy {name!r}: {closest_or_class(name, POLICIES)}"


def _arguments(spec: Spec, factory: Callable[..., Any]) -> Mapping[str, Any]:
    """Return the arguments of a spec, converted by the factory's signature; its first parameter is the game."""
    parameters = list(inspect.signature(factory, eval_str=True).parameters.values())[1:]
    named = {p.name.replace("_", "-"): p for p in parameters if p.kind is not p.VAR_KEYWORD}
    arguments = dict(spec.keyed)
    if spec.unkeyed is not None:
        if not named:
            raise ValueError(f"{spec.name} takes no arguments: write {spec.name!r} without {spec.unkeyed!r}")
        first = next(iter(named))
        if first in arguments:
            raise ValueError(f"{spec.name}: {first} is given twice, as {spec.unkeyed!r} and as {arguments[first]!r}")
        arguments = {first: spec.unkeyed, **arguments}
    converted = {}
    for key, value in arguments.items():
        parameter = named.get(key.replace("_", "-"))
        if parameter is None:
            if not named:
                raise ValueError(f"{spec.name} takes no arguments: write {spec.name!r} without {key}={value}")
            raise ValueError(f"{spec.name} has no argument {key!r}: {closest_names(key, named)}")
        converted[parameter.name] = convert_value(spec.name, key, value, parameter.annotation)
    for key, parameter in named.items():
        if parameter.default is parameter.empty and parameter.name not in converted:
            given = "".join(f"{each}={value}," for each, value in arguments.items())
            raise ValueError(f"{spec.name} needs its argument {key}: write {spec.name}:{given}{key}=...")
    return converted


class Named:
    """Mixin for policies that are dataclasses of (game, settings...): ``str`` returns their spec string."""

    name: ClassVar[str]

    def __str__(self) -> str:
        changed = []
        for field in dataclasses.fields(self)[1:]:  # type: ignore[arg-type]  # every subclass is a dataclass
            value = getattr(self, field.name)
            if field.init and value != field.default:
                text = str(value).lower() if value is None or isinstance(value, bool) else str(value)
                wrapped = f"({text})" if set(text) & set(",:=()") else text
                changed.append(f"{field.name.replace('_', '-')}={wrapped}")
        return f"{self.name}:{','.join(changed)}" if changed else self.name
