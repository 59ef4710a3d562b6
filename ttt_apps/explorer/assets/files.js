// Logged games, and runs with their learning curves.
"use strict"

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
    Object.assign(state, fromGame(answer.game), {opening: answer.opening, o: YOU, x: YOU})
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
  state.run = found.name
  if (!state.panels.includes("run")) state.panels = Object.keys(PANELS).filter((kind) => kind === "run" || state.panels.includes(kind))
  begin({...fromGame(found.game), rank: null})
  find("views-title").scrollIntoView({block: "start"})
}
