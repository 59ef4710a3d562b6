"""Opening books from logged games or from a longer search."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from baselines.opening_book import Book, Canonical, PlayedMoves, check_plies, make_book
from ttt_envs.agents.specs import make_values
from ttt_envs.core.checks import Refusal
from ttt_envs.core.parallel import Jobs
from ttt_envs.game.boards import Boards, from_keys
from ttt_envs.game.game import Game, Position
from ttt_eval.matches.games import PlayedGame, read_games
from ttt_eval.matches.openings import unfinished_successors
from ttt_eval.store.result_store import Unit, collect_results, json_numbers, no_progress

GAMES_PER_CHUNK = 1 << 11
"""Number of games whose moves are counted at once."""
POSITIONS_PER_UNIT = 16
"""Number of positions per unit of work."""
GAMES_PER_SEARCHED_MOVE = 1000
"""Number of games that the value of a searched move counts for."""


def book_from_games(
    logs: Sequence[str | Path],
    *,
    plies: int,
    minimum: int = 1,
    player: str | None = None,
    tell: Callable[[str], object],
) -> Book:
    """Build a book from all games in some logs.

    Games not played to the end of the board are ignored: an unfinished game has no winner, and a
    loss on time is not caused by a move.

    Args:
        logs: files of games, see :func:`ttt_eval.matches.games.read_games`; all of one game.
        plies: number of stones on a board from which on the book is empty.
        minimum: minimum number of games in which a move was made.
        player: include only the moves of this player, named as in the logs.
        tell: called with messages for the user.

    Raises:
        OSError: a log that cannot be read.
        ValueError: no log, logs of several games or without a finished game, an unknown player.
    """
    check_plies(plies)
    games = _finished_games(logs, tell)
    first = next(games, None)
    if first is None:
        raise Refusal("there is no finished game in these logs: name others")
    moves = _played_moves(itertools.chain([first], games), plies, player)
    book = make_book(first.game, moves, plies=plies, minimum=minimum)
    if not book.games:
        mover = player or "anyone"
        raise Refusal(
            f"there is no finished game in which {mover} moves on a board of fewer than {plies} "
            "stones in these logs: name others, or more plies"
        )
    return book


def _finished_games(
    logs: Sequence[str | Path], tell: Callable[[str], object]
) -> Iterator[PlayedGame]:
    """Yield the games of some logs that were played to the end of the board; all games must be of
    one kind.
    """
    game = None
    for log in logs:
        for played_game in read_games(log, tell=tell):
            game = game or played_game.game
            if played_game.game != game:
                raise Refusal(
                    f"{log} has a game of {played_game.game}, and others are of {game}: make a "
                    "book for each"
                )
            if played_game.result is not None and played_game.forfeit is None:
                yield played_game


def _played_moves(
    games: Iterator[PlayedGame], plies: int, player: str | None
) -> Iterator[PlayedMoves]:
    """Yield the early moves of a player, or of both, in finished games, many games at once."""
    # until a chunk is empty
    for chunk in iter(lambda: list(itertools.islice(games, GAMES_PER_CHUNK)), []):
        positions: list[Position] = []
        actions: list[int] = []
        results: list[int] = []
        num_games = 0
        for played_game in chunk:
            before = len(positions)
            for position, action, _ in itertools.islice(played_game.positions(), plies):
                # which an opening may not be
                is_early = np.count_nonzero(position.cells) < plies
                is_counted = player in (None, played_game.players[position.mover])
                if is_early and is_counted and played_game.result is not None:
                    positions.append(position)
                    actions.append(action)
                    results.append(played_game.result.result_index(position.mover))
            num_games += len(positions) > before
        if positions:
            counts = np.eye(3, dtype=np.int64)[results]
            yield PlayedMoves(
                Boards.from_positions(positions), np.array(actions, np.int64), counts, num_games
            )


def early_positions(game: Game, plies: int) -> Iterator[Boards]:
    """Yield all reachable positions with 0, 1, ... ``plies - 1`` stones up to symmetry, whichever
    player owns the stones.

    Positions that differ only by exchanged colours are yielded once: from the mover's view they are
    the same.
    """
    boards = Boards.start(game)
    for _ in range(min(plies, game.cells)):
        yield boards
        cells, mover = unfinished_successors(game, boards)
        if not len(mover):
            return
        turns = (mover, 1 - mover) if game.skip_chance > 0 else (mover,)
        keys = [Canonical.from_boards(Boards(cells, turn), game).keys for turn in turns]
        boards = _boards(game, np.unique(np.concatenate(keys), axis=0))


def book_from_search(
    game: Game,
    policy: str,
    folder: Path,
    provenance: Mapping[str, object],
    *,
    plies: int,
    jobs: Jobs = 1,
    progress: Callable[[int, int], None] = no_progress,
) -> Book:
    """Build a book of a policy's values for every move in all early positions, by a longer search
    than a game allows.

    A value v counts as 1,000 games, of which (1 + v) / 2 are won and the others lost.

    Args:
        game: the game.
        policy: the spec string of a policy with action values.
        folder: folder of the results; the same call resumes.
        provenance: as of :func:`ttt_eval.store.result_store.collect_results`.
        plies: number of stones on a board from which on the book is empty.
        jobs: the workers.
        progress: called with the number of units of work done, of up to 16 positions each, and the
            total.

    Raises:
        ValueError: a policy without values, an invalid number of plies.
    """
    check_plies(plies)
    make_values("policy", policy, game)  # reports a policy without values
    units = []
    for boards in early_positions(game, plies):
        keys = Canonical.from_boards(boards, game).keys
        starts = range(0, len(keys), POSITIONS_PER_UNIT)
        units += [{"keys": keys[start : start + POSITIONS_PER_UNIT].tolist()} for start in starts]
    settings = {**provenance, "game": game.to_dict(), "policy": policy}
    search = partial(_search_positions, game, policy)
    results = collect_results(search, units, folder, settings, jobs=jobs, progress=progress)
    parts = (
        _count_values(_boards(game, unit["keys"]), values)
        for unit, values in zip(units, results, strict=True)
    )
    return make_book(game, parts, plies=plies)


def _boards(game: Game, keys: Sequence[Sequence[int]] | NDArray[np.uint64]) -> Boards:
    """Return the positions with some keys, uint64[B, words], from the mover's view."""
    own = from_keys(np.asarray(keys, np.uint64), game)
    return Boards(own, np.zeros(len(own), np.int8))


def _search_positions(game: Game, policy: str, unit: Unit) -> list[list[float | None]]:
    """Return the action values of some positions, from the mover's view, None where there is
    none.
    """
    return json_numbers(
        make_values("policy", policy, game).action_values(_boards(game, unit["keys"]))
    )


def _count_values(boards: Boards, values: Sequence[Sequence[float | None]]) -> PlayedMoves:
    """Return all moves with action values as the results of games."""
    exact = np.array(values, np.float64)
    row, action = np.nonzero(~np.isnan(exact))
    wins = np.rint(GAMES_PER_SEARCHED_MOVE * (1 + np.clip(exact[row, action], -1, 1)) / 2).astype(
        np.int64
    )
    counts = np.stack([wins, np.zeros_like(wins), GAMES_PER_SEARCHED_MOVE - wins], axis=1)
    return PlayedMoves(boards.take(row), action, counts)
