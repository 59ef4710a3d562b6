// The page: choices of the game and of the players, what is listened to, and how it begins.
"use strict"

function makeSeats() {
  for (const seat of SEATS) {
    const place = find(`seat-${seat}`)
    const runs = about.runs.map(({name}) => [`run:${name}`, `run ${name}`])
    const names = Object.keys(about.policies).filter((name) => name !== "run")
    const options = [[YOU, "you"], ...names.map((name) => [name, name]), ...runs]
    const select = choice(`plays-${seat}`, options, (name) => {
      seatPlayer(seat, name)
      showSetup()
    })
    const label = make("label", {for: `plays-${seat}`}, make("span", {class: seat}, seat), make("span", {id: `begins-${seat}`}))
    const settings = make("div", {class: "settings"})
    place.append(label, select, make("details", {}, make("summary", {}, "settings"), settings))
  }
}

/** Why a spec string names no player; null if it names one. */
function whyNoPlayer(spec) {
  if (spec === YOU) return null
  const [name, {path, ...given}] = partsOf(spec)
  if (!(name in about.policies)) return `there is no player "${name.slice(0, 40)}": players are ${[YOU, ...Object.keys(about.policies)].join(", ")}`
  if (name === "run" && !about.runs.some((run) => run.name === path)) return `there is no run "${(path ?? "").slice(0, 40)}" here`
  for (const [key, text] of Object.entries(given)) {
    const setting = about.policies[name][key]
    if (!setting) return `${name} has no setting "${key.slice(0, 40)}" here`
    const isOffered = text !== "" && Number(text) >= setting.low && Number(text) <= setting.high
    if (!isOffered) return `${key}=${text.slice(0, 40)} of ${name} is not offered: choose ${setting.low} to ${setting.high}`
  }
  return null
}

/** Replace the players and the run of a link that are not here; says what is replaced. */
function replacePlayers(linked) {
  const usual = fresh()
  const wrong = [...SEATS, "policy"].filter((key) => linked[key] !== usual[key] && whyNoPlayer(linked[key]) !== null)
  const notices = wrong.map((key) => `${whyNoPlayer(linked[key])}; ${key} is ${usual[key]}`)
  for (const key of wrong) linked[key] = usual[key]
  if (linked.run !== null && whyNoPlayer(`run:${linked.run}`) !== null) notices.push(whyNoPlayer(`run:${linked.run}`))
  return notices
}

function seatPlayer(seat, spec) {
  state[seat] = spec
  run(false)
  look()
}

/** "mcts:simulations=50" as its name and its settings. */
function partsOf(spec) {
  const [name, ...rest] = spec.split(":")
  const given = {}
  for (const word of rest.join(":").split(",").filter(Boolean)) {
    const [key, value] = word.split("=")
    const first = name === "run" ? "path" : Object.keys(about.policies[name] || {})[0]
    given[value === undefined ? first : key] = value === undefined ? key : value
  }
  return [name, given]
}

/** The way back from partsOf. */
function specOf(name, {path, ...given}) {
  const settings = Object.entries(given).map(([key, value]) => `${key}=${value}`)
  const words = path === undefined ? settings : [path, ...settings]
  return words.length ? `${name}:${words.join(",")}` : name
}

function showSettings(seat) {
  const place = find(`seat-${seat}`)
  const [name, given] = partsOf(state[seat])
  const settings = Object.entries(about.policies[name] || {})
  place.querySelector("details").hidden = settings.length === 0
  const fields = settings.map(([key, setting]) => {
    const id = `set-${seat}-${key}`
    const {low: min, high: max, about: title} = setting
    const input = make("input", {id, type: "number", min, max, step: setting.whole ? 1 : "any", title, placeholder: setting.default ?? ""})
    if (key in given) input.value = given[key]
    input.addEventListener("change", () => {
      const [, now] = partsOf(state[seat])
      if (input.value === "" || String(input.value) === String(setting.default)) delete now[key]
      else now[key] = input.value
      seatPlayer(seat, specOf(name, now))
    })
    return make("div", {}, make("label", {for: id}, key), input)
  })
  place.querySelector(".settings").replaceChildren(...fields)
}

function showSetup() {
  find("show").value = state.show
  for (const key of ["rows", "columns", "win", "skip"]) find(key).value = state[key]
  find("skip-shown").textContent = ttt.percent(state.skip)
  for (const rule of Object.keys(RULES)) find(rule).checked = state[rule]
  find("begins-o").textContent = " (moves first)"
  const skips = state.skip ? `, ${ttt.percent(state.skip)} skips` : ""
  find("setup-title").textContent = `${state.rows} \u00d7 ${state.columns}, ${ttt.rulesText(gameOf(state))}${skips}: o ${state.o}, x ${state.x}`
  for (const seat of SEATS) {
    const select = find(`plays-${seat}`)
    const [name, given] = partsOf(state[seat])
    const chosen = name === "run" ? `run:${given.path ?? ""}` : name
    if (![...select.options].some((option) => option.value === chosen)) select.append(make("option", {value: chosen}, chosen))
    select.value = chosen
    for (const option of select.options) {
      const need = needOf(option.value)
      Object.assign(option, {disabled: need !== null, title: need === null ? "" : `needs ${need}`})
    }
    showSettings(seat)
  }
  for (const kind of Object.keys(PANELS)) panels[kind].chip.setAttribute("aria-pressed", String(state.panels.includes(kind)))
  panels.compressed.select.value = state.method
  const fitting = about.runs.filter(fits).map(({name}) => name)
  if (!fitting.includes(state.run)) state.run = fitting[0] ?? null
  for (const option of panels.run.select.options) option.disabled = !fitting.includes(option.value)
  panels.run.select.value = state.run
  panels.policy.select.value = state.policy
  Object.assign(panels.search.slider, {value: state.depth})
  panels.search.output.textContent = `${state.depth} plies`
  const nearest = SIMULATIONS.reduce((best, count, number) => (Math.abs(count - state.simulations) < Math.abs(SIMULATIONS[best] - state.simulations) ? number : best), 0)
  panels.mcts.slider.value = nearest
  panels.mcts.slider.setAttribute("aria-valuetext", String(state.simulations))
  panels.mcts.output.textContent = String(state.simulations)
}

