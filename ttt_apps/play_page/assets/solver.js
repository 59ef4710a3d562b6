// The solver of the page without a server, and the policies there. A game is solved here, with the rules of `rules`; the
// nets and one side of the compressed tables of 3 x 3 were computed by Python.
"use strict"

const solver = (() => {
  const data = JSON.parse(document.getElementById("numbers").textContent) // as ttt_apps/play_page/numbers.py has it
  const MAX_BOARDS = 1e6 // of a game that is solved, by a bound
  const MAX_GAMES = 4 // that are kept ready
  const TIE = 1e-9

  // -------------------------------------------------------------------------------------------------------------------
  // Exact values, by backward induction over all positions

  /** Whether a game is small enough to be solved in a moment. */
  const isSmall = ({rows, columns, gravity}) => (gravity ? (2 ** (rows + 1) - 1) ** columns : 3 ** (rows * columns)) <= MAX_BOARDS

  const resultOf = (outcome) => (outcome === rules.DRAW ? 0 : 1 - 2 * outcome)
  const keyOf = (cells) => cells.reduceRight((key, stone) => 3 * key + stone, 0)

  /** What comes after a move, as `read(key, mover)` has it. */
  const expected = (skip, read, key, mover) => (skip === 0 ? read(key, 1 - mover) : (1 - skip) * read(key, 1 - mover) + skip * read(key, mover))

  /** The values for player o of perfect and of random play, of all positions of a game, by 2 key + mover; and its ends. */
  function solve(game) {
    const {legal, outcomeOf} = rules.of(game)
    const [optimal, random, ends] = [new Map(), new Map(), new Set()]
    const board = rules.start(game).cells
    const powers = board.map((_, cell) => 3 ** cell)
    const ofPerfect = (key, mover) => optimal.get(2 * key + mover)
    const ofRandom = (key, mover) => random.get(2 * key + mover)

    function visit(key, mover, last = null) {
      if (optimal.has(2 * key + mover)) return
      const outcome = outcomeOf(board, last)
      if (outcome !== null) {
        ends.add(key)
        for (const table of [optimal, random]) table.set(2 * key, resultOf(outcome)).set(2 * key + 1, resultOf(outcome))
        return
      }
      const free = legal(board)
      const sign = 1 - 2 * mover
      let [best, sum] = [-Infinity, 0]
      for (const cell of free) {
        const next = key + (mover + 1) * powers[cell]
        board[cell] = mover + 1
        visit(next, 1 - mover, cell)
        if (game.skip_chance > 0) visit(next, mover, cell)
        board[cell] = 0
        best = Math.max(best, sign * expected(game.skip_chance, ofPerfect, next, mover))
        sum += expected(game.skip_chance, ofRandom, next, mover)
      }
      optimal.set(2 * key + mover, sign * best)
      random.set(2 * key + mover, sum / free.length)
    }
    visit(0, 0)
    return {game, legal, outcomeOf, ends, optimal: ofPerfect, random: ofRandom}
  }

  const games = new Map()

  /** The solution of a game, with the numbers of Python, if there are any: {strength, ranks, factors, net, ...}. */
  function of(game) {
    const key = JSON.stringify(game)
    const solution = games.get(key) ?? withNumbers(solve(game))
    games.delete(key) // the last used one is the last
    games.set(key, solution)
    if (games.size > MAX_GAMES) games.delete(games.keys().next().value)
    return solution
  }

  /** The numbers of Python about a game; undefined if there are none. */
  function numbersOf({rows, columns, win_length: win, skip_chance: skip, gravity, misere, torus}) {
    if (rows !== 3 || columns !== 3 || win !== 3 || gravity || misere || torus) return undefined // overlines change nothing
    return data.games.find((numbers) => numbers.skip === skip)
  }

  // -------------------------------------------------------------------------------------------------------------------
  // What Python has computed: nets and compressed tables

  function unpacked(text) {
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0))
    return new Float32Array(bytes.buffer)
  }

  function withNumbers(solution) {
    const numbers = numbersOf(solution.game)
    if (numbers === undefined) return solution
    const {ranks, hidden} = data
    // of each half of the table, the matrix of contents of cells 0 to 3 by those of 4 to 8, its left factor and the rest
    const factors = numbers.svd.map((text, half) => {
      const left = unpacked(text)
      const right = new Float64Array(ranks * 243)
      for (let key = 0; key < 3 ** 9; key++) {
        const mover = numbers.svd.length === 1 && !solution.ends.has(key) && solution.random(key, 1) !== undefined ? 1 : half
        const entry = solution.random(key, mover) ?? 0
        const [row, column] = [key % 81, Math.floor(key / 81)]
        if (entry !== 0) for (let k = 0; k < ranks; k++) right[243 * k + column] += left[ranks * row + k] * entry
      }
      return {left, right}
    })
    const weights = unpacked(numbers.net)
    let from = 0
    const net = [18 * hidden, hidden, hidden * 9, 9].map((size) => weights.subarray(from, (from += size)))
    return {...solution, ...numbers, factors, net}
  }

  /** What the compressed table of a rank holds for a board, in the half of a mover. */
  function compressed({factors}, rank, key, mover) {
    const {left, right} = factors[mover % factors.length]
    const [row, column] = [key % 81, Math.floor(key / 81)]
    let sum = 0
    for (let k = 0; k < rank; k++) sum += left[data.ranks * row + k] * right[243 * k + column]
    return sum
  }

  // the eight images of the board: cell j of an image is cell IMAGES[i][j] of the board
  const IMAGES = Array.from({length: 8}, (_, image) =>
    Array.from({length: 9}, (_, cell) => {
      let [row, column] = [Math.floor(cell / 3), cell % 3]
      if (image & 4) column = 2 - column
      for (let turn = 0; turn < (image & 3); turn++) [row, column] = [column, 2 - row]
      return 3 * row + column
    }),
  )

  /** The net's value of each cell, averaged over the images of the board. */
  function netValues({net: [inward, inwardBias, outward, outwardBias]}, {cells, mover}) {
    const relative = cells.map((stone) => (stone === 0 || mover === 0 ? stone : 3 - stone))
    const total = new Array(9).fill(0)
    for (const image of IMAGES) {
      const units = Float64Array.from(inwardBias)
      image.forEach((cell, place) => {
        if (relative[cell] === 0) return
        const at = ((relative[cell] - 1) * 9 + place) * data.hidden
        units.forEach((_, unit) => (units[unit] += inward[at + unit]))
      })
      image.forEach((cell, place) => {
        const value = units.reduce((sum, unit, index) => sum + Math.max(0, unit) * outward[9 * index + place], outwardBias[place])
        total[cell] += value / IMAGES.length
      })
    }
    return total
  }

  // -------------------------------------------------------------------------------------------------------------------
  // Policies: optimal, table, svd of a rank, the net, and random

  /** The numbers of the moves at a position for its mover, null where no stone may go: those of a table by its name. */
  function movesBy(solution, position, name, rank = data.ranks) {
    const {game, legal, optimal, random} = solution
    const {cells, mover} = position
    const read = {optimal, table: random, svd: (key, next) => compressed(solution, rank, key, next)}[name]
    const whole = name === "net" ? netValues(solution, position) : null
    const worth = (cell) => (1 - 2 * mover) * expected(game.skip_chance, read, keyOf(rules.put(position, cell)), mover)
    const free = legal(cells)
    return cells.map((_, cell) => (free.includes(cell) ? (whole === null ? worth(cell) + 0 : whole[cell]) : null))
  }

  /** The highest of numbers. */
  const highest = (values) => Math.max(...values.filter((value) => value !== null))
  const normal = (shares) => shares.map((share) => share / shares.reduce((sum, part) => sum + part, 0))

  /** The move probabilities of a policy, 0 where no stone may go. */
  function sharesOf(solution, position, {name, rank, w = data.weight}) {
    if (name === "random") {
      const free = solution.legal(position.cells)
      return normal(position.cells.map((_, cell) => Number(free.includes(cell))))
    }
    const values = movesBy(solution, position, name, rank)
    const best = highest(values)
    const isGreedy = name === "optimal" || name === "net"
    return normal(values.map((value) => (value === null ? 0 : isGreedy ? Number(value >= best - TIE) : Math.exp(w * (value - best)))))
  }

  /** The value of a position for player o; its result where the game is over. */
  function valueOf({optimal, outcomeOf}, {cells, mover}) {
    const outcome = outcomeOf(cells)
    return outcome === null ? optimal(keyOf(cells), mover) : resultOf(outcome)
  }

  return {data, isSmall, keyOf, numbersOf, of, movesBy, sharesOf, valueOf, highest}
})()
