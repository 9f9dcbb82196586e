// @ts-check
// What each model rests on: importance of features, and the shape of their effect within a query.

// So many features are listed; the others on demand.
const LISTED = 10;

/** @type {[string, string][]} */
const IMPORTANCES = [
  ["permutation", "drop of the metric when shuffled"],
  ["contribution", "mean effect on a score"],
  ["gain", "gain of splits"],
  ["split", "number of splits"],
];

/** The figures of one candidate by one kind of importance, or null. */
function importanceOf(/** @type {any} */ section, /** @type {number} */ candidate, /** @type {string} */ kind) {
  const own = section.candidates[candidate];
  if (!own) return null;
  return kind === "permutation" ? own.permutation?.mean ?? null : own[kind] ?? null;
}

/** The kinds of importance that some candidate has. @param {any} section */
const knownImportances = (section) => IMPORTANCES.filter(([kind]) =>
  section.candidates.some((/** @type {any} */ _, /** @type {number} */ at) => importanceOf(section, at, kind)));

/** The candidates that are looked at and have features. */
function featureCandidates(/** @type {Store} */ store, /** @type {any} */ section) {
  return store.pair.filter((candidate) => section.candidates[candidate]);
}

/** The shown features, most important for the newer candidate first. */
function orderedFeatures(/** @type {Store} */ store, /** @type {any} */ section, /** @type {string} */ kind) {
  const candidates = featureCandidates(store, section).reverse();
  const columns = candidates.map((candidate) => importanceOf(section, candidate, kind));
  const figure = (/** @type {number} */ feature) =>
    columns.reduce((best, column) => best ?? column?.[feature] ?? null, /** @type {number|null} */ (null)) ?? -Infinity;
  return [...section.shown].sort((a, b) => figure(b) - figure(a));
}

/** Bars of one feature, one per candidate, with the spread over repeats. */
function importanceCell(/** @type {any} */ section, /** @type {number[]} */ candidates, /** @type {number} */ feature,
  /** @type {string} */ kind, /** @type {(value: number) => number} */ place) {
  const height = candidates.length * 9 + 3;
  const chart = draw("svg", { class: "chart", width: "100%", height, "aria-hidden": "true" },
    draw("line", { class: "axis", x1: `${place(0)}%`, x2: `${place(0)}%`, y1: 0, y2: height }));
  candidates.forEach((candidate, at) => {
    const value = importanceOf(section, candidate, kind)?.[feature];
    if (typeof value !== "number") return;
    const [from, to] = [Math.min(place(0), place(value)), Math.max(place(0), place(value))];
    const y = 2 + at * 9;
    chart.append(draw("rect", { fill: candidateColour(candidate), x: `${from}%`, y, width: `${to - from}%`, height: 7, rx: 1 }));
    const spread = kind === "permutation" ? section.candidates[candidate].permutation.std?.[feature] : null;
    if (spread) chart.append(draw("line", { class: "whisker", x1: `${place(value - spread)}%`, x2: `${place(value + spread)}%`, y1: y + 3.5, y2: y + 3.5 }));
  });
  return make("td", { class: "bars" }, chart);
}

/** The list of features with their bars; a click draws the shape of one. */
function featureTable(/** @type {Store} */ store, /** @type {any} */ section, /** @type {string} */ kind,
  /** @type {number} */ chosen, /** @type {(feature: number) => void} */ choose, /** @type {number} */ listed) {
  const candidates = featureCandidates(store, section);
  const order = orderedFeatures(store, section, kind).slice(0, listed);
  const figures = candidates.flatMap((candidate) =>
    order.map((feature) => importanceOf(section, candidate, kind)?.[feature]).filter((value) => typeof value === "number"));
  const [low, high] = extent([0, ...figures]);
  const place = linear(low, high, low < 0 ? 6 : 1, 92);
  const places = kind === "split" ? 0 : kind === "gain" && high >= 100 ? 0 : 4;
  const rows = order.map((feature) => make("tr", { "data-feature": feature },
    make("th", { scope: "row" }, make("button", { class: "link", "aria-pressed": String(feature === chosen),
      title: section.names[feature], click: () => choose(feature) }, section.names[feature])),
    importanceCell(section, candidates, feature, kind, place),
    ...candidates.map((candidate) => {
      const value = importanceOf(section, candidate, kind)?.[feature] ?? null;
      return make("td", {}, places ? fixed(value, places) : value === null ? NONE : whole(value));
    })));
  return make("table", { class: "slices" },
    tableHead(["feature", `~${kind}`, ...candidates.map((candidate) => store.names[candidate])]),
    make("tbody", {}, ...rows));
}

/** Where the values of a feature stand: in proportion, or in equal steps if most lie close together. */
function shapeScale(/** @type {any} */ shape, /** @type {number} */ left, /** @type {number} */ right) {
  const known = shape.x.map((/** @type {number|null} */ value, /** @type {number} */ at) => ({ value, at }))
    .filter((/** @type {any} */ one) => one.value !== null);
  const [low, high] = extent(known.map((/** @type {any} */ one) => one.value));
  const middle = known[Math.floor(known.length / 2)]?.value ?? low;
  const share = (middle - low) / (high - low || 1);
  const even = shape.levels !== null || share < 0.12 || share > 0.88;
  const steps = linear(0, Math.max(1, shape.x.length - 1), left, right);
  const values = linear(low, high, left, right);
  return { even, low, high, at: (/** @type {number} */ place) => (even ? steps(place) : values(shape.x[place] ?? low)) };
}

