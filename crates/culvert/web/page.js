// The page: asks every second, and shows what is answered.

import { Fault, json, takeToken } from "./ask.js";
import { Drawing, tunnelsOf } from "./drawing.js";
import { captureForm, tokenForm, whyForm } from "./forms.js";
import { appSeries, delayOf, lossOf, pathSeries, showPaths } from "./paths.js";
import { History, bits, bytes, count, graph, packets, span } from "./rates.js";
import { Table, el, keep, setText } from "./tables.js";

const INTERVAL_MS = 1000;

/** Without an answer for so long what is shown is old. */
const LATE_MS = 3000;

/** Rows of a table that are shown, and events. */
const MOST_ROWS = 100;
const MOST_EVENTS = 200;
const MOST_APPS = 20;

const byId = (id) => document.getElementById(id);
const history = new History();
const drawing = new Drawing(byId("drawing"));
const events = { after: 0, run: 0, list: [] };

/** What the process behind the page said once: see `about` of answers.rs. */
let about = null;
let isPaused = false;

/** What was answered last, and when; why nothing has been since, if that is known. */
let last = null;
let heardAt = 0;
let trouble = "";

/** Since when answers are waited for: a page that nobody sees, or that is paused, asks nothing. */
let askingSince = Date.now();

/** What is shown is as of `heardAt`, and nobody knows what is true now. */
let isOld = false;

/** The newest rate of a name; of what is old there is none. */
const now = (name) => (isOld ? NaN : history.now(name));

// ---- What is shown -------------------------------------------------------------------------------------------------

const sas = new Table(byId("sas-table"), [
  { head: "SPI", text: (sa) => sa.spi, wide: true },
  { head: "Way", text: (sa) => sa.direction ?? "" },
  { head: "From", text: (sa) => sa.src },
  { head: "To", text: (sa) => sa.dst },
  { head: "Suite", text: (sa) => (sa.weak?.length ? `${sa.suite} (weak)` : sa.suite), state: (sa) => (sa.weak?.length ? "dying" : "") },
  { head: "State", text: (sa) => (sa.placement === "kernel" ? `${sa.state}, kernel` : sa.state), state: (sa) => sa.state },
  { head: "Rate", number: true, text: (sa) => bits(now(saSeries(sa, "bytes"))) },
  { head: "Two minutes", spared: true, make: addGraph, update: (cell, sa) => cell.draw([{ name: sa.direction === "out" ? "out" : "in", rates: history.rates(saSeries(sa, "bytes")) }]) },
  { head: "Packets", number: true, text: (sa) => count(sa.packets), value: (sa) => sa.packets },
  { head: "Bytes", number: true, text: (sa) => bytes(sa.bytes), value: (sa) => sa.bytes },
  { head: "Dropped", number: true, text: (sa) => count(saDrops(sa)), value: saDrops },
  { head: "Age", number: true, text: (sa) => span(sa.age_s) },
  { head: "Rekeyed in", number: true, text: (sa) => (sa.until_rekey?.s == null ? "" : span(sa.until_rekey.s)) },
  { head: "Idle", number: true, text: (sa) => (sa.idle_s === null ? "unused" : span(sa.idle_s)) },
], (sa) => `${sa.spi} ${sa.dst} ${sa.protocol}`);

const policies = new Table(byId("policies-table"), [
  { head: "Direction", text: (policy) => policy.direction },
  { head: "Priority", number: true, text: (policy) => policy.priority },
  { head: "From", text: (policy) => policy.src },
  { head: "To", text: (policy) => policy.dst },
  { head: "Protocol", text: (policy) => policy.protocol },
  { head: "Action", text: (policy) => (policy.has_sas === false ? `${policy.action} (no SA)` : policy.action), state: (policy) => (policy.has_sas === false ? "none" : "") },
  { head: "By", text: (policy) => [...policy.templates, policy.why].filter(Boolean).join("; "), wide: true },
  { head: "Packets", number: true, text: (policy) => count(policy.packets), value: (policy) => policy.packets },
  { head: "Bytes", number: true, text: (policy) => bytes(policy.bytes), value: (policy) => policy.bytes },
], (policy) => `${policy.direction} ${policy.index}`);

