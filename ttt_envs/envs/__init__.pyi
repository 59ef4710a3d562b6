from .render import Scene as Scene
from .render import text as text
from .single_env import SingleEnv as SingleEnv
from .vector_env import MNKVectorEnv as MNKVectorEnv
