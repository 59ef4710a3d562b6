"""What all commands share: options, errors and output, signals, versions, and boards in the
terminal.
"""

__all__: list[str] = []
