// The explorer's page. `state` holds everything about a game; the part of the address after the # holds the same;
// all numbers come from the server, which receives the whole game and position.
"use strict"

const find = (id) => document.getElementById(id)
const make = ttt.make
const YOU = "you"
const SEATS = ["o", "x"]
const PANELS = {
  exact: {title: "Perfect play", chip: "perfect play"},
  random: {title: "Random play", chip: "random play"},
  compressed: {title: "A compressed table", chip: "a compressed table"},
  search: {title: "A search", chip: "a search"},
  mcts: {title: "Monte Carlo tree search", chip: "tree search"},
  run: {title: "A run's learner", chip: "a run"},
  policy: {title: "A policy's choice", chip: "a policy"},
}
const METHODS = {svd: "SVD", hosvd: "HOSVD", hosvd2: "two-sided HOSVD", hooi: "HOOI", tt: "tensor train"}
const SIMULATIONS = [25, 50, 100, 200, 400, 800, 1600, 3200, 5000]
const SEARCHING = "mcts:simulations=2000" // plays where a board is too large for tables
const ON_TABLES = ["exact", "random", "compressed"]
const TOGETHER = 9 // cells up to which panels are asked for at once
const ALONE = ["run", "policy"] // but for those that may have to be loaded

let about = null
let state = null
let line = null // the server's answer: every position of the game, and its moves
let board = null
const panels = {}
let turn = 0 // counts requests about the game, to recognise late answers
let running = false
let timer = null

// ---------------------------------------------------------------------------------------------------------------------
// Asking

async function ask(name, body) {
  const response = await fetch(`/api/${name}`, {
    method: "POST",
    headers: {"content-type": "application/json"},
    body: JSON.stringify(body),
  })
  const answer = await response.json()
  if (!response.ok) throw new Error(answer.error)
  return answer
}

function complain(problem) {
  const text = problem instanceof TypeError ? "the explorer does not answer: is it still running?" : problem.message
  find("trouble").textContent = text[0].toUpperCase() + text.slice(1) + (/[.?!]$/.test(text) ? "" : ".")
  find("trouble").hidden = false
}

const content = () => find("trouble").setAttribute("hidden", "")

