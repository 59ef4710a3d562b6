// The exact strength of the opponents, below the game of the page without a server.
"use strict"

{
  const NAMES = {random: "random", table: "table", svd: "compressed table", net: "learned net", optimal: "perfect play"}
  let drawnFor = ""

  /** How good an opponent is: {exploitability, win, draw, loss}. */
  function strengthOf({strength, ranks}, name) {
    if (name !== "svd") return strength[name]
    return Object.fromEntries(Object.entries(ranks).map(([key, numbers]) => [key, numbers[rankNow()]]))
  }

  const rankNow = () => state.rank ?? 18

  function barOf({win, draw, loss}) {
    const bar = make("div", {class: "shares", role: "img", "aria-label": [win, draw, loss].map(ttt.percent).join(", ")})
    for (const [kind, share] of Object.entries({win, draw, loss})) {
      const part = make("span", {class: kind}, share >= 0.13 ? ttt.percent(share) : "")
      part.style.flexGrow = share
      bar.append(part)
    }
    return bar
  }

  function draw() {
    const key = JSON.stringify([gameOf(state), rankNow()])
    if (key === drawnFor) return
    drawnFor = key
    const numbers = solver.numbersOf(gameOf(state))
    const rated = numbers === undefined ? [] : Object.keys(NAMES)
    const rows = rated.map((name) => {
      const strength = strengthOf(numbers, name)
      const words = [ttt.signed(strength.win - strength.loss, 3), strength.exploitability.toFixed(3)].map((text) => make("td", {}, text))
      const title = name === "svd" ? `${NAMES[name]}, rank ${rankNow()}` : NAMES[name]
      return make("tr", {}, make("th", {scope: "row"}, title), make("td", {}, barOf(strength)), ...words)
    })
    find("table").tBodies[0].replaceChildren(...rows)
    find("table").hidden = rows.length === 0
    const rules = `${ttt.rulesText(gameOf(state))}, ${state.skip === 0 ? "without skips" : `with ${ttt.percent(state.skip)} skips`}`
    const missing = ` It is listed for 3 \u00d7 3 by the standard rules with a chance of a skip of ${solver.data.skips.map(ttt.percent).join(", ")}.`
    find("strengths-about").textContent = `${state.rows} \u00d7 ${state.columns}, ${rules}.${rows.length ? "" : missing}`
  }

  document.addEventListener("drawn", draw)
  find("tasks").addEventListener("click", (event) => event.target.closest("a") && find("play-title").scrollIntoView())
}
