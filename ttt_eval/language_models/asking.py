"""Conversations with a model: the requests of its turns, a file of their answers, and a client that
fills it.

Each turn is a conversation of its own, which begins with the rules and the position. So a turn is a
function of the position alone for a model without temperature, and games, positions and exact
results are of one and the same player.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
import weakref
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import IO, Any, NamedTuple

from ttt_envs.core.checks import Refusal, truncate
from ttt_envs.core.files import hash_json, lock, open_to_write, parse_json
from ttt_envs.core.lines import read_to_append
from ttt_envs.core.packages import install_command
from ttt_envs.text import MAX_ANSWER_LENGTH, Problem, TextGame, present
from ttt_eval.store.result_store import no_progress

MAX_SEED = 2**31
"""Seeds are sent modulo this: some endpoints read 32 bits."""
RETRIES = 6
"""Maximum number of further attempts after a failure that may pass; the client waits longer before
each.
"""
MAX_REPLY_BYTES = 1 << 23
"""Maximum size of a reply in bytes: it is asked for uncompressed, and read no further."""
TIMEOUT_S = 600
"""Default maximum time of a reply, to its end, in seconds."""
MAX_QUOTED_LENGTH = 4_000
"""Maximum number of characters of an illegal answer that are shown to the model again: the last
ones.
"""


class Answer(NamedTuple):
    """An answer."""

    text: str
    prompt_tokens: int = 0
    completion_tokens: int = 0
    truncated: bool = False
    """whether the answer was cut off at the maximum number of tokens"""
    refusal: str = ""
    """reason for which the endpoint or the model refused the prompt; "" if it has answered"""

    def to_move(self) -> str | Problem:
        """Return what a game reads: the text, or the problem of an answer that names no move."""
        if self.truncated:
            return Problem("truncated", "The answer was cut off before its end.")
        if self.refusal:
            return Problem("refused", f"The prompt was refused: {self.refusal}.")
        return self.text


Requests = Mapping[str, Mapping[str, object]]
"""bodies of requests by their ids"""
Ask = Callable[[Requests], Iterable[tuple[str, Answer]]]
"""sends requests; gives the id of each and its answer, in any order, as they arrive"""


@dataclass(frozen=True)
class Sampling:
    """Everything that determines the answer to messages."""

    model: str
    temperature: float = 0.0
    max_tokens: int = 1024
    """maximum number of tokens of an answer"""
    seed: int = 0
    """sent with a temperature above 0, plus the number of the sample"""
    fields: Mapping[str, object] = field(default_factory=dict)
    """further fields of a request, in place of those of the same name; None leaves a field out"""
    tag: str | None = None
    """part of the ids of requests, in place of a version of the model that its name lacks"""

    @property
    def deterministic(self) -> bool:
        """Whether all samples of the same messages count as one."""
        return bool({"temperature": self.temperature, **self.fields}["temperature"] == 0)

    def request(
        self, messages: Sequence[Mapping[str, str]], sample: int = 0
    ) -> tuple[str, dict[str, object]]:
        """Return the id and the body of a request for the next message of a conversation.

        The id is a hash of the body, of the tag, and of the sample unless all samples count as one.

        Args:
            messages: of the conversation.
            sample: number of the sample: a model with a temperature answers each one separately.
        """
        seed: int | None = None
        source: object = 0
        if not self.deterministic:
            seed = (self.seed + sample) % MAX_SEED
            source = (self.seed, sample)
        fields = {
            "model": self.model,
            "messages": messages,
            "temperature": self.temperature,
            "max_tokens": self.max_tokens,
            "seed": seed,
            **self.fields,
        }
        body = {name: value for name, value in fields.items() if value is not None}
        return hash_json([body, source, *filter(None, [self.tag])], sort_keys=True), body


# --------------------------------------------------------------------------------------------------
# The file of answers


class Answers(dict[str, Answer]):
    """Answers by the id of their request, as read from a file; :meth:`add` appends one. See
    :func:`open_answers`.

    Attributes:
        last_date: when the file was last written, in local time.
    """

    def __init__(self, file: IO[bytes], last_date: str = "") -> None:
        self.last_date = last_date
        super().__init__(filter(None, map(_read_line, read_to_append(file))))
        self._file = file

    def add(self, key: str, answer: Answer) -> None:
        """Append an answer to the file."""
        self._file.write(json.dumps({"custom_id": key, **answer._asdict()}).encode() + b"\n")
        self._file.flush()
        self[key] = answer


@contextmanager
def open_answers(path: Path) -> Iterator[Answers]:
    """Open a file of answers for this process alone; it is created if missing, with its folder.

    Each line is JSON, with ``custom_id`` and either ``text``, the answer, or ``response`` with a
    chat completion as ``body``, as batch services write it, or with the error of a prompt that was
    refused for good. Other lines, such as those of other failures, answer nothing.

    Raises:
        OSError: the file cannot be opened.
        ValueError: another process has opened it, or it is a link or a device.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with open_to_write(path) as file:
        if not lock(file.fileno(), wait=False):
            raise Refusal(f"another process has opened {path}: wait, or choose another file")
        written = time.localtime(os.fstat(file.fileno()).st_mtime)
        yield Answers(file, time.strftime("%Y-%m-%d", written))


