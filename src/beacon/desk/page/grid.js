// The grid of thumbnails: only what is in view exists, so that thousands scroll like ten.
import { clamp, make, short } from "./talk.js";

const WIDTH = 150, HEIGHT = 152, BEYOND = 2; // pixels of a cell, rows kept above and below the view

export class Grid {
  constructor(root, space, { badge, isTarget, open, chosen }) {
    Object.assign(this, { root, space, badge, isTarget, open, chosen, order: [], demos: [], at: 0, cells: new Map() });
    this.resizing = new ResizeObserver(() => this.draw());
    this.resizing.observe(root);
    root.addEventListener("scroll", () => this.schedule(), { passive: true });
    space.addEventListener("click", (event) => {
      const cell = event.target.closest(".cell");
      if (cell) { this.choose(Number(cell.dataset.place)); this.open(); }
    });
  }

  get columns() { return Math.max(1, Math.floor(this.root.clientWidth / WIDTH)); }
  get demo() { return this.order.length ? this.order[this.at] : null; }

  show(demos, order) {
    const before = this.demo;
    this.demos = demos;
    this.order = order;
    this.at = clamp(Math.max(0, order.indexOf(before)), 0, Math.max(0, order.length - 1));
    for (const cell of this.cells.values()) cell.remove();
    this.cells.clear();
    this.draw();
    this.reveal();
  }

  schedule() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => { this.waiting = false; this.draw(); });
  }

  draw() {
    const { columns } = this;
    const width = Math.floor(this.root.clientWidth / columns);
    this.space.style.height = `${Math.ceil(this.order.length / columns) * HEIGHT}px`;
    const first = Math.max(0, (Math.floor(this.root.scrollTop / HEIGHT) - BEYOND) * columns);
    const rows = Math.ceil(this.root.clientHeight / HEIGHT) + 2 * BEYOND + 1;
    const last = Math.min(this.order.length, first + rows * columns);
    for (const [place, cell] of this.cells) {
      if (place < first || place >= last) { cell.remove(); this.cells.delete(place); }
    }
    for (let place = first; place < last; place += 1) {
      const cell = this.cells.get(place) || this.add(place);
      cell.style.width = `${width}px`;
      cell.style.height = `${HEIGHT}px`;
      cell.style.transform = `translate(${(place % columns) * width}px, ${Math.floor(place / columns) * HEIGHT}px)`;
    }
    this.mark();
  }

  add(place) {
    const number = this.order[place], demo = this.demos[number];
    const cell = make("div", { class: "cell", id: `cell-${place}`, role: "option" });
    cell.dataset.place = place;
    const picture = make("img", { alt: "", decoding: "async", src: `thumbnails/${number}` });
    picture.addEventListener("error", () => { picture.style.visibility = "hidden"; });
    const label = make("div", { class: "label", title: demo.name }, make("span", { class: "badge" }), make("span", {}, demo.name));
    const numbers = [this.isTarget(number) ? "target" : null, demo.weight === null ? null : `weight ${short(demo.weight)}`,
      demo.score === null ? null : `score ${short(demo.score)}`].filter(Boolean).join(" · ") || `${demo.length} steps`;
    cell.append(make("div", {}, picture, label,
      make("div", { class: demo.accused ? "numbers accused" : "numbers", title: demo.reason }, numbers)));
    this.space.append(cell);
    this.cells.set(place, cell);
    this.decorate(cell, number);
    return cell;
  }

  decorate(cell, number) {
    const { word, decision } = this.badge(number);
    const badge = cell.querySelector(".badge");
    badge.textContent = word ? `${word} ` : "";
    badge.className = `badge ${decision || ""}`;
    cell.className = `cell decided-${decision || "none"}`;
  }

  refresh() {
    for (const [place, cell] of this.cells) this.decorate(cell, this.order[place]);
  }

  mark() {
    for (const [place, cell] of this.cells) cell.setAttribute("aria-selected", place === this.at);
    if (this.order.length) this.root.setAttribute("aria-activedescendant", `cell-${this.at}`);
  }

  choose(place) {
    if (!this.order.length) return;
    this.at = clamp(place, 0, this.order.length - 1);
    this.reveal();
    this.chosen();
  }

  chooseDemo(number) {
    const place = this.order.indexOf(number);
    if (place >= 0) this.choose(place);
    return place >= 0;
  }

  reveal() {
    const top = Math.floor(this.at / this.columns) * HEIGHT, { scrollTop, clientHeight } = this.root;
    if (top < scrollTop) this.root.scrollTop = top;
    else if (top + HEIGHT > scrollTop + clientHeight) this.root.scrollTop = top + HEIGHT - clientHeight;
    this.draw();
  }
}
