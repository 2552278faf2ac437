// The map: similar images lie near each other. Drag to move, scroll to zoom, draw around points to
// see their images. Points are written into the picture one by one: 50,000 take a few
// milliseconds, without a graphics card.

import { byId, formatNumber, make, notify } from "./dom.js";
import { tileUrl } from "./images.js";
import { Refused } from "./server.js";

const PALETTE = ["#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377"];
const OTHERS = "#8a8a8a";
const NO_LABEL = "#b9b9b9";
const SOURCE_NAMES = { pseudo: "by the run", given: "by a person", reviewed: "by a person, on this page", copied: "copy", "": "no label" };
const MAX_CORNERS = 150;
const NEAR_PIXELS = 8;
const ZOOM_STEP = 1.25;

export class ImageMap {
  #canvas = byId("map-canvas");
  #onSelect;
  #points = null;
  #view = { x: 0, y: 0, zoom: 1 };
  #mode = "select";
  #path = [];
  #last = null;
  #frame = 0;
  #picture = null;

  /** `onSelect(text)` gets the corners of what was drawn around, as x,y,x,y. */
  constructor(onSelect) {
    this.#onSelect = onSelect;
    const canvas = this.#canvas;
    canvas.onpointerdown = (event) => this.#onDown(event);
    canvas.onpointermove = (event) => this.#onMove(event);
    canvas.onpointerup = () => this.#onUp();
    canvas.onpointercancel = () => this.#cancel();
    canvas.onpointerleave = () => this.#hidePeek();
    canvas.addEventListener("wheel", (event) => this.#onWheel(event), { passive: false });
    canvas.onkeydown = (event) => this.#onKey(event);
    byId("map-select").onclick = () => this.#setMode("select");
    byId("map-move").onclick = () => this.#setMode("move");
    byId("map-in").onclick = () => this.#zoomAt(ZOOM_STEP);
    byId("map-out").onclick = () => this.#zoomAt(1 / ZOOM_STEP);
    byId("map-whole").onclick = () => this.#showWhole();
    byId("map-color").onchange = () => this.#paintColors();
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.#draw());
    new ResizeObserver(() => this.#resize()).observe(canvas);
  }

  showStatus({ state, text, done, total, has_map: hasMap, is_current: isCurrent }) {
    const isRunning = state === "running";
    byId("map-status").hidden = !isRunning && state !== "failed" && hasMap !== false;
    let said = text || "The map is about to be drawn";
    if (isRunning && hasMap && !isCurrent) said = `${said}. Until then you see the map of an earlier round`;
    byId("map-status-text").textContent = state === "idle" ? "" : `${said}${isRunning ? "…" : ""}`;
    byId("map-bar").hidden = !isRunning;
    byId("map-bar").max = Math.max(1, total);
    byId("map-bar").value = done;
  }

  /** Fetch the points, unless they are here; `isNew` fetches them in any case. */
  async load(isNew = false) {
    if (byId("gallery-map").hidden || (this.#points && !isNew)) {
      if (isNew) this.#points = null;
      this.#resize();
      return;
    }
    const response = await fetch("/api/map/points", { credentials: "same-origin" });
    if (!response.ok) {
      if (response.status === 422) throw new Refused((await response.json()).detail);
      throw new Error(response.statusText);
    }
    this.#points = unpack(await response.arrayBuffer());
    this.#describe();
    this.#resize();
    this.#paintColors();
  }

  /** Forget what was drawn around. */
  clear() {
    this.#path = [];
    this.#draw();
  }

  #describe() {
    const { n, n_images: all, n_landmarks: placed } = this.#points;
    const some = n < all ? ` ${formatNumber(n)} of them, at random, are shown.` : "";
    const rest = placed < all ? ` t-SNE placed ${formatNumber(placed)} random ones; every other image lies between the three of them most similar to it.` : "";
    byId("map-text").textContent = `${formatNumber(all)} images.${some}${rest} Images that are close look alike to the models; large distances mean little.`;
  }

  // Colors

  #paintColors() {
    if (!this.#points) return;
    const isSource = byId("map-color").value === "source";
    const { n, labels, sources, label, source } = this.#points;
    const numbers = isSource ? source : label;
    const names = isSource ? sources.map((name) => SOURCE_NAMES[name] ?? name) : labels;
    const counts = new Uint32Array(names.length);
    for (let i = 0; i < n; i += 1) counts[numbers[i]] += 1;
    const isNamed = (k) => counts[k] && (isSource ? sources[k] : names[k]);
    const ranked = [...counts.keys()].filter(isNamed).sort((a, b) => counts[b] - counts[a]);
    const colors = new Array(names.length).fill(NO_LABEL);
    ranked.forEach((k, place) => (colors[k] = PALETTE[place] ?? OTHERS));
    const packed = Uint32Array.from(colors, toPixel);
    this.#points.colors = Uint32Array.from({ length: n }, (_, i) => packed[numbers[i]]);
    this.#showLegend(ranked, names, colors);
    this.#draw();
  }

  #showLegend(ranked, names, colors) {
    const entry = (text, color) => {
      const swatch = make("span", { className: "swatch", "aria-hidden": "true" });
      swatch.style.background = color;
      return make("li", {}, swatch, text);
    };
    const shown = ranked.slice(0, PALETTE.length).map((k) => entry(names[k], colors[k]));
    const more = ranked.length - PALETTE.length;
    if (more > 0) shown.push(entry(`${more} other${more === 1 ? "" : "s"}`, OTHERS));
    byId("map-legend").replaceChildren(...shown, entry("no label", NO_LABEL));
  }

  // Drawing

  #resize() {
    const { clientWidth: width, clientHeight: height } = this.#canvas;
    if (!width || !height) return;
    const ratio = Math.min(devicePixelRatio, 2);
    const [w, h] = [Math.round(width * ratio), Math.round(height * ratio)];
    if (this.#canvas.width !== w || this.#canvas.height !== h || !this.#picture) {
      this.#canvas.width = w;
      this.#canvas.height = h;
      this.#picture = new ImageData(w, h);
    }
    this.#draw();
  }

