"""Adapters that turn external functions and models, which see observations and not boards, into policies.

torch, Keras and Stable-Baselines3 models are recognised by their types; none of these libraries is imported before.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from gymnasium import spaces

from ttt_envs.agents.observations import Context, DType, Observation, ObservationBuilder
from ttt_envs.agents.policy import Policy, best_shares
from ttt_envs.core.checks import check_choice
from ttt_envs.core.jit import Float64Array, Int8Array
from ttt_envs.game.actions import legal_actions, num_actions, spread_over_cells
from ttt_envs.game.boards import Boards
from ttt_envs.game.phantom import AnyGame

Returns = Literal["actions", "values", "logits", "probabilities"]
Opponent = str | Policy | Any
"""opponents that environments accept: also functions, networks, and models with ``predict``"""


@dataclass(frozen=True)
class CallableAgent:
    """A function wrapped as a policy: see :func:`as_policy`."""

    game: AnyGame
    function: Callable[[Any, Int8Array], Any]
    builder: ObservationBuilder
    returns: Returns
    batch: bool | int
    name: str

    pure = True
    colour_blind = True

    def __str__(self) -> str:
        return self.name

    def probabilities(self, boards: Boards, rng: np.random.Generator | None = None) -> Float64Array:
        """Return float64[B, cells]: one-hot for the chosen action, or from the function's output for legal actions.

        Raises:
            TypeError, ValueError: the function's output has the wrong type, shape or values.
        """
        planes, mask = _planes(boards), legal_actions(self.game, boards.cells).astype(np.int8)
        if not len(mask):
            return np.zeros(boards.cells.shape)
        answer = self._answers(planes, mask)
        shares = self._of_actions(answer, mask) if self.returns == "actions" else self._of_numbers(answer, mask)
        return spread_over_cells(self.game, boards.cells, shares)

    def observe(self, boards: Boards) -> tuple[Any, Int8Array]:
        """Return the observations and masks int8[B, actions] of positions."""
        mask = legal_actions(self.game, boards.cells).astype(np.int8)
        return self.builder.build(_planes(boards), mask), mask

    def illegal_mass(self, boards: Boards) -> Float64Array:
        """Return float64[B]: the probability of illegal moves before they are masked; 0 for a function of actions.

        Of values it is the share of illegal moves among those of highest value.
        """
        if self.returns == "actions" or not len(boards.mover):
            return np.zeros(len(boards.mover))
        mask = legal_actions(self.game, boards.cells).astype(np.int8)
        numbers = self._answers(_planes(boards), mask).astype(np.float64)
        numbers = np.where((mask == 0) & np.isnan(numbers), -np.inf, numbers)
        if self.returns == "probabilities":
            weights = np.maximum(numbers, 0.0)
        elif self.returns == "values":
            weights = best_shares(numbers)
        else:
            weights = np.exp(numbers - numbers.max(axis=1, keepdims=True))
        return np.asarray(np.where(mask == 0, weights, 0.0).sum(axis=1) / weights.sum(axis=1))

    def _answers(self, planes: Int8Array, mask: Int8Array) -> np.ndarray[Any, Any]:
        """Return the function's outputs for all positions."""
        return self._in_batches(planes, mask) if self.batch else self._one_by_one(planes, mask)

    def _in_batches(self, planes: Int8Array, mask: Int8Array) -> np.ndarray[Any, Any]:
        """Return the outputs for all positions, in one batch or in batches of fixed size; the last one is padded."""
        count = len(mask)
        size = count if self.batch is True else self.batch
        answers = []
        for start in range(0, count, size):
            rows = np.minimum(np.arange(start, start + size), count - 1)
            answer = _to_array(
                self.function(self.builder.build(planes[rows], mask[rows]), mask[rows]), self.name, self.returns
            )
            self._check_shape(answer.shape, (size, *self._shape))
            answers.append(answer)
        return np.concatenate(answers)[:count]

    def _one_by_one(self, planes: Int8Array, mask: Int8Array) -> np.ndarray[Any, Any]:
        """Return the outputs of a function that takes one position at a time."""
        shown, masks = self.builder.build(planes, mask), mask.copy()
        outputs = (self.function(_row(shown, b), masks[b]) for b in range(len(mask)))
        answers = [_to_array(output, self.name, self.returns) for output in outputs]
        shapes = {one.shape for one in answers}
        if len(shapes) > 1:
            raise ValueError(f"{self.name} returned {self.returns} of different shapes, {sorted(shapes)}")
        self._check_shape(answers[0].shape, self._shape)
        return np.stack(answers)

    @property
    def _shape(self) -> tuple[int, ...]:
        """Shape of the output for one position."""
        return () if self.returns == "actions" else (num_actions(self.game),)

    def _check_shape(self, got: tuple[int, ...], fits: tuple[int, ...]) -> None:
        if got != fits:
            raise ValueError(
                f"{self.name} returned {self.returns} of shape {got}, not {fits}: "
                f"set as_policy(..., returns=..., batch=...) accordingly"
            )

    def _of_actions(self, actions: np.ndarray[Any, Any], mask: Int8Array) -> Float64Array:
        if actions.dtype.kind not in "iu":
            raise TypeError(f"{self.name} returned actions of type {actions.dtype}: an action is a whole number")
        rows = np.arange(len(actions))
        wrong = (actions < 0) | (actions >= mask.shape[1])
        wrong[~wrong] = mask[rows[~wrong], actions[~wrong]] == 0
        if wrong.any():
            raise ValueError(
                f"{self.name} chose the illegal action {actions[wrong][0]}: it must choose where the mask is 1, "
                f"or return logits or probabilities, which are masked"
            )
        shares = np.zeros(mask.shape)
        shares[rows, actions] = 1
        return shares

    def _of_numbers(self, numbers: np.ndarray[Any, Any], mask: Int8Array) -> Float64Array:
        legal = mask == 1
        if numbers.dtype.kind in "OSUM":
            raise TypeError(f"{self.name} returned {self.returns} of type {numbers.dtype}: they must be numbers")
        numbers = numbers.astype(np.float64)
        if np.isnan(numbers[legal]).any() or np.isposinf(numbers[legal]).any():
            raise ValueError(f"{self.name} returned {self.returns} that are NaN or infinite for legal actions")
        if self.returns == "probabilities":
            numbers = np.where(legal, numbers, 0)
            if (numbers < 0).any():
                raise ValueError(f"{self.name} returned probabilities below 0 for legal actions")
        else:
            best = np.where(legal, numbers, -np.inf).max(axis=1, keepdims=True)
            if np.isneginf(best).any():
                raise ValueError(f"{self.name} returned {self.returns} of -inf for all legal actions of a position")
            if self.returns == "values":
                return best_shares(np.where(legal, numbers, np.nan))
            numbers = np.exp(np.where(legal, numbers, -np.inf) - best)
        total = numbers.sum(axis=1, keepdims=True)
        if (total == 0).any():
            raise ValueError(f"{self.name} returned probabilities of 0 for all legal actions of a position")
        return np.asarray(numbers / total)


