"""Spec strings that name policies, and the registry of built-in policies.

A spec string is ``name[:argument,...]`` with arguments ``[key=]value``, of which only the first may
omit its key; a value that contains ``,`` or ``:`` is enclosed in parentheses::

    random      optimal:epsilon=0.1      run:runs/first
    book:path=b.npz,then=(expectiminimax:depth=4)

Any other name is a module and a user's class in it: ``module:Class`` or
``package.module:Class:key=value`` is called as ``Class(game, key=value)``. It plays by the standard
rules only, unless the class declares others: its attribute ``variants`` lists those of
``game.VARIANTS`` that it supports, and ``plays_hidden = True`` says that it plays phantom games by
views. In place of the class, a function of the game may return a policy, or a function of two
arguments, of which the second has "mask" in its name, may be the agent itself, called as
``as_policy(function, game, key=value)``. Both play any game.

A spec string read from a file is a :class:`FromFile`, which names built-in policies only, unless
files are trusted.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import inspect
import os
import re
import sys
import types
from functools import partial
from typing import Any, ClassVar, Literal, NamedTuple, Union, cast, get_args, get_origin

from ttt_envs.agents.adapters import as_policy
from ttt_envs.agents.policy import Policy, Values, check_game, to_policy
from ttt_envs.core.checks import Refusal, TypeRefusal, closest_names, name_place, quote, truncate
from ttt_envs.core.packages import find_conflict
from ttt_envs.game.game import Game
from ttt_envs.game.phantom import AnyGame, visible

POLICIES: dict[str, str] = {
    "random": "ttt_envs.agents.simple:Random",
    "win-or-block": "ttt_envs.agents.simple:WinOrBlock",
    "optimal": "baselines.exact.optimal:Optimal",
    "expectiminimax": "baselines.expectiminimax:Expectiminimax",
    "table": "baselines.tables:TablePolicy",
    "svd": "baselines.compression:SVD",
    "hosvd": "baselines.compression:HOSVD",
    "hosvd2": "baselines.compression:HOSVD2",
    "hooi": "baselines.compression:HOOI",
    "tt": "baselines.compression:TT",
    "mcts": "baselines.mcts:MCTS",
    "timed": "baselines.timed:Timed",
    "book": "baselines.opening_book:OpeningBook",
    "alpha-zero": "learners.alpha_zero:AlphaZeroSearch",
    "run": "learners.checkpoint:RunPolicy",
    "sb3": "learners.sb3:ZipPolicy",
    "openspiel": "baselines.open_spiel_bots:OpenSpielBot",
    "gomocup": "baselines.gomocup:Gomocup",
}
"""built-in names -> "module:factory", imported on demand and called as ``factory(game,
**arguments)``; what each policy declares are attributes of its class"""

_OTHER_NAMES = {
    "negamax": "expectiminimax",
    "perfect": "optimal",
    "solver": "optimal",
    "uniform": "random",
}
"""other common names -> built-in names that are spelled otherwise"""

_NO_POLICIES = {
    "self": "it is an opponent in training and environments",
    "human": "in play.py, it is you",
}

GRAMMAR = 'write name or name:key=value,..., as in "random" or "run:PATH"'

_AGENTS = (
    "an agent is def agent(observation, mask), or def make(game): return as_policy(agent, game)"
)
"""advice where a function is neither"""

TRUST = "TTT_ENVS_TRUST"
"""the environment variable that, set to 1, trusts every file: files that can run code when loaded,
and classes that files name. The commands' --trust sets it"""
TRUSTING = f"give a command --trust, or set the environment variable {TRUST}=1"
"""advice of messages; the commands replace it by their option"""
MAX_SPEC_LENGTH = 4096
"""Maximum number of characters of a spec string."""
MAX_SPEC_DEPTH = 16
"""Maximum nesting depth of its parentheses."""


class FromFile(str):
    """A string read from a file, hence untrusted.

    As a spec string it names built-in policies only, and so do nested spec strings, at any depth.
    The type survives transfer to other processes. See :data:`TRUST`.
    """

    __slots__ = ()


def from_file(data: Any) -> Any:
    """Convert JSON-ready data read from a file: every string, except keys, becomes a
    :class:`FromFile`.
    """
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


