// @ts-check
// Scales, ticks and axes of the small pictures.

/** @param {number} from @param {number} to @param {number} start @param {number} end */
function linear(from, to, start, end) {
  const span = to - from || 1;
  return (/** @type {number} */ value) => start + ((value - from) / span) * (end - start);
}

/** Round numbers, about so many, from low to high. */
function ticksOf(/** @type {number} */ low, /** @type {number} */ high, about = 5) {
  const span = high - low;
  if (!(span > 0)) return [low];
  const raw = span / about;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = power * ([1, 2, 5, 10].find((factor) => factor * power >= raw) ?? 10);
  const list = [];
  for (let at = Math.ceil(low / step - 1e-9); at * step <= high + step * 1e-9; at++) list.push(at * step);
  return list;
}

/** The places that tell ticks apart. @param {number[]} ticks */
function tickPlaces(ticks) {
  const step = ticks.length > 1 ? Math.abs(ticks[1] - ticks[0]) : 1;
  return Math.max(0, Math.min(6, Math.ceil(-Math.log10(step) - 1e-9)));
}

/** @param {number} width @param {number} height @param {string} name */
function makeChart(width, height, name) {
  return draw("svg", { class: "chart", width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": name });
}

/** Text of a chart. */
function chartText(/** @type {number} */ x, /** @type {number} */ y, /** @type {string} */ text,
  /** @type {Record<string, any>} */ more = {}) {
  return draw("text", { x, y, ...more }, text);
}

/** Horizontal grid lines with their numbers at the left. */
function leftAxis(/** @type {any} */ chart, /** @type {number[]} */ ticks, /** @type {(v: number) => number} */ y,
  /** @type {number} */ left, /** @type {number} */ right, show = signless(ticks)) {
  for (const tick of ticks) {
    chart.append(draw("line", { class: "grid", x1: left, x2: right, y1: y(tick), y2: y(tick) }),
      chartText(left - 6, y(tick) + 4, show(tick), { "text-anchor": "end" }));
  }
}

/** Vertical grid lines with their numbers below. */
function bottomAxis(/** @type {any} */ chart, /** @type {number[]} */ ticks, /** @type {(v: number) => number} */ x,
  /** @type {number} */ top, /** @type {number} */ bottom, show = signless(ticks)) {
  for (const tick of ticks) {
    chart.append(draw("line", { class: "grid", x1: x(tick), x2: x(tick), y1: top, y2: bottom }),
      chartText(x(tick), bottom + 16, show(tick), MIDDLE));
  }
}

/** Numbers of ticks as text. @param {number[]} ticks */
function signless(ticks) {
  const places = tickPlaces(ticks);
  return (/** @type {number} */ tick) =>
    Math.abs(tick) >= 10000 ? whole(tick).replace("-", MINUS) : fixed(tick, places);
}

/** A path through points; NaN breaks it. @param {[number, number][]} points */
function pathOf(points) {
  let text = "";
  let drawn = false;
  for (const [x, y] of points) {
    if (Number.isNaN(y)) {
      drawn = false;
      continue;
    }
    text += `${drawn ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`;
    drawn = true;
  }
  return text;
}

const MIDDLE = { "text-anchor": "middle" };

/** @param {number} at */
const candidateColour = (at) => `var(--c${at % 6})`;

/** The class of a candidate's line: colour, and dashes from the third on. @param {number} at */
const lineClass = (at) => `line c${at % 6}`;

/** A legend: a piece of line and a name for each candidate. @param {[string, string][]} entries */
function makeLegend(entries) {
  return make("ul", { class: "legend" }, ...entries.map(([name, kind]) => {
    const mark = draw("svg", { width: 22, height: 10, "aria-hidden": "true", class: "chart" },
      draw("line", { class: kind, x1: 1, x2: 21, y1: 5, y2: 5 }));
    return make("li", {}, mark, name);
  }));
}

/** The legend of candidates. @param {Store} store @param {number[]} candidates */
const candidateLegend = (store, candidates) =>
  makeLegend(candidates.map((candidate) => [store.names[candidate], lineClass(candidate)]));

/** Least and greatest of numbers without NaN. @param {Iterable<number>} values */
function extent(values) {
  let low = Infinity;
  let high = -Infinity;
  for (const value of values) {
    if (value < low) low = value;
    if (value > high) high = value;
  }
  return low <= high ? [low, high] : [0, 1];
}