def as_policy(
    function: Any,
    game: AnyGame,
    observation: Observation | None = None,
    returns: Returns = "actions",
    *,
    batch: bool | int | None = None,
    dtype: DType = "float32",
    context: Context | None = None,
) -> Policy:
    """Wrap a function or model of any framework as a policy: for matches, exact evaluation, and as an opponent.

    Args:
        function: maps observations to outputs, deterministically:

            - a function of (observation, mask) or of (observation), with mask int8[actions], 1 where an action is
              legal; it receives arrays, and may return those of any library;
            - a torch module, or a method of one. It receives tensors on its device and of its type, the mask as bool,
              and runs in evaluation mode without gradients; its mode is restored afterwards;
            - a Keras model, called with ``training=False`` and the observation;
            - a model of Stable-Baselines3 or sb3-contrib, or its policy. It plays its best legal action, whether or
              not it was trained with masks, and sees observations as normalised by its VecNormalize;
            - any other model with ``predict(observations)``, which must return actions (``deterministic=True`` and
              ``action_masks`` are passed if it accepts them);
            - a policy of this package, which is returned unchanged.
        game: the game to play.
        observation, dtype: the observation, as in ``SingleEnv``; by default what a model with an
            ``observation_space`` was trained with, else ``"flat"``.
        returns: ``"actions"`` legal actions, of cells, or with gravity of columns; ``"values"`` [actions], of which the
            best legal one is played, with equal shares for ties; ``"logits"`` or ``"probabilities"`` [actions], which
            are masked. For a Stable-Baselines3 model the last two use its action distribution.
        batch: whether the function takes and returns batches, [B, ...] each; by default networks and models do,
            functions do not. A number is a fixed batch size, useful for compiled functions; the last batch is padded.
        context: whether observations show the skip chance of ``game``, as in ``SingleEnv``; by default as a model with
            an ``observation_space`` was trained, else ``"hidden"``.

    Raises:
        TypeError: none of the above.
        ValueError: an option is unknown, or the model needs another observation, or its space fits several.
    """
    check_choice("returns", returns, get_args(Returns))
    if isinstance(function, AnyGame) or not isinstance(game, AnyGame):
        raise TypeError("as_policy takes the function first and the game second: write as_policy(function, game)")
    if isinstance(function, Policy):
        return function
    name = getattr(function, "__name__", type(function).__name__)
    builder = _make_observation_builder(function, name, game, observation, dtype, context)
    if not (batch is None or isinstance(batch, bool) or (isinstance(batch, int) and batch > 0)):
        raise ValueError(f"batch={batch!r} is no size of batches: choose True, False, or a number above 0")
    asked, returns, batched = _inspect_callable(function, name, returns)
    if batched and batch is not None and not batch:
        raise ValueError(f"batch=False does not work for {name}: nets and models take batches")
    return CallableAgent(game, asked, builder, returns, batched if batch is None else batch, name)


