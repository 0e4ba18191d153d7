// What people fill in: a packet for `why`, a capture, the token.

import { ask, json, keepToken } from "./ask.js";
import { bytes } from "./rates.js";
import { el } from "./tables.js";

/** What was filled in, by name. */
function parameters(form) {
  return Object.fromEntries([...new FormData(form)].filter(([, value]) => value !== ""));
}

/** What a field is called. */
function nameOf(field) {
  return field.closest("label").firstChild.textContent.trim();
}

/** Says in `place` what is wrong, in the words of the form, and marks the field that is. */
function showFault(form, place, fault) {
  const field = fault.field && form.elements[fault.field];
  // What the daemon refuses it says in the words of the command line.
  const text = fault.message.replace(/--([a-z]+)/g, (all, name) => {
    const other = form.elements[name];
    return other ? `\u201c${nameOf(other)}\u201d` : all;
  });
  const isUnread = field?.dataset.wants && fault.status === 400;
  place.className = "fault";
  place.textContent = isUnread ? `${nameOf(field)}: ${field.dataset.wants}.` : field ? `${nameOf(field)}: ${text}` : text;
  if (!field) return;
  field.setAttribute("aria-invalid", "true");
  field.setAttribute("aria-describedby", place.id);
  field.closest("details")?.setAttribute("open", "");
  field.addEventListener("input", () => unmark(field), { once: true });
  return field;
}

function unmark(field) {
  field.removeAttribute("aria-invalid");
  field.removeAttribute("aria-describedby");
}

/** Calls back instead of leaving the page; the button rests meanwhile. What is returned gets the focus. */
function onSubmit(form, callback) {
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const button = form.querySelector("button");
    button.disabled = true;
    [...form.elements].forEach(unmark);
    const next = await callback(parameters(form));
    button.disabled = false;
    (next ?? button).focus();
  });
}

/** What becomes of a packet, as good, bad or neither. */
const FATES = {
  protected: "good", opened: "good", forwarded: "good", "to-linux": "good",
  dropped: "bad", answered: "bad", "waits-for-sa": "part", "waits-for-fragments": "part", consumed: "part",
};

export function whyForm() {
  const answer = document.getElementById("why-answer");
  const form = document.getElementById("why-form");
  onSubmit(form, async (packet) => {
    try {
      answer.replaceChildren(...explained(await json("why", packet)));
    } catch (fault) {
      const place = el("p", { id: "why-fault" });
      answer.replaceChildren(place);
      return showFault(form, place, fault);
    }
  });
}

function explained(why) {
  const steps = why.steps.flatMap(({ question, answer }) => [el("dt", {}, question), el("dd", {}, answer)]);
  const hints = why.hints.map((hint) => el("li", {}, hint));
  return [
    el("p", { class: `verdict ${FATES[why.fate] ?? "part"}` }, why.verdict),
    el("p", { class: "quiet" }, `${why.packet}, ${why.came}`),
    el("dl", { class: "steps" }, ...steps),
    ...(hints.length ? [el("h3", {}, "What would change it"), el("ul", {}, ...hints)] : []),
  ];
}

/** `bounds` are the most seconds and packets, or null where captures are off. */
export function captureForm(bounds) {
  const form = document.getElementById("capture-form");
  form.hidden = !bounds;
  document.getElementById("capture-off").hidden = Boolean(bounds);
  if (!bounds) return;
  form.elements.duration.max = bounds.seconds;
  form.elements.count.max = bounds.packets;
  const said = document.getElementById("capture-said");
  onSubmit(form, async (wanted) => {
    said.className = "";
    said.textContent = `Capturing for ${wanted.duration} s at most \u2026`;
    try {
      const response = await ask("capture", wanted);
      const file = await response.blob();
      download(file, `culvert-${new Date().toISOString().slice(0, 19).replaceAll(":", "")}.pcapng`);
      said.textContent = `Done: ${bytes(file.size)}.`;
    } catch (fault) {
      return showFault(form, said, fault);
    }
  });
}

function download(file, name) {
  const link = el("a", { href: URL.createObjectURL(file), download: name });
  link.click();
  // The browser has begun to read it by then.
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

/** Asks for a token; `opened` is called with each that is given, and says whether it is right. */
export function tokenForm(opened) {
  const form = document.getElementById("token");
  onSubmit(form, async ({ token }) => {
    keepToken(token.trim());
    const fault = await opened();
    form.querySelector(".fault").textContent = fault ?? "";
  });
}
