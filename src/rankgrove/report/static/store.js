// @ts-check
// The data, section by section, and the one state that all views share.

const UNIT = 10000;

/** The bytes of a section, from base64. @param {string} text @returns {Uint8Array} */
function bytesOf(text) {
  const direct = /** @type {any} */ (Uint8Array).fromBase64;
  if (direct) return direct.call(Uint8Array, text);
  return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
}

/** Unpack a section; null if the file does not have it. @param {string} name */
async function unpack(name) {
  const element = byId(`data-${name}`);
  if (!element) return null;
  const packed = new Blob([/** @type {any} */ (bytesOf(element.textContent))]);
  const stream = packed.stream().pipeThrough(new DecompressionStream("gzip"));
  const value = await new Response(stream).json();
  element.remove();
  return value;
}

/** Ten-thousandths as an array of numbers; NaN where the query is skipped. */
function columnOf(/** @type {(number|null)[]} */ values) {
  return Float64Array.from(values, (value) => (value === null ? NaN : value));
}

/**
 * @typedef {object} State
 * @property {number} query  the chosen query, or -1
 * @property {string} metric
 * @property {number} now  the candidate that is looked at
 * @property {number} base  the candidate it is compared with; the same if there is only one
 * @property {string} slicing  "" for all
 * @property {number} group
 * @property {string} find
 * @property {string} order  the column of the table, "-" before it for downwards
 * @property {[number, number, number, number]|null} brush  base from, base to, now from, now to
 * @property {[number, number]|null} range  of the change, in ten-thousandths
 * @property {number} document  the chosen document of the query by its place in `tops`, or -1
 * @property {number} other  the document that it is compared with, or -1
 */

class Store {
  /** @param {any} outline @param {any} comparison @param {any} verdicts @param {any} queries */
  constructor(outline, comparison, verdicts, queries) {
    this.outline = outline;
    this.comparison = comparison;
    this.verdicts = verdicts ?? {};
    this.queries = queries;
    /** @type {string[]} */
    this.names = outline.candidates.map((/** @type {any} */ one) => one.name);
    this.metrics = Object.keys(comparison.metrics);
    /** @type {any[]|null} */
    this.looks = null;
    /** @type {{key: string, list: Int32Array}|null} */
    this.lastShown = null;
    this.count = queries ? queries.id.length : 0;
    /** @type {Map<string, Promise<any>>} */
    this.loading = new Map();
    /** @type {Map<string, any>} */
    this.kept = new Map();
    /** @type {{keys: string[], react: () => void}[]} */
    this.listeners = [];
    const { metric, new: newer, old } = outline.opening;
    const now = this.names.indexOf(newer);
    /** @type {State} */
    this.state = {
      query: -1, metric, now, base: old === null ? now : this.names.indexOf(old),
      slicing: "", group: -1, find: "", order: "change", brush: null, range: null,
      document: -1, other: -1,
    };
  }

  /** Whether two candidates are compared. */
  get isPair() {
    return this.names.length > 1;
  }

  /** The candidates that are looked at: base and now, or the only one. */
  get pair() {
    return [...new Set([this.state.base, this.state.now])];
  }

  /** A section, unpacked once. @param {string} name */
  section(name) {
    if (!this.loading.has(name)) this.loading.set(name, unpack(name));
    return /** @type {Promise<any>} */ (this.loading.get(name));
  }

  /** Why a section is not there. @param {string} name */
  reason(name) {
    const reasons = this.outline.absent ?? {};
    return reasons[name] ?? "The report was made without it.";
  }

  /** Call `react` when one of the keys of the state changes. */
  on(/** @type {string[]} */ keys, /** @type {() => void} */ react) {
    this.listeners.push({ keys, react });
  }

  /** Change the state and tell the views. @param {Partial<State>} patch */
  change(patch) {
    const before = /** @type {any} */ (this.state);
    const after = { ...before, ...patch };
    if (after.query !== before.query) Object.assign(after, { document: -1, other: -1, ...pick(patch) });
    const changed = Object.keys(after).filter((key) => after[key] !== before[key]);
    if (changed.length === 0) return;
    this.state = after;
    for (const { keys, react } of this.listeners) {
      if (keys.some((key) => changed.includes(key))) react();
    }
  }

  /** The values of one candidate, one per query, in ten-thousandths. */
  values(candidate = this.state.now, metric = this.state.metric) {
    return this.keep(`values ${metric} ${candidate}`, () => {
      const columns = this.queries?.values[metric];
      return columns ? columnOf(columns[candidate]) : new Float64Array(this.count).fill(NaN);
    });
  }

  /** Now less base, one per query; the value itself if there is one candidate. */
  changes() {
    const { now, base, metric } = this.state;
    return this.keep(`changes ${metric} ${now} ${base}`, () => {
      const a = this.values(now);
      if (!this.isPair) return a;
      const b = this.values(base);
      return a.map((/** @type {number} */ value, /** @type {number} */ query) => value - b[query]);
    });
  }

