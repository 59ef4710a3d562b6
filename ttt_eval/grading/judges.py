"""Judges: what a task asks of a submission, and the check of its answers against exact ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from itertools import count
from math import nan
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode

from ttt_envs.agents.policy import normalise
from ttt_envs.arrays import GameArrays, game_arrays
from ttt_envs.core.checks import DATA_PROBLEMS, Refusal, TypeRefusal, truncate
from ttt_envs.core.files import read_table
from ttt_envs.game.boards import to_text
from ttt_envs.game.game import Game
from ttt_eval.checks import (
    PROBES,
    Check,
    CheckRow,
    Evidence,
    check_advantages,
    check_agent,
    check_search,
    check_values,
)
from ttt_eval.checks.calls import CallError
from ttt_eval.checks.check import Status, judge, list_fitting
from ttt_eval.checks.learner import (
    CREDIT,
    FLAT,
    MAX_EXCESS,
    OTHER_VALUES,
    LearnerCheck,
    ProbeLimits,
)
from ttt_eval.checks.probes import LearnerProbe, MakeEnv
from ttt_eval.checks.session import MAX_EVIDENCE
from ttt_eval.checks.tables import TIE, make_table, mean
from ttt_eval.exact.decision_values import SelfPlayValues
from ttt_eval.grading.submission import SubmissionError, SubmissionProcess
from ttt_eval.grading.wrong_searches import name_errors, solve_boards

Judge = Callable[..., Check]
DISCOUNT = 0.9
LAMBDA = 0.95
MAX_VALUE_ERROR = 1e-3
"""Largest error of values of value iteration."""
MAX_ERRORS = {CREDIT: 0.004, "defence": 0.1}
"""Largest errors of values of Q-learning, by the probe. Right ones have 0.000 once they have
converged; with a discount of 0.99 they have 0.005 in "credit", those of a policy 0.3 in "defence".
"""
PAIR = ("a pair (cell, value), the cell a number from 0 to 8", 2, ())
"""The form of an answer of minimax, see :func:`_ask`."""
SIGNS = {"sign, even", "sign, odd"}
"""Rows of values: if both hold, moves that are wrong have causes of their values."""
MAX_ALONE = 3
"""Maximum number of positions that a submission is asked in processes of their own."""
NUM_SIMULATIONS = 200
"""Number of simulations of a search whose moves are checked in all positions: right ones block."""
NUM_LATE = 2
"""Number of free cells of positions in which each move has one result."""
MAX_FREE = 4
"""Largest number of free cells of positions whose values name an error of a search."""
NUM_EARLY = 5
"""Number of positions in which answers with different seeds are compared."""
MIN_EARLY = 5
"""Number of free cells above which values after few simulations are judged."""
NUM_REPEATS = 20
"""Number of seeds with which each of these positions is asked."""
MAX_SPREAD = 1.3
"""Maximum mean square of deviations of single values from random play, in standard deviations of
results without draws; at most 1 is expected.
"""
MAX_BIAS = 1.5
"""The same of the mean value of a board with all seeds: by chi-square with 334 degrees of freedom,
a right search is above it at most once in 100 million, and above the other limit less often.
"""
MIN_SEED_SPREAD = 0.1
"""Minimum mean square of deviations between seeds; 1 is expected."""
MAX_BIAS_SHARE = 1.5
"""Maximum bias as a multiple of the spread, by which a mean is that of random play."""
MAX_MEAN_ERROR = 0.02
"""Largest difference of a root's value from the mean result of its simulations: a search that
begins with a rollout from the root has at most 0.01.
"""
MIN_GAIN = 0.3
"""Minimum gain of replies. UCT with constants of exploration from 0 to 5 has 0.57 to 0.97, a search
without a tree -0.02, one that selects replies in the first player's view -0.91.
"""
MAX_RANDOM_GAIN = 0.05
"""Maximum standard deviation of what replies gain, of a search without a tree, which has 0.02."""
MAX_SOURCE_SHARE = 0.5
"""Maximum squared distance of values from a wrong source, as a share of that from random play:
right searches with two orders of expansion have at least 4.3, those with six errors of the table at
most 0.12.
"""
NUM_ENVS = 16
"""Number of simultaneous games in the environments of submissions."""
DISCOUNT_WEIGHT = 0.01
"""Factor of the misfit of a discount that fits, as a share of its limit: a discount fits almost
exactly, or not at all, but the limits of other targets are 25 and 50 times as large, so that they
too would have a smaller share.
"""
BLIND = "positions that differ only in the other player's stones have the same values"
MAX_STEPS = 1.25
"""Maximum number of moves, as a multiple of the number that a learner is given."""
TABLES = read_table(__file__)
GAMES = {name: (Game(**options), discount) for name, (options, discount) in TABLES["games"].items()}
"""Games and discounts of value iteration, by row."""
KEPT = "right when asked alone, wrong after other calls: something is kept between calls"
EXACT_NOTE = "the answer is {}; the value is {:g}, best: {}"
VALUE_NOTE = "the value is {:+.3f}, the truth {:+.3f}"
SEED_NOTE = "search(board, 200, 1) has one answer each time, search(board, 200, 2) another one"
EARLY_NOTE = "the mean value with {} seeds is {:+.2f}, that of random play {:+.2f}"
MEAN_NOTE = "the value is {:+.2f}, the mean result of the visits {:+.2f}"


def judge_minimax(submission: SubmissionProcess) -> Check:
    """Check ``minimax(board)``, which returns a move and the value for the player to move.

    Values that are all equal where no move wins at once are judged as 0: they need no search.
    """
    table = make_table("plain")
    answers: dict[Sequence[int], Any] = {}

    def ask(board: Sequence[int]) -> Any:
        if board not in answers:
            answers[board] = _ask(submission, *PAIR, board)
        return answers[board]

    agent = check_agent(lambda board: ask(board)[0], limit_s=None)
    later_values = {
        str(value) for board, (_, value) in answers.items() if not table.wins[table.index(board)]
    }
    values = check_values(
        lambda board: ask(board)[1] if len(later_values) != 1 else 0, limit_s=None
    )
    wrong = [board for board, answer in answers.items() if not _is_exact(board, answer)]
    wrong_answers = [
        (table.index(board), truncate(answers[board])) for board in wrong[:MAX_EVIDENCE]
    ]
    exact = judge(
        "exact",
        f"{len(wrong)} of {len(answers)} moves or values are not the best",
        nan if submission.error else len(wrong),
        0,
        [
            table.evidence(
                row, EXACT_NOTE.format(answer, table.values[row], *table.best_moves([row]))
            )
            for row, answer in wrong_answers
        ],
        rule="none",
    )
    rows = {row.name: row for row in (*values.rows, *agent.rows, exact)}
    patterns = {
        f"{KEPT} (a cache whose key lacks something, such as the player to move?)": (
            _is_right_alone(submission, wrong)
        ),
        "the pair is the wrong way round: the cell comes first, then the value": all(
            _is_exact(board, answer[::-1]) for board, answer in answers.items()
        ),
        **dict.fromkeys(
            name_errors({board: pair[1] for board, pair in answers.items() if wrong}), True
        ),
        "games that go on are taken for finished: a line that wins is none": any(
            move is None for move, _ in answers.values()
        ),
        **dict.fromkeys(agent.causes, not SIGNS.isdisjoint(values.failed)),
        **dict.fromkeys(values.causes, True),
    }
    causes = list_fitting(patterns) if wrong else []
    return Check(agent.subject, [*rows.values()], causes)


def _ask(
    submission: SubmissionProcess, form: str, length: int, shape: Sequence[int], *arguments: Any
) -> Any:
    """Return an answer that is a list or an array.

    Args:
        submission: that is asked.
        form, length: of the answer.
        shape: of its first part.
        arguments: of the function.

    Raises:
        CallError: it has another form, or the function raised something.
        SubmissionError: the submission has ended.
    """
    answer = submission.call(0, *arguments)
    is_list = isinstance(answer, list | np.ndarray)
    if is_list and len(answer) == length and np.shape(answer[0]) == shape:
        return answer
    problem = f"return {form}; yours returned {truncate(answer)}"
    submission.error = submission.error or problem
    raise CallError(problem)


def _is_exact(board: Sequence[int], answer: Any) -> bool:
    """Return whether the move is one of the best, and the value right."""
    table = make_table("plain")
    row = table.index(board)
    try:
        move, value = answer
        return bool(max(table.losses[row, move], abs(value - table.values[row])) < TIE)
    except DATA_PROBLEMS:
        return False


def _is_right_alone(submission: SubmissionProcess, boards: Sequence[Sequence[int]]) -> bool:
    """Return whether a submission of minimax answers those of some positions right that have the
    fewest free cells, if a process of its own is asked for each.
    """
    late_boards = sorted(boards, key=np.count_nonzero, reverse=True)[:MAX_ALONE]
    with suppress(CallError, SubmissionError), ExitStack() as stack:
        return all(
            _is_exact(board, _ask(stack.enter_context(submission.restart()), *PAIR, board))
            for board in late_boards
        )
    return False


def judge_search(submission: SubmissionProcess) -> Check:
    """Check ``search(board, simulations, seed)``, which returns visits and the root's value."""
    table = make_table("plain")
    form = "a pair (list of nine visits, value)", 2, (9,)
    ask = partial(_ask, submission, *form)
    scale, *scale_numbers = _find_scale(ask)
    late_answers: dict[Sequence[int], Any] = {}
    flags: list[tuple[bool, bool, bool]] = []

    def search(game: Any, board: Any, evaluator: None, simulations: int, seed: int) -> Any:
        visits, number = ask(board, simulations, seed)
        value = _rescale(number, simulations, *scale_numbers)
        legal = np.equal(board, 0)
        num_free = sum(legal)
        if simulations >= NUM_SIMULATIONS and num_free <= MAX_FREE:
            late_answers[board] = visits, value, number
        missing = simulations - sum(visits)
        is_whole = missing <= num_free and all(
            cell_visits % 1 == 0 <= cell_visits for cell_visits in visits
        )
        is_rest = abs(missing + (num_free - 2) * simulations) <= num_free
        flags.append((is_whole, is_rest, len({*np.compress(legal, visits)}) == 1))
        return visits if any(visits) else legal, value  # without visits any move is played

    check = check_search(search, "plain", None, limit_s=None)
    agent = check_agent(
        lambda board: search(None, board, None, NUM_SIMULATIONS, 0)[0], limit_s=None
    )
    is_whole, is_rest, is_equal = np.reshape(flags, (-1, 3)).T
    values = {board: value for board, (_, value, _) in late_answers.items()}
    errors = name_errors(values, any_play=True) if "results" in check.failed else []
    late_causes: list[str] = []
    rows = [*check.rows, *(row for row in agent.rows if row.name == "block")]
    num_wrong = (is_whole == 0).sum()
    rows.append(judge("form", f"{num_wrong} of {len(flags)} lists", num_wrong, 0))
    with suppress(CallError, SubmissionError, *DATA_PROBLEMS):
        first, repeat, other = (
            str([ask(table.board(row), NUM_SIMULATIONS, seed) for row in range(NUM_EARLY)])
            for seed in (1, 1, 2)
        )
        num_wrong = (first != repeat) + (first == other)
        example = table.evidence(0, SEED_NOTE)
        rows.append(
            judge("seed", "two calls with one seed, and two seeds", num_wrong, 0, [example])
        )
        late_rows, late_causes = _judge_late(late_answers, scale)
        rows += late_rows
        is_mean = TABLES["values"][1] not in late_causes
        early_rows = _judge_early(ask, scale_numbers, is_mean, first != other)
        rows += early_rows
        late_causes = [row.measured for row in early_rows[:1]] + late_causes
        with submission.restart() as new_process:
            first, other = (
                str(_ask(process, *form, table.board(0), 9, 0))
                for process in (new_process, submission)
            )
        if early_rows and first != other:
            late_causes.insert(0, KEPT)
    signs = {
        "all moves have the same visits: they are tried in turn": is_equal.all(),
        "the list has the simulations without a visit of the cell: the move with the fewest visits "
        "is played": is_rest.all(),
        "the list has other numbers than those of visits, such as wins, shares or mean values: the "
        "largest one is played": not is_whole.all(),
    }
    causes = list_fitting(signs) + errors
    if "results" not in check.failed:
        causes += late_causes
    judged = {row.name: row for row in rows}  # the last of a name
    return Check(check.subject, [*judged.values()], [*causes, *check.causes])


