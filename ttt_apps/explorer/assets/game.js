// The game on the large board: its moves, its values, hints, and its summary.
"use strict"

const SEARCHING = "mcts:simulations=2000" // plays where a board is too large for tables
const SOURCES = ["exact", "prove", "search", "mcts", "run", "random", "compressed", "policy"] // of values on the board
const REPLY_MS = 250 // from a move to the reply, so that both are seen

let line = null // the server's answer: every position of the game, and its moves
let board = null
let turn = 0 // counts requests about the game, to recognise late answers
let running = false
let timer = null
let hinted = null // {cell, text}

const position = () => line.positions[state.at]
/** Whether the state describes another game than the last answer, until the next one. */
const isStale = () => {
  const here = line === null ? undefined : line.positions[state.at]
  return here === undefined || here.position.length !== state.rows * (state.columns + 1) + 1
}
const isOver = () => position().result !== null
const playsNow = () => state[position().mover]
const atEnd = () => state.at === state.moves.length
const isWatched = () => SEATS.every((seat) => state[seat] !== YOU)
const isFinished = () => line.result !== null
const hidesValues = () => state.mode === "play" && !isFinished()
const knowsExact = () => ["now", "soon"].includes(line.exact)
const otherOf = (mover) => (mover === "o" ? "x" : "o")
const isPersonsTurn = () => !isOver() && playsNow() === YOU

/** Ask, and hand the answer over unless something else was asked meanwhile. */
async function asked(name, body, then) {
  const mine = ++turn
  clearTimeout(timer)
  find("board").setAttribute("aria-busy", "true")
  try {
    const answer = await ask(name, body)
    if (mine !== turn) return
    find("board").setAttribute("aria-busy", "false")
    content()
    then(answer)
  } catch (problem) {
    if (mine !== turn) return
    find("board").setAttribute("aria-busy", "false")
    run(false)
    if (line) look()
    complain(problem)
  }
}

function show(answer, at = null) {
  line = answer
  state.moves = words(answer.moves)
  state.at = at === null ? state.moves.length : Math.min(at, state.moves.length)
  look()
  if (line.exact === "soon" && !hidesValues()) review()
}

/** Ask for the exact values of a game where they take a moment. */
async function review() {
  const mine = turn
  const body = lineOf(state)
  try {
    const answer = await ask("review", body)
    if (mine !== turn || answer.moves !== line.moves) return
    line = answer
    drawGame()
  } catch {} // the panel of perfect play says why
}

/** Draw the state, request the values of the moves, and let a policy move if it is its turn. */
function look() {
  hinted = null
  drawGame()
  toAddress()
  askPanels(state.panels)
  goOn()
  for (const one of explorer.onLook) one()
}

function makeBoard() {
  const {rows, columns, gravity: drops} = state
  if (board !== null && board.rows === rows && board.columns === columns && board.drops === drops) return
  board = ttt.createBoard(find("board"), {rows, columns, drops, label: "the board", onPlay: put, onStep: step})
  document.querySelector("main").classList.toggle("large", state.columns > 4)
  document.querySelector("main").classList.toggle("huge", state.columns > 7)
}

/** Draw the game that the address describes before the server has answered. */
function sketch() {
  makeBoard()
  const start = state.opening === null ? null : ttt.fromText(state.opening)
  const cells = start ? [...start.cells] : Array(state.rows * state.columns).fill(0)
  let mover = start ? start.mover : 0
  for (const word of state.moves.slice(0, state.at)) {
    const cell = (Number.parseInt(word.slice(1), 10) - 1) * state.columns + word.charCodeAt(0) - 97
    cells[cell] = mover + 1
    if (!word.endsWith("+")) mover = 1 - mover
  }
  const legal = state[SEATS[mover]] === YOU && !state.gravity ? null : [] // the server says where stones may fall to
  if (cells.length === state.rows * state.columns) board.show({cells, mover, legal})
}

function drawGame() {
  const here = position()
  makeBoard()
  drawBoard()
  const keys = state.gravity ? "arrow keys choose a column, Enter drops a stone into it" : "arrow keys move, Enter plays"
  board.label(`the board, ${state.rows} rows and ${state.columns} columns; ${keys}`)
  find("status").replaceChildren(...statusOf(here))
  find("position").value = here.position
  find("undo").disabled = state.at === 0
  find("hint").disabled = !isPersonsTurn()
  find("watch").hidden = !isWatched()
  drawTimeline()
  drawSummary()
}