const drops = new Table(byId("drops-table"), [
  { head: "Reason", text: (drop) => drop.reason, wide: true },
  { head: "Packets", number: true, text: (drop) => count(drop.packets), value: (drop) => drop.packets },
  { head: "Rate", number: true, text: (drop) => packets(now(`drop ${drop.reason}`)) },
  { head: "Linux's name", text: (drop) => drop.xfrm_stat ?? "" },
  { head: "Meaning", text: (drop) => drop.meaning, wide: true },
], (drop) => drop.reason);

const apps = new Table(byId("apps-table"), [
  { head: "Application", text: (app) => app.name, wide: true },
  { head: "Rate both ways", number: true, text: (app) => bits(now(`app ${app.name}`)) },
  { head: "Leaves by", text: (app) => pathsOf(app), wide: true },
  { head: "Flows", number: true, text: (app) => count(app.flows), value: (app) => app.flows },
  { head: "Bytes", number: true, text: (app) => bytes(app.bytes), value: (app) => app.bytes },
], (app) => app.name);

/** The paths of an application, each with its rate, the busiest first. */
function pathsOf(app) {
  const rates = Object.keys(app.paths).map((path) => [path, now(appSeries(app.name, path))]);
  const moving = rates.filter(([, rate]) => rate > 0 || Number.isNaN(rate)).sort((a, b) => b[1] - a[1]);
  return moving.map(([path, rate]) => `${path} ${bits(rate)}`).join(", ");
}

const saSeries = (sa, what) => `sa ${sa.spi} ${sa.dst} ${what}`;

function saDrops(sa) {
  return sa.late_drops + sa.duplicate_drops + sa.integrity_drops;
}

function addGraph(cell) {
  const { picture, draw } = graph();
  cell.append(picture);
  cell.draw = draw;
}

function showStatus(status) {
  setText(byId("instance"), status.name);
  document.title = `${isOld ? "(no answer) " : ""}culvert ${status.name}`;
  const workers = status.workers.length;
  setText(byId("about"), [
    `version ${status.version}`, `${isOld ? "was up" : "up"} ${span(status.uptime_s)}`,
    `${workers} ${workers === 1 ? "worker" : "workers"}`,
    `${status.ports_up} of ${status.ports} ports up`, `${count(status.memory_kib >> 10)}\u00a0MiB`,
    status.source === "kernel" ? "beside the kernel" : "",
  ].filter(Boolean).join(" \u00b7 "));
  keep(byId("warnings"), status.warnings, (warning) => warning, () => el("li"), (line, warning) => setText(line, warning));
}

const TOTALS = [
  ["Received", (stats) => stats.received],
  ["Encrypted", (stats) => stats.work.encrypted ?? 0],
  ["Decrypted", (stats) => stats.work.decrypted ?? 0],
  ["Sent", (stats) => stats.outcomes.transmitted],
  ["To Linux", (stats) => stats.outcomes["to-linux"]],
  ["Dropped", (stats) => stats.outcomes.dropped],
];

function showStats(stats) {
  const make = ([name]) => el("div", {}, el("dt", {}, name), el("dd", { class: "rate" }), el("dd", { class: "quiet" }));
  keep(byId("totals"), TOTALS, ([name]) => name, make, (tile, [name, value]) => {
    setText(tile.children[1], packets(now(`total ${name}`)));
    setText(tile.children[2], `${count(value(stats))} in all`);
    tile.dataset.value = value(stats);
  });
}

