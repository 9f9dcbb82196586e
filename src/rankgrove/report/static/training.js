// @ts-check
// How the models came about: learning curves, the gap, and the labels at each rank over training.

const PARTS = [["train", "training"], ["valid", "validation"], ["test", "this data"]];

/** The curves of one candidate under a metric: on parts of the data, or what training wrote down. */
function curvesOf(/** @type {Store} */ store, /** @type {any} */ section, /** @type {number} */ candidate) {
  const { metric } = store.state;
  const found = section.curves[store.names[candidate]]?.[metric];
  if (found) {
    return PARTS.filter(([part_]) => found[part_]).map(([part_, name]) => ({ part: part_, name, x: found.n_trees, y: found[part_] }));
  }
  const history = section.candidates[candidate]?.history ?? {};
  return Object.entries(history).flatMap(([name, byMetric]) => {
    const y = /** @type {any} */ (byMetric)[metric];
    return y ? [{ part: "valid", name, x: y.map((/** @type {any} */ _, /** @type {number} */ at) => at + 1), y }] : [];
  });
}

/** All curves of the candidates that are looked at. */
function allCurves(/** @type {Store} */ store, /** @type {any} */ section) {
  return store.pair.flatMap((candidate) =>
    curvesOf(store, section, candidate).map((curve) => ({ ...curve, candidate })));
}

/** The place of the highest value. @param {(number|null)[]} values */
const peakOf = (values) => values.reduce((/** @type {number} */ best, value, at) =>
  ((value ?? -Infinity) > (values[best] ?? -Infinity) ? at : best), 0);

/** The range of a metric that is worth its room: without the first steps, which are far below. */
function curveRange(/** @type {any[]} */ curves) {
  const values = curves.flatMap(({ y }) => {
    const from = Math.min(y.length - 1, Math.ceil(y.length * 0.04));
    return y.slice(from).filter((/** @type {number|null} */ value) => value !== null);
  });
  const [low, high] = extent(values);
  const air = (high - low) * 0.06 || 0.01;
  return [low - air, high + air];
}

/** The learning curves. */
function curveChart(/** @type {Store} */ store, /** @type {any[]} */ curves, /** @type {number} */ width) {
  const height = 280;
  const chart = makeChart(width, height, `Learning curves: ${store.state.metric} by number of steps`);
  const [low, high] = curveRange(curves);
  const [, last] = extent(curves.flatMap(({ x }) => x));
  const y = linear(low, high, height - 40, 10);
  const x = linear(0, last, 56, width - 14);
  leftAxis(chart, ticksOf(low, high, 5), y, 50, width);
  bottomAxis(chart, ticksOf(0, last, 6), x, height - 44, height - 40);
  chart.append(chartText((width + 50) / 2, height - 4, "trees, or epochs", MIDDLE));
  const inside_ = draw("g");
  for (const curve of curves) {
    /** @type {[number, number][]} */
    const points = curve.x.map((/** @type {number} */ at, /** @type {number} */ place) =>
      [x(at), curve.y[place] === null || curve.y[place] < low ? NaN : y(curve.y[place])]);
    inside_.append(draw("path", { class: `${partClass(curve.part)} c${curve.candidate % 6}`, d: pathOf(points) }));
    if (curve.part === "train") continue;
    const peak = peakOf(curve.y);
    inside_.append(draw("circle", { fill: candidateColour(curve.candidate), cx: x(curve.x[peak]), cy: y(curve.y[peak]), r: 4 },
      draw("title", {}, `best at ${curve.x[peak]}: ${fixed(curve.y[peak])}`)));
  }
  chart.append(inside_);
  return chart;
}

/** The stroke of a part of the data. @param {string} name */
const partClass = (name) => ({ train: "line thin part-train", valid: "line thin part-valid" }[name] ?? "line part-test");

