"""AlphaZero with chance nodes: exact strength by CPU time, an ablation of its parts, and larger boards.

- :mod:`~ttt_apps.studies.alpha_zero.taught`: a training in this process, with measurements.
- :mod:`~ttt_apps.studies.alpha_zero.curves`: exact exploitability by games and CPU time, beside two other learners.
- :mod:`~ttt_apps.studies.alpha_zero.worth`: the ablation of its parts.
- :mod:`~ttt_apps.studies.alpha_zero.proved`: boards too large to solve, with proved positions.
- :mod:`~ttt_apps.studies.alpha_zero.study`: all of them together.
"""