/** Draw the stones, and the values of a panel if they are wanted and here. */
function drawBoard() {
  if (isStale()) return
  const here = position()
  const parsed = ttt.fromText(here.position)
  const kind = boardSource()
  const answer = kind === null ? null : panels[kind].answer
  board.show({
    cells: parsed.cells,
    mover: parsed.mover,
    last: here.last,
    line: here.line,
    lineWord: state.misere ? "losing line" : "winning line",
    legal: isPersonsTurn() ? here.legal : [],
    hint: hinted === null ? [] : [hinted.cell],
    ...(answer && {
      values: answer.values,
      texts: answer.texts,
      scale: answer.scale,
      word: answer.word,
      chosen: isAllAlike(answer) ? [] : answer.best,
    }),
  })
  const hides = hidesValues()
  find("source").textContent = kind === null ? "" : `Numbers: ${PANELS[kind].chip}, for ${here.mover}.`
  find("source").hidden = kind === null
  drawBar()
  for (const mode of MODES) find(`mode-${mode}`).setAttribute("aria-pressed", String(state.mode === mode))
  find("show-field").hidden = hides
  find("views").hidden = hides
}

/** The panel whose numbers stand on the board; null for none. */
function boardSource() {
  if (hidesValues() || state.show === "none" || isOver()) return null
  const has = (kind) => isShown(kind) && panels[kind].answer !== null && panels[kind].at === position().position
  if (state.show !== "auto") return has(state.show) ? state.show : null
  const tells = (kind) => kind === "exact" || panels[kind].answer.best.length < panels[kind].answer.values.filter((value) => value !== null).length
  const known = SOURCES.filter((kind) => has(kind) && panels[kind].answer.values.some((value) => value !== null))
  return known.find(tells) ?? known[0] ?? null
}

/** The value of the position for o, and by what; null if it is not known. */
function valueNow() {
  const here = position()
  if (here.result !== null) return [{o: 1, x: -1, draw: 0}[here.result], ""]
  if (here.value !== null) return [here.value, PANELS.exact.chip]
  for (const kind of ["exact", "prove", "mcts"]) {
    const {answer, at} = panels[kind]
    if (isShown(kind) && answer && at === here.position && answer.value !== null) {
      return [answer.value * (here.mover === "o" ? 1 : -1), PANELS[kind].chip]
    }
  }
  return null
}

function drawBar() {
  const bar = find("bar")
  const known = hidesValues() || state.show === "none" ? null : valueNow()
  bar.hidden = hidesValues() || state.show === "none"
  bar.classList.toggle("unknown", known === null)
  bar.style.setProperty("--share", known === null ? 0.5 : (Math.max(-1, Math.min(1, known[0])) + 1) / 2)
  const result = {o: "o has won", x: "x has won", draw: "a draw"}[position().result]
  find("bar-text").textContent = result ?? (known === null ? "value not known" : `${ttt.signed(known[0], 3)} for o, by ${known[1]}`)
}

function statusOf(here) {
  const stone = (mover) => make("span", {class: mover}, mover)
  if (here.result === "draw") return ["A draw"]
  if (here.result !== null && state.misere) return [stone(here.result), " has won: ", stone(otherOf(here.result)), " completed a line"]
  if (here.result !== null) return [stone(here.result), " has won"]
  const said = [stone(here.mover), state[here.mover] === YOU ? " to move" : ` to move: ${state[here.mover]}`]
  const before = state.at ? line.plies[state.at - 1] : null
  if (before && before.skipped) said.push(`, again: ${otherOf(before.mover)} is skipped`)
  if (hinted) said.push(`. Hint: ${hinted.text}`)
  return said
}

/** Show for a moment that a turn was skipped. */
function flashSkip() {
  const ply = line.plies[state.at - 1]
  if (ply && ply.skipped && !isOver()) find("skipped").replaceChildren(make("span", {}, `${otherOf(ply.mover)} is skipped`))
}

function put(cell) {
  if (!isStale()) {
    const {cells, mover} = ttt.fromText(position().position)
    board.show({cells: cells.map((stone, at) => (at === cell ? mover + 1 : stone)), mover, last: [cell], legal: []})
  } // the server's answer replaces it
  play({cell})
}

