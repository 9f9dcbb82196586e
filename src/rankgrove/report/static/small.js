// @ts-check
// Three small pictures: the change by group, the change sorted, and the gain by rank.

const BARS = 40;

/** Of the pairs of a group, now less base, turned if it stands the other way round. */
function pairOf(/** @type {any[]} */ pairs, /** @type {string} */ now, /** @type {string} */ base) {
  const direct = pairs.find((pair) => pair.a === now && pair.b === base);
  if (direct) return direct;
  const turned = pairs.find((pair) => pair.a === base && pair.b === now);
  if (!turned) return null;
  const minus = (/** @type {number|null} */ value) => (value === null ? null : -value);
  return { ...turned, difference: minus(turned.difference), low: minus(turned.high), high: minus(turned.low) };
}

/** The groups of all slicings, each slicing from the lowest difference to the highest. */
function sliceRows(/** @type {Store} */ store, /** @type {any} */ slices) {
  const { metric, now, base } = store.state;
  const rows = [];
  for (const [slicing, byMetric] of Object.entries(slices)) {
    const groups = (/** @type {any} */ (byMetric)[metric] ?? []).map((/** @type {any} */ group, /** @type {number} */ at) => {
      const pair = pairOf(group.pairs, store.names[now], store.names[base]);
      const mean = group.means[store.names[now]];
      return { slicing, at, name: group.name, queries: group.queries, pair, mean, value: store.isPair ? pair?.difference ?? null : mean };
    });
    groups.sort((/** @type {any} */ a, /** @type {any} */ b) => (a.value ?? Infinity) - (b.value ?? Infinity));
    rows.push(...groups);
  }
  return rows;
}

/** A point with its interval; the larger the group, the larger the point. */
function forestCell(/** @type {any} */ row, /** @type {(value: number) => number} */ place, /** @type {number} */ most) {
  const chart = draw("svg", { class: "chart", width: "100%", height: 22, "aria-hidden": "true" });
  const at = (/** @type {number} */ value) => `${place(value).toFixed(2)}%`;
  chart.append(draw("line", { class: "grid", x1: at(0), x2: at(0), y1: 0, y2: 22 }));
  const low = row.pair ? row.pair.low : null;
  if (low !== null) chart.append(draw("line", { class: "whisker", x1: at(low), x2: at(row.pair.high), y1: 11, y2: 11 }));
  if (row.value !== null) {
    const radius = 3 + 4 * Math.sqrt(row.queries / most);
    chart.append(draw("circle", { class: row.pair ? tone(row.value) : "up", cx: at(row.value), cy: 11, r: radius.toFixed(1) }));
  }
  return make("td", { class: "bars" }, chart);
}

/** @param {Store} store @param {any[]} rows */
function forestTable(store, rows) {
  const ends = rows.flatMap((row) => [row.pair?.low, row.pair?.high, row.value]).filter((value) => typeof value === "number");
  const [low, high] = extent([0, ...ends]);
  const place = linear(low, high, 5, 95);
  const [, most] = extent([1, ...rows.map((row) => row.queries)]);
  const { slicing, group } = store.state;
  const lines = [];
  let last = "";
  for (const row of rows) {
    if (row.slicing !== last) lines.push(make("tr", { class: "slicing" }, make("th", { colspan: "4", scope: "rowgroup" }, row.slicing)));
    last = row.slicing;
    const on = slicing === row.slicing && group === row.at;
    const choose = make("button", { class: "link", "aria-pressed": String(on),
      click: () => store.change(on ? { slicing: "", group: -1 } : { slicing: row.slicing, group: row.at }) }, row.name);
    const sure = row.pair && (row.pair.word === "better" || row.pair.word === "worse");
    const number = row.value === null ? NONE : store.isPair ? signed(row.value) : fixed(row.value);
    lines.push(make("tr", {}, make("th", { scope: "row" }, choose), make("td", {}, whole(row.queries)),
      forestCell(row, place, most), make("td", { class: sure ? tone(row.value) : null, title: sure ? "beyond chance, after Holm" : null }, `${number}${sure ? "*" : ""}`)));
  }
  return make("table", { class: "slices" },
    tableHead(["group", "queries", store.isPair ? "~interval" : "~place", store.isPair ? "change" : "mean"]),
    make("tbody", {}, ...lines));
}

