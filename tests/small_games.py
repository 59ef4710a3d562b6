"""Games that many tests play."""

from ttt_envs import Game

SKIP_GAME = Game(skip_chance=0.25)
TINY_GAME = Game(2, 3, 2, 0.25)
