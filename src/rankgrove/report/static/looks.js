// @ts-check
// What in the data and in the scores is worth a look, and whether labels are told apart.

const LINKED = 6;

/** One matter: how many, what, and the first queries that have it. */
function lookItem(/** @type {Store} */ store, /** @type {any} */ look) {
  const links = look.queries.slice(0, LINKED).map((/** @type {number} */ query) =>
    make("button", { class: "link", dir: "auto", click: () => {
      store.change({ query });
      goTo("query");
    } }, store.queryName(query)));
  return make("li", {}, make("span", { class: "count" }, whole(look.count)),
    make("div", {}, make("p", {}, look.sentence), links.length ? make("div", { class: "links" }, make("span", { class: "quiet" }, "first:"), ...links) : null));
}

/** The spread of scores of each label, less the mean of the query, as boxes. */
function scoreChart(/** @type {Store} */ store, /** @type {any} */ section, /** @type {number} */ width) {
  const candidates = store.pair;
  const rows = section.grades.length * candidates.length;
  const height = rows * 18 + section.grades.length * 8 + 30;
  const chart = makeChart(width, height, "Scores of each label, less the mean of the query");
  const ranges = candidates.map((candidate) => extent(section.scores[candidate].flatMap((/** @type {any} */ spread) => spread ?? [])));
  let top = 4;
  section.grades.forEach((/** @type {any} */ grade, /** @type {number} */ at) => {
    chart.append(chartText(0, top + 9 * candidates.length + 3, `label ${grade}`, { class: "strong" }));
    candidates.forEach((candidate, place) => {
      const spread = section.scores[candidate][at];
      const x = linear(ranges[place][0], ranges[place][1], 66, width - 6);
      const y = top + place * 18 + 9;
      if (!spread) return;
      chart.append(draw("line", { class: `c${candidate % 6} line thin`, x1: x(spread[0]), x2: x(spread[4]), y1: y, y2: y }),
        draw("rect", { fill: candidateColour(candidate), x: x(spread[1]), y: y - 5, width: Math.max(1, x(spread[3]) - x(spread[1])), height: 10, rx: 2, opacity: 0.55 }),
        draw("line", { class: "whisker", x1: x(spread[2]), x2: x(spread[2]), y1: y - 6, y2: y + 6 }));
    });
    top += candidates.length * 18 + 8;
  });
  chart.append(chartText(66, height - 8, "lower scores"), chartText(width - 6, height - 8, "higher", { "text-anchor": "end" }));
  return chart;
}

/** For each two labels, the share of pairs in the wrong order. */
function wrongTable(/** @type {Store} */ store, /** @type {any} */ section) {
  const candidates = store.pair;
  const rows = [];
  for (let higher = section.grades.length - 1; higher > 0; higher--) {
    for (let lower = 0; lower < higher; lower++) {
      const pairs = section.pairs[higher][lower];
      if (!pairs) continue;
      rows.push(make("tr", {}, make("th", { scope: "row" }, `${section.grades[higher]} above ${section.grades[lower]}`), make("td", {}, whole(pairs)),
        ...candidates.map((candidate) => make("td", {}, `${fixed((100 * section.wrong[candidate][higher][lower]) / pairs, 1)} %`))));
    }
  }
  return make("table", { class: "plain" },
    tableHead(["labels", "pairs", ...candidates.map((candidate) => `${store.names[candidate]}, wrong`)]),
    make("tbody", {}, ...rows.slice(0, 15)));
}

/** Whether labels are told apart. */
function addLabels(/** @type {Store} */ store, /** @type {HTMLElement} */ box, /** @type {any} */ section) {
  const chart = make("div");
  const table = make("div");
  const paint = drawForWidth(chart, (width) => {
    chart.replaceChildren(make("h3", {}, "Scores by label: middle half, and 5 to 95 %"), candidateLegend(store, store.pair), scoreChart(store, section, width));
    table.replaceChildren(make("h3", {}, "Pairs of labels in the wrong order"), wrongTable(store, section));
  });
  box.append(chart, table);
  paint();
  store.on(["now", "base"], paint);
}

/** The view of what is worth a look. */
function addLooks(/** @type {Store} */ store, /** @type {View} */ view, /** @type {any[]} */ looks, /** @type {any} */ labels) {
  addTools(view, () => ({ head: ["count", "what", "sentence"], rows: looks.map((look) => [look.count, look.what, look.sentence]) }));
  const list = looks.length
    ? make("ul", { class: "looks" }, ...looks.map((look) => lookItem(store, look)))
    : make("p", { class: "quiet" }, "Nothing was found that is worth a look.");
  const side = make("div", { class: "stack" });
  view.picture.append(labels ? make("div", { class: "two" }, make("div", {}, list), side) : list);
  if (labels) addLabels(store, side, labels);
}
