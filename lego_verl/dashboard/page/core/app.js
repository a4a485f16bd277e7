// The page: an address is a view and its parameters; a view is data and what it makes of them.

import { ApiError, apiOf, get } from "./api.js";
import { empty, h, note } from "./dom.js";
import { drawFrame } from "./frame.js";
import { whole } from "./format.js";
import { loadGlossary } from "./help.js";
import { Live } from "./live.js";
import { patch } from "./patch.js";
import { loadPlotlySoon } from "./plot.js";
import { address, link, parse, set, state } from "./state.js";
import { VIEWS } from "./views.js";

const LEAST_MS = 1000; // between two refreshes; more where one takes long: the machine may be the one that trains
const MOST_MS = 10000;
const REST = 10; // times what a refresh took
const main = document.getElementById("main");
const shown = { key: null, place: null, module: null, data: undefined, error: null, loading: null };
let told = null;
let connection = "waiting";
let last = 0;
let rest = LEAST_MS;
let pending = null;

const live = new Live(
  (message, changed) => {
    const first = told === null;
    const indexed = told && told.store.state !== message.store.state;
    told = message;
    if (changed && (!first || shown.error?.waiting || indexed || behind())) soon();
    else frame();
    if (message.store.state !== "ready") draw();
  },
  (now) => {
    if (now !== connection) {
      connection = now;
      frame();
    }
  },
);

const NO_VIEW = {
  title: "No such view",
  load: async () => ({
    default: {
      title: "No such view",
      load: async () => ({}),
      render: (_, { view }) => [
        h("h1", {}, "No such view"),
        empty(`There is no view “${view}”.`, "Choose one in the navigation."),
      ],
    },
  }),
};

// A change of the address: another view is fetched and replaces what is there; parameters of the display only render.
async function route() {
  const place = parse(location.hash);
  if (place.run === null && !location.hash && state.runs.length === 1) {
    location.replace(address(state.runs[0].name, "overview"));
    return;
  }
  const entry = VIEWS[place.view] ?? NO_VIEW;
  const arrived = shown.place !== `${place.run}/${place.view}/${place.path.join("/")}`;
  shown.place = `${place.run}/${place.view}/${place.path.join("/")}`;
  const params = { ...place.params };
  const context = (defaults) => ({
    ...place,
    params: { ...defaults, ...params },
    defaults,
    info: arrived && state.ctx?.run !== place.run ? null : (state.ctx?.info ?? null),
    api: arrived ? undefined : state.ctx?.api,
    link,
    set,
  });
  if (arrived) {
    shown.loading?.abort(); // what is still fetched or due was for where we came from
    shown.module = shown.key = shown.error = null;
    shown.data = undefined;
    state.slow = new Map();
    if (state.ctx?.run !== place.run) told = null;
    state.ctx = context({});
    frame();
    live.follow(place.run);
  }
  let module;
  try {
    module = (await entry.load()).default;
  } catch (error) {
    patch(main, [h("h1", { key: "h1" }, entry.title), problem(error)]);
    return;
  }
  if (location.hash && JSON.stringify(parse(location.hash)) !== JSON.stringify(place)) return; // gone on meanwhile
  state.ctx = context(module.defaults ?? {});
  const key = JSON.stringify([
    place.run,
    place.view,
    place.path,
    Object.entries(state.ctx.params)
      .filter(([name]) => !name.startsWith("_"))
      .sort(),
  ]);
  shown.module = module;
  if (key === shown.key) {
    draw();
    return;
  }
  shown.key = key;
  main.toggleAttribute("data-busy", true);
  await load();
  if (arrived) {
    window.scrollTo(0, 0);
    if (route.before) main.querySelector("h1")?.focus({ preventScroll: true });
    route.before = true;
  }
}

// Fetch what the view shows, and show it. A later call makes an earlier one void.
async function load() {
  shown.loading?.abort();
  if (!shown.module) return;
  const aborter = new AbortController();
  shown.loading = aborter;
  state.turn += 1;
  last = performance.now();
  const { ctx } = state;
  const api = apiOf(ctx.run, aborter.signal);
  try {
    const [info, data] = await Promise.all([ctx.run === null ? null : api.run(""), shown.module.load({ ...ctx, api })]);
    if (aborter.signal.aborted) return;
    Object.assign(state.ctx, { info, api }); // which may be another by now, of the same place
    shown.data = data;
    shown.error = null;
  } catch (error) {
    if (aborter.signal.aborted || error.name === "AbortError") return;
    if (!(error instanceof ApiError)) console.error(error);
    shown.error = error;
    state.ctx.info ??= null;
  }
  main.toggleAttribute("data-busy", false);
  draw();
  rest = Math.min(MOST_MS, Math.max(LEAST_MS, REST * (performance.now() - last)));
  if (behind()) soon();
}

