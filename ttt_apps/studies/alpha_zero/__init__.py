"""AlphaZero with chance: exactly how good it gets for its CPU time, what its parts are worth, and on larger boards.

- :mod:`~ttt_apps.studies.alpha_zero.taught`: a training in this process, measured on the way.
- :mod:`~ttt_apps.studies.alpha_zero.curves`: exact exploitability by games and CPU time, beside two other learners.
- :mod:`~ttt_apps.studies.alpha_zero.worth`: what its parts are worth.
- :mod:`~ttt_apps.studies.alpha_zero.proved`: boards of which only who wins is proved.
- :mod:`~ttt_apps.studies.alpha_zero.study`: all of them together.
"""
