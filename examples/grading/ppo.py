"""A solution of the task ppo in NumPy, see docs/how-to/grade.md."""

import numpy as np

NUM_STEPS = 32
NUM_EPOCHS = 4
MINIBATCH_SIZE = 256
LEARNING_RATE = 5e-3
HIDDEN = 64
LAMBDA = 0.95
CLIP = 0.2
ENTROPY_COEFFICIENT = 0.02
VALUE_COEFFICIENT = 0.5


class Net:
    """A net with one hidden layer, and Adam."""

    def __init__(self, num_inputs, num_outputs, rng):
        sizes = (num_inputs, HIDDEN), (HIDDEN,), (HIDDEN, num_outputs), (num_outputs,)
        self.weights = [rng.normal(0, 1 / np.sqrt(size[0]), size) for size in sizes]
        self.weights[3][:] = 0
        self.means = [np.zeros(size) for size in sizes]
        self.squares = [np.zeros(size) for size in sizes]
        self.updates = 0

    def __call__(self, inputs):
        w1, b1, w2, b2 = self.weights
        self.inputs = inputs
        self.hidden = np.maximum(inputs @ w1 + b1, 0)
        return self.hidden @ w2 + b2

    def descend(self, slopes):
        """Descend, given the slopes of the loss in the last outputs."""
        back = (slopes @ self.weights[2].T) * (self.hidden > 0)
        gradients = self.inputs.T @ back, back.sum(0), self.hidden.T @ slopes, slopes.sum(0)
        self.updates += 1
        for weight, mean, square, gradient in zip(
            self.weights, self.means, self.squares, gradients, strict=True
        ):
            mean += 0.1 * (gradient - mean)
            square += 0.001 * (gradient**2 - square)
            scale = np.sqrt(square / (1 - 0.999**self.updates)) + 1e-5
            weight -= LEARNING_RATE * mean / (1 - 0.9**self.updates) / scale


def log_softmax(logits, legal):
    logits = np.where(legal, logits, -1e9)
    logits = logits - logits.max(axis=1, keepdims=True)
    return logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))


def collect(environment, observations, info, actor, critic, rng):
    """Return a rollout, and where it ends."""
    rows = []
    for _ in range(NUM_STEPS):
        legal = info["action_mask"] == 1
        log_chances = log_softmax(actor(observations), legal)
        actions = (log_chances + rng.gumbel(size=legal.shape)).argmax(axis=1)
        row = {"observations": observations, "legal": legal, "actions": actions}
        row["old_log_chances"] = log_chances[np.arange(len(actions)), actions]
        row["values"] = critic(observations)[:, 0]
        observations, row["rewards"], terminated, truncated, info = environment.step(actions)
        row["next_values"] = critic(info["next_observations"])[:, 0] * ~terminated
        row["goes_on"] = ~(terminated | truncated)
        rows.append(row)
    return {name: np.stack([row[name] for row in rows]) for name in rows[0]}, observations, info


def estimate(rollout):
    """Return the advantages."""
    advantages = np.zeros(rollout["rewards"].shape)
    carried = 0.0
    for t in reversed(range(NUM_STEPS)):
        delta = rollout["rewards"][t] + rollout["next_values"][t] - rollout["values"][t]
        carried = delta + LAMBDA * rollout["goes_on"][t] * carried
        advantages[t] = carried
    return advantages


def update(actor, critic, batch):
    """Descend the loss of a minibatch."""
    count = len(batch["actions"])
    log_chances = log_softmax(actor(batch["observations"]), batch["legal"])
    chances = np.exp(log_chances)
    taken = np.eye(chances.shape[1])[batch["actions"]]
    ratio = np.exp((log_chances * taken).sum(axis=1) - batch["old_log_chances"])
    gain = batch["advantages"]
    is_clipped = np.where(gain > 0, ratio > 1 + CLIP, ratio < 1 - CLIP)
    slopes = (-gain * ratio * ~is_clipped)[:, None] * (taken - chances)
    entropy = -(chances * log_chances).sum(axis=1, keepdims=True)
    slopes += ENTROPY_COEFFICIENT * chances * (log_chances + entropy)
    actor.descend(slopes / count)
    errors = critic(batch["observations"])[:, 0] - batch["returns"]
    critic.descend(2 * VALUE_COEFFICIENT * errors[:, None] / count)


def train(environment, steps, seed):
    rng = np.random.default_rng(seed)
    observations, info = environment.reset(seed)
    actor = Net(observations.shape[1], environment.num_actions, rng)
    critic = Net(observations.shape[1], 1, rng)
    for _ in range(0, steps, NUM_STEPS * environment.num_envs):
        rollout, observations, info = collect(environment, observations, info, actor, critic, rng)
        rollout["advantages"] = estimate(rollout)
        rollout["returns"] = rollout["advantages"] + rollout["values"]
        gain = rollout["advantages"]
        rollout["advantages"] = (gain - gain.mean()) / (gain.std() + 1e-8)
        flat = {name: part.reshape(-1, *part.shape[2:]) for name, part in rollout.items()}
        for _ in range(NUM_EPOCHS):
            order = rng.permutation(len(flat["actions"]))
            for start in range(0, len(order), MINIBATCH_SIZE):
                rows = order[start : start + MINIBATCH_SIZE]
                update(actor, critic, {name: part[rows] for name, part in flat.items()})
    return actor
