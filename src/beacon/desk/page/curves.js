// Curves of a demonstration under one time cursor; those of its neighbour are dashed.
import { clamp, make, short } from "./talk.js";

const SVG = "http://www.w3.org/2000/svg", MANY = 14; // names in a legend

function line(steps, values, length, low, high, className) {
  const path = document.createElementNS(SVG, "path");
  let drawing = false;
  const parts = values.map((value, i) => {
    if (value === null) { drawing = false; return ""; }
    const x = (steps[i] / Math.max(1, length - 1)) * 1000, y = 96 - ((value - low) / (high - low)) * 92;
    const word = `${drawing ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(2)}`;
    drawing = true;
    return word;
  });
  path.setAttribute("d", parts.join("") || "M0 0");
  path.setAttribute("class", className);
  return path;
}

function extent(panels) {
  let low = Infinity, high = -Infinity;
  for (const panel of panels) for (const column of panel.values) for (const value of column) {
    if (value !== null) { low = Math.min(low, value); high = Math.max(high, value); }
  }
  if (!(high >= low)) return [0, 1];
  return high > low ? [low, high] : [low - 0.5, high + 0.5];
}

// Draws all panels; returns a function that moves the cursor. `seek` is called with a share of the time.
export function drawPanels(root, own, other, seek) {
  const cursors = [];
  root.replaceChildren(...own.panels.map((panel) => {
    const beside = other && other.panels.find((candidate) =>
      candidate.title === panel.title && candidate.values.length === panel.values.length);
    const [low, high] = extent(beside ? [panel, beside] : [panel]);
    const svg = document.createElementNS(SVG, "svg");
    svg.setAttribute("viewBox", "0 0 1000 100");
    svg.setAttribute("preserveAspectRatio", "none");
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", `${panel.title} over time`);
    panel.values.forEach((values, d) => {
      if (beside) svg.append(line(beside.steps, beside.values[d], other.length, low, high, `other c${d % 8}`));
      svg.append(line(panel.steps, values, own.length, low, high, `c${d % 8}`));
    });
    const cursor = make("div", { class: "cursor" });
    cursors.push(cursor);
    const plot = make("div", { class: "plot" }, svg, cursor,
      make("span", { class: "range high" }, short(high)), make("span", { class: "range low" }, short(low)));
    const point = (event) => {
      const box = plot.getBoundingClientRect();
      seek(clamp((event.clientX - box.left) / box.width, 0, 1));
    };
    plot.addEventListener("pointerdown", (event) => { plot.setPointerCapture(event.pointerId); point(event); });
    plot.addEventListener("pointermove", (event) => { if (plot.hasPointerCapture(event.pointerId)) point(event); });
    const legend = make("div", { class: "legend" });
    if (panel.names.length > 1) {
      legend.append(...panel.names.slice(0, MANY).map((name, d) => make("span", { class: `c${d % 8}` }, name)));
      if (panel.names.length > MANY) legend.append(make("span", {}, `and ${panel.names.length - MANY} more`));
    }
    return make("div", { class: "panel" }, make("h3", {}, panel.title), legend, plot);
  }));
  return (share) => { for (const cursor of cursors) cursor.style.left = `${share * 100}%`; };
}
