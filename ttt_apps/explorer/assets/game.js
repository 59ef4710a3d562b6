// The game on the large board: its moves, its values, hints, and its summary.
"use strict"

const SOURCES = ["exact", "prove", "search", "mcts", "run", "random", "compressed", "policy"] // of values on the board
const REPLY_MS = 250 // from a move to the reply, so that both are seen

let line = null // the game so far, of rules.replay
let facts = {game: ""} // the answer to "review": about the game, and of the positions and moves of its line
let asking = null // controls the last question "review"
let board = null
let turn = 0 // counts what was looked at, to recognise late answers
let running = false
let timer = null
let hinted = null // {cell, text}

const position = () => line.positions[state.at]
const isOver = () => position().outcome !== null
const seatNow = () => SEATS[position().mover]
const playsNow = () => state[seatNow()]
const atEnd = () => state.at === state.moves.length
const isWatched = () => SEATS.every((seat) => state[seat] !== YOU)
const isFinished = () => line.positions.at(-1).outcome !== null
const hidesValues = () => state.mode === "play" && !isFinished()
const knowsExact = () => ["now", "soon"].includes(facts.exact)
const isPersonsTurn = () => !isOver() && playsNow() === YOU
const valueAt = (number) => facts.values?.[number] ?? null
const lossAt = (number) => facts.plies?.[number]?.loss ?? null
const resultOf = (outcome) => (outcome === rules.DRAW ? 0 : 1 - 2 * outcome)
const stoneOf = (mover) => make("span", {class: SEATS[mover]}, SEATS[mover])
const busy = (on) => find("board").setAttribute("aria-busy", String(on))

/** Draw the state, ask for what is not known of it, and let a policy move if it is its turn. */
async function look() {
  const current = ++turn
  clearTimeout(timer)
  hinted = null
  dropPanels()
  find("trouble").hidden = true
  const isNew = facts.game !== JSON.stringify(gameOf(state))
  if (isNew) facts = {game: "", refused: {}}
  else forget()
  drawGame()
  toAddress()
  busy(isNew)
  if (!isNew) {
    askPanels(state.panels)
    goOn()
  }
  try {
    if (facts.line !== JSON.stringify(lineOf(state))) await review(current)
    if (current !== turn) return
    busy(false)
    if (isNew) {
      seatOthers()
      askPanels(state.panels)
      goOn()
    }
    if (facts.exact === "soon" && !hidesValues()) await review(current, true)
  } catch (problem) {
    if (current !== turn) return
    busy(false)
    complain(problem)
  }
}

/** Ask for what is known of the game: with its exact values where they are known at once, or are waited for. */
async function review(current, wait = false) {
  const body = lineOf(state)
  asking?.abort() // an earlier one may still wait
  asking = new AbortController()
  const answer = await ask("review", {...body, wait}, asking.signal)
  if (current !== turn) return
  facts = {...answer, game: JSON.stringify(body.game), line: JSON.stringify(body), opening: state.opening, moves: state.moves}
  drawGame()
}

/** Keep of the last review what is about the moves that are still there. */
function forget() {
  const differs = (word, number) => facts.opening !== state.opening || word !== facts.moves[number]
  const place = state.moves.findIndex(differs)
  const same = place < 0 ? state.moves.length : place
  const values = facts.opening === state.opening ? facts.values?.slice(0, same + 1) : null
  Object.assign(facts, {values, plies: facts.plies?.slice(0, same), moves: facts.moves.slice(0, same)})
}

/** What a player needs that this game is not, as far as it is known; null if nothing. */
function needOf(spec) {
  const [name, {path}] = partsOf(spec)
  const run = about.runs.find((other) => name === "run" && other.name === path)
  if (run && !fits(run)) return run.game === null ? "a game that is not played here" : `a board of ${run.game.rows} \u00d7 ${run.game.columns}, ${ttt.rulesText(run.game)}`
  return facts.unplayable?.[name] ?? null
}

/** Give the seats of players that cannot play this game to the one that can, and grey them out. */
function seatOthers() {
  const replaced = SEATS.filter((seat) => needOf(state[seat]) !== null)
  const notices = replaced.map((seat) => {
    const spec = state[seat]
    state[seat] = facts.opponent
    return `${partsOf(spec)[0] === "run" ? spec : partsOf(spec)[0]} needs ${needOf(spec)}: ${facts.opponent} plays ${seat}`
  })
  showSetup()
  if (!notices.length) return
  notify([find("notice").textContent, ...notices].filter(Boolean))
  drawGame()
  toAddress()
}

