// Panels: the values of all moves by one method each. All panels of a position are asked for at once, and each is drawn when
// its answer is here.
"use strict"

const METHODS = {svd: "SVD", hosvd: "HOSVD", hosvd2: "two-sided HOSVD", hooi: "HOOI", tt: "tensor train"}
const SIMULATIONS = [25, 50, 100, 200, 400, 800, 1600, 3200, 5000]
const MAX_DRAWN = 7 // columns up to which panels have boards of their own
const NUM_TOP = 3 // moves listed where they have none
const WAIT_MS = 400 // after which a panel says that it is computed
const LONG_WAIT_MS = 5000 // more, after which it says why that may take so long

const panels = {}

/** Why a panel has nothing to say about the present game; null if it has. */
function whyNot(kind) {
  if (kind in facts.refused) return facts.refused[kind]
  if (kind === "run" && state.run === null) return "none of this board and its rules"
  return kind === "prove" && knowsExact() ? "exact values say more here" : null
}

const isShown = (kind) => state.panels.includes(kind) && whyNot(kind) === null

function bodyOf(kind) {
  const body = {kind}
  if (kind === "compressed") Object.assign(body, {method: state.method, rank: state.rank})
  if (kind === "search") body.depth = state.depth
  if (kind === "mcts") body.simulations = state.simulations
  if (kind === "run" && state.run) body.run = state.run
  if (kind === "policy") body.policy = state.policy
  return body
}

function showWhich() {
  const reasons = new Map()
  for (const kind of Object.keys(PANELS)) {
    const why = whyNot(kind)
    panels[kind].card.hidden = !isShown(kind)
    panels[kind].chip.disabled = why !== null
    panels[kind].chip.title = why ?? ""
    if (why !== null && !panels[kind].chip.hidden) reasons.set(why, [...(reasons.get(why) ?? []), PANELS[kind].chip])
  }
  const texts = [...reasons].map(([why, kinds]) => `${kinds.join(", ")} (${why})`)
  find("why").hidden = texts.length === 0
  find("why").textContent = texts.length ? `Not here: ${texts.join("; ")}.` : ""
  find("views").classList.toggle("over", isOver())
  find("over").hidden = !isOver()
}

// ---------------------------------------------------------------------------------------------------------------------
// Numbers of the moves: an answer has {values: one for each cell, null where there is none; word: what they are}

const FORMATS = {
  probability: ttt.percent,
  visits: (value) => String(Math.round(value)),
  result: (value) => ["lost", "draw", "won"][value + 1],
}
const formatOf = ({word}) => FORMATS[word] ?? ((value) => ttt.signed(value, state.columns > 4 ? 2 : 3))

/** The best moves: none where a better one may be among those without a number. */
function bestOf({values, word, tie = 1e-9}, {legal}) {
  const cells = legal.filter((cell) => values[cell] !== null)
  const highest = Math.max(...cells.map((cell) => values[cell]))
  if (word === "result" && cells.length < legal.length && highest < 1) return []
  return cells.filter((cell) => values[cell] >= highest - tie)
}

/** The value of a position to its mover, if the numbers are values and the best is known; else null. */
function valueOf(answer, at) {
  const [cell] = ["value", "result"].includes(answer.word) ? bestOf(answer, at) : []
  return cell === undefined ? null : answer.values[cell]
}

/** Whether several moves are possible, and all of them are best. */
const isAllAlike = (answer, at) => at.legal.length > 1 && bestOf(answer, at).length === at.legal.length

/** The numbers of an answer, as a board shows them. */
function numbersOf(answer, at) {
  const {values, word} = answer
  const scale = Math.max(1, ...values.map(Math.abs))
  return {values, word, scale, format: formatOf(answer), chosen: isAllAlike(answer, at) ? [] : bestOf(answer, at)}
}

// ---------------------------------------------------------------------------------------------------------------------
// Questions and answers

/** Leave out the answer of a panel that is still under way; a request ends if no panel waits for it. */
function drop(panel) {
  const {request} = panel
  settle(panel)
  if (Object.values(panels).every((other) => other.request !== request)) request?.abort()
}

function settle(panel) {
  panel.request = null
  clearTimeout(panel.waiting)
  panel.card.setAttribute("aria-busy", "false")
  panel.wait.textContent = ""
}

