"""Measures the strength of the tests: each fault is put into a copy of the project, and its tests must fail.

    python tests/faults.py                      # all faults, some 50 minutes
    python tests/faults.py --only mcts --list   # those whose file has this name

A fault is a small mistake that somebody could make: a wrong sign, bound or seat. A line per fault says whether the
tests caught it, and by which. The exit code is the number of missed faults. The project itself is not changed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
TIMEOUT_S = 900


class Fault(NamedTuple):
    """A replacement of text in a file, and the tests that must notice it."""

    file: str
    right: str
    wrong: str
    tests: str


FAULTS: tuple[Fault, ...] = (
    Fault(
        "ttt_envs/game/rules.py",
        "if before + after + 1 < win_length:",
        "if before + after + 1 <= win_length:",
        "ttt_envs/test_rules.py",
    ),
    Fault(
        "ttt_envs/game/rules.py",
        "if high - low > win_length * step:",
        "if high - low > (win_length + 1) * step:",
        "ttt_envs/test_rules.py",
    ),
    Fault(
        "ttt_envs/game/rules.py",
        "return mover if u < skip_chance_of(parameters) else 1 - mover",
        "return mover if u <= 1 - skip_chance_of(parameters) else 1 - mover",
        "ttt_envs/test_rules.py",
    ),
    Fault(
        "ttt_envs/game/rules.py",
        "own = stones + 1 if skip_chance_of(parameters) > 0 else stones // 2 + 1",
        "own = stones // 2 + 1",
        "ttt_envs/test_rules.py ttt_envs/test_mnk_v0.py ttt_envs/test_single_env.py",
    ),
    Fault(
        "ttt_envs/game/rules.py",
        "return mover if line else (DRAW if stones == rows * columns else NOT_OVER)",
        "return DRAW if stones == rows * columns else (mover if line else NOT_OVER)",
        "ttt_envs/test_rules.py",
    ),
    Fault(
        "ttt_envs/core/random.py",
        "np.uint64(0xBF58476D1CE4E5B9)",
        "np.uint64(0xBF58476D1CE4E5B7)",
        "ttt_envs/test_rules.py",
    ),
    Fault(
        "ttt_envs/game/rules.py",
        "_completing_in_line(cells, mover, last, columns - 1, min(rows - row, columns), parameters, out)",
        "_completing_in_line(cells, mover, last, columns - 1, min(rows - row, columns) - 1, parameters, out)",
        "ttt_envs/test_rules.py ttt_envs/test_bits.py",
    ),
    Fault(
        "ttt_envs/game/rules.py",
        "if length == win_length or (length > win_length and not rules & _EXACT):",
        "if length >= win_length:",
        "ttt_envs/test_variants.py",
    ),
    Fault(
        "ttt_envs/game/rules.py",
        "winner = mover if line_result(parameters) > 0 else 1 - mover",
        "winner = mover",
        "ttt_envs/test_variants.py",
    ),
    Fault(
        "ttt_envs/game/rules.py",
        "return empty & (taken >> columns | floor)",
        "return empty & (taken << columns | floor)",
        "ttt_envs/test_variants.py",
    ),
    Fault(
        "ttt_envs/game/rules.py",
        "beyond = tuple(sorted({before, after} - {-1, *cells})) if game.exact else ()",
        "beyond = tuple(sorted({before, after} - {-1, *cells}))",
        "ttt_envs/test_variants.py",
    ),
    Fault(
        "ttt_envs/game/rules.py",
        "if not 0 <= skip < 1:",
        "if not 0 <= skip <= 1:",
        "ttt_envs/test_rules.py",
    ),
    Fault(
        "ttt_envs/game/bits.py",
        "    two = win_length - 1 - one if win_length - 1 - one < 1 + one else 1 + one\n",
        "    two = win_length - one if win_length - one < 1 + one else 1 + one\n",
        "ttt_envs/test_bits.py ttt_envs/test_rules.py",
    ),
    Fault(
        "ttt_envs/game/symmetry.py",
        "return np.argsort(permutations, axis=1)",
        "return permutations",
        "ttt_envs/test_symmetry.py",
    ),
    Fault(
        "ttt_envs/envs/step_kernels.py",
        "rewards[b] = loses - 1.0",
        "rewards[b] = -1.0",
        "ttt_envs/test_step_kernels.py ttt_envs/test_single_env.py",
    ),
    Fault(
        "ttt_envs/envs/step_kernels.py",
        "truncated = TRUNCATED if num_illegal[b] >= size else NOT_OVER\n            result",
        "truncated = TRUNCATED if num_illegal[b] > size else NOT_OVER\n            result",
        "ttt_envs/test_environments.py ttt_envs/test_vector_env.py ttt_envs/test_single_env.py",
    ),
    Fault(
        "ttt_envs/envs/step_kernels.py",
        "seat[b] = episode[b] % 2 if begins[b] else seat[b]",
        "seat[b] = (episode[b] + 1) % 2 if begins[b] else seat[b]",
        "ttt_envs/test_environments.py ttt_envs/test_vector_env.py ttt_envs/test_single_env.py",
    ),
    Fault(
        "ttt_envs/envs/step_kernels.py",
        "free[b] = _legal_actions(of_first & ~-ended, of_second & ~-ended, settings, parameters)",
        "free[b] = _legal_actions(of_first, of_second, settings, parameters)",
        "ttt_envs/test_environments.py ttt_envs/test_vector_env.py ttt_envs/test_single_env.py",
    ),
    Fault(
        "ttt_envs/envs/step_kernels.py",
        "uniform(episode_key[b], STREAM_SYMMETRY, 0)",
        "uniform(episode_key[b], STREAM_SEAT, 0)",
        "ttt_envs/test_environments.py ttt_envs/test_playthroughs.py",
    ),
    Fault(
        "ttt_envs/envs/step_kernels.py",
        "skip_chance[b] = drawn if begins[b] else skip_chance[b]",
        "skip_chance[b] = drawn",
        "ttt_envs/test_contexts.py",
    ),
    Fault(
        "ttt_envs/envs/lockstep.py",
        "self._num_steps += 1 - self._columns.begins",
        "self._num_steps += 1",
        "ttt_envs/test_contexts.py",
    ),
    Fault(
        "ttt_envs/envs/step_kernels.py",
        "float(ended * (first_won - second_won) * (1 - 2 * seat[b]))",
        "float(ended * (first_won - second_won))",
        "ttt_envs/test_environments.py ttt_envs/test_vector_env.py ttt_envs/test_single_env.py",
    ),
    Fault(
        "evaluation/benchmark/tasks.py",
        'max(steps, 1), side="left")) - 1',
        'max(steps, 1), side="right")) - 1',
        "evaluation/test_benchmark_tasks.py",
    ),
    Fault(
        "evaluation/benchmark/illegal_moves.py",
        "np.abs(mover[unfinished] - turn) for turn, _ in parts",
        "mover[unfinished] * 0 + turn for turn, _ in parts",
        "evaluation/test_benchmark_tasks.py",
    ),
    Fault(
        "baselines/retrograde/solver.py",
        "by_first[i] = discount * value_over_skip(best, worst, skip)",
        "by_first[i] = value_over_skip(best, worst, skip)",
        "baselines/test_solver.py baselines/test_tables.py",
    ),
    Fault(
        "baselines/retrograde/solver.py",
        "worst = min(worst, by_second[i + 2 * step])",
        "worst = min(worst, by_second[i + step])",
        "baselines/test_solver.py",
    ),
    Fault(
        "baselines/retrograde/sweep.py",
        "-np.float64(everywhere[at[i]])",
        "np.float64(everywhere[at[i]])",
        "baselines/test_layers.py",
    ),
    Fault(
        "baselines/retrograde/sweep.py",
        "out[i] = int64(value > 0) - int64(value < 0) - value",
        "out[i] = -value",
        "baselines/test_layers.py",
    ),
    Fault(
        "baselines/retrograde/tablebase.py",
        "return value if skipped else -value",
        "return value",
        "baselines/test_tablebase.py baselines/test_mcts.py",
    ),
    Fault(
        "baselines/retrograde/tablebase.py",
        "score = depth - plies + 1.0 if plies <= depth else 1.0 - plies / BYTES",
        "score = depth - plies + 1.0",
        "baselines/test_tablebase.py",
    ),
    Fault(
        "baselines/opening_book.py",
        "_below_best(starts, results) / temperature",
        "_below_best(starts, results) * temperature",
        "baselines/test_opening_book.py",
    ),
    Fault(
        "evaluation/exact/forward_backward.py",
        "after_mass[child[k], mover] += skip * part",
        "after_mass[child[k], mover] += part",
        "evaluation/test_exact.py",
    ),
    Fault(
        "evaluation/exact/forward_backward.py",
        "out[1 if result > 0 else 2] = line[b]",
        "out[1] = line[b]",
        "evaluation/test_exact.py",
    ),
    Fault(
        "evaluation/exact/forward_backward.py",
        "if value >= best - VALUE_TOLERANCE:\n                    ties += 1",
        "if value >= best - 0.5:\n                    ties += 1",
        "evaluation/test_exact.py",
    ),
    Fault(
        "evaluation/matches/elo.py",
        "return mean, float((points - mean) ** 2 @ counts) / max(1, total - 1)",
        "return mean, float((points - mean) ** 2 @ counts) / max(1, total)",
        "evaluation/test_elo.py evaluation/test_sprt.py",
    ),
    Fault(
        "evaluation/matches/elo.py",
        "return math.log(self.beta / (1 - self.alpha)), math.log((1 - self.beta) / self.alpha)",
        "return math.log(self.alpha / (1 - self.beta)), math.log((1 - self.beta) / self.alpha)",
        "evaluation/test_elo.py evaluation/test_sprt.py",
    ),
    Fault(
        "evaluation/matches/elo.py",
        "    one = win * draw + lose * draw\n",
        "    one = win * draw\n",
        "evaluation/test_elo.py",
    ),
    Fault(
        "evaluation/statistics.py",
        "stdtrit(len(values) - 1,",
        "stdtrit(len(values),",
        "evaluation/test_statistics.py",
    ),
    Fault(
        "evaluation/statistics.py",
        "if (np.abs(dealt) >= abs(seen)).mean() >= level:",
        "if (dealt >= abs(seen)).mean() >= level:",
        "evaluation/test_statistics.py",
    ),
    Fault(
        "evaluation/matches/match.py",
        "count = min(PAIRS_PER_SEED_BLOCK, pairs - start)",
        "count = PAIRS_PER_SEED_BLOCK",
        "evaluation/test_match.py",
    ),
    Fault(
        "evaluation/matches/score.py",
        "return Forfeits(self.b, self.a, self.first)",
        "return Forfeits(self.a, self.b, self.first)",
        "baselines/test_gomocup.py",
    ),
    Fault(
        "evaluation/result_store.py",
        "            if line == _line(name, result):",
        "            if True:",
        "evaluation/test_study.py evaluation/test_sprt.py",
    ),
    Fault(
        "evaluation/result_store.py",
        "missing = [index for index, name in enumerate(names) if name not in stored]",
        "missing = [index for index, name in enumerate(names)]",
        "evaluation/test_study.py evaluation/test_sprt.py",
    ),
    Fault(
        "evaluation/matches/luck.py",
        "            mean = value_over_skip(table[player, after], table[1 - player, after], skip)",
        "            mean = value_over_skip(table[1 - player, after], table[player, after], skip)",
        "evaluation/test_luck.py",
    ),
    Fault(
        "evaluation/matches/luck.py",
        "            value = 0.0 if outcome[b] == DRAW else 1.0 - 2.0 * outcome[b]",
        "            value = 0.0 if outcome[b] == DRAW else 2.0 * outcome[b] - 1.0",
        "evaluation/test_luck.py",
    ),
    Fault(
        "evaluation/matches/luck.py",
        "return np.where(following == mover, own, other) - values_over_skip(own, other, self.game.skip_chance)",
        "return np.where(following == mover, own, other) - values_over_skip(own, other, 0.0)",
        "evaluation/test_luck.py",
    ),
    Fault(
        "evaluation/matches/luck.py",
        "            self.luck[rows] += drawn - known.expected(before)",
        "            self.luck[rows] += known.expected(before) - drawn",
        "evaluation/test_luck.py",
    ),
    Fault(
        "evaluation/matches/match.py",
        "            luck = np.where(self.swapped, -tracker.luck, tracker.luck)  # a's",
        "            luck = tracker.luck",
        "evaluation/test_luck.py",
    ),
    Fault(
        "evaluation/matches/account.py",
        "expected = np.append(values_over_skip(own, other, skip), result)",
        "expected = np.append(values_over_skip(own, other, skip), [0.0] * ends)",
        "evaluation/test_luck.py",
    ),
    Fault(
        "evaluation/matches/corrected_pairs.py",
        "        squares = self.counts - 2 * self.sums + self.squares",
        "        squares = self.counts - self.sums + self.squares",
        "evaluation/test_luck.py",
    ),
    Fault(
        "evaluation/matches/stopping.py",
        "        step = self.step * self.looks / looks",
        "        step = self.step",
        "evaluation/test_luck.py",
    ),
    Fault(
        "evaluation/matches/stopping.py",
        "return Interval(find(0.5), find(1 - tail), find(tail))",
        "return Interval(find(0.5), find(1 - 2 * tail), find(2 * tail))",
        "evaluation/test_luck.py",
    ),
    Fault(
        "evaluation/exact/symmetry_classes.py",
        "by = symmetry if code < best else by",
        "by = symmetry if code > best else by",
        "evaluation/test_symmetry_classes.py",
    ),
    Fault(
        "baselines/expectiminimax/star1.py",
        "return (chance.alpha - rest * turn.high) / probability, (chance.beta - rest * turn.low) / probability",
        "return (chance.alpha - rest * turn.low) / probability, (chance.beta - rest * turn.low) / probability",
        "baselines/test_expectiminimax.py",
    ),
    Fault(
        "baselines/expectiminimax/search.py",
        "return value_over_skip(value_of_own, value_of_other, skip)",
        "return value_over_skip(value_of_other, value_of_own, skip)",
        "baselines/test_expectiminimax.py",
    ),
    Fault(
        "baselines/expectiminimax/star1.py",
        "low, high = -high, -low",
        "low, high = low, high",
        "baselines/test_expectiminimax.py",
    ),
    Fault(
        "baselines/mcts/expand.py",
        "                    num_legal = num_forced\n",
        "                    num_legal = size - stones\n",
        "baselines/test_mcts.py",
    ),
    Fault(
        "baselines/mcts/backup.py",
        "value = sign * nodes.solved_value[node]",
        "value = nodes.solved_value[node]",
        "baselines/test_mcts.py",
    ),
    Fault(
        "baselines/mcts/backup.py",
        "return other + skip * (own - other)",
        "return other",
        "baselines/test_mcts.py",
    ),
    Fault(
        "baselines/mcts/simulate.py",
        "return (1.0 - 2.0 * mover) * result_for_last_player",
        "return result_for_last_player",
        "baselines/test_mcts.py baselines/test_tablebase.py",
    ),
    Fault(
        "baselines/mcts/select.py",
        "return 1.0 if node % turns_per_move == 1 else -1.0",
        "return 1.0",
        "baselines/test_mcts.py baselines/test_gumbel.py",
    ),
    Fault(
        "baselines/mcts/select.py",
        "mixed_value = (mixed_value + total * mean / likely) / (1 + total)",
        "mixed_value = (mixed_value + total * mean) / (1 + total)",
        "baselines/test_gumbel.py",
    ),
    Fault(
        "baselines/mcts/gumbel.py",
        "left = max(2, left // 2)",
        "left = max(1, left // 2)",
        "baselines/test_gumbel.py",
    ),
    Fault(
        "baselines/mcts/select.py",
        "width = c * math.sqrt(1.0 + total)",
        "width = c * math.sqrt(total)",
        "baselines/test_gumbel.py baselines/test_mcts.py",
    ),
    Fault(
        "baselines/timed/time_management.py",
        "return planned, min(extra * planned, MAX_CLOCK_SHARE_EXTENDED * usable)",
        "return planned, extra * planned",
        "baselines/test_timed.py",
    ),
    Fault(
        "baselines/timed/time_management.py",
        "            if spent + search.next_s > limit:\n                return\n",
        "",
        "baselines/test_timed.py",
    ),
    Fault(
        "baselines/opening_book.py",
        "return np.asarray((results[:, 0] + results[:, 1] / 2)",
        "return np.asarray((results[:, 0] + results[:, 1])",
        "baselines/test_opening_book.py",
    ),
    Fault(
        "learners/q_learning.py",
        "target += discounts[b] * ahead",
        "target += abs(discounts[b]) * ahead",
        "learners/test_q_learning.py",
    ),
    Fault(
        "learners/q_learning.py",
        "if next_actions[b] >= 0:",
        "if next_actions[b] > 0:",
        "learners/test_q_learning.py",
    ),
    Fault(
        "learners/naive_mc.py",
        "if num_own < length:",
        "if num_own <= length:",
        "learners/test_naive_mc.py",
    ),
    Fault(
        "learners/base.py",
        "for player, signed in ((last, rewards), (1 - last, -rewards))",
        "for player, signed in ((last, rewards), (1 - last, rewards))",
        "learners/test_naive_mc.py learners/test_learner_conformance.py",
    ),
    Fault(
        "learners/one_ply.py",
        "values_over_skip(own, other, skip)",
        "values_over_skip(other, own, skip)",
        "learners/test_value_net.py",
    ),
    Fault(
        "learners/q_net.py",
        "total += self._block_values(seen[:, permutation])[:, back]",
        "total += self._block_values(seen[:, permutation])",
        "learners/test_q_net.py learners/test_learner_conformance.py",
    ),
    Fault(
        "learners/q_net.py",
        "[(self._added + np.arange(len(batch))) % len(self._transitions)]",
        "[np.arange(len(batch)) % len(self._transitions)]",
        "learners/test_q_net.py",
    ),
    Fault(
        "learners/q_net.py",
        "self.updates % self.config.target_update_interval == 0",
        "self.updates % self.config.target_update_interval == 1",
        "learners/test_q_net.py",
    ),
    Fault(
        "learners/value_net.py",
        "return np.clip(out, -self._bound, self._bound)",
        "return out",
        "learners/test_value_net.py",
    ),
    Fault(
        "learners/alpha_zero/optimizer.py",
        "tf.square(tf.tanh(out[:, -1]) - value)",
        "tf.square(out[:, -1] - value)",
        "learners/test_alpha_zero.py",
    ),
    Fault(
        "learners/alpha_zero/training.py",
        "np.take_along_axis(policy[rows], images, axis=2)",
        "policy[rows]",
        "learners/test_alpha_zero.py",
    ),
    Fault(
        "learners/checkpoint.py",
        "if stored_hash and stored_hash != _hash(arrays):",
        "if False:",
        "learners/test_checkpoint.py",
    ),
    Fault(
        "learners/checkpoint.py",
        "if stored > limit:",
        "if stored > 1e18:",
        "learners/test_checkpoint.py",
    ),
    Fault(
        "learners/checkpoint.py",
        '        if not np.isfinite(array).all():\n            raise ValueError(f"{path} is damaged',
        '        if False:\n            raise ValueError(f"{path} is damaged',
        "learners/test_checkpoint.py learners/test_value_net.py learners/test_alpha_zero.py",
    ),
    Fault(
        "ttt_envs/core/files.py",
        "            _replace(unfinished, path)\n        except BaseException:",
        "            path.write_bytes(unfinished.read_bytes())\n        except BaseException:",
        "ttt_envs/test_files.py",
    ),
    Fault(
        "ttt_envs/core/checks.py",
        "difflib.get_close_matches(_plain(name), plain, 1, similarity)",
        "sorted(plain)[:1]",
        "ttt_envs/test_specs.py",
    ),
    Fault(
        "ttt_apps/explorer/security.py",
        "if len(hosts) != 1 or not self._is_ours(hosts[0]):",
        "if not self._is_ours(hosts[0]):",
        "ttt_apps/test_explorer.py",
    ),
    Fault(
        "ttt_apps/explorer/security.py",
        "        if len(body) > MAX_BODY:\n            raise too_long\n",
        "",
        "ttt_apps/test_explorer.py",
    ),
    Fault(
        "ttt_apps/explorer/security.py",
        "if self.token is None or request.url.path",
        "if request.url.path",
        "ttt_apps/test_explorer.py",
    ),
    Fault(
        "ttt_apps/explorer/security.py",
        "if not self.access.is_authorized(request):",
        "if False:",
        "ttt_apps/test_explorer.py",
    ),
    Fault(
        "ttt_apps/explorer/game_lines.py",
        "np.asarray((3 - position.cells) % 3, np.int8), 1 - position.mover",
        "position.cells, 1 - position.mover",
        "ttt_apps/test_explorer.py",
    ),
    Fault(
        "ttt_apps/explorer/panels.py",
        'if game.variants and game.variants != {"gravity": True}:',
        "if False:",
        "ttt_apps/test_explorer.py",
    ),
    Fault(
        "evaluation/matches/account.py",
        "own = correction.values(Boards(going, turn)) if skip > 0 else other",
        "own = correction.values(Boards(going, turn))",
        "ttt_apps/test_explorer.py",
    ),
    Fault(
        "ttt_envs/text/answers.py",
        "if len(set(names)) > 1:",
        "if len(set(names)) > 2:",
        "ttt_envs/test_text.py",
    ),
    Fault(
        "ttt_envs/text/answers.py",
        "answer[-MAX_ANSWER_LENGTH:]",
        "answer[:MAX_ANSWER_LENGTH]",
        "ttt_envs/test_text.py",
    ),
    Fault(
        "ttt_envs/text/presentations.py",
        '(("Your", seat + 1), ("The other player\'s", 2 - seat))',
        '(("Your", 2 - seat), ("The other player\'s", seat + 1))',
        "ttt_envs/test_text.py",
    ),
    Fault(
        "ttt_envs/text/text_game.py",
        "left = self.max_asks + 1 - len(self._problems)",
        "left = self.max_asks - len(self._problems)",
        "ttt_envs/test_text.py",
    ),
    Fault(
        "ttt_envs/text/text_game.py",
        'self._remarks[1 - mover].append("Your turn was skipped.")',
        'self._remarks[mover].append("Your turn was skipped.")',
        "ttt_envs/test_text.py",
    ),
    Fault(
        "ttt_envs/text/text_env.py",
        "self._num_turns = len(self.text.turns)\n        return self.render(), reward",
        "self._num_turns += 1\n        return self.render(), reward",
        "ttt_envs/test_text_env.py",
    ),
    Fault(
        "evaluation/credit.py",
        "sign * (result - value)",
        "sign * result",
        "evaluation/test_credit.py",
    ),
    Fault(
        "evaluation/credit.py",
        "if turn.position.mover == seat:",
        "if turn.position.mover != seat:",
        "evaluation/test_credit.py",
    ),
    Fault(
        "evaluation/exact/best_response_values.py",
        "return np.where(boards.mover == self.seat, out, -out)",
        "return out",
        "evaluation/test_credit.py",
    ),
    Fault(
        "evaluation/exact/forward_backward.py",
        "made = made if every else begin",
        "made = begin",
        "evaluation/test_credit.py",
    ),
)
BY_FILE: dict[str, tuple[str, list[tuple[str, str]]]] = {
    "baselines/connect_four/search.py": (
        "baselines/test_connect_four.py",
        [
            ("return possible & ~(threats >> 1)", "return possible"),
            (
                "low, high = -((num_cells - 2 - stones) // 2), (num_cells - 1 - stones) // 2",
                "low, high = -((num_cells - 2 - stones) // 2), (num_cells - 3 - stones) // 2",
            ),
        ],
    ),
    "baselines/connect_four/solver.py": (
        "baselines/test_connect_four.py",
        [("(last - stones - (score > 0)) % 2", "0")],
    ),
    "baselines/connect_four/table.py": (
        "baselines/test_connect_four.py",
        [("key = mine + mask\n", "key = mine | mask\n")],
    ),
    "baselines/joint_view_graph.py": (
        "evaluation/test_phantom_exact.py",
        [
            ("                    mass *= 1.0 - skip\n", ""),
            ("mover[placed] = 1 - before[placed]", "mover[placed] = before[placed]"),
        ],
    ),
    "baselines/position_graph.py": (
        "learners/test_exact_pg.py learners/test_variant_learners.py",
        [
            ("first = (self.index.boards.mover == 0) != self.game.misere", "first = self.index.boards.mover == 0"),
            ("np.bincount(layer.same - first, skip * mass, size)", "np.bincount(layer.same - first, mass, size)"),
            (
                "values_over_skip(values[layer.same], -values[layer.other], skip)",
                "values_over_skip(values[layer.same], values[layer.other], skip)",
            ),
        ],
    ),
    "evaluation/audit/adapters.py": (
        "evaluation/test_audit.py",
        [("dones[:, 1:] = ended[:, :-1]", "dones[:] = ended")],
    ),
    "evaluation/audit/auditing.py": (
        "evaluation/test_audit.py",
        [
            (
                "np.put_along_axis(action_values, images[image], np",
                "np.put_along_axis(action_values, images[0 * image], np",
            ),
            (
                'error = estimates - (exact if chosen.estimates == "advantage" else reference.action_values[at])',
                "error = estimates - exact",
            ),
        ],
    ),
    "evaluation/audit/episodes.py": (
        "evaluation/test_audit.py",
        [
            ("weights=self.weights * (1 - skip_chance))", "weights=self.weights)"),
            ("self.truncated[cut, self.steps[cut] - 1] = True", "self.terminated[cut, self.steps[cut] - 1] = True"),
            ("np.repeat(weights / size, size)", "np.repeat(weights, size)"),
        ],
    ),
    "evaluation/audit/errors.py": (
        "evaluation/test_audit.py",
        [
            ("pseudo = num_blocks * whole - (num_blocks - 1) * parts", "pseudo = parts"),
            ("variance = group_size * (square - estimate)", "variance = square - estimate"),
            ("((first**2 - second) / (count - 1)).sum() / count.sum()", "(first**2 / count).sum() / count.sum()"),
        ],
    ),
    "evaluation/audit/estimators.py": (
        "evaluation/test_audit.py",
        [
            ("ends = terminated if bootstrap else terminated | truncated", "ends = terminated"),
            ("discount * np.minimum(ratios, max_c) * continues", "discount * ratios * continues"),
            ("return _spread(returns - others, mask)", "return _spread(returns, mask)"),
            ("tail = lam ** np.maximum(left, 1.0)", "tail = lam ** np.maximum(left - 1.0, 1.0)"),
        ],
    ),
    "evaluation/audit/registry.py": (
        "evaluation/test_audit.py",
        [("if not estimator.uses_groups and len(found) > 1:", "if False:")],
    ),
    "evaluation/benchmark/agents.py": (
        "evaluation/test_benchmark_runs.py",
        [('0 if over else 1 if info["mover"] == self._mover else -1', "0 if over else 1")],
    ),
    "evaluation/benchmark/aggregates.py": (
        "evaluation/test_benchmark_scores.py",
        [
            ("rng.integers(runs, size=(count, runs, tasks))", "rng.integers(runs, size=(count, runs, 1))"),
            ("cut = ordered.shape[-1] // 4", "cut = ordered.shape[-1] // 5"),
        ],
    ),
    "evaluation/benchmark/alpha_zero_agent.py": (
        "evaluation/test_benchmark_runs.py",
        [('result = float(reward) * (1 - 2 * info["seat"])', "result = float(reward)")],
    ),
    "evaluation/benchmark/comparison.py": (
        "evaluation/test_benchmark_scores.py",
        [
            ("(run.task, {})[run.seed] = run.score", "(run.task, {})[0] = run.score"),
            (
                "Interval(1 - found.mean, 1 - found.high, 1 - found.low)",
                "Interval(1 - found.mean, 1 - found.low, 1 - found.high)",
            ),
        ],
    ),
    "evaluation/benchmark/episodes.py": (
        "evaluation/test_benchmark_runs.py",
        [('mover = info["mover"] if task.opponent == SELF else info["seat"]', 'mover = info["seat"]')],
    ),
    "evaluation/benchmark/policy_table.py": (
        "evaluation/test_benchmark_runs.py",
        [("rounded = np.rint(p", "rounded = np.floor(p")],
    ),
    "evaluation/benchmark/runs.py": (
        "evaluation/test_benchmark_runs.py",
        [
            ("            same = False\n", "            same = True\n"),
            ("if self.steps >= self.budget:", "if self.steps > self.budget:"),
            ('if self._both and info["seat"] == 1 else', "if self._both else"),
        ],
    ),
    "evaluation/benchmark/scores.py": (
        "evaluation/test_benchmark_runs.py",
        [
            ("key = task.name, str(task.stage(steps)), *hashes", "key = task.name, *hashes"),
            ("result.win if seat == 0 else result.loss", "result.win"),
            ('if (row["task"], row["seed"]) not in has)', "if True)"),
        ],
    ),
    "evaluation/benchmark/scoring.py": (
        "evaluation/test_benchmark_tasks.py",
        [
            ("float(np.maximum(lost, 0.0) @ class_weights(game, boards))", "float(np.maximum(lost, 0.0).mean())"),
            ("float(np.mean(scores)) if task.num_stages > 1 else scores[-1]", "scores[-1]"),
        ],
    ),
    "evaluation/benchmark/shrinking.py": (
        "evaluation/test_benchmark_runs.py",
        [("sorted(run.tables, reverse=True)[::every]", "sorted(run.tables)[::every]")],
    ),
    "evaluation/benchmark/submission.py": (
        "evaluation/test_benchmark_runs.py",
        [
            ("entry.is_file(follow_symlinks=False)", "entry.is_file()"),
            ("limit = max_table_bytes(game)", "limit = 1 << 40"),
        ],
    ),
    "evaluation/benchmark/tasks.py": (
        "evaluation/test_benchmark_tasks.py",
        [("held_out = classes.ravel() % 2 == 1", "held_out = np.arange(len(classes)) % 2 == 1")],
    ),
    "evaluation/exact/critics.py": (
        "evaluation/test_critics.py",
        [("(self.errors - self.bias) ** 2 / variance", "self.errors**2 / variance")],
    ),
    "evaluation/exact/gradients.py": (
        "evaluation/test_gradients.py",
        [
            (
                "evaluation.discounted_occupancy[:, None] * evaluation.probabilities",
                "evaluation.occupancy[:, None] * evaluation.probabilities",
            )
        ],
    ),
    "evaluation/exact/perfect_recall.py": (
        "evaluation/test_perfect_recall.py",
        [
            (
                "opponent, own = trees[1 - responder], trees[responder]",
                "opponent, own = trees[responder], trees[responder]",
            ),
            ("sound = sound and (shares[tree.is_known(begin, end)] == 0).all()", "pass"),
            ("if pairs > limit:", "if pairs > 1000 * limit:"),
        ],
    ),
    "evaluation/exact/stone_histories.py": (
        "evaluation/test_perfect_recall.py",
        [
            ("if (abrupt and not tried) or", "if abrupt or"),
            ("chance = skip if option & 1 else 1.0 - skip", "chance = 1.0"),
            ("others = number[CHANCE] * number[1 - player]", "others = number[CHANCE]"),
            (
                "        if player != responder:\n                share *= probabilities[sequence]",
                "        if True:\n                share *= 1.0",
            ),
            ("for i in range(len(known) - 1, -1, -1):\n        best,", "for i in range(len(known)):\n        best,"),
            ("    if responder == 1:\n        value = -value\n", ""),
            ("level[lists + END] = level[lists + TOP] = end", "level[lists + END] = end"),
        ],
    ),
    "evaluation/exact/phantom_best_response.py": (
        "evaluation/test_phantom_exact.py",
        [
            (
                "if prune and number[VALUE] + possible <= enough:",
                "if prune and number[VALUE] + possible <= enough + 0.1:",
            ),
            ("value = 1.0 * result[s, cell] if own else -1.0 * result[s, cell]", "value = -1.0 * result[s, cell]"),
            ("wins += weight * (result[state, cell] < 0)", "wins += weight * (result[state, cell] > 0)"),
        ],
    ),
    "evaluation/exact/policy_evaluation.py": (
        "evaluation/test_policy_evaluation.py",
        [
            (
                "again = 1.0 if len(first_turn) == 0 or first_turn[b] else discount",
                "again = 1.0 if len(first_turn) == 0 else discount",
            ),
            ("new = mark[rows[b], mover] if share[k] > 0 else OFF_POLICY", "new = mark[rows[b], mover]"),
            ("(discount if player == mover else 1.0)", "(discount if player != mover else 1.0)"),
            ("values[query.rows, query.mover, query.mover] = given", "pass"),
        ],
    ),
    "evaluation/language_models/answer_cache.py": (
        "evaluation/test_language_models.py",
        [('if known == _hash({"question": key, **answer._asdict()}) else None', "")],
    ),
    "evaluation/language_models/asking.py": (
        "evaluation/test_language_models.py",
        [
            ("        if key in self._waiting:\n", "        if False:\n"),
            ("asker.allows(len(in_flight) + 1,", "asker.allows(len(in_flight),"),
        ],
    ),
    "evaluation/language_models/dataset.py": (
        "evaluation/test_language_models.py",
        [("canonical_keys(boards.own_first(), symmetries(game))", "canonical_keys(boards.cells, symmetries(game))")],
    ),
    "evaluation/language_models/endpoint.py": (
        "evaluation/test_language_models.py",
        [
            ("wait_s = max(wait_s, found.retry_after_s)", "pass"),
            ('self._redact(_message_text(message.get("content")))', '_message_text(message.get("content"))'),
        ],
    ),
    "evaluation/language_models/player.py": (
        "evaluation/test_language_models.py",
        [("seed=settings.seed + pair", "seed=settings.seed + number")],
    ),
    "evaluation/language_models/results.py": (
        "evaluation/test_language_models.py",
        [
            ("luck += after - float(known.expected(Boards.of([turn.position]))[0])", "luck += move.luck"),
            ("return luck * (1 - 2 * seat)", "return luck"),
        ],
    ),
    "learners/exact_pg.py": (
        "learners/test_exact_pg.py",
        [
            ("share = 1.0 / (self.done.games + 2.0)", "share = 1.0 / (self.done.games + 1.0)"),
            ("return rate * (2.0 * now - before)", "return rate * now"),
            ("/ (1.0 + rate * temperature)", "/ 1.0"),
            ("number % config.reference_interval == 0", "number == 0"),
        ],
    ),
    "ttt_envs/core/threads.py": (
        "ttt_envs/test_threads.py",
        [
            ("max(_Sharing.processes, cores if jobs == -1 else jobs)", "max(1, cores if jobs == -1 else jobs)"),
            ("raise self._failed[min(self._failed)]", "raise self._failed[max(self._failed)]"),
        ],
    ),
    "ttt_envs/envs/opponents.py": (
        "ttt_envs/test_contexts.py",
        [
            ('np.array(self.starts), counts, side="right")', 'np.array(self.starts), counts, side="left")'),
            ("if start <= starts[-1] if starts else start != 0:", "if start < starts[-1] if starts else start != 0:"),
        ],
    ),
    "ttt_envs/game/phantom.py": (
        "ttt_envs/test_phantom.py",
        [("return FOUND, 1 - mover if abrupt else mover", "return FOUND, mover")],
    ),
    "ttt_envs/sb3.py": (
        "ttt_envs/test_sb3_vec_env.py",
        [
            ("            self._lengths[rows] = 0\n", ""),
            (
                'its_info["terminal_observation"] = info["final_obs"][row]',
                'its_info["terminal_observation"] = observation[row]',
            ),
        ],
    ),
}
"""Maps a file to the tests that must notice its faults, and the replacements."""
FAULTS += tuple(
    Fault(file, right, wrong, tests) for file, (tests, changes) in BY_FILE.items() for right, wrong in changes
)


def copy_project(folder: Path) -> None:
    """Copy the files that git tracks, as they are now."""
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, names.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)


def is_caught(fault: Fault, folder: Path) -> tuple[bool, str]:
    """Return whether the tests of a fault fail with it, and the first one that does.

    Raises:
        ValueError: the text to replace is not in the file exactly once.
    """
    file = folder / fault.file
    text = file.read_text("utf-8")
    if text.count(fault.right) != 1:
        raise ValueError(f"{fault.file} has {text.count(fault.right)} times, not once: {fault.right}")
    tests = [f"tests/{name}" for name in fault.tests.split()]
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-m", "not slow", "--tb=no", *tests]
    file.write_text(text.replace(fault.right, fault.wrong), "utf-8")
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(folder)},
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return True, f"no end within {TIMEOUT_S} s"
    finally:
        file.write_text(text, "utf-8")
    if done.returncode not in (0, 1, 2):
        raise RuntimeError(done.stdout + done.stderr)
    lines = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return done.returncode != 0, lines[0] if lines else ""


def main() -> int:
    """Return the number of faults that no test caught."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", default="", metavar="TEXT", help="faults in files with this text in their names")
    parser.add_argument("--list", action="store_true", help="list the faults and run no test")
    options = parser.parse_args()
    faults = [fault for fault in FAULTS if options.only in fault.file]
    if options.list:
        for fault in faults:
            print(f"{fault.file}\n  - {fault.right.strip()}\n  + {fault.wrong.strip()}")
        return 0
    missed = 0
    with tempfile.TemporaryDirectory() as name:
        copy_project(Path(name))
        for number, fault in enumerate(faults, 1):
            caught, by = is_caught(fault, Path(name))
            missed += not caught
            print(f"{number}/{len(faults)} {'caught' if caught else 'MISSED'} {fault.file}: {by}", flush=True)
    print(f"{len(faults) - missed} of {len(faults)} faults caught")
    return missed


if __name__ == "__main__":
    sys.exit(main())