/** The view of groups. */
function addSlices(/** @type {Store} */ store, /** @type {View} */ view, /** @type {any} */ slices) {
  const tools = addTools(view, () => ({
    head: ["slicing", "group", "queries", "difference", "low", "high", "p adjusted"],
    rows: sliceRows(store, slices).map((row) =>
      [row.slicing, row.name, row.queries, row.value, row.pair?.low ?? null, row.pair?.high ?? null, row.pair?.adjusted ?? null]),
  }));
  const show = () => {
    view.picture.replaceChildren(forestTable(store, sliceRows(store, slices)));
    tools.refresh();
  };
  store.on(["metric", "now", "base", "slicing", "group"], show);
  show();
}

/** The changes of all counted queries, highest first. @param {Store} store @returns {Float64Array} */
function sortedChanges(store) {
  const { metric, now, base } = store.state;
  return store.keep(`sorted ${metric} ${now} ${base}`, () =>
    store.changes().filter((/** @type {number} */ value) => !Number.isNaN(value)).sort().reverse());
}

/** Bars of equally many queries each: the mean change, and the range that it covers. */
function changeBars(/** @type {Float64Array} */ sorted) {
  const count = Math.min(BARS, sorted.length);
  return Array.from({ length: count }, (_, at) => {
    const piece = sorted.subarray(Math.floor((at * sorted.length) / count), Math.floor(((at + 1) * sorted.length) / count));
    const mean = piece.reduce((sum, value) => sum + value, 0) / piece.length;
    return { mean, high: piece[0], low: piece[piece.length - 1], queries: piece.length };
  });
}

/** The sorted changes as bars; a click shows the queries of a bar. */
function changeChart(/** @type {Store} */ store, /** @type {number} */ width) {
  const bars = changeBars(sortedChanges(store));
  const height = 190;
  const chart = makeChart(width, height, store.isPair
    ? "Change of all queries, from the largest gain to the largest loss"
    : "Values of all queries, from the highest to the lowest");
  const [low, high] = extent([0, ...bars.map((bar) => bar.mean / UNIT)]);
  const y = linear(low, high, height - 24, 8);
  const left = 46;
  leftAxis(chart, ticksOf(low, high, 4), y, left, width);
  const wide = (width - left) / bars.length;
  const shape = { up: "", down: "" };
  bars.forEach(({ mean }, at) => {
    const side = mean < 0 ? "down" : "up";
    shape[side] += `M${(left + at * wide + 0.5).toFixed(1)} ${y(0).toFixed(1)}h${Math.max(0.5, wide - 1).toFixed(1)}V${y(mean / UNIT).toFixed(1)}h${-Math.max(0.5, wide - 1).toFixed(1)}Z`;
  });
  const { range } = store.state;
  const pressed = bars.findIndex((bar) => range !== null && range[0] === bar.low && range[1] === bar.high);
  chart.append(draw("path", { class: "up", d: shape.up }), draw("path", { class: "down", d: shape.down }),
    draw("rect", { class: "pressed", x: left + pressed * wide, y: 8, width: pressed < 0 ? 0 : wide, height: height - 32 }),
    draw("rect", { class: "hit", x: left, y: 8, width: width - left, height: height - 32, click: (/** @type {MouseEvent} */ event) => {
      const at = Math.min(bars.length - 1, Math.floor((event.clientX - chart.getBoundingClientRect().left - left) / wide));
      store.change({ range: at === pressed ? null : [bars[at].low, bars[at].high] });
    } }));
  for (const share of [0, 50, 100]) {
    const anchor = share === 0 ? "start" : share === 100 ? "end" : "middle";
    chart.append(chartText(left + ((width - left) * share) / 100, height - 6, `${share} %`, { "text-anchor": anchor }));
  }
  return chart;
}

