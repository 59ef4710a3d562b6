from .dataset import make_rows as make_rows
