"""The command ``play.py``: games and replays in the terminal, and engines of the Gomocup
protocol.
"""

__all__: list[str] = []