def as_value_function(
    critic: Any,
    game: AnyGame,
    observation: Observation | None = None,
    *,
    dtype: DType = "float32",
    context: Context | None = None,
) -> Callable[[Boards], Float64Array]:
    """Wrap a critic of any framework as a function of positions.

    Args:
        critic: an object with a method ``values(boards)``, such as a learner; a torch module, a method of one, or a
            Keras model, which gives a value for each observation, [B] or [B, 1]; a model of Stable-Baselines3 or its
            policy: ``predict_values`` of an actor-critic, the highest value of a legal action of DQN; or a function of
            ``Boards``.
        game: the game.
        observation, dtype, context: the critic's observation, as for :func:`as_policy`.

    Returns:
        A function of ``Boards`` that returns float64[B], values for the mover. It raises ValueError for an output of
        another shape.

    Raises:
        TypeError: none of the above.
        ValueError: an option is unknown, or the critic needs another observation.
    """
    if callable(getattr(critic, "values", None)):
        return _Critic(lambda boards: critic.values(boards), type(critic).__name__)
    name = getattr(critic, "__name__", type(critic).__name__)
    policy, owner = _sb3_policy(critic, name), getattr(critic, "__self__", critic)
    if policy is not None:
        function: Any = _SB3(critic, policy, returns="values")
    elif _is_module(owner):
        function = _Torch(critic, owner, _takes_mask(getattr(critic, "forward", critic), name, star=False))
    elif any(_is_a(critic, package, "Model") for package in ("keras", "tf_keras")):
        function = _Keras(critic)
    elif callable(critic):
        return _Critic(critic, name)
    else:
        raise TypeError(f"{critic!r} is no critic: give a function of Boards, a net, or an object with values(boards)")
    builder = _make_observation_builder(critic, name, game, observation, dtype, context)

    def values(boards: Boards) -> Any:
        mask = legal_actions(game, boards.cells).astype(np.int8)
        return function(builder.build(_planes(boards), mask), mask)

    return _Critic(values, name)


@dataclass(frozen=True)
class _Critic:
    """A function of positions that gives one value for each."""

    function: Callable[[Boards], Any]
    name: str

    def __str__(self) -> str:
        return self.name

    def __call__(self, boards: Boards) -> Float64Array:
        answer = _to_array(self.function(boards), self.name, "values")
        count = len(boards.mover)
        if answer.shape not in ((count,), (count, 1)):
            raise ValueError(
                f"{self.name} returned values of shape {answer.shape} for {count} positions, not {(count,)} or "
                f"{(count, 1)}: it must give one value for each"
            )
        return answer.astype(np.float64).reshape(count)


def _planes(boards: Boards) -> Int8Array:
    """Return int8[B, 2, cells]: the mover's stones, then the other player's."""
    seen = boards.own_first()
    return np.stack([seen == 1, seen == 2], axis=1).astype(np.int8)


def _to_array(answer: Any, name: str, returns: str) -> np.ndarray[Any, Any]:
    """Convert an output to an array; torch tensors may need to be detached, moved and converted for numpy."""
    if hasattr(answer, "detach"):
        answer = answer.detach().cpu()
        answer = answer.double() if answer.is_floating_point() else answer
    try:
        return np.asarray(answer)
    except (TypeError, ValueError, RuntimeError):
        raise TypeError(
            f"{name} returned a {type(answer).__name__} that is no array: hand in a function that returns "
            f"the {returns} and nothing else"
        ) from None


