// Behaviour: what the agent does, by step; whether it really changes; where trials end.

import { barChart, lineChart } from "../core/chart.js";
import { OUTCOME_ORDER, palette } from "../core/colours.js";
import { empty, h, note, sectionOf, tag } from "../core/dom.js";
import { choice, filters, harnessChoice, splitChoice } from "../core/filters.js";
import { number, share, words } from "../core/format.js";
import { helpText } from "../core/help.js";
import { later } from "../core/later.js";
import { table } from "../core/table.js";
import { amount } from "./amount.js";

const GROUPS = {
  "How much it does": ["turns", "sampled_tokens", "calls_a_turn", "generation_seconds", "tool_seconds", "patch_lines", "files_edited"],
  "Whether it acts": ["silent_turns", "malformed_calls", "failed_acts", "repeated_commands", "looped", "thinking_share"],
  "How it works": ["read_before_edit", "checked_after_edit", "tested", "tests", "reads", "searches", "edits", "runs"],
};
const TONES = { rises: "warn", falls: "warn" };

export default {
  title: "Behaviour",
  defaults: { split: "train", harness: "", tasks: "all", last: "all" },
  async load({ params, api }) {
    const { split, harness, tasks } = params;
    const [told, endings] = await Promise.all([api.run("behaviour", { split, harness, tasks }), api.run("behaviour/endings", { split })]);
    return { ...told, endings: endings.rows };
  },
  render(data, ctx) {
    const { rows, measures } = data;
    const { split, harness } = ctx.params;
    const head = [h("h1", {}, "Behaviour"), filters(splitChoice(), harnessChoice(),
      choice({ param: "tasks", label: "Tasks", options: [["all", "all"], ["cohort", `the same ones (${data.cohort})`]] }))];
    if (!rows.length) return [...head, empty(ctx.params.tasks === "cohort" ? "No task came in both the first and the last third of the steps." : "No trial's calls have been counted yet.", "They are counted as each trial ends; of a policy that is known only by its text there are none.")];
    const known = new Map(measures.map((each) => [each.name, each]));
    return [
      ...head,
      ctx.params.tasks === "cohort" ? note("info", `Only the ${data.cohort} tasks that came both up to step ${data.thirds[0]} and from step ${data.thirds[1]} on: what changes here is not which tasks came when.`) : null,
      sectionOf({ title: "Does it change?", id: "trends" }, later(ctx, `trends ${split} ${harness}`, () => ctx.api.run("behaviour/trends", { split, harness }), ({ trends }) => trendTable(trends, known))),
      Object.entries(GROUPS).map(([title, names]) => sectionOf({ title, id: title }, h("div", { class: "grid" }, names.filter((name) => known.has(name)).map((name) => line(known.get(name), rows, ctx))))),
      sectionOf({ title: "Tool use by kind", id: "kinds" }, kinds(data, ctx)),
      sectionOf({ title: "Where trials end", id: "ends" }, ends(data.endings, ctx)),
    ];
  },
};

function line({ name, unit, says }, rows, ctx) {
  const scale = unit === "share" ? 100 : 1;
  return lineChart({
    id: name, title: words(name), unit: { share: "%", seconds: "s", tokens: "tokens" }[unit] ?? "", helpText: says, height: 170,
    series: [{ name: words(name), x: rows.map((row) => row.step), y: rows.map((row) => (row[name] === null ? null : scale * row[name])), gaps: true }],
    layout: { yaxis: { rangemode: "tozero" }, margin: { l: 40, r: 8, t: 4, b: 30 } },
    href: (step) => ctx.link("trials", { step, split: ctx.params.split, harness: ctx.params.harness }),
  });
}