  /** Pixels per unit of the map. */
  get #scale() {
    return 0.46 * Math.min(this.#canvas.width, this.#canvas.height) * this.#view.zoom;
  }

  #draw() {
    if (this.#frame) return;
    this.#frame = requestAnimationFrame(() => {
      this.#frame = 0;
      this.#drawNow();
    });
  }

  #drawNow() {
    if (!this.#points?.colors || !this.#picture) return;
    const { width, height } = this.#canvas;
    const pixels = new Uint32Array(this.#picture.data.buffer);
    const style = getComputedStyle(this.#canvas);
    pixels.fill(toPixel(style.getPropertyValue("--map-background").trim() || "#ffffff"));
    const { n, xy, colors } = this.#points;
    const scale = this.#scale;
    const [left, top] = [width / 2 - this.#view.x * scale, height / 2 - this.#view.y * scale];
    const ratio = width / this.#canvas.clientWidth;
    const usual = n > 10000 ? 2 : n > 2000 ? 4 : 7;
    const side = Math.round(ratio * usual * Math.min(2, Math.max(1, this.#view.zoom / 2)));
    for (let i = 0; i < n; i += 1) {
      const x = (left + xy[2 * i] * scale) | 0;
      const y = (top + xy[2 * i + 1] * scale) | 0;
      if (x < 0 || y < 0 || x + side > width || y + side > height) continue;
      const color = colors[i];
      for (let row = y; row < y + side; row += 1) {
        const start = row * width + x;
        for (let at = start; at < start + side; at += 1) pixels[at] = color;
      }
    }
    const context = this.#canvas.getContext("2d");
    context.putImageData(this.#picture, 0, 0);
    this.#drawPath(context, style.color, ratio);
  }

  #drawPath(context, color, ratio) {
    if (this.#path.length < 2) return;
    const shape = new Path2D();
    this.#path.forEach((point, place) => {
      const [x, y] = this.#toPixels(point);
      if (place) shape.lineTo(x, y);
      else shape.moveTo(x, y);
    });
    shape.closePath();
    context.strokeStyle = color;
    context.lineWidth = 2 * ratio;
    context.stroke(shape);
    context.globalAlpha = 0.12;
    context.fillStyle = color;
    context.fill(shape);
    context.globalAlpha = 1;
  }

  #toPixels([x, y]) {
    const { width, height } = this.#canvas;
    return [width / 2 + (x - this.#view.x) * this.#scale, height / 2 + (y - this.#view.y) * this.#scale];
  }

  #toMap({ offsetX, offsetY }) {
    const ratio = this.#canvas.width / this.#canvas.clientWidth;
    return [
      (offsetX * ratio - this.#canvas.width / 2) / this.#scale + this.#view.x,
      (offsetY * ratio - this.#canvas.height / 2) / this.#scale + this.#view.y,
    ];
  }

  // Moving and selecting

  #setMode(mode) {
    this.#mode = mode;
    byId("map-select").setAttribute("aria-pressed", mode === "select");
    byId("map-move").setAttribute("aria-pressed", mode === "move");
    this.#canvas.dataset.mode = mode;
  }

  #onDown(event) {
    if (!this.#points) return;
    this.#canvas.setPointerCapture(event.pointerId);
    this.#last = { x: event.offsetX, y: event.offsetY, isMove: this.#mode === "move" || event.button === 1 };
    if (!this.#last.isMove) this.#path = [this.#toMap(event)];
    this.#hidePeek();
  }

  #onMove(event) {
    if (!this.#last) {
      this.#peek(event);
      return;
    }
    if (this.#last.isMove) {
      const ratio = this.#canvas.width / this.#canvas.clientWidth;
      this.#view.x -= ((event.offsetX - this.#last.x) * ratio) / this.#scale;
      this.#view.y -= ((event.offsetY - this.#last.y) * ratio) / this.#scale;
      this.#last = { ...this.#last, x: event.offsetX, y: event.offsetY };
    } else this.#path.push(this.#toMap(event));
    this.#draw();
  }

  #onUp() {
    const wasMove = this.#last?.isMove;
    this.#last = null;
    if (wasMove || !this.#points) return;
    const [x0, y0] = this.#path[0] ?? [0, 0];
    const wide = this.#path.some(([x, y]) => Math.hypot(x - x0, y - y0) * this.#scale > NEAR_PIXELS);
    if (this.#path.length < 3 || !wide) {
      this.#path = [];
      this.#draw();
      notify("Draw around some points to see their images.");
      return;
    }
    this.#select(this.#path);
  }

  /** Show the images inside `corners`, if there are any. */
  #select(corners) {
    const { n, xy } = this.#points;
    let isEmpty = true;
    for (let i = 0; i < n && isEmpty; i += 1) isEmpty = !isInside(xy[2 * i], xy[2 * i + 1], corners);
    if (!isEmpty) {
      this.#onSelect(toText(corners));
      return;
    }
    notify("There is no image inside. Draw around some points.");
    this.#path = [];
    this.#draw();
  }

  #cancel() {
    this.#last = null;
    this.#path = [];
    this.#draw();
  }

  #onWheel(event) {
    if (!this.#points) return;
    event.preventDefault();
    this.#zoomAt(Math.exp(-event.deltaY / 400), this.#toMap(event));
  }

  /** Zoom so that the place `at` stays where it is. */
  #zoomAt(factor, [x, y] = [this.#view.x, this.#view.y]) {
    const zoom = Math.min(200, Math.max(0.5, this.#view.zoom * factor));
    const change = this.#view.zoom / zoom;
    this.#view = { x: x + (this.#view.x - x) * change, y: y + (this.#view.y - y) * change, zoom };
    this.#draw();
  }

  #showWhole() {
    this.#view = { x: 0, y: 0, zoom: 1 };
    this.#draw();
  }

  #onKey(event) {
    const step = 0.2 / this.#view.zoom;
    const moves = { ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, -step], ArrowDown: [0, step] };
    const move = moves[event.key];
    if (move) {
      this.#view.x += move[0];
      this.#view.y += move[1];
      this.#draw();
    } else if (event.key === "+" || event.key === "=") this.#zoomAt(ZOOM_STEP);
    else if (event.key === "-") this.#zoomAt(1 / ZOOM_STEP);
    else if (event.key === "Enter") this.#select(this.#corners());
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  /** The part of the map that is shown, as corners. */
  #corners() {
    const { clientWidth: w, clientHeight: h } = this.#canvas;
    const at = (offsetX, offsetY) => this.#toMap({ offsetX, offsetY });
    return [at(0, 0), at(w, 0), at(w, h), at(0, h)];
  }

  // The image under the pointer

  #nearest(event) {
    const { n, xy } = this.#points;
    const [x, y] = this.#toMap(event);
    const ratio = this.#canvas.width / this.#canvas.clientWidth;
    let best = -1;
    let least = ((NEAR_PIXELS * ratio) / this.#scale) ** 2;
    for (let i = 0; i < n; i += 1) {
      const distance = (xy[2 * i] - x) ** 2 + (xy[2 * i + 1] - y) ** 2;
      if (distance < least) [best, least] = [i, distance];
    }
    return best;
  }

  #peek(event) {
    if (!this.#points || event.pointerType === "touch") return;
    const i = this.#nearest(event);
    if (i < 0) {
      this.#hidePeek();
      return;
    }
    const { ids, labels, label } = this.#points;
    const peek = byId("map-peek");
    const url = tileUrl(ids(i));
    if (peek.firstElementChild.getAttribute("src") !== url) peek.firstElementChild.src = url;
    peek.lastElementChild.textContent = labels[label[i]] || "no label";
    peek.hidden = false;
    peek.style.left = `${Math.min(event.offsetX + 14, this.#canvas.clientWidth - 150)}px`;
    peek.style.top = `${Math.min(event.offsetY + 14, this.#canvas.clientHeight - 170)}px`;
  }

  #hidePeek() {
    byId("map-peek").hidden = true;
  }
}