function showPorts(ports) {
  keep(byId("port-cards"), ports, (port) => port.interface, portCard, (card, port) => {
    const isUp = port.state === "up";
    setText(card.state, isOld ? `was ${port.state}` : port.state);
    card.state.className = `badge ${isOld ? "" : isUp ? "up" : "down"}`;
    const series = (what) => `port ${port.interface} ${what}`;
    const peak = card.draw(["in", "out"].map((name) => ({ name, rates: history.rates(series(name === "in" ? "rx_bytes" : "tx_bytes")) })));
    setText(card.peak, `peak ${bits(peak)}`);
    for (const [way, name] of [["rx", "in"], ["tx", "out"]]) {
      setText(card[name].rate, bits(now(series(`${way}_bytes`))));
      setText(card[name].packets, packets(now(series(`${way}_packets`))));
      setText(card[name].count, `${count(port[`${way}_packets`])} packets`);
      card[name].count.dataset.value = port[`${way}_packets`];
    }
    setText(card.passed, `${[port.kind, port.mode, `MTU ${port.mtu}`].filter(Boolean).join(", ")}; ${count(port.passed_to_linux)} left to Linux`);
  });
  keep(byId("interfaces"), ports, (port) => port.interface, (port) => el("option", { value: port.interface }), () => {});
}

function portCard(port) {
  const { picture, draw } = graph();
  const card = el("article", { class: "port" });
  Object.assign(card, { draw, state: el("span"), peak: el("span", { class: "peak" }), passed: el("p", { class: "quiet" }) });
  const lines = ["in", "out"].map((name) => {
    const cell = (kind) => el("td", { role: "cell", class: kind });
    const line = { rate: cell("number"), packets: cell("number"), count: cell("number quiet") };
    card[name] = line;
    return el("tr", { role: "row" }, el("th", { scope: "row", role: "rowheader", class: name }, name), line.rate, line.packets, line.count);
  });
  card.append(
    el("h3", {}, port.interface, " ", card.state),
    el("div", { class: "frame" }, picture, card.peak),
    el("table", { class: "plain", role: "table", "aria-label": `Rates of ${port.interface}` }, el("tbody", { role: "rowgroup" }, ...lines)),
    card.passed,
  );
  return card;
}

function showMeasured({ path, app, steer }) {
  const isAny = path.paths.length > 0 || app.applications.length > 0;
  byId("paths").hidden = !isAny;
  document.querySelector("nav [href='#paths']").parentElement.hidden = !isAny;
  const undrawn = showPaths(byId("path-lines"), { paths: path.paths, steers: steer, apps: app.applications, history, isOld });
  const more = undrawn + (path.left_out ?? 0);
  byId("paths-more").hidden = more === 0;
  setText(byId("paths-more"), `and ${count(more)} more: culvert path`);
  apps.show(app.applications.slice(0, MOST_APPS));
}

function showSas(list) {
  const wanted = byId("sas-filter").value.trim().toLowerCase();
  const fits = (sa) => `${sa.spi} ${sa.src} ${sa.dst} ${sa.suite} ${sa.mode} ${sa.state} reqid ${sa.reqid}`.toLowerCase().includes(wanted);
  const found = list.filter(fits);
  const shown = found.slice(0, MOST_ROWS);
  setText(byId("sas-count"), shown.length === list.length ? count(list.length) : `${shown.length} of ${count(list.length)}`);
  sas.show(shown);
  // Where peers of the drawing lead to.
  shown.forEach((sa, place) => {
    const line = sas.body.children[place];
    line.id = `sa-${sa.spi}`;
    line.tabIndex = -1;
  });
}

function showPolicies(list) {
  const shown = list.slice(0, MOST_ROWS);
  setText(byId("policies-count"), shown.length === list.length ? count(list.length) : `${shown.length} of ${count(list.length)}`);
  policies.show(shown);
}

function showDrops(counts) {
  const isAll = byId("drops-all").checked;
  const rows = about.reasons.map((reason) => ({ ...reason, packets: counts[reason.reason] ?? 0 })).filter((drop) => isAll || drop.packets > 0);
  // Those that go on come first. The order of the others is that of the daemon's table.
  const isGoing = (drop) => history.now(`drop ${drop.reason}`) > 0;
  if (!isAll) rows.sort((a, b) => isGoing(b) - isGoing(a) || b.packets - a.packets);
  byId("drops-none").hidden = rows.length > 0;
  drops.show(rows);
}

