"""AlphaZero with chance nodes: exact strength by CPU time, an ablation of its parts, and larger boards.

- :mod:`~ttt_apps.studies.alpha_zero.training_runs`: a training in this process, with measurements.
- :mod:`~ttt_apps.studies.alpha_zero.curves`: exact exploitability by games and CPU time, beside two other learners.
- :mod:`~ttt_apps.studies.alpha_zero.ablation`: the ablation of its parts.
- :mod:`~ttt_apps.studies.alpha_zero.proved_positions`: boards too large to solve, with proved positions.
- :mod:`~ttt_apps.studies.alpha_zero.study`: all of them together.
"""