def _make_observation_builder(
    function: Any, name: str, game: AnyGame, observation: Observation | None, dtype: DType, context: Context | None
) -> ObservationBuilder:
    """Return the observations of a function; by default those that a model was trained with.

    Raises:
        ValueError: the model needs another observation, or has other actions.
    """
    space = getattr(function, "observation_space", None)
    kind, shown = _find_observation(space, game, observation, context, name)
    builder = ObservationBuilder(game, kind, dtype, shown)
    if space is not None and _space_shape(space) != _space_shape(builder.observation_space):
        raise ValueError(
            f"{name} sees observations of shape {_space_shape(space)}, but observation={builder.kind!r} of {game} has "
            f"{_space_shape(builder.observation_space)}: choose the observation of its training"
        )
    actions = getattr(getattr(function, "action_space", None), "n", None)
    if actions is not None and actions != num_actions(game):
        raise ValueError(
            f"{name} has {actions} actions, but {game} has {num_actions(game)}: choose the game of its training"
        )
    return builder


def as_opponent(
    opponent: Opponent, game: AnyGame, observation: Observation, dtype: DType, context: Context = "hidden"
) -> str | Policy:
    """Convert an environment's ``opponent``: functions and models become policies with the caller's observation."""
    if isinstance(opponent, (str, Policy)) or not (callable(opponent) or hasattr(opponent, "predict")):
        return opponent  # also anything unknown, which make_policy rejects
    return as_policy(opponent, game, observation, dtype=dtype, context=context)


# ---------------------------------------------------------------------------------------------------------------------
# Adapters to functions of (observations, masks)


def _inspect_callable(
    function: Any, name: str, returns: Returns
) -> tuple[Callable[[Any, Int8Array], Any], Returns, bool]:
    """Return the adapter, the kind of its output, and whether it takes batches."""
    if (policy := _sb3_policy(function, name)) is not None:
        if returns in ("logits", "probabilities"):
            if not hasattr(policy, "get_distribution"):
                raise ValueError(f"returns={returns!r} does not work for {name}: it has values and no distribution")
            return _SB3(function, policy), "logits", True
        return _SB3(function, policy), "values", True
    owner = getattr(function, "__self__", function)
    if _is_module(owner):
        takes_mask = _takes_mask(getattr(function, "forward", function), name, star=False)
        return _Torch(function, owner, takes_mask), returns, True
    if any(_is_a(function, package, "Model") for package in ("keras", "tf_keras")):
        return _Keras(function), returns, True
    if hasattr(function, "predict"):
        if returns != "actions":
            raise ValueError(f"returns={returns!r} does not work for a model: its predict gives actions")
        return _PredictCallable(function), returns, True
    if not callable(function):
        raise TypeError(f"{function!r} is neither a function of (observation, mask) nor a model with predict")
    return (function if _takes_mask(function, name, star=True) else _UnmaskedCallable(function)), returns, False


