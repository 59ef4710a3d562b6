"""The benchmark ``ttt-exact v1``: fixed tasks, and scores of policies that are computed without sampling."""

from __future__ import annotations

from ttt_eval.benchmark.scoring import score_policies as score_policies
from ttt_eval.benchmark.tasks import TASKS as TASKS
from ttt_eval.benchmark.tasks import Task as Task
from ttt_eval.benchmark.tasks import find_task as find_task
