import pathlib

from .alpha_zero import AlphaZeroConfig as AlphaZeroConfig
from .base import Learner as Learner
from .base import Transition as Transition
from .config import Fraction as Fraction
from .config import LearnerConfig as LearnerConfig
from .exact_pg import ExactPGConfig as ExactPGConfig
from .naive_mc import NaiveMCConfig as NaiveMCConfig
from .pettingzoo_loop import train_in as train_in
from .q_learning import QLearningConfig as QLearningConfig
from .q_net import QNetConfig as QNetConfig
from .training import Trainer as Trainer
from .training import TrainingLoop as TrainingLoop
from .training import make_initial_rng as make_initial_rng
from .value_net import ValueNetConfig as ValueNetConfig

CONFIG: str
LEARNERS: dict[str, str]

class OtherGameWarning(UserWarning): ...

def is_run(folder: pathlib.Path) -> bool: ...
