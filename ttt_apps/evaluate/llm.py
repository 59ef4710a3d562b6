"""``evaluate.py llm``: a language model as a player, through an endpoint or by a file of
answers.
"""

from __future__ import annotations

from contextlib import nullcontext, suppress
from dataclasses import asdict, dataclass
from io import BytesIO
from pathlib import Path
from typing import Annotated, Literal

import tyro
from msgspec import convert

from baselines.exact import MAX_SOLVER_CELLS
from ttt_apps.cli import options as cli
from ttt_apps.training.options import folder_name
from ttt_envs.agents.specs import make_policy
from ttt_envs.core.array_cache import cache_root
from ttt_envs.core.checks import check_range, name_place
from ttt_envs.core.files import parse_json, read_bounded
from ttt_envs.text.text_game import TextGameConfig
from ttt_eval.language_models.asking import (
    TIMEOUT_S,
    Answers,
    Interview,
    Sampling,
    make_ask,
    open_answers,
)
from ttt_eval.language_models.results import estimate_usage, evaluate_model
from ttt_eval.matches.luck import check_correction
from ttt_eval.reports.language_model import language_model_report
from ttt_eval.store.metrics import write_rows
from ttt_eval.store.versions import make_provenance

DEFAULT_GAMES = 100


@dataclass(frozen=True)
class Llm(cli.TrustOptions, cli.ReportOptions, cli.GameOptions):
    """Evaluate a language model as a player, by an endpoint with OpenAI's chat completions or by a
    file of answers.

    It plays pairs of games with the seats swapped, answers in all reachable positions, or both.
    Answers are kept in a file: the same command continues where it was stopped, and pays for no
    answer twice. Without --endpoint nobody is asked, and the prompts that the file of answers lacks
    are written to --prompts, as batch services read them.
    """

    model: Annotated[str, tyro.conf.arg(metavar="NAME")] = tyro.MISSING
    """name of the model, as the endpoint knows it"""
    endpoint: Annotated[cli.TextOption, tyro.conf.arg(metavar="URL")] = ""
    """address of the endpoint, such as http://127.0.0.1:8000/v1; the key is read from
    OPENAI_API_KEY
    """
    tag: cli.TextOption = ""
    """version of the model, where its name stays the same: no answers of another tag are used"""
    answers: Annotated[Path | None, tyro.conf.arg(metavar="FILE.jsonl")] = None
    """file of the answers; default: one of endpoint and model in the user's cache"""
    prompts: Annotated[Path | None, tyro.conf.arg(metavar="FILE.jsonl")] = None
    """file for prompts without an answer, without --endpoint; default: prompts.jsonl in the folder
    --out
    """
    dry_run: cli.Flag = False
    """print the number of prompts without a stored answer and of their tokens, and stop"""
    presentation: str = "grid"
    """presentation of the game: grid, coordinates, numbers, shuffled, and on 3 x 3 magic-square or
    words
    """
    games: cli.Even | None = None
    """number of games, even; default: 100, with --positions none"""
    opponent: cli.TextOption = ""
    """opponent in the games, such as random or run:PATH; default: optimal on boards of up to 16
    cells, else win-or-block"""
    positions: Literal["all", "none"] = "none"
    """ask for the move in every reachable position; at temperature 0 the result has the exact
    exploitability
    """
    illegal: Literal["ask", "lose", "random"] = "ask"
    """what follows an illegal answer: up to three further questions and then a lost game, a lost
    game at once, or a random move"""
    temperature: float = 0.0
    """temperature of the model"""
    max_tokens: cli.Positive = 1024
    """maximum number of tokens of an answer"""
    fields: Annotated[str, tyro.conf.arg(metavar="JSON")] = "{}"
    """further fields of requests; null leaves one out: '{"max_tokens": null,
    "max_completion_tokens": 1024}'
    """
    seed: cli.Natural = 0
    """seed of skips, opponent and shuffled names; sent to the endpoint with a temperature above 0
    """
    concurrency: cli.Positive = 8
    """maximum number of requests at a time"""
    timeout: cli.Positive = TIMEOUT_S
    """maximum time of a reply in seconds, to its end; one that takes longer is requested again, up
    to six times
    """
    luck_correction: Annotated[cli.TextOption, tyro.conf.arg(metavar="exact|off|SPEC")] = ""
    """value function that corrects the luck of games; default: exact with skips on boards of up to
    12 cells, else off"""
    out: Annotated[Path | None, tyro.conf.arg(metavar="FOLDER")] = None
    """folder for result.json and report.html; default: runs/llm/ and a name made of game, model and
    presentation
    """

    def run(self) -> None:
        """Ask, play, write and print.

        Raises:
            ValueError: invalid options, or an endpoint that does not answer.
            Stopped: an interrupt; all answers are stored.
        """
        if self.endpoint:
            cli.check_no_effect(self, "with --endpoint", "prompts")
        game = self.game_for(self.opponent)
        has_positions = self.positions == "all"
        games = self.games or (0 if has_positions else DEFAULT_GAMES)
        with name_place(f"--fields {self.fields} is no JSON object such as '{{\"top_p\": 1}}'"):
            fields = convert(parse_json(self.fields), dict[str, object])
        check_range("--temperature", self.temperature, 0)
        tag = self.tag or None
        sampling = Sampling(self.model, self.temperature, self.max_tokens, self.seed, fields, tag)
        best = "optimal" if game.cells <= MAX_SOLVER_CELLS else "win-or-block"
        settings = TextGameConfig(
            game,
            presentation=self.presentation,
            opponent=make_policy(self.opponent or best, game),
            illegal=self.illegal,
            seed=self.seed,
        )
        correction = check_correction(self.luck_correction, game)
        name = folder_name([self.endpoint.partition("://")[2], self.model])
        path = self.answers or cache_root() / "llm" / name / "answers.jsonl"
        usage: dict[str, int] = {}
        if self.dry_run or self.endpoint:
            stored = open_answers(path) if path.exists() else nullcontext(Answers(BytesIO()))
            with stored as answers:
                usage = estimate_usage(Interview(sampling, answers), settings, games, has_positions)
        repeats = "; illegal answers are asked again" if self.illegal == "ask" else ""
        if self.dry_run:
            title = f"estimates of what is not stored, at most for answers{repeats}"
            self.show(usage, cli.facts_table(usage, title))
            return
        ask = make_ask(self.endpoint, self.concurrency, self.timeout) if self.endpoint else None
        name = folder_name([game.slug, self.model, self.presentation, *filter(None, [tag])])
        out = self.out or Path("runs", "llm", name)
        fixed_keys = {**self._stored_settings(sampling, settings), "luck_correction": correction}
        self.check_folder(out, fixed_keys, {"games": {"games": games}} if games else {})
        if ask is not None:
            cli.warn(
                f"about {usage['prompts']:,} prompts without a stored answer{repeats}: --dry-run "
                "estimates tokens"
            )
        with open_answers(path) as answers, cli.bar("answers", path.parent) as progress:
            interview = Interview(sampling, answers, ask, progress)
            result = evaluate_model(
                interview,
                settings,
                games=games,
                positions=has_positions,
                luck_correction=correction,
            )
        if result is None:
            self._write_prompts(interview, self.prompts or out / "prompts.jsonl", path)
            return
        num_answers = result.usage.answers
        num_stored = num_answers - len(interview.new)
        if self.endpoint and num_stored:
            cli.warn(
                f"{num_stored:,} of {num_answers:,} answers are stored ones, the last of "
                f"{answers.last_date}: for a new version of the model name a new --tag"
            )
        result.endpoint = self.endpoint or None
        result.answers = str(self.answers) if self.answers else None
        result.provenance = make_provenance()
        result.write(out)
        report = language_model_report(result)
        headline = cli.rows_table([tile._asdict() for tile in report.tiles])
        tables = cli.report_tables(report, "Games", "All positions")
        new = cli.facts_table(result.to_dict()["new"], "requested by this call")
        self.show_folder(out, f"{report.verdict}.", headline, *tables, new)

    def _stored_settings(self, sampling: Sampling, settings: TextGameConfig) -> dict[str, object]:
        """Return the keys of ``result.json`` that are the same when a result is continued."""
        absences: dict[str, object] = {}
        if self.positions != "all":
            absences["positions"] = None
        elif not self.games:
            absences["games"] = None
        return {
            "kind": "language-model",
            "game": settings.game.to_dict(),
            "opponent": str(settings.opponent),
            **asdict(sampling),
            "presentation": self.presentation,
            "illegal": self.illegal,
            **absences,
        }

    def _write_prompts(self, interview: Interview, file: Path, answers: Path) -> None:
        """Write the prompts without an answer to a file, as batch services read them."""
        if not _is_prompts_of(file, self.model):
            self.check_new_file(file)
        requests = [
            {"custom_id": key, "method": "POST", "url": "/v1/chat/completions", "body": body}
            for key, body in interview.missing.items()
        ]
        write_rows(file, requests)
        self.show({"prompts": len(requests), "file": str(file)})
        cli.warn(
            f"{len(requests):,} prompts have no answer, and are in {file}: append their answers to "
            f"{answers}, and run the same command again"
        )


def _is_prompts_of(file: Path, model: str) -> bool:
    """Return whether a file begins with a prompt to a model."""
    with suppress(OSError, ValueError, LookupError, TypeError):
        return bool(parse_json(read_bounded(file).partition(b"\n")[0])["body"]["model"] == model)
    return False
