// @ts-check
// A point per query: base across, now upwards. Of one candidate: the values as a histogram.

// Above so many points their density is drawn: it costs the same for any number.
const DENSE = 2000;
const FINE = 30000;
const SCATTER_MARGIN = { left: 50, right: 12, top: 12, bottom: 42 };

/** Where values stand in a picture of this size. */
function scatterScale(/** @type {Store} */ store, /** @type {number} */ size) {
  const { now, base } = store.state;
  const [, high] = extent([...extent(store.values(now)), ...extent(store.values(base))]);
  const [low] = extent([0, ...extent(store.values(now)), ...extent(store.values(base))]);
  const top = high > 0 && high <= UNIT ? UNIT : Math.max(high, 1);
  const { left, right, top: above, bottom } = SCATTER_MARGIN;
  const x = linear(low, top, left, size - right);
  const y = linear(low, top, size - bottom, above);
  const back = linear(left, size - right, low, top);
  const backY = linear(size - bottom, above, low, top);
  return { low, top, x, y, back, backY };
}

/** @typedef {ReturnType<typeof scatterScale>} Scale */

/** Grid, numbers, diagonal and names of the axes. */
function paintAxes(/** @type {CanvasRenderingContext2D} */ pen, /** @type {Store} */ store,
  /** @type {Scale} */ scale, /** @type {number} */ size) {
  const ticks = ticksOf(scale.low / UNIT, scale.top / UNIT);
  const show = signless(ticks);
  pen.font = "12px system-ui, sans-serif";
  pen.lineWidth = 1;
  pen.strokeStyle = rgb(colourNow("line"));
  pen.fillStyle = rgb(colourNow("quiet"));
  for (const tick of ticks) {
    const x = Math.round(scale.x(tick * UNIT)) + 0.5;
    const y = Math.round(scale.y(tick * UNIT)) + 0.5;
    pen.beginPath();
    pen.moveTo(x, scale.y(scale.low));
    pen.lineTo(x, scale.y(scale.top));
    pen.moveTo(scale.x(scale.low), y);
    pen.lineTo(scale.x(scale.top), y);
    pen.stroke();
    pen.textAlign = "center";
    pen.fillText(show(tick), x, size - SCATTER_MARGIN.bottom + 17);
    pen.textAlign = "right";
    pen.fillText(show(tick), SCATTER_MARGIN.left - 7, y + 4);
  }
  paintNames(pen, store, size);
}

/** The candidates' names along the axes. */
function paintNames(/** @type {CanvasRenderingContext2D} */ pen, /** @type {Store} */ store,
  /** @type {number} */ size) {
  const { now, base } = store.state;
  const middle = (size + SCATTER_MARGIN.left - SCATTER_MARGIN.right) / 2;
  const longest = size - 120;
  pen.fillStyle = rgb(colourNow("text"));
  pen.textAlign = "center";
  pen.fillText(store.names[base], middle, size - 6, longest);
  pen.save();
  pen.translate(12, (size - SCATTER_MARGIN.bottom) / 2);
  pen.rotate(-Math.PI / 2);
  pen.fillText(store.names[now], 0, 0, longest);
  pen.restore();
}

/** The line on which both are equal. */
function paintDiagonal(/** @type {CanvasRenderingContext2D} */ pen, /** @type {Scale} */ scale) {
  pen.strokeStyle = rgb(colourNow("text"), 0.55);
  pen.beginPath();
  pen.moveTo(scale.x(scale.low), scale.y(scale.low));
  pen.lineTo(scale.x(scale.top), scale.y(scale.top));
  pen.stroke();
}

/** The colours of down, equal, up and hidden points, as they are now. */
const pointColours = () => ({ "-1": colourNow("down"), 0: colourNow("quiet"), 1: colourNow("up"), hidden: colourNow("edge") });

/** A disc per query; hidden ones first, so that they lie below. */
function paintPoints(/** @type {CanvasRenderingContext2D} */ pen, /** @type {Store} */ store,
  /** @type {Scale} */ scale) {
  const base = store.values(store.state.base);
  const now = store.values();
  const colours = /** @type {any} */ (pointColours());
  const radius = store.count > 500 ? 2.6 : 3.6;
  const disc = (/** @type {number} */ query) => {
    pen.beginPath();
    pen.arc(scale.x(base[query]), scale.y(now[query]), radius, 0, 7);
    pen.fill();
  };
  const shown = new Set(store.shown());
  pen.fillStyle = rgb(colours.hidden, 0.9);
  for (let query = 0; query < store.count; query++) {
    if (!shown.has(query) && !Number.isNaN(now[query] + base[query])) disc(query);
  }
  for (const query of shown) {
    pen.fillStyle = rgb(colours[Math.sign(now[query] - base[query])], 0.6);
    disc(query);
  }
}

