// Trials in a list, wherever one is shown; and links to lists of them.

import { h, tag } from "./dom.js";
import { fixed, seconds, tokens, whole, words } from "./format.js";
import { state } from "./state.js";
import { table } from "./table.js";

const GOOD = new Set(["solved"]);
const PLAIN = new Set(["unsolved"]);

export function outcomeTag(name) {
  return tag(name ? words(name) : "running", GOOD.has(name) ? "good" : PLAIN.has(name) || !name ? null : "warn");
}

export function trialLink(row) {
  return h("a", { href: state.ctx.link(["trial", row.step, row.trial]) }, row.trial);
}

// {id, caption, rows, hide: titles of columns to leave out}
export function trialsTable({ id = "trials", caption, rows, hide = [], empty }) {
  const columns = [
    { title: "trial", head: true, value: (row) => row.trial, cell: trialLink },
    { title: "step", value: (row) => row.step, align: "right" },
    { title: "split", value: (row) => row.split },
    {
      title: "task",
      value: (row) => row.task,
      cell: (row) =>
        h(
          "a",
          { href: state.ctx.link("tasks", { task: row.task, split: row.split === "train" ? "" : row.split }) },
          row.task,
        ),
      help: "task",
    },
    { title: "harness", value: (row) => row.harness },
    { title: "outcome", value: (row) => row.outcome, cell: (row) => outcomeTag(row.outcome), help: "outcome" },
    {
      title: "reward",
      value: (row) => row.reward,
      cell: (row) => fixed(row.reward, 2),
      align: "right",
      help: "reward",
    },
    {
      title: "trained",
      value: (row) => (row.trained === 1 ? "yes" : row.trained === 0 ? `no: ${words(row.why_not ?? "")}` : "open"),
      help: "trained",
    },
    { title: "calls", value: (row) => row.calls, cell: (row) => whole(row.calls), align: "right", help: "calls" },
    {
      title: "tokens",
      value: (row) => row.sampled_tokens,
      cell: (row) => tokens(row.sampled_tokens),
      align: "right",
      help: "sampled_tokens",
    },
    {
      title: "time",
      value: (row) => row.total_seconds,
      cell: (row) => seconds(row.total_seconds),
      align: "right",
      help: "total_seconds",
    },
    { title: "attempts", value: (row) => row.attempts, align: "right", help: "attempts" },
    {
      title: "error",
      value: (row) => row.error || null,
      cell: (row) =>
        row.error ? h("span", { class: "error", title: row.error }, row.error.split("\n", 1)[0].slice(0, 160)) : "",
    },
  ].filter((column) => !hide.includes(column.title));
  return table({ id, caption, columns, rows, key: (row) => `${row.step}/${row.split}/${row.trial}`, empty });
}