  /** The queries with a value that no filter hides, in the order of the data. */
  shown() {
    const { metric, now, base, slicing, group, find, brush, range } = this.state;
    const key = JSON.stringify(["shown", metric, now, base, slicing, group, find, brush, range]);
    if (this.lastShown?.key !== key) this.lastShown = { key, list: this.filtered() };
    return this.lastShown.list;
  }

  /** @returns {Int32Array} */
  filtered() {
    const { slicing, group, find, brush, range } = this.state;
    const changes = this.changes();
    const now = this.values();
    const base = this.values(this.state.base);
    const groups = slicing ? this.queries.groups[slicing].of : null;
    const wanted = find.trim().toLocaleLowerCase();
    const texts = wanted ? this.searchTexts() : [];
    const list = new Int32Array(this.count);
    let size = 0;
    for (let query = 0; query < this.count; query++) {
      const change = changes[query];
      if (Number.isNaN(change)) continue;
      if (groups && groups[query] !== group) continue;
      if (range && (change < range[0] || change > range[1])) continue;
      if (brush && !inside(brush, base[query], now[query])) continue;
      if (wanted && !texts[query].includes(wanted)) continue;
      list[size++] = query;
    }
    return list.subarray(0, size);
  }

  /** What a search looks at, one text per query. @returns {string[]} */
  searchTexts() {
    return this.keep("texts", () =>
      this.queries.id.map((/** @type {any} */ id, /** @type {number} */ query) =>
        `${id} ${this.queries.text?.[query] ?? ""}`.toLocaleLowerCase()));
  }

  /** The name of a query for people. @param {number} query */
  queryName(query) {
    return String(this.queries.text?.[query] || this.queries.id[query]);
  }

  /** The query of an id or of a text, or -1. @param {string} name */
  findQuery(name) {
    const byIdentity = this.queries.id.findIndex((/** @type {any} */ id) => String(id) === name);
    return byIdentity >= 0 ? byIdentity : this.queries.text?.indexOf(name) ?? -1;
  }

  /** The verdict on the chosen pair; of one candidate, what there is to say of it. */
  verdict(metric = this.state.metric) {
    const { now, base } = this.state;
    const entries = this.verdicts[metric] ?? [];
    const found = entries.find((/** @type {any} */ one) =>
      one.a === this.names[now] && one.b === this.names[base]);
    return found ?? { word: null, sentence: this.outline.sentences[metric] ?? "" };
  }

  /** How candidates do under a metric, by name. */
  summary(metric = this.state.metric) {
    return this.comparison.metrics[metric].candidates;
  }

  /** Compute once. @param {string} key @param {() => any} compute */
  keep(key, compute) {
    if (!this.kept.has(key)) this.kept.set(key, compute());
    return this.kept.get(key);
  }
}

/** What of a patch names documents. @param {Partial<State>} patch */
function pick(patch) {
  const { document, other } = patch;
  return { ...(document !== undefined && { document }), ...(other !== undefined && { other }) };
}

/** Whether a point is in a rectangle. @param {number[]} box @param {number} x @param {number} y */
const inside = (box, x, y) => x >= box[0] && x <= box[1] && y >= box[2] && y <= box[3];

/** The state as the part of an address after "#". @param {Store} store */
function toAddress(store) {
  const { state } = store;
  const parts = new URLSearchParams();
  if (state.query >= 0) parts.set("q", String(store.queries.id[state.query]));
  if (store.metrics.length > 1) parts.set("m", state.metric);
  if (store.names.length > 2) {
    parts.set("c", store.names[state.now]);
    parts.set("b", store.names[state.base]);
  }
  if (state.slicing) parts.set("s", `${state.slicing}=${store.queries.groups[state.slicing].names[state.group]}`);
  if (state.find) parts.set("find", state.find);
  return `#${parts}`;
}

/** What an address says about the state. @param {Store} store @param {string} address */
function fromAddress(store, address) {
  const parts = new URLSearchParams(address.replace(/^#/, ""));
  /** @type {Partial<State>} */
  const patch = {};
  const query = parts.has("q") ? store.findQuery(/** @type {string} */ (parts.get("q"))) : -1;
  if (query >= 0) patch.query = query;
  const metric = parts.get("m");
  if (metric && store.metrics.includes(metric)) patch.metric = metric;
  const now = store.names.indexOf(parts.get("c") ?? "");
  const base = store.names.indexOf(parts.get("b") ?? "");
  if (now >= 0 && base >= 0 && now !== base) Object.assign(patch, { now, base });
  Object.assign(patch, sliceOf(store, parts.get("s") ?? ""));
  patch.find = parts.get("find") ?? "";
  return patch;
}

/** The group that "slicing=name" names. @param {Store} store @param {string} text */
function sliceOf(store, text) {
  for (const [slicing, groups] of Object.entries(store.queries?.groups ?? {})) {
    if (!text.startsWith(`${slicing}=`)) continue;
    const group = groups.names.map(String).indexOf(text.slice(slicing.length + 1));
    if (group >= 0) return { slicing, group };
  }
  return { slicing: "", group: -1 };
}
