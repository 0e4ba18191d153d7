// Measured paths as lines, each with its delay and loss, and the applications that take it.

import { SAMPLES, bits, graph } from "./rates.js";
import { el, keep, setText, svg } from "./tables.js";

/** Paths that are drawn, each in one class; of more the worst. */
const MOST = 24;

/** Applications that a path names. */
const MOST_APPS = 6;

/** Seconds for which an application that has fallen silent is still named. */
const LINGERS = 10;

/** States, the best first, and the look of each. */
const LOOKS = new Map([["good", "up"], ["untried", "part"], ["degraded", "part"], ["bad", "down"], ["dead", "down"]]);
const ORDER = [...LOOKS.keys()];

const keyOf = (path) => `${path.name} ${path.dscp}`;

/** Name of the series of a path's delay, or its loss. */
export const pathSeries = (path, what) => `path ${keyOf(path)} ${what}`;

/** The same of the bytes of an application on a path. */
export const appSeries = (app, path) => `app ${app} on ${path}`;

/** A time in milliseconds, in three digits. */
export function ms(value) {
  if (Number.isNaN(value)) return "\u2013";
  const digits = value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  return `${value.toFixed(digits)}\u00a0ms`;
}

/** A part in percent. */
export function percent(value) {
  if (Number.isNaN(value)) return "\u2013";
  return `${value.toFixed(value >= 9.95 || value === 0 ? 0 : 1)}\u00a0%`;
}

/** Median delay of a path's window in milliseconds; of one that does not answer there is none. */
export const delayOf = (path) => (path.window === path.lost ? NaN : path.delay_ms);

/** Loss of a path's window in percent; before the first outcome there is none. */
export const lossOf = (path) => (path.window === 0 ? NaN : path.loss_percent);

/** Keeps the lines of `paths` in step with what was answered. `history` has the series of this file; `steers` are the rules.
 * Returns how many paths are not drawn. */
export function showPaths(place, { paths, steers, apps, history, isOld }) {
  const worst = (path) => ORDER.indexOf(path.state);
  const drawn = paths.length > MOST ? [...paths].sort((a, b) => worst(b) - worst(a)).slice(0, MOST) : paths;
  keep(place, drawn, keyOf, line, (row, path) => {
    const look = isOld ? "old" : LOOKS.get(path.state) ?? "part";
    row.className = `path ${look}`;
    setText(row.called, path.name);
    setText(row.state, isOld ? `was ${path.state}` : path.state);
    row.state.className = `badge ${isOld ? "" : look}`;
    setText(row.about, [`DSCP ${path.dscp}`, path.to && `to ${path.to}`].filter(Boolean).join(", "));
    setText(row.delay, isOld ? "\u2013" : ms(delayOf(path)));
    setText(row.loss, isOld ? "\u2013" : `${percent(lossOf(path))} lost`);
    row.delay.dataset.value = delayOf(path);
    row.loss.dataset.value = lossOf(path);
    const peak = row.draw(history.rates(pathSeries(path, "delay")), history.rates(pathSeries(path, "loss")));
    setText(row.peak, Number.isNaN(peak) ? "" : `up to ${ms(peak)}`);
    setText(row.rules, rulesOn(steers, path.name));
    showApps(row.apps, path.name, apps, history, isOld);
  });
  return paths.length - drawn.length;
}

function line() {
  const { picture, draw } = delays();
  const span = (name) => el("span", { class: name });
  const row = el("li");
  Object.assign(row, { draw, state: span("badge"), about: el("p", { class: "quiet" }), delay: span("delay"), loss: span("loss"), peak: span("peak") });
  Object.assign(row, { called: el("b"), rules: el("p", { class: "quiet" }), apps: el("ul", { class: "apps", role: "list", "aria-label": "Applications" }) });
  row.append(
    el("div", {}, row.called, " ", row.state, row.about),
    el("div", { class: "lane" }, row.delay, row.loss),
    el("div", { class: "frame" }, picture, row.peak),
    el("div", {}, row.rules, row.apps),
  );
  return row;
}

/** A graph of delays, with bars from above where probes were lost. */
function delays() {
  const { picture } = graph();
  const [line, bars] = [svg("path", { class: "line delay" }), svg("path", { class: "losses" })];
  picture.append(bars, line);
  const draw = (delay, loss) => {
    const known = delay.filter((value) => !Number.isNaN(value));
    const peak = known.length ? Math.max(...known) : NaN;
    const first = SAMPLES - delay.length + 1;
    let isGap = true;
    const points = delay.map((value, second) => {
      if (Number.isNaN(value)) {
        isGap = true;
        return "";
      }
      const move = isGap ? "M" : "L";
      isGap = false;
      return `${move}${first + second},${(39 - 30 * (peak && value / peak)).toFixed(2)}`;
    });
    line.setAttribute("d", points.join(""));
    const from = SAMPLES - loss.length + 1;
    bars.setAttribute("d", loss.map((value, second) => (value > 0 ? `M${from + second},0V${(2 + value * 0.38).toFixed(2)}` : "")).join(""));
    return peak;
  };
  return { picture, draw };
}

/** `voice: all, rest: 4 of 5`: rules whose flows take a path. */
function rulesOn(steers, name) {
  const words = steers.flatMap((rule) => {
    const sum = rule.paths.reduce((total, path) => total + path.weight, 0);
    const weight = rule.paths.find((path) => path.name === name)?.weight ?? 0;
    if (!weight) return [];
    return [weight === sum ? `${rule.rule}: all` : `${rule.rule}: ${weight} of ${sum}`];
  });
  return words.length ? `Rules ${words.join(", ")}` : "";
}

function showApps(place, path, apps, history, isOld) {
  const on = apps
    .filter((app) => Object.hasOwn(app.paths ?? {}, path))
    .map((app) => {
      const rates = history.rates(appSeries(app.name, path));
      return { name: app.name, rate: isOld ? NaN : rates.at(-1) ?? 0, lately: Math.max(0, ...rates.slice(-LINGERS)) };
    })
    .filter((app) => app.lately > 0)
    .sort((a, b) => b.lately - a.lately);
  const shown = on.slice(0, MOST_APPS);
  if (on.length > shown.length) shown.push({ name: `and ${on.length - shown.length} more`, rate: null });
  keep(place, shown, (app) => app.name, (app) => el("li", {}, el("span", {}, app.name), " ", el("span", { class: "number quiet" })), (item, app) => {
    setText(item.lastChild, app.rate === null ? "" : bits(app.rate));
  });
}
