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

/** A table. Each column has a `head`, and either a `text` of a row, or `make` and `update` of a cell. `number` columns
 * stand to the right; `value` is the number itself, for who reads the page by program.
 *
 * Roles are said because the style sheet makes rows of cards where there is little room, and a browser then forgets
 * that it is a table. */
export class Table {
  constructor(table, columns, key) {
    this.columns = columns;
    this.key = key;
    table.setAttribute("role", "table");
    const heads = columns.map(({ head, number }) =>
      el("th", { scope: "col", role: "columnheader", class: number ? "number" : "" }, head));
    this.body = el("tbody", { role: "rowgroup" });
    table.append(el("thead", { role: "rowgroup" }, el("tr", { role: "row" }, ...heads)), this.body);
    this.table = table;
  }

  show(rows) {
    this.table.hidden = rows.length === 0;
    keep(this.body, rows, this.key, () => this.#row(), (line, row) => this.#update(line, row));
  }

  #row() {
    const cells = this.columns.map(({ head, number, wide, make }) => {
      const cell = el("td", { role: "cell", class: [number && "number", wide && "wide"].filter(Boolean).join(" ") });
      cell.dataset.head = head;
      if (make) make(cell);
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