_NESTED = "[^()]*"
for _ in range(MAX_SPEC_DEPTH - 1):
    _NESTED = rf"[^()]*(?:\({_NESTED}\)[^()]*)*"
_ARGUMENT = re.compile(rf"(?:[^(),]|\({_NESTED}\))+")
_KEY_AND_VALUE = re.compile(r"(?:([^(),=]+)=|(?!=))(.*)")
_WRAPPED = re.compile(rf"\A\(({_NESTED})\)\Z")
_FILE = re.compile(r"(.*[\\/])?(?P<module>[^\\/:]+)\.py(:(?P<name>.*))?")


def parse_spec(spec: str) -> Spec:
    """Parse a spec string, without resolving its name. Parts of a :class:`FromFile` are such
    strings too.

    Raises:
        TypeError: not a string.
        ValueError: the string is not a spec.
    """
    if not isinstance(spec, str):
        raise TypeRefusal(f"{spec!r} is no spec string: {GRAMMAR}")
    if len(spec) > MAX_SPEC_LENGTH:  # before expressions search it
        raise Refusal(
            f"{truncate(repr(spec))} is no policy: it has more than {MAX_SPEC_LENGTH} characters"
        )
    name, colon, text = spec.partition(":")
    head, next_colon, tail = text.partition(":")
    if colon and ("." in name or (name and name not in POLICIES and head.isidentifier())):
        name = f"{name}:{head}"  # [package.]module:Class[:arguments]
        colon = next_colon
        text = tail
    arguments = _ARGUMENT.findall(text)
    pairs = [match.groups() for match in map(_KEY_AND_VALUE.fullmatch, arguments) if match]
    keys = [key for key, _ in pairs]
    is_complete = ",".join(arguments) == text and len(pairs) == len(arguments)
    problems = {
        # messages about a spec quote its parts
        "it has several lines": spec != "" and spec.splitlines() != [spec],
        "its name is missing": not re.fullmatch(r"[^()]+", name) or name != name.strip(),
        "its parentheses do not match, or are too deep": _ARGUMENT.sub("", text).strip(",") != "",
        "it has an empty argument": not is_complete or (colon and not arguments),
        "only its first argument may omit the key": None in keys[1:],
        "it gives a key twice": len(set(keys)) < len(keys),
    }
    for problem, is_found in problems.items():
        if is_found:
            raise Refusal(f"{truncate(repr(spec))} is no policy, {problem}: {GRAMMAR}")
    values = {key: _WRAPPED.sub(r"\1", value) for key, value in pairs}
    fields: list[Any] = [name, values.pop(None, None), values]
    return Spec(*from_file(fields)) if isinstance(spec, FromFile) else Spec(*fields)


def load_object(path: str) -> Any:
    """Import the object named by ``"package.module:name"``.

    Raises:
        ValueError: there is no such module or no such name in it, or it is the name of a file, or a
            folder or distribution hides our package.
    """
    module_name, _, name = path.partition(":")
    package = module_name.split(".")[0]
    file = _FILE.fullmatch(path)
    if file:
        spec = f"{file['module']}:{file['name'] or 'NAME'}"
        raise Refusal(f"{path!r} names a file: write {spec}, without .py, in its folder")
    if not package:
        raise Refusal(
            f"{path!r} names no module: write package.module:name, without a dot before it"
        )
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as problem:
        if (problem.name or "").split(".")[0] != package:
            raise  # the module exists, and one of its own imports is missing
        hint = find_conflict() or "is it installed, or in this folder?"
        raise Refusal(f"no module {problem.name!r} for {path!r}: {hint}") from None
    if not hasattr(module, name):
        public = [other for other in vars(module) if not other.startswith("_")]
        raise Refusal(f"the module {module_name} has no {name!r}: {closest_names(name, public)}")
    return getattr(module, name)


_KINDS = {
    types.NoneType: "none",
    bool: "true or false",
    int: "a whole number of 64 bits",
    float: "a number",
}
_WORDS: dict[object, dict[str, object]] = {
    types.NoneType: {"none": None},
    bool: {"true": True, "false": False},
}


