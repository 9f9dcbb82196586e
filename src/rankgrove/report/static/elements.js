// @ts-check
// Elements, numbers as text, and colours. Foreign text only ever becomes a text node.

const SVG_SPACE = "http://www.w3.org/2000/svg";

/**
 * Set attributes; a function is a listener, null and false leave an attribute out.
 * @param {Element} node
 * @param {Record<string, any>} attributes
 */
function setAll(node, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") node.addEventListener(name, value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
}

/**
 * An HTML element; children are elements or text.
 * @param {string} tag
 * @param {Record<string, any>} [attributes]
 * @param {...any} children
 * @returns {any}
 */
function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  setAll(node, attributes);
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

/**
 * An SVG element.
 * @param {string} tag
 * @param {Record<string, any>} [attributes]
 * @param {...any} children
 * @returns {any}
 */
function draw(tag, attributes = {}, ...children) {
  const node = document.createElementNS(SVG_SPACE, tag);
  setAll(node, attributes);
  node.append(...children);
  return node;
}

/** @param {string} id @returns {any} */
const byId = (id) => document.getElementById(id);

const MINUS = "\u2212";
const NONE = "\u2013";

/** A number in so many places with a true minus sign. @param {number|null} value */
function fixed(value, places = 4) {
  if (value === null || Number.isNaN(value)) return NONE;
  const text = Math.abs(value).toFixed(places);
  return value < 0 && Number(text) !== 0 ? MINUS + text : text;
}

/** A difference: always with its sign. @param {number|null} value */
function signed(value, places = 4) {
  const text = fixed(value, places);
  return value !== null && Number(value.toFixed(places)) > 0 ? `+${text}` : text;
}

/** A whole number with separators. @param {number} value */
const whole = (value) => Math.round(value).toLocaleString("en");

/** A value in about four digits. @param {any} value */
function shortNumber(value) {
  if (value === null || value === undefined) return "missing";
  if (typeof value !== "number") return String(value);
  return String(Number(value.toPrecision(4))).replace("-", MINUS);
}

/** The sign that goes with a direction, so that colour is never alone. @param {number} value */
const sign = (value) => (value > 0 ? "▲" : value < 0 ? "▼" : "=");

/** The class of a direction. @param {number} value */
const tone = (value) => (value > 0 ? "up" : value < 0 ? "down" : "none");

/** Text that ends in "query" or "queries". @param {number} count */
const queriesText = (count) => `${whole(count)} ${count === 1 ? "query" : "queries"}`;

// The steps from the lowest label to the highest, and the text on each.
const LABEL_STEPS = [0, 1, 2, 3, 4].map((step) => `var(--label${step})`);
const LABEL_TEXTS = [0, 1, 2, 3, 4].map((step) => `var(--on-label${step})`);

/** The step of a label among five, when the highest label is `most`. */
function labelStep(/** @type {number} */ label, /** @type {number} */ most) {
  const top = Math.max(4, most);
  return Math.max(0, Math.min(4, Math.round((label / top) * 4)));
}

/** The colour of a label. @param {any} label @param {number} most */
const labelColour = (label, most) => LABEL_STEPS[labelStep(Number(label), most)];

/** A chip with the label's number; the number says what the colour cannot. */
function labelChip(/** @type {number} */ label, /** @type {number} */ most) {
  const chip = make("span", { class: "chip", title: `label ${label}` }, shortNumber(label));
  const step = labelStep(label, most);
  chip.style.backgroundColor = LABEL_STEPS[step];
  chip.style.color = LABEL_TEXTS[step];
  return chip;
}

/** The chips of all grades, with what they are of. @param {string} text @param {any[]} grades */
function labelLegend(text, grades) {
  const most = Math.max(...grades.map(Number));
  return make("p", { class: "legend" }, text, ...grades.map((grade) => labelChip(Number(grade), most)));
}

/** What a colour of the style sheet is now, as red, green, blue. @param {string} name */
function colourNow(name) {
  const probe = make("i");
  probe.style.color = `var(--${name})`;
  document.body.append(probe);
  const text = getComputedStyle(probe).color;
  probe.remove();
  return (text.match(/[\d.]+/g) ?? ["0", "0", "0"]).slice(0, 3).map(Number);
}

/** @param {number[]} colour @param {number} [alpha] */
const rgb = (colour, alpha = 1) => `rgba(${colour.join(",")},${alpha})`;

/** Let the browser paint and answer before more work. */
const pause = () => new Promise((resolve) => setTimeout(resolve, 0));
