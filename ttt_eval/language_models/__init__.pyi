from .credit import TurnReward as TurnReward
from .credit import opponent_credit as opponent_credit
from .credit import optimal_credit as optimal_credit
