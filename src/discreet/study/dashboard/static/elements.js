// Elements of a page, made without markup: whatever a study is called stays text.

/** An element with properties and children; children are elements or text. */
export function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value !== undefined && value !== null) element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

/** Somebody else's words, in a direction of their own. */
export const words = (text) => make("bdi", {}, text);

export const byId = (id) => document.getElementById(id);

/** Write text only where it differs: screen readers and selections are left alone otherwise. */
export function say(id, text) {
  const element = byId(id);
  if (element.textContent !== text) element.textContent = text;
}

export const whole = (number) => number.toLocaleString("en");

/** A time of the service, to the second. */
export const clock = (time) => (time ? `${time.slice(11, 19)} UTC` : "");
export const moment = (time) => (time ? `${time.slice(0, 10)} ${time.slice(11, 16)} UTC` : "");

/**
 * A table that is made once and filled again and again, so that it keeps its place when it is scrolled.
 * `columns` are texts; a row is a list of texts or elements whose first names the row.
 */
export class Table {
  constructor(home, caption, columns, kind = "plain") {
    this.body = make("tbody");
    this.caption = make("span", {}, caption);
    this.head = make("tr");
    this.region = make(
      "div",
      { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
      make("table", { class: kind }, make("caption", {}, this.caption), make("thead", {}, this.head), this.body),
    );
    this.setColumns(columns);
    home.replaceChildren(this.region);
  }

  setColumns(columns) {
    this.head.replaceChildren(...columns.map((name) => make("th", { scope: "col" }, name)));
  }

  name(caption) {
    this.caption.textContent = caption;
    this.region.setAttribute("aria-label", caption);
  }

  fill(rows) {
    this.body.replaceChildren(
      ...rows.map((row) =>
        make("tr", {}, ...row.map((cell, column) => asCell(cell, column))),
      ),
    );
  }
}

function asCell(cell, column) {
  if (column === 0) return make("th", { scope: "row" }, cell);
  return cell instanceof HTMLTableCellElement ? cell : make("td", {}, cell);
}

/** A table that shows its newest rows, and more when asked. */
export class Listing {
  constructor(home, caption, columns, atOnce = 12) {
    const place = make("div");
    this.button = make("button", { type: "button", class: "more", hidden: "" }, "Show more");
    home.replaceChildren(place, this.button);
    this.table = new Table(place, caption, columns);
    [this.shown, this.rows] = [atOnce, []];
    this.button.addEventListener("click", () => {
      this.shown += 100;
      this.draw();
    });
  }

  /** `rows` are functions that make a row, newest first: only those that are seen are made. */
  fill(rows) {
    this.rows = rows;
    this.draw();
  }

  draw() {
    this.table.fill(this.rows.slice(0, this.shown).map((row) => row()));
    const left = this.rows.length - this.shown;
    this.button.hidden = left <= 0;
    if (left > 0) this.button.textContent = `Show more (${whole(left)} left)`;
  }
}
