"""``python -m ttt_apps.evaluate``."""

from ttt_apps.evaluate import main

main()
