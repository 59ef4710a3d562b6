"""``python -m ttt_apps.explorer.build_table GAME``: store the table of a game, given as JSON.

It prints the fraction done, a line each time, and the reason if it fails. It ends when its standard input does, so that
it does not outlive the explorer.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

from baselines.exact import Work, solve
from ttt_envs.core.subprocesses import end_with_stdin
from ttt_envs.game.game import Game


def main(words: Sequence[str]) -> int:
    """Compute the table and return the exit status."""
    end_with_stdin()
    try:
        solve(Game.from_dict(json.loads(words[0])), work=Work(progress=lambda done: print(done, flush=True)))
    except (ValueError, OSError, MemoryError) as problem:
        print(str(problem) or type(problem).__name__, flush=True)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
