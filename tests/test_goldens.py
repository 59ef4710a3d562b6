"""Results are those of earlier versions: a number of each search, stream of random numbers, learner
and sampler. Where they change on purpose, ``make goldens`` writes them again. By these streams the
games of a seed are those of the referee, see tests/ttt_envs/test_environments.py.
"""

import pytest
import signatures
import tiny

HEADER = "# tests/signatures.py says what these numbers are; make goldens writes them\n"
RELATIVE_ERROR = 1e-9
NET_ERROR = 1e-4
"""Relative errors of numbers, and of those of nets, whose sums round by processor."""


@pytest.fixture
def golden(request):
    """Return the text of a file of tests/goldens, written first with --write-goldens."""

    def stored(name, text):
        path = request.config.rootpath / "tests" / "goldens" / name
        if request.config.getoption("write_goldens"):
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        return path.read_text()

    return stored


def compare(golden, name, results, error):
    """Compare numbers by name with those of a file."""
    text = HEADER + "".join(f"{label} = {value:.12g}\n" for label, value in results.items())
    lines = golden(f"{name}.txt", text).removeprefix(HEADER).splitlines()
    pairs = [line.rpartition(" = ") for line in lines]
    expected = {label: float(value) for label, _, value in pairs}
    assert results == pytest.approx(expected, rel=error)


@pytest.mark.parametrize("name", signatures.SMALL)
def test_results_are_as_before(name, golden):
    results = {label: compute() for label, compute in signatures.SMALL[name].items()}
    compare(golden, name, results, RELATIVE_ERROR)


@pytest.mark.parametrize(
    ("group", "error"),
    [
        ("learners", RELATIVE_ERROR),
        ("nets", NET_ERROR),
        *(
            pytest.param(
                group,
                NET_ERROR,
                marks=[
                    pytest.mark.more,
                    pytest.mark.needs(
                        *{
                            package
                            for name in signatures.GROUPS[group]
                            for package in tiny.PACKAGES[name]
                        }
                    ),
                ],
            )
            for group in ("tensorflow", "torch")
        ),
    ],
)
def test_what_is_learned_is_as_before(group, error, golden, tmp_path):
    compare(golden, group, signatures.of_learners(group, tmp_path), error)
