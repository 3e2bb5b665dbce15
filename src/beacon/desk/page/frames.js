// Frames of films, fetched some at a time and forgotten when there are too many.
import { getBytes } from "./talk.js";

const AT_ONCE = 16, MOST = 60; // frames in a request, requests that are remembered

export class Frames {
  constructor() { this.parts = new Map(); }

  // The picture of a step if it is here; otherwise it is fetched, and `arrived` is called.
  get(demo, camera, step, length, arrived) {
    const part = Math.floor(step / AT_ONCE), key = `${demo}/${camera}/${part}`;
    const known = this.parts.get(key);
    if (part * AT_ONCE + AT_ONCE < length && step % AT_ONCE > AT_ONCE / 2) this.fetch(demo, camera, part + 1);
    if (!known) this.fetch(demo, camera, part, arrived);
    else if (!known.pictures) known.waiting.push(arrived); // it is on its way, asked for ahead
    if (!known || !known.pictures) return null;
    this.parts.delete(key); // to the end: the first in the map is forgotten first
    this.parts.set(key, known);
    return known.pictures[step % AT_ONCE] || null;
  }

  async fetch(demo, camera, part, ...waiting) {
    const key = `${demo}/${camera}/${part}`;
    if (this.parts.has(key)) return;
    const entry = { pictures: null, waiting };
    this.parts.set(key, entry);
    try {
      const bytes = await getBytes(`frames/${demo}/${camera}/${part * AT_ONCE}/${AT_ONCE}`);
      const view = new DataView(bytes), blobs = [];
      for (let at = 0; at + 4 <= bytes.byteLength;) {
        const size = view.getUint32(at);
        blobs.push(new Blob([bytes.slice(at + 4, at + 4 + size)], { type: "image/jpeg" }));
        at += 4 + size;
      }
      entry.pictures = await Promise.all(blobs.map((blob) => createImageBitmap(blob)));
    } catch {
      entry.pictures = []; // what went wrong is on the page; asked again when it is shown anew
      setTimeout(() => this.parts.delete(key), 2000);
    }
    while (this.parts.size > MOST) {
      const [oldest, { pictures }] = this.parts.entries().next().value;
      (pictures || []).forEach((picture) => picture.close());
      this.parts.delete(oldest);
    }
    for (const arrived of entry.waiting.splice(0)) arrived();
  }
}