def _takes_mask(function: Any, name: str, *, star: bool) -> bool:
    """Return whether a function of observations takes masks as its second argument; ``star``: whether ``*args`` does.

    Raises:
        TypeError: the function needs other arguments.
    """
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # compiled functions may have no signature
        return star
    placed = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    starred = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    needed = [p for p in parameters if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    if not (placed or starred) or needed != placed[: len(needed)] or len(needed) > 2:
        raise TypeError(
            f"{name}{inspect.signature(function)} cannot be called: give a function of (observation, mask) or of "
            f"(observation)"
        )
    if len(placed) > 1:
        return len(needed) == 2 or "mask" in placed[1].name.lower()
    return starred and star


@dataclass(frozen=True)
class _UnmaskedCallable:
    """A function of observations alone."""

    function: Any

    def __call__(self, observations: Any, masks: Int8Array) -> Any:
        return self.function(observations)


@dataclass(frozen=True)
class _PredictCallable:
    """A model with ``predict``, as in Stable-Baselines3 or scikit-learn."""

    model: Any

    def __call__(self, observations: Any, masks: Int8Array) -> Any:
        taken = inspect.signature(self.model.predict).parameters
        offered = {"deterministic": True, "action_masks": masks.astype(np.bool_)}
        answer = self.model.predict(observations, **{key: offered[key] for key in offered if key in taken})
        return answer[0] if isinstance(answer, tuple) else answer  # without the recurrent state, which is None


@dataclass(frozen=True)
class _Keras:
    """A Keras model."""

    model: Any

    def __call__(self, observations: Any, masks: Int8Array) -> Any:
        return self.model(observations, training=False)


@dataclass(frozen=True)
class _Torch:
    """A torch module, or a method of one."""

    function: Any
    module: Any
    takes_mask: bool

    def __call__(self, observations: Any, masks: Int8Array) -> Any:
        import torch

        weights = (one for part in (self.module.parameters(), self.module.buffers()) for one in part)
        like = next((one for one in weights if one.is_floating_point()), torch.zeros(0))

        def tensor(array: Any) -> Any:
            return torch.as_tensor(array, device=like.device, dtype=like.dtype if array.dtype.kind == "f" else None)

        shown = (
            {key: tensor(array) for key, array in observations.items()}
            if isinstance(observations, dict)
            else tensor(observations)
        )
        with _in_eval_mode(self.module):
            return self.function(shown, tensor(masks == 1)) if self.takes_mask else self.function(shown)


@dataclass(frozen=True)
class _SB3:
    """The action values, the logits or the state values of a Stable-Baselines3 model; the caller masks actions."""

    model: Any
    policy: Any
    returns: Literal["actions", "values"] = "actions"
    """numbers for actions, or one value for each observation"""

    def __call__(self, observations: Any, masks: Int8Array) -> Any:
        normalizing = self.model.get_vec_normalize_env() if hasattr(self.model, "get_vec_normalize_env") else None
        if normalizing is not None:
            observations = normalizing.normalize_obs(observations)
        with _in_eval_mode(self.policy):
            shown = self.policy.obs_to_tensor(observations)[0]
            if hasattr(self.policy, "q_net"):
                q = self.policy.q_net(shown)
                if self.returns == "actions":
                    return q
                return q.masked_fill(q.new_tensor(masks) == 0, -np.inf).max(dim=1).values
            if self.returns == "values":
                return self.policy.predict_values(shown)
            return self.policy.get_distribution(shown).distribution.logits


def _sb3_policy(model: Any, name: str) -> Any:
    """Return the policy of a Stable-Baselines3 model, or the policy passed in; None for anything else.

    Raises:
        ValueError: the policy is recurrent.
    """
    policy = getattr(model, "policy", model)
    if not _is_module(policy) or not hasattr(policy, "obs_to_tensor"):
        return None
    if hasattr(policy, "q_net"):  # of DQN; a QNetwork also has a q_net, which does not take observations
        return policy if hasattr(policy, "q_net_target") else None
    if not hasattr(policy, "get_distribution"):
        return None
    if hasattr(policy, "lstm_actor"):
        raise ValueError(f"{name} has a memory: its moves depend on more than the board, so it is no policy")
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


def _is_module(thing: Any) -> bool:
    return _is_a(thing, "torch.nn", "Module")


def _is_a(thing: Any, library: str, kind: str) -> bool:
    """Return whether an object is of a class of a library, which must be imported already for that."""
    found = getattr(sys.modules.get(library), kind, None)
    return isinstance(found, type) and isinstance(thing, found)


# ---------------------------------------------------------------------------------------------------------------------
# Observations


def _row(shown: Any, row: int) -> Any:
    """Return one observation of a batch."""
    return {name: array[row] for name, array in shown.items()} if isinstance(shown, dict) else shown[row]


def _space_shape(space: Any) -> Any:
    """Return the shape of observations; for dicts, shapes by name."""
    return {name: part.shape for name, part in space.items()} if isinstance(space, spaces.Dict) else space.shape


def _find_observation(
    space: Any, game: AnyGame, observation: Observation | None, context: Context | None, name: str
) -> tuple[Observation, Context]:
    """Return the kind of observation of a space, where not given, and whether it shows the skip chance.

    If none matches, it is flat and hidden, so that the caller reports a mismatch.

    Raises:
        ValueError: planes and channels have the same shape.
    """
    kinds = get_args(Observation) if observation is None else (observation,)
    contexts = get_args(Context) if context is None else (context,)
    found = [
        (kind, shown)
        for kind in kinds
        for shown in contexts
        if space is not None
        and _space_shape(space) == _space_shape(ObservationBuilder(game, kind, "float32", shown).observation_space)
    ]
    if len(found) > 1 and any(shown == "shown" for _, shown in found):
        raise ValueError(
            f"{name} sees observations of shape {_space_shape(space)}, which may be planes or channels: write "
            f"observation='planes' or observation='channels'"
        )
    return found[0] if found else (kinds[0], contexts[0])
