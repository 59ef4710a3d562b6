"""The long description, which setup.cfg cannot express; all other metadata is in setup.cfg.

A package index resolves no relative links. Where setup.cfg names a source under ``project_urls``,
the links and pictures of README.md lead to the tag of this version in that repository.
"""

import re
import runpy
from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).parent


def describe_project() -> str:
    """README.md with the links that a package index needs."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    source = re.search(
        r"^ +Source = (\S+)$", (ROOT / "setup.cfg").read_text(encoding="utf-8"), re.M
    )
    if source is None:
        return text
    version = runpy.run_path(str(ROOT / "ttt_envs" / "version.py"))["__version__"]
    text = re.sub(r"(!\[[^\]]*\]\()(?!https?:|#)", rf"\g<1>{source[1]}/raw/v{version}/", text)
    return re.sub(
        r"(?<!!)(\[[^\[\]]*\]\()(?!https?:|#)", rf"\g<1>{source[1]}/blob/v{version}/", text
    )


setup(long_description=describe_project(), long_description_content_type="text/markdown")
