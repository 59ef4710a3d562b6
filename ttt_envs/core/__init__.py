"""Infrastructure without knowledge of the game: compiled kernels, files, caches, and parallel
work.
"""

__all__: list[str] = []
