// Summary of a trial: where its time went, the split tree, its calls, what it was made with, its group.

import { palette } from "../core/colours.js";
import { h, section, sectionOf, tag } from "../core/dom.js";
import { number, seconds, share, tokens, words } from "../core/format.js";
import { helpText } from "../core/help.js";
import { table } from "../core/table.js";

const PHASES = {
  queued: "waiting for a slot", start: "sandbox, session and files", harness: "tools and the harness itself", generation: "the policy",
  patch: "taking the patch", grading: "hidden tests, in a fresh sandbox",
};
export const SPLITS = {
  first: "the trial's first call", compacted: "several turns were replaced by something shorter", edited_turn: "a message stands where it stood, and says something else",
  dropped_turn: "a turn that was sampled is gone from the history", tools_changed: "other tools were offered", system_changed: "the system prompt changed",
  reasoning_stripped: "reasoning was left out of an earlier turn, and the recipe says that this counts", subagent: "a conversation of a subagent's own",
  side_call: "something beside the task: a title, a summary", unknown: "the request extends nothing that is known",
};

export function summaryOf({ about }, ctx) {
  return [timeOf(about), splitTree(about, ctx), callsOf(about, ctx), attemptsOf(about), group(about, ctx), madeWith(about)];
}

function timeOf({ trial }) {
  const phases = Object.entries(PHASES).map(([name, says]) => ({ name, says, seconds: trial[`${name}_seconds`] })).filter((each) => each.seconds !== null);
  const whole = phases.reduce((sum, each) => sum + each.seconds, 0);
  if (!whole) return null;
  const line = phases.map((each) => `${words(each.name)} ${seconds(each.seconds)}`).join(", ");
  return sectionOf({ title: "Time", id: "time" },
    h("div", { class: "phases", role: "img", "aria-label": `Time by phase: ${line}` }, phases.filter((each) => each.seconds > 0).map((each) =>
      h("span", { key: each.name, style: { flexGrow: each.seconds, background: palette(phases.indexOf(each)) }, title: `${words(each.name)}: ${seconds(each.seconds)}` }))),
    table({
      id: "phases", caption: "Seconds by phase", hideCaption: true, rows: phases, save: "trial-phases", key: (row) => row.name,
      columns: [
        { title: "phase", value: (row) => words(row.name), head: true, cell: (row) => h("span", {}, h("span", { class: "swatch", "aria-hidden": "true", style: { background: palette(phases.indexOf(row)) } }), words(row.name)) },
        { title: "time", unit: "s", value: (row) => row.seconds, cell: (row) => seconds(row.seconds) },
        { title: "share", value: (row) => row.seconds / whole, cell: (row) => share(row.seconds / whole, 0) },
        { title: "what it is", value: (row) => row.says },
      ],
    }));
}

// Each segment with why it began, and its calls in order.
function splitTree({ segments, calls }, ctx) {
  if (!segments.length) return null;
  return sectionOf({ title: "Segments", id: "segments", aside: helpText("A segment is a linear token sequence: a prompt, then sampled and context tokens in turn. A call that extends a segment goes on with it; where none is extended a new one begins, all its prompt being context without loss. Splitting a trial changes neither its weight in the loss nor its group's statistics.", "Segments") },
    h("ol", { class: "tree", start: "0" }, segments.map((segment) => h("li", { key: segment.segment },
      h("div", { class: "branch" }, h("strong", {}, `Segment ${segment.segment}`), " ", tag(words(segment.reason), segment.segment > 0 && segment.reason !== "subagent" ? "warn" : undefined), " ",
        h("span", { class: "quiet" }, SPLITS[segment.reason] ?? ""), " ",
        segment.trained ? h("a", { href: ctx.link(["trial", ...ctx.path], { tab: "tokens", segment: segment.segment || "" }) }, `${tokens(segment.loss_tokens)} tokens with loss of ${tokens(segment.prompt_tokens + segment.response_tokens)}`) : h("span", {}, "not trained"),
        segment.version_first === null ? null : h("span", { class: "quiet" }, ` · ${segment.version_first === segment.version_last ? `version ${segment.version_first}` : `versions ${segment.version_first}–${segment.version_last}`}`)),
      h("ol", { class: "leaves" }, calls.filter((call) => call.segment === segment.segment).map((call) => h("li", { key: call.call },
        h("a", { href: turn(ctx, call.call) }, `call ${call.call}`), " ", call.acts ? tag(call.acts) : tag("no tool call", "warn"), " ", h("code", {}, call.brief || "–"))))))));
}

export function turn(ctx, call) {
  return ctx.link(["trial", ...ctx.path], { tab: "turns", from: Math.floor(call / 20) * 20 || "", _call: call });
}

