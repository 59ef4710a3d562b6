"""``python -m ttt_apps.training``."""

from ttt_apps.training.command import main

main()