/** How many queries, and how many more up than down, lie in each square cell. */
function countCells(/** @type {Store} */ store, /** @type {Scale} */ scale, /** @type {Iterable<number>} */ queries,
  /** @type {number} */ across, /** @type {number} */ cell) {
  const base = store.values(store.state.base);
  const now = store.values();
  const counts = new Uint32Array(across * across);
  const ups = new Int32Array(across * across);
  for (const query of queries) {
    const a = base[query];
    const b = now[query];
    const at = Math.floor(scale.y(b) / cell) * across + Math.floor(scale.x(a) / cell);
    counts[at]++;
    ups[at] += Math.sign(b - a);
  }
  return { counts, ups };
}

/** Every cell as a darker or lighter square, written into the pixels. */
function paintDensity(/** @type {CanvasRenderingContext2D} */ pen, /** @type {Store} */ store,
  /** @type {Scale} */ scale, /** @type {number} */ ratio) {
  const size = pen.canvas.width;
  // Few points are drawn larger; many would run into each other.
  const side = Math.round((store.count > FINE || size < 400 * ratio ? 2 : 3) * ratio);
  const across = Math.ceil(size / side) + 1;
  const image = pen.getImageData(0, 0, size, size);
  const colours = /** @type {any} */ (pointColours());
  const shown = store.shown();
  if (shown.length < store.count) {
    const all = countCells(store, scale, countedQueries(store), across, side / ratio);
    fillCells(image, all, across, side, () => colours.hidden);
  }
  const cells = countCells(store, scale, shown, across, side / ratio);
  fillCells(image, cells, across, side, (up) => colours[Math.sign(up)]);
  pen.putImageData(image, 0, 0);
}

/** All queries with a value. @param {Store} store */
function countedQueries(store) {
  const changes = store.changes();
  return Int32Array.from({ length: store.count }, (_, query) => query)
    .filter((query) => !Number.isNaN(changes[query]));
}

/** Mix each cell's colour over what is there. */
function fillCells(/** @type {ImageData} */ image, /** @type {{counts: Uint32Array, ups: Int32Array}} */ cells,
  /** @type {number} */ across, /** @type {number} */ side, /** @type {(up: number) => number[]} */ colourOf) {
  const { data, width, height } = image;
  // Where nearly all cells are below, so that one crowded corner does not fade all others.
  const filled = cells.counts.filter((count) => count > 0).sort();
  const full = Math.log(Math.max(4, filled[Math.floor(filled.length * 0.98)] ?? 4));
  for (let at = 0; at < cells.counts.length; at++) {
    const count = cells.counts[at];
    if (count === 0) continue;
    const colour = colourOf(cells.ups[at]);
    const alpha = Math.min(0.95, 0.42 + (0.53 * Math.log(count)) / full);
    const left = (at % across) * side;
    const top = Math.floor(at / across) * side;
    for (let y = top; y < Math.min(top + side, height); y++) {
      for (let x = left; x < Math.min(left + side, width); x++) mixPixel(data, 4 * (y * width + x), colour, alpha);
    }
  }
}

/** One pixel: the colour over what is there, which may be transparent. */
function mixPixel(/** @type {Uint8ClampedArray} */ data, /** @type {number} */ at,
  /** @type {number[]} */ colour, /** @type {number} */ alpha) {
  const below = (data[at + 3] / 255) * (1 - alpha);
  const total = alpha + below;
  for (let part = 0; part < 3; part++) {
    data[at + part] = (colour[part] * alpha + data[at + part] * below) / total;
  }
  data[at + 3] = 255 * total;
}

/** The query nearest to a place, if one is near. */
function nearestQuery(/** @type {Store} */ store, /** @type {Scale} */ scale, /** @type {number} */ x, /** @type {number} */ y) {
  const base = store.values(store.state.base);
  const now = store.values();
  let best = 15 ** 2;
  let found = -1;
  for (const query of store.shown()) {
    const distance = (scale.x(base[query]) - x) ** 2 + (scale.y(now[query]) - y) ** 2;
    if (distance < best) {
      best = distance;
      found = query;
    }
  }
  return found;
}