/** The share of queries at or below each value, a line per candidate. */
function distributionChart(/** @type {Store} */ store, /** @type {number} */ width) {
  const candidates = store.pair;
  const height = 150;
  const columns = candidates.map((candidate) =>
    Float64Array.from(store.values(candidate)).filter((value) => !Number.isNaN(value)).sort());
  const [low, high] = extent([0, ...columns.flatMap((column) => [column[0] ?? 0, column[column.length - 1] ?? 0])]);
  const top = high <= UNIT ? UNIT : high;
  const chart = makeChart(width, height, "Share of queries at or below each value");
  const x = linear(low, top, 46, width - 8);
  const y = linear(0, 100, height - 24, 8);
  leftAxis(chart, [0, 50, 100], y, 46, width, (tick) => `${tick} %`);
  const ticks = ticksOf(low / UNIT, top / UNIT, 4);
  for (const tick of ticks) chart.append(chartText(x(tick * UNIT), height - 6, signless(ticks)(tick), MIDDLE));
  columns.forEach((column, at) => {
    const steps = Math.min(200, column.length);
    /** @type {[number, number][]} */
    const points = [[x(low), y(0)]];
    for (let step = 1; step <= steps; step++) {
      const place = Math.ceil((step / steps) * column.length) - 1;
      points.push([x(column[place]), y((100 * (place + 1)) / column.length)]);
    }
    chart.append(draw("path", { class: lineClass(candidates[at]), d: pathOf(points) }));
  });
  return chart;
}

/** How many queries change by more than some amounts; a click shows them. */
function harmList(/** @type {Store} */ store) {
  const harm = store.verdict().harm ?? [];
  const entry = (/** @type {string} */ text, /** @type {[number, number]} */ range) =>
    make("li", {}, make("button", { class: "link", click: () => store.change({ range }) }, text));
  return make("ul", { class: "harm" }, ...harm.flatMap((/** @type {any} */ one) => {
    const bound = Math.round(one.threshold * UNIT);
    return [
      entry(`${whole(one.losses)} lose more than ${one.threshold}`, [-Infinity, -bound - 0.5]),
      entry(`${whole(one.wins)} gain more`, [bound + 0.5, Infinity]),
    ];
  }));
}

/** The view of the change, sorted. */
function addChange(/** @type {Store} */ store, /** @type {View} */ view) {
  const tools = addTools(view, () => ({
    head: ["from", "to", "mean", "queries"],
    rows: changeBars(sortedChanges(store)).map((bar) => [bar.low / UNIT, bar.high / UNIT, bar.mean / UNIT, bar.queries]),
  }));
  const box = make("div", { class: "stack" });
  view.picture.append(box);
  const paint = (/** @type {number} */ width) => {
    if (sortedChanges(store).length === 0) {
      box.replaceChildren(make("p", { class: "quiet" }, "No query has a value."));
      return;
    }
    box.replaceChildren(changeChart(store, width), harmList(store),
      make("div", {}, make("h3", {}, "Share of queries at or below a value"), candidateLegend(store, store.pair), distributionChart(store, width)));
    tools.refresh();
  };
  const redraw = drawForWidth(box, paint);
  redraw();
  store.on(["metric", "now", "base", "range"], redraw);
}

/** The labels at one rank, as shares of a bar. */
function labelBar(/** @type {number[]} */ counts, /** @type {any[]} */ grades) {
  const total = counts.reduce((sum, count) => sum + count, 0) || 1;
  const most = Math.max(...grades.map(Number));
  let before = 0;
  const stops = counts.map((count, grade) => {
    const [from, to] = [before, before + (100 * count) / total];
    before = to;
    return `${labelColour(grades[grade], most)} ${from.toFixed(2)}% ${to.toFixed(2)}%`;
  });
  const bar = make("i", { class: "strip" });
  bar.style.background = `linear-gradient(to right, ${stops.join(", ")})`;
  return bar;
}

