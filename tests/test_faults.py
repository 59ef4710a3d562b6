"""The faults of faults.py fit the project; run that file to see whether tests catch them."""

from pathlib import Path

import pytest
from faults import FAULTS

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.file}: {fault.right.strip()[:60]}")
def test_the_text_of_a_fault_is_in_its_file_once(fault):
    text = (ROOT / fault.file).read_text("utf-8")
    assert text.count(fault.right) == 1
    assert fault.right != fault.wrong
    compile(text.replace(fault.right, fault.wrong), fault.file, "exec")  # else the tests fail at the import
    assert all((ROOT / "tests" / name).is_file() for name in fault.tests.split())
