"""``evaluate.py llm``: a language model as a player, through an endpoint or by a file of answers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from rich.table import Table

from baselines.exact import MAX_SOLVER_CELLS
from ttt_apps import cli
from ttt_apps.train_options import folder_name
from ttt_apps.versions import make_provenance
from ttt_envs.agents.specs import make_policy
from ttt_envs.core.array_cache import cache_root
from ttt_envs.core.files import parse_json, write_atomically, write_json
from ttt_envs.game.game import Game
from ttt_eval.language_models.asking import Sampling, make_ask, open_answers
from ttt_eval.language_models.player import Interview, TextSettings
from ttt_eval.language_models.results import estimate_usage, evaluate_model
from ttt_eval.metrics import LOSSES, METRICS
from ttt_eval.reports.results import RESULT

DEFAULT_GAMES = 100
MAX_GAMES = 10_000
SHOWN_BY_STONES = 30


@dataclass(frozen=True)
class Llm(cli.ReportOptions, cli.GameOptions):
    """Evaluate a language model as a player, by an endpoint with OpenAI's chat completions or by a file of answers.

    It plays pairs of games with the seats swapped, answers in all reachable positions, or both. Answers are kept in a
    file: the same command continues where it was stopped, and pays for no answer twice. Without --endpoint nobody is
    asked, and the prompts that the file of answers lacks are written to --prompts, as batch services read them.
    """

    model: Annotated[str, tyro.conf.arg(metavar="NAME")] = tyro.MISSING
    """name of the model, as the endpoint knows it"""
    endpoint: Annotated[str, tyro.conf.arg(metavar="URL")] = ""
    """address of the endpoint, such as http://127.0.0.1:8000/v1; the key is read from OPENAI_API_KEY"""
    answers: Annotated[Path | None, tyro.conf.arg(metavar="FILE.jsonl")] = None
    """file of the answers; default: one of endpoint and model in the user's cache"""
    prompts: Annotated[Path | None, tyro.conf.arg(metavar="FILE.jsonl")] = None
    """file for prompts without an answer, without --endpoint; default: prompts.jsonl in the folder --out"""
    dry_run: tyro.conf.FlagCreatePairsOff[bool] = False
    """print the number of prompts, of tokens and their cost, and stop"""
    price_in: float = 0.0
    """price of a million tokens of prompts, for --dry-run"""
    price_out: float = 0.0
    """price of a million tokens of answers, for --dry-run"""
    presentation: str = "grid"
    """presentation of the game: grid, coordinates, numbers, shuffled, and on 3 x 3 magic-square or words"""
    games: cli.Count | None = None
    """number of games, even; default: 100, with --positions none"""
    opponent: str = ""
    """opponent in the games, such as random or run:PATH; default: optimal on boards of up to 16 cells, else
    win-or-block"""
    positions: Literal["all", "none"] = "none"
    """ask for the move in every reachable position; at temperature 0 the result has the exact exploitability"""
    illegal: Literal["ask", "lose", "random"] = "ask"
    """what follows an illegal answer: ask again, a lost game, or a random move"""
    max_asks: cli.Count = 3
    """number of further questions in one turn after illegal answers, with --illegal ask; then the game is lost"""
    hide_legal: tyro.conf.FlagCreatePairsOff[bool] = False
    """do not list the legal moves in prompts"""
    temperature: float = 0.0
    """temperature of the model"""
    max_tokens: cli.Count = 1024
    """maximum number of tokens of an answer"""
    fields: Annotated[str, tyro.conf.arg(metavar="JSON")] = "{}"
    """further fields of requests; null leaves one out: '{"max_tokens": null, "max_completion_tokens": 1024}'"""
    seed: cli.Count = 0
    """seed of skips, opponent and shuffled names; sent to the endpoint with a temperature above 0"""
    concurrency: cli.Count = 8
    """maximum number of requests at a time"""
    luck_correction: Annotated[str, tyro.conf.arg(metavar="exact|off|SPEC")] = ""
    """value function that corrects the luck of games; default: exact with skips on boards of up to 12 cells, else
    off"""
    out: Annotated[Path | None, tyro.conf.arg(metavar="FOLDER")] = None
    """folder for result.json and report.html; default: runs/llm/ and a name made of game, model and presentation"""

    def run(self) -> None:
        """Ask, play, write and print.

        Raises:
            ValueError: invalid options, or an endpoint that does not answer.
            Stopped: an interrupt; all answers are stored.
        """
        cli.check_seed(self.seed)
        if self.endpoint and self.prompts is not None:
            raise cli.UsageError(
                f"--prompts {self.prompts} has no effect with --endpoint, which is asked: choose one of both"
            )
        game, games, every = self.game_for(self.opponent), self._num_games(), self.positions == "all"
        settings = TextSettings(game, self.presentation, self.illegal, self.max_asks, not self.hide_legal, self.seed)
        if not isinstance(fields := parse_json(self.fields), dict):
            raise cli.UsageError(f"fields={self.fields} is no JSON object: write one such as '{{\"top_p\": 1}}'")
        sampling = Sampling(self.model, self.temperature, self.max_tokens, self.seed, fields)
        opponent = make_policy(self._opponent_spec(game), game)
        correction = cli.check_correction(self.luck_correction, game)
        usage = estimate_usage(sampling, settings, games, every)
        cost = (usage["prompt_tokens"] * self.price_in + usage["completion_tokens"] * self.price_out) / 1e6
        if self.dry_run:
            cli.show({**usage, "cost": cost}, _describe(usage, cost), json=self.json)
            return
        ask = make_ask(self.endpoint, sampling, self.concurrency) if self.endpoint else None
        name = folder_name([self.endpoint.partition("://")[2], self.model])
        path = self.answers or cache_root() / "llm" / name / "answers.jsonl"
        out = self.out or Path("runs", "llm", folder_name([game.slug, self.model, self.presentation]))
        if ask is not None:
            cli.warn(_describe(usage, cost))
        with cli.report_interrupt(path.parent), open_answers(path) as answers, cli.count_bar("answers") as progress:
            interview = Interview(sampling, answers, ask, progress)
            result = evaluate_model(
                interview, settings, opponent=opponent, games=games, positions=every, luck_correction=correction
            )
        if result is None:
            file = self.prompts or out / "prompts.jsonl"
            lines = [
                json.dumps({"custom_id": key, "method": "POST", "url": "/v1/chat/completions", "body": body})
                for key, body in ((key, sampling.body(question)) for key, question in interview.missing.items())
            ]
            file.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(file, lambda stream: stream.write("".join(line + "\n" for line in lines).encode()))
            if self.json:
                print(json.dumps({"prompts": len(lines), "file": str(file)}))
            cli.warn(
                f"{len(lines):,} prompts have no answer, and are in {file}: append their answers to {path}, and run "
                f"the same command again"
            )
            return
        result = {**result, "endpoint": self.endpoint or None, "provenance": make_provenance()}
        write_json(out / RESULT, result)
        page = cli.write_folder_report(out, self.no_report)
        new, used = result["new"], result["usage"]
        requested = (
            f"{new['answers']:,} answers were requested now ({new['prompt_tokens']:,} tokens of prompts, "
            f"{new['completion_tokens']:,} of answers), of {used['answers']:,} used"
        )
        cli.show(result, *_tables(result), requested, json=self.json)
        if not self.json:
            cli.print_status(f"written: {out / RESULT}{page}")

    def _opponent_spec(self, game: Game) -> str:
        return self.opponent or ("optimal" if game.cells <= MAX_SOLVER_CELLS else "win-or-block")

    def _num_games(self) -> int:
        if self.positions == "all" and not self.games:
            return 0
        return 2 * cli.num_pairs(DEFAULT_GAMES if self.games is None else self.games, MAX_GAMES)


