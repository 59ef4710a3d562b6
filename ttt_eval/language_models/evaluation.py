"""The evaluation of a model: its games, its answers in all positions, and the result of both."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from ttt_envs.agents.policy import Policy
from ttt_envs.game.boards import Boards
from ttt_eval.language_models.player import TextSettings, game_tasks, position_tasks, reachable_positions
from ttt_eval.language_models.results import AnsweredPositions, describe_games, describe_positions
from ttt_eval.language_models.scheduler import RequestScheduler
from ttt_eval.matches.luck import OFF

Progress = Callable[[int, int], object]
"""Called with the number of finished games and positions, and of all."""
KIND = "language-model"
FORMAT = 1
Result = TypeVar("Result")


def evaluate_model(
    scheduler: RequestScheduler,
    settings: TextSettings,
    *,
    opponent: Policy,
    games: int,
    positions: bool,
    luck_correction: str = OFF,
    progress: Progress | None = None,
    tell: Callable[[str], object] = lambda sentence: None,
) -> dict[str, Any]:
    """Return the JSON-ready result of a model; docs/language-models.md documents the keys.

    Args:
        scheduler: asks the model.
        settings: of the game as the model sees it.
        opponent: of the games.
        games: number of games, even; 0 for none.
        positions: whether the model is asked about all reachable positions.
        luck_correction: value function of :func:`ttt_eval.matches.luck.value_function`.
        progress: called after each game and position.
        tell: called with an estimate of the number of requests and their cost, before the first request.

    Raises:
        EndpointError: a request has failed for good.
        ValueError: too many positions, or limits that allowed no pair of games and no position.
    """
    game, sampling = settings.game, scheduler.sampling
    boards = reachable_positions(game) if positions else None
    total = games + (0 if boards is None else len(boards.mover))
    tell(estimate_requests(scheduler, settings, games, total - games))
    counter = _Counter(progress or (lambda done, total: None), total)
    finished = dict(counter.count(scheduler.run(game_tasks(settings, opponent, games))))
    found_games = describe_games(game, finished, opponent, luck_correction)
    found_positions = None
    if boards is not None:
        turns = dict(counter.count(scheduler.run(position_tasks(settings, boards))))
        if turns:
            answered = AnsweredPositions(boards, turns, sampling.deterministic)
            found_positions = describe_positions(game, sampling.model, answered)
    if found_games is None and found_positions is None:
        raise ValueError(
            "the limit on requests or cost has ended the work before a pair of games or a position was finished: the "
            "same command with a larger limit continues"
        )
    return {
        "format": FORMAT,
        "kind": KIND,
        "game": game.to_dict(),
        "endpoint": scheduler.endpoint.url,
        "model": sampling.model,
        "temperature": sampling.temperature,
        "max_tokens": sampling.max_tokens,
        "presentation": settings.presentation,
        "illegal": settings.illegal,
        "max_asks": settings.max_asks,
        "show_legal": settings.show_legal,
        "seed": settings.seed,
        "opponent": str(opponent),
        "luck_correction": luck_correction,
        "complete": not scheduler.spent,
        "games": found_games,
        "positions": found_positions,
        "usage": scheduler.used.to_dict(scheduler.limits),
        "new": scheduler.new.to_dict(scheduler.limits),
    }


def estimate_requests(scheduler: RequestScheduler, settings: TextSettings, games: int, positions: int) -> str:
    """Return a sentence with the number of requests, if all answers are legal, and an upper bound of their cost.

    The players of a pair of games place a stone on each cell at most, so that the model moves as often in a pair as a
    board has cells, with skips on average.
    """
    requests = games // 2 * settings.game.cells + positions
    question = next(next(position_tasks(settings, Boards.start(settings.game))))
    cost = requests * scheduler.max_cost(question)
    priced = f", of a cost of about {cost:,.2f} at most" if cost else ""
    return (
        f"up to {requests:,} requests{priced}, and more after illegal answers; stored answers are not requested again"
    )


class _Counter:
    """Counts results for the progress bar."""

    def __init__(self, progress: Progress, total: int) -> None:
        self._progress, self._total, self._done = progress, total, 0
        progress(0, total)

    def count(self, results: Iterable[tuple[int, Result]]) -> Iterator[tuple[int, Result]]:
        for one in results:
            self._done += 1
            self._progress(self._done, self._total)
            yield one