/** What the curves come to, in a table. */
function gapTable(/** @type {Store} */ store, /** @type {any} */ section, /** @type {any[]} */ curves) {
  const { metric } = store.state;
  const rows = section.gap.filter((/** @type {any} */ row) => row.metric === metric);
  if (rows.length) {
    return make("table", { class: "plain" },
      tableHead(["candidate", "train", "this data", "gap", "interval"]),
      make("tbody", {}, ...rows.map((/** @type {any} */ row) => make("tr", {}, make("th", { scope: "row" }, row.name),
        make("td", {}, fixed(row.train)), make("td", {}, fixed(row.test)), make("td", {}, signed(row.gap)),
        make("td", {}, row.low === null ? NONE : `${signed(row.low)} to ${signed(row.high)}`)))));
  }
  const lines = curves.filter(({ part: name }) => name !== "train").map((curve) => {
    const peak = peakOf(curve.y);
    return make("tr", {}, make("th", { scope: "row" }, `${store.names[curve.candidate]}, ${curve.name}`),
      make("td", {}, fixed(curve.y[peak])), make("td", {}, whole(curve.x[peak])), make("td", {}, whole(curve.x[curve.x.length - 1])));
  });
  return make("table", { class: "plain" },
    tableHead(["curve", "best", "at", "of"]),
    make("tbody", {}, ...lines));
}

/** Who stands at which rank after so many trees: a column per rank, labels stacked. */
function labelChart(/** @type {any} */ stages, /** @type {number} */ stage, /** @type {number} */ width) {
  const grades = stages.labels;
  const height = 250;
  const counts = stages.counts[stage];
  const chart = makeChart(width, height, `Labels at each rank after ${stages.trees[stage]} trees`);
  const y = linear(0, 100, height - 40, 8);
  leftAxis(chart, [0, 50, 100], y, 46, width, (tick) => `${tick} %`);
  const wide = (width - 50) / counts.length;
  const most = Math.max(...grades.map(Number));
  const shapes = grades.map(() => "");
  counts.forEach((/** @type {number[]} */ row, /** @type {number} */ rank) => {
    const total = row.reduce((sum, count) => sum + count, 0) || 1;
    let below = 0;
    for (let grade = row.length - 1; grade >= 0; grade--) {
      const share = (100 * row[grade]) / total;
      const bar = Math.max(1, wide - 2).toFixed(1);
      shapes[grade] += `M${(51 + rank * wide).toFixed(1)} ${y(below).toFixed(1)}h${bar}V${y(below + share).toFixed(1)}h-${bar}Z`;
      below += share;
    }
    if (rank === 0 || rank % 5 === 4) chart.append(chartText(50 + (rank + 0.5) * wide, height - 24, String(rank + 1), MIDDLE));
  });
  grades.forEach((/** @type {any} */ grade, /** @type {number} */ at) =>
    chart.append(draw("path", { d: shapes[at], fill: labelColour(grade, most) })));
  chart.append(chartText((width + 50) / 2, height - 4, "rank", MIDDLE));
  return chart;
}

/** Labels by rank with a slider over training. */
function addLabelShares(/** @type {Store} */ store, /** @type {any} */ section, /** @type {HTMLElement} */ box) {
  const { candidates } = section.labels_by_rank;
  const grades = /** @type {any} */ (Object.values(candidates)[0]).labels;
  const chart = make("div");
  const slider = make("input", { type: "range", min: 0, value: 0, "aria-label": "Trees" });
  const told = make("output");
  const stages = () => candidates[store.names[store.state.now]] ?? candidates[store.names[store.state.base]] ?? Object.values(candidates)[0];
  const whose = () => Object.keys(candidates).find((name) => candidates[name] === stages()) ?? "";
  const paint = drawForWidth(chart, (width) => {
    const stage = Number(slider.value);
    told.textContent = `after ${whole(stages().trees[stage])} trees`;
    slider.setAttribute("aria-valuetext", told.textContent);
    chart.replaceChildren(labelChart(stages(), stage, width));
  });
  const title = make("h3");
  box.append(make("div", {}, title, make("div", { class: "forces-head" }, slider, told), chart,
    labelLegend("labels ", grades)));
  const refresh = () => {
    slider.max = String(stages().trees.length - 1);
    slider.value = slider.max;
    title.textContent = `Labels by rank, ${whose()}`;
    paint();
  };
  slider.addEventListener("input", () => paint());
  store.on(["now", "base"], refresh);
  refresh();
}

