// Questions, the state, and the address. `state` holds everything about a view; the part of the address after the # holds
// the same. A server answers the questions, or in a page without one the script `offline`.
"use strict"

const find = (id) => document.getElementById(id)
const make = ttt.make
const YOU = "you"
const SEATS = ["o", "x"]
const PANELS = {
  exact: {title: "Perfect play", chip: "perfect play"},
  prove: {title: "Proved results", chip: "proofs"},
  random: {title: "Random play", chip: "random play"},
  compressed: {title: "Compressed table", chip: "a compressed table"},
  search: {title: "Search", chip: "a search"},
  mcts: {title: "Tree search", chip: "tree search"},
  run: {title: "A run's learner", chip: "a run"},
  policy: {title: "A policy's choice", chip: "a policy"},
}
const MODES = ["analyse", "play"]
const SHOW = ["auto", "none", ...Object.keys(PANELS)] // what stands on the board that is played on
const LIMITS = {rows: 15, columns: 15, skip: 0.5} // until it is answered what they are
const RULES = {gravity: false, overlines: true, misere: false, torus: false} // of a game, with their standard values
const NUMBERS = ["rows", "columns", "win", "skip", "at", "seed", "rank", "depth", "simulations"]
const STILL = window.matchMedia("(prefers-reduced-motion: reduce)")

const FOREIGN = new Set() // keys of the address that belong to other scripts

let about = null
let state = null

// ---------------------------------------------------------------------------------------------------------------------
// Asking

/** Ask, and return the answer; an error has a sentence. */
async function ask(name, body, signal) {
  if (typeof offline !== "undefined") return offline.answer(name, body)
  const response = await send(name, body, signal)
  return response.json()
}

/** Ask for the values of a position by its panels, and yield their answers, each when it is here. */
async function* askValues({panels, ...body}, signal) {
  if (typeof offline !== "undefined") {
    for (const panel of panels) yield offline.answer("values", {...body, panel}).catch(({message}) => ({error: message}))
    return
  }
  const response = await send("values", {...body, panels}, signal)
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader()
  let text = ""
  try {
    for (let part = await reader.read(); !part.done; part = await reader.read()) {
      const lines = (text + part.value).split("\n")
      text = lines.pop()
      yield* lines.map((line) => JSON.parse(line))
    }
  } finally {
    await reader.cancel()
  }
}

/** Send a question to the server, and return its response when that begins. */
async function send(name, body, signal) {
  let response
  try {
    response = await fetch(`/api/${name}`, {method: "POST", body: JSON.stringify(body), signal, headers: {"content-type": "application/json"}})
  } catch (problem) {
    throw problem.name === "AbortError" ? problem : new Error("the explorer does not answer: is it still running?")
  }
  if (!response.ok) throw new Error((await response.json()).error)
  return response
}

const sentence = (text) => text[0].toUpperCase() + text.slice(1) + (/[.?!]$/.test(text) ? "" : ".")

function complain(problem) {
  find("trouble").textContent = sentence(problem.message)
  find("trouble").hidden = false
}

/** Say what was replaced or left out; nothing where all is as it was asked. */
function notify(notices) {
  find("notice").hidden = notices.length === 0
  find("notice").textContent = notices.map(sentence).join(" ")
}

/** Ask whether a game may be thrown away; true at once where there is none. */
function mayDiscard(why) {
  const count = state.moves.length
  if (count === 0) return Promise.resolve(true)
  const dialog = find("ask")
  find("ask-text").textContent = `${why} The game of ${count} ${count === 1 ? "move" : "moves"} is thrown away.`
  dialog.returnValue = ""
  dialog.showModal()
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), {once: true})
  })
}

// ---------------------------------------------------------------------------------------------------------------------
// The state and the address

const fresh = () => ({
  rows: 3,
  columns: 3,
  win: 3,
  skip: 0,
  ...RULES,
  opening: null,
  moves: [],
  at: 0,
  o: YOU,
  x: "optimal",
  seed: Math.floor(Math.random() * 2 ** 31),
  mode: "analyse",
  show: "auto",
  panels: ["exact", "prove", "random", "compressed", "search", "mcts"],
  method: "svd",
  rank: null,
  depth: 3,
  simulations: 400,
  run: null,
  policy: "win-or-block",
})

