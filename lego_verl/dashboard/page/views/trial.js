// One trial, by tabs; each fetches only what it shows.

import { h, note, stat, stats, tag } from "../core/dom.js";
import { number, seconds, share, tokens, words } from "../core/format.js";
import { addStyle } from "./style.js";
import { filesOf, loadFiles, loadPatch, patchOf } from "./trial_files.js";
import { summaryOf } from "./trial_summary.js";
import { loadTokens, tokensOf } from "./trial_tokens.js";
import { loadTurns, turnsOf } from "./trial_turns.js";

addStyle("page/views/trial.css");

const TABS = {
  summary: { title: "Summary", load: async () => null, render: summaryOf },
  turns: { title: "Turns", load: loadTurns, render: turnsOf },
  tokens: { title: "Tokens", load: loadTokens, render: tokensOf },
  patch: { title: "Patch", load: loadPatch, render: patchOf },
  logs: { title: "Tests and logs", load: loadFiles, render: filesOf },
};
const GOOD = { solved: "good", tampered: "bad" };

export default {
  title: "Trial",
  defaults: { tab: "summary", from: "0", segment: "0", at: "0", _colour: "difference" },
  async load({ path, params, api }) {
    const [step, name] = path;
    const place = `trial/${encodeURIComponent(step ?? "")}/${encodeURIComponent(name ?? "")}`;
    const tab = TABS[params.tab] ?? TABS.summary;
    const about = await api.run(place);
    try {
      return { about, place, shown: await tab.load({ about, place, params, api }) };
    } catch (error) {
      if (error.name === "AbortError" || error.status === 401) throw error;
      return { about, place, missing: error.message };
    }
  },
  render(data, ctx) {
    const { about } = data;
    const tab = TABS[ctx.params.tab] ?? TABS.summary;
    const shown = data.missing ? note("info", data.missing) : tab.render(data, ctx);
    return [heading(about, ctx), header(about, ctx), troubles(about), tabs(about, ctx),
      h("section", { key: `tab-${ctx.params.tab}`, class: "part tab", "aria-label": tab.title }, shown)];
  },
};

function heading({ trial }, ctx) {
  return h("h1", { key: "h1", class: "trial-name" }, h("span", {}, trial.task), " ",
    h("span", { class: "quiet" }, h("a", { href: ctx.link("trials", { step: trial.step, split: trial.split }) }, trial.split === "heldout" ? `held-out, after step ${trial.step}` : `step ${trial.step}`), ` · ${trial.trial}`));
}

function header(about, ctx) {
  const { trial } = about;
  const ended = trial.outcome ?? trial.state;
  return stats(
    stat({ label: "outcome", value: words(ended), tone: GOOD[ended] ?? (trial.treatment === "drop" ? "bad" : undefined), href: ctx.link("outcomes", { split: trial.split === "heldout" ? "heldout" : "" }), note: trial.attempts > 1 ? `attempt ${trial.attempts}` : null, help: "outcome" }),
    stat({ label: "reward", value: number(trial.reward), helpText: "What the verdict was worth to the trainer; – for a trial that is dropped: infrastructure never becomes a reward." }),
    stat({ label: "training", value: words(about.fate), note: about.why, tone: about.fate === "trained" ? "good" : about.fate === "dropped" || about.fate === "group" ? "bad" : undefined, helpText: "Whether a step of training took this trial, and if not, why not. The tab Tokens says it of every token." }),
    stat({ label: "time", value: seconds(trial.total_seconds), note: trial.queued_seconds > 1 ? `and ${seconds(trial.queued_seconds)} waiting for a slot` : null, helpText: "From the start of its sandbox to its verdict, in the last attempt." }),
    stat({ label: "calls", value: number(trial.calls), note: `${number(trial.segments)} segment${trial.segments === 1 ? "" : "s"}`, helpText: "Generations that the harness asked for, and linear token sequences that they made. One segment is one row of the trainer's batch." }),
    stat({ label: "sampled tokens", value: tokens(trial.sampled_tokens), note: `${tokens(trial.loss_tokens)} with loss`, helpText: "Tokens that the policy wrote, and those of them that carry loss where the trial is trained." }),
    stat({ label: "proof", value: trial.provenance === null ? "–" : `${share(trial.provenance, 0)} / ${share(trial.context, 0)}`, tone: trial.provenance === null ? undefined : trial.provenance === 1 && trial.context === 1 ? "good" : "bad", help: "proof" }),
    stat({ label: "weights", value: versions(trial), helpText: "Weight versions that sampled its first and its last token. A version is the number of updates that the rollout servers had been sent." }),
    stat({ label: "harness", value: h("span", {}, (trial.harness || "–").split("_").flatMap((part, i) => (i ? ["_", h("wbr"), part] : [part]))), helpText: "The coding agent that worked on the task." }));
}

function versions({ weights_first: first, weights_last: last }) {
  return first === null ? "–" : first === last ? `version ${first}` : `versions ${first}–${last}`;
}

function troubles({ trial }) {
  return [
    trial.error ? note(trial.treatment === "drop" ? "bad" : "warn", trial.error) : null,
    trial.signs.length ? note("warn", "What looked like an attack on the grader: ", trial.signs.map((each) => tag(each, "warn"))) : null,
    trial.state === "running" ? note("info", "It still runs: what it leaves is shown here when it has ended.") : null,
  ];
}

function tabs(about, ctx) {
  return h("nav", { key: "tabs", class: "tabs", "aria-label": "Parts of the trial" }, h("ul", {}, Object.entries(TABS).map(([name, each]) =>
    h("li", { key: name }, h("a", { href: ctx.link(["trial", ...ctx.path], name === "summary" ? {} : { tab: name }), "aria-current": (ctx.params.tab in TABS ? ctx.params.tab : "summary") === name ? "page" : null }, each.title)))),
    h("span", { class: "quiet" }, h("a", { href: ctx.link("compare", { what: "task", task: about.trial.task }) }, "This task's other trials")));
}