/** Ask, and hand the answer over unless something else was asked meanwhile. */
async function asked(name, body, then) {
  const mine = ++turn
  clearTimeout(timer)
  try {
    const answer = await ask(name, body)
    if (mine !== turn) return
    content()
    then(answer)
  } catch (problem) {
    if (mine !== turn) return
    run(false)
    complain(problem)
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// The state and the address

const fresh = () => ({
  rows: 3,
  columns: 3,
  win: 3,
  skip: 0,
  opening: null,
  moves: [],
  at: 0,
  o: YOU,
  x: "optimal",
  seed: Math.floor(Math.random() * 2 ** 31),
  panels: ["exact", "random", "compressed", "search", "mcts"],
  method: "svd",
  rank: null,
  depth: 3,
  simulations: 400,
  run: null,
  policy: "win-or-block",
})

const words = (text) => text.split(" ").filter(Boolean)
const gameOf = (of) => ({rows: of.rows, columns: of.columns, win_length: of.win, skip_chance: of.skip})
const lineOf = (of, count = of.moves.length) => ({game: gameOf(of), opening: of.opening, moves: of.moves.slice(0, count).join(" ")})

function toAddress() {
  const said = new URLSearchParams()
  const plain = fresh()
  for (const key of Object.keys(plain)) {
    const value = key === "at" && state.at === state.moves.length ? null : state[key]
    if (value === null || value === "") continue
    if (key === "moves") value.length && said.set(key, value.join("."))
    else if (key === "panels") value.join() !== plain.panels.join() && said.set(key, value.join("."))
    else if (key === "seed" || value !== plain[key]) said.set(key, value)
  }
  const hash = "#" + said.toString().replaceAll("%3A", ":").replaceAll("%2F", "/").replaceAll("%2C", ",").replaceAll("%3D", "=")
  if (hash !== location.hash) history.replaceState(null, "", hash)
  find("link").href = hash
}

function fromAddress() {
  const found = fresh()
  const said = new URLSearchParams(location.hash.slice(1))
  for (const [key, value] of said) {
    if (!(key in found)) continue
    if (key === "moves") found.moves = value.split(".").filter(Boolean)
    else if (key === "panels") found.panels = value.split(".").filter((kind) => kind in PANELS)
    else if (["rows", "columns", "win", "skip", "at", "seed", "rank", "depth", "simulations"].includes(key)) {
      if (Number.isFinite(Number(value))) found[key] = Number(value)
    } else found[key] = value
  }
  if (!said.has("at")) found.at = found.moves.length
  found.at = Math.max(0, Math.min(found.at, found.moves.length))
  return found
}

// ---------------------------------------------------------------------------------------------------------------------
// The game

const position = () => line.positions[state.at]
const isOver = () => position().result !== null
const playsNow = () => state[position().mover]
const atEnd = () => state.at === state.moves.length
const isWatched = () => SEATS.every((seat) => state[seat] !== YOU)

function show(answer, at = null) {
  line = answer
  state.moves = words(answer.moves)
  state.at = at === null ? state.moves.length : Math.min(at, state.moves.length)
  look()
}

/** Draw the state, request the values of the moves, and let a policy move if it is its turn. */
function look() {
  const here = position()
  const parsed = ttt.fromText(here.position)
  if (board === null || board.rows !== state.rows || board.columns !== state.columns) {
    board = ttt.createBoard(find("board"), {rows: state.rows, columns: state.columns, label: "the board", onPlay: put})
  }
  const free = !isOver() && playsNow() === YOU
  board.show({
    cells: parsed.cells,
    mover: parsed.mover,
    last: here.last,
    line: here.line,
    legal: free ? null : [],
  })
  board.label(`the board, ${state.rows} rows and ${state.columns} columns; arrow keys move, Enter plays`)
  find("status").replaceChildren(...statusOf(here))
  find("position").value = here.position
  find("undo").disabled = state.at === 0
  find("watch").hidden = !isWatched()
  drawTimeline()
  toAddress()
  askPanels(state.panels)
  goOn()
}

function statusOf(here) {
  const stone = (mover) => make("span", {class: mover}, mover)
  if (here.result === "draw") return ["A draw"]
  if (here.result !== null) return [stone(here.result), " has won"]
  if (line.forfeit && atEnd()) return [stone(line.result), ` has won: ${line.forfeit}`]
  const said = [stone(here.mover), state[here.mover] === YOU ? " to move" : ` to move: ${state[here.mover]}`]
  const before = state.at ? line.plies[state.at - 1] : null
  if (before && before.skipped) said.push(`, again: ${before.mover === "o" ? "x" : "o"} is skipped`)
  return said
}

function put(cell) {
  play({cell})
}

function play(move) {
  asked("play", {...lineOf(state, state.at), seed: state.seed, ...move}, (answer) => show(answer))
}

function goOn() {
  clearTimeout(timer)
  if (isOver() || !atEnd() || playsNow() === YOU || line.forfeit) {
    if (isOver() || line.forfeit) run(false)
    return
  }
  if (isWatched()) {
    if (running) timer = setTimeout(() => play({policy: playsNow()}), 1000 / Number(find("speed").value))
  } else play({policy: playsNow()})
}

function run(on) {
  running = on
  find("run").textContent = on ? "Pause" : "Play"
  find("run").setAttribute("aria-pressed", String(on))
  if (!on && isWatched()) clearTimeout(timer)
}

function begin(changes = {}) {
  Object.assign(state, {opening: null, moves: [], at: 0, seed: Math.floor(Math.random() * 2 ** 31)}, changes)
  for (const seat of SEATS) {
    if (isLarge() && about.on_tables.includes(partsOf(state[seat])[0])) state[seat] = SEARCHING
  }
  load()
}

/** Request the game of the state. */
function load() {
  showSetup()
  asked("replay", lineOf(state), (answer) => show(answer, state.at))
}

function goTo(at) {
  turn++ // answers to earlier requests are late now
  state.at = Math.max(0, Math.min(at, state.moves.length))
  look()
}

function undo() {
  // back to where a person can move, or one move where two policies play
  let at = state.at - 1
  while (at > 0 && !isWatched() && state[line.positions[at].mover] !== YOU) at--
  turn++
  run(false)
  const shorter = state.moves.slice(0, at)
  line = {...line, plies: line.plies.slice(0, at), positions: line.positions.slice(0, at + 1), forfeit: null, worst: worstOf(line.plies.slice(0, at))}
  Object.assign(state, {moves: shorter, at})
  look()
}

/** The first of the moves that lost most, by the server's answer. */
function worstOf(plies) {
  let worst = null
  plies.forEach((ply, number) => {
    if (ply.loss !== null && ply.loss_text !== "best" && (worst === null || ply.loss > plies[worst].loss)) worst = number
  })
  return worst
}

function drawTimeline() {
  const count = state.moves.length
  find("timeline").hidden = count === 0
  find("at").max = count
  find("at").value = state.at
  find("at-shown").textContent = `${state.at} of ${count}`
  const known = line.positions.every((one) => one.value !== null)
  find("value-chart").replaceChildren(...(known && count ? [charts.values(line.positions.map((one) => one.value), state.at, line.worst, find("timeline").clientWidth)] : []))
  find("moves").replaceChildren(
    ...line.plies.map((ply, number) => {
      const stone = make("span", {class: ply.mover}, ply.mover)
      const button = make("button", {type: "button"}, stone, ply.name, ...(ply.skipped ? ["\u21bb"] : []))
      if (ply.loss_text !== null) button.append(make("small", {}, ply.loss_text))
      button.setAttribute("aria-label", `move ${number + 1}: ${ply.mover} ${ply.name}${ply.skipped ? ", then a skip" : ""}${lossOf(ply)}`)
      if (number === line.worst) button.classList.add("worst")
      if (number === state.at - 1) button.setAttribute("aria-current", "true")
      button.title = ply.best === null ? "" : `best: ${ply.best}`
      button.addEventListener("click", () => goTo(number + 1))
      return make("li", {}, button)
    }),
  )
}

const lossOf = (ply) => (ply.loss_text === null ? "" : ply.loss_text === "best" ? ", a best move" : `, loses ${ply.loss_text.slice(1)}`)

// ---------------------------------------------------------------------------------------------------------------------
// Panels

const isLarge = () => state.rows * state.columns > about.tables
const isShown = (kind) => state.panels.includes(kind) && !(isLarge() && ON_TABLES.includes(kind))

function bodyOf(kind) {
  const body = {kind}
  if (kind === "compressed") Object.assign(body, {method: state.method, rank: state.rank})
  if (kind === "search") body.depth = state.depth
  if (kind === "mcts") body.simulations = state.simulations
  if (kind === "run" && state.run) body.run = state.run
  if (kind === "policy") body.policy = state.policy
  return body
}

function askPanels(kinds) {
  for (const kind of Object.keys(PANELS)) {
    panels[kind].card.hidden = !isShown(kind)
    panels[kind].chip.disabled = isLarge() && ON_TABLES.includes(kind)
  }
  kinds = kinds.filter(isShown)
  find("views").classList.toggle("over", isOver())
  find("over").hidden = !isOver()
  if (isOver()) return
  const together = state.rows * state.columns <= TOGETHER ? kinds.filter((kind) => !ALONE.includes(kind)) : []
  for (const group of [together, ...kinds.filter((kind) => !together.includes(kind)).map((kind) => [kind])]) {
    if (group.length) askGroup(group)
  }
}

async function askGroup(kinds) {
  const wanted = kinds.map((kind) => {
    panels[kind].card.setAttribute("aria-busy", "true")
    return ++panels[kind].asked
  })
  const here = position().position
  let answers
  try {
    answers = (await ask("values", {game: gameOf(state), position: here, panels: kinds.map(bodyOf)})).panels
  } catch (problem) {
    answers = kinds.map(() => ({error: problem.message}))
  }
  kinds.forEach((kind, number) => {
    if (panels[kind].asked === wanted[number]) tell(kind, answers[number], here)
  })
}

function tell(kind, answer, here) {
  const panel = panels[kind]
  panel.card.setAttribute("aria-busy", "false")
  panel.notes.replaceChildren()
  if (answer.error) {
    panel.asked++
    panel.place.replaceChildren()
    panel.board = null
    const text = answer.error
    panel.notes.append(make("p", {class: "said"}, text[0].toUpperCase() + text.slice(1) + "."))
    return
  }
  const all = showMap(panel, PANELS[kind].title, here, answer) // of the board before, where another was just chosen
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
  const free = parsed.cells.filter((stone) => stone === 0).length
  const all = answer.best.length === free && free > 1
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

function makePanels() {
  for (const [kind, {title, chip}] of Object.entries(PANELS)) {
    const panel = {kind, asked: 0, board: null, place: make("div", {}), notes: make("div", {class: "notes"})}
    const controls = make("div", {class: "controls"})
    panels[kind] = panel
    panel.card = make("section", {class: "card", id: `panel-${kind}`, "aria-labelledby": `title-${kind}`})
    panel.card.append(make("h3", {id: `title-${kind}`}, title), panel.place, controls, panel.notes)
    find("maps").append(panel.card)
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
    const button = make("button", {type: "button", "aria-pressed": "false", id: `chip-${kind}`}, chip)
    panel.chip = button
    button.addEventListener("click", () => {
      const on = !state.panels.includes(kind)
      state.panels = Object.keys(PANELS).filter((one) => (one === kind ? on : state.panels.includes(one)))
      showSetup()
      toAddress()
      askPanels(on ? [kind] : [])
    })
    find("chips").append(button)
  }
  if (!about.runs.length) panels.run.chip.hidden = true
}

// ---------------------------------------------------------------------------------------------------------------------
// Choices

function makeSeats() {
  for (const seat of SEATS) {
    const place = find(`seat-${seat}`)
    const runs = about.runs.map((one) => [`run:${one.name}`, `run ${one.name}`])
    const names = Object.keys(about.policies).filter((name) => name !== "run")
    const select = choice(`plays-${seat}`, [[YOU, "you"], ...names.map((name) => [name, name]), ...runs], (name) => {
      state[seat] = name
      showSetup()
      run(false)
      look()
    })
    const label = make("label", {for: `plays-${seat}`}, make("span", {class: seat}, seat), seat === "o" ? " (moves first)" : "")
    const settings = make("div", {class: "settings"})
    place.append(label, select, make("details", {}, make("summary", {}, "settings"), settings))
  }
}

/** "mcts:simulations=50" as its name and its settings. */
function partsOf(spec) {
  const [name, ...rest] = spec.split(":")
  const given = {}
  for (const word of rest.join(":").split(",").filter(Boolean)) {
    const [key, value] = word.split("=")
    given[value === undefined ? Object.keys(about.policies[name] || {})[0] : key] = value === undefined ? key : value
  }
  return [name, given]
}

function showSettings(seat) {
  const place = find(`seat-${seat}`)
  const [name, given] = partsOf(state[seat])
  const known = Object.entries(about.policies[name] || {}).filter(([key, one]) => key !== "path" && one.choices.length !== 1)
  place.querySelector("details").hidden = known.length === 0
  const fields = known.map(([key, one]) => {
    const id = `set-${seat}-${key}`
    const input = one.choices.length
      ? choice(id, one.choices.map((text) => [text, text]), () => {})
      : make("input", {id, type: "number", min: one.low, max: one.high, step: Number.isInteger(one.default) && key !== "w" && key !== "c" && key !== "epsilon" && key !== "temperature" ? 1 : "any"})
    if (key in given || one.choices.length) input.value = given[key] ?? one.default
    else input.placeholder = key === "rank" || key === "width" ? "" : one.default
    input.title = one.about
    input.addEventListener("change", () => {
      const [, now] = partsOf(state[seat])
      if (input.value === "" || String(input.value) === String(one.default)) delete now[key]
      else now[key] = input.value
      const path = now.path === undefined ? [] : [now.path]
      delete now.path
      const said = [...path, ...Object.entries(now).map(([setting, value]) => `${setting}=${value}`)].join(",")
      state[seat] = said ? `${name}:${said}` : name
      run(false)
      look()
    })
    return make("div", {}, make("label", {for: id}, key), input)
  })
  place.querySelector(".settings").replaceChildren(...fields)
}

function showSetup() {
  for (const [id, key] of [["rows", "rows"], ["columns", "columns"], ["win", "win"], ["skip", "skip"]]) find(id).value = state[key]
  find("skip-shown").textContent = ttt.percent(state.skip)
  find("setup-title").textContent = `${state.rows} \u00d7 ${state.columns}, ${state.win} in a line${state.skip ? `, ${ttt.percent(state.skip)} skips` : ""}: o ${state.o}, x ${state.x}`
  for (const seat of SEATS) {
    const select = find(`plays-${seat}`)
    const [name, given] = partsOf(state[seat])
    const chosen = name === "run" ? `run:${given.path ?? ""}` : name
    if (![...select.options].some((option) => option.value === chosen)) select.append(make("option", {value: chosen}, chosen))
    select.value = chosen
    showSettings(seat)
  }
  for (const kind of Object.keys(PANELS)) panels[kind].chip.setAttribute("aria-pressed", String(state.panels.includes(kind)))
  panels.compressed.select.value = state.method
  if (state.run === null && about.runs.length) state.run = about.runs[0].name
  if (state.run) panels.run.select.value = state.run
  panels.policy.select.value = state.policy
  Object.assign(panels.search.slider, {value: state.depth})
  panels.search.shown.textContent = `${state.depth} plies`
  const nearest = SIMULATIONS.reduce((best, one, number) => (Math.abs(one - state.simulations) < Math.abs(SIMULATIONS[best] - state.simulations) ? number : best), 0)
  panels.mcts.slider.value = nearest
  panels.mcts.slider.setAttribute("aria-valuetext", String(state.simulations))
  panels.mcts.shown.textContent = String(state.simulations)
}

function onSize() {
  const edge = (id) => Math.max(1, Math.min(about.edge, Math.round(Number(find(id).value)) || 1))
  const [rows, columns] = [edge("rows"), edge("columns")]
  begin({rows, columns, win: Math.min(edge("win"), Math.max(rows, columns)), rank: null})
}

function onSkip() {
  const skip = Number(find("skip").value)
  find("skip-shown").textContent = ttt.percent(skip)
  const skipped = state.moves.some((word) => word.endsWith("+"))
  Object.assign(state, {skip})
  // a game with skips in it cannot have been played without; any other goes on as it stands
  if (skip === 0 && (skipped || state.opening !== null)) begin()
  else load()
}

// ---------------------------------------------------------------------------------------------------------------------
// Logs and runs

async function openLog(name) {
  try {
    const {games} = await ask("log", {name})
    find("logged").replaceChildren(
      make("option", {value: ""}, games.length ? "choose a game" : "it has no games"),
      ...games.map((one) => make("option", {value: one.number}, `${one.number}: o ${one.players[0]}, x ${one.players[1]}; ${one.result ?? "not finished"}`)),
    )
  } catch (problem) {
    complain(problem)
  }
}

function openLogged(number) {
  if (!number) return
  asked("logged", {name: find("log").value, number: Number(number)}, (answer) => {
    const {rows, columns, win_length: win, skip_chance: skip} = answer.game
    Object.assign(state, {rows, columns, win, skip, opening: answer.opening, o: YOU, x: YOU})
    showSetup()
    show(answer, 0)
    const worst = answer.worst === null ? "" : ` The dearest move is number ${answer.worst + 1}.`
    find("logged-about").textContent = `o was ${answer.players[0]}, x was ${answer.players[1]}.${worst}`
    find("play-title").scrollIntoView({block: "start"})
  })
}

const learned = {name: null, marks: [], boards: [], at: 0, answers: new Map(), panels: []}

async function openRun(name) {
  try {
    const found = await ask("run", {name})
    const marks = found.marks.filter((mark) => mark.exploitability !== undefined)
    Object.assign(learned, {name, marks, boards: found.boards, at: found.boards.length - 1, answers: new Map()})
    const last = marks.at(-1)
    const said = marks.length
      ? `Exact exploitability over games: ${marks[0].exploitability.toPrecision(3)} at the first mark, ${last.exploitability.toPrecision(3)} after ${last.games.toLocaleString("en")} games.`
      : "Exact exploitability was not measured during training."
    const without = found.no_boards ? ` The boards are left out: ${found.no_boards}.` : " It stored no boards during training."
    find("curve-about").textContent = `${found.learner}, against ${found.opponent || "itself"}. ${said}${found.boards.length || !marks.length ? "" : without}`
    find("mark").hidden = !found.boards.length
    find("mark-at").max = Math.max(0, found.boards.length - 1)
    showMark()
  } catch (problem) {
    complain(problem)
  }
}

/** Choose the mark with boards that is nearest to so many games. */
function pointAt(games) {
  const {boards} = learned
  const at = boards.reduce((best, one, number) => (Math.abs(one.games - games) < Math.abs(boards[best].games - games) ? number : best), 0)
  if (at !== learned.at) chooseMark(at)
}

function chooseMark(at) {
  learned.at = at
  showMark()
}

/** Draw the curve with the mark that is chosen, and the boards there. */
async function showMark() {
  const {name, marks, boards, at} = learned
  const [mark, point] = boards.length ? [boards[at], pointAt] : [null, null]
  find("curve").replaceChildren(...(marks.length > 1 ? [charts.learning(marks, "exploitability", find("curve").clientWidth, mark, point)] : []))
  if (mark === null) return
  const steps = mark.iterations === undefined ? "" : `, ${mark.iterations.toLocaleString("en")} steps`
  const words = `after ${mark.games.toLocaleString("en")} games${steps}`
  find("mark-shown").textContent = words
  find("mark-at").value = at
  find("mark-at").setAttribute("aria-valuetext", mark.exploitability === undefined ? words : `${words}, exploitability ${mark.exploitability.toPrecision(3)}`)
  try {
    if (!learned.answers.has(at)) {
      find("mark-boards").setAttribute("aria-busy", "true")
      const answer = await ask("mark", {name, number: at})
      if (learned.name === name) learned.answers.set(at, answer.boards)
    }
  } catch (problem) {
    complain(problem)
    return
  }
  if (learned.name === name && learned.at === at) drawMark(learned.answers.get(at))
}

function drawMark(answers) {
  const panels = learned.panels
  const place = find("mark-boards")
  place.setAttribute("aria-busy", "false")
  while (panels.length < answers.length) {
    const panel = {card: make("div", {class: "card"}), title: make("h3", {}), place: make("div", {}), board: null}
    panel.card.append(panel.title, panel.place)
    panels.push(panel)
  }
  place.replaceChildren(...panels.slice(0, answers.length).map((panel) => panel.card))
  find("mark-choice").hidden = answers.some((one) => one.expects === null)
  const what = find("mark-choice").hidden ? "plays" : find("mark-what").value
  answers.forEach((one, number) => {
    const title = `${one.name[0].toUpperCase()}${one.name.slice(1)}`
    panels[number].title.textContent = title
    showMap(panels[number], title, one.position, one[what])
    panels[number].board.label(`${title}, ${one.position.at(-1)} to move`)
  })
}

function showRun() {
  const found = about.runs.find((one) => one.name === find("run-name").value)
  if (!found) return
  const {rows, columns, win_length: win, skip_chance: skip} = found.game
  state.run = found.name
  if (!state.panels.includes("run")) state.panels = Object.keys(PANELS).filter((kind) => kind === "run" || state.panels.includes(kind))
  begin({rows, columns, win, skip, rank: null})
  find("views-title").scrollIntoView({block: "start"})
}

// ---------------------------------------------------------------------------------------------------------------------
// Beginning

function listen() {
  find("new").addEventListener("click", () => begin())
  find("undo").addEventListener("click", undo)
  for (const id of ["rows", "columns", "win"]) find(id).addEventListener("change", onSize)
  let waiting = null
  find("skip").addEventListener("input", () => {
    find("skip-shown").textContent = ttt.percent(Number(find("skip").value))
    clearTimeout(waiting)
    waiting = setTimeout(onSkip, 60)
  })
  find("at").addEventListener("input", () => goTo(Number(find("at").value)))
  find("run").addEventListener("click", () => {
    if (!running && isOver()) begin()
    run(!running)
    if (!atEnd()) goTo(state.moves.length)
    else goOn()
  })
  find("step").addEventListener("click", () => {
    run(false)
    if (!atEnd()) goTo(state.at + 1)
    else if (!isOver()) play({policy: playsNow()})
  })
  find("speed").addEventListener("input", () => {
    find("speed-shown").textContent = find("speed").value
  })
  const set = () => {
    const parsed = ttt.fromText(find("position").value.trim())
    if (parsed === null) {
      complain(new Error('this is no position: write rows from the top, then the player to move, as in "x.o/.../..o x"'))
      return
    }
    begin({rows: parsed.rows, columns: parsed.columns, win: Math.min(state.win, Math.max(parsed.rows, parsed.columns)), opening: find("position").value.trim(), o: YOU, x: YOU})
  }
  find("set").addEventListener("click", set)
  find("position").addEventListener("keydown", (event) => event.key === "Enter" && set())
  find("to-board").addEventListener("click", (event) => {
    event.preventDefault()
    if (board) board.focus()
  })
  find("link").addEventListener("click", async (event) => {
    event.preventDefault()
    try {
      await navigator.clipboard.writeText(find("link").href)
      find("link").textContent = "Copied"
    } catch {
      find("link").textContent = "It is in the address"
    }
    setTimeout(() => (find("link").textContent = "Copy link"), 2000)
  })
  window.addEventListener("hashchange", () => {
    run(false)
    state = fromAddress()
    load()
  })
  find("log").addEventListener("change", () => openLog(find("log").value))
  find("logged").addEventListener("change", () => openLogged(find("logged").value))
  find("run-name").addEventListener("change", () => openRun(find("run-name").value))
  find("run-show").addEventListener("click", showRun)
  find("mark-at").addEventListener("input", () => chooseMark(Number(find("mark-at").value)))
  find("mark-what").addEventListener("change", showMark)
}

async function start() {
  try {
    about = await ask("about", {})
  } catch (problem) {
    find("status").textContent = ""
    complain(problem)
    return
  }
  if (window.matchMedia("(max-width: 40rem)").matches) find("setup").open = false
  makePanels()
  makeSeats()
  for (const [card, select, names, open] of [
    ["logs-card", "log", about.logs, openLog],
    ["runs-card", "run-name", about.runs.map((one) => one.name), openRun],
  ]) {
    if (!names.length) continue
    find(card).hidden = false
    find(select).append(...names.map((name) => make("option", {value: name}, name)))
    open(names[0])
  }
  listen()
  state = fromAddress()
  load()
}

start()
