"""verl's colocated asynchronous trainer for runs with a harness: trials go on while the policy is updated.

What verl 0.9.1 does (verl/trainer/ppo/v1/trainer_colocate_async.py): before the first step it hands out
``trainer.v1.colocate_async.num_warmup_batches`` batches of tasks beside the step's own, and each step hands out one
more. A step takes the oldest groups that are finished. Then what is being generated is aborted, rollout and trainer
share their device so nothing is generated while the policy is updated, and after the update it goes on under the new
weights. So a trial may hold tokens of several versions, and a step's tokens lag behind its weights by up to
``num_warmup_batches`` updates, or more where a trial takes longer than the steps do.
"""

from __future__ import annotations

import transfer_queue as tq
from verl.trainer.ppo.v1 import register_trainer
from verl.trainer.ppo.v1.trainer_colocate_async import PPOTrainerColocateAsync
from verl.workers.rollout.llm_server import LLMServerClient

from lego_verl.workers.trainer import HarnessSteps

ASYNC_TRAINER_MODE = "harness_colocate_async"
"""``trainer.v1.trainer_mode`` of runs with a harness in which steps overlap."""


@register_trainer(ASYNC_TRAINER_MODE)
class HarnessAsyncTrainer(HarnessSteps, PPOTrainerColocateAsync):
    verl_mode = "colocate_async"
    steps_overlap = True

    def get_llm_client(self) -> LLMServerClient:
        """verl's plain client: what a weight update aborts is taken up again by the proxy (``proxy/generation.py``).

        verl's resuming client says the first and the last version of a generation, and not which tokens are whose.
        """
        return self.llm_server_manager.get_client()

    def _reissue_inflight_prompts(self, partition_id: str = "train") -> int:
        """After a resume, run every task again that was handed out and not trained.

        verl keeps the trials of groups that were finished; but the ledger died with the run that began them, and what
        it does not know is not trained.
        """
        known = (tq.kv_list(partition_id) or {}).get(partition_id, {})
        groups = [key for key, tag in known.items() if tag.get("is_prompt", False)]
        if groups:
            tags = [{"is_prompt": True, "status": "pending", "global_steps": self.global_steps} for _ in groups]
            tq.kv_batch_put(keys=groups, partition_id=partition_id, tags=tags)
        return int(super()._reissue_inflight_prompts(partition_id))
