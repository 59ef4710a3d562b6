"""Games as text, move by move, as the environments report them: tests/goldens/playthroughs."""

import numpy as np

from ttt_envs import mnk_v0

FAMILIES = {
    "plain": {},
    "skips": {"skip_chance": 0.5},
    "gravity": {"size": (3, 4), "win_length": 3, "gravity": True},
    "misere": {"misere": True},
    "torus": {"size": (3, 4), "win_length": 3, "torus": True},
    "exact-lines": {"size": (1, 8), "win_length": 3, "overlines": False},
    "phantom-classic": {"phantom": "classic", "skip_chance": 0.25},
    "phantom-abrupt": {"phantom": "abrupt"},
    "15x15": {"size": 15, "win_length": 5},
}
"""family -> arguments of the environment; tests/signatures.py has opponents"""
SEED = 20
ACTIONS = {"exact-lines": [0, 4, 1, 6, 3, 7, 2, 5], "15x15": [0, 16, 1, 17, 2, 18, 3, 19, 4]}
"""family -> the actions; those of other families are drawn from the mask"""
MAX_DRAWN_ROWS = 6
"""Maximum number of rows of a board that is drawn after every move."""


def playthrough(family):
    """Return the text of the first episode of a seed."""
    settings = FAMILIES[family]
    arguments = ", ".join(f"{name}={value!r}" for name, value in settings.items())
    lines = [f"arguments: {arguments or 'none'}", f"seed: {SEED}"]
    rng = np.random.default_rng(SEED)
    lines += play_both(settings, rng, ACTIONS.get(family, ()))
    return "\n".join(lines) + "\n"


def play_both(settings, rng, actions):
    """Yield the lines of an episode of the PettingZoo environment."""
    env = mnk_v0.raw_env(**settings)
    env.reset(seed=SEED)
    yield from both_lines(env)
    number = 0
    while not any(env.terminations.values()):
        agent = env.agent_selection
        mask = env.observe(agent)["action_mask"]
        action = actions[number] if actions else int(rng.choice(np.flatnonzero(mask)))
        number += 1
        stones = np.count_nonzero(env.state()[:, :, :2])
        env.step(action)
        is_over = any(env.terminations.values())
        is_placed = np.count_nonzero(env.state()[:, :, :2]) > stones
        is_skip = is_placed and not is_over and env.agent_selection == agent
        result = "places a stone" if is_placed else "finds a stone"
        skip = ", the other turn is skipped" if is_skip else ""
        yield from ["", f"# {number}: {agent} plays {action} and {result}{skip}"]
        yield from both_lines(env)


def both_lines(env):
    """Return the board, both views of it with own stones as 1, and the mask; rewards and infos."""
    views = [env.observe(agent) for agent in env.possible_agents]
    masks = [view["action_mask"] for view in views]
    grids = [
        draw(env.state(), ".ox"),
        *(draw(view["observation"], ".12") for view in views),
        *(draw_mask(mask, env.game) for mask in masks if mask.any()),
    ]
    rows = ["   ".join(row).rstrip() for row in zip(*grids, strict=True)]
    if env.game.rows > MAX_DRAWN_ROWS and not any(env.terminations.values()):
        rows = [f"{sum(map(int, masks[0])) + sum(map(int, masks[1]))} legal actions"]
    agent = env.agent_selection
    rewards = ", ".join(f"{env.rewards[player]:g}" for player in env.possible_agents)
    return [*rows, f"next {agent}; rewards {rewards}; {describe(env.infos[agent])}"]


def draw(planes, characters):
    """Return the rows of a board int8[rows, columns, 2 or more]: empty, first and second plane."""
    cells = (planes[:, :, 0] + 2 * planes[:, :, 1]).astype(int)
    return ["".join(characters[cell] for cell in row) for row in cells]


def draw_mask(mask, game):
    """Return the rows of a mask; with gravity it is that of the columns, in the first row."""
    rows = mask.reshape(-1, game.columns).tolist()
    rows += [[]] * (game.rows - len(rows))
    return ["".join(map(str, row)) for row in rows]


def describe(info):
    """Return an info as words."""
    return ", ".join(f"{name} {value:g}" for name, value in info.items())
