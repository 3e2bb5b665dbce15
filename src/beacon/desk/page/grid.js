// The grid of thumbnails: only what is in view exists, so that thousands scroll like ten.
import { clamp, make, short } from "./talk.js";

const WIDTH = 150, HEIGHT = 152, BEYOND = 2; // pixels of a cell, rows kept above and below the view
const PICTURES = 4; // asked for in a frame of the browser, so that scrolling does not wait for them

export class Grid {
  constructor(root, space, { badge, isTarget, open, chosen }) {
    Object.assign(this, { root, space, badge, isTarget, open, chosen, order: [], demos: [], at: 0, cells: new Map(), pending: [] });
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
    // Everything is read before anything is written: the browser lays the page out once a frame.
    const { columns } = this, { clientWidth, clientHeight, scrollTop } = this.root;
    const width = Math.floor(clientWidth / columns), height = Math.ceil(this.order.length / columns) * HEIGHT;
    if (height !== this.height) this.space.style.height = `${height}px`;
    this.height = height;
    const first = Math.max(0, (Math.floor(scrollTop / HEIGHT) - BEYOND) * columns);
    const rows = Math.ceil(clientHeight / HEIGHT) + 2 * BEYOND + 1;
    const last = Math.min(this.order.length, first + rows * columns);
    for (const [place, cell] of this.cells) {
      if (place < first || place >= last) { cell.remove(); this.cells.delete(place); }
    }
    const layout = `${columns}×${width}`;
    for (let place = first; place < last; place += 1) {
      const cell = this.cells.get(place) || this.add(place);
      if (cell.dataset.layout === layout) continue; // it stays where it is
      cell.dataset.layout = layout;
      cell.style.width = `${width}px`;
      cell.style.height = `${HEIGHT}px`;
      cell.style.transform = `translate(${(place % columns) * width}px, ${Math.floor(place / columns) * HEIGHT}px)`;
    }
    this.mark();
  }

  // Some pictures that are still wanted, the latest first; the rest in the next frames.
  load() {
    this.pending = this.pending.filter(([picture]) => picture.isConnected);
    for (const [picture, source] of this.pending.splice(-PICTURES)) picture.src = source;
    this.loading = this.pending.length > 0;
    if (this.loading) requestAnimationFrame(() => this.load());
  }

  add(place) {
    const number = this.order[place], demo = this.demos[number];
    const cell = make("div", { class: "cell", id: `cell-${place}`, role: "option" });
    cell.dataset.place = place;
    const picture = make("img", { alt: "", decoding: "async" });
    this.pending.push([picture, `thumbnails/${number}`]);
    if (!this.loading) { this.loading = true; requestAnimationFrame(() => this.load()); }
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
    for (const [place, cell] of this.cells) {
      const selected = String(place === this.at);
      if (cell.getAttribute("aria-selected") !== selected) cell.setAttribute("aria-selected", selected);
    }
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
