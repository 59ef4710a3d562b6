"""Command-line and web applications: parse options, call the library, write results; nothing else."""

import sys

__all__: list[str] = []
__ttt_envs__ = True  # distinguishes our package from others of this name: ttt_envs/core/packages.py


def _refuse_conflicts() -> None:
    """Exit with one sentence if a package is not ours: the commands need all packages, and import them at once."""
    try:
        from ttt_envs.core.packages import find_conflict
    except ModuleNotFoundError as problem:
        if problem.name != "ttt_envs.core":
            raise
        place = next(iter(sys.modules["ttt_envs"].__path__))
        conflict: str | None = f"the folder {place} hides the package ttt_envs: run from another folder, or rename it"
    else:
        conflict = find_conflict()
    if conflict:
        print(f"error: {conflict}", file=sys.stderr)
        sys.exit(2)


_refuse_conflicts()
