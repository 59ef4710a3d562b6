from .tables import Softmax as Softmax
from .tables import Table as Table
from .tables import random_play_values as random_play_values
from .tables import source_values as source_values
