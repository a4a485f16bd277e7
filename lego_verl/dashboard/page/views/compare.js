// Compare: two runs, two spans of steps, or two harnesses; one task's trials side by side; two recipes.

import { empty, h, note, section, sectionOf, stat, stats, tag } from "../core/dom.js";
import { choice, filters, search } from "../core/filters.js";
import { fixed, interval, number, seconds, share, tokens, whole, words } from "../core/format.js";
import { state } from "../core/state.js";
import { table } from "../core/table.js";
import { outcomeTag, trialLink } from "../core/trials.js";
import { amount, change } from "./amount.js";
import { differences } from "./recipe.js";

export default {
  title: "Compare",
  defaults: { what: "steps", other: "", a: "", b: "", ha: "", hb: "", split: "train", task: "", own: "" },
  async load({ params, api, run, info }) {
    const [about, { tasks }] = await Promise.all([info?.name === run ? info : api.run(""), api.run("compare/tasks")]);
    const what = params.what;
    const chosen = { ...params, ...fill(params, about) };
    if (what === "task") return { what, tasks, chosen, found: chosen.task ? await api.run("compare/task", { task: chosen.task, other: params.other }) : null };
    const [first, second] = [span(chosen.a), span(chosen.b)];
    const query = {
      other: params.other, split: params.split, other_split: params.split, harness: chosen.ha, other_harness: chosen.hb,
      first_step: first[0], last_step: first[1], other_first_step: second[0], other_last_step: second[1],
    };
    if (what === "runs" && !params.other) return { what, tasks, chosen, found: null };
    return { what, tasks, chosen, found: await api.run("compare", query) };
  },
  render({ what, tasks, chosen, found }, ctx) {
    const head = [h("h1", {}, "Compare"), controls(what, tasks, chosen, ctx)];
    if (what === "task") return [...head, found ? sideBySide(found, ctx) : empty("Choose a task.", `There are ${whole(tasks.length)}.`)];
    if (!found) return [...head, empty("Choose the other run.", state.runs.length > 1 ? "Both runs' steps can be narrowed down." : "There is no other run: give its folder to the dashboard, too.")];
    const names = labels(what, chosen, ctx);
    return [
      ...head, verdict(found, names), sides(found, names, ctx),
      sectionOf({ title: "Every measure", id: "measures" }, measures(found.measures, names)),
      sectionOf({ title: "The same tasks", id: "tasks" }, sameTasks(found.same_tasks, names, ctx)),
      found.recipe ? sectionOf({ title: "Recipe differences", id: "recipe" }, differences({ differences: found.recipe, to: chosen.other }, ctx)) : null,
    ];
  },
};

// What is compared where nobody has chosen: the first and the last third of the steps, two harnesses, all of both runs.
function fill(params, about) {
  const first = about.first_step ?? 0;
  const last = about.last_step ?? 0;
  const third = Math.max(1, Math.floor((last - Math.max(first, 1) + 1) / 3));
  if (params.what === "steps") return { a: params.a || `${Math.max(first, 1)}-${Math.max(first, 1) + third - 1}`, b: params.b || `${last - third + 1}-${last}`, ha: params.ha, hb: params.ha, other: "" };
  if (params.what === "harnesses") return { ha: params.ha || about.harnesses[0] || "", hb: params.hb || about.harnesses[1] || about.harnesses[0] || "", b: params.a, other: "" };
  return {};
}

// "3-9" -> [3, 9]; "3" -> [3, 3]; "3-" -> [3, none].
function span(text) {
  const found = text.trim().match(/^(\d+)?\s*(-|–|\.\.)?\s*(\d+)?$/);
  if (!found || !text.trim()) return ["", ""];
  const [, low, dash, high] = found;
  return [low ?? "", dash ? high ?? "" : low ?? ""];
}

