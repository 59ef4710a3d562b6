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

A game, a learner with a live plot of its exact exploitability, its values beside the exact ones, a
compressed table, and a match with its interval. All exact results are computed, not sampled.

As a notebook: `examples/tour.ipynb`, which `make notebooks` writes. As a script: `python
examples/tour.py`. In a checkout, `pip install ".[notebook,report]"` installs its requirements.
"""

# %%
import gymnasium
import matplotlib.pyplot as plt
import numpy as np
from IPython.display import display

from baselines import random_play_values
from baselines.compression import make_grouping
from baselines.exact import solve
from learners import QLearningConfig, Trainer, make_initial_rng
from ttt_envs import Boards, Game, from_text, make_policy
from ttt_eval.exact import exploitability, match_outcome, training_callback
from ttt_eval.matches import play_pairs

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
## A game

Both players win or block where they can, and turns may be skipped: o moves first, and may move
again at once.
"""

# %%
env = gymnasium.make(
    "ttt_envs:ttt/MNK-v0",
    skip_chance=SKIP_CHANCE,
    opponent="win-or-block",
    render_mode="rgb_array_list",
)
player = make_policy("win-or-block", game)
rng = np.random.default_rng(SEED)
observation, info = env.reset(seed=SEED)
over = False
while not over:
    own, other = observation.reshape(2, 9).astype(np.int8)
    # from the mover's view: own stones are 1
    board = Boards((own + 2 * other)[None], np.zeros(1, np.int8))
    action = int(rng.choice(9, p=player.probabilities(board)[0]))
    observation, reward, terminated, truncated, info = env.step(action)
    over = terminated or truncated

pictures = env.render()
figure, axes = plt.subplots(1, len(pictures), figsize=(1.4 * len(pictures), 1.7))
for axis, picture in zip(axes, pictures, strict=True):
    axis.imshow(picture)
    axis.set_axis_off()
show(figure)
print(reward)

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

The value of each move from the mover's view, from -1, a loss, to 1, a win; with skips values lie
between. Rarely played moves have the largest errors.
"""

# %%
positions = [".../.../... o", "o../.x./... o", "ox./.o./x.. x"]
boards = Boards.from_positions([from_text(text) for text in positions])
exact = solve(game).action_values(boards)
learned = learner.action_values(boards)
figure, axes = plt.subplots(2, len(positions), figsize=(6, 4.2), layout="constrained")
for row, (name, values) in enumerate((("exactly", exact), ("learned", learned))):
    for column, axis in enumerate(axes[row]):
        grid = values[column].reshape(3, 3)
        image = axis.imshow(grid, vmin=-1, vmax=1, cmap="PuOr")
        for (i, j), value in np.ndenumerate(grid):
            stone = ".ox"[boards.cells[column, 3 * i + j]]
            axis.text(
                j,
                i,
                stone if np.isnan(value) else f"{value:.2f}",
                ha="center",
                va="center",
                fontsize="small",
            )
        axis.set(xticks=[], yticks=[], title=f"{name}, {positions[column][-1]} to move")
figure.colorbar(image, ax=axes, shrink=0.8)
show(figure)
print(f"largest error on these boards: {np.nanmax(abs(exact - learned)):.4f}")

# %% [markdown]
"""
## A compressed table

The values of all positions under random play, as a matrix of four cells by the other five (Fujita
and Watanabe, 2022). Its singular values fall fast, so a table of low rank still plays well. Below
is the exploitability of softmax players with tables of several ranks.
"""

# %%
# with player_0 to move; with skips the board does not determine the mover
table = random_play_values(game)[0]
singular = np.linalg.svd(make_grouping(game, "svd").tensor(table), compute_uv=False)
ranks = [0, 1, 2, 4, 8, 16, 32, 81]
exploited = [exploitability(game, f"svd:rank={rank}") for rank in ranks]
figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3), layout="constrained")
left.semilogy(np.arange(1, len(singular) + 1), np.maximum(singular, 1e-6), marker=".")
left.set(xlabel="number", ylabel="singular value", ylim=(1e-3, None))
right.plot(ranks, exploited, marker="o")
right.set(xlabel="rank", ylabel="exploitability", xscale="symlog", ylim=(0, 1))
for axis in (left, right):
    axis.grid(alpha=0.3)
show(figure)
print(
    f"rank {ranks[3]} has an exploitability of {exploited[3]:.4f}, the whole table of "
    f"{exploited[-1]:.4f}"
)

# %% [markdown]
"""
## A match with its interval

Pairs of games with seats swapped and the same skips; the plot has the estimate and the exact
result.
"""

# %%
score = play_pairs(game, learner, "win-or-block", pairs=1_000, seed=SEED)
estimate = score.rate("score")
truth = match_outcome(game, learner, "win-or-block")
points = truth.win + truth.draw / 2
figure, axis = plt.subplots(figsize=(6, 1.2), layout="constrained")
axis.errorbar(
    [estimate.mean],
    [0],
    xerr=[[estimate.mean - estimate.low], [estimate.high - estimate.mean]],
    fmt="o",
    capsize=4,
)
axis.axvline(points, color="tab:red")
axis.set(yticks=[], xlabel="points a game against win-or-block: estimate and truth (line)")
show(figure)
print(
    f"points against win-or-block: {estimate.mean:.4f}, 95% interval {estimate.low:.4f} to "
    f"{estimate.high:.4f}"
)
print(f"exactly: {points:.4f}")

# %%
print(f"exploitability: {curve_values[-1]:.4f}")
