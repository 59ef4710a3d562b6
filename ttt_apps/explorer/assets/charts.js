// Curves, drawn from numbers that the server has answered.
"use strict"

const charts = (() => {
  const SVG = "http://www.w3.org/2000/svg"

  function draw(tag, attributes, text) {
    const element = document.createElementNS(SVG, tag)
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value)
    if (text !== undefined) element.textContent = text
    return element
  }

  function frame(width, height, label) {
    return draw("svg", {class: "chart", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label})
  }

  const few = (number) => Intl.NumberFormat("en", {notation: "compact", maximumSignificantDigits: 3}).format(number)

  /** The value of a game to o after every move, -1 to 1; `at` is where it stands, `worst` the move that lost most. As wide
   *  as the place that it is for, in px. */
  function values(numbers, at, worst, width) {
    const [height, left, edge] = [96, 48, 8]
    const svg = frame(width, height, "the exact value to o after every move")
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

  /** A quantity over the games that a run has learned from; `chosen` is the mark that is chosen, null where none can be,
   *  and `point` is called with the games that are pointed at. */
  function learning(marks, name, width, chosen = null, point = null) {
    const [height, left, bottom, edge] = [220, 48, 26, 10]
    const most = Math.max(...marks.map((mark) => mark[name]), 1e-9)
    const all = Math.max(...marks.map((mark) => mark.games), 1)
    const svg = frame(width, height, `${name} over games`)
    const x = (value) => left + (value * (width - left - edge)) / all
    const y = (value) => edge + (1 - value / most) * (height - bottom - edge)
    for (const share of [0, 0.5, 1]) {
      svg.append(draw("line", {class: "axis", x1: left, x2: width - edge, y1: y(share * most), y2: y(share * most)}))
      svg.append(draw("text", {x: left - 6, y: y(share * most) + 4, "text-anchor": "end"}, few(share * most)))
      svg.append(draw("text", {x: x(share * all), y: height - 6, "text-anchor": share === 1 ? "end" : share ? "middle" : "start"}, few(share * all)))
    }
    svg.append(draw("polyline", {class: "curve", points: marks.map((mark) => `${x(mark.games)},${y(mark[name])}`).join(" ")}))
    if (marks.length <= 60) for (const mark of marks) svg.append(draw("circle", {class: "dot", cx: x(mark.games), cy: y(mark[name]), r: 3}))
    if (chosen !== null) {
      const at = x(chosen.games)
      svg.append(draw("line", {class: "chosen", x1: at, x2: at, y1: edge, y2: height - bottom}))
      if (chosen[name] !== undefined) svg.append(draw("circle", {class: "now", cx: at, cy: y(chosen[name]), r: 5}))
    }
    if (point !== null) {
      svg.classList.add("pointed")
      for (const kind of ["pointerdown", "pointermove"]) {
        svg.addEventListener(kind, (event) => {
          const box = svg.getBoundingClientRect()
          point((((event.clientX - box.left) * width) / box.width - left) * (all / (width - left - edge)))
        })
      }
    }
    return svg
  }

  return {values, learning}
})()
