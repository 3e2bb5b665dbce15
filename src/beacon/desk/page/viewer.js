// One demonstration large: its films, those of its nearest target demonstration, curves and reasons.
import { drawPanels } from "./curves.js";
import { Frames } from "./frames.js";
import { clamp, getJson, make, short } from "./talk.js";

const part = (id) => document.getElementById(id);

export class Viewer {
  constructor({ title, stateOf }) {
    Object.assign(this, { title, stateOf, frames: new Frames(), own: null, other: null, step: 0, playing: false, wanted: null });
    part("time").addEventListener("input", () => { this.pause(); this.seek(Number(part("time").value)); });
    part("play").addEventListener("click", () => this.toggle());
  }

  get isOpen() { return !part("viewer").hidden; }

  async open(demo) {
    part("viewer").hidden = false;
    document.body.classList.add("viewing");
    if (this.own && this.own.number === demo) { this.tell(); return; }
    this.pause();
    this.wanted = demo;
    const own = await getJson(`demos/${demo}`);
    const other = own.nearest ? await getJson(`demos/${own.nearest.demo}`) : null;
    if (this.wanted !== demo) return; // another was chosen meanwhile
    Object.assign(this, { own, other, step: 0 });
    this.draw();
  }

  close() {
    this.pause();
    this.wanted = null;
    part("viewer").hidden = true;
    document.body.classList.remove("viewing");
  }

  draw() {
    const { own, other } = this;
    part("viewer").scrollTop = 0;
    this.films = [this.film(part("own"), own, this.title(own.number)),
      other ? this.film(part("other"), other, `nearest target by ${own.nearest.by}: ${this.title(other.number)}`) : this.clear(part("other"))];
    part("time").max = Math.max(0, own.length - 1);
    this.moveCursor = drawPanels(part("panels"), own, other, (share) => { this.pause(); this.seek(Math.round(share * (own.length - 1))); });
    this.drawReasons();
    part("attributes").replaceChildren(...Object.entries(own.attributes).flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]));
    this.tell();
    this.seek(0);
    part("viewer").dataset.demo = own.number;
  }

  clear(place) { place.replaceChildren(); return []; }

  film(place, demo, title) {
    const canvases = demo.cameras.map((camera) => make("canvas", { width: 1, height: 1, title: camera }));
    const none = demo.cameras.length ? null : make("p", {}, "It has no camera.");
    place.replaceChildren(make("h3", {}, title), make("div", { class: "cameras" }, none,
      ...canvases.map((canvas) => make("figure", {}, canvas, make("figcaption", {}, canvas.title)))));
    return canvases;
  }

  drawReasons() {
    const { own } = this, last = Math.max(1, own.length - 1);
    const ranged = own.evidence.filter((item) => item.frames);
    part("marks").replaceChildren(...ranged.map((item) => {
      const mark = make("span", { class: item.fault ? "fault" : "remark", title: item.text });
      mark.style.left = `${(clamp(item.frames[0], 0, last) / last) * 100}%`;
      mark.style.width = `${((clamp(item.frames[1], 0, last) - clamp(item.frames[0], 0, last)) / last) * 100}%`;
      return mark;
    }));
    part("reasons").replaceChildren(...own.evidence.map((item) => {
      const line = make("li", { class: item.fault ? "fault" : "remark" }, item.text);
      if (item.frames) {
        const go = make("button", { type: "button" }, `step ${item.frames[0]}`);
        go.addEventListener("click", () => { this.pause(); this.seek(item.frames[0]); });
        line.append(go);
      }
      return line;
    }));
  }

  // What is decided about it now.
  tell() {
    if (!this.own) return;
    const { number, length, rate } = this.own, { demo, state } = this.stateOf(number);
    part("name").textContent = this.title(number);
    part("facts").textContent = [`${length} steps at ${short(rate)} a second`,
      demo.weight === null ? null : `weight ${short(demo.weight)}`,
      demo.score === null ? null : `score ${short(demo.score)} (p ${short(this.own.pValue)})${demo.accused ? ", accused" : ""}`,
    ].filter(Boolean).join(" · ");
    const words = state && state.decision ? `${state.decision} by ${state.who}, ${new Date(state.when).toLocaleString()}` : "undecided";
    part("decision").textContent = state && state.note ? `${words} · note: ${state.note}` : words;
    part("decision").className = (state && state.decision) || "";
  }

  seek(step) {
    if (!this.own) return;
    this.step = clamp(step, 0, Math.max(0, this.own.length - 1));
    const share = this.step / Math.max(1, this.own.length - 1);
    part("time").value = this.step;
    part("step").textContent = `${this.step} / ${Math.max(0, this.own.length - 1)}`;
    this.moveCursor(share);
    this.paint(this.own, this.films[0], this.step);
    if (this.other) this.paint(this.other, this.films[1], Math.round(share * Math.max(0, this.other.length - 1)));
  }

  paint(demo, canvases, step) {
    const { own } = this;
    canvases.forEach((canvas, camera) => {
      const again = () => { if (this.own === own) this.paintSoon(); };
      const picture = this.frames.get(demo.number, camera, step, demo.length, again);
      if (!picture) return;
      if (canvas.width !== picture.width || canvas.height !== picture.height) Object.assign(canvas, { width: picture.width, height: picture.height });
      canvas.getContext("2d").drawImage(picture, 0, 0);
      canvas.dataset.step = step;
    });
  }

  paintSoon() {
    if (this.painting) return;
    this.painting = true;
    requestAnimationFrame(() => { this.painting = false; if (this.isOpen) this.seek(this.step); });
  }

  toggle() { if (this.playing) this.pause(); else this.play(); }

  play() {
    if (!this.own) return;
    const start = this.step >= this.own.length - 1 ? 0 : this.step;
    const began = performance.now();
    this.playing = true;
    part("play").textContent = "Pause";
    const run = (now) => {
      if (!this.playing) return;
      const step = start + Math.floor(((now - began) / 1000) * this.own.rate);
      if (step !== this.step) this.seek(step);
      if (this.step >= this.own.length - 1) this.pause();
      else requestAnimationFrame(run);
    };
    requestAnimationFrame(run);
  }

  pause() {
    this.playing = false;
    part("play").textContent = "Play";
  }
}
