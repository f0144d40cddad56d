// Figures: values under a cursor that figures with the same axis share, zoom, series shown and hidden, by
// pointer, finger and keyboard; export of the data and the picture. The picture is drawn by chart/ and
// described by its scales; nothing here depends on what was measured.

const draw = (name, attributes, parent) => {
  const node = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const key in attributes) node.setAttribute(key, attributes[key]);
  parent?.append(node);
  return node;
};

// Figures of one section with the same quantity on the horizontal axis share the cursor, the zoom (a stretch of
// the axis, transformed) and the hidden series.
class Group {
  charts = [];
  view = null;
  hidden = new Set();
  zoom(view) {
    this.view = view;
    for (const chart of this.charts) chart.zoomed();
  }
  toggle(name) {
    if (!this.hidden.delete(name)) this.hidden.add(name);
    for (const chart of this.charts) chart.filtered();
  }
  // Shows the values nearest to a position of the axis in each figure that is in sight.
  point(from, panel, series, index) {
    from.at = { panel, series, index };
    const t = from.data.panels[panel].series[series].ts[index];
    for (const chart of this.charts) if (chart === from || chart.inSight()) chart.show(t, chart === from);
  }
  leave() {
    for (const chart of this.charts) chart.clear();
  }
}

class Chart {
  constructor(figure, group) {
    Object.assign(this, { figure, group, frame: figure.querySelector(".frame"), svg: figure.querySelector("svg.chart") });
    this.panels = all("g.panel", this.svg);
    this.keys = [];
    group.charts.push(this);
    const title = figure.querySelector("h3").textContent;
    if (!figure.dataset.link) return;
    this.frame.tabIndex = 0;
    this.frame.setAttribute("role", "application");
    this.frame.setAttribute("aria-roledescription", "chart");
    this.frame.setAttribute("aria-label", `${title}. Arrow keys read points, up and down change the series, plus and minus zoom, 0 resets.`);
    this.listen();
  }

  // The numbers behind the picture, parsed at first use.
  get data() {
    const data = JSON.parse(this.figure.querySelector("script.scales").textContent);
    Object.defineProperty(this, "data", { value: data });
    if (data.shape === "columns") data.panels = [];
    const { x } = data, [transform] = SCALES[x?.kind ?? "linear"];
    data.low = transform(x?.min ?? 0);
    data.high = transform(x?.max ?? 1);
    data.panels.forEach((panel, p) => {
      const nodes = all("g.zoom > g.series", this.panels[p]), { y, cells, heat } = panel, [rise] = SCALES[y.kind];
      panel.low = rise(y.min);
      panel.high = rise(y.max);
      // A row of a matrix is a series whose values are written in its cells; a field of counts is one whose
      // points are the fullest cells of its columns.
      if (cells) panel.series = cells.map((row, r) => ({ name: y.categories[r], mark: "cell", points: row.map((value, c) => [c, value === null ? null : r]) }));
      if (heat) panel.series.push(this.field(panel, transform, rise));
      panel.words = (series, i) => {
        const [at, value] = series.points[i];
        if (series.mark === "heat") return this.count(panel, series.kept[i]);
        return cells ? words(panel, cells[value][at]) : words(y, value);
      };
      panel.series.forEach((series, s) => {
        series.node = nodes[s];
        series.all = series.points.map(([x, y]) => [transform(x ?? NaN), rise(y ?? NaN)]);
        series.kept = series.all.map((_, i) => i).filter((i) => series.all[i].every(Number.isFinite));
        series.ends = this.ends(series, panel, transform);
        series.points = series.kept.map((i) => series.points[i]);
        series.ts = series.kept.map((i, k) => series.ends ? (series.ends[k][0] + series.ends[k][1]) / 2 : series.all[i][0]);
        series.us = series.kept.map((i) => series.all[i][1]);
      });
    });
    return data;
  }
  // The stretch of the axis that each value of a step line or a field of counts holds for; null for points. The
  // last point of a step line only ends it.
  ends(series, { heat }, transform) {
    if (series.mark === "heat") return series.kept.map((c) => [transform(heat.x_edges[c]), transform(heat.x_edges[c + 1])]);
    if (series.mark !== "step" || series.all.length < 2) return null;
    const end = (i) => series.all[i + 1]?.[0];
    series.kept = series.kept.filter((i) => series.all[i][0] < end(i));
    return series.kept.map((i) => [series.all[i][0], end(i)]);
  }

