from .credit import TurnReward as TurnReward
from .credit import opponent_credit as opponent_credit
from .credit import optimal_credit as optimal_credit
from .curves import record as record
from .puzzles import read_puzzles as read_puzzles
from .statistics import interval_from_pairs as interval_from_pairs