def convert_value(name: str, key: str, value: str, kind: Any) -> Any:
    """Convert a value of a spec string to the type in the signature of what it names.

    Raises:
        ValueError: it has another type; the message begins with ``name``.
    """
    is_union = get_origin(kind) in (types.UnionType, Union)  # as in int | None
    rules = []
    for arm in sorted(get_args(kind) if is_union else (kind,), key=lambda arm: arm is str):
        is_literal = get_origin(arm) is Literal
        words: dict[str, object] = (
            {word: word for word in get_args(arm)} if is_literal else _WORDS.get(arm, {})
        )
        word = value if is_literal else value.lower()
        if word in words:
            return words[word]
        if not is_literal and arm not in _KINDS:
            return value
        try:
            if arm is float or (arm is int and -(2**63) <= int(value) < 2**63):
                return arm(value)
        except ValueError:
            pass
        rules.append(f"known, {closest_names(value, words)}" if is_literal else _KINDS[arm])
    raise Refusal(f"{name}: {key}={quote(value)} is not {' or '.join(rules)}")


def make_policy(spec: str | Policy, game: AnyGame) -> Policy:
    """Create the policy named by a spec string, for a game; a policy is returned unchanged.

    Args:
        spec: for example ``"random"``, ``"win-or-block"``, ``"run:runs/first"`` or
            ``"package.module:Class"``; or any object with ``pure`` and ``probabilities``.
        game: the game.

    Raises:
        TypeError: neither a string nor a policy.
        ValueError: the spec is malformed, a name or key is unknown (the message gives the closest
            known one), or a value does not fit; a rule of the game is not supported; in an
            untrusted :class:`FromFile`, the name is not a built-in one.
    """
    if not isinstance(spec, str):
        return to_policy(spec)
    spec_parts = parse_spec(spec)
    kind = _resolve(spec_parts)
    if _is_agent(kind):
        kind = partial(as_policy, kind)
    try:
        if inspect.isclass(kind):
            check_game(spec_parts.name, kind, game)
        arguments = bind_arguments(spec_parts, kind, game)
        return to_policy(kind(*arguments.args, **arguments.kwargs))
    except (TypeError, AttributeError, NameError) as problem:
        # it is no class of policies, or does not fit the game
        raise Refusal(
            f"{spec_parts.name} made no policy of {game}: {type(problem).__name__}: {problem}"
            f"{'; ' + _AGENTS if inspect.isfunction(kind) else ''}"
        ) from problem


def is_built_in(policy: object) -> bool:
    """Return whether the class of a policy is one of :data:`POLICIES` itself: one of the same name
    or module, or derived from it, is not.
    """
    paths = [path.partition(":") for path in POLICIES.values()]
    return any(
        getattr(sys.modules.get(module), name, None) is type(policy) for module, _, name in paths
    )


def _is_agent(kind: object) -> bool:
    """Return whether an object is a function of (observation, mask), by the name of its second
    parameter; others have defaults.
    """
    if not inspect.isfunction(kind):
        return False
    arguments = inspect.getfullargspec(kind)
    required = arguments.args[: len(arguments.args) - len(arguments.defaults or ())]
    return len(required) == 2 and "mask" in required[1]


def make_pure(spec: str | Policy, game: AnyGame) -> Policy:
    """Return the policy of a spec if it is pure, a function of the board.

    Args:
        spec: a spec string or a policy.
        game: the game.

    Raises:
        ValueError: an unknown policy, or one that is not pure.
    """
    policy = make_policy(spec, game)
    if not policy.pure:
        raise Refusal(
            f"{policy} is not pure: its moves depend on more than the board, so it has no exact "
            "result. "
            f"Sample it with evaluate.py match"
        )
    return policy


def make_values(argument: str, spec: str | Policy, game: AnyGame) -> Values:
    """Return the policy of an argument, as :func:`make_policy`, which must have values.

    Raises:
        ValueError: the policy has none, or :func:`make_policy` refuses it.
    """
    policy = make_policy(spec, game)
    if policy.action_values is None:
        raise Refusal(
            f"{argument}={spec} has no values: choose a policy that has, such as optimal or "
            "run:PATH"
        )
    return cast("Values", policy)


