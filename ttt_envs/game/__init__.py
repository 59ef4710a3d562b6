"""The game: rules, boards, bitboards, symmetries, and random games."""

__all__: list[str] = []