const dropPanels = () => Object.values(panels).forEach(drop)

/** Ask for panels that are shown, all in one request. */
async function askPanels(kinds) {
  showWhich()
  if (isOver() || hidesValues()) return
  const view = position()
  const request = new AbortController()
  const waiting = kinds.filter(isShown).map((kind) => panels[kind])
  for (const panel of waiting) {
    drop(panel)
    panel.request = request
    panel.waiting = setTimeout(() => {
      panel.wait.textContent = "Computing."
      panel.waiting = setTimeout(() => (panel.wait.textContent += " The first answers after a start may take a minute."), LONG_WAIT_MS)
    }, WAIT_MS)
    panel.card.setAttribute("aria-busy", "true")
  }
  if (!waiting.length) return
  const body = {game: gameOf(state), position: view.text, panels: waiting.map(({kind}) => bodyOf(kind))}
  try {
    for await (const answer of askValues(body, request.signal)) takeAnswer(waiting.shift(), request, view, answer)
  } catch ({message}) {
    for (const panel of waiting) takeAnswer(panel, request, view, {error: message})
  }
}

/** Draw the answer of a panel, unless it is asked something else by now. */
function takeAnswer(panel, request, view, answer) {
  if (panel.request !== request) return
  settle(panel)
  const isError = "error" in answer
  Object.assign(panel, {answer: isError ? null : answer, at: view.text})
  panel.onBoard.hidden = isError || answer.values.every((value) => value === null)
  if (!isError) drawPanel(panel, view)
  else {
    panel.place.replaceChildren()
    panel.board = null
    panel.notes.replaceChildren(make("p", {class: "problem"}, sentence(answer.error)))
  }
  if (view.text === position().text) drawBoard()
}

function drawPanel(panel, view) {
  const {kind, answer} = panel
  const format = formatOf(answer)
  const cells = view.legal.filter((cell) => answer.values[cell] !== null)
  cells.sort((cell, other) => answer.values[other] - answer.values[cell])
  const top = cells.slice(0, NUM_TOP).map((cell) => [format(answer.values[cell]), ttt.coordinate(cell, state.columns)])
  const isDrawn = cells.length > 0 && state.columns <= MAX_DRAWN
  if (isDrawn) showMap(panel, view)
  else Object.assign(panel, {board: null}).place.replaceChildren(...listOf(top))
  const notes = [...answer.notes, ...(isDrawn && isAllAlike(answer, view) ? ["All moves are alike."] : [])]
  panel.notes.replaceChildren(...notes.map((note) => make("p", {}, note)))
  if (kind === "compressed") {
    state.rank = answer.rank
    Object.assign(panel.slider, {max: answer.largest_rank, value: answer.rank})
    panel.output.textContent = `${answer.rank} of ${answer.largest_rank}`
    if (answer.curves) panel.notes.append(rankChart(answer, panel.place.clientWidth))
  }
  if (kind === "search") {
    panel.slider.max = answer.largest_depth
    panel.output.textContent = `${Math.min(state.depth, answer.largest_depth)} plies`
  }
}

const listOf = (rows) =>
  rows.length ? [make("ol", {class: "lines"}, ...rows.map(([text, moves]) => make("li", {}, make("b", {}, text), ` ${moves}`)))] : []

/** The error and the exploitability of a compressed table at every rank, with those of its own. */
function rankChart({curves, rank}, width) {
  const lines = Object.entries(curves)
  const at = lines.map(([name, numbers]) => `${name} ${numbers[rank].toFixed(3)}`).join(", ")
  const marks = lines.map(([name, numbers]) => [name, rank, numbers[rank]])
  const chart = ttt.chart(`by rank from 0 to ${lines[0][1].length - 1}; at ${rank}: ${at}`, width, lines, marks, {0: "0", 1: "1"})
  const names = lines.map(([name]) => make("span", {class: `key ${name}`}, name))
  return make("figure", {}, chart, make("figcaption", {class: "quiet"}, "By rank: ", ...names))
}

