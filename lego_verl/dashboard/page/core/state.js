// Where the page is: its address, and what is known of the run. There is no other state but what is fetched.

export const state = {
  ctx: null, // of the view that is shown: run, view, path, params, info, link, set, api
  again: () => {}, // render again, from the data that are there
  refresh: () => {}, // fetch again, then render
  runs: [],
  turn: 0, // counts what was fetched
  slow: new Map(), // what `later` fetched, by key
  problem: (error) => error.message, // how an error looks
};

export function parse(hash) {
  const [place, query = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  const parts = place.split("/").filter(Boolean).map(decode);
  const params = Object.fromEntries(new URLSearchParams(query));
  if (parts[0] === "run" && parts[1])
    return { run: parts[1], view: parts[2] ?? "overview", path: parts.slice(3), params };
  return { run: null, view: "runs", path: [], params };
}

function decode(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

// "#/run/NAME/VIEW/PATH?PARAMS"; parameters that are empty, or as `defaults` has them, are left out.
export function address(run, view, params = {}, defaults = {}) {
  const parts = [view].flat().map((each) => encodeURIComponent(String(each)));
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) {
    if (value === null || value === undefined || value === false || String(value) === String(defaults[name] ?? ""))
      continue;
    query.set(name, value === true ? "1" : String(value));
  }
  const asked = query.toString();
  const place = run === null ? "#/" : `#/run/${encodeURIComponent(run)}/${parts.join("/")}`;
  return asked ? `${place}?${asked}` : place;
}

// An address in the run that is shown.
export function link(view, params, run) {
  return address(run ?? state.ctx?.run ?? null, view, params);
}

// Change parameters of this view. `_` ones are of the display: nothing is fetched for them.
export function set(changes, { replace = false } = {}) {
  // Of the address and not of `state.ctx`, which follows it a moment later: of two changes at once none is lost.
  const { run, view, path, params } = parse(location.hash);
  const { defaults } = state.ctx;
  const next = address(run, [view, ...path], { ...params, ...changes }, defaults);
  if (next === location.hash) return;
  const display = Object.keys(changes).every((name) => name.startsWith("_"));
  history[replace || display ? "replaceState" : "pushState"](null, "", next);
  window.dispatchEvent(new HashChangeEvent("hashchange"));
}