function controls(what, tasks, chosen, ctx) {
  const others = state.runs.map((run) => run.name).filter((name) => name !== ctx.run);
  const harnesses = (ctx.info?.harnesses ?? []).map((each) => [each, each]);
  const steps = (param, label) => search({ param, label, placeholder: chosen[param] || "all" });
  const split = choice({ param: "split", label: "Split", options: [["train", "training"], ["heldout", "held-out"]] });
  const other = choice({ param: "other", label: "Other run", options: [["", what === "task" ? "none" : "choose…"], ...others.map((name) => [name, name])] });
  return filters(
    choice({ param: "what", label: "Compare", options: [["steps", "two spans of steps"], ["runs", "two runs"], ["harnesses", "two harnesses"], ["task", "one task's trials"]], also: { a: "", b: "", ha: "", hb: "" } }),
    what === "task" ? [search({ param: "task", label: "Task", placeholder: "name", list: tasks }), other]
      : what === "runs" ? [other, steps("a", `Steps of ${ctx.run}`), steps("b", "Steps of the other"), split]
        : what === "harnesses" ? [choice({ param: "ha", label: "First harness", options: [["", chosen.ha], ...harnesses] }), choice({ param: "hb", label: "Second harness", options: [["", chosen.hb], ...harnesses] }), steps("a", "Steps"), split]
          : [steps("a", "First steps"), steps("b", "Second steps"), harnesses.length > 1 ? choice({ param: "ha", label: "Harness", options: [["", "all"], ...harnesses] }) : null, split]);
}

function labels(what, chosen, ctx) {
  if (what === "runs") return [chosen.a ? `${ctx.run}, steps ${chosen.a}` : ctx.run, chosen.b ? `${chosen.other}, steps ${chosen.b}` : chosen.other];
  if (what === "harnesses") return [chosen.ha, chosen.hb];
  return [`steps ${chosen.a}`, `steps ${chosen.b}`];
}

function verdict({ measures: rows, sides: [first, second] }, names) {
  const solve = rows.find((row) => row.name === "solve_rate");
  if (!first.trials || !second.trials) return note("warn", `No trial on ${!first.trials ? names[0] : names[1]}: choose other steps.`);
  if (solve.difference === null) return note("info", "No trial of one side has a verdict.");
  const points = (value) => fixed(100 * value, 1);
  const way = solve.difference > 0 ? "higher" : "lower";
  return solve.clear
    ? note(solve.difference > 0 ? "good" : "warn", `The solve rate is ${points(Math.abs(solve.difference))} points ${way} on ${names[1]} (95 % interval ${points(solve.low)} to ${points(solve.high)}): more than chance explains.`)
    : note("info", `The solve rate differs by ${points(solve.difference)} points, and the 95 % interval (${points(solve.low)} to ${points(solve.high)}) holds 0: chance alone may make as much.`);
}

function sides({ sides: both }, names, ctx) {
  return h("div", { class: "columns", key: "sides" }, both.map((side, i) => h("section", { class: "part", key: i, "aria-label": names[i] },
    h("h2", {}, names[i]),
    stats(
      stat({ label: "solve rate", value: share(side.solve_rate?.value), note: side.solve_rate ? `${interval(side.solve_rate)} · ${whole(side.solve_rate.solved)} of ${whole(side.solve_rate.graded)}` : null, help: "solve_rate" }),
      stat({ label: "trials", value: whole(side.trials ?? 0), note: side.trials ? `steps ${side.first_step}–${side.last_step}` : null, helpText: "Trials of this side, dropped ones included." }),
      stat({ label: "dropped", value: share(side.trials ? side.dropped / side.trials : null), note: `${whole(side.dropped ?? 0)} trials`, help: "dropped" })),
    h("ul", { class: "chips", "aria-label": `Outcomes of ${names[i]}` }, Object.entries(side.outcomes).sort((a, b) => b[1] - a[1]).map(([outcome, count]) => h("li", { key: outcome }, outcomeTag(outcome === "running" ? null : outcome), ` ${whole(count)}`))))));
}

function measures(rows, names) {
  const value = (row, side) => (row[side] ? amount(row[side].value, row.unit) : "–");
  const within = (row, side) => (row[side] ? h("span", {}, value(row, side), row[side].half === null ? null : h("span", { class: "unit" }, `± ${amount(row[side].half, row.unit)}`)) : "–");
  const known = rows.filter((row) => row.first || row.second);
  return [
    h("p", { class: "quiet" }, "Intervals are of 95 %, from what groups of trials differ by: trials of one task are alike. Of twenty measures one leaves its interval by chance."),
    table({
      id: "measures", caption: "Measures on both sides", hideCaption: true, rows: known, key: (row) => row.name, save: "compare-measures",
      columns: [
        { title: "measure", value: (row) => words(row.name), head: true },
        { title: names[0], value: (row) => row.first?.value ?? null, cell: (row) => within(row, "first"), align: "right" },
        { title: names[1], value: (row) => row.second?.value ?? null, cell: (row) => within(row, "second"), align: "right" },
        { title: "difference", value: (row) => row.difference, cell: (row) => (row.difference === null ? "–" : change(row.difference, row.unit)), helpText: "Second side less first side." },
        { title: "low", value: (row) => row.low, cell: (row) => amount(row.low, row.unit), helpText: "Lower end of the difference's 95 % interval." },
        { title: "high", value: (row) => row.high, cell: (row) => amount(row.high, row.unit), helpText: "Upper end of the difference's 95 % interval." },
        { title: "clear", value: (row) => (row.clear === null ? null : Number(row.clear)), cell: (row) => (row.clear === null ? "–" : row.clear ? tag("yes", "warn") : "no"), align: "left", helpText: "Whether the interval leaves out 0." },
        { title: "what it is", value: (row) => row.says, cell: (row) => h("span", { class: "says" }, row.says) },
      ],
    }),
  ];
}

