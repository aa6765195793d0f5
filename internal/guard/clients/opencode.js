// powerbox guard: every tool call is decided by the guard before it runs. A guard that cannot
// be asked is a no. Written by powerbox guard install; remove it with powerbox guard uninstall.
import { spawnSync } from "node:child_process"

const binary = "powerbox"

function ask(message) {
  const run = spawnSync(binary, ["guard", "hook", "opencode"], { input: JSON.stringify(message), encoding: "utf8", timeout: 60000 })
  if (run.error || run.status !== 0) {
    throw new Error(`powerbox guard cannot be asked, so nothing runs: ${run.error?.message ?? run.stderr}`)
  }
  return JSON.parse(run.stdout)
}

export const PowerboxGuard = async ({ client, directory }) => {
  const parents = new Map() // session -> the session that started it, "" for none

  // A session that is not known is looked up: a sub-agent must not pass for a session of its own.
  async function parentOf(id) {
    if (!parents.has(id)) {
      const found = await client.session.get({ path: { id } })
      if (!found?.data) throw new Error("powerbox guard: the session is not known, so nothing runs")
      parents.set(id, found.data.parentID ?? "")
    }
    return parents.get(id)
  }

  async function holder(id) {
    const parent = await parentOf(id)
    if (!parent) return { root: id, agent: "", parent: "" }
    let root = parent
    for (let up = await parentOf(root); up; up = await parentOf(root)) root = up
    return { root, agent: id, parent: parent === root ? "" : parent }
  }

  return {
    event: async ({ event }) => {
      const info = event.properties?.info
      if (event.type === "session.created") {
        parents.set(info.id, info.parentID ?? "")
        const who = await holder(info.id)
        ask({ hook: who.agent ? "subagent.started" : "session.created", directory, ...who })
      } else if (event.type === "session.idle" || event.type === "session.deleted") {
        const id = info?.id ?? event.properties.sessionID
        const who = await holder(id)
        if (who.agent) ask({ hook: "subagent.ended", directory, ...who })
        else if (event.type === "session.deleted") ask({ hook: "session.deleted", directory, ...who })
      }
    },
    "tool.execute.before": async (input, output) => {
      const answer = ask({ hook: "tool.execute.before", directory, tool: input.tool, call: input.callID, args: output.args, ...(await holder(input.sessionID)) })
      if (answer.decision !== "allow") throw new Error(answer.reason)
    },
    "tool.execute.after": async (input) => {
      ask({ hook: "tool.execute.after", directory, tool: input.tool, call: input.callID, args: input.args, ...(await holder(input.sessionID)) })
    },
  }
}