function trendTable(trends, known) {
  const rows = Object.entries(trends).map(([name, each]) => ({ name, ...each, clear: TONES[each.steps.direction] || TONES[each.same_tasks.direction] ? 1 : 0 }));
  const clear = rows.filter((row) => row.clear);
  const few = rows.every((row) => row.steps.direction === "too little to tell" && row.same_tasks.direction === "too little to tell");
  // In full where there is something to say; the file has all of it.
  const said = ({ direction, says }) => h("span", {}, tag(direction, TONES[direction]), TONES[direction] ? h("span", { class: "says" }, says.slice(direction.length + 2)) : null);
  return [
    note(few ? "info" : clear.length ? "warn" : "good", few ? "Too few steps to tell a trend from chance." : clear.length ? `${clear.length} of ${rows.length} measures change more than chance explains: ${clear.map((row) => words(row.name)).join(", ")}.` : `None of ${rows.length} measures changes more than chance explains.`),
    table({
      id: "trends", caption: "What each measure does over the run", hideCaption: true, rows, key: (row) => row.name, save: "behaviour-trends", sort: "-clear",
      columns: [
        { title: "measure", value: (row) => words(row.name), head: true, cell: (row) => h("span", {}, words(row.name), helpText(row.what, words(row.name))) },
        { title: "first third", value: (row) => row.steps.first, cell: (row) => amount(row.steps.first, row.unit) },
        { title: "last third", value: (row) => row.steps.last, cell: (row) => amount(row.steps.last, row.unit) },
        { title: "over steps", value: (row) => row.steps.says, cell: (row) => said(row.steps), helpText: "Mann and Kendall's test on means of blocks of steps, with Theil and Sen's slope. “Rises” and “falls” only where chance makes as much in less than 1 of 100 runs, divided by the number of measures that are looked at." },
        { title: "on the same tasks", value: (row) => row.same_tasks.says, cell: (row) => said(row.same_tasks), helpText: "Of the tasks of both the first and the last third, how many rose and fell: the exact sign test. Which tasks came when cannot mislead it." },
        { title: "clear", align: "left", value: (row) => row.clear, cell: (row) => (row.clear ? "yes" : "no"), helpText: "Whether either of the two tests says that it changes." },
      ],
    }),
  ];
}

function kinds({ kinds: rows, kind_names: names }, ctx) {
  return barChart({
    id: "kinds", title: "Acts of a tool call, by kind", unit: "acts", height: 280, helpText: "What tool calls did, read from the tool's name and its arguments, shell lines by a small grammar; acts of a kind divided by the step's tool calls. One command line may do several things, so bars may sum to more than 1. “Others”: plans, thoughts, subagents, and what is not known.",
    series: names.map((name, i) => ({ name, x: rows.map((row) => row.step), y: rows.map((row) => row[name]), colour: () => palette(i) })),
    href: (step) => ctx.link("trials", { step, split: ctx.params.split, harness: ctx.params.harness }),
  });
}

// A step's trials by what their last turn did; and a table of what they did last by how they ended.
function ends(rows, ctx) {
  const acts = [...new Set(rows.map((row) => row.last_act))].sort();
  const steps = [...new Set(rows.map((row) => row.step))].sort((a, b) => a - b);
  const at = new Map(steps.map((step) => [step, 0]));
  for (const row of rows) at.set(row.step, at.get(row.step) + row.trials);
  const of = (act, step) => rows.filter((row) => row.last_act === act && row.step === step).reduce((sum, row) => sum + row.trials, 0);
  const outcomes = [...new Set(rows.map((row) => row.outcome))].sort((a, b) => OUTCOME_ORDER.indexOf(a) - OUTCOME_ORDER.indexOf(b));
  const sums = acts.map((act) => {
    const here = rows.filter((row) => row.last_act === act);
    return { act, trials: here.reduce((sum, row) => sum + row.trials, 0), ...Object.fromEntries(outcomes.map((outcome) => [outcome, here.filter((row) => row.outcome === outcome).reduce((sum, row) => sum + row.trials, 0)])) };
  });
  const all = sums.reduce((sum, row) => sum + row.trials, 0);
  return h("div", { class: "columns" },
    barChart({ id: "ends", title: "What their last turn did", unit: "%", height: 280, helpText: "Share of a step's trials by what their last turn did: text (no tool call), submit, test, edit, …", series: acts.map((act, i) => ({ name: act || "none", x: steps, y: steps.map((step) => (100 * of(act, step)) / at.get(step)), colour: () => palette(i) })), href: (step) => ctx.link("trials", { step, split: ctx.params.split }) }),
    table({
      id: "ends", caption: "Last act by outcome, all steps", rows: sums, key: (row) => row.act, sort: "-trials", save: "behaviour-ends",
      columns: [
        { title: "last act", value: (row) => row.act || "none", head: true },
        { title: "trials", value: (row) => row.trials, cell: (row) => number(row.trials) },
        { title: "share", value: (row) => row.trials / all, cell: (row) => share(row.trials / all) },
        ...outcomes.map((outcome) => ({ title: words(outcome), value: (row) => row[outcome], cell: (row) => number(row[outcome]) })),
      ],
    }));
}