  field(panel, transform, rise) {
    const { heat, y } = panel, middle = (edges, i, of) => (of(edges[i]) + of(edges[i + 1])) / 2;
    const restoreX = SCALES[this.data.x.kind][1], restoreY = SCALES[y.kind][1];
    heat.rows = heat.counts.map((column) => column.indexOf(Math.max(...column)));
    const points = heat.counts.map((column, c) => [
      restoreX(middle(heat.x_edges, c, transform)),
      column[heat.rows[c]] > 0 ? restoreY(middle(heat.y_edges, heat.rows[c], rise)) : null,
    ]);
    return { name: heat.of || "count", mark: "heat", points };
  }
  // The cell of a column that the pointer is over, or else the fullest.
  count({ heat, y, low, high, box }, column) {
    let row = heat.rows[column];
    const place = this.pointer?.[1];
    if (place >= box.y && place <= box.y + box.height) {
      const value = SCALES[y.kind][1](low + (place - y.from) / (y.to - y.from) * (high - low));
      const found = heat.y_edges.findIndex((edge, i) => value >= edge && value < heat.y_edges[i + 1]);
      if (found >= 0) row = found;
    }
    return `${WORDS.count(heat.counts[column][row])} (${words(y, heat.y_edges[row])} to ${words(y, heat.y_edges[row + 1])})`;
  }

  get view() { return this.group.view ?? [this.data.low, this.data.high]; }
  get canZoom() { return this.data.shape === "plot"; }
  shown(series) { return series.ts.length > 0 && !this.group.hidden.has(series.name); }
  // All visible series, with their numbers.
  list() {
    return this.data.panels.flatMap((panel, p) => panel.series.map((series, s) => ({ panel, p, series, s })))
      .filter(({ series }) => this.shown(series));
  }
  inSight() {
    const { top, bottom } = this.frame.getBoundingClientRect();
    return bottom > 100 && top < innerHeight - 60 && Boolean(this.figure.dataset.link);
  }
  placeX(panel, t) {
    const [low, high] = this.view, { x, width } = panel.box;
    return x + (t - low) / (high - low) * width;
  }
  unplaceX(panel, place) {
    const [low, high] = this.view, { x, width } = panel.box;
    return low + (place - x) / width * (high - low);
  }
  placeY({ low, high, y }, u) {
    return y.from + (u - low) / (high - low) * (y.to - y.from);
  }
  // The pointer's position, in the picture's own pixels.
  where(event) {
    const box = this.svg.getBoundingClientRect(), scale = this.svg.viewBox.baseVal.width / box.width;
    return [(event.clientX - box.left) * scale, (event.clientY - box.top) * scale];
  }

  // The stretch of the axis around a position that values hold for; undefined where there are only points.
  held(t) {
    for (const { series } of this.list()) {
      const found = series.ends?.find(([from, to]) => from <= t && t < to);
      if (found) return found;
    }
  }
  nearest({ ts, ends }, t) {
    const inside = ends?.findIndex(([from, to]) => from <= t && t < to) ?? -1;
    if (inside >= 0) return inside;
    let best = 0;
    for (let i = 1; i < ts.length; i++) {
      if (Math.abs(ts[i] - t) < Math.abs(ts[best] - t)) best = i;
    }
    return best;
  }
  // The point nearest to a position: by both axes, the horizontal one counting more, as the cursor is upright.
  // Where values hold for intervals, it is one of the interval under the position.
  nearestTo([x, y]) {
    let best = null, least = Infinity;
    const held = this.held(this.unplaceX(this.data.panels[0], x));
    for (const { panel, p, series, s } of this.list()) {
      const { y: top, height } = panel.box;
      const away = Math.max(top - y, y - top - height, 0) * 1e3;
      for (let i = 0; i < series.ts.length; i++) {
        if (held && (series.ts[i] < held[0] || series.ts[i] > held[1])) continue;
        const dx = this.placeX(panel, series.ts[i]) - x, dy = this.placeY(panel, series.us[i]) - y;
        const distance = Math.hypot(2 * dx, dy) + away;
        if (distance < least) [best, least] = [[p, s, i], distance];
      }
    }
    return best;
  }

