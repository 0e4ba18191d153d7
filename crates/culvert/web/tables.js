// Elements, and tables whose rows stay the same elements while their numbers change: what has the keyboard's focus or is
// selected keeps it.

/** An element with attributes and children. */
export function el(name, attributes = {}, ...children) {
  return filled(document.createElement(name), attributes, children);
}

/** The same of a drawing. */
export function svg(name, attributes = {}, ...children) {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
}

function filled(element, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

/** Sets what changed, and leaves alone what did not. */
export function setText(element, text) {
  if (element.textContent !== String(text)) element.textContent = text;
}

/** Keeps a list of children in step with a list of things, which `key` tells apart. */
export function keep(parent, things, key, make, update) {
  const have = new Map([...parent.children].map((child) => [child.dataset.key, child]));
  let place = null;
  for (const thing of things) {
    const name = String(key(thing));
    let child = have.get(name);
    have.delete(name);
    if (!child) {
      child = make(thing);
      child.dataset.key = name;
    }
    const next = place ? place.nextSibling : parent.firstChild;
    if (next !== child) parent.insertBefore(child, next);
    place = child;
    update(child, thing);
  }
  for (const gone of have.values()) gone.remove();
}

/** How a table may stand in its room, the widest first: with all its columns, without those that can be `spared`, and
 * with a card for each row, which has all of them. */
const FITS = ["all", "spared", "cards"];

/** A table. Each column has a `head`, and either a `text` of a row, or `make` and `update` of a cell. `number` columns
 * stand to the right; `value` is the number itself, for who reads the page by program.
 *
 * Roles are said because the style sheet makes rows of cards where there is little room, and a browser then forgets
 * that it is a table. */
export class Table {
  /** What the table was made to fit: room and rows. */
  #fitted = "";

  constructor(table, columns, key) {
    this.columns = columns;
    this.key = key;
    table.setAttribute("role", "table");
    const heads = columns.map((column) => el("th", { scope: "col", role: "columnheader", class: classOf(column) }, column.head));
    this.body = el("tbody", { role: "rowgroup" });
    table.append(el("thead", { role: "rowgroup" }, el("tr", { role: "row" }, ...heads)), this.body);
    this.table = table;
    // In the next frame: what is changed while sizes are told would be told in the same one.
    new ResizeObserver(() => requestAnimationFrame(() => this.#fit())).observe(table.parentElement);
  }

  show(rows) {
    this.table.hidden = rows.length === 0;
    keep(this.body, rows, this.key, () => this.#row(), (line, row) => this.#update(line, row));
    this.#fit();
  }

  /** Finds the widest way of standing for which there is room. A way once left is tried again when room or rows are others. */
  #fit() {
    if (this.table.hidden) return;
    const room = this.table.parentElement.clientWidth;
    const fitted = `${room} ${[...this.body.children].map((line) => line.dataset.key).join()}`;
    const top = scrollY;
    let way = fitted === this.#fitted ? FITS.indexOf(this.table.dataset.fit) : 0;
    this.#fitted = fitted;
    this.table.dataset.fit = FITS[way];
    while (way < FITS.length - 1 && this.table.offsetWidth > room) this.table.dataset.fit = FITS[++way];
    // What was tried meanwhile may have been shorter than what has been scrolled by.
    if (scrollY !== top) scrollTo(scrollX, top);
  }

  #row() {
    const cells = this.columns.map((column) => {
      const cell = el("td", { role: "cell", class: classOf(column) });
      cell.dataset.head = column.head;
      if (column.make) column.make(cell);
      return cell;
    });
    return el("tr", { role: "row" }, ...cells);
  }

  #update(line, row) {
    this.columns.forEach(({ text, value, update, state }, place) => {
      const cell = line.children[place];
      if (update) update(cell, row);
      else setText(cell, text(row));
      if (value) cell.dataset.value = value(row);
      if (state) cell.dataset.state = state(row);
    });
  }
}

function classOf({ number, wide, spared }) {
  return [number && "number", wide && "wide", spared && "spared"].filter(Boolean).join(" ");
}
