// Trials: the list behind every number, by whatever the address asks for.

import { empty, h, sectionOf } from "../core/dom.js";
import { choice, filters, harnessChoice, search, splitChoice } from "../core/filters.js";
import { words } from "../core/format.js";
import { state } from "../core/state.js";
import { pages } from "../core/table.js";
import { trialsTable } from "../core/trials.js";

const ASKED = [
  "split",
  "step",
  "first_step",
  "last_step",
  "outcome",
  "why_not",
  "task",
  "harness",
  "group_id",
  "state",
  "trained",
  "slowest",
];
const LIMIT = 50;
const AGAIN = { offset: "" };

export default {
  title: "Trials",
  defaults: Object.fromEntries([...ASKED, "offset"].map((name) => [name, ""])),
  async load({ params, api }) {
    const query = Object.fromEntries(ASKED.map((name) => [name, params[name]]));
    const [list, { outcomes }] = await Promise.all([
      api.run("trials", { ...query, limit: LIMIT, offset: params.offset || 0 }),
      api.get("outcomes"),
    ]);
    return { ...list, outcomes };
  },
  render({ trials, more, offset, limit, outcomes }, ctx) {
    const { params, info } = ctx;
    const about = outcomes.find((each) => each.outcome === params.outcome);
    return [
      h("h1", {}, "Trials"),
      filters(
        splitChoice({ both: true, also: AGAIN }),
        search({
          param: "step",
          label: "Step",
          placeholder: info?.last_step !== null ? `${info?.first_step ?? 0} to ${info?.last_step ?? ""}` : "",
          also: AGAIN,
        }),
        choice({
          param: "outcome",
          label: "Outcome",
          options: [["", "all"], ...outcomes.map((each) => [each.outcome, words(each.outcome)])],
          also: AGAIN,
        }),
        choice({
          param: "trained",
          label: "Trained",
          options: [
            ["", "all"],
            ["1", "trained"],
            ["0", "not trained"],
          ],
          also: AGAIN,
        }),
        harnessChoice(),
        search({ param: "task", label: "Task", placeholder: "a task's whole name", also: AGAIN }),
        choice({
          param: "slowest",
          label: "Order",
          options: [
            ["", "newest first"],
            ["1", "slowest first"],
          ],
          also: AGAIN,
        }),
      ),
      chosen(ctx),
      about ? explained(about) : null,
      trials.length || offset ? null : empty("No trial fits.", "Change or clear a filter."),
      trials.length ? trialsTable({ caption: caption(params, offset, trials.length), rows: trials }) : null,
      pages({ offset, limit, more, shown: trials.length }),
    ];
  },
};

// Filters without a control of their own, each with a way to be rid of it.
function chosen(ctx) {
  const shown = ["why_not", "group_id", "state", "first_step", "last_step"].filter((name) => ctx.params[name] !== "");
  if (!shown.length) return null;
  return h(
    "p",
    { class: "chips", key: "chips" },
    shown.map((name) =>
      h(
        "button",
        {
          type: "button",
          class: "chip",
          key: name,
          "aria-label": `Without the filter ${words(name)}`,
          onclick: () => state.ctx.set({ [name]: "", ...AGAIN }),
        },
        `${words(name)}: ${words(ctx.params[name])}`,
        h("span", { "aria-hidden": "true" }, " ×"),
      ),
    ),
  );
}

export function explained(about) {
  const parts = [
    ["Symptom", about.symptom],
    ["Cause", about.cause],
    ["Ruled out", about.ruled_out],
    ["What to do", about.fix],
  ].filter(([, text]) => text);
  const does = {
    train: "It is trained, with the verdict as its reward.",
    flag: "It is trained with reward 0, and pointed out.",
    drop: "It is dropped: outside of its group's mean, and no reward.",
  }[about.treatment];
  return sectionOf(
    { title: words(about.outcome), help: "outcome", id: "about" },
    h("p", {}, does, about.retried ? " It is run again first, since another attempt may end better." : ""),
    h(
      "dl",
      { class: "explained" },
      parts.flatMap(([title, text]) => [h("dt", {}, title), h("dd", {}, text)]),
    ),
    h("p", { class: "quiet" }, "From docs/07-when-trials-fail.md."),
  );
}

function caption(params, offset, count) {
  const parts = [
    params.outcome && words(params.outcome),
    params.why_not && `not trained: ${words(params.why_not)}`,
    params.task && `task ${params.task}`,
    params.step !== "" && `step ${params.step}`,
  ].filter(Boolean);
  return `${offset + 1} to ${offset + count}${params.slowest === "1" ? ", the slowest first" : ", the newest first"}${parts.length ? `: ${parts.join(", ")}` : ""}`;
}
