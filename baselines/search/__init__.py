"""What all tree searches share."""

__all__: list[str] = []