  // Cursor, dots and the values of all series at one position of the axis.
  show(t, isHere) {
    const list = this.list();
    this.clear();
    if (!list.length) return;
    this.cursor = draw("g", { class: "cursor" }, this.svg);
    for (const panel of this.data.panels) {
      const x = this.placeX(panel, t), { x: left, y: top, width, height } = panel.box;
      if (x < left - 0.5 || x > left + width + 0.5) return;
      draw("line", { x1: x, x2: x, y1: top, y2: top + height }, this.cursor);
    }
    const { x: axis } = this.data, span = (ts) => ts.map((t) => words(axis, SCALES[axis.kind][1](t))).join(" to ");
    const rows = list.map(({ panel, p, series, s }) => {
      const here = isHere && this.at.panel === p && this.at.series === s;
      const i = here ? this.at.index : this.nearest(series, t);
      const x = this.placeX(panel, series.ts[i]), y = this.placeY(panel, series.us[i]);
      const away = Math.abs(x - this.placeX(panel, t)) > 1;
      const color = colorOf(series);
      if (series.mark === "cell") {
        if (away) return "";
        if (here) this.outline(panel, x, y);
      } else if (!/bars|stack|band|heat/.test(series.mark) && x >= panel.box.x - 1 && x <= panel.box.x + panel.box.width + 1) {
        draw("circle", { cx: x, cy: y, r: here ? 5 : 3.5 }, this.cursor).style.stroke = color;
      }
      const [vx, , label] = series.points[i], value = panel.words(series, i);
      const at = series.ends ? span(series.ends[i]) : words(this.data.x, vx);
      const note = [away && at, label].filter(Boolean).join(", ");
      const row = make("div", { class: here ? "row here" : "row" }, swatch(color, series.mark),
        make("span", {}, make("bdi", {}, series.name), note && make("small", {}, ` ${note}`)), make("span", {}, value));
      if (here) {
        const where = `point ${i + 1} of ${series.ts.length}`;
        this.spoken = `${series.name}: ${value} at ${at}${label ? `, ${label}` : ""}; ${where}`;
        this.anchor = [x, y];
      }
      return row;
    });
    this.tip = make("div", { class: isHere ? "tip" : "tip linked" }, make("div", { class: "at" }, span(this.held(t) ?? [t])), ...rows.slice(0, 16));
    const { top, bottom } = this.frame.getBoundingClientRect();
    if (!isHere && (top < 0 || bottom > innerHeight)) this.tip.classList.add("sr");
    document.body.append(this.tip);
    // Beside the cursor, on the side that has space.
    const box = this.svg.getBoundingClientRect(), scale = box.width / this.svg.viewBox.baseVal.width;
    const [panel] = this.data.panels;
    const px = box.left + this.placeX(panel, t) * scale;
    const py = box.top + (isHere ? this.anchor[1] : panel.box.y + 12) * scale;
    const { width, height } = this.tip.getBoundingClientRect();
    const left = px + 16 + width > innerWidth - 8 ? px - 16 - width : px + 16;
    this.tip.style.transform = `translate(${Math.round(Math.max(8, left))}px, ${Math.round(clamp(py - height / 2, 8, innerHeight - height - 8))}px)`;
  }
  outline({ box, series, low, high }, x, y) {
    const width = box.width / (this.data.high - this.data.low), height = box.height / series.length;
    draw("rect", { x: x - width / 2, y: y - height / 2, width, height, class: "here" }, this.cursor);
  }
  clear() {
    this.cursor?.remove();
    this.tip?.remove();
    this.cursor = this.tip = null;
  }