function play(move) {
  asked("play", {...lineOf(state, state.at), seed: state.seed, ...move}, (answer) => {
    show(answer)
    flashSkip()
  })
}

function goOn() {
  clearTimeout(timer)
  if (isOver()) run(false)
  if (isOver() || !atEnd() || playsNow() === YOU) return
  const reply = () => play({policy: playsNow()})
  if (!isWatched()) timer = setTimeout(reply, STILL.matches || state.at === 0 ? 0 : REPLY_MS)
  else if (running) timer = setTimeout(reply, 1000 / Number(find("speed").value))
}

function run(on) {
  running = on
  find("run").textContent = on ? "Pause" : "Start"
  find("run").setAttribute("aria-pressed", String(on))
  if (!on && isWatched()) clearTimeout(timer)
}

/** Begin a game, with changes of the state; says what is replaced. */
function begin(changes = {}, said = []) {
  Object.assign(state, {opening: null, moves: [], at: 0, seed: Math.floor(Math.random() * 2 ** 31)}, changes)
  drawFirst()
  dropPanels()
  sketch()
  load(said)
}

/** Draw who moves first in a game that has not begun, where that is drawn. */
function drawFirst() {
  if (state.first === "o" || state.opening !== null || state.moves.length) return
  const {rows, columns} = state
  if (Math.random() < 0.5) state.opening = ttt.toText({columns, cells: Array(rows * columns).fill(0), mover: 1})
}

/** Request the game of the state. */
function load(said = []) {
  const replaced = []
  for (const seat of SEATS) {
    const name = partsOf(state[seat])[0]
    if (state.rows * state.columns <= about.tables || !about.on_tables.includes(name)) continue
    state[seat] = SEARCHING
    replaced.push(`${name} needs a board of at most ${about.tables} cells: ${SEARCHING} plays ${seat}`)
  }
  notify([...said, ...replaced])
  showSetup()
  asked("replay", lineOf(state), (answer) => show(answer, state.at))
}

function goTo(at) {
  turn++ // answers to earlier requests are late now
  run(false)
  state.at = Math.max(0, Math.min(at, state.moves.length))
  look()
  flashSkip()
}

/** Go through the game by a key; returns whether it is one for that. */
function step(key) {
  if (isStale()) return false
  const count = state.moves.length
  const ways = {ArrowLeft: state.at - 1, ArrowRight: state.at + 1, Home: 0, End: count}
  if (!(key in ways)) return false
  const to = Math.max(0, Math.min(ways[key], count))
  if (to !== state.at) goTo(to)
  return true
}

function takeBack() {
  // back to where a person can move, or one move where two policies play
  let at = state.at - 1
  while (at > 0 && !isWatched() && state[line.positions[at].mover] !== YOU) at--
  turn++
  run(false)
  const plies = line.plies.slice(0, at)
  line = {...line, plies, positions: line.positions.slice(0, at + 1), result: null, summary: null, worst: worstOf(plies)}
  line.moves = state.moves.slice(0, at).join(" ")
  Object.assign(state, {moves: state.moves.slice(0, at), at})
  look()
}

/** The first of the moves that lost most, by the server's answer. */
function worstOf(plies) {
  let worst = null
  plies.forEach((ply, number) => {
    if (ply.loss && (worst === null || ply.loss > plies[worst].loss)) worst = number
  })
  return worst
}

/** Mark a best move: by perfect play where it is known, else by a proof, else by a search. */
async function hint() {
  const here = position().position
  const kinds = knowsExact() ? ["exact"] : "prove" in line.refused ? ["mcts"] : ["prove", "mcts"]
  find("hint").disabled = true
  try {
    for (const kind of kinds) {
      const {best} = await ask("values", {game: gameOf(state), position: here, panel: {kind, simulations: 1600}})
      if (position().position !== here) return
      if (!best.length) continue
      hinted = {cell: best[0], text: `${ttt.coordinate(best[0], state.columns)}, by ${PANELS[kind].chip}`}
      break
    }
  } catch (problem) {
    complain(problem)
  }
  drawGame()
}

// ---------------------------------------------------------------------------------------------------------------------
// The moves, and the summary