def _describe(usage: Mapping[str, int], cost: float) -> str:
    return (
        f"{usage['prompts']:,} prompts, about {usage['prompt_tokens']:,} tokens of them and at most "
        f"{usage['completion_tokens']:,} of answers, which cost at most about {cost:,.2f}; illegal answers add to "
        f"that, stored answers and positions that are met again do not count"
    )


def _tables(result: Mapping[str, Any]) -> Iterator[Table]:
    """Yield the tables of a result."""
    name = f"{ascii(result['model'])[1:-1]}, presentation {result['presentation']}"
    games, positions = result["games"], result["positions"]
    if games is not None:
        title = f"{name}, against {result['opponent']}, {games['games']:,} games"
        table = cli.new_table("", "value", "95% interval", title=title)
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
        title = f"{name}, {positions['positions']:,} positions"
        table = cli.new_table("", "value", title=title)
        exact = positions["exact"]
        if exact is not None:
            for name in filter(exact.get, LOSSES):
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
    table = cli.new_table("stones", "moves", "regret", "blunders", "answers", "illegal", title=title)
    for row in moves["by_stones"][:SHOWN_BY_STONES]:
        regret = "" if row["regret"] is None else f"{row['regret']:.4f}"
        blunders = "" if row["blunders"] is None else f"{row['blunders']:,}"
        table.add_row(
            str(row["stones"]), f"{row['moves']:,}", regret, blunders, f"{row['answers']:,}", f"{row['illegal']:,}"
        )
    return table