function makeBoard() {
  const {rows, columns, gravity: drops} = state
  if (board !== null && board.rows === rows && board.columns === columns && board.drops === drops) return
  board = ttt.createBoard(find("board"), {rows, columns, drops, label: "the board", onPlay: play, onStep: step})
  document.querySelector("main").classList.toggle("large", columns > 4)
  document.querySelector("main").classList.toggle("huge", columns > 7)
}

function drawGame() {
  makeBoard()
  drawBoard()
  const keys = state.gravity ? "arrow keys choose a column, Enter drops a stone into it" : "arrow keys move, Enter plays"
  board.label(`the board, ${state.rows} rows and ${state.columns} columns; ${keys}`)
  find("status").replaceChildren(...statusOf())
  find("position").value = position().text
  find("undo").disabled = state.at === 0
  find("hint").disabled = !isPersonsTurn()
  find("watch").hidden = !isWatched()
  find("step").hidden = !(isWatched() || find("wait").checked)
  drawTimeline()
  drawSummary()
  document.dispatchEvent(new Event("drawn")) // for other scripts of the page
}

/** Draw the stones, and the values of a panel if they are wanted and here. */
function drawBoard() {
  const view = position()
  const kind = boardSource()
  board.show({
    ...view,
    lineWord: state.misere ? "losing line" : "winning line",
    legal: isPersonsTurn() ? view.legal : [],
    hint: hinted === null ? [] : [hinted.cell],
    ...(kind !== null && numbersOf(panels[kind].answer, view)),
  })
  find("source").textContent = kind === null ? "" : `Numbers: ${PANELS[kind].chip}, for ${seatNow()}.`
  find("source").hidden = kind === null
  drawBar()
  drawVerdict()
  for (const mode of MODES) find(`mode-${mode}`).setAttribute("aria-pressed", String(state.mode === mode))
  find("show-field").hidden = find("views").hidden = hidesValues()
}

/** The panel whose numbers stand on the board; null for none. */
function boardSource() {
  if (hidesValues() || state.show === "none" || isOver()) return null
  const answers = SOURCES.filter((kind) => answerOf(kind)?.values.some((value) => value !== null))
  if (state.show !== "auto") return answers.includes(state.show) ? state.show : null
  const tells = (kind) => kind === "exact" || !isAllAlike(answerOf(kind), position())
  return answers.find(tells) ?? answers[0] ?? null
}

/** The answer of a panel about the position that is seen; null if it is not here. */
const answerOf = (kind) => (isShown(kind) && panels[kind].at === position().text ? panels[kind].answer : null)

/** The value of the position for o, and what it is by: a fact, or an estimate where there is none; null if there is neither. */
function valueNow() {
  const {outcome, mover} = position()
  if (outcome !== null) return [resultOf(outcome), ""]
  if (valueAt(state.at) !== null) return [valueAt(state.at), `by ${PANELS.exact.chip}`]
  for (const kind of ["exact", "prove"]) {
    const answer = answerOf(kind)
    const value = answer && valueOf(answer, position())
    if (value !== null) return [value * (1 - 2 * mover), `by ${PANELS[kind].chip}`]
  }
  const tree = answerOf("mcts")
  return tree && [tree.value * (1 - 2 * mover), `an estimate by ${PANELS.mcts.chip}`]
}

function drawBar() {
  const bar = find("bar")
  bar.hidden = hidesValues() || state.show === "none"
  const estimate = bar.hidden ? null : valueNow()
  bar.classList.toggle("unknown", estimate === null)
  bar.style.setProperty("--share", estimate === null ? 0.5 : (Math.max(-1, Math.min(1, estimate[0])) + 1) / 2)
  const {outcome} = position()
  const result = outcome === null ? null : ["o has won", "x has won", "a draw"][outcome]
  find("bar-text").textContent = result ?? (estimate === null ? "value not known" : `${ttt.signed(estimate[0], 3)} for o, ${estimate[1]}`)
}

/** Judge the last move of a person, without one the last move, as a puzzle judges an answer. */
function drawVerdict() {
  const own = line.plies.slice(0, state.at).findLastIndex(({mover}) => state[SEATS[mover]] === YOU)
  const number = own < 0 ? state.at - 1 : own
  const [ply, judged] = [line.plies[number], facts.plies?.[number]]
  find("verdict").hidden = hidesValues() || !judged
  if (find("verdict").hidden) return
  const {mover, cell} = ply
  const next = line.positions[number + 1]
  const answer = number + 1 === state.at && !isOver() ? answerOf("exact") : null
  const reply = next.mover === mover ? [] : (facts.plies[number + 1]?.best ?? (answer ? bestOf(answer, next) : []))
  const top = valueAt(number) * (1 - 2 * mover)
  const whose = own < 0 ? `${SEATS[mover]}'s move` : "Your move"
  const text = puzzles.verdictOf({game: gameOf(state), mover: SEATS[mover], top, best: judged.best, replies: {[cell]: reply}, whose}, cell, judged.loss)
  find("verdict").replaceChildren(...ttt.rich(text))
}

