"""Adapters that turn external functions and models, which see observations and not boards, into
policies.

torch, Keras and Stable-Baselines3 models are recognised by their types; none of these libraries is
imported before.
"""

from __future__ import annotations

import inspect
import operator
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from ttt_envs.agents.observations import DType, Observation, ObservationBuilder, map_parts
from ttt_envs.agents.policy import Policy, note_question, to_policy
from ttt_envs.agents.wrappers import SampledPolicy
from ttt_envs.core.checks import Refusal, TypeRefusal, check_choice
from ttt_envs.core.jit import BoolArray, Float64Array, Int8Array
from ttt_envs.game.actions import num_actions, spread_over_cells
from ttt_envs.game.boards import Boards
from ttt_envs.game.phantom import AnyGame

Returns = Literal["actions", "values", "logits", "probabilities"]
Opponent = str | Policy | Any
"""opponents that environments accept: also functions, networks, and models of Stable-Baselines3"""


Function = Callable[[Any, Int8Array], object]
"""of observations and masks int8[actions], of one position or a batch"""


@dataclass(frozen=True)
class CallableAgent(Policy):
    """A function wrapped as a policy: see :func:`as_policy`."""

    game: AnyGame
    function: Function
    builder: ObservationBuilder
    returns: Returns
    batch: bool
    name: str

    colour_blind = True

    def __str__(self) -> str:
        return self.name

    def probabilities(self, boards: Boards, rng: np.random.Generator | None = None) -> Float64Array:
        """Return float64[B, cells]: one-hot for the chosen action, or from the function's output
        for legal actions.

        Raises:
            TypeError, ValueError: the function's output has the wrong type, shape or values.
        """
        output, legal = self._call(boards)
        shares = (
            np.eye(legal.shape[1])[output]
            if self.returns == "actions"
            else self._to_shares(output, legal)
        )
        return spread_over_cells(self.game, boards.cells, shares)

    def illegal_mass(self, boards: Boards) -> Float64Array:
        """Return float64[B]: the probability of illegal moves before they are masked; 0 for a
        function of actions.

        Of values it is the share of illegal moves among those of highest value. What
        :meth:`probabilities` accepts is accepted here: the output for an illegal action may be NaN,
        or a probability below 0, and then counts as none.
        """
        output, legal = self._call(boards)
        if self.returns == "actions":
            return np.zeros(len(output))
        counts = legal | ((output >= 0) if self.returns == "probabilities" else ~np.isnan(output))
        return np.asarray(np.where(legal, 0, self._to_shares(output, counts)).sum(axis=1))

    def _call(self, boards: Boards) -> tuple[NDArray[Any], BoolArray]:
        """Return the function's checked output for all positions, and the legal actions bool[B,
        actions].
        """
        observations, mask = self.builder.observe(boards)
        legal = mask == 1
        count, num = mask.shape
        is_action = self.returns == "actions"
        shape = () if is_action else (num,)
        if not count:
            return np.zeros((0, *shape), np.int64), legal
        if self.batch:
            output = _to_array(
                self.function(observations, mask), self.name, self.returns, (count, *shape)
            )
        else:
            answers = []
            for b in range(count):
                with note_question(self, self.game, boards.take(np.array([b]))):
                    row = map_parts(operator.itemgetter(b), observations), mask[b].copy()
                    answers.append(_to_array(self.function(*row), self.name, self.returns, shape))
            output = np.stack(answers)
        if not is_action:
            return output.astype(np.float64), legal
        is_legal = legal[np.arange(count), output.clip(0, num - 1)]
        errors = np.flatnonzero((output < 0) | (output >= num) | ~is_legal)
        if len(errors):
            with note_question(self, self.game, boards.take(errors[:1])):
                raise Refusal(
                    f"{self.name} chose the illegal action {output[errors[0]]}: obey the mask of "
                    f"{num} actions, or return values or logits of all actions and set returns=, "
                    "in a spec as in file:agent:returns=values"
                )
        return output, legal

    def _to_shares(self, numbers: Float64Array, support: BoolArray) -> Float64Array:
        """Return the distribution float64[B, actions] over the actions of the support, of values,
        logits or probabilities.
        """
        if self.returns == "probabilities":
            weights = np.where(support, numbers, 0.0)
        else:
            numbers = np.where(support, numbers, -np.inf)
            best = numbers.max(axis=1, keepdims=True)
            best = np.where(np.isfinite(best), best, np.nan)
            weights = (
                np.exp(numbers - best)
                if self.returns == "logits"
                else np.where(numbers == best, 1.0, 0.0)
            )
        total = weights.sum(axis=1, keepdims=True)
        if not ((weights >= 0).all() and (total > 0).all() and np.isfinite(total).all()):
            rule = (
                "0 or more, with a sum above 0"
                if self.returns == "probabilities"
                else "finite, or -inf for some"
            )
            raise Refusal(
                f"{self.name} returned {self.returns} that are invalid for legal actions: return "
                f"{rule}"
            )
        return np.asarray(weights / total)


