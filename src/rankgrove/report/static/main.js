// @ts-check
// The page: switches, contents, keys, and the views one after the other.

const HEADLINES = { better: ["Better", "up"], worse: ["Worse", "down"], unclear: ["No clear difference", "none"], equal: ["Equal", "none"] };
const NO_FILTER = /** @type {Partial<State>} */ ({ brush: null, range: null, slicing: "", group: -1, find: "" });
const THEMES = ["auto", "light", "dark"];

/** Bring a view into sight and put the reader's place there. @param {string} id */
function goTo(id) {
  byId(id)?.scrollIntoView({ block: "start" });
  byId(`${id}-title`)?.focus({ preventScroll: true });
}

/** Draw the verdict on what is chosen; the page came with the first one. */
function showVerdict(/** @type {Store} */ store) {
  const verdict = store.verdict();
  const names = store.pair.reverse().map((at) => store.names[at]);
  byId("title").textContent = names.join(" against ");
  document.title = `${names.join(" against ")} · Rankgrove report`;
  const [word, kind] = HEADLINES[/** @type {keyof typeof HEADLINES} */ (verdict.word)] ?? ["", "none"];
  byId("verdict-word").textContent = word;
  byId("verdict-word").dataset.tone = kind;
  byId("verdict-sentence").textContent = verdict.sentence;
  for (const key of ["wins", "ties", "losses", "skipped"]) byId(`verdict-${key}`).textContent = whole(verdict[key] ?? 0);
  showShares(verdict);
  showFacts(store, verdict);
}

/** Better, equal and worse as parts of one bar. @param {any} verdict */
function showShares(verdict) {
  byId("verdict-bar")?.remove();
  const total = (verdict.wins ?? 0) + (verdict.ties ?? 0) + (verdict.losses ?? 0);
  if (!total) return;
  const pieces = [["wins", "up"], ["ties", "none"], ["losses", "down"]].map(([key, kind]) => {
    const piece = make("i", { class: kind });
    piece.style.flexGrow = String(verdict[key]);
    piece.hidden = verdict[key] === 0;
    return piece;
  });
  byId("verdict-counts").before(make("div", { class: "share-bar", id: "verdict-bar", "aria-hidden": "true" }, ...pieces));
}

/** The other metrics, the harm, and how much is worth a look. @param {Store} store @param {any} verdict */
function showFacts(store, verdict) {
  const others = store.metrics.filter((metric) => metric !== store.state.metric).map((metric) => {
    const other = store.verdict(metric);
    const mean = store.summary(metric)[store.names[store.state.now]]?.mean ?? null;
    const [word] = HEADLINES[/** @type {keyof typeof HEADLINES} */ (other.word)] ?? [""];
    const text = store.isPair ? `${signed(other.difference)}, ${word.toLowerCase()}` : fixed(mean);
    return make("li", {}, make("button", { class: "link", click: () => store.change({ metric }) }, metric), ` ${text}`);
  });
  const harm = (verdict.harm ?? []).find((/** @type {any} */ one) => one.threshold === 0.1);
  if (harm) {
    const bound = Math.round(harm.threshold * UNIT);
    others.push(make("li", {}, make("button", { class: "link", click: () => {
      store.change({ range: [-Infinity, -bound - 0.5], order: "change" });
      goTo("queries");
    } }, `${queriesText(harm.losses)} ${harm.losses === 1 ? "loses" : "lose"} more than ${harm.threshold}`)));
  }
  const looks = store.looks?.length ?? 0;
  if (looks) {
    others.push(make("li", {}, make("button", { class: "link", click: () => goTo("looks") },
      `${whole(looks)} ${looks === 1 ? "thing is" : "things are"} worth a look`)));
  }
  byId("verdict-facts").replaceChildren(...others);
}

/** The ten worst on paper follow the switches. @param {Store} store */
function showWorst(store) {
  if (!store.count) return;
  const { now, base } = store.state;
  const changes = store.changes();
  const order = sortByKey(countedQueries(store), (query) => changes[query]).subarray(0, 10);
  const heads = store.isPair ? [store.names[base], store.names[now], "change"] : [store.names[now]];
  const cells = (/** @type {number} */ query) => store.isPair
    ? [fixed(store.values(base)[query] / UNIT), fixed(store.values(now)[query] / UNIT), signed(changes[query] / UNIT)]
    : [fixed(changes[query] / UNIT)];
  byId("worst-table").replaceChildren(
    tableHead(["query", ...heads]),
    make("tbody", {}, ...Array.from(order, (query) => make("tr", {}, make("th", { scope: "row" }, store.queryName(query)),
      ...cells(query).map((text) => make("td", {}, text))))));
}