function sameTasks(found, names, ctx) {
  if (!found.tasks.length) return empty("No task was graded on both sides.", `${whole(found.only_first)} only on ${names[0]}, ${whole(found.only_second)} only on ${names[1]}.`);
  const better = found.tasks.filter((row) => row.change > 0).length;
  const worse = found.tasks.filter((row) => row.change < 0).length;
  const of = ([solved, graded]) => `${share(solved / graded, 0)} (${solved}/${graded})`;
  return [
    note("info", `Solve rate of ${whole(found.tasks.length)} tasks on both sides: ${better} better, ${worse} worse, ${found.tasks.length - better - worse} alike. ${sentence(found.trend.says)}`),
    table({
      id: "same", caption: "Tasks on both sides", hideCaption: true, rows: found.tasks, key: (row) => row.task, limit: 200, save: "compare-tasks",
      columns: [
        { title: "task", value: (row) => row.task, head: true, cell: (row) => h("a", { href: ctx.link("compare", { what: "task", task: row.task, other: ctx.params.what === "runs" ? ctx.params.other : "" }) }, row.task) },
        { title: names[0], value: (row) => row.first[0] / row.first[1], cell: (row) => of(row.first) },
        { title: names[1], value: (row) => row.second[0] / row.second[1], cell: (row) => of(row.second) },
        { title: "change", unit: "points", value: (row) => row.change, cell: (row) => `${row.change > 0 ? "+" : ""}${fixed(100 * row.change, 0)}` },
      ],
    }),
  ];
}

function sentence(text) {
  return `${text[0].toUpperCase()}${text.slice(1)}.`;
}

function sideBySide({ task, first, second, limit }, ctx) {
  const part = (rows, name) => section(name, rows.length ? trialsOfTask(rows, `${task}-${name}`, name, limit) : empty(`No trial of ${task}.`, "Choose another task."));
  return [h("h2", { key: "task" }, task, " ", h("a", { href: ctx.link("tasks", { task }) }, "in Tasks")), part(first, ctx.run), second ? part(second, ctx.params.other) : null];
}

function trialsOfTask(rows, id, run, limit) {
  const link = (row) => h("a", { href: state.ctx.link(["trial", row.step, row.trial], {}, run) }, row.trial);
  return [
    rows.length === limit ? h("p", { class: "quiet" }, `The newest ${limit}.`) : null,
    table({
      id, caption: `Trials of this task in ${run}`, hideCaption: true, rows, key: (row) => `${row.step}/${row.split}/${row.trial}`, save: id,
      columns: [
        { title: "trial", value: (row) => row.trial, head: true, cell: run === state.ctx.run ? trialLink : link },
        { title: "step", value: (row) => row.step }, { title: "split", value: (row) => row.split }, { title: "harness", value: (row) => row.harness },
        { title: "outcome", value: (row) => row.outcome, cell: (row) => outcomeTag(row.outcome), help: "outcome" },
        { title: "reward", value: (row) => row.reward, cell: (row) => number(row.reward) },
        { title: "turns", value: (row) => row.turns }, { title: "tool calls", value: (row) => row.tool_calls }, { title: "edits", value: (row) => row.edits }, { title: "tests", value: (row) => row.tests },
        { title: "patch", unit: "lines", value: (row) => row.patch_lines }, { title: "last act", value: (row) => row.last_act },
        { title: "sampled", unit: "tokens", value: (row) => row.sampled_tokens, cell: (row) => tokens(row.sampled_tokens) }, { title: "time", unit: "s", value: (row) => row.total_seconds, cell: (row) => seconds(row.total_seconds) },
      ],
    }),
  ];
}

