// The page of a study in progress: the number of simulated cells, then the result.
"use strict";
(() => {
  const LOOK_EVERY_MS = 1000;
  const state = document.querySelector("#state");
  const look = async () => {
    try {
      const response = await fetch("/study/progress.json");
      const said = await response.json();
      if (said.cells === undefined) return location.reload();
      if (said.cells_total > 0) state.textContent = `Being simulated: cell ${said.cells} of ${said.cells_total}.`;
    } catch {
      state.textContent = "The server does not answer.";
    }
    setTimeout(look, LOOK_EVERY_MS);
  };
  setTimeout(look, LOOK_EVERY_MS);
})();
