// Plotly charts.

import Plotly from "plotly.js-basic-dist-min";

interface Figure {
  data?: unknown[];
  layout?: Record<string, unknown>;
  config?: Record<string, unknown>;
}

export async function draw(root: HTMLElement, value: unknown, dark: boolean): Promise<void> {
  const figure = (typeof value === "object" && value ? value : {}) as Figure;
  const ink = dark ? "#dcdfe4" : "#23262b";
  const grid = dark ? "#33373e" : "#e4e4e0";
  const axis = { gridcolor: grid, zerolinecolor: grid, linecolor: grid };
  const own = figure.layout ?? {};
  const layout = {
    ...own,
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { color: ink, ...(own["font"] as object | undefined) },
    xaxis: { ...axis, ...(own["xaxis"] as object | undefined) },
    yaxis: { ...axis, ...(own["yaxis"] as object | undefined) },
    height: typeof own["height"] === "number" ? own["height"] : 420,
    autosize: true,
  };
  root.replaceChildren();
  await Plotly.newPlot(root, figure.data ?? [], layout, { responsive: true, displaylogo: false, ...figure.config });
}
