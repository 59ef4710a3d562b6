"""``evaluate.py llm``: a language model as a player, through an HTTP endpoint."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro
from rich.table import Table

from ttt_apps.cli import (
    Count,
    GameOptions,
    ReportOptions,
    check_correction,
    check_seed,
    new_table,
    num_pairs,
    print_output,
    print_status,
    print_table,
    progress_bar,
    report_interrupt,
    warn,
    write_folder_report,
)
from ttt_apps.train_options import folder_name
from ttt_apps.versions import make_provenance
from ttt_envs.agents.specs import make_policy
from ttt_eval.metrics import LOSSES, METRICS

if TYPE_CHECKING:  # compiled code is imported where a game is played, not where help is written
    from ttt_envs.game.game import Game
    from ttt_eval.language_models.endpoint import Endpoint, Sampling
    from ttt_eval.language_models.player import TextSettings
    from ttt_eval.language_models.scheduler import Limits, TokenUsage

DEFAULT_GAMES = 100
MAX_GAMES = 100_000
SHOWN_BY_STONES = 30


@dataclass(frozen=True)
class Llm(ReportOptions, GameOptions):
    """Evaluate a language model as a player, through any endpoint with OpenAI's chat completions.

    It plays pairs of games with the seats swapped, answers in all reachable positions, or both. Answers are stored: the
    same command continues where it was stopped, and pays for no answer twice.
    """

    endpoint: Annotated[str, tyro.conf.arg(metavar="URL")] = ""
    """address of the endpoint, such as http://127.0.0.1:8000/v1"""
    model: Annotated[str, tyro.conf.arg(metavar="NAME")] = ""
    """name of the model, as the endpoint knows it"""
    key_variable: Annotated[str, tyro.conf.arg(metavar="NAME")] = "OPENAI_API_KEY"
    """environment variable that holds the key; the key is sent to the endpoint, and never written or printed"""
    presentation: str = "grid"
    """presentation of the game: grid, coordinates, numbers, shuffled, and on 3 x 3 magic-square or words"""
    games: Count | None = None
    """number of games, even; default: 100, with --positions none"""
    opponent: str = ""
    """opponent in the games, such as random or run:PATH; default: optimal on boards of up to 16 cells, else
    win-or-block"""
    positions: Literal["all", "none"] = "none"
    """ask for the move in every reachable position; at temperature 0 the result has the exact exploitability"""
    illegal: Literal["ask", "lose", "random"] = "ask"
    """what follows an illegal answer: ask again, a lost game, or a random move"""
    max_asks: Count = 3
    """number of further questions in one turn after illegal answers, with --illegal ask; then the game is lost"""
    hide_legal: tyro.conf.FlagCreatePairsOff[bool] = False
    """do not list the legal moves in prompts"""
    temperature: float | None = 0.0
    """temperature of the model; None leaves it to the endpoint"""
    max_tokens: Count = 1024
    """maximum number of tokens of an answer"""
    token_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    """name of that field in requests: some models only know the second"""
    seed: Count = 0
    """seed of skips, opponent and shuffled names; sent to the endpoint with a temperature above 0"""
    no_send_seed: tyro.conf.FlagCreatePairsOff[bool] = False
    """send no seed, for endpoints that do not know the field"""
    concurrency: Count = 8
    """maximum number of requests at a time"""
    timeout: float = 120.0
    """maximum duration of a request in seconds"""
    retries: Count = 6
    """further attempts after a failure that may pass, with exponential backoff"""
    max_requests: Count | None = None
    """maximum number of new answers"""
    max_cost: float | None = None
    """maximum cost of new answers, in the currency of the prices"""
    price_in: float = 0.0
    """price of a million tokens of prompts"""
    price_out: float = 0.0
    """price of a million tokens of answers"""
    luck_correction: Annotated[str, tyro.conf.arg(metavar="exact|off|SPEC")] = ""
    """value function that corrects the luck of games; default: exact with skips on boards of up to 12 cells, else
    off"""
    cache: Annotated[Path | None, tyro.conf.arg(metavar="FOLDER")] = None
    """folder of the stored answers; default: a folder of endpoint and model in the user's cache"""
    out: Annotated[Path | None, tyro.conf.arg(metavar="FOLDER")] = None
    """folder for result.json and report.html; default: runs/llm/ and a name made of game, model and presentation"""

    def run(self) -> None:
        """Ask, play, write and print.

        Raises:
            ValueError: invalid options, or an endpoint that does not answer.
            Stopped: an interrupt; all answers are stored.
        """
        from ttt_envs.core.files import write_json
        from ttt_eval.language_models.answer_cache import open_answers
        from ttt_eval.language_models.evaluation import evaluate_model
        from ttt_eval.language_models.scheduler import RequestScheduler
        from ttt_eval.reports.results import RESULT

        game = self.game_for(self.opponent)
        games = self._num_games()
        settings, sampling, limits = self._settings(game), self._sampling(), self._limits()
        opponent = make_policy(self._opponent_spec(game), game)
        correction = check_correction(self.luck_correction, game)
        with self._open_endpoint() as endpoint:
            cache_folder, out = self._cache_folder(endpoint.url), self._out_folder(game)
            with report_interrupt(cache_folder), open_answers(cache_folder) as answers, progress_bar("asked") as bar:
                task = bar.add_task("asking", total=None, asked="")

                def show_usage(new: TokenUsage, cost: float) -> None:
                    bar.update(task, asked=_describe_usage(new, cost, limits))

                scheduler = RequestScheduler(endpoint, sampling, answers, limits, show_usage)
                found = evaluate_model(
                    scheduler,
                    settings,
                    opponent=opponent,
                    games=games,
                    positions=self.positions == "all",
                    luck_correction=correction,
                    progress=lambda done, total: bar.update(task, completed=done, total=total),
                    tell=warn,
                )
        result = {**found, "provenance": make_provenance()}
        write_json(out / RESULT, result)
        page = write_folder_report(out, self.no_report)
        if scheduler.spent:
            warn(
                "a limit on requests or cost has ended the work: results are of finished pairs of games and answered "
                "positions; the same command with a larger limit continues"
            )
        self._print(result, out / RESULT, page)

    def _opponent_spec(self, game: Game) -> str:
        from baselines.exact import MAX_SOLVER_CELLS

        return self.opponent or ("optimal" if game.cells <= MAX_SOLVER_CELLS else "win-or-block")

    def _num_games(self) -> int:
        if self.games == 0 and self.positions == "all":
            return 0
        if self.games is None:
            return 0 if self.positions == "all" else DEFAULT_GAMES
        num_pairs(self.games, MAX_GAMES)
        return self.games

    def _settings(self, game: Game) -> TextSettings:
        from ttt_eval.language_models.player import TextSettings

        check_seed(self.seed)
        return TextSettings(game, self.presentation, self.illegal, self.max_asks, not self.hide_legal, self.seed)

    def _sampling(self) -> Sampling:
        from ttt_eval.language_models.endpoint import Sampling

        if not self.endpoint or not self.model:
            raise ValueError(
                "a model is missing: write evaluate.py llm --endpoint http://127.0.0.1:8000/v1 --model NAME"
            )
        return Sampling(
            self.model, self.temperature, self.max_tokens, self.seed, self.token_field, not self.no_send_seed
        )

    def _limits(self) -> Limits:
        from ttt_eval.language_models.scheduler import Limits

        return Limits(self.concurrency, self.max_requests, self.max_cost, self.price_in, self.price_out)

    def _open_endpoint(self) -> Endpoint:
        from ttt_eval.language_models.endpoint import Endpoint, check_key

        key = check_key(os.environ.get(self.key_variable, ""), self.key_variable)
        return Endpoint(self.endpoint, key, timeout_s=self.timeout, retries=self.retries, connections=self.concurrency)

    def _cache_folder(self, url: str) -> Path:
        from ttt_envs.core.array_cache import cache_root

        return self.cache or cache_root() / "llm" / folder_name([url.partition("://")[2], self.model])

    def _out_folder(self, game: Game) -> Path:
        return self.out or Path("runs", "llm", folder_name([game.slug, self.model, self.presentation]))

    def _print(self, result: Mapping[str, Any], path: Path, page: str) -> None:
        if self.json:
            print(json.dumps(result))
            return
        for table in _tables(result):
            print_table(table)
        print_output(_cost_sentence(result))
        print_status(f"written: {path}{page}")