function unpack(buffer) {
  const length = new DataView(buffer).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  const { n } = header;
  const start = 4 + length;
  const bytes = new Uint8Array(buffer, start + 12 * n, 8 * n);
  const ids = (i) => Array.from(bytes.subarray(8 * i, 8 * i + 8), (b) => b.toString(16).padStart(2, "0")).join("");
  return {
    ...header,
    xy: new Float32Array(buffer, start, 2 * n),
    label: new Uint16Array(buffer, start + 8 * n, n),
    source: new Uint16Array(buffer, start + 10 * n, n),
    ids,
  };
}

/** Whether a point lies inside a polygon, by the even-odd rule. */
function isInside(x, y, corners) {
  let isOdd = false;
  corners.forEach(([x0, y0], place) => {
    const [x1, y1] = corners[(place + 1) % corners.length];
    if (y0 > y !== y1 > y && x < x0 + ((y - y0) * (x1 - x0)) / (y1 - y0)) isOdd = !isOdd;
  });
  return isOdd;
}

/** A color as ImageData holds it: red in the lowest byte. */
function toPixel(color) {
  const value = Number.parseInt(color.slice(1), 16);
  return (0xff000000 | ((value & 0xff) << 16) | (value & 0xff00) | (value >> 16)) >>> 0;
}

/** Corners as text, few enough for a request. */
function toText(path) {
  const step = Math.ceil(path.length / MAX_CORNERS);
  return path
    .filter((_, place) => place % step === 0)
    .map(([x, y]) => `${x.toFixed(4)},${y.toFixed(4)}`)
    .join(",");
}
