"""A plain table in ``check_agent`` and ``check_values``: values of moves in a dictionary.

    python evaluate.py check agent examples.checks.table_agent:agent
    python evaluate.py check values examples.checks.table_agent:values

The table is filled by minimax. With ``SIGN = 1`` it has the commonest error: values of the next
player's position count as the mover's.
"""

import functools

LINES = "012", "345", "678", "036", "147", "258", "048", "246"
SIGN = -1


@functools.cache
def move_values(board):
    """Return the values of all moves, for the player to move: a row of the table."""
    values = {}
    for action in (cell for cell in range(9) if board[cell] == 0):
        after = tuple(1 if cell == action else stone for cell, stone in enumerate(board))
        values[action] = 0
        if any(all(after[int(cell)] == 1 for cell in line) for line in LINES):
            values[action] = 1
        elif 0 in after:
            values[action] = SIGN * max(move_values(tuple(-stone for stone in after)).values())
    return values


def agent(board):
    row = move_values(board)
    return max(row, key=row.get)


def values(board):
    return max(move_values(board).values())
