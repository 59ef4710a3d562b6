// The answers of the page without a server: what ttt_apps/explorer/api.py answers, computed here.
"use strict"

const offline = (() => {
  const {data} = solver
  const NET = "learned-net" // the run of the net
  const setting = (value, high, whole, about) => ({default: value, low: 0, high, whole, about})
  const RANK = setting(18, data.ranks, true, "of the approximation")
  const W = setting(data.weight, 1000, false, "how much the table weighs")
  const POLICIES = {random: {}, table: {w: W}, svd: {rank: RANK, w: W}, optimal: {}, run: {}}
  const SERVED = "only with play.py web"
  const STANDARD = `3 \u00d7 3 by the standard rules, with a chance of a skip of ${data.skips.map(ttt.percent).join(", ")}`
  const SMALL = "up to 12 cells, or 4 \u00d7 4 with gravity"

  const replayOf = ({game, opening, moves}) => rules.replay(game, opening && ttt.fromText(opening), moves.split(" ").filter(Boolean))
  /** Whether the net and the compressed table know a game. */
  const hasPlayers = (game) => solver.numbersOf(game) !== undefined

  function solutionOf(game) {
    if (!solver.isSmall(game)) throw new Error(`this page solves boards of ${SMALL}`)
    return solver.of(game)
  }

  /** The position, which must come from a game. */
  function checked({cells, mover}, {optimal}) {
    if (optimal(solver.keyOf(cells), mover) === undefined) throw new Error("the position comes from no game")
    return {cells, mover}
  }

  /** The name and the settings of a policy, as sharesOf takes them. */
  function policyOf(spec) {
    const [name, given] = partsOf(spec)
    if (!(name in POLICIES)) throw new Error(`there is no policy ${name} here: choose ${Object.keys(POLICIES).join(", ")}`)
    const settings = Object.fromEntries(Object.entries(given).map(([key, value]) => [key, Number(value)]))
    return name === "run" ? {name: "net"} : {rank: RANK.default, ...settings, name}
  }

  const about = () => ({
    edge: 12,
    most_skips: 0.5,
    methods: ["svd"],
    link: "skip=0.25&x=table&show=none&panels=",
    policies: POLICIES,
    runs: [{name: NET}],
  })

  /** What is known of a game: which panels and policies it has, and exact values of its positions and moves, for o. */
  function review(line) {
    const {game} = line
    const standard = hasPlayers(game) ? {} : {compressed: STANDARD, run: STANDARD}
    const refused = {prove: SERVED, search: SERVED, mcts: SERVED, ...standard}
    const isSmall = solver.isSmall(game)
    const unplayable = hasPlayers(game) ? {} : {svd: STANDARD, run: STANDARD}
    const facts = {refused, unplayable, opponent: "table", exact: isSmall ? "now" : "none", values: null, plies: null}
    if (!isSmall) {
      for (const kind of ["exact", "random", "policy"]) refused[kind] = SMALL
      for (const name of ["table", "optimal"]) unplayable[name] = SMALL
      return {...facts, opponent: "random"}
    }
    const solution = solutionOf(game)
    const {positions, plies} = replayOf(line)
    const signs = positions.map(({mover}) => 1 - 2 * mover)
    const values = positions.map((position) => solver.valueOf(solution, checked(position, solution)) + 0)
    return {
      ...facts,
      values,
      plies: plies.map(({cell}, number) => {
        const ofMoves = solver.movesBy(solution, positions[number], "optimal")
        const best = bestCells(ofMoves)
        const luck = values[number + 1] - signs[number] * ofMoves[cell]
        return {loss: best.includes(cell) ? 0 : solver.highest(ofMoves) - ofMoves[cell], luck, best}
      }),
    }
  }

  const bestCells = (values) => [...values.keys()].filter((cell) => values[cell] !== null && values[cell] >= solver.highest(values) - 1e-9)

  /** The cell that a policy plays, drawn by the random numbers of the seed. */
  function move({seed, policy, ...line}) {
    const {game} = line
    const position = replayOf(line).positions.at(-1)
    const solution = solver.isSmall(game) ? solutionOf(game) : rules.of(game)
    const shares = solver.sharesOf(solution, solution.optimal ? checked(position, solution) : position, policyOf(policy))
    const stones = position.cells.filter((stone) => stone !== 0).length
    let rest = rules.uniform(seed, rules.OPPONENT, stones)
    const drawn = position.legal.find((cell) => (rest -= shares[cell]) < 0)
    return {cell: drawn ?? position.legal.findLast((cell) => shares[cell] > 0)}
  }

  /** The numbers of the moves of a position, by one panel. */
  function values({game, position: text, panel}) {
    const solution = solutionOf(game)
    const position = checked(ttt.fromText(text), solution)
    const exact = solver.movesBy(solution, position, "optimal")
    if (panel.kind === "exact") {
      return {values: exact, word: "value", notes: [`The value of best play is ${ttt.signed(solver.highest(exact), 3)} for the mover.`]}
    }
    if (panel.kind === "policy") {
      const shares = solver.sharesOf(solution, position, policyOf(panel.policy))
      const loss = shares.reduce((sum, share, cell) => sum + (share > 0 ? share * (solver.highest(exact) - exact[cell]) : 0), 0)
      const notes = ["Its move probabilities.", `On average it loses ${loss.toFixed(3)} of the value here.`]
      return {values: exact.map((value, cell) => (value === null ? null : shares[cell])), word: "probability", notes}
    }
    if (panel.kind === "random") {
      return {values: solver.movesBy(solution, position, "table"), word: "value", notes: ["The values if both play at random."]}
    }
    if (panel.kind === "run") {
      return {values: solver.movesBy(solution, position, "net"), word: "value", notes: ["Its learned values of the moves.", solution.training]}
    }
    const rank = Math.min(panel.rank ?? RANK.default, data.ranks)
    const {compression_ratio: ratio, error, exploitability} = solution.ranks
    const notes = [`${ttt.percent(ratio[rank])} of the table's numbers; relative error ${error[rank].toFixed(3)}, exploitability ${exploitability[rank].toFixed(3)}.`]
    const ofMoves = solver.movesBy(solution, position, "svd", rank)
    return {values: ofMoves, word: "value", notes, rank, largest_rank: data.ranks, curves: {error, exploitability}}
  }

  /** The puzzles of the set, or the mistakes of a game. */
  function ofPuzzles({line}) {
    if (!line) return {puzzles: data.puzzles}
    const solution = solutionOf(line.game)
    const {positions, plies} = replayOf(line)
    const facts = review(line)
    const mistakes = plies.map((ply, number) => ({...ply, ...facts.plies[number], ...positions[number]})).filter(({loss}) => loss > 1e-6)
    return {
      puzzles: mistakes.map(({cell, mover, cells, text, loss, best}) => {
        const ofMoves = solver.movesBy(solution, {cells, mover}, "optimal")
        const replies = ofMoves.map((value, place) => {
          const next = {cells: rules.put({cells, mover}, place), mover: 1 - mover}
          if (value === null || solution.outcomeOf(next.cells) !== null) return []
          return bestCells(solver.movesBy(solution, next, "optimal"))
        })
        return {game: line.game, position: text, values: ofMoves, best, tempting: [cell], why: "ox"[mover], loss, replies, wrong: {}, level: 0}
      }),
    }
  }

  const ways = {about, review, move, values, puzzles: ofPuzzles}

  /** Answer a question, when the page has drawn what it knows. */
  async function answer(name, body) {
    await new Promise((resolve) => setTimeout(resolve))
    return ways[name](body)
  }

  return {answer}
})()