def _find_scale(ask: Callable[..., Any]) -> Any:
    """Return the first scale of ``judges.toml`` that explains the values of positions whose result
    play no longer changes; that of the task if none does.
    """
    table = make_table("plain")
    rows = np.flatnonzero(table.forced & (table.num_free == NUM_LATE))[::4]
    with suppress(CallError, SubmissionError, *DATA_PROBLEMS):
        values = np.array([ask(table.board(row), NUM_SIMULATIONS, 0)[1] for row in rows])
        for scale in TABLES["scales"]:
            errors = _rescale(values, NUM_SIMULATIONS, *scale[1:]) - table.values[rows]
            if np.abs(errors).max() < MAX_MEAN_ERROR:
                return scale
    return TABLES["scales"][0]


def _rescale(value: Any, simulations: int, offset: float, factor: float, power: float) -> Any:
    """Return what a value of a scale is from -1 to 1."""
    return (np.float64(value) / simulations**power - offset) / factor


def _judge_early(
    ask: Callable[..., Any], scale_numbers: Sequence[float], is_mean: bool, is_seeded: bool
) -> list[CheckRow]:
    """Return rows that fail as values after few simulations have a wrong source, or are not means
    of independent random rollouts; what they have measured is the cause.

    There are as many simulations as moves. The visits tell which positions had a rollout, if none
    had two, as in most searches; other boards are left out. Mean and variance of a value are known
    exactly then.

    Args:
        ask: returns visits and the value of a board after simulations with a seed.
        scale_numbers: of the values, see :func:`_find_scale`.
        is_mean: whether values are means of all simulations; if not, only sources are judged.
        is_seeded: whether answers differ with the seed; if not, means of seeds are not judged.
    """
    table = make_table("plain")
    rows = np.flatnonzero(~table.ended & (table.num_free > MIN_EARLY))
    boards = [table.board(row) for row in rows.tolist()]
    seeds = count()
    answers = [
        [np.hstack(ask(board, board.count(0), next(seeds))) for _ in range(NUM_REPEATS)]
        for board in boards
    ]
    *visits, numbers = np.array(answers, np.float64).T  # [NUM_REPEATS, boards] each
    num_free = table.num_free[rows]
    values = _rescale(numbers, num_free, *scale_numbers)
    parts = [solve_boards(boards, case) for *_, case in TABLES["sources"]]
    errors = np.square(parts - values.mean(axis=0)).sum(axis=1)
    nearest = errors.argmin()
    cause, names, _ = TABLES["sources"][nearest]
    if names and errors[nearest] < MAX_SOURCE_SHARE * errors[0]:
        return [CheckRow(name, cause, "fails") for name in names]
    counts = np.stack([num_free - sum(visits), *visits])
    chosen = np.flatnonzero(np.isin(counts, (0, 1)).all(axis=(0, 1)))
    if not is_mean or not chosen.size:
        return []
    counts = counts[..., chosen]
    means = np.nan_to_num([table.random_values, *table.solve(mean, mean)[1].T])[
        :, None, rows[chosen]
    ]
    variances = (counts * (1 - means**2)).sum(axis=0)
    excess = values[:, chosen] * num_free[chosen] - (counts * means).sum(axis=0)
    deviations = excess / np.sqrt(variances)
    biases = deviations.sum(axis=0) ** 2 / NUM_REPEATS
    spread = np.mean(deviations**2)
    bias = np.mean(biases)
    seed_spread = spread - bias / NUM_REPEATS
    is_biased = is_seeded and bias >= MAX_BIAS
    if spread < MAX_SPREAD and not is_biased:
        return []
    worst = chosen[biases.argmax()]
    note = EARLY_NOTE.format(NUM_REPEATS, values[:, worst].mean(), parts[0][worst])
    fitting = [seed_spread < MIN_SEED_SPREAD, bias < MAX_BIAS_SHARE * spread, True]
    cause = TABLES["rollouts"][fitting.index(True)]
    return [CheckRow("rollouts", cause, "fails", "", (table.evidence(rows[worst], note),))]


