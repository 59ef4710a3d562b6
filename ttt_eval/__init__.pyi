from .language_models.credit import TurnReward as TurnReward
from .language_models.credit import opponent_credit as opponent_credit
from .language_models.credit import optimal_credit as optimal_credit
from .puzzles import read_puzzles as read_puzzles
from .runs.curves import record as record
from .store.statistics import interval_from_pairs as interval_from_pairs