function showEvents() {
  keep(byId("event-list"), events.list, (event) => event.key, eventLine, () => {});
}

function eventLine(event) {
  const time = new Date(event.time_ms).toISOString();
  return el("li", {}, el("time", { datetime: time, title: time }, time.slice(11, 19)), el("b", {}, event.event), el("span", {}, eventText(event)));
}

function eventText(event) {
  switch (event.event) {
    case "sa-up": case "sa-rekeyed": case "sa-removed": case "sa-down":
      return `${event.src} > ${event.dst} SPI ${event.spi} ${event.suite}${event.why === "expired" ? ", expired" : ""}`;
    case "sa-limit": return `SPI ${event.spi}: ${event.hard ? "hard" : "soft"} limit in bytes or packets`;
    case "acquire": return `${event.src} > ${event.dst}, ${event.protocol}`;
    case "peer-moved": return `SPI ${event.spi} comes from ${event.src} port ${event.port} now`;
    case "rate-broken": return `SPI ${event.spi} to ${event.dst}: ${event.why}`;
    case "rate-restored": return `SPI ${event.spi} to ${event.dst}`;
    case "path-mtu": return `${event.mtu} bytes to ${event.dst}`;
    case "path-state": return `${event.path} (DSCP ${event.dscp}): ${event.to}, was ${event.from}`;
    case "steered": return `${event.rule}: ${event.paths?.length ? `by ${event.paths.join(", ")}` : "stopped"}`;
    case "port-up": return event.port;
    case "port-down": return `${event.port}: ${event.why}`;
    case "device-up": return event.device;
    case "device-down": return `${event.device}: ${event.why}`;
    case "drop-burst": return `${event.reason}: ${count(event.packets)} packets a second`;
    case "drop-burst-over": return `${event.reason}: ${count(event.packets)} packets in ${event.seconds} s`;
    default: return "";
  }
}

// ---- What is asked -------------------------------------------------------------------------------------------------

/** A list that is not told where it is too long: then why it is not. */
async function orFault(what, place) {
  try {
    const list = await json(what);
    setText(place, "");
    return list;
  } catch (fault) {
    if (fault.status !== 422) throw fault;
    setText(place, fault.message);
    return [];
  }
}

async function askEvents() {
  const answer = await json("events", { after: events.after, run: events.run });
  events.after = answer.last;
  events.run = answer.run;
  const fresh = answer.events.map((event) => ({ ...event, key: `${answer.run} ${event.number}` }));
  events.list = [...fresh.reverse(), ...events.list].slice(0, MOST_EVENTS);
}

function remember(at, seen) {
  for (const [name, value] of TOTALS) history.add(`total ${name}`, at, value(seen.stats));
  for (const port of seen.ports) {
    for (const what of ["rx_bytes", "tx_bytes", "rx_packets", "tx_packets"]) history.add(`port ${port.interface} ${what}`, at, port[what]);
  }
  for (const sa of seen.sas) history.add(saSeries(sa, "bytes"), at, sa.bytes);
  for (const [reason, value] of Object.entries(seen.drops.drops)) history.add(`drop ${reason}`, at, value);
  for (const path of seen.path.paths) {
    history.put(pathSeries(path, "delay"), at, delayOf(path));
    history.put(pathSeries(path, "loss"), at, lossOf(path));
  }
  for (const app of seen.app.applications) {
    history.add(`app ${app.name}`, at, app.bytes);
    for (const [path, on] of Object.entries(app.paths)) history.add(appSeries(app.name, path), at, on.bytes);
  }
  history.forget(at - 60);
}

function show(seen) {
  showStatus(seen.status);
  showStats(seen.stats);
  showMeasured(seen);
  showPorts(seen.ports);
  showSas(seen.sas);
  showPolicies(seen.policies);
  showDrops(seen.drops.drops);
  showEvents();
  const rate = (sa) => now(saSeries(sa, "bytes"));
  drawing.show({ name: seen.status.name, ports: seen.ports, tunnels: tunnelsOf(seen.sas, seen.policies), rate, isOld });
}