def as_policy(
    function: Any,
    game: AnyGame,
    observation: Observation | None = None,
    returns: Returns = "actions",
    *,
    batch: bool = False,
    dtype: DType = "float32",
    observe_skip_chance: bool | None = None,
    samples: int | None = None,
    seed: int = 0,
) -> Policy:
    """Wrap a function or model of any framework as a policy: for matches, exact evaluation, and as
    an opponent.

    Args:
        function: maps observations to outputs, deterministically unless it is given ``samples``:

            - a function of (observation, mask) or of (observation), with mask int8[actions], 1
              where an action is legal; it receives arrays, and may return those of any library;
            - a torch module, or a method of one. It receives tensors on its device and of its type,
              the mask as bool, and runs in evaluation mode without gradients; its mode is restored
              afterwards;
            - a Keras model, called with ``training=False`` and the observation;
            - a model of Stable-Baselines3 or sb3-contrib, or its policy. It plays its best legal
              action, whether or not it was trained with masks, and sees observations as normalised
              by its VecNormalize;
            - any other model with a method ``predict``, which is called with batches of
              observations, and with ``deterministic=True`` if it has that argument;
            - a policy of this package, or an object with ``pure`` and ``probabilities``, which is
              returned unchanged, or as frequencies if it is not pure and there are ``samples``.
        game: the game to play.
        observation, dtype: the observation, as in ``SingleEnv``; by default what a model with an
            ``observation_space`` was trained with, else ``"flat"``.
        returns: ``"actions"`` legal actions, of cells, or with gravity of columns; ``"values"``
            [actions], of which the best legal one is played, with equal shares for ties;
            ``"logits"`` or ``"probabilities"`` [actions], which are masked. For a Stable-Baselines3
            model the last two use its action distribution. A pair (output, None), as models without
            memory return it, counts as the output.
        batch: whether a function takes and returns batches, [B, ...] each; networks and models
            always do.
        observe_skip_chance: whether observations show the skip chance of ``game``, as in
            ``SingleEnv``; by default as a model with an ``observation_space`` was trained, else
            False.
        samples: for a random agent, the number of times that it is asked in each position: the
            policy has the frequencies of its answers, so that it is pure, and measured exactly.
            The generators of ``random``, ``numpy.random`` and torch are seeded for each position;
            the exact numbers are those of the frequencies, not of the agent with infinitely many
            samples. None for a deterministic agent.
        seed: of the samples.

    Raises:
        TypeError: none of the above.
        ValueError: an option is unknown or out of range, or the model needs another observation, or
            its space fits several.
    """
    check_choice("returns", returns, get_args(Returns))
    if isinstance(function, AnyGame) or not isinstance(game, AnyGame):
        raise TypeRefusal(
            "as_policy takes the function first and the game second: write as_policy(function, "
            "game)"
        )
    if samples is not None:
        policy = as_policy(
            function,
            game,
            observation,
            returns,
            batch=batch,
            dtype=dtype,
            observe_skip_chance=observe_skip_chance,
        )
        return SampledPolicy(policy, samples, seed)
    if hasattr(function, "probabilities"):
        return to_policy(function)
    name = _name(function)
    builder = _make_observation_builder(
        function, name, game, observation, dtype, observe_skip_chance
    )
    call = _adapt_net(function, name, "actions" if returns in ("actions", "values") else "logits")
    if call is None:
        if not callable(function):
            raise TypeRefusal(
                f"{function!r} is neither a function of (observation, mask) nor a model that is "
                "known here"
            )
        takes_mask = _takes_mask(function, name, star=True)
        call = function if takes_mask else lambda observations, masks: function(observations)
        return CallableAgent(game, call, builder, returns, batch, name)
    if _sb3_policy(function, name) is not None:
        returns = "values" if returns in ("actions", "values") else "logits"
    return CallableAgent(game, call, builder, returns, True, name)


