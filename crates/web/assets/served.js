// The page of served storage: its status each second, and rates from the differences of its counters.
"use strict";
(() => {
  const LOOK_EVERY_MS = 1000;
  const get = (selector) => document.querySelector(selector);
  const status = get("#status"), state = get("#state"), table = get("#volumes");
  const time = (ns) => ns === null ? "–" : WORDS.latency_ns(ns);

  let before = new Map(), at = 0;
  const show = (volumes, now) => {
    const seconds = (now - at) / 1000, rows = [], next = new Map();
    volumes.forEach((volume, number) => {
      for (const kind of volume.kinds) {
        const key = `${number} ${kind.kind}`, earlier = before.get(key);
        next.set(key, kind);
        const rate = (name) => earlier && seconds > 0 ? Math.max(0, (kind[name] - earlier[name]) / seconds) : 0;
        const row = document.createElement("tr");
        const texts = [`${number}: ${volume.device}`, kind.kind.replace("_", " "), WORDS.iops(rate("operations")), threeDigits(rate("bytes") / 1e6), time(kind.p50_ns), time(kind.p99_ns), String(kind.errors)];
        texts.forEach((text, column) => {
          const cell = row.insertCell();
          cell.textContent = text;
          if (column > 1) cell.className = "n";
        });
        rows.push(row);
      }
    });
    table.hidden = rows.length === 0;
    table.querySelector("tbody").replaceChildren(...rows);
    [before, at] = [next, now];
  };
  const look = async () => {
    if (!document.hidden) {
      try {
        const response = await fetch(`/served/${status.dataset.socket}/status.json`);
        const said = await response.json();
        // A selection in the text would be lost.
        if (said.text && said.text !== status.textContent && getSelection().isCollapsed) status.textContent = said.text;
        if (said.volumes) show(said.volumes, performance.now());
        if (state.textContent !== (said.error ?? "")) state.textContent = said.error ?? "";
      } catch {
        state.textContent = "The server of this page has ended: start `iodyno web` again.";
      }
    }
    setTimeout(look, LOOK_EVERY_MS);
  };
  for (const button of document.querySelectorAll("[data-fault]")) {
    button.addEventListener("click", () => {
      const field = get("#words");
      field.value = button.dataset.fault;
      field.focus();
      field.scrollIntoView({ block: "center" });
    });
  }
  look();
})();