/** The numbers below a shape. */
function shapeAxis(/** @type {any} */ chart, /** @type {any} */ shape, /** @type {ReturnType<typeof shapeScale>} */ scale,
  /** @type {number} */ left, /** @type {number} */ right, /** @type {number} */ bottom) {
  if (!scale.even) {
    bottomAxis(chart, ticksOf(scale.low, scale.high, 5), linear(scale.low, scale.high, left, right), bottom - 4, bottom);
    return;
  }
  const every = Math.ceil(shape.x.length / 6);
  shape.x.forEach((/** @type {number|null} */ value, /** @type {number} */ place) => {
    if (place % every !== 0) return;
    const text = shape.levels ? shape.levels[place] : shortNumber(value);
    chart.append(chartText(scale.at(place), bottom + 16, text.length > 12 ? `${text.slice(0, 11)}…` : text, MIDDLE));
  });
}

/** The mean effect of a feature within the query by its value, and below it how many have the value. */
function shapeChart(/** @type {Store} */ store, /** @type {any} */ section, /** @type {any} */ shape, /** @type {number} */ width) {
  const candidates = featureCandidates(store, section).filter((candidate) => shape.y[candidate]);
  const [height, bottom] = [300, 236];
  const missing = shape.missing > 0;
  const left = missing ? 104 : 56;
  const name = section.names[shape.feature];
  const chart = makeChart(width, height, `Mean effect of ${name} within a query, by its value`);
  const effects = candidates.flatMap((candidate) => [...shape.y[candidate], shape.y_missing[candidate]]).filter((value) => value !== null);
  const [low, high] = extent([0, ...effects]);
  const y = linear(low, high, bottom - 10, 12);
  leftAxis(chart, ticksOf(low, high, 5), y, 48, width);
  const scale = shapeScale(shape, left + 8, width - 16);
  shapeAxis(chart, shape, scale, left + 8, width - 16, height - 24);
  const [, most] = extent([1, ...shape.density, shape.missing]);
  const density = (/** @type {number} */ x, /** @type {number} */ count) => {
    const tall = (count / most) * 26;
    chart.append(draw("rect", { class: "density", x: x - 2.5, y: height - 26 - tall, width: 5, height: tall }));
  };
  shape.density.forEach((/** @type {number} */ count, /** @type {number} */ place) => density(scale.at(place), count));
  if (missing) {
    density(72, shape.missing);
    chart.append(chartText(72, height - 8, "missing", MIDDLE));
  }
  candidates.forEach((candidate) => {
    /** @type {[number, number][]} */
    const points = shape.y[candidate].map((/** @type {number|null} */ value, /** @type {number} */ place) =>
      [scale.at(place), value === null ? NaN : y(value)]);
    chart.append(draw("path", { class: lineClass(candidate), d: pathOf(points) }));
    for (const [x, at] of points) if (!Number.isNaN(at)) chart.append(draw("circle", { fill: candidateColour(candidate), cx: x, cy: at, r: 2.5 }));
    const absent = shape.y_missing[candidate];
    if (missing && absent !== null) chart.append(draw("circle", { fill: candidateColour(candidate), cx: 72, cy: y(absent), r: 4 }));
  });
  return chart;
}

/** The chosen feature's shape, or why there is none. */
function shapePanel(/** @type {Store} */ store, /** @type {any} */ section, /** @type {number} */ feature, /** @type {number} */ width) {
  const shape = section.dependence.find((/** @type {any} */ one) => one.feature === feature);
  const title = make("h3", {}, `Effect of ${section.names[feature] ?? "a feature"} within a query`);
  if (!shape) return [title, make("p", { class: "quiet" }, "The scores of these models are no sums over features.")];
  const known = featureCandidates(store, section).filter((candidate) => shape.y[candidate]);
  return [title, candidateLegend(store, known), shapeChart(store, section, shape, width),
    make("p", { class: "quiet" }, `By value, less the mean of the query; bars below: how many of ${whole(section.documents)} documents have it.`)];
}

/** The view of features. */
function addFeatures(/** @type {Store} */ store, /** @type {View} */ view, /** @type {any} */ section) {
  let listed = LISTED;
  let [kind] = knownImportances(section)[0] ?? ["permutation"];
  let chosen = orderedFeatures(store, section, kind)[0] ?? -1;
  const importances = makeSelect("by", knownImportances(section), (value) => {
    kind = value;
    show();
  });
  const list = make("div");
  const shape = make("div");
  const note = make("p", { class: "quiet" },
    `Shuffled ${section.repeats} times within the queries; ${section.metric} on ${queriesText(section.queries)}.`);
  view.picture.append(make("div", { class: "filters" }, importances.field), make("div", { class: "feature-list" }, list, shape));
  const tools = addTools(view, () => ({
    head: ["feature", ...store.names.flatMap((name) => IMPORTANCES.map(([one]) => `${one} of ${name}`))],
    rows: section.names.map((/** @type {string} */ name, /** @type {number} */ feature) =>
      [name, ...store.names.flatMap((_, at) => IMPORTANCES.map(([one]) => importanceOf(section, at, one)?.[feature] ?? null))]),
  }));
  const paintShape = drawForWidth(shape, (width) => shape.replaceChildren(...shapePanel(store, section, chosen, width)));
  const show = () => {
    const focused = document.activeElement?.closest("[data-feature]")?.getAttribute("data-feature");
    const table = featureTable(store, section, kind, chosen, (feature) => {
      chosen = feature;
      show();
    }, listed);
    const more = make("button", { class: "link", hidden: listed >= section.shown.length, click: () => {
      listed = Infinity;
      show();
    } }, `show all ${section.shown.length}`);
    list.replaceChildren(candidateLegend(store, featureCandidates(store, section)), table, more, ...(kind === "permutation" ? [note] : []));
    if (focused) list.querySelector(`[data-feature="${focused}"] button`)?.focus();
    paintShape();
    tools.refresh();
  };
  store.on(["now", "base"], show);
  show();
}