def _judge_late(
    answers: Mapping[Sequence[int], Any], scale: str
) -> tuple[list[CheckRow], list[str]]:
    """Return rows, and causes that explain the answers in positions with two and three free cells.

    With two each move has one result, and the visits tell the mean; only a move that wins leaves a
    cell free. With three the other player has one choice: the mean is that of random replies, less
    what the best ones gain. Values of a program that only returns a number do not rise as means.
    A value of the move with the most visits is compared with that move's results.

    Args:
        answers: visits, the value on the scale of the task, and as it was returned, by board.
        scale: what is wrong with the scale; else empty.
    """
    table = make_table("plain")
    rows = [*map(table.index, answers)]
    visits, values, numbers = (
        np.array(part, np.float64) for part in zip(*answers.values(), strict=True)
    )
    next_rows = table.next[rows, :, 0]
    best_gains = table.random_losses[next_rows]
    results = table.reward[rows] - table.values[next_rows] + best_gains
    shares = np.stack(
        [normalise(np.maximum(visits, TIE)), np.eye(visits.shape[1])[visits.argmax(axis=1)]]
    )
    means = (shares * results).sum(axis=2)
    num_free = table.num_free[rows]
    is_late = num_free == NUM_LATE
    errors = np.abs(means - values) * is_late
    kind = (errors.max(axis=1) > MAX_MEAN_ERROR).argmin()  # the first that fits
    answer_errors = np.abs(means[0] - numbers) * is_late
    position = answer_errors.argmax()
    error = answer_errors[position]
    note = MEAN_NOTE.format(numbers[position], means[0, position])
    best = (shares[kind] * best_gains).sum(axis=1) * (num_free == NUM_LATE + 1)
    gains = means[kind] - values
    share = (gains @ best) / (best @ best)
    slope = (values @ means[kind]) / (means[kind] @ means[kind])
    gain = min(share, slope)
    judged = [
        judge(
            "mean",
            f"largest error: {error:.3f}",
            error,
            MAX_MEAN_ERROR,
            [table.evidence(rows[position], note)],
        ),
        judge(
            "tree",
            f"replies gain {share:.2f} times what the best ones do, values {slope:.2f} times means",
            gain,
            MIN_GAIN,
            minimum=True,
        ),
    ]
    causes = {
        "simulations go on after a win, until the board is full": (
            np.max(errors[kind] * ~table.wins[rows]) < MAX_MEAN_ERROR < errors[kind].max()
        ),
        "no tree below the root: the other player's replies are random": (
            np.std(gains[num_free == NUM_LATE + 1]) < MAX_RANDOM_GAIN
        ),
        "moves are selected that are the worst for the player who makes them, own ones too": (
            share < -MIN_GAIN
            and table.losses[rows, visits.argmax(axis=1)] @ is_late
            > table.random_losses[rows] @ is_late
        ),
        "the other player's replies are selected in the view of the player to move": (
            share < -MIN_GAIN
        ),
    }
    names = list_fitting(causes) if gain < MIN_GAIN else []
    return judged, [*filter(None, [scale, TABLES["values"][kind]]), *names]


