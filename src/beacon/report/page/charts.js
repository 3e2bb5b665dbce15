// Figures from their description: lines with bands, histograms, scatters, intervals.
const MARGIN = { top: 10, right: 14, bottom: 40 };

function drawFigure(place) {
  const figure = DATA.figures[place.dataset.figure];
  const panels = place.querySelector(".panels");
  panels.replaceChildren();
  const cards = figure.panels.map((panel) => make("div", { class: "panel" }, panel.title ? make("h4", {}, panel.title) : null));
  panels.append(...cards);  // all of them first: they share the width
  figure.panels.forEach((panel, i) => {
    const card = cards[i];
    const intervals = panel.marks.length && panel.marks[0].kind === "interval";
    if (!intervals) card.append(legend(panel.marks));
    if (panel.note) card.append(make("p", { class: "stat" }, panel.note));
    const width = Math.max(260, card.clientWidth - 30);
    card.append(intervals ? intervalChart(panel, width, figure) : chart(panel, width, figure));
  });
}

function legend(marks) {
  const shown = new Map(marks.map((mark) => [mark.name, mark]));
  const list = make("div", { class: "legend" });
  for (const mark of shown.values()) {
    const key = make("i", { class: mark.kind === "line" ? "stroke" : "" });
    key.style.background = key.style.borderColor = paint(mark.colour);
    if (mark.dashed) key.style.borderTopStyle = "dashed";
    list.append(make("span", {}, key, mark.name));
  }
  return list;
}

function frameAxes(panel, left, width, height, xScale, yScale, label) {
  const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, role: "img" });
  draw("title", {}, svg, label);
  const bottom = height - MARGIN.bottom;
  for (const tick of yScale.ticks) {
    const y = yScale(tick);
    draw("line", { class: "gridline", x1: left, x2: width - MARGIN.right, y1: y, y2: y }, svg);
    draw("text", { x: left - 7, y: y + 4, "text-anchor": "end" }, svg, format(tick, panel.y));
  }
  for (const tick of xScale.ticks) {
    const x = xScale(tick);
    draw("line", { class: "axis", x1: x, x2: x, y1: bottom, y2: bottom + 4 }, svg);
    draw("text", { x, y: bottom + 17, "text-anchor": "middle" }, svg, format(tick, panel.x));
  }
  draw("line", { class: "axis", x1: left, x2: width - MARGIN.right, y1: bottom, y2: bottom }, svg);
  draw("text", { x: (left + width - MARGIN.right) / 2, y: height - 5, "text-anchor": "middle" }, svg, panel.x.title);
  const middle = (MARGIN.top + bottom) / 2;
  const small = Math.min(11.5, (bottom - MARGIN.top) / (0.55 * Math.max(panel.y.title.length, 1)));  // it must fit beside the axis
  draw("text", { x: 12, y: middle, "text-anchor": "middle", transform: `rotate(-90 12 ${middle})`, style: `font-size:${small}px` }, svg, panel.y.title);
  return svg;
}

function chart(panel, width, figure) {
  const height = Math.round(clamp(width * 0.62, 210, 330));
  const bars = panel.marks.some((mark) => mark.kind === "bars");
  const points = panel.marks.some((mark) => mark.kind === "points");
  const xs = panel.marks.flatMap((mark) => mark.x || mark.edges);
  const ys = panel.marks.flatMap((mark) => [...(mark.y || mark.heights), ...(mark.low || []), ...(mark.high || [])]);
  const yScale = makeScale(panel.y, ys, height - MARGIN.bottom, MARGIN.top, bars || !panel.y.log);
  const left = 32 + 6.6 * Math.max(...yScale.ticks.map((tick) => format(tick, panel.y).length), 2);
  const xScale = makeScale(panel.x, xs, left, width - MARGIN.right, bars);
  const svg = frameAxes(panel, left, width, height, xScale, yScale, `${figure.title}. ${panel.title}`);
  const content = draw("g", {}, svg);
  for (const mark of panel.marks) {
    if (mark.kind === "line") drawLine(mark, xScale, yScale, content);
    else if (mark.kind === "bars") drawBars(mark, xScale, yScale, content);
    else drawPoints(mark, panel, xScale, yScale, content);
  }
  if (!points) followPointer(svg, panel, xScale, left, width, height, bars);
  return svg;
}