/** Metric and pair switches, theme, print, keys. @param {Store} store */
function addSwitches(store) {
  const box = byId("switches");
  /** @type {(() => void)[]} */
  const followers = [];
  const add = (/** @type {string} */ label, /** @type {[string, string][]} */ options, /** @type {() => string} */ value,
    /** @type {(chosen: string) => void} */ react) => {
    const picker = makeSelect(label, options, react);
    followers.push(() => (picker.select.value = value()));
    box.append(picker.field);
  };
  if (store.metrics.length > 1) {
    add("metric", store.metrics.map((metric) => [metric, metric]), () => store.state.metric, (metric) => store.change({ metric }));
  }
  if (store.names.length > 2) {
    /** @type {[string, string][]} */
    const names = store.names.map((/** @type {string} */ name, /** @type {number} */ at) => [String(at), name]);
    add("compare", names, () => String(store.state.now), (at) => choosePair(store, Number(at), store.state.base));
    add("with", names, () => String(store.state.base), (at) => choosePair(store, store.state.now, Number(at)));
  }
  const follow = () => followers.forEach((one) => one());
  store.on(["metric", "now", "base"], follow);
  follow();
  box.append(themeButton(), make("button", { click: () => window.print() }, "print"),
    make("button", { "aria-label": "Keys", click: () => showKeys() }, "?"));
}

/** A candidate is never compared with itself: the two trade places. */
function choosePair(/** @type {Store} */ store, /** @type {number} */ now, /** @type {number} */ base) {
  store.change(now === base ? { now: store.state.base, base: store.state.now } : { now, base });
}

/** Light, dark, or as the system has it. */
function themeButton() {
  let at = 0;
  const button = make("button");
  const show = () => {
    const theme = THEMES[at];
    if (theme === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    button.textContent = theme;
    button.setAttribute("aria-label", `Colours: ${theme}`);
    document.dispatchEvent(new Event("colours"));
  };
  button.addEventListener("click", () => {
    const dark = matchMedia("(prefers-color-scheme: dark)").matches;
    // From "as the system has it" to the one that it has not.
    at = at === 0 ? (dark ? 1 : 2) : at === (dark ? 1 : 2) ? (dark ? 2 : 1) : 0;
    show();
  });
  show();
  return button;
}

/** The keys, in a window. */
function showKeys() {
  const keys = [["j / k", "next and previous query"], ["/", "find a query"], ["↑ ↓", "in the table: choose a query"],
    ["Enter", "in the table: go to the query"], ["Shift + click", "compare a document with the chosen one"],
    ["Esc", "drop all filters"], ["?", "these keys"]];
  const close = make("button", { autofocus: true, click: () => dialog.close() }, "close");
  const dialog = make("dialog", { "aria-label": "Keys", close: () => dialog.remove() }, make("h2", {}, "Keys"),
    make("dl", {}, ...keys.flatMap(([key, text]) => [make("dt", {}, make("kbd", {}, key)), make("dd", {}, text)])), close);
  document.body.append(dialog);
  dialog.showModal();
}

/** What the keyboard does anywhere in the page. */
function addKeys(/** @type {Store} */ store, /** @type {QueryTable|null} */ table) {
  document.addEventListener("keydown", (event) => {
    const target = /** @type {HTMLElement} */ (event.target);
    const typing = target.matches("input, select, textarea");
    if (event.key === "Escape" && !document.querySelector("dialog")) {
      store.change(NO_FILTER);
      if (typing) target.blur();
      return;
    }
    if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
    const actions = /** @type {Record<string, () => void>} */ ({
      j: () => table?.step(1), k: () => table?.step(-1), "/": () => byId("find")?.focus(), "?": showKeys,
    });
    if (!actions[event.key]) return;
    event.preventDefault();
    actions[event.key]();
  });
}

/** Find, slice and order, and what is filtered now. @param {Store} store */
function addFilters(store) {
  const find = make("input", { type: "search", id: "find", placeholder: "query", "aria-label": "Find a query", input: () => store.change({ find: find.value }) });
  /** @type {[string, string][]} */
  const orders = store.isPair
    ? [["change", "largest loss"], ["-change", "largest gain"], ["size", "largest change"], ["query", "name"], ["-documents", "documents"]]
    : [["change", "lowest"], ["-change", "highest"], ["query", "name"], ["-documents", "documents"]];
  const order = makeSelect("order", orders, (value) => store.change({ order: value }));
  /** @type {[string, string][]} */
  const groups = Object.entries(store.queries.groups ?? {}).flatMap(([slicing, known]) =>
    /** @type {any} */ (known).names.map((/** @type {string} */ name, /** @type {number} */ at) => [`${at} ${slicing}`, `${slicing}: ${name}`]));
  const slice = makeSelect("slice", [["", "all"], ...groups], (value) => {
    const [at, ...rest] = value.split(" ");
    store.change(value ? { slicing: rest.join(" "), group: Number(at) } : { slicing: "", group: -1 });
  });
  const clear = make("button", { click: () => store.change(NO_FILTER) });
  const show = () => {
    const { brush, range, slicing, group } = store.state;
    if (document.activeElement !== find) find.value = store.state.find;
    order.select.value = store.state.order;
    slice.select.value = slicing ? `${group} ${slicing}` : "";
    const active = [brush && "area", range && "change", slicing && "slice", store.state.find && "text"].filter(Boolean);
    clear.hidden = active.length === 0;
    clear.textContent = `drop filter: ${active.join(", ")} ×`;
  };
  store.on(["find", "order", "slicing", "group", "brush", "range"], show);
  show();
  const fields = [make("label", { class: "field" }, make("span", {}, "find"), find), ...(groups.length ? [slice.field] : []), order.field, clear];
  return make("div", { class: "filters" }, ...fields);
}

/** View 2: the plot and the table. */
function addQueries(/** @type {Store} */ store, /** @type {View} */ view) {
  const plot = make("div");
  const list = make("div", {}, addFilters(store));
  view.picture.append(make("div", { class: store.isPair ? "queries" : "" }, ...(store.isPair ? [plot, list] : [list])));
  const scatter = store.isPair ? addScatter(store, plot) : null;
  const table = new QueryTable(store, list);
  addTools(view, () => table.sheet());
  const repaint = () => scatter?.redraw();
  document.addEventListener("colours", repaint);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);
  return table;
}

