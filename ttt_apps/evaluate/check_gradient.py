"""``evaluate.py check advantages|loss NAME``: is it right? A verdict on the gradient."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import tyro

from ttt_apps.cli import options as cli
from ttt_apps.evaluate.check import NamedCheck
from ttt_envs.agents.specs import load_object
from ttt_eval.checks import Check, check_advantages, check_loss, gae


@dataclass(frozen=True)
class _CheckGradient(NamedCheck):
    """Options of both checks."""

    name: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="NAME")] = tyro.MISSING
    """module:function; of advantages also gae, generalised advantage estimates"""
    game: Annotated[str, tyro.conf.arg(metavar="RxC/K")] = "2x3/3"
    """rows, columns and win length, up to nine cells; chance gives another turn"""
    tokens: cli.Flag = False
    """decisions are several tokens"""
    cpu: float = 60.0
    """CPU s of samples"""
    seed: cli.Natural = 0
    """seed of all random numbers"""


@dataclass(frozen=True)
class CheckAdvantages(_CheckGradient):
    """Check advantages by what they read and by the gradient they give; wrong ones end with exit
    code 2.
    """

    seats: tuple[int, ...] | None = None
    """of the learner: 0 moves first, 1 second, 0 1 both; default: both for a function that asks for
    movers, or else the first"""
    gamma: float | None = None
    """discount of rollouts for each decision; default: 0.9"""
    lam: float | None = None
    """lambda of rollouts; default: any from 0 to 1"""
    batch: cli.Positive | None = None
    """number of games in a batch; default: 8"""
    group: cli.Positive | None = None
    """number of games in a group; default: the batch"""

    def check(self) -> Check:
        """Return the result."""
        function = gae if self.name == "gae" else load_object(self.name)
        return check_advantages(function, **self.settings())


@dataclass(frozen=True)
class CheckLoss(_CheckGradient):
    """Check the expected gradient of a loss; a wrong one ends with exit code 2."""

    meant: Literal[
        "policy",
        "A log pi",
        "ratio x A",
        "PPO clip",
        "kl",
        "kl of episodes",
        "reverse kl",
        "entropy",
    ] = "policy"
    """what it is to descend"""
    entropy: float | None = None
    """coefficient of the entropy bonus; default: that of the loss"""
    kl: float | None = None
    """coefficient of the divergence from ref_logp; default: that of the loss"""
    clip: Annotated[float | tuple[float, float] | None, tyro.conf.arg(metavar="FLOAT [FLOAT]")] = (
        None
    )
    """range of the clip, or those below and above ratio 1; default: that of the loss"""
    backend: Literal["torch", "jax", "numpy"] = "torch"
    """what differentiates it"""
    batch: cli.Positive | None = None
    """number of episodes in a batch; default: 8, or 256 if the loss normalises advantages"""

    def check(self) -> Check:
        """Return the result."""
        return check_loss(load_object(self.name), **self.settings())