def as_value_function(
    critic: object,
    game: AnyGame,
    observation: Observation | None = None,
    *,
    dtype: DType = "float32",
    observe_skip_chance: bool | None = None,
) -> Callable[[Boards], Float64Array]:
    """Wrap a critic of any framework as a function of positions.

    Args:
        critic: an object with a method ``values(boards)``, such as a learner; a torch module, a
            method of one, or a Keras model, which gives a value for each observation, [B] or [B,
            1]; a model of Stable-Baselines3 or its policy: ``predict_values`` of an actor-critic,
            the highest value of a legal action of DQN; or a function of ``Boards``.
        game: the game.
        observation, dtype, observe_skip_chance: the critic's observation, as for :func:`as_policy`.

    Returns:
        A function of ``Boards`` that returns float64[B], values for the mover. It raises ValueError
        for an output of another shape.

    Raises:
        TypeError: none of the above.
        ValueError: an option is unknown, or the critic needs another observation.
    """
    name = _name(critic)
    function = getattr(critic, "values", critic)
    net = _adapt_net(critic, name, "states") if function is critic else None
    if net is not None:
        builder = _make_observation_builder(
            critic, name, game, observation, dtype, observe_skip_chance
        )
        function = partial(_observe_and_call, net, builder)
    if not callable(function):
        raise TypeRefusal(
            f"{critic!r} is no critic: give a function of Boards, a net, or an object with "
            "values(boards)"
        )
    return partial(_values_of_boards, name, function)


def _observe_and_call(function: Function, builder: ObservationBuilder, boards: Boards) -> object:
    return function(*builder.observe(boards))


def _values_of_boards(name: str, function: Callable[[Boards], Any], boards: Boards) -> Float64Array:
    """Return one value for each position, float64[B]."""
    return _to_array(function(boards), name, "values", (len(boards.mover),)).astype(np.float64)


def _to_array(output: Any, name: str, returns: Returns, shape: tuple[int, ...]) -> NDArray[Any]:
    """Convert an output to an array of a shape, which may have an axis of 1 behind it.

    Torch tensors may need to be detached, moved and converted for numpy.

    Raises:
        TypeError, ValueError: the output is no array of this shape and of a type that fits.
    """
    if isinstance(output, tuple) and len(output) == 2 and output[1] is None:
        output = output[0]  # without the state of a memory
    if hasattr(output, "detach"):
        output = output.detach().cpu()
        output = output.double() if output.is_floating_point() else output
    try:
        array = np.asarray(output)
    except (TypeError, ValueError, RuntimeError):
        array = np.asarray(None)
    if array.dtype.kind not in ("iu" if returns == "actions" else "biuf"):
        kind = "integers" if returns == "actions" else "numbers"
        raise TypeRefusal(
            f"{name} returned a {type(output).__name__} of {array.dtype}, no {returns}: return "
            f"{kind}, or set returns="
        )
    if array.shape not in (shape, (*shape, 1)):
        raise Refusal(
            f"{name} returned {returns} of shape {array.shape}, not {shape}: set returns= or batch="
        )
    return array.reshape(shape)


def _make_observation_builder(
    function: Any,
    name: str,
    game: AnyGame,
    observation: Observation | None,
    dtype: DType,
    shows_skip: bool | None,
) -> ObservationBuilder:
    """Return the observations of a function; by default those that a model was trained with.

    Raises:
        ValueError: the model needs another observation, or several fit, or it has other actions.
    """
    space = getattr(function, "observation_space", None)
    if space is None:
        return ObservationBuilder(game, observation or "flat", dtype, bool(shows_skip))
    actions = getattr(getattr(function, "action_space", None), "n", num_actions(game))
    kinds = get_args(Observation) if observation is None else (observation,)
    choices = (False, True) if shows_skip is None else (shows_skip,)
    builders = [
        ObservationBuilder(game, kind, "float32", choice) for kind in kinds for choice in choices
    ]
    shape_of = operator.attrgetter("shape")
    shape = map_parts(shape_of, space)
    fitting = [
        builder for builder in builders if map_parts(shape_of, builder.observation_space) == shape
    ]
    if len(fitting) != 1 or actions != num_actions(game):
        raise Refusal(
            f"{name} sees observations of shape {shape} and has {actions} actions: {len(fitting)} "
            "kinds "
            f"of observations of {game} have this shape: choose the game of its training, and its "
            "observation="
        )
    return ObservationBuilder(game, fitting[0].kind, dtype, fitting[0].observe_skip_chance)


# --------------------------------------------------------------------------------------------------
# Adapters to functions of (observations, masks)