def _read_line(line: bytes) -> tuple[str, Answer] | None:
    """Return the id of a request and its answer; None for a line that answers none."""
    with suppress(ValueError):
        match parse_json(line):
            case {"custom_id": str(key), "text": str(text), **fields}:
                is_truncated = fields.get("truncated") is True
                return key, _make_answer(text, fields, is_truncated, fields.get("refusal"))
            case {
                "custom_id": str(key),
                "response": {"status_code": 400 | 422, "body": {"error": {"message": reason}}},
            }:
                return key, _make_answer("", None, False, reason)
            case {"custom_id": str(key), "response": {"body": body}}:
                return key, read_completion(body)
    return None


def read_completion(data: object) -> Answer:
    """Return the answer in a chat completion. A model refuses by ``refusal``, a filter by the
    reason for the end; reasoning alone is no answer.

    Raises:
        ValueError: anything else.
    """
    match data:
        case {"choices": [{"message": dict(message)} as choice, *_], **fields}:
            end = choice.get("finish_reason")
            text = message.get("content")
            refusal = message.get("refusal")
            if end == "content_filter":
                refusal = "by the content filter"
            elif message.get("reasoning_content") and not text:
                refusal = "the reply has reasoning_content and no content"
            return _make_answer(text, fields.get("usage"), end == "length", refusal)
    raise Refusal("its reply is no chat completion")


def _make_answer(text: object, usage: object, truncated: bool, refusal: object = "") -> Answer:
    """Return an answer of texts that can be written, and of numbers of tokens that are numbers."""
    counts = usage if isinstance(usage, dict) else {}
    prompt = _read_count(counts.get("prompt_tokens"))
    completion = _read_count(counts.get("completion_tokens"))
    return Answer(_read_text(text), prompt, completion, truncated, _read_text(refusal))


def _read_text(value: object) -> str:
    """Return the end of a text, "" for anything else."""
    text = value if isinstance(value, str) else ""
    return text[-MAX_ANSWER_LENGTH:].encode(errors="replace").decode()


def _read_count(value: object) -> int:
    """Return a number of tokens, 0 for anything else."""
    return value if isinstance(value, int) and 0 < value < 1 << 40 else 0


# --------------------------------------------------------------------------------------------------
# Asking