/** The views by their order in the page. @param {Store} store */
function makeViews(store) {
  const pair = store.isPair;
  const about = [
    { id: "queries", number: "2", title: "Queries", wide: true, hint: pair ? "Above the line a query got better, below it worse. Click a point or a row to choose a query; drag over points to filter." : "Click a row to choose a query." },
    { id: "query", number: "3", title: "One query", wide: true, hint: pair ? "What both show, which documents moved, and by how much each changed the metric. Click a document to explain it, Shift and click to compare it." : "What is shown against the ideal order. Click a document to explain it." },
    { id: "why", number: "4", title: "Why", wide: true, hint: "What each feature adds to the score of a document." },
    { id: "slices", number: "5", title: "Slices", hint: "Groups of queries; * is beyond chance after Holm's correction. Click one to filter." },
    { id: "change", number: "6", title: pair ? "Change, sorted" : "Values, sorted", hint: "From the highest to the lowest. Click a bar to filter." },
    { id: "ranks", number: "7", title: "By rank", hint: pair ? "Where the metric is won or lost; the ranks add up to its change." : "What each rank gives to the metric." },
    { id: "features", number: "8", title: "Features", wide: true, hint: "What the models rest on, and in which direction." },
    { id: "training", number: "9", title: "Training", wide: true, hint: "Enough trees? Too many?" },
    { id: "forces", number: "9b", title: "Forces", wide: true, hint: "What pushed the documents of a query up and down while the model was trained." },
    { id: "looks", number: "10", title: "Worth a look", wide: true, hint: "What may make the numbers above less certain than they look." },
  ];
  const views = /** @type {Record<string, View>} */ ({});
  for (const one of about) {
    views[one.id] = makeView(one);
    if (!one.wide) views[one.id].section.classList.add("third");
    byId("views").append(views[one.id].section);
  }
  addContents([["verdict", "Verdict"], ...about.map(({ id, title }) => /** @type {[string, string]} */ ([id, title]))]);
  return views;
}

/** Links to the views; the address keeps the state, so they do not change it. */
function addContents(/** @type {[string, string][]} */ entries) {
  const links = entries.map(([id, title]) => make("a", { href: `#${id}`, click: (/** @type {Event} */ event) => {
    event.preventDefault();
    goTo(id);
  } }, title));
  byId("contents").append(...links);
  const seen = new IntersectionObserver((changes) => {
    for (const { target, isIntersecting } of changes) {
      if (!isIntersecting) continue;
      entries.forEach(([id], at) => links[at].setAttribute("aria-current", String(id === target.id)));
    }
  }, { rootMargin: "-30% 0px -65% 0px" });
  for (const [id] of entries) seen.observe(byId(id));
}

