"""verl's trainers with a ledger and guards: a step that is not right is not trained.

verl's own steps are kept as they are (verl/trainer/ppo/v1/trainer_base.py); what is added stands in its hooks.
``HarnessTrainer`` is for runs in which every step samples what it trains; ``trainer_async.py`` holds the other.
"""

from __future__ import annotations

import time
from collections import defaultdict
from contextlib import suppress
from pathlib import Path
from typing import Any

import ray
import transfer_queue as tq
from omegaconf import DictConfig, open_dict
from transfer_queue import KVBatchMeta
from transformers import AutoConfig
from verl.trainer.ppo.v1 import register_trainer
from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync
from verl.utils.config import omega_conf_to_dataclass
from verl.utils.debug import marked_timer
from verl.workers.config import HFModelConfig

from lego_verl.algorithm_check import CRITIC
from lego_verl.config import typed
from lego_verl.model_check import check_model
from lego_verl.monitor.run_folder import RunFolder
from lego_verl.trial.from_recipe import tool_parser, trial_limits
from lego_verl.trial.ledger import LedgerError
from lego_verl.trial.retries import RetryPolicy
from lego_verl.workers.alignment_batch import rows_of, step_alignment, step_routes
from lego_verl.workers.alignment_routes import AGREEMENT, replays, route_shape
from lego_verl.workers.canary import WeightSyncError
from lego_verl.workers.checkpoints import CheckpointError, Checkpoints
from lego_verl.workers.fidelity import FidelityError, check_alignment, check_proof
from lego_verl.workers.renderer import check_template
from lego_verl.workers.reward_agreement import step_agreement
from lego_verl.workers.run_ledger import ACTOR_NAME, LEDGER_SECONDS
from lego_verl.workers.sampled_groups import SampledGroups
from lego_verl.workers.shuffled_rewards import shuffle_rewards
from lego_verl.workers.step_account import StepAccount
from lego_verl.workers.step_line import step_line
from lego_verl.workers.step_report import StepReport
from lego_verl.workers.sync_canary import SyncCanary
from lego_verl.workers.tracking import LoudTracking
from lego_verl.workers.trained_tokens import TrainedTokens
from lego_verl.workers.trial_trainer import TrialTrainer

TRAINER_MODE = "harness_sync"
"""``trainer.v1.trainer_mode`` of runs with a harness."""
_PAUSE_SECONDS = 300.0
"""What may lie between two attempts of a trial: its closing, and the longest pause."""
_STOPS = (LedgerError, FidelityError, WeightSyncError, CheckpointError)
"""What ends a run on purpose: it is told as an alert, too."""
_LOOK_SECONDS = 10.0
"""How often the ledger is asked whether anything still happens in a step that is waited for."""


