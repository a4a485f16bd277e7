// Asks the server. An error is an `ApiError` with the line that the server said.

export class ApiError extends Error {
  constructor(status, body) {
    super(body.error ?? `the server answered ${status}`);
    this.status = status;
    this.waiting = body.waiting === true; // there is nothing yet: ask again
  }
}

// api/PATH?QUERY as JSON. A list in the query stands for the parameter several times.
export async function get(path, query = {}, signal) {
  const asked = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value === "" || value === null || value === undefined || value === false) continue;
    for (const each of [value].flat()) asked.append(name, each === true ? "1" : each);
  }
  const text = asked.toString();
  let response;
  try {
    response = await fetch(`api/${path}${text ? `?${text}` : ""}`, { signal, headers: { accept: "application/json" } });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, {
      error: "the dashboard does not answer: is its command still running, and the tunnel open?",
    });
  }
  let body;
  try {
    body = await response.json();
  } catch (error) {
    signal?.throwIfAborted(); // given up while it arrived
    throw new ApiError(response.status, { error: `the server answered ${response.status}, and no JSON` });
  }
  if (!response.ok || response.status === 202) throw new ApiError(response.status, body);
  return body;
}

// The API of one run: api.get("runs"), api.run("outcomes", {…}), api.of("OTHER", "outcomes", {…}).
export function apiOf(run, signal) {
  const of = (name, path, query) => get(`runs/${encodeURIComponent(name)}${path ? `/${path}` : ""}`, query, signal);
  return { get: (path, query) => get(path, query, signal), run: (path, query) => of(run, path, query), of };
}
