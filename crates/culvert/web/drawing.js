// The tunnels as a drawing: the gateway with its ports, its peers, and the networks on both sides.

import { setText, svg } from "./tables.js";
import { bits } from "./rates.js";

/** Tunnels that are drawn; of more those with most traffic. */
const MOST = 12;

/** Below this width everything stands under the gateway. */
const NARROW = 760;

const TEMPLATE = /^tunnel (\S+) - (\S+) reqid (\d+)$/;

/** The tunnels: one for each pair of ends, with the networks that outbound policies protect by it, and its SAs. */
export function tunnelsOf(sas, policies) {
  const tunnels = new Map();
  const of = (local, remote) => {
    const key = `${local} ${remote}`;
    if (!tunnels.has(key)) tunnels.set(key, { key, local, remote, near: [], far: [], out: [], in: [], lacks: false });
    return tunnels.get(key);
  };
  const put = (list, network) => list.includes(network) || list.push(network);
  for (const policy of policies) {
    if (policy.direction !== "out" || policy.templates.length === 0) continue;
    const [, local, remote] = TEMPLATE.exec(policy.templates.at(-1)) ?? [null, policy.src, policy.dst];
    const tunnel = of(local.replace(/\/(32|128)$/, ""), remote.replace(/\/(32|128)$/, ""));
    put(tunnel.near, policy.src);
    put(tunnel.far, policy.dst);
    tunnel.lacks ||= policy.has_sas === false;
  }
  for (const sa of sas) {
    const outbound = tunnels.get(`${sa.src} ${sa.dst}`);
    const inbound = tunnels.get(`${sa.dst} ${sa.src}`);
    if (inbound && !outbound) inbound.in.push(sa);
    else if (outbound) outbound.out.push(sa);
    // No policy names its ends.
    else if (sa.direction ? sa.direction === "out" : sa.sent_seq > 0) of(sa.src, sa.dst).out.push(sa);
    else of(sa.dst, sa.src).in.push(sa);
  }
  return [...tunnels.values()];
}

/** A tunnel's state, as a class and in words. */
export function stateOf(tunnel) {
  const all = [...tunnel.out, ...tunnel.in];
  if (tunnel.out.length === 0 && tunnel.in.length === 0) return ["down", "no SA"];
  if (tunnel.out.length === 0 || tunnel.in.length === 0) return ["part", "one direction alone"];
  if (all.every((sa) => sa.state === "expired")) return ["down", "expired"];
  if (tunnel.lacks) return ["part", "a policy has no SA"];
  return ["up", "up"];
}

/** The state of a tunnel as it is shown: of one that was seen some time ago nobody knows. */
function shownState(tunnel, isOld) {
  const [state, words] = stateOf(tunnel);
  return isOld ? ["old", `was ${words}`] : [state, words];
}

export class Drawing {
  #place;
  #width = 0;
  #last = null;