def _adapt_net(
    net: Any, name: str, returns: Literal["actions", "logits", "states"]
) -> Function | None:
    """Return the adapter of a net, a model of Stable-Baselines3 or one with ``predict``, None for
    anything else.
    """
    policy = _sb3_policy(net, name)
    if policy is not None:
        if returns == "logits" and not hasattr(policy, "get_distribution"):
            raise Refusal(f"{name} has values and no distribution: write returns='actions'")
        return partial(_call_sb3, net, policy, returns)
    owner = getattr(net, "__self__", net)
    if _is_a(owner, "torch.nn", "Module"):
        return partial(
            _call_torch, net, owner, _takes_mask(getattr(net, "forward", net), name, star=False)
        )
    if any(_is_a(net, package, "Model") for package in ("keras", "tf_keras")):
        return lambda observations, masks: net(observations, training=False)
    if returns != "states" and not callable(net) and hasattr(net, "predict"):
        return partial(_call_predict, net.predict)
    return None


def _takes_mask(function: Any, name: str, *, star: bool) -> bool:
    """Return whether a function of observations takes masks as its second argument; ``star``:
    whether ``*args`` does.

    Raises:
        TypeError: the function needs other arguments.
    """
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # compiled functions may have no signature
        return star
    required = [
        p
        for p in parameters
        if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    ]
    places = [p for p in parameters if p.kind not in (p.KEYWORD_ONLY, p.VAR_KEYWORD)][:2]
    if not places or len(required) > 2 or any(p not in places for p in required):
        raise TypeRefusal(
            f"{name} cannot be called: give a function of (observation, mask) or of (observation)"
        )
    last = places[-1]
    if last.kind is last.VAR_POSITIONAL:
        return star
    return len(places) == 2 and (last in required or "mask" in last.name.lower())


def _call_predict(predict: Any, observations: object, masks: Int8Array) -> object:
    """Call the method of a model that is named ``predict``, without exploration where that is an
    argument.
    """
    keywords = (
        {"deterministic": True} if "deterministic" in inspect.signature(predict).parameters else {}
    )
    return predict(observations, **keywords)


def _call_torch(
    function: Any, module: Any, takes_mask: bool, observations: Any, masks: Int8Array
) -> Any:
    """Call a torch module, or a method of one."""
    import torch

    weights = (weight for part in (module.parameters(), module.buffers()) for weight in part)
    like = next((weight for weight in weights if weight.is_floating_point()), torch.zeros(0))

    def tensor(array: Any) -> Any:
        return torch.as_tensor(
            array, device=like.device, dtype=like.dtype if array.dtype.kind == "f" else None
        )

    with _in_eval_mode(module):
        if takes_mask:
            return function(map_parts(tensor, observations), tensor(masks == 1))
        return function(map_parts(tensor, observations))


def _call_sb3(
    model: Any, policy: Any, returns: str, observations: object, masks: Int8Array
) -> object:
    """Return the action values or the logits of a Stable-Baselines3 model, or for "states" one
    value for each.
    """
    normalizing = model.get_vec_normalize_env() if hasattr(model, "get_vec_normalize_env") else None
    if normalizing is not None:
        observations = normalizing.normalize_obs(observations)
    with _in_eval_mode(policy):
        tensors = policy.obs_to_tensor(observations)[0]
        if hasattr(policy, "q_net"):
            q = policy.q_net(tensors)
            return (
                q.masked_fill(q.new_tensor(masks) == 0, -np.inf).max(dim=1).values
                if returns == "states"
                else q
            )
        if returns == "states":
            return policy.predict_values(tensors)
        return policy.get_distribution(tensors).distribution.logits


def _sb3_policy(model: Any, name: str) -> Any:
    """Return the policy of a Stable-Baselines3 model, or the policy passed in; None for anything
    else.

    Raises:
        ValueError: the policy is recurrent.
    """
    policy = getattr(model, "policy", model)
    is_sb3 = _is_a(policy, "torch.nn", "Module") and hasattr(policy, "obs_to_tensor")
    # of DQN; a QNetwork has a q_net, too, which takes no observations
    if not is_sb3 or not (hasattr(policy, "q_net_target") or hasattr(policy, "get_distribution")):
        return None
    if hasattr(policy, "lstm_actor"):
        raise Refusal(
            f"{name} has a memory: its moves depend on more than the board, so it is no policy"
        )
    return policy


@contextmanager
def _in_eval_mode(module: Any) -> Iterator[None]:
    """Put a torch module into evaluation mode without gradients; its mode is restored on exit."""
    import torch

    before = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for part, training in before:
            part.training = training


def _name(thing: object) -> str:
    return str(getattr(thing, "__name__", type(thing).__name__))


def _is_a(thing: object, library: str, kind: str) -> bool:
    """Return whether an object is of a class of a library, which must be imported already for
    that.
    """
    return isinstance(thing, getattr(sys.modules.get(library), kind, ()))