  // Zoom: the marks are scaled, the ticks written anew.
  zoomed() {
    this.clear();
    const isZoomed = this.group.view !== null;
    const { low, high, panels, x: axis } = this.data, [from, to] = this.view;
    const factor = (high - low) / (to - from);
    panels.forEach((panel, p) => {
      const { x, y, width, height } = panel.box, g = this.panels[p];
      const shift = this.placeX(panel, low) - factor * x;
      for (const node of all("g.zoom", g)) {
        if (isZoomed) node.setAttribute("transform", `matrix(${factor} 0 0 1 ${shift} 0)`);
        else node.removeAttribute("transform");
      }
      this.moveLabels(g, panel, (place) => isZoomed ? factor * place + shift : place);
      const holder = g.querySelector("g.axis.x");
      if (!holder) return;
      for (const node of all(".again", holder)) node.remove();
      for (const node of all(".tick, .minor, .cat", holder)) node.classList.toggle("off", isZoomed);
      if (!isZoomed) return;
      const isLast = p + 1 === panels.length;
      for (const [t, label] of ticksOf(axis, from, to, width)) {
        const at = this.placeX(panel, t), tick = draw("g", { class: "tick again" }, holder);
        draw("path", { d: `M${at} ${y}v${height}` }, tick);
        if (isLast) draw("text", { x: at, y: y + height + 16, class: "m" }, tick).textContent = label;
      }
    });
    this.canvas?.zoomed();
  }
  // Labels beside points go with them; brackets over spans are drawn longer; names of upright rules are left
  // out, as their texts can't be identified.
  moveLabels(g, panel, to) {
    const { box: { x: left, width }, rules } = panel;
    const right = left + width, brackets = all(".labels .bracket", g);
    const isUpright = rules.some(({ upright }) => upright);
    for (const node of all(".labels text, .labels path", g)) {
      const isBracket = brackets.includes(node) || brackets.includes(node.previousElementSibling);
      const from = Number(node.getAttribute("x") ?? /^M([-\d.]+)/.exec(node.getAttribute("d"))?.[1]);
      node.removeAttribute("transform");
      node.classList.remove("off");
      if (isBracket || this.group.view === null) continue;
      const anchor = node.matches(".value") ? this.anchorOf(node, panel, from) : node.matches(".sign") ? from : null;
      if (anchor !== null) node.setAttribute("transform", `translate(${to(anchor) - anchor} 0)`);
      node.classList.toggle("off", anchor === null ? isUpright : to(anchor) < left || to(anchor) > right);
    }
    for (const bracket of brackets) {
      const { x, width: long } = bracket.getBBox();
      const [a, b] = [to(x), to(x + long)].map((place) => clamp(place, left, right));
      const k = (b - a) / long, name = bracket.nextElementSibling;
      for (const node of [bracket, name]) node?.classList.toggle("off", b - a < 2);
      if (this.group.view === null) continue;
      bracket.setAttribute("transform", `matrix(${k} 0 0 1 ${a - k * x} 0)`);
      name?.setAttribute("transform", `translate(${a - x} 0)`);
    }
  }
  // The position, without zoom, of the point that a label stands beside: the nearest of those that have it.
  anchorOf(node, { box, series }, from) {
    const { low, high } = this.data;
    const places = series.flatMap(({ points, ts }) => ts.filter((_, i) => points[i][2] && node.textContent.includes(points[i][2])))
      .map((t) => box.x + (t - low) / (high - low) * box.width);
    return places.reduce((best, place) => Math.abs(place - from) < Math.abs(best - from) ? place : best, places[0] ?? from);
  }
  zoomAround(t, factor) {
    const { low, high, x } = this.data, [from, to] = this.view;
    const least = x.kind === "categories" ? 1 : (high - low) * 1e-5;
    const span = Math.max((to - from) * factor, least);
    if (span >= high - low) return this.group.zoom(null);
    const begin = clamp(t - (t - from) / (to - from) * span, low, high - span);
    this.group.zoom([begin, begin + span]);
  }

  filtered() {
    this.clear();
    for (const node of this.panels.flatMap((g) => all(".series", g))) {
      node.classList.toggle("off", this.group.hidden.has(this.data.names[node.dataset.series]));
    }
    for (const [name, key, entry] of this.keys) {
      const isHidden = this.group.hidden.has(name);
      key.setAttribute("aria-pressed", String(!isHidden));
      entry.classList.toggle("faded", isHidden);
    }
    this.canvas?.filtered();
  }