// Whether more has happened than was fetched: it came between the view's data and the first message.
function behind() {
  const info = state.ctx?.info;
  return Boolean(told && info && (told.event > (info.event ?? 0) || told.step > (info.step ?? 0)));
}

function draw() {
  frame();
  if (!shown.module || !state.ctx) return;
  const parts = [
    indexing(),
    shown.error && shown.data === undefined ? null : shown.error ? problem(shown.error) : null,
  ];
  if (shown.data !== undefined) {
    try {
      parts.push(shown.module.render(shown.data, state.ctx));
    } catch (error) {
      console.error(error);
      parts.push(problem(error));
    }
  } else if (shown.error) parts.push(h("h1", { key: "h1", tabindex: "-1" }, shown.module.title), problem(shown.error));
  else return;
  const made = parts.flat(Infinity).filter(Boolean);
  const heading = made.find((each) => each.nodeName === "H1");
  if (heading) heading.tabIndex = -1;
  const place = shown.place;
  if (main.place !== place) main.replaceChildren(); // another view: nothing of the old one is to be reused
  main.place = place;
  patch(main, made);
  main.dataset.view = state.ctx.view;
  main.dataset.ready = String(state.turn);
}

function frame() {
  if (state.ctx) drawFrame(told, connection);
}

function indexing() {
  const store = told?.store ?? state.ctx.info?.store;
  if (!state.ctx.run || !store || store.state === "ready") return null;
  if (store.state === "failed") return note("bad", store.error);
  const far = store.of ? `${whole(store.done)} of ${whole(store.of)} trials` : "looking at its files";
  return h(
    "div",
    { class: "notice", key: "indexing", "data-tone": "info" },
    h("span", { class: "mark", "aria-hidden": "true" }, "i"),
    h(
      "label",
      {},
      `The run's store is being brought up to date (${far}). `,
      h("progress", { max: store.of || null, value: store.of ? store.done : null }),
    ),
  );
}

function problem(error) {
  if (error.waiting) return empty(error.message, "This page shows it as soon as it is there.");
  if (error.status === 401) return tokenForm(error);
  const todo =
    error.status === 404
      ? h("a", { href: "#/" }, "See the runs there are")
      : error instanceof ApiError
        ? "The page tries again when the run goes on, or when you reload it."
        : "This is a fault of the page: please report it, with what the browser's console says.";
  return h(
    "div",
    { class: "empty", key: "problem", role: "alert" },
    h("p", {}, error.message),
    h("p", { class: "quiet" }, todo),
  );
}

function tokenForm(error) {
  const send = async (event) => {
    event.preventDefault();
    const token = new FormData(event.target)
      .get("token")
      .trim()
      .replace(/^.*[?&]token=([^&#]*).*$/, "$1");
    try {
      await get("runs", { token });
      await begin();
    } catch (again) {
      event.target.querySelector("output").textContent = again.message;
    }
  };
  return h(
    "form",
    { class: "empty", key: "token", onsubmit: send },
    h("p", {}, error.message),
    h(
      "label",
      { class: "control" },
      h("span", {}, "Token"),
      h("input", { type: "password", name: "token", required: true, autocomplete: "current-password" }),
    ),
    h("button", { type: "submit" }, "Open"),
    h("output", { role: "alert" }),
  );
}

// Nothing tells of all runs at once: they are asked for.
setInterval(() => {
  if (state.ctx?.run === null && !document.hidden) soon();
}, 4000);

function soon() {
  if (pending) return;
  pending = setTimeout(
    async () => {
      pending = null;
      await load();
    },
    Math.max(200, rest - (performance.now() - last)),
  );
}

// The list of runs is waited for only where the address names none.
async function begin() {
  shown.key = null;
  shown.place = null;
  const listed = get("runs").then(
    ({ runs }) => {
      state.runs = runs;
      frame();
    },
    () => {},
  ); // what is wrong is said by the view, which asks the same server
  if (parse(location.hash).run === null) await listed;
  await route();
}

state.again = draw;
state.refresh = soon;
state.problem = problem;
window.addEventListener("hashchange", route);
if (new URLSearchParams(location.search).has("token"))
  history.replaceState(null, "", location.pathname + location.hash);
loadGlossary()
  .then(begin)
  .then(() => {
    performance.mark("lego-interactive");
    loadPlotlySoon();
  });
