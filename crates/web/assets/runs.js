// The list of runs: filtered and sorted while the reader types. The server sends all runs as rows of values; the table has
// the first rows that match, and more where the reader scrolls. Text is always text and never markup.
"use strict";
(() => {
  const ROWS = 100;
  const LOOK_EVERY_MS = 3000, LOOK_AGAIN_MS = 500;
  const get = (selector) => document.querySelector(selector);
  const form = get("#runs"), body = get("table.runs tbody"), filter = get("#filter"), level = get("#level");
  const count = get("#count"), more = get("#more"), bar = get("#compare");
  const heads = [...document.querySelectorAll("th[data-sort]")];
  const FALLING = new Set(["started", "iops"]);
  const LEVELS = { invalid: 3, warning: 2, valid: 1 };

  let runs = [], matching = [], version = 0, shown = 0;
  const ticked = new Map(), most = Number(form.dataset.max);
  let sort = { key: "started", falling: true };

  const MARKS = { valid: "✓ VALID", warning: "! warning", invalid: "✗ INVALID" };
  const mark = (run) => MARKS[run.level] ?? (run.status === "running" ? "● running" : "–");
  const whole = (n) => n.toLocaleString("en");
  // A number and its unit stay on one line.
  const joined = (text) => text.replace(/(\d) (?=\p{L})/gu, "$1\u00a0").replace(/ (?=IOPS)/g, "\u00a0");
  const minute = (ms) => new Date(ms).toISOString().slice(0, 16).replace("T", " ");
  const runOf = ([id, started, status, level, name, targets, result, [kind, rate]]) => ({
    id, started, status, level, name, targets, result, kind, rate,
    began: minute(started),
    text: [name, targets, result, id, minute(started), status].join("\n").toLowerCase(),
  });

  const cell = (row, className, ...content) => {
    const node = row.insertCell();
    node.className = className;
    node.append(...content);
    return node;
  };
  const isolated = (text) => {
    const node = document.createElement("bdi");
    node.textContent = text;
    return node;
  };
  const rowOf = (run) => {
    const row = document.createElement("tr");
    const box = document.createElement("input");
    Object.assign(box, { type: "checkbox", name: "runs", value: run.id, checked: ticked.has(run.id) });
    box.setAttribute("aria-label", `Compare ${run.id}`);
    cell(row, "tick", box);
    if (run.status === "running") {
      const live = document.createElement("a");
      Object.assign(live, { href: `/live/${run.id}`, textContent: mark(run) });
      cell(row, "level running", live);
    } else cell(row, `level ${run.level} ${run.status}`, mark(run));
    cell(row, "began", run.began);
    const link = document.createElement("a"), id = document.createElement("span");
    link.href = `/runs/${run.id}`;
    link.append(isolated(run.name));
    Object.assign(id, { className: "id", textContent: run.id });
    cell(row, "name", link, " ", id);
    cell(row, "on", isolated(run.targets));
    cell(row, "result", isolated(joined(run.result)));
    return row;
  };

  const fill = (to) => {
    const rows = matching.slice(shown, to).map(rowOf);
    body.append(...rows);
    shown += rows.length;
    more.hidden = shown >= matching.length;
  };
  const key = {
    level: (run) => LEVELS[run.level] ?? 0,
    started: (run) => run.started,
    iops: (run) => run.rate,
    name: (run) => run.name,
    targets: (run) => run.targets,
  };
  const collator = new Intl.Collator(undefined, { numeric: true });
  const select = () => {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const wanted = level.value;
    const isWanted = (run) => !wanted || (wanted === "running" ? run.status === wanted : run.level === wanted);
    matching = runs.filter((run) => isWanted(run) && words.every((word) => run.text.includes(word)));
    const of = key[sort.key], sign = sort.falling ? -1 : 1;
    if (sort.key === "started") {
      // The server's order is that of the start.
      if (sort.falling) matching.reverse();
    } else if (sort.key === "name" || sort.key === "targets") {
      matching.sort((a, b) => sign * collator.compare(of(a), of(b)) || b.started - a.started);
    } else {
      // Operations and bytes can't be compared.
      const kind = (run) => sort.key === "iops" ? run.kind : 0;
      matching.sort((a, b) => sign * (kind(a) - kind(b) || of(a) - of(b)) || b.started - a.started);
    }
    const all = `${whole(runs.length)} run${runs.length === 1 ? "" : "s"}`;
    count.textContent = matching.length === runs.length ? all : `${whole(matching.length)} of ${all}`;
  };
  // Draws the table again, at least as long as it is: new runs must not move the reader.
  const draw = (keep) => {
    const focused = body.contains(document.activeElement) ? document.activeElement.closest("tr").querySelector(".name a").href : null;
    const length = keep ? Math.max(shown, ROWS) : ROWS;
    select();
    body.replaceChildren();
    shown = 0;
    fill(length);
    if (focused) [...body.querySelectorAll(".name a")].find((link) => link.href === focused)?.focus();
    showTicked();
  };

  // The address has the filter and the order, so that a link or a reload shows the same list.
  const places = [...document.querySelectorAll("nav.site a")].slice(0, 2);
  const showPlace = () => places.forEach((link, at) => {
    if ((level.value === "running") === (at === 1)) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  });
  const remember = () => {
    const query = new URLSearchParams();
    if (filter.value) query.set("q", filter.value);
    if (level.value) query.set("verdict", level.value);
    if (sort.key !== "started" || !sort.falling) query.set("sort", (sort.falling ? "-" : "") + sort.key);
    const text = query.toString();
    history.replaceState(null, "", text ? `?${text}` : location.pathname);
    showPlace();
  };
  const showSort = () => {
    for (const head of heads) {
      if (head.dataset.sort === sort.key) head.setAttribute("aria-sort", sort.falling ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    }
  };
  const recall = () => {
    const query = new URLSearchParams(location.search);
    filter.value = query.get("q") ?? "";
    level.value = query.get("verdict") ?? "";
    if (level.selectedIndex < 0) level.value = "";
    const given = query.get("sort") ?? "-started";
    const name = given.replace(/^-/, "");
    if (Object.hasOwn(key, name)) sort = { key: name, falling: given.startsWith("-") };
    showSort();
  };
  const changed = () => { draw(false); remember(); };
  filter.addEventListener("input", changed);
  level.addEventListener("change", changed);
  for (const head of heads) {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    button.addEventListener("click", () => {
      const name = head.dataset.sort;
      sort = { key: name, falling: sort.key === name ? !sort.falling : FALLING.has(name) || name === "level" };
      showSort();
      changed();
    });
    head.append(button);
  }

  // Ticked runs, in the order of ticking: the first is what the others are compared with.
  const showTicked = () => {
    const ids = [...ticked.keys()];
    const [words, button, none] = [bar.querySelector(".ticked"), bar.querySelector("[type=submit]"), bar.querySelector(".none")];
    button.disabled = ids.length < 2 || ids.length > most;
    none.hidden = ids.length === 0;
    bar.classList.toggle("active", ids.length > 0);
    words.textContent = ids.length === 0 ? "Tick two or more runs to compare each with the one ticked first."
      : ids.length === 1 ? `${ids[0]} is ticked: tick another run to compare it with.`
      : ids.length > most ? `${ids.length} runs are ticked: a comparison has at most ${most}.`
      : `${ids.slice(1).join(", ")} against ${ids[0]}`;
  };
  body.addEventListener("change", ({ target }) => {
    if (target.checked) ticked.set(target.value, true);
    else ticked.delete(target.value);
    showTicked();
  });
  bar.querySelector(".none").addEventListener("click", () => {
    ticked.clear();
    for (const box of body.querySelectorAll("input")) box.checked = false;
    showTicked();
    filter.focus();
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (ticked.size > 1 && ticked.size <= most) location.assign(`/compare?runs=${[...ticked.keys()].join(",")}`);
  });

  // Keys: / goes to the filter, the arrows move between runs, x ticks a run.
  const step = (by) => {
    const links = [...body.querySelectorAll(".name a")];
    const row = document.activeElement.closest("tr");
    const at = row && body.contains(row) ? links.indexOf(row.querySelector(".name a")) + by : 0;
    if (at >= links.length && shown < matching.length) {
      fill(shown + ROWS);
      body.querySelectorAll(".name a")[at].focus();
    } else if (at < 0) filter.focus();
    else links[Math.min(at, links.length - 1)]?.focus();
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    const inRow = body.contains(document.activeElement), inFilter = document.activeElement === filter;
    if (event.key === "/" && !inFilter) filter.focus();
    else if (event.key === "ArrowDown" && (inRow || inFilter)) step(1);
    else if (event.key === "ArrowUp" && inRow) step(-1);
    else if (event.key === "x" && inRow) document.activeElement.closest("tr").querySelector("input").click();
    else if (event.key === "Escape" && inFilter && filter.value) {
      filter.value = "";
      changed();
    } else return;
    event.preventDefault();
  });

  more.querySelector("button").addEventListener("click", () => fill(shown + ROWS));
  new IntersectionObserver(([entry]) => { if (entry.isIntersecting) fill(shown + ROWS); }, { rootMargin: "800px" }).observe(more);

  // New runs appear by themselves while the page is visible.
  let isFirst = true;
  const look = async () => {
    let wait = LOOK_EVERY_MS;
    if (isFirst || !document.hidden) {
      try {
        const response = await fetch(`/runs.json?has=${version}`);
        if (response.status === 200) {
          const data = await response.json();
          runs = data.runs.map(runOf);
          version = data.version;
          form.hidden = runs.length === 0;
          draw(!isFirst);
          if (data.pending) wait = LOOK_AGAIN_MS;
        } else if (response.status === 204) {
          wait = LOOK_EVERY_MS;
        } else {
          count.textContent = `The list can't be read: ${(await response.text()).trim()}`;
        }
      } catch {
        count.textContent = "The server has ended: start `iodyno web` again.";
      }
      if (isFirst) {
        isFirst = false;
        filter.disabled = level.disabled = false;
        performance.mark("ready");
        document.documentElement.dataset.ready = "";
      }
    }
    setTimeout(look, wait);
  };
  recall();
  showTicked();
  look();
})();