  constructor(place) {
    this.#place = place;
    new ResizeObserver(([{ contentRect }]) => {
      this.#width = Math.floor(contentRect.width);
      // In the next frame, as a drawing of another height is another size.
      if (this.#last) requestAnimationFrame(() => this.show(this.#last));
    }).observe(place);
  }

  /** Draws `{ name, ports, tunnels, rate, isOld }`; `rate` gives an SA's bytes a second. */
  show(what) {
    this.#last = what;
    if (!this.#width) return;
    const weight = (tunnel) => [...tunnel.out, ...tunnel.in].reduce((sum, sa) => sum + sa.bytes, 0);
    let drawn = what.tunnels;
    if (drawn.length > MOST) drawn = [...drawn].sort((a, b) => weight(b) - weight(a)).slice(0, MOST);
    const rows = drawn.map((tunnel) => row(tunnel, what.rate, what.isOld));
    const more = what.tunnels.length - drawn.length;
    const plan = (this.#width < NARROW ? narrow : wide)(this.#width, what, rows, more);
    // Everything but rates is the structure: as long as it is the same, the elements stay.
    if (this.#place.dataset.plan !== plan.key) {
      this.#place.dataset.plan = plan.key;
      this.#place.replaceChildren(plan.draw());
    }
    for (const { tunnel, up, down } of rows) {
      for (const [name, text] of [["up", up], ["down", down]]) {
        const label = this.#place.querySelector(`[data-rate="${CSS.escape(`${name} ${tunnel.key}`)}"]`);
        if (label) setText(label, text);
      }
    }
  }
}

function row(tunnel, rate, isOld) {
  const sum = (sas) => sas.reduce((total, sa) => total + rate(sa), isOld ? NaN : 0);
  const [state, words] = shownState(tunnel, isOld);
  const sa = tunnel.out.at(-1) ?? tunnel.in.at(-1);
  const how = sa
    ? [sa.suite, sa.mode !== "tunnel" && sa.mode, sa.encap && `UDP ${sa.encap[1]}`, sa.placement === "kernel" && "in the kernel"]
    : [];
  return {
    tunnel, state, words,
    how: how.filter(Boolean).join(", "),
    sa: sa?.spi,
    up: `\u2192\u2009${bits(sum(tunnel.out))}`,
    down: `\u2190\u2009${bits(sum(tunnel.in))}`,
  };
}

/** Cut to a width in pixels, of letters that are all as wide. */
function cut(text, width) {
  const most = Math.max(4, Math.floor(width / LETTER));
  return text.length > most ? `${text.slice(0, most - 1)}\u2026` : text;
}

/** Width of a letter of the drawing, 12.5 pixels of a monospaced font, and the distance of lines. */
const LETTER = 7.6;
const LINE = 18;

const text = (x, y, content, name = "", attributes = {}) => svg("text", { x, y, class: name, ...attributes }, content);
const box = (x, y, width, height, name = "") => svg("rect", { x, y, width, height, rx: 8, class: `box ${name}` });

/** Lines of a list, the last of which says how many more there are. */
function lines(list, most) {
  return list.length <= most ? list : [...list.slice(0, most - 1), `and ${list.length - most + 1} more`];
}

function list(x, y, width, entries) {
  return entries.map((entry, place) =>
    svg("g", {}, svg("title", {}, entry), text(x, y + place * LINE, cut(entry, width), "mono")));
}

function rateLabel(x, y, name, tunnel, attributes = {}) {
  return text(x, y, "", `rate ${name === "up" ? "out" : "in"}`, { "data-rate": `${name} ${tunnel.key}`, ...attributes });
}

/** A peer leads to its SA in the table below. */
function peer(row, x, y, width, height, content) {
  const says = `${row.tunnel.remote}: ${row.words}${row.how && `, ${row.how}`}`;
  const outline = box(x, y, width, height, `peer ${row.state}`);
  outline.append(svg("title", {}, says));
  return svg("a", { href: row.sa ? `#sa-${row.sa}` : "#policies" }, outline, ...content);
}

function structure(width, what, rows, more) {
  const seen = rows.map(({ tunnel, state, words, how, sa }) => [tunnel.key, tunnel.near, tunnel.far, state, words, how, sa]);
  const ports = what.ports.map((port) => [port.interface, port.state]);
  return JSON.stringify([width, what.name, what.isOld, ports, seen, more]);
}

function frame(width, height, shapes) {
  const label = "Tunnels of this gateway: each peer is a link to its security association";
  return svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "group", "aria-label": label }, ...shapes);
}

function portLines(x, y, { ports, isOld }, most) {
  return lines(ports, most).flatMap((port, place) => {
    const at = y + place * LINE;
    if (typeof port === "string") return [text(x, at, port, "quiet")];
    const isUp = port.state === "up";
    return [
      svg("circle", { cx: x + 4, cy: at - 4, r: 4, class: `dot ${isOld ? "old" : isUp ? "up" : "down"}` }),
      text(x + 16, at, isUp ? port.interface : `${port.interface} ${port.state.split(/[ :]/)[0]}`, "mono"),
    ];
  });
}

/** Networks on the left, then the gateway, and a row for each peer with the networks behind it. */
function wide(width, what, rows, more) {
  const side = Math.min(190, Math.floor(width * 0.17));
  const gateway = { x: side + 48, width: 150 };
  const far = { x: width - side, width: side };
  const peers = { x: far.x - 40 - 200, width: 200 };
  const near = [...new Set(rows.flatMap(({ tunnel }) => tunnel.near))];
  const heights = rows.map(({ tunnel }) => Math.max(84, 36 + LINE * Math.min(tunnel.far.length, 4)));
  const ports = lines(what.ports, 6);
  const least = Math.max(64 + LINE * ports.length, 36 + LINE * Math.min(near.length, 12), 84);
  const total = Math.max(heights.reduce((sum, height) => sum + height, 0), least);
  const height = total + (more ? 26 : 0);
  const draw = () => {
    const shapes = [];
    if (near.length) {
      const entries = lines(near, 12);
      const tall = 24 + LINE * entries.length;
      const y = (total - tall) / 2;
      shapes.push(svg("path", { class: "wire", d: `M${side},${total / 2}H${gateway.x}` }), box(0, y, side, tall), ...list(12, y + 25, side - 24, entries));
    }
    shapes.push(box(gateway.x, 6, gateway.width, total - 12, "self"));
    shapes.push(text(gateway.x + 14, 32, cut(what.name, gateway.width - 28), "name"), ...portLines(gateway.x + 14, 60, what, 6));
    let y = rows.length ? (total - heights.reduce((sum, height) => sum + height, 0)) / 2 : 0;
    rows.forEach((row, place) => {
      const middle = y + heights[place] / 2;
      const from = gateway.x + gateway.width;
      const centre = (from + peers.x) / 2;
      shapes.push(svg("path", { class: `tunnel ${row.state}`, d: `M${from},${middle}H${peers.x}` }));
      const anchor = { "text-anchor": "middle" };
      if (row.state === "down") shapes.push(text(centre, middle - 9, row.words, "state down", anchor));
      else {
        shapes.push(rateLabel(centre, middle - 10, "up", row.tunnel, anchor), rateLabel(centre, middle + 21, "down", row.tunnel, anchor));
      }
      const inside = [text(peers.x + 12, middle - 4, cut(row.tunnel.remote, peers.width - 24), "mono strong")];
      inside.push(text(peers.x + 12, middle + 15, cut(row.state === "up" ? row.how : row.words, peers.width - 24), "quiet"));
      shapes.push(peer(row, peers.x, middle - 30, peers.width, 60, inside));
      if (row.tunnel.far.length) {
        const entries = lines(row.tunnel.far, 4);
        const tall = 22 + LINE * entries.length;
        shapes.push(svg("path", { class: "wire", d: `M${peers.x + peers.width},${middle}H${far.x}` }));
        shapes.push(box(far.x, middle - tall / 2, side, tall), ...list(far.x + 12, middle - tall / 2 + 24, side - 24, entries));
      }
      y += heights[place];
    });
    if (rows.length === 0) shapes.push(text(gateway.x + gateway.width + 32, total / 2 + 4, "no tunnels yet", "quiet"));
    if (more) shapes.push(text(peers.x, height - 8, `and ${more} more, in the table below`, "quiet"));
    return frame(width, height, shapes);
  };
  return { key: structure(width, what, rows, more), draw };
}

/** The gateway above, and everything under it. */
function narrow(width, what, rows, more) {
  const left = 32;
  const ports = lines(what.ports, 6);
  const top = 46 + LINE * ports.length;
  const networks = (tunnel) => lines(tunnel.near.map((near, place) => `${near} \u21c4 ${tunnel.far[place] ?? tunnel.far[0]}`), 3);
  const heights = rows.map(({ tunnel, state }) => (state === "down" ? 55 : 78) + LINE * networks(tunnel).length);
  const total = top + heights.reduce((sum, height) => sum + height + 14, 0) + (more || !rows.length ? 34 : 2);
  const draw = () => {
    const shapes = [box(1, 1, width - 2, top - 2, "self"), text(15, 26, cut(what.name, width - 30), "name"), ...portLines(15, 50, what, 6)];
    let y = top + 14;
    rows.forEach((row, place) => {
      const inner = width - left - 26;
      const middle = y + heights[place] / 2;
      const from = place === 0 ? top - 2 : y - heights[place - 1] / 2 - 14;
      shapes.push(svg("path", { class: "wire", d: `M14,${from}V${middle}` }));
      shapes.push(svg("path", { class: `tunnel ${row.state}`, d: `M14,${middle}H${left}` }));
      const x = left + 13;
      const inside = [
        text(x, y + 23, cut(row.tunnel.remote, inner), "mono strong"),
        text(x, y + 42, cut(row.state === "up" ? row.how : row.words, inner), row.state === "up" ? "quiet" : `state ${row.state}`),
        ...list(x, y + 62, inner, networks(row.tunnel)),
      ];
      const base = y + heights[place] - 13;
      if (row.state !== "down") inside.push(rateLabel(x, base, "up", row.tunnel), rateLabel(x + inner / 2, base, "down", row.tunnel));
      shapes.push(peer(row, left, y, width - left - 1, heights[place], inside));
      y += heights[place] + 14;
    });
    if (rows.length === 0) shapes.push(text(14, y + 6, "no tunnels yet", "quiet"));
    if (more) shapes.push(text(left, y + 6, `and ${more} more, in the table below`, "quiet"));
    return frame(width, total, shapes);
  };
  return { key: structure(width, what, rows, more), draw };
}
