"""Command-line and web applications: parse options, call the library, write results; nothing else."""

import sys
import warnings

__ttt_envs__ = True  # distinguishes our package from others of this name: ttt_envs/core/package_conflicts.py

from ttt_apps.signals import silent_interrupts


def _refuse_hidden() -> None:
    """Exit with one sentence if a folder shadows a package: the commands need all packages, and import them at once."""
    try:
        with warnings.catch_warnings():  # the sentence below says the same
            warnings.filterwarnings("ignore", ".*the package .* of ttt_envs", UserWarning)
            from ttt_envs.core.package_conflicts import PACKAGES, shadowed_by
    except ModuleNotFoundError as problem:
        if problem.name != "ttt_envs.core":
            raise
        place = next(iter(sys.modules["ttt_envs"].__path__))
        why = f"the folder {place} hides the package ttt_envs: run from another folder, or rename it"
    else:
        why = next(filter(None, map(shadowed_by, PACKAGES)), "")
    if why:
        print(f"error: {why}", file=sys.stderr)
        sys.exit(2)


with silent_interrupts():
    _refuse_hidden()
