// Vega and Vega-Lite charts.

import embed, { type VisualizationSpec } from "vega-embed";

export async function draw(root: HTMLElement, spec: unknown, mime: string, dark: boolean): Promise<void> {
  const mode = mime.includes("vegalite") ? "vega-lite" : "vega";
  await embed(root, spec as VisualizationSpec, {
    mode,
    actions: false,
    renderer: "svg",
    theme: dark ? "dark" : undefined,
    config: { background: "transparent" },
    tooltip: { theme: dark ? "dark" : "light" },
  });
}
