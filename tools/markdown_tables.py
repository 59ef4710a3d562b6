"""Tables in Markdown that are printed row by row: a part of tools that take long."""


def print_row(*cells: object) -> None:
    """Print the row of a table."""
    print("|", " | ".join(map(str, cells)), "|", flush=True)


def print_head(*cells: str) -> None:
    """Print an empty line and the head of a table."""
    print()
    print_row(*cells)
    print("|" + "---|" * len(cells))
