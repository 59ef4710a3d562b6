// A board that is looked at and played on. A plain script with one global, ttt, so that a page that is opened from a
// file can use it as well as one that is served. It contains no rules and no values.
//
//   const board = ttt.createBoard(element, {rows: 3, columns: 3, label: "Your board", onPlay: (cell) => {}})
//   board.show({cells: [0, 1, 2, ...], mover: 0, legal: [...], values: [...], chosen: [4], last: [1], line: []})
"use strict"

const ttt = (() => {
  const STONES = ".ox"
  const COLUMNS = "abcdefghijklmnopqrs"
  const SHAPES = {
    1: ["circle", {cx: 50, cy: 50, r: 27}],
    2: ["path", {d: "M25 25 75 75M75 25 25 75"}],
  }

  /** A cell as people name it: the letter of its column, then its row from the top. */
  const coordinate = (cell, columns) => COLUMNS[cell % columns] + (Math.floor(cell / columns) + 1)

  /** Text such as "x.o/.../..o x" as {rows, columns, cells, mover}; null where it is no position. */
  function fromText(text) {
    const match = /^([.ox]+(?:\/[.ox]+)*) ([ox])$/.exec(text)
    if (!match) return null
    const rows = match[1].split("/")
    if (rows.some((row) => row.length !== rows[0].length)) return null
    const cells = Array.from(rows.join(""), (stone) => STONES.indexOf(stone))
    return {rows: rows.length, columns: rows[0].length, cells, mover: "ox".indexOf(match[2])}
  }

  /** The way back from fromText. */
  function toText({columns, cells, mover}) {
    const rows = []
    for (let start = 0; start < cells.length; start += columns) {
      rows.push(Array.from(cells.slice(start, start + columns), (stone) => STONES[stone]).join(""))
    }
    return `${rows.join("/")} ${"ox"[mover]}`
  }

  /** A value from -1 to 1 with its sign, a real minus and as many digits as are wanted. */
  function signed(value, digits = 2) {
    const text = Math.abs(value).toFixed(digits)
    return Number(text) === 0 ? text : (value < 0 ? "\u2212" : "+") + text
  }

  /** What wins or loses, and the rules of a game that change the lines and the moves. */
  function rulesText({win_length: win, gravity, overlines = true, misere, torus}) {
    const goal = `${overlines ? "" : "exactly "}${win} in a line${misere ? " lose" : ""}`
    return goal + (gravity ? ", gravity" : "") + (torus ? ", torus" : "")
  }

  /** A share from 0 to 1 in percent. */
  const percent = (value) => `${Math.round(value * 100)}%`

  function build(element, attributes, children) {
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value)
    element.append(...children)
    return element
  }

  const make = (tag, attributes = {}, ...children) => build(document.createElement(tag), attributes, children)

  /** The same for a part of a drawing. */
  const draw = (tag, attributes, ...children) => build(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children)

  /**
   * Lines of numbers, as wide as the place that it is for, in px.
   *
   * lines: [class, numbers] each; marks: [class, index, number] each; ticks: names of numbers, of which the least and the
   * greatest are the edges.
   */
  function chart(label, width, lines, marks, ticks) {
    const [height, left, edge] = [96, 48, 8]
    const edges = Object.keys(ticks).map(Number)
    const [low, high] = [Math.min(...edges), Math.max(...edges)]
    const count = lines[0][1].length
    const x = (index) => left + (index * (width - left - edge)) / Math.max(1, count - 1)
    const y = (value) => edge + ((high - value) * (height - 2 * edge)) / (high - low)
    const svg = draw("svg", {class: "chart", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label})
    for (const [value, name] of Object.entries(ticks)) {
      svg.append(draw("line", {class: Number(value) ? "axis" : "axis zero", x1: left, x2: width - edge, y1: y(value), y2: y(value)}))
      svg.append(draw("text", {x: left - 6, y: y(value) + 4, "text-anchor": "end"}, name))
    }
    for (const [name, numbers] of lines) {
      svg.append(draw("polyline", {class: `curve ${name}`, points: numbers.map((value, index) => `${x(index)},${y(value)}`).join(" ")}))
    }
    for (const [name, index, value] of marks) svg.append(draw("circle", {class: name, cx: x(index), cy: y(value), r: 5}))
    return svg
  }

  const stoneOf = (stone) => draw("svg", {viewBox: "0 0 100 100", "aria-hidden": "true"}, draw(...SHAPES[stone]))

  /** Text in which *this* is strong, as elements. */
  const rich = (text) => text.split("*").map((part, index) => (index % 2 ? make("strong", {}, part) : part))

  /** Let a click on a link copy it; without a clipboard, or a right to it, put it into the address. */
  function copyOnClick(link) {
    const text = link.textContent
    link.addEventListener("click", async (event) => {
      event.preventDefault()
      const copied = navigator.clipboard?.writeText(link.href) ?? Promise.reject()
      link.textContent = await copied.then(() => "Copied", () => "It is in the address")
      if (link.textContent !== "Copied") history.replaceState(null, "", link.href)
      setTimeout(() => (link.textContent = text), 2000)
    })
  }

  /**
   * Put a board into an element, replacing its content.
   *
   * element: where it stands; its width decides how large the board becomes.
   * rows, columns: its edges.
   * label: its accessible name.
   * onPlay: called with the cell that is chosen, if it is legal; without it the board is only looked at.
   * drops: whether stones fall: every cell of a column stands for the legal one, where a stone comes to rest.
   * onStep: called with arrow keys, Home and End after the pointer was used on the board; returns whether it took the
   *   key. Otherwise, and after the focus was moved by a key, they move the focus.
   *
   * Returns {show(state), focus(cell), label(text), rows, columns, drops}.
   */
  function createBoard(element, {rows, columns, label, drops = false, onPlay = null, onStep = null}) {
    const played = onPlay !== null
    const grid = make("div", {class: "grid", role: played ? "grid" : "table", "aria-label": label})
    grid.style.setProperty("--columns", columns)
    grid.setAttribute("aria-rowcount", rows)
    grid.setAttribute("aria-colcount", columns)
    const heads = ["", ...COLUMNS.slice(0, columns)].map((name) => make("span", {class: "head"}, name))
    grid.append(make("div", {class: "row", role: "presentation", "aria-hidden": "true"}, ...heads))
    const squares = []
    for (let row = 0; row < rows; row++) {
      const line = make("div", {class: "row", role: "row", "aria-rowindex": row + 1})
      line.append(make("span", {class: "head", "aria-hidden": "true"}, String(row + 1)))
      for (let column = 0; column < columns; column++) {
        const square = make("div", {class: "cell", role: played ? "gridcell" : "cell", "aria-colindex": column + 1})
        square.dataset.cell = squares.length
        squares.push(square)
        line.append(square)
      }
      grid.append(line)
    }
    const frame = make("div", {class: `board${played ? " played" : ""}${drops ? " drops" : ""}`}, grid)
    frame.style.setProperty("--columns", columns)
    element.replaceChildren(frame)

    let legal = new Set()
    let focused = 0
    let drawn = []
    let aimed = -1 // the cell below the pointer, or with the focus

    /** The cell that is played by a cell: -1 for none. */
    function target(cell) {
      if (!drops) return legal.has(cell) ? cell : -1
      return [...legal].find((place) => place % columns === cell % columns) ?? -1
    }

    /** Mark where a stone would come to rest. */
    function aim(cell = aimed) {
      aimed = cell
      const goal = cell < 0 ? -1 : target(cell)
      squares.forEach((square, place) => square.classList.toggle("aim", place === goal))
    }

    function rove(cell) {
      squares[focused].tabIndex = -1
      focused = cell
      squares[focused].tabIndex = 0
    }

    function show({cells, mover, last = [], line = [], lineWord = "winning line", legal: free = [], chosen = [], hint = [], ...numbers}) {
      const {values = null, format = signed, scale = 1, word = "value"} = numbers
      frame.classList.toggle("numbered", values !== null)
      legal = new Set(free)
      frame.dataset.mover = "ox"[mover]
      const isFirst = drawn.length === 0
      squares.forEach((square, cell) => {
        const stone = cells[cell]
        const value = values?.[cell] ?? null
        const hasValue = value !== null && stone === 0
        const names = ["cell"]
        const parts = [stone === 0 ? "empty" : STONES[stone]]
        if (stone !== 0) names.push(STONES[stone])
        const to = played ? target(cell) : -1
        if (to >= 0) names.push("free")
        if (last.includes(cell) && stone !== 0) names.push("last") && parts.push("last move")
        if (line.includes(cell)) names.push("line") && parts.push(lineWord)
        if (hasValue) names.push(value < 0 ? "down" : "up")
        const text = hasValue ? format(value) : ""
        if (hasValue) parts.push(`${word} ${text.replace("\u2212", "-")}`)
        if (chosen.includes(cell)) names.push("best") && parts.push("best move")
        if (hint.includes(cell)) names.push("hint") && parts.push("hint")
        if (to >= 0 && to !== cell) parts.push(`a stone falls to ${coordinate(to, columns)}`)
        square.className = names.join(" ")
        square.style.setProperty("--heat", hasValue ? Math.min(1, Math.abs(value) / scale).toFixed(3) : "0")
        square.setAttribute("aria-label", `${coordinate(cell, columns)}: ${parts.join(", ")}`)
        if (played) square.setAttribute("aria-disabled", to >= 0 ? "false" : "true")
        const drawing = `${stone}:${text}`
        if (drawn[cell] !== drawing) {
          square.replaceChildren(...(stone === 0 ? (text ? [make("span", {class: "value"}, text)] : []) : [stoneOf(stone)]))
          if (drops && stone !== 0 && !isFirst) {
            square.firstChild.classList.add("fallen")
            square.firstChild.style.setProperty("--height", Math.floor(cell / columns) + 1)
          }
          drawn[cell] = drawing
        }
      })
      if (drops && played) aim()
    }

    if (played) {
      for (const square of squares) square.tabIndex = -1
      rove(Math.floor(rows / 2) * columns + Math.floor(columns / 2))
      const cellOf = (event) => event.target.closest(".cell")
      const play = (cell) => target(cell) >= 0 && onPlay(target(cell))
      grid.addEventListener("click", (event) => {
        const square = cellOf(event)
        if (!square) return
        rove(Number(square.dataset.cell))
        play(focused)
      })
      let pointed = false
      grid.addEventListener("pointerdown", () => (pointed = true))
      document.addEventListener("keydown", (event) => event.key === "Tab" && (pointed = false))
      grid.addEventListener("focusin", (event) => cellOf(event) && rove(Number(cellOf(event).dataset.cell)))
      if (drops) {
        for (const kind of ["pointerover", "focusin"]) {
          grid.addEventListener(kind, (event) => aim(cellOf(event) ? Number(cellOf(event).dataset.cell) : -1))
        }
        for (const kind of ["pointerleave", "focusout"]) grid.addEventListener(kind, () => aim(-1))
      }
      grid.addEventListener("keydown", (event) => {
        if (event.altKey || event.ctrlKey || event.metaKey) return
        const [row, column] = [Math.floor(focused / columns), focused % columns]
        const ways = {
          ArrowUp: [Math.max(0, row - 1), column],
          ArrowDown: [Math.min(rows - 1, row + 1), column],
          ArrowLeft: [row, Math.max(0, column - 1)],
          ArrowRight: [row, Math.min(columns - 1, column + 1)],
          Home: [row, 0],
          End: [row, columns - 1],
          PageUp: [0, column],
          PageDown: [rows - 1, column],
        }
        if (pointed && onStep !== null && onStep(event.key)) {
          // it went through the game
        } else if (event.key in ways) {
          const [toRow, toColumn] = ways[event.key]
          rove(toRow * columns + toColumn)
          squares[focused].focus()
        } else if (event.key === "Enter" || event.key === " ") {
          play(focused)
        } else return
        event.preventDefault()
      })
    }

    return {
      show,
      rows,
      columns,
      drops,
      focus: (cell = focused) => {
        rove(cell)
        squares[cell].focus()
      },
      label: (text) => grid.setAttribute("aria-label", text),
    }
  }

  return {createBoard, coordinate, fromText, toText, rulesText, signed, percent, make, chart, rich, copyOnClick}
})()
