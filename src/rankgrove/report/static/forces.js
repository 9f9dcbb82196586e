// @ts-check
// Forces on the documents of a query through training, played like a film.
//
// A document's arrow stands in the lane of its rank, up and down in lines of their own. Two arrows
// in one line are LANES rows apart and at most LONGEST rows long, so they never meet.

const LANES = 6;
const LONGEST = 5.4;
// A film takes so many seconds, whatever its number of frames; a document glides in so much.
const FILM_SECONDS = 14;
const GLIDE_SECONDS = 0.25;

/** The ranks of documents by their scores, from 0; of equal scores the earlier comes first. */
function ranksOf(/** @type {number[]} */ scores) {
  const order = scores.map((_, at) => at).sort((a, b) => scores[b] - scores[a] || a - b);
  const ranks = new Int32Array(scores.length);
  order.forEach((document_, rank) => (ranks[document_] = rank));
  return ranks;
}

/** The largest force of some frames. @param {number[][]} frames */
const largest = (frames) => frames.reduce((most, row) => row.reduce((m, f) => Math.max(m, Math.abs(f ?? 0)), most), 0) || 1;

/** Sizes of a stage: smaller rows for many documents, narrower lanes in a narrow window. */
function stageSizes(/** @type {number} */ count, /** @type {number} */ width) {
  const row = Math.max(14, Math.min(22, Math.floor(640 / count)));
  const gap = width < 500 ? 8 : 12;
  const lanes = LANES * 2 * gap;
  const document_ = Math.max(110, Math.min(340, width - 2 * lanes - 56));
  const longest = LONGEST * row;
  return { row, gap, head: gap / 2 - 1.5, lanes, left: lanes + 36, document: document_, width: 2 * lanes + document_ + 56, longest, top: Math.ceil(longest) + 26 };
}

/** The path of an arrow; what is too short to have a direction is a dash. */
function arrowPath(/** @type {number} */ x, /** @type {number} */ y, /** @type {number} */ length, /** @type {number} */ widest) {
  const size = Math.abs(length);
  if (size < 1.5) return `M${(x - 1.5).toFixed(1)} ${y.toFixed(1)}h3`;
  const head = Math.min(widest, 1.5 + size / 8);
  const back = length > 0 ? head : -head;
  return `M${x.toFixed(1)} ${y.toFixed(1)}v${(-length).toFixed(2)}m${-head} ${back.toFixed(1)}l${head} ${(-back).toFixed(1)}l${head} ${back.toFixed(1)}`;
}

/** One document on the stage: a row in the colour of its label, and its two arrows. */
function stageDocument(/** @type {any} */ film, /** @type {number} */ at, /** @type {ReturnType<typeof stageSizes>} */ sizes) {
  const step = labelStep(film.labels[at], Math.max(...film.labels));
  const name = `${shortNumber(film.labels[at])} · ${film.ids?.[at] ?? `document ${at + 1}`}`;
  const most = Math.floor(sizes.document / 8);
  const row = draw("g", {},
    draw("rect", { x: sizes.left, y: 1, width: sizes.document, height: sizes.row - 2, rx: 4, fill: LABEL_STEPS[step] }),
    draw("text", { x: sizes.left + 8, y: sizes.row / 2 + 4, class: `on${step}` }, name.length > most ? `${name.slice(0, most - 1)}…` : name));
  return { row, arrows: [draw("path"), draw("path")] };
}

/** The stage: documents that move and arrows that grow. */
class Stage {
  /** @param {any} film @param {string[]} sides  the objectives left and right @param {number} width */
  constructor(film, sides, width) {
    this.film = film;
    this.sides = sides;
    this.count = film.labels.length;
    this.sizes = stageSizes(this.count, width);
    this.documents = film.labels.map((/** @type {number} */ _, /** @type {number} */ at) => stageDocument(film, at, this.sizes));
    /** @type {Float64Array|null} */
    this.places = null;
    this.lanes = new Float64Array(this.count);
    this.frame = -1;
    this.ranks = new Int32Array(this.count);
    const { width: wide, top, row, longest, lanes } = this.sizes;
    const height = top + this.count * row + Math.ceil(longest) + 8;
    const titles = sides.map((name, side) => chartText(side ? wide - lanes / 2 : lanes / 2, 14, name, { "text-anchor": "middle", class: "strong" }));
    this.chart = draw("svg", { class: "chart", width: wide, height, viewBox: `0 0 ${wide} ${height}`, role: "img" },
      ...titles, draw("g", { transform: `translate(0,${top})` }, ...this.rankNumbers(),
        ...this.documents.map((/** @type {any} */ one) => one.row), ...this.documents.flatMap((/** @type {any} */ one) => one.arrows)));
  }