/** Draw the answer of a panel on a board of its own. */
function showMap(panel, view) {
  const {rows, columns} = state
  const {title} = PANELS[panel.kind]
  if (panel.board === null || panel.board.rows !== rows || panel.board.columns !== columns) {
    panel.board = ttt.createBoard(panel.place, {rows, columns, label: title})
    panel.card.classList.toggle("wide", columns > 7)
    const frame = panel.place.firstChild
    if (frame.scrollWidth > frame.clientWidth + 1) Object.assign(frame, {tabIndex: 0}).setAttribute("role", "group")
    if (frame.tabIndex === 0) frame.setAttribute("aria-label", `${title}, scrolls`)
  }
  panel.board.show({cells: view.cells, mover: view.mover, ...numbersOf(panel.answer, view)})
}

// ---------------------------------------------------------------------------------------------------------------------
// The cards and their settings

/** A slider of a panel for a part of the state, which is `toState` of its number, and `say` of that in words. */
function slider(panel, key, text, [min, max], toState = (number) => number, say = String) {
  panel.output = make("output", {for: key}, "")
  panel.slider = make("input", {id: key, type: "range", min, max, step: 1})
  let waiting = null
  panel.slider.addEventListener("input", () => {
    state[key] = toState(Number(panel.slider.value))
    panel.output.textContent = say(state[key])
    panel.slider.setAttribute("aria-valuetext", say(state[key]))
    clearTimeout(waiting)
    waiting = setTimeout(() => askAgain(panel.kind), 30)
  })
  panel.controls.append(make("label", {for: key}, text, panel.output), panel.slider)
}

function choice(id, options, change) {
  const select = make("select", {id})
  for (const [value, text] of options) select.append(make("option", {value}, text))
  select.addEventListener("change", () => change(select.value))
  return select
}

/** A choice of a panel for a part of the state; it changes others with it. */
function chooser(panel, key, options, changes = {}) {
  const id = `panel-${key}-choice`
  panel.select = choice(id, options, (value) => {
    Object.assign(state, {[key]: value, ...changes})
    askAgain(panel.kind)
  })
  panel.controls.append(make("label", {for: id}, key), panel.select)
}

function askAgain(kind) {
  toAddress()
  askPanels([kind])
}

function makeControls() {
  const names = Object.keys(about.policies).filter((name) => name !== "run")
  const runs = about.runs.map(({name}) => [name, name])
  chooser(panels.compressed, "method", about.methods.map((name) => [name, METHODS[name]]), {rank: null})
  slider(panels.compressed, "rank", "rank", [0, 81])
  slider(panels.search, "depth", "looks ahead", [1, 9], undefined, (depth) => `${depth} plies`)
  slider(panels.mcts, "simulations", "simulations", [0, SIMULATIONS.length - 1], (number) => SIMULATIONS[number])
  chooser(panels.run, "run", runs.length ? runs : [["", "none"]])
  chooser(panels.policy, "policy", names.map((name) => [name, name]))
}

function makePanels() {
  for (const [kind, {title, chip}] of Object.entries(PANELS)) {
    const panel = {kind, request: null, waiting: null, board: null, answer: null, at: null, place: make("div", {}), notes: make("div", {class: "notes"})}
    panel.controls = make("div", {class: "controls"})
    panels[kind] = panel
    panel.wait = make("p", {class: "wait", role: "status"})
    panel.onBoard = make("button", {type: "button", class: "on-board", hidden: "", "aria-label": `${title}: on board`}, "On board")
    panel.onBoard.addEventListener("click", () => setShow(kind))
    panel.card = make("section", {class: "card", id: `panel-${kind}`, "aria-labelledby": `title-${kind}`})
    const head = make("div", {class: "head"}, make("h3", {id: `title-${kind}`}, title), panel.onBoard)
    panel.card.append(head, panel.place, panel.controls, panel.wait, panel.notes)
    find("maps").append(panel.card)
    const button = make("button", {type: "button", "aria-pressed": "false", id: `chip-${kind}`}, chip)
    panel.chip = button
    button.addEventListener("click", () => {
      const on = !state.panels.includes(kind)
      state.panels = Object.keys(PANELS).filter((other) => (other === kind ? on : state.panels.includes(other)))
      showSetup()
      toAddress()
      drop(panel)
      askPanels(on ? [kind] : [])
      drawBoard()
    })
    find("chips").append(button)
  }
  makeControls()
  if (!about.runs.length) panels.run.chip.hidden = true
}