async function onSize() {
  const sized = {...state, rows: Number(find("rows").value), columns: Number(find("columns").value), win: Number(find("win").value)}
  const usual = sized.win === state.win && state.win === defaultWin(state) // another size has another default
  const notices = clampSizes(sized, usual)
  if (!(await mayDiscard("Another board begins another game."))) return showSetup()
  begin({rows: sized.rows, columns: sized.columns, win: sized.win, rank: null}, notices)
}

async function onRule(rule) {
  if (!(await mayDiscard("Other rules begin another game."))) return showSetup()
  begin({[rule]: find(rule).checked, rank: null})
}

async function onSkip() {
  const skip = Number(find("skip").value)
  const isSkipped = state.moves.some((word) => word.endsWith("+"))
  // a game with skips in it cannot have been played without; any other goes on as it stands
  if (skip > 0 || !(isSkipped || state.opening !== null)) {
    state.skip = skip
    load()
  } else if (await mayDiscard("A game with skips is none without.")) begin({skip})
  else showSetup()
}

/** Choose the numbers on the board. */
function setShow(show) {
  state.show = show
  find("show").value = show
  drawBoard()
  toAddress()
}

function setMode(mode) {
  state.mode = mode
  look()
}

/** Begin a game at the position that is written. */
function setPosition() {
  const text = find("position").value.trim()
  const parsed = ttt.fromText(text)
  if (parsed === null) {
    complain(new Error('this is no position: write rows from the top, then the player to move, as in "x.o/.../..o x"'))
    return
  }
  const {rows, columns} = parsed
  if (rows > LIMITS.rows || columns > LIMITS.columns) {
    complain(new Error(`a board of ${rows} \u00d7 ${columns} is not offered here: write up to ${LIMITS.rows} rows and ${LIMITS.columns} columns`))
    return
  }
  begin({rows, columns, win: Math.min(state.win, Math.max(rows, columns)), opening: text, o: YOU, x: YOU})
}

/** Go through the game by the arrow keys, unless they mean something where the focus is. */
function onKey(event) {
  if (event.altKey || event.ctrlKey || event.metaKey || event.shiftKey || event.defaultPrevented || find("ask").open) return
  if (event.target.closest("input, select, textarea, [role=grid], [contenteditable]")) return
  if (step(event.key)) event.preventDefault()
}

function openLink() {
  const [linked, problems] = fromAddress()
  problems.push(...replacePlayers(linked))
  state = linked
  load(problems)
}

function listen() {
  find("new").addEventListener("click", () => begin())
  find("undo").addEventListener("click", takeBack)
  find("swap").addEventListener("click", async () => {
    if (await mayDiscard("Other seats begin another game.")) begin({o: state.x, x: state.o})
  })
  find("wait").addEventListener("change", () => {
    drawGame()
    goOn()
  })
  find("hint").addEventListener("click", hint)
  for (const mode of MODES) find(`mode-${mode}`).addEventListener("click", () => setMode(mode))
  find("show").addEventListener("change", () => setShow(find("show").value))
  for (const id of ["rows", "columns", "win"]) find(id).addEventListener("change", onSize)
  for (const rule of Object.keys(RULES)) find(rule).addEventListener("change", () => onRule(rule))
  let waiting = null
  find("skip").addEventListener("input", () => {
    find("skip-shown").textContent = ttt.percent(Number(find("skip").value))
    clearTimeout(waiting)
    waiting = setTimeout(onSkip, 60)
  })
  find("at").addEventListener("input", () => goTo(Number(find("at").value)))
  find("run").addEventListener("click", () => {
    const on = !running
    if (on && isOver()) begin()
    else if (!atEnd()) goTo(state.moves.length)
    run(on)
    goOn()
  })
  find("step").addEventListener("click", () => {
    run(false)
    if (!atEnd()) goTo(state.at + 1)
    else if (!isOver() && playsNow() !== YOU) reply()
  })
  find("speed").addEventListener("input", () => {
    find("speed-shown").textContent = find("speed").value
  })
  find("set").addEventListener("click", setPosition)
  find("position").addEventListener("keydown", (event) => event.key === "Enter" && setPosition())
  find("to-board").addEventListener("click", (event) => {
    event.preventDefault()
    if (board) board.focus()
  })
  ttt.copyOnClick(find("link"))
  document.addEventListener("keydown", onKey)
  window.addEventListener("hashchange", openLink)
}

async function start() {
  state = fromAddress()[0]
  line = rules.replay(gameOf(state), null, []) // the board is there before anything is known about the game
  makeBoard()
  board.show({...line.positions[0], legal: []})
  try {
    about = await ask("about", {})
  } catch (problem) {
    find("status").textContent = ""
    complain(problem)
    return
  }
  Object.assign(LIMITS, {rows: about.edge, columns: about.edge, skip: about.most_skips})
  makePanels()
  makeSeats()
  const kinds = Object.entries(PANELS).map(([kind, {chip}]) => [kind, chip])
  for (const [value, text] of [["auto", "the best that is known"], ["none", "nothing"], ...kinds]) find("show").append(make("option", {value}, text))
  listen()
  practice.start() // before the address is that of a game
  openLink()
}

document.addEventListener("DOMContentLoaded", start) // after all scripts of the page
