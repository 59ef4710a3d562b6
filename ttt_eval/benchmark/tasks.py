"""The tasks of the benchmark ``ttt-exact``, as data in ``tasks.toml``.

A task is an environment, a number of steps to learn in it, and an exact measure of what was
learned. Released tasks never change: a change makes a new version. A task of two versions is the
same in both, and so are its runs and scores.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal, NoReturn, get_args

import numpy as np
from msgspec import convert

from learners.base import discounts
from ttt_envs.core.checks import Refusal, TypeRefusal, find_named
from ttt_envs.core.files import read_table
from ttt_envs.core.jit import Float64Array
from ttt_envs.envs.config import SELF, Info, SeatChoice
from ttt_envs.envs.single_env import SingleEnv
from ttt_envs.game.boards import Boards, to_text
from ttt_envs.game.game import Game
from ttt_envs.game.phantom import AnyGame, Kind, PhantomGame
from ttt_envs.game.symmetry import canonical_keys, symmetries
from ttt_eval.matches.openings import Openings

Version = Literal["v1", "v2"]
VERSIONS: tuple[Version, ...] = get_args(Version)
SEEDS = tuple(range(5))
"""seeds of the runs of each task"""
NUM_CHECKPOINTS = 20
STEPS = 100_000
MAX_CELLS_OF_CHECKPOINTS = 12
"""Maximum number of cells of boards whose policies are stored at every checkpoint; on larger ones
only the last is, unless gravity or a list of positions keeps tables small.
"""
FIRST_CHECKPOINT_SHARE = 1 / 200
"""share of the steps at the first checkpoint"""
OPENING_STONES = 3
"""number of stones of the openings that are split into two halves"""

Axis = Literal[
    "basics",
    "chance",
    "self-play",
    "credit",
    "exploration",
    "generalisation",
    "non-stationarity",
    "critic",
    "masks",
    "connect-four",
    "hidden-stones",
]
Measure = Literal[
    "value",
    "exploitability",
    "regret",
    "opening-regret",
    "position-regret",
    "mistakes",
    "critic-error",
    "illegal-moves",
]


@dataclass(frozen=True)
class Task:
    """One task: what is learned, and what is measured.

    A run submits one policy for each of :attr:`games`. An agent that sees the skip chance has a
    different policy for each; any other submits the same policy for all.
    """

    name: str
    axes: tuple[Axis, ...]
    """the axes of the benchmark to which the score counts"""
    measure: Measure
    """``value`` expected result against the opponent; ``exploitability`` NashConv / 2; ``regret``
    mean loss of value per move in self-play; ``opening-regret`` mean loss of value by the move in
    the held-out openings; ``position-regret`` the same in :attr:`positions`; ``mistakes``
    probability of a move there that changes win, draw or loss; ``critic-error`` root mean square
    error of the values, weighted by occupancy; ``illegal-moves`` probability of an illegal action
    in a game"""
    opponent: str | tuple[tuple[str, int], ...]
    """a spec string, ``"self"``, or a schedule of spec strings and their starts"""
    versions: tuple[Version, ...] = VERSIONS
    """the versions of the benchmark that have the task"""
    size: tuple[int, int] = (3, 3)
    win_length: int = 3
    gravity: bool = False
    phantom: Kind | None = None
    skip_chance: float | tuple[float, ...] = 0.0
    seat: SeatChoice = "alternate"
    observe_skip_chance: bool = False
    scored_skip_chances: tuple[float, ...] = ()
    """skip chances of the games in which policies are measured; empty for those of the environment
    """
    positions: str = ""
    """the only positions in which moves are measured and stored: a set of proved positions, or
    random openings; empty for all that games reach
    """
    holds_out_openings: bool = False
    """whether episodes begin with one half of the openings, and the other half is held out"""
    hides_masks: bool = False
    """whether infos hide which actions are legal, and an illegal action loses"""
    steps: int = STEPS
    """environment steps of a run"""
    uses_runs_of: str | None = None
    """name of the task whose runs are measured; None for runs of its own"""

    @property
    def training(self) -> str:
        """The name of the task that its runs are trained on."""
        return self.uses_runs_of or self.name

    @property
    def games(self) -> tuple[Any, ...]:
        """The games in which policies are measured, each a ``Game`` or a ``PhantomGame``."""
        return tuple(map(self.game_at, self.scored_skip_chances or self.skip_chances))

    def game_at(self, skip_chance: float) -> AnyGame:
        """Return the game with a skip chance."""
        game = Game(*self.size, self.win_length, skip_chance, gravity=self.gravity)
        return PhantomGame(game, self.phantom) if self.phantom else game

    @property
    def skip_chances(self) -> tuple[float, ...]:
        """The skip chances of the environment."""
        return self.skip_chance if isinstance(self.skip_chance, tuple) else (self.skip_chance,)

    @property
    def seats(self) -> tuple[int, ...]:
        """The seats of the learner."""
        return {"first": (0,), "second": (1,)}.get(self.seat, (0, 1))

    @property
    def checkpoints(self) -> tuple[int, ...]:
        """Steps after which policies are stored, ascending, the last at the end.

        They are spaced evenly on a logarithmic axis, or on a linear one if the opponent changes.
        """
        if self.games[0].cells > MAX_CELLS_OF_CHECKPOINTS and not (self.gravity or self.positions):
            return (self.steps,)
        if len(self.stages) > 1:
            marks = np.linspace(self.steps / NUM_CHECKPOINTS, self.steps, NUM_CHECKPOINTS)
        else:
            marks = np.geomspace(self.steps * FIRST_CHECKPOINT_SHARE, self.steps, NUM_CHECKPOINTS)
        return tuple(np.unique(marks.round().astype(np.int64)).tolist())

    @property
    def stages(self) -> tuple[tuple[str, int], ...]:
        """The opponents, one after another, as spec strings, and the steps at which they begin."""
        return self.opponent if isinstance(self.opponent, tuple) else ((self.opponent, 0),)

    def stage(self, steps: int) -> int:
        """Return the number of the opponent at the end of ``steps`` environment steps."""
        return bisect_left([start for _, start in self.stages], max(steps, 1)) - 1

    @property
    def settings(self) -> dict[str, Any]:
        """Arguments of the environment ``ttt/MNK-v0``, except those that an agent chooses
        (observation, dtype).
        """
        settings = {name: getattr(self, name) for name in SETTINGS}
        settings["seat"] = "first" if self.opponent == SELF else self.seat
        if self.holds_out_openings:
            boards = split_openings(self.games[0])[0]
            settings["openings"] = [
                to_text(boards.position(row), self.games[0]) for row in range(len(boards.mover))
            ]
        return settings

    def make_env(self, seed: int, **choices: object) -> TaskEnv:
        """Return the environment, seeded.

        Args:
            seed: of the environment.
            choices: arguments that an agent chooses: ``observation``, ``dtype``,
                ``illegal_action``, ``symmetry``.

        Raises:
            TypeError: another argument, which the task determines.
        """
        for name in choices:
            if name not in AGENT_CHOICES or (self.hides_masks and name == "illegal_action"):
                raise TypeRefusal(
                    f"the task {self.name} determines {name}: an agent chooses "
                    f"{', '.join(AGENT_CHOICES)} alone"
                )
        return TaskEnv(self, seed, {"illegal_action": "lose", **self.settings, **choices})


SETTINGS = (
    "size",
    "win_length",
    "skip_chance",
    "gravity",
    "phantom",
    "opponent",
    "observe_skip_chance",
)
"""arguments of an environment that are fields of a task"""
AGENT_CHOICES = ("observation", "dtype", "illegal_action", "symmetry")
"""arguments of an environment that an agent chooses"""


class BudgetSpent(Exception):  # noqa: N818  # what happened
    """The steps of a run are taken: this ends the agent's ``learn``."""


