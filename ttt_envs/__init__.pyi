from . import arrays as arrays
from . import mnk_v0 as mnk_v0
from .agents.adapters import as_policy as as_policy
from .agents.policy import Forfeit as Forfeit
from .agents.policy import Player as Player
from .agents.policy import Policy as Policy
from .agents.policy import act as act
from .agents.policy import best_shares as best_shares
from .agents.policy import sample as sample
from .agents.specs import Named as Named
from .agents.specs import make_policy as make_policy
from .agents.wrappers import check_symmetric as check_symmetric
from .envs import registration as registration
from .game.boards import Boards as Boards
from .game.boards import cell_at as cell_at
from .game.boards import from_text as from_text
from .game.boards import to_text as to_text
from .game.game import Game as Game
from .game.game import Position as Position
from .game.phantom import PhantomGame as PhantomGame
from .game.rules import chance_outcomes as chance_outcomes

__version__: str
