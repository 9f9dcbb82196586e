// @ts-check
// The table of queries. Only the rows in sight are in the page, whatever the number of queries.

const ROW_HEIGHT = 30;
// Browsers stop drawing elements that are much higher; a longer list scrolls in larger steps.
const MOST_HEIGHT = 8_000_000;

/**
 * @typedef {object} Column
 * @property {string} key
 * @property {() => string} name
 * @property {(query: number) => number|string} value
 * @property {(query: number) => string} text
 * @property {string} [kind]
 */

/** The columns of the table for what is compared. @param {Store} store @returns {Column[]} */
function queryColumns(store) {
  const { queries } = store;
  const value = (/** @type {number} */ candidate, /** @type {number} */ query) => store.values(candidate)[query];
  /** @type {Column[]} */
  const columns = [
    { key: "query", name: () => "query", value: (query) => store.queryName(query), text: (query) => store.queryName(query), kind: "name" },
    { key: "documents", name: () => "docs", value: (query) => queries.documents[query], text: (query) => whole(queries.documents[query]), kind: "less" },
    { key: "relevant", name: () => "relevant", value: (query) => queries.relevant[query], text: (query) => whole(queries.relevant[query]), kind: "less" },
  ];
  if (store.isPair) {
    columns.push({ key: "base", name: () => store.names[store.state.base], value: (query) => value(store.state.base, query),
      text: (query) => fixed(value(store.state.base, query) / UNIT) });
  }
  columns.push({ key: store.isPair ? "now" : "change", name: () => store.names[store.state.now], value: (query) => value(store.state.now, query),
    text: (query) => fixed(value(store.state.now, query) / UNIT) });
  if (store.isPair) {
    columns.push({ key: "change", name: () => "change", value: (query) => store.changes()[query],
      text: (query) => `${sign(store.changes()[query])} ${signed(store.changes()[query] / UNIT)}`, kind: "change" });
  }
  return columns;
}

/** Queries in the order of a column; ties stay in the order of the data. */
function sortQueries(/** @type {Store} */ store, /** @type {Column[]} */ columns) {
  const { order } = store.state;
  const shown = store.shown();
  if (order === "size") return sortByKey(shown, (query) => -Math.abs(store.changes()[query]));
  const downwards = order.startsWith("-");
  const column = columns.find(({ key }) => key === order.replace("-", "")) ?? columns[0];
  if (column.key === "query") return sortByName(store, shown, downwards);
  const factor = downwards ? -1 : 1;
  return sortByKey(shown, (query) => factor * Number(column.value(query)));
}

/** By numbers, which are looked up once. */
function sortByKey(/** @type {Int32Array} */ shown, /** @type {(query: number) => number} */ keyOf) {
  const list = Int32Array.from(shown);
  const numbers = Float64Array.from(list, keyOf);
  const places = Int32Array.from(list, (_, at) => at);
  places.sort((a, b) => numbers[a] - numbers[b] || a - b);
  return places.map((at) => list[at]);
}

/** By name, numbers in it as numbers. */
function sortByName(/** @type {Store} */ store, /** @type {Int32Array} */ shown, /** @type {boolean} */ downwards) {
  const { compare } = new Intl.Collator("en", { numeric: true });
  const factor = downwards ? -1 : 1;
  return Int32Array.from(shown).sort((a, b) => factor * compare(store.queryName(a), store.queryName(b)) || a - b);
}

