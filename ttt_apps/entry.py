"""Entry points of the three commands, which import their modules lazily."""

from __future__ import annotations

from importlib import import_module

from ttt_apps.signals import end_on_interrupt, silent_interrupts


def train() -> None:
    """``ttt-train``."""
    _run("ttt_apps.train")


def evaluate() -> None:
    """``ttt-evaluate``."""
    _run("ttt_apps.evaluate")


def play() -> None:
    """``ttt-play``."""
    _run("ttt_apps.play")


def _run(module: str) -> None:
    """Import a module and run its ``main``."""
    with silent_interrupts():
        main = import_module(module).main
    try:
        main()
    finally:
        end_on_interrupt()  # a second Ctrl-C, while Python ends
