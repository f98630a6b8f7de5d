/** Small parts of the page: elements, the table of the plan, the curve, how likely each answer was. */

const SVG = "http://www.w3.org/2000/svg";

/** An element with attributes and children; text is always text. */
export function make(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

function draw(name, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, name), attributes, children);
}

function fill(element, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "click") element.addEventListener("click", value);
    else element.setAttribute(key, value);
  }
  element.append(...children);
  return element;
}

export const button = (text, click, kind = "") => make("button", { type: "button", class: kind, click }, text);

/** A table from a caption, names of columns and rows whose first entry is their name. */
export function table(caption, columns, rows, rowClass = () => "", cellClass = () => "") {
  const head = make("tr", {}, ...columns.map((name) => make("th", { scope: "col" }, name)));
  const body = rows.map((row, i) =>
    make("tr", { class: rowClass(i) }, ...row.map((text, j) => (j ? make("td", { class: cellClass(i, j) }, text) : make("th", { scope: "row" }, text)))),
  );
  return make("table", {}, make("caption", {}, caption), make("thead", {}, head), make("tbody", {}, ...body));
}

/** What the plans were worth, as a line over people, below the best one. */
export function curve({ curve: points, best, people }) {
  const [width, height, left, bottom] = [360, 150, 30, 22];
  const most = Math.max(6, best);
  const x = (n) => left + ((width - left - 6) * n) / Math.max(people, 1);
  const y = (value) => 8 + (height - bottom - 8) * (1 - value / most);
  const line = points.map(([n, value], i) => `${i ? "L" : "M"}${x(n).toFixed(1)} ${y(value).toFixed(1)}`).join("");
  const words = points.length
    ? `Suggestions that people follow in a day: ${points[0][1].toFixed(1)} at first, ${points.at(-1)[1].toFixed(1)} now, at best ${best.toFixed(1)}.`
    : "Nobody has taken part yet.";
  return draw(
    "svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": words },
    ...[0, 3, 6].flatMap((value) => [
      draw("line", { class: "axis", x1: left, x2: width, y1: y(value), y2: y(value) }),
      draw("text", { x: left - 8, y: y(value) + 4, "text-anchor": "end" }, String(value)),
    ]),
    draw("line", { class: "best", x1: left, x2: width, y1: y(best), y2: y(best) }),
    draw("text", { x: width, y: y(best) - 5, "text-anchor": "end" }, "the best plan"),
    draw("text", { x: width, y: height - 5, "text-anchor": "end" }, `${people.toLocaleString("en")} people`),
    draw("text", { x: left, y: height - 5 }, "first"),
    draw("path", { class: "line", d: line }),
  );
}

/** How likely each answer was: a bar for each, the true one and the one that is sent marked. */
export function bars(answers, largest) {
  return make("ol", { class: "bars" }, ...answers.map(({ words, chance, isTrue, isSent }) => {
    const mark = [isTrue ? "what happened" : "", isSent ? "what is sent" : ""].filter(Boolean).join(", ");
    const text = make("span", {}, words, ...(mark ? [" ", make("b", {}, `← ${mark}`)] : []));
    const bar = draw("svg", { viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true" }, draw("rect", { width: (100 * chance) / largest, height: 10 }));
    return make("li", { class: `${isTrue ? "true " : ""}${isSent ? "sent" : ""}` }, text, bar, make("span", {}, percent(chance)));
  }));
}

export function percent(chance) {
  return `${(100 * chance).toFixed(chance < 0.1 ? 1 : 0)}%`;
}
