"""The benchmark ``ttt-exact v1``: fixed tasks, and scores of policies that are computed without sampling."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ttt_envs.core.names import public_names

if TYPE_CHECKING:
    from ttt_eval.benchmark.comparison import bootstrap_interval as bootstrap_interval
    from ttt_eval.benchmark.comparison import interquartile_mean as interquartile_mean
    from ttt_eval.benchmark.scoring import score_policies as score_policies
    from ttt_eval.benchmark.tasks import TASKS as TASKS
    from ttt_eval.benchmark.tasks import Task as Task
    from ttt_eval.benchmark.tasks import find_task as find_task

__getattr__, __dir__, __all__ = public_names(__name__, __file__)