def judge_advantages(submission: SubmissionProcess) -> Check:
    """Check ``gae(rewards, values, dones, next_value, next_done, discount, lam)``."""

    def gae(rewards: Any, values: Any, dones: Any, next_value: Any, next_done: Any) -> Any:
        return submission.call(0, rewards, values, dones, next_value, next_done, DISCOUNT, LAMBDA)

    check = check_advantages(gae, gamma=DISCOUNT, cpu=10.0, limit_s=None)
    estimator = f"GAE({DISCOUNT}, {LAMBDA})"
    row = judge(
        "lambda",
        f"recognised: {check.recognised or 'nothing'}",
        float(check.recognised != estimator),
        0,
        rule=estimator,
    )
    return replace(check, rows=[*check.rows, row])


def judge_value_iteration(submission: SubmissionProcess) -> Check:
    """Check ``value_iteration(legal, next_states, rewards, skip_chance, discount)``, which returns
    the values of all states if both players play perfectly.
    """
    rows: list[CheckRow] = []
    for name, (game, discount) in GAMES.items():
        arrays = game_arrays(game)
        model = SelfPlayValues(arrays)
        exact, _ = model.fixed_point(model.best, discount=discount)
        try:
            size = len(arrays.rewards)
            answer = _ask(submission, f"{size} values", size, (), *_game(arrays), discount)
            errors = np.asarray(answer, np.float64)[: len(exact)] - exact
        except (CallError, SubmissionError, *DATA_PROBLEMS) as error:
            rows.append(CheckRow("answers", str(error), "fails", "values of all states"))
            break
        boards = arrays.boards(0)
        evidence = [
            Evidence(
                to_text(boards.position(row), game),
                VALUE_NOTE.format(exact[row] + errors[row], exact[row]),
            )
            for row in np.argsort(-np.abs(errors))[:MAX_EVIDENCE]
        ]
        max_error = np.abs(errors).max()
        rows.append(
            judge(
                name,
                f"largest error of {len(exact)} values: {max_error:.4f}",
                max_error,
                MAX_VALUE_ERROR,
                evidence,
            )
        )
    return Check("value iteration", rows, ["values are not those of perfect play"])


