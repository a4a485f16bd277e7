// What stands around every view: the run, how it stands, the navigation, the theme.

import { isDark } from "./colours.js";
import { h } from "./dom.js";
import { whole } from "./format.js";
import { patch } from "./patch.js";
import { redrawAll } from "./plot.js";
import { address, state } from "./state.js";
import { VIEWS } from "./views.js";

let place = null;

export function drawFrame(told, connection) {
  const { run, view, info } = state.ctx;
  patch(document.getElementById("top"), [
    h("a", { class: "brand", href: "#/" }, "lego_verl"),
    run === null ? null : chooser(run, view),
    run === null ? null : standing(info, told),
    h("span", { class: "spring" }),
    run === null ? null : connected(connection),
    themeSwitch(),
  ]);
  patch(
    document.getElementById("nav"),
    run === null
      ? []
      : h(
          "ul",
          {},
          Object.entries(VIEWS)
            .filter(([, each]) => !each.hidden)
            .map(([name, each]) =>
              h(
                "li",
                { key: name },
                h(
                  "a",
                  {
                    href: address(run, name),
                    "aria-current": name === view || (view === "trial" && name === "trials") ? "page" : null,
                  },
                  each.title,
                ),
              ),
            ),
        ),
  );
  const here = document.querySelector("#nav [aria-current]");
  if (here && here !== place) here.scrollIntoView({ block: "nearest", inline: "center" });
  place = here;
  document.title = `${run === null ? "" : `${run} · `}${VIEWS[view]?.title ?? "?"} · lego_verl`;
}

function chooser(run, view) {
  const names = state.runs.map((each) => each.name);
  if (!names.includes(run)) names.unshift(run);
  const kept = view === "trial" ? "trials" : view;
  return h(
    "label",
    { class: "run" },
    h("span", { class: "unseen" }, "Run"),
    h(
      "select",
      {
        value: run,
        onchange: (event) => {
          location.hash = address(event.currentTarget.value, kept);
        },
      },
      names.map((name) => h("option", { value: name, selected: name === run }, name)),
    ),
  );
}

function standing(info, told) {
  const alive = told?.alive ?? info?.alive;
  const step = told?.step ?? info?.last_step;
  const total = info?.total_steps;
  const finished = !alive && total && step >= total;
  const word = alive ? "running" : finished ? "finished" : "not running";
  const running = told?.running ? `, ${whole(told.running)} trials running` : "";
  return h(
    "span",
    { class: "standing" },
    h("span", {
      class: "dot",
      "data-tone": alive || finished ? "good" : "warn",
      "data-alive": alive ? "" : null,
      "aria-hidden": "true",
    }),
    word,
    step === null || step === undefined
      ? null
      : h("span", { class: "quiet" }, `step ${step}${total ? ` of ${total}` : ""}${alive ? running : ""}`),
  );
}

function connected(connection) {
  const text =
    { live: "live", waiting: "connecting…", lost: "not connected, trying again" }[connection] ?? "connecting…";
  return h(
    "span",
    { class: "connection", "data-state": connection, title: "whether this page is told what happens" },
    text,
  );
}

function themeSwitch() {
  const chosen = document.documentElement.dataset.theme ?? "system";
  const next = { system: isDark() ? "light" : "dark", light: "dark", dark: "light" }[chosen];
  return h(
    "button",
    {
      type: "button",
      class: "small theme",
      "aria-label": `Change to ${next} colours`,
      title: `Change to ${next} colours`,
      onclick: () => choose(next),
    },
    isDark() ? "☾" : "☀",
  );
}

function choose(theme) {
  document.documentElement.dataset.theme = theme;
  try {
    localStorage.setItem("lego-theme", theme);
  } catch {
    /* storage is off: it is not remembered */
  }
  state.again();
  redrawAll();
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  state.again();
  redrawAll();
});