  /** The first rank and every fifth one. */
  rankNumbers() {
    const ranks = [1, ...Array.from({ length: Math.floor(this.count / 5) }, (_, at) => 5 * (at + 1))];
    const { left, row } = this.sizes;
    return ranks.filter((rank) => rank <= this.count)
      .map((rank) => chartText(left - 6, (rank - 0.5) * row + 4, String(rank), { "text-anchor": "end" }));
  }

  /** The pixels that one unit of force takes, left and right. */
  scales(/** @type {{through: boolean, both: boolean}} */ same, /** @type {number} */ frame) {
    const tops = this.sides.map((name) => largest(same.through ? this.film.forces[name] : [this.film.forces[name][frame]]));
    const shared = same.both ? tops.map(() => Math.max(...tops)) : tops;
    return shared.map((top) => this.sizes.longest / top);
  }

  /** A force between two frames. */
  force(/** @type {string} */ name, /** @type {number} */ time, /** @type {number} */ at) {
    const frames = this.film.forces[name];
    const before = Math.min(Math.floor(time), frames.length - 1);
    const after = Math.min(before + 1, frames.length - 1);
    const share = time - before;
    return frames[before][at] * (1 - share) + frames[after][at] * share;
  }

  /** Draw the time; `share` is how far documents glide to where they belong: 1 is all the way. */
  show(/** @type {number} */ time, /** @type {number} */ share, /** @type {{through: boolean, both: boolean}} */ same) {
    const frame = Math.round(time);
    if (frame !== this.frame) this.setRanks(frame);
    const scales = this.scales(same, frame);
    const jump = this.places === null || share >= 1;
    this.places ??= new Float64Array(this.count);
    for (let at = 0; at < this.count; at++) {
      const [place, lane] = [this.ranks[at] * this.sizes.row, this.ranks[at] % LANES];
      this.places[at] = jump ? place : this.places[at] + (place - this.places[at]) * share;
      this.lanes[at] = jump ? lane : this.lanes[at] + (lane - this.lanes[at]) * share;
      this.documents[at].row.setAttribute("transform", `translate(0,${this.places[at].toFixed(1)})`);
      this.sides.forEach((name, side) => this.placeArrow(at, side, this.force(name, time, at) * scales[side]));
    }
  }

  /** One arrow in its lane, up and down in lines of their own. */
  placeArrow(/** @type {number} */ at, /** @type {number} */ side, /** @type {number} */ length) {
    const line = this.lanes[at] * 2 + (length < 0 ? 1 : 0) + 0.5;
    const { gap, lanes, width, row, head } = this.sizes;
    const x = side ? width - lanes + line * gap : lanes - line * gap;
    const y = /** @type {Float64Array} */ (this.places)[at] + row / 2;
    const arrow = this.documents[at].arrows[side];
    arrow.setAttribute("d", arrowPath(x, y, length, head));
    const kind = `arrow ${Math.abs(length) < 1.5 ? "none" : tone(length)}`;
    if (arrow.getAttribute("class") !== kind) arrow.setAttribute("class", kind);
    arrow.dataset.length = length.toFixed(3);
  }

  /** @param {number} frame */
  setRanks(frame) {
    this.frame = frame;
    this.ranks = ranksOf(this.film.scores[frame]);
  }
}

/** Forces of this film by label over its frames, in the form of the totals of training. */
function filmTotals(/** @type {any} */ film, /** @type {string} */ objective) {
  const labels = [...new Set(film.labels)].map(Number).sort((a, b) => a - b);
  const sums = (/** @type {(force: number) => number} */ keep) => film.forces[objective].map((/** @type {number[]} */ row) =>
    labels.map((label) => row.reduce((sum, force, at) => sum + (film.labels[at] === label ? keep(force) : 0), 0)));
  return { objective, trees: film.trees, labels, up: sums((force) => Math.max(0, force)), down: sums((force) => Math.min(0, force)) };
}

