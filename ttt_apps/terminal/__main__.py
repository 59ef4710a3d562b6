"""``python -m ttt_apps.terminal``."""

from ttt_apps.terminal.command import main

main()