  listen() {
    const { frame, group } = this;
    let brush = null, pending = null;
    const hover = () => {
      if (!pending) return;
      this.pointer = this.where(pending);
      pending = null;
      const found = this.nearestTo(this.pointer);
      if (found) group.point(this, ...found);
      this.pointer = null;
    };
    frame.addEventListener("pointermove", (event) => {
      if (brush) return this.brushed(brush, event);
      if (!pending) requestAnimationFrame(hover);
      pending = event;
    });
    frame.addEventListener("pointerdown", (event) => {
      if (event.pointerType !== "mouse") {
        pending = event;
        hover();
      } else if (event.button === 0) {
        const [x, y] = this.where(event);
        const panel = this.data.panels.find(({ box }) =>
          x >= box.x && x <= box.x + box.width && y >= box.y && y <= box.y + box.height);
        if (!panel || !this.canZoom) return;
        frame.setPointerCapture(event.pointerId);
        brush = { panel, from: x, to: x };
      }
    });
    const drop = () => { brush?.node?.remove(); brush = null; };
    frame.addEventListener("pointerup", () => {
      if (!brush) return;
      const { panel, from, to } = brush;
      drop();
      if (Math.abs(to - from) < 6) return;
      const [a, b] = [from, to].sort((a, b) => a - b).map((place) => this.unplaceX(panel, place));
      group.zoom([a, b]);
    });
    frame.addEventListener("pointercancel", drop);
    frame.addEventListener("pointerleave", (event) => {
      // A lifted finger has left, but its values stay readable.
      if (brush || event.pointerType !== "mouse") return;
      pending = null;
      group.leave();
    });
    frame.addEventListener("dblclick", () => group.zoom(null));
    frame.addEventListener("blur", () => group.leave());
    frame.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.altKey || event.metaKey) return;
      if (event.key === "Escape") drop();
      if (this.key(event.key)) event.preventDefault();
    });
  }
  brushed(brush, event) {
    const { x: left, y: top, width, height } = brush.panel.box;
    brush.to = clamp(this.where(event)[0], left, left + width);
    brush.node ??= draw("rect", { class: "brush", y: top, height }, this.svg);
    brush.node.setAttribute("x", Math.min(brush.from, brush.to));
    brush.node.setAttribute("width", Math.abs(brush.to - brush.from));
    this.group.leave();
  }

  key(key) {
    const list = this.list();
    if (!list.length) return false;
    let at = list.findIndex(({ p, s }) => p === this.at?.panel && s === this.at?.series);
    let index = this.at?.index ?? -1;
    const t = at >= 0 ? list[at].series.ts[index] : (this.view[0] + this.view[1]) / 2;
    if (!this.canZoom && "+=-0".includes(key)) return false;
    if (key === "+" || key === "=") this.zoomAround(t, 0.5);
    else if (key === "-") this.zoomAround(t, 2);
    else if (key === "0") this.group.zoom(null);
    else if (key === "Escape") return this.group.leave(), true;
    if ("+=-0".includes(key)) {
      say(this.group.view ? `From ${this.view.map((t) => words(this.data.x, SCALES[this.data.x.kind][1](t))).join(" to ")}` : "The whole axis");
      return true;
    }
    const first = at < 0;
    if (first) [at, index] = [0, -1];
    const last = () => list[at].series.ts.length - 1;
    if (key === "ArrowRight") index = Math.min(index + 1, last());
    else if (key === "ArrowLeft") index = first ? last() : Math.max(index - 1, 0);
    else if (key === "Home") index = 0;
    else if (key === "End") index = last();
    else if (key === "ArrowUp" || key === "ArrowDown") {
      if (!first) at = (at + (key === "ArrowDown" ? 1 : list.length - 1)) % list.length;
      index = first ? 0 : this.nearest(list[at].series, t);
    } else return false;
    // A point that the zoom hides is brought in sight.
    const { p, s, series } = list[at], [from, to] = this.view, next = series.ts[index];
    if (next < from || next > to) {
      const span = to - from;
      const begin = clamp(next - span / 2, this.data.low, this.data.high - span);
      this.group.zoom([begin, begin + span]);
    }
    this.group.point(this, p, s, index);
    say(this.spoken);
    return true;
  }

  // Buttons: which series are shown; zoom; data and picture.
  dress() {
    const { figure, frame } = this;
    const id = figure.dataset.id;
    const tools = make("div", { class: "tools" });
    const button = (text, title, onclick) => {
      const node = make("button", { type: "button", title, onclick, class: text.startsWith("Copy") ? "second" : "" }, text);
      if (text.length === 1) node.setAttribute("aria-label", title);
      tools.append(node);
    };
    if (figure.dataset.link) this.legend();
    if (figure.dataset.link && this.canZoom) {
      const middle = () => (this.view[0] + this.view[1]) / 2;
      button("+", "Zoom in", () => this.zoomAround(middle(), 0.5));
      button("−", "Zoom out", () => this.zoomAround(middle(), 2));
      button("Reset", "Key 0, or a double click", () => this.group.zoom(null));
      tools.append(make("span", { class: "space" }));
    }
    button("Copy CSV", "The data", () => copy(csvOf(figure)));
    button("Save CSV", "The data", () => save(`${id}.csv`, "text/csv", csvOf(figure)));
    if (this.counts().length) button("Save counts", "The counts of the heat map, as CSV", () => save(`${id}-counts.csv`, "text/csv", this.csvOfCounts()));
    button("Copy SVG", "The picture", () => copy(this.picture()));
    button("Save SVG", "The picture", () => save(`${id}.svg`, "image/svg+xml", this.picture()));
    if (figure.classList.contains("dense")) this.canvas = new Dense(this);
    if (this.group.view) this.zoomed();
    if (this.group.hidden.size) this.filtered();
    figure.querySelector(".data").before(tools);
  }
  // Panels with counts that are not in the table of the figure's data.
  counts() { return this.data.panels.filter(({ heat }) => heat?.head); }
  csvOfCounts() {
    const panels = this.counts(), isOne = panels.length === 1;
    const lines = panels.flatMap(({ heat: { panel, counts, x_edges: xs, y_edges: ys } }) => counts.flatMap((column, c) =>
      column.flatMap((count, r) => count === 0 ? [] : csvLine([...(isOne ? [] : [safeCell(panel)]), ...[xs[c], xs[c + 1], ys[r], ys[r + 1], count].map((number) => String(number ?? ""))]))));
    return csvLine(panels[0].heat.head) + lines.join("");
  }
  // Buttons over the entries of the picture's legend, which add nothing visible.
  legend() {
    const { width, height } = this.svg.viewBox.baseVal;
    const group = make("div", { class: "keys", role: "group", "aria-label": "Series" });
    for (const entry of all(".legend [data-series]", this.svg)) {
      const name = this.data.names[entry.dataset.series], box = entry.getBBox();
      const key = make("button", { type: "button", class: "key", "aria-label": name, "aria-pressed": "true", onclick: () => this.group.toggle(name) });
      key.style.left = `${(box.x - 3) / width * 100}%`;
      key.style.top = `${(box.y - 3) / height * 100}%`;
      key.style.width = `${(box.width + 6) / width * 100}%`;
      key.style.height = `${(box.height + 6) / height * 100}%`;
      this.keys.push([name, key, entry]);
      group.append(key);
    }
    if (this.keys.length > 1) this.frame.append(group);
  }
  // The picture as a file that stands alone: with its style, title and conditions.
  picture() {
    const svg = this.svg.cloneNode(true), { x, y, width, height } = this.svg.viewBox.baseVal;
    for (const node of all(".cursor, .brush, .off", svg)) node.remove();
    for (const node of all(".drawn", svg)) node.classList.remove("drawn");
    svg.setAttribute("viewBox", `${x} ${y - 52} ${width} ${height + 52}`);
    svg.setAttribute("width", width);
    svg.setAttribute("height", height + 52);
    draw("text", { x: x + 8, y: y - 30, "font-size": 16, "font-weight": 650 }, svg).textContent = this.figure.querySelector("h3").textContent;
    draw("text", { x: x + 8, y: y - 11, "font-size": 12 }, svg).textContent = this.figure.querySelector(".conditions")?.textContent ?? "";
    const style = draw("style", {});
    style.textContent = document.getElementById("chart-style").textContent;
    svg.prepend(style);
    return new XMLSerializer().serializeToString(svg);
  }
}

