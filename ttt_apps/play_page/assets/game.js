// The game in the browser: rules, chance, and the opponents' values, from the numbers that Python put into the page.
// Nothing is drawn here. A position is {cells: nine of 0 (empty), 1 (o), 2 (x), mover: 0 (o) or 1 (x)}.
"use strict"

const exact = (() => {
  const CELLS = 9
  const BOARDS = 3 ** CELLS
  const POWERS = Array.from({length: CELLS}, (_, cell) => 3 ** cell)
  const LINES = [[0, 1, 2], [3, 4, 5], [6, 7, 8], [0, 3, 6], [1, 4, 7], [2, 5, 8], [0, 4, 8], [2, 4, 6]]
  const DRAW = 2
  const SKIP = 0
  const OPPONENT = 1
  const TIE = {optimal: 1e-6, net: 1e-9} // values are float32, weights of the net are worked with in float64

  // the eight images of the board: cell j of an image is cell IMAGES[i][j] of the board
  const IMAGES = [0, 1, 2, 3, 4, 5, 6, 7].map((image) =>
    Array.from({length: CELLS}, (_, cell) => {
      let [row, column] = [Math.floor(cell / 3), cell % 3]
      if (image & 4) column = 2 - column
      for (let turn = 0; turn < (image & 3); turn++) [row, column] = [column, 2 - row]
      return 3 * row + column
    }),
  )

  const keyOf = (cells) => cells.reduce((key, stone, cell) => key + stone * POWERS[cell], 0)
  const cellsOf = (key) => POWERS.map((power) => Math.floor(key / power) % 3)
  const start = () => ({cells: new Array(CELLS).fill(0), mover: 0})

  /** The cells of all lines that are complete, none where there are none. */
  const lineOf = (cells) =>
    LINES.filter(([a, b, c]) => cells[a] !== 0 && cells[a] === cells[b] && cells[b] === cells[c]).flat()

  /** The winner, DRAW, or null during the game. */
  function outcomeOf(cells) {
    const line = lineOf(cells)
    if (line.length > 0) return cells[line[0]] - 1
    return cells.includes(0) ? null : DRAW
  }

  function put({cells, mover}, cell) {
    const after = [...cells]
    after[cell] = mover + 1
    return after
  }

  // -------------------------------------------------------------------------------------------------------------------
  // Chance: the same numbers as an episode of the environments has, by splitmix64

  const word = (number) => BigInt.asUintN(64, number)

  function splitmix64(state, n) {
    let z = word(state + (BigInt(n) + 1n) * 0x9e3779b97f4a7c15n)
    z = word((z ^ (z >> 30n)) * 0xbf58476d1ce4e5b9n)
    z = word((z ^ (z >> 27n)) * 0x94d049bb133111ebn)
    return z ^ (z >> 31n)
  }

  /** Number n of a stream of the game of a seed, in [0, 1). */
  function uniform(seed, stream, n) {
    const episodeKey = splitmix64(BigInt(seed), 0)
    return Number(splitmix64(episodeKey, BigInt(stream) * 2n ** 32n + BigInt(n)) >> 11n) / 2 ** 53
  }

  /** A move, and the next mover by the random numbers of the seed: {position, outcome, skipped}. */
  function play(game, position, cell, seed) {
    const cells = put(position, cell)
    const outcome = outcomeOf(cells)
    const stones = position.cells.filter((stone) => stone !== 0).length
    const skipped = outcome === null && game.skip > 0 && uniform(seed, SKIP, stones) < game.skip
    return {position: {cells, mover: skipped ? position.mover : 1 - position.mover}, outcome, skipped}
  }

  /** The cell drawn by the random numbers of the seed. */
  function draw(probabilities, position, seed) {
    let rest = uniform(seed, OPPONENT, position.cells.filter((stone) => stone !== 0).length)
    let chosen = -1
    for (let cell = 0; cell < CELLS; cell++) {
      if (!(probabilities[cell] > 0)) continue
      chosen = cell
      if (rest < probabilities[cell]) break
      rest -= probabilities[cell]
    }
    return chosen
  }

  // -------------------------------------------------------------------------------------------------------------------
  // What Python knows

  function unpacked(text, Kind) {
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0))
    return new Kind(bytes.buffer)
  }

  /** Boards that games end on, by key: their outcome; and whether a position may occur, by 2 key + mover. */
  function reached(skips) {
    const over = new Map()
    const seen = new Uint8Array(2 * BOARDS)
    const open = [start()]
    seen[0] = 1
    while (open.length > 0) {
      const position = open.pop()
      position.cells.forEach((stone, cell) => {
        if (stone !== 0) return
        const cells = put(position, cell)
        const key = keyOf(cells)
        if (over.has(key)) return
        const outcome = outcomeOf(cells)
        if (outcome !== null) return over.set(key, outcome)
        for (const mover of skips ? [0, 1] : [1 - position.mover]) {
          if (seen[2 * key + mover]) continue
          seen[2 * key + mover] = 1
          open.push({cells, mover})
        }
      })
    }
    return {over, seen}
  }

  const resultOf = (outcome) => (outcome === DRAW ? 0 : 1 - 2 * outcome)

  /** One game of the page, ready to be asked: values to player o, Float64Array by 2 key + mover. */
  function readGame(raw, {ranks, weight, hidden}) {
    const {over, seen} = reached(raw.skip > 0)
    const places = unpacked(raw.positions, Uint16Array)
    const tables = {}
    for (const name of ["optimal", "table"]) {
      const values = unpacked(raw[name], Float32Array)
      const table = new Float64Array(2 * BOARDS)
      places.forEach((place, index) => {
        const cells = cellsOf(place >> 1)
        for (const image of IMAGES) table[2 * keyOf(image.map((cell) => cells[cell])) + (place & 1)] = values[index]
      })
      for (const [key, outcome] of over) table[2 * key] = table[2 * key + 1] = resultOf(outcome)
      tables[name] = table
    }
    const halves = raw.skip > 0 ? 2 : 1
    // of each half of the table, the matrix of contents of cells 0 to 3 by those of 4 to 8, its left factor and the rest
    const factors = raw.svd.map((text, half) => {
      const left = unpacked(text, Float32Array)
      const right = new Float64Array(ranks * 243)
      for (let key = 0; key < BOARDS; key++) {
        const entry = halves === 1 && !over.has(key) && seen[2 * key + 1] ? tables.table[2 * key + 1] : tables.table[2 * key + half]
        if (entry === 0) continue
        const [row, column] = [key % 81, Math.floor(key / 81)]
        for (let k = 0; k < ranks; k++) right[243 * k + column] += left[ranks * row + k] * entry
      }
      return {left, right}
    })
    const weights = unpacked(raw.net, Float32Array)
    let from = 0
    const net = [18 * hidden, hidden, hidden * 9, 9].map((size) => weights.subarray(from, (from += size)))
    return {...raw, weight, most: ranks, hidden, tables, factors, net, over, seen}
  }

  /** The games of the page; each is unpacked when it is first asked for. */
  function read(data) {
    const games = []
    return {
      ranks: data.ranks,
      skips: data.games.map(({skip}) => skip),
      game: (index) => (games[index] ??= readGame(data.games[index], data)),
    }
  }

  /** Whether a game comes to a position, and goes on there. */
  const occurs = (game, {cells, mover}) => {
    const key = keyOf(cells)
    return game.seen[2 * key + mover] === 1
  }

  /** What the compressed table of a rank holds for a board, in the half of a mover. */
  function compressed(game, rank, key, mover) {
    const {left, right} = game.factors[mover % game.factors.length]
    const [row, column] = [key % 81, Math.floor(key / 81)]
    let sum = 0
    for (let k = 0; k < rank; k++) sum += left[game.most * row + k] * right[243 * k + column]
    return sum
  }

  /** What the mover's moves lead to, as `read` has it, to player o; NaN where a cell is taken. */
  function afterMoves(game, {cells, mover}, read) {
    const key = keyOf(cells)
    return cells.map((stone, cell) => {
      if (stone !== 0) return NaN
      const after = key + (mover + 1) * POWERS[cell]
      const other = read(after, 1 - mover)
      return game.skip === 0 ? other : (1 - game.skip) * other + game.skip * read(after, mover)
    })
  }

  function netValues(game, {cells, mover}) {
    const {hidden, net: [inward, inwardBias, outward, outwardBias]} = game
    const seen = cells.map((stone) => (stone === 0 || mover === 0 ? stone : 3 - stone))
    const total = new Array(CELLS).fill(0)
    for (const image of IMAGES) {
      const units = Float64Array.from(inwardBias)
      image.forEach((cell, place) => {
        if (seen[cell] === 0) return
        const at = ((seen[cell] - 1) * CELLS + place) * hidden
        for (let unit = 0; unit < hidden; unit++) units[unit] += inward[at + unit]
      })
      const values = Float64Array.from(outwardBias)
      units.forEach((unit, index) => {
        if (unit > 0) for (let place = 0; place < CELLS; place++) values[place] += unit * outward[CELLS * index + place]
      })
      image.forEach((cell, place) => (total[cell] += values[place] / IMAGES.length))
    }
    return total.map((value, cell) => (cells[cell] === 0 ? value : NaN))
  }

  function softmax(values, weight) {
    const best = Math.max(...values.filter((value) => !Number.isNaN(value)))
    const shares = values.map((value) => (Number.isNaN(value) ? 0 : Math.exp(weight * (value - best))))
    const total = shares.reduce((sum, share) => sum + share, 0)
    return shares.map((share) => share / total)
  }

  function greedy(values, tie) {
    const best = Math.max(...values.filter((value) => !Number.isNaN(value)))
    const chosen = values.map((value) => value >= best - tie)
    const count = chosen.filter(Boolean).length
    return chosen.map((one) => (one ? 1 / count : 0))
  }

  /**
   * An opponent's numbers for a position: {values, probabilities}, nine each.
   *
   * values: the value of each move for the mover, NaN where there is none; null for random, which has no values.
   * name: random, table, svd (of a rank), net or optimal.
   */
  function ask(game, name, rank, position) {
    const sign = 1 - 2 * position.mover
    if (name === "random") {
      const free = position.cells.filter((stone) => stone === 0).length
      return {values: null, probabilities: position.cells.map((stone) => (stone === 0 ? 1 / free : 0))}
    }
    if (name === "net") {
      const values = netValues(game, position)
      return {values, probabilities: greedy(values, TIE.net)}
    }
    const read =
      name === "svd" ? (key, mover) => compressed(game, rank, key, mover) : (key, mover) => game.tables[name][2 * key + mover]
    const values = afterMoves(game, position, read).map((value) => sign * value)
    return {values, probabilities: name === "optimal" ? greedy(values, TIE.optimal) : softmax(values, game.weight)}
  }

  /** The value of a position for player o with perfect play by both; its result where the game is over. */
  function value(game, {cells, mover}) {
    const outcome = outcomeOf(cells)
    return outcome === null ? game.tables.optimal[2 * keyOf(cells) + mover] : resultOf(outcome)
  }

  /** How good an opponent is: {exploitability, win, draw, loss}, the last three against perfect play. */
  function strength(game, name, rank) {
    if (name !== "svd") return game.strength[name]
    const {error, compression_ratio, exploitability, win, draw, loss} = game.ranks
    const at = {error, compression_ratio, exploitability, win, draw, loss}
    return Object.fromEntries(Object.entries(at).map(([key, numbers]) => [key, numbers[rank]]))
  }

  return {DRAW, start, cellsOf, keyOf, lineOf, outcomeOf, uniform, play, draw, read, occurs, compressed, ask, value, strength}
})()
