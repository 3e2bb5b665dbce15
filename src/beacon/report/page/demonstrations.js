// Demonstrations: filmstrips in the gallery, and the viewer that opens for a selected one.
let chosenRun = DATA.runs.findIndex((run) => run.weights);
if (chosenRun < 0) chosenRun = Math.max(0, DATA.runs.findIndex((run) => run.pool !== null));
let chosenDemo = null;

const domainOf = (pool, demo) => DATA.pools[pool].domains[DATA.pools[pool].domain[demo]];
const demoTitle = (pool, demo) => `${domainOf(pool, demo).name} · ${DATA.pools[pool].names[demo]}`;
const corruptionOf = (pool, demo) => (DATA.pools[pool].corruption || [])[demo] || "";
const decisionMark = (pool, demo) => {
  const decision = (DATA.pools[pool].decisions || [])[demo];
  return decision ? make("span", { class: "decision", title: "by decision" }, ` ${decision}`) : null;
};

function stripFrame(pool, demo, place, className = "frame") {
  const { strips, steps, aspect } = DATA.pools[pool];
  return frame(strips[demo], place, steps[demo].length, 0, 1, aspect, className);
}
function demoFrame(pool, demo, share) {
  const count = DATA.pools[pool].steps[demo].length;
  return stripFrame(pool, demo, Math.round(share * (count - 1)));
}

function filmstrip(pool, demo) {
  const strip = make("div", { class: "strip" });
  const { steps, strips } = DATA.pools[pool];
  if (!strips[demo]) return make("p", { class: "note" }, "The frames of this demonstration did not fit into the page.");
  steps[demo].forEach((step, place) => {
    const picture = stripFrame(pool, demo, place);
    picture.title = `step ${step}`;
    strip.append(picture);
  });
  return strip;
}

// A bare curve of the weight along the demonstration; all curves of a run share the scale.
function sparkline(run, demo, colour) {
  const width = 300, height = 36;
  const times = run.weights.time[demo], values = run.weights.curves.weight[demo];
  if (run.weights.highest === undefined) {
    run.weights.highest = run.weights.curves.weight.reduce((most, curve, d) =>
      (curve && !domainOf(run.pool, d).target ? Math.max(most, ...curve) : most), 1e-9);
  }
  const last = Math.max(times[times.length - 1], 1);
  const xs = times.map((time) => (times.length > 1 ? (time / last) * width : width / 2));
  const ys = values.map((value) => height - 3 - (clamp(value / run.weights.highest, 0, 1)) * (height - 6));
  const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", role: "img" });
  draw("title", {}, svg, `weight along time, ${format(Math.min(...values))} to ${format(Math.max(...values))}`);
  draw("line", { class: "gridline", x1: 0, x2: width, y1: height - 3, y2: height - 3 }, svg);
  draw("path", { d: `${path(xs, ys)}L${xs[xs.length - 1]} ${height - 3}L${xs[0]} ${height - 3}Z`, style: `fill:${paint(colour)};opacity:.18` }, svg);
  draw("path", { d: path(xs, ys), class: "mark", "vector-effect": "non-scaling-stroke", style: `stroke:${paint(colour)}` }, svg);
  return svg;
}

function demoButton(run, demo) {
  const { pool } = run;
  const corruption = corruptionOf(pool, demo);
  const weight = run.weights && present(run.weights.mean[demo]) ? `weight ${short(run.weights.mean[demo])}` : "";
  const button = make("button", { type: "button", class: "demo" },
    make("div", { class: "head" },
      make("span", {}, make("b", {}, demoTitle(pool, demo)), corruption ? make("span", { class: "corruption" }, ` ${corruption}`) : null, decisionMark(pool, demo)),
      make("span", {}, weight)),
    filmstrip(pool, demo));
  if (weight) button.append(sparkline(run, demo, domainOf(pool, demo).colour));
  button.dataset.demo = `${pool}:${demo}`;
  button.addEventListener("click", () => selectDemo(pool, demo));
  return button;
}

function drawGallery() {
  const place = document.getElementById("gallery-strips");
  if (!place) return;
  const run = DATA.runs[chosenRun];
  const titles = { kept: "Most kept", faded: "Most faded", some: "Some demonstrations" };
  const columns = Object.entries(run.gallery).filter(([, demos]) => demos.length).map(([kind, demos]) =>
    make("div", { "data-kind": kind }, make("h3", {}, titles[kind]), ...demos.map((demo) => demoButton(run, demo))));
  place.className = "galleries";
  place.replaceChildren(...columns);
  document.querySelectorAll("[data-run]").forEach((part) => { part.hidden = part.dataset.run !== `${chosenRun}`; });
}