/** The player: film, time, and what moves it. */
class Player {
  /** @param {Store} store @param {View} view @param {any[]} films */
  constructor(store, view, films) {
    this.store = store;
    this.films = films;
    this.still = matchMedia("(prefers-reduced-motion: reduce)");
    this.same = { through: true, both: false };
    this.time = 0;
    this.frames = 0;
    this.running = 0;
    this.sides = ["", ""];
    this.stageBox = make("div", { class: "forces-stage", tabindex: "0", role: "region", "aria-label": "Stage of forces" });
    this.side = make("div", { class: "stack" });
    this.play = make("button", { "aria-pressed": "false", click: () => this.toggle() }, "play");
    this.slider = make("input", { type: "range", min: 0, step: 1, value: 0, "aria-label": "Tree", input: () => this.seek(Number(this.slider.value)) });
    this.told = make("output");
    this.facts = make("p", { class: "quiet" });
    this.scaleText = make("p", { class: "quiet" });
    this.pickers = make("div", { class: "forces-head" });
    view.picture.append(this.pickers,
      make("div", { class: "forces-head" }, this.play, this.slider, this.told, this.facts),
      make("div", { class: "forces-body" }, this.stageBox, this.side));
    this.choose(Math.max(0, films.findIndex((film) => film.candidate === store.state.now)));
    drawForWidth(this.stageBox, () => this.build());
    store.on(["query"], () => this.follow());
  }

  /** The film of the chosen query, if there is one. */
  follow() {
    const { query, now } = this.store.state;
    const fits = (/** @type {any} */ film) => film.number === query && query >= 0;
    const found = this.films.findIndex((film) => fits(film) && film.candidate === now);
    const any = found >= 0 ? found : this.films.findIndex(fits);
    if (any >= 0 && any !== this.chosen) this.choose(any);
  }

  /** @param {number} chosen */
  choose(chosen) {
    this.stop();
    this.chosen = chosen;
    const film = this.films[chosen];
    const names = Object.keys(film.forces);
    const beside = names.find((name) => name !== film.objective) ?? film.objective;
    this.sides = names.includes(this.sides[0]) && names.includes(this.sides[1]) ? this.sides : [beside, film.objective];
    this.slider.max = String(film.trees.length - 1);
    this.showPickers(film, names);
    this.build();
  }

  /** The choices above the stage. */
  showPickers(/** @type {any} */ film, /** @type {string[]} */ names) {
    /** @type {[string, string][]} */
    const films = this.films.map((one, at) => [String(at), `query ${one.query} by ${one.name}`]);
    const query = makeSelect("film", films, (value) => this.choose(Number(value)));
    query.select.value = String(this.chosen);
    /** @type {[string, string][]} */
    const objectives = names.map((name) => [name, film.is_random && name === film.objective ? `${name}, one draw` : name]);
    const [left, right] = ["left", "right"].map((label, side) => {
      const picker = makeSelect(label, objectives, (value) => {
        this.sides = this.sides.map((name, at) => (at === side ? value : name));
        this.build();
      });
      picker.select.value = this.sides[side];
      return picker.field;
    });
    this.pickers.replaceChildren(query.field, left, right,
      makeTick("same scale through training", this.same.through, (on) => this.setSame({ through: on })),
      makeTick("same scale left and right", this.same.both, (on) => this.setSame({ both: on })));
  }

  /** @param {Partial<{through: boolean, both: boolean}>} patch */
  setSame(patch) {
    Object.assign(this.same, patch);
    this.seek(this.time);
  }

  /** A new stage for the film and its objectives. */
  build() {
    const film = this.films[this.chosen ?? 0];
    this.stage = new Stage(film, this.sides, this.stageBox.clientWidth);
    this.stage.chart.setAttribute("aria-label",
      `Ranked documents of query ${film.query} with the forces of ${this.sides[0]} at the left and of ${this.sides[1]} at the right`);
    this.stageBox.replaceChildren(this.stage.chart);
    this.side.replaceChildren(this.scaleText, ...this.sides.filter((name, at) => this.sides.indexOf(name) === at).map((name) =>
      make("div", {}, make("h3", {}, `${name}: forces by label`), totalsChart(filmTotals(film, name), 300))));
    this.seek(Math.min(this.time, film.trees.length - 1));
  }

