// Theme, first drawing, redrawing, and following a run that goes on.
const root = document.documentElement;
const themeButton = document.getElementById("theme");
function setTheme(theme) {
  root.dataset.theme = theme;
  themeButton.textContent = theme === "dark" ? "Light" : "Dark";
  drawMaps();
}
function storedTheme() {
  try { return localStorage.getItem("beacon-theme"); } catch { return null; }
}
const prefersDark = matchMedia("(prefers-color-scheme: dark)");
prefersDark.addEventListener("change", () => { if (!storedTheme()) setTheme(prefersDark.matches ? "dark" : "light"); });
themeButton.addEventListener("click", () => {
  const theme = root.dataset.theme === "dark" ? "light" : "dark";
  try { localStorage.setItem("beacon-theme", theme); } catch { /* a page from a file may have no storage */ }
  setTheme(theme);
});

// Parts of the page and what draws them. On a large page a part is drawn when it comes near the screen.
const parts = new Map([...document.querySelectorAll("figure[data-figure]")].map((place) => [place, () => drawFigure(place)]));
const gallerySection = document.getElementById("gallery"), mapSection = document.getElementById("map");
if (gallerySection) parts.set(gallerySection, drawGallery);
const lazy = document.body.dataset.lazy === "yes";
const waiting = new Set(lazy ? [...parts.keys(), mapSection].filter(Boolean) : []);
function drawPart(place) {
  if (place === mapSection) startMap();
  else parts.get(place)();
}
function drawEverything() {
  parts.forEach((draw, place) => { if (!waiting.has(place)) draw(); });
}
function drawWaiting(places) {
  for (const place of places) if (waiting.delete(place)) drawPart(place);
  markChosen();
}
if (lazy) {
  const near = new IntersectionObserver((entries) => drawWaiting(entries.filter((entry) => entry.isIntersecting).map((entry) => entry.target)), { rootMargin: "800px" });
  waiting.forEach((place) => near.observe(place));
  addEventListener("beforeprint", () => drawWaiting([...waiting]));
}
const galleryRun = document.getElementById("gallery-run");
if (galleryRun) {
  galleryRun.value = `${chosenRun}`;
  galleryRun.addEventListener("change", () => { chosenRun = Number(galleryRun.value); drawEverything(); markChosen(); if (chosenDemo) drawViewer(null); });
}
document.addEventListener("keydown", (event) => { if (event.key === "Escape" && chosenDemo) closeViewer(); });
setTheme(storedTheme() || (prefersDark.matches ? "dark" : "light"));
drawEverything();
if (!waiting.has(mapSection)) startMap();

let lastWidth = innerWidth, pending = 0;
addEventListener("resize", () => {
  if (innerWidth === lastWidth) return;
  lastWidth = innerWidth;
  clearTimeout(pending);
  pending = setTimeout(() => { drawEverything(); drawMaps(); markChosen(); }, 150);
});

if (DATA.live) {
  let version = null;
  try { scrollTo(0, Number(sessionStorage.getItem("beacon-scroll") || 0)); } catch { /* no storage */ }
  const note = document.getElementById("live");
  note.textContent = " · live";
  setInterval(async () => {
    try {
      const answer = await (await fetch("version", { cache: "no-store" })).text();
      note.textContent = " · live";
      if (version !== null && answer !== version && !chosenDemo) {
        try { sessionStorage.setItem("beacon-scroll", `${scrollY}`); } catch { /* no storage */ }
        location.reload();
      }
      version = version ?? answer;
    } catch { note.textContent = " · the server is gone"; }
  }, 3000);
}
root.dataset.drawn = "yes";
