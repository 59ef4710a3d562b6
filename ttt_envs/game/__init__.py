"""The game: rules, boards, bitboards, symmetries, and random games."""
