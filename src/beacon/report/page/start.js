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

const figurePlaces = [...document.querySelectorAll("figure[data-figure]")];
function drawEverything() {
  figurePlaces.forEach(drawFigure);
  drawGallery();
}
const galleryRun = document.getElementById("gallery-run");
if (galleryRun) {
  galleryRun.value = `${chosenRun}`;
  galleryRun.addEventListener("change", () => { chosenRun = Number(galleryRun.value); drawEverything(); markChosen(); if (chosenDemo) drawViewer(null); });
}
document.addEventListener("keydown", (event) => { if (event.key === "Escape" && chosenDemo) closeViewer(); });
setTheme(storedTheme() || (prefersDark.matches ? "dark" : "light"));
drawEverything();
startMap();

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