def judge_learner(
    submission: SubmissionProcess, limits: Mapping[str, float], values: bool = False
) -> Check:
    """Check ``train(environment, steps, seed)``, which returns a function of observations; in
    self-play ``train(game, observations, num_starts, seed)``, which learns from arrays.

    A learner that does not reach a limit has a second attempt, with another seed and twice the
    steps: slow is not wrong. Values fail if they are not possible, if those of the probe "credit"
    do not become right, or better with each doubling of the steps, or if in no probe the other
    player's stones change them. Scores do not show this: in these probes the own stones nearly
    tell the positions apart.

    Args:
        submission: that has the function.
        limits: least scores by name of the probe, see :data:`ttt_eval.checks.PROBES`.
        values: whether scores of actions are their values, which are judged in the row "values".
    """

    def train(make_env: MakeEnv, steps: int, seed: int) -> Any:
        agent = submission.call(0, *_task(make_env, steps, seed + steps), seed + steps)
        if agent is None:
            raise TypeRefusal("train returned None: return a function of observations")
        if values and callable(agent):
            agent.values = agent
        agents.append(agent)
        return agent

    def limits_of(probe: LearnerProbe, kind: str) -> ProbeLimits:
        if probe.name in MAX_ERRORS:
            return ProbeLimits(limits[probe.name], "error", MAX_ERRORS[probe.name])
        return ProbeLimits(limits[probe.name])

    agents: list[Any] = []
    evidence: list[Evidence] = []
    causes: list[str] = []
    blind: list[bool] = []
    checker = LearnerCheck(train, limits_of, {"error"}, range(1))
    try:
        for name in limits:
            checker.check_probe(PROBES[name])
            if values:
                blind.append(_is_blind(PROBES[name], agents[-1]))
            if values and checker.rows[-1].status == "fails":
                position, errors = _explain_values(PROBES[name], agents[-1])
                evidence.append(position)
                causes += errors
    except (CallError, SubmissionError, *DATA_PROBLEMS) as error:
        submission.error = submission.error or str(error)
        return Check(
            "a learner",
            [CheckRow("answers", str(error), "fails", "a function of observations")],
            [str(error)],
        )
    rows = [
        row._replace(status="fails", limit="values at most 1 or -1")
        if checker.best_runs[row.name].excess > MAX_EXCESS
        else row
        for row in checker.rows
        if row.name in limits
    ]
    if values:
        others = [f"{row.name}: {row.measured}" for row in checker.rows if row.name not in limits]
        failed = {row.name for row in checker.rows if row.status == "fails"}
        status: Status = "no evidence" if failed & {"bandit", CREDIT} else "holds"
        if all(blind):
            causes.append(BLIND)
        if all(blind) or not failed <= limits.keys():
            status = "fails"
        rows.append(
            CheckRow(
                "values",
                "; ".join(others),
                status,
                "right in credit, or better with each doubling of the steps; possible elsewhere; "
                "others where only the other player's stones differ",
                tuple(evidence),
            )
        )
    # a table has hints for it
    causes += [cause for cause in checker.causes() if cause not in (FLAT, OTHER_VALUES)]
    return Check("a learner", rows, causes)


