"""A page without a server: one file to play boards of up to 12 cells by any rules, whose exact
values it computes.
"""

__all__: list[str] = []
