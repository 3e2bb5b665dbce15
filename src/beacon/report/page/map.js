// The map of embeddings: two canvases with the same windows, before and after training.
const mapRuns = DATA.runs.map((run, i) => (run.map ? i : -1)).filter((i) => i >= 0);
const mapState = { run: mapRuns[0], space: null, colour: "domain", hover: null, places: {} };

function mapColours() {
  const run = DATA.runs[mapState.run];
  const pool = DATA.pools[run.pool];
  const { demo, time } = pool.points;
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue(`--${name}`).trim();
  if (mapState.colour === "weight" && run.map.weight) {
    // The scale is the source's: target weights lie above it and would leave nothing to see.
    const known = run.map.weight.filter((w, i) => present(w) && !domainOf(run.pool, demo[i]).target).sort((a, b) => a - b);
    const top = known[Math.floor(0.98 * (known.length - 1))] || 1;
    return { colours: run.map.weight.map((w) => (present(w) ? ramp(w / top) : colour("grid"))), range: ["0", `${short(top)} and more`], label: "weight q" };
  }
  if (mapState.colour === "phase") {
    return { colours: demo.map((d, i) => ramp(time[i] / Math.max(pool.length[d] - 1, 1))), range: ["start", "end"], label: "phase" };
  }
  if (mapState.colour === "corruption" && pool.corruption) {
    const kinds = [...new Set(pool.corruption.filter(Boolean))].sort();
    const named = (d) => (domainOf(run.pool, d).target ? "target" : pool.corruption[d] ? `corrupt${kinds.indexOf(pool.corruption[d]) % 3}` : "sound");
    const keys = [["target", "target"], ["sound", "sound source"], ...kinds.map((kind, i) => [`corrupt${i % 3}`, kind])];
    return { colours: demo.map((d) => colour(named(d))), keys };
  }
  return { colours: demo.map((d) => colour(domainOf(run.pool, d).colour)),
    keys: pool.domains.map((domain) => [domain.colour, domain.target && domain.name !== "target" ? `${domain.name} (target)` : domain.name]) };
}

function drawMaps() {
  if (mapState.space === null) return;
  const run = DATA.runs[mapState.run];
  const pool = DATA.pools[run.pool];
  const { colours, keys, range, label } = mapColours();
  const ink = getComputedStyle(document.documentElement).getPropertyValue("--ink").trim();
  document.querySelectorAll(".map-panel canvas").forEach((canvas) => {
    const flat = run.map.spaces[mapState.space][canvas.dataset.when];
    const size = Math.max(canvas.clientWidth, 120), ratio = devicePixelRatio || 1;
    canvas.width = canvas.height = Math.round(size * ratio);
    const pen = canvas.getContext("2d");
    pen.scale(ratio, ratio);
    const count = flat.length / 2;
    const xs = [], ys = [];
    for (let i = 0; i < count; i++) { xs.push(flat[2 * i]); ys.push(flat[2 * i + 1]); }
    const span = (values) => { let low = Infinity, high = -Infinity; for (const v of values) { low = Math.min(low, v); high = Math.max(high, v); } return [low, high - low || 1]; };
    const [x0, xr] = span(xs), [y0, yr] = span(ys);
    const places = xs.map((x, i) => [10 + ((x - x0) / xr) * (size - 20), size - 10 - ((ys[i] - y0) / yr) * (size - 20)]);
    mapState.places[canvas.dataset.when] = places;
    const dot = (i, radius) => { pen.beginPath(); pen.arc(places[i][0], places[i][1], radius, 0, 7); pen.fill(); };
    const radius = count > 600 ? 2.4 : 3.4;
    pen.globalAlpha = mapState.hover === null ? 0.8 : 0.3;
    // Source first, so that the few target windows are not buried.
    for (const last of [false, true]) {
      for (let i = 0; i < count; i++) {
        if (domainOf(run.pool, pool.points.demo[i]).target !== last) continue;
        pen.fillStyle = colours[i];
        dot(i, last ? radius + 0.5 : radius);
      }
    }
    const of = mapState.hover !== null ? pool.points.demo[mapState.hover] : chosenDemo && chosenDemo.pool === run.pool ? chosenDemo.demo : null;
    if (of !== null) {
      pen.globalAlpha = 1;
      for (let i = 0; i < count; i++) {
        if (pool.points.demo[i] !== of) continue;
        pen.fillStyle = ink; dot(i, radius + 2.2);
        pen.fillStyle = colours[i]; dot(i, radius + 0.8);
      }
    }
    if (mapState.hover !== null) {
      pen.strokeStyle = ink; pen.lineWidth = 2;
      pen.beginPath(); pen.arc(...places[mapState.hover], 8, 0, 7); pen.stroke();
    }
  });
  const legendPlace = document.getElementById("map-legend");
  if (keys) {
    legendPlace.replaceChildren(...keys.map(([colour, text]) => {
      const key = make("i", {});
      key.style.background = paint(colour);
      return make("span", {}, key, text);
    }));
  } else {
    const bar = make("i", { class: "ramp" });
    bar.style.background = `linear-gradient(90deg, ${RAMP.map((c) => `rgb(${c})`).join(",")})`;
    const end = (value) => (typeof value === "number" ? format(value) : value);
    legendPlace.replaceChildren(make("span", {}, `${label} ${end(range[0])}`, bar, `${end(range[1])}`));
  }
}