function selectDemo(pool, demo, time = null) {
  hideTooltip();
  chosenDemo = { pool, demo };
  if (DATA.runs[chosenRun].pool !== pool) chosenRun = DATA.runs.findIndex((run) => run.pool === pool);
  markChosen();
  drawViewer(time);
}

function markChosen() {
  const key = chosenDemo && `${chosenDemo.pool}:${chosenDemo.demo}`;
  document.querySelectorAll("[data-demo]").forEach((part) => part.classList.toggle("chosen", part.dataset.demo === key));
  if (typeof drawMaps === "function") drawMaps();
}

function closeViewer() {
  chosenDemo = null;
  document.getElementById("viewer").hidden = true;
  markChosen();
}

function drawViewer(time) {
  const { pool, demo } = chosenDemo;
  const here = DATA.pools[pool];
  const run = DATA.runs[chosenRun];
  const viewer = document.getElementById("viewer");
  const steps = here.steps[demo];
  const large = stripFrame(pool, demo, 0, "frame large");
  const strip = filmstrip(pool, demo);
  const slider = make("input", { type: "range", min: 0, max: here.length[demo] - 1, value: time ?? 0, "aria-label": "time step" });
  const when = make("p", { class: "note" });
  const close = make("button", { type: "button", "aria-label": "Close" }, "Close");
  close.addEventListener("click", closeViewer);
  const corruption = corruptionOf(pool, demo);
  viewer.replaceChildren(
    make("div", { class: "top" },
      make("div", {}, make("h4", {}, demoTitle(pool, demo), corruption ? make("span", { class: "corruption" }, ` ${corruption}`) : null, decisionMark(pool, demo)),
        make("p", { class: "note" }, facts(run, pool, demo))), close),
    make("div", { class: "inside" }, make("div", {}, large, slider, when), make("div", {}, strip, make("div", { class: "plots" }))));
  viewer.hidden = false;
  const curves = drawCurves(viewer.querySelector(".plots"), run, demo);
  const show = () => {
    const step = Number(slider.value);
    const place = steps.reduce((best, other, i) => (Math.abs(other - step) < Math.abs(steps[best] - step) ? i : best), 0);
    setFrame(large, here.strips[demo], place, steps.length, 0, 1);
    [...strip.children].forEach((part, i) => part.classList.toggle("now", i === place));
    when.textContent = `step ${step} of ${here.length[demo] - 1}, frame of step ${steps[place]}${curves(step)}`;
  };
  slider.addEventListener("input", show);
  [...strip.children].forEach((part, i) => part.addEventListener("click", () => { slider.value = steps[i]; show(); }));
  show();
}

function facts(run, pool, demo) {
  const here = DATA.pools[pool];
  const parts = [`${here.length[demo]} steps`];
  if (run.weights && present(run.weights.mean[demo])) {
    parts.push(`${run.title}: mean weight ${short(run.weights.mean[demo])}`);
    if (present(run.weights.rank[demo])) parts.push(`rank ${run.weights.rank[demo]} of ${run.weights.ranked} source demonstrations`);
  }
  if (here.distance && present(here.distance.values[demo])) parts.push(`starts ${short(here.distance.values[demo])} ${here.distance.unit} from the nearest target demonstration`);
  return parts.join(" · ");
}

// Weight along time and over training; returns what to say of a time step.
function drawCurves(place, run, demo) {
  if (!run.weights || !run.weights.time[demo]) return () => "";
  const colour = domainOf(run.pool, demo).colour;
  const times = run.weights.time[demo];
  const colours = { weight: colour, loss: "run3", discrepancy: "run4" };
  const lines = Object.entries(run.weights.curves).filter(([name]) => name !== "discrepancy" || !domainOf(run.pool, demo).target)
    .map(([name, all]) => ({ kind: "line", name, colour: colours[name], x: times, y: all[demo], dashed: name !== "weight" }));
  const axis = (label) => ({ label, title: label });
  const panels = [{ title: "Along time", x: axis("time step"), y: axis("value"), marks: lines, pool: null }];
  if (run.weights.history) {
    const { step, weight } = run.weights.history;
    panels.push({ title: "Mean weight over training", x: axis("gradient steps"), y: axis("mean weight q"),
      marks: [{ kind: "line", name: "mean weight", colour, x: step, y: weight[demo] }], pool: null });
  }
  for (const panel of panels) {
    const card = make("div", {}, make("h4", {}, panel.title), legend(panel.marks));
    place.append(card);
    card.append(chart(panel, Math.max(240, card.clientWidth), { title: "Demonstration" }));
  }
  return (step) => {
    const at = times.reduce((best, other, i) => (Math.abs(other - step) < Math.abs(times[best] - step) ? i : best), 0);
    return `: ${lines.map((line) => `${line.name} ${short(line.y[at])}`).join(", ")}`;
  };
}
