// Panels: the values of all moves by one method each. Each panel has a request of its own, so that it is drawn when it is
// finished.
"use strict"

const METHODS = {svd: "SVD", hosvd: "HOSVD", hosvd2: "two-sided HOSVD", hooi: "HOOI", tt: "tensor train"}
const SIMULATIONS = [25, 50, 100, 200, 400, 800, 1600, 3200, 5000]
const MAX_DRAWN = 7 // columns up to which panels have boards of their own
const NUM_TOP = 3 // moves listed where they have none
const WAIT_MS = 400 // after which a panel says that it is computed

const panels = {}

/** Why a panel has nothing to say about the present game; null if it has. */
function whyNot(kind) {
  if (kind in line.refused) return line.refused[kind]
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
  const said = [...reasons].map(([why, kinds]) => `${kinds.join(", ")} (${why})`)
  find("why").hidden = said.length === 0
  find("why").textContent = said.length ? `Not here: ${said.join("; ")}.` : ""
  find("views").classList.toggle("over", isOver())
  find("over").hidden = !isOver()
}

/** Leave out the answer of a panel that is still under way. */
function drop(panel) {
  panel.request?.abort()
  panel.request = null
  clearTimeout(panel.waiting)
}

const dropPanels = () => Object.values(panels).forEach(drop)

/** Ask for panels that are shown. */
function askPanels(kinds) {
  showWhich()
  if (kinds.length !== 1) dropPanels()
  if (isOver() || hidesValues()) return
  for (const kind of kinds.filter(isShown)) askPanel(panels[kind])
}

async function askPanel(panel) {
  const here = position().position
  drop(panel)
  const request = (panel.request = new AbortController())
  panel.waiting = setTimeout(() => (panel.wait.textContent = "Computing."), WAIT_MS)
  panel.card.setAttribute("aria-busy", "true")
  let answer = null
  try {
    answer = await ask("values", {game: gameOf(state), position: here, panel: bodyOf(panel.kind)}, request.signal)
  } catch (problem) {
    answer = {error: problem.message}
  }
  if (panel.request === request) tell(panel, answer, here)
}

function tell(panel, answer, here) {
  drop(panel)
  panel.card.setAttribute("aria-busy", "false")
  panel.wait.textContent = ""
  panel.notes.replaceChildren()
  const failed = Boolean(answer.error)
  Object.assign(panel, {answer: failed ? null : answer, at: here})
  panel.onBoard.hidden = failed
  if (failed) {
    panel.place.replaceChildren()
    panel.board = null
    panel.notes.append(make("p", {class: "said"}, sentence(answer.error)))
  } else drawPanel(panel.kind, answer, here)
  if (!isStale() && here === position().position) drawBoard()
}

function drawPanel(kind, answer, here) {
  const panel = panels[kind]
  let all = false
  if (state.columns <= MAX_DRAWN) all = showMap(panel, PANELS[kind].title, here, answer)
  else {
    panel.place.replaceChildren(...listOf(topMoves(answer)))
    panel.board = null
  }
  if (answer.lines) panel.notes.append(...listOf(answer.lines.map((one) => [one.text, one.moves])))
  for (const note of all ? [...answer.notes, "All moves are alike."] : answer.notes) panel.notes.append(make("p", {}, note))
  if (kind === "compressed") {
    state.rank = answer.rank
    Object.assign(panel.slider, {max: answer.largest_rank, value: answer.rank})
    panel.shown.textContent = `${answer.rank} of ${answer.largest_rank}`
  }
  if (kind === "search") {
    panel.slider.max = answer.largest_depth
    panel.shown.textContent = `${Math.min(state.depth, answer.largest_depth)} plies`
  }
}

/** The best moves of an answer without lines, [text, move] each. */
function topMoves({values, texts, lines}) {
  if (lines) return []
  const known = [...values.keys()].filter((cell) => values[cell] !== null)
  known.sort((one, other) => values[other] - values[one])
  return known.slice(0, NUM_TOP).map((cell) => [texts[cell], ttt.coordinate(cell, state.columns)])
}

const listOf = (rows) =>
  rows.length ? [make("ol", {class: "lines"}, ...rows.map(([text, moves]) => make("li", {}, make("b", {}, text), ` ${moves}`)))] : []

/** Whether several moves are possible, and all of them are best. */
function isAllAlike({values, best}) {
  const count = values.filter((value) => value !== null).length
  return best.length === count && count > 1
}