function pointAt(canvas, event) {
  const box = canvas.getBoundingClientRect();
  const x = event.clientX - box.left, y = event.clientY - box.top;
  let best = null, nearest = 18 * 18;
  (mapState.places[canvas.dataset.when] || []).forEach(([px, py], i) => {
    const distance = (px - x) ** 2 + (py - y) ** 2;
    if (distance < nearest) [best, nearest] = [i, distance];
  });
  return best;
}

function showPoint(i) {
  const run = DATA.runs[mapState.run];
  const pool = DATA.pools[run.pool];
  const demo = pool.points.demo[i], time = pool.points.time[i];
  const { columns, frames } = pool.sheet;
  const sheet = pool.sheets[Math.floor(i / frames)];
  const inside = i % frames;
  const held = Math.min(frames, pool.points.demo.length - Math.floor(i / frames) * frames);
  const parts = [];
  if (sheet) parts.push(frame(sheet, inside % columns, columns, Math.floor(inside / columns), Math.ceil(held / columns), pool.aspect));
  const text = make("div", {}, make("h4", {}, demoTitle(run.pool, demo)), make("p", {}, `step ${time} of ${pool.length[demo] - 1}`));
  if (run.map.weight) text.append(make("p", {}, present(run.map.weight[i]) ? `weight ${short(run.map.weight[i])}` : "no weight in this run"));
  const corruption = corruptionOf(run.pool, demo);
  if (corruption) text.append(make("p", {}, `known corruption: ${corruption}`));
  document.getElementById("map-card").replaceChildren(...parts, text);
}

function startMap() {
  if (!mapRuns.length) return;
  const controls = { run: document.getElementById("map-run"), space: document.getElementById("map-space"), colour: document.getElementById("map-colour") };
  const update = () => {
    mapState.run = Number(controls.run.value);
    mapState.space = controls.space.value;
    if (!(mapState.space in DATA.runs[mapState.run].map.spaces)) mapState.space = Object.keys(DATA.runs[mapState.run].map.spaces)[0];
    mapState.colour = controls.colour.value;
    const run = DATA.runs[mapState.run];
    controls.colour.querySelector('[value="weight"]').disabled = !run.map.weight;
    controls.colour.querySelector('[value="corruption"]').disabled = !DATA.pools[run.pool].corruption;
    if (controls.colour.selectedOptions[0].disabled) { controls.colour.value = mapState.colour = "domain"; }
    drawMaps();
  };
  // The run with weights is the one to look at first.
  if (mapRuns.includes(chosenRun)) controls.run.value = `${chosenRun}`;
  Object.values(controls).forEach((control) => control.addEventListener("change", update));
  document.querySelectorAll(".map-panel canvas").forEach((canvas) => {
    whenPointed(canvas, (event) => {
      const found = pointAt(canvas, event);
      if (found === mapState.hover) return;
      mapState.hover = found;
      if (found !== null) showPoint(found);
      drawMaps();
    });
    canvas.addEventListener("pointerleave", (event) => { if (event.pointerType !== "touch") { mapState.hover = null; drawMaps(); } });
    canvas.addEventListener("click", (event) => {
      const found = pointAt(canvas, event);
      if (found === null) return;
      const { pool } = DATA.runs[mapState.run];
      const points = DATA.pools[pool].points;
      selectDemo(pool, points.demo[found], points.time[found]);
    });
  });
  update();
}