class HarnessSteps(TrialTrainer):
    """The hooks that all runs with a harness share; to be mixed with one of verl's trainers."""

    verl_mode: str
    """What this trainer is to verl, which compares the name in many places."""
    steps_overlap = False
    """Whether a step waits for trials that began in an earlier one."""

    def __init__(self, config: DictConfig) -> None:
        with open_dict(config):
            config.trainer.v1.trainer_mode = self.verl_mode
        super().__init__(config)
        self._lego = typed(config)
        self._run = RunFolder(Path(config.lego.run.folder) / str(config.lego.run.name))
        self._ledger: Any = ray.get_actor(ACTOR_NAME)
        # verl looks every 2 s whether a step's trials are done: on small runs most of a step's time.
        self.replay_buffer.poll_interval = 0.2
        self._wait_with_deadline()
        self._groups = SampledGroups(self.replay_buffer)
        self._canary: SyncCanary | None = None
        self._step_started = time.monotonic()
        self._account: StepAccount | None = None
        self._alignment: dict[str, Any] | None = None
        self._trained_tokens = self._tokens_for_people()
        self._agreement: dict[str, float] = {}
        self._report = StepReport(self._run, self._ledger, self._lego.monitor)
        self._checkpoints = Checkpoints(
            self._run,
            int(config.trainer.save_freq),
            tell=lambda step, seen, first: self._ask_ledger(self._ledger.told.remote(step, "checkpoint", seen, first)),
            over=lambda step: self._ask_ledger(self._ledger.over.remote(step, "checkpoint")),
        )
        self._heldout: float | None = None

    def _init_tokenizer(self) -> None:
        super()._init_tokenizer()
        model: HFModelConfig = omega_conf_to_dataclass(self.config.actor_rollout_ref.model)
        check_template(
            self.tokenizer, tool_parser(self._lego.policy.tool_parser), model_type=model.hf_config.model_type
        )
        served = AutoConfig.from_pretrained(model.local_hf_config_path, trust_remote_code=model.trust_remote_code)
        trained = model.hf_config.to_dict()
        check_model(self.config, self._lego, trained, served=served.to_dict(), tokens=len(self.tokenizer))

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
                every = self.steps_overlap and split == "train"
                overdue = self._ask_ledger(self._ledger.overdue.remote(self.global_steps, split, seconds, every))
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

    def fit(self, *args: Any, **kwargs: Any) -> None:
        try:
            super().fit(*args, **kwargs)
        except _STOPS as error:
            name = "canary" if isinstance(error, WeightSyncError) else "stopped"
            with suppress(LedgerError, ray.exceptions.RayError):  # what stopped the run is to be heard, not this
                self._ask_ledger(self._ledger.stopped.remote(self.global_steps, name, str(error)))
            raise

    def on_train_begin(self) -> None:
        super().on_train_begin()
        self.logger: Any = LoudTracking(self.logger)

    def _save_checkpoint(self) -> None:
        self._checkpoints.save(self.global_steps, super()._save_checkpoint, last=self._is_last())

    def _is_last(self) -> bool:
        return bool(self.global_steps >= self.total_training_steps)

    def on_init_end(self) -> None:
        self._canary = SyncCanary.of(self)
        if self._canary is not None:
            self._canary.read_trainer()
        super().on_init_end()
        if self._canary is not None:
            self._canary.check(sent=self.global_steps, updated=False)

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
        if self._checkpoints.owed and self.global_steps % self.config.trainer.save_freq and not self._is_last():
            self._save_checkpoint()  # verl has no turn for it: what could not be saved is tried again every step
        # The trainer is read while the rollout sleeps, so that both need not hold their memory at once.
        if self._canary is not None:
            with marked_timer("canary", self.timing_raw):
                self._canary.read_trainer()
        super().on_step_end()
        if self._canary is not None:
            with marked_timer("canary", self.timing_raw):
                found = self._canary.check(sent=self.global_steps, updated=self._learnt_something())
            self._pending_sync_metrics = {**(getattr(self, "_pending_sync_metrics", None) or {}), **found}

    def _learnt_something(self) -> bool:
        if self.global_steps < self.config.trainer.critic_warmup:
            return False
        if self.config.algorithm.adv_estimator == CRITIC:
            return True
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
        self._alignment = None
        if self._compares():
            with marked_timer("alignment", self.timing_raw):
                self._alignment = self._align(batch)
            check_alignment(self._alignment, self._lego.guard, self.global_steps, ages=self.steps_overlap)
        return batch

    def _compares(self) -> bool:
        """In bypass mode verl takes the rollout's log-probabilities for the trainer's: there is nothing to compare."""
        correction = self.config.algorithm.get("rollout_correction") or {}
        return not bool(correction.get("bypass_mode", False))

    def _tokens_for_people(self) -> TrainedTokens | None:
        monitor = self._lego.monitor
        wanted = monitor.trained_tokens and monitor.keep_trials
        return TrainedTokens(self._run, compared=self._compares()) if wanted else None

    def _align(self, batch: KVBatchMeta) -> dict[str, Any]:
        fields = ["old_log_probs", "rollout_log_probs", "response_mask", "extra_fields"]
        replayed = replays(self.config)
        if replayed:
            fields.append(AGREEMENT)
        data = tq.kv_batch_get(keys=batch.keys, partition_id=batch.partition_id, select_fields=fields)
        rows = rows_of(data, batch.keys, batch.tags)
        try:
            # The weights of a step are those that the step before left.
            found = step_alignment(rows, version=self.global_steps - 1)
        except ValueError as error:
            raise FidelityError(f"step {self.global_steps}: {error}; the step is not trained") from error
        if replayed:
            found["routes"] = step_routes(rows, route_shape(self.config)[1])
        return found

    def _compute_advantage(self, batch: KVBatchMeta, metrics: dict) -> KVBatchMeta:
        if self._lego.guard.shuffle_rewards:
            shuffle_rewards(batch, self._lego.run.seed, self.global_steps)
        assert self._account is not None
        with marked_timer("reward_agreement", self.timing_raw):
            self._agreement = step_agreement(batch, self._account.rewards)
        kept = self._trained_tokens
        if kept is None:
            return super()._compute_advantage(batch, metrics)
        with marked_timer("trained_tokens", self.timing_raw):
            masks = kept.masks(batch)
        batch = super()._compute_advantage(batch, metrics)
        with marked_timer("trained_tokens", self.timing_raw):
            kept.write(batch, self.global_steps, masks)
        return batch

    def _validate(self) -> dict[str, float]:
        metrics = super()._validate()
        account = self._close_account("heldout")
        self._report.heldout(
            {
                "step": self.global_steps,
                "solve_rate": account.solve_rate,
                "outcomes": account.outcomes,
                "harnesses": account.harnesses,
            }
        )
        self._heldout = account.solve_rate
        return metrics

    def _compute_metrics(
        self, batch: KVBatchMeta, metrics: dict, timing_raw: dict, global_steps: int, epoch: int
    ) -> None:
        super()._compute_metrics(batch, metrics, timing_raw, global_steps=global_steps, epoch=epoch)
        assert self._account is not None
        heldout, self._heldout = self._heldout, None
        seconds = time.monotonic() - self._step_started
        line = step_line(
            self._account,
            metrics,
            alignment=self._alignment,
            agreement=self._agreement,
            heldout=heldout,
            seconds=seconds,
            timing=timing_raw,
            reporting=self._report.spent.take(),
        )
        self._report.step(global_steps, line, metrics, self.logger.logger)

    def _close_account(self, split: str) -> StepAccount:
        """Fetch the step's account and check it.

        Raises:
            LedgerError: when trials are unaccounted for or too few can be trained.
            FidelityError: when the proof of a trial is not whole.
        """
        guard, trained = self._lego.guard, split == "train"
        # Held-out tasks have no groups: there each trial counts by itself.
        min_group = self._lego.trial.min_group if trained else 1
        sampled, evicted = self._groups.take() if trained else ([], {})
        groups = sampled if trained and self.steps_overlap else None
        closed = self._ask_ledger(self._ledger.close.remote(self.global_steps, split, min_group, groups, evicted))
        account = StepAccount(**closed)
        account.check(guard.min_trained if trained else None)
        if guard.require_proof:
            check_proof(account)
        return account


@register_trainer(TRAINER_MODE)
class HarnessTrainer(HarnessSteps, PPOTrainerSync):
    """verl's synchronous trainer (verl/trainer/ppo/v1/trainer_sync.py) for runs with a harness."""

    verl_mode = "sync"
