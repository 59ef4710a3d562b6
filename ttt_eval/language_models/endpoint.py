"""Client of a chat-completions endpoint: bounded replies, retries with exponential backoff, and no trace of the key.

The protocol is that of OpenAI's ``POST /chat/completions``, which vLLM, llama.cpp, Ollama and most providers have.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple
from urllib.parse import urlsplit
from zlib import crc32

import numpy as np

from ttt_envs.core.extras import install_command
from ttt_envs.core.files import parse_json
from ttt_envs.text import MAX_ANSWER_LENGTH

if TYPE_CHECKING:
    import httpx

PATH = "/chat/completions"
MAX_REPLY_BYTES = 1 << 23
"""Maximum size of a reply in bytes."""
MAX_SEED = 2**31
"""Seeds are sent modulo this: some endpoints read 32 bits."""
RETRIED = frozenset({408, 409, 425, 429, *range(500, 600)})
"""HTTP status codes after which a request is sent again."""
MAX_WAIT_S = 600.0
"""Maximum wait that a ``Retry-After`` may demand; with a longer one the evaluation stops."""
MAX_BACKOFF_S = 60.0
"""Maximum wait between two attempts without ``Retry-After``."""
MIN_KEY_LENGTH = 8
"""Minimum length of a key that is removed from texts of the endpoint: a shorter one, such as EMPTY, is a placeholder
for servers without keys, and may be a word of an answer."""
_SHOWN = 200
_MAX_TOKENS = 10**9
_HINTS = {
    401: "the endpoint needs another key: set the environment variable OPENAI_API_KEY, or key_variable=NAME",
    403: "the key has no access to this model",
    404: "the endpoint or the model does not exist: endpoint= is the address before /chat/completions",
}

Message = Mapping[str, str]
TokenField = Literal["max_tokens", "max_completion_tokens"]


class EndpointError(ValueError):
    """A request that has failed for good; the message never contains the key."""


class Question(NamedTuple):
    """A conversation that the model continues."""

    messages: tuple[Message, ...]
    sample: int = 0
    """number of the sample: a model with a temperature answers each sample of a question separately"""


class Completion(NamedTuple):
    """An answer."""

    text: str
    """at most the last :data:`ttt_envs.text.MAX_ANSWER_LENGTH` characters"""
    prompt_tokens: int
    completion_tokens: int
    truncated: bool
    """whether the answer was cut off at the maximum number of tokens"""


@dataclass(frozen=True)
class Sampling:
    """Everything that determines the answer to a question.

    Raises:
        ValueError: an invalid temperature or number of tokens, or no model.
    """

    model: str
    temperature: float | None = 0.0
    """None leaves it to the endpoint"""
    max_tokens: int = 1024
    """maximum number of tokens of an answer"""
    seed: int = 0
    """sent with a temperature above 0, plus the number of the sample"""
    token_field: TokenField = "max_tokens"
    """name of the field for ``max_tokens``"""
    send_seed: bool = True

    def __post_init__(self) -> None:
        if not self.model or not self.model.isprintable() or len(self.model) > _SHOWN:
            raise ValueError(f"model={ascii(self.model)[:_SHOWN]} is no name of a model: write one as the endpoint")
        if self.temperature is not None and not 0 <= self.temperature <= 10:
            raise ValueError(f"temperature={self.temperature:g} is none: choose 0 or more, up to 10")
        if not 1 <= self.max_tokens <= 10**6:
            raise ValueError(f"max_tokens={self.max_tokens} leaves no answer: choose from 1 to 1,000,000")

    @property
    def deterministic(self) -> bool:
        """Whether all samples of a question count as one."""
        return self.temperature == 0

    def body(self, question: Question) -> dict[str, Any]:
        """Return the body of the request for a question."""
        body: dict[str, Any] = {"model": self.model, "messages": [dict(one) for one in question.messages]}
        if self.temperature is not None:
            body["temperature"] = self.temperature
        body[self.token_field] = self.max_tokens
        if not self.deterministic and self.send_seed:
            body["seed"] = (self.seed + question.sample) % MAX_SEED
        return body

    def key(self, url: str, question: Question) -> str:
        """Return the SHA-256 of a question and of everything that determines its answer, at an endpoint."""
        sample = 0 if self.deterministic else (self.seed, question.sample)
        data = {"endpoint": url, "body": self.body(question), "sample": sample}
        return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()


def check_url(url: str) -> str:
    """Return the address of the chat completions of an endpoint, given with or without ``/chat/completions``.

    Raises:
        ValueError: no address of a server, or one with a password or a query, which could contain a key.
    """
    shown = ascii(url)[1:-1][:_SHOWN]
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise ValueError(f"{shown} is no address: endpoint= is one such as http://127.0.0.1:8000/v1") from None
    if parts.username is not None or parts.query or parts.fragment:
        raise ValueError(
            "endpoint= has a user, a query or a fragment, which may hold a key and would be stored: write the plain "
            "address, and put the key into the environment variable of key_variable="
        )
    if parts.scheme not in ("http", "https") or not parts.hostname or not url.isprintable() or port == 0:
        raise ValueError(f"{shown} is no address: endpoint= is one such as http://127.0.0.1:8000/v1")
    return url.rstrip("/").removesuffix(PATH) + PATH


def check_key(key: str, variable: str) -> str:
    """Return the key in an environment variable, without space around it.

    Raises:
        ValueError: it cannot be a key; the message does not contain it.
    """
    key = key.strip()
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise ValueError(f"the environment variable {variable} holds no key: a key is one word of ASCII characters")
    return key


class Endpoint:
    """A chat-completions endpoint; :meth:`complete` may be called from several threads.

    Args:
        url: its address, see :func:`check_url`.
        key: sent as a bearer token; empty for none.
        timeout_s: maximum duration of one attempt in seconds.
        retries: number of further attempts after a failure that may pass; there are none if the first request finds
            no server.
        backoff_s: wait before the second attempt in seconds; it doubles with each further one.
        connections: maximum number of connections.

    Raises:
        ImportError: httpx is not installed.
        ValueError: an invalid address, timeout or number of retries.
    """

    def __init__(
        self,
        url: str,
        key: str = "",
        *,
        timeout_s: float = 120.0,
        retries: int = 6,
        backoff_s: float = 1.0,
        connections: int = 8,
    ) -> None:
        self.url = check_url(url)
        if not 0 < timeout_s <= 86_400:
            raise ValueError(f"timeout={timeout_s:g} is no duration: choose more than 0 seconds, up to a day")
        if not 0 <= retries <= 100:
            raise ValueError(f"retries={retries} is no number of attempts: choose from 0 to 100")
        try:
            import httpx
        except ImportError:
            raise ValueError(f"a language model needs httpx: {install_command('llm')}") from None
        self.stopping = threading.Event()
        """when set, no request is sent again"""
        self._connected = False
        self._key, self._timeout_s, self._retries, self._backoff_s = key, timeout_s, retries, backoff_s
        headers = {"accept": "application/json", **({"authorization": f"Bearer {key}"} if key else {})}
        limits = httpx.Limits(max_connections=connections)
        self._client = httpx.Client(headers=headers, timeout=timeout_s, limits=limits)

    def __enter__(self) -> Endpoint:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()

    def complete(self, body: Mapping[str, Any]) -> Completion:
        """Return the answer to a request.

        Raises:
            EndpointError: the endpoint rejects the request, or all attempts have failed.
        """
        rng = np.random.default_rng(crc32(json.dumps(body).encode()))  # of waits, which differ between requests
        reason = ""
        for attempt in range(self._retries + 1):
            found = self._attempt(body)
            if isinstance(found, Completion):
                return found
            reason = found.reason
            if attempt == self._retries or self.stopping.is_set():
                break
            wait_s = min(MAX_BACKOFF_S, self._backoff_s * 2.0**attempt) * rng.uniform(0.5, 1.0)
            if found.retry_after_s is not None:
                if found.retry_after_s > MAX_WAIT_S:
                    raise EndpointError(
                        f"the endpoint asks to wait {found.retry_after_s:,.0f} s ({found.reason}): run the same "
                        f"command again then"
                    )
                wait_s = max(wait_s, found.retry_after_s)
            if self.stopping.wait(wait_s):
                break
        attempts = f"{attempt + 1} attempt{'s' * (attempt > 0)}"
        raise EndpointError(
            f"the endpoint {self._printable(self.url)} has not answered after {attempts}; the last: {reason}"
        )

    def _attempt(self, body: Mapping[str, Any]) -> Completion | _Failure:
        """Send a request once.

        Raises:
            EndpointError: a failure that would not pass.
        """
        import httpx

        try:
            content, status, retry_after = self._post(body)
        except (httpx.InvalidURL, httpx.UnsupportedProtocol, httpx.LocalProtocolError) as problem:
            raise EndpointError(f"the request cannot be sent: {self._printable(problem)}") from None
        except (httpx.HTTPError, TimeoutError) as problem:
            reason = re.sub(r"\[Errno -?\d+\] ", "", self._printable(problem)) or type(problem).__name__
            if isinstance(problem, httpx.ConnectError) and not self._connected:
                raise EndpointError(
                    f"no connection to {self._printable(self.url)} ({reason}): start the server, or correct endpoint="
                ) from None
            return _Failure(reason)
        if status == 200:
            try:
                return self._read(content)
            except ValueError as problem:
                return _Failure(f"a reply that is no chat completion: {problem}")
        reason = f"HTTP status {status}: {self._printable(content[: 4 * _SHOWN].decode(errors='replace'))}"
        if status in RETRIED:
            return _Failure(reason, retry_after)
        hint = _HINTS.get(status)
        raise EndpointError(f"{reason}{f' ({hint})' if hint else ''}")

    def _post(self, body: Mapping[str, Any]) -> tuple[bytes, int, float | None]:
        """Return content, status, and the demanded wait in seconds of a reply.

        Raises:
            EndpointError: the reply is too large.
            httpx.HTTPError, TimeoutError: no complete reply within the time.
        """
        end = time.monotonic() + self._timeout_s
        content = bytearray()
        with self._client.stream("POST", self.url, json=body) as reply:
            self._connected = True
            for part in reply.iter_bytes():
                content += part
                if len(content) > MAX_REPLY_BYTES:
                    raise EndpointError(  # a repetition would cost as much, and be as large
                        f"the endpoint sent a reply of more than {MAX_REPLY_BYTES:,} bytes: choose a smaller "
                        f"max_tokens, or another endpoint"
                    )
                if time.monotonic() > end:  # the client's own limit is one of each read
                    raise TimeoutError(f"no complete reply within {self._timeout_s:g} s")
            return bytes(content), reply.status_code, _retry_after_s(reply)

    def _read(self, content: bytes) -> Completion:
        """Read an answer.

        Raises:
            ValueError: the content is no chat completion.
        """
        data = parse_json(content, MAX_REPLY_BYTES)
        match data:
            case {"choices": [{"message": dict(message), **choice}, *_]}:
                usage = data.get("usage")
                counts = usage if isinstance(usage, dict) else {}
                return Completion(
                    self._redact(_message_text(message.get("content")))[-MAX_ANSWER_LENGTH:],
                    _token_count(counts.get("prompt_tokens")),
                    _token_count(counts.get("completion_tokens")),
                    choice.get("finish_reason") == "length",
                )
        raise ValueError(f"{self._printable(content[:_SHOWN].decode(errors='replace'))} has no choices with a message")

    def _redact(self, text: str) -> str:
        return text.replace(self._key, "[key]") if len(self._key) >= MIN_KEY_LENGTH else text

    def _printable(self, what: object) -> str:
        """Return text of the endpoint as one line without the key, shortened."""
        words = " ".join(self._redact(str(what)).split())[:_SHOWN]
        return words if words.isprintable() else ascii(words)[1:-1]


class _Failure(NamedTuple):
    """A failed attempt."""

    reason: str
    retry_after_s: float | None = None


def _retry_after_s(reply: httpx.Response) -> float | None:
    """Return the wait that a reply demands in seconds, None if it demands none (RFC 9110, section 10.2.3)."""
    text = reply.headers.get("retry-after", "").strip()
    if text.isascii() and text.isdigit() and len(text) <= 10:
        return float(text)
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max(0.0, (moment - datetime.now(UTC)).total_seconds())


def _message_text(content: object) -> str:
    """Return the text of a message: a string, or a list of parts; a refusal without text is empty."""
    if isinstance(content, str):
        return content
    parts: Sequence[object] = content if isinstance(content, list) else ()
    return "".join(str(part["text"]) for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str))


def _token_count(value: object) -> int:
    is_count = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MAX_TOKENS
    return value if is_count and isinstance(value, int) else 0