def _is_blind(probe: LearnerProbe, agent: Any) -> bool:
    """Return whether values depend on the own stones only, and some are learned."""
    observations = probe.exact.observations
    own_stones, _ = np.split(observations, 2, axis=1)
    values = np.asarray(agent(observations))
    answers = np.unique(np.hstack([own_stones, values]), axis=0)
    return bool(values.any()) and len(answers) == len(np.unique(own_stones, axis=0))


def _explain_values(probe: LearnerProbe, agent: Any) -> tuple[Evidence, list[str]]:
    """Return the position in which the value of the best action is most wrong, times its visits;
    and the error that explains the values, if one does: by the values of next positions the
    nearest of the wrong targets, in the probe "credit", in which these are sure.
    """
    exact = probe.exact
    model = exact.model
    learned_values = np.asarray(agent(exact.observations))
    values = model.best(learned_values)
    policy = exact.greedy(learned_values)
    shares = exact.weights(policy)[:, None] * policy
    row = int((shares.sum(axis=1) * np.abs(values - exact.values)).argmax())
    action = int(policy[row].argmax())
    note = f"cell {action}: {VALUE_NOTE}"
    evidence = Evidence(exact.text(row), note.format(values[row], exact.action_values[row, action]))
    signs = {
        "the update adds to the value and takes nothing off it: it grows with each visit": (
            learned_values[model.rewards < 0] < -1 - MAX_EXCESS
        ),
        "next values count after the end of a game: no mask there, or that of another step": (
            learned_values[model.rewards > 0] > 1 + MAX_EXCESS
        ),
    }
    if not learned_values.any():  # maybe in next positions
        cells = np.eye(len(learned_values[0]), len(exact.observations[0]))
        signs = {
            "the values of the positions after the moves are learned, not of those in which the "
            "moves were made": agent((exact.observations[:, None] + cells)[model.allowed])
        }
    elif probe.name == CREDIT:
        mean = (normalise(model.allowed) * learned_values).sum(axis=1)
        names, limits, weights = zip(*TABLES["targets"], strict=True)
        next_values = np.array(weights) @ [values, mean, -model.best(-learned_values)]
        errors = (model.rewards - learned_values).reshape(-1, 1) + model.next @ next_values.T
        misfits = shares.ravel() @ np.abs(errors)
        ratios = misfits / limits
        is_discount = np.equal(limits, min(limits))
        ratios[is_discount & (ratios < 1)] *= DISCOUNT_WEIGHT
        target = ratios.argmin()
        signs = {
            "all positions have the same values": (learned_values == learned_values[0]).all(),
            names[target]: misfits[target] < limits[target],
        }
    return evidence, list_fitting({cause: np.any(fits) for cause, fits in signs.items()})