const defaultWin = ({rows, columns}) => Math.min([3, 3, 3, 3, 4, 4, 4][Math.min(rows, columns)] ?? 5, Math.max(rows, columns))
const rulesOf = (of) => Object.fromEntries(Object.keys(RULES).map((rule) => [rule, of[rule] ?? RULES[rule]]))
const gameOf = (of) => ({rows: of.rows, columns: of.columns, win_length: of.win, skip_chance: of.skip, ...rulesOf(of)})
/** The way back from gameOf. */
const fromGame = (game) => ({rows: game.rows, columns: game.columns, win: game.win_length, skip: game.skip_chance, ...rulesOf(game)})
/** Whether a run learned by the rules on the board; its win length and its chance of a skip may be others. */
const fits = ({game}) => game === undefined || (game !== null && ["rows", "columns", ...Object.keys(RULES)].every((key) => (game[key] ?? RULES[key]) === state[key]))
const lineOf = (of) => ({game: gameOf(of), opening: of.opening, moves: of.moves.join(" ")})

function toAddress() {
  const params = new URLSearchParams()
  const plain = {...fresh(), win: defaultWin(state)}
  for (const key of Object.keys(plain)) {
    const value = key === "at" && state.at === state.moves.length ? null : state[key]
    if (value === null || value === "") continue
    if (key === "moves") value.length && params.set(key, value.join("."))
    else if (key === "panels") value.join() !== plain.panels.join() && params.set(key, value.join("."))
    else if (key === "seed" || value !== plain[key]) params.set(key, value)
  }
  const hash = "#" + params.toString().replaceAll("%3A", ":").replaceAll("%2F", "/").replaceAll("%2C", ",").replaceAll("%3D", "=")
  find("link").href = hash
  try {
    if (hash !== location.hash) history.replaceState(null, "", hash)
  } catch {} // browsers let the address be changed only so often
}

/** The state that the address describes, and what of it was replaced or left out. */
function fromAddress() {
  const linked = fresh()
  const params = new URLSearchParams(location.hash.slice(1) || about?.link)
  const problems = []
  const flags = Object.fromEntries(Object.keys(RULES).map((rule) => [rule, ["true", "false"]]))
  const choices = {mode: MODES, show: SHOW, method: Object.keys(METHODS), ...flags}
  const unknown = [...params.keys()].filter((key) => !(key in linked) && !FOREIGN.has(key))
  if (unknown.length) {
    const names = [...new Set(unknown)].map((key) => `"${key.slice(0, 40)}"`).join(", ")
    problems.push(`the link has ${names}, which the explorer does not know: its keys are ${Object.keys(linked).join(", ")}`)
  }
  for (const [key, value] of params) {
    const words = value.split(".").filter(Boolean)
    const part = `${key}=${value.slice(0, 40)} in the link`
    if (!(key in linked)) continue
    if (key === "moves") linked.moves = words
    else if (key === "panels") {
      const others = words.filter((kind) => !(kind in PANELS))
      if (others.length) problems.push(`there is no panel "${others[0].slice(0, 40)}": panels are ${Object.keys(PANELS).join(", ")}`)
      linked.panels = words.filter((kind) => kind in PANELS)
    } else if (NUMBERS.includes(key)) {
      if (value !== "" && Number.isFinite(Number(value))) linked[key] = Number(value)
      else problems.push(`${part} is no number: ${key} is ${linked[key] ?? "chosen by the page"}`)
    } else if (key in choices && !choices[key].includes(value)) problems.push(`${part} is not known: choose ${choices[key].join(", ")}`)
    else linked[key] = key in RULES ? value === "true" : value
  }
  problems.push(...clampSizes(linked, !params.has("win")))
  if (!params.has("at")) linked.at = linked.moves.length
  linked.at = Math.max(0, Math.min(Math.round(linked.at), linked.moves.length))
  return [linked, problems]
}

/** Bring the sizes of a state into their limits, with the win length of the size if wanted; says what is replaced. */
function clampSizes(of, usual = false) {
  const notices = []
  for (const key of ["rows", "columns"]) {
    const fit = Math.max(1, Math.min(LIMITS[key], Math.round(of[key]) || 1))
    if (fit !== of[key]) notices.push(`boards have 1 to ${LIMITS[key]} ${key}: ${of[key]} is replaced by ${fit}`)
    of[key] = fit
  }
  if (usual) of.win = defaultWin(of)
  const longest = Math.max(of.rows, of.columns)
  const win = Math.max(1, Math.min(longest, Math.round(of.win) || 1))
  if (win !== of.win) notices.push(`a line of ${of.win} does not fit on ${of.rows} \u00d7 ${of.columns}: ${win} in a line win`)
  const skip = Math.max(0, Math.min(LIMITS.skip, of.skip))
  if (skip !== of.skip) notices.push(`the chance of a skip is at most ${ttt.percent(LIMITS.skip)}: ${of.skip} is replaced by ${skip}`)
  Object.assign(of, {win, skip, seed: Math.abs(Math.round(of.seed)) % 2 ** 32})
  return notices
}
