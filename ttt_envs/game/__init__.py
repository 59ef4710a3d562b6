"""The game: rules, boards, lines, bitboards, symmetries, and phantom games."""

__all__: list[str] = []