/** A row per rank: what it gives to the change of the metric, and which labels stand there. */
function rankTable(/** @type {Store} */ store, /** @type {any} */ section) {
  const { metric, now, base } = store.state;
  const gains = section.gains[metric];
  const candidates = store.pair;
  const value = (/** @type {number} */ rank) =>
    gains.by_rank[now][rank] - (store.isPair ? gains.by_rank[base][rank] : 0);
  const ranks = Array.from({ length: section.ranks }, (_, rank) => rank);
  const most = gains.by_rank ? extent([0, ...ranks.map((rank) => Math.abs(value(rank)))])[1] : 1;
  const rows = ranks.map((rank) => {
    const cells = [make("th", { scope: "row" }, String(rank + 1))];
    if (gains.by_rank) cells.push(barCell([value(rank)], most, [`var(--${value(rank) < 0 ? "down" : "up"})`]), make("td", { class: tone(value(rank)) }, store.isPair ? signed(value(rank)) : fixed(value(rank))));
    if (section.labels) {
      cells.push(make("td", { class: store.isPair ? "bars" : "bars alone" },
        ...candidates.map((candidate) => labelBar(section.labels[candidate][rank], section.grades))));
    } else cells.push(make("td", {}, candidates.map((candidate) => fixed(section.mean_label[candidate][rank], 2)).join(" → ")));
    return make("tr", {}, ...cells);
  });
  const head = ["rank", ...(gains.by_rank ? ["~adds", store.isPair ? "change" : "gain"] : []),
    section.labels ? "labels" : "mean label"];
  const foot = gains.by_rank ? [rankTotals(store, gains)] : [];
  return make("table", { class: "slices ranks" },
    tableHead(head),
    make("tbody", {}, ...rows), ...foot);
}

/** The rest and the sum, which is the metric's own change. */
function rankTotals(/** @type {Store} */ store, /** @type {any} */ gains) {
  const { now, base } = store.state;
  const of = (/** @type {number} */ candidate) => {
    const ranks = gains.by_rank[candidate].reduce((/** @type {number} */ sum, /** @type {number} */ value) => sum + value, 0);
    return { rest: gains.rest[candidate], sum: ranks + gains.rest[candidate] };
  };
  const [own, other] = [of(now), store.isPair ? of(base) : { rest: 0, sum: 0 }];
  const show = (/** @type {number} */ value) => (store.isPair ? signed(value) : fixed(value));
  const line = (/** @type {string} */ name, /** @type {number} */ value) => make("tr", {},
    make("th", { scope: "row", colspan: "2" }, name), make("td", {}, show(value)), make("td", {}));
  const rest = own.rest - other.rest;
  return make("tfoot", {}, ...(Math.abs(rest) < 5e-5 ? [] : [line("below, or no rank", rest)]), line("sum", own.sum - other.sum));
}

/** The view of ranks. */
function addByRank(/** @type {Store} */ store, /** @type {View} */ view, /** @type {any} */ section) {
  const tools = addTools(view, () => {
    const gains = section.gains[store.state.metric];
    return {
      head: ["rank", ...store.names.map((name) => `${store.state.metric} of ${name}`), ...store.names.map((name) => `mean label of ${name}`)],
      rows: Array.from({ length: section.ranks }, (_, rank) => [rank + 1,
        ...store.names.map((_name, at) => gains.by_rank?.[at][rank] ?? null), ...store.names.map((_name, at) => section.mean_label[at][rank])]),
    };
  });
  const show = () => {
    const { reason } = section.gains[store.state.metric];
    const whose = store.isPair ? `labels, ${store.names[store.state.base]} above ${store.names[store.state.now]} ` : "labels ";
    const key = section.labels ? labelLegend(whose, section.grades) : null;
    view.picture.replaceChildren(...(reason ? [make("p", { class: "quiet" }, reason)] : []), rankTable(store, section), ...(key ? [key] : []));
    tools.refresh();
  };
  store.on(["metric", "now", "base"], show);
  show();
}
