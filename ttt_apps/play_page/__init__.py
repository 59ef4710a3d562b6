"""A page without a server: one file to play 3 x 3 against five opponents, with all exact values inside."""

__all__: list[str] = []