function drawTimeline() {
  const count = state.moves.length
  const hides = hidesValues()
  find("timeline").hidden = count === 0
  find("at").max = count
  find("at").value = state.at
  find("at-shown").textContent = `${state.at} of ${count}`
  const known = !hides && line.positions.every((one) => one.value !== null)
  find("value-chart").replaceChildren(...(known && count ? [valueChart(line.positions.map((one) => one.value), state.at, line.worst, find("timeline").clientWidth)] : []))
  find("moves").replaceChildren(
    ...line.plies.map((ply, number) => {
      const stone = make("span", {class: ply.mover}, ply.mover)
      const button = make("button", {type: "button"}, stone, ply.name, ...(ply.skipped ? ["\u21bb"] : []))
      if (ply.loss_text !== null && !hides) button.append(make("small", {}, ply.loss_text))
      button.setAttribute("aria-label", `move ${number + 1}: ${ply.mover} ${ply.name}${ply.skipped ? ", then a skip" : ""}${hides ? "" : lossOf(ply)}`)
      if (number === line.worst && !hides) button.classList.add("worst")
      if (number === state.at - 1) button.setAttribute("aria-current", "true")
      button.title = ply.best === null || hides ? "" : `best: ${ply.best}`
      button.addEventListener("click", () => goTo(number + 1))
      return make("li", {}, button)
    }),
  )
}

/** The value of a game to o after every move, -1 to 1; `at` is where it stands, `worst` the move that lost most. As wide
 *  as the place that it is for, in px. */
function valueChart(numbers, at, worst, width) {
  const [height, left, edge] = [96, 48, 8]
  const svg = ttt.draw("svg", {class: "chart", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "the exact value to o after every move"})
  const x = (index) => left + (index * (width - left - edge)) / Math.max(1, numbers.length - 1)
  const y = (value) => edge + ((1 - value) * (height - 2 * edge)) / 2
  for (const [value, name] of [[1, "o wins"], [0, "0"], [-1, "x wins"]]) {
    svg.append(ttt.draw("line", {class: value ? "axis" : "axis zero", x1: left, x2: width - edge, y1: y(value), y2: y(value)}))
    svg.append(ttt.draw("text", {x: left - 6, y: y(value) + 4, "text-anchor": "end"}, name))
  }
  svg.append(ttt.draw("polyline", {class: "curve", points: numbers.map((value, index) => `${x(index)},${y(value)}`).join(" ")}))
  if (worst !== null) svg.append(ttt.draw("circle", {class: "bad", cx: x(worst + 1), cy: y(numbers[worst + 1]), r: 5}))
  svg.append(ttt.draw("circle", {class: "now", cx: x(at), cy: y(numbers[at]), r: 5}))
  return svg
}

const lossOf = (ply) => (ply.loss_text === null ? "" : ply.loss_text === "best" ? ", a best move" : `, loses ${ply.loss_text.slice(1)}`)

/** What decided a finished game, where exact values are known. */
function drawSummary() {
  const place = find("summary")
  const found = line.summary
  place.hidden = !isFinished() || !atEnd()
  if (place.hidden) return
  if (!found) {
    const why = line.exact === "soon" ? "Computing the exact values of this game." : "There are no exact values of this game, so no losses of its moves."
    place.replaceChildren(make("p", {class: "quiet"}, why))
    return
  }
  const rows = SEATS.map((seat) => {
    const {moves, best, accuracy, loss} = found.players[seat]
    const cells = [moves, accuracy === null ? "" : `${best} (${ttt.percent(accuracy)})`, loss.toFixed(3)]
    return make("tr", {}, make("th", {scope: "row", class: seat}, seat), ...cells.map((text) => make("td", {}, String(text))))
  })
  const head = ["player", "moves", "best moves", "lost in all"].map((text) => make("th", {scope: "col"}, text))
  const said = [`Perfect play from the start: ${ttt.signed(found.start, 3)} for o. The result: ${ttt.signed(found.result, 0)}.`]
  if (state.skip > 0) said.push(`Skips gave o ${ttt.signed(found.skips, 3)}; the result without that is ${ttt.signed(found.without_skips, 3)}.`)
  place.replaceChildren(
    make("h3", {}, "Summary"),
    make("table", {}, make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...rows)),
    ...said.map((text) => make("p", {class: "quiet"}, text)),
  )
  if (line.worst === null) return
  const ply = line.plies[line.worst]
  const button = make("button", {type: "button", id: "to-worst"}, `Go to the worst move: ${line.worst + 1}, ${ply.mover} ${ply.name}${lossOf(ply)}`)
  button.addEventListener("click", () => goTo(line.worst))
  place.append(button)
}
