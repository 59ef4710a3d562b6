"""The explorer: a local web page that shows the values of all moves."""

__all__: list[str] = []