function statusOf() {
  const {outcome, mover} = position()
  if (outcome === rules.DRAW) return ["A draw"]
  if (outcome !== null) return [stoneOf(outcome), " has won", ...(state.misere ? [": ", stoneOf(1 - outcome), " completed a line"] : [])]
  const parts = [stoneOf(mover), playsNow() === YOU ? " to move" : ` to move: ${playsNow()}`]
  if (state.at && line.plies[state.at - 1].skipped) parts.push(`, again: ${SEATS[1 - mover]} is skipped`)
  if (hinted) parts.push(`. Hint: ${hinted.text}`)
  return parts
}

/** Show for a moment that a turn was skipped. */
function flashSkip() {
  const ply = line.plies[state.at - 1]
  if (ply?.skipped) find("skipped").replaceChildren(make("span", {}, `${SEATS[1 - ply.mover]} is skipped`))
}

/** Play a move at the position that is seen; later moves are gone. */
function play(cell) {
  const word = rules.wordOf(gameOf(state), position(), cell, state.seed)
  goTo(state.at + 1, [...state.moves.slice(0, state.at), word], running)
}

async function reply() {
  const current = turn
  busy(true)
  try {
    const {cell} = await ask("move", {...lineOf(state), seed: state.seed, policy: playsNow()})
    if (current === turn) play(cell)
  } catch (problem) {
    if (current !== turn) return
    busy(false)
    run(false)
    complain(problem)
  }
}

function goOn() {
  clearTimeout(timer)
  if (isOver()) run(false)
  if (isOver() || !atEnd() || playsNow() === YOU) return
  if (running) timer = setTimeout(reply, 1000 / Number(find("speed").value))
  else if (!isWatched() && !find("wait").checked) timer = setTimeout(reply, STILL.matches || state.at === 0 ? 0 : REPLY_MS)
}

function run(on) {
  running = on
  find("run").textContent = on ? "Pause" : "Start"
  find("run").setAttribute("aria-pressed", String(on))
  if (!on && isWatched()) clearTimeout(timer)
}

/** Begin a game, with changes of the state; says what is replaced. */
function begin(changes = {}, notices = []) {
  Object.assign(state, {opening: null, moves: [], at: 0, seed: Math.floor(Math.random() * 2 ** 31)}, changes)
  load(notices)
}

/** Show the game of the state, as far as its moves are legal. */
function load(notices = []) {
  const {rows, columns} = state
  const opening = state.opening === null ? null : ttt.fromText(state.opening)
  const fits = state.opening === null || (opening !== null && opening.rows === rows && opening.columns === columns)
  if (!fits) {
    notices = [...notices, `the opening is no position of a board of ${rows} \u00d7 ${columns}: it is left out`]
    state.opening = null
  }
  showSetup()
  goTo(state.at)
  notify(line.problem === null ? notices : [...notices, line.problem])
}

/** See the position after so many moves, of these moves. */
function goTo(at, moves = state.moves, keepsRunning = false) {
  if (!keepsRunning) run(false)
  line = rules.replay(gameOf(state), state.opening === null ? null : ttt.fromText(state.opening), moves)
  state.moves = moves.slice(0, line.plies.length)
  state.at = Math.max(0, Math.min(at, state.moves.length))
  look()
  flashSkip()
}

/** Go through the game by a key; returns whether it is one for that. */
function step(key) {
  const count = state.moves.length
  const ways = {ArrowLeft: state.at - 1, ArrowRight: state.at + 1, Home: 0, End: count}
  if (!(key in ways)) return false
  const to = Math.max(0, Math.min(ways[key], count))
  if (to !== state.at) goTo(to)
  return true
}

/** Take back to where a person can move, or one move where two policies play. */
function takeBack() {
  let at = state.at - 1
  while (at > 0 && !isWatched() && state[SEATS[line.positions[at].mover]] !== YOU) at--
  goTo(at, state.moves.slice(0, at))
}