/** Draw numbers on the board of a panel, {card, place, board}; returns whether all moves are alike. */
function showMap(panel, title, text, answer) {
  const parsed = ttt.fromText(text)
  const {rows, columns} = parsed
  if (panel.board === null || panel.board.rows !== rows || panel.board.columns !== columns) {
    panel.board = ttt.createBoard(panel.place, {rows, columns, label: title})
    panel.card.classList.toggle("wide", columns > 7)
    const frame = panel.place.firstChild
    if (frame.scrollWidth > frame.clientWidth + 1) Object.assign(frame, {tabIndex: 0}).setAttribute("role", "group")
    if (frame.tabIndex === 0) frame.setAttribute("aria-label", `${title}, scrolls`)
  }
  const all = isAllAlike(answer)
  panel.board.show({
    cells: parsed.cells,
    mover: parsed.mover,
    values: answer.values,
    texts: answer.texts,
    scale: answer.scale,
    word: answer.word,
    chosen: all ? [] : answer.best,
  })
  return all
}

// ---------------------------------------------------------------------------------------------------------------------
// The cards and their settings

function slider(panel, id, text, settings, change) {
  panel.shown = make("output", {for: id}, "")
  panel.slider = make("input", {id, type: "range", ...settings})
  let waiting = null
  panel.slider.addEventListener("input", () => {
    change(Number(panel.slider.value))
    clearTimeout(waiting)
    waiting = setTimeout(() => {
      toAddress()
      askPanels([panel.kind])
    }, 30)
  })
  return [make("label", {for: id}, text, panel.shown), panel.slider]
}

function choice(id, options, change) {
  const select = make("select", {id})
  for (const [value, text] of options) select.append(make("option", {value}, text))
  select.addEventListener("change", () => change(select.value))
  return select
}

function makeControls(panel, controls) {
  const {kind} = panel
  const again = () => {
    toAddress()
    askPanels([kind])
  }
  if (kind === "compressed") {
    panel.select = choice("method", Object.entries(METHODS), (method) => {
      Object.assign(state, {method, rank: null})
      again()
    })
    controls.append(make("label", {for: "method"}, "method"), panel.select)
    controls.append(...slider(panel, "rank", "rank", {min: 0, max: 81, step: 1}, (rank) => {
      state.rank = rank
      panel.shown.textContent = String(rank)
    }))
  } else if (kind === "search") {
    controls.append(...slider(panel, "depth", "looks ahead", {min: 1, max: 9, step: 1}, (depth) => {
      state.depth = depth
      panel.shown.textContent = `${depth} plies`
    }))
  } else if (kind === "mcts") {
    controls.append(...slider(panel, "simulations", "simulations", {min: 0, max: SIMULATIONS.length - 1, step: 1}, (number) => {
      state.simulations = SIMULATIONS[number]
      panel.shown.textContent = String(state.simulations)
      panel.slider.setAttribute("aria-valuetext", String(state.simulations))
    }))
  } else if (kind === "run") {
    const runs = about.runs.map((one) => [one.name, `${one.name} (${one.learner})`])
    panel.select = choice("panel-run", runs.length ? runs : [["", "none"]], (name) => {
      state.run = name
      again()
    })
    controls.append(make("label", {for: "panel-run"}, "run"), panel.select)
  } else if (kind === "policy") {
    const names = Object.keys(about.policies).filter((name) => name !== "run")
    panel.select = choice("panel-policy", names.map((name) => [name, name]), (name) => {
      state.policy = name
      again()
    })
    controls.append(make("label", {for: "panel-policy"}, "policy"), panel.select)
  }
}

function makePanels() {
  for (const [kind, {title, chip}] of Object.entries(PANELS)) {
    const panel = {kind, request: null, waiting: null, board: null, answer: null, at: null, place: make("div", {}), notes: make("div", {class: "notes"})}
    const controls = make("div", {class: "controls"})
    panels[kind] = panel
    panel.wait = make("p", {class: "wait", role: "status"})
    panel.onBoard = make("button", {type: "button", class: "on-board", hidden: "", "aria-label": `${title}: show on the board`}, "On the board")
    panel.onBoard.addEventListener("click", () => setShow(kind))
    panel.card = make("section", {class: "card", id: `panel-${kind}`, "aria-labelledby": `title-${kind}`})
    const head = make("div", {class: "head"}, make("h3", {id: `title-${kind}`}, title), panel.onBoard)
    panel.card.append(head, panel.place, controls, panel.wait, panel.notes)
    find("maps").append(panel.card)
    makeControls(panel, controls)
    const button = make("button", {type: "button", "aria-pressed": "false", id: `chip-${kind}`}, chip)
    panel.chip = button
    button.addEventListener("click", () => {
      const on = !state.panels.includes(kind)
      state.panels = Object.keys(PANELS).filter((one) => (one === kind ? on : state.panels.includes(one)))
      showSetup()
      toAddress()
      askPanels(on ? [kind] : [])
      drawBoard()
    })
    find("chips").append(button)
  }
  if (!about.runs.length) panels.run.chip.hidden = true
}