def make_ask(url: str, concurrency: int, timeout_s: float = TIMEOUT_S) -> Ask:
    """Return what sends requests to an endpoint with OpenAI's chat completions, through the client
    ``openai``.

    The key is that in the environment variable ``OPENAI_API_KEY``. The client repeats requests
    after failures that may pass, such as a reply that takes too long. A prompt that the endpoint
    refuses with status 400 or 422, such as one that is too long, has an answer with the reason;
    after any other failure, such as of the key or the name of the model, no request begins.

    Args:
        url: address of the endpoint, with or without ``/chat/completions``.
        concurrency: maximum number of requests at a time.
        timeout_s: maximum time of a reply, to its end, in seconds.

    Raises:
        ValueError: ``openai`` is not installed, an address that is none or holds a password, a key
            that is none, or nothing listens there.
    """
    try:
        import openai
    except ImportError:
        raise Refusal(f"a language model needs openai: {install_command('llm')}") from None
    # httpx, or its successor httpx2
    http: Any = sys.modules[str(openai.DefaultHttpxClient.__base__.__module__)]
    key = _read_key(url)
    _check_connection(http, url)
    limits = _ReplyLimits(http, timeout_s)
    hooks = {"request": [limits.set_end], "response": [limits.read_reply]}
    client = openai.OpenAI(
        base_url=url.removesuffix("/chat/completions"),
        api_key=key,
        max_retries=RETRIES,
        timeout=timeout_s,
        default_headers={"accept-encoding": "identity"},
        http_client=openai.DefaultHttpxClient(event_hooks=hooks),
    )

    def describe(problem: object) -> str:
        text = " ".join(str(problem).replace(key, "[key]").split())
        return ascii(truncate(text, 300))[1:-1]

    def ask(requests: Requests) -> Iterator[tuple[str, Answer]]:
        failures: list[str] = []

        def complete(request: tuple[str, Mapping[str, object]]) -> tuple[str, Answer] | None:
            if failures:  # after one no request begins, and answers on their way are kept
                return None
            try:
                reply = client.post("/chat/completions", body=request[1], cast_to=object)
                return request[0], read_completion(reply)
            except (openai.BadRequestError, openai.UnprocessableEntityError) as failure:
                return request[0], Answer("", refusal=describe(failure))
            except openai.APITimeoutError:
                problem: object = f"no reply within {timeout_s:g} s"
                advice = "take a longer --timeout or a smaller --max-tokens"
            except (openai.InternalServerError, openai.RateLimitError) as failure:
                problem = failure
                advice = "wait until it answers"
            except (openai.OpenAIError, ValueError) as failure:
                problem = failure.__cause__ or failure
                advice = "correct its address, --model or the key in OPENAI_API_KEY"
            failures.append(
                f"the endpoint {url} has failed for good ({describe(problem)}): {advice}, and run "
                "the same command again"
            )
            return None

        with ThreadPool(concurrency) as pool:
            yield from filter(None, pool.imap_unordered(complete, requests.items()))
        if failures:
            raise Refusal(failures[0])

    weakref.finalize(ask, client.close)
    return ask


def _read_key(url: str) -> str:
    """Return the key in the environment, "EMPTY" if there is none.

    Raises:
        ValueError: an address that is none or holds a password, or a key that is none.
    """
    if not re.fullmatch(r"(?i)https?://[^/?#@]+(/[^?#]*)?", url):
        # no user, and no query, which may be secret
        public = re.split("[?#]", url.rpartition("@")[2])[0]
        raise Refusal(
            f"endpoint {public} is no plain address: write one such as http://127.0.0.1:8000/v1, "
            "with http:// or https://, without a user or a query, and put a key into the "
            "environment variable OPENAI_API_KEY"
        )
    key = os.environ.get("OPENAI_API_KEY", "").strip() or "EMPTY"
    # in a header it would fail late, with a message that quotes it
    if not re.fullmatch("[!-~]+", key):
        raise Refusal(
            "the environment variable OPENAI_API_KEY holds no key: a key is one word of ASCII "
            "characters"
        )
    return key


def _check_connection(http: Any, url: str) -> None:
    """Raise ValueError if nothing listens at an address: the client would repeat its requests."""
    try:
        http.head(url, timeout=10)
    except (http.ConnectError, http.InvalidURL) as problem:
        raise Refusal(
            f"the endpoint {url} accepts no connection ({problem}): start it, or correct it"
        ) from None
    except http.HTTPError:  # of another kind
        pass


