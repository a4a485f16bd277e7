// All runs, to choose one.

import { empty, h } from "../core/dom.js";
import { ago, rate, time } from "../core/format.js";
import { table } from "../core/table.js";

export default {
  title: "Runs",
  load: ({ api }) => api.get("runs"),
  render({ runs }, ctx) {
    if (!runs.length)
      return [
        h("h1", {}, "Runs"),
        empty(
          "There is no run yet.",
          "Start one: python -m lego_verl.main. It appears here by itself; or give a run's folder: python -m lego_verl.dashboard FOLDER.",
        ),
      ];
    const columns = [
      {
        title: "run",
        head: true,
        value: (run) => run.name,
        cell: (run) => h("a", { href: ctx.link("overview", {}, run.name) }, run.name),
      },
      { title: "state", value: state, help: "alive" },
      {
        title: "step",
        value: (run) => run.step,
        cell: (run) => `${run.step ?? "–"}${run.total_steps ? ` of ${run.total_steps}` : ""}`,
        help: "step",
      },
      {
        title: "solved",
        value: (run) => run.solve_rate?.value ?? null,
        cell: (run) => rate(run.solve_rate),
        align: "right",
        help: "solve_rate_recent",
      },
      {
        title: "last event",
        value: (run) => run.last_event,
        cell: (run) => h("span", { title: time(run.last_event) }, ago(run.last_event)),
      },
      { title: "folder", value: (run) => run.path, cell: (run) => h("span", { class: "path" }, run.path) },
    ];
    return [
      h("h1", {}, "Runs"),
      table({ id: "runs", caption: "Runs", hideCaption: true, columns, rows: runs, key: (run) => run.name }),
    ];
  },
};

function state(run) {
  if (run.error || run.store.state === "failed") return run.error ?? run.store.error;
  if (run.store.state === "indexing") return `being indexed, ${run.store.done} of ${run.store.of}`;
  if (run.store.state === "waiting") return "to be indexed";
  return run.alive ? "running" : run.total_steps && run.step >= run.total_steps ? "finished" : "not running";
}
