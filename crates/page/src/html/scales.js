// Numbers, scales and ticks, in the same format and layout as the document's own (Quantity::words, chart/).

const clamp = (x, low, high) => Math.min(Math.max(x, low), high);
// Numbers in words, as Quantity::words writes them.
const SI = [[1e9, " G"], [1e6, " M"], [1e3, " k"], [1, ""]];
const TIME = [[1e9, " s"], [1e6, " ms"], [1e3, " µs"], [1, " ns"]];
const RATE = [[1e12, " TB/s"], [1e9, " GB/s"], [1e6, " MB/s"], [1e3, " kB/s"], [1, " B/s"]];
const BINARY = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
const threeDigits = (x) => {
  const a = Math.abs(x);
  return x.toFixed(a === 0 || a >= 99.95 ? 0 : a >= 9.995 ? 1 : a >= 0.9995 ? 2 : 3);
};
const scaled = (x, units) => {
  const [scale, unit] = units.find(([scale]) => Math.abs(x) >= scale * 0.9995) ?? units.at(-1);
  return threeDigits(x / scale) + unit;
};
const size = (bytes) => {
  bytes = Math.max(0, Math.trunc(bytes));
  if (bytes === 0) return "0 B";
  let unit = 5;
  while (bytes % 1024 ** unit) unit--;
  if (bytes / 1024 ** unit < 10240) return `${bytes / 1024 ** unit} ${BINARY[unit]}`;
  unit = Math.min(5, Math.floor(Math.log2(bytes) / 10));
  return `${threeDigits(bytes / 1024 ** unit)} ${BINARY[unit]}`;
};
const trim = (number) => number.includes(".") ? number.replace(/\.?0+$/, "") : number;
const WORDS = {
  iops: (x) => scaled(x, SI),
  throughput: (x) => scaled(x, RATE),
  latency_ns: (x) => scaled(x, TIME),
  seconds: (x) => scaled(x * 1e9, TIME),
  share: (x) => `${threeDigits(x * 100)} %`,
  change: (x) => {
    const percent = threeDigits(Math.abs(x) * 100);
    // A value that rounds to zero has no sign.
    return `${/^[0.]*$/.test(percent) ? "" : x > 0 ? "+" : "-"}${percent} %`;
  },
  bytes: size,
  // Rounds and targets are whole.
  count: (x) => Number.isInteger(x) && x >= 0 && x < 10000 ? String(x) : scaled(x, SI),
  ratio: threeDigits,
  quantile: (x) => `${trim((x * 100).toFixed(6))} %`,
  celsius: (x) => `${threeDigits(x)} °C`,
};
const words = (axis, value) =>
  axis.kind === "categories" ? axis.categories?.[Math.round(value)] ?? String(value)
  : Number.isFinite(value) ? WORDS[axis.quantity](value) : "–";

// Scales: values are transformed, then mapped evenly.
const LINEAR = [(v) => v, (t) => t];
const SCALES = {
  linear: LINEAR,
  categories: LINEAR,
  log: [(v) => v > 0 ? Math.log10(v) : NaN, (t) => 10 ** t],
  nines: [(q) => -Math.log1p(-q) / Math.LN10, (t) => -Math.expm1(-t * Math.LN10)],
};

// Ticks of a zoomed axis between two transformed values: pairs of a transformed value and its label.
const CLOCK = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400];
const nice = (raw) => {
  const power = 10 ** Math.floor(Math.log10(raw));
  return power * [1, 2, 5, 10].find((m) => m * power >= raw * (1 - 1e-9));
};
const stepOf = (quantity, raw) => {
  if (quantity === "seconds" && raw > 1) return CLOCK.find((step) => step >= raw) ?? nice(raw / 86400) * 86400;
  if (quantity === "bytes" && raw > 1) return 2 ** Math.ceil(Math.log2(raw));
  return quantity === "count" ? Math.max(1, nice(raw)) : nice(raw);
};
const unitsOf = (quantity, step) => ({
  iops: SI,
  count: SI,
  throughput: RATE,
  latency_ns: TIME,
  seconds: step >= 86400 ? [[86400, " d"]] : step >= 3600 ? [[3600, " h"]] : step >= 60 ? [[60, " min"]]
    : step >= 1 ? [[1, " s"]] : [[1, " s"], [1e-3, " ms"], [1e-6, " µs"], [1e-9, " ns"]],
  bytes: BINARY.map((unit, i) => [1024 ** i, ` ${unit}`]).reverse(),
  ratio: [[1, ""]],
  celsius: [[1, " °C"]],
})[quantity] ?? [[0.01, " %"]];
const tickLabel = (quantity, value, step, most) => {
  const units = unitsOf(quantity, step);
  const [scale, unit] = units.find(([scale]) => most >= scale) ?? units.at(-1);
  const decimals = clamp(Math.ceil(-Math.log10(step / scale) - 1e-9), 0, 12);
  const sign = quantity === "change" && value > 0 ? "+" : "";
  return sign + trim((value / scale).toFixed(decimals)).replace(/^-0$/, "0") + unit;
};
const linearTicks = (quantity, low, high, wanted) => {
  const step = stepOf(quantity, (high - low) / wanted);
  const ticks = [];
  for (let i = Math.ceil(low / step - 1e-6); i <= high / step + 1e-6 && ticks.length < 50; i++) {
    ticks.push([i * step, tickLabel(quantity, i * step, step, Math.max(Math.abs(low), Math.abs(high)))]);
  }
  return ticks;
};
const ticksOf = (axis, low, high, pixels) => {
  const [transform, restore] = SCALES[axis.kind];
  const wanted = clamp(pixels / 95, 2, 12);
  if (axis.kind === "categories") {
    const stride = Math.ceil((high - low) / wanted / 1.5);
    const ticks = (axis.categories ?? []).map((name, i) => [i, name]);
    return ticks.filter(([i]) => i >= low && i <= high && i % stride === 0);
  }
  if (axis.kind === "linear" || high - low < 1) {
    const ticks = linearTicks(axis.quantity, restore(low), restore(high), wanted);
    return ticks.map(([value, label]) => [transform(value), label]);
  }
  const digits = high - low > wanted / 3 ? [1] : [1, 2, 5];
  const stride = Math.ceil((high - low) / wanted);
  const ticks = [];
  for (let whole = Math.floor(low); whole <= high; whole += stride) {
    for (const digit of digits) {
      const t = axis.kind === "log" ? whole + Math.log10(digit) : whole + 1 - Math.log10([10, 5, 2][digits.indexOf(digit)]);
      const value = axis.kind === "log" ? digit * 10 ** whole : restore(t);
      if (t >= low && t <= high) ticks.push([t, tickLabel(axis.quantity, value, value, value)]);
    }
  }
  return axis.kind === "log" ? ticks : ticks.map(([t]) => [t, WORDS.quantile(restore(t))]);
};

