from .comparison import bootstrap_interval as bootstrap_interval
from .comparison import interquartile_mean as interquartile_mean
from .scoring import score_policies as score_policies
from .tasks import TASKS as TASKS
from .tasks import Task as Task
from .tasks import find_task as find_task
