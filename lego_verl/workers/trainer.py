"""verl's synchronous trainer with a ledger and guards: a step that is not right is not trained.

verl's own steps are kept as they are (verl/trainer/ppo/v1/trainer_sync.py); what is added stands in its hooks.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import ray
import transfer_queue as tq
from omegaconf import DictConfig, open_dict
from tensordict import TensorDict
from transfer_queue import KVBatchMeta
from verl.trainer.ppo.v1 import register_trainer
from verl.utils.config import omega_conf_to_dataclass
from verl.workers.config import HFModelConfig
from verl.workers.utils.padding import response_to_nested

from lego_verl.config import typed
from lego_verl.monitor.run_folder import RunFolder, append_line
from lego_verl.trial.from_recipe import tool_parser, trial_limits
from lego_verl.trial.ledger import LedgerError
from lego_verl.trial.retries import RetryPolicy
from lego_verl.workers.probe import WeightProbe
from lego_verl.workers.renderer import check_template
from lego_verl.workers.run_ledger import ACTOR_NAME, LEDGER_SECONDS
from lego_verl.workers.step_account import StepAccount
from lego_verl.workers.trial_trainer import TrialTrainer, trial_of

TRAINER_MODE = "harness_sync"
"""``trainer.v1.trainer_mode`` of runs with a harness."""
_PAUSE_SECONDS = 300.0
"""What may lie between two attempts of a trial: its closing, and the longest pause."""
_LOOK_SECONDS = 10.0
"""How often the ledger is asked whether anything still happens in a step that is waited for."""
_LOGGED = (
    *("solve_rate", "reward", "proof_provenance", "proof_context", "trained", "dropped", "retried", "refilled"),
    *("small_groups", "zero_variance_groups"),
)


class FidelityError(RuntimeError):
    """What would be trained is not what was sampled."""


@register_trainer(TRAINER_MODE)
class HarnessTrainer(TrialTrainer):
    def __init__(self, config: DictConfig) -> None:
        # verl compares this name in many places; to it, this is the synchronous trainer.
        with open_dict(config):
            config.trainer.v1.trainer_mode = "sync"
        super().__init__(config)
        self._lego = typed(config)
        self._run = RunFolder(Path(config.lego.run.folder) / str(config.lego.run.name))
        self._ledger: Any = ray.get_actor(ACTOR_NAME)
        # verl looks every 2 s whether a step's trials are done: on small runs most of a step's time.
        self.replay_buffer.poll_interval = 0.2
        self._wait_with_deadline()
        self._probe: WeightProbe | None = None
        self._step_started = time.monotonic()
        self._account: StepAccount | None = None
        self._heldout: float | None = None

    def _init_tokenizer(self) -> None:
        super()._init_tokenizer()
        model: HFModelConfig = omega_conf_to_dataclass(self.config.actor_rollout_ref.model)
        check_template(
            self.tokenizer, tool_parser(self._lego.policy.tool_parser), model_type=model.hf_config.model_type
        )

    def _wait_with_deadline(self) -> None:
        """verl waits for a step's trials for as long as it takes, also for those of a worker that is gone."""
        wait, looked = self.replay_buffer._wait_for_next_poll, time.monotonic()
        limits = trial_limits(self._lego, context=0)
        seconds = limits.attempt_seconds(self._lego.trial.start_seconds, 1 + RetryPolicy().retries) + _PAUSE_SECONDS

        def wait_or_raise(partition_id: str, last: float) -> float:
            nonlocal looked
            if time.monotonic() - looked > _LOOK_SECONDS:
                looked = time.monotonic()
                split = "train" if partition_id == "train" else "heldout"
                overdue = self._ask_ledger(self._ledger.overdue.remote(self.global_steps, split, seconds))
                if overdue:
                    raise LedgerError(overdue)
            return float(wait(partition_id, last))

        self.replay_buffer._wait_for_next_poll = wait_or_raise

    def _ask_ledger(self, question: Any) -> Any:
        try:
            return ray.get(question, timeout=LEDGER_SECONDS)
        except ray.exceptions.GetTimeoutError as error:
            raise LedgerError(
                f"step {self.global_steps}: waited {LEDGER_SECONDS:g} s for the run's ledger to answer"
            ) from error

    def on_init_end(self) -> None:
        super().on_init_end()
        if self._lego.guard.probe and self.config.actor_rollout_ref.rollout.name == "transformers":
            servers = [server for replica in self.llm_server_manager.get_replicas() for server in replica.servers]
            self._probe = WeightProbe(
                self.actor_rollout_wg, servers, self.tokenizer, tolerance=self._lego.guard.probe_tolerance
            )
            self._probe.check(updated=False)

    def on_step_begin(self) -> None:
        super().on_step_begin()
        self._step_started = time.monotonic()

    def _step_once(self, metrics: dict, timing_raw: dict, sample_batch_size: int) -> KVBatchMeta:
        try:
            return super()._step_once(metrics, timing_raw, sample_batch_size)
        except RuntimeError as error:
            if "no materializable trajectories" in str(error):
                self._close_account("train")  # says which outcomes, and why
            raise

    def on_sample_end(self) -> None:
        super().on_sample_end()
        self._account = self._close_account("train")

    def on_step_end(self) -> None:
        super().on_step_end()
        if self._probe is not None:
            self._pending_sync_metrics = self._probe.check(updated=self._learnt_something())

    def _learnt_something(self) -> bool:
        # Groups without variance have no advantage: such a step leaves the weights as they were.
        account = self._account
        return account is not None and account.zero_variance_groups < account.groups - account.small_groups

    def _balance_batch(self, batch: KVBatchMeta, metrics: dict, *args: Any, **kwargs: Any) -> KVBatchMeta:
        # Before verl pads the batch: what is in it now is what will be trained.
        return super()._balance_batch(self._without_small_groups(batch), metrics, *args, **kwargs)

    def _without_small_groups(self, batch: KVBatchMeta) -> KVBatchMeta:
        """Take out the trials of groups that lost too many: a group of one has no baseline.

        Raises:
            LedgerError: when what is left is not what the ledger says is trained.
        """
        trials: dict[str, set[str]] = defaultdict(set)
        for key in batch.keys:
            group, trial, _ = key.rsplit("_", 2)
            trials[group].add(trial)
        small = {group for group, members in trials.items() if len(members) < self._lego.trial.min_group}
        if small:
            gone = [key for key in batch.keys if key.rsplit("_", 2)[0] in small]
            tq.kv_clear(keys=gone, partition_id=batch.partition_id)
            batch = batch.select_keys([key for key in batch.keys if key not in set(gone)])
        left = sum(len(members) for group, members in trials.items() if group not in small)
        if self._account is None or left != self._account.trained:
            raise LedgerError(
                f"step {self.global_steps}: the batch holds {left} trials and the ledger says "
                f"{None if self._account is None else self._account.trained} are to be trained"
            )
        return batch

    def _compute_old_log_prob(self, batch: KVBatchMeta, metrics: dict) -> KVBatchMeta:
        batch = super()._compute_old_log_prob(batch, metrics)
        pearson = float(metrics.get("training/rollout_actor_probs_pearson_corr", math.nan))
        least = self._lego.guard.min_pearson
        if least > 0 and not pearson >= least:
            raise FidelityError(
                f"step {self.global_steps}: token probabilities of rollout and trainer correlate at {pearson:.5f}, "
                f"under lego.guard.min_pearson={least}; the step is not trained. See docs/02-how-it-works.md#guards"
            )
        return batch

    def _compute_advantage(self, batch: KVBatchMeta, metrics: dict) -> KVBatchMeta:
        if self._lego.guard.shuffle_rewards:
            self._shuffle_rewards(batch)
        return super()._compute_advantage(batch, metrics)

    def _validate(self) -> dict[str, float]:
        metrics = super()._validate()
        account = self._close_account("heldout")
        append_line(
            self._run.heldout,
            {
                "step": self.global_steps,
                "solve_rate": account.solve_rate,
                "outcomes": account.outcomes,
                "harnesses": account.harnesses,
            },
        )
        self._heldout = account.solve_rate
        return metrics

    def _compute_metrics(
        self, batch: KVBatchMeta, metrics: dict, timing_raw: dict, global_steps: int, epoch: int
    ) -> None:
        super()._compute_metrics(batch, metrics, timing_raw, global_steps=global_steps, epoch=epoch)
        account = self._account
        assert account is not None
        heldout, self._heldout = self._heldout, None
        line = {
            "step": global_steps,
            "solve_rate": account.solve_rate,
            "heldout_solve_rate": heldout,
            "reward": account.reward,
            "outcomes": account.outcomes,
            "pearson": metrics.get("training/rollout_actor_probs_pearson_corr"),
            "proof_provenance": account.proof_provenance,
            "proof_context": account.proof_context,
            "loss_tokens": account.loss_tokens,
            "sampled_tokens": account.sampled_tokens,
            "submitted": account.submitted,
            "trained": account.trained,
            "dropped": account.dropped,
            "retried": account.retried,
            "refilled": account.refilled,
            "dropped_why": account.dropped_why,
            "groups": account.groups,
            "small_groups": account.small_groups,
            "zero_variance_groups": account.zero_variance_groups,
            "harnesses": account.harnesses,
            "calls": account.calls,
            "segments": account.segments,
            "splits": account.splits,
            "entropy": metrics.get("actor/entropy"),
            "learning_rate": metrics.get("actor/lr"),
            "gradient_norm": metrics.get("actor/grad_norm"),
            "probe_difference": metrics.get("probe/difference"),
            "probe_change": metrics.get("probe/change"),
            "seconds": time.monotonic() - self._step_started,
            "seconds_by_phase": {**account.seconds, **{f"step/{k}": v for k, v in timing_raw.items()}},
        }
        append_line(self._run.metrics, line)
        for name in _LOGGED:
            if line[name] is not None:
                metrics[f"lego/{name}"] = line[name]
        for outcome, count in account.outcomes.items():
            metrics[f"lego/outcome/{outcome}"] = count
        for harness, counts in account.harnesses.items():
            metrics |= {f"lego/harness/{harness}/{name}": value for name, value in counts.items()}

    def _close_account(self, split: str) -> StepAccount:
        """Fetch the step's account and check it.

        Raises:
            LedgerError: when trials are unaccounted for or too few can be trained.
            FidelityError: when the proof of a trial is not whole.
        """
        guard, trained = self._lego.guard, split == "train"
        # Held-out tasks have no groups: there each trial counts by itself.
        min_group = self._lego.trial.min_group if trained else 1
        closed = self._ask_ledger(self._ledger.close.remote(self.global_steps, split, min_group))
        account = StepAccount(**closed)
        account.check(guard.min_trained if trained else None)
        if guard.require_proof and account.loss_tokens and (account.proof_provenance, account.proof_context) != (1, 1):
            raise FidelityError(
                f"step {account.step} ({split}): the capture proof is not whole (provenance "
                f"{account.proof_provenance:.4%}, context {account.proof_context:.4%}); the step is not trained"
            )
        return account

    def _shuffle_rewards(self, batch: KVBatchMeta) -> None:
        """The control: every trial gets the reward of another trial of the step, drawn at random."""
        # verl's padding rows are nobody's trials.
        keys = [key for key, tag in zip(batch.keys, batch.tags, strict=True) if not tag.get("is_padding", False)]
        data = tq.kv_batch_get(keys=keys, partition_id=batch.partition_id, select_fields=["rm_scores", "response_mask"])
        mask, scores = data["response_mask"], data["rm_scores"]
        rewards = np.array([float(row.sum()) for row in scores.unbind()])
        trials = [trial_of(key) for key in keys]
        unique = sorted(set(trials))
        generator = np.random.default_rng([self._lego.run.seed, self.global_steps])
        source = dict(zip(unique, generator.permutation(unique), strict=True))
        of_trial = dict(zip(trials, rewards, strict=True))
        shuffled = scores.to_padded_tensor(0.0).clone()
        for row, (trial, line) in enumerate(zip(trials, scores.unbind(), strict=True)):
            shuffled[row] = 0.0
            shuffled[row, len(line) - 1] = of_trial[str(source[trial])]
        fields = TensorDict({"rm_scores": response_to_nested(shuffled, mask)}, batch_size=len(keys))
        tq.kv_batch_put(keys=keys, partition_id=batch.partition_id, fields=fields)