@dataclass(frozen=True)
class _ReplyLimits:
    """Hooks of a client that limit the size and the time of replies."""

    http: Any
    """the library of the client"""
    timeout_s: float

    def set_end(self, request: Any) -> None:
        """Set the time at which the reply of a request has to end."""
        request.extensions["end"] = time.monotonic() + self.timeout_s

    def read_reply(self, response: Any) -> None:
        """Read a reply; one that is too large becomes a refusal, and one without JSON an error of
        the server.
        """
        is_plain = response.headers.get("content-encoding", "identity") == "identity"
        reply = bytearray()
        try:
            for part in response.stream if is_plain else ():
                reply += part
                if len(reply) > MAX_REPLY_BYTES:
                    break
                if time.monotonic() > response.request.extensions["end"]:
                    raise self.http.ReadTimeout("the reply takes too long")
        finally:
            response.stream.close()
        if not is_plain or len(reply) > MAX_REPLY_BYTES:
            refusal = f"its reply is compressed, or has more than {MAX_REPLY_BYTES >> 20} MiB"
            reply[:] = json.dumps({"error": {"message": refusal}}).encode()
            response.status_code = 413  # too large: no failure that may pass
            response.headers.pop("content-encoding", None)
        elif response.status_code == 200 and not re.fullmatch(rb"(?s)\s*\{.*\}\s*", reply):
            reply[:] = b'{"error": {"message": "its reply is no JSON object"}}'
            response.status_code = 502  # of a gateway, say: a failure that may pass
        response.stream = self.http.ByteStream(bytes(reply))


# --------------------------------------------------------------------------------------------------
# Conversations


def converse(text: TextGame, *, single: bool) -> Generator[list[dict[str, str]], Answer, None]:
    """Hold the conversations of a game's turns: yield the messages of each request, and be sent its
    answer.

    The messages are the prompt of the turn, and each illegal answer with the reason. The end is a
    request without any.

    Args:
        text: the game.
        single: whether it ends after one turn.
    """
    messages: list[dict[str, str]] = []
    while not text.over and not (single and text.turns):
        if not text.problems:
            messages = [
                {"role": "user", "content": present(text.game, text.position, text.presentation)}
            ]
        answer = yield messages
        text.step(answer.to_move())
        if text.problems:
            reason = f"{text.problems[-1].message} Answer with a legal move."
            illegal = {"role": "assistant", "content": answer.text[-MAX_QUOTED_LENGTH:]}
            messages = [*messages, illegal, {"role": "user", "content": reason}]
    yield []


@dataclass
class Interview:
    """Holds conversations: looks up the answers to their requests, and asks for those that are
    missing.
    """

    sampling: Sampling
    answers: Answers
    ask: Ask | None = None
    """None asks nobody: conversations whose answers are missing end early"""
    progress: Callable[[int, int], object] = no_progress
    """called with the number of requests answered now, and of those known to be needed"""
    requests: dict[str, dict[str, object]] = field(default_factory=dict)
    """all requests of the conversations, by id"""
    new: set[str] = field(default_factory=set)
    """ids of the requests that were answered now"""

    @property
    def missing(self) -> Requests:
        """Requests without an answer, by id."""
        return {key: body for key, body in self.requests.items() if key not in self.answers}

    def hold(self, texts: Sequence[TextGame], *, single: bool = False) -> None:
        """Play games to their end, or to a missing answer.

        All requests of a round that have no answer yet are sent together.

        Args:
            texts: the games, each of which has samples of its own number.
            single: whether a game ends after one turn; then all have the same sample.

        Raises:
            ValueError: a request has failed for good, or an answer cannot be stored.
        """
        talks = [converse(text, single=single) for text in texts]
        active = dict(enumerate(map(next, talks)))
        while active:
            waiting = {number: messages for number, messages in active.items() if messages}
            keys = self._request_answers(
                [
                    self.sampling.request(messages, 0 if single else number)
                    for number, messages in waiting.items()
                ]
            )
            answers = zip(waiting, map(self.answers.get, keys), strict=True)
            active = {number: talks[number].send(answer) for number, answer in answers if answer}

    def _request_answers(self, requests: Sequence[tuple[str, dict[str, object]]]) -> list[str]:
        """Ask for the missing answers to requests; return the ids of the requests."""
        self.requests |= requests
        missing = {key: body for key, body in requests if key not in self.answers}
        for key, answer in self.ask(missing) if self.ask is not None else ():
            self.answers.add(key, answer)
            self.new.add(key)
            self.progress(len(self.new), len(self.new | missing.keys()))
        return [key for key, _ in requests]
