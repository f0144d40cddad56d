// Figures of very many points: uPlot draws the points, on screen, over the axes of the SVG, which stays for
// print. Cursor, zoom and series are page.js's. In a page without such a figure this is left out.
class Dense {
  constructor(chart) {
    this.chart = chart;
    this.parts = [];
    chart.data.panels.forEach((panel) => {
      const sorted = ({ ts }) => ts.every((t, i) => i === 0 || ts[i - 1] <= t);
      const list = panel.series.filter((series) => /line|dashed|step|dots/.test(series.mark) && sorted(series));
      if (!list.length) return;
      const columns = list.map(({ all }) => all.filter(([t]) => Number.isFinite(t)))
        .map((points) => [points.map(([t]) => t), points.map(([, u]) => Number.isFinite(u) ? u : null)]);
      const holder = make("div", { class: "plot", "aria-hidden": "true" });
      chart.frame.append(holder);
      const plot = new uPlot({
        ...this.size(panel), legend: { show: false }, cursor: { show: false }, padding: [0, 0, 0, 0],
        axes: [{ show: false }, { show: false }],
        scales: { x: { time: false, range: () => chart.view }, y: { range: () => [panel.low, panel.high] } },
        series: [{}, ...list.map((series) => ({
          stroke: () => colorOf(series), width: 1.3, show: chart.shown(series),
          dash: series.mark === "dashed" ? [6, 4] : undefined,
          paths: series.mark === "dots" ? () => null : series.mark === "step" ? uPlot.paths.stepped({ align: 1 }) : uPlot.paths.linear(),
          points: { show: series.mark === "dots", size: 3, fill: () => colorOf(series) },
        }))],
      }, uPlot.join(columns), holder);
      for (const { node } of list) node?.classList.add("drawn");
      this.parts.push({ panel, list, holder, plot });
    });
    new ResizeObserver(() => this.resized()).observe(chart.frame);
  }
  scale() {
    return this.chart.svg.getBoundingClientRect().width / this.chart.svg.viewBox.baseVal.width;
  }
  size({ box: { width, height } }) {
    return { width: Math.round(width * this.scale()), height: Math.round(height * this.scale()) };
  }
  resized() {
    for (const { panel, holder, plot } of this.parts) {
      holder.style.left = `${panel.box.x * this.scale()}px`;
      holder.style.top = `${panel.box.y * this.scale()}px`;
      plot.setSize(this.size(panel));
    }
  }
  zoomed() {
    const [min, max] = this.chart.view;
    for (const { plot } of this.parts) plot.setScale("x", { min, max });
  }
  filtered() {
    for (const { plot, list } of this.parts) {
      list.forEach((series, i) => plot.setSeries(i + 1, { show: this.chart.shown(series) }));
    }
  }
  recolored() {
    for (const { plot } of this.parts) plot.redraw(true);
  }
}
