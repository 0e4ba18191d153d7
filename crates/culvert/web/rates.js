// Counters become rates; rates become words and graphs.

import { svg } from "./tables.js";

/** Samples that are kept: two minutes at one a second. */
export const SAMPLES = 120;

/** What counters were, by name. */
export class History {
  #series = new Map();

  /** Takes a counter's value at a time in seconds. */
  add(name, at, value) {
    let series = this.#series.get(name);
    if (!series) this.#series.set(name, (series = { at: NaN, value: 0, rates: [] }));
    const seconds = at - series.at;
    if (seconds <= 0) return;
    // A counter that went back is another one's: the daemon has begun anew.
    const rate = value >= series.value && seconds < 30 ? (value - series.value) / seconds : NaN;
    if (!Number.isNaN(rate)) series.rates.push(rate);
    if (series.rates.length > SAMPLES) series.rates.shift();
    series.at = at;
    series.value = value;
  }

  /** Takes a value that is no counter, at a time in seconds. */
  put(name, at, value) {
    let series = this.#series.get(name);
    if (!series) this.#series.set(name, (series = { at: NaN, value: 0, rates: [] }));
    if (at <= series.at) return;
    series.rates.push(value);
    if (series.rates.length > SAMPLES) series.rates.shift();
    series.at = at;
  }

  /** Forgets what has not been heard of since a time. */
  forget(before) {
    for (const [name, series] of this.#series) if (series.at < before) this.#series.delete(name);
  }

  /** All rates of a name, oldest first, each for a second. */
  rates(name) {
    return this.#series.get(name)?.rates ?? [];
  }

  /** The newest rate. */
  now(name) {
    return this.rates(name).at(-1) ?? 0;
  }
}

const PREFIXES = ["", "k", "M", "G", "T", "P"];

/** Three digits, a prefix and the unit: `12.3 Mbit/s`. What is not known is a dash. */
export function si(value, unit) {
  if (Number.isNaN(value)) return "\u2013";
  let place = 0;
  let number = value;
  // What would be rounded to four digits gets the next prefix.
  while (number >= 999.5 && place < PREFIXES.length - 1) {
    number /= 1000;
    place += 1;
  }
  const isWhole = place === 0 && (Number.isInteger(number) || number >= 100);
  const digits = isWhole || number >= 99.95 ? 0 : number >= 9.995 ? 1 : 2;
  return `${number.toFixed(digits)}\u00a0${PREFIXES[place]}${unit}`;
}

export const bits = (bytesPerSecond) => si(8 * bytesPerSecond, "bit/s");
export const packets = (perSecond) => si(Math.round(perSecond * 10) / 10, "pkt/s");
export const bytes = (count) => si(count, "B");

const WHOLE = new Intl.NumberFormat("en", { useGrouping: true });

/** All digits of a count, in groups of three. */
export const count = (number) => WHOLE.format(number).replaceAll(",", "\u202f");

/** A time in its two largest units. */
export function span(seconds) {
  const units = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const first = units.findIndex(([size]) => seconds >= size);
  if (first < 0) return "0\u00a0s";
  const [size, unit] = units[first];
  const whole = `${Math.floor(seconds / size)}\u00a0${unit}`;
  if (first === units.length - 1) return whole;
  const [nextSize, nextUnit] = units[first + 1];
  const rest = Math.floor((seconds % size) / nextSize);
  return rest ? `${whole} ${rest}\u00a0${nextUnit}` : whole;
}

/** A graph of rates, which are `{ name, rates }`; the name is a class of the style sheet. Of two the first goes up from
 * the middle and the second down, on one scale. */
export function graph() {
  const picture = svg("svg", { class: "graph", viewBox: "0 0 120 40", preserveAspectRatio: "none", "aria-hidden": "true" });
  const lines = new Map();
  const draw = (series) => {
    const peak = Math.max(...series.flatMap(({ rates }) => rates), 0);
    const [base, room] = series.length > 1 ? [20, 19] : [39, 37];
    series.forEach(({ name, rates }, place) => {
      if (!lines.has(name)) {
        lines.set(name, [svg("path", { class: `area ${name}` }), svg("path", { class: `line ${name}` })]);
        picture.append(...lines.get(name));
      }
      const way = place === 0 ? -1 : 1;
      const first = SAMPLES - rates.length + 1;
      const height = (rate) => (base + way * room * (peak && rate / peak)).toFixed(2);
      const points = rates.map((rate, second) => `${first + second},${height(rate)}`).join("L");
      const [area, line] = lines.get(name);
      line.setAttribute("d", points && `M${points}`);
      area.setAttribute("d", points && `M${first},${base}L${points}L${SAMPLES},${base}Z`);
    });
    return peak;
  };
  return { picture, draw };
}
