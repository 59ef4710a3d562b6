// Puzzles: positions where an obvious move loses value. Every value is in the puzzle, as `evaluate.py puzzles --json`
// prints it, so that an answer is checked here.
"use strict"

const puzzles = (() => {
  const {make, rich, signed} = ttt
  const TIE = 1e-6
  const REASONS = {wins: "it completes a line", blocks: "it blocks a line", extends: "it makes the longest open line"}

  const bestValue = (values) => Math.max(...values.filter((value) => value !== null))
  const digitsOf = (game) => (game.skip_chance === 0 ? 0 : 3) // without skips values are whole numbers
  const plain = (value, game) => Math.abs(value).toFixed(digitsOf(game))
  const stone = (mover) => make("span", {class: mover}, mover)

  function gameText(game) {
    const skips = game.skip_chance === 0 ? "no skips" : `${ttt.percent(game.skip_chance)} skips`
    return `${game.rows} x ${game.columns}, ${ttt.rulesText(game)}, ${skips}`
  }

  const listed = (cells, columns, joint = "or") => cells.map((cell) => ttt.coordinate(cell, columns)).join(", ").replace(/, ([^,]*)$/, ` ${joint} $1`)

  /** What a move loses of the value `top` of the `best` ones, and the best reply to it, as text for rich(); `whose` says
   * whose move it was, once it is played. */
  function verdictOf({game, mover, top, best, replies, whose}, cell, loss) {
    const columns = game.columns
    const digits = digitsOf(game)
    const name = ttt.coordinate(cell, columns)
    const right = loss <= TIE
    const others = best.filter((place) => place !== cell)
    const [is, are, loses, joint] = whose ? ["was", "were", "lost", ";"] : ["is", "are", "loses", ", and"]
    const move = whose ? `${whose} *${name}*` : `*${name}*`
    const also = others.length ? `${joint} so ${others.length > 1 ? are : is} ${listed(others, columns, "and")}` : ""
    const sentences = right
      ? [`${move} ${is} best${also}. Its value is *${signed(top, digits)}*.`]
      : [`${move} ${loses} *${plain(loss, game)}*: its value is ${signed(top - loss, digits)}. Best ${is} *${listed(best, columns)}*, with *${signed(top, digits)}*.`]
    if (replies[cell]?.length) sentences.push(`The best reply to ${name}: ${mover === "o" ? "x" : "o"} ${listed(replies[cell], columns)}.`)
    const answer = best[0]
    if (!right && replies[answer]?.length) sentences.push(`To ${ttt.coordinate(answer, columns)} it ${is} ${listed(replies[answer], columns)}.`)
    return sentences.join(" ")
  }

  function temptingText({game, values, tempting, why, loss}) {
    const columns = game.columns
    const names = listed(tempting.slice(0, 4), columns)
    if (why in REASONS) {
      const many = tempting.length > 1
      return `${many ? "Obvious moves are" : "The obvious move is"} *${names}*, as ${many ? "each of them" : "it"}${REASONS[why].replace(/^it/, "")}; ${many ? "the best of them" : "it"} loses *${plain(loss, game)}*.`
    }
    const lost = tempting.length === 1 ? plain(bestValue(values) - values[tempting[0]], game) : plain(loss, game)
    return `${why} played *${names}*${tempting.length > 4 ? ", or another" : ""}, and lost *${lost}*${tempting.length > 1 ? " on average" : ""}.`
  }

  function gradeText({wrong, level}) {
    const shares = Object.entries(wrong)
    if (!shares.length) return ""
    const many = shares.filter(([, share]) => share > 0.5).length
    return ` Level ${level} of 3: ${many} of ${shares.length} policies are more often wrong than right here.`
  }

  /**
   * Put a trainer into an element, replacing its content; onOpen(puzzle) opens a position elsewhere.
   *
   * Returns {load(list, empty, linked), open(number)}: show a list of puzzles, where `empty` is the sentence for a list
   * without any, and `linked` says that a number in an address finds a puzzle; show one, from 1. It is false if there is
   * none of that number.
   */
  function createTrainer(element, onOpen) {
    let all = []
    let selection = []
    let at = 0
    let answered = null // the cell that was chosen, -1 for the answer alone, null before
    let board = null
    let linked = false
    const tried = new Map() // the first try at each puzzle: whether it was right

    const sort = make("select", {"aria-label": "Which puzzles"})
    const back = make("button", {type: "button", "aria-label": "Previous puzzle"}, "\u2190")
    const forward = make("button", {type: "button", "aria-label": "Next puzzle"}, "\u2192")
    const count = make("span", {class: "count"})
    const task = make("p", {class: "task"})
    const place = make("div", {class: "puzzle-board"})
    const answer = make("p", {class: "answer", role: "status"})
    const reveal = make("button", {type: "button"}, "Show the answer")
    const retry = make("button", {type: "button"}, "Try again")
    const next = make("button", {type: "button", class: "first"}, "Next puzzle")
    const open = make("button", {type: "button"}, "Play on from here")
    const link = make("a", {class: "button"}, "Link to this puzzle")
    const score = make("p", {class: "quiet"})
    const keys = make("div", {class: "keys buttons"}, next, reveal, retry, open, link)
    const body = make("div", {class: "puzzle"}, place, make("div", {}, task, answer, keys, score))
    const nothing = make("p", {class: "quiet"})
    const bar = make("div", {class: "puzzle-bar"}, sort, back, count, forward)
    element.replaceChildren(bar, nothing, body)

    function choose(value) {
      const [kind, word] = [value.slice(0, 1), value.slice(1)]
      selection = all.filter((puzzle) => kind === "a" || (kind === "l" ? String(puzzle.level) === word : gameText(puzzle.game) === word))
      go(0)
    }

    function go(number) {
      at = (number + selection.length) % selection.length
      answered = null
      draw()
    }

    function guess(cell) {
      if (answered !== null) return
      const puzzle = selection[at]
      if (!tried.has(puzzle)) tried.set(puzzle, cell >= 0 && puzzle.best.includes(cell))
      answered = cell
      draw()
      next.focus({preventScroll: true})
    }

    function draw() {
      const puzzle = selection[at]
      const {rows, columns, gravity: drops = false} = puzzle.game
      const mover = puzzle.position.at(-1)
      const isAnswered = answered !== null
      if (board === null || board.rows !== rows || board.columns !== columns || board.drops !== drops) {
        board = ttt.createBoard(place, {rows, columns, drops, label: "Puzzle", onPlay: guess})
      }
      board.label(`Puzzle ${at + 1}: ${mover} to move; arrow keys move, Enter plays`)
      board.show({
        cells: ttt.fromText(puzzle.position).cells,
        mover: "ox".indexOf(mover),
        legal: isAnswered ? [] : [...puzzle.values.keys()].filter((cell) => puzzle.values[cell] !== null),
        values: isAnswered ? puzzle.values : null,
        format: (value) => signed(value, Math.min(digitsOf(puzzle.game), columns > 3 ? 2 : 3)),
        chosen: isAnswered ? puzzle.best : [],
      })
      count.textContent = `${at + 1} of ${selection.length}`
      task.replaceChildren(`${gameText(puzzle.game)}. `, make("strong", {}, stone(mover), " to move"), ": which move is best?", gradeText(puzzle))
      const top = bestValue(puzzle.values)
      const isRight = puzzle.best.includes(answered)
      const judged = () => (isRight ? "Right: " : "") + verdictOf({...puzzle, mover, top}, answered, top - puzzle.values[answered])
      const verdict = !isAnswered ? "" : answered < 0 ? `Best is *${listed(puzzle.best, columns)}*, with *${signed(top, digitsOf(puzzle.game))}*.` : judged()
      const wrong = isAnswered && !puzzle.tempting.includes(answered)
      const tempting = isAnswered ? ` ${answered >= 0 && !wrong && puzzle.why in REASONS ? `That is the obvious move: ${REASONS[puzzle.why]}.` : temptingText(puzzle)}` : ""
      answer.replaceChildren(...rich(verdict + tempting))
      answer.classList.toggle("right", isRight)
      reveal.hidden = isAnswered
      retry.hidden = next.hidden = !isAnswered
      link.hidden = !linked
      link.href = `#puzzle=${all.indexOf(puzzle) + 1}`
      const right = [...tried.values()].filter(Boolean).length
      score.textContent = tried.size ? `Right at the first try: ${right} of ${tried.size}.` : ""
    }

    function load(list, empty = "There are no puzzles.", hasLinks = false) {
      all = list
      linked = hasLinks
      body.hidden = bar.hidden = !list.length
      nothing.hidden = list.length > 0
      nothing.textContent = empty
      if (!list.length) return
      const levels = [...new Set(list.map((puzzle) => puzzle.level))].filter(Boolean).sort()
      const games = [...new Set(list.map((puzzle) => gameText(puzzle.game)))]
      const number = (test) => ` (${list.filter(test).length})`
      sort.replaceChildren(
        make("option", {value: "a"}, `All${number(() => true)}`),
        ...levels.map((level) => make("option", {value: `l${level}`}, `Level ${level}${number((puzzle) => puzzle.level === level)}`)),
        ...(games.length > 1 ? games.map((game) => make("option", {value: `g${game}`}, game + number((puzzle) => gameText(puzzle.game) === game))) : []),
      )
      sort.hidden = sort.options.length < 2
      choose("a")
    }

    function openNumber(number) {
      if (number < 1 || number > all.length) return false
      sort.value = "a"
      choose("a")
      go(number - 1)
      return true
    }

    /** Ask for an answer, to be given by keys too. */
    function pose(number) {
      go(number)
      board.focus()
    }

    ttt.copyOnClick(link)
    sort.addEventListener("change", () => choose(sort.value))
    back.addEventListener("click", () => go(at - 1))
    forward.addEventListener("click", () => go(at + 1))
    next.addEventListener("click", () => pose(at + 1))
    reveal.addEventListener("click", () => guess(-1))
    retry.addEventListener("click", () => pose(at))
    open.addEventListener("click", () => onOpen(selection[at]))
    return {load, open: openNumber}
  }

  return {createTrainer, verdictOf}
})()