/** How the report was made, and what it leaves out. @param {Store} store */
function addMade(store) {
  const { made, left_out: leftOut } = store.outline;
  const entries = [["made by", `rankgrove ${made.rankgrove}`]];
  if (made.command) entries.push(["command", made.command]);
  for (const file of made.files ?? []) entries.push(["file", `${file.name}${file.sha256 ? `, sha256 ${file.sha256}` : ""}`]);
  if (made.seed !== undefined) entries.push(["seed", String(made.seed)]);
  for (const one of store.outline.candidates) {
    const facts = [one.model ?? one.kind, one.trees && `${whole(one.trees)} trees`, one.objective].filter(Boolean);
    entries.push(["candidate", `${one.name}: ${facts.join(", ")}`]);
  }
  for (const one of leftOut ?? []) entries.push(["left out", `${one.section}: ${whole(one.kept)} of ${whole(one.of)} kept, ${one.rule}`]);
  byId("made").append(make("dl", {}, ...entries.flatMap(([name, text]) => [make("dt", {}, name), make("dd", {}, text)])));
}

/** The address follows the state, and the state the address. @param {Store} store */
function addAddress(store) {
  const write = () => {
    try {
      history.replaceState(null, "", toAddress(store));
    } catch {
      // A page inside of another one may have no address of its own.
    }
  };
  store.on(["query", "metric", "now", "base", "slicing", "group", "find"], write);
  window.addEventListener("hashchange", () => store.change(fromAddress(store, location.hash)));
}

/** Draw a view from a section, or say why it is not there. */
async function fill(/** @type {Store} */ store, /** @type {View} */ view, /** @type {string} */ name, /** @type {(section: any) => void|Promise<void>} */ add) {
  await pause();
  const section = await store.section(name);
  const empty = section === null || (typeof section === "object" && Object.keys(section).length === 0);
  if (empty) sayAbsent(view, store.reason(name));
  else await add(section);
}

/** Views 3 and 4, which share the documents. */
async function fillDocuments(/** @type {Store} */ store, /** @type {Record<string, View>} */ views, /** @type {QueryTable|null} */ table) {
  const section = await store.section("tops");
  if (!section || !table) {
    sayAbsent(views.query, store.reason("tops"));
    sayAbsent(views.why, store.reason(section ? "why" : "tops"));
    return;
  }
  const tops = new Tops(section, store.count);
  const shares = new Shares(await store.section("shares"), tops, store.count);
  addRanking(store, views.query, table, tops, shares);
  await fill(store, views.why, "why", (reasons) => addWhy(store, views.why, tops, shares, new Reasons(reasons, tops)));
}

/** The rest of the page, one view after the other, so that the first ones answer meanwhile. */
async function fillOthers(/** @type {Store} */ store, /** @type {Record<string, View>} */ views) {
  await fill(store, views.slices, "slices", (slices) => addSlices(store, views.slices, slices));
  await pause();
  if (store.count) addChange(store, views.change);
  else sayAbsent(views.change, store.reason("queries"));
  await fill(store, views.ranks, "by_rank", (section) => addByRank(store, views.ranks, section));
  await fill(store, views.features, "features", (section) => addFeatures(store, views.features, section));
  await fill(store, views.training, "training", (section) => addTraining(store, views.training, section));
  await fill(store, views.forces, "forces", (films) => addForces(store, views.forces, films));
  await pause();
  const labels = await store.section("labels");
  store.looks = await store.section("looks");
  if (store.looks) addLooks(store, views.looks, store.looks, labels);
  else sayAbsent(views.looks, store.reason("looks"));
  showFacts(store, store.verdict());
}

/** Read, draw, and say when it is done. */
async function start() {
  document.documentElement.dataset.script = "";
  const [outline, comparison, verdicts, queries] = await Promise.all(["outline", "comparison", "verdicts", "queries"].map(unpack));
  const store = new Store(outline, comparison, verdicts, queries);
  if (queries) Object.assign(store.state, fromAddress(store, location.hash));
  addSwitches(store);
  const views = makeViews(store);
  showVerdict(store);
  store.on(["metric", "now", "base"], () => {
    showVerdict(store);
    showWorst(store);
  });
  const table = queries ? addQueries(store, views.queries) : null;
  if (!queries) sayAbsent(views.queries, store.reason("queries"));
  if (table && store.state.query < 0) table.step(0);
  document.documentElement.dataset.first = performance.now().toFixed(1);
  await pause();
  addKeys(store, table);
  if (queries) addAddress(store);
  await fillDocuments(store, views, table);
  await fillOthers(store, views);
  showWorst(store);
  addMade(store);
  document.documentElement.dataset.ready = performance.now().toFixed(1);
}

start();
