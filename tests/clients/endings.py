"""Final output of examples: exact results against opponents, and the exploitability."""

import re
from typing import NamedTuple

RESULT = re.compile(r"^against (\S+): (\S+)% won, (\S+)% drawn, (\S+)% lost$", re.M)
EXPLOITABILITY = re.compile(r"^exploitability: (\S+)$", re.M)


class Ending(NamedTuple):
    """Results of an example."""

    results: dict[str, tuple[float, float, float]]
    """maps an opponent to percent won, drawn, lost"""
    exploitability: float


def ending(printed):
    """Parse and check the output of an example."""
    results = {name: tuple(map(float, shares)) for name, *shares in RESULT.findall(printed)}
    [exploitability] = map(float, EXPLOITABILITY.findall(printed))
    assert 0 <= exploitability <= 1, printed
    for shares in results.values():
        assert min(shares) >= 0, printed
        assert abs(sum(shares) - 100) < 0.02, printed
    if "optimal" in results:
        won, _, lost = results["optimal"]
        assert won <= lost, printed
    return Ending(results, exploitability)
