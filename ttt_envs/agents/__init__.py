"""Interfaces of players: policies, spec strings, and adapters for external agents."""

__all__: list[str] = []
