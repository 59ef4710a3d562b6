// Puzzles in the explorer: the built-in set, those of a run, and the mistakes of the game on the board.
"use strict"

const practice = (() => {
  const place = find("practice")
  const sources = find("practice-source")
  const trainer = puzzles.createTrainer(find("trainer"), ({game, position}) => {
    location.hash = new URLSearchParams({...fromGame(game), opening: position, o: YOU, x: YOU})
    find("play-title").scrollIntoView({block: "start"})
  })
  let isLoaded = false
  let linkedNumber = null // number of the puzzle that a link names
  const EMPTY = {built: "", game: "No move of this game has lost value.", run: "This run loses nothing in its own games."}

  /** What is asked for a source: the built-in set, the game on the board, or a run by its name. */
  function bodyOf(source) {
    if (source === "built") return {}
    return source === "game" ? {line: lineOf(state)} : {run: source.slice(4)}
  }

  async function load() {
    const source = sources.value
    isLoaded = true
    place.setAttribute("aria-busy", "true")
    find("practice-trouble").textContent = ""
    try {
      const list = (await ask("puzzles", bodyOf(source))).puzzles
      if (source !== sources.value) return
      trainer.load(list, EMPTY[source.split(":")[0]], source === "built")
      if (linkedNumber === null || source !== "built") return
      if (!trainer.open(linkedNumber)) find("practice-trouble").textContent = `There is no puzzle ${linkedNumber}: the set has ${list.length}.`
      linkedNumber = null
      place.scrollIntoView({block: "start"})
    } catch (problem) {
      if (source !== sources.value) return
      trainer.load([], "")
      find("practice-trouble").textContent = sentence(problem.message)
    } finally {
      place.setAttribute("aria-busy", "false")
    }
  }

  /** Show the puzzle that an address names. */
  function follow(address) {
    const match = /^#puzzle=(\d{1,6})$/.exec(new URL(address).hash)
    if (match === null) return
    linkedNumber = Number(match[1])
    if (place.open) open()
    else place.open = true // which is told to open()
  }

  /** Load the first puzzles, or those of a link. */
  function open() {
    if (!place.open || (isLoaded && linkedNumber === null)) return
    if (linkedNumber !== null) sources.value = "built"
    load()
  }

  /** Fill the list of sources, and follow the address. */
  function start() {
    const runs = typeof offline !== "undefined" ? [] : about.runs.filter(({game}) => game !== null).map(({name}) => [`run:${name}`, `The mistakes of ${name}`])
    for (const [value, text] of [["built", "The built-in puzzles"], ["game", "The mistakes of the game on the board"], ...runs]) {
      sources.append(make("option", {value}, text))
    }
    window.addEventListener("hashchange", (event) => follow(event.newURL))
    place.addEventListener("toggle", open)
    sources.addEventListener("change", load)
    find("practice-again").addEventListener("click", load)
    follow(location.href)
  }

  FOREIGN.add("puzzle")
  return {start}
})()
