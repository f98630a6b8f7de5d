// Small pictures, drawn as wide as their place, with a sentence that says what they show.

const SVG = "http://www.w3.org/2000/svg";
const HEIGHT = 150;
const MARGIN = { left: 46, right: 12, top: 10, bottom: 24 };

function draw(tag, properties, text) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(properties)) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

/** A chart in a place; drawn again when the place changes its width. */
export class Chart {
  constructor(place, plot) {
    [this.place, this.plot, this.content] = [place, plot, null];
    new ResizeObserver(() => this.draw()).observe(place);
  }

  show(content) {
    this.content = content;
    this.draw();
  }

  draw() {
    const width = Math.floor(this.place.clientWidth);
    if (!this.content || width < 50) return;
    const picture = draw("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, width, height: HEIGHT, role: "img", "aria-label": this.content.says });
    this.plot(picture, this.content, width);
    this.place.replaceChildren(picture);
  }
}

function axes(picture, width, top, format, labels) {
  const bottom = HEIGHT - MARGIN.bottom;
  for (const share of [0, 0.5, 1]) {
    const y = bottom - share * (bottom - MARGIN.top);
    picture.append(draw("line", { class: "grid", x1: MARGIN.left, x2: width - MARGIN.right, y1: y, y2: y }));
    picture.append(draw("text", { x: MARGIN.left - 6, y: y + 4, "text-anchor": "end" }, format(share * top)));
  }
  const ends = [["start", MARGIN.left], ["end", width - MARGIN.right]];
  ends.forEach(([anchor, x], index) =>
    picture.append(draw("text", { x, y: HEIGHT - 6, "text-anchor": anchor }, labels[index])),
  );
}

/** Bars, one for each number: {values, labels: [left, right], says}. */
export function bars(picture, { values, labels }, width) {
  const top = 2 * Math.ceil(Math.max(2, ...values) / 2); // even, so that the line halfway is a whole number, too
  axes(picture, width, top, String, labels);
  const [wide, high] = [width - MARGIN.left - MARGIN.right, HEIGHT - MARGIN.top - MARGIN.bottom];
  values.forEach((value, index) => {
    const height = (value / top) * high;
    picture.append(
      draw("rect", {
        class: "bar",
        x: (MARGIN.left + (index * wide) / values.length).toFixed(1),
        y: (HEIGHT - MARGIN.bottom - height).toFixed(1),
        width: Math.max(1, wide / values.length - 1).toFixed(1),
        height: height.toFixed(1),
      }),
    );
  });
}

/** Steps from one number to the next: {values, labels: [left, right], says}. */
export function steps(picture, { values, labels }, width) {
  const top = values.reduce((most, value) => Math.max(most, value), 1e-9); // there may be too many to be arguments
  axes(picture, width, top, (value) => (value ? value.toPrecision(2) : "0"), labels);
  const [wide, high] = [width - MARGIN.left - MARGIN.right, HEIGHT - MARGIN.top - MARGIN.bottom];
  const every = Math.max(1, Math.ceil(values.length / wide));
  const kept = values.map((value, index) => [index, value]).filter(([index]) => index % every === 0 || index === values.length - 1);
  const at = ([index, value]) => [
    MARGIN.left + (index / values.length) * wide,
    HEIGHT - MARGIN.bottom - (value / top) * high,
  ];
  let path = "";
  for (const point of kept) {
    const [x, y] = at(point);
    path += path ? `H${x.toFixed(1)}V${y.toFixed(1)}` : `M${x.toFixed(1)} ${y.toFixed(1)}`;
  }
  picture.append(draw("path", { class: "line", d: `${path}H${(width - MARGIN.right).toFixed(1)}` }));
}