const colorOf = (series) => series.node ? getComputedStyle(series.node).color : "currentColor";
const swatch = (color, mark) => {
  if (/cell|heat/.test(mark)) return make("span");
  const svg = draw("svg", { width: 18, height: 10, "aria-hidden": "true" });
  const filled = /bars|stack|band/.test(mark);
  const part = filled ? draw("rect", { width: 12, height: 10, x: 3 }, svg)
    : mark === "dots" ? draw("circle", { cx: 9, cy: 5, r: 4 }, svg)
    : mark === "hollow" ? draw("circle", { cx: 9, cy: 5, r: 3.5, fill: "none", "stroke-width": 1.5 }, svg)
    : draw("line", { x1: 0, x2: 18, y1: 5, y2: 5, "stroke-width": 2.5, "stroke-dasharray": mark === "dashed" ? "5 3" : "none" }, svg);
  part.style[filled || mark === "dots" ? "fill" : "stroke"] = color;
  return svg;
};

const groups = new Map();
const charts = all("figure.figure").map((figure) => {
  const section = all(".section").indexOf(figure.closest(".section"));
  const key = figure.dataset.link ? `${section} ${figure.dataset.link}` : figure.id;
  if (!groups.has(key)) groups.set(key, new Group());
  const chart = new Chart(figure, groups.get(key));
  whenNear(figure, () => chart.dress());
  return chart;
});
repainted.push(() => { for (const chart of charts) chart.canvas?.recolored(); });
document.addEventListener("pointerdown", (event) => {
  if (event.pointerType !== "mouse" && !event.target.closest(".frame")) for (const group of groups.values()) group.leave();
});
addEventListener("scroll", () => { for (const tip of all(".tip")) tip.remove(); }, { passive: true });
