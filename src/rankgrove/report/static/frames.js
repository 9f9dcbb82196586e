// @ts-check
// The frame of a view: heading, hint, "as table" and "copy as CSV"; and tables of plain cells.

// A table of a picture shows so many rows; the CSV has all of them.
const TABLE_ROWS = 100;

/**
 * @typedef {object} Sheet  what a picture shows, as a table
 * @property {string[]} head
 * @property {any[][]} rows
 */

/** One cell of CSV. @param {any} value */
function csvCell(value) {
  const text = value === null || value === undefined || Number.isNaN(value) ? "" : String(value);
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** @param {Sheet} sheet */
const csvText = (sheet) => [sheet.head, ...sheet.rows].map((row) => row.map(csvCell).join(",")).join("\n") + "\n";

/** Copy text, and say so on the button. @param {string} text @param {HTMLElement} button */
async function copyText(text, button) {
  const before = button.textContent;
  let done = true;
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    done = copyBySelection(text);
  }
  button.textContent = done ? "copied" : "not allowed here";
  setTimeout(() => (button.textContent = before), 1500);
}

/** The way of older browsers. @param {string} text */
function copyBySelection(text) {
  const area = make("textarea", { class: "offscreen", "aria-hidden": "true" });
  area.value = text;
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  return done;
}

/** The head of a table; an entry that begins with "~" names a column of bars. @param {string[]} texts */
function tableHead(texts) {
  return make("thead", {}, make("tr", {}, ...texts.map((text) => make("th",
    { scope: "col", class: text.startsWith("~") ? "bars" : null, title: text.replace("~", "") }, text.replace("~", "")))));
}

/** A table of plain cells; numbers stand to the right. @param {Sheet} sheet @param {string} name */
function sheetTable(sheet, name) {
  const shown = sheet.rows.slice(0, TABLE_ROWS);
  const rows = shown.map((row) => make("tr", {}, ...row.map((value, at) =>
    make(at ? "td" : "th", { class: typeof value === "number" ? "figure" : null, scope: at ? null : "row" },
      typeof value === "number" ? shortNumber(value) : String(value ?? NONE)))));
  const head = tableHead(sheet.head);
  [...head.rows[0].cells].forEach((cell, at) => cell.classList.toggle("figure", typeof shown[0]?.[at] === "number"));
  const table = make("table", { class: "plain" },
    make("caption", {}, shown.length < sheet.rows.length
      ? `${name}: the first ${whole(shown.length)} of ${whole(sheet.rows.length)} rows; the CSV has all`
      : name),
    head, make("tbody", {}, ...rows));
  return make("div", { class: "sheet", tabindex: "0", role: "region", "aria-label": `${name} as a table` }, table);
}

/**
 * A view: an empty picture, and where its table goes.
 * @param {{id: string, number: string, title: string, hint: string, wide?: boolean}} about
 */
function makeView(about) {
  const picture = make("div", { class: "picture" });
  const tools = make("div", { class: "tools" });
  const hint = make("p", { class: "hint" }, about.hint);
  const heading = make("h2", { id: `${about.id}-title`, tabindex: "-1" },
    make("span", { class: "number" }, about.number), ` ${about.title}`);
  const section = make("section",
    { class: about.wide ? "view wide" : "view", id: about.id, "aria-labelledby": `${about.id}-title` },
    make("div", { class: "head" }, heading, tools), hint, picture);
  return { ...about, section, picture, tools, hint };
}

/** @typedef {ReturnType<typeof makeView>} View */

/** Add "as table" and "copy as CSV". @param {View} view @param {() => Sheet} sheet */
function addTools(view, sheet) {
  const name = view.title;
  /** @type {any} */
  let table = null;
  const toggle = make("button", { class: "small", "aria-pressed": "false",
    "aria-label": `${name}: as table` }, "as table");
  const show = () => {
    const on = toggle.getAttribute("aria-pressed") === "true";
    table?.remove();
    table = on ? sheetTable(sheet(), name) : null;
    view.picture.hidden = on;
    if (table) view.section.append(table);
  };
  toggle.addEventListener("click", () => {
    toggle.setAttribute("aria-pressed", String(toggle.getAttribute("aria-pressed") !== "true"));
    show();
  });
  const copy = make("button", { class: "small", "aria-label": `${name}: copy as CSV`,
    click: () => copyText(csvText(sheet()), copy) }, "copy as CSV");
  view.tools.append(toggle, copy);
  return { refresh: () => table && show() };
}

/** Say in one line why a view has nothing to show. @param {View} view @param {string} reason */
function sayAbsent(view, reason) {
  view.section.classList.add("absent");
  view.picture.replaceChildren(make("p", { class: "quiet" }, reason));
  view.tools.replaceChildren();
}

/** A select with a label. */
function makeSelect(/** @type {string} */ label, /** @type {[string, string][]} */ options,
  /** @type {(value: string) => void} */ react) {
  const select = make("select", { "aria-label": label, change: () => react(select.value) },
    ...options.map(([value, text]) => make("option", { value }, text)));
  return { select, field: make("label", { class: "field" }, make("span", {}, label), select) };
}

/** A tick box with a label. */
function makeTick(/** @type {string} */ label, /** @type {boolean} */ on,
  /** @type {(on: boolean) => void} */ react) {
  const box = make("input", { type: "checkbox", change: () => react(box.checked) });
  box.checked = on;
  return make("label", { class: "tick" }, box, label);
}

/**
 * Draw into a box for its width, and again when the width changes.
 * @param {HTMLElement} box @param {(width: number) => void} paint
 */
function drawForWidth(box, paint) {
  let last = 0;
  const redraw = () => paint(last);
  new ResizeObserver(([entry]) => {
    const width = Math.floor(entry.contentRect.width);
    if (width === last || width === 0) return;
    last = width;
    paint(width);
  }).observe(box);
  last = Math.floor(box.clientWidth) || 320;
  return redraw;
}