function path(xs, ys) {
  let pen = "M";
  let text = "";
  xs.forEach((x, i) => {
    if (!Number.isFinite(x) || !Number.isFinite(ys[i])) { pen = "M"; return; }
    text += `${pen}${x.toFixed(1)} ${ys[i].toFixed(1)}`;
    pen = "L";
  });
  return text;
}
const through = (scale, values) => values.map((value) => (present(value) ? scale(value) : NaN));

function drawLine(mark, xScale, yScale, parent) {
  const xs = through(xScale, mark.x), ys = through(yScale, mark.y);
  if (mark.low) {
    const lows = through(yScale, mark.low), highs = through(yScale, mark.high);
    const outline = path([...xs, ...[...xs].reverse()], [...highs, ...lows.reverse()]);
    draw("path", { d: `${outline}Z`, class: "band", style: `fill:${paint(mark.colour)};opacity:.16` }, parent);
  }
  const dash = mark.dashed ? "5 4" : "none";
  draw("path", { d: path(xs, ys), class: "mark line", "stroke-dasharray": dash, style: `stroke:${paint(mark.colour)}` }, parent);
  if (xs.length < 3) {
    xs.forEach((x, i) => draw("circle", { cx: x, cy: ys[i], r: 3.5, class: "mark", style: `fill:${paint(mark.colour)};stroke:none` }, parent));
  }
}

function drawBars(mark, xScale, yScale, parent) {
  const base = yScale(Math.max(0, yScale.low));
  let outline = `M${xScale(mark.edges[0])} ${base}`;
  mark.heights.forEach((value, i) => {
    const y = yScale(value || 0).toFixed(1);
    outline += `L${xScale(mark.edges[i]).toFixed(1)} ${y}L${xScale(mark.edges[i + 1]).toFixed(1)} ${y}`;
  });
  outline += `L${xScale(mark.edges[mark.edges.length - 1])} ${base}Z`;
  const colour = paint(mark.colour);
  draw("path", { d: outline, class: "mark bars", style: `stroke:${colour};fill:${colour};fill-opacity:.28;stroke-width:1.5` }, parent);
}

const SHAPES = { corrupt0: "M0-5L5 4L-5 4Z", corrupt1: "M0-5L5 0L0 5L-5 0Z", corrupt2: "M-4-4H4V4H-4Z" };
function drawPoints(mark, panel, xScale, yScale, parent) {
  mark.x.forEach((x, i) => {
    if (!present(x) || !present(mark.y[i])) return;
    const shape = SHAPES[mark.colour];
    const style = `fill:${paint(mark.colour)}`;
    const where = `translate(${xScale(x).toFixed(1)} ${yScale(mark.y[i]).toFixed(1)})`;
    const dot = shape
      ? draw("path", { d: shape, transform: where, class: "mark dotmark", style }, parent)
      : draw("circle", { r: 4, transform: where, class: "mark dotmark", style }, parent);
    const demo = mark.demos ? mark.demos[i] : null;
    const worded = (axis, value) => `${axis.label}: ${axis.percent ? format(value, axis) : short(value)} ${axis.unit || ""}`;
    const values = () => [worded(panel.x, x), worded(panel.y, mark.y[i])];
    whenPointed(dot, (event) => {
      const lines = values().map((text) => make("div", {}, text));
      if (demo === null || panel.pool === null) showTooltip(event, make("div", {}, mark.name), ...lines);
      else showTooltip(event, demoFrame(panel.pool, demo, 0.5), make("div", {}, demoTitle(panel.pool, demo)), ...lines);
    }, hideTooltip);
    if (demo !== null && panel.pool !== null) {
      dot.classList.add("selectable");
      dot.dataset.demo = `${panel.pool}:${demo}`;
      dot.addEventListener("click", () => selectDemo(panel.pool, demo));
    }
  });
}

