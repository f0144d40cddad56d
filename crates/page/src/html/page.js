// Actions on any page, which is complete without them: sorting tables, copying text and data, light and dark.
// It makes no request. This file comes first; scales.js, chart.js and dense.js follow in the same function
// where the page has figures.

// Elements. Text is always text and never markup.
const make = (name, attributes = {}, ...children) => {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else node.setAttribute(key, value);
  }
  node.append(...children);
  return node;
};
const all = (selector, root = document) => [...root.querySelectorAll(selector)];
const live = make("p", { class: "sr", role: "status", "aria-live": "polite" });
const say = (text) => { live.textContent = text; };

// Data as CSV, the same bytes as the command writes.
const cellText = (cell) => {
  const [sign] = all(".sign", cell);
  return sign ? cell.textContent.slice(sign.textContent.length + 1) : cell.textContent;
};
// The characters of `units::text::is_hidden`, but line ends.
const hidden = /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\ufffe\uffff\u{1d173}-\u{1d17a}\u{e0000}-\u{e0fff}]/gu;
const safeCell = (given) => {
  const text = given.replace(hidden, "\ufffd");
  return /^[=+\-@\t\r]/.test(text) && !/^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(text) ? `'${text}` : text;
};
// An unknown number is an empty field.
const csvCell = (cell) => {
  const text = cellText(cell);
  return cell.dataset.v ?? (text === "–" && cell.classList.contains("n") ? "" : safeCell(text));
};
const csvLine = (cells) => cells.map((text) => /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text).join(",") + "\n";
const csvOf = (holder) => {
  const whole = holder.querySelector("script.csv");
  if (whole) return JSON.parse(whole.textContent);
  const table = holder.querySelector("table");
  const grouped = table.querySelector("tr.group") !== null;
  let out = csvLine([...(grouped ? ["group"] : []), ...all("thead th", table).map((th) => th.dataset.csv)]);
  let group = "";
  for (const row of table.tBodies[0].rows) {
    if (row.className === "group") group = safeCell(cellText(row.cells[0]));
    else out += csvLine([...(grouped ? [group] : []), ...[...row.cells].map(csvCell)]);
  }
  return out;
};
const save = (name, type, text) => {
  const url = URL.createObjectURL(new Blob([text], { type }));
  make("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
};
const copy = async (text) => {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = make("textarea", { class: "sr" });
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  say("Copied");
  toast.textContent = "Copied";
  toast.hidden = false;
  clearTimeout(copy.timer);
  copy.timer = setTimeout(() => { toast.hidden = true; }, 1500);
};
const toast = make("div", { class: "toast", hidden: "", "aria-hidden": "true" });

// Tables are sorted by a click on a head: rising, falling. Rows stay under the row that heads them.
const sort = (table, column, head) => {
  const falling = head.getAttribute("aria-sort") === "ascending";
  for (const th of all("th[aria-sort]", table)) th.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", falling ? "descending" : "ascending");
  const isNumber = head.classList.contains("n");
  const key = (row) => {
    const cell = row.cells[column], text = cell ? cellText(cell) : "";
    return isNumber ? Number(cell?.dataset.v ?? (text || NaN)) : text;
  };
  const compare = (a, b) => {
    if (isNumber && (Number.isNaN(a) || Number.isNaN(b))) return Number.isNaN(a) - Number.isNaN(b);
    return (isNumber ? a - b : a.localeCompare(b, undefined, { numeric: true })) * (falling ? -1 : 1);
  };
  const groups = [[]];
  for (const row of table.tBodies[0].rows) {
    if (row.className === "group") groups.push([]);
    groups.at(-1).push(row);
  }
  for (const rows of groups) {
    const heads = rows.filter((row) => row.className === "group");
    const sorted = rows.filter((row) => row.className !== "group").map((row) => [key(row), row]).sort(([a], [b]) => compare(a, b));
    table.tBodies[0].append(...heads, ...sorted.map(([, row]) => row));
  }
};
const dressTable = (table) => {
  if (table.tBodies[0].rows.length < 2) return;
  all("thead th", table).forEach((head, column) => {
    if (!head.textContent.trim()) return;
    const button = make("button", { type: "button", title: "Sort", onclick: () => sort(table, column, head) });
    button.append(...head.childNodes);
    head.append(button);
  });
};

// Light and dark: the button overrides the system's preference, in this page alone.
const preference = matchMedia("(prefers-color-scheme: dark)");
const isDark = () => (document.documentElement.dataset.theme ?? (preference.matches ? "dark" : "light")) === "dark";
const repainted = [];
const repaint = () => {
  theme.textContent = isDark() ? "Light" : "Dark";
  for (const then of repainted) then();
};
const theme = make("button", { type: "button", class: "theme", onclick: () => {
  document.documentElement.dataset.theme = isDark() ? "light" : "dark";
  repaint();
}, title: "Change the colours" });
preference.addEventListener("change", repaint);
repaint();

// Elements are initialised when they come near the window: a page may have hundreds of figures.
const dressing = new Map();
const near = new IntersectionObserver((entries) => {
  for (const { target, isIntersecting } of entries) {
    if (!isIntersecting) continue;
    near.unobserve(target);
    dressing.get(target)();
  }
}, { rootMargin: "600px" });
const whenNear = (node, dress) => {
  dressing.set(node, dress);
  near.observe(node);
};
for (const table of all("table")) whenNear(table, () => dressTable(table));
for (const code of all("figure.code")) {
  code.append(make("button", { type: "button", class: "copy", onclick: () => copy(code.querySelector("code").textContent) }, "Copy"));
}
for (const block of all(".block")) {
  block.append(make("div", { class: "tools" },
    make("button", { type: "button", onclick: () => copy(csvOf(block)) }, "Copy CSV")));
}
document.querySelector("nav[aria-label=Sections]").append(theme);
document.body.append(live, toast);
// For browsers whose style cannot open folded sections.
addEventListener("beforeprint", () => { for (const node of all("details.section:not([open])")) { node.open = true; node.dataset.print = ""; } });
addEventListener("afterprint", () => { for (const node of all("details[data-print]")) { node.open = false; delete node.dataset.print; } });
