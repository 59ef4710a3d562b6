// The page of runs in progress. The server is asked once a second while the page is visible, and answers with the whole
// state: nothing grows here however long a run goes on.
"use strict"

const find = (id) => document.getElementById(id)
const make = ttt.make
const EVERY_MS = 1000
const STATES = {
  starting: "Starting",
  compiling: "Compiling",
  training: "Training",
  evaluation: "Measuring the result, and writing the report",
  silent: "Silent",
  finished: "Finished",
  stopped: "Not in progress",
}
const ENDED = ["finished", "stopped"]

let chosen = null // the run in detail; null for the first in progress
let latest = null // the last answer
let curve = {version: "", points: null}
let measure = null // as chosen by the visitor, null for the most telling
let timer = null
let asking = false

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
  const gone = problem instanceof TypeError // the browser's own words differ
  find("trouble").textContent = gone ? "The page's program has ended. What you see is the last that it told." : problem.message
  find("trouble").hidden = false
  find("again").hidden = false
  find("stop-keys").hidden = true
}

async function look() {
  clearTimeout(timer)
  if (asking || document.hidden) return
  asking = true
  try {
    latest = await ask("runs", {name: chosen, measure, version: curve.version})
    find("trouble").hidden = true
    find("again").hidden = true
    show()
    const late = latest.run !== null && (latest.run.name !== chosen || (measure !== null && latest.run.measures.includes(measure) && latest.run.measure !== measure))
    timer = setTimeout(look, late ? 0 : EVERY_MS) // another was chosen meanwhile
  } catch (problem) {
    complain(problem)
  } finally {
    asking = false
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// Text

const whole = (number) => Intl.NumberFormat("en", {maximumFractionDigits: 0}).format(number)
const precise = (number) => Intl.NumberFormat("en", {maximumSignificantDigits: 4}).format(number)

function duration(seconds) {
  const left = Math.round(seconds)
  const [hours, minutes] = [Math.floor(left / 3600), Math.floor((left % 3600) / 60)]
  if (hours >= 48) return `${Math.round(hours / 24)} days`
  if (hours) return `${hours} h ${minutes} min`
  return minutes ? `${minutes} min ${left % 60} s` : `${left} s`
}

/** Change a text only if it differs, so that nothing that is announced is announced twice. */
function say(id, text) {
  if (find(id).textContent !== text) find(id).textContent = text
}

function stateText(run, one) {
  if (run.stopping && one.state === "training") return "Stopping: it writes a checkpoint"
  if (one.state === "silent") return `Silent for ${duration(run.silent_s)}: it is busy, or was killed`
  if (one.state === "stopped") return `Not in progress: continue with ${resumeCommand(one.name)}`
  return STATES[one.state]
}

/** The command that continues a run, with its name quoted where a shell would split or expand it. */
function resumeCommand(name) {
  const quoted = /^[\w@%+=:,./-]+$/.test(name) ? name : `'${name.replaceAll("'", "'\\''")}'`
  return `train.py --resume ${quoted}`
}

async function copyCommand() {
  try {
    await navigator.clipboard.writeText(`python ${resumeCommand(latest.run.name)}`)
    say("copy", "Copied")
  } catch { // a page from another machine has no clipboard
    say("copy", "Copy it from the line above")
  }
  setTimeout(() => say("copy", "Copy the command"), 2000)
}

// ---------------------------------------------------------------------------------------------------------------------
// Parts

function show() {
  const {runs, run} = latest
  find("none").hidden = runs.length > 0
  find("list").hidden = runs.length < 2
  find("run").hidden = run === null
  if (run === null) return
  if (chosen === null) chosen = run.name
  showList(runs)
  if (run.points !== null || run.measure === null) curve = {version: run.version, points: run.points}
  const one = runs.find((each) => each.name === run.name)
  say("name", one.name)
  say("about", `${one.learner} against ${one.opponent}, ${run.game.text}, seed ${run.seed}`)
  const text = stateText(run, one)
  if (one.state !== "silent" || !find("state").textContent.startsWith("Silent")) say("state", text)
  find("copy").hidden = one.state !== "stopped"
  document.title = `${ENDED.includes(one.state) || !one.total ? STATES[one.state] : ttt.percent(Math.min(1, one.games / one.total))} ${one.name}`
  find("problem").hidden = one.problem === null
  if (one.problem !== null) say("problem", `Not all of it can be read: ${one.problem}`)
  find("progress").value = one.total ? Math.min(1, one.games / one.total) : 0
  say("games", `${whole(one.games)} of ${whole(one.total)}`)
  say("rate", one.games_per_s === null ? "\u2013" : whole(one.games_per_s))
  say("left", one.seconds_left === null ? "\u2013" : duration(one.seconds_left))
  showStop(run)
  showCurve(run)
  showFirst(run)
  showSample(run)
}

function showList(runs) {
  const rows = find("rows")
  while (rows.rows.length > runs.length) rows.deleteRow(-1)
  runs.forEach((one, index) => {
    let row = rows.rows[index]
    if (!row) {
      const button = make("button", {type: "button"})
      button.addEventListener("click", () => choose(button.textContent))
      row = make("tr", {}, make("th", {scope: "row"}, button), ...Array.from({length: 5}, () => make("td")))
      rows.append(row)
    }
    const button = row.querySelector("button")
    if (button.textContent !== one.name) button.textContent = one.name
    if (one.name === chosen) button.setAttribute("aria-current", "true")
    else button.removeAttribute("aria-current")
    const texts = [
      one.state,
      `${whole(one.games)} of ${whole(one.total)}`,
      one.games_per_s === null ? "" : whole(one.games_per_s),
      one.seconds_left === null ? "" : duration(one.seconds_left),
      one.exploitability === null ? "" : precise(one.exploitability),
    ]
    texts.forEach((text, column) => {
      if (row.cells[column + 1].textContent !== text) row.cells[column + 1].textContent = text
    })
  })
}

function choose(name) {
  chosen = name
  curve = {version: "", points: null}
  confirmStop(false)
  look()
}

function showStop(run) {
  const shown = run.stoppable && !run.stopping
  find("stop-keys").hidden = !shown
  if (!shown) confirmStop(false)
  const resumes = run.resumes ? "It writes a checkpoint, and can continue later." : "This learner cannot continue: it would start again with the first game."
  say("confirm-text", run.in_sweep ? `${resumes} Its sweep ends too.` : resumes)
}

function confirmStop(on) {
  if (find("confirm").hidden === !on) return
  find("confirm").hidden = !on
  find("stop").hidden = on
}

function showCurve(run) {
  const {measures, measure: name} = run
  const select = find("measure")
  if ([...select.options].map((option) => option.value).join() !== measures.join()) {
    select.replaceChildren(...measures.map((each) => make("option", {value: each}, each.replaceAll("_", " "))))
  }
  const known = curve.points !== null
  find("no-curve").hidden = known
  select.disabled = !known
  say("last-name", known ? name.replaceAll("_", " ") : "last measured")
  say("last", known ? precise(curve.points.at(-1)[1]) : "\u2013")
  if (!known) {
    find("curve").replaceChildren()
    return
  }
  if (select.value !== name && document.activeElement !== select) select.value = name
  const width = find("curve").clientWidth
  const drawn = `${curve.version} ${width}`
  if (find("curve").dataset.drawn === drawn) return
  find("curve").dataset.drawn = drawn
  const title = name.replaceAll("_", " ")
  find("curve").replaceChildren(charts.learning(curve.points.map(([games, value]) => ({games, [title]: value})), title, width))
}

/** A board in an element, made once for its edges. */
function boardIn(id, game, label) {
  const element = find(id)
  const edges = `${game.rows} x ${game.columns}`
  if (element.dataset.edges !== edges) {
    element.dataset.edges = edges
    element.board = ttt.createBoard(element, {rows: game.rows, columns: game.columns, label})
  }
  return element.board
}

function showFirst(run) {
  const first = run.first
  find("first").hidden = first === null
  find("what").disabled = first === null || first.values === null
  if (first === null) {
    say("first-about", "It is not known yet.")
    return
  }
  const kind = first.values === null ? "probabilities" : find("what").value
  find("what").value = kind
  const numbers = first[kind]
  const most = Math.max(...numbers)
  const best = [...numbers.keys()].filter((cell) => numbers[cell] > most - 1e-9)
  const alike = best.length === numbers.length
  const narrow = run.game.columns <= 4
  boardIn("first", run.game, "the first move").show({
    cells: numbers.map(() => 0),
    values: numbers,
    format: kind === "values" ? (value) => ttt.signed(value, narrow ? 3 : 2) : ttt.percent,
    scale: Math.max(1, ...numbers.map(Math.abs)),
    chosen: alike ? [] : best,
    word: kind === "values" ? "value" : "probability",
  })
  say("first-about", `On the empty board, after ${whole(first.games)} games, without exploration.${alike ? " All moves are alike." : ""}`)
}

function showSample(run) {
  const sample = run.sample
  find("sample").hidden = sample === null
  find("moves").hidden = sample === null
  if (sample === null) {
    say("sample-result", "")
    say("sample-about", "A game is played now and then while the run is watched.")
    return
  }
  const parsed = ttt.fromText(sample.position)
  boardIn("sample", run.game, "the end of the game").show({cells: parsed.cells, last: sample.last, line: sample.line, legal: []})
  say("sample-result", sample.result === "draw" ? "A draw" : `${sample.result} has won`)
  const key = `${sample.games} ${sample.moves}`
  if (find("moves").dataset.drawn !== key) {
    find("moves").dataset.drawn = key
    const stone = (mover) => make("span", {class: mover}, mover)
    find("moves").replaceChildren(
      ...sample.moves.split(" ").map((move, number) => {
        const skipped = move.endsWith("+")
        return make("li", {}, stone(sample.movers[number]), ` ${move.replace("+", "")}`, ...(skipped ? [make("span", {"aria-hidden": "true"}, " \u21bb"), make("span", {class: "unseen"}, ", then a skip")] : []))
      }),
    )
  }
  say("sample-about", `After ${whole(sample.games)} games, without exploration. o: ${sample.players[0]}, x: ${sample.players[1]}.`)
}

// ---------------------------------------------------------------------------------------------------------------------
// Events

find("measure").addEventListener("change", () => {
  measure = find("measure").value
  look()
})
find("what").addEventListener("change", () => showFirst(latest.run))
find("again").addEventListener("click", look)
find("copy").addEventListener("click", copyCommand)
find("stop").addEventListener("click", () => {
  confirmStop(true)
  find("stop-now").focus()
})
find("go-on").addEventListener("click", () => {
  confirmStop(false)
  find("stop").focus()
})
find("stop-now").addEventListener("click", async () => {
  try {
    await ask("stop", {name: chosen})
    look()
  } catch (problem) {
    complain(problem)
  }
})
document.addEventListener("visibilitychange", look)
new ResizeObserver(() => latest !== null && latest.run !== null && showCurve(latest.run)).observe(find("curve"))
look()
