// Plotly charts. A figure without colours of its own has those of the page; one that has any is left as it
// was made, on the ground that it was made for.

import Plotly from "plotly.js-dist-min";

type Layout = Record<string, any>;

interface Figure {
  data?: { type?: unknown }[];
  layout?: Layout;
  config?: Record<string, unknown>;
}

// These ask a server for the map that they are drawn on, and a frame has no network.
const MAPS = /^(scatter|density|choropleth)(map|mapbox|geo)$|^choropleth$/;
const COLOURS = ["paper_bgcolor", "plot_bgcolor"] as const;

export async function draw(root: HTMLElement, value: unknown, dark: boolean): Promise<void> {
  const figure = (typeof value === "object" && value ? value : {}) as Figure;
  const own = figure.layout ?? {};
  const traces = Array.isArray(figure.data) ? figure.data : [];
  const missing = new Set(traces.map(({ type }) => String(type ?? "scatter")).filter((type) => !known(type)));
  if (missing.size) {
    // Plotly itself would draw something else instead.
    root.textContent = `This chart cannot be shown here: ${[...missing].join(", ")}. Show it as a picture, or save it to a file.`;
    return;
  }
  const layout = { height: 420, autosize: true, ...(coloured(own) ? own : inColoursOfThePage(own, dark)) };
  root.replaceChildren();
  root.classList.toggle("own-ground", coloured(own));
  await Plotly.newPlot(root, traces, layout, { responsive: true, displaylogo: false, ...figure.config });
}

const known = (type: string): boolean =>
  !MAPS.test(type) && (Plotly.PlotSchema.get().traces as Record<string, unknown>)[type] !== undefined;

// The template that plotly.py puts into every figure is not a choice of whoever made it.
function coloured(own: Layout): boolean {
  if (COLOURS.some((name) => own[name] !== undefined) || own["font"]?.color !== undefined) return true;
  const ground = own["template"]?.layout?.paper_bgcolor;
  return typeof ground === "string" && !["white", "#fff", "#ffffff"].includes(ground.toLowerCase());
}

function inColoursOfThePage(own: Layout, dark: boolean): Layout {
  const ink = dark ? "#dcdfe4" : "#23262b";
  const grid = dark ? "#33373e" : "#e4e4e0";
  const clear = "rgba(0,0,0,0)";
  const layout: Layout = { ...own, paper_bgcolor: clear, plot_bgcolor: clear, font: { ...own["font"], color: ink } };
  const axis = { gridcolor: grid, zerolinecolor: grid, linecolor: grid };
  const axes = Object.keys(own).filter((name) => /^[xy]axis\d*$/.test(name));
  for (const name of new Set(["xaxis", "yaxis", ...axes])) layout[name] = { ...axis, ...own[name] };
  return layout;
}
