# ---
# jupyter:
#   jupytext:
#     cell_markers: '"""'
#     formats: ipynb,py:percent
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
"""# A tour with figures

A learner with a live plot of its exact exploitability, and its values beside the exact ones. Exact
results are computed, not sampled.

As a notebook: `examples/tour.ipynb`, which `make notebooks` writes. As a script: `python
examples/tour.py`. In a checkout, `pip install ".[notebook,report]"` installs its requirements.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from IPython.display import display

from baselines.exact import solve
from learners import QLearningConfig, Trainer, make_initial_rng
from ttt_envs import Game
from ttt_eval.exact import exploitability, training_callback
from ttt_eval.language_models import reachable_positions

# %%
GAMES = 100_000  # number of self-play games; 2_000 for a quick look
SKIP_CHANCE = 0.25  # probability that a turn is skipped
SEED = 0  # of all random numbers

game = Game(3, 3, 3, SKIP_CHANCE)


def show(figure):
    """Show a figure; return a handle to update it in place, None outside a notebook."""
    plt.close(figure)
    return display(figure, display_id=True)


# %% [markdown]
"""
## A learner, and how far it is from perfect play

Tabular Q-learning in self-play. After each twentieth of its games its exploitability is computed:
the average gain of a best responder. Only perfect play has 0.
"""

# %%
learner = QLearningConfig(backup="negamax", symmetries="all").build(game, make_initial_rng(SEED))
curve_games = [0]
curve_values = [exploitability(game, learner)]
figure, axis = plt.subplots(figsize=(6, 3), layout="constrained")
(curve,) = axis.plot(curve_games, curve_values, marker=".")
axis.set_yscale("symlog", linthresh=1e-3)  # to show 0
axis.set(xlim=(0, GAMES), ylim=(0, 1), xlabel="games", ylabel="exploitability")
axis.grid(alpha=0.3)
display_handle = show(figure)


def draw(games, numbers):
    """Add a point to the curve and redraw it."""
    curve_games.append(games)
    curve_values.append(numbers["exploitability"])
    curve.set_data(curve_games, curve_values)
    if display_handle is not None:
        display_handle.update(figure)


every = max(1, GAMES // 20)
Trainer(learner, "self", GAMES, batch=256, seed=SEED).run(
    every=every, callbacks=[training_callback(game, None, every, GAMES)], log=draw
)
print(
    f"after {curve_games[0]} games {curve_values[0]:.4f}, after {curve_games[-1]} games "
    f"{curve_values[-1]:.4f}"
)

# %% [markdown]
"""
## Learned values beside exact values

The values of all moves in all positions, from the mover's view, from -1, a loss, to 1, a win; with
skips values lie between. Rarely played moves have the largest errors; a move that is never played
keeps the value 0.
"""

# %%
boards = reachable_positions(game)
exact = solve(game).action_values(boards)
learned = learner.action_values(boards)
figure, axis = plt.subplots(figsize=(4, 4), layout="constrained")
axis.scatter(exact, learned, s=1)
axis.set(xlabel="exact", ylabel="learned")
show(figure)
print(f"mean error: {np.nanmean(abs(exact - learned)):.4f}")
