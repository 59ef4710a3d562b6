"""Exact work on the positions of a game: their numbering, and a layered graph with one pass forward
and one back.
"""

__all__: list[str] = []
