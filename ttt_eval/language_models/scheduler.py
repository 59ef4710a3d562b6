"""Concurrent questions to a model: each question is sent once, its answer stored, and the costs bounded.

A task is a generator that yields a :class:`Question`, receives the text of the answer, and returns a result. All tasks
and the store of answers run in one thread; only requests run in others.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

from ttt_eval.language_models.answer_cache import AnswerCache
from ttt_eval.language_models.endpoint import Completion, Endpoint, EndpointError, Question, Sampling

Result = TypeVar("Result")
Task = Generator[Question, str, Result]
MAX_CONCURRENCY = 256
TASKS_PER_REQUEST = 4
"""Maximum number of tasks in progress for each concurrent request: several may wait for the same answer."""
_OVERHEAD_TOKENS = 16
"""Upper bound of the tokens that a chat template adds to each message."""


@dataclass(frozen=True)
class Limits:
    """Limits of one evaluation, and the prices that they need.

    Raises:
        ValueError: an invalid number, or a maximum cost without prices.
    """

    concurrency: int = 8
    """maximum number of requests at a time"""
    max_requests: int | None = None
    """maximum number of new answers"""
    max_cost: float | None = None
    """maximum cost of new answers, in the currency of the prices"""
    price_in: float = 0.0
    """price of a million tokens of prompts"""
    price_out: float = 0.0
    """price of a million tokens of answers"""

    def __post_init__(self) -> None:
        if not 1 <= self.concurrency <= MAX_CONCURRENCY:
            raise ValueError(f"concurrency={self.concurrency} is none: choose from 1 to {MAX_CONCURRENCY}")
        if self.max_requests is not None and self.max_requests < 0:
            raise ValueError(f"max_requests={self.max_requests} is no number of requests: choose 0 or more")
        if not (0 <= self.price_in < 1e9 and 0 <= self.price_out < 1e9):
            raise ValueError("price_in= and price_out= are prices of a million tokens: choose 0 or more")
        if self.max_cost is not None and not (self.max_cost >= 0 and self.price_in + self.price_out > 0):
            raise ValueError("max_cost= needs the prices of a million tokens: add price_in= and price_out=")

    def cost(self, prompt_tokens: float, completion_tokens: float) -> float:
        """Return the cost of tokens."""
        return (prompt_tokens * self.price_in + completion_tokens * self.price_out) / 1e6


@dataclass
class TokenUsage:
    """Sums over answers."""

    answers: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    truncated: int = 0
    """answers that were cut off at the maximum number of tokens"""

    def add(self, answer: Completion) -> None:
        """Count an answer."""
        self.answers += 1
        self.prompt_tokens += answer.prompt_tokens
        self.completion_tokens += answer.completion_tokens
        self.truncated += answer.truncated

    def to_dict(self, limits: Limits) -> dict[str, Any]:
        """Return JSON-ready data; docs/language-models.md documents the keys."""
        return {**vars(self), "cost": limits.cost(self.prompt_tokens, self.completion_tokens)}


class _Request(NamedTuple):
    """A request in flight."""

    key: str
    most: float
    """its maximum cost"""


@dataclass
class RequestScheduler:
    """Asks a model the questions of tasks.

    Attributes:
        used: the answers that tasks have received, each question counted once.
        new: those that were requested from the endpoint now.
        spent: whether a limit has ended the work.
    """

    endpoint: Endpoint
    sampling: Sampling
    cache: AnswerCache
    limits: Limits = field(default_factory=Limits)
    progress: Callable[[TokenUsage, float], None] | None = None
    """called with the new answers and their cost after each of them"""
    used: TokenUsage = field(default_factory=TokenUsage)
    new: TokenUsage = field(default_factory=TokenUsage)
    spent: bool = False
    _seen: set[str] = field(default_factory=set)

    def run(self, tasks: Iterable[Task[Result]]) -> Iterator[tuple[int, Result]]:
        """Run tasks, several at a time; yield the number of each finished task and its result.

        A task is dropped if a limit forbids its next question. Answers in flight at an error or an interrupt are
        awaited and stored, because they are paid for.

        Raises:
            EndpointError: a request has failed for good.
            OSError, ValueError: an answer cannot be stored.
        """
        run = _Run(self, iter(enumerate(tasks)))
        try:
            yield from run.results()
        finally:
            run.close()

    def stored_answer(self, key: str) -> str | None:
        """Return the stored answer to a question, and count it."""
        answer = self.cache.get(key)
        if answer is None:
            return None
        if key not in self._seen:
            self._seen.add(key)
            self.used.add(answer)
        return answer.text

    def max_cost(self, question: Question) -> float:
        """Return an upper bound of the cost of a question: a token is at least one byte."""
        size = sum(len(one["content"].encode()) + _OVERHEAD_TOKENS for one in question.messages)
        return self.limits.cost(size, self.sampling.max_tokens)

    def allows(self, in_flight: int, cost_in_flight: float) -> bool:
        """Return whether the limits allow another request, given the requests in flight with the new one."""
        limits, new = self.limits, self.new
        cost = limits.cost(new.prompt_tokens, new.completion_tokens) + cost_in_flight
        few = limits.max_requests is None or new.answers + in_flight <= limits.max_requests
        return few and (limits.max_cost is None or cost <= limits.max_cost)

    def store(self, key: str, answer: Completion) -> None:
        """Store a new answer."""
        self.cache.add(key, answer)
        self.new.add(answer)
        if self.progress is not None:
            self.progress(self.new, self.limits.cost(self.new.prompt_tokens, self.new.completion_tokens))


class _Postponed(NamedTuple):
    """A task whose question waits until the answers in flight show what they cost."""

    number: int
    """of the task"""
    task: Task[Any]
    key: str
    question: Question


class _Run(Generic[Result]):
    """The tasks and requests of one call of :meth:`RequestScheduler.run`."""

    def __init__(self, scheduler: RequestScheduler, tasks: Iterator[tuple[int, Task[Result]]]) -> None:
        self._scheduler, self._tasks = scheduler, tasks
        self._pool = ThreadPoolExecutor(scheduler.limits.concurrency, thread_name_prefix="ask")
        self._requests: dict[Future[Completion], _Request] = {}
        self._waiting: dict[str, list[tuple[int, Task[Result]]]] = {}
        self._postponed: list[_Postponed] = []

    def results(self) -> Iterator[tuple[int, Result]]:
        """Yield the number of each finished task and its result."""
        while True:
            while self._has_room() and (started := next(self._tasks, None)) is not None:
                yield from self._advance(*started, None)
            if not self._requests:
                return
            done, _ = wait(self._requests, return_when=FIRST_COMPLETED)
            keys = [self._receive(future) for future in done]
            for key in keys:  # all answers are stored before a task continues
                for index, task in self._waiting.pop(key):
                    yield from self._advance(index, task, self._scheduler.stored_answer(key))
            postponed, self._postponed = self._postponed, []
            for one in postponed:
                self._ask(one)

    def _has_room(self) -> bool:
        """Return whether another task may begin."""
        most = self._scheduler.limits.concurrency
        waiting = sum(map(len, self._waiting.values()))
        return len(self._requests) < most and waiting < TASKS_PER_REQUEST * most and not self._postponed

    def _advance(self, index: int, task: Task[Result], answer: str | None) -> Iterator[tuple[int, Result]]:
        """Continue a task until it needs an answer that is not stored, or ends."""
        scheduler = self._scheduler
        try:
            question = next(task) if answer is None else task.send(answer)
            while True:
                key = scheduler.sampling.key(scheduler.endpoint.url, question)
                answer = scheduler.stored_answer(key)
                if answer is None:
                    break
                question = task.send(answer)
        except StopIteration as end:
            yield index, end.value
            return
        self._ask(_Postponed(index, task, key, question))

    def _ask(self, one: _Postponed) -> None:
        """Send the question of a task, if the limits allow it; drop the task if they never will."""
        scheduler, key = self._scheduler, one.key
        if key in self._waiting:
            self._waiting[key].append((one.number, one.task))
            return
        most, in_flight = scheduler.max_cost(one.question), self._requests.values()
        if scheduler.allows(len(in_flight) + 1, most + sum(each.most for each in in_flight)):
            future = self._pool.submit(scheduler.endpoint.complete, scheduler.sampling.body(one.question))
            self._requests[future] = _Request(key, most)
            self._waiting[key] = [(one.number, one.task)]
        elif in_flight:
            self._postponed.append(one)
        else:
            scheduler.spent = True
            one.task.close()

    def _receive(self, future: Future[Completion]) -> str:
        """Store the answer to a request, and return the hash of its question."""
        answer = future.result()
        key = self._requests.pop(future).key
        self._scheduler.store(key, answer)
        return key

    def close(self) -> None:
        """Await and store the answers in flight, without sending a request again."""
        self._scheduler.endpoint.stopping.set()
        self._pool.shutdown(wait=True, cancel_futures=True)
        for future in list(self._requests):
            if future.cancelled():
                continue
            try:
                self._receive(future)
            except EndpointError:
                continue
        self._scheduler.endpoint.stopping.clear()