function callsOf({ calls }, ctx) {
  if (!calls.length) return null;
  return section("Calls", table({
    id: "calls", caption: "Every generation of the trial", hideCaption: true, rows: calls, key: (row) => row.call, limit: 400, save: "trial-calls",
    columns: [
      { title: "call", value: (row) => row.call, cell: (row) => h("a", { href: turn(ctx, row.call) }, row.call), head: true },
      { title: "segment", value: (row) => row.segment },
      { title: "of", value: (row) => words(row.origin), helpText: "Who asked: the agent itself (main), a subagent, or the harness beside the task (side call)." },
      { title: "did", value: (row) => row.acts || "–", helpText: "What its tool calls did, by kind, in order." },
      { title: "first command or text", value: (row) => row.brief, cell: (row) => h("code", {}, row.brief || "–") },
      { title: "prompt", unit: "tokens", value: (row) => row.prompt_tokens, cell: (row) => tokens(row.prompt_tokens) },
      { title: "sampled", unit: "tokens", value: (row) => row.sampled_tokens, cell: (row) => tokens(row.sampled_tokens) },
      { title: "time", unit: "s", value: (row) => row.seconds, cell: (row) => seconds(row.seconds), helpText: "Of the generation." },
      { title: "log-probability", unit: "nats", value: (row) => row.mean_logprob, cell: (row) => number(row.mean_logprob), helpText: "Mean over its sampled tokens, as the rollout engine reported it. Near 0: it was sure." },
      { title: "version", value: (row) => row.version, helpText: "Weights that sampled its last token." },
      { title: "ended by", value: (row) => row.finish },
      { title: "malformed", value: (row) => row.malformed_calls, helpText: "Tool calls that could not be carried out." },
    ],
  }));
}

function attemptsOf({ attempts }) {
  if (attempts.length < 2 && !attempts.some((each) => each.error)) return null;
  return section("Attempts", table({
    id: "attempts", caption: "Attempts: again after a fault of infrastructure", hideCaption: true, rows: attempts, key: (row) => row.attempt, save: "trial-attempts",
    columns: [
      { title: "attempt", value: (row) => row.attempt, head: true },
      { title: "outcome", value: (row) => words(row.outcome) },
      { title: "what went wrong", value: (row) => row.error || "–" },
      { title: "another followed", value: (row) => (row.retried ? "yes" : "no") },
    ],
  }));
}

function group({ group: rows, trial }, ctx) {
  return section("Its group", h("p", { class: "quiet" }, "The trials of one task in one step; an advantage is how a trial's reward stands to theirs."), table({
    id: "group", caption: "Trials of the same task in the same step", hideCaption: true, rows, key: (row) => row.trial, save: "trial-group",
    tone: (row) => (row.trial === trial.trial ? "here" : undefined),
    columns: [
      { title: "trial", value: (row) => row.trial, head: true, cell: (row) => (row.trial === trial.trial ? h("strong", {}, row.trial, " (this one)") : h("a", { href: ctx.link(["trial", row.step, row.trial]) }, row.trial)) },
      { title: "outcome", value: (row) => words(row.outcome ?? row.state) },
      { title: "reward", value: (row) => row.reward, cell: (row) => number(row.reward) },
      { title: "trained", value: (row) => (row.trained === 1 ? "yes" : row.trained === 0 ? `no: ${words(row.why_not ?? "")}` : "not decided") },
      { title: "calls", value: (row) => row.calls },
      { title: "sampled", unit: "tokens", value: (row) => row.sampled_tokens, cell: (row) => tokens(row.sampled_tokens) },
      { title: "time", unit: "s", value: (row) => row.total_seconds, cell: (row) => seconds(row.total_seconds) },
    ],
  }));
}

function madeWith({ trial, behaviour }) {
  const rows = [...Object.entries(trial.versions), ...Object.entries(trial.untrained).map(([why, count]) => [`sampled tokens without loss: ${words(why)}`, count])]
    .map(([name, value]) => ({ name, value: typeof value === "object" ? JSON.stringify(value) : value }));
  const counts = Object.entries(behaviour ?? {}).filter(([name]) => name !== "trial_id").map(([name, value]) => ({ name, value }));
  const pair = (title) => [{ title, value: (row) => words(row.name), head: true }, { title: "value", value: (row) => row.value, cell: (row) => h("code", {}, row.value), align: "left" }];
  return [
    counts.length ? h("details", { key: "counts" }, h("summary", {}, "Counted behaviour of this trial"), table({ id: "counts", caption: "Counts of this trial", hideCaption: true, rows: counts, columns: pair("count"), key: (row) => row.name, save: "trial-behaviour" })) : null,
    rows.length ? h("details", { key: "made" }, h("summary", {}, "Versions and digests"), table({ id: "made", caption: "What it was made with", hideCaption: true, rows, columns: pair("what"), key: (row) => row.name, save: "trial-versions" })) : null,
  ];
}