def _resolve(spec: Spec) -> Any:
    """Return the class or factory that a spec names.

    Raises:
        ValueError: there is none, or it was read from a file, which may not name it.
    """
    module = spec.name.partition(":")[0]
    is_untrusted = isinstance(spec.name, FromFile) and not trusted()
    if is_untrusted and ":" in spec.name:
        raise _distrust(
            spec.name, "which may name built-in policies only, because others can run code"
        )
    if is_untrusted and spec.keyed.get("trust", "false").lower() != "false":
        raise _distrust(f"trust={spec.keyed['trust']}", "which cannot declare itself trusted")
    if spec.name in POLICIES:
        kind = load_object(POLICIES[spec.name])
        if is_untrusted and kind.runs_program:
            raise _distrust(spec.name, "which may not name what runs a program")
        return kind
    path = spec.name
    if len(spec.name) == 1 and spec.unkeyed:  # a drive
        path = f"{spec.name}:{spec.unkeyed}"
    if _FILE.fullmatch(path):
        return load_object(path)  # which names the module
    if {"/", "\\"} & set(path) or os.path.isdir(path):
        raise Refusal(f"there is no policy {path!r}: the learner of a run is written 'run:{path}'")
    # find_spec raises ValueError for an imported module without a specification, such as the
    # __main__ of a script
    if ":" in spec.name and (
        "." in module or module in sys.modules or importlib.util.find_spec(module) is not None
    ):
        return load_object(spec.name)
    kinds = "policy and no module" if ":" in spec.name else "policy"
    names = [*POLICIES]
    if module.partition(" ")[0] in POLICIES:
        names.append(module.replace(" ", ":", 1))
    hint = _NO_POLICIES.get(module) or closest_names(_OTHER_NAMES.get(module, module), names)
    raise Refusal(f"there is no {kinds} {module!r}: {hint}")


def _distrust(value: str, rule: str) -> Refusal:
    return Refusal(
        f"{truncate(value)!r} was read from a file, {rule}: if you trust its author, {TRUSTING}"
    )


def bind_arguments(spec: Spec, function: Any, first: Any) -> inspect.BoundArguments:
    """Return the arguments of a function: ``first``, and those of a spec, converted to the types of
    its signature.

    Raises:
        ValueError: it does not take these arguments.
    """
    with name_place(spec.name, (ValueError,)):  # a class of another language has no signature
        signature = inspect.signature(function, eval_str=True)
    parameters = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
    if parameters and parameters[0].annotation in (Game, "Game"):
        first = visible(first)  # it plays views as boards of the visible game
    keyed = {key.replace("-", "_"): value for key, value in spec.keyed.items()}
    unkeyed = () if spec.unkeyed is None else (spec.unkeyed,)
    try:
        arguments = inspect.Signature(parameters).bind(first, *unkeyed, **keyed)
    except TypeError as problem:
        keys = [p.name.replace("_", "-") for p in parameters[1:]]
        unknown = [key for key in spec.keyed if key.replace("_", "-") not in keys]
        required = [p.name.replace("_", "-") for p in parameters[1:] if p.default is p.empty]
        hint = f"write {spec.name}:{','.join(f'{key}=...' for key in required)}"
        if inspect.isfunction(function):
            hint = f"{_AGENTS}; for another parameter {hint}"
        if not keys:
            hint = "write its name alone"
        elif unknown:
            hint = closest_names(unknown[0], keys)
        raise Refusal(f"{spec.name} does not take these arguments, {problem}: {hint}") from None
    for p in parameters[1:]:
        if p.name in arguments.arguments:
            key = p.name.replace("_", "-")
            value = arguments.arguments[p.name]
            arguments.arguments[p.name] = convert_value(spec.name, key, value, p.annotation)
    return arguments


def wrap(text: str) -> str:
    """Return an argument of a spec string, in parentheses if it is empty or has punctuation of its
    own.
    """
    return f"({text})" if not text or set(text) & set(",:=()") else text


class Named(Policy):
    """Base of policies that are dataclasses of (game, settings...): ``str`` returns their spec
    string.
    """

    name: ClassVar[str]

    def __str__(self) -> str:
        arguments = []
        for field in dataclasses.fields(self)[1:]:  # type: ignore[arg-type]  # every subclass is a dataclass
            value = getattr(self, field.name)
            if field.init and value != field.default:
                text = str(value)
                if value is None or isinstance(value, bool):
                    text = text.lower()
                arguments.append(f"{field.name.replace('_', '-')}={wrap(text)}")
        return f"{self.name}:{','.join(arguments)}" if arguments else self.name
