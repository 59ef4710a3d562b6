"""A plain table in ``check_agent`` and ``check_values``: values of moves in a dictionary.

    python examples/checks/table_agent.py

The table is filled by minimax: rightly, and with the commonest error, without a sign between the
two players.
"""

import time

from ttt_eval.checks import check_agent, check_values

LINES = (
    *((0, 1, 2), (3, 4, 5), (6, 7, 8)),
    *((0, 3, 6), (1, 4, 7), (2, 5, 8)),
    *((0, 4, 8), (2, 4, 6)),
)


def fill(table, board, sign):
    """Add the values of all moves of a board and of those below it, for the player to move."""
    values = {}
    for action in (cell for cell in range(9) if board[cell] == 0):
        after = tuple(1 if cell == action else stone for cell, stone in enumerate(board))
        seen_by_other = tuple(-stone for stone in after)
        values[action] = 0
        if any(after[a] == after[b] == after[c] == 1 for a, b, c in LINES):
            values[action] = 1
        elif 0 in after:
            if seen_by_other not in table:
                fill(table, seen_by_other, sign)
            values[action] = sign * max(table[seen_by_other].values())
    table[board] = values


def make_agent(sign):
    """Return two functions of a board: the move of largest value, and its value."""
    table = {}
    fill(table, (0,) * 9, sign)

    def agent(board):
        return max(table[board], key=table[board].get)

    def values(board):
        return max(table[board].values())

    return agent, values


if __name__ == "__main__":
    for name, sign in (("right", -1), ("without a sign", 1)):
        for function, check_function in zip(
            make_agent(sign), (check_agent, check_values), strict=True
        ):
            start = time.process_time()
            check = check_function(function)
            print(check)
            seconds = time.process_time() - start
            print(f"{name}, {function.__name__}: {check.verdict} ({seconds:.1f} CPU s)\n")
