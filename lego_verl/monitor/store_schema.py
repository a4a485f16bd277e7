"""The run store's tables: what each holds, in which unit. The file is ``store.sqlite`` in the run's folder.

Any tool that reads SQLite reads it. Times are seconds since 1970 (UTC), durations seconds, shares 0 to 1; NULL is "not
known" or "does not apply", never zero. Texts hold no character that a terminal obeys (see ``store_text``).

The truth of a trial is its row in ``trials`` and what hangs on it (``calls, segments, outcomes, behaviour``).
``group_sums``, ``step_sums`` and ``ending_sums`` are sums of those, made when a step closes, so that no view reads
100,000 trials. Who writes a trial removes its step's sums in the same transaction, and a view adds up steps without
sums by itself.
"""

from __future__ import annotations

FORMAT = 1
"""``PRAGMA user_version`` of the file."""

TABLES = """
CREATE TABLE IF NOT EXISTS meta (             -- what the file is: run, format, made_by, and places in indexed files
    key TEXT PRIMARY KEY,
    value TEXT NOT NULL
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS trials (           -- one attempt at a task, from its start; one row however often retried
    id INTEGER PRIMARY KEY,
    step INTEGER NOT NULL,                    -- of training; held-out trials carry the step they were run after
    split TEXT NOT NULL,                      -- train | heldout
    trial TEXT NOT NULL,                      -- the name of its folder: trials/<step, four digits>/<trial>/
    task TEXT NOT NULL,
    group_id TEXT NOT NULL DEFAULT '',        -- trials of one task in one step that share a baseline (GRPO)
    harness TEXT NOT NULL DEFAULT '',
    state TEXT NOT NULL,                      -- running | finished
    attempts INTEGER NOT NULL DEFAULT 1,      -- 2 and more: run again after a fault of infrastructure
    replaced TEXT,                            -- the dropped trial that this one was run instead of
    started REAL, ended REAL,                 -- of its last attempt
    outcome TEXT,                             -- docs/07: solved, unsolved, turn_limit, ...; NULL while it runs
    treatment TEXT,                           -- train | drop: what the outcome asks for
    trained INTEGER,                          -- 1, 0; NULL until the step closed; held-out trials stay NULL
    trained_step INTEGER,                     -- the step that closed it: later than step in an asynchronous run
    why_not TEXT,                             -- where trained = 0: the outcome, or small_group
    reward REAL,                              -- NULL for a trial that is dropped
    error TEXT NOT NULL DEFAULT '',           -- what went wrong, for a person
    signs TEXT NOT NULL DEFAULT '[]',         -- JSON list: what looked like an attack on the grader
    queued_seconds REAL, start_seconds REAL, harness_seconds REAL, generation_seconds REAL,
    patch_seconds REAL, grading_seconds REAL, -- disjoint; harness_seconds is tools and harness, without generation
    total_seconds REAL,
    calls INTEGER, segments INTEGER, sampled_tokens INTEGER, loss_tokens INTEGER,
    provenance REAL, context REAL,            -- the capture proof: shares of loss tokens; 1.0 or it is not trained
    untrained TEXT NOT NULL DEFAULT '{}',     -- JSON: sampled tokens without loss, by reason
    weights_first INTEGER, weights_last INTEGER, -- weight versions that sampled its first and last token
    versions TEXT NOT NULL DEFAULT '{}',      -- JSON: lego_verl, runtime, task (digests), sandbox
    UNIQUE (step, split, trial)
);
CREATE INDEX IF NOT EXISTS trials_by_name ON trials (trial);
CREATE INDEX IF NOT EXISTS trials_of_task ON trials (task, step);
CREATE INDEX IF NOT EXISTS trials_by_outcome ON trials (outcome, step);
CREATE INDEX IF NOT EXISTS trials_by_seconds ON trials (total_seconds);
CREATE INDEX IF NOT EXISTS trials_running ON trials (started) WHERE state = 'running';

CREATE TABLE IF NOT EXISTS outcomes (         -- how each attempt of a trial ended: the retried ones, too
    trial_id INTEGER NOT NULL REFERENCES trials (id) ON DELETE CASCADE,
    attempt INTEGER NOT NULL,                 -- from 1
    outcome TEXT NOT NULL,
    error TEXT NOT NULL DEFAULT '',
    ended REAL,
    retried INTEGER NOT NULL,                 -- 1: another attempt followed
    PRIMARY KEY (trial_id, attempt)
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS calls (            -- one generation; its text is in the trial's calls.jsonl
    trial_id INTEGER NOT NULL REFERENCES trials (id) ON DELETE CASCADE,
    call INTEGER NOT NULL,                    -- order in the trial, from 0
    segment INTEGER NOT NULL,
    origin TEXT NOT NULL,                     -- main | subagent | side_call
    prompt_tokens INTEGER NOT NULL,           -- sent to the engine
    sampled_tokens INTEGER NOT NULL,
    finish TEXT NOT NULL,                     -- stop | length | aborted
    seconds REAL NOT NULL,                    -- of generation
    version INTEGER,                          -- weights that sampled its last token
    mean_logprob REAL,                        -- of its sampled tokens, nats
    characters INTEGER NOT NULL,              -- of the whole reply, arguments of tool calls included
    thinking_characters INTEGER NOT NULL,
    tool_calls INTEGER NOT NULL,
    malformed_calls INTEGER NOT NULL,
    acts TEXT NOT NULL DEFAULT '',            -- what it did, by kind, in order: "read edit test"
    brief TEXT NOT NULL DEFAULT '',           -- the first command or text, one line, at most 120 characters
    PRIMARY KEY (trial_id, call)
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS segments (         -- a linear token sequence: one verl AgentLoopOutput where it is trained
    trial_id INTEGER NOT NULL REFERENCES trials (id) ON DELETE CASCADE,
    segment INTEGER NOT NULL,
    reason TEXT NOT NULL,                     -- why it began: first, compacted, edited_turn, ... (docs/04)
    calls INTEGER NOT NULL,
    prompt_tokens INTEGER,                    -- these five: NULL for a segment that is not trained
    response_tokens INTEGER,
    loss_tokens INTEGER,
    version_first INTEGER, version_last INTEGER,
    trained INTEGER NOT NULL,                 -- 1: it has loss, if its trial is trained
    PRIMARY KEY (trial_id, segment)
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS behaviour (        -- counts of one trial; shares are made from sums of them (measures.py)
    trial_id INTEGER PRIMARY KEY REFERENCES trials (id) ON DELETE CASCADE,
    turns INTEGER NOT NULL,                   -- calls of the agent and its subagents
    side_calls INTEGER NOT NULL,              -- titles, summaries: calls of the harness's own
    silent_turns INTEGER NOT NULL,            -- turns without any tool call
    characters INTEGER NOT NULL,              -- of all replies, arguments of tool calls included
    thinking_characters INTEGER NOT NULL,
    tool_calls INTEGER NOT NULL,
    malformed_calls INTEGER NOT NULL,         -- no JSON object, unknown tool, missing argument, or a call left in text
    reads INTEGER NOT NULL, searches INTEGER NOT NULL, edits INTEGER NOT NULL, tests INTEGER NOT NULL,
    runs INTEGER NOT NULL, submits INTEGER NOT NULL, others INTEGER NOT NULL, -- acts by kind
    failed_acts INTEGER NOT NULL,             -- acts whose tool said that it failed
    tested INTEGER NOT NULL,                  -- 1: ran tests at least once
    files_read INTEGER NOT NULL,
    files_edited INTEGER NOT NULL,
    edited_after_reading INTEGER NOT NULL,    -- of files_edited: read, or written by the agent itself, before
    edited_and_checked INTEGER NOT NULL,      -- of files_edited: read, run, compared or tested after the last edit
    repeated_commands INTEGER NOT NULL,       -- acts that an earlier one of the trial did, with no edit in between
    looping_turns INTEGER NOT NULL,           -- turns in a cycle of 1 to 4 turns that came three times or more
    looped INTEGER NOT NULL,                  -- 1: any
    patch_files INTEGER NOT NULL, patch_lines INTEGER NOT NULL, -- lines added and removed
    last_act TEXT NOT NULL                    -- what its last turn did: submit, text, test, edit, ..., none
);

CREATE TABLE IF NOT EXISTS metrics (          -- one number of a step: every key of metrics.jsonl, and verl's own
    name TEXT NOT NULL,                       -- nested keys joined with '/': outcomes/solved
    split TEXT NOT NULL,                      -- train | heldout
    step INTEGER NOT NULL,
    value REAL,
    PRIMARY KEY (name, split, step)
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS events (           -- what happened, in order
    id INTEGER PRIMARY KEY,
    t REAL NOT NULL,
    kind TEXT NOT NULL,                       -- started, retried, refilled, finished, broken, closed, store, alert
    step INTEGER, split TEXT, trial TEXT,
    data TEXT NOT NULL DEFAULT '{}'           -- JSON
);
CREATE INDEX IF NOT EXISTS events_by_kind ON events (kind, id);

CREATE TABLE IF NOT EXISTS group_sums (       -- sums: the trials of one task in one step, by group and harness
    step INTEGER NOT NULL, split TEXT NOT NULL, task TEXT NOT NULL, group_id TEXT NOT NULL, harness TEXT NOT NULL,
    trials INTEGER, trained INTEGER, dropped INTEGER, -- dropped: by their outcome, or with a small group
    graded INTEGER, solved INTEGER,           -- graded: with a reward. Solve rate = solved / graded
    rewards REAL, reward_min REAL, reward_max REAL,
    attempts INTEGER, calls INTEGER, segments INTEGER, sampled_tokens INTEGER, loss_tokens INTEGER,
    queued_seconds REAL, start_seconds REAL, harness_seconds REAL, generation_seconds REAL,
    patch_seconds REAL, grading_seconds REAL, total_seconds REAL, slowest_seconds REAL,
    versioned INTEGER,                        -- trials that a step closed: span and lag are over these
    span INTEGER, widest_span INTEGER,        -- versions between a trial's first token and its last: sum, longest
    lag INTEGER, longest_lag INTEGER,         -- versions between its last token and the step that trained it
    observed INTEGER,                         -- trials with a row in behaviour: the sums that follow are over these
    turns INTEGER, side_calls INTEGER, silent_turns INTEGER, characters INTEGER, thinking_characters INTEGER,
    tool_calls INTEGER, malformed_calls INTEGER, reads INTEGER, searches INTEGER, edits INTEGER, tests INTEGER,
    runs INTEGER, submits INTEGER, others INTEGER, failed_acts INTEGER, tested INTEGER, files_read INTEGER,
    files_edited INTEGER, edited_after_reading INTEGER, edited_and_checked INTEGER, repeated_commands INTEGER,
    looping_turns INTEGER, looped INTEGER, patch_files INTEGER, patch_lines INTEGER,
    PRIMARY KEY (step, split, task, group_id, harness)
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS step_sums (        -- sums of group_sums: a step, by harness
    step INTEGER NOT NULL, split TEXT NOT NULL, harness TEXT NOT NULL,
    groups INTEGER, zero_variance INTEGER,    -- zero_variance: groups whose trials all got one reward: no signal
    trials INTEGER, trained INTEGER, dropped INTEGER,
    graded INTEGER, solved INTEGER,
    rewards REAL, reward_min REAL, reward_max REAL,
    attempts INTEGER, calls INTEGER, segments INTEGER, sampled_tokens INTEGER, loss_tokens INTEGER,
    queued_seconds REAL, start_seconds REAL, harness_seconds REAL, generation_seconds REAL,
    patch_seconds REAL, grading_seconds REAL, total_seconds REAL, slowest_seconds REAL,
    versioned INTEGER,
    span INTEGER, widest_span INTEGER,
    lag INTEGER, longest_lag INTEGER,
    observed INTEGER,
    turns INTEGER, side_calls INTEGER, silent_turns INTEGER, characters INTEGER, thinking_characters INTEGER,
    tool_calls INTEGER, malformed_calls INTEGER, reads INTEGER, searches INTEGER, edits INTEGER, tests INTEGER,
    runs INTEGER, submits INTEGER, others INTEGER, failed_acts INTEGER, tested INTEGER, files_read INTEGER,
    files_edited INTEGER, edited_after_reading INTEGER, edited_and_checked INTEGER, repeated_commands INTEGER,
    looping_turns INTEGER, looped INTEGER, patch_files INTEGER, patch_lines INTEGER,
    PRIMARY KEY (step, split, harness)
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS ending_sums (      -- sums: how the trials of a step ended
    step INTEGER NOT NULL, split TEXT NOT NULL, harness TEXT NOT NULL,
    outcome TEXT NOT NULL,                    -- "running" for those without one
    trained INTEGER NOT NULL,                 -- 1 | 0 | -1: not decided
    why_not TEXT NOT NULL,
    last_act TEXT NOT NULL,
    trials INTEGER NOT NULL,
    PRIMARY KEY (step, split, harness, outcome, trained, why_not, last_act)
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS open_steps (       -- steps whose three kinds of sums are not made, or not any more
    step INTEGER NOT NULL, split TEXT NOT NULL,
    PRIMARY KEY (step, split)
) WITHOUT ROWID;
"""
