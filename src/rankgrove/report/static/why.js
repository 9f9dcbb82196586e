// @ts-check
// Why a document moved, and why one stands above another: what each feature adds to their scores.

/** The reasons of the queries that have them. */
class Reasons {
  /** @param {any} section @param {Tops} tops */
  constructor(section, tops) {
    this.section = section;
    this.tops = tops;
    /** @type {Map<number, {place: number, start: number}>} */
    this.queries = new Map();
    let start = 0;
    section.queries.forEach((/** @type {number} */ query, /** @type {number} */ place) => {
      this.queries.set(query, { place, start });
      start += section.counts[place];
    });
  }

  /** Whether a candidate's score is a sum over features. @param {number} candidate */
  has(candidate) {
    return Boolean(this.section.adds[candidate]);
  }

  /** The features of a query, by name. @param {number} query @returns {string[]} */
  names(query) {
    const known = this.queries.get(query);
    if (!known) return [];
    const { features, feature, names } = this.section;
    return Array.from({ length: features }, (_, at) => names[feature[known.place * features + at]]);
  }

  /** The row of a document in this section. @param {number} query @param {number} place */
  row(query, place) {
    const known = this.queries.get(query);
    return known ? known.start + place - this.tops.starts[query] : -1;
  }

  /** The values of a document's features. @param {number} row @returns {any[]} */
  values(row) {
    const { features, value } = this.section;
    return value.slice(row * features, (row + 1) * features);
  }

  /** What each feature adds to a document's score, and the rest last. */
  adds(/** @type {number} */ candidate, /** @type {number} */ row) {
    const { features, adds, rest } = this.section;
    return [...adds[candidate].slice(row * features, (row + 1) * features), rest[candidate][row]];
  }

  /** The mean of what each feature adds over the documents of a query. */
  means(/** @type {number} */ candidate, /** @type {number} */ query) {
    const { features } = this.section;
    const sums = new Array(features + 1).fill(0);
    const places = this.tops.places(query);
    for (const place of places) {
      this.adds(candidate, this.row(query, place)).forEach((value, at) => (sums[at] += value / places.length));
    }
    return sums;
  }
}

/** Bars to both sides of the middle, one below the other. */
function barCell(/** @type {number[]} */ values, /** @type {number} */ most, /** @type {string[]} */ colours) {
  const height = 6 * values.length + 2 * (values.length - 1) + 4;
  const chart = draw("svg", { class: "chart middle", width: "100%", height, "aria-hidden": "true" });
  values.forEach((value, at) => {
    const length = (Math.min(1, Math.abs(value) / (most || 1)) * 50).toFixed(2);
    const x = value < 0 ? `${(50 - Number(length)).toFixed(2)}%` : "50%";
    chart.append(draw("rect", { fill: colours[at], x, y: 2 + at * 8, width: `${length}%`, height: 6, rx: 1 }));
  });
  return make("td", { class: "bars" }, chart);
}

/** A number that has a place in a column of sums. @param {number} value */
const part = (value) => signed(value, Math.abs(value) >= 100 ? 1 : 3);

/** The document to explain: the chosen one, or the one that changed the metric most. */
function explainedDocument(/** @type {Store} */ store, /** @type {Tops} */ tops, /** @type {Shares} */ shares) {
  const { query, document, now } = store.state;
  if (document >= 0) return document;
  const places = tops.shown(now, query);
  const size = (/** @type {number} */ place) => Math.abs(shares.change(store, place) ?? 0);
  return tops.places(query).reduce((best, place) => (size(place) > size(best) ? place : best), places[0] ?? -1);
}

/** The document that it is compared with: the chosen one, or its neighbour in the list. */
function comparedDocument(/** @type {Store} */ store, /** @type {Tops} */ tops, /** @type {number} */ document) {
  const { query, other, now } = store.state;
  if (other >= 0 && other !== document) return other;
  const order = tops.places(query).sort((a, b) => tops.rank(now, a) - tops.rank(now, b));
  const at = order.indexOf(document);
  return order[at > 0 ? at - 1 : 1] ?? -1;
}

/** What the features add to one document under both models. @returns {Sheet} */
function reasonSheet(/** @type {Store} */ store, /** @type {Reasons} */ reasons, /** @type {number} */ document,
  /** @type {boolean} */ centred) {
  const { query } = store.state;
  const row = reasons.row(query, document);
  const names = [...reasons.names(query), "all others"];
  const values = [...reasons.values(row), ""];
  const columns = store.pair.filter((candidate) => reasons.has(candidate));
  const adds = columns.map((candidate) => {
    const means = centred ? reasons.means(candidate, query) : [];
    return reasons.adds(candidate, row).map((value, at) => value - (means[at] ?? 0));
  });
  const rows = names.map((name, at) => {
    const own = adds.map((column) => column[at]);
    return [name, values[at], ...own, ...(own.length > 1 ? [own[1] - own[0]] : [])];
  });
  const weight = (/** @type {any[]} */ cells) => Math.abs(cells[cells.length - 1]);
  const last = /** @type {any[]} */ (rows.pop());
  rows.sort((a, b) => weight(b) - weight(a));
  return {
    head: ["feature", "value", ...columns.map((candidate) => store.names[candidate]), ...(columns.length > 1 ? ["change"] : [])],
    rows: [...rows, last],
  };
}

