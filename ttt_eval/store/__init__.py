"""What is measured and kept: measures, intervals, costs, identities of policies, and stored
results.
"""

__all__: list[str] = []
