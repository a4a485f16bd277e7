// Lines and bars by step: plotly's traces, and the same data as a table, of one list of series.

import { chart } from "./chart.js";
import { palette } from "./colours.js";
import { h } from "./dom.js";
import { number } from "./format.js";

const MANY_BARS = 500;

// lineChart({…chart, series: [{name, x, y, low, high, colour, dash, mode, quiet, text}], xTitle, range, href})
//   low, high: a band around the line. quiet: thin and pale, behind others (raw values behind a smoothed line).
//   href(x, name): where a point leads to.
export function lineChart({ series, xTitle = "step", range, rows, columns, href, layout, digits = 3, ...about }) {
  const used = series.filter((each) => each.x.length);
  const made = long(used, xTitle, about.unit, href);
  const names = [...new Set(used.map((each) => each.name))];
  return chart({
    ...about,
    rows: rows ?? made.rows,
    columns: columns ?? made.columns,
    describe: about.describe ?? describe(used, xTitle, digits),
    traces: () => used.flatMap((each) => lines(each, each.colour?.() ?? palette(names.indexOf(each.name)), about.unit)),
    layout: () => ({
      xaxis: { title: { text: xTitle } },
      yaxis: { range, rangemode: range ? undefined : "normal" },
      hovermode: "x",
      showlegend: used.length > 1,
      ...called(layout),
    }),
    onPoint: href ? (point) => go(href(point.x, point.data.name)) : undefined,
  });
}

function lines(each, colour, unit) {
  const traces = [];
  if (each.low) {
    const band = {
      x: each.x,
      mode: "lines",
      line: { width: 0, color: colour },
      hoverinfo: "skip",
      showlegend: false,
      legendgroup: each.name,
      connectgaps: false,
    };
    traces.push({ ...band, y: each.high }, { ...band, y: each.low, fill: "tonexty", fillcolor: pale(colour, 0.16) });
  }
  const few = each.x.length < 40;
  traces.push({
    x: each.x,
    y: each.y,
    name: each.name,
    legendgroup: each.name,
    connectgaps: each.gaps ?? false,
    mode: each.mode ?? (few && !each.quiet ? "lines+markers" : "lines"),
    type: each.x.length > 3000 ? "scattergl" : "scatter",
    line: { color: each.quiet ? pale(colour, 0.45) : colour, width: each.quiet ? 1 : 2, dash: each.dash },
    marker: { size: 5, color: colour },
    hovertemplate: each.text ? "%{text}" : `%{y:.4~g}${unit ? ` ${unit}` : ""}`,
    text: each.text,
    showlegend: !each.quiet,
  });
  return traces;
}

// barChart({…chart, series: [{name, x, y, colour, hatched}], stacked, href}): bars by step.
export function barChart({
  series,
  xTitle = "step",
  rows,
  columns,
  href,
  layout,
  stacked = true,
  digits = 3,
  ...about
}) {
  const used = series.filter((each) => each.x.length);
  const made = long(used, xTitle, about.unit, href);
  return chart({
    ...about,
    rows: rows ?? made.rows,
    columns: columns ?? made.columns,
    describe: about.describe ?? describe(used, xTitle, digits),
    traces: () => {
      const many = stacked && made.rows.length * used.length > MANY_BARS;
      return used.map((each, i) =>
        (many ? area : bar)(
          each,
          each.colour?.() ?? palette(i),
          made.rows,
          `${xTitle} %{x}: %{y:.4~g}${about.unit ? ` ${about.unit}` : ""}`,
        ),
      );
    },
    layout: () => ({
      barmode: stacked ? "stack" : "group",
      bargap: 0.12,
      xaxis: { title: { text: xTitle } },
      showlegend: used.length > 1,
      legend: { traceorder: "normal" },
      ...called(layout),
    }),
    onPoint: href
      ? (point) => go(href(point.x, point.data.customdata?.[point.pointIndex] ?? point.data.name))
      : undefined,
  });
}

const HATCH = { shape: "/", size: 5, solidity: 0.3, fillmode: "overlay", fgcolor: "#ffffff", fgopacity: 0.8 };

function bar(each, colour, _xs, hovertemplate) {
  return {
    type: "bar",
    name: each.name,
    x: each.x,
    y: each.y,
    customdata: each.x.map(() => each.id ?? each.name),
    marker: { color: colour, line: { width: 0 }, pattern: each.hatched ? HATCH : undefined },
    hovertemplate,
  };
}

// The same as one shape a series: a thousand bars would take a browser most of a second.
function area(each, colour, xs, hovertemplate) {
  const at = new Map(each.x.map((x, i) => [x, each.y[i]]));
  return {
    type: "scatter",
    mode: "lines",
    stackgroup: "all",
    name: each.name,
    x: xs,
    y: xs.map((x) => at.get(x) ?? 0),
    customdata: xs.map(() => each.id ?? each.name),
    line: { width: 0, shape: "hvh", color: colour },
    fillcolor: colour,
    fillpattern: each.hatched ? { ...HATCH, bgcolor: colour } : undefined,
    hovertemplate,
  };
}

function go(place) {
  if (place) location.hash = place;
}

function pale(colour, share) {
  const value = parseInt(colour.slice(1), 16);
  return colour.startsWith("#") ? `rgba(${value >> 16},${(value >> 8) & 255},${value & 255},${share})` : colour;
}

// One row for each x, a column for each series; intervals in columns of their own. Long where names are many.
function long(series, xTitle, unit, href) {
  const xs = [...new Set(series.flatMap((each) => each.x))].sort((a, b) => a - b);
  const columns = [
    {
      title: xTitle,
      value: (x) => x,
      cell: (x) => (href && series.length === 1 ? anchor(href(x, series[0].id ?? series[0].name), x) : String(x)),
      head: true,
    },
  ];
  for (const each of series) {
    const at = new Map(each.x.map((x, i) => [x, i]));
    const value = (values) => (x) => (at.has(x) ? (values[at.get(x)] ?? null) : null);
    const y = value(each.y);
    columns.push({
      title: each.name + (each.quiet ? ", raw" : ""),
      unit,
      value: y,
      cell: (x) => (href && y(x) ? anchor(href(x, each.id ?? each.name), number(y(x))) : number(y(x))),
    });
    if (each.low)
      columns.push(
        { title: `${each.name}, low`, unit, value: value(each.low), cell: (x) => number(value(each.low)(x)) },
        { title: `${each.name}, high`, unit, value: value(each.high), cell: (x) => number(value(each.high)(x)) },
      );
  }
  return { columns, rows: xs };
}

function anchor(place, text) {
  return place ? h("a", { href: place }, text) : text;
}

function describe(series, xTitle, digits) {
  return (
    series
      .filter((each) => !each.quiet)
      .slice(0, 8)
      .map((each) => {
        let last = each.y.length - 1;
        while (last > 0 && each.y[last] === null) last -= 1;
        return `${each.name}: ${number(each.y[last], digits)} at ${xTitle} ${each.x[last]}`;
      })
      .join("; ") + (series.length > 8 ? `; and ${series.length - 8} more` : "")
  );
}

function called(given) {
  return typeof given === "function" ? given() : (given ?? {});
}
