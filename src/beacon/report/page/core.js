"use strict";
// Small helpers that all parts share. Text from datasets only ever becomes text nodes.
const DATA = JSON.parse(document.getElementById("data").textContent);
// Pictures are most of a page: each block of them is read when it is first looked at.
DATA.pools.forEach((pool, number) => ["strips", "sheets"].forEach((kind) => {
  let held = null;
  Object.defineProperty(pool, kind, { get: () => (held ??= JSON.parse(document.getElementById(`${kind}-${number}`).textContent)) });
}));
const SVG = "http://www.w3.org/2000/svg";

function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "class") element.className = value;
    else if (key in element && key !== "style") element[key] = value;
    else element.setAttribute(key, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

function draw(name, attributes = {}, parent = null, text = null) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== null) element.textContent = text;
  if (parent) parent.appendChild(element);
  return element;
}

const paint = (colour) => `var(--${colour})`;
const present = (value) => value !== null && value !== undefined;
const clamp = (value, low, high) => Math.min(Math.max(value, low), high);

function format(value, axis = null) {
  if (!present(value)) return "none";
  if (axis && axis.percent) return `${+(100 * value).toPrecision(3)}`;
  const size = Math.abs(value);
  if (size >= 1e6) return `${+(value / 1e6).toPrecision(3)}M`;
  if (size >= 1e4) return `${+(value / 1e3).toPrecision(3)}k`;
  if (size !== 0 && size < 1e-3) return value.toExponential(1);
  return `${+value.toPrecision(4)}`;
}

const short = (value) => `${+value.toPrecision(3)}`;

function ticks(low, high, count) {
  const raw = (high - low) / Math.max(count, 1);
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = power * [1, 2, 2.5, 5, 10].find((factor) => factor * power >= raw * 0.999);
  const found = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++) found.push(+(i * step).toPrecision(12));
  return found;
}

function logTicks(low, high) {
  const found = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++) {
    for (const factor of [1, 2, 5]) {
      const value = factor * 10 ** power;
      if (value >= low * 0.999 && value <= high * 1.001) found.push(value);
    }
  }
  return found.length > 6 ? found.filter((value) => Math.abs(Math.log10(value) % 1) < 1e-9) : found;
}

// A scale from data to pixels; a log scale falls back to a linear one where values are not positive.
function makeScale(axis, values, from, to, zero = false) {
  let finite = values.filter(present);
  let log = axis.log && finite.length > 0 && finite.every((value) => value > 0);
  let low = Math.min(...finite), high = Math.max(...finite);
  if (!finite.length) [low, high] = [0, 1];
  if (axis.limits) [low, high] = axis.limits;
  else if (log) {
    if (high / low < 1.5) [low, high] = [low / 1.3, high * 1.3];
  } else {
    if (zero) low = Math.min(0, low);
    if (high === low) [low, high] = low === 0 ? [0, 1] : [low - Math.abs(low) / 2, high + Math.abs(high) / 2];
    const margin = (high - low) * 0.04;
    if (!(zero && low === 0)) low -= margin;
    high += margin;
  }
  const warp = log ? Math.log10 : (value) => value;
  const [a, b] = [warp(low), warp(high)];
  const scale = (value) => from + ((warp(value) - a) / (b - a)) * (to - from);
  scale.ticks = log ? logTicks(low, high) : ticks(low, high, Math.abs(to - from) / 62);
  scale.invert = (pixel) => { const v = a + ((pixel - from) / (to - from)) * (b - a); return log ? 10 ** v : v; };
  scale.low = low; scale.high = high;
  return scale;
}

const tooltip = document.getElementById("tooltip");
function showTooltip(event, ...content) {
  tooltip.replaceChildren(...content);
  tooltip.hidden = false;
  const { width, height } = tooltip.getBoundingClientRect();
  const x = event.clientX + 14 + width > innerWidth ? event.clientX - width - 14 : event.clientX + 14;
  const y = event.clientY + 14 + height > innerHeight ? event.clientY - height - 10 : event.clientY + 14;
  tooltip.style.left = `${Math.max(4, x)}px`;
  tooltip.style.top = `${Math.max(4, y)}px`;
}
const hideTooltip = () => { tooltip.hidden = true; };
// A mouse points by moving, a finger by touching; what a finger has shown stays until the next touch or scroll.
function whenPointed(element, show, hide = null) {
  element.addEventListener("pointermove", show);
  element.addEventListener("pointerdown", show);
  if (hide) element.addEventListener("pointerleave", (event) => { if (event.pointerType !== "touch") hide(); });
}
document.addEventListener("pointerdown", hideTooltip, true);
document.addEventListener("scroll", hideTooltip, { passive: true });

// Viridis, readable by everybody and on both backgrounds.
const RAMP = [[68, 1, 84], [71, 44, 122], [59, 81, 139], [44, 113, 142], [33, 144, 141], [39, 173, 129], [92, 200, 99], [170, 220, 50], [253, 231, 37]];
function ramp(share) {
  const place = clamp(share, 0, 1) * (RAMP.length - 1);
  const [a, b] = [RAMP[Math.floor(place)], RAMP[Math.ceil(place)]];
  const mix = a.map((value, i) => Math.round(value + (b[i] - value) * (place % 1)));
  return `rgb(${mix.join(",")})`;
}

// One frame of a sprite as the background of an element.
function frame(sprite, column, columns, row, rows, aspect, className = "frame") {
  const element = make("div", { class: className });
  element.style.aspectRatio = `${aspect}`;
  setFrame(element, sprite, column, columns, row, rows);
  return element;
}
function setFrame(element, sprite, column, columns, row, rows) {
  if (!sprite) return;
  element.style.backgroundImage = `url("${sprite}")`;
  element.style.backgroundSize = `${100 * columns}% ${100 * rows}%`;
  const x = columns > 1 ? (100 * column) / (columns - 1) : 0;
  const y = rows > 1 ? (100 * row) / (rows - 1) : 0;
  element.style.backgroundPosition = `${x}% ${y}%`;
}