def _describe_usage(new: TokenUsage, cost: float, limits: Limits) -> str:
    words = f"{new.answers:,} answers, {new.prompt_tokens + new.completion_tokens:,} tokens"
    return f"{words}, {cost:.4f}" if limits.price_in or limits.price_out else words


def _cost_sentence(result: Mapping[str, Any]) -> str:
    now, used = result["new"], result["usage"]
    return (
        f"{now['answers']:,} answers were requested now ({now['prompt_tokens']:,} tokens of prompts, "
        f"{now['completion_tokens']:,} of answers, cost {now['cost']:.4f}), of {used['answers']:,} used (cost "
        f"{used['cost']:.4f})"
    )


def _tables(result: Mapping[str, Any]) -> Iterator[Table]:
    """Yield the tables of a result."""
    name = f"{ascii(result['model'])[1:-1]}, presentation {result['presentation']}"
    games, positions = result["games"], result["positions"]
    if games is not None:
        title = f"{name}, against {result['opponent']}, {games['games']:,} games"
        table = new_table("", "value", "95% interval", title=title)
        for rate in ("score", "wins", "draws", "losses"):
            one = games[rate]
            table.add_row(rate, f"{one['mean']:.3f}", f"{one['low']:.3f}-{one['high']:.3f}")
        if "raw_score" in games:
            one = games["raw_score"]
            table.add_row("score with luck", f"{one['mean']:.3f}", f"{one['low']:.3f}-{one['high']:.3f}")
        _add_moves(table, games["moves"])
        yield table
        yield _stones_table("games: moves by stones on the board", games["moves"])
    if positions is not None:
        title = f"{name}, {positions['answered']:,} of {positions['positions']:,} positions"
        table = new_table("", "value", title=title)
        exact = positions["exact"]
        if exact is not None:
            for name in filter(lambda name: exact[name] is not None, LOSSES):
                table.add_row(METRICS[name].label, f"{exact[name]:.9f}")
            for opponent, one in exact["results"].items():
                shares = ", ".join(f"{name} {one[name]:.4f}" for name in ("win", "draw", "loss"))
                table.add_row(f"exact result against {opponent}", shares)
        table.add_row("positions without a legal answer", f"{positions['without_move']:,}")
        _add_moves(table, positions["moves"])
        yield table
        yield _stones_table("positions: moves by stones on the board", positions["moves"])


def _add_moves(table: Table, moves: Mapping[str, Any]) -> None:
    if moves["regret"] is not None:
        table.add_row("regret of a move", f"{moves['regret']:.4f}")
    kinds = ", ".join(f"{kind} {count:,}" for kind, count in moves["problems"].items())
    table.add_row("illegal answers", f"{moves['illegal_share']:.4f}", *([kinds] if len(table.columns) > 2 else []))


def _stones_table(title: str, moves: Mapping[str, Any]) -> Table:
    table = new_table("stones", "moves", "regret", "blunders", "answers", "illegal", title=title)
    for row in moves["by_stones"][:SHOWN_BY_STONES]:
        regret = "" if row["regret"] is None else f"{row['regret']:.4f}"
        blunders = "" if row["blunders"] is None else f"{row['blunders']:,}"
        table.add_row(
            str(row["stones"]), f"{row['moves']:,}", regret, blunders, f"{row['answers']:,}", f"{row['illegal']:,}"
        )
    return table
