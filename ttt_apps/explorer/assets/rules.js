// The rules of a game, its chance, and a game so far. Nothing is drawn here.
// A game is {rows, columns, win_length, skip_chance, gravity, overlines, misere, torus}; a position is {cells: 0 (empty),
// 1 (o) or 2 (x) for each cell, row by row; mover: 0 (o) or 1 (x)}.
"use strict"

const rules = (() => {
  const DRAW = 2
  const SKIP = 0 // streams of random numbers
  const OPPONENT = 1

  // -------------------------------------------------------------------------------------------------------------------
  // Rules: those of ttt_envs/game/rules.py, with which the tests compare them

  /** Every line of a board: its cells, and those next to its ends that must not hold a stone of the same player. */
  function linesOf({rows, columns, win_length: win, overlines = true, torus = false}) {
    const lines = new Map() // directions may give the same line
    const cellAt = (row, column) => {
      if (torus) [row, column] = [(row + rows) % rows, (column + columns) % columns]
      return row >= 0 && row < rows && column >= 0 && column < columns ? row * columns + column : -1
    }
    const sorted = (cells) => [...new Set(cells)].sort((cell, other) => cell - other)
    for (let start = 0; start < rows * columns; start++) {
      const [row, column] = [Math.floor(start / columns), start % columns]
      for (const [down, right] of [[0, 1], [1, 0], [1, 1], [1, -1]]) {
        const places = Array.from({length: win + 2}, (_, i) => cellAt(row + (i - 1) * down, column + (i - 1) * right))
        const cells = places.slice(1, -1)
        if (cells.includes(-1) || new Set(cells).size < win) continue
        const beyond = overlines ? [] : sorted([places[0], places[win + 1]].filter((cell) => cell >= 0 && !cells.includes(cell)))
        lines.set(`${sorted(cells)}|${beyond}`, {cells, beyond})
      }
    }
    return [...lines.values()]
  }

  /** {legal(cells), lineOf(cells), outcomeOf(cells)} of a game. */
  function of(game) {
    const {columns, gravity = false, misere = false} = game
    const size = game.rows * columns
    const lines = linesOf(game)
    const through = Array.from({length: size}, (_, cell) => lines.filter(({cells}) => cells.includes(cell)))
    const isComplete = ({cells, beyond}, board) => {
      const stone = board[cells[0]]
      return stone !== 0 && cells.every((cell) => board[cell] === stone) && beyond.every((cell) => board[cell] !== stone)
    }
    const isLegal = (board, cell) => board[cell] === 0 && !(gravity && cell + columns < size && board[cell + columns] === 0)
    return {
      /** The cells where a stone may be put. */
      legal: (board) => [...board.keys()].filter((cell) => isLegal(board, cell)),
      /** The cells of all lines that are complete. */
      lineOf: (board) => lines.filter((line) => isComplete(line, board)).flatMap(({cells}) => cells),
      /** The winner, DRAW, or null during the game; with the cell of the last stone, only lines through it are read. */
      outcomeOf(board, last = null) {
        const line = (last === null ? lines : through[last]).find((candidate) => isComplete(candidate, board))
        if (line !== undefined) return misere ? 2 - board[line.cells[0]] : board[line.cells[0]] - 1
        return board.includes(0) ? null : DRAW
      },
    }
  }

  const put = ({cells, mover}, cell) => cells.map((stone, place) => (place === cell ? mover + 1 : stone))
  const start = ({rows, columns}) => ({cells: Array(rows * columns).fill(0), mover: 0})

  // -------------------------------------------------------------------------------------------------------------------
  // Chance: the numbers of an environment's episode, by splitmix64

  function splitmix64(state, n) {
    const word = (number) => BigInt.asUintN(64, number)
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

  /** Whether the turn after a move on a board with so many stones is skipped, unless that ends the game. */
  const skips = (game, stones, seed) => game.skip_chance > 0 && uniform(seed, SKIP, stones) < game.skip_chance

  /** A move as a word of a game so far: its cell, and whether the random numbers of a seed give a skip after it. */
  function wordOf(game, position, cell, seed) {
    const stones = position.cells.filter((stone) => stone !== 0).length
    const isSkipped = of(game).outcomeOf(put(position, cell)) === null && skips(game, stones, seed)
    return ttt.coordinate(cell, game.columns) + (isSkipped ? "+" : "")
  }

  // -------------------------------------------------------------------------------------------------------------------
  // A game so far

  /**
   * Play moves, such as "b2" or, with a skip after it, "b2+"; from a position, or from the empty board.
   *
   * Returns {positions, plies, problem}: a position more than plies, and why the moves from plies.length on are left out,
   * null for none. A position also has {text, outcome, legal, line, last}, the last being the stones that the last mover
   * placed since the other player's last move; a ply is {cell, name, mover, skipped}.
   */
  function replay(game, opening, moves) {
    const {legal, lineOf, outcomeOf} = of(game)
    const {rows, columns} = game
    let [position, last] = [opening ?? start(game), []]
    const [positions, plies] = [[], []]
    const view = () => {
      const outcome = outcomeOf(position.cells)
      const text = ttt.toText({columns, ...position})
      positions.push({...position, text, outcome, last, line: lineOf(position.cells), legal: outcome === null ? legal(position.cells) : []})
      return positions.at(-1)
    }
    view()
    for (const word of moves) {
      const skipped = word.endsWith("+")
      const name = skipped ? word.slice(0, -1) : word
      const match = /^([a-s])([1-9]\d?)$/.exec(name)
      const [column, row] = match ? [match[1].charCodeAt(0) - 97, match[2] - 1] : [columns, rows]
      const cell = column < columns && row < rows ? row * columns + column : -1
      const why = wrong(game, positions.at(-1), cell, skipped)
      if (why !== null) return {positions, plies, problem: `move ${plies.length + 1}, ${name.slice(0, 9)}, is illegal: ${why}`}
      const {mover} = position
      last = plies.length > 0 && plies.at(-1).mover === mover ? [cell, ...last] : [cell]
      position = {cells: put(position, cell), mover: skipped ? mover : 1 - mover}
      plies.push({cell, name, mover, skipped})
      if (view().outcome !== null && skipped) return {positions, plies, problem: "no turn is skipped after the last move"}
    }
    return {positions, plies, problem: null}
  }

  /** Why a move cannot be made; null if it can. */
  function wrong(game, {cells, outcome, legal}, cell, skipped) {
    if (outcome !== null) return "the game is over"
    if (skipped && game.skip_chance === 0) return "the game has no skips"
    if (legal.includes(cell)) return null
    if (cell < 0) return "there is no such cell"
    return cells[cell] !== 0 ? "the cell holds a stone" : "stones fall to the lowest empty cell of their column"
  }

  return {DRAW, OPPONENT, of, put, start, uniform, wordOf, replay}
})()