class QueryTable {
  /** @param {Store} store @param {HTMLElement} box */
  constructor(store, box) {
    this.store = store;
    this.columns = queryColumns(store);
    /** @type {Int32Array} */
    this.order = new Int32Array(0);
    this.first = 0;
    this.head = make("tr");
    this.body = make("tbody");
    this.table = make("table", { class: "list", role: "grid", tabindex: "0", "aria-label": "Queries" },
      make("thead", {}, this.head), this.body);
    this.room = make("div", { class: "room" }, this.table);
    this.scroller = make("div", { class: "scroller", tabindex: "-1" }, this.room);
    this.status = make("p", { class: "quiet", role: "status" });
    box.append(this.scroller, this.status);
    this.scroller.addEventListener("scroll", () => this.showRows());
    this.body.addEventListener("click", (/** @type {any} */ event) => this.choose(event.target.closest("tr")));
    this.table.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => this.press(event));
    store.on(["metric", "now", "base"], () => this.refresh());
    store.on(["slicing", "group", "find", "brush", "range", "order"], () => this.refresh(true));
    store.on(["query"], () => this.reveal());
    this.refresh();
  }

  /** How many rows fit. */
  get visible() {
    return Math.max(1, Math.floor((this.scroller.clientHeight - ROW_HEIGHT) / ROW_HEIGHT));
  }

  /** Sort anew and draw, from the first row on or where the chosen query is. */
  refresh(fromTop = false) {
    this.order = sortQueries(this.store, this.columns);
    const height = Math.min((this.order.length + 1) * ROW_HEIGHT, MOST_HEIGHT);
    this.room.style.height = `${height}px`;
    this.table.setAttribute("aria-rowcount", String(this.order.length + 1));
    this.status.textContent = `${whole(this.order.length)} of ${queriesText(this.store.count)}`;
    this.showHead();
    if (!fromTop) this.reveal();
    else if (this.scroller.scrollTop === 0) this.showRows();
    else this.scroller.scrollTop = 0;
  }

  /** The head: each column sorts. */
  showHead() {
    const { order } = this.store.state;
    this.head.replaceChildren(...this.columns.map((column) => {
      const active = order.replace("-", "") === column.key;
      const direction = order.startsWith("-") ? "descending" : "ascending";
      const button = make("button", { tabindex: "-1", click: () => this.sortBy(column.key) },
        column.name(), active ? (order.startsWith("-") ? " ↓" : " ↑") : "");
      return make("th", { scope: "col", class: column.kind, "aria-sort": active ? direction : null, title: column.name() }, button);
    }));
  }

  /** Downwards first, for numbers of which the highest is of interest. @param {string} key */
  sortBy(key) {
    const { order } = this.store.state;
    const upFirst = ["query", "change", "now", "base"].includes(key);
    const next = order === key ? `-${key}` : order === `-${key}` ? key : upFirst ? key : `-${key}`;
    this.store.change({ order: next });
  }

  /** Put the rows in sight into the page. */
  showRows() {
    const { scrollTop, scrollHeight, clientHeight } = this.scroller;
    const hidden = Math.max(0, this.order.length - this.visible);
    const share = scrollHeight > clientHeight ? scrollTop / (scrollHeight - clientHeight) : 0;
    this.first = Math.round(share * hidden);
    const end = Math.min(this.order.length, this.first + this.visible);
    const rows = [];
    for (let place = this.first; place < end; place++) rows.push(this.makeRow(place));
    this.body.replaceChildren(...rows);
    const chosen = this.body.querySelector("[aria-selected=true]");
    this.table.setAttribute("aria-activedescendant", chosen?.id ?? "");
  }

  /** @param {number} place */
  makeRow(place) {
    const query = this.order[place];
    const cells = this.columns.map((column) => {
      const classes = [column.kind, column.key === "change" && this.store.isPair ? tone(this.store.changes()[query]) : ""];
      const text = column.text(query);
      return make("td", { class: classes.join(" ").trim() || null, title: column.kind === "name" ? text : null, dir: column.kind === "name" ? "auto" : null }, text);
    });
    return make("tr", { id: `row-${query}`, "data-query": query, "aria-rowindex": place + 2,
      "aria-selected": String(query === this.store.state.query) }, ...cells);
  }

  /** @param {HTMLElement|null} row */
  choose(row) {
    if (row?.dataset.query) this.store.change({ query: Number(row.dataset.query) });
  }

  /** The place of a query in the order, or -1. @param {number} query */
  placeOf(query) {
    return query < 0 ? -1 : this.order.indexOf(query);
  }

  /** Scroll so that the chosen query is in sight, and draw. */
  reveal() {
    const place = this.placeOf(this.store.state.query);
    const { visible } = this;
    if (place >= 0 && (place < this.first || place >= this.first + visible)) {
      const hidden = Math.max(1, this.order.length - visible);
      const share = Math.min(1, Math.max(0, place - Math.floor(visible / 2)) / hidden);
      this.scroller.scrollTop = share * (this.scroller.scrollHeight - this.scroller.clientHeight);
    }
    this.showRows();
  }

  /** Choose the query so many places on. @param {number} steps */
  step(steps) {
    if (this.order.length === 0) return;
    const place = this.placeOf(this.store.state.query);
    const next = place < 0 ? 0 : Math.min(this.order.length - 1, Math.max(0, place + steps));
    this.store.change({ query: this.order[next] });
  }

  /** @param {KeyboardEvent} event */
  press(event) {
    const all = this.order.length;
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: this.visible, PageUp: -this.visible, Home: -all, End: all }[event.key];
    if (steps !== undefined) this.step(steps);
    else if (event.key === "Enter") goTo("query");
    else return;
    event.preventDefault();
  }

  /** All rows, as text for a file. @returns {Sheet} */
  sheet() {
    const head = ["query", "text", ...this.columns.slice(1).map((column) => column.name())];
    const asNumber = (/** @type {Column} */ column, /** @type {number} */ query) =>
      ["base", "now", "change"].includes(column.key) ? Number(column.value(query)) / UNIT : column.value(query);
    const rows = Array.from(this.order, (query) => [
      this.store.queries.id[query], this.store.queries.text?.[query] ?? "",
      ...this.columns.slice(1).map((column) => asNumber(column, query)),
    ]);
    return { head, rows };
  }
}
