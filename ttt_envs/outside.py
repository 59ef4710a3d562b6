"""Functions and models from outside as policies: what sees observations and knows nothing of boards."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from ttt_envs.boards import Boards
from ttt_envs.compiling import Cells, Reals
from ttt_envs.lockstep import check_choice
from ttt_envs.policy import Policy
from ttt_envs.rules import Game
from ttt_envs.views import DType, Observation, Views

Returns = Literal["actions", "logits", "probabilities"]
Opponent = str | Policy | Any
"""what environments take for an opponent: also functions, and models with ``predict``"""


@dataclass(frozen=True)
class Outside:
    """A function as a policy: see :func:`as_policy`."""

    game: Game
    function: Callable[[Any, Cells], Any]
    views: Views
    returns: Returns
    batch: bool
    name: str

    pure = True

    def __str__(self) -> str:
        return self.name

    def probabilities(self, boards: Boards, rng: np.random.Generator | None = None) -> Reals:
        """float64[B, cells]: all on the chosen action, or what the function says of the legal ones.

        Raises:
            TypeError, ValueError: what the function returns is no answer for these positions.
        """
        seen = boards.own_first()
        planes = np.stack([seen == 1, seen == 2], axis=1).astype(np.int8)
        mask = boards.legal(self.game).astype(np.int8)
        count = len(mask)
        if self.batch:
            answer = _array(self.function(self.views.show(planes, mask), mask.copy()))
        else:
            rows = (slice(b, b + 1) for b in range(count))
            shown = ((self._one(self.views.show(planes[row], mask[row])), mask[row][0].copy()) for row in rows)
            answers = [_array(self.function(*one)) for one in shown]
            shapes = {one.shape for one in answers}
            if len(shapes) > 1:
                raise ValueError(f"{self.name} returned {self.returns} of different shapes, {sorted(shapes)}")
            answer = np.stack(answers)
        wanted = (count,) if self.returns == "actions" else (count, self.game.cells)
        if answer.shape != wanted:
            got, fits = (answer.shape, wanted) if self.batch else (answer.shape[1:], wanted[1:])
            raise ValueError(
                f"{self.name} returned {self.returns} of shape {got}, not {fits}: "
                f"as_policy(..., returns=..., batch=...) says what it returns"
            )
        return self._of_actions(answer, mask) if self.returns == "actions" else self._of_numbers(answer, mask)

    @staticmethod
    def _one(shown: Any) -> Any:
        """The only observation of a batch."""
        return {name: array[0] for name, array in shown.items()} if isinstance(shown, dict) else shown[0]

    def _of_actions(self, actions: np.ndarray[Any, Any], mask: Cells) -> Reals:
        if actions.dtype.kind not in "iu":
            raise TypeError(f"{self.name} returned actions of type {actions.dtype}: an action is a whole number")
        rows = np.arange(len(actions))
        wrong = (actions < 0) | (actions >= self.game.cells)
        wrong[~wrong] = mask[rows[~wrong], actions[~wrong]] == 0
        if wrong.any():
            raise ValueError(
                f"{self.name} chose the illegal action {actions[wrong][0]}: it must choose where the mask is 1, "
                f"or return logits or probabilities, which are masked"
            )
        shares = np.zeros(mask.shape)
        shares[rows, actions] = 1
        return shares

    def _of_numbers(self, numbers: np.ndarray[Any, Any], mask: Cells) -> Reals:
        legal = mask == 1
        numbers = numbers.astype(np.float64)
        if np.isnan(numbers[legal]).any() or np.isposinf(numbers[legal]).any():
            raise ValueError(f"{self.name} returned {self.returns} that are NaN or infinite for legal actions")
        if self.returns == "logits":
            numbers = np.where(legal, numbers, -np.inf)
            best = numbers.max(axis=1, keepdims=True)
            if np.isneginf(best).any():
                raise ValueError(f"{self.name} returned logits of -inf for all legal actions of a position")
            numbers = np.exp(numbers - best)
        else:
            numbers = np.where(legal, numbers, 0)
            if (numbers < 0).any():
                raise ValueError(f"{self.name} returned probabilities below 0 for legal actions")
        total = numbers.sum(axis=1, keepdims=True)
        if (total == 0).any():
            raise ValueError(f"{self.name} returned probabilities of 0 for all legal actions of a position")
        return np.asarray(numbers / total)


def as_policy(
    function: Any,
    game: Game,
    observation: Observation = "flat",
    returns: Returns = "actions",
    *,
    batch: bool | None = None,
    dtype: DType = "float32",
) -> Policy:
    """A function or a model of Stable-Baselines3 as a policy, for matches, exact evaluation, and as an opponent.

    Args:
        function: takes (observation, mask), mask int8[cells] with 1 where an action is legal. Or a model with
            ``predict(observations, deterministic=...)``, which is asked for its deterministic actions, with
            ``action_masks`` where it takes them. It must answer equally to the same observation.
        game: what it plays.
        observation, dtype: what it sees, as in ``ttt_envs.single_env.SingleEnv``.
        returns: ``"actions"`` a legal action; ``"logits"`` or ``"probabilities"`` [cells]: the legal ones count.
        batch: whether it takes and returns batches, [B, ...] each; by default models do and functions do not.

    Raises:
        TypeError: neither a function nor a model.
        ValueError: an option that is not known, a model that sees something else.
    """
    check_choice("returns", returns, get_args(Returns))
    views = Views(game, observation, dtype)
    name = getattr(function, "__name__", type(function).__name__)
    predict = getattr(function, "predict", None)
    if predict is None:
        if not callable(function):
            raise TypeError(f"{function!r} is neither a function of (observation, mask) nor a model with predict")
        return Outside(game, function, views, returns, bool(batch), name)
    if returns != "actions":
        raise ValueError(f"returns={returns!r} does not work for a model: its predict gives actions")
    if batch is not None and not batch:
        raise ValueError("batch=False does not work for a model: its predict takes batches")
    shape = getattr(getattr(function, "observation_space", None), "shape", None)
    if shape is not None and shape != views.observation_space.shape:
        raise ValueError(
            f"{name} sees observations of shape {shape}, but observation={observation!r} of {game} has "
            f"{views.observation_space.shape}: choose what it was trained with"
        )
    return Outside(game, _Predicting(function), views, returns, True, name)


@dataclass(frozen=True)
class _Predicting:
    """A model of Stable-Baselines3 as a function of a batch."""

    model: Any

    def __call__(self, observations: Any, masks: Cells) -> Any:
        masked = "action_masks" in inspect.signature(self.model.predict).parameters
        more = {"action_masks": masks.astype(np.bool_)} if masked else {}
        return self.model.predict(observations, deterministic=True, **more)[0]


def opponent_of(opponent: Opponent, game: Game, observation: Observation, dtype: DType) -> str | Policy:
    """What an environment's ``opponent`` means: functions and models become policies that see as the caller does."""
    if isinstance(opponent, (str, Policy)) or not (callable(opponent) or hasattr(opponent, "predict")):
        return opponent  # also what is nothing of all that: make_policy says so
    return as_policy(opponent, game, observation, dtype=dtype)


def _array(answer: Any) -> np.ndarray[Any, Any]:
    """An answer as an array; torch's tensors may hang on a graph or a device."""
    return np.asarray(answer.detach().cpu() if hasattr(answer, "detach") else answer)
