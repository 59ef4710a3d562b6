// The curve of a game's values.
"use strict"

const charts = (() => {
  const SVG = "http://www.w3.org/2000/svg"

  function draw(tag, attributes, text) {
    const element = document.createElementNS(SVG, tag)
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value)
    if (text !== undefined) element.textContent = text
    return element
  }

  /** The value of a game to o after every move, -1 to 1; `at` is where it stands, `worst` the move that lost most. As wide
   *  as the place that it is for, in px. */
  function values(numbers, at, worst, width) {
    const [height, left, edge] = [96, 48, 8]
    const svg = draw("svg", {class: "chart", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "the exact value to o after every move"})
    const x = (index) => left + (index * (width - left - edge)) / Math.max(1, numbers.length - 1)
    const y = (value) => edge + ((1 - value) * (height - 2 * edge)) / 2
    for (const [value, name] of [[1, "o wins"], [0, "0"], [-1, "x wins"]]) {
      svg.append(draw("line", {class: value ? "axis" : "axis zero", x1: left, x2: width - edge, y1: y(value), y2: y(value)}))
      svg.append(draw("text", {x: left - 6, y: y(value) + 4, "text-anchor": "end"}, name))
    }
    svg.append(draw("polyline", {class: "curve", points: numbers.map((value, index) => `${x(index)},${y(value)}`).join(" ")}))
    if (worst !== null) svg.append(draw("circle", {class: "bad", cx: x(worst + 1), cy: y(numbers[worst + 1]), r: 5}))
    svg.append(draw("circle", {class: "now", cx: x(at), cy: y(numbers[at]), r: 5}))
    return svg
  }

  return {values}
})()
