// @ts-check
// One query: the first documents of both candidates side by side, and the ideal order.

const DOCUMENT_HEIGHT = 34;

/** Where the documents of each query begin in the section. */
class Tops {
  /** @param {any} section @param {number} count */
  constructor(section, count) {
    this.section = section;
    this.most = extent(section.label)[1];
    this.starts = new Int32Array(count).fill(-1);
    this.sizes = new Int32Array(count);
    let at = 0;
    section.counts.forEach((/** @type {number} */ size, /** @type {number} */ place) => {
      const query = section.queries ? section.queries[place] : place;
      this.starts[query] = at;
      this.sizes[query] = size;
      at += size;
    });
  }

  /** The places of a query's documents. @param {number} query @returns {number[]} */
  places(query) {
    if (query < 0 || this.starts[query] < 0) return [];
    return Array.from({ length: this.sizes[query] }, (_, at) => this.starts[query] + at);
  }

  /** What a reader knows a document by. @param {number} place */
  name(place) {
    const { title, id, document } = this.section;
    return String(title?.[place] || id?.[place] || `document ${document[place]}`);
  }

  /** @param {number} place */
  label(place) {
    return this.section.label[place];
  }

  /** The rank of a document; of the ideal order if the candidate is -1. */
  rank(/** @type {number} */ candidate, /** @type {number} */ place) {
    return candidate < 0 ? this.section.ideal[place] : this.section.rank[candidate][place];
  }

  /** The documents that a candidate shows, in its order. */
  shown(/** @type {number} */ candidate, /** @type {number} */ query) {
    return this.places(query)
      .filter((place) => this.rank(candidate, place) <= this.section.k)
      .sort((a, b) => this.rank(candidate, a) - this.rank(candidate, b));
  }
}

/** What each shown document adds to the metric. */
class Shares {
  /** @param {any} section @param {Tops} tops @param {number} count */
  constructor(section, tops, count) {
    this.section = section;
    /** @type {Map<number, number>} */
    this.places = new Map();
    let at = 0;
    for (const query of section?.queries ?? []) {
      if (query >= count) continue;
      this.places.set(query, at - tops.starts[query]);
      at += tops.sizes[query];
    }
  }

  /** By how much a document changed the metric, in ten-thousandths, or null if that is not known. */
  change(/** @type {Store} */ store, /** @type {number} */ place) {
    const { query, metric, now, base } = store.state;
    const columns = this.section?.values?.[metric];
    const shift = this.places.get(query);
    if (!columns || shift === undefined || !store.isPair) return null;
    return columns[now][place + shift] - columns[base][place + shift];
  }
}

/** One document as a button. */
function documentRow(/** @type {Store} */ store, /** @type {Tops} */ tops, /** @type {number} */ place,
  /** @type {number} */ rank, /** @type {any[]} */ extras) {
  const { document, other } = store.state;
  const name = tops.name(place);
  return make("button", {
    class: place === other ? "doc other" : "doc", "data-place": place,
    "aria-pressed": String(place === document), title: name,
    click: (/** @type {MouseEvent} */ event) => chooseDocument(store, place, event.shiftKey),
  },
  make("span", { class: "rank" }, whole(rank)), labelChip(tops.label(place), tops.most),
  make("span", { class: "title", dir: "auto" }, name), ...extras);
}

/** Explain a document; with Shift, compare it with the one that is explained. */
function chooseDocument(/** @type {Store} */ store, /** @type {number} */ place, /** @type {boolean} */ second) {
  if (second && store.state.document >= 0) store.change({ other: place });
  else store.change({ document: place });
}

/** What happened to a document from the left list to the right one. */
function moveText(/** @type {number} */ from, /** @type {number} */ to) {
  return from === to ? "=" : `${sign(from - to)}${whole(Math.abs(from - to))}`;
}

/** A list of documents under the name of its candidate. */
function documentList(/** @type {string} */ title, /** @type {HTMLElement[]} */ rows, /** @type {string} */ kind) {
  return make("div", { class: kind }, make("h3", { title }, title), ...rows);
}

/** Lines from where a document stood to where it stands; past the last rank they end below. */
function moveLines(/** @type {Store} */ store, /** @type {Tops} */ tops, /** @type {number} */ left,
  /** @type {number} */ right, /** @type {number} */ width) {
  const { k } = tops.section;
  const { query, document } = store.state;
  const rows = Math.max(tops.shown(left, query).length, tops.shown(right, query).length);
  const height = rows * DOCUMENT_HEIGHT + 8;
  const y = (/** @type {number} */ rank) => (rank > k ? height - 2 : (rank - 0.5) * DOCUMENT_HEIGHT - 2);
  const chart = draw("svg", { class: "moves", width, height, "aria-hidden": "true" });
  for (const place of tops.places(query)) {
    const [from, to] = [tops.rank(left, place), tops.rank(right, place)];
    if (from > k && to > k) continue;
    const half = width / 2;
    const kind = `${tone(from - to)}${place === document ? " strong" : ""}`;
    chart.append(draw("path", { class: kind, d: `M2 ${y(from)}C${half} ${y(from)} ${half} ${y(to)} ${width - 2} ${y(to)}` }));
  }
  return chart;
}