def _task(make_env: MakeEnv, steps: int, seed: int) -> tuple[Any, ...]:
    """Return what a learner is given beside its seed."""
    if not make_env.self_play:
        return serve(make_env, steps, seed), steps
    model: Any = PROBES["self-play"].exact.model
    return (*_game(model.arrays), model.arrays.observations, model.starts)


def _game(arrays: GameArrays) -> tuple[Any, ...]:
    return arrays.legal, arrays.next, arrays.rewards, arrays.skip_chance


def serve(make_env: MakeEnv, steps: int, seed: int) -> dict[str, Any]:
    """Return what the environment of a submission is made of, see ``task.md``.

    Args:
        make_env: makes the games.
        steps: number of moves in all games that a submission is given; :data:`MAX_STEPS` times as
            many are allowed, to end a rollout.
        seed: of games that the submission begins without one.
    """
    envs: Any = make_env(NUM_ENVS, autoreset_mode=AutoresetMode.SAME_STEP, illegal_action="raise")
    envs.reset(seed=seed)
    num_moves = count(NUM_ENVS, NUM_ENVS)

    def reset(seed: int | None = None) -> list[Any]:
        """Begin all games."""
        observations, info = envs.reset(seed=seed)
        return [observations, {"action_mask": info["action_mask"]}]

    def step(actions: Any) -> list[Any]:
        """Make a move in each game.

        Raises:
            ValueError: an action is illegal, or there were too many moves.
        """
        if next(num_moves) > MAX_STEPS * steps:
            raise Refusal(
                f"it makes more than {MAX_STEPS} times the {steps:,} moves that it is given: "
                f"call environment.step {steps // NUM_ENVS:,} times"
            )
        observations, rewards, terminated, truncated, info = envs.step(np.asarray(actions))
        infos = {
            "action_mask": info["action_mask"],
            "next_observations": observations.copy(),
            "next_action_mask": info["action_mask"].copy(),
        }
        for game in np.flatnonzero(terminated | truncated):
            infos["next_observations"][game] = info["final_obs"][game]
            infos["next_action_mask"][game] = info["final_info"]["action_mask"][game]
        return [observations, rewards, terminated, truncated, infos]

    return {
        "reset": reset,
        "step": step,
        "num_envs": NUM_ENVS,
        "num_actions": int(envs.single_action_space.n),
    }


ROWS: Mapping[str, Sequence[str]] = {
    **TABLES["rows"],
    "value iteration": tuple(GAMES),
    "learner": (*PROBES, "values"),
}
"""Names of rows that can have weights, by judge."""
JUDGES: Mapping[str, Judge] = {
    "minimax": judge_minimax,
    "search": judge_search,
    "value iteration": judge_value_iteration,
    "advantages": judge_advantages,
    "learner": judge_learner,
}
