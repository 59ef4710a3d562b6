// The game in the browser: rules, chance, exact values, and the opponents' numbers. Nothing is drawn here.
// A position is {cells: 0 (empty), 1 (o) or 2 (x) for each cell, row by row; mover: 0 (o) or 1 (x)}.
"use strict"

const exact = (() => {
  const CELLS = 9 // of the board that the nets and the compressed tables know
  const RULES = ["gravity", "no-overlines", "misere", "torus"]
  /** The fields of a game for names of RULES, and the names for the fields of a game. */
  const toFields = (names) => Object.fromEntries(RULES.map((name) => (name.startsWith("no-") ? [name.slice(3), !names.includes(name)] : [name, names.includes(name)])))
  const toNames = (game) => RULES.filter((name) => (name.startsWith("no-") ? game[name.slice(3)] === false : game[name] === true))
  const DRAW = 2
  const NOT_OVER = -1
  const SKIP = 0
  const OPPONENT = 1
  const TIE = {optimal: 1e-9, net: 1e-9}
  const MAX_GAMES = 4 // that are kept ready

  // the eight images of the board: cell j of an image is cell IMAGES[i][j] of the board
  const IMAGES = [0, 1, 2, 3, 4, 5, 6, 7].map((image) =>
    Array.from({length: CELLS}, (_, cell) => {
      let [row, column] = [Math.floor(cell / 3), cell % 3]
      if (image & 4) column = 2 - column
      for (let turn = 0; turn < (image & 3); turn++) [row, column] = [column, 2 - row]
      return 3 * row + column
    }),
  )

  // -------------------------------------------------------------------------------------------------------------------
  // Rules: those of ttt_envs/game/rules.py, with which the tests compare every position

  /** Every line of a board: its cells, and those next to its ends that must not hold a stone of the same player. */
  function linesOf({rows, columns, win_length: win, overlines, torus}) {
    const found = new Map() // directions may give the same line
    const cellAt = (row, column) => {
      if (torus) [row, column] = [(row + rows) % rows, (column + columns) % columns]
      return row >= 0 && row < rows && column >= 0 && column < columns ? row * columns + column : -1
    }
    for (let row = 0; row < rows; row++) {
      for (let column = 0; column < columns; column++) {
        for (const [down, right] of [[0, 1], [1, 0], [1, 1], [1, -1]]) {
          const places = Array.from({length: win + 2}, (_, i) => cellAt(row + (i - 1) * down, column + (i - 1) * right))
          const cells = places.slice(1, -1)
          if (cells.includes(-1) || new Set(cells).size < win) continue
          const ends = overlines ? [] : [places[0], places[win + 1]].filter((cell) => cell >= 0 && !cells.includes(cell))
          const line = {cells, beyond: [...new Set(ends)].sort((one, other) => one - other)}
          found.set(`${[...cells].sort((one, other) => one - other)}|${line.beyond}`, line)
        }
      }
    }
    return [...found.values()]
  }

  /**
   * Keys of boards, from 0 for the empty one; a stone only increases the key. They are base-3 numbers, or with gravity
   * numbers of one digit for each column: the stones of a column from below, as bits, after all lower columns.
   */
  function keysOf({rows, columns, gravity}) {
    const size = rows * columns
    if (!gravity) {
      const powers = Array.from({length: size}, (_, cell) => 3 ** cell)
      return {
        boards: 3 ** size,
        keyOf: (cells) => cells.reduce((key, stone, cell) => key + stone * powers[cell], 0),
        cellsOf: (key) => powers.map((power) => Math.floor(key / power) % 3),
      }
    }
    const contents = 2 ** (rows + 1) - 1
    const powers = Array.from({length: columns}, (_, column) => contents ** column)
    const digitOf = (cells, column) => {
      let [height, bits] = [0, 0]
      for (let cell = size - columns + column; cell >= 0 && cells[cell] !== 0; cell -= columns) bits += (cells[cell] - 1) << height++
      return (1 << height) - 1 + bits
    }
    const stacks = Array.from({length: contents}, (_, digit) => {
      const height = 31 - Math.clz32(digit + 1)
      return Array.from({length: height}, (_, level) => 1 + (((digit + 1) >> level) & 1))
    })
    return {
      boards: contents ** columns,
      keyOf: (cells) => powers.reduce((key, power, column) => key + power * digitOf(cells, column), 0),
      cellsOf: (key) => {
        const cells = new Array(size).fill(0)
        powers.forEach((power, column) => {
          stacks[Math.floor(key / power) % contents].forEach((stone, level) => (cells[size - (level + 1) * columns + column] = stone))
        })
        return cells
      },
    }
  }

  /** The rules of a game {rows, columns, win_length, gravity, overlines, misere, torus}. */
  function rulesOf(game) {
    const {rows, columns, gravity = false, misere = false} = game
    const size = rows * columns
    const lines = linesOf(game)
    const isFull = ({cells, beyond}, board, stone) => cells.every((cell) => board[cell] === stone) && beyond.every((cell) => board[cell] !== stone)
    const complete = (board) => lines.filter((line) => board[line.cells[0]] !== 0 && isFull(line, board, board[line.cells[0]]))
    const isLegal = (board, cell) => board[cell] === 0 && !(gravity && cell + columns < size && board[cell + columns] === 0)
    return {
      ...game,
      size,
      ...keysOf(game),
      start: () => ({cells: new Array(size).fill(0), mover: 0}),
      /** The cells where a stone may be put. */
      legal: (board) => [...board.keys()].filter((cell) => isLegal(board, cell)),
      /** The cells of all lines that are complete, none where there are none. */
      lineOf: (board) => complete(board).flatMap(({cells}) => cells),
      /** The winner, DRAW, or null during the game. */
      outcomeOf: (board) => {
        const line = lines.find((one) => board[one.cells[0]] !== 0 && isFull(one, board, board[one.cells[0]]))
        if (line !== undefined) return misere ? 2 - board[line.cells[0]] : board[line.cells[0]] - 1
        return board.includes(0) ? null : DRAW
      },
    }
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
    const outcome = game.rules.outcomeOf(cells)
    const stones = position.cells.filter((stone) => stone !== 0).length
    const skipped = outcome === null && game.skip > 0 && uniform(seed, SKIP, stones) < game.skip
    return {position: {cells, mover: skipped ? position.mover : 1 - position.mover}, outcome, skipped}
  }

  /** The cell drawn by the random numbers of the seed. */
  function draw(probabilities, position, seed) {
    let rest = uniform(seed, OPPONENT, position.cells.filter((stone) => stone !== 0).length)
    let chosen = -1
    for (let cell = 0; cell < probabilities.length; cell++) {
      if (!(probabilities[cell] > 0)) continue
      chosen = cell
      if (rest < probabilities[cell]) break
      rest -= probabilities[cell]
    }
    return chosen
  }

  // -------------------------------------------------------------------------------------------------------------------
  // Exact values, by backward induction over all positions

  const resultOf = (outcome) => (outcome === DRAW ? 0 : 1 - 2 * outcome)

  /** By key the outcome of boards that games end on, else NOT_OVER; and by 2 key + mover whether a game comes there and
   *  goes on. */
  function explore(rules, skips) {
    const over = new Int8Array(rules.boards).fill(NOT_OVER)
    const seen = new Uint8Array(2 * rules.boards)
    seen[0] = 1
    for (let key = 0; key < rules.boards; key++) {
      if (!seen[2 * key] && !seen[2 * key + 1]) continue
      const cells = rules.cellsOf(key)
      const outcome = rules.outcomeOf(cells)
      if (outcome !== null) {
        over[key] = outcome
        seen[2 * key] = seen[2 * key + 1] = 0
        continue
      }
      const free = rules.legal(cells)
      for (const mover of [0, 1]) {
        if (!seen[2 * key + mover]) continue
        for (const cell of free) {
          const after = rules.keyOf(put({cells, mover}, cell))
          seen[2 * after + 1 - mover] = 1
          if (skips) seen[2 * after + mover] = 1
        }
      }
    }
    return {over, seen}
  }

  /** The values of perfect and of random play for player o, Float64Array by 2 key + mover. */
  function backward(rules, skip, {over, seen}) {
    const [optimal, table] = [0, 1].map(() => new Float64Array(2 * rules.boards))
    for (let key = rules.boards - 1; key >= 0; key--) {
      if (over[key] !== NOT_OVER) {
        for (const values of [optimal, table]) values[2 * key] = values[2 * key + 1] = resultOf(over[key])
        continue
      }
      if (!seen[2 * key] && !seen[2 * key + 1]) continue
      const cells = rules.cellsOf(key)
      const free = rules.legal(cells)
      for (const mover of [0, 1]) {
        const place = 2 * key + mover
        if (!seen[place]) continue
        optimal[place] = -Infinity
        for (const cell of free) {
          const after = 2 * rules.keyOf(put({cells, mover}, cell))
          const worth = (values) => (skip === 0 ? values[after + 1 - mover] : (1 - skip) * values[after + 1 - mover] + skip * values[after + mover])
          optimal[place] = Math.max(optimal[place], (1 - 2 * mover) * worth(optimal))
          table[place] += worth(table) / free.length
        }
        optimal[place] *= 1 - 2 * mover
      }
    }
    return {optimal, table}
  }

  // -------------------------------------------------------------------------------------------------------------------
  // What Python has computed: nets, compressed tables, and how strong opponents are

  function unpacked(text, Kind) {
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0))
    return new Kind(bytes.buffer)
  }

  /** The factors of the compressed table and the weights of the net, of a game of 3 x 3. */
  function readPlayers(raw, {ranks, hidden}, {over, seen}, table) {
    const halves = raw.skip > 0 ? 2 : 1
    // of each half of the table, the matrix of contents of cells 0 to 3 by those of 4 to 8, its left factor and the rest
    const factors = raw.svd.map((text, half) => {
      const left = unpacked(text, Float32Array)
      const right = new Float64Array(ranks * 243)
      for (let key = 0; key < over.length; key++) {
        const entry = halves === 1 && over[key] === NOT_OVER && seen[2 * key + 1] ? table[2 * key + 1] : table[2 * key + half]
        if (entry === 0) continue
        const [row, column] = [key % 81, Math.floor(key / 81)]
        for (let k = 0; k < ranks; k++) right[243 * k + column] += left[ranks * row + k] * entry
      }
      return {left, right}
    })
    const weights = unpacked(raw.net, Float32Array)
    let from = 0
    const net = [18 * hidden, hidden, hidden * 9, 9].map((size) => weights.subarray(from, (from += size)))
    return {factors, net}
  }

  /** The games of the page; each is solved when it is first asked for. */
  function read(data) {
    const games = new Map()
    // on 3 x 3 no line is longer than three, so that overlines change nothing
    const nameOf = (board, names) => names.filter((name) => !(board === "3x3" && name === "no-overlines")).join(".")

    function make(board, names, skip) {
      const {gravity: falls, ...size} = data.boards[board]
      const rules = rulesOf({...size, ...toFields(falls ? ["gravity", ...names] : names)})
      const found = explore(rules, skip > 0)
      const tables = backward(rules, skip, found)
      const named = nameOf(board, names)
      const raw = board === "3x3" ? data.games.find((one) => one.skip === skip && one.rules === named) : undefined
      const players = raw?.svd ? readPlayers(raw, data, found, tables.table) : {}
      return {...raw, ...found, ...players, rules, tables, skip, value: tables.optimal[0], weight: data.weight, most: data.ranks, hidden: data.hidden}
    }

    return {
      ranks: data.ranks,
      skips: data.skips,
      boards: data.boards,
      /** A game by the name of its board, the names of its rules and the index of its skip chance. */
      game(board, names, index) {
        const key = [board, ...names, index].join()
        const found = games.get(key) ?? make(board, names, data.skips[index])
        games.delete(key) // the last used one is the last
        games.set(key, found)
        if (games.size > MAX_GAMES) games.delete(games.keys().next().value)
        return found
      },
    }
  }

  /** Whether a game comes to a position, and goes on there. */
  const occurs = (game, {cells, mover}) => game.seen[2 * game.rules.keyOf(cells) + mover] === 1

  /** What the compressed table of a rank holds for a board, in the half of a mover. */
  function compressed(game, rank, key, mover) {
    const {left, right} = game.factors[mover % game.factors.length]
    const [row, column] = [key % 81, Math.floor(key / 81)]
    let sum = 0
    for (let k = 0; k < rank; k++) sum += left[game.most * row + k] * right[243 * k + column]
    return sum
  }

  /** What the mover's moves lead to, as `read` has it, to player o; NaN where there is none. */
  function afterMoves({rules, skip}, {cells, mover}, read) {
    const values = cells.map(() => NaN)
    for (const cell of rules.legal(cells)) {
      const after = rules.keyOf(put({cells, mover}, cell))
      const other = read(after, 1 - mover)
      values[cell] = skip === 0 ? other : (1 - skip) * other + skip * read(after, mover)
    }
    return values
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
   * An opponent's numbers for a position: {values, probabilities}, one for each cell.
   *
   * values: the value of each move for the mover, NaN where there is none; null for random, which has no values.
   * name: random, table, svd (of a rank), net or optimal.
   */
  function ask(game, name, rank, position) {
    const sign = 1 - 2 * position.mover
    if (name === "random") {
      const free = game.rules.legal(position.cells)
      return {values: null, probabilities: position.cells.map((_, cell) => (free.includes(cell) ? 1 / free.length : 0))}
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
  function value({rules, tables}, {cells, mover}) {
    const outcome = rules.outcomeOf(cells)
    return outcome === null ? tables.optimal[2 * rules.keyOf(cells) + mover] : resultOf(outcome)
  }

  /** Whether an opponent plays a game: the net and the compressed table know the standard game of 3 x 3. */
  const plays = (game, name) => game.factors !== undefined || !["svd", "net"].includes(name)

  /** How good an opponent is: {exploitability, win, draw, loss}, the last three against perfect play; null if unknown. */
  function strength(game, name, rank) {
    if (!plays(game, name)) return null
    if (name !== "svd") return game.strength?.[name] ?? null
    const {error, compression_ratio, exploitability, win, draw, loss} = game.ranks
    const at = {error, compression_ratio, exploitability, win, draw, loss}
    return Object.fromEntries(Object.entries(at).map(([key, numbers]) => [key, numbers[rank]]))
  }

  return {DRAW, RULES, toNames, rulesOf, uniform, play, draw, read, occurs, compressed, ask, plays, value, strength}
})()