/** Mark a best move: by perfect play where it is known, else by a proof, else by a search. */
async function hint() {
  const view = position()
  const kinds = knowsExact() ? ["exact"] : "prove" in facts.refused ? ["mcts"] : ["prove", "mcts"]
  find("hint").disabled = true
  try {
    const body = {game: gameOf(state), position: view.text, panels: kinds.map((kind) => ({kind, simulations: 1600}))}
    for await (const answer of askValues(body)) {
      if (position() !== view) return
      if (answer.error) throw new Error(answer.error)
      const kind = kinds.shift()
      const [cell] = bestOf(answer, view)
      if (cell === undefined) continue
      hinted = {cell, text: `${ttt.coordinate(cell, state.columns)}, by ${PANELS[kind].chip}`}
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
  const worst = hides ? null : worstMove()
  const values = line.positions.map((_, number) => valueAt(number))
  const chart = count && !hides && !values.includes(null) ? [valueChart(values, worst)] : []
  find("value-chart").replaceChildren(...chart)
  find("moves").replaceChildren(
    ...line.plies.map((ply, number) => {
      const loss = hides ? null : lossAt(number)
      const button = make("button", {type: "button"}, stoneOf(ply.mover), ply.name, ...(ply.skipped ? ["\u21bb"] : []))
      if (loss !== null) button.append(make("small", {}, loss ? ttt.signed(-loss, 3) : "best"))
      button.setAttribute("aria-label", `move ${number + 1}: ${SEATS[ply.mover]} ${ply.name}${ply.skipped ? ", then a skip" : ""}${lossText(loss)}`)
      button.classList.toggle("worst", number === worst)
      if (number === state.at - 1) button.setAttribute("aria-current", "true")
      if (loss !== null) button.title = `best: ${facts.plies[number].best.map((cell) => ttt.coordinate(cell, state.columns)).join(", ")}`
      button.addEventListener("click", () => goTo(number + 1))
      return make("li", {}, button)
    }),
  )
}

const lossText = (loss) => (loss === null ? "" : loss ? `, loses ${loss.toFixed(3)}` : ", a best move")

/** The first of the moves that lost most; null if none has lost anything. */
function worstMove() {
  const losses = line.plies.map((_, number) => lossAt(number) ?? 0)
  const largest = Math.max(0, ...losses)
  return largest > 0 ? losses.indexOf(largest) : null
}

/** The value of a game to o after every move, -1 to 1, with the place that is seen and the move that lost most. */
function valueChart(values, worst) {
  const marks = [...(worst === null ? [] : [["bad", worst + 1, values[worst + 1]]]), ["now", state.at, values[state.at]]]
  return ttt.chart("the exact value to o after every move", find("timeline").clientWidth, [["curve", values]], marks, {
    [-1]: "x wins",
    0: "0",
    1: "o wins",
  })
}

/** What decided a finished game, where exact values are known. */
function drawSummary() {
  const place = find("summary")
  place.hidden = !isFinished() || !atEnd()
  if (place.hidden) return
  if (facts.values?.length !== line.positions.length) {
    const why = [undefined, "soon"].includes(facts.exact) ? "Computing the exact values of this game." : "There are no exact values of this game, so no losses of its moves."
    place.replaceChildren(make("p", {class: "quiet"}, why))
    return
  }
  const rows = SEATS.map((seat, mover) => {
    const losses = facts.plies.filter((_, number) => line.plies[number].mover === mover).map(({loss}) => loss)
    const best = losses.filter((loss) => loss === 0).length
    const share = losses.length ? `${best} (${ttt.percent(best / losses.length)})` : ""
    const cells = [losses.length, share, losses.reduce((sum, loss) => sum + loss, 0).toFixed(3)]
    return make("tr", {}, make("th", {scope: "row", class: seat}, seat), ...cells.map((text) => make("td", {}, String(text))))
  })
  const head = ["player", "moves", "best moves", "lost in all"].map((text) => make("th", {scope: "col"}, text))
  const result = resultOf(line.positions.at(-1).outcome)
  const luck = facts.plies.reduce((sum, ply) => sum + ply.luck, 0)
  const sentences = [`Perfect play from the start: ${ttt.signed(facts.values[0], 3)} for o. The result: ${ttt.signed(result, 0)}.`]
  if (state.skip > 0) sentences.push(`Skips gave o ${ttt.signed(luck, 3)}; the result without that is ${ttt.signed(result - luck, 3)}.`)
  place.replaceChildren(
    make("h3", {}, "Summary"),
    make("table", {}, make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...rows)),
    ...sentences.map((text) => make("p", {class: "quiet"}, text)),
  )
  const worst = worstMove()
  if (worst === null) return
  const {mover, name} = line.plies[worst]
  const button = make("button", {type: "button", id: "to-worst"}, `Go to the worst move: ${worst + 1}, ${SEATS[mover]} ${name}${lossText(lossAt(worst))}`)
  button.addEventListener("click", () => goTo(worst))
  place.append(button)
}
