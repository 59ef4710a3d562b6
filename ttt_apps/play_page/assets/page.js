// What is seen and chosen on the page. Rules and numbers are `exact`'s, the board is `ttt`'s.
"use strict"

{
  const OPPONENTS = {
    random: {name: "Random", said: "Random", about: "Chooses every free cell with the same probability."},
    table: {
      name: "Table",
      said: "the table",
      about: "Stores the mean result of random games from every board, and prefers moves with high numbers.",
    },
    net: {
      name: "Learned net",
      said: "the net",
      about: "A small neural net, trained by 10,000 games against itself. It plays the move that it values most.",
    },
    svd: {name: "Compressed table", said: "the compressed table", about: "The table, compressed. The slider sets how much of it is stored."},
    optimal: {name: "Perfect play", said: "perfect play", about: "Uses the exact value of every move. No player does better."},
  }
  const SHOWS = {values: "Its values", likely: "How often it plays there", nothing: "None"}
  const PAUSE = 700 // milliseconds before the opponent moves
  const SKIP_PAUSE = 1500 // and where that is again, so that it is seen that somebody was skipped
  const FIRST_RANK = 18
  const MAX_SEED = 999999
  const RULES = {gravity: "gravity", "no-overlines": "no overlines", misere: "mis\u00e8re", torus: "torus"}
  const ABOUT_RULES = {
    gravity: "Stones fall to the lowest empty cell of their column.",
    "no-overlines": "Lines that are longer do not count.",
    misere: "A player who completes a line loses.",
    torus: "Lines continue across the edges.",
  }
  const PARTS = ["against", "rank", "board", "rules", "skip", "you", "seed", "position", "moves"] // of a link

  const inside = JSON.parse(document.getElementById("numbers").textContent)
  const known = exact.read(inside)
  const at = (id) => document.getElementById(id)
  const {make, draw, rich, signed, percent} = ttt
  const stone = (player) => "ox"[player]
  const plain = (value, digits = 2) => value.toFixed(digits)

  const state = {against: "table", rank: FIRST_RANK, board: "3x3", rules: [], skip: 2, you: 0, seed: 1, first: null, moves: [], show: "values"}
  let whole = [] // of the game so far: {before, cell, skipped, lost}
  let plies = [] // those up to the position that is seen
  let now = null
  let timer = 0
  let written = ""

  const game = () => known.game(state.board, state.rules, state.skip)
  const rules = () => game().rules
  const nameOf = (against) => OPPONENTS[against].name
  const opponent = () => OPPONENTS[state.against].said
  const first = (text) => text[0].toUpperCase() + text.slice(1)
  const outcome = () => rules().outcomeOf(now.cells)
  const yours = () => outcome() === null && now.mover === state.you
  const ask = (position, against = state.against) => exact.ask(game(), against, state.rank, position)
  const bestOf = (values) => Math.max(...values.filter((value) => !Number.isNaN(value)))
  const square = (cell) => ttt.coordinate(cell, rules().columns)
  const begun = () => rules().start()

  // -------------------------------------------------------------------------------------------------------------------
  // The game

  /** Play the moves of the state again, from its first position; false where they cannot be played. */
  function replay() {
    whole = plies = []
    now = state.first
    for (const cell of state.moves) {
      if (outcome() !== null || !rules().legal(now.cells).includes(cell)) return false
      const values = ask(now, "optimal").values
      const {position, skipped} = exact.play(game(), now, cell, state.seed)
      whole.push({before: now, cell, skipped, lost: bestOf(values) - values[cell]})
      now = position
    }
    return true
  }

  const isPast = () => plies.length < whole.length

  /** See the position after so many moves; a move from there replaces the later ones. */
  function look(count) {
    replay()
    if (count < whole.length) now = whole[count].before
    plies = whole.slice(0, count)
    show()
  }

  function move(cell) {
    state.moves.length = plies.length
    state.moves.push(cell)
    replay()
    show(true)
  }

  /** Begin a game, with changes of the state. */
  function restart(changes) {
    Object.assign(state, {moves: []}, changes)
    state.first = begun()
    if (!exact.plays(game(), state.against)) state.against = "table"
    replay()
    show()
  }

  /** The opponent's move, by the seed of the game. */
  function reply() {
    if (outcome() !== null || yours()) return
    move(exact.draw(ask(now).probabilities, now, state.seed))
  }

  function undo() {
    const last = plies.findLastIndex(({before}) => before.mover === state.you)
    if (last < 0) return
    state.moves.length = last
    replay()
    show()
  }

  // -------------------------------------------------------------------------------------------------------------------
  // Links: all that decides a game stands behind the #

  function linkOf() {
    const parts = {against: state.against, ...(state.against === "svd" ? {rank: state.rank} : {})}
    if (state.board !== "3x3") parts.board = state.board
    if (state.rules.length > 0) parts.rules = state.rules.join(".")
    Object.assign(parts, {skip: game().skip, you: stone(state.you), seed: state.seed})
    const textOf = (position) => ttt.toText({columns: rules().columns, ...position}).replace(" ", "_")
    if (textOf(state.first) !== textOf(begun())) parts.position = textOf(state.first)
    if (state.moves.length > 0) parts.moves = state.moves.map(square).join("")
    return "#" + Object.entries(parts).map((pair) => pair.join("=")).join("&")
  }

  /** Take over what a link says; false where it says what cannot be. */
  function follow(link) {
    const parts = Object.fromEntries(link.replace(/^#/, "").split("&").filter(Boolean).map((part) => part.split("=")))
    if (!Object.keys(parts).every((name) => PARTS.includes(name))) return false
    const number = (text, most) => (/^\d{1,6}$/.test(text) && Number(text) <= most ? Number(text) : -1)
    const found = {board: parts.board ?? "3x3", rules: [], moves: []}
    if (!Object.hasOwn(known.boards, found.board)) return false
    const {rows, columns, gravity} = known.boards[found.board]
    const named = new Set([...(parts.rules ?? "").split(".").filter(Boolean), ...(gravity ? ["gravity"] : [])])
    if (![...named].every((name) => exact.RULES.includes(name))) return false
    found.rules = exact.RULES.filter((name) => named.has(name))
    if (parts.against !== undefined) found.against = parts.against
    if (parts.rank !== undefined) found.rank = number(parts.rank, known.ranks)
    if (parts.skip !== undefined) found.skip = known.skips.map(String).indexOf(parts.skip)
    if (parts.you !== undefined) found.you = ["o", "x"].indexOf(parts.you)
    if (parts.seed !== undefined) found.seed = number(parts.seed, MAX_SEED)
    if (parts.position !== undefined) {
      const read = ttt.fromText(parts.position.replace(/_|%20/, " "))
      found.first = read && read.rows === rows && read.columns === columns ? {cells: read.cells, mover: read.mover} : null
    }
    if (parts.moves !== undefined) {
      if (!/^([a-d][1-4])*$/.test(parts.moves)) return false
      const places = (parts.moves.match(/../g) ?? []).map((name) => ["abcd".indexOf(name[0]), name[1] - 1])
      if (places.some(([column, row]) => column >= columns || row >= rows)) return false
      found.moves = places.map(([column, row]) => column + columns * row)
    }
    const wrong = (value) => value === -1 || value === null
    if (Object.values(found).some(wrong) || !(found.against === undefined || Object.hasOwn(OPPONENTS, found.against))) return false
    const before = {...state}
    Object.assign(state, found)
    if (found.first === undefined) state.first = begun()
    if (exact.plays(game(), state.against) && exact.occurs(game(), state.first) && replay()) return true
    Object.assign(state, before)
    replay()
    return false
  }

  function remember() {
    written = linkOf()
    if (location.hash === written) return
    try {
      history.replaceState(null, "", written)
    } catch {
      location.replace(written)
    }
  }

  // -------------------------------------------------------------------------------------------------------------------
  // What is drawn

  let board = null
  let truth = null

  /** Make the boards of a game, unless they are there. */
  function makeBoards() {
    const {rows, columns, gravity: drops} = rules()
    if (board !== null && board.rows === rows && board.columns === columns && board.drops === drops) return
    board = ttt.createBoard(at("board"), {rows, columns, drops, label: "Your board", onPlay: (cell) => yours() && move(cell)})
    truth = ttt.createBoard(at("truth"), {rows, columns, label: "Exact values of the moves"})
  }

  function showStatus(fresh) {
    const result = outcome()
    const you = stone(state.you)
    const box = at("status-box")
    const said = {[exact.DRAW]: "A draw.", [state.you]: "You win!", [1 - state.you]: `${first(opponent())} wins.`}
    const loser = result === null || result === exact.DRAW || !rules().misere ? "" : ` ${stone(1 - result)} completed a line.`
    at("status").textContent =
      result !== null ? said[result] + loser : yours() ? `Your turn: you are ${you}.` : `${first(opponent())}’s turn: it is ${stone(1 - state.you)}.`
    box.classList.toggle("won", result === 0)
    box.classList.toggle("lost", result === 1)
    const last = plies.at(-1)
    const line = at("skip-said")
    line.className = ""
    line.textContent = ""
    if (last && last.skipped) {
      const again = now.mover === state.you ? "you move again" : `${stone(now.mover)} moves again`
      const who = now.mover === state.you ? `${stone(1 - now.mover)} was skipped` : "You were skipped"
      line.textContent = `${who}: ${again}.`
      line.className = `${stone(1 - now.mover)}${fresh ? " fresh" : ""}`
    }
    if (isPast()) at("status").textContent += ` Move ${plies.length} of ${whole.length}.`
    const thinking = result === null && !yours()
    const waits = at("wait").checked || isPast()
    at("go").hidden = !(thinking && waits)
    box.nextElementSibling.firstElementChild.classList.toggle("thinking", thinking && !waits)
    at("undo").disabled = !plies.some(({before}) => before.mover === state.you)
  }

  function showBoards() {
    const result = outcome()
    const line = rules().lineOf(now.cells)
    const lineWord = rules().misere ? "losing line" : "winning line"
    const mover = result === null ? now.mover : null
    const last = plies.length > 0 ? [plies.at(-1).cell] : []
    const shared = {cells: now.cells, mover, last, line, lineWord}
    const asked = result === null ? ask(now) : null
    const right = result === null ? ask(now, "optimal").values : null
    const free = rules().legal(now.cells)
    const values = {values: asked?.values, likely: asked?.probabilities, nothing: null}[state.show] ?? null
    const ofMoves = (numbers) => numbers && numbers.map((number, cell) => (free.includes(cell) ? number : null))
    board.show({
      ...shared,
      legal: yours() ? free : [],
      values: ofMoves(values),
      format: state.show === "likely" ? percent : signed,
      word: state.show === "likely" ? "probability" : "its value",
    })
    const whose = yours() ? "your moves" : `${stone(now.mover)}’s moves`
    const captions = {
      values: asked?.values === null ? "Random has no values." : `${first(opponent())}’s values of ${whose}: −1 is lost, +1 is won.`,
      likely: yours() ? `How often ${opponent()} would play there in your place.` : `How often ${opponent()} plays there.`,
      nothing: "",
    }
    at("caption").textContent = result === null ? captions[state.show] : ""
    const best = right === null ? [] : [...right.keys()].filter((cell) => right[cell] >= bestOf(right) - 1e-6)
    truth.show({...shared, values: ofMoves(right), chosen: best})
    const who = yours() ? "you" : stone(now.mover)
    at("truth-about").textContent = `For ${who}, to move now, with perfect play by both afterwards. The best are framed.`
    at("moves-card").hidden = result !== null
    at("wrong-head").textContent = result === null ? "Its mistakes" : "Value lost"
    at("new").classList.toggle("first", result !== null)
    showValue()
    showWrong(asked, right)
  }

  function showValue() {
    const value = exact.value(game(), now)
    at("needle").style.left = `${50 - 48 * value}%`
    const result = outcome()
    const side = Math.abs(value) < 0.005 ? "Even" : `${stone(value > 0 ? 0 : 1)} is ahead`
    const sure = Math.abs(value) > 0.9995
    const said =
      result !== null
        ? {0: "o has won: *+1*.", 1: "x has won: *+1*.", 2: "A draw: *0*."}[result]
        : sure
          ? `${stone(value > 0 ? 0 : 1)} wins for sure with perfect play.`
          : `${side}: *${signed(Math.abs(value), 3)}* on average, if both play perfectly from here.`
    at("value").replaceChildren(...rich(said))
  }

  function showWrong(asked, right) {
    const sum = (mine) => plies.reduce((total, {before, lost}) => total + ((before.mover === state.you) === mine ? lost : 0), 0)
    const sentences = []
    if (asked !== null) {
      const best = bestOf(right)
      const lost = right.reduce((total, value, cell) => total + (Number.isNaN(value) ? 0 : asked.probabilities[cell] * (best - value)), 0)
      if (asked.values !== null) sentences.push(`Its value of the best move is *${signed(bestOf(asked.values))}*. The exact value is *${signed(best)}*.`)
      if (lost < 0.0005) sentences.push(yours() ? "In your place it would make no mistake." : "It makes no mistake here.")
      else {
        const most = Math.max(...asked.probabilities)
        const favourite = asked.probabilities.indexOf(most)
        const wrong = best - right[favourite]
        const only = asked.probabilities.filter((share) => share > most - 1e-6).length === 1
        sentences.push(`${yours() ? "In your place it would lose" : "It loses"} *${plain(lost)}* of value on average${only && wrong > 0.0005 ? `: its favourite, ${square(favourite)}, loses ${plain(wrong)}` : ""}.`)
      }
    }
    at("practise").hidden = !mistakes().length
    const [its, own] = [sum(false), sum(true)]
    const named = asked === null ? first(opponent()) : "So far it"
    if (asked === null && its + own < 0.0005) {
      sentences.push(outcome() === exact.DRAW ? "There was no mistake." : "There was no mistake: chance has decided.")
    } else if (plies.length > 0) sentences.push(`${named} has lost *${plain(its)}* of value by mistakes, and you *${plain(own)}*.`)
    at("wrong").replaceChildren(...rich(sentences.join(" ")))
  }

  function showMoves() {
    const items = whole.flatMap(({before, cell, skipped, lost}, number) => {
      const player = stone(before.mover)
      const button = make("button", {type: "button"}, make("b", {class: player}, player), ` ${square(cell)}`)
      if (lost > 0.005) button.append(make("small", {}, ` \u2212${plain(lost)}`))
      if (number === plies.length - 1) button.setAttribute("aria-current", "true")
      button.addEventListener("click", () => look(number + 1))
      const move = make("li", {}, button)
      const other = 1 - before.mover
      return skipped ? [move, make("li", {class: `skip ${stone(other)}`}, `${stone(other)} skipped`)] : [move]
    })
    at("moves").replaceChildren(...items)
    at("moves").hidden = items.length === 0
  }

  function barOf({win, draw, loss}) {
    const bar = make("div", {class: "bar", role: "img", "aria-label": `${percent(win)} won, ${percent(draw)} drawn, ${percent(loss)} lost`})
    for (const [kind, share] of Object.entries({win, draw, loss})) {
      if (share < 0.0005) continue
      const part = make("span", {class: share < 0.3 ? `${kind} few` : kind}, share >= 0.13 ? percent(share) : "")
      part.style.flexGrow = share
      part.style.flexBasis = 0
      bar.append(part)
    }
    return bar
  }

  function showStrengths() {
    const rated = Object.keys(OPPONENTS).filter((against) => exact.strength(game(), against, state.rank) !== null)
    const rows = rated.map((against) => {
      const numbers = exact.strength(game(), against, state.rank)
      const name = against === "svd" ? `${nameOf(against)}, rank ${state.rank}` : nameOf(against)
      const row = make("tr", against === state.against ? {class: "now"} : {})
      row.append(make("th", {scope: "row"}, name), make("td", {}, make("div", {class: "result"}, barOf(numbers), make("span", {}, signed(numbers.win - numbers.loss, 3)))), make("td", {}, plain(numbers.exploitability, 3)))
      return row
    })
    at("table").tBodies[0].replaceChildren(...rows)
    at("table").hidden = at("strengths-key").hidden = rows.length === 0
    const chance = game().skip === 0 ? "Without skips" : `With a skip chance of ${percent(game().skip)}`
    const missing = rows.length === 0 ? " The strength of opponents is listed for 3 \u00d7 3." : ""
    at("strengths-about").textContent = `${chance}, perfect play from the empty board has the value ${signed(game().value, 3)} for o, the first player.${missing}`
    at("trained").hidden = game().training === undefined
    at("trained").replaceChildren("The net was trained by ", make("code", {}, game().training ?? ""), ".")
  }

  function showRank() {
    at("rank-card").hidden = state.against !== "svd"
    if (state.against !== "svd") return
    const {error, exploitability, compression_ratio} = game().ranks
    const {rank} = state
    at("rank").value = rank
    at("rank-now").textContent = rank
    at("rank-said").replaceChildren(
      ...rich(`It stores *${percent(compression_ratio[rank])}* of the numbers, with an error of *${plain(error[rank], 3)}*. It is exploitable by *${plain(exploitability[rank], 3)}*.`),
    )
    const [left, top, width, height] = [26, 8, 326, 130]
    const x = (index) => left + (width * index) / known.ranks
    const y = (value) => top + height * (1 - value)
    const curve = (numbers) => "M" + numbers.map((value, index) => `${x(index).toFixed(1)} ${y(value).toFixed(1)}`).join("L")
    const svg = draw("svg", {
      viewBox: `0 0 ${left + width + 8} ${top + height + 34}`,
      role: "img",
      "aria-label": `Error and exploitability by rank, from 0 to ${known.ranks}. At rank ${rank} the error is ${plain(error[rank], 3)} and the exploitability ${plain(exploitability[rank], 3)}.`,
    })
    for (const value of [0, 0.5, 1]) {
      svg.append(draw("path", {class: "rule", d: `M${left} ${y(value)}h${width}`}), draw("text", {x: left - 6, y: y(value) + 4, "text-anchor": "end"}, String(value)))
    }
    for (const index of [0, 25, 50, known.ranks]) {
      svg.append(draw("text", {x: x(index), y: y(0) + 16, "text-anchor": "middle"}, String(index)))
    }
    svg.append(
      draw("text", {x: x(known.ranks / 2), y: y(0) + 31, "text-anchor": "middle"}, "rank"),
      draw("path", {class: "here", d: `M${x(rank)} ${y(1)}V${y(0)}`}),
      draw("path", {class: "error", d: curve(error)}),
      draw("path", {class: "exploitability", d: curve(exploitability)}),
      draw("circle", {class: "dot-error", cx: x(rank), cy: y(error[rank]), r: 5}),
      draw("circle", {class: "dot-exploitability", cx: x(rank), cy: y(exploitability[rank]), r: 5}),
      draw("text", {class: "error-word", x: left + width, y: y(0.9), "text-anchor": "end"}, "- - error"),
      draw("text", {class: "exploitability-word", x: left + width, y: y(0.78), "text-anchor": "end"}, "\u2014 exploitability"),
    )
    at("curve").replaceChildren(svg)
  }

  function showChoices() {
    for (const [name, value] of Object.entries({against: state.against, board: state.board, skip: state.skip, you: state.you, show: state.show})) {
      document.querySelector(`input[name="${name}"][value="${value}"]`).checked = true
    }
    for (const name of exact.RULES) {
      const box = document.querySelector(`input[name="rules"][value="${name}"]`)
      box.checked = state.rules.includes(name)
      box.disabled = name === "gravity" && known.boards[state.board].gravity
    }
    for (const name of Object.keys(OPPONENTS)) document.querySelector(`input[name="against"][value="${name}"]`).disabled = !exact.plays(game(), name)
    const others = exact.plays(game(), "net") ? "" : " The net and the compressed table know only 3 \u00d7 3 by the standard rules."
    at("about").textContent = OPPONENTS[state.against].about + others
    const said = [`${first(ttt.rulesText(rules()))}.`, ...state.rules.map((name) => ABOUT_RULES[name])]
    if (state.board === "3x3" && state.rules.includes("no-overlines")) said.push("On 3 \u00d7 3 no line is longer than three.")
    if (known.boards[state.board].gravity) said.push("Without gravity this board has too many positions for this page.")
    at("rules-about").textContent = said.join(" ")
    at("seed").value = state.seed
  }

  /** Draw all; fresh: a move was just made; kept: the address of the page says it too. */
  function show(fresh = false, kept = true) {
    clearTimeout(timer)
    showChoices()
    makeBoards()
    showRank()
    showStatus(fresh)
    showBoards()
    showMoves()
    showStrengths()
    at("link-said").textContent = ""
    at("link-text").hidden = true
    if (kept) remember()
    if (outcome() === null && !yours() && !at("wait").checked && !isPast()) {
      timer = setTimeout(reply, plies.at(-1)?.skipped ? SKIP_PAUSE : PAUSE)
    }
  }

  // -------------------------------------------------------------------------------------------------------------------
  // Puzzles

  /** The name of the board of a game; undefined where there is none here. */
  function boardOf({rows, columns, win_length: win, gravity = false}) {
    const fits = ([, one]) => one.rows === rows && one.columns === columns && one.win_length === win && (gravity || !one.gravity)
    return Object.entries(known.boards).find(fits)?.[0]
  }

  const trainer = puzzles.createTrainer(at("trainer"), {
    canOpen: ({game}) => boardOf(game) !== undefined && known.skips.includes(game.skip_chance),
    onOpen: ({game: asked, position}) => {
      const named = exact.toNames(asked).join(".")
      const where = `board=${boardOf(asked)}${named ? `&rules=${named}` : ""}&skip=${asked.skip_chance}`
      location.hash = `#against=optimal&${where}&you=${position.at(-1)}&seed=${state.seed}&position=${position.replace(" ", "_")}`
      at("status-box").scrollIntoView({block: "start"})
    },
  })

  /** Your moves of this game that lost value. */
  const mistakes = () => whole.filter(({before, lost}) => before.mover === state.you && lost > 0.0005)

  /** A move of this game that lost value, as a puzzle. */
  function toPuzzle({before, cell, lost}) {
    const listOf = (values) => values.map((value) => (Number.isNaN(value) ? null : value))
    const bestCells = (values) => [...values.keys()].filter((one) => values[one] >= bestOf(values) - 1e-6)
    const values = ask(before, "optimal").values
    const replies = values.map((value, one) => {
      if (Number.isNaN(value)) return []
      const cells = [...before.cells]
      cells[one] = before.mover + 1
      return rules().outcomeOf(cells) === null ? bestCells(ask({cells, mover: 1 - before.mover}, "optimal").values) : []
    })
    return {
      game: {...rules(), skip_chance: game().skip},
      position: ttt.toText({columns: rules().columns, ...before}),
      values: listOf(values),
      best: bestCells(values),
      tempting: [cell],
      why: "You",
      loss: lost,
      replies,
      wrong: {},
      level: 0,
    }
  }

  function practise(own) {
    trainer.load(own ? mistakes().map(toPuzzle) : inside.puzzles, "", !own)
    at("all-puzzles").hidden = !own
    if (own) at("puzzles").scrollIntoView({block: "start"})
  }

  // -------------------------------------------------------------------------------------------------------------------
  // What is chosen

  function picks(place, name, words, choose, type = "radio") {
    for (const [value, word] of Object.entries(words)) {
      const input = make("input", {type, name, value, autocomplete: "off"})
      input.addEventListener("change", () => choose(value))
      at(place).append(make("label", {}, input, make("span", {}, word)))
    }
  }

  async function copyLink() {
    const copied = await ttt.copy(location.href, at("link-text"))
    at("link-said").textContent = copied ? "Copied: the link opens this game." : "Copy this link: it opens this game."
  }

  picks("opponents", "against", Object.fromEntries(Object.entries(OPPONENTS).map(([key, {name}]) => [key, name])), (value) => {
    state.against = value
    show()
  })
  picks("boards", "board", Object.fromEntries(Object.entries(known.boards).map(([name, {rows, columns}]) => [name, `${rows} \u00d7 ${columns}`])), (value) => {
    const kept = state.rules.filter((name) => name !== "gravity" || !known.boards[state.board].gravity)
    restart({board: value, rules: exact.RULES.filter((name) => kept.includes(name) || (name === "gravity" && known.boards[value].gravity))})
  })
  picks("rules", "rules", RULES, (value) => restart({rules: exact.RULES.filter((name) => state.rules.includes(name) !== (name === value))}), "checkbox")
  picks("skips", "skip", Object.fromEntries(known.skips.map((skip, index) => [index, skip === 0 ? "none" : percent(skip)])), (value) =>
    restart({skip: Number(value)}),
  )
  picks("seats", "you", {0: "o, first", 1: "x, second"}, (value) => restart({you: Number(value)}))
  picks("shows", "show", SHOWS, (value) => {
    state.show = value
    show()
  })
  at("rank").max = known.ranks
  at("rank").addEventListener("input", () => {
    state.rank = Number(at("rank").value)
    show(false, false)
  })
  at("rank").addEventListener("change", remember) // browsers let the address be changed only so often
  at("seed").addEventListener("change", () => {
    const seed = Math.min(MAX_SEED, Math.max(0, Math.floor(Number(at("seed").value)) || 0))
    restart({seed})
  })
  at("choices").addEventListener("submit", (event) => event.preventDefault())
  at("undo").addEventListener("click", undo)
  at("new").addEventListener("click", () => restart({seed: (state.seed + 1) % (MAX_SEED + 1)}))
  at("swap").addEventListener("click", () => restart({you: 1 - state.you}))
  at("link").addEventListener("click", copyLink)
  at("go").addEventListener("click", () => {
    reply()
    if (at("go").hidden) board.focus()
  })
  at("wait").addEventListener("change", () => show())
  at("to-board").addEventListener("click", (event) => {
    event.preventDefault()
    board.focus()
  })
  at("practise").addEventListener("click", () => practise(true))
  at("all-puzzles").addEventListener("click", () => practise(false))
  at("tasks").addEventListener("click", (event) => {
    if (event.target.closest("a")) at("status-box").scrollIntoView({block: "start"})
  })
  at("exact").addEventListener("change", () => at("game").classList.toggle("alone", !at("exact").checked))
  window.addEventListener("hashchange", () => {
    if (location.hash !== written) arrive()
  })

  function arrive() {
    const number = puzzles.numberIn(location.hash)
    if (number !== null) return openPuzzle(number)
    const good = follow(location.hash)
    show()
    if (!good) at("link-said").textContent = "That link names no game that can be played: here is another one."
  }

  /** Show a puzzle of the set, and leave the game as it is. */
  function openPuzzle(number) {
    practise(false)
    show()
    if (trainer.open(number)) at("puzzles").scrollIntoView({block: "start"})
    else at("link-said").textContent = `There is no puzzle ${number}: the set has ${inside.puzzles.length}.`
  }

  state.first = now = begun()
  state.seed = crypto.getRandomValues(new Uint32Array(1))[0] % 1000
  practise(false)
  for (const id of ["choices", "game", "puzzles", "tasks", "strengths"]) at(id).hidden = false
  arrive()
}