class TaskEnv(SingleEnv):
    """Counts steps, stores policies between two of them, and hides which actions are legal if the
    task does.

    A policy is stored when the step after a checkpoint begins, so that the agent has learned from
    all steps before. Seeds of ``reset`` are ignored: the task has seeded the environment. It has no
    copies, states to restore or transition table, whose steps would not be counted.

    Args:
        task: the task.
        seed: of the environment.
        arguments: of ``SingleEnv``.

    Attributes:
        steps: those taken.
        discount: float32[1], of the last step: 0 if the game is over, +1 if the same player moves
            again, -1 if the other one does.
        checkpoints: numbers of steps after which to store, ascending; those that are reached are
            removed.
        budget: maximum number of steps, by default those of the task.
        store: called with each checkpoint.
    """

    store: Callable[[int], None]

    def __init__(self, task: Task, seed: int, arguments: Mapping[str, Any]) -> None:
        super().__init__(**arguments)
        self.steps = 0
        self.discount = np.ones(1, np.float32)
        self.checkpoints: list[int] = []
        self.budget = task.steps
        self._hides_masks = task.hides_masks
        super().reset(seed=seed)

    def _refuse(self, *arguments: object, **keywords: object) -> NoReturn:
        """Refuse what ``copy`` and ``pickle`` ask for, other positions, and the table of moves."""
        raise TypeRefusal(
            "an environment of the benchmark has no copies, states to restore or transition table, "
            "whose steps nobody would count: an agent that plans uses the rules, as in "
            "ttt_envs.Game, and has 'knows_rules': True in its hyperparameters"
        )

    __reduce_ex__: Any = _refuse
    clone_state: Any = _refuse
    restore_state: Any = _refuse
    P: Any = property(_refuse)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, Info]:
        """Begin an episode; ``seed`` is ignored.

        Raises:
            ValueError: ``options`` are given, and there are none.
        """
        if options:
            raise Refusal(
                "an agent has no options of reset: the task determines how episodes begin"
            )
        return super().reset()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, Info]:
        """See :class:`ttt_envs.envs.single_env.SingleEnv`.

        Raises:
            BudgetSpent: all steps are taken.
        """
        self.store_due()
        if self.steps == self.budget:
            raise BudgetSpent(f"all {self.budget:,} steps are taken")
        self.steps += 1
        outcome = super().step(action)
        info = outcome[-1]
        self.discount = discounts([self._is_over], info["seat"], info["mover"])
        return outcome

    def store_due(self, *, at_end: bool = False) -> None:
        """Store policies whose checkpoint is reached, or at the end all others."""
        while self.checkpoints and (at_end or self.steps >= self.checkpoints[0]):
            self.store(self.checkpoints.pop(0))

    def _observation(self) -> tuple[Any, Info]:
        self._mask |= self._hides_masks
        return super()._observation()