/** The scatter plot, its brush and the ring around the chosen query. */
function addScatter(/** @type {Store} */ store, /** @type {HTMLElement} */ box) {
  const canvas = make("canvas", { role: "img" });
  const ring = make("div", { class: "ring", hidden: true });
  const brush = make("div", { class: "brush", hidden: true });
  const plot = make("div", { class: "plot" }, canvas, brush, ring);
  box.append(plot);
  /** @type {Scale} */
  let scale;
  const placeRing = () => {
    const { query, base, now } = store.state;
    const x = scale.x(store.values(base)[query]);
    const y = scale.y(store.values(now)[query]);
    ring.hidden = query < 0 || Number.isNaN(x + y);
    if (!ring.hidden) place(ring, x - 7, y - 7, 14, 14);
  };
  const placeBrush = () => {
    const area = store.state.brush;
    brush.hidden = area === null;
    if (!area) return;
    const [left, top] = [scale.x(area[0]), scale.y(area[3])];
    place(brush, left, top, scale.x(area[1]) - left, scale.y(area[2]) - top);
  };
  const paint = (/** @type {number} */ width) => {
    const size = Math.min(width, 560);
    scale = scatterScale(store, size);
    paintScatter(store, canvas, scale, size);
    placeRing();
    placeBrush();
  };
  const redraw = drawForWidth(plot, paint);
  redraw();
  store.on(["metric", "now", "base", "slicing", "group", "find", "brush", "range"], redraw);
  store.on(["query"], () => placeRing());
  watchPointer(store, canvas, brush, () => scale);
  return { redraw };
}

/** Everything on the canvas. */
function paintScatter(/** @type {Store} */ store, /** @type {HTMLCanvasElement} */ canvas,
  /** @type {Scale} */ scale, /** @type {number} */ size) {
  const ratio = window.devicePixelRatio || 1;
  canvas.width = canvas.height = Math.round(size * ratio);
  canvas.style.width = canvas.style.height = `${size}px`;
  const { now, base, metric } = store.state;
  canvas.setAttribute("aria-label",
    `Scatter plot of ${queriesText(store.shown().length)}: ${metric} of ${store.names[base]} across, ` +
    `of ${store.names[now]} upwards. The table has the same values.`);
  const pen = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d", { willReadFrequently: true }));
  pen.scale(ratio, ratio);
  paintAxes(pen, store, scale, size);
  if (store.count > DENSE) paintDensity(pen, store, scale, ratio);
  else paintPoints(pen, store, scale);
  paintDiagonal(pen, scale);
}

/** @param {HTMLElement} node @param {number} left @param {number} top @param {number} width @param {number} height */
function place(node, left, top, width, height) {
  Object.assign(node.style, { left: `${left}px`, top: `${top}px`, width: `${width}px`, height: `${height}px` });
}

/** A click chooses, a drag filters. */
function watchPointer(/** @type {Store} */ store, /** @type {HTMLCanvasElement} */ canvas,
  /** @type {HTMLElement} */ brush, /** @type {() => Scale} */ scaleNow) {
  /** @type {[number, number]|null} */
  let start = null;
  const at = (/** @type {PointerEvent} */ event) => {
    const area = canvas.getBoundingClientRect();
    return /** @type {[number, number]} */ ([event.clientX - area.left, event.clientY - area.top]);
  };
  canvas.addEventListener("pointerdown", (event) => {
    start = at(event);
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!start) return;
    const [x, y] = at(event);
    brush.hidden = false;
    place(brush, Math.min(x, start[0]), Math.min(y, start[1]), Math.abs(x - start[0]), Math.abs(y - start[1]));
  });
  canvas.addEventListener("pointercancel", () => (start = null));
  canvas.addEventListener("pointerup", (event) => {
    if (!start) return;
    const [x, y] = at(event);
    const [fromX, fromY] = start;
    start = null;
    brush.hidden = store.state.brush === null;
    const scale = scaleNow();
    if (Math.hypot(x - fromX, y - fromY) > 5) store.change({ brush: brushOf(scale, fromX, fromY, x, y) });
    else chooseNear(store, scale, x, y);
  });
}

/** The values that a rectangle of pixels covers. */
function brushOf(/** @type {Scale} */ scale, /** @type {number} */ x0, /** @type {number} */ y0,
  /** @type {number} */ x1, /** @type {number} */ y1) {
  return /** @type {[number, number, number, number]} */ ([
    scale.back(Math.min(x0, x1)), scale.back(Math.max(x0, x1)),
    scale.backY(Math.max(y0, y1)), scale.backY(Math.min(y0, y1)),
  ]);
}

/** Choose the query under the pointer; beside all points, drop the brush. */
function chooseNear(/** @type {Store} */ store, /** @type {Scale} */ scale, /** @type {number} */ x, /** @type {number} */ y) {
  const query = nearestQuery(store, scale, x, y);
  store.change(query >= 0 ? { query } : { brush: null });
}