/** The time of day in UTC. */
const timeOf = (ms) => `${new Date(ms).toISOString().slice(11, 19)}\u00a0UTC`;

/** Says how old what is shown is, once there is no answer: also where nobody says no, as of a daemon that hangs. */
function tellAge() {
  if ((isPaused && !isOld) || !byId("token").hidden || document.hidden) return;
  const silent = Date.now() - Math.max(heardAt, askingSince);
  if (!trouble && (!last || silent < LATE_MS)) return;
  if (!isOld && last) {
    isOld = true;
    document.body.classList.add("old");
    show(last);
  }
  say("no answer", "down");
  const age = last ? `As of ${timeOf(heardAt)}, no answer for ${span(silent / 1000)}: ` : "";
  setText(byId("old"), `${age}${trouble || "the gateway is busy, or cannot be reached"}`);
  byId("old").hidden = false;
}

/** What is shown is as of now. */
function tellFresh() {
  trouble = "";
  heardAt = Date.now();
  isOld = false;
  document.body.classList.remove("old");
  byId("old").hidden = true;
  show(last);
  tellPause();
}

function tellPause() {
  if (isPaused) say(`paused at ${timeOf(heardAt)}`, "");
  else say("live", "up");
}

let looking = null;

/** Asks everything once, after what is under way; returns what is wrong, if something is. */
async function look() {
  while (looking) await looking.catch(() => {});
  looking = lookOnce();
  try {
    return await looking;
  } finally {
    looking = null;
  }
}

async function lookOnce() {
  try {
    about ??= await begin();
    const [status, stats, ports, drops, path, app, steer, sas, policies] = await Promise.all([
      json("status"), json("stats"), json("port"), json("drops"), json("path"), json("app"), json("steer"),
      orFault("sa", byId("sas-fault")), orFault("policy", byId("policies-fault")), askEvents(),
    ]);
    last = { status, stats, ports, drops, path, app, steer, sas, policies };
    remember(performance.now() / 1000, last);
    reveal(true);
    tellFresh();
    return null;
  } catch (fault) {
    if (!(fault instanceof Fault)) throw fault;
    const isToken = fault.status === 401;
    reveal(!isToken && last !== null);
    byId("token").hidden = !isToken;
    if (isToken) {
      byId("old").hidden = true;
      say("needs its token", "down");
    } else {
      trouble = fault.message.split("\n")[0];
      tellAge();
    }
    return fault.message;
  }
}

async function begin() {
  const answer = await json("about");
  captureForm(answer.capture);
  byId("token").hidden = true;
  return answer;
}

function reveal(isOpen) {
  byId("all").hidden = !isOpen;
  byId("pause").hidden = !isOpen;
  document.querySelector("nav").hidden = !isOpen;
}

function say(text, state) {
  const place = byId("state");
  setText(place, text);
  place.className = `badge ${state}`;
}

async function run() {
  // A page that nobody sees asks nothing.
  try {
    if (!isPaused && !document.hidden && byId("token").hidden) await look();
  } finally {
    setTimeout(run, INTERVAL_MS);
  }
}

byId("pause").addEventListener("click", () => {
  isPaused = !isPaused;
  byId("pause").setAttribute("aria-pressed", isPaused);
  askingSince = Date.now();
  if (!isOld) tellPause();
});
document.addEventListener("visibilitychange", () => {
  askingSince = Date.now();
  if (!document.hidden && !isPaused && byId("token").hidden) look();
});
byId("sas-filter").addEventListener("input", () => last && showSas(last.sas));
byId("drops-all").addEventListener("input", () => last && showDrops(last.drops.drops));
window.addEventListener("hashchange", () => {
  const isToken = location.hash.length > 32;
  takeToken();
  if (isToken) look();
});
whyForm();
tokenForm(look);
takeToken();
run();
setInterval(tellAge, INTERVAL_MS / 2);
