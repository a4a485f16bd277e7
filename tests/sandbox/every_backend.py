"""Which tests of sandboxes run on which backend: those of the protocol on every one."""

from __future__ import annotations

_OF_THE_PROTOCOL = (
    "test_sandbox_local",
    "test_sandbox_limits",
    "test_sandbox_link",
    "test_sandbox_isolation",
    "test_sandbox_images",
    "test_sandbox_grader",
    "test_sandbox_patch",
    "test_sandbox_leaves_nothing",
    "test_fetch",
)
_LOCAL_ONLY = {
    # They look at the process that a local sandbox is; test_docker_faults has the same for containers.
    "test_a_sandbox_killed_from_outside_is_lost",
    "test_a_keeper_that_does_not_answer_is_given_up",
    "test_the_user_outside_is_not_root",
    "test_a_fork_bomb_is_bounded_and_ends",
    "test_waiting_for_a_turn_is_not_held_against_a_command",
    "test_a_trainer_that_stood_still_does_not_take_the_keeper_for_dead",
    "test_a_start_is_cheap",
    "test_an_image_is_made_once_and_again_when_it_changes",
    # Its tree is made of one file system that is the agent's, with the host's /usr in it; a container is an image,
    # read-only but for the places in test_docker_sandbox.
    "test_no_privilege",
    "test_the_tools_are_there_and_signals_are_as_usual",
    "test_files_in_and_out",
    "test_specs_that_cannot_be",
    "test_the_hosts_files_are_not_there",
    "test_all_of_the_hosts_home_and_tmp_are_hidden",
    "test_the_link_of_another_trial_is_not_there",
    "test_the_trainers_file_mask_does_not_matter",
    "test_without_a_link_there_is_no_address",
    "test_everything_writable_counts_towards_the_disk",
    # What is made of a reward does not depend on where it was written; that it comes here, the other tests show.
    "test_the_forms_of_a_reward",
    "test_no_reward_is_no_verdict",
    # Docker itself builds what the local sandbox can only read.
    "test_what_a_dockerfile_may_say",
    "test_what_it_may_not",
}


def backends_of(module: str, test: str) -> tuple[str, ...]:
    """The backends that a test runs on."""
    if module.startswith("test_docker_"):
        return ("docker",)
    if module.rpartition(".")[2] in _OF_THE_PROTOCOL and test not in _LOCAL_ONLY:
        return ("local", "docker")
    return ("local",)
