"""Commands that install a missing extra of this package."""

from __future__ import annotations

from ttt_envs.core.package_conflicts import ROOT


def install_command(extra: str) -> str:
    """Return the command that installs an extra: from the checkout, if the packages are imported from one."""
    return f'pip install -e "{ROOT}[{extra}]"' if (ROOT / "setup.cfg").is_file() else f'pip install "ttt_envs[{extra}]"'
