"""AlphaZero on boards with proved positions only: its rate of kept results, beside searches with equal time."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from ttt_apps.studies.alpha_zero.training_runs import NAME, make_training, temporary_run, training_unit
from ttt_apps.studies.trees import mean_result
from ttt_envs.game.boards import from_text
from ttt_envs.game.game import Game
from ttt_eval.exact.proved_positions import Positions, ProvedPosition, keep_probabilities, read_proved, summarize
from ttt_eval.matches.games import PlayedGame
from ttt_eval.matches.match import play_pairs
from ttt_eval.matches.move_cost import measure_move_costs
from ttt_eval.reports.plots import LOSS, WIN, IntervalRow, draw_intervals, draw_symbol_legend
from ttt_eval.result_store import Unit
from ttt_eval.statistics import Interval, interval_from_pairs, is_above, is_certain, wilson
from ttt_eval.study import Claim, Report, Row, format_difference, format_interval

PART = "proved"
BOARDS = (Game(5, 5, 4), Game(6, 6, 5), Game(7, 7, 5))
"""Boards that are draws with perfect play: docs/baselines/proof.md."""
SECONDS, POSITIONS, PAIRS = 300.0, 100, 25
"""CPU seconds of training; number of proved positions, with a pair of games each; and of pairs from the empty board."""
SIMULATIONS = (32, 128)
MAX_GAMES = 10_000_000
"""Number of games that no training reaches."""
DEPTHS = range(3, 11)
"""Depths of expectiminimax in plies."""
PROBE_SIMULATIONS = (200, 1_000)
"""Simulations of mcts whose costs give the first estimate of the number for a time."""
MAX_RAISES = 4
"""Maximum number of times that this number is raised if its time is too short."""


def units(quick: bool) -> list[Unit]:
    """Return a training and its matches on each board."""
    seconds, positions, pairs = (3.0, 8, 2) if quick else (SECONDS, POSITIONS, PAIRS)
    return [
        {
            "part": PART,
            **training_unit(NAME, game, MAX_GAMES, 0),
            "seconds": seconds,
            "simulations": SIMULATIONS[:1] if quick else SIMULATIONS,
            "positions": positions,
            "asked": 50 if quick else 1_000,
            "pairs": pairs,
        }
        for game in BOARDS[: 1 if quick else None]
    ]


def measure(unit: Unit) -> dict[str, Any]:
    """Train for a CPU time, play searches with equal time per move, and evaluate proved positions."""
    game, training = Game.from_dict(unit["game"]), make_training(unit)
    start = time.process_time()
    while time.process_time() - start < unit["seconds"]:
        training.step()
    measured: dict[str, Any] = {"games": training.done.games, "cpu_s": time.process_time() - start, "players": []}
    positions = read_proved(game.slug)
    sample = _select(positions, unit["asked"])
    with temporary_run(unit, training.learner) as run:
        measured["alone"] = _keep_rate(game, f"run:({run})", sample)
        for simulations in unit["simulations"]:
            player = f"{NAME}:path=({run}),simulations={simulations},symmetrize=false"  # the fastest setting
            [cost] = measure_move_costs(game, player)
            others = [_matching_mcts(game, cost.cpu_s_per_move), _matching_expectiminimax(game, cost.cpu_s_per_move)]
            one = {
                "simulations": simulations,
                "cpu_s": cost.cpu_s_per_move,
                "keep_rate": _keep_rate(game, player, sample),
            }
            matches = [
                {
                    "name": other,
                    "cpu_s": cpu_s,
                    "keep_rate": _keep_rate(game, other, sample),
                    "empty": play_pairs(game, player, other, unit["pairs"], seed=unit["seed"]).table.tolist(),
                    **_play_from_proved(game, player, other, _select(positions, unit["positions"]), unit["seed"]),
                }
                for other, cpu_s in others
            ]
            measured["players"].append({**one, "others": matches})
    return measured


def _select(positions: Positions, count: int) -> Positions:
    """Select ``count`` positions, evenly spaced."""
    every = max(1, len(positions.proven) // count)
    return Positions(positions.game, positions.proven[::every][:count], positions.data)


def _keep_rate(game: Game, player: str, positions: Positions) -> list[float]:
    """Return the share of proved positions in which a player keeps the result, and its interval."""
    return list(summarize(positions, keep_probabilities(game, player, positions))["all"]["all"].share)


def _matching_mcts(game: Game, cpu_s: float) -> tuple[str, float]:
    """Return the search with random rollouts that takes this time per move, and its time."""
    few, many = (
        cost.cpu_s_per_move for cost in measure_move_costs(game, *(f"mcts:simulations={n}" for n in PROBE_SIMULATIONS))
    )
    more = (cpu_s - many) / max(1e-9, many - few) * (PROBE_SIMULATIONS[1] - PROBE_SIMULATIONS[0])
    simulations = max(10, round(PROBE_SIMULATIONS[1] + more))
    for _ in range(MAX_RAISES):
        name = f"mcts:simulations={simulations}"
        [cost] = measure_move_costs(game, name)
        if cost.cpu_s_per_move >= cpu_s:
            break
        simulations = math.ceil(1.05 * simulations * cpu_s / cost.cpu_s_per_move)
    return name, cost.cpu_s_per_move


def _matching_expectiminimax(game: Game, cpu_s: float) -> tuple[str, float]:
    """Return the shallowest search that takes at least this time per move, and its time."""
    for depth in DEPTHS:
        name = f"expectiminimax:depth={depth}"
        [cost] = measure_move_costs(game, name)
        if cost.cpu_s_per_move >= cpu_s:
            break
    return name, cost.cpu_s_per_move


def _play_from_proved(game: Game, player: str, other: str, positions: Positions, seed: int) -> dict[str, list[int]]:
    """Play pairs of games from proved positions, each player once on either side.

    Returns:
        ``held``: pairs by the number of their games, 0, 1 or 2, that end no worse for the player than is proved,
            ``theirs`` the same of the other; ``ahead``: pairs by the difference of these numbers, -2 to 2.
    """
    played: list[PlayedGame] = []
    with TemporaryDirectory() as folder:
        file = Path(folder, "positions.txt")
        file.write_text("".join(f"{one.text}\n" for one in positions.proven), "utf-8")
        play_pairs(game, player, other, len(positions.proven), seed=seed, openings=str(file), log=played.extend)
    by_text = {one.text: one for one in positions.proven}
    kept = [_is_result_kept(one, by_text[str(one.opening)], player) for one in played]
    ours, theirs = np.array(kept).reshape(-1, 2, 2).sum(1).T
    return {
        "held": np.bincount(ours, minlength=3).tolist(),
        "theirs": np.bincount(theirs, minlength=3).tolist(),
        "ahead": np.bincount(ours - theirs + 2, minlength=5).tolist(),
    }  # fmt: skip


def _is_result_kept(played: PlayedGame, proven: ProvedPosition, player: str) -> tuple[int, int]:
    """Return whether a game from a proved position ended no worse than proved, for the player and for the other."""
    mover = from_text(proven.text, played.game).mover
    value = (1 - 2 * mover) * (proven.result == "w")  # for player_0, as all values here
    result = 0 if played.result is None else played.result.returns[0]  # for player_0, too
    first, second = int(result >= value), int(result <= value)
    return (first, second) if played.players[0] == player else (second, first)


# ---------------------------------------------------------------------------------------------------------------------
# Analysis


def analyse(results: Sequence[tuple[Unit, Any]]) -> Report:
    """Report every player on every board, and claims that alpha-zero keeps more results than equally slow searches."""
    decided = len(results) == len(units(False)) and all(unit["seconds"] >= SECONDS for unit, _ in results)
    rows, claims, shares = [], [], []
    for unit, result in results:
        game = Game.from_dict(unit["game"])
        where = f"{game.rows} x {game.columns} ({game.win_length})"
        trained = f"{result['games']:,} games of training in {result['cpu_s']:,.0f} CPU s"
        rows.append(Row(f"{where}: the net alone", "", trained, _format_share(result["alone"])))
        shares.append(IntervalRow(f"{where} net alone", Interval(*result["alone"]), marked=True))
        for one in result["players"]:
            name = f"{NAME}, {one['simulations']} simulations"
            rows.append(
                Row(f"{where}: {name}", "", f"{_format_ms(one['cpu_s'])} CPU a move", _format_share(one["keep_rate"]))
            )
            shares.append(IntervalRow(f"{where} {one['simulations']} sim.", Interval(*one["keep_rate"]), marked=True))
            for other in one["others"]:
                lost = [seat[2] for seat in other["empty"]]
                games = sum(map(sum, other["empty"]))
                games_played = (
                    f"from the empty board {NAME} loses {sum(lost)} of {games} games; from proved positions it keeps "
                    f"the result in {format_interval(_share_of_games(other['held']))} of games, {other['name']} in "
                    f"{format_interval(_share_of_games(other['theirs']))}"
                )
                cost = f"{_format_ms(other['cpu_s'])} CPU a move; {games_played}"
                rows.append(Row(f"{where}: {other['name']}, for {name}", "", cost, _format_share(other["keep_rate"])))
                shares.append(IntervalRow(f"{where} {_short_name(other['name'])}", Interval(*other["keep_rate"])))
                claims += [
                    Claim(
                        f"{where}: {name}, never loses the drawn game to {other['name']}",
                        is_certain(games - sum(lost), games) if decided else None,
                        f"{sum(lost)} of {games} games lost: {lost[0]} moving first, {lost[1]} second; a rate of "
                        f"{format_interval(wilson(sum(lost) / games, games))}",
                    ),
                    _lead_claim(f"{where}: {name}", other, decided),
                ]
    draw = draw_intervals(shares, "share of proved positions in which the result is kept")

    def draw_figure(figure: Any) -> None:
        figure.set_size_inches(8, 1.3 + 0.27 * len(shares))
        draw(figure)
        draw_symbol_legend(
            figure,
            {
                NAME: {"marker": "D", "color": LOSS},
                "searches that take as long": {"marker": "o", "color": WIN},
            },
        )

    data = [{**unit, **result} for unit, result in results]
    return Report(rows, claims, {"alpha-zero-proved": draw_figure}, data=data)


def _lead_claim(name: str, other: dict[str, Any], decided: bool) -> Claim:
    """Claim that more of its games from proved positions end no worse than proved."""
    ahead = mean_result(other["ahead"], (-1, -0.5, 0, 0.5, 1))
    return Claim(
        f"{name}, keeps the proved result in more games than {other['name']} does against it",
        is_above([ahead]) if decided else None,
        f"share of games, its own less the other's: {format_difference(ahead)}, {sum(other['ahead'])} pairs",
    )


def _share_of_games(pairs: Sequence[int]) -> Interval:
    """Return the share of games, from pairs by their number of counted games."""
    counts, points = np.array(pairs), np.array([0.0, 0.5, 1.0])
    total = int(counts.sum())
    mean = float(counts @ points / total)
    return interval_from_pairs(mean, float(counts @ (points - mean) ** 2 / max(1, total - 1)), total)


def _format_share(ends: Sequence[float]) -> str:
    return f"keeps the result in {format_interval(Interval(*ends))} of proved positions"


def _short_name(name: str) -> str:
    """Shorten the name of a search for a figure."""
    return name.replace(":simulations=", ", ").replace("expectiminimax:depth=", "depth ")


def _format_ms(seconds: float) -> str:
    digits = max(0, 1 - math.floor(math.log10(1000 * seconds)))
    return f"{1000 * seconds:.{digits}f} ms"
