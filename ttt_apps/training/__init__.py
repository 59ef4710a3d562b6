"""The command ``train.py``: its options, runs with their files, and sweeps of many runs."""

__all__: list[str] = []
