// A run in progress: its rate, and for each kind of operation a heat map of response times with percentiles. The server sends
// the intervals that are new. Figures are text as well, in a table: the pictures are for those who see them.
"use strict";
(() => {
  const LOOK_EVERY_MS = 1000, KEPT = 240, SHOWN_MIN = 40, HEIGHT = 180, LEFT = 76, BOTTOM = 22, TOP = 10, RIGHT = 12;
  const get = (selector) => document.querySelector(selector);
  const charts = get("#charts"), id = charts.dataset.run;
  const count = WORDS.iops, bytes = WORDS.throughput;
  const time = (ns) => ns === null || ns === undefined ? "–" : WORDS.latency_ns(ns);
  const seconds = (s) => s < 100 ? `${threeDigits(s)} s` : `${Math.floor(s / 60)} min ${Math.floor(s % 60)} s`;
  // A number and its unit stay on one line.
  const joined = (words) => words.replace(/(?<!,) /g, "\u00a0");
  const text = (node, words) => { if (node.textContent !== words) node.textContent = words; };

  // Intervals by number; a new step of the run begins anew.
  let points = new Map(), step = null, from = 0, kinds = [], last = null;
  const take = (data) => {
    if (data.step !== step) [points, step, from] = [new Map(), data.step, 0];
    kinds = data.kinds;
    for (const [index, iops, perSecond, errors, each] of data.points) {
      const kind = Object.fromEntries(each.map((of, at) => [data.kinds[at], of]));
      points.set(index, { index, iops, bytes: perSecond, errors, kind });
      from = Math.max(from, index + 1);
    }
    for (const index of points.keys()) if (index < from - KEPT) points.delete(index);
    last = data;
  };

  // Pictures.
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const resolved = (name) => {
    // Canvas does not know light-dark(): the browser resolves it for an element.
    const probe = document.createElement("i");
    probe.className = `probe ${name}`;
    document.body.append(probe);
    const value = getComputedStyle(probe).color;
    probe.remove();
    return value;
  };
  const frames = new Map();
  const frame = (name, label) => {
    if (!frames.has(name)) {
      const figure = document.createElement("figure"), caption = document.createElement("figcaption"), canvas = document.createElement("canvas");
      figure.className = "live";
      canvas.setAttribute("role", "img");
      figure.append(caption, canvas);
      charts.append(figure);
      frames.set(name, { figure, caption, canvas });
    }
    const it = frames.get(name);
    text(it.caption, label);
    return it;
  };
  const open = (canvas) => {
    const width = canvas.parentElement.clientWidth, ratio = devicePixelRatio || 1;
    if (canvas.width !== Math.round(width * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(HEIGHT * ratio);
    }
    const to = canvas.getContext("2d");
    to.setTransform(ratio, 0, 0, ratio, 0, 0);
    to.clearRect(0, 0, width, HEIGHT);
    to.font = "12px system-ui, sans-serif";
    return [to, width];
  };
  const axes = (to, width, paint, ticks, yOf, first, number, interval) => {
    to.fillStyle = paint.quiet;
    to.strokeStyle = paint.line;
    to.textAlign = "right";
    to.textBaseline = "middle";
    for (const [value, words] of ticks) {
      const y = yOf(value);
      to.beginPath();
      to.moveTo(LEFT, y);
      to.lineTo(width - RIGHT, y);
      to.stroke();
      to.fillText(words, LEFT - 8, y);
    }
    to.textBaseline = "alphabetic";
    const span = number * interval, step = [0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600].find((s) => span / s <= (width < 500 ? 4 : 8)) ?? span;
    for (let at = Math.ceil(first * interval / step) * step; at <= (first + number) * interval; at += step) {
      const x = LEFT + (at / interval - first) * (width - LEFT - RIGHT) / number;
      to.textAlign = x > width - 40 ? "right" : "center";
      to.fillText(`${Number(at.toFixed(1))} s`, x, HEIGHT - 5);
    }
  };
  const line = (to, color, values, xOf, yOf) => {
    to.strokeStyle = color;
    to.lineWidth = 1.75;
    to.lineJoin = "round";
    to.beginPath();
    let isOpen = false;
    for (const [index, value] of values) {
      if (value === null || value === undefined) { isOpen = false; continue; }
      const at = [xOf(index + 0.5), yOf(value)];
      if (isOpen) to.lineTo(...at); else to.moveTo(...at);
      isOpen = true;
    }
    to.stroke();
    to.lineWidth = 1;
  };
  const nice = (top) => {
    const unit = 10 ** Math.floor(Math.log10(top || 1));
    const step = [1, 2, 5, 10].map((k) => k * unit / 2).find((s) => top / s <= 4) ?? unit;
    return [0, 1, 2, 3, 4].map((k) => k * step).filter((value) => value <= top * 1.02);
  };
  const draw = () => {
    if (!last || points.size === 0) return;
    const paint = { quiet: resolved("quiet"), line: resolved("line"), rate: resolved("accent"), p50: resolved("good"), p99: resolved("warning"), heat: resolved("heat") };
    const shown = [...points.values()].sort((a, b) => a.index - b.index);
    const interval = last.interval_s, first = Math.max(0, from - KEPT), number = Math.max(SHOWN_MIN, from - first);
    const isBandwidth = shown.every((point) => !point.iops) && shown.some((point) => point.bytes);
    {
      const { canvas } = frame("rate", "Rate, I/Os per second");
      const [to, width] = open(canvas);
      const xOf = (index) => LEFT + (index - first) * (width - LEFT - RIGHT) / number;
      const of = (point) => isBandwidth ? point.bytes : point.iops;
      const top = Math.max(...shown.map(of), 1) * 1.08;
      const yOf = (value) => HEIGHT - BOTTOM - value / top * (HEIGHT - BOTTOM - TOP);
      const ticks = nice(top), quantity = isBandwidth ? "throughput" : "iops";
      axes(to, width, paint, ticks.map((value) => [value, tickLabel(quantity, value, ticks[1] ?? top, top)]), yOf, first, number, interval);
      line(to, paint.rate, shown.map((point) => [point.index, of(point)]), xOf, yOf);
      canvas.setAttribute("aria-label", `Rate over time: now ${isBandwidth ? bytes(of(shown.at(-1))) : `${count(of(shown.at(-1)))} per second`}`);
    }
    const octave = last.rows_an_octave;
    for (const kind of kinds) {
      const with_ = shown.filter((point) => point.kind[kind]);
      if (with_.length === 0) continue;
      const rows = with_.flatMap((point) => point.kind[kind][4].map(([row]) => row));
      const [low, high] = [Math.min(...rows), Math.max(Math.min(...rows) + octave, ...rows) + 1];
      const { canvas } = frame(kind, `Response time of ${kind.replace("_", " ")} operations: heat map, p50 (green), p99 (orange)`);
      const [to, width] = open(canvas);
      const column = (width - LEFT - RIGHT) / number;
      const xOf = (index) => LEFT + (index - first) * column;
      const yOfRow = (row) => HEIGHT - BOTTOM - (row - low) / (high - low) * (HEIGHT - BOTTOM - TOP);
      const yOf = (ns) => yOfRow(Math.min(high, Math.max(low, Math.log2(Math.max(1, ns)) * octave)));
      const most = Math.max(...with_.flatMap((point) => point.kind[kind][4].map(([, n]) => n)));
      to.fillStyle = paint.heat;
      for (const point of with_) {
        for (const [row, n] of point.kind[kind][4]) {
          // By the logarithm, so that rare latencies are visible.
          to.globalAlpha = 0.12 + 0.78 * Math.log(1 + n) / Math.log(1 + most);
          to.fillRect(xOf(point.index), yOfRow(row + 1), column + 0.4, yOfRow(row) - yOfRow(row + 1) + 0.4);
        }
      }
      to.globalAlpha = 1;
      const ticks = [];
      const decades = (high - low) / octave / Math.log2(10);
      for (let exponent = 0; exponent < 12; exponent += 1) {
        for (const digit of decades < 1.2 ? [1, 2, 5] : decades > 4 ? [1] : [1, 3]) {
          const ns = digit * 10 ** exponent, row = Math.log2(ns) * octave;
          if (row >= low && row <= high) ticks.push([ns, tickLabel("latency_ns", ns, ns, ns)]);
        }
      }
      axes(to, width, paint, ticks, yOf, first, number, interval);
      line(to, paint.p50, with_.map((point) => [point.index, point.kind[kind][0]]), xOf, yOf);
      line(to, paint.p99, with_.map((point) => [point.index, point.kind[kind][1]]), xOf, yOf);
      const [p50, p99] = with_.at(-1).kind[kind];
      canvas.setAttribute("aria-label", `Response time of ${kind} operations over time: now p50 ${time(p50)}, p99 ${time(p99)}`);
    }
    for (const [name, { figure }] of frames) figure.hidden = name !== "rate" && !kinds.includes(name);
  };

  // Text.
  const MARKS = { invalid: "✗", warning: "!", note: "i" };
  const TONES = { invalid: "bad", warning: "warning", note: "note" };
  const tell = () => {
    const data = last, isRunning = data.status === "running";
    const cell = [data.cell, data.targets.join(", ")].filter(Boolean).join(" on ");
    const finished = data.finished ? `, ${data.finished} ${data.finished === 1 ? "cell" : "cells"} finished` : "";
    text(get("#state"), isRunning ? (cell ? `measuring ${cell}${finished}` : `preparing${finished}`) : `this run has ended: ${data.status}`);
    const newest = points.get(from - 1 - (points.has(from - 2) ? 1 : 0));
    text(get("#now"), isRunning && newest ? joined(`${count(newest.iops)} IOPS, ${bytes(newest.bytes)}`) : "–");
    text(get("#mean"), data.seconds ? joined(`${count(data.iops)} IOPS, ${bytes(data.bytes_per_s)}`) : "–");
    text(get("#measured"), seconds(data.seconds));
    text(get("#errors"), String(data.errors));
    const list = get("#verdicts"), key = JSON.stringify(data.verdicts);
    if (list.dataset.key !== key) {
      list.dataset.key = key;
      list.hidden = data.verdicts.length === 0;
      list.replaceChildren(...data.verdicts.map(({ level, code, text: words }) => {
        const item = document.createElement("li"), sign = document.createElement("span"), body = document.createElement("div"), name = document.createElement("b");
        item.className = TONES[level] ?? "note";
        sign.className = "sign";
        sign.textContent = MARKS[level] ?? "i";
        sign.setAttribute("aria-hidden", "true");
        name.textContent = code;
        body.append(name, ` ${words}`);
        item.append(sign, body);
        return item;
      }));
    }
    get("#totals").hidden = data.totals.length === 0;
    get("#totals tbody").replaceChildren(...data.totals.map((of) => {
      const row = document.createElement("tr");
      [of.kind.replace("_", " "), count(of.iops), time(of.p50_ns), time(of.p99_ns), time(of.p999_ns), time(of.max_ns)].forEach((words, column) => {
        const node = row.insertCell();
        node.textContent = words;
        if (column > 0) node.className = "n";
      });
      return row;
    }));
  };

  const look = async () => {
    let isOver = false;
    if (!document.hidden) {
      try {
        const response = await fetch(`/live/${id}/data.json?from=${from}`);
        if (!response.ok) throw new Error(await response.text());
        take(await response.json());
        tell();
        draw();
        isOver = last.status !== "running";
        document.documentElement.dataset.ready = "";
      } catch (error) {
        text(get("#state"), error instanceof TypeError ? "The server of this page has ended: start `iodyno web` again." : String(error.message).trim());
      }
    }
    if (isOver) {
      for (const form of document.querySelectorAll("#change form[action$=stop]")) form.hidden = true;
    } else setTimeout(look, LOOK_EVERY_MS);
  };
  addEventListener("resize", draw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  look();
})();