  /** Go to a time and be there at once. @param {number} time */
  seek(time) {
    this.time = time;
    this.stage?.show(time, 1, this.same);
    this.tell();
  }

  /** Say where the film is. */
  tell() {
    const film = this.films[this.chosen ?? 0];
    const frame = Math.round(this.time);
    const last = film.trees[film.trees.length - 1];
    const sums = this.sides.map((name) => film.forces[name][frame].reduce((/** @type {number} */ sum, /** @type {number} */ force) => sum + Math.abs(force), 0));
    this.slider.value = String(frame);
    this.told.textContent = `tree ${whole(film.trees[frame])} of ${whole(last)}`;
    this.slider.setAttribute("aria-valuetext", this.told.textContent);
    this.facts.textContent = `${film.metric} ${fixed(film.values[frame])} · sum of |force| ${shortNumber(sums[0])} left, ${shortNumber(sums[1])} right`;
    const scales = this.stage?.scales(this.same, frame) ?? [1, 1];
    const units = scales.map((scale) => shortNumber((this.stage?.sizes.longest ?? 1) / scale));
    this.scaleText.textContent = `An arrow shows where a force pushes and how hard. The longest, ${LONGEST} rows, is ${units[0]} left and ${units[1]} right. ` +
      `Forces at the scores of the trees before.`;
  }

  /** Play or pause. */
  toggle() {
    if (this.running) {
      this.stop();
      return;
    }
    const end = this.films[this.chosen ?? 0].trees.length - 1;
    if (this.time >= end) this.seek(0);
    this.play.setAttribute("aria-pressed", "true");
    this.play.textContent = "pause";
    this.lastTick = performance.now();
    this.running = this.still.matches ? window.setInterval(() => this.jump(end), 1000) : requestAnimationFrame((now) => this.tick(now, end));
  }

  stop() {
    if (this.running) {
      clearInterval(this.running);
      cancelAnimationFrame(this.running);
    }
    this.running = 0;
    this.play.setAttribute("aria-pressed", "false");
    this.play.textContent = "play";
  }

  /** The next frame at once, for those who want no motion. @param {number} end */
  jump(end) {
    this.seek(Math.min(end, Math.round(this.time) + 1));
    if (this.time >= end) this.stop();
  }

  /** A step of the film. @param {number} now @param {number} end */
  tick(now, end) {
    const begin = performance.now();
    const passed = Math.min(0.1, Math.max(0, (now - (this.lastTick ?? now)) / 1000));
    this.lastTick = now;
    this.time = Math.min(end, this.time + (passed * end) / FILM_SECONDS);
    // Documents come as near in GLIDE_SECONDS as one can see.
    this.stage?.show(this.time, 1 - Math.exp((-4 * passed) / GLIDE_SECONDS), this.same);
    this.tell();
    this.frames += 1;
    this.scriptTime = (this.scriptTime ?? 0) + performance.now() - begin;
    document.documentElement.dataset.frames = `${this.frames} ${this.scriptTime.toFixed(2)}`;
    if (this.time < end) this.running = requestAnimationFrame((next) => this.tick(next, end));
    else {
      this.seek(end);
      this.stop();
    }
  }
}

/** The view of forces. */
function addForces(/** @type {Store} */ store, /** @type {View} */ view, /** @type {any[]} */ films) {
  const player = new Player(store, view, films);
  addTools(view, () => {
    const film = films[player.chosen ?? 0];
    const frame = Math.round(player.time);
    const ranks = ranksOf(film.scores[frame]);
    const names = Object.keys(film.forces);
    const rows = film.labels.map((/** @type {number} */ label, /** @type {number} */ at) =>
      [film.ids?.[at] ?? `document ${at + 1}`, label, ranks[at] + 1, film.scores[frame][at], ...names.map((name) => film.forces[name][frame][at])]);
    rows.sort((/** @type {any[]} */ a, /** @type {any[]} */ b) => a[2] - b[2]);
    return { head: ["document", "label", `rank at tree ${film.trees[frame]}`, "score", ...names.map((name) => `force of ${name}`)], rows };
  });
}
