// The desk: what is shown in which order, keys, decisions.
import { Grid } from "./grid.js";
import { complain, getJson, make, post } from "./talk.js";
import { Viewer } from "./viewer.js";

const part = (id) => document.getElementById(id);
const WORDS = { keep: "kept", drop: "dropped", repair: "repair" };
const UNDO = "beacon-desk-undo"; // in the tab's own storage: what this window decided, also after a reload
const EVERY = 2000; // milliseconds between two looks at what others decided

const data = await getJson("overview");
let version = data.version, states = new Map(data.decided.map((state) => [state.demo, state]));

const title = (number) => `${data.datasets[data.demos[number].dataset].name} · ${data.demos[number].name}`;
const stateOf = (number) => ({ demo: data.demos[number], state: states.get(number) });
const viewer = new Viewer({ title, stateOf });
const grid = new Grid(part("grid"), part("space"), {
  badge: (number) => {
    const state = states.get(number), decision = state && state.decision;
    return { decision, word: decision ? WORDS[decision] : state && state.note ? "note" : "" };
  },
  isTarget: (number) => data.datasets[data.demos[number].dataset].target,
  open: () => look(),
  chosen: () => { if (viewer.isOpen) look(); },
});

const ORDERS = {
  "as stored": null,
  "weight, lowest first": (a, b) => (a.weight ?? Infinity) - (b.weight ?? Infinity),
  "weight, highest first": (a, b) => (b.weight ?? -Infinity) - (a.weight ?? -Infinity),
  "score, worst first": (a, b) => (b.score ?? -Infinity) - (a.score ?? -Infinity),
  "length": (a, b) => a.length - b.length,
  "name": (a, b) => a.name.localeCompare(b.name, undefined, { numeric: true }),
};
const decisionOf = (number) => states.get(number)?.decision;
const FILTERS = {
  "all": () => true,
  "undecided": (number) => !decisionOf(number),
  "decided": (number) => Boolean(decisionOf(number)),
  "kept": (number) => decisionOf(number) === "keep",
  "dropped": (number) => decisionOf(number) === "drop",
  "to be repaired": (number) => decisionOf(number) === "repair",
  "with a note": (number) => Boolean(states.get(number)?.note),
  "accused": (number) => data.demos[number].accused,
};

function prepareControls() {
  const orders = Object.keys(ORDERS).filter((name) =>
    (data.hasWeights || !name.startsWith("weight")) && (data.hasScores || !name.startsWith("score")));
  part("sort").append(...orders.map((name) => make("option", {}, name)));
  part("sort").value = data.hasScores ? "score, worst first" : data.hasWeights ? "weight, lowest first" : "as stored";
  const filters = Object.keys(FILTERS).filter((name) => name !== "accused" || data.hasScores);
  const sets = data.datasets.length > 1 ? data.datasets : [];
  part("show").append(...filters.map((name) => make("option", { value: name }, name)),
    ...sets.map((set, number) => make("option", { value: `set ${number}` }, set.target && set.name !== "target" ? `${set.name} (target)` : set.name)));
  for (const id of ["sort", "show"]) part(id).addEventListener("change", arrange);
  part("search").addEventListener("input", arrange);
}

function arrange() {
  const words = part("search").value.toLowerCase().split(/\s+/).filter(Boolean), shown = part("show").value;
  const keep = FILTERS[shown] || ((number) => data.demos[number].dataset === Number(shown.slice(4)));
  const order = data.demos.map((_, number) => number).filter((number) => {
    const demo = data.demos[number];
    const text = `${title(number)} ${demo.reason} ${states.get(number)?.note || ""}`.toLowerCase();
    return keep(number) && words.every((word) => text.includes(word));
  });
  const compare = ORDERS[part("sort").value];
  if (compare) order.sort((a, b) => compare(data.demos[a], data.demos[b]) || a - b);
  grid.show(data.demos, order);
  tellCount();
}

