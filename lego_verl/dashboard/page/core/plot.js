// <plot-area>: one plotly figure. The library (5 MB, from the installed Python package) is fetched once the page can be
// used, and a figure is drawn when it comes into sight.

import { isDark, palette, token } from "./colours.js";

let library = null;
const areas = new Set();

export function loadPlotly() {
  library ??= new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = "plotly.min.js";
    script.onload = () => resolve(window.Plotly);
    script.onerror = () =>
      reject(new Error("charts need plotly: pip install 'lego_verl[dashboard]'; the data are below each chart"));
    document.head.append(script);
  });
  return library;
}

// When nothing else is to do.
export function loadPlotlySoon() {
  const begin = () => loadPlotly().catch(() => {});
  if ("requestIdleCallback" in window) requestIdleCallback(begin, { timeout: 2000 });
  else setTimeout(begin, 200);
}

// After a change of theme.
export function redrawAll() {
  for (const area of areas) area.draw();
}

const seen = new IntersectionObserver(
  (entries) => {
    for (const entry of entries) entry.target.inSight(entry.isIntersecting);
  },
  { rootMargin: "300px" },
);

const sized = new ResizeObserver((entries) => {
  for (const { target } of entries) target.fit();
});

class PlotArea extends HTMLElement {
  #spec = null;
  #visible = false;
  #drawn = null;
  #busy = false;
  #wanted = false;
  #figure = "";

  // {id, traces(): [], layout(): {}, onPoint}; functions, since colours change with the theme.
  set spec(spec) {
    this.#spec = spec;
    this.#wanted = true;
    if (this.isConnected) this.draw();
  }

  get spec() {
    return this.#spec ?? undefined;
  }

  connectedCallback() {
    areas.add(this);
    seen.observe(this);
    sized.observe(this);
  }

  disconnectedCallback() {
    areas.delete(this);
    seen.unobserve(this);
    sized.unobserve(this);
    if (this.#drawn) window.Plotly?.purge(this.#drawn);
    this.#drawn = null;
    this.#figure = "";
  }

  inSight(visible) {
    this.#visible = visible;
    if (visible && this.#wanted) this.draw();
  }

  async fit() {
    if (!this.#drawn || !this.#visible || this.clientWidth === 0) return;
    if (Math.abs(this.clientWidth - (this.#drawn.width ?? 0)) < 2) return;
    this.#drawn.width = this.clientWidth;
    window.Plotly.relayout(this.#drawn, { width: this.clientWidth });
  }

  async draw() {
    this.#wanted = true;
    if (!this.#visible || this.#busy || !this.#spec) return;
    this.#busy = true;
    try {
      const Plotly = await loadPlotly();
      while (this.#wanted && this.isConnected) {
        this.#wanted = false;
        await this.#react(Plotly, this.#spec);
      }
    } catch (error) {
      this.textContent = error.message;
    } finally {
      this.#busy = false;
    }
  }

  async #react(Plotly, spec) {
    const [traces, layout] = [spec.traces(), merged(base(spec, this), spec.layout?.() ?? {})];
    const figure = JSON.stringify([traces, layout]);
    if (figure === this.#figure) return;
    this.#figure = figure;
    const fresh = !this.#drawn;
    if (fresh) {
      this.textContent = "";
      this.#drawn = document.createElement("div");
      this.append(this.#drawn);
    }
    const node = this.#drawn;
    node.width = this.clientWidth;
    await Plotly.react(node, traces, layout, { displayModeBar: false, responsive: false, showTips: false });
    if (fresh) node.on("plotly_click", (event) => this.#spec.onPoint?.(event.points[0]));
    this.toggleAttribute("data-drawn", true);
  }

  async png(name) {
    const Plotly = await loadPlotly();
    if (!this.#drawn) {
      this.#visible = true;
      await this.draw();
    }
    const { clientWidth: width, clientHeight: height } = this;
    await Plotly.downloadImage(this.#drawn, { format: "png", width, height, scale: 2, filename: name });
  }
}

customElements.define("plot-area", PlotArea);

function base(spec, area) {
  const [ink, quiet, line, paper] = ["ink", "quiet", "line", "paper"].map(token);
  const axis = {
    gridcolor: line,
    linecolor: line,
    zerolinecolor: line,
    tickcolor: line,
    tickfont: { color: quiet, size: 11 },
    title: { font: { color: quiet, size: 11 }, standoff: 8 },
    automargin: true,
    fixedrange: false,
  };
  return {
    width: area.clientWidth,
    height: area.clientHeight,
    autosize: false,
    paper_bgcolor: paper,
    plot_bgcolor: paper,
    colorway: Array.from({ length: 8 }, (_, i) => palette(i)),
    font: { family: getComputedStyle(area).fontFamily, color: ink, size: 12 },
    margin: { l: 46, r: 12, t: 8, b: 34 },
    hovermode: "closest",
    uirevision: spec.id,
    dragmode: "zoom",
    hoverlabel: {
      bgcolor: isDark() ? "#0d1117" : "#ffffff",
      bordercolor: line,
      font: { color: ink, size: 12 },
      align: "left",
      namelength: -1,
    },
    legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", font: { size: 11 }, itemsizing: "constant" },
    xaxis: { ...axis },
    yaxis: { ...axis },
    yaxis2: { ...axis },
  };
}

function merged(low, high) {
  const made = { ...low };
  for (const [name, value] of Object.entries(high)) {
    made[name] =
      value && typeof value === "object" && !Array.isArray(value) && low[name] && typeof low[name] === "object"
        ? merged(low[name], value)
        : value;
  }
  if (!("yaxis2" in high)) delete made.yaxis2;
  return made;
}