/** Documents that only one of two lists shows, in a sentence. */
function goneText(/** @type {Store} */ store, /** @type {Tops} */ tops, /** @type {number} */ left, /** @type {number} */ right) {
  const { k } = tops.section;
  const places = tops.places(store.state.query);
  const left_ = places.filter((place) => tops.rank(left, place) <= k && tops.rank(right, place) > k).length;
  const came = places.filter((place) => tops.rank(left, place) > k && tops.rank(right, place) <= k).length;
  if (left_ + came === 0) return `The same documents are in both lists.`;
  return `${whole(left_)} left the first ${whole(k)}, ${whole(came)} came in.`;
}

/** The head of the query: its name, its values, and the way to the next one. */
function queryHead(/** @type {Store} */ store, /** @type {QueryTable} */ table) {
  const { query, metric, base, now } = store.state;
  const change = store.changes()[query];
  const values = store.isPair
    ? `${metric} ${fixed(store.values(base)[query] / UNIT)} → ${fixed(store.values(now)[query] / UNIT)}`
    : `${metric} ${fixed(store.values(now)[query] / UNIT)}`;
  const step = (/** @type {string} */ text, /** @type {number} */ by) =>
    make("button", { click: () => table.step(by) }, text);
  const copy = make("button", { click: () => copyText(location.href, copy) }, "copy link");
  return make("div", { class: "query-head" },
    make("p", { class: "name", dir: "auto" }, store.queries.text?.[query] || `query ${store.queries.id[query]}`),
    make("p", {}, Number.isNaN(change) ? `${metric}: skipped, no relevant document` : values),
    store.isPair && !Number.isNaN(change)
      ? make("p", { class: tone(change) }, `${sign(change)} ${signed(change / UNIT)}`) : null,
    make("p", { class: "quiet" },
      `${whole(store.queries.documents[query])} documents, ${whole(store.queries.relevant[query])} relevant`),
    make("div", { class: "steps" }, step("← previous", -1), step("next →", 1), copy));
}

/** The three lists with the lines between the first two. */
function queryLists(/** @type {Store} */ store, /** @type {Tops} */ tops, /** @type {Shares} */ shares) {
  const { query, base, now } = store.state;
  const [left, right] = store.isPair ? [base, now] : [now, -1];
  const phone = window.innerWidth <= 760;
  const moved = (/** @type {number} */ place) => {
    const [from, to] = [tops.rank(left, place), tops.rank(right, place)];
    return make("span", { class: `move ${tone(from - to)}` }, moveText(from, to));
  };
  const added = (/** @type {number} */ place) => {
    const change = shares.change(store, place);
    const text = change === null || change === 0 ? "" : signed(change / UNIT);
    return make("span", { class: `adds ${tone(change ?? 0)}` }, text);
  };
  const leaves = (/** @type {number} */ place) =>
    tops.rank(right, place) > tops.section.k
      ? [make("span", { class: "move down" }, `▼ to ${whole(tops.rank(right, place))}`), added(place)] : [];
  const rows = (/** @type {number} */ candidate, /** @type {(place: number) => any[]} */ extras) =>
    tops.shown(candidate, query).map((place) => documentRow(store, tops, place, tops.rank(candidate, place), extras(place)));
  const title = (/** @type {number} */ candidate) => (candidate < 0 ? "ideal order" : store.names[candidate]);
  const lists = [
    documentList(title(left), rows(left, leaves), "left"),
    moveLines(store, tops, left, right, phone ? 26 : store.isPair ? 96 : 120),
    documentList(title(right), rows(right, (place) => [moved(place), added(place)]), right < 0 ? "ideal" : "right"),
  ];
  if (right >= 0) lists.push(documentList(title(-1), rows(-1, () => []), "ideal"));
  return make("div", { class: store.isPair ? "lists" : "lists alone" }, ...lists);
}

/** The documents of the query as a table. @returns {Sheet} */
function querySheet(/** @type {Store} */ store, /** @type {Tops} */ tops, /** @type {Shares} */ shares) {
  const places = tops.places(store.state.query);
  return {
    head: ["document", "label", ...store.names.map((name) => `rank in ${name}`), "ideal rank", "changed the metric by"],
    rows: places.map((place) => {
      const change = shares.change(store, place);
      return [tops.name(place), tops.label(place), ...store.names.map((_, at) => tops.rank(at, place)),
        tops.rank(-1, place), change === null ? null : change / UNIT];
    }),
  };
}

/** The view of one query. */
function addRanking(/** @type {Store} */ store, /** @type {View} */ view, /** @type {QueryTable} */ table,
  /** @type {Tops} */ tops, /** @type {Shares} */ shares) {
  const tools = addTools(view, () => querySheet(store, tops, shares));
  const show = () => {
    const { query } = store.state;
    const focused = document.activeElement?.getAttribute("data-place");
    if (query < 0) {
      view.picture.replaceChildren(make("p", { class: "quiet" }, "Choose a query in the table or in the plot above."));
    } else if (tops.places(query).length === 0) {
      view.picture.replaceChildren(queryHead(store, table),
        make("p", { class: "quiet" }, "The documents of this query were left out of the file; see the end of the page."));
    } else {
      const [left, right] = store.isPair ? [store.state.base, store.state.now] : [store.state.now, -1];
      view.picture.replaceChildren(queryHead(store, table), queryLists(store, tops, shares),
        make("p", { class: "gone" }, goneText(store, tops, left, right)));
    }
    if (focused) view.picture.querySelector(`[data-place="${focused}"]`)?.focus();
    tools.refresh();
  };
  store.on(["query", "metric", "now", "base", "document", "other"], show);
  matchMedia("(max-width: 760px)").addEventListener("change", show);
  show();
}