// Values of all curves at the pointer.
function followPointer(svg, panel, xScale, left, width, height, bars) {
  const cursor = draw("line", { class: "cursor", y1: MARGIN.top, y2: height - MARGIN.bottom, visibility: "hidden" }, svg);
  const leave = () => { cursor.setAttribute("visibility", "hidden"); hideTooltip(); };
  whenPointed(svg, (event) => {
    const box = svg.getBoundingClientRect();
    const x = ((event.clientX - box.left) / box.width) * width;
    if (x < left || x > width - MARGIN.right) return leave();
    const at = xScale.invert(x);
    const rows = [];
    let heading = null;
    for (const mark of panel.marks) {
      let value, text;
      if (bars) {
        const bin = mark.edges.findIndex((edge, i) => i + 1 < mark.edges.length && at >= edge && at <= mark.edges[i + 1]);
        if (bin < 0) continue;
        heading = `${panel.x.label} ${format(mark.edges[bin], panel.x)} to ${format(mark.edges[bin + 1], panel.x)}`;
        text = format(mark.heights[bin], panel.y) + (panel.y.percent ? "%" : "");
      } else {
        let best = -1;
        mark.x.forEach((other, i) => { if (present(other) && (best < 0 || Math.abs(other - at) < Math.abs(mark.x[best] - at))) best = i; });
        if (best < 0) continue;
        value = mark.y[best];
        heading = heading || `${panel.x.label} ${format(mark.x[best], panel.x)}${panel.x.percent ? "%" : ""}`;
        text = format(value, panel.y) + (panel.y.percent ? "%" : "");
        if (mark.low) text += ` (${format(mark.low[best], panel.y)} to ${format(mark.high[best], panel.y)})`;
      }
      const key = make("i", { class: "dot" });
      key.style.background = paint(mark.colour);
      rows.push(make("div", {}, key, `${mark.name}: ${text}`));
    }
    if (!rows.length) return leave();
    cursor.setAttribute("x1", x);
    cursor.setAttribute("x2", x);
    cursor.setAttribute("visibility", "visible");
    showTooltip(event, make("strong", {}, heading), ...rows);
  }, leave);
}

// One row a run: a dot and its interval.
function intervalChart(panel, width, figure) {
  const row = 34;
  const left = clamp(width * 0.32, 90, 220), right = 84;
  const height = panel.marks.length * row + 52;
  const bottom = height - MARGIN.bottom;
  const scale = makeScale(panel.x, panel.marks.flatMap((mark) => [mark.low, mark.high]), left, width - right);
  const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, role: "img" });
  draw("title", {}, svg, `${figure.title}. ${panel.title}`);
  for (const tick of scale.ticks) {
    draw("line", { class: "gridline", x1: scale(tick), x2: scale(tick), y1: 4, y2: bottom }, svg);
    draw("text", { x: scale(tick), y: bottom + 16, "text-anchor": "middle" }, svg, format(tick, panel.x));
  }
  draw("text", { x: (left + width - right) / 2, y: height - 5, "text-anchor": "middle" }, svg, panel.x.title);
  panel.marks.forEach((mark, i) => {
    const y = 4 + row * (i + 0.5);
    const name = mark.name.length > left / 7 ? `${mark.name.slice(0, Math.floor(left / 7) - 1)}…` : mark.name;
    draw("text", { x: left - 12, y: y + 4, "text-anchor": "end", class: "row" }, svg, name);
    const colour = `stroke:${paint(mark.colour)}`;
    draw("line", { class: "mark", x1: scale(mark.low), x2: scale(mark.high), y1: y, y2: y, style: `${colour};stroke-width:5;opacity:.4` }, svg);
    draw("circle", { class: "mark", cx: scale(mark.value), cy: y, r: 6, style: `fill:${paint(mark.colour)};stroke:var(--card)` }, svg);
    draw("text", { x: width - right + 10, y: y + 4, class: "value" }, svg, `${(100 * mark.value).toFixed(0)}%`);
    draw("text", { x: width - 2, y: y + 4, "text-anchor": "end" }, svg, mark.text.replace(" of ", "/"));
    const target = draw("rect", { x: 0, y: y - row / 2, width, height: row, fill: "transparent" }, svg);
    whenPointed(target, (event) => showTooltip(event, make("strong", {}, mark.name),
      make("div", {}, `${mark.text}: ${format(mark.value, panel.x)}%, 95% interval ${format(mark.low, panel.x)} to ${format(mark.high, panel.x)}%`)), hideTooltip);
  });
  return svg;
}