/** Forces over training, summed by label: up above the line, down below it. */
function totalsChart(/** @type {any} */ totals, /** @type {number} */ width) {
  const height = 220;
  const grades = totals.labels;
  const most = Math.max(...grades.map(Number));
  const chart = makeChart(width, height, `Forces of ${totals.objective} by label over training`);
  const sums = (/** @type {number[][]} */ rows) => rows.map((row) => row.reduce((sum, value) => sum + value, 0));
  const [low, high] = extent([0, ...sums(totals.up), ...sums(totals.down)]);
  const y = linear(low, high, height - 40, 8);
  const x = linear(totals.trees[0], totals.trees[totals.trees.length - 1], 60, width - 12);
  leftAxis(chart, ticksOf(low, high, 5), y, 54, width);
  for (const rows of [totals.up, totals.down]) {
    let before = rows.map(() => 0);
    for (let grade = grades.length - 1; grade >= 0; grade--) {
      const after = before.map((/** @type {number} */ sum, /** @type {number} */ at) => sum + rows[at][grade]);
      const upper = after.map((/** @type {number} */ value, /** @type {number} */ at) => `${x(totals.trees[at]).toFixed(1)} ${y(value).toFixed(1)}`);
      const lower = before.map((/** @type {number} */ value, /** @type {number} */ at) => `${x(totals.trees[at]).toFixed(1)} ${y(value).toFixed(1)}`).reverse();
      chart.append(draw("path", { d: `M${[...upper, ...lower].join("L")}Z`, fill: labelColour(grades[grade], most) }));
      before = after;
    }
  }
  bottomAxis(chart, ticksOf(totals.trees[0], totals.trees[totals.trees.length - 1], 6), x, height - 44, height - 40);
  chart.append(chartText((width + 54) / 2, height - 4, "trees", MIDDLE),
    draw("line", { class: "axis", x1: 54, x2: width, y1: y(0), y2: y(0) }));
  return chart;
}

/** The force totals of a candidate of the pair. */
function addTotals(/** @type {Store} */ store, /** @type {any} */ section, /** @type {HTMLElement} */ box) {
  const totals = section.force_totals;
  const chart = make("div");
  const title = make("h3");
  const whose = () => [store.state.now, store.state.base].map((at) => store.names[at]).find((name) => totals[name]) ?? Object.keys(totals)[0];
  const paint = drawForWidth(chart, (width) => chart.replaceChildren(totalsChart(totals[whose()], width)));
  const refresh = () => {
    title.textContent = `Forces by label over training, ${totals[whose()].objective} of ${whose()}: up above 0, down below`;
    paint();
  };
  box.append(make("div", {}, title, chart));
  store.on(["now", "base"], refresh);
  refresh();
}

/** The view of training. */
function addTraining(/** @type {Store} */ store, /** @type {View} */ view, /** @type {any} */ section) {
  const curves = make("div", { class: "stack" });
  const shares = make("div", { class: "stack" });
  view.picture.append(make("div", { class: "two" }, curves, shares));
  const tools = addTools(view, () => ({
    head: ["candidate", "part", "step", store.state.metric],
    rows: allCurves(store, section).flatMap((curve) =>
      curve.x.map((/** @type {number} */ at, /** @type {number} */ place) => [store.names[curve.candidate], curve.name, at, curve.y[place]])),
  }));
  const paint = drawForWidth(curves, (width) => {
    const found = allCurves(store, section);
    if (found.length === 0) {
      curves.replaceChildren(make("p", { class: "quiet" }, `No curve of ${store.state.metric}: it was not measured during training, and no training data were given.`));
      return;
    }
    /** @type {[string, string][]} */
    const names = found.map((curve) => [`${store.names[curve.candidate]}, ${curve.name}`, `${partClass(curve.part)} c${curve.candidate % 6}`]);
    curves.replaceChildren(make("h3", {}, `Learning curves, ${store.state.metric}`), makeLegend(names), curveChart(store, found, width), gapTable(store, section, found));
    tools.refresh();
  });
  paint();
  store.on(["metric", "now", "base"], paint);
  if (Object.keys(section.labels_by_rank?.candidates ?? {}).length) addLabelShares(store, section, shares);
  if (section.force_totals && Object.keys(section.force_totals).length) addTotals(store, section, shares);
}