function tellCount() {
  const decided = [...states.values()].filter((state) => state.decision).length;
  part("count").textContent = `${grid.order.length} of ${data.demos.length} shown, ${decided} decided`;
}

async function look() {
  if (grid.demo !== null) await viewer.open(grid.demo).catch(() => {});
}

function back() {
  viewer.close();
  part("grid").focus();
  grid.draw();
  grid.reveal();
}

function take(answer) {
  if (answer.version === version) return;
  version = answer.version;
  states = new Map(answer.decided.map((state) => [state.demo, state]));
  grid.refresh();
  viewer.tell();
  tellCount();
}

const remembered = () => JSON.parse(sessionStorage.getItem(UNDO) || "[]");

async function decide(decision, note = "") {
  const demo = grid.demo;
  if (demo === null) return;
  const answer = await post("decisions", { demo, decision, note });
  sessionStorage.setItem(UNDO, JSON.stringify([...remembered(), { demo, id: answer.id }]));
  take(answer);
}

async function undo() {
  const list = remembered(), last = list.pop();
  if (!last) { complain("There is no decision of this window to take back."); return; }
  const answer = await post("decisions", { demo: last.demo, undo: last.id });
  sessionStorage.setItem(UNDO, JSON.stringify(list));
  take(answer);
  grid.chooseDemo(last.demo);
}

function writeNote() {
  if (grid.demo === null) return;
  part("note-text").value = states.get(grid.demo)?.note || "";
  part("note-dialog").returnValue = "";
  part("note-dialog").showModal();
}

const KEYS = {
  k: () => decide("keep"), d: () => decide("drop"), f: () => decide("repair"), n: writeNote, u: undo,
  "/": () => part("search").focus(),
  Enter: look,
  " ": async () => { if (viewer.isOpen) viewer.toggle(); else { await look(); viewer.play(); } },
  Escape: () => { if (viewer.isOpen) back(); },
  Home: () => grid.choose(0),
  End: () => grid.choose(grid.order.length - 1),
  ArrowUp: () => grid.choose(grid.at - (viewer.isOpen ? 1 : grid.columns)),
  ArrowDown: () => grid.choose(grid.at + (viewer.isOpen ? 1 : grid.columns)),
  ArrowLeft: (event) => move(event, -1),
  ArrowRight: (event) => move(event, 1),
};

function move(event, by) {
  if (!viewer.isOpen) { grid.choose(grid.at + by); return; }
  viewer.pause();
  viewer.seek(viewer.step + by * (event.shiftKey ? 10 : 1));
}

document.addEventListener("keydown", (event) => {
  const { target } = event, name = target.localName;
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  if (target === part("search") && (event.key === "Escape" || event.key === "Enter")) {
    part("grid").focus();
    event.preventDefault();
    return;
  }
  if (name === "textarea" || (name === "input" && target.type !== "range")) return;
  if (name === "select" && event.key !== "Escape") return;
  if (name === "button" && (event.key === " " || event.key === "Enter")) return;
  const action = KEYS[event.key.length === 1 ? event.key.toLowerCase() : event.key];
  if (!action) return;
  event.preventDefault();
  Promise.resolve(action(event)).catch(() => {}); // what went wrong is on the page
});

part("actions").addEventListener("click", (event) => {
  const { key } = event.target.dataset;
  if (key) Promise.resolve(KEYS[key](event)).catch(() => {});
});
part("close").addEventListener("click", back);
part("keys").addEventListener("click", () => part("keys-dialog").showModal());
part("note-text").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && event.ctrlKey) part("note-dialog").close("save");
});
part("note-dialog").addEventListener("close", () => {
  if (part("note-dialog").returnValue === "save") decide("note", part("note-text").value).catch(() => {});
});

setInterval(async () => {
  if (document.visibilityState === "visible") await getJson("decisions").then(take).catch(() => {});
}, EVERY);

prepareControls();
arrange();
part("grid").focus();
document.title = `${data.datasets.map((set) => set.name).join(", ")} – BEACON desk`;
document.documentElement.dataset.drawn = "yes";