@cache
def split_openings(game: Game) -> tuple[Boards, Boards, Float64Array]:
    """Return the openings to learn from, those that are held out, and the weights float64[B] of
    these.

    Openings are all unfinished positions with ``OPENING_STONES`` stones that a game without skips
    reaches. Their symmetry classes, in ascending order of canonical keys, belong to the two halves
    in turn. Weights sum to 1: each class weighs the same, and so does each board of a class.
    """
    boards = Openings.from_text(f"all:{OPENING_STONES}", replace(game, skip_chance=0.0)).boards
    assert boards is not None
    canonical, _ = canonical_keys(boards.cells, symmetries(game))
    _, classes, sizes = np.unique(canonical, axis=0, return_inverse=True, return_counts=True)
    held_out = classes.ravel() % 2 == 1
    weights: Float64Array = 1.0 / sizes[classes.ravel()[held_out]]
    return boards.take(~held_out), boards.take(held_out), weights / weights.sum()


TASKS: tuple[Task, ...] = tuple(
    convert({"name": name, **fields}, Task) for name, fields in read_table(__file__).items()
)
"""all tasks: those of v1 in the order of the axes, then the others"""


def find_task(name: str) -> Task:
    """Return the task with a name.

    Raises:
        ValueError: there is none; the message gives the closest name.
    """
    return find_named("task", name, {task.name: task for task in TASKS})


def find_tasks(names: Sequence[str] = (), version: Version = VERSIONS[0]) -> list[Task]:
    """Return the tasks with these names, in the order of :data:`TASKS`; without names, all of a
    version.
    """
    named_tasks = {find_task(name) for name in names}
    return [
        task for task in TASKS if task in named_tasks or (not names and version in task.versions)
    ]


def version_of(names: Collection[str]) -> Version:
    """Return the first version of the benchmark that has all tasks with these names.

    Raises:
        ValueError: there is none.
    """
    versions = set(VERSIONS).intersection(*(find_task(name).versions for name in names))
    if not versions:
        raise Refusal("no version of the benchmark has all of these tasks: choose those of one")
    return min(versions)