/** The same as a table with bars. */
function reasonTable(/** @type {Store} */ store, /** @type {Reasons} */ reasons, /** @type {number} */ document,
  /** @type {boolean} */ centred) {
  const sheet = reasonSheet(store, reasons, document, centred);
  const columns = store.pair.filter((candidate) => reasons.has(candidate));
  const width = columns.length;
  const [, most] = extent([0, ...sheet.rows.flatMap((row) => row.slice(2, 2 + width).map(Math.abs))]);
  const colours = columns.map(candidateColour);
  const rows = sheet.rows.map((row) => make("tr", {},
    make("td", { title: row[0] }, row[0]),
    make("td", { title: String(row[1]) }, row[1] === "" ? "" : shortNumber(row[1])),
    barCell(row.slice(2, 2 + width), most, colours),
    ...row.slice(2).map((value, at) => make("td", { class: at === 2 ? tone(value) : null }, part(value)))));
  const head = [sheet.head[0], sheet.head[1], "~adds", ...sheet.head.slice(2)];
  return make("table", { class: "plain reasons" },
    tableHead(head),
    make("tbody", {}, ...rows));
}

/** Why a stands above b: feature by feature with a running total. @returns {Sheet} */
function aboveSheet(/** @type {Store} */ store, /** @type {Reasons} */ reasons, /** @type {number} */ a, /** @type {number} */ b) {
  const { query, now } = store.state;
  const [rowA, rowB] = [reasons.row(query, a), reasons.row(query, b)];
  const [addsA, addsB] = [reasons.adds(now, rowA), reasons.adds(now, rowB)];
  const [valuesA, valuesB] = [reasons.values(rowA), reasons.values(rowB)];
  /** @type {any[][]} */
  const rows = reasons.names(query).map((name, at) => [name, valuesA[at], valuesB[at], addsA[at] - addsB[at], 0]);
  rows.sort((x, y) => Math.abs(y[3]) - Math.abs(x[3]));
  const last = addsA.length - 1;
  rows.push(["all others", "", "", addsA[last] - addsB[last], 0]);
  let total = 0;
  for (const row of rows) row[4] = total += row[3];
  return { head: ["feature", "in a", "in b", "a \u2212 b", "total"], rows };
}

/** The same as a table with bars. @param {Sheet} sheet */
function aboveTable(sheet) {
  const [, most] = extent([0, ...sheet.rows.map((row) => Math.abs(row[3]))]);
  const show = (/** @type {any} */ value) => (value === "" ? "" : shortNumber(value));
  const rows = sheet.rows.map(([name, a, b, difference, total]) => make("tr", {},
    make("td", { title: name }, name), make("td", {}, show(a)), make("td", {}, show(b)),
    barCell([difference], most, [`var(--${difference < 0 ? "down" : "up"})`]),
    make("td", { class: tone(difference) }, part(difference)), make("td", {}, part(total))));
  const [feature, inA, inB, gap, total] = sheet.head;
  return make("table", { class: "plain reasons" },
    tableHead([feature, inA, inB, "~adds", gap, total]),
    make("tbody", {}, ...rows));
}

/** What to call the step from one rank to another. */
function movedText(/** @type {Store} */ store, /** @type {Tops} */ tops, /** @type {number} */ document) {
  const { base, now } = store.state;
  const name = tops.name(document);
  if (!store.isPair) return `Why ${name} stands at rank ${whole(tops.rank(now, document))}`;
  const [from, to] = [tops.rank(base, document), tops.rank(now, document)];
  return from === to ? `Why ${name} stays at rank ${whole(to)}` : `Why ${name} went from ${whole(from)} to ${whole(to)}`;
}

/** Both tables for the chosen document. */
function reasonPanels(/** @type {Store} */ store, /** @type {Tops} */ tops, /** @type {Shares} */ shares,
  /** @type {Reasons} */ reasons, /** @type {boolean} */ centred) {
  const document = explainedDocument(store, tops, shares);
  const { now } = store.state;
  const known = store.pair.filter((candidate) => reasons.has(candidate));
  const panels = [make("div", {}, make("h3", { dir: "auto" }, movedText(store, tops, document)), candidateLegend(store, known),
    reasonTable(store, reasons, document, centred))];
  const other = comparedDocument(store, tops, document);
  if (other >= 0 && reasons.has(now)) {
    const [a, b] = [document, other].sort((x, y) => tops.rank(now, x) - tops.rank(now, y));
    const title = `Why ${tops.name(a)} (a) stands above ${tops.name(b)} (b) in ${store.names[now]}`;
    panels.push(make("div", {}, make("h3", { dir: "auto" }, title), candidateLegend(store, [now]), aboveTable(aboveSheet(store, reasons, a, b))));
  }
  return make("div", { class: "two" }, ...panels);
}

/** The view of reasons. */
function addWhy(/** @type {Store} */ store, /** @type {View} */ view, /** @type {Tops} */ tops,
  /** @type {Shares} */ shares, /** @type {Reasons} */ reasons) {
  let centred = true;
  const none = { head: ["feature"], rows: [] };
  const tools = addTools(view, () => {
    const { query } = store.state;
    if (!reasons.queries.has(query)) return none;
    return reasonSheet(store, reasons, explainedDocument(store, tops, shares), centred);
  });
  const show = () => {
    const { query, now, base } = store.state;
    if (query < 0 || !reasons.queries.has(query)) {
      view.picture.replaceChildren(make("p", { class: "quiet" }, query < 0
        ? "Choose a query first."
        : `The file has reasons for ${queriesText(reasons.queries.size)}; this one is not among them.`));
    } else if (!reasons.has(now) && !reasons.has(base)) {
      view.picture.replaceChildren(make("p", { class: "quiet" }, "Neither candidate has a score that is a sum over features."));
    } else {
      const tick = makeTick("less the mean of the documents shown: only differences within a query count", centred, (on) => {
        centred = on;
        show();
      });
      view.picture.replaceChildren(reasonPanels(store, tops, shares, reasons, centred), tick);
    }
    tools.refresh();
  };
  store.on(["query", "metric", "now", "base", "document", "other"], show);
  show();
}
