"""``python -m lego_verl.dashboard [RUN…]``: a run in the browser, for as long as the command runs.

A small server (FastAPI, loopback) over ``lego_verl.monitor.queries``, and one page of plain ES modules: no build step,
nothing from outside. Needs ``lego_verl[dashboard]``.

    app.py        the application: routers, page, guard          page/core/     router, tables, charts, live updates
    runs.py       which runs there are, by name                  page/views/    one module a view
    indexing.py   stores made and brought up to date              page/glossary.json   what every number is
    live.py       server-sent events                             page/style.css
    guard.py      token, Host, headers                           api/           one router a view

Contract: a router of a view (``api/<view>.py``)
------------------------------------------------
Found by itself: any module of ``api/`` with a ``router``. Endpoints are plain ``def`` (they run in a thread; never
block the event loop), read-only, GET, under ``/api/runs/{run}/…``::

    from lego_verl.dashboard.api.common import Run, Split, opened, reply

    router = APIRouter(prefix="/api/runs/{run}")

    @router.get("/outcomes")
    def outcomes(run: Run, split: Split = "train", harness: str | None = None) -> Response:
        with opened(run) as db:                                   # read-only; 202 while the store is being made
            return reply({"rows": queries.outcomes(db, split=split, harness=harness)})

- ``Run`` is the ``RunFolder`` by its name; an unknown one is a 404. ``trial_folder(run, step, trial)`` checks the name
  (never join a name of the address to a path by yourself). ``other_run(request, name)`` is a second run's folder.
- Raise ``Refused(404, "no trial of this name")``: every error is JSON, ``{"error": "one line, with what to do"}``.
- Plain rows come back, never CSV: the page makes CSV files of the same JSON (one way for all tables and charts).
- An answer under 300 ms at 100,000 trials; what is slower gets its own endpoint, so that the rest does not wait.

Contract: a module of a view (``page/views/<view>.js``)
-------------------------------------------------------
Its address is ``#/run/NAME/<view>/PATH…?PARAM=…``. It has a place in the navigation by ``page/core/views.js``. ::

    import { h, section, stat, note } from "../core/dom.js";
    import { table } from "../core/table.js";
    import { lineChart, barChart, chart } from "../core/chart.js";
    import { choice, filters, search } from "../core/filters.js";
    import { later } from "../core/later.js";

    export default {
      title: "Outcomes",
      defaults: { split: "train", harness: "" },      // parameters with these values are left out of the address
      async load({ run, path, params, api }) {         // api.get(path, query); api.run("x") is of api/runs/NAME/x
        return { outcomes: await api.run("outcomes", { split: params.split }) };
      },
      render(data, ctx) {                              // pure: DOM from data. ctx: run, path, params, link, set, info
        return [h("h1", {}, "Outcomes"), section("By step", table({...}))];
      },
    };

- ``render`` returns an element or a list of them. It is called again whenever the store changed; the page is *patched*
  from the result (``core/patch.js``): focus, scroll, selection, open ``<details>`` and charts stay. So keep no state in
  the DOM: state is in the address. ``ctx.set({step: 3})`` changes it; a parameter whose name begins with ``_`` is of
  the display only, and nothing is fetched again (``_sort.trials=-reward``).
- Elements that repeat, and any that may come and go before others, get ``key: "..."``.
- Handlers: ``h("button", {onclick: (event) => …})``. Links: ``h("a", {href: ctx.link("trials", {outcome, step})}, …)``,
  a trial: ``ctx.link(["trial", step, trial])``, another run's: ``ctx.link("overview", {}, otherRun)``.
- Data are text nodes, always: there is no ``innerHTML`` anywhere, and the content security policy allows no inline
  script and no inline style attribute (``style: {width: "3px"}`` of ``h`` is set through the CSSOM, which it allows).
- Every number says what it is: ``help("solve_rate")`` is a ``?`` from ``page/glossary.json`` (add keys there), or a
  text of the API: ``helpText("…", "label")``. ``stat({label, value, help})`` and table columns take ``help: "key"`` or
  ``helpText: "…"``.
- ``chart({id, title, unit, help, describe, traces, layout, columns, rows})``: plotly traces, and the same data as
  columns and rows (shown on demand, saved as CSV); ``lineChart({…, series: [{name, x, y, low, high}]})``, ``barChart``
  make both.
  ``onPoint(point)`` is called for a click; ``href(x, seriesName)`` makes it a link. Colours: ``palette(i)``,
  ``outcomeColour(name)`` from ``core/colours.js``; ``core/format.js``: ``number, share, seconds, tokens, time, rate``.
- Nothing to show: ``empty("no trial has ended yet", "what to do")``. An error of ``load`` is shown by the page.
- A fetch that is slow: ``await`` only what is quick, and give the rest as
  ``later(ctx, "key", () => ctx.api.run(…), (data) => DOM)``.
"""
